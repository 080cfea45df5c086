// SPDX-License-Identifier: BSD-2-Clause
/*
 * From a function's DWARF to the registers of its parameters.
 *
 * The parameters are listed by the function, or by the function that it is an instance of
 * (DW_AT_abstract_origin), whose list is whole even where the instance leaves out what it does not
 * need. They take registers in their order, as calling_convention.c says for each type.
 *
 * Compilers change functions that are only called in their unit: parameters vanish or move. GCC
 * gives such a copy another name, which the caller looks at. Clang does not, but says where each
 * parameter is when the function begins (DW_AT_location): in another register than the one that is
 * its by the rules, or nowhere.
 *
 * 1. No answer rather than a wrong one: what is unsure ends the list; a contradiction empties it.
 */
#include "symbols/parameters.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "symbols/calling_convention.h"

enum {
	LISTED_MAX = 256, /* more parameters than that are not looked at */
	FLOATS_MAX =
		/* with more arguments in vector registers a mixed structure may find none left */
	6,
	DWARF_XMM0 = 17,
	DWARF_XMM15 = 32,
};

/* Where a parameter is when its function begins, if in no register. */
enum { TOLD_NOWHERE = -2, TOLD_ELSEWHERE = -1 };

/* DWARF's numbers of rdi, rsi, rdx, rcx, r8, r9. */
static const uint8_t register_numbers[SYMBOL_PARAMETERS_MAX] = { 5, 4, 1, 2, 8, 9 };

struct list {
	ARRAY(Dwarf_Die) items;
};

struct reading {
	struct parameters *parameters;
	struct list listed, own; /* of the origin; of the instance, which has the locations */
	uint64_t pc;
	bool cpp;
	bool private; /* the compiler may have changed it without saying so */
	unsigned int integers, floats; /* registers taken */
	struct symbol_parameter *found;
	size_t found_count;
};

void parameters_deinit(struct parameters *parameters)
{
	typenames_deinit(&parameters->names);
	strtab_deinit(&parameters->texts);
	map_deinit(&parameters->types);
}

static void reading_deinit(struct reading *reading)
{
	array_deinit(&reading->listed.items);
	array_deinit(&reading->own.items);
}

/* The parameters that a template got as one pack lie one level deeper, without names. */
static void list_fill(struct list *list, Dwarf_Die *parent, bool in_pack)
{
	Dwarf_Die die;
	bool more = dwarf_child(parent, &die) == 0;

	for (; more && list->items.count < LISTED_MAX; more = dwarf_siblingof(&die, &die) == 0) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_formal_parameter)
			*array_push(&list->items) = die;
		else if (tag == DW_TAG_GNU_formal_parameter_pack && !in_pack)
			list_fill(list, &die, true);
	}
}

static bool reference_follow(Dwarf_Die *die, unsigned int name, Dwarf_Die *ret)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) && dwarf_formref_die(&attribute, ret);
}

static bool language_known(Dwarf_Die *die, bool *ret_cpp)
{
	Dwarf_Die unit;

	switch (dwarf_diecu(die, &unit, NULL, NULL) ? dwarf_srclang(&unit) : -1) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
		*ret_cpp = false;
		return true;
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
		*ret_cpp = true;
		return true;
	default:
		return false;
	}
}

static bool convention_usual(Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	Dwarf_Word convention;

	if (!dwarf_attr_integrate(function, DW_AT_calling_convention, &attribute))
		return true;
	return dwarf_formudata(&attribute, &convention) == 0 && convention == DW_CC_normal;
}

/* Whether the function is local to its unit and was not compiled by GCC. */
static bool is_private(Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	const char *producer = NULL;
	Dwarf_Die unit;

	if (dwarf_attr_integrate(function, DW_AT_external, &attribute))
		return false;
	if (dwarf_diecu(function, &unit, NULL, NULL) &&
	    dwarf_attr(&unit, DW_AT_producer, &attribute))
		producer = dwarf_formstring(&attribute);
	return !producer || strncmp(producer, "GNU ", 4) != 0;
}

/*
 * The function's own parameter that is an instance of the listed one; without an origin they are
 * the same.
 */
static Dwarf_Die *own_of(struct reading *reading, const Dwarf_Die *listed)
{
	array_each(&reading->own.items, own) {
		Dwarf_Die origin;

		if (own->addr == listed->addr ||
		    (reference_follow(own, DW_AT_abstract_origin, &origin) &&
		     origin.addr == listed->addr))
			return own;
	}
	return NULL;
}

/* DWARF's number of the register that holds it when the function begins, or TOLD_. */
static int register_told(struct reading *reading, Dwarf_Die *own)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *operations;
	size_t count;

	if (!own || !dwarf_attr(own, DW_AT_location, &attribute) ||
	    dwarf_getlocation_addr(&attribute, reading->pc, &operations, &count, 1) <= 0 ||
	    count == 0)
		return TOLD_NOWHERE;
	if (operations[0].atom >= DW_OP_reg0 && operations[0].atom <= DW_OP_reg31)
		return operations[0].atom - DW_OP_reg0;
	return operations[0].atom == DW_OP_regx ? (int)operations[0].number : TOLD_ELSEWHERE;
}

/* Registers that are not for arguments are where a value is kept later on. */
static bool contradicts(int told, int expected)
{
	bool vector = told >= DWARF_XMM0 && told <= DWARF_XMM15;

	if (told < 0 || told == expected)
		return false;
	if (vector)
		return expected >= 0;
	return memchr(register_numbers, told, sizeof(register_numbers));
}

static const char *type_text(struct reading *reading, Dwarf_Die *type, bool reference)
{
	struct parameters *parameters = reading->parameters;
	struct strbuf text = {};
	uint64_t *known;
	bool fresh;

	known = map_at(&parameters->types, (uintptr_t)type->addr, &fresh);
	if (fresh) {
		typename_print(&parameters->names, type, reading->cpp, &text);
		if (reference)
			strbuf_puts(&text, " &");
		*known = strtab_add(&parameters->texts, strbuf_text(&text));
		strbuf_deinit(&text);
	}
	return strtab_get(&parameters->texts, (uint32_t)*known);
}

static enum symbol_encoding base_encoding(Dwarf_Die *type)
{
	const char *name = dwarf_diename(type);
	Dwarf_Attribute attribute;
	Dwarf_Word encoding = 0;

	if (dwarf_attr(type, DW_AT_encoding, &attribute))
		dwarf_formudata(&attribute, &encoding);
	switch (encoding) {
	case DW_ATE_boolean:
		return SYMBOL_ENCODING_BOOL;
	case DW_ATE_UTF:
		return SYMBOL_ENCODING_CHAR;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char:
		/*
		 * "signed char" and "unsigned char" are small numbers more often than characters.
		 */
		if (name && !strcmp(name, "char"))
			return SYMBOL_ENCODING_CHAR;
		return encoding == DW_ATE_signed_char ? SYMBOL_ENCODING_SIGNED
						      : SYMBOL_ENCODING_UNSIGNED;
	case DW_ATE_signed:
		return SYMBOL_ENCODING_SIGNED;
	default:
		return SYMBOL_ENCODING_UNSIGNED;
	}
}

static enum symbol_encoding encoding_of(Dwarf_Die *type, const struct passing *passing)
{
	Dwarf_Die bare;

	if (passing->reference)
		return SYMBOL_ENCODING_POINTER;
	if (passing->aggregate || passing->size > 8 || dwarf_peel_type(type, &bare) != 0)
		return SYMBOL_ENCODING_UNSIGNED;
	switch (dwarf_tag(&bare)) {
	case DW_TAG_base_type:
		return base_encoding(&bare);
	case DW_TAG_enumeration_type:
		return SYMBOL_ENCODING_ENUM;
	case DW_TAG_ptr_to_member_type:
		return SYMBOL_ENCODING_SIGNED;
	default:
		return SYMBOL_ENCODING_POINTER;
	}
}

/* NULL: it has none. Every name is an identifier, so that nothing needs quoting. */
static const char *enumerators_text(struct reading *reading, Dwarf_Die *type)
{
	AUTO(strbuf_deinit) struct strbuf text = {};
	size_t count = 0;
	Dwarf_Die bare, die;
	bool more = dwarf_peel_type(type, &bare) == 0 && dwarf_child(&bare, &die) == 0;

	for (; more && count < SYMBOL_ENUMERATORS_MAX; more = dwarf_siblingof(&die, &die) == 0) {
		const char *name = dwarf_diename(&die);
		Dwarf_Attribute attribute;
		Dwarf_Sword value;

		if (dwarf_tag(&die) != DW_TAG_enumerator || !name || strpbrk(name, "=\n") ||
		    !dwarf_attr(&die, DW_AT_const_value, &attribute) ||
		    dwarf_formsdata(&attribute, &value))
			continue;
		strbuf_printf(&text, "%s=%lld\n", name, (long long)value);
		count++;
	}
	return count ? strtab_get(&reading->parameters->texts,
				  strtab_add(&reading->parameters->texts, strbuf_text(&text)))
		     : NULL;
}

/* Of a value in two parts the second one is called "name+8". */
static void part_found(struct reading *reading, Dwarf_Die *listed, Dwarf_Die *type,
		       const struct passing *passing, unsigned int part)
{
	const char *name = dwarf_diename(listed);
	AUTO(free_ptr) char *text = mem_printf(part ? "%s+8" : "%s", name ? name : "");
	uint64_t size = passing->reference ? 8 : passing->size - 8 * part;
	enum symbol_encoding encoding = encoding_of(type, passing);

	reading->found[reading->found_count++] = (struct symbol_parameter){
		.argument = reading->integers++,
		.name = strtab_get(&reading->parameters->texts,
				   strtab_add(&reading->parameters->texts, text)),
		.type = type_text(reading, type, passing->reference),
		.encoding = encoding,
		.enumerators = encoding == SYMBOL_ENCODING_ENUM ? enumerators_text(reading, type)
								: NULL,
		.size = size > 8 ? 8 : (unsigned int)size,
	};
}

/* The whole value goes into registers, or none of it does. */
static int value_place(struct reading *reading, Dwarf_Die *listed, Dwarf_Die *type,
		       const struct passing *passing)
{
	unsigned int integers = passing_integers(passing);
	bool floats = passing->classes[0] == PASSING_SSE || passing->classes[1] == PASSING_SSE;
	bool fits = integers && reading->integers + integers <= SYMBOL_PARAMETERS_MAX;
	int expected = fits && passing->classes[0] == PASSING_INTEGER && !passing->reference
			       ? register_numbers[reading->integers]
			       : -1;
	int told = register_told(reading, own_of(reading, listed));

	if (contradicts(told, expected))
		return -ENOENT;
	if (passing_unsure(passing) || (reading->private && told == TOLD_NOWHERE) ||
	    (integers && floats && reading->floats > FLOATS_MAX))
		return -ENODATA;
	reading->floats += 2 * floats;
	for (unsigned int part = 0; fits && part < 2; part++)
		if (passing->classes[part] == PASSING_INTEGER)
			part_found(reading, listed, type, passing, part);
	return 0;
}

/*
 * What only some instances of a constructor get: a flag that is no longer passed, and a table if
 * the instance says.
 */
static bool is_passed(struct reading *reading, Dwarf_Die *listed)
{
	const char *name = dwarf_diename(listed);
	Dwarf_Attribute attribute;

	if (!name || !dwarf_attr_integrate(listed, DW_AT_artificial, &attribute))
		return true;
	if (!strcmp(name, "__in_chrg"))
		return false;
	return strcmp(name, "__vtt_parm") || own_of(reading, listed);
}

static int parameter_place(struct reading *reading, Dwarf_Die *listed)
{
	Dwarf_Attribute attribute;
	struct passing passing;
	Dwarf_Die type;

	if (!is_passed(reading, listed))
		return 0;
	if (!dwarf_attr_integrate(listed, DW_AT_type, &attribute) ||
	    !dwarf_formref_die(&attribute, &type))
		return -ENODATA;
	calling_convention_of(&type, reading->cpp, &passing);
	return value_place(reading, listed, &type, &passing);
}

/* A large result goes where the caller says: its address is the first argument. */
static int result_place(struct reading *reading, Dwarf_Die *function)
{
	Dwarf_Attribute attribute;
	struct passing passing;
	Dwarf_Die type;
	int hidden;

	if (!dwarf_attr_integrate(function, DW_AT_type, &attribute))
		return 0;
	if (!dwarf_formref_die(&attribute, &type))
		return -ENODATA;
	calling_convention_of(&type, reading->cpp, &passing);
	hidden = passing_return(&passing);
	if (hidden < 0)
		return -ENODATA;
	reading->integers += (unsigned int)hidden;
	return 0;
}

static int lists_make(struct reading *reading, Dwarf_Die *function)
{
	Dwarf_Die origin;

	list_fill(&reading->own, function, false);
	if (reference_follow(function, DW_AT_abstract_origin, &origin))
		list_fill(&reading->listed, &origin, false);
	else
		origin = *function;
	if (!reading->listed.items.count)
		list_fill(&reading->listed, function, false);
	if (reading->own.items.count > reading->listed.items.count ||
	    !language_known(&origin, &reading->cpp))
		return -ENOENT;
	return 0;
}

int parameters_read(struct parameters *parameters, Dwarf_Die *function, uint64_t pc,
		    struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX], size_t *ret_count)
{
	struct symbol_parameter found[SYMBOL_PARAMETERS_MAX];
	AUTO(reading_deinit)
	struct reading reading = {
		.parameters = parameters,
		.pc = pc,
		.private = is_private(function),
		.found = found,
	};
	int err = convention_usual(function) ? lists_make(&reading, function) : -ENOENT;

	err = err ? err : result_place(&reading, function);
	for (size_t i = 0; i < reading.listed.items.count && !err; i++)
		err = parameter_place(&reading, &reading.listed.items.items[i]);
	if (err && err != -ENODATA)
		return err;
	memcpy(ret, found, reading.found_count * sizeof(*ret));
	*ret_count = reading.found_count;
	return 0;
}
