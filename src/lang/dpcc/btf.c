/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Types and functions of the kernel, from BTF: what /sys/kernel/btf tells of the running one. It knows
 * parameters and what a function returns, but no places: parameters are where the calling convention
 * puts them at the first instruction, the returned value is in rax, and that is all there is.
 */
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dwarf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "lang/dpcc/dpcc-priv.h"

#define DEPTH_MAX 64
#define MEMBERS_MAX 4096

static struct type *convert(struct dpcc *c, u32 id, u32 depth);

static int no_output(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

/* Of a module that is not loaded, by a file without name: its own may be compressed. NULL: it is not known. */
static struct btf *of_file(struct dpcc *c, const char *module)
{
	int was = errno, fd = -1;
	struct btf *btf = NULL;
	char path[32];
	size_t n = 0;
	void *bytes = dp_kernel_module_loaded(module) ? NULL : dp_kernel_module_section(module, ".BTF", &n);

	if (bytes)
		fd = memfd_create("btf", MFD_CLOEXEC);
	dp_format(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd >= 0 && write(fd, bytes, n) == (ssize_t)n)
		btf = btf__parse_raw_split(path, c->btf_base);
	if (fd >= 0)
		close(fd);
	free(bytes);
	errno = was;
	return btf;
}

void dp_cc_btf_open(struct dpcc *c, const char *module, bool is_optional)
{
	const char *path = c->opt->module;

	libbpf_set_print(no_output);
	c->btf_base = c->btf = btf__parse("/sys/kernel/btf/vmlinux", NULL);
	if (!c->btf)
		dp_cc_fail(c, NULL, E_KERNEL_BTF, "/sys/kernel/btf/vmlinux: %s", strerror(errno));
	if (!*module && !path)
		return;
	if (!path)
		path = dp_cc_format(c, "/sys/kernel/btf/%s", module);
	c->btf = btf__parse_split(path, c->btf_base);
	if (!c->btf && !c->opt->module)
		c->btf = of_file(c, module);
	if (!c->btf && is_optional)
		c->btf = c->btf_base;
	if (c->btf)
		return;
	if (*module && !c->opt->module && !dp_kernel_module_has_file(module))
		dp_fail(c->err, E_KERNEL_BTF, "%.60s is not loaded, and has no file in /lib/modules", module);
	else
		dp_fail(c->err, E_KERNEL_BTF, "%.150s: %s", path, strerror(errno));
	if (*module && !c->opt->module)
		dp_error_hint(c->err, "load the module first, or give its file: dpcc -m FILE.ko");
	longjmp(c->out, 1);
}

void dp_cc_btf_close(struct dpcc *c)
{
	if (c->btf != c->btf_base)
		btf__free(c->btf);
	btf__free(c->btf_base);
}

static const char *name_at(const struct dpcc *c, u32 offset)
{
	const char *name = btf__name_by_offset(c->btf, offset);

	return name && *name ? name : NULL;
}

/* ---- types ---- */

static struct type *integer(struct dpcc *c, const struct btf_type *t)
{
	u32 encoding = btf_int_encoding(t);
	struct type *new = dp_cc_alloc(c, sizeof(*new));

	*new = (struct type){.kind = TY_INT, .size = t->size, .align = DP_MAX(t->size, 1u), .complete = true};
	new->name = name_at(c, t->name_off);
	new->is_bool = encoding &BTF_INT_BOOL;
	new->is_char = t->size == 1 && new->name && (!strcmp(new->name, "char") || !strcmp(new->name, "signed char"));
	new->is_unsigned = !(encoding & BTF_INT_SIGNED) && !new->is_char;
	return new;
}

static struct type *enumeration(struct dpcc *c, const struct btf_type *t)
{
	struct type *new = dp_cc_alloc(c, sizeof(*new));
	struct enumerator **last = &new->enums;

	*new = (struct type){.kind = TY_INT, .size = t->size, .align = t->size, .complete = true, .is_unsigned = true};
	new->name = name_at(c, t->name_off);
	for (u32 i = 0; i < btf_vlen(t) && i < MEMBERS_MAX; i++) {
		u32 name = btf_is_enum(t) ? btf_enum(t)[i].name_off : btf_enum64(t)[i].name_off;
		s64 v = btf_is_enum(t) ? btf_enum(t)[i].val : (s64)btf_enum64_value(&btf_enum64(t)[i]);

		*last = dp_cc_alloc(c, sizeof(**last));
		**last = (struct enumerator){NULL, name_at(c, name), v};
		last = &(*last)->next;
		if (v < 0)
			new->is_unsigned = false;
	}
	return new;
}

static struct type *structure(struct dpcc *c, u32 id, const struct btf_type *t)
{
	struct type *new;

	for (new = c->debug_types; new; new = new->next)
		if (new->btf == id)
			return new;
	new = dp_cc_alloc(c, sizeof(*new));
	*new = (struct type){.kind = TY_STRUCT, .lazy = true, .btf = id, .align = 1};
	new->size = btf_is_fwd(t) ? 0 : t->size;
	new->is_union = btf_is_union(t) || (btf_is_fwd(t) && btf_kflag(t));
	new->name = name_at(c, t->name_off);
	new->next = c->debug_types;
	c->debug_types = new;
	return new;
}

static struct type *convert(struct dpcc *c, u32 id, u32 depth)
{
	const struct btf_type *t = btf__type_by_id(c->btf, id);
	struct type *new;

	if (!t || depth > DEPTH_MAX)
		return &dp_cc_type_void;
	switch (btf_kind(t)) {
	case BTF_KIND_INT:
		return integer(c, t);
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		return enumeration(c, t);
	case BTF_KIND_PTR:
		return dp_cc_type_ptr(c, convert(c, t->type, depth + 1));
	case BTF_KIND_ARRAY:
		return dp_cc_type_array(c, convert(c, btf_array(t)->type, depth + 1), btf_array(t)->nelems);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_FWD:
		return structure(c, id, t);
	case BTF_KIND_FUNC:
	case BTF_KIND_FUNC_PROTO:
		new = dp_cc_alloc(c, sizeof(*new));
		*new = (struct type){.kind = TY_FUNC, .size = 1, .align = 1, .complete = true};
		return new;
	case BTF_KIND_FLOAT:
		new = dp_cc_alloc(c, sizeof(*new));
		*new = (struct type){.kind = TY_FLOAT, .size = t->size, .align = t->size, .complete = true};
		return new;
	case BTF_KIND_TYPEDEF:
		return dp_cc_type_named(c, convert(c, t->type, depth + 1), name_at(c, t->name_off));
	case BTF_KIND_CONST:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
	case BTF_KIND_VAR:
		return convert(c, t->type, depth + 1);
	default:
		return &dp_cc_type_void;
	}
}

/* The bits of a bitfield, in the integer of its type that holds them all. */
static void bitfield(struct member *m, u32 at, u32 bits)
{
	u64 size = m->type->size;

	if (!bits || !size)
		return;
	m->bits = bits;
	m->offset = at / (size * 8) * size;
	m->shift = (u32)(at - m->offset * 8);
}

void dp_cc_btf_complete(struct dpcc *c, struct type *t)
{
	const struct btf_type *b = btf__type_by_id(c->btf, t->btf);
	struct member **last = &t->members;

	t->lazy = false;
	if (btf_is_fwd(b)) {
		s32 whole = t->name ? btf__find_by_name_kind(c->btf, t->name,
							     t->is_union ? BTF_KIND_UNION : BTF_KIND_STRUCT)
				    : -1;

		if (whole < 0)
			return;
		b = btf__type_by_id(c->btf, (u32)whole);
	}
	t->size = b->size;
	t->complete = true;
	for (u32 i = 0; i < btf_vlen(b) && i < MEMBERS_MAX; i++) {
		struct member *m = dp_cc_alloc(c, sizeof(*m));
		const char *name = name_at(c, btf_members(b)[i].name_off);
		u32 at = btf_member_bit_offset(b, i);

		m->name = name ? name : "";
		m->type = convert(c, btf_members(b)[i].type, 0);
		m->offset = at / 8;
		bitfield(m, at, btf_member_bitfield_size(b, i));
		*last = m;
		last = &m->next;
	}
}

struct type *dp_cc_btf_named(struct dpcc *c, int tag, const char *name)
{
	static const struct {
		int tag;
		u32 kind;
	} kinds[] = {{DW_TAG_structure_type, BTF_KIND_STRUCT},
		     {DW_TAG_union_type, BTF_KIND_UNION},
		     {DW_TAG_typedef, BTF_KIND_TYPEDEF},
		     {DW_TAG_enumeration_type, BTF_KIND_ENUM},
		     {DW_TAG_enumeration_type, BTF_KIND_ENUM64}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(kinds); i++) {
		s32 id = kinds[i].tag == tag ? btf__find_by_name_kind(c->btf, name, kinds[i].kind) : -1;

		if (id > 0)
			return convert(c, (u32)id, 0);
	}
	return NULL;
}

bool dp_cc_btf_enumerator(struct dpcc *c, const char *name, s64 *value)
{
	for (u32 id = 1; id < btf__type_cnt(c->btf); id++) {
		const struct btf_type *t = btf__type_by_id(c->btf, id);

		if (!btf_is_any_enum(t))
			continue;
		for (u32 i = 0; i < btf_vlen(t); i++) {
			bool narrow = btf_is_enum(t);
			const char *found = name_at(c, narrow ? btf_enum(t)[i].name_off : btf_enum64(t)[i].name_off);

			if (!found || strcmp(found, name))
				continue;
			*value = narrow ? btf_enum(t)[i].val : (s64)btf_enum64_value(&btf_enum64(t)[i]);
			return true;
		}
	}
	return false;
}

/* ---- functions ---- */

/* The prototype of a function; NULL when BTF has none of this name. */
static const struct btf_type *prototype(const struct dpcc *c, const char *name)
{
	s32 id = btf__find_by_name_kind(c->btf, name, BTF_KIND_FUNC);

	return id > 0 ? btf__type_by_id(c->btf, btf__type_by_id(c->btf, (u32)id)->type) : NULL;
}

/* What a tracepoint calls gets a word of its own in front of the arguments. */
static u32 first_parameter(const struct dpcc *c)
{
	return c->target.tracepoint ? 1 : 0;
}

/*
 * The functions that a tracepoint is made of, in the kernels that have them: the first has the names of that
 * tracepoint, the last those of the class that it was made of.
 */
const char *dp_cc_btf_tracepoint(struct dpcc *c, const char *name)
{
	static const char *const forms[] = {"__traceiter_", "__probestub_", "trace_event_raw_event_"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(forms); i++) {
		const char *func = dp_cc_format(c, "%s%s", forms[i], name);

		if (prototype(c, func))
			return func;
	}
	return NULL;
}

const char *dp_cc_btf_parameter(const struct dpcc *c, u32 i)
{
	const struct btf_type *proto = c->target.func ? prototype(c, c->target.func) : NULL;
	u32 at = first_parameter(c) + i - 1;

	return proto && i && at < btf_vlen(proto) ? name_at(c, btf_params(proto)[at].name_off) : NULL;
}

/* Where the n-th parameter is at the first instruction of a function with this prototype. */
static bool parameter_place(struct dpcc *c, const struct btf_type *proto, u32 n, struct dp_var *v)
{
	u64 stack = c->target.tracepoint ? 0 : 8; /* above the return address, which is gone already at a tracepoint */
	u32 used = 0;

	for (u32 i = 0;; i++) {
		struct type *t = convert(c, btf_params(proto)[i].type, 0);
		u32 words = (u32)((t->size + 7) / 8), first = used;
		bool in_regs = words <= 2 && used + words <= DP_NAME_ARGS;

		if (t->kind == TY_FLOAT || !t->size)
			return false;
		used += in_regs ? words : 0;
		if (i < n) {
			stack += in_regs ? 0 : 8ull * words;
			continue;
		}
		v->npieces = in_regs ? words : 1;
		if (c->target.tracepoint && in_regs && words == 1) { /* what is written to it would count nowhere */
			v->pieces[0] = (struct dp_piece){.kind = DP_PIECE_VALUE};
			dp_format(v->pieces[0].code, DP_PIECE_CODE, "push r,%s;", dp_name_of_arg(first));
			return true;
		}
		for (u32 k = 0; in_regs && k < words; k++) {
			v->pieces[k] = (struct dp_piece){DP_PIECE_REGISTER, 8 * k, words > 1 ? 8 : 0};
			dp_format(v->pieces[k].code, DP_PIECE_CODE, "%s", dp_name_of_arg(first + k));
		}
		if (!in_regs) {
			v->pieces[0] = (struct dp_piece){.kind = DP_PIECE_MEMORY};
			dp_format(v->pieces[0].code, DP_PIECE_CODE, "push r," DP_NAME_SP ";push d,%llu;add;",
				  (unsigned long long)stack);
		}
		return true;
	}
}

static int gone(const struct dpcc *c, const char *name, const char *why, struct dp_error *err)
{
	int r = dp_fail(err, E_VAR_GONE, "%.60s in %.60s: %s", name, c->target.func, why);

	dp_error_hint(err, "BTF has it for the function's first instruction only; "
			   "with the kernel's debug package, it is known elsewhere, too");
	return r;
}

void dp_cc_current(struct dpcc *c, struct dp_var *v, struct type **type)
{
	struct type *task = dp_cc_debug_named(c, DW_TAG_structure_type, "task_struct");

	memset(v, 0, sizeof(*v));
	v->npieces = 1;
	v->pieces[0].kind = DP_PIECE_VALUE;
	dp_format(v->pieces[0].code, DP_PIECE_CODE, "push task;");
	*type = dp_cc_type_ptr(c, task ? task : &dp_cc_type_void);
}

int dp_cc_btf_variable(struct dpcc *c, const char *name, struct dp_var *v, struct type **type, struct dp_error *err)
{
	const struct btf_type *proto = prototype(c, c->target.func);
	struct dp_near near = {.n = 0};
	s32 id;

	memset(v, 0, sizeof(*v));
	for (u32 i = first_parameter(c); proto && i < btf_vlen(proto); i++) {
		const char *param = name_at(c, btf_params(proto)[i].name_off);

		if (!param || strcmp(param, name))
			continue;
		*type = convert(c, btf_params(proto)[i].type, 0);
		if (c->target.is_return || c->target.pc)
			return gone(c, name, "its place is not known here", err);
		return parameter_place(c, proto, i, v) ? 0 : gone(c, name, "it is passed in an unusual way", err);
	}
	if (!strcmp(name, "current")) {
		dp_cc_current(c, v, type);
		return 0;
	}
	if (!dp_kallsyms_find(name, &(u64){0}, NULL)) {
		id = btf__find_by_name_kind(c->btf, name, BTF_KIND_VAR);
		v->npieces = 1;
		v->pieces[0].kind = prototype(c, name) ? DP_PIECE_VALUE : DP_PIECE_MEMORY;
		*type = id > 0                                ? convert(c, (u32)id, 0)
			: v->pieces[0].kind == DP_PIECE_VALUE ? dp_cc_type_ptr(c, &dp_cc_type_void)
							      : &dp_cc_type_long;
		dp_format(v->pieces[0].code, DP_PIECE_CODE, "push d,%s;", name);
		return 0;
	}
	dp_fail(err, E_VAR_NONE, "%.60s in %.60s", name, c->target.func);
	for (u32 i = first_parameter(c); proto && i < btf_vlen(proto); i++)
		if (name_at(c, btf_params(proto)[i].name_off))
			dp_near_try(&near, name, name_at(c, btf_params(proto)[i].name_off));
	dp_near_hint(&near, "$", err);
	if (!proto)
		dp_error_hint(
		    err, "the kernel's BTF does not know the function %.60s: use registers, reg(\"" DP_NAME_ARG0 "\")",
		    c->target.func);
	return -ENOENT;
}

struct type *dp_cc_btf_return_type(struct dpcc *c)
{
	const struct btf_type *proto = prototype(c, c->target.func);

	return proto ? convert(c, proto->type, 0) : NULL;
}

void dp_cc_btf_each_parameter(struct dpcc *c, void (*fn)(struct dpcc *c, const char *name))
{
	const struct btf_type *proto = prototype(c, c->target.func);

	if (!proto)
		dp_cc_fail(c, NULL, E_SYM_NONE, "the kernel's BTF has no function %.60s", c->target.func);
	for (u32 i = first_parameter(c); i < btf_vlen(proto); i++)
		if (name_at(c, btf_params(proto)[i].name_off))
			fn(c, name_at(c, btf_params(proto)[i].name_off));
}

u32 dp_cc_btf_functions(struct dpcc *c, const char *pattern, const char **names, u32 max)
{
	u32 n = 0, first = c->btf == c->btf_base ? 1 : btf__type_cnt(c->btf_base);

	for (u32 id = first; id < btf__type_cnt(c->btf) && n < max; id++) {
		const struct btf_type *t = btf__type_by_id(c->btf, id);
		const char *name = btf_is_func(t) ? name_at(c, t->name_off) : NULL;

		if (name && !fnmatch(pattern, name, 0))
			names[n++] = name;
	}
	return n;
}
