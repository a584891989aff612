# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes record of probe programs (-f FILE.dpc, FILE.rpn, FILE.ppdf, -e with C): the report is what a trace shows."""
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct order { int id; double price; };

__attribute__((noinline)) int take(struct order *o, const char *shop, int n)
{
	o->id += n;
	getppid();
	return n * 2;
}

int main(int argc, char **argv)
{
	struct order o = {7, 1.5};

	if (argc > 3)
		puts("ready"), fflush(stdout);
	for (int i = 1; argc > 3 || i <= atoi(argv[1]); i++) {
		take(&o, i % 2 ? "retail" : "whole \\"sale\\"", i);
		if (argc > 2)
			usleep(atoi(argv[2]));
	}
	return 0;
}
"""
PROGRAM = """#pragma MODNAME("%s")
#pragma MODTYPE(user)
#pragma PROBEPOINT_LOCATION("take")
#pragma PROBEPOINT_HANDLER("taken")
#ifndef LEAST
#define LEAST 0
#endif
void taken()
{
	count(orders, $shop);
	if ($n >= LEAST)
		log($n, $shop, *$o);
	if ($n == 2)
		log_stack();
	if ($n == 3)
		printf("three %%s", $shop);
}
"""
RPN = """name = "%s"
modtype = user
major = 3
logmax = 512

offset = take
minor = 2
	push d, 8; push r, rdi; log mrf
	exit
"""


def path(name):
    return os.path.join(tempfile.tempdir, name)


def shop():
    return compiled(tempfile.tempdir, "shop", SOURCE, "-g", "-O1")


def written(name, text):
    with open(path(name), "w") as f:
        f.write(text)
    return path(name)


def dpc(name="taken.dpc", module=None):
    return written(name, PROGRAM % (module or shop()))


def plain(text):
    """Without what differs between two runs: ids, times, processors, addresses."""
    text = re.sub(r'"ended":\w+| \(ended\)', "", text)  # seen by then, or not
    text = re.sub(r"-\d+ +\[\d+\] +[\d.]+:|process \d+|(?<=/shop,)[\d,]+", "#", text)
    text = re.sub(r'"(time|pid|tid|cpu|ip|sp|data|items|called|return)":("\w*"|[\d.]+|\[.*?\](?=,"fields))', "#", text)
    return re.sub(r"\b\d{10}\.\d{9}\b|(?<=,0,)[0-9a-f]{16,}|(?<=memory = )\w+", "#", text).splitlines()


def same(name, *what, least=5):
    """A trace and the report of a recording, line by line."""
    text = None
    dprobes("record", "-q", "-o", path(name), *what, "--", shop(), 4, check=0)
    for how in ((), ("--json",), ("--format", "csv")):
        live = dprobes("trace", "-q", *how, *what, "--", shop(), 4, check=0).stdout
        later = dprobes("report", "-q", *how, path(name), check=0).stdout
        assert plain(live) == plain(later) and len(plain(later)) >= least, live + "\nlater:\n" + later
        text = text or later
    return text


@test
def forms():
    """handlers in C from a file and on the command line, .rpn and .ppdf: text, JSON and CSV as live, in that order"""
    text = same("dpc.dpt", "-f", dpc())
    assert "price = 1.5" in text and "stack trace of" in text and "three retail" in text, text
    assert text.index("$n=4") < text.index("count orders"), text  # tables come last
    assert same("e.dpt", "-e", PROGRAM % shop()).count("$n=") == 4
    assert same("d.dpt", f"--file={dpc()}", "-D", "LEAST=3", least=3).count("$n=") == 2
    assert same("rpn.dpt", "-f", written("take.rpn", RPN % shop()), least=4).count("memory = ") == 4
    dprobes("build", written("take.rpn", RPN % shop()), "-o", path("take.ppdf"), check=0)
    same("ppdf.dpt", "-f", path("take.ppdf"), least=4)


@test
def called_by_name():
    """a program for a module by its name alone: a command's library, or the command itself, is met from its start"""
    for module, place in (("shop", "take"), ("libc.so.6", "getppid")):
        file = written("short.rpn", (RPN % module).replace('"', "").replace("offset = take", "offset = " + place))
        r = dprobes("trace", "--json", "-f", file, "--", shop(), 4, check=0)
        assert len(json_lines(r.stdout)) >= 4, r.stdout + r.stderr


@test
def counts():
    """the summary names each place, at the end of the recording, in the report and in --info; formats with tables"""
    r = dprobes("record", "-o", path("counts.dpt"), "-f", dpc(), "--", shop(), 4, check=0)
    row = r"^take +jump +4 +4 +0 "
    for text in (r.stderr, dprobes("report", path("counts.dpt"), check=0).stderr,
                 dprobes("report", "--info", path("counts.dpt"), check=0).stdout):
        assert re.search(row, text, re.M), text
    for name, mark in (("html", "<html"), ("otlp", "resourceLogs")):
        dprobes("report", "-q", "--format", name, "-o", path("made"), path("counts.dpt"), check=0)
        assert mark in text_of(path("made"))
    r = dprobes("report", "--format", "chrome", path("counts.dpt"))
    assert r.returncode == 1 and "E-REC-FORMAT" in r.stderr, r.stderr


@test
def several_files():
    """--rotate, --last with SIGUSR1, and --max-events, with a program"""
    dprobes("record", "-q", "-o", path("turn.dpt"), "--rotate", "64k", "-f", dpc(), "--", shop(), 1500, 200, check=0)
    seen = [n for f in files_of("turn") for n in numbers(f)]
    assert len(files_of("turn")) > 1 and seen == list(range(1, 1501)), len(seen)
    r = dprobes("record", "-o", path("few.dpt"), "--max-events", 2, "-f", dpc(), "--", shop(), 50, check=0)
    assert numbers(path("few.dpt")) == [1, 2] and "2 events shown" in r.stderr, r.stderr
    process = running("2000")
    p = start([DPROBES, "record", "-o", path("last.dpt"), "--last", "64k", "-f", dpc(), "-p", str(process.pid)])
    wait_for(lambda: standing(process.pid, "take"), what="the probe")
    for name in ("last.dpt", "last.2.dpt"):
        p.send_signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(path(name)), what=name)
        ready = pauses(process.pid) + 100
        wait_for(lambda: pauses(process.pid) > ready, what="hits")
    assert stop(p, signal.SIGINT) == 0
    seen = [n for f in files_of("last") for n in numbers(f)]
    assert len(files_of("last")) == 3 and len(seen) > 100 and seen == list(range(seen[0], seen[-1] + 1)), seen
    stop(process)


def pauses(pid):
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text_of("/proc/%d/status" % pid), re.M)[1])


def files_of(name):
    files = [path(name + ".dpt")]
    while os.path.exists(path("%s.%d.dpt" % (name, len(files) + 1))):
        files.append(path("%s.%d.dpt" % (name, len(files) + 1)))
    return files


def numbers(file):
    records = json_lines(dprobes("report", "-q", "--json", file).stdout)
    return [f["value"] for e in records for f in e.get("fields", []) if f.get("name") == "$n"]


def running(pause="100"):
    p = start([shop(), "0", pause, "on"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def journals(pid):
    return [f for f in os.listdir("/run/dprobes/sessions") if f.startswith(".recording-%d-" % pid)]


@test
def killed():
    """what the rings and the tables held when the recorder was killed is in the recording, each hit once"""
    process = running()
    p = start([DPROBES, "record", "-o", path("kill.dpt"), "-f", dpc(), "-p", str(process.pid)])
    wait_for(lambda: os.path.exists(path("kill.dpt")) and os.path.getsize(path("kill.dpt")) > 1 << 14, what="records")
    stop(p, signal.SIGKILL)
    wait_for(lambda: not journals(p.pid), what="the guard")
    assert not code_differs(process.pid)
    n = numbers(path("kill.dpt"))
    r = dprobes("report", "--json", path("kill.dpt"), check=0)
    assert n == list(range(n[0], n[-1] + 1)) and "incomplete" not in r.stderr, (n[0], n[-1], len(n), r.stderr)
    table, = [t for t in json_lines(r.stdout) if "aggregate" in t]
    assert sum(e["value"] for e in table["entries"]) == len(n), table
    stop(process)


@test
def command_line():
    """what a program cannot be recorded with is refused, with what it can"""
    for args, code, hint in ((("-f", dpc()), "E-CMD-MISSING", "-o run.dpt"),
                             (("-f", dpc(), "-o", path("no.dpt"), "--dump-on", "p take"), "E-CMD-MISSING", "--last"),
                             (("-f", dpc(), "-o", path("no.dpt"), "--json"), "E-CMD-OPTION", "dprobes report --json"),
                             (("-f", dpc(), "-o", path("no.dpt"), "--keep", "2"), "E-CMD-MISSING", "--rotate")):
        r = dprobes("record", *args, "--", shop(), 4)
        assert r.returncode == 2 and code in r.stderr and hint in r.stderr, r.stderr
    assert not os.path.exists(path("no.dpt"))


@test
def standard_output():
    """-o - is standard output, of programs and of events; not where there are several files"""
    for what in (("-f", dpc()), ("p take n=%di",)):
        r = subprocess.run([DPROBES, "record", "-q", "-o", "-", *what, "--", shop(), "4"], stdout=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, check=True, cwd=tempfile.tempdir)
        with open(path("piped.dpt"), "wb") as f:
            f.write(r.stdout)
        assert dprobes("report", "-q", path("piped.dpt"), check=0).stdout.count("@take+0") == 4
    r = dprobes("record", "-o", "-", "--last", "64k", "p take", "--", shop(), 4)
    assert r.returncode == 2 and "E-CMD-VALUE" in r.stderr and not os.path.exists(path("-")), r.stderr


run()
