/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whoever the guard holds gets its probes: it is caught, looked at, and goes on. Those that the guard could not hold,
 * or that it let go because we were too slow, are looked at late, and counted.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "run/run-freezer.h"
#include "run/run-priv.h"
#include "run/run-starts.h"

#define COMES_MS 30          /* so long a program that is not held is waited for */
#define TURN_NS 200000000ull /* so long the rest of the driver's work waits while one starts after the other */

/* Whether probes for the file are wanted in the process. anew: it maps the file now, whatever it had mapped before. */
static bool is_wanted(struct dp_run *run, const struct guard_message *c, bool anew)
{
	bool wanted = false, chosen = dp_run_has_chosen(run, c->pid);

	for (struct run_module *m = run->modules; m; m = m->next) {
		if (!dp_run_watches(m, c->dev, c->ino) || !dp_run_is_for(m, c->pid, chosen))
			continue;
		wanted = true;
		if (anew)
			dp_run_mapped_anew(run, m, c->pid);
	}
	return wanted;
}

/* Once for each, which may be gone, and of which the guard may tell as well. */
static void count_let_go(struct dp_run *run, const struct guard_message *c)
{
	bool chosen;

	if (c->number == run->let_go)
		return;
	run->let_go = c->number;
	chosen = dp_run_has_chosen(run, c->pid);
	for (struct run_module *m = run->modules; m; m = m->next)
		if (dp_run_watches(m, c->dev, c->ino) && dp_run_was_for(m, c->pid, chosen))
			m->let_go++;
}

/* It stands: the guard thaws it, or answers the kernel. Whom somebody else has thawed may have run before. */
static void go_on(void *arg)
{
	struct guard_message *c = arg;

	c->frozen &= dp_run_is_held(c->pid);
	dp_run_start_done(c);
}

/*
 * A program that is not held is looked at no sooner than it is there: until then its execve may hang, and we with it.
 */
static bool has_come(const struct guard_message *c)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)c->pid);
	for (u32 i = 0; i < COMES_MS * 10; i++) {
		if (stat(path, &st))
			return false;
		if (st.st_dev == c->dev && st.st_ino == c->ino)
			return true;
		usleep(100);
	}
	return false;
}

/*
 * Before the thread runs: the next library that it opens may come before we do anything else, and others may wait for
 * the start.
 */
static void let_run(void *arg)
{
	const struct guard_message *c = arg;

	if (c->in_exec)
		dp_run_start_pass(c);
	dp_run_busy_with(0);
}

/* Whose turn is next, on its way to its entry point while another one gets its probes: it would be waited for else. */
static struct {
	struct guard_message c; /* number 0: nobody */
	struct dp_parking p;
	int result;
} next;
static bool is_last; /* for this turn: nobody sets out behind it */

/* but: who is before him, perhaps by an earlier program of the same process. */
static void begin_next(struct dp_run *run, pid_t but)
{
	const struct guard_message *c = is_last ? NULL : dp_run_coming_start();

	if (!c || c->op != GUARD_CAUGHT || !c->in_exec || !c->frozen || c->pid == but || !is_wanted(run, c, false))
		return;
	next.c = *c;
	next.c.caught = true;
	next.result = dp_catch_begin(&next.p, next.c.pid, go_on, &next.c, NULL);
}

/* Somebody frozen, who may be on his way already; the one behind him sets out meanwhile. */
static int catch_frozen(struct dp_run *run, struct guard_message *c, struct dp_parking *p)
{
	int r;

	if (next.c.number == c->number) {
		*p = next.p;
		*c = next.c;
		r = next.result;
	} else {
		r = dp_catch_begin(p, c->pid, go_on, c, NULL);
	}
	next.c.number = 0;
	begin_next(run, c->pid);
	return r ? r : dp_catch_arrived(p, NULL);
}

static void catch_one(struct dp_run *run, struct guard_message *c)
{
	bool begun = next.c.number && next.c.number == c->number;
	struct dp_parking p;
	int r = -EAGAIN;

	if (!begun && !is_wanted(run, c, false)) {
		if (!dp_process_started(c->pid))
			count_let_go(run, c);
		go_on(c);
		return;
	}
	dp_run_start_begin(c); /* it may open more of our files on its way */
	c->caught = true;
	if (!c->in_exec)
		r = dp_catch_load(&p, c->tid, c->pid, go_on, c, NULL);
	else if (begun || c->frozen)
		r = catch_frozen(run, c, &p);
	else if (has_come(c))
		r = dp_catch_start(&p, c->pid, go_on, c, NULL);
	else
		go_on(c);
	if (!r) {
		is_wanted(run, c, !c->in_exec);
		dp_run_look_at(run, c->pid);
		dp_unpark(&p, let_run, c, NULL);
	}
	if (c->in_exec && (r || !c->frozen)) { /* also where it is gone: it may have run before that */
		count_let_go(run, c);
		dp_run_look_at(run, c->pid);
	}
	dp_run_start_end();
}

void dp_run_catch(struct dp_run *run)
{
	u64 end = dp_now_ns() + TURN_NS;
	struct dp_hurry usual;
	struct guard_message m;
	bool hurries = false;

	if (run->no_watch || !dp_run_hear_starts(run))
		return;
	is_last = false;
	while ((!is_last || next.c.number) && dp_run_next_start(&m)) { /* more come meanwhile, perhaps without an end */
		if (!hurries)
			dp_hurry_begin(&usual);
		hurries = true;
		is_last = dp_now_ns() > end;
		if (m.op == GUARD_CAUGHT) {
			catch_one(run, &m);
		} else if (m.op == GUARD_LET_GO) {
			count_let_go(run, &m);
			dp_run_look_at(run, m.pid);
		}
	}
	if (next.c.number) { /* the guard is gone, and its report with it */
		m = next.c;
		catch_one(run, &m);
	}
	if (hurries)
		dp_hurry_end(&usual);
	dp_run_keep_guard(run);
}

u64 dp_run_let_go(const struct dp_run *run)
{
	u64 n = 0;

	for (const struct run_module *m = run->modules; m; m = m->next)
		n += m->let_go;
	return n;
}
