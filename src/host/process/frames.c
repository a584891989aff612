/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Where a stopped thread will go on: its program counter, and those that signal frames on its stacks hold. Moves them
 * between original code and detours, and tells whether the thread may still come into code that is to go away.
 */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "abi/abi-control.h"
#include "abi/abi-slot.h"
#include "host/process/process-priv.h"

#define STACK_SCAN (1024 * 1024ull)
#define SLOTS_MAX 8
#define STACKS_MAX 8 /* stacks of one thread that are followed, each interrupted by a handler on the next */

/*
 * Words of a signal frame around the saved program counter: struct ucontext's stack_t, then the registers in the
 * order of sigcontext.
 */
enum { W_ALT = 0, W_ALT_SIZE = 2, W_SP = 18, W_PC = 19, W_FLAGS = 20, W_CS = 21, W_END = 22 };

struct stack { /* a part of a stack that is in use */
	u64 lo, hi;
};

struct scan {
	const struct dp_mem *mem;
	const struct dp_maps *maps;
	struct dp_moves *mv;
	struct stack v[STACKS_MAX];
	u32 n;
	bool clear;
};

static bool in_ranges(const struct dp_range *v, u32 n, u64 a)
{
	for (u32 i = 0; i < n; i++)
		if (a >= v[i].lo && a < v[i].hi)
			return true;
	return false;
}

/*
 * A saved program counter is followed by flags and segments (cs, and ss since Linux 4.7) in a signal frame, and
 * nowhere else.
 */
static bool is_frame(const u64 *w)
{
	return !(w[W_FLAGS] & ~0x3fffffull) && (w[W_FLAGS] & 2) &&
	       (w[W_CS] == 0x33 || w[W_CS] == 0x002b000000000033ull);
}

/*
 * Handlers' stacks often lie in the middle of other memory (goroutines' stacks, say), where a scan finds what handlers
 * left there long ago. A frame on an alternate stack can only be in use by a thread that runs on it now.
 */
static bool on_other_stack(const struct scan *s, const u64 *w, u64 at)
{
	u64 lo = w[W_ALT], size = w[W_ALT_SIZE];

	if (!size || size > STACK_SCAN * 64 || at - lo >= size)
		return false;
	for (u32 i = 0; i < s->n; i++)
		if (s->v[i].lo - lo < size)
			return false;
	return true;
}

/* Where the slot begins on whose stack sp lies; 0: on that of none. */
static u64 slot_of(const struct dp_moves *mv, u64 sp)
{
	for (u32 i = 0; i < mv->nslots; i++)
		if (sp >= mv->slots[i].lo && sp < mv->slots[i].hi)
			return mv->slots[i].lo + (sp - mv->slots[i].lo) / DP_HIT_SLOT_SIZE * DP_HIT_SLOT_SIZE;
	return 0;
}

/*
 * A hit that was interrupted while on its slot's stack is over once the slot is not busy.
 */
static bool hit_is_over(const struct scan *s, u64 sp)
{
	u64 slot = slot_of(s->mv, sp);
	u32 busy;

	return slot &&
	       !dp_mem_read(s->mem, slot + DP_HIT_SLOT_HEAD + offsetof(struct dp_hit_slot, busy), &busy, 4, NULL) &&
	       !busy;
}

static void add_part(struct scan *s, u64 sp, u64 hi)
{
	for (u32 i = 0; i < s->n; i++)
		if (sp >= s->v[i].lo && sp < s->v[i].hi)
			return;
	if (s->n < STACKS_MAX)
		s->v[s->n++] = (struct stack){sp & ~7ull, hi};
}

/*
 * The stack in use from sp upwards. A hit runs on its slot's: then what it has interrupted is in use too, where the
 * entry has noted the stack pointer among the registers, or the watchpoint's signal its context.
 */
static void add_stack(struct scan *s, u64 sp)
{
	const struct dp_map *map;
	u64 slot;

	for (int i = 0; i < SLOTS_MAX && (slot = slot_of(s->mv, sp)); i++) {
		u64 from = 0;

		add_part(s, sp, slot + DP_HIT_SLOT_SIZE);
		if (dp_mem_read(s->mem, slot + DP_HIT_SLOT_HEAD + offsetof(struct dp_hit_slot, context), &from, 8,
				NULL) ||
		    (!from &&
		     dp_mem_read(s->mem, slot + DP_HIT_SLOT_REGS + offsetof(struct dp_regs, sp), &from, 8, NULL)))
			return;
		sp = from;
	}
	map = dp_maps_at(s->maps, sp);
	add_part(s, sp, map ? DP_MIN(map->hi, sp + STACK_SCAN) : sp + 65536);
}

static bool look_at_frame(void *arg, const u64 *w, u64 at)
{
	struct scan *s = arg;
	struct dp_moves *mv = s->mv;
	u64 to;

	if (on_other_stack(s, w, at))
		return false;
	add_stack(s, w[W_SP]); /* what the handler interrupted may have been a handler on another stack */
	to = dp_redirect_find(mv->map, mv->nmap, w[W_PC]);
	if (to) {
		dp_mem_write(s->mem, at + W_PC * 8, &to, 8, NULL);
		mv->moved++;
	} else if (in_ranges(mv->avoid, mv->navoid, w[W_PC]) && !hit_is_over(s, w[W_SP])) {
		s->clear = false;
		mv->where = w[W_PC];
	}
	return false;
}

/*
 * Call fn for each signal frame in [lo, hi), until it returns true. 1: it did, 0: not, negative: not all of it could be
 * read.
 */
static int each_frame(const struct dp_mem *mem, u64 lo, u64 hi, bool (*fn)(void *arg, const u64 *w, u64 at), void *arg)
{
	enum { STEP = 512 };
	u64 w[STEP + W_END];

	for (; lo < hi; lo += STEP * 8) {
		u64 n = DP_MIN((hi - lo) / 8, (u64)DP_ARRAY_SIZE(w));

		if (dp_mem_read(mem, lo, w, n * 8, NULL))
			return -EFAULT;
		for (u64 i = 0; i + W_END <= n && i < STEP; i++)
			if (is_frame(&w[i]) && fn(arg, &w[i], lo + i * 8))
				return 1;
	}
	return 0;
}

static bool is_syscall(const struct dp_mem *mem, u64 at)
{
	u8 code[2];

	return !dp_mem_read(mem, at, code, 2, NULL) && dp_code_is_syscall(code);
}

bool dp_move_thread(struct dp_thread *th, const struct dp_mem *mem, const struct dp_maps *maps, struct dp_moves *mv)
{
	struct scan s = {.mem = mem, .maps = maps, .mv = mv, .clear = true};
	struct user_regs_struct regs;
	u64 to, again;

	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return th->gone;
	dp_fix_restart(th->tid, &regs, false);
	to = dp_redirect_find(mv->map, mv->nmap, dp_user_ip(&regs));
	/*
	 * The kernel steps back over the system call when the thread goes on. That must lead to the call, so where its
	 * copy does not stand just in front the step is made here; and a byte that traps now is spared the thread by
	 * the way. With a signal on its way the call may end instead: then the thread stays, and the trap brings it on.
	 */
	again = dp_will_restart(&regs) ? dp_redirect_find(mv->map, mv->nmap, dp_user_ip(&regs) - 2) : 0;
	if (to ? dp_will_restart(&regs) && !is_syscall(mem, to - 2) : again != 0) {
		to = 0;
		if (!dp_signal_pending(th->tid)) {
			dp_fix_restart(th->tid, &regs, true);
			to = again;
		}
	}
	if (to) {
		dp_user_ip(&regs) = to;
		mv->moved++;
	}
	ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
	if (in_ranges(mv->avoid, mv->navoid, dp_user_ip(&regs))) {
		s.clear = false;
		mv->where = dp_user_ip(&regs);
	}
	if (!mv->no_frames)
		add_stack(&s, dp_user_sp(&regs));
	for (u32 i = 0; i < s.n; i++)
		each_frame(mem, s.v[i].lo, s.v[i].hi, look_at_frame, &s);
	return s.clear;
}

bool dp_move_all(struct dp_tracer *t, const struct dp_mem *mem, const struct dp_maps *maps, struct dp_moves *mv,
		 u64 patience_ns, void (*each)(void *arg), void *arg, pid_t *inside)
{
	u64 begin = dp_now_ns();
	struct dp_thread *th;
	u32 us = 0;
	bool all;

	dp_tracer_begin(t, false);
	do {
		dp_tracer_begin_pass(t);
		while ((th = dp_tracer_next_stopped(t, 20000000))) {
			th->done = dp_move_thread(th, mem, maps, mv);
			th->put_off = !th->done;
			dp_tracer_resume(t, th);
			each(arg);
		}
		each(arg);
		all = !dp_tracer_any_due(t, inside);
		all &= !dp_tracer_newborn(t);
		if (!all)
			dp_tracer_pause(t, &us);
	} while (!all && !t->dead && dp_now_ns() - begin < patience_ns);
	return all;
}

static bool any_frame(void *arg, const u64 *w, u64 at)
{
	return true;
}

bool dp_in_handler(struct dp_thread *th, const struct dp_mem *mem, const struct dp_maps *maps)
{
	struct user_regs_struct regs;
	const struct dp_map *map;

	if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
		return true;
	map = dp_maps_at(maps, dp_user_sp(&regs));
	return !map || each_frame(mem, dp_user_sp(&regs) & ~7ull, DP_MIN(map->hi, dp_user_sp(&regs) + STACK_SCAN),
				  any_frame, NULL) != 0;
}
