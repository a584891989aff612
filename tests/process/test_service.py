# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes driver`: the programs of a directory, inserted at the start, in the foreground, for a service manager; and
the unit that runs it."""
import os
import re
import shutil
import socket
import subprocess
import time

from obey import *  # noqa: F403

PROGRAMS = os.path.join(DIR, "programs")
UNIT = os.path.join(BUILD, "packaging", "systemd", "dprobes.service")


def put(name, text, mode=0o644):
    os.makedirs(PROGRAMS, exist_ok=True)
    path = os.path.join(PROGRAMS, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def serve(*args, prefix=(), told=None):
    """The driver, when it has told the manager that it is ready; and what it said."""
    address = os.path.join(DIR, "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if os.path.exists(address):
        os.unlink(address)
    manager.bind(address)
    manager.settimeout(20)
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
    logged("67120000")  # 4711
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
    put("10-good.rpn", body("push r, rdi; log 1; exit"))
    with open(UNIT) as f:
        caps = re.findall(r"CAP_(\w+)", "\n".join(re.findall(r"(?m)^CapabilityBoundingSet=.*", f.read())))
    bounds = "-all" + "".join(",+" + c.lower() for c in caps)
    o, other = Obey(), Obey(user=65534)
    p, told, said = serve(PROGRAMS, prefix=(unshare, "-m", "--propagation", "slave", setpriv, "--bounding-set", bounds,
                                            "--no-new-privs"))
    assert "1 programs of the directory inserted, 0 not" in told, said
    assert our_mappings(o.pid) and our_mappings(other.pid), said
    later = Obey()
    wait_for(lambda: our_mappings(later.pid), what="probes in a program that starts later")
    assert later("add 4711 1") == "4712" and stop(p) == 0
    for x in (o, other, later):
        assert not our_mappings(x.pid) and x.end() == 0


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
