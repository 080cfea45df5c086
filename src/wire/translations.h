/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Translations that processes share, and how they are made.
 *
 *	hints		An engine that has translated code of a file notes where, in the memory that
 *			it shares with the host (struct translation_hints). The host reads them.
 *	exchange	Code that two processes have translated is worth sharing. The host starts a
 *			process of its own, the translator, with the engine in it, that runs none of
 *			its program's code: it maps the files, translates what it is told to, and
 *			writes the results into memory that only both have (struct
 *			translation_exchange).
 *	translations	The host copies these results into memory that all processes can read and
 *			only the host can write (struct translations). An engine that has to
 *			translate looks there first.
 *
 * So no process executes anything that another one has written: of what processes say, only
 * addresses get through. And it compares what the translation was made of with its own memory.
 *
 * A bundle holds the translations of fragments that were reached one after the other, in the order
 * in which they lie in it. Program addresses in it are relative to `base`, addresses of code to the
 * start of its code.
 */
#pragma once

#include "wire/stream.h"

enum {
	TRANSLATION_HINTS = 64 << 10, /* where a process's memory has its hints */
	TRANSLATION_HINTS_END = ENGINE_SHARED_SIZE - 4096,
	TRANSLATION_MODULES = 128,
	TRANSLATION_PATH = 480,
	TRANSLATION_SLOTS = 1 << 18,
	TRANSLATION_PROBES = 16, /* slots that are looked at for a key */
	TRANSLATION_ALIGNMENT =
		64, /* of a bundle, and of its code: no patched word is in two lines */
	/* Of a bundle, so that an arena with room for any fragment has room for it. */
	TRANSLATION_CODE = 16 << 10,
	TRANSLATION_FRAGMENTS = 32,
	TRANSLATION_EXITS = 112,
	TRANSLATION_BLOCKS = 80,
	TRANSLATION_RANGES = 1024,
	TRANSLATION_WORDS = 2048,
	TRANSLATION_OFFSETS = 1 << 15, /* of one exchange */
	TRANSLATION_RESULTS = 24 << 20,
};

struct translation_file {
	wire_u64 inode;
	wire_u32 device_major, device_minor;
};

struct translation_module {
	struct translation_file file;
	char path[TRANSLATION_PATH]; /* as the process knows it */
};

/* Each hint is the number of a module << 48 | an offset in its file. */
struct translation_hints {
	wire_u32 count; /* stored after the hint */
	wire_u32 module_count; /* stored after the module */
	wire_u64 reserved[3];
	struct translation_module modules[TRANSLATION_MODULES];
	wire_u64 hints[];
};

enum {
	TRANSLATION_HINT_SHIFT = 48,
	TRANSLATION_HINTS_MAX = (TRANSLATION_HINTS_END - TRANSLATION_HINTS -
				 (int)sizeof(struct translation_hints)) /
				8,
};

struct translation_exchange {
	wire_u32 done; /* stored last */
	wire_u32 module_count;
	wire_u32 offset_count;
	wire_u32 reserved;
	wire_u64 used; /* of results */
	struct {
		struct translation_module module;
		wire_u64 size;
		int fd; /* of the translator; -1: the file is not there, or not to be shared */
		wire_u32 reserved;
	} modules[TRANSLATION_MODULES];
	wire_u64 offsets[TRANSLATION_OFFSETS]; /* like hints */
	_Alignas(TRANSLATION_ALIGNMENT) unsigned char results[TRANSLATION_RESULTS];
};

/*
 * A key of 0 ends a row of slots; `at` is stored before the key. Code of one page has its slots
 * beside each other, so that a process touches few pages of the index.
 */
struct translations {
	wire_u64 count; /* of bundles; stored after them */
	wire_u64 reserved[7];
	struct translation_slot {
		wire_u64 key;
		wire_u64 at; /* of the bundle, from the start of this structure */
	} slots[TRANSLATION_SLOTS];
};

static inline wire_u64 translation_mix(const struct translation_file *file, wire_u64 number)
{
	wire_u64 key = file->inode * 0x9e3779b97f4a7c15 + file->device_minor +
		       ((wire_u64)file->device_major << 32);

	key = (key ^ key >> 29) + number;
	key *= 0xbf58476d1ce4e5b9;
	return key ^ key >> 32;
}

static inline wire_u64 translation_key(const struct translation_file *file, wire_u64 offset)
{
	wire_u64 key = translation_mix(file, offset);

	return key ? key : 1;
}

static inline wire_u32 translation_slot_index(const struct translation_file *file, wire_u64 offset,
					      unsigned probe)
{
	enum { PAGE_BITS = 12, PAGE_SLOTS = 128, SLOT_BITS = 5 };
	wire_u64 page = translation_mix(file, ~(offset >> PAGE_BITS)) * PAGE_SLOTS;

	return (wire_u32)(page + (offset >> SLOT_BITS) % PAGE_SLOTS + probe) &
	       (TRANSLATION_SLOTS - 1);
}

struct translation_bundle {
	wire_u32 size; /* with everything, a multiple of TRANSLATION_ALIGNMENT */
	wire_u32 code_size;
	wire_u32 fragment_count, exit_count, block_count, range_count, word_count;
	wire_u32 segment_count; /* numbers of segments that it has; from first_segment on */
	wire_u32 first_segment;
	wire_u32 reserved;
	struct translation_file file;
	wire_u64 base; /* offset in the file */
	wire_u64 span; /* of the ranges, from there */
	wire_u64 hash; /* of the ranges */
	wire_u64 shift; /* address of the code less that of base, where it was made */
};

/* Behind the bundle, in this order; then the code, aligned to 16 bytes. */
struct translation_fragment {
	wire_u32 pc; /* program */
	wire_u32 start, indirect, entry, body, end; /* code */
	wire_u32 first_segment; /* 0: it has none */
	wire_u16 block_count, exit_count;
	wire_u64 flags_dead, scratch[4];
};

struct translation_exit {
	int target; /* program; may be below base */
	wire_u32 patch, stub; /* code; patch 0: none */
	wire_u32 segment;
	wire_u32 to; /* fragment of the bundle at its target; TRANSLATION_NONE */
	wire_u16 kind, length;
};

enum { TRANSLATION_NONE = 0xffffffff };

struct translation_block {
	wire_u32 pc; /* program */
	wire_u32 length;
	wire_u16 instructions, leads;
};

/* Bytes of the program that the translation depends on. */
struct translation_range {
	wire_u32 pc, length;
};

/* What in the code depends on where it lies, or on the process. */
enum translation_word_kind {
	TRANSLATION_DISTANCE, /* 32 bits: from code to the program */
	TRANSLATION_ADDRESS, /* 64 bits: in the program */
	TRANSLATION_NUMBER, /* 32 bits: of an exit, that of the bundle's exit */
	TRANSLATION_SEGMENT, /* 32 bits: of a segment */
	TRANSLATION_COUNTER, /* 32 bits: eight for each segment */
};

struct translation_word {
	wire_u32 at; /* code */
	wire_u32 kind; /* enum translation_word_kind */
};

static inline wire_u64 translation_parts(const struct translation_bundle *bundle)
{
	wire_u64 size = sizeof(*bundle) +
			bundle->fragment_count * sizeof(struct translation_fragment) +
			bundle->exit_count * sizeof(struct translation_exit) +
			bundle->block_count * sizeof(struct translation_block) +
			bundle->range_count * sizeof(struct translation_range) +
			bundle->word_count * sizeof(struct translation_word);

	return (size + 15) & ~15ull;
}

/* Of the bytes of all ranges, piece by piece: begins with 0. */
static inline wire_u64 translation_hash(wire_u64 hash, const unsigned char *bytes, wire_u64 size)
{
	wire_u64 word;

	hash ^= size * 0x9e3779b97f4a7c15;
	for (; size >= 8; size -= 8, bytes += 8) {
		__builtin_memcpy(&word, bytes, 8);
		hash = (hash ^ word) * 0x9fb21c651e98df25;
		hash ^= hash >> 29;
	}
	for (word = 0; size; size--)
		word = word << 8 | bytes[size - 1];
	hash = (hash ^ word) * 0x9fb21c651e98df25;
	return hash ^ hash >> 32;
}

_Static_assert(sizeof(struct translation_fragment) == 72, "shared by worlds");
_Static_assert(sizeof(struct translation_bundle) == 96 - 8, "shared by worlds");
_Static_assert(sizeof(struct translations) <= STREAM_TRANSLATIONS_BYTES / 2,
	       "and room for bundles");
