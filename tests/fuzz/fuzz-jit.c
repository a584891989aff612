/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Random programs of the Dynamic Probes language, compiled and interpreted from equal states: both
 * must leave the same behind, the whole of the machine: stack, frames, exceptions, heap, record,
 * traces; registers, variables, memory and counts. Usage: fuzz-jit [SECONDS [SEED]]; 0 seconds =
 * endless. With DP_SHORT_RUN it is a test that lasts seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "arch/compile.h"
#include "hit/hit-rpn.h"
#include "programs.h"

#define ROOM (1 << 20)

static u64 made, passed, compiled, runs, logged, raised, came_back, size_in, size_out;
static u8 *writable, *executable; /* the same memory */
static bool came;
static bool in_reach; /* of what compiled programs call: half of them call it directly */

/* dp_vm_go() as compiled programs see it: notes that one was left. */
static enum dp_run_result go(struct dp_hit *h, const u8 *pc, u32 sp, u32 jumps, u32 raise)
{
	came = true;
	return dp_vm_go(h, pc, sp, jumps, raise);
}

static void leave(void)
{
}

static bool compile(struct dp_rpn_jit *jit)
{
	static const u64 functions[] = {
#define DP_SERVICE(name) (u64) name,
#include "abi/services.def"
	};
	static u64 services[DP_NSERVICES];
	struct dp_emit e;
	int r;

	memcpy(services, functions, sizeof(services));
	services[DP_SERVICE_dp_vm_go] = (u64)go;
	jit->services = services;
	jit->near = in_reach && made & 1;
	jit->sealed = jit->near;
	jit->leave = jit->near ? (u64)leave : 0;
	dp_emit_init(&e, writable, ROOM, (u64)executable);
	r = dp_rpn_jit_compile(&e, jit);
	if (r && r != -EOPNOTSUPP)
		printf("# cannot compile: %d\n", r);
	if (!r) {
		size_in += jit->rt->len;
		size_out += e.len;
	}
	return !r;
}

/* Run it, interpreted or compiled. */
static enum dp_run_result run(struct machine *m, const struct dp_program *p, bool by_jit, bool whole, bool *done)
{
	enum dp_run_result result;
	struct dp_rpn_jit jit = {.code = p->code, .rt = &m->rt, .whole = whole};

	dp_program_to_rt(p, &m->rt);
	m->rt.code = (u64)p->code;
	m->rt.locals = (u64)m->locals;
	m->rt.globals = (u64)m->globals;
	m->rt.gate = (u64)&m->gate;
	m->rt.work = m->work;
	if (by_jit) {
		*done = compile(&jit);
		if (!*done)
			return DP_RUN_LOG;
		m->rt.compiled = (u64)executable;
	}
	result = dp_vm_run(&m->hit);
	m->rt.compiled = 0;
	return result;
}

/* whole: words of the stack that nobody can look at any more, too */
static const char *compare(const struct machine *a, const struct machine *b, bool whole)
{
	u64 skip = whole ? 0 : sizeof(a->vm->stack);

	if (memcmp(&a->regs, &b->regs, sizeof(a->regs)))
		return "registers differ";
	if (a->hit.work != b->hit.work)
		return "work left differs";
	if (a->gate != b->gate || a->dumps != b->dumps)
		return "counts of hits differ";
	if (memcmp(a->locals, b->locals, sizeof(a->locals)) || memcmp(a->globals, b->globals, sizeof(a->globals)))
		return "variables differ";
	if (memcmp(a->memory, b->memory, MEMORY_SIZE) || memcmp(a->stack, b->stack, STACK_SIZE))
		return "memory differs";
	if (a->hit.log_len != b->hit.log_len || a->hit.rec_flags != b->hit.rec_flags ||
	    a->hit.faults != b->hit.faults || a->hit.exceptions != b->hit.exceptions)
		return "lengths, flags or counts differ";
	if (memcmp(a->vm->record, b->vm->record, sizeof(a->vm->record)))
		return "records differ";
	for (u32 i = 0; i < DP_VM_STACK && whole; i++)
		if (a->vm->stack[i] != b->vm->stack[i]) {
			printf("# word %u: 0x%llx interpreted, 0x%llx compiled\n", i,
			       (unsigned long long)a->vm->stack[i], (unsigned long long)b->vm->stack[i]);
			return "stacks differ";
		}
	if (memcmp((const u8 *)a->vm + skip, (const u8 *)b->vm + skip, sizeof(*a->vm) - skip))
		return "states of the machine differ";
	return NULL;
}

static const char *try_program(const struct dp_program *p, bool whole, bool *done)
{
	static struct machine a, b;
	enum dp_run_result ra, rb;
	const char *what = NULL;
	u64 seed = next_random(&state);

	furnish(&a, seed);
	furnish(&b, seed);
	came = false;
	rb = run(&b, p, true, whole, done);
	if (*done) {
		ra = run(&a, p, false, whole, NULL);
		what = ra != rb ? "results differ" : compare(&a, &b, whole);
		runs++;
		came_back += came;
		logged += ra == DP_RUN_LOG;
		raised += a.hit.exceptions != 0;
	}
	machine_free(&a);
	machine_free(&b);
	return what;
}

static bool round_of(u64 seed)
{
	struct dp_program p = {0};
	const char *what = NULL;
	static char text[65536];
	bool done = true;

	state = seed;
	make_program(&p, below(4) ? PROGRAMS_CALM : PROGRAMS_RPN);
	made++;
	if (!dp_program_verify(&p, true, NULL)) {
		passed++;
		for (u32 i = 0; i < 3 && !what && done; i++)
			what = try_program(&p, i != 2, &done);
		compiled += done;
	}
	if (what) {
		dp_program_disasm(&p, text, sizeof(text));
		printf("# %s, seed 0x%llx, jmpmax %u, logmax %u\n# %s\n", what, (unsigned long long)seed, p.jmpmax,
		       p.logmax, text);
	}
	p.layout.fields = NULL;
	dp_program_free(&p);
	return !what;
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	long seconds = 6;
#else
	long seconds = argc > 1 ? atol(argv[1]) : 10;
#endif
	u64 seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	time_t end = time(NULL) + seconds;
	u64 master = seed;
	int fd = memfd_create("jit", MFD_CLOEXEC);
	bool good;

	if (fd < 0 || ftruncate(fd, ROOM))
		return 1;
	writable = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	executable = mmap((void *)(((u64)leave & -4096ull) + 0x4000000), ROOM, PROT_READ | PROT_EXEC, MAP_SHARED, fd,
			  0);
	if (writable == MAP_FAILED || executable == MAP_FAILED)
		return 1;
	in_reach = (u64)executable - (u64)leave < 0x40000000;
	good = argc <= 2 || round_of(seed); /* a given seed is tried by itself first */
	while (good && (!seconds || time(NULL) < end))
		for (u32 k = 0; k < 500 && good; k++)
			good = round_of(next_random(&master) | 1);
	printf("# %llu programs, %llu verified, %llu compiled (%.1f bytes for one); %llu runs: "
	       "%llu logged, %llu with exceptions, %llu left "
	       "for the interpreter on the way\n",
	       (unsigned long long)made, (unsigned long long)passed, (unsigned long long)compiled,
	       size_in ? (double)size_out / (double)size_in : 0, (unsigned long long)runs, (unsigned long long)logged,
	       (unsigned long long)raised, (unsigned long long)came_back);
	ok(good, "verified random programs do the same compiled and interpreted");
	ok(compiled > 1000, "enough of them were compiled");
	ok(in_reach, "half of them with direct calls");
	return done();
}
