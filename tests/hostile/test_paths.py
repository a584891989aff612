#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""An unprivileged process that puts a pipe in the place of a library that it maps: root's driver does not wait for
it."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-paths-")
os.chmod(DIR, 0o755)
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
TRAP, PIPE = os.path.join(DIR, "libtrap.so"), os.path.join(DIR, "pipe")

TARGET = """
import ctypes, subprocess, sys
library = ctypes.CDLL(%r)
subprocess.run(["mount", "--bind", %r, %r], check=True)
print("ready", flush=True)
for line in sys.stdin:
    print(library.plugin_work(int(line)), flush=True)
""" % (TRAP, PIPE, TRAP)


@alone
def pipe_over_library():
    """a pipe over a mapped library, in a mount namespace of its own"""
    if os.geteuid() != 0:
        raise Skip("the driver has to be root's")
    need("unshare", "setpriv", "mount")
    shutil.copy(target("libbrief.so"), TRAP)
    os.chmod(TRAP, 0o755)
    os.mkfifo(PIPE)
    os.chmod(PIPE, 0o666)
    unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user",
                    "--map-root-user", "--mount"]
    r = subprocess.run([*unprivileged, "mount", "--bind", PIPE, TRAP], stderr=subprocess.PIPE, text=True)
    if r.returncode:
        raise Skip("an unprivileged user cannot have a mount namespace here: %s" % r.stderr.strip())
    t = Live([*unprivileged, "/usr/bin/python3", "-c", TARGET])
    path = os.path.join(DIR, "trap.rpn")
    with open(path, "w") as f:
        f.write("name = libtrap\nvars = 1\noffset = plugin_work\ninc lv, 0; abort\n")
    assert "in 1 process" in dprobes("insert", path, check=0).stdout
    want = t("5")
    assert want.isdigit(), want
    wait_for(lambda: "hits 1:" in dprobes("query", check=0).stdout, what="a hit")
    for args in (["funcs", "-p", t.pid, "plugin_*"], ["verify", t.pid], ["list", t.pid]):
        dprobes(*args)
    dprobes("-r", "-a", check=0)
    assert t("5") == want and t.end() == 0


try:
    run()
finally:
    subprocess.run([DPROBES, "-r", "-a"], stdout=subprocess.DEVNULL)
    shutil.rmtree(DIR, ignore_errors=True)
