/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Aggregates: what the keyword `aggregate` says of local variables that are shown as a whole (a count, a histogram, a
 * table by key), as text and as a structure.
 */
#include <stdio.h>
#include <string.h>

#include "abi/abi-program.h"
#include "lang/rpn/rpn-priv.h"

const char *dp_rpn_aggregate_kind(u32 kind)
{
	static const char *const kinds[DP_NAGGS] = {"count", "sum", "min", "max", "hist", "last", "lhist", "quantiles"};

	return kind < DP_NAGGS ? kinds[kind] : NULL;
}

static const char *const knowns[DP_KNOWN_WHATS] = {"exe", "cgroup"};

int dp_rpn_known_what(const char *name, size_t len)
{
	for (int i = 0; i < DP_KNOWN_WHATS; i++)
		if (strlen(knowns[i]) == len && !memcmp(knowns[i], name, len))
			return i;
	return -1;
}

const char *dp_rpn_known_name(u32 what)
{
	return knowns[what];
}

const char *dp_rpn_unit_name(u32 unit)
{
	static const char *const units[] = {"", "ns", "bytes"};

	return unit < DP_ARRAY_SIZE(units) ? units[unit] : NULL;
}

const char *dp_rpn_key_kind(u32 part)
{
	static const char *const parts[] = {"signed", "unsigned", "hex",     "text", "code",
					    "stack",  "names",    "process", "octal"};

	return part < DP_ARRAY_SIZE(parts) ? parts[part] : NULL;
}

bool dp_rpn_is_by_process(const struct dp_rpn_aggregate *a)
{
	for (u32 i = 0; i < a->nparts; i++)
		if (a->parts[i] == DP_KEY_PROCESS)
			return true;
	return false;
}

u32 dp_rpn_key_part_words(const struct dp_rpn_aggregate *a, u32 i)
{
	return a->parts[i] == DP_KEY_TEXT ? DP_KEY_TEXT_WORDS : a->parts[i] == DP_KEY_STACK ? a->frames : 1;
}

u32 dp_rpn_key_words(const struct dp_rpn_aggregate *a)
{
	u32 n = 0;

	for (u32 i = 0; i < a->nparts; i++)
		n += dp_rpn_key_part_words(a, i);
	return n;
}

u32 dp_rpn_placed_words(const struct dp_rpn_aggregate *a)
{
	return dp_rpn_key_words(a) - (a->chains ? a->frames - 1 : 0);
}

static u64 table_words(const struct dp_rpn_aggregate *a)
{
	return dp_table_words(dp_rpn_placed_words(a), a->keys, dp_aggregate_words(a->kind));
}

u32 dp_rpn_chains_at(const struct dp_rpn_aggregate *a)
{
	return a->index + (u32)table_words(a);
}

bool dp_rpn_aggregate_fits(const struct dp_rpn_aggregate *a)
{
	if ((a->is_set || a->of_process) && !a->thread)
		return false;
	return !a->thread || (a->kind == DP_AGG_LAST && a->nparts == 1 && a->parts[0] == DP_KEY_SIGNED);
}

u64 dp_rpn_aggregate_words(const struct dp_rpn_aggregate *a)
{
	if (!a->nparts)
		return dp_aggregate_words(a->kind);
	return table_words(a) + (a->chains ? dp_table_words(1, a->chains, a->frames) : 0);
}

bool dp_rpn_aggregate_is_sound(const struct dp_rpn_aggregate *a, u32 nlocals)
{
	u32 stacks = 0;

	if (!memchr(a->name, '\0', sizeof(a->name)) || a->kind >= DP_NAGGS || !a->step || a->nparts > DP_RPN_KEYS_MAX ||
	    a->index > nlocals || a->keys > DP_LOCALS_MAX || a->from < -(1ll << 31) || a->from > 1ll << 31 ||
	    !a->nparts != !a->keys)
		return false;
	for (u32 k = 0; k < a->nparts; k++) {
		bool stack = a->parts[k] == DP_KEY_STACK;

		if (!dp_rpn_key_kind(a->parts[k]) || (stack && (!a->frames || a->frames > DP_FRAMES_MAX)))
			return false;
		stacks += stack;
	}
	return (!a->chains || stacks == 1) && dp_rpn_key_words(a) <= DP_KEY_WORDS_MAX && dp_rpn_aggregate_fits(a) &&
	       dp_rpn_aggregate_words(a) <= nlocals - a->index;
}

void dp_rpn_aggregate_text(const struct dp_rpn_aggregate *a, char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "%s %u", dp_rpn_aggregate_kind(a->kind), a->index);

	if (a->kind == DP_AGG_LINEAR)
		n += (size_t)snprintf(buf + n, size - n, " %u", a->step);
	for (u32 i = 0; i < a->nparts; i++) {
		n += (size_t)snprintf(buf + n, size - n, "%s %s", i ? "" : " by", dp_rpn_key_kind(a->parts[i]));
		if (a->parts[i] == DP_KEY_STACK)
			n += (size_t)snprintf(buf + n, size - n, a->chains ? " %u of %u" : " %u", a->frames, a->chains);
		if (a->parts[i] == DP_KEY_NAMES)
			n += (size_t)snprintf(buf + n, size - n, " %u", a->layouts[i]);
	}
	if (a->nparts)
		n += (size_t)snprintf(buf + n, size - n, " %u", a->keys);
	if (a->average)
		n += (size_t)snprintf(buf + n, size - n, " average");
	if (a->unit)
		n += (size_t)snprintf(buf + n, size - n, " unit %s", dp_rpn_unit_name(a->unit));
	if (a->top)
		n += (size_t)snprintf(buf + n, size - n, " top %u", a->top);
	if (a->from)
		n += (size_t)snprintf(buf + n, size - n, " from %lld", (long long)a->from);
	if (a->loss)
		snprintf(buf + n, size - n, " loss");
	if (a->thread)
		snprintf(buf + n, size - n, " thread%s", a->is_set ? " set" : a->of_process ? " process" : "");
	if (a->hidden)
		snprintf(buf + n, size - n, " hidden");
}

static struct rpn_token after(const struct rpn_token *t)
{
	return dp_rpn_token(t->at + t->len);
}

static bool number_within(const struct rpn_token *t, u32 most, u32 *v)
{
	if (t->kind != RPN_NUMBER || t->bad || t->value < 0 || t->value > (s64)most)
		return false;
	*v = (u32)t->value;
	return true;
}

/* [average] [unit UNIT] [top N] [from N] [loss | thread [set | process] | hidden], up to the end */
static bool aggregate_view(struct rpn_token t, struct dp_rpn_aggregate *a)
{
	u32 most = 0;
	bool negative;

	if (dp_rpn_is(&t, "average")) {
		a->average = true;
		t = after(&t);
	}
	if (dp_rpn_is(&t, "unit")) {
		t = after(&t);
		for (a->unit = DP_RPN_UNIT_NS; !dp_rpn_is(&t, dp_rpn_unit_name(a->unit)); a->unit++)
			if (!dp_rpn_unit_name(a->unit + 1))
				return false;
		t = after(&t);
	}
	if (dp_rpn_is(&t, "top")) {
		t = after(&t);
		if (!number_within(&t, DP_LOCALS_MAX, &a->top))
			return false;
		t = after(&t);
	}
	if (dp_rpn_is(&t, "from")) {
		t = after(&t);
		negative = dp_rpn_is(&t, "-");
		if (negative)
			t = after(&t);
		if (!number_within(&t, 1u << 31, &most))
			return false;
		a->from = negative ? -(s64)most : (s64)most;
		t = after(&t);
	}
	if (dp_rpn_is(&t, "loss")) {
		a->loss = true;
		t = after(&t);
	} else if (dp_rpn_is(&t, "thread")) {
		a->thread = true;
		t = after(&t);
		a->is_set = dp_rpn_is(&t, "set");
		a->of_process = dp_rpn_is(&t, "process");
		if (a->is_set || a->of_process)
			t = after(&t);
	} else if (dp_rpn_is(&t, "hidden")) {
		a->hidden = true;
		t = after(&t);
	}
	return t.kind == RPN_END && dp_rpn_aggregate_fits(a);
}

/*
 * [by PART... KEYS] and how it is shown; a call chain is "stack N", its length, or "stack N of CHAINS"; "names N", of
 * layout TN
 */
static bool aggregate_key(struct rpn_token t, struct dp_rpn_aggregate *a)
{
	struct rpn_token next;
	u32 chains;

	if (!dp_rpn_is(&t, "by"))
		return aggregate_view(t, a);
	for (t = after(&t); t.kind != RPN_NUMBER; t = after(&t)) {
		u32 part = 0;

		while (dp_rpn_key_kind(part) && !dp_rpn_is(&t, dp_rpn_key_kind(part)))
			part++;
		if (!dp_rpn_key_kind(part) || a->nparts == DP_RPN_KEYS_MAX)
			return false;
		a->parts[a->nparts++] = part;
		if (part != DP_KEY_STACK && part != DP_KEY_NAMES)
			continue;
		t = after(&t);
		if (part == DP_KEY_NAMES) {
			if (!number_within(&t, 1u << 24, &a->layouts[a->nparts - 1]))
				return false;
			continue;
		}
		if (a->frames || !number_within(&t, DP_FRAMES_MAX, &a->frames) || !a->frames)
			return false;
		next = after(&t);
		if (!dp_rpn_is(&next, "of"))
			continue;
		t = after(&next);
		if (!number_within(&t, UINT16_MAX, &chains) || !chains)
			return false;
		a->chains = (u16)chains;
	}
	return a->nparts && number_within(&t, DP_LOCALS_MAX, &a->keys) && a->keys &&
	       dp_rpn_key_words(a) <= DP_KEY_WORDS_MAX && aggregate_view(after(&t), a);
}

bool dp_rpn_aggregate(const char *value, struct dp_rpn_aggregate *a)
{
	struct rpn_token name = dp_rpn_token(value), kind = after(&name), index = after(&kind), step = after(&index);
	int n = -1;

	*a = (struct dp_rpn_aggregate){.step = 1};
	if (name.kind == RPN_TEXT && !name.bad)
		n = dp_rpn_text(&name, a->name, sizeof(a->name) - 1);
	while (a->kind < DP_NAGGS && !dp_rpn_is(&kind, dp_rpn_aggregate_kind(a->kind)))
		a->kind++;
	return n > 0 && strlen(a->name) == (size_t)n && a->kind != DP_NAGGS &&
	       number_within(&index, DP_LOCALS_MAX, &a->index) &&
	       (a->kind != DP_AGG_LINEAR || number_within(&step, 1u << 30, &a->step)) && a->step &&
	       aggregate_key(a->kind == DP_AGG_LINEAR ? after(&step) : step, a) &&
	       a->index + dp_rpn_aggregate_words(a) <= DP_LOCALS_MAX;
}
