/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the static dprobes has in the place of libraries that others load while they run. It must load none: a library
 * of the host would bring a second C library along, of any version. The linker puts these functions in the place of
 * those of the C library (--wrap, meson.build).
 */
#include <dlfcn.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/built.h"

const bool dp_built_static = true;

void *__wrap_dlopen(const char *file, int mode);
void *__wrap_dlsym(void *lib, const char *name);
int __wrap_dlclose(void *lib);
char *__wrap_dlerror(void);
struct passwd *__wrap_getpwnam(const char *name);
char *__cxa_demangle(const char *name, char *buf, size_t *size, int *status);

static char runtime; /* its address is the handle of the C++ runtime, of which the demangler is linked in */

void *__wrap_dlopen(const char *file, int mode)
{
	return file && !strcmp(file, "libstdc++.so.6") ? &runtime : NULL;
}

void *__wrap_dlsym(void *lib, const char *name)
{
	return lib == &runtime && !strcmp(name, "__cxa_demangle") ? (void *)__cxa_demangle : NULL;
}

int __wrap_dlclose(void *lib)
{
	return 0;
}

char *__wrap_dlerror(void)
{
	return (char *)"a static program loads no libraries";
}

/* The file only: other sources of users are libraries. */
struct passwd *__wrap_getpwnam(const char *name)
{
	FILE *f = fopen("/etc/passwd", "re");
	struct passwd *p = NULL;

	while (f && (p = fgetpwent(f)) && strcmp(p->pw_name, name) != 0)
		;
	if (f)
		fclose(f);
	return p;
}
