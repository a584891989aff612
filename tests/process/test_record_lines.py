# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes record and report of lines that are compiled to programs: what is shown later is what a trace shows."""
import json
import os
import re
import subprocess
import sys
import tempfile

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


run()
