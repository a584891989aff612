#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A driver whose disk is full, and one with many programs: what is counted is true."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-full-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
OBEY, SIMPLE = target("obey"), target("simple")
CALLS = 6000


def program(name, text):
    path = os.path.join(DIR, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def count(word):
    return int(re.search(r"\b%s (\d+)" % word, dprobes("query", check=0).stdout).group(1))


def in_log():
    return dprobes("log", check=0).stdout.count('"data":')


@alone
def full():
    """what does not fit on the disk is counted as lost, and the log goes on when there is room again"""
    if os.geteuid() != 0:
        raise Skip("only root can mount a small disk")
    disk = os.path.join(DIR, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk]).returncode:
        raise Skip("a small disk cannot be mounted here")
    before, os.environ["DPROBES_DIR"] = os.environ["DPROBES_DIR"], os.path.join(disk, "driver")
    try:
        o = Live(OBEY)
        dprobes("insert", program("o.rpn", "name = %s\nlogmax = 64\noffset = add_numbers\npush r, rdi; log 1; exit\n"
                                  % OBEY), "--json", check=0)
        for n in range(CALLS):
            assert o("add %d 1" % n) == str(n + 1)
        wait_for(lambda: count("recorded") == in_log() and count("recorded") + count("lost") == CALLS, timeout=60,
                 what="counts that are true")
        assert count("lost") > 0 and in_log() > 100, (count("lost"), in_log())
        dprobes("log", "--clear", check=0)
        kept = count("recorded")
        assert o("add 1 1") == "2"
        wait_for(lambda: in_log() == 1 and count("recorded") == kept + 1, timeout=60, what="one record more")
        assert json_lines(dprobes("log", check=0).stdout)
        assert o.end() == 0
    finally:
        clean()
        wait_for(lambda: not os.path.exists(os.path.join(disk, "driver", "socket")), timeout=60,
                 what="the driver's end")
        os.environ["DPROBES_DIR"] = before
        subprocess.run(["umount", "-l", disk])


@alone
def many():
    """more programs for one process than anybody would write: each is there"""
    o = Live(OBEY)
    os.mkdir(os.path.join(DIR, "links"))
    for i in range(66):
        link = os.path.join(DIR, "links", "obey-%d" % i)
        os.symlink(OBEY, link)  # the same file under other names
        dprobes("insert", program("m.rpn", "name = %s\nvars = 1\noffset = add_numbers\ninc lv, 0; abort\n" % link),
                "-p", o.pid, check=0)
    assert o("add 1 2") == "3"
    wait_for(lambda: re.findall(r"hits (\d+):", dprobes("query", check=0).stdout) == ["1"] * 66, timeout=60,
             what="a hit of each")
    dprobes("-r", "-a", check=0)
    assert o("add 1 2") == "3" and not our_mappings(o.pid) and o.end() == 0


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
