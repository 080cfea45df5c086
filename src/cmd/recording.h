/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recording of `assay trace`, for tools that record: a recorder with engines as its source, in
 * a thread of its own, because the command's thread follows the traced processes.
 *
 *	recording_create()	the profile, if there is to be one, can be written
 *	recording_start()	once the command runs
 *	recording_finish()	when it has ended
 */
#pragma once

#include "inject/inject.h"
#include "recorder/engine/engine_recording.h"

struct recording_request {
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	const char *output; /* the profile */
	const char *raw; /* see recorder/engine/raw.h; NULL: none */
	char *const *command;
	struct paths_options paths; /* of the tool paths */
	struct marks *marks; /* of the tool marks; NULL: none */
	struct marks_live *live; /* for reading them meanwhile; NULL: they are not read */
};

struct recording;

/* *ret is NULL if the tool records nothing; the functions below take that. */
int recording_create(const struct recording_request *request, struct inject *inject,
		     struct recording **ret);
/* Without recording_start() the profile is removed, and what was there before is back. */
void recording_destroy(struct recording *recording);
DEFINE_AUTO(struct recording, recording_destroy)
int recording_start(struct recording *recording);
/* Completes the profile, and says what has become of it. Of NULL, *ret is left alone. */
int recording_finish(const struct recording_request *request, struct recording *recording,
		     struct engine_recording_result *ret);
