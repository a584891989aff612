/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From planned probes to a probed process: map, fill in, publish, let go. Whatever fails, the
 * target ends as it was. The order is such that a successor finds all it needs in the target at any moment at which
 * a byte of code may differ from the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/arm-priv.h"
#include "host/process/owners.h"
#include "host/process/publish-host.h"
#include "log/clock.h"
#include "log/reader.h"
#include "program/code.h"

#define PAGE 4096ull
#define LOOKS 8 /* at a module that may come and go, 1 ms apart, before a difference is believed */
#define MiB (1024 * 1024ull)
#define HEAP_MARGIN (512 * MiB) /* room that the heap may grow into */
#define STACK_MARGIN (256 * MiB)
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

static void make_layout(struct dp_session *s, struct layout *l)
{
	u64 code = 0;
	u32 n = s->nspots;
	bool pages = dp_pages_any(s);

	for (u32 i = 0; i < s->nprobes; i++)
		code += s->probes[i].event ? DP_ALIGN_UP(s->probes[i].event->prog.len, 16) + 16 : 0;
	s->changes.probes = s->opt.grows ? power_of_two(DP_MAX(256u, 2 * s->nprobes)) : s->nprobes;
	s->changes.words = s->opt.grows ? power_of_two(DP_MAX(8192u, 4 * s->nwords)) : s->nwords;
	code += s->watch.n * (sizeof(struct dp_probe_rt) + sizeof(struct dp_watch_rt)) + 64;
	code += pages ? DP_PAGES_RANGES * sizeof(struct dp_range) : 0;
	l->ncpus = (u32)sysconf(_SC_NPROCESSORS_CONF);
	l->ring_size = s->opt.ring_size ? s->opt.ring_size : l->ncpus <= 8 ? 4 * MiB : MiB;
	l->nslots = s->opt.nslots ? power_of_two(s->opt.nslots)
				  : power_of_two(DP_MIN(DP_MAX(64u, count_threads(s->pid) * 4), 4096u));
	l->control_size = sizeof(struct dp_control) + code + n * sizeof(struct dp_probe_rt) + dp_control_tables(n) +
			  dp_unwind_size(&s->unwind);
	l->table = DP_ALIGN_UP(dp_blob_size, PAGE);
	l->tids = l->table + PAGE;
	l->cells = l->tids + DP_ALIGN_UP((l->nslots + 1) * 4ull, PAGE);
	l->copies = l->cells + DP_ALIGN_UP(s->watch.ngroups * 8ull + 8, PAGE);
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
	s->calls.asks_off = DP_ALIGN_UP(s->words_off + s->changes.words * 8ull, 64);
	l->rings_end = l->end = DP_ALIGN_UP(l->rings + s->calls.asks_off + (s->calls.any ? sizeof(struct dp_asks) : 0),
					    PAGE);
	s->globals_off = s->opt.share_globals ? l->rings_end : 0;
	if (s->opt.share_globals)
		l->end += PAGE;
}

/* Everything that is in use or that the program may grow into. */
int dp_arm_mark_busy(struct dp_space *space, const struct dp_maps *maps, const struct dp_process *proc)
{
	int r = dp_space_busy(space, 0, 65536);
	u64 exe_hi = 0;

	for (size_t i = 0; i < proc->nimages; i++)
		if (proc->images[i].is_exe)
			exe_hi = proc->images[i].hi;
	for (size_t i = 0; i < maps->n && !r; i++) {
		const struct dp_map *m = &maps->v[i];
		u64 lo = m->lo, hi = m->hi;

		if (!strcmp(m->path, "[heap]") || m->hi == exe_hi)
			hi += HEAP_MARGIN;
		if (!strcmp(m->path, "[stack]"))
			lo -= STACK_MARGIN;
		if (lo < 1ull << 47)
			r = dp_space_busy(space, lo, hi);
	}
	return r ? r : dp_space_busy(space, (1ull << 47) - PAGE, ~0ull);
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

void dp_arm_entries(struct arming *a)
{
	const struct dp_blob_head *head = (const struct dp_blob_head *)dp_blob;
	u64 region = a->s->region;

	a->entries[DP_ENTRY_PLAIN] = region + head->entry_plain;
	a->entries[DP_ENTRY_FLAGS] = region + head->entry_flags;
	a->entries[DP_ENTRY_ZONE] = region + head->entry_zone;
	a->entries[DP_ENTRY_ZONE_FLAGS] = region + head->entry_zone_flags;
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
	s->nslots = a->lay.nslots;
	dp_compile_place(s, s->spots, s->nspots, s->region + a->lay.jit);
	dp_space_busy(&s->plan.space, s->region, s->region + a->lay.end);
	dp_arm_entries(a);
	if (dp_owners_avoid(&s->plan, s->pid, s->region, err) ||
	    (s->opt.skip_refused && dp_foreign_avoid(&s->plan, s->spots, s->nspots, &a->mem, err)))
		return -dp_error_info(E_ARM_NOMEM)->number;
	if (dp_plan_build(&s->plan, s->spots, s->nspots, a->entries, s->opt.allow_trap))
		return dp_fail(err, E_ARM_NOMEM, "plan");
	dp_arm_name_files(&s->plan, &s->proc);
	s->stats.plan_ns = dp_now_ns() - begin;
	return 0;
}

/* Whether the others may do without it. What is armed already is not left out. */
static bool is_optional(const struct dp_session *s, const struct dp_probe *p)
{
	return (p->from_pattern || s->opt.skip_refused) && (!s->armed || p->fresh);
}

/* Those of patterns are many: they are counted. */
static void tell_dropped(struct dp_session *s)
{
	const struct dp_probe *last = NULL;
	u32 dropped = 0, all = 0;

	for (u32 i = 0; i < s->nprobes; i++) {
		const struct dp_probe *p = &s->probes[i];

		all += p->from_pattern;
		if (p->dropped && p->from_pattern) {
			dropped++;
			last = p;
		} else if (p->dropped) {
			dp_session_say(s, "left out in process %d: %s:%s+0x%llx: %s: %s", (int)s->pid, p->module,
				       p->symbol, (unsigned long long)p->offset, dp_error_info(p->why)->name,
				       p->reason);
		}
	}
	if (last)
		dp_session_say(s, "%u of %u functions left out (the last one: %s: %s)", dropped, all,
			       dp_error_info(last->why)->name, last->reason);
}

/* A spot that could not be planned takes its probe with it; where the others cannot do without it, it is an error. */
int dp_arm_settle(struct dp_session *s, const struct dp_spot *spots, u32 n, struct dp_error *err)
{
	u32 left = 0;

	for (u32 i = 0; i < s->nprobes; i++)
		if (!s->armed || s->probes[i].fresh)
			s->probes[i].outcome = DP_OUTCOME_JUMP;
	for (u32 i = 0; i < n; i++) {
		const struct dp_spot *sp = &spots[i];
		struct dp_probe *p = &s->probes[sp->owner];

		if (sp->outcome < p->outcome) {
			p->outcome = sp->outcome;
			p->why = sp->why;
			snprintf(p->reason, sizeof(p->reason), "%s", dp_error_info(sp->why)->sentence);
		}
		if (sp->outcome != DP_OUTCOME_REFUSED)
			continue;
		if (!is_optional(s, p)) {
			int r = dp_fail(err, E_ARM_SITE, "%s:%s+0x%llx (0x%llx): %s: %s", p->module, p->symbol,
					(unsigned long long)p->offset, (unsigned long long)sp->addr,
					dp_error_info(sp->why)->name, dp_error_info(sp->why)->sentence);

			dp_error_hint(err, "%s", dp_error_info(sp->why)->hint);
			return r;
		}
		p->dropped = true;
	}
	if (s->armed)
		return 0;
	for (u32 i = 0; i < s->nprobes; i++)
		left += !s->probes[i].dropped;
	tell_dropped(s);
	return left ? 0 : dp_fail(err, E_ARM_NONE, "process %d", (int)s->pid);
}

/* `push ns`: a line through two moments by both clocks. Taken once, so that it never runs backwards. */
void dp_arm_set_clock(struct arming *a)
{
	static struct dp_clock clock;

	if (!dp_session_uses(a->s, DP_OP_PUSH_NS))
		return;
	if (!clock.n) {
		dp_clock_start(&clock);
		nanosleep(&(struct timespec){0, 20000000}, NULL); /* the longer the line, the straighter */
		dp_clock_mark(&clock);
	}
	a->ctl->clock_tsc = clock.pair[0].tsc;
	a->ctl->clock_ns = clock.pair[0].ns;
	a->ctl->clock_mult = clock.mult;
}

static void hex(char *out, const u8 *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		sprintf(out + 3 * i, "%02x ", v[i]);
	out[3 * n - 1] = '\0';
}

/*
 * Of two modules that take each other's place, the image that was looked at: both may be known, since the maps are not
 * read in one moment.
 */
static const struct dp_image *image_of(const struct dp_process *proc, const struct dp_planned *p)
{
	for (size_t i = 0; i < proc->nimages; i++) {
		const struct dp_image *im = &proc->images[i];
		const struct dp_text *text;

		if (im->bias == p->bias && p->start >= im->lo && p->start < im->hi &&
		    !dp_module_text(im->mod, p->start - im->bias, &text, NULL) && text == p->text)
			return im;
	}
	return NULL;
}

void dp_arm_name_files(struct dp_plan *plan, struct dp_process *proc)
{
	dp_process_find_lasting(proc);
	for (u32 i = 0; i < plan->npatches; i++) {
		const struct dp_image *im = image_of(proc, &plan->patches[i]);

		plan->patches[i].patch.file = im ? dp_image_file(im, plan->patches[i].start) : 0;
	}
}

static bool has_file(const struct dp_maps *maps, const struct dp_planned *p)
{
	return dp_code_file(maps, p->start) == (p->patch.file & ~DP_FILE_STAYS);
}

static int check_patch(struct dp_mem_look *look, const struct dp_patches *old, const struct dp_planned *p,
		       struct dp_error *err)
{
	u32 n = p->patch.len == 1 ? 1 : dp_window_reach(&p->win);
	char is[3 * 8], was[3 * 8];
	const u8 *now = dp_mem_look(look, p->start, n, err);
	u8 want[256];

	if (!now)
		return -EIO;
	memcpy(want, p->text->bytes + (p->win.start - p->text->lo), n);
	dp_patches_overlay(old, p->start, want, n);
	if (!memcmp(now, want, n))
		return 0;
	hex(is, now, DP_MIN(n, 8u));
	hex(was, want, DP_MIN(n, 8u));
	return dp_fail(err, E_SITE_FOREIGN, "at 0x%llx: %s there, %s in the file", (unsigned long long)p->start, is,
		       was);
}

/*
 * The code in memory must be the file's code, with those of our patches that are to go: somebody else's patch cannot be
 * combined with ours. And the file must be
 * the one that was looked at. The program may have unmapped it since, or between two of our looks: then the bytes say
 * nothing about anybody's patch.
 */
int dp_arm_check_bytes(struct arming *a, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = &a->mem};

	for (u32 i = 0; i < a->plan->npatches; i++) {
		const struct dp_planned *p = &a->plan->patches[i];
		bool there = has_file(&a->now, p);
		int r = there ? check_patch(&look, &a->old, p, err) : -EAGAIN;

		for (u32 k = 0; r && there && !(p->patch.file & DP_FILE_STAYS) && k < LOOKS; k++) {
			struct dp_maps maps;

			usleep(1000);
			r = dp_maps_read(&maps, a->s->pid, err);
			if (r)
				return r;
			there = has_file(&maps, p);
			dp_maps_free(&maps);
			look = (struct dp_mem_look){.mem = &a->mem}; /* what was seen before is old */
			r = check_patch(&look, &a->old, p, err);
		}
		if (!there)
			return dp_fail(err, E_ARM_MOVED, "at 0x%llx", (unsigned long long)p->start);
		if (r)
			return r;
	}
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
	if (!r)
		r = dp_arm_calls(a, calls, 2, "opening the main mapping", err);
	if (!r)
		r = dp_remote_calls(&a->remote, calls + 2, 2, err); /* may fail: the defaults do */
	return r;
}

/* The rings' file in both; the result is our descriptor of it. */
static int share_rings(struct arming *a, u64 addr, u64 size, struct dp_error *err)
{
	int fd = dp_memory_file(size, err), r;

	if (fd < 0)
		return fd;
	r = dp_share_file(&a->remote, a->s->pidfd, fd, addr, size, err);
	if (r) {
		close(fd);
		fd = r == -dp_error_info(E_TARGET_SHARE)->number ? dp_share_theirs(&a->remote, addr, size, err) : -1;
	}
	return fd;
}

static int map_rings(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	u64 addr = s->region + a->lay.rings, size = a->lay.rings_end - a->lay.rings;
	int fd = share_rings(a, addr, size, err), r;
	const struct dp_rings *g = &s->rings.g;
	bool there;

	if (fd < 0)
		return -EIO;
	there = dp_is_shared_at(s->pid, fd, addr);
	r = dp_session_map_rings(s, fd, size, err);
	close(fd);
	if (r)
		return r;
	if (!there)
		return dp_fail(err, E_TARGET_SHARE, "process %d maps something else", (int)s->pid);
	if (!dp_ring_map_lay_out(&s->rings, a->lay.ncpus, a->lay.ncpus * 2, s->changes.probes, a->lay.ring_size))
		return dp_fail(err, E_TARGET_CALL, "the log rings: %u of %llu bytes", a->lay.ncpus * 2,
			       (unsigned long long)a->lay.ring_size);
	*s->rings.at = *g;
	s->rings.at->owner_pid = (u32)getpid();
	if (s->nwords)
		memcpy((u8 *)s->rings.at + s->words_off, s->words, s->nwords * 8ull);
	a->ctl->rings = addr;
	a->ctl->rings_hi = addr + size;
	a->ctl->ring0 = addr + g->rings_off;
	a->ctl->ring_stride = g->ring_stride;
	a->ctl->ring_size = g->ring_size;
	a->ctl->counts = addr + g->counts_off;
	a->ctl->counts_stride = g->counts_stride;
	a->ctl->asks = s->calls.any ? addr + s->calls.asks_off : 0;
	a->ctl->ncpus = g->ncpus;
	a->ctl->nrings = g->nrings;
	return 0;
}

int dp_arm_map_areas(struct arming *a, struct dp_error *err)
{
	struct dp_call calls[32];
	int r = 0;

	for (u32 i = 0; i < a->nareas && !r; i += 32) {
		u32 n = DP_MIN(32u, a->nareas - i);

		for (u32 k = 0; k < n; k++)
			calls[k] = (struct dp_call){
			    SYS_mmap,
			    {a->areas[i + k].lo, a->areas[i + k].hi - a->areas[i + k].lo, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, (u64)-1, 0},
			    0};
		r = dp_arm_calls(a, calls, n, "mapping the detours", err);
	}
	return r ? r : dp_arm_write_detours(a, err);
}

static int fill_region(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r = dp_caps_find(&a->caps, &a->tracer, &a->mem, err);

	if (r)
		return r;
	a->ctl->caps = a->caps.caps;
	a->ctl->rseq_off = a->caps.rseq_off;
	a->ctl->tid_off = a->caps.tid_off;
	a->ctl->stack_off = a->caps.stack_off;
	dp_arm_set_clock(a);
	r = dp_parts_step(a, DP_PART_PREPARE, err);
	if (!r)
		r = map_region(a, err);
	if (!r)
		r = dp_mem_write(&a->mem, a->ctl->tids + a->ctl->nslots * 4ull, &a->ctl->pid, 4, err);
	if (!r)
		r = map_rings(a, err);
	if (!r && s->globals_off)
		r = dp_share_file(&a->remote, s->pidfd, s->opt.globals_fd, s->region + s->globals_off, PAGE, err);
	/* All tables, before there is anything that a successor or the first signal looks up in them. */
	if (!r) {
		s->block.ctl = *a->ctl;
		dp_record_write(s);
	}
	if (!r)
		r = dp_mem_write(&a->mem, s->control, a->ctl, a->ctl->size, err);
	if (!r)
		r = dp_arm_map_areas(a, err);
	if (!r)
		r = dp_compile_write(a, s->spots, s->nspots, &s->plan,
				     (struct dp_range){a->ctl->jit_lo, a->ctl->jit_lo + s->changes.jit_used}, err);
	if (!r)
		r = dp_arm_take_signal(a, SIGTRAP, a->ctl->old_trap, err);
	if (!r && a->ctl->segv_taken)
		r = dp_arm_take_signal(a, SIGSEGV, a->ctl->old_segv, err);
	return r ? r : dp_parts_step(a, DP_PART_FILL, err);
}

/*
 * Forked children that were held: their copies of the code may be in any step. Make them complete,
 * unless they were born before the first byte changed: those may lack the detours.
 */
void dp_arm_finish_children(struct arming *a)
{
	struct dp_patch *v = a->tracer.held ? dp_plan_patches(a->plan) : NULL;

	for (u32 i = 0; a->tracer.held && i < a->tracer.n; i++) {
		struct dp_thread *th = &a->tracer.v[i];
		bool begun = false;
		struct dp_mem mem;

		if (!th->foreign || th->gone || th->released)
			continue;
		if (!dp_mem_open(&mem, th->tid, NULL)) {
			begun = dp_block_begun(&mem, a->s->region, a->s->control);
			dp_mem_close(&mem);
		}
		if (begun && v)
			dp_patch_child(th->tid, &a->old, &(struct dp_patches){v, a->plan->npatches});
		dp_tracer_release(&a->tracer, th);
	}
	free(v);
}

/*
 * Each thread is stopped once and moved if it stands on a displaced instruction, then let go. The parts see it while it
 * is stopped: threads that it started before are in our table, those that it starts later inherit what parts set. So
 * each gets it once.
 */
int dp_arm_last_round(struct arming *a, bool parts, struct dp_error *err)
{
	struct dp_tracer *t = &a->tracer;
	struct dp_moves mv = {.map = a->plan->redirects,
			      .nmap = a->plan->nredirects,
			      .slots = a->remote.slots,
			      .nslots = a->remote.nslots};
	int r = 0;

	for (u32 i = 0; i < t->n && !r; i++) {
		struct dp_thread *th = &t->v[i];

		dp_arm_finish_children(a); /* which do not wait for all the others */
		if (th->foreign || !dp_tracer_stop(t, th, 500000000)) {
			/* Stuck in the kernel: the second net stays. */
			if (parts && !t->v[i].foreign && !t->v[i].sharer && !t->v[i].gone && !t->v[i].released)
				r = dp_parts_thread(a->s, t->v[i].tid, err);
			continue;
		}
		dp_move_thread(&t->v[i], &a->mem, &a->now, &mv);
		if (parts && !t->v[i].sharer)
			r = dp_parts_thread(a->s, t->v[i].tid, err);
		if (!r)
			dp_tracer_release(t, &t->v[i]);
	}
	a->s->stats.moved += mv.moved;
	return r;
}

int dp_arm_begin_publish(struct arming *a, const struct dp_redirect *redirects, u32 n, struct dp_error *err)
{
	a->tracer.redirects = redirects;
	a->tracer.nredirects = n;
	dp_tracer_pass_forks(&a->tracer);
	a->tracer.holds = true;
	a->ctl->state = DP_STATE_ARMING;
	return dp_arm_put_control(a, err);
}

int dp_arm_publish(struct arming *a, struct dp_error *err)
{
	const struct dp_plan *plan = a->plan;
	struct dp_publish_host ph;
	struct dp_patch *v = dp_plan_patches(plan);
	int r;

	if (!v)
		return dp_fail(err, E_ARM_NOMEM, "patches");
	dp_publish_host_init(&ph, &a->tracer, &a->mem, &a->remote);
	r = dp_arm_begin_publish(a, plan->redirects, plan->nredirects, err);
	if (!r)
		r = dp_patches_in(&ph, v, plan->npatches, err);
	if (!r)
		r = dp_arm_renew_signals(a, err);
	a->ctl->state = DP_STATE_ARMED;
	if (!r)
		r = dp_arm_put_control(a, err);
	free(v);
	return r;
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

/* What is about to stand in the process, in a place where it cannot be changed by the process. */
static int remember(struct arming *a, struct dp_error *err)
{
	struct dp_session *s = a->s;
	int r;

	dp_block_free(&s->block);
	r = dp_block_of_image(&s->block, a->ctl, a->ctl->size, s->control, (const struct dp_blob_head *)dp_blob, err);
	if (!r)
		dp_record_write(s);
	return r;
}

int dp_arm(struct dp_session *s, struct dp_error *err)
{
	struct arming a = {.s = s, .plan = &s->plan, .mem = {s->pid, -1}};
	struct dp_withdrawn wd = {.kept_bytes = 0};
	u64 begin = dp_now_ns(), attached;
	int r = dp_maps_read(&a.now, s->pid, err);

	if (!r)
		r = dp_unwind_build(s, err);
	if (!r)
		r = dp_mem_open(&a.mem, s->pid, err);
	if (!r)
		r = make_plan(&a, err);
	if (!r)
		r = dp_arm_settle(s, s->spots, s->nspots, err);
	if (!r)
		r = dp_build_control(&a, err);
	if (!r)
		r = remember(&a, err);
	if (!r)
		r = dp_arm_check_bytes(&a, err);
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
		r = dp_arm_last_round(&a, true, err);
		if (!r)
			r = dp_parts_step(&a, DP_PART_READY, err);
		dp_arm_finish_children(&a);
		s->armed = !r;
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
	dp_mem_close(&a.mem);
	dp_maps_free(&a.now);
	free(a.areas);
	free(a.ctl);
	return r;
}
