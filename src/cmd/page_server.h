/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The server of a recording: assay serve in a process of its own, at low priority, so that neither
 * its load nor a fault in it affects the recorder.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct page_server {
	pid_t pid; /* 0: none */
	int life; /* end of a pipe: the server ends when it is closed */
};

#define PAGE_SERVER_NONE ((struct page_server){ 0, -1 })

/* It tells its address itself. port 0: any that is free. */
int page_server_start(const char *profile, uint32_t port, struct page_server *ret);
/* The profile is complete: waits until pages that are open have it. */
void page_server_end(struct page_server *server);
