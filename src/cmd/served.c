// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/served.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/request.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/view_code.h"
#include "recorder/symbolise.h"
#include "report/report.h"
#include "store/snapshot.h"

enum {
	REST = 9, /* times as long as a copy took it rests before the next */
	REST_LEAST_MS = 500, /* about what lies between two commits */
	ANSWER_MAX = 256 << 20, /* bytes of JSON */
};

/* What tells two states of a file apart. */
struct stamp {
	dev_t device;
	ino_t inode;
	off_t size, log_size;
	struct timespec changed, log_changed;
};

struct served {
	const char *path;
	struct page_wish wish;
	char *folder; /* of the copy; NULL: none was needed yet */
	char *copy; /* its path; NULL: the profile itself is shown */
	struct stamp stamp; /* of what is shown */
	uint64_t generation; /* of what is shown; 0: nothing yet */
	uint64_t due; /* CLOCK_MONOTONIC: not looked at anew before */
	void *data; /* NULL: not made yet of this generation */
	size_t data_size;
};

int served_create(const char *path, const struct page_wish *wish, struct served **ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = profile_open(path, &profile);

	if (err)
		return err;
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->path = path;
	(*ret)->wish = *wish;
	return 0;
}

static void copy_remove(struct served *served)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

	for (size_t i = 0; served->copy && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		AUTO(free_ptr) char *name = mem_printf("%s%s", served->copy, suffixes[i]);

		unlink(name);
	}
	free(take_ptr(served->copy));
}

void served_destroy(struct served *served)
{
	if (!served)
		return;
	copy_remove(served);
	if (served->folder)
		rmdir(served->folder);
	free(served->folder);
	free(served->data);
	free(served);
}

static void stamp_get(const char *path, struct stamp *ret)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);
	struct stat info = {}, log_info = {};

	/* Bytes between fields would differ by chance. */
	memset(ret, 0, sizeof(*ret));
	if (stat(path, &info))
		return;
	if (stat(log, &log_info))
		log_info = (struct stat){};
	ret->device = info.st_dev;
	ret->inode = info.st_ino;
	ret->size = info.st_size;
	ret->changed = info.st_mtim;
	ret->log_size = log_info.st_size;
	ret->log_changed = log_info.st_mtim;
}

static bool is_stale(const struct served *served)
{
	struct stamp now;

	if (!served->generation)
		return true;
	if (clock_monotonic() < served->due)
		return false;
	stamp_get(served->path, &now);
	return memcmp(&now, &served->stamp, sizeof(now)) != 0;
}

uint64_t served_generation(struct served *served)
{
	return served->generation + is_stale(served);
}

bool served_is_live(const struct served *served)
{
	return store_is_written(served->path);
}

void served_look_now(struct served *served)
{
	served->due = 0;
}

/* The CPU time of this process, which does not depend on how busy the machine is. */
static uint64_t cpu_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* --- Copies ----------------------------------------------------------------------------------- */

static int folder_make(struct served *served)
{
	const char *base = getenv("TMPDIR");
	AUTO(free_ptr) char *name = mem_printf("%s/assay-serve-XXXXXX", base ? base : "/tmp");

	if (served->folder)
		return 0;
	if (!mkdtemp(name))
		return err_set(-errno,
			       "%s: cannot make a folder for copies of the profile: %s; name "
			       "another place in TMPDIR",
			       name, strerror(errno));
	served->folder = take_ptr(name);
	return 0;
}

/* The page calls the profile by the last part of its path. */
static int copy_make(struct served *served)
{
	const char *slash = strrchr(served->path, '/');
	int err = folder_make(served);

	copy_remove(served);
	if (err)
		return err;
	served->copy = mem_printf("%s/%s", served->folder, slash ? slash + 1 : served->path);
	err = store_snapshot(served->path, served->copy);
	return err ? err : symbolise_unfinished(served->copy);
}

static int finished_look(const char *path, bool *ret)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	int err = profile_open(path, &profile);

	if (!err)
		*ret = profile->finished;
	return err;
}

static int look(struct served *served)
{
	uint64_t begun = cpu_time(), taken;
	struct stamp stamp;
	bool finished;
	int err;

	stamp_get(served->path, &stamp);
	err = finished_look(served->path, &finished);
	if (!err && finished)
		copy_remove(served);
	else if (!err)
		err = copy_make(served);
	if (err)
		return err;
	free(take_ptr(served->data));
	served->stamp = stamp;
	served->generation++;
	taken = cpu_time() - begun;
	if (taken < REST_LEAST_MS * (uint64_t)NS_PER_MS / REST)
		taken = REST_LEAST_MS * (uint64_t)NS_PER_MS / REST;
	served->due = clock_monotonic() + REST * taken;
	return 0;
}

int served_path(struct served *served, const char **ret)
{
	int err = is_stale(served) ? look(served) : 0;

	if (!err)
		*ret = served->copy ? served->copy : served->path;
	return err;
}

/* --- Answers ---------------------------------------------------------------------------------- */

static int data_keep(const struct page_content *content, void *ctx)
{
	struct served *served = ctx;

	return page_pack(content, &served->data, &served->data_size);
}

int served_data(struct served *served, const void **ret, size_t *ret_size)
{
	const char *path;
	int err = served_path(served, &path);

	if (!err && !served->data) {
		uint64_t begun = cpu_time();

		err = page_build(&served->wish, &path, 1, data_keep, served);
		if (served->due < clock_monotonic())
			served->due = clock_monotonic();
		served->due += REST * (cpu_time() - begun);
	}
	if (err)
		return err;
	*ret = served->data;
	*ret_size = served->data_size;
	return 0;
}

/* A stream into memory that takes ANSWER_MAX bytes. */
struct bounded {
	char *text;
	size_t length, capacity;
	bool full;
};

static ssize_t bounded_write(void *cookie, const char *data, size_t size)
{
	struct bounded *bounded = cookie;

	if (size > ANSWER_MAX - bounded->length) {
		bounded->full = true;
		errno = EFBIG;
		return 0;
	}
	if (bounded->length + size > bounded->capacity) {
		bounded->capacity = 2 * bounded->capacity + size;
		bounded->text = mem_realloc(bounded->text, bounded->capacity, 1);
	}
	memcpy(bounded->text + bounded->length, data, size);
	bounded->length += size;
	return (ssize_t)size;
}

static int table_answer(const struct table *table, char **ret, size_t *ret_size)
{
	struct bounded bounded = {};
	FILE *file = fopencookie(&bounded, "w", (cookie_io_functions_t){ .write = bounded_write });

	if (!file)
		return err_set(-ENOMEM, "there is no memory for an answer");
	report_json(table, file);
	if (fclose(file) || bounded.full) {
		free(bounded.text);
		return err_set(-EFBIG, "the answer is longer than %d MB; ask for less with limit=N",
			       ANSWER_MAX >> 20);
	}
	*ret = bounded.text;
	*ret_size = bounded.length;
	return 0;
}

static int request_answer(const char *path, struct request *request, char **ret, size_t *ret_size)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(view_code_deinit) struct view_code code = {};
	unsigned domains = 0;
	int err = profile_open(path, &profile);

	err = err ? err : view_domains(request->view, profile, &request->wish, &domains);
	err = err ? err : profile_need(profile, domains);
	if (err)
		return err;
	view_code_init(&code, path, profile);
	request->wish.code = view_code_source(&code);
	err = view_run(request->view, profile, &request->wish, &table);
	return err ? err : table_answer(table, ret, ret_size);
}

int served_report(struct served *served, const char *text, char **ret, size_t *ret_size)
{
	struct request request;
	const char *path;
	int err = request_parse(text, &request);

	if (err)
		return err;
	err = served_path(served, &path);
	err = err ? err : request_answer(path, &request, ret, ret_size);
	request_deinit(&request);
	return err;
}
