/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes doctor`: what this machine, a process and the kernel module allow, what was found by trying it, and what
 * follows for probes. Nothing is changed; a process is stopped for some microseconds.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "abi/abi-control.h"
#include "cmd/cmd.h"
#include "cmd/doctor.h"
#include "host/kernel/kernel.h"
#include "host/process/process.h"

void dp_doctor_row(struct doctor *d, enum doctor_grade grade, const char *name, const char *follows, const char *fmt,
		   ...)
{
	struct doctor_row *r;
	va_list ap;

	if (d->n == DP_ARRAY_SIZE(d->v))
		return;
	r = &d->v[d->n++];
	*r = (struct doctor_row){.part = d->part, .name = name, .follows = follows, .grade = grade};
	va_start(ap, fmt);
	vsnprintf(r->found, sizeof(r->found), fmt, ap);
	va_end(ap);
}

static const char *const grades[] = {
    [DOCTOR_GOOD] = "good", [DOCTOR_SLOW] = "slower", [DOCTOR_LESS] = "less", [DOCTOR_BAD] = "bad"};

static void print_text(const struct doctor *d)
{
	static const enum ui_style styles[] = {
	    [DOCTOR_GOOD] = UI_PLAIN, [DOCTOR_SLOW] = UI_YELLOW, [DOCTOR_LESS] = UI_YELLOW, [DOCTOR_BAD] = UI_RED};
	int name = 0, found = 0;

	for (u32 i = 0; i < d->n; i++) {
		name = DP_MAX(name, (int)strlen(d->v[i].name));
		found = DP_MAX(found, (int)strlen(d->v[i].found));
	}
	for (u32 i = 0; i < d->n; i++) {
		const struct doctor_row *r = &d->v[i];

		if (!i || strcmp(r->part, d->v[i - 1].part))
			printf("%s%s%s%s\n", i ? "\n" : "", dp_ui_style(stdout, UI_BOLD), r->part,
			       dp_ui_style(stdout, UI_PLAIN));
		printf("  %-*s  %s%-*s%s%s%s\n", name, r->name, dp_ui_style(stdout, styles[r->grade]),
		       *r->follows ? found : 0, r->found, dp_ui_style(stdout, UI_PLAIN), *r->follows ? "  " : "",
		       r->follows);
	}
}

static void print_json(const struct doctor *d)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line, .one_a_line = true};

	dp_json_open(&j, '{');
	dp_json_key(&j, "capabilities");
	dp_json_open(&j, '[');
	for (u32 i = 0; i < d->n; i++) {
		const char *fields[] = {"part",        d->v[i].part,   "name",  d->v[i].name,
					"found",       d->v[i].found,  "grade", grades[d->v[i].grade],
					"consequence", d->v[i].follows};

		dp_json_open(&j, '{');
		for (u32 k = 0; k < DP_ARRAY_SIZE(fields); k += 2) {
			dp_json_key(&j, fields[k]);
			dp_json_string(&j, fields[k + 1]);
		}
		dp_json_close(&j, '}');
	}
	dp_json_close(&j, ']');
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

/* ---- a process ---- */

#define ALLOWED(c, cap) ((c)->caps & (cap) ? "allowed" : "not allowed")

static enum doctor_grade grade(bool good, enum doctor_grade otherwise)
{
	return good ? DOCTOR_GOOD : otherwise;
}

static int look_at_process(struct doctor *d, pid_t pid)
{
	static char title[64];
	struct dp_process_caps c;
	struct dp_error err = {0};

	snprintf(title, sizeof(title), "process %d", (int)pid);
	d->part = title;
	if (dp_process_caps(pid, &c, &err)) {
		dp_doctor_row(d, DOCTOR_BAD, "probes", "none in this process", "%s: %.100s",
			      dp_error_info(err.code)->name, err.detail);
		return 0;
	}
	dp_doctor_row(d, DOCTOR_GOOD, "attach", "probes can be inserted", "allowed, %u thread%s", c.nthreads,
		      c.nthreads == 1 ? "" : "s");
	dp_doctor_row(d, grade(!c.seccomp, DOCTOR_LESS), "filter of system calls",
		      c.seccomp ? "no core dumps or stops by programs, no pagepoints" : "-",
		      c.seccomp ? "in force" : "none");
	if (c.caps & DP_CAP_RSEQ)
		dp_doctor_row(d, DOCTOR_GOOD, "restartable sequences",
			      "records are committed to a ring of the processor's own",
			      "an area of %d bytes from the thread pointer", c.rseq_off);
	else
		dp_doctor_row(d, DOCTOR_SLOW, "restartable sequences", "records use a locked ring", "none registered");
	dp_doctor_row(d, grade(c.caps & (DP_CAP_RDFSBASE | DP_CAP_FS_WORD), DOCTOR_SLOW), "the thread",
		      c.caps & (DP_CAP_RDFSBASE | DP_CAP_FS_WORD) ? "-" : "each hit makes a system call",
		      c.caps & DP_CAP_RDFSBASE  ? "by rdfsbase"
		      : c.caps & DP_CAP_FS_WORD ? "by the word at the thread pointer"
						: "by arch_prctl");
	dp_doctor_row(d, grade(c.caps & DP_CAP_TIDOFF, DOCTOR_SLOW), "thread id",
		      c.caps & DP_CAP_TIDOFF ? "-" : "looked up once in each thread",
		      c.caps & DP_CAP_TIDOFF ? "in the thread's control block"
					     : "not found in the control block; gettid is %s",
		      ALLOWED(&c, DP_CAP_GETTID));
	dp_doctor_row(d, grade(c.compiled, DOCTOR_SLOW), "compiled programs",
		      c.compiled ? "small ones need no slot" : "programs run from a slot", c.compiled ? "yes" : "no");
	dp_doctor_row(d, grade(c.caps & DP_CAP_PVR, c.caps & DP_CAP_PROBE_READ ? DOCTOR_SLOW : DOCTOR_LESS),
		      "reads of memory",
		      c.caps & DP_CAP_PVR          ? "bad pointers are reported, never followed"
		      : c.caps & DP_CAP_PROBE_READ ? "by rt_sigprocmask, page by page; programs cannot write"
						   : "only the stack's page and file segments",
		      "process_vm_readv is %s", ALLOWED(&c, DP_CAP_PVR));
	dp_doctor_row(d, grade(c.caps & DP_CAP_FUTEX, DOCTOR_LESS), "waiting at a hit",
		      c.caps & DP_CAP_FUTEX ? "-" : "no watchpoints behind arguments (E-WATCH-CALL)", "futex is %s",
		      ALLOWED(&c, DP_CAP_FUTEX));
	dp_doctor_row(d, grade(c.caps & DP_CAP_DUMP, DOCTOR_LESS), "copies and stops",
		      c.caps & DP_CAP_DUMP ? "`exit 1` stops it for a debugger, `exit 3` writes a core dump of a copy"
					   : "no `exit 1`, `exit 3` and `exit 4`",
		      "clone is %s", ALLOWED(&c, DP_CAP_DUMP));
	return 0;
}

/* ---- the kernel module ---- */

static void look_at_module(struct doctor *d)
{
	struct dp_session_options opt = {0};
	struct dp_error err = {0};
	struct dp_kernel *k;

	d->part = "kernel module";
	if (dp_kernel_open(&k, &opt, &err)) {
		dp_doctor_row(d, DOCTOR_LESS, "dprobes.ko", "no probes in the kernel; processes can still be probed",
			      "%s: %.100s", dp_error_info(err.code)->name,
			      err.detail[0] ? err.detail : dp_error_info(err.code)->sentence);
		return;
	}
	dp_doctor_row(d, DOCTOR_GOOD, "dprobes.ko", "probes in the kernel", "loaded, of this version");
	dp_kernel_close(k);
}

int dp_cmd_doctor(int argc, char **argv)
{
	struct cmd_words w = {.most = 0};
	struct doctor *d;
	bool bad = false;
	int status;

	if (!dp_cmd_words(VERB_DOCTOR, argc, argv, &w, &status))
		return status;
	d = calloc(1, sizeof(*d));
	if (!d)
		return CMD_FAILED;
	dp_doctor_machine(d);
	if (w.pid)
		look_at_process(d, w.pid);
	look_at_module(d);
	(dp_cmd_has(&w, OPT_JSON) ? print_json : print_text)(d);
	for (u32 i = 0; i < d->n; i++)
		bad |= d->v[i].grade == DOCTOR_BAD;
	free(d);
	return bad ? CMD_FAILED : CMD_OK;
}
