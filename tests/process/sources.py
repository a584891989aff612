# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Real programs with debug information: Debian's sources, compiled with -O2 -g, and Debian's Python with its debug
symbols. They are made once and kept in DP_SOURCES_CACHE or below the build directory; nothing is installed."""
import glob
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

CACHE = os.environ.get("DP_SOURCES_CACHE") or os.path.join(BUILD, "sources")
LISTS = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def run_in(where, *argv, env=None):
    r = subprocess.run(argv, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                       env=dict(os.environ, **(env or {})))
    return r.returncode == 0, r.stdout[-2000:]


def apt_config():
    """Settings of apt with lists of its own: those of the machine stay as they are."""
    top = os.path.join(CACHE, "apt")
    for name in ("parts", "lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(top, name), exist_ok=True)
    with open(os.path.join(top, "parts", "debian.sources"), "w") as f:
        f.write(LISTS)
    path = os.path.join(top, "apt.conf")
    with open(path, "w") as f:
        f.write('Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts "%s/parts";\nDir::State::lists "%s/lists";\n'
                'Dir::Cache "%s/cache";\nAPT::Sandbox::User "root";\n' % (top, top, top))
    return {"APT_CONFIG": path}


def source(package, pattern):
    """The unpacked source of a package, or a named skip."""
    top = os.path.join(CACHE, package)
    found = [d for d in glob.glob(os.path.join(top, "*")) if os.path.isdir(d)]
    if found:
        return found[0]
    os.makedirs(top, exist_ok=True)
    env = apt_config()
    if not glob.glob(os.path.join(CACHE, "apt", "lists", "*Sources*")):
        run_in(top, "apt-get", "-qq", "update", env=env)
    good, out = run_in(top, "apt-get", "-qq", "source", "--download-only", package, env=env)
    archives = glob.glob(os.path.join(top, pattern))
    if not good or not archives:
        raise Skip("the source of %s cannot be had" % package)
    with tarfile.open(archives[0]) as tar:
        tar.extractall(top)
    return [d for d in glob.glob(os.path.join(top, "*")) if os.path.isdir(d)][0]


def made(path, where, *commands):
    """The file that the commands make in the directory."""
    if not os.path.exists(path):
        for argv in commands:
            good, out = run_in(where, *argv)
            assert good, out
    return path


def redis_server():
    top = source("redis", "redis_*.orig.tar.gz")
    return made(os.path.join(top, "src", "redis-server"), top,
                ["make", "-s", "-C", "src", "-j2", "MALLOC=libc", "OPTIMIZATION=-O2", "redis-server"])


def sqlite_shell():
    need("tclsh")
    top = source("sqlite3", "sqlite3_*.orig.tar.xz")
    return made(os.path.join(top, "shell"), top, ["./configure", "-q", "--disable-tcl", "--disable-readline"],
                ["make", "-s", "sqlite3.c", "shell.c"],
                ["gcc", "-O2", "-g", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-o", "shell", "shell.c",
                 "sqlite3.c", "-lm"])


def python():
    """The interpreter, its home, and the directory of its debug files."""
    top = os.path.join(CACHE, "python")
    exe = os.path.join(top, "usr", "bin", "python3.11")
    if not os.path.exists(exe):
        os.makedirs(top, exist_ok=True)
        good, out = run_in(top, "apt-get", "-q", "download", "python3.11-minimal", "python3.11-dbg",
                           "libpython3.11-stdlib",
                           "libpython3.11-minimal")
        if not good:
            raise Skip("Debian's python3.11 with debug symbols cannot be had")
        for package in sorted(glob.glob(os.path.join(top, "*.deb")), key=lambda name: "python3.11-minimal" in name):
            good, out = run_in(top, "dpkg", "-x", package, top)
            assert good, out
            os.unlink(package)
    return exe, os.path.join(top, "usr"), os.path.join(top, "usr", "lib", "debug")
