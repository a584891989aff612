# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The driver of probe programs: it ends, is killed, and goes on; programs that are over in a moment."""
import functools
import os
import random
import re
import shutil
import subprocess
import time

from obey import *  # noqa: F403


@alone
def killed_in_changes():
    """drivers killed at random instants while programs come and go: the process goes on, and in the end nothing is
    left in it"""
    o, chance = Obey(), random.Random(2)
    one = program("k1.rpn", body("inc lv, 0; inc gv, 0; push r, rdi; log 1; exit",
                                 header="logmax = 9\nvars = 1\ngvars = 1"))
    two = program("k2.rpn", body("inc lv, 0; abort", header="vars = 1", more="at = return"))
    for i in range(25):
        p = start([DPROBES, *chance.choice([["insert", one, "--replace"], ["insert", two, "--merge"],
                                            ["remove", one]])])
        end = time.monotonic() + chance.random() * 0.1
        while time.monotonic() < end:
            assert o("add 1 1") == "2" and o("fork 2 2") == "4"
        kill_drivers()
        p.wait(60)
    dprobes("-r", "-a", check=0)
    assert o("add 1 1") == "2" and not our_mappings(o.pid) and not code_differs(o.pid)
    left = [os.readlink("/proc/%d/fd/%s" % (o.pid, fd)) for fd in os.listdir("/proc/%d/fd" % o.pid)]
    assert not [name for name in left if "dprobes" in name or "globals" in name], left
    assert o.end() == 0


@alone
def driver():
    """the driver ends after the last removal; asked to end, it takes its probes along; a killed one's are removed,
    too"""
    o = Obey()
    f = program("d.rpn", body("inc lv, 0; abort"))
    state = os.path.join(os.environ["DPROBES_DIR"], "state")
    dprobes("insert", f, check=0)
    pids = drivers()
    assert len(pids) == 1, pids
    dprobes("-r", "-a", check=0)
    wait_for(lambda: not drivers(), what="the driver's end")
    assert os.listdir(state) == ["journal"], os.listdir(state)
    assert dprobes("-q", "-a", check=0).stdout == "" and not drivers(), drivers()
    dprobes("insert", f, check=0)
    kill_driver()
    assert o("add 2 3") == "5" and our_mappings(o.pid)
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    dprobes("insert", f, check=0)
    os.kill(drivers()[0], 15)
    wait_for(lambda: not drivers(), what="the driver's end")
    assert not our_mappings(o.pid) and o("add 2 3") == "5" and o.end() == 0


def adopted(root=True):
    """Kill the driver again and again while a process runs into its probes: what is counted and logged is what
    happened."""
    o, other = Obey(), Obey()
    code = "inc lv, 0; inc gv, 0; push r, rdi; log 1; exit"
    dprobes("insert", program("a.rpn", body(code, header="logmax = 100\nvars = 4\ngvars = 1", more="ignore = 10")),
            "--json", check=0)
    before, n, rings = our_mappings(o.pid), 0, []
    for i in range(6):
        for _ in range(40):
            assert o("add %d 1" % n) == str(n + 1)
            n += 1
        if i == 2:
            assert other.end() == 0  # while nobody is there to see it
        kill_driver()
        rings.append(our_mappings(o.pid))
        for _ in range(40):
            assert o("add %d 1" % n) == str(n + 1)
            n += 1
        text = dprobes("query", check=0).stdout
        assert "hits %d:" % n in text, (n, text)
    if root:
        assert rings == [before] * 6 and our_mappings(o.pid) == before, "the probes were set anew"
    text = dprobes("vars", "--all", check=0).stdout
    assert "lv 0 = %d" % (n - 10) in text and "gv 0 = %d" % (n - 10) in text, text
    wait_for(lambda: len(json_lines(log())) >= n - 10, what="all records")
    seen = [int.from_bytes(bytes.fromhex(r["data"]), "little") for r in json_lines(log())]
    assert seen == list(range(10, n)), (len(seen), seen[:20])
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid) and o.end() == 0


@alone
def adoption():
    """a killed driver's successor goes on with its probes: each hit is counted, each record is logged once"""
    adopted()


READS = "name = %s\nmajor = 1\nlogmax = 1000000000\noffset = look\npush r, rdi; push mem,u64; log 1; exit\n"


@alone
def loads():
    """programs load from memory that stays, with the same driver and with the successor of a killed one"""
    o = Live([target("reads")])
    dprobes("insert", program("m.rpn", READS % target("reads")), "--json", check=0)
    assert o("calls 1") == "done"
    rings = our_mappings(o.pid)
    for i in range(3):
        assert system_calls(o.pid, lambda: o("calls 20")) == 0, i
        kill_driver()
        assert system_calls(o.pid, lambda: o("calls 20")) == 0, i
        assert hits(dprobes("query", check=0).stdout) == 40 * i + 41
    if os.geteuid() == 0:
        assert our_mappings(o.pid) == rings, "the probes were set anew"
    dprobes("insert", program("m.rpn", READS % target("reads")), "--replace", "--strict-reads", check=0)
    assert system_calls(o.pid, lambda: o("calls 20")) >= 20
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid) and o.end() == 0


@alone
def loads_from_what_vanishes():
    """other threads take away what is read while drivers are killed: the process goes on, with SIGSEGV blocked"""
    p = start([target("vanish"), "unmap", "protect", "move", "shrink", "raw", "call"], stdin=subprocess.PIPE,
              stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    dprobes("insert", program("v.rpn", READS % target("vanish")), check=0)
    for _ in range(2):
        time.sleep(0.1)
        kill_driver()
        time.sleep(0.1)
        dprobes("query", check=0)
        assert p.poll() is None, p.returncode
    dprobes("-r", "-a", check=0)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    out, _ = p.communicate("", timeout=60)
    assert p.returncode == 0 and int(out) > 1000, (p.returncode, out)


@alone
def loads_again():
    """a trace of the same process comes and goes: then programs of the driver load as before"""
    p = start([target("vanish"), "unmap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    dprobes("insert", program("v.rpn", READS % target("vanish")), check=0)
    t = trace_start("-o", "/dev/null", "-p", p.pid, "p look if %di == 1")
    wait_for(lambda: any(re.search(r"look.*dprobes %d" % t.pid, line) for line in standing(p.pid)) or
             t.poll() is not None, what="the trace")
    time.sleep(0.3)
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)

    def loads_most():
        seen = []

        def look():
            seen.append(hits(dprobes("query", check=0).stdout))
            time.sleep(0.1)
            seen.append(hits(dprobes("query", check=0).stdout))
        return system_calls(p.pid, look) < (seen[1] - seen[0]) / 2

    wait_for(loads_most, what="loads")
    dprobes("-r", "-a", check=0)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    p.communicate("", timeout=60)
    assert p.returncode == 0


@alone
def adoption_at_random():
    """drivers killed at random instants, while they begin, drain and answer: still each hit once, each record once"""
    if os.geteuid() != 0:
        raise Skip("for root, who may open the rings")
    o, n, chance = Obey(), 0, random.Random(1)
    dprobes("insert", program("r.rpn", body("inc lv, 0; push r, rdi; log 1; exit")), "--json", check=0)
    for _ in range(25):
        q = start([DPROBES, "query"])
        end = time.monotonic() + chance.random() * 0.15
        while time.monotonic() < end:
            assert o("add %d 1" % n) == str(n + 1)
            n += 1
            time.sleep(0.0001)
        kill_drivers()
        q.wait(60)
    text = dprobes("query", check=0).stdout
    recorded, lost = (int(re.search(r"\b%s (\d+)" % what, text).group(1)) for what in ("recorded", "lost"))
    assert hits(text) == n == recorded + lost and "lv 0 = %d" % n in text, (n, text)
    wait_for(lambda: len(json_lines(log())) >= recorded, what="all records")
    seen = [int.from_bytes(bytes.fromhex(r["data"]), "little") for r in json_lines(log())]
    assert len(seen) == recorded and seen == sorted(set(seen)), (n, recorded, len(seen), len(set(seen)))
    assert o.end() == 0


@alone
def adoption_by_copy():
    """the same where the kernel does not let the rings be opened: they are read, and the probes set anew"""
    need("capsh")
    if os.geteuid() != 0:
        raise Skip("only root can drop what this needs")
    with_all = dprobes.__globals__["DPROBES"]
    less = program("less", "#!/bin/sh\nexec capsh --drop=cap_checkpoint_restore,cap_sys_admin "
                           "-- -c 'exec \"$0\" \"$@\"' %s \"$@\"\n" % with_all)
    os.chmod(less, 0o755)
    dprobes.__globals__["DPROBES"] = less
    try:
        adopted(root=False)
    finally:
        clean()
        dprobes.__globals__["DPROBES"] = with_all


@alone
def adoption_changes():
    """killed between all steps: with children, a parent that is gone, another program, a half-done change"""
    o = Obey()
    f = program("c1.rpn", body("inc lv, 0; abort"))
    dprobes("insert", f, check=0)
    child = subprocess.Popen([OBEY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: our_mappings(child.pid), what="probes in the second process")
    assert o("fork 1 2") == "3"
    kill_driver()
    assert o("fork 1 2") == "3" and o("add 1 2") == "3"
    child.kill()
    child.wait()
    late = Obey()  # begins while no driver is there
    text = wait_for(lambda: (lambda t: t if "in 2 processes" in t else None)(dprobes("query", check=0).stdout),
                    what="two processes")
    assert "lv 0 = 3" in text, text
    wait_for(lambda: our_mappings(late.pid), what="probes in the late process")
    assert late("add 1 2") == "3"
    kill_driver()
    dprobes("insert", program("c2.rpn", body("inc lv, 1; abort", more="at = return")), "--merge", check=0)
    assert o("add 1 2") == "3"
    text = dprobes("vars", "--all", check=0).stdout
    assert "lv 0 = 4" in text and "lv 1 = 1" in text and "lv 0 = 1" in text, text
    kill_driver()
    dprobes("remove", "--name", OBEY, check=0)
    assert not our_mappings(o.pid) and not our_mappings(late.pid) and not code_differs(o.pid)
    assert o.end() == 0 and late.end() == 0


BRIEF, LIBRIEF = target("brief"), target("libbrief.so")


def watched():
    """Insert probes for programs that are over in a moment, or skip where starts cannot be held."""
    if os.geteuid() != 0:
        raise Skip("programs can be held at their start by root only")
    for name, offset in ((BRIEF, "brief_work"), (LIBRIEF, "plugin_work")):
        dprobes("insert", program(offset + ".rpn", body("inc lv, 0; abort", name=name, offset=offset)), check=0)


@alone
def brief():
    """programs that are over in a moment: every hit is counted, in them and in their library"""
    watched()
    for _ in range(5):
        together = [start([BRIEF]) for _ in range(4)]
        assert [p.wait(60) for p in together] == [0] * 4
    counted = functools.partial(dprobes, "query", check=0)
    wait_for(lambda: [int(n) for n in re.findall(r"hits (\d+):", counted().stdout)] == [60, 40], what="60 and 40 hits")
    for path in (BRIEF, LIBRIEF):
        with open(path, "rb") as f:  # who only reads is not in the way of anybody
            assert len(f.read()) > 1000


@alone
def brief_killed():
    """the driver is killed while programs are being caught: all of them go on"""
    for i in range(8):
        watched()
        running = [start([BRIEF]) for _ in range(12)]
        time.sleep(0.005 * i)
        os.kill(drivers()[0], 9)
        ended = [p.wait(60) for p in running]
        assert ended == [0] * 12, ended
        clean()


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
