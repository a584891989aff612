/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The tables by which programs walk call chains (`push frames`): those of all modules that are mapped at arming. */
#include <stdlib.h>
#include <string.h>

#include "abi/abi-unwind.h"
#include "host/process/session-priv.h"
#include "program/opcode.h"
#include "symbols/sym-unwind.h"

bool dp_session_uses(const struct dp_session *s, enum dp_opcode opcode)
{
	const struct dp_program *last = NULL; /* the others of a pattern have the same */

	for (u32 i = 0; i < s->nprobes; i++) {
		const struct dp_program *p = s->probes[i].event ? &s->probes[i].event->prog : NULL;

		if (!p || (last && p->len == last->len && !memcmp(p->code, last->code, p->len)))
			continue;
		if (dp_program_uses(p, opcode))
			return true;
		last = p;
	}
	return false;
}

bool dp_session_walks(const struct dp_session *s)
{
	return dp_session_uses(s, DP_OP_PUSH_FRAMES) || dp_session_uses(s, DP_OP_PUSH_CHAIN);
}

void dp_unwind_free(struct dp_unwind_tables *t)
{
	for (u32 i = 0; i < t->n; i++)
		free(t->rows[i]);
	free(t->rows);
	free(t->modules);
	*t = (struct dp_unwind_tables){0};
}

static int by_start(const void *a, const void *b)
{
	const struct dp_image *x = *(const struct dp_image *const *)a, *y = *(const struct dp_image *const *)b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

int dp_unwind_build(struct dp_session *s, struct dp_error *err)
{
	struct dp_unwind_tables *t = &s->unwind;
	size_t n = s->proc.nimages;
	struct dp_image **images;
	int r = 0;

	dp_unwind_free(t);
	if (!dp_session_walks(s))
		return 0;
	images = calloc(n + 1, sizeof(struct dp_image *));
	t->modules = calloc(n + 1, sizeof(*t->modules));
	t->rows = calloc(n + 1, sizeof(*t->rows));
	if (!images || !t->modules || !t->rows)
		r = dp_fail(err, E_ARM_NOMEM, "unwind tables");
	for (size_t i = 0; !r && i < n; i++)
		images[i] = &s->proc.images[i];
	if (!r)
		qsort(images, n, sizeof(struct dp_image *), by_start);
	for (size_t i = 0; !r && i < n; i++) {
		struct dp_unwind_module *m = &t->modules[t->n];
		u32 rows;

		/* A module that cannot be read ends the chains that reach it. */
		if (dp_module_unwind(images[i]->mod, &t->rows[t->n], &rows, NULL))
			continue;
		*m = (struct dp_unwind_module){.lo = images[i]->bias + dp_module_lowest(images[i]->mod), .n = rows};
		m->hi = DP_MIN(images[i]->hi, m->lo + 0xffffffffull);
		t->n++;
	}
	free(images);
	if (r)
		dp_unwind_free(t);
	return r;
}

u64 dp_unwind_size(const struct dp_unwind_tables *t)
{
	u64 size = sizeof(struct dp_unwind) + t->n * sizeof(struct dp_unwind_module) + 16;

	for (u32 i = 0; i < t->n; i++)
		size += t->modules[i].n * sizeof(struct dp_unwind_row);
	return t->n ? size : 0;
}

static u64 mixed(u64 digest, u64 word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15ull;
	return digest ^ digest >> 32;
}

static u64 digest_of(u64 digest, const void *bytes, u64 n)
{
	u64 word;

	for (u64 i = 0; i + 8 <= n; i += 8) {
		memcpy(&word, (const u8 *)bytes + i, 8);
		digest = mixed(digest, word);
	}
	return digest;
}

u64 dp_unwind_place(const struct dp_unwind_tables *t, u8 *image, u64 *at, u64 origin)
{
	u64 where = DP_ALIGN_UP(*at, 16),
	    rows = where + sizeof(struct dp_unwind) + t->n * sizeof(struct dp_unwind_module);
	struct dp_unwind *u = (struct dp_unwind *)(image + where);

	u->n = t->n;
	u->digest = 1;
	for (u32 i = 0; i < t->n; i++) {
		u64 bytes = t->modules[i].n * sizeof(struct dp_unwind_row);

		u->modules[i] = t->modules[i];
		u->modules[i].rows = 0;
		u->digest = digest_of(u->digest, &u->modules[i], sizeof(u->modules[i]));
		u->digest = digest_of(u->digest, t->rows[i], bytes) | 1;
		u->modules[i].rows = origin + rows;
		if (bytes)
			memcpy(image + rows, t->rows[i], bytes);
		rows += bytes;
	}
	*at = rows;
	return where;
}
