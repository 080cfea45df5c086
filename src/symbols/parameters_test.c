// SPDX-License-Identifier: BSD-2-Clause
// Serves: V6, V18.
/*
 * Parameters. Each is named after the value that the program passes: v1a must be found in the
 * register that we say, r1a must be what that register points to, when gdb stops at the function's
 * first instruction.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "support/symbols_fixture.h"
#include "symbols/symbols.h"

static const char c_source[] =
	"#include <stdarg.h>\n"
	"#include <stdbool.h>\n"
	"#include <stdio.h>\n"
	"#ifdef __clang__\n"
	"#define F __attribute__((noinline))\n"
	"#else\n"
	"#define F __attribute__((noipa))\n"
	"#endif\n"
	"volatile long sink;\n"
	"typedef float quad __attribute__((vector_size(16)));\n"
	"enum colour { red, green = 0x21 };\n"
	"struct pair { long a, b; };\n"
	"struct mixed { double d; int i; };\n"
	"struct floats { float x, y; };\n"
	"struct three { long a[3]; };\n"
	"struct tiny { unsigned char c[2]; };\n"
	"struct nested { struct { int x; } in; int y; struct { short s[2]; } more[2]; };\n"
	"struct bits { unsigned a : 4, b : 12; long c : 40; };\n"
	"struct __attribute__((packed)) packed { char c; long l; };\n"
	"struct real { long double l; };\n"
	"struct none { };\n"
	"union either { double d; long l; };\n"
	"F void plain(int v11, long v12, short v13, unsigned char v14, long long v15, bool v1)\n"
	"{ sink = v11 + v12 + v13 + v14 + v15 + v1; }\n"
	"F void seven(int v11, int v12, int v13, int v14, int v15, int v16, int v17)\n"
	"{ sink = v11 + v12 + v13 + v14 + v15 + v16 + v17; }\n"
	"F void reals(double d, int v21, float f, long double l, enum colour v22, quad q, char "
	"v23)\n"
	"{ sink = v21 + v22 + v23 + d + f + l + q[0]; }\n"
	"F void two(struct pair v31, int v32) { sink = v31.a + v31.b + v32; }\n"
	"F void full(int v1, int v2, int v3, int v4, int v5, struct pair p, int v6)\n"
	"{ sink = v1 + v2 + v3 + v4 + v5 + p.a + v6; }\n"
	"F void mix(struct mixed m, int v42, struct floats f, int v43) { sink = m.i + v42 + f.x + "
	"v43; }\n"
	"F void memory(struct three t, int v51) { sink = t.a[0] + v51; }\n"
	"F void small(struct tiny v6261, struct nested n, struct bits b, int v63)\n"
	"{ sink = v6261.c[0] + v6261.c[1] + n.y + b.a + v63; }\n"
	"F void odd(struct packed p, int v71, struct real r, int v72, struct none e, int v73)\n"
	"{ sink = p.l + v71 + r.l + v72 + v73; }\n"
	"F void unions(union either v81, int v82) { sink = v81.l + v82; }\n"
	"F void wide(int v91, __int128 v92, int v93) { sink = v91 + v92 + v93; }\n"
	"F void any(const char *r656e6f, ...) { sink = (long)r656e6f; }\n"
	"F struct three made(int va1) { return (struct three){ { va1 } }; }\n"
	"F struct pair back(int va2) { return (struct pair){ va2, sink }; }\n"
	"F struct packed packing(int va3) { return (struct packed){ 1, va3 }; }\n"
	"F struct real real(int va4) { return (struct real){ va4 }; }\n"
	"F _Complex double turn(_Complex double c, int va5) { return c * va5; }\n"
	"int main(void)\n"
	"{\n"
	"	plain(0x11, 0x12, 0x13, 0x14, 0x15, 1);\n"
	"	seven(0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17);\n"
	"	reals(1, 0x21, 2, 3, 0x22, (quad){ 1 }, 0x23);\n"
	"	two((struct pair){ 0x31, 0x31 }, 0x32);\n"
	"	full(1, 2, 3, 4, 5, (struct pair){ 1, 2 }, 6);\n"
	"	mix((struct mixed){ 1, 7 }, 0x42, (struct floats){ 1, 2 }, 0x43);\n"
	"	memory((struct three){ { 9, 9, 9 } }, 0x51);\n"
	"	small((struct tiny){ { 0x61, 0x62 } }, (struct nested){ }, (struct bits){ 1, 2, 3 "
	"}, 0x63);\n"
	"	odd((struct packed){ 1, 2 }, 0x71, (struct real){ 1 }, 0x72, (struct none){ }, "
	"0x73);\n"
	"	unions((union either){ .l = 0x81 }, 0x82);\n"
	"	wide(0x91, 0x92 + ((__int128)0x92 << 64), 0x93);\n"
	"	any(\"one\");\n"
	"	sink = made(0xa1).a[0];\n"
	"	sink = back(0xa2).a;\n"
	"	sink = packing(0xa3).l;\n"
	"	sink = real(0xa4).l;\n"
	"	sink = turn(1, 0xa5);\n"
	"	return 0;\n"
	"}\n";

static const char cpp_source[] =
	"#include <memory>\n"
	"#include <string>\n"
	"#include <utility>\n"
	"#ifdef __clang__\n"
	"#define F __attribute__((noinline))\n"
	"#else\n"
	"#define F __attribute__((noipa))\n"
	"#endif\n"
	"volatile long sink;\n"
	"namespace shop {\n"
	"struct Plain { int n; };\n"
	"struct Dtor { int n; ~Dtor() { sink = n; } };\n"
	"struct Copy { int n; Copy(int i) : n(i) { } Copy(const Copy &o) : n(o.n) { } };\n"
	"struct Move { int n; Move(int i) : n(i) { } Move(Move &&o) : n(o.n) { } };\n"
	"struct Same { int n; Same(int i) : n(i) { } Same(const Same &) = default; ~Same() = "
	"default; };\n"
	"struct Virtual { long n; Virtual(int i) : n(i) { } virtual int get() { return n; } };\n"
	"struct Template { int n; Template(int i) : n(i) { } template <class T> Template(T &o) : "
	"n(o.n) { } };\n"
	"struct Holds { int n; Dtor d[1]; };\n"
	"struct Derived : Dtor { };\n"
	"struct Flat : Plain { int m; };\n"
	"struct Empty { };\n"
	"struct Large { long n[5]; };\n"
	"struct Base { long b; Base() : b(1) { } };\n"
	"struct Diamond : virtual Base { int d; F Diamond(int vd1) : d(vd1) { sink = vd1; } };\n"
	"struct Below : Diamond { F Below(int vd2) : Diamond(0xd1) { sink = vd2; } };\n"
	"struct Counter {\n"
	"	int n;\n"
	"	F int add(int vc1) { return n += vc1; }\n"
	"	F static int twice(int vc2) { return vc2 * 2; }\n"
	"	F std::string text(int vc3) const { return std::string(n, 'x') + char(vc3); }\n"
	"};\n"
	"F void plain(Plain v11, Dtor r12, Copy r13, Move r14, Same v15) { sink = v11.n + r12.n + "
	"r13.n + r14.n + v15.n; }\n"
	"F void deep(Holds r21, Derived r22, Flat f, Empty e, int v23) { sink = r21.n + r22.n + "
	"f.m + v23; }\n"
	"F void more(Large l, Template v31, std::pair<int, int> p, int v32) { sink = l.n[0] + "
	"v31.n + p.first + v32; }\n"
	"F void library(std::unique_ptr<int> p, std::string &&s, int v41) { sink = *p + s.size() + "
	"v41; }\n"
	"F void object(Virtual p, int v42) { sink = p.n + v42; }\n"
	"F void pointers(int Plain::*m, int (Counter::*f)(int), decltype(nullptr) n, int v51) { "
	"sink = v51; }\n"
	"template <class... T> F void pack(T... values) { sink = (values + ...); }\n"
	"F Copy copied(int v61) { return Copy(v61); }\n"
	"F Plain plainly(int v62) { sink = v62; return Plain{ v62 }; }\n"
	"F void wait(int v71, int &r72) { sink = v71 + r72; }\n"
	"}\n"
	"using namespace shop;\n"
	"int main()\n"
	"{\n"
	"	plain(Plain{ 0x11 }, Dtor{ 0x12 }, Copy(0x13), Move(0x14), Same(0x15));\n"
	"	deep(Holds{ 0x21, { { 1 } } }, Derived{ { 0x22 } }, Flat{ { 1 }, 2 }, Empty(), "
	"0x23);\n"
	"	more(Large{ { 1 } }, Template(0x31), { 1, 2 }, 0x32);\n"
	"	library(std::make_unique<int>(1), std::string(\"s\"), 0x41);\n"
	"	object(Virtual(1), 0x42);\n"
	"	pointers(&Plain::n, &Counter::add, nullptr, 0x51);\n"
	"	pack(1, 2L);\n"
	"	Copy c = copied(0x61);\n"
	"	sink = plainly(0x62).n;\n"
	"	int seventytwo = 0x72;\n"
	"	wait(0x71, seventytwo);\n"
	"	Diamond d(0xd1);\n"
	"	Below b(0xd2);\n"
	"	Counter counter{ 1 };\n"
	"	counter.add(0xc1);\n"
	"	sink = Counter::twice(0xc2);\n"
	"	sink = counter.text(0xc3).size() + c.n;\n"
	"	return 0;\n"
	"}\n";

/* What must be found: "argument:name" for each. */
struct expected {
	const char *function; /* demangled, or not */
	const char *parameters;
};

static const struct expected c_expected[] = {
	{ "plain", "0:v11 1:v12 2:v13 3:v14 4:v15 5:v1" },
	{ "seven", "0:v11 1:v12 2:v13 3:v14 4:v15 5:v16" },
	{ "reals", "0:v21 1:v22 2:v23" },
	{ "two", "0:v31 1:v31+8 2:v32" },
	{ "full", "0:v1 1:v2 2:v3 3:v4 4:v5 5:v6" },
	{ "mix", "0:m+8 1:v42 2:v43" },
	{ "memory", "0:v51" },
	{ "small", "0:v6261 1:n 2:n+8 3:b 4:v63" },
	{ "odd", "0:v71 1:v72 2:v73" },
	{ "unions", "0:v81 1:v82" },
	{ "wide", "0:v91 1:v92 2:v92+8 3:v93" },
	{ "any", "0:r656e6f" },
	{ "made", "1:va1" },
	{ "back", "0:va2" },
	{ "packing", "1:va3" },
	{ "real", "0:va4" },
	{ "turn", "0:va5" },
};

static const struct expected cpp_expected[] = {
	{ "shop::plain(shop::Plain, shop::Dtor, shop::Copy, shop::Move, shop::Same)",
	  "0:v11 1:r12 2:r13 3:r14 4:v15" },
	{ "shop::deep(shop::Holds, shop::Derived, shop::Flat, shop::Empty, int)",
	  "0:r21 1:r22 2:f 3:v23" },
	{ "shop::more(shop::Large, shop::Template, std::pair<int, int>, int)", "0:v31 1:p 2:v32" },
	{ "shop::library(std::unique_ptr<int, std::default_delete<int> >, "
	  "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >&&, int)",
	  "0:p 1:s 2:v41" },
	{ "shop::object(shop::Virtual, int)", "0:p 1:v42" },
	{ "shop::pointers(int shop::Plain::*, int (shop::Counter::*)(int), decltype(nullptr), int)",
	  "0:m 1:f 2:f+8 3:n 4:v51" },
	{ "shop::copied(int)", "1:v61" },
	{ "shop::plainly(int)", "0:v62" },
	{ "shop::wait(int, int&)", "0:v71 1:r72" },
	{ "_ZN4shop7DiamondC1Ei", "0:this 1:vd1" },
	{ "_ZN4shop5BelowC1Ei", "0:this 1:vd2" },
	{ "shop::Counter::add(int)", "0:this 1:vc1" },
	{ "shop::Counter::twice(int)", "0:vc2" },
	{ "shop::Counter::text[abi:cxx11](int) const", "1:this 2:vc3" },
};

/*
 * The constructor for a part of another object also gets a table; the compilers call it as they
 * like.
 */
static const struct expected gcc_expected[] = {
	{ "_ZN4shop7DiamondC2Ei", "0:this 1:__vtt_parm 2:vd1" },
	{ "void shop::pack<int, long>(int, long)", "0: 1:" },
};

static const char *const registers[] = { "rdi", "rsi", "rdx", "rcx", "r8", "r9" };

static struct symbols *symbols_of(const char *path)
{
	AUTO(close_fd) int fd = fixture_open(path);
	struct symbols *symbols;

	assert_int_equal(symbols_open(fd, path, &symbols), 0);
	return symbols;
}

static uint64_t address_of(const char *path, const char *function)
{
	AUTO(close_file)
	FILE *output = fixture_output("nm %s %s | grep -F ' %s'",
				      strncmp(function, "_Z", 2) ? "-C" : "", path, function);
	uint64_t address = 0;
	char line[4096];

	while (fixture_line(output, line, sizeof(line)))
		if (strchr("tTwW", line[17]) && strcmp(line + 19, function) == 0)
			address = strtoull(line, NULL, 16);
	if (!address)
		fail_msg("%s: no function %s", path, function);
	return address;
}

/* Prints the parameter's value as the machine has it: "value NAME VALUE". */
static void check_add(struct strbuf *script, const struct symbol_parameter *parameter)
{
	const char *name = registers[parameter->argument];
	uint64_t mask = parameter->size < 8 ? (1ull << (8 * parameter->size)) - 1 : UINT64_MAX;

	if (parameter->name[0] == 'v')
		strbuf_printf(script, "printf \"value %s %%lx\\n\", (unsigned long)$%s & %#llxUL\n",
			      parameter->name, name, (unsigned long long)mask);
	else if (parameter->name[0] == 'r')
		strbuf_printf(script,
			      "printf \"value %s %%lx\\n\", (unsigned long)*(unsigned *)$%s\n",
			      parameter->name, name);
}

static void function_check(struct symbols *symbols, const char *path,
			   const struct expected *expected, struct strbuf *script)
{
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	uint64_t address = address_of(path, expected->function);
	struct strbuf text = {};
	size_t count;

	assert_int_equal(symbols_parameters(symbols, address, found, &count), 0);
	strbuf_printf(script, "break *%#llx\ncommands\nsilent\necho stop\\n\n",
		      (unsigned long long)address);
	for (size_t i = 0; i < count; i++) {
		strbuf_printf(&text, "%s%u:%s", i ? " " : "", found[i].argument, found[i].name);
		check_add(script, &found[i]);
	}
	strbuf_puts(script, "continue\nend\n");
	if (strcmp(strbuf_text(&text), expected->parameters) != 0)
		fail_msg("%s: %s: found \"%s\" instead of \"%s\"", path, expected->function,
			 strbuf_text(&text), expected->parameters);
	strbuf_deinit(&text);
}

/* Every "value vHEX VALUE" of the run must be equal; each function is stopped at once or more. */
static void values_check(const char *path, size_t function_count)
{
	AUTO(close_file)
	FILE *output = fixture_output("gdb -nx -batch -x script ./%s 2> gdb.log < /dev/null", path);
	size_t stops = 0, values = 0;
	char line[512];

	while (fixture_line(output, line, sizeof(line))) {
		char name[64];
		unsigned long value;

		stops += strcmp(line, "stop") == 0;
		if (sscanf(line, "value %63s %lx", name, &value) != 2)
			continue;
		values++;
		if (strtoul(name + 1, NULL, 16) != value)
			fail_msg("%s: %s is %#lx in the register", path, name, value);
	}
	if (!stops)
		fixture_run("cat gdb.log; false");
	if (stops < function_count)
		fail_msg("%s: only %zu of %zu functions were called", path, stops, function_count);
	assert_true(2 * values >= function_count);
}

/* Containers may forbid it. */
static bool gdb_can_run(void)
{
	static int can = -1;

	if (can < 0)
		can = fixture_try("gdb -nx -batch -ex run /bin/true < /dev/null 2>&1 | grep -q "
				  "'exited normally'");
	return can;
}

/* compile NULL: the program that is there. */
static void program_check(const char *compile, const struct expected *expected, size_t count)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct strbuf script = {};

	if (compile)
		fixture_run("%s -w -no-pie -o prog", compile);
	symbols = symbols_of("prog");
	strbuf_puts(&script, "set pagination off\n");
	for (size_t i = 0; i < count; i++)
		function_check(symbols, "prog", &expected[i], &script);
	strbuf_puts(&script, "run\n");
	fixture_write("script", script.text);
	strbuf_deinit(&script);
	if (gdb_can_run())
		values_check("prog", count);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void c_parameters_are_in_their_registers(void **state)
{
	fixture_write("prog.c", c_source);
	program_check("gcc -g -O0 prog.c", c_expected, COUNT(c_expected));
	program_check("gcc -g -O2 -gdwarf-4 -flto prog.c", c_expected, COUNT(c_expected));
}

static void cpp_parameters_are_in_their_registers(void **state)
{
	fixture_write("prog.cc", cpp_source);
	program_check("g++ -std=c++17 -g -O0 prog.cc", cpp_expected, COUNT(cpp_expected));
	program_check("g++ -std=c++17 -g -O2 -gdwarf-4 prog.cc", cpp_expected, COUNT(cpp_expected));
	program_check(NULL, gcc_expected, COUNT(gcc_expected));
}

static void clang_parameters_are_in_their_registers(void **state)
{
	if (!fixture_try("clang --version > /dev/null 2>&1"))
		skip();
	fixture_write("prog.c", c_source);
	program_check("clang -g -O2 prog.c", c_expected, COUNT(c_expected));
	fixture_write("prog.cc", cpp_source);
	program_check("clang++ -std=c++17 -g -O2 prog.cc", cpp_expected, COUNT(cpp_expected));
}

static const char types_source[] =
	"#include <stddef.h>\n"
	"#include <stdint.h>\n"
	"typedef struct POLY_STRUCT { int order; } POLY;\n"
	"typedef int (*compare)(const void *, const void *);\n"
	"struct node { struct node *next; };\n"
	"enum colour { red };\n"
	"union either { int i; char c; };\n"
	"int one(int a, const char *b, struct node *c, POLY *d, compare e, char **const f) { "
	"return a; }\n"
	"int two(int (*a)[4], void (*b)(int, ...), const volatile long *c, enum colour d,\n"
	"	union either *const *e, int (*(*f)(void))(char)) { return 0; }\n"
	"int three(uint8_t a, int8_t b, char c, _Bool d, size_t e, void *restrict f) { return 0; "
	"}\n"
	"int four(struct { int x; } *a, char *const *const b, const POLY *restrict c,\n"
	"	unsigned char (*d)[2][3]) { return 0; }\n"
	"int main(void) { return 0; }\n";

static const char cpp_types_source[] =
	"namespace pov {\n"
	"struct Intersection { struct Part { int i; }; class Hidden; enum Kind { first }; };\n"
	"class Intersection::Hidden { };\n"
	"typedef Intersection::Part Piece;\n"
	"template <class T> struct List { T *t; };\n"
	"namespace { struct Local { }; }\n"
	"int one(Intersection &a, const Intersection::Part *b, Intersection::Hidden &&c, "
	"Intersection::Kind d,\n"
	"	List<Intersection> *e, Piece *f) { return 0; }\n"
	"int two(Local *a, int Intersection::Part::*b, const List<int> &c, bool d, wchar_t e, "
	"char16_t f) { return 0; }\n"
	"struct Scene { int trace(int a, const Scene &b); int get() const; };\n"
	"int Scene::trace(int a, const Scene &b) { return a; }\n"
	"int Scene::get() const { return 1; }\n"
	"}\n"
	"int main() { return 0; }\n";

/* Oracle: gdb's own words for the function's type, "type = int (int, const char *)". */
static void types_agree_with_gdb(const char *path, const char *function)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
	AUTO(close_file)
	FILE *output =
		fixture_output("gdb -nx -batch -ex \"whatis '%s'\" %s 2> gdb.log", function, path);
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	struct strbuf text = {};
	char line[4096];
	size_t count;

	assert_int_equal(symbols_parameters(symbols, address_of(path, function), found, &count), 0);
	strbuf_puts(&text, "type = int (");
	for (size_t i = 0; i < count; i++)
		strbuf_printf(&text, "%s%s", i ? ", " : "", found[i].type);
	strbuf_puts(&text, ")");
	assert_non_null(fixture_line(output, line, sizeof(line)));
	assert_string_equal(text.text, line);
	strbuf_deinit(&text);
}

static void types_are_as_gdb_prints_them(void **state)
{
	if (!fixture_try("gdb --version > /dev/null 2>&1"))
		skip();
	fixture_write("types.c", types_source);
	fixture_run("gcc -g -w -o types types.c");
	types_agree_with_gdb("types", "one");
	types_agree_with_gdb("types", "two");
	types_agree_with_gdb("types", "three");
	types_agree_with_gdb("types", "four");
	fixture_write("types.cc", cpp_types_source);
	fixture_run("g++ -g -w -o types++ types.cc");
	types_agree_with_gdb("types++",
			     "pov::one(pov::Intersection&, pov::Intersection::Part const*, "
			     "pov::Intersection::Hidden&&, pov::Intersection::Kind, "
			     "pov::List<pov::Intersection>*, pov::Intersection::Part*)");
	types_agree_with_gdb(
		"types++",
		"pov::two(pov::(anonymous namespace)::Local*, int "
		"pov::Intersection::Part::*, pov::List<int> const&, bool, wchar_t, char16_t)");
	types_agree_with_gdb("types++", "pov::Scene::trace(int, pov::Scene const&)");
	types_agree_with_gdb("types++", "pov::Scene::get() const");
}

static void encodings_are_told(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	static const struct {
		enum symbol_encoding encoding;
		unsigned int size;
	} expected[] = {
		{ SYMBOL_ENCODING_UNSIGNED, 1 }, { SYMBOL_ENCODING_SIGNED, 1 },
		{ SYMBOL_ENCODING_CHAR, 1 },	 { SYMBOL_ENCODING_BOOL, 1 },
		{ SYMBOL_ENCODING_UNSIGNED, 8 }, { SYMBOL_ENCODING_POINTER, 8 },
	};
	size_t count;

	fixture_write("types.c", types_source);
	fixture_run("gcc -g -w -o types types.c");
	symbols = symbols_of("types");
	assert_int_equal(symbols_parameters(symbols, address_of("types", "three"), found, &count),
			 0);
	assert_int_equal(count, COUNT(expected));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(found[i].encoding, expected[i].encoding);
		assert_int_equal(found[i].size, expected[i].size);
	}
	assert_int_equal(symbols_parameters(symbols, address_of("types", "two"), found, &count), 0);
	assert_string_equal(symbol_encoding_text(found[3].encoding), "enum");
	/* Only where a function begins. */
	assert_int_equal(symbols_parameters(symbols, address_of("types", "two") + 1, found, &count),
			 -ENOENT);
}

static void nothing_is_said(const char *path, const char *function)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	size_t count = 0;
	int err = symbols_parameters(symbols, address_of(path, function), found, &count);

	assert_true(err == -ENOENT || count == 0);
}

/*
 * Compilers change functions of their own: here b is in the first register, and d is not passed at
 * all.
 */
static void changed_functions_say_nothing(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	size_t count;

	fixture_write("changed.c",
		      "volatile int sink;\n"
		      "static __attribute__((noinline)) int inner(int unused, int b)\n"
		      "{ return sink + b * sink; }\n"
		      "static __attribute__((noinline)) int other(int c, int d)\n"
		      "{ for (int i = 0; i < c; i++) sink += d; return sink + c * d; }\n"
		      "int main(int argc, char **argv)\n"
		      "{ return inner(argc, sink) + inner(1, argc) + other(argc, 3) + other(sink, "
		      "3); }\n");
	fixture_run("gcc -g -O2 -o changed changed.c");
	nothing_is_said("changed", "inner.constprop.0");
	nothing_is_said("changed", "other.constprop.0");
	fixture_run("strip -g changed");
	nothing_is_said("changed", "main");
	if (!fixture_try("clang -g -O2 -o changed changed.c 2> /dev/null"))
		return;
	nothing_is_said("changed", "inner");
	symbols = symbols_of("changed");
	assert_int_equal(symbols_parameters(symbols, address_of("changed", "other"), found, &count),
			 0);
	assert_int_equal(count, 1);
	assert_string_equal(found[0].name, "c");
}

/*
 * Whether a class with a deleted copy constructor is passed by its bytes takes more than DWARF has.
 */
static void what_is_unsure_ends_the_list(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	size_t count;

	fixture_write("unsure.cc", "struct Only { int n; Only(int); Only(const Only &) = delete; "
				   "Only(Only &&) = default; };\n"
				   "int take(int a, Only b, int c) { return a + b.n + c; }\n"
				   "int main() { return 0; }\n");
	fixture_run("g++ -g -o unsure unsure.cc");
	symbols = symbols_of("unsure");
	assert_int_equal(symbols_parameters(symbols, address_of("unsure", "take(int, Only, int)"),
					    found, &count),
			 0);
	assert_int_equal(count, 1);
	assert_string_equal(found[0].name, "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_parameters_are_in_their_registers),
		cmocka_unit_test(cpp_parameters_are_in_their_registers),
		cmocka_unit_test(clang_parameters_are_in_their_registers),
		cmocka_unit_test(types_are_as_gdb_prints_them),
		cmocka_unit_test(encodings_are_told),
		cmocka_unit_test(changed_functions_say_nothing),
		cmocka_unit_test(what_is_unsure_ends_the_list),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
