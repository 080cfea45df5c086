// SPDX-License-Identifier: BSD-2-Clause
/* Threads, locks, once, keys, cancellation, signals to threads. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int turn, total;

static void key_make(void)
{
	pthread_key_create(&key, free);
}

static void *work(void *argument)
{
	int mine = (int)(long)argument;

	pthread_once(&once, key_make);
	pthread_setspecific(key, malloc(16));
	for (int round = 0; round < 20; round++) {
		pthread_mutex_lock(&lock);
		while (turn % 4 != mine)
			pthread_cond_wait(&changed, &lock);
		total = total * 31 % 65537 + mine;
		turn++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return argument;
}

static void *forever(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(void)
{
	pthread_t threads[4], cancelled;
	void *result;

	for (long i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	pthread_create(&cancelled, NULL, forever, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], &result);
	pthread_cancel(cancelled);
	pthread_join(cancelled, &result);
	printf("%d %d %d\n", total, turn, result == PTHREAD_CANCELED);
	return 3;
}
