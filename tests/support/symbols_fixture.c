// SPDX-License-Identifier: BSD-2-Clause
#include "support/symbols_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/assay-symbols-XXXXXX";
static char command[4096];

#define FORMAT_COMMAND(format)                                                                     \
	do {                                                                                       \
		va_list args_;                                                                     \
		va_start(args_, format);                                                           \
		assert_true(vsnprintf(command, sizeof(command), format, args_) <                   \
			    (int)sizeof(command));                                                 \
		va_end(args_);                                                                     \
	} while (0)

static bool shell(const char *text, const char *output)
{
	char *const arguments[] = { "sh", "-c", (char *)text, NULL };
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (output)
		posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output,
						 O_CREAT | O_TRUNC | O_WRONLY, 0600);
	if (posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid)
		status = -1;
	posix_spawn_file_actions_destroy(&actions);
	return status == 0;
}

int fixture_setup(void **state)
{
	return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

int fixture_teardown(void **state)
{
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return chdir("/") == 0 && shell(command, NULL) ? 0 : -1;
}

void fixture_run(const char *format, ...)
{
	FORMAT_COMMAND(format);
	if (!shell(command, NULL))
		fail_msg("%s: failed", command);
}

bool fixture_try(const char *format, ...)
{
	FORMAT_COMMAND(format);
	return shell(command, NULL);
}

FILE *fixture_output(const char *format, ...)
{
	FILE *file;

	FORMAT_COMMAND(format);
	shell(command, "output");
	file = fopen("output", "r");
	assert_non_null(file);
	/* The open file stays readable, and the next command has its own. */
	unlink("output");
	return file;
}

char *fixture_line(FILE *file, char *line, size_t size)
{
	if (!fgets(line, (int)size, file))
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return line;
}

void fixture_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

int fixture_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: cannot open", path);
	return fd;
}

int fixture_memory(const void *bytes, size_t size)
{
	int fd = memfd_create("fixture", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}

const char fixture_c_source[] =
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) int innermost(int x)\n"
	"{\n"
	"	for (int i = 0; i < x; i++)\n"
	"		sink += i * x;\n"
	"	return sink;\n"
	"}\n"
	"static inline __attribute__((always_inline)) int middle(int x)\n"
	"{\n"
	"	if (x > 3) {\n"
	"		int y = innermost(x * 2);\n"
	"		sink = y;\n"
	"	}\n"
	"	return innermost(x) + innermost(x + 1);\n"
	"}\n"
	"__attribute__((noinline)) static int hidden(int x) { return middle(x) + sink; }\n"
	"__attribute__((noinline)) int visible(int x)\n"
	"{\n"
	"	if (__builtin_expect(x == 77, 0))\n"
	"		abort();\n"
	"	return hidden(x) * middle(sink);\n"
	"}\n"
	"__attribute__((noinline)) int around(int x)\n"
	"{\n"
	"	__attribute__((noinline)) int nested(int y) { return middle(y) + x; }\n"
	"	return nested(x) + nested(sink);\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	char *copy = strdup(argv[0]);\n"
	"	return visible(argc) + around((int)strlen(copy));\n"
	"}\n";

const char fixture_cpp_source[] =
	"#include <algorithm>\n"
	"#include <map>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"namespace shop {\n"
	"template <class T> struct Shelf {\n"
	"	std::vector<T> items;\n"
	"	void add(const T &item) { items.push_back(item); }\n"
	"	const T &best() const { return *std::max_element(items.begin(), items.end()); }\n"
	"};\n"
	"struct Order {\n"
	"	std::string name;\n"
	"	int price;\n"
	"	bool operator<(const Order &other) const { return price < other.price; }\n"
	"};\n"
	"int total(const std::map<std::string, int> &prices)\n"
	"{\n"
	"	int sum = 0;\n"
	"	for (auto &entry : prices)\n"
	"		sum += entry.second;\n"
	"	return sum;\n"
	"}\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	shop::Shelf<shop::Order> cache;\n"
	"	std::map<std::string, int> prices;\n"
	"	for (int i = 0; i < argc; i++) {\n"
	"		cache.add({argv[i], i});\n"
	"		prices[argv[i]] = i;\n"
	"	}\n"
	"	std::sort(cache.items.begin(), cache.items.end());\n"
	"	return cache.best().price + shop::total(prices);\n"
	"}\n";

struct symbols *fixture_symbols(const char *path)
{
	AUTO(close_fd) int fd = fixture_open(path);
	struct symbols *symbols;

	assert_int_equal(symbols_open(fd, path, &symbols), 0);
	return symbols;
}

uint64_t fixture_address(const char *path, const char *name)
{
	AUTO(close_file) FILE *output = fixture_output("nm %s | grep -E ' [tTwW] %s$'", path, name);
	char line[512];

	assert_non_null(fixture_line(output, line, sizeof(line)));
	return strtoull(line, NULL, 16);
}

void fixture_resolves(const char *path, uint64_t address, const char *name, uint32_t has_line)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	struct symbol_answer answer;
	int err = symbols_resolve(symbols, address, &answer);

	char unnamed[32];

	/* stripped: only the unwind information still knows where the function begins */
	if (!name) {
		snprintf(unnamed, sizeof(unnamed), "sub_%llx", (unsigned long long)address);
		name = unnamed;
	}
	assert_int_equal(err, 0);
	assert_string_equal(answer.frames[answer.frame_count - 1].name, name);
	assert_int_equal(answer.frames[answer.frame_count - 1].line != 0, has_line);
}
