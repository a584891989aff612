#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A matrix of machines: the command on processes (guest-machine.sh), in an emulator, with processors that lack what
the hit path would use. DP_ONLY: machines whose name contains it. What is missing (emulator, packages) is one
named skip."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from test_kernel import BUILD, command, report, skip, telling  # noqa: E402
import test_kernel  # noqa: E402

TARGETS = os.path.join(BUILD, "tests", "process", "targets")
LIMIT = 600  # seconds until a guest is taken for hung
# Name, processor, processors, kernel arguments.
MACHINES = [
    ("everything", "max", 4, ""),
    ("no rdpid", "max,-rdpid", 4, ""),
    ("no rdtscp", "max,-rdpid,-rdtscp", 4, ""),
    ("no fsgsbase", "max,-fsgsbase", 1, ""),
    ("nothing", "max,-rdpid,-rdtscp,-fsgsbase", 4, ""),
    ("nofsgsbase", "max", 1, "nofsgsbase"),
    ("qemu64", "qemu64", 4, ""),
    ("Nehalem", "Nehalem", 1, ""),
]
LACKS = {"no rdpid": "rdpid", "no rdtscp": "rdtscp", "no fsgsbase": "rdfsbase", "nothing": "rdfsbase",
         "nofsgsbase": "rdfsbase",
         "qemu64": "rdpid", "Nehalem": "rdfsbase"}


def files(work):
    lib = command(work)
    found = [lib]
    for name in ("pinned", "pinned-static", "simple", "simple-musl-static", "gowork", "watched"):
        path = os.path.join(TARGETS, name)
        if os.path.exists(path):
            found.append(path)
    return found


def boot(kernel, name, cpu, processors, append, given):
    began = time.time()
    env = dict(os.environ, LIMIT=str(LIMIT), CPU=cpu, SMP=str(processors), APPEND=append)
    r = subprocess.run([os.path.join(HERE, "run.sh"), kernel, os.path.join(HERE, "guest-machine.sh"), *given], env=env,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines, done, logs = r.stdout.splitlines(), False, []
    with telling:
        for line in lines:
            m = re.match(r"tap: (not )?ok - (.*)", line)
            if m:
                report(not m.group(1), "%s: %s" % (name, m.group(2)))
            done |= line == "tap: done"
            if line.startswith("tap: # log:"):
                logs.append(line[12:])
                if m is None and os.environ.get("DP_ONLY"):
                    print(line[5:], flush=True)
        lacks = LACKS.get(name)
        if lacks:
            row = next((x for x in logs if x.strip().startswith(lacks + " ")), "no such row")
            report(re.search(r"not present|does not run", row), "%s: doctor misses %s" % (name, lacks), logs)
        report(done, "%s: the guest came to its end" % name, lines[-60:])
        print("# %s: %.1f s" % (name, time.time() - began), flush=True)


def main():
    missing = [p for p in ("qemu-system-x86_64", "busybox", "cpio") if not shutil.which(p)]
    get = None if missing else subprocess.run([os.path.join(HERE, "get.sh"), BUILD, "cloud-amd64"],
                                              stdout=subprocess.PIPE,
                                              stderr=subprocess.PIPE, text=True)
    if missing or get.returncode:
        skip("a matrix of machines", "%s is not installed" % missing[0] if missing
             else get.stderr.strip().splitlines()[-1])
        print("1..1")
        return
    kernel = get.stdout.strip().splitlines()[-1]
    only = os.environ.get("DP_ONLY", "")
    with tempfile.TemporaryDirectory() as work:
        given = files(work)
        with ThreadPoolExecutor(min(os.cpu_count(), 2)) as pool:
            for end in [pool.submit(boot, kernel, *m, given) for m in MACHINES if only in m[0]]:
                end.result()
    print("1..%d" % test_kernel.count)
    sys.exit(1 if test_kernel.failed else 0)


main()
