/* SPDX-License-Identifier: BSD-2-Clause */
/* Work that has to be finished once it was begun, whatever happens to this process meanwhile. */
#pragma once

/*
 * Calls run(ctx) in a process of its own, and gives what it gives, its error with it. Somebody who
 * kills this process does not kill that one: it goes on to the end. What run() changes in memory is
 * not seen here.
 */
int apart_run(int (*run)(void *ctx), void *ctx);
