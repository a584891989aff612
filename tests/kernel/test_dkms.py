#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""DKMS: the sources as a package lays them out are added, built for a stock kernel and installed into a tree of the
test's own, where `dprobes kernel load` looks for the module. Nothing of the system is touched."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_kernel as guest  # noqa: E402


def main():
    why = None if shutil.which("dkms") else "dkms is not installed"
    if not why and os.geteuid():
        why = "dkms wants root"
    if not why:
        get = subprocess.run([os.path.join(guest.HERE, "get.sh"), guest.BUILD], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        why = None if get.returncode == 0 else get.stderr.strip().splitlines()[-1]
    if why:
        print("ok 1 - DKMS builds the module # SKIP %s\n1..1" % why)
        return 0
    kernel = get.stdout.strip().splitlines()[-1]
    release = open(os.path.join(kernel, "kver")).read().strip()
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, "src", "dprobes-0.1.0")
        for part in ("kernel", "src", "include"):
            shutil.copytree(os.path.join(guest.ROOT, part), os.path.join(source, part))
        shutil.copy(os.path.join(guest.ROOT, "kernel", "dkms.conf"), source)
        os.mkdir(os.path.join(work, "tree"))
        os.makedirs(os.path.join(work, "modules", release))

        def dkms(verb, *more):
            r = subprocess.run(["dkms", verb, "-m", "dprobes", "-v", "0.1.0", "--dkmstree", os.path.join(work, "tree"),
                                "--sourcetree", os.path.join(work, "src"), "--installtree",
                                os.path.join(work, "modules"), *more],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            guest.report(r.returncode == 0, "dkms " + verb, r.stdout.splitlines()[-20:])

        dkms("add")
        dkms("build", "-k", release, "--kernelsourcedir", os.path.join(kernel, "build"))
        dkms("install", "-k", release, "--kernelsourcedir", os.path.join(kernel, "build"), "--no-depmod")
        ko = os.path.join(work, "modules", release, "updates", "dkms", "dprobes.ko")
        magic = subprocess.run(["modinfo", "-F", "vermagic", ko], stdout=subprocess.PIPE, text=True).stdout
        guest.report(magic.startswith(release + " "),
                     "the module is where `dprobes kernel load` looks for it, for this kernel",
                     [magic] + [os.path.join(d, f) for d, _, files in os.walk(os.path.join(work, "modules"))
                                for f in files])
    print("1..%d" % guest.count)
    return 1 if guest.failed else 0


if __name__ == "__main__":
    sys.exit(main())
