# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Probes in small targets of every kind: right events, right counts, bytes restored."""
import csv
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from real import rows_of  # noqa: E402
from tap import *  # noqa: E402,F403


def ready(argv):
    p = start(argv, stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline()
    assert line.startswith("ready"), line
    return p


def trace_and_check(argv, min_events=50):
    """Attach for a while, compare each record with what the program must have passed."""
    p = ready(argv)
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "1",
                "p:in work n=%di:s64 name=+0(%si):string id=+0($arg3):u32 kind=+4($arg3):u16 small=%cx:s32",
                "r:out work r=$retval:s64", check=0)
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid)
    events = json_lines(r.stdout)
    ins = [e for e in events if e["event"] == "in"]
    outs = [e for e in events if e["event"] == "out"]
    assert len(ins) >= min_events and len(outs) >= min_events, (len(ins), len(outs), r.stderr)
    for e in ins:
        a = e["args"]
        assert a["name"] == 'hello "world"' and a["id"] == 42 and a["kind"] == 2, a
        assert a["small"] == a["n"] % 100, a
    want = {}
    for e in ins:
        n = e["args"]["n"]
        want[n * 3 + n % 100 + (13 if n & 1 else 0) + 77] = True
    odd = [e for e in outs if e["args"]["r"] not in want]
    assert len(odd) <= 2 * 8, odd[:3]  # calls that were under way when probes came or went
    stamps = [e["ts"] for e in events]
    assert stamps == sorted(stamps)
    assert stop(p) == 0
    assert " bad 0" in p.stdout.read()
    return r


@test
def pie():
    """position-independent executable: arguments, strings, return values"""
    trace_and_check([target("simple"), "2"])


@test
def nopie():
    """executable at a fixed low address"""
    trace_and_check([target("simple-nopie"), "2"])


@test
def static_glibc():
    """static glibc executable"""
    trace_and_check([target("simple-static"), "2"])


@test
def musl():
    """musl, dynamic and static"""
    if not os.path.exists(target("simple-musl")):
        raise Skip("musl-gcc is not installed")
    trace_and_check([target("simple-musl"), "2"])
    trace_and_check([target("simple-musl-static"), "2"])


@test
def rust():
    """Rust program"""
    if not os.path.exists(target("rustwork")):
        raise Skip("rustc is not installed")
    p = ready([target("rustwork"), "8"])
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "1", "p rust_step n=%di", "r rust_step v=$retval",
                check=0)
    events = json_lines(r.stdout)
    assert len(events) > 100
    assert not code_differs(p.pid)
    assert p.wait(60) == 0
    assert "bad" not in p.stdout.read()


@test
def go():
    """Go program: entries and exits of functions on goroutine stacks"""
    if not os.path.exists(target("gowork")):
        raise Skip("go is not installed")
    p = ready([target("gowork")])
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "1", "p:fib main.Fib n=%ax", "r:fibr main.Fib v=$retval",
                "p:deep main.Deep", check=0)
    events = json_lines(r.stdout)
    assert len([e for e in events if e["event"] == "fib"]) > 100, r.stderr
    assert {e["args"]["v"] for e in events if e["event"] == "fibr"} & {0, 1, 144, "0x90"}
    assert not code_differs(p.pid)
    assert stop(p) == 0
    assert "bad 0" in p.stdout.read()


@test
def exact_counts():
    """every call of a started program is counted, none twice"""
    r = dprobes("trace", "--json", "-o", "/dev/null", "p work", "p:never work if $arg1:s64 < 0", "r:back work",
                "p:odd work n=%di if $arg1 & 1", "--", target("simple"), "4", "50000", check=0)
    rows = rows_of(r.stderr)
    assert "calls 200000 bad 0" in r.stdout + r.stderr, r.stderr
    for name, recorded in (("work", 200000), ("never", 0), ("back", 200000), ("odd", 100000)):
        row = next((v for k, v in rows.items() if k.split(":")[-1].split("/")[-1] in (name, "p_" + name + "_0")), None)
        assert row, (name, rows, r.stderr)
        assert row["hits"] == 200000, (name, row)
        assert row["recorded"] + row["lost"] == recorded, (name, row)
        assert row["hits"] == row["recorded"] + row["filtered"] + row["missed"] + row["lost"], row


@test
def filters():
    """filters on arguments, strings and memory"""
    p = ready([target("simple"), "1"])
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "1",
                'p:a work n=%di:s64 if $arg1 % 1000 == 7', 'p:b work s=+0(%si):string if s == "nothing"',
                'p:c work s=+0(%si):string n=%di:s64 if s == "hello \\"world\\"" && n % 500 == 3', check=0)
    ev = json_lines(r.stdout)
    assert ev and all(e["args"]["n"] % 1000 == 7 for e in ev if e["event"] == "a")
    assert not [e for e in ev if e["event"] == "b"]
    assert [e for e in ev if e["event"] == "c"] and all(e["args"]["n"] % 500 == 3 for e in ev if e["event"] == "c")
    stop(p)


@test
def bad_memory():
    """arguments that cannot be read are marked, and nobody is harmed"""
    p = ready([target("simple"), "1"])
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "1", "p work bad=+0(%di):u64 s=+8(%di):string n=%di:s64",
                check=0)
    ev = json_lines(r.stdout)
    assert len(ev) > 50
    assert all(e["args"]["bad"] is None for e in ev), ev[0]
    assert stop(p) == 0


@test
def text_layout():
    """text output in the layout of the event tracer"""
    p = ready([target("simple"), "1"])
    r = dprobes("trace", "-p", p.pid, "--duration", "0.5", "p:here outer+0 n=%di:s64", "r outer", check=0)
    assert "TASK-PID" in r.stdout and "TIMESTAMP" in r.stdout
    assert re.search(r"simple-%d\S* +\[\d{3}\] +\d+\.\d{6}: here: @outer\+0 n=\d+" % p.pid, r.stdout) or \
        re.search(r"simple-\d+ +\[\d{3}\] +\d+\.\d{6}: here: @outer\+0 n=\d+", r.stdout), r.stdout[:500]
    assert "<-outer" in r.stdout
    stop(p)


@test
def csv_output():
    """--format csv: heads, a column for each name of an argument; an unknown format is refused with those that there
    are"""
    p = ready([target("simple"), "1"])
    r = dprobes("trace", "--format", "csv", "-p", p.pid, "--duration", "0.5", "p:here outer n=%di:s64",
                "r:back outer v=$retval:s64",
                check=0)
    rows = list(csv.DictReader(r.stdout.splitlines()))
    assert list(rows[0])[-2:] == ["n", "v"] and {row["event"] for row in rows} == {"here", "back"}, r.stdout[:500]
    for row in rows:
        here = row["event"] == "here"
        assert row["n"].lstrip("-").isdigit() == here and row["v"].lstrip("-").isdigit() == (not here), row
        assert row["symbol"] == "outer" and bool(row["caller"]) == (not here) and float(row["time"]) > 0 \
                and row["tid"].isdigit(), row
    r = dprobes("trace", "--format", "xml", "-p", p.pid, "p outer", check=2)
    assert "'xml' is no output format" in r.stderr and "text, json, csv" in r.stderr, r.stderr
    stop(p)


@test
def short_lives():
    """threads that are over before anybody looks at them go by their program's name"""
    r = dprobes("trace", "--json", "p work", "--", target("simple"), 3, 20, check=0)
    tasks = [e["task"] for e in json_lines(r.stdout)]
    assert tasks == ["simple"] * 60, tasks


@test
def started_by_a_link():
    """a program that was started by a link goes by the link's name in lists and suggestions; places accept both names,
    and what is in front of a `-`"""
    # In the program's file system: a way to another one is known to the kernel only when the links' times are settled.
    folder = tempfile.TemporaryDirectory(dir=TARGETS)
    link = os.path.join(folder.name, "called")
    os.symlink(target("simple"), link)
    p = ready([link, "1"])
    listed = dprobes("funcs", "-p", p.pid, "work", check=0).stdout
    assert re.search(r" called:work$", listed, re.M), listed
    for name in ("called", "simple"):
        assert re.search(r" %s:work$" % name, dprobes("funcs", "-p", p.pid, name + ":work", check=0).stdout, re.M)
        r = dprobes("trace", "--json", "--duration", "0.3", "-p", p.pid, "p %s:work" % name, check=0)
        assert {e["task"] for e in json_lines(r.stdout)} == {"called"}, r.stderr
    assert stop(p) == 0
    os.symlink(target("simple"), link + "-server")
    p = ready([link + "-server", "1"])
    for line in "p called:work", "p called:work count":
        said = dprobes("trace", "--duration", "0.3", "-p", p.pid, line, check=0).stderr
        assert re.search(r"^work +jump +[1-9]", said, re.M), said
    for line in "p called-servr:work", "p called-servr:work count":
        said = dprobes("trace", "-p", p.pid, line, check=1).stderr
        assert "did you mean called-server?" in said, said
    assert stop(p) == 0
    strip, = need("strip")
    subprocess.run([strip, "-o", link + "-file", target("brief")], check=True)
    os.symlink("called-file", link + "-bare")
    r = dprobes("trace", "--json", "p plugin_work chain=$backtrace", "--", link + "-bare", check=0,
                env=dict(os.environ, LD_LIBRARY_PATH=TARGETS))
    assert re.fullmatch(r"called-bare\+0x[0-9a-f]+", json_lines(r.stdout)[0]["args"]["chain"][1]), r.stdout
    folder.cleanup()


@test
def summary():
    """probes that were never hit are counted, not listed; a share has two digits at most; COST~ goes by what the
    program of a probe does"""
    p = ready([target("simple"), "1"])
    said = dprobes("trace", "-o", "/dev/null", "--duration", "0.4", "-p", p.pid, "p exe:*", "p libc:str*",
                   "p:deep work c=$backtrace", "p:texts work $comm", check=0).stderr
    assert stop(p) == 0
    rows = [line.split() for line in said.splitlines() if re.search(" jump +[0-9]", line)]
    assert rows and all(int(row[2]) for row in rows), said
    assert re.search(r"^\d\d probes, \d\d never hit \(not shown\); \d\.\d s; (about|less than) \d+(\.\d\d)? % of "
                     "one processor$", said, re.M), said

    def cost(name):
        row = next(row for row in rows if row[0] == name)
        number, unit = re.fullmatch(r"([\d.]+)([num]?s)", row[-1]).groups()
        return float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit] / int(row[2])

    assert cost("deep") > cost("work") + 100 and cost("texts") > cost("work"), said


@test
def units():
    """tables have units where they are known, --raw-units none; --all-rows lists what was never hit; bars fit the
    terminal"""
    line, name = "r exe:work hist($duration), sum($duration), all_bytes=sum($arg1)", target("simple")
    shown = dprobes("trace", line, "--", name, "1", "300", check=0).stdout
    assert re.search(r"^ +[\d.]+[num]?s \.\. [\d.]+[num]?s +\d+ \|#+$", shown, re.M), shown
    assert re.search(r"^  sum   work_duration +[\d.]+[num]s, \d+ values, [\d.]+[num]s on average$", shown, re.M), shown
    assert re.search(r"^  sum   all_bytes +[\d.]+(B|KiB|MiB|GiB|TiB), \d+ values", shown, re.M), shown
    raw = dprobes("trace", "--raw-units", line, "--", name, "1", "300", check=0).stdout
    assert re.search(r"^ +\d+ \.\. \d+ +\d+ \|#+$", raw, re.M), raw
    assert re.search(r"^  sum   work_duration +\d+, \d+ values, [\d.e+]+ on average$", raw, re.M), raw
    rows = [dprobes("trace", "-o", "/dev/null", *more, "p:some exe:work", "p:never libc:mkfifo", "--", name, "1", "300",
                    check=0).stderr for more in ((), ("--all-rows",))]
    assert "2 probes, 1 never hit (never);" in rows[0] and not re.search("^never +jump", rows[0], re.M), rows
    assert "2 probes, 1 never hit;" in rows[1] and re.search("^never +jump +0 ", rows[1], re.M), rows
    for columns in (80, 120):
        text = on_terminal(columns, "trace", line, "--", name, "1", "300")
        widest = max(len(s) for s in text.splitlines() if "|#" in s)
        assert widest == columns, (columns, widest, text)


def on_terminal(columns, *args):
    """What dprobes shows on a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    p = start([DPROBES, *map(str, args)], stdout=slave, stderr=subprocess.DEVNULL)
    os.close(slave)
    text = b""
    try:
        while more := os.read(master, 65536):
            text += more
    except OSError:  # nobody has the other end any more
        pass
    os.close(master)
    assert p.wait(30) == 0
    return re.sub("\x1b[^m]*m", "", text.decode())


@test
def no_names():
    """a program without names: exe:* probes its functions; they and callers go by an offset, which can be probed"""
    strip, = need("strip")
    path, env = os.path.join(tempfile.tempdir, "nameless"), dict(os.environ, LD_LIBRARY_PATH=TARGETS)
    subprocess.run([strip, "-o", path, target("brief")], check=True)

    def events(*lines):
        return json_lines(dprobes("trace", "--json", *lines, "--", path, check=0, env=env).stdout)

    seen = events("p exe:*", "p:lib plugin_work chain=$backtrace")
    calls = [e for e in seen if e["event"] == "lib"]
    assert len(calls) == 2, seen
    caller = re.fullmatch(r"nameless\+(0x[0-9a-f]+)", calls[0]["args"]["chain"][1])
    assert caller and len(events("p exe:" + caller.group(1))) == 1, calls
    own = [e["offset"] for e in seen if e["symbol"] == "nameless"]
    thrice = [at for at in set(own) if own.count(at) == 3]
    assert thrice and len(events("p exe:0x%x" % thrice[0])) == 3, seen


@test
def printed_addresses():
    """the address that `funcs FILE` prints is a place, also where it is no offset in the file, and in a line with names
    or values that compile"""
    for name in ("simple", "simple-nopie"):
        at = re.search(r"^([0-9a-f]+) .* work$", dprobes("funcs", target(name), "work", check=0).stdout, re.M).group(1)
        for values in ("", " t=$tid"):
            r = dprobes("trace", "--json", "p exe:0x" + at + values, "--", target(name), 1, 20, check=0)
            assert [e["symbol"] for e in json_lines(r.stdout)] == ["work"] * 20, r.stderr


@test
def mid_function():
    """probes in the middle of a function: registers and live flags are kept"""
    p = ready([target("simple"), "2"])
    funcs = dprobes("funcs", "-p", p.pid, "work", check=0)
    assert "work" in funcs.stdout
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", target("simple")], stdout=subprocess.PIPE, text=True,
                         check=True).stdout
    body = out.split("<work>:")[1].split("\n\n")[0].split("\tret")[0] + "\tret"
    addrs = [int(line.split(":")[0], 16) for line in body.splitlines()[1:] if ":" in line]
    events = ["p:i%d work+%d" % (i, a - addrs[0]) for i, a in enumerate(addrs)]
    r = dprobes("trace", "--json", "--allow-trap", "-p", p.pid, "--duration", "0.7", *events, check=0)
    seen = {e["event"] for e in json_lines(r.stdout)}
    assert len(seen) > len(addrs) * 0.7, (len(seen), len(addrs), r.stderr)
    assert not code_differs(p.pid)
    assert stop(p) == 0
    assert " bad 0" in p.stdout.read()


@test
def spawn_output():
    """a program started under probes keeps its own exit status and output"""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "trace.txt")
        r = dprobes("trace", "-o", path, "p libc:malloc bytes=%di", "--", "sh", "-c", "echo hello; exit 3")
        assert "hello" in r.stdout
        assert "malloc" in text_of(path), r.stderr


run()
