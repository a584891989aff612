# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Short runs of the libFuzzer harnesses: a number of inputs each, from the same beginning."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(BUILD, "libfuzzer")


def has_libfuzzer():
    os.makedirs(OUT, exist_ok=True)
    if not shutil.which("clang"):
        return False
    empty = "int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n) { return 0; }"
    return subprocess.run(["clang", "-fsanitize=fuzzer", "-x", "c", "-", "-o", os.path.join(OUT, "empty")],
                          input=empty, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def fuzz(kind, runs):
    if built is None:
        raise Skip("clang with libFuzzer is not there")
    assert built.returncode == 0, built.stdout[-2000:]
    seeds = os.path.join(OUT, kind)
    r = subprocess.run([os.path.join(OUT, "fuzz-" + kind), "-runs=%d" % runs, "-seed=1", "-timeout=30",
                        "-rss_limit_mb=2048",
                        "-artifact_prefix=" + OUT + "/", os.path.join(OUT, "new"), seeds],
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", timeout=600)
    assert r.returncode == 0, r.stderr[-4000:]


@test
def text():
    """the text of probe programs: preprocessor and assembler"""
    fuzz("text", 1500)


@test
def objects():
    """objects: what is loaded passes the verifier and runs"""
    fuzz("object", 5000)


@test
def code():
    """bytecode: what is verified does the same compiled and interpreted"""
    fuzz("code", 15000)


@test
def log():
    """rings with any content: the log reader hands out sound records"""
    fuzz("log", 3000)


@test
def recordings():
    """recordings with any content: what is shown of them is sound"""
    fuzz("recording", 500)


built = None
if has_libfuzzer():
    built = subprocess.run([os.path.join(HERE, "build-libfuzzer.sh"), OUT], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    shutil.rmtree(os.path.join(OUT, "new"), ignore_errors=True)
    os.makedirs(os.path.join(OUT, "new"), exist_ok=True)
run()
