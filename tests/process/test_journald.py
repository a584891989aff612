# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Records as entries of systemd's journal: what a socket in journald's place gets, read as the native protocol is
described, and what journald's own tools make of it."""
import array
import json
import shutil
import signal
import socket
import struct

from obey import *  # noqa: F403

HERE = os.path.dirname(os.path.abspath(__file__))
# In a namespace of its own the journal's socket is that of the test.
INSIDE = ("mount -t tmpfs none /run && mkdir -p /run/systemd/journal && "
          "{ [ -z \"$0\" ] || mount --bind \"$0\" /run/systemd/journal; } && exec \"$@\"")


def shop():
    return compiled(DIR, "shop", text_of(os.path.join(HERE, "shop.c")), "-g", "-O2", "-w")


def parse(data):
    """Fields of one entry: KEY=VALUE and the line's end, or KEY, 64 bits of length, value, the line's end."""
    fields = {}
    while data:
        line, _, rest = data.partition(b"\n")
        key, equals, value = line.partition(b"=")
        if not equals:
            size, = struct.unpack("<Q", rest[:8])
            value, rest = rest[8:8 + size], rest[9 + size:]
        assert key.isascii() and key.decode().replace("_", "A").isalnum() and key.decode().isupper(), key
        assert 0 < len(key) <= 64 and key[:1] not in b"_0123456789" and key not in fields, key
        fields[key.decode()] = value.decode()
        data = rest
    return fields


class Journal:
    """A socket that commands in a namespace of their own find where journald's is."""

    def __init__(self):
        if os.getuid():
            raise Skip("needs root")
        self.unshare = need("unshare")[0]
        self.folder = os.path.join(DIR, "journal")
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, "socket")
        if os.path.exists(path):
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(30)

    def inside(self, *args):
        return [self.unshare, "-m", "sh", "-c", INSIDE, self.folder, *args]

    def run(self, *args):
        return subprocess.run(self.inside(DPROBES, *map(str, args)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120)

    def entry(self):
        data, control, _, _ = self.socket.recvmsg(1 << 20, 64)
        if control:
            fd = array.array("i", control[0][2])[0]
            os.lseek(fd, 0, os.SEEK_SET)
            with open(fd, "rb") as f:
                data = f.read()
        return parse(data)

    def entries(self):
        self.socket.setblocking(False)
        found = []
        while True:
            try:
                found.append(self.entry())
            except BlockingIOError:
                self.socket.settimeout(30)
                return found


LINES = ("p:order shop:add_order qty=%di:s32 id=+0(%si):s32", "r shop:may_fail len=$retval:s32")


@test
def entries():
    """each record is an entry: what it is, of which thread, each value by its name, and all of it as a line"""
    j = Journal()
    r = j.run("trace", "--format", "journald", *LINES, "--", shop(), "2")
    assert r.returncode == 0, r.stderr
    found = j.entries()
    orders = [e for e in found if e["DPROBES_PROBE"] == "order"]
    assert len(orders) == 4 == len(found) - len(orders), found
    for e in found:
        assert e["PRIORITY"] == "6" and e["SYSLOG_IDENTIFIER"] == "dprobes" and e["DPROBES_COMM"] == "shop", e
        assert e["DPROBES_PID"] == e["DPROBES_TID"] and int(e["DPROBES_PID"]) > 1 and e["DPROBES_CPU"].isdigit(), e
    assert orders[0]["DPROBES_ARG_QTY"] == "1" and orders[0]["DPROBES_RETURN"] == "0", orders[0]
    assert orders[0]["MESSAGE"] == "order qty=1 id=" + orders[0]["DPROBES_ARG_ID"], orders[0]
    assert orders[0]["DPROBES_SYMBOL"] == "add_order" and found[-1]["DPROBES_RETURN"] in "01"
    r = j.run("trace", "--format", "journald", "p add_order $qty $o->id count()", "--", shop(), "2")
    found = j.entries()
    table, = [e for e in found if "DPROBES_TABLE" in e]
    found.remove(table)
    assert r.returncode == 0 and [e["DPROBES_ARG_O__ID"] for e in found] == ["7", "8"] * 2, (r.stderr, found)
    assert found[0]["DPROBES_PROGRAM"] == shop() and found[0]["DPROBES_SYMBOL"] == "add_order", found[0]
    assert json.loads(table["DPROBES_JSON"])["value"] == 4, table


@test
def odd_texts():
    """no value makes an entry of its own, or a field; one that is too large for a datagram is a sealed file"""
    j = Journal()
    source = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void say(const char *s) { __asm__ volatile("nopl 8(%%rax)" :: "r"(s) : "memory"); }
__attribute__((noinline)) void many(const char *text) { __asm__ volatile("nopl 8(%%rax)" :: "r"(text) : "memory"); }
int main(int argc, char **argv)
{
	char text[80];

	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		memset(text, 1, 50);
		sprintf(text + 50, "%09d", i);
		many(text);
	}
	if (argc == 1)
		say("one\n\nPRIORITY=0\nMESSAGE=no\x1b[31m \xff\xc3\xa9");
	return 0;
}
"""
    talk = compiled(DIR, "talk", source, "-g", "-O1")
    assert j.run("trace", "--format", "journald", "p exe:say text=+0(%di):string", "--", talk).returncode == 0
    e, = j.entries()
    assert e["PRIORITY"] == "6" and "\n" not in e["MESSAGE"] and "\x1b" not in e["MESSAGE"], e
    assert e["DPROBES_ARG_TEXT"].endswith("é") and "PRIORITY=0" in e["DPROBES_ARG_TEXT"], e
    r = j.run("trace", "--format", "journald", "begin { KEYS(1700); }", "p exe:many count() by $text, $text",
              "--", talk, "2000")
    e, = j.entries()
    rows = json.loads(e["DPROBES_JSON"])["entries"]
    assert r.returncode == 0 and len(rows) > 1300 and len(e["DPROBES_JSON"]) > 215000, r.stderr


def big_recording(rounds=20):
    path = os.path.join(DIR, "run.dpt")
    dprobes("record", "-o", path, *LINES, "--", shop(), str(rounds), check=0)
    return path


@test
def slow():
    """a journal that takes nothing loses entries, which is told, and does not hold up what is shown"""
    j = Journal()
    r = j.run("report", "--format", "journald", "-q", big_recording(300))
    found = len(j.entries())
    assert r.returncode == 1 and "E-JOURNALD-LOST" in r.stderr and "%d of them" % (1200 - found) in r.stderr, \
        (found, r.stderr)


@test
def to_file():
    """with -o it is the journal's export format, which systemd's own tools read; elsewhere there is no journal"""
    out, path = os.path.join(DIR, "entries"), big_recording()
    dprobes("report", "--format", "journald", "-o", out, path, check=0)
    with open(out, "rb") as f:
        found = [parse(e) for e in f.read().split(b"\n\n") if e]
    assert len(found) == 80 and all(e["MESSAGE"] for e in found), len(found)
    if os.getuid():
        raise Skip("needs root")
    r = subprocess.run([need("unshare")[0], "-m", "sh", "-c", INSIDE, "", DPROBES, "report", "--format", "journald",
                        path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert r.returncode == 1 and "E-JOURNALD-NONE" in r.stderr and not r.stdout, r


@test
def of_the_driver():
    """insert --log-target JOURNALD: what a program logs is an entry, too"""
    j = Journal()
    o = Obey()
    code = body("push d, 8; push d, 7; log 2; exit")
    r = j.run("insert", program("two.rpn", code), "--log-target", "JOURNALD", "-p", o.pid)
    assert r.returncode == 0, r.stderr
    try:
        assert o("add 1 2") == "3"
        e = j.entry()
        assert e["DPROBES_PROGRAM"] == OBEY and e["DPROBES_PID"] == str(o.pid), e
        assert e["DPROBES_PROBE"] == os.path.basename(OBEY) and e["DPROBES_COMM"].startswith("obey"), e
        assert e["MESSAGE"].endswith(" data=" + e["DPROBES_DATA"]) and "07" in e["DPROBES_DATA"], e
    finally:
        j.run("remove", "--all")
        kill_driver()
    r = dprobes("insert", program("two.rpn", code), "--log-target", "JOURNAL", "-p", o.pid)
    assert r.returncode == 2 and "JOURNALD" in r.stderr, r.stderr
    assert o.end() == 0


@test
def real():
    """systemd-journald itself, in a namespace of its own: journalctl finds entries by their fields"""
    journald = next((p for p in ("/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-journald")
                     if os.path.exists(p)), None)
    if not journald or os.getuid() or not shutil.which("journalctl"):
        raise Skip("systemd-journald is not installed, or this is not root")
    script = ("mount -t tmpfs none /run && mkdir -p /run/systemd/journal && { %s & } && "
              "for i in $(seq 100); do [ -S /run/systemd/journal/socket ] && break; sleep 0.05; done && "
              "\"$@\" && kill -USR1 $! && sleep 0.2 && journalctl --no-pager -o json DPROBES_ARG_QTY=1; kill $!"
              % journald)
    r = subprocess.run([need("unshare")[0], "-m", "sh", "-c", script, "sh", DPROBES, "trace", "--format", "journald",
                        *LINES, "--", shop(), "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                       timeout=60)
    found = json_lines(r.stdout)
    if not found:
        raise Skip("journald does not run in a namespace here: " + (r.stderr.splitlines() or [""])[0][:80])
    assert found[0]["DPROBES_PROBE"] == "order" and found[0]["MESSAGE"].startswith("order qty=1"), found[0]


run()
