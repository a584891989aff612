// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Programs of sessions as machine code, by the compiler that processes have: of what this module has verified, in
 * memory that nobody can write to. What is not compiled is interpreted. Control side.
 */
#include <linux/bitmap.h>
#include <linux/moduleparam.h>

#include "abi/abi-limits.h"
#include "arch/compile.h"
#include "hit/hit-rpn.h"
#include "k-session.h"

#define UNIT 64 /* bytes: a line of the processor's caches */
#define UNITS (DP_K_PROGRAMS / UNIT)

static bool wanted = true;
module_param_named(compile, wanted, bool, 0644);
MODULE_PARM_DESC(compile, "whether programs of new sessions become machine code");

static ulong used;
module_param_named(compiled_bytes, used, ulong, 0444);
MODULE_PARM_DESC(compiled_bytes, "what the machine code of all programs takes");

static DECLARE_BITMAP(taken, UNITS); /* as used: under dp_k_lock */

void dp_k_ret(void); /* k-entry.S: returns in the way that this kernel wants it */

static const u64 *services(void)
{
	static const void *const functions[] = {
#define DP_SERVICE(name) name,
#include "abi/services.def"
	};

	static_assert(sizeof(functions) == DP_NSERVICES * sizeof(u64));
	return (const u64 *)functions;
}

static int compile(const struct dp_k_prog *p, struct dp_emit *e)
{
	struct dp_rpn_jit jit = {.code = (const u8 *)p->rt.code,
				 .rt = &p->rt,
				 .services = services(),
				 .near = true,
				 .sealed = true,
				 .leave = (u64)dp_k_ret};

	e->len = 0;
	return dp_rpn_jit_compile(e, &jit);
}

static u32 units_of(u32 bytes)
{
	return DIV_ROUND_UP(bytes, UNIT);
}

/* 0: there is no room. */
static u64 take(u32 bytes)
{
	unsigned long n = units_of(bytes), at = bitmap_find_next_zero_area(taken, UNITS, 0, n, 0);
	u64 addr = dp_k_near.programs + at * UNIT;

	if (at + n > UNITS || dp_k_near_want(addr, addr + n * UNIT))
		return 0;
	bitmap_set(taken, at, n);
	used += n * UNIT;
	return addr;
}

static void give(struct dp_k_code *code)
{
	bitmap_clear(taken, (code->addr - dp_k_near.programs) / UNIT, units_of(code->len));
	used -= (ulong)units_of(code->len) * UNIT;
	*code = (struct dp_k_code){0};
}

/* Lengths do not depend on addresses: the first time tells how much room is needed. */
static void put(const struct dp_k_prog *p, struct dp_k_code *code, struct dp_emit *e)
{
	if (compile(p, e))
		return;
	code->len = (u32)e->len;
	code->addr = take(code->len);
	if (!code->addr)
		return;
	e->addr = code->addr;
	if (compile(p, e) || e->len != code->len || dp_k_fill(code->addr, e->buf, code->len))
		give(code);
}

void dp_k_compile(struct dp_k_prog *p, struct dp_k_code *code)
{
	size_t room = dp_rpn_jit_room(p->rt.len);
	struct dp_emit e;
	u8 *buf = p->rt.ex_mask && READ_ONCE(wanted) ? dp_alloc(room) : NULL;

	if (!buf)
		return;
	dp_emit_init(&e, buf, room, dp_k_near.programs);
	mutex_lock(&dp_k_lock);
	put(p, code, &e);
	mutex_unlock(&dp_k_lock);
	dp_free(buf);
	p->rt.compiled = code->addr;
}

bool dp_k_compiles_alike(const struct dp_k_prog *a, const struct dp_k_prog *b)
{
	const struct dp_code_rt *x = &a->rt, *y = &b->rt;

	return x->len == y->len && x->jmpmax == y->jmpmax && x->logmax == y->logmax && x->nlocals == y->nlocals &&
	       x->locals == y->locals && x->nglobals == y->nglobals && x->globals == y->globals &&
	       x->ex_mask == y->ex_mask && !memcmp((const void *)x->code, (const void *)y->code, x->len);
}

void dp_k_code_free(struct dp_k_code *code)
{
	if (!code->addr)
		return;
	mutex_lock(&dp_k_lock);
	give(code);
	mutex_unlock(&dp_k_lock);
}
