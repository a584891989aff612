/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Fetch arguments: NAME=%REG $VAR @PLACE +OFFSET(ARG) \CONSTANT :TYPE and the short forms rN sN
 * mADDR aN rv rp. Reads only: symbols stay names.
 */
#include "abi/abi-program.h"
#include "lang/event/event-priv.h"

static const struct {
	const char *name;
	u8 field, size;
	bool is_signed;
} types[] = {
    {"u8", DP_FIELD_U8, 1, false},          {"u16", DP_FIELD_U16, 2, false},
    {"u32", DP_FIELD_U32, 4, false},        {"u64", DP_FIELD_U64, 8, false},
    {"s8", DP_FIELD_S8, 1, true},           {"s16", DP_FIELD_S16, 2, true},
    {"s32", DP_FIELD_S32, 4, true},         {"s64", DP_FIELD_S64, 8, true},
    {"x8", DP_FIELD_X8, 1, false},          {"x16", DP_FIELD_X16, 2, false},
    {"x32", DP_FIELD_X32, 4, false},        {"x64", DP_FIELD_X64, 8, false},
    {"char", DP_FIELD_CHAR, 1, false},      {"string", DP_FIELD_STRING, 4, false},
    {"ustring", DP_FIELD_STRING, 4, false}, {"symbol", DP_FIELD_SYMBOL, 8, false},
};

/* What an opcode knows at every hit in the kernel: behind a $, and in filters as the kernel's own events call it. */
static const struct {
	const char *name, *filter, *type;
	enum dp_opcode opcode;
} asks[] = {
    {"pid", "", "s32", DP_OP_PUSH_PID},       {"tid", "common_pid", "s32", DP_OP_PUSH_TID},
    {"uid", "", "u32", DP_OP_PUSH_UID},       {"cpu", "CPU", "u32", DP_OP_PUSH_PROCID},
    {"cgroup", "", "u64", DP_OP_PUSH_CGROUP},
};

/* ---- types ---- */

static int find_type(const char *word, u32 len)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(types); i++)
		if (strlen(types[i].name) == len && !memcmp(types[i].name, word, len))
			return (int)i;
	return -1;
}

static bool is_bitfield(const char *p)
{
	return p[0] == 'b' && dp_ev_is_digit(p[1]);
}

/* What stands behind a colon is a type and not the symbol of a module. */
static bool is_type(const char *p)
{
	u32 len = dp_ev_word(p);

	return is_bitfield(p) || find_type(p, len) >= 0;
}

static void set_type(struct ev_type *t, u32 i)
{
	t->field = types[i].field;
	t->size = types[i].size;
	t->is_signed = types[i].is_signed;
	t->is_user = types[i].name[0] == 'u' && types[i].field == DP_FIELD_STRING;
}

static u32 small_number(const char **p)
{
	u32 v = 0;

	while (dp_ev_is_digit(**p) && v < 10000)
		v = v * 10 + (u32)(*(*p)++ - '0');
	return v;
}

/* bWIDTH@OFFSET/SIZE */
static int parse_bitfield(struct dp_event_line *l, struct ev_type *t)
{
	const char *p = l->text + l->pos + 1;
	u32 start = l->pos, width, shift = 0, size = 0;

	width = small_number(&p);
	if (*p == '@' && dp_ev_is_digit(p[1])) {
		p++;
		shift = small_number(&p);
		if (*p == '/') {
			p++;
			size = small_number(&p);
		}
	}
	l->pos = (u32)(p - l->text);
	if ((size != 8 && size != 16 && size != 32 && size != 64) || !width || width + shift > size)
		return dp_ev_fail(l, start, E_EVENT_BITFIELD, "`%.*s`",
				  (int)DP_MAX(l->pos - start, dp_ev_word(l->text + start)), l->text + start);
	t->size = (u8)(size / 8);
	t->field = size == 8 ? DP_FIELD_U8 : size == 16 ? DP_FIELD_U16 : size == 32 ? DP_FIELD_U32 : DP_FIELD_U64;
	t->bit_width = (u8)width;
	t->bit_shift = (u8)shift;
	return 0;
}

static int parse_array(struct dp_event_line *l, struct ev_type *t)
{
	u32 start = l->pos++;
	u64 n = 0;

	if (dp_ev_number(l, false, &n) < 0 || !n || n > DP_ARRAY_MAX || l->text[l->pos] != ']')
		return dp_ev_fail(l, start, E_EVENT_ARRAY, n > DP_ARRAY_MAX ? "%llu elements" : "here",
				  (unsigned long long)n);
	l->pos++;
	t->count = (u8)n;
	return 0;
}

static int parse_type(struct dp_event_line *l, struct ev_type *t)
{
	const char *p = l->text + l->pos;
	struct ev_nearest near = {p, dp_ev_word(p), 0, ""};
	int i = find_type(p, near.len), ret;

	t->is_given = true;
	if (i >= 0) {
		set_type(t, (u32)i);
		l->pos += near.len;
	} else if (is_bitfield(p)) {
		ret = parse_bitfield(l, t);
		if (ret)
			return ret;
	} else {
		ret = dp_ev_fail(l, l->pos, E_EVENT_TYPE, "`%.*s`", (int)near.len, p);
		for (u32 k = 0; k < DP_ARRAY_SIZE(types); k++)
			dp_ev_nearest_try(&near, types[k].name);
		dp_ev_nearest_hint(l, &near, "");
		return ret;
	}
	return l->text[l->pos] == '[' ? parse_array(l, t) : 0;
}

static void default_type(const struct dp_event_line *l, struct ev_fetch *f)
{
	struct ev_type *t = &f->type;
	u32 size = l->ev->watch_len;

	memset(t, 0, sizeof(*t));
	t->size = 8;
	t->field = DP_FIELD_X64;
	if (f->base == EV_TEXT || f->base == EV_COMM) {
		t->size = 4;
		t->field = DP_FIELD_STRING;
	} else if (f->base == EV_ASK && !f->nderef) {
		for (u32 i = 0; i < DP_ARRAY_SIZE(asks); i++)
			if (f->value == asks[i].opcode)
				set_type(t, (u32)find_type(asks[i].type, (u32)strlen(asks[i].type)));
	} else if (f->base == EV_FRAMES) {
		t->field = DP_FIELD_FRAME;
		t->count = DP_FRAMES_USUAL;
	} else if (f->base == EV_REG && !f->nderef && f->width < 64) {
		t->size = f->width / 8;
		t->field = t->size == 4 ? DP_FIELD_X32 : t->size == 2 ? DP_FIELD_X16 : DP_FIELD_X8;
	}
	if (!f->is_watched || f->nderef)
		return;
	/* What is watched has the type that the host knows, else is a number as wide as it. */
	if (l->env && l->env->watch_type)
		set_type(t, (u32)DP_MAX(find_type(l->env->watch_type, (u32)strlen(l->env->watch_type)), 0));
	else if (size == 1 || size == 2 || size == 4)
		set_type(t, size == 1 ? DP_FIELD_X8 : size == 2 ? DP_FIELD_X16 : DP_FIELD_X32);
}

/* A type that does not fit what it is applied to. */
static int check_type(struct dp_event_line *l, const struct ev_fetch *f, u32 column)
{
	bool is_text = f->base == EV_TEXT || f->base == EV_COMM;
	int ret;

	if (f->base == EV_FRAMES) {
		if (f->type.field != DP_FIELD_SYMBOL || !f->type.count)
			return dp_ev_fail(l, column, E_EVENT_FRAMES, "`%.*s`", (int)(l->pos - f->column),
					  l->text + f->column);
		return 0;
	}
	if (is_text && (!ev_is_string(f) || f->type.count))
		return dp_ev_fail(l, column, E_EVENT_COMM, "`%.*s`", (int)(l->pos - f->column), l->text + f->column);
	if (ev_is_string(f) && !is_text && !f->in_memory) {
		ret = dp_ev_fail(l, column, E_EVENT_STRING, "`%.*s`", (int)(l->pos - f->column), l->text + f->column);
		dp_error_hint(l->err, "did you mean +0(%.*s):string?", (int)(column - 1 - f->column),
			      l->text + f->column);
		return ret;
	}
	if (f->type.count && !f->in_memory)
		return dp_ev_fail(l, column, E_EVENT_ARRAYMEM, "`%.*s`", (int)(l->pos - f->column),
				  l->text + f->column);
	return 0;
}

/* ---- registers and variables ---- */

static int follow(struct dp_event_line *l, struct ev_fetch *f, s64 offset, u32 column)
{
	if (f->nderef == EV_DEREF_MAX)
		return dp_ev_fail(l, column, E_EVENT_DEREF, "more than %u", EV_DEREF_MAX);
	if (offset != (s32)offset)
		return dp_ev_fail(l, column, E_EVENT_DISP, "%lld", (long long)offset);
	f->deref[f->nderef++] = (s32)offset;
	return 0;
}

static void set_register(struct dp_event_line *l, struct ev_fetch *f, u32 reg_word)
{
	l->ev->has_registers = true;
	f->base = EV_REG;
	f->reg_word = (u8)reg_word;
	f->width = 64;
}

static int stack_word(struct dp_event_line *l, struct ev_fetch *f, u64 n)
{
	if (n > EV_STACKN_MAX)
		return dp_ev_fail(l, f->start, E_EVENT_STACKN, "%llu", (unsigned long long)n);
	set_register(l, f, DP_REG_WORD(sp));
	return follow(l, f, (s64)n * 8, f->start);
}

/* The System V calling convention. */
static int function_argument(struct dp_event_line *l, struct ev_fetch *f, u64 n)
{
	static const u8 reg_words[EV_REG_ARGS] = {DP_REG_WORD(di), DP_REG_WORD(si), DP_REG_WORD(dx),
						  DP_REG_WORD(cx), DP_REG_WORD(r8), DP_REG_WORD(r9)};

	if (l->ev->is_return)
		return dp_ev_fail(l, f->start, E_EVENT_RETARG, "argument %llu", (unsigned long long)n);
	if (l->ev->is_watch && l->ev->watch_type != DP_WATCH_X)
		return dp_ev_fail(l, f->start, E_EVENT_WATCHARG, "argument %llu", (unsigned long long)n);
	if (!n || n > EV_ARGN_MAX)
		return dp_ev_fail(l, f->start, E_EVENT_ARGN, "%llu", (unsigned long long)n);
	l->ev->has_args = true;
	if (n > EV_REG_ARGS)
		return stack_word(l, f, n - EV_REG_ARGS);
	set_register(l, f, reg_words[n - 1]);
	return 0;
}

static int return_value(struct dp_event_line *l, struct ev_fetch *f)
{
	if (!l->ev->is_return)
		return dp_ev_fail(l, f->start, E_EVENT_RETVAL, "this is an entry probe");
	l->ev->has_retval = true;
	set_register(l, f, DP_REG_WORD(ax));
	return 0;
}

/* What only a watchpoint knows. Values are as wide as what is watched. */
static int watch_word(struct dp_event_line *l, struct ev_fetch *f, u32 reg_word)
{
	if (!l->ev->is_watch)
		return dp_ev_fail(l, f->start, E_EVENT_WATCHVAR, "this event begins with %c",
				  l->ev->is_return ? 'r' : 'p');
	set_register(l, f, reg_word);
	f->is_watched = reg_word != DP_WATCH_WORD(addr);
	return 0;
}

static int parse_register(struct dp_event_line *l, struct ev_fetch *f)
{
	const char *p = l->text + ++l->pos;
	struct dp_register_part part;
	struct ev_nearest near = {p, 0, 0, ""};
	const struct dp_register *reg;
	int ret;

	while (dp_ev_is_word(p[near.len]))
		near.len++;
	if (dp_register_find(p, near.len, &part)) {
		set_register(l, f, part.reg->reg_word);
		f->width = part.width;
		f->shift = part.shift;
		l->pos += near.len;
		return 0;
	}
	ret = dp_ev_fail(l, f->start, E_EVENT_REG, "`%%%.*s`", (int)near.len, p);
	for (u32 i = 0; (reg = dp_register_at(i)); i++)
		for (u32 k = 0; k < DP_ARRAY_SIZE(reg->names); k++)
			dp_ev_nearest_try(&near, reg->names[k]);
	dp_ev_nearest_hint(l, &near, "%");
	return ret;
}

/* The word at p is `prefix` and then a number, or (exact) just the prefix. */
static bool word_is(const char *p, u32 len, const char *prefix, bool numbered)
{
	u32 n = (u32)strlen(prefix);

	if (len < n || memcmp(p, prefix, n))
		return false;
	if (!numbered)
		return len == n;
	for (u32 i = n; i < len; i++)
		if (!dp_ev_is_digit(p[i]))
			return false;
	return len > n;
}

static bool ask(const struct dp_event_line *l, struct ev_fetch *f, const char *p, u32 len, bool filter)
{
	for (u32 i = 0; i < DP_ARRAY_SIZE(asks) && l->is_kernel; i++)
		if (word_is(p, len, filter ? asks[i].filter : asks[i].name, false)) {
			f->base = EV_ASK;
			f->value = asks[i].opcode;
			return true;
		}
	return false;
}

static int parse_variable(struct dp_event_line *l, struct ev_fetch *f)
{
	static const char *const known[] = {"arg1",      "retval", "stack", "stack0", "comm",
					    "backtrace", "addr",   "old",   "new"};
	const char *p = l->text + ++l->pos, *digits;
	u32 len = 0;
	struct ev_nearest near;
	int ret;

	while (dp_ev_is_word(p[len]))
		len++;
	l->pos += len;
	if (word_is(p, len, "arg", true)) {
		digits = p + 3;
		return function_argument(l, f, small_number(&digits));
	}
	if (word_is(p, len, "stack", true)) {
		digits = p + 5;
		return stack_word(l, f, small_number(&digits));
	}
	if (word_is(p, len, "stack", false)) {
		set_register(l, f, DP_REG_WORD(sp));
		return 0;
	}
	if (ask(l, f, p, len, false))
		return 0;
	if (word_is(p, len, "retval", false))
		return return_value(l, f);
	if (word_is(p, len, "comm", false)) {
		f->base = EV_COMM;
		return 0;
	}
	if (word_is(p, len, "addr", false))
		return watch_word(l, f, DP_WATCH_WORD(addr));
	if (word_is(p, len, "old", false))
		return watch_word(l, f, DP_WATCH_WORD(old));
	if (word_is(p, len, "new", false))
		return watch_word(l, f, DP_WATCH_WORD(now));
	if (word_is(p, len, "backtrace", false)) {
		f->base = EV_FRAMES;
		return 0;
	}
	if (word_is(p, len, "arg", false))
		return dp_ev_fail(l, f->start, E_EVENT_ARGN, "the number is missing");
	ret = dp_ev_fail(l, f->start, E_EVENT_VAR, "`$%.*s`", (int)len, p);
	near = (struct ev_nearest){p, len, 0, ""};
	for (u32 i = 0; i < DP_ARRAY_SIZE(known); i++)
		dp_ev_nearest_try(&near, known[i]);
	dp_ev_nearest_hint(l, &near, "$");
	return ret;
}

/* ---- the short forms ---- */

/* mADDR: digits behind the m, decimal or 0x. */
static bool is_memory_form(const char *p, u32 len)
{
	if (len < 2 || p[0] != 'm' || !dp_ev_is_digit(p[1]))
		return false;
	if (p[1] == '0' && p[2] == 'x')
		return len > 3;
	return word_is(p, len, "m", true);
}

bool dp_ev_is_short_form(const char *p, u32 len)
{
	return word_is(p, len, "r", true) || word_is(p, len, "s", true) || word_is(p, len, "a", true) ||
	       word_is(p, len, "rv", false) || word_is(p, len, "rp", false) || is_memory_form(p, len);
}

static int parse_short_form(struct dp_event_line *l, struct ev_fetch *f)
{
	const char *p = l->text + l->pos, *digits = p + 1;
	u32 len = dp_ev_word(p);
	u64 n;
	int ret;

	if (p[0] == 'm') {
		l->pos++;
		ret = dp_ev_number(l, false, &f->value);
		f->base = EV_CONST;
		f->in_memory = true;
		return ret ? ret : follow(l, f, 0, f->start);
	}
	l->pos += len;
	if (word_is(p, len, "rv", false))
		return return_value(l, f);
	if (word_is(p, len, "rp", false)) {
		if (!l->ev->is_return)
			return dp_ev_fail(l, f->start, E_EVENT_RETADDR, "this is an entry probe");
		if (!l->is_kernel)
			return stack_word(l, f, 0);
		set_register(l, f, DP_REG_WORD(orig_ax)); /* it has left the stack: the host gives it there */
		return 0;
	}
	n = small_number(&digits);
	if (p[0] == 'a')
		return function_argument(l, f, n);
	if (p[0] == 's')
		return stack_word(l, f, n);
	if (n >= DP_NREG_WORDS)
		return dp_ev_fail(l, f->start, E_EVENT_REG, "r%llu; r0 to r%u exist", (unsigned long long)n,
				  (u32)DP_NREG_WORDS - 1);
	set_register(l, f, (u32)n);
	return 0;
}

/* ---- places in memory, constants ---- */

/* MODULE: in front of a symbol; its length with the colon, or 0. */
static u32 module_prefix(const char *p)
{
	u32 n = 0;

	while (dp_ev_is_word(p[n]) || p[n] == '.' || p[n] == '/' || p[n] == '-' || p[n] == '+')
		n++;
	if (!n || p[n] != ':' || p[n + 1] == ':' || !(dp_ev_word(p + n + 1) || p[n + 1] == '"'))
		return 0;
	return is_type(p + n + 1) ? 0 : n + 1;
}

static u32 symbol_length(const char *p)
{
	u32 n = 0;

	for (;;) {
		if (p[n] == ':' && p[n + 1] == ':')
			n += 2;
		else if (dp_ev_is_word(p[n]) || p[n] == '.' || p[n] == '$' || (n && p[n] == '@'))
			n++;
		else
			return n;
	}
}

static int parse_symbol(struct dp_event_line *l, struct ev_fetch *f)
{
	const char *p = l->text + l->pos;
	u32 module = module_prefix(p), len = symbol_length(p + module);
	u16 part, part_len;
	bool negative;
	int ret;

	f->base = EV_SYMBOL;
	f->text = (u16)l->pool_len;
	ret = dp_ev_keep(l, p, module, &part);
	l->pos += module;
	if (!ret && l->text[l->pos] == '"') {
		ret = dp_ev_quoted(l, DP_SYMBOL_MAX - 1, &part, &part_len);
		len = part_len;
	} else if (!ret) {
		ret = dp_ev_keep(l, l->text + l->pos, len, &part);
		l->pos += len;
	}
	if (ret)
		return ret;
	if (!len)
		return dp_ev_fail(l, l->pos, E_EVENT_SYMBOL, "a name or number is missing here");
	f->text_len = (u16)(l->pool_len - f->text);
	p = l->text + l->pos;
	if ((*p == '+' || *p == '-') && dp_ev_is_digit(p[1])) {
		negative = *p == '-';
		l->pos++;
		ret = dp_ev_number(l, false, &f->value);
		if (negative)
			f->value = -f->value;
	}
	return ret;
}

static int parse_place(struct dp_event_line *l, struct ev_fetch *f)
{
	char c = l->text[++l->pos];
	int ret;

	if (c == '+') {
		l->pos++;
		f->base = EV_FILE;
		ret = dp_ev_number(l, false, &f->value);
	} else if (dp_ev_is_digit(c)) {
		f->base = EV_CONST;
		ret = dp_ev_number(l, false, &f->value);
	} else {
		ret = parse_symbol(l, f);
	}
	f->in_memory = true;
	return ret ? ret : follow(l, f, 0, f->start);
}

static int parse_constant(struct dp_event_line *l, struct ev_fetch *f)
{
	bool negative;
	int ret;

	if (l->text[++l->pos] == '"') {
		f->base = EV_TEXT;
		return dp_ev_quoted(l, DP_TEXT_OPERAND_MAX, &f->text, &f->text_len);
	}
	f->base = EV_CONST;
	negative = l->text[l->pos] == '-';
	l->pos += negative;
	if (!dp_ev_is_digit(l->text[l->pos]))
		return dp_ev_fail(l, l->pos, E_EVENT_IMM, "a number or a text is missing here");
	ret = dp_ev_number(l, false, &f->value);
	if (negative)
		f->value = -f->value;
	return ret;
}

static int parse_base(struct dp_event_line *l, struct ev_fetch *f, u32 depth);

/* +OFFSET(ARG), -uOFFSET(ARG); the u says user memory, and only that. */
static int parse_access(struct dp_event_line *l, struct ev_fetch *f, u32 depth)
{
	bool negative = l->text[l->pos] == '-', user;
	u32 start = l->pos++, open;
	u64 offset;
	int ret;

	if (depth == EV_DEREF_MAX)
		return dp_ev_fail(l, start, E_EVENT_DEREF, "more than %u", EV_DEREF_MAX);
	user = l->text[l->pos] == 'u';
	l->pos += user;
	ret = dp_ev_number(l, false, &offset);
	if (ret)
		return ret;
	open = l->pos;
	if (l->text[open] != '(')
		return dp_ev_fail(l, open, E_EVENT_PAREN, "( is missing here");
	if (offset > 0x80000000ull)
		return dp_ev_fail(l, start, E_EVENT_DISP, "%llu", (unsigned long long)offset);
	l->pos++;
	dp_ev_skip_blanks(l);
	ret = parse_base(l, f, depth + 1);
	if (ret)
		return ret;
	dp_ev_skip_blanks(l);
	if (f->base == EV_TEXT || f->base == EV_COMM)
		return dp_ev_fail(l, open + 1, E_EVENT_COMM, "a text is no address");
	if (f->base == EV_FRAMES)
		return dp_ev_fail(l, open + 1, E_EVENT_FRAMES, "it is no address");
	if (l->text[l->pos] != ')')
		return dp_ev_fail(l, l->pos, E_EVENT_PAREN, ") is missing here, for the ( at column %u", open + 1);
	l->pos++;
	f->in_memory = true;
	ret = follow(l, f, negative ? -(s64)offset : (s64)offset, start);
	if (!ret && user)
		f->user |= (u16)(1u << (f->nderef - 1));
	return ret;
}

/* A word that is no argument; perhaps only its % or $ is missing. */
static int bare_word(struct dp_event_line *l, const char *p, u32 len)
{
	static const char *const words[] = {"if", "by", "top", "count",
					    "return"}; /* of lines with names, some of them */
	int ret = dp_ev_fail(l, l->pos, E_EVENT_ARG, "`%.*s`", (int)len, p);
	struct ev_nearest near = {p, len, 0, ""};
	struct dp_register_part part;

	for (u32 i = 0; i < DP_ARRAY_SIZE(words); i++)
		dp_ev_nearest_try(&near, words[i]);
	dp_ev_nearest_hint(l, &near, "");
	if (dp_register_find(p, len, &part))
		dp_error_hint(l->err, "did you mean %%%.*s?", (int)len, p);
	else if (word_is(p, len, "arg", true) || word_is(p, len, "stack", true) || word_is(p, len, "retval", false) ||
		 word_is(p, len, "comm", false) || word_is(p, len, "backtrace", false))
		dp_error_hint(l->err, "did you mean $%.*s?", (int)len, p);
	else if (!near.best[0])
		dp_error_hint(l->err, "a variable of the program is written $%.*s, a register with %% in front",
			      (int)len, p);
	return ret;
}

bool dp_ev_is_filter_word(const struct dp_event_line *l, const char *p, u32 len)
{
	struct ev_fetch f;

	return len && (ask(l, &f, p, len, true) || (l->is_kernel && word_is(p, len, "COMM", false)));
}

/* Whose hit it is, as filters of the kernel's events say it. */
static void filter_word(struct dp_event_line *l, struct ev_fetch *f, const char *p, u32 len)
{
	l->pos += len;
	if (!ask(l, f, p, len, true))
		f->base = EV_COMM;
}

static int parse_base(struct dp_event_line *l, struct ev_fetch *f, u32 depth)
{
	const char *p = l->text + l->pos;
	u32 len = dp_ev_word(p);

	f->start = l->pos;
	switch (*p) {
	case '%':
		return parse_register(l, f);
	case '$':
		return parse_variable(l, f);
	case '@':
		return parse_place(l, f);
	case '+':
	case '-':
		return parse_access(l, f, depth);
	case '\\':
		return parse_constant(l, f);
	case '\0':
		return dp_ev_fail(l, l->pos, E_EVENT_ARG, "the line ends here");
	}
	if (dp_ev_is_short_form(p, len))
		return parse_short_form(l, f);
	if (dp_ev_is_filter_word(l, p, len)) {
		filter_word(l, f, p, len);
		return 0;
	}
	return len ? bare_word(l, p, len) : dp_ev_fail(l, l->pos, E_EVENT_ARG, "unexpected `%c`", *p);
}

int dp_ev_parse_fetch(struct dp_event_line *l, struct ev_fetch *f)
{
	u32 colon;
	int ret;

	memset(f, 0, sizeof(*f));
	f->column = l->pos;
	ret = parse_base(l, f, 0);
	if (ret)
		return ret;
	default_type(l, f);
	if (l->text[l->pos] == ':' && dp_ev_is_word(l->text[l->pos + 1])) {
		colon = l->pos++;
		ret = parse_type(l, &f->type);
		if (!ret)
			ret = check_type(l, f, colon + 1);
		if (!ret && f->base == EV_FRAMES)
			f->type.field = DP_FIELD_FRAME;
	}
	f->end = l->pos;
	return ret;
}

/* ---- an argument of the line ---- */

/* NAME= in front; the position of the =, or 0. */
static u32 find_equals(const struct dp_event_line *l)
{
	u32 at = l->pos;

	while (dp_ev_is_word(l->text[at]) || l->text[at] == '-' || l->text[at] == '.' || l->text[at] == '#')
		at++;
	return l->text[at] == '=' ? at : 0;
}

static bool is_taken(const struct dp_event_line *l, const char *name)
{
	for (u32 i = 0; i < l->nargs && *name; i++)
		if (!strcmp(l->args[i].name, name))
			return true;
	return false;
}

/* Of an argument without one: what it asks, where only the kernel's lines can ask that, or else its number. */
static void make_name(const struct dp_event_line *l, const char *p, char name[DP_NAME_MAX])
{
	u32 len = *p == '$' ? dp_ev_word(p + 1) : 0;
	struct ev_fetch ignored;

	if (len && ask(l, &ignored, p + 1, len, false)) {
		dp_format(name, DP_NAME_MAX, "%.*s", (int)len, p + 1);
		if (!is_taken(l, name))
			return;
	}
	dp_format(name, DP_NAME_MAX, "arg%u", l->nargs + 1);
}

static int parse_name(struct dp_event_line *l, struct ev_arg *arg)
{
	u32 equals = find_equals(l), len = dp_ev_word(l->text + l->pos), start = l->pos;
	const char *p = l->text + start;

	if (!equals) {
		if (!dp_ev_is_short_form(p, len))
			make_name(l, p, arg->name);
	} else if (start + len != equals || !len || len >= DP_NAME_MAX || !strncmp(p, "__probe_", 8)) {
		return dp_ev_fail(l, start, E_EVENT_ARGNAME, "`%.*s`", (int)(equals - start), p);
	} else {
		memcpy(arg->name, p, len);
		l->pos = equals + 1;
	}
	return is_taken(l, arg->name) ? dp_ev_fail(l, start, E_EVENT_REUSE, "`%s`", arg->name) : 0;
}

int dp_ev_parse_argument(struct dp_event_line *l)
{
	struct ev_arg *arg = &l->args[l->nargs];
	int ret;

	if (l->nargs == DP_FIELDS_MAX)
		return dp_ev_fail(l, l->pos, E_EVENT_ARGS, "more than %u", DP_FIELDS_MAX);
	ret = parse_name(l, arg);
	if (!ret)
		ret = dp_ev_parse_fetch(l, &arg->fetch);
	if (ret)
		return ret;
	if (l->text[l->pos] == ')')
		return dp_ev_fail(l, l->pos, E_EVENT_PAREN, "this ) has no (");
	if (!dp_ev_is_blank(l->text[l->pos]))
		return dp_ev_fail(l, l->pos, E_EVENT_ARG, "unexpected `%c` behind the argument", l->text[l->pos]);
	l->nargs++;
	return 0;
}
