# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Random expressions in event lines, values and conditions, must be what gcc's code computes in the probed function.

DP_DIFF=SEED,PROGRAMS makes a longer run with other programs; the default is always the same.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-expr-")
SEED, PROGRAMS = (int(x) for x in os.environ.get("DP_DIFF", "1,3").split(","))
VALUES, REALS, CONDITIONS, CALLS = 30, 10, 6, 12
INTEGERS = {"a": "signed char", "b": "unsigned char", "c": "short", "d": "unsigned short", "e": "int",
            "f": "unsigned", "g": "long", "h": "unsigned long"}
NAMES = list(INTEGERS)
PARAMETERS = ", ".join("%s %s" % (t, n) for n, t in INTEGERS.items()) + ", double x, float y"
EDGES = [0, 1, -1, 2, 127, 128, 255, 32767, 65535, 2**31 - 1, -2**31, 2**32 - 1, 2**63 - 1, -2**63]


class Expressions:
    """Each as a pair of texts: with the line's names, and as C."""

    def __init__(self, rnd):
        self.r = rnd

    def leaf(self):
        r, k = self.r, self.r.random()
        name = r.choice(NAMES)
        if k < .25:
            number = r.choice([0, 1, 2, 7, 127, 255, 65535, 2**31 - 1, 2**32 - 1])
            text = "%d%s" % (number, r.choice(["", "", "u", "L"]))
            return text, text
        if k < .35:
            return "$arg%d" % (1 + NAMES.index(name)), name
        if k < .45:
            size = r.choice([8, 16, 32])
            sign = r.choice("su")
            return "$%s:%s%d" % (name, sign, size), "((%sint%d_t)%s)" % ("u" if sign == "u" else "", size, name)
        return "$" + name, name

    def integer(self, depth):
        r, k = self.r, self.r.random()
        if not depth or k < .1:
            return self.leaf()
        p, q = self.integer(depth - 1), self.integer(depth - 1)
        if k < .5:
            op = r.choice(["+", "-", "*", "&", "|", "^", "==", "!=", "<", ">", "<=", ">=", "&&", "||"])
            return tuple("(%s %s %s)" % (s, op, t) for s, t in zip(p, q))
        if k < .6:
            op = r.choice(["/", "%"])
            return tuple("(%s %s ((%s & 7) + 1))" % (s, op, t) for s, t in zip(p, q))
        if k < .7:
            op = r.choice(["<<", ">>"])
            return tuple("((long)%s %s (%s & 31))" % (s, op, t) for s, t in zip(p, q))
        if k < .8:
            op = r.choice(["-", "~", "!"])
            return tuple("(%s%s)" % (op, s) for s in p)
        if k < .9:
            cast = r.choice(list(INTEGERS.values()))
            return tuple("((%s)%s)" % (cast, s) for s in p)
        return tuple("(%s ? %s : %s)" % (s, t, u) for s, t, u in zip(p, q, self.integer(depth - 1)))

    def real(self, depth):
        r, k = self.r, self.r.random()
        if not depth or k < .1:
            return r.choice([("$x", "x"), ("$x", "x"), ("(double)$y", "(double)y"), ("0.25", "0.25"), ("3e5", "3e5")])
        p, q = self.real(depth - 1), self.real(depth - 1)
        if k < .7:
            op = r.choice("+-*/")
            return tuple("(%s %s %s)" % (s, op, t) for s, t in zip(p, q))
        if k < .85:
            return tuple("(double)(%s)" % s for s in self.integer(1))
        return tuple("(%s < %s ? %s : %s)" % (s, t, t, s) for s, t in zip(p, q))

    def condition(self):
        op = self.r.choice(["<", ">", "<=", ">=", "==", "!="])
        p, q = (self.integer(2), self.integer(2)) if self.r.random() < .6 else (self.real(1), self.real(1))
        return tuple("%s %s %s" % (s, op, t) for s, t in zip(p, q))


def literal(v):
    return "(-9223372036854775807L - 1)" if v == -2**63 else "%dL" % v


def call(r):
    numbers = [literal(r.choice(EDGES) if r.random() < .6 else r.getrandbits(64) - 2**63) for _ in INTEGERS]
    return "probed(%s, %r, %rf);" % (", ".join(numbers), r.choice([0.0, -1.5, 1e6, r.uniform(-1e3, 1e3)]),
                                    r.choice([0.5, -3.0, 1024.0]))


def source(r, integers, reals, conditions):
    prints = ['printf("%%ld ", (long)%s);' % c for _, c in integers]
    prints += ['printf("%%.17g ", (double)(%s));' % c for _, c in reals]
    prints += ['printf("%%d ", !!(%s));' % c for _, c in conditions]
    calls = "\n".join(call(r) for _ in range(CALLS))
    return ("#include <stdio.h>\n#include <stdint.h>\n"
            "__attribute__((noinline)) void probed(%s)\n{\n%s\nputchar('\\n');\n}\n"
            "int main(void) { %s return 0; }\n" % (PARAMETERS, "\n".join(prints), calls))


@test
def expressions():
    """random expressions of parameters: values and conditions of lines are what gcc's code computes"""
    for seed in range(SEED, SEED + PROGRAMS):
        r = random.Random(seed)
        make = Expressions(r)
        integers = [make.integer(3) for _ in range(VALUES)]
        reals = [make.real(2) for _ in range(REALS)]
        conditions = [make.condition() for _ in range(CONDITIONS)]
        text = source(r, integers, reals, conditions)
        prog = compiled(DIR, "expressions%d" % seed, text, "-O0", "-g", "-fwrapv", "-w")
        lines = ["p:v probed " + " ".join("n%d=((long)%s)" % (i, s) for i, (s, _) in enumerate(integers)),
                 "p:r probed " + " ".join("d%d=((double)(%s))" % (i, s) for i, (s, _) in enumerate(reals))]
        lines += ["p:c%d probed $a if %s" % (i, s) for i, (s, _) in enumerate(conditions)]
        out = os.path.join(DIR, "out")
        run = dprobes("trace", "--json", "-o", out, *lines, "--", prog)
        want = [s.split() for s in run.stdout.splitlines()]
        with open(out) as f:
            got = [json.loads(s) for s in f]
        values = [e["args"] for e in got if e["event"] == "v"]
        floats = [e["args"] for e in got if e["event"] == "r"]
        assert len(want) == len(values) == len(floats) == CALLS, (len(want), len(values), run.stderr)
        for n, (w, v, d) in enumerate(zip(want, values, floats)):
            for i, (s, c) in enumerate(integers):
                assert v["n%d" % i] == int(w[i]), (seed, n, s, c, v["n%d" % i], w[i])
            for i, (s, c) in enumerate(reals):
                have, wanted = d["d%d" % i], float(w[VALUES + i])
                assert have == wanted or wanted != wanted or abs(wanted) == float("inf"), (seed, n, s, c, have, wanted)
        for i, (s, c) in enumerate(conditions):
            held = sum(e["event"] == "c%d" % i for e in got)
            assert held == sum(w[VALUES + REALS + i] == "1" for w in want), (seed, s, c, held)


run()
