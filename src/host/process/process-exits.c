/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Exit facilities that programs call: registered by the process itself or by a library in it, with libdprobes. What is
 * read from the process decides only whether a program is refused; the function that hits call comes from the symbols
 * of the library's file.
 */
#include <string.h>

#include "abi/abi-exits.h"
#include "host/process/session-priv.h"
#include "program/code.h"

static const struct dp_exits_row *find(const struct dp_exits_registry *reg, const u8 *name, size_t len)
{
	for (u32 i = 0; i < DP_EXITS_MAX; i++) {
		const struct dp_exits_row *row = &reg->rows[i];

		if (row->exit && len < sizeof(row->name) && strnlen(row->name, sizeof(row->name)) == len &&
		    !memcmp(row->name, name, len))
			return row;
	}
	return NULL;
}

/* All that the program calls. */
static int check(const struct dp_program *p, const struct dp_exits_registry *reg, struct dp_error *err)
{
	struct dp_op_view op;
	u32 nargs, nresults;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &op); at += op.len) {
		const struct dp_exits_row *row;
		int len = (int)dp_op_operand(&op, DP_KIND_TEXT);

		if (op.info->rule != DP_RULE_EXIT)
			continue;
		dp_op_exit(&op, &nargs, &nresults);
		row = find(reg, op.text, (size_t)len);
		if (!row)
			return dp_fail(err, E_EXIT_NONE, "\"%.*s\"", len, (const char *)op.text);
		if (row->nargs != nargs || row->nresults != nresults)
			return dp_fail(err, E_EXIT_SIGNATURE, "\"%.*s\" takes %u words and gives %u, not %u and %u",
				       len, (const char *)op.text, row->nargs, row->nresults, nargs, nresults);
	}
	return 0;
}

bool dp_session_calls_exits(const struct dp_session *s)
{
	return dp_session_uses(s, DP_OP_CALL_EXIT) || dp_session_uses(s, DP_OP_CALL_EXIT_N);
}

static u64 function_of(const struct dp_process *proc)
{
	struct dp_symbol sym;

	for (size_t i = 0; i < proc->nimages; i++)
		if (!dp_module_symbol(proc->images[i].mod, "dp_self_exit_call", &sym, NULL))
			return sym.addr + proc->images[i].bias;
	return 0;
}

int dp_session_exits(struct dp_session *s, u64 *function, struct dp_error *err)
{
	struct dp_exits_registry reg = {.magic = 0};
	bool found;
	int r = 0;

	*function = 0;
	if (!dp_session_calls_exits(s))
		return 0;
	r = dp_process_registry(&s->proc, "dp_self_exits", DP_EXITS_MAGIC, DP_EXITS_VERSION, &reg, sizeof(reg), &found,
				err);
	if (!r && !found)
		memset(&reg, 0, sizeof(reg));
	for (u32 i = 0; i < s->nprobes && !r; i++)
		if (s->probes[i].event)
			r = check(&s->probes[i].event->prog, &reg, err);
	if (!r)
		*function = function_of(&s->proc);
	return r;
}
