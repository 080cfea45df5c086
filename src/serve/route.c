// SPDX-License-Identifier: BSD-2-Clause
#include "serve/route.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"

/* Compares in constant time, so that the time does not tell how much of the token is right. */
static bool token_is(const char *text, size_t length, const char *token)
{
	unsigned char differ = 0;

	if (length != strlen(token))
		return false;
	for (size_t i = 0; i < length; i++)
		differ |= (unsigned char)(text[i] ^ token[i]);
	return !differ;
}

static int kind_find(const char *rest, struct route *ret)
{
	static const struct {
		const char *path;
		enum route_kind kind;
	} kinds[] = {
		{ "", ROUTE_PAGE },
		{ "state", ROUTE_STATE },
		{ "data", ROUTE_DATA },
		{ "start", ROUTE_START },
	};
	static const char report[] = "report/";

	if (!strncmp(rest, report, sizeof(report) - 1)) {
		*ret = (struct route){ ROUTE_REPORT, rest + sizeof(report) - 1 };
		return 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(rest, kinds[i].path)) {
			*ret = (struct route){ .kind = kinds[i].kind };
			return 0;
		}
	return err_set(-ENOENT, "there is no such thing here");
}

static bool method_fits(const char *method, enum route_kind kind)
{
	if (kind == ROUTE_START)
		return !strcmp(method, "POST");
	return !strcmp(method, "GET") || !strcmp(method, "HEAD");
}

int route_parse(const char *method, const char *target, const char *token, struct route *ret)
{
	struct route route;
	const char *slash;
	int err;

	if (strlen(target) > ROUTE_TARGET_MAX)
		return err_set(-E2BIG, "a request has at most %d bytes", ROUTE_TARGET_MAX);
	slash = *target == '/' ? strchr(target + 1, '/') : NULL;
	if (!slash || !token_is(target + 1, (size_t)(slash - target - 1), token))
		return err_set(-EACCES,
			       "the address must be the one that assay serve printed, with its "
			       "token");
	err = kind_find(slash + 1, &route);
	if (err)
		return err;
	if (!method_fits(method, route.kind))
		return err_set(-EOPNOTSUPP, "this is asked for with %s",
			       route.kind == ROUTE_START ? "POST" : "GET");
	*ret = route;
	return 0;
}

int route_token_make(char ret[2 * ROUTE_TOKEN_BYTES + 1])
{
	uint8_t bytes[ROUTE_TOKEN_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(-errno, "the kernel gives no random numbers: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

bool route_host_is_local(const char *host, const char *address, unsigned port)
{
	const char *const names[] = { "localhost", "127.0.0.1", "[::1]", address };
	char suffix[16];

	snprintf(suffix, sizeof(suffix), ":%u", port);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (!strncmp(host, names[i], length) && !strcmp(host + length, suffix))
			return true;
	}
	return false;
}
