# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Random C, compiled by dpcc and run on the tests' machine, must compute what gcc's code computes.

DP_DIFF=SEED,FILES makes a longer run with other programs; the default is always the same.
"""
import os
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

MACHINE = os.path.join(BUILD, "tests", "dpcc", "dpcc-machine")
OBEY = target("obey")
TYPES = ["signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "unsigned long",
         "_Bool", "char"]
SEED, FILES = (int(x) for x in os.environ.get("DP_DIFF", "1,12").split(","))
HANDLERS, VALUES = 12, 30


class Program:
    """One handler: variables of random types, statements that change them, values that are logged."""

    def __init__(self, rnd, n):
        self.r = rnd
        self.n = n
        self.vars = []
        self.lines = []

    def constant(self):
        r = self.r
        v = r.choice([0, 1, -1, 2, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, -2**31, 2**32 - 1, 2**63 - 1,
                      r.randrange(-100, 100), r.getrandbits(32), r.getrandbits(63)])
        if v == -2**31:
            return "(-2147483647 - 1)"
        text = ("%d" if r.random() < .7 else "0x%x") % abs(v)
        text += r.choice(["", "", "", "u", "L", "UL"]) if v >= 0 else ""
        return "(-%s)" % text if v < 0 else text

    def leaf(self):
        r = self.r
        if not self.vars or r.random() < .25:
            return self.constant()
        k = r.random()
        if k < .1:
            return "arr[%s & 7]" % r.choice(self.vars)
        if k < .2:
            # What wide bitfields become is not the same in all compilers.
            return r.choice(["s.a", "s.b", "s.c", "s.f1", "s.f2", "(long)s.f3"])
        if k < .25:
            return "(*p)"
        if k < .3:
            return "sp->b"
        return r.choice(self.vars)

    def expr(self, depth):
        r = self.r
        if depth <= 0:
            return self.leaf()
        k = r.random()
        a = self.expr(depth - 1)
        if k < .1:
            return "(%s)(%s)" % (r.choice(TYPES), a)
        if k < .2:
            return "%s(%s)" % (r.choice("-~!+"), a)
        b = self.expr(depth - 1)
        if k < .25:
            return "(%s ? %s : %s)" % (self.expr(depth - 2), a, b)
        if k < .35:
            return "((%s) %s (%s))" % (a, r.choice(["/", "%"]), "((%s) & 15) + 1" % b)
        if k < .45:
            return "((%s) %s ((%s) & %s))" % (a, r.choice(["<<", ">>"]), b, "7")
        if k < .5:
            return "help%d(%s, %s)" % (self.n, a, b)
        return "((%s) %s (%s))" % (a,
                r.choice(["+", "-", "*", "&", "|", "^", "==", "!=", "<", ">", "<=", ">=", "&&", "||"]), b)

    def place(self):
        return self.r.choice(self.vars + ["arr[%s & 7]" % self.r.choice(self.vars), "s.a", "s.b", "s.f1",
                                          "s.f2", "s.f3", "*p",
                                          "sp->c"])

    def statement(self, depth):
        r = self.r
        k = r.random()
        if depth <= 0 or k < .35:
            op = r.choice(["=", "=", "+=", "-=", "*=", "&=", "|=", "^="])
            return "%s %s %s;" % (self.place(), op, self.expr(2))
        if k < .42:
            return "%s %s ((%s) & 7);" % (self.place(), r.choice(["<<=", ">>="]), self.expr(1))
        if k < .48:
            return "%s %s ((%s) & 7) + 1;" % (self.place(), r.choice(["/=", "%="]), self.expr(1))
        if k < .58:
            v = self.place()
            return r.choice(["%s++;", "--%s;", "v0 = %s++;", "v1 = --%s;", "++%s;"]) \
                    % ("(%s)" % v if v[0] == "*" else v)
        if k < .68:
            return "if (%s) { %s } else { %s }" % (self.expr(2), self.statement(depth - 1), self.statement(depth - 1))
        if k < .78:
            i = "i%d" % r.randrange(10**6)
            return "for (int %s = 0; %s < %d; %s++) { %s %s }" % (
                i, i, r.randrange(1, 5), i,
                r.choice(["", "if (%s) continue;" % self.expr(1), "if (%s) break;" % self.expr(1)]),
                self.statement(depth - 1))
        if k < .84:
            return "{ int w = %d; do { %s } while (--w); }" % (r.randrange(1, 4), self.statement(depth - 1))
        if k < .92:
            return "switch ((%s) & 3) { case 0: %s break; case 1: %s case 2: %s break; default: %s }" % (
                self.expr(1), *[self.statement(depth - 1) for _ in range(4)])
        return "v2 = (%s, %s); t = s; s.a = t.b; arr[1] = fib(%d);" % (self.expr(1), self.expr(2), r.randrange(1, 7))

    def text(self):
        out = ["struct S%d { int a; short b; unsigned char c; int f1 : 3; unsigned int f2 : 11; long f3 : 37; };"
               % self.n,
               "static long help%d(int a, unsigned short b) { return a * 3L - b; }" % self.n,
               "void handler%d()" % self.n, "{"]
        for i in range(6):
            out.append("\t%s v%d = %s;" % (self.r.choice(TYPES), i, self.constant()))
        out.append("\tint arr[8] = { 5, -3, 100, 7 };")
        out.append("\tstruct S%d s = { 1, -2, 3, -1, 77, 12345 }, t, *sp = &s;" % self.n)
        out.append("\tint *p = &arr[3];")
        self.vars = ["v%d" % i for i in range(6)]
        for _ in range(8):
            out.append("\t" + self.statement(2))
        for _ in range(VALUES - 12):
            out.append("\tLOG(%s);" % self.expr(4))
        for v in self.vars + ["s.a", "s.f1", "s.f2", "s.f3", "arr[3]", "t.c == s.c"]:
            out.append("\tLOG(%s);" % v.replace("t.c == s.c", "1"))
        return "\n".join(out + ["}"])


COMMON = "static long fib(int n) { if (n < 2) return n; return fib(n - 1) + fib(n - 2); }\n"


def both(directory, seed):
    rnd = random.Random(seed)
    programs = [Program(rnd, i).text() for i in range(HANDLERS)]
    c = os.path.join(directory, "p%d.c" % seed)
    dpc = os.path.join(directory, "p%d.dpc" % seed)
    with open(c, "w") as f:
        f.write("#include <stdio.h>\n#define LOG(x) printf(\"%%ld\\n\", (long)(x))\n%s%s\n"
                "int main(void) { %s return 0; }\n"
                % (COMMON, "\n".join(programs), " ".join("handler%d();" % i for i in range(HANDLERS))))
    with open(dpc, "w") as f:
        f.write("#pragma MODNAME(\"obey\")\n#pragma JMPMAX(65535)\n#define LOG(x) log((long)(x))\n%s" % COMMON)
        for i, p in enumerate(programs):
            f.write("#pragma PROBEPOINT_LOCATION(\"add_numbers\")\n#pragma PROBEPOINT_HANDLER(\"handler%d\")\n%s\n"
                    % (i, p))
    exe = os.path.join(directory, "p%d" % seed)
    subprocess.run(["gcc", "-O1", "-fwrapv", "-w", "-o", exe, c], check=True)
    want = subprocess.run([exe], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    out = subprocess.run([MACHINE, OBEY, dpc], stdout=subprocess.PIPE, text=True).stdout
    got = re.findall(r" = (-?\d+)$", out, re.M)
    if got != want:
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        logs = [line for p in programs for line in p.splitlines() if "LOG(" in line]
        raise AssertionError("seed %d: value %d of %d: %s instead of %s, handler %d: %s\n%s" % (
            seed, at, len(want), got[at:at + 1], want[at:at + 1], at // VALUES,
            logs[at] if at < len(logs) else "?", out[:300]))
    return len(want)


@test
def differential():
    """random handlers compute what gcc's code computes"""
    need("gcc")
    with tempfile.TemporaryDirectory(prefix="dp-diff-") as directory:
        n = sum(both(directory, SEED * 1000 + i) for i in range(FILES))
    print("# figure: %d random expressions in %d handlers agree with gcc" % (n, FILES * HANDLERS))


run()
