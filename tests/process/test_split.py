# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Split debug information: .dwo files, packages of them (.dwp), types in units of their own; damaged packages."""
import http.server
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from handlers import *  # noqa: E402,F403

OTHER = """
struct node;
struct other { long a; struct node *n; char t[4]; };
struct other global_other = {5, 0, "abc"};
__attribute__((noinline)) int second(struct other *o, int k)
{
	int z = o->a * k;
	__asm__ volatile("" : "+r"(z));
	return z + 1;
}
"""
PLACES = ["work", "mix", "half", "second", "vars.c:%d" % line_of("total += sum"),
          "vars.c:%d" % line_of("shared = part")]
BODY = ("\tlog_probe_expr(\"*p\");\n\tlog($n, $label, $p->next->in, $total, $global_other);\n"
        "\tif (@defined($sum)) log($sum);\n\tif (@defined($q)) log($q->d);")


# ---- a package maker: dwp of binutils 2.40 and llvm-dwp 14 cannot read what gcc 12 writes for DWARF 5 ----

def sections(path):
    """{name: bytes} of an ELF file."""
    with open(path, "rb") as f:
        b = f.read()
    at, size, n, names = struct.unpack_from("<Q", b, 40)[0], *struct.unpack_from("<HHH", b, 58)
    heads = [struct.unpack_from("<IIQQQQ", b, at + size * i) for i in range(n)]
    text = heads[names][4]
    out = {}
    for h in heads:
        if h[1] != 8: # types have a section of the same name each
            name = b[text + h[0]:b.index(b"\0", text + h[0])].decode()
            out[name] = out.get(name, b"") + b[h[4]:h[4] + h[5]]
    return out


def write_elf(path, secs):
    names, data, heads = b"\0", b"", [bytes(64)]
    for name, body in [*secs.items(), (".shstrtab", None)]:
        at = len(names)
        names += name.encode() + b"\0"
        body = names if body is None else body
        heads.append(struct.pack("<IIQQQQIIQQ", at, 3 if name == ".shstrtab" else 1, 0, 0, 64 + len(data),
                                 len(body), 0, 0, 1, 0))
        data += body
    head = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(data), 0, 64, 0, 0, 64,
                                                     len(heads), len(heads) - 1)
    with open(path, "wb") as f:
        f.write(head + data + b"".join(heads))


COLUMNS = {1: ".debug_info.dwo", 3: ".debug_abbrev.dwo", 4: ".debug_line.dwo", 5: ".debug_loclists.dwo",
           6: ".debug_str_offsets.dwo", 8: ".debug_rnglists.dwo"}


def index(rows):
    slots = 1
    while slots < 2 * len(rows) + 1:
        slots *= 2
    sigs, numbers = [0] * slots, [0] * slots
    for i, (sig, _) in enumerate(rows):
        at, step = sig & (slots - 1), (sig >> 32) & (slots - 1) | 1
        while numbers[at]:
            at = (at + step) & (slots - 1)
        sigs[at], numbers[at] = sig, i + 1
    out = struct.pack("<HHIII", 5, 0, len(COLUMNS), len(rows), slots)
    out += struct.pack("<%dQ%dI%dI" % (slots, slots, len(COLUMNS)), *sigs, *numbers, *COLUMNS)
    for which in (0, 1):
        for _, parts in rows:
            out += struct.pack("<%dI" % len(COLUMNS), *[parts[k][which] for k in COLUMNS])
    return out


def pack(path, dwos):
    """A package of DWARF 5 files."""
    all_, strings, units, types = {name: b"" for name in COLUMNS.values()}, b"", [], {}
    for dwo in dwos:
        secs = sections(dwo)
        offsets = bytearray(secs[".debug_str_offsets.dwo"])
        for at in range(8, len(offsets), 4):
            struct.pack_into("<I", offsets, at, struct.unpack_from("<I", offsets, at)[0] + len(strings))
        strings += secs[".debug_str.dwo"]
        secs[".debug_str_offsets.dwo"] = bytes(offsets)
        parts = {}
        for k, name in COLUMNS.items():
            if k != 1:
                parts[k] = (len(all_[name]), len(secs.get(name, b"")))
                all_[name] += secs.get(name, b"")
        info, at = secs[".debug_info.dwo"], 0
        while at < len(info):
            size = struct.unpack_from("<I", info, at)[0] + 4
            kind, sig = info[at + 6], struct.unpack_from("<Q", info, at + 12)[0]
            row = (sig, {**parts, 1: (len(all_[COLUMNS[1]]), size)})
            if kind == 5:
                units.append(row)
            if kind == 5 or sig not in types: # a type is kept once, as linkers do
                all_[COLUMNS[1]] += info[at:at + size]
            if kind == 6:
                types.setdefault(sig, row)
            at += size
    secs = {**all_, ".debug_str.dwo": strings, ".debug_cu_index": index(units)}
    if types:
        secs[".debug_tu_index"] = index(list(types.values()))
    write_elf(path, secs)


# ---- programs ----

def make(name, cc, *flags):
    """(directory, program) of one built in a directory of its own, from two files."""
    need(cc)
    where = os.path.join(DIR, name)
    os.makedirs(where)
    for file, text in (("vars.c", SOURCE), ("two.c", OTHER)):
        with open(os.path.join(where, file), "w") as f:
            f.write(text)
    env = dict(os.environ, CCACHE_DISABLE="1")  # what it has kept names the .dwo file of another directory
    for file in ("vars", "two"):
        subprocess.run([cc, "-O2", "-g", *flags, "-w", "-c", file + ".c", "-o", file + ".o"], cwd=where, check=True,
                       env=env)
    subprocess.run([cc, "-o", "prog", "vars.o", "two.o"], cwd=where, check=True)
    return where, os.path.join(where, "prog")


def seen(path, **kw):
    """What dprobes sees of a program: its variables at several places, and their values."""
    out = ""
    for place in PLACES:
        r = dprobes("vars", path, place, **kw)
        out += r.stdout
    for where in ("work", PLACES[-1]):
        file = handlers("split.dpc", path, [(where, BODY)])
        r = subprocess.run([DPROBES, "trace", "--allow-trap", "-f", file, "--", path], input="7\n",
                           stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60, **kw)
        assert r.returncode == 0, r.stderr
        assert "name = \"first\"" in r.stdout, r.stdout
        out += re.sub(r"(?m)^ *\S+-\d+ +\[\d+\] +[\d.]+: ", "", r.stdout)  # who, where and when
    return re.sub(r"0x7f\w+", "STACK", out)


BUILDS = [("gcc", "-gdwarf-4", "dwp"), ("gcc", "-gdwarf-4", "dwp", "-fdebug-types-section"), ("gcc", "-gdwarf-5", None),
          ("gcc", "-gdwarf-5", None, "-fdebug-types-section"), ("clang", "-gdwarf-4", "llvm-dwp"),
          ("clang", "-gdwarf-5", "llvm-dwp"),
          ("clang", "-gdwarf-5", "llvm-dwp", "-fdebug-types-section")]


@test
def packages():
    """packages of split debug information by gcc and clang, DWARF 4 and 5: as without splitting"""
    if os.geteuid() != 0:
        raise Skip("programs can be held at their start by root only")
    for i, (cc, version, tool, *flags) in enumerate(BUILDS):
        if not shutil.which(cc) or (tool and not shutil.which(tool)):
            print("# %s or %s is not installed" % (cc, tool))
            continue
        whole, _ = make("whole%d" % i, cc, version, *flags)
        where, path = make("split%d" % i, cc, version, "-gsplit-dwarf", *flags)
        want = seen(os.path.join(whole, "prog"))
        names = ["vars.dwo", "two.dwo"]
        if cc != "gcc" or not flags: # libdw sees one of the sections that gcc makes for types in a .dwo file
            assert seen(path) == want, (cc, version, flags, "files")
        if tool:
            subprocess.run([tool, "-e", path, "-o", path + ".dwp"], check=True, timeout=60, cwd=where)
        else:
            pack(path + ".dwp", [os.path.join(where, n) for n in names])
        for n in names:
            os.unlink(os.path.join(where, n))
        got = seen(path)
        assert got == want, (cc, version, flags, got, want)


@test
def places():
    """where packages are looked for; what is said when there is none, or that of another build"""
    where, path = make("placed", "gcc", "-gdwarf-5", "-gsplit-dwarf", "-Wl,--build-id")
    make("later", "gcc", "-gdwarf-5", "-gsplit-dwarf", "-O1")
    dwos = [os.path.join(where, n) for n in ("vars.dwo", "two.dwo")]
    pack(os.path.join(where, "all"), dwos)
    pack(os.path.join(where, "one"), dwos[:1])
    for d in dwos:
        os.unlink(d)
    r = dprobes("vars", path, "work", check=1)
    assert "E-LINE-NODEBUG" in r.stderr and "vars.dwo" in r.stderr and "prog.dwp" in r.stderr, r.stderr
    root = os.path.join(DIR, "root")
    ident = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE,
                                                         text=True).stdout).group(1)
    good = [path + ".dwp", os.path.join(root, ".build-id", ident[:2], ident[2:] + ".dwp"), root + path + ".dwp"]
    for at in good:
        os.makedirs(os.path.dirname(at), exist_ok=True)
        shutil.copy(os.path.join(where, "all"), at)
        r = dprobes("vars", path, "work", env={**os.environ, "DPROBES_DEBUG_PATH": root})
        assert "struct node *, rdi" in r.stdout, (at, r.stdout, r.stderr)
        os.unlink(at)
    # A stripped program whose debug file has the units' names; the package stands beside the debug file.
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", "--strip-debug", path], check=True)
    subprocess.run(["objcopy", "--add-gnu-debuglink=" + path + ".debug", path], check=True, cwd=where)
    os.makedirs(os.path.join(where, ".debug"))
    os.rename(path + ".debug", os.path.join(where, ".debug", "prog.debug"))
    shutil.copy(os.path.join(where, "all"), os.path.join(where, ".debug", "prog.dwp"))
    assert "struct node *, rdi" in dprobes("vars", path, "work").stdout
    # One unit of two: the other is missing, and says so.
    shutil.copy(os.path.join(where, "one"), os.path.join(where, ".debug", "prog.dwp"))
    assert "struct node *, rdi" in dprobes("vars", path, "work").stdout
    r = dprobes("vars", path, "second", check=1)
    assert "E-LINE-NODEBUG" in r.stderr and "two.dwo" in r.stderr, r.stderr
    os.unlink(os.path.join(where, ".debug", "prog.dwp"))
    later = os.path.join(DIR, "later")
    pack(path + ".dwp", [os.path.join(later, n) for n in ("vars.dwo", "two.dwo")])
    r = dprobes("vars", path, "work", check=1)
    assert "E-LINE-PACKAGE" in r.stderr and "another build" in r.stderr, r.stderr


@test
def elsewhere():
    """debug files of another build, and of a server: what is said when they cannot be used, and while one is waited
    for"""
    where, path = make("elsewhere", "gcc", "-Wl,--build-id")
    subprocess.run(["objcopy", "--only-keep-debug", "prog", "prog.debug"], check=True, cwd=where)
    subprocess.run(["strip", "prog"], check=True, cwd=where)
    subprocess.run(["objcopy", "--add-gnu-debuglink=prog.debug", "prog"], check=True, cwd=where)
    env = {k: v for k, v in os.environ.items() if k not in ("DEBUGINFOD_URLS", "DPROBES_DEBUG_PATH")}
    assert "struct node *, rdi" in dprobes("vars", path, "work", env=env).stdout
    with open(os.path.join(where, "prog.debug"), "rb") as f:
        good = f.read()
    other = make("elsewhere-else", "gcc", "-Wl,--build-id", "-O1")[1]
    subprocess.run(["objcopy", "--only-keep-debug", other, os.path.join(where, "prog.debug")], check=True)
    r = dprobes("vars", path, "work", env=env, check=1)
    assert "E-SYM-NONE" in r.stderr and "prog.debug belongs to another build" in r.stderr, r.stderr
    os.unlink(os.path.join(where, "prog.debug"))
    dprobes("vars", path, "0x1370", env=env, check=1)
    if not any(os.path.exists(d + "/libdebuginfod.so.1") for d in ("/usr/lib/x86_64-linux-gnu",
                                                                   "/lib/x86_64-linux-gnu", "/usr/lib64")):
        raise Skip("libdebuginfod1 is not installed")

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if ident not in self.path or not self.path.endswith("/debuginfo"):
                self.send_error(404)
                return
            time.sleep(2.5)
            self.send_response(200)
            self.send_header("Content-Length", str(len(good)))
            self.end_headers()
            self.wfile.write(good)

        def log_message(self, *args):
            pass
    ident = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE,
                                                         text=True).stdout).group(1)
    server = http.server.HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env.update(DEBUGINFOD_URLS="http://127.0.0.1:%d/" % server.server_port,
               DEBUGINFOD_CACHE_PATH=os.path.join(where, "cache"))
    r = dprobes("vars", path, "work", env=env)
    assert "struct node *, rdi" in r.stdout and "fetching debug information of prog" in r.stderr, (r.stdout, r.stderr)
    r = dprobes("vars", path, "work", env=env)
    assert "struct node *, rdi" in r.stdout and not r.stderr, (r.stdout, r.stderr)
    ident = "nothing"
    shutil.rmtree(os.path.join(where, "cache"))
    r = dprobes("vars", path, "work", env=env, check=1)
    assert "DEBUGINFOD_URLS: they do not have it" in r.stderr, r.stderr
    server.shutdown()


@test
def damaged():
    """damaged packages: an error or another value, never a crash, and never for ever"""
    where, path = make("damaged", "gcc", "-gdwarf-5", "-gsplit-dwarf", "-fdebug-types-section")
    dwos = [os.path.join(where, n) for n in ("vars.dwo", "two.dwo")]
    pack(path + ".dwp", dwos)
    for d in dwos:
        os.unlink(d)
    good = sections(path + ".dwp")

    def attempt(what, codes=(0, 1)):
        r = dprobes("vars", path, "work", check=None, timeout=60)
        assert r.returncode in codes, (what, r.returncode, r.stderr)
        return r

    def with_index(name, at, value, form="<I"):
        b = bytearray(good[name])
        struct.pack_into(form, b, at, value)
        write_elf(path + ".dwp", {**good, name: bytes(b)})
    right = attempt("good", (0,)).stdout
    assert right.count("\n") > 2
    size = len(good[".debug_cu_index"])
    slots = struct.unpack_from("<I", good[".debug_cu_index"], 12)[0]
    table = 16 + 12 * slots
    for at in (0, 4, 8, 12):
        for value in (0xffffffff, 0x80000000, 0x7fffffff, 0x10000000):
            with_index(".debug_cu_index", at, value)
            assert "E-LINE-PACKAGE" in attempt((at, value), (1,)).stderr, (at, value)
    rows = struct.unpack_from("<I", good[".debug_cu_index"], 8)[0]
    beyond = bytearray(good[".debug_cu_index"]) # a part of each unit is
    for k in range(rows):
        struct.pack_into("<I", beyond, table + 4 * len(COLUMNS) + 4 * len(COLUMNS) * k, 0xfffffff0)
    write_elf(path + ".dwp", {**good, ".debug_cu_index": bytes(beyond)})
    r = attempt("beyond")
    # elfutils from 0.191 on reads packages itself, and does not need this part to find a unit.
    assert "E-LINE-PACKAGE" in r.stderr if r.returncode else r.stdout == right, r
    for cut in range(0, size, 7):
        write_elf(path + ".dwp", {**good, ".debug_cu_index": good[".debug_cu_index"][:cut]})
        attempt(("cut", cut))
    rnd = random.Random(11)
    names = list(good)
    for i in range(150):
        bad = {n: bytearray(b) for n, b in good.items()}
        for _ in range(rnd.choice([1, 3, 20])):
            b = bad[rnd.choice(names)]
            if b:
                b[rnd.randrange(len(b))] = rnd.choice([0, 0x7f, 0xff, rnd.randrange(256)])
        if i % 5 == 0:
            n = rnd.choice(names)
            bad[n] = bad[n][:rnd.randrange(len(bad[n]) + 1)]
        write_elf(path + ".dwp", {n: bytes(b) for n, b in bad.items()})
        attempt(i)
    write_elf(path + ".dwp", good)
    with open(path + ".dwp", "rb") as f:
        b = f.read()
    for n in range(0, len(b), max(1, len(b) // 40)):
        with open(path + ".dwp", "wb") as f:
            f.write(b[:n])
        attempt(("file", n))


run()
