// SPDX-License-Identifier: BSD-2-Clause
/*
 * Classification of types as in section 3.2.3 of the System V ABI for x86-64.
 *
 * A value of at most 16 bytes is one or two eightbytes. Every scalar in it, however deep in
 * structures and arrays, lies in one of them and gives it a class; classes of the same eightbyte
 * are merged. Anything larger is passed in memory. C++ adds: an object that cannot be copied byte
 * by byte (copying.c) is passed by a pointer to it.
 *
 * 1. What is not certain is UNSURE, and UNSURE stays what it is however it is merged.
 * 2. Work is bounded: by PARTS_MAX scalars and structures per type.
 */
#include "symbols/calling_convention.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "symbols/copying.h"

enum { EIGHTBYTE = 8, VALUE_MAX = 16, PARTS_MAX = 200, DEPTH_MAX = 32 };

struct survey {
	struct passing *passing;
	unsigned int parts;
};

static enum passing_class merged(enum passing_class a, enum passing_class b)
{
	enum passing_class low = a < b ? a : b, high = a < b ? b : a;

	return low == PASSING_SSE && high == PASSING_X87 ? PASSING_MEMORY : high;
}

static void class_add(struct survey *survey, uint64_t offset, uint64_t size,
		      enum passing_class class)
{
	enum passing_class *classes = survey->passing->classes;

	if (offset >= VALUE_MAX || size > VALUE_MAX - offset || size == 0)
		class = PASSING_UNSURE;
	if (class == PASSING_UNSURE) {
		classes[0] = class;
		return;
	}
	for (uint64_t i = offset / EIGHTBYTE; i <= (offset + size - 1) / EIGHTBYTE; i++)
		classes[i] = merged(classes[i], class);
}

static void scalar_add(struct survey *survey, uint64_t offset, uint64_t size, uint64_t align,
		       enum passing_class class)
{
	bool packed = align == 0 || offset % align != 0;

	class_add(survey, offset, size, packed && class != PASSING_UNSURE ? PASSING_MEMORY : class);
}

static bool number_of(Dwarf_Die *die, unsigned int name, uint64_t *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
		return false;
	*ret = value;
	return true;
}

static enum passing_class float_class(Dwarf_Die *type, uint64_t size)
{
	const char *name = dwarf_diename(type);

	if (size == 2 || size == 4 || size == 8)
		return PASSING_SSE;
	if (size != 16 || !name)
		return PASSING_UNSURE;
	if (!strcmp(name, "long double") || !strcmp(name, "_Float64x"))
		return PASSING_X87;
	return strstr(name, "loat128") ? PASSING_SSE : PASSING_UNSURE;
}

static void base_add(struct survey *survey, Dwarf_Die *type, uint64_t offset, uint64_t size)
{
	uint64_t encoding = 0;

	number_of(type, DW_AT_encoding, &encoding);
	if (size == 0 || size > VALUE_MAX || (size & (size - 1)))
		encoding = 0;
	switch (encoding) {
	case DW_ATE_address:
	case DW_ATE_boolean:
	case DW_ATE_signed:
	case DW_ATE_signed_char:
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_UTF:
		scalar_add(survey, offset, size, size, PASSING_INTEGER);
		break;
	case DW_ATE_float:
		scalar_add(survey, offset, size, size, float_class(type, size));
		break;
	case DW_ATE_complex_float:
		scalar_add(survey, offset, size, size / 2, PASSING_SSE);
		break;
	case DW_ATE_decimal_float:
		scalar_add(survey, offset, size, size, PASSING_SSE);
		break;
	default:
		class_add(survey, 0, 0, PASSING_UNSURE);
	}
}

static void type_add(struct survey *survey, Dwarf_Die *type, uint64_t offset, int level);

static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Die type;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, &type) && dwarf_peel_type(&type, ret) == 0;
}

static bool has_flag(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	bool flag;

	return dwarf_attr(die, name, &attribute) && dwarf_formflag(&attribute, &flag) == 0 && flag;
}

/* The number of elements; 0 for a flexible array. */
static uint64_t array_count(Dwarf_Die *type)
{
	uint64_t product = 1, count;
	Dwarf_Die die;
	bool more = dwarf_child(type, &die) == 0, any = false;

	for (; more; more = dwarf_siblingof(&die, &die) == 0) {
		if (dwarf_tag(&die) != DW_TAG_subrange_type)
			continue;
		any = true;
		if (!number_of(&die, DW_AT_count, &count))
			count = number_of(&die, DW_AT_upper_bound, &count) ? count + 1 : 0;
		product = count > VALUE_MAX ? VALUE_MAX + 1 : product * count;
		product = product > VALUE_MAX ? VALUE_MAX + 1 : product;
	}
	return any ? product : 0;
}

static void array_add(struct survey *survey, Dwarf_Die *type, uint64_t offset, int level)
{
	uint64_t count = array_count(type);
	Dwarf_Word size;
	Dwarf_Die element;

	if (!type_of(type, &element) || dwarf_aggregate_size(&element, &size) != 0) {
		class_add(survey, 0, 0, PASSING_UNSURE);
		return;
	}
	if (has_flag(type, DW_AT_GNU_vector)) {
		size = count > VALUE_MAX || size > VALUE_MAX ? VALUE_MAX + 1 : size * count;
		scalar_add(survey, offset, size, size,
			   size == 8 || size == 16 ? PASSING_SSE : PASSING_UNSURE);
		return;
	}
	for (uint64_t i = 0; size && i < count && offset + i * size < VALUE_MAX; i++)
		type_add(survey, &element, offset + i * size, level + 1);
}

static void bits_add(struct survey *survey, Dwarf_Die *member, uint64_t offset, uint64_t bits)
{
	uint64_t first;

	if (!number_of(member, DW_AT_data_bit_offset, &first)) {
		Dwarf_Die type;
		Dwarf_Word size;

		if (type_of(member, &type) && dwarf_aggregate_size(&type, &size) == 0)
			class_add(survey, offset, size, PASSING_INTEGER);
		else
			class_add(survey, 0, 0, PASSING_UNSURE);
		return;
	}
	if (first > 8 * VALUE_MAX || bits > 8 * VALUE_MAX || bits == 0)
		class_add(survey, 0, 0, PASSING_UNSURE);
	else
		class_add(survey, first / 8, (first + bits - 1) / 8 - first / 8 + 1,
			  PASSING_INTEGER);
}

static void member_add(struct survey *survey, Dwarf_Die *member, uint64_t offset, int level)
{
	Dwarf_Attribute attribute;
	uint64_t place = 0, bits;
	Dwarf_Die type;

	if (has_flag(member, DW_AT_external) || has_flag(member, DW_AT_declaration))
		return; /* static */
	if (!type_of(member, &type) || dwarf_attr(member, DW_AT_virtuality, &attribute) ||
	    (dwarf_attr(member, DW_AT_data_member_location, &attribute) &&
	     !number_of(member, DW_AT_data_member_location, &place))) {
		class_add(survey, 0, 0, PASSING_UNSURE);
		return;
	}
	place = place > VALUE_MAX ? VALUE_MAX : place;
	if (!number_of(member, DW_AT_bit_size, &bits))
		type_add(survey, &type, offset + place, level + 1);
	else if (offset)
		class_add(survey, 0, 0, PASSING_UNSURE);
	else
		bits_add(survey, member, place, bits);
}

static void members_add(struct survey *survey, Dwarf_Die *type, uint64_t offset, int level)
{
	Dwarf_Die die;
	bool more = dwarf_child(type, &die) == 0;

	if (has_flag(type, DW_AT_declaration))
		class_add(survey, 0, 0, PASSING_UNSURE);
	for (; more; more = dwarf_siblingof(&die, &die) == 0) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_variant_part)
			class_add(survey, 0, 0, PASSING_UNSURE);
		else if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			member_add(survey, &die, offset, level);
	}
}

static bool points_to_function(Dwarf_Die *type)
{
	Dwarf_Die target;

	return type_of(type, &target) && dwarf_tag(&target) == DW_TAG_subroutine_type;
}

static void type_add(struct survey *survey, Dwarf_Die *type, uint64_t offset, int level)
{
	Dwarf_Word size = 0;

	if (++survey->parts > PARTS_MAX || level > DEPTH_MAX) {
		class_add(survey, 0, 0, PASSING_UNSURE);
		return;
	}
	switch (dwarf_tag(type)) {
	case DW_TAG_base_type:
		number_of(type, DW_AT_byte_size, &size);
		base_add(survey, type, offset, size);
		break;
	case DW_TAG_enumeration_type:
		number_of(type, DW_AT_byte_size, &size);
		scalar_add(survey, offset, size, size, PASSING_INTEGER);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_unspecified_type: /* of nullptr */
		scalar_add(survey, offset, EIGHTBYTE, EIGHTBYTE, PASSING_INTEGER);
		break;
	case DW_TAG_ptr_to_member_type:
		scalar_add(survey, offset, points_to_function(type) ? VALUE_MAX : EIGHTBYTE,
			   EIGHTBYTE, PASSING_INTEGER);
		break;
	case DW_TAG_array_type:
		array_add(survey, type, offset, level);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		members_add(survey, type, offset, level);
		break;
	default:
		class_add(survey, 0, 0, PASSING_UNSURE);
	}
}

static bool is_aggregate(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* True when no look at the members is needed. */
static bool copying_decides(Dwarf_Die *type, bool cpp, struct passing *ret)
{
	enum copying copying = COPYING_BYTES;

	if (cpp && is_aggregate(dwarf_tag(type)))
		copying = copying_of(type);
	ret->reference = copying == COPYING_CALLS;
	if (copying != COPYING_BYTES)
		ret->classes[0] = ret->reference ? PASSING_INTEGER : PASSING_UNSURE;
	return copying != COPYING_BYTES;
}

static uint64_t size_of(Dwarf_Die *type)
{
	Dwarf_Word size = 0;
	int tag = dwarf_tag(type);

	if (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type ||
	    tag == DW_TAG_rvalue_reference_type || tag == DW_TAG_unspecified_type)
		return EIGHTBYTE;
	if (tag == DW_TAG_ptr_to_member_type)
		return points_to_function(type) ? VALUE_MAX : EIGHTBYTE;
	return dwarf_aggregate_size(type, &size) == 0 ? size : 0;
}

void calling_convention_of(Dwarf_Die *type, bool cpp, struct passing *ret)
{
	struct survey survey = { .passing = ret };
	Dwarf_Die bare;

	*ret = (struct passing){};
	if (dwarf_peel_type(type, &bare) != 0) {
		ret->classes[0] = PASSING_UNSURE;
		return;
	}
	ret->size = size_of(&bare);
	ret->aggregate = is_aggregate(dwarf_tag(&bare));
	if (copying_decides(&bare, cpp, ret))
		return;
	if (ret->size > VALUE_MAX)
		ret->classes[0] = PASSING_MEMORY;
	else
		type_add(&survey, &bare, 0, 0);
	if (ret->classes[1] == PASSING_X87 && ret->classes[0] != PASSING_X87)
		ret->classes[0] = merged(ret->classes[0], PASSING_MEMORY);
	if (ret->classes[1] >= PASSING_MEMORY)
		ret->classes[0] = merged(ret->classes[0], ret->classes[1]);
}

bool passing_unsure(const struct passing *passing)
{
	return passing->classes[0] == PASSING_UNSURE;
}

unsigned int passing_integers(const struct passing *passing)
{
	if (passing->classes[0] == PASSING_MEMORY || passing->classes[0] == PASSING_X87)
		return 0;
	return (passing->classes[0] == PASSING_INTEGER) + (passing->classes[1] == PASSING_INTEGER);
}

/*
 * Large vectors and complex numbers have rules of their own, which depend on compiler and
 * processor.
 */
int passing_return(const struct passing *passing)
{
	bool memory = passing->classes[0] == PASSING_MEMORY;

	if (passing_unsure(passing) || (memory && !passing->aggregate))
		return -ENOENT;
	return passing->reference || memory;
}
