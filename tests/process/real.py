# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the tests on real programs share: the summary as numbers, a redis of one's own, instruction offsets."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

COLUMNS = ("hits", "recorded", "filtered", "passed", "missed", "lost", "faults")
ROW = re.compile(r"^(.*?)\s+(?:(jump|trap|exits|exits\+trap|left-out|watch)\s+)?"
                 r"(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+"
                 r"(\d+)\s+\S+$")
NEVER = "if $arg1 == 0x123456789abcd"  # a condition that does not hold: the hit counts as filtered
NEVER_R = "if %ax == 0x123456789abcd"


def rows_of(err):
    """The summary's rows, name -> counts, and how it is probed ("via"); the row "total" among them where there is
    one. Probes that were never hit are told by their names alone, where they are few."""
    rows, inside = {}, False
    never = re.search(r"^\d+ probes?, \d+ never hit \((?!not shown\))(.*)\);", err, re.M)
    for name in never.group(1).split(", ") if never else []:
        rows[name] = dict.fromkeys(COLUMNS, 0) | {"via": None}
    for line in err.splitlines():
        if line.startswith("PROBE "):
            inside = True
        elif inside:
            m = ROW.match(line)
            if m:
                rows[m.group(1)] = dict(zip(COLUMNS, map(int, m.groups()[2:])), via=m.group(2))
    assert rows, err[-3000:]
    for name, r in rows.items():
        assert r["hits"] == r["recorded"] + r["filtered"] + r["passed"] + r["missed"] + r["lost"], (name, r)
    return rows


def probes_of(err):
    """How many probes were armed, from the summary's last line."""
    return int(re.search(r"^(\d+) probes?, ", err, re.M).group(1))


def armed(t, p, timeout=60):
    """Wait until the trace t has its probes in place in process p."""
    def look():
        if t.poll() is not None:
            raise AssertionError("dprobes ended early: %s\n%s" % (t.returncode, text_of(t.err_path)[-3000:]))
        alive(p)
        # The first patched byte is not the last one: dprobes lets go of the process when all are in place.
        return bool(in_place(p.pid))
    wait_for(look, timeout, "probes in place")


def alive(p):
    if p.poll() is not None:
        raise AssertionError("the target ended with status %s" % p.returncode)


def clean(p):
    """The process shows no trace of the probes any more."""
    alive(p)
    assert not code_differs(p.pid), code_differs(p.pid)
    assert not our_mappings(p.pid), our_mappings(p.pid)


def finish(t, p=None, timeout=60):
    """End a trace as Ctrl-C does; returns what it printed on standard error."""
    status = stop(t, signal.SIGINT, timeout)
    err = text_of(t.err_path)
    assert status == 0, (status, err[-3000:])
    if p:
        clean(p)
    return err


def forget(t):
    for path in (t.out_path, t.err_path):
        os.unlink(path)


class Redis:
    """A redis-server of one's own on a unix socket in a fresh directory."""

    def __init__(self, server="redis-server"):
        server, = need(server)
        self.dir = tempfile.mkdtemp(prefix="dp-redis-")
        self.path = os.path.join(self.dir, "s")
        self.log = os.path.join(self.dir, "log")
        self.p = start([server, "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no",
                        "--logfile", self.log], cwd=self.dir)
        wait_for(lambda: os.path.exists(self.path), what="redis")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)
        self.f = self.sock.makefile("rb")

    def __call__(self, *words):
        """One command; returns its reply as a python value."""
        data = b"*%d\r\n" % len(words)
        for w in words:
            w = w if isinstance(w, bytes) else str(w).encode()
            data += b"$%d\r\n%s\r\n" % (len(w), w)
        self.sock.sendall(data)
        return self.reply()

    def reply(self):
        line = self.f.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise AssertionError(rest.decode())
        n = int(rest)
        if n < 0:
            return None
        if kind == b"$":
            return self.f.read(n + 2)[:-2]
        assert kind == b"*", line
        return [self.reply() for _ in range(n)]

    def calls(self):
        """Commands ended so far, by name, from the server's own statistics."""
        text = self("INFO", "commandstats").decode()
        return {m.group(1): int(m.group(2)) for m in re.finditer(r"^cmdstat_([^:]+):calls=(\d+)", text, re.M)}

    def bench(self, *args, timeout=600):
        tool, = need("redis-benchmark")
        r = subprocess.run([tool, "-s", self.path, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=timeout)
        assert r.returncode == 0 and "rror" not in r.stdout, r.stdout[-2000:]
        return r.stdout

    def check_replies(self, n=20):
        """Commands of many kinds with replies known beforehand."""
        for i in range(n):
            k = "k%d" % i
            big = bytes((i * 7 + j * 13) & 255 for j in range(5000 + i))
            assert self("SET", k, big) == "OK" and self("GET", k) == big and self("STRLEN", k) == len(big)
            assert self("DEL", k, "n", "l", "h", "z", "s") >= 1
            assert [self("INCRBY", "n", i) for _ in range(3)] == [i, 2 * i, 3 * i]
            assert self("INCRBYFLOAT", "n", "0.5") == b"%d.5" % (3 * i)
            items = [(j * 7919 + i) % 1009 for j in range(200)]
            assert self("RPUSH", "l", *items) == 200
            assert self("LRANGE", "l", 0, -1) == [b"%d" % x for x in items]
            assert self("SORT", "l") == [b"%d" % x for x in sorted(items)]
            assert self("SORT", "l", "DESC", "ALPHA") == sorted((b"%d" % x for x in items), reverse=True)
            assert self("HSET", "h", *sum(([x, x * x] for x in set(items)), [])) == len(set(items))
            assert self("HGET", "h", items[5]) == b"%d" % items[5] ** 2
            assert self("ZADD", "z", *sum(([x, "m%d" % x] for x in set(items)), [])) == len(set(items))
            assert self("ZRANGE", "z", 0, -1) == [b"m%d" % x for x in sorted(set(items))]
            assert self("SADD", "s", *items) == len(set(items)) and self("SCARD", "s") == len(set(items))
            assert self("EVAL", "local s = 0 for i = 1, 1000 do s = s + i * tonumber(ARGV[1]) end return s", 0, i) == \
                500500 * i
            assert self("EVAL", "return {string.rep('ab', 3), redis.call('GET', KEYS[1]), tostring(2^0.5)}", 1,
                        "n") == \
                [b"ababab", b"%d.5" % (3 * i), b"1.4142135623731"]
            assert self("PING", "hello %d" % i) == b"hello %d" % i

    def end(self):
        clean(self.p)
        with open(self.log, errors="replace") as f:
            log = f.read()
        assert "STACK TRACE" not in log and "crashed" not in log, log[-4000:]
        assert stop(self.p) == 0, "status %s" % self.p.returncode
        shutil.rmtree(self.dir, ignore_errors=True)


def instructions(module, path, patterns, condition="if %sp == 1", every=1):
    """Event lines for all instructions that a jump fits on, of every Nth function that matches."""
    tool = os.path.join(BUILD, "tests", "process", "sites")
    r = subprocess.run([tool, module, path, condition, str(every), *patterns], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    assert r.returncode == 0, r.stderr
    return r.stdout.splitlines()


def module_path(pid, name):
    """The file of a module that a process has mapped, by the beginning of its name."""
    with open("/proc/%d/maps" % pid) as f:
        for line in f:
            path = line.split(None, 5)[-1].strip()
            if os.path.basename(path).startswith(name):
                return path
    raise Skip("%s is not used by process %d" % (name, pid))


def event_file(where, lines):
    path = os.path.join(where, "events")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    return path
