# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Who is stopped, or frozen, while probes come or go: a trace that has stopped its process; the process itself."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403


@test
def trace_stopped():
    """`dprobes trace` is stopped (SIGSTOP) while its process waits for it: the process goes on"""
    p = start([target("churn"), target("plugin.so"), "4"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    caught = False
    for _ in range(50):
        t = trace_start("-p", p.pid, "-o", "/dev/null", "p churn:*", "p libc:m*")
        while not traced(p.pid) and t.poll() is None:
            pass
        t.send_signal(signal.SIGSTOP)
        wait_for(lambda: ") T " in text_of("/proc/%d/stat" % t.pid) or t.poll() is not None, what="the stop")
        caught = traced(p.pid)
        if caught:
            wait_for(lambda: not traced(p.pid), what="the process to be let go")
        t.send_signal(signal.SIGCONT)
        stop(t, signal.SIGINT)
        if caught:
            break
    assert caught
    assert not code_differs(p.pid), code_differs(p.pid)
    assert stop(p) == 0


@test
def process_stopped():
    """a process that is stopped cannot be armed: what is the matter, and what helps, is told, and nothing changes"""
    p = start([target("simple"), "1", "0"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    p.send_signal(signal.SIGSTOP)
    wait_for(lambda: ") T " in text_of("/proc/%d/stat" % p.pid), what="the stop")
    r = dprobes("trace", "-p", p.pid, "--duration", "0.1", "p work", check=1)
    assert "process %d is stopped\nhint: let it go on first: kill -CONT %d\n" % (p.pid, p.pid) in r.stderr, r.stderr
    assert ") T " in text_of("/proc/%d/stat" % p.pid) and not our_mappings(p.pid) and not code_differs(p.pid)
    p.send_signal(signal.SIGCONT)
    assert "recorded" in dprobes("trace", "-p", p.pid, "--duration", "0.1", "p work", check=0).stderr.lower()
    assert stop(p) == 0


def own_group():
    """A control group that can be frozen."""
    mounts = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"]
    for mount in mounts:
        if mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            group = "%s/dp-test-%d" % (mount, os.getpid())
            try:
                os.mkdir(group)
                return group
            except OSError as e:
                raise Skip("no control group can be made: %s" % e)
    raise Skip("no cgroup version 2 is mounted at the usual place")


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


@test
def process_frozen():
    """probes are taken out of a frozen process: the code is restored while it is frozen, and it goes on"""
    group = own_group()
    p = start([target("simple"), "2", "0"])
    try:
        write(group + "/cgroup.procs", str(p.pid))
        t = trace_start("-p", p.pid, "-o", "/dev/null", "p:w work n=%di")
        wait_for(lambda: in_place(p.pid), what="probes")
        write(group + "/cgroup.freeze", "1")
        wait_for(lambda: "frozen 1" in text_of(group + "/cgroup.events"), what="the freezer")
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        assert "is frozen" in text_of(t.err_path), text_of(t.err_path)
        assert not code_differs(p.pid), code_differs(p.pid)
        write(group + "/cgroup.freeze", "0")
        time.sleep(0.2)  # it runs
        assert p.poll() is None
        assert stop(p) == 0
    finally:
        write(group + "/cgroup.freeze", "0")
        stop(p, signal.SIGKILL)
        os.rmdir(group)


@test
def frozen_with_a_leftover():
    """the same where a killed dprobes has left a mapping, which cannot be unmapped meanwhile: the code is restored"""
    group = own_group()
    program = ("import mmap, sys\nm = mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, "
               "mmap.PROT_READ | mmap.PROT_EXEC)\nprint('ready', flush=True)\nsys.stdin.read()")
    p = start([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == "ready\n"
        with open("/proc/%d/maps" % p.pid) as f:
            region = [line.split("-")[0] for line in f if " r-xp 00000000 00:00 0" in line and "[" not in line][-1]
        write(group + "/cgroup.procs", str(p.pid))
        t = trace_start("-p", p.pid, "-o", "/dev/null", "p libc:malloc")
        wait_for(lambda: in_place(p.pid), what="probes")
        subprocess.run([os.path.join(BUILD, "tests", "process", "unmarked"), str(p.pid), region], check=True)
        write(group + "/cgroup.freeze", "1")
        wait_for(lambda: "frozen 1" in text_of(group + "/cgroup.events"), what="the freezer")
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        assert not code_differs(p.pid), code_differs(p.pid)
        write(group + "/cgroup.freeze", "0")
        p.stdin.close()
        assert p.wait(20) == 0
    finally:
        write(group + "/cgroup.freeze", "0")
        stop(p, signal.SIGKILL)
        os.rmdir(group)


@test
def waits_leave_the_processor():
    """dprobes comes before the threads that it waits for: it looks after them seldom while they do not come"""
    p = start([target("vforked"), "3"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    wait_for(lambda: ") D " in text_of("/proc/%d/stat" % p.pid), what="vfork")
    begin = time.time()
    t = trace_start("-p", p.pid, "p main")
    _, status, used = os.wait4(t.pid, 0)
    assert status and "E-TARGET-" in text_of(t.err_path), text_of(t.err_path)
    waited = time.time() - begin
    assert p.wait(60) == 0
    assert used.ru_nvcsw < 500 + 3000 * waited, (used.ru_nvcsw, waited)


run()
