/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is inserted: one probe program for each module name, in the order of insertion. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/json.h"
#include "run/run-priv.h"

static void free_module(struct dp_run *run, struct run_module *m)
{
	dp_run_unwatch(run, m);
	dp_rpn_free(&m->unit);
	dp_run_forget_ended(m);
	free(m->is_new);
	free(m->done);
	free(m->how);
	free(m->governed);
	free(m->due);
	free(m);
}

static void unlink_module(struct dp_run *run, struct run_module *m)
{
	struct run_module **p = &run->modules;

	while (*p && *p != m)
		p = &(*p)->next;
	if (*p)
		*p = m->next;
}

/* ---- insert ---- */

static bool same_place(const struct dp_rpn_probe *a, const struct dp_rpn_probe *b)
{
	return a->place == b->place && a->offset == b->offset && a->at_return == b->at_return &&
	       !strcmp(a->symbol, b->symbol);
}

/* An aggregate of the addition: one that is there already, or one whose variables are not another one's. */
static int merge_aggregate(struct dp_rpn_unit *u, const struct dp_rpn_aggregate *a, struct dp_error *err)
{
	u64 words = dp_rpn_aggregate_words(a);
	struct dp_rpn_aggregate *v;

	for (u32 i = 0; i < u->naggregates; i++) {
		const struct dp_rpn_aggregate *b = &u->aggregates[i];

		if (!memcmp(a, b, sizeof(*a)))
			return 0;
		if (a->index < b->index + dp_rpn_aggregate_words(b) && b->index < a->index + words)
			return dp_fail(err, E_RPN_MERGE, "aggregate %.60s has variables of %.60s", a->name, b->name);
	}
	v = realloc(u->aggregates, (u->naggregates + 1ull) * sizeof(*v));
	if (!v)
		return dp_fail(err, E_RPN_MEMORY, "merge");
	u->aggregates = v;
	v[u->naggregates++] = *a;
	return 0;
}

/* First values of the addition are those of variables that begin from now on. */
static int merge_init(struct dp_rpn_unit *u, const struct dp_rpn_init *add, struct dp_error *err)
{
	struct dp_rpn_init *v = realloc(u->inits, (u->ninits + 1ull) * sizeof(*v));
	u32 i = 0;

	if (!v)
		return dp_fail(err, E_RPN_MEMORY, "merge");
	u->inits = v;
	while (i < u->ninits && v[i].index != add->index)
		i++;
	v[i] = *add;
	u->ninits = DP_MAX(u->ninits, i + 1);
	return 0;
}

/* Elements of the addition come behind those that are there. what: how many are too many, in words. */
static int append(void **v, u32 *n, const void *add, u32 nadd, size_t size, u32 most, const char *what,
		  struct dp_error *err)
{
	u8 *more = realloc(*v, (*n + nadd + 1ull) * size);

	if (!more)
		return dp_fail(err, E_RPN_MEMORY, "merge");
	*v = more;
	if (*n + nadd > most)
		return dp_fail(err, E_RPN_MERGE, "more than %u %s", most, what);
	if (nadd)
		memcpy(more + *n * size, add, nadd * size);
	*n += nadd;
	return 0;
}

static int merge_bodies(struct dp_rpn_unit *u, struct dp_rpn_unit *add, struct dp_error *err)
{
	int r = append((void **)&u->bodies, &u->nbodies, add->bodies, add->nbodies, sizeof(*u->bodies),
		       DP_RPN_BODIES_MAX, "bodies", err);

	if (!r)
		add->nbodies = 0; /* what they hold has moved */
	return r;
}

static int merge_knowns(struct dp_rpn_unit *u, const struct dp_rpn_unit *add, struct dp_error *err)
{
	return append((void **)&u->knowns, &u->nknowns, add->knowns, add->nknowns, sizeof(*u->knowns), DP_KNOWN_MAX,
		      "questions for $exe and $cgroup", err);
}

/*
 * The probes of `add` go into `u`, in the place of those at the same places; is_new says which these are. Variables
 * become as many as either wants.
 */
static int merge(struct dp_rpn_unit *u, struct dp_rpn_unit *add, bool *is_new, struct dp_error *err)
{
	u32 most = u->nprobes + add->nprobes;
	struct dp_rpn_probe *v = realloc(u->probes, most * sizeof(*v));
	int r = 0;

	if (!v)
		return dp_fail(err, E_RPN_MEMORY, "merge");
	u->probes = v;
	for (u32 i = 0; i < add->naggregates && !r; i++)
		r = merge_aggregate(u, &add->aggregates[i], err);
	for (u32 i = 0; i < add->ninits && !r; i++)
		r = merge_init(u, &add->inits[i], err);
	for (u32 i = 0; i < add->nprobes && !r; i++) {
		u32 k = 0;

		while (k < u->nprobes && !same_place(&v[k], &add->probes[i]))
			k++;
		if (k < u->nprobes)
			dp_rpn_probe_free(&v[k]);
		else
			u->nprobes++;
		v[k] = add->probes[i];
		is_new[k] = true;
	}
	if (r)
		return r;
	add->nprobes = 0; /* they have moved */
	r = merge_bodies(u, add, err);
	if (!r)
		r = merge_knowns(u, add, err);
	if (r)
		return r;
	u->nlocals = DP_MAX(u->nlocals, add->nlocals);
	u->nglobals = DP_MAX(u->nglobals, add->nglobals);
	for (u32 i = 0; i < u->nprobes; i++) { /* what the unit says of all its programs */
		v[i].prog.nlocals = u->nlocals;
		v[i].prog.nglobals = u->nglobals;
	}
	for (u32 i = 0; i < u->nbodies; i++) {
		u->bodies[i].prog.nlocals = u->nlocals;
		u->bodies[i].prog.nglobals = u->nglobals;
	}
	return 0;
}

static int copy_unit(struct dp_rpn_unit *to, const struct dp_rpn_unit *from, struct dp_error *err)
{
	void *bytes = NULL;
	size_t size;
	int r = dp_rpn_save(from, &bytes, &size, err);

	if (!r)
		r = dp_rpn_load(to, bytes, size, err);
	free(bytes);
	return r;
}

/* What only the program that is inserted can have. NULL: nothing. */
static const char *other_option(const struct run_module *m, const struct dp_run_request *rq)
{
	static const struct {
		u32 flag;
		const char *name;
	} all[] = {{DP_RUN_SYSLOG, "--log-target KLOG"},
		   {DP_RUN_JOURNALD, "--log-target JOURNALD"},
		   {DP_RUN_CONSOLE, "--log-target CONSOLE"},
		   {DP_RUN_SERIAL1, "--log-target COM1"},
		   {DP_RUN_SERIAL2, "--log-target COM2"},
		   {DP_RUN_JIT_ON, "--jit on"},
		   {DP_RUN_JIT_OFF, "--jit off"},
		   {DP_RUN_UPROBES, "--uprobes"},
		   {DP_RUN_CHILDREN, "--children"},
		   {DP_RUN_FORMAT, "--format"}};

	if (rq->pid && rq->pid != m->pid)
		return "--pid";
	if (rq->fields && rq->fields != m->fields)
		return "a field of the log";
	for (size_t i = 0; i < DP_ARRAY_SIZE(all); i++)
		if (rq->flags & all[i].flag && (rq->flags ^ m->flags) & all[i].flag)
			return all[i].name;
	return NULL;
}

/* The file, in the view of the process that the module is for. -1: it is not called by a path, or there is none. */
static int open_file(const struct run_module *m)
{
	char path[DP_RPN_NAME_MAX + 64];
	int fd = -1;

	if (run_is_in_kernel(m) || m->unit.name[0] != '/')
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)m->pid, m->unit.name);
	if (m->pid)
		fd = dp_open_regular(path);
	return fd >= 0 ? fd : dp_open_regular(m->unit.name);
}

/* A process does not map the module, which is a library that it may load later: by its path, or its name alone. */
static bool waits_for(struct dp_run *run, struct run_module *m)
{
	const char *name = m->unit.name;
	int fd = open_file(m);

	if (*name == '/' ? fd < 0 || !strstr(name, ".so") : strncmp(name, "lib", 3) && !strstr(name, ".so")) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	m->flags |= DP_RUN_LATER;
	dp_run_watch_file(run, m, fd);
	dp_run_save_module(run, m);
	return true;
}

/* Who is told what was done. */
struct telling {
	FILE *out;
	bool json;
};

/* Probes that stay, whatever they cost. */
static u32 count_fixed(const struct run_module *m)
{
	u32 n = 0;

	for (u32 i = 0; m->budget && i < m->unit.nprobes; i++)
		n += m->unit.probes[i].place == DP_RPN_WATCH || dp_program_acts(&m->unit.probes[i].prog);
	return n;
}

static void tell_fixed(const struct run_module *m, FILE *out)
{
	u32 n = count_fixed(m);

	if (n)
		fprintf(out,
			"%s: the budget of %g %% does not apply to %u probe%s that %s memory or change%s the program\n",
			m->unit.name, m->budget / 100.0, n, n == 1 ? "" : "s", n == 1 ? "watches" : "watch",
			n == 1 ? "s" : "");
}

/* Processes that map it later get the probes, too. */
static bool takes_later(const struct dp_run *run, const struct run_module *m)
{
	return !run_is_in_kernel(m) && !m->pid && !dp_run_is_closed(run);
}

static void tell_text(const struct dp_run *run, const struct run_module *m, u32 n, bool waits, FILE *out)
{
	const char *plural = m->unit.nprobes == 1 ? "" : "s";

	if (waits) {
		fprintf(out, "%s: %u probe%s will be inserted when process %d loads it\n", m->unit.name,
			m->unit.nprobes, plural, (int)m->pid);
		return;
	}
	fprintf(out, "%s: %u probe%s inserted in ", m->unit.name, m->unit.nprobes, plural);
	if (run_is_in_kernel(m))
		fprintf(out, "the kernel");
	else
		fprintf(out, "%u process%s", n, n == 1 ? "" : "es");
	if (m->left_out)
		fprintf(out, ", %u left out (%s: %s)", m->left_out, dp_error_info(m->last.code)->name, m->last.detail);
	fprintf(out, "%s\n",
		!takes_later(run, m) ? ""
		: run->chosen        ? ", and in those of the selection that map it later"
				     : ", and in all that map it later");
	tell_fixed(m, out);
}

static void tell_json(const struct dp_run *run, const struct run_module *m, u32 n, bool waits, FILE *out)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "module", m->unit.name);
	dp_json_put_unsigned(&j, "probes", m->unit.nprobes);
	dp_json_put_bool(&j, "kernel", run_is_in_kernel(m));
	dp_json_put_unsigned(&j, "processes", n);
	dp_json_put_bool(&j, "waits", waits);
	dp_json_put_bool(&j, "later", takes_later(run, m));
	dp_json_put_unsigned(&j, "left_out", m->left_out);
	dp_run_json_refusal(&j, &m->last);
	dp_json_put_unsigned(&j, "without_budget", count_fixed(m));
	dp_json_close(&j, '}');
	dp_json_end(&j);
	fwrite(line.text, 1, line.n, out);
	dp_line_free(&line);
}

/* It is in n processes; waits: in none, as the one that it is for has not loaded its module yet. */
static void tell_inserted(const struct dp_run *run, const struct run_module *m, u32 n, bool waits,
			  const struct telling *to)
{
	if (to->json)
		tell_json(run, m, n, waits, to->out);
	else
		tell_text(run, m, n, waits, to->out);
}

/*
 * No process has it: what can be judged is its file. One that is not here may be in another namespace, or come later.
 */
static int check_unseen(const struct run_module *m, const struct telling *to, struct dp_error *err)
{
	int fd = open_file(m), r = 0;

	if (fd >= 0) {
		r = dp_run_check_file(&m->unit, fd, err);
		close(fd);
	} else if (!to->json) {
		fprintf(to->out, "%s: no process maps it%s: its places are checked when one does\n", m->unit.name,
			m->unit.name[0] == '/' ? ", and there is no such file here" : "");
	}
	return r;
}

/*
 * Put it in everywhere. When no process takes it and one refuses, it is not inserted; nor when it was to take the place
 * of another one, which so many processes have, and one of these refuses.
 */
static int apply(struct dp_run *run, struct run_module *m, u32 have, const struct telling *to, struct dp_error *err)
{
	u32 n;

	m->left_out = 0;
	dp_run_scan(run, true);
	n = dp_run_count_targets(run, m);
	if (m->left_out && n < have) {
		*err = m->last;
		return -dp_error_info(err->code)->number;
	}
	if (!n && !m->left_out && m->pid && !m->before && !dp_run_takes_more(run, m) && waits_for(run, m)) {
		tell_inserted(run, m, n, true, to);
		return 0;
	}
	if (!n && (m->left_out || (!run_is_in_kernel(m) && !dp_run_takes_more(run, m)))) {
		if (!m->left_out && !m->pid)
			return dp_fail(err, E_MOD_NONE, "%.80s is not mapped by any of the processes", m->unit.name);
		if (!m->left_out)
			return dp_fail(err, E_MOD_NONE, "%.80s is not mapped by process %d", m->unit.name, (int)m->pid);
		*err = m->last;
		return -dp_error_info(err->code)->number;
	}
	if (!n && !run_is_in_kernel(m)) {
		int r = check_unseen(m, to, err);

		if (r)
			return r;
	}
	tell_inserted(run, m, n, false, to);
	return 0;
}

void dp_run_drop(struct dp_run *run, struct run_module *m)
{
	for (struct run_target *t = run->targets; t; t = t->next)
		dp_run_end_bodies(run, t, m);
	dp_run_forget(run, m);
	dp_run_unsave_module(run, m);
	unlink_module(run, m);
	free_module(run, m);
}

/* The module is in the place of the one before, for good. */
static void succeed(struct dp_run *run, struct run_module *m)
{
	struct run_module *before = m->before;

	for (u32 i = 0; m->is_new && i < before->unit.nprobes; i++)
		if (!m->is_new[i]) {
			m->done[i] = before->done[i];
			m->how[i] = before->how[i];
			m->governed[i] = before->governed[i];
		}
	m->let_go = m->is_new ? before->let_go : 0;
	m->losses = m->is_new ? before->losses : 0;
	m->thread_losses = m->is_new ? before->thread_losses : 0;
	m->before = NULL;
	free(m->is_new);
	m->is_new = NULL;
	dp_run_forget(run, before);
	dp_run_save_module(run, m); /* its file is that of the one before */
	unlink_module(run, before);
	free_module(run, before);
}

/* It is not, after all: all is as it was. */
static void fall_back(struct dp_run *run, struct run_module *m)
{
	m->leaving = true;
	m->before->leaving = false;
	dp_run_scan(run, true);
	dp_run_forget(run, m);
	unlink_module(run, m);
	free_module(run, m);
}

/*
 * A module that takes the place of another one. Until all processes have it nothing of it is written down: should we be
 * killed meanwhile, a successor goes on with the one before.
 */
static int exchange(struct dp_run *run, struct run_module *m, struct run_module *before, const struct telling *to,
		    struct dp_error *err)
{
	u32 have = dp_run_count_targets(run, before);
	int r;

	m->before = before;
	m->number = before->number;
	m->generation = before->generation + 1;
	before->leaving = true;
	dp_run_watch_file(run, m, open_file(m));
	r = apply(run, m, have, to, err);
	if (r)
		fall_back(run, m);
	else
		succeed(run, m);
	return r;
}

static struct run_module *new_module(struct dp_run *run, const struct dp_run_request *rq, struct dp_rpn_unit *u,
				     struct dp_error *err)
{
	struct run_module *m = NULL;
	u32 n = 0;

	for (const struct run_module *o = run->modules; o; o = o->next)
		n++;
	if (n < RUN_WANTED_MAX)
		m = dp_run_module_new(run, u);
	if (!m) {
		dp_fail(err, E_RPN_MEMORY, "module %u", n + 1);
		return NULL;
	}
	m->flags = rq->flags & ~(u32)DP_RUN_TELL_JSON;
	m->fields = rq->fields;
	m->budget = rq->budget;
	m->pid = rq->pid;
	m->pid_started = dp_process_started(m->pid);
	m->of_users = dp_run_users_of(run, m);
	return m;
}

static int merge_unit(struct dp_run *run, const struct dp_run_request *rq, struct dp_rpn_unit *add,
		      struct run_module *before, const struct telling *to, struct dp_error *err)
{
	const char *option = other_option(before, rq);
	bool *is_new = calloc((u64)before->unit.nprobes + add->nprobes + 1, sizeof(*is_new));
	struct dp_run_request as_before = *rq;
	struct dp_rpn_unit u;
	struct run_module *m;
	int r = !is_new ? dp_fail(err, E_RPN_MEMORY, "merge") : option ? dp_fail(err, E_RPN_MERGE, "%s", option) : 0;

	for (u32 i = 0; i < add->nprobes; i++)
		add->probes[i].has_opcode &= !(rq->flags & DP_RUN_NO_OPCODES);
	if (!r)
		r = copy_unit(&u, &before->unit, err);
	if (r) {
		free(is_new);
		return r;
	}
	r = merge(&u, add, is_new, err);
	as_before.flags = before->flags | (rq->flags & DP_RUN_ALLOW_TRAP);
	as_before.fields = before->fields;
	as_before.budget = before->budget;
	as_before.pid = before->pid;
	m = r ? NULL : new_module(run, &as_before, &u, err);
	dp_rpn_free(&u);
	if (!m) {
		free(is_new);
		return r ? r : -ENOMEM;
	}
	m->is_new = is_new;
	return exchange(run, m, before, to, err);
}

static int insert_unit(struct dp_run *run, const struct dp_run_request *rq, struct dp_rpn_unit *u,
		       const struct telling *to, struct dp_error *err)
{
	struct run_module *before = dp_run_module_find(run, u->name), *m;
	int r;

	if (before && rq->flags & DP_RUN_MERGE)
		return merge_unit(run, rq, u, before, to, err);
	if (before && !(rq->flags & DP_RUN_REPLACE))
		return dp_fail(err, E_RPN_EXISTS, "%.150s", u->name);
	m = new_module(run, rq, u, err);
	if (!m)
		return -ENOMEM;
	if (before)
		return exchange(run, m, before, to, err);
	m->number = ++run->numbers;
	dp_run_watch_file(run, m, open_file(m));
	/* Before the first process has its probes: who is killed in between must not leave any that nobody knows. */
	dp_run_save_module(run, m);
	r = apply(run, m, 0, to, err);
	if (r)
		dp_run_drop(run, m);
	return r;
}

int dp_run_insert(struct dp_run *run, const struct dp_run_request *rq, const void *object, FILE *out,
		  struct dp_error *err)
{
	const struct telling to = {out, rq->flags & DP_RUN_TELL_JSON};
	struct dp_rpn_unit u;
	int r = dp_rpn_load(&u, object, rq->object_len, err);

	if (r)
		return r;
	r = dp_run_open_sinks(run, rq->flags, err);
	if (!r && rq->flags & DP_RUN_UPROBES && u.nknowns)
		r = dp_fail(err, E_RPN_WORLD, "$%s, and the kernel's uprobes", dp_rpn_known_name(u.knowns->what));
	if (!r && rq->flags & DP_RUN_UPROBES && (u.modtype != DP_RPN_USER || rq->pid))
		r = dp_fail(err, E_RPN_WORLD, "--uprobes for %.150s", rq->pid ? "one process" : u.name);
	if (!r && run->chosen && !run->command && !run->nonly &&
	    (u.modtype != DP_RPN_USER || rq->flags & DP_RUN_UPROBES))
		r = dp_fail(err, E_RPN_WORLD, "%.150s, for some processes", u.name);
	if (r) {
		dp_rpn_free(&u);
		return r;
	}
	r = u.modtype == DP_RPN_USER || !rq->pid ? insert_unit(run, rq, &u, &to, err)
						 : dp_fail(err, E_RPN_WORLD, "--pid %d for %.150s", rq->pid, u.name);
	dp_rpn_free(&u);
	return r;
}

/* ---- remove ---- */

static void tell_removed(const struct run_module *m, bool json, FILE *out)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	if (!json) {
		fprintf(out, "%s: removed\n", m->unit.name);
		return;
	}
	dp_json_open(&j, '{');
	dp_json_put_string(&j, "module", m->unit.name);
	dp_json_put_bool(&j, "removed", true);
	dp_json_close(&j, '}');
	dp_json_end(&j);
	fwrite(line.text, 1, line.n, out);
	dp_line_free(&line);
}

int dp_run_remove(struct dp_run *run, const struct dp_run_request *rq, const char *name, FILE *out,
		  struct dp_error *err)
{
	bool all = rq->flags & DP_RUN_ALL;
	struct run_module *m = all ? run->modules : dp_run_module_find(run, name);

	if (!m && !all)
		return dp_fail(err, E_RPN_NOTIN, "%.150s", name);
	for (; m; m = all ? run->modules : NULL) {
		tell_removed(m, rq->flags & DP_RUN_TELL_JSON, out);
		dp_run_drop(run, m);
	}
	if (!run->modules)
		dp_run_close_globals(run);
	return 0;
}
