# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Event lines that name the program's own variables, add up, assign or end in C: each runs as a user types it."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-names-")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shop.c")
TIMES = 3
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")


def shop(*flags):
    need("gcc")
    path = os.path.join(DIR, "shop" + "".join(flags))
    if not os.path.exists(path):
        subprocess.run(["gcc", "-g", *(flags or ["-O2"]), "-w", "-o", path, SOURCE], check=True)
    return path


def line_of(text):
    return [i for i, s in enumerate(open(SOURCE).read().splitlines(), 1) if text in s][0]


def traced(*lines, flags=(), options=(), status=0, times=TIMES):
    """Trace a run of the program: what was recorded, what it and the tables printed, what was told."""
    out = os.path.join(DIR, "out")
    r = subprocess.run([DPROBES, "trace", "-o", out, *options, *lines, "--", shop(*flags), str(times)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=120)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    text = open(out).read() if os.path.exists(out) else ""
    if not text and not status:
        print("# no event: %s%s" % (r.stdout, r.stderr))
    return text, r.stdout, r.stderr


def events(*lines, **kw):
    text = traced(*lines, options=["--json", *kw.pop("options", ())], **kw)[0]
    return [json.loads(s) for s in text.splitlines()]


def args(*lines, **kw):
    return [e["args"] for e in events(*lines, **kw)]


def tables(*lines, **kw):
    out = traced(*lines, options=["--json"], **kw)[1]
    found = [json.loads(s) for s in out.splitlines() if s.startswith("{")]
    assert found, out
    # A library is mapped anew by exec: the table of what ran before is empty.
    return {(t["kind"], t["aggregate"]): t for t in sorted(found, key=lambda t: len(t.get("entries", "x")))}


def refused(line, code, text, **kw):
    err = traced(line, status=1, **kw)[2]
    assert code in err and text in err, err
    return err


@test
def names():
    """p add_order $qty $o->name $label: integers, texts behind pointers, floating point, enumerators, structures"""
    got = args("p add_order $qty $o->name $label")
    assert got[:2] == [{"qty": 1, "o->name": "anvil", "label": "retail"},
                       {"qty": 11, "o->name": "bolt", "label": 'whole "sale"'}] and len(got) == 2 * TIMES, got
    got = args("p add_order $total price=$o->price $o->color *$o $o->next->id")
    assert got[0]["total"] == 1000.0 and got[0]["price"] == 99.5 and got[0]["o->color"] == "GREEN", got
    assert got[0]["*o"]["name"] and got[0]["*o"]["id"] == 7 and got[0]["o->next->id"] == 8, got
    assert "price" in got[1] and "o->next->id" not in got[1], got  # the pointer is null: the record ends there


@test
def unoptimised():
    """the same in a program without optimisation, and as lines of text like those of other events"""
    text = traced("p add_order $qty $o->name $total", flags=["-O0"])[0]
    line = [s for s in text.splitlines() if not s.startswith("#")][0]
    assert re.fullmatch(r" *\S+-\d+ +\[\d+\] +\d+\.\d+: add_order: @add_order\+0 qty=1 o->name=\"anvil\" total=1000",
                        line), text


@test
def all_parameters():
    """$args is all parameters; p:NAME names the event"""
    got = events("p:order add_order $args")
    assert got[0]["event"] == "order" and got[0]["symbol"] == "add_order", got
    assert got[0]["args"]["qty"] == 1 and got[0]["args"]["label"] == "retail" and got[0]["args"]["total"] == 1000.0, got


@test
def floating_conditions():
    """p shop.c:LINE $total if $total > 1e6: a line without a module, floating point in the condition"""
    line = line_of("asm volatile(\"\" ::\"r\"(label)")
    got = args("p shop.c:%d $total if $total > 1e6" % line)
    assert got == [{"total": 3000000.0}] * TIMES, got
    got = args("p add_order $qty if $total / 2 + 0.5 <= 500.5 || -$total == -2e3")
    assert [g["qty"] for g in got] == [1, 2], got


@test
def lines_of_functions():
    """p FUNCTION:LINE: a line counted from the one in which the function begins, in plain lines and in compiled ones"""
    line = line_of("asm volatile(\"\" ::\"r\"(label)") - line_of("int add_order(int qty")
    want = events("p shop.c:%d $total" % (line + line_of("int add_order(int qty")))
    for form in ("p add_order:%d $total", "p shop:add_order:%d $total"):
        got = events(form % line)
        assert [(e["offset"], e["args"]) for e in got] == [(e["offset"], e["args"]) for e in want], (got, want)
    assert [e["offset"] for e in events("p add_order:%d" % line)] == [e["offset"] for e in want]
    for values in ("", " $qty"):
        err = refused("p add_order:500" + values, "E-LINE-CODE", "add_order begins at line")
        assert "of shop.c, and its last line with code is add_order:" in err, err
        refused("p add_ordre:2" + values, "E-SYM-NONE", "did you mean add_order")


@test
def patterns_of_modules():
    """p *:NAME, p lib*:PATTERN: in all modules that match, and how many there are is told"""
    for values in ("", " count"):
        err = traced("p *:add_order" + values)[2]
        assert "*:add_order: 1 function in 1 module" in err and re.search(r"^add_order +jump +%d " % (2 * TIMES), err,
                                                                          re.M), err
        err = traced("p libc.*:puts" + values, "p *:add_ord?r" + values)[2]
        assert "libc.*:puts: 1 function in 1 module" in err and "*:add_ord?r: 1 function" in err, err
        refused("p lib*:add_order" + values, "E-SYM-NONE", "lib*:add_order")


@test
def large_patterns():
    """a table over all functions of a program counts each of them, but those where no jump fits, which are told"""
    many = "".join("int part%d(int n) { return n + %d; }\n" % (i, 1000 + i) for i in range(400))
    calls = "".join("n = part%d(n);" % i for i in range(400))
    short = ('asm("part_short: ret; part_next: ret; .type part_short,@function; .size part_short,1;");'
             "void part_short(void);")
    program = compiled(DIR, "parts", "%s%s\nint main(void) { int n = 0; %s part_short(); return n == 0; }" %
                       (many, short, calls), "-g", "-O1", "-fno-inline", "-w")
    for line in "p exe:part* count by $ip", "r exe:part* count by $ip":
        r = subprocess.run([DPROBES, "trace", "begin { KEYS(500); }", line, "--", program], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=120)
        assert r.returncode == 0 and "part* matches 401 functions; 1 of them is left out" in r.stderr, r.stderr
        assert re.search(r"^total +400 ", r.stderr, re.M) and "400 probes" in r.stderr, r.stderr
        assert len(set(re.findall(r"^ +(part\d+)\+0x\w+ +1 ", r.stdout, re.M))) == 400, r.stdout
    source, made = os.path.join(DIR, "parts.dpc"), os.path.join(DIR, "parts.rpn")
    for body, programs in ("count(c);", 1), ("sum(c, $n);", 400):  # what is the same everywhere is compiled once
        open(source, "w").write('#pragma MODNAME("%s") PROBEPOINT_LOCATION("part*") PROBEPOINT_HANDLER("f")\n'
                                "void f() { %s }\n" % (program, body))
        dpcc = os.path.join(os.path.dirname(DPROBES), "dpcc")
        subprocess.run([dpcc, "-o", made, source], check=True, stderr=subprocess.DEVNULL)
        text = open(made).read()
        assert text.count("// part* at ") == programs and text.count("\noffset = ") == 400, (body, text[:1000])
        assert len(set(re.findall(r"^minor = (\d+)", text, re.M))) == 400, text[:1000]


SOME = """
#include <stdio.h>
#define OWN __attribute__((noinline, noclone))
#define BODY __asm__ volatile("nop; nop; nop; nop; nop")
OWN int do_one(int n) { BODY; return n * 3; }
OWN int do_two(int x, int n) { BODY; return n * x; }
OWN int do_three(int x) { BODY; return 5 + x; }
OWN int do_four(int n) { BODY; return 5 + n; }
OWN int odd(const char *arg1, int n) { BODY; return n + !arg1; }
int main(void) { printf("%d\\n", do_one(1) + do_two(2, 3) + do_three(4) + do_four(7) + odd("", 9)); return 0; }
"""


@test
def known_in_some():
    """of a pattern's functions those are passed over that lack the variable, and it is told; none has it: an error"""
    some = compiled(DIR, "some", SOME, "-g", "-O1")
    for line in "p do_* $n", "p do_* { if ($n > 0) log($n); }", "p do_* count by $n":
        r = dprobes("trace", "--json", line, "--", some)
        assert r.returncode == 0, (line, r.stderr)
        assert "do_*: 1 function is left out, where a variable is not known: E-VAR-NONE in do_three" in r.stderr, \
            r.stderr
        if "count" not in line:
            got = [json.loads(s) for s in r.stdout.splitlines() if s.startswith("{")]
            got = [(e["event"], *e["args"].values()) for e in got if "event" in e]
            assert got == [("do_one", 1), ("do_two", 3), ("do_four", 7)], (line, got)
    for line in "p do_* $nn", "p do_* { log($nn); }":
        r = dprobes("trace", line, "--", some)
        assert r.returncode == 1 and "E-VAR-NONE" in r.stderr and "\n39\n" not in "\n" + r.stdout, (line, r)


@test
def called_as_an_argument():
    """a parameter that is called arg1"""
    some = compiled(DIR, "some", SOME, "-g", "-O1")
    r = dprobes("trace", "p odd { log($arg1 != 0, $arg2); }", "--", some)
    assert r.returncode == 0 and re.search(r"odd: @odd\+0 .*=1 .*=9$", r.stdout, re.M), r


@test
def impossible_conditions():
    """a condition that cannot be computed does not hold; nothing is recorded, and the exception is counted"""
    out, _, err = traced("p add_order $qty if *(int *)0x10 == 1",
                         "p:or add_order $qty if $qty > 0 || *(int *)0x10 == 1", options=["--json"])
    got = [json.loads(s) for s in out.splitlines()]
    assert got and {e["event"] for e in got} == {"or"}, got
    assert re.search(r"^add_order +jump +%d +0 +%d .* %d +\S+$" % ((2 * TIMES,) * 3), err, re.M), err


@test
def returned():
    """$retval has the type of the function, float and double too; a void function has none"""
    assert args("r mean $retval $a") == [{"retval": (i + 2.5) / 2, "a": float(i)} for i in range(1, TIMES + 1)]
    assert [round(g["retval"], 6) for g in args("r ratio $retval $b")] == [0.25, 0.5, 0.75]
    refused("r nothing $retval $a", "E-DPCC-TYPE", "there is no $retval")
    assert args("r mean $retval") == [{"retval": (i + 2.5) / 2} for i in range(1, TIMES + 1)]  # as it is alone
    err = refused("r mean $retval", "E-EVENT-RETVAL", "floating point", options=["--pages"])
    assert args("r mean $retval", options=["--interpret"]) == [{"retval": (i + 2.5) / 2} for i in range(1, TIMES + 1)]
    assert "r mean { log($retval); }" in err, err
    assert args("r mean { log($retval); }") == [{"$retval": (i + 2.5) / 2} for i in range(1, TIMES + 1)]


@test
def durations():
    """r do_query $retval $duration: one record for a call, recursion too, with the time of that very call"""
    got = args("r do_query $retval $duration $sql $kind")
    assert [(g["sql"], g["kind"], g["retval"]) for g in got] == [("inner", 1, 0), ("select", 2, 1)] * TIMES, got
    for inner, outer in zip(got[::2], got[1::2]):
        assert 1000000 <= inner["duration"] < outer["duration"] and outer["duration"] >= 3000000, got
    for bound, ns in (("2ms", 2000000), ("1.5ms", 1500000), ("2500us", 2500000)):
        long = [g["duration"] for g in args("r do_query $duration if $duration > %s && $duration < 60s" % bound)]
        assert len(long) >= TIMES and min(long) > ns, (bound, long)  # the outer ones at least, which take 3 ms
    refused("r do_query $duration if $duration > 2mss", "E-DPCC-SYNTAX", "not a valid number")
    refused("p do_query $duration", "E-EVENT-VAR", "where a function returns")


@test
def program_itself():
    """main: and exe: name the program, whatever it is called, in plain lines and in those with names"""
    for alias in ("main", "exe", "shop"):
        assert len(events("p %s:add_order" % alias)) == 2 * TIMES
        assert len(args("p %s:add_order $qty" % alias)) == 2 * TIMES


@test
def context():
    """$pid $tid $cpu $time $comm $ip $caller in fields and conditions"""
    got = events('p add_order $pid $tid $cpu $time $comm $ip $caller if $comm == "shop" && $pid == $tid')
    assert len(got) == 2 * TIMES, got
    g = got[0]
    assert g["args"]["pid"] == g["args"]["tid"] == g["tid"] and g["args"]["comm"] == "shop", got
    assert g["args"]["time"] > 0 and got[1]["args"]["time"] > g["args"]["time"], got
    assert not events('p add_order $pid if $comm ~ "s?op2"')


WHO = """#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) int work(int uid)
{
	sum += uid;
	return uid + 1;
}
__attribute__((noinline)) int plain(int n)
{
	sum += n;
	return n + 1;
}
static void forbid(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = {sizeof(f) / sizeof(*f), f};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}
int main(int argc, char **argv)
{
	char line[16];
	int told[2], first = getpid();
	if (argc > 1 && !strcmp(argv[1], "filter")) {
		forbid();
		puts("ready"); fflush(stdout);
		while (fgets(line, sizeof(line), stdin)) {
			printf("%d\\n", plain(1)); fflush(stdout);
		}
		return 0;
	}
	pipe(told);
	plain(1);
	if (argc > 1) /* root */
		syscall(SYS_setresuid, 65534, -1, -1);
	plain(2);
	work(77);
	prctl(PR_SET_NAME, "other", 0, 0, 0);
	plain(3);
	printf("parent %d %d\\n", getppid(), getpid()); fflush(stdout);
	if (fork()) { /* ends before its child does */
		read(told[0], line, 1);
		return 0;
	}
	plain(4);
	write(told[1], "x", 1);
	while (getppid() == first)
		usleep(1000);
	plain(5);
	printf("now %d %d\\n", getppid(), getpid());
	return 0;
}
"""


def who():
    return compiled(DIR, "who", WHO, "-g", "-O2", "-w")


@test
def identity():
    """$uid $ppid $thread_name are what they are at that hit: after setuid, another name, another parent"""
    path, out = who(), os.path.join(DIR, "who.out")
    rooted = os.getuid() == 0
    t = subprocess.run([DPROBES, "trace", "--json", "-o", out, "p plain $n $uid $ppid $pid $thread_name", "r work $uid",
                        "--", path, *(["root"] if rooted else [])],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert t.returncode == 0, t.stderr
    got = [json.loads(s) for s in open(out)]
    of = {e["args"]["n"]: e["args"] for e in got if "n" in e["args"]}
    first = [int(s) for s in re.search(r"parent (\d+) (\d+)", t.stdout).groups()]
    assert [of[n]["uid"] for n in (1, 2)] == [os.getuid(), 65534 if rooted else os.getuid()], of
    assert [of[n]["thread_name"] for n in (1, 3)] == ["who", "other"], of
    assert [of[1]["ppid"], of[1]["pid"]] == first, (of, first)
    assert of[4]["ppid"] == first[1], of
    if 5 in of and "now" in t.stdout:  # the command's end ends the trace, perhaps before
        assert of[5]["ppid"] == int(re.search(r"now (\d+)", t.stdout).group(1)) != first[1], of
    # A parameter of that name comes first, as it was at the entry.
    assert [e["args"]["uid"] for e in got if "n" not in e["args"]] == [77], got


@test
def identity_forbidden():
    """where a filter kills at getuid and getppid they are not asked: the record ends there, the exception is counted"""
    path = who()
    for word in ("$uid", "$ppid"):
        live = Live([path, "filter"])
        t = trace_start("--json", "-p", live.pid, "p plain $n %s" % word, "p:never plain $n if %s == 1" % word)
        wait_for(lambda: in_place(live.pid) or t.poll() is not None, what="the probe")
        if t.poll() is not None:
            assert "E-TARGET-SECCOMP" in text_of(t.err_path), text_of(t.err_path)
            raise Skip("this kernel cannot suspend filters")
        assert [live("x") for _ in range(3)] == ["2"] * 3
        stop(t, signal.SIGINT)
        assert live.end() == 0
        got = [json.loads(s) for s in text_of(t.out_path).splitlines()]
        assert [e["args"] for e in got] == [{"n": 1}] * 3, (got, text_of(t.err_path))


@test
def counts():
    """p libc:malloc count by $backtrace; $backtrace[N] alone; several keys; several aggregates; top"""
    t = tables("p make count by $backtrace")[("count", "make")]
    assert sum(e["value"] for e in t["entries"]) == 4 * TIMES and t["entries"][0]["key"][0][0].startswith("make"), t
    chains = args("p make $backtrace[2]", "p make from=$backtrace[2] if $arg1 > 0")
    assert {tuple(name.split("+")[0] for name in chain) for e in chains for chain in e.values()} == {("make", "main")}
    t = tables("p libc:malloc sum($arg1) by $backtrace[5] top 1")[("sum", "malloc_arg1")]
    assert len(t["entries"]) == 1 and t["entries"][0]["value"] > 0, t
    t = tables("p add_order count sum($qty), max($qty) avg($qty) by $label, $o->color")
    key = {e["key"][0]: e for e in t[("sum", "add_order_qty")]["entries"]}
    assert key["retail"]["key"] == ["retail", "GREEN"], t
    assert key["retail"]["value"] == 6 and t[("max", "add_order_qty")]["entries"][0]["value"] == 13, t
    assert {e["key"][0]: e["value"] for e in t[("count", "add_order")]["entries"]}["retail"] == TIMES, t
    t = tables("p add_order sum($total) max($total) by $label")  # floating point: whole numbers are counted
    totals = {e["key"][0]: e["value"] for e in t[("sum", "add_order_total")]["entries"]}
    assert totals["retail"] == 1000 * TIMES * (TIMES + 1) / 2, t
    assert max(e["value"] for e in t[("max", "add_order_total")]["entries"]) == 3000000, t


@test
def histograms():
    """hist, lhist, quantiles; r do_query hist($duration) by $comm"""
    t = tables("r do_query hist($duration) by $comm")[("hist", "do_query_duration")]
    assert t["entries"][0]["key"] == ["shop"], t
    assert sum(b["count"] for b in t["entries"][0]["bars"]) == 2 * TIMES, t
    t = tables("p make lhist($n, 100, 1000, 100) quantiles($n)")
    bars = {b.get("from"): b["count"] for b in t[("lhist", "make_n")]["bars"]}
    assert bars == {100: TIMES, 200: TIMES, 400: TIMES, 800: TIMES}, t
    q = t[("quantiles", "make_n")]
    assert q["values"] == 4 * TIMES and 192 <= q["p50"] <= 256 and 768 <= q["max"] <= 896, q
    out = traced("p make quantiles($n)")[1]
    assert re.search(r"quantiles make_n +12 values, p50 \d+, p90", out), out


@test
def entry_at_return():
    """r libc:read $retval:s64 quantiles($duration) by $fd if $retval > 0: parameters are those of the entry"""
    need_debug = args("r do_query $kind $sql if $retval > 0")
    assert need_debug == [{"kind": 2, "sql": "select"}] * TIMES, need_debug
    t = tables("r libc:read $retval:s64 quantiles($duration) by $arg1:s32 if $retval:s64 > 0")
    q = t[("quantiles", "read_duration")]
    assert len(q["entries"]) == 1 and q["entries"][0]["values"] == TIMES and q["entries"][0]["key"][0] >= 3, q


@test
def assignments():
    """r may_fail $retval = -2 if $path ~ "/etc/*": one call fails, others do not; p f return 0 skips the function"""
    plain = int(traced("p add_order $qty")[1])
    out = traced('r may_fail $retval = -2 if $path ~ "/etc/*"')[1]
    assert int(out) == plain - TIMES * (len("/etc/passwd") + 2), (plain, out)
    out = traced('p may_fail return 0')[1]
    assert int(out) == plain - TIMES * len("/etc/passwd"), (plain, out)


@test
def bodies():
    """p call { ... }: C behind a place, beside other lines, with variables of begin { }"""
    t = tables("begin { least = 5; }", "p add_order { if ($o->id > 7 && $qty > least) count(cmds, $o->name); }",
               "p do_query count by $sql")
    assert [(e["key"], e["value"]) for e in t[("count", "cmds")]["entries"]] == [(["bolt"], TIMES)], t
    queries = {e["key"][0]: e["value"] for e in t[("count", "do_query")]["entries"]}
    assert queries == {"inner": TIMES, "select": TIMES}, t


@test
def both_kinds():
    """lines of the event language and others in one command: one run, one order, the same form"""
    got = events("p:plain add_order n=%di:s32", "p:named add_order $qty", "r do_query got=$retval:s32")
    assert {e["event"] for e in got} >= {"plain", "named"}, got
    assert [e["args"]["n"] for e in got if e["event"] == "plain"] == \
           [e["args"]["qty"] for e in got if e["event"] == "named"], got
    assert [e["ts"] for e in got] == sorted(e["ts"] for e in got), got


@test
def no_room():
    """calls for which there is no room to keep their beginning are told, and all that had some are there"""
    out, _, err = traced("r deep $n $duration", options=["--json", "-q"])
    m = re.search(r"(\d+) calls began while there was no room", err)
    seen = [json.loads(s)["args"]["n"] for s in out.splitlines()]
    assert m and len(seen) + int(m[1]) == 3000 and len(set(seen)) == len(seen) > 1000, (err, len(seen))
    assert "no room" not in traced("r do_query $kind $duration")[2]


@test
def summary():
    """at the end each line has a row with its hits, the entries of calls as well"""
    err = traced("p add_order $qty if $qty > 10", "r:asked do_query $kind", "p make count")[2]
    rows = {s.split()[0]: s.split() for s in err.splitlines() if len(s.split()) == 10}
    assert rows["add_order"][1:5] == ["jump", str(2 * TIMES), str(TIMES), str(TIMES)], err
    assert rows["asked"][1] == "exits" and rows["asked"][2:4] == [str(2 * TIMES)] * 2, err
    assert rows["make"][2] == str(4 * TIMES), err
    entry = [s.split() for s in err.splitlines() if s.startswith("entry of asked")]
    assert entry and entry[0][4] == str(2 * TIMES), err
    assert not traced("p add_order $qty", options=["-q"])[2]


@test
def options():
    """what such lines cannot have is refused by its name"""
    for option in (["--pages"], ["--format", "folded"]):
        r = subprocess.run([DPROBES, "trace", *option, "p add_order $qty", "--", shop()], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
        assert r.returncode and option[0] in r.stderr and "names, tables or a body" in r.stderr, r.stderr


@test
def some_events():
    """--max-events N shows exactly N events, with the name of their task, and ends the trace"""
    text, _, err = traced("p add_order $qty", options=["--max-events", "2"])
    lines = [s for s in text.splitlines() if not s.startswith("#")]
    assert len(lines) == 2 and all(re.match(r" *shop-\d+ ", s) for s in lines), text
    assert "2 events shown" in err, err


@test
def until():
    """--until EVENT ends the trace at its first hit: with names, a condition, a table, a body, a system call"""
    for event, n in (("p add_order count if $qty == 11", 2), ("p:last add_order $label if $qty == 12", 4),
                     ("p add_order { x = $qty; if (x != 2) return; count(many); }", 3),
                     ("r add_order $qty if $qty > 2", 2)):
        got = events("begin { x = 0; }", "p:each add_order $qty", options=["--until", event])
        assert [e["args"]["qty"] for e in got if e["event"] == "each"] == [1, 11, 2, 12][:n] and len(got) == n + 1, got
        assert got[-1]["event"] != "each", got
    err = traced("p:each add_order $qty", options=["--until", "p add_order if $qty == 2"])[2]
    assert "4 events shown; later ones were only counted" in err and re.search(r"^each +jump +%d " % (2 * TIMES), err,
                                                                               re.M), err
    got = events("p:each add_order $qty", options=["--until", "s write count"])
    assert got[-1]["event"] == "write" and "each" in {e["event"] for e in got}, got
    assert "with a place" in traced("p add_order $qty", status=2, options=["--until", "i:1s"])[2]


@test
def buffer():
    """--buffer: the size of the log; what does not fit is lost in a small one only"""
    prog = compiled(DIR, "fast", "__attribute__((noipa)) long f(long n) { return n * 1234567 + 1; }\n"
                    "int main(void) { for (long i = 0; i < 100000; i++) f(i); }\n", "-O2", "-g")
    lost = {}
    for size in ("8k", "32M"):
        r = dprobes("trace", "-o", os.devnull, "--buffer", size, "p f $n", "--", prog, check=0)
        lost[size] = int(re.search(r"^f +jump +100000 +\d+ +\d+ +\d+ +\d+ +(\d+)", r.stderr, re.M).group(1))
    assert lost["8k"] > 0 == lost["32M"], lost


@test
def read_only():
    """--read-only refuses lines that change the program, and lets others pass"""
    for line in ("p add_order $qty = 3", "r do_query $retval = 0"):
        refused(line, "E-TRACE-WRITES", "", options=["--read-only"])
    assert args("p add_order $qty", options=["--read-only"]) == args("p add_order $qty")


@test
def max_rate():
    """--max-rate ends a trace whose probes are hit more often than so many times a second"""
    refused("p add_order $qty", "E-TRACE-RATE", "", options=["--max-rate", "1"], times=300)
    assert len(args("p add_order $qty", options=["--max-rate", "1000000"])) == 2 * TIMES
    assert "E-CMD-VALUE" in traced("p add_order", options=["--max-rate", "none"], status=2)[2]


@test
def all_processes():
    """--all FILE: processes that map it now and that start later, each with tables of its own"""
    if os.geteuid() != 0:
        raise Skip("processes of others can be watched by root only")
    path = shop()
    out = os.path.join(DIR, "all")
    with open(out, "w") as f:
        t = subprocess.Popen([DPROBES, "trace", "--all", path, "--json", "-o", out + ".events",
                              "p add_order $qty sum($qty) by $label"], stdout=f, stderr=subprocess.PIPE, text=True)
    seen = ""
    while "probe" not in seen:
        seen += t.stderr.readline()
    assert "and in all that map it later" in seen, seen
    for _ in range(2):
        subprocess.run([path, str(TIMES)], stdout=subprocess.DEVNULL, check=True)
    t.send_signal(signal.SIGINT)
    err = t.communicate(timeout=60)[1]
    got = [json.loads(s) for s in open(out + ".events")]
    assert len({e["tid"] for e in got}) == 2 and len(got) == 4 * TIMES, (got, err)
    found = [json.loads(s) for s in open(out) if s.startswith("{")]
    retail = [e["value"] for a in found for e in a["entries"] if e["key"] == ["retail"]]
    assert len(found) == 2 and retail == [6, 6], found


FORKS = """#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) int work(int n)
{
	int pid = n == 5 ? fork() : 0;
	if (pid > 0) waitpid(pid, 0, 0);
	return n + (pid > 0);
}
int main(void)
{
	int r = work(5);
	if (r == 5) work(9); /* in the child, where the parent's call still goes on */
	return r != 6 && r != 5;
}
"""


@test
def forked():
    """a forked child calls at the stack address of its parent's call: each has its own values of the entry"""
    path = os.path.join(DIR, "forks")
    with open(path + ".c", "w") as f:
        f.write(FORKS)
    subprocess.run(["gcc", "-g", "-O2", "-o", path, path + ".c"], check=True)
    out = os.path.join(DIR, "forks.out")
    r = subprocess.run([DPROBES, "trace", "--json", "-o", out, "r forks:work $n $retval", "--", path],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    got = sorted((e["args"]["n"], e["args"]["retval"]) for e in map(json.loads, open(out)))
    assert {(5, 6), (9, 9)} <= set(got) <= {(5, 5), (5, 6), (9, 9)}, (got, r.stderr)


@test
def macros():
    """-D NAME=VALUE reaches lines"""
    assert len(args("p add_order $qty if $qty > LEAST", options=["-D", "LEAST=10"])) == TIMES


@test
def handlers_on_the_command_line():
    """C behind -e, or as an argument, is what a .dpc file is, with -D, --json and -o; mistakes are shown in it"""
    text = """#pragma MODNAME(PROGRAM)
#pragma PROBEPOINT_LOCATION("add_order") PROBEPOINT_HANDLER("h")
void h() { if ($qty > LEAST) { log($qty); sum(q, $qty, $label); } }"""
    define = ["-D", 'PROGRAM="%s"' % shop(), "-D", "LEAST=10"]
    for spelling in (["-e", text], ["-e" + text], ["--event=" + text], [text]):
        found, told, _ = traced(*spelling, options=["--json", *define])
        got = [json.loads(s) for s in found.splitlines()]
        assert [[f["value"] for f in e["fields"]] for e in got] == [[11], [12], [13]], got
        assert '"aggregate":"q"' in told, told
    # Lines beside it are compiled with it.
    found = traced("-e", text, "r add_order $qty", options=["--json", *define])[0]
    assert [e["args"]["qty"] for e in json_lines(found) if "args" in e] == [1, 11, 2, 12, 3, 13], found
    # Pieces are one program.
    assert traced("-e", text.split("void")[0], "-e", "#pragma MINOR(1)\nvoid h() { count(q); }", options=define)[1]
    for more, code, reason in ((["-e", text.replace("$qty >", "$nosuch >")], "E-VAR", "-e:3:16"),
                               (["-e", text, "p libc:add_order"], "E-DPCC-PRAGMA", "the file's module"),
                               (["-e", text, "-f", "x.dpc"], "E-CMD-EXTRA", "x.dpc")):
        r = dprobes("trace", *define, *more, "--", shop(), "1")
        assert r.returncode and code in r.stderr and reason in r.stderr, r.stderr


FILE = """#pragma MODNAME(PROGRAM)
begin { least = 10; }
static long seen;
#pragma PROBEPOINT_LOCATION("add_order") PROBEPOINT_HANDLER("h")
void h()
{
	seen++;
	count(handled);
}
/* lines
p of a comment */
p add_order $qty sum($qty) by $label if $qty > least
r:done add_order $retval
p:body add_order {
	if (seen) /* what h() counts */
		count(bodies, $label);
}
"""


@test
def lines_in_a_file():
    """event lines stand beside the handlers of a .dpc file, share its variables, and are shown as lines are"""
    path = os.path.join(DIR, "lines.dpc")
    with open(path, "w") as f:
        f.write(FILE)
    define = ["-D", 'PROGRAM="%s"' % shop()]
    for spelling in (["-f", path], ["-e", FILE]):
        found, told, _ = traced(*spelling, options=["--json", *define])
        got = [json.loads(s) for s in found.splitlines()]
        assert [e["args"]["qty"] for e in got if e["event"] == "add_order"] == [11, 12, 13], got
        assert len([e for e in got if e["event"] == "done" and "retval" in e["args"]]) == 2 * TIMES, got
        of = {t["aggregate"]: t for t in (json.loads(s) for s in told.splitlines() if s.startswith("{"))}
        assert set(of) == {"handled", "add_order_qty", "bodies"}, told
        assert sum(e["value"] for e in of["add_order_qty"]["entries"]) == 11 + 12 + 13, told
    for old, new, code, where in (("> least", "> lest", "E-DPCC-NAME", "wrong.dpc:12:48: "),
                                  ("$retval", "$nosuch", "E-VAR-NONE", "wrong.dpc:13:18: "),
                                  ("sum($qty)", "sum(", "E-EVENT-PAREN", "wrong.dpc:12:21: "),
                                  ("p add_order", "p libc:malloc", "E-DPCC-PRAGMA", "not in libc"),
                                  ("10; }", "10", "E-DPCC-SYNTAX", "wrong.dpc:2:"),
                                  ("r:done add_order", "r:done nowhere", "E-SYM-NONE", "wrong.dpc:13:")):
        wrong = os.path.join(DIR, "wrong.dpc")
        with open(wrong, "w") as f:
            f.write(FILE.replace(old, new))
        r = dprobes("trace", "-f", wrong, *define, "--", shop(), "1")
        assert r.returncode and code in r.stderr and where in r.stderr, (old, r.stderr)


@test
def suggestions():
    """what is mistyped is answered with what was meant: names of all kinds, members, types, words of a line, calls"""
    for line, meant in (("p add_order $qyt", "qty"), ("p add_order $cgrup", "$cgroup"), ("p add_order $ags", "$args"),
                        ("r do_query $retvl", "$retval"), ("r do_query $dration", "$duration"),
                        ("p add_order $o->nam", "name"), ("p add_order $o.name", "->"), ("p add_order cuont", "count"),
                        ("p add_order cuont by $qty", "count"),
                        ("p add_order hsit($qty)", "hist"), ("p add_order { cuont(n); }", "count"),
                        ("p add_order count yb $comm", "by"), ("p add_order $qty fi $qty > 3", "if"),
                        ("p add_order $qty:u23", "u32"), ("p add_ordr* $qty", "add_order"), ("s opennat", "openat"),
                        ("s openat $falgs", "flags")):
        err = traced(line, status=1)[2]
        assert "did you mean %s?" % meant in err or "did you mean %s," % meant in err, (line, err)
        assert re.search(r"^ +\^", err, re.M), (line, err)


@test
def without_a_dollar():
    """$n of a variable that bodies share: the hint says how it is written"""
    for line in ("p add_order $n", "p add_order { $n++; }", "p add_order count by $n", "i:1s { log($n); }"):
        err = traced("begin { n = 5; }", "p add_order $qty", line, status=1)[2]
        assert "write it without $" in err and re.search(r"^ +\^", err, re.M), (line, err)


@test
def mistakes():
    """a mistake is shown in the line as it was typed, with a caret below it"""
    err = refused("p add_order $qty $o->label", "E-DPCC-NAME", "no member")
    lines = err.splitlines()
    at = [i for i, s in enumerate(lines) if "p add_order $qty $o->label" in s][0]
    assert lines[at + 1].index("^") == lines[at].index("label"), err
    refused("p add_order $qtty", "E-VAR-NONE", "qty")
    refused("p add_order sum()", "E-DPCC-TYPE", "one value")
    refused("p add_order lhist($qty, 0, 1000, 1)", "E-DPCC-LIMIT", "bars")
    refused("p add_order { count(a); ", "E-DPCC-SYNTAX", "}")
    refused("r add_order return 3", "E-DPCC-TYPE", "entry")


run()
