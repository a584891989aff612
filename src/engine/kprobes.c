/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The registry of probes: see kprobes.h. A change is prepared at the points, carried out at once for the whole batch by
 * the host's apply(), and what hits may have seen is freed after that.
 */
#include "engine/kprobes.h"

static struct dp_registered **bucket_of(struct dp_kprobes *kr, const struct dp_kprobe *kp)
{
	return &kr->by_kp[(u32)((u64)(unsigned long)kp * 0x9e3779b97f4a7c15ull >> 40) % DP_KPROBES_HASH];
}

struct dp_registered *dp_kprobes_find(const struct dp_kprobes *kr, const struct dp_kprobe *kp)
{
	struct dp_registered *s = *bucket_of((struct dp_kprobes *)kr, kp);

	while (s && s->kp != kp)
		s = s->bucket;
	return s;
}

static void link_probe(struct dp_kprobes *kr, struct dp_registered *s)
{
	struct dp_registered **bucket = bucket_of(kr, s->kp);

	s->bucket = *bucket;
	*bucket = s;
	s->prev = kr->last;
	*(kr->last ? &kr->last->next : &kr->first) = s;
	kr->last = s;
}

static void unlink_probe(struct dp_kprobes *kr, struct dp_registered *s)
{
	struct dp_registered **at = bucket_of(kr, s->kp);

	while (*at != s)
		at = &(*at)->bucket;
	*at = s->bucket;
	*(s->prev ? &s->prev->next : &kr->first) = s->next;
	*(s->next ? &s->next->prev : &kr->last) = s->prev;
}

/* Tens of thousands of probes take a while. */
static void breathe(const struct dp_kprobes *kr, int i)
{
	const struct dp_host *code = &kr->m->host->code;

	if (!(i & 63) && code->breathe)
		code->breathe(code->arg);
}

static struct dp_kretprobe *return_probe(const struct dp_registered *s)
{
	return s->type == 'r' ? (struct dp_kretprobe *)s->kp : NULL;
}

static void set_flag(struct dp_kprobe *kp, unsigned int flag, bool on)
{
	kp->flags = on ? kp->flags | flag : kp->flags & ~flag;
}

static u32 flags_of(const struct dp_registered *s)
{
	return s->hints | (s->kp->flags & DP_KPROBE_FLAG_DISABLED ? DP_MGR_DISABLED : 0) |
	       (s->kp->pre_handler ? DP_MGR_PRE : 0) | (s->kp->post_handler ? DP_MGR_POST : 0) |
	       (s->type == 'j' ? DP_MGR_BREAK : 0);
}

void dp_kprobes_show_state(struct dp_kpoint *p)
{
	for (struct dp_mgr_probe *k = p->probes; k; k = k->next) {
		struct dp_kprobe *kp = k->owner;

		set_flag(kp, DP_KPROBE_FLAG_OPTIMIZED,
			 p->state == DP_POINT_JUMP && !(kp->flags & DP_KPROBE_FLAG_DISABLED));
	}
}

static bool is_gone(const struct dp_kprobes *kr, const struct dp_registered *s)
{
	return s->kp->flags & DP_KPROBE_FLAG_GONE ||
	       (s->k.point ? s->k.point->gone : kr->host->is_gone && kr->host->is_gone(s));
}

/* ---- registering ---- */

/* Find the address. 1: it is a symbol in a module that is not loaded. */
static int resolve(struct dp_kprobes *kr, struct dp_kprobe *kp, u64 *addr, struct dp_error *err)
{
	int r = 0;

	if (kp->symbol_name && kp->addr == kp->dp_private) /* left from the last time */
		kp->addr = NULL;
	if (!kp->symbol_name == !kp->addr)
		return dp_fail(err, E_KPROBE_ARGUMENT, "%s", kp->addr ? "both symbol_name and addr" : "no place");
	*addr = (unsigned long)kp->addr;
	if (kp->symbol_name)
		r = kr->host->resolve(kp->symbol_name, addr, err);
	*addr += kp->offset;
	return r;
}

static void set_pending(struct dp_registered *s, bool pending)
{
	s->pending = pending;
	set_flag(s->kp, DP_KPROBE_FLAG_PENDING, pending);
}

/* No hit enters the function through it any more. */
static void close_return(struct dp_kprobes *kr, const struct dp_registered *s)
{
	if (return_probe(s))
		dp_return_close(kr->returns, return_probe(s));
}

static int attach(struct dp_kprobes *kr, struct dp_registered *s, u64 addr, struct dp_error *err)
{
	struct dp_kretprobe *rp = return_probe(s);
	int r = rp ? dp_return_open(kr->returns, rp, err) : 0;

	if (r)
		return r;
	s->k.owner = s->kp;
	s->k.flags = flags_of(s);
	r = kr->host->attach(s, &addr, err);
	if (!r) {
		s->kp->addr = (void *)(unsigned long)addr;
		set_pending(s, false);
		return 0;
	}
	if (s->k.point) { /* it was there for a moment: no hit may see it any more */
		if (rp)
			dp_return_forget(kr->m, rp);
		kr->host->apply(NULL);
		s->k.point = NULL;
	}
	close_return(kr, s);
	return r;
}

static int check(struct dp_kprobes *kr, struct dp_kprobe *kp, char type, struct dp_error *err)
{
	if (dp_kprobes_find(kr, kp))
		return dp_fail(err, E_KPROBE_ARGUMENT, "it is registered already, or twice in the batch");
	if (type == 'j' && !((struct dp_jprobe *)kp)->entry)
		return dp_fail(err, E_KPROBE_ARGUMENT, "a jprobe without an entry");
	return type == 'r' ? dp_return_check(kr->returns, (struct dp_kretprobe *)kp, err) : 0;
}

/* The handlers that stand in the structure of a jprobe or return probe are not used. */
static void set_handlers(const struct dp_kprobes *kr, struct dp_kprobe *kp, char type)
{
	if (type == 'k')
		return;
	kp->pre_handler = type == 'r' ? kr->host->return_entry : kr->host->jprobe_entry;
	kp->post_handler = NULL;
}

static int add_probe(struct dp_kprobes *kr, struct dp_kprobe *kp, char type, struct dp_error *err)
{
	struct dp_registered *s;
	u64 addr;
	int r = check(kr, kp, type, err), missing;

	if (r)
		return r;
	missing = resolve(kr, kp, &addr, err);
	if (missing < 0)
		return missing;
	s = dp_alloc(sizeof(*s));
	if (!s)
		return dp_fail(err, E_ARM_NOMEM, "a probe");
	kp->nmissed = 0;
	kp->flags &= kr->host->user_flags;
	set_handlers(kr, kp, type);
	*s = (struct dp_registered){.kp = kp, .given = kp->addr, .type = type, .hints = kr->host->hints(kp, type)};
	if (!missing)
		r = attach(kr, s, addr, err);
	if (r && kp->symbol_name && kr->host->resolve(kp->symbol_name, &addr, NULL) > 0)
		missing = 1; /* its module began to go meanwhile: wait until it comes back */
	if (r && missing <= 0) {
		dp_free(s);
		return r;
	}
	set_pending(s, missing);
	kp->dp_private = s;
	link_probe(kr, s);
	return 0;
}

static void detach(struct dp_kprobes *kr, struct dp_registered *s)
{
	if (return_probe(s)) /* calls that are under way return without its handler from now on */
		dp_return_forget(kr->m, return_probe(s));
	kr->host->detach(s);
	s->k.point = NULL;
}

/* The caller has it back, as it was: registered again, it stands where it stood. See resolve(). */
static void give_back(struct dp_kprobes *kr, struct dp_registered *s)
{
	struct dp_kprobe *kp = s->kp;

	close_return(kr, s);
	if (s->type != 'k')
		kp->pre_handler = NULL;
	kp->flags &= kr->host->user_flags;
	kp->dp_private = kp->symbol_name ? kp->addr : NULL;
	if (!kp->symbol_name)
		kp->addr = s->given;
	dp_free(s->own);
	dp_free(s);
}

static void unregister_all(struct dp_kprobes *kr, struct dp_kprobe **kps, int num)
{
	struct dp_registered *gone = NULL, *s;

	for (int i = 0; i < num; i++) {
		breathe(kr, i);
		s = dp_kprobes_find(kr, kps[i]);
		if (!s) {
			kps[i]->addr = NULL;
			continue;
		}
		detach(kr, s);
		unlink_probe(kr, s);
		s->next = gone;
		gone = s;
	}
	kr->host->apply(NULL); /* after its grace period nobody sees them any more */
	while ((s = gone)) {
		gone = s->next;
		give_back(kr, s);
	}
	if (kr->returns->closed)
		kr->host->sweep();
}

int dp_kprobes_register(struct dp_kprobes *kr, struct dp_kprobe **kps, int num, char type, struct dp_error *out)
{
	struct dp_error err = {0};
	int r, i;

	if (num <= 0) {
		r = dp_fail(&err, E_KPROBE_ARGUMENT, "a batch of none");
		kr->host->tell(NULL, &err, r);
		return r;
	}
	r = kr->host->lock();
	if (r)
		return r;
	if (type == 'r' && kr->returns->closed)
		kr->host->sweep();
	for (i = 0; i < num && !r; i++) {
		breathe(kr, i);
		r = add_probe(kr, kps[i], type, &err);
		kr->host->tell(kps[i], &err, r);
	}
	if (r)
		i--; /* the bad one is not registered */
	else
		r = kr->host->apply(&err);
	if (r) {
		unregister_all(kr, kps, i);
		for (int k = 0; i == num && k < num; k++) /* all of them were good until they were to be armed */
			kr->host->tell(kps[k], &err, r);
	}
	kr->host->unlock();
	if (r && out)
		*out = err;
	return r;
}

void dp_kprobes_unregister(struct dp_kprobes *kr, struct dp_kprobe **kps, int num)
{
	if (num <= 0 || kr->host->lock())
		return;
	unregister_all(kr, kps, num);
	kr->host->unlock();
}

/* ---- what may change meanwhile ---- */

static int change_flags(struct dp_kprobes *kr, struct dp_registered *s, bool disabled, struct dp_error *err)
{
	u32 flags;
	int r = 0;

	set_flag(s->kp, DP_KPROBE_FLAG_DISABLED, disabled);
	flags = flags_of(s);
	if (s->k.point)
		r = dp_mgr_flags(kr->m, &s->k, flags);
	else
		s->k.flags = flags;
	r = r ? r : kr->host->flagged(s);
	return r ? dp_fail(err, E_ARM_NOMEM, "a list of probes") : kr->host->apply(err);
}

int dp_kprobes_disable(struct dp_kprobes *kr, struct dp_kprobe *kp, bool disabled)
{
	struct dp_error err = {0};
	struct dp_registered *s;
	bool was;
	int r = kr->host->lock();

	if (r)
		return r;
	s = dp_kprobes_find(kr, kp);
	if (!s || is_gone(kr, s)) {
		r = dp_fail(&err, E_KPROBE_UNKNOWN, "%s", s ? "its module is gone" : "no such probe");
	} else {
		was = kp->flags & DP_KPROBE_FLAG_DISABLED;
		r = change_flags(kr, s, disabled, &err);
		if (r) /* an error changes nothing: what cannot be armed stays off */
			change_flags(kr, s, was, NULL);
	}
	kr->host->tell(kp, &err, r);
	kr->host->unlock();
	return r;
}

int dp_kprobes_knob(struct dp_kprobes *kr, bool optimisation, int on, int *was)
{
	struct dp_manager *m = kr->m;
	struct dp_error err = {0};
	int r = kr->host->lock();

	*was = 0;
	if (r)
		return r;
	*was = optimisation ? !m->no_optimise : !m->disarmed;
	if (on == !*was) {
		r = dp_mgr_knobs(m, optimisation ? m->disarmed : !on, optimisation ? !on : m->no_optimise);
		r = r ? r : kr->host->flagged(NULL);
		r = r ? dp_fail(&err, E_ARM_NOMEM, "the lists of probes") : kr->host->apply(&err);
		kr->host->tell(NULL, &err, r);
	}
	kr->host->unlock();
	return r;
}

static bool waits_for(const struct dp_registered *s, const char *module)
{
	size_t len = module ? strlen(module) : 0;

	return s->pending && (!module || (!strncmp(s->kp->symbol_name, module, len) && s->kp->symbol_name[len] == ':'));
}

void dp_kprobes_try_pending(struct dp_kprobes *kr, const char *module)
{
	struct dp_error err = {0};
	bool any = false;
	u64 addr;

	for (struct dp_registered *s = kr->first; s; s = s->next) {
		if (!waits_for(s, module))
			continue;
		if (!resolve(kr, s->kp, &addr, &err))
			kr->host->tell(s->kp, &err, attach(kr, s, addr, &err));
		any = true;
	}
	if (any)
		kr->host->apply(&err);
	if (kr->returns->closed)
		kr->host->sweep();
}

static bool waits_again(const struct dp_kprobe *kp)
{
	const char *c = kp->flags & DP_KPROBE_FLAG_AGAIN && kp->symbol_name ? kp->symbol_name : "";

	while (*c && *c != ':')
		c++;
	return *c;
}

void dp_kprobes_mark_gone(struct dp_kprobes *kr)
{
	bool any = false;

	for (struct dp_registered *s = kr->first; s; s = s->next) {
		if (s->pending || s->kp->flags & DP_KPROBE_FLAG_GONE || !is_gone(kr, s))
			continue;
		any = true;
		set_flag(s->kp, DP_KPROBE_FLAG_OPTIMIZED, false);
		set_flag(s->kp, DP_KPROBE_FLAG_GONE, !waits_again(s->kp));
		if (s->kp->flags & DP_KPROBE_FLAG_GONE)
			continue;
		detach(kr, s);
		s->kp->addr = NULL;
		set_pending(s, true);
	}
	if (!any)
		return;
	kr->host->apply(NULL); /* what was replaced is freed after its grace period */
	for (struct dp_registered *s = kr->first; s; s = s->next)
		if (s->pending)
			close_return(kr, s);
	if (kr->returns->closed)
		kr->host->sweep();
}

void dp_kprobes_remove_all(struct dp_kprobes *kr)
{
	struct dp_registered *s;

	for (s = kr->first; s; s = s->next) {
		detach(kr, s);
		s->pending = false;
		set_flag(s->kp, DP_KPROBE_FLAG_OPTIMIZED, false);
		set_flag(s->kp, DP_KPROBE_FLAG_GONE, true);
	}
	kr->host->apply(NULL);
	for (s = kr->first; s; s = s->next)
		close_return(kr, s);
	if (kr->returns->closed)
		kr->host->sweep();
}
