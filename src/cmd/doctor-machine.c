/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the machine and its kernel can do: each thing is tried on ourselves, or on a child of ours. */
#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "cmd/cmd.h"
#include "cmd/doctor.h"
#include "host/measure/measure.h"
#include "host/process/process-load.h"
#include "host/process/process.h"

static void first_line(const char *path, const char *key, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	char line[512];

	snprintf(buf, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		const char *v = key ? strchr(line, ':') : line;

		if (!v || (key && strncmp(line, key, strlen(key))))
			continue;
		v += key != NULL;
		v += strspn(v, " \t");
		snprintf(buf, size, "%.*s", (int)DP_MIN(strcspn(v, "\n"), (size_t)100), v);
		break;
	}
	if (f)
		fclose(f);
}

static void system_call(struct doctor *d)
{
	u64 best = ~0ull;

	for (int round = 0; round < 5; round++) {
		struct timespec a, b;

		clock_gettime(CLOCK_MONOTONIC, &a);
		for (int i = 0; i < 2000; i++)
			syscall(SYS_getppid);
		clock_gettime(CLOCK_MONOTONIC, &b);
		best = DP_MIN(best, (u64)((b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec) / 2000);
	}
	dp_doctor_row(d, best > 500 ? DOCTOR_SLOW : DOCTOR_GOOD, "a system call",
		      "the least that reading memory which may be unmapped costs", "%llu ns", (unsigned long long)best);
}

/* ---- instructions ---- */

static void trial(const struct dp_machine *m, enum dp_trial i, char *buf, size_t size)
{
	const struct dp_trial_result *r = &m->v[i];
	const char *told = r->told ? "" : ", although it is not reported as present";

	if (!r->ran)
		snprintf(buf, size, "%s", r->told ? "reported as present, but does not run" : "not present");
	else if (r->right == r->ran)
		snprintf(buf, size, "correct on %u of %u processor%s%s", r->right, m->tried, m->tried == 1 ? "" : "s",
			 told);
	else
		snprintf(buf, size, "wrong: 0x%llx where the kernel says 0x%llx%s", (unsigned long long)r->got,
			 (unsigned long long)r->want, told);
}

static void processor_number(struct doctor *d, const struct dp_machine *m)
{
	static const struct {
		enum dp_trial trial;
		const char *name;
	} rows[] = {{DP_TRY_RSEQ, "  thread's area (rseq)"},
		    {DP_TRY_RDPID, "  rdpid"},
		    {DP_TRY_RDTSCP, "  rdtscp"},
		    {DP_TRY_LSL, "  segment limit (lsl)"}};
	u32 used = m->caps & DP_CAP_RDPID ? DP_CAP_RDPID : m->caps & DP_CAP_LSL ? DP_CAP_LSL : m->caps & DP_CAP_RDTSCP;
	char text[160];

	dp_doctor_row(d, used == DP_CAP_RDPID ? DOCTOR_GOOD : DOCTOR_SLOW, "processor's number",
		      used ? "small programs are compiled to code of their own"
			   : "programs run from a slot, and records use locked rings",
		      "%s",
		      used == DP_CAP_RDPID    ? "by rdpid"
		      : used == DP_CAP_LSL    ? "by rseq and the segment limit"
		      : used == DP_CAP_RDTSCP ? "by rseq and rdtscp"
					      : "by rseq and getcpu");
	for (u32 i = 0; i < DP_ARRAY_SIZE(rows); i++) {
		trial(m, rows[i].trial, text, sizeof(text));
		dp_doctor_row(d, DOCTOR_GOOD, rows[i].name, "", "%s", text);
	}
}

static void thread_pointer(struct doctor *d, const struct dp_machine *m)
{
	char text[160];

	trial(m, DP_TRY_RDFSBASE, text, sizeof(text));
	dp_doctor_row(d, m->caps & DP_CAP_RDFSBASE ? DOCTOR_GOOD : DOCTOR_SLOW, "rdfsbase",
		      m->caps & DP_CAP_RDFSBASE ? "a hit identifies its thread with it"
		      : m->fsbase_runs
			  ? "used only where the word at the thread pointer is not its address"
			  : "the word at the thread pointer is used; without one (Go), each hit makes a system call",
		      "%s", text);
}

static void all_registers(struct doctor *d)
{
	unsigned bytes = dp_load_state();

	if (bytes)
		dp_doctor_row(d, DOCTOR_GOOD, "xsave", "`dprobes load` saves all registers of the thread that it uses",
			      "%u bytes", bytes);
	else
		dp_doctor_row(d, DOCTOR_LESS, "xsave", "no `dprobes load` (E-TARGET-CPU)", "not enabled");
}

/* ---- the kernel ---- */

static void watchpoints(struct doctor *d)
{
	static const struct {
		enum dp_watch_type type;
		const char *name;
	} rows[] = {{DP_WATCH_W, "debug registers: writes"},
		    {DP_WATCH_RW, "debug registers: reads"},
		    {DP_WATCH_X, "debug registers: execution"}};
	struct dp_error err = {0};
	int e = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(rows); i++) {
		enum dp_measured r = dp_measure_watch(rows[i].type, &e);

		dp_doctor_row(d, r == DP_WORKS ? DOCTOR_GOOD : DOCTOR_LESS, rows[i].name,
			      r == DP_WORKS  ? "watchpoints"
			      : r == DP_DEAD ? (rows[i].type == DP_WATCH_W ? "pages are watched instead where possible"
									   : "refused: E-WATCH-DEAD")
			      : e == ENOSPC  ? "no watchpoint now"
					     : "no watchpoints",
			      "%s%s",
			      r == DP_WORKS  ? "fired"
			      : r == DP_DEAD ? "set, but never fired"
					     : "not set: ",
			      r == DP_UNKNOWN ? strerror(e) : "");
	}
	if (dp_session_can_watch_pages(&err))
		dp_doctor_row(d, DOCTOR_LESS, "pages (--pages)",
			      "watchpoints are limited to the debug registers' sizes", "%.120s", err.detail);
	else
		dp_doctor_row(d, DOCTOR_GOOD, "pages (--pages)", "writes to any number of bytes can be watched",
			      "works");
}

static void memory(struct doctor *d)
{
	u64 from = 0x1234, to = 0;
	struct iovec here = {&to, 8}, there = {&from, 8};
	bool good = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 8 && to == from;

	dp_doctor_row(d, good ? DOCTOR_GOOD : DOCTOR_SLOW, "process_vm_readv",
		      good ? "programs can read any memory safely" : "programs read memory page by page", "%s",
		      good ? "works" : strerror(errno));
}

static void barrier(struct doctor *d)
{
	long can = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	bool good = can >= 0 && can & MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE &&
		    !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) &&
		    !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);

	dp_doctor_row(d, good ? DOCTOR_GOOD : DOCTOR_SLOW, "membarrier",
		      good ? "threads keep running while code changes"
			   : "each thread is stopped at each step of arming; no libdprobes",
		      "%s",
		      good      ? "serialises all threads"
		      : can < 0 ? strerror(errno)
				: "cannot serialise");
}

/* A child of ours is seized and stopped, as targets are. */
static void attach(struct doctor *d)
{
	char scope[128];
	int e = 0, status;
	pid_t pid = fork();

	if (!pid) {
		for (;;)
			pause();
	}
	if (pid < 0 || ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
	    waitpid(pid, &status, __WALL) != pid)
		e = errno ? errno : EIO;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, __WALL);
	}
	first_line("/proc/sys/kernel/yama/ptrace_scope", NULL, scope, sizeof(scope));
	dp_doctor_row(d, e ? DOCTOR_BAD : DOCTOR_GOOD, "ptrace",
		      e           ? "no probes in processes"
		      : geteuid() ? "processes of the same user"
				  : "all processes",
		      "%s%s%s", e ? strerror(e) : "a child was seized and stopped",
		      strcmp(scope, "unknown") ? ", yama " : "", strcmp(scope, "unknown") ? scope : "");
}

static void performance_events(struct doctor *d)
{
	char text[128];

	first_line("/proc/sys/kernel/perf_event_paranoid", NULL, text, sizeof(text));
	dp_doctor_row(d, strcmp(text, "unknown") ? DOCTOR_GOOD : DOCTOR_LESS, "perf_event_paranoid",
		      strcmp(text, "unknown") ? "above 2, watchpoints need root"
					      : "no performance events: no watchpoints",
		      "%s", text);
}

void dp_doctor_machine(struct doctor *d)
{
	const struct dp_machine *m = dp_measure_machine();
	struct utsname u;
	char text[128];

	d->part = "machine";
	uname(&u);
	first_line("/proc/cpuinfo", "model name", text, sizeof(text));
	dp_doctor_row(d, DOCTOR_GOOD, "processor", "", "%s, %ld online, %u tried", text, sysconf(_SC_NPROCESSORS_ONLN),
		      m->tried);
	dp_doctor_row(d, DOCTOR_GOOD, "kernel", "", "%s %s", u.sysname, u.release);
	system_call(d);
	processor_number(d, m);
	thread_pointer(d, m);
	all_registers(d);
	watchpoints(d);
	performance_events(d);
	memory(d);
	barrier(d);
	attach(d);
}
