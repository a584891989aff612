# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs in hard environments: filters, namespaces, sleeping and dying threads, fork, exec, many threads."""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import call_in  # noqa: E402


def ready(*argv, **kw):
    p = start([target(argv[0]), *argv[1:]], stdout=subprocess.PIPE, text=True, **kw)
    line = p.stdout.readline()
    assert line.startswith("ready"), (argv, line)
    return p


def clean(pid):
    assert not code_differs(pid), code_differs(pid)
    assert not our_mappings(pid), our_mappings(pid)


def status(pid, field):
    return re.search(r"^%s:\s*(\S+)" % field, text_of("/proc/%d/status" % pid), re.M).group(1)


def trace(p, seconds, *events, check=0, **kw):
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", seconds, *events, check=check, **kw)
    return r, json_lines(r.stdout)


def armed(p, *events):
    t = trace_start("--json", "-p", p.pid, *events)
    wait_for(lambda: '"event"' in text_of(t.out_path) or t.poll() is not None, what="events")
    assert t.poll() is None, text_of(t.err_path)
    return t


def events_of(t):
    return json_lines(text_of(t.out_path))


def ended_well(t):
    assert t.wait(60) == 0, text_of(t.err_path)
    assert "HITS" in text_of(t.err_path), text_of(t.err_path)


def finish(p, want=0):
    assert stop(p) == want, p.returncode
    return p.stdout.read()


VISIT = "p visit n=%di:s64 text=+0(%si):string"


@test
def seccomp_kill():
    """a filter that kills at mmap and the like: probed all the same, or a coded error and no harm"""
    p = ready("hard", "seccomp-kill")
    assert p.stdout.readline() == "filtered\n"
    for _ in range(3):
        r, ev = trace(p, 0.3, VISIT, check=None)
        assert p.poll() is None, (p.returncode, r.stderr)
        if r.returncode:
            assert "E-TARGET-SECCOMP" in r.stderr, r.stderr
            clean(p.pid)
            finish(p)
            raise Skip("this kernel cannot suspend filters")
        assert len(ev) > 50, r.stderr
        assert {e["tid"] for e in ev} == {p.pid}
        clean(p.pid)
    assert status(p.pid, "Seccomp") == "2"
    assert "early 0" in finish(p)


@test
def seccomp_still_in_force():
    """the filter is in force again after arming, and after removal"""
    p = ready("hard", "seccomp-kill")
    assert p.stdout.readline() == "filtered\n"
    r, ev = trace(p, 0.2, VISIT, check=None)
    if r.returncode:
        raise Skip("this kernel cannot suspend filters")
    # A call made inside the process from now on is killed.
    assert call_in(p.pid, 10, 0, 0, 0) == "signal %d" % signal.SIGSYS


@test
def seccomp_errno():
    """process_vm_readv is refused by a filter: strings on the heap are read otherwise, or marked"""
    p = ready("hard", "seccomp-eperm")
    assert p.stdout.readline() == "filtered\n"
    r, ev = trace(p, 1.5, VISIT, "p:bad visit v=+0(%di):u64", "p:bad visit v=@3:u64")
    texts = {e["args"]["text"] for e in ev if e["event"] != "bad"}
    assert len(ev) > 20 and texts and texts <= {"text on the heap", None}, (len(ev), texts)
    assert all(e["args"]["v"] is None for e in ev if e["event"] == "bad")
    clean(p.pid)
    finish(p)


@test
def namespaces():
    """a program in its own pid and mount namespaces, in a root without /proc: ids are those of the outside"""
    unshare, chroot = need("unshare", "chroot")
    if not os.path.exists(target("simple-static")) or os.getuid():
        raise Skip("needs root and simple-static")
    with tempfile.TemporaryDirectory() as root:
        shutil.copy(target("simple-static"), root + "/simple")
        u = start([unshare, "-fpm", chroot, root, "/simple", "2"], stdout=subprocess.PIPE, text=True)
        assert u.stdout.readline() == "ready 1\n"
        pid, = children_of(u.pid)
        wait_for(lambda: status(pid, "Threads") == "3", what="threads")
        tids = {int(t) for t in os.listdir("/proc/%d/task" % pid)}
        r = dprobes("trace", "--json", "-p", pid, "--duration", "0.5",
                    "p work n=%di:s64 name=+0(%si):string", check=0)
        ev = json_lines(r.stdout)
        assert len(ev) > 50, r.stderr
        assert all(e["args"]["name"] == 'hello "world"' for e in ev)
        assert {e["tid"] for e in ev} <= tids, ({e["tid"] for e in ev}, tids)
        r = dprobes("trace", "-p", pid, "--duration", "0.3", "p work", check=0)
        seen = {int(t) for t in re.findall(r"simple-(\d+) ", r.stdout)}
        assert seen and seen <= tids, (seen, tids)
        assert not our_mappings(pid)
        os.kill(pid, signal.SIGTERM)
        u.wait(60)
        assert " bad 0" in u.stdout.read()


def runner(p):
    """The one thread that still runs."""
    tid, = [int(t) for t in os.listdir("/proc/%d/task" % p.pid) if int(t) != p.pid]
    return tid


@test
def zombie_main():
    """the first thread has ended, others run: probed like any process"""
    p = ready("hard", "zombie-main")
    wait_for(lambda: status(p.pid, "State") == "Z", what="zombie")
    r, ev = trace(p, 0.4, VISIT)
    tid = runner(p)
    assert len(ev) > 50 and {e["tid"] for e in ev} == {tid}, r.stderr
    clean(tid)
    os.kill(p.pid, signal.SIGTERM)
    assert p.wait(60) == 0


@test
def main_ends_while_probed():
    """the first thread ends while probed: the others go on logging, and the bytes are restored"""
    p = ready("hard", "leave-main")
    t = armed(p, VISIT)
    p.send_signal(signal.SIGUSR1)
    wait_for(lambda: status(p.pid, "State") == "Z", what="zombie")
    time.sleep(0.2)
    size = os.path.getsize(t.out_path)
    wait_for(lambda: os.path.getsize(t.out_path) > size, what="further events")
    tid = runner(p)
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    clean(tid)
    os.kill(p.pid, signal.SIGTERM)
    assert p.wait(60) == 0


@test
def sleepers():
    """threads asleep in calls of ten kinds, probed and freed 20 times: none returns early"""
    p = ready("hard", "blocked")
    for i in range(20):
        r, ev = trace(p, 0.05, VISIT)
        assert p.poll() is None
    clean(p.pid)
    out = finish(p)
    assert "early 0 errno 0" in out, out


@test
def exec_another():
    """the program becomes another one while probed: dprobes ends well, the new program runs"""
    p = ready("hard", "exec", target("simple"), "1")
    t = armed(p, VISIT)
    p.send_signal(signal.SIGUSR1)
    assert p.stdout.readline().startswith("ready")
    ended_well(t)
    assert len(events_of(t)) > 5
    time.sleep(0.1)
    clean(p.pid)
    r, ev = trace(p, 0.2, "p work n=%di:s64")
    assert len(ev) > 10
    assert " bad 0" in finish(p)


@test
def exits_while_traced():
    """the program ends while probed: dprobes shows the summary and ends well"""
    p = ready("hard", "exit")
    t = armed(p, VISIT)
    p.send_signal(signal.SIGUSR1)
    assert p.wait(60) == 7
    ended_well(t)
    p = ready("hard", "plain")
    t = armed(p, VISIT)
    p.kill()
    ended_well(t)


def fork_child(p):
    p.send_signal(signal.SIGUSR1)
    line = p.stdout.readline()
    assert line.startswith("child "), line
    return int(line.split()[1])


@test
def fork_goes_on():
    """a forked child logs under its own id, and is freed together with its parent"""
    p = ready("hard", "fork")
    t = armed(p, VISIT)
    child = fork_child(p)
    try:
        wait_for(lambda: '"tid":%d' % child in text_of(t.out_path).replace(" ", ""), what="events of the child")
        assert code_differs(child)
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
        clean(p.pid)
        clean(child)
        time.sleep(0.05)
        assert status(child, "State") in "SR"
    finally:
        os.kill(child, signal.SIGTERM)
    finish(p)


@test
def fork_outlives_parent():
    """a forked child whose parent has exited is freed too"""
    p = ready("hard", "fork")
    t = armed(p, VISIT)
    child = fork_child(p)
    try:
        p.send_signal(signal.SIGUSR2)
        p.wait(60)
        end = time.time() + 3
        while t.poll() is None and time.time() < end:
            time.sleep(0.05)
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
        assert "HITS" in text_of(t.err_path)
        clean(child)
        time.sleep(0.05)
        assert status(child, "State") in "SR"
    finally:
        os.kill(child, signal.SIGTERM)


@test
def vfork_and_spawn():
    """fifty rounds of vfork and posix_spawn with exec, probed, while arming and removing goes on"""
    p = ready("hard", "spawn")
    p.send_signal(signal.SIGUSR1)
    for _ in range(3):
        r, ev = trace(p, 0.2, VISIT, "p libc:vfork", "p libc:execve", "p libc:waitpid", "p libc:wait4", check=None)
        # A child that is switched away in the middle of writing may spoil a ring (Limits in doc/process-host.md).
        assert r.returncode == 0 or "E-RING-DAMAGED" in r.stderr, r.stderr
    assert p.stdout.readline() == "bad 0\n"
    clean(p.pid)
    finish(p)
    p = ready("hard", "spawn")
    t = armed(p, VISIT)
    p.send_signal(signal.SIGUSR1)
    assert p.stdout.readline() == "bad 0\n"
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    clean(p.pid)
    finish(p)


@test
def many_threads():
    """200 threads: all of them log, all are let go"""
    p = ready("simple", "200")
    wait_for(lambda: status(p.pid, "Threads") == "201", what="threads")
    r, ev = trace(p, 1, "p work n=%di:s64 if $arg1 % 2048 == 5")
    assert len({e["tid"] for e in ev}) > 150, (len({e["tid"] for e in ev}), r.stderr)
    clean(p.pid)
    for tid in os.listdir("/proc/%d/task" % p.pid):
        assert status(int(tid), "TracerPid") == "0"
    assert " bad 0" in finish(p)


@test
def stopped():
    """a program stopped by SIGSTOP: E-TARGET-STUCK and still stopped; probed after SIGCONT"""
    p = ready("hard", "plain")
    p.send_signal(signal.SIGSTOP)
    wait_for(lambda: status(p.pid, "State") == "T", what="stop")
    r, ev = trace(p, 0.2, VISIT, check=1)
    assert "E-TARGET-STUCK" in r.stderr, r.stderr
    assert status(p.pid, "State") == "T"
    clean(p.pid)
    p.send_signal(signal.SIGCONT)
    r, ev = trace(p, 0.3, VISIT)
    assert len(ev) > 20
    clean(p.pid)
    finish(p)


@test
def stopped_while_probed():
    """SIGSTOP while probed, removal under it, then SIGCONT: the program goes on, nothing differs"""
    p = ready("hard", "plain")
    t = armed(p, VISIT)
    p.send_signal(signal.SIGSTOP)
    wait_for(lambda: status(p.pid, "State") == "T", what="stop")
    code = stop(t, signal.SIGINT, 60)
    err = text_of(t.err_path)
    assert not code_differs(p.pid), err
    assert status(p.pid, "State") == "T"
    assert code in (0, 1), err
    p.send_signal(signal.SIGCONT)
    wait_for(lambda: status(p.pid, "State") in "SR", what="going on")
    r, ev = trace(p, 0.3, VISIT)
    assert len(ev) > 20, r.stderr
    clean(p.pid)
    finish(p)


@test
def ordinary_user():
    """an ordinary user probes a process of his own, without any rights"""
    if os.getuid():
        raise Skip("only root can become somebody else here")
    setpriv, = need("setpriv")
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        for f in (DPROBES, target("hard")):
            shutil.copy(f, d)
        user = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"]
        p = start(user + [d + "/hard", "plain"], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline().startswith("ready")
        r = subprocess.run(user + [d + "/dprobes", "trace", "--json", "-p", str(p.pid), "--duration", "0.4", VISIT],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        if r.returncode and "E-TARGET-PERM" in r.stderr:
            raise Skip("this kernel lets users trace only their own children")
        assert r.returncode == 0 and len(json_lines(r.stdout)) > 50, r.stderr
        clean(p.pid)
        finish(p)


run()
