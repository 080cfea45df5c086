// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/instruction.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "base/mem.h"

enum { TEXT_MAX = 512, NAME_SHOWN = 200 /* bytes of an object's name */ };

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

static bool is_stack_pointer(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) ==
	       ZYDIS_REGISTER_RSP;
}

/* As isa/operands.h has them. */
static bool is_source(const ZydisDecodedOperand *operand)
{
	bool implied = operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
	ZydisRegisterClass class;

	if (!is_read(operand))
		return false;
	if (is_constant(operand))
		return !operand->imm.is_relative;
	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return operand->mem.type == ZYDIS_MEMOP_TYPE_MEM;
	if (is_general(operand))
		return !implied || !is_stack_pointer(operand->reg.value);
	class = is_register(operand) ? ZydisRegisterGetClass(operand->reg.value)
				     : ZYDIS_REGCLASS_INVALID;
	return class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM ||
	       class == ZYDIS_REGCLASS_ZMM || class == ZYDIS_REGCLASS_MASK;
}

/*
 * The operand with the given number, from 0, among the first count that pass; NULL: there are not
 * so many.
 */
static const ZydisDecodedOperand *operand_find(const struct instruction *in, unsigned count,
					       operand_test test, unsigned number)
{
	for (unsigned i = 0; i < count; i++)
		if (test(&in->operands[i]) && !number--)
			return &in->operands[i];
	return NULL;
}

/* Whether the instruction only sets flags: then its left operand stands for its result. */
static bool is_comparison(const struct instruction *in)
{
	switch (in->decoded.mnemonic) {
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_COMISD:
	case ZYDIS_MNEMONIC_COMISS:
	case ZYDIS_MNEMONIC_UCOMISD:
	case ZYDIS_MNEMONIC_UCOMISS:
	case ZYDIS_MNEMONIC_VCOMISD:
	case ZYDIS_MNEMONIC_VCOMISS:
	case ZYDIS_MNEMONIC_VUCOMISD:
	case ZYDIS_MNEMONIC_VUCOMISS:
		return true;
	default:
		return false;
	}
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
						 enum selection_source source)
{
	unsigned visible = in->decoded.operand_count_visible;

	switch (source) {
	case SELECTION_RESULT:
		return result_operand(in);
	case SELECTION_OPERAND1 ... SELECTION_OPERAND4:
		return operand_find(in, in->decoded.operand_count, is_source,
				    source - SELECTION_OPERAND1);
	case SELECTION_STORED:
		return is_move(in) ? operand_find(in, visible, is_read, 0) : NULL;
	case SELECTION_LOADED:
		return is_move(in) ? operand_find(in, visible, is_written, 0) : NULL;
	case SELECTION_TARGET:
		return visible ? &in->operands[0] : NULL;
	default:
		return NULL;
	}
}

const char *instruction_register(const struct instruction *in, enum selection_source source)
{
	const ZydisDecodedOperand *operand = in->valid ? source_operand(in, source) : NULL;

	return operand && is_register(operand) ? ZydisRegisterGetString(operand->reg.value) : NULL;
}

bool instruction_is_memory(const struct instruction *in, enum selection_source source)
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

unsigned instruction_float_width(const struct instruction *in, enum selection_source source)
{
	const ZydisDecodedOperand *operand = NULL;

	if (!in->valid)
		return 0;
	if (source == SELECTION_LOADED || source == SELECTION_STORED ||
	    source == SELECTION_OVERWRITTEN)
		operand = operand_find(in, in->decoded.operand_count_visible, is_memory, 0);
	else if (source == SELECTION_RESULT ||
		 (source >= SELECTION_OPERAND1 && source <= SELECTION_OPERAND4))
		operand = source_operand(in, source);
	return operand && is_scalar_float(in, operand) ? operand->element_size : 0;
}

bool instruction_is_byte(const struct instruction *in, enum selection_source source)
{
	const ZydisDecodedOperand *operand = in->valid ? source_operand(in, source) : NULL;

	if (in->valid && source == SELECTION_RESULT && in->decoded.mnemonic == ZYDIS_MNEMONIC_MOVZX)
		operand = &in->operands[1];
	return operand && !is_constant(operand) && operand->size == 8;
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

/* A memory operand whose address the text says. */
static bool is_object(const ZydisDecodedOperand *operand)
{
	return is_memory(operand) && operand->mem.index == ZYDIS_REGISTER_NONE &&
	       operand->mem.segment != ZYDIS_REGISTER_FS &&
	       operand->mem.segment != ZYDIS_REGISTER_GS &&
	       (operand->mem.base == ZYDIS_REGISTER_RIP ||
		operand->mem.base == ZYDIS_REGISTER_NONE);
}

bool instruction_is_on_stack(const struct instruction *in)
{
	const ZydisDecodedOperand *memory =
		in->valid ? operand_find(in, in->decoded.operand_count_visible, is_memory, 0)
			  : NULL;

	return in->valid && (is_stack(in) || (memory && is_stack_pointer(memory->mem.base)));
}

/* jmp [rip+...]: how calls reach other libraries. */
static bool is_linkage(const struct instruction *in)
{
	return in->decoded.mnemonic == ZYDIS_MNEMONIC_JMP && is_memory(&in->operands[0]) &&
	       in->operands[0].mem.base == ZYDIS_REGISTER_RIP;
}

bool instruction_is_trivial(const struct instruction *in, enum selection_source source)
{
	const ZydisDecodedOperand *operand;
	bool call;

	if (!in->valid)
		return false;
	call = in->decoded.meta.category == ZYDIS_CATEGORY_CALL;
	if (is_stack(in) || (call && source != SELECTION_TARGET))
		return true;
	operand = source_operand(in, source);
	if (source == SELECTION_TARGET && is_linkage(in))
		return true;
	if (source == SELECTION_ADDRESS || source == SELECTION_ADDRESS2)
		return instruction_is_on_stack(in) ||
		       operand_find(in, in->decoded.operand_count_visible, is_object, 0);
	if (operand && (is_constant(operand) ||
			(is_register(operand) && is_stack_pointer(operand->reg.value))))
		return true;
	if (source == SELECTION_RESULT && is_move(in))
		return operand_find(in, in->decoded.operand_count_visible, is_constant, 0);
	return source != SELECTION_TARGET && (is_clearing(in) || is_fixed_address(in));
}

bool instruction_compares_memory(const struct instruction *in)
{
	return in->valid && is_comparison(in) &&
	       operand_find(in, in->decoded.operand_count_visible, is_memory, 0);
}

/* The object that the source's value is read from as it is; NULL: from none, or not as it is. */
static const ZydisDecodedOperand *source_object(const struct instruction *in,
						enum selection_source source)
{
	unsigned visible = in->decoded.operand_count_visible;
	const ZydisDecodedOperand *operand = operand_find(in, visible, is_object, 0);

	switch (operand && is_read(operand) ? source : SELECTION_SOURCE_COUNT) {
	case SELECTION_LOADED:
		return operand;
	case SELECTION_OPERAND1 ... SELECTION_OPERAND4:
		return source_operand(in, source) == operand ? operand : NULL;
	case SELECTION_RESULT:
		if (is_comparison(in))
			return source_operand(in, source) == operand ? operand : NULL;
		return is_move(in) && !operand_find(in, visible, is_read, 1) ? operand : NULL;
	default:
		return NULL;
	}
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

/* Where the code or the data of a symbol begins. */
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

/* The last symbol of the module that begins at the address or before; 0: none. */
static uint32_t symbol_before(struct disassembler *disassembler, uint32_t module, uint64_t address)
{
	size_t low = 0, high;
	const struct entry_name *names;

	if (!disassembler->names)
		names_collect(disassembler);
	names = disassembler->names;
	high = disassembler->name_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entry_name_order(&names[middle], &(struct entry_name){ module, 0, address }) <=
		    0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && names[low - 1].module == module ? names[low - 1].symbol : 0;
}

/* A section's name says nothing about the object. */
static bool is_object_name(const char *name)
{
	return name && *name && *name != '[';
}

/* By the profile, or by the module's file; NULL: the object has no name. */
static const char *object_name(struct disassembler *disassembler, uint64_t address,
			       uint64_t *ret_start)
{
	const struct profile *profile = disassembler->profile;
	const struct code_source *source = &disassembler->source;
	uint32_t number = symbol_before(disassembler, disassembler->module, address);
	const struct profile_symbol *symbol = &profile->symbols[number];
	const char *name = NULL;

	if (number && address - symbol->address < symbol->size && is_object_name(symbol->name)) {
		*ret_start = symbol->address;
		return symbol->name;
	}
	if (source->object)
		name = source->object(source->ctx, disassembler->module, address, ret_start);
	return is_object_name(name) ? name : NULL;
}

/* The string's size counts its NUL. */
static ZyanStatus string_append(ZyanString *string, const char *text)
{
	ZyanVector *vector = &string->vector;
	size_t length = strlen(text);

	if (vector->capacity - vector->size < length)
		return ZYAN_STATUS_INSUFFICIENT_BUFFER_SIZE;
	memcpy((char *)vector->data + vector->size - 1, text, length + 1);
	vector->size += length;
	return ZYAN_STATUS_SUCCESS;
}

/* Of an operand in memory, the object's name; everything else is left to the formatter. */
static ZyanStatus address_print(const ZydisFormatter *formatter, ZydisFormatterBuffer *buffer,
				ZydisFormatterContext *context)
{
	struct disassembler *disassembler = context->user_data;
	const char *name = NULL;
	char text[NAME_SHOWN + 24];
	uint64_t start = 0;
	ZyanString *string;
	ZyanU64 address;

	if (is_object(context->operand) &&
	    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(context->instruction, context->operand,
						  context->runtime_address, &address)))
		name = object_name(disassembler, address, &start);
	if (!name)
		return disassembler->address_print(formatter, buffer, context);
	snprintf(text, sizeof(text), address == start ? "%.*s" : "%.*s+0x%" PRIx64, NAME_SHOWN,
		 name, address - start);
	ZYAN_CHECK(ZydisFormatterBufferAppend(buffer, ZYDIS_TOKEN_SYMBOL));
	ZYAN_CHECK(ZydisFormatterBufferGetString(buffer, &string));
	return string_append(string, text);
}

void disassembler_init(struct disassembler *disassembler, const struct profile *profile,
		       const struct code_source *source, bool att)
{
	static const ZydisFormatterProperty paddings[] = {
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
		ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE,
		ZYDIS_FORMATTER_PROP_DISP_PADDING,
		ZYDIS_FORMATTER_PROP_IMM_PADDING,
	};

	*disassembler = (struct disassembler){ .profile = profile, .source = *source };
	ZydisFormatterInit(&disassembler->formatter,
			   att ? ZYDIS_FORMATTER_STYLE_ATT : ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&disassembler->formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
	for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++)
		ZydisFormatterSetProperty(&disassembler->formatter, paddings[i],
					  ZYDIS_PADDING_DISABLED);
	disassembler->address_print = address_print;
	ZydisFormatterSetHook(&disassembler->formatter, ZYDIS_FORMATTER_FUNC_PRINT_ADDRESS_ABS,
			      (const void **)&disassembler->address_print);
}

void disassembler_deinit(struct disassembler *disassembler)
{
	free(disassembler->names);
}

/* The function that a direct call or jump goes to the start of; NULL: the profile knows none. */
static const char *target_name(struct disassembler *disassembler, uint32_t module,
			       const struct instruction *in)
{
	const ZydisDecodedOperand *operand = &in->operands[0];
	ZyanU64 target;
	uint32_t symbol;

	if (!in->decoded.operand_count_visible || operand->type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    !operand->imm.is_relative ||
	    ZYAN_FAILED(ZydisCalcAbsoluteAddress(&in->decoded, operand, in->address, &target)))
		return NULL;
	symbol = symbol_before(disassembler, module, target);
	if (!symbol || disassembler->profile->symbols[symbol].address != target)
		return NULL;
	return name_of_symbol(disassembler->profile, symbol);
}

char *disassembler_text(struct disassembler *disassembler, uint32_t module,
			const struct instruction *in)
{
	char text[TEXT_MAX];
	const char *name;

	disassembler->module = module;
	if (!in->valid || ZYAN_FAILED(ZydisFormatterFormatInstruction(
				  &disassembler->formatter, &in->decoded, in->operands,
				  in->decoded.operand_count_visible, text, sizeof(text),
				  in->address, disassembler)))
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

static bool is_vector_load(const struct instruction *in)
{
	const ZydisDecodedOperand *operand = &in->operands[0];
	ZydisRegisterClass class = is_register(operand) ? ZydisRegisterGetClass(operand->reg.value)
							: ZYDIS_REGCLASS_INVALID;

	return class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM;
}

bool code_cache_is_trivial(struct code_cache *cache, uint32_t module, const struct instruction *in,
			   enum selection_source source, bool sole)
{
	enum code_memory memory = CODE_MEMORY_UNKNOWN;
	const ZydisDecodedOperand *object;
	ZyanU64 address;

	if (instruction_is_trivial(in, source))
		return true;
	object = in->valid ? source_object(in, source) : NULL;
	if (!object ||
	    ZYAN_FAILED(ZydisCalcAbsoluteAddress(&in->decoded, object, in->address, &address)))
		return false;
	if (cache->source.memory)
		memory = cache->source.memory(cache->source.ctx, module, address);
	return memory == CODE_MEMORY_UNKNOWN ? sole && is_vector_load(in)
					     : memory == CODE_MEMORY_CONSTANT;
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
