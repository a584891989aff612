# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""All JSON that dprobes writes is as doc/schema says: each subcommand on a real target, every line validated."""
import glob
import json
import re
import signal

from obey import *  # noqa: F403

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SCHEMAS = {os.path.basename(path)[:-5]: json.load(open(path))
           for path in glob.glob(os.path.join(ROOT, "doc", "schema", "*.json"))}
EVENTS = ("event", "aggregate", "record")
seen = set()      # (schema, members of the object) of all lines
commands = set()  # that were run with --json


def validators():
    try:
        import jsonschema
    except ImportError:  # another Python than Debian's
        sys.path.append("/usr/lib/python3/dist-packages")
        try:
            import jsonschema
        except ImportError:
            raise Skip("python3-jsonschema is not installed")
    return jsonschema.Draft202012Validator


def valid(text, *names):
    """The objects of a text of lines, each of which is exactly one of these schemas."""
    make, found = validators(), []
    for line in text.splitlines():
        o = json.loads(line, parse_constant=lambda word: 1 / 0)
        good = [name for name in names if not list(make(SCHEMAS[name]).iter_errors(o))]
        assert len(good) == 1, (good, line, [e.message for name in names for e in make(SCHEMAS[name]).iter_errors(o)])
        seen.add((good[0], tuple(sorted(o))))
        found.append(o)
    return found


def run_json(*args, names, status=0):
    """The lines of a command, validated, and its messages. Standard output is that of a program that it starts."""
    out, where = os.path.join(DIR, "out"), args.index("--") if "--" in args else len(args)
    options = ["--json", "-o", out] if "--" in args else ["--json"]
    for _ in range(5):  # on a busy machine a program may begin without waiting for the probes
        r = dprobes(*args[:where], *options, *args[where:], env=dict(os.environ, DPROBES_MESSAGES="json"))
        if "without waiting for the probes" not in r.stderr:
            break
    assert r.returncode == status, (args, r.returncode, r.stdout[-2000:], r.stderr[-2000:])
    commands.add(args[0])
    found = valid(text_of(out) if "--" in args else r.stdout, *names)
    assert found or args[0] == "vars", (args, r.stdout, r.stderr)
    return found, valid(r.stderr, "message")


def shop():
    return compiled(DIR, "shop", open(os.path.join(HERE, "shop.c")).read(), "-g", "-O2", "-w")


def trace(*lines, **kw):
    return run_json("trace", *lines, "--", shop(), "3", names=EVENTS, **kw)


def strict(name, schema):
    """Each object says whether it may have other members than those that are named."""
    for part in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
        strict(name, part)
    if isinstance(schema, dict) and schema.get("type") == "object":
        assert "additionalProperties" in schema, (name, schema)
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), (name, schema)


@test
def schemas():
    """the schemas are valid, strict, and named in the page"""
    page = text_of(os.path.join(ROOT, "doc", "output.md"))
    for name, schema in SCHEMAS.items():
        validators().check_schema(schema)
        assert "`%s.json`" % name in page and schema["$id"].endswith("/%s.json" % name), name
        strict(name, schema)


@test
def events():
    """events: arguments of all kinds, call chains, returns, what cannot be read, shortened records"""
    got, told = trace("p:plain shop:add_order q=%di:s32 name=+8(%si):u64 text=+0(%dx):string bt=$backtrace:symbol[8]",
                      "r shop:add_order $retval:s32", "p shop:may_fail bad=+0(%ax):string arr=+0(%di):u8[3]",
                      "p shop:nothing %di")
    names = {e["event"]: e for e in got}
    assert set(names) == {"plain", "add_order", "may_fail", "nothing"} and names["may_fail"]["args"]["bad"] is None
    assert isinstance(names["plain"]["args"]["bt"], list) and "caller" in names["add_order"]
    assert all(e["pid"] == e["tid"] for e in got) and "arg1" in names["nothing"]["args"]
    summary, = (m["summary"] for m in told if "summary" in m)
    assert {"ready": True} in told and summary["total"]["hits"] == len(got) == summary["total"]["recorded"], told
    assert [row["probe"] for row in summary["probes"]] == ["plain", "<-add_order", "may_fail", "nothing"], summary
    got, told = trace("p add_order $qty $o $o->price $o->color $label *$o if $total > 1e3",
                      "r do_query $retval $duration",
                      "p nothing { log(1); printf(\"%d\\n\", $a); }", "p may_fail { log_str((char *)8); }")
    bad = [e for e in got if e["event"] == "may_fail"][0]["args"]
    assert bad == {"(char *)8": None}, bad
    assert any(isinstance(v, dict) for e in got for v in e["args"].values()), got


@test
def budgets():
    """events that were taken out to keep a budget"""
    p = Live(target("phases"))
    p("hot")
    got, told = run_json("trace", "-p", str(p.pid), "--budget", "0.1%", "--duration", "1.5", "p exe:busy if %di == 1",
                         names=["event", "taken-out"])
    assert got[-1]["taken_out"] == "busy" and got[-1]["budget"] == 0.1, got
    assert any("busy: taken out" in m.get("note", "") for m in told), told
    assert p.end() == 0


@test
def tables():
    """tables and values of all kinds, with and without keys; more keys than wanted, or than there is room"""
    keyed = ["begin { KEYS(8); }", "p add_order count() by $label", "p add_order sum($qty) by $label, $qty top 2",
             "p nothing avg($a) by $a", "p nothing min($a) by $a", "r do_query max($duration) by $comm",
             "p nothing { put(seen, $a, $a); }", "p make hist($n) by $n",
             "p make lhist($n, 0, 1000, 100) by $backtrace[3]", "p make quantiles($n) by $n"]
    single = ["p add_order count()", "p add_order sum($qty)", "p nothing avg($a)", "p nothing min($a)",
              "r do_query max($duration)", "p nothing { put(seen, $a); }", "p make hist($n)",
              "p make lhist($n, 200, 600, 100)", "p make quantiles($n)", "p nothing min($a) if $a > 100"]
    got = trace(*keyed)[0]
    kinds = {"count", "sum", "avg", "min", "max", "last", "hist", "lhist", "quantiles"}
    assert {o["kind"] for o in got} == kinds and max(o["left_out"] for o in got) > 0, got
    got = trace(*single)[0]
    assert {o["kind"] for o in got} == kinds and any(o.get("value", 0) is None for o in got), got
    got = trace("begin { KEYS(1); }", "p make count() by $n")[0]
    assert any(o.get("no_room") for o in got), got


@test
def programs():
    """records of probe programs, their stack traces, the log of the driver, its variables; handlers in C"""
    clean()
    try:
        o = Obey()
        code = ("sx caught; push d, 8; push d, 16; log mrf; exit\n"
                "caught: ros 3; log st; push d, 1; push d, 0; div; exit")
        f = program("bad.rpn", body(code, header="logmax = 50\nex_logmax = 200\nid = 5\njmpmax = 1"))
        done, = run_json("insert", f, "-p", o.pid, names=("insert",))[0]
        assert done["processes"] == done["probes"] == 1 and not done["later"] and done["refused"] is None, done
        assert o("add 1 2") == "3"
        wait_for(lambda: len(json_lines(log())) == 2, what="record and trace")
        assert {"traces" in r for r in valid(log(), "record")} == {True, False}
        clean()
        f = program("words.rpn", body("inc lv, 0; push d, 7; log 1; exit"))
        dprobes("insert", f, "--json", "-p", o.pid, check=0)
        assert o("add 1 2") == "3"
        wait_for(lambda: len(json_lines(log())) == 1, what="a record")
        assert "words" in valid(log(), "record")[0]["items"][0]
        run_json("vars", names=("aggregate",))
        module, = run_json("query", "--extended", names=("query",))[0]
        assert module["probes"][0]["recorded"] == 1 and "push d" in module["program"], module
        assert module["targets"][0]["variables"][0] == {"index": 0, "value": 1}, module["targets"]
        assert run_json("remove", "--all", names=("remove",))[0] == [{"module": OBEY, "removed": True}]
        built, = run_json("build", f, "-o", f + ".ppdf", names=("build",))[0]
        assert built["module"] == OBEY and built["build_id"] and os.path.exists(built["object"]), built
        done, = run_json("insert", f, names=("insert",))[0]
        assert done["processes"] == 1 and done["later"] and not done["waits"], done
        assert run_json("remove", f, names=("remove",))[0][0]["module"] == OBEY
        done, = run_json("insert", program("lib.rpn", body("exit", "libnowhere.so", offset="x")), "-p", o.pid,
                         names=("insert",))[0]
        assert done["waits"] and not done["processes"], done
        assert o.end() == 0
    finally:
        clean()
    c = ("#pragma MODNAME(\"%s\")\n#pragma PROBEPOINT_LOCATION(\"add_order\")\n#pragma PROBEPOINT_HANDLER(\"at\")\n"
         "void at() { count(calls, $label); log($qty); log(*$o); printf(\"%%s\\n\", $label); }\n" % shop())
    path = program("shop.dpc", c)
    got = run_json("trace", "-f", path, "--", shop(), "3", names=EVENTS)[0]
    assert {"data" in o or "aggregate" in o for o in got} == {True} and any("fields" in o for o in got), got


@test
def others():
    """funcs, list, explain, run, verify, vars, doctor, coverage, hooks, --version: each of their forms"""
    o = Obey()
    for args in ((OBEY,), ("-p", o.pid, "obey:*"), ("-p", o.pid, "libc:mem*"), ("s open*",), (OBEY, "s open*"),
                 ("-p", o.pid, "s libc:*")):
        funcs = run_json("funcs", *args, names=("funcs",))[0] if args != ("s open*",) else []
        assert len({tuple(sorted(f)) for f in funcs if f.get("outcome", "jump") == "jump"}) <= 1, args
    assert any("code" in f for f in run_json("funcs", "-p", o.pid, "libc:*", names=("funcs",))[0])
    t = trace_start("--json", "-p", o.pid, "p obey:add_numbers", "r obey:add_numbers")
    wait_for(lambda: in_place(o.pid), what="probes")
    row = [p for p in run_json("list", names=("list",))[0] if p.get("pid") == o.pid][0]
    assert row["owner"] == t.pid and row["running"] and row["age"] >= 0 and "add_numbers" in row["command"], row
    rows = run_json("list", "-p", o.pid, names=("list",))[0]
    assert {p["type"] for p in rows} == {"p", "r"} and {p["owner"] for p in rows} == {t.pid}, rows
    got, told = run_json("verify", "-p", o.pid, names=("verify",), status=1)
    assert got[0]["differences"][0]["probe"] and got[0]["differing"] and told[0]["error"]["code"] == "E-CMD-VERIFY"
    assert stop(t, signal.SIGINT) == 0
    assert run_json("verify", "-p", o.pid, names=("verify",))[0][0]["differing"] == 0
    assert len(run_json("explain", names=("explain",))[0]) > 200
    assert run_json("explain", "E-SITE-MIDINSN", names=("explain",))[0][0]["explanation"]
    recipes = run_json("run", names=("recipe",))[0]
    assert {"optional": True} in [{"optional": line["optional"]} for r in recipes for line in r["lines"]], recipes
    assert any(line["line"] for line in run_json("lines", shop(), "main", names=("line",))[0])
    place, = run_json("vars", shop(), "add_order", names=("variables",))[0]
    assert place["variables"][0] == {"name": "qty", "type": "int", "where": "rdi"} and place["line"], place
    r = dprobes("doctor", "-p", o.pid, "--json")
    assert validators()(SCHEMAS["doctor"]).is_valid(json.loads(r.stdout)), r.stdout  # one object, of many lines
    commands.add("doctor")
    run_json("coverage", OBEY, names=("coverage",))
    run_json("--version", names=("version",))
    assert o.end() == 0


@test
def cleaned():
    """clean: a process without probes, one with those of a dprobes that was killed, one with those of one that runs"""
    o = Obey()
    assert run_json("clean", "-p", o.pid, names=("clean",))[0] == [
        {"processes": [{"pid": o.pid, "removed": False, "owner": None}], "released": 0, "recordings": 0}]
    t = trace_start("--json", "-p", o.pid, "p obey:add_numbers")
    wait_for(lambda: in_place(o.pid), what="probes")
    got, told = run_json("clean", "-p", o.pid, names=("clean",), status=1)
    assert not got[0]["processes"] and told[0]["error"]["code"] == "E-TARGET-BUSY", (got, told)
    t.kill()
    t.wait()
    got = run_json("clean", "--all", names=("clean",))[0][0]
    assert {"pid": o.pid, "removed": True, "owner": None} in got["processes"], got
    assert o.end() == 0


@test
def hooks():
    """hooks of a process"""
    top = os.path.join(BUILD, "examples", "hooks")
    if not os.path.exists(os.path.join(top, "server")):
        raise Skip("the example is not built")
    p = Live([os.path.join(top, "server"), os.path.join(top, "audit.so")])
    assert any(h["exits"] for h in run_json("hooks", "-p", p.pid, names=("hook",))[0])
    p.end()


@test
def showing():
    """graph, watch, record and report"""
    got = run_json("graph", "shop:a*", "shop:d*", "--", shop(), "3", names=("event",))[0]
    assert {e["return"] for e in got} == {True, False}
    path = os.path.join(DIR, "run.dpt")
    dprobes("record", "-o", path, "p shop:add_order q=%di:s32", "--", shop(), "3", check=0)
    about, = run_json("report", "--info", path, names=("recording",))[0]
    assert about["complete"] and about["summary"]["total"]["recorded"] == 6 and about["host"], about
    assert [e["symbol"] for e in about["events"]] == ["add_order"] and about["processes"][0]["comm"] == "shop", about
    assert any(f["path"] == shop() and f["build_id"] for f in about["processes"][0]["files"]), about["processes"]
    with open(path, "rb") as f:
        whole = f.read()
    with open(path + ".cut", "wb") as f:
        f.write(whole[:-100])
    about, = run_json("report", "--info", path + ".cut", names=("recording",))[0]
    assert not about["complete"] and about["summary"] is None, about
    got = run_json("report", path, names=("event",))[0]
    assert len(got) == 6 and all(e["pid"] == e["tid"] for e in got), got
    got = run_json("run", "function-callers", "function=shop:add_order", "--", shop(), "3", names=EVENTS)[0]
    assert got, got
    p = start([target("busy"), "calls"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "ready\n"
    for args in ((), ("r outer", "p leaf hist($arg1)", "p idle count by $caller")):
        got = run_json("top", "-p", p.pid, "--count", 2, "--interval", 0.1, *args, names=("top",))[0]
        assert len(got) == 2 and got[1]["rows"] and len(got[1].get("tables", ())) == len(args[1:]), got
        valid("\n".join(json.dumps(table) for table in got[1].get("tables", ())), "aggregate")
    r = dprobes("top", "-p", p.pid, "--sample", 99, "--json", "--count", 1, "--interval", 0.1)
    assert "E-SAMPLE-PERF" in r.stderr or valid(r.stdout, "top")[0]["kind"] == "samples", r
    stop(p)
    need_registers()
    got = run_json("watch", "sold", "--", shop(), "3", names=("event",))[0]
    assert len(got) == 6 and set(got[0]["args"]) == {"old", "new"}, got


@test
def messages():
    """messages on a descriptor of their own; one that is not open, and other words, are refused"""
    end, write = os.pipe()
    r = dprobes("explain", "E-NOTHING", env=dict(os.environ, DPROBES_MESSAGES="json:%d" % write), pass_fds=[write])
    os.close(write)
    with os.fdopen(end) as f:
        assert r.returncode == 1 and not r.stderr and valid(f.read(), "message")[0]["error"]["code"] == "E-CMD-CODE", r
    for word in ("json:999", "json:", "json:2", "xml"):
        r = dprobes("explain", env=dict(os.environ, DPROBES_MESSAGES=word))
        assert r.returncode == 2 and "E-CMD-VALUE" in r.stderr and word in r.stderr, r


@test
def complete():
    """every subcommand that has --json was run here, and every schema and message was met"""
    names = re.findall(r"^  ([a-z]+) ", dprobes("help", check=0).stdout.split("\n\n")[1], re.M)
    have = {name for name in names if "--json" in dprobes("help", name, check=0).stdout}
    assert have - commands <= {"apply", "watch"}, have - commands
    met = {name for name, _ in seen} | {"doctor"}
    assert met | {"api"} == set(SCHEMAS), set(SCHEMAS) - met  # test_api.py has that one
    assert {keys for name, keys in seen if name == "message"} == {("error",), ("note",), ("ready",), ("summary",)}


run()
