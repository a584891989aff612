# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Event lines of libraries that the program loads later: its probes are there when it calls them for the first time."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-later-")
AWAY = os.path.join(DIR, "away")
TIMES = 20
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")

LIBRARY = """
struct late { long n; const char *name; };
long calls;
__attribute__((noinline, noclone)) long late_work(struct late *l)
{
	calls += l->n;
	return calls * 2;
}
long late_run(long times)
{
	struct late l = {0, "late"};
	long sum = 0;

	for (l.n = 1; l.n <= times; l.n++)
		sum += late_work(&l);
	asm volatile("syscall" : "=a"(l.n) : "0"(110) : "rcx", "r11", "memory"); /* getppid */
	return sum;
}
"""

PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	char line[4096];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (argc > 1 ? !!argv[1] : !!fgets(line, sizeof(line), stdin)) {
		const char *file = argc > 1 ? argv[1] : strtok(line, "\\n");
		void *lib = dlopen(file, RTLD_NOW);
		long (*run)(long) = lib ? (long (*)(long))dlsym(lib, "late_run") : NULL;

		printf("%ld\\n", run ? run(20) : -1);
		if (argc > 1)
			break;
	}
	return 0;
}
"""


def need_holding():
    if os.geteuid() != 0:
        raise Skip("programs can be held while they load a library by root only")


def library(folder=DIR, name="liblate.so.2"):
    os.makedirs(folder, exist_ok=True)
    return compiled(folder, name, LIBRARY, "-O1", "-g", "-shared", "-fPIC")


def loader():
    library()
    return compiled(DIR, "loader", PROGRAM, "-O1", "-g")


def tracing(live, *lines, options=(), ready="wait for it"):
    t = trace_start("-p", live.pid, *options, *lines)
    wait_for(lambda: re.search(ready, text_of(t.err_path)), what=ready)
    return t


def ended(t, status=0):
    assert stop(t, signal.SIGINT) == status, text_of(t.err_path)
    return text_of(t.out_path), text_of(t.err_path)


def events(out):
    return [json.loads(s) for s in out.splitlines() if s.startswith('{"ts"') or '"event"' in s]


@test
def plain():
    """-p: a plain line of a library that is not mapped waits for it, and sees its very first call"""
    need_holding()
    p = Live(loader())
    t = tracing(p, "p liblate:late_work n=+0(%di):s64", "p:again liblate:late_work", options=["--json"])
    assert text_of(t.err_path).count("is not loaded yet; its probes wait for it") == 1, text_of(t.err_path)
    p(library())
    out, err = ended(t)
    got = [e["args"]["n"] for e in events(out) if e["event"] != "again"]
    assert got == list(range(1, TIMES + 1)), (got, err)
    assert sum(e["event"] == "again" for e in events(out)) == TIMES, out
    assert not our_mappings(p.pid) and p.end() == 0


@test
def names_and_tables():
    """names, a table and a body of such a library, beside a line of the program itself"""
    need_holding()
    p = Live(loader())
    t = tracing(p, "begin { n = 0; }", "p liblate:late_work $l->n $l->name if $l->n > 18",
                "r liblate:late_work count by $l->name", "p liblate:late_work { n += $l->n; }", "end { log(n); }",
                "p libc:fgets count", options=["--json"])
    p(library())
    out, err = ended(t)
    got = [e["args"] for e in events(out) if "l->n" in e.get("args", {})]
    assert got == [{"l->n": 19, "l->name": "late"}, {"l->n": 20, "l->name": "late"}], (out, err)
    assert '"n":210' in out.replace(" ", ""), out
    assert re.search(r'"late"[^\n]*20', out), out
    p.end()


@test
def command():
    """with -- COMMAND: a library that is opened and used at once"""
    need_holding()
    r = dprobes("trace", "p liblate:late_work n=+0(%di):s64", "--json", "--", loader(), library(), check=0)
    assert [e["args"]["n"] for e in events(r.stdout)] == list(range(1, TIMES + 1)), (r.stdout, r.stderr)
    assert "liblate is not loaded yet" in r.stderr, r.stderr
    r = dprobes("trace", "p liblate.so.2:late_work count", "s liblate:getppid count", "p libc:getppid count", "--",
                loader(), library(), check=0)
    assert re.search(r"late_work +jump +20 ", r.stderr), r.stderr
    script = os.path.join(DIR, "script")
    with open(script, "w") as f:
        f.write("#!/bin/sh\nexec %s %s\n" % (loader(), library()))
    os.chmod(script, 0o755)
    r = dprobes("trace", "p %s:late_work count" % library(), "p libc:getpid count", "--", script, check=0)
    assert re.search(r"late_work +jump +20 ", r.stderr), r.stderr


@test
def judged_at_once():
    """the library's file is found before it is loaded: a name that it has not is an error at once"""
    p = Live(loader())
    for line, code, hint in (("p liblate:late_wurk", "E-SYM-NONE", "did you mean late_work"),
                             ("p liblate:late_work $k", "E-VAR-NONE", "did you mean l"),
                             ("p libnothing:f", "E-MOD-NONE", "--wait-for-modules"),
                             ("p nothing:f", "E-MOD-NONE", "dprobes"),
                             ("p /nowhere/libnothing.so:f", "E-MOD-NONE", "dprobes")):
        r = dprobes("trace", "-p", p.pid, line, check=1)
        assert code in r.stderr and hint in r.stderr and "wait for it" not in r.stderr, (line, r.stderr)
    assert not our_mappings(p.pid)
    p.end()
    static = compiled(DIR, "static", "#include <unistd.h>\nint main(void) { return getpid() < 0; }", "-static")
    r = dprobes("trace", "p libc:getpid", "--", static, check=1)
    assert "E-MOD-NONE" in r.stderr, r.stderr


@test
def elsewhere():
    """--wait-for-modules: one that is found nowhere is judged when it is loaded; a wrong line is told then, and the
    others go on"""
    p = Live(loader())
    t = tracing(p, "p libaway:late_work $l->n", "p libaway:late_wurk", "r libaway:late_work $retval",
                options=["--json", "--wait-for-modules"])
    away = library(AWAY, "libaway.so")
    p(away)
    wait_for(lambda: "was not expected" in text_of(t.err_path), what="the library")
    wait_for(lambda: in_place(p.pid), what="probes")
    err = text_of(t.err_path)
    assert "E-SYM-NONE" in err and "late_wurk" in err and err.count("dprobes: E-SYM-NONE") == 1, err
    p(away)
    out, err = ended(t)
    got = [e["args"] for e in events(out)]
    assert sum("l->n" in a for a in got) >= TIMES and sum("retval" in a for a in got) >= TIMES, (out, err)
    p.end()


@test
def never():
    """what never comes is told at the end"""
    p = Live(loader())
    t = tracing(p, "p liblate:late_work", "p main")
    out, err = ended(t)
    assert "liblate was never loaded" in err, err
    p.end()


@alone
def inserted():
    """insert --pid of a program for a library that is not loaded yet: the same"""
    path = os.path.join(DIR, "late.dpc")
    with open(path, "w") as f:
        f.write('#pragma MODNAME("%s") MODTYPE(user)\n#pragma PROBEPOINT_LOCATION("late_work") '
                'PROBEPOINT_HANDLER("late")\nvoid late() { log($l->n); }\n' % library())
    p = Live(loader())
    r = dprobes("insert", path, "--pid", p.pid, check=0)
    assert "when process %d loads it" % p.pid in r.stdout + r.stderr, (r.stdout, r.stderr)
    p(library())
    wait_for(lambda: "%d" % TIMES in dprobes("query", check=0).stdout, what="hits")
    p.end()


run()
