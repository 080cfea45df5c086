// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fuzzing of src/symbols. An input that begins like an ELF file is read as one; otherwise its first
 * byte chooses the reader and the rest is what it reads.
 *
 * libdw runs in a process of its own (src/symbols/worker.h), so that its crashes are no findings:
 * what is looked for is a crash, a hang or an unsound answer on the asking side.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int memory_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

static void answer_check(const struct symbol_answer *answer)
{
	if (answer->frame_count == 0 || answer->size == 0)
		abort();
	for (size_t i = 0; i < answer->frame_count; i++)
		if (strlen(answer->frames[i].name) == 0 && strlen(answer->frames[i].linkage) != 0)
			abort();
}

/* The entry point and the program headers' addresses are where a file's code is likely to be. */
static void elf_try(const uint8_t *data, size_t size)
{
	AUTO(close_fd) int fd = memory_file(data, size);
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_answer answer;
	struct build_id id;
	uint8_t code[64];
	Elf64_Ehdr header = {};

	elf_build_id(fd, &id);
	if (symbols_open(fd, "input", &symbols) < 0)
		return;
	memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t address = header.e_entry + (i ? 1ull << (4 * i) : 0);

		symbols_code(symbols, address, code, sizeof(code));
		if (symbols_resolve(symbols, address, &answer) == 0)
			answer_check(&answer);
	}
}

static void jitmap_try(const uint8_t *data, size_t size)
{
	AUTO(close_fd) int fd = memory_file(data, size);
	AUTO(jitmap_destroy_auto) struct jitmap *map = NULL;
	struct symbol_answer answer;
	uint8_t code[256];

	if (jitmap_open(fd, &map) < 0)
		return;
	for (unsigned int bit = 0; bit < 64; bit++) {
		jitmap_code(map, 1ull << bit, code, sizeof(code));
		if (jitmap_resolve(map, 1ull << bit, &answer) == 0)
			answer_check(&answer);
	}
}

static void kallsyms_try(const uint8_t *data, size_t size)
{
	AUTO(close_fd) int fd = memory_file(data, size);
	AUTO(kallsyms_destroy_auto) struct kallsyms *kallsyms = NULL;
	struct symbol_answer answer;
	const char *module;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kallsyms_open(path, &kallsyms) < 0)
		return;
	for (unsigned int bit = 0; bit < 64; bit++)
		if (kallsyms_resolve(kallsyms, 1ull << bit, &answer, &module) == 0)
			answer_check(&answer);
}

static void demangle_try(const uint8_t *data, size_t size)
{
	AUTO(free_ptr) char *name = mem_strndup((const char *)data, size);

	free(demangle(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[])(const uint8_t *data, size_t size) = { elf_try, jitmap_try,
									     kallsyms_try,
									     demangle_try };

	if (size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0)
		elf_try(data, size);
	else if (size > 0)
		readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](data + 1, size - 1);
	return 0;
}
