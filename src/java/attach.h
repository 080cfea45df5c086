/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks a Java virtual machine that runs to load an agent, as its own tools do. */
#pragma once

#include <sys/types.h>

/* Fails if the process is none, does not answer, or if the agent refuses. */
int java_attach(pid_t pid, const char *agent, const char *options);
