# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes top: lines and JSON of functions and of events, and the screen, on a terminal of the test's own."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from screen import Terminal  # noqa: E402

BUSY = target("busy")


def busy(what="calls"):
    p = start([BUSY, what], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    return p


def objects(*args, **kw):
    """The turns of dprobes top --json: each with its rows by name."""
    text = dprobes("top", "--json", *args, **kw).stdout
    found = [json.loads(line) for line in text.splitlines() if line != "ready"]
    for turn in found:
        turn["by_name"] = {row["name"]: row for row in turn["rows"]}
    return found


@test
def functions():
    """functions as JSON: exact counts, times of calls, self and total; without a pattern all of the executable"""
    p = busy()
    turns = objects("-p", p.pid, "--count", 3, "--interval", 0.2)
    assert [turn["turn"] for turn in turns] == [1, 2, 3], turns
    rows = turns[-1]["by_name"]
    assert set(rows) == {"outer", "middle", "leaf", "idle"} and turns[-1]["kind"] == "functions", turns[-1]
    assert abs(rows["middle"]["hits"] - 2 * rows["outer"]["hits"]) <= 2, rows
    assert abs(rows["leaf"]["hits"] - 4 * rows["outer"]["hits"]) <= 4, rows
    assert rows["outer"]["hits"] > turns[0]["by_name"]["outer"]["hits"] > 0 < rows["outer"]["rate"], turns
    assert rows["idle"]["median_ns"] >= 900000 <= rows["idle"]["mean_ns"] and rows["idle"]["p99_ns"] <= \
        rows["idle"]["max_ns"], rows["idle"]
    assert rows["idle"]["self_ns"] == rows["idle"]["total_ns"], rows["idle"]
    assert rows["outer"]["total_ns"] > rows["outer"]["self_ns"] + rows["middle"]["self_ns"] // 2, rows
    rates = [row["rate"] for row in turns[-1]["rows"]]
    assert rates == sorted(rates, reverse=True), rates
    stop(p)


@test
def lines():
    """as lines: heads, aligned columns, units; a pattern; nothing of a terminal's"""
    p = busy()
    text = dprobes("top", "-p", p.pid, "--count", 2, "--interval", 0.2, "exe:[oi]*").stdout
    assert "\x1b" not in text and text.count("RATE/S") == 2, text
    rows = [line.split() for line in text.split("RATE/S")[-1].splitlines()[1:] if line]
    assert {row[-1] for row in rows} == {"outer", "idle"}, text
    idle = next(row for row in rows if row[-1] == "idle")
    assert idle[5].endswith("ms") and float(idle[5][:-2]) >= 0.9, text
    assert "busy (%d)" % p.pid in text and "2 of 2 functions hit" in text, text
    stop(p)


@test
def events():
    """event lines: a row each, times of returns, tables and histograms; patterns have a row for each function"""
    p = busy()
    turn = objects("-p", p.pid, "--count", 2, "--interval", 0.2, "r outer", "p leaf hist($arg1)",
                   "p idle count by $caller", "r:mid middle $retval if $retval > 0", "r [o]ute* $duration")[-1]
    rows = turn["by_name"]
    assert set(rows) == {"<-outer", "leaf", "idle", "mid"}, rows
    assert rows["<-outer"]["mean_ns"] > 0 < rows["<-outer"]["p99_ns"] and rows["mid"]["median_ns"] > 0, rows
    assert "mean_ns" not in rows["leaf"] and "self_ns" not in rows["<-outer"], rows
    tables = {(t["aggregate"], t["kind"]) for t in turn["tables"]}
    assert tables == {("leaf_arg1", "hist"), ("idle", "count")}, turn["tables"]
    text = dprobes("top", "-p", p.pid, "--count", 1, "--interval", 0.2, "p leaf hist($arg1)").stdout
    assert "64 .. 127" in text and "|###" in text, text
    stop(p)


@test
def commands():
    """a command is started under probes; what was counted last is shown when it ends"""
    turn = objects("--interval", 100, "--", BUSY, "calls", 50, check=0)[-1]
    hits = {name: row["hits"] for name, row in turn["by_name"].items() if name in ("outer", "middle", "leaf", "idle")}
    assert hits == {"outer": 50, "middle": 100, "leaf": 200, "idle": 50}, turn
    r = dprobes("top", "--plain", "--interval", 100, "r outer", "--", BUSY, "calls", 50, check=0)
    assert r.stdout.count("RATE/S") == 1 and re.search(r"\b50 .* <-outer$", r.stdout, re.M), r


@test
def mistakes():
    """patterns and lines together, no process, a mistake in a line: told, and nothing is probed"""
    p = busy()
    for args, said in ((("-p", p.pid, "outer", "p leaf"), "E-CMD-EXTRA"), ((), "E-CMD-MISSING"),
                       (("-p", p.pid, "r outer $nothing if 1 < 2"), "nothing"),
                       (("-p", p.pid, "--count", "0"), "E-CMD-VALUE"),
                       (("-p", p.pid, "nosuch"), "E-SYM-NONE")):
        r = dprobes("top", *args, check=None)
        assert r.returncode and said in r.stderr and "top_times" not in r.stderr and not r.stdout, (args, r)
    stop(p)


def sampled(p, *args):
    r = dprobes("top", "-p", p.pid, "--sample", 499, "--interval", 0.3, *args)
    if "E-SAMPLE-PERF" in r.stderr:
        raise Skip("this kernel does not allow perf events of the software clock: %s" % r.stderr.splitlines()[0])
    assert r.returncode == 0, r
    return r


# A filter that makes perf_event_open() fail, and then the command.
NO_PERF = """
import ctypes, os, struct, sys
code = b"".join(struct.pack("HBBI", *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, 298), (6, 0, 0, 0x50001),
                                                  (6, 0, 0, 0x7fff0000)))
text = ctypes.create_string_buffer(code)
libc = ctypes.CDLL(None)
prog = struct.pack("HxxxxxxQ", 4, ctypes.addressof(text))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def without_perf(*args):
    return subprocess.run([sys.executable, "-c", NO_PERF, DPROBES, *map(str, args)], capture_output=True, text=True)


@test
def samples():
    """--sample: the hot function of a spinning program, its callers' share, the means; nothing is probed"""
    p = busy("spin")
    r = sampled(p, "--json", "--count", 3)
    turn = json.loads(r.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in turn["rows"]}
    assert turn["kind"] == "samples" and turn["samples"] > 20, turn
    assert turn["rows"][0]["name"] == "hot" and rows["hot"]["self_percent"] > 60, turn
    assert rows["spin"]["total_percent"] > 90 > 50 > rows["spin"]["self_percent"], turn
    assert rows["main"]["total_percent"] > 90, turn
    r = sampled(p, "--count", 1)
    assert "perf events" in r.stderr and re.search(r"^ +\d+ +[\d.]+ +[\d.]+ .* hot$", r.stdout, re.M), r
    assert str(p.pid) not in dprobes("list", check=0).stdout
    t = on_screen(p, "--sample", 499)
    t.wait(lambda s: re.search(r"SELF%.*\n.* hot$", s, re.M), "hot() first")
    t.type("\n")
    t.wait(lambda s: re.search(r"CALLERS.*\n.* spin$", s, re.M), "its caller")
    t.type("d")
    t.see("E-ARM-CHANGE")
    t.type("\x1b")
    t.see("h help")
    stop(p)
    assert t.ended() == 0 and t.restored() is True and "hot" in t.screen.text()


@test
def samples_without_perf_events():
    """where the kernel has no perf events, running threads are stopped for a moment: the same shares, and a program
    that gets signals and sleeps in epoll_wait() sees nothing of it"""
    code = """
import os, select, signal, threading, time
hits = 0
def on(sig, frame):
    global hits
    hits += 1
signal.signal(signal.SIGALRM, on)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
poll, failed, end = select.epoll(), 0, time.monotonic() + 60
print("ready", flush=True)
def spin():
    while time.monotonic() < end:
        pass
threading.Thread(target=spin, daemon=True).start()
while not os.path.exists(%r):
    poll.poll(0.0005)
print(hits > 10, flush=True)
os._exit(0)
"""
    stop_file = os.path.join(tempfile.mkdtemp(), "stop")
    other = start([sys.executable, "-c", code % stop_file], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "ready\n"
    p = busy("spin")
    r = without_perf("top", "-p", p.pid, "--sample", 499, "--interval", 0.5, "--json", "--count", 2)
    turn = json.loads(r.stdout.splitlines()[-1])
    rows = {row["name"]: row for row in turn["rows"]}
    assert turn["samples"] > 20 and turn["rows"][0]["name"] == "hot" and rows["hot"]["self_percent"] > 60, turn
    assert rows["spin"]["total_percent"] > 90 and rows["main"]["total_percent"] > 90, turn
    r = without_perf("top", "-p", other.pid, "--sample", 999, "--count", 2, "--interval", 0.5)
    assert r.returncode == 0 and "by stopping each thread that runs" in r.stderr and ", by stops" in r.stdout, r
    with open("/proc/%d/status" % other.pid) as f:
        assert "TracerPid:\t0\n" in f.read()
    open(stop_file, "w").close()
    assert other.stdout.readline() == "True\n" and other.wait(30) == 0
    stop(p)


@test
def sample_mistakes():
    """--sample with lines, a command, no process, or a wrong rate: told"""
    for args, said in ((("-p", os.getpid(), "--sample", 99, "p f"), "E-CMD-EXTRA"), (("--sample", 99), "E-CMD-MISSING"),
                       (("-p", os.getpid(), "--sample", 20000), "E-CMD-VALUE"),
                       (("-p", os.getpid(), "--sample", "x"), "E-CMD-VALUE"),
                       (("--sample", 99, "--", BUSY), "E-CMD-MISSING")):
        r = dprobes("top", *args)
        assert r.returncode and said in r.stderr and not r.stdout, (args, r)


# ---- the screen ----


def rows_of(text):
    """Rows on the screen by name: their cells."""
    found = {}
    for line in text.split("\n")[2:]:
        cells = line.split()
        name = cells[-2] if cells and cells[-1] == "(disabled)" else cells[-1] if cells else ""
        if re.fullmatch(r"(<-)?[a-z]+", name) and len(cells) > 5 and re.match(r"[\d.]", cells[0]):
            found[name] = cells
    return found


def on_screen(p, *args, **kw):
    if json.loads(dprobes("--version", "--json").stdout)["ncurses"] == "not in this build":
        raise Skip("this build has no ncurses")
    return Terminal([DPROBES, "top", "-p", p.pid, "--interval", 0.1, *args], **kw)


def order(t):
    return list(rows_of(t.screen.text()))


def number(text):
    return float(text.rstrip("kM")) * {"k": 1e3, "M": 1e6}.get(text[-1], 1)


@test
def keys():
    """the screen: rows, sort, filter, pause, callers and callees, reset, help; q restores the terminal"""
    p = busy()
    t = on_screen(p)
    t.wait(lambda s: {"outer", "middle", "leaf", "idle"} <= set(rows_of(s)), "four rows")
    t.wait(lambda s: list(rows_of(s))[0] == "leaf", "sorted by rate")
    for _ in range(8):
        t.type(">")
    t.wait(lambda s: list(rows_of(s))[:4] == ["idle", "leaf", "middle", "outer"], "sorted by name")
    t.type("i")
    t.wait(lambda s: list(rows_of(s))[-4:] == ["outer", "middle", "leaf", "idle"], "the other way round")
    t.type("i3")
    t.wait(lambda s: list(rows_of(s))[0] == "idle", "sorted by total time")
    t.type("/idlx")
    t.wait(lambda s: not rows_of(s) and "filter: idlx" in s, "a filter that matches nothing")
    t.type("\x7f\n")
    t.wait(lambda s: set(rows_of(s)) == {"idle"} and "/idl" in s, "the filter")
    t.type("\x1b")
    t.wait(lambda s: len(rows_of(s)) >= 4, "all rows again")
    t.type("/middle\n")
    t.wait(lambda s: set(rows_of(s)) == {"middle"}, "middle alone")
    t.type("\n")
    t.wait(lambda s: "CALLERS" in s and "CALLEES" in s and re.search(r"outer$", s, re.M) and
           re.search(r"leaf$|none are known", s, re.M), "callers and callees")
    t.type("\n")
    t.wait(lambda s: re.search(r"CALLERS.*\n.* main$", s, re.M) and "outer" in rows_of(s), "the caller's own page")
    t.type("\x1b")
    t.type("\x1b")
    t.see("h help")
    t.type("h")
    t.see("pause, and go on")
    t.type("x ")
    t.see("PAUSED")
    while t.read(0.2):  # the rest of the picture
        pass
    seen = t.screen.text().split("\n")[2:]
    assert not t.read(0.3)
    assert t.screen.text().split("\n")[2:] == seen
    t.type(" ")
    t.wait(lambda s: "PAUSED" not in s and s.split("\n")[2:] != seen, "going on")
    t.wait(lambda s: number(rows_of(s).get("outer", "00")[1]) > 300, "many hits")
    t.type("r")
    t.wait(lambda s: 0 < number(rows_of(s).get("outer", "00")[1]) < 300, "a reset")
    t.type("q")
    assert t.ended() == 0 and t.restored() is True, (t.restored(), t.screen.text())
    assert "outer" in rows_of(t.screen.text()), t.screen.text()  # the last picture
    assert dprobes("verify", "-p", p.pid).returncode == 0
    stop(p)


def hits_of(t, name):
    return number(t.wait(lambda s: rows_of(s).get(name), name)[1])


def goes_off_and_on(p, name, *args, beside=None):
    t = on_screen(p, *args)
    t.wait(lambda s: name in rows_of(s) and number(rows_of(s)[name][0]) > 0, "hits of %s" % name)
    t.type("/%s\n" % name.lstrip("<-"))
    t.wait(lambda s: set(rows_of(s)) == {name}, name)
    others = beside() if beside else 0
    t.type("d")
    t.wait(lambda s: "(disabled)" in s and number(rows_of(s)[name][0]) == 0, "no hits any more")
    hits = hits_of(t, name)
    t.read(0.5)
    assert hits_of(t, name) == hits, t.screen.text()
    listed = dprobes("list", "-p", p.pid, check=0).stdout
    assert len(re.findall(r"\b%s\b" % name.lstrip("<-"), listed)) == others, listed
    t.type("d")
    t.wait(lambda s: "(disabled)" not in s and number(rows_of(s)[name][0]) > 0 and
           number(rows_of(s)[name][1]) > hits, "hits again")
    t.type("q")
    assert t.ended() == 0
    assert beside or dprobes("verify", "-p", p.pid).returncode == 0


@test
def disabled():
    """d takes the probes of a row out of the process, and puts them back: of a function, of a line, of the only one"""
    p = busy()
    goes_off_and_on(p, "outer")
    goes_off_and_on(p, "outer", "exe:outer")
    goes_off_and_on(p, "<-outer", "r outer", "p middle")
    goes_off_and_on(p, "outer", "p outer")
    stop(p)


@test
def disabled_beside_others():
    """d at an instruction that a trace probes too, which was there first or has come since"""
    p = busy()

    def other():
        t = trace_start("-p", p.pid, "-o", "/dev/null", "p outer count()")
        wait_for(lambda: standing(p.pid, " dprobes %d" % t.pid), what="the trace")
        traces.append(t)
        return 1

    traces = []
    goes_off_and_on(p, "outer", "p outer", beside=other)
    goes_off_and_on(p, "outer", "p outer", beside=lambda: 1)
    assert stop(traces[0], signal.SIGINT) == 0, text_of(traces[0].err_path)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    stop(p)


@test
def resizing():
    """a terminal that changes its size: all of the new screen is used, and no more"""
    p = busy()
    t = on_screen(p, "p leaf hist($arg1)", "p outer", rows=30, columns=120)
    t.wait(lambda s: "outer" in rows_of(s) and "64 .. 127" in s, "rows and a histogram")
    for rows, columns in ((12, 50), (5, 20), (2, 8), (40, 160)):
        t.size(rows, columns)
        t.wait(lambda s: s.split("\n")[-1].startswith("q quit"[:columns]), "the last of %d lines" % rows)
    t.wait(lambda s: "outer" in rows_of(s) and "64 .. 127" in s and len(s.split("\n")) == 40, "rows again")
    t.type("q")
    assert t.ended() == 0 and t.restored() is True
    stop(p)


@test
def ends():
    """SIGTERM, Ctrl-C and the end of the process restore the terminal; the last rows stay, with a summary"""
    for end in ("term", "int", "target"):
        p = busy()
        t = on_screen(p)
        t.wait(lambda s: "outer" in rows_of(s), "rows")
        assert t.screen.alternate
        if end == "term":
            t.p.terminate()
        elif end == "int":
            t.type("\x03")
        else:
            stop(p)
        status = t.ended()
        text = t.screen.text()
        assert t.restored() is True and status == 0, (end, status, t.restored(), text)
        assert "outer" in rows_of(text) and "functions hit" in text, (end, text)
        if end != "target":
            assert dprobes("verify", "-p", p.pid).returncode == 0
            stop(p)


@test
def terminals():
    """a terminal that is not known: E-OUT-SCREEN, and the process is as it was; --plain works there"""
    p = busy()
    t = on_screen(p, TERM="nosuch")
    assert t.ended() == 1 and "E-OUT-SCREEN" in t.raw and "nosuch" in t.raw, t.raw
    t = on_screen(p, "--plain", "--count", 1, TERM="nosuch")
    assert t.ended() == 0 and "outer" in t.raw and "\x1b[?1049h" not in t.raw, t.raw
    assert dprobes("verify", "-p", p.pid).returncode == 0
    stop(p)


run()
