// SPDX-License-Identifier: BSD-2-Clause
/*
 * insnfuzz [-s SEED] [-b FIRST] [-n BATCHES] [-t MICROSECONDS] [-e] [-p INDEX]
 *
 * Prints a hash for each batch of sequences; -e for each sequence, -p also prints that sequence and
 * what came of it. -t lets a timer interrupt the sequences, which makes no difference to what is
 * printed. How sequences ended is the last line, on stderr.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "insnfuzz.h"

struct options {
	uint64_t seed, first, batches;
	unsigned timer;
	bool each;
	long print; /* -1: none */
};

static uint8_t *slot(size_t index)
{
	return (uint8_t *)CODE_BASE + index * SLOT;
}

_Static_assert(CODE_BASE + BATCH * SLOT <= NEAR_BASE, "code");

/*
 * The last sequence of a batch leads into memory that cannot be executed, often in the middle of an
 * instruction.
 */
static uint8_t *cliff(struct random *random, size_t size)
{
	return (uint8_t *)NEAR_BASE - 1 - random_below(random, size);
}

static struct random random_for(const struct options *options, uint64_t batch, size_t index)
{
	struct random random = { options->seed * 1000003 + batch };
	uint64_t key = random_next(&random) + index * 0x632be59bd9b4e019ull;

	return (struct random){ key };
}

/* How sequences ended: by signal, [0] by themselves, or not at all. */
static uint64_t ends[65], hung;

static void ends_print(void)
{
	fprintf(stderr, "ended by themselves %lu", (unsigned long)ends[0]);
	for (int i = 1; i < 65; i++)
		if (ends[i])
			fprintf(stderr, ", %s %lu", sigabbrev_np(i), (unsigned long)ends[i]);
	fprintf(stderr, ", never %lu; interrupted %lu\n", (unsigned long)hung,
		(unsigned long)run_interrupts());
}

static void batch_run(const struct options *options, uint64_t batch)
{
	static struct sequence sequence;
	static struct random randoms[BATCH];
	static size_t sizes[BATCH];
	static uint8_t *places[BATCH];
	static uint64_t starts[BATCH][SLOT / 64];
	static bool strays[BATCH];
	struct outcome outcome;
	uint64_t hash = batch;

	run_code_edit();
	memset((void *)CODE_BASE, 0xcc, NEAR_BASE - CODE_BASE); /* nothing of other batches */
	for (size_t i = 0; i < BATCH; i++) {
		randoms[i] = random_for(options, batch, i);
		generate(&randoms[i], options->timer > 0, &sequence);
		places[i] = slot(i);
		sizes[i] = sequence_place(&sequence, places[i]);
		if (i == BATCH - 1) {
			places[i] = cliff(&randoms[i], sizes[i]);
			sequence_place(&sequence, places[i]);
		}
		sequence_starts(&sequence, starts[i]);
		strays[i] = sequence_strays(&sequence);
	}
	run_code((uint8_t *)CODE_BASE, NEAR_BASE - CODE_BASE);
	for (size_t i = 0; i < BATCH; i++) {
		if ((long)i == options->print)
			sequence_print(places[i], sizes[i]);
		run_one(&randoms[i], (uint64_t)places[i], sizes[i], strays[i] ? NULL : starts[i],
			&outcome);
		if (outcome_hung(&outcome))
			hung++;
		else
			ends[outcome_signal(&outcome)]++;
		hash = hash * 0x100000001b3ull + outcome_hash(&outcome);
		if (options->each)
			printf("%zu %016lx\n", i, (unsigned long)outcome_hash(&outcome));
		if ((long)i == options->print)
			outcome_print(&outcome);
	}
	printf("batch %lu %016lx\n", (unsigned long)batch, (unsigned long)hash);
	fflush(stdout);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*end || end == text)
		errx(2, "%s is not a number", text);
	return value;
}

static void options_parse(int argc, char **argv, struct options *ret)
{
	int option;

	while ((option = getopt(argc, argv, "s:b:n:t:ep:")) != -1) {
		switch (option) {
		case 's':
			ret->seed = number(optarg);
			break;
		case 'b':
			ret->first = number(optarg);
			break;
		case 'n':
			ret->batches = number(optarg);
			break;
		case 't':
			ret->timer = (unsigned)number(optarg);
			break;
		case 'e':
			ret->each = true;
			break;
		case 'p':
			ret->print = (long)number(optarg);
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = { .seed = 1, .batches = 1, .print = -1 };

	options_parse(argc, argv, &options);
	run_init();
	if (options.timer)
		run_timer(options.timer);
	for (uint64_t i = 0; i < options.batches; i++)
		batch_run(&options, options.first + i);
	ends_print();
	return 0;
}
