// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What is known of a function: its bytes, where its instructions begin, where control may arrive.
 * Made when a function is probed for the first time, and kept. The site judge believes nothing
 * else.
 */
#include <linux/hashtable.h>
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/sort.h>
#include <linux/uaccess.h>

#include "arch/arch.h"
#include "kernel-priv.h"

#define FUNC_MAX (512 * 1024)

struct owner { /* the kernel, or one of its modules */
	struct owner *next;
	struct module *mod;
	struct dp_marks marks;
	u64 *cross; /* what is jumped to from another function, sorted */
	u32 ncross, cap;
	bool crossed;
};

struct kfunc {
	struct kfunc *next; /* all of them */
	struct hlist_node node;
	struct owner *owner;
	struct dp_text text;
	struct dp_func func;
	struct dp_span *guards;
	u64 ftrace; /* five bytes that the function tracer changes; 0: none */
	u8 *bytes, *targets, *starts;
	bool gone, nokprobe;
	u8 room[];
};

static DEFINE_HASHTABLE(funcs, 12);
static struct kfunc *all;
static struct owner core;
static struct owner *owners; /* modules */

/* Stubs of indirect jumps: each kind has one for every register, in this order. */
static const char *const thunk_names[][2] = {
    {"__x86_indirect_thunk_rax", "__x86_indirect_thunk_r15"},
    {"__x86_indirect_jump_thunk_rax", "__x86_indirect_jump_thunk_r15"},
    {"__x86_indirect_its_thunk_rax", "__x86_indirect_its_thunk_r15"},
};
static struct dp_span thunks[DP_ARRAY_SIZE(thunk_names)];

static void set_bit_of(u8 *map, u64 i)
{
	map[i >> 3] |= (u8)(1u << (i & 7));
}

bool dp_k_text_is_target(const struct dp_text *t, u64 addr)
{
	return dp_text_is_target(t, addr);
}

enum { BEFORE = DP_JUMP_LEN - 1 };

/*
 * A kprobe or a probe of ours may have changed what stands here; the bytes in front are looked at, too: it may be the
 * distance of a jump that a kprobe before it was turned into. Two breakpoints in a row are padding.
 */
static bool may_be_changed(const u8 *code, size_t n)
{
	return (dp_code_may_be_patched(code[0]) && !(n > 1 && code[0] == DP_TRAP_BYTE && code[1] == DP_TRAP_BYTE)) ||
	       memchr(code - BEFORE, DP_JUMP_BYTE, BEFORE);
}

/* The instruction at addr as it was before a kprobe or a probe of ours came; at most avail bytes are looked at. */
static int original(u64 addr, u8 *buf, size_t avail, struct dp_insn *in)
{
	u8 around[BEFORE + DP_INSN_MAX] = {0};
	u8 spare[DP_INSN_MAX + 1]; /* as long as the kernel takes it to be */
	const struct dp_kpoint *p;
	unsigned long from;
	size_t n = min_t(size_t, avail, DP_INSN_MAX);

	if (copy_from_kernel_nofault(around, (void *)(unsigned long)(addr - BEFORE), BEFORE + n) &&
	    copy_from_kernel_nofault(around + BEFORE, (void *)(unsigned long)addr, n))
		return -EFAULT;
	memcpy(buf, around + BEFORE, n);
	if (!may_be_changed(around + BEFORE, n))
		return dp_insn_decode(in, buf, n);
	p = dp_mgr_point(&dp_k_manager, addr);
	if (p) {
		memcpy(buf, p->bytes, min_t(size_t, n, p->insn.len));
	} else if (dp_k_sym.recover) {
		preempt_disable();
		from = dp_k_sym.recover(spare, addr);
		preempt_enable();
		if (from && from != addr)
			memcpy(buf, spare, n);
	}
	return dp_insn_decode(in, buf, n);
}

/* A stub, or one that the kernel has made when it started: those have no symbols. */
static bool is_thunk(u64 target)
{
	unsigned long size, off;

	for (u32 i = 0; i < DP_ARRAY_SIZE(thunks); i++)
		if (target >= thunks[i].lo && target <= thunks[i].hi)
			return true;
	return !dp_k_sym.size_offset(target, &size, &off);
}

static bool jumps_anywhere(const struct kfunc *f, const struct dp_insn *in, u64 addr)
{
	u64 target;

	if (in->cls == DP_INSN_JMP_IND)
		return true;
	if (in->cls == DP_INSN_CALL_REL || !dp_insn_target(in, addr, &target))
		return false;
	return (target < f->text.lo || target >= f->text.hi) && is_thunk(target);
}

static void mark(struct kfunc *f, u64 addr)
{
	if (addr >= f->text.lo && addr < f->text.hi)
		set_bit_of(f->targets, addr - f->text.lo);
}

/* Where one instruction may lead to or be meant for. */
static void see(struct kfunc *f, const struct dp_insn *in, u64 addr)
{
	u64 target;

	if (dp_insn_target(in, addr, &target))
		mark(f, target);
	if (dp_insn_is_call(in) || in->cls == DP_INSN_FAR)
		mark(f, addr + in->len); /* the return arrives there */
	if (in->rip_relative)
		mark(f, addr + in->len + (u64)in->disp);
	if (in->imm_size >= 4) /* kernel addresses are sign-extended constants */
		mark(f, (u64)in->imm);
	if (jumps_anywhere(f, in, addr))
		f->func.flags |= DP_FUNC_UNPROVEN;
}

/* The bytes, the starts and the targets. Ends where decoding does, without trailing padding. */
static void walk(struct kfunc *f)
{
	u64 addr = f->text.lo, end = addr;

	while (addr < f->text.hi) {
		u8 *buf = f->bytes + (addr - f->text.lo);
		struct dp_insn in;
		u8 code[DP_INSN_MAX];
		int n = original(addr, code, f->text.hi - addr, &in);

		if (n < 0)
			break;
		memcpy(buf, code, n);
		set_bit_of(f->starts, addr - f->text.lo);
		see(f, &in, addr);
		if (in.cls != DP_INSN_INT3 && !(dp_insn_traits(&in) & DP_INSN_NOP && addr != f->ftrace))
			end = addr + n;
		addr += n;
	}
	f->func.hi = end;
}

static void mark_sorted(struct kfunc *f, const u64 *v, u32 n)
{
	for (size_t i = dp_count_below(v, n, sizeof(*v), 0, f->text.lo); i < n && v[i] < f->text.hi; i++)
		mark(f, v[i]);
}

/* Instructions that must stay where they are. */
static int add_guards(struct kfunc *f)
{
	const struct dp_marks *m = &f->owner->marks;
	u32 i = 0, n = 0, cap = 1;

	while (i < m->n && m->v[i].addr < f->text.lo)
		i++;
	for (u32 k = i; k < m->n && m->v[k].addr < f->text.hi; k++)
		cap++;
	f->guards = dp_alloc(cap * sizeof(*f->guards));
	if (!f->guards)
		return -ENOMEM;
	for (; i < m->n && m->v[i].addr < f->text.hi; i++)
		f->guards[n++] = (struct dp_span){m->v[i].addr, m->v[i].addr + 1};
	if (f->ftrace)
		f->guards[n++] = (struct dp_span){f->ftrace, f->ftrace + DP_JUMP_LEN};
	f->text.guards = f->guards;
	f->text.nguards = n;
	return 0;
}

static void free_func(struct kfunc *f)
{
	if (f)
		dp_free(f->guards);
	dp_free(f);
}

static struct kfunc *make(struct owner *o, u64 lo, u64 hi)
{
	u64 n = hi - lo, map = n / 8 + 1;
	struct kfunc *f = dp_alloc(sizeof(*f) + n + 2 * map);

	if (!f)
		return NULL;
	f->owner = o;
	f->bytes = f->room;
	f->targets = f->bytes + n;
	f->starts = f->targets + map;
	f->func = (struct dp_func){.lo = lo, .hi = hi};
	f->text = (struct dp_text){.lo = lo,
				   .hi = hi,
				   .bytes = f->bytes,
				   .targets = f->targets,
				   .starts = f->starts,
				   .funcs = &f->func,
				   .nfuncs = 1};
	f->ftrace = dp_k_tracers_bytes(lo);
	f->nokprobe = dp_k_is_nokprobe(lo, hi);
	if (copy_from_kernel_nofault(f->bytes, (void *)(unsigned long)lo, n) || add_guards(f)) {
		free_func(f);
		return NULL;
	}
	walk(f);
	mark(f, lo);
	mark_sorted(f, o->marks.targets, o->marks.ntargets);
	mark_sorted(f, o->cross, o->ncross);
	f->next = all;
	all = f;
	hash_add(funcs, &f->node, lo);
	return f;
}

/* ---- jumps from one function into another ---- */

static int add_cross(struct owner *o, u64 addr)
{
	if (o->ncross == o->cap) {
		u32 cap = o->cap ? o->cap * 2 : 1024;
		void *v = dp_resize(o->cross, o->cap * sizeof(u64), cap * sizeof(u64));

		if (!v)
			return -ENOMEM;
		o->cross = v;
		o->cap = cap;
	}
	o->cross[o->ncross++] = addr;
	return 0;
}

/* All of an owner's code is read: in pieces, and most calls go to functions that others have called before. */
#define PIECE 4096
#define STARTS 2048

struct scan {
	struct owner *owner;
	u64 lo, hi;         /* all of it */
	u64 at;             /* the piece's first byte */
	u64 starts[STARTS]; /* of functions, by their last bits */
	u32 n;
	u8 piece[BEFORE + PIECE]; /* what stands in front of all of it counts as zeros */
};

/* n bytes as they stand at addr, behind BEFORE others; NULL: they cannot be read. */
static const u8 *read_ahead(struct scan *s, u64 addr, size_t n)
{
	u64 from = max(s->lo, addr - BEFORE);

	if (from < s->at || addr + n > s->at + s->n) {
		s->at = from;
		s->n = min_t(u64, PIECE, s->hi - from);
		dp_k_text_lock(); /* nobody is half-way through a change of an instruction */
		if (copy_from_kernel_nofault(s->piece + BEFORE, (void *)(unsigned long)from, s->n))
			s->n = 0;
		dp_k_text_unlock();
	}
	return s->n ? s->piece + BEFORE + (addr - s->at) : NULL;
}

/* Whether a function begins there, or nothing that has a name lies there. */
static bool is_start(struct scan *s, u64 addr)
{
	u64 *known = &s->starts[addr / 16 % STARTS];
	unsigned long size, off;

	if (*known == addr)
		return true;
	if (dp_k_sym.size_offset(addr, &size, &off) && off)
		return false;
	*known = addr;
	return true;
}

static int cross_of(struct scan *s, u64 lo, u64 hi)
{
	struct dp_insn in;
	u8 code[DP_INSN_MAX];
	u64 target;
	int n, r;

	for (u64 a = lo; a < hi; a += n) {
		size_t avail = min_t(u64, hi - a, DP_INSN_MAX);
		const u8 *bytes = read_ahead(s, a, avail);

		if (!(a & 255))
			cond_resched(); /* what lies behind the last function looks like a very long one */
		n = bytes && !may_be_changed(bytes, avail) ? dp_insn_decode(&in, bytes, avail)
							   : original(a, code, avail, &in);
		if (n < 0)
			n = 1;
		else if (dp_insn_target(&in, a, &target) && (target < lo || target >= hi) && !is_start(s, target)) {
			r = add_cross(s->owner, target);
			if (r)
				return r;
		}
	}
	return 0;
}

static int by_value(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int find_cross(struct owner *o, u64 lo, u64 hi)
{
	struct scan *s = dp_alloc(sizeof(*s));
	unsigned long size, off;
	int r = 0;

	if (!s)
		return -ENOMEM;
	s->owner = o;
	s->lo = lo;
	s->hi = hi;
	for (u64 a = lo; a < hi && !r; a += max(size, 1ul)) {
		if (!dp_k_sym.size_offset(a, &size, &off) || off)
			size = 16; /* between functions */
		r = cross_of(s, a, min_t(u64, a + size, hi));
		cond_resched();
	}
	dp_free(s);
	if (r)
		return r;
	sort(o->cross, o->ncross, sizeof(u64), by_value, NULL);
	o->crossed = true;
	return 0;
}

/* All of the kernel takes a while: it is read without the lock, by one caller at a time. */
int dp_k_text_cross(void)
{
	struct owner seen = {NULL};
	int r;

	if (core.crossed)
		return 0;
	r = find_cross(&seen, dp_k_sym.stext, dp_k_sym.etext);
	if (r) {
		dp_free(seen.cross);
		return r;
	}
	mutex_lock(&dp_k_lock);
	core.cross = seen.cross;
	core.ncross = seen.ncross;
	core.crossed = true;
	for (struct kfunc *f = all; f; f = f->next)
		if (f->owner == &core)
			mark_sorted(f, core.cross, core.ncross);
	mutex_unlock(&dp_k_lock);
	return 0;
}

/* ---- owners ---- */

static void free_owner(struct owner *o)
{
	dp_k_marks_free(&o->marks);
	dp_free(o->cross);
	o->cross = NULL;
	o->ncross = o->cap = 0;
}

static struct owner *owner_of(struct module *mod)
{
	struct owner *o;
	u64 lo, hi;

	if (!mod)
		return &core;
	for (o = owners; o; o = o->next)
		if (o->mod == mod)
			return o;
	o = dp_alloc(sizeof(*o));
	if (!o)
		return NULL;
	o->mod = mod;
	dp_k_module_text(mod, &lo, &hi);
	if (dp_k_marks_of(mod, &o->marks) || find_cross(o, lo, hi)) {
		free_owner(o);
		dp_free(o);
		return NULL;
	}
	o->next = owners;
	owners = o;
	return o;
}

/* ---- what the manager asks ---- */

static int text_at(u64 addr, struct kfunc **out, struct dp_error *err)
{
	struct module *mod = dp_k_module_of(addr);
	unsigned long size, off;
	struct owner *o;
	struct kfunc *f;

	if (!dp_k_sym.size_offset(addr, &size, &off) || !size || size > FUNC_MAX)
		return dp_fail(err, E_SITE_NOFUNC, "0x%llx", addr);
	hash_for_each_possible(funcs, f, node, addr - off)
		if (f->text.lo == addr - off) {
			*out = f;
			return 0;
		}
	o = owner_of(mod);
	*out = o ? make(o, addr - off, addr - off + size) : NULL;
	return *out ? 0 : dp_fail(err, E_ARM_NOMEM, "the function at 0x%llx", addr - off);
}

u32 dp_k_landing_pad(u64 addr)
{
	struct dp_error ignored = {0};
	struct dp_insn in;
	struct kfunc *f;

	if (dp_k_allowed(addr, &ignored) || text_at(addr, &f, &ignored) || f->nokprobe ||
	    dp_insn_decode(&in, f->bytes + (addr - f->text.lo), f->text.hi - addr) < 0 ||
	    !(dp_insn_traits(&in) & DP_INSN_PAD))
		return 0;
	return in.len;
}

int dp_k_locate(void *arg, u64 addr, struct dp_locus *l, struct dp_error *err)
{
	struct dp_insn in;
	struct kfunc *f;
	int r = dp_k_allowed(addr, err), n;

	if (!r)
		r = text_at(addr, &f, err);
	if (!r && f->nokprobe)
		r = dp_fail(err, E_KPROBE_BLACKLIST, "%pS", (void *)(unsigned long)addr);
	if (r)
		return r;
	if (f->ftrace && addr >= f->ftrace && addr < f->ftrace + DP_JUMP_LEN)
		return dp_fail(err, E_SITE_FTRACE, "%pS", (void *)(unsigned long)addr);
	n = dp_insn_decode(&in, f->bytes + (addr - f->text.lo), f->text.hi - addr);
	if (n > 0 && dp_insn_traits(&in) & DP_INSN_PAD)
		return dp_fail(err, E_SITE_LANDING, "%pS", (void *)(unsigned long)addr);
	if (n > 0) {
		r = dp_k_marked(&f->owner->marks, addr, n, err);
		if (r)
			return r;
	}
	*l = (struct dp_locus){
	    .text = &f->text, .reach_lo = dp_k_near.slots, .reach_hi = dp_k_near.landings, .module = f->owner->mod};
	return 0;
}

enum dp_code dp_k_guard_at(u64 addr, u32 len)
{
	struct dp_error err = {0};
	struct kfunc *f;

	if (!text_at(addr, &f, &err))
		dp_k_marked(&f->owner->marks, addr, len, &err);
	return err.code;
}

/* Functions stay in memory: points refer to them, and traps may still. They are found no more. */
void dp_k_text_gone(u64 lo, u64 hi, struct module *mod)
{
	struct owner **at = &owners, *o;

	for (struct kfunc *f = all; f; f = f->next)
		if (!f->gone && f->text.lo >= lo && f->text.lo < hi) {
			hash_del(&f->node);
			f->gone = true;
		}
	while (mod && (o = *at)) {
		if (o->mod != mod) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free_owner(o);
		dp_free(o);
	}
}

int dp_k_text_init(void)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(thunks); i++)
		thunks[i] = (struct dp_span){dp_k_lookup(thunk_names[i][0]), dp_k_lookup(thunk_names[i][1])};
	return dp_k_marks_of(NULL, &core.marks);
}

void dp_k_text_exit(void)
{
	while (all) {
		struct kfunc *next = all->next;

		free_func(all);
		all = next;
	}
	while (owners) {
		struct owner *next = owners->next;

		free_owner(owners);
		dp_free(owners);
		owners = next;
	}
	free_owner(&core);
	core.crossed = false;
}
