/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From an event line to probes at code and the spots they need, by the target's symbols. Changes nothing in the target.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "host/process/session-priv.h"
#include "symbols/copies.h"
#include "symbols/sym-lines.h"

#define MAX_EXITS 1024
#define REACH 0x7fe00000ull /* how far a detour may lie from any byte of its module */

struct found {
	struct dp_image *im;
	struct dp_symbol sym; /* name "" when there is none */
	u64 link;             /* link-time address of the probepoint */
	u64 *copies;          /* of a line: all of its places; NULL: link alone. free() it */
	u32 ncopies, must;    /* so many of the first cannot be left out */
};

/* The first image that has the symbol: the executable, then the libraries, the loader last. */
static int find_anywhere(struct dp_session *s, const char *name, struct found *f, struct dp_error *err)
{
	int r = -ENOENT, none = -dp_error_info(E_SYM_NONE)->number;
	struct dp_error first = {0}, e;

	/* What a name that is nowhere resembles is looked up in a second round. */
	for (int pass = 0; pass < 6; pass++)
		for (size_t i = 0; i < s->proc.nimages; i++) {
			struct dp_image *im = &s->proc.images[i];
			bool loader = !strncmp(dp_module_base(im->mod), "ld-", 3);

			if ((pass % 3 == 0) != im->is_exe || (pass % 3 == 1 && loader) || (pass % 3 == 2 && !loader))
				continue;
			r = dp_module_symbol(im->mod, name, &f->sym, pass < 3 ? NULL : &e);
			if (pass < 3 && r == none)
				continue;
			e = (struct dp_error){0};
			if (r && pass < 3)
				r = dp_module_symbol(im->mod, name, &f->sym, &e);
			if (!r || e.code == E_SYM_AMBIGUOUS) {
				f->im = im;
				if (r && err)
					*err = e;
				return r;
			}
			if (!first.code || (im->is_exe && e.hint[0]))
				first = e;
		}
	if (err) {
		*err = first;
		if (!first.code)
			return dp_fail(err, E_SYM_NONE, "%s", name);
	}
	return r;
}

/* The module with a source line that the user gave without one: the executable, else the only one that has it. */
static int find_source(struct dp_session *s, const struct dp_location *loc, struct found *f, u32 *used,
		       struct dp_error *err)
{
	struct dp_error first = {0}, e = {0};
	int n = 0;

	for (int pass = 0; pass < 2 && !f->im; pass++)
		for (size_t i = 0; i < s->proc.nimages; i++) {
			struct dp_image *im = &s->proc.images[i];
			u64 copies[DP_LINE_COPIES_MAX];
			int here;

			if ((pass == 0) != im->is_exe)
				continue;
			here = dp_module_line(im->mod, loc->symbol, (u32)loc->offset, copies, DP_LINE_COPIES_MAX, used,
					      &e);
			if (im->is_exe)
				first = e;
			if (here <= 0)
				continue;
			if (f->im) {
				dp_fail(err, E_LINE_COPIES, "%.80s is in %.60s and in %.60s", loc->symbol,
					dp_module_base(f->im->mod), dp_module_base(im->mod));
				return -EINVAL;
			}
			f->im = im;
			n = here;
			memcpy(f->copies, copies, sizeof(copies));
		}
	if (n <= 0 && err)
		*err = first;
	return n > 0 ? n : -ENOENT;
}

/* Every place of a source line; the first stands for all of them in names. */
static int find_line(struct dp_session *s, const struct dp_location *loc, struct found *f, struct dp_error *err)
{
	u32 used = 0;
	int n;

	f->copies = calloc(DP_LINE_COPIES_MAX, sizeof(*f->copies));
	if (!f->copies)
		return dp_fail(err, E_ARM_NOMEM, "line");
	n = f->im ? dp_module_line(f->im->mod, loc->symbol, (u32)loc->offset, f->copies, DP_LINE_COPIES_MAX, &used, err)
		  : find_source(s, loc, f, &used, err);
	if (n < 0) {
		free(f->copies);
		f->copies = NULL;
		return n;
	}
	if (used != (u32)loc->offset)
		dp_session_say(s, "%s:%lld has no code: probing line %u", loc->symbol, (long long)loc->offset, used);
	f->ncopies = f->must = (u32)n;
	f->link = f->copies[0];
	dp_module_symbol_at(f->im->mod, f->link, &f->sym);
	return 0;
}

static int check_function(const struct found *f, const char *name, struct dp_error *err)
{
	if (f->sym.is_ifunc)
		return dp_fail(err, E_SYM_IFUNC, "%s:%s", dp_module_base(f->im->mod), name);
	if (!f->sym.is_func)
		return dp_fail(err, E_SITE_NOTEXT, "%s:%s is data", dp_module_base(f->im->mod), name);
	return 0;
}

static int find_location(struct dp_session *s, const struct dp_location *loc, struct found *f, struct dp_error *err)
{
	int r = 0;

	memset(f, 0, sizeof(*f));
	f->sym.name = "";
	if (loc->kind == DP_LOC_ADDRESS) {
		f->im = dp_process_image_at(&s->proc, loc->address);
		if (!f->im)
			return dp_fail(err, E_SITE_NOTEXT, "0x%llx is in no module of process %d",
				       (unsigned long long)loc->address, (int)s->pid);
		f->link = loc->address - f->im->bias;
		dp_module_symbol_at(f->im->mod, f->link, &f->sym);
		return 0;
	}
	if (loc->module[0]) {
		f->im = dp_process_image(&s->proc, loc->module, err);
		if (!f->im)
			return err ? -dp_error_info(err->code)->number : -ENOENT;
	}
	if (loc->kind == DP_LOC_FILE_OFFSET) {
		if (!dp_module_number_to_addr(f->im->mod, (u64)loc->offset, &f->link))
			return dp_fail(err, E_SITE_NOTEXT, "offset 0x%llx is in no segment of %s",
				       (unsigned long long)loc->offset, dp_module_base(f->im->mod));
		dp_module_symbol_at(f->im->mod, f->link, &f->sym);
		return 0;
	}
	if (loc->kind == DP_LOC_LINE)
		return find_line(s, loc, f, err);
	r = f->im ? dp_module_symbol(f->im->mod, loc->symbol, &f->sym, err) : find_anywhere(s, loc->symbol, f, err);
	if (r)
		return r;
	f->link = f->sym.addr + (u64)loc->offset;
	return check_function(f, loc->symbol, err);
}

static int env_symbol(void *arg, const struct dp_location *probe, const char *symbol, u64 offset, u64 *addr,
		      struct dp_error *err)
{
	struct dp_session *s = arg;
	struct dp_image *im = NULL;
	struct found f;
	const char *colon;
	char module[DP_MODULE_MAX];
	int r;

	if (!symbol) { /* a file offset in the probed module */
		r = find_location(s, probe, &f, err);
		if (r)
			return r;
		if (!dp_module_offset_to_addr(f.im->mod, offset, addr))
			return dp_fail(err, E_SITE_NOTEXT, "offset 0x%llx is in no segment of %s",
				       (unsigned long long)offset, dp_module_base(f.im->mod));
		*addr += f.im->bias;
		return 0;
	}
	memset(&f, 0, sizeof(f));
	colon = strchr(symbol, ':');
	if (colon && colon[1] != ':') {
		snprintf(module, sizeof(module), "%.*s", (int)(colon - symbol), symbol);
		im = dp_process_image(&s->proc, module, err);
		if (!im)
			return -ENOENT;
		r = dp_module_symbol(im->mod, colon + 1, &f.sym, err);
		f.im = im;
	} else {
		r = find_anywhere(s, symbol, &f, err);
	}
	if (!r)
		*addr = f.sym.addr + f.im->bias + offset;
	return r;
}

struct dp_probe *dp_add_probe(struct dp_session *s)
{
	if (!dp_grow((void **)&s->probes, &s->cap_probes, s->nprobes, sizeof(*s->probes)))
		return NULL;
	memset(&s->probes[s->nprobes], 0, sizeof(*s->probes));
	s->probes[s->nprobes].fresh = s->armed;
	return &s->probes[s->nprobes++];
}

int dp_probe_name(struct dp_probe *p, const char *symbol, struct dp_error *err)
{
	p->symbol = strndup(symbol, DP_SYMBOL_MAX - 1);
	return p->symbol ? 0 : dp_fail(err, E_ARM_NOMEM, "probe");
}

void dp_event_drop(struct dp_event *ev)
{
	dp_event_free(ev);
	free(ev);
}

void dp_probe_free(struct dp_probe *p)
{
	if (!p->from_pattern)
		dp_event_drop(p->event);
	free(p->symbol);
	free(p->name);
	memset(p, 0, sizeof(*p));
}

void dp_drop_last_probe(struct dp_session *s)
{
	dp_probe_free(&s->probes[--s->nprobes]);
}

int dp_spot_at(struct dp_spot *spot, const struct dp_image *im, u64 link, u32 owner, struct dp_error *err)
{
	const struct dp_text *text;
	int r = dp_module_text(im->mod, link, &text, err);

	memset(spot, 0, sizeof(*spot));
	if (!r)
		r = dp_site_judge(text, link, &spot->site, err);
	if (r)
		return r;
	spot->text = text;
	spot->bias = im->bias;
	spot->addr = link + im->bias;
	spot->owner = owner;
	spot->reach_lo = im->hi > REACH ? im->hi - REACH : 65536;
	spot->reach_hi = im->lo + REACH;
	return 0;
}

static int add_spot(struct dp_session *s, struct dp_image *im, u64 link, u32 owner, struct dp_error *err)
{
	struct dp_spot *spot;
	int r;

	if (s->nspots == s->cap_spots) {
		u32 cap = s->cap_spots ? s->cap_spots * 2 : 128;
		struct dp_spot *v = realloc(s->spots, cap * sizeof(*v));

		if (!v)
			return dp_fail(err, E_ARM_NOMEM, "%u sites", cap);
		s->spots = v;
		s->cap_spots = cap;
	}
	spot = &s->spots[s->nspots];
	r = dp_spot_at(spot, im, link, owner, err);
	if (r)
		return r;
	if (spot->site.outcome == DP_OUTCOME_TRAP && !s->opt.allow_trap) {
		enum dp_code why = spot->site.why;

		r = dp_fail(err, E_SITE_TRAP, "%s+0x%llx: %s", dp_module_base(im->mod), (unsigned long long)link,
			    dp_error_info(why)->sentence);
		return r;
	}
	s->nspots++;
	return 0;
}

/* Whether the image's file is mapped there, and can be executed. */
static bool is_code_of(const struct dp_session *s, const struct dp_image *im, u64 addr)
{
	const struct dp_map *m = dp_maps_at(&s->proc.maps, addr);

	return m && m->x && m->inode == im->inode && m->dev_major == im->dev_major && m->dev_minor == im->dev_minor;
}

/* The image of the file in which this code is mapped, if the one at hand lacks it. */
static struct dp_image *image_with(struct dp_session *s, struct dp_image *im, u64 link)
{
	for (size_t i = 0; !is_code_of(s, im, link + im->bias) && i < s->proc.nimages; i++)
		if (s->proc.images[i].mod == im->mod &&
		    is_code_of(s, &s->proc.images[i], link + s->proc.images[i].bias))
			return &s->proc.images[i];
	return im;
}

/*
 * Programs may map their code, or a part of it, a second time, and run either copy: each is probed. One that cannot be
 * is told, so that nobody takes the count for all.
 */
static int add_twins(struct dp_session *s, const struct dp_image *im, u32 first, u32 owner, struct dp_error *err)
{
	u32 last = s->nspots;

	for (size_t i = 0; i < s->proc.nimages; i++) {
		struct dp_image *twin = &s->proc.images[i];

		if (twin == im || twin->mod != im->mod)
			continue;
		for (u32 k = first; k < last; k++) {
			u64 link = s->spots[k].addr - im->bias;
			struct dp_error e;
			int r = is_code_of(s, twin, link + twin->bias) ? add_spot(s, twin, link, owner, &e) : 0;

			if (r == -ENOMEM)
				return dp_fail(err, E_ARM_NOMEM, "sites");
			if (r)
				dp_session_say(s, "%s is mapped again at 0x%llx, where it is not probed: %s",
					       dp_module_base(im->mod), (unsigned long long)(link + twin->bias),
					       dp_error_info(e.code)->sentence);
		}
	}
	s->probes[owner].nsites += s->nspots - last;
	return 0;
}

/* Where the function's return is seen: tail calls are left out where its result is asked for. */
static int find_exits(struct dp_session *s, const struct found *f, const struct dp_probe *p, u64 exits[MAX_EXITS],
		      struct dp_error *err)
{
	u64 to[MAX_EXITS];
	int n = dp_module_exits(f->im->mod, f->link, exits, to, MAX_EXITS, err), left = n;

	if (n < 0)
		return n;
	if (n == 0 || n >= MAX_EXITS)
		return dp_fail(err, E_FUNC_EXITS, "%s has %s", p->symbol,
			       n ? "more exits than can be probed" : "no exit (it never returns)");
	if (p->event->has_retval)
		left = dp_exits_returns(exits, to, n);
	if (!left)
		return dp_fail(err, E_FUNC_TAIL, "%s ends by jumps to other functions", p->symbol);
	if (left < n && !p->from_pattern)
		dp_session_say(s, "%s " DP_TAIL_CALLS " (a line that names $duration as well follows the jumps)",
			       p->symbol, n - left, n);
	return left;
}

static int add_own_sites(struct dp_session *s, const struct found *f, struct dp_probe *p, struct dp_error *err)
{
	u32 before = s->nspots, owner = (u32)(p - s->probes);
	u64 exits[MAX_EXITS];
	int n, r = 0;

	if (!p->event->is_return && f->ncopies) {
		for (u32 i = 0; i < f->ncopies && !r; i++)
			r = add_spot(s, f->im, f->copies[i], owner, err);
		p->nsites = f->ncopies;
		if (r)
			s->nspots = before;
		return r;
	}
	if (!p->event->is_return) {
		p->nsites = 1;
		return add_spot(s, f->im, f->link, owner, err);
	}
	n = find_exits(s, f, p, exits, err);
	if (n < 0)
		return n;
	for (int i = 0; i < n && !r; i++)
		r = add_spot(s, f->im, exits[i], owner, err);
	p->nsites = (u32)n;
	if (r)
		s->nspots = before;
	return r;
}

/* All sites of one probe; on error none of them stays. An address means that one place. */
static int add_sites(struct dp_session *s, const struct found *f, struct dp_probe *p, struct dp_error *err)
{
	u32 before = s->nspots, owner = (u32)(p - s->probes);
	int r = add_own_sites(s, f, p, err);

	if (!r && p->event->loc.kind != DP_LOC_ADDRESS)
		r = add_twins(s, f->im, before, owner, err);
	if (r)
		s->nspots = before;
	return r;
}

int dp_event_new(struct dp_session *s, struct dp_event_line *line, const char *watch_type, struct dp_event **out,
		 struct dp_error *err)
{
	struct dp_event_env env = {env_symbol, s, watch_type};
	struct dp_event *ev = calloc(1, sizeof(*ev));
	int r;

	if (!ev)
		return dp_fail(err, E_ARM_NOMEM, "event");
	r = dp_event_make(ev, line, &env, err);
	if (r)
		free(ev);
	else
		*out = ev;
	return r;
}

/* $argN and $retval are the words where C has them: never those of a function that has others there. */
static int check_convention(const struct dp_event *ev, const struct found *f, struct dp_error *err)
{
	struct dp_module *mod = f->im->mod;

	if (ev->has_args && dp_module_is_go(mod)) {
		dp_fail(err, E_EVENT_ARGN, "%.80s is written in Go, which passes arguments by other rules",
			dp_module_base(mod));
		dp_error_hint(err, "use their names (%s lists them), or registers: %%ax, %%bx, %%cx", "dprobes vars");
		return -EINVAL;
	}
	if (ev->has_retval && dp_module_is_go(mod) && !dp_var_returns_go_word(mod, f->link)) {
		dp_fail(err, E_EVENT_RETVAL, "what %.80s returns is in no general register, or not known", f->sym.name);
		dp_error_hint(err, "write a body: r %.80s { log($retval); }, or name registers: %%ax", f->sym.name);
		return -EINVAL;
	}
	if (ev->has_retval && dp_var_returns_real(mod, f->link)) {
		dp_fail(err, E_EVENT_RETVAL, "%.80s returns a floating point number, which is in no general register",
			f->sym.name);
		dp_error_hint(err, "write a body: r %.80s { log($retval); }", f->sym.name);
		return -EINVAL;
	}
	return 0;
}

struct dp_image *dp_image_of_symbol(struct dp_session *s, const char *name, struct dp_error *err)
{
	struct found f = {0};

	return find_anywhere(s, name, &f, err) ? NULL : f.im;
}

/* Where a hit was: hits of a pattern whose line gives a name are told by it, too. */
static int name_place(struct dp_probe *p, const struct found *f, struct dp_error *err)
{
	char text[DP_SYMBOL_MAX];
	int r;

	if (f->sym.name[0]) {
		r = dp_probe_name(p, dp_symbol_shown(f->sym.name, false, text, sizeof(text)), err);
		p->offset = f->link - f->sym.addr;
	} else {
		r = dp_probe_name(p, p->module, err);
		p->offset = f->link;
	}
	if (r || !p->from_pattern || !p->event->is_named)
		return r;
	p->name = strndup(p->symbol, DP_NAME_MAX - 1);
	return p->name ? 0 : dp_fail(err, E_ARM_NOMEM, "probe");
}

/* from_pattern: the event is the session's already. Else it is from now on the probe's, or freed. */
static int add_compiled(struct dp_session *s, struct dp_event *ev, const struct found *f, bool from_pattern,
			struct dp_error *err)
{
	struct dp_probe *p = dp_add_probe(s);
	struct found here = *f;
	int r;

	if (!p) {
		if (!from_pattern)
			dp_event_drop(ev);
		return dp_fail(err, E_ARM_NOMEM, "probe");
	}
	here.im = image_with(s, f->im, f->link);
	f = &here;
	p->event = ev;
	p->from_pattern = from_pattern;
	p->module = dp_module_base(f->im->mod);
	p->addr = f->link + f->im->bias;
	r = name_place(p, f, err);
	if (!r)
		r = add_sites(s, f, p, err);
	if (r)
		dp_drop_last_probe(s);
	return r;
}

static int add_event(struct dp_session *s, struct dp_event_line *line, const struct found *f, struct dp_error *err)
{
	struct dp_event *ev;
	int r = check_convention(dp_event_of_line(line), f, err);

	r = r ? r : dp_event_new(s, line, NULL, &ev, err);
	return r ? r : add_compiled(s, ev, f, false, err);
}

/* Every place that a line means is a probe of its own: a hit shows where it was. */
static int add_copies(struct dp_session *s, struct dp_event_line *line, const struct found *f, struct dp_error *err)
{
	u32 probes = s->nprobes, spots = s->nspots, left_out = 0;
	int r = 0;

	for (u32 i = 0; i < f->ncopies && !r; i++) {
		struct found one = {.im = f->im, .link = f->copies[i], .sym.name = ""};

		dp_module_symbol_at(f->im->mod, one.link, &one.sym);
		r = add_event(s, line, &one, err);
		if (r && i >= f->must && (s->nprobes > probes || i + 1 < f->ncopies)) {
			left_out++;
			r = 0;
		}
	}
	if (left_out)
		dp_session_say(s, DP_FUNC_NO_ROOM, dp_event_of_line(line)->loc.symbol, left_out,
			       left_out == 1 ? "y is" : "ies are");
	if (!r)
		return 0;
	while (s->nprobes > probes)
		dp_drop_last_probe(s);
	s->nspots = spots;
	return r;
}

/* What the line sees of a function that is there several times, and what not. */
static void tell_copies(struct dp_session *s, const struct dp_event *ev, const struct dp_func_copies *c,
			const struct dp_func_copies *seen)
{
	u32 clones = c->functions - seen->functions, inlined = c->inlined - seen->inlined;
	char text[DP_FUNC_COPIES_TEXT];

	if (dp_func_copies_text(seen, ev->loc.symbol, text, sizeof(text)))
		dp_session_say(s, "%s %s", ev->loc.symbol, text);
	if (clones)
		dp_session_say(s,
			       "%s: %u clone%s left out, whose arguments may be in other registers (names find them)",
			       ev->loc.symbol, clones, clones == 1 ? " is" : "s are");
	if (inlined && !ev->is_return)
		dp_session_say(s, DP_FUNC_COPIES_OUT, ev->loc.symbol, inlined, inlined == 1 ? "y is" : "ies are");
	else if (inlined)
		dp_session_say(s, "%s: %u inlined cop%s no return that could be seen", ev->loc.symbol, inlined,
			       inlined == 1 ? "y has" : "ies have");
}

static int refuse_copies(const struct dp_event *ev, const struct dp_func_copies *c, struct dp_error *err)
{
	if (c->functions)
		dp_fail(err, E_EVENT_ARGN,
			"the compiler has made %.80s of it, whose arguments may be in other registers", c->sym.name);
	else
		dp_fail(err, E_SYM_NONE, DP_FUNC_INLINED, ev->loc.symbol, c->inlined, c->inlined == 1 ? "" : "s");
	if (ev->is_return)
		dp_error_hint(err, "its calls can be probed, not their ends: `p %.80s`", ev->loc.symbol);
	else
		dp_error_hint(err, "give the names of its parameters (%s lists them)", "dprobes vars");
	return -EINVAL;
}

/* $argN and registers are what C has there only where a function begins, $argN only where nobody has changed it. */
static int choose_copies(struct dp_session *s, const struct dp_event *ev, const struct dp_func_copies *c,
			 struct found *f, struct dp_error *err)
{
	struct dp_func_copies seen = *c;
	bool itself = !dp_symbol_is_clone(&c->sym);

	if (ev->is_return || ev->has_registers)
		seen.inlined = 0;
	if (ev->has_args)
		seen.functions = DP_MIN(c->functions, (u32)itself);
	if (!seen.functions && !seen.inlined)
		return refuse_copies(ev, c, err);
	tell_copies(s, ev, c, &seen);
	f->ncopies = seen.functions + seen.inlined;
	f->copies = calloc(f->ncopies, sizeof(*f->copies));
	if (!f->copies)
		return dp_fail(err, E_ARM_NOMEM, "places");
	memcpy(f->copies, c->at, seen.functions * sizeof(*c->at));
	memcpy(f->copies + seen.functions, c->at + c->functions, seen.inlined * sizeof(*c->at));
	f->link = f->copies[0];
	f->must = seen.functions;
	return 0;
}

/* The image that has the function, or calls of it alone. */
static int find_image_of(struct dp_session *s, const struct dp_location *loc, struct found *f, struct dp_error *err)
{
	struct dp_error none;
	int r;

	if (loc->module[0]) {
		f->im = dp_process_image(&s->proc, loc->module, err);
		return f->im ? 0 : err ? -dp_error_info(err->code)->number : -ENOENT;
	}
	r = find_anywhere(s, loc->symbol, f, &none);
	if (r && none.code == E_SYM_NONE)
		f->im = dp_process_image(&s->proc, "exe", NULL);
	if (r && !f->im && err)
		*err = none;
	return f->im ? 0 : r;
}

/* A function by its name alone: every place that a call of it may come by. */
static int find_copies(struct dp_session *s, const struct dp_event *ev, struct found *f, struct dp_error *err)
{
	struct dp_func_copies c;
	int r;

	memset(f, 0, sizeof(*f));
	r = find_image_of(s, &ev->loc, f, err);
	if (!r)
		r = dp_module_copies(f->im->mod, ev->loc.symbol, true, &c, err);
	if (r)
		return r;
	f->sym = c.sym;
	r = check_function(f, ev->loc.symbol, err);
	if (!r)
		r = choose_copies(s, ev, &c, f, err);
	dp_func_copies_free(&c);
	return r;
}

struct matches {
	struct dp_session *s;
	struct dp_image *im, *only; /* at hand; the one that the line names, or NULL */
	const char *among;          /* a pattern of modules; NULL: all */
	u32 modules;                /* with matches */
	struct dp_event_line *line;
	struct dp_event *ev; /* of all of them; NULL: not made yet */
	bool nameless;       /* those that have no name, of a program where none has */
	struct dp_matches found;
	u64 last; /* aliases at one address count once */
};

/* One for all: neither its program nor what it logs depends on the function. */
static int make_shared(struct matches *m, struct dp_error *err)
{
	struct dp_session *s = m->s;
	int r;

	if (m->ev)
		return 0;
	if (!dp_grow((void **)&s->shared, &s->cap_shared, s->nshared, sizeof(*s->shared)))
		return dp_fail(err, E_ARM_NOMEM, "event");
	r = dp_event_new(s, m->line, NULL, &m->ev, err);
	if (!r)
		s->shared[s->nshared++] = m->ev;
	return r;
}

static int add_match(const struct dp_symbol *sym, void *arg)
{
	struct matches *m = arg;
	const struct dp_event *shape = dp_event_of_line(m->line);
	struct found f = {m->im, *sym, sym->addr + (u64)shape->loc.offset};
	struct dp_error err;
	int r;

	if (sym->is_ifunc || !sym->name[0] != m->nameless || (m->last == sym->addr && m->found.taken))
		return 0;
	r = check_convention(shape, &f, &err);
	r = r ? r : make_shared(m, &err);
	r = r ? r : add_compiled(m->s, m->ev, &f, true, &err);
	dp_session_tell(m->s, "functions found:", m->s->nprobes, 0);
	if (!r)
		m->last = sym->addr;
	return dp_matches_count(&m->found, r, &err);
}

static bool is_twin(const struct dp_session *s, size_t i)
{
	size_t k = 0;

	while (s->proc.images[k].mod != s->proc.images[i].mod)
		k++;
	return k < i;
}

static int add_matches(struct matches *m, const struct dp_location *loc)
{
	struct dp_process *proc = &m->s->proc;
	int r = 0;

	for (size_t i = 0; i < proc->nimages && !r; i++) {
		struct dp_image *im = &proc->images[i];

		u32 taken = m->found.taken;

		if (m->only ? im != m->only : is_twin(m->s, i)) /* a twin: together with the other one */
			continue;
		if (m->among && !dp_process_image_matches(&m->s->proc, im, m->among))
			continue;
		m->im = im;
		r = dp_module_each_func(im->mod, m->nameless ? NULL : loc->symbol, add_match, m);
		m->modules += m->found.taken > taken;
	}
	return r;
}

struct search_near {
	struct dp_near near;
	char word[128]; /* what the pattern has beside its signs */
};

static int see_near(const struct dp_symbol *sym, void *arg)
{
	struct search_near *s = arg;

	dp_near_try(&s->near, s->word, sym->name);
	return 0;
}

/* Functions that are like a pattern which none matches. */
static void hint_near(const struct matches *m, const char *pattern, struct dp_error *err)
{
	struct search_near s = {.near = {.n = 0}};
	size_t n = 0;

	for (const char *p = pattern; *p && n + 1 < sizeof(s.word); p++)
		if (!strchr("*?[]", *p))
			s.word[n++] = *p;
	for (size_t i = 0; i < m->s->proc.nimages; i++) {
		struct dp_image *im = &m->s->proc.images[i];

		if ((!m->only || im == m->only) && !is_twin(m->s, i) &&
		    (!m->among || dp_process_image_matches(&m->s->proc, im, m->among)))
			dp_module_each_func(im->mod, "*", see_near, &s);
	}
	dp_near_hint(&s.near, "", err);
}

static int add_pattern(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_location *loc = &dp_event_of_line(line)->loc;
	struct matches m = {.s = s, .line = line};
	char what[520];
	int r;

	if (dp_is_module_pattern(loc->module)) {
		m.among = loc->module;
	} else if (loc->module[0]) {
		m.only = dp_process_image(&s->proc, loc->module, err);
		if (!m.only)
			return -ENOENT;
	}
	r = add_matches(&m, loc);
	if (!r && !m.found.taken && !m.found.left_out && !strcmp(loc->symbol, "*")) {
		m.nameless = true;
		r = add_matches(&m, loc);
	}
	if (r)
		return dp_fail(err, E_ARM_NOMEM, "%s", loc->symbol);
	snprintf(what, sizeof(what), "%.200s%s%.300s", loc->module, loc->module[0] ? ":" : "", loc->symbol);
	r = dp_matches_end(&m.found, m.among ? what : loc->symbol, E_SYM_NONE, &s->opt, err);
	if (r && err && err->code == E_SYM_NONE)
		hint_near(&m, loc->symbol, err);
	if (!r && m.among)
		dp_session_say(s, "%s: %u function%s in %u module%s", what, m.found.taken,
			       m.found.taken == 1 ? "" : "s", m.modules, m.modules == 1 ? "" : "s");
	return r;
}

int dp_resolve_code(struct dp_session *s, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_event *ev = dp_event_of_line(line);
	struct found f;
	int r;

	if (ev->loc.kind == DP_LOC_PATTERN || (ev->loc.kind == DP_LOC_SYMBOL && dp_is_module_pattern(ev->loc.module)))
		return add_pattern(s, line, err);
	if (ev->loc.kind == DP_LOC_SYMBOL && !ev->loc.has_offset)
		r = find_copies(s, ev, &f, err);
	else
		r = find_location(s, &ev->loc, &f, err);
	if (!r && f.ncopies > 1 && (!ev->is_return || ev->loc.kind == DP_LOC_SYMBOL))
		r = add_copies(s, line, &f, err);
	else if (!r)
		r = add_event(s, line, &f, err);
	free(f.copies);
	return r;
}

int dp_session_symbol(struct dp_session *s, const char *symbol, u64 *addr, struct dp_error *err)
{
	return env_symbol(s, NULL, symbol, 0, addr, err);
}

/* The first byte at the probepoint, by the file. */
static int check_opcode(const struct found *f, int opcode, struct dp_error *err)
{
	const struct dp_text *text;
	int r = opcode < 0 ? 0 : dp_module_text(f->im->mod, f->link, &text, err);

	if (r || opcode < 0 || text->bytes[f->link - text->lo] == opcode)
		return r;
	return dp_fail(err, E_RPN_OPCODE, "0x%02x, expected 0x%02x", text->bytes[f->link - text->lo], (u32)opcode);
}

/* The event is the session's from now on, or freed. */
int dp_add_at_code(struct dp_session *s, struct dp_event *ev, int opcode, struct dp_error *err)
{
	struct found f;
	int r = find_location(s, &ev->loc, &f, err);

	if (!r)
		r = check_opcode(&f, opcode, err);
	if (!r)
		r = add_compiled(s, ev, &f, false, err);
	else
		dp_event_drop(ev);
	free(f.copies);
	return r;
}
