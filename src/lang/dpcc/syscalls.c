/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is known of system calls: names and errors by the kernel's headers, arguments by syscall-args.def. */
#include <asm/prctl.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/bpf.h>
#include <linux/close_range.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/membarrier.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/rseq.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "lang/dpcc/dpcc-priv.h"
#include "base/nearest.h"
#include "lang/dpcc/syscalls.h"

static const struct {
	const char *name;
	u32 number;
} calls[] = {
#define DP_SYSTEM_CALL(name, number) {#name, number},
#define DP_SYSTEM_ERROR(name, number)
#include <syscall-names.def>
#undef DP_SYSTEM_CALL
#undef DP_SYSTEM_ERROR
};

static const struct {
	const char *name;
	u32 number;
} errors[] = {
#define DP_SYSTEM_CALL(name, number)
#define DP_SYSTEM_ERROR(name, number) {#name, number},
#include <syscall-names.def>
#undef DP_SYSTEM_CALL
#undef DP_SYSTEM_ERROR
};

static const struct {
	const char *name, *args;
} known_args[] = {
#define DP_CALL_ARGS(name, args) {#name, args},
#include "lang/dpcc/syscall-args.def"
#undef DP_CALL_ARGS
};

#define WHOLE 0xffffffffu

static const struct {
	const char *set, *name;
	s64 value;
	u64 mask;
} flags[] = {
#define DP_CALL_FLAG(set, name) {#set, #name, (s64)(name), (u32)(name)},
#define DP_CALL_PART(set, name, mask) {#set, #name, (s64)(name), (mask)},
#define DP_CALL_VALUE(set, name) {#set, #name, (s64)(name), WHOLE},
#include "lang/dpcc/syscall-flags.def"
#undef DP_CALL_FLAG
#undef DP_CALL_PART
#undef DP_CALL_VALUE
};

/* Sets that are too large to be looked for by their names: tables of their own. */
static const struct request {
	const char *name; /* several of one value: with " or " between them */
	u32 level;        /* of an option */
	u32 value;
} requests[] =
    {
#define DP_CALL_REQUEST(name, value) {name, 0, value},
#define DP_CALL_LEVEL(name, value)
#define DP_CALL_OPTION(name, level, value)
#include <call-requests.def>
#undef DP_CALL_REQUEST
#undef DP_CALL_LEVEL
#undef DP_CALL_OPTION
},
  levels[] =
      {
#define DP_CALL_REQUEST(name, value)
#define DP_CALL_LEVEL(name, value) {#name, 0, value},
#define DP_CALL_OPTION(name, level, value)
#include <call-requests.def>
#undef DP_CALL_REQUEST
#undef DP_CALL_LEVEL
#undef DP_CALL_OPTION
},
  options[] = {
#define DP_CALL_REQUEST(name, value)
#define DP_CALL_LEVEL(name, value)
#define DP_CALL_OPTION(name, level, value) {name, level, value},
#include <call-requests.def>
#undef DP_CALL_REQUEST
#undef DP_CALL_LEVEL
#undef DP_CALL_OPTION
};

static const struct table {
	const char *set;
	const struct request *v;
	u32 n;
} tables[] = {
    {DP_SYSCALL_REQUEST, requests, DP_ARRAY_SIZE(requests)},
    {DP_SYSCALL_LEVEL, levels, DP_ARRAY_SIZE(levels)},
    {DP_SYSCALL_OPTION, options, DP_ARRAY_SIZE(options)},
};

static const struct table *table_of(const char *set)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(tables); i++)
		if (!strcmp(tables[i].set, set))
			return &tables[i];
	return NULL;
}

u32 dp_syscalls_matching(const char *pattern, u32 *numbers, u32 max)
{
	u32 n = 0;

	for (u32 i = 0; i < DP_ARRAY_SIZE(calls) && n < max; i++)
		if (!fnmatch(pattern, calls[i].name, 0))
			numbers[n++] = calls[i].number;
	return n;
}

const char *dp_syscall_name_of(u32 number)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return calls[i].name;
	return NULL;
}

bool dp_syscall_returns(u32 number)
{
	const char *name = dp_syscall_name_of(number);

	return !name || (strcmp(name, "exit") && strcmp(name, "exit_group"));
}

bool dp_syscall_may_be(s32 number, const char *pattern)
{
	const char *name = number < 0 ? NULL : dp_syscall_name_of((u32)number);

	return number < 0 || (name ? !fnmatch(pattern, name, 0) : !strcmp(pattern, "*"));
}

const char *dp_syscall_name(u32 i, u32 *number)
{
	if (i >= DP_ARRAY_SIZE(calls))
		return NULL;
	*number = calls[i].number;
	return calls[i].name;
}

const char *dp_syscall_error(u32 i, u32 *number)
{
	if (i >= DP_ARRAY_SIZE(errors))
		return NULL;
	*number = errors[i].number;
	return errors[i].name;
}

const char *dp_syscall_args(u32 number)
{
	const char *name = dp_syscall_name_of(number);

	for (u32 k = 0; name && k < DP_ARRAY_SIZE(known_args); k++)
		if (!strcmp(known_args[k].name, name))
			return known_args[k].args;
	return NULL;
}

const char *dp_syscall_flag(const char *set, u32 i, s64 *value, u64 *mask)
{
	const struct table *t = table_of(set);

	if (t && i >= t->n)
		return NULL;
	if (t) {
		*value = (s64)((u64)t->v[i].level << 32 | t->v[i].value);
		*mask = WHOLE;
		return t->v[i].name;
	}
	for (u32 k = 0; k < DP_ARRAY_SIZE(flags); k++)
		if (!strcmp(flags[k].set, set) && !i--) {
			*value = flags[k].value;
			*mask = flags[k].mask;
			return flags[k].name;
		}
	return NULL;
}

/* One of the names "A or B". */
static bool is_one_of(const char *names, const char *name)
{
	size_t n = strlen(name);
	const char *p = names;

	while (p && (strncmp(p, name, n) != 0 || (p[n] && p[n] != ' '))) {
		p = strstr(p, " or ");
		p = p ? p + strlen(" or ") : NULL;
	}
	return p != NULL;
}

bool dp_syscall_constant(const char *name, s64 *value)
{
	for (u32 k = 0; k < DP_ARRAY_SIZE(tables); k++)
		for (u32 i = 0; i < tables[k].n; i++)
			if (is_one_of(tables[k].v[i].name, name)) {
				*value = tables[k].v[i].value;
				return true;
			}
	for (u32 i = 0; i < DP_ARRAY_SIZE(flags); i++)
		if (!strcmp(flags[i].name, name)) {
			*value = flags[i].value;
			return true;
		}
	for (u32 i = 0; i < DP_ARRAY_SIZE(errors); i++)
		if (!strcmp(errors[i].name, name)) {
			*value = errors[i].number;
			return true;
		}
	return false;
}

/* One letter; or the set's name, whose first value tells whether all are values of the whole. */
static void kind_of(struct dp_syscall_arg *arg, const char *p)
{
	s64 value;
	u64 mask;

	arg->kind = *p;
	arg->set[0] = '\0';
	if (*p == 'o')
		strcpy(arg->set, DP_SYSCALL_OCTAL);
	if (strcspn(p, " ") == 1)
		return;
	dp_format(arg->set, sizeof(arg->set), "%.*s", (int)strcspn(p, " "), p);
	arg->kind = dp_syscall_flag(arg->set, 0, &value, &mask) && mask == WHOLE ? 'e' : 'f';
}

int dp_syscall_arg(u32 number, u32 i, struct dp_syscall_arg *arg)
{
	const char *p = dp_syscall_args(number);

	if (!p)
		return -1;
	for (; i && *p; i--) {
		p += strcspn(p, " ");
		p += *p == ' ';
	}
	if (!*p)
		return 0;
	dp_format(arg->name, sizeof(arg->name), "%.*s", (int)strcspn(p, ":"), p);
	kind_of(arg, p + strcspn(p, ":") + 1);
	return 1;
}

void dp_syscall_near(const char *name, struct dp_error *err)
{
	struct dp_near near = {.n = 0};
	const char *call;
	u32 number;

	for (u32 i = 0; (call = dp_syscall_name(i, &number)); i++)
		dp_near_try(&near, name, call);
	dp_near_hint(&near, "", err);
}
