/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Golden probe programs: each .rpn file here says in lines "//= ..." what its probes leave behind when they run one after
 * the other on the tests' machine (unit/machine.c), or in one line "//! CODE LINE" which error it must give. What
 * assembles must also survive being listed, saved and loaded.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/machine.h"
#include "lang/rpn/rpn.h"
#include "log/rpn.h"

static u8 seen[65536];

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
	struct dp_line line = {0};

	fprintf(out, "%s", words[result]);
	if (m->hit.exceptions)
		fprintf(out, " exceptions %u", m->hit.exceptions);
	if (m->dumps)
		fprintf(out, " dumps %u", m->dumps);
	if (result == DP_RUN_LOG) {
		u32 n = m->hit.log_len - (u32)sizeof(*head);

		fprintf(out, "%s %u,%u ", m->hit.rec_flags & DP_REC_TRUNCATED ? " cut" : "", head->major, head->minor);
		if (!dp_rpn_items_json(&line, items, n))
			for (u32 i = 0; i < n; i++)
				fprintf(out, "%02x", items[i]);
		fprintf(out, "%.*s", (int)line.n, line.text ? line.text : "");
	}
	fprintf(out, "\n");
	dp_line_reset(&line);
	if (result != DP_RUN_PASSED && m->rt.ex_mask && dp_vm_trace(&m->hit)) {
		dp_rpn_traces_json(&line, items, m->hit.log_len - sizeof(*head));
		fprintf(out, "trace %.*s\n", (int)line.n, line.text ? line.text : "");
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
		       !strcmp(p->symbol, q->symbol) && p->at_return == q->at_return && p->group == q->group;
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

static void run_unit(const char *name, const struct dp_rpn_unit *u, const char *want)
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
		note(&u->probes[i].prog);
		/* Probes at one place count together: a file shows pass counts by repeating a probe. */
		if (!i || strcmp(u->probes[i].symbol, u->probes[i - 1].symbol))
			m.gate = 0;
		m.dumps = 0;
		show(out, &m, machine_run(&m, &u->probes[i].prog));
	}
	fclose(out);
	if (!ok(!strcmp(got, want), "%s", name))
		printf("# --- wanted\n%s# --- got\n%s", want, got);
	free(got);
	machine_free(&m);
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
			run_unit(name, &u, want);
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

static void coverage(void)
{
	u32 i = 0, opcode, missing = 0;

	while (dp_opcode_next(&i, &opcode)) {
		const struct dp_opcode_info *info = dp_opcode_info(opcode);

		if (info->rule < DP_RULE_BEGIN || info->rule == DP_RULE_KERNEL || seen[opcode])
			continue;
		printf("# never run: %s (0x%x)\n", info->text, opcode);
		missing++;
	}
	ok(!missing, "every instruction of the language alone was run");
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
		snprintf(want, sizeof(want), opcode > 0xff ? "| F1 %02X | `%s" : "| %02X | `%s", opcode & 0xff, info->text);
		if (strstr(page, want) && (strchr(info->meaning, '|') || strstr(page, info->meaning)))
			continue;
		printf("# not in the reference page: %s: %s\n", want, info->meaning);
		missing++;
	}
	ok(!missing, "doc/dprobes.lang.md lists every instruction");
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
	reference_page();
	return done();
}
