/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command that is profiled: started, held before exec until everything is ready, then let go.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct command;

/* Forks; the child waits. argv[0] is searched in PATH. */
int command_start(char *const *argv, struct command **ret);
/* Lets go of the resources, not of the process: a child that still waits ends by itself. */
void command_destroy(struct command *command);
DEFINE_AUTO(struct command, command_destroy)

pid_t command_pid(const struct command *command);
/* The file that will be executed, opened to be read; -1: it cannot be. */
int command_open(const struct command *command);
/* Lets the child exec. Fails, with exec's own reason, when it cannot. */
int command_release(struct command *command);
/* Readable when the child has ended; for epoll. */
int command_fd(const struct command *command);
/* Whether it has ended; then its code: exit status, or 128 + signal. */
bool command_ended(struct command *command, int *ret_code);
void command_signal(struct command *command, int signal);
