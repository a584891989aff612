/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * At which system calls the programs of an instruction have nothing to do, and the code that passes those by. A
 * program is followed once for each number (program/foretell.c); lines have the same one at many instructions.
 *
 * Where the number comes from the caller of the function, as in syscall(), all calls of a thread may come by: there the
 * program has code for each number behind the call (struct dp_jit_ways).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "abi/abi-stretch.h"
#include "arch/arch.h"
#include "host/process/arm-priv.h"
#include "host/process/compile-calls.h"
#include "program/foretell.h"

enum call_side { CALL_NONE, CALL_BEGIN, CALL_END };

static const struct dp_control nothing;

static enum call_side side_of(const struct dp_spot *sp)
{
	const struct dp_text *t = sp->text;
	u64 off = sp->site.addr - t->lo;

	if (sp->site.addr < t->lo || sp->site.addr + DP_SYSCALL_LEN > t->hi)
		return CALL_NONE;
	if (dp_code_is_syscall(t->bytes + off))
		return CALL_BEGIN;
	return off >= DP_SYSCALL_LEN && dp_code_is_syscall(t->bytes + off - DP_SYSCALL_LEN) ? CALL_END : CALL_NONE;
}

static u32 reg_word_of(const char *name)
{
	struct dp_register_part part;

	return dp_register_find(name, strlen(name), &part) ? part.reg->reg_word : ~0u;
}

/* Programs that know nothing of kept numbers have each of their hits, and see them counted. */
static bool reads_number(const struct dp_event *ev)
{
	return ev->prog.rpn.ex_mask && dp_program_reads(ev->prog.code, ev->prog.len, reg_word_of(DP_NAME_KEPT_CALL));
}

bool dp_calls_wants_number(const struct dp_session *s, const struct dp_spot *sp)
{
	return dp_spot_probe(s, sp)->knows_number && side_of(sp) == CALL_END;
}

/*
 * Calls behind which the thread is another one, by its thread pointer, or is not at all, or two are: the place where
 * the number was kept would not be found again, or stay taken.
 */
static bool may_be_kept(u32 number)
{
	static const u16 never[] = {SYS_rt_sigreturn, SYS_clone,      SYS_fork,       SYS_vfork,
				    SYS_exit,         SYS_arch_prctl, SYS_exit_group, SYS_clone3};

	for (u32 i = 0; i < DP_ARRAY_SIZE(never); i++)
		if (never[i] == number)
			return false;
	return true;
}

/* The numbers of a set that guards have nothing to do at: before the instruction they look at some. */
static void keep_unwatched(u8 *numbers, enum call_side side)
{
	for (u32 i = 0; side == CALL_BEGIN && i < DP_KEPT_CALLS; i++)
		if (dp_stretch_watches(i))
			numbers[i / 8] &= (u8) ~(1u << i % 8);
}

static void follow(const struct dp_program *prog, enum call_side side, u8 *numbers)
{
	struct dp_known_word known[] = {{reg_word_of(DP_NAME_KEPT_CALL), 0}, {reg_word_of(DP_NAME_CALL), 0}};
	struct dp_code_rt rt;

	dp_program_to_rt(prog, &rt);
	for (u32 i = 0; i < DP_KEPT_CALLS; i++) {
		known[0].v = known[1].v = i;
		if (dp_program_is_idle(prog->code, prog->len, &rt, known, side == CALL_BEGIN ? 2 : 1))
			numbers[i / 8] |= (u8)(1u << i % 8);
	}
}

/* Those at which a program does nothing on that side; NULL: no memory. */
static const u8 *idle_numbers(struct dp_foretold_part *f, const struct dp_program *prog, enum call_side side)
{
	struct dp_foretold_calls *k;

	for (u32 i = 0; i < f->n; i++)
		if (f->v[i].side == side && dp_compile_is_same(f->v[i].prog, prog))
			return f->v[i].numbers;
	if (!dp_grow((void **)&f->v, &f->cap, f->n + 1, sizeof(*f->v)))
		return NULL;
	k = &f->v[f->n++];
	*k = (struct dp_foretold_calls){.prog = prog, .side = side};
	follow(prog, side, k->numbers);
	return k->numbers;
}

static bool keep_idle(struct dp_session *s, const struct dp_spot *sp, enum call_side side, u8 *numbers)
{
	const u8 *idle;

	if (sp->owner >= DP_GUARD_OWNER) {
		keep_unwatched(numbers, side);
		return true;
	}
	if (!dp_compile_is_due(s, dp_spot_probe(s, sp)) || !dp_spot_probe(s, sp)->knows_number)
		return false;
	idle = idle_numbers(&s->foretold, &dp_spot_probe(s, sp)->event->prog, side);
	for (u32 i = 0; idle && i < DP_KEPT_CALLS / 8; i++)
		numbers[i] &= idle[i];
	return idle;
}

/* For all spots at the address of this one, the first of them; false: one of them has to have each hit. */
static bool find_calls(struct dp_session *s, const struct dp_spot *spots, u32 n, const struct dp_spot *sp,
		       struct dp_jit_calls *calls)
{
	enum call_side side = side_of(sp);

	*calls = (struct dp_jit_calls){.is_end = side == CALL_END};
	for (u32 i = 0; i < DP_KEPT_CALLS; i++)
		calls->numbers[i / 8] |= (u8)(may_be_kept(i) << i % 8);
	for (u32 i = 0; i < n; i++)
		if (spots[i].addr == sp->addr && (&spots[i] < sp || !keep_idle(s, &spots[i], side, calls->numbers)))
			return false;
	return true;
}

/* Whether code for these calls has something to do. */
static bool is_of_use(const struct dp_jit_calls *calls)
{
	for (u32 i = 0; i < DP_KEPT_CALLS / 8; i++)
		if (calls->numbers[i])
			return true;
	return calls->ways;
}

/* Control comes to the call only from the begin of its function. */
static bool is_from_caller(const struct dp_spot *sp)
{
	const struct dp_func *f = dp_text_func(sp->text, sp->site.addr);

	for (u64 at = f ? f->lo + 1 : 0; f && at < sp->site.addr; at++)
		if (dp_text_is_target(sp->text, at))
			return false;
	return f;
}

/* Its program is the only one there. Behind a call whose number is kept guards have nothing to do. */
static bool is_alone(const struct dp_spot *spots, u32 n, const struct dp_spot *sp)
{
	for (u32 i = 0; i < n; i++)
		if (spots[i].addr == sp->addr && &spots[i] != sp && spots[i].owner < DP_GUARD_OWNER)
			return false;
	return true;
}

/*
 * The code for each number behind a call, and the table in front of it; to NULL: only its size is asked for. Returns
 * the bytes; 0: there is none. Code that does not reach what it needs is left out.
 */
static u64 make_ways(const struct dp_session *s, const struct dp_spot *sp, const struct dp_jit_calls *calls,
		     struct dp_compile_for here, u8 *to)
{
	struct dp_jit_ways ways = {0};
	u64 size = sizeof(ways), from = here.addr;
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;

	here.is_way = true;
	for (u32 i = 0; i < DP_KEPT_CALLS && (size + DP_JIT_ENTRY) / DP_JIT_ALIGN <= UINT16_MAX; i++) {
		here.addr = from + size;
		here.number = i;
		ways.v[i] = calls->numbers[i / 8] >> i % 8 & 1;
		if (ways.v[i] || !may_be_kept(i) || dp_compile_spot(s, sp, &here, buf, &e))
			continue;
		if (to)
			memcpy(to + size, buf, e.len);
		ways.v[i] = (u16)((size + DP_JIT_ENTRY) / DP_JIT_ALIGN);
		size += DP_ALIGN_UP(e.len, DP_JIT_ALIGN);
	}
	if (to)
		memcpy(to, &ways, sizeof(ways));
	return size > sizeof(ways) ? size : 0;
}

static int compile(const struct dp_spot *sp, const struct dp_control *ctl, const struct dp_jit_calls *calls, u64 entry,
		   u64 addr, u8 *buf, struct dp_emit *e)
{
	const struct dp_jit jit = {.ctl = ctl,
				   .entry = entry,
				   .point = sp->point,
				   .flags = dp_entry_for(&sp->site) & DP_ENTRY_FLAGS,
				   .zone = dp_entry_for(&sp->site) & DP_ENTRY_ZONE,
				   .calls = calls};

	dp_emit_init(e, buf, DP_JIT_MAX, addr);
	return dp_jit_compile(e, NULL, 0, &jit);
}

/* Whether its program knows of kept numbers, of a probe at an instruction where one may be. */
static void ask_probe(struct dp_session *s, const struct dp_spot *sp)
{
	struct dp_probe *p = dp_spot_probe(s, sp);

	if (dp_compile_is_due(s, p) && side_of(sp) != CALL_NONE)
		p->knows_number = reads_number(p->event);
}

/* Behind size bytes; returns their new number. */
static u64 lay_out_ways(const struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_spot *sp,
			struct dp_jit_calls *calls, u64 size)
{
	u64 more = 0;

	if (calls->is_end && is_from_caller(sp) && is_alone(spots, n, sp))
		more = make_ways(s, sp, calls, (struct dp_compile_for){.ctl = &nothing}, NULL);
	size += more && !size ? DP_JIT_ALIGN : 0; /* an address of 0 would mean: none */
	sp->shared = calls->ways = more ? size : 0;
	return size + more;
}

u64 dp_calls_lay_out(struct dp_session *s, struct dp_spot *spots, u32 n, u64 size)
{
	struct dp_jit_calls calls;
	u8 buf[DP_JIT_MAX];
	struct dp_emit e;

	s->foretold.n = 0;
	for (u32 i = 0; i < n; i++) {
		spots[i].calls = dp_compile_is_due(s, dp_spot_probe(s, &spots[i])) ? DP_CALLS_NONE : spots[i].calls;
		ask_probe(s, &spots[i]);
	}
	for (u32 i = 0; i < n; i++) {
		struct dp_spot *sp = &spots[i];

		if (!dp_spot_probe(s, sp)->knows_number || side_of(sp) == CALL_NONE || !dp_compile_is_wanted(s, sp) ||
		    !find_calls(s, spots, n, sp, &calls))
			continue;
		size = lay_out_ways(s, spots, n, sp, &calls, DP_ALIGN_UP(size, DP_JIT_ALIGN));
		if (!is_of_use(&calls) || compile(sp, &nothing, &calls, 0, 0, buf, &e))
			continue;
		sp->direct = size + DP_JIT_ENTRY;
		sp->calls = DP_CALLS_OWN;
		size += DP_ALIGN_UP(e.len, DP_JIT_ALIGN);
	}
	return size;
}

/* The others at the address of sp have its code, too. */
static void share(struct dp_spot *spots, u32 n, const struct dp_spot *sp)
{
	for (u32 i = 0; i < n; i++)
		if (spots[i].addr == sp->addr && &spots[i] != sp) {
			spots[i].direct = sp->direct;
			spots[i].shared = 0;
			spots[i].calls = DP_CALLS_SHARED;
		}
}

void dp_calls_share(const struct dp_session *s, struct dp_spot *spots, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (spots[i].calls == DP_CALLS_OWN && dp_compile_is_due(s, dp_spot_probe(s, &spots[i])))
			share(spots, n, &spots[i]);
}

bool dp_calls_write(const struct arming *a, const struct dp_spot *spots, u32 n, const struct dp_spot *sp, u64 at,
		    u8 *to)
{
	const struct dp_compile_for here = {
	    .ctl = a->ctl, .entry = a->entries[dp_entry_for(&sp->site)], .addr = sp->shared};
	struct dp_jit_calls calls;
	struct dp_emit e;

	if (!(a->ctl->caps & (DP_CAP_RDFSBASE | DP_CAP_FS_WORD)) || !find_calls(a->s, spots, n, sp, &calls))
		return false;
	if (sp->shared && dp_jit_usable(a->ctl) && make_ways(a->s, sp, &calls, here, to - (at - sp->shared)))
		calls.ways = sp->shared;
	return !compile(sp, a->ctl, &calls, here.entry, at, to, &e);
}
