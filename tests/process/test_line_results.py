# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What functions return: structures in registers, and calls that end by a jump to another function."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-results-")

PAIRS = r"""
#define ALONE __attribute__((noinline, noclone, noipa))
struct two { long a, b; };
struct mixed { double d; int i, j; };
struct turned { int i; float f; double d; };
struct reals { float x, y, z; };
struct small { char c[3]; unsigned short s; };
struct __attribute__((packed)) odd { char c; long v; };
typedef union { long l; double d; } either;
ALONE struct two two(long n) { return (struct two){n, n * 3}; }
ALONE struct mixed mixed(int n) { return (struct mixed){n + 0.5, n, -n}; }
ALONE struct turned turned(int n) { return (struct turned){n, n + 0.25f, n + 0.5}; }
ALONE struct reals reals(int n) { return (struct reals){(float)n, n + 0.5f, n + 0.75f}; }
ALONE struct small small(int n) { return (struct small){{'a', 'b', 'c'}, (unsigned short)(n + 7)}; }
ALONE struct odd odd(int n) { return (struct odd){'x', n + 70000}; }
ALONE either either_of(long n) { return (either){n + 5}; }
ALONE __int128 wide(long n) { return (__int128)n << 70; }
int main(void)
{
	struct two t = two(7);
	struct mixed m = mixed(2);
	return t.a + m.i + turned(3).i + (int)reals(4).x + small(5).s + (int)odd(6).v + (int)either_of(7).l +
	       (int)(wide(8) >> 70) == 0;
}
"""


@test
def returned_in_registers():
    """structures of up to two words are returned in registers, general ones and vector registers"""
    for compiler, flags in (("gcc", ["-O2"]), ("gcc", ["-O0"]), ("g++", ["-O1", "-xc++"])):
        need(compiler)
        prog = compiled(DIR, "pairs" + flags[0] + compiler, PAIRS, "-g", *flags, compiler=compiler)
        wanted = {"r two a=$retval.a b=$retval.b": {"a": 7, "b": 21},
                  "r mixed d=$retval.d i=$retval.i j=$retval.j": {"d": 2.5, "i": 2, "j": -2},
                  "r turned i=$retval.i f=$retval.f d=$retval.d": {"i": 3, "f": 3.25, "d": 3.5},
                  "r reals x=$retval.x y=$retval.y z=$retval.z": {"x": 4, "y": 4.5, "z": 4.75},
                  "r small s=$retval.s": {"s": 12}, "r odd v=$retval.v": {"v": 70006},
                  "r either_of l=$retval.l": {"l": 12}, "r wide { log_as(\"w\", $retval); }": {"w": 8 << 70},
                  "r mixed whole=$retval $duration": {"whole": {"d": 2.5, "i": 2, "j": -2}}}
        r = dprobes("trace", "--json", *wanted, "--", prog, check=0)
        got = [e["args"] for e in json_lines(r.stdout) if "args" in e]
        for g in got:
            g.pop("duration", None)
        assert sorted(map(str, got)) == sorted(map(str, wanted.values())), (compiler, flags, r.stdout, r.stderr)


TAILS = r"""
#include <setjmp.h>
#include <time.h>
#define ALONE __attribute__((noinline, noclone, noipa))
static jmp_buf back;
static void rest(void) { struct timespec t = {0, 2000000}; nanosleep(&t, 0); }
ALONE long leaf(long x) { if (x == 77) rest(); if (x > 1000) longjmp(back, 1); return 3 * x + 100000; }
ALONE long inner(long x) { if (x > 900 && x < 1000) return -x; return leaf(x); }
ALONE long outer(long x) { if (x < 0) return 1 - x * 70000; return inner(x + 1); }
ALONE long even(long n);
ALONE long odd(long n) { if (n == 0) return 0; __asm__ volatile("" : "+r"(n)); return even(n - 1); }
ALONE long even(long n) { if (n == 0) return 1; __asm__ volatile("" : "+r"(n)); return odd(n - 1); }
long (*volatile chosen)(long) = inner;
ALONE long by_pointer(long x) { if (x < 0) return 700000 + x; return chosen(x); }
ALONE long only_leaf(long x) { __asm__ volatile("" : "+r"(x)); return leaf(x + 2); }
ALONE long only_pointer(long x) { __asm__ volatile("" : "+r"(x)); return chosen(x + 1); }
int main(void)
{
	outer(1);
	outer(-2);
	inner(5); /* belongs to no call of outer() */
	outer(910);
	outer(76);
	if (!setjmp(back))
		outer(2000); /* never returns */
	leaf(6);
	outer(3);
	by_pointer(4);
	by_pointer(-4);
	even(5);
	only_pointer(1);
	only_leaf(8);
	return 0;
}
"""


def tails(*lines, status=0):
    prog = compiled(DIR, "tails", TAILS, "-O2", "-g")
    r = subprocess.run([DPROBES, "trace", "--json", *lines, "--", prog], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == status, (r.returncode, r.stderr)
    return [e["args"] for e in json_lines(r.stdout) if "args" in e], r.stderr


@test
def tail_calls():
    """a function that ends by jumps to others: its result is what these return, and its time lasts until then"""
    right = [100006, 140001, -911, 100231, 100012]
    for line in ("r outer result=$retval { }", "r outer result=$retval $x", "r outer result=$retval $duration"):
        got, err = tails(line.replace(" { }", " $pid"))
        assert [a["result"] for a in got] == right, (line, got)
        assert "the returns of 2 of them are probed, too" in err, err
    got, _ = tails("r outer $x $duration")
    assert [a["x"] for a in got] == [1, -2, 910, 76, 3] and got[3]["duration"] >= 2000000, got
    prog = compiled(DIR, "tails", TAILS, "-O2", "-g")
    shown = dprobes("trace", "r outer $retval $duration", "--", prog, check=0).stdout
    assert shown.count("outer: <-outer+0 retval=") == len(right), shown  # whoever returns
    assert [a["result"] for a in tails("r outer { log_as(\"result\", $retval); }")[0]] == right
    got, err = tails("r inner $pid result=$retval")
    assert [a["result"] for a in got] == [100006, 100015, -911, 100231, 100012, 100012, 100006], (got, err)
    assert [a["r"] for a in tails("r even r=$retval $n")[0]][-1:] == [0]
    got, err = tails("r only_leaf $retval", "p only_pointer %di")  # a line that needs no compiler elsewhere
    assert [a.get("retval") for a in got] == [None, 100030] and "the returns of 1 of them are probed" in err, (got, err)
    assert "E-FUNC-TAIL" in tails("r only_leaf $retval", "--pages", status=1)[1]


@test
def tail_calls_elsewhere():
    """a jump to a function that is not known is no return: it is left out, with a note, and refused where it is all"""
    left = "by_pointer jumps to another function at 1 of its 2 exits: calls that end there are left out"
    for line in ("r by_pointer r=$retval", "r by_pointer r=$retval $pid", "r by_pointer r=$retval $duration"):
        got, err = tails(line)
        assert [int(str(a["r"]), 0) for a in got] == [699996] and left in err, (line, got, err)
    for line in ("r only_pointer $retval", "r only_pointer $retval $pid", "r only_pointer max($duration)"):
        assert "E-FUNC-TAIL" in tails(line, status=1)[1], line
    got, err = tails("r only_pointer $x")  # no result is asked for
    assert [a["x"] for a in got] == [1] and "jumps to" not in err, (got, err)
    got, err = tails("r *_pointer r=$retval $pid")
    assert [a["r"] for a in got] == [699996] and "left out" in err, (got, err)
    got, err = tails("r leaf r=$retval")
    assert len(got) == 8 and "jumps" not in err, (got, err)


@test
def tail_calls_through_stubs():
    """jumps by way of the linkage table are followed to a function of the same library, not to another library"""
    lib = compiled(DIR, "libjumps.so", """
#include <stdlib.h>
long twice(long x) { return 2 * x; }
long outer(long x) { return twice(x + 1); }
long away(long x) { return labs(x); }
""", "-O2", "-g", "-shared", "-fPIC", "-fno-builtin", "-fno-inline")
    prog = compiled(DIR, "jumps", "long outer(long), away(long);\n"
                    "int main(int n, char **v) { return outer(n + 3) + away(n); }",
                    "-O2", "-Wl,--no-as-needed", lib, "-Wl,-rpath," + DIR)
    r = dprobes("trace", "--json", "r libjumps:outer $retval $x", "--", prog, check=11)
    assert [e["args"] for e in json_lines(r.stdout) if "args" in e] == [{"retval": 10, "x": 4}], (r.stdout, r.stderr)
    assert "the returns of 1 of them are probed" in r.stderr, r.stderr
    assert "E-FUNC-TAIL" in dprobes("trace", "r libjumps:away $retval $x", "--", prog, check=1).stderr


run()
