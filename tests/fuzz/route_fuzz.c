// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any text as the target of a request to the server, with and without the token before it: what is
 * taken begins with the token, a report's request is the rest of the target and is a request or is
 * refused with a sentence; and any text as a Host header.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/request.h"
#include "base/err.h"
#include "base/mem.h"
#include "serve/route.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void request_try(const char *text)
{
	struct request request;

	if (request_parse(text, &request) == 0)
		request_deinit(&request);
	else
		must(*err_text());
}

static void target_try(const char *method, const char *target)
{
	struct route route;

	if (route_parse(method, target, TOKEN, &route)) {
		must(*err_text());
		return;
	}
	must(!strncmp(target, "/" TOKEN "/", sizeof(TOKEN) + 1));
	must(strlen(target) <= ROUTE_TARGET_MAX);
	must((route.kind == ROUTE_REPORT) == (route.request != NULL));
	if (route.request) {
		must(route.request > target && route.request <= target + strlen(target));
		request_try(route.request);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_strndup((const char *)data, size);
	char *below = mem_printf("/" TOKEN "/%s", text);
	char *report = mem_printf("/" TOKEN "/report/%s", text);

	err_set(-1, "%s", "");
	target_try("GET", text);
	target_try("GET", below);
	target_try("POST", below);
	target_try("GET", report);
	target_try(text, below);
	if (route_host_is_local(text, "127.0.0.1", 80))
		must(!strcmp(text + strlen(text) - 3, ":80"));
	free(text);
	free(below);
	free(report);
	return 0;
}
