/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Collects libbpf's messages while programs are loaded, including the verifier's log: each line is
 * logged, which -v shows, and all of it is kept for refusal_read() of parts.h. One at a time:
 * libbpf's printer has no argument of its own.
 */
#pragma once

/* Begins to collect libbpf's messages, with none so far. */
void verifier_log_begin(void);
/* Forgets what was said up to now: another attempt begins. */
void verifier_log_again(void);
/* The messages so far; valid until libbpf prints the next one. */
const char *verifier_log_text(void);
/* Restores libbpf's former printer. */
void verifier_log_end(void);
