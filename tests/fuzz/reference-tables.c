/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The part of the reference that has tables and aggregates in local variables. Written from doc/dprobes.lang.md. */
#include <string.h>

#include "reference-priv.h"

/* Places are tried in the same order as by the machine: the hash is part of what is agreed. */
void ref_find(struct ref *r, u32 k, u32 first, u32 keys, u32 words)
{
	u64 key[DP_KEY_WORDS_MAX], hash = 0, *table = r->m->locals + first, found = ~0ull, *reuse = NULL;

	for (u32 i = k; i-- > 0;)
		key[i] = ref_pop(r);
	for (u32 i = 0; i < k; i++) {
		u32 by = 11 * i % 64;

		hash += key[i] * ((by ? 0x9e3779b97f4a7c15ull << by | 0x9e3779b97f4a7c15ull >> (64 - by)
				      : 0x9e3779b97f4a7c15ull) |
				  1);
	}
	for (u32 n = 0; n < 32 && n < keys && found == ~0ull; n++) {
		u64 *place = table + 1 + ((hash >> 32) * keys / 0x100000000ull + n) % keys * (1 + k + words);

		if (*place == DP_TABLE_LEFT && !reuse)
			reuse = place;
		if (*place == DP_TABLE_FREE && reuse)
			break;
		if (*place == DP_TABLE_FREE) {
			memcpy(place + 1, key, k * 8);
			*place = DP_TABLE_VALID;
		}
		if (*place == DP_TABLE_VALID && !memcmp(place + 1, key, k * 8))
			found = (u64)(place - r->m->locals) + 1 + k;
	}
	if (found == ~0ull && reuse) {
		memset(reuse + 1 + k, 0, words * 8);
		memcpy(reuse + 1, key, k * 8);
		*reuse = DP_TABLE_VALID;
		found = (u64)(reuse - r->m->locals) + 1 + k;
	}
	table[0] += found == ~0ull;
	ref_push(r, found);
}

/* As tests/unit/machine.c has call chains. */
void ref_chain(struct ref *r, u32 n, u32 first, u32 keys)
{
	u64 ips[DP_FRAMES_MAX] = {0}, digest = 0, base = 1, *table = r->m->locals + first, found = ~0ull;
	u32 frames = DP_MIN((n + 1) / 2, 5u);

	for (u32 i = 0; i < frames; i++) {
		u64 x = r->m->regs.ip + 0x100 * i;

		ips[i] = x;
		x = (x ^ x >> 32) * 0x9e3779b97f4a7c15ull;
		digest += (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull * base;
		base *= 0xd6e8feb86659fd93ull;
	}
	for (u32 k = 0; k < 128 && k < keys && found == ~0ull; k++) {
		u64 start = (digest * 0x9e3779b97f4a7c15ull >> 32) * keys >> 32;
		u64 *place = table + 1 + (start + k) % keys * (2 + n);

		if (*place == DP_TABLE_FREE) {
			place[1] = digest;
			memcpy(place + 2, ips, n * 8);
			*place = DP_TABLE_VALID;
		}
		if (*place == DP_TABLE_VALID && place[1] == digest)
			found = (u64)(place - r->m->locals) + 2;
	}
	table[0] += found == ~0ull;
	ref_push(r, found);
}

void ref_fold(struct ref *r, u32 kind)
{
	u64 index = r->stack[(r->top - 1) % DP_VM_STACK], value = r->stack[(r->top - 2) % DP_VM_STACK], *v;
	s64 number = (s64)value;

	if (index != ~0ull && (index >= r->p->nlocals || index + dp_aggregate_words(kind) > r->p->nlocals)) {
		ref_raise(r, DP_EX_INVALID_OPERAND, DP_BAD_LOCAL, index);
		return;
	}
	ref_pop(r);
	ref_pop(r);
	if (index == ~0ull)
		return;
	v = r->m->locals + index;
	if (kind == DP_AGG_COUNT) {
		++*v;
	} else if (kind == DP_AGG_SUM) {
		v[0] += value;
		v[1]++;
	} else if (kind == DP_FOLD_BACK) {
		v[0] -= value;
		v[1]--;
	} else if (kind == DP_AGG_LAST) {
		*v = value;
	} else if (kind == DP_AGG_LINEAR) {
		++v[number < 0 ? 0 : number > 61 ? 63 : number + 1];
	} else if (kind == DP_AGG_HIST) {
		while (number > 0) {
			v++;
			number >>= 1;
		}
		++*v;
	} else {
		/* A first value of zero and none look the same until the second word is set. */
		bool better = kind == DP_AGG_MIN ? number < (s64)v[0] : number > (s64)v[0];

		if ((!v[1] && !v[0]) || better)
			v[0] = value;
		if (!v[1])
			v[1] = 1;
	}
}
