/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Places: variables of the handler, memory of either kind, and variables of the probed program that
 * are in registers or in pieces. Loads and stores through pointers that may be of either kind go
 * through small routines, which are made when they are needed.
 */
#include <stdlib.h>
#include <string.h>

#include "lang/dpcc/dpcc-gen.h"

/* ---- memory of either kind ---- */

enum { HELPER_LOAD = 0, HELPER_STORE = 4 };

static u32 log2_of(u64 size)
{
	return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

void dp_cc_gen_load(struct dpcc *c, u64 size, bool is_signed, bool in_target)
{
	u32 l = log2_of(size);

	if (in_target) {
		dp_cc_emit(c, "push mem,u%u", 8u << l);
	} else {
		dp_cc_emit(c, "call H_load%u", 8u << l);
		c->helper[HELPER_LOAD + l] = true;
	}
	if (is_signed && l < 3)
		dp_cc_emit(c, "sx%u", 8u << l);
}

void dp_cc_gen_store(struct dpcc *c, u64 size, bool in_target)
{
	u32 l = log2_of(size);

	if (in_target) {
		dp_cc_emit(c, "pop mem,u%u", 8u << l);
	} else {
		dp_cc_emit(c, "call H_store%u", 8u << l);
		c->helper[HELPER_STORE + l] = true;
	}
}

/* Behind `push tsp,N` of an address: go to LABEL_heap or LABEL_vars when it is one of ours. */
static void dispatch(struct dpcc *c, const char *name, u32 bits, u32 depth)
{
	dp_cc_buf_put(c, c->code,
		      "H_%s%u:\n\tpush tsp,%u\n\tshr 48\n\tpush d,0x%x\n\tsub\n\tjz H_%s%u_heap\n\tpush "
		      "d,1\n\tsub\n"
		      "\tjz H_%s%u_vars\n\tros 1\n",
		      name, bits, depth, DPCC_TAG_HEAP, name, bits, name, bits);
}

static void helper_load(struct dpcc *c, u32 bits)
{
	dispatch(c, "load", bits, 0);
	dp_cc_buf_put(c, c->code, "\tpush mem,u%u\n\tret\n", bits);
	dp_cc_buf_put(c, c->code,
		      "H_load%u_heap:\n\tros 1\n\tpush tsp,0\n\tshr 32\n\tzx16\n\txchg\n\tzx32\n\tpush "
		      "heap,u%u,1\n\tret\n",
		      bits, bits);
	dp_cc_buf_put(c, c->code, "H_load%u_vars:\n\tros 1\n\tpush tsp,0\n\tzx32\n\tshr 3\n\tpush lv\n", bits);
	if (bits < 64)
		dp_cc_buf_put(c, c->code, "\txchg\n\tpush d,7\n\tand\n\tshl 3\n\txchg\n\tshr\n\tzx%u\n\tret\n", bits);
	else
		dp_cc_buf_put(c, c->code, "\txchg\n\tros 1\n\tret\n");
}

static void helper_store(struct dpcc *c, u32 bits)
{
	u64 mask = bits == 64 ? ~0ull : (1ull << bits) - 1;

	dispatch(c, "store", bits, 1);
	dp_cc_buf_put(c, c->code, "\tpop mem,u%u\n\tret\n", bits);
	dp_cc_buf_put(c, c->code,
		      "H_store%u_heap:\n\tros 1\n\txchg\n\tpush tsp,0\n\tshr "
		      "32\n\tzx16\n\txchg\n\tzx32\n\tpop heap,u%u,1\n\tret\n",
		      bits, bits);
	dp_cc_buf_put(c, c->code, "H_store%u_vars:\n\tros 1\n", bits);
	if (bits < 64) /* (addr v -- addr w): the word with v in its place */
		dp_cc_buf_put(c, c->code,
			      "\tpush d,%llu\n\tand\n\tpush tsp,1\n\tpush d,7\n\tand\n\tshl 3\n\tpush "
			      "tsp,0\n\tpush d,%llu\n\tshl\n"
			      "\tnot\n\tpush tsp,3\n\tzx32\n\tshr 3\n\tpush lv\n\tand\n\txchg\n\tpush "
			      "tsp,2\n\tshl\n\tor\n\txchg\n"
			      "\tros 1\n",
			      (unsigned long long)mask, (unsigned long long)mask);
	dp_cc_buf_put(c, c->code, "\txchg\n\tzx32\n\tshr 3\n\txchg\n\tpop lv\n\tret\n");
}

static void helper_thread(struct dpcc *c, const struct var *v)
{
	dp_cc_buf_put(c, c->code,
		      "T_%d:\n\tpush tid\n\tfind lv,1,%d,%u,1\n\tpush tsp,0\n\tpush d,0\n\tlt\n\tjnz T_%d_none\n\tros "
		      "1\n\tret\nT_%d_none:\n\tabort\n",
		      v->first_word, v->first_word, dp_cc_table_of(c, v)->keys, v->first_word, v->first_word);
}

void dp_cc_gen_helpers(struct dpcc *c)
{
	for (const struct thread_use *u = c->thread_uses; u; u = u->next)
		helper_thread(c, u->var);
	for (u32 l = 0; l < 4; l++) {
		if (c->helper[HELPER_LOAD + l])
			helper_load(c, 8u << l);
		if (c->helper[HELPER_STORE + l])
			helper_store(c, 8u << l);
	}
}

/* ---- pieces ---- */

#define KERNEL_LOWEST \
	0xffffffff80000000ull /* where the kernel is linked to; below are offsets of per-processor variables */

/* An address of the kernel's debug file, as the symbol that is there wherever the kernel was put. */
static void put_symbol(struct dpcc *c, u64 addr)
{
	struct dp_symbol sym;

	if (addr < KERNEL_LOWEST)
		dp_cc_fail(c, NULL, E_VAR_GONE, "it is a per-CPU variable");
	if (!dp_module_symbol_at(c->mod, addr, &sym) || !*sym.name)
		dp_cc_fail(c, NULL, E_SYM_NONE, "the kernel's debug file has no symbol at 0x%llx",
			   (unsigned long long)addr);
	dp_cc_buf_put(c, c->code, "\tpush d,%s+%llu\n", sym.name, (unsigned long long)(addr - sym.addr));
}

static void put_code(struct dpcc *c, const char *code)
{
	static const char base[] = "push d,.base+";

	for (const char *p = code; *p;) {
		size_t n = strcspn(p, ";");

		if (c->by_name && !strncmp(p, base, sizeof(base) - 1))
			put_symbol(c, strtoull(p + sizeof(base) - 1, NULL, 0));
		else
			dp_cc_buf_put(c, c->code, "\t%.*s\n", (int)n, p);
		p += n + (p[n] == ';');
	}
}

static void mask_to(struct dpcc *c, u64 bytes)
{
	if (bytes == 1 || bytes == 2 || bytes == 4)
		dp_cc_emit(c, "zx%u", (u32)bytes * 8);
	else if (bytes < 8)
		dp_cc_emit(c, "pzl %u", (u32)bytes * 8 - 1);
}

/* One piece's bytes [from, from + n) of its own: pushed, zero-extended. */
static void piece_value(struct dpcc *c, const struct node *n, const struct dp_piece *p, u64 from, u64 size)
{
	switch (p->kind) {
	case DP_PIECE_REGISTER:
		dp_cc_emit(c, "push r,%s", p->code);
		break;
	case DP_PIECE_VALUE:
		put_code(c, p->code);
		break;
	case DP_PIECE_MEMORY:
		put_code(c, p->code);
		if (from)
			dp_cc_emit(c, "push d,%llu;add", (unsigned long long)from);
		if (size != 1 && size != 2 && size != 4 && size != 8)
			dp_cc_fail(c, n->tok, E_VAR_GONE, "$%s is split into pieces of unsupported sizes", n->text);
		dp_cc_emit(c, "push mem,u%llu", (unsigned long long)size * 8);
		return;
	default:
		dp_cc_fail(c, n->tok, E_VAR_GONE, "this part of $%s is not available here", n->text);
	}
	if (from)
		dp_cc_emit(c, "shr %llu", (unsigned long long)from * 8);
	mask_to(c, size);
}

void dp_cc_gen_pieces(struct dpcc *c, const struct node *n, const struct dp_var *v, u64 at, u64 size)
{
	u32 found = 0;

	for (u32 i = 0; i < v->npieces; i++) {
		const struct dp_piece *p = &v->pieces[i];
		u64 lo = p->offset, hi = p->size ? lo + p->size : ~0ull, from = DP_MAX(lo, at),
		    to = DP_MIN(hi, at + size);

		if (from >= to)
			continue;
		piece_value(c, n, p, from - lo, to - from);
		if (from > at)
			dp_cc_emit(c, "shl %llu", (unsigned long long)(from - at) * 8);
		if (found++)
			dp_cc_emit(c, "or");
	}
	if (!found)
		dp_cc_fail(c, n->tok, E_VAR_GONE, "this part of $%s is not available here", n->text);
}

static void store_piece(struct dpcc *c, const struct place *p, const struct tok *t)
{
	const struct dp_var *v = p->base->probe;
	u64 at = p->offset, size = p->size, mask = size < 8 ? (1ull << size * 8) - 1 : ~0ull;

	for (u32 i = 0; i < v->npieces; i++) {
		const struct dp_piece *q = &v->pieces[i];

		if (q->offset > at || (q->size && q->offset + q->size < at + size))
			continue;
		if (q->kind == DP_PIECE_MEMORY) {
			put_code(c, q->code);
			dp_cc_emit(c, "push d,%llu;add;xchg", (unsigned long long)(at - q->offset));
			dp_cc_gen_store(c, size, true);
			return;
		}
		if (q->kind != DP_PIECE_REGISTER)
			break;
		at -= q->offset;
		if (p->whole) {
			mask_to(c, size);
		} else {
			mask <<= at * 8;
			dp_cc_emit(c, "shl %llu;push d,%lld;and", (unsigned long long)at * 8, (long long)mask);
			dp_cc_emit(c, "push r,%s;push d,%lld;and;or", q->code, (long long)~mask);
		}
		dp_cc_emit(c, "pop r,%s", q->code);
		return;
	}
	dp_cc_fail(c, t, E_DPCC_TYPE, "$%s has no location here that can be written to", p->base->text);
}

/* ---- places ---- */

struct place dp_cc_place_of(struct dpcc *c, struct node *n)
{
	struct place p = {.type = n->type, .size = n->type->size};

	if (n->kind == N_MEMBER && n->member->bits) {
		u32 end = n->member->shift + n->member->bits;

		p.bits = n->member->bits;
		p.shift = n->member->shift;
		while (p.size * 8 < end)
			p.size *= 2;
		if (p.size > 8)
			dp_cc_fail(c, n->tok, E_DPCC_TYPE, "this bitfield spans too many bytes");
	}
	p.whole = n->kind != N_MEMBER;
	for (; n->kind == N_MEMBER; n = n->a)
		p.offset += n->member->offset;
	p.base = n;
	p.in_target = n->in_target;
	switch (n->kind) {
	case N_VAR:
		p.kind = n->var->kind == VAR_HEAP || n->var->kind == VAR_MEMORY ? PLACE_OWN : PLACE_WORD;
		break;
	case N_PROBE:
		p.kind = dp_cc_in_memory(n->probe) ? PLACE_MEMORY : PLACE_PIECES;
		break;
	case N_DEREF:
		p.kind = PLACE_MEMORY;
		break;
	default:
		dp_cc_fail(c, n->tok, E_DPCC_TYPE, "this must be a variable or a place in memory");
	}
	return p;
}

void dp_cc_place_address(struct dpcc *c, const struct place *p)
{
	const struct node *n = p->base;
	u64 offset = p->offset;

	if (n->kind == N_DEREF) {
		dp_cc_gen_value(c, n->a);
	} else if (n->kind == N_PROBE) {
		put_code(c, n->probe->pieces[0].code);
	} else if (n->var->kind == VAR_HEAP) {
		dp_cc_emit(c, "push sbp,-1;shl 32;push d,0x%llx;or",
			   (unsigned long long)DPCC_TAG_HEAP << 48 | ((u64)n->var->first_word + offset));
		return;
	} else {
		dp_cc_emit(c, "push d,0x%llx",
			   (unsigned long long)DPCC_TAG_VARS << 48 | ((u64)n->var->first_word * 8 + offset));
		return;
	}
	if (offset)
		dp_cc_emit(c, "push d,%llu;add", (unsigned long long)offset);
}

/* From the whole container on the stack to the field's value. */
static void take_bits(struct dpcc *c, const struct place *p)
{
	if (!p->bits)
		return;
	dp_cc_emit(c, "shl %u", 64 - p->shift - p->bits);
	if (p->type->is_unsigned)
		dp_cc_emit(c, "shr %u", 64 - p->bits);
	else
		dp_cc_emit(c, "push d,%u;xchg;sar", 64 - p->bits);
}

/* (container v -- container) with v in the field's place. */
static void put_bits(struct dpcc *c, const struct place *p)
{
	u64 mask = (p->bits == 64 ? ~0ull : (1ull << p->bits) - 1) << p->shift;

	dp_cc_emit(c, "shl %u;push d,%lld;and;xchg;push d,%lld;and;or", p->shift, (long long)mask, (long long)~mask);
}

/*
 * ( -- index) of the word that the thread has of the variable. Where there is no room for it, the hit ends, and is
 * counted: it would compute with what is not there.
 */
static void own_word(struct dpcc *c, const struct var *v)
{
	struct thread_use *u = c->thread_uses;

	while (u && u->var->first_word != v->first_word)
		u = u->next;
	if (!u) {
		u = dp_cc_alloc(c, sizeof(*u));
		*u = (struct thread_use){c->thread_uses, v};
		c->thread_uses = u;
	}
	dp_cc_emit(c, "call T_%d", v->first_word);
}

/* ( -- value) of one that lines in the process set. */
static void process_value(struct dpcc *c, const struct var *v, const struct tok *t)
{
	if (v->there->setters > 1)
		dp_cc_fail(c, t, E_DPCC_PROCESS, "'%.60s' is set in %u modules, each of which has its own", v->name,
			   v->there->setters);
	dp_cc_emit(c, "push tv,%d,%u,%u", v->first_word, dp_cc_table_of(c, v)->keys, v->there->keys);
}

/* The words in which a variable of one word lives. */
static const char *space_of(const struct var *v)
{
	return v->kind == VAR_STACK ? "sbp" : v->kind == VAR_LOCAL ? "lv" : "gv";
}

static void heap_access(struct dpcc *c, const struct place *p, const char *op)
{
	dp_cc_emit(c, "push sbp,-1;push d,%llu;%s heap,u%llu,1",
		   (unsigned long long)p->base->var->first_word + p->offset, op, (unsigned long long)p->size * 8);
}

/* Whatever is needed to load and store is on the stack: nothing, or the address (memory). */
static void load(struct dpcc *c, const struct place *p)
{
	const struct var *v = p->base->var;

	switch (p->kind) {
	case PLACE_WORD:
		if (v->kind == VAR_THREAD) {
			own_word(c, v);
			dp_cc_emit(c, "push lv");
			dp_cc_gen_normalise(c, p->type);
			break;
		}
		if (v->kind == VAR_PROCESS) {
			process_value(c, v, p->base->tok);
			dp_cc_gen_normalise(c, p->type);
			break;
		}
		dp_cc_emit(c, "push %s,%d", space_of(v), v->first_word);
		if (v->kind != VAR_STACK)
			dp_cc_gen_normalise(c, p->type);
		break;
	case PLACE_OWN:
		if (v->kind == VAR_HEAP) {
			heap_access(c, p, "push");
			break;
		}
		dp_cc_place_address(c, p);
		dp_cc_gen_load(c, p->size, false, false);
		break;
	case PLACE_MEMORY:
		dp_cc_gen_load(c, p->size, false, p->in_target);
		break;
	case PLACE_PIECES:
		dp_cc_gen_pieces(c, p->base, p->base->probe, p->offset, p->size);
		break;
	}
}

void dp_cc_place_load(struct dpcc *c, const struct place *p)
{
	load(c, p);
	take_bits(c, p);
	if (!p->bits && p->kind != PLACE_WORD && !p->type->is_unsigned)
		dp_cc_gen_normalise(c, p->type);
}

/* (v -- ), or (addr v -- ) for memory. */
void dp_cc_place_store(struct dpcc *c, const struct place *p, const struct tok *t)
{
	const struct var *v = p->base->var;

	if (p->bits) {
		if (p->kind == PLACE_MEMORY)
			dp_cc_emit(c, "push tsp,1");
		load(c, p);
		dp_cc_emit(c, "xchg");
		put_bits(c, p);
	}
	switch (p->kind) {
	case PLACE_WORD:
		if (v->kind == VAR_THREAD) {
			dp_cc_table_of(c, v)->is_set = true;
			own_word(c, v);
			dp_cc_emit(c, "xchg;pop lv");
			break;
		}
		if (v->kind == VAR_PROCESS)
			dp_cc_fail(c, p->base->tok, E_DPCC_PROCESS, "'%.60s' can only be read here", v->name);
		dp_cc_emit(c, "pop %s,%d", space_of(v), v->first_word);
		break;
	case PLACE_OWN:
		if (v->kind == VAR_HEAP) {
			heap_access(c, p, "pop");
			break;
		}
		dp_cc_place_address(c, p);
		dp_cc_emit(c, "xchg");
		dp_cc_gen_store(c, p->size, false);
		break;
	case PLACE_MEMORY:
		dp_cc_gen_store(c, p->size, p->in_target);
		break;
	case PLACE_PIECES:
		store_piece(c, p, t);
		break;
	}
}
