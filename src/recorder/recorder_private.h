/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the recorder share: recorder.c has its life and its rounds, recorder_commit.c
 * what is written at a commit, recorder_finish.c the end of a recording.
 */
#pragma once

#include "base/array.h"
#include "recorder/recorder.h"

struct recorder {
	struct recorder_options options;
	char *command; /* as it goes into the profile */
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct module_cache modules;
	ARRAY(struct source) sources;
	ARRAY(struct sink) sinks;
	bool has_paced, has_unpaced; /* sources; see struct source */
	int epoll; /* has the sources' fds and the next one */
	int woken; /* eventfd: recorder_wake() was called */
	uint64_t created, started; /* CLOCK_MONOTONIC; started: 0 before recorder_start() */
	uint64_t due; /* when paced sources are visited next */
	unsigned pause_ms; /* from one visit of paced sources to the next */
	uint64_t commit_due;
	uint64_t commits;
	void (*watch)(void *ctx); /* called after each commit; NULL: none */
	void *watch_ctx;
	bool kept; /* what was committed stays there without recorder_finish() */
	bool last; /* recording has ended: nothing is left for later */
	int err; /* the first failure; 0: none */
	char *err_sentence; /* the text of that failure; another thread may ask for it */
};

/* Keeps the first failure. Returns it, with its sentence, also when err is 0. */
int recorder_fail(struct recorder *recorder, int err);

/* Writes everything that is known by now in one transaction. */
int recorder_commit(struct recorder *recorder);
/* The words of a command with blanks between them; the caller's to free. */
char *recorder_command_text(char *const *command);
/* Makes the row of a recording, with the facts that every recording has. */
int recorder_recording_begin(struct recorder *recorder, enum recording_kind kind);
