# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command's own manners: help, errors with codes and carets, exit statuses, output that fails, pipes."""
import array
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from live import armed  # noqa: E402
from tap import *  # noqa: E402,F403

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUBCOMMANDS = ("trace", "funcs", "coverage", "verify", "explain")


def code_of(r):
    m = re.search(r"^dprobes: (E-[A-Z0-9-]+): ", r.stderr, re.M)
    return m.group(1) if m else None


def fails(code, status, *args, **kw):
    r = dprobes(*args, **kw)
    assert code_of(r) == code, (args, code, r.stderr)
    assert r.returncode == status, (args, r.returncode)
    assert "dprobes explain " + code in r.stderr
    return r


def simple(threads="1", *more):
    p = start([target("simple"), threads, *more], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    return p


# ---- words only ----

@test
def help_and_version():
    """--help of the command and of every subcommand, --version"""
    r = dprobes("help", check=0)
    for name in SUBCOMMANDS:
        assert re.search(r"^  %s " % name, r.stdout, re.M), name
        own = dprobes(name, "--help", check=0)
        assert own.stdout.startswith("usage: dprobes " + name), own.stdout
        assert not own.stderr
    assert dprobes("--help", "trace", check=0).stdout == dprobes("trace", "--help", check=0).stdout
    r = dprobes(check=2)
    assert "usage:" in r.stdout


@test
def version():
    """--version: the build-id of the file, the module's interface, formats and libraries, as text and as JSON"""
    text = dprobes("--version", check=0).stdout
    assert re.match(r"dprobes \d+\.\d+\.\d+\n", text) and text == dprobes("-V", check=0).stdout
    told = json.loads(dprobes("--version", "--json", check=0).stdout)
    assert told.pop("version") == text.split()[1]
    assert [line.split("  ")[-1].strip() for line in text.splitlines()[1:]] == list(told.values()), (text, told)
    assert re.match(r"\d[\d.]*$|not ", told["libcurl"]), told
    notes = subprocess.run(["readelf", "-n", DPROBES], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "Build ID: %s\n" % told["build_id"] in notes, (told, notes)
    device, control = (text_of(os.path.join(ROOT, "src", "abi", name)) for name in ("abi-device.h", "abi-control.h"))
    assert told["kernel_interface"] == "%s.%s" % (re.search(r"#define DP_DEV_ABI (\d+)", device).group(1),
                                                  re.search(r"#define DP_ABI (\d+)", control).group(1))
    formats = dprobes("help", "report", check=0).stdout.split("\nFormats:\n")[1].split("\n\n")[0]
    assert told["formats"].split() == re.findall(r"^  ([a-z]+) ", formats, re.M), (told, formats)
    assert "--json" in fails("E-CMD-OPTION", 2, "--version", "--jsno").stderr
    fails("E-CMD-EXTRA", 2, "--version", "x")


@test
def explain():
    """explain: any case, unknown codes with a suggestion, the whole list"""
    r = dprobes("explain", "e-site-midinsn", check=0)
    assert r.stdout.startswith("E-SITE-MIDINSN: ") and "What to do:" in r.stdout
    assert "did you mean E-SITE-MIDINSN?" in fails("E-CMD-CODE", 1, "explain", "E-SITE-MIDINSM").stderr
    assert "E-SITE-NOTEXT" in fails("E-CMD-CODE", 1, "explain", "E-SITE-WHATEVER-THIS-IS").stderr
    codes = [line.split()[0] for line in dprobes("explain", check=0).stdout.splitlines()]
    assert len(codes) > 25 and len(set(codes)) == len(codes)
    r = dprobes("explain", *codes, check=0)
    for code in codes:
        assert "\n%s: " % code in "\n" + r.stdout, code


@test
def every_code_is_well_formed():
    """each code has a sentence, a suggestion and an explanation; lines fit a terminal"""
    text = open(os.path.join(ROOT, "src", "base", "errors.def")).read()
    names = re.findall(r'DP_ERROR\(\w+, "(E-[A-Z0-9-]+)"', text)
    listed = [line.split()[0] for line in dprobes("explain", check=0).stdout.splitlines()]
    assert names == listed
    for code in names:
        r = dprobes("explain", code, check=0)
        assert "What to do:" in r.stdout, code + " has no suggestion"
        assert max(map(len, r.stdout.splitlines()[1:])) <= 82, code
        assert len(r.stdout) > 100, code + " explains nothing"


@test
def wrong_command_lines():
    """wrong command lines: status 2, a code, a suggestion, nothing done"""
    assert "dprobes trace" in fails("E-CMD-UNKNOWN", 2, "trcae").stderr
    assert "--duration" in fails("E-CMD-OPTION", 2, "trace", "--durtion", "3").stderr
    fails("E-CMD-OPTION", 2, "--nonsense")
    fails("E-CMD-OPTION", 2, "trace", "-Z")
    fails("E-CMD-MISSING", 2, "trace", "-p")
    fails("E-CMD-MISSING", 2, "trace")
    fails("E-CMD-MISSING", 2, "trace", "-p", os.getpid())
    fails("E-CMD-MISSING", 2, "trace", "p foo")
    fails("E-CMD-MISSING", 2, "trace", "p foo", "--")
    fails("E-CMD-MISSING", 2, "funcs")
    fails("E-CMD-MISSING", 2, "verify")
    fails("E-CMD-EXTRA", 2, "trace", "-p", "1", "p foo", "--", "true")
    fails("E-CMD-EXTRA", 2, "funcs", "a", "b", "c")
    for pid in ("0", "-1", "99999999999", "", ","):
        fails("E-CMD-VALUE", 2, "trace", "--pid=" + pid, "p foo")
    for pid in ("x", "12x"):
        fails("E-SELECT-NONE", 1, "trace", "--pid=" + pid, "p foo")
    for duration in ("x", "0", "-1", "1h", "nan", "inf", ""):
        fails("E-CMD-VALUE", 2, "trace", "-p", "1", "--duration=" + duration, "p foo")
    for size in ("x", "0", "-1", "1T", "999G"):
        fails("E-CMD-VALUE", 2, "trace", "-p", "1", "--buffer", size, "p foo")
    fails("E-CMD-VALUE", 2, "trace", "--json=1", "-p", "1", "p foo")


@test
def no_colours_in_files():
    """no escape sequences where nobody asked for them"""
    for args in (("trcae",), ("explain", "E-SITE-TRAP"), ("funcs", "/bin/true")):
        r = dprobes(*args, env=dict(os.environ, TERM="xterm"))
        assert "\033" not in r.stdout + r.stderr, args


@test
def full_output_of_words():
    """standard output that is full is an error"""
    with open("/dev/full", "w") as full:
        p = subprocess.run([DPROBES, "explain"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 1 and "E-OUT-WRITE" in p.stderr, p.stderr
    p = subprocess.run("'%s' explain | head -n 1" % DPROBES, shell=True, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    assert not p.stderr, p.stderr


# ---- functions and code ----

@test
def funcs_of_a_file():
    """funcs FILE: address, size, outcome; patterns; nothing matches"""
    r = dprobes("funcs", target("simple"), "work", check=0)
    assert re.search(r"^[0-9a-f]{16} +\d+ jump +work$", r.stdout, re.M), r.stdout
    assert "1 functions: 1 jump" in r.stderr
    fails("E-CMD-NOMATCH", 1, "funcs", target("simple"), "no_such_*")
    fails("E-FILE-OPEN", 1, "funcs", "/no/such/file")
    r = dprobes("funcs", "/etc/passwd")
    assert r.returncode == 1 and code_of(r).startswith("E-ELF-"), r.stderr


@test
def funcs_of_a_process():
    """funcs -p PID: run-time addresses, modules before the colon"""
    p = simple()
    r = dprobes("funcs", "-p", p.pid, "work", check=0)
    addr = int(re.search(r"^([0-9a-f]{16}) .* simple:work$", r.stdout, re.M).group(1), 16)
    maps = [line.split() for line in open("/proc/%d/maps" % p.pid) if line.rstrip().endswith("/simple")]
    assert any(int(m[0].split("-")[0], 16) <= addr < int(m[0].split("-")[1], 16) and "x" in m[1] for m in maps)
    r = dprobes("funcs", "-p", p.pid, "libc:memc*", check=0)
    assert "libc:memcpy" in r.stdout and "simple:" not in r.stdout
    fails("E-MOD-NONE", 1, "funcs", "-p", p.pid, "nolib:x*")
    assert stop(p) == 0
    fails("E-PROC-NONE", 1, "funcs", "-p", p.pid, "work")


@test
def verify_sees_a_changed_byte():
    """verify: clean, then one changed byte is named, then clean again"""
    p = simple()
    assert "all as in the files" in dprobes("verify", "-p", p.pid, check=0).stdout
    # No thread runs through the padding behind main's program header: find a run of nops or zeros.
    line = next(x for x in open("/proc/%d/maps" % p.pid) if "r-xp" in x and x.rstrip().endswith("/simple"))
    hi = int(line.split()[0].split("-")[1], 16)
    with open("/proc/%d/mem" % p.pid, "r+b", 0) as mem:
        mem.seek(hi - 1)
        old = mem.read(1)
        mem.seek(hi - 1)
        mem.write(bytes([old[0] ^ 0xff]))
        r = fails("E-CMD-VERIFY", 1, "verify", "-p", p.pid)
        assert "%016x" % (hi - 1) in r.stdout and "1 bytes in 1 places" in r.stderr, (r.stdout, r.stderr)
        assert dprobes("verify", "-q", "-p", p.pid).returncode == 1
        mem.seek(hi - 1)
        mem.write(old)
    dprobes("verify", "-p", p.pid, check=0)
    assert stop(p) == 0


@test
def verify_beside_dlclose():
    """verify of a program that loads and unloads a library all the time finds nothing"""
    p = start([target("churn"), target("plugin.so"), "2"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    for _ in range(20):
        dprobes("verify", "-p", p.pid, check=0)
    assert stop(p) == 0


# ---- traces ----

@test
def carets():
    """a mistake in an event: caret under the place, hint, nothing changed in the target"""
    p = simple()
    before = settled(lambda: text_of("/proc/%d/maps" % p.pid), what="its threads to be started")
    text = "p work n=%axx"
    r = dprobes("trace", "-p", p.pid, text)
    assert r.returncode == 1 and code_of(r).startswith("E-EVENT-"), r.stderr
    lines = r.stderr.splitlines()
    at = lines.index("    " + text)
    assert re.fullmatch(r" *\^", lines[at + 1]), r.stderr
    assert text.index("%") <= lines[at + 1].index("^") - 4 < len(text), r.stderr
    assert any(line.startswith("hint: ") for line in lines)
    r = fails("E-SYM-NONE", 1, "trace", "-p", p.pid, "p wrok")
    assert "work" in r.stderr
    with tempfile.NamedTemporaryFile("w", suffix=".events") as f:
        f.write("# comment\n\np work\np work n=%axx\n")
        f.flush()
        r = dprobes("trace", "-p", p.pid, "-f", f.name)
        assert r.returncode == 1 and f.name + ":4: " in r.stderr, r.stderr
    fails("E-CMD-EVENTS", 1, "trace", "-p", p.pid, "-f", "/no/such/file")
    assert open("/proc/%d/maps" % p.pid).read() == before
    assert not code_differs(p.pid)
    assert stop(p) == 0


@test
def events_from_everywhere():
    """events as arguments, with -e and from a file, in one trace"""
    p = simple()
    with tempfile.NamedTemporaryFile("w", suffix=".events") as f:
        f.write("# comment\n\n  p:third leaf if $arg1 % 1000 == 0\n")
        f.flush()
        r = dprobes("trace", "--json", "-p", p.pid, "--duration", "0.5", "p:first work if $arg1 % 1000 == 0", "-e",
                    "p:second outer if $arg1 % 1000 == 0", "-f", f.name, check=0)
    seen = {e["event"]: e["symbol"] for e in json_lines(r.stdout)}
    assert seen == {"first": "work", "second": "outer", "third": "leaf"}, (seen, r.stderr)
    assert stop(p) == 0


@test
def json_is_json():
    """every line is an object with all members"""
    p = simple()
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "0.3", "p work n=%di:s64 if $arg1 % 500 == 0",
                "r work v=$retval if $retval % 500 == 94", check=0)
    lines = r.stdout.splitlines()
    assert len(lines) > 20, r.stderr
    for line in lines:
        e = json.loads(line)
        assert {"ts", "task", "tid", "cpu", "event", "group", "symbol", "offset", "return", "args"} <= set(e), e
        assert e["task"] == "simple" and e["event"] == "work" and e["symbol"] == "work"
        assert e["return"] == ("caller" in e)
        assert not e["return"] or e["caller"].startswith("outer+0x"), e
    assert stop(p) == 0


@test
def returns_name_the_caller():
    """an unnamed return event shows the function that is returned to"""
    p = simple()
    r = dprobes("trace", "-p", p.pid, "--duration", "0.3", "r work if $retval % 100 == 94", check=0)
    assert re.search(r"simple-\d+ +\[\d{3}\] +\d+\.\d{6}: outer: <-work\+0$", r.stdout, re.M), r.stdout[:400]
    assert "<-work " in r.stderr
    assert stop(p) == 0


@test
def full_disk():
    """-o on a full disk: a coded error, status 1, probes removed"""
    p = simple()
    fails("E-OUT-WRITE", 1, "trace", "-p", p.pid, "-o", "/dev/full", "--duration", "20", "p work n=%di")
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    fails("E-OUT-OPEN", 1, "trace", "-p", p.pid, "-o", "/no/such/dir/x", "p work")
    # In the middle of the stream: a file system that fills up.
    with tempfile.TemporaryDirectory() as d:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", d], stderr=subprocess.DEVNULL).returncode:
            raise Skip("a tmpfs cannot be mounted here")
        try:
            r = fails("E-OUT-WRITE", 1, "trace", "-p", p.pid, "-o", d + "/out", "--duration", "20", "p work n=%di")
            assert "HITS" in r.stderr
            assert os.path.getsize(d + "/out") > 100000
        finally:
            subprocess.run(["umount", d], check=True)
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    assert stop(p) == 0


@test
def limit_on_files():
    """a limit on the size of files ends the trace in order, not by a signal"""
    p = simple()
    with tempfile.TemporaryDirectory() as d:
        r = subprocess.run("ulimit -f 20480; exec '%s' trace -p %d -o '%s/out' --duration 20 'p work n=%%di'"
                           % (DPROBES, p.pid, d), shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, timeout=60)
        assert r.returncode == 1 and code_of(r) in ("E-OUT-WRITE", "E-TARGET-SHARE"), (r.returncode, r.stderr)
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    assert stop(p) == 0


@test
def lists_into_head():
    """`| head` ends a list as it ends every such tool: no error, no count of what was not looked at; also where
    SIGPIPE is ignored"""
    for before, status in (("", 128 + signal.SIGPIPE), ("trap '' PIPE; ", 0)):
        r = subprocess.run(["bash", "-c", before + "'%s' funcs /bin/bash | head -n 1; echo ${PIPESTATUS[0]}" % DPROBES],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        assert r.stdout.startswith("ADDRESS") and r.stdout.splitlines()[1:] == [str(status)], (before, r)
        assert not r.stderr, (before, r.stderr)


@test
def leftovers():
    """what a killed trace has left: verify says whose it is, clean takes it away, but not what belongs to one that
    runs"""
    p = simple("1")
    for kill in (True, False):
        t = trace_start("-p", p.pid, "p work n=%di")
        wait_for(lambda: in_place(p.pid), what="the jump")
        if kill:
            stop(t, signal.SIGKILL)
        told = fails("E-CMD-VERIFY", 1, "verify", "-p", p.pid)
        owner = "process %d, which %s" % (t.pid, "was killed" if kill else "runs")
        assert "(a probe of dprobes)" in told.stdout and owner in told.stderr, told
        if kill:
            assert "clean again" in dprobes("clean", "-p", p.pid, check=0).stdout
            assert "no probes are left" in dprobes("clean", "-p", p.pid, check=0).stdout
            assert not code_differs(p.pid)
            dprobes("verify", "-p", p.pid, check=0)
        else:
            fails("E-TARGET-BUSY", 1, "clean", "-p", p.pid)
            assert stop(t, signal.SIGINT) == 0
    fails("E-CMD-MISSING", 2, "clean")
    stop(p)


@test
def background_in_a_script():
    """a trace that a script has put into the background, with SIGINT ignored, ends on SIGINT; its program still
    ignores it"""
    out = tempfile.NamedTemporaryFile("r", prefix="dp-int-")
    script = "'%s' trace -o /dev/null 'p libc:puts' -- " \
             "sh -c 'grep SigIgn /proc/self/status > %s; exec >/dev/null 2>&1; while sleep 1; do :; done' & " \
             "echo $!; wait"
    p = start(["bash", "-c", script % (DPROBES, out.name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(p.stdout.readline())
    wait_for(lambda: text_of(out.name).endswith("\n"), what="the program")
    assert int(text_of(out.name).split()[1], 16) >> signal.SIGINT - 1 & 1
    children = text_of("/proc/%d/task/%d/children" % (pid, pid)).split()  # the program, and who watches over the trace
    (child,) = [int(x) for x in children if text_of("/proc/%s/cmdline" % x).startswith("sh\0")]
    os.kill(pid, signal.SIGINT)
    try:
        _, err = p.communicate(timeout=60)
        assert "1 probe, 1 never hit (puts)" in err, err
    finally:
        os.kill(child, signal.SIGKILL)


@test
def a_reader_that_leaves():
    """`| head` ends the trace quietly, probes removed"""
    p = simple()
    r = subprocess.run("'%s' trace -p %d --duration 20 'p work n=%%di' | head -n 6" % (DPROBES, p.pid), shell=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert len(r.stdout.splitlines()) == 6
    assert "E-OUT" not in r.stderr and "HITS" in r.stderr, r.stderr
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    assert stop(p) == 0


@test
def a_reader_that_sleeps():
    """a pipe that is not read does not keep the probes in place after Ctrl-C"""
    p = simple()
    t = start([DPROBES, "trace", "-p", str(p.pid), "p work n=%di"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: in_place(p.pid), what="probes")
    time.sleep(1)
    t.send_signal(signal.SIGINT)
    assert t.wait(60) == 0, t.stderr.read()
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    t.stdout.close()
    t.stderr.close()
    assert stop(p) == 0


@test
def signals_end_it():
    """SIGINT, SIGTERM and SIGHUP end a trace: summary, status 0, probes removed"""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        p = simple()
        # Few events: the end waits until all are written, and disks can be slow.
        t = trace_start("-p", p.pid, "p work n=%di if $arg1 % 10000 == 5")
        wait_for(lambda: "work" in text_of(t.out_path), what="events")
        t.send_signal(sig)
        assert t.wait(60) == 0, text_of(t.err_path)
        assert "HITS" in text_of(t.err_path)
        assert not code_differs(p.pid) and not our_mappings(p.pid)
        assert stop(p) == 0


@test
def the_targets_end_ends_it():
    """the trace ends with the target; all its events are there"""
    p = start([target("simple"), "1", "20000000", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline().startswith(b"ready")
    t = armed(trace_start("--json", "-p", p.pid, "p work n=%di:s64 if $arg1 % 100000 == 5"), p.pid)
    p.stdin.close()
    assert p.wait(60) == 0
    assert t.wait(60) == 0, text_of(t.err_path)
    ns = [e["args"]["n"] for e in json_lines(text_of(t.out_path))]
    assert ns and ns[-1] == 19900005, (ns[-3:], text_of(t.err_path))


@test
def events_come_while_it_runs():
    """events stream out; they are not kept until the end"""
    p = simple()
    t = trace_start("-p", p.pid, "p work n=%di")
    wait_for(lambda: text_of(t.out_path).count("@work+0") > 10, timeout=60, what="live events")
    assert t.poll() is None
    assert stop(t, signal.SIGINT) == 0
    assert stop(p) == 0


def full(pipe):
    """Whether nothing more can be written."""
    return array.array("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


@test
def a_log_that_grows():
    """log: a log that grows faster than it is shown is shown as it was, to its last whole line; --follow ends well on
    SIGINT beside it, also within a write that waits for its reader"""
    line = b"x" * 99 + b"\n"
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "wb", buffering=0) as log:
        def started(*args):
            return start([DPROBES, "log", *args], stdout=subprocess.PIPE, env=dict(os.environ, DPROBES_DIR=folder))

        log.write(line * 10000 + line[:50])  # a line that is being written
        p = started()
        shown = p.stdout.read(1 << 16)
        log.write(line[50:] + line * 10000)
        shown += p.communicate(timeout=60)[0]
        assert p.returncode == 0 and shown in (line * 10000 + line[:50], line * 10001), (len(shown), shown[-200:])
        p, n = started("--follow"), 0
        while n < 1 << 22:
            n += len(p.stdout.read(1 << 16))
            log.write(line * 1000)
        wait_for(lambda: full(p.stdout) and text_of("/proc/%d/syscall" % p.pid).startswith("1 "), timeout=60,
                 what="a write that waits")
        p.send_signal(signal.SIGINT)
        wait_for(lambda: re.search("^ShdPnd:\t0*$", text_of("/proc/%d/status" % p.pid), re.M), timeout=60,
                 what="a signal that is taken")
        rest = b""
        while part := p.stdout.read(1 << 16):
            rest = part
            log.write(line * 1000)
        assert p.wait(timeout=60) == 0 and rest.endswith(b"\n"), (p.returncode, rest[-200:])


@test
def quiet_mode():
    """--quiet says nothing when nothing is wrong"""
    p = simple()
    r = dprobes("trace", "-q", "-p", p.pid, "--duration", "0.3", "p work if $arg1 % 5000 == 7", check=0)
    assert not r.stderr, r.stderr
    assert "@work+0" in r.stdout
    assert stop(p) == 0


@test
def losses_are_told():
    """a ring that is too small: losses are counted and told, and the sums are right"""
    r = dprobes("trace", "-q", "--buffer", "4k", "--json", "-o", "/dev/null", "p work", "--", target("simple"), "4",
                "200000", check=0)
    assert "had no room" in r.stderr, r.stderr
    r = dprobes("trace", "--buffer", "4k", "--json", "p:w work", "--", target("simple"), "4", "200000", check=0)
    row = next(line.split() for line in r.stderr.splitlines() if line.startswith("w "))
    hits, recorded, filtered, passed, missed, lost = map(int, row[2:8])
    assert hits == 800000 == recorded + filtered + passed + missed + lost, row
    assert lost > 0 and len(json_lines(r.stdout)) == recorded, (row, len(json_lines(r.stdout)))


@test
def commands():
    """programs that are started: output, events from the first instruction on, no such program, bad event"""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        r = dprobes("trace", "-o", out, "p:m main", "--", target("simple"), "1", "10", check=0)
        assert "calls 10 bad 0" in r.stdout
        assert text_of(out).count(": m: @main+0") == 1, text_of(out)
        r = dprobes("trace", "-o", out, "--", "cat", "/etc/hostname", check=0)
        assert "no event given" in r.stderr
        assert '"/etc/hostname"' in text_of(out), text_of(out)
    r = dprobes("trace", "p main", "--", "/no/such/program")
    assert r.returncode == 1 and code_of(r), r.stderr
    r = dprobes("trace", "p no_such_function", "--", target("simple"), "7", "7")
    assert r.returncode == 1 and "ready" not in r.stdout
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and
            b"simple\0" + b"7\0" + b"7\0" in open_cmdline(pid)]
    assert not left, "a program that was never let go is still there"


def open_cmdline(pid):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


@test
def other_pid_namespace():
    """a target in another pid namespace: its threads go by our ids and their names"""
    need("unshare")
    p = start(["unshare", "--pid", "--fork", "--kill-child", target("simple"), "2"], stdout=subprocess.PIPE,
              stderr=subprocess.PIPE, text=True)
    if not p.stdout.readline().startswith("ready"):
        raise Skip("unshare: " + p.stderr.read().strip())
    pid = children_of(p.pid)[0]
    r = dprobes("trace", "--json", "-p", pid, "--duration", "0.5", "p work if $arg1 % 500 == 0", check=0)
    events = json_lines(r.stdout)
    assert events and all(e["task"] == "simple" for e in events), events[:2]
    tids = {int(t) for t in os.listdir("/proc/%d/task" % pid)}
    assert {e["tid"] for e in events} <= tids, (events[:2], tids)
    stop(p, signal.SIGKILL)  # unshare ignores the others


run()
