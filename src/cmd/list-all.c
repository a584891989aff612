/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* `dprobes list` without a process: which processes have probes, how many, and whose they are. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "host/process/process.h"
#include "log/format.h"

#define COMMAND_MAX 200
#define START_FIELD 22 /* of /proc/PID/stat, by proc(5) */

struct owned { /* the probes of one dprobes in one process */
	pid_t pid, owner;
	u32 probes;
};

struct overview {
	struct owned *v;
	size_t n, room;
	u32 closed; /* processes that may not be looked at */
};

static size_t read_file(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	n = f ? fread(buf, 1, size - 1, f) : 0;
	buf[n] = '\0';
	if (f)
		fclose(f);
	return n;
}

/* Seconds since the process was started; < 0: not known. */
static double age_of(pid_t pid)
{
	struct timespec now;
	char text[1024], *p;
	double seconds;

	read_file(pid, "stat", text, sizeof(text));
	p = strrchr(text, ')'); /* the second field is a name, which may hold anything */
	for (int field = 2; p && field < START_FIELD; field++)
		p = strchr(p + 1, ' ');
	if (!p || clock_gettime(CLOCK_BOOTTIME, &now))
		return -1;
	seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - strtod(p, NULL) / (double)sysconf(_SC_CLK_TCK);
	return DP_MAX(seconds, 0.0);
}

static void put_age(double seconds, char buf[16])
{
	if (seconds < 0)
		strcpy(buf, "-");
	else if (seconds < 100)
		snprintf(buf, 16, "%.0f s", seconds);
	else if (seconds < 6000)
		snprintf(buf, 16, "%.0f min", seconds / 60);
	else
		snprintf(buf, 16, "%.0f h", seconds / 3600);
}

/* As it was typed, about. */
static void put_command(pid_t pid, char *buf, size_t size)
{
	size_t n = read_file(pid, "cmdline", buf, size);

	for (size_t i = 0; i + 1 < n; i++)
		if (!buf[i])
			buf[i] = ' ';
}

static bool add(struct overview *o, pid_t pid, pid_t owner)
{
	for (size_t i = o->n; i > 0 && o->v[i - 1].pid == pid; i--)
		if (o->v[i - 1].owner == owner) {
			o->v[i - 1].probes++;
			return true;
		}
	if (!dp_grow((void **)&o->v, &o->room, o->n, sizeof(*o->v)))
		return false;
	o->v[o->n++] = (struct owned){pid, owner, 1};
	return true;
}

static bool look(struct overview *o, pid_t pid)
{
	struct dp_standing *v = NULL;
	struct dp_error err = {0};
	bool fits = true;
	u32 n = 0;

	if (dp_standing_read(pid, &v, &n, &err)) /* or it has ended meanwhile */
		o->closed += err.code == E_TARGET_PERM;
	for (u32 i = 0; i < n && fits; i++)
		if (v[i].state != DP_STANDING_GONE)
			fits = add(o, pid, v[i].owner);
	free(v);
	return fits;
}

static int by_pid(const void *a, const void *b)
{
	const struct owned *x = a, *y = b;

	return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : (x->owner > y->owner) - (x->owner < y->owner);
}

void dp_cmd_json_owner(struct dp_json *j, pid_t owner)
{
	dp_json_key(j, "owner");
	owner > 0 ? dp_json_signed(j, owner) : dp_json_null(j);
	dp_json_put_bool(j, "running", dp_cmd_lives(owner));
}

static void json_row(const struct owned *r)
{
	double age = r->owner > 0 && dp_cmd_lives(r->owner) ? age_of(r->owner) : -1;
	char name[16] = "", command[COMMAND_MAX] = "";
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_task_comm((u32)r->pid, name);
	if (age >= 0)
		put_command(r->owner, command, sizeof(command));
	dp_json_open(&j, '{');
	dp_json_put_unsigned(&j, "pid", (u64)r->pid);
	dp_json_put_string(&j, "name", name);
	dp_json_put_unsigned(&j, "probes", r->probes);
	dp_cmd_json_owner(&j, r->owner);
	dp_json_key(&j, "age");
	age >= 0 ? dp_json_seconds(&j, (u64)(age * 1e9)) : dp_json_null(&j);
	dp_json_put_string(&j, "command", command);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

static void print(const struct owned *r)
{
	char name[16] = "", who[32] = "dprobes", age[16] = "-", command[COMMAND_MAX] = "";

	dp_task_comm((u32)r->pid, name);
	if (r->owner && !dp_cmd_lives(r->owner)) {
		snprintf(who, sizeof(who), "%d (ended)", (int)r->owner);
	} else if (r->owner == DP_OWNER_UNSEEN) {
		snprintf(who, sizeof(who), "elsewhere");
	} else if (r->owner) {
		snprintf(who, sizeof(who), "%d", (int)r->owner);
		put_age(age_of(r->owner), age);
		put_command(r->owner, command, sizeof(command));
	}
	printf("%7d  %-15s  %6u  %-16s  %7s", (int)r->pid, dp_ui_clean(name), r->probes, who, age);
	printf("  %s\n", dp_ui_clean(command));
}

int dp_cmd_list_processes(bool json)
{
	struct overview o = {0};
	struct dirent *e;
	DIR *dir = opendir("/proc");
	bool fits = true;

	if (!dir)
		return dp_ui_fail(E_PROC_PERM, NULL, "/proc");
	while (fits && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			fits = look(&o, (pid_t)atol(e->d_name));
	closedir(dir);
	qsort(o.v, o.n, sizeof(*o.v), by_pid);
	if (o.n && !json)
		printf("%7s  %-15s  %6s  %-16s  %7s  %s\n", "PROCESS", "NAME", "PROBES", "DPROBES", "AGE", "COMMAND");
	for (size_t i = 0; i < o.n; i++)
		(json ? json_row : print)(&o.v[i]);
	if (!o.n)
		dp_ui_note("no process has probes that a dprobes has set");
	if (o.closed && geteuid())
		dp_ui_note("%u processes of other users were not looked at", o.closed);
	free(o.v);
	return fits ? CMD_OK : dp_ui_fail(E_ARM_NOMEM, NULL, "the list");
}
