/* SPDX-License-Identifier: BSD-2-Clause */
/* What taking a running process and giving it back share with taking a new one. */
#pragma once

#include "inject/inject.h"
#include "inject/remote.h"

/* Offsets from where the engine is. */
struct inject_places {
	uint64_t attach; /* engine_attach */
	uint64_t code_size; /* the image begins at 0 */
	uint64_t boot;
	uint64_t shared;
	uint64_t size; /* of everything that is mapped */
};

struct inject_places inject_places(const struct inject *inject);
/* The file of the shared memory. */
int inject_memory(const struct inject *inject);
int inject_filters_check(const struct inject *inject, struct remote *remote);
/* The engine is in place, but no thread is in it. */
int inject_install(struct inject *inject, struct remote *remote, uint64_t *ret_address);
void inject_remove(const struct inject *inject, struct remote *remote, uint64_t address);
struct engine_registers inject_registers(const struct user_regs_struct *from);
/* A system call that must not fail; what: for the message. */
int inject_call(struct remote *remote, const char *what, long number, const uint64_t arguments[6],
		uint64_t *ret);
