/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Control blocks changed at random, in processes that live: such as a killed dprobes has left, with its probes in force, and such as nobody
 * has armed. Every reader gets them: the list, a new session (which cleans up), adoption, the copy of rings, hooks. What happens to the process
 * is its own business; nothing may happen to us.
 * Usage: fuzz-control HOSTILE [SECONDS [SEED]]; 0 seconds = endless. Without HOSTILE, as a test, that of the build directory.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../unit/machine.h"
#include "host/process/process-hooks.h"
#include "host/process/record.h"
#include "../lib/add-line.h"

#define HANG 170 /* seconds: several of our own limits one after the other */

static u64 state, lives, real, refused, cleaned, listed, died;
static u64 codes[DP_NCODES];

static u32 below(u32 n)
{
	return (u32)(next_random(&state) % n);
}

/* ---- the process ---- */

static pid_t start(const char *program, const char *lie)
{
	int in[2], out[2];
	char ready[6];
	pid_t pid;

	if (pipe(in) || pipe(out))
		exit(1);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		execl(program, "hostile", lie, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	if (read(out[0], ready, sizeof(ready)) != sizeof(ready))
		pid = -1;
	/* Its input stays open until we close it: it ends with it. The other end of its output too. */
	fcntl(in[1], F_SETFD, FD_CLOEXEC);
	dup2(in[1], 100);
	dup2(out[0], 101);
	close(in[1]);
	close(out[0]);
	return pid;
}

static void stop(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	died += WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
	close(100);
	close(101);
}

/* A dprobes that arms its probes and is gone. */
static bool arm_and_die(pid_t pid)
{
	struct dp_session_options opt = {.ring_size = 65536};
	pid_t owner = fork();
	int status;

	if (!owner) {
		struct dp_session *s;
		struct dp_error err;

		if (dp_session_new(&s, pid, &opt, &err) || add_line(s, "p exe:work n=%di", &err) ||
		    add_line(s, "r exe:touch $retval", &err) || dp_session_arm(s, &err))
			_exit(1);
		_exit(0);
	}
	return waitpid(owner, &status, 0) == owner && !status;
}

/* ---- changes ---- */

static u64 value(u64 old, const struct dp_control *c)
{
	switch (below(9)) {
	case 0:
		return 0;
	case 1:
		return ~0ull;
	case 2:
		return old + below(64) - 32;
	case 3:
		return old ^ 1ull << below(64);
	case 4:
		return c->region_lo + next_random(&state) % (c->region_hi - c->region_lo + 1);
	case 5:
		return (u64)below(1u << 31) << 32 | (u32)old;
	case 6:
		return (old & ~0xffffffffull) | (u32)next_random(&state);
	case 7:
		return below(256);
	default:
		return next_random(&state);
	}
}

/* What a program may have written there: words of the block, of its tables, of the head of the code. */
static void change(const struct dp_mem *mem, u64 at)
{
	struct dp_control c;
	u64 size, word, where;

	if (dp_mem_read(mem, at, &c, sizeof(c), NULL) || c.region_hi <= c.region_lo)
		return;
	size = c.size > sizeof(c) && c.size < 1u << 20 ? c.size : sizeof(c);
	for (u32 n = 1 + below(6); n; n--) {
		where = at + 8 * below(sizeof(c) / 8);
		if (below(3) == 0)
			where = at + 8 * below((u32)(size / 8));
		if (below(12) == 0)
			where = c.region_lo + 8 * below(sizeof(struct dp_blob_head) / 8 + 1);
		if (where >= at && where < at + 24 && below(8)) /* that it is one at all */
			continue;
		if (!dp_mem_read(mem, where, &word, 8, NULL)) {
			word = value(word, &c);
			dp_mem_write(mem, where, &word, 8, NULL);
		}
	}
}

/* ---- those who read it ---- */

static void forget_record(pid_t pid)
{
	struct dp_knowns k = dp_records_of(pid);

	for (u32 i = 0; i < k.n; i++)
		dp_known_forget(&k.v[i]);
	dp_knowns_free(&k);
}

static void read_all(pid_t pid, u64 at)
{
	struct dp_session_options opt = {.ring_size = 65536, .adopt = below(3) == 0};
	struct dp_standing *v;
	struct dp_hook_info *hooks;
	struct dp_ring_map map;
	struct dp_session *s;
	struct dp_error err = {0};
	struct dp_knowns known;
	u64 *words;
	u32 n;

	listed += !dp_standing_read(pid, &v, &n, &err) && n;
	free(v);
	known = dp_records_of(pid);
	if (known.n && dp_rings_copy(pid, known.v[0].file.inode, below(4), below(64), &map, &words))
		munmap(map.at, map.size);
	dp_knowns_free(&known);
	err = (struct dp_error){0};
	if (dp_session_new(&s, pid, &opt, &err)) {
		refused++;
		codes[err.code]++;
		return;
	}
	if (!dp_hooks_read(dp_session_process(s), &hooks, &n, &err))
		dp_hooks_free(hooks, n);
	if (opt.adopt && !add_line(s, "p exe:work n=%di", NULL) && !add_line(s, "r exe:touch $retval", NULL))
		dp_session_adopt(s);
	else
		cleaned++;
	dp_session_free(s);
	(void)at;
}

static bool life(const char *program)
{
	static const char *const lies[] = {"",       "",       "",       "block",   "overlong",
					   "counts", "tables", "region", "service", "circle"};
	const char *lie = lies[below(DP_ARRAY_SIZE(lies))];
	pid_t pid = start(program, lie);
	u64 controls[DP_OWNERS_MAX], at;
	struct dp_mem mem;

	lives++;
	if (pid < 0)
		return false;
	alarm(HANG);
	if (!*lie)
		real += arm_and_die(pid);
	at = dp_find_controls(pid, controls) ? controls[0] : 0;
	if (at && !dp_mem_open(&mem, pid, NULL)) {
		if (below(4))
			forget_record(pid);
		change(&mem, at);
		dp_mem_close(&mem);
	}
	read_all(pid, at);
	forget_record(pid);
	alarm(0);
	stop(pid);
	return true;
}

int main(int argc, char **argv)
{
#ifdef DP_SHORT_RUN
	long seconds = 5;
#else
	long seconds = argc > 2 ? atol(argv[2]) : 10;
#endif
	time_t end = time(NULL) + seconds;
	const char *build = getenv("DP_BUILD");
	char program[4096];
	u32 kinds = 0;

	snprintf(program, sizeof(program), "%s/tests/hostile/hostile", build ? build : "build");
	if (argc > 1)
		snprintf(program, sizeof(program), "%s", argv[1]);
	state = argc > 3 ? strtoull(argv[3], NULL, 0) | 1 : (u64)time(NULL) * 0x9e3779b97f4a7c15ull | 1;
	printf("# seed 0x%llx\n", (unsigned long long)state);
	fflush(stdout);
	while (!seconds || time(NULL) < end)
		if (!life(program)) {
			printf("Bail out! %s does not start\n", program);
			return 1;
		}
	for (u32 i = 0; i < DP_NCODES; i++)
		kinds += codes[i] != 0;
	printf(
	    "# %llu processes, %llu of them armed; %llu lists, %llu refused with %u codes, %llu cleaned up, %llu died of it\n",
	    (unsigned long long)lives, (unsigned long long)real, (unsigned long long)listed,
	    (unsigned long long)refused, kinds, (unsigned long long)cleaned, (unsigned long long)died);
	ok(true, "control blocks with any content: refused or cleaned up, and nothing happens to us");
	ok(lives > 3, "there were some");
	return done();
}
