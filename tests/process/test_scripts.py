# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The scripts of examples/scripts on real programs that were compiled with -O2 -g: redis, sqlite, Debian's Python."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from real import Redis  # noqa: E402
import sources  # noqa: E402

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "scripts")


def tables(text):
    """Aggregates as they are shown: {(kind, name): {key: value or its words}}; the key "" has what stands in the
    head."""
    found, rows = {}, {}
    for line in text.splitlines():
        m = re.match(r"  (count|sum|min|max|hist|lhist|last) +(\w+) *(.*)$", line)
        if m:
            rows = found.setdefault((m.group(1), m.group(2)), {})
            rows[""] = m.group(3)
        elif re.match(r"    \S.* \|#*$", line) and ".." not in line:
            key, n = line.split("|")[0].strip().rsplit(None, 1)
            rows[key] = int(n)
        elif re.match(r"    \S", line):
            m = re.match(r"    (.*\S) +(-?\d+)(, \d+ values.*)?$", line)
            rows[m.group(1) if m else line.strip()] = int(m.group(2)) if m else True
    return found


class Traced:
    """`dprobes trace -f` of a script in a running program, while the block runs."""

    def __init__(self, script, program, pid, *more, env=None):
        os.environ.update(env or {})
        self.t = trace_start("-f", os.path.join(SCRIPTS, script), "-D", 'PROGRAM="%s"' % program, "-p", pid, *more)
        wait_for(lambda: "inserted" in text_of(self.t.err_path) or self.t.poll() is not None, what="the probes")
        assert self.t.poll() is None, text_of(self.t.err_path)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        stop(self.t, signal.SIGINT)
        self.text = text_of(self.t.out_path)
        self.tables = tables(self.text)
        if not why[0]:
            assert self.t.returncode == 0, text_of(self.t.err_path)


@test
def redis():
    """redis: commands, latencies, who touches a key, misses, who writes a variable"""
    server = sources.redis_server()
    r = Redis(server)

    def traced(script, *more):
        return Traced(script, server, r.p.pid, *more)

    with traced("redis-commands.dpc") as t:
        for i in range(20):
            r("SET", "k%d" % i, i)
            r("GET", "k%d" % (i % 3))
        r("MSET", "a", 1, "b", 2)
    commands = t.tables[("count", "commands")]
    assert commands == {"": "", "set": 20, "get": 20, "mset": 1}, t.text
    assert t.tables[("max", "most_arguments")]["mset"] == 5 and sum(
        n for n in t.tables[("count", "clients")].values() if n) == 41, t.text
    with traced("redis-latency.dpc") as t:
        for i in range(10):
            r("LPUSH", "list", *range(1000))
        r("EVAL", "return redis.call('LLEN', KEYS[1])", 1, "list")
    shown = t.text[t.text.index("hist  nanoseconds"):]
    assert re.search(r"\n    lpush\n", shown) and re.search(r"\n    eval\n", shown) and "llen" not in shown, t.text
    assert sum(int(n) for n in re.findall(r" (\d+) \|", shown)) == 11, t.text
    with traced("redis-keys.dpc", "-D", 'KEY="user:"') as t:
        r("SET", "user:7", "x")
        r("GET", "other")
        r("INCRBY", "user:9", 5)
    assert [" ".join(x) for x in re.findall(r"client \d+: (\w+) (user:\d)", t.text)] == \
            ["set user:7", "incrby user:9"], t.text
    with traced("redis-misses.dpc") as t:
        for i in range(5):
            r("GET", "nothing")
        r("GET", "user:7")
        r("EXISTS", "nowhere")
    assert t.tables[("count", "missing")] == {"": "", "nothing": 5, "nowhere": 1}, t.text
    assert int(t.tables[("count", "lookups")][""]) >= 7, t.text
    with traced("redis-dirty.dpc") as t:
        for i in range(7):
            r("INCR", "n")
        r("SADD", "set", *range(50))
        r("SAVE")
    writers, steps = t.tables[("count", "writers")], t.tables[("sum", "changes")]
    by = {name.split("+")[0]: (n, steps[name]) for name, n in writers.items() if name}
    assert by["incrDecrCommand"] == (7, 7) and by["saddCommand"] == (1, 50) and by["rdbSave"][1] < 0, t.text
    assert re.search(r" text=server.dirty: \d+ -> \d+ backtrace=\{saddCommand\+", t.text), t.text
    r.end()


@test
def sqlite():
    """sqlite: statements, what they take and give, bytes by file"""
    shell = sources.sqlite_shell()
    where = tempfile.mkdtemp(prefix="dp-sqlite-")
    p = start([shell, "-batch", "data.db"], cwd=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(sql):
        p.stdin.write(sql + "\nselect 'done';\n")
        p.stdin.flush()
        lines = iter(p.stdout.readline, "done\n")
        return [line.strip() for line in lines]

    def traced(script, *more):
        return Traced(script, shell, p.pid, *more)

    with traced("sqlite-statements.dpc") as t:
        ask("create table t (a integer primary key, b text);")
        ask("insert into t select value, 'text ' || value from generate_series(1, 500);")
    assert "create table t (a integer primary key, b text);" in t.text and "generate_series(1, 500)" in t.text, t.text
    with traced("sqlite-steps.dpc") as t:
        assert len(ask("select a from t where a <= 50;")) == 50
    results = t.tables[("count", "results")]
    assert results["100"] == 51 and results["101"] == 2, t.text
    assert "select a from t where a <= 50;" in t.text, t.text
    with traced("sqlite-files.dpc") as t:
        ask("update t set b = b || '!' where a % 2;")
    written = t.tables[("sum", "written")]
    assert any(name.endswith("data.db") and n >= 4096 for name, n in written.items() if name), t.text
    assert any(name.endswith("data.db-journal") for name in written), t.text
    with traced("malloc-callers.dpc", "--json") as t:
        ask("select count(*) from t where b like '%9%' order by a;")
    found = {a["aggregate"]: a["entries"] for a in json_lines(t.text)}
    chains = [[f.split("+")[0] for f in e["key"][0]] for e in found["bytes"]]
    assert chains and all(c[0] in ("malloc", "__libc_malloc") for c in chains), t.text
    assert any("sqlite3_step" in c and c[-1] == "_start" and "main" in c for c in chains), t.text
    assert sum(e["values"] for e in found["bytes"]) == sum(e["value"] for e in found["calls"]) >= 2, t.text
    assert "sqlite3MemMalloc" in {e["key"][0].split("+")[0] for e in found["calls"]}, t.text
    p.stdin.close()
    assert p.wait(60) == 0


WORK = """import gc, sys
class Fault(Exception): pass
def key_of(x): return -x
def fail():
    try: raise Fault("no")
    except Fault: pass
print("ready", flush=True)
for line in sys.stdin:
    sorted(range(100), key=key_of)
    for i in range(30): fail()
    for i in range(3): gc.collect(2)
    gc.collect(0)
    print("done", flush=True)
"""


@test
def interpreted():
    """Python: collections, exceptions, functions called from C; debug symbols apart from the program"""
    exe, home, debug = sources.python()
    p = start([exe, "-c", WORK], env=dict(os.environ, PYTHONHOME=home), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
              text=True)
    assert p.stdout.readline() == "ready\n"

    def turn():
        p.stdin.write("x\n")
        p.stdin.flush()
        assert p.stdout.readline() == "done\n"

    def traced(script):
        return Traced(script, exe, p.pid, env={"DPROBES_DEBUG_PATH": debug})

    with traced("python-gc.dpc") as t:
        turn()
    collections = t.tables[("count", "collections")]
    assert collections["2"] == 3 and collections["0"] >= 1, t.text
    assert t.tables[("sum", "found")], t.text
    with traced("python-exceptions.dpc") as t:
        turn()
    assert t.tables[("count", "raised")]["Fault"] == 30, t.text
    with traced("python-calls.dpc") as t:
        turn()
    assert t.tables[("count", "calls")]["key_of"] == 100, t.text
    p.stdin.close()
    assert p.wait(60) == 0


run()
