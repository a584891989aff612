/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The relocator before its judge, the processor: instructions of real binaries, and every form of
 * branch that compilers seldom emit, run in place and as a copy from the same random states (see
 * ../fuzz/relocate-judge.h). Workers are child processes: a crash is a failure with the
 * instruction's bytes, not the end of the test.
 */
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fuzz/relocate-judge.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"
#define CASES 2000000u /* at least so many are run, over all workers */
#define PER_ROUND 4u   /* random states for one instruction at one place */
#define WORKERS 2
#define SLOTS (1u << 23) /* of a hash set */
#define MAX_SAMPLES 1000000u
#define FORMS 60000 /* branches made up */
#define STALL 30    /* seconds without progress: a worker hangs */

static const char *const files[] = {
    LIB "libc.so.6",       LIB "libcrypto.so.3",    LIB "libstdc++.so.6", LIB "libm.so.6",
    "/usr/bin/python3.11", "/usr/bin/redis-server", "/usr/bin/bash",      "/usr/bin/git",
};

struct sample {
	u8 code[DP_INSN_MAX];
	u8 len;
};

struct shared {               /* between a worker and the parent */
	volatile u32 current; /* index of the sample in hand */
	volatile u64 progress;
	struct rj_stats st;
	bool done;
};

static struct sample *samples;
static u32 nsamples;
static u64 *keys, *shapes; /* hash sets */
static u32 nshapes;
static unsigned int tests;
static bool failed;

static void result(bool ok, const char *name)
{
	printf("%sok %u - %s\n", ok ? "" : "not ", ++tests, name);
	failed |= !ok;
}

static const char *grouped(u64 n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), o = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = digits[i];
	}
	buf[o] = 0;
	return buf;
}

/* --- The instructions --- */

static u64 hash(const void *bytes, size_t n)
{
	const u8 *p = bytes;
	u64 h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	h ^= h >> 29;
	return h ? h : 1;
}

/* True when the key is new. */
static bool add_key(u64 *set, u64 key)
{
	u32 i = (u32)(key >> 20) & (SLOTS - 1);

	while (set[i] && set[i] != key)
		i = (i + 1) & (SLOTS - 1);
	if (set[i])
		return false;
	set[i] = key;
	return true;
}

/* Opcodes whose modrm.reg selects the operation. */
static bool is_group(const struct dp_insn *in)
{
	static const u8 one[] = {0x80, 0x81, 0x83, 0x8f, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0, 0xd1, 0xd2, 0xd3,
				 0xd8, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf, 0xf6, 0xf7, 0xfe, 0xff};
	static const u8 of[] = {0x00, 0x01, 0x18, 0x1f, 0x71, 0x72, 0x73, 0xae, 0xba, 0xc7};

	if (in->map == DP_MAP_ONE)
		return memchr(one, in->opcode, sizeof(one));
	if (in->map == DP_MAP_0F)
		return memchr(of, in->opcode, sizeof(of));
	return in->map == DP_MAP_0F38 && in->enc == DP_ENC_VEX && in->opcode == 0xf3;
}

/* What distinguishes instructions whatever their registers and numbers are. */
static u64 shape_of(const struct dp_insn *in, const u8 *code)
{
	u8 s[20] = {in->enc, in->map, in->opcode, in->cls, in->disp_size, in->imm_size, in->rel_size};
	u8 base = 0, mod = in->has_modrm ? dp_modrm_mod(in) : 4;
	u16 prefixes = in->prefixes & (u16)~DP_PFX_REX;

	if (mod < 3 && in->has_sib)
		base = (u8)(1 + ((in->sib & 7) == 4) + 2 * ((in->sib & 7) == 5 && !mod) +
			    4 * ((in->sib >> 3 & 7) != 4));
	s[7] = mod == 3 || mod == 4 ? mod : 0;
	s[8] = base;
	s[9] = in->rip_relative;
	s[10] = in->rex & DP_REX_W;
	s[11] = is_group(in) ? in->modrm >> 3 & 7 : 8;
	memcpy(s + 12, &prefixes, 2);
	if (in->enc == DP_ENC_VEX) /* the vector length */
		s[14] = code[in->opcode_off - 1] & 4;
	if (in->enc == DP_ENC_EVEX) /* and mask, broadcast, zeroing */
		s[14] = (code[in->opcode_off - 1] & 0xf0) | !(code[in->opcode_off - 1] & 7);
	return hash(s, sizeof(s));
}

static void add_sample(const struct dp_insn *in, const u8 *code, bool every_number)
{
	u8 key[DP_INSN_MAX + 1];

	memcpy(key, code, in->len);
	key[in->len] = in->len;
	if (!every_number) {
		memset(key + in->disp_off, 0, in->disp_size);
		memset(key + in->imm_off, 0, in->imm_size);
		memset(key + in->rel_off, 0, in->rel_size);
	}
	if (nsamples == MAX_SAMPLES || !add_key(keys, hash(key, in->len + 1u)))
		return;
	nshapes += add_key(shapes, shape_of(in, code));
	memcpy(samples[nsamples].code, code, in->len);
	samples[nsamples++].len = in->len;
}

static void add_text(const u8 *text, size_t size)
{
	struct dp_insn in;

	for (size_t i = 0; i < size;) {
		if (dp_insn_decode(&in, text + i, size - i) < 0) {
			i++;
			continue;
		}
		add_sample(&in, text + i, in.cls == DP_INSN_CALL_IND);
		i += in.len;
	}
}

static bool add_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const Elf64_Shdr *sh;
	const Elf64_Ehdr *eh;
	struct stat st;
	u8 *image;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(*eh)) {
		close(fd);
		return false;
	}
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return false;
	eh = (void *)image;
	sh = (void *)(image + eh->e_shoff);
	if (!memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_machine == EM_X86_64 &&
	    eh->e_shoff + eh->e_shnum * sizeof(*sh) <= (u64)st.st_size)
		for (int i = 0; i < eh->e_shnum; i++)
			if ((sh[i].sh_flags & SHF_EXECINSTR) && sh[i].sh_type == SHT_PROGBITS &&
			    sh[i].sh_offset + sh[i].sh_size <= (u64)st.st_size)
				add_text(image + sh[i].sh_offset, sh[i].sh_size);
	munmap(image, (size_t)st.st_size);
	return true;
}

static u8 pick(const u8 *from, size_t n, u64 *seed)
{
	return from[rj_random(seed) % n];
}

/* A random operand of call or jmp: often through rsp, and with the displacements where forms
 * change. */
static size_t made_up_operand(u8 *code, u64 *seed)
{
	static const u8 mods[] = {0, 1, 1, 2, 2, 3};
	static const u8 disp8[] = {0, 8, 0x70, 0x77, 0x78, 0x7f, 0x80, 0xe8, 0xf0, 0xf1, 0xf8, 0xff};
	static const s32 disp32[] = {0, 8, 0x78, 0x1000, -0x80, -0x1000, -16, -24, 0x7ffffff7, 0x7ffffff8};
	u8 mod = pick(mods, sizeof(mods), seed), reg = rj_random(seed) & 1 ? 2 : 4;
	u8 rm = rj_random(seed) & 1 ? 4 : rj_random(seed) & 7, sib = (u8)rj_random(seed);
	size_t n = 0;
	s32 disp = disp32[rj_random(seed) % DP_ARRAY_SIZE(disp32)];

	if (rj_random(seed) & 1)
		sib = (u8)((sib & 0xf8) | 4);
	code[n++] = 0xff;
	code[n++] = (u8)(mod << 6 | reg << 3 | rm);
	if (mod != 3 && rm == 4)
		code[n++] = sib;
	if (mod == 1)
		code[n++] = pick(disp8, sizeof(disp8), seed);
	if (mod == 2 || (mod == 0 && (rm == 5 || (rm == 4 && (sib & 7) == 5)))) {
		if (mod == 0) /* somewhere a page may be mapped */
			disp = (s32)(0x4000000 + (rj_random(seed) & 0xffffff8));
		memcpy(code + n, &disp, 4);
		n += 4;
	}
	return n;
}

static size_t made_up_branch(u8 *code, u64 *seed)
{
	static const u8 rel8[] = {0, 1, 5, 0x10, 0x40, 0x7f, 0x80, 0xc0, 0xe0};
	static const u8 near[] = {0xe8, 0xe9};
	s32 rel = (s32)(rj_random(seed) % 0x8000000) - 0x4000000;
	size_t n = 0;

	switch (rj_random(seed) % 8) {
	case 0:
		code[n++] = (u8)(0x70 | (rj_random(seed) & 15));
		code[n++] = pick(rel8, sizeof(rel8), seed);
		return n;
	case 1:
		code[n++] = (u8)(0xe0 | (rj_random(seed) & 3));
		code[n++] = pick(rel8, sizeof(rel8), seed);
		return n;
	case 2:
		code[n++] = 0xeb;
		code[n++] = pick(rel8, sizeof(rel8), seed);
		return n;
	case 3:
		code[n++] = 0x0f;
		code[n++] = (u8)(0x80 | (rj_random(seed) & 15));
		break;
	case 4:
		code[n++] = 0xc7;
		code[n++] = 0xf8;
		break;
	default:
		code[n++] = pick(near, sizeof(near), seed);
		break;
	}
	memcpy(code + n, &rel, 4);
	return n + 4;
}

static void add_forms(void)
{
	static const u8 prefixes[] = {0xf2, 0x3e, 0x2e, 0x64, 0x65, 0x67, 0x67, 0x66};
	u64 seed = 7;

	add_text((const u8 *)"\x0f\x05\x48\x0f\x05\xcd\x80", 7); /* system calls */
	for (int i = 0; i < FORMS; i++) {
		u8 code[24] = {0};
		struct dp_insn in;
		size_t n = 0;

		while (n < 4 && rj_random(&seed) % 3 == 0)
			code[n++] = pick(prefixes, sizeof(prefixes), &seed);
		if (rj_random(&seed) & 1)
			code[n++] = (u8)(0x40 | (rj_random(&seed) & 15));
		n += rj_random(&seed) % 4 ? made_up_operand(code + n, &seed) : made_up_branch(code + n, &seed);
		if (n <= DP_INSN_MAX && dp_insn_decode(&in, code, n) == (int)n)
			add_sample(&in, code, true);
	}
}

/* --- The workers --- */

static void work(struct shared *sh, unsigned int self, u32 first, u64 want)
{
	const char *reason, *seed = getenv("DP_SEED");

	if (!rj_init((seed ? strtoull(seed, NULL, 0) : 0) + self, &reason))
		_exit(98);
	while (sh->st.cases < want) {
		u64 before = sh->st.cases;

		for (u32 i = first; i < nsamples; i += WORKERS) {
			u8 code[DP_INSN_MAX + 1] = {0};

			sh->current = i;
			sh->progress++;
			memcpy(code, samples[i].code, samples[i].len);
			rj_judge(code, PER_ROUND, &sh->st);
		}
		first = self;
		if (sh->st.cases == before)
			break;
		if (sh->st.cases < want) /* counted anew in the next round */
			memset(sh->st.excluded, 0, sizeof(sh->st.excluded));
	}
	sh->done = true;
	_exit(0);
}

static void name_sample(const char *what, const struct sample *s, int status)
{
	printf("# %s (wait status %x) at", what, (unsigned int)status);
	for (int i = 0; i < s->len; i++)
		printf(" %02x", s->code[i]);
	printf("\n");
}

struct worker {
	pid_t pid;
	u64 seen;
	time_t since;
	unsigned int crashes;
};

static void start(struct worker *w, struct shared *sh, unsigned int self, u32 first)
{
	fflush(stdout);
	w->since = time(NULL);
	w->pid = fork();
	if (!w->pid)
		work(sh, self, first, CASES / WORKERS);
}

/* Watch until all are done; returns the number of crashes and hangs. */
static unsigned int supervise(struct worker *w, struct shared *sh)
{
	unsigned int running = WORKERS, crashes = 0;
	int status;

	while (running) {
		usleep(50000);
		for (unsigned int i = 0; i < WORKERS; i++) {
			if (!w[i].pid)
				continue;
			if (sh[i].progress != w[i].seen) {
				w[i].seen = sh[i].progress;
				w[i].since = time(NULL);
			} else if (time(NULL) - w[i].since > STALL) {
				kill(w[i].pid, SIGKILL);
			}
			if (waitpid(w[i].pid, &status, WNOHANG) != w[i].pid)
				continue;
			w[i].pid = 0;
			if (status || !sh[i].done) {
				name_sample("crash or hang", &samples[sh[i].current], status);
				crashes++;
				if (++w[i].crashes < 10) { /* on with the next instruction */
					start(&w[i], &sh[i], i, sh[i].current + WORKERS);
					continue;
				}
			}
			running--;
		}
	}
	return crashes;
}

/* --- The outcome --- */

static void sum_up(struct rj_stats *sum, const struct rj_stats *st)
{
	size_t counters = offsetof(struct rj_stats, report) / sizeof(u64);

	for (size_t i = 0; i < counters; i++)
		((u64 *)sum)[i] += ((const u64 *)st)[i];
	if (st->report[0] && !sum->report[0])
		memcpy(sum->report, st->report, sizeof(sum->report));
}

static void print_counts(const struct rj_stats *st)
{
	printf("# originals: %llu fell through, %llu branched, %llu single-stepped\n", (unsigned long long)st->fell,
	       (unsigned long long)st->branched, (unsigned long long)st->stepped);
	for (unsigned int i = 0; i < 32; i++)
		if (st->faults[i])
			printf("# originals: %llu ended in exception %u\n", (unsigned long long)st->faults[i], i);
	for (unsigned int i = 0; i < RJ_NKINDS; i++)
		printf("# form: %s %llu\n", rj_kind_name(i), (unsigned long long)st->kinds[i]);
	for (unsigned int i = 1; i < RJ_NEXCLUSIONS; i++)
		printf("# not run: %llu instructions: %s\n", (unsigned long long)st->excluded[i], rj_exclusion_name(i));
	printf("# rightly out of reach: %llu; calls to non-canonical addresses: %llu\n",
	       (unsigned long long)st->out_of_reach, (unsigned long long)st->pushed_faults);
	for (const char *s = st->report, *e; *s; s = e + (*e == '\n')) {
		e = strchrnul(s, '\n');
		printf("# %.*s\n", (int)(e - s), s);
	}
}

static void skip_all(const char *reason)
{
	printf("ok 1 - relocated instructions run alike # SKIP %s\n1..1\n", reason);
	exit(0);
}

/* In a child: the judge claims addresses and signals for good. */
static void check_machine(void)
{
	const char *reason;
	pid_t pid;
	int status = 1;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(rj_init(1, &reason) ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		skip_all("no fsgsbase or xsave here, or the addresses are in use");
}

int main(void)
{
	size_t size = SLOTS * sizeof(u64);
	struct rj_stats sum = {0};
	struct worker w[WORKERS] = {0};
	struct shared *sh;
	char a[32], b[32], c[32];
	unsigned int crashes, missing = 0;
	bool all_kinds = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	check_machine();
	keys = calloc(1, size);
	shapes = calloc(1, size);
	samples = calloc(MAX_SAMPLES, sizeof(*samples));
	sh = mmap(NULL, sizeof(*sh) * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!keys || !shapes || !samples || sh == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < DP_ARRAY_SIZE(files); i++)
		missing += !add_file(files[i]);
	printf("# %u instructions of %zu binaries (%u missing)\n", nsamples, DP_ARRAY_SIZE(files), missing);
	add_forms();
	for (unsigned int i = 0; i < WORKERS; i++)
		start(&w[i], &sh[i], i, i);
	crashes = supervise(w, sh);
	for (unsigned int i = 0; i < WORKERS; i++)
		sum_up(&sum, &sh[i].st);
	print_counts(&sum);
	printf("# figure: relocator %s cases, %s instructions, %s distinct instruction shapes, "
	       "%llu mismatches\n",
	       grouped(sum.cases, a), grouped(nsamples, b), grouped(nshapes, c), (unsigned long long)sum.mismatches);
	for (unsigned int i = 0; i < RJ_NKINDS; i++)
		all_kinds &= sum.kinds[i] > 0;
	result(!sum.mismatches, "a copy does what the original does");
	result(!crashes, "no copy and no original takes the process down");
	result(sum.cases >= CASES && nshapes > 1000, "enough cases of enough variety");
	result(all_kinds, "every form of relocation has been run");
	result(!sum.unrepeatable, "every original that was run repeats itself");
	printf("1..%u\n", tests);
	return failed;
}
