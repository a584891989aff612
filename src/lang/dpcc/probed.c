/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Variables of the probed program or kernel, in expressions: $name, and $retval where a function returns.
 * By debug information of the module, or, in a kernel without it, by BTF.
 */
#include <dwarf.h>
#include <string.h>

#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"
#include "lang/dpcc/syscalls.h"
#include "symbols/variable.h"

bool dp_cc_probed_enumerator(struct dpcc *c, const char *name, s64 *value)
{
	if (c->target.is_call && dp_syscall_constant(name, value))
		return true;
	if (c->mod)
		return dp_var_enumerator(c->mod, dp_cc_pc(c), name, value);
	return c->btf && dp_cc_btf_enumerator(c, name, value);
}

static struct type *watched_type(struct dpcc *c)
{
	static struct type *const integers[9] = {
	    [1] = &dp_cc_type_uchar, [2] = &dp_cc_type_ushort, [4] = &dp_cc_type_uint};
	u64 size = c->target.watched, known;
	struct dp_error none = {0}; /* asked before: it can be found */
	struct type *t = NULL;
	bool typed = false;
	Dwarf_Die die;

	if (c->target.watched_as && !dp_variable_type(c->mod, c->target.watched_as, &typed, &die, &known, &none) &&
	    typed)
		t = dp_cc_debug_type(c, &die);
	if (t && dp_cc_type_is_scalar(t) && t->size == size)
		return t;
	return size < DP_ARRAY_SIZE(integers) && integers[size] ? integers[size] : &dp_cc_type_ulong;
}

/* What programs of watchpoints have: $old and $new of the variable's type, $addr where it is. */
static bool watch_word(struct dpcc *c, struct node *n, const char *name)
{
	bool is_addr = !strcmp(name, "addr");

	if (!c->target.watched || (!is_addr && strcmp(name, "old") && strcmp(name, "new")))
		return false;
	n->type = is_addr ? dp_cc_type_ptr(c, watched_type(c)) : watched_type(c);
	n->probe->npieces = 1;
	n->probe->pieces[0].kind = DP_PIECE_VALUE;
	dp_format(n->probe->pieces[0].code, DP_PIECE_CODE, "push r,%s;", name);
	return true;
}

static int find(struct dpcc *c, struct node *n, const char *name, struct dp_error *err)
{
	struct dp_var *v = n->probe;
	int r;

	if (!c->mod)
		return dp_cc_btf_variable(c, name, v, &n->type, err);
	/*
	 * An access to memory may come from anywhere, and a function that returns for another one has variables of its
	 * own: what is known is what is known everywhere.
	 */
	r = c->target.watched || c->target.passing == PASS_RETURN
		? dp_var_global(c->mod, name, v, err)
		: dp_var_find(c->mod, dp_cc_pc(c), c->target.copy_of, name, v, err);
	if (r && err->code == E_VAR_NONE && c->by_name && !strcmp(name, "current")) {
		*err = (struct dp_error){0};
		dp_cc_current(c, v, &n->type);
		return 0;
	}
	if (!r && v->has_type)
		n->type = dp_cc_debug_type(c, &v->type);
	else if (!r)
		n->type = v->pieces[0].kind == DP_PIECE_VALUE ? dp_cc_type_ptr(c, &dp_cc_type_void) : &dp_cc_type_long;
	return r;
}

bool dp_cc_probed_is_reference(const struct dpcc *c, const struct dp_var *v)
{
	Dwarf_Die type = v->type;
	int tag = c->mod && v->has_type ? dwarf_tag(&type) : 0;

	return tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type;
}

const char *dp_cc_parameter_name(struct dpcc *c, u32 i)
{
	return c->mod ? dp_var_parameter(c->mod, dp_cc_pc(c), c->target.copy_of, i - 1) : dp_cc_btf_parameter(c, i);
}

bool dp_cc_at_entry(const struct dpcc *c)
{
	struct dp_symbol sym;

	if (c->target.watched || c->target.is_return || c->target.copy_of)
		return false;
	if (!c->mod)
		return !c->target.pc;
	return dp_module_symbol_at(c->mod, c->target.pc, &sym) && sym.addr == c->target.pc;
}

/* In event lines $pid and the like are what they always were; in handlers the program's own variable goes first. */
struct node *dp_cc_probed(struct dpcc *c, const struct tok *t, const char *name, bool needed)
{
	struct node *n;

	if (c->target.body)
		return dp_cc_body_word(c, t, name, needed);
	n = c->event ? dp_cc_context(c, t, name) : NULL;
	if (n)
		return n;
	n = dp_cc_variable(c, t, name, false);
	if (!n && !c->event)
		n = dp_cc_context(c, t, name);
	return n || !needed ? n : dp_cc_variable(c, t, name, true);
}

static _Noreturn void no_call_word(struct dpcc *c, const struct tok *t, const char *name)
{
	static const char *const words[] = {"call", "nr", "ret", "retval", "error", "duration"};
	struct dp_syscall_arg arg;
	struct dp_near near = {.n = 0};

	for (u32 i = 0; c->target.is_one_call && dp_syscall_arg(c->target.call, i, &arg) > 0; i++)
		if (strcmp(name, arg.name) != 0) /* else other calls of the line do not have it */
			dp_near_try(&near, name, arg.name);
	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		dp_near_try(&near, name, words[i]);
	dp_cc_fail_near(c, t, E_EVENT_VAR, &near,
			"system calls have $call $nr $arg1 to $arg6 $ret $error $duration, and "
			"the names of arguments that all calls of the line have");
}

#define LONG_NAME 6 /* a shorter one is like another by chance */

/* It may be one of the names that are known at every hit, mistyped; where no names are known, if it is long. */
static _Noreturn void no_variable(struct dpcc *c, const struct tok *t, const char *name, struct dp_error *err)
{
	struct dp_near near = {.n = 0};

	if (err->code == E_VAR_NONE && dp_cc_is_declared(c, name)) {
		dp_error_hint(err, "%.60s is a variable of the bodies: write it without $", name);
		dp_cc_refail(c, t, err);
	}
	dp_cc_context_near(&near, name);
	if (near.n && (err->code == E_VAR_NONE || (err->code == E_LINE_NODEBUG && strlen(name) >= LONG_NAME)) &&
	    strncmp(err->hint, "did you mean", 12) != 0) {
		dp_fail(err, E_EVENT_VAR, "`$%.60s`", name);
		dp_near_hint(&near, "$", err);
	}
	dp_cc_refail(c, t, err);
}

struct dp_var *dp_cc_keep_var(struct dpcc *c, const struct dp_var *v)
{
	const struct dp_piece *last = &v->pieces[DP_MAX(v->npieces, 1u) - 1];
	size_t n = (size_t)(last->code - (const char *)v) + strlen(last->code) + 1;

	return memcpy(dp_cc_alloc(c, n), v, n);
}

/* n->probe: room for the longest description. */
static struct node *variable(struct dpcc *c, const struct tok *t, const char *name, bool needed, struct node *n)
{
	struct dp_error err = {0};
	struct node *d;
	s64 value;

	if (!c->mod && !c->btf) {
		if (needed)
			dp_cc_fail(c, t, E_DPCC_NAME,
				   "variables of the program can be used only in handlers of a probe");
		return NULL;
	}
	if (c->target.is_call) {
		if (needed)
			no_call_word(c, t, name);
		return NULL;
	}
	if (!strcmp(name, "retval")) {
		c->no_result |= c->target.is_jump;
		if (c->target.is_return)
			return dp_cc_result(c, n, t);
		if (needed)
			dp_cc_fail(c, t, E_DPCC_NAME, "$retval is known only where a function returns");
		return NULL;
	}
	if (watch_word(c, n, name)) {
		n->in_target = true;
		return n;
	}
	d = c->target.tracepoint ? dp_cc_tracepoint_field(c, t, name) : NULL;
	if (d)
		return d;
	if (find(c, n, name, &err)) {
		if (err.code == E_VAR_NONE && dp_cc_probed_enumerator(c, name, &value))
			return dp_cc_node_number(c, t, value, value == (s32)value ? &dp_cc_type_int : &dp_cc_type_long);
		if (needed && c->target.tracepoint)
			dp_cc_no_tracepoint_word(c, t, name);
		if (needed)
			no_variable(c, t, name, &err);
		return NULL;
	}
	if (n->type->lazy)
		dp_cc_debug_complete(c, n->type);
	n->in_target = true;
	if (!dp_cc_probed_is_reference(c, n->probe))
		return n;
	/* A reference is what it refers to. */
	d = dp_cc_node_new(c, N_DEREF, t);
	d->a = n;
	d->type = n->type->of;
	d->in_target = true;
	if (d->type->lazy)
		dp_cc_debug_complete(c, d->type);
	return d;
}

struct node *dp_cc_variable(struct dpcc *c, const struct tok *t, const char *name, bool needed)
{
	struct node *n = dp_cc_node_new(c, N_PROBE, t), *found;
	struct dp_var v = {.npieces = 0};

	n->text = name;
	n->probe = &v;
	found = variable(c, t, name, needed, n);
	n->probe = dp_cc_keep_var(c, &v);
	return found;
}
