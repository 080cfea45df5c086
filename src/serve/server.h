/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server for one person: HTTP on one address, behind a token, in the thread that calls
 * server_run().
 *
 * It answers on a loopback address only, unless remote is set; there a request must also name the
 * server by such an address (route_host_is_local()). Requests, bodies, connections and their time
 * are limited. It knows nothing of profiles: a function of its creator answers requests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "serve/route.h"

struct answer {
	const char *type; /* of the content */
	void *body; /* from malloc; the server frees it */
	size_t size;
	bool gzip; /* the body is compressed */
};

/*
 * body: what was posted, "" otherwise. A failure is answered with its sentence: -EINVAL is the
 * requester's, -ENODATA and -ENOENT: there is nothing to show, -EACCES: it is not allowed, -EBUSY:
 * not now, -EFBIG: the answer would be too long; others are the server's.
 */
typedef int (*server_answer_fn)(void *ctx, const struct route *route, const char *body,
				struct answer *ret);

struct server_options {
	const char *address; /* IPv4 or IPv6, numeric */
	uint16_t port; /* 0: any that is free */
	bool remote; /* the address may be one that others reach */
	server_answer_fn answer;
	void *ctx;
};

struct server;

int server_create(const struct server_options *options, struct server **ret);
void server_destroy(struct server *server);
DEFINE_AUTO(struct server, server_destroy)

/* Where the page is: http://127.0.0.1:34567/TOKEN/ */
const char *server_url(const struct server *server);
/* Readable when server_run() has something to do. */
int server_fd(const struct server *server);
/* When server_run() is wanted although nothing is readable, in ms; -1: never. */
int server_timeout(const struct server *server);
int server_run(struct server *server);
