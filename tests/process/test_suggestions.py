# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Names that people type: what they mean, and what is suggested where they mean nothing."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SOURCE = r"""
#include <unistd.h>
struct order { int qty; double price; };
#define FUNCTION __attribute__((noinline, used))
#define BODY { asm volatile("nop; nop; nop; nop; nop"); return n * 3 + getpid() % 2; }
static int price(int n) asm("price_of.constprop.0");
static int first(int n) asm("tax_of.isra.0"), second(int n) asm("tax_of.part.1.constprop.0");
static FUNCTION int price(int n) BODY
static FUNCTION int first(int n) BODY
static FUNCTION int second(int n) BODY
FUNCTION int add_order(struct order *order, int quantity)
{
	order->qty += quantity;
	return price(quantity) + first(quantity) + second(quantity);
}
int main(void)
{
	struct order o = {1, 2.5};
	int sum = 0;
	for (int i = 0; i < 5; i++)
		sum += add_order(&o, i);
	return sum == 1;
}
"""


def program():
    return compiled(tempfile.tempdir, "orders", SOURCE, "-g", "-O1")


def shown(*args, status=0):
    r = dprobes("trace", "-q", *args, "--", program())
    assert r.returncode == status, (args, r.stdout, r.stderr)
    return r.stdout if not status else r.stderr


@test
def clones():
    """a function's name means what the compiler has made of it (.constprop, .isra, .part)"""
    for line, values in (("p price_of", 5), ("p price_of n=%di", 5), ("p price_of $n", 5), ("r price_of", 5),
                         ("r price_of $n if $retval >= 6", 3)):
        out = shown(line)
        assert out.count("price_of.constprop.0+0") == values, (line, out)
    for line in ("p tax_of", "p tax_of $n"): # what has been split off is reached by the other one
        out = shown(line)
        assert [out.count(name + "+0") for name in ("tax_of.isra.0", "tax_of.part.1.constprop.0")] == [5, 0], out
    for line in ("p tax_of.*", "p tax_of.* $n"):
        out = shown(line)
        assert [out.count(name + "+0") for name in ("tax_of.isra.0", "tax_of.part.1.constprop.0")] == [5, 5], out
    assert "price_of.constprop.0" in dprobes("vars", program(), "price_of", check=0).stdout


@test
def suggested():
    """a hint says what was meant: kinds, functions, patterns, files, variables, members, words of lines and bodies"""
    for line, code, hint in (
            ("add_order", "E-EVENT-KIND", "`p add_order`"), ("add_order $quantity", "E-EVENT-KIND", "`p add_order $"),
            ("price_of $n", "E-EVENT-KIND", "`p price_of $n`"), ("pp add_order", "E-EVENT-KIND", "`p add_order`"),
            ("probe add_order $quantity", "E-EVENT-KIND", "`p add_order $quantity`"),
            ("p add_ordr", "E-SYM-NONE", "add_order"), ("p ad_order*", "E-SYM-NONE", "add_order"),
            ("p ad_order* $quantity", "E-SYM-NONE", "add_order"), ("p orders:ad_order*", "E-SYM-NONE", "add_order"),
            ("p ordres.c:15", "E-LINE-FILE", "orders.c"), ("p ordres.c:15 $quantity", "E-LINE-FILE", "orders.c"),
            ("p add_order $quantity:strng", "E-EVENT-TYPE", "string"),
            ("p add_order sum(%di:u33)", "E-EVENT-TYPE", "u32"),
            ("p add_order sum(+0(%di):x63)", "E-EVENT-TYPE", "x64"),
            ("p add_order $quantiti", "E-VAR-NONE", "quantity"), ("p add_order $ordr->qty", "E-VAR-NONE", "order"),
            ("p add_order $order->prise", "E-DPCC-NAME", "price"), ("r add_order $retvall", "E-EVENT-VAR", "$retval"),
            ("r add_order $duratoin", "E-EVENT-VAR", "$duration"), ("p add_order quantity", "E-EVENT-ARG", "$quantity"),
            ("p add_order $quantity iff $quantity > 2", "E-DPCC-NAME", "if"),
            ("p add_order cuont by $quantity", "E-EVENT-ARG", "count"),
            ("p add_order hist($quantity) bye $quantity", "E-DPCC-NAME", "by"),
            ("p add_order { lgo($quantity); }", "E-DPCC-NAME", "log"),
            ("p add_order { log($quantti); }", "E-VAR-NONE", "quantity")):
        err = shown(line, status=1)
        found = re.search(r"^ +\^\nhint: (.*)$", err, re.M)
        assert code in err and line in err and found and hint in found.group(1), (line, err)


RPN = """name = "%s"
modtype = user
major = 3
logmax = 512

offset = add_order
minor = 1
	push r, rsi; log 1
	exit
"""


@test
def programs():
    """words of the Dynamic Probes language: keywords and instructions"""
    path = os.path.join(tempfile.tempdir, "wrong.rpn")
    for right, wrong, code, hint in (("push r", "pusj r", "E-RPN-INSN", "push r"),
                                     ("log 1", "lgo 1", "E-RPN-INSN", "log"),
                                     ("offset =", "offste =", "E-RPN-KEYWORD", "offset"),
                                     ("exit", "exti", "E-RPN-INSN", "exit")):
        with open(path, "w") as f:
            f.write((RPN % program()).replace(right, wrong))
        err = shown("-f", path, status=1)
        assert code in err and re.search(r"^hint: did you mean .*%s" % re.escape(hint), err, re.M), (wrong, err)
        assert re.search(r"wrong\.rpn:\d+: ", err), err


run()
