/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Harnesses for libFuzzer (build-libfuzzer.sh makes one program of each, with -DFUZZ_...): the text of probe programs,
 * which is preprocessor and assembler; objects; bytecode, which is verified, run, compiled and run; what the log reader
 * finds in rings that the probed program may overwrite. A finding is a crash, a hang, a leak, or abort().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/machine.h"
#include "arch/compile.h"
#include "hit/hit-rpn.h"
#include "lang/rpn/rpn.h"
#include "log/reader.h"
#include "log/log-rpn.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static void complain(const char *what)
{
	fprintf(stderr, "%s\n", what);
	abort();
}

/* ---- running what was verified ---- */

#define ROOM (1 << 20)

static bool compile(struct dp_code_rt *rt, const u8 *code, u8 *writable, u8 *executable)
{
	static const u64 services[] = {
#define DP_SERVICE(name) (u64) name,
#include "abi/services.def"
	};
	struct dp_rpn_jit jit = {.code = code, .rt = rt, .services = services, .always = true, .whole = true};
	struct dp_emit e;

	dp_emit_init(&e, writable, ROOM, (u64)executable);
	return !dp_rpn_jit_compile(&e, &jit);
}

static void run(struct machine *m, const struct dp_program *p, u8 *writable, u8 *executable, enum dp_run_result *result)
{
	machine_init(m);
	dp_program_to_rt(p, &m->rt);
	m->rt.code = (u64)p->code;
	m->rt.locals = (u64)m->locals;
	m->rt.globals = (u64)m->globals;
	m->rt.gate = (u64)&m->gate;
	if (executable && compile(&m->rt, p->code, writable, executable))
		m->rt.compiled = (u64)executable;
	*result = dp_vm_run(&m->hit);
}

/* Interpreted and compiled: the same. Programs with more variables than the machine has are left out. */
static void run_both(const struct dp_program *p)
{
	static u8 *writable, *executable;
	struct machine a, b;
	enum dp_run_result ra, rb;

	if (p->nlocals > DP_ARRAY_SIZE(a.locals) || p->nglobals > DP_ARRAY_SIZE(a.globals))
		return;
	if (!writable) {
		int fd = memfd_create("jit", MFD_CLOEXEC);

		if (fd < 0 || ftruncate(fd, ROOM))
			exit(1);
		writable = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		executable = mmap(NULL, ROOM, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	}
	run(&a, p, NULL, NULL, &ra);
	run(&b, p, writable, executable, &rb);
	if (ra != rb || memcmp(&a.regs, &b.regs, sizeof(a.regs)) || memcmp(a.locals, b.locals, sizeof(a.locals)) ||
	    memcmp(a.memory, b.memory, sizeof(a.memory)) || memcmp(a.vm, b.vm, sizeof(*a.vm)))
		complain("compiled and interpreted, a program does different things");
	machine_free(&a);
	machine_free(&b);
}

/* ---- the inputs ---- */

#ifdef FUZZ_TEXT
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	char *text = malloc(size + 1), *list = NULL;
	struct dp_rpn_unit u, again;
	struct dp_error err;
	size_t n;
	FILE *f;

	memcpy(text, data, size);
	text[size] = '\0';
	if (!dp_rpn_parse(&u, text, "fuzz", "/nowhere", NULL, 0, &err)) {
		f = open_memstream(&list, &n);
		dp_rpn_list(&u, f);
		fclose(f);
		if (dp_rpn_parse(&again, list, "list", "/nowhere", NULL, 0, &err)) {
			fprintf(stderr, "%s\n%s\n", err.detail, list);
			complain("a listing does not assemble");
		}
		dp_rpn_free(&again);
		dp_rpn_free(&u);
		free(list);
	}
	free(text);
	return 0;
}
#endif

#ifdef FUZZ_OBJECT
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct dp_rpn_unit u;
	struct dp_error err;
	void *bytes;
	size_t n;

	if (dp_rpn_load(&u, data, size, &err))
		return 0;
	if (dp_rpn_verify(&u, &err))
		complain("an object was loaded that does not pass the verifier");
	if (dp_rpn_save(&u, &bytes, &n, &err))
		complain("an object that was loaded cannot be saved");
	free(bytes);
	for (u32 i = 0; i < u.nprobes && u.modtype == DP_RPN_USER; i++) /* the kernel verifies its own */
		run_both(&u.probes[i].prog);
	dp_rpn_free(&u);
	return 0;
}
#endif

#ifdef FUZZ_CODE
int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct dp_program p = {0};

	if (size < 10 || size > 4096)
		return 0;
	p.rpn.ex_mask = DP_RPN | data[0] | (u32)data[1] << 8 | (data[2] & 1 ? DP_RPN_AUTOTRACE : 0);
	p.jmpmax = data[3] * 4;
	p.logmax = data[4] * 4;
	p.rpn.ex_logmax = data[5] * 4;
	p.rpn.heap = data[6] * 64;
	p.nlocals = data[7] % 41;
	p.nglobals = data[8] % 9;
	p.rpn.max = DP_MAXHITS_NONE;
	p.len = (u32)size - 9;
	p.code = malloc(p.len); /* of exactly its length, so that a read behind it is noticed */
	memcpy(p.code, data + 9, p.len);
	if (!dp_program_verify(&p, true, NULL))
		run_both(&p);
	dp_program_free(&p);
	return 0;
}
#endif

#ifdef FUZZ_LOG
static bool alive(u32 tid, void *arg)
{
	return tid & 1;
}

static void take(const struct dp_record *rec, u64 ns, void *arg)
{
	struct dp_rpn_context c = {.module = "m", .comm = "c\n", .fields = rec->cpu};
	struct dp_line line = {0};

	if (rec->len < sizeof(*rec) || rec->len > DP_RECORD_MAX)
		complain("a record of a length that cannot be");
	if (rec->flags & DP_REC_RPN) {
		for (u32 f = 0; f < DP_NFORMATS; f++) {
			if (!dp_format_of_programs((enum dp_format)f))
				continue;
			dp_line_reset(&line);
			dp_rpn_log(&line, (enum dp_format)f, rec, &c);
		}
	}
	dp_line_free(&line);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	enum { RINGS = 2, RING = 4096 };
	static struct dp_rings *rings;
	static struct dp_ring_map map;
	u64 whole = dp_rings_size(1, RINGS, 1, RING);
	struct dp_reader *r;
	struct dp_error err;
	struct dp_counts counts;

	if (!rings)
		rings = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(rings, 0, whole);
	dp_rings_init(rings, 1, RINGS, 1, RING);
	map = (struct dp_ring_map){.at = rings, .size = whole};
	if (!dp_ring_map_lay_out(&map, 1, RINGS, 1, RING) || dp_reader_open(&r, &map, &err))
		complain("rings are refused");
	dp_reader_set_alive(r, alive, NULL);
	if (size & 1)
		dp_reader_keep(r);
	/*
	 * Each ring's first words, then what it holds: one half of the input each; the second half comes between two
	 * drains.
	 */
	for (u32 i = 0; i < RINGS; i++) {
		u8 *ring = (u8 *)rings + rings->rings_off + i * rings->ring_stride;
		const u8 *part = data + i * (size / RINGS);
		size_t n = size / RINGS, head = n < 24 ? n : 24;

		memcpy(ring, part, head < 8 ? head : 8);
		if (head > 8)
			memcpy(ring + offsetof(struct dp_ring, tail), part + 8, head - 8 < 8 ? head - 8 : 8);
		if (head > 16)
			memcpy(ring + offsetof(struct dp_ring, owner), part + 16, head - 16 < 4 ? head - 16 : 4);
		if (n > head)
			memcpy(ring + 4096, part + head, n - head < RING ? n - head : RING);
		dp_reader_drain(r, i == RINGS - 1, take, NULL);
		if (size & 1) {
			dp_reader_propose(r, 1 + i);
			if (size & 2)
				dp_reader_settle(&map, 1 + i);
			dp_reader_release(r);
		}
	}
	dp_reader_counts(r, 0, &counts);
	dp_reader_close(r);
	return 0;
}
#endif

#ifdef FUZZ_SEEDS
/* FILE.rpn... DIR: what the other fuzzers may begin with. */
static void write_seed(const char *dir, const char *kind, u32 n, const void *head, size_t nhead, const void *p,
		       size_t size)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%u", dir, kind, n);
	f = fopen(path, "we");
	if (!f)
		exit(1);
	fwrite(head, 1, nhead, f);
	fwrite(p, 1, size, f);
	fclose(f);
}

int main(int argc, char **argv)
{
	static const u8 head[9] = {0xff, 0x9f, 0, 20, 60, 60, 60, 8, 8};
	struct dp_rpn_unit u;
	u32 n = 0;

	for (int i = 1; i < argc - 1; i++) {
		void *bytes;
		size_t size;

		if (dp_rpn_read(&u, argv[i], NULL, 0, NULL))
			continue;
		if (!dp_rpn_save(&u, &bytes, &size, NULL)) {
			write_seed(argv[argc - 1], "object", n++, NULL, 0, bytes, size);
			free(bytes);
		}
		for (u32 k = 0; k < u.nprobes; k++)
			write_seed(argv[argc - 1], "code", n++, head, sizeof(head), u.probes[k].prog.code,
				   u.probes[k].prog.len);
		dp_rpn_free(&u);
	}
	return 0;
}
#endif
