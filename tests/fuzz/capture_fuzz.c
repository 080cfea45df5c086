// SPDX-License-Identifier: BSD-2-Clause
/* Any text as `--values=WHAT`: what is taken gives words, and its own text gives the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "profile/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void words_check(const struct capture_item *item)
{
	struct capture_facts facts = { .known = item->needs };
	uint64_t words[HOTLIST_WORDS_MAX];
	unsigned width;

	for (unsigned i = 0; i < CAPTURE_SOURCE_COUNT; i++) {
		facts.values[i] = UINT64_C(0x9e3779b97f4a7c15) * (i + 1);
		facts.widths[i] = (uint8_t)(i * 37 % 64 + 1);
	}
	must(capture_words(item, &facts, words, &width) && width >= 1 && width <= 64);
	facts.known &= facts.known - 1;
	must(!capture_words(item, &facts, words, &width));
}

static void item_check(const struct capture_item *item)
{
	struct capture again;

	must(item->term_count >= 1 && item->term_count <= HOTLIST_WORDS_MAX);
	must(!(item->needs & CAPTURE_BIT(CAPTURE_PATH)) == !item->path_length);
	must(item->path_length <= CAPTURE_PATH_MAX);
	words_check(item);
	must(capture_parse(item->text, &again) == 0 && again.count == 1);
	must(strcmp(again.items->text, item->text) == 0);
	must(again.items->class == item->class && again.items->needs == item->needs);
	capture_deinit(&again);
}

static void all_check(const struct capture *capture)
{
	struct strbuf buf = {};
	struct capture again;

	for (size_t i = 0; i < capture->count; i++)
		strbuf_printf(&buf, "%s%s", i ? "," : "", capture->items[i].text);
	must(capture_parse(strbuf_text(&buf), &again) == 0);
	must(again.count == capture->count && again.needs == capture->needs);
	for (size_t i = 0; i < again.count; i++)
		must(strcmp(again.items[i].text, capture->items[i].text) == 0);
	capture_deinit(&again);
	strbuf_deinit(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *what = mem_strndup((const char *)data, size);
	struct capture capture;

	err_set(-1, "%s", "");
	if (capture_parse(what, &capture) == 0) {
		must(capture.count >= 1 && capture.count <= CAPTURE_ITEMS_MAX);
		for (size_t i = 0; i < capture.count; i++)
			item_check(&capture.items[i]);
		all_check(&capture);
		capture_deinit(&capture);
	} else {
		must(*err_text());
	}
	free(what);
	return 0;
}
