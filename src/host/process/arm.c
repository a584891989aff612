/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From planned probes to a probed process: map, fill in, publish, let go. Whatever fails, the
 * target ends as it was. The order is such that a successor finds all it needs in the target at any moment at which
 * a byte of code may differ from the file.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/arm-priv.h"
#include "host/process/owners.h"
#include "host/process/same-site.h"
#include "log/reader.h"

#define PAGE 4096ull
#define MiB (1024 * 1024ull)
#define REGION_MARGIN (16 * MiB) /* between it and its neighbours */
#define LOWEST (1ull << 32)      /* of the region: what is below is for code that is near */

static u32 count_threads(pid_t pid)
{
	char n[16] = "1";

	dp_status_field(pid, pid, "Threads", n, sizeof(n));
	return (u32)atoi(n);
}

static u32 power_of_two(u32 n)
{
	u32 p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* That there may be while the machine runs: a file says so. */
static u32 processors(void)
{
	static u32 n;

	if (!n)
		n = (u32)sysconf(_SC_NPROCESSORS_CONF);
	return n;
}

static void make_layout(struct dp_session *s, struct layout *l)
{
	u64 code = dp_control_programs(s);
	u32 n = s->nspots;
	bool pages = dp_pages_any(s);

	s->changes.probes = s->opt.grows ? power_of_two(DP_MAX(1024u, 4 * s->nprobes)) : s->nprobes;
	s->changes.words = s->opt.grows ? power_of_two(DP_MAX(32768u, 8 * s->nwords)) : s->nwords;
	code += s->watch.n * (sizeof(struct dp_probe_rt) + sizeof(struct dp_watch_rt)) + 64;
	code += pages ? DP_PAGES_RANGES * sizeof(struct dp_range) : 0;
	l->ncpus = processors();
	l->ring_size = s->opt.ring_size ? s->opt.ring_size : l->ncpus <= 8 ? 4 * MiB : MiB;
	l->nslots = s->opt.nslots ? power_of_two(s->opt.nslots)
				  : power_of_two(DP_MIN(DP_MAX(64u, count_threads(s->pid) * 4), 4096u));
	l->control_size = sizeof(struct dp_control) + code + n * sizeof(struct dp_probe_rt) + dp_control_tables(n) +
			  dp_unwind_size(&s->unwind);
	l->table = DP_ALIGN_UP(dp_blob_size, PAGE);
	l->tids = l->table + PAGE;
	l->loads = l->tids + DP_ALIGN_UP((l->nslots + 1) * 4ull, PAGE);
	l->cells = l->loads + DP_ALIGN_UP(dp_stretches_loads(s, l->nslots), PAGE);
	l->stretches = l->cells + DP_ALIGN_UP(s->watch.ngroups * 8ull + 8, PAGE);
	l->copies = l->stretches + DP_ALIGN_UP(dp_stretches_room(s), PAGE);
	l->shadows = l->copies + (pages ? DP_ALIGN_UP(sizeof(struct dp_copies), PAGE) : 0);
	l->slots = l->shadows + DP_ALIGN_UP(dp_pages_shadows(s), PAGE);
	l->control = l->slots + (u64)l->nslots * DP_HIT_SLOT_SIZE;
	l->late = DP_ALIGN_UP(l->control + l->control_size, PAGE);
	s->changes.off = DP_ALIGN_UP(l->late + dp_extend_room(s), PAGE);
	l->jit = DP_ALIGN_UP(s->changes.off + dp_changes_room(s, l->control_size), PAGE);
	s->changes.jit_used = dp_compile_lay_out(s, s->spots, s->nspots);
	l->jit_end = l->jit + dp_changes_jit(s, s->changes.jit_used);
	l->copy_code = DP_ALIGN_UP(l->jit_end, PAGE);
	l->rings = l->copy_code + (pages ? DP_COPIES * DP_COPY_CODE : 0);
	s->words_off = DP_ALIGN_UP(dp_rings_size(l->ncpus, l->ncpus * 2, s->changes.probes, l->ring_size), PAGE);
	s->apart = (struct dp_apart){dp_apart_stride(s->changes.words), s->changes.words ? l->ncpus : 0};
	s->calls.asks_off = s->words_off + (l->ncpus + 1) * s->apart.stride;
	l->rings_end = l->end = DP_ALIGN_UP(l->rings + s->calls.asks_off + (s->calls.any ? sizeof(struct dp_asks) : 0),
					    PAGE);
	s->globals_off = s->opt.share_globals ? l->rings_end : 0;
	if (s->opt.share_globals || s->opt.grows)
		l->end += PAGE;
}

/* Anywhere: whoever knows where the program's other mappings are must not know where this one is. */
static u64 choose_region(const struct dp_space *space, u64 size)
{
	u64 room = 0, at;

	for (u32 pass = 0; pass < 2; pass++) {
		if (pass && (!room || getrandom(&at, sizeof(at), 0) != sizeof(at)))
			return 0;
		at = pass ? at % room : 0;
		for (u32 i = 1; i < space->nbusy; i++) {
			u64 lo = DP_MAX(space->busy[i - 1].hi, LOWEST), hi = space->busy[i].lo, free;

			if (hi < lo || hi - lo < size + 2 * REGION_MARGIN)
				continue;
			free = (hi - lo - size - 2 * REGION_MARGIN) / PAGE + 1;
			if (pass && at < free)
				return lo + REGION_MARGIN + at * PAGE;
			at -= pass ? free : 0;
			room += pass ? 0 : free;
		}
	}
	return 0;
}

static int make_plan(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 begin = dp_now_ns();

	dp_plan_free(&s->plan);
	make_layout(s, &a->lay);
	if (dp_arm_mark_busy(&s->plan.space, &a->now, &s->proc))
		return dp_fail(err, E_ARM_NOMEM, "plan");
	s->region = choose_region(&s->plan.space, a->lay.end);
	if (!s->region)
		return dp_fail(err, E_TARGET_CALL, "no %llu MiB of free address space",
			       (unsigned long long)(a->lay.end / MiB));
	s->control = s->region + a->lay.control;
	s->rings_off = a->lay.rings;
	s->slots_off = a->lay.slots;
	s->tids_off = a->lay.tids;
	s->watch.cells_off = a->lay.cells;
	s->pages.shadows_off = a->lay.shadows;
	s->pages.copies_off = a->lay.copies;
	s->late.off = a->lay.late;
	s->stretches.off = a->lay.stretches;
	s->stretches.loads_off = a->lay.loads;
	s->nslots = a->lay.nslots;
	dp_compile_place(s, s->spots, s->nspots, s->region + a->lay.jit);
	dp_space_busy(&s->plan.space, s->region, s->region + a->lay.end);
	dp_arm_entries(a);
	/* Who comes back to an instruction for a debugger would come to the hits of others, too. */
	if ((dp_maps_may_have_owners(&a->now) &&
	     dp_others_avoid(&s->plan, s->pid, s->region, NULL, s->stops ? NULL : &a->mem, err)) ||
	    (s->opt.skip_refused && dp_foreign_avoid(&s->plan, s->spots, s->nspots, &a->mem, err)))
		return -dp_error_info(E_ARM_NOMEM)->number;
	/* Of code that is mapped twice they come in turn. Without memory the plan sorts them. */
	DP_SORT_BY(s->spots, s->nspots, addr);
	if (dp_plan_build(&s->plan, s->spots, s->nspots, a->entries, s->opt.allow_trap))
		return dp_fail(err, E_ARM_NOMEM, "plan");
	dp_arm_name_files(&s->plan, &s->proc, s->spots, s->nspots);
	if (dp_others_replaced(&s->plan, &a->old, err))
		return -dp_error_info(E_ARM_NOMEM)->number;
	for (u32 i = 0; i < s->plan.npatches; i++)
		s->plan.patches[i].patch.single = s->stops;
	s->stats.plan_ns = dp_now_ns() - begin;
	return 0;
}

/* The copy of the blob, and its head last, by which it is known: when it is whole. */
static int write_blob(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u8 *blob = malloc(dp_blob_size);
	struct dp_blob_head *head = (struct dp_blob_head *)blob;
	int r;

	if (!blob)
		return dp_fail(err, E_ARM_NOMEM, "blob");
	memcpy(blob, dp_blob, dp_blob_size);
	head->ctl = s->control;
	head->slots = s->region + a->lay.slots;
	head->mask = a->lay.nslots - 1;
	head->thread_by = a->ctl->caps & DP_CAP_RDFSBASE ? 0 : a->ctl->caps & DP_CAP_FS_WORD ? 1 : 2;
	r = dp_mem_write(&a->mem, s->region + sizeof(*head), blob + sizeof(*head), dp_blob_size - sizeof(*head), err);
	if (!r)
		r = dp_mem_write(&a->mem, s->region, head, sizeof(*head), err);
	if (!r)
		dp_remote_serve(&a->remote, s->region, head, head->slots, a->lay.nslots, true);
	free(blob);
	return r;
}

/*
 * Behind the next calls, where the program does nothing but wait for us: nothing of it can come between. Else at once:
 * each step may be the last one of ours, and is to leave what others find their way in.
 */
static int make(struct arming *a, struct dp_call *v, u32 n, struct dp_error *err)
{
	dp_remote_later(&a->remote, v, n);
	return a->waits ? 0 : dp_remote_calls(&a->remote, NULL, 0, err);
}

/*
 * The main mapping: everything read and execute only at first, filled from outside, then opened where needed; the table
 * of the calls first, since a thread that makes them writes there.
 */
static int map_region(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 args[6] = {s->region,
		       a->lay.rings,
		       PROT_READ | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		       (u64)-1,
		       0};
	u64 open_table[6] = {s->region + a->lay.table, PAGE, PROT_READ | PROT_WRITE};
	struct dp_call calls[] = {
	    /* the last two may fail: the defaults do */
	    {SYS_mprotect, {s->region + a->lay.tids, a->lay.control - a->lay.tids, PROT_READ | PROT_WRITE}, 0},
	    {SYS_mprotect, {s->control, a->lay.jit - a->lay.control, PROT_READ}, 0},
	    {SYS_madvise, {s->region + a->lay.tids, a->lay.cells - a->lay.tids, 18 /* MADV_WIPEONFORK */}, 0},
	    {SYS_madvise, {s->region + a->lay.slots, a->lay.control - a->lay.slots, 15 /* MADV_NOHUGEPAGE */}, 0},
	};
	int r = dp_remote_stub(&a->remote, SYS_mmap, args, err);

	if (r)
		return r;
	/* The control block first: from then on a successor can clean up. */
	r = dp_mem_write(&a->mem, s->control, a->ctl, sizeof(*a->ctl), err);
	if (!r)
		r = write_blob(a, err);
	a->mapped = !r;
	if (!r)
		r = dp_remote_stub(&a->remote, SYS_mprotect, open_table, err);
	_Static_assert(sizeof(calls) == sizeof(a->opening), "all of them");
	memcpy(a->opening, calls, sizeof(calls));
	return r ? r : make(a, a->opening, DP_ARRAY_SIZE(calls), err);
}

/* The process has mapped what we have. */
static int check_rings(struct arming *a, struct dp_error *err)
{
	int r = a->remote.nlater ? dp_remote_calls(&a->remote, NULL, 0, err) : 0;

	if (!r && a->waits)
		r = dp_share_made(&a->sharing[0], err);
	if (!r && !dp_is_shared_at(a->s->pid, a->rings_fd, a->s->region + a->lay.rings))
		r = dp_fail(err, E_TARGET_SHARE, "process %d maps something else", (int)a->s->pid);
	return r;
}

/* What map_region() and others have left to the calls that were made since. */
static int check_opened(struct arming *a, struct dp_error *err)
{
	int r = dp_arm_made(a->opening, 2, "opening the main mapping", err);

	a->wiped = !r && !a->opening[2].ret;
	if (!r && a->place.nr)
		r = dp_arm_made(&a->place, 1, "mapping the place of global variables", err);
	/* After the page is wiped in children: it says whose it is. */
	return r ? r : dp_mem_write(&a->mem, a->ctl->tids + a->ctl->nslots * 4ull, &a->ctl->pid, 4, err);
}

/* The place of the page of global variables, should they come later. */
static int keep_place(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;

	if (a->lay.end != a->lay.rings_end && !s->globals_off) {
		a->place = (struct dp_call){SYS_mmap,
					    {s->region + a->lay.rings_end, PAGE, PROT_NONE,
					     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, (u64)-1, 0},
					    0};
		return make(a, &a->place, 1, err);
	}
	return 0;
}

/* The areas, with the next calls where they are few, and what is written there. */
static int map_areas(struct arming *a, struct dp_error *err)
{
	if (!a->waits || a->remote.nlater + a->nareas > DP_REMOTE_LATER)
		return dp_arm_map_areas(a, err);
	a->mapping = dp_arm_area_calls(a);
	return a->mapping ? make(a, a->mapping, a->nareas, err) : dp_fail(err, E_ARM_NOMEM, "areas");
}

static int check_areas(struct arming *a, struct dp_error *err)
{
	int r = a->mapping ? dp_arm_made(a->mapping, a->nareas, "mapping the detours", err) : 0;

	return r || !a->mapping ? r : dp_arm_write_detours(a, err);
}

/* The rings' file in both; the result is our descriptor of it. */
static int share_rings(struct arming *a, u64 addr, u64 size, struct dp_error *err)
{
	int fd = dp_memory_file(size, err), r;

	if (fd < 0)
		return fd;
	r = dp_share_file(&a->remote, a->s->pidfd, fd, false, addr, size, false, a->waits ? a->sharing : NULL, err);
	if (r) {
		close(fd);
		fd = r == -dp_error_info(E_TARGET_SHARE)->number
			 ? dp_share_theirs(&a->remote, addr, size, a->waits ? a->sharing : NULL, err)
			 : -1;
	}
	return fd;
}

static int map_rings(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 addr = s->region + a->lay.rings, size = a->lay.rings_end - a->lay.rings;
	int fd = share_rings(a, addr, size, err), r;
	const struct dp_rings *g = &s->rings.g;

	if (fd < 0)
		return -EIO;
	a->rings_fd = fd;
	r = a->waits ? 0 : check_rings(a, err);
	if (!r)
		r = dp_session_map_rings(s, fd, addr, size, err);
	if (r)
		return r;
	if (!dp_ring_map_lay_out(&s->rings, a->lay.ncpus, a->lay.ncpus * 2, s->changes.probes, a->lay.ring_size))
		return dp_fail(err, E_TARGET_CALL, "the log rings: %u of %llu bytes", a->lay.ncpus * 2,
			       (unsigned long long)a->lay.ring_size);
	*s->rings.at = *g;
	s->rings.at->owner_pid = (u32)getpid();
	for (u32 i = 0; i < s->nwords; i++)
		if (s->words[i]) /* of the file only pages that are written take memory */
			((u64 *)((u8 *)s->rings.at + s->words_off))[i] = s->words[i];
	a->ctl->rings = addr;
	a->ctl->rings_hi = addr + size;
	a->ctl->ring0 = addr + g->rings_off;
	a->ctl->ring_stride = g->ring_stride;
	a->ctl->ring_size = g->ring_size;
	a->ctl->counts = addr + g->counts_off;
	a->ctl->counts_stride = g->counts_stride;
	a->ctl->apart = s->apart.stride;
	a->ctl->asks = s->calls.any ? addr + s->calls.asks_off : 0;
	a->ctl->ncpus = g->ncpus;
	a->ctl->nrings = g->nrings;
	return 0;
}

static int map_globals(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 at = s->region + a->lay.rings_end;
	int r;

	if (!s->globals_off)
		return 0;
	r = dp_share_file(&a->remote, s->pidfd, s->opt.globals_fd, true, at, PAGE, false, NULL, err);
	s->changes.has_globals = !r;
	return r;
}

static int fill_region(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r = dp_caps_find(&a->caps, &a->tracer, &a->mem, err);

	if (r)
		return r;
	a->waits = a->tracer.n == 1 && dp_parked_held(s->pid);
	a->ctl->caps = a->caps.caps;
	a->ctl->rseq_off = a->caps.rseq_off;
	a->ctl->tid_off = a->caps.tid_off;
	a->ctl->stack_off = a->caps.stack_off;
	dp_arm_set_clock(a);
	r = dp_parts_step(a, DP_PART_PREPARE, err);
	if (!r)
		r = map_region(a, err);
	if (!r)
		r = keep_place(a, err);
	if (!r && a->waits)
		dp_arm_ask_signals(a);
	else if (!r)
		r = check_opened(a, err);
	if (!r)
		r = map_rings(a, err);
	if (!r && a->waits)
		r = check_opened(a, err);
	if (!r)
		r = map_globals(a, err);
	/* All tables, before there is anything that a successor or the first signal looks up in them. */
	if (!r) {
		s->block.ctl = *a->ctl;
		dp_record_renew(s);
	}
	if (!r)
		r = dp_mem_write(&a->mem, s->control, a->ctl, a->ctl->size, err);
	if (!r)
		r = map_areas(a, err);
	if (!r)
		r = dp_compile_write(a, s->spots, s->nspots, &s->plan,
				     (struct dp_range){a->ctl->jit_lo, a->ctl->jit_lo + s->changes.jit_used}, err);
	if (!r)
		r = dp_arm_take_signal(a, SIGTRAP, a->ctl->old_trap, err);
	if (!r && a->ctl->segv_taken)
		r = dp_arm_take_signal(a, SIGSEGV, a->ctl->old_segv, err);
	if (!r && a->waits)
		r = check_rings(a, err);
	if (!r)
		r = check_areas(a, err);
	return r ? r : dp_parts_step(a, DP_PART_FILL, err);
}

static void collect_stats(struct arming *a)
{
	struct dp_session_stats *st = &a->s->stats;

	st->longest_stop_ns = DP_MAX(st->longest_stop_ns, a->tracer.longest_stop_ns);
	st->stops += a->tracer.stops;
	st->rescued += a->tracer.rescued;
	st->mapped_bytes = a->lay.end;
	st->resident_bytes = DP_ALIGN_UP(dp_blob_size, PAGE) + (a->ctl ? DP_ALIGN_UP(a->ctl->size, PAGE) : 0);
	for (u32 i = 0; i < a->nareas; i++)
		st->mapped_bytes += a->areas[i].hi - a->areas[i].lo;
	st->resident_bytes += DP_ALIGN_UP(a->s->plan.code_len, PAGE);
}

/* What is about to stand in the process, in a place where it cannot be changed by the process: a->ctl is that. */
static int remember(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r;

	dp_block_free(&s->block);
	r = dp_block_take_image(&s->block, a->ctl, (const struct dp_blob_head *)dp_blob, err);
	if (r) {
		a->ctl = NULL;
		return r;
	}
	if (!s->opt.grows && !dp_pages_any(s)) { /* the plan's are for those who change it later */
		dp_free(s->plan.homes);
		s->plan.homes = NULL;
		s->plan.nhomes = 0;
	}
	dp_record_write(s);
	return 0;
}

static bool all_guarded(const struct dp_session *s)
{
	for (u32 i = 0; i < s->nspots; i++)
		if (s->spots[i].owner >= DP_GUARD_OWNER && s->spots[i].outcome != DP_OUTCOME_JUMP)
			return false;
	return true;
}

/* What cannot be guarded costs nobody his probes: hits read memory by system calls then. */
static int plan_and_settle(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r = make_plan(a, err);

	if (!r)
		r = dp_arm_settle(s, s->spots, s->nspots, err);
	if (r || all_guarded(s))
		return r;
	dp_stretches_give_up(s, "a call of the program's cannot be probed");
	r = make_plan(a, err);
	return r ? r : dp_arm_settle(s, s->spots, s->nspots, err);
}

int dp_arm(struct dp_session *s, struct dp_error *err)
{
	struct arming a = {.s = s, .plan = &s->plan, .mem = {s->pid, -1}, .rings_fd = -1};
	struct dp_withdrawn wd = {.kept_bytes = 0};
	u64 begin = dp_now_ns(), attached;
	int r = dp_maps_read(&a.now, s->pid, err);

	dp_look_at_way();
	dp_record_keep_open(s, true); /* it is written to at each step */
	if (!r)
		r = dp_unwind_build(s, err);
	if (!r)
		r = dp_session_exits(s, &s->exits, err);
	if (!r)
		r = dp_mem_open(&a.mem, s->pid, err);
	if (!r)
		r = dp_stretches_guard(s, err);
	if (s->nspots >= DP_MANY_PATCHES) /* names were looked through; from here on code is looked at */
		dp_process_rest(&s->proc, true);
	if (!r)
		r = plan_and_settle(&a, err);
	if (s->plan.npatches >= DP_MANY_PATCHES)
		dp_process_rest(&s->proc, false);
	if (!r)
		r = dp_build_control(&a, err);
	if (!r)
		r = remember(&a, err);
	if (!r)
		r = dp_arm_check_bytes(&a, err);
	if (s->plan.npatches >= DP_MANY_PATCHES)
		dp_process_rest(&s->proc, false);
	dp_look_at_way();
	if (!r)
		r = dp_tracer_attach(&a.tracer, s->pid, err);
	attached = dp_now_ns();
	if (!r)
		r = dp_remote_init(&a.remote, &a.tracer, &a.mem, &a.now, err);
	if (!r)
		r = dp_remote_unmap_left(&a.remote, err);
	if (!r && a.remote.nslots >= DP_OWNERS_MAX)
		r = dp_fail(err, E_TARGET_BUSY, "%u dprobes have probes in process %d", a.remote.nslots, (int)s->pid);
	if (!r)
		r = fill_region(&a, err);
	if (!r)
		r = dp_arm_publish(&a, err);
	if (!r)
		r = dp_remote_retire(&a.remote, err); /* nobody is sent to make calls any more */
	if (!r)
		r = dp_parts_step(&a, DP_PART_BEGIN, err);
	if (!r) {
		r = dp_arm_last_round(&a, dp_parts_thread, err);
		if (!r)
			r = dp_parts_step(&a, DP_PART_READY, err);
		dp_arm_finish_children(&a);
		s->armed = !r;
		dp_compile_forget(s);
	}
	if (r)
		dp_parts_end(s);
	dp_remote_end(&a.remote);
	collect_stats(&a);
	dp_tracer_detach(&a.tracer);
	s->stats.attach_ns = attached - begin;
	s->stats.arm_ns = dp_now_ns() - attached;
	if (r && a.mapped) /* the bytes are back already: take the mappings away too */
		dp_withdraw_process(s->pid, &s->block, s->control, true, &wd, NULL);
	if (r)
		dp_record_end(s, !wd.kept_bytes);
	dp_record_keep_open(s, false);
	dp_mem_close(&a.mem);
	dp_maps_free(&a.now);
	free(a.old.v);
	if (a.rings_fd >= 0)
		close(a.rings_fd);
	free(a.mapping);
	free(a.areas);
	return r;
}
