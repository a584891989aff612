# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Source lines as probepoints: the places that FILE:LINE means, in programs compiled when the test runs."""
import glob
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-lines-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")

SOURCE = """#include <stdio.h>
static inline __attribute__((always_inline)) int twice(int x)
{
	asm volatile("" ::: "memory");
	return x * 2; /* inlined */
}
/* a comment before a function */
__attribute__((noinline)) int work(int a, int b)
{
	int c = twice(a);
	asm volatile("" : "+r"(c));

	c += twice(b); /* second */
	return c;
}
int main(int argc, char **argv)
{
	int sum = 0;
	char line[16];
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		sum += work(argc, sum);
		printf("%d\\n", sum); fflush(stdout);
	}
	return 0;
}
"""


def build(name, *flags, cc="gcc"):
    need(cc)
    source = os.path.join(DIR, "lines.c")
    with open(source, "w") as f:
        f.write(SOURCE)
    out = os.path.join(DIR, name)
    subprocess.run([cc, *flags, "-o", out, source], check=True)
    return out


def trace(path, place, turns=3):
    """Hits of an event while the program makes some turns."""
    live = Live(path)
    t = trace_start("-p", live.pid, "p %s:%s" % (os.path.basename(path), place))
    wait_for(lambda: our_mappings(live.pid) or t.poll() is not None, what="the probe")
    if t.poll() is not None:
        return text_of(t.err_path)
    # The first patched byte is not the last one: the tracer lets go when all are in place.
    wait_for(lambda: in_place(live.pid), what="the jump")
    for _ in range(turns):
        live("x")
    stop(t, signal.SIGINT)
    live.p.stdin.close()
    assert live.p.wait(60) == 0
    return len([line for line in text_of(t.out_path).splitlines() if ": @" in line])


@test
def event_lines():
    """event lines: statements, every inlined copy, a line without code, errors that name neighbours"""
    for flags in (["-O2", "-g"], ["-O0", "-g", "-gdwarf-4"], ["-O1", "-g", "-gz"]):
        path = build("prog" + flags[0], *flags)
        assert trace(path, "lines.c:14") == 3, (flags, trace(path, "lines.c:14"))
        assert trace(path, "lines.c:4") == 6, flags  # two inlined copies, or a function called twice
        assert trace(path, "lines.c:12") == 3  # blank: the next line of the same function
        out = trace(path, "lines.c:7")
        assert "E-LINE-CODE" in str(out) and "5" in out, out
        assert "E-LINE-FILE" in str(trace(path, "other.c:7"))
    assert "E-LINE-NODEBUG" in str(trace(build("bare", "-O2", "-g0"), "lines.c:14"))


@test
def every_place_by_its_own():
    """a line with several places: each hit shows where it was, and each place has a row in the summary"""
    path = build("places", "-O2", "-g")
    live = Live(path)
    t = trace_start("-p", live.pid, "p places:lines.c:4")
    wait_for(lambda: in_place(live.pid), what="the jump")
    for _ in range(3):
        live("x")
    stop(t, signal.SIGINT)
    live.end()
    shown = re.findall(r": (@work\+(?:0x)?[0-9a-f]+)", text_of(t.out_path))
    assert len(shown) == 6 and len(set(shown)) == 2 and shown[:2] * 3 == shown, (shown, text_of(t.err_path))
    for place in set(shown):
        assert re.search(r"^%s +jump +3 +3 " % re.escape(place[1:].removesuffix("+0")),
                         text_of(t.err_path), re.M), text_of(t.err_path)


@test
def separate_file():
    """debug information in a separate file by debuglink"""
    need("objcopy")
    path = build("apart", "-O2", "-g")
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", path], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + path + ".debug", path], check=True)
    assert trace(path, "lines.c:14") == 3


@test
def split_file():
    """debug information in a .dwo file; when that is missing, its name is told"""
    need("gcc")
    for version in ("4", "5"):
        path = build("split" + version, "-O1", "-g", "-gdwarf-" + version, "-gsplit-dwarf", "-dumpdir", DIR + "/")
        (dwo,) = glob.glob(os.path.join(DIR, "*.dwo"))
        found = dprobes("vars", path, "work").stdout
        assert re.search(r"\$a +int, rdi", found), found
        os.unlink(dwo)
        r = dprobes("vars", path, "work")
        assert r.returncode and "E-LINE-NODEBUG" in r.stderr and os.path.basename(dwo) in r.stderr, r


@test
def from_a_server():
    """debug information from a debuginfod server, by build-id; nothing is asked without DEBUGINFOD_URLS"""
    need("objcopy", "strip", "readelf")
    if not any(os.path.exists(os.path.join(d, "libdebuginfod.so.1")) for d in ("/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu")):
        raise Skip("libdebuginfod is not installed")
    path = build("remote", "-O2", "-g", "-Wl,--build-id")
    notes = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    build_id = re.search("Build ID: ([0-9a-f]+)", notes).group(1)
    served = os.path.join(DIR, "served")
    os.makedirs(os.path.join(served, "buildid", build_id))
    subprocess.run(["objcopy", "--only-keep-debug", path, os.path.join(served, "buildid", build_id, "debuginfo")],
                   check=True)
    subprocess.run(["strip", path], check=True)
    asked = []

    class Server(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=served)

        def log_message(self, fmt, *args):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = dict(os.environ, DEBUGINFOD_CACHE_PATH=os.path.join(DIR, "fetched"))
    env.pop("DEBUGINFOD_URLS", None)
    try:
        r = dprobes("vars", path, "lines.c:14", env=env)
        assert r.returncode and "E-LINE-NODEBUG" in r.stderr and not asked, (r.stderr, asked)
        env["DEBUGINFOD_URLS"] = "http://127.0.0.1:%d" % server.server_port
        r = dprobes("vars", path, "lines.c:14", env=env, check=0)
        assert re.search(r"\$c +int", r.stdout), r.stdout
        assert "/buildid/%s/debuginfo" % build_id in asked, asked
    finally:
        server.shutdown()
    # What was fetched is kept.
    r = dprobes("vars", path, "lines.c:14", env=env, check=0)
    assert re.search(r"\$c +int", r.stdout), r.stdout


@test
def program_lines():
    """offset = FILE:LINE in probe programs"""
    path = build("rpn", "-O2", "-g")
    live = Live(path)
    prog = os.path.join(DIR, "lines.rpn")
    with open(prog, "w") as f:
        f.write("name = %s\nvars = 2\nlogmax = 0\noffset = lines.c:4\ninc lv,0\nexit\n"
                "offset = \"lines.c:14\"\ninc lv,1\nexit\n" % path)
    try:
        dprobes("insert", prog, check=0)
        for _ in range(5):
            live("x")
        text = dprobes("vars", "--all", check=0).stdout
        assert "lv 0 = 10" in text and "lv 1 = 5" in text, text
        assert "lines.c:4" in dprobes("build", "--list", prog, check=0).stdout
        r = dprobes("build", prog)
        assert r.returncode and "E-LINE-COPIES" in r.stderr, r.stderr
    finally:
        dprobes("-r", "-a", check=0)
    live.p.stdin.close()
    assert live.p.wait(60) == 0


@test
def lines_and_vars():
    """`dprobes lines` and `dprobes vars` of a file and of a process agree; what is missing is an error"""
    path = build("shown", "-O2", "-g")
    live = Live(path)
    for where in ([path], ["-p", live.pid]):
        r = dprobes("lines", *where, "work", check=0)
        lines = r.stdout.splitlines()[1:]
        assert {"lines.c:9", "lines.c:13", "lines.c:14"} <= {line.split()[0] for line in lines}, r.stdout
        # `twice` was inlined two times, so its line has two places; the second one's range may be empty.
        copies = [line for line in lines if line.startswith("lines.c:4 ")]
        assert len(copies) == 2 and copies[0].endswith(" twice"), r.stdout
        assert all(line.split()[2] == "jump" for line in lines) and "refused" in r.stderr, r.stdout
        out = dprobes("vars", *where, "work", check=0).stdout
        assert re.search(r"\$a +int, (r|e)?di", out) and re.search(r"\$b +int, (r|e)?si", out), out
        assert "$a" in dprobes("vars", *where, "lines.c:14", check=0).stdout
    live.p.stdin.close()
    assert "E-SYM-NONE" in dprobes("lines", path, "wrok").stderr
    assert "work" in dprobes("lines", path, "wrok").stderr
    assert dprobes("lines", path).returncode == 2 and dprobes("vars", path).returncode == 2
    bare = build("bare", "-O2", "-g0")
    assert "E-LINE-NODEBUG" in dprobes("lines", bare, "work").stderr
    assert "E-LINE-NODEBUG" in dprobes("vars", bare, "work").stderr


run()
