/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Unwinding by libdwfl. The stack is the copy; other memory of the process is not looked at. */
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/callers.h"

struct dp_callers {
	Dwfl *dwfl;
	pid_t pid;
	const struct dp_moment *at;
	u64 *pcs;
	u32 n, max;
};

/* Unwind tables stand in the files themselves; nothing is fetched for them. */
static int no_debug_file(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base, const char *file,
			 const char *link, GElf_Word crc, char **out)
{
	return -1;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct dp_callers *u = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = u;
	return u->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *out, void *arg)
{
	const struct dp_callers *u = arg;
	u64 at = addr - u->at->sp;

	if (addr < u->at->sp || at > u->at->n || u->at->n - at < 8)
		return false;
	memcpy(out, u->at->stack + at, 8);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	const struct dp_moment *m = ((struct dp_callers *)arg)->at;
	/* By their DWARF numbers: ax dx cx bx si di bp sp r8 .. r15 ip. */
	Dwarf_Word r[17] = {[3] = m->bx, [6] = m->bp, [7] = m->sp, [12] = m->r12, [13] = m->r13, [14] = m->r14,
			    [15] = m->r15, [16] = m->ip};

	return dwfl_thread_state_registers(thread, 0, 17, r);
}

static int take_frame(Dwfl_Frame *frame, void *arg)
{
	struct dp_callers *u = arg;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL) || !pc)
		return DWARF_CB_ABORT;
	u->pcs[u->n++] = pc;
	return u->n < u->max ? DWARF_CB_OK : DWARF_CB_ABORT;
}

struct dp_callers *dp_callers_new(pid_t pid)
{
	static const Dwfl_Callbacks files = {.find_elf = dwfl_linux_proc_find_elf, .find_debuginfo = no_debug_file};
	static const Dwfl_Thread_Callbacks threads = {.next_thread = next_thread,
						      .get_thread = get_thread,
						      .memory_read = read_word,
						      .set_initial_registers = set_registers};
	struct dp_callers *u = calloc(1, sizeof(*u));

	if (!u)
		return NULL;
	u->pid = pid;
	u->dwfl = dwfl_begin(&files);
	if (u->dwfl && !dwfl_linux_proc_report(u->dwfl, pid) && !dwfl_report_end(u->dwfl, NULL, NULL) &&
	    dwfl_attach_state(u->dwfl, NULL, pid, &threads, u))
		return u;
	dp_callers_free(u);
	return NULL;
}

void dp_callers_free(struct dp_callers *u)
{
	if (!u)
		return;
	dwfl_end(u->dwfl);
	free(u);
}

u32 dp_callers_find(struct dp_callers *u, const struct dp_moment *m, u64 *pcs, u32 max)
{
	u64 all[65];

	u->at = m;
	u->pcs = all;
	u->n = 0;
	u->max = DP_MIN(max + 1, 65u);
	dwfl_getthread_frames(u->dwfl, u->pid, take_frame, u);
	if (u->n < 2)
		return 0;
	memcpy(pcs, all + 1, (u->n - 1) * sizeof(*pcs));
	return u->n - 1;
}
