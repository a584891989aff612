/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes list`: all probes in a process, those that it has set in itself through libdprobes and
 * those of a `dprobes trace`. Reads memory; the process does not notice, and may change its probes
 * meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/ask-kernel.h"
#include "cmd/cmd.h"
#include "abi/abi-device.h"
#include "host/process/untrusted.h"
#include "abi/abi-registry.h"
#include "host/self/self-priv.h"
#include "symbols/symbolize.h"
#include "symbols/symbols.h"

#define WIDEST 72 /* of the places that are aligned: C++ names may be longer than any line */

/* The address of the pointer to the newest probe; 0: the process does not use the library. */
static int find_head(struct dp_process *proc, u64 *head)
{
	struct self_registry reg;
	struct dp_error err;
	bool found;

	*head = 0;
	if (dp_process_registry(proc, "dp_self_registry", SELF_REGISTRY_MAGIC, SELF_REGISTRY_VERSION, &reg, sizeof(reg),
				&found, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	if (found)
		*head = reg.probes;
	return CMD_OK;
}

struct row {
	u64 addr;
	char type;
	char *place;
	const char *how;
	char who[40];
	char state[64];
};

struct rows {
	struct row *v;
	size_t n, cap;
	struct dp_process *proc;
	struct symbolizer *names;
};

/* A new row at the end, its place still to be filled in; NULL: no memory. */
static struct row *add_row(struct rows *rows, const char *place)
{
	if (!dp_grow((void **)&rows->v, &rows->cap, rows->n, sizeof(*rows->v)))
		return NULL;
	rows->v[rows->n] = (struct row){.place = strdup(place)};
	return rows->v[rows->n].place ? &rows->v[rows->n++] : NULL;
}

/* "module:symbol+0x12" */
static bool find_place(struct rows *rows, u64 addr, char *buf, size_t size)
{
	struct dp_image *im = dp_process_image_at(rows->proc, addr);
	char where[300];

	if (!im || !dp_symbolize(rows->names, addr, where, sizeof(where)))
		return false;
	snprintf(buf, size, "%s:%s", im->is_exe ? "exe" : dp_module_base(im->mod), where);
	return true;
}

/* What stands at the address of a probe of the library: it says so itself of jumps only. */
static const char *library_how(struct dp_process *proc, const struct kprobe *kp)
{
	u8 first;

	if (kp->flags & KPROBE_FLAG_OPTIMIZED)
		return "jump";
	return dp_process_peek(proc->pid, (u64)kp->addr, &first, 1) && first == DP_TRAP_BYTE ? "trap" : "-";
}

static int add_own(struct rows *rows, const struct dp_registered *s)
{
	char place[400] = "";
	struct kprobe kp;
	struct row *row;
	bool gone;

	if (!dp_process_peek(rows->proc->pid, (u64)s->kp, &kp, sizeof(kp)))
		return 0; /* unregistered a moment ago */
	gone = kp.flags & KPROBE_FLAG_GONE;
	if ((s->pending || gone || !find_place(rows, (u64)kp.addr, place, sizeof(place))) && kp.symbol_name) {
		dp_process_peek_name(rows->proc->pid, (u64)kp.symbol_name, place, sizeof(place) - 20);
		snprintf(place + strlen(place), 20, "+0x%x", kp.offset);
	}
	row = add_row(rows, place);
	if (!row)
		return -ENOMEM;
	row->addr = s->pending ? 0 : (u64)kp.addr;
	row->type = s->type;
	row->how = s->pending || gone || kp.flags & KPROBE_FLAG_DISABLED ? "-" : library_how(rows->proc, &kp);
	strcpy(row->who, "library");
	snprintf(row->state, sizeof(row->state), "%s%s%s%s%s", gone ? "  [GONE]" : "",
		 kp.flags & KPROBE_FLAG_DISABLED ? "  [DISABLED]" : "",
		 kp.flags & KPROBE_FLAG_OPTIMIZED ? "  [OPTIMIZED]" : "", s->pending ? "  [PENDING]" : "",
		 kp.flags & KPROBE_FLAG_RET_EXITS     ? "  [EXITS]"
		 : kp.flags & KPROBE_FLAG_RET_CLASSIC ? "  [CLASSIC]"
						      : "");
	return 0;
}

static int add_standing(struct rows *rows, const struct dp_standing *s)
{
	char place[400] = "";
	struct row *row;

	if (s->state == DP_STANDING_GONE)
		return 0;
	find_place(rows, s->addr, place, sizeof(place));
	row = add_row(rows, place);
	if (!row)
		return -ENOMEM;
	row->addr = s->addr;
	row->type = s->is_watch ? 'w' : s->is_return ? 'r' : 'p';
	row->how = s->is_watch ? "watch" : s->outcome == DP_OUTCOME_TRAP ? "trap" : "jump";
	if (s->owner)
		snprintf(row->who, sizeof(row->who), "dprobes %d%s", (int)s->owner,
			 dp_cmd_lives(s->owner) ? "" : " (ended)");
	else
		strcpy(row->who, "dprobes");
	if (s->state != DP_STANDING_ARMED)
		strcpy(row->state, s->state == DP_STANDING_ARMING ? "  [ARMING]" : "  [ALTERED]");
	return 0;
}

static void print_rows(const struct rows *rows)
{
	int wplace = 5, wwho = 3;

	for (size_t i = 0; i < rows->n; i++) {
		wplace = DP_MIN(DP_MAX(wplace, (int)strlen(rows->v[i].place)), WIDEST);
		wwho = DP_MAX(wwho, (int)strlen(rows->v[i].who));
	}
	if (rows->n)
		printf("%-16s  TYPE  %-*s  HOW   %-*s  STATE\n", "ADDRESS", wplace, "PLACE", wwho, "WHO");
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->v[i];

		printf("%016llx  %-4c  %-*s  %-5s %-*s%s\n", (unsigned long long)row->addr, row->type, wplace,
		       row->place[0] ? dp_ui_clean(row->place) : "-", row->how, row->state[0] ? wwho : 0, row->who,
		       row->state);
	}
}

static void free_rows(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		free(rows->v[i].place);
	free(rows->v);
}

/* Those of libdprobes, newest first. */
static int collect_own(struct rows *rows)
{
	pid_t pid = rows->proc->pid;
	struct dp_registered s;
	struct dp_walk w;
	u32 left = DP_WALK_STEPS;
	u64 at = 0;
	int r = find_head(rows->proc, &at);

	if (at && !dp_process_peek(pid, at, &at, sizeof(at)))
		at = 0;
	dp_walk_begin(&w, &left);
	for (; !r && dp_walk_to(&w, at) && dp_process_peek(pid, at, &s, sizeof(s)); at = (u64)s.prev)
		if (add_own(rows, &s))
			return dp_ui_fail(E_ARM_NOMEM, NULL, "the list");
	return r;
}

/* Those that a dprobes has set from outside, by address. */
static int collect_standing(struct rows *rows)
{
	struct dp_standing *v;
	struct dp_error err;
	u32 n;
	int r = 0;

	if (dp_standing_read(rows->proc->pid, &v, &n, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	for (u32 i = 0; i < n && !r; i++)
		if (add_standing(rows, &v[i]))
			r = dp_ui_fail(E_ARM_NOMEM, NULL, "the list");
	free(v);
	return r;
}

static int list(pid_t pid)
{
	struct dp_process proc;
	struct rows rows = {.proc = &proc};
	struct dp_error err;
	int r, r2;

	if (dp_process_read(&proc, pid, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	rows.names = dp_symbolizer_new(&proc);
	r = collect_own(&rows);
	r2 = collect_standing(&rows); /* what the one half cannot show does not hide the other */
	print_rows(&rows);
	free_rows(&rows);
	dp_symbolizer_free(rows.names);
	dp_process_free(&proc);
	return r ? r : r2;
}

int dp_cmd_list(int argc, char **argv)
{
	struct cmd_words w = {.most = 0};
	int status, r;

	if (!dp_cmd_words(VERB_LIST, argc, argv, &w, &status))
		return status;
	if (w.pid)
		return list(w.pid);
	status = access(DP_DEV_PATH, F_OK) ? CMD_OK : dp_cmd_list_kernel();
	r = dp_cmd_list_processes();
	return DP_MAX(status, r);
}
