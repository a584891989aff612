/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Probes that nobody tends any more: processes that inherited them by fork lose them, and what dprobes that were killed
 * have left is taken out before a session begins.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/process/hold.h"
#include "host/process/session-priv.h"

#define ROUNDS 50 /* looks for further processes that inherited probes */

/* Whose probes are to be taken out of processes. */
struct heritage {
	pid_t but;                    /* not of this one */
	const struct dp_block *known; /* NULL: what each of them says counts */
	u64 rings_at;
	struct dp_file_id file;
	bool only; /* of those that have this very block */
};

/*
 * A process that says itself whose probes it carries: those of somebody who lives are not touched, whatever the
 * process that led us here says.
 */
static u64 ownerless(pid_t pid, u64 rings_at)
{
	u64 v[DP_OWNERS_MAX], found = 0;
	u32 n = dp_find_controls(pid, v);
	struct dp_mem mem;

	if (!n || dp_mem_open(&mem, pid, NULL))
		return 0;
	for (u32 i = 0; i < n && !found; i++) {
		struct dp_block b = {.points = NULL};

		if (!dp_block_read(&b, &mem, v[i], NULL) && b.ctl.rings == rings_at && !dp_owner_of(&b.ctl))
			found = v[i];
		dp_block_free(&b);
	}
	dp_mem_close(&mem);
	return found;
}

/* Of one process that has inherited them, which nobody else changes meanwhile. */
static bool withdraw_inherited(struct dp_session *s, pid_t pid, const struct heritage *h)
{
	u64 at = h->known ? h->known->ctl.self : ownerless(pid, h->rings_at);
	u64 own = h->known ? dp_control_of_process(pid, h->known->ctl.region_lo) : 0;
	bool is_other = own && own != at;
	struct dp_withdrawn wd;

	if (h->known && h->only && own != at)
		return false;
	/* Born in a change before that one: the patches that it has are not the known ones. */
	if (is_other)
		at = ownerless(pid, h->rings_at);
	/* Born in the middle of a step, perhaps. */
	if (!at || dp_withdraw_process(pid, is_other ? NULL : h->known, at, true, &wd, NULL))
		return false;
	dp_session_add_withdrawn(s, &wd);
	return !wd.kept_bytes;
}

static bool is_heir(pid_t pid, const struct heritage *h)
{
	return dp_same_file(dp_rings_at(pid, h->rings_at), h->file);
}

u32 dp_session_heirs(const struct dp_session *s, pid_t **pids)
{
	const struct heritage h = {.rings_at = s->region + s->rings_off, .file = s->rings_file};
	DIR *dir = s->rings_file.inode ? opendir("/proc") : NULL;
	pid_t own = getpid();
	struct dirent *de;
	size_t room = 0;
	u32 n = 0;

	*pids = NULL;
	while (dir && (de = readdir(dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 0 || pid == own || pid == s->pid || !is_heir(pid, &h))
			continue;
		if (!dp_grow((void **)pids, &room, n, sizeof(**pids)))
			break;
		(*pids)[n++] = pid;
	}
	if (dir)
		closedir(dir);
	return n;
}

u32 dp_session_processes(const struct dp_session *s, pid_t **pids)
{
	u32 n = dp_session_heirs(s, pids);
	pid_t *v = realloc(*pids, (n + 1ull) * sizeof(*v));

	if (!v)
		return n;
	*pids = v;
	v[n] = s->pid;
	return n + 1;
}

/*
 * One pass over all processes that have inherited these probes; returns how many were freed of them, and how many not.
 */
static u32 withdraw_others(struct dp_session *s, const struct heritage *h, u32 *left)
{
	DIR *dir = opendir("/proc");
	pid_t own = getpid();
	struct dirent *de;
	u32 n = 0;

	while (dir && (de = readdir(dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);

		if (pid <= 0 || pid == own || pid == h->but || !is_heir(pid, h))
			continue;
		if (!dp_process_hold(pid, NULL)) {
			/* Somebody else may have taken them out, and put others in the same place. */
			n += is_heir(pid, h) && withdraw_inherited(s, pid, h);
			dp_process_release(pid);
		}
		*left += is_heir(pid, h);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* Without rings there were no probes yet that a child could have got. False: one keeps something of them. */
static bool withdraw_all_others(struct dp_session *s, const struct heritage *h)
{
	u32 left = 0;

	for (int i = 0; h->file.inode && i < ROUNDS; i++) {
		left = 0;
		if (!withdraw_others(s, h, &left))
			break;
	}
	return !left;
}

void dp_withdraw_inheritors(struct dp_session *s, const struct dp_block *before)
{
	const struct heritage h[2] = {{s->pid, before, before->ctl.rings, s->rings_file, true},
				      {s->pid, &s->block, before->ctl.rings, s->rings_file, false}};

	for (int i = 0; i < 2; i++)
		withdraw_all_others(s, &h[i]);
}

bool dp_withdraw_all_inheritors(struct dp_session *s)
{
	const struct heritage h = {s->pid, &s->block, s->region + s->rings_off, s->rings_file, false};

	return withdraw_all_others(s, &h);
}

/* ---- predecessors ---- */

static int busy(const struct dp_session *s, u32 owner, struct dp_error *err)
{
	return dp_fail(err, E_TARGET_BUSY,
		       "process %d has probes of dprobes process %u, and no record of them can be read", (int)s->pid,
		       owner);
}

/* Whose probes were taken out of the process: they are to be taken out of others as well. */
struct settled {
	struct {
		struct heritage h;
		const struct dp_known *gone; /* nothing of it is left in the process; NULL: something is, or none */
	} v[2 * DP_OWNERS_MAX];
	u32 n;
};

static int clean_up(struct dp_session *s, const struct heritage *h, u64 at, const struct dp_known *k,
		    struct settled *done, struct dp_error *err)
{
	struct dp_withdrawn wd;
	int r = dp_withdraw_process(s->pid, h->known, at, true, &wd, err);

	if (r)
		return r;
	if (done->n < DP_ARRAY_SIZE(done->v)) {
		done->v[done->n].h = *h;
		done->v[done->n++].gone = wd.kept_bytes ? NULL : k;
	}
	dp_session_say(s, "cleaned up after an earlier dprobes: %u place%s restored", wd.restored,
		       wd.restored == 1 ? "" : "s");
	return 0;
}

/* Nobody has written down what stands there: another user, another machine's files, a dprobes without a directory. */
static int settle_claim(struct dp_session *s, u64 addr, struct settled *done, struct dp_error *err)
{
	struct heritage h = {.but = s->pid};
	struct dp_block b = {.points = NULL};
	struct dp_mem mem;
	int r = dp_mem_open(&mem, s->pid, err);

	if (r)
		return r;
	r = dp_block_read(&b, &mem, addr, err);
	h.rings_at = b.ctl.rings;
	if (r) /* a predecessor's last call may just have taken it away */
		r = dp_block_there(s->pid, addr) ? r : 0;
	else if (dp_owner_of(&b.ctl))
		r = busy(s, b.ctl.owner_pid, err);
	else {
		h.file = dp_rings_at(s->pid, h.rings_at);
		r = clean_up(s, &h, addr, NULL, done, err);
	}
	dp_mem_close(&mem);
	dp_block_free(&b);
	return r;
}

static bool is_known(const struct dp_knowns *known, u64 addr)
{
	for (u32 i = 0; i < known->n; i++) {
		const struct dp_control *c = &known->v[i].block.ctl;

		if (addr >= c->region_lo && addr < c->region_hi)
			return true;
	}
	return false;
}

/* What a predecessor has left: its own business while it lives, ours to clean when it does not. */
static int settle_known(struct dp_session *s, const struct dp_known *k, struct settled *done, struct dp_error *err)
{
	const struct heritage h = {s->pid, &k->block, k->block.ctl.rings, k->file, false};

	return dp_known_owner_lives(k) ? 0 : clean_up(s, &h, k->block.ctl.self, k, done, err);
}

/* The children too, and only then the records are forgotten: as long as there is something to be taken out by them. */
static void settle_children(struct dp_session *s, struct settled *done)
{
	for (u32 i = 0; i < done->n; i++)
		if (!withdraw_all_others(s, &done->v[i].h))
			done->v[i].gone = NULL;
	if (!done->n || dp_process_hold(s->pid, NULL))
		return;
	for (u32 i = 0; i < done->n; i++)
		if (done->v[i].gone)
			dp_known_forget(done->v[i].gone);
	dp_process_release(s->pid);
}

/* The maps show that no dprobes has been here, as with most processes that have just begun. */
static bool is_untouched(const struct dp_process *p)
{
	struct dp_mem mem = {p->pid, -1};
	bool none;

	none = !dp_maps_may_have_owners(&p->maps) && !dp_mem_open(&mem, p->pid, NULL) &&
	       !dp_remote_left(&p->maps, &mem);
	dp_mem_close(&mem);
	return none;
}

/*
 * While nobody else changes the process: what its records say now holds until the end of that. Not so of children: a
 * child is taken after its parent, which may be among them.
 */
int dp_settle_predecessors(struct dp_session *s, struct dp_error *err)
{
	struct settled done = {.n = 0};
	struct dp_knowns known;
	u64 v[DP_OWNERS_MAX];
	int r = dp_process_hold(s->pid, err);
	u32 n;

	if (r)
		return r;
	r = dp_process_read(&s->proc, s->pid, err);
	if (!r)
		r = is_untouched(&s->proc) ? 1 : dp_refuse_foreign(s->pid, err);
	if (r) {
		dp_process_release(s->pid);
		return r > 0 ? 0 : r;
	}
	n = dp_find_controls(s->pid, v); /* first: what stands there has been written down before */
	known = dp_records_of(s->pid);
	for (u32 i = 0; i < n && !r; i++)
		r = is_known(&known, v[i]) ? 0 : settle_claim(s, v[i], &done, err);
	for (u32 i = 0; i < known.n && !r; i++)
		r = settle_known(s, &known.v[i], &done, err);
	if (!r)
		dp_withdraw_call(s->pid);
	dp_process_release(s->pid);
	settle_children(s, &done);
	dp_knowns_free(&known);
	return r;
}
