/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The assembler and the disassembler are each other's inverse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"

int main(void)
{
	u32 i = 0, opcode, bad = 0;
	u64 state = 88172645463325252ull;

	while (dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);
		struct dp_program p = {0}, q = {0};
		struct dp_asm code = {0};
		char text[2048], *line;
		s64 v[DP_OPERANDS_MAX + 1] = {0};

		for (u32 k = 0; info->operands[k]; k++) {
			const struct dp_register *reg = dp_register_at((u32)(next_random(&state) % 21));

			v[k] = (s64)(next_random(&state) % 200);
			if (info->operands[k] == DP_KIND_REG_WORD)
				v[k] = reg->reg_word;
			if (info->operands[k] == DP_KIND_REG || info->operands[k] == DP_KIND_REGW)
				v[k] = reg->number;
			if (info->operands[k] == DP_KIND_STATE)
				v[k] = 0x4d;
			if (info->operands[k] == DP_KIND_JUMP)
				v[k] = 0;
			if (info->operands[k] == DP_KIND_TEXT)
				v[k] = 5;
			if (info->operands[k] == DP_KIND_DISP)
				v[k] -= 100;
		}
		dp_asm_put(&code, (enum dp_opcode)opcode, v, "a\"b\\c");
		p.code = code.bytes;
		p.len = code.len;
		dp_program_disasm(&p, text, sizeof(text));
		line = strstr(text, "  ") + 1;
		while (*line == ' ' || (*line >= '0' && *line <= '9'))
			line++;
		memmove(text + 3, line, strlen(line) + 1);
		memcpy(text, "L0:", 3);
		if (!assemble(&q, text) || q.len != p.len || memcmp(p.code, q.code, p.len)) {
			printf("# %s", text);
			bad++;
		}
		dp_program_free(&p);
		dp_program_free(&q);
	}
	ok(!bad, "every opcode survives disassembling and assembling");
	return done();
}
