/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * C++ names: the C++ runtime's own demangler, when that library is installed. It is loaded at the
 * first need and never required; without it C++ functions are known by their mangled names.
 */
#include <dlfcn.h>
#include <string.h>

#include "symbols/module-priv.h"

typedef char *demangler(const char *name, char *buf, size_t *size, int *status);

char *mod_demangle(const char *name)
{
	static demangler *fn;
	static bool tried;
	char plain[1024];
	size_t len = strcspn(name, "@");
	int status = 0;

	if (strncmp(name, "_Z", 2) || len >= sizeof(plain))
		return NULL;
	if (!tried) {
		void *lib = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);

		tried = true;
		if (lib)
			*(void **)&fn = dlsym(lib, "__cxa_demangle");
	}
	if (!fn)
		return NULL;
	memcpy(plain, name, len);
	plain[len] = '\0';
	return fn(plain, NULL, NULL, &status);
}
