#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The version stands in meson.build, and all that must repeat it agrees; the tarball holds every source; what a build
lacks is named as the distribution does."""
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
def maintainer():
    """control and changelog of the packages name the same maintainer, at an address to which nothing is delivered"""
    found = [re.search(pattern, tap.text_of(os.path.join(ROOT, "debian", name)), re.M).group(1)
             for name, pattern in (("control", r"^Maintainer: (.+)$"), ("changelog", r"^ -- (.+)  \w"))]
    assert found[0] == found[1] and re.search(r"<no-mailing-address@\S+\.invalid>$", found[0]), found


@tap.test
def python_module():
    """every file of the Python module is installed"""
    named = re.findall(r"'dprobes/([\w.]+)'", tap.text_of(os.path.join(ROOT, "python", "meson.build")))
    there = os.listdir(os.path.join(ROOT, "python", "dprobes"))
    assert set(named) == {name for name in there if not name.startswith("__pycache__")}, (named, there)


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


RELEASES = {  # os-release files, and how packages are installed there, with those of libdw and protoc-c
    'ID=fedora\nVERSION_ID=43\n': "dnf install elfutils-devel protobuf-c-compiler",
    'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n': "dnf install elfutils-devel protobuf-c-compiler",
    'ID=arch\n': "pacman -S libelf protobuf-c",
    'ID=manjaro\nID_LIKE=arch\n': "pacman -S libelf protobuf-c",
    'ID=debian\n': "apt-get install libdw-dev protobuf-c-compiler",
    'ID=linuxmint\nID_LIKE="ubuntu debian"\n': "apt-get install libdw-dev protobuf-c-compiler",
}


def with_release(text, argv, **env):
    """What a command prints on a system whose os-release is this."""
    with tempfile.NamedTemporaryFile("w") as release:
        release.write(text)
        release.flush()
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, DPROBES_OS_RELEASE=release.name, **env))


@tap.test
def distributions():
    """what is missing is named by the packages of the distribution, or of the one that it is like"""
    script = os.path.join(ROOT, "packaging", "package-names.sh")
    for release, install in RELEASES.items():
        r = with_release(release, [script, "libdw", "protoc-c"])
        assert (r.returncode, r.stdout) == (0, "missing: libdw protoc-c. Install them with: %s\n" % install), r.stdout
    r = with_release("ID=other\n", [script, "libdw"])
    assert r.returncode == 0 and r.stdout.startswith("missing: libdw. Install what has them"), r.stdout


@tap.test
def configure():
    """without libraries, configure names all that it cannot do without, at once"""
    tap.need("meson")
    with tempfile.TemporaryDirectory() as work:
        r = with_release("ID=fedora\n", ["meson", "setup", os.path.join(work, "b"), ROOT], PKG_CONFIG_PATH="",
                         PKG_CONFIG_LIBDIR=work)
    assert r.returncode and ("missing: libdw libelf libbpf babeltrace2 libprotobuf-c. Install them with: dnf install "
                             "elfutils-devel elfutils-libelf-devel libbpf-devel libbabeltrace2-devel "
                             "protobuf-c-devel\n") in r.stdout, r.stdout


if __name__ == "__main__":
    tap.run()
