// SPDX-License-Identifier: BSD-2-Clause
/*
 * An interpreter of a little stack machine: it counts primes by trial division and keeps a
 * histogram.
 */
#include "values_work.h"

enum op { PUSH, LOAD, STORE, ADD, MUL, MOD, LESS, JUMP, JUMP_ZERO, BUMP, HALT };

struct instruction {
	uint8_t op;
	int32_t operand;
};

enum { N, D, PRIMES, SLOTS = 8, BUCKETS = 16, LIMIT = 100, STACK = 16 };

struct machine {
	int64_t slots[SLOTS];
	int64_t stack[STACK];
	int64_t *top;
	uint32_t buckets[BUCKETS];
};

static const struct instruction program[] = {
	{ PUSH, 2 },
	{ STORE, N }, /* 2: for each n */
	{ LOAD, N },
	{ PUSH, LIMIT },
	{ LESS, 0 },
	{ JUMP_ZERO, 32 },
	{ PUSH, 2 },
	{ STORE, D },
	/* 8: for each d */
	{ LOAD, D },
	{ LOAD, D },
	{ MUL, 0 },
	{ LOAD, N },
	{ PUSH, 1 },
	{ ADD, 0 },
	{ LESS, 0 },
	{ JUMP_ZERO, 24 },
	{ LOAD, N },
	{ LOAD, D },
	{ MOD, 0 },
	{ JUMP_ZERO, 27 },
	{ BUMP, D },
	{ PUSH, 0 },
	{ JUMP_ZERO, 8 },
	{ HALT, 0 },
	/* 24: prime */
	{ BUMP, PRIMES },
	{ PUSH, 0 },
	{ STORE, 4 },
	/* 27: next n */
	{ BUMP, N },
	{ LOAD, PRIMES },
	{ STORE, 5 },
	{ JUMP, 2 },
	{ HALT, 0 },
	/* 32 */
	{ HALT, 0 },
};

static struct machine machine;
volatile int64_t result;

static APART void push(struct machine *m, int64_t value)
{
	*m->top++ = value;
}

static APART int64_t pop(struct machine *m)
{
	return *--m->top;
}

static APART void note(struct machine *m, unsigned op, unsigned weight)
{
	m->buckets[(op * 7 + weight) % BUCKETS] += weight;
}

static APART int64_t combine(unsigned op, int64_t a, int64_t b)
{
	switch (op) {
	case ADD:
		return a + b;
	case MUL:
		return a * b;
	case MOD:
		return (int32_t)a % (int32_t)b;
	default:
		return a < b;
	}
}

static APART void run(struct machine *m)
{
	const struct instruction *at = program;

	for (;;) {
		const struct instruction now = *at++;

		switch (now.op) {
		case PUSH:
			push(m, now.operand);
			break;
		case LOAD:
			push(m, m->slots[now.operand]);
			break;
		case STORE:
			m->slots[now.operand] = pop(m);
			note(m, STORE, 1);
			break;
		case ADD:
		case MUL:
		case MOD:
		case LESS: {
			int64_t b = pop(m), a = pop(m);

			push(m, combine(now.op, a, b));
			break;
		}
		case JUMP:
			at = program + now.operand;
			note(m, JUMP, 2);
			break;
		case JUMP_ZERO:
			if (!pop(m))
				at = program + now.operand;
			break;
		case BUMP:
			m->slots[now.operand]++;
			break;
		default:
			return;
		}
	}
}

void work(void)
{
	machine.top = machine.stack;
	for (int i = 0; i < SLOTS; i++)
		machine.slots[i] = 0;
	for (int i = 0; i < BUCKETS; i++)
		machine.buckets[i] = 0;
	run(&machine);
	result = machine.slots[PRIMES];
}

int main(void)
{
	for (;;)
		work();
}
