#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The probe manager and the lists of hooks, built with ThreadSanitizer, under threads that hit while probes and
exits come and go."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from report import finish, ok, skip  # noqa: E402
from tap import BUILD  # noqa: E402


def run(name, program):
    exe = os.path.join(BUILD, "tests", "unit", program)
    if not os.path.exists(exe):
        skip(name, "the compiler has no -fsanitize=thread")
        return
    # Older versions of the sanitizer know only some layouts of the address space.
    argv = ["setarch", os.uname().machine, "-R", exe] if shutil.which("setarch") else [exe]
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
    if "FATAL: ThreadSanitizer" in r.stderr and "ok 1" not in r.stdout:
        skip(name, "ThreadSanitizer does not run here: " + r.stderr.strip().splitlines()[0])
        return
    for line in r.stdout.splitlines():
        m = re.match(r"(not )?ok \d+ - (.*)", line)
        if m:
            ok(not m.group(1), "%s: %s" % (name, m.group(2)))
    ok(r.returncode == 0, "%s comes to its end well" % name)
    for line in r.stderr.splitlines()[:200]:
        print("# " + line)


run("the probe manager", "tsan-manager")
run("the lists of hooks", "tsan-hooks")
finish()
