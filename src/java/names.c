// SPDX-License-Identifier: BSD-2-Clause
/*
 * Numbers of methods. A name that comes again (another class loader, a class that is rewritten
 * again) has the number that it had. Only a hash of 64 bits is kept of each name; a collision is
 * too improbable to matter.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "java/agent.h"
#include "java/bytes.h"

enum { NAME_MAX_BYTES = 1024, FIRST_CAPACITY = 1 << 12 };

struct known {
	uint64_t hash; /* 0: free */
	uint32_t number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known *known;
static uint32_t known_count, known_capacity;
static struct java_writer lines; /* that were not written yet */

/* --- Texts ------------------------------------------------------------------------------------ */

struct name {
	char text[NAME_MAX_BYTES];
	size_t size;
};

static void name_put(struct name *name, char character)
{
	if (name->size < sizeof(name->text))
		name->text[name->size++] = (unsigned char)character < ' ' ? '?' : character;
}

static void name_put_text(struct name *name, const char *text)
{
	while (*text)
		name_put(name, *text++);
}

/* With dots, from the last slash on if it is to be short. */
static void name_put_class(struct name *name, const unsigned char *bytes, size_t size, bool brief)
{
	size_t from = 0;

	for (size_t i = 0; i < size && brief; i++)
		if (bytes[i] == '/')
			from = i + 1;
	for (size_t i = from; i < size; i++)
		name_put(name, bytes[i] == '/' ? '.' : (char)bytes[i]);
}

static const char *primitive(unsigned char code)
{
	static const struct {
		unsigned char code;
		const char *text;
	} all[] = { { 'B', "byte" }, { 'C', "char" }, { 'D', "double" }, { 'F', "float" },
		    { 'I', "int" },  { 'J', "long" }, { 'S', "short" },	 { 'Z', "boolean" } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].code == code)
			return all[i].text;
	return "?";
}

/* The parameters of a descriptor: "(ILjava/lang/String;[J)V" is "(int,String,long[])". */
static void name_put_parameters(struct name *name, struct java_text descriptor)
{
	size_t arrays = 0, given = 0;

	name_put(name, '(');
	for (size_t i = 1; i < descriptor.size && descriptor.bytes[i] != ')'; i++) {
		size_t start = i + 1;

		if (descriptor.bytes[i] == '[') {
			arrays++;
			continue;
		}
		if (given++)
			name_put(name, ',');
		if (descriptor.bytes[i] == 'L') {
			while (i < descriptor.size && descriptor.bytes[i] != ';')
				i++;
			name_put_class(name, descriptor.bytes + start, i - start, true);
		} else {
			name_put_text(name, primitive(descriptor.bytes[i]));
		}
		for (; arrays; arrays--)
			name_put_text(name, "[]");
	}
	name_put(name, ')');
}

static void name_make(struct name *name, const struct java_method *method)
{
	name->size = 0;
	name_put_class(name, method->class_name.bytes, method->class_name.size, false);
	name_put(name, '.');
	for (size_t i = 0; i < method->name.size; i++)
		name_put(name, (char)method->name.bytes[i]);
	if (method->overloaded)
		name_put_parameters(name, method->descriptor);
}

/* --- Numbers ---------------------------------------------------------------------------------- */

static uint64_t hash_add(uint64_t hash, struct java_text text)
{
	for (size_t i = 0; i < text.size; i++)
		hash = (hash ^ text.bytes[i]) * 0x100000001b3;
	return (hash ^ 0xff) * 0x100000001b3;
}

static struct known *known_find(struct known *all, uint32_t capacity, uint64_t hash)
{
	uint32_t at = (uint32_t)(hash * 0x9e3779b97f4a7c15 >> 32) & (capacity - 1);

	while (all[at].hash && all[at].hash != hash)
		at = (at + 1) & (capacity - 1);
	return &all[at];
}

static bool known_grow(void)
{
	uint32_t capacity = known_capacity ? known_capacity * 2 : FIRST_CAPACITY;
	struct known *grown = calloc(capacity, sizeof(*grown));

	if (!grown)
		return false;
	for (uint32_t i = 0; i < known_capacity; i++)
		if (known[i].hash)
			*known_find(grown, capacity, known[i].hash) = known[i];
	free(known);
	known = grown;
	known_capacity = capacity;
	return true;
}

static uint32_t number_take(void)
{
	uint32_t number = __atomic_add_fetch(&hooks_area->java_routines, 1, __ATOMIC_RELAXED);

	return number >= CALL_JAVA_FIRST && number < CALL_JAVA_END ? number : 0;
}

static void line_put(uint32_t number, const struct java_method *method)
{
	char head[32];
	struct name name;

	name_make(&name, method);
	java_put(&lines, head, (size_t)snprintf(head, sizeof(head), "%x 1 ", number));
	java_put(&lines, name.text, name.size);
	java_put(&lines, "\n", 1);
}

uint32_t java_method_number(void *ctx, const struct java_method *method)
{
	uint64_t hash = hash_add(0xcbf29ce484222325, method->class_name);
	struct known *found;
	uint32_t number = 0;

	hash = hash_add(hash_add(hash, method->name), method->descriptor);
	hash = hash ? hash : 1;
	pthread_mutex_lock(&lock);
	if (known_count * 2 < known_capacity || known_grow()) {
		found = known_find(known, known_capacity, hash);
		if (!found->hash) {
			*found = (struct known){ .hash = hash, .number = number_take() };
			known_count++;
			if (found->number)
				line_put(found->number, method);
		}
		number = found->number;
	}
	pthread_mutex_unlock(&lock);
	return number;
}

/* One write for each class at most: lines of several machines do not mix in a file that appends. */
void java_names_flush(void)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = lines.size ? open(hooks_area->names, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
	if (fd >= 0) {
		ssize_t written = write(fd, lines.bytes, lines.size);

		(void)written; /* methods without a name have their number */
		close(fd);
	}
	lines.size = 0;
	pthread_mutex_unlock(&lock);
}
