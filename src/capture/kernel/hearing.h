/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libbpf says while programs are loaded, the verifier's log among it: each line is logged,
 * which -v shows, and all of it is kept for refusal_read() of parts.h. One at a time: libbpf's
 * printer has no argument of its own.
 */
#pragma once

/* From now on, and from the beginning. */
void hearing_begin(void);
/* Forgets what was said up to now: another attempt begins. */
void hearing_again(void);
/* What was said; valid until libbpf says more. */
const char *hearing_text(void);
/* libbpf speaks to whom it spoke before. */
void hearing_end(void);
