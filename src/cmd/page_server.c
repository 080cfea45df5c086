// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/page_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/err.h"

static int process_start(const char *profile, uint32_t port, int input, pid_t *ret)
{
	extern char **environ;
	char number[16];
	const char *const words[] = { "assay", "serve",	 "--of-recorder", "-i",
				      profile, "--port", number,	  NULL };
	posix_spawn_file_actions_t actions;
	int err;

	snprintf(number, sizeof(number), "%u", port);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	err = posix_spawn(ret, "/proc/self/exe", &actions, NULL, (char *const *)words, environ);
	posix_spawn_file_actions_destroy(&actions);
	return err ? err_set(-err, "the server cannot be started: %s", strerror(err)) : 0;
}

int page_server_start(const char *profile, uint32_t port, struct page_server *ret)
{
	AUTO(close_fd) int input = -1;
	AUTO(close_fd) int life = -1;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC))
		return err_set(-errno, "the server cannot be started: %s", strerror(errno));
	input = ends[0];
	life = ends[1];
	err = process_start(profile, port, input, &ret->pid);
	if (!err)
		ret->life = take_fd(life);
	return err;
}

void page_server_end(struct page_server *server)
{
	close_fd(&server->life);
	while (server->pid && waitpid(server->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*server = PAGE_SERVER_NONE;
}
