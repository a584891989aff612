/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See untrusted.h. Each value is read once, into memory of ours, and checked there. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "host/process/session-priv.h"
#include "host/process/untrusted.h"

#define PAGE 4096ull
#define USER_END (1ull << 47)
#define TABLES_MOST (256ull << 20) /* bytes of all tables of a block */
#define BLOB_MOST (1ull << 20)
#define SLOTS_MOST (1u << 20)
#define WATCHES_MOST (16u + DP_PAGES_RANGES)

/* ---- checks ---- */

static bool fits(u64 lo, u64 hi, u64 at, u64 n)
{
	return at >= lo && at <= hi && n <= hi - at;
}

static bool is_user(u64 addr)
{
	return addr < USER_END - PAGE;
}

static int damaged(struct dp_error *err, const char *what)
{
	return dp_fail(err, E_TARGET_DAMAGED, "%s", what);
}

/* Optional: [lo, hi) inside the region, or nothing at all. */
static bool part_ok(const struct dp_control *c, u64 lo, u64 hi)
{
	return lo <= hi && (lo == hi || fits(c->region_lo, c->region_hi, lo, hi - lo));
}

static const char *wrong_layout(const struct dp_control *c, const struct dp_blob_head *h)
{
	u64 table = c->region_lo + DP_ALIGN_UP((u64)h->end, PAGE);

	if (c->region_lo % PAGE || c->region_hi % PAGE || !c->region_lo || c->region_lo >= c->region_hi ||
	    !is_user(c->region_hi))
		return "the region";
	if (!fits(c->region_lo, c->region_hi, c->self, sizeof(*c)))
		return "the control block";
	if (h->magic != DP_BLOB_MAGIC || h->end > BLOB_MOST || h->service < sizeof(*h) ||
	    h->service >= h->service_end || h->service_end > h->end || !fits(c->region_lo, c->region_hi, table, PAGE))
		return "the code";
	if (c->rings ? c->rings % PAGE || c->rings_hi % PAGE || !part_ok(c, c->rings, c->rings_hi) : c->rings_hi != 0)
		return "the log rings";
	if (!c->nslots || c->nslots > SLOTS_MOST || c->nslots & (c->nslots - 1) ||
	    !fits(c->region_lo, c->region_hi, c->slots, (u64)c->nslots * DP_HIT_SLOT_SIZE) ||
	    !fits(c->region_lo, c->region_hi, c->tids, (c->nslots + 1ull) * 4))
		return "the slots";
	if (!part_ok(c, c->jit_lo, c->jit_hi) || !part_ok(c, c->copies_lo, c->copies_hi))
		return "the pieces of code";
	return NULL;
}

static const char *wrong_counts(const struct dp_control *c)
{
	if (c->state > DP_STATE_ARMED || c->owner_pid > INT32_MAX)
		return "the state";
	if (c->nwatches > WATCHES_MOST || c->npages > DP_PAGES_RANGES || c->nranges > DP_MAX_RANGES ||
	    c->segv_taken > 1)
		return "a count";
	return NULL;
}

/*
 * A detour and what else a jump leads to lies in the reach of a 32-bit displacement; nothing else is known of such
 * addresses.
 */
static bool redirects_ok(const struct dp_redirect *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (!is_user(v[i].pc) || !is_user(v[i].to & ~DP_HOME_BEHIND))
			return false;
	return true;
}

static bool patches_ok(const struct dp_patch *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if ((v[i].len != 1 && v[i].len != sizeof(v[i].orig)) || v[i].bounds >> sizeof(v[i].orig) ||
		    !is_user(v[i].addr) || !is_user(v[i].words))
			return false;
	return true;
}

static bool areas_ok(const struct dp_range *v, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (v[i].lo % PAGE || v[i].hi % PAGE || v[i].lo > v[i].hi || !is_user(v[i].hi))
			return false;
	return true;
}

static bool some_of(u32 first, u32 n, u32 all)
{
	return first <= all && n <= all - first;
}

static const char *wrong_tables(const struct dp_block *b)
{
	const struct dp_control *c = &b->ctl;

	if (!patches_ok(b->patches, c->npatches))
		return "a patch";
	if (!redirects_ok(b->redirects, c->nredirects) || !redirects_ok(b->homes, c->nhomes))
		return "a redirection";
	if (!areas_ok(b->areas, c->nareas))
		return "an area";
	for (u32 i = 0; i < DP_MAX_SEMAPHORES; i++)
		if (c->semaphores[i].addr && !is_user(c->semaphores[i].addr))
			return "a semaphore";
	for (u32 i = 0; i < c->npoints; i++)
		if (!is_user(b->points[i].addr) ||
		    (b->points[i].n && !some_of(b->points[i].first, b->points[i].n, c->nprobes)))
			return "a point";
	for (u32 i = 0; i < c->nwatches; i++)
		if (!is_user(b->watches[i].addr) || !some_of(b->watches[i].first, b->watches[i].n, c->nprobes))
			return "a watchpoint";
	for (u32 i = 0; i < c->nprobes; i++)
		if (!is_user(b->probes[i].addr) || !is_user(b->probes[i].prog.code))
			return "a probe";
	return NULL;
}

/* ---- tables ---- */

void dp_block_tables(struct dp_block *b, struct dp_block_table t[DP_BLOCK_TABLES])
{
	const struct dp_control *c = &b->ctl;
	const struct dp_block_table all[DP_BLOCK_TABLES] = {
	    {(void **)&b->points, c->npoints, sizeof(*b->points), c->points},
	    {(void **)&b->probes, c->nprobes, sizeof(*b->probes), c->probes},
	    {(void **)&b->patches, c->npatches, sizeof(*b->patches), c->patches},
	    {(void **)&b->redirects, c->nredirects, sizeof(*b->redirects), c->redirects},
	    {(void **)&b->homes, c->nhomes, sizeof(*b->homes), c->homes},
	    {(void **)&b->areas, c->nareas, sizeof(*b->areas), c->areas},
	    {(void **)&b->watches, c->nwatches, sizeof(*b->watches), c->watches},
	};

	memcpy(t, all, sizeof(all));
}

static void forget_tables(struct dp_control *c)
{
	c->npoints = c->nprobes = c->npatches = c->nredirects = c->nhomes = c->nwatches = 0;
}

void dp_block_free(struct dp_block *b)
{
	struct dp_block_table t[DP_BLOCK_TABLES];

	dp_block_tables(b, t);
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++) {
		if (!b->image)
			free(*t[i].v);
		*t[i].v = NULL;
	}
	dp_free(b->image);
	b->image = NULL;
	forget_tables(&b->ctl);
	b->ctl.nareas = 0;
}

int dp_block_check(struct dp_block *b, struct dp_error *err)
{
	struct dp_control *c = &b->ctl;
	const char *wrong = wrong_layout(c, &b->head);

	if (!wrong)
		wrong = wrong_counts(c);
	if (!wrong)
		wrong = wrong_tables(b);
	if (wrong)
		return damaged(err, wrong);
	if (!DP_SORT_BY(b->patches, c->npatches, addr) || !DP_SORT_BY(b->redirects, c->nredirects, pc) ||
	    !DP_SORT_BY(b->homes, c->nhomes, pc))
		return dp_fail(err, E_ARM_NOMEM, "control block");
	return 0;
}

/* From now on each table has memory of its own. */
static int leave_image(struct dp_block *b, struct dp_error *err)
{
	struct dp_block_table from[DP_BLOCK_TABLES], to[DP_BLOCK_TABLES];
	struct dp_block own = *b;

	if (!b->image)
		return 0;
	own.image = NULL;
	dp_block_tables(b, from);
	dp_block_tables(&own, to);
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++)
		*to[i].v = NULL;
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++) {
		*to[i].v = calloc((size_t)from[i].n + 1, from[i].size);
		if (!*to[i].v) {
			dp_block_free(&own);
			return dp_fail(err, E_ARM_NOMEM, "control block");
		}
		if (from[i].n)
			memcpy(*to[i].v, *from[i].v, (size_t)from[i].n * from[i].size);
	}
	dp_block_free(b);
	*b = own;
	return 0;
}

/* ---- where a block is read from ---- */

struct source {
	const struct dp_mem *mem; /* NULL: an image */
	const u8 *image;
	u8 *kept; /* an image that is the block's own */
	u64 addr, size;
};

static int get(const struct source *s, u64 addr, void *buf, u64 n, struct dp_error *err)
{
	if (s->mem)
		return dp_mem_read(s->mem, addr, buf, n, err);
	if (!fits(s->addr, s->addr + s->size, addr, n))
		return damaged(err, "a table");
	memcpy(buf, s->image + (addr - s->addr), n);
	return 0;
}

static int read_tables(struct dp_block *b, const struct source *s, struct dp_error *err)
{
	struct dp_block_table t[DP_BLOCK_TABLES];
	u64 all = 0;

	dp_block_tables(b, t);
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++) {
		u64 bytes = (u64)t[i].n * t[i].size;

		all += bytes;
		if (bytes > TABLES_MOST || all > TABLES_MOST ||
		    (t[i].n && !fits(b->ctl.region_lo, b->ctl.region_hi, t[i].addr, bytes)))
			return damaged(err, "a table");
	}
	for (u32 i = 0; i < DP_BLOCK_TABLES; i++) {
		int r;

		if (s->kept) {
			if (t[i].n && !fits(s->addr, s->addr + s->size, t[i].addr, (u64)t[i].n * t[i].size))
				return damaged(err, "a table");
			*t[i].v = s->kept + (t[i].n ? t[i].addr - s->addr : 0);
			continue;
		}
		*t[i].v = calloc((size_t)t[i].n + 1, t[i].size);
		if (!*t[i].v)
			return dp_fail(err, E_ARM_NOMEM, "control block");
		r = t[i].n ? get(s, t[i].addr, *t[i].v, (u64)t[i].n * t[i].size, err) : 0;
		if (r)
			return r;
	}
	return 0;
}

/* The control block itself is there. */
static int read_block(struct dp_block *b, const struct source *s, struct dp_error *err)
{
	const char *wrong = wrong_layout(&b->ctl, &b->head);
	int r;

	if (!wrong)
		wrong = wrong_counts(&b->ctl);
	if (wrong) {
		forget_tables(&b->ctl);
		b->ctl.nareas = 0;
		return damaged(err, wrong);
	}
	/*
	 * Before anything was patched the tables of a block in a process may not have been written: they do not count.
	 * Areas that were not written yet were not mapped either.
	 */
	if (s->mem && b->ctl.state == DP_STATE_EMPTY)
		forget_tables(&b->ctl);
	r = read_tables(b, s, err);
	if (r)
		dp_block_free(b);
	return r ? r : dp_block_check(b, err);
}

int dp_block_read(struct dp_block *b, const struct dp_mem *mem, u64 addr, struct dp_error *err)
{
	struct source s = {.mem = mem};
	int r;

	*b = (struct dp_block){.points = NULL};
	r = dp_mem_read(mem, addr, &b->ctl, sizeof(b->ctl), err);
	if (!r && (b->ctl.magic != DP_CONTROL_MAGIC || b->ctl.self != addr || b->ctl.abi != DP_ABI))
		r = dp_fail(err, E_ARM_EXEC, "process %d carries no probes any more", (int)mem->pid);
	if (!r)
		r = dp_mem_read(mem, b->ctl.region_lo, &b->head, sizeof(b->head), err);
	if (r) {
		b->ctl = (struct dp_control){0};
		return r;
	}
	return read_block(b, &s, err);
}

int dp_block_of_image(struct dp_block *b, const void *image, u64 size, u64 addr, const struct dp_blob_head *head,
		      struct dp_error *err)
{
	struct source s = {.image = image, .addr = addr, .size = size};

	*b = (struct dp_block){.points = NULL};
	if (size < sizeof(b->ctl))
		return damaged(err, "the control block");
	memcpy(&b->ctl, image, sizeof(b->ctl));
	b->head = *head;
	return read_block(b, &s, err);
}

int dp_block_take_image(struct dp_block *b, struct dp_control *image, const struct dp_blob_head *head,
			struct dp_error *err)
{
	struct source s = {.kept = (u8 *)image, .addr = image->self, .size = image->size};

	*b = (struct dp_block){.ctl = *image, .head = *head, .image = image};
	return read_block(b, &s, err);
}

int dp_block_renew(struct dp_block *b, const struct dp_control *image, u64 addr, struct dp_error *err)
{
	struct source s = {.image = (const u8 *)image, .addr = addr, .size = image->size};
	struct dp_block more = {.ctl = *image, .head = b->head};
	int r = leave_image(b, err);

	if (r)
		return r;
	more.ctl.nprobes = more.ctl.nwatches = 0;
	r = read_tables(&more, &s, err);
	if (r) {
		dp_block_free(&more);
		return r;
	}
	free(more.probes);
	free(more.watches);
	more.probes = b->probes;
	more.watches = b->watches;
	more.ctl.nprobes = b->ctl.nprobes;
	more.ctl.nwatches = b->ctl.nwatches;
	b->probes = NULL;
	b->watches = NULL;
	dp_block_free(b);
	*b = more;
	return dp_block_check(b, err);
}

/* Patches do not overlap, and each displaces the instructions from its start on: the last one that begins before. */
const struct dp_patch *dp_block_patch(const struct dp_block *b, u64 addr)
{
	size_t n = DP_COUNT_UP_TO(b->patches, b->ctl.npatches, addr, addr);

	return n ? &b->patches[n - 1] : NULL;
}

/* ---- finding one ---- */

static bool has_magic(const struct dp_mem *mem, u64 addr, struct dp_control *c)
{
	return !dp_mem_read(mem, addr, c, sizeof(*c), NULL) && c->magic == DP_CONTROL_MAGIC && c->self == addr &&
	       c->abi == DP_ABI;
}

/* The block that hits use whose region begins with this mapping, as far as its head says. */
static bool control_in(const struct dp_mem *mem, const struct dp_map *m, struct dp_blob_head *head,
		       struct dp_control *c)
{
	return m->x && !m->w && !m->inode && !dp_mem_read(mem, m->lo, head, sizeof(*head), NULL) &&
	       head->magic == DP_BLOB_MAGIC && head->ctl && has_magic(mem, head->ctl, c) && c->region_lo == m->lo;
}

u32 dp_find_controls(pid_t pid, u64 v[DP_OWNERS_MAX])
{
	struct dp_blob_head head;
	struct dp_control c;
	struct dp_maps maps;
	struct dp_mem mem;
	u32 n = 0;

	if (dp_maps_read(&maps, pid, NULL))
		return 0;
	if (!dp_mem_open(&mem, pid, NULL)) {
		for (size_t i = 0; i < maps.n && n < DP_OWNERS_MAX; i++)
			if (control_in(&mem, &maps.v[i], &head, &c))
				v[n++] = head.ctl;
		dp_mem_close(&mem);
	}
	dp_maps_free(&maps);
	return n;
}

/* What every version has at these places: the magic numbers, where the block is, and its version. */
static u32 foreign_abi_in(const struct dp_mem *mem, const struct dp_map *m)
{
	struct {
		u64 magic, ctl;
	} head;
	struct {
		u64 magic;
		u32 abi;
	} block;

	if (!m->x || m->w || m->inode || dp_mem_read(mem, m->lo, &head, sizeof(head), NULL) ||
	    head.magic != DP_BLOB_MAGIC || !head.ctl || dp_mem_read(mem, head.ctl, &block, sizeof(block), NULL))
		return 0;
	return block.magic == DP_CONTROL_MAGIC && block.abi != DP_ABI ? block.abi : 0;
}

int dp_refuse_foreign(pid_t pid, struct dp_error *err)
{
	struct dp_maps maps;
	struct dp_mem mem;
	u32 abi = 0;

	if (dp_maps_read(&maps, pid, NULL))
		return 0; /* whoever wants to use it will tell */
	if (!dp_mem_open(&mem, pid, NULL)) {
		for (size_t i = 0; i < maps.n && !abi; i++)
			abi = foreign_abi_in(&mem, &maps.v[i]);
		dp_mem_close(&mem);
	}
	dp_maps_free(&maps);
	return abi ? dp_fail(err, E_TARGET_VERSION, "process %d has probes of interface %u, not %u", (int)pid, abi,
			     DP_ABI)
		   : 0;
}

u64 dp_control_of(const struct dp_mem *mem, u64 region)
{
	struct dp_blob_head head;
	struct dp_control c;

	return !dp_mem_read(mem, region, &head, sizeof(head), NULL) && head.magic == DP_BLOB_MAGIC &&
		       has_magic(mem, head.ctl, &c) && c.region_lo == region
		   ? head.ctl
		   : 0;
}

int dp_block_region(const struct dp_mem *mem, u64 addr, u64 *region, struct dp_error *err)
{
	struct dp_control c;

	if (!has_magic(mem, addr, &c))
		return dp_fail(err, E_ARM_EXEC, "process %d carries no probes any more", (int)mem->pid);
	*region = c.region_lo;
	return 0;
}

void dp_block_actions(const struct dp_mem *mem, struct dp_control *c)
{
	u64 at = dp_control_of(mem, c->region_lo);
	struct dp_control now;

	if (!at || !has_magic(mem, at, &now))
		return;
	memcpy(c->old_trap, now.old_trap, sizeof(c->old_trap));
	memcpy(c->old_segv, now.old_segv, sizeof(c->old_segv));
	c->above = !!now.above;
}

u64 dp_control_of_process(pid_t pid, u64 region)
{
	struct dp_mem mem;
	u64 at = 0;

	if (!dp_mem_open(&mem, pid, NULL)) {
		at = dp_control_of(&mem, region);
		dp_mem_close(&mem);
	}
	return at;
}

u32 dp_owners_read(const struct dp_mem *mem, const struct dp_maps *maps, struct dp_owner **v)
{
	struct dp_owner o, *all = NULL, *more; /* as a rule there are none */
	u32 n = 0;

	for (size_t i = 0; i < maps->n && n < DP_OWNERS_MAX; i++) {
		if (!control_in(mem, &maps->v[i], &o.head, &o.ctl) || wrong_layout(&o.ctl, &o.head) ||
		    wrong_counts(&o.ctl) || o.head.signal_entry >= o.head.end || o.head.restorer >= o.head.end)
			continue;
		more = reallocarray(all, n + 1, sizeof(*all));
		if (!more)
			break;
		all = more;
		all[n++] = o;
	}
	*v = all;
	return n;
}

bool dp_block_begun(const struct dp_mem *mem, u64 region, u64 addr)
{
	struct dp_control c;
	u64 used;

	/* Where it is to stand, an earlier one may have stood. */
	return !dp_mem_read(mem, region + offsetof(struct dp_blob_head, ctl), &used, sizeof(used), NULL) &&
	       used == addr && has_magic(mem, addr, &c) && c.state != DP_STATE_EMPTY;
}

bool dp_block_there(pid_t pid, u64 addr)
{
	u64 magic = 0;

	return dp_process_peek(dp_memory_tid(pid), addr, &magic, sizeof(magic)) && magic == DP_CONTROL_MAGIC;
}

/* ---- slots, copies, questions ---- */

bool dp_hit_slot_read(pid_t via, u64 slot, u64 tid_at, struct dp_hit_slot_state *out)
{
	struct dp_hit_slot head;
	u32 tid = 0;

	if (!dp_process_peek(via, slot, &head, sizeof(head)))
		return false;
	out->given_up = head.owner == DP_HIT_SLOT_ABANDONED;
	out->owned = head.owner == (head.thread | 1);
	out->thread = head.thread;
	out->left = head.left;
	out->idle = head.owner && !head.busy;
	out->entered = head.busy == DP_HIT_SLOT_ENTERED && !head.context && !head.page_copy && !head.call_sp;
	out->frame = is_user(head.frame) ? head.frame : 0;
	if (out->idle && !dp_process_peek(via, tid_at, &tid, sizeof(tid)))
		return false;
	out->tid = tid;
	return true;
}

bool dp_hit_slot_stopped(pid_t via, u64 slot, struct dp_hit_stopped *out)
{
	struct dp_hit_slot head;

	if (!dp_process_peek(via, slot + DP_HIT_SLOT_HEAD, &head, sizeof(head)) || !head.stopped ||
	    !dp_process_peek(via, slot + DP_HIT_SLOT_REGS, &out->regs, sizeof(out->regs)))
		return false;
	out->thread = head.thread;
	out->behind = head.stopped != DP_STOPPED_AT_POINT;
	out->blocked = head.blocked;
	out->mask = head.mask;
	return out->behind || (is_user(out->regs.ip) && is_user(out->regs.sp));
}

int dp_hit_slot_leave(pid_t pid, u64 slot, struct dp_error *err)
{
	struct dp_mem mem;
	u64 none = 0;
	int r = dp_mem_open(&mem, pid, err);

	if (r)
		return r;
	slot += DP_HIT_SLOT_HEAD;
	r = dp_mem_write(&mem, slot + offsetof(struct dp_hit_slot, busy), &none, 4, err);
	r = r ? r : dp_mem_write(&mem, slot + offsetof(struct dp_hit_slot, blocked), &none, 4, err);
	r = r ? r : dp_mem_write(&mem, slot + offsetof(struct dp_hit_slot, stopped), &none, 8, err);
	dp_mem_close(&mem);
	return r;
}

u64 dp_hit_returns_to(pid_t via, u64 frame)
{
	u64 to = 0;

	return dp_process_peek(via, frame + F_RET, &to, sizeof(to)) ? to : 0;
}

bool dp_semaphore_read(const struct dp_mem *mem, u64 addr, const struct dp_semaphore *known, struct dp_semaphore *s)
{
	return known->addr && !dp_mem_read(mem, addr, s, sizeof(*s), NULL) && s->addr == known->addr &&
	       s->file == known->file && s->state <= DP_SEMAPHORE_LOWERING;
}

bool dp_copies_read(const struct dp_mem *mem, u64 addr, struct dp_copy_state_of v[DP_COPIES])
{
	struct dp_copy *all = malloc(DP_COPIES * sizeof(*all));
	bool good = all && !dp_mem_read(mem, addr, all, DP_COPIES * sizeof(*all), NULL);

	for (u32 i = 0; good && i < DP_COPIES; i++)
		v[i] = (struct dp_copy_state_of){.ip = all[i].ip,
						 .ready = all[i].state == DP_COPY_READY && is_user(all[i].ip),
						 .asked = all[i].asked == DP_COPY_ASKED};
	free(all);
	return good;
}

bool dp_thread_is_of(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && access(path, F_OK) == 0;
}

pid_t dp_thread_of(pid_t pid, u32 inner)
{
	char path[64];
	pid_t found = 0;
	struct dirent *de;
	DIR *dir;

	/* The same namespace, in all but the rarest cases: its own id is what we call it. */
	if (inner <= INT32_MAX && dp_thread_is_of(pid, (pid_t)inner) && dp_inner_tid(pid, (pid_t)inner) == (pid_t)inner)
		return (pid_t)inner;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && !found && (de = readdir(dir))) {
		pid_t tid = (pid_t)atoi(de->d_name);

		if (tid > 0 && (u32)dp_inner_tid(pid, tid) == inner)
			found = tid;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- lists ---- */

void dp_walk_begin(struct dp_walk *w, u32 *left)
{
	*w = (struct dp_walk){.left = left, .lap = 1};
}

/* The mark moves on after 1, 2, 4 .. steps: whoever goes in a circle meets it. */
bool dp_walk_to(struct dp_walk *w, u64 at)
{
	if (!at || !*w->left || at == w->mark)
		return false;
	--*w->left;
	if (++w->steps == w->lap) {
		w->mark = at;
		w->lap *= 2;
		w->steps = 0;
	}
	return true;
}

/* ---- memory files ---- */

int dp_open_rings(pid_t pid, u64 lo, u64 hi, u64 dev, u64 inode)
{
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)lo,
		 (unsigned long long)hi);
	fd = dp_memory_open(path, hi - lo);
	if (fd >= 0 && inode && (fstat(fd, &st) || st.st_ino != inode || st.st_dev != dev)) {
		close(fd);
		fd = -1;
	}
	return fd;
}
