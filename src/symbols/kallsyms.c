/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reads /proc/kallsyms, line by line: "ffffffff81000000 T name" and, in a module, a tab and "[module]". */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "symbols/kallsyms.h"

#define FUNCTIONS "tTwW"

/* Takes the line apart, which is changed. */
static bool parse(char *line, struct dp_ksym *sym, char *type)
{
	char *end, *module;

	sym->addr = strtoull(line, &end, 16);
	if (end == line || *end != ' ' || !end[1] || end[2] != ' ')
		return false;
	*type = end[1];
	sym->name = end + 3;
	sym->module = "";
	line = end + 3 + strcspn(end + 3, "\t\n");
	module = *line == '\t' ? strchr(line, '[') : NULL;
	*line = '\0';
	if (module) {
		module[strcspn(module, "]")] = '\0';
		sym->module = module + 1;
	}
	return true;
}

/*
 * Later kernels (7.3) show exported data like functions. The kernel's own symbols come in the order of their addresses:
 * its code, its data, the code of its start, the rest.
 */
static char type_of(const struct dp_ksym *sym, char type, bool *in_data)
{
	if (sym->module[0])
		return type;
	if (!strcmp(sym->name, "_etext") || !strcmp(sym->name, "_einittext"))
		*in_data = true;
	else if (!strcmp(sym->name, "_sinittext"))
		*in_data = false;
	return *in_data && strchr(FUNCTIONS, type) ? 'D' : type;
}

static int each(int (*fn)(const struct dp_ksym *sym, char type, void *arg), void *arg, struct dp_error *err)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	bool hidden = true, in_data = false;
	char *line = NULL;
	size_t room = 0;
	int r = 0;

	while (f && !r && getline(&line, &room, f) > 0) {
		struct dp_ksym sym;
		char type;

		if (!parse(line, &sym, &type))
			continue;
		hidden &= !sym.addr;
		r = fn(&sym, type_of(&sym, type, &in_data), arg);
	}
	free(line);
	if (f)
		fclose(f);
	if (!r && hidden)
		return dp_fail(err, E_KERNEL_LOOKUP, "the addresses in /proc/kallsyms are hidden");
	return r;
}

struct search {
	const char *module, *pattern;
	int (*fn)(const struct dp_ksym *sym, void *arg);
	void *arg;
};

bool dp_ksym_is_front(const char *name, const char *pattern)
{
	return (!strncmp(name, "__pfx_", 6) || !strncmp(name, "__cfi_", 6)) && strcmp(name, pattern) != 0;
}

static int try_function(const struct dp_ksym *sym, char type, void *arg)
{
	const struct search *s = arg;

	if (!strchr(FUNCTIONS, type) || strcmp(sym->module, s->module ? s->module : "") ||
	    fnmatch(s->pattern, sym->name, 0) || dp_ksym_is_front(sym->name, s->pattern))
		return 0;
	return s->fn(sym, s->arg);
}

int dp_kallsyms_each(const char *module, const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg),
		     void *arg, struct dp_error *err)
{
	struct search s = {module, pattern, fn, arg};

	return each(try_function, &s, err);
}

static int try_data(const struct dp_ksym *sym, char type, void *arg)
{
	const struct search *s = arg;

	return strchr("dDbBrR", type) && !fnmatch(s->pattern, sym->name, 0) ? s->fn(sym, s->arg) : 0;
}

int dp_kallsyms_each_data(const char *pattern, int (*fn)(const struct dp_ksym *sym, void *arg), void *arg,
			  struct dp_error *err)
{
	struct search s = {NULL, pattern, fn, arg};

	return each(try_data, &s, err);
}

struct wanted {
	const char *name;
	char module[64];
	u64 addr;
};

static int try_name(const struct dp_ksym *sym, char type, void *arg)
{
	struct wanted *w = arg;

	if (strcmp(sym->name, w->name) || (w->module[0] && strcmp(sym->module, w->module)))
		return 0;
	w->addr = sym->addr;
	return 1;
}

struct like {
	const char *name, *module;
	struct dp_near near;
};

static int try_like(const struct dp_ksym *sym, char type, void *arg)
{
	struct like *s = arg;

	if (!strcmp(sym->module, s->module))
		dp_near_try(&s->near, s->name, sym->name);
	return 0;
}

void dp_kallsyms_suggest(const char *name, struct dp_error *err)
{
	const char *colon = strchr(name, ':');
	char module[64] = "";
	struct like s = {.name = colon ? colon + 1 : name, .module = module};
	struct dp_error ignored;

	if (colon)
		snprintf(module, sizeof(module), "%.*s", (int)(colon - name), name);
	each(try_like, &s, &ignored);
	dp_near_hint(&s.near, "", err);
}

int dp_kallsyms_find(const char *name, u64 *addr, struct dp_error *err)
{
	const char *colon = strchr(name, ':');
	struct wanted w = {.name = colon ? colon + 1 : name};
	int r;

	if (colon)
		snprintf(w.module, sizeof(w.module), "%.*s", (int)(colon - name), name);
	r = each(try_name, &w, err);
	if (r < 0)
		return r;
	*addr = w.addr;
	if (r)
		return 0;
	r = dp_fail(err, E_KERNEL_SYMBOL, "%s", name);
	if (err)
		dp_kallsyms_suggest(name, err);
	return r;
}

/* ---- build-ids ---- */

/* The notes are those of an ELF file, one behind the other; names and contents are padded to four bytes. */
static bool find_build_id(const u8 *p, size_t n, char *hex, size_t size)
{
	u32 head[3]; /* bytes of the name, of the content, type */

	while (n >= sizeof(head)) {
		size_t name, content;

		memcpy(head, p, sizeof(head));
		name = DP_ALIGN_UP((size_t)head[0], 4);
		content = DP_ALIGN_UP((size_t)head[1], 4);
		p += sizeof(head);
		n -= sizeof(head);
		if (name > n || content > n - name)
			return false;
		if (head[2] == 3 && head[0] == 4 && !memcmp(p, "GNU", 4) && 2 * (size_t)head[1] < size) {
			for (u32 i = 0; i < head[1]; i++)
				snprintf(hex + 2 * i, 3, "%02x", p[name + i]);
			return head[1] != 0;
		}
		p += name + content;
		n -= name + content;
	}
	return false;
}

bool dp_kernel_build_id(const char *module, char *hex, size_t size)
{
	char path[320];
	u8 notes[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), module ? "/sys/module/%.200s/notes/.note.gnu.build-id" : "/sys/kernel/notes",
		 module);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(notes, 1, sizeof(notes), f);
	fclose(f);
	return find_build_id(notes, n, hex, size);
}
