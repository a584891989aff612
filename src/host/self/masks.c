/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The places at which the C library blocks all signals for itself: in pthread_create(),
 * pthread_kill(), posix_spawn() and at the end of threads. A breakpoint that is met there would end
 * the program, so the library probes these places and takes SIGTRAP out of what they block.
 *
 * Such a place loads the address of the set by one instruction that is long enough for a jump,
 * shortly before the system call, and adds to the mask: whoever comes by does not block SIGTRAP
 * yet. That makes it safe to set the jump while others are running there, whatever they do next.
 *
 * From 2.38 on posix_spawn() and system() make their child without handlers, in our memory, where it would meet
 * breakpoints until it executes its program. That call is refused, as by an older kernel, and they make the child as
 * they did before: by sigaction(), which the library has a probe on.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "host/self/own-probes.h"
#include "symbols/symbols.h"

#define MAX_PLACES 32
#define RT_SIGPROCMASK 14
#define CLONE3 435
#define TRAP_BIT (1ul << (SIGTRAP - 1))

/*
 * Sets on their way to a system call. A signal handler may come between and bring its own, so they
 * are used in turn; functions that copy a whole sigset_t read on behind the last.
 */
#define SETS 16
static __thread unsigned long sets[SETS + 16] __attribute__((tls_model("initial-exec")));
static __thread unsigned int next_set __attribute__((tls_model("initial-exec")));

HIT void dp_self_open_mask(unsigned long *set)
{
	const unsigned long *given = (const unsigned long *)*set;
	unsigned int n;

	if (!given || !(*given & TRAP_BIT))
		return;
	n = next_set++ % SETS;
	sets[n] = *given & ~TRAP_BIT;
	*set = (unsigned long)&sets[n];
}

static struct place {
	struct kprobe kp; /* first */
	struct dp_mgr_probe k;
} places[MAX_PLACES];
static u32 nplaces;

/* In place of the load of the address. */
static HIT int on_place(struct kprobe *kp, struct pt_regs *regs)
{
	const struct dp_kpoint *p = ((struct place *)kp)->k.point;
	u64 set;

	if (!dp_self_address_of(&p->insn, p->addr + p->insn.len, regs, &set))
		return 0;
	dp_regs_arg(regs, 1) = set;
	dp_self_open_mask(&dp_regs_arg(regs, 1));
	dp_regs_ip(regs) = p->addr + p->insn.len;
	return 1;
}

/* In front of the load of clone3's number. */
static HIT int on_clone3(struct kprobe *kp, struct pt_regs *regs)
{
	const u64 *args = (const u64 *)dp_regs_arg(regs, 0);
	const struct dp_kpoint *p = ((struct place *)kp)->k.point;

	if (!args || !(*args & CLEAR_SIGHAND))
		return 0;
	dp_regs_result(regs) = (u64)-EINVAL;
	dp_regs_ip(regs) = p->addr + p->insn.len + DP_SYSCALL_LEN;
	return 1;
}

struct finding {
	const struct dp_text *text;
	u64 bias;
};

static void add_place(u64 addr, dp_pre_handler_t handler)
{
	if (nplaces < MAX_PLACES)
		places[nplaces++].kp = (struct kprobe){.addr = (kprobe_opcode_t *)addr, .pre_handler = handler};
}

static void on_call(const struct dp_text_call *call, void *arg)
{
	const struct finding *f = arg;

	if (call->number == RT_SIGPROCMASK && call->first == SIG_BLOCK && call->load)
		add_place(call->load + f->bias, on_place);
	else if (call->number == CLONE3 && dp_code_is_clone(f->text->bytes, call->addr - f->text->lo))
		add_place(call->addr - DP_JUMP_LEN + f->bias, on_clone3);
}

static void attach(dp_pre_handler_t handler)
{
	struct dp_error why;

	for (u32 i = 0; i < nplaces; i++) {
		struct place *p = &places[i];

		if (p->kp.pre_handler != handler || p->k.point)
			continue;
		p->k.flags = DP_MGR_ALWAYS | DP_MGR_GENERAL;
		p->k.owner = &p->kp;
		dp_mgr_attach(&dp_self_manager, (u64)p->kp.addr, &p->k, &why);
	}
}

void dp_self_masks_attach(void)
{
	struct self_image *im;
	struct dp_error why;
	struct finding f;
	u64 addr;

	if (nplaces ||
	    (dp_self_lookup("libc:pthread_create", &addr, &why) && dp_self_lookup("exe:pthread_create", &addr, &why)))
		return;
	im = dp_self_image_at(addr);
	if (!im || dp_self_image_module(im, &why) || dp_module_text(im->mod, addr - im->bias, &f.text, &why))
		return;
	f.bias = im->bias;
	dp_text_find_calls(f.text, on_call, &f);
	attach(on_place);
}

void dp_self_masks_attach_clones(void)
{
	attach(on_clone3);
}

/* A place that did not become a jump is given up: a breakpoint there could be met too late. */
void dp_self_masks_keep_jumps(void)
{
	for (u32 i = 0; i < nplaces; i++) {
		struct dp_mgr_probe *k = &places[i].k;

		if (k->point && k->point->state != DP_POINT_JUMP) {
			dp_mgr_detach(&dp_self_manager, k);
			k->point = NULL;
		}
	}
}
