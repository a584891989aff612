#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's own sample modules (samples/kprobes of Debian's linux-source-6.1), compiled unchanged and loaded into
programs.

They are not part of this tree. The package is taken from where it is installed, else fetched by apt-get once and
kept in ~/.cache/dprobes-tests; DP_SAMPLES names a directory with the .c files instead.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VICTIM = os.path.join(BUILD, "tests", "self", "victim")
SLEEPER = os.path.join(BUILD, "tests", "self", "sleeper")
PACKAGE = "linux-source-6.1"
NAMES = ("kprobe_example.c", "kretprobe_example.c")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dprobes-tests", PACKAGE)


def quiet(argv, limit, **kw):
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=limit, **kw).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def fetch(to):
    """The sample files into the directory `to`; False when they cannot be had."""
    with tempfile.TemporaryDirectory() as tmp:
        tar = "/usr/src/%s.tar.xz" % PACKAGE
        if not os.path.exists(tar):
            quiet(["apt-get", "download", "-q", PACKAGE], 120, cwd=tmp)
            packages = glob.glob(os.path.join(tmp, "*.deb"))
            if not packages or not quiet(["dpkg-deb", "-x", packages[0], tmp], 120):
                return False
            tar = os.path.join(tmp, tar[1:])
        quiet(["tar", "-xJf", tar, "-C", tmp, "--wildcards", "*/samples/kprobes/*.c"], 180)
        found = glob.glob(os.path.join(tmp, "*", "samples", "kprobes", "*.c"))
        if not set(NAMES) <= {os.path.basename(f) for f in found}:
            return False
        os.makedirs(to, exist_ok=True)
        for f in found:
            shutil.copy(f, to)
    return True


def samples():
    where = os.environ.get("DP_SAMPLES", CACHE)
    if not all(os.path.exists(os.path.join(where, n)) for n in NAMES) and not fetch(where):
        raise Skip("%s cannot be had" % PACKAGE)
    return where


def compile_sample(name, into):
    lib = os.path.join(BUILD, "src", "host", "self")
    out = os.path.join(into, name + ".so")
    r = subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror",
                        "-I" + os.path.join(ROOT, "include", "compat"),
                        "-I" + os.path.join(ROOT, "include"), os.path.join(samples(), name + ".c"),
                        "-L" + lib, "-ldprobes",
                        "-Wl,-rpath," + lib, "-o", out], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    return out


def load(module, *args):
    r = subprocess.run([DPROBES, "load", module, *args, "--", VICTIM], capture_output=True, text=True, timeout=60)
    assert r.returncode == 7 and r.stdout == "work 3, preload 0, arguments 0\n", r
    return r.stderr


@test
def kprobe_sample():
    """kprobe_example.c: pre and post handler on a function named by its parameter"""
    with tempfile.TemporaryDirectory() as tmp:
        out = load(compile_sample("kprobe_example", tmp), "symbol=work")
        m = re.fullmatch(r"kprobe_init: Planted kprobe at ([0-9a-f]{16})\n"
                         r"handler_pre: <work> p->addr = 0x(\S+), ip = (\S+), flags = 0x[0-9a-f]+\n"
                         r"handler_post: <work> p->addr = 0x(\S+), flags = 0x[0-9a-f]+\n"
                         r"kprobe_exit: kprobe at (\S+) unregistered\n", out)
        assert m and len({int(a, 16) for a in m.groups()}) == 1, out
        out = load(os.path.join(tmp, "kprobe_example.so"))  # a function of the kernel: not here
        assert "kprobe_init: register_kprobe failed, returned -2\n" in out, out


@test
def kretprobe_sample():
    """kretprobe_example.c: return value and time of a function"""
    with tempfile.TemporaryDirectory() as tmp:
        out = load(compile_sample("kretprobe_example", tmp), "func=work")
        assert re.fullmatch(r"Planted return probe at work: ([0-9a-f]{16})\n"
                            r"work returned 3 and took \d+ ns to execute\n"
                            r"kretprobe at \1 unregistered\n"
                            r"Missed probing 0 instances of work\n", out), out


@test
def running_sample():
    """kretprobe_example.c, loaded into a running process with its parameter, and unloaded"""
    with tempfile.TemporaryDirectory() as tmp:
        module = compile_sample("kretprobe_example", tmp)
        log = open(os.path.join(tmp, "log"), "w+")
        p = start([SLEEPER, "poll", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert p.stdout.readline() == "ready\n"
        dprobes("load", module, "func=count", "-p", p.pid, check=0)
        wait_for(lambda: "count returned 1 and took" in open(log.name).read(), what="a line of the module")
        dprobes("unload", module, "-p", p.pid, check=0)
        assert "Missed probing 0 instances of count\n" in open(log.name).read()
        p.stdin.write("q\n")
        p.stdin.flush()
        assert p.wait(60) == 0


run()
