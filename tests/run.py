#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Run every test and sum up.

A test is an executable build/tests/**/test-* or a script tests/**/test_*.py. Each speaks TAP on
its standard output ("ok N - name", "not ok N - name", "ok N - name # SKIP reason"). Each test gets the
environment variable DPROBES (the command under test), DP_BUILD (the build directory) and DP_PATIENCE (so many times
longer may all take, before it is taken for hung). Two run at a time: one that computes beside one of the others.
The last lines printed are how many were skipped, and "N passed, N failed". Usage: run.py BUILD_DIR [PATTERN...]
"""
import fnmatch
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = int(os.environ.get("DP_TEST_LIMIT", "2400"))  # seconds for one test program, on a machine with other work
# Tests that compute, guests, and those of texts: they get what the others leave of the processors, which is about half.
# Others come one after the other: they look at what else is probed on the machine.
ASIDE = re.compile(r"/tests/(unit|fuzz|golden|dpcc|coverage|kernel)/[^/]*$|"
                   r"/tests/cmd/test_(style|house|prose|names|layers|options|help)\.py$")
LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")
running = []
ended = threading.Event()  # nobody wants to know any more


def discover(build):
    found = []
    for top, _, names in sorted(os.walk(os.path.join(build, "tests"))):
        for name in sorted(names):
            path = os.path.join(top, name)
            if name.startswith("test-") and os.access(path, os.X_OK) and not os.path.isdir(path):
                found.append([path])
    for top, _, names in sorted(os.walk(HERE)):
        for name in sorted(names):
            if name.startswith("test_") and name.endswith(".py"):
                found.append([sys.executable, os.path.join(top, name)])
    return found


def explained(lines):
    """The failures of a test's output with the comments that follow them, without the middle of long ones."""
    shown, why, failed = [], [], False
    for line in lines + ["ok"]:
        if failed and line.startswith("#"):
            why.append(line)
            continue
        shown += why if len(why) < 100 else why[:60] + why[-40:]
        why, failed = [], line.startswith("not ok")
        if failed:
            shown.append(line)
    return shown


def run(argv, env):
    """Run one test program; returns how many tests passed, failed and were skipped."""
    if ended.is_set():
        return 0, 0, 0
    label = os.path.relpath(argv[-1], os.path.dirname(HERE))
    started = time.time()
    proc = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", env=env, start_new_session=True)
    running.append(proc)
    late = threading.Timer(LIMIT, os.killpg, (proc.pid, signal.SIGKILL))
    late.start()
    out = proc.stdout.read()
    late.cancel()
    _, status, used = os.wait4(proc.pid, 0)  # as wait() does, which does not tell what was used
    proc.returncode = os.waitstatus_to_exitcode(status)
    status = proc.returncode if time.time() - started < LIMIT else "no end within %d s" % LIMIT
    running.remove(proc)
    passed, failures, skips = 0, [], []
    for line in out.splitlines():
        m = LINE.match(line.strip())
        if not m:
            continue
        if m.group(1):
            failures.append(m.group(2))
        elif "# SKIP" in m.group(2).upper() or "# skip" in m.group(2):
            skips.append(m.group(2))
        else:
            passed += 1
    if status != 0 and not failures:
        failures.append("%s ended with %s" % (label, status))
    if passed + len(failures) + len(skips) == 0:
        failures.append("%s reported no test" % label)
    word = "FAIL" if failures else "ok"
    lines = ["%-4s %-52s %4d passed %3d failed %3d skipped %7.1f s, %6.1f of a processor"
             % (word, label, passed, len(failures), len(skips), time.time() - started,
                used.ru_utime + used.ru_stime)]
    lines += ["     " + line[2:] for line in out.splitlines() if line.startswith("# figure:")]
    lines += ["     skipped: " + reason for reason in skips]
    if failures:
        lines += ["     not ok: " + name for name in failures]
        lines += ["     " + line for line in explained(out.splitlines()) or out.splitlines()[-60:]]
    print("\n".join(lines), flush=True)
    return passed, len(failures), len(skips)


def run_all(tests, env):
    """Run test programs; returns what run() has of each."""
    aside = [argv for argv in tests if ASIDE.search(argv[-1])]
    others = [argv for argv in tests if not ASIDE.search(argv[-1])]
    polite = ["nice"] if others else []
    if aside and others:
        env = dict({"DP_PATIENCE": "4"}, **env)
    with ThreadPoolExecutor(2) as pool:
        chains = [pool.submit(lambda: [run(argv, env) for argv in others]),
                  pool.submit(lambda: [run(polite + argv, env) for argv in aside])]
        try:
            return [counts for chain in chains for counts in chain.result()]
        except KeyboardInterrupt:
            ended.set()
            for proc in list(running):
                os.killpg(proc.pid, signal.SIGTERM)
            sys.exit(1)


def main():
    # A shell starts what runs in the background with SIGINT ignored, nohup with SIGHUP, and the tests' programs would
    # inherit that.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    build = os.path.abspath(sys.argv[1])
    patterns = sys.argv[2:]
    env = dict(os.environ, DP_BUILD=build, DPROBES=os.path.join(build, "src", "cmd", "dprobes"),
               CMOCKA_MESSAGE_OUTPUT="TAP")
    tests = [argv for argv in discover(build)
             if not patterns or any(fnmatch.fnmatch(argv[-1], "*" + p + "*") for p in patterns)]
    counts = run_all(tests, env)
    total = [sum(column) for column in zip(*counts)] or [0, 0, 0]
    if total[2]:
        print("%d skipped, each named above with its reason" % total[2])
    print("%d passed, %d failed" % tuple(total[:2]))
    return 1 if total[1] or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
