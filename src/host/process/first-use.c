/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What programs that come to an armed session are the first ones to use: call chains, exit facilities, global
 * variables, breakpoints. Nothing that hits use is changed here: the control block of the change names it.
 */
#include <errno.h>
#include <stdlib.h>

#include "host/process/arm-priv.h"

#define PAGE 4096ull

void dp_session_permit(struct dp_session *s, bool traps, int globals_fd)
{
	s->opt.allow_trap |= traps;
	if (s->opt.share_globals || globals_fd < 0)
		return;
	s->opt.share_globals = true;
	s->opt.globals_fd = globals_fd;
}

/* The tables lie at the end of the room for control blocks, and stay there. */
static int write_chains(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err)
{
	u64 size = DP_ALIGN_UP(dp_unwind_size(&s->unwind), PAGE), used = 0;
	u64 at = s->region + s->changes.off + s->changes.size - size;
	u8 *image;
	int r;

	if (size > s->changes.size / 2 || at < s->changes.blocks.hi)
		return -ENOSPC;
	image = calloc(1, size);
	if (!image)
		return dp_fail(err, E_ARM_NOMEM, "unwind tables");
	dp_unwind_place(&s->unwind, image, &used, at);
	r = dp_mem_write(mem, at, image, size, err);
	free(image);
	if (!r) {
		s->changes.unwind = at;
		s->changes.size -= size;
	}
	return r;
}

static int first_chains(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err)
{
	int r;

	if (s->unwind.n || !dp_session_walks(s))
		return 0;
	r = dp_unwind_build(s, err);
	if (!r && s->unwind.n)
		r = write_chains(s, mem, err);
	if (r)
		dp_unwind_free(&s->unwind);
	return r;
}

int dp_first_prepare(struct dp_session *s, const struct dp_mem *mem, struct dp_error *err)
{
	int r = s->exits ? 0 : dp_session_exits(s, &s->exits, err);

	if (!r)
		r = first_chains(s, mem, err);
	if (!r && s->opt.share_globals && !s->globals_off)
		s->globals_off = s->block.ctl.rings_hi - s->region;
	return r;
}

int dp_first_map(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r;

	if (!s->globals_off || s->changes.has_globals)
		return 0;
	r = dp_share_file(&a->remote, s->pidfd, s->opt.globals_fd, true, s->region + s->globals_off, PAGE, true, NULL,
			  err);
	s->changes.has_globals = !r;
	return r;
}

void dp_first_cancel(struct dp_session *s)
{
	if (s->changes.has_globals)
		return;
	s->globals_off = 0;
	s->opt.share_globals = false;
}
