/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's part of translations that processes share (wire/translations.h): reads what processes
 * have translated, has a process of its own translate what two of them had in common, and gives the
 * result to all.
 *
 *	in	hints, in the memories of processes
 *	out	bundles, in the public memory
 *	owner	the thread that follows processes
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "inject/inject.h"

struct sharing;

struct sharing *sharing_create(struct inject *inject);
/* Ends the translator, if it runs. */
void sharing_destroy(struct sharing *sharing);
DEFINE_AUTO(struct sharing, sharing_destroy)

/*
 * Reads hints, and publishes what a translator has made that has ended. True: a translator was
 * started, and waits to be attached to: sharing_attach().
 */
bool sharing_serve(struct sharing *sharing);
/* Lets it go on to its exec. Gives its pid, or a negative errno: it is given up. */
pid_t sharing_attach(struct sharing *sharing);
/* The engine is put into it where it stands, at PTRACE_EVENT_EXEC. */
void sharing_take(struct sharing *sharing, pid_t pid);
