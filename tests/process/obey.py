# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""For tests of probe programs in live processes: a driver of the test's own, and a target that answers."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

OBEY = target("obey")
DIR = tempfile.mkdtemp(prefix="dp-rpn-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")


class Obey(Live):
    """A target that answers."""

    def __init__(self, argv=None, **kw):
        super().__init__(argv or OBEY, **kw)


def program(name, text):
    path = os.path.join(DIR, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def log(*options):
    return dprobes("log", *options, check=0).stdout


def logged(pattern, *options):
    """Wait for the log to hold it: the driver drains the rings a little later."""
    return wait_for(lambda: re.search(pattern, log(*options)), what="log with " + pattern)


def body(code, name=OBEY, header="logmax = 100\nvars = 4\njmpmax = 20\n", offset="add_numbers", more=""):
    return "name = %s\n%s\noffset = %s\n%s\n%s\n" % (name, header, offset, more, code)


def hits(text, probe=0):
    return int(re.search(r"probe %d: .*hits (\d+):" % probe, text).group(1))


def kill_driver():
    assert drivers()
    kill_drivers()
    wait_for(lambda: not drivers(), what="the driver's death")
