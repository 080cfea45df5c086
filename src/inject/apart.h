/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs work that has to be finished once it has begun, even if this process is killed meanwhile. */
#pragma once

/*
 * Calls run(ctx) in a child process and returns its result; the message of err_set() is passed on,
 * too. The child finishes the work even if this process is killed. What run() changes in memory is
 * not seen here.
 */
int apart_run(int (*run)(void *ctx), void *ctx);
