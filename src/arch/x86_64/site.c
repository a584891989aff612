/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The judge. A five-byte jump is allowed only where nothing but falling through can lead to the bytes
 * behind its first one, and where all that it displaces can run elsewhere. Kernel-clean, allocates
 * nothing; everything it believes comes from struct dp_text.
 */
#include "arch/x86_64/relocate.h"
#include "arch/site.h"
#include "arch/x86_64/flags.h"

#define BACK_INSNS 4 /* how far before an address a window may begin */
#define BACK_BYTES 15

typedef unsigned long long ull;

/* What must not be displaced there: DP_OK nothing. */
static enum dp_code guarded(const struct dp_text *t, u64 lo, u64 hi)
{
	for (u32 i = 0; i < t->nguards; i++)
		if (lo < t->guards[i].hi && hi > t->guards[i].lo)
			return i < t->nguards - t->nhooks ? E_SITE_RSEQ : E_SITE_HOOK;
	return DP_OK;
}

static int decode(const struct dp_text *t, u64 addr, u64 end, struct dp_insn *in)
{
	return dp_insn_decode(in, t->bytes + (addr - t->lo), end - addr);
}

/* Starts of instructions around addr: the one that contains it, and the next. */
struct place {
	u64 at, next;
	bool bad; /* the function cannot be decoded up to addr */
};

static bool bit(const u8 *map, u64 i)
{
	return map[i >> 3] >> (i & 7) & 1;
}

static void find_place(const struct dp_text *t, const struct dp_func *f, u64 addr, struct place *p)
{
	struct dp_insn in;
	int n;

	p->bad = false;
	p->at = f->lo;
	if (t->starts) {
		for (p->at = addr; p->at > f->lo && !bit(t->starts, p->at - t->lo); p->at--)
			if (addr - p->at >= DP_INSN_MAX) {
				p->bad = true;
				return;
			}
	}
	for (;;) {
		n = decode(t, p->at, f->hi, &in);
		if (n < 0) {
			p->bad = true;
			return;
		}
		p->next = p->at + (u64)n;
		if (p->next > addr)
			return;
		if (t->starts) { /* a start that is not followed by one: decoding stopped here */
			p->bad = true;
			return;
		}
		p->at = p->next;
	}
}

/* Bytes that nothing runs: no-operations, breakpoints, and zeros between functions. */
static int padding_len(const struct dp_text *t, u64 addr, u64 end)
{
	const u8 *p = t->bytes + (addr - t->lo);
	struct dp_insn in;
	int n;

	if (*p == 0xcc)
		return 1;
	n = dp_insn_decode(&in, p, end - addr);
	return n > 0 && dp_insn_is_nop(&in) ? n : 0;
}

/*
 * Zeros between functions may be data that a function reads. They are padding only if they go on to the
 * aligned start of the next function and nothing refers to them.
 */
static bool zero_padding(const struct dp_text *t, u64 from, u64 *end)
{
	u64 a = from;

	while (a < t->hi && a - from < 64 && !t->bytes[a - t->lo] && !dp_text_is_target(t, a))
		a++;
	*end = a;
	if (a == from || a == t->hi)
		return false;
	return !(a & 15) && dp_text_func(t, a) && dp_text_func(t, a)->lo == a;
}

/*
 * Whether the bytes [from, end) may be overwritten though they are not displaced. The caller has made sure that
 * nothing falls through to them.
 */
static bool is_padding(const struct dp_text *t, const struct dp_func *f, u64 from, u64 end)
{
	u64 a = from, zeros;

	if (end > t->hi)
		return false;
	if (from >= f->hi && zero_padding(t, from, &zeros) && end <= zeros)
		return true;
	while (a < end) {
		const struct dp_func *g = dp_text_func(t, a);
		int n;

		/* Inside an unproven function a computed jump may arrive anywhere. */
		if (g && (g != f || f->flags & DP_FUNC_UNPROVEN))
			return false;
		n = padding_len(t, a, g ? f->hi : t->hi);
		if (!n)
			return false;
		a += (u64)n;
	}
	for (a = from; a < end; a++)
		if (dp_text_is_target(t, a) || (a >= f->hi && dp_text_func(t, a)))
			return false;
	return true;
}

/* May this instruction be displaced? It stands for itself: what follows is judged separately. */
static int displaceable(const struct dp_text *t, const struct dp_insn *in, u64 addr, struct dp_error *err)
{
	enum dp_code guard;

	switch (in->cls) {
	case DP_INSN_INT3:
	case DP_INSN_UD:
	case DP_INSN_FAR:
		return dp_fail(err, E_SITE_INSN, "0x%llx", (ull)addr);
	case DP_INSN_HLT:
		if (!DP_RING0)
			return dp_fail(err, E_SITE_INSN, "0x%llx", (ull)addr);
	}
	guard = guarded(t, addr, addr + in->len);
	if (guard)
		return dp_fail(err, guard, "0x%llx", (ull)addr);
	if (!dp_can_relocate(in, t->bytes + (addr - t->lo)))
		return dp_fail(err, E_RELOC_INSN, "0x%llx", (ull)addr);
	return 0;
}

static int target_inside(const struct dp_text *t, u64 lo, u64 hi, struct dp_error *err)
{
	for (u64 a = lo; a < hi; a++)
		if (dp_text_is_target(t, a))
			return dp_fail(err, E_SITE_TARGET, "control may arrive at 0x%llx", (ull)a);
	return 0;
}

/* Take in the instruction at addr. */
static int append(const struct dp_text *t, const struct dp_func *f, struct dp_window *win, u64 addr, struct dp_insn *in,
		  struct dp_error *err)
{
	u64 first = addr == win->start ? addr + 1 : addr;
	int rc;

	if (decode(t, addr, f->hi, in) < 0)
		return dp_fail(err, E_SITE_BADINSN, "0x%llx", (ull)addr);
	rc = displaceable(t, in, addr, err);
	if (rc)
		return rc;
	rc = target_inside(t, first, addr + in->len, err);
	if (rc)
		return rc;
	if (win->ninsns && f->flags & DP_FUNC_UNPROVEN)
		return dp_fail(err, E_SITE_UNPROVEN, "the function at 0x%llx", (ull)f->lo);
	if (win->ninsns == DP_WINDOW_INSNS || addr + in->len - win->start > 255)
		return dp_fail(err, E_SITE_SHORT, "too many instructions from 0x%llx on", (ull)win->start);
	win->off[win->ninsns++] = (u8)(addr - win->start);
	if (addr > win->start && addr - win->start < DP_JUMP_LEN)
		win->bounds |= (u8)(1u << (addr - win->start));
	win->len = (u8)(addr + in->len - win->start);
	win->falls = dp_insn_falls_through(in);
	return 0;
}

/* The window has ended before it has five bytes: are the bytes behind it free? */
static int complete(const struct dp_text *t, const struct dp_func *f, struct dp_window *win, struct dp_error *err)
{
	u64 from = win->start + win->len, end = win->start + DP_JUMP_LEN;

	if (win->len >= DP_JUMP_LEN)
		return 0;
	if (!win->falls && is_padding(t, f, from, end) && !guarded(t, from, end))
		return 0;
	return dp_fail(err, E_SITE_SHORT, "%u bytes from 0x%llx on", win->len, (ull)win->start);
}

int dp_window_build(const struct dp_text *t, u64 start, u64 upto, struct dp_window *win, struct dp_error *err)
{
	const struct dp_func *f = dp_text_func(t, start);
	u64 addr = start;
	struct dp_insn in;
	int rc;

	if (!f)
		return dp_fail(err, E_SITE_NOFUNC, "0x%llx", (ull)start);
	*win = (struct dp_window){.start = start};
	for (;;) {
		rc = append(t, f, win, addr, &in, err);
		if (rc)
			return rc;
		addr += in.len;
		if (addr > upto && win->len >= DP_JUMP_LEN)
			return 0;
		/* Nothing behind a call or an unconditional jump is displaced with it. */
		if (!win->falls || dp_insn_is_call(&in) || addr >= f->hi)
			break;
	}
	if (addr <= upto)
		return dp_fail(err, E_SITE_SHORT, "0x%llx is not reached from 0x%llx", (ull)upto, (ull)start);
	return complete(t, f, win, err);
}

/* Starts of instructions before addr, nearest first, that may begin a window with it: straight line only. */
static u32 earlier_starts(const struct dp_text *t, const struct dp_func *f, u64 addr, u64 *v)
{
	u64 ring[BACK_INSNS], from = f->lo;
	u32 seen = 0, n = 0;
	struct dp_insn in;
	int len;

	if (t->starts) {
		from = addr;
		for (u64 a = addr; a > f->lo && addr - a < BACK_BYTES; a--)
			if (bit(t->starts, a - 1 - t->lo))
				from = a - 1;
	}
	for (u64 a = from; a < addr; a += (u64)len) {
		len = decode(t, a, f->hi, &in);
		if (len < 0)
			return 0;
		if (!dp_insn_falls_through(&in) || dp_insn_is_call(&in))
			seen = 0;
		else
			ring[seen++ % BACK_INSNS] = a;
		if (a + (u64)len > addr)
			return 0;
	}
	while (n < BACK_INSNS && n < seen) {
		u64 a = ring[(seen - 1 - n) % BACK_INSNS];

		if (addr - a > BACK_BYTES)
			break;
		v[n++] = a;
		if (dp_text_is_target(t, a)) /* still fine as a start, but nothing before it */
			break;
	}
	return n;
}

static bool is_entry(const struct dp_func *f, u64 addr)
{
	return addr == f->lo && !(f->flags & (DP_FUNC_PART | DP_FUNC_FALLEN));
}

static int refuse(struct dp_site *site, enum dp_code why, int rc)
{
	site->outcome = DP_OUTCOME_REFUSED;
	site->why = why;
	return rc;
}

/* Is there an instruction at addr at all, and may it be touched? */
static int admit(const struct dp_text *t, u64 addr, const struct dp_func **fp, struct dp_insn *in, struct dp_error *err)
{
	const struct dp_func *f;
	struct place p;

	if (addr < t->lo || addr >= t->hi)
		return dp_fail(err, E_SITE_NOTEXT, "0x%llx", (ull)addr);
	*fp = f = dp_text_func(t, addr);
	if (!f)
		return dp_fail(err, E_SITE_NOFUNC, "0x%llx", (ull)addr);
	find_place(t, f, addr, &p);
	if (p.bad)
		return dp_fail(err, E_SITE_BADINSN, "0x%llx", (ull)addr);
	if (p.at != addr)
		return dp_fail(err, E_SITE_MIDINSN,
			       "0x%llx: instructions begin at 0x%llx and 0x%llx (function+%llu and +%llu)", (ull)addr,
			       (ull)p.at, (ull)p.next, (ull)(p.at - f->lo), (ull)(p.next - f->lo));
	if (decode(t, addr, f->hi, in) < 0)
		return dp_fail(err, E_SITE_BADINSN, "0x%llx", (ull)addr);
	return displaceable(t, in, addr, err);
}

/* A window from an earlier instruction: control must not arrive at addr itself other than through it. */
static bool try_backward(const struct dp_text *t, const struct dp_func *f, u64 addr, struct dp_site *site)
{
	u64 starts[BACK_INSNS];
	u32 n;

	if (dp_text_is_target(t, addr) || f->flags & DP_FUNC_UNPROVEN)
		return false;
	n = earlier_starts(t, f, addr, starts);
	for (u32 i = 0; i < n; i++)
		if (!dp_window_build(t, starts[i], addr, &site->win, NULL))
			return true;
	return false;
}

int dp_site_judge(const struct dp_text *t, u64 addr, struct dp_site *site, struct dp_error *err)
{
	struct dp_error local;
	const struct dp_func *f = NULL;
	struct dp_insn in;
	int rc;

	if (!err)
		err = &local;
	*site = (struct dp_site){.addr = addr};
	err->code = DP_OK;
	rc = admit(t, addr, &f, &in, err);
	if (rc)
		return refuse(site, err->code, rc);
	site->flags_dead = dp_flags_dead(t, addr);
	site->red_zone = !is_entry(f, addr) && !(f->flags & DP_FUNC_GO);
	site->outcome = DP_OUTCOME_JUMP;
	if (!dp_window_build(t, addr, addr, &site->win, err) || try_backward(t, f, addr, site)) {
		err->code = DP_OK;
		return 0;
	}
	site->outcome = DP_OUTCOME_TRAP;
	site->why = err->code;
	site->win = (struct dp_window){.start = addr, .len = in.len, .ninsns = 1, .falls = dp_insn_falls_through(&in)};
	return 0;
}
