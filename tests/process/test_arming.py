# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What arming may not do to a target: lift its filter for it, open what it names, die of its limits, leave code
behind."""
import errno
import mmap
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

VISIT = "p visit n=%di:s64 text=+0(%si):string"
NOBODY = 65534


def ready(*argv, user=None):
    """The target `terms`, perhaps as another user, who needs a copy that he may read."""
    path = target("terms")
    kw = {}
    if user:
        path = shutil.copy(path, tempfile.tempdir)
        kw = {"user": user, "group": user, "extra_groups": []}
    p = start([path, *map(str, argv)], stdout=subprocess.PIPE, text=True, **kw)
    line = p.stdout.readline()
    assert line.startswith("ready"), (argv, line, p.poll())
    return p


def trace(p, seconds, *more, check=None):
    r = dprobes("trace", "--json", "-p", p.pid, "--duration", seconds, *more, VISIT, check=check)
    return r, json_lines(r.stdout)


def unharmed(p):
    assert p.poll() is None, p.returncode
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid), our_mappings(p.pid)


def finish(p):
    unharmed(p)
    assert stop(p) == 0, p.returncode
    return p.stdout.read()


def as_root():
    if os.getuid():
        raise Skip("only root can become somebody else")


@test
def forbidden_calls():
    """a filter that forbids a call: no thread gets one through while probes come and go"""
    p = ready("forbid")
    for i in range(12):
        r, ev = trace(p, 0.2)
        if r.returncode and "E-TARGET-SECCOMP" in r.stderr:
            unharmed(p)
            raise Skip("this kernel or user cannot suspend filters")
        assert r.returncode == 0 and len(ev) > 0, r.stderr
    assert finish(p) == "got 0 of many\n"


@test
def swapped_descriptors():
    """a program that puts root's file in the place of every new descriptor: the file stays as it is"""
    as_root()
    secret = os.path.join(tempfile.tempdir, "secret")
    with open(secret, "w") as f:
        f.write("nobody else's\n")
    os.chmod(secret, 0o600)
    p = ready("swap", secret, user=NOBODY)
    for i in range(10):
        r, ev = trace(p, 0.02)
        assert p.poll() is None and (r.returncode == 0 or "E-TARGET-" in r.stderr), r.stderr
        assert text_of(secret) == "nobody else's\n"
    finish(p)


@test
def few_descriptors():
    """two, one or no descriptor left: probed, or refused by name"""
    for left in (2, 1, 0):
        p = ready("few", left)
        fds = sorted(os.listdir("/proc/%d/fd" % p.pid))
        r, ev = trace(p, 0.5)
        assert sorted(os.listdir("/proc/%d/fd" % p.pid)) == fds
        if left:
            assert r.returncode == 0 and len(ev) > 0, (left, r.stderr)
        else:
            assert r.returncode == 1 and "E-TARGET-" in r.stderr and "Too many open files" in r.stderr, r.stderr
        finish(p)


def rings_of(p):
    line, = our_mappings(p.pid)
    return line.split()[0], int(line.split()[4])


@test
def sealed_rings():
    """the memory of the rings: its size is sealed, and it is dprobes' own file"""
    p = ready("plain")
    t = trace_start("-p", p.pid, VISIT)
    try:
        wait_for(lambda: our_mappings(p.pid) and "visit" in text_of(t.out_path), what="events")
        span, inode = rings_of(p)
        assert not [fd for fd in os.listdir("/proc/%d/fd" % p.pid)
                    if "memfd" in os.readlink("/proc/%d/fd/%s" % (p.pid, fd))]
        if os.getuid() == 0:
            fd = os.open("/proc/%d/map_files/%s" % (p.pid, span), os.O_RDWR)
            for length in (0, 1 << 30):
                try:
                    os.ftruncate(fd, length)
                    raise AssertionError("the file can be made %d bytes long" % length)
                except PermissionError:
                    pass
            os.close(fd)
    finally:
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    finish(p)


def resident(pid, name):
    """KiB of the mapping of that name that have entries in the process's page tables."""
    found = re.search(name + r".*?^Rss: +(\d+) kB", text_of("/proc/%d/smaps" % pid), re.S | re.M)
    return int(found.group(1)) if found else 0


@test
def rings_have_pages():
    """the first records of a probe take no faults: the pages are in the process's tables before"""
    with mmap.mmap(-1, 4096) as page:
        try:
            page.madvise(23)  # MADV_POPULATE_WRITE
        except OSError as e:
            raise Skip("the kernel makes no pages ahead of use: %s" % e)
    p = start(["sleep", "600"])
    t = trace_start("-p", p.pid, "p libc:malloc")
    try:
        wait_for(lambda: resident(p.pid, "/memfd:dprobes-rings") >= 60 * os.cpu_count() or t.poll() is not None,
                 what="pages of the rings")
        assert t.poll() is None, text_of(t.err_path)
    finally:
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
    stop(p)


@test
def limited_data():
    """RLIMIT_DATA of 0 to 64 MB: probed, or refused with the call and the reason"""
    for size in (0, 1 << 20, 3 << 20, 8 << 20, 64 << 20):
        p = ready("data", size)
        r, ev = trace(p, 0.5)
        if r.returncode:
            assert "E-TARGET-CALL" in r.stderr and "Cannot allocate memory" in r.stderr, (size, r.stderr)
        assert r.returncode == (1 if size < 8 << 20 else 0) or size == 8 << 20, (size, r.stderr)
        assert r.returncode or len(ev) > 0
        finish(p)


@test
def locked_memory():
    """all memory locked, and little of it allowed: refused with the call and the reason"""
    as_root()
    p = ready("locked", 1 << 20, user=NOBODY)
    r, ev = trace(p, 0.5)
    assert r.returncode == 1 and "E-TARGET-CALL" in r.stderr and "mmap: " in r.stderr, r.stderr
    finish(p)


@test
def refused_calls():
    """every call made inside the process is refused once: the process lives, and nothing stays"""
    tool = os.path.join(BUILD, "tests", "process", "refuse")
    for number in (errno.EACCES, errno.ENOMEM):
        p = ready("plain")
        r = subprocess.run([tool, str(p.pid), str(number), VISIT, "p libc:clock_nanosleep"], stdout=subprocess.PIPE,
                           text=True, timeout=120)
        assert p.poll() is None, (p.returncode, r.stdout)
        assert r.returncode == 0, r.stdout
        lines = r.stdout.splitlines()
        assert len(lines) > 10 and lines[0].startswith("call 1: E-TARGET-CALL: mmap: "), r.stdout
        assert all("armed" in line or os.strerror(number) in line for line in lines), r.stdout
        r, ev = trace(p, 0.5, check=0)
        assert len(ev) > 0
        finish(p)


def service_code():
    """The bytes of the service loop as they are in the tool."""
    out = subprocess.run(["nm", os.path.join(BUILD, "src", "hit", "blob.d", "blob.elf")], stdout=subprocess.PIPE,
                         text=True).stdout
    at = {name: int(value, 16)
          for value, _, name in (line.split() for line in out.splitlines() if len(line.split()) == 3)}
    with open(os.path.join(BUILD, "src", "hit", "blob.bin"), "rb") as f:
        blob = f.read()
    return blob[at["dp_service"] - at["dp_head"]:at["dp_service_end"] - at["dp_head"]]


def regions(pid):
    """Executable memory without a file: (address, bytes)."""
    found = []
    with open("/proc/%d/maps" % pid) as f, open("/proc/%d/mem" % pid, "rb", 0) as mem:
        for line in f:
            part = line.split()
            if "x" in part[1] and part[4] == "0" and len(part) < 6:
                lo, hi = (int(x, 16) for x in part[0].split("-"))
                mem.seek(lo)
                found.append((lo, mem.read(min(hi - lo, 1 << 20))))
    return found


@test
def code_for_calls_goes():
    """the loop that makes system calls stands in the process while probes come and go only, and nobody can tell
    where the region is"""
    code = service_code()
    assert b"\x0f\x05" in code
    bases = set()
    p = ready("plain")
    for i in range(4):
        t = trace_start("-p", p.pid, VISIT)
        try:
            wait_for(lambda: "visit" in text_of(t.out_path) and in_place(p.pid), what="probes in place")
            found = regions(p.pid)
            assert found
            assert not [lo for lo, text in found if code[:32] in text]
            bases.update(lo for lo, text in found if b"1BORPYND"[::-1] in text or len(text) > 16384)
        finally:
            assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
        unharmed(p)
    assert len(bases) >= 4, bases
    finish(p)


@test
def code_mapped_twice():
    """a program with two mappings of its code: calls of a function are counted in both"""
    for line in ("p:v visit", "r:v visit", "p vis*t"):
        p = ready("twice")
        t = trace_start("--json", "-p", p.pid, line)
        wait_for(lambda: our_mappings(p.pid) and len(in_place(p.pid) or ()) == 2, what="both places")
        p.send_signal(signal.SIGUSR1)
        wait_for(lambda: text_of(t.out_path).count('"event"') >= 2000, what="2000 events")
        assert stop(t, signal.SIGINT, 60) == 0, text_of(t.err_path)
        ev = json_lines(text_of(t.out_path))
        assert len(ev) == 2000, len(ev)
        finish(p)


def kept_in(home):
    """What is kept of code: name, size, time."""
    folder = os.path.join(home, "dprobes")
    entries = os.scandir(folder) if os.path.isdir(folder) else []
    return sorted((e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in entries if e.name.startswith("code-"))


@test
def kept():
    """what was found out about a library's code is kept for the next command; where nothing can be kept, or what is
    kept has been spoiled, the code is looked through again"""
    p = start([sys.executable, "-c", "import os\nwhile True: os.getppid()"])
    home, code = tempfile.mkdtemp(prefix="dp-kept-"), code_differs(p.pid)

    def counts(**env):
        r = dprobes("trace", "-p", p.pid, "--duration", 0.2, "--json", "p:e libc:getppid count", "r libc:getppid count",
                    env={**os.environ, **env})
        found = [t["value"] for t in json_lines(r.stdout) if t.get("kind") == "count"]
        assert len(found) == 2 and all(found) and code_differs(p.pid) == code, (r.stdout, r.stderr)

    counts(XDG_CACHE_HOME=home)
    first = kept_in(home)
    assert first, os.listdir(home)
    counts(XDG_CACHE_HOME=home)
    assert kept_in(home) == first, (first, kept_in(home))
    for name, size, _ in first:
        with open(os.path.join(home, "dprobes", name), "r+b") as f:
            f.truncate(max(size - 4096, 0))
    counts(XDG_CACHE_HOME=home)
    assert [e[:2] for e in kept_in(home)] == [e[:2] for e in first], kept_in(home)
    for nowhere in ("/proc/no/such", os.path.join(home, "dprobes", first[0][0])):
        counts(XDG_CACHE_HOME=nowhere)
    counts(XDG_CACHE_HOME="", HOME="")
    stop(p)
    shutil.rmtree(home)


@test
def inlined_names_kept():
    """which functions have inlined copies is kept for the next command: the same places are found with it, without it,
    and when it has been spoiled"""
    home = tempfile.mkdtemp(prefix="dp-kept-")
    this = os.environ["DPROBES"]
    while time.time() - os.stat(this).st_ctime < 6:  # of a file that was just built nothing would be kept
        time.sleep(1)

    def places(name):
        r = dprobes("trace", "p %s:%s count" % (this, name), "--", this, "help",
                    env={**os.environ, "XDG_CACHE_HOME": home})
        m = re.search(r"^(\d+) probes?,", r.stderr, re.M)
        return int(m[1]) if m else 0

    def lists():
        return [name for name, _, _ in kept_in(home) if name.endswith("-inlined")]

    # One that headers have, which is in many places, and one that is no more than itself.
    names = ("dp_mod_same_file", "main")
    found = [places(name) for name in names]
    if found[0] <= 1:
        raise Skip("no debug information in dprobes, or nothing is inlined")
    assert found[1] == 1 and len(lists()) == 1, (found, kept_in(home))
    assert [places(name) for name in names] == found
    for spoil in (lambda f, size: f.truncate(size // 2), lambda f, size: f.write(b"x"),
                  lambda f, size: (f.seek(8), f.write(b"\xff")), lambda f, size: f.truncate(0)):
        for name, size, _ in kept_in(home):
            with open(os.path.join(home, "dprobes", name), "r+b") as f:
                spoil(f, size)
        assert [places(name) for name in names] == found
    shutil.rmtree(home)


@test
def waits_for_the_last_probe():
    """a program that is started for its probes stands until they are in place, however long that takes"""
    tool = os.path.join(BUILD, "tests", "process", "late")
    r = subprocess.run([tool, "12", "p visit n=%di", target("terms"), "brief", "1000"], stdout=subprocess.PIPE,
                       text=True, timeout=100)
    assert r.returncode == 0 and r.stdout.endswith("recorded 1000\n") and "note:" not in r.stdout, r.stdout


@test
def shadow_stack():
    """a program with a shadow stack is refused by name"""
    os.environ["GLIBC_TUNABLES"] = "glibc.cpu.x86_shstk=on:glibc.cpu.hwcaps=SHSTK"
    try:
        p = ready("plain")
    finally:
        del os.environ["GLIBC_TUNABLES"]
    features = re.search(r"^x86_Thread_features:(.*)$", text_of("/proc/%d/status" % p.pid), re.M)
    if not features or "shstk" not in features.group(1):
        raise Skip("no program gets a shadow stack here: /proc/PID/status says %r" % (features and features.group(0)))
    r, ev = trace(p, 0.2)
    assert r.returncode == 1 and "E-TARGET-SHSTK" in r.stderr, r.stderr
    finish(p)


@test
def shadow_stack_by_its_word():
    """where the kernel's word is that the program has a shadow stack, it is refused and stays as it is (the word is put
    in its mouth: a file mounted over /proc/PID/task/TID/status)"""
    unshare, mount = need("unshare", "mount")
    p = ready("plain")
    path = "/proc/%d/task/%d/status" % (p.pid, p.pid)
    said = re.sub(r"^x86_Thread_features:.*\n", "", text_of(path), flags=re.M)
    with tempfile.NamedTemporaryFile("w", prefix="dp-status-") as f:
        f.write(said + "x86_Thread_features:\tshstk wrss\n")
        f.flush()
        r = subprocess.run([unshare, "-m", "sh", "-c", '"$0" --bind "$1" "$2" && shift 2 && exec "$@"', mount, f.name,
                            path, DPROBES, "trace", "--duration", "0.2", "-p", str(p.pid), VISIT],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 1 and "E-TARGET-SHSTK" in r.stderr and "shstk wrss" in r.stderr, r.stderr
    unharmed(p)
    assert trace(p, 0.2, check=0)[1]
    finish(p)


run()
