#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The version stands in meson.build, and all that must repeat it agrees; the tarball holds every source."""
import os
import re
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
REPEATED = {  # files, and what stands before the version in them
    "debian/changelog": r"\Adprobes \(",
    "debian/dprobes-dkms.install": r"usr/src/dprobes-",
    "python/dprobes/__init__.py": r"__version__ = \"",
    "kernel/dkms.conf": r"PACKAGE_VERSION=\"",
    "kernel/k-main.c": r"MODULE_VERSION\(\"",
    "doc/kernel-host.md": r"/usr/src/dprobes-",
}


def version():
    return re.search(r"version: '([^']+)'", tap.text_of(os.path.join(ROOT, "meson.build"))).group(1)


@tap.test
def one_version():
    """packages, the module and the command have the version of meson.build"""
    for name, before in REPEATED.items():
        found = re.findall(before + r"([0-9][0-9.]*[0-9])", tap.text_of(os.path.join(ROOT, name)))
        assert found and set(found) == {version()}, (name, found)
    shown = tap.dprobes("--version", check=0).stdout
    assert shown.splitlines()[0] == "dprobes " + version(), shown


@tap.test
def tarball():
    """a tarball packed from an unpacked tarball is the same again"""
    with tempfile.TemporaryDirectory() as work:
        def pack(top, out):
            r = subprocess.run([os.path.join(top, "packaging", "tarball.sh"), os.path.join(work, out)],
                               stdout=subprocess.PIPE, text=True, check=True)
            with open(r.stdout.strip(), "rb") as f:
                return r.stdout.strip(), f.read()

        name, first = pack(ROOT, "1")
        with tarfile.open(name) as tar:
            members = tar.getnames()
            tar.extractall(work)
        top = "dprobes-" + version()
        for file in ("meson.build", "debian/rules", "src/cmd/cmd-main.c", "tests/run.py", "LICENSE-MIT"):
            assert "%s/%s" % (top, file) in members, file
        assert first == pack(os.path.join(work, top), "2")[1]


if __name__ == "__main__":
    tap.run()
