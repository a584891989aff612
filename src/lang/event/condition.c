/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The condition behind `if`: an expression as in C over fetch arguments and the names of earlier
 * arguments, 64 bits wide. Builds a tree with the types checked and constants folded; see
 * gen-condition.c for the code.
 */
#include "lang/event/event-priv.h"

static int parse_expr(struct dp_event_line *l, u32 depth, s16 *out);

/* ---- nodes ---- */

static int new_node(struct dp_event_line *l, enum ev_node_kind kind, u32 column, s16 *out)
{
	struct ev_node *n = &l->nodes[l->nnodes];

	if (l->nnodes == EV_NODES_MAX)
		return dp_ev_fail(l, column, E_EVENT_DEEP, "more than %u parts", EV_NODES_MAX);
	memset(n, 0, sizeof(*n));
	n->kind = kind;
	n->column = column;
	n->a = n->b = n->c = -1;
	*out = (s16)l->nnodes++;
	return 0;
}

static int new_const(struct dp_event_line *l, u64 value, u32 column, s16 *out)
{
	int ret = new_node(l, EV_NODE_CONST, column, out);

	if (!ret) {
		l->nodes[*out].value = value;
		l->nodes[*out].is_unsigned = value >> 63;
	}
	return ret;
}

static bool is_text(const struct ev_node *n)
{
	return n->kind == EV_NODE_TEXT || (n->kind == EV_NODE_FETCH && ev_is_string(n->fetch));
}

static int new_fetch(struct dp_event_line *l, const struct ev_fetch *f, u32 column, s16 *out)
{
	int ret;

	if (f->type.count)
		return dp_ev_fail(l, column, E_EVENT_MIX, "an array has no single value");
	ret = new_node(l, EV_NODE_FETCH, column, out);
	if (ret)
		return ret;
	l->nodes[*out].fetch = f;
	/* Smaller unsigned values fit into signed words, as in C. */
	l->nodes[*out].is_unsigned = !f->type.is_signed && f->type.size == 8 &&
				     (!f->type.bit_width || f->type.bit_width == 64);
	return 0;
}

/* Texts only where texts are compared. */
static int need_number(struct dp_event_line *l, s16 i)
{
	return is_text(&l->nodes[i]) ? dp_ev_fail(l, l->nodes[i].column, E_EVENT_MIX, "a number is needed here") : 0;
}

/* ---- constants ---- */

static u64 fold_unary(enum ev_op op, u64 x)
{
	return op == EV_OP_NEG ? -x : op == EV_OP_NOT ? ~x : !x;
}

static u64 fold_shift(enum ev_op op, u64 x, u64 n, bool is_unsigned)
{
	if (op == EV_OP_SHL)
		return n > 63 ? 0 : x << n;
	if (is_unsigned)
		return n > 63 ? 0 : x >> n;
	return (u64)((s64)x >> (n > 63 ? 63 : n));
}

static u64 fold_divide(enum ev_op op, u64 x, u64 y, bool is_unsigned)
{
	if (is_unsigned)
		return op == EV_OP_DIV ? x / y : x % y;
	if ((s64)y == -1) /* the one quotient that does not fit */
		return op == EV_OP_DIV ? -x : 0;
	return (u64)(op == EV_OP_DIV ? (s64)x / (s64)y : (s64)x % (s64)y);
}

static bool fold_compare(enum ev_op op, u64 x, u64 y, bool is_unsigned)
{
	bool less = is_unsigned ? x < y : (s64)x < (s64)y;

	switch (op) {
	case EV_OP_EQ:
		return x == y;
	case EV_OP_NE:
		return x != y;
	case EV_OP_LT:
		return less;
	case EV_OP_LE:
		return less || x == y;
	case EV_OP_GT:
		return !less && x != y;
	default:
		return !less;
	}
}

static u64 fold_binary(enum ev_op op, u64 x, u64 y, bool is_unsigned)
{
	switch (op) {
	case EV_OP_LOR:
		return x || y;
	case EV_OP_LAND:
		return x && y;
	case EV_OP_OR:
		return x | y;
	case EV_OP_XOR:
		return x ^ y;
	case EV_OP_AND:
		return x & y;
	case EV_OP_ADD:
		return x + y;
	case EV_OP_SUB:
		return x - y;
	case EV_OP_MUL:
		return x * y;
	case EV_OP_SHL:
	case EV_OP_SHR:
		return fold_shift(op, x, y, is_unsigned);
	case EV_OP_DIV:
	case EV_OP_MOD:
		return fold_divide(op, x, y, is_unsigned);
	default:
		return fold_compare(op, x, y, is_unsigned);
	}
}

/* ---- operators ---- */

static bool is_comparison(enum ev_op op)
{
	return op == EV_OP_EQ || op == EV_OP_NE || (op >= EV_OP_LT && op <= EV_OP_GE);
}

/*
 * An argument against a constant that its type cannot reach, or an unsigned one against "below
 * zero": surely not what was meant.
 */
static int check_reach(struct dp_event_line *l, enum ev_op op, const struct ev_node *f, const struct ev_node *c,
		       u32 column)
{
	const struct ev_type *t = &f->fetch->type;
	u32 bits = t->bit_width ? t->bit_width : 8u * t->size;
	bool negative = !c->is_unsigned && (s64)c->value < 0, equality = op == EV_OP_EQ || op == EV_OP_NE;
	int shown = (int)(f->fetch->end - f->fetch->column);
	bool bad;

	if (t->is_signed)
		bad = c->is_unsigned || (bits < 64 && (s64)c->value >> (bits - 1) != ((s64)c->value >> 63));
	else if (bits < 64)
		bad = c->value >> bits;
	else
		bad = negative && !equality;
	if (!t->is_signed && !c->value && (op == EV_OP_LT || op == EV_OP_GE))
		bad = true;
	if (!bad)
		return 0;
	dp_ev_fail(l, column, E_EVENT_NEVER, "`%.*s` is %s with %u bits", shown, l->text + f->fetch->column,
		   t->is_signed ? "signed" : "unsigned", bits);
	if (!t->is_given && (negative || !c->value))
		dp_error_hint(l->err, "did you mean %.*s:s32, or :s64?", shown, l->text + f->fetch->column);
	return -ERANGE;
}

static enum ev_op mirror(enum ev_op op)
{
	switch (op) {
	case EV_OP_LT:
		return EV_OP_GT;
	case EV_OP_LE:
		return EV_OP_GE;
	case EV_OP_GT:
		return EV_OP_LT;
	case EV_OP_GE:
		return EV_OP_LE;
	default:
		return op;
	}
}

/* Text against text: one is an argument, the other a constant. */
static int compare_text(struct dp_event_line *l, enum ev_op op, u32 column, s16 a, s16 b, s16 *out)
{
	const struct ev_node *x = &l->nodes[a], *y = &l->nodes[b];
	int ret;

	if (!is_text(x) || !is_text(y))
		return dp_ev_fail(l, column, E_EVENT_MIX, "one side is a text and the other is not");
	if (x->kind == EV_NODE_TEXT && op != EV_OP_MATCH) {
		const struct ev_node *swap = x;

		x = y;
		y = swap;
	}
	/* An argument that is a text of the line itself is in no memory, and what is compared would never change. */
	if (x->kind != EV_NODE_FETCH || x->fetch->base == EV_TEXT || y->kind != EV_NODE_TEXT)
		return dp_ev_fail(l, column, E_EVENT_MIX, "an argument and a constant text are needed");
	if (op != EV_OP_EQ && op != EV_OP_NE && op != EV_OP_MATCH)
		return dp_ev_fail(l, column, E_EVENT_MIX, "texts have no order");
	ret = new_node(l, EV_NODE_COMPARE_TEXT, column, out);
	if (ret)
		return ret;
	l->nodes[*out].op = op;
	l->nodes[*out].a = (s16)(x - l->nodes);
	l->nodes[*out].text = y->text;
	l->nodes[*out].text_len = y->text_len;
	return 0;
}

static int new_binary(struct dp_event_line *l, enum ev_op op, u32 column, s16 a, s16 b, s16 *out)
{
	const struct ev_node *x = &l->nodes[a], *y = &l->nodes[b];
	bool is_unsigned = x->is_unsigned || (y->is_unsigned && op != EV_OP_SHL && op != EV_OP_SHR);
	int ret = 0;

	if (is_text(x) || is_text(y) || op == EV_OP_MATCH)
		return compare_text(l, op, column, a, b, out);
	if ((op == EV_OP_DIV || op == EV_OP_MOD) && y->kind == EV_NODE_CONST && !y->value)
		return dp_ev_fail(l, column, E_EVENT_ZERO, "here");
	if (is_comparison(op) && x->kind == EV_NODE_FETCH && y->kind == EV_NODE_CONST)
		ret = check_reach(l, op, x, y, column);
	else if (is_comparison(op) && x->kind == EV_NODE_CONST && y->kind == EV_NODE_FETCH)
		ret = check_reach(l, mirror(op), y, x, column);
	if (!ret && x->kind == EV_NODE_CONST && y->kind == EV_NODE_CONST) {
		ret = new_const(l, fold_binary(op, x->value, y->value, is_unsigned), column, out);
		if (!ret)
			l->nodes[*out].is_unsigned = is_unsigned && !is_comparison(op);
		return ret;
	}
	if (!ret)
		ret = new_node(l, EV_NODE_BINARY, column, out);
	if (ret)
		return ret;
	l->nodes[*out].op = op;
	l->nodes[*out].a = a;
	l->nodes[*out].b = b;
	/* A comparison yields 0 or 1. */
	l->nodes[*out].is_unsigned = is_unsigned && op != EV_OP_LOR && op != EV_OP_LAND && !is_comparison(op);
	return 0;
}

static int new_unary(struct dp_event_line *l, enum ev_op op, u32 column, s16 a, s16 *out)
{
	bool is_unsigned = l->nodes[a].is_unsigned && op != EV_OP_LNOT;
	int ret = need_number(l, a);

	if (ret)
		return ret;
	if (l->nodes[a].kind == EV_NODE_CONST) {
		ret = new_const(l, fold_unary(op, l->nodes[a].value), column, out);
		if (!ret)
			l->nodes[*out].is_unsigned = is_unsigned;
		return ret;
	}
	ret = new_node(l, EV_NODE_UNARY, column, out);
	if (ret)
		return ret;
	l->nodes[*out].op = op;
	l->nodes[*out].a = a;
	l->nodes[*out].is_unsigned = is_unsigned;
	return 0;
}

/* ---- operands ---- */

/* A sign that begins a memory access: +OFFSET( or -uOFFSET(. */
static bool is_access(const char *p)
{
	if (*p != '+' && *p != '-')
		return false;
	p++;
	p += *p == 'u';
	if (!dp_ev_is_digit(*p))
		return false;
	while (dp_ev_is_word(*p))
		p++;
	return *p == '(';
}

static int parse_operand_fetch(struct dp_event_line *l, s16 *out)
{
	struct ev_fetch *f = &l->operands[l->noperands];
	int ret;

	if (l->noperands == EV_OPERANDS_MAX)
		return dp_ev_fail(l, l->pos, E_EVENT_DEEP, "more than %u arguments", EV_OPERANDS_MAX);
	l->noperands++;
	ret = dp_ev_parse_fetch(l, f);
	return ret ? ret : new_fetch(l, f, f->column, out);
}

static int parse_name(struct dp_event_line *l, u32 len, s16 *out)
{
	const char *p = l->text + l->pos;
	struct ev_nearest near = {p, len, 0, ""};
	int ret;

	for (u32 i = 0; i < l->nargs; i++)
		if (strlen(l->args[i].name) == len && !memcmp(l->args[i].name, p, len)) {
			ret = new_fetch(l, &l->args[i].fetch, l->pos, out);
			l->pos += len;
			return ret;
		}
	if (dp_ev_is_short_form(p, len) || dp_ev_is_filter_word(l, p, len))
		return parse_operand_fetch(l, out);
	ret = dp_ev_fail(l, l->pos, E_EVENT_UNKNOWN, "`%.*s`", (int)len, p);
	for (u32 i = 0; i < l->nargs; i++)
		dp_ev_nearest_try(&near, l->args[i].name);
	dp_ev_nearest_hint(l, &near, "");
	return ret;
}

static int parse_character(struct dp_event_line *l, s16 *out)
{
	const char *p = l->text + l->pos + 1;
	u32 start = l->pos;
	u64 c = (u8)*p;

	if (*p == '\\' && p[1]) {
		p++;
		c = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : *p == '0' ? 0 : (u8)*p;
	}
	if (!*p || p[1] != '\'')
		return dp_ev_fail(l, start, E_EVENT_QUOTE, "a character stands between two '");
	l->pos = (u32)(p + 2 - l->text);
	return new_const(l, c, start, out);
}

static int parse_number_operand(struct dp_event_line *l, s16 *out)
{
	u32 start = l->pos;
	u64 v;
	int ret = dp_ev_quantity(l, &v);

	if (!ret && l->text[l->pos] == '(') {
		ret = dp_ev_fail(l, start, E_EVENT_EXPR, "a number before a parenthesis");
		dp_error_hint(l->err, "a memory access has its own sign: (+%llu(ARG)) or (-%llu(ARG))",
			      (unsigned long long)v, (unsigned long long)v);
	}
	return ret ? ret : new_const(l, v, start, out);
}

static int parse_text(struct dp_event_line *l, s16 *out)
{
	u32 start = l->pos;
	u16 text, len;
	int ret = dp_ev_quoted(l, DP_TEXT_OPERAND_MAX, &text, &len);

	if (!ret)
		ret = new_node(l, EV_NODE_TEXT, start, out);
	if (ret)
		return ret;
	l->nodes[*out].text = text;
	l->nodes[*out].text_len = len;
	return 0;
}

static int parse_parens(struct dp_event_line *l, u32 depth, s16 *out)
{
	u32 open = l->pos++;
	int ret = parse_expr(l, depth + 1, out);

	if (ret)
		return ret;
	if (l->text[l->pos] != ')')
		return dp_ev_fail(l, l->pos, E_EVENT_PAREN, ") is missing here, for the ( at column %u", open + 1);
	l->pos++;
	return 0;
}

static int parse_unary(struct dp_event_line *l, u32 depth, s16 *out)
{
	const char *p;
	enum ev_op op;
	u32 column, len;
	s16 a;
	int ret;

	dp_ev_skip_blanks(l);
	column = l->pos;
	p = l->text + column;
	len = dp_ev_word(p);
	if (depth > EV_DEPTH_MAX)
		return dp_ev_fail(l, column, E_EVENT_DEEP, "more than %u levels", EV_DEPTH_MAX);
	if (is_access(p) || *p == '%' || *p == '$' || *p == '@' || *p == '\\')
		return parse_operand_fetch(l, out);
	if (*p == '(')
		return parse_parens(l, depth, out);
	if (dp_ev_is_digit(*p))
		return parse_number_operand(l, out);
	if (*p == '\'')
		return parse_character(l, out);
	if (*p == '"')
		return parse_text(l, out);
	if (len)
		return parse_name(l, len, out);
	if (*p != '-' && *p != '!' && *p != '~' && *p != '+')
		return *p ? dp_ev_fail(l, column, E_EVENT_OPERAND, "before `%c`", *p)
			  : dp_ev_fail(l, column, E_EVENT_OPERAND, "the line ends here");
	op = *p == '-' ? EV_OP_NEG : *p == '~' ? EV_OP_NOT : EV_OP_LNOT;
	l->pos++;
	ret = parse_unary(l, depth + 1, &a);
	if (!ret && *p == '+') {
		*out = a;
		return need_number(l, a);
	}
	return ret ? ret : new_unary(l, op, column, a, out);
}

/* ---- precedence ---- */

static const struct {
	const char *text;
	enum ev_op op;
	u8 level; /* higher binds tighter */
} operators[] = {
    /* longer ones first */
    {"||", EV_OP_LOR, 1}, {"&&", EV_OP_LAND, 2}, {"==", EV_OP_EQ, 6},  {"!=", EV_OP_NE, 6},  {"<=", EV_OP_LE, 7},
    {">=", EV_OP_GE, 7},  {"<<", EV_OP_SHL, 8},  {">>", EV_OP_SHR, 8}, {"|", EV_OP_OR, 3},   {"^", EV_OP_XOR, 4},
    {"&", EV_OP_AND, 5},  {"~", EV_OP_MATCH, 6}, {"<", EV_OP_LT, 7},   {">", EV_OP_GT, 7},   {"+", EV_OP_ADD, 9},
    {"-", EV_OP_SUB, 9},  {"*", EV_OP_MUL, 10},  {"/", EV_OP_DIV, 10}, {"%", EV_OP_MOD, 10},
};

/* The operator at the current position, or -1. */
static int find_operator(const struct dp_event_line *l)
{
	const char *p = l->text + l->pos;

	for (u32 i = 0; i < DP_ARRAY_SIZE(operators); i++)
		if (!strncmp(p, operators[i].text, strlen(operators[i].text)))
			return (int)i;
	return -1;
}

static int parse_binary(struct dp_event_line *l, u32 level, u32 depth, s16 *out)
{
	s16 a, b;
	int ret = parse_unary(l, depth, &a);

	while (!ret) {
		int i;
		u32 column;

		dp_ev_skip_blanks(l);
		i = find_operator(l);
		if (i < 0 || operators[i].level < level)
			break;
		column = l->pos;
		l->pos += (u32)strlen(operators[i].text);
		ret = parse_binary(l, operators[i].level + 1u, depth + 1, &b);
		if (!ret)
			ret = new_binary(l, operators[i].op, column, a, b, &a);
	}
	*out = a;
	return ret;
}

static int parse_choice(struct dp_event_line *l, u32 depth, s16 condition, s16 *out)
{
	u32 column = l->pos++;
	s16 yes, no;
	int ret = need_number(l, condition);

	if (!ret)
		ret = parse_expr(l, depth + 1, &yes);
	if (!ret && l->text[l->pos] != ':')
		ret = dp_ev_fail(l, l->pos, E_EVENT_EXPR, ": is missing here, for the ? at column %u", column + 1);
	if (ret)
		return ret;
	l->pos++;
	ret = parse_expr(l, depth + 1, &no);
	if (!ret)
		ret = need_number(l, yes);
	if (!ret)
		ret = need_number(l, no);
	if (!ret)
		ret = new_node(l, EV_NODE_CHOICE, column, out);
	if (ret)
		return ret;
	l->nodes[*out].a = condition;
	l->nodes[*out].b = yes;
	l->nodes[*out].c = no;
	l->nodes[*out].is_unsigned = l->nodes[yes].is_unsigned || l->nodes[no].is_unsigned;
	return 0;
}

static int parse_expr(struct dp_event_line *l, u32 depth, s16 *out)
{
	int ret;

	if (depth > EV_DEPTH_MAX)
		return dp_ev_fail(l, l->pos, E_EVENT_DEEP, "more than %u levels", EV_DEPTH_MAX);
	ret = parse_binary(l, 1, depth, out);
	if (ret)
		return ret;
	dp_ev_skip_blanks(l);
	return l->text[l->pos] == '?' ? parse_choice(l, depth, *out, out) : 0;
}

int dp_ev_parse_condition(struct dp_event_line *l)
{
	s16 top;
	int ret;

	dp_ev_skip_blanks(l);
	if (!l->text[l->pos])
		return dp_ev_fail(l, l->pos, E_EVENT_IF, "the line ends here");
	ret = parse_expr(l, 0, &top);
	if (!ret)
		ret = need_number(l, top);
	if (ret)
		return ret;
	if (l->text[l->pos] == ')')
		return dp_ev_fail(l, l->pos, E_EVENT_PAREN, "this ) has no (");
	if (l->text[l->pos]) {
		ret = dp_ev_fail(l, l->pos, E_EVENT_EXPR, "unexpected `%c`", l->text[l->pos]);
		if (l->text[l->pos] == '=')
			dp_error_hint(l->err, "did you mean == ?");
		return ret;
	}
	l->condition = top;
	return 0;
}
