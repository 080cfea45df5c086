// SPDX-License-Identifier: BSD-2-Clause
/*
 * Whether an object is passed by its bytes or by a pointer to it: the "non-trivial for the purposes
 * of calls" of the Itanium C++ ABI.
 *
 * Clang writes the answer into DWARF (DW_AT_calling_convention). GCC does not; then it follows from
 * the members: an object needs a call to be copied if it has virtual functions or bases, or if the
 * programmer wrote its destructor, copy or move constructor, or if that is true of a part of it.
 * Functions that the compiler made itself are marked artificial, or defaulted, and follow from the
 * parts.
 *
 * 1. A deleted copy constructor leaves the answer to rules that need more than DWARF has: UNSURE.
 * 2. Work is bounded by PARTS_MAX members of members.
 */
#include "symbols/copying.h"

#include <dwarf.h>
#include <stdbool.h>
#include <string.h>

enum { PARTS_MAX = 2000, DEPTH_MAX = 32 };

struct survey {
	unsigned int parts;
	int level;
};

static bool has(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute);
}

static Dwarf_Word number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
		return 0;
	return value;
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Die type;

	return dwarf_attr(die, DW_AT_type, &attribute) && dwarf_formref_die(&attribute, &type) &&
	       dwarf_peel_type(&type, ret) == 0;
}

static enum copying worse(enum copying a, enum copying b)
{
	return a > b ? a : b;
}

static bool same_class(Dwarf_Die *a, Dwarf_Die *b)
{
	const char *name_a = dwarf_diename(a), *name_b = dwarf_diename(b);

	return a->addr == b->addr || (name_a && name_b && !strcmp(name_a, name_b));
}

/* A template is never a copy constructor, even where it looks like one. */
static bool takes_its_class(Dwarf_Die *function, Dwarf_Die *class)
{
	Dwarf_Die die, type, target;
	bool more = dwarf_child(function, &die) == 0, first = true, found = false;

	for (; more; more = dwarf_siblingof(&die, &die) == 0) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_template_type_parameter ||
		    tag == DW_TAG_template_value_parameter ||
		    tag == DW_TAG_GNU_template_parameter_pack)
			return false;
		if (tag != DW_TAG_formal_parameter || has(&die, DW_AT_artificial) || !first)
			continue;
		first = false;
		found = type_of(&die, &type) &&
			(dwarf_tag(&type) == DW_TAG_reference_type ||
			 dwarf_tag(&type) == DW_TAG_rvalue_reference_type) &&
			type_of(&type, &target) && same_class(&target, class);
	}
	return found;
}

static bool is_constructor(const char *name, Dwarf_Die *class)
{
	const char *own = dwarf_diename(class);
	size_t length = own ? strcspn(own, "<") : 0;

	return length && !strncmp(name, own, length) && (!name[length] || name[length] == '<');
}

static enum copying function_look(Dwarf_Die *function, Dwarf_Die *class)
{
	const char *name = dwarf_diename(function);

	if (has(function, DW_AT_virtuality))
		return COPYING_CALLS;
	if (!name || has(function, DW_AT_artificial))
		return COPYING_BYTES;
	if (name[0] != '~' && !(is_constructor(name, class) && takes_its_class(function, class)))
		return COPYING_BYTES;
	if (has(function, DW_AT_deleted))
		return COPYING_UNSURE;
	return number_of(function, DW_AT_defaulted) == DW_DEFAULTED_in_class ? COPYING_BYTES
									     : COPYING_CALLS;
}

static enum copying class_look(struct survey *survey, Dwarf_Die *class);

static enum copying part_look(struct survey *survey, Dwarf_Die *member)
{
	Dwarf_Die type, element;

	if (number_of(member, DW_AT_virtuality))
		return COPYING_CALLS;
	if (has(member, DW_AT_external) || has(member, DW_AT_declaration))
		return COPYING_BYTES;
	if (!type_of(member, &type) || ++survey->parts > PARTS_MAX)
		return COPYING_UNSURE;
	while (dwarf_tag(&type) == DW_TAG_array_type) {
		if (!type_of(&type, &element) || ++survey->parts > PARTS_MAX)
			return COPYING_UNSURE;
		type = element;
	}
	switch (dwarf_tag(&type)) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		return class_look(survey, &type);
	default:
		return COPYING_BYTES;
	}
}

static enum copying class_look(struct survey *survey, Dwarf_Die *class)
{
	Dwarf_Word convention = number_of(class, DW_AT_calling_convention);
	enum copying found = COPYING_BYTES;
	Dwarf_Die die;
	bool more = dwarf_child(class, &die) == 0;

	if (convention == DW_CC_pass_by_value || convention == DW_CC_pass_by_reference)
		return convention == DW_CC_pass_by_value ? COPYING_BYTES : COPYING_CALLS;
	if (has(class, DW_AT_declaration) || survey->level > DEPTH_MAX)
		return COPYING_UNSURE;
	survey->level++;
	for (; more && found != COPYING_CALLS; more = dwarf_siblingof(&die, &die) == 0) {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			found = worse(found, function_look(&die, class));
		else if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			found = worse(found, part_look(survey, &die));
	}
	survey->level--;
	return found;
}

enum copying copying_of(Dwarf_Die *class)
{
	struct survey survey = {};

	return class_look(&survey, class);
}
