# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""python3 with every function of the interpreter and of libc probed while it computes and matches text."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

SCRIPT = r"""
import hashlib, json, re, sys, time
def once(i):
    text = " ".join("k%d=%d;" % (j, j * j) for j in range(200))
    pairs = re.findall(r"k(\d+)=(\d+);", text)
    assert len(pairs) == 200 and all(int(a) ** 2 == int(b) for a, b in pairs)
    assert re.sub(r"(\w)(\d+)=", lambda m: m.group(2) + m.group(1), "a1=b22=") == "1a22b"
    assert re.fullmatch(r"(a|b)*?c(?=d)(?:d+)$", "ababcddd")
    assert sum(x * x for x in range(500)) == 41541750
    assert sorted((j * 7919) % 1009 for j in range(1009)) == list(range(1009))
    assert json.loads(json.dumps({"a": [1, 2.5, None, "\u00e9"]})) == {"a": [1, 2.5, None, "\u00e9"]}
    assert pow(3, 1000, 10**9 + 7) == 56888193 and 2**200 // 3**50 == 2238393297946874000179418290327143433
    assert abs(sum(1 / (k * k) for k in range(1, 2000)) - 1.644433941827396) < 1e-12
    d = {str(k): k for k in range(300)}
    assert all(d.pop(str(k)) == k for k in range(300)) and not d
    try:
        [][i]
    except IndexError as e:
        assert "range" in str(e)
    return hashlib.md5(text.encode()).hexdigest()
rounds = int(sys.argv[1])
first, n, end = once(0), 0, time.time() + 600
print("ready", flush=True)
while n < rounds or (rounds == 0 and time.time() < end):
    assert once(n) == first, n
    n += 1
    if rounds == 0 and n % 20 == 0:
        print(n, flush=True)
print("done", n, first, flush=True)
"""


def interpreter():
    """The interpreter itself, not a script that looks for it, and the name of the module that holds it."""
    exe, = need("/usr/bin/python3") if os.path.exists("/usr/bin/python3") else need("python3")
    r = subprocess.run([exe, "-c", "import sys, re; print(sys.executable); print(*[l.split()[-1] for l in "
                        "open('/proc/self/maps') if re.search('libpython', l)])"], stdout=subprocess.PIPE, text=True)
    path, libs = r.stdout.splitlines()
    return os.path.realpath(path), os.path.basename((libs.split() or [os.path.realpath(path)])[0])


def script(where):
    path = os.path.join(where, "script.py")
    with open(path, "w") as f:
        f.write(SCRIPT)
    return path


def events(module):
    return ["p %s:* %s" % (module, NEVER), "r %s:* %s" % (module, NEVER_R), "p libc:* " + NEVER, "r libc:* " + NEVER_R]


@test
def attached():
    """every function, entry and exit, put in and taken out several times"""
    exe, module = interpreter()
    with tempfile.TemporaryDirectory() as d:
        out = open(os.path.join(d, "out"), "w")
        p = start([exe, script(d), "0"], stdout=out, stderr=out)
        wait_for(lambda: "ready" in text_of(out.name), what="python")
        for _ in range(4):
            t = trace_start("-o", "/dev/null", "-p", p.pid, *events(module))
            armed(t, p)
            lines = text_of(out.name).count("\n")
            wait_for(lambda: text_of(out.name).count("\n") >= lines + 2 or p.poll() is not None, 40, "python to go on")
            err = finish(t, p)
            total = rows_of(err)["total"]
            assert total["hits"] > 100000 and not total["missed"] and not total["lost"], total
            forget(t)
        print("# figure: python3, %d probes, %d hits in the last round" % (probes_of(err), total["hits"]))
        assert "rror" not in text_of(out.name), text_of(out.name)
        p.kill()
        p.wait()


@test
def started():
    """from start to end: same results, same status, counts of calls"""
    exe, module = interpreter()
    with tempfile.TemporaryDirectory() as d:
        argv = [exe, script(d), "15"]
        plain = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
        assert plain.returncode == 0 and "done 15" in plain.stdout
        r = dprobes("trace", "-o", os.path.join(d, "trace.txt"), *events(module), "--", *argv)
        assert r.returncode == 0 and r.stdout == plain.stdout and "ended with" not in r.stderr, \
                (r.returncode, r.stdout, r.stderr[-2000:])
        rows = rows_of(r.stderr)
        total = rows["total"]
        assert total["hits"] > 1000000 and total["hits"] == total["filtered"], total
        # The evaluation loop jumps through tables all the time, and returns as often as it is entered.
        returns = {name[2:]: row["hits"] for name, row in rows.items() if name.startswith("<-")}
        more = {name: (n, rows[name]["hits"]) for name, n in returns.items()
                if re.match("_?Py", name) and name in rows and n > rows[name]["hits"]}
        assert returns["_PyEval_EvalFrameDefault"] > 1000 and not more, more
        print("# figure: python3 from its start, %d probes, %d hits" % (probes_of(r.stderr), total["hits"]))


@test
def default_events():
    """trace -o FILE -- python3 script.py"""
    exe, _ = interpreter()
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "trace.txt")
        r = dprobes("trace", "-o", out, "--", exe, script(d), "1")
        assert r.returncode == 0 and "done 1" in r.stdout, (r.returncode, r.stdout, r.stderr)
        assert "script.py" in text_of(out), text_of(out)[-2000:]
        bad = os.path.join(d, "bad.py")
        with open(bad, "w") as f:
            f.write("import sys; sys.exit(7)\n")
        r = dprobes("trace", "-o", out, "--", exe, bad, check=7)
        assert "ended with status 7" in r.stderr, r.stderr


@test
def instructions_of_it():
    """all instructions of the evaluation loop, the regex engine, numbers and dictionaries"""
    exe, module = interpreter()
    with tempfile.TemporaryDirectory() as d:
        out = open(os.path.join(d, "out"), "w")
        p = start([exe, script(d), "0"], stdout=out, stderr=out)
        wait_for(lambda: "ready" in text_of(out.name), what="python")
        lines = instructions(module, module_path(p.pid, module), [
            "_PyEval_Eval*", "sre_*", "_sre_*", "*dict_*", "*Dict_*", "long_*", "*Long_*", "*list_*",
            "*unicode_*", "*Unicode_*",
            "gc_*", "*_dealloc", "*object_*", "*Object_*"])
        t = trace_start("-o", "/dev/null", "-p", p.pid, "-f", event_file(d, lines))
        armed(t, p)
        have = text_of(out.name).count("\n")
        wait_for(lambda: text_of(out.name).count("\n") > have or p.poll() is not None, 60, "python to go on")
        err = finish(t, p)
        total = rows_of(err)["total"]
        assert probes_of(err) == len(lines) and total["hits"] > 100000 and not total["missed"], (len(lines), total)
        print("# figure: python3, %d instructions probed at once, %d hits" % (len(lines), total["hits"]))
        wait_for(lambda: text_of(out.name).count("\n") > have + 2 or p.poll() is not None, 40, "python to go on")
        clean(p)
        assert "rror" not in text_of(out.name), text_of(out.name)
        p.kill()
        p.wait()
        forget(t)


run()
