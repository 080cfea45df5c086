// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rules: a parser by recursive descent, which makes a list of nodes in which operands come before
 * what uses them, and an evaluation that walks the list once for each moment.
 *
 * 1. A condition has at most NODES_MAX nodes, and is nested at most DEPTH_MAX deep.
 * 2. rate() and delta() are not nested: the earlier moment has no earlier one.
 */
#include "marks/rules.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "marks/spec.h"

enum { NODES_MAX = 256, DEPTH_MAX = 32, WORD_MAX = 32 };

enum rule_takes { RULE_NOTHING, RULE_TEXT, RULE_MARK, RULE_COMMAND, RULE_TIME };

enum operation {
	OP_NUMBER,
	OP_METRIC,
	OP_RATE,
	OP_DELTA,
	OP_NOT,
	OP_NEGATE,
	OP_ADD,
	OP_SUBTRACT,
	OP_MULTIPLY,
	OP_DIVIDE,
	OP_GREATER,
	OP_GREATER_EQUAL,
	OP_LESS,
	OP_LESS_EQUAL,
	OP_EQUAL,
	OP_DIFFERENT,
	OP_AND,
	OP_OR,
};

struct rule_node {
	enum operation operation;
	uint32_t left, right; /* operands, which are nodes before this one */
	double number;
	size_t mark; /* of a metric: in reads */
	size_t metric; /* in metrics */
};

/* --- Metrics: a name and what it says of a mark ----------------------------------------------- */

/* Columns: name, value of a struct mark_sum, what the mark has to have: RULE_NEEDS_. */
#define METRICS(X)                                                                                 \
	X(calls, sum->visits, NOTHING)                                                             \
	X(visits, sum->visits, NOTHING)                                                            \
	X(instructions, sum->instructions, NOTHING)                                                \
	X(timed, sum->timed, TIME)                                                                 \
	X(time, sum->time_ns * 1e-9, TIME)                                                         \
	X(slower, sum->slower, THRESHOLD)                                                          \
	X(p50, sum->p50 * 1e-9, TIME)                                                              \
	X(p90, sum->p90 * 1e-9, TIME)                                                              \
	X(p99, sum->p99 * 1e-9, TIME)                                                              \
	X(p999, sum->p999 * 1e-9, TIME)                                                            \
	X(reads, sum->reads, DATA)                                                                 \
	X(writes, sum->writes, DATA)                                                               \
	X(accesses, sum->reads + sum->writes, DATA)

#define X(name, expression, needs)                                                                 \
	static double name##_of(const struct mark_sum *sum)                                        \
	{                                                                                          \
		return (double)(expression);                                                       \
	}
METRICS(X)
#undef X

static const struct metric {
	const char *name;
	double (*value)(const struct mark_sum *sum);
	enum rule_needs needs;
} metrics[] = {
#define X(name, expression, needs) { #name, name##_of, RULE_NEEDS_##needs },
	METRICS(X)
#undef X
};
enum { METRIC_COUNT = sizeof(metrics) / sizeof(metrics[0]) };

/* --- Parsing ---------------------------------------------------------------------------------- */

struct parser {
	const char *text, *at;
	struct rule *rule;
	unsigned depth;
	bool growing; /* within rate() or delta() */
};

static int fail(const struct parser *parser, const char *what)
{
	return err_set(-EINVAL, "rule '%s': %s at character %zu", parser->text, what,
		       (size_t)(parser->at - parser->text) + 1);
}

static void space_skip(struct parser *parser)
{
	parser->at += strspn(parser->at, " \t");
}

static bool take(struct parser *parser, const char *token)
{
	space_skip(parser);
	if (strncmp(parser->at, token, strlen(token)) != 0)
		return false;
	parser->at += strlen(token);
	return true;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A word that is followed by no other letter or digit. */
static bool take_word(struct parser *parser, const char *word)
{
	const char *before;

	space_skip(parser);
	before = parser->at;
	if (take(parser, word) && !is_letter(*parser->at) && !is_digit(*parser->at))
		return true;
	parser->at = before;
	return false;
}

static int node_add(struct parser *parser, const struct rule_node *node, uint32_t *ret)
{
	struct rule *rule = parser->rule;

	if (rule->node_count == NODES_MAX)
		return fail(parser, "the condition is too long");
	if (!rule->nodes)
		rule->nodes = mem_zalloc(NODES_MAX * sizeof(*rule->nodes));
	rule->nodes[rule->node_count] = *node;
	*ret = (uint32_t)rule->node_count++;
	return 0;
}

static int unary_add(struct parser *parser, enum operation operation, uint32_t operand,
		     uint32_t *ret)
{
	return node_add(parser, &(struct rule_node){ .operation = operation, .left = operand },
			ret);
}

static int expression(struct parser *parser, uint32_t *ret);

static double suffix_take(struct parser *parser)
{
	static const struct {
		char letter;
		double factor;
	} suffixes[] = { { '%', 0.01 }, { 'k', 1e3 }, { 'M', 1e6 }, { 'G', 1e9 } };
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (is_letter(*parser->at) && take_word(parser, units[i].unit))
			return units[i].seconds;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (*parser->at == suffixes[i].letter) {
			parser->at++;
			return suffixes[i].factor;
		}
	return 1;
}

/* Not strtod() alone: it would take "inf", "nan" and numbers in base 16. */
static int decimal_take(struct parser *parser, double *ret)
{
	char digits[WORD_MAX];
	size_t length = strspn(parser->at, "0123456789.");
	char *end;

	if (length && (parser->at[length] == 'e' || parser->at[length] == 'E')) {
		size_t sign = parser->at[length + 1] == '-' || parser->at[length + 1] == '+';
		size_t more = strspn(parser->at + length + 1 + sign, "0123456789");

		length += more ? 1 + sign + more : 0;
	}
	if (!length || length >= sizeof(digits))
		return fail(parser, "a number or a metric such as calls(MARK) is expected");
	memcpy(digits, parser->at, length);
	digits[length] = '\0';
	*ret = strtod(digits, &end);
	if (*end || !isfinite(*ret))
		return fail(parser, "this is not a number");
	parser->at += length;
	return 0;
}

static int number(struct parser *parser, uint32_t *ret)
{
	struct rule_node node = { .operation = OP_NUMBER };
	int err = decimal_take(parser, &node.number);

	if (err)
		return err;
	node.number *= suffix_take(parser);
	return node_add(parser, &node, ret);
}

/* Up to one of the characters, without spaces around it; or within double quotes. */
static int mark_take(struct parser *parser, const char *until, char **ret)
{
	const char *start;
	size_t length;

	space_skip(parser);
	if (*parser->at == '"') {
		start = ++parser->at;
		length = strcspn(start, "\"");
		if (!start[length])
			return fail(parser, "the quote has no end");
		parser->at += length + 1;
	} else {
		start = parser->at;
		length = strcspn(start, until);
		parser->at += length;
		while (length && strchr(" \t", start[length - 1]))
			length--;
	}
	if (!length)
		return fail(parser, "a mark is expected");
	*ret = mem_zalloc(length + 1);
	memcpy(*ret, start, length);
	return 0;
}

/* It must be one that can be marked. */
static int mark_check(const struct parser *parser, const char *mark)
{
	struct mark_spec spec;
	int err = mark_spec_parse(mark, &spec);

	if (err)
		return err_wrap(err, "rule '%s'", parser->text);
	mark_spec_deinit(&spec);
	return 0;
}

static size_t reads_add(struct rule *rule, char *mark, enum rule_needs needs)
{
	for (size_t i = 0; i < rule->reads.count; i++)
		if (!strcmp(rule->reads.items[i], mark)) {
			free(mark);
			rule->needs.items[i] |= 1u << needs;
			return i;
		}
	*array_push(&rule->reads) = mark;
	*array_push(&rule->needs) = 1u << needs;
	return rule->reads.count - 1;
}

static int metric_parse(struct parser *parser, size_t metric, uint32_t *ret)
{
	struct rule_node node = { .operation = OP_METRIC, .metric = metric };
	char *mark = NULL;
	int err = mark_take(parser, ")", &mark);

	err = err ? err : mark_check(parser, mark);
	if (!err && !take(parser, ")"))
		err = fail(parser, "')' is expected");
	if (err) {
		free(mark);
		return err;
	}
	node.mark = reads_add(parser->rule, mark, metrics[metric].needs);
	return node_add(parser, &node, ret);
}

static int growth_parse(struct parser *parser, enum operation operation, uint32_t *ret)
{
	uint32_t operand = 0;
	int err;

	if (parser->growing)
		return fail(parser, "a rate or a delta of a rate or a delta is not known");
	parser->growing = true;
	err = expression(parser, &operand);
	parser->growing = false;
	if (!err && !take(parser, ")"))
		err = fail(parser, "')' is expected");
	return err ? err : unary_add(parser, operation, operand, ret);
}

static int call(struct parser *parser, uint32_t *ret)
{
	const char *start = parser->at;

	if (take_word(parser, "rate") && take(parser, "("))
		return growth_parse(parser, OP_RATE, ret);
	parser->at = start;
	if (take_word(parser, "delta") && take(parser, "("))
		return growth_parse(parser, OP_DELTA, ret);
	parser->at = start;
	for (size_t i = 0; i < METRIC_COUNT; i++) {
		if (take_word(parser, metrics[i].name) && take(parser, "("))
			return metric_parse(parser, i, ret);
		parser->at = start;
	}
	return fail(parser, "there is no metric of that name (calls, visits, instructions, time, "
			    "timed, slower, p50, p90, p99, p999, reads, writes, accesses, rate and "
			    "delta are known)");
}

static int primary(struct parser *parser, uint32_t *ret)
{
	enum operation operation;
	uint32_t operand = 0;
	int err;

	if (take(parser, "(")) {
		err = expression(parser, ret);
		if (!err && !take(parser, ")"))
			err = fail(parser, "')' is expected");
		return err;
	}
	if (is_letter(*parser->at))
		return call(parser, ret);
	if ((*parser->at != '-' || parser->at[1] == '>') && *parser->at != '!')
		return number(parser, ret);
	operation = *parser->at++ == '-' ? OP_NEGATE : OP_NOT;
	if (++parser->depth > DEPTH_MAX)
		return fail(parser, "the condition is nested too deeply");
	err = primary(parser, &operand);
	parser->depth--;
	return err ? err : unary_add(parser, operation, operand, ret);
}

static const struct binary {
	const char *token;
	unsigned level; /* those of a higher level bind more tightly */
	enum operation operation;
} binaries[] = {
	{ "||", 0, OP_OR },	    { "&&", 1, OP_AND },     { ">=", 2, OP_GREATER_EQUAL },
	{ "<=", 2, OP_LESS_EQUAL }, { "==", 2, OP_EQUAL },   { "!=", 2, OP_DIFFERENT },
	{ ">", 2, OP_GREATER },	    { "<", 2, OP_LESS },     { "+", 3, OP_ADD },
	{ "-", 3, OP_SUBTRACT },    { "*", 4, OP_MULTIPLY }, { "/", 4, OP_DIVIDE },
};
enum { LEVELS = 5 };

static const struct binary *binary_take(struct parser *parser, unsigned level)
{
	space_skip(parser);
	if (!strncmp(parser->at, "->", 2))
		return NULL;
	for (size_t i = 0; i < sizeof(binaries) / sizeof(binaries[0]); i++)
		if (binaries[i].level == level && take(parser, binaries[i].token))
			return &binaries[i];
	return NULL;
}

static int level_parse(struct parser *parser, unsigned level, uint32_t *ret)
{
	const struct binary *binary;
	uint32_t left = 0, right = 0;
	int err = level == LEVELS ? primary(parser, &left) : level_parse(parser, level + 1, &left);

	while (!err && level < LEVELS && (binary = binary_take(parser, level))) {
		err = level_parse(parser, level + 1, &right);
		if (!err)
			err = node_add(parser,
				       &(struct rule_node){ .operation = binary->operation,
							    .left = left,
							    .right = right },
				       &left);
	}
	if (!err)
		*ret = left;
	return err;
}

static int expression(struct parser *parser, uint32_t *ret)
{
	int err;

	if (++parser->depth > DEPTH_MAX)
		return fail(parser, "the condition is nested too deeply");
	err = level_parse(parser, 0, ret);
	parser->depth--;
	return err;
}

/* --- Actions ---------------------------------------------------------------------------------- */

static int time_take(struct parser *parser, uint64_t *ret)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "ms", NS_PER_MS }, { "s", NS_PER_S }, { "m", 60.0 * NS_PER_S } };
	static const double longest = 86400.0 * NS_PER_S;
	double value;
	int err;

	space_skip(parser);
	err = decimal_take(parser, &value);
	if (err)
		return err;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!take_word(parser, units[i].unit))
			continue;
		value *= units[i].ns;
		if (value < NS_PER_MS || value > longest)
			return fail(parser, "a time from 1ms to a day is expected");
		*ret = (uint64_t)value;
		return 0;
	}
	return fail(parser, "a time such as 500ms, 2s or 1m is expected");
}

/* Up to the next action; of a command, up to the end. */
static int text_take(struct parser *parser, bool to_end, char **ret)
{
	size_t length;

	space_skip(parser);
	length = to_end ? strlen(parser->at) : strcspn(parser->at, ";");
	*ret = mem_zalloc(length + 1);
	memcpy(*ret, parser->at, length);
	parser->at += length;
	while (length && strchr(" \t", (*ret)[length - 1]))
		(*ret)[--length] = '\0';
	if (to_end && !length)
		return fail(parser, "a command is expected");
	return 0;
}

static int argument_take(struct parser *parser, enum rule_takes takes, struct rule_action *action)
{
	int err;

	switch (takes) {
	case RULE_TEXT:
	case RULE_COMMAND:
		return text_take(parser, takes == RULE_COMMAND, &action->text);
	case RULE_MARK:
		err = mark_take(parser, ";", &action->text);
		return err ? err : mark_check(parser, action->text);
	case RULE_TIME:
		return time_take(parser, &action->time);
	default:
		return 0;
	}
}

static int action_parse(struct parser *parser)
{
	static const struct {
		const char *word;
		enum rule_takes takes;
	} actions[] = {
#define X(name, word, takes) [RULE_##name] = { word, takes },
		RULE_ACTIONS(X)
#undef X
	};

	for (size_t i = 0; i < RULE_ACTION_COUNT; i++) {
		struct rule_action *action;

		if (!take_word(parser, actions[i].word))
			continue;
		action = array_push(&parser->rule->actions);
		*action = (struct rule_action){ .kind = (enum rule_action_kind)i };
		return argument_take(parser, actions[i].takes, action);
	}
	return fail(parser, "an action is expected: print, event, snapshot, start MARK, stop MARK, "
			    "run COMMAND, values TIME or paths TIME");
}

static int actions_parse(struct parser *parser)
{
	int err;

	do
		err = action_parse(parser);
	while (!err && take(parser, ";"));
	space_skip(parser);
	return err || !*parser->at ? err : fail(parser, "';' or the end is expected");
}

static int whole_parse(struct parser *parser)
{
	uint32_t root = 0;
	int err = expression(parser, &root);

	if (!err && take_word(parser, "every"))
		err = time_take(parser, &parser->rule->interval);
	if (!err && !take(parser, "->"))
		err = fail(parser, "'->' and an action are expected");
	if (!err && !parser->rule->reads.count)
		err = fail(parser, "the condition looks at no mark");
	return err ? err : actions_parse(parser);
}

int rule_parse(const char *text, struct rule **ret)
{
	AUTO(rule_destroy_auto) struct rule *rule = mem_zalloc(sizeof(*rule));
	struct parser parser = { .text = text, .at = text, .rule = rule };
	int err;

	if (strlen(text) > RULE_TEXT_MAX)
		return err_set(-EINVAL, "a rule has more than %d bytes", RULE_TEXT_MAX);
	rule->text = mem_strdup(text);
	rule->interval = NS_PER_S;
	err = whole_parse(&parser);
	if (!err)
		*ret = take_ptr(rule);
	return err;
}

void rule_destroy(struct rule *rule)
{
	if (!rule)
		return;
	array_each(&rule->actions, action)
		free(action->text);
	array_each(&rule->reads, mark)
		free(*mark);
	array_deinit(&rule->actions);
	array_deinit(&rule->reads);
	array_deinit(&rule->needs);
	free(rule->nodes);
	free(rule->text);
	free(rule);
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* Marks of the condition, and each node, at two moments. */
struct values {
	struct mark_sum now, before;
};

static double quotient(double a, double b)
{
	return b == 0 ? 0 : a / b;
}

static double node_value(const struct rule_node *node, double left, double right)
{
	switch (node->operation) {
	case OP_NOT:
		return left == 0;
	case OP_NEGATE:
		return -left;
	case OP_ADD:
		return left + right;
	case OP_SUBTRACT:
		return left - right;
	case OP_MULTIPLY:
		return left * right;
	case OP_DIVIDE:
		return quotient(left, right);
	case OP_GREATER:
		return left > right;
	case OP_GREATER_EQUAL:
		return left >= right;
	case OP_LESS:
		return left < right;
	case OP_LESS_EQUAL:
		return left <= right;
	case OP_EQUAL:
		return left == right;
	case OP_DIFFERENT:
		return left != right;
	case OP_AND:
		return left != 0 && right != 0;
	case OP_OR:
		return left != 0 || right != 0;
	default:
		return node->number;
	}
}

double rule_value(const struct rule *rule, rule_lookup *lookup, void *ctx, double seconds)
{
	AUTO(free_ptr) struct values *marks = mem_zalloc(rule->reads.count * sizeof(*marks));
	double now[NODES_MAX] = {}, before[NODES_MAX] = {};

	for (size_t i = 0; i < rule->reads.count; i++)
		lookup(ctx, rule->reads.items[i], &marks[i].now, &marks[i].before);
	for (size_t i = 0; i < rule->node_count; i++) {
		const struct rule_node *node = &rule->nodes[i];

		if (node->operation == OP_METRIC) {
			now[i] = metrics[node->metric].value(&marks[node->mark].now);
			before[i] = metrics[node->metric].value(&marks[node->mark].before);
		} else if (node->operation == OP_RATE || node->operation == OP_DELTA) {
			double grown = seconds > 0 ? now[node->left] - before[node->left] : 0;

			now[i] = node->operation == OP_RATE ? quotient(grown, seconds) : grown;
			before[i] = 0;
		} else {
			now[i] = node_value(node, now[node->left], now[node->right]);
			before[i] = node_value(node, before[node->left], before[node->right]);
		}
	}
	return now[rule->node_count - 1];
}

/* --- Loops ------------------------------------------------------------------------------------ */

bool rule_mark_is(const char *given, const char *mark)
{
	size_t length = strlen(given);

	return !strncmp(given, mark, length) && (!mark[length] || mark[length] == ',');
}

static bool reads(const struct rule *rule, const char *mark)
{
	array_each(&rule->reads, read)
		if (rule_mark_is(*read, mark) || rule_mark_is(mark, *read))
			return true;
	return false;
}

/*
 * Whether an action of the one may make the other one fire. A rule may stop a mark that it reads
 * itself, because that ends.
 */
static bool leads_to(const struct rule *from, const struct rule *to)
{
	array_each(&from->actions, action)
		if ((action->kind == RULE_START || (action->kind == RULE_STOP && from != to)) &&
		    reads(to, action->text))
			return true;
	return false;
}

enum { UNSEEN, OPEN, CLOSED };

static int rule_visit(struct rule *const *rules, size_t count, size_t index, unsigned char *state)
{
	int err = 0;

	state[index] = OPEN;
	for (size_t i = 0; i < count && !err; i++) {
		if (!leads_to(rules[index], rules[i]) || state[i] == CLOSED)
			continue;
		if (state[i] == OPEN)
			return err_set(-ELOOP,
				       "rule '%s' switches a mark that rule '%s' looks at, which "
				       "in the end leads back to it: loops are not allowed",
				       rules[index]->text, rules[i]->text);
		err = rule_visit(rules, count, i, state);
	}
	state[index] = CLOSED;
	return err;
}

int rules_check(struct rule *const *rules, size_t count)
{
	AUTO(free_ptr) unsigned char *state = mem_zalloc(count ? count : 1);
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		if (state[i] == UNSEEN)
			err = rule_visit(rules, count, i, state);
	return err;
}
