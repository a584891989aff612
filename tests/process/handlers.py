# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What tests of handlers in C share: a program with variables of all kinds, files of handlers, what they have
logged."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-dpcc-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
DPCC = os.path.join(BUILD, "src", "cmd", "dpcc")

SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum color { RED, GREEN = 5 };
struct inner { short a; unsigned char b[3]; };
struct node {
	int count;
	enum color color;
	char name[12];
	struct inner in;
	struct node *next;
	unsigned f1 : 3, f2 : 7;
	double d;
};
static int total = 11;
long shared = -7;
struct node *first;
__thread int per_thread = 77;
static inline int twice(int x)
{
	int y = x * 2;
	asm volatile("" : "+r"(y));
	return y;
}
__attribute__((noinline)) int work(struct node *p, const char *label, int n)
{
	int sum = n;
	long big = (long)n << 33;
	for (struct node *q = p; q; q = q->next) {
		int step = q->count * 3;
		sum += step;
		asm volatile("" : "+r"(sum));
	}
	total += sum;
	int part = twice(sum) + twice(n);
	asm volatile("" :: "r"(big), "r"(part) : "memory");
	shared = part;
	asm volatile("" :: "r"(big) : "memory");
	return sum + part + (int)strlen(label);
}
__attribute__((noinline)) unsigned char mix(unsigned char a, short b, unsigned c, long d, char e, int f, long g, int h)
{
	long all = a + b + c + d;
	asm volatile("" : "+r"(all));
	all += e + f;
	all ^= g * h;
	asm volatile("" : "+r"(all));
	return (unsigned char)all;
}
__attribute__((noinline)) double half(double v, float w)
{
	double r = v / 2 + w;
	asm volatile("" :: "x"(r) : "memory");
	return r;
}
int main(int argc, char **argv)
{
	struct node b = {2, GREEN, "second", {7, {1, 2, 3}}, NULL, 5, 99, 2.5};
	struct node a = {1, RED, "first", {-3, {9, 8, 7}}, &b, 1, 2, -1.25};
	char line[64];

	first = &a;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int n = atoi(line);
		int r = work(&a, "label", n);
		unsigned char m = mix(n, -n, n * 3, -5L * n, 'x', n ^ 3, n + 100L, -n);
		double h = half(n, 1.5f);
		printf("%d %d %g\\n", r, m, h);
		fflush(stdout);
	}
	return 0;
}
"""


def line_of(text, nth=1):
    at = [i for i, s in enumerate(SOURCE.splitlines(), 1) if text in s]
    return at[nth - 1]


def build(name, *flags, cc="gcc"):
    need(cc)
    source = os.path.join(DIR, "vars.c")
    with open(source, "w") as f:
        f.write(SOURCE)
    out = os.path.join(DIR, name)
    subprocess.run([cc, *flags, "-w", "-o", out, source], check=True)
    return out


def handlers(name, path, places, extra=""):
    """A file of handlers; places: [(location, body)]."""
    file = os.path.join(DIR, name)
    with open(file, "w") as f:
        f.write('#pragma MODNAME("%s")\n%s\n' % (path, extra))
        for i, (where, body) in enumerate(places):
            f.write('#pragma PROBEPOINT_LOCATION("%s")\n#pragma PROBEPOINT_HANDLER("h%d")\nvoid h%d()\n{\n%s\n}\n'
                    % (where, i, i, body))
    return file


def records(n):
    """Wait for n records in the log."""
    return wait_for(lambda: (lambda v: v if len(v) >= n else None)(json_lines(dprobes("log", check=0).stdout)),
                    what="%d records" % n)


def fields(record):
    return {f.get("name", "text"): f.get("value", f.get("text")) for f in record["fields"]}
