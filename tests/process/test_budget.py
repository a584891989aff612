# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Budgets: probes whose hits cost too much are taken out of the code and come back; the others miss nothing."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403
from real import rows_of  # noqa: E402

DIR = tempfile.mkdtemp(prefix="dp-budget-")
del os.environ["DPROBES_BUDGET"]
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
PHASES, COUNTS, PAUSES = target("phases"), target("counts"), os.path.join(BUILD, "tests", "process", "pauses")
TAKEN = re.compile(r"  (\S+): taken out (\d+) times?, ([0-9.]+) s of ([0-9.]+) s, about ([0-9,]+) hits passed over")
NEVER = " if %di == 0x7777777777777777"


class Phases(Live):
    """Calls so far of each function, while the program stands still."""

    def __init__(self):
        super().__init__(PHASES)

    def calls(self):
        return dict(zip(["busy", "calm", "quiet"], map(int, self("stop").split())))

    def clean_end(self):
        assert not our_mappings(self.pid) and not code_differs(self.pid)
        self("go")
        assert self.end() == 0


def program(name, probes):
    path = os.path.join(DIR, name + ".rpn")
    with open(path, "w") as f:
        f.write("name = %s\nid = 7\nvars = 8\n" % PHASES)
        for offset, code in probes:
            f.write("offset = %s\n%s\n" % (offset, code))
    return path


def which_are_out(pid):
    """The probes of a process by function: whether each is taken out."""
    text = dprobes("list", "-p", pid, check=0).stdout
    return {m.group(1): "TAKEN OUT" in m.group(0)
            for m in re.finditer(r"^[0-9a-f]{16}  p +(?:\S+:)?(\w+)\S*  .*$", text, re.M)}


def end_of(path):
    """The last lines of a file that may have a line for each call of a hot function: too many to read all of them."""
    with open(path, "rb") as f:
        f.seek(max(0, os.path.getsize(path) - 2000))
        return f.read().decode(errors="replace")


def armed(t, p):
    wait_for(lambda: t.poll() is not None or which_are_out(p.pid), what="the probes")
    assert t.poll() is None, text_of(t.err_path)
    return t


def taken_out(err):
    return {m[0]: (int(m[1]), float(m[2]), float(m[3]), int(m[4].replace(",", ""))) for m in TAKEN.findall(err)}


@test
def the_hot_one_goes_and_comes_back():
    """a hot function is taken out and comes back when it has cooled; cold ones keep every hit; the figures agree"""
    p = Phases()
    begin = p.calls()
    out = os.path.join(DIR, "hot.json")
    t = armed(trace_start("-p", p.pid, "--budget", "20%", "--json", "-o", out, "p exe:busy" + NEVER,
                          "r exe:busy if $retval == 0x7777", "p exe:calm" + NEVER, "p exe:quiet"), p)
    assert p("hot") == "ok" and p("go") == "ok"
    wait_for(lambda: "busy is taken out" in text_of(t.err_path), what="the hot probe to go")
    wait_for(lambda: which_are_out(p.pid) == {"busy": True, "calm": False, "quiet": False}, what="the list to tell")
    assert p("cool") == "ok"
    assert not settled(lambda: any(which_are_out(p.pid).values()), looks=5, what="the probe to come back") or wait_for(
        lambda: not settled(lambda: any(which_are_out(p.pid).values()), looks=5), what="the probe to come back")
    after = p.calls()
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    err = text_of(t.err_path)
    rows, gone = rows_of(err), taken_out(err)
    for f in ("calm", "quiet"):
        assert rows[f]["hits"] == after[f] - begin[f] and f not in gone, (f, begin, after, err)
    assert rows["busy"]["hits"] < after["busy"] - begin["busy"], (begin, after, err)
    assert set(gone) == {"busy", "<-busy"} and "budget 20 %: hits took about" in err, err
    for times, away, of, missed in gone.values():
        assert times >= 1 and 0 < away <= of and missed > 0, err
    assert gone["busy"][:3] == gone["<-busy"][:3], err
    told = [x for x in json_lines(text_of(out)) if "taken_out" in x]
    assert [(x["taken_out"], x["budget"], x["times"]) for x in told] == [
        ("busy", 20, gone["busy"][0]), ("<-busy", 20, gone["busy"][0])], told
    for x in told:
        assert abs(x["hits_passed_over_about"] - gone[x["taken_out"]][3]) <= 1 and x["out"] <= x["of"], (told, err)
    p.clean_end()


@test
def below_the_budget_nothing_changes():
    """a trace within its budget takes nothing out and sees every hit"""
    p = Phases()
    begin = p.calls()
    t = armed(trace_start("-p", p.pid, "--budget", "100%", "-o", "/dev/null", "p exe:busy" + NEVER, "p exe:calm"), p)
    p("hot"), p("go")
    time.sleep(0.6)
    after = p.calls()
    assert stop(t, signal.SIGINT) == 0
    err = text_of(t.err_path)
    rows = rows_of(err)
    assert rows["busy"]["hits"] == after["busy"] - begin["busy"] and not taken_out(err), err
    assert rows["calm"]["hits"] == after["calm"] - begin["calm"], err
    p.clean_end()


STEADY = """
__attribute__((noipa)) long steady(long n) { return n + 1; }
int main(void)
{
	long v = 0;
	for (;;) {
		for (int i = 0; i < 10000; i++)
			__asm__ volatile("" : "+r"(v));
		v = steady(v);
	}
}
"""


@test
def our_own_time_counts_where_others_wait():
    """what is cheap for the program is taken out where dprobes takes a processor from others to show its records"""
    prog = compiled(DIR, "steady", STEADY, "-O2")
    p = start([prog])
    others = [start(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    err = dprobes("trace", "-p", p.pid, "--budget", "2%", "--duration", "2", "p steady count", check=0).stderr
    assert not taken_out(err), err
    t = trace_start("-p", p.pid, "--budget", "2%", "-o", "/dev/null", "p steady a=$arg1 b=%sp c=%ip d=$arg1:x64")
    wait_for(lambda: t.poll() is not None or "steady is taken out" in text_of(t.err_path), what="the probe to go")
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    for other in [p, *others]:
        stop(other)


@test
def compiled_lines_tell_that_they_are_partial():
    """aggregates of lines that are compiled say that they are partial, and the pair that times a call goes together"""
    p = Phases()
    p.calls()
    t = armed(trace_start("-p", p.pid, "--budget", "2%", "r exe:busy hist($duration)", "p exe:calm count()"), p)
    p("hot"), p("go")
    wait_for(lambda: "taken out" in text_of(t.err_path), what="the hot probes to go")
    wait_for(lambda: which_are_out(p.pid).get("busy"), what="the list to tell")
    p.calls()
    assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
    shown, err = text_of(t.out_path), text_of(t.err_path)
    assert re.search(r"\(partial: \d+ probes? w\w+ taken out for some time\)", shown), (shown, err)
    assert "<-busy" in taken_out(err) and "calm" not in taken_out(err), err
    p.clean_end()


@test
def graphs_go_on():
    """a graph of all functions shows those that are left, and no call without its end; a recording of it, too, and
    its report tells which were taken out"""
    p = Phases()
    p.calls()
    out = os.path.join(DIR, "graph.txt")
    g = start([DPROBES, "graph", "--budget", "10%", "-p", str(p.pid), "-o", out, "exe:busy", "exe:calm", "exe:quiet"],
              stderr=open(os.path.join(DIR, "graph.err"), "w"))
    g.err_path = os.path.join(DIR, "graph.err")
    armed(g, p)
    p("hot"), p("go")
    wait_for(lambda: "busy is taken out" in text_of(g.err_path), what="the hot function to go")
    wait_for(lambda: which_are_out(p.pid).get("busy"), what="the list to tell")
    size = os.path.getsize(out)
    wait_for(lambda: os.path.getsize(out) > size and "calm" in end_of(out), what="calls of the others")
    assert stop(g, signal.SIGINT) == 0
    err = text_of(g.err_path)
    assert "busy: taken out" in err and "calm: taken out" not in err, err
    p.calls()
    out = os.path.join(DIR, "top.txt")
    g = start([DPROBES, "top", "--plain", "--budget", "10%", "--interval", "0.2", "-p", str(p.pid), "exe:[bc]*"],
              stdout=open(out, "w"), stderr=open(os.path.join(DIR, "top.err"), "w"))
    g.err_path = os.path.join(DIR, "top.err")
    armed(g, p)
    p("hot"), p("go")
    wait_for(lambda: re.search(r" busy \(taken out\)$", text_of(out), re.M), what="the hot row to be marked")
    assert stop(g, signal.SIGINT) == 0 and "busy: taken out" in text_of(g.err_path), text_of(g.err_path)
    p.calls()
    file = os.path.join(DIR, "budget.dpt")
    t = armed(trace_start("--format", "recording", "-o", file, "--budget", "10%", "-p", p.pid, "p exe:busy",
                          "p exe:calm"), p)
    p("go")
    wait_for(lambda: "busy is taken out" in text_of(t.err_path), what="the hot function to go")
    assert stop(t, signal.SIGINT) == 0
    told = [line for line in text_of(t.err_path).splitlines() if "taken out " in line and "passed over" in line]
    for copy in (file, file + ".copy"):  # a copy has it, too
        shown = dprobes("report", "--max-events", 1, "--info", copy, check=0).stdout
        assert "budget 10 %: hits took about" in shown and all(line in shown for line in told) and told, (told, shown)
        dprobes("report", "-q", "--format", "recording", "-o", file + ".copy", file, check=0)
    assert "E-CMD-VALUE" in dprobes("report", "--format", "csv", "-o", file, file, check=2).stderr
    p.calls()
    p.clean_end()


@test
def bad_values_are_refused():
    """what is no percentage is refused, and so are probes that cannot be taken out; nothing changes"""
    p = Phases()
    for v in ("0", "0.001", "100.1", "-1", "x", "1%%", "nan", "inf", "0x10", "", "%", "off"):
        r = dprobes("trace", "-p", p.pid, "--budget", v, "p exe:busy")
        assert r.returncode == 2 and "E-CMD-VALUE" in r.stderr and "budget" in r.stderr, (v, r)
    r = dprobes("insert", "--budget", "much", "none.rpn")
    assert r.returncode == 2 and "or off" in r.stderr, r
    sets = program("sets", [("busy", "push r, rdi; pop r, rdi; abort")])
    for what in (["w exe:stdout"], ["-f", sets]):
        r = dprobes("trace", "-p", p.pid, "--budget", "1%", *what)
        assert r.returncode and "E-BUDGET-PROBE" in r.stderr, (what, r)
    assert not our_mappings(p.pid) and p.end() == 0


@test
def a_killed_trace_leaves_code_that_can_be_cleaned():
    """killed while probes are out: what is left is removed, and the program goes on"""
    p = Phases()
    p.calls()
    t = armed(trace_start("-p", p.pid, "--budget", "1%", "-o", "/dev/null", "p exe:busy" + NEVER, "p exe:calm"), p)
    p("hot"), p("go")
    wait_for(lambda: which_are_out(p.pid).get("busy"), what="the hot probe to go")
    for child in children_of(t.pid):  # who would clean up
        os.kill(child, signal.SIGKILL)
    stop(t, signal.SIGKILL)
    assert our_mappings(p.pid)
    dprobes("clean", "-p", p.pid, check=0)
    p.calls()
    p.clean_end()


def hits(text, probe):
    return int(re.search(r"probe %d: .*hits (\d+):" % probe, text).group(1))


@alone
def the_driver_has_a_budget():
    """programs for all processes have a budget of 5 %, which can be changed or switched off; a driver that is killed
    while probes are out has a successor"""
    p = Phases()
    begin = p.calls()
    dprobes("insert", program("hot", [("busy", "inc lv, 0; abort"), ("calm", "inc lv, 1; abort")]), check=0)
    p("hot"), p("go")
    query = lambda: dprobes("query", "--name", PHASES, check=0).stdout  # noqa: E731
    wait_for(lambda: "probe 0: taken out" in query(), what="the hot probe to go")
    text = query()
    assert "budget 5 %" in text and "probe 1: active" in text and "; taken out 1 time" in text, text
    after = p.calls()
    text = query()
    assert hits(text, 1) == after["calm"] - begin["calm"], (begin, after, text)
    assert "lv 1 = %d" % (after["calm"] - begin["calm"]) in dprobes("vars", "--all", check=0).stdout
    kill_drivers()
    text = query()
    assert "budget 5 %" in text and hits(text, 1) == after["calm"] - begin["calm"], text
    p("go")
    wait_for(lambda: hits(query(), 1) > after["calm"] - begin["calm"], what="hits with the successor")
    p.calls()
    dprobes("remove", "--name", PHASES, check=0)
    assert not our_mappings(p.pid) and not code_differs(p.pid)
    dprobes("insert", "--budget", "off", program("off", [("busy", "inc lv, 0; abort")]), check=0)
    assert ", budget" not in query()
    dprobes("remove", "--name", PHASES, check=0)
    os.environ["DPROBES_BUDGET"] = "7%"
    dprobes("insert", program("half", [("calm", "inc lv, 0; abort")]), check=0)
    del os.environ["DPROBES_BUDGET"]
    assert ", budget 7 %" in query()
    dprobes("remove", "--name", PHASES, check=0)
    dprobes("insert", "--budget", "0.5%", program("half", [("calm", "inc lv, 0; abort")]), check=0)
    assert ", budget 0.5 %" in query()
    dprobes("remove", "--name", PHASES, check=0)
    p.clean_end()


@alone
def programs_that_change_something_stay():
    """a program that sets a register stays in place, whatever it costs, and the insertion says so"""
    p = Phases()
    p.calls()
    r = dprobes("insert", program("sets", [("busy", "push r, rdi; pop r, rdi; inc lv, 0; abort"),
                                           ("calm", "inc lv, 1; abort")]), check=0)
    assert "the budget of 5 % does not apply to 1 probe that" in r.stdout, r
    p("hot"), p("go")
    time.sleep(0.6)
    text = dprobes("query", "--name", PHASES, check=0).stdout
    assert "taken out" not in text and not any(which_are_out(p.pid).values()), text
    p.calls()
    dprobes("remove", "--name", PHASES, check=0)
    p.clean_end()


class Pauses:
    """Takes probes out of a process and brings them back (pauses.c)."""

    def __init__(self, pid, rounds, *events):
        self.p = start([PAUSES, str(pid), str(rounds), *events], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True)
        said = self.p.stdout.readline()
        assert said == "armed\n", said

    def __call__(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()


def storm(rounds, *plugin):
    o = Live([COUNTS, "8", *plugin])
    events = ["p exe:steady", "p exe:left", "r exe:left", "p exe:right", "p exe:several", "p exe:several+3"]
    begin = [int(x) for x in o("stop").split()]
    p = Pauses(o.pid, rounds, *events)
    assert o("go") == "ok"
    assert p() == "0 failed"
    middle = [int(x) for x in o("stop").split()]
    first = [int(x) for x in p().split()]
    assert o("go") == "ok"
    time.sleep(0.1)
    end = [int(x) for x in o("stop").split()]
    last = [int(x) for x in p().split()]
    p.p.stdin.close()
    assert p.p.wait(60) == 0
    calls = [b - a for a, b in zip(middle, end)]
    assert first[0] == middle[0] - begin[0], (begin, middle, first)
    assert last[0] == end[0] - begin[0], (begin, end, last)
    if not plugin:  # else children and handlers call the others, too
        assert [b - a for a, b in zip(first, last)][1:] == [calls[i] for i in (1, 1, 2, 3, 3)], (first, last, calls)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    assert o("go") == "ok" and o.end() == 0


@test
def a_storm_disturbs_nobody():
    """while probes go and come back all the time in 8 threads, one that stays misses nothing; back, the others do not
    either"""
    storm(40)


@test
def a_storm_with_forks_and_signals():
    """the same with children that inherit the probes, signal handlers, short threads and a library that comes and
    goes"""
    storm(20, target("plugin.so"))


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
