/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Our own probes, through the process host's interface: armed and removed like any rival. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "host/process/process.h"
#include "lang/rpn/rpn.h"
#include "log/reader.h"
#include "../tests/lib/add-line.h"

struct ours {
	struct dp_session *session;
	struct dp_reader *reader;
	bench_u64 records;
};

static void detach(struct bench_contender *c)
{
	struct ours *s = c->state;
	struct dp_error err = {0};

	dp_reader_close(s->reader);
	if (s->session && dp_session_remove(s->session, &err))
		fprintf(stderr, "bench: removing: %s: %s\n", dp_error_info(err.code)->name, err.detail);
	dp_session_free(s->session);
	free(s);
	c->state = NULL;
}

/* text: event lines, '@' stands for the place. */
static int add_events(struct dp_session *session, const char *text, const struct bench_place *p, struct dp_error *err)
{
	char lines[512], event[1024], *save, *def;
	int r = 0;

	snprintf(lines, sizeof(lines), "%s", text);
	for (def = strtok_r(lines, "\n", &save); def && !r; def = strtok_r(NULL, "\n", &save)) {
		char *at = strchr(def, '@');

		snprintf(event, sizeof(event), "%.*s%s:%s%s", (int)(at - def), def, p->module, p->symbol, at + 1);
		r = add_line(session, event, err);
	}
	return r;
}

/* text: the instructions of a probe program, behind a word that says how it is to run. */
static int add_program(struct dp_session *session, const char *text, const struct bench_place *p, struct dp_error *err)
{
	struct dp_probe_spec sp = {.opcode = -1, .locals = 0, .gate = 4};
	const char *body = strchr(text, ' ') + 1;
	struct dp_rpn_unit unit;
	const u64 words[5] = {0};
	char source[1024];
	int r;

	snprintf(source, sizeof(source), "name = x\nlogmax = 100\nvars = 4\njmpmax = 100\noffset = f\n%s", body);
	r = dp_rpn_parse(&unit, source, "bench", ".", NULL, 0, err);
	if (r)
		return r;
	sp.jit = text[0] == 'c' ? DP_JIT_ON : DP_JIT_OFF;
	snprintf(sp.place.module, sizeof(sp.place.module), "%s", p->module);
	snprintf(sp.place.symbol, sizeof(sp.place.symbol), "%s", p->symbol);
	sp.place.kind = DP_LOC_SYMBOL;
	sp.program = &unit.probes[0].prog;
	r = dp_session_add_spec(session, &sp, err);
	if (!r)
		r = dp_session_set_words(session, words, DP_ARRAY_SIZE(words), err);
	dp_rpn_free(&unit);
	return r;
}

static int attach(struct bench_contender *c, const struct bench_target *t, const struct bench_place *p, char *why)
{
	const struct dp_session_options opt = {.ring_size = 1 << 20}; /* as `dprobes trace` has it */
	struct ours *s = calloc(1, sizeof(*s));
	struct dp_error err = {0};
	int r;

	c->state = s;
	r = dp_session_new(&s->session, t->pid, &opt, &err);
	if (!r)
		r = (strchr(c->text, '@') ? add_events : add_program)(s->session, c->text, p, &err);
	if (!r)
		r = dp_session_arm(s->session, &err);
	if (!r)
		r = dp_reader_open(&s->reader, dp_session_rings(s->session), &err);
	if (!r)
		return 0;
	snprintf(why, WHY_SIZE, "%s: %.180s", dp_error_info(err.code)->name, err.detail);
	detach(c);
	return -1;
}

static void take(const struct dp_record *rec, u64 ns, void *arg)
{
	struct ours *s = arg;

	(void)rec;
	(void)ns;
	s->records++;
}

static void drain(struct bench_contender *c)
{
	struct ours *s = c->state;

	dp_reader_drain(s->reader, false, take, s);
}

static void sum(struct ours *s, bench_u64 *hits, bench_u64 *lost)
{
	struct dp_counts counts;

	*hits = *lost = 0;
	for (u32 i = 0; i < dp_session_nprobes(s->session); i++) {
		dp_reader_counts(s->reader, i, &counts);
		for (int k = DP_COUNT_RECORDED; k <= DP_COUNT_LOST; k++)
			*hits += counts.v[k];
		*lost += counts.v[DP_COUNT_LOST] + counts.v[DP_COUNT_MISSED];
	}
}

static bench_u64 hits(struct bench_contender *c)
{
	bench_u64 n, lost;

	sum(c->state, &n, &lost);
	return n;
}

static bench_u64 lost(struct bench_contender *c)
{
	bench_u64 n, missing;

	sum(c->state, &n, &missing);
	return missing;
}

#define OURS .ours = true, .attach = attach, .detach = detach, .drain = drain, .hits = hits, .lost = lost

#define EMPTY "abort"
#define FALSE_CONDITION "push r, rdi; push d, 0x7fffffffffff; gt; jnz yes; abort; yes: exit"
/* Ten instructions, four arguments. */
#define RECORD                                                                                    \
	"push r, rdi; push d, 0x7fffffffffff; le; jz no; push r, rcx; push r, rdx; push r, rsi; " \
	"push r, rdi; log 4; exit; no: abort"
#define COUNTED "inc lv, 0; push r, rdi; push r, rsi; push r, rdx; push d, 3; and; push r, rcx; ros 0; log 4; exit"

struct bench_contender bench_dprobes[] = {
    {.name = "dprobes, empty probe", .job = JOB_HIT, OURS, .text = "p @ if 0", .hits_per_call = 1},
    {.name = "dprobes, false filter",
     .job = JOB_FILTER,
     OURS,
     .text = "p @ a=%di if $arg1 > 0x7fffffffffff",
     .hits_per_call = 1},
    {.name = "dprobes, 4 arguments",
     .job = JOB_RECORD,
     OURS,
     .text = "p @ a=%di b=%si c=%dx d=%cx",
     .hits_per_call = 1},
    {.name = BENCH_POINTER,
     .job = JOB_WORDS,
     OURS,
     .is_step = true,
     .text = "p @ a=%si",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = BENCH_WORD,
     .job = JOB_WORDS,
     OURS,
     .is_step = true,
     .text = "p @ a=+0(%si):u64",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = BENCH_WORDS,
     .job = JOB_WORDS,
     OURS,
     .text = "p @ a=+0(%si):u64 b=+8(%si):u64 c=+16(%si):u64 d=+24(%si):u64",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = "dprobes, string in the program's data",
     .job = JOB_STRING,
     OURS,
     .text = "p @ s=+0(%di):string",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = BENCH_STRING,
     .job = JOB_STRING,
     OURS,
     .text = "p @ s=+0(%si):string",
     .hits_per_call = 1,
     .places = 1 << FUNC_NOP5 | 1 << FUNC_PUSH},
    {.name = "dprobes -i, empty program", .job = JOB_HIT, OURS, .text = "compiled " EMPTY, .hits_per_call = 1},
    {.name = "dprobes -i, the same interpreted",
     .job = JOB_HIT,
     OURS,
     .text = "interpreted " EMPTY,
     .hits_per_call = 1},
    {.name = "dprobes -i, false predicate",
     .job = JOB_FILTER,
     OURS,
     .text = "compiled " FALSE_CONDITION,
     .hits_per_call = 1},
    {.name = "dprobes -i, the same interpreted",
     .job = JOB_FILTER,
     OURS,
     .text = "interpreted " FALSE_CONDITION,
     .hits_per_call = 1},
    {.name = "dprobes -i, 10 instructions, 4 arguments",
     .job = JOB_RECORD,
     OURS,
     .text = "compiled " RECORD,
     .hits_per_call = 1},
    {.name = "dprobes -i, the same interpreted",
     .job = JOB_RECORD,
     OURS,
     .text = "interpreted " RECORD,
     .hits_per_call = 1},
    {.name = "dprobes -i, the same with a counter",
     .job = JOB_RECORD,
     OURS,
     .text = "compiled " COUNTED,
     .hits_per_call = 1},
    {.name = "dprobes, entry + exit", .job = JOB_PAIR, OURS, .text = "p @\nr @", .hits_per_call = 2},
};
const size_t bench_dprobes_n = sizeof(bench_dprobes) / sizeof(bench_dprobes[0]);
