/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes watch`: who writes to this variable? A trace of one watchpoint event, which records beside the old and the
 * new value what is needed to tell the place and its callers.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd-trace.h"
#include "symbols/sym-lines.h"

#define CALLERS_USUAL 12
#define CALLERS_MAX 63
#define FLAG_DF 0x400

struct watch {
	struct trace t; /* first */
	char line[4096];
	u32 callers;
	struct dp_layout shown; /* what the formatter sees */
};

/* ---- places ---- */

static void print_place(struct watch *w, u64 pc, bool is_return)
{
	struct dp_process *p = dp_tracee_process(&w->t.run.v[0]->tracee);
	/* A return address stands behind the call; the call itself is what is meant. */
	u64 at = pc - is_return;
	struct dp_image *im = dp_process_image_at(p, at);
	const char *file, *base;
	char name[512];
	u32 line;

	dp_symbol_text(dp_tracee_symbolize, &w->t.run.v[0]->tracee, pc, is_return, name, sizeof(name));
	fprintf(w->t.run.out.f, "        %s", dp_ui_clean(name));
	if (im && dp_module_line_at(im->mod, at - im->bias, &file, &line)) {
		base = strrchr(file, '/');
		fprintf(w->t.run.out.f, " (%s:%u)", dp_ui_clean(base ? base + 1 : file), line);
	} else if (im) {
		fprintf(w->t.run.out.f, " (%s)", dp_ui_clean(dp_module_base(im->mod)));
	}
	putc('\n', w->t.run.out.f);
}

/* What a hit's record has for us alone, behind what is shown. */
enum { HIDDEN_DI, HIDDEN_SI, HIDDEN_FLAGS, HIDDEN_CALLERS, HIDDEN };

static bool is_repeated(const struct dp_insn *in)
{
	return in->prefixes & (DP_PFX_F2 | DP_PFX_F3) && in->map == 0 && (in->opcode | 15) == 0xaf &&
	       (in->opcode | 1) != 0xa9;
}

/* Whether a repeated instruction with these pointers has just gone over one of the len bytes at addr. */
static bool went_over(u64 addr, u64 len, const struct dp_insn *in, const u64 hidden[HIDDEN_CALLERS])
{
	u64 size = !(in->opcode & 1) ? 1 : in->prefixes & DP_PFX_66 ? 2 : in->rex & 8 ? 8 : 4;
	u32 kind = in->opcode & 0xfe; /* movs a4, cmps a6, stos aa, lods ac, scas ae */

	for (u32 i = HIDDEN_DI; i <= HIDDEN_SI; i++) {
		bool used = i == HIDDEN_DI ? kind != 0xac : kind <= 0xa6 || kind == 0xac;
		u64 last = hidden[HIDDEN_FLAGS] & FLAG_DF ? hidden[i] + size : hidden[i] - size;

		if (used && last < addr + len && addr < last + size)
			return true;
	}
	return false;
}

/*
 * The instruction that made the access: it ends where the thread stood when it was told. A repeated one that is not
 * through stands there itself, with its pointers (rdi, rsi) behind the watched memory. False when control came there in
 * another way (a call that wrote to the stack, say).
 */
static bool find_access(struct watch *w, const struct dp_probe_info *p, const u64 hidden[HIDDEN_CALLERS], u64 ip,
			u64 *access)
{
	struct dp_image *im = dp_process_image_at(dp_tracee_process(&w->t.run.v[0]->tracee), ip - 1);
	const struct dp_text *text;
	struct dp_insn in;
	u64 link;

	if (!im || dp_module_text(im->mod, ip - 1 - im->bias, &text, NULL) || !text->starts)
		return false;
	link = ip - im->bias;
	if (link < text->hi && dp_insn_decode(&in, text->bytes + (link - text->lo), text->hi - link) > 0 &&
	    is_repeated(&in) && went_over(p->addr, p->event->watch_len, &in, hidden)) {
		*access = ip;
		return true;
	}
	for (u64 back = 1; back <= 15 && link - back >= text->lo; back++) {
		u64 i = link - back - text->lo;

		if (!(text->starts[i >> 3] >> (i & 7) & 1))
			continue;
		*access = ip - back;
		return dp_insn_decode(&in, text->bytes + i, text->hi - text->lo - i) == (int)back &&
		       dp_insn_traits(&in) & DP_INSN_FALLS;
	}
	return false;
}

/* ---- one hit ---- */

/* Copies a hidden field of at most n words; false: the program has written over its log. */
static bool hidden_words(const struct dp_record *rec, const struct dp_field *f, u64 *v, u32 n)
{
	u32 words = f->count ? f->count : 1;

	if (words > n || sizeof(*rec) + f->offset + words * 8u > rec->len)
		return false;
	memcpy(v, (const u8 *)(rec + 1) + f->offset, words * 8u);
	return true;
}

/* The callers: where the thread stood, and where its callers go on; ends with 0. */
static void show_callers(const struct dp_record *rec, void *arg)
{
	struct watch *w = arg;
	struct dp_probe_info p;
	const struct dp_field *f;
	u64 pcs[CALLERS_MAX + 1], hidden[HIDDEN_CALLERS], access;

	if (w->t.format != DP_FORMAT_TEXT || rec->event)
		return;
	dp_tracee_probe(&w->t.run.v[0]->tracee, 0, &p);
	f = p.event->prog.layout.fields + p.event->prog.layout.nfields - HIDDEN;
	for (u32 i = 0; i < HIDDEN_CALLERS; i++)
		if (!hidden_words(rec, &f[i], &hidden[i], 1))
			return;
	if (!hidden_words(rec, &f[HIDDEN_CALLERS], pcs, DP_ARRAY_SIZE(pcs)))
		return;
	if (p.event->watch_type != DP_WATCH_X && find_access(w, &p, hidden, pcs[0], &access))
		pcs[0] = access;
	for (u32 i = 0; i < f[HIDDEN_CALLERS].count && pcs[i]; i++)
		print_place(w, pcs[i], i > 0);
}

/* Called before anything is shown: what only we look at is not for the formatter. */
static void hide_callers(struct trace *t)
{
	struct watch *w = (struct watch *)t;

	w->shown = *t->run.infos[0].layout;
	w->shown.nfields -= HIDDEN;
	t->run.infos[0].layout = &w->shown;
	t->run.more = show_callers;
	t->run.more_arg = w;
}

/* ---- the command line ---- */

static bool append(struct watch *w, const char *text)
{
	size_t n = strlen(w->line);

	return (size_t)snprintf(w->line + n, sizeof(w->line) - n, " %s", text) < sizeof(w->line) - n;
}

struct words { /* operands: the variable, arguments, a condition */
	const char *v[128];
	u32 n;
	struct watch *w;
};

static int take_option(void *arg, int id, const char *value)
{
	struct words *words = arg;
	char *end;

	switch (id) {
	case CMD_OPT_OPERAND:
		if (words->n == DP_ARRAY_SIZE(words->v))
			return dp_ui_fail(E_CMD_EXTRA, NULL, "%s", value);
		words->v[words->n++] = value;
		return 0;
	case OPT_CALLERS:
		words->w->callers = (u32)strtoul(value, &end, 10);
		if (end == value || *end || words->w->callers > CALLERS_MAX)
			return dp_ui_fail(E_CMD_VALUE, "give a number up to 63", "'%s' callers", value);
		return 0;
	default:
		return dp_cmd_trace_option(&words->w->t, id, value);
	}
}

/* Where the condition begins in an operand such as "n=%di if new > 3", or NULL. */
static const char *find_if(const char *text)
{
	for (const char *p = text; (p = strstr(p, "if")); p += 2)
		if ((p == text || p[-1] == ' ') && (p[2] == ' ' || p[2] == '(' || !p[2]))
			return p;
	return NULL;
}

/* One event line: the variable, old and new, the user's arguments, ours, the condition. */
static int make_line(struct watch *w, const struct words *words)
{
	char hidden[64];
	bool in_condition = false, good;
	struct dp_error err;

	snprintf(hidden, sizeof(hidden), "_di=%%di _si=%%si _flags=%%flags _callers=$backtrace:symbol[%u]",
		 w->callers + 1);
	/* What belongs to a call is somewhere else each time, and of many bytes some are written. */
	snprintf(w->line, sizeof(w->line), "w %s%s old=$old new=$new", words->v[0],
		 strchr(words->v[0], '(') || w->t.opt.pages ? " at=$addr" : "");
	good = true;
	for (u32 i = 1; i < words->n; i++) {
		const char *text = words->v[i], *cond = in_condition ? NULL : find_if(text);
		char before[1024];

		if (cond) {
			snprintf(before, sizeof(before), "%.*s", (int)(cond - text), text);
			good = good && (size_t)(cond - text) < sizeof(before) && append(w, before) && append(w, hidden);
			in_condition = true;
			text = cond;
		}
		good = good && append(w, text);
	}
	if (!in_condition)
		good = good && append(w, hidden);
	if (!good)
		return dp_ui_fail(E_EVENT_LONG, NULL, "%s", words->v[0]);
	if (dp_event_lines_add(&w->t.lines, w->line, "", &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	if (dp_cmd_trace_ends(&w->t))
		return CMD_FAILED;
	dp_event_lines_parse(&w->t.lines, false);
	return CMD_OK;
}

int dp_cmd_watch(int argc, char **argv)
{
	struct watch w = {.t = {.status = CMD_OK, .adapt = hide_callers}, .callers = CALLERS_USUAL};
	struct words words = {.w = &w};
	bool done = false, by_pid;
	pid_t pid;
	int r = dp_cmd_options(VERB_WATCH, argc, argv, take_option, &words, &w.t.command, &done);

	if (r || done)
		return r;
	if (!words.n)
		return dp_ui_fail(E_CMD_MISSING, "for example: redis-server:server.dirty", "no variable");
	by_pid = dp_select_any(&w.t.select);
	if (by_pid == !!w.t.command)
		return dp_ui_fail(by_pid ? E_CMD_EXTRA : E_CMD_MISSING, "give a process with -p, or a command after --",
				  by_pid ? "both -p and a command" : "no process to watch");
	r = dp_cmd_select_one(&w.t, &pid) ? make_line(&w, &words) : CMD_FAILED;
	if (r)
		dp_event_lines_free(&w.t.lines);
	else
		r = dp_cmd_trace_run(&w.t);
	return r;
}
