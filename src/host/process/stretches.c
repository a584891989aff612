/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Memory that hits load from instead of asking the system (abi/abi-stretch.h): which of the process's memory that is,
 * and guards at all its calls that may take some away. Where anything is not known, there are no guards, and nothing is
 * loaded: code that is in no file, an instruction that cannot be probed, means to change memory without a call.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/abi-slot.h"
#include "abi/abi-stretch.h"
#include "host/process/arm-priv.h"

#define PAGE 4096ull
#define MEMBARRIER_REGISTER (1u << 4)
#define SHORTEST_PAUSE 20000000ull
#define LONGEST_PAUSE 2000000000ull
#define CODE_MAX (16ull << 20) /* bytes of code that are searched */
#define PAGES_MAX (4ull << 20) /* pages that are asked for guards of the kernel's kind */
#define MADV_GUARD 102         /* MADV_GUARD_INSTALL */
#define MADV_UNGUARD 103
#define PM_GUARD (1ull << 58)
#define IMPLIES_EXEC 0x0400000u /* personality */
#define GUARDS 2
#define CLOSED "it has made a call that may bring code, or change memory in other ways"

typedef unsigned long long ull;

/* ---- which calls are guarded ---- */

static bool reads_memory(const struct dp_session *s)
{
	static const enum dp_opcode readers[] = {
	    DP_OP_LD8,        DP_OP_LD16,       DP_OP_LD32,       DP_OP_LD64,    DP_OP_PUSH_MEM8,
	    DP_OP_PUSH_MEM16, DP_OP_PUSH_MEM32, DP_OP_PUSH_MEM64, DP_OP_LOGM,    DP_OP_LOGM_S,
	    DP_OP_LOGSTR,     DP_OP_LOGSTR_S,   DP_OP_STR,        DP_OP_LOG_STR, DP_OP_LOG_MRF,
	};

	for (u32 i = 0; i < DP_ARRAY_SIZE(readers); i++)
		if (dp_session_uses(s, readers[i]))
			return true;
	return false;
}

struct sites { /* of one image */
	struct dp_session *s;
	const struct dp_image *im;
	struct dp_error *err;
	int r;
	bool all; /* each can have a guard */
	u64 last; /* the call that was looked at last */
};

static int add_guard(struct sites *w, u64 link, u32 owner)
{
	struct dp_session *s = w->s;
	int r;

	if (s->nspots == s->cap_spots) {
		u32 cap = s->cap_spots ? s->cap_spots * 2 : 128;
		struct dp_spot *v = realloc(s->spots, cap * sizeof(*v));

		if (!v)
			return dp_fail(w->err, E_ARM_NOMEM, "%u sites", cap);
		s->spots = v;
		s->cap_spots = cap;
	}
	r = dp_spot_at(&s->spots[s->nspots], w->im, link, owner, NULL);
	if (r)
		return r;
	s->nspots++;
	return 0;
}

static bool guard_call(void *arg, const struct dp_call_site *site)
{
	struct sites *w = arg;

	if ((site->makes >= 0 && !dp_stretch_watches((u32)site->makes)) || site->is_function_call ||
	    dp_module_is_cancel_point(w->im->mod, site->addr))
		return false;
	w->all &= site->fits;
	w->last = site->addr;
	if (site->fits)
		w->r = add_guard(w, site->addr, DP_GUARD_OWNER);
	if (site->fits && !w->r)
		w->r = add_guard(w, site->addr + site->len, DP_GUARD_OWNER + 1);
	return w->r || !w->all;
}

static void forget_spots(struct dp_session *s)
{
	u32 n = 0;

	for (u32 i = 0; i < s->nspots; i++)
		if (s->spots[i].owner < DP_GUARD_OWNER)
			s->spots[n++] = s->spots[i];
	s->nspots = n;
}

void dp_stretches_give_up(struct dp_session *s, const char *why)
{
	struct dp_stretches_part *p = &s->stretches, none = {.why = why};

	forget_spots(s);
	free(p->guards);
	free(p->odd);
	free(p->theirs);
	free(p->last);
	memcpy(none.detail, p->detail, sizeof(none.detail)); /* which `why` may be */
	*p = none;
}

/* A reason with a place in it. */
DP_PRINTF(2, 3) static const char *because(struct dp_session *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s->stretches.detail, sizeof(s->stretches.detail), fmt, ap);
	va_end(ap);
	return s->stretches.detail;
}

/* ---- what speaks against it ---- */

/*
 * Code of the kernel's, by names that no process can give. Where a kernel uprobe has been, its copies of instructions
 * stay: a system call among them was replaced by a breakpoint where it came from, which no guard is put on.
 */
static bool is_system(const struct dp_map *m)
{
	return !strcmp(m->path, "[vdso]") || !strcmp(m->path, "[vsyscall]") || !strcmp(m->path, "[uprobes]") ||
	       !strcmp(m->path, "[uprobes-trampoline]");
}

static bool is_file_of(const struct dp_map *m, const struct dp_image *im)
{
	return im && m->inode && m->inode == im->inode && m->dev_major == im->dev_major &&
	       m->dev_minor == im->dev_minor && m->hi <= im->hi;
}

/* Of a session that was adopted only the block tells where its detours are. */
static bool is_ours(const struct dp_session *s, const struct dp_map *m)
{
	bool ours = m->lo >= s->region && m->hi <= s->block.ctl.region_hi;

	for (u32 i = 0; !ours && i < s->block.ctl.nareas; i++)
		ours = m->lo < s->block.areas[i].hi && m->hi > s->block.areas[i].lo;
	for (u32 i = 0; !ours && i < s->plan.space.nareas; i++)
		ours = m->lo < s->plan.space.areas[i].hi && m->hi > s->plan.space.areas[i].lo;
	return ours;
}

/*
 * What other dprobes have mapped there, by their records. What the process itself says of them (dp_records_of() takes
 * that where a record cannot be read) is not believed. While one of them arms, all of its region is code that no record
 * tells of.
 */
static bool find_theirs(struct dp_session *s)
{
	struct dp_stretches_part *p = &s->stretches;
	struct dp_knowns known = dp_records_of(s->pid);
	bool good = true;

	p->ntheirs = 0;
	for (u32 i = 0; i < known.n; i++) {
		const struct dp_block *b = &known.v[i].block;

		if (!known.v[i].path[0] || (s->region && b->ctl.region_lo == s->region))
			continue;
		for (u32 k = 0; good && k <= b->ctl.nareas; k++) {
			good = dp_grow((void **)&p->theirs, &p->cap_theirs, p->ntheirs, sizeof(*p->theirs));
			if (good)
				p->theirs[p->ntheirs++] = k ? (struct dp_range){b->areas[k - 1].lo, b->areas[k - 1].hi}
							    : (struct dp_range){b->ctl.region_lo, b->ctl.region_hi};
		}
	}
	dp_knowns_free(&known);
	return good;
}

static bool meets(const struct dp_range *v, size_t n, const struct dp_map *m)
{
	for (size_t i = 0; i < n; i++)
		if (m->lo < v[i].hi && m->hi > v[i].lo)
			return true;
	return false;
}

/* The kernel joins neighbouring mappings of one kind, whoever made them. */
static bool is_theirs(const struct dp_stretches_part *p, const struct dp_map *m)
{
	u64 at = m->lo, from = 0;

	while (!m->inode && at < m->hi && at != from) {
		from = at;
		for (size_t i = 0; i < p->ntheirs; i++)
			if (p->theirs[i].lo <= at && p->theirs[i].hi > at)
				at = p->theirs[i].hi;
	}
	return at >= m->hi;
}

/* All code is in modules that are known; what is ours does not count once it is there, nor what other dprobes have. */
static const char *strange_code(struct dp_session *s, const struct dp_maps *maps, bool armed)
{
	u64 size = 0;

	if (!find_theirs(s))
		return "memory is short";
	for (size_t i = 0; i < maps->n; i++) {
		const struct dp_map *m = &maps->v[i];

		if (!m->x || is_system(m) || (armed && is_ours(s, m)) || is_theirs(&s->stretches, m))
			continue;
		if (!m->inode)
			return because(s, "the code at 0x%llx is in no file", (ull)m->lo);
		if (!is_file_of(m, dp_process_image_at(&s->proc, m->lo)))
			return because(s, "%s has been loaded since", m->path);
		size += m->hi - m->lo;
	}
	return size > CODE_MAX ? because(s, "the program has %llu MiB of code; up to %llu are searched for calls",
					 (ull)(size >> 20), CODE_MAX >> 20)
			       : NULL;
}

/* Memory can change by descriptors that are there already; those to come need a call that is watched. */
static const char *strange_files(pid_t pid)
{
	const char *why = NULL;
	char path[64], link[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !why && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		if (!strcmp(link, "anon_inode:[io_uring]") || !strcmp(link, "anon_inode:[userfaultfd]") ||
		    !strcmp(link, "/dev/userfaultfd"))
			why = "it has io_uring or userfaultfd";
	}
	if (dir)
		closedir(dir);
	return dir ? why : "its descriptors cannot be listed";
}

static bool executes_data(pid_t pid)
{
	unsigned persona = IMPLIES_EXEC;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/personality", (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%x", &persona) != 1)
		persona = IMPLIES_EXEC;
	if (f)
		fclose(f);
	return persona & IMPLIES_EXEC;
}

/* Whether the kernel has guards of its own inside mappings; *seen: and the page map shows them. Tried on ourselves. */
static bool kernel_guards(bool *seen)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool has = page != MAP_FAILED && !madvise(page, PAGE, MADV_GUARD);
	u64 entry = 0;
	FILE *f = has ? fopen("/proc/self/pagemap", "re") : NULL;

	*seen = f && !fseek(f, (long)((u64)page / PAGE * 8), SEEK_SET) && fread(&entry, 8, 1, f) == 1 &&
		entry & PM_GUARD;
	if (f)
		fclose(f);
	if (has)
		madvise(page, PAGE, MADV_UNGUARD);
	if (page != MAP_FAILED)
		munmap(page, PAGE);
	return has;
}

/* Memory with a key of its own, watched by its owner, of a device, or not copied to children: those are left out. */
static bool is_odd_flag(const char *flag)
{
	static const char *const odd[] = {"um", "uw", "ui", "dc", "io", "pf", "ss", "sl"};

	for (u32 i = 0; i < DP_ARRAY_SIZE(odd); i++)
		if (!strcmp(flag, odd[i]))
			return true;
	return false;
}

static bool is_odd_line(char *line)
{
	char *rest = NULL;

	if (!strncmp(line, "ProtectionKey:", 14))
		return atoi(line + 14) != 0;
	if (strncmp(line, "VmFlags:", 8))
		return false;
	for (char *flag = strtok_r(line + 8, " \n", &rest); flag; flag = strtok_r(NULL, " \n", &rest))
		if (is_odd_flag(flag))
			return true;
	return false;
}

static bool find_odd(struct dp_session *s)
{
	struct dp_stretches_part *p = &s->stretches;
	unsigned long long lo = 0, hi = 0, a, b;
	char path[64], *line = NULL;
	size_t size = 0;
	bool good;
	FILE *f;

	p->nodd = 0;
	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)dp_memory_tid(s->pid));
	f = fopen(path, "re");
	good = f;
	while (good && getline(&line, &size, f) > 0) {
		if (sscanf(line, "%llx-%llx ", &a, &b) == 2) {
			lo = a;
			hi = b;
		} else if (is_odd_line(line)) {
			good = dp_grow((void **)&p->odd, &p->cap_odd, p->nodd, sizeof(*p->odd));
			if (good)
				p->odd[p->nodd++] = (struct dp_range){lo, hi};
		}
	}
	free(line);
	good &= f && !ferror(f);
	if (f)
		fclose(f);
	return good;
}

static const char *why_not(struct dp_session *s)
{
	for (size_t i = 0; i < s->proc.nimages; i++)
		if (s->proc.images[i].is_exe && dp_module_is_go(s->proc.images[i].mod))
			return "the program is written in Go";
	if (executes_data(s->pid))
		return "all its data can be executed";
	return strange_files(s->pid);
}

static const char *guard_image(struct dp_session *s, const struct dp_image *im, struct dp_error *err, int *r)
{
	struct sites w = {.s = s, .im = im, .err = err, .all = true};
	u64 where;

	if (!dp_module_syscalls_known(im->mod, &where))
		return because(s, "0x%llx in %s may be a system call that no function is known to contain", (ull)where,
			       dp_process_image_name(&s->proc, im));
	dp_module_each_syscall(im->mod, guard_call, &w);
	*r = w.r == -ENOMEM ? w.r : 0;
	return w.r || !w.all ? because(s, "the system call at 0x%llx in %s cannot be probed", (ull)w.last,
				       dp_process_image_name(&s->proc, im))
			     : NULL;
}

static struct dp_probe *make_guards(void)
{
	struct dp_probe *guards = calloc(GUARDS, sizeof(*guards));

	for (u32 i = 0; guards && i < GUARDS; i++)
		guards[i] = (struct dp_probe){.from_pattern = true,
					      .module = "",
					      .jit = DP_JIT_OFF,
					      .call_flags = i ? DP_PROBE_GUARD_END : DP_PROBE_GUARD};
	return guards;
}

int dp_stretches_guard(struct dp_session *s, struct dp_error *err)
{
	struct dp_stretches_part *p = &s->stretches;
	struct dp_maps maps;
	const char *why;
	int r;

	p->guarded = p->guards;
	if (p->guards || p->why || s->opt.strict_reads || !reads_memory(s))
		return 0;
	r = dp_maps_read(&maps, s->pid, err);
	if (r)
		return r;
	why = strange_code(s, &maps, false);
	dp_maps_free(&maps);
	why = why ? why : why_not(s);
	p->guards = why ? NULL : make_guards();
	p->guarded = p->guards;
	if (!why && !p->guards)
		return dp_fail(err, E_ARM_NOMEM, "guards");
	for (size_t i = 0; !why && i < s->proc.nimages; i++)
		why = guard_image(s, &s->proc.images[i], err, &r);
	if (why)
		dp_stretches_give_up(s, why);
	return r;
}

u64 dp_stretches_loads(const struct dp_session *s, u32 nslots)
{
	return s->stretches.guards ? (u64)nslots * DP_LOAD_STRIDE : 0;
}

u64 dp_stretches_room(const struct dp_session *s)
{
	return s->stretches.guards ? sizeof(struct dp_stretches) : 0;
}

/* ---- tables ---- */

/* It is in what stays mapped, of the files of the program. */
static bool is_known(const struct dp_session *s, const struct dp_map *m)
{
	const struct dp_control *ctl = &s->block.ctl;
	size_t k = DP_COUNT_UP_TO(ctl->ranges, ctl->nranges, lo, m->lo);

	return m->r && k && m->hi <= ctl->ranges[k - 1].hi;
}

static bool is_kept(const struct dp_session *s, const struct dp_map *m)
{
	const struct dp_stretches_part *p = &s->stretches;
	bool plain = !m->path[0] || !strcmp(m->path, "[heap]") || !strcmp(m->path, "[stack]") ||
		     !strncmp(m->path, "[anon:", 6);

	if (!m->r || m->x || m->shared || m->inode || !plain)
		return false;
	if (m->lo < s->block.ctl.region_hi && m->hi > s->region)
		return false;
	return !meets(p->odd, p->nodd, m) && !meets(p->theirs, p->ntheirs, m);
}

/* Without the pages that the kernel guards. False: they cannot be told. */
static bool add_map(struct dp_stretch_table *t, FILE *pagemap, const struct dp_map *m, u64 *pages)
{
	u64 lo = m->lo, entries[512];

	*pages += (m->hi - m->lo) / PAGE;
	if (pagemap && (*pages > PAGES_MAX || fseek(pagemap, (long)(lo / PAGE * 8), SEEK_SET)))
		return false;
	for (u64 at = lo; pagemap && at < m->hi;) {
		u64 n = DP_MIN((m->hi - at) / PAGE, (u64)DP_ARRAY_SIZE(entries));

		if (fread(entries, 8, n, pagemap) != n)
			return false;
		for (u64 i = 0; i < n; i++)
			if (entries[i] & PM_GUARD)
				return true; /* the whole mapping is left out */
		at += n * PAGE;
	}
	if (t->n && t->v[t->n - 1].hi == lo) {
		t->v[t->n - 1].hi = t->v[t->n - 1].end = m->hi;
		return true;
	}
	if (t->n == DP_STRETCHES)
		return true;
	t->v[t->n++] = (struct dp_stretch){lo, m->hi, m->hi};
	return true;
}

static const char *fill_table(struct dp_session *s, struct dp_stretch_table *t)
{
	FILE *pagemap = NULL;
	struct dp_maps maps;
	const char *why;
	char path[64];
	u64 pages = 0;
	bool seen;

	if (dp_maps_read(&maps, s->pid, NULL))
		return "its maps cannot be read";
	why = strange_code(s, &maps, true);
	if (!why && kernel_guards(&seen)) {
		snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)dp_memory_tid(s->pid));
		pagemap = seen ? fopen(path, "re") : NULL;
		why = pagemap ? NULL : "the kernel does not tell of its guards";
	}
	for (size_t i = 0; !why && i < maps.n; i++) {
		const struct dp_map *m = &maps.v[i];

		if (!strcmp(m->path, "[heap]"))
			t->brk = m->hi;
		if ((is_kept(s, m) || is_known(s, m)) && !add_map(t, pagemap, m, &pages))
			why = "it has too much memory";
	}
	if (pagemap)
		fclose(pagemap);
	dp_maps_free(&maps);
	return why;
}

static u64 tables_at(const struct dp_session *s)
{
	return s->region + s->stretches.off;
}

/* The same table is in force, or waits for a hit, and nothing has been taken back since. */
static bool is_as_offered(const struct dp_stretches_part *p, u64 state, const struct dp_stretch_table *t)
{
	return p->last && !memcmp(p->last, t, sizeof(*t)) &&
	       (state == p->offered || state == (p->offered ^ DP_STRETCH_SECOND) + DP_STRETCH_TURN);
}

static const char *put_offer(const struct dp_mem *mem, u64 at, u64 state, const struct dp_stretch_table *t)
{
	u64 none = 0, table = offsetof(struct dp_stretches, tables) + (state & DP_STRETCH_SECOND ? 0 : sizeof(*t));

	return dp_mem_write(mem, at + offsetof(struct dp_stretches, offer), &none, 8, NULL) ||
		       dp_mem_write(mem, at + table, t, sizeof(*t), NULL) ||
		       dp_mem_write(mem, at + offsetof(struct dp_stretches, offer), &state, 8, NULL)
		   ? "its memory cannot be written"
		   : NULL;
}

/* The process's own calls may come between any two steps: then the state is another, and nobody takes the offer. */
static const char *offer(struct dp_session *s, const struct dp_mem *mem)
{
	struct dp_stretches_part *p = &s->stretches;
	struct dp_stretches now;
	u64 at = tables_at(s), other;
	u32 zero = 0;
	struct dp_stretch_table *t;
	const char *why = NULL;

	if (dp_mem_read(mem, at, &now, offsetof(struct dp_stretches, pad), NULL))
		return "its memory cannot be read";
	if (now.state & DP_STRETCH_CLOSED)
		return CLOSED;
	other = ~now.state & DP_STRETCH_SECOND;
	if (now.state / DP_STRETCH_CALL & DP_STRETCH_CALLS || (now.settled & DP_STRETCH_SECOND) == other)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return "memory is short";
	why = fill_table(s, t);
	if (!why && is_as_offered(p, now.state, t))
		p->pause = DP_MIN(2 * p->pause, LONGEST_PAUSE);
	else if (!why)
		why = put_offer(mem, at, now.state, t);
	if (!why && dp_mem_write(mem, at + offsetof(struct dp_stretches, missed), &zero, 4, NULL))
		why = "its memory cannot be written";
	free(p->last);
	p->last = t;
	p->offered = now.state;
	return why;
}

void dp_session_tend_stretches(struct dp_session *s)
{
	struct dp_stretches_part *p = &s->stretches;
	struct dp_mem mem = {s->pid, -1};
	u64 now = p->on ? dp_now_ns() : 0;
	const char *why = NULL;
	u32 missed;

	if (!p->on || now < p->due)
		return;
	p->due = now + p->pause;
	if (!dp_process_peek(s->pid, tables_at(s) + offsetof(struct dp_stretches, missed), &missed, sizeof(missed)) ||
	    !missed || dp_mem_open(&mem, s->pid, NULL))
		return;
	why = offer(s, &mem);
	dp_mem_close(&mem);
	/* Strange code is another dprobes' perhaps, and will go. */
	p->on = !why || why == p->detail;
	if (why)
		p->due = now + LONGEST_PAUSE;
	p->why = why;
}

/* ---- while a session is armed ---- */

static int fill(struct arming *a, struct dp_error *err)
{
	struct dp_call reg = {SYS_membarrier, {MEMBARRIER_REGISTER}, 0};
	u64 state = DP_STRETCH_TURN;
	u32 needs = DP_CAP_RSEQ | DP_CAP_PVR | DP_CAP_FUTEX | DP_CAP_GETTID | DP_CAP_MEMBARRIER;
	struct dp_stretches_part *p = &a->s->stretches;
	int r;

	if (!p->guards)
		return 0;
	r = dp_remote_calls(&a->remote, &reg, 1, err);
	if (!r && (reg.ret || !a->wiped || (a->ctl->caps & needs) != needs)) {
		state |= DP_STRETCH_CLOSED;
		p->why = "its threads have no restartable sequences, or it may not make all calls";
	}
	return r ? r : dp_mem_write(&a->mem, tables_at(a->s), &state, sizeof(state), err);
}

/* Tables are offered from now on. */
static void begin_offers(struct dp_stretches_part *p)
{
	p->on = !p->why;
	p->pause = SHORTEST_PAUSE;
}

void dp_stretches_adopt(struct dp_session *s, const struct dp_control *ctl)
{
	struct dp_stretches_part *p = &s->stretches;

	if (!ctl->stretches) {
		p->why = "its probes were set without";
		return;
	}
	p->off = ctl->stretches - ctl->region_lo;
	p->loads_off = ctl->loads - ctl->region_lo;
	p->guards = make_guards();
	if (!p->guards)
		p->why = "memory is short";
	else if (!find_odd(s))
		p->why = "its mappings cannot be read";
	begin_offers(p);
}

/* All guards are in place, and no thread is in a call that it began before. */
static int ready(struct arming *a, struct dp_error *err)
{
	struct dp_stretches_part *p = &a->s->stretches;

	(void)err;
	if (!p->guards || p->why)
		return 0;
	if (a->unseen)
		p->why = "a thread could not be stopped";
	else if (!find_odd(a->s))
		p->why = "its mappings cannot be read";
	else
		p->why = offer(a->s, &a->mem);
	begin_offers(p);
	return 0;
}

static void end(struct dp_session *s)
{
	struct dp_stretches_part *p = &s->stretches;
	u64 state;

	if (p->on && dp_process_peek(s->pid, tables_at(s) + offsetof(struct dp_stretches, state), &state, 8) &&
	    state & DP_STRETCH_CLOSED)
		p->why = CLOSED;
	p->on = false;
	if (s->opt.tells_reads && s->stretches.why)
		dp_session_say(s, "process %d: hits read memory by system calls, up to a microsecond each: %s",
			       (int)s->pid, s->stretches.why);
	s->opt.tells_reads = false;
}

const struct dp_part dp_stretches_part = {
    .steps = {[DP_PART_FILL] = fill, [DP_PART_READY] = ready},
    .end = end,
};

/* ---- before the guards go ---- */

#define DRAIN_STEPS 500 /* of a millisecond: a load may wait for a page from a disk */

static bool is_loading(pid_t pid, const struct dp_control *ctl, u32 i)
{
	u64 slot = ctl->slots + ((u64)i << DP_HIT_SLOT_SHIFT) + DP_HIT_SLOT_HEAD, word = 0, area = 0, cs = 0;

	return dp_process_peek(pid, ctl->loads + (u64)i * DP_LOAD_STRIDE, &word, 8) && word &&
	       dp_process_peek(pid, slot + offsetof(struct dp_hit_slot, rseq), &area, 8) &&
	       dp_process_peek(pid, area + 8, &cs, 8) && cs == word;
}

void dp_stretches_close(pid_t pid, const struct dp_mem *mem, const struct dp_control *ctl)
{
	u64 at = ctl->stretches, zero = 0;
	struct dp_stretches *st;

	if (at < ctl->region_lo || at >= ctl->region_hi)
		return;
	st = calloc(1, sizeof(*st));
	if (!st || dp_mem_write(mem, at + offsetof(struct dp_stretches, offer), &zero, 8, NULL) ||
	    dp_mem_read(mem, at, st, sizeof(*st), NULL)) {
		free(st);
		return;
	}
	/* A guard goes on to wait for loads of what it finds by its end. */
	for (u32 k = 0; k < DP_ARRAY_SIZE(st->tables); k++)
		for (u32 i = 0; i < DP_STRETCHES; i++)
			st->tables[k].v[i].hi = 0;
	dp_mem_write(mem, at + offsetof(struct dp_stretches, tables), st->tables, sizeof(st->tables), NULL);
	free(st);
	usleep(1000); /* longer than what a processor keeps to itself */
	for (u32 i = 0, n = 0; i < ctl->nslots && n < DRAIN_STEPS; i++)
		for (; is_loading(pid, ctl, i) && n < DRAIN_STEPS; n++)
			usleep(1000);
}
