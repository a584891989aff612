/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * C++ names: the C++ runtime's own demangler, when that library is installed. It is loaded at the
 * first need and never required; without it C++ functions are known by their mangled names.
 */
#include <dlfcn.h>
#include <string.h>

#include "symbols/module-priv.h"

typedef char *demangler(const char *name, char *buf, size_t *size, int *status);

/* Rust's names of the older kind end in "::h" and sixteen digits that nobody writes. */
static void strip_hash(char *text)
{
	size_t n = strlen(text);

	if (n > 19 && !strncmp(text + n - 19, "::h", 3) &&
	    strspn(text + n - 16, "0123456789abcdef") == 16)
		text[n - 19] = '\0';
}

char *mod_demangle(const char *name)
{
	static demangler *fn;
	static bool tried;
	char plain[1024];
	size_t len = strcspn(name, "@");
	int status = 0;
	char *text;

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
	text = fn(plain, NULL, NULL, &status);
	if (text)
		strip_hash(text);
	return text;
}
