#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The examples of the Kprobes library do what they say; a debugger sees through a probed call; the installed library
can be used."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from report import finish, ok, run, skip  # noqa: E402

BUILD = os.environ["DP_BUILD"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def example(name):
    return os.path.join(BUILD, "examples", "kprobes", name + "-example")


def test_cxx_headers():
    """Programs include them from C++; kernel.h is for modules."""
    for compiler in filter(shutil.which, ("g++", "clang++")):
        for header, standard in (("kprobes", "17"), ("watch", "17"), ("hooks", "20")):
            rc, out = run(compiler, "-x", "c++", "-std=c++" + standard, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                          "-I" + os.path.join(ROOT, "include"), "-include", "dprobes/%s.h" % header, "/dev/null")
            ok(rc == 0, "%s.h compiles as C++%s with %s: %s" % (header, standard, compiler, out[:300]))


def test_examples():
    rc, out = run(example("kprobe"))
    ok(rc == 0 and re.search(r"planted at 0x[0-9a-f]+, optimised\n", out) and "hello\n" in out
       and re.search(r"\b[1-9]\d* bytes were written", out), "kprobe example: %r" % out)
    if shutil.which("g++"):
        rc, out = run(example("kprobe") + "-cc")
        ok(rc == 0 and out == "1 opened, the last one /dev/null\n", "kprobe example in C++: %r" % out)
    else:
        skip("kprobe example in C++", "g++ is not installed")
    rc, out = run(example("kprobe"), "post")
    ok(rc == 0 and "a breakpoint" in out and re.search(r"\b[1-9]\d* bytes were written", out),
       "with a post handler: %r" % out)
    rc, out = run(example("jprobe"))
    ok(rc == 0 and out == "area of the door: 0.9 x 2\n1.8\narea of the window: 1.5 x 1\n1.5\n",
       "jprobe example: %r" % out)
    rc, out = run(example("kretprobe"))
    times = [int(t) for t in re.findall(r"libc:usleep returned 0 and took (\d+) ns", out)]
    ok(rc == 0 and len(times) == 3 and all(t >= (i + 1) * 1000000 for i, t in enumerate(times))
       and "missed 0" in out, "kretprobe example: %r" % out)
    rc, out = run(example("kretprobe"), "no_such_function")
    ok(rc == 1 and "E-SYM-NONE" in out, "an unknown function is told: %r" % out)


def test_bench():
    rc, out = run(os.path.join(BUILD, "bench", "bench-kprobes"), "1")
    rows = {}
    for line in out.splitlines():
        m = re.match(r"(\S*) +\S.*? +(-?[\d.]+ (?:ns|us)) +(-?[\d.]+ (?:ns|us))", line)
        if m:
            rows[m.group(1)] = m.group(2)
    want = ["k", "b", "o", "ov", "r", "rb", "ro", "j", "jr", "kr", "kro"]
    ok(rc == 0 and all(w in rows for w in want), "every row of the overhead table could be measured: %s"
       % (rows or out))


def test_debugger():
    if not shutil.which("gdb"):
        skip("gdb", "there is no gdb")
        return
    p = subprocess.Popen([os.path.join(BUILD, "tests", "self", "stops-inside")], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    rc, out = run("gdb", "-batch", "-nx", "-ex", "set debuginfod enabled off", "-p", str(p.pid), "-ex", "bt")
    rc, listed = run(os.environ["DPROBES"], "list", "-p", str(p.pid))
    p.kill()
    p.wait()
    ok(rc == 0 and re.fullmatch(
            r"ADDRESS +TYPE  PLACE +HOW   WHO +STATE\n"
            r"[0-9a-f]{16}  r     exe:inside\+\S+  jump  library  \[OPTIMIZED\]\n", listed),
       "dprobes list -p: %r" % listed)
    rc, listed = run(os.environ["DPROBES"], "list", "-p", str(os.getpid()))
    ok(rc == 0 and not listed, "a process without probes: %r" % listed)
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\S+)", out, re.M)
    ok("inside" in frames and "caller" in frames and "main" in frames,
       "gdb's backtrace passes a probed call: %s" % frames)


def test_modules():
    here = os.path.join(BUILD, "tests", "self")
    module, victim = os.path.join(here, "module-sample.so"), os.path.join(here, "victim")
    rc, out = run(os.environ["DPROBES"], "load", module, "symbol=sum", "func=work", "--", victim)
    want = ["sample_init: ", "Planted: 0", "handler_pre: <sum> ip at the probe: 1", "jsum: a = 0, b = 0",
            "jsum: a = 0, b = 1",
            "jsum: a = 1, b = 2", "ret_handler: [victim] work returned 3, time is positive: 1",
            "work 3, preload 0, arguments 0", "sample_exit: pre 3, post 3, missed 0"]
    ok(rc == 7 and all(w in out for w in want[1:]), "a module written for the kernel, loaded into a program: %r" % out)
    rc, out = run(os.environ["DPROBES"], "load", module, "fail=1", "--", victim)
    ok(rc == 7 and "init failed: Invalid argument" in out and "sample_exit" not in out,
       "its init fails: the program runs on")
    rc, out = run(os.environ["DPROBES"], "load", module, "symbol=nonsense", "--", victim)
    ok(rc == 7 and "register_kprobe failed, returned -2" in out, "its probe finds no function: %r" % out)
    for argv in [[], [module], [module, "--"], ["no.so", "--", victim], [module, "bad", "--", victim],
                 [module, "--", "/no/such"]]:
        rc, out = run(os.environ["DPROBES"], "load", *argv)
        ok(rc != 0 and rc != 7 and "E-" in out and "work" not in out, "dprobes load %s: %r" % (" ".join(argv[1:]), out))
    rc, out = run(os.environ["DPROBES"], "load", "--help")
    ok(rc == 0 and "usage: dprobes load" in out, "dprobes load --help")


def test_old_module():
    """A source that tests/kernel builds for the kernel, too."""
    here = os.path.join(BUILD, "tests", "self")
    module, victim = os.path.join(here, "old-module.so"), os.path.join(here, "victim")
    rc, out = run(os.environ["DPROBES"], "load", module, "--", victim)
    ok(rc == 7 and "old: pre_handler: right place 1, argument 1, flags 1\n" in out
       and "old: 5 before, 5 behind, 5 entered, 5 returned, 10 of a batch\n" in out,
       "a module as of 2005, by init_module() and kallsyms_lookup_name(): %r" % out)
    ok(re.search(r"Call Trace:\n\S*old-module.so.*\n(.*\n)*\S*old-module.so\(old_work\+0x0\)", out),
       "dump_stack() in a handler shows who was called")


def test_compat_headers():
    headers = sorted(os.listdir(os.path.join(ROOT, "include", "compat", "linux")))
    with tempfile.TemporaryDirectory() as work:
        whole = os.path.join(work, "whole.c")
        with open(whole, "w") as f:
            f.write("".join("#include <linux/%s>\n" % h for h in headers + ["version.h", "fs.h", "uio.h"]))
        sources = [whole]
        for header in headers:
            sources.append(os.path.join(work, header[:-2] + ".c"))
            with open(sources[-1], "w") as f:
                f.write("#include <linux/%s>\n#include <linux/%s>\n" % (header, header))
        for source in sources:
            rc, out = run("cc", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function",
                          "-I" + os.path.join(ROOT, "include", "compat"), "-I" + os.path.join(ROOT, "include"), source)
            if rc:
                break
        ok(rc == 0, "each header for sources of the kernel compiles alone, twice, and beside all others: %s" % out)


def test_llvm():
    lib = "/usr/lib/llvm-14/lib/libunwind.so.1"
    exe = os.path.join(BUILD, "tests", "self", "test-throw")
    if not os.path.exists(lib) or not os.path.exists(exe):
        skip("LLVM's unwinder", "there is no " + (exe if os.path.exists(lib) else lib))
        return
    rc, out = run(exe, env=dict(os.environ, LD_PRELOAD=lib))
    ok(rc == 0 and "not ok" not in out, "exceptions pass probed calls with LLVM's unwinder, too")


def test_installed():
    prefix = tempfile.mkdtemp(prefix="dp-inst-")
    try:
        rc, out = run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", prefix)
        found = []
        for top, _, names in os.walk(prefix):
            found += [os.path.join(top, n) for n in names]
        pc = [f for f in found if f.endswith("dprobes.pc")]
        header = [f for f in found if f.endswith("dprobes/kprobes.h")]
        lib = [f for f in found if f.endswith("libdprobes.so")]
        archive = [f for f in found if f.endswith("libdprobes.a")]
        ok(rc == 0 and pc and header and lib and archive, "header, libraries and pkg-config file are installed %s"
           % out)
        inc, libdir = os.path.dirname(os.path.dirname(header[0])), os.path.dirname(lib[0])
        src = os.path.join(ROOT, "examples", "kprobes", "jprobe-example.c")
        exe = os.path.join(prefix, "a.out")
        rc, out = run("cc", src, "-I" + inc, "-L" + libdir, "-ldprobes", "-Wl,-rpath," + libdir, "-o", exe)
        rc2, out2 = run(exe) if rc == 0 else (1, "")
        ok(rc == 0 and rc2 == 0 and "1.8" in out2, "an example builds against them: %r" % (out + out2))
        private = subprocess.run(["pkg-config", "--libs", "libdw", "libelf"], capture_output=True,
                                 text=True).stdout.split()
        rc, out = run("cc", src, "-I" + inc, archive[0], *private, "-o", exe)
        rc2, out2 = run(exe) if rc == 0 else (1, "")
        ok(rc == 0 and rc2 == 0 and "1.8" in out2, "and against the archive: %r" % (out + out2))
    finally:
        shutil.rmtree(prefix)


test_cxx_headers()
test_examples()
test_bench()
test_modules()
test_old_module()
test_compat_headers()
test_debugger()
test_llvm()
test_installed()
finish()
