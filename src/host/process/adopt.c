/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Taking over what a predecessor armed that was killed: the session becomes ours, and the target does not notice. Only when
 * what stands there is, to the byte, what this session would arm; else nothing is changed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch/x86_64/jit.h"
#include "host/process/session-priv.h"
#include "log/rings.h"
#include "program/program.h"

/* The memory file behind the rings, which no name leads to. Following such a link takes CAP_CHECKPOINT_RESTORE. */
static int open_rings(pid_t pid, const struct dp_control *c)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)c->rings,
		 (unsigned long long)c->rings_hi);
	return dp_memory_open(path, c->rings_hi - c->rings);
}

/* Where the words stand behind the rings; 0: these are not the rings of this session. */
static u64 check_rings(const struct dp_session *s, const struct dp_control *c, const struct dp_rings *g)
{
	u64 size = c->rings_hi - c->rings, at;

	if (g->magic != DP_RING_MAGIC || g->abi != DP_ABI || g->nprobes != s->nprobes || g->ncpus != c->ncpus ||
	    g->nrings != c->nrings || g->ring_size != c->ring_size)
		return 0;
	at = DP_ALIGN_UP(dp_rings_size(c->ncpus, c->nrings, s->nprobes, c->ring_size), 4096);
	return at + s->nwords * 8ull <= size ? at : 0;
}

static bool map_rings(struct dp_session *s, const struct dp_control *c)
{
	u64 size = c->rings_hi - c->rings;
	int fd = open_rings(s->pid, c);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		return false;
	s->rings = p;
	s->rings_size = size;
	s->words_off = check_rings(s, c, p);
	return s->words_off != 0;
}

/* The program that runs there is the one of this spot. */
static bool same_program(struct dp_session *s, const struct dp_mem *mem, const struct dp_probe_rt *rt,
			 const struct dp_spot *sp, u64 words)
{
	const struct dp_probe *p = &s->probes[sp->owner];
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

static bool alone_at_address(const struct dp_tables *t, u32 i)
{
	for (u32 k = 0; k < t->ctl.nprobes; k++)
		if (k != i && t->probes[k].addr == t->probes[i].addr)
			return false;
	return true;
}

/* What arming finds out about a probe, for those who ask. */
static void note_outcome(struct dp_session *s, const struct dp_tables *t, u32 i)
{
	const struct dp_spot *sp = &s->spots[i];
	const struct dp_patch *patch = dp_tables_patch(t, sp->addr);
	struct dp_probe *p = &s->probes[sp->owner];

	if (patch && patch->len == 1)
		p->outcome = DP_OUTCOME_TRAP;
	if (t->probes[i].prog.compiled)
		p->ncompiled = p->nsites;
	else if (sp->direct && dp_jit_usable(&t->ctl) && alone_at_address(t, i))
		p->ncompiled++;
}

static bool same_probes(struct dp_session *s, const struct dp_tables *t, const struct dp_mem *mem)
{
	u64 words = t->ctl.rings + s->words_off;

	s->region = t->ctl.region_lo;
	s->rings_off = t->ctl.rings - s->region;
	s->globals_off = s->opt.share_globals ? t->ctl.rings_hi - s->region : 0;
	if (s->globals_off && !dp_is_shared_at(s->pid, s->opt.globals_fd, t->ctl.rings_hi))
		return false;
	if (t->ctl.nprobes != s->nspots || t->ctl.jit_hi - t->ctl.jit_lo != dp_compile_lay_out(s))
		return false;
	for (u32 i = 0; i < s->nprobes; i++)
		s->probes[i].outcome = DP_OUTCOME_JUMP;
	for (u32 i = 0; i < s->nspots; i++) {
		const struct dp_patch *patch = dp_tables_patch(t, s->spots[i].addr);
		u8 now[sizeof(patch->jump)];

		if (!patch || patch->len > sizeof(now) || dp_mem_read(mem, patch->addr, now, patch->len, NULL) ||
		    memcmp(now, patch->jump, patch->len) || !same_program(s, mem, &t->probes[i], &s->spots[i], words))
			return false;
		note_outcome(s, t, i);
	}
	return true;
}

/* In the process and in those that inherited the probes, so that nobody takes them for ownerless. */
static void sign(struct dp_session *s, const struct dp_control *c)
{
	u64 at = s->control + offsetof(struct dp_control, owner_pid), inode = dp_rings_inode(s->pid, c->rings);
	u32 own = (u32)getpid();
	DIR *dir = opendir("/proc");
	struct dirent *de;

	while (dir && (de = readdir(dir))) {
		pid_t pid = (pid_t)atoi(de->d_name);
		struct dp_mem mem;

		if (pid <= 0 || pid == getpid() || dp_rings_inode(pid, c->rings) != inode || dp_mem_open(&mem, pid, NULL))
			continue;
		dp_mem_write(&mem, at, &own, sizeof(own), NULL);
		dp_mem_close(&mem);
	}
	if (dir)
		closedir(dir);
	s->rings->owner_pid = own;
}

static void take_over(struct dp_session *s, const struct dp_control *c)
{
	s->control = c->self;
	s->slots_off = c->slots - c->region_lo;
	s->tids_off = c->tids - c->region_lo;
	s->nslots = c->nslots;
	s->armed = true;
	sign(s, c);
}

bool dp_session_adopt(struct dp_session *s)
{
	u64 at = dp_find_control(s->pid);
	struct dp_tables t = {.points = NULL};
	struct dp_mem mem;
	bool good = false;

	if (!at || dp_mem_open(&mem, s->pid, NULL))
		return false;
	if (!dp_tables_read(&t, &mem, at, NULL) && t.ctl.state == DP_STATE_ARMED && !dp_owner_lives(t.ctl.owner_pid) &&
	    map_rings(s, &t.ctl) && same_probes(s, &t, &mem)) {
		take_over(s, &t.ctl);
		good = true;
	} else if (s->rings) {
		munmap(s->rings, s->rings_size);
		s->rings = NULL;
	}
	dp_tables_free(&t);
	dp_mem_close(&mem);
	return good;
}

struct dp_rings *dp_rings_copy(pid_t pid, u64 *size)
{
	struct dp_control c = {0};
	struct dp_mem mem;
	u64 at = dp_find_control(pid);
	void *copy = NULL;

	if (!at || dp_mem_open(&mem, pid, NULL))
		return NULL;
	if (!dp_mem_read(&mem, at, &c, sizeof(c), NULL) && !dp_owner_lives(c.owner_pid) && c.rings &&
	    c.rings_hi > c.rings) {
		*size = c.rings_hi - c.rings;
		copy = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (copy == MAP_FAILED)
			copy = NULL;
	}
	if (copy && dp_mem_read(&mem, c.rings, copy, *size, NULL)) {
		munmap(copy, *size);
		copy = NULL;
	}
	dp_mem_close(&mem);
	return copy;
}
