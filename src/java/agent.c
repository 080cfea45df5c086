// SPDX-License-Identifier: BSD-2-Clause
/*
 * The agent that a Java virtual machine loads (JVMTI): it rewrites classes while they are loaded,
 * so that their methods call a helper, and gives the machine that helper.
 *
 * 1. Classes of the boot loader are left alone: the helper is one of them and uses others, and the
 *    machine itself relies on them. All others are rewritten, whichever loader loads them. Hidden
 *    classes, which stand for lambdas, are never shown to agents; the bodies of lambdas are methods
 *    of the class that has them.
 * 2. A class that cannot be rewritten runs as it is, and is counted.
 * 3. Nothing here throws into the program: what fails is not recorded.
 *
 * The machine may be started with the agent, or be given it later; then classes that are there
 * already are rewritten as well. Calls that run at that moment go on in their old code.
 */
#include "java/agent.h"

#include <errno.h>
#include <jvmti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELPER "java/lang/AssayCalls"

/* Events of versions that are newer than the headers. */
enum { EVENT_FIRST = 50, EVENT_VIRTUAL_START = 87, EVENT_VIRTUAL_END = 88, EVENTS_END = 89 };
enum { CAPABILITY_VIRTUAL_THREADS = 44 };
enum { ALLOCATION_INTERVAL = 512 * 1024 };

extern const char java_helper[] __attribute__((visibility("hidden")));
extern const char java_helper_end[] __attribute__((visibility("hidden")));

static jvmtiEnv *jvmti; /* NULL: there is no machine, or the agent could not begin */
static volatile bool ready; /* the helper is there, and classes are rewritten */
static jfieldID thread_number;
/* ns; set by the machine's thread that begins the pause; there is one at a time */
static uint64_t pause_begin;

/* --- Native methods of the helper, found by their names --------------------------------------- */

#define SEEN __attribute__((visibility("default")))

SEEN jlong JNICALL Java_java_lang_AssayCalls_table(JNIEnv *jni, jclass class)
{
	return (jlong)java_table();
}

SEEN jlong JNICALL Java_java_lang_AssayCalls_pauses(JNIEnv *jni, jclass class)
{
	return (jlong)&java_pauses.ns;
}

SEEN jboolean JNICALL Java_java_lang_AssayCalls_timed(JNIEnv *jni, jclass class)
{
	return (jboolean)(hooks_area->timed != 0);
}

static void name_take(JNIEnv *jni, struct hooks_thread *thread, jthread object)
{
	jvmtiThreadInfo info = {};

	if ((*jvmti)->GetThreadInfo(jvmti, object, &info) != JVMTI_ERROR_NONE)
		return;
	if (info.name && *info.name)
		java_thread_name(thread, info.name);
	else if (thread->alone)
		java_thread_name(thread, "[virtual]");
	(*jvmti)->Deallocate(jvmti, (unsigned char *)info.name);
	if (info.thread_group)
		(*jni)->DeleteLocalRef(jni, info.thread_group);
	if (info.context_class_loader)
		(*jni)->DeleteLocalRef(jni, info.context_class_loader);
}

SEEN jlong JNICALL Java_java_lang_AssayCalls_begin(JNIEnv *jni, jclass class, jlong number,
						   jobject object, jboolean is_virtual)
{
	struct hooks_thread *thread = java_thread_begin((uint64_t)number, is_virtual);

	if (thread)
		name_take(jni, thread, object);
	return (jlong)thread;
}

SEEN void JNICALL Java_java_lang_AssayCalls_charge(JNIEnv *jni, jclass class, jlong self)
{
	java_charge((struct hooks_thread *)self);
}

SEEN void JNICALL Java_java_lang_AssayCalls_enterOther(JNIEnv *jni, jclass class, jlong self,
						       jint routine)
{
	java_enter((struct hooks_thread *)self, (uint32_t)routine);
}

SEEN void JNICALL Java_java_lang_AssayCalls_leaveOther(JNIEnv *jni, jclass class, jlong self,
						       jint routine)
{
	java_leave((struct hooks_thread *)self, (uint32_t)routine);
}

SEEN void JNICALL Java_java_lang_AssayCalls_caughtOther(JNIEnv *jni, jclass class, jlong self,
							jint routine)
{
	java_caught((struct hooks_thread *)self, (uint32_t)routine);
}

/* The calls that were measured are forgotten. */
SEEN void JNICALL Java_java_lang_AssayCalls_calibrated(JNIEnv *jni, jclass class, jlong ns)
{
	struct hooks_thread *thread = hooks_self;

	hooks_area->java_overhead = (uint64_t)ns;
	if (!thread)
		return;
	thread->slot->overhead = (uint64_t)ns;
	hooks_tree_reset(thread);
	thread->last = hooks_now(thread);
}

/* --- Classes ---------------------------------------------------------------------------------- */

static bool is_wanted(jobject loader, const char *name)
{
	/* Made by the machine for reflection; their names have no meaning. */
	static const char accessors[] = "jdk/internal/reflect/";

	return loader && !(name && !strncmp(name, accessors, sizeof(accessors) - 1));
}

static void class_give(const struct java_rewritten *made, jint *ret_size, unsigned char **ret)
{
	unsigned char *bytes;

	if ((*jvmti)->Allocate(jvmti, (jlong)made->size, &bytes) != JVMTI_ERROR_NONE) {
		java_count(CALL_JAVA_ODD, 1);
		return;
	}
	memcpy(bytes, made->bytes, made->size);
	*ret = bytes;
	*ret_size = (jint)made->size;
	java_count(CALL_JAVA_LOADED, 1);
	java_count(CALL_JAVA_METHODS, made->methods);
}

static void JNICALL class_load(jvmtiEnv *env, JNIEnv *jni, jclass redefined, jobject loader,
			       const char *name, jobject domain, jint size,
			       const unsigned char *bytes, jint *ret_size, unsigned char **ret)
{
	const struct java_rewriting how = { .helper = HELPER, .number = java_method_number };
	struct java_rewritten made = {};

	if (!is_wanted(loader, name))
		return;
	if (!ready) {
		if (!redefined)
			java_count(CALL_JAVA_EARLY, 1);
		return;
	}
	if (java_rewrite(bytes, (size_t)size, &how, &made)) {
		java_count(CALL_JAVA_ODD, 1);
		return;
	}
	java_names_flush();
	java_count(CALL_JAVA_REFUSED, made.refused);
	if (made.bytes)
		class_give(&made, ret_size, ret);
	free(made.bytes);
}

static void JNICALL class_unload(jvmtiEnv *env, ...)
{
	java_count(CALL_JAVA_UNLOADED, 1);
}

/* --- Threads, pauses, allocation -------------------------------------------------------------- */

static void JNICALL thread_start(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
	java_thread_renew(); /* the kernel thread may have been another one's */
}

static void JNICALL thread_end(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
	if (hooks_self && hooks_self->java)
		name_take(jni, hooks_self, thread);
	java_thread_end();
}

static void JNICALL gc_start(jvmtiEnv *env)
{
	pause_begin = hooks_clock_ns();
}

static void JNICALL gc_finish(jvmtiEnv *env)
{
	uint64_t ns = hooks_clock_ns() - pause_begin;

	__atomic_store_n(&java_pauses.count, java_pauses.count + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&java_pauses.ns, java_pauses.ns + ns, __ATOMIC_RELEASE);
	java_count(CALL_JAVA_PAUSES, 1);
	java_count(CALL_JAVA_PAUSED, ns);
}

/* 1 - exp(-x), to some parts in a thousand, without a library that the program may not have. */
static double seen_of(double x)
{
	double rest = 1 - (x < 32 ? x : 32) / 1024;

	for (int i = 0; i < 10; i++)
		rest *= rest;
	return 1 - rest;
}

/*
 * The machine samples bytes: an object is seen with a probability that grows with its size, so it
 * stands for its size divided by that.
 */
static void JNICALL sampled_alloc(jvmtiEnv *env, JNIEnv *jni, jthread thread, jobject object,
				  jclass class, jlong size)
{
	struct hooks_thread *self = java_thread_current();
	double seen = seen_of((double)size / ALLOCATION_INTERVAL);

	java_count(CALL_JAVA_SAMPLES, 1);
	if (self && self->slot->clock == CALL_CLOCK_NS && seen > 0)
		call_tree_current(&self->tree)->amounts[CALL_JAVA_BYTES].base +=
			(uint64_t)((double)size / seen + 0.5);
}

static uint64_t number_of(JNIEnv *jni, jthread thread)
{
	return thread_number ? (uint64_t)(*jni)->GetLongField(jni, thread, thread_number) : 0;
}

static void JNICALL virtual_mount(jvmtiEnv *env, JNIEnv *jni, jthread thread, ...)
{
	java_virtual_mount(number_of(jni, thread));
}

static void JNICALL virtual_unmount(jvmtiEnv *env, JNIEnv *jni, jthread thread, ...)
{
	java_virtual_unmount(number_of(jni, thread));
}

static void JNICALL virtual_end(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
	java_virtual_end(number_of(jni, thread));
}

/* --- Begin ------------------------------------------------------------------------------------ */

/* False: something was thrown, which is forgotten. */
static bool went_well(JNIEnv *jni)
{
	if (!(*jni)->ExceptionCheck(jni))
		return true;
	(*jni)->ExceptionClear(jni);
	return false;
}

static jclass helper_define(JNIEnv *jni)
{
	jclass class = (*jni)->DefineClass(jni, HELPER, NULL, (const jbyte *)java_helper,
					   (jsize)(java_helper_end - java_helper));

	return went_well(jni) ? class : NULL;
}

/* Runs the helper's initialisation and its measurement of itself. */
static bool helper_start(JNIEnv *jni)
{
	jclass class = helper_define(jni);
	jclass thread = class ? (*jni)->FindClass(jni, "java/lang/Thread") : NULL;
	jmethodID calibrate;

	if (!went_well(jni) || !thread || !java_table())
		return false;
	thread_number = (*jni)->GetFieldID(jni, thread, "tid", "J");
	if (!went_well(jni))
		return false;
	calibrate = (*jni)->GetStaticMethodID(jni, class, "calibrate", "()V");
	if (went_well(jni) && calibrate)
		(*jni)->CallStaticVoidMethod(jni, class, calibrate);
	return went_well(jni) && calibrate;
}

static void JNICALL vm_init(jvmtiEnv *env, JNIEnv *jni, jthread thread)
{
	ready = helper_start(jni);
	if (ready)
		java_count(CALL_JAVA_MACHINES, 1);
	else
		java_count(CALL_JAVA_UNKNOWN, 1);
}

static bool capabilities_add(bool later)
{
	jvmtiCapabilities can = {}, want = {};
	unsigned char *bits = (unsigned char *)&can;
	unsigned char virtual_threads = 1 << CAPABILITY_VIRTUAL_THREADS % 8;

	(*jvmti)->GetPotentialCapabilities(jvmti, &can);
	want.can_generate_garbage_collection_events = can.can_generate_garbage_collection_events;
	want.can_generate_sampled_object_alloc_events =
		can.can_generate_sampled_object_alloc_events;
	want.can_retransform_classes = later;
	if (bits[CAPABILITY_VIRTUAL_THREADS / 8] & virtual_threads)
		((unsigned char *)&want)[CAPABILITY_VIRTUAL_THREADS / 8] |= virtual_threads;
	return (*jvmti)->AddCapabilities(jvmti, &want) == JVMTI_ERROR_NONE;
}

/* Enables the events that this virtual machine supports. */
static void events_enable(void)
{
	static void *callbacks[EVENTS_END - EVENT_FIRST];
	static const struct {
		int event;
		void *callback;
	} all[] = { { JVMTI_EVENT_VM_INIT, vm_init },
		    { JVMTI_EVENT_THREAD_START, thread_start },
		    { JVMTI_EVENT_THREAD_END, thread_end },
		    { JVMTI_EVENT_CLASS_FILE_LOAD_HOOK, class_load },
		    { JVMTI_EVENT_GARBAGE_COLLECTION_START, gc_start },
		    { JVMTI_EVENT_GARBAGE_COLLECTION_FINISH, gc_finish },
		    { JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, sampled_alloc },
		    { EVENT_VIRTUAL_END, virtual_end } };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		callbacks[all[i].event - EVENT_FIRST] = all[i].callback;
	(*jvmti)->SetEventCallbacks(jvmti, (const jvmtiEventCallbacks *)callbacks,
				    sizeof(callbacks));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, (jvmtiEvent)all[i].event,
						   NULL);
	(*jvmti)->SetHeapSamplingInterval(jvmti, ALLOCATION_INTERVAL);
}

/* Events that machines have of their own, by their names. */
static void extensions_enable(void)
{
	static const struct {
		const char *id;
		jvmtiExtensionEvent callback;
	} wanted[] = {
		{ "com.sun.hotspot.events.ClassUnload", class_unload },
		{ "com.sun.hotspot.events.VirtualThreadMount", (jvmtiExtensionEvent)virtual_mount },
		{ "com.sun.hotspot.events.VirtualThreadUnmount",
		  (jvmtiExtensionEvent)virtual_unmount },
	};
	jvmtiExtensionEventInfo *events;
	jint count;

	if ((*jvmti)->GetExtensionEvents(jvmti, &count, &events) != JVMTI_ERROR_NONE)
		return;
	for (jint i = 0; i < count; i++) {
		jint index = events[i].extension_event_index;

		for (size_t j = 0; j < sizeof(wanted) / sizeof(wanted[0]); j++) {
			if (strcmp(events[i].id, wanted[j].id))
				continue;
			(*jvmti)->SetExtensionEventCallback(jvmti, index, wanted[j].callback);
			/* HotSpot wants that as well, and takes the index for the event. */
			(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, (jvmtiEvent)index,
							   NULL);
		}
	}
}

static bool begin(JavaVM *vm, bool later)
{
	if (jvmti || !hooks_area || !hooks_area->java_metrics)
		return false;
	if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK) {
		jvmti = NULL;
		return false;
	}
	hooks_java_begin();
	if (!capabilities_add(later)) {
		(*jvmti)->DisposeEnvironment(jvmti);
		jvmti = NULL;
		return false;
	}
	events_enable();
	extensions_enable();
	return true;
}

/* Never stops the machine from starting. */
SEEN jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
	begin(vm, false);
	return JNI_OK;
}

/* --- A machine that runs --------------------------------------------------------------------- */

/* Classes that are loaded already; those that cannot be changed run as they are. */
static void classes_again(JNIEnv *jni)
{
	jclass *classes;
	jint count, chosen = 0;

	if ((*jvmti)->GetLoadedClasses(jvmti, &count, &classes) != JVMTI_ERROR_NONE)
		return;
	for (jint i = 0; i < count; i++) {
		jboolean can = JNI_FALSE;
		jobject loader = NULL;

		(*jvmti)->IsModifiableClass(jvmti, classes[i], &can);
		(*jvmti)->GetClassLoader(jvmti, classes[i], &loader);
		if (can && loader)
			classes[chosen++] = classes[i];
		if (loader)
			(*jni)->DeleteLocalRef(jni, loader);
	}
	for (jint i = 0; i < chosen; i++)
		if ((*jvmti)->RetransformClasses(jvmti, 1, &classes[i]) != JVMTI_ERROR_NONE)
			java_count(CALL_JAVA_ODD, 1);
	(*jvmti)->Deallocate(jvmti, (unsigned char *)classes);
}

/*
 * Options: the area's path, where nothing else is done, since the machine does not look for native
 * methods here before this has returned; then "+", to begin; at last "-", from where on nothing is
 * recorded, and classes are as they were.
 */
SEEN jint JNICALL Agent_OnAttach(JavaVM *vm, char *options, void *reserved)
{
	JNIEnv *jni;

	if ((*vm)->GetEnv(vm, (void **)&jni, JNI_VERSION_10) != JNI_OK)
		return JNI_ERR;
	if (!strcmp(options, "+") && jvmti && !ready) {
		vm_init(jvmti, jni, NULL);
		if (ready)
			classes_again(jni);
		return ready ? JNI_OK : JNI_ERR;
	}
	if (!strcmp(options, "-") && ready) {
		ready = false;
		classes_again(jni);
		return JNI_OK;
	}
	if (*options != '/' || jvmti || hooks_area || !hooks_area_open(options))
		return JNI_ERR;
	return begin(vm, true) ? JNI_OK : JNI_ERR;
}
