# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Small helpers of the end-to-end tests: TAP lines, targets, the command under test."""
import atexit
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.environ.get("DP_BUILD", os.path.abspath("build"))
DPROBES = os.environ.get("DPROBES", os.path.join(BUILD, "src", "cmd", "dprobes"))
TARGETS = os.path.join(BUILD, "tests", "process", "targets")

# So many times longer may all take, where other work has the processors.
PATIENCE = int(os.environ.get("DP_PATIENCE", "1"))

# Counts of the driver are to be exact; test_budget.py is about its budget.
os.environ["DPROBES_BUDGET"] = "off"

# Whatever the tests write lies in one directory, which goes with the test program.
tempfile.tempdir = tempfile.mkdtemp(prefix="dp-test-")
os.chmod(tempfile.tempdir, 0o755)
_owner = os.getpid()


@atexit.register
def _remove_files():
    if os.getpid() == _owner:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)


_tests = []
_children = []


class Skip(Exception):
    """The machine lacks what the test needs; the text says what."""


def test(fn):
    """Decorator: run fn as one test, named by its docstring."""
    _tests.append(fn)
    return fn


def start(argv, **kw):
    """Start a process that is ended with the test program at the latest."""
    kw.setdefault("stdout", subprocess.DEVNULL)
    kw.setdefault("stderr", subprocess.DEVNULL)
    kw.setdefault("stdin", subprocess.DEVNULL)
    p = subprocess.Popen(argv, **kw)
    _children.append(p)
    return p


def stop(p, sig=signal.SIGTERM, timeout=60):
    """End a process that start() started; returns its exit status."""
    if p.poll() is None:
        p.send_signal(sig)
    try:
        return p.wait(timeout * PATIENCE)
    except subprocess.TimeoutExpired:
        p.kill()
        return p.wait()


def target(name):
    return os.path.join(TARGETS, name)


def need(*programs):
    """Paths of programs, or a named skip."""
    found = []
    for name in programs:
        path = shutil.which(name) or (os.path.exists(name) and name)
        if not path:
            raise Skip("%s is not installed" % name)
        found.append(path)
    return found


# Behind a source in Rust: what the compiler knows nothing of (std::hint::black_box is younger than Debian 12's).
RUST_HIDE = """
fn hide<T>(v: T) -> T {
    let v = std::mem::ManuallyDrop::new(v);
    unsafe { std::ptr::read_volatile(&*v) }
}
"""


def compiled(folder, name, source, *flags, compiler="gcc"):
    """The program of this source, made once; skips where there is no compiler."""
    need(compiler)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        file = path + (".cc" if compiler == "g++" else ".c")
        with open(file, "w") as f:
            f.write(source)
        subprocess.run([compiler, *flags, "-o", path, file], check=True)
    return path


_fires = {}


def debug_registers(kind=2):
    """Whether a watchpoint of our own (2: writes, 3: reads and writes) fires; None when the kernel does not let it
    be tried."""
    if kind not in _fires:
        word = (ctypes.c_uint64 * 2)()
        addr = (ctypes.addressof(word) + 7) & ~7
        # struct perf_event_attr: a breakpoint, which counts accesses in user mode
        attr = ctypes.create_string_buffer(struct.pack("=IIQQQQQIIQQ", 5, 128, 0, 0, 0, 0, 1 << 5 | 1 << 6, 0, kind,
                                                       addr, 8), 128)
        fd = ctypes.CDLL(None, use_errno=True).syscall(298, attr, 0, -1, -1, 8)
        if fd >= 0:
            ctypes.c_uint64.from_address(addr).value = 1
            _fires[kind] = struct.unpack("=Q", os.read(fd, 8))[0] > 0
            os.close(fd)
        else:
            _fires[kind] = None
    return _fires[kind]


def need_registers():
    """A named skip where debug registers can be set but never fire: nothing else is a reason for a watchpoint to be
    silent."""
    if debug_registers() is False:
        raise Skip("the debug registers of this machine never fire: one of our own was set and did not")


def dprobes(*args, timeout=120, check=None, **kw):
    """Run the command to its end; returns CompletedProcess with text output."""
    r = subprocess.run([DPROBES, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       errors="replace", timeout=timeout * PATIENCE, stdin=subprocess.DEVNULL, **kw)
    if check is not None and r.returncode != check:
        raise AssertionError("dprobes %s: status %s\n%s\n%s" % (" ".join(map(str, args)), r.returncode,
                                                                r.stdout[-2000:], r.stderr[-4000:]))
    return r


def standing(pid, text=""):
    """The lines of `dprobes list` of probes in a process that contain a text, of each dprobes all of whose probes
    stand."""
    rows = re.findall(r"^(.* dprobes (\S+).*)$", dprobes("list", "-p", pid, check=0).stdout, re.M)
    arming = {owner for line, owner in rows if line.endswith("[ARMING]")}
    return [line for line, owner in rows if owner not in arming and text in line]


def trace_start(*args, command=DPROBES, **kw):
    """Start `dprobes trace` in the background with its output captured in files; returns (process, out, err)."""
    out = tempfile.NamedTemporaryFile("w+", prefix="dp-out-", delete=False)
    err = tempfile.NamedTemporaryFile("w+", prefix="dp-err-", delete=False)
    command = command if isinstance(command, list) else [command]
    p = start([*command, "trace", *map(str, args)], stdout=out, stderr=err, **kw)
    p.out_path, p.err_path = out.name, err.name
    return p


def text_of(path):
    with open(path, errors="replace") as f:
        return f.read()


def children_of(pid):
    """Process ids of the children of a process's first thread."""
    return list(map(int, text_of("/proc/%d/task/%d/children" % (pid, pid)).split()))


def wait_for(cond, timeout=60, what="condition"):
    """What cond() returns once it is true. On a busy machine, where a look takes long, it may take longer, too."""
    end, looks = time.time() + timeout * PATIENCE, 0
    while time.time() < end or looks < 5 * timeout:
        r = cond()
        looks += 1
        if r:
            return r
        time.sleep(0.02)
    raise AssertionError("timed out waiting for " + what)


def settled(look, looks=10, what="rest"):
    """What look() returns, once so many looks in a row, a tenth of a second apart, have seen the same."""
    seen = []

    def same():
        time.sleep(0.1)
        seen.append(look())
        return len(seen) >= looks and all(x == seen[-1] for x in seen[-looks:])

    wait_for(same, what=what)
    return seen[-1]


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def code_differs(pid):
    """Ranges of executable file mappings whose bytes differ from the file."""
    bad = []
    with open("/proc/%d/maps" % pid) as f:
        maps = f.readlines()
    with open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in maps:
            f = line.split(None, 5)
            if "x" not in f[1] or len(f) < 6 or not f[5].startswith("/") or "w" in f[1]:
                continue
            lo, hi = (int(x, 16) for x in f[0].split("-"))
            path = f[5].strip()
            try:
                with open(path, "rb") as file:
                    file.seek(int(f[2], 16))
                    want = file.read(hi - lo)
                mem.seek(lo)
                have = mem.read(hi - lo)[:len(want)]
            except OSError:
                continue
            if len(have) < len(want):  # the process has another memory by now: it executes another program
                continue
            if have != want:
                at = next(i for i in range(len(want)) if have[i] != want[i])
                bad.append("%s+0x%x" % (path, int(f[2], 16) + at))
    return bad


def traced(pid):
    """Whether a thread of the process has a tracer."""
    for tid in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
                if "TracerPid:\t0\n" not in f.read():
                    return True
        except OSError:
            pass  # it ended
    return False


def in_place(pid):
    """Ranges as of code_differs() once arming is over, else none. While it goes on, bytes differ that are only
    borrowed for a call of ours, and others are yet to come."""
    return not traced(pid) and code_differs(pid) and not traced(pid) and code_differs(pid)


def cancel_threads(p, n=20):
    """A target that cancels a thread for each line that it reads, and tells whether that has ended: all do."""
    for _ in range(n):
        p.stdin.write("\n")
        p.stdin.flush()
        assert p.stdout.readline() == "ended\n"


def our_mappings(pid):
    with open("/proc/%d/maps" % pid) as f:
        return [line for line in f if "dprobes-rings" in line]


def name_of(fn):
    """A test's name: what it says of itself, in one line."""
    return " ".join((fn.__doc__ or fn.__name__).split())


def end_all(children):
    for p in children:
        if p.poll() is None:
            p.kill()
            p.wait()


def run():
    """Run the tests of the program, or those whose names contain $DP_ONLY, and speak TAP."""
    failed = 0
    only = os.environ.get("DP_ONLY", "")
    _tests[:] = [fn for fn in _tests if only in name_of(fn) or only == fn.__name__]
    print("1..%d" % len(_tests))
    for n, fn in enumerate(_tests, 1):
        name = name_of(fn)
        begin, started = time.time(), len(_children)
        try:
            fn()
            print("ok %d - %s (%.1f s)" % (n, name, time.time() - begin), flush=True)
        except Skip as s:
            print("ok %d - %s # SKIP %s" % (n, name, s), flush=True)
        except Exception:
            failed += 1
            print("not ok %d - %s" % (n, name), flush=True)
            for line in traceback.format_exc().splitlines():
                print("# " + line, flush=True)
            end_all(_children[started:])  # the next tests shall find what they expect
    end_all(_children)
    sys.exit(1 if failed else 0)
