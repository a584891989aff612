/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the target allows its own threads to do at a hit: found out when arming, so that the hit path never
 * makes a system call that a filter would punish, nor reads a thread area that is not there.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "arch/arch.h"
#include "host/measure/measure.h"
#include "host/process/hold.h"
#include "host/process/process-priv.h"

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

#define STOP_TIMEOUT 2000000000ull
#define PAGE 4096ull
#define CONTROL_MAX 65536 /* bytes of a thread's control block, and of what lies between it and the stack's end */

/* A file of that control group, version 2, at one of the usual places; the first that can be opened. */
static int open_group_file(const char *group, const char *name)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[512];
	int fd = -1;

	for (u32 i = 0; fd < 0 && i < DP_ARRAY_SIZE(mounts); i++) {
		snprintf(path, sizeof(path), "%s%s/%s", mounts[i], group, name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

int dp_group_open(pid_t pid)
{
	char path[64], line[512], group[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "0::/", 4))
			snprintf(group, sizeof(group), "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
	if (f)
		fclose(f);
	return group[0] ? open_group_file(group, "cgroup.events") : -1;
}

enum dp_group_state dp_group_look(int events)
{
	char text[256] = "";

	if (pread(events, text, sizeof(text) - 1, 0) <= 0 || strstr(text, "populated 0\n"))
		return DP_GROUP_EMPTY;
	return strstr(text, "frozen 1\n") ? DP_GROUP_FROZEN : DP_GROUP_RUNS;
}

bool dp_process_frozen(pid_t pid)
{
	int events = dp_group_open(pid);
	bool frozen = events >= 0 && dp_group_look(events) == DP_GROUP_FROZEN;

	if (events >= 0)
		close(events);
	return frozen;
}

pid_t dp_inner_tid(pid_t pid, pid_t tid)
{
	char ids[128] = "";
	const char *last;

	dp_status_field(pid, tid, "NSpid", ids, sizeof(ids));
	last = strrchr(ids, '\t');
	return (pid_t)atoi(last ? last + 1 : ids);
}

/* Run one classic filter program on a system call number with all arguments zero. */
static u32 run_filter(const struct sock_filter *f, unsigned len, u32 nr)
{
	struct seccomp_data data = {.nr = (int)nr, .arch = AUDIT_ARCH_X86_64};
	u32 a = 0, x = 0, m[BPF_MEMWORDS] = {0};

	for (unsigned pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &f[pc];
		u32 src = BPF_SRC(i->code) == BPF_X ? x : i->k;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
			if (BPF_MODE(i->code) == BPF_ABS && i->k + 4 <= sizeof(data))
				memcpy(&a, (const char *)&data + i->k, 4);
			else if (BPF_MODE(i->code) == BPF_MEM)
				a = m[i->k % BPF_MEMWORDS];
			else
				a = BPF_MODE(i->code) == BPF_IMM ? i->k : sizeof(data);
			break;
		case BPF_LDX:
			x = BPF_MODE(i->code) == BPF_MEM   ? m[i->k % BPF_MEMWORDS]
			    : BPF_MODE(i->code) == BPF_IMM ? i->k
							   : sizeof(data);
			break;
		case BPF_ST:
			m[i->k % BPF_MEMWORDS] = a;
			break;
		case BPF_STX:
			m[i->k % BPF_MEMWORDS] = x;
			break;
		case BPF_ALU:
			switch (BPF_OP(i->code)) {
			case BPF_ADD:
				a += src;
				break;
			case BPF_SUB:
				a -= src;
				break;
			case BPF_MUL:
				a *= src;
				break;
			case BPF_DIV:
				a = src ? a / src : 0;
				break;
			case BPF_AND:
				a &= src;
				break;
			case BPF_OR:
				a |= src;
				break;
			case BPF_XOR:
				a ^= src;
				break;
			case BPF_LSH:
				a = src < 32 ? a << src : 0;
				break;
			case BPF_RSH:
				a = src < 32 ? a >> src : 0;
				break;
			case BPF_NEG:
				a = -a;
				break;
			}
			break;
		case BPF_JMP:
			switch (BPF_OP(i->code)) {
			case BPF_JA:
				pc += i->k;
				break;
			case BPF_JEQ:
				pc += a == src ? i->jt : i->jf;
				break;
			case BPF_JGT:
				pc += a > src ? i->jt : i->jf;
				break;
			case BPF_JGE:
				pc += a >= src ? i->jt : i->jf;
				break;
			case BPF_JSET:
				pc += a & src ? i->jt : i->jf;
				break;
			}
			break;
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		case BPF_MISC:
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* Every filter of the stopped thread lets the call through; false when that cannot be known. */
static bool allowed(pid_t tid, u32 nr)
{
	struct sock_filter *code;
	bool ok = true;
	long n;

	for (u64 index = 0; ok && index < 64; index++) {
		n = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, index, 0);
		if (n < 0)
			return index > 0 && errno == ENOENT;
		code = calloc((size_t)n + 1, sizeof(*code));
		if (!code || ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid, index, code) != n)
			ok = false;
		else
			ok = (run_filter(code, (unsigned)n, nr) & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ALLOW;
		free(code);
	}
	return ok;
}

s64 dp_harmless_call(pid_t tid)
{
	static const u32 calls[] = {39 /* getpid */,         186 /* gettid */, 24 /* sched_yield */, 102 /* getuid */,
				    228 /* clock_gettime */, 202 /* futex */,  1 /* write */,        0 /* read */};
	u32 i = 0;

	while (i + 1 < DP_ARRAY_SIZE(calls) && !allowed(tid, calls[i]))
		i++;
	return calls[i];
}

static u32 syscall_caps(struct dp_caps *c, pid_t pid, pid_t tid)
{
	static const struct {
		u32 cap, nr;
	} calls[] = {
	    {DP_CAP_PVR, 310},     {DP_CAP_GETTID, 186},     {DP_CAP_PROBE_READ, 14}, {DP_CAP_SIGALTSTACK, 131},
	    {DP_CAP_FUTEX, 202},   {DP_CAP_GETCPU, 309},     {DP_CAP_GET_FS, 158},    {DP_CAP_GETUID, 102},
	    {DP_CAP_GETPPID, 110}, {DP_CAP_MEMBARRIER, 324},
	};
	char mode[16] = "0";
	u32 caps = 0;

	dp_status_field(pid, tid, "Seccomp", mode, sizeof(mode));
	c->seccomp = mode[0] != '0';
	for (size_t i = 0; i < DP_ARRAY_SIZE(calls); i++)
		if (mode[0] == '0' || (mode[0] == '2' && allowed(tid, calls[i].nr)))
			caps |= calls[i].cap;
	if (mode[0] == '0') /* that takes several calls, in the process and in its copy */
		caps |= DP_CAP_DUMP;
	return caps;
}

/* The thread id as the target's own process namespace has it. */
static u32 inner_tid(pid_t pid, pid_t tid)
{
	char ids[128] = "";
	const char *last;

	dp_status_field(pid, tid, "NSpid", ids, sizeof(ids));
	last = strrchr(ids, '\t');
	return (u32)atoi(last ? last + 1 : ids);
}

/* Where C libraries keep the thread id in the control block: glibc, musl. */
static void find_tid_offset(struct dp_caps *c, const struct dp_mem *mem, u64 tp, u32 tid)
{
	static const s32 places[] = {0x2d0, 0x30};

	for (size_t i = 0; i < DP_ARRAY_SIZE(places); i++) {
		u32 v = 0;

		if (!dp_mem_read(mem, tp + (u64)places[i], &v, 4, NULL) && v == tid) {
			c->tid_off = places[i];
			c->caps |= DP_CAP_TIDOFF;
			return;
		}
	}
}

/* By the ABI of threads a control block begins with its own address; other runtimes do as they like. */
static bool has_control_block(const struct dp_mem *mem, u64 tp)
{
	u64 self = 0;

	return tp && !dp_mem_read(mem, tp, &self, 8, NULL) && self == tp;
}

/* The same for every thread, and those to come are made by the same library. */
static bool have_control_blocks(struct dp_tracer *t, const struct dp_mem *mem)
{
	struct user_regs_struct regs;
	bool all = true;

	for (u32 i = 0; i < t->n && all; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->foreign || th->sharer)
			continue;
		if (!dp_tracer_stop(t, th, STOP_TIMEOUT)) {
			all = t->v[i].gone;
			continue;
		}
		th = &t->v[i];
		all = !ptrace(PTRACE_GETREGS, th->tid, 0, &regs);
		if (all) {
			all = has_control_block(mem, regs.fs_base);
			dp_fix_restart(th->tid, &regs, false);
			ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
		}
		dp_resume_unless_parked(t, th);
	}
	return all;
}

/* How the hit path finds the thread it runs in. */
static int choose_thread(struct dp_caps *c, struct dp_tracer *t, const struct dp_mem *mem, struct dp_error *err)
{
	const struct dp_machine *m = dp_measure_machine();

	if (m->caps & DP_CAP_RDFSBASE)
		c->caps |= DP_CAP_RDFSBASE;
	else if (have_control_blocks(t, mem))
		c->caps |= DP_CAP_FS_WORD;
	else if (m->fsbase_runs) /* though nobody says that it may */
		c->caps |= DP_CAP_RDFSBASE;
	else if (!(c->caps & DP_CAP_GET_FS))
		return dp_fail(
		    err, E_TARGET_CPU,
		    "no rdfsbase here, no control block behind the thread pointer of process %d, and a filter of "
		    "system calls",
		    (int)t->pid);
	return 0;
}

static void find_areas(struct dp_caps *c, struct dp_tracer *t, const struct dp_thread *th, const struct dp_mem *mem,
		       u64 tp)
{
	struct dp_rseq_configuration rc = {0};
	s64 off;

	if (!has_control_block(mem, tp))
		return;
	find_tid_offset(c, mem, tp, inner_tid(t->pid, th->tid));
	if (ptrace(DP_GET_RSEQ_CONFIGURATION, th->tid, sizeof(rc), &rc) < 0 || !rc.pointer)
		return;
	off = (s64)(rc.pointer - tp);
	if (rc.signature == DP_RSEQ_SIG && off > -65536 && off < 65536 && dp_measure_machine()->caps & DP_CAP_RSEQ) {
		c->rseq_off = (s32)off;
		c->caps |= DP_CAP_RSEQ;
	}
}

/* Whether a stack from lo on, of so many bytes, holds sp and has the thread's control block at its end. */
static bool is_stack(u64 lo, u64 size, u64 sp, u64 tp)
{
	return lo && lo % PAGE == 0 && lo <= sp && sp - lo < size && lo <= tp && tp - lo < size &&
	       size - (tp - lo) < CONTROL_MAX;
}

/*
 * Where the control block of a thread made by the C library says where its stack begins and how long it is (glibc,
 * musl): the only two words that can be that. Among the others are random ones. The control block of the first thread
 * says nothing of the kind.
 */
static u32 find_stack_words(const struct dp_mem *mem, u64 tp, u64 sp)
{
	u64 v[256];
	u32 n = DP_ARRAY_SIZE(v), at = 0;

	if (dp_mem_read(mem, tp, v, sizeof(v), NULL)) { /* a smaller one, at the end of its memory */
		n = (u32)(PAGE - tp % PAGE) / 8;
		if (n > DP_ARRAY_SIZE(v) || dp_mem_read(mem, tp, v, n * 8ull, NULL))
			return 0;
	}
	for (u32 i = 1; i + 1 < n; i++) {
		if (!is_stack(v[i], v[i + 1], sp, tp))
			continue;
		if (at)
			return 0;
		at = i * 8;
	}
	return at;
}

static void find_stacks(struct dp_caps *c, struct dp_tracer *t, const struct dp_mem *mem)
{
	struct user_regs_struct regs;

	for (u32 i = 0; i < t->n && !c->stack_off; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->tid == t->pid || th->foreign || th->sharer || !dp_tracer_stop(t, th, STOP_TIMEOUT))
			continue;
		th = &t->v[i];
		if (!ptrace(PTRACE_GETREGS, th->tid, 0, &regs)) {
			if (has_control_block(mem, regs.fs_base))
				c->stack_off = find_stack_words(mem, regs.fs_base, dp_user_sp(&regs));
			dp_fix_restart(th->tid, &regs, false);
			ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
		}
		dp_tracer_resume(t, th);
		return; /* what one does not tell the others would not either */
	}
}

int dp_fail_frozen(pid_t pid, struct dp_error *err)
{
	int r = dp_fail(err, E_TARGET_STUCK, "the control group of process %d is frozen", (int)pid);

	dp_error_hint(err, "thaw the group first");
	return r;
}

int dp_fail_stuck(const struct dp_tracer *t, struct dp_error *err)
{
	bool stopped;
	char state;
	int r;

	if (t->dead)
		return dp_fail(err, E_TARGET_GONE, "process %d", (int)t->pid);
	if (dp_process_frozen(t->pid))
		return dp_fail_frozen(t->pid, err);
	state = dp_thread_state(t->pid, t->pid);
	stopped = state == 'T' || state == 't'; /* t: while we trace it */
	r = dp_fail(err, E_TARGET_STUCK, stopped ? "process %d is stopped" : "process %d", (int)t->pid);
	if (stopped)
		dp_error_hint(err, "let it go on first: kill -CONT %d", (int)t->pid);
	return r;
}

int dp_caps_find(struct dp_caps *c, struct dp_tracer *t, const struct dp_mem *mem, struct dp_error *err)
{
	const struct dp_machine *m = dp_measure_machine(); /* the first time takes milliseconds: nobody waits for it */
	struct user_regs_struct regs;

	memset(c, 0, sizeof(*c));
	for (u32 i = 0; i < t->n; i++) {
		struct dp_thread *th = &t->v[i];

		if (th->foreign || th->sharer || !dp_tracer_stop(t, th, STOP_TIMEOUT))
			continue;
		th = &t->v[i];
		if (ptrace(PTRACE_GETREGS, th->tid, 0, &regs))
			continue;
		c->caps = syscall_caps(c, t->pid, th->tid);
		c->caps |= m->caps & (DP_CAP_RDPID | DP_CAP_RDTSCP | DP_CAP_LSL);
		find_areas(c, t, th, mem, regs.fs_base);
		dp_fix_restart(th->tid, &regs, false);
		ptrace(PTRACE_SETREGS, th->tid, 0, &regs);
		dp_resume_unless_parked(t, th);
		find_stacks(c, t, mem);
		return choose_thread(c, t, mem, err);
	}
	return dp_fail_stuck(t, err);
}

int dp_process_caps(pid_t pid, struct dp_process_caps *out, struct dp_error *err)
{
	struct dp_process proc;
	struct dp_tracer t = {0};
	struct dp_control ctl = {0};
	struct dp_caps c = {0};
	struct dp_mem mem;
	int r = dp_process_read(&proc, pid, err);

	*out = (struct dp_process_caps){0};
	if (r)
		return r;
	dp_process_free(&proc);
	r = dp_mem_open(&mem, pid, err);
	if (r)
		return r;
	r = dp_process_hold(pid, err);
	if (!r) {
		r = dp_tracer_attach(&t, pid, err);
		if (!r) {
			out->nthreads = t.n;
			r = dp_caps_find(&c, &t, &mem, err);
			dp_tracer_detach(&t);
		}
		dp_process_release(pid);
	}
	dp_mem_close(&mem);
	ctl.caps = out->caps = c.caps;
	out->rseq_off = c.rseq_off;
	out->seccomp = c.seccomp;
	out->compiled = dp_jit_usable(&ctl);
	return r;
}
