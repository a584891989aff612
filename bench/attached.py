# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What bench-cost.py and bench-threads.py share."""
import subprocess
import time


def trace(dprobes, pid, *arguments):
    """A `dprobes trace` of a process, whose probes are in place; its text goes nowhere, what it tells is piped."""
    t = subprocess.Popen([dprobes, "trace", "-o", "/dev/null", "-p", str(pid), *arguments],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with open("/proc/%d/maps" % pid) as maps:
        while "dprobes" not in maps.read():
            assert t.poll() is None, t.communicate()[1]
            time.sleep(0.05)
            maps.seek(0)
    time.sleep(0.5)
    return t
