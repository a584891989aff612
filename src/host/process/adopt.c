/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Taking over what a predecessor armed that was killed: the session becomes ours, and the target does not notice. Only
 * when what stands there is, to the byte, what this session would arm; else nothing is changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/arch.h"
#include "host/process/hold.h"
#include "host/process/session-priv.h"
#include "log/rings.h"
#include "program/program.h"

/* Where the words stand behind the rings; 0: these are not the rings of this session. */
static u64 words_behind(const struct dp_ring_map *map, u32 nprobes, u32 nwords)
{
	u64 at = DP_ALIGN_UP(map->g.size, 4096ull);

	return map->g.nprobes >= nprobes && at <= map->size && nwords * 8ull <= map->size - at ? at : 0;
}

/* What processors have added to these words. */
static struct dp_apart apart_behind(const struct dp_ring_map *map, u64 at, u32 nwords, const struct dp_control *ctl)
{
	u64 stride = ctl->apart, room = map->size - at;

	if (!at || stride % 4096 || stride < nwords * 8ull || stride > room / (map->g.ncpus + 1ull))
		return (struct dp_apart){0, 0};
	return (struct dp_apart){stride, stride ? map->g.ncpus : 0};
}

/* The rings that were written down, and no other file. */
static bool map_rings(struct dp_session *s, const struct dp_known *k)
{
	const struct dp_control *c = &k->block.ctl;
	int fd = k->file.inode && k->rings.size == c->rings_hi - c->rings
		     ? dp_open_rings(s->pid, c->rings, c->rings_hi, k->file.dev, k->file.inode)
		     : -1;
	bool good = fd >= 0 && !dp_session_map_rings(s, fd, c->rings, k->rings.size, NULL);

	if (fd >= 0)
		close(fd);
	s->rings.g = k->rings.g;
	s->words_off = good ? words_behind(&s->rings, s->nprobes, s->nwords) : 0;
	s->apart = apart_behind(&s->rings, s->words_off, s->nwords, c);
	return s->words_off != 0 && s->apart.stride == c->apart;
}

/* The program that runs there is the one of this spot. */
static bool same_program(struct dp_session *s, const struct dp_mem *mem, const struct dp_probe_rt *rt,
			 const struct dp_spot *sp, u64 words)
{
	const struct dp_probe *p = dp_spot_probe(s, sp);
	const struct dp_program *prog = &p->event->prog;
	struct dp_code_rt want;
	bool same = false;
	u8 *code;

	memset(&want, 0, sizeof(want));
	dp_program_to_rt(prog, &want);
	want.code = rt->prog.code;
	want.compiled = rt->prog.compiled;
	want.locals = words + 8ull * p->locals;
	want.globals = dp_session_globals(s, p);
	want.gate = prog->rpn.ex_mask ? words + 8ull * p->gate : 0;
	if (rt->addr != sp->addr || rt->event != sp->owner || sp->confirm != !!(rt->flags & DP_PROBE_WAITS) ||
	    memcmp(&want, &rt->prog, sizeof(want)))
		return false;
	code = malloc(prog->len);
	same = code && !dp_mem_read(mem, rt->prog.code, code, prog->len, NULL) && !memcmp(code, prog->code, prog->len);
	free(code);
	return same;
}

static bool alone_at_address(const struct dp_block *t, u32 i)
{
	for (u32 k = 0; k < t->ctl.nprobes; k++)
		if (k != i && t->probes[k].addr == t->probes[i].addr)
			return false;
	return true;
}

/* What arming finds out about a probe, for those who ask: the block's and the session's number of it. */
static void note_outcome(struct dp_session *s, const struct dp_block *t, u32 i, u32 spot)
{
	const struct dp_spot *sp = &s->spots[spot];
	const struct dp_patch *patch = dp_block_patch(t, sp->addr);
	struct dp_probe *p = dp_spot_probe(s, sp);

	if (patch && patch->len == 1)
		p->outcome = DP_OUTCOME_TRAP;
	if (sp->direct && !sp->calls && dp_jit_usable(&t->ctl) && alone_at_address(t, i)) {
		p->ncompiled++;
		p->nplain++;
	}
	if (t->probes[i].prog.compiled)
		p->ncompiled = p->nsites;
}

static bool is_guard(const struct dp_probe_rt *rt)
{
	return rt->flags & (DP_PROBE_GUARD | DP_PROBE_GUARD_END);
}

static bool stands(const struct dp_block *t, const struct dp_mem *mem, u64 addr)
{
	const struct dp_patch *patch = dp_block_patch(t, addr);
	u8 now[sizeof(patch->jump)];

	return patch && !dp_mem_read(mem, patch->addr, now, patch->len, NULL) && !memcmp(now, patch->jump, patch->len);
}

/* Guards are those that were written down: which there have to be was judged before anything was in their way. */
static bool same_probes(struct dp_session *s, const struct dp_block *t, const struct dp_mem *mem)
{
	u64 words = t->ctl.rings + s->words_off;
	u32 n = 0;

	s->region = t->ctl.region_lo;
	s->rings_off = t->ctl.rings - s->region;
	s->globals_off = s->opt.share_globals ? t->ctl.rings_hi - s->region : 0;
	s->changes.has_globals = s->globals_off != 0;
	if (s->globals_off && !dp_is_shared_at(s->pid, s->opt.globals_fd, t->ctl.rings_hi))
		return false;
	s->stretches.guarded = t->ctl.stretches != 0;
	dp_compile_lay_out(s, s->spots, s->nspots);
	dp_spots_sort(s->spots, s->nspots); /* as the block has its probes */
	for (u32 i = 0; i < s->nprobes; i++) {
		s->probes[i].outcome = DP_OUTCOME_JUMP;
		s->probes[i].ncompiled = s->probes[i].nplain = 0;
	}
	for (u32 i = 0; i < t->ctl.nprobes; i++) {
		if (!stands(t, mem, t->probes[i].addr))
			return false;
		if (is_guard(&t->probes[i]))
			continue;
		if (n == s->nspots || !same_program(s, mem, &t->probes[i], &s->spots[n], words))
			return false;
		note_outcome(s, t, i, n++);
	}
	return n == s->nspots;
}

/* ---- whose they are from now on ---- */

/* In a process that has the probes, so that nobody takes them for ownerless. */
static void sign(const struct dp_session *s, pid_t pid)
{
	const u32 own = (u32)getpid();
	struct dp_mem mem;
	u64 at;

	if (dp_mem_open(&mem, pid, NULL))
		return;
	at = dp_control_of(&mem, s->block.ctl.region_lo);
	if (at)
		dp_mem_write(&mem, at + offsetof(struct dp_control, owner_pid), &own, sizeof(own), NULL);
	dp_mem_close(&mem);
}

void dp_session_adopted(struct dp_session *s, const pid_t *heirs, u32 n)
{
	for (u32 i = 0; i < n; i++)
		if (dp_same_file(dp_rings_at(heirs[i], s->block.ctl.rings), s->rings_file))
			sign(s, heirs[i]);
}

/* The block is the session's from now on. */
static void take_over(struct dp_session *s, struct dp_known *k)
{
	struct dp_control *c = &k->block.ctl;

	c->owner_pid = (u32)getpid();
	c->owner_ns = (u32)dp_pid_namespace();
	s->control = c->self;
	s->slots_off = c->slots - c->region_lo;
	s->tids_off = c->tids - c->region_lo;
	s->nslots = c->nslots;
	s->armed = true;
	s->block = k->block;
	memset(&k->block, 0, sizeof(k->block));
	dp_stretches_adopt(s, &s->block.ctl);
	dp_record_take(s, k);
	if (k->pid != s->pid && dp_process_started(k->pid) != k->started)
		dp_known_forget(k); /* its parent, which has ended */
	sign(s, s->pid);
	s->rings.at->owner_pid = (u32)getpid();
}

static bool adopt(struct dp_session *s, struct dp_known *k)
{
	struct dp_mem mem;
	bool good;

	if (k->block.ctl.state != DP_STATE_ARMED || dp_known_owner_lives(k) || dp_mem_open(&mem, s->pid, NULL))
		return false;
	dp_block_actions(&mem, &k->block.ctl);
	good = map_rings(s, k) && same_probes(s, &k->block, &mem);
	if (good)
		take_over(s, k);
	else
		dp_session_unmap_rings(s);
	dp_mem_close(&mem);
	return good;
}

/* Only what its predecessor has written down is gone on with. */
bool dp_session_adopt(struct dp_session *s)
{
	struct dp_knowns known;
	bool good = false;

	if (dp_process_hold(s->pid, NULL))
		return false;
	known = dp_records_of(s->pid);
	for (u32 i = 0; i < known.n && !good; i++)
		good = adopt(s, &known.v[i]);
	dp_knowns_free(&known);
	dp_process_release(s->pid);
	return good;
}

/* The record of those rings, which nobody owns any more; NULL: none. */
static const struct dp_known *ownerless_rings(const struct dp_knowns *known, u64 inode)
{
	for (u32 i = 0; i < known->n; i++)
		if (known->v[i].file.inode && known->v[i].file.inode == inode && !dp_known_owner_lives(&known->v[i]))
			return &known->v[i];
	return NULL;
}

/* Memory of ours with what stands in them now. */
static bool copy_rings(pid_t pid, const struct dp_known *k, struct dp_ring_map *map)
{
	struct dp_mem mem;

	*map = k->rings;
	map->at = NULL;
	if (dp_mem_open(&mem, pid, NULL))
		return false;
	map->at = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map->at == MAP_FAILED)
		map->at = NULL;
	if (map->at && dp_mem_read(&mem, k->block.ctl.rings, map->at, map->size, NULL)) {
		munmap(map->at, map->size);
		map->at = NULL;
	}
	dp_mem_close(&mem);
	return map->at;
}

bool dp_rings_copy(pid_t pid, u64 inode, u32 nprobes, u32 nwords, struct dp_ring_map *map, u64 **words)
{
	struct dp_knowns known = dp_records_of(pid);
	const struct dp_known *k = ownerless_rings(&known, inode);
	u64 at = k ? words_behind(&k->rings, nprobes, nwords) : 0;

	*map = (struct dp_ring_map){.at = NULL};
	if (at && copy_rings(pid, k, map)) {
		struct dp_apart apart = apart_behind(map, at, nwords, &k->block.ctl);

		*words = (u64 *)((u8 *)map->at + at);
		for (u32 i = 0; i < nwords; i++) /* a copy: nobody adds to it */
			(*words)[i] = dp_apart_read(*words + i, apart);
	}
	dp_knowns_free(&known);
	return map->at;
}

/* ---- of whoever was killed ---- */

static bool map_left(pid_t pid, const struct dp_known *k, struct dp_rings_left *left)
{
	const struct dp_control *c = &k->block.ctl;
	int fd = k->rings.size == c->rings_hi - c->rings
		     ? dp_open_rings(pid, c->rings, c->rings_hi, k->file.dev, k->file.inode)
		     : -1;

	*left = (struct dp_rings_left){.map = k->rings,
				       .pid = k->pid,
				       .owner = k->owner,
				       .started = k->started,
				       .owner_started = k->owner_started};
	if (fd < 0)
		return copy_rings(pid, k, &left->map);
	left->map.at = mmap(NULL, k->rings.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	left->is_live = left->map.at != MAP_FAILED;
	return left->is_live;
}

u32 dp_rings_left(pid_t pid, struct dp_rings_left *v)
{
	struct dp_knowns known = dp_records_of(pid);
	u32 n = 0;

	for (u32 i = 0; i < known.n && n < DP_RINGS_LEFT; i++)
		if (known.v[i].file.inode && !dp_known_owner_lives(&known.v[i]) && map_left(pid, &known.v[i], &v[n]))
			n++;
	dp_knowns_free(&known);
	return n;
}
