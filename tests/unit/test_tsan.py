#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The probe manager, built with ThreadSanitizer, under threads that hit while probes come and go."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import BUILD  # noqa: E402

NAME = "the probe manager under ThreadSanitizer"
exe = os.path.join(BUILD, "tests", "unit", "tsan-manager")


def skip(why):
    print("1..1\nok 1 - %s # SKIP %s" % (NAME, why))
    sys.exit(0)


if not os.path.exists(exe):
    skip("the compiler has no -fsanitize=thread")
# Older versions of the sanitizer know only some layouts of the address space.
argv = ["setarch", os.uname().machine, "-R", exe] if shutil.which("setarch") else [exe]
r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
if "FATAL: ThreadSanitizer" in r.stderr and "ok 1" not in r.stdout:
    skip("ThreadSanitizer does not run here: " + r.stderr.strip().splitlines()[0])
sys.stdout.write(r.stdout)
for line in r.stderr.splitlines()[:200]:
    print("# " + line)
sys.exit(r.returncode)
