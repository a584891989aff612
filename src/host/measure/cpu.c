/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What tells the processor and the thread: tried on every processor by a child of ours, since an instruction that is
 * not there raises a signal. In a virtual machine CPUID may deny what works, and what works may tell the number of the
 * host's processor.
 */
#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "arch/arch.h"
#include "host/measure/measure.h"

#define HWCAP2_FSGSBASE_BIT 2

/* Of the C library, where it registers an area (glibc 2.35). */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static sigjmp_buf back;

static void on_fault(int sig)
{
	siglongjmp(back, sig);
}

static u64 base_by_call(int what)
{
	u64 v = 0;

	return syscall(SYS_arch_prctl, what, &v) ? ~0ull : v;
}

static u64 cpu_by_call(void)
{
	u32 cpu = 0;

	return syscall(SYS_getcpu, &cpu, NULL, NULL) ? ~0ull : cpu;
}

/* What it gives, and what is right. False: it is not there. */
static bool try_one(enum dp_trial trial, u64 *got, u64 *want)
{
	u32 cpu = 0;

	*want = trial < DP_TRY_RDFSBASE ? cpu_by_call()
					: base_by_call(trial == DP_TRY_RDGSBASE ? ARCH_GET_GS : ARCH_GET_FS);
	switch (trial) {
	case DP_TRY_RSEQ:
		if (!&__rseq_size || !__rseq_size)
			return false;
		*got = *(volatile u32 *)((u8 *)__builtin_thread_pointer() + __rseq_offset + 4);
		return true;
	case DP_TRY_RDPID:
		*got = dp_rdpid();
		return true;
	case DP_TRY_RDTSCP:
		dp_rdtscp(&cpu);
		*got = cpu;
		return true;
	case DP_TRY_LSL:
		*got = dp_cpu_by_limit();
		return *got != (u32)~0u;
	case DP_TRY_RDFSBASE:
		*got = dp_rdfsbase();
		return true;
	case DP_TRY_RDGSBASE:
		*got = dp_rdgsbase();
		return true;
	default:
		*got = dp_fs_word();
		return true;
	}
}

static void try_and_note(enum dp_trial trial, struct dp_trial_result *r)
{
	u64 got = 0, want = 0;

	if (!try_one(trial, &got, &want))
		return;
	r->ran++;
	r->right += got == want;
	if (got != want) {
		r->got = got;
		r->want = want;
	}
}

static void try_all(struct dp_machine *m)
{
	for (volatile u32 i = 0; i < DP_NTRIALS; i++)
		if (!sigsetjmp(back, 1))
			try_and_note((enum dp_trial)i, &m->v[i]);
}

/* In the child: results go to shared memory, as far as it comes. */
static void child(struct dp_machine *m, int ncpus)
{
	struct sigaction sa = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	size_t size = CPU_ALLOC_SIZE(ncpus);
	u8 bits[1024]; /* of 8192 processors; no memory is asked for here */
	cpu_set_t *set = (cpu_set_t *)bits;
	sigset_t faults;

	sigemptyset(&faults);
	for (int sig = SIGILL; sig <= SIGSEGV; sig++)
		if (sig == SIGILL || sig == SIGBUS || sig == SIGSEGV) {
			sigaction(sig, &sa, NULL);
			sigaddset(&faults, sig);
		}
	sigprocmask(SIG_UNBLOCK, &faults, NULL);
	for (int cpu = 0; cpu < ncpus && size <= sizeof(bits); cpu++) {
		CPU_ZERO_S(size, set);
		CPU_SET_S(cpu, size, set);
		if (sched_setaffinity(0, size, set))
			continue;
		m->tried++;
		try_all(m);
	}
	_exit(0);
}

static void ask(struct dp_machine *m)
{
	u32 a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		m->v[DP_TRY_RDPID].told = c >> 22 & 1;
		m->v[DP_TRY_RDFSBASE].told = b & 1 && getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT;
	}
	m->v[DP_TRY_RDGSBASE].told = m->v[DP_TRY_RDFSBASE].told;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		m->v[DP_TRY_RDTSCP].told = d >> 27 & 1;
	m->v[DP_TRY_LSL].told = true;
	m->v[DP_TRY_RSEQ].told = &__rseq_size && __rseq_size;
	m->v[DP_TRY_FS_WORD].told = true;
}

static bool is_right(const struct dp_machine *m, enum dp_trial i)
{
	return m->tried && m->v[i].right == m->tried;
}

static void decide(struct dp_machine *m)
{
	static const struct {
		enum dp_trial trial;
		u32 cap;
	} numbers[] = {{DP_TRY_RDPID, DP_CAP_RDPID}, {DP_TRY_RDTSCP, DP_CAP_RDTSCP}, {DP_TRY_LSL, DP_CAP_LSL}};

	for (u32 i = 0; i < DP_ARRAY_SIZE(numbers); i++)
		if (m->v[numbers[i].trial].told && is_right(m, numbers[i].trial))
			m->caps |= numbers[i].cap;
	m->fsbase_runs = is_right(m, DP_TRY_RDFSBASE) && is_right(m, DP_TRY_RDGSBASE);
	if (m->v[DP_TRY_RDFSBASE].told && m->fsbase_runs)
		m->caps |= DP_CAP_RDFSBASE;
	/* Our own C library may have none where the target's has: only a wrong number speaks against it. */
	if (m->v[DP_TRY_RSEQ].right == m->v[DP_TRY_RSEQ].ran)
		m->caps |= DP_CAP_RSEQ;
}

const struct dp_machine *dp_measure_machine(void)
{
	static struct dp_machine machine;
	static bool done;
	struct dp_machine *m;
	int ncpus, status;
	pid_t pid;

	if (done)
		return &machine;
	ncpus = (int)sysconf(_SC_NPROCESSORS_CONF); /* a file is read for it */
	ask(&machine);
	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m != MAP_FAILED) {
		*m = machine;
		/* Without a signal at its end: nobody else hears of it. */
		pid = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
		if (!pid)
			child(m, ncpus);
		while (pid > 0 && waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
			;
		machine = *m;
		munmap(m, sizeof(*m));
	}
	decide(&machine);
	done = true;
	return &machine;
}
