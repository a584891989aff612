/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Runs an instruction and its copy on the processor and compares. Every exit is a trap: code pages
 * are filled with breakpoints, so where control arrives is what the signal frame says, with the
 * whole state beside it. This file chooses no operands; relocate-steer.c does.
 */
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "relocate-judge.h"

#define PAGE 0x1000ull
#define CODE_SIZE (4 * PAGE) /* of the original's region and of each copy's */
#define NCOPIES 4
#define STEP_EVERY 16 /* one case in so many is single-stepped */

#define FLAG_TF 0x100ull
#define FLAG_RF 0x10000ull

#define VEC_DB 1
#define VEC_BP 3
#define VEC_GP 13
#define VEC_PF 14
#define PF_FETCH 0x10

/* Vector state that is saved, loaded and compared: x87, SSE, AVX, AVX-512; not tiles, not keys. */
#define XSTATE_WANTED 0xe7u
#define FX_FIP 8 /* address of the last x87 instruction: cannot be kept */
#define FX_FDP 16
#define FX_END 416

/* Where originals run and, relative to that, their copies: near, at the end of the reach, beyond
 * it. */
static const u64 bases[] = {0x10000000, 0x90000000, 0x200000000000};
static const s64 offsets[NCOPIES] = {0x3000000, -0x3000000, 0x7f000000, 0x10000000000};

struct region {
	u64 run; /* executable, not writable */
	u8 *write;
};

static struct region originals[DP_ARRAY_SIZE(bases)], copies[DP_ARRAY_SIZE(bases)][NCOPIES];
static u8 *arena; /* = RJ_LOW */
static int arena_fd;
static u64 rng;

struct rj_xlayout rj_xlayout;
static struct {
	u32 off, size;
} parts[8]; /* of the extended state that is compared */
static unsigned int nparts;

/* How a run ended. */
struct outcome {
	struct rj_regs regs;
	u64 vector, error, cr2;
	int sig;
	u64 address; /* that the signal reports */
	u8 xstate[RJ_XSTATE_MAX];
	u8 mem[RJ_ARENA_SIZE];
};

static struct rj_state state;
static struct outcome original, copy, again;

/* --- Entering and leaving. These names are the assembly's. --- */

struct rj_regs rj_in __attribute__((visibility("hidden")));
u64 rj_frame[5] __attribute__((visibility("hidden"))); /* rip, cs, rflags, rsp, ss: for iretq */
void *rj_image __attribute__((visibility("hidden")));
u64 rj_image_mask __attribute__((visibility("hidden")));
u64 rj_own_rsp __attribute__((visibility("hidden")));
u64 rj_own_fs __attribute__((visibility("hidden")));
u64 rj_own_gs __attribute__((visibility("hidden")));
u64 rj_out_fs __attribute__((visibility("hidden")));
u64 rj_out_gs __attribute__((visibility("hidden")));

void rj_enter(void);
void rj_leave(void) __attribute__((noreturn));
void rj_trap(int sig, siginfo_t *info, void *context);
void rj_trapped(int sig, siginfo_t *info, ucontext_t *uc);

/*
 * rj_enter loads the whole state and goes on with rj_frame, all at once by iretq. rj_trap is the
 * signal handler: flags and segment bases become ours again before C runs. rj_leave returns from
 * rj_enter.
 */
asm(".text\n"
    "rj_enter:\n"
    "	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    "	mov %rsp, rj_own_rsp(%rip)\n"
    "	rdfsbase %rax\n mov %rax, rj_own_fs(%rip)\n"
    "	rdgsbase %rax\n mov %rax, rj_own_gs(%rip)\n"
    "	mov rj_image(%rip), %rcx\n"
    "	mov rj_image_mask(%rip), %eax\n xor %edx, %edx\n"
    "	xrstor64 (%rcx)\n"
    "	mov rj_in+144(%rip), %rax\n wrfsbase %rax\n"
    "	mov rj_in+152(%rip), %rax\n wrgsbase %rax\n"
    "	mov rj_in+0(%rip), %rax\n mov rj_in+8(%rip), %rcx\n"
    "	mov rj_in+16(%rip), %rdx\n mov rj_in+24(%rip), %rbx\n"
    "	mov rj_in+40(%rip), %rbp\n mov rj_in+48(%rip), %rsi\n mov rj_in+56(%rip), %rdi\n"
    "	mov rj_in+64(%rip), %r8\n mov rj_in+72(%rip), %r9\n"
    "	mov rj_in+80(%rip), %r10\n mov rj_in+88(%rip), %r11\n"
    "	mov rj_in+96(%rip), %r12\n mov rj_in+104(%rip), %r13\n"
    "	mov rj_in+112(%rip), %r14\n mov rj_in+120(%rip), %r15\n"
    "	lea rj_frame(%rip), %rsp\n"
    "	iretq\n"
    "rj_trap:\n"
    "	pushq $0x202\n popfq\n"
    "	rdfsbase %rax\n mov %rax, rj_out_fs(%rip)\n"
    "	rdgsbase %rax\n mov %rax, rj_out_gs(%rip)\n"
    "	mov rj_own_fs(%rip), %rax\n wrfsbase %rax\n"
    "	mov rj_own_gs(%rip), %rax\n wrgsbase %rax\n"
    "	jmp rj_trapped\n"
    "rj_leave:\n"
    "	mov rj_own_rsp(%rip), %rsp\n"
    "	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
    "	ret\n");

static struct outcome *running; /* NULL: a signal is a bug of the judge, as it is in rj_enter */

void rj_trapped(int sig, siginfo_t *info, ucontext_t *uc)
{
	static const u8 order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
				     REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	const greg_t *g = uc->uc_mcontext.gregs;
	struct outcome *o = running;

	if (!o || (g[REG_RIP] >= (greg_t)rj_enter && g[REG_RIP] < (greg_t)rj_trap)) {
		static const char text[] = "the judge itself trapped\n";

		(void)!write(2, text, sizeof(text) - 1);
		_exit(99);
	}
	running = NULL;
	for (int i = 0; i < 16; i++)
		o->regs.r[i] = (u64)g[order[i]];
	o->regs.rip = (u64)g[REG_RIP];
	o->regs.flags = (u64)g[REG_EFL];
	o->regs.fsbase = rj_out_fs;
	o->regs.gsbase = rj_out_gs;
	o->sig = sig;
	o->vector = (u64)g[REG_TRAPNO];
	o->error = (u64)g[REG_ERR];
	o->cr2 = o->vector == VEC_PF ? (u64)g[REG_CR2] : 0;
	o->address = (u64)info->si_addr;
	memcpy(o->xstate, uc->uc_mcontext.fpregs, rj_xlayout.size);
	rj_leave();
}

static void run(const struct rj_state *s, u64 rip, bool step, struct outcome *o)
{
	memcpy(arena, s->mem, RJ_ARENA_SIZE);
	rj_in = s->regs;
	rj_frame[0] = rip;
	rj_frame[2] = s->regs.flags | (step ? FLAG_TF : 0);
	rj_frame[3] = s->regs.r[RJ_RSP];
	rj_image = (void *)s->xstate;
	running = o;
	rj_enter();
	memcpy(o->mem, arena, RJ_ARENA_SIZE);
}

/* --- Setting up --- */

static bool init_xstate(void)
{
	u32 a, b, c, d, lo, hi;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return false;
	asm("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	rj_xlayout.mask = lo & XSTATE_WANTED;
	rj_xlayout.size = 576;
	for (u32 i = 2; i < 8; i++) {
		if (!(rj_xlayout.mask & 1u << i))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		parts[nparts].off = b;
		parts[nparts++].size = a;
		rj_xlayout.size = DP_MAX(rj_xlayout.size, b + a);
	}
	asm volatile("fxsave64 %0" : "=m"(state.xstate)); /* no vector register is in use here */
	memcpy(&rj_xlayout.mxcsr_mask, state.xstate + 28, 4);
	if (!rj_xlayout.mxcsr_mask)
		rj_xlayout.mxcsr_mask = 0xffbf;
	memset(state.xstate, 0, sizeof(state.xstate));
	memcpy(state.xstate + 512, &rj_xlayout.mask, 4);
	rj_image_mask = rj_xlayout.mask;
	return rj_xlayout.size <= RJ_XSTATE_MAX;
}

static void *map_at(u64 addr, size_t size, int prot, int fd, off_t off)
{
	void *p = mmap((void *)addr, size, prot,
		       (addr ? MAP_FIXED_NOREPLACE : 0) | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd, off);

	if (p != MAP_FAILED && addr && p != (void *)addr) {
		munmap(p, size);
		return MAP_FAILED;
	}
	return p;
}

/* Code is written through another mapping, so that no instruction can change it. */
static bool init_region(struct region *g, u64 run)
{
	int fd = memfd_create("code", MFD_CLOEXEC);
	void *w, *x;

	if (fd < 0 || ftruncate(fd, CODE_SIZE))
		return false;
	w = map_at(0, CODE_SIZE, PROT_READ | PROT_WRITE, fd, 0);
	x = map_at(run, CODE_SIZE, PROT_READ | PROT_EXEC, fd, 0);
	close(fd);
	if (w == MAP_FAILED || x == MAP_FAILED)
		return false;
	g->run = run;
	g->write = w;
	memset(w, 0xcc, CODE_SIZE);
	return true;
}

static bool init_memory(void)
{
	arena_fd = memfd_create("arena", MFD_CLOEXEC);
	if (arena_fd < 0 || ftruncate(arena_fd, RJ_ARENA_SIZE))
		return false;
	arena = map_at(RJ_LOW, RJ_ARENA_SIZE, PROT_READ | PROT_WRITE, arena_fd, 0);
	if (arena == MAP_FAILED || map_at(RJ_HIGH, RJ_ARENA_SIZE, PROT_READ | PROT_WRITE, arena_fd, 0) == MAP_FAILED)
		return false;
	for (size_t i = 0; i < DP_ARRAY_SIZE(bases); i++) {
		if (!init_region(&originals[i], bases[i]))
			return false;
		for (int k = 0; k < NCOPIES; k++)
			if (!init_region(&copies[i][k], bases[i] + (u64)offsets[k]))
				return false;
	}
	return true;
}

static bool init_signals(void)
{
	static const int sigs[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	struct sigaction sa = {.sa_sigaction = rj_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	stack_t st = {.ss_size = 1 << 17};

	st.ss_sp = map_at(0, st.ss_size, PROT_READ | PROT_WRITE, -1, 0);
	if (st.ss_sp == MAP_FAILED || sigaltstack(&st, NULL))
		return false;
	for (size_t i = 0; i < DP_ARRAY_SIZE(sigs); i++)
		if (sigaction(sigs[i], &sa, NULL))
			return false;
	return true;
}

bool rj_init(u64 seed, const char **reason)
{
	u16 cs, ss;

	rng = seed;
	*reason = "no fsgsbase";
	if (!(getauxval(AT_HWCAP2) & 2))
		return false;
	*reason = "no xsave";
	if (!init_xstate())
		return false;
	*reason = "the addresses are in use";
	if (!init_memory())
		return false;
	*reason = "no signal handlers";
	asm("mov %%cs, %0; mov %%ss, %1" : "=r"(cs), "=r"(ss));
	rj_frame[1] = cs;
	rj_frame[4] = ss;
	for (size_t i = 0; i < RJ_ARENA_SIZE; i += 8) {
		u64 v = rj_random(&rng);

		memcpy(state.mem + i, &v, 8);
	}
	return init_signals();
}

/* --- Comparing --- */

/* One instruction under judgement. */
struct trial {
	const u8 *code;
	struct dp_insn in;
	u64 at, copy_at;
	size_t copy_len;
	u8 copy_code[DP_RELOC_MAX];
	struct rj_stats *st;
	bool stepped;
};

enum exit_kind { EXIT_FELL, EXIT_ARRIVED, EXIT_FAULT };

struct exit {
	enum exit_kind kind;
	u64 rip; /* where control arrived */
};

/* What a run's last trap means, for code at [at, at + len) whose original continues at `next`. */
static struct exit exit_of(const struct outcome *o, u64 at, size_t len, u64 next)
{
	struct exit x = {EXIT_FAULT, o->regs.rip};

	if (o->vector == VEC_BP && o->sig == SIGTRAP)
		x = (struct exit){EXIT_ARRIVED, o->regs.rip - 1};
	else if (o->vector == VEC_DB)
		x.kind = EXIT_ARRIVED;
	else if (x.rip - at >= len) /* it left, and could not fetch the next instruction */
		x.kind = EXIT_ARRIVED;
	if (x.kind == EXIT_ARRIVED && (x.rip == at + len || x.rip == next))
		x = (struct exit){EXIT_FELL, next};
	return x;
}

static const char *compare_exit(const struct trial *t, const struct exit *a, const struct exit *b)
{
	if (a->kind != b->kind)
		return "kind of exit";
	if (a->kind == EXIT_ARRIVED && a->rip != b->rip)
		return "target";
	if (a->kind != EXIT_FAULT)
		return NULL;
	if (original.sig != copy.sig || original.vector != copy.vector || original.error != copy.error)
		return "kind of fault";
	if (original.cr2 != copy.cr2)
		return "fault address";
	if (original.address == t->at && copy.address - t->copy_at < t->copy_len)
		return NULL;
	return original.address == copy.address ? NULL : "reported address";
}

static const char *compare_xstate(const u8 *a, const u8 *b)
{
	if (memcmp(a, b, FX_FIP) || memcmp(a + FX_FDP, b + FX_FDP, FX_END - FX_FDP))
		return "x87 or sse state";
	for (unsigned int i = 0; i < nparts; i++)
		if (memcmp(a + parts[i].off, b + parts[i].off, parts[i].size))
			return "extended vector state";
	return NULL;
}

static const char *compare_state(const struct trial *t, const struct outcome *a, const struct outcome *b)
{
	static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
					      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

	for (int i = 0; i < 16; i++) {
		if (i == RJ_RAX && t->in.cls == DP_INSN_XBEGIN) /* why it aborted: may differ */
			continue;
		if (a->regs.r[i] != b->regs.r[i])
			return names[i];
	}
	if ((a->regs.flags ^ b->regs.flags) & ~(FLAG_TF | FLAG_RF))
		return "flags";
	if (a->regs.fsbase != b->regs.fsbase || a->regs.gsbase != b->regs.gsbase)
		return "segment base";
	if (memcmp(a->mem, b->mem, RJ_ARENA_SIZE))
		return "memory";
	return compare_xstate(a->xstate, b->xstate);
}

/*
 * The one fault that a copy cannot take at its start: a call to an address that is not canonical.
 * The copy has pushed by then; check that it did just that, and undo it for the comparison.
 */
static bool undo_pushed_fault(struct trial *t)
{
	u64 rsp = original.regs.r[RJ_RSP], slot = rsp - 8, off;
	u64 ret = t->at + t->in.len, have;

	if (t->in.cls != DP_INSN_CALL_IND || original.vector != VEC_GP || copy.vector != VEC_GP ||
	    copy.regs.r[RJ_RSP] != slot)
		return false;
	off = slot - (slot >= RJ_HIGH ? RJ_HIGH : RJ_LOW);
	if (off > RJ_ARENA_SIZE - 8)
		return false;
	memcpy(&have, copy.mem + off, 8);
	if (have != ret)
		return false;
	memcpy(copy.mem + off, original.mem + off, 8);
	copy.regs.r[RJ_RSP] = rsp;
	t->st->pushed_faults++;
	return true;
}

static size_t print_bytes(char *out, size_t cap, const u8 *bytes, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n && len + 4 < cap; i++)
		len += (size_t)snprintf(out + len, cap - len, "%02x", bytes[i]);
	return len;
}

static void report(const struct trial *t, const char *what, const struct exit *a, const struct exit *b)
{
	char *s = t->st->report, bytes[2][2 * DP_RELOC_MAX + 1] = {{0}};
	size_t cap = sizeof(t->st->report), n = 0;

	print_bytes(bytes[0], sizeof(bytes[0]), t->code, t->in.len);
	print_bytes(bytes[1], sizeof(bytes[1]), t->copy_code, t->copy_len);
	n += (size_t)snprintf(s + n, cap - n,
			      "%s differs%s: %s at %llx, copy %s at %llx\n"
			      "exit %d at %llx signal %d vector %llu error %llx cr2 %llx; copy "
			      "%d at %llx signal %d vector %llu error %llx cr2 %llx\n",
			      what, t->stepped ? " (stepped)" : "", bytes[0], (unsigned long long)t->at, bytes[1],
			      (unsigned long long)t->copy_at, a->kind, (unsigned long long)a->rip, original.sig,
			      (unsigned long long)original.vector, (unsigned long long)original.error,
			      (unsigned long long)original.cr2, b->kind, (unsigned long long)b->rip, copy.sig,
			      (unsigned long long)copy.vector, (unsigned long long)copy.error,
			      (unsigned long long)copy.cr2);
	for (int i = 0; i < 16 && n < cap; i++)
		n += (size_t)snprintf(s + n, cap - n, "%2d %16llx -> %16llx %16llx\n", i,
				      (unsigned long long)state.regs.r[i], (unsigned long long)original.regs.r[i],
				      (unsigned long long)copy.regs.r[i]);
	if (n < cap)
		n += (size_t)snprintf(s + n, cap - n, "flags %llx -> %llx %llx\n", (unsigned long long)state.regs.flags,
				      (unsigned long long)original.regs.flags, (unsigned long long)copy.regs.flags);
	for (size_t i = 0; i < RJ_ARENA_SIZE && n < cap; i++)
		if (original.mem[i] != copy.mem[i]) {
			snprintf(s + n, cap - n, "memory first differs at offset %zx\n", i);
			break;
		}
}

static bool repeats(const struct trial *t)
{
	run(&state, t->at, t->stepped, &again);
	return again.vector == original.vector && again.regs.rip == original.regs.rip &&
	       !compare_state(t, &original, &again);
}

static void count(struct trial *t, const struct exit *x)
{
	struct rj_stats *st = t->st;

	st->cases++;
	st->stepped += t->stepped;
	if (x->kind == EXIT_FELL)
		st->fell++;
	else if (x->kind == EXIT_ARRIVED)
		st->branched++;
	else
		st->faults[original.vector & 31]++;
}

static void judge_case(struct trial *t)
{
	u64 next = t->at + t->in.len;
	struct exit a, b;
	const char *what;

	run(&state, t->at, t->stepped, &original);
	run(&state, t->copy_at, false, &copy);
	a = exit_of(&original, t->at, t->in.len, next);
	b = exit_of(&copy, t->copy_at, t->copy_len, next);
	if (a.kind == EXIT_FAULT && b.kind == EXIT_FAULT)
		undo_pushed_fault(t);
	what = compare_exit(t, &a, &b);
	if (!what)
		what = compare_state(t, &original, &copy);
	count(t, &a);
	if (!what)
		return;
	if (!repeats(t)) {
		if (!t->st->unrepeatable++ && !t->st->mismatches)
			report(t, what, &a, &b);
		return;
	}
	if (!t->st->mismatches++)
		report(t, what, &a, &b);
}

/* --- Judging an instruction --- */

const char *rj_exclusion_name(enum rj_exclusion x)
{
	static const char *const names[] = {
	    "run",
	    "refused by the relocator",

	    "clock, random and processor numbers",
	    "xsave and xrstor",
	    "segment register loads",
	    "emulated by the kernel",
	    "tiles and protection keys",
	    "branches into themselves",
	    "operand's page in use",
	};

	return names[x];
}

const char *rj_kind_name(enum rj_kind k)
{
	static const char *const names[] = {
	    "plain",      "rip-relative", "jmp",        "jcc",          "loop/jcxz", "call",   "call reg",
	    "call [mem]", "call [rip]",   "call [rsp]", "jmp indirect", "ret",       "xbegin", "system call",
	};

	return names[k];
}

static enum rj_kind kind_of(const struct dp_insn *in)
{
	switch (in->cls) {
	case DP_INSN_JMP_REL:
		return RJ_JMP;
	case DP_INSN_JCC_REL:
		return RJ_JCC;
	case DP_INSN_LOOP:
		return RJ_LOOP;
	case DP_INSN_CALL_REL:
		return RJ_CALL;
	case DP_INSN_JMP_IND:
		return RJ_JMP_IND;
	case DP_INSN_RET:
		return RJ_RET;
	case DP_INSN_XBEGIN:
		return RJ_XBEGIN;
	case DP_INSN_SYSCALL:
	case DP_INSN_INT:
		return RJ_SYSCALL;
	case DP_INSN_CALL_IND:
		if (dp_modrm_mod(in) == 3)
			return RJ_CALL_REG;
		if (in->rip_relative)
			return RJ_CALL_RIP;
		return in->has_sib && (in->sib & 7) == 4 && !(in->rex & DP_REX_B) ? RJ_CALL_RSP : RJ_CALL_MEM;
	default:
		return in->rip_relative ? RJ_RIPREL : RJ_PLAIN;
	}
}

/* Whether a copy at copy_at can reach what the instruction refers to; near the limit: do not know.
 */
static int in_reach(const struct trial *t)
{
	s64 distance, target = t->in.rel_size ? t->in.rel : t->in.disp;

	if (!t->in.rel_size && !t->in.rip_relative)
		return 1;
	if (!t->in.rel_size && (t->in.prefixes & DP_PFX_67))
		return 1;
	distance = (s64)(t->at - t->copy_at) + target;
	if (distance < 0)
		distance = -distance;
	return distance > 0x80000080ll ? 0 : distance < 0x7fffff80ll ? 1 : -1;
}

/*
 * Relocate to a random region where it reaches. False: it reaches none, rightly; or a verdict was
 * wrong, and that is reported.
 */
static bool place_copy(struct trial *t, unsigned int world, struct region **where)
{
	unsigned int first = (unsigned int)(rj_random(&rng) % NCOPIES);
	struct dp_error err = {0};
	struct dp_emit e;
	int rc = 0;

	for (unsigned int i = 0; i < NCOPIES; i++) {
		*where = &copies[world][(first + i) % NCOPIES];
		t->copy_at = (*where)->run + PAGE + (rj_random(&rng) & (PAGE - 1));
		dp_emit_init(&e, t->copy_code, sizeof(t->copy_code), t->copy_at);
		rc = dp_relocate(&e, &t->in, t->code, t->at, &err);
		t->copy_len = e.len;
		if (e.overflow || (rc && err.code != E_RELOC_RANGE) || in_reach(t) == !!rc)
			break;
		if (!rc)
			return true;
		if (++t->st->out_of_reach && i == NCOPIES - 1)
			return false;
	}
	if (!t->st->mismatches++)
		snprintf(t->st->report, sizeof(t->st->report),
			 "opcode %02x at %llx, copy at %llx: wrong verdict %d: %s", t->in.opcode,
			 (unsigned long long)t->at, (unsigned long long)t->copy_at, rc, err.detail);
	return false;
}

/* Map the arena's window where the operand must lie; NULL: not possible. */
static void *place_operand(u64 addr)
{
	void *p;

	if (addr < 0x10000 || addr >= 0x7f0000000000 - RJ_RIP_SIZE)
		return NULL;
	p = map_at(addr & ~(PAGE - 1), RJ_RIP_SIZE, PROT_READ | PROT_WRITE, arena_fd, RJ_RIP);
	return p == MAP_FAILED ? NULL : p;
}

/* These would see the trap flag, or trap elsewhere than behind themselves. */
static bool can_step(const struct dp_insn *in)
{
	bool one = in->enc == DP_ENC_LEGACY && in->map == DP_MAP_ONE;
	bool repeated = one && (in->prefixes & (DP_PFX_F2 | DP_PFX_F3)) && !in->has_modrm;
	bool flags = one && (in->opcode == 0x9c || in->opcode == 0x9d);

	return kind_of(in) != RJ_XBEGIN && kind_of(in) != RJ_SYSCALL && !repeated && !flags;
}

static void judge_placed(struct trial *t, const struct rj_place *place, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		rj_steer(&state, &t->in, place, &rng);
		t->stepped = can_step(&t->in) && rj_random(&rng) % STEP_EVERY == 0;
		judge_case(t);
		t->st->kinds[kind_of(&t->in)]++;
	}
}

enum rj_exclusion rj_judge(const u8 *code, unsigned int n, struct rj_stats *st)
{
	unsigned int world = (unsigned int)(rj_random(&rng) % DP_ARRAY_SIZE(bases));
	struct region *org = &originals[world], *where;
	struct trial t = {.code = code, .st = st};
	struct rj_place place;
	enum rj_exclusion x;
	void *window = NULL;
	u64 fixed;

	if (dp_insn_decode(&t.in, code, DP_INSN_MAX) < 0)
		return RJ_REFUSED;
	x = rj_exclude(&t.in);
	t.at = org->run + PAGE + 0x100 + rj_random(&rng) % (PAGE - 0x100);
	place.at = t.at;
	place.landing = org->run + 3 * PAGE + (rj_random(&rng) & 0x7ff);
	fixed = rj_fixed_operand(&t.in, code, t.at);
	if (x == RJ_RUN && t.in.rip_relative && fixed && !(window = place_operand(fixed)))
		x = RJ_OCCUPIED;
	else if (x == RJ_RUN && fixed && !window)
		window = place_operand(fixed); /* an absolute address may as well fault */
	if (x != RJ_RUN) {
		st->excluded[x]++;
		return x;
	}
	memcpy(org->write + (t.at - org->run), code, t.in.len);
	if (place_copy(&t, world, &where)) {
		memcpy(where->write + (t.copy_at - where->run), t.copy_code, t.copy_len);
		judge_placed(&t, &place, n);
		memset(where->write + (t.copy_at - where->run), 0xcc, t.copy_len);
	}
	memset(org->write + (t.at - org->run), 0xcc, t.in.len);
	if (window)
		munmap(window, RJ_RIP_SIZE);
	return RJ_RUN;
}
