/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Golden probe programs: each .rpn file here says in lines "//= ..." what its probes leave behind when they run one
 * after the other on the tests' machine (unit/machine.c), or in one line "//! CODE LINE" which error it must give. What
 * assembles must also survive being listed, saved and loaded.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/machine.h"
#include "lang/rpn/rpn.h"
#include "log/log-rpn.h"

static u8 seen[65536];
static u8 noticed[65536]; /* some program here does something else when this instruction does nothing */

static char *slurp(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 1 << 16);

	if (f) {
		text[fread(text, 1, (1 << 16) - 1, f)] = '\0';
		fclose(f);
	}
	return text;
}

/* The lines that begin with the mark, without it. */
static void marked(const char *text, const char *mark, char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, mark, strlen(mark)))
			n += (size_t)snprintf(out + n, size - n, "%.*s\n", (int)strcspn(line + strlen(mark), "\n"),
					      line + strlen(mark));
}

static void note(const struct dp_program *p)
{
	struct dp_op_view op;

	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &op); at += op.len)
		seen[op.opcode] = 1;
}

static void show(FILE *out, struct machine *m, enum dp_run_result result)
{
	static const char *const words[] = {"log", "nothing", "passed"};
	const struct dp_rpn_head *head = (const struct dp_rpn_head *)machine_payload(m);
	const u8 *items = machine_payload(m) + sizeof(*head);
	struct dp_rpn_context context = {0};
	struct dp_line line = {0};

	fprintf(out, "%s", words[result]);
	if (m->hit.exceptions)
		fprintf(out, " exceptions %u", m->hit.exceptions);
	if (m->dumps)
		fprintf(out, " dumps %u", m->dumps);
	if (result == DP_RUN_LOG) {
		u32 n = m->hit.log_len - (u32)sizeof(*head);

		fprintf(out, "%s %u,%u ", m->hit.rec_flags & DP_REC_TRUNCATED ? " cut" : "", head->major, head->minor);
		if (m->hit.rec_flags & DP_REC_BARE ||
		    !dp_rpn_log_section(&line, DP_FORMAT_JSON, DP_SECTION_ITEMS, 0, &context, items, n))
			for (u32 i = 0; i < n; i++)
				fprintf(out, "%02x", items[i]);
		fprintf(out, "%.*s", (int)line.n, line.text ? line.text : "");
	}
	fprintf(out, "\n");
	dp_line_reset(&line);
	if (result != DP_RUN_PASSED && m->rt.ex_mask && dp_vm_trace(&m->hit)) {
		dp_rpn_log_section(&line, DP_FORMAT_JSON, DP_SECTION_TRACES, 0, &context, items,
				   m->hit.log_len - sizeof(*head));
		fprintf(out, "trace %s%.*s\n", m->hit.rec_flags & DP_REC_TRUNCATED ? "cut " : "", (int)line.n,
			line.text ? line.text : "");
	}
	dp_line_free(&line);
}

static char *listing(const struct dp_rpn_unit *u)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	dp_rpn_list(u, f);
	fclose(f);
	return text;
}

static bool same_programs(const struct dp_rpn_unit *a, const struct dp_rpn_unit *b)
{
	bool same = a->nprobes == b->nprobes && !strcmp(a->name, b->name);

	for (u32 i = 0; i < a->nprobes && same; i++) {
		const struct dp_rpn_probe *p = &a->probes[i], *q = &b->probes[i];

		same = p->prog.len == q->prog.len && !memcmp(p->prog.code, q->prog.code, p->prog.len) &&
		       !memcmp(&p->prog.rpn, &q->prog.rpn, sizeof(p->prog.rpn)) && p->nrelocs == q->nrelocs &&
		       p->prog.jmpmax == q->prog.jmpmax && p->prog.logmax == q->prog.logmax && p->offset == q->offset &&
		       !strcmp(p->symbol, q->symbol) && p->place == q->place && p->prog.is_watch == q->prog.is_watch &&
		       p->at_return == q->at_return && p->group == q->group;
	}
	return same;
}

static bool survives(const struct dp_rpn_unit *u)
{
	struct dp_rpn_unit again = {0}, loaded = {0};
	struct dp_error err = {0};
	char *text = listing(u), *text2;
	void *bytes = NULL;
	size_t size;
	bool good = !dp_rpn_parse(&again, text, "listing", ".", NULL, 0, &err) && same_programs(u, &again);

	if (!good)
		printf("# %s\n# %s\n", err.detail, text);
	if (good && !dp_rpn_save(u, &bytes, &size, &err)) {
		good = !dp_rpn_load(&loaded, bytes, size, &err) && same_programs(u, &loaded);
		text2 = good ? listing(&loaded) : strdup("");
		good = good && !strcmp(text, text2);
		free(text2);
		/* A byte more or less is no object. */
		good = good && dp_rpn_load(&again, bytes, size - 1, &err) < 0;
	}
	free(text);
	free(bytes);
	dp_rpn_free(&again);
	dp_rpn_free(&loaded);
	return good;
}

/* The same program, but each instruction with this opcode does nothing; one that ends it, ends it otherwise. */
static struct dp_program broken(const struct dp_program *p, u32 opcode)
{
	struct dp_program copy = *p;
	struct dp_op_view op;

	copy.code = malloc(p->len + 16);
	memcpy(copy.code, p->code, p->len);
	memset(copy.code + p->len, DP_OP_EXIT, 16); /* for whoever goes on behind the last one */
	for (u32 at = 0; at < p->len && !dp_op_decode(p->code, p->len, at, &op); at += op.len) {
		if (op.opcode != opcode)
			continue;
		memset(copy.code + at, DP_OP_NOP, op.len);
		if (opcode == DP_OP_EXIT)
			copy.code[at] = DP_OP_ABORT;
		else if (dp_opcode_info(opcode)->rule == DP_RULE_END || dp_opcode_info(opcode)->rule == DP_RULE_RPN_END)
			copy.code[at] = DP_OP_EXIT;
	}
	copy.len += 16;
	return copy;
}

/* What the unit leaves behind, with one opcode broken (0: none; that is the number of `nop`). free() it. */
static char *run_unit(const struct dp_rpn_unit *u, u32 opcode)
{
	static struct machine m;
	char *got = NULL;
	size_t n;
	FILE *out = open_memstream(&got, &n);

	machine_init(&m);
	strcpy((char *)m.memory + 0x200, "a text");
	for (u32 i = 0; i < 8; i++) {
		m.locals[i] = 100 + i;
		m.globals[i] = 200 + i;
	}
	for (u32 i = 0; i < u->nprobes; i++) {
		struct dp_program p = broken(&u->probes[i].prog, opcode);

		/* Probes at one place count together: a file shows pass counts by repeating a probe. */
		if (!i || strcmp(u->probes[i].symbol, u->probes[i - 1].symbol))
			m.gate = 0;
		m.dumps = 0;
		show(out, &m, machine_run(&m, &p));
		free(p.code);
	}
	fclose(out);
	machine_free(&m);
	return got;
}

static void check_unit(const char *name, const struct dp_rpn_unit *u, const char *want)
{
	char *got = run_unit(u, DP_OP_NOP);
	u32 i = 0, opcode;

	if (!ok(!strcmp(got, want), "%s", name))
		printf("# --- wanted\n%s# --- got\n%s", want, got);
	free(got);
	memset(seen, 0, sizeof(seen));
	for (u32 k = 0; k < u->nprobes; k++)
		note(&u->probes[k].prog);
	while (dp_opcode_next(&i, &opcode)) {
		if (!seen[opcode] || noticed[opcode] || dp_opcode_info(opcode)->rule == DP_RULE_BEGIN)
			continue; /* without `begin` there is no machine */
		got = run_unit(u, opcode);
		noticed[opcode] = strcmp(got, want) != 0;
		free(got);
	}
}

static void golden(const char *dir, const char *name)
{
	char path[4096], want[8192], error[256], code[64] = "", line[64];
	struct dp_rpn_unit u = {0};
	struct dp_error err = {0};
	char *text;
	u32 number = 0;
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	text = slurp(path);
	marked(text, "//= ", want, sizeof(want));
	marked(text, "//! ", error, sizeof(error));
	r = dp_rpn_read(&u, path, (struct dp_rpn_define[]){{"DEFINED", "7"}}, 1, &err);
	if (error[0]) {
		sscanf(error, "%63s %u", code, &number);
		snprintf(line, sizeof(line), ":%u: ", number);
		if (!ok(r && !strcmp(dp_error_info(err.code)->name, code) && (!number || strstr(err.detail, line)),
			"%s: %s", name, error))
			printf("# %s: %s\n", r ? dp_error_info(err.code)->name : "no error", err.detail);
	} else if (!ok(!r, "%s assembles", name)) {
		printf("# %s: %s\n", dp_error_info(err.code)->name, err.detail);
	} else {
		if (want[0])
			check_unit(name, &u, want);
		ok(survives(&u), "%s can be listed, saved and loaded", name);
	}
	dp_rpn_free(&u);
	free(text);
}

static int is_program(const struct dirent *e)
{
	const char *dot = strrchr(e->d_name, '.');

	return dot && !strcmp(dot, ".rpn");
}

/* Instructions that fill the records of event lines, and their conditions: tests/unit/test-vm.c has those. */
static bool of_events(u32 opcode)
{
	u32 rule = dp_opcode_info(opcode)->rule;

	return (rule >= DP_RULE_OPEN && rule <= DP_RULE_SPAN) || (opcode >= DP_OP_LD8 && opcode <= DP_OP_NEED_GEU);
}

static void coverage(void)
{
	u32 i = 0, opcode, missing = 0;

	while (dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);

		if (info->rule == DP_RULE_BEGIN || info->rule >= DP_RULE_KERNEL || opcode == DP_OP_NOP ||
		    noticed[opcode])
			continue;
		if (of_events(opcode))
			continue;
		printf("# nothing here would notice if it did nothing: %s (0x%x)\n", info->text, opcode);
		missing++;
	}
	ok(!missing, "of every instruction of the language some program here notices when it is broken");
}

/* The reference page lists every instruction by its number and name, with the meaning that the table has. */
static void reference_page(void)
{
	FILE *f = fopen(GOLDEN "/../../doc/dprobes.lang.md", "re");
	static char page[1 << 18];
	u32 i = 0, opcode, missing = 0;

	if (f) {
		page[fread(page, 1, sizeof(page) - 1, f)] = '\0';
		fclose(f);
	}
	while (dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);
		char want[200];

		if (info->rule == DP_RULE_BEGIN || (info->rule >= DP_RULE_OPEN && info->rule <= DP_RULE_SPAN))
			continue;
		snprintf(want, sizeof(want), opcode > 0xff ? "| F1 %02X | `%s" : "| %02X | `%s", opcode & 0xff,
			 info->text);
		if (strstr(page, want) && (strchr(info->meaning, '|') || strstr(page, info->meaning)))
			continue;
		printf("# not in the reference page: %s: %s\n", want, info->meaning);
		missing++;
	}
	ok(!missing, "doc/dprobes.lang.md lists every instruction");
}

/* The text without the lines that give this keyword a value; NULL: there is none. */
static char *without(const char *text, const char *keyword, size_t n)
{
	char *copy = calloc(1, strlen(text) + 1), *to = copy;
	bool found = false;

	for (const char *line = text, *next; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		if (!strncmp(line, keyword, n) && line[n + strspn(line + n, " ")] == '=') {
			found = true;
			*to++ = '\n'; /* so that the other lines keep their numbers */
		} else {
			memcpy(to, line, (size_t)(next - line));
			to += next - line;
		}
	}
	if (!found)
		free(copy);
	return found ? copy : NULL;
}

static bool changes_something(const char *text, const char *less)
{
	struct dp_rpn_define d[] = {{"DEFINED", "7"}};
	struct dp_rpn_unit a = {0}, b = {0};
	struct dp_error err;
	bool differs = true;

	if (dp_rpn_parse(&a, text, "a", GOLDEN, d, 1, &err))
		return false;
	if (!dp_rpn_parse(&b, less, "b", GOLDEN, d, 1, &err)) {
		char *la = listing(&a), *lb = listing(&b);

		differs = strcmp(la, lb) != 0;
		free(la);
		free(lb);
		dp_rpn_free(&b);
	}
	dp_rpn_free(&a);
	return differs;
}

/* Of each keyword in the reference page some program here is another one without it. */
static bool keyword_matters(const char *keyword, size_t n)
{
	struct dirent **v;
	bool matters = false;
	int files = scandir(GOLDEN, &v, is_program, alphasort);

	for (int i = 0; i < files; i++) {
		char path[4096], *text, *less;

		snprintf(path, sizeof(path), "%s/%s", GOLDEN, v[i]->d_name);
		text = slurp(path);
		less = without(text, keyword, n);
		matters |= less && changes_something(text, less);
		free(less);
		free(text);
		free(v[i]);
	}
	if (files >= 0)
		free(v);
	return matters;
}

static void keywords(void)
{
	static char page[1 << 18];
	FILE *f = fopen(GOLDEN "/../../doc/dprobes.lang.md", "re");
	u32 missing = 0, n = 0;
	const char *p, *end;

	if (f) {
		page[fread(page, 1, sizeof(page) - 1, f)] = '\0';
		fclose(f);
	}
	p = strstr(page, "### The header");
	end = strstr(page, "## The machine");
	for (; p && end && p < end; p = strchr(p, '\n') + 1)
		for (const char *k = strncmp(p, "| `", 3) ? "" : p + 2; *k == '`'; n++) { /* `one`, `other` | */
			size_t len = strcspn(++k, "`");

			if (!keyword_matters(k, len)) {
				printf("# nothing here would notice without the keyword %.*s\n", (int)len, k);
				missing++;
			}
			k += len + 1;
			k += strncmp(k, ", ", 2) ? 0 : 2;
		}
	ok(n > 20 && !missing, "of each keyword in doc/dprobes.lang.md some program here notices when it is not there");
}

int main(void)
{
	static const char *const dirs[] = {GOLDEN, GOLDEN "/errors"};

	for (u32 d = 0; d < DP_ARRAY_SIZE(dirs); d++) {
		struct dirent **v;
		int n = scandir(dirs[d], &v, is_program, alphasort);

		for (int i = 0; i < n; i++) {
			golden(dirs[d], v[i]->d_name);
			free(v[i]);
		}
		if (n >= 0)
			free(v);
		ok(n > 0, "%s has programs", strrchr(dirs[d], '/') + 1);
	}
	coverage();
	keywords();
	reference_page();
	return done();
}
