// SPDX-License-Identifier: BSD-2-Clause
/*
 * How the slowest visits of a routine differ from usual ones.
 *
 * A visit is a tree of the calls and system calls that it made, with their times. The trees of all
 * visits are laid over each other, so that each path has a usual time: the mean over usual visits,
 * those in the middle half of all times. A slow visit is longer than the median by its excess. From
 * the routine itself we descend as long as one call has more than half of the excess; where the
 * descent ends, the time was spent. Its cause is the system call that is found there; or waiting
 * for a processor, if the visit would not have been slow, or only a little, without that time; or
 * page faults, if there were so many that at 2 us each they explain what is left, or if there were
 * some and everything else was as usual; and otherwise a slow path.
 *
 * Slow visits with the same cause in the same place are one row. For each row it is determined
 * whether these visits have an argument in common that usual visits do not have, and whether they
 * execute code that those do not.
 */
#include "analyse/tail_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analyse/instruction.h"
#include "analyse/names.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum {
	T_SHARE,
	T_VISITS,
	T_LONGER,
	T_CAUSE,
	T_WHERE,
	T_OBJECT,
	T_VALUE,
	T_ONLY,
	T_FAULTS,
	T_OFF,
	T_MARK,
	T_VALUE_SHARE,
	T_VALUE_USUAL,
	T_USUAL,
	T_SLOW,
	T_P50,
	T_SLOWEST,
	T_COLUMNS,
};

static const struct column tail_columns[] = {
	[T_SHARE] = { "share", "Share", COLUMN_SHARE },
	[T_VISITS] = { "visits", "Slow", COLUMN_COUNT },
	[T_LONGER] = { "longer_ns", "Longer by, ns", COLUMN_COUNT },
	[T_CAUSE] = { "cause", "Cause", COLUMN_TEXT },
	[T_WHERE] = { "where", "Where", COLUMN_TEXT, .elastic = true },
	[T_OBJECT] = { "object", "Object", COLUMN_TEXT, .optional = true, .elastic = true },
	[T_VALUE] = { "value", "Argument", COLUMN_TEXT, .optional = true, .elastic = true },
	[T_ONLY] = { "only", "Executed only then", COLUMN_TEXT, .optional = true, .elastic = true },
	[T_FAULTS] = { "faults", "Faults", COLUMN_REAL, .spare = 2 },
	[T_OFF] = { "off_ns", "Off CPU, ns", COLUMN_COUNT, .spare = 1 },
	[T_MARK] = { "mark", "", COLUMN_TEXT, COLUMN_DATA },
	[T_VALUE_SHARE] = { "value_share", "", COLUMN_SHARE, COLUMN_DATA },
	[T_VALUE_USUAL] = { "value_usual_share", "", COLUMN_SHARE, COLUMN_DATA },
	[T_USUAL] = { "usual", "", COLUMN_COUNT, COLUMN_DATA },
	[T_SLOW] = { "slow", "", COLUMN_COUNT, COLUMN_DATA },
	[T_P50] = { "p50_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[T_SLOWEST] = { "slow_from_ns", "", COLUMN_COUNT, COLUMN_DATA },
};

/* Slow visits are reported if their mean is that many times the median. */
static const double slower_least = 1.2;

static const char cause_processor[] = "processor", cause_various[] = "various";

/* --- Reading ---------------------------------------------------------------------------------- */

static int kind_of(const char *text)
{
	return !strcmp(text, "call")	? PATH_CALL
	       : !strcmp(text, "block") ? PATH_BLOCK
					: PATH_SYSTEM_CALL;
}

/* Functions by their symbols: code of one may be at several locations. */
static uint64_t identity_of(const struct tail *tail, const struct profile_mark_visit_step *step,
			    int kind)
{
	uint32_t symbol = 0;

	if (kind == PATH_SYSTEM_CALL)
		return step->system_call | (uint64_t)step->place << 32;
	if (kind == PATH_CALL && step->location)
		symbol = location_function(tail->profile, step->location);
	return symbol ? symbol | 1ull << 40 : step->location;
}

static uint32_t path_find(struct tail *tail, uint32_t parent,
			  const struct profile_mark_visit_step *step)
{
	int kind = kind_of(step->kind);
	uint64_t key =
		hash64_pair(hash64_pair(parent, (uint64_t)kind), identity_of(tail, step, kind));
	bool fresh;
	uint64_t *id = map_at(&tail->path_ids, key, &fresh);

	if (!fresh)
		return (uint32_t)*id;
	*id = tail->paths.count;
	*array_push(&tail->paths) = (struct path){ .parent = parent,
						   .kind = kind,
						   .location = step->location,
						   .place = step->place,
						   .system_call = step->system_call,
						   .object = step->object };
	return (uint32_t)(tail->paths.count - 1);
}

/* Steps of a visit come in their order, and name earlier ones. */
static void steps_take(struct tail *tail, const struct profile_mark_visit *row, size_t *at)
{
	const struct profile *profile = tail->profile;
	uint32_t *paths;
	size_t count = 0, first;

	while (*at < profile->mark_visit_step_count &&
	       (profile->mark_visit_steps[*at].recording < row->recording ||
		(profile->mark_visit_steps[*at].recording == row->recording &&
		 profile->mark_visit_steps[*at].number < row->number)))
		++*at;
	first = *at;
	while (first + count < profile->mark_visit_step_count &&
	       profile->mark_visit_steps[first + count].recording == row->recording &&
	       profile->mark_visit_steps[first + count].number == row->number)
		count++;
	paths = mem_zalloc((count + 1) * sizeof(*paths));
	for (size_t i = 0; i < count; i++) {
		const struct profile_mark_visit_step *step = &profile->mark_visit_steps[first + i];
		uint32_t parent = 0;

		for (size_t above = 0; above < i; above++)
			if (profile->mark_visit_steps[first + above].step == step->parent)
				parent = paths[above];
		paths[i] = path_find(tail, parent, step);
		*array_push(&tail->steps) =
			(struct step){ paths[i], (double)step->time_ns, (double)step->count };
	}
	free(paths);
	*at = first + count;
}

static const struct profile_mark_visit_argument *
arguments_of(const struct profile *profile, const struct profile_mark_visit *row, size_t *at)
{
	const struct profile_mark_visit_argument *rows = profile->mark_visit_arguments;

	while (*at < profile->mark_visit_argument_count &&
	       (rows[*at].recording < row->recording ||
		(rows[*at].recording == row->recording && rows[*at].number < row->number)))
		++*at;
	if (*at + ARGUMENTS > profile->mark_visit_argument_count)
		return NULL;
	for (unsigned i = 0; i < ARGUMENTS; i++)
		if (rows[*at + i].recording != row->recording ||
		    rows[*at + i].number != row->number || rows[*at + i].argument != i)
			return NULL;
	return &rows[*at];
}

static void visits_take(struct tail *tail, const struct filter *filter)
{
	const struct profile *profile = tail->profile;
	size_t step = 0, argument = 0;

	*array_push(&tail->paths) = (struct path){};
	for (size_t i = 0; i < profile->mark_visit_count; i++) {
		const struct profile_mark_visit *row = &profile->mark_visits[i];
		struct visit visit = { .row = row, .first = tail->steps.count };

		if (row->mark != tail->mark || !filter_thread(filter, profile, row->thread))
			continue;
		steps_take(tail, row, &step);
		visit.end = tail->steps.count;
		visit.arguments = arguments_of(profile, row, &argument);
		*array_push(&tail->visits) = visit;
	}
}

/* --- Usual and slow --------------------------------------------------------------------------- */

static int bucket_compare(const void *a, const void *b)
{
	const struct time_bucket *left = a, *right = b;

	return left->from < right->from ? -1 : left->from > right->from;
}

/* The least time of the bucket that holds the visit at that share. */
static uint64_t percentile(const struct tail *tail, double share)
{
	double passed = 0;

	array_each(&tail->buckets, bucket)
		if ((passed += (double)bucket->visits) >= share * (double)tail->timed)
			return bucket->from;
	return tail->buckets.count ? tail->buckets.items[tail->buckets.count - 1].from : 0;
}

/* As the mark says: ",tail=5%"; a hundredth if it says nothing. */
static double slow_share(const struct tail *tail)
{
	static const char given[] = ",tail=";
	const char *at = strstr(tail->profile->marks[tail->mark].text, given);
	double percent = at ? strtod(at + sizeof(given) - 1, NULL) : 1;

	return percent > 0 && percent <= 50 ? percent / 100 : 0.01;
}

static void percentiles_find(struct tail *tail, const struct filter *filter)
{
	const struct profile *profile = tail->profile;

	for (size_t i = 0; i < profile->mark_time_bucket_count; i++) {
		const struct profile_mark_time_bucket *from = &profile->mark_time_buckets[i];

		if (from->mark != tail->mark || !filter_thread(filter, profile, from->thread))
			continue;
		*array_push(&tail->buckets) = (struct time_bucket){ from->from_ns, from->visits };
		tail->timed += from->visits;
	}
	if (tail->buckets.count)
		qsort(tail->buckets.items, tail->buckets.count, sizeof(struct time_bucket),
		      bucket_compare);
	tail->p25 = percentile(tail, 0.25);
	tail->p50 = percentile(tail, 0.5);
	tail->p75 = percentile(tail, 0.75);
	tail->slowest = percentile(tail, 1 - slow_share(tail));
}

static double off_of(const struct profile_mark_visit *row)
{
	return row->asked && row->time_ns > row->cpu_ns ? (double)(row->time_ns - row->cpu_ns) : 0;
}

static double faults_of(const struct profile_mark_visit *row)
{
	return (double)row->faults_minor + (double)row->faults_major;
}

/* A bucket is 3 % wide. Where nothing kept is in the middle, whatever is not slow is usual. */
static void visits_sort_out(struct tail *tail)
{
	const double wide = 1.04;
	bool all = true;

	array_each(&tail->visits, visit) {
		visit->slow = visit->row->time_ns >= tail->slowest;
		visit->usual = !visit->slow && visit->row->time_ns >= tail->p25 &&
			       (double)visit->row->time_ns <= (double)tail->p75 * wide;
		all &= !visit->usual;
	}
	array_each(&tail->visits, visit) {
		visit->usual |= all && !visit->slow;
		tail->usual += visit->usual;
		tail->slow += visit->slow;
	}
}

static void usual_sum(struct tail *tail)
{
	array_each(&tail->visits, visit) {
		if (!visit->usual)
			continue;
		tail->usual_faults += faults_of(visit->row) / tail->usual;
		tail->usual_off += off_of(visit->row) / tail->usual;
		for (size_t i = visit->first; i < visit->end; i++) {
			struct path *path = &tail->paths.items[tail->steps.items[i].path];

			path->usual_ns += tail->steps.items[i].ns / tail->usual;
			path->usual_count += tail->steps.items[i].count / tail->usual;
			path->usual_visits++;
		}
	}
}

/* --- Causes ----------------------------------------------------------------------------------- */

/* Columns: the call, what a thread waits for in it. */
#define WAITING_CALLS(X)                                                                           \
	X(futex, "lock")                                                                           \
	X(flock, "lock")                                                                           \
	X(nanosleep, "sleep")                                                                      \
	X(clock_nanosleep, "sleep")                                                                \
	X(pause, "sleep")                                                                          \
	X(sched_yield, "processor")                                                                \
	X(fsync, "disk")                                                                           \
	X(fdatasync, "disk")                                                                       \
	X(sync_file_range, "disk")                                                                 \
	X(open, "disk")                                                                            \
	X(openat, "disk")                                                                          \
	X(unlink, "disk")                                                                          \
	X(rename, "disk")                                                                          \
	X(ftruncate, "disk")                                                                       \
	X(fallocate, "disk")                                                                       \
	X(poll, "poll")                                                                            \
	X(ppoll, "poll")                                                                           \
	X(select, "poll")                                                                          \
	X(pselect6, "poll")                                                                        \
	X(epoll_wait, "poll")                                                                      \
	X(epoll_pwait, "poll")                                                                     \
	X(connect, "socket")                                                                       \
	X(accept, "socket")                                                                        \
	X(accept4, "socket")                                                                       \
	X(sendto, "socket")                                                                        \
	X(recvfrom, "socket")                                                                      \
	X(sendmsg, "socket")                                                                       \
	X(recvmsg, "socket")                                                                       \
	X(wait4, "child")                                                                          \
	X(waitid, "child")                                                                         \
	X(mmap, "memory")                                                                          \
	X(munmap, "memory")                                                                        \
	X(mprotect, "memory")                                                                      \
	X(madvise, "memory")                                                                       \
	X(brk, "memory")                                                                           \
	X(read, "input or output")                                                                 \
	X(write, "input or output")                                                                \
	X(readv, "input or output")                                                                \
	X(writev, "input or output")                                                               \
	X(pread64, "input or output")                                                              \
	X(pwrite64, "input or output")                                                             \
	X(ioctl, "input or output")

static const struct waiting_call {
	uint32_t number;
	const char *name, *cause;
} waiting_calls[] = {
#define X(name, cause) { SYS_##name, #name, cause },
	WAITING_CALLS(X)
#undef X
};

static const struct waiting_call *waiting_call(uint32_t number)
{
	for (size_t i = 0; i < sizeof(waiting_calls) / sizeof(waiting_calls[0]); i++)
		if (waiting_calls[i].number == number)
			return &waiting_calls[i];
	return NULL;
}

/* The call below that path which took the longest beyond what is usual; 0: none. */
static uint32_t path_below(const struct tail *tail, const struct visit *visit, uint32_t above,
			   double *ret)
{
	uint32_t found = 0;

	*ret = 0;
	for (size_t i = visit->first; i < visit->end; i++) {
		const struct step *step = &tail->steps.items[i];
		const struct path *path = &tail->paths.items[step->path];

		if (path->parent != above || path->kind == PATH_BLOCK ||
		    step->ns - path->usual_ns <= *ret)
			continue;
		*ret = step->ns - path->usual_ns;
		found = step->path;
	}
	return found;
}

static uint32_t path_responsible(const struct tail *tail, const struct visit *visit, double excess)
{
	uint32_t path = 0, below;
	double longer;

	while ((below = path_below(tail, visit, path, &longer)) && longer >= excess / 2)
		path = below;
	return path;
}

static bool is_below(const struct tail *tail, uint32_t path, uint32_t above)
{
	while (path && path != above)
		path = tail->paths.items[path].parent;
	return path == above;
}

/* Whether the visit did there what usual ones do, and not much more often. */
static bool is_done_as_usual(const struct tail *tail, const struct visit *visit, uint32_t above)
{
	const double more = 1.5;

	for (size_t i = visit->first; i < visit->end; i++) {
		const struct step *step = &tail->steps.items[i];
		const struct path *path = &tail->paths.items[step->path];

		if (is_below(tail, step->path, above) && step->count > path->usual_count * more)
			return false;
	}
	return true;
}

/*
 * Whether page faults are the cause: they are so many that they explain the time, or there are some
 * and nothing else is different.
 */
static bool is_faulting(const struct tail *tail, const struct visit *visit, uint32_t path,
			double used)
{
	enum { FAULT_NS = 2000, SOME = 8 };
	double faults = faults_of(visit->row) - tail->usual_faults;

	return faults * FAULT_NS >= used || (faults >= SOME && is_done_as_usual(tail, visit, path));
}

/*
 * Whether the visit is slow even without its time off the processor. The cost of cold caches after
 * a switch is taken to be small.
 */
static bool is_slow_anyway(const struct tail *tail, double used, double off)
{
	return used >= (double)tail->slowest - (double)tail->p50 &&
	       (used >= off / 4 || used >= (double)tail->p50 * 20);
}

static const char *cause_of(const struct tail *tail, const struct visit *visit, uint32_t path,
			    double excess)
{
	const struct path *at = &tail->paths.items[path];
	double off = off_of(visit->row) - tail->usual_off;
	double used = excess - (off > 0 ? off : 0); /* on a processor */

	if (at->kind == PATH_SYSTEM_CALL)
		return waiting_call(at->system_call) ? waiting_call(at->system_call)->cause
						     : "system call";
	if (visit->row->faults_major && off > excess / 2)
		return "page faults";
	if (off >= excess / 2 && !is_slow_anyway(tail, used, off))
		return cause_processor;
	return is_faulting(tail, visit, path, used) ? "page faults" : "slow path";
}

static struct group *group_find(struct tail *tail, const char *cause, uint32_t path)
{
	struct group *group;

	array_each(&tail->groups, other)
		if (other->path == path && !strcmp(other->cause, cause))
			return other;
	group = array_push(&tail->groups);
	*group = (struct group){ .cause = cause, .path = path };
	return group;
}

static void visit_explain(struct tail *tail, uint32_t number)
{
	const struct visit *visit = &tail->visits.items[number];
	double excess = (double)visit->row->time_ns - (double)tail->p50;
	uint32_t path = path_responsible(tail, visit, excess);
	const char *cause = cause_of(tail, visit, path, excess);
	struct group *group;

	if (cause == cause_processor)
		path = 0; /* it may be lost anywhere */
	group = group_find(tail, cause, path);
	group->weight += visit->weight;
	group->excess += excess * visit->weight;
	group->faults += (faults_of(visit->row) - group->faults) * visit->weight / group->weight;
	group->off += off_of(visit->row) * visit->weight;
	tail->excess += excess * visit->weight;
	*array_push(&group->visits) = number;
}

/* Joins groups that are too small for a row of their own. */
static void small_join(struct tail *tail)
{
	const double least = 0.005;
	size_t count = tail->groups.count;

	group_find(tail, cause_various, 0);
	for (size_t i = 0; i < count; i++) {
		struct group *from = &tail->groups.items[i], *to = &tail->groups.items[count];

		if (from->excess >= least * tail->excess)
			continue;
		to->weight += from->weight;
		to->excess += from->excess;
		to->faults += (from->faults - to->faults) * from->weight / to->weight;
		to->off += from->off;
		array_each(&from->visits, number)
			*array_push(&to->visits) = *number;
		from->visits.count = 0;
	}
}

/* --- Text ------------------------------------------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A function, or a variable, and how far behind its beginning. */
static void location_put(const struct profile *profile, uint32_t location, bool exact,
			 struct strbuf *out)
{
	uint32_t symbol = location_function(profile, location);
	const struct profile_location *row = &profile->locations[location];
	uint64_t offset = symbol ? row->address - profile->symbols[symbol].address : 0;

	if (!symbol)
		strbuf_printf(out, "%s+%#llx", base_name(name_of_module(profile, row->module)),
			      (unsigned long long)row->address);
	else if (exact && offset)
		strbuf_printf(out, "%s+%#llx", name_of_symbol(profile, symbol),
			      (unsigned long long)offset);
	else
		strbuf_puts(out, name_of_symbol(profile, symbol));
}

static void path_put(const struct tail *tail, uint32_t number, struct strbuf *out)
{
	const struct path *path = &tail->paths.items[number];
	const struct waiting_call *call;

	if (path->kind == PATH_SYSTEM_CALL) {
		call = waiting_call(path->system_call);
		if (call)
			strbuf_puts(out, call->name);
		else
			strbuf_printf(out, "system call %u", path->system_call);
	} else if (path->location) {
		location_put(tail->profile, path->location, false, out);
	} else {
		strbuf_puts(out, NAME_UNKNOWN);
	}
}

/* The routine itself as it was named, without what stands behind it. */
static void routine_put(const struct tail *tail, struct strbuf *out)
{
	const char *text = tail->profile->marks[tail->mark].text, *comma = strrchr(text, ',');

	strbuf_add(out, text, comma ? (size_t)(comma - text) : strlen(text));
}

/* "handle > store_put > ___pthread_mutex_lock > futex" */
static const char *where_text(const struct tail *tail, uint32_t number)
{
	enum { DEPTH = 64 };
	uint32_t chain[DEPTH], depth = 0;
	struct strbuf text = {};

	for (; number && depth < DEPTH; number = tail->paths.items[number].parent)
		chain[depth++] = number;
	routine_put(tail, &text);
	while (depth) {
		strbuf_puts(&text, " > ");
		path_put(tail, chain[--depth], &text);
	}
	return table_own(tail->table, text.text);
}

static const char *object_text(const struct tail *tail, uint32_t number)
{
	const struct path *path = &tail->paths.items[number];
	struct strbuf text = {};

	if (path->kind != PATH_SYSTEM_CALL || !path->object)
		return NULL;
	if (path->place && location_function(tail->profile, path->place))
		location_put(tail->profile, path->place, true, &text);
	else
		strbuf_printf(&text, "%#llx", (unsigned long long)path->object);
	return table_own(tail->table, text.text);
}

/* What the visits of a group did on each path. */
struct presence {
	uint32_t visits;
	double ns;
};

static struct presence *presence_find(const struct tail *tail, const struct group *group)
{
	struct presence *all = mem_zalloc(tail->paths.count * sizeof(*all));

	array_each(&group->visits, number) {
		const struct visit *visit = &tail->visits.items[*number];

		for (size_t i = visit->first; i < visit->end; i++) {
			all[tail->steps.items[i].path].visits++;
			all[tail->steps.items[i].path].ns += tail->steps.items[i].ns;
		}
	}
	return all;
}

/* "file.c:120", or the function if lines are not known. */
static void block_put(const struct tail *tail, const struct path *path, struct strbuf *out)
{
	const struct profile *profile = tail->profile;
	const struct profile_location *location = &profile->locations[path->location];
	const struct profile_frame *frame =
		location->frame_count ? &profile->frames[location->first_frame] : NULL;
	const char *file = frame ? name_of_file(profile, frame->file) : NULL;

	if (file && frame->line)
		strbuf_printf(out, "%s:%u", base_name(file), frame->line);
	else
		location_put(profile, path->location, true, out);
}

static bool is_only(const struct tail *tail, const struct group *group, uint32_t number,
		    const struct presence *presence)
{
	const struct path *path = &tail->paths.items[number];

	return number && path->kind != PATH_SYSTEM_CALL && path->location &&
	       presence[number].visits >= common_share * (double)group->visits.count &&
	       path->usual_visits <= rare_share * tail->usual;
}

/* The outermost one on the way to where the time went; 0: none. */
static uint32_t only_on_way(const struct tail *tail, const struct group *group,
			    const struct presence *presence)
{
	uint32_t found = 0;

	for (uint32_t i = group->path; i; i = tail->paths.items[i].parent)
		if (is_only(tail, group, i, presence))
			found = i;
	return found;
}

/* The call that took most, as an outer one does; or else the first of the routine's own code. */
static uint32_t only_beside(const struct tail *tail, const struct group *group,
			    const struct presence *presence)
{
	uint32_t found = 0;

	for (uint32_t i = 1; i < tail->paths.count; i++) {
		bool call = tail->paths.items[i].kind == PATH_CALL;
		bool found_call = found && tail->paths.items[found].kind == PATH_CALL;

		if (is_only(tail, group, i, presence) &&
		    (!found || (call && (!found_call || presence[i].ns > presence[found].ns))))
			found = i;
	}
	return found;
}

/*
 * What slow visits do and usual ones do not. Where the time went counts first: whatever else is
 * done only then, as what is done the first time, did not make them slow.
 */
static const char *only_text(const struct tail *tail, const struct group *group)
{
	struct presence *presence = presence_find(tail, group);
	struct strbuf text = {};
	uint32_t found = only_on_way(tail, group, presence);

	if (!found)
		found = only_beside(tail, group, presence);
	free(presence);
	if (!found)
		return NULL;
	if (tail->paths.items[found].kind == PATH_CALL)
		path_put(tail, found, &text);
	else
		block_put(tail, &tail->paths.items[found], &text);
	return table_own(tail->table, text.text);
}

/* --- The table -------------------------------------------------------------------------------- */

static void group_add(struct tail *tail, const struct group *group)
{
	struct tail_common common = tail_common_find(tail, group);
	struct cell *row = table_row_add(tail->table);

	row[T_SHARE] = cell_real(tail->excess > 0 ? group->excess / tail->excess : 0);
	row[T_VISITS] = cell_number(group->visits.count);
	row[T_LONGER] = cell_number((uint64_t)(group->excess / group->weight));
	row[T_CAUSE] = cell_text(group->cause);
	row[T_WHERE] = cell_text(where_text(tail, group->path));
	row[T_OBJECT] = cell_text_or_unset(object_text(tail, group->path));
	if (common.argument) {
		row[T_VALUE] = cell_text(tail_common_text(tail, &common));
		row[T_VALUE_SHARE] = cell_real(common.share);
		row[T_VALUE_USUAL] = cell_real(common.usual);
	}
	row[T_ONLY] = cell_text_or_unset(only_text(tail, group));
	row[T_FAULTS] = cell_real(group->faults);
	row[T_OFF] = cell_number((uint64_t)(group->off / group->weight));
	row[T_MARK] = cell_text(tail->profile->marks[tail->mark].text);
	row[T_USUAL] = cell_number(tail->usual);
	row[T_SLOW] = cell_number(tail->slow);
	row[T_P50] = cell_number(tail->p50);
	row[T_SLOWEST] = cell_number(tail->slowest);
}

static void tail_deinit(struct tail *tail)
{
	array_each(&tail->groups, group)
		array_deinit(&group->visits);
	array_deinit(&tail->groups);
	array_deinit(&tail->visits);
	array_deinit(&tail->buckets);
	array_deinit(&tail->steps);
	array_deinit(&tail->paths);
	map_deinit(&tail->path_ids);
}

/* Adds the rows of one mark. */
static void mark_tell(struct tail *tail)
{
	const struct filter *filter = &tail->request->filter;

	visits_take(tail, filter);
	percentiles_find(tail, filter);
	visits_sort_out(tail);
	if (!tail->usual || !tail->slow)
		return;
	tail_weights_find(tail);
	usual_sum(tail);
	tail_parameters_find(tail);
	for (uint32_t i = 0; i < tail->visits.count; i++)
		if (tail->visits.items[i].slow)
			visit_explain(tail, i);
	if (tail->excess < (slower_least - 1) * (double)tail->p50 * tail->weight)
		return;
	small_join(tail);
	array_each(&tail->groups, group)
		if (group->visits.count)
			group_add(tail, group);
}

int view_tail(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	const struct profile_recording *marks = profile_recording(profile, RECORDING_MARKS);
	struct table *table = table_create("tail", tail_columns, T_COLUMNS);
	uint64_t kept = 0;

	for (uint32_t i = 1; i < profile->mark_count; i++) {
		struct tail tail = {
			.profile = profile, .request = request, .table = table, .mark = i
		};

		if (!profile->marks[i].text || !strstr(profile->marks[i].text, ",tail"))
			continue;
		mark_tell(&tail);
		kept += tail.visits.count;
		tail_deinit(&tail);
	}
	table->filtered = !filter_is_empty(&request->filter);
	table->totals = (struct totals){ .seen = marks->seen,
					 .kept = marks->kept,
					 .selected = marks->kept,
					 .losses = marks->losses,
					 .loss_count = marks->loss_count };
	if (!table->row_count)
		table->empty = kept ? "the slowest visits take hardly longer than usual ones"
				    : "no visits were kept: mark a routine with ,tail";
	table_sort(table, T_SHARE);
	*ret = table;
	return 0;
}
