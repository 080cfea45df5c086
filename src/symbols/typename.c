// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes types from DWARF as C or C++ text.
 *
 * In C, a declarator is written around the name: the derivation closest to the name is the
 * outermost one of the type. So the text of a type is made from outside in: each pointer, array or
 * function adds itself to the text of the declarator so far and hands it to the type it points to,
 * holds or returns; the type at the end puts its name before it all.
 *
 * A DIE does not know what it lies in, so the namespaces and classes around all types of a unit are
 * noted at the first question about one of them.
 *
 * 1. Work is bounded by WORDS_MAX types per text, because types can refer to each other in circles
 *    and trees.
 */
#include "symbols/typename.h"

#include <dwarf.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

enum { DEPTH_MAX = 64, WORDS_MAX = 100, DECLARATOR_MAX = 1000 };

struct printer {
	struct typenames *names;
	bool cpp;
	unsigned int words;
};

void typenames_deinit(struct typenames *names)
{
	map_deinit(&names->around);
	array_deinit(&names->scopes);
	map_deinit(&names->units);
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

static void scopes_note(struct typenames *names, Dwarf_Die *parent, int level)
{
	Dwarf_Die die;
	uint64_t scope = names->scopes.count;

	if (level > DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	*array_push(&names->scopes) = *parent;
	do {
		int tag = dwarf_tag(&die);
		bool holds = is_scope(tag);

		if (level && (holds || tag == DW_TAG_enumeration_type || tag == DW_TAG_typedef))
			*map_at(&names->around, (uintptr_t)die.addr, NULL) = scope;
		if (holds && dwarf_haschildren(&die) > 0)
			scopes_note(names, &die, level + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* The namespace or class around a type. */
static bool scope_of(struct typenames *names, Dwarf_Die *type, Dwarf_Die *ret)
{
	Dwarf_Die unit;
	uint64_t *scope;
	bool fresh;

	if (!dwarf_diecu(type, &unit, NULL, NULL))
		return false;
	map_at(&names->units, (uintptr_t)unit.addr, &fresh);
	if (fresh)
		scopes_note(names, &unit, 0);
	scope = map_find(&names->around, (uintptr_t)type->addr);
	if (scope)
		*ret = names->scopes.items[*scope];
	return scope;
}

/* A class that was declared in another one and defined outside of it lies where it was declared. */
static Dwarf_Die declared(Dwarf_Die *type)
{
	Dwarf_Attribute attribute;
	Dwarf_Die die;

	if (dwarf_attr(type, DW_AT_specification, &attribute) &&
	    dwarf_formref_die(&attribute, &die))
		return die;
	return *type;
}

static void scopes_print(struct printer *printer, Dwarf_Die *type, int level, struct strbuf *ret)
{
	Dwarf_Die place = declared(type), scope;
	const char *name;

	if (level > DEPTH_MAX || !scope_of(printer->names, &place, &scope))
		return;
	scopes_print(printer, &scope, level + 1, ret);
	name = dwarf_diename(&scope);
	if (!name)
		name = dwarf_tag(&scope) == DW_TAG_namespace ? "(anonymous namespace)" : "{...}";
	strbuf_printf(ret, "%s::", name);
}

static const char *keyword_of(int tag)
{
	switch (tag) {
	case DW_TAG_class_type:
		return "class ";
	case DW_TAG_structure_type:
		return "struct ";
	case DW_TAG_union_type:
		return "union ";
	case DW_TAG_enumeration_type:
		return "enum ";
	default:
		return "";
	}
}

/* GCC's names of the basic types, as programmers write them. */
static const char *name_short(const char *name)
{
	static const char *const names[][2] = {
		{ "short int", "short" },
		{ "short unsigned int", "unsigned short" },
		{ "long int", "long" },
		{ "long unsigned int", "unsigned long" },
		{ "long long int", "long long" },
		{ "long long unsigned int", "unsigned long long" },
	};

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i][0]) == 0)
			return names[i][1];
	return name;
}

static void name_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
		       struct strbuf *ret)
{
	const char *name = type ? name_short(dwarf_diename(type)) : "void";

	if (type && (!printer->cpp || !name))
		strbuf_puts(ret, keyword_of(dwarf_tag(type)));
	if (type && printer->cpp && name)
		scopes_print(printer, type, 0, ret);
	strbuf_puts(ret, name ? name : "{...}");
	if (*declarator)
		strbuf_printf(ret, " %s", declarator);
}

static void type_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
		       struct strbuf *ret);

static Dwarf_Die *target_of(Dwarf_Die *type, Dwarf_Die *ret)
{
	Dwarf_Attribute attribute;

	if (!dwarf_attr_integrate(type, DW_AT_type, &attribute))
		return NULL;
	return dwarf_formref_die(&attribute, ret);
}

/* Arrays and functions bind closer than what points to them. */
static void pointer_print(struct printer *printer, Dwarf_Die *type, const char *sign,
			  const char *declarator, struct strbuf *ret)
{
	Dwarf_Die storage, *target = target_of(type, &storage);
	int tag = target ? dwarf_tag(target) : 0;
	bool inside = tag == DW_TAG_array_type || tag == DW_TAG_subroutine_type;
	AUTO(free_ptr)
	char *text = mem_printf(inside ? "(%s%s)" : "%s%s", sign, declarator);

	type_print(printer, target, text, ret);
}

static void member_pointer_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
				 struct strbuf *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Die class;
	struct strbuf sign = {};

	if (dwarf_attr(type, DW_AT_containing_type, &attribute) &&
	    dwarf_formref_die(&attribute, &class))
		name_print(printer, &class, "", &sign);
	strbuf_puts(&sign, "::*");
	pointer_print(printer, type, sign.text, declarator, ret);
	strbuf_deinit(&sign);
}

/* Of a pointer the word stands behind the star, of other types before the name. */
static void qualified_print(struct printer *printer, Dwarf_Die *type, const char *word,
			    const char *declarator, struct strbuf *ret)
{
	Dwarf_Die storage, *target = target_of(type, &storage);
	int tag = target ? dwarf_tag(target) : 0;
	AUTO(free_ptr) char *text = NULL;

	if (tag == DW_TAG_pointer_type || tag == DW_TAG_ptr_to_member_type) {
		text = mem_printf(*declarator ? " %s %s" : " %s%s", word, declarator);
		type_print(printer, target, text, ret);
		return;
	}
	/* "const" first, whichever the compiler took first. */
	if (tag == DW_TAG_const_type && dwarf_tag(type) == DW_TAG_volatile_type) {
		strbuf_puts(ret, "const ");
		target = target_of(target, &storage);
	}
	strbuf_printf(ret, "%s ", word);
	type_print(printer, target, declarator, ret);
}

static void function_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
			   struct strbuf *ret)
{
	Dwarf_Die storage, die;
	struct strbuf text = {};
	const char *between = "";
	bool more = dwarf_child(type, &die) == 0;

	strbuf_printf(&text, "%s(", declarator);
	for (; more && printer->words < WORDS_MAX; more = dwarf_siblingof(&die, &die) == 0) {
		int tag = dwarf_tag(&die);

		if (tag != DW_TAG_formal_parameter && tag != DW_TAG_unspecified_parameters)
			continue;
		strbuf_puts(&text, between);
		between = ", ";
		if (tag == DW_TAG_formal_parameter)
			type_print(printer, target_of(&die, &storage), "", &text);
		else
			strbuf_puts(&text, "...");
	}
	strbuf_puts(&text, *between ? ")" : "void)");
	type_print(printer, target_of(type, &storage), text.text, ret);
	strbuf_deinit(&text);
}

static void array_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
			struct strbuf *ret)
{
	Dwarf_Die storage, die;
	struct strbuf text = {};
	bool more = dwarf_child(type, &die) == 0;

	strbuf_puts(&text, declarator);
	for (; more; more = dwarf_siblingof(&die, &die) == 0) {
		Dwarf_Attribute attribute;
		Dwarf_Word number;

		if (dwarf_tag(&die) != DW_TAG_subrange_type || text.length > DECLARATOR_MAX)
			continue;
		if (dwarf_attr(&die, DW_AT_count, &attribute) &&
		    dwarf_formudata(&attribute, &number) == 0)
			strbuf_printf(&text, "[%llu]", (unsigned long long)number);
		else if (dwarf_attr(&die, DW_AT_upper_bound, &attribute) &&
			 dwarf_formudata(&attribute, &number) == 0)
			strbuf_printf(&text, "[%llu]", (unsigned long long)number + 1);
		else
			strbuf_puts(&text, "[]");
	}
	type_print(printer, target_of(type, &storage), strbuf_text(&text), ret);
	strbuf_deinit(&text);
}

static void type_print(struct printer *printer, Dwarf_Die *type, const char *declarator,
		       struct strbuf *ret)
{
	if (++printer->words > WORDS_MAX || strlen(declarator) > DECLARATOR_MAX) {
		strbuf_puts(ret, "...");
		return;
	}
	switch (type ? dwarf_tag(type) : 0) {
	case DW_TAG_pointer_type:
		pointer_print(printer, type, "*", declarator, ret);
		break;
	case DW_TAG_reference_type:
		pointer_print(printer, type, "&", declarator, ret);
		break;
	case DW_TAG_rvalue_reference_type:
		pointer_print(printer, type, "&&", declarator, ret);
		break;
	case DW_TAG_ptr_to_member_type:
		member_pointer_print(printer, type, declarator, ret);
		break;
	case DW_TAG_const_type:
		qualified_print(printer, type, "const", declarator, ret);
		break;
	case DW_TAG_volatile_type:
		qualified_print(printer, type, "volatile", declarator, ret);
		break;
	case DW_TAG_restrict_type:
		qualified_print(printer, type, "restrict", declarator, ret);
		break;
	case DW_TAG_atomic_type:
		qualified_print(printer, type, "_Atomic", declarator, ret);
		break;
	case DW_TAG_subroutine_type:
		function_print(printer, type, declarator, ret);
		break;
	case DW_TAG_array_type:
		array_print(printer, type, declarator, ret);
		break;
	default:
		name_print(printer, type, declarator, ret);
	}
}

void typename_print(struct typenames *names, Dwarf_Die *type, bool cpp, struct strbuf *ret)
{
	struct printer printer = { .names = names, .cpp = cpp };

	type_print(&printer, type, "", ret);
}
