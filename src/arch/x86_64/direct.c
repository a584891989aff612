/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Programs that only look at registers, compare and log, as straight machine code: no stack of its own, no frame of
 * registers. Whatever is out of the ordinary (another opcode, a thread that is not known yet, a record across the
 * ring's end) is the interpreter's work, which stays the reference.
 *
 * The code, on the probed program's stack:
 *	save registers; words of memory; conditions (to `filtered` where one does not hold)
 *	a record, and its count
 *	filtered: a count
 * How a record gets into a ring depends on the process's threads: direct-rseq.c, direct-locked.c. Nothing has an effect
 * before the record's commit, so up to there the code can leave everything to the general entry.
 *
 * Code that many points share gets what differs between them on the stack, from a stub of each: the event. The point is
 * in rdi, as the detour has it for the general entry.
 */
#include "arch/x86_64/direct-calls.h"
#include "arch/x86_64/direct-priv.h"

static const struct dp_direct_way *way_of(const struct dp_control *ctl)
{
	u32 want = DP_CAP_RSEQ | DP_CAP_TIDOFF;

	return (ctl->caps & want) == want ? &dp_direct_rseq : &dp_direct_locked;
}

bool dp_jit_usable(const struct dp_control *ctl)
{
	return ctl->caps & (DP_CAP_RDPID | DP_CAP_LSL | DP_CAP_RDTSCP) &&
	       ctl->caps & (DP_CAP_RDFSBASE | DP_CAP_FS_WORD) && ctl->ring_size <= 1u << 30 &&
	       ctl->ring_stride < 1u << 31 && ctl->counts_stride < 1u << 31 && ctl->apart < 1u << 31 &&
	       (way_of(ctl) == &dp_direct_rseq || ctl->nrings >= 2 * ctl->ncpus);
}

static bool reaches(const struct jit *j, enum target to)
{
	for (u32 i = 0; i < j->nfixups; i++)
		if (j->fixups[i].to == to)
			return true;
	return false;
}

static void emit(struct jit *j, const struct dp_direct_way *way)
{
	j->way = way;
	j->nsaved = j->nfixups = j->spare = j->loaded = j->nstages = 0;
	memset(j->landed, 0, sizeof(j->landed));
	j->far = false;
	j->adds[0] = &j->commits; /* where there is no record */
	j->adds[1] = &j->losts;
	j->nadds = j->p.never && way->add ? ADDS_MAX : 0;
	way->begin(j);
	dp_direct_enter(j);
	for (u32 i = 0; i < j->p.nneeds; i++) {
		dp_direct_words(j, j->p.needs[i].nwords);
		dp_direct_need(j, &j->p.needs[i]);
	}
	dp_direct_words(j, j->p.nwords);
	dp_direct_find(j);
	if (!j->p.never) {
		way->record(j);
	} else {
		if (j->p.early == j->p.none)
			dp_direct_land(j, FILTERED);
		way->filtered(j, false);
	}
	if (reaches(j, FILTERED) && !j->landed[FILTERED])
		way->filtered(j, true);
	dp_direct_words_fail(j);
	dp_direct_land(j, GIVE_UP);
	dp_direct_leave(j);
	if (!j->in->shared) {
		BYTES(j, "\xbf"); /* mov $point,%edi */
		dp_emit_u32(j->e, j->in->point);
	}
	j->far |= dp_emit_jmp(j->e, j->in->entry, NULL) != 0;
	dp_direct_words_end(j);
	for (; j->spare; j->spare--)
		dp_emit_u8(j->e, 0xcc);
}

/* Where the length is asked for, it is not known yet which way it will be: each takes as many bytes as the other. */
static int emit_either(struct jit *j)
{
	const struct dp_direct_way *way = way_of(j->in->ctl);
	size_t start = j->e->len, end;

	emit(j, way == &dp_direct_rseq ? &dp_direct_locked : &dp_direct_rseq);
	end = j->e->len;
	j->e->len = start;
	emit(j, way);
	while (j->e->len < end && !j->e->overflow)
		dp_emit_u8(j->e, 0xcc);
	if (j->failed)
		return -EOPNOTSUPP;
	return j->far || j->e->overflow ? -ERANGE : 0;
}

static int emit_stub(struct dp_emit *e, const struct dp_jit *jit)
{
	dp_emit_u8(e, 0x68); /* push $event */
	dp_emit_u32(e, jit->event);
	return dp_emit_jmp(e, jit->stub_to, NULL) || e->overflow ? -ERANGE : 0;
}

int dp_jit_compile(struct dp_emit *e, const u8 *code, u32 len, const struct dp_jit *jit)
{
	const struct dp_known_word number = {DP_REG_WORD(orig_ax), jit->number}, place = {DP_REG_WORD(ip), jit->addr};
	const struct dp_known_word *of_place = jit->shared ? NULL : &place;
	const struct dp_lower_for in = {.rt = jit->rt && jit->rt->ex_mask ? jit->rt : NULL,
					.reg_words = dp_direct_readable(jit->shared),
					.words = jit->loads,
					.known = jit->is_way ? &number : of_place};
	struct jit j = {.e = e, .in = jit};

	if (jit->stub_to)
		return emit_stub(e, jit);
	if (jit->calls)
		return dp_direct_calls(e, jit);
	if (!dp_lower(&j.p, code, len, &in))
		return -EOPNOTSUPP;
	if (j.p.nloads) /* without guards memory is for the general entry to read */
		return -EOPNOTSUPP;
	return emit_either(&j);
}
