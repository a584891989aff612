# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What sits at the other end of a guest's debugger line, for the group debugger of guest-rpn.sh."""
import re
import socket
import subprocess
import threading
import time


class Operator(threading.Thread):
    """Sits at the second serial line of the guest of the group debugger: first as somebody who types at kdb, then
    gdb."""

    def __init__(self, path, limit):
        super().__init__(daemon=True)
        self.path, self.end = path, time.monotonic() + limit
        self.kdb = self.gdb = self.why = ""

    def read_until(self, line, text):
        seen = ""
        while text not in seen:
            line.settimeout(max(self.end - time.monotonic(), 0.1))
            some = line.recv(4096).decode(errors="replace")
            if not some:
                raise EOFError("the line was closed before " + text)
            seen += some
        return seen

    def connect(self):
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(self.path)
                return line
            except OSError:
                line.close()
                if time.monotonic() > self.end:
                    raise
                time.sleep(0.2)

    def run(self):
        try:
            with self.connect() as line:
                self.read_until(line, "kdb>")
                line.sendall(b"rd\r")
                self.kdb = self.read_until(line, "kdb>")
                line.sendall(b"go\r")
                self.read_until(line, "kdb>")  # by SysRq g
                line.sendall(b"kgdb\r")
                self.read_until(line, "attach debugger")
            script = ["set architecture i386:x86-64", "set remotetimeout 60", "target remote " + self.path, "continue",
                      r'printf "entry %lx mode %o name %s\n", $rip, $edx, *(char **)$rsi', "continue",
                      r'printf "return %ld\n", $rax', "set $rax = -28", "detach"]
            r = subprocess.run(["gdb", "-nx", "-batch", *[w for s in script for w in ("-ex", s)]],
                               stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               timeout=max(self.end - time.monotonic(), 1))
            self.gdb = r.stdout
        except (OSError, EOFError, subprocess.SubprocessError) as e:
            self.why = repr(e)

    def judge(self, lines, report):
        self.join(10)
        at = {m.group(2): int(m.group(1), 16) for m in (re.match(r"debugger: ([0-9a-f]+) (\w+)", line)
                                                        for line in lines) if m}
        why = [self.why, *self.kdb.splitlines()[-40:], *self.gdb.splitlines()[-40:]]
        ip = re.search(r"\bip: *(?:0x)?([0-9a-f]{16})", self.kdb)
        report(bool(ip) and 0 <= int(ip.group(1), 16) - at.get("__x64_sys_sync", 0) < 16,
               "kdb shows the registers of the probed function", why)
        m = re.search(r"entry ([0-9a-f]+) mode 0*777 name /tmp/refused$", self.gdb, re.M)
        report(bool(m) and 0 <= int(m.group(1), 16) - at.get("do_mkdirat", 0) < 16,
               "gdb stops in the probed function, with its arguments", why)
        report(re.search(r"^return 0$", self.gdb, re.M) is not None, "and at its return, with its value", why)
