/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The places at which the C library blocks all signals for itself: in pthread_create(),
 * pthread_kill(), posix_spawn() and at the end of threads. A breakpoint that is met there would end
 * the program, so the library probes these places and takes SIGTRAP out of what they block.
 *
 * Such a place loads the address of the set by one instruction that is long enough for a jump,
 * shortly before the system call, and adds to the mask: whoever comes by does not block SIGTRAP
 * yet. That makes it safe to set the jump while others are running there, whatever they do next.
 */
#include <signal.h>
#include <string.h>

#include "host/self/own-probes.h"
#include "symbols/symbols.h"

#define MAX_PLACES 32
#define RT_SIGPROCMASK 14
#define TRAP_BIT (1ul << (SIGTRAP - 1))
#define RSI 6
#define RDI 7
#define RAX 0

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

/* In place of "lea set,%rsi". */
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

/* What is known of three registers while one follows the code in a straight line. */
struct state {
	u64 lea;      /* where rsi got an address, 0: elsewhere */
	s64 rdi, rax; /* -1: unknown */
};

static u8 dest_of(const struct dp_insn *in)
{
	if (in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE && (in->opcode & 0xf8) == 0xb8)
		return (u8)((in->opcode & 7) | (in->rex & DP_REX_B ? 8 : 0)); /* mov $imm,reg */
	return dp_modrm_reg(in);
}

static void step(struct state *s, const struct dp_insn *in, u64 addr)
{
	bool one = in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE;
	bool is_imm = one && (in->opcode & 0xf8) == 0xb8;
	bool is_lea = one && in->opcode == 0x8d;
	bool is_zero = one && (in->opcode == 0x31 || in->opcode == 0x33) && dp_modrm_mod(in) == 3 &&
		       dp_modrm_reg(in) == dp_modrm_rm(in);
	s64 value = is_imm ? in->imm : is_zero ? 0 : -1;

	if (in->cls != DP_INSN_PLAIN) {
		*s = (struct state){0, -1, -1};
		return;
	}
	if (!is_imm && !in->has_modrm) /* one that moves things by itself: cqo, movs, push, ... */
		return;
	/* Either operand may be the destination: both are unknown then. */
	for (int k = 0; k < 2; k++) {
		u8 r = k ? dp_modrm_rm(in) : dest_of(in);

		if (k && (!in->has_modrm || dp_modrm_mod(in) != 3))
			break;
		if (r == RSI)
			s->lea = is_lea && in->len >= DP_JUMP_LEN ? addr : 0;
		if (r == RDI)
			s->rdi = value;
		if (r == RAX)
			s->rax = value;
	}
}

static void look_through(const struct dp_text *t, const struct dp_func *f, u64 bias)
{
	struct state s = {0, -1, -1};
	struct dp_insn in;
	int n;

	for (u64 a = f->lo; a < f->hi; a += (u64)n) {
		n = dp_insn_decode(&in, t->bytes + (a - t->lo), f->hi - a);
		if (n <= 0)
			return;
		if (in.cls == DP_INSN_SYSCALL && s.rax == RT_SIGPROCMASK && s.rdi == SIG_BLOCK && s.lea &&
		    nplaces < MAX_PLACES)
			places[nplaces++].kp.addr = (kprobe_opcode_t *)(s.lea + bias);
		step(&s, &in, a);
	}
}

/* Only functions that contain "mov $14,%eax" are decoded. */
static void find_places(const struct dp_text *t, u64 bias)
{
	static const u8 mov[] = {0xb8, RT_SIGPROCMASK, 0, 0, 0};
	const u8 *end = t->bytes + (t->hi - t->lo), *at = t->bytes;
	u64 done = 0;

	while ((at = memmem(at, (size_t)(end - at), mov, sizeof(mov)))) {
		const struct dp_func *f = dp_text_func(t, t->lo + (u64)(at - t->bytes));

		if (f && f->lo >= done) {
			look_through(t, f, bias);
			done = f->hi;
		}
		at++;
	}
}

/* Attached, not applied yet. */
void dp_self_masks_attach(void)
{
	const struct dp_text *text;
	struct self_image *im;
	struct dp_error why;
	u64 addr;

	if (nplaces ||
	    (dp_self_lookup("libc:pthread_create", &addr, &why) && dp_self_lookup("exe:pthread_create", &addr, &why)))
		return;
	im = dp_self_image_at(addr);
	if (!im || dp_self_image_module(im, &why) || dp_module_text(im->mod, addr - im->bias, &text, &why))
		return;
	find_places(text, im->bias);
	for (u32 i = 0; i < nplaces; i++) {
		struct place *p = &places[i];

		p->kp.pre_handler = on_place;
		p->k.flags = DP_MGR_ALWAYS | DP_MGR_GENERAL;
		p->k.owner = &p->kp;
		dp_mgr_attach(&dp_self_manager, (u64)p->kp.addr, &p->k, &why);
	}
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
