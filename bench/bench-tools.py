#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What tracers cost a call: each traces the same calls of the same small program and throws away what it shows, and
the program takes its own time. All take turns; medians over the rounds. A tool that is missing is named.

Usage: bench-tools.py [-r ROUNDS] [-j FILE] BUILD_DIR"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, noclone)) long called(long a, long b) { __asm__ volatile("" ::: "memory"); return a + b; }

int main(int argc, char **argv)
{
	long n = atol(argv[2]), sum = 0;
	struct timespec begin, end;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (!strcmp(argv[1], "function"))
		for (long i = 0; i < n; i++)
			sum += called(i, sum);
	else if (!strcmp(argv[1], "library"))
		for (long i = 0; i < n; i++)
			sum += rand();
	else
		for (long i = 0; i < n; i++)
			sum += syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &end);
	FILE *f = fopen(argv[3], "w");
	fprintf(f, "%f", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / n);
	fclose(f);
	return argc + sum == 0;
}
"""

# What is traced, who, how often it is called in a round, the command before the program and its arguments.
TOOLS = [
    ("function", "(untraced)", 1000000, []),
    ("function", "dprobes, one record", 100000,
     ["{dprobes}", "trace", "-o", "/dev/null", "p called $arg1 $arg2", "--"]),
    ("function", "dprobes, entry and exit", 100000,
     ["{dprobes}", "record", "-o", "/dev/null", "p called $arg1 $arg2", "r called $retval", "--"]),
    ("function", "uftrace, built for it (-pg)", 100000, ["uftrace", "record", "-d", "{work}/data", "{pg}"]),
    ("function", "bpftrace, one line", 20000,
     ["bpftrace", "-e", 'uprobe:{plain}:called {{ printf("%lx %lx\\n", arg0, arg1); }}', "-o", "/dev/null", "-c"]),
    ("library", "(untraced)", 1000000, []),
    ("library", "dprobes, one record", 100000, ["{dprobes}", "trace", "-o", "/dev/null", "p libc:rand", "--"]),
    ("library", "ltrace", 2000, ["ltrace", "-e", "rand", "-o", "/dev/null"]),
    ("library", "ltrace, counted", 2000, ["ltrace", "-c", "-e", "rand", "-o", "/dev/null"]),
    ("system call", "(untraced)", 1000000, []),
    ("system call", "dprobes, one record", 100000, ["{dprobes}", "trace", "-o", "/dev/null", "s getppid", "--"]),
    ("system call", "dprobes, counted", 100000, ["{dprobes}", "trace", "-o", "/dev/null", "s getppid count", "--"]),
    ("system call", "strace", 5000, ["strace", "-e", "trace=getppid", "-o", "/dev/null"]),
    ("system call", "strace, counted", 5000, ["strace", "-c", "-o", "/dev/null"]),
    ("system call", "strace, another call, BPF", 100000,
     ["strace", "-f", "--seccomp-bpf", "-e", "trace=openat", "-o", "/dev/null"]),
]


def build(work):
    source = os.path.join(work, "calls.c")
    with open(source, "w") as f:
        f.write(SOURCE)
    names = {"plain": os.path.join(work, "calls"), "pg": os.path.join(work, "calls-pg")}
    for name, options in (("plain", []), ("pg", ["-pg"])):
        subprocess.run(["gcc", "-O2", "-g", *options, "-o", names[name], source], check=True)
    return names


def run(tool, names):
    """Nanoseconds a call, and why there are none."""
    what, _, calls, before = tool
    before = [word.format(**names) for word in before]
    if before and not shutil.which(before[0]):
        return None, "not installed"
    result = os.path.join(names["work"], "ns")
    program = [] if before and before[-1] == names["pg"] else [names["plain"]]
    arguments = [what.split()[0], str(calls), result]
    if before and before[-1] == "-c":
        program, arguments = [], [" ".join(program + arguments)]
    p = subprocess.run(before + program + arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                       timeout=300, check=False)
    if not os.path.exists(result):
        return None, p.stderr.strip().split("\n")[0]
    with open(result) as f:
        ns = float(f.read())
    os.unlink(result)
    return ns, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-r", dest="rounds", type=int, default=5)
    parser.add_argument("-j", dest="json")
    parser.add_argument("build")
    opt = parser.parse_args()
    rows = [{"what": t[0], "tool": t[1], "ours": t[1].startswith("dprobes"), "ns": [], "skipped": None} for t in TOOLS]
    with tempfile.TemporaryDirectory() as work:
        names = dict(build(work), work=work, dprobes=os.path.join(opt.build, "src/cmd/dprobes"))
        for _ in range(opt.rounds):
            for tool, row in zip(TOOLS, rows):
                ns, row["skipped"] = (None, row["skipped"]) if row["skipped"] else run(tool, names)
                row["ns"] += [ns] if ns else []
    print("## Tracers\n\n| %-12s | %-30s | %12s | %12s |\n|---|---|--:|--:|" % ("call", "tracer", "ns a call", "added"))
    bare = 0
    for row in rows:
        if row["ns"]:
            row["ns"] = statistics.median(row["ns"])
            bare = row["ns"] if row["tool"] == "(untraced)" else bare
            row["added"] = row["ns"] - bare
            print("| %-12s | %-30s | %12.1f | %12.1f |" % (row["what"], row["tool"], row["ns"], row["added"]))
        else:
            print("| %-12s | %-30s | skipped: %s" % (row["what"], row["tool"], row["skipped"]))
    if opt.json:
        with open(opt.json, "w") as f:
            json.dump(rows, f, indent=1)


sys.exit(main())
