# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Rounds of attach, arm, remove, detach against a restless program; dprobes killed at random points."""
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROUNDS = int(os.environ.get("DP_ROUNDS", "150"))
KILLS = int(os.environ.get("DP_KILLS", "100"))
EVENTS = ["p:mix mix a=%di b=%si", "r:mixr mix v=$retval", "p:cmp compare",
          "p:h hash_text s=+0(%di):string if $arg2 > 20",
          "p:al on_alarm", "p:m libc:malloc n=%di if $arg1 > 1500", "p:c compute s=%di", "r:cr compute"]


def churn():
    p = start([target("churn"), target("plugin.so"), "6"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


def alive(p):
    if p.poll() is not None:
        raise AssertionError("the target ended: status %s: %s" % (p.returncode, p.stderr.read()))


def done(p):
    assert stop(p, timeout=60) == 0, p.stderr.read()
    print("# " + p.stdout.read().strip())


@test
def rounds():
    """attach, arm, remove, detach, again and again, against threads, forks, signals, dlopen"""
    p = churn()
    tool = os.path.join(BUILD, "tests", "process", "rounds")
    if os.path.exists(tool):
        r = subprocess.run([tool, str(p.pid), str(ROUNDS)] + EVENTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=800)
        print("\n".join("# " + line for line in r.stdout.splitlines()[-6:]))
        alive(p)
        assert r.returncode == 0, r.stdout[-3000:]
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid)
    done(p)


@test
def killed():
    """kill -9 of dprobes at random points: the target goes on, the next one cleans up"""
    p = churn()
    rng = random.Random(7)
    left = 0
    span = 0.1  # seconds from start to probes in place, followed as the machine's load changes
    for i in range(KILLS):
        t = start([DPROBES, "trace", "-o", "/dev/null", "-p", str(p.pid), *EVENTS])
        begin = time.time()
        if i % 20 == 0:
            wait_for(lambda: our_mappings(p.pid), what="probes in place")
            span = time.time() - begin
        else:
            time.sleep(rng.uniform(0.0, 1.7 * span))
        t.kill()
        t.wait()
        alive(p)
        left += bool(our_mappings(p.pid))
    assert left > 0
    r = dprobes("trace", "-o", "/dev/null", "-p", p.pid, "--duration", "0.3", *EVENTS, check=0)
    time.sleep(0.1)
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid)
    print("# figure: dprobes killed %d times at random points, %d times with probes in place" % (KILLS, left))
    done(p)


def deaf():
    p = start([target("deaf"), "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


@test
def killed_at_a_write():
    """threads and forked children block all signals: no breakpoint is left for them when dprobes is killed in front of
    a write to the process's memory, one of them in turn"""
    need("strace")
    p = deaf()
    lines = ["p twice count", "p more count", "r more count", "p libc:_exit count", "p libc:waitpid count"]
    rng = random.Random(3)
    at, killed, status = 1, 0, None
    while status != 0:
        r = subprocess.run(["strace", "-o", "/dev/null", "-e", "trace=pwrite64", "-e",
                            "inject=pwrite64:signal=SIGKILL:when=%d" % at, DPROBES, "trace", "-q", "-o", "/dev/null",
                            "--duration", "0.02", "-p", str(p.pid), *lines], stderr=subprocess.PIPE, text=True)
        status = r.returncode
        assert status in (0, -signal.SIGKILL), r.stderr
        killed += status != 0
        time.sleep(0.02)
        alive(p)
        at += rng.randint(1, 8)
    dprobes("clean", "-p", p.pid, check=0)
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid)
    assert killed > 10, killed
    print("# figure: killed in front of %d of %d writes" % (killed, at))
    done(p)


def our_leftovers(pid):
    """Mappings and descriptors that a killed dprobes may have left unfinished."""
    with open("/proc/%d/maps" % pid) as f:
        code = [line for line in f if " r-xp 00000000 00:00 0" in line and "[" not in line]
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            code += [fd] if os.readlink("/proc/%d/fd/%s" % (pid, fd)).startswith("/memfd:dprobes") else []
        except FileNotFoundError:
            pass  # the program opens and closes its libraries
    return code


@test
def killed_in_the_act():
    """kill -9 while bytes change and mappings come and go, again and again"""
    p = churn()
    r = subprocess.run([os.path.join(BUILD, "tests", "process", "kills"), str(p.pid), str(KILLS), "5"] + EVENTS,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    alive(p)
    assert r.returncode == 0, r.stdout[-3000:]
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid)
    assert not our_leftovers(p.pid), our_leftovers(p.pid)
    print("# figure: killed %d times while arming or removing" % KILLS)
    done(p)


def swapping():
    p = start([target("swap"), target("plugin.so"), target("swap-other.so")], stdout=subprocess.PIPE,
              stderr=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


def swapped(p):
    """The target ends well, its libraries did lie in the same place, and nothing of ours is left."""
    assert not our_leftovers(p.pid), our_leftovers(p.pid)
    status = stop(p)
    text = p.stdout.read()
    assert status == 0, (status, p.stderr.read())
    swaps, same = map(int, re.search(r"swaps (\d+), (\d+) to", text).groups())
    assert swaps and same > swaps / 2, text
    print("# " + text.strip())


@test
def other_module_in_its_place():
    """a module is unmapped, and another one mapped in its place, while probes come and go: not a byte of ours in it"""
    p = swapping()
    r = subprocess.run([os.path.join(BUILD, "tests", "process", "swaps"), str(p.pid), "5", "p:pl plugin_work n=%di",
                        "r:plr plugin_work"], stdout=subprocess.PIPE, text=True, timeout=100)
    assert p.poll() is None, p.stderr.read()
    assert r.returncode == 0, r.stdout
    print("# figure: " + r.stdout.strip())
    swapped(p)


@test
def other_module_and_kill():
    """the same, and dprobes is killed meanwhile, again and again"""
    p = swapping()
    rng = random.Random(11)
    for i in range(30):
        s = start([os.path.join(BUILD, "tests", "process", "swaps"), str(p.pid), "9", "p:pl plugin_work n=%di"])
        time.sleep(rng.uniform(0.02, 0.3))
        s.kill()
        s.wait()
        assert p.poll() is None, (i, p.stderr.read())
    dprobes("clean", "-p", p.pid, check=0)
    swapped(p)


run()
