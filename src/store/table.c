// SPDX-License-Identifier: BSD-2-Clause
/*
 * Descriptions of the tables, and the SQL and the documentation that follow from them.
 *
 * A reader compares the text of each "create table" with the text made here before it trusts the
 * file, so any change to what a table's description gives, even of a space, is a new
 * STORE_SCHEMA_VERSION.
 */
#include "store/table.h"

#include <string.h>

#include "store/profile.h"

enum { PAGE_COLUMNS = 100 };

static const char *const recording_kind_names[] = {
#define X(name, text, ...) text,
	RECORDING_KINDS(X)
#undef X
		NULL
};

static const char *const module_kind_names[] = {
#define X(name, text) text,
	MODULE_KINDS(X)
#undef X
		NULL
};

static const char *const mark_kind_names[] = {
#define X(name, text) text,
	MARK_KINDS(X)
#undef X
		NULL
};

#define PLACE(field) .offset = offsetof(row, field)
#define DESCRIBE_REFERENCE(field, argument) PLACE(field), .table = STORE_TABLE_##argument
#define DESCRIBE_OTHER(field, argument) PLACE(field), .other = offsetof(row, argument)

#define DESCRIBE_ID(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_REF(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_REF_OR_NULL(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_REF_OR_ZERO(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_PARENT(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_ABOVE(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_HERE(field, argument) DESCRIBE_REFERENCE(field, argument)
#define DESCRIBE_OF(field, argument)                                                               \
	DESCRIBE_REFERENCE(field, recording), .max = RECORDING_##argument
#define DESCRIBE_U32(field, argument) PLACE(field), .max = argument
#define DESCRIBE_FROM_ONE(field, argument) PLACE(field), .max = argument
#define DESCRIBE_COUNT(field, argument) PLACE(field), .max = argument
#define DESCRIBE_SUM(field, argument) PLACE(field), .max = argument
#define DESCRIBE_MOST(field, argument) PLACE(field), .max = argument
#define DESCRIBE_BITS(field, argument) PLACE(field)
#define DESCRIBE_FLAG(field, argument) PLACE(field), .max = argument
#define DESCRIBE_USER(field, argument) PLACE(field), .max = argument
#define DESCRIBE_TEXT(field, argument) PLACE(field)
#define DESCRIBE_TEXT_OR_NULL(field, argument) PLACE(field)
#define DESCRIBE_LAST_PART(field, argument) DESCRIBE_OTHER(field, argument)
#define DESCRIBE_NAMED(field, argument) PLACE(field), .names = argument##_names
#define DESCRIBE_SIGNED_IF(field, argument) DESCRIBE_OTHER(field, argument)
#define DESCRIBE_REAL_IF(field, argument) DESCRIBE_OTHER(field, argument)
#define DESCRIBE_BYTES(field, argument) DESCRIBE_OTHER(field, argument), .max = STORE_BYTES_MAX
#define DESCRIBE_LIST(field, argument) DESCRIBE_OTHER(field, argument), .max = STORE_VALUE_LIST_MAX
#define DESCRIBE_LATER(field, argument) .offset = 0

// clang-format off
#define TABLE(name, array, count, style, keys, domain, text)                                       \
	_Static_assert(sizeof(struct store_##name) == sizeof(struct profile_##name),               \
		       "both sides have one layout");                                              \
	_Static_assert(sizeof(struct profile_##name) <= STORE_ROW_MAX, "rows are short");          \
	static const struct store_column *columns_of_##name(void)                                  \
	{                                                                                          \
		typedef struct profile_##name row;                                                 \
		static const struct store_column columns[] = {
#define COLUMN(type_, field, argument, text_)                                                      \
			{ .name = #field, .type = STORE_##type_, .text = text_,                    \
			  DESCRIBE_##type_(field, argument) },
#define FIELD(type, name, text)
#define END                                                                                        \
			{}                                                                         \
		};                                                                                 \
		return columns;                                                                    \
	}
#include "store/tables.def"

const struct store_table store_tables[STORE_TABLE_COUNT] = {
#define TABLE(name_, array_, count_, style_, keys_, domain_, text_)                                \
	{ .name = #name_, .array = offsetof(struct profile, array_),                               \
	  .array_count = offsetof(struct profile, count_),                                         \
	  .row_size = sizeof(struct profile_##name_), .style = STORE_##style_, .keys = keys_,      \
	  .domain = DOMAIN_##domain_, .text = text_, .columns = columns_of_##name_ },
#define COLUMN(type, name, argument, text)
#define FIELD(type, name, text)
#define END
#include "store/tables.def"
};
// clang-format on

bool store_type_is_reference(enum store_type type)
{
	return type == STORE_REF || type == STORE_REF_OR_NULL || type == STORE_PARENT ||
	       type == STORE_REF_OR_ZERO || type == STORE_ABOVE || type == STORE_HERE ||
	       type == STORE_OF;
}

bool store_style_has_ids(enum store_style style)
{
	return style == STORE_DENSE || style == STORE_SPARSE;
}

static bool may_be_null(enum store_type type)
{
	return type == STORE_REF_OR_NULL || type == STORE_PARENT || type == STORE_HERE ||
	       type == STORE_USER || type == STORE_TEXT_OR_NULL || type == STORE_SIGNED_IF ||
	       type == STORE_REAL_IF || type == STORE_LATER;
}

static const char *type_sql(enum store_type type)
{
	switch (type) {
	case STORE_TEXT:
	case STORE_TEXT_OR_NULL:
	case STORE_LAST_PART:
	case STORE_NAMED:
		return "text";
	case STORE_REAL_IF:
		return "real";
	case STORE_BYTES:
	case STORE_LIST:
	case STORE_LATER:
		return "blob";
	default:
		return "integer";
	}
}

/* A single number that tells rows apart is SQLite's own key of the table, which takes the least. */
static bool key_is_rowid(const struct store_table *table)
{
	return table->style == STORE_KEYED && table->keys == 1 &&
	       !strcmp(type_sql(table->columns()->type), "integer");
}

static void column_create(const struct store_column *column, bool is_rowid, struct strbuf *out)
{
	strbuf_printf(out, "\t%s %s", column->name, type_sql(column->type));
	if (column->type == STORE_ID || is_rowid)
		strbuf_printf(out, " primary key");
	else if (!may_be_null(column->type))
		strbuf_printf(out, " not null");
	/* Columns of these two types may hold 0, which is no id, so they get no foreign key. */
	if (store_type_is_reference(column->type) && column->type != STORE_ABOVE &&
	    column->type != STORE_REF_OR_ZERO)
		strbuf_printf(out, " references %s", store_tables[column->table].name);
}

static void key_names(const struct store_table *table, struct strbuf *out)
{
	const struct store_column *columns = table->columns();

	if (table->style == STORE_APPENDED)
		strbuf_printf(out, "rowid");
	else if (!table->keys)
		strbuf_printf(out, "id");
	for (unsigned i = 0; i < table->keys; i++)
		strbuf_printf(out, "%s%s", i ? ", " : "", columns[i].name);
}

void store_table_sql_create(const struct store_table *table, struct strbuf *out)
{
	const struct store_column *columns = table->columns();
	bool is_rowid = key_is_rowid(table), listed = table->keys && !is_rowid;

	strbuf_printf(out, "create table %s (\n", table->name);
	for (const struct store_column *column = columns; column->name; column++) {
		column_create(column, is_rowid && column == columns, out);
		strbuf_printf(out, column[1].name || listed ? ",\n" : "\n");
	}
	if (listed) {
		strbuf_printf(out, "\tprimary key (");
		key_names(table, out);
		strbuf_printf(out, ")\n");
	}
	strbuf_printf(out, ") strict%s;\n",
		      table->style == STORE_KEYED && !is_rowid ? ", without rowid" : "");
}

/* Calls out for each column that is written and read with the row, separated by commas. */
static void names_list(const struct store_table *table, const char *format, struct strbuf *out)
{
	const char *comma = "";

	for (const struct store_column *column = table->columns(); column->name; column++) {
		if (column->type == STORE_LATER)
			continue;
		strbuf_printf(out, "%s", comma);
		if (*format == '?')
			strbuf_printf(out, "?");
		else
			strbuf_printf(out, "%s", column->name);
		comma = ", ";
	}
}

static void insert_begin(const struct store_table *table, unsigned rows, struct strbuf *out)
{
	strbuf_printf(out, "insert into %s (", table->name);
	names_list(table, "", out);
	strbuf_printf(out, ") values ");
	for (unsigned i = 0; i < rows; i++) {
		strbuf_printf(out, i ? ", (" : "(");
		names_list(table, "?", out);
		strbuf_printf(out, ")");
	}
}

void store_table_sql_put(const struct store_table *table, struct strbuf *out)
{
	store_table_sql_put_many(table, 1, out);
}

void store_table_sql_put_many(const struct store_table *table, unsigned rows, struct strbuf *out)
{
	const struct store_column *columns = table->columns();
	unsigned keys = table->keys ? table->keys : 1;
	const char *before = " on conflict do update set ";

	insert_begin(table, rows, out);
	if (table->style == STORE_APPENDED)
		return;
	if (!columns[keys].name)
		strbuf_printf(out, " on conflict do nothing");
	for (const struct store_column *column = columns + keys; column->name; column++) {
		if (column->type == STORE_LATER)
			continue;
		strbuf_printf(out, "%s%s = excluded.%s", before, column->name, column->name);
		before = ", ";
	}
}

void store_table_sql_add(const struct store_table *table, struct strbuf *out)
{
	const char *before = " on conflict do update set ";

	insert_begin(table, 1, out);
	for (const struct store_column *column = table->columns(); column->name; column++) {
		if (column->type == STORE_SUM)
			strbuf_printf(out, "%s%s = %s + excluded.%s", before, column->name,
				      column->name, column->name);
		else if (column->type == STORE_MOST)
			strbuf_printf(out, "%s%s = max(%s, excluded.%s)", before, column->name,
				      column->name, column->name);
		else
			continue;
		before = ", ";
	}
}

/*
 * "not indexed" and "order by" the primary key together make SQLite walk the table itself, whatever
 * indexes were added to the file; the key of a bulky table is an index.
 */
void store_table_sql_read(const struct store_table *table, struct strbuf *out)
{
	strbuf_printf(out, "select ");
	names_list(table, "", out);
	strbuf_printf(out, "%s from %s%s order by ",
		      table->style == STORE_APPENDED ? ", rowid" : "", table->name,
		      table->style == STORE_BULKY ? "" : " not indexed");
	key_names(table, out);
}

/* Lines of at most PAGE_COLUMNS, broken at spaces. */
static void page_wrap(const char *text, struct strbuf *out)
{
	size_t column = 0;

	while (*text) {
		size_t length = strcspn(text, " ");

		if (column && column + 1 + length > PAGE_COLUMNS) {
			strbuf_putc(out, '\n');
			column = 0;
		} else if (column) {
			strbuf_putc(out, ' ');
			column++;
		}
		strbuf_add(out, text, length);
		column += length;
		text += length + strspn(text + length, " ");
	}
}

void store_table_page(const struct store_table *table, struct strbuf *out)
{
	strbuf_printf(out, "### `%s`\n\n", table->name);
	page_wrap(table->text, out);
	strbuf_puts(out, "\n\n| column | meaning |\n|---|---|\n");
	for (const struct store_column *column = table->columns(); column->name; column++)
		strbuf_printf(out, "| `%s` | %s%s|\n", column->name, column->text,
			      *column->text ? " " : "");
	strbuf_printf(out, "\n");
}
