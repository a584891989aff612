// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The calls of <dprobes/hooks.h> in the kernel, and the places where modules pass hooks: entries of
 * their exception tables that lead from "test $x, %eax" to an instruction which names the hook.
 */
#include <linux/uaccess.h>

#include "k-hooks.h"
#include "kernel-priv.h"

struct place {               /* where a dynamic hook is bound */
	struct dp_kprobe kp; /* first */
	struct hook *hook;
	bool entry;
	char symbol[];
};

DEFINE_MUTEX(dp_k_hooks_lock);

/* ---- code ---- */

static int write_code(void *arg, u64 addr, const void *bytes, u32 n, struct dp_error *err)
{
	const struct dp_host *code = &dp_k_manager.host->code;
	int r;

	mutex_lock(&dp_k_lock);
	r = code->write_code(code->arg, addr, bytes, n, err);
	mutex_unlock(&dp_k_lock);
	return r;
}

static int serialise(void *arg, struct dp_error *err)
{
	const struct dp_host *code = &dp_k_manager.host->code;
	int r;

	mutex_lock(&dp_k_lock);
	r = code->serialise(code->arg, err);
	mutex_unlock(&dp_k_lock);
	return r;
}

static int peek(void *arg, u64 addr, void *bytes, u32 n)
{
	return copy_from_kernel_nofault(bytes, (const void *)(unsigned long)addr, n);
}

static int enable(struct hook *hook, bool on, struct dp_error *err)
{
	struct place *p = hook->place;
	int r;

	if (!p) /* it is enabled when it is bound */
		return 0;
	r = on ? dp_enable_kprobe(&p->kp) : dp_disable_kprobe(&p->kp);
	return r && on ? dp_fail(err, E_HOOK_SITE, "%s", p->kp.refusal), r : 0;
}

static const struct dp_hook_host host = {
    .code = {.write_code = write_code, .serialise = serialise},
    .peek = peek,
    .enable = enable,
};
struct dp_hooks dp_k_hooks = {.host = &host};

/* ---- modules ---- */

static u64 far(const int *field)
{
	return (u64)(unsigned long)field + (u64)(s64)*field;
}

/* Instructions that cannot fault have no other reason to be in the table. */
static bool is_place(const struct exception_table_entry *e, struct dp_hook_place *p)
{
	static const u8 names_hook[] = {0x48, 0xa9}; /* test $hook, %rax */
	u8 code[5], armed[6];
	s32 hook;
	u64 distance;

	p->code = far(&e->insn);
	p->armed = far(&e->fixup);
	distance = p->armed - (p->code + sizeof(code));
	if (peek(NULL, p->code, code, sizeof(code)) || peek(NULL, p->armed, armed, sizeof(armed)))
		return false;
	memcpy(&hook, armed + 2, sizeof(hook));
	p->hook = (struct hook *)(long)hook;
	return code[0] == 0xa9 && !memcmp(code + 1, &distance, 4) && !memcmp(armed, names_hook, sizeof(names_hook));
}

static void come(struct module *mod)
{
	dp_hooks_forget_places(&dp_k_hooks, mod);
	for (u32 i = 0; i < mod->num_exentries; i++) {
		struct dp_hook_place p = {.owner = mod};

		if (is_place(&mod->extable[i], &p) && dp_hooks_add_place(&dp_k_hooks, &p))
			pr_warn("dprobes: E-ARM-NOMEM: hooks of %s\n", mod->name);
	}
}

void dp_k_hooks_come(struct module *mod)
{
	mutex_lock(&dp_k_hooks_lock);
	come(mod);
	dp_hooks_apply_places(&dp_k_hooks, NULL); /* others' hooks may be active already */
	mutex_unlock(&dp_k_hooks_lock);
}

static bool lies_in(const void *p, const struct module *mod)
{
	return within_module_core((unsigned long)p, mod);
}

/* An exit whose module has forgotten to deregister it, or one of a hook that goes; or NULL. */
static struct hook_rec *find_left(const struct module *mod)
{
	for (struct hook *h = dp_k_hooks.heads; h; h = h->next)
		for (struct hook_rec *r = h->exits; r; r = r->next)
			if (lies_in(r, mod) || lies_in(h, mod))
				return r;
	return NULL;
}

static void unbind(struct hook *hook);

static void forget_hooks(const struct module *mod)
{
	struct hook *next;

	for (struct hook *h = dp_k_hooks.heads; h; h = next) {
		next = h->next;
		if (!lies_in(h, mod))
			continue;
		unbind(h);
		dp_hooks_forget(&dp_k_hooks, h);
	}
}

void dp_k_hooks_gone(struct module *mod, bool init_only)
{
	struct hook_rec *left;

	mutex_lock(&dp_k_hooks_lock);
	for (u32 i = dp_k_hooks.n; init_only && i--;) {
		struct dp_hook_place *p = &dp_k_hooks.places[i];

		if (within_module_init(p->code, mod)) /* the last comes into its place */
			*p = dp_k_hooks.places[--dp_k_hooks.n];
	}
	while (!init_only && (left = find_left(mod))) {
		dp_hooks_take_out(&dp_k_hooks, left, NULL);
		mutex_unlock(&dp_k_hooks_lock);
		dp_k_hook_file_remove(left);
		dp_k_grace(NULL);
		mutex_lock(&dp_k_hooks_lock);
	}
	if (!init_only) {
		dp_hooks_forget_places(&dp_k_hooks, mod);
		forget_hooks(mod);
	}
	mutex_unlock(&dp_k_hooks_lock);
}

/* Modules that were there before. */
static void come_all(void)
{
	struct list_head *modules = (void *)dp_k_lookup("modules");
	struct mutex *lock = (void *)dp_k_lookup("module_mutex");
	struct module *mod;

	if (!modules || !lock)
		return;
	mutex_lock(lock);
	mutex_lock(&dp_k_hooks_lock);
	list_for_each_entry(mod, modules, list)
		if (mod != THIS_MODULE && mod->state == MODULE_STATE_LIVE)
			come(mod);
	mutex_unlock(&dp_k_hooks_lock);
	mutex_unlock(lock);
}

int dp_k_hooks_init(void)
{
	int r = dp_k_hook_files_init();

	if (!r)
		come_all();
	return r;
}

void dp_k_hooks_exit(void)
{
	dp_k_hook_files_exit();
	dp_free(dp_k_hooks.places);
}

/* ---- the calls ---- */

static int told(const struct dp_error *err, int r)
{
	if (r && err->code)
		pr_debug("dprobes: %s: %s\n", dp_error_info(err->code)->name, err->detail);
	return r;
}

int hook_exit_register(struct hook *hook, struct hook_rec *rec)
{
	struct dp_error err = {0};
	int r;

	mutex_lock(&dp_k_hooks_lock);
	r = dp_hooks_insert(&dp_k_hooks, hook, rec, &err);
	mutex_unlock(&dp_k_hooks_lock);
	if (!r)
		dp_k_hook_file_add(hook, rec);
	return told(&err, r);
}
EXPORT_SYMBOL_GPL(hook_exit_register);

int hook_exit_deregister(struct hook_rec *rec)
{
	struct dp_error err = {0};
	int r;

	mutex_lock(&dp_k_hooks_lock);
	r = dp_hooks_take_out(&dp_k_hooks, rec, &err);
	mutex_unlock(&dp_k_hooks_lock);
	if (!r) {
		dp_k_hook_file_remove(rec);
		dp_k_grace(NULL); /* exits run with preemption off */
	}
	return told(&err, r);
}
EXPORT_SYMBOL_GPL(hook_exit_deregister);

static int arm(struct hook_rec **recs, int num, bool on)
{
	struct dp_error err = {0};
	int r;

	mutex_lock(&dp_k_hooks_lock);
	r = dp_hooks_arm(&dp_k_hooks, recs, num, on, &err);
	mutex_unlock(&dp_k_hooks_lock);
	return told(&err, r);
}

int hook_exits_arm(struct hook_rec **recs, int num)
{
	return arm(recs, num, true);
}
EXPORT_SYMBOL_GPL(hook_exits_arm);

int hook_exits_disarm(struct hook_rec **recs, int num)
{
	return arm(recs, num, false);
}
EXPORT_SYMBOL_GPL(hook_exits_disarm);

int hook_exit_arm(struct hook_rec *rec)
{
	return arm(&rec, 1, true);
}
EXPORT_SYMBOL_GPL(hook_exit_arm);

int hook_exit_disarm(struct hook_rec *rec)
{
	return arm(&rec, 1, false);
}
EXPORT_SYMBOL_GPL(hook_exit_disarm);

int dp_k_hook_open(const char *name, bool on)
{
	struct dp_error err = {0};
	struct hook *h;
	int r;

	mutex_lock(&dp_k_hooks_lock);
	h = dp_k_hooks.heads;
	while (h && strcmp(h->name, name))
		h = h->next;
	r = h ? dp_hooks_open(&dp_k_hooks, h, on, &err) : -ENOENT;
	mutex_unlock(&dp_k_hooks_lock);
	return told(&err, r);
}

/* ---- dynamic hooks ---- */

static int on_hit(struct dp_kprobe *kp, struct pt_regs *regs)
{
	struct place *p = (struct place *)kp;
	unsigned long ip = dp_regs_ip(regs);

	if (p->hook->hit(p->hook, regs) == HOOK_RETURN && p->entry) {
		dp_regs_ip(regs) = *(unsigned long *)dp_regs_sp(regs);
		dp_regs_sp(regs) += sizeof(long);
	}
	return dp_regs_ip(regs) != ip;
}

static bool is_entry(unsigned long addr)
{
	unsigned long size, off;

	return dp_k_sym.size_offset(addr, &size, &off) && !off;
}

static int bind(struct hook *hook, const char *symbol, unsigned long offset, struct dp_error *err)
{
	struct place *p;
	int r;

	if (!hook->hit || hook->place)
		return dp_fail(err, hook->hit ? E_HOOK_BOUND : E_HOOK_ARGUMENT, "%s", hook->name);
	p = dp_alloc(sizeof(*p) + (symbol ? strlen(symbol) + 1 : 0));
	if (!p)
		return dp_fail(err, E_ARM_NOMEM, "a hook");
	p->hook = hook;
	p->entry = symbol ? !offset : is_entry(offset);
	p->kp.pre_handler = on_hit;
	p->kp.offset = symbol ? offset : 0;
	p->kp.addr = symbol ? NULL : (void *)offset;
	p->kp.symbol_name = symbol ? strcpy(p->symbol, symbol) : NULL;
	p->kp.flags = DP_KPROBE_FLAG_AGAIN | (dp_hook_wanted(hook) ? 0 : DP_KPROBE_FLAG_DISABLED);
	r = dp_register_kprobe(&p->kp);
	if (r) {
		pr_info("dprobes: hook %s: %s\n", hook->name, p->kp.refusal ?: "not bound");
		dp_free(p);
		return r;
	}
	hook->place = p;
	dp_hooks_know(&dp_k_hooks, hook);
	return 0;
}

static void unbind(struct hook *hook)
{
	struct place *p = hook->place;

	if (!p)
		return;
	hook->place = NULL;
	dp_unregister_kprobe(&p->kp);
	dp_free(p);
}

int hook_bind(struct hook *hook, const char *symbol, unsigned long offset)
{
	struct dp_error err = {0};
	int r;

	mutex_lock(&dp_k_hooks_lock);
	r = bind(hook, symbol, offset, &err);
	mutex_unlock(&dp_k_hooks_lock);
	return told(&err, r);
}
EXPORT_SYMBOL_GPL(hook_bind);

int hook_unbind(struct hook *hook)
{
	struct dp_error err = {0};
	int r = 0;

	mutex_lock(&dp_k_hooks_lock);
	if (!hook->place || dp_hook_wanted(hook))
		r = dp_fail(&err, hook->place ? E_HOOK_BOUND : E_HOOK_ARGUMENT, "%s", hook->name);
	else
		unbind(hook);
	mutex_unlock(&dp_k_hooks_lock);
	return told(&err, r);
}
EXPORT_SYMBOL_GPL(hook_unbind);
