// SPDX-License-Identifier: BSD-2-Clause
/*
 * The code of a method gets a call of enter() in front, one of leave() before each return, and a
 * handler behind its end for exceptions that leave it: leave(), then throw again. Each handler of
 * the program gets a call of caught() in front.
 *
 * 1. A branch to the first instruction does not enter again: it goes behind the call of enter(). A
 *    branch to a return goes to the call of leave() before it.
 * 2. Ours is the last handler, so that those of the program come first.
 * 3. The handler's frame has no variables: any frame can be assigned to it. In a constructor that
 *    holds only once another constructor was called for the object. What is before has a handler of
 *    its own, whose frame has the object as uninitialised. That call itself cannot have a handler,
 *    and if the two parts cannot be separated for certain, there is none at all: the caught() of
 *    the method that catches the exception then drops the abandoned calls from the tree.
 * 4. All offsets in tables that a virtual machine looks at are mapped. Annotations of types in
 *    code, which none looks at, are left out.
 */
#include "java/code.h"

#include <errno.h>

enum {
	CODE_MAX = 65535,
	CALL_BYTES = 6, /* push the number; invokestatic */
	HANDLER_BYTES = CALL_BYTES + 1,
	NOWHERE = -1,
	FRAMES_SINCE = 50, /* version of class files from which on code has frames */
};

enum opcode {
	OP_SIPUSH = 17,
	OP_LDC_W = 19,
	OP_ASTORE = 58,
	OP_ASTORE_0 = 75,
	OP_IFEQ = 153,
	OP_JSR = 168,
	OP_TABLESWITCH = 170,
	OP_LOOKUPSWITCH = 171,
	OP_IRETURN = 172,
	OP_RETURN = 177,
	OP_INVOKESPECIAL = 183,
	OP_INVOKESTATIC = 184,
	OP_NEW = 187,
	OP_ATHROW = 191,
	OP_WIDE = 196,
	OP_IFNULL = 198,
	OP_IFNONNULL = 199,
	OP_GOTO_W = 200,
	OP_JSR_W = 201,
	OP_IINC = 132,
};

/* Bytes of each instruction; 0: not a fixed number, or no instruction. */
static const unsigned char lengths[256] = {
	/* 0   */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 16  */ 2, 3, 2, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1,
	/* 32  */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 48  */ 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1,
	/* 64  */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 80  */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 96  */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 112 */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 128 */ 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
	/* 144 */ 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3,
	/* 160 */ 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 0, 0, 1, 1, 1, 1,
	/* 176 */ 1, 1, 3, 3, 3, 3, 3, 3, 3, 5, 5, 3, 2, 3, 1, 1,
	/* 192 */ 3, 3, 1, 1, 0, 4, 3, 3, 5, 5,
};

enum before { BEFORE_CAUGHT = 1, BEFORE_LEAVE = 2 };

struct rewriting {
	struct java_constants *constants;
	uint32_t push; /* the constant of type int that is pushed; 0: the number itself */
	uint32_t number;
	const unsigned char *code;
	uint32_t length;
	int32_t *map; /* by place: its new place; NOWHERE: no instruction begins there */
	unsigned char *before; /* by place: the calls in front of the instruction, enum before */
	/*
	 * Of a constructor: behind the call that initialises the object, and that call; 0: there is
	 * none, or not for certain.
	 */
	uint32_t split, split_call;
	bool constructor;
	bool handled; /* there are handlers */
	bool handled_early; /* also before the split */
	struct java_writer *out;
	int err;
};

static int32_t number_at(const unsigned char *bytes, size_t count)
{
	uint32_t number = 0;

	for (size_t i = 0; i < count; i++)
		number = number << 8 | bytes[i];
	return count == 2 ? (int16_t)number : (int32_t)number;
}

/* Bytes of the instruction at this place, or 0 if it is none or is cut off. */
static uint32_t length_at(const struct rewriting *work, uint32_t at)
{
	const unsigned char *code = work->code;
	uint32_t opcode = code[at];
	uint64_t length = lengths[opcode];
	uint32_t left = work->length - at;
	uint32_t pad = 3 - at % 4;

	if (opcode == OP_WIDE && left > 1) {
		length = code[at + 1] == OP_IINC ? 6 : 4;
	} else if (opcode == OP_TABLESWITCH && left >= 1 + pad + 12) {
		int64_t low = number_at(code + at + 1 + pad + 4, 4);
		int64_t high = number_at(code + at + 1 + pad + 8, 4);

		length = high < low ? 0 : 1 + pad + 12 + 4 * (uint64_t)(high - low + 1);
	} else if (opcode == OP_LOOKUPSWITCH && left >= 1 + pad + 8) {
		int64_t pairs = number_at(code + at + 1 + pad + 4, 4);

		length = pairs < 0 ? 0 : 1 + pad + 8 + 8 * (uint64_t)pairs;
	}
	return length <= left ? (uint32_t)length : 0;
}

static bool is_return(uint32_t opcode)
{
	return opcode >= OP_IRETURN && opcode <= OP_RETURN;
}

static bool is_switch(uint32_t opcode)
{
	return opcode == OP_TABLESWITCH || opcode == OP_LOOKUPSWITCH;
}

/* Bytes of a branch's offset; 0: no branch. */
static uint32_t branch_bytes(uint32_t opcode)
{
	if ((opcode >= OP_IFEQ && opcode <= OP_JSR) || opcode == OP_IFNULL ||
	    opcode == OP_IFNONNULL)
		return 2;
	return opcode == OP_GOTO_W || opcode == OP_JSR_W ? 4 : 0;
}

/* --- Where instructions go ------------------------------------------------------------------- */

/* Bytes in front of an instruction, to which branches to it lead. */
static uint32_t before_bytes(const struct rewriting *work, uint32_t at)
{
	return (uint32_t)__builtin_popcount(work->before[at]) * CALL_BYTES;
}

/* The new place of the instruction itself. */
static uint32_t here_of(const struct rewriting *work, uint32_t at)
{
	return (uint32_t)work->map[at] + before_bytes(work, at);
}

static int before_make(struct rewriting *work, struct java_reader handlers, uint32_t count)
{
	uint32_t length;

	for (uint32_t at = 0; at < work->length; at += length) {
		length = length_at(work, at);
		if (!length)
			return -EINVAL;
		work->before[at] = is_return(work->code[at]) ? BEFORE_LEAVE : 0;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t to;

		java_take(&handlers, 4);
		to = java_take_2(&handlers);
		java_take_2(&handlers);
		if (to >= work->length)
			return -EINVAL;
		work->before[to] |= BEFORE_CAUGHT;
	}
	return 0;
}

static int map_make(struct rewriting *work)
{
	uint32_t place = CALL_BYTES;
	uint32_t length;

	memset(work->map, 0xff, (work->length + 1) * sizeof(*work->map));
	for (uint32_t at = 0; at < work->length; at += length) {
		uint32_t opcode = work->code[at];

		length = length_at(work, at);
		work->map[at] = (int32_t)place;
		place += length + before_bytes(work, at);
		if (is_switch(opcode)) /* the padding changes */
			place = place - (3 - at % 4) + (3 - here_of(work, at) % 4);
	}
	work->map[work->length] = (int32_t)place;
	return place + 2 * HANDLER_BYTES > CODE_MAX ? -E2BIG : 0;
}

static uint32_t place_of(struct rewriting *work, int64_t at)
{
	if (at < 0 || at > work->length || work->map[at] == NOWHERE) {
		work->err = -EINVAL;
		return 0;
	}
	return (uint32_t)work->map[at];
}

/* The same for debuggers, whose tables may name any place: that of the instruction there. */
static uint32_t place_near(const struct rewriting *work, uint32_t at)
{
	at = at < work->length ? at : work->length;
	while (work->map[at] == NOWHERE)
		at--; /* there is one at 0 */
	return (uint32_t)work->map[at];
}

/* --- Constructors ----------------------------------------------------------------------------- */

static bool is_init_call(const struct rewriting *work, uint32_t at)
{
	const struct java_constants *constants = work->constants;
	struct java_reader pool = constants->pool;
	uint32_t method = (uint32_t)number_at(work->code + at + 1, 2) & 0xffff;
	uint32_t name_and_type;

	if (method >= constants->count || !constants->at[method])
		return false;
	pool.at = constants->at[method] + 3;
	name_and_type = java_take_2(&pool);
	if (name_and_type >= constants->count || !constants->at[name_and_type])
		return false;
	pool.at = constants->at[name_and_type] + 1;
	return java_constant_is(constants, java_take_2(&pool), "<init>");
}

static bool stores_object(const struct rewriting *work, uint32_t at)
{
	uint32_t opcode = work->code[at];

	if (opcode == OP_ASTORE_0)
		return true;
	if (opcode == OP_ASTORE)
		return !work->code[at + 1];
	return opcode == OP_WIDE && work->code[at + 1] == OP_ASTORE &&
	       !number_at(work->code + at + 2, 2);
}

/*
 * Each object that is made here is initialised by a call of its own; the one call more is that for
 * the object itself. 0: there is none, or more than one.
 */
static uint32_t split_find(const struct rewriting *work)
{
	uint32_t made = 0, calls = 0, found = 0;

	for (uint32_t at = 0; at < work->length; at += length_at(work, at)) {
		if (stores_object(work, at))
			return 0;
		made += work->code[at] == OP_NEW;
		if (work->code[at] != OP_INVOKESPECIAL || !is_init_call(work, at))
			continue;
		calls++;
		if (calls > made && found)
			return 0;
		if (calls > made) {
			found = at;
			made++; /* it has had its call */
		}
	}
	return found;
}

static bool crosses(const struct rewriting *work, int64_t from, int64_t to)
{
	return (from < work->split) != (to < work->split);
}

static bool switch_crosses(const struct rewriting *work, uint32_t at)
{
	uint32_t table = work->code[at] == OP_TABLESWITCH;
	uint32_t from = at + 1 + (3 - at % 4);
	uint32_t end = at + length_at(work, at);

	if (crosses(work, at, (int64_t)at + number_at(work->code + from, 4)))
		return true;
	for (from += 12; from < end; from += table ? 4 : 8)
		if (crosses(work, at, (int64_t)at + number_at(work->code + from, 4)))
			return true;
	return false;
}

/* Whether no branch leads from one side of the split to the other. */
static bool split_holds(const struct rewriting *work, struct java_reader handlers, uint32_t count)
{
	for (uint32_t at = 0; at < work->length; at += length_at(work, at)) {
		uint32_t bytes = branch_bytes(work->code[at]);

		if (bytes && crosses(work, at, (int64_t)at + number_at(work->code + at + 1, bytes)))
			return false;
		if (is_switch(work->code[at]) && switch_crosses(work, at))
			return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t start = java_take_2(&handlers);
		uint32_t end = java_take_2(&handlers);
		uint32_t to = java_take_2(&handlers);

		java_take_2(&handlers);
		if (start < work->split || crosses(work, start, end) || crosses(work, start, to))
			return false;
	}
	return true;
}

static void handlers_choose(struct rewriting *work, struct java_reader handlers, uint32_t count)
{
	work->handled = true;
	if (!work->constructor)
		return;
	work->split_call = split_find(work);
	work->split = work->split_call + 3;
	work->handled = work->split_call && split_holds(work, handlers, count);
	work->handled_early = work->handled && work->constants->major >= FRAMES_SINCE;
}

/* --- Code ------------------------------------------------------------------------------------- */

static void call_put(struct rewriting *work, uint32_t method)
{
	java_put_1(work->out, work->push ? OP_LDC_W : OP_SIPUSH);
	java_put_2(work->out, work->push ? work->push : work->number);
	java_put_1(work->out, OP_INVOKESTATIC);
	java_put_2(work->out, method);
}

static void branch_put(struct rewriting *work, uint32_t at, uint32_t bytes)
{
	int64_t target = (int64_t)at + number_at(work->code + at + 1, bytes);
	int64_t offset = (int64_t)place_of(work, target) - here_of(work, at);

	if (target == work->length)
		work->err = -EINVAL;
	if (bytes == 2 && offset != (int16_t)offset && !work->err)
		work->err = -E2BIG;
	java_put_1(work->out, work->code[at]);
	java_put_number(work->out, (uint32_t)offset, bytes);
}

static void switch_target_put(struct rewriting *work, uint32_t at, const unsigned char *from)
{
	int64_t target = (int64_t)at + number_at(from, 4);

	java_put_4(work->out, place_of(work, target) - here_of(work, at));
}

static void switch_put(struct rewriting *work, uint32_t at)
{
	static const unsigned char padding[3];
	bool table = work->code[at] == OP_TABLESWITCH;
	const unsigned char *from = work->code + at + 1 + (3 - at % 4);
	const unsigned char *end = work->code + at + length_at(work, at);

	java_put_1(work->out, work->code[at]);
	java_put(work->out, padding, 3 - here_of(work, at) % 4);
	switch_target_put(work, at, from);
	java_put(work->out, from + 4, table ? 8 : 4);
	from += table ? 12 : 8;
	for (; from < end; from += table ? 4 : 8) {
		if (!table)
			java_put(work->out, from, 4);
		switch_target_put(work, at, table ? from : from + 4);
	}
}

static void code_put(struct rewriting *work)
{
	uint32_t length;

	call_put(work, work->constants->enter);
	for (uint32_t at = 0; at < work->length; at += length) {
		uint32_t opcode = work->code[at];

		length = length_at(work, at);
		if (work->before[at] & BEFORE_CAUGHT)
			call_put(work, work->constants->caught);
		if (work->before[at] & BEFORE_LEAVE)
			call_put(work, work->constants->leave);
		if (branch_bytes(opcode))
			branch_put(work, at, branch_bytes(opcode));
		else if (is_switch(opcode))
			switch_put(work, at);
		else
			java_put(work->out, work->code + at, length);
	}
	for (int i = 0; i < work->handled + work->handled_early; i++) {
		call_put(work, work->constants->leave);
		java_put_1(work->out, OP_ATHROW);
	}
}

static uint32_t handler_place(const struct rewriting *work, bool early)
{
	return (uint32_t)work->map[work->length] +
	       (work->handled_early && !early ? HANDLER_BYTES : 0);
}

static void handler_put(struct rewriting *work, uint32_t start, uint32_t end, uint32_t place)
{
	if (start >= end)
		return;
	java_put_2(work->out, start);
	java_put_2(work->out, end);
	java_put_2(work->out, place);
	java_put_2(work->out, 0); /* any exception */
}

static void handlers_put(struct rewriting *work, struct java_reader *handlers, uint32_t count)
{
	size_t place = work->out->size;
	uint32_t end = (uint32_t)work->map[work->length];
	uint32_t begin = work->constructor ? place_of(work, work->split) : CALL_BYTES;

	java_put_2(work->out, 0);
	for (uint32_t i = 0; i < count; i++) {
		for (int field = 0; field < 3; field++)
			java_put_2(work->out, place_of(work, java_take_2(handlers)));
		java_put_2(work->out, java_take_2(handlers));
	}
	if (work->handled_early)
		handler_put(work, CALL_BYTES, here_of(work, work->split_call),
			    handler_place(work, true));
	if (work->handled)
		handler_put(work, begin, end, handler_place(work, false));
	count = (uint32_t)(work->out->size - place - 2) / 8;
	if (count > UINT16_MAX)
		work->err = -E2BIG;
	java_patch(work->out, place, count, 2);
}

/* --- Tables of code --------------------------------------------------------------------------- */

enum verification { TYPE_THIS = 6, TYPE_OBJECT = 7, TYPE_UNINITIALIZED = 8 };

/* Where an object was made that has no value yet: that instruction, not what is in front of it. */
static uint32_t object_place(struct rewriting *work, uint32_t at)
{
	uint32_t place = place_of(work, at);

	return work->err || at == work->length ? place : here_of(work, at);
}

static void types_put(struct rewriting *work, struct java_reader *from, uint32_t count)
{
	for (uint32_t i = 0; i < count && !from->bad; i++) {
		uint32_t type = java_take_1(from);

		java_put_1(work->out, type);
		if (type == TYPE_OBJECT)
			java_put_2(work->out, java_take_2(from));
		else if (type == TYPE_UNINITIALIZED)
			java_put_2(work->out, object_place(work, java_take_2(from)));
		else if (type > TYPE_UNINITIALIZED)
			work->err = -EINVAL;
	}
}

enum frame {
	FRAME_ONE = 64, /* below: as before; from here on: with one value on the stack */
	FRAME_RESERVED = 128,
	FRAME_ONE_LONG = 247,
	FRAME_CHOP = 248,
	FRAME_SAME_LONG = 251,
	FRAME_FULL = 255,
};

static void frame_head_put(struct rewriting *work, uint32_t kind, uint32_t delta)
{
	if (kind < FRAME_RESERVED && delta < FRAME_ONE) {
		java_put_1(work->out, (kind & FRAME_ONE) + delta);
		return;
	}
	if (kind < FRAME_RESERVED)
		kind = kind < FRAME_ONE ? FRAME_SAME_LONG : FRAME_ONE_LONG;
	java_put_1(work->out, kind);
	java_put_2(work->out, delta);
}

static void frame_put(struct rewriting *work, struct java_reader *from, int64_t *at, int64_t *place)
{
	uint32_t kind = java_take_1(from);
	uint32_t delta = kind < FRAME_RESERVED ? kind % FRAME_ONE : java_take_2(from);
	int64_t found;

	if (kind >= FRAME_RESERVED && kind < FRAME_ONE_LONG)
		work->err = -EINVAL;
	*at += delta + 1;
	found = place_of(work, *at);
	/* Before the first one both are -1, and the first delta is the place itself. */
	frame_head_put(work, kind, (uint32_t)(found - *place - 1));
	*place = found;
	if ((kind >= FRAME_ONE && kind < FRAME_RESERVED) || kind == FRAME_ONE_LONG) {
		types_put(work, from, 1);
	} else if (kind > FRAME_SAME_LONG && kind < FRAME_FULL) {
		types_put(work, from, kind - FRAME_SAME_LONG);
	} else if (kind == FRAME_FULL) {
		for (int list = 0; list < 2; list++) {
			uint32_t count = java_take_2(from);

			java_put_2(work->out, count);
			types_put(work, from, count);
		}
	}
}

/* No variables, or the uninitialised object only; the exception on the stack. */
static void handler_frame_put(struct rewriting *work, bool early, int64_t *place)
{
	uint32_t here = handler_place(work, early);

	java_put_1(work->out, FRAME_FULL);
	java_put_2(work->out, (uint32_t)(here - *place - 1));
	java_put_2(work->out, early);
	if (early)
		java_put_1(work->out, TYPE_THIS);
	java_put_2(work->out, 1);
	java_put_1(work->out, TYPE_OBJECT);
	java_put_2(work->out, work->constants->throwable);
	*place = here;
}

/* Frames of the method, and those of the handlers; from may be empty. */
static void frames_put(struct rewriting *work, struct java_reader from)
{
	uint32_t count = from.size ? java_take_2(&from) : 0;
	uint32_t handlers = work->handled + work->handled_early;
	int64_t at = -1, place = -1;
	size_t start;

	java_put_2(work->out, work->constants->frames);
	start = work->out->size;
	java_put_4(work->out, 0);
	java_put_2(work->out, count + handlers);
	for (uint32_t i = 0; i < count && !from.bad && !work->err; i++)
		frame_put(work, &from, &at, &place);
	if (work->handled_early)
		handler_frame_put(work, true, &place);
	if (work->handled)
		handler_frame_put(work, false, &place);
	if (from.bad || count + handlers > UINT16_MAX)
		work->err = -EINVAL;
	java_patch(work->out, start, (uint32_t)(work->out->size - start - 4), 4);
}

/* A table of u2 count and rows that begin with a place, which may be followed by a length. */
static void places_put(struct rewriting *work, uint32_t name, struct java_reader from,
		       uint32_t row_bytes, bool ranges)
{
	uint32_t count = java_take_2(&from);

	if (count * row_bytes + 2 != from.size)
		return; /* for debuggers only; none is better than a wrong one */
	java_put_2(work->out, name);
	java_put_4(work->out, (uint32_t)from.size);
	java_put_2(work->out, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = java_take_2(&from);
		uint32_t place = place_near(work, at);
		uint32_t fixed = row_bytes - 2 - (ranges ? 2 : 0);

		java_put_2(work->out, place);
		if (ranges)
			java_put_2(work->out, place_near(work, at + java_take_2(&from)) - place);
		java_put(work->out, java_take(&from, fixed), fixed);
	}
}

static void attributes_put(struct rewriting *work, struct java_reader *from)
{
	const struct java_constants *constants = work->constants;
	uint32_t count = java_take_2(from), kept = 0;
	bool framed = constants->major < FRAMES_SINCE || !work->handled;
	size_t place = work->out->size;

	java_put_2(work->out, 0);
	for (uint32_t i = 0; i < count && !from->bad; i++) {
		uint32_t name = java_take_2(from);
		size_t before = work->out->size;
		struct java_reader part = java_take_part(from, java_take_4(from));

		if (part.bad)
			break;
		if (java_constant_is(constants, name, "StackMapTable")) {
			frames_put(work, part);
			framed = true;
		} else if (java_constant_is(constants, name, "LineNumberTable")) {
			places_put(work, name, part, 4, false);
		} else if (java_constant_is(constants, name, "LocalVariableTable") ||
			   java_constant_is(constants, name, "LocalVariableTypeTable")) {
			places_put(work, name, part, 10, true);
		}
		kept += work->out->size > before;
	}
	if (!framed) {
		frames_put(work, (struct java_reader){});
		kept++;
	}
	java_patch(work->out, place, kept, 2);
}

static int whole_put(struct rewriting *work, struct java_reader *from, uint32_t stack,
		     uint32_t variables)
{
	uint32_t handlers = java_take_2(from);
	struct java_reader table = java_take_part(from, (size_t)handlers * 8);
	size_t place;
	int err;

	if (table.bad || stack + 2 > UINT16_MAX)
		return table.bad ? -EINVAL : -E2BIG;
	err = before_make(work, table, handlers);
	err = err ? err : map_make(work);
	if (err)
		return err;
	handlers_choose(work, table, handlers);
	java_put_2(work->out, stack + 1 < 2 ? 2 : stack + 1);
	java_put_2(work->out, variables);
	place = work->out->size;
	java_put_4(work->out, 0);
	code_put(work);
	java_patch(work->out, place, (uint32_t)(work->out->size - place - 4), 4);
	handlers_put(work, &table, handlers);
	attributes_put(work, from);
	if (from->bad || from->at != from->size)
		return -EINVAL;
	return work->out->failed ? -ENOMEM : work->err;
}

int java_code_rewrite(struct java_constants *constants, struct java_reader code, uint32_t number,
		      bool constructor, struct java_writer *ret)
{
	struct rewriting work = {
		.constants = constants, .number = number, .constructor = constructor, .out = ret
	};
	uint32_t stack = java_take_2(&code);
	uint32_t variables = java_take_2(&code);
	int err;

	work.length = java_take_4(&code);
	work.code = java_take(&code, work.length);
	if (code.bad || !work.length || work.length > CODE_MAX)
		return -EINVAL;
	if (number > INT16_MAX) {
		work.push = java_constant_int(constants, number);
		if (!work.push)
			return -ENOSPC;
	}
	work.map = malloc((work.length + 1) * sizeof(*work.map));
	work.before = calloc(1, work.length + 1);
	err = work.map && work.before ? whole_put(&work, &code, stack, variables) : -ENOMEM;
	free(work.before);
	free(work.map);
	return err;
}
