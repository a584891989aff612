/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a probe definition says, as a place of a process, of the kernel, or of a file: added to a session that is not armed yet. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver-priv.h"
#include "lang/event/event.h"
#include "symbols/kallsyms.h"

/* ".base": what is added to addresses of the module's file to get those in the process. */
static int module_base(struct tracee *s, const char *module, u64 *addr, struct dp_error *err)
{
	struct dp_image *im;

	if (s->kernel)
		return dp_fail(err, E_KERNEL_PLACE, "an address in the file of %.150s", module);
	im = dp_process_image(dp_session_process(s->process), module, err);
	if (im)
		*addr = im->bias;
	return im ? 0 : -ENOENT;
}

static int relocate(struct tracee *s, const struct dp_rpn_unit *u, const struct dp_rpn_probe *p,
		    u8 *code, struct dp_error *err)
{
	int r = 0;

	if (p->nrelocs && s->kernel && u->modtype == DP_RPN_USER)
		return dp_fail(err, E_KERNEL_UPROBE, "%.150s is elsewhere in each process", p->relocs[0].symbol);

	for (u32 i = 0; i < p->nrelocs && !r; i++) {
		u64 addr = 0;

		if (!strcmp(p->relocs[i].symbol, ".base"))
			r = module_base(s, u->name, &addr, err);
		else
			r = tracee_symbol(s, p->relocs[i].symbol, &addr, err);
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

static int find_memory(const struct dp_rpn_unit *u, const struct dp_rpn_probe *p, struct dp_session_program *sp,
		       struct dp_error *err)
{
	char line[DP_RPN_NAME_MAX + 4];
	struct dp_event ev = {0};
	int r;

	snprintf(line, sizeof(line), "w %s", p->symbol);
	r = dp_event_parse(&ev, line, err);
	if (r)
		return r;
	sp->is_watch = true;
	sp->watch_len = ev.watch_len;
	sp->watch_type = ev.watch_type;
	sp->loc = ev.loc;
	if (!sp->loc.module[0])
		default_module(u, &sp->loc);
	dp_event_free(&ev);
	return 0;
}

/* What a probe definition says, as a place of the process or of the kernel. */
static int find_place(struct tracee *s, const struct dp_rpn_unit *u, const struct dp_rpn_probe *p,
		      struct dp_session_program *sp, struct dp_error *err)
{
	bool uprobe = s->kernel && u->modtype == DP_RPN_USER;
	struct dp_location *loc = &sp->loc;
	u64 start = 0;
	int r = 0;

	if (p->place == DP_RPN_WATCH && !uprobe)
		return find_memory(u, p, sp, err);
	if (uprobe && (u->name[0] != '/' || p->place == DP_RPN_WATCH))
		return dp_fail(err, E_KERNEL_UPROBE, "%.150s %s", u->name, p->place == DP_RPN_WATCH ? "watches memory" : "is not a path");
	default_module(u, loc);
	if (uprobe)
		snprintf(loc->module, sizeof(loc->module), "user(%.240s)", u->name);
	snprintf(loc->symbol, sizeof(loc->symbol), "%s", p->symbol);
	loc->offset = p->offset;
	loc->address = (u64)p->offset;
	loc->kind = p->place == DP_RPN_SYMBOL   ? DP_LOC_SYMBOL
		    : p->place == DP_RPN_LINE   ? DP_LOC_LINE
		    : p->place == DP_RPN_OFFSET ? DP_LOC_FILE_OFFSET
						: DP_LOC_ADDRESS;
	if (!s->kernel || p->place != DP_RPN_OFFSET || uprobe)
		return 0;
	if (u->modtype == DP_RPN_KMOD)
		return dp_fail(err, E_KERNEL_PLACE, "an offset in %.150s", u->name);
	r = tracee_symbol(s, "_text", &start, err); /* the kernel's start */
	loc->kind = DP_LOC_ADDRESS;
	loc->address = start + (u64)p->offset;
	return r;
}

int drv_add_probe(struct tracee *s, const struct drv_slot *slot, u32 index, struct dp_error *err)
{
	const struct dp_rpn_probe *p = &slot->m->unit.probes[index];
	struct dp_session_program sp = {.is_return = p->at_return,
					.opcode = -1,
					.prog = &p->prog,
					.locals = slot->locals,
					.globals = 0,
					.gate = slot->gates + index,
					.log_on_fault = p->logonfault,
					.jit = slot->m->flags & DP_DRIVER_JIT_ON	? DP_JIT_ON
					       : slot->m->flags & DP_DRIVER_JIT_OFF ? DP_JIT_OFF
										    : DP_JIT_AUTO};
	struct dp_program copy = p->prog;
	int r;

	if (p->has_opcode && !(slot->m->flags & DP_DRIVER_NO_OPCODES))
		sp.opcode = p->opcode;
	r = find_place(s, &slot->m->unit, p, &sp, err);
	if (r)
		return r;
	copy.code = malloc(p->prog.len);
	if (!copy.code)
		return dp_fail(err, E_RPN_MEMORY, "probe");
	memcpy(copy.code, p->prog.code, p->prog.len);
	sp.prog = &copy;
	r = relocate(s, &slot->m->unit, p, copy.code, err);
	if (!r)
		r = tracee_add_program(s, &sp, err);
	free(copy.code);
	return r;
}

/* The build-id of what the unit's probes would be set in; 1: it cannot be told. */
static int find_build(struct tracee *s, const struct dp_rpn_unit *u, char *id, size_t size, struct dp_error *err)
{
	struct dp_module *mod;
	struct dp_image *im;
	int r;

	if (s->kernel && u->modtype != DP_RPN_USER)
		return !dp_kernel_build_id(u->modtype == DP_RPN_KMOD ? u->name : NULL, id, size);
	if (s->kernel) {
		r = dp_module_open(&mod, u->name, err);
		if (r)
			return r;
		snprintf(id, size, "%s", dp_module_build_id(mod));
		dp_module_close(mod);
		return 0;
	}
	im = dp_process_image(dp_session_process(s->process), u->name, err);
	if (!im)
		return -ENOENT;
	snprintf(id, size, "%s", dp_module_build_id(im->mod));
	return 0;
}

int drv_check_build(struct tracee *s, const struct dp_rpn_unit *u, struct dp_error *err)
{
	char id[DP_RPN_BUILD_ID_MAX];
	int r;

	if (!u->build_id[0])
		return 0;
	r = find_build(s, u, id, sizeof(id), err);
	if (r)
		return r < 0 ? r : 0;
	return !strcmp(id, u->build_id)
		   ? 0
		   : dp_fail(err, E_RPN_BUILD, "%.80s has %.40s, the object is for %.40s", u->name, id, u->build_id);
}
