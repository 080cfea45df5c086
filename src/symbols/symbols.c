// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names and lines of an ELF file. Questions go to a worker process (worker.h), started at the first one. When
 * it dies, the same question goes to a second worker that reads symbol tables only; when that dies too, the
 * rest of the file stays without names. Each step down is said once.
 */
#include "symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "symbols/elf_image.h"
#include "symbols/fde.h"
#include "symbols/resolver.h"
#include "symbols/worker.h"

/* Generous: 1000 addresses in a library with 14 MB of .debug_info take 0.15 s and 60 MB. */
static const struct worker_limits limits = {
	.cpu_seconds = 10,
	.wall_seconds = 120,
	.memory = 4ull << 30,
};

enum trust { TRUST_ALL, TRUST_TABLES, TRUST_NOTHING };

struct symbols {
	int fd;
	char *path;
	struct elf_image image;
	enum trust trust;
	struct worker worker;
	struct strtab strings; /* every string ever answered */
	struct symbol_frame frames[RESOLVER_FRAMES_MAX]; /* of the last answer */
};

int symbols_open(int fd, const char *path, struct symbols **ret)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = mem_zalloc(sizeof(*symbols));
	int err;

	symbols->path = mem_strdup(path);
	symbols->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (symbols->fd < 0)
		return err_set(-errno, "%s: cannot read its symbols: dup: %m", path);
	err = elf_image_init(&symbols->image, symbols->fd, path);
	if (err)
		return err;
	*ret = take_ptr(symbols);
	return 0;
}

void symbols_destroy(struct symbols *symbols)
{
	if (!symbols)
		return;
	worker_stop(&symbols->worker);
	elf_image_deinit(&symbols->image);
	strtab_deinit(&symbols->strings);
	close_fd(&symbols->fd);
	free(symbols->path);
	free(symbols);
}

/* What happened to the worker is a finding about the file, and worth a line. */
static void trust_lower(struct symbols *symbols)
{
	int signal_number = worker_stop(&symbols->worker);
	bool slow = signal_number == SIGPROF || signal_number == SIGALRM;

	symbols->trust++;
	log_warn("%s: %s while reading its %s (%s); %s", symbols->path,
		 slow ? "gave up" : "the symbol reader died",
		 symbols->trust == TRUST_TABLES ? "debug information" : "symbol tables",
		 slow ? "it took too long" : strsignal(signal_number),
		 symbols->trust == TRUST_TABLES ? "its functions have no lines"
						: "its functions have no names");
}

static int symbols_ask(struct symbols *symbols, uint64_t address, struct worker_reply **ret)
{
	while (symbols->trust != TRUST_NOTHING) {
		int err = 0;

		if (!symbols->worker.pid)
			err = worker_start(&symbols->worker, symbols->fd, symbols->path,
					   symbols->trust == TRUST_ALL, &limits);
		if (err)
			return err;
		if (worker_ask(&symbols->worker, address, ret) == 0)
			return 0;
		trust_lower(symbols);
	}
	return -ENOENT;
}

static const char *string_keep(struct symbols *symbols, const char *text)
{
	return strtab_get(&symbols->strings, strtab_add(&symbols->strings, text));
}

/* A function that no table names still has bounds, so that its samples stay together. */
static int unnamed_answer(struct symbols *symbols, uint64_t address, struct symbol_answer *ret)
{
	uint64_t start, size;
	char name[32];

	if (fde_find(&symbols->image, address, &start, &size))
		return -ENOENT;
	snprintf(name, sizeof(name), "sub_%llx", (unsigned long long)start);
	symbols->frames[0] = (struct symbol_frame){ .name = string_keep(symbols, name) };
	symbols->frames[0].linkage = symbols->frames[0].name;
	*ret = (struct symbol_answer){ start, size, 1, symbols->frames };
	return 0;
}

int symbols_resolve(struct symbols *symbols, uint64_t address, struct symbol_answer *ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_frame *frames;
	const char *text;
	int err = symbols_ask(symbols, address, &reply);

	if (err || reply->result < 0)
		return unnamed_answer(symbols, address, ret);
	frames = worker_reply_frames(reply);
	text = worker_reply_text(reply);
	for (uint32_t i = 0; i < reply->frame_count; i++)
		symbols->frames[i] = (struct symbol_frame){
			.name = string_keep(symbols, text + frames[i].name),
			.linkage = string_keep(symbols, text + frames[i].linkage),
			.file = frames[i].file ? string_keep(symbols, text + frames[i].file) : NULL,
			.line = frames[i].line,
		};
	*ret = (struct symbol_answer){
		.address = reply->address,
		.size = reply->size,
		.frame_count = reply->frame_count,
		.frames = symbols->frames,
	};
	return 0;
}

int symbols_code(struct symbols *symbols, uint64_t address, void *ret, size_t size)
{
	return elf_image_read(&symbols->image, address, ret, size);
}
