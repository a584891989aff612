# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Whom a trace is for: ids, names, patterns, users, control groups, files, trees; and how long it lasts."""
import os
import pwd
import re
import shutil
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

HERE = tempfile.mkdtemp(prefix="dp-select-")


def named(name, *args):
    """A target that no other process has the name of."""
    path = os.path.join(HERE, name)
    if not os.path.exists(path):
        shutil.copy(target("simple"), path)
    p = start([path, *args], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


def pids_of(r, processes):
    """Processes whose events are in the output: their only other thread calls."""
    tids = {}
    for p in processes:
        for tid in os.listdir("/proc/%d/task" % p.pid):
            tids[int(tid)] = p.pid
    return {tids[e["tid"]] for e in json_lines(r.stdout)}


def in_order(r):
    times = [e["ts"] for e in json_lines(r.stdout)]
    assert times and times == sorted(times), times[:50]


OUTER = "p outer n=%di:s64 if %di % 64 == 0"


@test
def names():
    """-p takes ids, names and patterns, with commas and more than once; one trace in order of time, one row"""
    v = [named("dpsel-a", "1"), named("dpsel-a", "1"), named("dpsel-b", "1")]
    for who, which in ((["-p", "dpsel-a"], v[:2]), (["-p", "dpsel-a,%d" % v[2].pid], v), (["-p", "dpsel-?"], v),
                       (["-p", v[0].pid, "-p", "dpsel-b"], [v[0], v[2]]), (["-p", "dpsel-b"], v[2:])):
        r = dprobes("trace", "--json", *who, "--duration", "1", OUTER, check=0)
        assert pids_of(r, v) == {p.pid for p in which}, (who, r.stderr)
        in_order(r)
        row = rows_of(r.stderr)["outer"]
        assert row["recorded"] == len(json_lines(r.stdout)) and "1 probe," in r.stderr, r.stderr
    for p in v:
        assert not our_mappings(p.pid) and not code_differs(p.pid)
        assert stop(p) == 0


@test
def one():
    """commands about one process take a name that only one has, or say who has it"""
    p = named("dpsel-one", "1")
    for argv in (["verify"], ["funcs", "dpsel-one:outer"], ["list"]):
        assert dprobes(argv[0], "-p", "dpsel-one", *argv[1:], check=0).stdout == \
            dprobes(argv[0], "-p", p.pid, *argv[1:], check=0).stdout, argv
    other = named("dpsel-one", "1")
    r = dprobes("verify", "-p", "dpsel-o*")
    ids = ", ".join(map(str, sorted((p.pid, other.pid))))
    assert r.returncode == 2 and "E-SELECT-SEVERAL" in r.stderr and "of 2: %s\n" % ids in r.stderr, r.stderr
    assert "E-SELECT-NONE" in dprobes("verify", "-p", "dpsel-none", check=2).stderr
    for name in "dpsel-oen", "dpsel":
        r = dprobes("verify", "-p", name, check=2)
        assert "E-SELECT-NONE" in r.stderr and "did you mean -p dpsel-one?" in r.stderr, r.stderr
    assert stop(p) == stop(other) == 0


@test
def filters():
    """--comm, --user, --all FILE, --cgroup: all that is given must hold; what was looked for is told"""
    v = [named("dpsel-a", "1"), named("dpsel-b", "1")]
    path = os.path.join(HERE, "dpsel-a")
    user = pwd.getpwuid(os.getuid()).pw_name
    group = text_of("/proc/self/cgroup").split(":", 2)[2].splitlines()[0]
    for who, which in ((["--comm", "dpsel-b"], v[1:]), (["--comm", "dpsel-*", "--user", user], v),
                       (["--all", path], v[:1]), (["-p", "dpsel-*", "--all", path], v[:1]),
                       (["--cgroup", group, "--comm", "dpsel-a"], v[:1])):
        r = dprobes("trace", "--json", *who, "--duration", "1", OUTER, check=0)
        assert pids_of(r, v) == {p.pid for p in which}, (who, r.stderr)
    for who, told in ((["-p", "dpsel-none"], "'dpsel-none'"), (["-p", "dpsel-a,dpsel-none"], "'dpsel-none'"),
                      (["--comm", "dpsel-none", "--user", user], "--comm dpsel-none --user"),
                      (["--container", "0123deadbeef"], "--container 0123deadbeef"),
                      (["--unit", "dpsel-none", "-p", "dpsel-a"], "-p dpsel-a --unit dpsel-none")):
        r = dprobes("trace", *who, OUTER, check=1)
        assert "E-SELECT-NONE" in r.stderr and told in r.stderr, r.stderr
    r = dprobes("trace", "-p", "dpsel-a,dpsel-b", "p nowhere_at_all", check=1)
    assert "E-SYM-NONE" in r.stderr, r.stderr
    for p in v:
        assert stop(p) == 0


@test
def later():
    """--all FILE: also processes that begin while the trace runs, and those that have forked"""
    path = os.path.join(HERE, "dpsel-later")
    shutil.copy(target("simple"), path)
    t = trace_start("--json", "--all", path, OUTER)
    v = []
    for _ in range(2):
        p = named("dpsel-later", "1")
        v.append(p)
        wait_for(lambda: in_place(p.pid), what="probes")
    assert stop(v[0]) == 0
    time.sleep(0.3)
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    told = text_of(t.err_path)
    # The first may have begun before the trace has looked for the first time.
    assert re.search("[12] process(es)? joined while the trace ran", told) and "1 probe," in told, told
    assert rows_of(told)["outer"]["recorded"] == len(json_lines(text_of(t.out_path))), told
    assert not our_mappings(v[1].pid) and not code_differs(v[1].pid)
    assert stop(v[1]) == 0
    t = trace_start("--all", path, "--duration", "1", OUTER)
    assert t.wait(60) == 1, text_of(t.err_path)
    told = text_of(t.err_path)
    assert told.startswith("note: no process maps %s yet: the probe waits for one\n" % path), told
    assert "E-SELECT-NONE" in told, told


@test
def tree():
    """--tree follows fork and exec; without it a note tells what ran without probes"""
    path = os.path.join(HERE, "dpsel-tree")
    shutil.copy(target("simple"), path)
    script = "%s 1 & %s 1 & wait" % (path, path)
    t = trace_start("--json", "--tree", OUTER, "--", "sh", "-c", script)

    def children():
        # Seen only when it is the program by now, not the shell's fork.
        with os.popen("pgrep -x dpsel-tree") as f:
            return [int(pid) for pid in f.read().split()]

    wait_for(lambda: len(children()) == 2 and all(in_place(pid) for pid in children()), what="probes")
    time.sleep(0.5)
    pids = children()
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    assert t.wait(60) == 0, text_of(t.err_path)
    events = json_lines(text_of(t.out_path))
    assert events and len({e["tid"] for e in events}) == 2, text_of(t.err_path)
    assert re.search("[0-9] process(es)? joined", text_of(t.err_path)), text_of(t.err_path)
    t = trace_start("p libc:malloc", "--", "sh", "-c", "sleep 0; %s 1 & sleep 3; kill $!; wait" % path)
    assert t.wait(60) == 0 and "--tree probes them as well" in text_of(t.err_path), text_of(t.err_path)


def processes_of(text):
    """the process ids of the tables"""
    return {int(s) for s in re.findall(r"^process (\d+)", text, re.M)}


@test
def compiled():
    """lines that are compiled take several processes, by id, name and filter, and no others"""
    v = [named("dpsel-c", "1"), named("dpsel-c", "1"), named("dpsel-d", "1")]
    path = os.path.join(HERE, "dpsel-c")
    count = "p outer count by $pid"
    for who, which in ((["-p", "%d,%d" % (v[0].pid, v[1].pid)], v[:2]), (["-p", "dpsel-c"], v[:2]),
                       (["--comm", "dpsel-c"], v[:2]), (["--all", path], v[:2]),
                       (["-p", str(v[1].pid), "--all", path], v[1:2])):
        r = dprobes("trace", *who, "--duration", "1", count)
        keys = {int(n) for n in re.findall(r"^ +(\d+) +\d+ ", r.stdout, re.M)}
        assert keys == {p.pid for p in which} and "1 probe, 0 never hit" in r.stderr, (who, r.stdout, r.stderr)
    r = dprobes("trace", "--all", path, "--comm", "dpsel-none", "--duration", "0.5", count)
    assert not processes_of(r.stdout) and "inserted in 0 processes" in r.stderr, r.stderr
    r = dprobes("trace", "--tree", count, check=1)
    assert "E-CMD-MISSING" in r.stderr, r.stderr
    r = dprobes("trace", "-p", "dpsel-c,dpsel-none", count, check=1)
    assert "E-SELECT-NONE" in r.stderr, r.stderr
    # It ends with the last of them.
    t = trace_start("-p", "%d,%d" % (v[0].pid, v[1].pid), count)
    wait_for(lambda: in_place(v[0].pid) and in_place(v[1].pid), what="probes")
    assert stop(v[0]) == 0
    time.sleep(0.5)
    assert t.poll() is None
    assert stop(v[1]) == 0
    assert t.wait(60) == 0, text_of(t.err_path)
    assert not our_mappings(v[2].pid) and not code_differs(v[2].pid)
    assert stop(v[2]) == 0
    # So it is with a program in a file.
    v = [named("dpsel-c", "1"), named("dpsel-c", "1"), named("dpsel-c", "1")]
    dpc = os.path.join(HERE, "several.dpc")
    with open(dpc, "w") as f:
        f.write('#pragma MODNAME("%s")\n#pragma MODTYPE(user)\n#pragma PROBEPOINT_LOCATION("outer")\n'
                '#pragma PROBEPOINT_HANDLER("seen")\nvoid seen() { count(calls, pid()); }\n' % path)
    r = dprobes("trace", "-f", dpc, "-p", "%d,%d" % (v[0].pid, v[2].pid), "--duration", "1")
    keys = {int(n) for n in re.findall(r"^ +(\d+) +\d+ ", r.stdout, re.M)}
    assert keys == {v[0].pid, v[2].pid} and "all processes, " in r.stdout, (r.stdout, r.stderr)
    for p in v:
        assert not our_mappings(p.pid) and not code_differs(p.pid)
        assert stop(p) == 0


@test
def compiled_tree():
    """--tree of lines that are compiled: programs that a command, or a running process, starts, from their start"""
    if os.geteuid() != 0:
        raise Skip("programs are held at their start by root only")
    path = os.path.join(HERE, "dpsel-e")
    shutil.copy(target("simple"), path)
    script = "for i in 1 2 3; do /bin/cat /dev/null; done; (/bin/sleep 0.1); sh -c '%s 1; :'" % path

    def cats(t, n):
        """so many were probed from their start, or some are told of that were not"""
        told = text_of(t.err_path)
        found = len(re.findall(r"^ +cat +\d+ ", text_of(t.out_path), re.M))
        assert found == n or (found < n and "without waiting for the probes" in told), (text_of(t.out_path), told)

    def last():
        with os.popen("pgrep -x dpsel-e") as f:
            pids = [int(pid) for pid in f.read().split()]
        return pids[0] if pids and in_place(pids[0]) else 0

    t = trace_start("--tree", "p libc:setlocale count by $comm", "p %s:outer count by $comm" % path, "--", "sh", "-c",
                    script)
    wait_for(last, what="probes in a program that the command's program has started")
    time.sleep(0.2)
    os.kill(last(), signal.SIGTERM)
    assert t.wait(60) == 0, text_of(t.err_path)
    cats(t, 3)
    assert re.search(r"^ +dpsel-e +\d+ ", text_of(t.out_path), re.M), (text_of(t.out_path), text_of(t.err_path))
    shell = start(["sh", "-c", "read x; /bin/cat /dev/null; /bin/sleep 0.2"], stdin=subprocess.PIPE)
    other = start(["sh", "-c", "read x; /bin/cat /dev/null"], stdin=subprocess.PIPE)
    t = trace_start("--tree", "-p", str(shell.pid), "p libc:setlocale count by $comm")
    wait_for(lambda: in_place(shell.pid), what="probes")
    for p in (other, shell):
        p.communicate(b"\n")
    assert t.wait(60) == 0, text_of(t.err_path)
    cats(t, 1)


@test
def workers():
    """the children of a server that run its program are told of, and taken with --tree"""
    code = ("import os, sys, time\n"
            "for i in range(2):\n"
            "    if os.fork() == 0:\n"
            "        while True: os.getppid(); time.sleep(0.01)\n"
            "print('ready', flush=True)\n"
            "while True: time.sleep(1)\n")
    p = start([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert p.stdout.readline() == "ready\n"
    try:
        r = dprobes("trace", "-p", p.pid, "--duration", "0.3", "p libc:getppid", check=0)
        assert "has 2 children that run the same program" in r.stderr, r.stderr
        r = dprobes("trace", "--json", "--tree", "-p", p.pid, "--duration", "1", "p libc:getppid", check=0)
        assert len({e["tid"] for e in json_lines(r.stdout)}) == 2, r.stderr
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


@test
def limits():
    """--max-events is exact, over several processes too; --until ends with that event"""
    v = [named("dpsel-a", "2"), named("dpsel-a", "2")]
    for n in (1, 7, 500):
        r = dprobes("trace", "--json", "-p", "dpsel-a", "--max-events", n, "p outer n=%di:s64", check=0)
        assert len(json_lines(r.stdout)) == n and "%d events shown" % n in r.stderr, (n, r.stderr)
    r = dprobes("trace", "--json", "-p", v[0].pid, "--until", "p:last work n=%di:s64 if %di % 1000 == 999",
                "p:each outer n=%di:s64 if %di % 100 == 0", check=0)
    events = json_lines(r.stdout)
    assert [e["event"] for e in events].count("last") == 1 and events[-1]["event"] == "last", events
    r = dprobes("trace", "-p", v[0].pid, "--until", "p nowhere_at_all", "p outer", check=1)
    assert "--until: nowhere_at_all" in r.stderr and "E-SYM-NONE" in r.stderr, r.stderr
    for bad in ("0", "-1", "x", ""):
        assert "E-CMD-VALUE" in dprobes("trace", "-p", "1", "--max-events=" + bad, "p x", check=2).stderr
    for p in v:
        assert stop(p) == 0


@test
def status():
    """trace -- COMMAND ends with the command's status; a mistake of the trace comes first"""
    for script, want in (("exit 0", 0), ("exit 1", 1), ("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)):
        for line in ("p libc:malloc", "p libc:malloc count by $pid"):
            dprobes("trace", line, "-o", "/dev/null", "--", "sh", "-c", script, check=want)
    dprobes("trace", "-q", "p libc:malloc", "-o", "/dev/full", "--", "sh", "-c", "ls -l / /etc; exit 7", check=1)
    t = trace_start("p libc:malloc", "--", "sh", "-c", "sleep 100")
    wait_for(lambda: re.search(r"malloc", text_of(t.out_path)), what="events")
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)


run()
