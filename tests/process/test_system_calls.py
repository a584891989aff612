# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""System calls of a process (s NAME), decoded; the same calls with the same results as strace has them."""
import contextlib
import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DIR = tempfile.mkdtemp(prefix="dp-calls-")
os.environ["DPROBES_DIR"] = os.path.join(DIR, "driver")
is_traced = traced  # noqa: F405
ENV = dict(os.environ, LC_ALL="C", GIT_CONFIG_NOSYSTEM="1", HOME=DIR, GOMAXPROCS="1", PYTHONHASHSEED="0",
           PYTHONDONTWRITEBYTECODE="1")
SOURCE = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char buf[16];
	int fd = open("/etc/hostname", O_RDONLY | O_CLOEXEC);
	pid_t child;

	read(fd, buf, 3);
	lseek(fd, -1, SEEK_SET);
	close(fd);
	open("/nonexistent/file", O_WRONLY | O_CREAT, 0640);
	write(1, "hello\n", 6);
	child = argc > 1 ? fork() : 0;
	if (argc > 1 && !child)
		_exit(write(77, "x", 1) == -1 && errno == EBADF ? 5 : 6);
	if (argc > 1)
		waitpid(child, NULL, 0);
	child = argc > 2 ? vfork() : 0;
	if (argc > 2 && !child)
		_exit(3);
	return 7;
}
"""


def program():
    return compiled(DIR, "calls", SOURCE, "-O2", "-w")


def traced(*lines, command, status=0, options=()):
    out = os.path.join(DIR, "out")
    r = subprocess.run([DPROBES, "trace", "-q", "--json", "-o", out, *options, *lines, "--", *command], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=170, env=ENV)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return [json.loads(s) for s in open(out).read().splitlines()], r.stdout


def args(*lines, **kw):
    return [e["args"] for e in traced(*lines, **kw)[0]]


def strace(*command, flags=()):
    """Names and results, None where there is none."""
    need("strace")
    out = os.path.join(DIR, "strace")
    r = subprocess.run(["strace", "-o", out, *flags, *command], env=ENV, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=170)
    if not os.path.exists(out) or not os.path.getsize(out):
        raise Skip("strace cannot trace here: %s" % r.stderr[-200:])
    found, begun = [], {}  # a call that another thread's comes in between is told in two parts
    for line in open(out):
        pid, line = re.match(r"(\d+ +)?(.*)", line).groups()
        if line.endswith(" <unfinished ...>"):
            begun[pid] = line[:-len(" <unfinished ...>")]
            continue
        line = re.sub(r"<\.\.\. \w+ resumed>", lambda _: begun.pop(pid), line)
        m = re.match(r"(\w+)\((.*)\) += (\?|0x[0-9a-f]+|-?\d+)(?: (E\w+))?", line)
        if m:
            result = m.group(4) or (None if m.group(3) == "?" else int(m.group(3), 0))
            found.append((m.group(1), result, m.group(2)))
    return found


ADDRESSES = ("mmap", "brk", "mremap")
VARY = ("getpid", "getppid", "gettid", "set_tid_address", "getrandom")


def result_of(a):
    return a.get("error", a.get("ret"))


def shape(name, result):
    """What two runs have in common."""
    if name in ADDRESSES or name in VARY:
        result = "ok" if isinstance(result, int) and result >= 0 else result
    return (name, result)


@contextlib.contextmanager
def same_addresses():
    """In each run: an allocator asks for more memory sooner or later by where it has got some."""
    personality = ctypes.CDLL(None, use_errno=True).personality
    before = personality(0xffffffff)
    personality(before | 0x40000)  # ADDR_NO_RANDOMIZE
    try:
        yield
    finally:
        personality(before)


def same_as_strace(*command):
    """
    All calls from when the program's libraries are mapped. Not the same, and named in the manual: what the loader
    calls before, and calls by instructions that cannot be probed.
    """
    with same_addresses():
        theirs = [shape(n, r) for n, r, _ in strace(*command) if r is not None or n.startswith("exit")]
        events = traced("s *", command=command)[0]
    ours = [shape(e["args"]["call"], result_of(e["args"])) for e in events]
    assert len(ours) > 8, ours
    assert ours == theirs[-len(ours):], [(a, b) for a, b in zip(ours, theirs[-len(ours):]) if a != b][:5]
    return len(ours)


@test
def decoded():
    """s openat: names of arguments, texts, results, errors; conditions; one line of several calls"""
    got = args("s openat", command=[program()], status=7)
    assert got[0] == {"dfd": "AT_FDCWD", "path": "/etc/hostname", "flags": "O_RDONLY|O_CLOEXEC", "mode": 0,
                      "ret": 3}, got
    assert got[1]["path"] == "/nonexistent/file" and got[1]["ret"] == -2 and got[1]["error"] == "ENOENT", got
    got = args("s openat $path $ret if $ret < 0", command=[program()], status=7)
    assert got == [{"path": "/nonexistent/file", "ret": -2}], got
    got = args("s openat $path $dfd f=$flags if $flags & O_CREAT && $error == ENOENT", command=[program()], status=7)
    assert got == [{"path": "/nonexistent/file", "dfd": "AT_FDCWD", "f": "O_WRONLY|O_CREAT"}], got
    got = args("s openat $duration $flags", command=[program()], status=7)
    assert [g["flags"] for g in got] == ["O_RDONLY|O_CLOEXEC", "O_WRONLY|O_CREAT"], got
    got = args('s openat $path if $path ~ "/etc/*"', command=[program()], status=7)
    assert [g["path"] for g in got] == ["/etc/hostname"], got
    assert args("s write n=\\5 $fd", command=[program()], status=7) == [{"n": 5, "fd": 1}]
    got = args("s * if $ret < 0", command=[program()], status=7)
    assert [(g["call"], g["error"]) for g in got] == [("lseek", "EINVAL"), ("openat", "ENOENT")], got


# Of 20 years ago, and not in kernels of this processor; and one that the kernel alone puts into processes.
GONE = {"afs_syscall", "create_module", "epoll_ctl_old", "epoll_wait_old", "get_kernel_syms", "getpmsg", "nfsservctl",
        "putpmsg", "query_module", "security", "tuxcall", "uretprobe", "vserver"}


@test
def each_call_is_known():
    """all calls of the kernel's headers, and later ones, have names of their arguments"""
    calls = json_lines(dprobes("funcs", "--json", "/bin/true", "s [a-z_]*", check=0).stdout)
    known = {c["call"]: c["arguments"] for c in calls if "number" in c}
    assert len(known) > 370 and known["fchmodat2"] == ["dfd", "path", "mode", "flags"], sorted(known)
    assert {name for name, args in known.items() if args is None} <= GONE, known
    assert all(len(args or ()) == len(set(args or ())) <= 6 for args in known.values())


MANY = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#define NONE "/nonexistent/a"
int main(void)
{
	sigset_t none;
	int fd;
	sigemptyset(&none);
	mknod(NONE, S_IFIFO | 0640, 0);
	mknodat(AT_FDCWD, NONE, S_IFREG | 0600, 0);
	fchmodat(AT_FDCWD, NONE, 0644, 0);
	fchownat(AT_FDCWD, NONE, 5, -1, AT_SYMLINK_NOFOLLOW);
	fd = inotify_init1(IN_CLOEXEC);
	inotify_add_watch(fd, NONE, IN_CREATE | IN_DELETE | IN_ONLYDIR);
	prctl(PR_SET_NO_NEW_PRIVS, 7, 0, 0, 0);
	mount("none", NONE, "tmpfs", MS_RDONLY | MS_NOSUID, 0);
	mount(NULL, NONE, NULL, MS_REMOUNT, 0);
	umount2(NONE, MNT_DETACH);
	shmctl(-1, IPC_RMID, 0);
	waitid(P_PID, 1, 0, WEXITED | WNOHANG);
	timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	signalfd(-1, &none, SFD_CLOEXEC);
	setxattr(NONE, "user.x", "v", 1, XATTR_CREATE);
	posix_fadvise(-1, 0, 0, POSIX_FADV_WILLNEED);
	fallocate(-1, FALLOC_FL_KEEP_SIZE, 0, 1);
	getpriority(PRIO_PROCESS, 0);
	mlockall(0);
	sched_getscheduler(0);
	msync(main, 1, MS_SYNC);
	syscall(SYS_getrusage, RUSAGE_SELF, 0);
	syscall(SYS_statx, AT_FDCWD, NONE, AT_NO_AUTOMOUNT, 2, 0);
	syscall(SYS_name_to_handle_at, AT_FDCWD, NONE, 0, 0, AT_SYMLINK_FOLLOW);
	syscall(452, AT_FDCWD, NONE, 0600, AT_SYMLINK_NOFOLLOW);
	return 0;
}
"""


@test
def shown_as_strace_shows():
    """names of flags, texts and errors of calls of all kinds, beside strace's; a text that is not there is 0"""
    prog = compiled(DIR, "many", MANY, "-O1", "-w")
    ours = [a for a in args("s *", command=[prog]) if a["call"] not in ("exit_group", "fchmodat2")]
    theirs = [(name, result, shown) for name, result, shown in strace(prog) if not name.startswith("syscall_")]
    theirs = theirs[[t[0] for t in theirs].index("mknodat"):][:len(ours)]
    begin = [a["call"] for a in ours].index("mknodat")
    compared = 0
    for a, (name, result, shown) in zip(ours[begin:], theirs):
        assert a.pop("call") == name and result_of(a) == result, (a, name, result)
        values = [v for k, v in a.items() if k not in ("ret", "error")]
        for value, text in zip(values, re.findall(r'"(?:[^"]*)"|\{[^}]*\}|\[[^]]*\]|[^, ]+', shown)):
            if re.fullmatch(r'"[^"]*"|[A-Z][A-Z0-9_]+(\|[A-Z][A-Z0-9_]+)*', text) and isinstance(value, str):
                same = text.strip('"') == value or set(text.split("|")) == set(value.split("|"))
                assert same, (name, a, shown)
                compared += 1
            elif text == "NULL":
                assert value == 0, (name, a, shown)
    assert compared > 40, compared
    late = args("s fchmodat2", command=[prog])
    assert late == [{"dfd": "AT_FDCWD", "path": "/nonexistent/a", "mode": 384, "flags": "AT_SYMLINK_NOFOLLOW",
                     "ret": -2, "error": "ENOENT"}] or late[0]["error"] == "ENOSYS", late


REQUESTS = r"""
#define _GNU_SOURCE
#include <linux/fs.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
int main(void)
{
	static const unsigned long requests[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, SIOCGIFADDR, SIOCGIFINDEX,
		FIOCLEX, BLKGETSIZE64, FS_IOC_GETFLAGS, TIOCGPTN, FICLONE, TIOCSCTTY, 0x400454ca, 0xae80,
		0x5000940a, 0xaa00};
	static const int options[][2] = {{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_ERROR}, {SOL_SOCKET, SO_REUSEPORT},
		{SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_LINGER}, {SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_PEERCRED},
		{IPPROTO_IP, IP_TTL}, {IPPROTO_IP, IP_ADD_MEMBERSHIP}, {IPPROTO_IPV6, IPV6_V6ONLY},
		{IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_INFO}, {IPPROTO_TCP, TCP_USER_TIMEOUT},
		{IPPROTO_UDP, UDP_SEGMENT}, {SOL_NETLINK, NETLINK_ADD_MEMBERSHIP}, {SOL_PACKET, 5}, {SOL_TLS, 1},
		{SOL_XDP, 4}, {77, 99}, {SOL_SOCKET, 9999}, {IPPROTO_IP, 9999}};
	int s = socket(AF_INET, SOCK_STREAM, 0), v = 1, i;
	socklen_t len;

	for (i = 0; i < sizeof(requests) / sizeof(*requests); i++)
		ioctl(s, requests[i], 8);
	ioctl(s, 0x12345678, 1);
	for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
		setsockopt(s, options[i][0], options[i][1], (void *)8, sizeof(v));
		len = sizeof(v);
		getsockopt(s, options[i][0], options[i][1], (void *)8, &len);
	}
	return 0;
}
"""


@test
def requests_and_options():
    """requests of ioctl, levels and options of sockets have the names that strace has; what has none is a number"""
    prog = compiled(DIR, "requests", REQUESTS, "-O1", "-w")
    asked = ("ioctl", "setsockopt", "getsockopt")
    theirs = []
    for call, result, shown in strace(prog):
        parts = shown.split(", ")
        if call == "ioctl":
            names = re.fullmatch(r"[A-Z][A-Z0-9_]+( or [A-Z][A-Z0-9_]+)*", parts[1])
            theirs.append((call, names and set(names[0].split(" or "))))
        elif call in asked:
            level = re.sub(r"(0x\w+) .*", lambda m: str(int(m[1], 16)), parts[1])
            option = re.sub("_OLD$", "", parts[2]) if re.match("[A-Z]", parts[2]) else int(parts[2].split()[0], 0)
            theirs.append((call, level, option))
    for lines in (["s *"], ["s ioctl", "s *sockopt"], ["s ioctl $request", "s setsockopt $level $option",
                                                       "s getsockopt $level $option"]):
        ours = []
        for e in traced(*lines, command=[prog])[0]:
            a = e["args"]
            call = a.get("call", e["event"])
            if call == "ioctl":
                name = a["request"]
                ours.append((call, set(name.split(" or ")) if isinstance(name, str) else None))
            elif call in asked:
                ours.append((call, str(a["level"]), a["option"]))
        ours = [o if o[0] != "calls" else ("setsockopt",) + o[1:] for o in ours]
        assert len(ours) == len(theirs) == 17 + 2 * 21, (len(ours), len(theirs))
        # Older and newer straces have more and fewer names of a number.
        differ = [(a, b) for a, b in zip(ours, theirs)
                  if a != b and not (a[0] == b[0] == "ioctl" and a[1] and b[1] and a[1] & b[1])]
        assert not differ, differ
    text = dprobes("trace", "-q", "s ioctl", "--", prog, check=0).stdout
    assert "request=0x12345678 arg=0x1 " in text and "request=BTRFS_IOC_CLONE or FICLONE " in text, text
    got = args("s ioctl $arg if $request == FICLONE",
               "s *sockopt $fd if $option == TCP_USER_TIMEOUT && $level == SOL_TCP", command=[prog])
    assert [sorted(g) for g in got] == [["arg"], ["fd"], ["fd"]], got
    out = traced("s *sockopt count by $level, $option", "s ioctl count by $request", command=[prog])[1]
    keys = {tuple(e["key"]) for s in out.splitlines() if s.startswith('{"aggregate"') for e in json.loads(s)["entries"]}
    assert {("SOL_TCP", "TCP_NODELAY"), ("SOL_SOCKET", "SO_REUSEADDR"), ("77", "99"), ("SOL_IP", "IP_TTL"),
            ("TIOCGWINSZ",), ("0x12345678",)} <= {tuple(map(str, k)) for k in keys}, keys


@test
def shared_arguments():
    """a line of several calls has the names of arguments that all of them have, and no others"""
    assert args("s exit* $status", command=[program()], status=7) == [{"status": 7}]
    for line in ("s * $path", "s open* $flags"):
        assert "E-EVENT-VAR" in dprobes("trace", line, "--", program(), check=1).stderr, line


@test
def ends():
    """calls that do not come back are shown where they begin; children have calls of their own"""
    got = args("s exit_group", command=[program()], status=7)
    assert got == [{"status": 7}], got
    events = traced("s write $fd $ret", "s exit*", command=[program(), "fork"], status=7)[0]
    writes = [e["args"] for e in events if "fd" in e["args"]]
    assert sorted((w["fd"], w["ret"]) for w in writes) == [(1, 6), (77, -9)], events
    assert len({e["tid"] for e in events}) == 2, events
    got = args("s vfork $ret", "s clone $ret", command=[program(), "fork", "vfork"], status=7)
    assert len(got) == 2 and all(g["ret"] > 0 for g in got), got


@test
def tables():
    """tables and durations: s write count; s read hist($duration)"""
    out = traced("s write count", "s read hist($duration)", "s read sum($count) by $fd", command=[program()],
                 status=7)[1]
    found = {(t["kind"], t["aggregate"]): t for t in map(json.loads, re.findall("{.*libc[.].*", out))}
    assert found[("count", "write")]["value"] == 1, out
    assert [e["value"] for e in found[("sum", "read_count")]["entries"]] == [3], out
    out = traced("s * count by $call, $error if $ret < 0", "s openat count by $flags", command=[program()],
                 status=7)[1]
    tables = [t for t in map(json.loads, re.findall("{.*libc[.].*", out))]
    keys = sorted(e["key"] for t in tables for e in t["entries"])
    assert keys == [["O_RDONLY|O_CLOEXEC"], ["O_WRONLY|O_CREAT"], ["lseek", "EINVAL"], ["openat", "ENOENT"]], out


@test
def changed():
    """s openat $ret = -13: the program sees another result"""
    got = args("s write $ret = -5", "s exit_group $status", command=["/bin/echo", "x"], status=1)
    assert {"status": 1} in got, got


@test
def refused():
    """what is not known is refused"""
    for line, code in (("s nosuchcall", "E-CALLS-NONE"), ("s nomodule:openat", "E-CALLS-NONE"),
                       ("s calls:openat", "E-CALLS-NONE"), ("s openat $nothing", "E-EVENT-VAR"), ("s", "E-EVENT"),
                       ("s openat $arg7", "E-EVENT-ARGN"), ("s openat $args", "E-EVENT-VAR")):
        r = dprobes("trace", line, "--", program(), check=1)
        assert code in r.stderr, (line, r.stderr)
    r = dprobes("trace", "s openat", check=1)
    assert "E-CMD-MISSING" in r.stderr, r.stderr


@test
def listed():
    """dprobes funcs FILE 's open*' names calls and arguments, FILE s the instructions"""
    r = dprobes("funcs", program(), "s open*", check=0)
    assert re.search(r"^2 +open +[$]path [$]flags [$]mode$", r.stdout, re.M), r.stdout
    libc = [line.split()[-1] for line in open("/proc/self/maps") if re.search(r"/libc[.-]", line)][0]
    r = dprobes("funcs", libc, "s", check=0)
    assert re.search(r"^[0-9a-f]+ jump +kill +(__)?kill[+]0x", r.stdout, re.M), r.stdout[:3000]
    assert re.search(r"^[0-9a-f]+ jump +[?] +syscall[+]0x", r.stdout, re.M), r.stdout[-3000:]
    assert " instructions that call the system: " in r.stderr, r.stderr
    left_out = re.findall(r" refused ", r.stdout)
    r = dprobes("funcs", "--not-jump", libc, "s", check=0)
    assert re.findall(r" refused ", r.stdout) == left_out and " jump " not in r.stdout, r.stdout
    assert "E-CALLS-NONE" in dprobes("funcs", program(), "s nosuch", check=1).stderr
    assert "E-CALLS-NONE" in dprobes("funcs", program(), "s", check=1).stderr


# Each function makes the call number that the second column says, or one that only running it tells.
NUMBERS = (
    ("loaded", "getpid", "mov $39, %eax; mov %edi, %esi; nop"),
    ("copied", "getppid", "mov $110, %r8d; xor %eax, %eax; test %edi, %edi; mov %r8d, %eax"),
    ("zero", "read", "xor %eax, %eax; lea 8(%rsp), %rsi; mov $-1, %edi"),
    ("stored", "getpid", "mov $39, %eax; movb $0, -8(%rsp); shrb -8(%rsp); mov %edi, %esi"),
    ("fallen", "getpid", "mov $39, %eax; test %esp, %esp; jz loaded"),
    ("entered", "?", "mov $39, %eax; test %edi, %edi; jz 1f; mov $110, %eax; 1: mov %edi, %esi"),
    ("behind", "?", "mov $39, %eax; mov %edi, %esi; test %esp, %esp; jz .+4"),  # to the instruction behind the call
    ("popped", "?", "mov $110, %eax; push $39; pop %rax; mov %edi, %esi"),
    ("added", "?", "mov $30, %eax; add $9, %eax; mov %edi, %esi"),
    ("widened", "?", "mov $39, %eax; cltq; mov %edi, %esi"),
    ("exchanged", "?", "mov $39, %ecx; mov $110, %eax; xchg %eax, %ecx; mov %edi, %esi"),
    ("half", "?", "mov $0x127, %eax; xor %ecx, %ecx; mov $0, %ah; mov %edi, %esi"),
    ("compared", "?", "mov $39, %eax; mov %eax, %ecx; cmpxchg %ecx, %ecx; mov %edi, %esi"),
    ("multiplied", "?", "mov $39, %eax; mov $1, %ecx; mul %ecx; mov %edi, %esi"),
    ("called", "?", "mov $110, %eax; call gives; mov %edi, %esi"),
    ("loop_", "?", "mov $1, %ecx; mov $39, %eax; 1: mov %edi, %esi; dec %ecx; jz 2f; mov $39, %eax; jmp 1b; 2: nop"),
)


@test
def numbers():
    """which call an instruction makes is told where it is known only, and traced right where it is not"""
    need("gcc")
    path = os.path.join(DIR, "numbers")
    with open(path + ".s", "w") as f:
        f.write(".text\n.type gives, @function\ngives: mov $39, %eax\nret\n.size gives, . - gives\n")
        for name, _, code in NUMBERS:
            f.write(".p2align 4\n.type %s, @function\n%s: %s\nsyscall\nmov %%rax, %%rdx\nmov %%rax, %%rcx\nret\n"
                    ".size %s, . - %s\n" % (name, name, code, name, name))
        f.write(".globl main\n.type main, @function\nmain: push %%rbx\n%s\nxor %%eax, %%eax\npop %%rbx\nret\n"
                ".size main, . - main\n" % "\n".join("call " + n[0] for n in NUMBERS))
    subprocess.run(["gcc", "-z", "noexecstack", "-o", path, path + ".s"], check=True)
    r = dprobes("funcs", path, "s", check=0)
    told = {name: call for call, name in re.findall(r"^[0-9a-f]+ jump +(\S+) +(\w+)[+]0x", r.stdout, re.M)}
    assert told == {name: call for name, call, _ in NUMBERS}, r.stdout
    theirs = [n for n, _, _ in strace(path) if n in ("getpid", "getppid", "read")][-len(NUMBERS):]
    ours = [a["call"] for a in args("s numbers:*", command=[path])]
    assert ours == theirs, (ours, theirs)


MAKER = """
	.text
	.globl main; .type main, @function
main:	.cfi_startproc
	sub $8, %rsp
	.cfi_def_cfa_offset 16
	xor %edi, %edi; xor %esi, %esi; call maker; xor %eax, %eax; add $8, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size main, . - main
	.p2align 4
maker:	.cfi_startproc
	mov %rcx, %r8; mov $435, %eax
	.cfi_endproc
	syscall
	test %rax, %rax; ret
	.p2align 4
behind:	.cfi_startproc
	mov $1, %eax; ret
	.cfi_endproc
"""


@test
def maker():
    """a function that makes threads, without a name, is known to its end, though its unwind rules end earlier"""
    need("gcc")
    path = os.path.join(DIR, "maker")
    with open(path + ".s", "w") as f:
        f.write(MAKER)
    subprocess.run(["gcc", "-s", "-z", "noexecstack", "-o", path, path + ".s"], check=True)
    assert re.search(r"^[0-9a-f]+ jump +clone3 ", dprobes("funcs", path, "s", check=0).stdout, re.M)
    assert [(a["size"], a["ret"]) for a in args("s maker:clone3", command=[path])] == [(0, -22)]


@test
def git():
    """git: the same calls with the same results as strace shows"""
    (exe,) = need("/usr/bin/git")
    assert same_as_strace(exe, "--version") > 8


@test
def python():
    """python3: the same calls with the same results as strace shows"""
    (exe,) = need("/usr/bin/python3")
    assert same_as_strace(exe, "-S", "-c", "import os; os.getppid(); open('/dev/null').read()") > 100


@test
def names():
    """flags and other values have the names that strace has for them"""
    (exe,) = need("/usr/bin/python3")
    script = ("import fcntl, mmap, os, signal, socket, threading; os.open('/dev/null', os.O_RDWR | os.O_APPEND);"
              "m = mmap.mmap(-1, 4096, mmap.MAP_SHARED, mmap.PROT_READ); m.madvise(mmap.MADV_DONTNEED);"
              "a, b = socket.socketpair(); a.send(b'x', socket.MSG_DONTWAIT); b.recv(1, socket.MSG_PEEK);"
              "a.shutdown(socket.SHUT_WR); fcntl.flock(a, fcntl.LOCK_EX | fcntl.LOCK_NB); os.pipe();"
              "fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100); os.access('/', os.R_OK | os.X_OK); os.lseek(0, 0, 2);"
              "socket.socket(socket.AF_INET, socket.SOCK_DGRAM); signal.pthread_sigmask(signal.SIG_BLOCK, []);"
              "os.kill(os.getpid(), 0); os.stat('/dev/null', follow_symlinks=False)")
    asked = {"openat": (0, 2), "mmap": (2, 3), "mprotect": (2,), "madvise": (2,), "socketpair": (0, 1),
             "socket": (0, 1), "sendto": (3,), "recvfrom": (3,), "shutdown": (1,), "flock": (1,), "pipe2": (1,),
             "fcntl": (1,), "access": (1,), "lseek": (2,), "newfstatat": (0, 3), "rt_sigprocmask": (0,), "kill": (1,)}

    def words(call, values):
        return call, [sorted(str(v).split("|")) for v in values]

    with same_addresses():
        calls = strace(exe, "-S", "-c", script, flags=("-s0",))
        events = traced("s *", command=[exe, "-S", "-c", script])[0]
    theirs = []
    for call, _, text in calls:
        if call in asked:
            parts = re.split(r", (?![^{]*})", text)
            theirs.append(words(call, [parts[i] for i in asked[call] if i < len(parts)]))
    ours = []
    for e in events:
        a = dict(e["args"])
        call = a.pop("call", None)
        if call in asked:
            ours.append(words(call, [list(a.values())[i] for i in asked[call]]))
    assert len({c for c, _ in ours}) >= 15, {c for c, _ in ours}
    assert ours == theirs[-len(ours):], [(a, b) for a, b in zip(ours, theirs[-len(ours):]) if a != b][:5]
    got = args("s mprotect $prot if $addr == 0", command=[
        exe, "-S", "-c", "import ctypes\nfor i in 0, 0x40, 0x41, 5: ctypes.CDLL(None).mprotect(0, 0, i)"])
    assert [g["prot"] for g in got] == ["PROT_NONE", "0x40", "PROT_READ|0x40", "PROT_READ|PROT_EXEC"], got


@test
def redis():
    """redis-server, attached: the calls of a request, as strace -p has them"""
    need("strace")
    (server,) = need("/usr/bin/redis-server")
    sock = os.path.join(DIR, "redis.sock")
    p = subprocess.Popen([server, "--port", "0", "--unixsocket", sock, "--save", "", "--dir", DIR],
                         stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: os.path.exists(sock))
        outs = [os.path.join(DIR, "redis.strace"), os.path.join(DIR, "redis.json")]
        calls = ("read", "write", "accept4", "accept", "close", "openat", "setsockopt", "getpeername")
        for command, ready in ((["strace", "-q", "-o", outs[0], "-e", "trace=" + ",".join(calls), "-p", str(p.pid)],
                                lambda: is_traced(p.pid)),
                               ([DPROBES, "trace", "-q", "--json", "-o", outs[1], "-p", str(p.pid), "s *"],
                                lambda: in_place(p.pid))):
            t = subprocess.Popen(command, stderr=subprocess.PIPE)
            wait_for(ready)
            for i in range(3):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(sock)
                    s.sendall(b"SET key%d value\r\nGET key%d\r\n" % (i, i))
                    got = b""
                    while got.count(b"\n") < 3:
                        got += s.recv(100)
            time.sleep(0.5)
            t.send_signal(2)
            t.wait(timeout=60)
        theirs = [(m[1], int(m[2])) for m in re.finditer(r"^(\w+)\(.*\) += (-?\d+)", open(outs[0]).read(), re.M)]
        ours = [(e["args"]["call"], e["args"]["ret"]) for e in map(json.loads, open(outs[1]))
                if e["args"].get("call") in calls]
        # What its timers do beside is not the same twice: they read /proc/self/stat.
        mine = [[c for c in of if 0 < c[1] < 100 and c[0] in ("read", "write", "accept4", "accept")]
                for of in (theirs, ours)]
        assert len([c for c in mine[1] if c[0] == "write"]) >= 3 and mine[0] == mine[1], mine
    finally:
        p.terminate()
        p.wait()


def go_program():
    need("go")
    path = os.path.join(DIR, "gocalls")
    if os.path.exists(path):
        return path
    with open(path + ".go", "w") as f:
        f.write('package main\nimport "os"\nfunc main() {\n\tfor i := 0; i < 20; i++ {\n'
                '\t\tos.WriteFile(os.Args[1], make([]byte, i + 1), 0600)\n\t\tos.Open("/nonexistent/go")\n\t}\n}\n')
    subprocess.run(["go", "build", "-o", path, path + ".go"], check=True, timeout=170,
                   env=dict(ENV, CGO_ENABLED="0", GOCACHE=os.path.join(DIR, "cache"), GO111MODULE="off"))
    return path


@test
def modes():
    """modes of files are shown in octal, as C and strace write them; in JSON they are numbers"""
    path = compiled(DIR, "modes", "#include <sys/stat.h>\n#include <fcntl.h>\nint main(int n, char **v) {\n"
                    "return umask(022) < 0 || mkdir(v[1], 0) || chmod(v[1], 04751) || open(v[1], O_CREAT, 0640) > 0; }")
    for i, lines in enumerate((("s umask", "s mkdir", "s chmod", "s openat"), ("s *",),
                               ("s umask $mask", "s mkdir m=$mode", "s chmod $mode",
                                "s openat $mode if $mode == 0640"))):
        text = dprobes("trace", "-q", *lines, "--", path, os.path.join(DIR, f"made{i}"), check=0).stdout
        assert re.findall(r"(?:mode|mask|m)=(\S+)", text)[-4:] == ["022", "0", "04751", "0640"], (lines, text)
    assert args("s chmod", command=[path, os.path.join(DIR, "made")])[0]["mode"] == 0o4751
    own = compiled(DIR, "modes_own", "#include <sys/types.h>\n__attribute__((noinline)) int set(mode_t mode)\n"
                   "{ asm volatile(\"nop; nop; nop; nop; nop\"); return mode * 3; }\n"
                   "int main() { return set(0640) + set(0755) == 0; }", "-g", "-O1")
    for line, command in (("s chmod count by $mode", (path, os.path.join(DIR, "again"))),
                          ("p set count by $mode", (own,)), ("p set { log($mode); count(c, $mode); }", (own,))):
        want = 0o4751 if command[0] == path else 0o755
        text = dprobes("trace", "-q", line, "--", *command, check=0).stdout
        assert re.search(r"^ +0%o +1 " % want, text, re.M) and not re.search(r"\b%d\b" % want, text), text
        if command[0] == path:
            os.rmdir(command[1])
        for form, shown in (("json", '"key":[%d]' % want), ("csv", '"%d",value,1' % want)):
            text = dprobes("trace", "-q", "--format", form, line, "--", *command, check=0).stdout
            assert shown in text, text
            if command[0] == path:
                os.rmdir(command[1])
    assert "mode=0640" in dprobes("trace", "-q", "p set $mode", "--", own, check=0).stdout


@test
def go():
    """a static Go program, which calls the system itself"""
    path = go_program()
    names, file = ("openat", "write", "close"), os.path.join(DIR, "file")
    theirs = [(n, r) for n, r, a in strace(path, file, flags=["-f"]) if n in names and not re.search("/(proc|sys)/", a)]
    ours = [(e["event"], result_of(e["args"]))
            for e in traced("s openat", "s write", "s close", command=[path, file])[0]
            if not re.search("/(proc|sys)/", str(e["args"].get("path")))]
    opened = [n for n in ours if n == ("openat", "ENOENT")]
    assert len(opened) == 20 and ours[-60:] == theirs[-60:], (ours[-60:], theirs[-60:])


@test
def go_values():
    """s * on a Go program, which tells only at the hit which call it makes: names and values as strace has them"""
    path, file = go_program(), os.path.join(DIR, "file")
    shown = {"openat": ("dfd", "path", "flags", "mode"), "write": ("fd", "count")}
    place = {"openat": (0, 1, 2, 3), "write": (0, 2)}

    def words(call, values):  # a mode is shown as a number
        return call, tuple("|".join(sorted(str(v).strip('"').split("|"))) for v in values)

    theirs = set()
    for call, _, text in strace(path, file, flags=["-f", "-s0"]):
        parts = text.split(", ")
        if call in shown and not re.search("/(proc|sys)/", text):
            parts = [str(int(part, 8)) if i == 3 else part for i, part in enumerate(parts)] + ["0"]
            theirs.add(words(call, [parts[i] for i in place[call]]))
    events = [e["args"] for e in traced("s *", command=[path, file])[0]]
    ours = {words(a["call"], [a[name] for name in shown[a["call"]]]) for a in events
            if a.get("call") in shown and not re.search("/(proc|sys)/", str(a.get("path")))}
    assert {w for w in ours if w[0] == "openat"} == {w for w in theirs if w[0] == "openat"}, ours ^ theirs
    assert len(ours) >= 22 and theirs <= ours, (ours, theirs)
    got = [a for a in events if a.get("call") in ("mmap", "rt_sigaction", "exit_group")]
    assert {"addr", "length", "prot", "flags", "fd", "offset"} < set(got[0]), got[0]
    assert got[-1] == {"call": "exit_group", "status": 0}, got[-1]


@test
def unseen():
    """a line of calls that the vDSO answers says that it may see none"""
    for line, told in (("s clock_gettime count", True), ("s clock_get* count", True), ("s read count", False)):
        r = dprobes("trace", line, "--", program())
        assert ("answered by the vDSO" in r.stderr) == told, (line, r.stderr)


@test
def many_lines():
    """eight lines of all calls in one command: each has counted the same calls"""
    out = traced(*["s:e%d * count by $call" % i for i in range(8)], command=[program(), "fork"], status=7)[1]
    tables = [json.loads(s) for s in out.splitlines() if s.startswith('{"aggregate"')]
    of = {}
    for t in tables:
        of.setdefault((t["module"], t["pid"]), []).append({json.dumps(e["key"]): e["value"] for e in t["entries"]})
    assert of and all(len(v) == 8 for v in of.values()), {k: len(v) for k, v in of.items()}
    assert all(t == same[0] for same in of.values() for t in same), of
    counted = max((same[0] for same in of.values()), key=lambda v: sum(v.values()))
    assert sum(counted.values()) > 10, counted


run()
