// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A module with a tracepoint, which is passed when its parameter is written. Its seven arguments, with the word that
 * the kernel puts in front of them, do not all fit into registers.
 */
#include <linux/module.h>

#define CREATE_TRACE_POINTS
#include "traces.h"

static int number;

static int set_number(const char *text, const struct kernel_param *param)
{
	int r = param_set_int(text, param);

	if (!r)
		trace_dptraced_work(number, 2, 3, 4, 5, 6, number + 20);
	return r;
}

static const struct kernel_param_ops number_ops = {.set = set_number, .get = param_get_int};
module_param_cb(number, &number_ops, &number, 0600);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Tests: a module with a tracepoint");
