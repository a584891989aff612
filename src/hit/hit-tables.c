/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Tables and aggregates in local variables (hit-rpn.h), which threads of several processes change at once, and the
 * control side reads meanwhile. Waits for nobody for long.
 */
#include "hit/hit-rpn.h"

#define WAITS 200 /* for another thread that is writing a key; it may not be running */

u32 dp_rpn_push_text(struct dp_hit *h, u32 sp, u32 n)
{
	const u8 *text = (const u8 *)h->vm->scratch;
	bool ended = false;

	for (u32 i = 0; i < n; i++) {
		u64 word = 0;

		for (u32 k = 0; k < 8; k++) {
			ended |= !text[8 * i + k];
			if (!ended)
				word |= (u64)text[8 * i + k] << 8 * k;
		}
		sp--;
		h->vm->stack[sp % DP_VM_STACK] = word;
	}
	return sp;
}

/* A key on the stack: its first word lies deepest. */
struct key {
	const u64 *words; /* its last one */
	u32 n;
};

static u64 key_word(struct key k, u32 i)
{
	return k.words[k.n - 1 - i];
}

static bool is_key(struct key k, const u64 *words)
{
	for (u32 i = 0; i < k.n; i++)
		if (words[i] != key_word(k, i))
			return false;
	return true;
}

/* A place's state, once whoever writes there is done: not for long. The loads pair with the releases below. */
static u64 state_of(const u64 *place)
{
	u64 state = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	for (u32 n = 0; state == DP_TABLE_BUSY && n < WAITS; n++) {
		__builtin_ia32_pause();
		state = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	}
	return state;
}

/*
 * Makes the place the key's, unless it is one that was left; false: it is another one's, or its owner does not come to
 * an end. Its loads of a place's state pair with the releases by which others make one theirs.
 */
static bool take_place(struct key k, u64 *place, u64 state)
{
	if (state == DP_TABLE_FREE &&
	    __atomic_compare_exchange_n(place, &state, DP_TABLE_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		for (u32 i = 0; i < k.n; i++)
			((volatile u64 *)place)[1 + i] = key_word(k, i);
		__atomic_store_n(place, DP_TABLE_VALID, __ATOMIC_RELEASE);
		return true;
	}
	return state_of(place) == DP_TABLE_VALID && is_key(k, place + 1);
}

/*
 * One that was left, with what its owner had. Keys that are taken so are one thread's own: nobody else looks for this
 * one. The exchange pairs with the release by which the control side gave the place free, the store with loads of it.
 */
static bool take_left(struct key k, u32 words, u64 *place)
{
	u64 state = DP_TABLE_LEFT;

	if (!__atomic_compare_exchange_n(place, &state, DP_TABLE_BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return false;
	for (u32 i = 0; i < k.n + words; i++)
		((volatile u64 *)place)[1 + i] = i < k.n ? key_word(k, i) : 0;
	__atomic_store_n(place, DP_TABLE_VALID, __ATOMIC_RELEASE);
	return true;
}

#define FASTER 0 /* another thread took the place that this one was about to take; no index of words */

static u64 look(struct dp_hit *h, struct key k, u32 first, u32 keys, u32 words, u64 hash)
{
	u64 *table = (u64 *)h->prog->locals + first, state;
	u32 left = 0, place = dp_table_place(hash, keys); /* the verifier wants a key */

	for (u32 n = 0; n < DP_TABLE_TRIES && n < keys; n++, place = place + 1 == keys ? 0 : place + 1) {
		u32 at = 1 + place * (1 + k.n + words);

		state = __atomic_load_n(table + at, __ATOMIC_ACQUIRE); /* pairs with the releases above */
		if (state == DP_TABLE_LEFT) {                          /* the key may lie behind it */
			left = left ? left : at;
			continue;
		}
		if (state == DP_TABLE_FREE && left)
			break;
		if (take_place(k, table + at, state))
			return first + at + 1 + k.n;
	}
	if (!left)
		return ~0ull;
	return take_left(k, words, table + left) ? first + left + 1 + k.n : FASTER;
}

u64 dp_rpn_find(struct dp_hit *h, u32 sp, u32 k, u32 first, u32 keys, u32 words)
{
	const u64 *stack = h->vm->stack;
	struct key key = {stack + sp % DP_VM_STACK, k};
	u64 copy[DP_KEY_WORDS_MAX], hash = 0, at;

	if (sp % DP_VM_STACK + k > DP_VM_STACK) { /* the stack may begin anew; the verifier knows k */
		for (u32 i = 0; i < k; i++)
			copy[i % DP_KEY_WORDS_MAX] = stack[(sp + i) % DP_VM_STACK];
		key.words = copy;
	}
	for (u32 i = 0; i < k; i++)
		hash = dp_table_hash(hash, i, key_word(key, i));
	at = look(h, key, first, keys, words, hash);
	for (u32 n = 0; at == FASTER && n < WAITS; n++)
		at = look(h, key, first, keys, words, hash);
	if (at != ~0ull && at != FASTER)
		return at;
	__atomic_fetch_add((u64 *)h->prog->locals + first, 1, __ATOMIC_RELAXED);
	return ~0ull;
}

/* ---- call chains: each is there once, behind its digest ---- */

/* Makes the place the chain's, unless it is taken. The release pairs with the loads of has_chain(). */
static bool takes_chain(struct dp_hit *h, u64 *place, u64 digest, u32 n)
{
	u64 state = __atomic_load_n(place, __ATOMIC_RELAXED), frames[DP_FRAMES_MAX];
	u32 found;

	if (state != DP_TABLE_FREE)
		return false;
	found = dp_hit_frames(h, frames, n); /* before others wait for it */
	if (!__atomic_compare_exchange_n(place, &state, DP_TABLE_BUSY, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return false;
	((volatile u64 *)place)[1] = digest;
	for (u32 i = 0; i < n; i++)
		((volatile u64 *)place)[2 + i] = i < found ? frames[i] : 0;
	__atomic_store_n(place, DP_TABLE_VALID, __ATOMIC_RELEASE);
	return true;
}

/* Whose words stand there: one that is being written may become the one that is looked for. */
static bool has_chain(const u64 *place, u64 digest)
{
	return state_of(place) == DP_TABLE_VALID && place[1] == digest;
}

u64 dp_rpn_chain(struct dp_hit *h, u32 n, u32 first, u32 keys)
{
	u64 digest = dp_hit_chain(h, n), *table = (u64 *)h->prog->locals + first;
	u32 place = dp_table_place(dp_table_hash(0, 0, digest), keys); /* the verifier wants a key */

	for (u32 i = 0; i < DP_TABLE_TRIES && i < keys; i++, place = place + 1 == keys ? 0 : place + 1) {
		u32 at = 1 + place * (2 + n);

		if (takes_chain(h, table + at, digest, n) || has_chain(table + at, digest))
			return first + at + 2;
	}
	__atomic_fetch_add(table, 1, __ATOMIC_RELAXED);
	return ~0ull;
}

#if DP_RING0
/*
 * The value of a key of one word. The table may be a process's memory: whoever can write there decides what number is
 * found, and nothing else.
 */
static bool read_value(struct dp_hit *h, u64 table, u32 keys, u64 key, u64 *value)
{
	u32 place = dp_table_place(dp_table_hash(0, 0, key), keys); /* the verifier wants a key */
	u64 words[3];

	for (u32 n = 0; n < DP_TABLE_TRIES && n < keys; n++, place = place + 1 == keys ? 0 : place + 1) {
		if (dp_hit_read(h, words, table + 8 * (1 + 3ull * place), sizeof(words)) || words[0] == DP_TABLE_FREE)
			return false;
		if (words[0] == DP_TABLE_VALID && words[1] == key) {
			*value = words[2];
			return true;
		}
	}
	return false;
}

u64 dp_rpn_thread_value(struct dp_hit *h, u32 first, u32 processes, u32 keys)
{
	u64 table = 0, value = 0;

	if (read_value(h, h->prog->locals + 8ull * first, processes, dp_hit_pid(h), &table) && table)
		read_value(h, table, keys, dp_hit_own_tid(h), &value);
	return value;
}
#endif

static void fold_extreme(u64 *v, s64 value, bool is_min)
{
	u64 old = __atomic_load_n(v, __ATOMIC_RELAXED);

	/* v[1] says that there is a value. Whoever sets it has set v[0] before it: pairs with the releases below. */
	if (!__atomic_load_n(&v[1], __ATOMIC_ACQUIRE)) {
		u64 none = 0;

		if (old == 0 &&
		    __atomic_compare_exchange_n(v, &none, (u64)value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_store_n(&v[1], 1, __ATOMIC_RELEASE);
			return;
		}
		old = __atomic_load_n(v, __ATOMIC_RELAXED);
		__atomic_store_n(&v[1], 1, __ATOMIC_RELEASE);
	}
	while ((is_min ? value < (s64)old : value > (s64)old) &&
	       !__atomic_compare_exchange_n(v, &old, (u64)value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void add(struct dp_hit *h, bool apart, u64 *word, u64 n)
{
	if (!apart || !dp_hit_add_apart(h, word, n))
		__atomic_fetch_add(word, n, __ATOMIC_RELAXED);
}

u32 dp_rpn_fold(struct dp_hit *h, u32 how, u64 index, u64 value)
{
	u32 kind = how & ~(u32)DP_FOLD_APART;
	bool apart = how & DP_FOLD_APART;
	u64 *v;

	if (index == ~0ull)
		return 0;
	if (index >= h->prog->nlocals || h->prog->nlocals - index < dp_aggregate_words(kind))
		return dp_rpn_failed(h, DP_EX_INVALID_OPERAND, DP_BAD_LOCAL, index);
	v = (u64 *)h->prog->locals + index;
	switch (kind) {
	case DP_AGG_SUM:
		add(h, apart, &v[0], value);
		add(h, apart, &v[1], 1);
		break;
	case DP_FOLD_BACK:
		__atomic_fetch_sub(&v[0], value, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&v[1], 1, __ATOMIC_RELAXED);
		break;
	case DP_AGG_MIN:
	case DP_AGG_MAX:
		fold_extreme(v, (s64)value, kind == DP_AGG_MIN);
		break;
	case DP_AGG_HIST:
		add(h, apart, v + ((s64)value <= 0 ? 0 : 64 - (u32)__builtin_clzll(value)), 1);
		break;
	case DP_AGG_LINEAR:
		add(h, apart, v + ((s64)value < 0 ? 0 : DP_MIN(value + 1, DP_HIST_WORDS - 1ull)), 1);
		break;
	case DP_AGG_QUANTILES:
		add(h, apart, v + dp_quantile_bar((s64)value), 1);
		break;
	case DP_AGG_LAST:
		__atomic_store_n(v, value, __ATOMIC_RELAXED);
		break;
	default:
		add(h, apart, v, 1);
		break;
	}
	return 0;
}
