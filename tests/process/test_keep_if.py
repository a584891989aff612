# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""--keep-if: of the records of each request, those are shown whose request has turned out to be wanted."""
import collections
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SERVER = target("requests")
STEP = "p requests:step id=%di:s64"
BAD = "r requests:handle if $retval < 0"
ALL = range(120)  # three threads with 40 requests
SLOW, BADS, LEFT, WITHIN, BAD_OUTSIDE = 1, 3, 5, 6, 7  # by the rest of the number, divided by 8: see requests.c


def steps(number):
    """How many steps a request takes."""
    return {LEFT: 1, WITHIN: 6, BAD_OUTSIDE: 6}.get(number % 8, 2)


def expected(*kinds):
    return collections.Counter({i: steps(i) for i in ALL if i % 8 in kinds})


def ids(output):
    return collections.Counter(e["args"]["id"] for e in json_lines(output) if e["symbol"] == "step")


def traced(keep_if, *args, events=(STEP,), command=(SERVER,), verb="trace", **kw):
    return dprobes(verb, *args, "--keep-if", keep_if, *events, "--", *command, check=0, **kw)


def note(r):
    """Records passed over, requests passed over and kept, records outside of requests."""
    m = re.search(r"(\d+) records in (\d+) requests passed over, (\d+) requests kept; (\d+) records outside", r.stderr)
    assert m, r.stderr
    return tuple(map(int, m.groups()))


@test
def by_value():
    """the outermost call decides, in each thread by itself: recursion and calls that were left by longjmp() included"""
    r = traced(BAD, "--json")
    want = expected(BADS, BAD_OUTSIDE)
    assert ids(r.stdout) == want, (ids(r.stdout) - want, want - ids(r.stdout))
    total = sum(map(steps, ALL))
    # What a thread does behind a call that was left belongs to that until the next one begins.
    assert note(r) == (total - sum(want.values()) + 15, 90, 30, 121 - 15), r.stderr
    assert "15 requests did not return, and are passed over" in r.stderr, r.stderr


@test
def in_text():
    """text has the same, request by request, and the entry and the return of the request function itself"""
    r = traced("r requests:handle if !($retval >= 0) && $duration < 1h",
               events=(STEP, "p:begin requests:handle id=%di:s64", "r:end requests:handle"))
    seen = re.findall(r": (step|begin): @\w+\+0 id=(-?\d+)", r.stdout)
    assert collections.Counter(int(n) for what, n in seen if what == "step") == expected(BADS, BAD_OUTSIDE)
    begun = collections.Counter(int(n) for what, n in seen if what == "begin")
    assert begun == {i: 3 if i % 8 == BAD_OUTSIDE else 1 for i in ALL if i % 8 in (BADS, BAD_OUTSIDE)}, begun
    assert r.stdout.count(": end: <-handle+0") == sum(begun.values()), r.stdout[-300:]
    numbers = [n for _, n in seen]
    assert sum(a != b for a, b in zip(numbers, numbers[1:])) == 29, numbers


@test
def by_duration():
    """requests that took long are kept, whatever they return"""
    r = traced("r requests:handle if $duration > 25ms || $retval:s32 == -1", "--json")
    missing = expected(SLOW, BADS, BAD_OUTSIDE) - ids(r.stdout)
    assert not missing, missing
    assert not [i for i in ids(r.stdout) if i < 0 or i % 8 == LEFT], ids(r.stdout)


@test
def outside_and_unfinished():
    """--keep-outside shows what belongs to no request, --keep-unfinished requests that were left, or that the end of
    the program has cut"""
    r = traced(BAD, "--json", "--keep-outside", "--keep-unfinished")
    want = expected(BADS, LEFT, BAD_OUTSIDE) + collections.Counter({-1: 120, 1000: 1})
    assert ids(r.stdout) == want, (ids(r.stdout) - want, want - ids(r.stdout))
    assert "15 requests did not return, and are among those that were kept" in r.stderr and note(r)[3] == 0, r.stderr
    r = traced("r requests:last if $retval < 0", "--json", "--keep-unfinished")
    assert ids(r.stdout) == {1000: 1} and note(r)[2] == 1, r.stdout


@test
def recorded():
    """a recording has what was kept, and nothing else"""
    file = os.path.join(tempfile.tempdir, "kept.dpt")
    r = traced(BAD, "-o", file, verb="record")
    assert note(r)[1:3] == (90, 30)
    assert ids(dprobes("report", "--json", file, check=0).stdout) == expected(BADS, BAD_OUTSIDE)


def row(text, name):
    """Hits, and those that were recorded, filtered, passed over, missed and lost, of an event in the summary."""
    m = re.search(r"^%s +\S+ +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) " % name, text, re.M)
    assert m, text
    return tuple(map(int, m.groups()))


@test
def columns():
    """the summary counts as recorded what is shown; the rest was passed over, in a recording's summary, too"""
    file = os.path.join(tempfile.tempdir, "columns.dpt")
    r = traced(BAD, "-o", file, verb="record")
    shown, total = sum(expected(BADS, BAD_OUTSIDE).values()), sum(map(steps, ALL)) + 121
    for text in (r.stderr, dprobes("report", file, check=0).stderr):
        assert row(text, "step") == (total, shown, 0, total - shown, 0, 0), text
        hits = row(text, "request")
        assert hits[0] == hits[3] > 100 and hits[1] == 0, text


@test
def several_processes():
    """requests of several processes do not mix"""
    servers = [start([SERVER, "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "ab"]
    for s in servers:
        assert s.stdout.readline() == "ready\n"
    t = start([DPROBES, "trace", "--json", "-p", ",".join(str(s.pid) for s in servers), "--keep-if", BAD, STEP],
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for s in servers:
        wait_for(lambda: standing(s.pid, "step"), what="the probes")
    for s in servers:
        s.communicate("\n")
    out, err = t.communicate(timeout=60)
    want = expected(BADS, BAD_OUTSIDE)
    assert t.returncode == 0 and ids(out) == want + want, (ids(out), err)
    requests = collections.Counter((e["tid"], e["args"]["id"]) for e in json_lines(out))
    assert len(requests) == 60 and all(n == steps(i) for (_, i), n in requests.items()), requests


@test
def bounded():
    """of a request with too many records the oldest go, and are counted"""
    r = traced("r requests:handle if $retval == 0", "--json", "--buffer", "16M", command=(SERVER, "60000"))
    cut = re.search(r"(\d+) records were dropped from requests with more than 1024 KiB", r.stderr)
    assert cut, r.stderr
    kept = ids(r.stdout)
    lost = sum(map(int, re.findall(r"(\d+) events were lost", r.stderr)))
    assert 1000 < kept[0] < 60002 and kept[8] == 2, kept[0]
    assert row(r.stderr, "step")[5] == int(cut.group(1)) + lost, r.stderr
    assert int(cut.group(1)) + kept[0] + kept[40] + kept[80] + lost >= 3 * 60002


# ---- lines that are compiled ----

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets", "requests.c")
NAMED = "p requests:step id=$request"


def server():
    """The same server, with debug information."""
    with open(SOURCE) as f:
        return compiled(tempfile.tempdir, "requests", f.read(), "-g", "-O2", "-pthread")


def compiled_lines(keep_if, *events, args=(), **kw):
    return traced(keep_if, *args, events=events, command=(server(),), **kw)


@test
def named():
    """lines with names: the same requests, with the same counts in the notes and in the summary"""
    r = compiled_lines(BAD, NAMED, args=("--json",))
    want, total = expected(BADS, BAD_OUTSIDE), sum(map(steps, ALL))
    shown = sum(want.values())
    assert ids(r.stdout) == want, (ids(r.stdout) - want, want - ids(r.stdout))
    assert note(r) == (total - shown + 15, 90, 30, 121 - 15) and "15 requests did not return" in r.stderr, r.stderr
    assert row(r.stderr, "step") == (total + 121, shown, 0, total + 121 - shown, 0, 0), r.stderr
    assert row(r.stderr, "request")[3] == row(r.stderr, "request")[0], r.stderr
    r = compiled_lines("r requests:handle if $duration > 25ms || $retval:s32 == -1", NAMED, args=("--json",))
    assert not expected(SLOW, BADS, BAD_OUTSIDE) - ids(r.stdout), r.stdout
    r = compiled_lines(BAD, NAMED, args=("--json", "--keep-outside", "--keep-unfinished"))
    want = expected(BADS, LEFT, BAD_OUTSIDE) + collections.Counter({-1: 120, 1000: 1})
    assert ids(r.stdout) == want, (ids(r.stdout) - want, want - ids(r.stdout))
    r = compiled_lines("r requests:last if $retval < 0", NAMED, args=("--json", "--keep-unfinished"))
    assert ids(r.stdout) == {1000: 1} and note(r)[2] == 1, r.stdout


@test
def bodies():
    """bodies, and entry and return of the request function itself, request by request; tables are of all hits; what
    bodies of begin and end log is shown"""
    r = compiled_lines(BAD, "p requests:step { if ($request >= 0) log($request); }", "p:begin requests:handle $request",
                       "r:end requests:handle $request $retval", "p requests:step count by ($request < 0)",
                       "begin { log(1); }", "end { log(2); }")
    seen = re.findall(r": (step|begin|end): (?:@|<-)\w+\+0 \$?request=(-?\d+)", r.stdout)
    numbers = [n for _, n in seen]
    assert collections.Counter(int(n) for what, n in seen if what == "step") == expected(BADS, BAD_OUTSIDE), r.stdout
    assert sum(a != b for a, b in zip(numbers, numbers[1:])) == 29, numbers
    assert seen[0][0] == "begin" and seen[-1][0] == "end", (seen[0], seen[-1])
    assert "begin: 1=1" in r.stdout and "end: 2=2" in r.stdout, r.stdout
    assert re.search(r"count step.*\n +0 +%d " % sum(map(steps, ALL), 1), r.stdout), r.stdout
    assert "tables are of all hits" in r.stderr, r.stderr


@test
def recorded_lines():
    """a recording of such lines has what was kept, and its counts"""
    file = os.path.join(tempfile.tempdir, "named.dpt")
    r = compiled_lines(BAD, NAMED, args=("-o", file), verb="record")
    report = dprobes("report", "--json", file, check=0)
    assert ids(report.stdout) == expected(BADS, BAD_OUTSIDE) and row(report.stderr, "step") == row(r.stderr, "step")


@test
def calls_of_several():
    """system calls belong to the requests of their threads, also of several processes that end at different times"""
    one, two = (start([server(), "0", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in "ab")
    for s in (one, two):
        assert s.stdout.readline() == "ready\n"
    t = start([DPROBES, "trace", "--json", "-p", "%d,%d" % (one.pid, two.pid), "--keep-if",
               "r requests:handle if $duration > 25ms", "p requests:handle $request", "s *nanosleep"],
              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
              env={**os.environ, "DPROBES_MESSAGES": "json"})
    err = next((line for line in t.stderr if '"ready"' in line), None)
    assert err, "the trace ended"
    for s in (one, two):
        s.communicate("\n")
    out, err = t.communicate(timeout=60)
    of = collections.defaultdict(list)
    for e in json_lines(out):
        of[e["pid"], e["tid"]].append(e["event"])
    assert t.returncode == 0 and len(of) == 6 and {p for p, _ in of} == {one.pid, two.pid}, (of, err)
    for names in of.values():  # more where the machine is busy
        assert names.count("handle") >= 5 and names.count("calls") == 5, of


@test
def asked_by_duration():
    """--dump-on with $duration, of compiled lines: a call that takes long has the file written, a bound that none
    reaches does not; with --until both work"""
    for bound, least in (("25ms", 2), ("1000s", 1)):
        name = os.path.join(tempfile.tempdir, "asked-%s.dpt" % bound)
        r = dprobes("record", "-o", name, "--last", "256k", "--dump-on", "r requests:handle if $duration > " + bound,
                    NAMED, "--", server(), check=0)
        assert r.stderr.count("note: written: ") >= least and (least > 1 or "asked-1000s.2" not in r.stderr), r.stderr
        seen, n = collections.Counter(), 1
        while os.path.exists(name if n == 1 else name.replace(".dpt", ".%d.dpt" % n)):
            seen += ids(dprobes("report", "--json", name if n == 1 else name.replace(".dpt", ".%d.dpt" % n)).stdout)
            n += 1
        assert sum(seen.values()) == sum(map(steps, ALL)) + 121, seen
    r = compiled_lines(BAD, NAMED, args=("--json", "--until", "p requests:step if %di == 1000"))
    assert json_lines(r.stdout)[-1]["args"] == {}, r.stdout[-300:]
    assert ids(r.stdout.rsplit("\n", 2)[0]) == expected(BADS, BAD_OUTSIDE), r.stdout


@test
def beside_a_program():
    """--keep-if, --until and --dump-on with a program in C (-f FILE.dpc, -e): its records are those of the requests"""
    file = os.path.join(tempfile.tempdir, "steps.dpc")
    with open(file, "w") as f:
        f.write('#pragma MODNAME("%s")\n#pragma PROBEPOINT_LOCATION("step") PROBEPOINT_HANDLER("seen")\n'
                'void seen() { log($request); }\n' % server())
    with open(file) as f:
        text = f.read()
    for program in ("-f", file), ("-e", text):
        r = dprobes("trace", "--json", *program, "--keep-if", BAD, "--", server(), check=0)
        got = collections.Counter(e["fields"][0]["value"] for e in json_lines(r.stdout) if e.get("fields"))
        assert got == expected(BADS, BAD_OUTSIDE), (got, r.stderr)
        assert "requests kept" in r.stderr, r.stderr
    r = dprobes("trace", "-f", file, "--until", "p step if %di == 3", "--", server(), check=0)
    assert r.stdout.rstrip().endswith("step: @step+0"), r.stdout[-300:]
    name = os.path.join(tempfile.tempdir, "asked.dpt")
    r = dprobes("record", "-o", name, "--last", "256k", "-f", file, "--dump-on", "r handle if $retval:s32 < 0",
                "--keep-if", BAD, "--", server(), check=0)
    assert r.stderr.count("note: written: ") >= 2 and "requests kept" in r.stderr, r.stderr
    r = dprobes("record", "-o", name, "--last", "256k", "-f", file, "--dump-on", "r handle if $duration > 25ms", "--",
                server(), check=0)
    assert r.stderr.count("note: written: ") >= 2, r.stderr


@test
def trees():
    """dprobes graph --keep-if: the trees of those calls only"""
    r = dprobes("graph", "--keep-if", BAD, "requests:handle", "requests:step", "--", server(), check=0)
    assert r.stdout.count("} /* handle */") == 60 and "requests kept" in r.stderr, (r.stdout[-500:], r.stderr)


@test
def command_line():
    """what --keep-if cannot do is refused, with what it can"""
    for value, code in (("p requests:handle if $retval < 0", "E-CMD-VALUE"), ("r requests:handle", "E-CMD-VALUE"),
                        ("r requests:handle if $arg1 < 0", "E-CMD-VALUE"),
                        ("r requests:handle if $retval < ", "E-CMD-VALUE"),
                        ("r requests:handle if ($retval < 0", "E-CMD-VALUE"),
                        ("r requests:handle if $retval < 0 1", "E-CMD-VALUE"),
                        ("r requests:nothing if $retval < 0", "E-SYM-NONE")):
        r = dprobes("trace", "--keep-if", value, STEP, "--", SERVER)
        assert r.returncode in (1, 2) and code in r.stderr and not r.stdout.count("step"), (value, r.stderr)
    r = dprobes("trace", "--keep-outside", STEP, "--", SERVER)
    assert r.returncode == 2 and "E-CMD-MISSING" in r.stderr, r.stderr
    r = dprobes("trace", "--keep-if", BAD, "p kernel:vfs_read")
    assert r.returncode == 2 and "E-CMD-EXTRA" in r.stderr, r.stderr


run()
