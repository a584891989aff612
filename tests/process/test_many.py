#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Many processes at a time: what they cost the driver, how they are taken over, and how they are shown together."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-many-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
LIBRARY = "__attribute__((noinline)) long shared_work(long n) { return n * 3 + 1; }\n"
# One that waits for a line, calls, and has a child that has inherited the probes and does the same.
WAITS = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
long shared_work(long n);
int main(int argc, char **argv)
{
	char line[16];
	int has_child = argc > 1 && *argv[1] == 'f';
	while (fgets(line, sizeof(line), stdin)) {
		if (*line == 'f' && has_child && !fork()) {
			puts("child");
			fflush(stdout);
			pause();
		}
		if (*line == 'c')
			shared_work(1);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""
# Each generation calls, forks, and becomes the next one: by its main thread, or by another.
CHAIN = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
long shared_work(long n);
static char **next;
static void *become(void *arg)
{
	execv(next[0], next);
	_exit(9);
}
int main(int argc, char **argv)
{
	int left = atoi(argv[1]);
	char text[16], *args[] = {argv[0], text, NULL};
	pthread_t thread;
	pid_t child;
	for (int i = 0; i < 5; i++)
		shared_work(100 * left + i);
	if (!left)
		return 0;
	snprintf(text, sizeof(text), "%d", left - 1);
	next = args;
	if (left % 2) {
		pthread_create(&thread, NULL, become, NULL);
		pthread_join(thread, NULL);
	}
	child = fork();
	if (!child) {
		shared_work(100 * left + 50);
		become(NULL);
	}
	waitpid(child, NULL, 0);
	shared_work(100 * left + 60);
	return 0;
}
"""
GENERATIONS = 4
CALLS = sorted([100 * left + i for left in range(GENERATIONS + 1) for i in range(5)] +
               [100 * left + i for left in range(2, GENERATIONS + 1, 2) for i in (50, 60)])


def library():
    return compiled(DIR, "libdpmany.so", LIBRARY, "-O1", "-shared", "-fPIC")


def linked(name, source):
    need("gcc")
    path = os.path.join(DIR, name)
    if not os.path.exists(path):
        with open(path + ".c", "w") as f:
            f.write(source)
        subprocess.run(["gcc", "-O1", "-w", "-pthread", "-o", path, path + ".c", library(), "-Wl,-rpath," + DIR],
                       check=True)
    return path


def waiting(*args):
    return start([linked("waits", WAITS), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(p, what, lines=1):
    p.stdin.write(what + "\n")
    p.stdin.flush()
    return [p.stdout.readline().strip() for _ in range(lines)]


def end_of(processes):
    for p in processes:
        p.stdin.close()
    return [p.wait(60) for p in processes]


def insert():
    path = os.path.join(DIR, "many.rpn")
    with open(path, "w") as f:
        f.write("name = %s\nvars = 1\noffset = shared_work\ninc lv, 0; abort\n" % library())
    dprobes("insert", path, check=0)


def hits():
    return int(re.search(r"probe 0: .*hits (\d+):", dprobes("query", check=0).stdout).group(1))


def root():
    if os.geteuid() != 0:
        raise Skip("programs are held at their start by root only")


@alone
def driver_of_many():
    """a driver of many processes has a descriptor for each of them, not one for each file that each maps"""
    n = 60
    v = [waiting() for _ in range(n)]
    # One descriptor serves all processes that map a file, if that has not just been changed.
    wait_for(lambda: time.time() - os.stat(linked("waits", WAITS)).st_ctime > 0.2, what="files at rest")
    insert()
    assert [ask(p, "c") for p in v] == [["done"]] * n and hits() == n
    pid, = drivers()
    files = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid)]
    assert len(files) < n + 40, sorted(files)
    assert len([f for f in files if "waits" in f]) == 1, sorted(files)
    assert end_of(v) == [0] * n


@alone
def taken_over():
    """many are taken over from a driver that was killed: none loses its probes, and no child of theirs, or a hit"""
    n = 30
    v = [waiting("f") for _ in range(n)]
    insert()
    assert [ask(p, "f", 2) for p in v[:3]] and hits() == 0
    parents = {p.pid: our_mappings(p.pid) for p in v}
    os.kill(drivers()[0], 9)
    wait_for(lambda: not drivers(), what="the driver's death")
    for p in v:
        ask(p, "c")
    assert hits() == n  # it asks a new driver
    assert {p.pid: our_mappings(p.pid) for p in v} == parents
    for p in v:
        for child in children_of(p.pid):
            assert our_mappings(child)
            os.kill(child, 9)
        ask(p, "c")
    assert hits() == 2 * n
    assert end_of(v) == [0] * n


@test
def one_table():
    """tables of several processes whose key is $pid are one, and tables without it are not"""
    v = [waiting() for _ in range(3)]
    t = trace_start("-p", ",".join(str(p.pid) for p in v), "p libdpmany:shared_work count by $pid",
                    "p libdpmany:shared_work max($arg1)")
    wait_for(lambda: all(in_place(p.pid) for p in v), what="probes")
    for i, p in enumerate(v):
        for _ in range(i + 1):
            ask(p, "c")
    assert end_of(v) == [0, 0, 0] and t.wait(60) == 0, text_of(t.err_path)
    text = text_of(t.out_path)
    head, table = text.split("all processes, ")
    keys = [tuple(map(int, k)) for k in re.findall(r"^ +(\d+) +(\d+) \|", table, re.M)]
    assert keys == [(v[2].pid, 3), (v[1].pid, 2), (v[0].pid, 1)], text
    assert len(re.findall(r"^process \d+", head, re.M)) == 3 and "count" not in head, text


def check_chain(t):
    assert t.wait(60) == 0, text_of(t.err_path)
    events, told = json_lines(text_of(t.out_path)), text_of(t.err_path)
    calls = sorted(e["args"]["n"] for e in events)
    assert calls == CALLS or "without waiting for the probes" in told, (calls, told)
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events), events


@test
def generations():
    """--tree: what is forked, and what becomes another program by any thread, has the probes from its start; all
    records are in order of time"""
    root()
    chain = linked("chain", CHAIN)
    check_chain(trace_start("--json", "--tree", "p libdpmany:shared_work n=$arg1:s64", "--", chain, GENERATIONS))
    check_chain(trace_start("--json", "--tree", "p libdpmany:shared_work n=$arg1:s64 if $arg1 >= 0 && $pid > 1", "--",
                            chain, GENERATIONS))


@test
def short_lives():
    """the one table has processes that have ended, and many of them"""
    root()
    chain = linked("chain", CHAIN)
    t = trace_start("--tree", "p %s:shared_work count by $pid" % library(), "--", "sh", "-c",
                    "i=0; while [ $i -lt 40 ]; do %s 0; i=$((i + 1)); done" % chain)
    assert t.wait(120) == 0, text_of(t.err_path)
    keys = re.findall(r"^ +(\d+) +5 \|", text_of(t.out_path), re.M)
    assert len(set(keys)) == 40 or "without waiting for the probes" in text_of(t.err_path), text_of(t.out_path)


# It has one child, ends it when it is told to, and gives its id to whoever is born next.
FAMILY = r"""
import subprocess, sys
p = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE)
print(p.pid, flush=True)
sys.stdin.readline()
p.kill()
p.wait()
with open(sys.argv[1], "w") as f:
    f.write(str(p.pid - 1))
print("gone", flush=True)
sys.stdin.readline()
"""


def is_left_alone(*options):
    """Whether a process with the id of one of the tree is not probed; None: another one got the id."""
    family = start([sys.executable, "-c", FAMILY, LAST_PID, linked("waits", WAITS)], stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE, text=True)
    child = int(family.stdout.readline())
    t = trace_start("--tree", "-p", family.pid, *options, "p %s:shared_work" % library())
    wait_for(lambda: in_place(child) or t.poll() is not None, what="the probe")
    assert ask(family, "") == ["gone"]
    stranger = waiting()
    time.sleep(1)  # many looks at the tree
    alone = not in_place(stranger.pid) if stranger.pid == child else None
    assert stop(t, signal.SIGINT) == 0
    assert end_of([family, stranger]) == [0, 0]
    return alone


@test
def strangers():
    """--tree: a process that gets the id of one of the tree, which has ended, is none of it"""
    if not os.environ.get("DP_OWN_PIDS"):
        with_own_pids(__file__, "strangers")
        return
    for options in [], ["--format", "recording", "-o", os.path.join(DIR, "tree.rec")]:
        found = [is_left_alone(*options)]
        while found[-1] is None and len(found) < 10:
            found.append(is_left_alone(*options))
        assert found[-1], (options, found)


@test
def nobody():
    """--all FILE of lines that are compiled, or could be: that no process maps it is an error, which names the file"""
    for line in ("p libdpmany:shared_work", "p libdpmany:shared_work count"):
        r = dprobes("trace", "--all", library(), "--duration", "0.2", line, check=1)
        assert "E-SELECT-NONE" in r.stderr and library() in r.stderr, r.stderr


@test
def formats():
    """formats that describe all events at their start show processes that joined, at the end"""
    chain = linked("chain", CHAIN)
    for name, text in (("folded", "shared_work"), ("chrome", "\"shared_work"), ("speedscope", "shared_work"),
                       ("flame", "</svg>"), ("html", "</html>")):
        r = dprobes("trace", "--tree", "--format", name, "p libdpmany:shared_work n=%di", "r libdpmany:shared_work",
                    "--", chain, GENERATIONS, check=0)
        assert text in r.stdout, (name, r.stdout[-500:], r.stderr)
    r = dprobes("trace", "--tree", "--format", "ctf", "p libdpmany:shared_work", "--", chain, "0")
    assert r.returncode and "E-OUT-PLACE" in r.stderr, r.stderr
    out = os.path.join(DIR, "out.ctf")
    dprobes("trace", "--tree", "--format", "ctf", "-o", out, "p libdpmany:shared_work", "--", chain, "0", check=0)
    assert "metadata" in os.listdir(out), os.listdir(out)


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
