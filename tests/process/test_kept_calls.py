# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""
System calls of which only the hit knows which they are: code in front of the instruction keeps the number, in one of a
few places of the thread. Calls of signal handlers, of children, and of threads that never come back from one must not
be taken for others.
"""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-kept-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
ROUNDS, THREADS = 40, 3
os.umask(0o22)
SOURCE = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static __thread sigjmp_buf env;
static __thread volatile int depth;
static sigset_t none;
/* The signals come while the call waits, and before it returns. */
static long wait_for_signals(void)
{
	return syscall(SYS_ppoll, NULL, 0, NULL, &none, 8);
}
static void send(int sig)
{
	syscall(SYS_tgkill, getpid(), gettid(), sig);
}
static void nested(int sig)
{
	syscall(SYS_getuid);
	if (++depth < 3) {
		send(SIGUSR1);
		wait_for_signals();
		syscall(SYS_geteuid);
	}
	depth--;
}
static void leaves(int sig)
{
	syscall(SYS_getgid);
	siglongjmp(env, 1);
}
static void reads(int sig)
{
	syscall(SYS_getegid);
}
/* At another depth of the stack each time. */
static __attribute__((noinline)) void calls(int i)
{
	volatile char *room = alloca(16 * (i % 16) + 16);

	room[0] = 1;
	syscall(SYS_getppid);
	send(SIGUSR1);
	wait_for_signals();
	if (!sigsetjmp(env, 0)) {
		send(SIGUSR2);
		wait_for_signals();
	}
	pthread_sigmask(SIG_BLOCK, &(sigset_t){{1ul << (SIGUSR1 - 1) | 1ul << (SIGUSR2 - 1)}}, NULL);
	syscall(SYS_umask, 022);
	syscall(511);
	syscall(512);
	syscall(0x100000000 | SYS_getpgrp);
	syscall(SYS_close, -1);
}
static void *thread(void *arg)
{
	static __thread char other[65536];
	stack_t alternate = {.ss_sp = other, .ss_size = sizeof(other)};

	if (arg)
		sigaltstack(&alternate, NULL);
	for (int i = 0; i < ROUNDS; i++)
		calls(i);
	return NULL;
}
static char state_of(pid_t pid)
{
	char path[64], text[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	fgets(text, sizeof(text), f);
	fclose(f);
	return strrchr(text, ')')[2];
}
/* A call that a signal interrupts goes on: it is one call. */
static void interrupted(void)
{
	int fd[2];
	char c;

	pipe(fd);
	if (!syscall(SYS_fork)) {
		for (int i = 0; i < 3; i++) {
			while (state_of(getppid()) != 'S')
				usleep(1000);
			kill(getppid(), SIGHUP);
		}
		while (state_of(getppid()) != 'S')
			usleep(1000);
		write(fd[1], "x", 1);
		syscall(SYS_getsid, 0);
		_exit(0);
	}
	syscall(SYS_pread64, -1, &c, 1, 0);
	syscall(SYS_read, fd[0], &c, 1);
	wait(NULL);
}
int main(int argc, char **argv)
{
	struct sigaction nests = {.sa_handler = nested, .sa_flags = SA_ONSTACK};
	struct sigaction goes = {.sa_handler = leaves}, again = {.sa_handler = reads, .sa_flags = SA_RESTART};
	pthread_t t[THREADS];
	unsigned long fs;

	sigaction(SIGUSR1, &nests, NULL);
	sigaction(SIGUSR2, &goes, NULL);
	sigaction(SIGHUP, &again, NULL);
	pthread_sigmask(SIG_BLOCK, &(sigset_t){{1ul << (SIGUSR1 - 1) | 1ul << (SIGUSR2 - 1)}}, NULL);
	syscall(SYS_arch_prctl, 0x1003, &fs);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, thread, i % 2 ? "" : NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	interrupted();
	return 0;
}
"""
ALL = ROUNDS * THREADS
# [call, what it gave]: how often
WANT = {("getuid", "0"): 3 * ALL, ("geteuid", "0"): 2 * ALL, ("getgid", "0"): ALL, ("ppoll", "EINTR"): 3 * ALL,
        ("umask", "18"): ALL, ("511", "ENOSYS"): ALL, ("512", "ENOSYS"): ALL, ("close", "EBADF"): ALL,
        ("pread64", "EBADF"): 1, ("getegid", "0"): 3, ("arch_prctl", "0"): 1}
OTHERS = {("close", "0")}  # by the C library
NAMES = "getuid geteuid getgid getegid ppoll umask 511 512 close pread64 arch_prctl getppid getpgrp getsid".split()


def program():
    return compiled(DIR, "kept", SOURCE, "-O2", "-w", "-pthread", "-DROUNDS=%d" % ROUNDS, "-DTHREADS=%d" % THREADS)


def records(*lines, options=(), **env):
    if os.getuid():
        raise Skip("the ids that are expected are root's")
    out = os.path.join(DIR, "out")
    r = dprobes("trace", "-q", "--json", "-o", out, *options, *lines, "--", program(), timeout=170,
                env=dict(os.environ, **env))
    assert r.returncode == 0, r.stderr
    return [json.loads(s) for s in open(out).read().splitlines()], r


def counted(events):
    found = {}
    for a in (e["args"] for e in events):
        if "ret" in a or "error" in a:
            key = (str(a["call"]), str(a.get("error", a.get("ret"))))
            if key[0] in ("getppid", "getpgrp", "getsid"):
                key = (key[0], "an id")
            if key[0] in NAMES and key not in OTHERS:
                found[key] = found.get(key, 0) + 1
    return found


def expected(found):
    want = dict(WANT)
    # The child asks for its parent as often as it has to.
    want["getppid", "an id"] = max(ALL, found.get(("getppid", "an id"), 0))
    want["getpgrp", "an id"] = ALL
    want["getsid", "an id"] = 1
    return want


def missing(found, want):
    return {k: (found.get(k), want.get(k)) for k in set(found) | set(want) if found.get(k) != want.get(k)}


@test
def exact():
    """each call has its own name and result: handlers within calls, left calls, other stacks, threads, children"""
    for options in ((), ("--interpret",)):
        events, r = records("s *", options=options)
        found = counted(events)
        assert not missing(found, expected(found)), (options, missing(found, expected(found)), r.stderr)


@test
def shared_rings():
    """the same without restartable sequences"""
    events, r = records("s *", GLIBC_TUNABLES="glibc.pthread.rseq=0")
    found = counted(events)
    assert not missing(found, expected(found)), (missing(found, expected(found)), r.stderr)
    events, r = records("s umask", "s * count by $call", GLIBC_TUNABLES="glibc.pthread.rseq=0")
    assert len(events) == ALL, (len(events), r.stderr)
    counts = {e["key"][0]: e["value"] for t in map(json.loads, re.findall('{.*"entries".*', r.stdout))
              for e in t.get("entries", ()) if e.get("key")}
    assert counts.get("umask") == ALL and counts.get("ppoll") == 3 * ALL, (counts, r.stdout)


@test
def interrupted_is_one():
    """a read that signals interrupt and that goes on is one call, with its number"""
    events, r = records("s read if $count == 1 && $ret == 1")
    assert len([e for e in events if e["args"]["ret"] == 1]) == 1, (events, r.stderr)


@test
def filtered():
    """calls that no line means are passed by; a line for one of them, one that measures time and one of all agree"""
    events, r = records("s umask", "s umask count", "s umask hist($duration)", "s * count by $call",
                        "s close if $fd == -1")
    masks = [e["args"]["ret"] for e in events if "mask" in e["args"]]
    assert masks.count(18) == ALL and len(masks) == ALL, (masks, r.stderr)
    assert len(events) - len(masks) == ALL, (len(events), r.stderr)
    tables = [t for t in map(json.loads, re.findall("{.*libc[.].*", r.stdout)) if t.get("entries") or "value" in t]
    assert any(t["aggregate"] == "umask" and t["value"] == ALL for t in tables if t["kind"] == "count"), r.stdout
    counts = {e["key"][0]: e["value"] for t in tables if t.get("entries") for e in t["entries"] if e.get("key")}
    assert counts.get("umask") == ALL and counts.get("ppoll") == 3 * ALL, (counts, r.stdout)


run()
