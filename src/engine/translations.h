/* SPDX-License-Identifier: BSD-2-Clause */
/* Translations that processes share: what engines do about them (translations.c, translator.c). */
#pragma once

#include "engine/build.h"
#include "wire/translations.h"

/* A file of the program's was mapped to be executed. */
void translations_module(const struct region *region, const char *path);
/* In the child of a fork, which has hints of its own. */
void translations_forked(void);
/* The fragment was made here: another process may need it, too. */
void translations_hint(const struct fragment *fragment);
/* The fragment that begins at pc, with others of its bundle; NULL: it is not shared. */
struct fragment *translations_take(uint64_t pc);
/* translation_hash() of the program's bytes; of fewer, if not all can be read. */
uint64_t translations_hash(uint64_t hash, uint64_t pc, uint64_t length);

/* --- translator.c ------------------------------------------------------------------------- */
extern bool translator_runs;
/* Makes what the host asks for, and ends the process. */
_Noreturn void translator_run(struct thread *thread);
/* While a fragment is made: what in it depends on addresses or numbers. */
void translator_word(const struct build *build, const uint8_t *place,
		     enum translation_word_kind kind);
/* The fragment depends on these bytes as well. */
void translator_range(uint64_t pc, uint32_t length);
/* The fragment depends on something that cannot be said. */
void translator_refuse(void);
