/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* struct dp_host for a traced process; patches in modules that may be unmapped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "host/process/publish-host.h"

#define REGISTER_SYNC_CORE 64
#define SYNC_CORE 32
#define STOP_NS 50000000ull /* for one thread to stop */
#define AT_REST 64u         /* patches for which all threads are stopped at a time: so many at first */
#define AT_REST_MAX 4096u
#define PIECE_NS 15000ull /* a change that takes no longer may be of twice as many */
#define PAGE 4096ull

/* ---- the engine's view ---- */

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct dp_publish_host *ph = arg;

	if (ph->tracer->execed)
		return dp_fail(err, E_ARM_EXEC, "process %d", (int)ph->tracer->pid);
	return dp_mem_write(ph->mem, addr, bytes, n, err);
}

static int serialise(void *arg, struct dp_error *err)
{
	struct dp_publish_host *ph = arg;
	struct dp_call calls[2] = {{SYS_membarrier, {REGISTER_SYNC_CORE}, 0}, {SYS_membarrier, {SYNC_CORE}, 0}};
	int r = dp_remote_calls(ph->remote, calls + ph->registered, 2u - ph->registered, err);

	if (r)
		return r;
	if (calls[1].ret < 0) /* a thread that goes on has returned from the kernel, which serialises as well */
		dp_tracer_stop_each(ph->tracer, STOP_NS);
	else
		ph->registered = true;
	return 0;
}

static void breathe(void *arg)
{
	struct dp_publish_host *ph = arg;

	dp_tracer_pump(ph->tracer);
}

/* ---- while all threads are stopped: each page is read once, and written once ---- */

static int write_page(struct dp_publish_host *ph, struct dp_error *err)
{
	u64 lo = ph->page.lo, hi = ph->page.hi;

	ph->page.at = ph->page.lo = ph->page.hi = 0;
	return hi > lo ? write_code(ph, lo, ph->page.bytes + lo % PAGE, (u32)(hi - lo), err) : 0;
}

static int write_at_rest(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	struct dp_publish_host *ph = arg;
	u64 at = DP_ALIGN_DOWN(addr, PAGE);
	int r = 0;

	if (at != ph->page.at || addr + n > at + PAGE) {
		r = write_page(ph, err);
		if (!r && addr + n <= at + PAGE && !dp_mem_read(ph->mem, at, ph->page.bytes, PAGE, NULL))
			ph->page.at = at;
		if (r || !ph->page.at)
			return r ? r : write_code(ph, addr, bytes, n, err);
	}
	memcpy(ph->page.bytes + addr % PAGE, bytes, n);
	ph->page.lo = ph->page.hi ? DP_MIN(ph->page.lo, addr) : addr;
	ph->page.hi = DP_MAX(ph->page.hi, addr + n);
	return 0;
}

/*
 * Nobody executes anything between two steps, and whoever goes on after the last one returns from the kernel. The
 * steps' order is kept.
 */
static int serialise_at_rest(void *arg, struct dp_error *err)
{
	return write_page(arg, err);
}

static void breathe_at_rest(void *arg) /* nobody is to be let go now */
{
	(void)arg;
}

void dp_publish_host_init(struct dp_publish_host *ph, struct dp_tracer *t, struct dp_mem *mem, struct dp_remote *r)
{
	ph->host = (struct dp_host){write_code, serialise, breathe, ph};
	ph->rest = (struct dp_host){write_at_rest, serialise_at_rest, breathe_at_rest, ph};
	ph->tracer = t;
	ph->mem = mem;
	ph->remote = r;
	ph->registered = false;
	ph->batch = AT_REST;
	ph->page.at = ph->page.lo = ph->page.hi = 0;
}

/* ---- whose code stands somewhere ---- */

static u32 hash(u32 h, u64 v)
{
	for (u32 i = 0; i < 64; i += 8)
		h = (h ^ (v >> i & 0xff)) * 16777619u;
	return h;
}

static u32 file_place(u64 inode, u32 major, u32 minor, u64 offset)
{
	u32 h = hash(hash(hash(2166136261u, inode), (u64)major << 32 | minor), offset) & ~DP_FILE_STAYS;

	return h ? h : 2;
}

u32 dp_file_number(const struct dp_map *m, u64 addr)
{
	return file_place(m->inode, m->dev_major, m->dev_minor, addr - m->lo + m->offset);
}

u32 dp_code_file(const struct dp_maps *maps, u64 addr)
{
	const struct dp_map *m = dp_maps_at(maps, addr);

	return m && m->x && m->inode ? dp_file_number(m, addr) : 0;
}

u32 dp_image_file(const struct dp_image *im, u64 addr)
{
	u64 offset;

	if (!dp_module_addr_to_offset(im->mod, addr - im->bias, &offset))
		return 0;
	return file_place(im->inode, im->dev_major, im->dev_minor, offset) | (im->stays ? DP_FILE_STAYS : 0);
}

static int in_order(const void *a, const void *b)
{
	const struct dp_patch *x = a, *y = b;
	bool xs = x->file & DP_FILE_STAYS, ys = y->file & DP_FILE_STAYS;

	return xs != ys ? ys - xs : x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Those in code that stays come first; returns how many they are. Both parts are sorted by address. */
static u32 split(struct dp_patch *v, u32 n)
{
	u32 k = 0;

	qsort(v, n, sizeof(*v), in_order);
	while (k < n && v[k].file & DP_FILE_STAYS)
		k++;
	return k;
}

static bool has_file(const struct dp_maps *maps, const struct dp_patch *p)
{
	return dp_code_file(maps, p->addr) == (p->file & ~DP_FILE_STAYS);
}

static bool is_of_another(const struct dp_patches *all, u64 addr, u8 now)
{
	for (u32 i = 0; all && i < all->n; i++) {
		const struct dp_patch *p = &all->v[i];

		if (addr - p->addr < p->len &&
		    (now == p->jump[addr - p->addr] || (addr == p->addr && now == DP_TRAP_BYTE)))
			return true;
	}
	return false;
}

/* Bytes that are in some step of the protocol. */
static bool in_some_step(const struct dp_patch *p, const u8 *now, const struct dp_patches *crashed)
{
	for (u32 i = 0; i < p->len; i++)
		if (now[i] != p->orig[i] && now[i] != p->jump[i] && (i || now[0] != DP_TRAP_BYTE) &&
		    !is_of_another(crashed, p->addr + i, now[i]))
			return false;
	/* A breakpoint over a jump that we did not leave half done is somebody else's. */
	return crashed || p->len == 1 || now[0] != DP_TRAP_BYTE || memcmp(now + 1, p->jump + 1, 4);
}

enum dp_patch_state dp_patch_state(struct dp_mem_look *look, const struct dp_maps *maps, const struct dp_patch *p,
				   const struct dp_patches *crashed)
{
	const struct dp_map *m = dp_maps_at(maps, p->addr);
	const u8 *now = m && m->x ? dp_mem_look(look, p->addr, p->len, NULL) : NULL;
	bool ours;

	if (!now || !memcmp(now, p->orig, p->len))
		return DP_PATCH_ABSENT;
	ours = in_some_step(p, now, crashed);
	/*
	 * Where another file is mapped by now, the bytes are its own, whatever they are. But programs copy their code
	 * to memory without a file (large pages), with all that stood in it.
	 */
	if (p->file && !has_file(maps, p)) {
		if (m->inode || !ours)
			return DP_PATCH_ABSENT;
		return p->len == 5 && !memcmp(now, p->jump, 5) ? DP_PATCH_OURS : DP_PATCH_OTHERS;
	}
	return ours ? DP_PATCH_OURS : DP_PATCH_OTHERS;
}

/* ---- pieces of what changes, and all threads stopped for each ---- */

/* The first ones of both: so many at least, and none of them lies over one that is left. */
static void first_piece(const struct dp_patches *old, const struct dp_patches *now, u32 least, struct dp_patches *o,
			struct dp_patches *n)
{
	u64 end = 0;

	*o = (struct dp_patches){old->v, 0};
	*n = (struct dp_patches){now->v, 0};
	for (;;) {
		const struct dp_patch *a = o->n < old->n ? &o->v[o->n] : NULL;
		const struct dp_patch *b = n->n < now->n ? &n->v[n->n] : NULL;
		const struct dp_patch *p = !b || (a && a->addr <= b->addr) ? a : b;

		if (!p || (o->n + n->n >= least && p->addr >= end))
			return;
		end = DP_MAX(end, p->addr + sizeof(p->orig));
		p == a ? o->n++ : n->n++;
	}
}

/* None is to go on behind the first byte of a patch that is about to be written. */
static void move_all(const struct dp_publish_host *ph)
{
	struct dp_tracer *t = ph->tracer;
	struct dp_moves mv = {.map = t->redirects, .nmap = t->nredirects, .no_frames = true};

	for (u32 i = 0; i < t->n; i++) {
		struct dp_thread *th = &t->v[i];

		if (!th->running && !th->gone && !th->released && !th->foreign)
			dp_move_thread(th, ph->mem, NULL, &mv);
	}
}

/* What is still to be written, unless there was an error. */
static int written(struct dp_publish_host *ph, int r, struct dp_error *err)
{
	if (!r)
		r = write_page(ph, err);
	ph->page.at = ph->page.lo = ph->page.hi = 0;
	return r;
}

static int rewrite(struct dp_publish_host *ph, const struct dp_patches *old, const struct dp_patches *now,
		   struct dp_error *err)
{
	if (now->n)
		move_all(ph);
	return written(ph, dp_rewrite(&ph->rest, old->v, old->n, now->v, now->n, err), err);
}

/* Changes one piece while all threads are stopped; may change the order of the old ones. */
typedef int change_fn(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now, bool *begun,
		      struct dp_error *err);

static int change_piece(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now,
			change_fn *change, bool *begun, struct dp_error *err)
{
	u64 begin = dp_now_ns(), stopped, end;
	int r = dp_tracer_stop_all(ph->tracer, err);

	stopped = dp_now_ns();
	if (!r && ph->tracer->execed)
		r = dp_fail(err, E_ARM_EXEC, "process %d", (int)ph->tracer->pid);
	if (!r)
		r = change(ph, old, now, begun, err);
	end = dp_now_ns();
	dp_tracer_resume_all(ph->tracer);
	dp_tracer_pump(ph->tracer);
	/* More at a time where that hardly makes the stop longer: most of it is the stopping of threads. */
	if (end - stopped < DP_MAX((stopped - begin) / 4, PIECE_NS))
		ph->batch = DP_MIN(ph->batch * 2, AT_REST_MAX);
	return r;
}

/* Both are sorted by address. With an error they are those that have not changed. */
static int change_pieces(struct dp_publish_host *ph, struct dp_patches *old, struct dp_patches *now, change_fn *change,
			 bool *begun, struct dp_error *err)
{
	while (old->n || now->n) {
		struct dp_patches o, n;
		int r;

		first_piece(old, now, ph->batch, &o, &n);
		struct dp_patches copy = {malloc((o.n + 1ull) * sizeof(*copy.v)), o.n};

		if (!copy.v)
			return dp_fail(err, E_ARM_NOMEM, "patches");
		if (o.n)
			memcpy(copy.v, o.v, o.n * sizeof(*copy.v));
		r = change_piece(ph, &copy, &n, change, begun, err);
		free(copy.v);
		if (r)
			return r;
		*old = (struct dp_patches){old->v + o.n, old->n - o.n};
		*now = (struct dp_patches){now->v + n.n, now->n - n.n};
	}
	return 0;
}

/* ---- in code that stays ---- */

static int change_lasting(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now, bool *begun,
			  struct dp_error *err)
{
	*begun = true;
	return rewrite(ph, old, now, err);
}

/*
 * A thread that does not stop (it hangs in the kernel, and where is not known) may stand anywhere: the rest is changed
 * while the threads run.
 */
static int exchange_lasting(struct dp_publish_host *ph, struct dp_patches old, struct dp_patches now, bool *begun,
			    struct dp_error *err)
{
	int r = change_pieces(ph, &old, &now, change_lasting, begun, err);

	if (r != -dp_error_info(E_TARGET_STUCK)->number || ph->tracer->dead)
		return r;
	*begun = true;
	return dp_republish(&ph->host, old.v, old.n, now.v, now.n, err);
}

/* ---- in code that may be unmapped ---- */

/* What is left of the old ones; the places of the new ones are as they were when they were planned. */
static int check_exchange(const struct dp_publish_host *ph, const struct dp_maps *maps, struct dp_patches *old,
			  const struct dp_patches *now, struct dp_error *err)
{
	struct dp_mem_look look = {.mem = ph->mem};
	u32 k = 0;

	for (u32 i = 0; i < old->n; i++) {
		enum dp_patch_state state = dp_patch_state(&look, maps, &old->v[i], NULL);

		if (state == DP_PATCH_OTHERS)
			return dp_fail(err, E_SITE_FOREIGN, "at 0x%llx", (unsigned long long)old->v[i].addr);
		if (state == DP_PATCH_OURS)
			old->v[k++] = old->v[i];
	}
	old->n = k;
	for (u32 i = 0; i < now->n; i++) {
		const struct dp_patch *p = &now->v[i];
		u8 want[sizeof(p->orig)];
		const u8 *is;

		if (!has_file(maps, p))
			return dp_fail(err, E_ARM_MOVED, "at 0x%llx", (unsigned long long)p->addr);
		is = dp_mem_look(&look, p->addr, p->len, NULL);
		memcpy(want, p->orig, p->len);
		dp_patches_overlay(old, p->addr, want, p->len);
		if (!is || memcmp(is, want, p->len))
			return dp_fail(err, E_SITE_FOREIGN, "at 0x%llx", (unsigned long long)p->addr);
	}
	return 0;
}

static int exchange_checked(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now,
			    bool *begun, struct dp_error *err)
{
	struct dp_maps maps;
	int r = dp_maps_read(&maps, ph->tracer->pid, err);

	if (!r)
		r = check_exchange(ph, &maps, old, now, err);
	if (!r) {
		*begun = true;
		r = rewrite(ph, old, now, err);
	}
	dp_maps_free(&maps);
	return r;
}

/*
 * Those that are ours still come first; returns how many they are. They were ours a moment ago, and some may have had
 * steps since.
 */
static u32 keep_ours(const struct dp_publish_host *ph, const struct dp_maps *maps, struct dp_patch *v, u32 n)
{
	bool *ours = calloc(n + 1ull, sizeof(*ours));
	struct dp_mem_look look = {.mem = ph->mem};
	u32 k = 0;

	for (u32 i = 0; ours && i < n; i++)
		ours[i] = dp_patch_state(&look, maps, &v[i], &(struct dp_patches){v, n}) == DP_PATCH_OURS;
	for (u32 i = 0; ours && i < n; i++)
		if (ours[i]) {
			struct dp_patch p = v[k];

			v[k++] = v[i];
			v[i] = p;
		}
	free(ours);
	return k;
}

int dp_patches_restore(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err)
{
	struct dp_maps maps;
	int r = dp_maps_read(&maps, ph->tracer->pid, err);

	if (!r)
		r = rewrite(ph, &(struct dp_patches){v, keep_ours(ph, &maps, v, n)}, &(struct dp_patches){NULL, 0},
			    err);
	dp_maps_free(&maps);
	return r;
}

static int restore_checked(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now,
			   bool *begun, struct dp_error *err)
{
	(void)now;
	*begun = true;
	return dp_patches_restore(ph, old->v, old->n, err);
}

/* ---- both ---- */

int dp_patches_in(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err)
{
	u32 k = split(v, n);
	struct dp_patches none = {NULL, 0}, lasting = {v, k}, others = {v + k, n - k};
	bool begun;
	int r = change_pieces(ph, &none, &others, exchange_checked, &begun, err); /* first: they are what may fail */

	return r ? r : exchange_lasting(ph, none, lasting, &begun, err);
}

int dp_patches_out(struct dp_publish_host *ph, struct dp_patch *v, u32 n, struct dp_error *err)
{
	u32 k = split(v, n);
	struct dp_patches none = {NULL, 0}, lasting = {v, k}, others = {v + k, n - k};
	bool begun;
	int r = exchange_lasting(ph, lasting, none, &begun, err);

	return r ? r : change_pieces(ph, &others, &none, restore_checked, &begun, err);
}

/* ---- from old patches to new ones ---- */

void dp_patches_overlay(const struct dp_patches *p, u64 at, u8 *bytes, u32 n)
{
	for (u64 k = DP_COUNT_UP_TO(p->v, p->n, addr, at + n - 1); k-- > 0 && p->v[k].addr + sizeof(p->v->orig) > at;)
		for (u32 b = 0; b < p->v[k].len; b++)
			if (p->v[k].addr + b - at < n)
				bytes[p->v[k].addr + b - at] = p->v[k].jump[b];
}

static bool lie_over(const struct dp_patch *a, u32 na, const struct dp_patch *b, u32 nb)
{
	for (u32 i = 0; i < na; i++) {
		size_t k = DP_COUNT_UP_TO(b, nb, addr, a[i].addr + a[i].len - 1);

		if (k && b[k - 1].addr + b[k - 1].len > a[i].addr)
			return true;
	}
	return false;
}

/* Which lie over each other change in one way: as in code that may be unmapped, if one of them does. */
static void change_alike(const struct dp_patches *old, const struct dp_patches *now)
{
	bool again;

	do {
		again = false;
		for (u32 i = 0, k = 0; i < old->n && k < now->n;) {
			struct dp_patch *o = &old->v[i], *n = &now->v[k];
			u32 stays = o->file & n->file & DP_FILE_STAYS;

			if (o->addr < n->addr + n->len && n->addr < o->addr + o->len) {
				again |= (o->file | n->file) & DP_FILE_STAYS & ~stays;
				o->file = (o->file & ~DP_FILE_STAYS) | stays;
				n->file = (n->file & ~DP_FILE_STAYS) | stays;
			}
			o->addr + o->len <= n->addr + n->len ? i++ : k++;
		}
	} while (again);
}

int dp_patches_exchange(struct dp_publish_host *ph, const struct dp_patches *old, const struct dp_patches *now,
			bool *begun, struct dp_error *err)
{
	u32 ko, kn;

	change_alike(old, now);
	ko = split(old->v, old->n);
	kn = split(now->v, now->n);
	struct dp_patches goes = {old->v + ko, old->n - ko}, comes = {now->v + kn, now->n - kn};
	int r;

	*begun = false;
	/* What lies over each other changes in one way or the other. */
	if (!dp_patches_agree(old->v, ko, now->v, kn) || !dp_patches_agree(goes.v, goes.n, comes.v, comes.n) ||
	    lie_over(old->v, ko, comes.v, comes.n) || lie_over(now->v, kn, goes.v, goes.n))
		return dp_fail(err, E_SITE_TARGET, "a probe beside another one");
	r = change_pieces(ph, &goes, &comes, exchange_checked, begun, err);
	return r ? r
		 : exchange_lasting(ph, (struct dp_patches){old->v, ko}, (struct dp_patches){now->v, kn}, begun, err);
}

/* ---- from the patches of one session to those of others ---- */

int dp_patches_put(struct dp_publish_host *ph, const struct dp_patches *now, struct dp_error *err)
{
	struct dp_maps maps;
	int r = dp_maps_read(&maps, ph->tracer->pid, err);

	for (u32 i = 0; i < now->n && !r; i++)
		if (has_file(&maps, &now->v[i]))
			r = dp_mem_write(ph->mem, now->v[i].addr, now->v[i].jump, now->v[i].len, err);
	dp_maps_free(&maps);
	return r;
}

/* Where the module is still there. What a killed one left in some step is made whole as well. */
static int hand_over_checked(struct dp_publish_host *ph, struct dp_patches *old, const struct dp_patches *now,
			     bool *begun, struct dp_error *err)
{
	struct dp_maps maps;
	int r = dp_maps_read(&maps, ph->tracer->pid, err);

	*begun = true;
	for (u32 i = 0; i < now->n && !r; i++)
		if (has_file(&maps, &now->v[i]))
			r = dp_rewrite(&ph->rest, &old->v[i], 1, &now->v[i], 1, err);
	dp_maps_free(&maps);
	return written(ph, r, err);
}

int dp_patches_hand_over(struct dp_publish_host *ph, struct dp_patches *old, struct dp_patches *now,
			 struct dp_error *err)
{
	bool begun;
	u32 k;
	int r;

	change_alike(old, now);
	k = split(old->v, old->n);
	split(now->v, now->n);
	struct dp_patches goes = {old->v + k, old->n - k}, comes = {now->v + k, now->n - k};

	r = change_pieces(ph, &goes, &comes, hand_over_checked, &begun, err);
	return r ? r
		 : exchange_lasting(ph, (struct dp_patches){old->v, k}, (struct dp_patches){now->v, k}, &begun, err);
}

/* ---- forked children that are held ---- */

static void change_child(const struct dp_mem *mem, const struct dp_maps *maps, const struct dp_patches *old,
			 const struct dp_patches *now)
{
	struct dp_mem_look look = {.mem = mem};

	for (u32 i = 0; i < old->n; i++) {
		const struct dp_patch *p = &old->v[i];

		look.lo = look.hi = 0; /* what lies around has changed */
		/* Where patches are to come a byte may be of one of them. */
		if (now ? has_file(maps, p) : dp_patch_state(&look, maps, p, old) == DP_PATCH_OURS)
			dp_mem_write(mem, p->addr, p->orig, p->len, NULL);
	}
	for (u32 i = 0; now && i < now->n; i++) {
		const struct dp_patch *p = &now->v[i];
		enum dp_patch_state state;

		look.lo = look.hi = 0;
		state = dp_patch_state(&look, maps, p, now);
		if (state == DP_PATCH_OURS || (state == DP_PATCH_ABSENT && has_file(maps, p)))
			dp_mem_write(mem, p->addr, p->jump, p->len, NULL);
	}
}

void dp_patch_child(pid_t tid, const struct dp_patches *old, const struct dp_patches *now)
{
	struct dp_maps maps;
	struct dp_mem mem;

	if (dp_mem_open(&mem, tid, NULL))
		return;
	if (!dp_maps_read(&maps, tid, NULL)) {
		change_child(&mem, &maps, old, now);
		dp_maps_free(&maps);
	}
	dp_mem_close(&mem);
}
