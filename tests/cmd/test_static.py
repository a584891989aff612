# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The static dprobes: one file, alone in a root that has nothing but /proc, does what the usual one does; what it
cannot do, it says."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

STATIC = os.path.join(BUILD, "src", "cmd", "static", "dprobes")
ROOT = tempfile.mkdtemp(prefix="dp-static-")
PROGRAM = """#pragma MODNAME("/simple")
#pragma PROBEPOINT_LOCATION("work")
#pragma PROBEPOINT_HANDLER("entry")
void entry() { log($arg1); }
"""


def built():
    if not os.path.exists(STATIC):
        with open(os.path.join(os.path.dirname(STATIC), "lacks")) as f:
            lacks = f.read().strip()
        raise Skip("no static dprobes was built: %s not installed" % (lacks or "its libraries are"))
    return STATIC


def alone(script):
    """Run a script with the file as $D and a target as $P in a root of its own; the script's shell stays outside."""
    unshare, chroot = need("unshare", "chroot")
    if os.getuid() or not os.path.exists(target("simple-static")):
        raise Skip("needs root and simple-static")
    shutil.copy(built(), os.path.join(ROOT, "dprobes"))
    shutil.copy(target("simple-static"), os.path.join(ROOT, "simple"))
    os.makedirs(os.path.join(ROOT, "proc"), exist_ok=True)
    head = 'mount -t proc proc "$0/proc"; D="%s $0 /dprobes"; : >"$0/out"; %s "$0" /simple 30 >"$0/out" & P=$!\n' \
           'until grep -q ready "$0/out"; do sleep 0.1; done\n' % (chroot, chroot)
    env = {k: v for k, v in os.environ.items() if not k.startswith("DPROBES")}
    r = subprocess.run([unshare, "-m", "-p", "-f", "--kill-child", "sh", "-c", head + script, ROOT],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100,
                       stdin=subprocess.DEVNULL, env=env)
    assert r.returncode == 0, (script, r.returncode, r.stdout[-2000:], r.stderr[-4000:])
    return r


@test
def one_file():
    """no interpreter, no shared library; position independent, read-only after relocation, no executable stack"""
    readelf, = need("readelf")
    head = subprocess.run([readelf, "-W", "-h", "-l", "-d", built()], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    assert not re.search(r"INTERP|NEEDED|RPATH|RUNPATH|TEXTREL", head), head
    assert re.search(r"Type: +DYN", head) and "GNU_RELRO" in head and re.search(r"GNU_STACK.* RW +0x", head), head


@test
def traced():
    """alone in an empty root: a trace with texts, a table by stacks, functions, the machine's abilities, a recipe"""
    r = alone('$D trace --json -p $P --duration 0.1 "p work n=%di:s64 name=+0(%si):string"')
    lines = json_lines(r.stdout)
    assert len(lines) > 50 and all(e["args"]["name"] == 'hello "world"' for e in lines), r.stderr
    r = alone('$D trace -p $P --duration 0.5 "p work count by \\$backtrace"')
    assert re.search(r"\n +outer\+0x", r.stdout), r.stdout
    r = alone('$D funcs /simple; $D doctor; $D run; $D run offcpu --show')
    for text in (r"jump +work", r"\nmachine|^machine", r"ptrace ", r"offcpu-callers ", r"# title:"):
        assert re.search(text, r.stdout), (text, r.stdout)


@test
def recorded():
    """a recording that is made and shown there"""
    r = alone('$D record -o /rec -p $P --duration 0.1 "p work n=%di:s64" && $D report --json /rec')
    assert len(json_lines(r.stdout)) > 50, r.stderr


@test
def inserted():
    """a probe program: its driver starts from the same file, logs, and ends"""
    with open(os.path.join(ROOT, "one.dpc"), "w") as f:
        f.write(PROGRAM)
    r = alone('$D insert /one.dpc && sleep 1 && $D query --all && $D log >"$0/log" && $D remove --all; '
              'r=$?; tail -n 3 "$0/log"; exit $r')
    assert re.search(r"hits [1-9]", r.stdout), r.stdout


@test
def said():
    """what one file cannot have: a format, users of other sources, servers of debug information, a sender"""
    def fails(text, *args, **kw):
        r = subprocess.run([built(), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                           **kw)
        assert r.returncode and text in r.stderr and "hint:" in r.stderr, r.stderr

    fails("E-CMD-STATIC", "trace", "--format", "ctf", "-o", "/nowhere", "p x", "--", "true")
    fails("E-CMD-STATIC", "trace", "--user", "nobody-such", "--all", "/bin/true", "p x")
    strip, = need("strip")
    bare = os.path.join(ROOT, "bare")
    subprocess.run([strip, "-g", "-o", bare, target("simple-static")], check=True)
    fails("a static dprobes asks no servers", "lines", bare, "work", env={"DEBUGINFOD_URLS": "http://127.0.0.1:9"})
    shown = subprocess.run([built(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert not re.search(r"formats.* ctf", shown) and shown.count("not in the static dprobes") == 4, shown


@test
def names():
    """C++ names are demangled without the C++ library"""
    source = "namespace a { int twice(int x) { return 2 * x; } }\nint main() { return a::twice(0); }"
    path = compiled(ROOT, "cxx", source, compiler="g++")
    shown = subprocess.run([built(), "funcs", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           check=True).stdout
    assert "a::twice" in shown, shown


run()
