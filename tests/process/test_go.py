# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A Go program with every function of its runtime probed: stacks that move, preemption, garbage collection."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

ROUNDS = int(os.environ.get("DP_GO_ROUNDS", "2"))
NEVER = "if %ax == 0x123456789abcd"  # Go passes its first argument there; $arg1 is refused


def gowork(**env):
    if not os.path.exists(target("gowork")):
        raise Skip("go is not installed")
    p = start([target("gowork")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
              env=dict(os.environ, **env))
    assert p.stdout.readline().startswith("ready")
    return p


def goes_on(p):
    """The program still makes progress, and ends well; returns how many rounds its goroutines made."""
    assert p.poll() is None, p.stderr.read()[-6000:]
    assert stop(p, timeout=60) == 0, (p.returncode, p.stderr.read()[-6000:])
    out = p.stdout.read()
    assert "bad 0" in out, out
    return int(re.search(r"calls (\d+)", out).group(1))


def probe(events, seconds, **env):
    p = gowork(**env)
    for _ in range(ROUNDS):
        t = trace_start("-o", "/dev/null", "-p", p.pid, *events)
        try:
            armed(t, p)
            time.sleep(seconds)
            err = finish(t, p)
        except AssertionError:
            if p.poll() is not None:
                raise AssertionError("status %s: %s" % (p.returncode, p.stderr.read()[:6000]))
            raise
        forget(t)
    total = rows_of(err)["total"]
    # A preemption signal that comes during a hit finds the thread busy: its own hits are missed, and counted so.
    assert total["hits"] > 1000 and total["missed"] < total["hits"] / 1000 and not total["lost"], total
    calls = goes_on(p)
    print("# figure: Go, %s: %d probes, %d hits in the last round, goroutines made %d rounds, bad 0"
          % (" ".join(e.split()[0] + " " + e.split()[1] for e in events), probes_of(err), total["hits"], calls))


@test
def entries():
    """all functions at their entries"""
    probe(["p * " + NEVER], 2)


@test
def arguments():
    """$argN is no argument of a Go function: refused, in plain lines and in compiled ones"""
    p = gowork()
    bare = os.path.join(tempfile.mkdtemp(prefix="dp-go-"), "gobare")
    subprocess.run(["strip", "-g", "-o", bare, target("gowork")], check=True)
    for line, command in (("p main.* n=$arg1", ["-p", str(p.pid)]), ("p main.main n=$arg1", ["-p", str(p.pid)]),
                          ("p main.main count by $arg1", ["--", bare])):
        r = subprocess.run([DPROBES, "trace", "-q", line, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=60)
        assert r.returncode and "E-EVENT-ARGN" in r.stderr and "Go" in r.stderr, (line, r.stderr)
    goes_on(p)


@test
def goroutines():
    """$goid is the id that the runtime itself tells of; it is refused by name where there is none"""
    if not os.path.exists(target("gowork")):
        raise Skip("go is not installed")
    out = os.path.join(tempfile.mkdtemp(prefix="dp-go-"), "out")
    t = start([DPROBES, "trace", "--json", "-o", out, "p main.main $goid", "p main.Words $goid if $goid > 1",
               "p:never main.Words if $goid == 0", "p main.Words count by $goid", "--", target("gowork")],
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert t.stdout.readline().startswith("ready"), t.stderr.read()
    wait_for(lambda: len({s for s in re.findall('"goid":([0-9]+)', text_of(out))}) > 16, what="all goroutines")
    pid = int(re.search('"tid":([0-9]+)[^\n]*"main.main"', text_of(out)).group(1))
    with open("/proc/%d/status" % pid) as f:
        pid = int(re.search(r"Tgid:\s+(\d+)", f.read()).group(1))
    os.kill(pid, signal.SIGQUIT)  # the runtime lists its goroutines, and ends
    _, err = t.communicate(timeout=60)
    got = [json.loads(s) for s in open(out)]
    assert not [e for e in got if e["event"] == "never"], got
    assert {e["args"]["goid"] for e in got if e["symbol"] == "main.main"} == {1}, got[:3]
    listed = {int(s) for s in re.findall(r"^goroutine (\d+)[ \[]", err, re.M)} - {0}
    seen = {e["args"]["goid"] for e in got if e["symbol"] == "main.Words"}
    assert len(seen) == 16 and seen <= listed, (seen, listed)
    r = dprobes("trace", "p libc:write $goid", "--", "true")
    assert r.returncode and "E-EVENT-VAR" in r.stderr and "$goid" in r.stderr, r.stderr


@test
def exits():
    """exits of the program's own functions, and entries of all"""
    probe(["p * " + NEVER, "r main.* " + NEVER_R, "r sort.* " + NEVER_R, "r strings.* " + NEVER_R], 2)


@test
def runtime_exits():
    """exits of the functions of the runtime"""
    probe(["r runtime.* " + NEVER_R], 2)


@test
def everything():
    """all entries and all exits"""
    probe(["p * " + NEVER, "r * " + NEVER_R], 2)


@test
def collected():
    """all entries and exits while the garbage collector never rests"""
    probe(["p * " + NEVER, "r * " + NEVER_R], 2, GOGC="1")


@test
def instructions_of_it():
    """all instructions of the program's own functions and of stack growth, maps and the allocator"""
    where = tempfile.mkdtemp(prefix="dp-go-")
    lines = instructions("gowork", target("gowork"), [
        "main.*", "runtime.morestack*", "runtime.newstack*", "runtime.copystack*", "runtime.mallocgc*", "runtime.map*",
        "runtime.scanobject*", "runtime.asyncPreempt*", "runtime.memmove*", "runtime.memclr*", "strings.*", "sort.*",
        "runtime.gcWriteBarrier*", "runtime.wbBuf*", "runtime.mcall*", "runtime.systemstack*", "runtime.gogo*",
        "runtime.findRunnable*", "runtime.schedule*"])
    p = gowork(GOGC="20")
    t = trace_start("-o", "/dev/null", "-p", p.pid, "-f", event_file(where, lines))
    armed(t, p)
    time.sleep(2)
    err = finish(t, p)
    assert probes_of(err) == len(lines), (len(lines), err[-2000:])
    total = rows_of(err)["total"]
    print("# figure: Go, %d instructions probed at once, %d hits, goroutines made %d rounds, bad 0"
          % (len(lines), total["hits"], goes_on(p)))
    forget(t)
    shutil.rmtree(where)


run()
