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


@test
def events():
    """modules, functions, calls and variables inside a quoted event; names of large files from the cache"""
    shop = os.path.join(DIR, "shop")
    with open(shop + ".c", "w") as f:
        f.write("#include <unistd.h>\n#include <stdio.h>\n"
                "int odd(void) __asm__(\"odd$name\"); int odd(void) { return 1; }\n"
                "int add_order(int qty, const char *label) { return qty + label[0]; }\n"
                "int main(void) { puts(\"ready\"); fflush(stdout); pause(); return add_order(1, \"x\"); }\n")
    subprocess.run(["gcc", "-g", "-O0", "-o", shop, shop + ".c"], check=True)
    p = start([shop], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline()
    trace = "dprobes trace -p %d " % p.pid
    assert words(trace + "'") == {"p ", "r ", "u ", "s ", "w "}
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
    big = os.path.join(DIR, "big.so")
    with open(big + ".c", "w") as f:
        f.writelines("int many_%d(void) { return %d; }\n" % (i, i) for i in range(6000))
    subprocess.run(["gcc", "-shared", "-fPIC", "-O0", "-Wl,--build-id", "-o", big, big + ".c"], check=True)
    first = words("dprobes funcs %s many_59" % big)
    kept = os.listdir(os.path.join(DIR, "dprobes"))
    assert len(kept) == 1 and kept[0].startswith("names-"), kept
    assert len(first) == 111 and words("dprobes funcs %s many_59" % big) == first


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
    """A subcommand, and a function inside a quoted event."""
    need(name)
    argv, setup = SHELLS[name]
    p = start([target("simple"), "1"], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    shown = typed(argv, {"PS1": "$ "}, "%sdprobes doct\t\n" % setup, r"doct.*or.*(MACHINE|machine)")
    assert re.search("dprobes doct.*or", shown, re.S), shown
    keys = "%sdprobes trace -p %d 'p libc:malloc_usable_s\t" % (setup, p.pid)
    shown = typed(argv, {"PS1": "$ "}, keys, r"malloc_usable_s.*ize")
    assert re.search("malloc_usable_s.*ize", shown, re.S), shown
    stop(p)


@test
def bash():
    """bash at a terminal completes a subcommand, and a function inside a quoted event"""
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
