// SPDX-License-Identifier: BSD-2-Clause
/* Parses marks. Every part is checked, because a mark may come from a file of unknown origin. */
#include "marks/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/mem.h"
#include "marks/names.h"

void mark_spec_deinit(struct mark_spec *spec)
{
	free(spec->text);
	free(spec->module);
	free(spec->name);
	free(spec->file);
}

static int wrong(const char *text, const char *at, const char *what)
{
	return err_set(-EINVAL, "mark '%s': %s, at character %zu", text, what,
		       (size_t)(at - text) + 1);
}

/* --- Parts ------------------------------------------------------------------------------------ */

/* Digits up to the end of the text or the character; false: none, too many, or something else. */
static bool number_take(const char **at, unsigned base, uint64_t *ret)
{
	uint64_t value = 0;
	const char *start = *at;

	for (;; ++*at) {
		char c = **at;
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if (base == 16 && (c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (unsigned)((c | 32) - 'a') + 10;
		else
			break;
		if (value > (UINT64_MAX >> 1) / base)
			return false;
		value = value * base + digit;
	}
	*ret = value;
	return *at != start;
}

static bool has_hex(const char *text)
{
	return text[0] == '0' && (text[1] | 32) == 'x';
}

static bool address_take(const char **at, uint64_t *ret)
{
	if (!has_hex(*at))
		return false;
	*at += 2;
	return number_take(at, 16, ret);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The `!` behind a module; operator! and operator!= are no modules. */
static const char *module_end(const char *text)
{
	static const char operator_name[] = "operator";
	const size_t length = sizeof(operator_name) - 1;
	const char *end = strchr(text, '!');

	if (end && (size_t)(end - text) >= length && !strncmp(end - length, operator_name, length))
		return NULL;
	return end;
}

/* The colon in front of a line; the :: of C++ is none. */
static const char *line_colon(const char *text)
{
	const char *colon = strrchr(text, ':');

	if (!colon || colon == text || colon[-1] == ':')
		return NULL;
	return colon;
}

/* The plus in front of an offset; the one of operator+ has no number behind it. */
static const char *offset_plus(const char *text)
{
	const char *plus = strrchr(text, '+');

	return plus && plus != text && is_digit(plus[1]) ? plus : NULL;
}

/* --- Kinds ------------------------------------------------------------------------------------ */

static int lines_parse(const char *at, const char *colon, struct mark_spec *spec)
{
	const char *text = spec->text, *end = colon + 1;

	spec->kind = MARK_LINES;
	if (!number_take(&end, 10, &spec->first))
		return wrong(text, end, "a line, or two such as 10-20, must follow the colon");
	spec->last = spec->first;
	if (*end == '-') {
		end++;
		if (!number_take(&end, 10, &spec->last))
			return wrong(text, end, "the last line must follow the dash");
	}
	if (*end)
		return wrong(text, end, "something follows the lines");
	if (!spec->first || spec->last > UINT32_MAX)
		return wrong(text, colon + 1, "lines are from 1 to 4294967295");
	if (spec->last < spec->first)
		return wrong(text, colon + 1, "the last line comes before the first");
	spec->name = mem_strndup(at, (size_t)(colon - at));
	return 0;
}

static int addresses_parse(const char *at, struct mark_spec *spec)
{
	const char *text = spec->text, *end = at;

	spec->kind = MARK_INSTRUCTION;
	if (!spec->module)
		return wrong(text, at, "an address needs its module, as in libz.so!0x5a10");
	if (!address_take(&end, &spec->first))
		return wrong(text, end, "an address has hexadecimal digits");
	if (*end == '-') {
		end++;
		spec->kind = MARK_RANGE;
		if (!address_take(&end, &spec->last))
			return wrong(text, end, "an address such as 0x5a80 must follow the dash");
	}
	if (*end)
		return wrong(text, end, "something follows the address");
	if (spec->kind == MARK_RANGE && spec->last <= spec->first)
		return wrong(text, at, "the range ends before it begins");
	return 0;
}

static int symbol_parse(const char *at, struct mark_spec *spec)
{
	const char *plus = offset_plus(at), *end;
	bool taken;

	spec->kind = MARK_ROUTINE;
	spec->many = strpbrk(at, "*?");
	if (!plus) {
		spec->name = mem_strdup(at);
		return 0;
	}
	end = plus + 1;
	taken = has_hex(end) ? address_take(&end, &spec->first)
			     : number_take(&end, 10, &spec->first);
	if (!taken || *end)
		return wrong(spec->text, end, "an offset is a number, as in +0x40");
	if (spec->many)
		return wrong(spec->text, plus, "an offset needs the name of one routine");
	spec->kind = MARK_INSTRUCTION;
	spec->name = mem_strndup(at, (size_t)(plus - at));
	return 0;
}

static int declared_parse(const char *at, struct mark_spec *spec)
{
	spec->kind = MARK_DECLARED;
	spec->name = mem_strdup(at);
	spec->many = strpbrk(at, "*?");
	return *at ? 0 : wrong(spec->text, at, "the name of a mark is missing");
}

/* --- Data ------------------------------------------------------------------------------------- */

static int data_address_parse(const char *at, struct mark_spec *spec)
{
	const char *text = spec->text, *end = at;
	uint64_t size;

	spec->data = MARK_DATA_ADDRESS;
	if (spec->module)
		return wrong(text, at, "an address in memory has no module");
	if (!address_take(&end, &spec->first))
		return wrong(text, end, "an address has hexadecimal digits");
	if (*end != '+')
		return wrong(text, end, "a + and the number of bytes must follow the address");
	end++;
	if (!(has_hex(end) ? address_take(&end, &size) : number_take(&end, 10, &size)) || !size)
		return wrong(text, end, "a number of bytes must follow the +");
	if (*end)
		return wrong(text, end, "something follows the number of bytes");
	if (size > UINT64_MAX - spec->first)
		return wrong(text, at, "the memory ends behind the last address");
	spec->last = spec->first + size;
	return 0;
}

/* FUNCTION@FILE:LINE */
static int data_heap_parse(const char *at, struct mark_spec *spec)
{
	const char *text = spec->text, *sign = strchr(at, '@'), *colon, *end;

	spec->data = MARK_DATA_HEAP;
	if (!sign || sign == at)
		return wrong(text, at,
			     "a function that allocates and a line are missing, as in "
			     "malloc@parse.c:88");
	colon = strrchr(sign, ':');
	if (!colon || colon == sign + 1)
		return wrong(text, sign, "a file and a line must follow the @");
	end = colon + 1;
	if (!number_take(&end, 10, &spec->first) || *end || !spec->first ||
	    spec->first > UINT32_MAX)
		return wrong(text, end, "a line must follow the colon");
	spec->last = spec->first;
	spec->name = mem_strndup(at, (size_t)(sign - at));
	spec->file = mem_strndup(sign + 1, (size_t)(colon - sign - 1));
	if (!strcmp(spec->name, "posix_memalign"))
		return wrong(text, at,
			     "posix_memalign gives its memory by a pointer, which is not "
			     "followed");
	return 0;
}

static int data_parse(const char *at, struct mark_spec *spec)
{
	static const char heap[] = "heap:";

	spec->kind = MARK_DATA;
	if (!strncmp(at, heap, sizeof(heap) - 1))
		return data_heap_parse(at + sizeof(heap) - 1, spec);
	if (has_hex(at))
		return data_address_parse(at, spec);
	spec->name = mem_strdup(at);
	spec->many = strpbrk(at, "*?");
	return *at ? 0 : wrong(spec->text, at, "the name of an object is missing");
}

static int target_parse(const char *at, struct mark_spec *spec)
{
	static const char declared[] = "mark:", data[] = "data:";
	const char *colon = line_colon(at);

	if (!strncmp(at, data, sizeof(data) - 1))
		return data_parse(at + sizeof(data) - 1, spec);
	if (!strncmp(at, declared, sizeof(declared) - 1))
		return declared_parse(at + sizeof(declared) - 1, spec);
	if (!*at)
		return wrong(spec->text, at, "a routine, a line or an address is missing");
	if (colon)
		return lines_parse(at, colon, spec);
	if (has_hex(at))
		return addresses_parse(at, spec);
	return symbol_parse(at, spec);
}

static int text_check(const char *text)
{
	size_t length = strnlen(text, MARK_TEXT_MAX);

	if (length == MARK_TEXT_MAX)
		return err_set(-EINVAL, "a mark has more than %d bytes", MARK_TEXT_MAX - 1);
	if (!length)
		return err_set(-EINVAL, "a mark is empty");
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return err_set(-EINVAL,
				       "a mark has a control character, byte 0x%02x at character "
				       "%zu",
				       (unsigned)(unsigned char)*at, (size_t)(at - text) + 1);
	return 0;
}

static int spec_parse(struct mark_spec *spec)
{
	static const char instructions[] = "insn:";
	const char *at = spec->text, *end;

	if (!strncmp(at, instructions, sizeof(instructions) - 1)) {
		at += sizeof(instructions) - 1;
		spec->kind = MARK_INSTRUCTIONS;
		spec->name = mem_strdup(at);
		return *at ? 0 : wrong(spec->text, at, "the name of an instruction is missing");
	}
	end = module_end(at);
	if (end == at)
		return wrong(spec->text, at, "the module in front of ! is missing");
	if (end) {
		spec->module = mem_strndup(at, (size_t)(end - at));
		at = end + 1;
	}
	return target_parse(at, spec);
}

/* --- What follows ----------------------------------------------------------------------------- */

/* "50", "300ns": cycles, or a time. */
static int slower_parse(const char *at, struct mark_spec *spec)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	const char *end = at;

	spec->timed = true;
	if (!number_take(&end, 10, &spec->slower) || !spec->slower)
		return wrong(spec->text, end,
			     "a threshold is a number of cycles, such as 50, or a "
			     "time, such as 300ns");
	if (!*end)
		return 0;
	spec->slower_ns = true;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].text))
			return __builtin_mul_overflow(spec->slower, units[i].ns, &spec->slower)
				       ? wrong(spec->text, at, "the threshold is too long")
				       : 0;
	return wrong(spec->text, end, "units are ns, us, ms and s; without one it is cycles");
}

enum { TAIL_PERMILLE = 10 }; /* unless the mark says another share */

/* "5%", "0.1%": how many are slow. */
static int tail_parse(const char *at, struct mark_spec *spec)
{
	enum { PERMILLE = 10 }; /* of a percent */
	char *end;
	double percent = strtod(at, &end);

	if (*at < '0' || *at > '9' || strcmp(end, "%") != 0 || percent < 0.1 || percent > 50)
		return wrong(spec->text, at,
			     "the slowest are a share from 0.1% to 50%, such as tail=5%");
	spec->tail = (uint32_t)(percent * PERMILLE + 0.5);
	return 0;
}

static bool flag_take(const char *text, struct mark_spec *spec)
{
	const struct {
		const char *text;
		bool *flag;
	} flags[] = { { "time", &spec->timed },
		      { "event", &spec->event },
		      { "start", &spec->starts },
		      { "stop", &spec->stops } };

	if (!strcmp(text, "tail"))
		return (spec->tail = TAIL_PERMILLE) != 0;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(text, flags[i].text))
			return *flags[i].flag = true;
	return false;
}

/* Names may have commas in them: what is not known belongs to the mark. Cuts the text. */
static int attributes_parse(struct mark_spec *spec)
{
	static const char slower[] = "slower=", tail[] = "tail=";
	char *comma;

	while ((comma = strrchr(spec->text, ','))) {
		int err = 0;

		if (!strncmp(comma + 1, slower, sizeof(slower) - 1))
			err = slower_parse(comma + sizeof(slower), spec);
		else if (!strncmp(comma + 1, tail, sizeof(tail) - 1))
			err = tail_parse(comma + sizeof(tail), spec);
		else if (!flag_take(comma + 1, spec))
			return 0;
		if (err)
			return err;
		*comma = '\0';
	}
	return 0;
}

static int attributes_check(const struct mark_spec *spec)
{
	if (spec->event && spec->kind == MARK_INSTRUCTIONS)
		return wrong(spec->text, spec->text, "kinds of instructions raise no events");
	if (spec->event && spec->kind == MARK_DATA && spec->data == MARK_DATA_HEAP)
		return wrong(spec->text, spec->text, "what is allocated raises no events");
	if (spec->starts && spec->stops)
		return wrong(spec->text, spec->text, "it cannot both start and stop counting");
	if ((spec->starts || spec->stops) &&
	    (spec->kind == MARK_DATA || spec->kind == MARK_INSTRUCTIONS))
		return wrong(spec->text, spec->text,
			     "only code that has a place can start or stop counting");
	if (spec->tail && (spec->kind != MARK_ROUTINE || spec->many || spec->timed))
		return wrong(
			spec->text, spec->text,
			"the slowest visits are kept of one routine, by its name, and its time "
			"with them; use ,tail alone, and no pattern");
	if (!spec->timed)
		return 0;
	if (spec->kind == MARK_DATA)
		return err_set(-EINVAL, "mark '%s': data cannot be timed", spec->text);
	if (spec->kind == MARK_INSTRUCTIONS)
		return err_set(-EINVAL,
			       "mark '%s': instructions of a kind cannot be timed; one can, as in "
			       "libz.so!0x5a10,time",
			       spec->text);
	return 0;
}

int mark_spec_parse(const char *text, struct mark_spec *ret)
{
	struct mark_spec spec = {};
	int err = text_check(text);

	if (err)
		return err;
	spec.text = mem_strdup(text);
	err = attributes_parse(&spec);
	err = err ? err : spec_parse(&spec);
	err = err ? err : attributes_check(&spec);
	free(spec.text);
	spec.text = mem_strdup(text);
	if (err)
		mark_spec_deinit(&spec);
	else
		*ret = spec;
	return err;
}

/* --- What is meant ---------------------------------------------------------------------------- */

/* The path itself, or its end behind a slash. */
static bool path_ends(const char *path, const char *end)
{
	size_t path_length = strlen(path), length = strlen(end);

	if (path_length < length || strcmp(path + path_length - length, end))
		return false;
	return path_length == length || *end == '/' || path[path_length - length - 1] == '/';
}

bool mark_spec_takes_module(const struct mark_spec *spec, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t length;

	if (!spec->module)
		return true;
	length = strlen(spec->module);
	if (strpbrk(spec->module, "*?"))
		return glob_match(spec->module, name) || glob_match(spec->module, path);
	/* libz.so means libz.so.1.3.1, too */
	if (!strncmp(name, spec->module, length) && name[length] == '.')
		return true;
	return path_ends(path, spec->module);
}

static bool is_part(const char *name, size_t start, size_t end, const char *wanted)
{
	return strlen(wanted) == end - start && !memcmp(name + start, wanted, end - start);
}

bool mark_spec_takes_symbol(const struct mark_spec *spec, const char *name, const char *linkage)
{
	struct name_parts parts = name_parts_of(name);
	const char *wanted = spec->name, *own = name + parts.start;

	if (spec->many)
		return glob_match(wanted, name) || glob_match(wanted, linkage) ||
		       (parts.start && glob_match(wanted, own));
	return !strcmp(wanted, name) || !strcmp(wanted, linkage) || !strcmp(wanted, own) ||
	       is_part(name, 0, parts.bare, wanted) ||
	       is_part(name, parts.start, parts.bare, wanted) ||
	       is_part(name, parts.start, parts.stem, wanted);
}

bool mark_spec_takes_file(const struct mark_spec *spec, const char *path)
{
	return path_ends(path, spec->file ? spec->file : spec->name);
}
