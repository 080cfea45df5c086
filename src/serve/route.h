/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a request to the server asks for. Everything lies below the token, and there are no files:
 *
 *	GET /TOKEN/			the page without data
 *	GET /TOKEN/state		what the page asks again and again: is there something new
 *	GET /TOKEN/data			the data of the page
 *	GET /TOKEN/report/REQUEST	a view as JSON; REQUEST is as in analyse/request.h
 *	POST /TOKEN/start		begins a recording; what it records is in the body
 */
#pragma once

#include <stddef.h>

enum route_kind { ROUTE_PAGE, ROUTE_STATE, ROUTE_DATA, ROUTE_REPORT, ROUTE_START };

enum {
	ROUTE_TARGET_MAX = 8192, /* bytes of a request's target */
	ROUTE_BODY_MAX = 4352, /* bytes of what is posted */
	ROUTE_TOKEN_BYTES = 16,
};

struct route {
	enum route_kind kind;
	const char *request; /* of a report: a part of the target */
};

/*
 * target: as it was received, nothing decoded. Refusals: -E2BIG (too long), -EACCES (the token is
 * wrong or not there), -ENOENT (no such thing), -EOPNOTSUPP (not with this method).
 */
int route_parse(const char *method, const char *target, const char *token, struct route *ret);

/* A new token: 32 hexadecimal digits, and a NUL. */
int route_token_make(char ret[2 * ROUTE_TOKEN_BYTES + 1]);

/*
 * Whether a Host header names the server by a loopback address. Names are refused, because the DNS
 * of an attacker's page could point one to this server (DNS rebinding).
 */
_Bool route_host_is_local(const char *host, const char *address, unsigned port);
