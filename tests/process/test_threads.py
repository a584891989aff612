# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Variables that each thread has: kept apart from each other's, given on when threads end, counted when there is no
room."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-threads-")

# ARGV: rounds, threads in each, milliseconds between rounds, "fork": the rounds are of a child, too. Each thread calls
# step(n) for n = k, k + 1, ... k + 29, k its number in all, and then step(-1): what it has added up is the result.
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) long step(long n, long *sum)
{
	*sum += n;
	asm volatile("" : "+r"(n)::"memory");
	return n;
}
static long number;
static void *go(void *arg)
{
	long k = __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED), sum = 0;
	for (long i = 0; i < 30; i++) {
		step(k + i, &sum);
		if (i % 10 == 5)
			usleep(200);
	}
	step(-1, &sum);
	return NULL;
}
static void rounds(int n, int threads, int ms)
{
	for (int r = 0; r < n; r++) {
		pthread_t t[256];
		for (int i = 0; i < threads; i++)
			pthread_create(&t[i], NULL, go, NULL);
		for (int i = 0; i < threads; i++)
			pthread_join(t[i], NULL);
		usleep(ms * 1000);
	}
}
int main(int argc, char **argv)
{
	int n = atoi(argv[1]), threads = atoi(argv[2]), ms = atoi(argv[3]);
	if (argc > 4 && !fork()) {
		number = 1000;
		rounds(n, threads, ms);
		_exit(0);
	}
	rounds(n, threads, ms);
	while (wait(NULL) > 0)
		;
	return 0;
}
"""
BODY = "p step { if ($n >= 0) { mine += $n; calls++; } else log(mine, calls, *$sum); }"


def program():
    return compiled(DIR, "steps", SOURCE, "-O2", "-g", "-w", "-pthread")


def run_(lines, how, status=0, before=()):
    r = subprocess.run([*before, DPROBES, "trace", "--json", *lines, "--", program(), *map(str, how)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=60)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return [json.loads(s) for s in r.stdout.splitlines() if s.startswith("{")], r.stderr


def check(got, threads):
    """Each thread's own sums are those of the program itself."""
    ends = [e["args"] for e in got if e.get("event") == "step"]
    assert len(ends) == threads, (len(ends), threads)
    for e in ends:
        assert e["calls"] == 30 and e["mine"] == e["*$sum"], e


@test
def apart():
    """threads that run at the same time have variables of their own, in a forked child, too"""
    declared = "begin { thread long mine; thread calls; }"
    check(run_([declared, BODY], [2, 40, 1])[0], 80)
    check(run_([declared, BODY], [2, 30, 1, "fork"])[0], 120)


@test
def given_on():
    """a thread that has ended leaves its places: later ones begin at 0, and more than there are places have room"""
    got, err = run_(["begin { thread long mine; thread calls; THREADS(100); }", BODY], [30, 8, 60])
    assert "no room" not in err, err
    check(got, 240)


@test
def no_room():
    """hits of threads for which there is no room are left out and counted, with none of them computed"""
    got, err = run_(["begin { thread long mine; thread calls; THREADS(5); }", BODY, "p step count"], [1, 20, 0])
    ends = [e["args"] for e in got if e.get("event") == "step"]
    lost = int(re.search(r"(\d+) hits of threads for which there was no room", err).group(1))
    assert 0 < len(ends) <= 5 and all(e["calls"] == 30 and e["mine"] == e["*$sum"] for e in ends), ends
    assert lost == 20 * 31 - len(ends) * 31, (lost, len(ends))


@test
def namespaces():
    """in a pid namespace, whose ids are not ours: threads that live keep theirs, those that have ended leave theirs"""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("no pid namespaces")
    inner, go = os.path.join(DIR, "inner"), os.path.join(DIR, "go")
    with open(inner, "w") as f:
        f.write('#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.05; done\nexec "$@"\n' % go)
    os.chmod(inner, 0o755)
    p = start(["unshare", "--pid", "--fork", inner, program(), "30", "8", "60"])
    t = trace_start("--json", "--all", program(), "begin { thread long mine; thread calls; THREADS(100); }", BODY,
                    env={**os.environ, "DPROBES_MESSAGES": "json"})
    wait_for(lambda: '"ready"' in text_of(t.err_path) or t.poll() is not None, what="the trace")
    with open(go, "w"):
        pass
    assert p.wait(60) == 0
    time.sleep(0.3)
    stop(t, signal.SIGINT)
    got = [json.loads(s) for s in text_of(t.out_path).splitlines() if s.startswith("{")]
    assert "no room" not in text_of(t.err_path), text_of(t.err_path)
    check(got, 240)


@test
def types():
    """pointers, small integers and all operators, as for other variables"""
    got, _ = run_(["begin { thread unsigned char small; thread long *at; thread int minus; }",
                   "p step { small += 100; at = (long *)$sum; minus -= 2; minus++; if ($n < 0) "
                   "log(small, minus, *at == *$sum, small++, --minus, small, minus); }"], [1, 3, 0])
    for e in [e["args"] for e in got if e.get("event") == "step"]:
        assert [e["small"], e["minus"], e["*at == *$sum"]] == \
            [(31 * 100 + 1) % 256, -32, 1], e
    assert len(got) == 3, got


@test
def typical():
    """the time between two places of one thread, by a variable: as many as there are calls, and none without both"""
    got, _ = run_(["begin { thread long t0; }", "p step { t0 = timestamp(); }",
                   "r step { if (t0) { hist(ns, timestamp() - t0); t0 = 0; } else count(without); }"], [3, 20, 0])
    hist = [t for t in got if t.get("aggregate") == "ns"][0]
    assert sum(b["count"] for b in hist["bars"]) == 60 * 31, hist
    assert [t["value"] for t in got if t.get("aggregate") == "without"] == [0], got


@test
def kept_code():
    """a caller that was kept as a number is a pointer to code again: code(), in values, keys, and bodies of the end"""
    got, _ = run_(["begin { thread long who; last = 0; }", "p step { who = (long)caller(); last = who; }",
                   "r step { count(by, code(who)); }", "end { log(code(last)); }"], [1, 2, 0])
    table = [t for t in got if t.get("aggregate") == "by"][0]
    keys = {json.dumps(e["key"]): e["value"] for e in table["entries"]}
    assert sum(keys.values()) == 62 and all(re.search(r"go\+0x[0-9a-f]+", k) for k in keys), keys
    end = [e["args"] for e in got if e.get("event") == "end"]
    assert len(end) == 1, got


@test
def refusals():
    """what cannot be a variable of threads, and who has none"""
    for line, code, text in (("begin { thread long a[3]; }", "E-DPCC-TYPE", "an integer or a pointer"),
                             ("begin { thread long a = 3; }", "E-DPCC-TYPE", "starts at 0"),
                             ("p step { thread long a; }", "E-DPCC-TYPE", "outside of functions"),
                             ("p step { long *p = &mine; }", "E-DPCC-TYPE", "no address"),
                             ("i:1s { log(mine); }", "E-DPCC-BODY", "threads"),
                             ("end { mine = 3; }", "E-DPCC-BODY", "threads"),
                             ("end { print(mine); }", "E-DPCC-NAME", "is a variable")):
        err = run_(["begin { thread long mine; }", "p step { mine++; }", line], [1, 1, 0], status=1)[1]
        assert code in err and text in err, (line, err)


run()
