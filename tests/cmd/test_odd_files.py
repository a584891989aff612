# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Files that somebody else has made: escape sequences in their names and symbols, pipes where a file should be."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from live import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-odd-")
PLAIN = b"esc_31m_"  # what names begin with in the source, and
EVIL = b"\x1b[31m\x07\r\n"  # what stands there in the file: as many bytes
SHOWN = r"\x1b[31m\x07\x0d\x0a"
SOURCE = """#include <stdio.h>
#include <sys/prctl.h>
struct esc_31m_type { int esc_31m_member; };
__attribute__((noinline)) int esc_31m_work(struct esc_31m_type *esc_31m_arg, int n)
{
	int esc_31m_local = esc_31m_arg->esc_31m_member + n;
	__asm__ volatile("" : "+r"(esc_31m_local));
	return esc_31m_local;
}
int main(int argc, char **argv)
{
	struct esc_31m_type t = {argc};
	char line[16];
	prctl(PR_SET_NAME, "x\\033[31mred\\n");
	puts("ready"); fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		t.esc_31m_member += esc_31m_work(&t, 3);
		puts("."); fflush(stdout);
	}
	return 0;
}
"""


def build(name, *flags, evil=True, source=SOURCE, file="esc_31m_.c"):
    need("gcc")
    with open(os.path.join(DIR, file), "w") as f:
        f.write(source)
    path = os.path.join(DIR, name)
    subprocess.run(["gcc", *flags, "-o", path, file], check=True, cwd=DIR)
    if evil:
        with open(path, "rb") as f:
            data = f.read()
        assert PLAIN in data
        with open(path, "wb") as f:
            f.write(data.replace(PLAIN, EVIL))
    return path


def clean(*texts):
    for text in texts:
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), repr(text)


@test
def lists():
    """escape sequences in symbols, source files, variables and types are shown as \\x1b in all lists"""
    path = build("listed", "-O1", "-g", "-rdynamic")
    work = EVIL.decode() + "work"
    # By its real name, since that is what the file has.
    funcs = dprobes("funcs", path)
    assert SHOWN + "work" in funcs.stdout, funcs.stdout
    lines = dprobes("lines", path, work)
    assert SHOWN + ".c:6" in lines.stdout, lines
    listed = dprobes("vars", path, work)
    assert SHOWN + "arg" in listed.stdout and SHOWN + "type" in listed.stdout, listed
    for r in (funcs, lines, listed):
        assert r.returncode == 0, r
        clean(r.stdout, r.stderr)
        assert all(re.match(r"[0-9a-f]{16} |ADDRESS|LINE|lines|\$|\S+ |  ", line)
                   for line in r.stdout.splitlines() if line)


@test
def errors():
    """and in errors, notes and what they quote"""
    path = build("told", "-O1", "-g")
    for args in (("funcs", os.path.join(DIR, "no\033[2Jfile")), ("funcs", path, "no\033[2Jfunc"),
                 ("lines", path, "no\033[2Jfunc"),
                 ("trace", "-p", "1\033[2J", "p x"), ("trace", "p work\033[2J +", "--", "true"), ("vers\033[2J",)):
        r = dprobes(*args)
        assert r.returncode and r"\x1b[2J" in r.stderr, r
        clean(r.stdout, r.stderr)


@test
def events():
    """and in events, their summary, the list of probes, names of tasks; JSON has the real names, escaped"""
    path = build("traced", "-O1", "-g", "-rdynamic")
    for json_too in (False, True):
        live = Live(path)
        t = trace_start("-p", live.pid, "p exe:*31m*work n=%si c=$comm b=$backtrace", *(["--json"] if json_too else []))
        wait_for(lambda: our_mappings(live.pid) and in_place(live.pid), what="the jump")
        shown = dprobes("list", "-p", live.pid, check=0)
        live("x")
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        live.p.stdin.close()
        live.p.wait(60)
        out, err = text_of(t.out_path), text_of(t.err_path)
        clean(shown.stdout, out, err)
        assert SHOWN + "work" in shown.stdout and SHOWN + "work" in err, (shown, err)
        if json_too:
            (event,) = json_lines(out)
            assert event["symbol"] == EVIL.decode() + "work" \
                    and event["args"]["b"][0].startswith(event["symbol"]), event
            assert event["task"] == "x\033[31mred\n", event
        else:
            (event,) = [line for line in out.splitlines() if ": @" in line]
            assert "@" + SHOWN + "work+0" in event and "{" + SHOWN + "work" in event, event
            assert event.lstrip().startswith(r"x\x1b[31mred\x0a-%d " % live.pid), event


# ---- what is no regular file ----

def debug_apart(name):
    """A stripped program, and the name of the debug file that it names."""
    need("objcopy", "strip")
    path = build(name, "-O1", "-g", "-Wl,--build-id=none", evil=False)
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", path], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + path + ".debug", path], check=True)
    return path, path + ".debug"


def put(how, at):
    if os.path.lexists(at):
        os.unlink(at)
    if how == "pipe":
        os.mkfifo(at)
    elif how == "link to a pipe":
        os.mkfifo(at + ".fifo")
        os.symlink(at + ".fifo", at)
    elif how == "device":
        os.symlink("/dev/zero", at)
    else:
        os.mkdir(at)


ODD = ("pipe", "link to a pipe", "device", "directory")


def left(at):
    for name in (at, at + ".fifo"):
        if os.path.isdir(name) and not os.path.islink(name):
            os.rmdir(name)
        elif os.path.lexists(name):
            os.unlink(name)


@test
def debug_link():
    """a pipe, a device or a directory under the name that .gnu_debuglink gives: nobody waits, nothing is read"""
    path, debug = debug_apart("linked")
    assert "esc_31m_work" in dprobes("funcs", path, check=0).stdout
    for how in ODD:
        put(how, debug)
        r = dprobes("funcs", path, timeout=60)
        assert r.returncode == 0 and "esc_31m_work" not in r.stdout, (how, r)
        r = dprobes("vars", path, "main", timeout=60)
        assert r.returncode == 1, (how, r)
        left(debug)


@test
def debug_link_elsewhere():
    """a name in .gnu_debuglink is the name of a file, not a way through directories"""
    path, debug = debug_apart("leading")
    os.mkdir(os.path.join(DIR, "a"))
    with open(path, "rb") as f:
        data = f.read()
    name = os.path.basename(debug).encode()
    away = b"a/" + name[2:]
    shutil.copy(debug, os.path.join(DIR, away.decode()))
    assert data.count(name) == 1
    with open(path, "wb") as f:
        f.write(data.replace(name, away))
    assert "esc_31m_work" not in dprobes("funcs", path, check=0).stdout


@test
def split_parts():
    """the same for the names of split debug information, and for packages beside the program"""
    for version in ("4", "5"):
        path = build("split" + version, "-O1", "-g", "-gdwarf-" + version, "-gsplit-dwarf", "-dumpdir",
                     DIR + "/", evil=False)
        (dwo,) = [os.path.join(DIR, name) for name in os.listdir(DIR) if name.endswith(".dwo")]
        assert "$n" in dprobes("vars", path, "esc_31m_work", check=0).stdout
        for at in (dwo, path + ".dwp"):
            kept = at + ".kept"
            if os.path.exists(at):
                os.rename(at, kept)
            for how in ODD:
                put(how, at)
                r = dprobes("vars", path, "esc_31m_work", timeout=60)
                # Without the part that is named nothing can be said; a package that is none is passed over.
                assert r.returncode == (1 if at == dwo else 0), (version, at, how, r)
                left(at)
            if os.path.exists(kept):
                os.rename(kept, at)
        os.unlink(dwo)


@test
def the_file_itself():
    """a pipe or a device as the file whose functions are asked for"""
    at = os.path.join(DIR, "itself")
    for how in ODD:
        put(how, at)
        for args in (("funcs", at), ("lines", at, "main"), ("coverage", at)):
            r = dprobes(*args, timeout=60)
            assert r.returncode == 1 and "E-FILE-OPEN" in r.stderr, (how, r)
        left(at)


run()
