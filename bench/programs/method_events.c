// SPDX-License-Identifier: BSD-2-Clause
// An agent that asks for an event at each entry and exit of a Java method, and counts them.
#include <jvmti.h>
#include <stdint.h>
#include <string.h>

static uint64_t events;

static void JNICALL entered(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jmethodID method)
{
	events++;
}

static void JNICALL left(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jmethodID method,
			 jboolean thrown, jvalue value)
{
	events++;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *options, void *reserved)
{
	jvmtiEnv *jvmti;
	jvmtiCapabilities want = { 0 };
	jvmtiEventCallbacks callbacks = { 0 };

	if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_11) != JNI_OK)
		return JNI_ERR;
	want.can_generate_method_entry_events = want.can_generate_method_exit_events = 1;
	callbacks.MethodEntry = entered;
	callbacks.MethodExit = left;
	(*jvmti)->AddCapabilities(jvmti, &want);
	(*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks));
	(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_METHOD_ENTRY, NULL);
	(*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_METHOD_EXIT, NULL);
	return JNI_OK;
}
