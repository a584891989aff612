# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Handlers for the kernel, compiled only: by BTF (of the machine that this runs on), and by a debug file, for which
a program stands that is linked to the kernel's addresses. tests/kernel runs such handlers in a kernel."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

DPCC = os.path.join(BUILD, "src", "cmd", "dpcc")
BTF = "/sys/kernel/btf/vmlinux"
FAKE = """
struct page { unsigned long flags; struct page *next; };
struct page first = { 7, &first };
__thread int own;
__attribute__((noinline)) int work(struct page *page, int order)
{
	int sum = order;
	for (struct page *p = page; p && sum < 100; p = p->next)
		sum += p->flags;
	__asm__ volatile("" : "+r"(sum));
	return sum + own;
}
int start_kernel(void) { return work(&first, 3); }
"""
TWICE = """
static inline __attribute__((always_inline)) long halved(long all) { __asm__("shr %0" : "+D"(all)); return all; }
long whole(long all)
{
	return halved(all);
}
"""


def compile_text(source, *options, env=None):
    with tempfile.NamedTemporaryFile("w", suffix=".dpc", prefix="dp-kernel-") as f:
        f.write(source)
        f.flush()
        return subprocess.run([DPCC, "-o", "-", *options, f.name], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env,
                              timeout=60)


def handler(place, body, head=""):
    return '#pragma MODNAME("vmlinux") MODTYPE(kernel)\n' \
        '#pragma PROBEPOINT_LOCATION("%s") PROBEPOINT_HANDLER("h")\n%svoid h() { %s }\n' % (
        place, head, body)


def good(r, *wanted):
    assert r.returncode == 0, r.stderr
    for text in wanted:
        assert text in r.stdout, "%s is not in\n%s" % (text, r.stdout)


def bad(r, *wanted):
    assert r.returncode != 0, r.stdout
    for text in wanted:
        assert text in r.stderr, r.stderr


def btf():
    if not os.access(BTF, os.R_OK):
        skip("the kernel of this machine has no BTF")


@test
def parameters():
    """BTF: parameters in registers, members by name, types in the records"""
    btf()
    good(compile_text(handler("vfs_open", "log($path->dentry->d_name.len, $file->f_flags);")),
         "offset = vfs_open\n", "push r,rdi",
         'field = "$path->dentry->d_name.len" u32', 'field = "$file->f_flags" u32')
    good(compile_text(handler("do_sys_openat2%return", "log($retval);")),
         "offset = do_sys_openat2\nat = return\n", "push r,rax")
    good(compile_text(handler("vfs_read+0x10", "log(@defined($file), $current->pid);")),
         "offset = vfs_read+0x10\n", "push task")
    good(compile_text(handler("vfs_open",
                              "struct dentry *d = $path->dentry; log(sizeof(struct dentry), d->d_flags == DCACHE_X);",
                              "#define DCACHE_X 3\n")), "d->d_flags")


@test
def every_kind():
    """BTF: typedefs, enumerators, bitfields, unions, arrays, anonymous members, whole structures"""
    btf()
    good(compile_text(handler("tcp_v4_rcv", "log($skb->pkt_type, $skb->len, $skb->cb[0]);")),
         '"$skb->pkt_type" u8', "shr 61")
    good(compile_text(handler("vfs_open", "log(PIDTYPE_MAX, *$path, $current->comm, (umode_t)1, sizeof(size_t));")),
         "char[16]", "layout = ", "\"mnt\" ptr")
    good(compile_text(handler("vfs_r*d", "count(calls);")), "offset = vfs_read\n")


@test
def named_errors():
    """BTF: what is not there is said with its place"""
    btf()
    bad(compile_text(handler("vfs_open", "log($pathh);")), "E-VAR-NONE", ":3:16: pathh in vfs_open",
        "did you mean $path?")
    bad(compile_text(handler("vfs_open+5", "log($path);")), "E-VAR-GONE", "first instruction only")
    bad(compile_text(handler("vfs_open", "log($path->nothing);")), "E-DPCC", "nothing")
    bad(compile_text(handler("no_such_function", "log($x);")), "E-VAR-NONE", "does not know the function")
    bad(compile_text(handler("fs/open.c:10", "log(1);")), "E-LINE-NODEBUG")
    bad(compile_text(handler("inode.c:10", "log(1);").replace("(kernel)", "(kmod)")), "E-LINE-NODEBUG",
        "no file in /lib/modules")
    bad(compile_text(handler("zzz*", "log(1);")), "E-SYM-NONE")
    bad(compile_text(handler("*", "log(1);")), "E-PROG-LIMIT", "more than 256 functions")
    bad(compile_text(handler("f", "log(1);").replace("(kernel)", "(kmod)").replace("vmlinux", "no_such_module")),
        "E-KERNEL-BTF",
        "load the module first")


@test
def debug_file():
    """a debug file: places and addresses stay symbols, lines and locals work"""
    with tempfile.TemporaryDirectory(prefix="dp-kernel-") as work:
        path = os.path.join(work, "vmlinux")
        source = os.path.join(work, "fake.c")
        with open(source, "w") as f:
            f.write(FAKE)
        subprocess.run(["gcc", "-g", "-O1", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pic",
                        "-mcmodel=kernel",
                        "-Wl,-Ttext=0xffffffff81000000,-e,start_kernel,--build-id", "-o", path, source], check=True)
        good(compile_text(handler("work", "log(*$page, $order, $first.flags);"), "-m", path), "offset = work+0x0\n",
             "push d,first+0", "layout = T1 16 struct")
        good(compile_text(handler("fake.c:9", "log($sum, $p->flags);"), "-m", path), "offset = work+0x")
        r = compile_text(handler("work%return", "log($retval);"), "-m", path)
        good(r, "offset = work+0x")
        assert "at = return" not in r.stdout, r.stdout
        assert "build_id" not in r.stdout, r.stdout
        of_one_build(work, path)


def running_build():
    """The build-id of this machine's kernel."""
    with open("/sys/kernel/notes", "rb") as f:
        notes = f.read()
    at = notes.index(bytes.fromhex("040000001400000003000000474e5500")) + 16
    return notes[at:at + 20].hex()


@test
def running_kernel():
    """the running kernel's debug file is found, for places that BTF does not know"""
    btf()
    with tempfile.TemporaryDirectory(prefix="dp-kernel-") as work:
        os.mkdir(os.path.join(work, "boot"))
        path = os.path.join(work, "boot", "vmlinux-" + os.uname().release)
        sources = [os.path.join(work, "fake.c"), os.path.join(work, "other.c")]
        for name, text in zip(sources, (FAKE + "char _text[1];", TWICE)):
            with open(name, "w") as f:
                f.write(text + "static int twice(int n) { return n ^ 77; }\nint (*v)(int) = twice;\n".replace(
                    "v)", os.path.basename(name)[0] + ")"))
        env = dict(os.environ, DPROBES_DEBUG_PATH=work)
        make = ["gcc", "-g", "-O1", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel",
                "-Wl,-Ttext=0xffffffff81000000,-e,start_kernel", "-o", path, *sources]
        subprocess.run([*make, "-Wl,--build-id"], check=True)
        place = handler("fake.c:9", "log($sum, $p->flags, $current);")
        bad(compile_text(place, env=env), "E-LINE-NODEBUG", "boot/vmlinux-", "is of another build")
        subprocess.run([*make, "-Wl,--build-id=0x" + running_build()], check=True)
        r = compile_text(place, env=env)
        good(r, "offset = work+0x", '"$sum" s32')
        good(compile_text(handler("vfs_open", "log($path->dentry->d_name.len);"), env=env), "offset = vfs_open\n")
        good(compile_text(handler("halved", "log($all);"), env=env), "offset = whole+0x")
        good(compile_text(handler("whole+3", "log(1);"), env=env), "offset = whole+0x3")
        # Two functions have the name, which does not tell where this is.
        good(compile_text(handler("other.c:7", "log($n);"), env=env), "offset = 0x")


def of_one_build(work, debug_file):
    """One command takes lines from the debug file, and its program is for that build alone."""
    program = os.path.join(work, "lines.dpc")
    with open(program, "w") as f:
        f.write(handler("fake.c:9", "log($sum, $p->flags);"))
    r = subprocess.run([DPROBES, "build", "lines.dpc", "-s", debug_file], cwd=work, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    build_id = re.search(r"Build ID: (\w+)", subprocess.run(["readelf", "-n", debug_file], stdout=subprocess.PIPE,
                                                            text=True).stdout).group(1)
    assert r.returncode == 0 and "1 probe for build " + build_id in r.stdout, r.stdout
    with open(os.path.join(work, "words.rpn"), "w") as f:
        f.write("name = vmlinux\nmodtype = kernel\noffset = work\n\texit\n")
    r = subprocess.run([DPROBES, "build", "words.rpn", "-s", debug_file], cwd=work, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    assert r.returncode == 1 and "E-RPN-WORLD" in r.stdout, r.stdout


run()
