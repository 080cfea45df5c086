// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/texts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "image/procfs.h"

enum {
	BYTES = 48, /* of a text that are read */
	CHARACTERS_MIN = 3, /* of what is taken for one */
	PAGE = 4096,
	READ_MAX = 16, /* times that a place is read */
	NOTES_MAX = 65536,
	FIRST_GRAPHIC = 0xa0, /* the first printable character beyond ASCII */
};

struct note {
	uint32_t text; /* in texts, plus 1; 0: none */
	uint16_t read; /* times */
	bool differed;
};

struct texts {
	struct strtab texts;
	struct map places; /* address to place in notes */
	ARRAY(struct note) notes;
};

void texts_create(struct texts **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
}

void texts_destroy(struct texts *texts)
{
	if (!texts)
		return;
	strtab_deinit(&texts->texts);
	map_deinit(&texts->places);
	array_deinit(&texts->notes);
	free(texts);
}

static const char *escape_of(uint32_t character)
{
	switch (character) {
	case '\n':
		return "\\n";
	case '\t':
		return "\\t";
	case '\r':
		return "\\r";
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	default:
		return NULL;
	}
}

static bool is_graphic(uint32_t character)
{
	return (character >= ' ' && character < 0x7f) ||
	       (character >= FIRST_GRAPHIC && character != UTF8_BAD);
}

bool texts_quote(const char *bytes, size_t size, struct strbuf *ret)
{
	AUTO(strbuf_deinit) struct strbuf quoted = {};
	AUTO(free_ptr) char *text = mem_alloc(size + 1);
	size_t at = 0, characters = 0;

	memcpy(text, bytes, size);
	text[size] = '\0';
	while (text[at]) {
		uint32_t character;
		size_t length = utf8_next(text + at, &character);
		const char *escape = escape_of(character);

		if (!escape && !is_graphic(character)) {
			/* The last one may be cut in the middle. */
			if (at + 4 > size && strlen(text) == size && character == UTF8_BAD)
				break;
			return false;
		}
		if (escape)
			strbuf_puts(&quoted, escape);
		else
			strbuf_add(&quoted, text + at, length);
		at += length;
		characters++;
	}
	if (characters < CHARACTERS_MIN)
		return false;
	strbuf_printf(ret, "\"%s%s\"", strbuf_text(&quoted), strlen(text) == size ? "…" : "");
	return true;
}

/* False: nothing could be read. *ret is 0 where there is no text. */
static bool text_read(struct texts *texts, pid_t pid, uint64_t address, uint32_t *ret)
{
	AUTO(strbuf_deinit) struct strbuf text = {};
	char bytes[BYTES];
	size_t first = PAGE - address % PAGE;
	struct iovec here = { bytes, sizeof(bytes) };
	struct iovec there[] = {
		{ (void *)(uintptr_t)address, first < BYTES ? first : BYTES },
		{ (void *)(uintptr_t)(address + first), first < BYTES ? BYTES - first : 0 },
	};
	ssize_t size = process_vm_readv(pid, &here, 1, there, first < BYTES ? 2 : 1, 0);

	if (size <= 0)
		return false;
	*ret = texts_quote(bytes, (size_t)size, &text)
		       ? strtab_add(&texts->texts, strbuf_text(&text)) + 1
		       : 0;
	return true;
}

void texts_look(struct texts *texts, pid_t pid, uint64_t address)
{
	struct note *note;
	uint64_t *place;
	uint32_t text;
	bool fresh;

	if (texts->notes.count >= NOTES_MAX && !map_find(&texts->places, address))
		return;
	place = map_at(&texts->places, address, &fresh);
	if (fresh) {
		*place = texts->notes.count;
		*array_push(&texts->notes) = (struct note){};
	}
	note = &texts->notes.items[*place];
	if (note->differed || note->read >= READ_MAX || !procfs_is_own(pid) ||
	    !text_read(texts, pid, address, &text))
		return;
	note->differed = note->read && text != note->text;
	note->text = text;
	note->read++;
}

const char *texts_get(const struct texts *texts, uint64_t address)
{
	uint64_t *place = map_find(&texts->places, address);
	const struct note *note = place ? &texts->notes.items[*place] : NULL;

	return note && note->text && !note->differed ? strtab_get(&texts->texts, note->text - 1)
						     : NULL;
}
