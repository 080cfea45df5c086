// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/*
 * Broken files: thousands of variants of small programs, each with bytes changed, blanked or cut
 * off in a way that the seed decides. The process that asks must survive and get sound answers or
 * none; readers may die.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "support/symbols_fixture.h"
#include "symbols/symbols.h"

enum { VARIANTS = 700, ADDRESSES = 5 };

static const char source[] =
	"volatile int sink;\n"
	"struct pair { int a[2]; const struct pair *(*next)(struct pair *, ...); };\n"
	"static inline __attribute__((always_inline)) int leaf(int x) { return sink += x; }\n"
	"static inline __attribute__((always_inline)) int mid(int x) { return leaf(x) * leaf(2 * "
	"x); }\n"
	"__attribute__((noinline)) int work(int x, struct pair *p, struct pair q) { return x ? "
	"mid(x) + mid(sink) : 1; }\n"
	"int main(int argc, char **argv) { return work(argc, 0, (struct pair){}); }\n";

struct image {
	uint8_t *bytes;
	size_t size;
	uint64_t first; /* address of work() */
};

static struct image image_read(const char *path)
{
	AUTO(close_file) FILE *output = fixture_output("nm whole | sed -n 's/ T work$//p'");
	AUTO(close_fd) int fd = fixture_open(path);
	struct image image = {};
	struct stat stat;
	char line[64];

	assert_int_equal(fstat(fd, &stat), 0);
	image.size = (size_t)stat.st_size;
	image.bytes = mem_alloc(image.size);
	assert_int_equal(read(fd, image.bytes, image.size), image.size);
	assert_non_null(fixture_line(output, line, sizeof(line)));
	image.first = strtoull(line, NULL, 16);
	return image;
}

static uint64_t seed;

static uint64_t dice(uint64_t sides)
{
	seed = hash64(seed + 1);
	return seed % sides;
}

static void bytes_change(struct image *image)
{
	static const uint8_t extremes[] = { 0, 1, 0x7f, 0x80, 0xff };

	for (uint64_t left = 1 + dice(12); left > 0; left--) {
		size_t at = dice(image->size);

		image->bytes[at] = dice(2) ? extremes[dice(sizeof(extremes))] : (uint8_t)dice(256);
	}
}

static void run_fill(struct image *image, uint8_t value)
{
	size_t at = dice(image->size), length = 1 + dice(64);

	memset(image->bytes + at, value, length < image->size - at ? length : image->size - at);
}

static void piece_copy(struct image *image)
{
	size_t length = 1 + dice(200), from = dice(image->size - length),
	       to = dice(image->size - length);

	memmove(image->bytes + to, image->bytes + from, length);
}

/*
 * The last 2 KB hold the section headers, the first 1 KB the program headers: worth more than their
 * share.
 */
static void headers_change(struct image *image)
{
	size_t at = dice(2) ? dice(1024) : image->size - 1 - dice(2048);

	image->bytes[at] ^= (uint8_t)(1 + dice(255));
}

static void image_mutate(struct image *image)
{
	switch (dice(6)) {
	case 0:
		image->size = dice(image->size);
		break;
	case 1:
		run_fill(image, dice(2) ? 0xff : 0);
		break;
	case 2:
		piece_copy(image);
		break;
	case 3:
		headers_change(image);
		break;
	default:
		bytes_change(image);
	}
}

/* True when something was resolved. */
static bool variant_ask(const struct image *variant)
{
	AUTO(close_fd) int fd = fixture_memory(variant->bytes, variant->size);
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_parameter parameters[SYMBOL_PARAMETERS_MAX];
	struct symbol_answer answer;
	struct build_id id;
	uint8_t code[64];
	size_t count = 0;
	bool any = false;

	elf_build_id(fd, &id);
	if (symbols_open(fd, "variant", &symbols) < 0)
		return false;
	if (symbols_parameters(symbols, variant->first, parameters, &count) == 0)
		for (size_t i = 0; i < count; i++)
			assert_true(parameters[i].argument < SYMBOL_PARAMETERS_MAX &&
				    parameters[i].name && parameters[i].type);
	for (int i = 0; i < ADDRESSES; i++) {
		uint64_t address = variant->first + dice(i ? 1 << (4 * i) : 1);

		symbols_code(symbols, address, code, sizeof(code));
		if (symbols_resolve(symbols, address, &answer) < 0)
			continue;
		any = true;
		assert_true(answer.frame_count > 0 && answer.size > 0);
		for (size_t frame = 0; frame < answer.frame_count; frame++)
			assert_non_null(answer.frames[frame].name);
	}
	return any;
}

/* Warnings of the loop go to a file, where the dead readers are counted. */
static void variants_survive(const char *path)
{
	struct image image = image_read(path);
	int standard_error = dup(STDERR_FILENO),
	    log = open("log", O_CREAT | O_TRUNC | O_WRONLY, 0600);
	size_t resolved = 0;

	assert_true(variant_ask(&image));
	seed = image.size;
	dup2(log, STDERR_FILENO);
	for (int i = 0; i < VARIANTS; i++) {
		struct image variant = image;

		variant.bytes = mem_dup(image.bytes, image.size);
		image_mutate(&variant);
		resolved += variant_ask(&variant);
		free(variant.bytes);
	}
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	close(log);
	free(image.bytes);
	printf("%s: seed %zu, %d variants, %zu with names\n", path, image.size, VARIANTS, resolved);
	fflush(stdout);
	fixture_run("sed -E 's/.*variant: //' log | sort | uniq -c");
	assert_true(resolved > VARIANTS / 2);
}

static void broken_dwarf5_is_survived(void **state)
{
	fixture_write("prog.c", source);
	fixture_run("gcc -g -O2 -gdwarf-5 -o whole prog.c");
	variants_survive("whole");
}

static void broken_dwarf4_is_survived(void **state)
{
	fixture_write("prog.c", source);
	fixture_run("gcc -g -O2 -gdwarf-4 -no-pie -o whole prog.c");
	variants_survive("whole");
}

/* Only DWARF and little else, so that most changes hit it. */
static void broken_debug_sections_are_survived(void **state)
{
	fixture_write("prog.c", source);
	fixture_run("gcc -g -O2 -nostdlib -nostartfiles -static -Wl,-e,main -Wl,-z,norelro "
		    "-Wl,-z,noseparate-code -Wl,--build-id=none -o whole prog.c");
	variants_survive("whole");
}

static void broken_mini_debug_info_is_survived(void **state)
{
	fixture_write("prog.c", source);
	fixture_run("gcc -g -O2 -o whole prog.c && objcopy -S --keep-symbol=work whole mini &&"
		    "rm -f mini.xz && xz mini && strip -o prog whole &&"
		    "objcopy --add-section .gnu_debugdata=mini.xz prog");
	variants_survive("prog");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broken_dwarf5_is_survived),
		cmocka_unit_test(broken_dwarf4_is_survived),
		cmocka_unit_test(broken_debug_sections_are_survived),
		cmocka_unit_test(broken_mini_debug_info_is_survived),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
