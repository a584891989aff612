/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Programs as text, one instruction a line, for people. Works on unverified code too. */
#include "program/code.h"
#include "program/program.h"

struct text {
	char *buf;
	size_t size, len; /* len: what the text needs, even when it does not fit */
};

static void put(struct text *t, const char *fmt, ...) DP_PRINTF(2, 3);

static void put(struct text *t, const char *fmt, ...)
{
	size_t room = t->len < t->size ? t->size - t->len : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = dp_vformat(room ? t->buf + t->len : NULL, room, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
}

static void put_register(struct text *t, const struct dp_register *reg, s64 number)
{
	if (reg)
		put(t, "%s", reg->names[0]);
	else
		put(t, "?%lld", (long long)number);
}

static void put_string(struct text *t, const u8 *s, u32 len)
{
	put(t, "\"");
	for (u32 i = 0; i < len; i++)
		if (s[i] == '"' || s[i] == '\\')
			put(t, "\\%c", s[i]);
		else if (s[i] >= ' ' && s[i] < 0x7f)
			put(t, "%c", s[i]);
		else
			put(t, "\\x%02x", s[i]);
	put(t, "\"");
}

static void put_operand(struct text *t, const struct dp_op_view *insn, u32 i)
{
	long long v = insn->v[i];

	switch (insn->info->operands[i]) {
	case DP_KIND_REG_WORD:
		if (dp_watch_word_name((u32)v))
			put(t, "%s", dp_watch_word_name((u32)v));
		else
			put_register(t, dp_register_by_word((u32)v), v);
		break;
	case DP_KIND_REG:
	case DP_KIND_REGW:
		put_register(t, dp_register_by_number((u32)v), v);
		break;
	case DP_KIND_WORD:
		put(t, v > -4096 && v < 4096 ? "%lld" : "0x%llx", v);
		break;
	case DP_KIND_JUMP:
		put(t, "L%llu", v);
		break;
	case DP_KIND_OFF:
		put(t, "@%llu", v);
		break;
	case DP_KIND_FIELD:
		put(t, "#%llu", v);
		break;
	case DP_KIND_STATE:
		if (dp_cpustate_by_number((u32)v))
			put(t, "%s", dp_cpustate_by_number((u32)v)->name);
		else
			put(t, "?%lld", v);
		break;
	case DP_KIND_INDEX:
		put(t, "%lld", v);
		break;
	case DP_KIND_DISP:
		put(t, "%+lld", v);
		break;
	case DP_KIND_TEXT:
		put_string(t, insn->text, (u32)v);
		break;
	default:
		put(t, "%llu", v);
	}
}

static bool has_space(const char *s)
{
	while (*s && *s != ' ')
		s++;
	return *s;
}

int dp_program_disasm(const struct dp_program *p, char *buf, size_t size)
{
	struct text t = {buf, size, 0};
	struct dp_op_view insn;

	if (size)
		buf[0] = '\0';
	for (u32 at = 0; at < p->len; at += insn.len) {
		if (dp_op_decode(p->code, p->len, at, &insn) < 0) {
			put(&t, "%5u  ?  0x%02x\n", at, p->code[at]);
			insn.len = 1;
			continue;
		}
		put(&t, "%5u  %s", at, insn.info->text);
		for (u32 i = 0; insn.info->operands[i]; i++) {
			/* As the manual writes them: "push r, esp" but "jz L". */
			put(&t, i || has_space(insn.info->text) ? ", " : " ");
			put_operand(&t, &insn, i);
		}
		put(&t, "\n");
	}
	return (int)t.len;
}
