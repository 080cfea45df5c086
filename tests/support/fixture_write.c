// SPDX-License-Identifier: BSD-2-Clause
/* Writes a profile for the tests of the commands: fixture_write KIND FILE. KINDS names them. */
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/profile_fixture.h"
#include "base/buildid.h"
#include "base/err.h"
#include "values/hotlist.h"
#include "store/store.h"
#include "store/store_profile.h"
#include "symbols/symbols.h"

#define OR_RETURN(call)                                                                            \
	do {                                                                                       \
		int err_ = (call);                                                                 \
		if (err_)                                                                          \
			return err_;                                                               \
	} while (0)

static void hostile(struct fixture *f)
{
	uint32_t module, symbol, location;

	fixture_init(f);
	module = fixture_module(f, MODULE_ELF, "/tmp/a\x1b]0;owned\x07;\xc2\x9b[31mb", "");
	fixture_thread(f, fixture_process(f, 7, -1, "ev\xffil\x1b[31m"), 7, "ev\xffil;\n\x1b[31m");
	symbol = fixture_symbol(f, module, "f\xe2\x80\xae;\"\\\xc0\xaf\r\n<T>", 0x10, 0x10);
	location = fixture_location(f, module, 0x14);
	fixture_frame(f, symbol, fixture_file(f, "/no/\xf0\x28\x8c\x28/dir\n.c"), 3);
	fixture_sample(f, 1, fixture_stack(f, 0, location), 3, 0);
	fixture_loss(f, "ring_full", "ring", 1);
	fixture_finish(f);
}

/* The demonstration with more of fib: what diff should find. */
static void changed(struct fixture *f)
{
	fixture_demo(f);
	f->samples.items[1].count = 500;
	fixture_finish(f);
}

static void unfinished(struct fixture *f)
{
	fixture_demo(f);
	f->profile.finished = false;
}

static void demo(struct fixture *f)
{
	fixture_demo(f);
}

static void values(struct fixture *f)
{
	fixture_values(f);
}

static void corrupt(struct fixture *f)
{
	fixture_corrupt(f);
}

/* What the code of the kind self reads: its values never change, but one of them could. */
const double self_constant = 0.25;
int self_variable = 7;

static int self_base(struct dl_phdr_info *info, size_t size, void *ret)
{
	*(uint64_t *)ret = info->dlpi_addr;
	return 1;
}

static void self_site(struct fixture *f, uint32_t symbol, uint64_t address, uint64_t value)
{
	struct profile_value row = { .item = 1, .width = 64, .runs = 100, .total = 100 };
	uint8_t blob[HOTLIST_BLOB_MAX];
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .seed = 1 });
	for (unsigned i = 0; i < 100; i++)
		hotlist_add(&list, &value);
	row.location = fixture_location(f, 1, address);
	fixture_frame(f, symbol, 0, 0);
	fixture_value(f, &row, blob, hotlist_encode(&list, blob));
	hotlist_deinit(&list);
}

/*
 * A profile of this program itself, of which the file is there, and a function that it does not
 * have:
 *	movsd xmm0, [self_constant]; mov eax, [self_variable]
 */
static uint8_t self_code[14] = { 0xf2, 0x0f, 0x10, 0x05, [8] = 0x8b, 0x05 };

static void self_operand(size_t end, uint64_t code, uint64_t object)
{
	int32_t offset = (int32_t)(object - code - end);

	memcpy(self_code + end - sizeof(offset), &offset, sizeof(offset));
}

static void self(struct fixture *f)
{
	uint64_t base = 0, code = 0x100000;
	static char path[PATH_MAX], hex[BUILD_ID_HEX_MAX];
	AUTO(close_fd) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct build_id id;
	uint32_t symbol;

	dl_iterate_phdr(self_base, &base);
	self_operand(8, code, (uint64_t)&self_constant - base);
	self_operand(14, code, (uint64_t)&self_variable - base);
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0 || elf_build_id(fd, &id))
		abort();
	build_id_hex(&id, hex);
	fixture_init(f);
	fixture_module(f, MODULE_ELF, path, hex);
	fixture_thread(f, fixture_process(f, 7, 0, "self"), 7, "self");
	symbol = fixture_symbol(f, 1, "made", code, sizeof(self_code));
	fixture_item(f, "result", "instruction", 1);
	fixture_fact(f, RECORDING_VALUES, "values", "result");
	fixture_recording(f, RECORDING_VALUES)->seen = 100;
	fixture_recording(f, RECORDING_VALUES)->kept = 100;
	self_site(f, symbol, code, 0x3fd0000000000000);
	self_site(f, symbol, code + 8, 7);
	fixture_finish(f);
}

static void empty(struct fixture *f)
{
	fixture_init(f);
	fixture_finish(f);
}

static void recursive(struct fixture *f)
{
	fixture_random(f, 11, &(struct fixture_size){ 4, 12, 80, 500, 400, 5 });
}

/* As large as an hour of two busy CPUs. */
static void large(struct fixture *f)
{
	fixture_random(f, 5, &(struct fixture_size){ 40, 8000, 40000, 300000, 300000, 40 });
}

#define KINDS(X)                                                                                   \
	X(demo)                                                                                    \
	X(changed)                                                                                 \
	X(hostile)                                                                                 \
	X(unfinished)                                                                              \
	X(values)                                                                                  \
	X(corrupt)                                                                                 \
	X(self)                                                                                    \
	X(empty)                                                                                   \
	X(recursive)                                                                               \
	X(large)

static int code_store(struct store *store, const struct profile *p)
{
	/* fib: push rbp; mov rbp, rsp; nop; sub edi, 1; ... call fib; ret */
	static const uint8_t fib[] = { 0x55, 0x48, 0x89, 0xe5, 0x90, 0x83, 0xef, 0x01, 0x0f,
				       0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0f, 0x1f,
				       0x40, 0x00, 0xe8, 0xe7, 0xff, 0xff, 0xff, 0x5d, 0xc3 };

	for (uint32_t i = 1; i < p->symbol_count; i++) {
		if (!strcmp(p->symbols[i].name, "fib"))
			OR_RETURN(store_symbol_code_put(store, (struct symbol_id){ i }, fib,
							sizeof(fib)));
		if (!strcmp(p->symbols[i].name, "made"))
			OR_RETURN(store_symbol_code_put(store, (struct symbol_id){ i }, self_code,
							sizeof(self_code)));
		if (!strcmp(p->symbols[i].name, "poly"))
			OR_RETURN(store_symbol_code_put(store, (struct symbol_id){ i },
							fixture_poly, sizeof(fixture_poly)));
	}
	return 0;
}

static int profile_write(const struct profile *p, const char *path)
{
	AUTO(store_destroy_auto) struct store *store = NULL;

	OR_RETURN(store_create(path, &store));
	OR_RETURN(store_profile_put(store, p));
	OR_RETURN(code_store(store, p));
	return p->finished ? store_finish(store) : store_commit(store);
}

int main(int argc, char **argv)
{
	void (*make)(struct fixture * f) = NULL;
	struct fixture fixture;
	int err;

#define X(name)                                                                                    \
	if (argc == 3 && !strcmp(argv[1], #name))                                                  \
		make = name;
	KINDS(X)
#undef X
	if (!make)
		return 2;
	make(&fixture);
	err = profile_write(&fixture.profile, argv[2]);
	if (err)
		fprintf(stderr, "fixture_write: %s\n", err_text());
	fixture_deinit(&fixture);
	return err ? 1 : 0;
}
