#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Hooks from outside: what does not compile, C++, other compilers and flags, the archive, the example, the bench."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from report import finish, ok, run, skip  # noqa: E402

BUILD = os.environ["DP_BUILD"]
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIB = os.path.join(BUILD, "src", "host", "self")
LINK = ["-L" + LIB, "-ldprobes", "-Wl,-rpath," + LIB]

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
    variants = [("cc", "-O0"), ("cc", "-Os", "-fno-pie", "-no-pie"), ("cc", "-O3", "-fPIC"),
                ("cc", "-O2", "-fcf-protection=full"),
                ("cc", "-O2", "-ffunction-sections", "-Wl,--gc-sections"), ("cc", "-O2", "-flto"), ("clang", "-O2"),
                ("cc", "-O2", "archive")]
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


class Server:
    """The example, which answers each line."""

    def __init__(self, *modules):
        top = os.path.join(BUILD, "examples", "hooks")
        self.p = subprocess.Popen([os.path.join(top, "server"), *[os.path.join(top, m + ".so") for m in modules]],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self.p.stdout.readline() == "ready\n"

    def ask(self, path):
        self.p.stdin.write(path + "\n")
        self.p.stdin.flush()
        lines = [self.p.stdout.readline()]
        while lines[-1].startswith("tracer:"):
            lines.append(self.p.stdout.readline())
        return [line.rstrip("\n") for line in lines]

    def hooks(self, *args):
        return run(os.environ["DPROBES"], "hooks", "-p", str(self.p.pid), *args)

    def end(self):
        self.p.stdin.close()
        return self.p.wait(60)


def test_example(work):
    plain, secret = os.path.join(work, "plain"), os.path.join(work, "x.secret")
    for path in (plain, secret):
        with open(path, "w") as f:
            f.write("word\nmore\n")
    s = Server("audit")
    ok(s.ask(plain) == [plain + ": word"] and s.ask(secret) == [secret + ": word"],
       "example: idle, everything is answered")
    rc, out = s.hooks()
    ok(rc == 0 and re.search(r"^request +hook +1  -\n  1  audit +writable +-$", out, re.M)
       and re.search(r"^file_opening +dynamic +1  -\n  1  audit", out, re.M),
       "dprobes hooks: the list: %s" % ("" if rc == 0 else out))
    rc, out = s.hooks("--arm", "request:audit")
    ok(rc == 0 and s.ask("/proc/version") == ["/proc/version: refused: Permission denied"]
       and s.ask(plain) == [plain + ": word"],
       "dprobes hooks --arm: the audit refuses: %s" % out)
    rc, out = s.hooks()
    ok(re.search(r"^request +hook +1  active\n  1  audit +writable +armed$", out, re.M), "the list shows it")
    rc, out = s.hooks("--json")
    rows = [json.loads(line) for line in out.splitlines()]
    ok({"hook": "request", "kind": "hook", "places": 1, "active": True, "open": False,
        "exits": [{"exit": "audit", "position": 1, "armed": True, "writable": True}]} in rows, "and as JSON")
    rc, out = s.hooks("--disarm", "request:audit")
    ok(rc == 0 and s.ask("/proc/version")[0].startswith("/proc/version: Linux"), "--disarm: it does not any more")
    for args, code in ((["--arm", "nothing"], "E-HOOK-NONE"), (["--arm", "request:nobody"], "E-HOOK-NONE"),
                       (["--arm", "file_opening:audit"], "E-HOOK-DYNAMIC"),
                       (["--arm", "file_opening"], "E-HOOK-DYNAMIC"),
                       (["word"], "E-CMD-EXTRA")):
        rc, out = s.hooks(*args)
        ok(rc != 0 and code in out, "dprobes hooks %s: %s" % (" ".join(args), code))
    ok(s.end() == 0, "the server ends well")
    s = Server("audit", "tracer")
    ok(s.ask(plain) == ["tracer: request " + plain, "tracer: file_opening %s r" % plain, plain + ": word"],
       "example: a tracer on the same hooks, its exits armed together")
    rc, out = s.hooks("--arm", "file_opening:audit", "--arm", "request:audit")
    ok(rc == 0 and s.ask(secret) == ["tracer: request " + secret, secret + ": refused: No such file or directory"]
       and s.ask("/proc/version") == ["/proc/version: refused: Permission denied"],
       "the audit comes first, in unprepared code, too: %s" % out)
    rc, out = s.hooks("--disarm", "file_opening:tracer")
    ok(rc != 0 and "E-HOOK-CLOSED" in out, "an exit that others may not disarm")
    ok(s.end() == 0, "it ends well")
    rc, out = run(os.environ["DPROBES"], "hooks", "-p", str(os.getpid()))
    ok(rc == 0 and out == "", "a process without hooks: %r" % out)


def test_programs(work):
    """An open hook is seen by probes: events, and programs in the role of exits."""
    plain = os.path.join(work, "plain")
    s = Server()
    event = "p exe:request_hook_call path=+0(+0(%dx)):string"
    trace = subprocess.Popen([os.environ["DPROBES"], "trace", "-p", str(s.p.pid), event], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    while "request_hook_call" not in run(os.environ["DPROBES"], "list", "-p", str(s.p.pid))[1]:
        time.sleep(0.02)
    s.ask(plain)
    rc, out = s.hooks("--arm", "request")
    rc2, out2 = s.hooks()
    ok(rc == 0 and re.search(r"^request +hook +1  open$", out2, re.M), "a hook is opened: %s" % out)
    ok(s.ask("/proc/version")[0].startswith("/proc/version: Linux"), "it has no exits")
    rc, out = s.hooks("--disarm", "request")
    s.ask(plain)
    trace.send_signal(signal.SIGINT)
    out, err = trace.communicate(timeout=60)
    ok(out.count("path=") == 1 and 'path="/proc/version"' in out,
       "a probe sees what is passed while it is open: %r" % out)
    program = os.path.join(work, "redirect.rpn")
    other = os.path.join(work, "other")
    with open(other, "w") as f:
        f.write("elsewhere\n")
    with open(program, "w") as f:
        f.write("name = %s\nmodtype = user\nmajor = 1\nvars = 1\noffset = request_hook_call\nminor = 1\ninc "
                "lv,0\nexit\n" % os.path.realpath("/proc/%d/exe" % s.p.pid))
    rc, out = run(os.environ["DPROBES"], "insert", program)
    s.hooks("--arm", "request")
    for _ in range(3):
        s.ask(plain)
    rc2, out2 = run(os.environ["DPROBES"], "vars")
    rc3, out3 = run(os.environ["DPROBES"], "remove", "--all")
    ok(rc == 0 and rc3 == 0 and re.search(r"\b3\b", out2), "a probe program counts what is passed: %r %r %r"
       % (out, out2, out3))
    s.hooks("--disarm", "request")
    ok(s.ask(plain) == [plain + ": word"] and s.end() == 0, "and goes")


def test_kills(work):
    """A dprobes that is killed while it arms leaves a hook that works and can be armed and disarmed."""
    plain = os.path.join(work, "plain")
    s = Server("audit")
    bad = []
    for i in range(30):
        p = subprocess.Popen([os.environ["DPROBES"], "hooks", "-p", str(s.p.pid), "--disarm" if i & 1 else "--arm",
                              "request:audit"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(i % 15 * 0.001)
        p.kill()
        p.wait()
        if s.ask(plain) != [plain + ": word"] or s.ask("/proc/version")[0][:15] not in ("/proc/version: ",):
            bad.append(i)
    ok(not bad, "dprobes hooks is killed 30 times: every request is answered %s" % bad)
    rc, out = s.hooks("--arm", "request:audit")
    ok(rc == 0 and "refused" in s.ask("/proc/version")[0], "armed after that: %s" % out)
    rc, out = s.hooks("--disarm", "request:audit")
    ok(rc == 0 and "Linux" in s.ask("/proc/version")[0] and s.end() == 0, "and disarmed")


def test_bench():
    rc, out = run(os.path.join(BUILD, "bench", "bench-hooks"), "1")
    ok(rc == 0 and len(re.findall(r"^\S.* +-?[\d.]+ ns$", out, re.M)) >= 12, "bench-hooks measures every row")


def main():
    work = tempfile.mkdtemp(prefix="dp-hooks-")
    os.environ["DPROBES_DIR"] = os.path.join(work, "driver")
    try:
        test_types(work)
        test_flags(work)
        test_cxx(work)
        test_example(work)
        test_programs(work)
        test_kills(work)
        test_bench()
    finally:
        shutil.rmtree(work)
    finish()


main()
