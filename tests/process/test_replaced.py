# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs whose file was deleted or replaced while they run, as an upgrade does: what they map is what counts, with a
build-id and without one."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SOURCE = r"""
#include <stdio.h>
#define KEPT __attribute__((noipa))
#ifdef NEWER
KEPT int before(int n) { return n * 7 + n / 3; }
#endif
KEPT int work(int n) { return n * 3 + 1; }
KEPT int other(int n) { return n * 5 + 1; }
int main(void)
{
	char line[64];
	for (int i = 1; fgets(line, sizeof(line), stdin); i++) {
		printf("%d\n", work(i) + other(i) > 0);
		fflush(stdout);
	}
	return 0;
}
"""


class Running:
    """A program whose file goes away, or gives way to a newer one."""

    def __init__(self, *options):
        where = tempfile.mkdtemp(dir=tempfile.tempdir)
        self.newer = compiled(where, "newer", SOURCE, "-g", "-O2", "-DNEWER", *options)
        self.path = compiled(where, "served", SOURCE, "-g", "-O2", *options)
        self.p = subprocess.Popen([self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.call()
        os.unlink(self.path)

    def call(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        return self.p.stdout.readline()

    def replace(self):
        shutil.copy(self.newer, self.path)

    def code(self):
        """The bytes of its own code, which are no longer in a file of that name."""
        with open("/proc/%d/maps" % self.p.pid) as f:
            lo, hi = (int(x, 16) for m in f if " r-xp " in m and "served" in m for x in m.split()[0].split("-"))
        with open("/proc/%d/mem" % self.p.pid, "rb", 0) as f:
            f.seek(lo)
            return f.read(hi - lo)

    def seen(self, line):
        """What a line shows of three calls."""
        before = self.code()
        t = trace_start("-p", self.p.pid, line)
        wait_for(lambda: not traced(self.p.pid) and self.code() != before and not traced(self.p.pid))
        for _ in range(3):
            assert self.call() == "1\n"
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        assert self.code() == before
        return text_of(t.out_path)

    def close(self):
        self.p.stdin.close()
        assert self.p.wait(30) == 0
        self.p.stdout.close()


def look(r):
    out = r.seen("p work")
    assert len(re.findall(r"@work\+0$", out, re.M)) == 3, out
    assert len(re.findall(r"@work\+0 n=\d+$", r.seen("p work $n"), re.M)) == 3
    assert re.search(r"count work +3$", r.seen("p work count"), re.M)
    assert re.search(r"count other +3$", r.seen("p other count if $n > 0"), re.M)
    assert "before" not in dprobes("funcs", "-p", r.p.pid).stdout
    assert "$n" in dprobes("vars", "-p", r.p.pid, "work").stdout
    assert "E-SYM-NONE" in dprobes("trace", "-p", r.p.pid, "p before count", check=1).stderr


@test
def gone():
    """the file is deleted: lines with names and tables find what the process maps, and so do funcs and vars"""
    r = Running()
    look(r)
    r.close()


@test
def replaced():
    """another file has its name: it is never taken for the one that runs, with or without a build-id"""
    for options in ((), ("-Wl,--build-id=none",)):
        r = Running(*options)
        r.replace()
        look(r)
        r.close()


@test
def programs():
    """a program that was compiled for the newer file is refused by a process that runs the older one"""
    for options in ((), ("-Wl,--build-id=none",)):
        r = Running(*options)
        r.replace()
        source = os.path.join(tempfile.tempdir, "count.dpc")
        with open(source, "w") as f:
            f.write('#pragma MODNAME("%s")\n#pragma PROBEPOINT_LOCATION("work") PROBEPOINT_HANDLER("h")\n'
                    "void h() { log($n); }\n" % r.path)
        out = dprobes("trace", "-p", r.p.pid, "-f", source, check=1)
        assert out.returncode and "E-RPN-BUILD" in out.stderr, (options, out.stdout, out.stderr)
        assert r.call() == "1\n"
        r.close()


run()
