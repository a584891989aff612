# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""doc/coming-from.md: every command of its right column runs, on the program that it speaks of."""
import os
import re
import shlex
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "doc", "coming-from.md")
LIVE = ("trace", "record", "graph", "watch")
# Nothing of the kind happens, or there is no summary.
QUIET = re.compile("openat|open64|readline|execve|qty < 0|hello world|-f FILE")
OF_KERNEL = re.compile(r" 't ")  # tests/kernel/guest-tracepoints.sh has these: not every kernel has tracepoints


def commands():
    """The section of each row, and its commands."""
    with open(PAGE) as f:
        section = ""
        for line in f:
            section = line[3:].strip() if line.startswith("## ") else section
            cells = re.split(r"(?<!\\)\|", line.strip())
            for command in re.findall(r"`(dprobes [^`]*)`", cells[2]) if len(cells) == 4 else ():
                yield section, command


def run_all(section):
    gcc, = need("gcc")
    shop = os.path.join(tempfile.tempdir, "shop")
    if not os.path.exists(shop):
        subprocess.run([gcc, "-O2", "-g", "-o", shop, os.path.join(HERE, "shop.c")], check=True)
    p = start([shop, "100000000"], stdout=subprocess.DEVNULL, cwd=tempfile.tempdir)
    shell = start(["/bin/bash", "-c", "read"], stdin=subprocess.PIPE)  # a command of the page is about all of them
    env = dict(os.environ, PATH=tempfile.tempdir + ":" + os.environ["PATH"])
    script = os.path.join(tempfile.tempdir, "FILE.dpc")
    with open(script, "w") as f:
        f.write("#pragma MODNAME shop\np add_order count by $qty\n")
    done, bad = 0, []
    for where, command in commands():
        if where != section or OF_KERNEL.search(command):
            continue
        words = [str(p.pid) if w == "PID" else w for w in shlex.split(command)][1:]
        if words[0] in LIVE and "--" not in words and "--duration" not in words:
            words[1:1] = ["--duration", "0.3"]
        r = dprobes(*words, cwd=tempfile.tempdir, env=env)
        hits = sum(map(int, re.findall(r"^.* (?:jump|trap|exits|exits\+trap|watch|page) +(\d+) ", r.stderr, re.M)))
        if r.returncode or re.search("^dprobes: E-", r.stderr, re.M) or \
                (words[0] in ("trace", "record") and not hits and not QUIET.search(command)):
            bad.append((command, r.returncode, r.stderr))
        done += 1
    assert not bad, "\n".join("%s: %s\n%s" % b for b in bad)
    assert done > 3 and p.poll() is None and not code_differs(p.pid)
    stop(p)
    stop(shell)


for name in ("bpftrace", "perf", "strace", "ltrace", "uftrace", "gdb"):
    def one(section=name):
        run_all(section)
    one.__doc__ = "each answer to a question of %s runs as it stands on the page" % name
    test(one)

run()
