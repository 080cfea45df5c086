// SPDX-License-Identifier: BSD-2-Clause
// Serves: V18, V17.
/* Texts in memory: what is taken for one, what changed, and whose memory is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/texts.h"

static void quoted_expect(const char *bytes, size_t size, const char *expected)
{
	AUTO(strbuf_deinit) struct strbuf text = {};

	assert_int_equal(texts_quote(bytes, size, &text), expected != NULL);
	assert_string_equal(strbuf_text(&text), expected ? expected : "");
}

#define QUOTED(bytes, expected) quoted_expect(bytes, sizeof(bytes) - 1, expected)

static void texts_are_told_from_bytes(void **state)
{
	QUOTED("user:1001\0\xff", "\"user:1001\"");
	QUOTED("GET\0", "\"GET\"");
	QUOTED("a \"b\"\\\t\r\n\0", "\"a \\\"b\\\"\\\\\\t\\r\\n\"");
	QUOTED("Größe\0", "\"Größe\"");
	QUOTED("as far as it was read", "\"as far as it was read…\"");
	QUOTED("cut in a character: \xe2\x82", "\"cut in a character: …\"");
	QUOTED("ab\0", NULL); /* too short to be sure */
	QUOTED("\0", NULL);
	QUOTED("text\x01\0", NULL);
	QUOTED("text\x1b[2J\0", NULL);
	QUOTED("\x81\x82\x83\x84\0", NULL);
	QUOTED("text\x80 and on\0", NULL);
	QUOTED("\xc2\x9b 31m\0", NULL); /* controls outside of ASCII */
	quoted_expect("", 0, NULL);
}

static char place[64] = "first";

static void texts_that_change_are_none(void **state)
{
	AUTO(texts_destroy_auto) struct texts *texts = NULL;
	uint64_t address = (uintptr_t)place;

	texts_create(&texts);
	assert_null(texts_get(texts, address));
	texts_look(texts, getpid(), address);
	texts_look(texts, getpid(), address);
	assert_string_equal(texts_get(texts, address), "\"first\"");
	memcpy(place, "second", 7);
	texts_look(texts, getpid(), address);
	assert_null(texts_get(texts, address));
	memcpy(place, "first", 6);
	texts_look(texts, getpid(), address);
	assert_null(texts_get(texts, address));
	texts_look(texts, getpid(), 0x1000); /* nothing is there */
	assert_null(texts_get(texts, 0x1000));
}

/* A child that gives itself to another user and waits; the kernel may protect it. */
static void other_user_try(struct texts *texts, const char *secret, int dumpable)
{
	int ready[2], end[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(ready) | pipe(end), 0);
	pid = fork();
	if (pid == 0) {
		close(end[1]);
		if (setuid(65534) == 0 && prctl(PR_SET_DUMPABLE, dumpable) == 0 &&
		    write(ready[1], &byte, 1) == 1)
			byte = read(end[0], &byte, 1) > 0;
		_exit(byte);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	texts_look(texts, pid, (uintptr_t)secret);
	assert_null(texts_get(texts, (uintptr_t)secret));
	close(end[1]);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	close(end[0]);
}

static void other_users_are_not_read(void **state)
{
	AUTO(texts_destroy_auto) struct texts *texts = NULL;
	static const char secret[] = "a secret of somebody else";

	if (getuid() != 0)
		skip();
	texts_create(&texts);
	other_user_try(texts, secret, 1);
	other_user_try(texts, secret, 0);
	/* The same address, of our own. */
	texts_look(texts, getpid(), (uintptr_t)secret);
	assert_string_equal(texts_get(texts, (uintptr_t)secret), "\"a secret of somebody else\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_told_from_bytes),
		cmocka_unit_test(texts_that_change_are_none),
		cmocka_unit_test(other_users_are_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
