# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""$exe and $cgroup: texts that are known of the process that was hit, in values, keys, conditions and bodies."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-exe-")
LIBRARY = r"""
__attribute__((noinline)) long work(long n)
{
	n *= 3;
	asm volatile("" : "+r"(n)::"memory");
	return n + 7;
}
"""
# ARGV: how often, then "fork": a child does the same, and programs to go on with, one after the other.
MAIN = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
long work(long n);
int main(int argc, char **argv)
{
	int n = atoi(argv[1]), at = 2, child = 0;

	if (getenv("DELAY")) /* where programs cannot be held at their start */
		usleep(500000);
	if (argc > at && !strcmp(argv[at], "fork")) {
		child = !fork();
		at++;
	}
	for (int i = 0; i < n; i++) {
		work(i);
		if (getenv("SLOWLY"))
			usleep(1000);
	}
	if (child)
		_exit(0);
	while (wait(NULL) > 0)
		;
	if (argc > at) {
		char *next = argv[at];
		argv[at] = argv[1]; /* NEXT N REST */
		argv[at - 1] = next;
		if (getenv("NOFORK") || !fork())
			execv(next, argv + at - 1);
		while (wait(NULL) > 0)
			;
	}
	return 0;
}
"""


def programs():
    """The library, and two programs that use it: one of a long path."""
    need("gcc")
    deep = os.path.join(DIR, *["a-directory-with-a-long-name-%d" % i for i in range(10)])
    lib, one, two = os.path.join(DIR, "libwork.so"), os.path.join(DIR, "one"), os.path.join(deep, "two")
    if not os.path.exists(two):
        os.makedirs(deep)
        for name, text in (("lib.c", LIBRARY), ("main.c", MAIN)):
            with open(os.path.join(DIR, name), "w") as f:
                f.write(text)
        gcc = ["gcc", "-O2", "-g", "-w"]
        subprocess.run([*gcc, "-fPIC", "-shared", "-o", lib, os.path.join(DIR, "lib.c")], check=True)
        subprocess.run([*gcc, "-o", one, os.path.join(DIR, "main.c"), lib], check=True)
        shutil.copy(one, two)
    return lib, one, two


def run_(lines, command, status=0):
    r = subprocess.run([DPROBES, "trace", "--json", *lines, "--", *command], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=60)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return [json.loads(s) for s in r.stdout.splitlines() if s.startswith("{")], r.stderr


def cut(path, room):
    return path if len(path) <= room else "..." + path[-(room - 3):]


@test
def values():
    """a field, a key, all comparisons, a text that is printed, a body of the end; a forked child has its parent's"""
    lib, one, two = programs()
    got, _ = run_(["p %s:work $exe" % lib], [one, "3", "fork"])
    assert [e["args"] for e in got if e.get("event") == "work"] == [{"exe": one}] * 6, got
    got, _ = run_(["p %s:work $exe" % lib], [two, "1"])
    assert [e["args"] for e in got if e.get("event") == "work"] == [{"exe": cut(two, 255)}], got
    for condition, counted in (("$exe == \"%s\"" % one, 5), ("$exe != \"%s\"" % one, 0), ("$exe ~ \"*/one\"", 5),
                               ("$exe ~ \"*/two\"", 0), ("!($exe ~ \"*/t[a-z]o\")", 5), ("$exe == \"one\"", 0),
                               ("$exe != \"one\" && $exe ~ \"/*\"", 5)):
        got, _ = run_(["p %s:work count if %s" % (lib, condition)], [one, "5"])
        assert sum(t["value"] for t in got if "aggregate" in t) == counted, (condition, got)
    got, _ = run_(["p %s:work { printf(\"%%s|%%s\", $exe, $comm); }" % lib, "end { log($exe, $exe ~ \"*one\"); }"],
                  [one, "2"])
    assert [e["args"]["text"] for e in got if e.get("event") == "work"] == [one + "|one"] * 2, got
    assert [list(e["args"].values()) for e in got if e.get("event") == "end"] == [[one, 1]], got


def by_exe(got):
    found = {}
    for t in got:
        for e in t.get("entries", ()):
            key = e["key"][0] if isinstance(e["key"], list) else e["key"]
            found[key] = found.get(key, 0) + e["value"]
    return found


@test
def several():
    """programs that are begun by fork and exec, and all that map a file: each hit is its own program's"""
    lib, one, two = programs()
    line = "p %s:work count by $exe" % lib
    got, _ = run_([line], ["env", "DELAY=1", "NOFORK=1", one, "4", two])  # the same process runs one after the other
    assert by_exe(got) == {cut(one, 63): 4, cut(two, 63): 4}, got
    t = trace_start("--json", "--all", lib, line, "p %s:work hits=count if $exe ~ \"*/two\"" % lib)
    wait_for(lambda: "process" in text_of(t.err_path) or t.poll() is None, what="the trace")
    time.sleep(1)
    for command in ([one, "3", "fork"], [two, "5"], [one, "2", two, one]):
        subprocess.run(["env", "DELAY=1", *command], check=True, timeout=60)
    time.sleep(0.5)
    stop(t, signal.SIGINT)
    got = [json.loads(s) for s in text_of(t.out_path).splitlines() if s.startswith("{")]
    seen = by_exe([g for g in got if g.get("aggregate") == "work"])
    assert seen == {cut(one, 63): 10, cut(two, 63): 7}, (seen, text_of(t.err_path))
    assert sum(g["value"] for g in got if g.get("aggregate") == "hits") == 7, got


def group_of(pid):
    """As the documentation has it: of version 2, else systemd's."""
    lines = text_of("/proc/%s/cgroup" % pid).splitlines()
    best = [s for s in lines if s.startswith("0::")] + [s for s in lines if ":name=systemd:" in s] + lines
    return best[0].split(":", 2)[2] if best else ""


def new_group(name):
    """A directory beside nothing else, below where this test runs; its path as processes show it."""
    own = group_of("self")
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        path = os.path.join(mount, own.lstrip("/"), name)
        if os.path.exists(os.path.join(mount, "cgroup.procs")):
            try:
                os.mkdir(path)
                return path, os.path.join(own, name)
            except OSError:
                break
    raise Skip("no control group of version 2 can be made here")


def move(pid, path):
    with open(os.path.join(path, "cgroup.procs"), "w") as f:
        f.write(str(pid))


@test
def groups():
    """$cgroup as a field, a key, in conditions and a text that is printed"""
    lib, one, _ = programs()
    own = group_of("self")
    if not own:
        raise Skip("this system has no control groups")
    got, _ = run_(["p %s:work $cgroup" % lib, "p %s:work { printf(\"%%s\", $cgroup); }" % lib,
                   "p %s:work a=count by $cgroup" % lib, "p %s:work b=count if $cgroup == \"%s\"" % (lib, own),
                   "p %s:work c=count if $cgroup ~ \"*no-such\"" % lib, "end { log($cgroup); }"], [one, "3"])
    shown = [list(e["args"].values())[0] for e in got if "args" in e]
    assert shown == [own] * 7, got
    tables = {t["aggregate"]: t for t in got if "aggregate" in t}
    assert [e["value"] for e in tables["a"]["entries"]] == [3] and tables["b"]["value"] == 3, tables
    assert not tables.get("c", {}).get("value"), tables


@test
def moved():
    """a process that is moved shows its new group"""
    lib, one, _ = programs()
    path, shown = new_group("dp-test-%d" % os.getpid())
    p = start(["env", "SLOWLY=1", one, "1000000000"])
    try:
        t = trace_start("--json", "-p", str(p.pid), "p %s:work hits=count by $cgroup" % lib, "begin { seen = 0; }",
                        "p %s:work { if ($cgroup == \"%s\") seen++; }" % (lib, shown),
                        "i:20ms { if (seen > 2) end_trace(); }")
        wait_for(lambda: in_place(p.pid) or t.poll() is not None, what="the trace")
        move(p.pid, path)
        assert t.wait(timeout=60) == 0, text_of(t.err_path)
        got = [json.loads(s) for s in text_of(t.out_path).splitlines() if s.startswith("{")]
        assert {e["key"][0] if isinstance(e["key"], list) else e["key"] for g in got for e in g.get("entries", ())} >= {
            shown}, got
    finally:
        stop(p, signal.SIGKILL)
        wait_for(lambda: not text_of(os.path.join(path, "cgroup.procs")), what="an empty group")
        os.rmdir(path)


@test
def refusals():
    """it is a text: nothing is computed with it"""
    lib, one, _ = programs()
    for line in ("p %s:work { long n = (long)$exe; }", "p %s:work sum($exe)", "p %s:work count if $exe",
                 "p %s:work sum($cgroup)"):
        err = run_([line % lib], [one, "1"], status=1)[1]
        assert "E-DPCC-TYPE" in err, (line, err)


run()
