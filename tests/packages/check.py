#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The packages, as `make check-packages` tries them: built twice with the same bytes, clean for lintian, then in a
chroot of their own installed, used by the tests of debian/tests, upgraded with a probe in place, removed and purged.
It downloads a Debian, so `make check` leaves it out."""
import filecmp
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
WORK = tempfile.mkdtemp()
FIRST, SECOND, CHROOT, NEWER = (os.path.join(WORK, name) for name in ("first", "second", "chroot", "newer"))
TOOLS = "gcc,libc6-dev,pkg-config,procps"
SUITE = platform.freedesktop_os_release()["VERSION_CODENAME"]


def command(*argv, **kw):
    r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, **kw)
    assert r.returncode == 0, "%s: status %d\n%s" % (" ".join(argv), r.returncode, r.stdout[-4000:])
    return r.stdout


def packages(where):
    """Of what users install, the files by package name."""
    return {os.path.basename(f).split("_")[0]: f for f in sorted(glob.glob(where + "/*.deb")) if "dbgsym" not in f}


def inside(script, root=CHROOT):
    """Run a script of the shell in the chroot, with process ids, mounts and a driver's directory of its own. What it
    starts ends with it."""
    setup = 'mount --rbind /dev "$0/dev" && mount -t tmpfs none "$0/run" && mount -t proc none "$0/proc" && ' \
            'exec chroot "$0" sh -euxc "$1"'
    return command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", setup, root, script,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive",
                        "TMPDIR": "/tmp"})


def upgrade_of(deb, target):
    """The same package with a higher version."""
    tree = os.path.join(WORK, "tree")
    shutil.rmtree(tree, ignore_errors=True)
    command("dpkg-deb", "-R", deb, tree)
    path = os.path.join(tree, "DEBIAN", "control")
    text = re.sub(r"(?m)^(Version: \S+)$", r"\1+next", tap.text_of(path))
    with open(path, "w") as f:
        f.write(text)
    command("dpkg-deb", "--root-owner-group", "-b", tree, target)


@tap.test
def build_twice():
    """two builds of the packages have the same bytes"""
    tap.need("dpkg-buildpackage", "dh_dkms")
    for where in (FIRST, SECOND):
        command(os.path.join(ROOT, "packaging", "deb.sh"), where)
    names = [os.path.basename(f) for f in glob.glob(FIRST + "/*.deb")]
    assert set(packages(FIRST)) == {"dprobes", "libdprobes1", "libdprobes-dev", "dprobes-dkms", "dprobes-doc",
                                    "python3-dprobes"}, names
    _, other, errors = filecmp.cmpfiles(FIRST, SECOND, names, shallow=False)
    assert not other and not errors, (other, errors)


@tap.test
def tarball():
    """the sources of the tarball build in a directory with a blank in its name"""
    top = os.path.join(WORK, "a path with blanks")
    os.mkdir(top)
    name = command(os.path.join(ROOT, "packaging", "tarball.sh"), WORK).strip()
    command("tar", "-x", "-f", name, "-C", top)
    tree = os.path.join(top, os.path.basename(name)[:-len(".tar.xz")])
    command("make", "-C", tree, "SETUP=--werror -Dtests=false")
    command("make", "-C", tree, "PREFIX=" + os.path.join(top, "usr"), "install")
    dprobes = os.path.join(top, "usr", "bin", "dprobes")
    out = command(dprobes, "trace", "-q", "p libc:write count", "--", "echo", "written")
    assert "written" in out and re.search(r"count +write +1$", out, re.M), out


@tap.test
def lintian():
    """lintian finds nothing, pedantic tags included"""
    tap.need("lintian")
    found = command("lintian", "--fail-on=none", "--pedantic", "-I", "--allow-root", *glob.glob(FIRST + "/*.changes"))
    # What an override names may be a tag of another version.
    assert not re.search(r"(?m)^[EWIP]: (?!\S+ alien-tag )", found), found


def fresh(suite, root):
    """A Debian that has nothing but a compiler and, in /root, the packages and the tests of debian/tests."""
    tap.need("mmdebstrap")
    os.chmod(WORK, 0o755)  # apt gives its rights up for downloads
    command("mmdebstrap", "--variant=apt", "--skip=cleanup/apt", "--include=" + TOOLS, suite, root)
    for name, deb in packages(FIRST).items():
        if name != "dprobes-dkms":  # tests/kernel/test_dkms.py builds its module
            shutil.copy(deb, os.path.join(root, "root"))
    shutil.copytree(os.path.join(ROOT, "debian", "tests"), os.path.join(root, "root", "tests"))


@tap.test
def install():
    """the packages are installed in a fresh Debian, and the tests of debian/tests pass there"""
    fresh(SUITE, CHROOT)
    os.makedirs(os.path.join(CHROOT, "root", "next"))
    upgrade_of(packages(FIRST)["dprobes"], os.path.join(CHROOT, "root", "next", "dprobes.deb"))
    inside("apt-get install -q -y --no-install-recommends /root/*.deb")
    for name in ("trace", "insert", "library", "python"):
        inside("/root/tests/" + name)


@tap.test
def newer_debian():
    """the packages of Debian 12 are installed in the next Debian, each by one command, and pass there"""
    if SUITE != "bookworm":
        raise tap.Skip("these were built on %s" % SUITE)
    fresh("trixie", NEWER)
    inside("apt-get install -q -y /root/dprobes_*.deb && /root/tests/trace && /root/tests/insert", NEWER)
    inside("apt-get install -q -y --no-install-recommends /root/*.deb", NEWER)
    for name in ("library", "python"):
        inside("/root/tests/" + name, NEWER)


@tap.test
def upgrade():
    """in an upgrade the new version takes inserted programs over, without losing a hit of a process that calls the
    probed function all the time; a driver that was killed before loses none either; removal takes the probes out"""
    tap.need("mmdebstrap")
    out = inside(r"""
        printf 'name = libc.so.6\nmodtype = user\nvars = 1\noffset = write\n\tinc lv, 0\n\tabort\n' >/root/count.rpn
        sh -c 'until [ -e /root/go ]; do :; done
               n=0; until [ -e /root/enough ]; do echo x; n=$((n + 1)); done; echo $n >/root/calls
               while :; do sleep 0.1; done' >/dev/null &
        writer=$!
        dprobes insert /root/count.rpn -p $writer
        old=$(pgrep dprobesd)
        touch /root/go
        apt-get install -q -y /root/next/dprobes.deb
        dpkg-query -W -f 'now ${Version}\n' dprobes
        new=$(pgrep dprobesd)
        [ "$new" != "$old" ]
        [ "$(readlink /proc/$new/exe)" = /usr/bin/dprobes ]
        kill -KILL $new
        apt-get install -q -y --allow-downgrades /root/dprobes_*.deb
        dprobes query --all
        touch /root/enough
        until [ -s /root/calls ]; do sleep 0.1; done
        # One write() more is that of the number itself.
        [ "$(dprobes vars --all | sed -n 's/.*lv 0 = //p')" = $(($(cat /root/calls) + 1)) ]
        ! grep -q dprobes-rings /proc/$writer/maps || echo armed
        dpkg --remove python3-dprobes dprobes
        ! pgrep dprobesd
        kill -0 $writer
        ! grep -q dprobes-rings /proc/$writer/maps && echo clean
        """)
    assert "+next" in out and "\narmed\n" in out and "\nclean\n" in out, out


@tap.test
def purge():
    """after a purge no file of the packages is left"""
    tap.need("mmdebstrap")
    out = inside("apt-get purge -q -y '^dprobes' '^libdprobes' '^python3-dprobes' && "
                 "find / -xdev '(' -path /root -o -path /proc -o -path /var/lib/apt -o -path /var/log "
                 "-o -path /var/cache ')' -prune -o -name '*dprobes*' -print | sed 's/^/left: /'")
    assert not re.search(r"(?m)^left: ", out), out


if __name__ == "__main__":
    tap.run()
