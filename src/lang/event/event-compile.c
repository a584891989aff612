/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From a parsed event line to a verified program: resolve symbols, lay out the record, then the
 * code: condition first, then the fields in order, then texts behind the fixed part.
 */
#include "lang/event/event-priv.h"

#define TEXT_SHARE_MAX 512 /* bytes kept free for each later text of the record */

/* ---- symbols ---- */

static int resolve(struct dp_event_line *l, struct ev_fetch *f)
{
	char symbol[DP_MODULE_MAX + DP_SYMBOL_MAX];
	u64 addr = 0;
	int ret;

	if (f->base != EV_SYMBOL && f->base != EV_FILE)
		return 0;
	if (!l->env || !l->env->symbol)
		return dp_ev_fail(l, f->column, E_EVENT_SYMBOL, "symbols are not known here");
	if (f->text_len >= sizeof(symbol))
		return dp_ev_fail(l, f->column, E_EVENT_SYMBOL, "the name is too long");
	memcpy(symbol, l->pool + f->text, f->text_len);
	symbol[f->text_len] = '\0';
	ret = l->env->symbol(l->env->arg, &l->ev->loc, f->base == EV_SYMBOL ? symbol : NULL,
			     f->base == EV_FILE ? f->value : 0, &addr, l->err);
	if (ret) {
		dp_error_column(l->err, (int)f->column);
		return ret;
	}
	f->address = f->base == EV_SYMBOL ? addr + f->value : addr;
	return 0;
}

static int resolve_all(struct dp_event_line *l)
{
	int ret = 0;

	for (u32 i = 0; !ret && i < l->nargs; i++)
		ret = resolve(l, &l->args[i].fetch);
	for (u32 i = 0; !ret && i < l->noperands; i++)
		ret = resolve(l, &l->operands[i]);
	return ret;
}

/* ---- layout ---- */

static void set_field(struct dp_field *field, const struct ev_arg *arg, u32 *offset)
{
	const struct ev_type *t = &arg->fetch.type;

	memcpy(field->name, arg->name, sizeof(field->name));
	field->type = t->field;
	field->count = t->count;
	field->bit_width = t->bit_width;
	field->can_fault = arg->fetch.nderef > 0;
	field->size = t->size;
	*offset = DP_ALIGN_UP(*offset, (u32)t->size);
	field->offset = (u16)*offset;
	*offset += t->size * DP_MAX(t->count, 1u);
}

static int lay_out(struct dp_event_line *l)
{
	struct dp_layout *layout = &l->ev->prog.layout;
	u32 offset = 0;

	for (u32 i = 0; i < l->nargs; i++)
		if (l->args[i].fetch.nderef && !ev_is_string(&l->args[i].fetch))
			layout->has_faultmask = 1;
	layout->has_ret_addr = l->ev->is_return;
	offset = 8u * layout->has_faultmask + 8u * layout->has_ret_addr;
	if (l->nargs) {
		layout->fields = dp_alloc(l->nargs * sizeof(*layout->fields));
		if (!layout->fields)
			return dp_ev_fail(l, 0, E_EVENT_MEMORY, "%u fields", l->nargs);
	}
	layout->nfields = (u16)l->nargs;
	for (u32 i = 0; i < l->nargs; i++) {
		set_field(&layout->fields[i], &l->args[i], &offset);
		if (offset > DP_LOGMAX)
			return dp_ev_fail(l, l->args[i].fetch.column, E_EVENT_BIG, "%u bytes up to here", offset);
	}
	layout->fixed_size = (u16)offset;
	return 0;
}

/* ---- code ---- */

static u32 count_texts(const struct ev_fetch *f)
{
	return ev_is_string(f) ? DP_MAX(f->type.count, 1u) : 0;
}

/*
 * A long text must not leave nothing for those behind it: each of these keeps a share of the
 * room, and may use more when its predecessors were short.
 */
static void gen_fields(struct dp_event_line *l)
{
	const struct dp_layout *layout = &l->ev->prog.layout;
	u32 texts = 0, share;

	for (u32 i = 0; i < l->nargs; i++)
		texts += count_texts(&l->args[i].fetch);
	share = texts ? DP_MIN((u32)(DP_LOGMAX - layout->fixed_size) / texts, TEXT_SHARE_MAX) : 0;
	for (u32 i = 0; i < l->nargs; i++) {
		texts -= count_texts(&l->args[i].fetch);
		dp_ev_gen_field(l, &l->args[i], &layout->fields[i], i, texts * share, share);
	}
	l->ev->prog.logmax = share ? DP_LOGMAX : layout->fixed_size;
}

static int gen_program(struct dp_event_line *l)
{
	const struct dp_layout *layout = &l->ev->prog.layout;

	dp_ev_gen_condition(l);
	if (layout->has_faultmask)
		DP_PUT(&l->code, RECM, layout->fixed_size);
	else
		DP_PUT(&l->code, REC, layout->fixed_size);
	if (layout->has_ret_addr)
		DP_PUT(&l->code, LOGRET, 8 * layout->has_faultmask);
	gen_fields(l);
	DP_PUT(&l->code, EXIT);
	if (l->code.failed)
		return dp_ev_fail(l, 0, E_EVENT_MEMORY, "%u bytes of code", l->code.len);
	return 0;
}

static void hand_over(struct dp_event_line *l)
{
	struct dp_program *p = &l->ev->prog;

	p->code = l->code.bytes;
	p->len = l->code.len;
	p->jmpmax = l->code.jumps;
	memset(&l->code, 0, sizeof(l->code));
}

static int compile(struct dp_event_line *l)
{
	int ret = resolve_all(l);

	if (!ret)
		ret = lay_out(l);
	if (!ret)
		ret = gen_program(l);
	if (ret)
		return ret;
	hand_over(l);
	l->ev->prog.in_kernel = l->is_kernel;
	return dp_program_verify(&l->ev->prog, l->ev->is_return, l->err);
}

/* ---- lines ---- */

/* NULL: no memory. */
static struct dp_event_line *line_new(const char *text, bool is_kernel, struct dp_error *err)
{
	size_t size = strlen(text) + 1;
	struct dp_event_line *l = dp_alloc(sizeof(*l) + size);

	if (!l)
		return NULL;
	memcpy(l->text, text, size);
	l->is_kernel = is_kernel;
	l->ev = &l->shape;
	l->err = err;
	l->condition = -1;
	return l;
}

int dp_event_head(struct dp_event *ev, const char *text, u32 *behind, struct dp_error *err)
{
	struct dp_error ignored;
	struct dp_event_line *l = line_new(text, false, err ? err : &ignored);
	int ret;

	if (!l)
		return dp_fail(err, E_EVENT_MEMORY, "the line");
	l->any_kind = true;
	ret = dp_ev_parse_head(l);
	*ev = l->shape;
	*behind = l->pos;
	dp_event_line_free(l);
	return ret;
}

int dp_event_read(struct dp_event_line **line, const char *text, bool is_kernel, struct dp_error *err)
{
	struct dp_error ignored;
	struct dp_event_line *l = line_new(text, is_kernel, err ? err : &ignored);
	int ret;

	*line = NULL;
	if (!l)
		return dp_fail(err, E_EVENT_MEMORY, "the line");
	ret = dp_ev_parse_head(l);
	l->waits = l->shape.is_watch;
	if (!ret && !l->waits)
		ret = dp_ev_parse_arguments(l);
	if (ret)
		dp_event_line_free(l);
	else
		*line = l;
	return ret;
}

void dp_event_line_free(struct dp_event_line *l)
{
	dp_free(l);
}

const struct dp_event *dp_event_of_line(const struct dp_event_line *l)
{
	return &l->shape;
}

int dp_event_make(struct dp_event *ev, struct dp_event_line *l, const struct dp_event_env *env, struct dp_error *err)
{
	struct dp_error ignored;
	int ret = 0;

	*ev = l->shape;
	l->ev = ev;
	l->env = env;
	l->err = err ? err : &ignored;
	if (l->waits)
		ret = dp_ev_parse_arguments(l);
	l->waits = false;
	if (!ret)
		ret = compile(l);
	dp_asm_free(&l->code);
	if (ret)
		dp_event_free(ev);
	return ret;
}

int dp_event_compile(struct dp_event *ev, const char *text, bool is_kernel, const struct dp_event_env *env,
		     struct dp_error *err)
{
	struct dp_event_line *line;
	int ret = dp_event_read(&line, text, is_kernel, err);

	memset(ev, 0, sizeof(*ev));
	if (ret)
		return ret;
	ret = dp_event_make(ev, line, env, err);
	dp_event_line_free(line);
	return ret;
}

int dp_event_parse(struct dp_event *ev, const char *text, struct dp_error *err)
{
	struct dp_error ignored;
	struct dp_event_line *line;
	int ret = dp_event_read(&line, text, false, err ? err : &ignored);

	memset(ev, 0, sizeof(*ev));
	if (ret)
		return ret;
	*ev = line->shape;
	if (line->waits)
		ret = dp_ev_parse_arguments(line);
	dp_event_line_free(line);
	return ret;
}

void dp_event_free(struct dp_event *ev)
{
	if (ev)
		dp_program_free(&ev->prog);
}
