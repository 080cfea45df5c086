// SPDX-License-Identifier: BSD-2-Clause
/*
 * Programs that start a Java virtual machine (java, javac, and others of a JDK) call JLI_Launch
 * with their arguments. This is called in its place, adds the agent, and goes on there. A variable
 * such as JAVA_TOOL_OPTIONS would do the same, but the machine then says so on the program's
 * output.
 */
#include <dlfcn.h>
#include <jni.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/call_area.h"

typedef int (*launch_fn)(int argc, char **argv, int jargc, const char **jargv, int appclassc,
			 const char **appclassv, const char *fullversion, const char *dotversion,
			 const char *pname, const char *lname, jboolean javaargs,
			 jboolean cpwildcard, jboolean javaw, jint ergo);

int JLI_Launch(int argc, char **argv, int jargc, const char **jargv, int appclassc,
	       const char **appclassv, const char *fullversion, const char *dotversion,
	       const char *pname, const char *lname, jboolean javaargs, jboolean cpwildcard,
	       jboolean javaw, jint ergo);

/* Arguments with one more; the same if there is no agent, or no memory. They live for ever. */
static char **arguments_make(int *argc, char **argv, bool javaargs)
{
	static char option[512];
	const char *agent = getenv(CALL_JAVA_VARIABLE);
	char **more = agent && *argc > 0 ? calloc((size_t)*argc + 2, sizeof(*more)) : NULL;

	if (!more)
		return argv;
	/* Programs other than java itself take options for the machine with -J. */
	snprintf(option, sizeof(option), "%s-agentpath:%s", javaargs ? "-J" : "", agent);
	more[0] = argv[0];
	more[1] = option;
	memcpy(more + 2, argv + 1, (size_t)(*argc - 1) * sizeof(*more));
	++*argc;
	return more;
}

__attribute__((visibility("default"))) int
JLI_Launch(int argc, char **argv, int jargc, const char **jargv, int appclassc,
	   const char **appclassv, const char *fullversion, const char *dotversion,
	   const char *pname, const char *lname, jboolean javaargs, jboolean cpwildcard,
	   jboolean javaw, jint ergo)
{
	launch_fn next = (launch_fn)dlsym(RTLD_NEXT, "JLI_Launch");

	if (!next)
		return 1;
	argv = arguments_make(&argc, argv, javaargs);
	return next(argc, argv, jargc, jargv, appclassc, appclassv, fullversion, dotversion, pname,
		    lname, javaargs, cpwildcard, javaw, ergo);
}
