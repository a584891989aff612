/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is measured of the machine, against the kernel's word: a capability that is said to be there is right on every
 * processor, and measuring leaves no trace in the process.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "abi/abi-control.h"
#include "../lib/fires.h"
#include "arch/x86_64/machine.h"
#include "host/measure/measure.h"

static int tests, failures, children;

static void ok(bool good, const char *name)
{
	tests++;
	failures += !good;
	printf("%sok %d - %s\n", good ? "" : "not ", tests, name);
}

static void on_child(int sig)
{
	children++;
}

static u32 kernels_number(void)
{
	u32 cpu = 0;

	syscall(SYS_getcpu, &cpu, NULL, NULL);
	return cpu;
}

static void test_numbers(const struct dp_machine *m)
{
	bool rdpid = true, rdtscp = true, lsl = true;
	cpu_set_t all, one;
	u32 n = 0, cpu;

	sched_getaffinity(0, sizeof(all), &all);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		if (!CPU_ISSET(i, &all) || sched_setaffinity(0, sizeof(one), &one))
			continue;
		n++;
		if (m->caps & DP_CAP_RDPID)
			rdpid &= dp_rdpid() == kernels_number();
		if (m->caps & DP_CAP_LSL)
			lsl &= dp_cpu_by_limit() == kernels_number();
		if (m->caps & DP_CAP_RDTSCP) {
			dp_rdtscp(&cpu);
			rdtscp &= cpu == kernels_number();
		}
	}
	sched_setaffinity(0, sizeof(all), &all);
	ok(m->tried >= n && n, "every processor was tried");
	ok(rdpid, "rdpid is used only where it is right");
	ok(rdtscp, "rdtscp is used only where it is right");
	ok(lsl, "the segment limit is used only where it is right");
}

static void test_costs(void)
{
	struct sigaction before, after;
	double stamp, sig;

	sigaction(SIGURG, NULL, &before);
	stamp = dp_measure_stamp_ns();
	sig = dp_measure_signal_ns();
	sigaction(SIGURG, NULL, &after);
	printf("# figure: time stamp %.1f ns, signal %.0f ns, watched access %.0f ns\n", stamp, sig,
	       dp_measure_watch_ns());
	ok(stamp > 0 && sig > stamp, "a time stamp and a signal take time, the signal more");
	ok(before.sa_handler == after.sa_handler, "the action for the signal is kept");
}

int main(void)
{
	struct sigaction sa = {.sa_handler = on_child}, before, after;
	const struct dp_machine *m;
	int fires = debug_registers_fire();
	struct dp_error err = {0};
	bool same = true;

	sigaction(SIGCHLD, &sa, NULL);
	sigaction(SIGILL, NULL, &before);
	m = dp_measure_machine();
	sigaction(SIGILL, NULL, &after);
	test_numbers(m);
	for (u32 i = 0; i < DP_NTRIALS; i++)
		same &= m->v[i].right <= m->v[i].ran && m->v[i].ran <= m->tried;
	ok(same, "nothing ran on more processors than were tried");
	ok(!(m->caps & DP_CAP_RDPID) || m->v[DP_TRY_RDPID].told,
	   "what CPUID denies is not used for the processor's number");
	ok(!(m->caps & DP_CAP_RDFSBASE) || dp_rdfsbase() == (u64)__builtin_thread_pointer(),
	   "rdfsbase gives the thread pointer");
	ok(m->v[DP_TRY_FS_WORD].right == m->tried,
	   "the word at the thread pointer is its own address in a program with a C library");
	ok(before.sa_handler == after.sa_handler, "the action of SIGILL is what it was");
	ok(!children && waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD, "no child is left, and none was heard of");
	test_costs();
	ok(dp_measure_machine() == m, "the second time nothing is tried");
	ok(fires < 0 ? dp_measure_watch(DP_WATCH_W, NULL) == DP_UNKNOWN
		     : dp_measure_watch(DP_WATCH_W, NULL) == (fires ? DP_WORKS : DP_DEAD),
	   "debug registers: as the test's own attempt");
	ok(!dp_measure_watch_check(DP_WATCH_W, &err) == (fires != 0) && (fires || err.code == E_WATCH_DEAD),
	   "a dead one is an error with a name");
	ok(!dp_measure_watch_check(DP_WATCH_IO, &err), "ports are somebody else's refusal");
	printf("1..%d\n", tests);
	return failures != 0;
}
