/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compiles a file of handlers and runs its probes, one after the other, on the tests' machine:
 * prints what they log, or the error. Usage: dpcc-machine MODULE FILE.dpc [JSON]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/machine.h"
#include "lang/dpcc/dpcc.h"
#include "log/log-fields.h"
#include "program/opcode.h"

static void run(struct machine *m, const struct dp_rpn_probe *p, bool json)
{
	struct dp_line line = {0};
	const u8 *items = machine_payload(m) + sizeof(struct dp_rpn_head);
	enum dp_run_result r = machine_run(m, &p->prog);
	static const struct dp_rf none;
	const struct dp_rf *rf = p->rf ? p->rf : &none;
	struct dp_rpn_context context = {.rf = rf};
	u32 n;

	if (m->hit.exceptions)
		printf("  exceptions %u, the last one 0x%llx\n", m->hit.exceptions,
		       (unsigned long long)m->vm->rpn.code);
	if (r != DP_RUN_LOG)
		return;
	n = m->hit.log_len - (u32)sizeof(struct dp_rpn_head);
	if (dp_rpn_log_section(&line, json ? DP_FORMAT_JSON : DP_FORMAT_TEXT, DP_SECTION_FIELDS, 0, &context, items, n))
		printf("%.*s%s", (int)line.n, line.text ? line.text : "", json ? "\n" : "");
	else
		printf("  cannot be read\n");
	dp_line_free(&line);
}

int main(int argc, char **argv)
{
	static struct machine m;
	struct dpcc_options opt = {.module = argc > 2 ? argv[1] : NULL};
	struct dpcc_result res;
	struct dp_rpn_unit u;
	struct dp_error err = {0};

	if (argc < 3)
		return 2;
	if (dp_cc_compile(argv[2], &opt, &res, &err)) {
		printf("%s %s\n", dp_error_info(err.code)->name, err.detail);
		if (res.line[0])
			printf("|%s\n|%*s^\n", res.line, err.column, "");
		if (err.hint[0])
			printf("hint: %s\n", err.hint);
		return 1;
	}
	if (dp_rpn_parse(&u, res.text, "generated", ".", NULL, 0, &err)) {
		printf("%s %s\n%s", dp_error_info(err.code)->name, err.detail, res.text);
		free(res.text);
		return 1;
	}
	free(res.text);
	if (u.nlocals > DP_ARRAY_SIZE(m.locals) || u.nglobals > DP_ARRAY_SIZE(m.globals)) {
		printf("the machine has fewer variables\n");
		return 2;
	}
	machine_init(&m);
	strcpy((char *)m.memory + 0x200, "a text");
	for (u32 i = 0; i < u.ninits && u.inits[i].index < 8; i++)
		m.locals[u.inits[i].index] = (u64)u.inits[i].value;
	for (u32 i = 0; i < u.nprobes; i++)
		run(&m, &u.probes[i], argc > 3);
	dp_rpn_free(&u);
	machine_free(&m);
	return 0;
}
