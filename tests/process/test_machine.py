# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What differs between machines: the processor's number is right, dead debug registers are told, doctor shows what
was found."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

NO_RSEQ = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


def records(name, mode=(), options=(), env=None):
    """The records of pinned, as pairs of where the program was and what the record says; and its own count."""
    out = tempfile.NamedTemporaryFile("w+", prefix="dp-out-", delete=False)
    r = dprobes("trace", "--json", "-o", out.name, *options, "p work where=%di:s64", "--", target(name), 50,
                *mode, check=0,
                env=dict(os.environ, **(env or {})))
    m = re.search(r"calls (\d+) children (\d+) processors (\d+)", r.stdout)
    assert m, r.stdout + r.stderr
    rows = [(x["args"]["where"], x["cpu"]) for x in json_lines(text_of(out.name))]
    assert len(rows) == int(m.group(1)) + int(m.group(2)), (len(rows), r.stdout, r.stderr[-500:])
    return rows, int(m.group(3))


@test
def processors():
    """a thread on each processor in turn: every record names that processor, compiled and interpreted, with and
    without rseq"""
    for name in ("pinned", "pinned-static"):
        for options in ((), ("--interpret",)):
            for env in (None, NO_RSEQ):
                rows, n = records(name, (), options, env)
                assert n == os.cpu_count() or n == len(os.sched_getaffinity(0)), n
                wrong = [x for x in rows if x[0] != x[1]]
                assert not wrong, (name, options, env, wrong[:5])


@test
def processor_of_programs():
    """a program that asks for the processor gets the right one, too"""
    with tempfile.NamedTemporaryFile("w", suffix=".rpn") as f:
        f.write("name = %s\nlogmax = 100\noffset = work\n\tpush procid; push r, rdi; log 2\n\texit\n"
                % target("pinned"))
        f.flush()
        for env in ({}, NO_RSEQ):
            r = dprobes("trace", "-f", f.name, "--json", "--", target("pinned"), 50, check=0,
                        env=dict(os.environ, **env))
            pairs = [struct.unpack("<QQ", bytes.fromhex(x["data"])) for x in json_lines(r.stdout) if x.get("data")]
            assert len(pairs) >= 50 and all(a == b for a, b in pairs), (len(pairs), pairs[:5], r.stdout[:500],
                                                                        r.stderr[-500:])


@test
def children_of_vfork():
    """children of vfork on another processor than their parent: no record is lost, none names the wrong processor"""
    for options in ((), ("--interpret",)):
        rows, n = records("pinned", ("vfork",), options)
        if n < 2:
            raise Skip("one processor only")
        wrong = [x for x in rows if x[0] % 1000 != x[1]]
        assert not wrong, (options, wrong[:5])


def found(*args):
    r = dprobes("doctor", "--json", *args, check=0)
    return {(x["part"], x["name"].strip()): x for x in json.loads(r.stdout)["capabilities"]}


@test
def doctor():
    """doctor: a table of what was found, with its consequence; of the machine, of a process; as JSON"""
    t = dprobes("doctor", check=0).stdout
    for name in ("processor's number", "thread's area (rseq)", "rdpid", "rdtscp", "segment limit (lsl)", "rdfsbase",
                 "xsave", "debug registers: writes", "pages (--pages)", "membarrier", "process_vm_readv", "ptrace",
                 "dprobes.ko"):
        assert re.search(r"^  +%s  +\S" % re.escape(name), t, re.M), (name, t)
    # Three columns, each of one width.
    rows = [line for line in t.splitlines() if line.startswith("  ")]
    second = {re.match(r"  (?:  )?\S.*?\S {2,}", line).end() for line in rows}
    assert len(second) == 1, t
    all = found()
    assert all[("machine", "debug registers: writes")]["found"] == {True: "fired", False: "set, but never fired"}.get(
        debug_registers(), all[("machine", "debug registers: writes")]["found"])
    assert all[("machine", "ptrace")]["grade"] == "good", all
    p = start([target("simple"), "2"], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    part = "process %d" % p.pid
    all = found("-p", p.pid)
    assert all[(part, "attach")]["found"] == "allowed, 3 threads", all
    assert all[(part, "thread id")]["found"] == "in the thread's control block", all
    assert all[(part, "filter of system calls")]["found"] == "none", all
    assert all[(part, "copies and stops")]["found"] == "clone is allowed", all
    assert not our_mappings(p.pid)
    stop(p)
    r = dprobes("doctor", "-p", p.pid)
    assert r.returncode == 1 and re.search(r"probes +E-PROC-\w+: ", r.stdout), r.stdout


def machine_code(p):
    """Skips where nothing lets programs be machine code; else they are."""
    all = found("-p", p.pid)
    part = "process %d" % p.pid
    if all[(part, "restartable sequences")]["found"] == "none registered":
        raise Skip("the C library registers no restartable sequences")
    if all[("machine", "processor's number")]["found"] == "by rseq and getcpu":
        raise Skip("nothing but getcpu tells the processor's number")
    assert all[(part, "compiled programs")]["found"] == "yes", all


@test
def compiled_everywhere():
    """programs are machine code on every machine whose threads have restartable sequences"""
    p = start([target("simple")], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    machine_code(p)
    stop(p)


@test
def filters_miss_nothing():
    """a filter over registers, as machine code, in a function that a timer's handler calls as well: no hit is missed"""
    p = start([target("signals"), "plain"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    machine_code(p)
    r = dprobes("trace", "-p", p.pid, "-o", "/dev/null", "--duration", 0.7, "p step if %di:s64 < -5", "p on_tick")
    row, ticks = (re.search(r"^%s +jump +(\d+) +\d+ +(\d+) +\d+ +(\d+)" % name, r.stderr, re.M) for name in
                  ("step", "on_tick"))
    hits, filtered, missed = map(int, row.groups())
    assert int(ticks[1]) > 20 and hits == filtered and not missed, r.stderr
    stop(p)


@test
def dead_registers():
    """a watchpoint that would never fire is refused by name; plain writes are watched by pages instead, with a word
    about it"""
    if debug_registers() is not False:
        raise Skip("the debug registers of this machine fire" if debug_registers() else "no watchpoint can be set here")
    p = start([target("watched"), "plain"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    for line in ("w counter:rw", "w touch:x", "w change($p->pair[0])"):
        r = dprobes("trace", "-p", p.pid, line)
        assert r.returncode == 1 and "E-WATCH-DEAD" in r.stderr and "--pages" in r.stderr, (line, r.stderr)
    r = dprobes("trace", "--children", "-p", p.pid, "w counter")
    assert r.returncode == 1 and "E-WATCH-DEAD" in r.stderr, r.stderr
    if found()[("machine", "pages (--pages)")]["found"] != "works":
        r = dprobes("trace", "-p", p.pid, "w counter")
        assert r.returncode == 1 and "E-WATCH-DEAD" in r.stderr, r.stderr
        raise Skip("pages cannot be watched here: only refusals were tried")
    t = trace_start("-p", p.pid, "w:c counter old=$old new=$new")
    wait_for(lambda: t.poll() is not None or "never fire" in text_of(t.err_path)
             and standing(p.pid),
             what="the watchpoint")
    wait_for(lambda: t.poll() is not None or " uw" in text_of("/proc/%d/smaps" % p.pid), what="the pages")
    time.sleep(0.2)
    p.stdin.write("inc 5\n")
    p.stdin.flush()
    assert p.stdout.readline() == "ok\n"
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    assert re.findall(r"old=(\d+) new=(\d+)", text_of(t.out_path)) == [(str(i), str(i + 1)) for i in range(5)], \
            text_of(t.out_path)
    stop(p)


run()
