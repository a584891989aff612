// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Events: a line in the language of the event tracer becomes a verified program, by the same front
 * end as in a process, and a probe that runs it.
 */
#include <linux/ctype.h>
#include <linux/slab.h>

#include "k-event.h"
#include "program/opcode.h"

DEFINE_MUTEX(dp_k_events_lock);
LIST_HEAD(dp_k_events);

static u32 next_id = 1;

/* ---- the hit ---- */

static __always_inline void run(struct dp_k_event *e, struct pt_regs *regs, u64 ret_addr)
{
	if (likely(dp_k_counts_now()))
		dp_k_run(&e->run, regs, ret_addr);
	else
		e->counts[raw_smp_processor_id()].v[DP_COUNT_PASSED]++;
}

static HIT int on_probe(struct dp_kprobe *kp, struct pt_regs *regs)
{
	run(container_of(kp, struct dp_k_event, rp.kp), regs, 0);
	return 0;
}

static HIT int on_return(struct dp_kretprobe_instance *ri, struct pt_regs *regs)
{
	dp_regs_spare(regs) = (unsigned long)ri->ret_addr; /* for `rp`; not used otherwise */
	run(container_of(ri->rp, struct dp_k_event, rp), regs, (u64)ri->ret_addr);
	return 0;
}

static HIT void on_watch(struct dp_kwatch *w, struct pt_regs *regs, void *addr)
{
	struct dp_k_event *e = container_of(w, struct dp_k_event, watch);

	if (likely(dp_k_counts_now()))
		dp_k_run_watch(&e->run, w, &e->last, regs);
	else
		e->counts[raw_smp_processor_id()].v[DP_COUNT_PASSED]++;
}

bool dp_k_is_event(const struct dp_registered *s)
{
	return s->type == 'r' ? container_of(s->kp, struct dp_kretprobe, kp)->handler == on_return
			      : s->kp->pre_handler == on_probe;
}

bool dp_k_is_event_watch(const struct dp_kwatch *w)
{
	return w->handler == on_watch;
}

/* ---- places ---- */

static int symbol(void *arg, const struct dp_location *probe, const char *name, u64 offset, u64 *addr,
		  struct dp_error *err)
{
	struct dp_error ignored;
	int r = name ? dp_k_resolve(name, addr, err ? err : &ignored) : 0;

	if (!name || r > 0)
		return dp_fail(err, E_KERNEL_SYMBOL, "%s", name ? name : "an offset in a file");
	return r;
}

static const struct dp_event_env env = {.symbol = symbol};

/* "kernel", "", "kmod(NAME)", "NAME": the name that dp_kprobe and dp_kwatch want. */
static int place(struct dp_k_event *e, struct dp_error *err)
{
	const struct dp_location *loc = &e->ev.loc;
	struct dp_kprobe *kp = &e->rp.kp;
	const char *mod = loc->module;
	int len = strlen(mod);

	if (loc->kind == DP_LOC_ADDRESS) {
		kp->addr = (void *)loc->address;
		snprintf(e->symbol, sizeof(e->symbol), "0x%llx", loc->address);
		return 0;
	}
	if (loc->kind != DP_LOC_SYMBOL)
		return dp_fail(err, E_KERNEL_SYMBOL,
			       e->ev.is_watch ? "variables and addresses can be watched here"
					      : "functions and addresses can be probed here");
	if (!strncmp(mod, "kmod(", 5) && len > 6 && mod[len - 1] == ')') {
		mod += 5;
		len -= 6;
	}
	if (!len && dp_k_ambiguous(loc->symbol))
		return dp_fail(err, E_KERNEL_AMBIGUOUS, "%s", loc->symbol);
	if (!len || !strcmp(mod, "kernel"))
		len = 0;
	else
		len = scnprintf(e->symbol, sizeof(e->symbol), "%.*s:", len, mod);
	snprintf(e->symbol + len, sizeof(e->symbol) - (size_t)len, "%s", loc->symbol);
	if (loc->offset < 0) {
		u64 addr;
		int r = dp_k_resolve(e->symbol, &addr, err);

		if (r)
			return r < 0 ? r : dp_fail(err, E_KERNEL_SYMBOL, "%s", e->symbol);
		kp->addr = (void *)(addr + loc->offset);
		return 0;
	}
	kp->symbol_name = e->symbol;
	kp->offset = (u32)loc->offset;
	return 0;
}

/* Memory to be watched. No register is taken before the event is switched on. */
static int watch_place(struct dp_k_event *e, struct dp_error *err)
{
	struct dp_kwatch *w = &e->watch;
	enum dp_code why;
	int r;

	w->addr = e->rp.kp.addr;
	w->symbol_name = e->rp.kp.symbol_name;
	w->offset = e->rp.kp.offset;
	w->len = e->ev.watch_len;
	w->type = e->ev.watch_type;
	w->handler = on_watch;
	if (!w->len)
		return dp_fail(err, E_WATCH_SIZE, "%s", e->symbol);
	r = dp_k_watch_check(w, &e->at, &why);
	return r ? dp_fail(err, why, "%u bytes at %s", w->len, e->symbol) : 0;
}

/* ---- life ---- */

static bool has_group(const char *line)
{
	const char *colon = strchr(line, ':'), *slash = strchr(line, '/');
	size_t word = strcspn(line, " \t");

	return colon && slash && colon < line + word && slash < line + word;
}

static void free_event(struct dp_k_event *e)
{
	dp_k_prog_free(&e->run);
	dp_event_free(&e->ev);
	dp_program_free(&e->filtered);
	kfree(e->counts);
	dp_free(e->text);
	kfree(e->filter);
	kfree(e);
}

static void set_code(struct dp_k_event *e, const struct dp_program *p)
{
	dp_k_prog_init(&e->run, p, e->id);
	e->run.sinks = dp_k_sinks;
	e->run.counts = (u8 *)e->counts;
	e->run.counts_stride = sizeof(*e->counts);
}

/* Whether an argument begins with NAME= */
static bool is_named(const char *arg, size_t n)
{
	size_t k = 0;

	while (k < n && (isalnum(arg[k]) || arg[k] == '_'))
		k++;
	return k && k < n && arg[k] == '=';
}

/* Up to the blank behind an argument: those in its texts are its own. */
static size_t word_of(const char *p)
{
	bool quoted = false;
	size_t n = 0;

	for (; p[n] && (quoted || (p[n] != ' ' && p[n] != '\t')); n++)
		if (p[n] == '"')
			quoted = !quoted;
		else if (quoted && p[n] == '\\' && p[n + 1])
			n++;
	return n;
}

/* As the front end sees it: `if` and a blank or a parenthesis. */
static bool is_condition(const char *p)
{
	return !strncmp(p, "if", 2) && (!p[2] || p[2] == ' ' || p[2] == '\t' || p[2] == '(');
}

/*
 * The definition as it is shown: type and name are shown by other means, arguments of today's form have names, what
 * "%return" says is told by the type. *condition: where its condition begins, 0: it has none.
 */
static char *canonical(const char *line, bool plain, u32 *condition)
{
	const char *p = line + strcspn(line, " \t");
	struct dp_line out = {};
	u32 n = 0;

	*condition = 0;
	for (p += strspn(p, " \t"); *p; n++) {
		size_t len = word_of(p);

		if (n)
			dp_line_char(&out, ' ');
		if (n && is_condition(p)) {
			dp_line_str(&out, "if ");
			*condition = out.n;
			p += 2;
			p += strspn(p, " \t");
			len = strlen(p);
		} else if (n && !plain && !is_named(p, len)) {
			dp_line_str(&out, "arg");
			dp_line_dec(&out, n, 0, ' ');
			dp_line_char(&out, '=');
		}
		dp_line_bytes(&out, p, !n && len > 7 && !strncmp(p + len - 7, "%return", 7) ? len - 7 : len);
		p += len;
		p += strspn(p, " \t");
	}
	dp_line_char(&out, '\0');
	if (out.broken) {
		dp_line_free(&out);
		return NULL;
	}
	return out.text;
}

struct dp_k_event *dp_k_event_find(const char *group, const char *name)
{
	struct dp_k_event *e;

	list_for_each_entry(e, &dp_k_events, list)
		if (!strcmp(e->ev.name, name) && (!group || !strcmp(e->ev.group, group)))
			return e;
	return NULL;
}

static int watch_on(struct dp_k_event *e, struct dp_error *err)
{
	enum dp_code why = E_WATCH_ARGUMENT;
	struct dp_kwatch *w = &e->watch;
	char held[160];
	int r = dp_k_watch_check(w, &e->at, &why);

	if (!r) {
		/* Before the first hit; what happens meanwhile is not seen. */
		e->last = 0;
		if (w->type != DP_KWATCH_EXECUTE && copy_from_kernel_nofault(&e->last, (void *)e->at, w->len))
			e->last = 0;
		r = dp_register_kwatch(w);
		why = r ? dp_error_by_name(w->refusal) : DP_OK;
	}
	if (r)
		dp_fail(err, why, "%s%s%s", e->symbol, why == E_WATCH_BUSY ? "; this module watches " : "",
			why == E_WATCH_BUSY ? dp_k_watch_holders(held, sizeof(held)) : "");
	return r;
}

static int put_in_place(struct dp_k_event *e, struct dp_error *err)
{
	if (e->ev.is_watch)
		return e->plain ? watch_on(e, err) : 0;
	e->rp.kp.flags = DP_KPROBE_FLAG_AGAIN | DP_KPROBE_FLAG_STAYS | (e->plain ? 0 : DP_KPROBE_FLAG_DISABLED);
	if (e->ev.is_return) {
		e->rp.handler = on_return;
		e->rp.maxactive = e->ev.maxactive;
		return dp_register_kretprobe(&e->rp);
	}
	e->rp.kp.pre_handler = on_probe;
	return dp_register_kprobe(&e->rp.kp);
}

static void take_out(struct dp_k_event *e)
{
	if (e->ev.is_watch)
		dp_unregister_kwatch(&e->watch);
	else if (e->ev.is_return)
		dp_unregister_kretprobe(&e->rp);
	else
		dp_unregister_kprobe(&e->rp.kp);
}

static void tell_refusal(const struct dp_k_event *e, enum dp_code otherwise, struct dp_error *err)
{
	enum dp_code code = e->rp.kp.refusal ? dp_error_by_name(e->rp.kp.refusal) : DP_OK;

	dp_fail(err, code ? code : otherwise, "%s", e->symbol);
}

/*
 * The name of an event that was given none: the front end's, with the module if one is named. In kprobe_probes, where
 * names are not shown, it is made unique.
 */
static void choose_name(struct dp_k_event *e)
{
	const struct dp_location *loc = &e->ev.loc;
	char *name = e->ev.name;
	size_t len;

	if (e->ev.is_named)
		return;
	if (loc->kind == DP_LOC_SYMBOL && strchr(e->symbol, ':'))
		snprintf(name, DP_NAME_MAX, "%c_%.40s_%lld", dp_k_event_type(e), e->symbol, loc->offset);
	for (char *p = name; *p; p++)
		if (!isalnum(*p))
			*p = '_';
	len = strlen(name);
	for (u32 n = 1; e->plain && dp_k_event_find(e->ev.group, name); n++)
		snprintf(name + len, DP_NAME_MAX - len, "_%u", n);
}

int dp_k_event_define(const char *line, bool plain, struct dp_error *err)
{
	struct dp_k_event *e = kzalloc(sizeof(*e), GFP_KERNEL);
	size_t word = strcspn(line, " \t");
	int r;

	if (!e)
		return -ENOMEM;
	e->plain = plain;
	e->id = next_id++;
	e->counts = kcalloc(nr_cpu_ids, sizeof(*e->counts), GFP_KERNEL);
	e->text = canonical(line, plain, &e->condition);
	r = e->counts && e->text ? dp_event_compile(&e->ev, line, true, &env, err) : -ENOMEM;
	if (!r && word > 1 && line[word - 1] == ':')
		r = dp_fail(err, E_EVENT_NAME, "there is none behind the :");
	if (!r)
		r = dp_k_locked_down(&e->ev.prog, err);
	if (!r) {
		r = place(e, err);
		if (!r && e->ev.is_watch)
			r = watch_place(e, err);
		if (r)
			dp_error_column(err, e->ev.loc.column);
	}
	if (!r && e->ev.prog.layout.fixed_size > DP_K_LOGMAX)
		r = dp_fail(err, E_EVENT_BIG, "%u bytes, at most %u", e->ev.prog.layout.fixed_size, (u32)DP_K_LOGMAX);
	if (!r) {
		if (!has_group(line))
			strscpy(e->ev.group, plain ? "probes" : "kprobes", sizeof(e->ev.group));
		set_code(e, &e->ev.prog);
		choose_name(e);
		if (dp_k_event_find(e->ev.group, e->ev.name))
			r = dp_fail(err, E_KERNEL_EXISTS, "%s/%s", e->ev.group, e->ev.name);
	}
	if (!r && e->rp.kp.symbol_name && !dp_k_resolve(e->symbol, &e->at, NULL))
		e->at += e->rp.kp.offset;
	if (!r && dp_k_ring_ready())
		r = dp_fail(err, E_ARM_NOMEM, "the log of each processor");
	if (!r) {
		r = put_in_place(e, err);
		if (!e->at)
			e->at = (u64)e->rp.kp.addr;
		if (r && !e->ev.is_watch)
			tell_refusal(e, E_KERNEL_SYMBOL, err);
		if (r)
			dp_error_column(err, e->ev.loc.column);
	}
	if (r) {
		free_event(e);
		return r;
	}
	e->on = plain;
	list_add_tail(&e->list, &dp_k_events);
	dp_k_event_make_dir(e);
	return 0;
}

static int switch_watch(struct dp_k_event *e, bool on, struct dp_error *err)
{
	if (on)
		return watch_on(e, err);
	dp_unregister_kwatch(&e->watch);
	return 0;
}

/* As the definition is written. */
static void log_switch(const struct dp_k_event *e, struct dp_error *err)
{
	char *line = kasprintf(GFP_KERNEL, "%c:%s/%s %s", dp_k_event_type(e), e->ev.group, e->ev.name, e->text);

	err->column = -1;
	dp_k_error_log(line ? line : e->ev.name, err);
	kfree(line);
}

char dp_k_event_type(const struct dp_k_event *e)
{
	return e->ev.is_watch ? 'w' : e->ev.is_return ? 'r' : 'p';
}

int dp_k_event_switch(struct dp_k_event *e, bool on)
{
	struct dp_error err = {.column = -1};
	int r;

	if (e->on == on)
		return 0;
	if (e->ev.is_watch)
		r = switch_watch(e, on, &err);
	else if (e->ev.is_return)
		r = on ? dp_enable_kretprobe(&e->rp) : dp_disable_kretprobe(&e->rp);
	else
		r = on ? dp_enable_kprobe(&e->rp.kp) : dp_disable_kprobe(&e->rp.kp);
	if (r && !on && e->rp.kp.flags & DP_KPROBE_FLAG_GONE)
		r = 0; /* with its module */
	if (!r)
		e->on = on;
	else if (!e->ev.is_watch)
		tell_refusal(e, E_KPROBE_UNKNOWN, &err);
	if (r)
		log_switch(e, &err);
	return r;
}

int dp_k_event_filter(struct dp_k_event *e, const char *text, struct dp_error *err)
{
	bool none = !*text || !strcmp(text, "0"), on = e->on;
	struct dp_event ev = {};
	char *line = NULL, *filter = NULL;
	int r = 0, before = 0;

	if (!none) {
		filter = kstrdup(text, GFP_KERNEL);
		line = e->condition ? kasprintf(GFP_KERNEL, "%c %.*s(%s) && (%s)", dp_k_event_type(e), e->condition,
						e->text, e->text + e->condition, text)
				    : kasprintf(GFP_KERNEL, "%c %s if %s", dp_k_event_type(e), e->text, text);
		before = strlen(e->text) + (e->condition ? 9 : 6);
		r = line && filter ? dp_event_compile(&ev, line, true, &env, err) : -ENOMEM;
		kfree(line);
		if (r && err->column >= 0) /* in the filter's own text */
			err->column = clamp(err->column - before, 0, (int)strlen(text));
	}
	if (!r)
		r = dp_k_event_switch(e, false); /* nobody runs it now */
	if (r) {
		kfree(filter);
		dp_event_free(&ev);
		return r;
	}
	kfree(e->filter);
	e->filter = filter;
	dp_program_free(&e->filtered);
	e->filtered = ev.prog;
	set_code(e, none ? &e->ev.prog : &e->filtered);
	return on ? dp_k_event_switch(e, true) : 0;
}

void dp_k_event_remove(struct dp_k_event *e, struct list_head *gone)
{
	take_out(e);
	list_move_tail(&e->list, gone);
}

void dp_k_events_reap(struct list_head *gone)
{
	struct dp_k_event *e, *next;

	list_for_each_entry_safe(e, next, gone, list) {
		list_del(&e->list);
		dp_k_event_remove_dir(e);
		free_event(e);
	}
}

u64 dp_k_event_count(const struct dp_k_event *e, enum dp_count what)
{
	u64 sum = what == DP_COUNT_MISSED ? e->rp.kp.nmissed + (u64)e->rp.nmissed + e->watch.nmissed : 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += e->counts[cpu].v[what];
	return sum;
}

int dp_k_events_init(void)
{
	return dp_k_event_files_init();
}

void dp_k_events_exit(void)
{
	LIST_HEAD(gone);
	struct dp_k_event *e, *next;

	mutex_lock(&dp_k_events_lock);
	list_for_each_entry_safe(e, next, &dp_k_events, list)
		dp_k_event_remove(e, &gone);
	mutex_unlock(&dp_k_events_lock);
	dp_k_events_reap(&gone);
	dp_k_event_files_exit();
}
