/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * C++ names: the C++ runtime's own demangler, when that library is installed. It is loaded at the
 * first need and never required; without it C++ functions are known by their mangled names.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/module-priv.h"

typedef char *demangler(const char *name, char *buf, size_t *size, int *status);

/* Rust's names of the older kind end in "::h" and sixteen digits that nobody writes. */
static void strip_hash(char *text)
{
	size_t n = strlen(text);

	if (n > 19 && !strncmp(text + n - 19, "::h", 3) && strspn(text + n - 16, "0123456789abcdef") == 16)
		text[n - 19] = '\0';
}

char *dp_mod_demangle(const char *name)
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

/* Asked at each character of a hundred thousand names: most often one look tells. */
static bool begins_with(const char *text, const char *word)
{
	return *text == *word && !strncmp(text, word, strlen(word));
}

size_t dp_mod_without_params(const char *d)
{
	int depth = 0;

	for (const char *p = d; *p; p++) {
		if (begins_with(p, "operator")) { /* its symbols are no brackets */
			p += 8;
			if (!strncmp(p, "()", 2))
				p += 2;
			p += strspn(p, "<>-=");
			if (!*p)
				break;
		}
		if (*p == '<')
			depth++;
		else if (*p == '>')
			depth--;
		else if (begins_with(p, "(anonymous namespace)"))
			p += 20;
		else if (*p == '(' && depth <= 0)
			return (size_t)(p - d);
	}
	return strlen(d);
}

bool dp_mod_demangled_agrees(const char *d, const char *wanted)
{
	size_t n = dp_mod_without_params(d), w = strlen(wanted);

	if (!strcmp(d, wanted))
		return true;
	if (n < w || memcmp(d + n - w, wanted, w))
		return false;
	return n == w || d[n - w - 1] == ' ';
}

/* A template's name begins with what it returns: where the name itself begins, of n bytes without parameters. */
static size_t return_type(const char *d, size_t n)
{
	size_t begin = 0;
	int depth = 0;

	for (size_t i = 0; i < n; i++) {
		if (begins_with(d + i, "operator"))
			break;
		if (begins_with(d + i, "(anonymous namespace)"))
			i += 20;
		else if (d[i] == '<' || d[i] == '(')
			depth++;
		else if (d[i] == '>' || d[i] == ')')
			depth--;
		else if (d[i] == ' ' && !depth)
			begin = i + 1;
	}
	return begin;
}

const char *dp_symbol_shown(const char *name, bool params, char *buf, size_t size)
{
	char *d = dp_mod_demangle(name);
	const char *part = strchr(name, '.'); /* .cold, .part.0 */
	size_t n, begin;

	if (!d)
		return name;
	n = dp_mod_without_params(d);
	begin = params ? 0 : return_type(d, n);
	if (params)
		dp_format(buf, size, "%s", d);
	else
		dp_format(buf, size, "%.*s%s", (int)(n - begin), d + begin, part ? part : "");
	free(d);
	return buf;
}
