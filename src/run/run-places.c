/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a probe definition says, as a place of a process, of the kernel, or of a file: added to a session that is not
 * armed yet.
 */
#include <stdlib.h>
#include <string.h>

#include "run/run-priv.h"
#include "lang/event/event.h"

static enum dp_module_kind module_kind(const struct dp_rpn_unit *u)
{
	return u->modtype == DP_RPN_USER   ? DP_MODULE_USER
	       : u->modtype == DP_RPN_KMOD ? DP_MODULE_KMOD
					   : DP_MODULE_KERNEL;
}

/* Its probes are set in all processes that map the file. */
static bool is_by_file(const struct dp_tracee *s, const struct dp_rpn_unit *u)
{
	return s->ops->is_by_file && u->modtype == DP_RPN_USER;
}

static int relocate(struct dp_tracee *s, const struct dp_rpn_unit *u, const struct dp_rpn_probe *p, u8 *code,
		    struct dp_error *err)
{
	int r = 0;

	if (p->nrelocs && is_by_file(s, u))
		return dp_fail(err, E_KERNEL_UPROBE, "%.150s is elsewhere in each process", p->relocs[0].symbol);

	for (u32 i = 0; i < p->nrelocs && !r; i++) {
		u64 addr = 0;

		if (!strcmp(p->relocs[i].symbol, ".base"))
			r = dp_tracee_base(s, u->name, &addr, err); /* added to addresses of the module's file */
		else
			r = dp_tracee_symbol(s, p->relocs[i].symbol, &addr, err);
		addr += (u64)p->relocs[i].addend;
		if (!r)
			memcpy(code + p->relocs[i].at, &addr, 8);
	}
	return r;
}

/* The module that places mean which name none. */
static void default_module(const struct dp_rpn_unit *u, struct dp_location *loc)
{
	snprintf(loc->module, sizeof(loc->module), u->modtype == DP_RPN_KMOD ? "kmod(%.240s)" : "%.255s",
		 u->modtype == DP_RPN_KERNEL ? "kernel" : u->name);
}

static int find_memory(const struct dp_rpn_unit *u, const struct dp_rpn_probe *p, struct dp_probe_spec *sp,
		       struct dp_error *err)
{
	char line[DP_RPN_NAME_MAX + 4];
	struct dp_event ev = {0};
	int r;

	snprintf(line, sizeof(line), "w %s", p->symbol);
	r = dp_event_parse(&ev, line, err);
	if (r)
		return r;
	sp->kind = DP_SPEC_WATCH;
	sp->watch_len = ev.watch_len;
	sp->watch_type = ev.watch_type;
	sp->place = ev.loc;
	if (!sp->place.module[0])
		default_module(u, &sp->place);
	dp_event_free(&ev);
	return 0;
}

/* What a probe definition says, as a place of the process or of the kernel. */
static int find_place(struct dp_tracee *s, const struct dp_rpn_unit *u, const struct dp_rpn_probe *p,
		      struct dp_probe_spec *sp, struct dp_error *err)
{
	bool uprobe = is_by_file(s, u);
	struct dp_location *loc = &sp->place;

	if (p->place == DP_RPN_WATCH && !uprobe)
		return find_memory(u, p, sp, err);
	if (uprobe && (u->name[0] != '/' || p->place == DP_RPN_WATCH))
		return dp_fail(err, E_KERNEL_UPROBE, "%.150s %s", u->name,
			       p->place == DP_RPN_WATCH ? "watches memory" : "is not a path");
	default_module(u, loc);
	if (uprobe)
		snprintf(loc->module, sizeof(loc->module), "user(%.240s)", u->name);
	snprintf(loc->symbol, sizeof(loc->symbol), "%s", p->symbol);
	loc->offset = p->offset;
	loc->address = (u64)p->offset;
	loc->kind = p->place == DP_RPN_SYMBOL       ? DP_LOC_SYMBOL
		    : p->place == DP_RPN_LINE       ? DP_LOC_LINE
		    : p->place == DP_RPN_OFFSET     ? DP_LOC_FILE_OFFSET
		    : p->place == DP_RPN_TRACEPOINT ? DP_LOC_TRACEPOINT
		    : p->place == DP_RPN_CALL       ? DP_LOC_CALL
						    : DP_LOC_ADDRESS;
	return p->place == DP_RPN_OFFSET ? dp_tracee_offset(s, module_kind(u), u->name, loc, err) : 0;
}

int dp_run_add_probe(struct dp_tracee *s, const struct run_range *range, u32 index, struct dp_error *err)
{
	const struct dp_rpn_probe *p = &range->m->unit.probes[index];
	struct dp_probe_spec sp = {.kind = p->at_return ? DP_SPEC_RETURN : DP_SPEC_ENTRY,
				   .opcode = -1,
				   .program = &p->prog,
				   .locals = range->locals,
				   .globals = 0,
				   .gate = range->gates + index,
				   .index = range->at[index],
				   .log_on_fault = p->logonfault,
				   .jit = range->m->flags & DP_RUN_JIT_ON    ? DP_JIT_ON
					  : range->m->flags & DP_RUN_JIT_OFF ? DP_JIT_OFF
									     : DP_JIT_AUTO};
	struct dp_program copy = p->prog;
	int r;

	if (p->has_opcode && !(range->m->flags & DP_RUN_NO_OPCODES))
		sp.opcode = p->opcode;
	r = find_place(s, &range->m->unit, p, &sp, err);
	if (r)
		return r;
	copy.code = malloc(p->prog.len);
	if (!copy.code)
		return dp_fail(err, E_RPN_MEMORY, "probe");
	memcpy(copy.code, p->prog.code, p->prog.len);
	sp.program = &copy;
	r = relocate(s, &range->m->unit, p, copy.code, err);
	if (!r)
		r = dp_tracee_add_spec(s, &sp, err);
	free(copy.code);
	return r;
}

static int fail_build(const struct dp_rpn_unit *u, const char *id, struct dp_error *err)
{
	return dp_fail(err, E_RPN_BUILD, "%.80s has %.40s, the object is for %.40s", u->name, id, u->build_id);
}

int dp_run_check_build(struct dp_tracee *s, const struct dp_rpn_unit *u, struct dp_error *err)
{
	char id[DP_RPN_BUILD_ID_MAX];
	int r;

	if (!u->build_id[0])
		return 0;
	r = dp_tracee_build_id(s, module_kind(u), u->name, id, sizeof(id), err);
	if (r)
		return r < 0 ? r : 0;
	return strcmp(id, u->build_id) ? fail_build(u, id, err) : 0;
}

/* What a process would say as well, as far as it is known without one. */
static int check_place(struct dp_module *m, const struct dp_rpn_probe *p, struct dp_error *err)
{
	struct dp_symbol sym;
	u64 addr;
	int r;

	if (p->place == DP_RPN_OFFSET && !dp_module_number_to_addr(m, (u64)p->offset, &addr))
		return dp_fail(err, E_SITE_NOTEXT, "offset 0x%llx is in no segment of %s",
			       (unsigned long long)p->offset, dp_module_base(m));
	if (p->place != DP_RPN_SYMBOL)
		return 0;
	r = dp_module_symbol(m, p->symbol, &sym, err);
	if (!r && !sym.is_func && !sym.is_ifunc)
		r = dp_fail(err, E_SITE_NOTEXT, "%s:%s is data", dp_module_base(m), p->symbol);
	return r;
}

int dp_run_check_file(const struct dp_rpn_unit *u, int fd, struct dp_error *err)
{
	struct dp_module *m;
	int r = dp_module_open_fd(&m, fd, u->name, err);

	if (r)
		return r;
	if (u->build_id[0] && strcmp(dp_module_identity(m), u->build_id))
		r = fail_build(u, dp_module_identity(m), err);
	for (u32 i = 0; i < u->nprobes && !r; i++)
		r = check_place(m, &u->probes[i], err);
	dp_module_close(m);
	return r;
}
