// SPDX-License-Identifier: BSD-2-Clause
#include <assert.h>
#include <string.h>

#include "support/profile_fixture.h"
#include "values/hotlist.h"
#include "values/valuefn.h"

/*
 *	1300	push rbx
 *	1301	mov ecx, [rdi+0x8]
 *	1304	shl ecx, 0x4
 *	1307	add ecx, 0x10
 *	130a	cmp esi, 0x3
 *	130d	jnz 0x1326
 *	130f	movsd xmm0, [rdx]
 *	1313	nop
 *	1314	movzx eax, [rdi]
 *	1317	mov [rdi+0xc], eax
 *	131a	lea rbx, [rip+0x100]
 *	1321	xor r8d, r8d
 *	1324	call rbx
 *	1326	test eax, eax
 *	1328	pop rbx
 *	1329	ret
 */
const uint8_t fixture_poly[FIXTURE_POLY_SIZE] = {
	0x53, 0x8b, 0x4f, 0x08, 0xc1, 0xe1, 0x04, 0x83, 0xc1, 0x10, 0x83, 0xfe, 0x03, 0x75,
	0x17, 0xf2, 0x0f, 0x10, 0x02, 0x90, 0x0f, 0xb6, 0x07, 0x89, 0x47, 0x0c, 0x48, 0x8d,
	0x1d, 0x00, 0x01, 0x00, 0x00, 0x45, 0x31, 0xc0, 0xff, 0xd3, 0x85, 0xc0, 0x5b, 0xc3,
};

enum item {
	RESULT = 1,
	STORED,
	LOADED,
	TAKEN,
	TARGET,
	ARG0,
	ARG1,
	ARG2,
	ARG3,
	LOG2,
	PAIR,
	ODD,
	ITEM_COUNT
};

static const struct profile_value_item items[] = {
	[RESULT] = { .text = "result", .class = "instruction", .words = 1 },
	[STORED] = { .text = "stored", .class = "instruction", .words = 1 },
	[LOADED] = { .text = "loaded", .class = "instruction", .words = 1 },
	[TAKEN] = { .text = "taken", .class = "instruction", .words = 1 },
	[TARGET] = { .text = "target", .class = "instruction", .words = 1 },
	[ARG0] = { .text = "arg0@caller", .class = "entry", .words = 1 },
	[ARG1] = { .text = "arg1@caller", .class = "entry", .words = 1 },
	[ARG2] = { .text = "arg2@caller", .class = "entry", .words = 1 },
	[ARG3] = { .text = "arg3@caller", .class = "entry", .words = 1 },
	[LOG2] = { .text = "log2(result)", .class = "instruction", .words = 1 },
	[PAIR] = { .text = "caller+arg1", .class = "entry", .words = 2 },
	[ODD] = { .text = "what \x1b[31m is this", .class = "instruction", .words = 1 },
};

enum place {
	POLY,
	POLY_MOV,
	POLY_SHL,
	POLY_ADD,
	POLY_CMP,
	POLY_JNZ,
	POLY_MOVSD,
	POLY_MOVZX,
	POLY_STORE,
	POLY_LEA,
	POLY_XOR,
	POLY_CALL,
	POLY_TEST,
	PARSE,
	SYSCALL,
	CALL_A, /* of poly, in main */
	CALL_B,
	PLACE_COUNT
};

static const struct {
	uint64_t address;
	uint32_t line;
} places[] = {
	[POLY] = { 0x1300, 30 },
	[POLY_MOV] = { 0x1301, 31 },
	[POLY_SHL] = { 0x1304, 31 },
	[POLY_ADD] = { 0x1307, 31 },
	[POLY_CMP] = { 0x130a, 32 },
	[POLY_JNZ] = { 0x130d, 32 },
	[POLY_MOVSD] = { 0x130f, 33 },
	[POLY_MOVZX] = { 0x1314, 34 },
	[POLY_STORE] = { 0x1317, 34 },
	[POLY_LEA] = { 0x131a, 35 },
	[POLY_XOR] = { 0x1321, 35 },
	[POLY_CALL] = { 0x1324, 35 },
	[POLY_TEST] = { 0x1326, 36 },
	[PARSE] = { 0x1200, 19 },
	[SYSCALL] = { 0xffffffff81000020, 0 },
	[CALL_A] = { 0x1044, 16 },
	[CALL_B] = { 0x104c, 17 },
};

enum { ROOT = 0, USER = 1000, KERNEL = -1, TALLIES = 4 };

#define HALF UINT64_C(0x3fe0000000000000) /* 0.5 */
#define STACK UINT64_C(0x7ffe00001000)
#define HEAP UINT64_C(0x555555570010)
#define TABLE UINT64_C(0x555555556010)
#define FIB UINT64_C(0x555555555100)

/* Which values came how often; runs is how many runs they came from. */
static const struct {
	enum place place, caller; /* caller POLY: none */
	enum item item;
	int64_t owner;
	unsigned width;
	uint64_t runs;
	struct {
		uint64_t value;
		unsigned count;
	} tallies[TALLIES];
} sites[] = {
	{ POLY_MOV, 0, RESULT, USER, 32, 500, { { 7, 387 }, { 2, 334 }, { 0x20002, 279 } } },
	{ POLY_SHL, 0, RESULT, USER, 32, 500, { { 0x20, 990 }, { 0x70, 10 } } },
	{ POLY_SHL, 0, LOG2, USER, 8, 500, { { 6, 990 }, { 7, 10 } } },
	{ POLY_ADD, 0, RESULT, USER, 32, 500, { { 0x30, 990 }, { 0x80, 10 } } },
	{ POLY_CMP, 0, RESULT, USER, 32, 475, { { 3, 900 }, { 5, 50 } } },
	{ POLY_CMP, 0, RESULT, ROOT, 32, 25, { { 3, 50 } } },
	{ POLY_JNZ, 0, TAKEN, USER, 1, 500, { { 0, 960 }, { 1, 40 } } },
	{ POLY_MOVSD, 0, LOADED, USER, 64, 480, { { HALF, 600 }, { HALF + (HALF >> 10), 360 } } },
	{ POLY_MOVZX, 0, RESULT, USER, 32, 480, { { 65, 480 }, { 10, 480 } } },
	{ POLY_MOVZX, 0, LOADED, USER, 8, 480, { { 65, 480 }, { 10, 480 } } },
	{ POLY_STORE, 0, STORED, USER, 32, 480, { { 0xffffffff, 720 }, { 65, 240 } } },
	{ POLY_LEA, 0, RESULT, USER, 64, 480, { { TABLE, 960 } } },
	{ POLY_XOR, 0, RESULT, USER, 32, 480, { { 0, 960 } } },
	{ POLY_CALL, 0, TARGET, USER, 64, 480, { { FIB, 900 }, { TABLE, 60 } } },
	{ POLY_TEST, 0, RESULT, USER, 32, 3, { { 0, 3 } } },
	{ POLY_TEST, 0, ODD, USER, 32, 3, { { 77, 3 } } },
	{ POLY, CALL_A, ARG0, USER, 64, 200, { { STACK, 180 }, { HEAP, 20 } } },
	{ POLY, CALL_B, ARG0, USER, 64, 100, { { HEAP, 100 } } },
	{ POLY, CALL_A, ARG1, USER, 64, 200, { { 3, 200 } } },
	{ POLY, CALL_B, ARG1, USER, 64, 100, { { 5, 75 }, { UINT64_C(0xfffffffd), 25 } } },
	{ POLY, CALL_A, ARG2, USER, 64, 200, { { 0, 150 }, { TABLE, 50 } } },
	{ POLY, CALL_A, ARG3, USER, 64, 200, { { 0, 200 } } },
	{ PARSE, 0, ARG0, USER, 64, 100, { { 1, 60 }, { 2, 40 } } },
	{ PARSE, 0, ARG2, USER, 64, 100, { { 9, 100 } } },
	{ SYSCALL, 0, ARG0, KERNEL, 64, 3, { { 1, 3 } } },
	{ SYSCALL, 0, RESULT, KERNEL, 64, 75, { { UINT64_MAX - 10, 50 }, { 0, 25 } } },
};

enum { SITE_COUNT = sizeof(sites) / sizeof(sites[0]) };

static void list_write(struct fixture *f, const struct profile_value *row, struct hotlist *list)
{
	static uint8_t blob[HOTLIST_BLOB_MAX];
	size_t size = hotlist_encode(list, blob);

	fixture_value(f, row, blob, size);
	hotlist_deinit(list);
}

static struct profile_value site_row(const uint32_t *locations, size_t site)
{
	return (struct profile_value){
		.location = locations[sites[site].place],
		.caller = sites[site].caller ? locations[sites[site].caller] : 0,
		.item = sites[site].item,
		.owner = sites[site].owner,
		.width = sites[site].width,
		.runs = sites[site].runs,
	};
}

static void site_add(struct fixture *f, const uint32_t *locations, size_t site)
{
	struct profile_value row = site_row(locations, site);
	struct moments moments = {};
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .seed = site });
	for (size_t i = 0; i < TALLIES; i++)
		for (unsigned j = 0; j < sites[site].tallies[i].count; j++) {
			uint64_t value = sites[site].tallies[i].value;

			hotlist_add(&list, &value);
			moments_add(&moments,
				    sites[site].width == 32 ? (int32_t)value : (int64_t)value);
		}
	row.has_moments = true;
	row.minimum = moments.min;
	row.maximum = moments.max;
	row.mean = moments.mean;
	row.squares = moments.squares;
	row.total = list.total;
	list_write(f, &row, &list);
}

/* 150 times (CALL_A, 3), 50 times (CALL_B, 5). */
static void pair_add(struct fixture *f, const uint32_t *locations)
{
	struct profile_value row = { .location = locations[POLY],
				     .item = PAIR,
				     .owner = USER,
				     .width = 64,
				     .total = 200,
				     .runs = 200 };
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .words = 2 });
	for (unsigned i = 0; i < 200; i++)
		hotlist_add(&list,
			    i % 4 ? (uint64_t[]){ FIB - 0xbb, 3 } : (uint64_t[]){ FIB - 0xb3, 5 });
	list_write(f, &row, &list);
}

/* As in a register that holds whatever the caller left there: 64 different values once each. */
static void noise_add(struct fixture *f, const uint32_t *locations)
{
	struct profile_value row = { .location = locations[PARSE],
				     .item = ARG3,
				     .owner = USER,
				     .width = 64,
				     .total = 64,
				     .runs = 64 };
	struct hotlist list;

	hotlist_init(&list, &(struct hotlist_config){ .seed = 1 });
	for (uint64_t i = 0; i < 64; i++)
		hotlist_add(&list, &i);
	list_write(f, &row, &list);
}

static uint32_t symbol_find(const struct fixture *f, const char *name)
{
	for (uint32_t i = 1; i < f->symbols.count; i++)
		if (!strcmp(f->symbols.items[i].name, name))
			return i;
	assert(!"a symbol of the demonstration");
	return 0;
}

static void locations_add(struct fixture *f, uint32_t poly, uint32_t *locations)
{
	for (size_t i = 0; i < PLACE_COUNT; i++) {
		uint32_t symbol = i < PARSE	 ? poly
				  : i == PARSE	 ? symbol_find(f, "parse")
				  : i == SYSCALL ? symbol_find(f, "do_syscall")
						 : symbol_find(f, "main");

		locations[i] =
			fixture_location(f, f->symbols.items[symbol].module, places[i].address);
		fixture_frame(f, symbol, places[i].line ? 1 : 0, places[i].line);
	}
}

/* main@1044:16 poly@1304:31 70, main@1044:16 poly@1326:36 10, main@104c:17 poly@1307:31 20 */
static void samples_add(struct fixture *f, const uint32_t *locations)
{
	uint32_t from_a = fixture_stack(f, 0, locations[CALL_A]);
	uint32_t from_b = fixture_stack(f, 0, locations[CALL_B]);

	fixture_sample(f, 1, fixture_stack(f, from_a, locations[POLY_SHL]), 70, 0);
	fixture_sample(f, 1, fixture_stack(f, from_a, locations[POLY_TEST]), 10, 0);
	fixture_sample(f, 1, fixture_stack(f, from_b, locations[POLY_ADD]), 20, 0);
}

static void parameters_add(struct fixture *f, uint32_t poly)
{
	*array_push(&f->parameters) =
		(struct profile_parameter){ poly, 0, "form", "struct form *", "pointer", 8 };
	*array_push(&f->parameters) =
		(struct profile_parameter){ poly, 1, "degree", "int", "signed", 4 };
	*array_push(&f->parameters) =
		(struct profile_parameter){ poly, 2, "factors", "const double *", "pointer", 8 };
}

static void names_add(struct fixture *f, uint32_t table, uint32_t fib)
{
	*array_push(&f->value_names) = (struct profile_value_name){ FIB, fib, "" };
	*array_push(&f->value_names) = (struct profile_value_name){ TABLE, table, "" };
	*array_push(&f->value_names) = (struct profile_value_name){ HEAP, 0, "[heap]" };
	*array_push(&f->value_names) = (struct profile_value_name){ STACK, 0, "[stack]" };
}

static void totals_add(struct fixture *f)
{
	static const struct profile_run_end ends[] = {
		{ 2, "length", "", "reached the run length", 950 },
		{ 2, "unsupported", "cpuid", "instruction is not interpreted", 90 },
		{ 2, "system", "syscall", "enters or leaves the kernel", 60 },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		*array_push(&f->run_ends) = ends[i];
	*array_push(&f->run_places) =
		(struct profile_run_place){ 2, f->values.items[0].location, "unsupported", 90 };
	*array_push(&f->run_places) =
		(struct profile_run_place){ 2, f->values.items[0].location, "system", 2 };
	*array_push(&f->run_losses) =
		(struct profile_named_count){ "block_missing", "code not translated yet", 80 };
	*array_push(&f->run_losses) =
		(struct profile_named_count){ "ring_full", "ring to the recorder was full", 20 };
	fixture_fact(f, RECORDING_VALUES, "values", "default");
	fixture_recording(f, RECORDING_VALUES)->seen = 1200;
	fixture_recording(f, RECORDING_VALUES)->kept = 1100;
	fixture_metric(f, RECORDING_VALUES, "steps", 9000);
	fixture_metric(f, RECORDING_VALUES, "values_seen", 20000);
	fixture_metric(f, RECORDING_VALUES, "values_kept", 19000);
}

const struct profile *fixture_values(struct fixture *f)
{
	uint32_t locations[PLACE_COUNT], poly, table, fib;

	fixture_demo(f);
	poly = fixture_symbol(f, 1, "poly", 0x1300, FIXTURE_POLY_SIZE);
	locations_add(f, poly, locations);
	table = fixture_location(f, 1, 0x4010);
	fixture_frame(f, fixture_symbol(f, 1, "table", 0x4000, 0x100), 0, 0);
	fib = fixture_location(f, 1, 0x1100);
	fixture_frame(f, symbol_find(f, "fib"), 0, 0);
	samples_add(f, locations);
	for (size_t i = 1; i < ITEM_COUNT; i++)
		fixture_item(f, items[i].text, items[i].class, items[i].words);
	for (size_t i = 0; i < SITE_COUNT; i++)
		site_add(f, locations, i);
	pair_add(f, locations);
	noise_add(f, locations);
	names_add(f, table, fib);
	parameters_add(f, poly);
	totals_add(f);
	return fixture_finish(f);
}

/*
 * A value of each kind of damage; the list of the shift's result is the one that is no list at all.
 */
const struct profile *fixture_corrupt(struct fixture *f)
{
	static const uint8_t junk[] = { [0 ... 9] = 0xff };
	struct profile_value *two_words = NULL;

	fixture_values(f);
	array_each(&f->values, value) {
		if (value->item == PAIR)
			two_words = value;
		if (value->item == RESULT && value->owner == ROOT)
			value->list_size = 3;
		if (value->item == STORED)
			value->list_size = 0;
		if (value->item == RESULT &&
		    f->locations.items[value->location].address == places[POLY_SHL].address) {
			value->list = junk;
			value->list_size = sizeof(junk);
		}
	}
	array_each(&f->values, value)
		if (value->item == TARGET) {
			value->list = two_words->list;
			value->list_size = two_words->list_size;
		}
	return fixture_finish(f);
}
