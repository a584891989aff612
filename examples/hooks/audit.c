/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A small security audit: refuses requests for what lies under /proc, and hides every file whose
 * name ends in
 * ".secret", whoever opens it. Its exits are asked first; `dprobes hooks -p PID --arm
 * request:audit` arms them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

static int audit_request(struct hook *h, int *result, const char **path)
{
	if (strncmp(*path, "/proc/", 6))
		return HOOK_CONTINUE;
	*result = -EACCES;
	return HOOK_RETURN;
}

static int audit_opening(struct hook *h, struct pt_regs *regs, const char *path, const char *mode)
{
	size_t n = strlen(path);

	if (n < 7 || strcmp(path + n - 7, ".secret"))
		return HOOK_CONTINUE;
	errno = ENOENT;
	regs_set_return_value(regs, 0);
	return HOOK_RETURN;
}

static struct hook_rec requests =
    HOOK_EXIT(request, audit_request, .name = "audit", .flags = HOOK_PRIORITY_FIRST, .writable = 1);
static struct hook_rec openings = HOOK_EXIT(file_opening, audit_opening, .name = "audit",
					    .flags = HOOK_PRIORITY_FIRST, .writable = 1);

__attribute__((constructor)) static void audit_init(void)
{
	if (hook_exit_register(&request, &requests) || hook_exit_register(&file_opening, &openings))
		fprintf(stderr, "audit: %s\n", dp_kprobe_error());
}

__attribute__((destructor)) static void audit_exit(void)
{
	hook_exit_deregister(&requests);
	hook_exit_deregister(&openings);
}
