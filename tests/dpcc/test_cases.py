# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Handlers with what they must log, and wrong ones with what dpcc must say."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

MACHINE = os.path.join(BUILD, "tests", "dpcc", "dpcc-machine")
CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
ERROR_FILES = os.path.join(os.path.dirname(CASES), "errors")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(CASES)))
OBEY = target("obey")

HEAD = '#pragma MODNAME("obey")\n#pragma PROBEPOINT_LOCATION("add_numbers")\n#pragma PROBEPOINT_HANDLER("h")\n'

# Code, line:column, text of the message, source.
ERRORS = [
    ("E-DPCC-SYNTAX", "4:17", "';' is missing", "void h() { int a}"),
    ("E-DPCC-SYNTAX", "4:16", "expression is missing", "void h() { 1 + ; }"),
    ("E-DPCC-SYNTAX", "4:10", "missing", "void h() { if (1) { "),
    ("E-DPCC-SYNTAX", "4:12", "inside a loop", "void h() { break; }"),
    ("E-DPCC-SYNTAX", "4:12", "not allowed here", "void h() { ` }"),
    ("E-DPCC-SYNTAX", "4:16", "quote", "void h() { log(\"abc); }"),
    ("E-DPCC-NAME", "4:16", "no variable 'x'", "void h() { log(x); }"),
    ("E-DPCC-NAME", "4:12", "no function 'f'", "void h() { f(); }"),
    ("E-DPCC-NAME", "2:1", "no handler 'h'", "void g() { }"),
    ("E-DPCC-NAME", "4:19", "declared twice", "void h() { int a, a; }"),
    ("E-DPCC-TYPE", "4:21", "not a pointer", "void h() { int a;   *a = 1; }"),
    ("E-DPCC-TYPE", "4:37", "cannot be converted", "void h() { struct s { int a; } x; x = 1; }"),
    ("E-DPCC-TYPE", "4:26", "pointers can be", "void h() { int *p; log(p + p); }"),
    ("E-DPCC-TYPE", "4:12", "a place in memory", "void h() { 1 = 2; }"),
    ("E-DPCC-TYPE", "4:12", "takes 1 argument", "void h() { labs(); }"),
    ("E-DPCC-TYPE", "4:12", "more conversions", "void h() { printf(\"%d\"); }"),
    ("E-DPCC-TYPE", "4:12", "conversion %f", "void h() { printf(\"%f\", 1); }"),
    ("E-DPCC-TYPE", "4:29", "cannot be logged", "void f() { } void h() { log(f()); }"),
    ("E-DPCC-TYPE", "4:37", "must be a constant", "int v; void h() { switch (v) { case v: ; } }"),
    ("E-DPCC-LIMIT", "4:", "words", "void h() { char a[9000]; log(a[0]); }"),
    ("E-LINE-NODEBUG", "4:16", "", "void h() { log($n); }"),
    ("E-RPN-PRE", "", "unknown directive", "#nonsense\nvoid h() { }"),
]


def run_machine(text):
    with tempfile.NamedTemporaryFile("w", suffix=".dpc", prefix="dp-case-") as f:
        f.write(text)
        f.flush()
        return subprocess.run([MACHINE, OBEY, f.name], stdout=subprocess.PIPE, text=True, timeout=60)


@test
def cases():
    """each case logs what it says"""
    for name in sorted(os.listdir(CASES)):
        path = os.path.join(CASES, name)
        want = [line[4:].strip() for line in text_of(path).splitlines() if line.startswith("//= ")]
        r = subprocess.run([MACHINE, OBEY, path], stdout=subprocess.PIPE, text=True, timeout=60)
        got = [line.strip() for line in r.stdout.splitlines()]
        assert got == want, "%s\n--- got\n%s\n--- wanted\n%s" % (name, "\n".join(got), "\n".join(want))


@test
def errors():
    """errors have a code, a line and column, and a caret below the place"""
    wrong = []
    for code, place, text, source in ERRORS:
        r = run_machine(HEAD + source + "\n")
        first = r.stdout.splitlines()[0] if r.stdout else ""
        if r.returncode != 1 or not first.startswith(code + " ") or text not in first \
                or (place and ":%s" % place not in first):
            wrong.append("%s: wanted %s %s %s, got %s" % (source, code, place, text, first))
        elif place and code.startswith("E-DPCC") \
                and "|" + " " * (int(place.split(":")[1] or 1) - 1) + "^" not in r.stdout \
                and not place.endswith(":"):
            wrong.append("%s: no caret\n%s" % (source, r.stdout))
    assert not wrong, "\n".join(wrong)

# Diagnostics that no file of its own can show.
WITHOUT_CASE = {
    "calls of this function end at more than %u places": "a function with hundreds of exits",
    "Go has its own calling convention: $argN needs debug information": "tests/process/test_go.py",
    "/sys/kernel/btf/vmlinux: %s": "a kernel without BTF",
    "the kernel's BTF has no function %.60s": "tests/dpcc/test_kernel_types.py: it is asked for first",
    "%s matches more than %u functions": "tests/dpcc/test_kernel_types.py",
    "it is a per-CPU variable": "needs a debug file of the kernel",
    "the kernel's debug file has no symbol at 0x%llx": "needs a debug file of the kernel",
    "no symbol of the kernel is at 0x%llx": "needs a debug file of the kernel",
    "the debug information has a type that contains itself": "tests/process/test_dpcc_values.py, damaged files",
    "$%s is split into pieces of unsupported sizes": "what compilers make of a variable differs between versions",
    "this part of $%s is not available here": "what compilers make of a variable differs from version to version",
    "this bitfield spans too many bytes": "no compiler lays a bitfield over more than 64 bits",
    "a number of more than 64 bits cannot be used in a computation": "conversions of results: at most 64 bits",
    "the compiler": "memory is short",
    "the program is too large": "a text of a million words",
    "a } is missing at the end": "bodies are looked through for it first",
    "'%.60s' can only be read here": "a line of the kernel beside one of a process: tests/process/test_bodies.py",
    "'%.60s' is set in %u modules, each of which has its own": "as the one before",
    "the function returns %.80s on the stack, where it is not looked for": "Go: tests/process/test_line_types.py",
    "arguments of tracepoints are not read from a debug file": "a debug file of the kernel",
    "$%.60s: the kernel's BTF does not know the arguments of %.60s": "a tracepoint of a module without BTF",
    "variables of the program can be used only in handlers of a probe": "the module is open whenever a body is read",
}


def diagnostics():
    """The formats of the compiler's own messages, as its source has them."""
    found = set()
    source = os.path.join(ROOT, "src", "lang", "dpcc")
    for name in sorted(os.listdir(source)):
        if name.endswith(".c"):
            for call in re.findall(r"dp_cc_fail\(([^;]*?)\);", text_of(os.path.join(source, name)), re.S):
                text = re.search(r'"(?:[^"\\]|\\.|"\s*")*"', call[call.find("E_"):])
                if text:
                    found.add(re.sub(r'"\s*"', "", text[0])[1:-1].replace('\\"', '"'))
    return found


def as_pattern(fmt):
    parts = re.split(r"%(?:\.\*|\.\d+)?(?:ll|z)?[sdux](?![a-z])|%c", fmt.replace("%%", "\0"))
    return ".*".join(re.escape(p) for p in parts).replace("\0", "%")


@test
def error_files():
    """each file of tests/dpcc/errors gives the error of its first line; each diagnostic of the compiler has one"""
    need("gcc")
    work = tempfile.mkdtemp(prefix="dp-case-")
    probed_ = os.path.join(work, "probed")
    subprocess.run(["gcc", "-g", "-O2", "-o", probed_, os.path.join(ERROR_FILES, "probed.c")], check=True)
    wrong, seen = [], []
    for name in sorted(os.listdir(ERROR_FILES)):
        path = os.path.join(ERROR_FILES, name)
        if not name.endswith(".dpc"):
            continue
        m = re.match(r"//! (probed )?(E-\S+) (?:(\d+:\d+) )?(.*)", text_of(path).partition("\n")[0])
        assert m, name
        module, code, place, text = m.groups()
        r = subprocess.run([MACHINE, probed_ if module else OBEY, path], stdout=subprocess.PIPE, text=True,
                           errors="replace", timeout=60)
        first = r.stdout.partition("\n")[0]
        want = "%s %s%s" % (code, "%s:%s: " % (path, place) if place else "", text.replace("FILE", path))
        if r.returncode != 1 or first.replace(path, "FILE") != want.replace(path, "FILE"):
            wrong.append("%s\n  wanted %s\n  got    %s" % (name, want, first))
        seen.append(text)
    known = diagnostics()
    assert len(known) > 80, len(known)
    bare = [d for d in sorted(known) if d not in WITHOUT_CASE
            and not any(re.fullmatch(".*" + as_pattern(d), s) for s in seen)]
    wrong += ["no file shows: " + d for d in bare]
    wrong += ["not in the source any more: " + d for d in WITHOUT_CASE if d not in known]
    assert not wrong, "\n".join(wrong)


@test
def hostile():
    """damaged sources end with an error, never otherwise"""
    import random
    rnd = random.Random(5)
    source = text_of(os.path.join(CASES, "language.dpc"))
    for i in range(150):
        s = list(source)
        for _ in range(rnd.randrange(1, 6)):
            at = rnd.randrange(len(s))
            s[at:at + rnd.randrange(3)] = rnd.choice(["", "(", "}", "*", "[", "$x", "\"", "if", "0x", ";",
                                                      "struct", "->", "@"])
        r = run_machine("".join(s))
        assert r.returncode in (0, 1, 2), (i, r.returncode)
    for text in ("(" * 5000, "{" * 5000, "-" * 5000 + "1", "*" * 3000, "int a" + "[1]" * 3000, "f(" * 3000):
        r = run_machine(HEAD + "void h() { " + text + " }")
        assert r.returncode == 1, (text[:10], r.returncode)


run()
