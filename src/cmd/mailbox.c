// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

struct mailbox {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	int fd; /* eventfd: a request waits */
	const char *closed_text;
	char *request; /* NULL: none, or it was taken */
	char *answer; /* NULL: none yet */
	bool busy; /* with a request, from the question to the answer */
	bool closed;
};

int mailbox_create(const char *closed, struct mailbox **ret)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct mailbox *mailbox;

	if (fd < 0)
		return err_set(-errno, "cannot wait for requests: %s", strerror(errno));
	mailbox = mem_zalloc(sizeof(*mailbox));
	pthread_mutex_init(&mailbox->lock, NULL);
	pthread_cond_init(&mailbox->changed, NULL);
	mailbox->fd = fd;
	mailbox->closed_text = closed;
	*ret = mailbox;
	return 0;
}

void mailbox_destroy(struct mailbox *mailbox)
{
	if (!mailbox)
		return;
	pthread_cond_destroy(&mailbox->changed);
	pthread_mutex_destroy(&mailbox->lock);
	close_fd(&mailbox->fd);
	free(mailbox->request);
	free(mailbox->answer);
	free(mailbox);
}

/* The turn of this thread; false: it is too late. */
static bool turn_take(struct mailbox *mailbox)
{
	while (mailbox->busy && !mailbox->closed)
		pthread_cond_wait(&mailbox->changed, &mailbox->lock);
	if (mailbox->closed)
		return false;
	mailbox->busy = true;
	return true;
}

static char *answer_await(struct mailbox *mailbox)
{
	char *answer;

	while (!mailbox->answer && !mailbox->closed)
		pthread_cond_wait(&mailbox->changed, &mailbox->lock);
	answer = take_ptr(mailbox->answer);
	mailbox->busy = false;
	pthread_cond_broadcast(&mailbox->changed);
	return answer;
}

char *mailbox_ask(void *ctx, const char *request)
{
	struct mailbox *mailbox = ctx;
	char *answer = NULL;

	pthread_mutex_lock(&mailbox->lock);
	if (turn_take(mailbox)) {
		mailbox->request = mem_strdup(request);
		eventfd_write(mailbox->fd, 1);
		answer = answer_await(mailbox);
	}
	pthread_mutex_unlock(&mailbox->lock);
	return answer ? answer : mem_strdup(mailbox->closed_text);
}

int mailbox_fd(const struct mailbox *mailbox)
{
	return mailbox->fd;
}

char *mailbox_take(struct mailbox *mailbox)
{
	eventfd_t requests;
	char *request;

	pthread_mutex_lock(&mailbox->lock);
	eventfd_read(mailbox->fd, &requests);
	request = take_ptr(mailbox->request);
	pthread_mutex_unlock(&mailbox->lock);
	return request;
}

void mailbox_answer(struct mailbox *mailbox, char *text)
{
	pthread_mutex_lock(&mailbox->lock);
	free(mailbox->answer);
	mailbox->answer = text;
	pthread_cond_broadcast(&mailbox->changed);
	pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_close(struct mailbox *mailbox)
{
	pthread_mutex_lock(&mailbox->lock);
	mailbox->closed = true;
	pthread_cond_broadcast(&mailbox->changed);
	pthread_mutex_unlock(&mailbox->lock);
}
