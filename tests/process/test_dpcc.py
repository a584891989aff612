# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Handlers in C in live processes: the seed's sample, places, altering, the command, tables, languages."""
import csv
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from handlers import *  # noqa: E402,F403


@alone
def seed():
    """the seed's sample as printed logs a whole structure, with names and nested members"""
    path = build("seed", "-O2", "-g")
    file = os.path.join(DIR, "seed.dpc")
    with open(file, "w") as f:
        f.write("""#pragma MODNAME("%s")
#pragma PROBEPOINT_LOCATION("vars.c:%d")
#pragma MODTYPE(user) #pragma
PROBEPOINT_HANDLER ("test")
/* Demonstrates logging local variable.
   Logs the structure pointed to by p.
*/
void test()
{
  log_probe_expr("*p");
}
""".replace("#pragma\nPROBEPOINT", "\n#pragma PROBEPOINT") % (path, line_of("int sum = n;")))
    live = Live(path)
    dprobes("-i", file, check=0)
    live(3)
    text = wait_for(lambda: (lambda t: t if "count" in t else None)(dprobes("log", check=0).stdout), what="the record")
    assert re.search(r'^ +seed-\d+ +\[\d+\] +\d+\.\d+: work: @work\+\w+ \*p=\{count = 1, color = RED, name = "first", '
                     r'in = \{a = -3, b = \{9,8,7\}\}, next = 0x[0-9a-f]+, f1 = 1, f2 = 2, d = -1\.25\}$', text,
                     re.M), text
    # the same by the two commands, and in JSON
    rpn = os.path.join(DIR, "seed.rpn")
    r = subprocess.run([DPCC, "-o", rpn, file], stderr=subprocess.PIPE, text=True)
    assert r.returncode == 0, r.stderr
    dprobes("insert", "--replace", "--json", rpn, check=0)
    dprobes("log", "--clear", check=0)
    live(4)
    value = fields(records(1)[0])["*p"]
    assert value["in"] == {"a": -3, "b": [9, 8, 7]} and value["name"] == "first" and value["d"] == -1.25, value
    assert live.end() == 0


@alone
def csv_records():
    """insert --format csv: a record's fields in one cell, aggregates a line for each value; the same table in JSON"""
    path = build("csv", "-O2", "-g")
    live = Live(path)
    file = handlers("csv.dpc", path, [("work", "\tif ($n == 3) log($n, $label);\n\tcount(calls, $label);")])
    dprobes("insert", "--format", "csv", "--allow-trap", file, check=0)
    live(3)
    rows = wait_for(lambda: list(csv.reader(dprobes("log", check=0).stdout.splitlines())), what="a record")
    assert len(rows) == 1 and len(rows[0]) == 11 and rows[0][8] == "0" and rows[0][10] == "$n=3; $label=label", rows
    assert rows[0][3] == path and rows[0][4] == str(live.p.pid) and rows[0][9], rows
    rows = list(csv.reader(dprobes("vars", "--format", "csv", "--all", check=0).stdout.splitlines()))
    assert [r[:3] + r[5:8] for r in rows if r[6] == "label"] == \
            [["aggregate", "calls", "count", "0", "label", "value"]], rows
    tables = [json.loads(line) for line in dprobes("vars", "--json", "--all", check=0).stdout.splitlines()]
    assert any("calls" in json.dumps(t) and "label" in json.dumps(t) for t in tables), tables
    assert live.end() == 0


@alone
def places():
    """functions, returns, offsets, patterns, lines of inlined functions: where handlers run, and what they see there"""
    path = build("places", "-O2", "-g")
    live = Live(path)
    file = handlers("places.dpc", path, [
        ("work", "\tif ($n == 3) log($n, $label, $p->next->name);"),
        ("work%return", "\tlog($retval);"),
        ("m[i]x", "\tprintf(\"mix %d %d\", $a, $b);"),
        ("vars.c:%d" % line_of("return y;"), "\tstatic long sum;\n\tsum += @defined($y) ? 3 : 3;\n\tlog(sum);"),
        ("twice", "\tlog($x);"),
    ])
    r = dprobes("insert", "--json", "--allow-trap", file, check=0)
    assert "twice has 2 places" in r.stderr, r.stderr
    result = live(3).split()
    seen = [(rec["minor"], fields(rec)) for rec in records(7)]
    assert (1, {"$n": 3, "$label": "label", "$p->next->name": "second"}) in seen, seen
    assert [f for m, f in seen if m == 2 or "$retval" in f] == [{"$retval": int(result[0])}], seen
    assert any(f == {"text": "mix 3 -3"} for _, f in seen), seen
    sums = [f["sum"] for _, f in seen if "sum" in f]
    assert sums == [3, 6], sums
    assert sorted(f["$x"] for _, f in seen if "$x" in f)[0] == 3, seen
    assert live.end() == 0


@alone
def alters():
    """arguments, return values and variables of a running program are changed"""
    for flags in (["-O2"], ["-O0"]):
        path = build("alter" + flags[0], "-g", *flags)
        live = Live(path)
        plain = live(3)
        file = handlers("alter.dpc", path, [
            ("work", "\tif ($n == 3) {\n\t\t$p->count = 100;\n\t\t$shared = 5;\n\t\t$p->f2 = 9;\n\t}"),
            ("mix%return", "\t$retval = 42;"),
        ])
        dprobes("insert", "--replace", "--allow-trap", file, check=0)
        changed = live(3)
        dprobes("-r", "-a", check=0)
        assert changed.split()[1] == "42" and changed.split()[0] != plain.split()[0], (plain, changed)
        assert live.end() == 0


@test
def refused():
    """a variable that is not available is told before anything is armed, with the lines where it is"""
    path = build("refused", "-O2", "-g")
    file = handlers("refused.dpc", path, [("vars.c:%d" % line_of("return sum + part"), "\tlog($q->count);")])
    r = dprobes("insert", file)
    assert r.returncode and "E-VAR-GONE" in r.stderr or "E-VAR-NONE" in r.stderr, r.stderr
    file = handlers("near.dpc", path, [("work", "\tlog($lable);")])
    r = dprobes("insert", file)
    assert r.returncode and "E-VAR-NONE" in r.stderr and "did you mean label?" in r.stderr, r.stderr
    assert "^" in r.stderr and "near.dpc:7:6" in r.stderr, r.stderr
    bare = build("bare", "-O2")
    r = dprobes("insert", handlers("bare.dpc", bare, [("work", "\tlog($p);")]))
    assert r.returncode and "E-LINE-NODEBUG" in r.stderr, r.stderr
    # A program compiled for one build is refused by another.
    rpn = os.path.join(DIR, "build.rpn")
    file = handlers("build.dpc", path, [("work", "\tlog($n);")])
    assert subprocess.run([DPCC, "-o", rpn, file]).returncode == 0
    other = build("other", "-O1", "-g")
    os.rename(other, path)
    live = Live(path)
    r = dprobes("insert", rpn)
    assert r.returncode and "E-RPN-BUILD" in r.stderr, r.stderr
    assert live.end() == 0


@test
def command():
    """dpcc: options, comments, the tree, macros, includes, what is written where"""
    path = build("command", "-O2", "-g")
    file = handlers("command.dpc", path, [("work", '#include "value.h"\n\tlog($n + WHAT + VALUE);')])
    inc = os.path.join(DIR, "inc")
    os.makedirs(inc, exist_ok=True)
    with open(os.path.join(inc, "value.h"), "w") as f:
        f.write("#define VALUE 5\n")

    def dpcc(*args):
        return subprocess.run([DPCC, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    r = dpcc("-c", "-I" + inc, "-DWHAT=37", "-o", "-", file)
    assert r.returncode == 0 and "// 6: log($n + WHAT" not in r.stdout and "push d,37" in r.stdout, (r.stdout, r.stderr)
    assert "37" in dpcc("-a", "-I", inc, "-D", "WHAT=37", file).stdout
    assert "usage" in dpcc("-h").stdout and "usage" in dpcc("-?").stdout
    assert dpcc("-Z").returncode == 2 and dpcc().returncode == 2
    assert "E-RPN-FILE" in dpcc("-DWHAT=1", file).stderr
    assert "VALUE" in dpcc("-p", "-DWHAT=1", file).stderr
    assert dpcc("-I" + inc, "-DWHAT=1", file).returncode == 0 and os.path.exists(os.path.join(DIR, "command.rpn"))
    shown = dpcc("-v", "work", path).stdout
    assert re.search(r"^work\+0x0 \(vars.c:\d+\)\n", shown) and re.search(r"\$p +struct node \*, rdi\n", shown), shown
    assert re.search(r"\$part +not available: .*near line \d+", shown), shown
    assert "offset = 0x" in dprobes("build", "--list", os.path.join(DIR, "command.rpn"), check=0).stdout


@alone
def units():
    """aggregates whose values have a unit: in text, and none with --raw-units; a wrong unit is told"""
    path = build("units", "-O2", "-g")
    code = "hist(took : unit ns, 1500 * $n); sum(sent_bytes, 2048); max(most : unit bytes : top 3, $n << 20, pid());"
    live = Live(path)
    dprobes("insert", handlers("units.dpc", path, [("work", code)]), check=0)
    live(3)
    text = wait_for(lambda: (lambda t: t if "1 values" in t else None)(dprobes("vars", "-a", check=0).stdout),
                    what="a hit")
    for line in (r"  hist  took *\n +4\.10us \.\. 8\.19us +1 \|#{40}",
                 r"  sum   sent_bytes +2KiB, 1 values, 2KiB on average", r"  max   most *\n +\d+ +3MiB"):
        assert re.search(line, text), (line, text)
    raw = dprobes("vars", "-a", "--raw-units", check=0).stdout
    assert re.search(r"\n +4096 \.\. 8191 +1 \|", raw) and re.search("sent_bytes +2048, 1 values", raw), raw
    dprobes("remove", "--all", check=0)
    bad = handlers("bad-unit.dpc", path, [("work", "hist(took : unit miles, 1);")])
    assert "ns or bytes is missing here" in dprobes("insert", bad, check=1).stderr


@alone
def examples():
    """the examples do what they say"""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "dpcc")
    need("gcc")
    shop = os.path.join(DIR, "shop")
    subprocess.run(["gcc", "-O2", "-g", "-o", shop, os.path.join(here, "shop.c")], check=True)
    p = start([shop], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"

    def order(text):
        p.stdin.write(text + "\n")
        p.stdin.flush()
        return p.stdout.readline().strip()

    def insert(name):
        dprobes("log", "--clear", check=0)
        dprobes("insert", "--replace", "--json", "-D", 'SHOP="%s"' % shop, os.path.join(here, name), check=0)

    insert("whole-order.dpc")
    assert order("anna book 30") == "paid"
    f = fields(records(1)[0])
    assert f["*o"]["state"] == "NEW" and f["*o"]["line"] == {"item": "book", "price": 30}, f
    assert f["*o->customer"]["name"] == "anna" and f["*o->customer"]["credit"] == 100, f
    insert("refused.dpc")
    assert order("anna car 3000") == "refused" and order("anna pen 1") == "paid" and order("bert car 2000") == "refused"
    assert [fields(r)["text"] for r in records(2)] == ["order 2 refused, 1 so far", "order 4 refused, 2 so far"]
    insert("prices.dpc")
    for price in (4, 1, 5, 7):
        order("cora thing %d" % price)
    text = dprobes("vars", "--all", check=0).stdout
    for line in (r"count orders +4", r"sum +prices +17, 4 values, 4\.25 on average", r"min +cheapest +1",
                 r"max +dearest +7",
                 r"hist +distribution *\n +1 \.\. 1 +1 \|#+\n +2 \.\. 3 +0 \|\n +4 \.\. 7 +3 \|#{40}\n"):
        assert re.search(line, text), (line, text)
    bars = re.search(r"lhist by_three *\n((?:    .*\n)*)", text).group(1).splitlines()
    assert [bar.split("|")[0].split() for bar in bars] == [["0", "..", "2", "1"], ["3", "..", "5", "2"],
                                                           ["6", "..", "8", "1"]], text
    insert("list.dpc")
    order("dora thing 9")
    lines = [f["text"] for f in records(1)[0]["fields"]]
    assert lines == ["cora has 83", "bert has 100", "anna has 69", "3 customers, looking for dora"], lines
    insert("free-lunch.dpc")
    assert order("friend yacht 99999") == "paid" and order("anna yacht 99999") == "refused"
    assert fields(records(1)[0]) == {"$o->line.price": 99999}
    insert("customers.dpc")
    for text in ("anna pen 1", "bert pen 2", "anna ink 2", "emil car 9000"):
        order(text)
    p.stdin.close()
    assert p.wait(60) == 0

    def table(kind, name):
        m = re.search(r"  %s +%s *\n((?:    .*\n)*)" % (kind, name), text)
        assert m, (kind, name, text)
        return [line.strip() for line in m.group(1).splitlines()]

    # The program has ended; what it came to is shown all the same.
    wait_for(lambda: "(ended)" in dprobes("vars", "--all", check=0).stdout, what="the end of the program")
    text = dprobes("vars", "--all", check=0).stdout
    assert [line.split() for line in table("count", "orders")][0] == ["anna", "2", "|" + "#" * 40], text
    assert len(table("count", "orders")) == 3 and "emil" in text, text
    assert table("sum", "spent")[0] == "emil 9000, 1 values, 9000 on average".replace("emil ", "emil     "), text
    assert "emil, shop" in table("hist", "prices"), text
    taken = table("hist", "nanoseconds")
    counts = [int(line.split("|")[0].split()[-1]) for line in taken if "|" in line]
    assert sum(counts) == 4 and "0" in taken, text
    assert "lv " not in text


KEYS = """#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int serve(const char *name, int size)
{
	asm volatile("" : "+r"(size));
	usleep(10);
	return size * 2;
}
int main(void)
{
	char line[64];
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 30; i++)
			serve(i % 3 ? "alpha" : "beta", i % 5);
		puts("served"); fflush(stdout);
	}
	return 0;
}
"""
KEYS_DPC = """#pragma MODNAME("%s")
#pragma MODTYPE(user)
#pragma PROBEPOINT_LOCATION("serve")
#pragma PROBEPOINT_HANDLER("enter")
#pragma PROBEPOINT_LOCATION("serve%%return")
#pragma PROBEPOINT_HANDLER("leave")
void enter()
{
	count(calls, $name, $size);
	put(began, timestamp(), tid());
	if ($size == 4)
		printf("%%s is %%d in %%d", $name, $size, tid() == pid());
}
void leave()
{
	long t = timestamp() - get(began, tid());

	if (t > 10000 && t < 1000000000)
		count(plausible);
}
"""


@alone
def traced_programs():
    """`dprobes trace -f FILE.dpc`: started programs and running ones, records, tables, nothing left after kill -9"""
    need("gcc")
    path, prog = os.path.join(DIR, "keys"), os.path.join(DIR, "keys.dpc")
    with open(path + ".c", "w") as f:
        f.write(KEYS)
    with open(prog, "w") as f:
        f.write(KEYS_DPC % path)
    subprocess.run(["gcc", "-O2", "-g", "-o", path, path + ".c"], check=True)

    def judge(text, turns):
        assert text.count("alpha is 4 in 1") + text.count("beta is 4 in 1") == 6 * turns, text
        table = re.search(r"  count calls *\n((?:    .*\n)*)", "  " + text[text.rindex("count calls"):])
        rows = {tuple(line.split("|")[0].split()) for line in table.group(1).splitlines()}
        assert {("beta,", str(k), str(2 * turns)) for k in range(5)} <= rows and len(rows) == 10, (rows, text)
        assert re.search(r"count plausible +%d\n" % (30 * turns), text), text
        lines = re.findall(r"^ +\S+-\d+ +\[\d+\] +\d+\.\d+: \w+: @\w+\+\S+ .*(?:alpha|beta)", text, re.M)
        assert len(lines) == text.count(" @") == 6 * turns, text  # nothing for hits that have not logged

    if os.geteuid() == 0:
        r = subprocess.run([DPROBES, "trace", "-f", prog, "--", path], input="x\n" * 3, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
        assert not r.returncode and not r.stderr, (r.returncode, r.stderr)
        judge(r.stdout, 3)
        r = subprocess.run([DPROBES, "trace", "--format", "csv", "-f", prog, "--", path], input="x\n",
                           stdout=subprocess.PIPE, text=True, timeout=60)
        rows = list(csv.DictReader(r.stdout.splitlines()))
        assert any(row["module"] == path and row["time"] != "aggregate" and row["data"] for row in rows), rows
    p = start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"

    def turn():
        p.stdin.write("x\n")
        p.stdin.flush()
        assert p.stdout.readline() == "served\n"

    t = trace_start("-f", prog, "-p", p.pid, "--interval", "0.3")
    wait_for(lambda: "inserted" in text_of(t.err_path), what="the probes")
    turn()
    turn()
    wait_for(lambda: text_of(t.out_path).count("----") >= 3, what="two intervals")
    stop(t, signal.SIGINT)
    assert t.returncode == 0, text_of(t.err_path)
    judge(text_of(t.out_path), 2)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    t = trace_start("-f", prog, "-p", p.pid)
    wait_for(lambda: "inserted" in text_of(t.err_path), what="the probes")
    t.kill()
    wait_for(lambda: not our_mappings(p.pid) and not code_differs(p.pid), what="the end of the driver")
    turn()
    p.stdin.close()
    assert p.wait(60) == 0
    r = dprobes("trace", "-f", prog, "--", "/no/such/program")
    assert r.returncode and "E-FILE-OPEN" in r.stderr, r.stderr
    r = dprobes("trace", "-f", prog, "-p", "1", "--", "true")
    assert r.returncode == 2 and "E-CMD-EXTRA" in r.stderr, r.stderr


CHAINS = """#include <stdio.h>
struct op { void (*call)(int); };
__attribute__((noinline)) void take(int n, const struct op *op) { asm volatile("" :: "r"(n), "r"(op) : "memory"); }
void even(int n) { asm volatile(""); }
void odd(int n) { asm volatile("" ::: "memory"); }
static const struct op ops[] = {{even}, {odd}};
__attribute__((noinline)) void inner(int n) { take(n, &ops[n % 2]); asm volatile(""); }
__attribute__((noinline)) void left(int n) { inner(n); asm volatile(""); }
__attribute__((noinline)) void right(int n) { inner(n + 1000); asm volatile(""); }
int main(void)
{
	char line[64];
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 10; i++)
			if (i % 5) left(i); else right(i);
		puts("done"); fflush(stdout);
	}
	return 0;
}
"""
CHAINS_DPC = """#pragma MODNAME("%s")
#pragma MODTYPE(user)
#pragma PROBEPOINT_LOCATION("take")
#pragma PROBEPOINT_HANDLER("taken")
void taken()
{
	sum(amount, $n, backtrace(4));
	count(both, pid(), backtrace());
	hist(sizes, $n, caller());
	count(called, $op->call);
	if ($n == 1000)
		log(caller(), $op->call);
}
"""
CALLED = ["take+0x0", "inner+", "right+", "main+"]


@alone
def chains():
    """aggregates by call chain, caller and function pointer have names, also when the process has ended; as text and
    JSON"""
    need("gcc")
    path, prog = os.path.join(DIR, "chains"), os.path.join(DIR, "chains.dpc")
    with open(path + ".c", "w") as f:
        f.write(CHAINS)
    with open(prog, "w") as f:
        f.write(CHAINS_DPC % path)
    subprocess.run(["gcc", "-O2", "-fno-reorder-functions", "-g", "-o", path, path + ".c"], check=True)
    p = start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"

    def turn():
        p.stdin.write("x\n")
        p.stdin.flush()
        assert p.stdout.readline() == "done\n"

    def named(frames, names):
        return len(frames) >= len(names) and all(f.startswith(n) for f, n in zip(frames, names))

    def judge_json(text, turns, ended):
        found = {a["aggregate"]: a for a in map(json.loads, text.splitlines())}
        assert all(a["pid"] == p.pid and a["ended"] == ended and a["module"] == path for a in found.values()), text
        rows = found["amount"]["entries"]
        assert [(r["value"], r["values"]) for r in rows] == [(2005 * turns, 2 * turns), (40 * turns, 8 * turns)], text
        assert len(rows[0]["key"][0]) == 4 and named(rows[0]["key"][0], CALLED), text
        assert named(rows[1]["key"][0], ["take+0x0", "inner+", "left+", "main+"]), text
        both = found["both"]["entries"]
        assert both[0]["key"][0] == p.pid and both[0]["key"][1][-1].startswith("_start+") \
                and both[0]["value"] == 8 * turns, text
        assert [e["key"][0].split("+")[0] for e in found["sizes"]["entries"]] == ["inner"], text
        assert sum(bar["count"] for bar in found["sizes"]["entries"][0]["bars"]) == 10 * turns, text
        assert {"from": 512, "to": 1023, "count": 2 * turns} in found["sizes"]["entries"][0]["bars"], text
        assert sorted(e["key"][0] for e in found["called"]["entries"]) == ["even+0x0", "odd+0x0"], text

    dprobes("insert", prog, check=0)
    turn()
    judge_json(dprobes("vars", "--all", "--json", check=0).stdout, 1, False)
    turn()
    text = wait_for(lambda: (lambda t: t if t.count("caller") == 2 else None)(dprobes("log", check=0).stdout),
                    what="the records")
    assert re.search(r" caller\(\)=0x[0-9a-f]+ <inner\+0x[0-9a-f]+> \$op->call=0x[0-9a-f]+ <even\+0x0>",
                     text), text
    p.stdin.close()
    assert p.wait(60) == 0
    wait_for(lambda: "(ended)" in dprobes("vars", "--all", check=0).stdout, what="the end of the program")
    os.rename(path, path + ".gone")
    judge_json(dprobes("vars", "--all", "--json", check=0).stdout, 2, True)
    text = dprobes("vars", "--all", check=0).stdout
    assert re.search(r"  sum   amount *\n    take\+0x0 +4010, 4 values.*\n      inner\+0x.*\n"
                     r"      right\+0x.*\n      main\+0x.*\n"
                     r"    take\+0x0 +80, 16 values", text), text


LOADED = """static int started;
__attribute__((constructor)) static void begin(void) { started = 1; __asm__ volatile("" ::: "memory"); }
int use(int n) { __asm__ volatile("" : "+r"(n)); return n + started; }
"""
LOADER = """#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
static atomic_int end; static atomic_ulong spins;
static void *spin(void *a) { while (!atomic_load(&end)) atomic_fetch_add(&spins, 1); return 0; }
int main(int argc, char **argv)
{
	pthread_t t;
	int sum = 0;
	pthread_create(&t, 0, spin, 0);
	for (int i = 0; i < 10; i++) {
		void *lib = dlopen(argv[1], i ? RTLD_LAZY : RTLD_NOW);
		int (*use)(int) = (int (*)(int))dlsym(lib, "use");
		for (int k = 0; k < 5; k++) sum += use(k);
		dlclose(lib);
	}
	atomic_store(&end, 1);
	pthread_join(t, 0);
	printf("%d\\n", sum);
	return 0;
}
"""


@alone
def loaded():
    """a library that a running program loads, uses at once and unloads, again and again: no hit is missed,
    constructors included"""
    if os.geteuid() != 0:
        raise Skip("programs can be held while they load a library by root only")
    need("gcc")
    lib, main, prog = (os.path.join(DIR, name) for name in ("libloaded.so", "loader", "loaded.dpc"))
    for path, text in ((lib, LOADED), (main, LOADER)):
        with open(path + ".c", "w") as f:
            f.write(text)
    subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-o", lib, lib + ".c"], check=True)
    subprocess.run(["gcc", "-O2", "-g", "-o", main, main + ".c", "-pthread", "-ldl"], check=True)
    with open(prog, "w") as f:
        f.write('#pragma MODNAME("%s") MODTYPE(user)\n#pragma PROBEPOINT_LOCATION("use") PROBEPOINT_HANDLER("used")\n'
                'void used() { count(uses, $n); }\n#pragma PROBEPOINT_LOCATION("begin") PROBEPOINT_HANDLER("begun")\n'
                'void begun() { log($started); }\n' % lib)

    def judge(tables, records):
        rows = {e["key"][0]: e["value"] for e in tables[-1]["entries"]}
        assert rows == {k: 10 for k in range(5)}, tables
        assert [fields(r)["$started"] for r in records] == [0] * 10, records

    r = dprobes("trace", "--json", "-f", prog, "--", main, lib, check=0)
    assert "150\n" in r.stdout, r.stdout
    lines = json_lines(r.stdout)
    judge([x for x in lines if "aggregate" in x], [x for x in lines if "fields" in x])
    dprobes("insert", "--json", prog, check=0)
    plain = subprocess.run([main, lib], stdout=subprocess.PIPE, text=True, timeout=60)
    assert plain.stdout == "150\n" and not plain.returncode
    wait_for(lambda: '"ended":true' in dprobes("vars", "--all", "--json", check=0).stdout,
             what="the end of the program")
    tables = json_lines(dprobes("vars", "--all", "--json", check=0).stdout)
    try:
        judge(tables, records(10))
    except AssertionError as e:
        raise AssertionError("%s\n%s\n%s" % (e, tables, dprobes("query", check=0).stdout))
    # Who only reads the file is not kept.
    assert subprocess.run(["cmp", lib, lib], timeout=60).returncode == 0


LANGUAGES = {
    "cc": ("g++", """#include <cstdio>
#include <string>
namespace bank {
class Account {
public:
	Account(const std::string &n, long b) : name(n), balance(b) {}
	__attribute__((noinline)) long deposit(const long &amount)
	{ asm volatile("" ::: "memory"); return balance += amount; }
	__attribute__((always_inline)) long peek() const { long b = balance; asm volatile("" : "+r"(b)); return b; }
	std::string name;
	long balance;
};
template <typename T> __attribute__((noinline)) T twice(T v) { asm volatile("" ::: "memory"); return v + v; }
}
int main()
{
	bank::Account a("anna", 5);
	char line[9];
	while (fgets(line, sizeof(line), stdin)) {
		long before = a.peek();
		long after = a.deposit(7);
		printf("%ld %d %ld\\n", after, bank::twice(21), a.peek() - before);
		fflush(stdout);
	}
}
""", ["g++", "-O2", "-g", "-o", "%o", "%s"], "bank::Account::deposit",
           'log($amount, $this->balance); printf("%s", $this->name._M_dataplus._M_p);',
           ["$amount = 7", "$this->balance = 5", "text = anna"], "12 42 7"),
    "rs": ("rustc", """use std::io::BufRead;
struct Point { x: i64, y: i64 }
#[inline(never)]
fn dist(p: &Point, name: &str, n: u32) -> i64 {
    hide((p, name, n));
    p.x * p.x + p.y * p.y + n as i64 + name.len() as i64
}
fn main() {
    for line in std::io::stdin().lock().lines() {
        let p = Point { x: hide(1), y: 2 };
        println!("{}", dist(&p, &line.unwrap(), hide(7)));
    }
}
""" + RUST_HIDE, ["rustc", "-O", "-g", "-o", "%o", "%s"], "lang::dist",
           "log($p->x, $p->y, $n, $name.length); log_str($name.data_ptr, $name.length);",
           ["$p->x = 1", "$p->y = 2", "$n = 7", "$name.length = 5", '$name.data_ptr = "hello"'], "17"),
    "go": ("go", """package main
import ("bufio"; "fmt"; "os")
type Point struct { X, Y int }
//go:noinline
func dist(p *Point, name string, n int) int { return p.X*p.X + p.Y*p.Y + n + len(name) }
func main() {
	s := bufio.NewScanner(os.Stdin)
	for s.Scan() { fmt.Println(dist(&Point{1, 2}, s.Text(), 7)) }
}
""", ["go", "build", "-o", "%o", "%s"], "main.dist",
           "log($p->X, $n, $name.len); log_str($name.str, $name.len);",
           ["$p->X = 1", "$n = 7", "$name.len = 5", '$name.str = "hello"'], "17"),
}


@alone
def starts():
    """programs that are started with their probes, several at a time: each runs to its end and is seen"""
    if os.geteuid() != 0:
        raise Skip("programs can be held at their start by root only")
    path = build("starts", "-O2", "-g")
    file = handlers("starts.dpc", path, [("work", "\tlog($n);")])
    for turn in range(20):
        runs = [subprocess.Popen([DPROBES, "trace", "--allow-trap", "-f", file, "--", path], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
        for i, p in enumerate(runs):
            out, err = p.communicate("%d\n" % (i + 1), timeout=60)
            assert p.returncode == 0 and out.startswith("ready\n") and " $n=%d\n" % (i + 1) in out, \
                    (turn, i, p.returncode, out, err)


@alone
def languages():
    """C++, Rust and Go: methods, references, templates, strings, pointers, integers by the names of the source"""
    if os.geteuid() != 0:
        raise Skip("programs can be held at their start by root only")
    left_out = []
    for suffix, (compiler, source, build_it, place, handler, wanted, answer) in LANGUAGES.items():
        if not shutil.which(compiler):
            left_out.append(compiler)
            continue
        src, out, prog = (os.path.join(DIR, name + suffix) for name in ("lang.", "lang-", "lang-dpc."))
        prog += ".dpc"
        with open(src, "w") as f:
            f.write(source)
        subprocess.run([{"%s": src, "%o": out}.get(word, word) for word in build_it], check=True, cwd=DIR,
                       env=dict(os.environ, GO111MODULE="off", GOCACHE=os.path.join(DIR, "gocache")),
                       stdout=subprocess.DEVNULL)
        if suffix == "cc":
            shown = dprobes("vars", out, place).stdout
            assert re.search(r"^bank::Account::deposit\+0x0 ", shown) \
                    and re.search(r"\$amount +long int &, ", shown), shown
        with open(prog, "w") as f:
            f.write('#pragma MODNAME("%s")\n#pragma MODTYPE(user)\n#pragma PROBEPOINT_LOCATION("%s")\n'
                    '#pragma PROBEPOINT_HANDLER("h")\nvoid h() { %s }\n' % (out, place, handler))
        r = subprocess.run([DPROBES, "trace", "-f", prog, "--", out], input="hello\n", stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
        assert not r.returncode and answer in r.stdout, (suffix, r.stdout, r.stderr)
        assert all(" " + w.replace(" = ", "=", 1) in r.stdout for w in wanted), (suffix, r.stdout, r.stderr)
        if suffix == "cc":  # by the name of the source, although there is no such function any more
            with open(prog, "a") as f:
                f.write('#pragma PROBEPOINT_LOCATION("bank::Account::peek") PROBEPOINT_HANDLER("i")\n'
                        'void i() { log(1); }\n')
            r = subprocess.run([DPCC, "-o", os.devnull, prog], stderr=subprocess.PIPE, text=True)
            assert not r.returncode and "bank::Account::peek has 2 places" in r.stderr, r.stderr
        shown = dprobes("lines", out, place, check=0)
        assert re.search(r"lang\.(cc|rs|go):\d+ ", shown.stdout), shown.stdout
    if left_out:
        raise Skip("without " + ", ".join(left_out))


run()
