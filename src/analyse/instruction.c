// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/instruction.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "base/mem.h"

void instruction_decode(const uint8_t *code, size_t size, uint64_t address, struct instruction *ret)
{
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ret->address = address;
	ret->byte = *code;
	ret->valid = ZYAN_SUCCESS(
		ZydisDecoderDecodeFull(&decoder, code, size, &ret->decoded, ret->operands));
}

size_t instruction_length(const struct instruction *instruction)
{
	return instruction->valid ? instruction->decoded.length : 1;
}

typedef bool (*operand_test)(const ZydisDecodedOperand *operand);

static bool is_read(const ZydisDecodedOperand *operand)
{
	return operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ;
}

static bool is_written(const ZydisDecodedOperand *operand)
{
	return operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

static bool is_memory(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY;
}

static bool is_register(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER;
}

static bool is_general(const ZydisDecodedOperand *operand)
{
	ZydisRegisterClass class = is_register(operand) ? ZydisRegisterGetClass(operand->reg.value)
							: 0;

	return class == ZYDIS_REGCLASS_GPR8 || class == ZYDIS_REGCLASS_GPR16 ||
	       class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64;
}

static bool is_constant(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static bool is_general_written(const ZydisDecodedOperand *operand)
{
	return is_general(operand) && is_written(operand);
}

/* The operand with the given number, from 0, among the first count that pass; NULL: there are not so many. */
static const ZydisDecodedOperand *operand_find(const struct instruction *in, unsigned count,
					       operand_test test, unsigned number)
{
	for (unsigned i = 0; i < count; i++)
		if (test(&in->operands[i]) && !number--)
			return &in->operands[i];
	return NULL;
}

static bool is_comparison(const struct instruction *in)
{
	return in->decoded.mnemonic == ZYDIS_MNEMONIC_CMP ||
	       in->decoded.mnemonic == ZYDIS_MNEMONIC_TEST;
}

static bool is_stack(const struct instruction *in)
{
	switch (in->decoded.meta.category) {
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_RET:
		return true;
	default:
		return in->decoded.mnemonic == ZYDIS_MNEMONIC_LEAVE ||
		       in->decoded.mnemonic == ZYDIS_MNEMONIC_ENTER;
	}
}

/* Copies without changing a bit that counts. */
static bool is_move(const struct instruction *in)
{
	return in->decoded.meta.category == ZYDIS_CATEGORY_DATAXFER ||
	       in->decoded.meta.category == ZYDIS_CATEGORY_PUSH ||
	       in->decoded.meta.category == ZYDIS_CATEGORY_POP;
}

static const ZydisDecodedOperand *result_operand(const struct instruction *in)
{
	unsigned visible = in->decoded.operand_count_visible;
	const ZydisDecodedOperand *operand;

	if (is_comparison(in))
		return &in->operands[0];
	operand = operand_find(in, visible, is_written, 0);
	if (!operand)
		operand = operand_find(in, in->decoded.operand_count, is_general_written, 0);
	return operand;
}

/* NULL: no single operand has it. */
static const ZydisDecodedOperand *source_operand(const struct instruction *in,
						 enum capture_source source)
{
	unsigned visible = in->decoded.operand_count_visible;

	switch (source) {
	case CAPTURE_RESULT:
		return result_operand(in);
	case CAPTURE_OPERAND1:
		return operand_find(in, visible, is_read, 0);
	case CAPTURE_OPERAND2:
		return operand_find(in, visible, is_read, 1);
	case CAPTURE_STORED:
		return is_move(in) ? operand_find(in, visible, is_read, 0) : NULL;
	case CAPTURE_LOADED:
		return is_move(in) ? operand_find(in, visible, is_written, 0) : NULL;
	case CAPTURE_TARGET:
		return visible ? &in->operands[0] : NULL;
	default:
		return NULL;
	}
}

const char *instruction_register(const struct instruction *in, enum capture_source source)
{
	const ZydisDecodedOperand *operand = in->valid ? source_operand(in, source) : NULL;

	return operand && is_register(operand) ? ZydisRegisterGetString(operand->reg.value) : NULL;
}

bool instruction_is_memory(const struct instruction *in, enum capture_source source)
{
	const ZydisDecodedOperand *operand = in->valid ? source_operand(in, source) : NULL;

	return operand && is_memory(operand);
}

static bool is_scalar_float(const struct instruction *in, const ZydisDecodedOperand *operand)
{
	const char *name = ZydisMnemonicGetString(in->decoded.mnemonic);
	size_t length = name ? strlen(name) : 0;

	if (operand->element_type != ZYDIS_ELEMENT_TYPE_FLOAT32 &&
	    operand->element_type != ZYDIS_ELEMENT_TYPE_FLOAT64)
		return false;
	if (is_memory(operand))
		return operand->size == operand->element_size;
	return length > 2 && name[length - 2] == 's' && strchr("sd", name[length - 1]);
}

unsigned instruction_float_width(const struct instruction *in, enum capture_source source)
{
	const ZydisDecodedOperand *operand = NULL;

	if (!in->valid)
		return 0;
	if (source == CAPTURE_LOADED || source == CAPTURE_STORED || source == CAPTURE_OVERWRITTEN)
		operand = operand_find(in, in->decoded.operand_count_visible, is_memory, 0);
	else if (source == CAPTURE_RESULT || source == CAPTURE_OPERAND1 ||
		 source == CAPTURE_OPERAND2)
		operand = source_operand(in, source);
	return operand && is_scalar_float(in, operand) ? operand->element_size : 0;
}

bool instruction_is_byte(const struct instruction *in, enum capture_source source)
{
	const ZydisDecodedOperand *operand = in->valid ? source_operand(in, source) : NULL;

	if (in->valid && source == CAPTURE_RESULT && in->decoded.mnemonic == ZYDIS_MNEMONIC_MOVZX)
		operand = &in->operands[1];
	return operand && !is_constant(operand) && operand->size == 8;
}

static bool is_stack_pointer(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) ==
	       ZYDIS_REGISTER_RSP;
}

/* xor eax, eax and its kind. */
static bool is_clearing(const struct instruction *in)
{
	const ZydisDecodedOperand *a = &in->operands[0], *b = &in->operands[1];

	switch (in->decoded.mnemonic) {
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_PXOR:
	case ZYDIS_MNEMONIC_XORPS:
	case ZYDIS_MNEMONIC_XORPD:
		return is_register(a) && is_register(b) && a->reg.value == b->reg.value;
	default:
		return false;
	}
}

/* The address of an object or of a place on the stack. */
static bool is_fixed_address(const struct instruction *in)
{
	const ZydisDecodedOperand *memory = &in->operands[1];

	return in->decoded.mnemonic == ZYDIS_MNEMONIC_LEA &&
	       memory->mem.index == ZYDIS_REGISTER_NONE &&
	       (memory->mem.base == ZYDIS_REGISTER_RIP || memory->mem.base == ZYDIS_REGISTER_NONE ||
		is_stack_pointer(memory->mem.base));
}

/* jmp [rip+...]: how calls reach other libraries. */
static bool is_linkage(const struct instruction *in)
{
	return in->decoded.mnemonic == ZYDIS_MNEMONIC_JMP && is_memory(&in->operands[0]) &&
	       in->operands[0].mem.base == ZYDIS_REGISTER_RIP;
}

bool instruction_is_trivial(const struct instruction *in, enum capture_source source)
{
	const ZydisDecodedOperand *operand;
	bool call;

	if (!in->valid)
		return false;
	call = in->decoded.meta.category == ZYDIS_CATEGORY_CALL;
	if (is_stack(in) || (call && source != CAPTURE_TARGET))
		return true;
	operand = source_operand(in, source);
	if (source == CAPTURE_TARGET && is_linkage(in))
		return true;
	if (operand && (is_constant(operand) ||
			(is_register(operand) && is_stack_pointer(operand->reg.value))))
		return true;
	if (source == CAPTURE_RESULT && is_move(in))
		return operand_find(in, in->decoded.operand_count_visible, is_constant, 0);
	return source != CAPTURE_TARGET && (is_clearing(in) || is_fixed_address(in));
}

bool instruction_leaves(const struct instruction *in)
{
	switch (in->valid ? in->decoded.meta.category : ZYDIS_CATEGORY_INTERRUPT) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
		return true;
	default:
		return false;
	}
}

bool instruction_is_nop(const struct instruction *in)
{
	return in->valid && (in->decoded.meta.category == ZYDIS_CATEGORY_NOP ||
			     in->decoded.meta.category == ZYDIS_CATEGORY_WIDENOP ||
			     in->decoded.mnemonic == ZYDIS_MNEMONIC_ENDBR64);
}

void disassembler_init(struct disassembler *disassembler, const struct profile *profile, bool att)
{
	static const ZydisFormatterProperty paddings[] = {
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
		ZYDIS_FORMATTER_PROP_DISP_PADDING,
		ZYDIS_FORMATTER_PROP_IMM_PADDING,
	};

	*disassembler = (struct disassembler){ .profile = profile };
	ZydisFormatterInit(&disassembler->formatter,
			   att ? ZYDIS_FORMATTER_STYLE_ATT : ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&disassembler->formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
	for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++)
		ZydisFormatterSetProperty(&disassembler->formatter, paddings[i],
					  ZYDIS_PADDING_DISABLED);
}

void disassembler_deinit(struct disassembler *disassembler)
{
	free(disassembler->names);
}

/* Where the code of a symbol begins. */
struct entry_name {
	uint32_t module;
	uint32_t symbol;
	uint64_t address;
};

static int entry_name_order(const void *left, const void *right)
{
	const struct entry_name *a = left, *b = right;

	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

static void names_collect(struct disassembler *disassembler)
{
	const struct profile *profile = disassembler->profile;

	disassembler->names = mem_alloc((profile->symbol_count + 1) * sizeof(*disassembler->names));
	for (uint32_t i = 1; i < profile->symbol_count; i++)
		if (!profile->symbols[i].inlined)
			disassembler->names[disassembler->name_count++] =
				(struct entry_name){ profile->symbols[i].module, i,
						     profile->symbols[i].address };
	qsort(disassembler->names, disassembler->name_count, sizeof(*disassembler->names),
	      entry_name_order);
}

/* The function that a direct call or jump goes to the start of; NULL: the profile knows none. */
static const char *target_name(struct disassembler *disassembler, uint32_t module,
			       const struct instruction *in)
{
	const ZydisDecodedOperand *operand = &in->operands[0];
	struct entry_name key = { .module = module }, *name;
	ZyanU64 target;

	if (!in->decoded.operand_count_visible || operand->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    !operand->imm.is_relative ||
	    ZYAN_FAILED(ZydisCalcAbsoluteAddress(&in->decoded, operand, in->address, &target)))
		return NULL;
	if (!disassembler->names)
		names_collect(disassembler);
	key.address = target;
	name = bsearch(&key, disassembler->names, disassembler->name_count, sizeof(key),
		       entry_name_order);
	return name ? name_of_symbol(disassembler->profile, name->symbol) : NULL;
}

char *disassembler_text(struct disassembler *disassembler, uint32_t module,
			const struct instruction *in)
{
	char text[256];
	const char *name;

	if (!in->valid ||
	    ZYAN_FAILED(ZydisFormatterFormatInstruction(
		    &disassembler->formatter, &in->decoded, in->operands,
		    in->decoded.operand_count_visible, text, sizeof(text), in->address, NULL)))
		return mem_printf(".byte 0x%02x", in->byte);
	name = target_name(disassembler, module, in);
	return name ? mem_printf("%s <%s>", text, name) : mem_strdup(text);
}

struct code_bytes {
	void *code;
	size_t size;
	bool asked;
	bool arguments_known;
	int arguments;
};

void code_cache_init(struct code_cache *cache, const struct profile *profile,
		     const struct code_source *source)
{
	*cache = (struct code_cache){ .profile = profile, .source = *source };
}

void code_cache_deinit(struct code_cache *cache)
{
	for (size_t i = 0; cache->bytes && i < cache->profile->symbol_count; i++)
		free(cache->bytes[i].code);
	free(cache->bytes);
}

size_t code_cache_get(struct code_cache *cache, uint32_t symbol, const uint8_t **ret)
{
	struct code_bytes *bytes;

	if (!cache->source.get || !symbol)
		return 0;
	if (!cache->bytes)
		cache->bytes = mem_zalloc(cache->profile->symbol_count * sizeof(*cache->bytes));
	bytes = &cache->bytes[symbol];
	if (!bytes->asked) {
		bytes->asked = true;
		if (cache->source.get(cache->source.ctx, symbol, &bytes->code, &bytes->size))
			bytes->size = 0;
	}
	*ret = bytes->code;
	return bytes->size;
}

bool code_cache_instruction(struct code_cache *cache, uint32_t location, struct instruction *ret)
{
	uint32_t symbol = location_function(cache->profile, location);
	uint64_t address = cache->profile->locations[location].address, offset;
	const uint8_t *code;
	size_t size = code_cache_get(cache, symbol, &code);

	if (!size)
		return false;
	offset = address - cache->profile->symbols[symbol].address;
	if (offset >= size)
		return false;
	instruction_decode(code + offset, size - offset, address, ret);
	return true;
}

enum { ARGUMENTS = 6, ARGUMENTS_ALL = (1 << ARGUMENTS) - 1 };

static int argument_bit(ZydisRegister reg)
{
	static const ZydisRegister order[ARGUMENTS] = { ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI,
							ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX,
							ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9 };
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	for (int i = 0; i < ARGUMENTS; i++)
		if (order[i] == whole)
			return 1 << i;
	return 0;
}

/* The argument registers that an instruction reads or, with written, writes. */
static int argument_bits(const struct instruction *in, bool written)
{
	int bits = 0;

	for (unsigned i = 0; i < in->decoded.operand_count; i++) {
		const ZydisDecodedOperand *operand = &in->operands[i];

		if (is_register(operand) && (written ? is_written(operand) : is_read(operand)))
			bits |= argument_bit(operand->reg.value);
		if (is_memory(operand) && !written)
			bits |= argument_bit(operand->mem.base) | argument_bit(operand->mem.index);
	}
	return bits;
}

static int arguments_find(const uint8_t *code, size_t size)
{
	struct instruction in;
	int used = 0, known = 0;
	size_t length;

	for (size_t offset = 0; offset < size && known != ARGUMENTS_ALL; offset += length) {
		instruction_decode(code + offset, size - offset, offset, &in);
		length = instruction_length(&in);
		if (!in.valid || in.decoded.meta.category == ZYDIS_CATEGORY_CALL)
			break;
		if (instruction_is_nop(&in))
			continue;
		if (!is_clearing(&in))
			used |= argument_bits(&in, false) & ~known;
		known |= argument_bits(&in, false) | argument_bits(&in, true);
	}
	return used;
}

int code_cache_arguments(struct code_cache *cache, uint32_t symbol)
{
	const uint8_t *code;
	size_t size = code_cache_get(cache, symbol, &code);
	struct code_bytes *bytes;

	if (!size)
		return -1;
	bytes = &cache->bytes[symbol];
	if (!bytes->arguments_known) {
		bytes->arguments = arguments_find(code, size);
		bytes->arguments_known = true;
	}
	return bytes->arguments;
}
