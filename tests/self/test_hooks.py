#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Hooks from outside: what does not compile, C++, other compilers and flags, the archive, the example, the bench."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.environ["DP_BUILD"]
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIB = os.path.join(BUILD, "src", "host", "self")
LINK = ["-L" + LIB, "-ldprobes", "-Wl,-rpath," + LIB]
count = failed = 0


def ok(good, name):
    global count, failed
    count += 1
    failed += not good
    print("%sok %d - %s" % ("" if good else "not ", count, name), flush=True)


def skip(name, why):
    global count
    count += 1
    print("ok %d - %s # SKIP %s" % (count, name, why), flush=True)


def run(*argv, **kw):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **kw)
    return p.returncode, p.stdout


PRELUDE = """#include <dprobes/hooks.h>
DECLARE_HOOK(opened, int *, const char *);
static int right(struct hook *h, int *rc, const char *path) { return HOOK_CONTINUE; }
static int wrong_type(struct hook *h, int *rc, int path) { return HOOK_CONTINUE; }
static int too_few(struct hook *h, int *rc) { return HOOK_CONTINUE; }
static void no_value(struct hook *h, int *rc, const char *path) { }
DECLARE_HOOK(noted, int);
DECLARE_EXCLUSIVE_HOOK(alone, int);
DECLARE_DYNAMIC_HOOK(entered, double);
static struct { char c[16]; } big;
static int *keep(void) { (void)right; (void)wrong_type; (void)too_few; (void)no_value; (void)big; return 0; }
int (*kept[])(void) = {(int (*)(void))keep};
"""
GOOD = ["static struct hook_rec r = HOOK_EXIT(opened, right, .name = \"n\"); struct hook_rec *p = &r;",
        "int f(const char *s) { HOOK_RET(opened, s); return 1; }",
        "void f(int x) { HOOK_RET_NORC(noted, x); HOOK(noted, 3); EXCLUSIVE_HOOK(alone, x); }"]
BAD = [("an exit with another type of argument", "struct hook_rec r = HOOK_EXIT(opened, wrong_type);"),
       ("an exit with too few arguments", "struct hook_rec r = HOOK_EXIT(opened, too_few);"),
       ("an exit that returns nothing", "struct hook_rec r = HOOK_EXIT(opened, no_value);"),
       ("an exit of another hook", "struct hook_rec r = HOOK_EXIT(noted, right);"),
       ("a hook passed without its argument", "void f(void) { HOOK(noted); }"),
       ("a hook passed with too many", "void f(void) { HOOK(noted, 1, 2); }"),
       ("a hook passed with a structure", "void f(void) { HOOK(noted, big); }"),
       ("a returning hook without a pointer to the value", "int f(void) { HOOK_RET(noted); return 1; }"),
       ("an exclusive hook passed as a normal one", "void f(void) { HOOK(alone, 1); }"),
       ("a dynamic hook with a floating point argument", "")]


def compiles(compiler, text, work, *flags):
    base = PRELUDE if text == "" else PRELUDE.replace("DECLARE_DYNAMIC_HOOK(entered, double);", "")
    path = os.path.join(work, "x" + (".cc" if "++" in compiler else ".c"))
    with open(path, "w") as f:
        f.write(base + text + "\n")
    return run(compiler, "-I" + os.path.join(ROOT, "include"), "-c", path, "-o", path + ".o", *flags)


def test_types(work):
    for compiler in ("cc", "g++", "clang", "clang++"):
        if not shutil.which(compiler):
            skip("types with " + compiler, "there is no " + compiler)
            continue
        flags = ["-O2", "-Wall", "-Werror", "-Wno-unused-function"]
        bad = [out for text in GOOD for rc, out in [compiles(compiler, text, work, *flags)] if rc]
        ok(not bad, "%s takes what is right, without a warning: %s" % (compiler, bad[:1]))
        bad = [name for name, text in BAD if compiles(compiler, text, work, "-O2")[0] == 0]
        ok(not bad, "%s refuses what is wrong: %s" % (compiler, bad or len(BAD)))


def test_flags(work):
    """The places survive what compilers and linkers do to code."""
    src, plugin = os.path.join(HERE, "test-hooks.c"), os.path.join(HERE, "hook-plugin.c")
    inc = ["-I" + os.path.join(ROOT, "include"), "-I" + HERE]
    run("cc", "-O2", "-fPIC", "-shared", *inc, plugin, "-o", os.path.join(work, "hook-plugin.so"), *LINK)
    variants = [("cc", "-O0"), ("cc", "-Os", "-fno-pie", "-no-pie"), ("cc", "-O3", "-fPIC"), ("cc", "-O2", "-fcf-protection=full"),
                ("cc", "-O2", "-ffunction-sections", "-Wl,--gc-sections"), ("cc", "-O2", "-flto"), ("clang", "-O2"), ("cc", "-O2", "archive")]
    private = subprocess.run(["pkg-config", "--libs", "libdw", "libelf"], capture_output=True, text=True).stdout.split()
    for compiler, *flags in variants:
        name = " ".join([compiler, *flags])
        if not shutil.which(compiler):
            skip(name, "there is no " + compiler)
            continue
        link = LINK
        if "archive" in flags:
            flags, link = ["-O2", "-rdynamic"], [os.path.join(LIB, "libdprobes.a"), *private]
        exe = os.path.join(work, "test-hooks")
        rc, out = run(compiler, "-g", *flags, *inc, src, "-o", exe, *link)
        if rc == 0:
            rc, out = run(exe)
        ok(rc == 0 and "\n1..54\n" in out, "all of test-hooks with %s%s" % (name, "" if rc == 0 else ": " + out[-600:]))


def test_cxx(work):
    if not shutil.which("g++"):
        skip("C++", "there is no g++")
        return
    exe = os.path.join(work, "hooks-cc")
    rc, out = run("g++", "-O2", "-g", "-I" + os.path.join(ROOT, "include"), os.path.join(HERE, "hooks.cc"),
                  os.path.join(HERE, "hooks-other.cc"), "-o", exe, "-rdynamic", *LINK)
    if rc == 0:
        rc, out = run(exe)
    for line in out.splitlines():
        m = re.match(r"(not )?ok \d+ - (.*)", line)
        if m:
            ok(not m.group(1), "C++: " + m.group(2))
    ok(rc == 0, "the C++ program came to its end%s" % ("" if rc == 0 else ": " + out[-600:]))


def main():
    work = tempfile.mkdtemp(prefix="dp-hooks-")
    try:
        test_types(work)
        test_flags(work)
        test_cxx(work)
    finally:
        shutil.rmtree(work)
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


main()
