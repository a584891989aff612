# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Static probes (u MODULE:NAME): found by notes of files, arguments by operands, semaphores raised and lowered."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from live import Live  # noqa: E402
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-statics-")
HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
QUIET = "0 0 0 0 -5 77"  # what the program says of its semaphores, and of two variables


def marks():
    need("gcc")
    path = os.path.join(DIR, "marks")
    if not os.path.exists("/usr/include/x86_64-linux-gnu/sys/sdt.h") and not os.path.exists("/usr/include/sys/sdt.h"):
        raise Skip("<sys/sdt.h> is missing")
    if not os.path.exists(path):
        subprocess.run(["gcc", "-O2", "-w", "-o", path, os.path.join(HERE, "marks.c")], check=True)
    return path


def events(*lines, command, options=()):
    out = os.path.join(DIR, "out")
    r = subprocess.run([DPROBES, "trace", "-q", "--json", "-o", out, *options, *lines, "--", *command], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120)
    assert r.returncode == 0, (r.returncode, r.stdout, r.stderr)
    return [json.loads(s) for s in open(out).read().splitlines()]


def tables(text):
    return [json.loads(s) for s in text.splitlines() if s.startswith("{")]


def tracing(pid, *lines):
    """A trace whose probes are in place once the program's semaphores say so; the caller waits for that."""
    return start([DPROBES, "trace", "-p", str(pid), "--json", *lines], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                 text=True)


def wait_for(live, want):
    for _ in range(1500):
        got = live("counts")
        if got == want:
            return
        time.sleep(0.02)
    raise AssertionError((got, want))


@test
def arguments():
    """u marks:sale $arg1:string $arg2 $arg3 if ...: sizes and signs are the note's; $args is all of them"""
    got = events('u marks:sale $arg1:string $arg2 $arg3 if $arg2 != 1', command=[marks(), "4"])
    assert [g["args"] for g in got] == [{"arg1": name, "arg2": n, "arg3": 200} for name, n in
                                        (("anvil", -1), ("bolt", 0), ("bolt", 2))], got
    assert {g["event"] for g in got} == {"shop:sale"}, got
    got = events("u:sold shop:sale $args", command=[marks(), "1"])
    assert got[0]["event"] == "sold" and got[0]["args"]["arg2"] == -1 and len(got[0]["args"]) == 3, got


@test
def operands():
    """every form of an operand: registers and parts of them, base and index, constants, names of data"""
    (got,) = events("u operands $args", command=[marks(), "1"])
    got = got["args"]
    assert [got["arg%d" % i] for i in (1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13)] == [
        300, -7, 2, 254, -9, 77, -5, 0x2345, 77, 0xfffffffe, -2], got
    (deep,) = events("u operands *(long *)$arg8 $arg10:string", command=[marks(), "1"])
    assert list(deep["args"].values()) == [77, "anvil"], deep
    r = dprobes("trace", "u marks:operands $arg14", "--", marks(), "1", check=1)
    assert "E-EVENT-ARGN" in r.stderr, r.stderr


@test
def places():
    """all places of a name, each with its own arguments; patterns; tables; a body in C; what is not there is refused"""
    got = events("u marks:twice $arg1:string", command=[marks(), "4"])
    assert [g["args"]["arg1"] for g in got] == ["second", "first"] * 2, got
    r = dprobes("trace", "-q", "--json", "u *:* count by $ip", "--", marks(), "6", check=0)
    assert sum(e["value"] for t in tables(r.stdout) for e in t["entries"]) == 24, r.stdout
    got = events('u shop:plain__* { if ($arg1 > 0) log($arg1 + 1); }', command=[marks(), "4"])
    assert [list(g["args"].values()) for g in got] == [[3], [5]], got
    for line, code in (("u marks:nothing", "E-STATIC-NONE"), ("u nowhere:sale", "E-STATIC-NONE"),
                       ("u sale $retval", "E-DPCC-NAME"), ("u sale $duration", "E-EVENT-VAR"),
                       ("u sale return 0", "E-DPCC-TYPE")):
        r = dprobes("trace", line, "--", marks(), "1", check=1)
        assert code in r.stderr, (line, r.stderr)


@test
def listing():
    """dprobes funcs FILE 'u PATTERN' lists them, of a process too"""
    out = dprobes("funcs", marks(), "u *").stdout
    assert out.count("shop:twice") == 2 and "shop:sale  8@(%rdi) -4@%esi 1@$-56  (semaphore)" in out, out
    live = Live(marks())
    assert dprobes("funcs", "-p", live.pid, "u marks:shop:twice").stdout.count("marks:shop:twice") == 2
    r = dprobes("funcs", "/bin/true", "u *", check=1)
    assert "E-STATIC-NONE" in r.stderr, r.stderr
    live.end()


@test
def semaphores():
    """a semaphore is one higher while probes are there, however many, and as before when they have gone"""
    live = Live(marks())
    assert live("counts") == QUIET
    trace = tracing(live.pid, "u marks:sale $arg1:string", "u marks:twice count", "u sale count by $arg2")
    wait_for(live, "1 1 0 0 -5 77")
    assert live("go 3") == "3"
    trace.send_signal(signal.SIGINT)
    out = trace.communicate(timeout=60)[0]
    assert out.count('"anvil"') == 2 and out.count('"bolt"') == 1, out
    assert live("counts") == QUIET and live("go 3") == "3"
    live.end()


@test
def killed():
    """after kill -9 of the trace semaphores are lowered with the probes"""
    live = Live(marks())
    trace = tracing(live.pid, "u *:sale $arg1:string", "u *:operands count")
    wait_for(live, "1 0 0 1 -5 77")
    trace.kill()
    trace.communicate()
    wait_for(live, QUIET)  # by what cleans up after a trace
    assert live("go 1") == "0"
    live.end()


@test
def children():
    """a forked child has a copy of the probes and of the semaphore: both are taken away, in both"""
    live = Live(marks())
    trace = tracing(live.pid, "u *:sale $arg2")
    wait_for(live, "1 0 0 0 -5 77")
    child = int(live("fork"))
    assert child != live.pid and live("counts") == "1 0 0 0 -5 77"
    assert live("go 2") == "2"
    trace.send_signal(signal.SIGINT)
    out = trace.communicate(timeout=60)[0]
    assert out.count('"shop:sale"') == 2, out
    wait_for(live, QUIET)
    live.end()


@test
def programs_change():
    """in the driver: semaphores follow programs that come and go while others stay"""
    live = Live(marks())
    files = {}
    for name, text in (("one", "u shop:sale"), ("two", "u shop:tw*")):
        files[name] = os.path.join(DIR, name + ".dpc")
        with open(files[name], "w") as f:
            f.write('#pragma MODNAME("%s") PROBEPOINT_LOCATION("%s") PROBEPOINT_HANDLER("h")\n'
                    'static long n;\nvoid h() { n++; }\n' % (marks(), text))
    dprobes("--insert", files["one"])
    try:
        wait_for(live, "1 0 0 0 -5 77")
        dprobes("--insert", files["two"], "--merge")
        wait_for(live, "1 1 0 0 -5 77")
        dprobes("--insert", files["two"], "--replace")
        wait_for(live, "0 1 0 0 -5 77")
    finally:
        dprobes("-r", "-a")
    wait_for(live, QUIET)
    live.end()


@test
def python():
    """python3.11 of Debian: what is imported, and functions that return"""
    exe = "/usr/bin/python3.11"
    if not os.path.exists(exe) or "function__return" not in dprobes("funcs", exe, "u *", check=None).stdout:
        raise Skip("a python3.11 with static probes is missing")
    code = "import wave\ndef hello(x): return x\nfor i in range(5): hello(i)"
    got = events('u python3:function__return $arg1:string $arg2:string $arg3 if $arg2:string == "hello"',
                 'u python:import__find__load__start $arg1:string', command=[exe, "-c", code])
    returned = [g["args"] for g in got if "arg2" in g["args"]]
    assert returned == [{"arg1": "<string>", "arg2": "hello", "arg3": 2}] * 5, got
    assert "wave" in [g["args"]["arg1"] for g in got if "arg2" not in g["args"]], got
    r = dprobes("trace", "u python3:function__entry $arg1:string", "--", exe, "-c", "pass", check=0)
    assert "Python 3.11 passes it only while" in r.stderr and "function__return" in r.stderr, r.stderr
    r = dprobes("trace", "u python3:function_return", "--", exe, "-c", "pass", check=1)
    assert "did you mean function__return?" in r.stderr, r.stderr
    r = dprobes("trace", "u sh:entry", "--", "/bin/sh", "-c", ":", check=1)
    assert "this build of sh has no static probes" in r.stderr, r.stderr


@test
def throws():
    """libstdc++: throw and catch of a C++ program"""
    need("g++")
    src, exe = os.path.join(DIR, "t.cc"), os.path.join(DIR, "t")
    with open(src, "w") as f:
        f.write("int main() { for (int i = 0; i < 4; i++) try { throw i; } catch (int) {} }\n")
    subprocess.run(["g++", "-O2", "-o", exe, src], check=True)
    if "libstdcxx:throw" not in dprobes("funcs", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "u *", check=None).stdout:
        raise Skip("a libstdc++ with static probes is missing")
    r = dprobes("trace", "-q", "--json", "u libstdc++:throw count", "u libstdcxx:catch count", "--", exe)
    assert sorted(e["value"] for e in tables(r.stdout)) == [4, 4], r.stdout


run()
