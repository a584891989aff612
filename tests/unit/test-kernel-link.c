/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The debug information of files of kernel modules: lines and functions of an object that was never linked. */
#include <stdio.h>
#include <string.h>

#include "symbols/module-priv.h"
#include "symbols/sym-lines.h"
#include "symbols/vars.h"
#include "ok.h"

/* The line of the source that ends in this comment. */
static u32 line_of(const char *word)
{
	FILE *f = fopen(SOURCE, "r");
	char text[256], want[32];
	u32 n = 0, found = 0;

	snprintf(want, sizeof(want), "/* %s */", word);
	while (f && !found && fgets(text, sizeof(text), f)) {
		n++;
		found = strstr(text, want) ? n : 0;
	}
	if (f)
		fclose(f);
	return found;
}

/* Where a function's line is, which is in it; 0: not found. */
static u64 place_of(struct dp_module *m, const char *function, u32 line)
{
	struct dp_error err = {0};
	struct dp_symbol sym, at;
	const char *file;
	u64 addr = 0;
	u32 used = 0, back = 0;

	ok(!dp_module_symbol(m, function, &sym, &err) && sym.addr && sym.size, "%s has an address and a size",
	   function);
	ok(dp_module_line(m, "kernel-object.c", line, &addr, 1, &used, &err) == 1 && used == line,
	   "line %u has code: %s", line, err.detail);
	ok(addr >= sym.addr && addr < sym.addr + sym.size, "which is in %s", function);
	ok(dp_module_symbol_at(m, addr, &at) && !strcmp(at.name, function), "as its address says");
	ok(dp_module_line_at(m, addr, &file, &back) && back == line, "and whose line is known");
	return addr;
}

int main(void)
{
	struct dp_error err = {0};
	struct dp_module *m;
	u64 one, two;

	ok(dp_module_open(&m, OBJECT, &err) < 0 && err.code == E_ELF_BAD, "an object is no executable");
	err = (struct dp_error){0};
	ok(!dp_kernel_module_open(&m, OBJECT, &err), "but may be a module of the kernel: %s", err.detail);
	if (!m)
		return 1;
	ok(dp_module_debug_bytes(m) > 0, "with debug information");
	one = place_of(m, "first_of", line_of("first"));
	two = place_of(m, "second_of", line_of("second"));
	ok(one != two, "sections have addresses of their own");
	dp_module_close(m);
	ok(dp_kernel_module_open(&m, SOURCE, &err) < 0 && err.code == E_ELF_BAD && !m, "a source is neither");
	ok(dp_kernel_module_open(&m, "/proc/self/exe", &err) < 0 && err.code == E_ELF_BAD && !m, "nor is a program");
	printf("1..%d\n", tests);
	return !!failures;
}
