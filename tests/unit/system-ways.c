/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * system-ways FILE...: prints for each file whether all ways into the system are known ("FILE known", or "FILE unknown
 * ADDRESS"), and the address of each call, a line each, with "function" behind those of a function that makes the
 * system call. test_ways.py compares them with what it knows or objdump says.
 */
#include <stdio.h>

#include "symbols/symbols.h"

static bool print(void *arg, const struct dp_call_site *site)
{
	printf("%llx%s\n", (unsigned long long)site->addr, site->is_function_call ? " function" : "");
	return false;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct dp_error err = {0};
		struct dp_module *m;
		u64 where = 0;

		if (dp_module_open(&m, argv[i], &err)) {
			fprintf(stderr, "system-ways: %s\n", err.detail);
			return 1;
		}
		if (dp_module_syscalls_known(m, &where))
			printf("%s known\n", argv[i]);
		else
			printf("%s unknown %llx\n", argv[i], (unsigned long long)where);
		dp_module_each_syscall(m, print, NULL);
		dp_module_close(m);
	}
	return 0;
}
