/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See kernel.h. Everything is asked of the device; nothing is decided here but what a line means. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/abi-control.h"
#include "abi/abi-device.h"
#include "base/now.h"
#include "host/kernel/family.h"
#include "host/kernel/kernel.h"
#include "host/kernel/user-stacks.h"
#include "arch/arch.h"
#include "program/opcode.h"
#include "program/program-image.h"
#include "symbols/kallsyms.h"
#include "symbols/symbols.h"

#define RING_SIZE (1u << 20)
#define ROWS 256
#define ALIVE_NS 100000000ull
#define CACHED 1024 /* symbols, a power of two */

struct probe {
	struct dp_event *event;
	char symbol[DP_DEV_PLACE_MAX];
	char reason[200];
	u64 offset, addr;
	u32 how; /* at the end */
};

struct known {
	u64 addr, offset;
	char *name; /* NULL: there is none */
	bool used;
};

struct dp_kernel {
	int fd;
	struct dp_session_options opt;
	struct probe *probes;
	u32 nprobes;
	size_t cap;
	u64 *words; /* their first values */
	u32 nwords;
	u64 words_off, size;
	struct dp_ring_map rings;
	struct dp_user_stacks stacks;
	struct dp_module *file; /* the last one of user(FILE), NULL: none */
	bool removed;
	u64 asked_ns; /* when it was asked last whether anybody is alive */
	struct known cache[CACHED];
};

/* ---- life ---- */

int dp_kernel_refused(const struct dp_dev_error *e, int number, struct dp_error *err)
{
	enum dp_code code = e->code[0] ? dp_error_by_name(e->code) : DP_OK;

	if (!code)
		return dp_fail(err, E_KERNEL_DEVICE, "%s", strerror(number));
	dp_fail(err, code, "%s", e->detail);
	if (e->hint[0])
		dp_error_hint(err, "%s", e->hint);
	return -dp_error_info(code)->number;
}

static int ask(struct dp_kernel *k, unsigned long request, void *arg, const struct dp_dev_error *e,
	       struct dp_error *err)
{
	static const struct dp_dev_error none;

	return ioctl(k->fd, request, arg) ? dp_kernel_refused(e ? e : &none, errno, err) : 0;
}

int dp_kernel_open(struct dp_kernel **out, const struct dp_session_options *opt, struct dp_error *err)
{
	struct dp_kernel *k = calloc(1, sizeof(*k));
	struct dp_dev_hello hello = {0};
	int r = 0;

	if (!k)
		return dp_fail(err, E_ARM_NOMEM, "session");
	if (opt)
		k->opt = *opt;
	k->fd = open(DP_DEV_PATH, O_RDWR | O_CLOEXEC);
	if (k->fd < 0)
		r = dp_fail(err, E_KERNEL_DEVICE, "%s: %s", DP_DEV_PATH, strerror(errno));
	else if (ioctl(k->fd, DP_DEV_HELLO, &hello) || hello.abi != DP_DEV_ABI || hello.rings_abi != DP_ABI)
		r = dp_fail(err, E_KERNEL_ABI, "its interface is %u.%u, this is %u.%u", hello.abi, hello.rings_abi,
			    DP_DEV_ABI, DP_ABI);
	if (r) {
		dp_kernel_close(k);
		return r;
	}
	*out = k;
	return 0;
}

void dp_kernel_close(struct dp_kernel *k)
{
	if (!k)
		return;
	if (k->rings.at)
		munmap(k->rings.at, k->size);
	if (k->fd >= 0)
		close(k->fd);
	for (u32 i = 0; i < k->nprobes; i++) {
		dp_event_free(k->probes[i].event);
		free(k->probes[i].event);
	}
	for (u32 i = 0; i < CACHED; i++)
		free(k->cache[i].name);
	if (k->file)
		dp_module_close(k->file);
	dp_user_stacks_free(&k->stacks);
	free(k->probes);
	free(k->words);
	free(k);
}

/* ---- places ---- */

/* user(FILE): code of processes, through the kernel. */
static bool is_user(const struct dp_location *loc)
{
	size_t n = strlen(loc->module);

	return n > 6 && !strncmp(loc->module, "user(", 5) && loc->module[n - 1] == ')';
}

/* The file stays the session's: a pattern names it once for each function. */
static int open_user(struct dp_kernel *k, const struct dp_location *loc, struct dp_error *err)
{
	char path[sizeof(loc->module)];
	struct dp_module *m;
	int r;

	snprintf(path, sizeof(path), "%.*s", (int)strlen(loc->module) - 6, loc->module + 5);
	if (k->file && !strcmp(dp_module_path(k->file), path))
		return 0;
	if (k->file)
		dp_module_close(k->file);
	k->file = NULL;
	r = dp_module_open(&m, path, err);
	if (!r)
		k->file = m;
	return r;
}

bool dp_kernel_is_place(const struct dp_location *loc)
{
	return !strcmp(loc->module, "kernel") || !strncmp(loc->module, "kmod(", 5) || is_user(loc);
}

/* The name of the module, "" for the kernel itself. */
static void module_of(const struct dp_location *loc, char *buf, size_t size)
{
	const char *p = strncmp(loc->module, "kmod(", 5) ? "" : loc->module + 5;

	snprintf(buf, size, "%.*s", (int)strcspn(p, ")"), p);
}

static int symbol(void *arg, const struct dp_location *probe, const char *name, u64 offset, u64 *addr,
		  struct dp_error *err)
{
	(void)arg;
	if (!name)
		return dp_fail(err, E_KERNEL_PLACE, "an offset in a file");
	*addr = 0;
	if (!strncmp(name, "kernel:", 7))
		name += 7;
	if (is_user(probe))
		return dp_fail(err, E_KERNEL_PLACE, "@%.200s: the variable's address differs between processes", name);
	if (dp_kallsyms_find(name, addr, err))
		return -ENOENT;
	*addr += offset;
	return 0;
}

/* ---- adding ---- */

/* image: free() it after the call. */
static int put_program(struct dp_dev_probe *d, const struct dp_program *p, void **image, struct dp_error *err)
{
	d->image_size = dp_program_image_size(p);
	*image = malloc(d->image_size);
	if (!*image)
		return dp_fail(err, E_PROG_MEMORY, "%u bytes", d->image_size);
	dp_program_image_write(p, *image);
	d->image = (u64)*image;
	return 0;
}

/* The offset in the file, of an instruction that begins there. */
static int user_offset(struct dp_module *m, const struct dp_location *loc, s64 *offset, struct dp_error *err)
{
	const struct dp_text *text;
	struct dp_symbol sym = {0};
	struct dp_site site;
	u64 addr, at;
	int r = 0;

	if (loc->kind == DP_LOC_FILE_OFFSET) {
		if (!dp_module_offset_to_addr(m, (u64)loc->offset, &addr))
			return dp_fail(err, E_SITE_NOTEXT, "0x%llx", (unsigned long long)loc->offset);
	} else if (loc->kind == DP_LOC_SYMBOL) {
		r = dp_module_symbol(m, loc->symbol, &sym, err);
		addr = sym.addr + (u64)loc->offset;
	} else {
		return dp_fail(err, E_KERNEL_PLACE, "%.200s", loc->symbol);
	}
	if (!r)
		r = dp_module_text(m, addr, &text, err);
	if (!r && dp_site_judge(text, addr, &site, err) && err->code == E_SITE_MIDINSN)
		r = -dp_error_info(err->code)->number;
	if (!r && !dp_module_addr_to_offset(m, addr, &at))
		r = dp_fail(err, E_SITE_NOTEXT, "0x%llx", (unsigned long long)addr);
	*offset = r ? 0 : (s64)at;
	return r;
}

static int check_opcode(struct dp_module *m, const struct dp_dev_probe *d, struct dp_error *err)
{
	const struct dp_text *text;
	u64 addr = 0;
	u8 there;

	if (!dp_module_offset_to_addr(m, (u64)d->offset, &addr) || dp_module_text(m, addr, &text, err))
		return dp_fail(err, E_SITE_NOTEXT, "0x%llx", (unsigned long long)addr);
	there = text->bytes[addr - text->lo];
	return there == d->opcode ? 0 : dp_fail(err, E_RPN_OPCODE, "0x%02x, expected 0x%02x", there, (u32)d->opcode);
}

/* The probed instruction may fault: what is logged waits until it has been carried out. */
static bool may_fault(struct dp_module *m, s64 offset)
{
	const struct dp_text *text;
	struct dp_error ignored;
	struct dp_insn in;
	u64 addr;

	return dp_module_offset_to_addr(m, (u64)offset, &addr) && !dp_module_text(m, addr, &text, &ignored) &&
	       dp_insn_decode(&in, text->bytes + (addr - text->lo), text->hi - addr) > 0 &&
	       dp_insn_traits(&in) & DP_INSN_MAY_FAULT;
}

static int put_user_place(struct dp_kernel *k, const struct dp_location *loc, struct dp_dev_probe *d, struct probe *p,
			  struct dp_error *err)
{
	int r = open_user(k, loc, err);
	struct dp_module *m = k->file;

	if (r)
		return r;
	r = user_offset(m, loc, &d->offset, err);
	if (!r && d->opcode >= 0)
		r = check_opcode(m, d, err);
	d->flags |= DP_DEV_USER;
	snprintf(p->symbol, sizeof(p->symbol), "%.300s", loc->kind == DP_LOC_SYMBOL ? loc->symbol : dp_module_base(m));
	p->offset = (u64)loc->offset;
	snprintf(d->place, sizeof(d->place), "%.150s:%.150s+0x%llx", dp_module_path(m), p->symbol,
		 (unsigned long long)p->offset);
	if (!r) {
		d->fd = open(dp_module_path(m), O_RDONLY | O_CLOEXEC);
		if (d->fd < 0)
			r = dp_fail(err, E_FILE_OPEN, "%s: %s", dp_module_path(m), strerror(errno));
	}
	return r;
}

/* Where the location says, into what the device wants to know; the name that is shown into p. */
static int put_place(struct dp_kernel *k, const struct dp_location *loc, struct dp_dev_probe *d, struct probe *p,
		     struct dp_error *err)
{
	char module[64], text[DP_DEV_PLACE_MAX];
	struct dp_dev_symbol sym;
	bool address = loc->kind == DP_LOC_ADDRESS ||
		       (loc->kind == DP_LOC_FILE_OFFSET && !strcmp(loc->module, "kernel"));

	if (is_user(loc))
		return put_user_place(k, loc, d, p, err);
	module_of(loc, module, sizeof(module));
	if (address) {
		d->addr = loc->kind == DP_LOC_ADDRESS ? loc->address : (u64)loc->offset;
		sym = (struct dp_dev_symbol){.addr = d->addr};
		if (ioctl(k->fd, DP_DEV_SYMBOL, &sym) || !sym.name[0])
			return dp_fail(err, E_SITE_NOFUNC, "0x%llx", (unsigned long long)d->addr);
		snprintf(p->symbol, sizeof(p->symbol), "%.*s", (int)strcspn(sym.name, " "), sym.name);
		p->offset = sym.offset;
		return 0;
	}
	if (loc->kind == DP_LOC_TRACEPOINT)
		d->flags |= DP_DEV_TRACEPOINT;
	else if (loc->kind == DP_LOC_CALL)
		d->flags |= DP_DEV_CALL;
	else if (loc->kind != DP_LOC_SYMBOL)
		return dp_fail(err, E_KERNEL_PLACE, "%.200s", loc->symbol);
	snprintf(p->symbol, sizeof(p->symbol), "%.300s", loc->symbol);
	if (snprintf(text, sizeof(text), "%s%s%.240s", module, *module ? ":" : "", loc->symbol) >=
	    (int)sizeof(d->place))
		return dp_fail(err, E_KERNEL_SYMBOL, "%.200s: too long", loc->symbol);
	memcpy(d->place, text, sizeof(d->place));
	d->offset = loc->offset;
	p->offset = d->flags & DP_DEV_CALL ? 0 : (u64)loc->offset;
	return 0;
}

static struct probe *room(struct dp_kernel *k)
{
	if (!dp_grow((void **)&k->probes, &k->cap, k->nprobes, sizeof(*k->probes)))
		return NULL;
	memset(&k->probes[k->nprobes], 0, sizeof(*k->probes));
	return &k->probes[k->nprobes];
}

/* The event is the session's from now on, or freed. addr: not 0 instead of the location's place. */
static int add_event(struct dp_kernel *k, struct dp_event *ev, u64 addr, const struct dp_probe_spec *words,
		     struct dp_error *err)
{
	struct dp_dev_error told = {.column = -1};
	struct dp_dev_probe d = {.error = (u64)&told, .opcode = -1, .fd = -1};
	void *image = NULL;
	struct probe *p = room(k);
	int r = p ? 0 : dp_fail(err, E_ARM_NOMEM, "probe");

	if (words)
		d.opcode = words->opcode;
	if (!r)
		r = put_place(k, &ev->loc, &d, p, err);
	if (!r) {
		if (addr) {
			d.place[0] = '\0';
			d.addr = addr;
		}
		d.flags |= (ev->is_watch ? DP_DEV_WATCH : 0) | (ev->is_return ? DP_DEV_RETURN : 0);
		d.watch_len = (u16)ev->watch_len;
		d.watch_type = (u16)ev->watch_type;
		d.maxactive = (u32)ev->maxactive;
		if (words && d.flags & DP_DEV_USER && !ev->is_return && !words->log_on_fault && ev->prog.logmax &&
		    may_fault(k->file, d.offset))
			d.flags |= DP_DEV_WAITS;
		if (words) {
			d.locals = words->locals;
			d.globals = words->globals;
			d.gate = words->gate;
		}
		r = put_program(&d, &ev->prog, &image, err);
		if (!r)
			r = ask(k, DP_DEV_ADD, &d, &told, err);
		if (r && err->code == E_KERNEL_SYMBOL && d.place[0])
			dp_kallsyms_suggest(d.place, err);
		free(image);
	}
	if (d.fd >= 0)
		close(d.fd);
	if (r) {
		dp_event_free(ev);
		free(ev);
		return r;
	}
	p->event = ev;
	p->addr = d.addr;
	k->nprobes++;
	return 0;
}

static int add_one(struct dp_kernel *k, struct dp_event_line *line, const struct dp_ksym *match, struct dp_error *err)
{
	struct dp_event_env env = {symbol, k, NULL};
	struct dp_event *ev = calloc(1, sizeof(*ev));
	int r = ev ? dp_event_make(ev, line, &env, err) : dp_fail(err, E_ARM_NOMEM, "event");

	if (r) {
		free(ev);
		return r;
	}
	if (match) {
		ev->loc.kind = DP_LOC_SYMBOL;
		snprintf(ev->loc.symbol, sizeof(ev->loc.symbol), "%s", match->name);
		snprintf(ev->name, sizeof(ev->name), "%.*s", DP_NAME_MAX - 1, match->name);
	}
	return add_event(k, ev, match ? match->addr : 0, NULL, err);
}

struct matches {
	struct dp_kernel *k;
	struct dp_event_line *line;
	struct dp_matches found;
};

static int add_match(const struct dp_ksym *sym, void *arg)
{
	struct matches *m = arg;
	struct dp_error err = {0};

	return dp_matches_count(&m->found, add_one(m->k, m->line, sym, &err), &err);
}

static int add_user_match(const struct dp_symbol *sym, void *arg)
{
	return add_match(&(struct dp_ksym){.name = sym->name}, arg);
}

static int each_match(const struct dp_location *loc, struct matches *m, struct dp_error *err)
{
	char module[64];
	int r;

	if (is_user(loc)) {
		r = open_user(m->k, loc, err);
		return r ? r : dp_module_each_func(m->k->file, loc->symbol, add_user_match, m);
	}
	module_of(loc, module, sizeof(module));
	if (*module && !dp_kernel_module_loaded(module))
		return dp_kernel_module_each(module, loc->symbol, add_match, m, err);
	return dp_kallsyms_each(*module ? module : NULL, loc->symbol, add_match, m, err);
}

static int add_pattern(struct dp_kernel *k, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_location *loc = &dp_event_of_line(line)->loc;
	struct matches m = {.k = k, .line = line};
	int r = each_match(loc, &m, err);

	return r ? r : dp_matches_end(&m.found, loc->symbol, E_KERNEL_SYMBOL, &k->opt, err);
}

static int add_line(void *session, struct dp_event_line *line, struct dp_error *err)
{
	const struct dp_event *ev = dp_event_of_line(line);
	int r;

	if (ev->is_watch && (!ev->watch_len || ev->loc.kind == DP_LOC_PATTERN))
		r = dp_fail(err, E_WATCH_SIZE, "%s", ev->loc.symbol);
	else
		r = ev->loc.kind == DP_LOC_PATTERN ? add_pattern(session, line, err)
						   : add_one(session, line, NULL, err);
	if (r && err->column < 0)
		err->column = ev->loc.column;
	return r;
}

static int add_spec(void *session, const struct dp_probe_spec *spec, struct dp_error *err)
{
	struct dp_event *ev;

	if (spec->kind == DP_SPEC_WATCH && !spec->watch_len)
		return dp_fail(err, E_WATCH_SIZE, "%s", spec->place.symbol);
	ev = dp_event_of_spec(spec);
	if (!ev)
		return dp_fail(err, E_ARM_NOMEM, "probe");
	return add_event(session, ev, 0, spec, err);
}

static int set_words(void *session, const u64 *values, u32 n, struct dp_error *err)
{
	struct dp_kernel *k = session;
	u64 *v = calloc(n + 1, sizeof(*v));

	if (!v)
		return dp_fail(err, E_ARM_NOMEM, "%u words", n);
	memcpy(v, values, n * sizeof(*v));
	free(k->words);
	k->words = v;
	k->nwords = n;
	return 0;
}

static volatile u64 *words_of(void *session)
{
	struct dp_kernel *k = session;
	return k->rings.at ? (volatile u64 *)((char *)k->rings.at + k->words_off) : NULL;
}

/* ---- armed ---- */

/* Chains of processes that are known go on in their own code. */
static int send_stacks(struct dp_kernel *k, struct dp_error *err)
{
	bool walks = false;

	for (u32 i = 0; i < k->nprobes && !walks; i++) {
		const struct dp_program *p = &k->probes[i].event->prog;

		walks = dp_program_uses(p, DP_OP_PUSH_FRAMES) || dp_program_uses(p, DP_OP_PUSH_CHAIN);
	}
	return walks && k->opt.nonly ? dp_user_stacks_send(&k->stacks, k->fd, k->opt.only, k->opt.nonly, err) : 0;
}

/* Of a module that was told of by a session before: a run has a new one for each program that comes. */
static bool was_told(const char *module)
{
	static char told[8][64];
	static u32 n;

	for (u32 i = 0; i < DP_MIN(n, (u32)DP_ARRAY_SIZE(told)); i++)
		if (!strcmp(told[i], module))
			return true;
	snprintf(told[n++ % DP_ARRAY_SIZE(told)], sizeof(told[0]), "%s", module);
	return false;
}

static void tell_waiting(const struct dp_kernel *k)
{
	char module[64], text[160];

	for (u32 i = 0; i < k->nprobes && k->opt.note; i++) {
		const struct dp_location *loc = &k->probes[i].event->loc;

		module_of(loc, module, sizeof(module));
		if (!*module || dp_kernel_module_loaded(module) || was_told(module))
			continue;
		snprintf(text, sizeof(text), "%s is not loaded yet%s; its probes wait for it", module,
			 dp_kernel_module_has_file(module) ? "" : ", and has no file in /lib/modules");
		k->opt.note(k->opt.arg, text);
	}
}

static int arm(void *session, struct dp_error *err)
{
	struct dp_kernel *k = session;
	struct dp_dev_error told = {.column = -1};
	struct dp_dev_arm arm = {.error = (u64)&told,
				 .ring_size = k->opt.ring_size ? k->opt.ring_size : RING_SIZE,
				 .words = (u64)k->words,
				 .nwords = k->nwords,
				 .pids = (u64)k->opt.only,
				 .npids = k->opt.below ? 0 : k->opt.nonly};
	const struct dp_rings *head;
	void *at;
	int r = k->nprobes ? 0 : dp_fail(err, E_ARM_NONE, "the kernel");

	if (!r)
		r = send_stacks(k, err);
	if (!r && k->opt.below && k->opt.nonly)
		r = dp_family_send(k->fd, &k->opt, err);
	if (!r)
		r = ask(k, DP_DEV_ARM, &arm, &told, err);
	if (r)
		return r;
	at = mmap(NULL, arm.size, PROT_READ | PROT_WRITE, MAP_SHARED, k->fd, 0);
	if (at == MAP_FAILED)
		return dp_fail(err, E_KERNEL_DEVICE, "its log cannot be mapped: %s", strerror(errno));
	k->rings = (struct dp_ring_map){.at = at, .size = arm.size};
	k->size = arm.size;
	k->words_off = arm.words_off;
	head = k->rings.at; /* nobody else maps them: the kernel has just written it */
	if (!dp_ring_map_lay_out(&k->rings, head->ncpus, head->nrings, head->nprobes, head->ring_size))
		return dp_fail(err, E_RING_LAYOUT, "%u rings and %u probes", head->nrings, head->nprobes);
	tell_waiting(k);
	return 0;
}

/* Where a probe is and how; at its end, as it was then. */
static u32 state_of(const struct dp_kernel *k, u32 i, u64 *addr)
{
	struct dp_dev_state state = {.index = i};

	*addr = k->probes[i].addr;
	if (k->removed || ioctl(k->fd, DP_DEV_STATE, &state))
		return k->probes[i].how;
	if (state.addr)
		*addr = state.addr;
	return state.how;
}

static int take_out(void *session, struct dp_error *err)
{
	struct dp_kernel *k = session;
	for (u32 i = 0; k->rings.at && !k->removed && i < k->nprobes; i++)
		k->probes[i].how = state_of(k, i, &k->probes[i].addr);
	k->removed = k->rings.at;
	return k->rings.at ? ask(k, DP_DEV_DISARM, NULL, NULL, err) : 0;
}

static void tend(void *session)
{
	struct dp_kernel *k = session;
	ioctl(k->fd, DP_DEV_SYNC, NULL);
}

static u32 nprobes(void *session)
{
	struct dp_kernel *k = session;
	return k->nprobes;
}

/* Waits for its module, has gone with it or with the magic key, or all probes are disabled. */
static const char *absent(const struct dp_kernel *k, u32 how)
{
	if (!k->rings.at)
		return NULL;
	return how == DP_DEV_PENDING ? "waits" : how == DP_DEV_GONE ? "gone" : how == DP_DEV_OFF ? "off" : NULL;
}

static const char *via(const struct dp_event *ev, u32 how)
{
	if (ev->is_watch)
		return "watch";
	if (ev->loc.kind == DP_LOC_TRACEPOINT || ev->loc.kind == DP_LOC_CALL)
		return "tracepoint";
	if (!ev->is_return)
		return how == DP_DEV_FTRACE ? "ftrace" : how == DP_DEV_UPROBE ? "uprobe" : NULL;
	if (how == DP_DEV_UPROBE)
		return "uretprobe";
	return how == DP_DEV_TRAP ? "return+trap" : how == DP_DEV_FTRACE ? "return+ftrace" : "return";
}

static enum dp_outcome outcome_of(u32 how)
{
	return how == DP_DEV_TRAP ? DP_OUTCOME_TRAP : how == DP_DEV_FTRACE ? DP_OUTCOME_FTRACE : DP_OUTCOME_JUMP;
}

static void probe_info(void *session, u32 i, struct dp_probe_info *out)
{
	struct dp_kernel *k = session;
	const struct probe *p = &k->probes[i];
	u64 addr;
	u32 how = state_of(k, i, &addr);

	*out = (struct dp_probe_info){.event = p->event,
				      .name = p->event->name,
				      .symbol = p->symbol,
				      .offset = p->offset,
				      .addr = addr,
				      .module = p->event->loc.module,
				      .outcome = outcome_of(how),
				      .reason = "",
				      .nsites = 1,
				      .via = via(p->event, how),
				      .absent = absent(k, how)};
}

static const struct dp_ring_map *rings(void *session)
{
	struct dp_kernel *k = session;
	return &k->rings;
}

static bool symbolize(void *session, void **names, u64 addr, char *buf, size_t size)
{
	struct dp_kernel *k = session;
	struct known *c = &k->cache[(addr ^ addr >> 12) % CACHED];
	struct dp_dev_symbol sym = {.addr = addr};

	if (!(addr >> 63))
		return dp_user_stacks_name(&k->stacks, addr, buf, size);

	if (!c->used || c->addr != addr) {
		free(c->name);
		*c = (struct known){.addr = addr, .used = true};
		if (!ioctl(k->fd, DP_DEV_SYMBOL, &sym) && sym.name[0]) {
			c->name = strndup(sym.name, strcspn(sym.name, " "));
			c->offset = sym.offset;
		}
	}
	if (!c->name)
		return false;
	snprintf(buf, size, "%s+0x%llx", c->name, (unsigned long long)c->offset);
	return true;
}

static void rest(void *session, u64 ns)
{
	nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

/* Whether there is anybody whose hits count. */
static bool alive(void *session)
{
	struct dp_kernel *k = session;
	u64 now = dp_now_ns();

	if (!k->opt.nonly || !k->rings.at || now < k->asked_ns + ALIVE_NS)
		return true;
	k->asked_ns = now;
	return dp_family_lives(k->fd);
}

static void end(void *session)
{
	dp_kernel_close(session);
}

/* ---- places of probe programs ---- */

static int find_symbol(void *session, const char *name, u64 *addr, struct dp_error *err)
{
	return dp_kallsyms_find(name, addr, err);
}

static int base(void *session, const char *module, u64 *addr, struct dp_error *err)
{
	return dp_fail(err, E_KERNEL_PLACE, "an address in the file of %.150s", module);
}

static int offset(void *session, enum dp_module_kind kind, const char *module, struct dp_location *loc,
		  struct dp_error *err)
{
	u64 start = 0;
	int r;

	if (kind == DP_MODULE_USER)
		return 0;
	if (kind == DP_MODULE_KMOD)
		return dp_fail(err, E_KERNEL_PLACE, "an offset in %.150s", module);
	r = dp_kallsyms_find("_text", &start, err); /* the kernel's start */
	loc->kind = DP_LOC_ADDRESS;
	loc->address = start + (u64)loc->offset;
	return r;
}

static int build_id(void *session, enum dp_module_kind kind, const char *module, char *id, size_t size,
		    struct dp_error *err)
{
	struct dp_module *mod;
	int r;

	if (kind != DP_MODULE_USER)
		return !dp_kernel_build_id(kind == DP_MODULE_KMOD ? module : NULL, id, size);
	r = dp_module_open(&mod, module, err);
	if (r)
		return r;
	snprintf(id, size, "%s", dp_module_identity(mod));
	dp_module_close(mod);
	return 0;
}

const struct dp_host_ops dp_kernel_ops = {
    .name = "kernel",
    .is_by_file = true,
    .add = add_line,
    .add_spec = add_spec,
    .set_words = set_words,
    .arm = arm,
    .words = words_of,
    .rings = rings,
    .tend = tend,
    .rest = rest,
    .alive = alive,
    .remove = take_out,
    .nprobes = nprobes,
    .probe = probe_info,
    .free = end,
    .symbol = find_symbol,
    .base = base,
    .offset = offset,
    .build_id = build_id,
    .symbolize = symbolize,
};

/* ---- questions ---- */

int dp_kernel_judge(struct dp_kernel *k, u64 addr, u64 *size, enum dp_outcome *how, enum dp_code *why,
		    struct dp_error *err)
{
	struct dp_dev_error told = {.column = -1};
	struct dp_dev_judge d = {.error = (u64)&told, .addr = addr};
	int r = ask(k, DP_DEV_JUDGE, &d, &told, err);

	*size = d.size;
	*how = r ? DP_OUTCOME_REFUSED : outcome_of(d.how);
	*why = d.why[0] ? dp_error_by_name(d.why) : DP_OK;
	return r;
}

int dp_kernel_list(struct dp_kernel *k, struct dp_dev_row **out, u32 *n, struct dp_error *err)
{
	struct dp_dev_row *rows = NULL, *v;
	struct dp_dev_list d;
	int r;

	*n = 0;
	do {
		v = realloc(rows, (*n + ROWS) * sizeof(*v));
		if (!v) {
			free(rows);
			return dp_fail(err, E_ARM_NOMEM, "the list");
		}
		rows = v;
		d = (struct dp_dev_list){(u64)(rows + *n), *n, ROWS};
		r = ask(k, DP_DEV_LIST, &d, NULL, err);
		*n += r ? 0 : d.n;
	} while (!r && d.n == ROWS);
	if (r)
		free(rows);
	else
		*out = rows;
	return r;
}
