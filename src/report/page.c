// SPDX-License-Identifier: BSD-2-Clause
/*
 * The page: the viewer's text with the data in its middle, as gzip in base64, none of whose
 * characters means anything in HTML.
 */
#include "report/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/err.h"
#include "base/mem.h"

/* Made from viewer/ by the build. */
extern const char report_page[];
static const char connect_mark[] = "@CONNECT@", data_mark[] = "@PROFILE@";

enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 9 };

void page_profile_deinit(struct page_profile *profile)
{
	array_each(&profile->tables, it)
		table_destroy(it->table);
	array_each(&profile->codes, it)
		table_destroy(it->table);
	array_each(&profile->flames, it)
		flame_deinit(it);
	array_deinit(&profile->flames);
	course_deinit(&profile->course);
	array_deinit(&profile->tables);
	array_deinit(&profile->codes);
}

static int compress_all(const struct strbuf *data, void **ret, size_t *ret_size)
{
	z_stream stream = { .next_in = (Bytef *)strbuf_text(data), .avail_in = (uInt)data->length };
	size_t size;
	int status;

	if (data->length > UINT32_MAX / 2)
		return err_set(-EFBIG, "the profile has too much data for one page");
	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(-ENOMEM, "the data of the page cannot be compressed");
	size = deflateBound(&stream, data->length);
	*ret = mem_alloc(size);
	stream.next_out = *ret;
	stream.avail_out = (uInt)size;
	status = deflate(&stream, Z_FINISH);
	*ret_size = size - stream.avail_out;
	deflateEnd(&stream);
	return status == Z_STREAM_END ? 0 : err_set(-EIO, "the data cannot be compressed");
}

static void base64_write(const uint8_t *bytes, size_t size, FILE *file)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size && !ferror(file); i += 3) {
		unsigned left = size - i > 3 ? 3 : (unsigned)(size - i);
		uint32_t group = (uint32_t)bytes[i] << 16;
		char text[4];

		group |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
		group |= left > 2 ? bytes[i + 2] : 0;
		for (unsigned k = 0; k < 4; k++)
			text[k] = k <= left ? digits[group >> (18 - 6 * k) & 63] : '=';
		fwrite(text, 1, sizeof(text), file);
	}
}

int page_pack(const struct page_content *content, void **ret, size_t *ret_size)
{
	struct strbuf data = {};
	int err;

	page_data(content, &data);
	err = compress_all(&data, ret, ret_size);
	strbuf_deinit(&data);
	return err;
}

/* The viewer up to where data belongs, with what it may connect to; returns what comes after. */
static const char *viewer_begin(const char *connect, FILE *file)
{
	const char *policy = strstr(report_page, connect_mark);
	const char *rest = policy + sizeof(connect_mark) - 1, *data = strstr(rest, data_mark);

	fwrite(report_page, 1, (size_t)(policy - report_page), file);
	fputs(connect, file);
	fwrite(rest, 1, (size_t)(data - rest), file);
	return data + sizeof(data_mark) - 1;
}

void page_viewer_write(FILE *file)
{
	fputs(viewer_begin("'self'", file), file);
}

int page_write(const struct page_content *content, FILE *file)
{
	AUTO(free_ptr) void *packed = NULL;
	const char *rest;
	size_t size = 0;
	int err = page_pack(content, &packed, &size);

	if (err)
		return err;
	rest = viewer_begin("'none'", file);
	base64_write(packed, size, file);
	fputs(rest, file);
	return 0;
}
