# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A program on a terminal of its own, and what stands on its screen: as much of xterm as ncurses uses."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from tap import _children

CSI = re.compile(r"\x1b\[([?>=!]?)([\d;]*)([@-~])")
OTHER = re.compile(r"\x1b(?:[()][A-Z0-9]|\][^\x07]*\x07|[=>78MDEc])")


class Screen:
    """Cells with characters, a cursor, a region that scrolls."""

    def __init__(self, rows, columns):
        self.alternate = False
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0
        self.top, self.bottom = 0, rows

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def scroll(self, at, n):
        """n > 0: lines from `at` on go up, within the region."""
        for _ in range(abs(n)):
            if n > 0:
                del self.cells[at]
                self.cells.insert(self.bottom - 1, [" "] * self.columns)
            else:
                del self.cells[self.bottom - 1]
                self.cells.insert(at, [" "] * self.columns)

    def put(self, c):
        if c == "\n":
            if self.y + 1 == self.bottom:
                self.scroll(self.top, 1)
            else:
                self.y = min(self.y + 1, self.rows - 1)
        elif c == "\r":
            self.x = 0
        elif c == "\b":
            self.x = max(self.x - 1, 0)
        elif c >= " ":
            if self.x == self.columns:
                self.x = 0
                self.put("\n")
            self.cells[self.y][self.x] = self.last = c
            self.x += 1

    def control(self, mark, args, what):
        v = [int(a) if a else 0 for a in args.split(";")]
        n = v[0] or 1
        self.x = min(self.x, self.columns - 1)
        row = self.cells[self.y]
        if mark:
            if mark == "?" and 1049 in v:
                self.alternate = what == "h"
        elif what in "Hf":
            self.y, self.x = n - 1, (v[1] if len(v) > 1 and v[1] else 1) - 1
        elif what in "ABCD":
            self.y += {"A": -n, "B": n}.get(what, 0)
            self.x += {"C": n, "D": -n}.get(what, 0)
        elif what in "Gd":
            self.x, self.y = (n - 1, self.y) if what == "G" else (self.x, n - 1)
        elif what in "JK":
            if what == "J":
                for y in range(0 if v[0] == 2 else self.y + 1 if v[0] == 0 else self.rows, self.rows):
                    self.cells[y] = [" "] * self.columns
            lo, hi = ((self.x, self.columns), (0, self.x + 1), (0, self.columns))[v[0]]
            self.cells[self.y][lo:hi] = [" "] * (hi - lo)
        elif what == "X":
            row[self.x:self.x + n] = [" "] * min(n, self.columns - self.x)
        elif what == "P":
            row[self.x:] = row[self.x + n:] + [" "] * min(n, self.columns - self.x)
        elif what == "@":
            row[self.x:] = ([" "] * n + row[self.x:])[:self.columns - self.x]
        elif what in "LM":
            self.scroll(self.y, n if what == "M" else -n)
        elif what in "ST":
            self.scroll(self.top, n if what == "S" else -n)
        elif what == "b":
            for _ in range(n):
                self.put(self.last)
        elif what == "r":
            self.top, self.bottom = n - 1, v[1] if len(v) > 1 and v[1] else self.rows
            self.y = self.x = 0
        self.y = max(0, min(self.y, self.rows - 1))
        self.x = max(0, min(self.x, self.columns - 1))

    def feed(self, text):
        """Returns what is left: the begin of a sequence."""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self.put(text[at])
                at += 1
                continue
            m = CSI.match(text, at) or OTHER.match(text, at)
            if not m:
                return text[at:]
            if m.re is CSI:
                self.control(*m.groups())
            elif m.group() == "\x1bM" and self.y == self.top:
                self.scroll(self.top, -1)
            elif m.group() == "\x1bM":
                self.y -= 1
            elif m.group() in ("\x1bD", "\x1bE"):
                self.put("\n")
            at = m.end()
        return ""


class Terminal:
    """A program on a terminal."""

    def __init__(self, argv, rows=24, columns=120, **env):
        self.fd, own = pty.openpty()
        self.screen = Screen(rows, columns)
        self.size(rows, columns)
        self.before = termios.tcgetattr(own)
        env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **env}
        env.pop("NO_COLOR", None)
        self.p = subprocess.Popen([str(a) for a in argv], stdin=own, stdout=own, stderr=own, env=env,
                                  preexec_fn=self._adopt)
        _children.append(self.p)
        self.own = own
        self.raw, self.rest = "", ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @staticmethod
    def _adopt():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if (rows, columns) != (self.screen.rows, self.screen.columns):
            self.screen.resize(rows, columns)
            self.p.send_signal(signal.SIGWINCH)

    def read(self, seconds):
        """Take what has come; waits so long for more. False: nothing came."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        text = self.decoder.decode(os.read(self.fd, 65536))
        self.raw += text
        self.rest = self.screen.feed(self.rest + text)
        return True

    def wait(self, cond, what, timeout=60):
        """Until cond(text of the screen) is true; returns that."""
        end = time.time() + timeout
        while True:
            r = cond(self.screen.text())
            if r:
                return r
            if time.time() > end or (self.p.poll() is not None and not self.read(0.1)):
                raise AssertionError("%s: never seen; the screen:\n%s" % (what, self.screen.text()))
            self.read(0.05)

    def see(self, text):
        return self.wait(lambda now: text in now, text)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def ended(self):
        """The exit status, when the program has ended; all that it has written is on the screen."""
        end = time.time() + 60
        while self.p.poll() is None and time.time() < end:
            self.read(0.05)
        while self.read(0.1):
            pass
        return self.p.wait(1)

    def restored(self):
        """Whether the terminal is what it was: its settings, the usual screen, the cursor."""
        return termios.tcgetattr(self.own) == self.before and not self.screen.alternate and \
            self.raw.rfind("\x1b[?25l") < self.raw.rfind("\x1b[?25h") or "settings %s" % termios.tcgetattr(self.own)
