# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The kernel's own tests of its kprobe events (from Debian's source package), run in one guest against the kernel's
files and against ours: the same verdicts. Those that are not run are listed with the reason. A group of
test_kernel.py."""
import glob
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

PART = "tools/testing/selftests/ftrace"
# Cases of test.d/kprobe and test.d/dynevent that are not run, and why.
OTHERS = {
    "kprobe/kprobe_args_string": "probes a function of tracefs that is called when an event is defined there",
    "kprobe/kprobe_args_user": "wants kernel addresses refused for user types; here the address tells which memory it "
                               "is",
    "kprobe/kprobe_syntax_errors": "expects limits that are wider here (names of 63 characters, deeper references), "
                                   "and the caret "
                                   "at the start of an argument rather than at what is wrong in it",
    "kprobe/kprobe_ftrace": "needs the function tracer in the same directory",
    "kprobe/kprobe_module": "needs a module of the kernel's samples",
    "kprobe/kprobe_multiprobe": "several probes to one event are not offered",
    "kprobe/uprobe_syntax_errors": "uprobe_events",
    "dynevent/add_remove_eprobe": "event probes",
    "dynevent/add_remove_synth": "synthetic events",
    "dynevent/clear_select_events": "synthetic events",
    "dynevent/eprobes_syntax_errors": "event probes",
    "dynevent/generic_clear_event": "synthetic events",
    "dynevent/test_duplicates": "event probes",
}


def selftests(build, release):
    """The directory with ftracetest, or a reason to skip: which cases are about what is here is known for one kernel,
    later ones have tests of what was added to those files since."""
    if not release.startswith("6.1."):
        return None, "which of its cases are to be run is known for Linux 6.1, and this is %s" % release
    if not shutil.which("apt-get"):
        return None, "apt-get is not installed"
    cache = os.path.join(os.environ.get("DP_KERNEL_CACHE") or os.path.join(build, "kernel-cache"), "selftests")
    found = os.path.join(cache, "ftrace")
    if os.path.isdir(found):
        return found, None
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        r = subprocess.run(["apt-get", "-q", "download", "linux-source-6.1"], cwd=work, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            return None, "the package linux-source-6.1 cannot be had"
        subprocess.run(["dpkg", "-x", glob.glob(work + "/*.deb")[0], work], check=True)
        with tarfile.open(glob.glob(work + "/usr/src/*.tar.xz")[0]) as tar:
            for member in tar:
                if "/" + PART + "/" in member.name:
                    tar.extract(member, work)
        shutil.move(glob.glob(work + "/*/" + PART)[0], found)
    return found, None


def cases(tests):
    found = sorted(glob.glob(tests + "/test.d/kprobe/*.tc") + glob.glob(tests + "/test.d/dynevent/*.tc"))
    names = [re.search(r"test\.d/(.*)\.tc$", path).group(1) for path in found]
    for name in names:
        if name in OTHERS:
            print("# %s is not run: %s" % (name, OTHERS[name]))
    return ["test.d/%s.tc" % name for name in names if name not in OTHERS]


def prepare(tests, wanted, work):
    """A copy that takes its directory from the environment, with the cases that are to run."""
    copy = os.path.join(work, "ftrace")
    shutil.copytree(tests, copy)
    with open(os.path.join(copy, "ftracetest")) as f:
        text = f.read()
    with open(os.path.join(copy, "ftracetest"), "w") as f:
        f.write(re.sub(r"(?m)^TRACING_DIR=.*", r'[ -n "$TRACING_DIR" ] || \g<0>', text))
    with open(os.path.join(copy, "cases"), "w") as f:
        f.write("\n".join(wanted))
    return copy


def compare(tests, boot, report):
    """boot(directories) runs the group in a guest and returns what it has printed; report(good, name, why) takes
    each verdict."""
    wanted = cases(tests)
    with tempfile.TemporaryDirectory() as work:
        lines = boot([prepare(tests, wanted, work)])
    verdicts = {"kernel": {}, "ours": {}}
    for line in lines:
        m = re.match(r"verdict: (kernel|ours): ([A-Z]+): (.*)", line)
        if m:
            verdicts[m.group(1)][m.group(3)] = m.group(2)
    report(len(verdicts["kernel"]) == len(wanted), "all cases were run", lines[-30:])
    for name, theirs in sorted(verdicts["kernel"].items()):
        ours = verdicts["ours"].get(name, "none")
        report(ours == theirs, "%s: %s" % (name, theirs), ["here: " + ours])
