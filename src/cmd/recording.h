/* SPDX-License-Identifier: BSD-2-Clause */
/* What assay trace does for tools that record. */
#pragma once

#include "inject/inject.h"
#include "trace/session.h"

struct recording_request {
	enum engine_tool tool;
	const char *output; /* the profile */
	const char *raw; /* see trace/raw.h; NULL: none */
	char *const *command;
	struct paths_options paths; /* of the tool paths */
};

/* *ret is NULL if the tool records nothing. */
int recording_create(const struct recording_request *request, struct inject *inject,
		     struct session **ret);
/* Says what has become of it. session may be NULL. */
int recording_finish(const struct recording_request *request, struct session *session);
