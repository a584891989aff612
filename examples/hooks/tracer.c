/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A tracer on the same hooks: tells what the audit lets through. Both exits are armed together. */
#include <stdio.h>

#include "server.h"

static int trace_request(struct hook *h, int *result, const char **path)
{
	printf("tracer: %s %s\n", h->name, *path);
	return HOOK_CONTINUE;
}

static int trace_opening(struct hook *h, struct pt_regs *regs, const char *path, const char *mode)
{
	printf("tracer: %s %s %s\n", h->name, path, mode);
	return HOOK_CONTINUE;
}

static struct hook_rec requests =
    HOOK_EXIT(request, trace_request, .name = "tracer", .writable = 1);
static struct hook_rec openings = HOOK_EXIT(file_opening, trace_opening, .name = "tracer");
static struct hook_rec *group[] = {&requests, &openings};

__attribute__((constructor)) static void tracer_init(void)
{
	if (hook_exit_register(&request, &requests) ||
	    hook_exit_register(&file_opening, &openings) || hook_exits_arm(group, 2))
		fprintf(stderr, "tracer: %s\n", dp_kprobe_error());
}

__attribute__((destructor)) static void tracer_exit(void)
{
	hook_exit_deregister(&requests);
	hook_exit_deregister(&openings);
}
