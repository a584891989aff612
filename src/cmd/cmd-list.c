/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes list`: all probes in a process, those that it has set in itself through libdprobes and
 * those of a `dprobes trace`. Reads memory; the process does not notice, and may change its probes
 * meanwhile.
 */
#include <ctype.h>
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

enum state {
	GONE = 1,
	DISABLED = 2,
	OPTIMIZED = 4,
	PENDING = 8,
	EXITS = 16,
	CLASSIC = 32,
	ARMING = 64,
	ALTERED = 128,
	TAKEN_OUT = 256
};

static const char *const states[] = {"gone",    "disabled", "optimized", "pending",  "exits",
				     "classic", "arming",   "altered",   "taken out"};

struct row {
	u64 addr;
	char type;
	char *place;
	const char *how;
	bool library;
	pid_t owner; /* a dprobes; 0: the library, or not known */
	u32 state;   /* of enum state */
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
	row->library = true;
	row->state = (gone ? GONE : 0) | (kp.flags & KPROBE_FLAG_DISABLED ? DISABLED : 0) |
		     (kp.flags & KPROBE_FLAG_OPTIMIZED ? OPTIMIZED : 0) | (s->pending ? PENDING : 0) |
		     (kp.flags & KPROBE_FLAG_RET_EXITS     ? EXITS
		      : kp.flags & KPROBE_FLAG_RET_CLASSIC ? CLASSIC
							   : 0);
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
	row->owner = s->owner;
	if (s->state != DP_STANDING_ARMED)
		row->state = s->state == DP_STANDING_ARMING ? ARMING
			     : s->state == DP_STANDING_OUT  ? TAKEN_OUT
							    : ALTERED;
	return 0;
}

/* The result lasts until the next call. */
static const char *who(const struct row *row)
{
	static char text[40];

	if (row->library)
		return "library";
	if (!row->owner)
		return "dprobes";
	if (row->owner == DP_OWNER_UNSEEN)
		snprintf(text, sizeof(text), "dprobes elsewhere");
	else
		snprintf(text, sizeof(text), "dprobes %d%s", (int)row->owner,
			 dp_cmd_lives(row->owner) ? "" : " (ended)");
	return text;
}

static void put_states(u32 state)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(states); i++) {
		if (!(state >> i & 1))
			continue;
		fputs("  [", stdout);
		for (const char *c = states[i]; *c; c++)
			putchar(toupper((unsigned char)*c));
		putchar(']');
	}
}

static void print_rows(const struct rows *rows)
{
	int wplace = 5, wwho = 3;

	for (size_t i = 0; i < rows->n; i++) {
		wplace = DP_MIN(DP_MAX(wplace, (int)strlen(rows->v[i].place)), WIDEST);
		wwho = DP_MAX(wwho, (int)strlen(who(&rows->v[i])));
	}
	if (rows->n)
		printf("%-16s  TYPE  %-*s  HOW   %-*s  STATE\n", "ADDRESS", wplace, "PLACE", wwho, "WHO");
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->v[i];

		printf("%016llx  %-4c  %-*s  %-5s %-*s", (unsigned long long)row->addr, row->type, wplace,
		       row->place[0] ? dp_ui_clean(row->place) : "-", row->how, row->state ? wwho : 0, who(row));
		put_states(row->state);
		putchar('\n');
	}
}

/* As json_row() in ask-kernel.c has it. */
static void json_row(const struct row *row)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_cmd_json_address(&j, "address", row->addr);
	dp_json_key(&j, "type");
	dp_json_text(&j, &row->type, 1);
	dp_json_put_string(&j, "place", row->place);
	dp_json_put_string(&j, "how", row->how);
	dp_json_put_string(&j, "who", row->library ? "library" : "dprobes");
	dp_cmd_json_owner(&j, row->owner);
	dp_json_key(&j, "state");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < DP_ARRAY_SIZE(states); i++)
		if (row->state >> i & 1)
			dp_json_string(&j, states[i]);
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
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

static int list(pid_t pid, bool json)
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
	for (size_t i = 0; json && i < rows.n; i++)
		json_row(&rows.v[i]);
	if (!json)
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
	bool json;

	if (!dp_cmd_words(VERB_LIST, argc, argv, &w, &status))
		return status;
	json = dp_cmd_has(&w, OPT_JSON);
	if (w.pid)
		return list(w.pid, json);
	status = access(DP_DEV_PATH, F_OK) ? CMD_OK : dp_cmd_list_kernel(json);
	r = dp_cmd_list_processes(json);
	return DP_MAX(status, r);
}
