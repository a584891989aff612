# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Bad input: each a coded message and a failing status, and the target is as it was."""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import foreign_byte  # noqa: E402


def ready(*argv):
    p = start([argv[0] if argv[0][0] == "/" else target(argv[0]), *argv[1:]], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready"), argv
    # The first thread that a program makes changes signal actions and mappings.
    wait_for(lambda: len(os.listdir("/proc/%d/task" % p.pid)) == int(argv[1]) + 1, what="threads")
    return p


def code_of(r):
    m = re.search(r"^dprobes: (E-[A-Z0-9-]+): ", r.stderr, re.M)
    return m.group(1) if m else None


def coded(r, *codes):
    assert r.returncode in (1, 2), (r.returncode, r.stderr)
    assert code_of(r) in codes, (codes, r.stderr)
    return r


def code_maps(pid):
    return [line for line in text_of("/proc/%d/maps" % pid).splitlines() if "x" in line.split()[1]]


def masks(pid):
    return re.findall(r"^Sig(?:Cgt|Ign):.*", text_of("/proc/%d/status" % pid), re.M)


def fails(p, codes, *args, **kw):
    """The trace fails with one of these codes; the process keeps its bytes, mappings and signal actions."""
    maps, sig = code_maps(p.pid), masks(p.pid)
    r = coded(dprobes("trace", "-p", p.pid, "--duration", "0.2", *args, **kw), *codes.split())
    assert not code_differs(p.pid), code_differs(p.pid)
    assert code_maps(p.pid) == maps and not our_mappings(p.pid)
    assert masks(p.pid) == sig
    assert p.poll() is None
    return r


def finish(p):
    assert stop(p) == 0, p.returncode
    return p.stdout.read() if p.stdout else ""


@test
def unknown_symbol():
    """unknown function and module, with a suggestion"""
    p = ready("simple", "1")
    assert "outer" in fails(p, "E-SYM-NONE", "p outre").stderr
    assert "malloc" in fails(p, "E-SYM-NONE", "p libc:mallok").stderr
    fails(p, "E-MOD-NONE", "p lbic:malloc")
    fails(p, "E-SYM-NONE E-CMD-NOMATCH", "p nothing_at_all_*")
    finish(p)


@test
def middle_of_an_instruction():
    """an address in the middle of an instruction: its neighbours are named"""
    objdump, = need("objdump")
    p = ready("simple", "1")
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", target("simple")], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    body = text.split("<work>:")[1].split("\n\n")[0]
    at = [int(m, 16) for m in re.findall(r"^\s+([0-9a-f]+):", body, re.M)]
    i = next(i for i in range(len(at) - 1) if at[i + 1] - at[i] > 2)
    inside, low, high = at[i] - at[0] + 1, at[i] - at[0], at[i + 1] - at[0]
    r = fails(p, "E-SITE-MIDINSN", "p work+%d" % inside)
    for n in (low, high):
        assert re.search(r"work\+0x%x\b|\+%d\b|0x%x\b" % (n, n, n), r.stderr) or (n == 0 and "work" in r.stderr), \
            (n, r.stderr)
    fails(p, "E-SITE-NOTEXT E-SITE-NOFUNC E-SITE-MIDINSN E-EVENT-OFFSET E-EVENT-LOCATION", "p work+99999999")
    fails(p, "E-SITE-NOTEXT E-SITE-NOFUNC E-EVENT-LOCATION E-MOD-NONE", "p 0x1000")
    finish(p)


@test
def stripped():
    """a stripped program: exported functions work, others are a clear error"""
    strip, = need("strip")
    with tempfile.TemporaryDirectory() as d:
        path = d + "/bare"
        subprocess.run([strip, "-o", path, target("simple")], check=True)
        p = ready(path, "1")
        r = dprobes("trace", "--json", "-p", p.pid, "--duration", "0.3", "p work n=%di:s64", check=0)
        assert len(json_lines(r.stdout)) > 10, r.stderr
        fails(p, "E-SYM-NONE", "p on_term")
        finish(p)
        path = d + "/static"
        subprocess.run([strip, "-o", path, target("simple-static")], check=True)
        p = ready(path, "1")
        fails(p, "E-SYM-NONE", "p work")
        finish(p)


@test
def not_ours():
    """a process of somebody else, asked by an ordinary user"""
    if os.getuid():
        raise Skip("needs root, to become somebody else")
    setpriv, = need("setpriv")
    p = ready("simple", "1")
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        shutil.copy(DPROBES, d)
        r = subprocess.run([setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", d + "/dprobes", "trace", "-p",
                            str(p.pid), "p work"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, timeout=60)
    coded(r, "E-TARGET-PERM", "E-PROC-PERM")
    assert not code_differs(p.pid)
    finish(p)


@test
def no_such_process():
    """a dead process, a zombie, an id that nobody has"""
    p = ready("simple", "1")
    p.send_signal(signal.SIGKILL)
    wait_for(lambda: re.search(r"^State:\s*Z", text_of("/proc/%d/status" % p.pid), re.M), what="zombie")
    # The last: other threads than the first may still be ending.
    coded(dprobes("trace", "-p", p.pid, "p work"), "E-PROC-DEAD", "E-PROC-NONE", "E-TARGET-GONE")
    p.wait()
    coded(dprobes("trace", "-p", p.pid, "p work"), "E-PROC-NONE")
    coded(dprobes("trace", "-p", 2147483647, "p work"), "E-PROC-NONE")


@test
def dprobes_itself():
    """its own process"""
    sh, = need("sh")
    r = subprocess.run([sh, "-c", 'exec "$0" trace -p $$ "p main"', DPROBES], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=60, stdin=subprocess.DEVNULL)
    coded(r, "E-TARGET-SELF")


@test
def kernel_thread():
    """a kernel thread"""
    try:
        stat = text_of("/proc/2/stat")
    except OSError:
        raise Skip("no kernel thread is visible here")
    if not int(stat.rsplit(")", 1)[1].split()[6]) & 0x200000:
        raise Skip("process 2 is no kernel thread here")
    coded(dprobes("trace", "-p", 2, "p work"), "E-PROC-KTHREAD")


CODE32 = """
	.globl _start
_start:	mov $162, %eax		# nanosleep
	mov $span, %ebx
	xor %ecx, %ecx
	int $0x80
	jmp _start
	.data
span:	.long 1, 0
"""


@test
def thirty_two_bits():
    """a 32-bit program"""
    need("as", "ld")
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/a.s", "w") as f:
            f.write(CODE32)
        for argv in (["as", "--32", "-o", d + "/a.o", d + "/a.s"],
                     ["ld", "-m", "elf_i386", "-o", d + "/a", d + "/a.o"]):
            if subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                raise Skip("binutils cannot make 32-bit programs")
        try:
            p = start([d + "/a"])
        except OSError as e:
            raise Skip("this kernel runs no 32-bit programs (%s)" % e.strerror)
        time.sleep(0.1)
        if p.poll() is not None:
            raise Skip("this kernel runs no 32-bit programs")
        coded(dprobes("trace", "-p", p.pid, "p _start"), "E-PROC-32BIT")
        assert p.poll() is None and not code_differs(p.pid)
        stop(p, signal.SIGKILL)


@test
def output_that_fails():
    """-o on a full disk, in a directory that is not there, on a directory, under a file"""
    p = ready("simple", "1")
    fails(p, "E-OUT-WRITE", "-o", "/dev/full", "p work n=%di")
    fails(p, "E-OUT-WRITE", "-o", "/dev/full", "--json", "p work n=%di")
    fails(p, "E-OUT-OPEN", "-o", "/nowhere/at/all", "p work")
    fails(p, "E-OUT-OPEN", "-o", "/", "p work")
    fails(p, "E-OUT-OPEN", "-o", "/etc/passwd/x", "p work")
    finish(p)


@test
def process_ids():
    """-p with what is no process: not a number, empty, too large"""
    p = ready("simple", "1")
    for bad in ("", ",", "-3", "0", "99999999999999999999", "%d,0" % p.pid):
        r = coded(dprobes("trace", "--pid=" + bad, "p work"), "E-CMD-VALUE")
        assert r.returncode == 2
    for bad in ("x", "1.5", "12 13", "%d,x" % p.pid):
        r = coded(dprobes("trace", "--pid=" + bad, "p work"), "E-SELECT-NONE")
        assert r.returncode == 1
    finish(p)


@test
def bad_events():
    """an empty event, one bad among good ones, two bad ones: nothing is armed"""
    p = ready("simple", "1")
    fails(p, "E-EVENT-KIND E-EVENT-LOCATION", "")
    fails(p, "E-EVENT-KIND E-EVENT-LOCATION", "   ")
    fails(p, "E-EVENT-LOCATION", "p")
    fails(p, "E-SYM-NONE", "p work", "p wrok")
    fails(p, "E-EVENT-REG", "p work n=%di", "r outer", "p work x=%zz")
    r = fails(p, "E-EVENT-REG", "p work x=%zz", "p work x=")
    assert "^" in r.stderr
    fails(p, "E-EVENT-RETOFFSET E-EVENT-LOCATION", "r work+3")
    fails(p, "E-ARM-NONE E-CMD-MISSING", "-f", "/dev/null")
    finish(p)


@test
def already_traced():
    """a process of which another tracer holds the first thread, or any other one"""
    code = ("import ctypes, os, sys, time\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "libc.ptrace.argtypes = [ctypes.c_long] * 4\n"
            "print(libc.ptrace(0x4206, %d, 0, 0), flush=True)\n"
            "time.sleep(60)\n")
    p = ready("simple", "2")
    t = start([sys.executable, "-c", code % p.pid], stdout=subprocess.PIPE, text=True)
    assert t.stdout.readline() == "0\n"
    fails(p, "E-TARGET-TRACED", "p work")
    stop(t, signal.SIGKILL)
    # The other tracer holds one thread only, and not the first.
    tid = max(int(x) for x in os.listdir("/proc/%d/task" % p.pid))
    t = start([sys.executable, "-c", code % tid], stdout=subprocess.PIPE, text=True)
    assert t.stdout.readline() == "0\n"
    fails(p, "E-TARGET-TRACED", "p work")
    stop(t, signal.SIGKILL)
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", "0.3", "p work", check=0)
    assert json_lines(r.stdout)
    # It comes while we trace, and stays: probes that cannot be taken out are told, and are no success.
    for line in "p work", "p work count":
        ours = trace_start("-p", p.pid, line)
        wait_for(lambda: code_differs(p.pid), what="the probe")
        t = start([sys.executable, "-c", code % p.pid], stdout=subprocess.PIPE, text=True)
        assert t.stdout.readline() == "0\n"
        assert stop(ours, signal.SIGINT) == 1
        told = text_of(ours.err_path)
        assert "E-TARGET-TRACED" in told or "could be taken out (`dprobes clean -p %d`" % p.pid in told, told
        assert code_differs(p.pid)
        stop(t, signal.SIGKILL)
        dprobes("clean", "-p", p.pid)
        assert not code_differs(p.pid) and not our_mappings(p.pid)
    finish(p)


@test
def busy():
    """a breakpoint of another dprobes at an instruction: E-SITE-TAKEN, and the first one goes on"""
    p = start([target("signals"), "own-trap"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    t = trace_start("--json", "-p", p.pid, "--allow-trap", "p tiny")
    wait_for(lambda: '"event"' in text_of(t.out_path) or t.poll() is not None, what="events")
    r = coded(dprobes("trace", "-p", p.pid, "--duration", "0.2", "--allow-trap", "p tiny"), "E-ARM-SITE")
    assert "E-SITE-TAKEN" in r.stderr, r.stderr
    size = os.path.getsize(t.out_path)
    wait_for(lambda: os.path.getsize(t.out_path) > size, what="further events")
    assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    finish(p)


@test
def skip_refused():
    """--skip-refused: what can be probed is traced, all else is listed with its reason"""
    p = ready("simple", "1")
    base = ["trace", "--json", "-p", p.pid, "--duration", "0.3", "--skip-refused"]
    with foreign_byte(p.pid, "simple", "on_term"):
        r = dprobes(*base, "p work", "p nosuch", "p on_term", "p libc:malloc+1", check=0)
        events = {e["symbol"] for e in json_lines(r.stdout)}
        assert events == {"work"}, events
        for place, code in (("nosuch", "E-SYM-NONE"), ("on_term", "E-SITE-FOREIGN"), ("malloc", "E-SITE-")):
            assert re.search("^note: left out.*%s.*%s" % (place, code), r.stderr, re.M), (place, r.stderr)
        coded(dprobes("trace", "-p", p.pid, "--duration", "0.2", "p work", "p on_term"), "E-SITE-FOREIGN")
        r = coded(dprobes(*base, "p nosuch", "p neither"), "E-ARM-NONE")
        assert len(re.findall("^note: left out: p n.*E-SYM-NONE", r.stderr, re.M)) == 2, r.stderr
        coded(dprobes(*base, "p nosuch"), "E-SYM-NONE")
        coded(dprobes(*base, "p on_term"), "E-ARM-NONE")
    coded(dprobes(*base, "p work n=%zz", "p work"), "E-EVENT-REG")
    coded(dprobes(*base, "p work", "--until", "p work"), "E-CMD-EXTRA")
    coded(dprobes(*base, "p work count("), "E-ARM-NONE")
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    finish(p)


@test
def skip_refused_programs():
    """the same of lines that are compiled: names that are not known, places that are refused"""
    p = ready("simple", "1")
    base = ["trace", "--json", "-p", p.pid, "--duration", "0.3", "--skip-refused"]
    with foreign_byte(p.pid, "simple", "on_term"):
        r = dprobes(*base, "p work where=$ip", "p work count by $comm", "p work $nothing", "p nosuch $comm",
                    "p on_term $comm", "p libc:nosuch count", "end { log($pid); }", check=0)
        assert {e["symbol"] for e in json_lines(r.stdout) if "event" in e and e["symbol"]} == {"work"}, r.stdout
        assert '"aggregate"' in r.stdout, r.stdout
        for place, code in (("nosuch", "E-SYM-NONE"), ("nothing", "E-LINE-NODEBUG"), ("on_term", "E-SITE-FOREIGN"),
                            ("libc:nosuch", "E-SYM-NONE")):
            assert re.search("^note: left out.*%s.*%s" % (place, code), r.stderr, re.M), (place, r.stderr)
        coded(dprobes(*base, "p work count by $comm", "end { log($tid); }"), "E-DPCC-BODY")
        coded(dprobes(*[o for o in base if o != "--skip-refused"], "p work count", "p nosuch $comm"), "E-SYM-NONE")
    assert not code_differs(p.pid) and not our_mappings(p.pid)
    finish(p)


@test
def foreign_breakpoint():
    """code that somebody else has changed: E-SITE-FOREIGN, and the change stays"""
    p = ready("simple", "1")
    with foreign_byte(p.pid, "simple", "on_term"):
        coded(dprobes("trace", "-p", p.pid, "--duration", "0.2", "p on_term"), "E-SITE-FOREIGN")
    assert not our_mappings(p.pid)
    finish(p)


@test
def traced_itself():
    """under strace -f a program to start is traced already: that is said, and nothing waits"""
    need("strace")
    command = [DPROBES, "trace", "p main", "--", target("simple"), "1", "1"]
    r = subprocess.run(["strace", "-f", "-o", "/dev/null", *command],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=60)
    if "PTRACE" in r.stderr or "ptrace" in r.stderr:
        raise Skip("strace cannot trace here: %s" % r.stderr[-200:])
    assert r.returncode == 1 and "E-TARGET-TRACED" in r.stderr and "as dprobes is" in r.stderr, r


@test
def bad_programs():
    """programs to start that are not there or not programs; a bad event ends what was started"""
    coded(dprobes("trace", "p main", "--", "/nowhere/at/all"), "E-FILE-OPEN")
    coded(dprobes("trace", "p main", "--", "/dev/null"), "E-FILE-OPEN")
    coded(dprobes("trace", "p nothing_of_this_name", "--", target("simple"), "1", "10"), "E-SYM-NONE")


@test
def output_stays():
    """a command that fails before its probes are in place leaves the file of -o as it was, or none; one that ends well
    with nothing to show leaves it empty"""
    simple, out = target("simple"), os.path.join(tempfile.mkdtemp(), "out")
    for args in (("record", "p nothing_of_this_name"), ("record", "p main n=%zz"), ("trace", "p nothing_of_this_name"),
                 ("trace", "p nothing_of_this_name count()"), ("trace", "--format", "csv", "p nothing_of_this_name"),
                 ("graph", "nothing_of_this_name"), ("trace", "--format", "html", "p nothing_of_this_name"),
                 ("record", "p work $n count()"), ("trace", "p nothing_of_this_name", "r main if $duration > 1")):
        assert dprobes(*args, "-o", out, "--", simple, "1", "10").returncode and not os.path.exists(out), args
        with open(out, "w") as f:
            f.write("what was there\n" * 1000)
        assert dprobes(*args, "-o", out, "--", simple, "1", "10").returncode, args
        assert text_of(out) == "what was there\n" * 1000, args
        os.unlink(out)
    for what in ("longer than what comes\n" * 1000, ""):
        with open(out, "w") as f:
            f.write(what)
        dprobes("trace", "-q", "--format", "json", "-o", out, "p work if $arg1 == 99", "--", simple, "1", "10", check=0)
        assert text_of(out) == "", text_of(out)
    os.unlink(out)
    os.rmdir(os.path.dirname(out))


run()
