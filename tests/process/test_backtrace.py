# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Call chains: the tables of whole libraries against readelf, the walk against the C library's unwinder and gdb, and
how they are asked for and shown."""
import bisect
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROWS = os.path.join(BUILD, "tests", "unit", "unwind-rows")
CALLERS = target("callers")


def our_rows(path):
    r = subprocess.run([ROWS, path], stdout=subprocess.PIPE, text=True, check=True)
    rows = [line.split() for line in r.stdout.splitlines()]
    return [int(row[0], 16) for row in rows], [(row[1], int(row[2]), int(row[3])) for row in rows]


def wanted(cfa, rbp, ra):
    """What readelf's row means for us; None: anything may stand there (an expression)."""
    m = re.fullmatch(r"(rsp|rbp|r10)\+(\d+)", cfa)
    if ra != "c-8":
        return ("end", 0, 0) if ra == "u" else None
    if not m or int(m.group(2)) % 8:
        return None if cfa == "exp" else ("end", 0, 0)
    if rbp.startswith("c-") and int(rbp[2:]) % 8 == 0 and int(rbp[2:]) <= 1024:
        bp = -int(rbp[2:]) // 8
    elif rbp in ("u", "s"):
        bp = 0
    else:
        return None
    return m.group(1) if m.group(1) == "r10" else m.group(1)[1:], int(m.group(2)) // 8, bp


def compare(path):
    starts, rows = our_rows(path)
    out = subprocess.run(["readelf", "--wide", "--debug-dump=frames-interp", path], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    n, columns, is_fde, wrong = 0, [], False, []
    for line in out.splitlines():
        if " CIE " in line or " FDE " in line:
            is_fde, columns = " FDE " in line, []
        elif line.strip().startswith("LOC "):
            columns = line.split()
        elif is_fde and columns and re.match(r"[0-9a-f]{16} ", line) and "(" not in line:
            values = dict(zip(columns, line.split()))
            want = wanted(values["CFA"], values.get("rbp", "u"), values.get("ra", "u"))
            if want is None:
                continue
            n += 1
            at = bisect.bisect_right(starts, int(values["LOC"], 16)) - 1
            if at < 0 or rows[at] != want:
                wrong.append("%s: readelf %s, table %s" % (line, want, rows[at] if at >= 0 else None))
    assert not wrong, "%s: %d of %d rows differ\n%s" % (path, len(wrong), n, "\n".join(wrong[:20]))
    return n


@test
def tables():
    """the tables of real libraries and programs say what readelf says"""
    need("readelf")
    libraries = [os.path.realpath(p)
                 for name in ("libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libdw.so.1", "ld-linux-x86-64.so.2")
                 for p in glob.glob("/lib*/x86_64-linux-gnu/" + name)]
    programs = [p for p in ("/bin/bash", "/usr/bin/git", "/usr/bin/redis-server", "/usr/bin/python3.11")
                if os.path.exists(p)]
    rows = sum(compare(p) for p in sorted(set(libraries + programs)))
    print("# figure: %d rows of unwind tables of %d files agree with readelf" % (rows, len(set(libraries + programs))))
    assert rows > 50000, rows


def chains(program, place, depth=64, *command):
    """The raw chains of each hit of a place."""
    with tempfile.NamedTemporaryFile("w", suffix=".rpn", prefix="dp-frames-") as f:
        f.write('name = "%s"\nlogmax = 1024\noffset = %s\n\tpush frames,%d; log %d; exit\n'
                % (program, place, depth, depth))
        f.flush()
        r = dprobes("trace", "--json", "-f", f.name, "--", *command, check=0)
    found = []
    for line in r.stdout.splitlines():
        if not line.startswith("{"):
            continue
        data = bytes.fromhex(json.loads(line)["data"])
        words = [int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data), 8)]
        found.append(words[:words.index(0)] if 0 in words else words)
    return found, [line for line in r.stdout.splitlines() if re.match(r"\d+ [0-9a-f]", line)]


@test
def against_libc():
    """recursion, large and odd frames, call-backs, signals on both stacks, threads: as backtrace() sees it"""
    found, lines = chains(CALLERS, "here", 64, CALLERS)
    assert len(found) == len(lines) and len(lines) >= 30, (len(found), len(lines))
    kinds = set()
    for words, line in zip(found, lines):
        which, *want = line.split()
        want = [int(w, 16) for w in want]
        kinds.add(int(which))
        assert words[1:] == want, "way %s\nwalked  %s\nwanted  %s" % (
            which, " ".join("%x" % w for w in words[1:]), " ".join("%x" % w for w in want))
    assert kinds == set(range(1, 11)), kinds


@test
def against_gdb():
    """deep inside of bash, sqlite3 and python: as gdb sees it"""
    gdb, = need("gdb")
    cases = [(["/bin/bash", "--norc", "-c", "f() { echo $((1+2)); }; for i in 1 2; do f; done"], "exe", "echo_builtin"),
             (["/usr/bin/sqlite3", ":memory:", "create table t(a); insert into t values(1); select * from t;"],
              "libsqlite3", "sqlite3_step"),
             (["/usr/bin/python3.11", "-S", "-E", "-c", "import sys\ndef f(n): return f(n-1) if n else len('x')\nf(3)"],
              "exe", "PyEval_EvalCode")]
    there = [case for case in cases if os.path.exists(case[0][0])]
    assert there, "none of the programs is there"
    for command, module, place in there:
        script = ["set confirm off", "set pagination off", "set disable-randomization on",
                  "set breakpoint pending on", "break " + place, "run", "bt -frame-info short-location 40"]
        argv = [gdb, "-q", "-nx", "-batch"] + [a for s in script for a in ("-ex", s)] + ["--args"] + command
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           errors="replace", timeout=120,
                           env=dict(os.environ, DEBUGINFOD_URLS="", SHELL="/bin/sh"))
        names = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([^ ]+)", r.stdout, re.M)
        assert len(names) >= 3, r.stdout
        r = dprobes("trace", "--json", "p %s:%s bt=$backtrace:symbol[40]" % (module, place), "--", *command)
        hits = [e["args"]["bt"] for e in map(json.loads,
                                             (line for line in r.stdout.splitlines() if line.startswith("{")))]
        assert hits, r.stderr
        ours = [f.split("+")[0] for f in hits[0]]
        # Both have names for what is exported; what has none is ?? there and an address here.
        same = [(a, b) for a, b in zip(names, ours) if "??" not in a and not b.startswith("0x")]
        assert len(ours) >= len(names) - 1, (names, ours)
        differ = [(a, b) for a, b in same if a.split("@")[0] != b and not a.startswith("__libc_start")]
        assert len(differ) <= len(same) // 3, (names, ours)
        assert ours[0] == names[0], (names, ours)


@test
def shown():
    """$backtrace in text and JSON, at returns, with a number of functions; handlers in C"""
    r = dprobes("trace", "p exe:here n=$arg1:s32 bt=$backtrace:symbol[3] if n == 2", "--", CALLERS, check=0)
    assert re.search(r"n=2 bt=\{here\+0x0,large[.a-z0-9]*\+0x[0-9a-f]+,main\+0x[0-9a-f]+\}", r.stdout), r.stdout
    r = dprobes("trace", "--json", "r exe:here bt=$backtrace", "--", CALLERS, check=0)
    events = json_lines("\n".join(line for line in r.stdout.splitlines() if line.startswith("{")))
    first = events[0]["args"]["bt"]
    assert re.match(r"here\+0x[1-9a-f]", first[0]) and first[-1].startswith("_start+") and len(first) <= 16, first
    with tempfile.NamedTemporaryFile("w", suffix=".dpc", prefix="dp-frames-") as f:
        f.write('#pragma MODNAME("%s") PROBEPOINT_LOCATION("here") PROBEPOINT_HANDLER("h")\n'
                'void h() { log_backtrace(4); }\n' % CALLERS)
        f.flush()
        r = dprobes("trace", "-f", f.name, "--", CALLERS, check=0)
    assert re.search(r"backtrace=\{here\+0x0,[a-z]+[.a-z0-9]*\+0x[0-9a-f]+,", r.stdout), r.stdout


@test
def refused():
    """what a call chain cannot be is said"""
    for event, code in (("bt=$backtrace:u8[4]", "E-EVENT-FRAMES"), ("bt=+8($backtrace)", "E-EVENT-FRAMES"),
                        ("bt=$backtrace:symbol[65]", "E-EVENT-ARRAY"),
                        ("bt=$backtrace if bt == 1", "E-EVENT-MIX"), ("bt=$backtrac", "E-EVENT-VAR")):
        r = dprobes("trace", "p exe:here " + event, "--", CALLERS)
        assert r.returncode != 0 and code in r.stderr, (event, r.stderr)


@test
def without_room():
    """more call chains than a table has keys: each hit is in the table, or told to have found no room"""
    for keys in (1, 4, 200):
        r = subprocess.run([DPROBES, "trace", "-q", "--json", "begin { KEYS(%d); }" % keys,
                            "p here count by $backtrace[64]", "p here count", "p here sum($arg1) by $backtrace[4]",
                            "--", CALLERS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        assert r.returncode == 0, r.stderr
        by_chain, whole, sums = (t for t in json_lines(r.stdout) if "aggregate" in t)
        hits, shown = whole["value"], sum(e["value"] for e in by_chain["entries"])
        assert hits >= 30 and shown + by_chain.get("no_room", 0) == hits, (by_chain, whole)
        assert sum(e["values"] for e in sums["entries"]) + sums.get("no_room", 0) == hits, (sums, whole)
        assert (len(by_chain["entries"]) > 9) == (keys == 200) and len(by_chain["entries"]) <= keys, by_chain
        depth = [len(e["key"][0]) for e in by_chain["entries"]]
        assert min(depth) > 3 and (keys < 200 or max(depth) > 8), depth


run()
