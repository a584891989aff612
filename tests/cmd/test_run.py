# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes run` as a command: lists, parameters, recipes of one's own and whose are believed. What the recipes show is
tested in tests/process/test_recipes.py."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HOME = tempfile.mkdtemp(prefix="dp-run-")
OWN = os.path.join(HOME, ".config", "dprobes", "recipes")
os.makedirs(OWN)
ENV = {k: v for k, v in os.environ.items() if k != "XDG_CONFIG_HOME"}
ENV["HOME"] = HOME


def write(name, text, mode=0o644):
    path = os.path.join(OWN, name + ".recipe")
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def fails(code, *args, text="", status=None):
    r = dprobes("run", *args, env=ENV)
    assert r.returncode != 0 and code in r.stderr and text in r.stderr, (args, r.returncode, r.stderr)
    return r


@test
def lists():
    """the list: names in order, aligned, each with its title; options alone are no question"""
    lines = dprobes("run", check=0, env=ENV).stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == sorted(names) and "offcpu" in names, names
    assert len({len(line) - len(line.split(None, 1)[1]) for line in lines}) == 1, lines
    fails("E-CMD-MISSING", "--json", "--duration", "1", text="dprobes run")
    fails("E-CMD-MISSING", "offcpu", text="no process to probe")
    fails("E-CMD-OPTION", "offcpu", "-e", "p malloc")


@test
def names():
    """a name that is not known is answered with the nearest one"""
    fails("E-CMD-RECIPE", "offcpux", text="did you mean `dprobes run offcpu`?")
    fails("E-CMD-RECIPE", "qqqqqqqqqqqq", text="`dprobes run` lists")
    fails("E-CMD-RECIPE", "../recipes/offcpu2")


@test
def parameters():
    """values: times with units, numbers, texts; what must be given; what there is not"""
    def shown(*args):
        return dprobes("run", *args, "--show", check=0, env=ENV).stdout

    assert "$duration >= 2500000\n" in shown("syscall-slow", "min=2.5ms")
    assert "$duration >= 10000000 " not in shown("syscall-slow") and "$duration >= 10000000" in shown("syscall-slow")
    text = shown("function-slow", "function=a*b", "min=3us", "-p", "12", "--duration", "5")
    assert "r a*b $tid $duration if $duration >= 3000\n" in text, text
    assert "# dprobes trace --pid=12 --duration=5 \\\n#     'r a*b" in text, text
    assert text.index("dprobes trace") and shown("getenv").count("p libc:getenv") == 2
    fails("E-CMD-VALUE", "syscall-slow", "min=5", text="10us, 5ms or 1s")
    fails("E-CMD-VALUE", "malloc-callers", "top=many", text="no number")
    fails("E-CMD-VALUE", "file-opens", 'path=a"b')
    fails("E-CMD-EXTRA", "syscall-slow", "max=5", text="there are min")
    fails("E-CMD-EXTRA", "getenv", "max=5", text="it has none")
    fails("E-CMD-MISSING", "function-time", "-p", "1", text="function=VALUE")


@test
def runs():
    """it is a trace: tables, --quiet, -o, the command's exit status"""
    r = dprobes("run", "getenv", "--json", "--", "/bin/sh", "-c", "exit 3", env=ENV)
    assert r.returncode == 3 and '"aggregate":"getenv"' in r.stdout and "never hit (getenv)" in r.stderr, r
    path = os.path.join(HOME, "out")
    r = dprobes("run", "exits", "-q", "-o", path, "--", "/bin/ls", "/", check=0, env=ENV)
    assert "exit: @exit" in text_of(path) and "never hit" not in r.stderr, r.stderr


@test
def own():
    """recipes of one's own: found first, listed, with lines that go on and lines that are optional"""
    write("mine", "# title: My own\n# param: what getenv  a function\n? p libc:no_such_function count\n"
                  "p libc:{{what}} count \\\n   by +0($arg1):string\n")
    lines = dprobes("run", check=0, env=ENV).stdout
    assert "\nmine " in lines and "My own" in lines, lines
    r = dprobes("run", "mine", "--json", "--", "/bin/ls", "/", check=0, env=ENV)
    assert '"aggregate":"getenv"' in r.stdout, r.stdout
    write("offcpu", "# title: Another\np libc:getenv count\n")
    assert "p libc:getenv" in dprobes("run", "offcpu", "--show", check=0, env=ENV).stdout
    path = write("offcpu", "# title: Another\np libc:getenv count\n")
    os.rename(path, os.path.join(HOME, "there"))
    assert "p libc:getenv" in dprobes("run", os.path.join(HOME, "there"), "--show", check=0, env=ENV).stdout
    other = dict(ENV, XDG_CONFIG_HOME=os.path.join(HOME, ".config"), HOME="/nonexistent")
    assert "mine" in dprobes("run", check=0, env=other).stdout
    write("mine", "# title: My own\n? p libc:no_such_function count\n? p libnone:getenv count\n")
    fails("E-ARM-NONE", "mine", "--", "/bin/ls", "/", text="no place of the 2 lines")
    os.unlink(os.path.join(OWN, "mine.recipe"))


@test
def broken():
    """files that are no recipes are refused by name"""
    path = write("bad", "p libc:getenv count\n")
    fails("E-CMD-RECIPE-FILE", "bad", text="no line `# title")
    r = dprobes("run", check=0, env=ENV)
    assert path in r.stderr and "offcpu" in r.stdout, r.stderr
    write("bad", "# title: none\n")
    fails("E-CMD-RECIPE-FILE", "bad", text="no event line")
    write("bad", "# title: none\n# param: x\np libc:getenv count\n")
    fails("E-CMD-RECIPE-FILE", "bad", text="a name, a default")
    write("bad", "# title: none\n" + "# param: x 1 y\n" * 9 + "p libc:getenv count\n")
    fails("E-CMD-RECIPE-FILE", "bad", text="more than 8 parameters")
    write("bad", "# title: none\n" + "p libc:getenv count\n" * 33)
    fails("E-CMD-RECIPE-FILE", "bad", text="more than 32 lines")
    write("bad", "# title: none\np libc:getenv \0 count\n")
    fails("E-CMD-RECIPE-FILE", "bad", text="no file of text")
    os.unlink(path)
    os.mkdir(path)
    fails("E-CMD-RECIPE-FILE", "bad", text="no file of text")
    os.rmdir(path)
    write("bad", "# title: none\np libc:getenv count by\n")
    fails("E-", "bad", "--", "/bin/ls")
    os.unlink(path)


@test
def owners():
    """as root, files of others and those that others may write are refused by name"""
    if os.geteuid() != 0:
        raise Skip("not root")
    text = "# title: Mine\np libc:getenv count\n"
    path = write("mine", text, 0o646)
    fails("E-CMD-RECIPE-FILE", "mine", text="others may write it")
    assert path in dprobes("run", check=0, env=ENV).stderr
    write("mine", text, 0o664)
    dprobes("run", "mine", "--show", check=0, env=ENV)
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o644)
    fails("E-CMD-RECIPE-FILE", "mine", text="belongs to another user")
    os.unlink(path)


@test
def completion():
    """names with their titles, then parameters; options as of trace"""
    def offers(line):
        return dprobes("complete", "zsh", line, check=0, env=ENV).stdout.splitlines()

    assert offers("dprobes run offcpu-") == ["words", "offcpu-callers\tTime in calls of the system that block, by "
                                             "call chain"]
    found = [line.split("\t")[0] for line in offers("dprobes run malloc-callers -p 1 ")]
    assert found == ["words", "depth=", "top="], found
    assert "--show" in [line.split("\t")[0] for line in offers("dprobes run --sh")]


@test
def installed():
    """a command that was copied alone has the recipes; an installed one prefers those beside it, wherever that is"""
    at = os.path.join(HOME, "opt")
    os.makedirs(os.path.join(at, "bin"))
    shutil.copy(DPROBES, os.path.join(at, "bin", "dprobes"))
    r = subprocess.run([os.path.join(at, "bin", "dprobes"), "run", "offcpu", "--show"], capture_output=True, text=True,
                       env=ENV)
    assert r.returncode == 0 and "# title: " in r.stdout, r.stderr
    beside = os.path.join(at, "share", "dprobes", "recipes")
    os.makedirs(beside)
    with open(os.path.join(beside, "offcpu.recipe"), "w") as f:
        f.write("# title: Time in calls of another kind\np libc:puts\n")
    r = subprocess.run([os.path.join(at, "bin", "dprobes"), "run", "offcpu", "--show"], capture_output=True, text=True,
                       env=ENV)
    assert r.returncode == 0 and "Time in calls of another kind" in r.stdout, r.stderr


@test
def room():
    """begin { KEYS(N); }: tables of lines have room for so many keys"""
    def no_room(*begin):
        r = dprobes("trace", "--json", *begin, "p libc:getenv count by +0($arg1):string", "--", "/bin/ls", "/",
                    check=0, env=ENV)
        return max(o["no_room"] for o in json_lines(r.stdout))

    assert no_room("begin { KEYS(1); }") > 0 == no_room("begin { x = 1; KEYS(100); }")
    r = dprobes("trace", "begin { KEYS; }", "p libc:getenv count", "--", "/bin/ls", env=ENV)
    assert r.returncode != 0 and "KEYS(NUMBER)" in r.stderr, r.stderr


run()
