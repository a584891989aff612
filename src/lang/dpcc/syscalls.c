/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What is known of system calls: names and errors by the kernel's headers, arguments by syscall-args.def. */
#include <fnmatch.h>
#include <string.h>

#include "lang/dpcc/dpcc-priv.h"
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

static const char *args_of(u32 number)
{
	const char *name = dp_syscall_name_of(number);

	for (u32 k = 0; name && k < DP_ARRAY_SIZE(known_args); k++)
		if (!strcmp(known_args[k].name, name))
			return known_args[k].args;
	return NULL;
}

int dp_syscall_arg(u32 number, u32 arg, char *name, u32 size, char *kind)
{
	const char *p = args_of(number);
	u32 n;

	if (!p)
		return -1;
	for (; arg && *p; arg--) {
		p += strcspn(p, " ");
		p += *p == ' ';
	}
	n = (u32)strcspn(p, ":");
	if (!*p || n >= size)
		return 0;
	memcpy(name, p, n);
	name[n] = '\0';
	*kind = p[n + 1];
	return 1;
}
