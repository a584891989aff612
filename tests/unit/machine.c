/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See machine.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "program/work.h"

/* ---- the services of the hit path ---- */

/* Bytes that can be reached from addr on, and where they are. */
static u8 *reach(struct machine *m, u64 addr, u64 *len)
{
	if (addr - MEMORY_BASE < MEMORY_SIZE) {
		*len = MEMORY_BASE + MEMORY_SIZE - addr;
		return m->memory + (addr - MEMORY_BASE);
	}
	if (addr - STACK_BASE < STACK_SIZE) {
		*len = STACK_BASE + STACK_SIZE - addr;
		return m->stack + (addr - STACK_BASE);
	}
	*len = 0;
	return NULL;
}

static struct machine *machine_of(struct dp_hit *h)
{
	return (struct machine *)((char *)h - offsetof(struct machine, hit));
}

int dp_hit_read(struct dp_hit *h, void *dst, u64 src, u32 len)
{
	u64 room;
	u8 *p = reach(machine_of(h), src, &room);

	machine_of(h)->reads++;
	if (len > room) {
		if (p) /* a partial read leaves something behind, as the kernel's does */
			memcpy(dst, p, room);
		return -EFAULT;
	}
	memcpy(dst, p, len);
	return 0;
}

int dp_hit_write(struct dp_hit *h, u64 dst, const void *src, u32 len)
{
	u64 room;
	u8 *p = reach(machine_of(h), dst, &room);

	if (len > room)
		return -EFAULT;
	memcpy(p, src, len);
	return 0;
}

int dp_hit_read_str(struct dp_hit *h, char *dst, u64 src, u32 size)
{
	u64 room;
	u8 *p = reach(machine_of(h), src, &room);
	u32 n = 0;

	machine_of(h)->reads++;
	if (!p || size < 2)
		return -EFAULT;
	while (n < size - 1 && n < room && p[n]) {
		dst[n] = (char)p[n];
		n++;
	}
	dst[n] = '\0';
	return (int)n + 1;
}

void dp_hit_comm(struct dp_hit *h, char *dst16)
{
	memset(dst16, 0, 16);
	strncpy(dst16, machine_of(h)->comm, 15);
}

bool dp_hit_writable(struct dp_hit *h, u64 addr)
{
	u64 room;

	return reach(machine_of(h), addr, &room) && !machine_of(h)->read_only;
}

u32 dp_hit_pid(struct dp_hit *h)
{
	return h->ctl->pid;
}

s64 dp_hit_uid(struct dp_hit *h)
{
	return machine_of(h)->other_way ? -1 : 4294967294;
}

s64 dp_hit_ppid(struct dp_hit *h) /* as where a filter forbids it */
{
	return machine_of(h)->other_way ? 4711 : -1;
}

u64 dp_hit_ns(struct dp_hit *h)
{
	return 1000000;
}

/* Byte i of the area is i, or so. */
void dp_hit_fxsave(struct dp_hit *h, void *area512)
{
	for (u32 i = 0; i < 512; i++)
		((u8 *)area512)[i] = (u8)(i + i / 256);
}

u64 dp_hit_segment(struct dp_hit *h, u32 which)
{
	return 0x70 + which;
}

void dp_hit_cpuid(struct dp_hit *h, u32 leaf, u32 abcd[4])
{
	for (u32 i = 0; i < 4; i++)
		abcd[i] = leaf + i;
}

/* Half of what is asked for, at most five. */
/* Two are registered: "note", without words, and "sumup", which gives the sum and the difference of two. */
u32 dp_hit_call_exit(struct dp_hit *h, const u8 *name, u32 len, u32 nargs, u32 nresults, const u64 *args, u64 *results)
{
	bool takes_none = len == 4 && !memcmp(name, "note", len);

	if (!takes_none && (len != 5 || memcmp(name, "sumup", len)))
		return ENOENT;
	if (nargs != (takes_none ? 0 : 2) || nresults != nargs)
		return EPROTO;
	if (!takes_none) {
		results[0] = args[0] + args[1];
		results[1] = args[0] - args[1];
	}
	return 0;
}

u32 dp_hit_frames(struct dp_hit *h, u64 *ips, u32 n)
{
	u32 found = DP_MIN((n + 1) / 2, 5u);

	for (u32 i = 0; i < found; i++)
		ips[i] = h->regs->ip + 0x100 * i;
	return found;
}

u64 dp_hit_chain(struct dp_hit *h, u32 n)
{
	u64 ips[DP_FRAMES_MAX];

	return dp_chain_digest(ips, dp_hit_frames(h, ips, n));
}

bool dp_hit_add_apart(struct dp_hit *h, const u64 *word, u64 n)
{
	machine_of(h)->apart += n;
	return machine_of(h)->keeps_apart;
}

u32 dp_hit_cpu(struct dp_hit *h)
{
	return 3;
}

void dp_hit_exit(struct dp_hit *h, u32 facility)
{
	machine_of(h)->dumps++;
}

/* ---- the machine ---- */

void machine_init(struct machine *m)
{
	u64 *r = (u64 *)&m->regs;

	memset(m, 0, sizeof(*m));
	for (u32 i = 0; i < DP_NREG_WORDS; i++)
		r[i] = 0x1111111111111111ull * (i % 15 + 1);
	m->regs.sp = STACK_BASE;
	for (u32 i = 0; i < STACK_SIZE / 8; i++)
		memcpy(m->stack + 8 * i, &(u64){0x5000 + i}, 8);
	for (u32 i = 0; i < MEMORY_SIZE; i++)
		m->memory[i] = (u8)(i * 7 + 1);
	m->ctl.pid = 4711;
	m->comm = "redis-server";
	m->work = DP_WORK_PROCESS;
	m->vm = malloc(sizeof(*m->vm));
	memset(m->vm, 0xa5, sizeof(*m->vm));
	m->hit.regs = &m->regs;
	m->hit.vm = m->vm;
	m->hit.ctl = &m->ctl;
	m->hit.prog = &m->rt;
	m->hit.tid = 4712;
}

void machine_free(struct machine *m)
{
	free(m->vm);
}

enum dp_run_result machine_run(struct machine *m, const struct dp_program *p)
{
	enum dp_run_result result;
	/* Of exactly its length, so that a read behind it is noticed. */
	u8 *code = malloc(p->len);

	memcpy(code, p->code, p->len);
	dp_program_to_rt(p, &m->rt);
	m->rt.code = (u64)code;
	m->rt.locals = (u64)m->locals;
	m->rt.globals = (u64)m->globals;
	m->rt.gate = (u64)&m->gate;
	m->rt.work = m->work;
	result = dp_vm_run(&m->hit);
	free(code);
	return result;
}

const u8 *machine_payload(const struct machine *m)
{
	return (const u8 *)m->vm->record + sizeof(struct dp_record);
}

u64 machine_u64(const struct machine *m, u32 at)
{
	u64 v;

	memcpy(&v, machine_payload(m) + at, 8);
	return v;
}

/* ---- the assembler ---- */

#define LABELS_MAX 32

struct label {
	char name[16];
	u32 at;
};

struct assembler {
	struct dp_asm code;
	struct label labels[LABELS_MAX];
	u32 nlabels;
	bool second_pass;
};

static char *trim(char *s)
{
	char *end;

	while (*s == ' ' || *s == '\n' || *s == '\t')
		s++;
	end = s + strlen(s);
	while (end > s && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\t'))
		*--end = '\0';
	return s;
}

/* "operation, a, b": the operation is the longest known text that starts the line. */
static u32 find_opcode(const char *line, u32 operands, const char **rest)
{
	const struct dp_opcode_info *info;
	u32 i = 0, opcode, best = ~0u;
	size_t best_len = 0;

	while (dp_opcode_next(&i, &opcode)) {
		size_t len;

		info = dp_opcode_info(opcode);
		len = strlen(info->text);
		if (strncmp(line, info->text, len) || (line[len] && line[len] != ' ' && line[len] != ',') ||
		    len < best_len || dp_opcode_noperands(info) != operands)
			continue;
		best = opcode;
		best_len = len;
	}
	if (best != ~0u)
		*rest = line + best_len + (line[best_len] == ',');
	return best;
}

static bool operand(struct assembler *a, char kind, char *word, s64 *v, char *text)
{
	struct dp_register_part part;
	u32 n = 0;

	switch (kind) {
	case DP_KIND_REG_WORD:
	case DP_KIND_REG:
	case DP_KIND_REGW:
		if (!dp_register_find(word, strlen(word), &part))
			return false;
		*v = kind == DP_KIND_REG_WORD ? part.reg->reg_word : part.reg->number;
		return true;
	case DP_KIND_STATE:
		*v = dp_cpustate_find(word, strlen(word)) ? dp_cpustate_find(word, strlen(word))->number : 0;
		return *v;
	case DP_KIND_JUMP:
		for (u32 i = 0; i < a->nlabels; i++)
			if (!strcmp(a->labels[i].name, word)) {
				*v = a->labels[i].at;
				return true;
			}
		*v = 0;
		return !a->second_pass;
	case DP_KIND_TEXT:
		for (char *p = word + 1; *p && *p != '"'; p++) {
			if (*p == '\\' && p[1])
				p++;
			text[n++] = *p;
		}
		*v = n;
		return *word == '"';
	default:
		if (*word == '@' || *word == '#')
			word++;
		*v = word[0] == '-' ? strtoll(word, NULL, 0) : (s64)strtoull(word, NULL, 0);
		return *word;
	}
}

static bool instruction(struct assembler *a, char *line)
{
	char *words[DP_OPERANDS_MAX] = {0}, text[600];
	s64 v[DP_OPERANDS_MAX + 1] = {0};
	const struct dp_opcode_info *info;
	const char *rest;
	u32 opcode = ~0u, n = 0;

	/* How many operands there are decides between opcodes of the same name. */
	for (u32 k = 0; k <= DP_OPERANDS_MAX && opcode == ~0u; k++) {
		char *p;

		opcode = find_opcode(line, k, &rest);
		if (opcode == ~0u)
			continue;
		n = 0;
		p = trim((char *)rest);
		while (*p && n < DP_OPERANDS_MAX) {
			bool quoted = *p == '"';

			words[n++] = p;
			p += quoted;
			while (*p && (quoted ? *p != '"' : *p != ','))
				p += *p == '\\' && p[1] ? 2 : 1;
			p += quoted && *p;
			if (*p)
				p++;
			while (*p == ' ')
				p++;
		}
		if (n != k)
			opcode = ~0u;
	}
	if (opcode == ~0u)
		return false;
	info = dp_opcode_info(opcode);
	for (u32 i = 0; i < n; i++) {
		char word[600], *comma;

		snprintf(word, sizeof(word), "%s", words[i]);
		comma = word[0] == '"' ? NULL : strchr(word, ',');
		if (comma)
			*comma = '\0';
		if (!operand(a, info->operands[i], trim(word), &v[i], text))
			return false;
	}
	dp_asm_put(&a->code, (enum dp_opcode)opcode, v, text);
	return true;
}

static bool pass(struct assembler *a, const char *source)
{
	char *copy = strdup(source), *save = NULL;
	bool good = true;

	a->code.len = 0;
	for (char *line = strtok_r(copy, ";", &save); line && good; line = strtok_r(NULL, ";", &save)) {
		char *colon;

		line = trim(line);
		colon = line + strcspn(line, ":\" ");
		if (*colon == ':') {
			*colon = '\0';
			if (!a->second_pass && a->nlabels < LABELS_MAX) {
				snprintf(a->labels[a->nlabels].name, 16, "%s", line);
				a->labels[a->nlabels++].at = a->code.len;
			}
			line = trim(colon + 1);
		}
		if (*line)
			good = instruction(a, line);
		if (!good)
			printf("# cannot assemble: %s\n", line);
	}
	free(copy);
	return good;
}

bool assemble(struct dp_program *p, const char *text)
{
	struct assembler a = {0};
	bool good = pass(&a, text);

	a.second_pass = true;
	good = good && pass(&a, text);
	p->code = a.code.bytes;
	p->len = a.code.len;
	return good;
}

/* ---- records ---- */

static int show_scalar(char *buf, size_t size, const u8 *p, const struct dp_field *f)
{
	u64 u = 0;
	s64 s;

	memcpy(&u, p, f->size);
	s = (s64)(u << (64 - 8 * f->size)) >> (64 - 8 * f->size);
	switch (f->type) {
	case DP_FIELD_S8:
	case DP_FIELD_S16:
	case DP_FIELD_S32:
	case DP_FIELD_S64:
		return snprintf(buf, size, "%lld", (long long)s);
	case DP_FIELD_U8:
	case DP_FIELD_U16:
	case DP_FIELD_U32:
	case DP_FIELD_U64:
		return snprintf(buf, size, "%llu", (unsigned long long)u);
	case DP_FIELD_CHAR:
		return snprintf(buf, size, "'%c'", (char)u);
	default:
		return snprintf(buf, size, "0x%llx", (unsigned long long)u);
	}
}

static int show_string(const struct machine *m, char *buf, size_t size, const u8 *p)
{
	u32 d;

	memcpy(&d, p, 4);
	if (!(d >> 16))
		return snprintf(buf, size, "(fault)");
	if ((d & 0xffff) + (d >> 16) > m->hit.log_len || machine_payload(m)[(d & 0xffff) + (d >> 16) - 1])
		return snprintf(buf, size, "(broken)");
	return snprintf(buf, size, "\"%s\"", machine_payload(m) + (d & 0xffff));
}

void show_record(const struct machine *m, const struct dp_layout *layout, char *buf, size_t size)
{
	u64 mask = layout->has_faultmask ? machine_u64(m, 0) : 0;
	size_t len = 0;

#define ADD(...) (len += (size_t)snprintf(buf + len, len < size ? size - len : 0, __VA_ARGS__))
	buf[0] = '\0';
	if (layout->has_ret_addr)
		ADD("<-0x%llx ", (unsigned long long)machine_u64(m, layout->has_faultmask ? 8 : 0));
	for (u32 i = 0; i < layout->nfields; i++) {
		const struct dp_field *f = &layout->fields[i];

		ADD("%s%s", f->name, f->name[0] ? "=" : "");
		if (mask >> DP_MIN(i, 63u) & 1) {
			ADD("(fault) ");
			continue;
		}
		if (f->count)
			ADD("{");
		for (u32 k = 0; k < DP_MAX(f->count, 1u); k++) {
			const u8 *p = machine_payload(m) + f->offset + k * f->size;

			ADD("%s", k ? "," : "");
			len += (size_t)(f->type == DP_FIELD_STRING
					    ? show_string(m, buf + len, len < size ? size - len : 0, p)
					    : show_scalar(buf + len, len < size ? size - len : 0, p, f));
		}
		ADD("%s", f->count ? "} " : " ");
	}
#undef ADD
	if (len && len < size && buf[len - 1] == ' ')
		buf[len - 1] = '\0';
}

/* ---- TAP ---- */

static u32 tests, failures;

bool ok(bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - ", good ? "" : "not ", ++tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	failures += !good;
	return good;
}

int done(void)
{
	printf("1..%u\n", tests);
	return failures != 0;
}

u64 next_random(u64 *state)
{
	u64 x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}
