// SPDX-License-Identifier: BSD-2-Clause
/*
 * Keeps the tables of docs/profile-format.md as tables.def declares them:
 *
 *	format_page PAGE		fails if the page is not current
 *	format_page PAGE --write	writes it
 *
 * The part of the page that follows from the declarations lies between two marks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "store/table.h"

static const char begin_mark[] =
	"<!-- tables: what follows is made by format_page from tables.def -->\n";
static const char end_mark[] = "<!-- end of tables -->\n";

static void page_read(const char *path, struct strbuf *ret)
{
	FILE *file = fopen(path, "re");
	char bytes[4096];
	size_t got;

	while (file && (got = fread(bytes, 1, sizeof(bytes), file)) > 0)
		strbuf_add(ret, bytes, got);
	if (!file || ferror(file) || fclose(file)) {
		fprintf(stderr, "%s: cannot read: %s\n", path, strerror(errno));
		exit(2);
	}
}

static int page_write(const char *path, const struct strbuf *page)
{
	FILE *file = fopen(path, "we");

	if (!file || fwrite(page->text, 1, page->length, file) != page->length || fclose(file)) {
		fprintf(stderr, "%s: cannot write: %s\n", path, strerror(errno));
		return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct strbuf page = {}, fresh = {};
	const char *begin, *end;
	int result = 0;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--write") != 0))
		return 2;
	page_read(argv[1], &page);
	begin = strstr(strbuf_text(&page), begin_mark);
	end = begin ? strstr(begin, end_mark) : NULL;
	if (!end) {
		fprintf(stderr, "%s: the marks around its tables are missing\n", argv[1]);
		return 2;
	}
	strbuf_add(&fresh, page.text, (size_t)(begin - page.text) + strlen(begin_mark));
	strbuf_putc(&fresh, '\n');
	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		store_table_page(&store_tables[i], &fresh);
	strbuf_puts(&fresh, end);
	if (argc == 3)
		result = page_write(argv[1], &fresh);
	else if (strcmp(strbuf_text(&fresh), strbuf_text(&page)) != 0)
		result = 1;
	if (result == 1)
		fprintf(stderr, "%s: not as tables.def says; run format_page %s --write\n", argv[1],
			argv[1]);
	strbuf_deinit(&page);
	strbuf_deinit(&fresh);
	return result;
}
