/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rounds of a recorder in a thread of their own, for a caller that waits for something else, such
 * as the processes that it traces. The thread has no signals. The recorder, with its store, its
 * load map and its sinks, belongs to the thread from the start to the stop, and to the caller
 * before and after.
 */
#pragma once

#include "recorder/recorder.h"

struct recorder_thread;

/* The recorder has been started, and must outlive the thread. */
int recorder_thread_start(struct recorder *recorder, struct recorder_thread **ret);
/* Ends the thread; recorder_finish() returns its first failure. NULL is allowed. */
void recorder_thread_stop(struct recorder_thread *thread);
DEFINE_AUTO(struct recorder_thread, recorder_thread_stop)
