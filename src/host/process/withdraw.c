/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Taking probes out of a process. All that is needed stands in a control block, so this serves the session that armed
 * them, forked children, and what a killed predecessor left behind. The session and its successors have a copy of their
 * own; where nobody has one, what stands in the process must do, checked: false, it leads to harm in that process
 * alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/owners.h"
#include "host/process/same-site.h"

#define GRACE_NS 20000000000ull
#define STOP_NS 200000000ull /* for one thread to stop */

struct work {
	pid_t pid;
	struct dp_mem mem;
	struct dp_tracer tracer;
	struct dp_remote remote;
	struct dp_maps maps;
	struct dp_control ctl;
	struct dp_blob_head head;
	struct dp_patch *patches; /* those to be taken back */
	u32 npatches;
	struct dp_patches all; /* of one who was killed: that the block has */
	struct dp_same same;   /* where others probe the same instruction */
	struct dp_redirect *redirects, *homes;
	/* And the pieces of code in the main mapping behind them, and those of others that its detours call. */
	struct dp_range *areas;
	struct dp_range users[DP_OWNERS_MAX]; /* code of other sessions, whose handlers may be about to go to ours */
	u32 nusers;
	bool keep;         /* something must stay mapped */
	bool opened;       /* the main mapping got as far as calls through its service loop */
	u64 actions[2][4]; /* of trap_signals, as they were when we came */
	struct dp_withdrawn *out;
};

static void *copy_of(const void *v, u32 n, size_t size)
{
	void *copy = malloc((n + (size_t)1) * size);

	return copy && n ? memcpy(copy, v, n * size) : copy;
}

/* What we know, or else what the process says; of the tables what is taken out by. They are ours to change. */
static int take_block(struct work *w, const struct dp_block *known, u64 ctl_addr, bool crashed, struct dp_error *err)
{
	struct dp_block read = {.points = NULL};
	int r = known ? 0 : dp_block_read(&read, &w->mem, ctl_addr, err);
	const struct dp_block *b = known ? known : &read;
	const struct dp_control *c = &b->ctl;

	w->head = b->head;
	w->ctl = b->ctl;
	if (!r) {
		w->patches = copy_of(b->patches, c->npatches, sizeof(*w->patches));
		w->redirects = copy_of(b->redirects, c->nredirects, sizeof(*w->redirects));
		w->homes = copy_of(b->homes, c->nhomes, sizeof(*w->homes));
		w->all.v = copy_of(b->patches, crashed ? c->npatches : 0, sizeof(*w->all.v));
		w->areas = calloc((size_t)c->nareas + 3 + 2 * DP_OWNERS_MAX, sizeof(*w->areas));
		if (!w->patches || !w->redirects || !w->homes || !w->all.v || !w->areas)
			r = dp_fail(err, E_ARM_NOMEM, "process %d", (int)w->pid);
	}
	if (!r) {
		w->npatches = c->npatches;
		w->all.n = crashed ? c->npatches : 0;
		if (c->nareas)
			memcpy(w->areas, b->areas, c->nareas * sizeof(*w->areas));
	}
	dp_block_free(&read);
	return r;
}

/*
 * Keep the patches that are still in place; the others' modules are gone, or the bytes are not ours. Where others probe
 * the same instruction their patches stay, or come.
 */
static int select_patches(struct work *w, bool crashed, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = &w->mem};
	u32 n = 0;
	int r = dp_same_find(&w->same, &w->mem, &w->maps, w->ctl.region_lo, w->patches, w->npatches, crashed, err);

	if (r)
		return r;
	for (u32 i = 0; i < w->npatches; i++) {
		const struct dp_patch *p = &w->patches[i];
		enum dp_patch_state state;
		u8 now[sizeof(p->orig)];

		if (dp_same_has(&w->same, p->addr))
			continue;
		state = dp_patch_state(&look, &w->maps, p, crashed ? &w->all : NULL);

		if (state == DP_PATCH_OURS) {
			w->patches[n++] = *p;
		} else if (state == DP_PATCH_OTHERS) {
			w->out->skipped++;
			/*
			 * Somebody may write our jump back later: what it leads to must stay. So it must if a detour
			 * stands there that has our hits, and of which nobody's record tells.
			 */
			w->keep |= dp_same_known(&w->same, w->ctl.region_lo, p->addr) ||
				   (!dp_mem_read(&w->mem, p->addr, now, p->len, NULL) &&
				    !memcmp(now + 1, p->jump + 1, p->len - 1u));
		} else {
			w->out->absent++;
		}
	}
	w->npatches = n;
	dp_same_lead(&w->same, w->redirects, w->ctl.nredirects, w->homes, w->ctl.nhomes);
	return 0;
}

/*
 * Forked children that were held since their birth: their copies of the code may be in any step, and the signal action
 * may have been lost just then, so that a breakpoint would kill them. Their only thread comes from the call that made
 * it, and so stands on no byte that changes here.
 */
static void restore_children(void *arg)
{
	struct work *w = arg;

	for (u32 i = 0; w->tracer.held && i < w->tracer.n; i++) {
		struct dp_thread *th = &w->tracer.v[i];

		if (!th->foreign || th->gone || th->released)
			continue;
		dp_patch_child(th->tid, &(struct dp_patches){w->patches, w->npatches}, NULL);
		dp_patch_child(th->tid, &w->same.old, &w->same.now);
		dp_tracer_release(&w->tracer, th);
	}
}

/*
 * The grace period: every thread is seen once outside of everything that is ours. The original
 * bytes are back, so nobody who was outside comes in again.
 */
static bool all_threads_out(struct work *w)
{
	struct dp_moves users = {.avoid = w->users, .navoid = w->nusers, .no_frames = true};
	struct dp_moves mv = {.map = w->homes,
			      .nmap = w->ctl.nhomes,
			      .avoid = w->areas,
			      .navoid = w->ctl.nareas + 3,
			      .slots = w->remote.slots,
			      .nslots = w->remote.nslots};
	bool all;

	/* Whoever comes to our handler that way is there before it is waited for there. */
	if (w->nusers &&
	    !dp_move_all(&w->tracer, &w->mem, &w->maps, &users, GRACE_NS, restore_children, w, &w->out->inside)) {
		w->out->where = users.where;
		return false;
	}
	w->areas[w->ctl.nareas].lo = w->ctl.region_lo;
	w->areas[w->ctl.nareas].hi = w->ctl.region_lo + DP_ALIGN_UP(dp_blob_size, 4096);
	w->areas[w->ctl.nareas + 1] = (struct dp_range){w->ctl.jit_lo, w->ctl.jit_hi};
	w->areas[w->ctl.nareas + 2] = (struct dp_range){w->ctl.copies_lo, w->ctl.copies_hi};
	mv.navoid += dp_same_code(&w->same, w->ctl.region_lo, w->areas + mv.navoid);
	/* Children do not wait for all the others. */
	all = dp_move_all(&w->tracer, &w->mem, &w->maps, &mv, GRACE_NS, restore_children, w, &w->out->inside);
	w->out->where = mv.where;
	w->out->moved += mv.moved;
	return all;
}

static const int trap_signals[2] = {SIGTRAP, SIGSEGV};

/* What is in force now, ours or a later one of the program: it must not get lost while bytes change. */
static void note_actions(struct work *w)
{
	u64 scratch = w->remote.table + 3072;

	for (int i = 0; i < 2; i++) {
		int sig = trap_signals[i];
		struct dp_call ask = {SYS_rt_sigaction, {(u64)sig, 0, scratch, 8, 0, 0}, 0};

		if (!dp_remote_calls(&w->remote, &ask, 1, NULL) && !ask.ret &&
		    !dp_mem_read(&w->mem, scratch, w->actions[i], sizeof(w->actions[i]), NULL) && w->actions[i][0] > 1)
			w->tracer.handled |= SIGNAL_BIT(sig);
	}
}

/* A trap in a thread that blocks the signal makes the kernel reset the action: set it again. */
static void renew_actions(struct work *w)
{
	u64 scratch = w->remote.table + 3072;

	for (int i = 0; i < 2; i++) {
		u64 bit = SIGNAL_BIT(trap_signals[i]);
		struct dp_call put = {SYS_rt_sigaction, {(u64)trap_signals[i], scratch, 0, 8, 0, 0}, 0};

		if (w->tracer.lost & bit &&
		    !dp_mem_write(&w->mem, scratch, w->actions[i], sizeof(w->actions[i]), NULL) &&
		    !dp_remote_calls(&w->remote, &put, 1, NULL))
			w->tracer.lost &= ~bit;
	}
}

/* Put a signal action back when the one in force is ours; a handler that ran once only is the default action by now. */
static int restore_signal(struct work *w, int sig, const u64 old[4], struct dp_error *err)
{
	u64 scratch = w->remote.table + 3072, now[4], reset = 0;
	struct dp_call ask = {SYS_rt_sigaction, {(u64)sig, 0, scratch, 8, 0, 0}, 0};
	struct dp_call put = {SYS_rt_sigaction, {(u64)sig, scratch, 0, 8, 0, 0}, 0};
	int r = dp_remote_calls(&w->remote, &ask, 1, err);

	if (r || ask.ret || dp_mem_read(&w->mem, scratch, now, sizeof(now), NULL))
		return r;
	if (now[0] < w->ctl.region_lo || now[0] >= w->ctl.region_hi)
		return 0;
	/*
	 * A signal of a watchpoint that a thread blocks waits until it does no more: ignoring a signal throws such
	 * away.
	 */
	if (sig == SIGTRAP && w->ctl.nwatches) {
		now[0] = 1;
		r = dp_mem_write(&w->mem, scratch, now, sizeof(now), err);
		if (!r)
			r = dp_remote_calls(&w->remote, &put, 1, err);
	}
	memcpy(now, old, sizeof(now));
	if (!dp_mem_read(&w->mem, w->ctl.signals, &reset, 8, NULL) && reset & SIGNAL_BIT(sig))
		now[0] = 0;
	if (!r)
		r = dp_mem_write(&w->mem, scratch, now, sizeof(now), err);
	return r ? r : dp_remote_calls(&w->remote, &put, 1, err);
}

/*
 * Before the grace period: whoever is seen out then does not come into our handler any more. Nobody needs it: no byte
 * of ours stands in the code.
 */
static int restore_signals(struct work *w, bool crashed, struct dp_error *err)
{
	int r = 0;

	if (!w->opened)
		return 0;
	/*
	 * The original bytes are back, but a thread that has met a breakpoint before may wait for a processor with its
	 * signal pending. It is sent on when it stops: should we be killed, nobody else but our handler would do it.
	 */
	if (w->npatches || w->same.old.n)
		dp_tracer_stop_each(&w->tracer, STOP_NS);
	/* A thread that waits for a processor may not have sent itself the signal of a hit yet. At a stop it does. */
	if (w->ctl.nwatches && !dp_tracer_stop_all(&w->tracer, NULL))
		dp_tracer_resume_all(&w->tracer);
	renew_actions(w);
	if (w->ctl.old_trap[2] != ~0ull)
		r = restore_signal(w, SIGTRAP, w->ctl.old_trap, err);
	if (!r && w->ctl.segv_taken)
		r = restore_signal(w, SIGSEGV, w->ctl.old_segv, err);
	/* Else our handler must stay: another one goes on to it. */
	if (!r)
		w->keep |= !dp_owners_unlink(&w->tracer, &w->mem, &w->maps, &w->ctl, crashed, w->users, &w->nusers);
	return r;
}

/*
 * What is mapped in the areas: ours alone can be read, executed and not written without a file. A predecessor that was
 * killed may not have come to map it, or have unmapped it already, and the program may have taken the place, or
 * another session.
 */
static int unmap_areas(struct work *w, struct dp_error *err)
{
	struct dp_call calls[32];
	u32 n = 0;
	int r = 0;

	for (size_t i = 0; i < w->maps.n; i++) {
		const struct dp_map *m = &w->maps.v[i];

		if (!m->r || !m->x || m->w || m->shared || m->inode)
			continue;
		for (u32 k = 0; k < w->ctl.nareas && !r; k++) {
			u64 lo = DP_MAX(m->lo, w->areas[k].lo), hi = DP_MIN(m->hi, w->areas[k].hi), end;

			for (; lo < hi && !r; lo = end) {
				end = hi;
				if (dp_same_area(&w->same, w->ctl.region_lo, lo, &end))
					continue;
				calls[n++] = (struct dp_call){SYS_munmap, {lo, end - lo}, 0};
				if (n < DP_ARRAY_SIZE(calls))
					continue;
				r = dp_remote_calls(&w->remote, calls, n, err);
				n = 0;
			}
		}
	}
	return r || !n ? r : dp_remote_calls(&w->remote, calls, n, err);
}

/* A predecessor that was killed between making the rings and mapping them left their descriptor open. */
static bool is_rings(const char *path, void *arg)
{
	char link[64];
	ssize_t n = readlink(path, link, sizeof(link) - 1);

	(void)arg;
	link[n > 0 ? n : 0] = '\0';
	return !strncmp(link, "/memfd:dprobes-", 15);
}

/*
 * Descriptors that pagepoints put into the process (pagepoint.c): the view of its pages, by its flags; and the one of
 * marks that a predecessor was killed before it took over, which nobody has used.
 */
static bool is_for_pages(const char *path, void *arg)
{
	char link[64], info[300], line[128], *fd;
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	bool pagemap, marks, ours = false;
	unsigned long long v;
	FILE *f;

	(void)arg;
	link[n > 0 ? n : 0] = '\0';
	pagemap = n > 8 && !strcmp(link + n - 8, "/pagemap");
	marks = !strcmp(link, "anon_inode:[userfaultfd]");
	fd = strstr(path, "/fd/");
	if (!fd || (!pagemap && !marks))
		return false;
	snprintf(info, sizeof(info), "%.*s/fdinfo/%s", (int)(fd - path), path, fd + 4);
	f = fopen(info, "re");
	while (f && fgets(line, sizeof(line), f))
		ours |= pagemap ? sscanf(line, "flags: %llo", &v) == 1 && (v & DP_PAGEMAP_FLAGS) == DP_PAGEMAP_FLAGS
				: sscanf(line, "API: %*x:%llx", &v) == 1 && !v;
	if (f)
		fclose(f);
	return ours;
}

static u64 mapped_bytes(const struct work *w)
{
	u64 sum = w->ctl.region_hi - w->ctl.region_lo;

	for (u32 i = 0; i < w->ctl.nareas; i++)
		sum += w->areas[i].hi - w->areas[i].lo;
	return sum;
}

static int unmap(struct work *w, bool crashed, struct dp_error *err)
{
	u64 region[6] = {w->ctl.region_lo, w->ctl.region_hi - w->ctl.region_lo};
	int r = 0;

	if (!w->opened)
		return dp_remote_stub(&w->remote, SYS_munmap, region, err);
	if (crashed)
		r = dp_remote_close(&w->remote, is_rings, NULL, err);
	if (!r && w->ctl.npages)
		r = dp_remote_close(&w->remote, is_for_pages, NULL, err);
	if (!r)
		r = unmap_areas(w, err);
	if (!r)
		r = dp_remote_leave(&w->remote, err);
	w->remote.service_in &= r != 0; /* it goes with the rest */
	return r ? r : dp_remote_stub(&w->remote, SYS_munmap, region, err);
}

/*
 * The protocol could not be finished (a thread that does not answer, say). The last resort: stop all threads that can
 * be stopped and write the original bytes at once.
 */
static bool restore_stopped(struct work *w, struct dp_publish_host *ph)
{
	struct dp_tracer *t = &w->tracer;
	struct dp_moves mv = {
	    .map = w->redirects, .nmap = w->ctl.nredirects, .slots = w->remote.slots, .nslots = w->remote.nslots};
	bool good = true;

	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i].foreign && !t->v[i].released && !dp_tracer_stop(t, &t->v[i], 2000000000ull))
			good &= t->v[i].gone;
	good &= !dp_patches_restore(ph, w->patches, w->npatches, NULL);
	good &= !dp_patches_put(ph, &w->same.now, NULL);
	/* Whoever stood on a byte of a jump goes on in the detour, which stays mapped. */
	for (u32 i = 0; i < t->n; i++)
		if (!t->v[i].running && !t->v[i].foreign) {
			dp_move_thread(&t->v[i], &w->mem, &w->maps, &mv);
			dp_tracer_resume(t, &t->v[i]);
		}
	return good;
}

static int read_maps(struct work *w, struct dp_error *err)
{
	dp_maps_free(&w->maps);
	return dp_maps_read(&w->maps, w->pid, err);
}

/*
 * What a predecessor that was killed had a thread do last may still be under way: mapping, unmapping. Only when that
 * is through it is known what there is.
 */
static int prepare(struct work *w, const struct dp_block *known, u64 ctl_addr, bool crashed, struct dp_error *err)
{
	const struct dp_map *table;
	u64 magic = 0;
	int r = dp_mem_open(&w->mem, w->pid, err);

	if (!r)
		r = read_maps(w, err);
	/*
	 * From the first moment on: a thread that gets such a signal from us, but does not run at once, looks up its
	 * action when it runs, and that may be the default one by then.
	 */
	if (!r)
		r = known ? 0 : dp_block_region(&w->mem, ctl_addr, &w->tracer.late_watches, err);
	if (known)
		w->tracer.late_watches = known->ctl.region_lo;
	if (!r)
		r = dp_tracer_attach(&w->tracer, w->pid, err);
	if (!r)
		r = dp_remote_init(&w->remote, &w->tracer, &w->mem, &w->maps, err);
	if (!r) /* if it can be: what is to be taken out goes in any case */
		dp_remote_unmap_left(&w->remote, NULL);
	if (!r)
		r = take_block(w, known, ctl_addr, crashed, err);
	if (!r)
		r = dp_mem_read(&w->mem, w->ctl.region_lo, &magic, sizeof(magic), err);
	if (!r && magic != DP_BLOB_MAGIC)
		r = dp_fail(err, E_ARM_EXEC, "process %d carries no probes any more", (int)w->pid);
	if (r)
		return r;
	dp_block_actions(&w->mem, &w->ctl);
	w->tracer.redirects = w->redirects;
	w->tracer.nredirects = w->ctl.nredirects;
	dp_remote_serve(&w->remote, w->ctl.region_lo, &w->head, w->ctl.slots, w->ctl.nslots, false);
	if (crashed)
		r = dp_remote_settle(&w->remote, w->head.service_end - w->head.service, err);
	if (!r)
		r = read_maps(w, err);
	table = dp_maps_at(&w->maps, w->remote.table);
	w->opened = table && table->w;
	if (!r && crashed && w->opened)
		dp_share_clean(&w->remote);
	return r;
}

static void finish(struct work *w)
{
	w->out->longest_stop_ns = w->tracer.longest_stop_ns;
	w->out->stops = w->tracer.stops;
	w->out->rescued = w->tracer.rescued;
	dp_remote_end(&w->remote);
	dp_tracer_detach(&w->tracer);
	dp_mem_close(&w->mem);
	dp_maps_free(&w->maps);
	dp_same_free(&w->same);
	free(w->patches);
	free(w->all.v);
	free(w->redirects);
	free(w->homes);
	free(w->areas);
}

void dp_withdraw_call(pid_t pid)
{
	struct dp_withdrawn out = {.kept_bytes = 0};
	struct work w = {.pid = pid, .out = &out, .mem = {pid, -1}};

	if (!dp_mem_open(&w.mem, pid, NULL) && !read_maps(&w, NULL) && dp_remote_left(&w.maps, &w.mem) &&
	    !dp_tracer_attach(&w.tracer, pid, NULL) && !dp_remote_init(&w.remote, &w.tracer, &w.mem, &w.maps, NULL))
		dp_remote_unmap_left(&w.remote, NULL);
	finish(&w);
}

int dp_withdraw_process(pid_t pid, const struct dp_block *known, u64 ctl_addr, bool crashed, struct dp_withdrawn *out,
			struct dp_error *err)
{
	struct work w = {.pid = pid, .out = out, .mem = {pid, -1}};
	struct dp_publish_host ph;
	int r;

	memset(out, 0, sizeof(*out));
	r = prepare(&w, known, ctl_addr, crashed, err);
	if (r) {
		finish(&w);
		/* A predecessor's last call took everything away. */
		return crashed && !dp_block_there(pid, ctl_addr) ? 0 : r;
	}
	/* While the probes are there: who asks a semaphore that is lowered only then comes to none. */
	if (w.ctl.state != DP_STATE_EMPTY)
		dp_semaphores_lower(&w.mem, &w.maps, dp_control_of(&w.mem, w.ctl.region_lo), w.ctl.semaphores);
	r = select_patches(&w, crashed || w.ctl.state == DP_STATE_ARMING, err);
	if (r) {
		finish(&w);
		return r;
	}
	dp_stretches_close(pid, &w.mem, &w.ctl);
	dp_publish_host_init(&ph, &w.tracer, &w.mem, &w.remote);
	if (w.npatches || w.same.old.n) {
		note_actions(&w);
		dp_tracer_pass_forks(&w.tracer);
		w.tracer.holds = true;
		r = dp_process_frozen(pid) ? dp_fail_frozen(pid, &out->halted)
					   : dp_patches_out(&ph, w.patches, w.npatches, &out->halted);
		if (!r)
			r = dp_patches_hand_over(&ph, &w.same.old, &w.same.now, &out->halted);
		renew_actions(&w);
	}
	if (r && !w.tracer.dead && !w.tracer.execed && restore_stopped(&w, &ph)) {
		w.keep = true;
		r = 0;
	}
	if (r && err)
		*err = out->halted;
	if (!r) {
		out->restored = w.npatches + w.same.n;
		w.keep |= !dp_same_silence(&w.same, &w.ctl, &w.tracer, &w.mem);
		if (!w.keep)
			r = restore_signals(&w, crashed, err);
		dp_tracer_pass_forks(&w.tracer);
		if (w.keep || (!r && !all_threads_out(&w)))
			out->kept_bytes = mapped_bytes(&w);
		else if (!r)
			r = unmap(&w, crashed, err);
	}
	if (w.tracer.dead || w.tracer.execed) {
		r = 0; /* nothing is left in there */
		out->kept_bytes = 0;
	}
	restore_children(&w);
	finish(&w);
	return r;
}
