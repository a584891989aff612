# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes record and report of lines that are compiled to programs: what is shown later is what a trace shows."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shop.c")
NAMES = ("p add_order $qty $label *$o at=$ip", "r add_order $retval qty=$qty", "p do_query $sql $kind if $kind > 1")
TABLES = ("p make count by $n", "p make hist($n)", "p add_order sum($qty) by $label, $o->color",
          "p make count by $backtrace", "r may_fail quantiles($retval)")
BODY = ("begin { largest = 0; }", "p add_order { count(orders, $label); if ($qty > largest) largest = $qty; "
        "log($qty, largest); }", "end { log(largest); print(orders); }")


def path(name):
    return os.path.join(tempfile.tempdir, name)


def shop():
    need("gcc")
    exe = path("shop")
    if not os.path.exists(exe):
        subprocess.run(["gcc", "-g", "-O2", "-w", "-o", exe, SOURCE], check=True)
    return (exe, "3")


def output(command, status=0, **kw):
    r = subprocess.run([DPROBES, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                       stdin=subprocess.DEVNULL, **kw)
    assert r.returncode == status, (r.returncode, command, r.stdout, r.stderr)
    return r


def recorded(name, lines, *options, command=None):
    return output(["record", "-q", "-o", path(name), *options, *lines, "--", *(command or shop())]) and path(name)


def plain(text):
    """Without what differs between two runs: ids, times, processors, addresses, and what the program has printed."""
    text = re.sub(r"\[\d+\] +[\d.]+:|process \d+|-\d+ +(?=\[|:)", "#", text)
    text = re.sub(r"(?<=/shop,)[\d,]+|\b\d+\.\d{9}\b", "#", text)
    text = re.sub(r'"(ts|pid|tid|cpu|time)":[\d.]+|0x[0-9a-f]{6,}|\d{10,}|\d+,\d+\.\d+', "#", text)
    return sorted(line for line in text.splitlines() if not re.fullmatch(r"-?\d+", line))


def same(name, lines, *options, command=None, least=3):
    """A trace and the report of a recording in a format. Returns the report."""
    command = command or shop()
    live = output(["trace", "-q", *options, *lines, "--", *command]).stdout
    later = output(["report", "-q", *options, recorded(name, lines, command=command)]).stdout
    a, b = plain(live), plain(later)
    assert a == b and len(b) >= least, "\n".join(["live:", *a, "later:", *b])
    return later


@test
def names():
    """variables, members, structures, enumerators and results: the same text, JSON and CSV as live"""
    text = same("names.dpt", NAMES)
    assert all(word in text for word in ("name = ", "GREEN", "retail", "<add_order+", "<-add_order")), text
    events = json_lines(same("names.dpt", NAMES, "--json"))
    assert [e["args"]["qty"] for e in events if "label" in e["args"]][:2] == [1, 11], events
    same("names.dpt", ("p add_order $qty $label", "r add_order $retval"), "--format", "csv")


@test
def tables():
    """tables by names, call chains and enumerators, histograms, quantiles: the same as live, at the end"""
    text = same("tables.dpt", TABLES, least=20)
    assert "GREEN" in text and "retail" in text and "make" in text, text
    same("tables.dpt", TABLES, "--json")
    same("tables.dpt", ("p make count by $n",), "--format", "csv")


@test
def bodies():
    """a body that counts and logs; begin, end and print(): the same as live, and in their places"""
    text = same("body.dpt", BODY)
    events = json_lines(same("body.dpt", BODY, "--json"))
    logged = [e["args"] for e in events if "args" in e]
    assert len(logged) == 7 and "orders" in text, text


@test
def system_calls():
    """s *: all calls of a program, with names and flags of their arguments"""
    text = same("calls.dpt", ("s * if $retval >= 0", "s openat count by $retval"), command=("cat", "/dev/null"))
    assert "O_RDONLY" in text and "openat" in text, text


@test
def static_probes():
    """u: static probes with typed arguments, some of them compiled"""
    need("gcc")
    exe = path("marks")
    subprocess.run(["gcc", "-O1", "-g", "-w", "-o", exe, os.path.join(os.path.dirname(SOURCE), "marks.c")], check=True)
    same("marks.dpt", ("u marks:* count by $comm", "u marks:*"), "--json", command=(exe, "3"), least=3)


@test
def whole_formats():
    """formats that are made at the end take a recording of programs; others refuse it, as they refuse the trace"""
    file = recorded("whole.dpt", NAMES + TABLES)
    for name, mark in (("html", b"<html"), ("otlp", b"resourceSpans"), ("pprof", b"")):
        output(["report", "-q", "--format", name, "-o", path("made"), file])
        with open(path("made"), "rb") as f:
            data = f.read()
        assert mark in data and len(data) > 300, (name, len(data))
    err = output(["report", "--format", "chrome", file], status=1).stderr
    assert "E-REC-FORMAT" in err and "chrome" in err, err
    output(["report", "-q", "--format", "recording", "-o", path("again.dpt"), file])
    for how in ((), ("--json",)):
        a, b = (output(["report", "-q", *how, f]).stdout for f in (file, path("again.dpt")))
        assert a == b and a
    info = output(["report", "--info", "--json", file]).stdout
    assert "add_order" in [e["event"] for e in json.loads(info)["events"]], info


@test
def elsewhere():
    """a report needs neither the program nor its files"""
    exe, times = shop()
    copy = path("gone")
    subprocess.run(["cp", exe, copy], check=True)
    file = recorded("gone.dpt", NAMES + TABLES, command=(copy, times))
    here = output(["report", file])
    os.unlink(copy)
    there = output(["report", file])
    assert here.stdout == there.stdout and here.stderr == there.stderr
    assert "add_order" in here.stderr and "TOTAL" in here.stderr.upper(), here.stderr


@test
def cut():
    """a recording that ends anywhere shows what is before; changed bytes end it with a message"""
    file = recorded("cut.dpt", BODY + NAMES)
    with open(file, "rb") as f:
        data = f.read()
    whole = json_lines(output(["report", "-q", "--json", file]).stdout)
    for part in range(1, 12):
        with open(path("short.dpt"), "wb") as f:
            f.write(data[:len(data) * part // 12])
        r = subprocess.run([DPROBES, "report", "-q", "--json", path("short.dpt")], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        got = json_lines(r.stdout)
        assert r.returncode in (0, 1) and got == whole[:len(got)], (part, r.stderr)


def kept(file):
    return [e for e in json_lines(output(["report", "-q", "--json", file]).stdout) if "args" in e]


@test
def several_files():
    """--rotate: each file is a whole recording; together they have each record once"""
    lines = ("p make $n bt=$backtrace", "p make count by $n")
    output(["record", "-q", "-o", path("turn.dpt"), "--rotate", "64k", *lines, "--", shop()[0], "200"])
    files = [path("turn.dpt")]
    while os.path.exists(path("turn.%d.dpt" % (len(files) + 1))):
        files.append(path("turn.%d.dpt" % (len(files) + 1)))
    assert len(files) > 1, files
    stamps = [e["ts"] for f in files for e in kept(f)]
    assert stamps == sorted(stamps) and len(stamps) == 800, len(stamps)
    entries = [t["entries"] for t in json_lines(output(["report", "-q", "--json", files[-1]]).stdout) if "entries" in t]
    assert [e["value"] for e in entries[0]] == [200] * 4, entries


@test
def flight_recorder():
    """--last keeps what came last, and writes it when the event of --dump-on is hit, when asked, and at the end"""
    lines = ("p add_order { count(orders, $label); log($qty); }",)
    output(["record", "-q", "-o", path("last.dpt"), "--last", "64k", "--dump-on", "p deep if $n == 2990", *lines,
            "--", *shop()])
    first = kept(path("last.dpt"))
    assert [e["args"]["$qty"] for e in first if e["args"]] == [1, 11, 2, 12, 3, 13], first
    assert sum(e["event"] == "deep" for e in first) == 1, first
    output(["record", "-q", "-o", path("end.dpt"), "--last", "64k", *lines, "--", *shop()])
    assert [e["args"]["$qty"] for e in kept(path("end.dpt"))] == [1, 11, 2, 12, 3, 13]
    for file in (path("last.dpt"), path("end.dpt")):
        assert '"aggregate"' in output(["report", "-q", "--json", file]).stdout


# ---- the recorder is killed ----

STEPS = """
#include <stdio.h>
#include <unistd.h>

static volatile long steps;

__attribute__((noinline)) long step(long n)
{
	steps += n;
	return steps;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (volatile long n = 1, i;; n++)
		for (step(n), i = 0; i < 20000; i++)
			;
}
"""
NUMBERED = ("p step $n bt=$backtrace", "p step count by ($n & 3)", "p step max($n)", "r step count if $duration > 0")
SAVED = re.compile(r"note: (/.*): saved (\d+) records that a killed recorder had not read, and the tables")
SESSIONS = "/run/dprobes/sessions"


def stepping(name):
    exe = compiled(tempfile.tempdir, name, STEPS, "-g", "-O1")
    p = start([exe], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


def journals(pid):
    kept = os.listdir(SESSIONS) if os.path.isdir(SESSIONS) else []
    return [f for f in kept if f.startswith(".recording-%d-" % pid)]


def ticks(pid):
    with open("/proc/%d/stat" % pid) as f:
        return sum(map(int, f.read().rpartition(")")[2].split()[11:13]))


def child_of(pid, name):
    """The recorder's child of that name: its command, or dprobes-clean, which would take the probes out at once."""
    for child in children_of(pid):
        if text_of("/proc/%d/comm" % child).strip() == name:
            return child
    raise AssertionError("%d has no child %s" % (pid, name))


def kill_recorder(name, processes, *options, least=1 << 13, guard=True, lines=NUMBERED):
    """The recorder's process id; what it left is saved by its guard, or (no guard) by nobody yet."""
    with open(path("recorder.err"), "w") as errors:
        p = start([DPROBES, "record", "-o", path(name), *options, "-p", ",".join(str(t.pid) for t in processes),
                   *lines], stderr=errors)

    def under_way():
        assert p.poll() is None, text_of(path("recorder.err"))
        kept = [int(n) for n in (f.rpartition(".")[2] for f in journals(p.pid)) if n.isdigit()]
        return journals(p.pid) and (os.path.exists(path(name)) and os.path.getsize(path(name)) > least or
                                    max(kept, default=0) >= 3)

    wait_for(under_way, what="records")
    if not guard:
        os.kill(child_of(p.pid, "dprobes-clean"), signal.SIGKILL)
    stop(p, signal.SIGKILL)
    if guard:
        wait_for(lambda: not journals(p.pid), what="the guard")
        return p.pid
    before = [ticks(t.pid) for t in processes]
    wait_for(lambda: all(ticks(t.pid) > n + 1 for t, n in zip(processes, before)), what="hits behind the kill")
    return p.pid


def numbers(file):
    """Of each task, the numbers in a recording that has its end."""
    r = output(["report", "--json", file])
    assert "incomplete" not in r.stderr and "ends in the middle" not in r.stderr, r.stderr
    of = {}
    for e in json_lines(r.stdout):
        if "args" in e:
            assert "main+" in json.dumps(e["args"]["bt"]), e
            of.setdefault(e["task"], []).append(e["args"]["n"])
    return of


def check(of, file):
    """Each number is there once, and but for losses all are; the tables and the counts are of the same hits."""
    summary = json.loads(output(["report", "--info", "--json", file]).stdout)["summary"]
    row, = [e for e in summary["probes"] if e["probe"] == "step"]
    assert sum(map(len, of.values())) == row["recorded"] > 0, (row, of.keys())
    for n in of.values():
        assert n == sorted(set(n)) and n[-1] - n[0] + 1 - len(n) <= row["lost"], (n[0], n[-1], len(n), row)
    tables = [t for t in json_lines(output(["report", "-q", "--json", file]).stdout) if "aggregate" in t]
    counted = sum(e["value"] for t in tables if t["aggregate"] == "step" for e in t["entries"])
    assert counted == row["recorded"] + row["lost"], (counted, row)
    if not row["lost"]:
        largest = sorted(t["value"] for t in tables if t["kind"] == "max")
        assert largest == sorted(n[-1] for n in of.values()), (largest, [n[-1] for n in of.values()])
    return tables


@test
def killed():
    """a killed recorder: what the rings and the tables held is in the recording, each hit once"""
    process = stepping("kills")
    for i in range(4):
        name = "kill%d.dpt" % i
        kill_recorder(name, [process], "--buffer", "8M", least=(i + 1) << 12)
        check(numbers(path(name)), path(name))
    assert not code_differs(process.pid)
    stop(process)


@test
def killed_with_several():
    """whoever cleans, or probes the process next, ends the recording of all its processes"""
    a, b = stepping("several-a"), stepping("several-b")
    for i, command in enumerate((["clean", "-p", str(a.pid)], ["clean", "--all"],
                                 ["trace", "--max-events", "1", "-p", str(b.pid), "p step"])):
        name = "several%d.dpt" % i
        pid = kill_recorder(name, [a, b], "--buffer", "8M", guard=False)
        saved = SAVED.search(output(command).stderr)
        assert saved and saved.group(1) == path(name) and int(saved.group(2)) > 0 and not journals(pid), saved
        of = numbers(path(name))
        assert len(of) == 2
        check(of, path(name))
    assert not code_differs(a.pid) and not code_differs(b.pid)
    stop(a)
    stop(b)


@test
def killed_in_several_files():
    """of --rotate the last file is ended; of --last what was kept is written"""
    process = stepping("files")
    kill_recorder("turns.dpt", [process], "--buffer", "8M", "--rotate", "64k", least=1 << 16)
    files = [path("turns.dpt")]
    while os.path.exists(path("turns.%d.dpt" % (len(files) + 1))):
        files.append(path("turns.%d.dpt" % (len(files) + 1)))
    of = [n for f in files for n in numbers(f).get("files", [])]
    check({"files": of}, files[-1])
    kill_recorder("kept.dpt", [process], "--buffer", "8M", "--last", "64k")
    n, = numbers(path("kept.dpt")).values()
    assert n == sorted(set(n)) and len(n) > 300, len(n)
    stop(process)


@test
def killed_between_files():
    """a file that --rotate has just begun, without a record, goes with its recorder; any other of that name stays"""
    process = stepping("between")
    for i, text in enumerate(("", "not ours\n")):
        name = "next%d.dpt" % i
        kill_recorder(name, [process], "--buffer", "8M", "--rotate", "900M", guard=False)
        with open(path("next%d.2.dpt" % i), "w") as f:
            f.write(text)
        output(["clean", "--all"])
        check(numbers(path(name)), path(name))
        assert os.path.exists(path("next%d.2.dpt" % i)) == bool(text)
    stop(process)


@test
def killed_with_tree():
    """the tables of processes that had ended before, and the body of an end, are in the recording, too"""
    exe = shop()[0]
    steps = compiled(tempfile.tempdir, "tree", STEPS, "-g", "-O1")
    lines = ("p %s:add_order count by $label" % exe, "end { log(7); }", "p %s:add_order { count(orders); }" % exe)
    p = start([DPROBES, "record", "-o", path("tree.dpt"), "--tree", *lines, "--", "sh", "-c",
               "%s 3 >&2; %s 4 >&2; exec %s" % (exe, exe, steps)], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    state, = [f for f in journals(p.pid) if f.endswith(".state")]
    wait_for(lambda: not [f for f in os.listdir(os.path.join(SESSIONS, state)) if f.startswith("target-")],
             what="the recorder to have seen both end")
    command = child_of(p.pid, "tree")
    stop(p, signal.SIGKILL)
    wait_for(lambda: not journals(p.pid), what="the guard")
    os.kill(command, signal.SIGKILL)
    got = json_lines(output(["report", "-q", "--json", path("tree.dpt")]).stdout)
    sums = sorted(sum(e["value"] for e in t["entries"]) for t in got if t.get("aggregate") == "add_order")
    assert sums == [6, 8], got
    assert sum(e.get("args") == {"7": 7} for e in got) == 2, got


@test
def intervals():
    """--interval: tables of then stand among the records, in each format that shows them again, also with --rotate"""
    process = stepping("intervals")
    lines = ("p:mark step $n if ($n & 1023) == 0", "p step count", "p step max($n)")

    def sets(file):
        """The largest number by then of each set of tables, and of the last event before it."""
        found, last = [], 0
        for e in json_lines(dprobes("report", "-q", "--json", file).stdout):
            last = e["args"]["n"] if "args" in e else last
            if e.get("kind") == "max":
                found.append((last, e["value"]))
        return found

    p = start([DPROBES, "record", "-o", path("every.dpt"), "--interval", "0.2", "-p", str(process.pid), *lines])
    wait_for(lambda: os.path.exists(path("every.dpt")) and len(sets(path("every.dpt"))) > 2, what="three sets")
    assert stop(p, signal.SIGINT) == 0
    of = sets(path("every.dpt"))
    assert len(of) > 3 and of == sorted(of), of
    assert all(last <= most for last, most in of) and of[0][1] < of[-1][1] < of[-1][0] + 1024, of
    text = output(["report", "-q", path("every.dpt")]).stdout
    looks = len(re.findall(r"^---- \d\d:\d\d:\d\d$", text, re.M))
    assert looks == len(of) == len(re.findall("max +step_n", text)), text[-3000:]
    assert text.rstrip().splitlines()[-1].split()[-1].replace(",", "") == str(of[-1][1]), text[-300:]
    output(["report", "-q", "--format", "recording", "-o", path("copied.dpt"), path("every.dpt")])
    assert output(["report", "-q", path("copied.dpt")]).stdout == text
    made = output(["report", "-q", "--format", "otlp", path("every.dpt")]).stdout
    times = [int(t) for line in json_lines(made) for t in re.findall(r'"timeUnixNano": ?"(\d+)"',
                                                                     json.dumps(line.get("resourceMetrics", [])))]
    assert len(set(times)) == len(of) and time.time() - min(times) / 1e9 < 3600, (sorted(set(times)), len(of))
    made = output(["report", "-q", "--format", "csv", path("every.dpt")]).stdout
    assert made.count("aggregate,step_n,max,") == len(of), made
    p = start([DPROBES, "record", "-o", path("turning.dpt"), "--interval", "0.1", "--rotate", "64k", "-p",
               str(process.pid), *lines])
    wait_for(lambda: os.path.exists(path("turning.3.dpt")), what="three files")
    assert stop(p, signal.SIGINT) == 0
    most = [most for name in ("turning.dpt", "turning.2.dpt", "turning.3.dpt") for _, most in sets(path(name))]
    assert most == sorted(most) and len(most) >= 3, most
    r = output(["record", "-o", path("none.dpt"), "--interval", "1", "p step", "-p", str(process.pid)], status=2)
    assert "E-CMD-EXTRA" in r.stderr and not os.path.exists(path("none.dpt")), r.stderr
    stop(process)


run()
