/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Does a handler need vector registers saved? Its code is followed from the first instruction to
 * every return; when all that can be reached leaves them alone, hits go without. Whatever cannot be
 * followed (calls through the linkage table, jump tables, much code) counts as touching them.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "host/self/self-priv.h"

#define MAX_INSNS 1024
#define MAX_AHEAD 128

struct walk {
	u64 seen[2 * MAX_INSNS]; /* hash table of addresses; 0: free */
	u64 ahead[MAX_AHEAD];
	u32 nseen, nahead;
};

/* True when it is new. */
static bool see(struct walk *w, u64 addr)
{
	u32 i = (u32)((addr * 0x9e3779b97f4a7c15ull) >> 40);

	for (;; i++) {
		u64 *at = &w->seen[i % DP_ARRAY_SIZE(w->seen)];

		if (*at == addr)
			return false;
		if (!*at) {
			*at = addr;
			w->nseen++;
			return true;
		}
	}
}

/* Code is read as it is: a jump to a slot of ours leads out of every module, and ends the walk. */
static bool decode(u64 addr, struct dp_insn *in)
{
	u8 code[DP_INSN_MAX] = {0};
	u32 page_left = 4096 - (u32)(addr & 4095), n = sizeof(code);

	if (!dp_self_image_at(addr))
		return false;
	if (page_left < n && !dp_self_read(addr + page_left, code + page_left, n - page_left))
		n = page_left;
	return dp_self_read(addr, code, DP_MIN(n, page_left)) && dp_insn_decode(in, code, n) > 0;
}

/* Follow one path until it ends or meets what was seen. */
static bool follow(struct walk *w, u64 addr)
{
	struct dp_insn in;
	u64 target;

	while (see(w, addr)) {
		if (w->nseen > MAX_INSNS || !decode(addr, &in) || !(dp_insn_traits(&in) & DP_INSN_GENERAL))
			return false;
		switch (in.cls) {
		case DP_INSN_JMP_IND:
		case DP_INSN_CALL_IND:
		case DP_INSN_FAR:
		case DP_INSN_INT:
		case DP_INSN_INT3:
		case DP_INSN_XBEGIN:
			return false;
		}
		if (dp_insn_target(&in, addr, &target)) {
			if (w->nahead == MAX_AHEAD)
				return false;
			w->ahead[w->nahead++] = target;
		}
		if (!(dp_insn_traits(&in) & DP_INSN_FALLS))
			return true;
		addr += in.len;
	}
	return true;
}

bool dp_self_is_general(const void *handler)
{
	struct walk *w;
	bool good = true;

	if (!handler)
		return true;
	w = calloc(1, sizeof(*w));
	if (!w)
		return false;
	w->ahead[w->nahead++] = (u64)handler;
	while (good && w->nahead)
		good = follow(w, w->ahead[--w->nahead]);
	free(w);
	return good;
}
