// SPDX-License-Identifier: BSD-2-Clause
/* Writes a profile for the tests of the commands: fixture_write KIND FILE. KINDS names them. */
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/fixture.h"
#include "base/buildid.h"
#include "base/err.h"
#include "profile/hotlist.h"
#include "store/store.h"
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
	module = fixture_module(f, MODULE_ELF, "/tmp/a\x1b]0;owned\x07;b", "");
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
 * A profile of this program itself, of which the file is there, and a function that it does not have:
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
	fixture_meta(f, "values", "result");
	fixture_meta(f, "runs_seen", "100");
	fixture_meta(f, "runs_kept", "100");
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

static int tasks_store(struct store *store, const struct profile *p)
{
	for (uint32_t i = 1; i < p->process_count; i++) {
		const struct profile_process *row = &p->processes[i];

		OR_RETURN(store_process_put(store, &(struct store_process){
							   .id = { i },
							   .pid = row->pid,
							   .ppid = row->ppid,
							   .uid = (uint32_t)row->uid,
							   .gid = (uint32_t)row->gid,
							   .euid = (uint32_t)row->euid,
							   .egid = (uint32_t)row->egid,
							   .comm = row->comm,
						   }));
	}
	for (uint32_t i = 1; i < p->thread_count; i++)
		OR_RETURN(store_thread_put(store, &(struct store_thread){
							  .id = { i },
							  .process = { p->threads[i].process },
							  .tid = p->threads[i].tid,
							  .comm = p->threads[i].comm,
						  }));
	return 0;
}

static struct build_id build_id_parse(const char *hex)
{
	struct build_id id = {};
	unsigned int byte;

	while (sscanf(hex + 2 * id.size, "%2x", &byte) == 1)
		id.bytes[id.size++] = (uint8_t)byte;
	return id;
}

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

static int names_store(struct store *store, const struct profile *p)
{
	for (uint32_t i = 1; i < p->file_count; i++)
		OR_RETURN(store_file_put(store, (struct file_id){ i }, p->files[i]));
	for (uint32_t i = 1; i < p->symbol_count; i++)
		OR_RETURN(store_symbol_put(store, &(struct store_symbol){
							  .id = { i },
							  .module = { p->symbols[i].module },
							  .name = p->symbols[i].name,
							  .address = p->symbols[i].address,
							  .size = p->symbols[i].size,
							  .inlined = p->symbols[i].inlined,
						  }));
	return code_store(store, p);
}

static int location_store(struct store *store, const struct profile *p, uint32_t i)
{
	const struct profile_location *row = &p->locations[i];

	OR_RETURN(store_location_put(store, (struct location_id){ i },
				     (struct module_id){ row->module }, row->address));
	for (uint32_t depth = 0; depth < row->frame_count; depth++) {
		const struct profile_frame *frame = &p->frames[row->first_frame + depth];

		OR_RETURN(store_frame_put(store, &(struct store_frame){
							 .location = { i },
							 .depth = depth,
							 .symbol = { frame->symbol },
							 .file = { frame->file },
							 .line = frame->line,
						 }));
	}
	return 0;
}

static int code_rows_store(struct store *store, const struct profile *p)
{
	for (uint32_t i = 1; i < p->module_count; i++)
		OR_RETURN(store_module_put(
			store, &(struct store_module){
				       .id = { i },
				       .kind = p->modules[i].kind,
				       .path = p->modules[i].path,
				       .build_id = build_id_parse(p->modules[i].build_id),
			       }));
	OR_RETURN(names_store(store, p));
	for (uint32_t i = 1; i < p->location_count; i++)
		OR_RETURN(location_store(store, p, i));
	for (uint32_t i = 1; i < p->stack_count; i++)
		OR_RETURN(store_stack_put(store, (struct stack_id){ i },
					  (struct stack_id){ p->stacks[i].parent },
					  (struct location_id){ p->stacks[i].location }));
	return 0;
}

static int totals_store(struct store *store, const struct profile *p)
{
	for (size_t i = 0; i < p->sample_count; i++)
		OR_RETURN(store_samples_add(store, (struct thread_id){ p->samples[i].thread },
					    (struct stack_id){ p->samples[i].stack },
					    p->samples[i].count, p->samples[i].kernel));
	OR_RETURN(store_seen_set(store, p->seen));
	for (size_t i = 0; i < p->loss_count; i++)
		OR_RETURN(store_loss_set(store, p->losses[i].name, p->losses[i].text,
					 p->losses[i].count));
	for (size_t i = 0; i < p->stack_end_count; i++)
		OR_RETURN(store_stack_end_set(store, p->stack_ends[i].name, p->stack_ends[i].text,
					      p->stack_ends[i].count));
	for (size_t i = 0; i < p->meta_count; i++)
		OR_RETURN(store_meta_set(store, p->meta[i].name, p->meta[i].text));
	return 0;
}

static int value_store(struct store *store, const struct profile_value *row, uint32_t id)
{
	return store_value_put(store, &(struct store_value){
					      .id = id,
					      .location = { row->location },
					      .caller = { row->caller },
					      .item = row->item,
					      .owner = row->owner,
					      .width = row->width,
					      .total = row->total,
					      .runs = row->runs,
					      .has_moments = row->has_moments,
					      .minimum = row->minimum,
					      .maximum = row->maximum,
					      .mean = row->mean,
					      .squares = row->squares,
					      .list = row->list,
					      .list_size = row->list_size,
				      });
}

static int value_names_store(struct store *store, const struct profile *p)
{
	for (size_t i = 0; i < p->value_name_count; i++) {
		const struct profile_value_name *row = &p->value_names[i];

		OR_RETURN(store_value_name_put(store, row->value,
					       (struct location_id){ row->location },
					       *row->text ? row->text : NULL));
	}
	for (size_t i = 0; i < p->parameter_count; i++) {
		const struct profile_parameter *row = &p->parameters[i];

		OR_RETURN(store_parameter_put(store, &(struct store_parameter){ { row->symbol },
										row->argument,
										row->name,
										row->type,
										row->encoding,
										row->size }));
	}
	return 0;
}

static int values_store(struct store *store, const struct profile *p)
{
	for (uint32_t i = 1; i < p->value_item_count; i++)
		OR_RETURN(store_value_item_put(
			store, &(struct store_value_item){ i, p->value_items[i].text,
							   p->value_items[i].class,
							   p->value_items[i].words }));
	for (uint32_t i = 0; i < p->value_count; i++)
		OR_RETURN(value_store(store, &p->values[i], i + 1));
	for (size_t i = 0; i < p->run_end_count; i++)
		OR_RETURN(store_run_end_set(store, p->run_ends[i].reason, p->run_ends[i].mnemonic,
					    p->run_ends[i].text, p->run_ends[i].count));
	for (size_t i = 0; i < p->run_loss_count; i++)
		OR_RETURN(store_run_loss_set(store, p->run_losses[i].name, p->run_losses[i].text,
					     p->run_losses[i].count));
	return value_names_store(store, p);
}

static int profile_write(const struct profile *p, const char *path)
{
	AUTO(store_destroy_auto) struct store *store = NULL;

	OR_RETURN(store_create(path, &store));
	OR_RETURN(tasks_store(store, p));
	OR_RETURN(code_rows_store(store, p));
	OR_RETURN(totals_store(store, p));
	OR_RETURN(values_store(store, p));
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
