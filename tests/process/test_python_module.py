# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The Python module: what it shows is what the program wrote, errors are exceptions, and however a trace ends, no probe
and no process is left."""
import ast
import asyncio
import io
import json
import re
import signal
import time
from contextlib import redirect_stdout

from obey import *  # noqa: F403
import pages

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
PYTHON = os.path.join(ROOT, "python")
os.environ.update(DPROBES=DPROBES, PYTHONPATH=PYTHON)
sys.path.insert(0, PYTHON)
import dprobes as dp  # noqa: E402

SOURCES = sorted(os.path.join(PYTHON, "dprobes", name) for name in os.listdir(os.path.join(PYTHON, "dprobes"))
                 if name.endswith(".py"))


def shop():
    return compiled(DIR, "shop", open(os.path.join(HERE, "shop.c")).read(), "-g", "-O2", "-w")


def traced(*lines, **kw):
    for _ in range(5):  # on a busy machine a program may begin without waiting for the probes
        with dp.trace(*lines, command=[shop(), "3"], stdout=subprocess.DEVNULL, **kw) as t:
            got = list(t)
        if not any("without waiting for the probes" in note for note in t.notes):
            break
    return got, t


def clean_again(pid):
    """No probes, and no dprobes that is a child of ours, running or not."""
    assert not our_mappings(pid) and not code_differs(pid) and not children(), children()


def children():
    """Those of this process that are a dprobes, zombies as well."""
    found = []
    for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split():
        try:
            found += [int(pid)] if "dprobes" in text_of("/proc/%s/stat" % pid) else []
        except OSError:
            pass
    return found


@test
def types():
    """mypy --strict finds nothing; the sources are Python 3.9 with its standard library alone"""
    for path in SOURCES:
        for node in ast.walk(ast.parse(text_of(path), feature_version=(3, 9))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else \
                [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            bad = {name.split(".")[0] for name in names} - set(getattr(sys, "stdlib_module_names", names)) - {"pandas"}
            assert not bad, (path, bad)
    mypy, = need("mypy")
    r = subprocess.run([mypy, "--strict", "--python-version", "3.9", "--cache-dir", os.path.join(DIR, "mypy"),
                        os.path.join(PYTHON, "dprobes")], stdout=subprocess.PIPE, text=True)
    assert r.returncode == 0, r.stdout


@test
def events():
    """events: arguments by name and as attributes, places, returns, call chains, the time of Python's clock"""
    before = time.monotonic()
    got, t = traced("p add_order $qty $label from=$backtrace", "r:done add_order $retval", "p make $n")
    first = got[0]
    assert before < first.time < time.monotonic() and first.pid == first.tid and first.comm == "shop", first
    assert (first.name, first.symbol, first.offset, first.is_return) == ("add_order", "add_order", 0, False), first
    assert first.args.qty == first.args["qty"] == 1 and first.args.label == "retail" and len(first.args) == 3, first
    assert first.backtrace == first.args["from"] and "main" in first.backtrace[1], first.backtrace
    done = [e for e in got if e.name == "done"]
    assert len(done) == 6 and done[0].is_return and not done[0].backtrace and "arg1" not in done[0].args, done
    plain, _ = traced("r shop:add_order $retval:s32")
    assert plain[0].caller.startswith("main") and plain[0].args[0] == plain[0].args.arg1 == 7, plain[0]
    assert t.summary.total.recorded == len(got) and t.summary.total.hits >= len(got), t.summary
    assert {p.probe for p in t.summary.probes} >= {"add_order", "make"}, t.summary
    assert t.status == 0 and not t.running and not t.notes, t.notes
    try:
        first.args.quantity
        raise RuntimeError("an argument that is not there")
    except AttributeError as e:
        assert "qty, label, from" in str(e), e


@test
def tables():
    """tables by key and by rows; single values, histograms, quantiles; dictionaries; pandas where it is"""
    _, t = traced("begin { KEYS(8); }", "p:by add_order sum($qty) by $label", "p add_order avg($qty) by $label, $qty",
                  "p make hist($n)", "p:q make quantiles($n)", "p may_fail count by $backtrace[2]",
                  "p nothing min($a) if $a > 100")
    by = {table.kind: table for table in t.tables}
    assert by["sum"]["retail"] == 6 and by["sum"].to_dict() == {"retail": 6, "whole \"sale\"": 36}, by["sum"].to_dict()
    assert by["sum"].rows[0].key == ("whole \"sale\"",) and by["sum"].rows[0].values == 3, by["sum"].rows
    assert by["avg"]["retail", 2] == 2.0 and len(by["avg"]) == 6 and by["min"].value is None, by
    bars = by["hist"].value
    assert bars.total == 12 and [b.count for b in bars] == [3, 3, 3, 3] and bars[0].low == 64, bars
    assert by["hist"].to_dict() == {(): {(64, 127): 3, (128, 255): 3, (256, 511): 3, (512, 1023): 3}}
    assert by["quantiles"].value.values == 12 and by["quantiles"].value.max >= 800, by["quantiles"].value
    chain = next(iter(by["count"]))
    assert isinstance(chain, tuple) and chain[0].startswith("may_fail") and sum(by["count"].values()) == 6, chain
    assert t.tables[by["sum"].name] is by["sum"] and len(t.tables) == 6 and "sum" in repr(by["sum"])
    try:
        import pandas  # noqa: F401
    except ImportError:
        return
    assert list(by["sum"].to_pandas()["value"]) == [36, 6] and len(by["hist"].to_pandas()) == 4


def fails(code, call):
    try:
        call()
    except dp.Error as e:
        assert e.code == code and e.message and code in str(e), (e, e.args)
        return e
    raise RuntimeError("%s: it went well" % code)


@test
def errors():
    """what fails is an exception with the program's code, text, place and suggestion, and nothing is left"""
    o = Obey()
    e = fails("E-EVENT-ARG", lambda: dp.trace("p add_numbers +0(", pid=o.pid).start())
    assert e.text == "p add_numbers +0(" and e.column is not None and e.suggestion, e.args
    e = fails("E-SYM-NONE", lambda: dp.trace("p obey:add_number", pid=o.pid).start())
    assert "add_numbers" in e.suggestion + e.detail, e.args
    assert fails("E-CMD-OPTION", lambda: dp.trace("p add_numbers", pid=o.pid, durations=1).start()).detail
    fails("E-CMD-CODE", lambda: dp.explain("E-NOTHING"))
    fails("E-MOD-NONE", lambda: dp.funcs("nosuch:*", pid=o.pid))
    fails("E-FILE-OPEN", lambda: list(dp.trace("p malloc", command=["/no/such/program"])))
    other = json.dumps({"version": "9.9.9", "build_id": "", "formats": ""})
    for text, word in (("exit 3", "cannot be used"), ("echo '%s'" % other, "another version")):
        path = os.path.join(DIR, "other")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)
        os.environ["DPROBES"] = path
        try:
            assert word in str(fails("E-PYTHON", dp.version)), word
        finally:
            os.environ["DPROBES"] = DPROBES
            dp._command._checked.clear()
    clean_again(o.pid)
    assert o.end() == 0


@test
def ends():
    """the block is left by an exception, by break, by stop(), before the time is over: nothing is left"""
    o = Obey()

    def block(leave):
        with dp.trace("p obey:add_numbers a=%di", pid=o.pid, duration=300) as t:
            assert code_differs(o.pid) and t.running
            o("add 1 2")
            leave(t)
        return t

    def count(t):
        for n, event in enumerate(t):
            assert event.args.a == 1
            break

    def bad(t):
        raise ZeroDivisionError

    block(count)
    clean_again(o.pid)
    try:
        block(bad)
    except ZeroDivisionError:
        clean_again(o.pid)
    t = block(lambda t: (o("add 1 3"), t.stop(), t.stop()))
    assert [e.args.a for e in t] == [1, 1] and t.summary.total.hits == 2  # what came before is there
    for event in dp.trace("p obey:add_numbers", pid=o.pid, duration=0.3):  # no block at all
        pass
    clean_again(o.pid)
    assert o.end() == 0


CHILD = """
import sys, dprobes
with dprobes.trace(sys.argv[2], pid=int(sys.argv[1])) as t:
    print("ready", flush=True)
    for event in t:
        pass
"""


@test
def signals():
    """Ctrl-C, SIGTERM and kill -9 of the program that traces: the probes are gone"""
    o = Obey()
    line, table = "p obey:add_numbers", "p obey:add_numbers count"
    for sig, what in ((signal.SIGINT, line), (signal.SIGTERM, table), (signal.SIGKILL, line),
                      (signal.SIGKILL, table)):
        p = start([sys.executable, "-c", CHILD, str(o.pid), what], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                  text=True)
        assert p.stdout.readline() == "ready\n" and code_differs(o.pid)
        stop(p, sig)
        if sig == signal.SIGINT:  # it has waited for the end
            assert "KeyboardInterrupt" in p.stderr.read() and not code_differs(o.pid)
        wait_for(lambda: not code_differs(o.pid) and not our_mappings(o.pid), what="clean after %s" % sig)
        assert o("add 1 2") == "3"
    assert o.end() == 0


@test
def command():
    """a command has its own output, environment and descriptors, and its status; more events than pipes hold wait"""
    out = os.path.join(DIR, "said")
    with open(out, "w") as f, dp.trace("p getenv name=+0(%di):string", stdout=f, stderr=f, env={"DP_SAID": "said"},
                                       command=["sh", "-c", "echo $DP_SAID; echo err >&2; ls /proc/self/fd; exit 7"],
                                       tree=True, quiet=True) as t:
        list(t)
    assert t.status == 7, t.status
    lines = text_of(out).split()
    assert lines[:2] == ["said", "err"] and set(lines[2:]) <= {"0", "1", "2", "3"}, lines
    many = compiled(DIR, "many", "__attribute__((noipa)) void f(long n) {}\n"
                    "int main() { for (long i = 0; i < 15000; i++) f(i); }\n")
    with dp.trace("p many:f n=%di", command=[many]) as t:
        while t.running:
            time.sleep(0.01)
    assert [e.args.n for e in t] == list(range(15000)) and not t.summary.total.lost, t.summary.total


@test
def others():
    """funcs, variables, explain, version, recipes, list, report, graph, run"""
    o = Obey()
    found = dp.funcs("obey:add*", pid=o.pid)
    assert [f.name for f in found] == ["add_numbers"] and found[0].outcome == "jump" and found[0].size > 0, found
    assert dp.funcs("add_*", file=OBEY)[0].address < found[0].address
    assert any(f.code for f in dp.funcs("libc:*", pid=o.pid))
    place = dp.variables("add_order", file=shop())
    assert place.file == "shop.c" and [v.name for v in place.variables] == ["qty", "o", "label", "total"], place
    assert "middle" in dp.explain("E-SITE-MIDINSN").explanation
    assert dp.version().version == dp.__version__ and "json" in dp.version().formats
    recipe = [r for r in dp.recipes() if r.name == "function-slow"][0]
    assert [p.value for p in recipe.parameters] == [None, recipe.parameters[1].value] and recipe.lines, recipe
    with dp.trace("p obey:add_numbers", "r obey:add_numbers", pid=o.pid):
        mine, = [p for p in dp.list() if isinstance(p, dp.ProbedProcess) and p.pid == o.pid]
        assert mine.running and mine.probes >= 2 and mine.owner in children(), mine
        assert {p.type for p in dp.list(o.pid)} == {"p", "r"}
    assert not dp.list(o.pid)
    path = os.path.join(DIR, "run.dpt")
    dprobes("record", "-o", path, "p shop:add_order q=%di:s32", "--", shop(), "3", check=0)
    with dp.report(path, max_events=4) as t:
        assert [e.args.q for e in t] == [1, 11, 2, 12]
    with dp.graph("obey:add*", pid=o.pid) as t:
        o("add 1 2")
        t.stop()
        assert [e.is_return for e in t] == [False, True]
    with dp.run("function-callers", pid=o.pid, parameters={"function": "obey:add_numbers"}) as t:
        o("add 1 2")
        t.stop()
        assert sum(table.rows[0].value for table in t.tables) == 1, t.tables
    assert o.end() == 0


@test
def health():
    """verify, clean and doctor: what is in a process, what a killed dprobes has left there, what can be probed"""
    o = Obey()
    same = dp.verify(o.pid)
    assert same and same.bytes > 1000 and not same.differences, same
    t = trace_start("-p", o.pid, "p obey:add_numbers")
    wait_for(lambda: in_place(o.pid), what="probes")
    other = dp.verify(o.pid)
    assert not other and other.differences[0].probe and other.differences[0].file != other.differences[0].memory, other
    fails("E-TARGET-BUSY", lambda: dp.clean(o.pid))
    t.kill()
    t.wait()
    assert dp.Cleaned(o.pid, True, None) in dp.clean() and dp.verify(o.pid)
    assert dp.clean(o.pid) == [dp.Cleaned(o.pid, False, None)]
    parts = {c.part for c in dp.doctor(o.pid)}
    assert {"machine", "process %d" % o.pid} <= parts and {c.part for c in dp.doctor()} < parts, parts
    fails("E-PROC-NONE", lambda: dp.verify(999999999))
    assert o.end() == 0


@alone
def programs():
    """a program that stays in place: inserted, its log and tables read, removed; one that is traced"""
    o = Obey()
    f = program("words.rpn", body("push d, 7; log 1; exit"))
    done = dp.insert(f, pid=o.pid)
    assert (done.module, done.probes, done.processes, done.later, done.refused) == (OBEY, 1, 1, False, None), done
    assert o("add 1 2") == "3"
    wait_for(lambda: dp.log(), what="a record")
    module, = dp.query()
    assert module.module == OBEY and module.type == "user" and module.probes[0].recorded == 1, module
    target, = module.targets
    assert target.pid == o.pid and target.probes[0].address > 0 and target.probes[0].via == "jump", target
    assert module.program is None and "push d" in dp.query(OBEY, extended=True)[0].program
    fails("E-RPN-NOTIN", lambda: dp.query("nothing"))
    record, = dp.log(clear=True)
    assert record.pid == o.pid and record.items == [{"words": [7]}] and record.data, record
    assert len(dp.tables()) == 0 and not dp.log()
    assert dp.remove(file=f) == [OBEY] and not dp.query()
    assert dp.remove() == []  # nothing is left to be removed
    clean_again(o.pid)
    assert o.end() == 0
    c = ("#pragma MODNAME(\"%s\")\n#pragma PROBEPOINT_LOCATION(\"add_order\")\n#pragma PROBEPOINT_HANDLER(\"at\")\n"
         "void at() { count(calls, $label); log($qty); printf(\"%%s\\n\", $label); }\n" % shop())
    got, t = traced(program=program("shop.dpc", c))
    assert got[0].texts == ["retail"] and got[0].fields["$qty"] == 1 and len(got) == 6, got[0]
    assert t.tables["calls"]["retail"] == 3


@test
def asynchronous():
    """the same with asyncio: with a block, without one, cancelled"""
    o = Obey()

    async def all_of_it():
        async with dp.atrace("p obey:add_numbers a=%di", pid=o.pid) as t:
            o("add 5 2")
            async for event in t:
                assert event.args.a == 5
                break
            await t.stop()
        n = 0
        async for event in dp.atrace("p obey:add_numbers", pid=o.pid, duration=0.2):
            n += 1
        assert n == 0 and t.summary.total.hits == 1 and [e async for e in t] == []

        async def forever():
            async with dp.atrace("p obey:add_numbers", pid=o.pid) as t:
                async for event in t:
                    pass

        task = asyncio.ensure_future(forever())
        while not code_differs(o.pid):
            await asyncio.sleep(0.02)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    asyncio.run(all_of_it())
    clean_again(o.pid)
    assert o.end() == 0


@test
def page():
    """doc/python.md: its pieces run one after the other in one session, its commands print what it shows"""
    text = text_of(os.path.join(ROOT, "doc", "python.md"))
    need("gcc", "make")
    server = compiled(DIR, "server", open(os.path.join(ROOT, "examples", "tutorial", "shop.c")).read(), "-g", "-O1",
                      "-w", "-D_GNU_SOURCE", "-pthread")
    p = start([server])
    session, said = {"pid": p.pid}, io.StringIO()
    with redirect_stdout(said):
        for piece in re.findall(r"```python\n(.*?)```", text, re.S):
            exec(compile(piece, "doc/python.md", "exec"), session)
    assert len(said.getvalue().splitlines()) > 10, said.getvalue()
    clean_again(p.pid)
    stop(p)
    bad, count = pages.failures(os.path.join(ROOT, "doc", "python.md"), os.path.dirname(DPROBES))
    assert not bad and count > 2, bad


run()
