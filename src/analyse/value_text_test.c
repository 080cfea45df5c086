// SPDX-License-Identifier: BSD-2-Clause
// Serves: V18.
/* What people see of values, and what views know about instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/profile_fixture.h"
#include "analyse/instruction.h"
#include "analyse/names.h"
#include "analyse/value_text.h"

static const struct {
	enum value_kind kind;
	unsigned width;
	uint64_t value;
	const char *text;
} texts[] = {
	{ VALUE_PLAIN, 32, 4, "4" },
	{ VALUE_PLAIN, 64, 999999, "999999" },
	{ VALUE_PLAIN, 64, 1000000, "0xf4240" },
	{ VALUE_PLAIN, 32, UINT32_MAX, "-1" },
	{ VALUE_PLAIN, 64, UINT32_MAX, "0xffffffff" },
	{ VALUE_PLAIN, 64, UINT64_MAX - 4095, "-4096" },
	{ VALUE_PLAIN, 64, UINT64_MAX - 4096, "0xffffffffffffefff" },
	{ VALUE_PLAIN, 16, 0xffff, "-1" },
	{ VALUE_PLAIN, 16, 0x8000, "32768" },
	{ VALUE_PLAIN, 8, 0xff, "255" },
	{ VALUE_PLAIN, 8, 'A', "65 'A'" },
	{ VALUE_PLAIN, 8, '\'', "39 '\\''" },
	{ VALUE_PLAIN, 8, '\n', "10" },
	{ VALUE_PLAIN, 32, 'A', "65" },
	{ VALUE_PLAIN, 8, 0x1241, "65 'A'" },
	{ VALUE_PLAIN, 1, 1, "1" },
	{ VALUE_PLAIN, 64, 0x555555556010, "0x555555556010 table+0x10" },
	{ VALUE_PLAIN, 32, 0x555555556010, "0x55556010" },
	{ VALUE_SIGNED, 32, 0xfffffffd, "-3" },
	{ VALUE_SIGNED, 64, 0xfffffffd, "4294967293" },
	{ VALUE_SIGNED, 32, 0xdead000000000007, "7" },
	{ VALUE_SIGNED, 64, UINT64_C(1) << 63, "-9223372036854775808" },
	{ VALUE_UNSIGNED, 8, 200, "200" },
	{ VALUE_UNSIGNED, 64, UINT64_MAX, "0xffffffffffffffff" },
	{ VALUE_POINTER, 64, 0, "NULL" },
	{ VALUE_POINTER, 64, 0x555555555100, "0x555555555100 fib" },
	{ VALUE_POINTER, 64, 0x7ffe00001000, "0x7ffe00001000 [stack]" },
	{ VALUE_POINTER, 64, 0x1234, "0x1234" },
	{ VALUE_BOOL, 8, 1, "true" },
	{ VALUE_BOOL, 8, 0x100, "false" },
	{ VALUE_BOOL, 8, 2, "2" },
	{ VALUE_CHAR, 8, 'z', "122 'z'" },
	{ VALUE_FLOAT, 64, 0x3fe0000000000000, "0.5" },
	{ VALUE_FLOAT, 64, 0x4008000000000000, "3.0" },
	{ VALUE_FLOAT, 64, 0x3fb999999999999a, "0.1" },
	{ VALUE_FLOAT, 64, 0x404c735894000000, "56.90114068984985" },
	{ VALUE_FLOAT, 64, 0x7ff0000000000000, "inf" },
	{ VALUE_FLOAT, 32, 0x3dcccccd, "0.1" },
	{ VALUE_FLOAT, 32, 0xbf800000, "-1.0" },
	{ VALUE_FLOAT, 64, 1, "5e-324" },
	{ VALUE_FLOAT, 64, 0x408e000000000000, "960.0" },
	{ VALUE_FLOAT, 64, 0xc08e000000000000, "-960.0" },
	{ VALUE_FLOAT, 32, 0x47800000, "65536.0" },
	{ VALUE_FLOAT, 64, 0x42d6bcc41e900000, "100000000000000.0" },
	{ VALUE_FLOAT, 64, 0x430c6bf526340000, "1e+15" },
	{ VALUE_FLOAT, 64, 0x3ddb7cdfd9d7bdbb, "1e-10" },
	{ VALUE_TAKEN, 1, 0, "no" },
	{ VALUE_TAKEN, 1, 1, "yes" },
	{ VALUE_BUCKET, 64, 0, "0" },
	{ VALUE_BUCKET, 64, 1, "1" },
	{ VALUE_BUCKET, 64, 4, "8..15" },
	{ VALUE_BUCKET, 64, 65, "65" },
	{ VALUE_PATH, 64, 0, "no branch" },
	{ VALUE_PATH, 64, 1, "no branch" },
	{ VALUE_PATH, 64, 0xc, "TNN" },
	{ VALUE_PATH, 64, 0x9, "NNT" },
	{ VALUE_PLAIN, 0, 5, "5" },
	{ VALUE_SIGNED, 200, 5, "5" },
};

static void values_read_as_a_person_would_want(void **state)
{
	struct fixture fixture;
	const struct profile *profile = fixture_values(&fixture);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct strbuf buf = {};

		value_text(profile, (struct value_type){ texts[i].kind, texts[i].width },
			   texts[i].value, &buf);
		assert_string_equal(strbuf_text(&buf), texts[i].text);
		strbuf_deinit(&buf);
	}
	fixture_deinit(&fixture);
}

static void names_lose_their_parameters(void **state)
{
	static const struct {
		const char *name, *brief;
	} cases[] = {
		{ "main", "main" },
		{ "pov::Poly::intersect(pov::Ray const&, int)", "pov::Poly::intersect" },
		{ "pov::Poly::size() const", "pov::Poly::size" },
		{ "f(void (*)(int)) const volatile &", "f" },
		{ "std::function<void (int)>::operator()(int) const",
		  "std::function<void (int)>::operator()" },
		{ "g(int) [clone .cold]", "g" },
		{ "(anonymous namespace)::h", "(anonymous namespace)::h" },
		{ "(anonymous namespace)::h(int)", "(anonymous namespace)::h" },
		{ "(odd)", "(odd)" },
		{ "odd)", "odd)" },
		{ "", "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(name_brief_length(cases[i].name), strlen(cases[i].brief));
		assert_memory_equal(cases[i].name, cases[i].brief, strlen(cases[i].brief));
	}
	assert_true(name_is_thunk("srso_alias_safe_ret"));
	assert_true(name_is_thunk("__x86_indirect_thunk_array"));
	assert_true(name_is_thunk("__pi___x86_indirect_thunk_rax"));
	assert_false(name_is_thunk("schedule"));
}

static void parameters_have_types(void **state)
{
	static const struct {
		const char *encoding;
		unsigned size;
		enum value_kind kind;
		unsigned width;
	} cases[] = {
		{ "signed", 4, VALUE_SIGNED, 32 },   { "unsigned", 2, VALUE_UNSIGNED, 16 },
		{ "pointer", 8, VALUE_POINTER, 64 }, { "bool", 1, VALUE_BOOL, 8 },
		{ "char", 1, VALUE_CHAR, 8 },	     { "enum", 4, VALUE_ENUM, 32 },
		{ "float", 4, VALUE_FLOAT, 32 },     { "nonsense", 4, VALUE_PLAIN, 32 },
		{ "signed", 0, VALUE_SIGNED, 64 },   { "signed", 4000000000, VALUE_SIGNED, 64 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_parameter parameter = { .encoding = cases[i].encoding,
						       .size = cases[i].size };
		struct value_type type = value_type_of_parameter(&(struct profile){}, &parameter);

		assert_int_equal(type.kind, cases[i].kind);
		assert_int_equal(type.width, cases[i].width);
	}
}

static void text_expect(const struct profile *profile, struct value_type type, uint64_t value,
			const char *expected)
{
	AUTO(strbuf_deinit) struct strbuf buf = {};

	value_text(profile, type, value, &buf);
	assert_string_equal(strbuf_text(&buf), expected);
}

/* A number of an enumeration by its name, a sum of flags by theirs. */
static void enumerations_have_names(void **state)
{
	struct profile_enumerator rows[] = {
		{ .symbol = 3, .argument = 0, .value = 9, .name = "OTHER" },
		{ .symbol = 3, .argument = 1, .value = 0, .name = "NONE" },
		{ .symbol = 3, .argument = 1, .value = 1, .name = "READ" },
		{ .symbol = 3, .argument = 1, .value = 4, .name = "RUN" },
		{ .symbol = 3, .argument = 1, .value = UINT64_MAX, .name = "BAD" },
		{ .symbol = 4, .argument = 1, .value = 2, .name = "ELSE" },
	};
	struct profile profile = { .enumerators = rows, .enumerator_count = 6 };
	struct profile_parameter parameter = {
		.symbol = 3, .argument = 1, .type = "enum rights", .encoding = "enum", .size = 4
	};
	struct value_type type = value_type_of_parameter(&profile, &parameter);

	text_expect(&profile, type, 0, "NONE");
	text_expect(&profile, type, 4, "RUN");
	text_expect(&profile, type, 5, "READ|RUN");
	text_expect(&profile, type, 0xffffffff, "BAD");
	text_expect(&profile, type, 9, "9"); /* of another parameter */
	text_expect(&profile, type, 7, "7"); /* 2 has no name here */
	parameter.symbol = 5;
	text_expect(&profile, value_type_of_parameter(&profile, &parameter), 4, "4");
}

/* Where characters may lie, those that were found there are shown. */
static void pointers_to_text_show_it(void **state)
{
	struct profile_value_name names[] = {
		{ .value = 0x7f0000001000, .text = "[heap] \"user:1001\"" },
		{ .value = 0x7f0000002000, .text = "[stack] \"a [b]\"" },
		{ .value = 0x7f0000003000, .text = "[heap]" },
	};
	struct profile profile = { .value_names = names, .value_name_count = 3 };
	static const struct {
		const char *type;
		bool text;
	} types[] = {
		{ "const char *", true },
		{ "char *", true },
		{ "sds", true },
		{ "void *", true },
		{ "const uint8_t *", true },
		{ "struct robj *", false },
		{ "char **", false },
		{ "const std::string &", false },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct profile_parameter parameter = { .type = types[i].type,
						       .encoding = "pointer",
						       .size = 8 };
		struct value_type type = value_type_of_parameter(&profile, &parameter);

		text_expect(&profile, type, 0x7f0000001000,
			    types[i].text ? "0x7f0000001000 \"user:1001\""
					  : "0x7f0000001000 [heap]");
		text_expect(&profile, type, 0x7f0000003000, "0x7f0000003000 [heap]");
	}
	text_expect(&profile, (struct value_type){ VALUE_PLAIN, 64 }, 0x7f0000001000,
		    "0x7f0000001000 \"user:1001\"");
	assert_true(value_is_on_stack(&profile, 0x7f0000002000));
	assert_false(value_is_on_stack(&profile, 0x7f0000001000));
}

#define CODE(...) .code = { __VA_ARGS__ }, .size = sizeof((uint8_t[]){ __VA_ARGS__ })

/* By the assembler; register, width of a floating-point number, and what the text says itself. */
static const struct {
	uint8_t code[12];
	size_t size;
	enum selection_source source;
	const char *name;
	unsigned width;
	bool trivial;
} sources[] = {
	/* mov ecx, [rdi+8]; add eax, ebx; cmp esi, 3; cmp byte [rdi], 3; mul rcx */
	{ CODE(0x8b, 0x4f, 0x08), SELECTION_RESULT, "ecx" },
	{ CODE(0x01, 0xd8), SELECTION_RESULT, "eax" },
	{ CODE(0x01, 0xd8), SELECTION_OPERAND1, "eax" },
	{ CODE(0x01, 0xd8), SELECTION_OPERAND2, "ebx" },
	{ CODE(0x83, 0xfe, 0x03), SELECTION_RESULT, "esi" },
	{ CODE(0x83, 0xfe, 0x03), SELECTION_OPERAND2, NULL, .trivial = true },
	{ CODE(0x80, 0x3f, 0x03), SELECTION_RESULT, NULL },
	{ CODE(0x48, 0xf7, 0xe1), SELECTION_RESULT, "rax" },
	/*
	 * mov eax, 5; xor eax, eax; xor eax, ebx; mov dword [rdi], 7; mov [rdi], eax; add [rdi],
	 * eax
	 */
	{ CODE(0xb8, 5, 0, 0, 0), SELECTION_RESULT, "eax", .trivial = true },
	{ CODE(0x31, 0xc0), SELECTION_RESULT, "eax", .trivial = true },
	{ CODE(0x31, 0xc0), SELECTION_OPERAND1, "eax", .trivial = true },
	{ CODE(0x31, 0xd8), SELECTION_RESULT, "eax" },
	{ CODE(0xc7, 0x07, 7, 0, 0, 0), SELECTION_STORED, NULL, .trivial = true },
	{ CODE(0x89, 0x07), SELECTION_STORED, "eax" },
	{ CODE(0x01, 0x07), SELECTION_STORED, NULL },
	/*
	 * lea rax, [rip+16]; lea rax, [rsp+8]; lea rax, [rdi+8]; lea rax, [rsp+rcx]; sub rsp, 8;
	 * mov rax, [rip+16]
	 */
	{ CODE(0x48, 0x8d, 0x05, 16, 0, 0, 0), SELECTION_RESULT, "rax", .trivial = true },
	{ CODE(0x48, 0x8d, 0x44, 0x24, 0x08), SELECTION_RESULT, "rax", .trivial = true },
	{ CODE(0x48, 0x8d, 0x47, 0x08), SELECTION_RESULT, "rax" },
	{ CODE(0x48, 0x8d, 0x04, 0x0c), SELECTION_RESULT, "rax" },
	{ CODE(0x48, 0x83, 0xec, 0x08), SELECTION_RESULT, "rsp", .trivial = true },
	{ CODE(0x48, 0x8b, 0x05, 16, 0, 0, 0), SELECTION_RESULT, "rax" },
	/* push rbx; pop rbx; ret; call rax; call 0x5; jmp [rip+16]; call [rip+16] */
	{ CODE(0x53), SELECTION_STORED, "rbx", .trivial = true },
	{ CODE(0x5b), SELECTION_RESULT, "rbx", .trivial = true },
	{ CODE(0xc3), SELECTION_TARGET, NULL, .trivial = true },
	{ CODE(0xff, 0xd0), SELECTION_TARGET, "rax" },
	{ CODE(0xff, 0xd0), SELECTION_STORED, NULL, .trivial = true },
	{ CODE(0xff, 0x25, 16, 0, 0, 0), SELECTION_TARGET, NULL, .trivial = true },
	{ CODE(0xff, 0x15, 16, 0, 0, 0), SELECTION_TARGET, NULL },
	/*
	 * movsd xmm0, [rdx]; movss [rdx], xmm1; mulsd xmm0, [rdx]; movq xmm0, [rdx]; movaps xmm0,
	 * [rdx]; movsd (string)
	 */
	{ CODE(0xf2, 0x0f, 0x10, 0x02), SELECTION_LOADED, "xmm0", 64 },
	{ CODE(0xf2, 0x0f, 0x10, 0x02), SELECTION_RESULT, "xmm0", 64 },
	{ CODE(0xf2, 0x0f, 0x10, 0x02), SELECTION_ADDRESS, NULL, 0 },
	{ CODE(0xf3, 0x0f, 0x11, 0x0a), SELECTION_STORED, "xmm1", 32 },
	{ CODE(0xf2, 0x0f, 0x59, 0x02), SELECTION_LOADED, NULL, 64 },
	{ CODE(0xf3, 0x0f, 0x7e, 0x02), SELECTION_LOADED, "xmm0", 0 },
	{ CODE(0x0f, 0x28, 0x02), SELECTION_LOADED, "xmm0", 0 },
	{ CODE(0xa5), SELECTION_LOADED, NULL, 0 },
	/* comisd xmm5, xmm3; ucomiss xmm0, [rdx]; comisd xmm1, [rip+16] */
	{ CODE(0x66, 0x0f, 0x2f, 0xeb), SELECTION_RESULT, "xmm5", 64 },
	{ CODE(0x0f, 0x2e, 0x02), SELECTION_RESULT, "xmm0", 32 },
	{ CODE(0x66, 0x0f, 0x2f, 0x0d, 16, 0, 0, 0), SELECTION_RESULT, "xmm1", 64 },
	/* mov eax, [rip+16]; mov eax, [rsp+8]; mov eax, [rdi+8]; mov rax, fs:[0x10]; pop rbx */
	{ CODE(0x8b, 0x05, 16, 0, 0, 0), SELECTION_ADDRESS, NULL, .trivial = true },
	{ CODE(0x8b, 0x44, 0x24, 0x08), SELECTION_ADDRESS, NULL, .trivial = true },
	{ CODE(0x8b, 0x47, 0x08), SELECTION_ADDRESS, NULL },
	{ CODE(0x64, 0x48, 0x8b, 0x04, 0x25, 16, 0, 0, 0), SELECTION_ADDRESS, NULL },
	{ CODE(0x5b), SELECTION_ADDRESS, NULL, .trivial = true },
	/* cvtsi2sd xmm0, [rdx]; no instruction */
	{ CODE(0xf2, 0x0f, 0x2a, 0x02), SELECTION_LOADED, NULL, 0 },
	{ CODE(0x06), SELECTION_RESULT, NULL, 0 },
};

static void instructions_say_where_values_are(void **state)
{
	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct instruction in;
		const char *name;

		instruction_decode(sources[i].code, sources[i].size, 0, &in);
		name = instruction_register(&in, sources[i].source);
		assert_string_equal(name ? name : "-", sources[i].name ? sources[i].name : "-");
		assert_int_equal(instruction_float_width(&in, sources[i].source), sources[i].width);
		assert_int_equal(instruction_is_trivial(&in, sources[i].source),
				 sources[i].trivial);
	}
}

enum { CONSTANT = 0x2000, VARIABLE = 0x3000, OBJECT = 0x5000 };

static enum code_memory memory_of(void *ctx, uint32_t module, uint64_t address)
{
	if (address == CONSTANT)
		return CODE_MEMORY_CONSTANT;
	return address == VARIABLE ? CODE_MEMORY_VARIABLE : CODE_MEMORY_UNKNOWN;
}

/*
 * The code is decoded where its operand of four bytes, which is the last, is the address it gets.
 */
static bool is_constant_at(const uint8_t *code, size_t size, enum selection_source source,
			   uint64_t address, bool sole)
{
	struct fixture fixture;
	struct code_cache cache;
	struct instruction in;
	bool trivial;

	code_cache_init(&cache, fixture_demo(&fixture),
			&(struct code_source){ .memory = memory_of });
	instruction_decode(code, size, address - size, &in);
	assert_true(in.valid);
	trivial = code_cache_is_trivial(&cache, 1, &in, source, sole);
	code_cache_deinit(&cache);
	fixture_deinit(&fixture);
	return trivial;
}

static void constants_of_the_program_are_trivial(void **state)
{
	/*
	 * movsd xmm5, [rip]; mov eax, [rip]; addsd xmm0, [rip]; comisd xmm1, [rip]; cmp [rip], eax
	 */
	static const uint8_t vector[] = { 0xf2, 0x0f, 0x10, 0x2d, 0, 0, 0, 0 };
	static const uint8_t word[] = { 0x8b, 0x05, 0, 0, 0, 0 };
	static const uint8_t add[] = { 0xf2, 0x0f, 0x58, 0x05, 0, 0, 0, 0 };
	static const uint8_t compare[] = { 0x66, 0x0f, 0x2f, 0x0d, 0, 0, 0, 0 };
	static const uint8_t left[] = { 0x39, 0x05, 0, 0, 0, 0 };
#define AT(code, source, address, sole) is_constant_at(code, sizeof(code), source, address, sole)

	assert_true(AT(vector, SELECTION_RESULT, CONSTANT, false));
	assert_true(AT(vector, SELECTION_LOADED, CONSTANT, false));
	assert_false(AT(vector, SELECTION_RESULT, VARIABLE, true));
	assert_true(AT(vector, SELECTION_RESULT, 0x9000, true));
	assert_false(AT(vector, SELECTION_RESULT, 0x9000, false));
	assert_true(AT(word, SELECTION_RESULT, CONSTANT, false));
	assert_false(AT(word, SELECTION_RESULT, VARIABLE, true));
	assert_false(AT(word, SELECTION_RESULT, 0x9000, true));
	assert_false(AT(add, SELECTION_RESULT, CONSTANT, true));
	assert_true(AT(add, SELECTION_LOADED, CONSTANT, true));
	assert_false(AT(compare, SELECTION_RESULT, CONSTANT, true));
	assert_true(AT(compare, SELECTION_LOADED, CONSTANT, true));
	assert_true(AT(left, SELECTION_RESULT, CONSTANT, false));
	assert_false(AT(left, SELECTION_RESULT, VARIABLE, true));
#undef AT
}

static const char *object_of(void *ctx, uint32_t module, uint64_t address, uint64_t *ret_start)
{
	*ret_start = OBJECT;
	return address >= OBJECT ? ctx : NULL;
}

static void assert_disassembled(const uint8_t *code, size_t size, uint64_t address,
				const char *name, const char *text)
{
	struct code_source source = { .ctx = (void *)name, .object = object_of };
	struct disassembler disassembler;
	struct fixture fixture;
	struct instruction in;
	char *got;

	disassembler_init(&disassembler, fixture_values(&fixture), &source, false);
	instruction_decode(code, size, address, &in);
	got = disassembler_text(&disassembler, 1, &in);
	assert_string_equal(got, text);
	free(got);
	disassembler_deinit(&disassembler);
	fixture_deinit(&fixture);
}

static void objects_have_names(void **state)
{
	/* mov eax, [rip]; call rip */
	static const uint8_t mov[] = { 0x8b, 0x05, 0, 0, 0, 0 }, call[] = { 0xe8, 0, 0, 0, 0 };
	char name[2000], long_text[260];

	assert_disassembled(mov, 6, 0x4000 - 6, "nice_match", "mov eax, [table]");
	assert_disassembled(mov, 6, 0x4010 - 6, "nice_match", "mov eax, [table+0x10]");
	assert_disassembled(mov, 6, 0x4100 - 6, "nice_match", "mov eax, [0x4100]");
	assert_disassembled(mov, 6, OBJECT - 6, "nice_match", "mov eax, [nice_match]");
	assert_disassembled(mov, 6, OBJECT + 2, "nice_match", "mov eax, [nice_match+0x8]");
	assert_disassembled(mov, 6, OBJECT - 6, "[.bss]", "mov eax, [0x5000]");
	assert_disassembled(call, 5, 0x1100 - 5, "nice_match", "call 0x1100 <fib>");
	assert_disassembled(call, 5, 0x1101 - 5, "nice_match", "call 0x1101");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(long_text, sizeof(long_text), "mov eax, [%.200s]", name);
	assert_disassembled(mov, 6, OBJECT - 6, name, long_text);
}

static void bytes_are_told_from_words(void **state)
{
	static const struct {
		uint8_t code[4];
		enum selection_source source;
		bool byte;
	} cases[] = {
		/*
		 * movzx eax, [rdi]; movsx ecx, cl; cmp [rdi], al; movzx eax, word [rdi]; cmp esi, 3
		 */
		{ { 0x0f, 0xb6, 0x07 }, SELECTION_RESULT, true },
		{ { 0x0f, 0xbe, 0xc9 }, SELECTION_OPERAND1, true },
		{ { 0x0f, 0xbe, 0xc9 }, SELECTION_RESULT, false },
		{ { 0x38, 0x07 }, SELECTION_RESULT, true },
		{ { 0x0f, 0xb7, 0x07 }, SELECTION_RESULT, false },
		{ { 0x83, 0xfe, 0x03 }, SELECTION_OPERAND2, false },
	};
	struct instruction in;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		instruction_decode(cases[i].code, sizeof(cases[i].code), 0, &in);
		assert_int_equal(instruction_is_byte(&in, cases[i].source), cases[i].byte);
	}
}

struct code {
	const uint8_t *bytes;
	size_t size;
	unsigned asked;
};

static int code_get(void *ctx, uint32_t symbol, void **ret, size_t *ret_size)
{
	struct code *code = ctx;

	code->asked++;
	if (!code->size)
		return -1;
	*ret = mem_dup(code->bytes, code->size);
	*ret_size = code->size;
	return 0;
}

static int arguments_of(const uint8_t *bytes, size_t size)
{
	struct code code = { bytes, size };
	struct fixture fixture;
	struct code_cache cache;
	int used;

	code_cache_init(&cache, fixture_demo(&fixture), &(struct code_source){ code_get, &code });
	used = code_cache_arguments(&cache, 1);
	assert_int_equal(code_cache_arguments(&cache, 1), used);
	assert_int_equal(code.asked, 1);
	code_cache_deinit(&cache);
	fixture_deinit(&fixture);
	return used;
}

static void arguments_are_what_is_read_before_written(void **state)
{
	/* mov eax, [rdi+rcx]; xor esi, esi; add edx, esi; call rax; mov eax, r8d */
	static const uint8_t reads[] = { 0x8b, 0x04, 0x0f, 0x31, 0xf6, 0x01,
					 0xf2, 0xff, 0xd0, 0x44, 0x89, 0xc0 };
	/* mov rdi, rsi; endbr64; test dl, dl; nop [rcx]; mov r9d, 1; lea r9, [r8] */
	static const uint8_t writes[] = { 0x48, 0x89, 0xf7, 0xf3, 0x0f, 0x1e, 0xfa,
					  0x84, 0xd2, 0x0f, 0x1f, 0x01, 0x41, 0xb9,
					  1,	0,    0,    0,	  0x4d, 0x8d, 0x08 };

	assert_int_equal(arguments_of(reads, sizeof(reads)), 1 << 0 | 1 << 2 | 1 << 3);
	assert_int_equal(arguments_of(writes, sizeof(writes)), 1 << 1 | 1 << 2 | 1 << 4);
	assert_int_equal(arguments_of(fixture_poly, FIXTURE_POLY_SIZE), 1 << 0 | 1 << 1 | 1 << 2);
	assert_int_equal(arguments_of(NULL, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_read_as_a_person_would_want),
		cmocka_unit_test(names_lose_their_parameters),
		cmocka_unit_test(parameters_have_types),
		cmocka_unit_test(enumerations_have_names),
		cmocka_unit_test(pointers_to_text_show_it),
		cmocka_unit_test(instructions_say_where_values_are),
		cmocka_unit_test(constants_of_the_program_are_trivial),
		cmocka_unit_test(objects_have_names),
		cmocka_unit_test(bytes_are_told_from_words),
		cmocka_unit_test(arguments_are_what_is_read_before_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
