# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""dprobes graph and the formats that show calls, against a build of the same program that tells of its own calls, and
read back by other programs."""
import base64
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from browser import Browser  # noqa: E402
from tap import *  # noqa: E402,F403

TREE, TELLS = target("tree"), target("tree-tells")
OWN = ("all", "round_of", "deeper", "catcher", "thrower", "signalled", "handler", "leaf", "coroutines", "first",
       "second", "across", "step", "worker")
LINE = re.compile(r"^( *[\d.]+ (?:us|ms| s)|  *) \[ *(\d+)\] \| ((?:  )*)(\} /\* )?(\w+)(\(\))?(.*)$")


def told():
    """What the program tells: for each thread, in the order of their numbers, (function, caller on the same stack)."""
    log = os.path.join(tempfile.tempdir, "told")
    subprocess.run([TELLS, log], stdout=subprocess.DEVNULL, check=True)
    names, bias = {}, None
    for line in subprocess.run(["nm", TELLS], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] in OWN:
            names[int(words[0], 16)] = words[2]
    pairs, open_calls = collections.Counter(), {}
    with open(log) as f:
        for line in f:
            what, tid, fn, stack, frame = line.split()
            fn, frame = int(fn, 16), int(frame, 16)
            if bias is None:
                bias = fn - next(a for a, n in names.items() if n == "all")
            calls = open_calls.setdefault((tid, stack), [])
            if what == ">":
                while calls and calls[-1][1] <= frame:  # left by longjmp()
                    calls.pop()
                pairs[names[fn - bias], calls[-1][0] if calls else None] += 1
                calls.append((names[fn - bias], frame))
            elif calls and calls[-1][0] == names[fn - bias]:
                calls.pop()
    return pairs


def shown(text):
    """The same of a tree: (function, the line around it)."""
    pairs, around = collections.Counter(), {}
    for line in text.splitlines():
        m = LINE.match(line)
        if not m or m.group(4) or not m.group(6):
            continue
        path = around.setdefault(m.group(2), [])
        del path[len(m.group(3)) // 2:]
        pairs[m.group(5), path[-1] if path else None] += 1
        if m.group(7).startswith(" {"):
            path.append(m.group(5))
    return pairs


@test
def calls():
    """each call stands below its caller as in a build that tells of itself: recursion, longjmp, a handler on its own
    stack, threads"""
    out = dprobes("graph", *("tree:" + name for name in OWN), "--", TREE, check=0)
    mine, theirs = shown(out.stdout), told()
    for name in ("deeper", "thrower", "leaf", "handler", "signalled", "catcher", "round_of", "step", "across"):
        here = sum(n for (f, c), n in mine.items() if f == name)
        there = sum(n for (f, c), n in theirs.items() if f == name)
        assert here == there, (name, here, there, out.stderr)
    for (name, caller), n in theirs.items():
        if caller and name in ("deeper", "thrower", "leaf", "signalled", "catcher", "round_of"):
            assert mine[name, caller] == n, (name, caller, n, mine[name, caller])


@test
def options():
    """--only, --depth, --min and --summary show a part; arguments and results stand in the tree"""
    out = dprobes("graph", "--only", "round_of", "--depth", "2", "--", TREE, check=0).stdout
    assert "round_of() {" in out and "  catcher();" in out and "thrower" not in out and " all" not in out, out[:2000]
    file = os.path.join(tempfile.tempdir, "only.dpt")
    for r in (dprobes("graph", "--only", "nosuch", "leaf", "--", TREE, check=0),
              dprobes("graph", "--format", "recording", "-o", file, "leaf", "--", TREE, check=0) and
              dprobes("report", "--format", "graph", "--only", "nosuch", file, check=0)):
        assert "is called nosuch: --only shows nothing" in r.stderr and "leaf" not in r.stdout, r.stderr
    assert "--only" not in dprobes("report", "--format", "graph", "--only", "leaf", file, check=0).stderr
    out = dprobes("graph", "--results", "leaf n=$arg1:s64", "--", TREE, check=0).stdout
    assert re.search(r"leaf\(n=6\) = (12|0xc);", out), out[:2000]
    assert not re.search("leaf", dprobes("graph", "--min", "1000s", "leaf", "--", TREE, check=0).stdout)
    out = dprobes("graph", "--summary", *OWN, "--", TREE, check=0).stdout
    assert re.search(r" 20  round_of\n.* 20    from all\n", out), out
    for words in (("--min", "1x"), ("--depth", "0")):
        dprobes("graph", *words, "--", TREE, check=2)
    def weights(*words):
        path = os.path.join(tempfile.tempdir, "folded")
        dprobes("graph", "--format", "folded", "-o", path, *words, *("tree:" + name for name in OWN), "--", TREE,
                check=0)
        with open(path) as f:
            return {stack: int(n) for stack, n in (line.rsplit(" ", 1) for line in f)}

    stacks = weights("--only", "round_of", "--depth", "2")
    assert "round_of;catcher" in stacks and {s.split(";")[0] for s in stacks} == {"round_of"}, stacks
    assert max(s.count(";") for s in stacks) == 1, stacks
    everything, long = weights(), weights("--min", "1ms")  # brief calls are their callers' own time
    assert any(s.endswith(";leaf") for s in everything) and len(long) < len(everything), (everything, long)
    out = dprobes("graph", "--format", "flame", "--only", "catcher", *OWN, "--", TREE, check=0).stdout
    assert 'data-n="catcher"' in out and 'data-n="all"' in out and 'data-n="round_of"' not in out, out[:2000]
    assert '"symbol":"round_of"' not in dprobes("graph", "--json", "--only", "leaf", *OWN, "--", TREE, check=0).stdout
    for words in (("--min", "1us", "--format", "chrome"), ("--summary", "--format", "flame")):
        assert "has no effect on format" in dprobes("graph", *words, "--", TREE, check=2).stderr
    raw = dprobes("graph", "--raw-units", "--summary", "leaf", "--", TREE, check=0).stdout
    assert re.search(r"^ +\d+ +\d+ +\d+ +\d+  leaf$", raw, re.M), raw
    assert "E-OUT-PLACE" in dprobes("graph", "--format", "ctf", "--", TREE, check=1).stderr


FORKS = """
#include <stdio.h>
#include <unistd.h>

static volatile long n;

__attribute__((noinline)) long turn(long i)
{
	n += i;
	return n;
}

int main(void)
{
	if (fork())
		fork();
	puts("ready");
	fflush(stdout);
	for (;;) {
		turn(1);
		usleep(1000);
	}
}
"""


@test
def processes():
    """several processes by their names or ids, and with --tree those below one, live and out of a recording"""
    p = start([compiled(tempfile.tempdir, "forks", FORKS, "-O1", "-g")], stdout=subprocess.PIPE, text=True,
              start_new_session=True)
    try:
        for _ in range(3):
            assert p.stdout.readline() == "ready\n"
        file = os.path.join(tempfile.tempdir, "forks.dpt")
        wait = ("--duration", "3")
        for how, most in ((("-p", p.pid), 1), (("-p", "forks"), 3), (("-p", p.pid, "--tree"), 3)):
            seen = set(re.findall(r"\[ *(\d+)\] \|.*turn\(\)", dprobes("graph", *how, *wait, "turn", check=0).stdout))
            assert len(seen) == most and (most > 1 or seen == {str(p.pid)}), (how, seen)
        dprobes("graph", "-p", p.pid, "--tree", *wait, "--format", "recording", "-o", file, "turn", check=0)
        out = dprobes("report", "--format", "graph", file, check=0).stdout
        assert len(set(re.findall(r"\[ *(\d+)\] \|.*turn\(\)", out))) == 3, out[:2000]
    finally:
        os.killpg(p.pid, signal.SIGKILL)


@test
def read_back():
    """Chrome and speedscope JSON, Perfetto's protobuf and CTF hold each entry and return, read by other programs"""
    def made(name):
        path = os.path.join(tempfile.tempdir, "out." + name)
        dprobes("graph", "--format", name, "-o", path, "leaf", "deeper", "--", TREE, check=0)
        return path

    with open(made("chrome")) as f:
        events = json.load(f)["traceEvents"]
    kinds = collections.Counter(e["ph"] for e in events)
    assert kinds["B"] == kinds["E"] > 1000 and {e["name"] for e in events if e["ph"] == "B"} == {"leaf", "deeper"}
    with open(made("speedscope")) as f:
        profiles = json.load(f)["profiles"]
    assert len(profiles) == 4 and sum(len(p["events"]) for p in profiles) == 2 * kinds["B"]
    for p in profiles:
        assert all(a["at"] <= b["at"] for a, b in zip(p["events"], p["events"][1:]))
    with open(made("folded")) as f:
        stacks = dict(line.rsplit(" ", 1) for line in f)
    assert "deeper;deeper;leaf" in stacks and all(int(n) > 0 for n in stacks.values()), stacks
    need("protoc", "babeltrace2")
    sinks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "log", "sinks")
    with open(made("perfetto"), "rb") as f:
        text = subprocess.run(["protoc", "--decode=dp.PfTrace", "-I", sinks, "perfetto.proto"], stdin=f,
                              stdout=subprocess.PIPE, text=True, check=True).stdout
    assert text.count("type: SLICE_BEGIN") == text.count("type: SLICE_END") == kinds["B"]
    text = subprocess.run(["babeltrace2", made("ctf")], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert len(text.splitlines()) == 2 * kinds["B"] and 'dp_where = "<-leaf+0x0"' in text


def viewer():
    """The page of speedscope, where npm has installed it, for all or below $SPEEDSCOPE."""
    need("npm")
    root = subprocess.run(["npm", "root", "-g"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    where = os.environ.get("SPEEDSCOPE") or os.path.join(root, "speedscope")
    page = os.path.join(where, "dist", "release", "index.html")
    if not os.path.exists(page):
        raise Skip("npm has not installed speedscope")
    return page


@test
def viewed():
    """the viewer of speedscope opens a file of that format, and shows each function with its calls' times"""
    page, made = viewer(), os.path.join(tempfile.tempdir, "calls.json")
    dprobes("graph", "--format", "speedscope", "-o", made, "leaf", "deeper", "--", TREE, check=0)
    with open(made, "rb") as f, open(made + ".js", "w") as js:  # as its own command hands a file over
        js.write("speedscope.loadFileFromBase64('calls.json', '%s')" % base64.b64encode(f.read()).decode())
    b = Browser(flags=["--allow-file-access-from-files", "--enable-unsafe-swiftshader"])
    b.open(page + "#localProfilePath=" + made + ".js", "document.title.startsWith('tree')")
    b.until("document.querySelector('canvas') !== null")
    b.key("3")  # the table of functions
    b.until("document.querySelectorAll('tr').length > 2", 15)
    rows = b.eval("[...document.querySelectorAll('tr')].map(r => r.innerText)")
    found = [re.match(r"\S+ \(([\d.]+)%\)\s+\S+ \(([\d.]+)%\)\s+(\w+)$", r) for r in rows]
    times = {m[3]: (float(m[1]), float(m[2])) for m in found if m}
    assert set(times) == {"leaf", "deeper"} and times["leaf"][0] == times["leaf"][1], rows
    assert times["deeper"][0] >= times["deeper"][1], rows
    assert 98 <= times["leaf"][1] + times["deeper"][1] <= 102, rows  # percents of all time, in themselves
    b.screenshot(made + ".png")
    assert os.path.getsize(made + ".png") > 10000 and not b.errors, b.errors


run()
