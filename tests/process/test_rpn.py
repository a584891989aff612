# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Probe programs in live processes: the command in both forms, variables, log, objects, altering."""
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

from obey import *  # noqa: F403

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples", "rpn")

# As printed on the slides of 2003, but for name, modtype, offset and opcode.
SEED = """
name = %s
modtype = user
major = 1
jmpmax = 32
logmax = 100
vars = 1
offset = add_numbers
minor = 1
ignore = 0
maxhits = 1000
inc lv,0
push d, 16
push r, esp
log mrf
exit
"""


@alone
def seed():
    """the seed's program and command lines, as printed"""
    o = Obey()
    f = program("seed.rpn", SEED % OBEY)
    r = dprobes("-i", f, check=0)
    assert "1 probe inserted in 1 process" in r.stdout, r.stdout
    for i in range(5):
        assert o("add %d 10" % i) == str(i + 10)
    text = wait_for(lambda: (lambda t: t if hits(t) == 5 else None)(dprobes("-q", check=0).stdout), what="5 hits")
    assert "lv 0 = 5" in text, text
    assert "inc lv, 0" in dprobes("-q", "-x", "-a", check=0).stdout
    assert "lv 0 = 5" in dprobes("-g", "-a", check=0).stdout
    m = logged(r"(dprobes\(1,1\)\ndprobes\(1,1\) 19 bytes:\n  memory = [0-9a-f]{32}\n){5}")
    assert m, log()
    raw = dprobes("log", "--raw", check=0).stdout
    assert re.search(r"(dprobes.*\ndprobes.*\n  memory = .*\n0000  001000.*\n0010  .*\n){5}", raw), raw
    r = dprobes("-r", f, check=0)
    assert "removed" in r.stdout
    assert o("add 1 1") == "2" and not code_differs(o.pid) and not our_mappings(o.pid)
    assert dprobes("-q", "-a", check=0).stdout == ""
    assert o.end() == 0


@alone
def friendly():
    """the same by subcommands, only in one process, with symbols from a file"""
    a, b = Obey(), Obey()
    f = program("one.rpn", SEED % "obey")
    r = dprobes("insert", f, "-p", a.pid, "-s", OBEY, "--log", "PID", "CSEIP", "PROCNAME", check=0)
    assert "in 1 process" in r.stdout
    assert a("add 1 2") == "3" and b("add 1 2") == "3"
    logged(r"dprobes\(1,1\) pid=%d cs=33 eip=[0-9a-f]{16} name=obey\n" % a.pid)
    assert "pid=%d" % b.pid not in log()
    assert "lv 0 = 1" in dprobes("vars", "--name", "obey", "--index", "0-0", "--local", check=0).stdout
    dprobes("vars", "--all", "--reset", check=0)
    assert "lv 0 = 0" in dprobes("vars", "--all", check=0).stdout
    dprobes("remove", "--name", "obey", check=0)
    assert a.end() == 0 and b.end() == 0


@alone
def silent_client():
    """somebody connects to the driver and says nothing: the log goes on meanwhile"""
    o = Obey()
    f = program("silent.rpn", body("push r, rdi; log 1; exit"))
    dprobes("insert", f, "-p", o.pid, "--json", check=0)
    for n in range(1, 6):
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(os.path.join(DIR, "driver", "socket"))
            o("add 1 2")
            wait_for(lambda: len(json_lines(log())) == n, what="record %d" % n)
            silent.setblocking(False)
            try:
                silent.recv(1)
            except BlockingIOError:
                break  # the driver still waits for a word
    else:
        raise AssertionError("the driver wrote its log only when it had given the silent one up")
    assert o.end() == 0


@alone
def unseen():
    """no process maps the module: its file is judged at once; where there is none, that is told"""
    for offset, code in (("nosuch", "E-SYM-NONE"), ("0x7fffffff", "E-SITE-NOTEXT")):
        r = dprobes("insert", program("unseen.rpn", body("inc lv, 0; exit", offset=offset)))
        assert r.returncode == 1 and code in r.stderr and not r.stdout, (r.stdout, r.stderr)
    assert dprobes("query", check=0).stdout == ""
    for name, told in ((OBEY + "-not-there", "no such file"), ("not-there.so", "no process maps it:")):
        r = dprobes("insert", program("unseen.rpn", body("inc lv, 0; exit", name=name)), check=0)
        assert told in r.stdout and "in 0 processes" in r.stdout, r.stdout


@alone
def system_wide():
    """processes that map the module later, and children, carry the probes"""
    f = program("wide.rpn", body("inc lv, 0; push r, rdi; push r, rsi; log 2; exit"))
    assert "in 0 processes, and in all that map it later" in dprobes("insert", f, "--format", "json", check=0).stdout
    a = Obey()
    wait_for(lambda: our_mappings(a.pid), what="probes in the new process")
    b = Obey()
    wait_for(lambda: our_mappings(b.pid), what="probes in the second process")
    assert a("add 11 22") == "33" and b("add 33 44") == "77" and a("fork 55 66") == "121"
    wait_for(lambda: len(json_lines(log())) == 3, what="three records")
    seen = {(r["pid"] in (a.pid, b.pid), r["data"]) for r in json_lines(log())}
    words = ["%016x" % int.from_bytes(n.to_bytes(8, "little"), "big") for n in (22, 11, 44, 33, 66, 55)]
    assert seen == {(True, words[0] + words[1]), (True, words[2] + words[3]), (False, words[4] + words[5])}, seen
    dprobes("-r", "-a", check=0)
    assert not our_mappings(a.pid) and not our_mappings(b.pid)
    assert a("add 1 1") == "2" and a.end() == 0 and b.end() == 0


@alone
def global_variables():
    """one set for all processes and programs: increments from several at once are all there, and all see them"""
    simple = target("simple")
    o = Obey()
    for jit in ("on", "off"):
        running = [start([simple, "2", "0"]) for _ in range(3)]
        dprobes("insert", program("g1.rpn", body("inc gv, 1; abort", name=simple, offset="work",
                                                 header="gvars = 2")), "--jit", jit, check=0)
        dprobes("insert", program("g2.rpn", body("push gv, 1; log 1; inc gv, 0; exit",
                                                 header="logmax = 8\ngvars = 2")), "--json", check=0)
        assert len({line.split()[4] for p in running for line in open("/proc/%d/maps" % p.pid)
                    if "/state/globals" in line}) == 1
        wait_for(lambda: hits(dprobes("query", "--name", simple, check=0).stdout) > 100000, what="many hits")
        assert all(stop(p) == 0 for p in running)
        text = wait_for(lambda: (lambda t: t if "in 0 processes" in t else None)(
            dprobes("query", "--name", simple, check=0).stdout),
                        what="their end")
        n = hits(text)
        assert "gv 1 = %d\n" % n in dprobes("vars", "--all", "--global", check=0).stdout
        assert o("add 1 2") == "3" and o("fork 1 2") == "3"
        wait_for(lambda: len(json_lines(log())) == 2, what="records")
        assert [int.from_bytes(bytes.fromhex(r["data"]), "little") for r in json_lines(log())] == [n, n]
        text = dprobes("vars", "--all", check=0).stdout
        assert "all processes, global:\n  gv 0 = 2\n  gv 1 = %d\n" % n in text, text
        dprobes("vars", "--all", "--global", "--reset", check=0)
        assert "gv 0 = 0\n  gv 1 = 0\n" in dprobes("vars", "--all", check=0).stdout
        clean()
    with open("/proc/%d/maps" % o.pid) as f:
        assert "/state/globals" not in f.read()
    assert not any("socket:" in os.readlink(os.path.join("/proc/%d/fd" % o.pid, fd))
                   for fd in os.listdir("/proc/%d/fd" % o.pid))
    assert o.end() == 0


@alone
def altering():
    """a program changes an argument, a result, a variable of the process"""
    o = Obey()
    f = program("arg.rpn", body("push d, 100; pop r, rdi; abort"))
    dprobes("insert", f, check=0)
    assert o("add 1 2") == "102"
    f = program("ret.rpn", body("push r, rax; push d, 1000; add; pop r, rax; abort", more="at = return"))
    dprobes("insert", f, "--replace", check=0)
    assert o("add 1 2") == "1003"
    f = program("var.rpn", body("push d, counter; dup 2; push mem u64; push r, rsi; add; pop mem u64; abort"))
    dprobes("insert", f, "--replace", check=0)
    assert o("add 1 2") == "3" and o("counter") == "7"
    dprobes("-r", "-a", check=0)
    assert o("add 1 2") == "3" and o("counter") == "7" and o.end() == 0


@alone
def example_malloc():
    """example: the third allocation over a mebibyte returns NULL"""
    o = Obey()
    assert o("malloc 4 2000000") == "ok ok ok ok"
    dprobes("insert", os.path.join(EXAMPLES, "malloc-null.rpn"), "-p", o.pid, "-D", "N", "=", "3", check=0)
    assert o("malloc 5 1000") == "ok ok ok ok ok"
    assert o("malloc 4 2000000") == "ok ok null ok"
    assert "lv 0 = 4" in dprobes("vars", "--all", check=0).stdout
    dprobes("remove", os.path.join(EXAMPLES, "malloc-null.rpn"), check=0)
    assert o("malloc 4 2000000") == "ok ok ok ok" and o.end() == 0


def libc_of(pid):
    with open("/proc/%d/maps" % pid) as f:
        return re.search(r"(/\S*libc\.so\.6)", f.read()).group(1)


@alone
def example_write():
    """example: writes to one file fail with ENOSPC"""
    need("objdump")
    o = Obey()
    text = subprocess.run(["objdump", "-d", "--disassemble=__write", libc_of(o.pid)], stdout=subprocess.PIPE,
                          text=True).stdout
    m = re.search(r"^([0-9a-f]+) <(?:__)?write@@[^>]*>:$.*?\tsyscall\s*?\n\s*([0-9a-f]+):", text, re.M | re.S)
    if not m:
        raise Skip("write() of this libc looks otherwise")
    after = int(m.group(2), 16) - int(m.group(1), 16)
    path = os.path.join(DIR, "full.txt")
    word = int.from_bytes(path.encode()[:8], "little")
    os.makedirs(os.path.join(DIR, "x"), exist_ok=True)
    other = "/./" + path
    dprobes("insert", os.path.join(EXAMPLES, "write-enospc.rpn"), "-p", o.pid, "-D", "FILE_WORD=0x%x" % word,
            "-D", "AFTER=%d" % after, "--json", check=0)
    assert o("write " + other) == "ok"
    assert o("write " + path) == "28"
    assert o("write " + other) == "ok"
    logged(r'"minor":28')
    dprobes("-r", "-a", check=0)
    assert o("write " + path) == "ok" and o.end() == 0


@alone
def limits():
    """pass count, most hits, remove, by the counts of the query"""
    o = Obey()
    f = program("limits.rpn", body("push r, rdi; log 1; exit", more="ignore = 2\nmaxhits = 3"))
    dprobes("insert", f, "--json", check=0)
    for i in range(10):
        assert o("add %d 0" % i) == str(i)
    wait_for(lambda: len(json_lines(log())) == 3, what="three records")
    assert [r["data"][:2] for r in json_lines(log())] == ["02", "03", "04"]
    text = dprobes("query", check=0).stdout
    assert "recorded 3, passed over 7" in text and "disabled (max hits)" in text, text
    clean()
    dprobes("insert", program("remove.rpn", body("remove")), check=0)
    for i in range(4):
        assert o("add %d 0" % i) == str(i)
    text = dprobes("query", check=0).stdout
    assert "recorded 1, passed over 3" in text and ": removed," in text, text
    assert o.end() == 0


@alone
def exceptions():
    """a bad address in a live process is an exception, logged and traced, and does not kill"""
    o = Obey()
    f = program("bad.rpn", body("sx caught; push d, 8; push d, 16; log mrf; exit\n"
                                "caught: ros 3; log st; push d, 1; push d, 0; div; exit",
                                header="logmax = 50\nex_logmax = 200\nid = 5\njmpmax = 1"))
    dprobes("insert", f, "--json", check=0)
    assert o("add 1 2") == "3"
    wait_for(lambda: len(json_lines(log())) == 2, what="record and trace")
    rec, trace = sorted(json_lines(log()), key=lambda r: "traces" in r)
    assert rec["items"] == [{"fault": 16}], rec
    assert trace["major"] == trace["minor"] == 0 and trace["traces"][0]["exception"] == 1, trace
    assert "exceptions 2\n" in dprobes("query", check=0).stdout  # each one, also of one hit
    assert o.end() == 0


@alone
def work():
    """as many jumps as there may be, over as much code: the hit ends by an exception, soon"""
    o = Obey()
    code = "sx caught; L: push d, 1\n%sinc lv, 0; jmp L; caught: log 1; exit" % ("dup 255\nros 255\npush d, 1\n" * 3000)
    for options in ((), ("--jit", "off")):
        dprobes("insert", program("work.rpn", body(code, header="logmax = 20\nvars = 1\njmpmax = 65535")), "--json",
                "-p", o.pid, *options, check=0)
        begin = time.time()
        assert o("add 1 2") == "3"
        took = time.time() - begin
        print("# figure: a run that is ended%s: %.0f ms" % (" ".join(("",) + options), took * 1e3))
        rounds = int(re.search(r"lv 0 = (\d+)", dprobes("vars", "--all", check=0).stdout).group(1))
        assert 0 < rounds < 65535 // 15, rounds  # of those that jumps alone would allow
        wait_for(lambda: len(json_lines(log())) == 1, what="a record")
        assert json_lines(log())[0]["items"] == [{"words": [8]}], log()
        assert "exceptions 1\n" in dprobes("query", check=0).stdout
        clean()
    assert o.end() == 0


@alone
def json_items():
    """items in JSON: words without a prefix are never taken for items, what was cut says so, stack traces as well"""
    o = Obey()
    header = "ex_logmax = %d\nlogmax = 40\njmpmax = 10"
    for code, items, cut in (("push d, 1280; log 1", [{"words": [1280]}], None),
                             ("push d, 7; push d, 9; log 2; push d, 8; log 1", [{"words": [9, 7, 8]}], None),
                             ("push d, 1; push d, 2; push d, 2; log", [{"words": [2, 1]}], None),
                             ("push d, 1; log 1; push d, 2; push r, rsp; log mrf", None, None),
                             ("push d, 1; log 1; push d, 0; pop lp; push d, 1; push d, 1; log", [{"words": [1]}], None),
                             ("push d, 100; push r, rsp; log mrf", 37, True),
                             ("push d, 1; log 1; " * 6, [{"words": [1] * 5}], True)):
        dprobes("insert", program("items.rpn", body(code + "; exit", header=header % 0)), "--json", check=0)
        assert o("add 1 2") == "3"
        wait_for(lambda: len(json_lines(log())) == 1, what="a record")
        rec = json_lines(log())[0]
        found = rec["items"] if isinstance(items, (list, type(None))) else len(rec["items"][0]["memory"]) // 2
        assert found == items and rec.get("shortened") == cut, (code, rec)
        clean()
    for room, cut in ((200, None), (60, True)):
        dprobes("insert", program("cut.rpn", body("log st; exit", header=header % room)), "--json", check=0)
        assert o("add 1 2") == "3"
        wait_for(lambda: len(json_lines(log())) == 2, what="record and trace")
        trace = next(rec for rec in json_lines(log()) if "traces" in rec)
        assert trace.get("shortened") == cut, (room, trace)
        clean()
    dprobes("insert", program("cut.rpn", body("log st; exit", header=header % 60)), check=0)
    assert o("add 1 2") == "3"
    logged(r"stack trace of .* bytes, cut to the log budget:\n")
    assert o.end() == 0


def last_words(o):
    """An address at which the process can write, and the end of what it can, behind which nothing is mapped."""
    with open("/proc/%d/maps" % o.pid) as f:
        maps = [line.split() for line in f]
    spans = [[int(x, 16) for x in m[0].split("-")] + m[1:2] for m in maps]
    for this, behind in zip(spans, spans[1:]):
        if this[2] == "rw-p" and this[1] != behind[0]:
            return this[1]
    raise Skip("no memory of this process ends before a gap")


@alone
def corners():
    """a store over the end of memory stores nothing; a text that just fits is whole; a heap of words holds as many
    as its bytes"""
    o = Obey()
    end = last_words(o)
    with open("/proc/%d/mem" % o.pid, "r+b", 0) as mem:
        mem.seek(end - 16)
        mem.write(b"abcdefgh\x00" + b"234567\x00")
        for code, logmax, more, exceptions in (
                ("push r, rdi; push d, 0x1122334455667788; pop mem,u64; exit", 11, "", 1),
                ("push d, 50; push r, rdi; push d, 12; sub; log str; exit", 11, "ex_mask = 0x1fff", 0),
                ("push d, 50; push r, rdi; push d, 12; sub; log str; exit", 10, "ex_mask = 0x1fff", 1),
                ("push d, 8; malloc; " * 1600 + "exit", 11, "heap = 16384", 0)):
            dprobes("insert", program("corner.rpn",
                    body(code, header="logmax = %d\njmpmax = 1\nheapmax = 16384" % logmax, more=more)), check=0)
            assert o("add %d 0" % (end - 4)) == str(end - 4)
            said = re.search(r"exceptions (\d+)", dprobes("query", check=0).stdout)
            assert int(said.group(1)) == exceptions, (code[:60], logmax, said.group(0))
            mem.seek(end - 4)
            assert mem.read(4) == b"567\0"
            dprobes("-r", "-a", check=0)
    assert o.end() == 0


@alone
def faulting():
    """what was logged is kept when the probed instruction has been carried out, or with logonfault"""
    o = Obey([target("faults")])
    probes = "minor = 1\npush r, rdi; log 1; exit\noffset = divide + 5\nminor = 2\npush r, rsi; log 1; exit\n" + \
        "offset = add_numbers\nminor = 3\npush r, rdi; log 1; exit\n"

    def counted():
        return [hits(dprobes("query", check=0).stdout, i) for i in range(3)]

    def run():
        assert [o(w) for w in ("load", "bad", "div 6 2", "div 6 0", "add 1 2", "mend", "bad", "load")] == \
            ["7", "fault", "3", "fault", "3", "0 7", "fault", "7"]

    for jit in ("on", "off"):
        f = program("fault.rpn", body(probes, name=target("faults"), offset="load_word"))
        dprobes("insert", f, "--log=CSEIP", "--jit", jit, check=0)
        run()
        # load_word of good memory three times, once in the handler that mends; the record that waited then gave way.
        assert counted() == [4, 1, 1], counted()
        assert "recorded 3, passed over 0, not logged 0, missed 0, lost 1;" in dprobes("query", check=0).stdout
        logged(r"(?s)(\(1,1\).*){6}")
        assert len(re.findall(r"\(1,1\) cs", log())) == 3 and len(re.findall(r"\(1,2\) cs", log())) == 1, log()
        dprobes("remove", f, check=0)
        dprobes("log", "--clear", check=0)
    kept = probes.replace("minor", "logonfault = yes\nminor")
    dprobes("insert", program("kept.rpn", body(kept, name=target("faults"), offset="load_word")), check=0)
    run()
    assert counted() == [6, 2, 1], counted()
    dprobes("-r", "-a", check=0)
    # In the place of the instruction: what was logged stays.
    inplace = body("push d, 9; pop r, rax; push r, rip; push d, 3; add; pop r, rip; push r, rdi; log 1; exit",
                   name=target("faults"), offset="load_word")
    dprobes("insert", program("inplace.rpn", inplace), check=0)
    assert o("load") == "9" and o("bad") == "9"
    assert "recorded 2," in dprobes("query", check=0).stdout
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid) and o.end() == 0


@alone
def processor():
    """registers that are fetched on demand: control words, selectors, bases"""
    o = Obey()
    f = program("fpu.rpn", body("push u, mxcsr; push u, fcw; push r, fs_base; push r, ds; push r, fs\n"
                                "push d, 0; push r, cpuid; ros 1; log 8; exit"))
    dprobes("insert", f, "--json", check=0)
    assert o("add 1 2") == "3"
    wait_for(lambda: json_lines(log()), what="a record")
    data = bytes.fromhex(json_lines(log())[0]["data"])
    ebx, ecx, edx, fs, ds, base, fcw, mxcsr = (int.from_bytes(data[i:i + 8], "little") for i in range(0, 64, 8))
    assert (fs, ds, fcw, mxcsr & ~0x3f) == (0, 0, 0x37f, 0x1f80) and base, data.hex()
    name = b"".join(v.to_bytes(4, "little") for v in (ebx, edx, ecx)).decode()
    with open("/proc/cpuinfo") as g:
        assert name in g.read()
    assert o.end() == 0


def cores_in(where, before):
    """Those of the target that are new, looked at and removed."""
    found = []
    gdb = shutil.which("gdb")
    for name in set(os.listdir(where)) - before:
        path = os.path.join(where, name)
        with open(path, "rb") as f:
            if f.read(4) != b"\x7fELF" or OBEY.encode() not in f.read(1 << 20):
                continue
        found.append(path)
        if gdb:
            said = subprocess.run([gdb, "-nx", "-batch", "-ex", "bt", "-ex", "p $rdi", "-ex", "p $rsi", OBEY, path],
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=60,
                                  env=dict(os.environ, DEBUGINFOD_URLS="")).stdout
            assert re.search(r"#0 .* in add_numbers \(.*\n#1 .* in main \(", said), said
            assert "$1 = 1\n$2 = 2\n" in said, said
        assert os.stat(path).st_blocks * 512 < 16 << 20, os.stat(path)
        os.unlink(path)
    return found


@alone
def core():
    """exit 3 makes a core dump as far as the process's limit allows, exit 4 all the same; the log says where it is,
    and the process goes on"""
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    here = os.path.join(DIR, "cores")
    os.makedirs(here, exist_ok=True)
    where = os.path.dirname(pattern) if pattern.startswith("/") else here
    before = set(os.listdir(where)) if os.path.isdir(where) else set()
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    known = not pattern.startswith("|") and not ("/" in pattern[1:] and "%" in where)
    for number, limit, made in ((3, limits[1], True), (3, 0, False), (4, 0, True)):
        made &= limits[1] != 0
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limits[1]))
        try:
            o = Obey(cwd=here)
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, limits)
        code = "push d, 7; log 1; exit %d" % number
        dprobes("insert", program("core.rpn", body(code, more="maxhits = 1")), "-p", o.pid, check=0)
        assert o("add 1 2") == "3" and o("add 2 2") == "4" and o("counter") == "5"
        logged("8 bytes")
        said = logged(r"dprobes\(1,0\) process %d: (.*)" % o.pid).group(1)
        found = cores_in(where, before) if known else []
        assert not known or len(found) == made, (number, limit, found)
        if not made and limits[1]:
            assert "ulimit -c" in said, said
        if found and "%" not in re.sub("%[pPiI]", "", pattern):
            assert said == "core dumped: " + found[0], (said, found)
        clean()
        assert o.end() == 0
    if not known:
        raise Skip("cores do not go to a known directory here: %s" % pattern)
    if limits[1] == 0 or not shutil.which("gdb"):
        raise Skip("no core was looked at: the hard limit is 0, or there is no gdb")


@alone
def debugger():
    """exit 1 stops the process for a debugger, behind its record: at the probed instruction, where it then goes on; the
    hit is counted once"""
    o = Obey()
    f = program("stop.rpn", body("push r, rdi; log 1; exit 1"))
    dprobes("insert", f, check=0)

    def call(line):
        o.p.stdin.write(line + "\n")
        o.p.stdin.flush()

    def stopped():
        with open("/proc/%d/stat" % o.pid) as f:
            return f.read().split()[2] == "T"

    def at_the_probe():  # in no system call of ours, then
        with open("/proc/%d/syscall" % o.pid) as f:
            return stopped() and f.read().startswith("-1 ")

    call("add 4711 1")
    wait_for(stopped, what="a stopped process")
    logged(r"dprobes\(1,0\) process %d is stopped: gdb -p %d" % (o.pid, o.pid))
    wait_for(at_the_probe, what="a thread at the probed instruction")
    gdb = shutil.which("gdb")
    if gdb:
        said = subprocess.run([gdb, "-nx", "-batch", "-p", str(o.pid), "-ex", "bt", "-ex", "p $rdi", "-ex", "p $rsi"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              env=dict(os.environ, DEBUGINFOD_URLS="")).stdout
        assert re.search(r"#0 .* in add_numbers \(.*\n#1 .* in main \(", said), said
        assert "$1 = 4711\n$2 = 1\n" in said, said
    os.kill(o.pid, signal.SIGCONT)
    assert o.p.stdout.readline() == "4712\n"
    for n in range(30):  # whether it was sent there already or not
        call("add %d 1" % n)
        wait_for(stopped, what="a stopped process")
        if n % 3:
            time.sleep(0.004 * n)
        os.kill(o.pid, signal.SIGCONT)
        said = o.p.stdout.readline()
        assert said == "%d\n" % (n + 1), (n, said, o.p.poll())
    wait_for(lambda: hits(dprobes("-q", check=0).stdout) == 31, what="31 hits, each once")
    assert not re.search(r"[1-9]\d* lost", dprobes("-q", check=0).stdout), dprobes("-q", check=0).stdout
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid)
    assert o("add 1 2") == "3" and o.end() == 0
    if not gdb:
        raise Skip("no debugger has looked: there is no gdb")


@alone
def objects():
    """an object built with symbols is applied without them, and refused on another build"""
    mine = os.path.join(DIR, "mine")
    shutil.copy(OBEY, mine)
    f = program("object.rpn", SEED % mine)
    assert "1 probe for build" in dprobes("--build-ppdf", f, "-o", os.path.join(DIR, "o.ppdf"), check=0).stdout
    bare = mine + ".bare"
    subprocess.run(["strip", "--strip-all", "-o", bare, mine], check=True)
    os.rename(bare, mine)
    o = Obey([mine])
    dprobes("--apply-ppdf", os.path.join(DIR, "o.ppdf"), check=0)
    assert o("add 3 4") == "7"
    wait_for(lambda: hits(dprobes("-q", check=0).stdout) == 1, what="a hit")
    dprobes("remove", os.path.join(DIR, "o.ppdf"), check=0)
    assert o.end() == 0
    shutil.copy(target("simple"), mine)
    p = start([mine])
    time.sleep(0.1)
    r = dprobes("apply", os.path.join(DIR, "o.ppdf"))
    assert r.returncode != 0 and "E-RPN-BUILD" in r.stderr, r.stderr
    stop(p)
    with open(os.path.join(DIR, "o.ppdf"), "r+b") as g:
        g.truncate(900)
    r = dprobes("apply", os.path.join(DIR, "o.ppdf"))
    assert r.returncode != 0 and "E-RPN-OBJECT" in r.stderr, r.stderr


@alone
def refusals():
    """what cannot be inserted is refused with code and place, and changes nothing"""
    o = Obey()

    def refused(text, code, *args, where=""):
        r = dprobes("insert", program("no.rpn", text), *args)
        assert r.returncode != 0 and code in r.stderr and where in r.stderr, (code, r.stderr)

    refused(body("nop\nfrob 3\nexit"), "E-RPN-INSN", where="no.rpn:9: ")
    refused(body("psh d, 3; exit"), "E-RPN-INSN", where="did you mean push d?")
    refused(body("exit", more="maxhit = 3"), "E-RPN-KEYWORD", where="did you mean maxhits?")
    refused(body("nop\npush lv, 9\nexit"), "E-PROG-VAR", where="no.rpn:9: ")
    refused(body("exit", offset="no_such_function"), "E-SYM-NONE")
    refused(body("exit", more="opcode = 0xcc"), "E-RPN-OPCODE")
    refused(body("exit", header="modtype = kernel"), "E-RPN-WORLD", "-p", o.pid)
    if not os.path.exists("/dev/dprobes"):
        refused(body("exit", header="modtype = kernel"), "E-KERNEL-DEVICE")
    refused(body("call_kmod; exit", header="modtype = kernel"), "E-PROG-KERNEL")
    refused(body("call_kmod; exit"), "E-PROG-KERNEL", where="'call_kmod'")
    refused(body("push task; exit"), "E-PROG-WORLD")
    refused(body("nop; out: push r, cr0 ; exit"), "E-PROG-WORLD", where="no.rpn:8: 'push r, cr0' (")
    refused(body("exit", more="maxhits = many"), "E-RPN-VALUE", where="maxhits = 'many'")
    refused(body("exit", more="minor = 65536"), "E-RPN-VALUE", where="hint: give a number from 0 to 65535")
    refused(body("exit", more="group = 3"), "E-RPN-NONE", "--group", "=", "1,4-9")
    refused(body("exit", name="/no/such/module"), "E-MOD-NONE", "-p", o.pid)
    assert not our_mappings(o.pid) and dprobes("-q", "-a", check=0).stdout == ""
    good = program("good.rpn", body("exit", more="group = 3\nopcode = 0xcc"))
    dprobes("insert", good, "--dont-verify-opcodes", "--stop-cpus", "--group=3", check=0)
    refused(body("exit"), "E-RPN-EXISTS")
    r = dprobes("remove", "--name", "nothing")
    assert r.returncode != 0 and "E-RPN-NOTIN" in r.stderr
    assert o("add 2 2") == "4"
    dprobes("-r", "-a", check=0)
    assert not our_mappings(o.pid) and not code_differs(o.pid) and o.end() == 0


@alone
def refused_beside_others():
    """a process that refuses one program goes on with the others and their variables"""
    name = "obey%d" % os.getpid()  # nobody else's
    bare, whole = os.path.join(DIR, "refusing", name), os.path.join(DIR, name)
    os.mkdir(os.path.dirname(bare))
    subprocess.run(["strip", "-o", bare, OBEY], check=True)
    shutil.copy(OBEY, whole)
    o, other = Obey([bare]), Obey([whole])
    dprobes("insert", program("good.rpn", body("inc lv, 0; exit", name=bare)), "--sym", OBEY, check=0)
    assert o("add 1 1") == "2"
    bad = program("bad.rpn", body("inc lv, 1; exit", name=name, offset="write_to"))
    r = dprobes("insert", bad, "-p", o.pid)
    assert r.returncode != 0 and "E-SYM-NONE" in r.stderr, r.stderr
    assert o("add 1 1") == "2" and "lv 0 = 2" in dprobes("vars", "--all", check=0).stdout
    # Another process takes it, so it stays.
    r = dprobes("insert", bad, check=0)
    assert "in 1 process, 1 left out (E-SYM-NONE" in r.stdout, r.stdout
    assert o("add 1 1") == "2" and other("add 1 1") == "2"

    def shown(mine):
        text = dprobes("query", check=0).stdout
        assert "lv 0 = %d" % mine in text and "recorded %d," % mine in text, text
        assert text.count("(write_to+0x0)") == 1 and "last process left out: E-SYM-NONE" in text, text

    shown(3)
    kill_driver()
    shown(3)
    assert o("add 1 1") == "2"
    shown(4)
    driver = drivers()
    dprobes("-r", "-a")
    assert drivers() == driver  # it has survived
    for p in (o, other):
        assert not our_mappings(p.pid) and not code_differs(p.pid) and p.end() == 0


@alone
def options():
    """the options that the other tests leave out, by their long names"""
    bare = os.path.join(DIR, "bare")
    subprocess.run(["strip", "--strip-all", "-o", bare, OBEY], check=True)
    o = Obey([bare])
    text = body("push r, rdi; log 1; exit", name=bare, more="type = 2\nminor = 7") + "offset = main\ntype = 3\nexit\n"
    f = program("options.rpn", text)
    r = dprobes("insert", f, "--sym", OBEY, "--type", "2", "--unformatted-output", "--log-target", "KLOG", check=0)
    assert "1 probe inserted in 1 process" in r.stdout, r.stdout
    with open(os.path.join(DIR, "followed"), "w") as followed:
        p = start([DPROBES, "log", "--follow"], stdout=followed)
    assert o("add 258 1") == "259"
    wait_for(lambda: "0201000000000000\n" in text_of(followed.name), what="the record")
    assert text_of(followed.name) == log() and "  " not in log(), log()
    stop(p)
    assert "push r, di\n" in dprobes("query", "--extended", check=0).stdout
    assert "E-CMD" in dprobes("insert", f, "--log-target", "EVL", check=2).stderr
    out = os.path.join(DIR, "options.ppdf")
    clean()
    dprobes("build", f, "--sym", OBEY, "--outfile", out, check=0)
    dprobes("apply", out, "--type", "2", "--unformatted-output", "--log-target", "KLOG", check=0)
    assert o("add 3 1") == "4"
    logged(r"0300000000000000\n")
    clean()
    f = program("defined.rpn", body("exit", more="minor = VALUE"))
    dprobes("insert", f, "-D", "VALUE=4", check=0)
    assert dprobes("remove", f).returncode != 0 and "removed" in dprobes("remove", f, "-D", "VALUE=5", check=0).stdout
    assert o.end() == 0


@alone
def wrong_options():
    """what is wrong on the command line is refused as a whole, and named"""
    f = program("wrong.rpn", body("exit"))
    for words, says in ((("insert", f, "--log=PID,XX"), "--log XX"), (("insert", f, "--log", "XX"), "--log XX"),
                        (("insert", f, "--log-target", "LTT"), "LTT does not exist any more"),
                        (("insert", f, "--log-target", "NONE"), "NONE: no such target"),
                        (("-g", "-i", "2-1"), "--index 2-1"),
                        (("-r", "--name", "x", "-a"), "--name and --all together"),
                        (("-r", f, "-a"), "together"), (("-r",), "--name MODULE, or --all"),
                        (("-i", f, f), "one file at a time")):
        r = dprobes(*words, check=2)
        assert says in r.stderr and "hint: " in r.stderr, r.stderr
    r = dprobes("insert", f, "-u", "1", "-t", "2-x", check=1)
    assert "E-RPN-VALUE" in r.stderr and "--type 2-x" in r.stderr, r.stderr
    for words in (("-q",), ("-r", "-a")):
        r = dprobes(*words, check=0)
        assert not r.stdout and "nothing is inserted" in r.stderr, (words, r)


@test
def options_listed():
    """of each command, each option in its help is used by a test"""
    tests = ""
    for where in (HERE, os.path.join(HERE, "..", "cmd"), os.path.join(HERE, "..", "kernel")):
        for name in filter(re.compile(r"\.(py|sh)$").search, os.listdir(where)):
            with open(os.path.join(where, name)) as g:
                tests += g.read()
    for verb in ("insert", "remove", "query", "vars", "build", "apply", "log", "trace", "list", "funcs",
                 "verify", "coverage"):
        text = dprobes("help", verb, check=0).stdout
        for short, option in re.findall(r"^ +(?:(-\w), )?(--[a-z-]+)", text, re.M):
            assert re.search(r"[\"' ](%s|%s)[=\"' ,]" % (option, short or option), tests), "%s %s" % (verb, option)


@alone
def merging():
    """--merge adds probes and keeps the variables"""
    o = Obey()
    dprobes("insert", program("m1.rpn", body("inc lv, 0; abort")), check=0)
    o("add 1 1")
    o("add 1 1")
    dprobes("insert", program("m2.rpn", body("inc lv, 1; abort", more="at = return")), "--merge", check=0)
    o("add 1 1")
    text = dprobes("vars", "--all", check=0).stdout
    assert "lv 0 = 3" in text and "lv 1 = 1" in text, text
    text = dprobes("query", check=0).stdout
    assert "2 probes" in text and "at return" in text, text
    assert o.end() == 0


@alone
def compiled():
    """programs as machine code: on, off and by the environment, with the same results; `query` tells which"""
    code = "push d, 10; turn: push r, edi; push lv, 0; add; pop lv, 0; loop turn; push lv, 0; push d, 1; log; " \
           "push d, 0; push d, 0; div; exit"
    lines = []
    for args, word in ((["--jit", "off"], "interpreted"), (["--jit=on"], "compiled"),
                       (["--jit", "auto"], "compiled"), ([], "interpreted")):
        o = Obey()
        os.environ["DPROBES_JIT"] = "off"
        dprobes("insert", program("sum.rpn", body(code)), *args, check=0)
        del os.environ["DPROBES_JIT"]
        assert [o("add %d 1" % n) for n in range(1, 4)] == ["2", "3", "4"]
        text = wait_for(lambda: (lambda t: t if hits(t) == 3 else None)(dprobes("-q", check=0).stdout), what="3 hits")
        assert " by jump, %s\n" % word in text and "lv 0 = 60" in text and "exceptions 3" in text, text
        dprobes("-r", "-a", check=0)
        raw = dprobes("log", "--raw", check=0).stdout
        lines.append([line.split("  ")[1] for line in raw.splitlines() if line.startswith("0000")])
        dprobes("log", "--clear", check=0)
        assert o.end() == 0
    assert len(lines[0]) == 3 and lines.count(lines[0]) == 4, lines
    assert "on, off or auto" in dprobes("insert", program("sum.rpn", body(code)), "--jit", "maybe", check=2).stderr


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
