/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exit facilities: libdprobes, where it is in the process, knows them and calls them. */
#include "abi/abi-exits.h"
#include "hit/hit-priv.h"

#define NONE 2 /* ENOENT */

u32 dp_hit_call_exit(struct dp_hit *h, const u8 *name, u32 len, u32 nargs, u32 nresults, const u64 *args, u64 *results)
{
	struct dp_exit_call call = {.name = name,
				    .len = len,
				    .nargs = nargs,
				    .nresults = nresults,
				    .regs = h->regs,
				    .args = args,
				    .results = results};

	return h->ctl->exits ? ((dp_exit_call_fn *)h->ctl->exits)(&call) : NONE;
}
