/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Prints the unwind table of a file, one row a line: address, rule of the frame's upper end, place of the caller's rbp.
 * test_backtrace.py compares them with what readelf says. */
#include <stdio.h>
#include <stdlib.h>

#include "abi/abi-unwind.h"
#include "symbols/sym-unwind.h"

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"end", "sp", "bp", "r10", "word", "plt", "signal"};
	struct dp_unwind_row *rows;
	struct dp_error err = {0};
	struct dp_module *m;
	u32 n;

	if (argc != 2 || dp_module_open(&m, argv[1], &err) || dp_module_unwind(m, &rows, &n, &err)) {
		fprintf(stderr, "unwind-rows: %s\n", err.detail);
		return 1;
	}
	for (u32 i = 0; i < n; i++)
		printf("%llx %s %d %d\n", (unsigned long long)(dp_module_lowest(m) + rows[i].pc), kinds[rows[i].kind],
		       rows[i].cfa, rows[i].frame);
	free(rows);
	dp_module_close(m);
	return 0;
}
