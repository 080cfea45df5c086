// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/profile.h"

struct profile_code {
	char *path;
	sqlite3 *db;
	sqlite3_stmt *get;
};

int profile_code_create(const char *path, struct profile_code **ret)
{
	AUTO(profile_code_destroy_auto) struct profile_code *code = mem_zalloc(sizeof(*code));
	int err = container_open_read(path, &code->db, NULL);

	code->path = mem_strdup(path);
	err = err ? err
		  : container_prepare(code->db, path, "select code from symbol where id = ?",
				      &code->get);
	if (!err)
		*ret = take_ptr(code);
	return err;
}

void profile_code_destroy(struct profile_code *code)
{
	if (!code)
		return;
	sqlite3_finalize(code->get);
	container_close(code->db);
	free(code->path);
	free(code);
}

int profile_code_get(struct profile_code *code, uint32_t symbol, void **ret, size_t *ret_size)
{
	int rc, err = 0;

	sqlite3_bind_int64(code->get, 1, symbol);
	rc = sqlite3_step(code->get);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
		err = container_error(code->db, code->path, "read code");
	} else if (rc == SQLITE_DONE || sqlite3_column_type(code->get, 0) != SQLITE_BLOB) {
		err = err_set(
			-ENOENT,
			"%s: holds no code of symbol %u; only sampled functions have theirs kept",
			code->path, symbol);
	} else {
		*ret_size = (size_t)sqlite3_column_bytes(code->get, 0);
		*ret = mem_dup(sqlite3_column_blob(code->get, 0), *ret_size);
	}
	sqlite3_reset(code->get);
	return err;
}
