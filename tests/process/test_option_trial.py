# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Every option with every command that takes lines: it works, or is refused by its name, with a reason and a hint."""
import os
import re
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

os.environ["DPROBES_DIR"] = os.path.join(tempfile.tempdir, "driver")
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct item { int id; double price; };
int total;
struct item one = {3, 2.5};
__attribute__((noinline)) int inner(int n)
{
	total += n;
	asm volatile("nop; nop; nop; nop; nop");
	return n * 3 + total % 2;
}
__attribute__((noinline)) int work(struct item *o, int n)
{
	int r = inner(n) + inner(o->id);
	asm volatile("nop; nop; nop; nop; nop");
	return r;
}
int main(void)
{
	int sum = 0;
	puts("ready");
	fflush(stdout);
	for (int i = 0;; i++) {
		sum += work(&one, i);
		free(malloc(i % 100));
		usleep(1000);
	}
}
"""
C = """#ifndef LEAST
#define LEAST 0
#endif
#pragma MODNAME("%s")
#pragma PROBEPOINT_LOCATION("work")
#pragma PROBEPOINT_HANDLER("seen")
void seen() { if ($n >= LEAST) log($n); count(calls, 1); }
"""
RPN = """name = "%s"
modtype = user
major = 3
logmax = 512

offset = work
minor = 1
	push r, rsi; log 1
	exit
"""
LINE, NAMES, BODY, TABLE = "p work n=%si", "p work $n $o->price", "p work { log($n); }", "p work count by $n"


def path(name):
    return os.path.join(tempfile.tempdir, name)


def program():
    return compiled(tempfile.tempdir, "trial", SOURCE, "-g", "-O1")


def written(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def options_of(name, form=1):
    """What `dprobes help` lists: --name -> whether it has a value."""
    text = ("\n" + dprobes("help", name, check=0).stdout).split("\nusage:")[form].split("\nOptions:\n")[1]
    return {n: bool(v) for n, v in re.findall(r"^  (?:-\w, |    )(--[a-z-]+)( \S+)?(?:  |$)", text, re.M)}


COMMANDS = ("trace", "record", "run", "graph", "top", "watch", "serve", "report", "insert")
VALUES = {"--all": program, "--user": "root", "--comm": "tria*", "--cgroup": "/", "--event": "p inner n=%di",
          "--define": "LEAST=5", "--output": path("out"), "--format": "json", "--duration": "0.2", "--max-events": "3",
          "--max-rate": "1000000", "--until": "p inner if %di > 2", "--keep-if": "r work if $duration >= 0ns",
          "--interval": "0.1", "--buffer": "256K", "--budget": "50", "--rotate": "1M", "--keep": "2", "--last": "1M",
          "--dump-on": "p inner if %di == 3", "--min": "1ns", "--depth": "1", "--only": "work", "--sample": "99",
          "--count": "2", "--callers": "3", "--jit": "on"}
# What an option cannot be without.
NEEDS = {"--keep-outside": ["--keep-if", VALUES["--keep-if"]], "--keep-unfinished": ["--keep-if", VALUES["--keep-if"]],
         "--keep": ["--rotate", "1M"], "--dump-on": ["--last", "1M"], "--user": ["--comm", "tria*"]}
SELECTS = ("--pid", "--all", "--user", "--comm", "--cgroup", "--container", "--unit")
# test_select.py and test_otlp.py have what these need.
ELSEWHERE = ("--help", "--container", "--unit", "--endpoint")
ONLY_C = {o: "E-CMD-EXTRA.*only programs in C" for o in ("--until", "--keep-if", "--keep-outside", "--keep-unfinished",
                                                         "--dump-on", "--event", "--file")}
PAGES = {"--pages": "E-CMD-EXTRA.*--pages is for watchpoints"}
PLAIN = {"--define": "E-CMD-EXTRA.*-D has no effect on these lines",
         "--interval": "E-CMD-EXTRA.*--interval has no effect on these lines"}


def target_process():
    p = start([program()], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def ran(command, option, value, head, tail, pid):
    args = [command, *head]
    out = VALUES["--output"] if option == "--output" else path("out%s.dpt" % option)
    if os.path.exists(out):
        os.unlink(out)
    if command == "record" and option != "--output":
        args += ["-o", out]
    if option not in SELECTS:
        args += ["-p", str(pid)]
    if option not in ("--duration", "--count"):
        args += ["--duration", "0.2"]
    args += [option] + ([value] if value else []) + NEEDS.get(option, [])
    r = dprobes(*args, *tail)
    shown = r.stdout
    if (command == "record" or option == "--output") and os.path.exists(out):
        with open(out, "rb") as f:
            shown += "x" * bool(f.read(100))
    return r, shown


def trial(command, head, tail, form=1, refused=None, values=None, together=3):
    """All options of all commands, so many at a time: most of the time each waits. refused: option -> what is said, of
    those that the help has and that cannot be."""
    known = options_of(command, form)
    every = {o for c in COMMANDS for o in options_of(c)}
    process = target_process()
    given = dict(VALUES, **(values or {}))
    given["--pid"] = str(process.pid)
    given.setdefault("--file", written("lines.txt", LINE + "\n"))

    def one(option):
        value = given.get(option)
        value = value() if callable(value) else value
        if option not in known:
            r = dprobes(command, *head, option)
            good = r.returncode == 2 and re.search(r"E-CMD-OPTION: .*%s.*\nhint: " % option, r.stderr)
        elif option in (refused or {}):
            r, _ = ran(command, option, value if known[option] else None, head, tail, process.pid)
            good = r.returncode and re.search(refused[option] + r"[^\0]*\nhint: ", r.stderr)
        else:
            assert not known[option] or value, option
            r, shown = ran(command, option, value if known[option] else None, head, tail, process.pid)
            good = r.returncode == 0 and shown
        return None if good else (option, r.returncode, r.stdout[-200:], r.stderr[-600:])

    with ThreadPoolExecutor(together) as pool:
        wrong = list(filter(None, pool.map(one, sorted(every - set(ELSEWHERE)))))
    assert not wrong, "\n".join(map(str, wrong))
    assert not code_differs(process.pid)
    stop(process)


@test
def trace_line():
    """dprobes trace of a line of registers"""
    trial("trace", [], [LINE], refused=PLAIN)


@test
def trace_names():
    """dprobes trace of a line of names"""
    trial("trace", [], [NAMES], refused=PAGES)


@test
def trace_body():
    """dprobes trace of a line with a body"""
    trial("trace", [], [BODY], refused=PAGES)


@test
def trace_table():
    """dprobes trace of a table"""
    trial("trace", [], [TABLE], refused=PAGES, values={"--format": "csv"})


@test
def trace_c():
    """dprobes trace -f FILE.dpc, and lines beside it"""
    trial("trace", ["-f", written("c.dpc", C % program())], [], form=2)


@test
def trace_c_text():
    """dprobes trace -e with C"""
    trial("trace", ["-e", C % program()], [], form=2)


@test
def trace_rpn():
    """dprobes trace -f FILE.rpn"""
    trial("trace", ["-f", written("r.rpn", RPN % program())], [], form=2, refused=ONLY_C)


@test
def record_line():
    """dprobes record of a line of registers"""
    trial("record", [], [LINE], refused=PLAIN)


@test
def record_names():
    """dprobes record of a line of names"""
    trial("record", [], [NAMES], refused=PAGES)


@test
def record_c():
    """dprobes record -f FILE.dpc"""
    trial("record", ["-f", written("c.dpc", C % program())], [], form=2)


@test
def record_rpn():
    """dprobes record -f FILE.rpn"""
    trial("record", ["-f", written("r.rpn", RPN % program())], [], form=2, refused=ONLY_C)


@test
def run_recipe():
    """dprobes run"""
    trial("run", ["malloc-sizes"], [], refused=PAGES, values={"--keep-if": "r work if $duration >= 0ns"})


@test
def graph():
    """dprobes graph"""
    trial("graph", [], ["work", "inner"], values={"--depth": "2"})


@test
def top():
    """dprobes top of functions, and of events"""
    refused = {"--sample": "E-CMD-EXTRA.*--sample samples all functions"}
    trial("top", ["--plain"], ["work"], refused=refused)
    trial("top", ["--plain"], ["r work"],
          refused=dict(refused, **{"--budget": "E-CMD-EXTRA.*--budget has no effect on event lines"}))


@test
def watch():
    """dprobes watch"""
    # Pages are watched in one process only, its children need a register; and by one dprobes at a time.
    trial("watch", [], ["total"], refused={"--children": "E-WATCH-DEAD"} if debug_registers() is False else None,
          together=1)


@test
def report():
    """dprobes report: what it does not have is refused, and it ends by itself"""
    process = target_process()
    dprobes("record", "-o", path("r.dpt"), "-p", process.pid, "--duration", "0.3", LINE, "r work n=%si", check=0)
    stop(process)
    known, every = options_of("report"), {o for c in COMMANDS for o in options_of(c)}
    for option in sorted(every - set(ELSEWHERE)):
        if option not in known:
            r = dprobes("report", option)
            assert r.returncode == 2 and re.search(r"E-CMD-OPTION: .*%s.*\nhint: " % option, r.stderr), r.stderr
            continue
        also = ["--format", "graph"] if option in ("--min", "--summary", "--depth", "--only") else []
        r = dprobes("report", option, *([VALUES[option]] if known[option] else []), *also, path("r.dpt"), check=0)
        assert r.stdout or os.path.getsize(VALUES["--output"]), option


@test
def insert():
    """dprobes insert, and -i"""
    process = target_process()
    known, every = options_of("insert"), {o for c in COMMANDS for o in options_of(c)}
    file = written("i.rpn", RPN % program())
    given = dict(VALUES, **{"--pid": str(process.pid), "--define": "A=1", "--sym": program(), "--group": "1",
                            "--type": "1", "--log": "ALL", "--log-target": "JOURNALD"})
    refused = {"--group": "E-RPN-", "--type": "E-RPN-", "--uprobes": "E-KERNEL-|E-CMD-", "--log-target": "E-"}
    for option in sorted(every - set(ELSEWHERE)):
        if option not in known:
            for head in ["insert"], ["-i"]:
                r = dprobes(*head, option)
                assert r.returncode == 2 and re.search(r"E-CMD-OPTION: .*%s.*\nhint: " % option, r.stderr), r.stderr
            continue
        if option == "--uprobes" and os.path.exists("/dev/dprobes"):
            continue
        also = [] if option in ("--pid", "--uprobes") else ["-p", str(process.pid)]
        r = dprobes("insert", file, option, *([given[option]] if known[option] else []), *also)
        good = r.returncode == 0 or re.search(refused.get(option, "none") + r"[^\0]*\nhint: ", r.stderr)
        assert good, (option, r.stdout, r.stderr)
        dprobes("remove", "--all")
    dprobes("remove", "--all")
    stop(process)


@test
def serve():
    """dprobes serve: each option that chooses processes or lines is seen in the metrics"""
    process = target_process()
    known, every = options_of("serve"), {o for c in COMMANDS for o in options_of(c)}
    given = dict(VALUES, **{"--pid": str(process.pid), "--file": written("tables.txt", TABLE + "\n"),
                            "--event": "p inner count by $n"})
    for option in sorted(every - set(ELSEWHERE)):
        if option not in known:
            r = dprobes("serve", option)
            assert r.returncode == 2 and re.search(r"E-CMD-OPTION: .*%s.*\nhint: " % option, r.stderr), r.stderr
    for option in sorted(set(known) - set(ELSEWHERE) - {"--listen", "--api", "--allow-writes", "--public"}):
        place = path("serve-%s.sock" % option.strip("-"))
        value = given.get(option)
        value = value() if callable(value) else value
        args = [option] + ([value] if known[option] else []) + NEEDS.get(option, [])
        args += [] if option in SELECTS else ["-p", str(process.pid)]
        p = start([DPROBES, "serve", "--listen", "unix:" + place, *args, TABLE], stderr=subprocess.PIPE, text=True)

        def answer():
            if p.poll() is not None:
                raise AssertionError((option, p.stderr.read()))
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(place)
                    s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    return b'work' in b"".join(iter(lambda: s.recv(65536), b""))
            except OSError:
                return False

        wait_for(answer, what="metrics with " + option)
        stop(p, 2)
    stop(process)


run()
