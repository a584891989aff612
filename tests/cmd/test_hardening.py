# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""How our own programs and the library are built, and that the piece that is copied into other processes is not
built so."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DPCC = os.path.join(os.path.dirname(DPROBES), "dpcc")
LIBRARY = os.path.join(BUILD, "src", "host", "self", "libdprobes.so")
PARTS = [os.path.join(BUILD, "src", "log", "dprobes-ctf.so"), os.path.join(BUILD, "src", "serve", "dprobes-http.so")]
ENDBR = b"\xf3\x0f\x1e\xfa"


def readelf(*args):
    need("readelf")
    return subprocess.run(["readelf", "-W", *args], stdout=subprocess.PIPE, text=True, check=True).stdout


def symbols(path):
    """{name: (address, size, type, section)}"""
    found = {}
    for line in readelf("-s", path).splitlines():
        f = line.split()
        if len(f) >= 8 and f[0][:-1].isdigit():
            found[f[7].split("@")[0]] = (int(f[1], 16), int(f[2], 0), f[3], f[6])
    return found


def bytes_at(path, address, size):
    for line in readelf("-l", path).splitlines():
        m = re.match(r"\s+LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", line)
        if m:
            offset, start, length = (int(x, 16) for x in m.groups())
            if start <= address < start + length:
                with open(path, "rb") as f:
                    f.seek(offset + address - start)
                    return f.read(size)
    raise AssertionError("%s: nothing at 0x%x" % (path, address))


@test
def programs():
    """dprobes, its parts, dpcc and the library: position independent, read-only after relocation, no executable stack,
    all bound at the start"""
    for path in [DPROBES, DPCC, LIBRARY] + PARTS:
        head = readelf("-h", "-l", "-d", path)
        assert re.search(r"Type: +DYN", head), path
        assert "GNU_RELRO" in head and re.search(r"FLAGS.*NOW", head), path
        assert re.search(r"GNU_STACK.* RW +0x", head), path
        assert not re.search(r"LOAD.* RWE ", head), path
        assert not re.search(r"TEXTREL|RPATH", head), path


@test
def checks():
    """they are compiled with the stack protector, and with checked library calls where they are optimised"""
    options = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], stdout=subprocess.PIPE, text=True).stdout
    optimised = not re.search(r'"name": "optimization", "value": "(0|plain)"', options)
    for path in (DPROBES, DPCC, LIBRARY):
        names = symbols(path)
        assert "__stack_chk_fail" in names, path
        assert not optimised or any(name.endswith("_chk") for name in names), path


@test
def parts():
    """a run that writes no CTF and serves no HTTP loads neither babeltrace2 nor libmicrohttpd, which bring most
    libraries along; a dprobes without its parts says what is missing, and does all else"""
    needed = re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", DPROBES))
    assert needed and not [x for x in needed if re.match("libbabeltrace2|libmicrohttpd|libcurl", x)], needed
    for path, library in zip(PARTS, ("libbabeltrace2", "libmicrohttpd")):
        assert library in readelf("-d", path), path
    with tempfile.TemporaryDirectory() as d:
        alone = os.path.join(d, "dprobes")
        shutil.copy(DPROBES, alone)
        told = json.loads(subprocess.run([alone, "--version", "--json"], stdout=subprocess.PIPE, check=True).stdout)
        assert "ctf" not in told["formats"].split() and "perfetto" in told["formats"].split(), told
        assert "dprobes-ctf.so" in told["babeltrace2"] and "dprobes-http.so" in told["libmicrohttpd"], told
        for argv, code in ((["report", "--format", "ctf", "-o", d + "/ctf", "none"], "E-CMD-PART"),
                           (["serve", "--listen", "127.0.0.1:0"], "E-SERVE-BUILD")):
            r = subprocess.run([alone] + argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert r.returncode and code in r.stderr and "../lib/dprobes/dprobes-" in r.stderr, (argv, r.stderr)


@test
def branch_targets():
    """functions of every part begin with a landing instruction, and the library does not promise shadow stacks"""
    names = symbols(DPROBES)
    parts = ("dp_cmd_trace", "dp_session_new", "dp_event_compile", "dp_module_open", "dp_insn_decode",
             "dp_plan_make", "dp_formatter_new",
             "dp_cc_compile", "dp_driver_main", "dp_kernel_open", "dp_rpn_load", "dp_verify", "dp_fail")
    known = [name for name in parts if name in names]
    assert len(known) >= 9, set(parts) - set(known)
    for name in known:
        assert bytes_at(DPROBES, names[name][0], 4) == ENDBR, name
    # Return probes of the library change return addresses: where shadow stacks are on that must be known, not promised
    # away.
    assert "SHSTK" not in readelf("-n", LIBRARY)


@test
def hit_path():
    """the piece that other processes get has none of this: no landing instructions, no reference to a canary or to
    anything else"""
    names = symbols(DPROBES)
    at = names["dp_blob"][0]
    size = int.from_bytes(bytes_at(DPROBES, names["dp_blob_size"][0], 4), "little")
    blob = bytes_at(DPROBES, at, size)
    assert size > 16384 and ENDBR not in blob
    elf = os.path.join(BUILD, "src", "hit", "blob.d", "blob.elf")
    for name, (_, _, _, section) in symbols(elf).items():
        assert section != "UND" or not name, name
        assert "stack_chk" not in name and not name.endswith("_chk"), name
    need("objdump")
    code = subprocess.run(["objdump", "-d", elf], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "%fs:0x28" not in code


run()
