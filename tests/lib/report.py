# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""For tests that are one script after the other: a line of TAP for each result, and commands with their output."""
import subprocess
import sys

count = failed = 0


def ok(good, name):
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, name), flush=True)


def skip(name, why):
    global count
    count += 1
    print("ok %d - %s # SKIP %s" % (count, name, why), flush=True)


def run(*argv, **kw):
    """Exit status, and standard output with standard error."""
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **kw)
    return p.returncode, p.stdout


def finish():
    print("1..%d" % count)
    sys.exit(1 if failed else 0)
