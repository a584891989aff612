# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""While probes stand, handlers of SIGTRAP and SIGSEGV run as the kernel would run them; detaching while one runs
harms nobody."""
import difflib
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from watching import *  # noqa: E402,F403

NODEFER, ONSTACK, RESTART, RESETHAND, SIGINFO = 0x40000000, 0x08000000, 0x10000000, 0x80000000, 4
USR1, TRAP, SEGV = 1 << (signal.SIGUSR1 - 1), 1 << (signal.SIGTRAP - 1), 1 << (signal.SIGSEGV - 1)
CORES = tempfile.mkdtemp(prefix="dp-cores-")  # where those go that die with one
ROUNDS = int(os.environ.get("DP_ROUNDS", "8"))  # make torture: 200


class Handling(Obedient):
    def __init__(self, flags, mask):
        self.p = start([target("handling"), flags, "%x" % mask], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True, cwd=CORES)
        self.pid = self.p.pid
        assert self.p.stdout.readline() == "ready\n"

    def ask(self, command):
        self.send(command)
        return self.answer()

    def finish(self):
        self.send("end")
        assert self.p.wait(60) == 0


def probed(h):
    """dprobes traces it; both signals come to us first."""
    t = trace_start("-p", h.pid, "p step n=%di")
    wait_for(lambda: t.poll() is not None or in_place(h.pid), what="probes")
    assert t.poll() is None, text_of(t.err_path)
    assert h.ask("taken") == "5\n11\n"
    return t


def unprobed(h, t, sig=signal.SIGINT):
    assert stop(t, sig, 60) == (0 if sig == signal.SIGINT else -sig), text_of(t.err_path)
    if sig == signal.SIGINT:
        assert "stay mapped" not in text_of(t.err_path), text_of(t.err_path)


def is_clean(h):
    assert not code_differs(h.pid), code_differs(h.pid)
    assert not our_mappings(h.pid), our_mappings(h.pid)


def same_text(flags, mask):
    plain, h = Handling(flags, mask), Handling(flags, mask)
    want = plain.ask("run")
    t = probed(h)
    got = h.ask("run")
    unprobed(h, t)
    after = h.ask("run")
    for text, what in ((got, "probed"), (after, "after the probes")):
        assert text == want, "%s, flags %s mask %x\n%s" % (what, flags, mask, "\n".join(
            difflib.unified_diff(want.splitlines(), text.splitlines(), "without probes", what, n=0, lineterm="")))
    assert h.ask("taken") == ""
    is_clean(h)
    plain.finish()
    h.finish()
    return want.count("->")


@test
def every_combination():
    """flags and masks of handlers: 16 actions (8 in short), 60 cases each, as without probes"""
    for n, flags in enumerate(itertools.product((0, NODEFER), (0, ONSTACK), (0, RESTART), (0, RESETHAND))):
        if ROUNDS < 100 and len([f for f in flags if f]) % 2:
            continue  # with any three of them come both values of the fourth in the long run
        cases = same_text("%x" % (SIGINFO | sum(flags)), (0, USR1, USR1 | TRAP | SEGV, SEGV)[(n + n // 4) % 4])
        assert cases >= 60, cases


@test
def no_handler():
    """default actions end the program as ever, ignored signals are ignored"""
    for flags in ("default", "ignore"):
        same_text(flags, 0)


@test
def detach_inside():
    """probes go while the program's handler runs, by end, by another trace after kill -9: it returns, and the
    program goes on"""
    for flags, alt in ((SIGINFO, "none"), (SIGINFO, "there"), (SIGINFO | ONSTACK, "there"),
                       (SIGINFO | ONSTACK, "disarms")):
        h = Handling("%x" % flags, 0)
        for sig, cause in ((5, "raised"), (5, "instruction"), (11, "instruction"), (11, "not-canonical"),
                           (11, "queued")):
            for end in (signal.SIGINT, signal.SIGKILL):
                t = probed(h)
                h.send("wait %d %s %s" % (sig, cause, alt))
                assert h.p.stdout.readline() == "inside\n"
                unprobed(h, t, end)
                if end == signal.SIGKILL:
                    dprobes("trace", "-p", h.pid, "-o", "/dev/null", "--duration", "0.05", "p step", check=0)
                is_clean(h)
                h.send("go on")
                assert h.answer() == "entered 1\n", (flags, alt, sig, cause, h.p.poll())
        assert h.ask("taken") == ""
        h.finish()


def rounds_of(p, events, alive, rounds=ROUNDS):
    """Probes come and go; the program must be there after each round."""
    for n in range(rounds):
        r = dprobes("trace", "-p", p.pid, "-o", "/dev/null", "--duration", "0.1", *events)
        assert p.poll() is None, "round %d: status %s\n%s" % (n, p.returncode, r.stderr)
        assert r.returncode == 0, r.stderr
    alive()
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid), our_mappings(p.pid)


JAVA = """public class Faults {
	static class Node { int value; Node next; }
	static volatile Node none;
	static int depth(int n) { return depth(n + 1) + 1; }
	static long nulls, overflows;
	static void work() {
		for (int i = 0; i < 200; i++) {
			try { nulls += none.value; } catch (NullPointerException e) { nulls++; }
		}
		try { depth(0); } catch (StackOverflowError e) { overflows++; }
	}
	public static void main(String[] args) throws Exception {
		for (int i = 0; i < 3; i++) {
			Thread t = new Thread(() -> { for (;;) work(); });
			t.setDaemon(true);
			t.start();
		}
		System.out.println("ready");
		while (System.in.read() == '\\n')
			System.out.println(nulls > 0 && overflows > 0 ? "ok" : "none");
	}
}
"""


@test
def java():
    """a JVM whose threads meet null pointers and stack overflows all the time"""
    need("java", "javac")
    source = os.path.join(CORES, "Faults.java")
    with open(source, "w") as f:
        f.write(JAVA)
    subprocess.run(["javac", "-d", CORES, source], check=True, timeout=120)
    p = start(["java", "-XX:-OmitStackTraceInFastThrow", "-XX:TieredStopAtLevel=1", "-Xmx64m", "-cp", CORES, "Faults"],
              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CORES)
    assert p.stdout.readline() == "ready\n"

    def alive():
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline() in ("ok\n", "none\n")

    alive()
    rounds_of(p, ["p libc:malloc", "p libc:free", "p libjvm:JVM_*", "p libc:pthread_*"], alive)
    rounds_of(p, ["p libjvm:*signal*", "p libjvm:*Throw*"], alive, 1 + ROUNDS // 4)
    stop(p, signal.SIGKILL)


GO = """package main

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

type node struct{ value int }

var none *node
var faults int64

//go:noinline
func get(n *node) int { return n.value }

//go:noinline
func try() (r int) {
	defer func() {
		if recover() != nil {
			atomic.AddInt64(&faults, 1)
		}
	}()
	return get(none)
}

func main() {
	for i := 0; i < 3; i++ {
		go func() {
			for {
				try()
			}
		}()
	}
	for atomic.LoadInt64(&faults) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(atomic.LoadInt64(&faults) > 0)
	}
}
"""


@test
def go():
    """a Go program whose goroutines dereference nil all the time"""
    need("go")
    source, binary = os.path.join(CORES, "nils.go"), os.path.join(CORES, "nils")
    with open(source, "w") as f:
        f.write(GO)
    subprocess.run(["go", "build", "-o", binary, source], check=True, timeout=300, cwd=CORES,
                   env=dict(os.environ, GO111MODULE="off", CGO_ENABLED="0", GOCACHE=os.path.join(TARGETS, "gocache")))
    p = start([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CORES)
    assert p.stdout.readline() == "ready\n"

    def alive():
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline() == "true\n"

    alive()
    rounds_of(p, ["p main.try", "p main.get", "p runtime.sigpanic", "p runtime.gopanic", "p runtime.mallocgc"], alive)
    stop(p, signal.SIGKILL)


run()
