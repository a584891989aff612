# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A function's name means all of its calls: clones of the compiler and inlined copies, with the values of each."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SOURCE = r"""
#include <stdio.h>
#define KEPT __attribute__((noinline, noipa, used))
volatile int sum;
/* Clones: what counts are the names. */
KEPT int price_of(int kind);
KEPT int cheap(int kind) __asm__("price_of.constprop.0");
KEPT int dear(int kind) __asm__("price_of.isra.1.constprop.3");
KEPT int rest(int kind) __asm__("price_of.part.0");
KEPT int small(int kind) __asm__("tax_of.constprop.0");
KEPT int large(int kind) __asm__("tax_of.constprop.1");
KEPT int here(int kind) __asm__("rate_of.lto_priv.0");
KEPT int there(int kind) __asm__("rate_of.lto_priv.1");
int rest(int kind) { sum += kind; return kind; }
int price_of(int kind) { sum += kind; return kind * 10 + rest(1); }
int cheap(int kind) { sum += kind; return kind * 2; }
int dear(int kind) { sum += kind; return kind * 30; }
int small(int kind) { sum += kind; return kind + 1; }
int large(int kind) { sum += kind; return kind + 100; }
int here(int kind) { sum += kind; return kind + 2; }
int there(int kind) { sum += kind; return kind + 3; }
/* Inlined everywhere, at the first instruction of a function and inside of one. */
static inline __attribute__((always_inline)) int charge(int amount, int times)
{
	sum += amount;
	sum += times;
	return sum + amount;
}
KEPT int first(int id) { return charge(id, 1) + cheap(id); }
KEPT int inside(int id) { return charge(id * 2, 5) + 1; }
/* Both: itself and a copy. */
KEPT int both(int n);
int both(int n) { return charge(n, 7); }
int main(void)
{
	for (int i = 1; i <= 10; i++) {
		first(i);
		price_of(i);
		dear(i);
		small(i);
		if (i % 2)
			large(i), inside(i), here(i), there(i);
	}
	return sum == 0;
}
"""
CLONES = ("price_of", "price_of.constprop.0", "price_of.isra.1.constprop.3")


def program():
    return compiled(tempfile.tempdir, "copies", SOURCE, "-g", "-O2")


def trace(line, *args, status=0):
    r = dprobes("trace", *args, line, "--", program())
    assert r.returncode == status, (line, r.stdout, r.stderr)
    return r.stdout, r.stderr


def hits(out):
    """{place: hits} by the lines of the trace"""
    found = {}
    for place in re.findall(r"(?:@|<-)([\w.]+)\+0", out):
        found[place] = found.get(place, 0) + 1
    return found


def total(out, name):
    return int(re.search(r"%s\S* +(\d+)" % name, out).group(1))


@test
def clones():
    """a name means itself and its clones, with and without debug information used; its split-off rest not"""
    for line in ("p price_of", "p price_of n=%di", "r price_of", "p price_of $kind", "r price_of $retval",
                 "r price_of $retval $duration", "r price_of $kind $retval", "p price_of { log($kind); }"):
        out, err = trace(line)
        assert hits(out) == dict.fromkeys(CLONES, 10), (line, out)
        assert "price_of has 3 places: itself, 2 clones" in err, (line, err)
    for line in ("p price_of count", "r price_of count"):
        assert total(trace(line)[0], "count price_of") == 30, line
    assert total(trace("p price_of sum($kind)")[0], "sum +price_of") == 165
    assert total(trace("r price_of sum($retval)")[0], "sum +price_of") == 55 * 42 + 10


@test
def alone():
    """a clone by its own name, a function by +0, and $argN, which clones may have elsewhere, mean one place"""
    for line, place in (("p price_of.constprop.0", CLONES[1]), ("p price_of+0", CLONES[0]),
                        ("p price_of+0 $kind", CLONES[0]), ("p price_of $arg1", CLONES[0])):
        assert hits(trace(line)[0]) == {place: 10}, line
    assert "price_of: 2 clones are left out, whose arguments" in trace("p price_of $arg1")[1]
    err = trace("p tax_of $arg1", status=1)[1]
    assert "E-EVENT-ARGN" in err and "tax_of.constprop.0" in err and "names of its parameters" in err, err
    assert hits(trace("p tax_of $kind")[0]) == {"tax_of.constprop.0": 10, "tax_of.constprop.1": 5}
    assert "rate_of means 2 places" in trace("p rate_of", status=1)[1], "functions of two files are told apart"


@test
def copies():
    """inlined copies are probed, and a name or $argN is the copy's own, never that of the function around it"""
    out, err = trace("p charge")
    assert hits(out)["first"] == 10 and len(re.findall("@inside", out)) == 5, out
    assert re.search("charge has [34] places: [34] inlined copies", err), err
    for line in ("p charge sum($amount)", "p charge sum($arg1)"):
        assert total(trace(line)[0], "sum +charge") == 55 + 50, line
    assert total(trace("p charge count if $amount == 2")[0], "count charge") == 2
    amounts = re.findall(r" amount=(\d+)", trace("p charge $amount")[0])
    assert sorted(map(int, amounts)) == sorted([*range(1, 11), *range(2, 19, 4)]), amounts
    assert sorted(map(int, re.findall(r" times=(\d+)", trace("p charge $args")[0]))) == [1] * 10 + [5] * 5
    for line, hint in (("p charge %di", "names of its parameters"), ("p charge sum(%di)", "places"),
                       ("r charge", "`p charge`")):
        err = trace(line, status=1)[1]
        assert "charge is inlined wherever it is called" in err and hint in err, (line, err)


run()
