#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commands that pages show: run in the page's order, and what they print compared with the page by its form.

Between lines of ``` a line that begins with "$ " is a command (with what follows a backslash at its end), and the lines
behind it are its output. A line "..." stands for any lines. Numbers, times, addresses, texts and bars are compared as
being there, not by their values; of lines with the same form one is enough, in any order.

As a program: pages.py PAGE prints the page with what its commands print now, for editing."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
EXAMPLES = "/usr/share/doc/dprobes/examples"  # where packages put them
FORMS = [
    (r"^ +\S+-\d+ +\[\d+\] +\d+\.\d+:", "TASK:"),  # name and number of a thread, processor, time
    (r"\"(?:[^\"\\]|\\.)*\"", '"S"'),
    (r"/\S*/(?=\w)", "DIR/"),
    (r"\|[#@ ]*\|?$", "BAR"),
    (r" \(ended\)", ""),
    (r"; (?:about|less than) [\d.]+ % of one processor", ""),
    (r"\+0x[0-9a-f]+", "+N"),
    (r"\b0x[0-9a-f]+|(?<!\.)\b[0-9a-f]{8,}\b", "N"),
    (r"-?\b\d+(?:\.\d+)?(?:e[+-]\d+)? ?(?:ns|us|ms|s|KiB|MiB)?(?![\w.])", "N"),
    (r"-?\d+", "N"),
    (r"\bN s\b", "N"),  # seconds stand apart in columns
    # Functions that the C library does not export have names only with its debug symbols, and from glibc 2.41 on one of
    # these makes many of the system calls.
    (r"\b(?:start_thread|clone[3N]?|open|clock_nanosleep|__internal_syscall_cancel|libc\.so\.[6N])\+N", "LIBC+N"),
    (r"\s+", " "),
]


class Step:
    """A command of a page, the lines that the page shows of its output, and where they are in the page."""

    def __init__(self, command, at):
        self.command, self.first, self.end = command, at, at
        self.shown, self.printed, self.status = [], [], None


def steps_of(text):
    """The commands of a page."""
    steps, literal, step = [], False, None
    for n, line in enumerate(text.split("\n")):
        if line.startswith("```"):
            literal, step = not literal, None
        elif literal and line.startswith("$ "):
            step = Step(line[2:], n + 1)
            steps.append(step)
        elif step and step.command.endswith("\\") and not step.shown:
            step.command += "\n" + line
            step.first = step.end = n + 1
        elif step:
            step.shown.append(line)
            step.end = n + 1
    return steps


def form(line):
    for pattern, word in FORMS:
        line = re.sub(pattern, word, line)
    return line.strip()


def forms(lines):
    return {form(line) for line in lines} - {"", "..."}


def script_of(steps):
    """All steps as one script, word for word: pages use the directory and the jobs of the commands before."""
    lines = ["exec 2>&1"]
    for n, step in enumerate(steps):
        command = step.command.replace(EXAMPLES, ROOT + "/examples")
        lines += ["echo '@@ %d'" % n, "{ %s\n} </dev/null" % command, "echo '@@ status' $?"]
        if command.endswith("&"):  # nobody types the next one before the program runs
            lines += ["while [ /proc/$!/exe -ef /proc/$$/exe ]; do sleep 0.05; done; sleep 0.2"]
    return "\n".join(lines + ["exit 0", ""])


def run_page(path, bindir, limit=300):
    """The steps of a page, after they have run in a directory of their own with the commands of bindir, and among
    processes of their own: only one of them has the name that the page uses."""
    with open(path) as f:
        steps = steps_of(f.read())
    work = tempfile.mkdtemp(prefix="dp-page-")
    env = dict(os.environ, PATH=bindir + ":" + os.environ["PATH"], DPROBES_DIR=work + "/driver", HOME=work,
               NO_COLOR="1", LC_ALL="C")
    with open(work + "/script", "w") as f:
        f.write(script_of(steps))
    os.mkdir(work + "/here")
    os.symlink(ROOT + "/examples", work + "/here/examples")  # as in the source tree, which README.md begins in
    with open(work + "/output", "w") as out:
        p = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", work + "/script"],
                             stdout=out, cwd=work + "/here", env=env, start_new_session=True)
        try:
            p.wait(limit)
        except subprocess.TimeoutExpired:
            subprocess.run([bindir + "/dprobes", "remove", "--all"], env=env)  # and ends the driver
            raise
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)  # and with it all that was started
            except ProcessLookupError:
                pass
    step = None
    with open(work + "/output", errors="replace") as f:
        for line in f.read().split("\n"):
            mark = re.match(r"@@ (?:status )?(\d+)$", line)
            if mark and "status" in line:
                step.status, step = int(mark[1]), None
            elif mark:
                step = steps[int(mark[1])]
            elif step:
                step.printed.append(line.replace(work + "/here", "/root").rstrip())
    shutil.rmtree(work, ignore_errors=True)
    return steps


def failure(step):
    """What is wrong with a step that has run, or None."""
    refused = any(line.startswith("dprobes: E-") for line in step.shown)
    if step.status is None or bool(step.status) != refused:
        return "ended with %s" % step.status
    if not step.shown:
        return None
    shown, printed = forms(step.shown), forms(step.printed)
    if shown - printed:
        return "does not print (any more): " + " / ".join(sorted(shown - printed))
    if "..." not in (line.strip() for line in step.shown) and printed - shown:
        return "prints what is not on the page: " + " / ".join(sorted(printed - shown))
    return None


def failures(path, bindir, without=None):
    """What differs from the page, for each command with what it printed; and how many commands there were. Those that
    the pattern matches are not judged."""
    steps = [step for step in run_page(path, bindir) if not (without and re.search(without, step.command))]
    bad = [(step, failure(step)) for step in steps]
    return ["$ %s\n%s\n%s" % (step.command, why, "\n".join(step.printed)) for step, why in bad if why], len(steps)


def main():
    path = sys.argv[1]
    with open(path) as f:
        lines = f.read().split("\n")
    build = os.environ.get("DP_BUILD", os.path.join(ROOT, "build"))
    for step in reversed(run_page(path, os.path.join(build, "src", "cmd"))):
        why = failure(step)
        if why:
            print("%s: %s: %s" % (path, step.command, why), file=sys.stderr)
        lines[step.first:step.end] = step.printed
    print("\n".join(lines), end="")


if __name__ == "__main__":
    main()
