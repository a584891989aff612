# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""How much of real software can be probed by jumps: the table of `dprobes coverage` over well-known files."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

LIBS = "/lib/x86_64-linux-gnu/"
FILES = {
    "the C library": (LIBS + "libc.so.6",),
    "libcrypto": (LIBS + "libcrypto.so.3", "/usr" + LIBS + "libcrypto.so.3"),
    "libstdc++": ("/usr" + LIBS + "libstdc++.so.6", LIBS + "libstdc++.so.6"),
    "python3": ("/usr/bin/python3.11", os.path.realpath("/usr/bin/python3")),
    "redis-server": ("/usr/bin/redis-server",),
    "nginx": ("/usr/sbin/nginx", "/usr/bin/nginx"),
    "bash": ("/bin/bash",),
    "a Go program": (target("gowork"),),
}


def coverage(what, paths):
    """One file: at least 98 % of its entries and 92 % of its instructions get a jump."""
    path = next((p for p in paths if os.path.isfile(p)), None)
    if not path:
        raise Skip("%s is not installed" % what)
    r = dprobes("coverage", "--json", path, check=0)
    row, = json_lines(r.stdout)
    share = {}
    for kind in ("functions", "instructions"):
        c = row[kind]
        assert c["total"] == c["jump"] + c["trap"] + c["refused"] and c["total"] > 100, (kind, c)
        share[kind] = 100.0 * c["jump"] / c["total"]
    assert sum(row["reasons"].values()) == row["instructions"]["trap"] + row["instructions"]["refused"], row
    print("# figure: coverage %-14s %6d functions %6.2f %% by jump, %7d instructions %6.2f %% by jump"
          % (os.path.basename(path), row["functions"]["total"], share["functions"], row["instructions"]["total"],
             share["instructions"]))
    assert share["functions"] >= 98 and share["instructions"] >= 92, row


def add(what, paths):
    def one():
        coverage(what, paths)
    one.__doc__ = "coverage of %s: 98 %% of the entries, 92 %% of all instructions" % what
    test(one)


for name, where in FILES.items():
    add(name, where)


@test
def table():
    """the table shows the same numbers as the JSON lines"""
    path = FILES["bash"][0]
    row, = json_lines(dprobes("coverage", "--json", path, check=0).stdout)
    line = [x for x in dprobes("coverage", path, check=0).stdout.splitlines() if x.startswith("bash")][0].split()
    assert int(line[1]) == row["functions"]["total"] and int(line[5]) == row["instructions"]["total"], line
    for at, kind in ((2, "functions"), (6, "instructions")):
        for k, outcome in enumerate(("jump", "trap", "refused")):
            want = 100.0 * row[kind][outcome] / row[kind]["total"]
            assert abs(float(line[at + k]) - want) < 0.006, (line, kind, outcome, want)


run()
