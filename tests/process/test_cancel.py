# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Threads that are cancelled in a system call while its calls are traced, and while probes come and go: with musl, and
with the C library of the machine. Since 2.41 glibc cancels as musl does, by where the thread is interrupted."""
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

# For each line that comes in, some threads that wait in read() are cancelled; with an argument, without a pause, until
# standard input ends. "stuck": one has not ended within twenty seconds.
SOURCE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static int fds[2];
static void *wait_in_read(void *arg) { char c; return (void *)read(fds[0], &c, 1); }
static int cancel_one(int pause)
{
	pthread_t t;
	struct timespec end;

	pthread_create(&t, NULL, wait_in_read, NULL);
	if (pause)
		usleep(2000);
	else
		for (volatile int i = 0; i < 30000; i++)
			;
	pthread_cancel(t);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 20;
	return pthread_timedjoin_np(t, NULL, &end);
}
int main(int argc, char **argv)
{
	char line[100];
	long n = 0;

	if (pipe(fds))
		return 1;
	if (argc > 1)
		fcntl(0, F_SETFL, O_NONBLOCK);
	while (argc > 1 ? read(0, line, 1) < 0 : !!fgets(line, sizeof(line), stdin)) {
		n++;
		if (cancel_one(argc == 1)) {
			puts("stuck");
			return 3;
		}
		if (argc == 1) {
			puts("ended");
			fflush(stdout);
		}
	}
	printf("%ld\n", n);
	return 0;
}
"""
FOLDER = tempfile.TemporaryDirectory(prefix="dp-cancel-")
LIBC = {"musl": ("musl-gcc", "-static"), "libc": ("gcc", "-pthread")}


def started(libc, *args):
    compiler, flag = LIBC[libc]
    path = compiled(FOLDER.name, libc, SOURCE, "-D_GNU_SOURCE", "-O1", "-w", flag, compiler=compiler)
    return start([path, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def while_traced(libc, *lines):
    """
    Twenty threads are cancelled one after the other; what the trace shows. The line that is waited for when the probes
    come may be read unseen.
    """
    p = started(libc)
    t = trace_start("-p", p.pid, *lines)
    wait_for(lambda: our_mappings(p.pid) and in_place(p.pid) or t.poll() is not None, what="the probes")
    cancel_threads(p)
    stop(t, signal.SIGINT)
    p.stdin.close()
    assert p.wait(60) == 0
    return text_of(t.out_path)


def while_coming(libc, rounds):
    """Threads are made and cancelled all the time while probes are put in and taken out."""
    p = started(libc, "fast")
    for _ in range(rounds):
        dprobes("trace", "-q", "--duration", "0.05", "-p", p.pid, "s *", check=0)
        assert p.poll() is None, "ended with status %s" % p.returncode
    out = p.communicate("", timeout=60)[0]
    assert p.returncode == 0 and int(out) > 10, (p.returncode, out)


@test
def musl_traced():
    """musl: threads that wait in read() are cancelled while all calls are traced, and these are shown"""
    out = while_traced("musl", "s *")
    assert len(re.findall(r"call=read .*ret=1\b", out)) >= 19, out[-2000:]
    assert "call=exit" in out and not re.search("call=exit.* ret=", out), out[-2000:]


@test
def musl_values():
    """musl: numbers, arguments and conditions are right in front of the function that makes the calls, and behind it"""
    began = time.monotonic()
    out = while_traced("musl", "s:sleeps nanosleep $duration $nr $call", "s:none read if $fd == 77",
                       "s:reads read $fd $count $ret if $count == 1024")
    passed = (time.monotonic() - began) * 1e9
    slept = [int(t) for t in re.findall(r"sleeps: .*duration=(\d+) nr=35 call=nanosleep$", out, re.M)]
    assert len(slept) >= 19 and all(1900000 < t < passed for t in slept) and sum(slept) < passed, (passed, out)
    assert len(re.findall(r"reads: .*fd=0 count=1024 ret=1$", out, re.M)) >= 19 and "none:" not in out, out


@test
def musl_coming():
    """musl: threads are made and cancelled while probes come and go"""
    while_coming("musl", 6)


@test
def libc_traced():
    """the C library: threads that wait in read() are cancelled while all calls are traced"""
    out = while_traced("libc", "s *")
    assert len(re.findall(r"call=read .*ret=1\b", out)) >= 19, out[-2000:]


@test
def libc_coming():
    """the C library: threads are made and cancelled while probes come and go"""
    while_coming("libc", 3)


run()
