// SPDX-License-Identifier: BSD-2-Clause
/* Any text as `--values=WHAT`: what is taken gives words, and its own text gives the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "values/selection.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void words_check(const struct selection_item *item)
{
	struct selection_facts facts = { .known = item->needs };
	uint64_t words[HOTLIST_WORDS_MAX];
	unsigned width;

	for (unsigned i = 0; i < SELECTION_SOURCE_COUNT; i++) {
		facts.values[i] = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
		facts.widths[i] = (uint8_t)(i * 37 % 64 + 1);
	}
	must(selection_words(item, &facts, words, &width) && width >= 1 && width <= 64);
	facts.known &= facts.known - 1;
	must(!selection_words(item, &facts, words, &width));
}

static void item_check(const struct selection_item *item)
{
	struct selection again;

	must(item->term_count >= 1 && item->term_count <= HOTLIST_WORDS_MAX);
	must(!(item->needs & SELECTION_BIT(SELECTION_PATH)) == !item->path_length);
	must(item->path_length <= SELECTION_PATH_MAX);
	words_check(item);
	must(selection_parse(item->text, &again) == 0 && again.count == 1);
	must(strcmp(again.items->text, item->text) == 0);
	must(again.items->class == item->class && again.items->needs == item->needs);
	selection_deinit(&again);
}

static void all_check(const struct selection *selection)
{
	struct strbuf buf = {};
	struct selection again;

	for (size_t i = 0; i < selection->count; i++)
		strbuf_printf(&buf, "%s%s", i ? "," : "", selection->items[i].text);
	must(selection_parse(strbuf_text(&buf), &again) == 0);
	must(again.count == selection->count && again.needs == selection->needs);
	for (size_t i = 0; i < again.count; i++)
		must(strcmp(again.items[i].text, selection->items[i].text) == 0);
	selection_deinit(&again);
	strbuf_deinit(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *what = mem_strndup((const char *)data, size);
	struct selection selection;

	err_set(-1, "%s", "");
	if (selection_parse(what, &selection) == 0) {
		must(selection.count >= 1 && selection.count <= SELECTION_ITEMS_MAX);
		for (size_t i = 0; i < selection.count; i++)
			item_check(&selection.items[i]);
		all_check(&selection);
		selection_deinit(&selection);
	} else {
		must(*err_text());
	}
	free(what);
	return 0;
}
