# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Completion: what `dprobes complete` offers, and bash, zsh and fish, driven at a terminal, that offer it."""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SCRIPTS = os.path.join(ROOT, "src", "cmd", "completion")
DIR = tempfile.mkdtemp(prefix="dp-complete-")
BIN = os.path.dirname(os.path.abspath(DPROBES))
os.environ.update(XDG_CACHE_HOME=DIR, HOME=DIR, PATH=BIN + ":" + os.environ["PATH"])


def offers(line, shell="zsh"):
    """What a shell is to do, and the candidates for the end of the line."""
    lines = dprobes("complete", shell, line, check=0).stdout.splitlines()
    return lines[0], [text.split("\t")[0] for text in lines[1:]]


def words(line, shell="zsh"):
    what, found = offers(line, shell)
    assert what == "words", (line, what)
    return set(found)


def whole_help(name):
    return dprobes("help", name, check=0).stdout


@test
def commands():
    """subcommands, topics, the options of each help, and values by their kinds"""
    names = re.findall(r"^  ([a-z]+) ", dprobes("help", check=0).stdout.split("\n\n")[1], re.M)
    assert words("dprobes ") == set(names) | {"help", "--help", "--version"}
    assert words("dprobes tr") == words("sudo /usr/bin/dprobes tr") == {"trace"}
    assert words("dprobes help ev") == {"events"} and "E-SITE-MIDINSN" in words("dprobes explain E-SITE-M")
    for name in names:
        options = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)", whole_help(name), re.M)
        assert words("dprobes %s -" % name) == {word for pair in options for word in pair if word}, name
    own = str(os.getpid())
    assert own in words("dprobes list -p ") and "--pid=" + own in words("dprobes trace --pid=")
    assert own in words("dprobes trace --pid=", "bash") and "1," + own in words("dprobes trace -p 1,")
    formats = [set(re.findall(r"^  ([a-z]+) ", whole_help(name).split("\nFormats:\n")[1].split("\n\n")[0], re.M))
               for name in ("trace", "vars")]
    assert len(formats[0]) > len(formats[1]) > 2
    assert words("dprobes trace --format ") == formats[0] and words("dprobes vars --format ") == formats[1]
    assert words("dprobes insert --jit o") == {"on", "off"} == words("dprobes -i --jit=o", "bash")
    assert words("dprobes kernel l") == {"load"}
    for line in ("trace -o ", "trace -f x", "insert ", "--insert ", "report ", "trace -- python3 "):
        assert offers("dprobes " + line)[0] == "files", line
    assert offers("dprobes trace -p 1 -- py")[0] == "commands"
    assert not words("dprobes trace --duration ") and not words("dprobes verify ")
    assert not dprobes("complete", "zsh", "cat /etc/pas", check=0).stdout


def start_shop():
    """A program with debug information, in the directory of the cache: shop."""
    shop = os.path.join(DIR, "shop")
    if not os.path.exists(shop):
        with open(shop + ".c", "w") as f:
            f.write("#include <unistd.h>\n#include <stdio.h>\n"
                    "int odd(void) __asm__(\"odd$name\"); int odd(void) { return 1; }\n"
                    "int add_order(int qty, const char *label) {\n\treturn qty + label[0];\n}\n"
                    "int main(void) { puts(\"ready\"); fflush(stdout); pause(); return add_order(1, \"x\"); }\n")
        subprocess.run(["gcc", "-g", "-O0", "-o", shop, shop + ".c"], check=True)
    p = start([shop], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline()
    return p


def big_library():
    """A library of so many functions and lines that their names are kept."""
    big = os.path.join(DIR, "big.so")
    if not os.path.exists(big):
        with open(big + ".c", "w") as f:
            f.writelines("int many_%d(void) { return %d; }\n" % (i, i) for i in range(6000))
        subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-O0", "-Wl,--build-id", "-o", big, big + ".c"], check=True)
    return big


def kept(kind):
    """How many files have kept names of this kind."""
    return len([name for name in os.listdir(os.path.join(DIR, "dprobes")) if name.startswith(kind + "-")])


@test
def source_lines():
    """source lines inside a quoted event, by file and by function, and variables at them; lines of large files from the
    cache"""
    p = start_shop()
    trace = "dprobes trace -p %d '" % p.pid
    assert "p shop.c:" in words(trace + "p sh") and words(trace + "p shop.") == {"p shop.c:"}
    for before in ("", "exe:", "shop:"):
        for line in ("shop.c:4", "add_order:1"):
            of, shown = line.split(":")
            assert "p " + before + line in words("%sp %s%s:" % (trace, before, of)), (before, line)
            assert words(trace + "p %s%s $q" % (before, line)) == {"p %s%s $qty" % (before, line)}, (before, line)
    assert words(trace + "p shop.c:") == {"p shop.c:%d" % n for n in range(3, 8)}
    assert words(trace + "p add_order:") == {"p add_order:1", "p add_order:2"}
    assert not words(trace + "p none.c:") and not words(trace + "p none:") and not words(trace + "r shop.")
    for of in ("-p %d" % p.pid, p.args[0]):
        assert words("dprobes vars %s add_order:" % of) == {"add_order:1", "add_order:2"}, of
    assert words("dprobes vars %s add_order:" % p.args[0], "bash") == {"1", "2"}
    # Variables behind something else.
    for line in ("r add_order hist($q", "p add_order by $pid,$q", "p add_order n=$q", "p add_order { $q"):
        assert words(trace + line) == {line + "ty"}, line
    stop(p)
    line_59 = "dprobes vars %s big.so.c:59" % big_library()
    first = words(line_59)
    assert len(first) == 111 and kept("lines") == 1 and words(line_59) == first


@test
def events():
    """modules, functions, calls and variables inside a quoted event; names of large files from the cache"""
    p = start_shop()
    shop = p.args[0]
    trace = "dprobes trace -p %d " % p.pid
    assert words(trace + "'") == {"p ", "r ", "u ", "s ", "t ", "w "}
    assert words(trace + "'p add_") == {"p add_order"} == words(trace + '"p add_', "bash")
    # What the shell would expand or run is not offered to it.
    assert words(trace + "'p odd") == {"p odd$name"} and not words(trace + '"p odd')
    assert words("dprobes funcs %s odd" % shop) == {"odd$name"} and not words("dprobes funcs %s odd" % shop, "bash")
    assert not words(trace, "bash") and words(trace) == words(trace + "'")
    assert words(trace + "'p libc:mallo") >= {"p libc:malloc"} <= words(trace + "'p libc:mallo", "bash")
    assert "p libc:" in words(trace + "'p li")
    assert words(trace + "'p add_order $q") == {"p add_order $qty"}
    assert {"r add_order $retval", "r add_order $duration"} <= words(trace + "'r add_order $")
    assert words(trace + "'p add_order quant") == {"p add_order quantiles("}
    assert "s openat" in words(trace + "'s open")
    assert {"s openat $path", "s openat $flags", "s openat $ret"} <= words(trace + "'s openat $")
    assert "s * $error" in words(trace + "'s * $") and "s * $path" not in words(trace + "'s * $")
    assert words("dprobes trace --all %s 'p add_" % shop) == {"p add_order"}
    assert words("dprobes funcs -p %d libc:mallo" % p.pid) >= {"libc:malloc"}
    assert words("dprobes funcs -p %d libc:mallo" % p.pid, "bash") >= {"malloc"}  # bash's word begins behind the colon
    assert words("dprobes lines %s add_" % shop) == {"add_order"} == words("dprobes graph -p %d add_" % p.pid)
    assert words("dprobes trace -p 999999999 'p add_") == set()
    stop(p)
    many_59 = "dprobes funcs %s many_59" % big_library()
    first = words(many_59)
    assert len(first) == 111 and kept("names") == 1 and words(many_59) == first


def typed(argv, env, keys, want):
    """What a shell at a terminal shows, until it has shown what is wanted."""
    pid, fd = pty.fork()
    if not pid:
        os.environ.update(env, TERM="xterm", COLUMNS="120")
        os.execvp(argv[0], argv)
    shown, end, sent = "", time.time() + 60, False
    try:
        while time.time() < end and not re.search(want, shown, re.S):
            if select.select([fd], [], [], 0.5)[0]:
                shown += os.read(fd, 4096).decode(errors="replace")
            elif not sent:  # it is quiet: its prompt stands there
                os.write(fd, keys.encode())
                sent = True
    except OSError:
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    return shown


SHELLS = {
    "bash": (["bash", "--norc", "-i"], "source %s/dprobes.bash; bind 'set show-all-if-ambiguous on'\n" % SCRIPTS),
    "zsh": (["zsh", "-f", "-i"], "fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D\n" % SCRIPTS),
    "fish": (["fish", "--no-config", "-i"], "source %s/dprobes.fish\n" % SCRIPTS),
}


def completes(name):
    """A subcommand; a function, a source line and a variable inside a quoted event."""
    need(name)
    argv, setup = SHELLS[name]
    p = start_shop()
    shown = typed(argv, {"PS1": "$ "}, "%sdprobes doct\t\n" % setup, r"doct.*or.*(MACHINE|machine)")
    assert re.search("dprobes doct.*or", shown, re.S), shown
    for event, rest in (("p libc:malloc_usable_s", "ize"), ("p shop.", "c:"), ("p add_order:1 $lab", "el")):
        keys = "%sdprobes trace -p %d '%s\t" % (setup, p.pid, event)
        want = re.escape(event[-6:]) + ".*" + rest
        shown = typed(argv, {"PS1": "$ "}, keys, want)
        assert re.search(want, shown, re.S), (event, shown)
    stop(p)


@test
def bash():
    """bash at a terminal completes a subcommand, and a function, a line and a variable inside a quoted event"""
    completes("bash")


@test
def zsh():
    """zsh does"""
    completes("zsh")


@test
def fish():
    """fish does"""
    completes("fish")


run()
