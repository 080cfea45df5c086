// SPDX-License-Identifier: BSD-2-Clause
/* One error that sanitizers find, by its number. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *race(void *argument)
{
	for (int i = 0; i < 1000; i++)
		shared++;
	return argument;
}

static int deep(volatile int *at)
{
	volatile int here[1000];

	here[0] = *at + 1;
	return deep(here) + here[0];
}

int main(int count, char **arguments)
{
	int which = count > 1 ? (int)strtol(arguments[1], NULL, 10) : 0;
	volatile int size = 10;
	char *heap = malloc(10);
	int array[10] = { 1 };
	pthread_t threads[2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("begin");
	switch (which) {
	case 1:
		return heap[size];
	case 2:
		free(heap);
		return heap[2];
	case 3:
		return array[size];
	case 4:
		heap = NULL;
		break;
	case 5:
		size = INT_MAX;
		size++;
		break;
	case 6:
		free(heap);
		free(heap);
		break;
	case 7:
		size = 1 << (size + 40);
		break;
	case 8:
		pthread_create(&threads[0], NULL, race, NULL);
		pthread_create(&threads[1], NULL, race, NULL);
		pthread_join(threads[0], NULL);
		pthread_join(threads[1], NULL);
		break;
	case 9:
		return deep(&size) > 0;
	case 10:
		memcpy(heap, heap + 1, (size_t)size - 2);
		break;
	case 11:
		*(volatile int *)(uintptr_t)(size - 10) = 5;
		break;
	case 12:
		heap = malloc((size_t)size << 30);
		puts(heap[size] ? "set" : "not");
		break;
	default:
		break;
	}
	if (heap)
		free(which == 6 ? NULL : heap);
	puts("end");
	return 0;
}
