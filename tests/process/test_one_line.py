# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Any question in one line: each form of line runs as typed, of a process, a command, all processes and a tree."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
# A line, and what must be read in its records and tables.
LINES = [
    ("p add_order $qty $o->name $label", r'add_order: .* qty=11 o->name="bolt" label="whole"'),
    ("p add_order $args", r'qty=1 o=0x\w+ label="retail" total=1000\b'),
    ("p add_order *$o", r'\*o=\{id = 7, name = .*, price = 99.5, color = GREEN\}'),
    ("p shop.c:11 $total if $total > 1e6", r"add_order: .* total=3000000\b"),
    ("r do_query $retval $duration", r"do_query: <-do_query\+0 retval=1 duration=[1-9]\d{5,}\b"),
    ("p libc:malloc count by $backtrace", r"malloc\+0x0 +[1-9]\d* \|#+\s+make\+0x"),
    ("r do_query hist($duration) by $comm", r"hist +do_query_duration\s+main\n( .*\n)* .*\.\. .* [1-9]\d* \|#"),
    ("r libc:read $retval:s64 quantiles($duration) by $fd if $retval > 0",
     r"(?s)read: <-read\+0 retval=32.*|quantiles +read_duration\s+\d+ +\d+ values?, p50 "),
    ("p malloc sum($arg1) by $backtrace[5] top 20",
     r"malloc\+0x0 [1-9]\d*, \d+ values, 37[45](\.\d+)? on average\s+make\+0x"),
    ('r main:open $retval = -2 if $path ~ "/etc/*"', r"<-open +exits"),
    ("p call { if ($c->argc > 2) count(cmds, $c->cmd->fullname); }", r"count cmds +\n +set +[1-9]\d* \|#+\n"),
    ("s openat", r'openat: .* dfd=AT_FDCWD path="/etc/passwd" flags=O_RDONLY.* ret=\d'),
    ("s * if $ret < 0", r"calls: .* call=read fd=-1 buf=0x\w+ count=1 ret=-9 error=EBADF"),
    ("i:100ms { printf(\"tick\"); }", r"i_100ms: text=tick"),
    ("begin { threshold = 5; }", r"^no probes"),
]
# Lines that belong together.
TOGETHER = ["begin { threshold = 5; }", "p add_order { if ($qty > threshold) count(large); }", "p do_query count",
            "i:50ms { print(large); }", "end { printf(\"%d is the threshold\", threshold); }"]
NOT_TOLD = ("begin { threshold", "r main:open")  # nothing is recorded


def main_program():
    """Its source is called shop.c and the program main, as in the lines."""
    gcc, = need("gcc")
    path = os.path.join(tempfile.tempdir, "main")
    if not os.path.exists(path):
        source = os.path.join(tempfile.tempdir, "shop.c")
        shutil.copy(os.path.join(HERE, "lines.c"), source)
        subprocess.run([gcc, "-O2", "-g", "-o", path, source], check=True)
    return path


def answer(line, *words, want=None, options=()):
    """What a trace of the line shows: its records, its tables, and what it says at the end."""
    lines = [line] if isinstance(line, str) else line
    r = dprobes("trace", *options, *lines, *words, cwd=tempfile.tempdir)
    assert r.returncode == 0 and not re.search("^dprobes: E-", r.stderr, re.M), (line, r.returncode, r.stderr)
    text = r.stdout + r.stderr
    assert not want or re.search(want, text, re.M), (line, want, text[-3000:])
    return text


def running():
    return start([main_program(), "1000000000"])


def each_line(check):
    """All of them, so that one report names all that fail."""
    bad = []
    for line, want in LINES:
        try:
            check(line, want)
        except AssertionError as e:
            bad.append("%s\n%s" % (line, e))
    assert not bad, "\n\n".join(bad)


@test
def many_keys():
    """a table has room for a thousand functions, also where another table stands beside it; so have large variables,
    for which tables have to be smaller"""
    n = 1000
    body = "__attribute__((noinline, noclone)) long g%d(volatile long *v) { return *v += %d + 1000; }\n"
    source = "".join(body % (i, i) for i in range(n))
    calls = "".join("\tg%d(&v);\n" % i for i in range(n))
    source += "int main(void)\n{\n\tvolatile long v = 0;\n%s\treturn 0;\n}\n" % calls
    path = compiled(tempfile.tempdir, "functions", source, "-O1")
    answer("p g* count", "--", path, want=r"^ *count g +%d$" % n)
    for lines, want in [(["p g* count by $ip"], n), (["p g* count by $ip", "p main hist($arg1)"], n),
                        (["begin { long big[25000]; }", "p g* { big[1]++; count(hits, $ip); }"], 256)]:
        text = answer(lines, "--", path)
        keys = re.findall(r"^ +g\d+\+0x0 +1 \|", text, re.M)
        assert len(keys) == want and (want == n) == ("no room" not in text), (lines, len(keys), text[-1000:])


MANY = r"""
	.altmacro
	.macro function n
	.globl f\n
	.type f\n, @function
f\n:	mov $\n, %eax
	add %edi, %eax
	ret
	.size f\n, . - f\n
	.endm
	.set i, 0
	.rept 40000
	function %i
	.set i, i + 1
	.endr
	.globl main
	.type main, @function
main:	call f0
	call f39999
	xor %eax, %eax
	ret
	.size main, . - main
	.section .note.GNU-stack, "", @progbits
"""


@test
def many_functions():
    """a line that counts is for all functions of a large program"""
    gcc, = need("gcc")
    path = os.path.join(tempfile.tempdir, "many")
    with open(path + ".S", "w") as f:
        f.write(MANY)
    subprocess.run([gcc, "-o", path, path + ".S"], check=True)
    text = answer("p f* count by $ip", "--", path)
    assert re.findall(r"^ +(f\d+)\+0x0 +1 \|", text, re.M) == ["f0", "f39999"], text[:1000]


FATAL = """
struct order { int amount; };
__attribute__((noinline, noclone)) int add(struct order *o) { return o->amount * 1234567 + 89; }
int main(void)
{
	struct order o = {3};

	return add(&o) == 0 ? 0 : add((struct order *)16);
}
"""


@test
def fatal_call():
    """of a call that ends the program at its first instruction lines tell, whatever names they have"""
    program = compiled(tempfile.tempdir, "fatal", FATAL, "-O1", "-g")
    for line in "p add o=%di", "p add $o", "p add { log($o); }":
        r = dprobes("trace", line, "--", program)
        assert r.returncode == 128 + 11, (line, r.returncode, r.stderr)
        assert re.findall(r"o=(0x\w+)$", r.stdout, re.M)[1:] == ["0x10"], (line, r.stdout, r.stderr)


@test
def command():
    """with a command behind --, which ends as without"""
    program = main_program()
    each_line(lambda line, want: answer(line, "--", program, "500", want=want))


@test
def process():
    """of a running process: -p PID"""
    p = running()
    each_line(lambda line, want: answer(line, options=["-p", p.pid, "--duration", "0.4"], want=want))
    assert p.poll() is None and not code_differs(p.pid)
    stop(p)


def shown_pids(text):
    return {int(a or b) for a, b in re.findall(r"\bmain-(\d+) |^process (\d+),", text, re.M)}


@test
def all_processes():
    """of all processes that map a file, and of the libraries that they map, and of no others: --all FILE"""
    two = [running(), running()]
    bystander = start(["/bin/sh", "-c", "while sleep 0.1; do :; done"])

    def check(line, want):
        text = answer(line, options=["--all", main_program(), "--duration", "0.4"], want=want)
        found = shown_pids(text)
        assert line.startswith(NOT_TOLD) or found >= {p.pid for p in two}, (line, found, text[-2000:])
        assert not re.search(r"\b(sh|sleep)-\d+ ", text), text[-2000:]

    each_line(check)
    for p in two + [bystander]:
        assert p.poll() is None and not code_differs(p.pid)
        stop(p)


@test
def all_that_start():
    """--all FILE 'p libc:NAME ...': who maps the file later gets the probes in its libraries, too"""
    program = main_program()
    t = trace_start("--all", program, "p libc:read count by $pid", "p libc:fopen")
    wait_for(lambda: "later" in text_of(t.err_path), what="the trace")
    bystander = start(["/bin/sh", "-c", "while sleep 0.1; do :; done"])
    p = running()
    wait_for(lambda: "main-%d " % p.pid in text_of(t.out_path), what="events of a process that has started")
    assert in_place(p.pid) and not code_differs(bystander.pid)
    stop(t, signal.SIGINT)
    text = text_of(t.out_path)
    assert re.search(r"^ +%d +[1-9]" % p.pid, text, re.M), text[-2000:]
    assert "sleep-" not in text and not re.search(r"^ +%d +[1-9]" % bystander.pid, text, re.M), text[-2000:]
    stop(p)
    stop(bystander)
    r = dprobes("trace", "--duration", "0.2", "--all", program, "p libc:read count", check=1)
    assert "E-SELECT-NONE" in r.stderr, r.stderr


@test
def tree():
    """of a command and what it forks: --tree; a program that is started is named by its path"""
    program = main_program()

    def check(line, want):
        text = answer(line, "--", program, "500", "two", options=["--tree"], want=want)
        # Children share the tables of who forked them; timers are of no process.
        shared = line.startswith(NOT_TOLD + ("i:",)) or re.search(r"\bby\b|count\(", line)
        assert shared or len(shown_pids(text)) == 2, (line, text[-2000:])

    each_line(check)
    for line, want in (LINES[0], LINES[3], LINES[9]):
        line = re.sub(r"^(.) (main:)?", r"\1 %s:" % program, line)
        answer(line, "--", "/bin/sh", "-c", "%s 20; %s 20; true" % (program, program), options=["--tree"], want=want)


@test
def together():
    """variables that bodies share, timers, begin and end: in each of these ways"""
    program = main_program()
    p = running()
    for options, words in (([], ["--", program, "1000"]), (["-p", p.pid, "--duration", "0.4"], []),
                           (["--all", program, "--duration", "0.4"], [])):
        text = answer(TOGETHER, *words, options=options, want=r"end: text=5 is the threshold")
        assert len(re.findall(r"count large +[1-9]", text)) > 1 and re.search(r"count do_query +[1-9]", text), text
    stop(p)


@test
def injected():
    """r main:open $retval = -2 if $path ~ "/etc/*": the program gets it, and only there"""
    program = main_program()
    for line, status in (("r main:open $retval = -2 if $path ~ \"/etc/*\"", 1), ("r main:open $path", 0),
                         ("p open return -2", 2), ("r main:open $retval = -2 if $path ~ \"/none/*\"", 0)):
        r = dprobes("trace", line, "--", program, "1", check=None)
        assert r.returncode == status, (line, r.returncode, r.stderr)


@test
def one_of_each_library():
    """a command's library is the file that will be mapped: run paths and LD_LIBRARY_PATH hide others of its name"""
    gcc, = need("gcc")
    folders = [os.path.join(tempfile.tempdir, name) for name in ("near", "far")]
    for folder in folders:
        os.mkdir(folder)
        source = os.path.join(folder, "twin.c")
        with open(source, "w") as f:
            f.write("int twin_of(int n) { return n * 1000 + 1; }\nint %s_only;\n" % os.path.basename(folder))
        subprocess.run([gcc, "-O1", "-shared", "-fPIC", "-Wl,-soname,libtwin.so.1", "-o",
                        os.path.join(folder, "libtwin.so.1"), source], check=True)
    user = os.path.join(tempfile.tempdir, "user.c")
    with open(user, "w") as f:
        f.write("int twin_of(int n);\nint main(void) { return twin_of(4); }\n")
    env = dict(os.environ, LD_LIBRARY_PATH=folders[1])
    for tags, name, there in (("--enable-new-dtags", "runpath", 1), ("--disable-new-dtags", "rpath", 0)):
        program = os.path.join(tempfile.tempdir, name)
        subprocess.run([gcc, "-o", program, user, os.path.join(folders[0], "libtwin.so.1"),
                        "-Wl,%s,-rpath,%s" % (tags, folders[0])], check=True)
        r = dprobes("trace", "p lib*:twin_of $arg1:s32", "p libtwin:twin_of count", "--", program, env=env,
                    check=4001 & 255)
        assert "1 function in 1 module" in r.stderr, r.stderr
        assert folders[there] + "/libtwin.so.1:" in r.stdout, r.stdout
        assert re.search(r"twin_of: .* arg1=4\b", r.stdout) and re.search(r"count twin_of\S* +1\b", r.stdout), r.stdout


@test
def calls_elsewhere():
    """s openat does not speak of an instruction that makes another call"""
    assert "cannot be probed" not in answer("s openat", "--", main_program(), "1")


run()
