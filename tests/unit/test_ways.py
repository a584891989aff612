# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Ways into the system are told from bytes that look like one: in files that are made for it, and in installed ones."""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

WAYS = os.path.join(BUILD, "tests", "unit", "system-ways")
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
PROGRAMS = ["redis-server", "nginx", "/usr/bin/python3", "bash", "sqlite3", "git", "openssl",
            "/usr/lib/postgresql/15/bin/postgres", "perl", "ruby", "curl", "memcached"]

# A function, what stands in it and behind it, then another function, and what stands behind that.
SOURCE = """
	.macro function name
	.globl \\name
	.type \\name, @function
	\\name: .L\\name: .cfi_startproc
	.endm
	.macro end name
	.cfi_endproc
	.size \\name, . - \\name
	.endm
	.text
	function first
%s
	end first
%s
	function second
	ret
	end second
%s
"""
TABLE = ".balign 16, 0xcc\n.Lit: .byte 6, 1, 2, 3, 0x0f, 0x05, 7, 0xcd, 0x80, 0x0f, 0x34, 6, 6"
CALL = ".Lit: nop\nsyscall\nret"

NO_WAY = {
    "nothing leads to the bytes": ("ret", TABLE, ""),
    "a function takes the address of a table": ("lea .Lit(%rip), %rax\nret", TABLE, ""),
    "data has the address of a table": ("ret", TABLE, ".data\n.quad .Lit"),
    "the table begins as code might, and ends": ("lea .Lit(%rip), %rax\nret",
                                                ".Lit: push %rax\nje 1f\nret\n.byte 0x0f, 0x05\n1: ret", ""),
    "in the middle of instructions": ("mov $0x050f050f, %eax\nret", ".Lit: mov $0x80cd, %eax\nret", ""),
}
A_WAY_AT_FIXED_PLACE = {
    "a constant is its address": ("mov $.Lit, %eax\njmp *%rax", CALL, ""),
    "data has its address": ("ret", CALL, ".data\n.quad .Lit"),
    "a table between functions has its address": ("jmp *.Ltable(, %rax, 8)", ".Ltable: .quad .Lit", CALL),
}
A_WAY = {
    "a function calls it": ("call .Lit\nret", CALL, ""),
    "a function jumps to it": ("test %eax, %eax\nje .Lit\nret", CALL, ""),
    "a function takes its address": ("lea .Lit(%rip), %rax\nret", CALL, ""),
    "data has its address": ("ret", CALL, ".data\n.quad .Lit"),
    "it has a name": ("ret", CALL.replace(".Lit", "named"), ""),
    "a function runs on into it": ("nop", "syscall\nret", ""),
    "what a function calls before does not return": ("call .Lsecond", "syscall\nret", ""),
    "other code between functions calls it": ("jmp .Lother", CALL, ".Lother: call .Lit\nret"),
    "other code between functions takes its address": ("jmp .Lother", CALL, ".Lother: lea .Lit(%rip), %rax\nret"),
    "a computed jump between functions may lead to it": ("call .Lfrom\nret", ".Lfrom: jmp *%rax\n" + TABLE, ""),
    "a function's computed jump may lead to it": ("lea .Lit(%rip), %rcx\nadd %rcx, %rax\njmp *%rax", TABLE, ""),
    "a function's computed jump may lead behind its end": ("lea .Lfirst(%rip), %rcx\nadd %rcx, %rax\njmp *%rax",
                                                          TABLE, ""),
    "an entry of a jump table leads to it": (
        "lea .Ltab(%rip), %rdx\nmovslq (%rdx, %rax, 4), %rax\nadd %rdx, %rax\njmp *%rax\n.Lone: ret", CALL,
        ".section .rodata\n.Ltab: .long .Lone - .Ltab, .Lit - .Ltab"),
    "a number is loaded before": ("ret", "mov $11, %eax\nsyscall\nret", ""),
    "a number is pushed before": ("ret", "push $11\npop %rax\nmov %rdx, %rdi\nsyscall\nret", ""),
    "it has a prefix": (".byte 0x48, 0x0f, 0x05\nret", "", ""),
    "it has a prefix and is in no function": ("call .Lit\nret", ".Lit: .byte 0x66, 0x0f, 0x05\nret", ""),
    "a function calls as programs of 32 bits do": ("int $0x80\nret", "", ""),
    "or by the other instruction": ("sysenter", "", ""),
}


def ways(*paths):
    """For each file whether all is known, the addresses of its calls, and of those of functions that make them."""
    out = subprocess.run([WAYS, *paths], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        words = line.rsplit(" known", 1) if line.endswith(" known") else line.rsplit(" unknown ", 1)
        if len(words) == 2:
            calls, of_functions = set(), set()
            found[words[0]] = (words[1] or None, calls, of_functions)
        elif line.endswith(" function"):
            of_functions.add(int(line.split()[0], 16))
        else:
            calls.add(int(line, 16))
    return found


def made(folder, n, parts, fixed):
    path = os.path.join(folder, "made%d" % n)
    with open(path + ".S", "w") as f:
        f.write(SOURCE % parts)
    kind = ["-no-pie", "-static", "-Wl,-e,first"] if fixed else ["-shared"]
    subprocess.run(["gcc", *kind, "-nostdlib", "-Wl,-z,separate-code", "-o", path, path + ".S"], check=True)
    return path


@test
def between_functions():
    """data between functions is none, code that anything leads to is one"""
    need("gcc")
    with tempfile.TemporaryDirectory(prefix="dp-ways-") as folder:
        cases = [(name, parts, fixed, True) for name, parts in NO_WAY.items() for fixed in (False, True)]
        cases += [(name, parts, False, False) for name, parts in A_WAY.items()]
        cases += [(name, parts, True, False) for name, parts in A_WAY_AT_FIXED_PLACE.items()]
        paths = [made(folder, i, parts, fixed) for i, (_, parts, fixed, _) in enumerate(cases)]
        found = ways(*paths)
        wrong = [case[0::2] for case, path in zip(cases, paths) if (found[path][0] is None) != case[3]]
        assert not wrong, wrong


def described(path):
    """Ranges of code that the unwind rules or a symbol with a size describe, sorted."""
    frames = subprocess.run(["readelf", "--debug-dump=frames", path], capture_output=True, text=True).stdout
    found = [(int(lo, 16), int(hi, 16)) for lo, hi in re.findall(r"FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", frames)]
    symbols = subprocess.run(["readelf", "-Ws", path], capture_output=True, text=True).stdout
    for at, size in re.findall(r"^ *\d+: ([0-9a-f]+) +(\w+) FUNC ", symbols, re.M):
        found.append((int(at, 16), int(at, 16) + int(size, 0)))
    return found


def disassembled(path):
    """Where objdump sees an instruction that calls the system, but for those by which signal handlers return."""
    command = "objdump -d --no-show-raw-insn '%s' | grep -P -B1 '\\tsyscall|\\tsysenter|\\tint +.0x80'" % path
    out = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
    lines, found = out.splitlines(), []
    for before, line in zip([""] + lines, lines):
        if re.search(r"\t(syscall|sysenter|int +.0x80)", line) and not re.search(r"mov +\$0xf,%", before):
            found.append(int(line.split(":")[0], 16))
    return found


def called(path, at):
    """The function that an instruction calls, as objdump sees it."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--start-address=%d" % at,
                          "--stop-address=%d" % (at + 5), path], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"\tcall +([0-9a-f]+)", out).group(1), 16)


def agrees(path):
    """Every instruction that objdump sees in a function is a call here, or those of that function are."""
    ranges, (_, calls, of_functions) = described(path), ways(path)[path]
    seen = [at for at in disassembled(path) if any(lo <= at < hi for lo, hi in ranges)]
    functions = {called(path, at) for at in of_functions}
    missing = [hex(at) for at in seen
               if at not in calls and not any(lo in functions and lo <= at < hi for lo, hi in ranges)]
    return seen, missing


@test
def another_judge():
    """what objdump sees as a system call in a function is one"""
    need("objdump", "readelf")
    for path in os.environ.get("DP_FILES", LIBRARIES + "libc.so.6").split():
        seen, missing = agrees(path)
        assert not missing, (path, missing)
        if "libc.so" in path:
            assert len(seen) > 300, len(seen)


def linked(path):
    out = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return {os.path.realpath(found) for found in re.findall(r"(/\S+) \(0x", out)} | {os.path.realpath(path)}


_known = {}


def installed(program):
    def check():
        path = need(program)[0]
        files = linked(path)
        new = [file for file in files if file not in _known]
        if new:
            _known.update({file: where for file, (where, *_) in ways(*new).items()})
        unknown = {file: _known[file] for file in files if _known[file]}
        assert not unknown, unknown
    check.__name__ = os.path.basename(program).replace("-", "_").replace(".", "_")
    check.__doc__ = "all ways of %s and its libraries are known" % os.path.basename(program)
    test(check)


for one in PROGRAMS:
    installed(one)

run()
