# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs that answer lines, and tests that begin and end without probes of the driver."""
import contextlib
import ctypes
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile

from tap import PATIENCE, Skip, code_differs, dprobes, need, our_mappings, standing, start, stop, target, test
from tap import text_of, wait_for

COUNTS = target("counts")
FUNCTIONS = ["steady", "left", "right", "several"]


class Live:
    """A program that says "ready" and answers each line with one."""

    def __init__(self, argv, **kw):
        self.p = start([argv] if isinstance(argv, str) else argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       text=True, **kw)
        assert self.p.stdout.readline() == "ready\n"
        self.pid = self.p.pid

    def __call__(self, line):
        self.p.stdin.write("%s\n" % line)
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        return self.p.wait(60)


class Counts(Live):
    """targets/counts: calls so far of each function, while its threads stand still."""

    def __init__(self, threads=4, *plugin, program=COUNTS, **kw):
        super().__init__([program, str(threads), *plugin], **kw)

    def calls(self):
        return dict(zip(FUNCTIONS, map(int, self("stop").split())))

    def go(self):
        assert self("go") == "ok"

    def clean_end(self):
        left = our_mappings(self.pid), code_differs(self.pid), dprobes("list", "-p", self.pid).stdout
        assert not left[0] and not left[1], left
        self.go()
        assert self.end() == 0


def rpn_program(folder, name, probes, module=COUNTS, header="vars = 8"):
    """A file of the language. probes: (offset, code) or (offset, code, more)"""
    path = os.path.join(folder, name + ".rpn")
    with open(path, "w") as f:
        f.write("name = %s\nid = 7\n%s\n" % (module, header))
        for p in probes:
            f.write("offset = %s\n%s\n%s\n" % (p[0], p[2] if len(p) > 2 else "", p[1]))
    return path


def sums(text, probe=0):
    """the counts of a probe in all processes: hits, and the parts that they are made of"""
    m = re.search(r"probe %d: .*hits (\d+): recorded (\d+), passed over (\d+), not logged (\d+), missed (\d+), "
                  r"lost (\d+)" % probe, text)
    v = [int(x) for x in m.groups()]
    assert v[0] == sum(v[1:]), m.group(0)
    return v


def call_in(pid, number, *args):
    """A system call of the process, made from outside by its main thread, with an instruction of the vdso: what it
    gives, as signed; "signal N": the process ended of it. Debuggers write all registers for that, and fail where the
    processor has more than they know."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    kept, regs = (ctypes.c_uint64 * 27)(), (ctypes.c_uint64 * 27)()

    def request(what, data=None):
        assert libc.ptrace(what, pid, None, data) == 0, os.strerror(ctypes.get_errno())

    request(16)  # PTRACE_ATTACH
    os.waitpid(pid, 0)
    request(12, ctypes.addressof(kept))  # PTRACE_GETREGS
    lo, hi = re.search(r"^(\w+)-(\w+) .*\[vdso\]$", text_of("/proc/%d/maps" % pid), re.M).groups()
    with open("/proc/%d/mem" % pid, "rb") as f:
        f.seek(int(lo, 16))
        at = f.read(int(hi, 16) - int(lo, 16)).index(b"\x0f\x05") + int(lo, 16)
    ctypes.memmove(regs, kept, ctypes.sizeof(kept))
    regs[10], regs[15], regs[16] = number, 2**64 - 1, at  # rax, orig_rax, rip
    for place, value in zip((14, 13, 12, 7, 9, 8), args):
        regs[place] = value
    request(13, ctypes.addressof(regs))  # PTRACE_SETREGS
    request(9)  # PTRACE_SINGLESTEP
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        return "signal %d" % os.WTERMSIG(status)
    request(12, ctypes.addressof(regs))
    request(13, ctypes.addressof(kept))
    request(17)  # PTRACE_DETACH
    return ctypes.c_int64(regs[10]).value


def owners(pid):
    """The dprobes that have probes in a process."""
    return {int(x) for line in standing(pid) for x in re.findall(r" dprobes (\d+)", line)}


def armed(t, pid):
    """A trace whose probes stand."""
    wait_for(lambda: t.poll() is not None or t.pid in owners(pid), what="the probes")
    assert t.poll() is None, text_of(t.err_path)
    return t


def system_calls(pid, command):
    """How many times the process reads by a system call while a command is carried out."""
    need("strace")
    out = tempfile.NamedTemporaryFile("w+", prefix="dp-strace-")
    p = start(["strace", "-f", "-e", "trace=process_vm_readv", "-o", out.name, "-p", str(pid)],
              stderr=subprocess.PIPE, text=True)
    assert "attached" in p.stderr.readline()
    command()
    stop(p, signal.SIGINT)
    return len(re.findall(r"process_vm_readv\(", text_of(out.name)))


def place_of(pid, program, function):
    """Address and size of a function of our target."""
    with open("/proc/%d/maps" % pid) as f:
        base = int(next(line for line in f if line.rstrip().endswith("/" + program)).split("-")[0], 16)
    nm, = need("nm")
    text = subprocess.run([nm, "-S", target(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.search(r"^(\w+) (\w+) \w %s$" % function, text, re.M)
    return base + int(found.group(1), 16), int(found.group(2), 16)


@contextlib.contextmanager
def foreign_byte(pid, program, function, byte=b"\xcc"):
    """Somebody else's, a breakpoint say, at a function of our target that nobody calls meanwhile: it stays."""
    addr, _ = place_of(pid, program, function)
    with open("/proc/%d/mem" % pid, "r+b", 0) as mem:
        mem.seek(addr)
        was = mem.read(1)
        mem.seek(addr)
        mem.write(byte)
        yield
        mem.seek(addr)
        assert mem.read(1) == byte
        mem.seek(addr)
        mem.write(was)


def clean():
    dprobes("-r", "-a", check=0)
    dprobes("log", "--clear", check=0)


def alone(fn):
    """A test that begins and ends without probes and with an empty log."""
    @functools.wraps(fn)
    def wrapped():
        clean()
        try:
            fn()
        finally:
            clean()
    return test(wrapped)


LAST_PID = "/proc/sys/kernel/ns_last_pid"  # the number that was given to a process last


def set_last_pid(number):
    with open(LAST_PID, "w") as f:
        f.write(str(number))


def with_own_pids(test_file, name, **env):
    """One test of the file again, as DP_OWN_PIDS in a namespace of process ids of its own, where ids can be chosen."""
    need("unshare")
    if os.geteuid() != 0 or not os.access(LAST_PID, os.W_OK):
        raise Skip("%s cannot be written" % LAST_PID)
    r = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c",
                        'mount -t tmpfs none /run && exec "$0" "$1"', sys.executable, os.path.abspath(test_file)],
                       env=dict(os.environ, DP_ONLY=name, DP_OWN_PIDS="1", **env), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120 * PATIENCE)
    assert r.returncode == 0 and "\nok 1 - " in r.stdout and "# SKIP" not in r.stdout, r.stdout[-3000:]


def drivers():
    """Process ids of the test's own drivers."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                line = f.read().split(b"\0")
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = f.read().split(b"\0")
        except OSError:
            continue
        ours = line[0] == b"dprobesd" or line[1:2] == [b"driver"]
        if ours and ("DPROBES_DIR=" + os.environ["DPROBES_DIR"]).encode() in env:
            found.append(int(pid))
    return found


def kill_drivers():
    """Kill the test's own drivers. One that has nothing left to do may end by itself meanwhile."""
    for pid in drivers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
