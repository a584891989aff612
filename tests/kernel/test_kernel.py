#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel host: builds the module for stock Debian kernels, boots them in an emulator, and runs the
groups of guest.sh there, one boot for each, two at a time for each processor (they wait most of the time), four at
most, and two beside other work. What is missing (emulator, packages) is one named skip.
DP_KERNEL_FLAVOURS: names of get.sh (cloud-amd64, amd64, bullseye, trixie, ...), debug (debug-kernel.sh), or several
with commas; "all": cloud-amd64 and all of OTHERS; each with all groups. Without it cloud-amd64, with the groups that
take longest every second day, and one of the others with a few: another kernel every day, and other groups each time
that its turn comes. DP_ONLY: one group, whatever the day. DP_TORTURE_SECONDS: so much longer is the group torture.
DP_PATIENCE: so many times longer may a guest take, where other work has the processors."""
import datetime
import glob
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import ftracetest  # noqa: E402
import kgdb  # noqa: E402
from modules import odd_names  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("DP_BUILD", os.path.join(ROOT, "build"))
PATIENCE = int(os.environ.get("DP_PATIENCE", "1"))
# With DP_KERNEL_TIMES set, bench tells the emulator's nanoseconds instead, which depend on what else the machine does.
ICOUNT = {"SMP": "1"} if os.environ.get("DP_KERNEL_TIMES") else {"ACCEL": "-accel tcg -icount shift=0,sleep=off",
                                                                 "SMP": "1"}
# Name, seconds until it is taken for hung (four times what it takes with nothing else running, at least), what is
# different.
GROUPS = [
    ("conformance", 240, {}),
    ("refusals", 150, {}),
    ("command", 150, {}),
    ("ktrace", 600, {}),
    ("worlds", 400, ICOUNT),
    ("krpn", 500, {}),
    ("tracepoints", 600, {}),
    ("limits", 150, {}),
    ("starts", 900, {}),
    ("neighbours", 400, {}),
    ("patches", 240, {}),
    ("crash", 120, {}),
    ("debugger", 120, {}),
    ("modules", 150, {}),
    ("knobs", 150, {}),
    ("examples", 150, {}),
    ("unload", 400, {}),
    ("torture", 600, {}),
    ("stopped", 240, {}),
    ("events", 400, {}),
    ("ftracetest", 600, {}),
    ("bench", 240, ICOUNT),
]
# Four fifths of the processor time: one day these, the next day those.
TURNS = (("ktrace", "tracepoints", "worlds", "neighbours", "unload"),
         ("torture", "ftracetest", "krpn", "starts", "events"))
# The other kernels. On a day: conformance, and so many groups more.
OTHERS = ("amd64", "bullseye", "trixie", "trixie-backports")
EACH_DAY = 2
# Groups that only one kernel has: those tests are of its own sources, and Debian's kernels have no debugger.
ONLY_ON = {"ftracetest": "cloud-amd64", "debugger": "debug"}
LEFT_OUT = [("debug", "bench")]
# What a kernel does with fewer instructions than we do: a skip tells both numbers.
CHEAPER = {("bullseye", "bench"): ("a breakpoint takes less than the kernel's",
                                   "the way into a breakpoint is shorter in Linux 5.10 than in later kernels")}
# What the guest's serial console must show.
SHOWN = {
    "krpn": [("log target CONSOLE shows on the console", r"\[ *[\d.]+\] dprobes\(7,0\) name=id$"),
             ("log target COM1 shows on the serial port", r"dprobes\(8,0\) name=id$")],
    "crash": [("exit 2 ends in a panic that names the place",
               r"\[ *[\d.]+\] Kernel panic - not syncing: dprobes: exit 2 of a program at \S*sys_sync")],
}
count = failed = 0
telling = threading.RLock()  # what one guest has done is told in one piece


def report(good, name, why=()):
    global count, failed
    with telling:
        count += 1
        failed += not good
        print("%sok %d - %s" % ("" if good else "not ", count, name), flush=True)
        for line in () if good else why:
            print("# " + line)


def skip(name, why):
    report(True, "%s # SKIP %s" % (name, why))


def build(flavour):
    """The directory of the kernel and the modules, or a reason to skip."""
    script = ["debug-kernel.sh", BUILD] if flavour == "debug" else ["get.sh", BUILD, flavour]
    get = subprocess.run([os.path.join(HERE, script[0]), *script[1:]], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    if get.returncode:
        return None, None, get.stderr.strip().splitlines()[-1] if get.stderr.strip() else "no kernel"
    kernel = get.stdout.strip().splitlines()[-1]
    out = os.path.join(BUILD, "kernel", flavour)
    for what in ("kernel", "tests/kernel", "examples/kernel"):
        if not os.path.exists(os.path.join(ROOT, what, "Kbuild")):
            continue
        r = subprocess.run([os.path.join(HERE, "build-for.sh"), kernel, out, what],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # The functions of the test module have bytes that are known, not those that objtool would like to see.
        warnings = [line for line in r.stdout.splitlines()
                    if "warning" in line and not (what == "tests/kernel" and "objtool" in line)]
        report(r.returncode == 0 and not warnings, "%s: %s builds without warnings" % (flavour, what),
               r.stdout.splitlines()[-20:])
        if r.returncode:
            return None, None, None
    odd = odd_names(out)
    report(not odd, "%s: external names have our prefix or are API" % flavour, sorted(odd))
    return kernel, out, None


def modules(out):
    found = []
    for what in ("kernel", "tests/kernel", "examples/kernel"):
        top = os.path.join(out, what)
        if os.path.isdir(top):
            found += [os.path.join(top, name) for name in sorted(os.listdir(top)) if name.endswith(".ko")]
    return found


def command(work):
    """The dprobes command and what it needs to run in a guest without a C library."""
    dprobes = os.environ.get("DPROBES", os.path.join(BUILD, "src", "cmd", "dprobes"))
    lib = os.path.join(work, "lib")
    os.mkdir(lib)
    ldd = subprocess.run(["ldd", dprobes], stdout=subprocess.PIPE, text=True)
    for path in re.findall(r"(/\S+) \(0x", ldd.stdout):
        shutil.copy(path, lib)
    shutil.copy(dprobes, os.path.join(lib, "dprobes"))
    return lib


def for_programs(kernel, work):
    """An example, a program whose instructions fault, and a module of the kernel's own, which has BTF."""
    dummy = os.path.join(work, "dummy.ko")
    for packed in glob.glob(os.path.join(kernel, "modules/kernel/drivers/net/dummy.ko*")):
        with (lzma.open if packed.endswith(".xz") else open)(packed, "rb") as f, open(dummy, "wb") as to:
            shutil.copyfileobj(f, to)
    return [os.path.join(ROOT, "examples", "dpcc", "kernel-open.dpc"),
            os.path.join(BUILD, "tests", "process", "targets", "faults"), dummy]


def debug_files(work):
    """Debug information of some functions of the kernel, for kernels with landing pads and without: with the offset
    where the build-id is to be written."""
    source = os.path.join(HERE, "debug-file.c")
    build_id = bytes(range(0xd0, 0xd0 + 20))
    found = [source]
    for behind, pads in ((5, "none"), (9, "branch")):
        path = os.path.join(work, "debug-file.%d" % behind)
        subprocess.run(["gcc", "-g", "-O1", "-fcf-protection=" + pads, "-pg", "-mfentry", "-mnop-mcount",
                        "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel",
                        "-Wl,-Ttext=0xffffffff81000000,-e,vfs_read,--build-id=0x" + build_id.hex(), "-o", path,
                        source], check=True)
        with open(path, "rb") as f, open(path + ".id", "w") as to:
            to.write(str(f.read().index(build_id)))
        found += [path, path + ".id"]
    return found


def of_another_kernel(out, work):
    """Our module as if it had been built for another kernel."""
    with open(os.path.join(out, "kernel", "dprobes.ko"), "rb") as f:
        ours = f.read()
    path = os.path.join(work, "other.ko")
    with open(path, "wb") as f:
        f.write(re.sub(rb"vermagic=\d(\S*) S", rb"vermagic=0\1 X", ours, count=1))
    return path


def emulator(flavour):
    """What runs a kernel's guest, as run.sh wants it. An emulator before 9 crashes kernels that are newer than it."""
    version = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True).stdout
    if flavour.endswith("amd64") or flavour == "debug" or int(re.search(r"version (\d+)", version).group(1)) >= 9:
        return {}, None
    get = subprocess.run([os.path.join(HERE, "get.sh"), BUILD, "qemu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    if get.returncode:
        return None, "an emulator that can run it: " + (get.stderr.strip().splitlines() or ["?"])[-1]
    top = os.path.join(get.stdout.strip().splitlines()[-1], "root", "usr")
    return {"QEMU": "%s/bin/qemu-system-x86_64 -L %s/share/qemu -L %s/share/seabios" % (top, top, top)}, None


def groups_of(flavour):
    return [name for name, _, _ in GROUPS
            if (flavour, name) not in LEFT_OUT and ONLY_ON.get(name, flavour) == flavour]


def of_day(day):
    """The other kernel of a day, and its groups: after some weeks each kernel has had all of its groups."""
    other = OTHERS[day % len(OTHERS)]
    rest = [name for name in groups_of(other) if name != "conformance"]
    first = day // len(OTHERS) * EACH_DAY
    return other, ["conformance"] + [rest[(first + i) % len(rest)] for i in range(EACH_DAY)]


def first_of_day(day):
    """The groups of cloud-amd64 on a day."""
    return [name for name in groups_of("cloud-amd64") if name not in TURNS[day % len(TURNS)]]


def asked_for():
    """Kernels, each with its groups."""
    asked = os.environ.get("DP_KERNEL_FLAVOURS")
    if asked:
        names = ("cloud-amd64", *OTHERS) if asked == "all" else asked.split(",")
        return {name: groups_of(name) for name in names}
    if os.environ.get("DP_ONLY"):
        return {"cloud-amd64": groups_of("cloud-amd64")}
    day = datetime.date.today().toordinal()
    return {"cloud-amd64": first_of_day(day), **dict([of_day(day)])}


def look_at_days():
    days = [of_day(day) for day in range(6 * 7)]
    left = [(o, set(groups_of(o)).difference(*(groups for other, groups in days if other == o))) for o in OTHERS]
    report(not any(groups for _, groups in left), "in six weeks each kernel has had all of its groups", map(str, left))
    two = set(first_of_day(0)).union(first_of_day(1))
    report(two == set(groups_of("cloud-amd64")), "in two days the first kernel has had all of its groups", sorted(two))


def ended_by(lines, late):
    """Why a guest did not come to its end, in a few words."""
    last = next((line for line in reversed(lines) if line.startswith("tap:")), "nothing")
    return "%s after: %s" % ("out of time" if late else "it died", last)


def end_of(lines, out, group):
    """How a guest died: from the kernel's first word of it on. All of its log is kept beside the modules."""
    kept = os.path.join(out, group + ".log")
    with open(kept, "w") as f:
        f.write("\n".join(lines) + "\n")
    first = next((i for i, line in enumerate(lines) if re.search(r"BUG:|Oops|anic|general protection|lockup", line)),
                 len(lines) - 80)
    return ["all of it: " + kept] + lines[max(first - 5, 0):][:150]


def used(lines):
    """Seconds of a processor that a guest has taken, as run.sh tells them."""
    told = next((line for line in lines if line.startswith("guest-times: ")), "")
    return sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", told))


def tell(flavour, out, group, lines, seconds, limit):
    """Report what a guest's console says of its tests."""
    done = False
    test, why = CHEAPER.get((flavour, group), (None, None))
    for line in lines:
        m = re.match(r"tap: (not )?ok - (.*)", line)
        if m and m.group(1) and test and m.group(2).startswith(test):
            skip("%s: %s: %s" % (flavour, group, m.group(2)), why)
        elif m:
            report(not m.group(1), "%s: %s: %s" % (flavour, group, m.group(2)))
        elif line.startswith(("tap: # figure:", "tap: # log:")):
            print(line[5:].replace("figure: kernel", "figure: kernel " + flavour), flush=True)
        elif line == "tap: done":
            done = True
    for name, pattern in SHOWN.get(group, ()):
        report(any(re.match(pattern, line) for line in lines), "%s: %s: %s" % (flavour, group, name), lines[-80:])
    why = "" if done else " (%s)" % ended_by(lines, seconds >= limit)
    report(done, "%s: %s: the guest came to its end%s" % (flavour, group, why),
           () if done else end_of(lines, out, group))
    print("# %s: %s: %.1f s, %.1f s of a processor" % (flavour, group, seconds, used(lines)), flush=True)


def boot(flavour, kernel, out, group, limit, env, more=()):
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "group"), "w") as f:
            f.write(group)
        seconds = os.environ.get("DP_TORTURE_SECONDS", "") if group == "torture" else ""
        with open(os.path.join(work, "torture-seconds"), "w") as f:
            f.write(seconds)
        limit = (limit + 2 * int(seconds or 0)) * PATIENCE
        if flavour == "debug":  # it checks every access to memory and every lock
            limit *= 5
            env = dict(env, MEM="1536", APPEND="printk.time=1")
        argv = [os.path.join(HERE, "run.sh"), kernel, os.path.join(HERE, "guest.sh"),
                os.path.join(HERE, "guest-events.sh"), os.path.join(HERE, "guest-command.sh"),
                os.path.join(HERE, "guest-rpn.sh"), os.path.join(HERE, "guest-uprobes.sh"),
                os.path.join(HERE, "guest-limits.sh"),
                os.path.join(HERE, "guest-worlds.sh"), os.path.join(HERE, "guest-tracepoints.sh"),
                os.path.join(HERE, "guest-starts.sh"),
                os.path.join(work, "group"), os.path.join(work, "torture-seconds"),
                *more, *modules(out)]
        if group in ("command", "ktrace", "krpn", "tracepoints", "limits", "starts", "crash", "debugger", "torture",
                     "patches", "worlds"):
            argv.append(command(work))
        if group == "command":
            argv.append(of_another_kernel(out, work))
        if group == "ktrace":
            argv += debug_files(work) + [os.path.join(HERE, "victim.c")]
        if group == "krpn":
            argv += for_programs(kernel, work) + debug_files(work)
        if group == "limits":
            argv.append(os.path.join(BUILD, "tests", "kernel", "raw"))
        if group == "worlds":
            argv.append(os.path.join(BUILD, "tests", "kernel", "worlds"))
        if group == "starts":
            argv += [os.path.join(BUILD, "tests", "process", "targets", name)
                     for name in ("brief", "brief-static", "libbrief.so")]
        operator = kgdb.Operator(os.path.join(work, "line"), limit) if group == "debugger" else None
        if operator:
            env = dict(env, QEMU_ARGS="-serial unix:%s,server=on,wait=off" % operator.path)
            operator.start()
        began = time.time()
        r = subprocess.run(argv, env=dict(os.environ, LIMIT=str(limit), **env), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = r.stdout.splitlines()
    with telling:
        if operator:
            operator.judge(lines, lambda good, name, why: report(good, "%s: %s: %s" % (flavour, group, name), why))
        tell(flavour, out, group, lines, time.time() - began, limit)
    return lines


def boot_ftracetest(flavour, kernel, out, group, limit, env):
    with open(os.path.join(kernel, "kver")) as f:
        tests, why = ftracetest.selftests(BUILD, f.read().strip())
    if why:
        skip("the kernel's own tests of its events", why)
        return
    ftracetest.compare(tests, lambda more: boot(flavour, kernel, out, group, limit, env, more),
                       lambda good, name, why=(): report(good, "%s: %s: %s" % (flavour, group, name), why))


def boots_of(flavour, groups):
    """Builds the modules for a kernel: what is to be called for each group, those that take longest first."""
    kernel, out, why = build(flavour)
    qemu, lacks = emulator(flavour) if kernel else ({}, None)
    if why or lacks:
        skip("%s: all tests" % flavour, why or lacks)
    if not kernel or lacks:
        return []
    return [(boot_ftracetest if group == "ftracetest" else boot, flavour, kernel, out, group, limit, {**qemu, **env})
            for group, limit, env in sorted(GROUPS, key=lambda g: -g[1]) if group in groups]


def look_at_names():
    """All of the guest's scripts are read by one shell: a function must not take the place of another."""
    names = [name for path in glob.glob(os.path.join(HERE, "guest*.sh")) if not path.endswith("guest-machine.sh")
             for name in re.findall(r"^(\w+)\(\)", open(path).read(), re.M)]
    twice = sorted({name for name in names if names.count(name) > 1})
    report(not twice, "each function of the guest's scripts has a name of its own", twice)


def main():
    missing = [p for p in ("qemu-system-x86_64", "busybox", "cpio") if not shutil.which(p)]
    only = os.environ.get("DP_ONLY", "")
    if not only:
        look_at_days()
        look_at_names()
    if missing:
        skip("all kernels", "%s is not installed" % missing[0])
    with ThreadPoolExecutor(min(2 * os.cpu_count(), 4 if PATIENCE == 1 else 2)) as pool:
        ends = []
        for flavour, groups in {} if missing else asked_for().items():
            # Guests of the kernel before run meanwhile.
            ends += [pool.submit(*b) for b in boots_of(flavour, [name for name in groups if only in name])]
        for end in ends:
            end.result()
    print("1..%d" % count)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
