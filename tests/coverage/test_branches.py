# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Branch coverage of the interpreter: every branch of vm.c, hit-rpn.c, hit-tables.c and hit-text.c goes both ways, but
for those that are explained here."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

EXE = os.path.join(BUILD, "tests", "coverage", "branches")
NOTES = os.path.join(BUILD, "tests", "coverage", "libbranches-hit.a.p")

# Source text of lines with branches that no test can take at will: two threads must meet within a few instructions.
RACES = [r"__atomic_compare_exchange_n", r"take_left\(k", r"at [!=]= FASTER", r"state == DP_TABLE_BUSY && n < WAITS"]
# Lines that do not run in a process: the verifier lets these instructions pass in the kernel alone, or nowhere.
KERNEL = [r"^NO_HOST\(", r"^KERNEL_ONLY\("]


def gcov(work, name):
    """The annotated source of a file, as (line number, source text, [times that each branch was taken], whether it
    ran)."""
    r = subprocess.run(["gcov", "-t", "-b", "-c", os.path.join(work, name + ".gcno")], cwd=BUILD, check=True, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = []
    for text in r.stdout.splitlines():
        m = re.match(r" *([-#=\d]+)\*?: *(\d+):(.*)", text)
        if m:
            lines.append((int(m.group(2)), m.group(3).strip(), [], m.group(1).startswith("#")))
        elif text.startswith("branch"):
            m = re.search(r"taken (\d+)", text)
            lines[-1][2].append(int(m.group(1)) if m else 0)
    return lines


@test
def branches():
    """every branch of the interpreter goes both ways"""
    if not os.path.exists(EXE) or not shutil.which("gcov"):
        raise Skip("no gcc with gcov")
    work = tempfile.mkdtemp(prefix="dp-gcov-")
    try:
        notes = sorted(n for n in os.listdir(NOTES) if n.endswith(".gcno"))
        assert len(notes) == 4, notes
        for note in notes:
            shutil.copy(os.path.join(NOTES, note), work)
        env = dict(os.environ, GCOV_PREFIX=work, GCOV_PREFIX_STRIP="99")
        r = subprocess.run([EXE], stdout=subprocess.PIPE, text=True, env=env, timeout=600)
        bad = [line for line in r.stdout.splitlines() if line.startswith("not ok")]
        assert not bad and r.returncode == 0, bad
        missed = []
        for name in (n[:-5] for n in notes):
            lines = gcov(work, name)
            all_, taken = 0, 0
            for number, text, counts, idle in lines:
                all_ += len(counts)
                taken += sum(n > 0 for n in counts)
                if any(re.search(k, text) for k in KERNEL):
                    continue
                if idle and not any(re.search(k, text) for k in RACES):
                    context = " ".join(t for n, t, _, _ in lines if number - 3 <= n <= number)
                    if not any(re.search(k, context) for k in RACES):
                        missed.append("%s:%d never runs: %s" % (name, number, text))
                elif 0 in counts:
                    context = " ".join(t for n, t, _, _ in lines if number - 1 <= n <= number + 1)
                    if not any(re.search(k, context) for k in RACES):
                        missed.append("%s:%d one way only: %s" % (name, number, text))
            print("# figure: %s: %d of %d branches taken (%.1f %%)" % (re.sub(r"^.*_|\.c.*$", "", name), taken, all_,
                                                                       100.0 * taken / all_))
        assert not missed, "\n".join(missed)
    finally:
        shutil.rmtree(work)


run()
