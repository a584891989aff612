#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The probe manager and the lists of hooks, built with ThreadSanitizer, under threads that hit while probes and exits come and go."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import BUILD  # noqa: E402

count = failed = 0


def report(good, text):
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, text))


def run(name, program):
    exe = os.path.join(BUILD, "tests", "unit", program)
    if not os.path.exists(exe):
        report(True, "%s # SKIP the compiler has no -fsanitize=thread" % name)
        return
    # Older versions of the sanitizer know only some layouts of the address space.
    argv = ["setarch", os.uname().machine, "-R", exe] if shutil.which("setarch") else [exe]
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if "FATAL: ThreadSanitizer" in r.stderr and "ok 1" not in r.stdout:
        report(True, "%s # SKIP ThreadSanitizer does not run here: %s" % (name, r.stderr.strip().splitlines()[0]))
        return
    for line in r.stdout.splitlines():
        m = re.match(r"(not )?ok \d+ - (.*)", line)
        if m:
            report(not m.group(1), "%s: %s" % (name, m.group(2)))
    report(r.returncode == 0, "%s comes to its end well" % name)
    for line in r.stderr.splitlines()[:200]:
        print("# " + line)


run("the probe manager", "tsan-manager")
run("the lists of hooks", "tsan-hooks")
print("1..%d" % count)
sys.exit(1 if failed else 0)
