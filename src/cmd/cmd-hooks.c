/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes hooks`: the hooks and exits of a process or of the kernel, armed and disarmed from
 * outside. A process is read and written (host/process/process-hooks.c); the kernel's module has files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "host/process/process-hooks.h"
#include "symbols/symbolize.h"

#define FILES "/sys/kernel/debug/dprobes/"

struct order {
	char *hook, *exit; /* exit NULL: the hook itself */
	bool on;
};

struct request {
	pid_t pid;
	bool json;
	struct order *v;
	size_t n, cap;
};

static int take(void *arg, int id, const char *value)
{
	struct request *q = arg;
	struct order *o;
	char *colon;

	switch (id) {
	case OPT_PID:
		return dp_cmd_parse_process(value, &q->pid) ? CMD_OK : CMD_USAGE;
	case OPT_JSON:
		q->json = true;
		return CMD_OK;
	case CMD_OPT_OPERAND:
		return dp_ui_fail(E_CMD_EXTRA, NULL, "%s", value);
	}
	if (!dp_grow((void **)&q->v, &q->cap, q->n, sizeof(*o)))
		return dp_ui_fail(E_ARM_NOMEM, NULL, "the options");
	o = &q->v[q->n++];
	*o = (struct order){.hook = strdup(value), .on = id == OPT_ARM};
	colon = o->hook ? strchr(o->hook, ':') : NULL;
	if (colon) {
		*colon = '\0';
		o->exit = colon + 1;
	}
	return o->hook ? CMD_OK : dp_ui_fail(E_ARM_NOMEM, NULL, "the options");
}

static const char *kind_of(const struct dp_hook_info *h)
{
	return h->dynamic                  ? "dynamic"
	       : h->flags & HOOK_EXCLUSIVE ? "exclusive"
	       : h->flags & HOOK_ASM       ? "hook"
					   : "generic";
}

/* ---- showing ---- */

static void show_json(const struct dp_hook_info *h)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_key(&j, "hook");
	dp_json_string(&j, h->name);
	dp_json_key(&j, "kind");
	dp_json_string(&j, kind_of(h));
	dp_json_key(&j, "places");
	dp_json_unsigned(&j, h->nplaces);
	dp_json_put_bool(&j, "active", h->flags & HOOK_ACTIVE);
	dp_json_put_bool(&j, "open", h->flags & HOOK_OPEN);
	dp_json_key(&j, "exits");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < h->nexits; i++) {
		dp_json_open(&j, '{');
		dp_json_key(&j, "exit");
		dp_json_string(&j, h->exits[i].name);
		dp_json_key(&j, "position");
		dp_json_signed(&j, h->exits[i].position);
		dp_json_put_bool(&j, "armed", h->exits[i].armed);
		dp_json_put_bool(&j, "writable", h->exits[i].writable);
		dp_json_close(&j, '}');
	}
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static void show_text(const struct dp_hook_info *v, u32 n)
{
	int width = 4;

	for (u32 i = 0; i < n; i++) {
		width = DP_MAX(width, (int)strlen(v[i].name));
		for (u32 k = 0; k < v[i].nexits; k++)
			width = DP_MAX(width, (int)strlen(v[i].exits[k].name) + 5);
	}
	if (n)
		printf("%-*s  %-9s  %6s  STATE\n", width, "HOOK", "KIND", "PLACES");
	for (u32 i = 0; i < n; i++) {
		printf("%-*s  %-9s  %6u  %s\n", width, dp_ui_clean(v[i].name), kind_of(&v[i]), v[i].nplaces,
		       v[i].flags & HOOK_OPEN     ? "open"
		       : v[i].flags & HOOK_ACTIVE ? "active"
						  : "-");
		for (u32 k = 0; k < v[i].nexits; k++)
			printf("%3d  %-*s  %-9s  %6s  %s\n", v[i].exits[k].position, width - 5,
			       dp_ui_clean(v[i].exits[k].name), v[i].exits[k].writable ? "writable" : "", "",
			       v[i].exits[k].armed ? "armed" : "-");
	}
}

static void show(const struct dp_hook_info *v, u32 n, bool json)
{
	for (u32 i = 0; json && i < n; i++)
		show_json(&v[i]);
	if (!json)
		show_text(v, n);
}

/* ---- a process ---- */

static int told(const struct dp_error *err)
{
	dp_ui_error(err, NULL);
	return dp_ui_status(err->code);
}

/* Exits without a name are shown by their function. */
static void name_exits(struct dp_process *proc, struct dp_hook_info *v, u32 n)
{
	struct symbolizer *names = dp_symbolizer_new(proc);

	for (u32 i = 0; i < n; i++)
		for (u32 k = 0; k < v[i].nexits; k++) {
			struct dp_hook_exit *e = &v[i].exits[k];
			char *plus;

			if (e->name[0])
				continue;
			if (!names || !dp_symbolize(names, e->exit, e->name, sizeof(e->name)))
				snprintf(e->name, sizeof(e->name), "0x%llx", (unsigned long long)e->exit);
			plus = strrchr(e->name, '+');
			if (plus && !strcmp(plus, "+0x0"))
				*plus = '\0';
		}
	dp_symbolizer_free(names);
}

static const struct dp_hook_info *find_hook(const struct dp_hook_info *v, u32 n, const char *name)
{
	for (u32 i = 0; i < n; i++)
		if (!strcmp(v[i].name, name))
			return &v[i];
	return NULL;
}

static int carry_out(struct dp_process *proc, const struct dp_hook_info *v, u32 n, const struct order *o)
{
	const struct dp_hook_info *h = find_hook(v, n, o->hook);
	const struct dp_hook_exit *e = NULL;
	struct dp_error err = {.column = -1};

	for (u32 k = 0; h && o->exit && k < h->nexits; k++)
		if (!strcmp(h->exits[k].name, o->exit))
			e = &h->exits[k];
	if (!h || (o->exit && !e))
		return dp_ui_fail(E_HOOK_NONE, NULL, "%s%s%s", o->hook, o->exit ? ":" : "", o->exit ? o->exit : "");
	if (e && !e->writable)
		return dp_ui_fail(E_HOOK_CLOSED, NULL, "%s:%s", o->hook, o->exit);
	return dp_hooks_set(proc, h, e, o->on, &err) ? told(&err) : CMD_OK;
}

static int hooks_of_process(const struct request *q)
{
	struct dp_hook_info *v = NULL;
	struct dp_process proc;
	struct dp_error err;
	int r = CMD_OK;
	u32 n;

	if (dp_process_read(&proc, q->pid, &err))
		return told(&err);
	if (dp_hooks_read(&proc, &v, &n, &err)) {
		dp_process_free(&proc);
		return told(&err);
	}
	name_exits(&proc, v, n);
	for (size_t i = 0; i < q->n && !r; i++)
		r = carry_out(&proc, v, n, &q->v[i]);
	if (!q->n)
		show(v, n, q->json);
	dp_hooks_free(v, n);
	dp_process_free(&proc);
	return r;
}

/* ---- the kernel ---- */

static int read_kernel(struct dp_hook_info **v, u32 *n)
{
	FILE *f = fopen(FILES "hook_list", "re");
	char line[400], name[DP_HOOK_NAME], kind[16];
	int a, b, c, state;
	size_t cap = 0, ecap = 0;

	if (!f)
		return dp_ui_fail(E_KERNEL_DEVICE, NULL, "%s: %s", FILES "hook_list", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		struct dp_hook_info *h = *n ? &(*v)[*n - 1] : NULL;

		if (line[0] != ' ' && sscanf(line, "%127s %d %15s %d", name, &state, kind, &a) == 4) {
			if (!dp_grow((void **)v, &cap, *n, sizeof(**v)))
				break;
			h = &(*v)[(*n)++];
			ecap = 0;
			*h = (struct dp_hook_info){.nplaces = (u32)a, .dynamic = !strcmp(kind, "dynamic")};
			h->flags = (state & 1 ? HOOK_ACTIVE : 0) | (state & 2 ? HOOK_OPEN : 0) |
				   (!strcmp(kind, "exclusive") ? HOOK_EXCLUSIVE | HOOK_ASM : 0) |
				   (!strcmp(kind, "hook") ? HOOK_ASM : 0);
			strcpy(h->name, name);
		} else if (h && sscanf(line, " %127s %d %d %d", name, &a, &b, &c) == 4) {
			if (!dp_grow((void **)&h->exits, &ecap, h->nexits, sizeof(*h->exits)))
				break;
			h->exits[h->nexits] = (struct dp_hook_exit){.armed = a, .writable = b, .position = c};
			strcpy(h->exits[h->nexits++].name, name);
		}
	}
	fclose(f);
	return CMD_OK;
}

static int write_kernel(const struct order *o)
{
	char path[2 * DP_HOOK_NAME + 64], text[DP_HOOK_NAME + 2];
	ssize_t n = -1;
	int fd;

	if (o->exit)
		snprintf(path, sizeof(path), FILES "hooks/%s/%s", o->hook, o->exit);
	else
		snprintf(path, sizeof(path), FILES "hook_list");
	snprintf(text, sizeof(text), "%s%s", o->exit ? "" : o->on ? "+" : "-", !o->exit ? o->hook : o->on ? "1" : "0");
	fd = strchr(o->hook, '/') || (o->exit && strchr(o->exit, '/')) ? -1 : open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		n = write(fd, text, strlen(text));
	if (n < 0)
		dp_ui_fail(errno == EPERM        ? E_HOOK_CLOSED
			   : errno == ENOENT     ? E_HOOK_NONE
			   : errno == EBUSY      ? E_HOOK_SITE
			   : errno == EOPNOTSUPP ? E_HOOK_DYNAMIC
						 : E_KERNEL_DEVICE,
			   NULL, "%s%s%s: %s", o->hook, o->exit ? ":" : "", o->exit ? o->exit : "", strerror(errno));
	if (fd >= 0)
		close(fd);
	return n < 0 ? CMD_FAILED : CMD_OK;
}

static int hooks_of_kernel(const struct request *q)
{
	struct dp_hook_info *v = NULL;
	u32 n = 0;
	int r = CMD_OK;

	for (size_t i = 0; i < q->n && !r; i++)
		r = write_kernel(&q->v[i]);
	if (!q->n)
		r = read_kernel(&v, &n);
	if (!q->n && !r)
		show(v, n, q->json);
	dp_hooks_free(v, n);
	return r;
}

int dp_cmd_hooks(int argc, char **argv)
{
	struct request q = {0};
	bool done = false;
	int r = dp_cmd_options(VERB_HOOKS, argc, argv, take, &q, NULL, &done);

	if (!r && !done)
		r = q.pid ? hooks_of_process(&q) : hooks_of_kernel(&q);
	for (size_t i = 0; i < q.n; i++)
		free(q.v[i].hook);
	free(q.v);
	return r;
}
