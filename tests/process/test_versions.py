# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""One command, several processes: lines are right in each, also where the processes have different files of a name."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-versions-")

LIBRARY = """
struct item { %s long n; const char *name; };
long calls;
%s
__attribute__((noinline, noclone)) long work(struct item *i)
{
	calls += i->n;
	return calls * 2;
}
long run(long n)
{
	struct item i = {.n = n, .name = "%s"};

	return work(&i);
}
"""

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
long run(long n);
__attribute__((noinline, noclone)) long again(long n, long m) { return run(n) * m; }
int main(void)
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin))
		printf("%ld\\n", again(atol(line), 1));
	return 0;
}
"""


def version(name):
    """A program with a library of its own; the second one has other offsets in its code and its structures."""
    folder = os.path.join(DIR, name)
    os.makedirs(folder, exist_ok=True)
    lib = compiled(folder, "libitem.so", LIBRARY % (("", "", name) if name == "one" else (
        "char room[40];", "long more(long n) { return n * calls + 17; }\nlong most(void) { return more(3) + more(4); }",
        name)), "-O1", "-g", "-shared", "-fPIC")
    return compiled(folder, "user" + name, PROGRAM, "-O1", "-g", "-Wl,--no-as-needed", lib, "-Wl,-rpath," + folder)


def traced(p, *lines, options=()):
    t = trace_start("--json", "-p", ",".join(str(x.pid) for x in p), *options, *lines)
    wait_for(lambda: t.poll() is not None or any(in_place(x.pid) for x in p), what="probes")
    settled(lambda: [in_place(x.pid) for x in p], looks=3)
    for i, x in enumerate(p):
        x("%d" % (i + 5))
    assert stop(t, 2) == 0, text_of(t.err_path)
    out = text_of(t.out_path)
    return {e["tid"]: e["args"] for e in map(json.loads, out.splitlines()) if "args" in e}, out, text_of(t.err_path)


@test
def two_versions():
    """two versions of a library, and of a program: names and places are those of each process"""
    p = [Live(version(v)) for v in ("one", "two")]
    got, _, err = traced(p, "p libitem:work $i->n $i->name")
    assert got == {p[0].pid: {"i->n": 5, "i->name": "one"}, p[1].pid: {"i->n": 6, "i->name": "two"}}, (got, err)
    got, _, err = traced(p, "p work $i->n $i->name if $i->n > 5")
    assert got == {p[1].pid: {"i->n": 6, "i->name": "two"}}, (got, err)
    got, _, err = traced(p, "p again $n $m")
    assert got == {x.pid: {"n": 5 + i, "m": 1} for i, x in enumerate(p)}, (got, err)
    out, err = traced(p, "p libitem:work count by $i->name")[1:]
    assert '"one"' in out and '"two"' in out and re.search(r"^work +jump +2 ", err, re.M), (out, err)
    err = traced(p, "p libitem:more $n")[2]
    assert "1 probe, 1 never hit (more);" in err, err
    for line in ("p user*:again $n", "p usertwo:again $n"):
        got, _, err = traced(p, line)
        assert p[1].pid in got and (p[0].pid in got) == ("*" in line), (line, got, err)
    r = dprobes("trace", "-p", "%d,%d" % (p[0].pid, p[1].pid), "p nowhere_at_all $n", check=1)
    assert "E-SYM-NONE" in r.stderr, r.stderr
    for x in p:
        assert x.end() == 0


@test
def one_path():
    """a process that has another file under the same path is named, and not probed"""
    if os.geteuid() != 0:
        raise Skip("another file under the same path needs a mount namespace")
    path, other = version("one"), version("two")
    lib = os.path.join(DIR, "one", "libitem.so")
    mounts = "mount --bind %s %s && exec %s" % (os.path.join(os.path.dirname(other), "libitem.so"), lib, path)
    if subprocess.run(["unshare", "-m", "sh", "-c", mounts.replace("exec " + path, "true")]).returncode:
        raise Skip("no mount namespace can be made here")
    p = [Live(path), Live(["unshare", "-m", "sh", "-c", mounts])]
    if lib not in text_of("/proc/%d/maps" % p[1].pid):
        raise Skip("paths in other mount namespaces are shown in another form here, as in a chroot")
    got, _, err = traced(p, "p libitem:work $i->n $i->name")
    wanted = ({"i->n": 5, "i->name": "one"}, {"i->n": 6, "i->name": "two"})
    assert len(got) == 1 and list(got.values())[0] in wanted, got
    refused = [x.pid for x in p if x.pid not in got][0]
    assert "process %d refused the probes of %s: E-RPN-BUILD" % (refused, lib) in err, err
    for x in p:
        assert x.end() == 0


run()
