#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Processes that are caught at their start, or while they load a library: they go on whatever happens to those who
catch them."""
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-starts-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
BRIEF, STATIC, LIBRARY, LATE = target("brief"), target("brief-static"), target("libbrief.so"), target("late")
LONG = 120  # seconds in which anything ends; nothing here depends on how long it takes
QUEUE = 15  # seconds for which a process waits at most while the driver works on others (GUARD_QUEUE_MS)
STREAM = float(os.environ.get("DP_STREAM", "0.3"))  # seconds of starts; make torture: 300
RATE = 200
AT_ONCE = 50
AGAIN = os.environ.get("DP_AGAIN")  # ids of processes begin anew behind this one, after so many starts:
AGAIN_AFTER = 60
LOOKS = 64  # at files of a process below /proc, for one start; it takes 57


def program(name, offset):
    path = os.path.join(DIR, offset + "-" + os.path.basename(name) + ".rpn")
    with open(path, "w") as f:
        f.write("name = %s\nvars = 1\noffset = %s\ninc lv, 0; abort\n" % (name, offset))
    return path


def insert(name, offset, check=0, using=dprobes):
    return using("insert", program(name, offset), check=check)


def query():
    return dprobes("query", check=0).stdout


def hits(text):
    return [int(n) for n in re.findall(r"hits (\d+):", text)]


def let_go(text):
    return sum(int(n) for n in re.findall(r"(\d+) did not wait", text))


def wait_for_hits(*want):
    wait_for(lambda: hits(query()) == list(want), timeout=LONG, what="hits %s" % (want,))


def driver_of(pid):
    """The directory of the driver that a process was started for; empty: it is gone, or was started for none."""
    try:
        with open("/proc/%s/environ" % pid, "rb") as f:
            m = re.search(rb"(?:^|\0)DPROBES_DIR=([^\0]*)", f.read())
    except OSError:
        return ""
    return m[1].decode() if m else ""


def ours(*names):
    """The processes of our driver: itself, its guard, the guard's keeper."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                words = f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        if words[1:2] and words[1] in names and driver_of(pid) == os.environ["DPROBES_DIR"]:
            found.append(int(pid))
    return found


def send(sig, *names):
    pids = ours(*names)
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass
    return pids


def alive(pid):
    try:
        with open("/proc/%s/cmdline" % pid) as f:
            return f.read() != ""
    except OSError:
        return False


def held():
    """Processes in frozen directories of this namespace of ids, and those directories, without those of a living
    dprobes that is none of ours."""
    found, ours = [], "-%d" % os.stat("/proc/self/ns/pid").st_ino
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cgroup" % pid) as f:
                lines = [line for line in f if ours in line and "(deleted)" not in line]
        except OSError:
            continue
        found += [line for line in lines for holder in re.findall(r"/dprobes-held-(\d+)-", line)
                  if driver_of(holder).startswith(DIR) or not alive(holder)]
    return found


def has_probes(pid):
    try:
        return bool(our_mappings(pid))
    except OSError:
        return False  # it has ended


def root():
    if os.geteuid() != 0:
        raise Skip("programs can be held at their start by root only")


def both():
    root()
    insert(BRIEF, "brief_work")
    insert(LIBRARY, "plugin_work")
    insert(STATIC, "brief_work")


@alone
def counted():
    """the shortest programs, with and without a loader, and their libraries: each hit is counted, or it is told who
    was let go"""
    both()
    for _ in range(3):
        running = [start([path]) for path in (BRIEF, STATIC, BRIEF, STATIC)]
        assert [p.wait(LONG) for p in running] == [0] * 4
    wait_for(lambda: hits(query()) == [18, 12, 18] or let_go(query()), timeout=LONG, what="all hits")
    assert not held(), held()


@alone
def burst():
    """a hundred programs that are started at once wait for one another: each hit is counted, and nobody is let go,
    unless the last of them would have waited for too long"""
    root()
    insert(BRIEF, "brief_work")
    insert(STATIC, "brief_work")
    began = time.monotonic()
    running = [start([path]) for path in (BRIEF, STATIC) * 50]
    assert [p.wait(LONG) for p in running] == [0] * 100
    lasted = time.monotonic() - began
    wait_for(lambda: hits(query()) == [150, 150] or let_go(query()), timeout=LONG, what="all hits")
    assert not let_go(query()) or lasted > QUEUE, (lasted, query())
    assert not held(), held()


@alone
def looks():
    """what the driver has read of a process that starts it does not read again: so often it looks into /proc"""
    root()
    need("strace")
    insert(BRIEF, "brief_work")
    assert start([BRIEF]).wait(LONG) == 0
    trace = os.path.join(DIR, "calls")
    strace = start(["strace", "-o", trace, "-p", str(ours("driver-serve")[0])], stderr=subprocess.PIPE)
    try:
        if b"attached" not in strace.stderr.readline():
            raise Skip("strace cannot trace here")
        running = []
        for _ in range(3):
            running.append(start([BRIEF]))
            assert running[-1].wait(LONG) == 0
        wait_for(lambda: sum(hits(query())) == 12 or let_go(query()), timeout=LONG, what="all hits")
    finally:
        strace.terminate()
        strace.wait(LONG)
    text = text_of(trace)
    # A busy machine may make it look once more, at a process that it waits for, for example.
    looked = min(text.count('"/proc/%d/' % p.pid) for p in running)
    assert let_go(query()) or 0 < looked <= LOOKS, (looked, text[-20000:])


def calling_main_by(name, path):
    """The bytes of a program, but that the symbol is where its main is."""
    with open(path, "rb") as f:
        elf = bytearray(f.read())
    sections, = struct.unpack_from("<Q", elf, 0x28)
    size, n = struct.unpack_from("<HH", elf, 0x3a)
    table = [struct.unpack_from("<IIQQQQIIQQ", elf, sections + i * size) for i in range(n)]
    at = {}
    for _, kind, _, _, offset, length, link, *_ in table:
        for i in range(offset, offset + length, 24) if kind == 2 else ():  # SHT_SYMTAB
            text = table[link][4] + struct.unpack_from("<I", elf, i)[0]
            at[bytes(elf[text:elf.index(b"\0", text)]).decode()] = i
    elf[at[name] + 8:at[name] + 24] = elf[at["main"] + 8:at["main"] + 24]
    return bytes(elf)


@alone
def changed():
    """a program's file is written over, and replaced, by one of the same size, at once: each start has the probes of
    the file that it runs, whatever is known of the one before"""
    root()
    path = os.path.join(DIR, "changing")
    with open(STATIC, "rb") as f:
        files = [(f.read(), 3), (calling_main_by("brief_work", STATIC), 1)]
    assert len(files[0][0]) == len(files[1][0]) and files[0] != files[1]
    shutil.copy(STATIC, path)
    stamp = os.stat(path).st_mtime_ns
    insert(path, "brief_work")
    want = 0
    for i in range(8):
        with open(path, "r+b") as f:
            f.write(files[i % 2][0])
        os.utime(path, ns=(stamp, stamp))
        assert start([path]).wait(LONG) == 0
        want += files[i % 2][1]
    wait_for(lambda: hits(query()) == [want] or let_go(query()), timeout=LONG, what="%d hits" % want)
    for i in range(4):
        dprobes("remove", "--all", check=0)
        with open(path + ".new", "wb") as f:
            f.write(files[i % 2][0])
        shutil.copymode(STATIC, path + ".new")
        os.utime(path + ".new", ns=(stamp, stamp))
        os.rename(path + ".new", path)
        insert(path, "brief_work")
        assert start([path]).wait(LONG) == 0
        wait_for(lambda: hits(query()) == [files[i % 2][1]] or let_go(query()), timeout=LONG, what="its hits")


@alone
def stream():
    """programs are started 200 times a second, or as often as the machine can: each hit is counted, and nobody is let
    go, unless one of them would have waited for too long"""
    root()
    insert(BRIEF, "brief_work")
    running, longest, n, began = [], 0, 0, time.monotonic()
    while time.monotonic() - began < STREAM or running:
        now = time.monotonic()
        if now - began < STREAM and len(running) < AT_ONCE:
            time.sleep(max(0, began + n / RATE - now))
            running.append((time.monotonic(), start([BRIEF])))
            n += 1
            if AGAIN and n % AGAIN_AFTER == 0:
                set_last_pid(AGAIN)
        else:
            at, p = running.pop(0)
            assert p.wait(LONG) == 0
            longest = max(longest, time.monotonic() - at)
    print("# figure: %d starts, %.0f a second" % (n, n / (time.monotonic() - began)))
    try:
        wait_for(lambda: hits(query()) == [3 * n] or let_go(query()), timeout=LONG)
    except AssertionError:
        raise AssertionError("%d hits of %d starts:\n%s" % (3 * n, n, query()[:600])) from None
    assert not let_go(query()) or longest > QUEUE, (longest, query())
    assert not held(), held()


@alone
def no_pause():
    """while one program starts after the other without a pause, the driver does the rest of its work: it answers, and
    does not keep those that have ended"""
    root()
    insert(BRIEF, "brief_work")
    over, statuses = threading.Event(), []

    def go():
        running = []
        while running or not over.is_set():
            while len(running) < AT_ONCE and not over.is_set():
                running.append(start([BRIEF]))
            statuses.append(running.pop(0).wait(LONG))

    t = threading.Thread(target=go)
    t.start()
    try:
        wait_for(lambda: len(statuses) > AT_ONCE, timeout=LONG, what="starts")
        began = len(statuses)
        while len(statuses) < began + 8 * AT_ONCE:  # more than are started between two scans
            known = re.findall(r"^ +process \d+:", dprobes("query", check=0, timeout=LONG / 4).stdout, re.M)
            assert t.is_alive() and len(known) < len(statuses) + AT_ONCE
    finally:
        over.set()
        t.join()
    assert set(statuses) == {0}
    wait_for(lambda: hits(query()) == [3 * len(statuses)] or let_go(query()), timeout=LONG, what="all hits")


@test
def numbers_again():
    """the same where ids of processes come again while the driver still knows those that had them before"""
    with_own_pids(__file__, "stream", DP_STREAM="4", DP_AGAIN="5000")


@alone
def several_owners():
    """three drivers that probe the same programs hold each start one after the other: each counts each hit; when
    the second is killed in between, the first tells whom it has not had"""
    root()
    dirs = [os.path.join(DIR, "driver-%d" % i) for i in range(3)]
    own = os.environ["DPROBES_DIR"]

    def in_each(which, fn):
        for d in which:
            os.environ["DPROBES_DIR"] = d
            fn()
        os.environ["DPROBES_DIR"] = own

    def exact(starts, lasted, killed=False):
        want = [3 * starts, 3 * starts]
        wait_for(lambda: hits(query()) == want or let_go(query()), timeout=LONG, what="all hits")
        assert not let_go(query()) or lasted > QUEUE or killed, (lasted, query())

    try:
        in_each(dirs, lambda: [insert(BRIEF, "brief_work"), insert(STATIC, "brief_work")])
        began = time.monotonic()
        running = [start([path]) for path in (BRIEF, STATIC) * 10]
        assert [p.wait(LONG) for p in running] == [0] * 20
        lasted = time.monotonic() - began
        in_each(dirs, lambda: exact(10, lasted))
        began = time.monotonic()
        running = [start([path]) for path in (BRIEF, STATIC) * 5]
        in_each(dirs[1:2], lambda: send(signal.SIGKILL, "driver-serve", "guard", "keeper"))
        assert [p.wait(LONG) for p in running] == [0] * 10
        lasted = time.monotonic() - began
        in_each(dirs[:1], lambda: exact(15, lasted, killed=True))
        wait_for(lambda: not held(), timeout=LONG, what="nobody to be held")
    finally:
        in_each(dirs, lambda: dprobes("remove", "--all", check=None))


@alone
def last_owner_killed():
    """a driver and its guards that are killed while they hold programs which another driver has let go leave nobody
    held, whichever of the two comes first"""
    root()
    dirs = [os.path.join(DIR, "driver-%d" % i) for i in range(2)]
    own = os.environ["DPROBES_DIR"]
    try:
        for killed in dirs:
            for os.environ["DPROBES_DIR"] in dirs:
                insert(BRIEF, "brief_work")
            os.environ["DPROBES_DIR"] = killed
            send(signal.SIGSTOP, "driver-serve")
            running = [start([BRIEF]) for _ in range(6)]
            time.sleep(1)  # the other one has had those that came to it first; a guard would end its driver later
            send(signal.SIGKILL, "driver-serve", "guard", "keeper")
            assert [p.wait(LONG) for p in running] == [0] * 6
            wait_for(lambda: not held(), timeout=LONG, what="nobody to be held")
            for os.environ["DPROBES_DIR"] in dirs:
                dprobes("remove", "--all", check=None)
    finally:
        for os.environ["DPROBES_DIR"] in dirs:
            dprobes("remove", "--all", check=None)
        os.environ["DPROBES_DIR"] = own


@alone
def failing():
    """programs that cannot be executed, and processes with several threads that execute one, go on as without probes"""
    both()
    script = "import os, threading, time\n" \
             "for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" \
             "t = threading.Thread(target=os.execv, args=(%r, ['brief'])); t.start(); t.join(); time.sleep(60)" % BRIEF
    assert start([sys.executable, "-c", script]).wait(LONG) == 0
    wait_for(lambda: hits(query())[0] == 3 or let_go(query()), timeout=LONG, what="three hits")
    script = "import os\ntry: os.execve(%r, ['brief'], {'X': 'x' * (1 << 20)})\nexcept OSError: os._exit(7)" % BRIEF
    assert start([sys.executable, "-c", script]).wait(LONG) == 7
    assert not held(), held()


@alone
def loader_probed():
    """a program's loader, which its execve opens, is probed itself"""
    root()
    own = target("own-loader.so")
    shutil.copy(os.path.realpath("/lib64/ld-linux-x86-64.so.2"), own)
    insert(own, "__tls_get_addr")
    for _ in range(3):
        assert start([target("brief-loader")]).wait(LONG) == 0
    insert(target("brief-loader"), "brief_work")
    for _ in range(3):
        assert start([target("brief-loader")]).wait(LONG) == 0
    wait_for(lambda: hits(query())[1] == 9 or let_go(query()), timeout=LONG, what="nine hits")


@alone
def late():
    """a program whose library's initialiser waits for others: the driver answers, the program goes on, its probes
    come later"""
    root()
    insert(LATE, "main_work")
    p = start([LATE], stdin=subprocess.PIPE)
    wait_for(lambda: let_go(query()) == 1, timeout=LONG, what="that it was let go")
    wait_for(lambda: our_mappings(p.pid), timeout=LONG, what="probes")
    p.stdin.write(b"\n")
    p.stdin.close()
    assert p.wait(LONG) == 0
    wait_for_hits(1)


@alone
def late_by_vfork():
    """the same where the initialiser waits in the kernel, and does not stop for the driver"""
    root()
    insert(LATE, "main_work")
    p = start([LATE], stdin=subprocess.PIPE, env=dict(os.environ, LATE_VFORK="1"))
    time.sleep(3)  # until the driver has given it up, and looks whether it can have its probes there
    p.stdin.write(b"\n")
    p.stdin.close()
    assert p.wait(LONG) == 0
    wait_for(lambda: let_go(query()) == 1, timeout=LONG, what="that it was let go")


@alone
def late_in_trace():
    """the same of a program that a trace starts: its end tells that it did not wait"""
    root()
    path = program(LATE, "main_work")
    t = start([DPROBES, "trace", "-f", path, "--", LATE], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any(has_probes(pid) for pid in children_of(t.pid)), timeout=LONG, what="probes")
    err = t.communicate("\n", timeout=LONG)[1]
    assert t.returncode == 0 and "1 process began, or loaded a file, without waiting for the probes" in err, err


def beside_another(*argv):
    """Traces that catch programs at their start, beside others that do so all of the time."""
    root()
    done = threading.Event()

    def work():
        while not done.is_set():
            assert subprocess.run([*argv, "trace", "-q", "p brief_work count", "--", STATIC],
                                  stdout=subprocess.DEVNULL).returncode == 0

    neighbour = threading.Thread(target=work)
    neighbour.start()
    try:
        for _ in range(20):
            r = dprobes("trace", "p brief_work count", "--", BRIEF, check=0)
            assert re.search(r"^brief_work +jump +3 ", r.stderr, re.M), r.stderr
    finally:
        done.set()
        neighbour.join()
    assert not held(), held()


@alone
def other_release():
    """another release of dprobes, at another path, takes nobody for left behind whom this one holds at its start"""
    other = os.path.join(DIR, "other", "dprobes")
    os.mkdir(os.path.dirname(other))
    shutil.copy(DPROBES, other)
    beside_another(other)


@alone
def other_container():
    """nor does one in a container, where the ids of processes are others"""
    need("unshare")
    beside_another("unshare", "--pid", "--fork", "--mount-proc", DPROBES)


@alone
def never_silent():
    """a trace that is stopped when its program starts has seen it, or tells that it did not wait, once"""
    root()
    for _ in range(3):
        t = start([DPROBES, "trace", "-o", "/dev/null", "p brief_work count", "--", BRIEF], stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE, text=True)
        wait_for(lambda: t.poll() is not None or held(), timeout=LONG, what="a start")
        t.send_signal(signal.SIGSTOP)
        wait_for(lambda: t.poll() is not None or not held(), timeout=LONG, what="the guard")
        t.send_signal(signal.SIGCONT)
        err = t.communicate(timeout=LONG)[1]
        assert ("1 process began, or loaded a file, without waiting" in err
                or re.search(r"^brief_work +jump +3 ", err, re.M)), err


@alone
def driver_stopped():
    """while the driver is stopped programs start and load their libraries, and it tells how many it has not seen"""
    both()
    pids = send(signal.SIGSTOP, "driver-serve")
    assert len(pids) == 1
    running = [start([path]) for path in (BRIEF, STATIC, BRIEF)]
    assert [p.wait(LONG) for p in running] == [0] * 3
    with open("/proc/%d/stat" % pids[0]) as f:
        assert f.read().rsplit(")", 1)[1].split()[0] == "T"
    os.kill(pids[0], signal.SIGCONT)
    wait_for(lambda: let_go(query()) >= 3, timeout=LONG, what="three that were let go")
    assert start([BRIEF]).wait(LONG) == 0
    assert not held(), held()


def traced_by(pid, driver):
    """Whether the driver traces the process."""
    with open("/proc/%d/status" % pid) as f:
        return re.search("^TracerPid:\t%d$" % driver, f.read(), re.M)


@alone
def killed_while_traced():
    """the parent of a process that is killed while the driver traces it hears of its end"""
    both()
    [driver] = ours("driver-serve")
    kills, end = 0, time.monotonic() + LONG
    while kills < 20 and time.monotonic() < end:
        p = start([BRIEF])
        while not traced_by(p.pid, driver) and p.poll() is None:
            pass
        os.kill(driver, signal.SIGSTOP)
        if p.poll() is None and traced_by(p.pid, driver):
            p.kill()
            kills += 1
        os.kill(driver, signal.SIGCONT)
        p.wait(LONG)
    assert kills
    wait_for(lambda: not held(), timeout=LONG, what="that nobody is held")


@alone
def guard_stopped():
    """a stopped guard is replaced: programs start meanwhile, and are caught again"""
    both()
    before = send(signal.SIGSTOP, "guard")
    assert len(before) == 1
    assert start([BRIEF]).wait(LONG) == 0 and start([STATIC]).wait(LONG) == 0
    wait_for(lambda: ours("guard") and ours("guard") != before, timeout=LONG, what="another guard")
    query()
    n = hits(query())
    assert start([BRIEF]).wait(LONG) == 0 and start([STATIC]).wait(LONG) == 0
    wait_for(lambda: [now - then for now, then in zip(hits(query()), n)] == [3, 2, 3] or let_go(query()),
             timeout=LONG, what="all hits")


def killed(*names):
    chance = random.Random(3)
    for _ in range(3):
        both()
        running = [start([path]) for path in (BRIEF, STATIC, BRIEF)]
        time.sleep(chance.random() * 0.15)
        send(signal.SIGKILL, *names)
        assert [p.wait(LONG) for p in running] == [0] * 3
        clean()
    wait_for(lambda: not held(), timeout=LONG, what="that nobody is held")


@alone
def driver_killed():
    """the driver is killed while programs are being caught: all of them go on"""
    killed("driver-serve")


@alone
def guard_killed():
    """its guard is killed"""
    killed("guard")


@alone
def guard_lost():
    """guard and keeper are killed while they hold somebody, and another guard cannot start: the driver lets them go"""
    root()
    other = os.path.join(DIR, "lost", "dprobes")
    os.mkdir(os.path.dirname(other))
    shutil.copy(DPROBES, other)
    wait_for(lambda: not ours("driver-serve"), timeout=LONG, what="the end of the driver of the test before")
    for path in (BRIEF, STATIC):
        subprocess.run([other, "insert", program(path, "brief_work")], stdout=subprocess.DEVNULL, check=True)
    send(signal.SIGSTOP, "driver-serve")
    os.chmod(other, 0)  # guards are started from it
    running = [start([path]) for path in (BRIEF, STATIC, BRIEF)]
    wait_for(held, timeout=LONG, what="somebody to be held")
    send(signal.SIGKILL, "guard", "keeper")
    send(signal.SIGCONT, "driver-serve")
    assert [p.wait(LONG) for p in running] == [0] * 3
    wait_for(lambda: "not held at their start: the guard cannot be started" in query(), timeout=LONG, what="the reason")
    wait_for(lambda: not held(), timeout=LONG, what="that nobody is held")
    clean()


@alone
def both_killed():
    """both are killed at once: the keeper lets go whom they held"""
    killed("driver-serve", "guard")


@alone
def all_killed():
    """all three are killed at once: the next command lets go whom they held"""
    chance = random.Random(4)
    for _ in range(3):
        both()
        running = [start([path]) for path in (BRIEF, STATIC, BRIEF)]
        time.sleep(chance.random() * 0.15)
        send(signal.SIGKILL, "driver-serve", "guard", "keeper")
        clean()
        assert [p.wait(LONG) for p in running] == [0] * 3
    assert not held(), held()


@alone
def not_held():
    """a driver that does not see the control group of a process cannot hold it, and says so"""
    root()
    need("unshare")
    groups = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"]
    if not groups:
        raise Skip("no cgroup version 2 is mounted")
    wait_for(lambda: not ours("driver-serve"), timeout=LONG, what="the end of the driver of the test before")
    own = os.path.join(groups[0], "dp-test-%d" % os.getpid())
    os.mkdir(own)
    try:
        script = "echo $$ >%s/cgroup.procs && exec unshare -C \"$0\" \"$@\"" % own
        insert(BRIEF, "brief_work", using=lambda *args, check: subprocess.run(
            ["sh", "-c", script, DPROBES, *args], check=True, stdout=subprocess.DEVNULL))
        insert(STATIC, "brief_work")
        for path in (BRIEF, STATIC) * 3:
            assert start([path]).wait(LONG) == 0
        wait_for(lambda: let_go(query()) == 6, timeout=LONG, what="six that were not held")
    finally:
        clean()
        wait_for(lambda: not ours("driver-serve", "guard", "keeper"), timeout=LONG, what="the driver's end")
        wait_for(lambda: not text_of(os.path.join(own, "cgroup.procs")), timeout=LONG, what="an empty group")
        wait_for(lambda: "populated 0" in text_of(os.path.join(own, "cgroup.events")), timeout=LONG, what="its end")
        os.rmdir(own)


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
