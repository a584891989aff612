# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes driver`: the programs of a directory, inserted at the start, in the foreground, for a service manager; the
unit that runs it; and one that gives its place to a newer version."""
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

from obey import *  # noqa: F403

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = os.path.join(DIR, "programs")
BLOB_MAGIC = int(re.search(r"DP_BLOB_MAGIC (0x\w+)", text_of(os.path.join(ROOT, "src", "abi", "abi-offsets.h")))[1], 16)
UNIT = os.path.join(BUILD, "packaging", "systemd", "dprobes.service")


def put(name, text, mode=0o644):
    os.makedirs(PROGRAMS, exist_ok=True)
    path = os.path.join(PROGRAMS, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def service_manager():
    """A socket that is told what a service manager is, and its address."""
    address = os.path.join(DIR, "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if os.path.exists(address):
        os.unlink(address)
    manager.bind(address)
    manager.settimeout(20)
    return manager, address


def serve(*args, prefix=(), told=None):
    """The driver, when it has told the manager that it is ready; and what it said."""
    manager, address = service_manager()
    err = open(os.path.join(DIR, "errors"), "w+")
    p = start([*prefix, DPROBES, "driver", *args], stderr=err,
              env=dict(os.environ, NOTIFY_SOCKET=address))
    try:
        text = manager.recv(4096).decode()
    except TimeoutError:
        stop(p)
        raise AssertionError(text_of(err.name)) from None
    manager.close()
    assert text.startswith("READY=1\n"), text
    return p, text, text_of(err.name)


@alone
def directory():
    """good files are inserted, each bad one is named with its reason and stops no other; SIGTERM takes all away"""
    o = Obey()
    put("10-good.rpn", body("push r, rdi; log 1; exit"))
    put("20-bad.rpn", body("nonsense"))
    put("30-open.rpn", body("push r, rdi; log 1; exit", offset="fork_numbers"), mode=0o666)
    put("40-other.txt", "no program")
    p, told, said = serve(PROGRAMS)
    assert "1 programs of the directory inserted, %d not" % (2 if not os.getuid() else 1) in told, (told, said)
    assert re.search(r"10-good.rpn: inserted", said) and "40-other" not in said, said
    assert re.search(r"20-bad.rpn", said) and "E-DRV-PROGRAM" in said, said
    assert os.getuid() or "30-open.rpn: others may write it" in said, said
    assert o("add 4711 1") == "4712"
    logged("67120000", "--raw")  # 4711
    r = dprobes("driver", PROGRAMS)
    assert r.returncode == 1 and "E-DRV-RUNS" in r.stderr, r.stderr
    dprobes("remove", "--all", check=0)
    time.sleep(3)
    assert p.poll() is None, "it ended with nothing inserted"
    dprobes("insert", os.path.join(PROGRAMS, "10-good.rpn"), check=0)
    assert our_mappings(o.pid) and stop(p) == 0
    assert not our_mappings(o.pid) and o("add 1 1") == "2" and o.end() == 0


@alone
def killed():
    """killed and started again, it goes on with what was inserted, and inserts the files anew"""
    o = Obey()
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    put("10-good.rpn", body("push r, rdi; log 1; exit"))
    p, _, said = serve(PROGRAMS)
    assert our_mappings(o.pid), said
    p.kill()
    p.wait()
    p, told, said = serve(PROGRAMS)
    assert "1 programs of the directory inserted, 0 not" in told, said
    assert our_mappings(o.pid) and o("add 1 1") == "2" and stop(p) == 0
    assert not our_mappings(o.pid) and o.end() == 0


@alone
def confined():
    """with the capabilities that the unit leaves it, and in a mount namespace of its own, it probes what runs outside,
    and what starts later"""
    setpriv, unshare = need("setpriv", "unshare")
    if os.getuid():
        raise Skip("needs root")
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    obey = shutil.copy(OBEY, tempfile.tempdir)  # where every user can get at it
    put("10-good.rpn", body("push r, rdi; log 1; exit", obey))
    with open(UNIT) as f:
        caps = re.findall(r"CAP_(\w+)", "\n".join(re.findall(r"(?m)^CapabilityBoundingSet=.*", f.read())))
    bounds = "-all" + "".join(",+" + c.lower() for c in caps)
    o, other = Obey(obey), Obey(obey, user=65534)
    p, told, said = serve(PROGRAMS, prefix=(unshare, "-m", "--propagation", "slave", setpriv, "--bounding-set", bounds,
                                            "--no-new-privs"))
    assert "1 programs of the directory inserted, 0 not" in told, said
    assert our_mappings(o.pid) and our_mappings(other.pid), said
    later = Obey(obey)
    wait_for(lambda: our_mappings(later.pid), what="probes in a program that starts later")
    assert later("add 4711 1") == "4712" and stop(p) == 0
    for x in (o, other, later):
        assert not our_mappings(x.pid) and x.end() == 0


class Calls(threading.Thread):
    """Calls of a probed function, one after the other, until they are counted: as many as rings hold for a second."""

    def __init__(self, target):
        super().__init__()
        self.target, self.n, self.ends = target, 0, False
        self.start()

    def run(self):
        while not self.ends:
            assert self.target("add 1 1") == "2"
            self.n += 1
            time.sleep(0.001)

    def count(self):
        self.ends = True
        self.join()
        return self.n


def records_of(value):
    return len(re.findall("(?m)^0000  %s" % struct.pack("<I", value).hex(), log("--raw")))


def main_process(manager):
    """What the driver, and nobody else, tells the manager."""
    text = ""
    while not text.startswith("MAINPID="):
        text = manager.recv(4096).decode()
    return int(text[8:])


@alone
def handed_over():
    """a driver leaves its place to another file: no hit and no record is lost, the manager learns of it, and the new
    one ends as the old one would"""
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    put("10-count.rpn", body("push r, rdi; log 1; exit"))
    o = Obey()
    p, _, said = serve(PROGRAMS)
    newer = os.path.join(DIR, "dprobes-newer")
    shutil.copy(DPROBES, newer)
    manager, _ = service_manager()
    calls = Calls(o)
    wait_for(lambda: calls.n > 100, what="calls")
    r = subprocess.run([newer, "driver", "--hand-over"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert (r.returncode, r.stdout) == (0, "process %d has handed 1 inserted program over\n" % p.pid), r.stdout
    assert p.wait(20) == 0
    pid = main_process(manager)
    assert drivers() == [pid] and os.readlink("/proc/%d/exe" % pid) == newer, (drivers(), pid)
    so_far = calls.n
    wait_for(lambda: calls.n > so_far + 100, what="calls")
    n = calls.count()
    told = dprobes("query", "--all", check=0).stdout
    assert re.search(r"hits %d: recorded %d, .* missed 0, lost 0" % (n, n), told), (n, told)
    wait_for(lambda: records_of(1) >= n, what="records")
    assert records_of(1) == n
    with open("/proc/%d/cmdline" % pid) as f:
        assert f.read().endswith("\0stays\0"), "it would end with nothing inserted"
    os.kill(pid, 15)
    wait_for(lambda: not drivers(), what="the end of the driver")
    assert not our_mappings(o.pid) and o.end() == 0
    manager.close()


@alone
def nobody_to_hand_over():
    """where no driver runs, there is nothing to hand over"""
    wait_for(lambda: not drivers(), what="the end of the driver")
    r = dprobes("driver", "--hand-over")
    assert r.returncode == 0 and "no driver runs" in r.stderr, r
    r = dprobes("driver", "--hand-over", PROGRAMS)
    assert r.returncode == 2 and "E-CMD-EXTRA" in r.stderr, r


def ask_driver(protocol, abi, op, name=b""):
    """What a driver answers to somebody with other interfaces: its error's detail."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.path.join(os.environ["DPROBES_DIR"], "socket"))
        s.sendall(struct.pack("<13I", 52 + len(name), protocol, abi, op, 0, 0, 0, 0, 0, 0, len(name), 0, 0) + name)
        code, detail, hint, text = struct.unpack("<4I", s.recv(16, socket.MSG_WAITALL))
        return code, s.recv(detail, socket.MSG_WAITALL).decode() if detail else ""


@alone
def other_versions():
    """who talks in another way, or has other control blocks, gets nothing of a driver; another version's probes in a
    process are named, and not touched"""
    o = Obey()
    dprobes("insert", program("count.rpn", body("push r, rdi; log 1; exit")), check=0)
    old, = drivers()
    interfaces = [ask_driver(protocol, 1, 3) for protocol in (1, 77)]
    assert interfaces[0][0] == 0 and "is of dprobes" in interfaces[1][1], interfaces
    abi = int(re.search(r"interface 1\.(\d+); this is 77", interfaces[1][1])[1])
    code, detail = ask_driver(1, abi + 1, 6, DPROBES.encode())
    assert code and "process %d" % old in detail and "this is 1.%d" % (abi + 1) in detail, detail
    assert drivers() == [old] and o("add 4711 1") == "4712"
    logged("67120000", "--raw")  # 4711
    kill_driver()
    shutil.rmtree(os.path.join(os.environ["DPROBES_DIR"], "state"))
    change_abi(o.pid, abi + 1)
    r = dprobes("trace", "-q", "-p", o.pid, "--duration", "0.1", "p obey:fork_numbers")
    assert r.returncode == 1 and "E-TARGET-VERSION" in r.stderr, r
    assert "interface %d, not %d" % (abi + 1, abi) in r.stderr, r
    assert o("add 4711 1") == "4712"
    change_abi(o.pid, abi)
    dprobes("clean", "-p", o.pid, check=0)
    assert not our_mappings(o.pid) and o.end() == 0


def change_abi(pid, abi):
    """The version that the control block in a process is of."""
    with open("/proc/%d/maps" % pid) as f:
        code = [int(line.split("-")[0], 16) for line in f if re.search(r" r-xp 0+ 00:00 0 *$", line)]
    with open("/proc/%d/mem" % pid, "r+b", 0) as mem:
        for start in code:
            mem.seek(start)
            magic, block = struct.unpack("<2Q", mem.read(16))
            if magic == BLOB_MAGIC and block:
                mem.seek(block + 8)
                mem.write(struct.pack("<I", abi))
                return
    raise AssertionError("no probes in process %d" % pid)


def check_unit(name, threshold):
    """It is right for systemd, and exposes no more than that."""
    analyze, = need("systemd-analyze")
    path = os.path.join(DIR, name)
    text = text_of(os.path.join(os.path.dirname(UNIT), name))
    with open(path, "w") as f:
        f.write(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=" + DPROBES, text))
    r = subprocess.run([analyze, "verify", "--man=no", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True)
    assert r.returncode == 0 and name not in r.stdout, r.stdout
    r = subprocess.run([analyze, "security", "--offline=true", "--threshold=%d" % threshold, path],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert r.returncode == 0, r.stdout[-1500:]


@test
def units():
    """the units are right for systemd, and expose less than a service that is not confined"""
    check_unit("dprobes.service", 70)
    check_unit("dprobes-exporter.service", 30)


try:
    run()
finally:
    for process in drivers():
        os.kill(process, 15)
    shutil.rmtree(DIR, ignore_errors=True)
