/* SPDX-License-Identifier: BSD-2-Clause */
/* What attach.c, detach.c and follow.c use of inject.c and install.c. */
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

struct inject_mapping {
	uint64_t start, end, inode;
};

struct inject_places inject_places(const struct inject *inject);
/* The process that serves the engines. */
pid_t inject_host(const struct inject *inject);
/* The file that every process with this engine has mapped. */
int inject_public_file(const struct inject *inject);
/*
 * Where a process has a file of this name and inode (0: any) mapped from its beginning; false:
 * nowhere.
 */
bool inject_mapping_find(pid_t pid, const char *name, uint64_t inode, struct inject_mapping *ret);
/* Whether processes share translations (sharing.h). */
bool inject_shares(const struct inject *inject);
/* A child that was just forked gets memory of its own, through a socket of its own. */
int inject_fork(struct inject *inject, pid_t pid, int socket);
/* Unmaps memories that neither we nor a process need. */
void inject_memories_collect(struct inject *inject);
/* Tells all engines that the host serves no more requests. */
void inject_close(struct inject *inject);
int inject_filters_check(const struct inject *inject, struct remote *remote);
int inject_room_check(const struct inject *inject, struct remote *remote);
/* The engine is in place, but no thread is in it. */
int inject_install(struct inject *inject, struct remote *remote, uint64_t *ret_address);
void inject_remove(const struct inject *inject, struct remote *remote, uint64_t address);
struct engine_registers inject_registers(const struct user_regs_struct *from);
/* A system call that must not fail; what: for the message. */
int inject_call(struct remote *remote, const char *what, long number, const uint64_t arguments[6],
		uint64_t *ret);
