// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values into hotlists.
 *
 * Theory. A site and its list lie in four cache lines that have nearly always been driven out since
 * the last value, so waiting for them one after the other is most of the work. Values are therefore
 * queued: when one comes, its site is guessed and fetched; when the queue is settled, first all
 * sites are looked at and their entries fetched, and only then are the lists touched.
 *
 * Invariants
 * 1. values seen = values kept + those of sites beyond max_sites + those in the queue.
 * 2. A hint is used only if the site has the wanted key. So hints may be stale or wrong.
 * 3. Sites never move and never go: a number stands for one site.
 */
#include "recorder/site_table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"

enum {
	LINE = 64, /* bytes */
	PART = 1024, /* sites allocated at once */
	QUEUE_MAX = 64,
	NAMED_RANKS = 4,
	TEXT_RANKS = 3,
	TEXT_SITES = 200, /* looked at each time */
};

#define NAMED_SHARE 0.01
#define TEXT_SHARE 0.05

/* What is a number and nothing else. */
static const uint64_t plain_sources =
	SELECTION_BIT(SELECTION_TAKEN) | SELECTION_BIT(SELECTION_PATH) |
	SELECTION_BIT(SELECTION_PID) | SELECTION_BIT(SELECTION_TID) |
	SELECTION_BIT(SELECTION_PPID) | SELECTION_BIT(SELECTION_UID) |
	SELECTION_BIT(SELECTION_GID) | SELECTION_BIT(SELECTION_EUID) |
	SELECTION_BIT(SELECTION_EGID) | SELECTION_BIT(SELECTION_TTY) |
	SELECTION_BIT(SELECTION_CGROUP) | SELECTION_BIT(SELECTION_CPU) |
	SELECTION_BIT(SELECTION_PRIORITY) | SELECTION_BIT(SELECTION_POLICY) |
	SELECTION_BIT(SELECTION_PENDING) | SELECTION_BIT(SELECTION_BLOCKED) |
	SELECTION_BIT(SELECTION_INTERRUPT) | SELECTION_BIT(SELECTION_SYSCALL);

struct site {
	struct site_key key;
	uint64_t runs;
	uint64_t last_run; /* the newest that gave a value */
	struct process_id
		process; /* the newest that gave a value and whose mappings are known; 0: none */
	uint8_t width;
	bool changed; /* since it was written */
	struct hotlist list;
	struct moments moments; /* if the list is of single values */
} __attribute__((aligned(LINE)));

struct queued {
	struct site_value value;
	struct site *site; /* NULL: there is no room for another */
};

struct site_table {
	struct site_table_options options;
	ARRAY(struct site *) parts; /* of PART sites each */
	size_t count;
	struct map ids; /* hash of the key to number + 1; collisions go to the next key */
	struct queued queue[QUEUE_MAX];
	size_t queued;
	uint64_t run; /* this and the next: of site_table_begin() */
	struct process_id process;
	uint64_t seen, kept;
	size_t text_next; /* site to begin with when texts are looked for */
};

void site_table_create(const struct site_table_options *options, struct site_table **ret)
{
	struct site_table *table = mem_zalloc(sizeof(*table));

	table->options = *options;
	*ret = table;
}

static struct site *site_get(const struct site_table *table, size_t number)
{
	return &table->parts.items[number / PART][number % PART];
}

void site_table_destroy(struct site_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++)
		hotlist_deinit(&site_get(table, i)->list);
	array_each(&table->parts, part)
		free(*part);
	array_deinit(&table->parts);
	map_deinit(&table->ids);
	free(table);
}

/* --- Finding ---------------------------------------------------------------------------------- */

static bool is_same(const struct site_key *a, const struct site_key *b)
{
	return a->location.v == b->location.v && a->caller.v == b->caller.v && a->item == b->item &&
	       a->owner == b->owner;
}

static uint64_t key_hash(const struct site_key *key)
{
	return hash64_pair((uint64_t)key->location.v << 32 | key->caller.v,
			   (uint64_t)key->owner << 8 ^ key->item);
}

static int site_new(struct site_table *table, const struct site_key *key, uint64_t seed)
{
	struct hotlist_config config = table->options.list;
	struct site *site;

	if (table->count == table->parts.count * PART)
		*array_push(&table->parts) = mem_zalloc_aligned(PART * sizeof(*site), LINE);
	site = site_get(table, table->count);
	site->key = *key;
	config.words = table->options.selection->items[key->item].term_count;
	config.seed = seed;
	return hotlist_init(&site->list, &config);
}

/* The site's number + 1, or 0: there is no room for another. */
static uint32_t site_search(struct site_table *table, const struct site_key *key)
{
	uint64_t hash = key_hash(key);

	for (uint64_t *id; (id = map_find(&table->ids, hash)); hash++)
		if (is_same(&site_get(table, *id - 1)->key, key))
			return (uint32_t)*id;
	if (table->count >= table->options.max_sites || site_new(table, key, hash))
		return 0;
	*map_at(&table->ids, hash, NULL) = ++table->count;
	return (uint32_t)table->count;
}

static struct site *site_guess(const struct site_table *table, const uint32_t *hint)
{
	return hint && *hint && *hint <= table->count ? site_get(table, *hint - 1) : NULL;
}

static struct site *site_find(struct site_table *table, const struct site_value *value)
{
	struct site *site = site_guess(table, value->hint);
	uint32_t id;

	if (site && is_same(&site->key, &value->key))
		return site;
	id = site_search(table, &value->key);
	if (value->hint)
		*value->hint = id;
	return id ? site_get(table, id - 1) : NULL;
}

/* --- Adding ----------------------------------------------------------------------------------- */

static void site_fetch(const struct site *site)
{
	for (size_t i = 0; i < sizeof(*site); i += LINE)
		__builtin_prefetch((const char *)site + i, 1);
}

/* As a signed number; a single bit is none. */
static int64_t signed_of(uint64_t value, unsigned width)
{
	unsigned shift = 64 - width;

	if (width == 1)
		return (int64_t)(value & 1);
	return (int64_t)(value << shift) >> shift;
}

static void site_put(const struct site_table *table, struct site *site,
		     const struct site_value *value)
{
	if (value->width > site->width)
		site->width = (uint8_t)value->width;
	if (site->last_run == table->run) {
		hotlist_add_grouped(&site->list, value->words);
	} else {
		hotlist_add(&site->list, value->words);
		site->runs++;
	}
	site->last_run = table->run;
	if (table->process.v)
		site->process = table->process;
	site->changed = true;
	if (site->list.words == 1)
		moments_add(&site->moments, signed_of(value->words[0], site->width));
}

void site_table_begin(struct site_table *table, uint64_t run, struct process_id process)
{
	assert(!table->queued);
	table->run = run;
	table->process = process;
}

void site_table_settle(struct site_table *table)
{
	for (size_t i = 0; i < table->queued; i++) {
		struct queued *queued = &table->queue[i];

		queued->site = site_find(table, &queued->value);
		if (queued->site)
			hotlist_fetch(&queued->site->list);
	}
	for (size_t i = 0; i < table->queued; i++) {
		const struct queued *queued = &table->queue[i];

		if (!queued->site)
			continue;
		table->kept++;
		site_put(table, queued->site, &queued->value);
	}
	table->queued = 0;
}

struct site_value *site_table_add(struct site_table *table, const struct site_key *key,
				  uint32_t *hint)
{
	const struct site *site = site_guess(table, hint);
	struct site_value *value;

	if (site)
		site_fetch(site);
	if (table->queued == QUEUE_MAX)
		site_table_settle(table);
	table->seen++;
	value = &table->queue[table->queued++].value;
	value->key = *key;
	value->hint = hint;
	return value;
}

uint64_t site_table_seen(const struct site_table *table)
{
	return table->seen;
}

uint64_t site_table_kept(const struct site_table *table)
{
	return table->kept;
}

/* --- Out -------------------------------------------------------------------------------------- */

static int site_write(struct site *site, uint32_t id, struct store *store)
{
	uint8_t list[HOTLIST_BLOB_MAX];
	struct store_value row = {
		.id.v = id,
		.location = site->key.location,
		.caller = site->key.caller,
		.item.v = site->key.item + 1,
		.owner = site->key.owner,
		.width = site->width,
		.total = site->list.total,
		.runs = site->runs,
		.has_moments = site->list.words == 1,
		.minimum = site->moments.min,
		.maximum = site->moments.max,
		.mean = site->moments.mean,
		.squares = site->moments.squares,
		.list = list,
	};

	row.list_size = hotlist_encode(&site->list, list);
	site->changed = false;
	return store_value_put(store, &row);
}

int site_table_flush(struct site_table *table, struct store *store)
{
	int err = 0;

	for (size_t i = 0; i < table->count && !err; i++) {
		struct site *site = site_get(table, i);

		if (site->changed)
			err = site_write(site, (uint32_t)i + 1, store);
	}
	return err;
}

static bool is_address(const struct site *site, const struct selection_term *term)
{
	if (term->fn.kind != VALUEFN_SELF || plain_sources & SELECTION_BIT(term->source))
		return false;
	return site->list.words > 1 || site->width == 64;
}

static void site_name(const struct site_table *table, const struct site *site, size_t rank,
		      struct pointers *pointers)
{
	const struct selection_item *item = &table->options.selection->items[site->key.item];
	struct hotlist_value value;

	if (rank >= site->list.count)
		return;
	hotlist_get(&site->list, rank, &value);
	if (value.occurrences.best < NAMED_SHARE * (double)site->list.total)
		return;
	for (unsigned i = 0; i < item->term_count; i++) {
		if (!is_address(site, &item->terms[i]))
			continue;
		if (site->key.owner == SITE_OWNER_KERNEL)
			pointers_name_kernel(pointers, value.words[i]);
		pointers_name(pointers, site->process, value.words[i]);
	}
}

void site_table_name(struct site_table *table, struct pointers *pointers)
{
	/* Should there be too many, those at the top of lists have their names. */
	for (size_t rank = 0; rank < NAMED_RANKS; rank++)
		for (size_t i = 0; i < table->count; i++)
			site_name(table, site_get(table, i), rank, pointers);
}

static bool is_argument(const struct selection_item *item)
{
	const struct selection_term *term = &item->terms[0];

	return item->term_count == 1 && term->fn.kind == VALUEFN_SELF &&
	       term->source >= SELECTION_ARG0 && term->source <= SELECTION_ARG5;
}

static void site_texts(const struct site *site, struct pointers *pointers)
{
	struct hotlist_value value;

	for (size_t rank = 0; rank < TEXT_RANKS && rank < site->list.count; rank++) {
		hotlist_get(&site->list, rank, &value);
		if (value.occurrences.best >= TEXT_SHARE * (double)site->list.total)
			pointers_text(pointers, site->process, value.words[0]);
	}
}

void site_table_texts(struct site_table *table, struct pointers *pointers)
{
	size_t done = 0;

	for (size_t i = 0; i < table->count && done < TEXT_SITES; i++) {
		size_t at = table->text_next++ % table->count;
		const struct site *site = site_get(table, at);

		if (!site->changed || !site->process.v || site->key.owner == SITE_OWNER_KERNEL ||
		    !is_argument(&table->options.selection->items[site->key.item]))
			continue;
		site_texts(site, pointers);
		done++;
	}
}
