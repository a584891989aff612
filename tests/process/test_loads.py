# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Memory that hits load from is taken away by other threads, in every way: nobody dies of it, with SIGSEGV blocked."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

SECONDS = float(os.environ.get("DP_SECONDS", "0.7"))
# Neither ever holds. The second is compiled to code that loads by itself.
EVENTS = ["p look a=+0(%di):u64 s=+8(%di):string if +16(%di):u64 == 1",
          "p look_again a=+0(%di):u64 b=+24(%di):u32 if +16(%di):u64 == 1"]
MODES = ["unmap", "protect", "move", "shrink", "raw", "call"]


class Vanishing:
    """The program with a trace that reads from what vanishes."""

    def __init__(self, *modes, options=()):
        self.p = start([target("vanish"), *modes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.p.stdout.readline() == "ready\n"
        self.arm(*options)

    def arm(self, *options):
        left = our_mappings(self.p.pid)  # by one that was killed
        self.trace = trace_start("-p", self.p.pid, *options, *EVENTS)
        wait_for(lambda: (our_mappings(self.p.pid) not in ([], left) and in_place(self.p.pid)) or
                 self.trace.poll() is not None, what="the probe")
        assert self.trace.poll() is None, text_of(self.trace.err_path)

    def run(self, seconds=SECONDS):
        time.sleep(seconds)
        assert self.p.poll() is None, "ended with status %s" % self.p.returncode

    def end(self):
        assert stop(self.trace, signal.SIGINT) == 0, text_of(self.trace.err_path)
        assert self.p.poll() is None, "ended with status %s" % self.p.returncode
        assert not code_differs(self.p.pid) and not our_mappings(self.p.pid)
        out, _ = self.p.communicate("", timeout=60)
        assert self.p.returncode == 0, self.p.returncode
        assert int(out) > 1000
        print("# %s reads" % out.strip())


@test
def taken_away():
    """unmapped, protected, moved, given back by brk, by any instruction that calls the system"""
    v = Vanishing(*MODES)
    v.run()
    v.end()


@test
def forked():
    """children that inherit the probes take away what they read themselves"""
    v = Vanishing("fork", "unmap")
    v.run()
    v.end()


@test
def by_handlers():
    """a signal handler unmaps what the hit that it interrupts was reading"""
    v = Vanishing("signal", "protect")
    v.run()
    v.end()


@test
def loaded():
    """a library is loaded: from then on nothing is loaded from, and the trace says so"""
    v = Vanishing("load", "shrink")
    v.run(0.2)
    v.p.send_signal(signal.SIGUSR1)
    wait_for(lambda: "libm" in text_of("/proc/%d/maps" % v.p.pid), what="the library")
    v.run()
    v.end()
    assert "up to a microsecond each: it has made a call" in text_of(v.trace.err_path), \
        text_of(v.trace.err_path)


@test
def killed():
    """dprobes is killed, and the next one takes the guards out, again and again"""
    v = Vanishing(*MODES)
    for _ in range(3):
        v.run(0.1)
        v.trace.kill()
        v.trace.wait()
        v.run(0.1)
        v.arm()
    v.end()


@test
def several_owners():
    """a second dprobes and a third load as the first does, whoever goes first"""
    v = Vanishing(*MODES)
    owners = [v.trace]
    for _ in range(2):
        v.arm()
        v.run(0.2)
        owners.append(v.trace)
    for t in owners[1], owners[0], owners[2]:
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        assert v.p.poll() is None, "ended with status %s" % v.p.returncode
        assert "is in no file" not in text_of(t.err_path), text_of(t.err_path)
    if any("stay mapped" in text_of(t.err_path) for t in owners):
        raise Skip("a thread was not seen outside of the code of one that left: too much else runs here")
    v.end()


@test
def strict():
    """by system calls only"""
    v = Vanishing("unmap", options=["--strict-reads"])
    v.run(0.1)
    v.end()


NGINX = "daemon off; master_process off; pid %s/pid; error_log stderr; events {} http { server { listen unix:%s/n; } }"
STOCK = {
    "redis-server": ["redis-server", "--port", "0", "--unixsocket", "%s/r", "--save", "", "--dir", "%s"],
    "nginx": ["nginx", "-p", "%s", "-g", "error_log stderr;", "-c", "%s/nginx.conf"],
    "python3": ["/usr/bin/python3", "-c", "input()"],
    "bash": ["bash", "-c", "read line"],
    "sqlite3": ["sqlite3"],
    "git": ["git", "--git-dir", "%s/.git", "cat-file", "--batch"],
    "openssl": ["openssl", "enc", "-base64"],
    "perl": ["perl", "-e", "<STDIN>"],
    "ruby": ["ruby", "--disable=gems", "-e", "gets"],
    "curl": ["curl", "-s", "-T", "-", "file://%s/uploaded"],
}
_told = {}  # by program: what its trace says


def is_there(name):
    return shutil.which(STOCK[name][0])


def trace_stock():
    """All that are installed, at once."""
    with tempfile.TemporaryDirectory(prefix="dp-stock-") as folder:
        with open(os.path.join(folder, "nginx.conf"), "w") as f:
            f.write(NGINX % (folder, folder))
        if is_there("git"):
            subprocess.run(["git", "init", "-q", folder], check=True)
        running = {name: start([word.replace("%s", folder) for word in argv], stdin=subprocess.PIPE)
                   for name, argv in STOCK.items() if is_there(name)}
        settled(lambda: [text_of("/proc/%d/maps" % p.pid) for p in running.values()])
        traces = {name: trace_start("-p", p.pid, "p libc:malloc word=+0(%di):u64") for name, p in running.items()}
        for name, t in traces.items():
            pid = running[name].pid
            wait_for(lambda: our_mappings(pid) and in_place(pid) or t.poll() is not None, what="the probe")
        for name, t in traces.items():
            status = stop(t, signal.SIGINT)
            _told[name] = text_of(t.err_path) if not status else "status %d: %s" % (status, text_of(t.err_path))
        for name, p in running.items():
            assert p.poll() is None and not code_differs(p.pid) and not our_mappings(p.pid), name
            stop(p)


def stock(name):
    def check():
        need(STOCK[name][0])
        if not _told:
            trace_stock()
        assert re.search(r"^1 probe,", _told[name], re.M) and "by system calls" not in _told[name], _told[name]
    check.__name__ = "stock_" + name.replace("-", "_")
    check.__doc__ = "%s as Debian has it gets guards" % name
    test(check)


for program in STOCK:
    stock(program)


# Between its functions is code that is called, which no symbol and no unwind rule describes.
UNKNOWN = r"""
#include <stdio.h>
__attribute__((noinline)) void named(const char *s) { __asm__ volatile("nopl 0(%%rax,%%rax)" :: "r"(s) : "memory"); }
__asm__(".text\n.Lcall: nop\nsyscall\nret");
void by_hand(void) { __asm__ volatile("call .Lcall"); }
int main(void) { char line[9]; while (fgets(line, 9, stdin)) named(line); return 0; }
"""


@test
def told():
    """where a call may stand that no function contains, its place is told"""
    with tempfile.TemporaryDirectory(prefix="dp-loads-") as folder:
        path = compiled(folder, "unknown", UNKNOWN, "-O1", "-w", "-fno-toplevel-reorder")
        p = start([path], stdin=subprocess.PIPE)
        t = trace_start("-p", p.pid, "p main:named s=+0(%di):string")
        wait_for(lambda: our_mappings(p.pid) and in_place(p.pid) or t.poll() is not None, what="the probe")
        assert stop(t, signal.SIGINT) == 0, text_of(t.err_path)
        found = re.search(r"up to a microsecond each: 0x([0-9a-f]+) in unknown may be a system call",
                          text_of(t.err_path))
        assert found, text_of(t.err_path)
        with open(path, "rb") as f:
            assert f.read()[int(found.group(1), 16):][:2] == b"\x0f\x05"
        p.stdin.close()
        assert p.wait(30) == 0


# For each line that comes in, a thread that waits in read() is cancelled: whether it has ended within ten seconds.
CANCELS = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static int fds[2];
__attribute__((noinline)) void named(const char *s) { asm volatile("nopl 0(%%rax,%%rax)" :: "r"(s) : "memory"); }
static void *wait_in_read(void *arg) { char c; return (void *)read(fds[0], &c, 1); }
int main(void)
{
	char line[100], *text = malloc(20);
	sprintf(text, "on the heap");
	if (pipe(fds))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		pthread_t t;
		struct timespec end;
		named(text);
		pthread_create(&t, NULL, wait_in_read, NULL);
		usleep(2000);
		pthread_cancel(t);
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += 10;
		puts(pthread_timedjoin_np(t, NULL, &end) ? "stuck" : "ended");
		fflush(stdout);
	}
	return 0;
}
"""


@test
def cancelled():
    """a thread that waits in a system call is cancelled while guards stand"""
    with tempfile.TemporaryDirectory(prefix="dp-loads-") as folder:
        path = compiled(folder, "cancels", CANCELS, "-D_GNU_SOURCE", "-O1", "-w", "-pthread")
        p = start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        t = trace_start("-p", p.pid, "p main:named s=+0(%di):string")
        wait_for(lambda: our_mappings(p.pid) and in_place(p.pid) or t.poll() is not None, what="the probe")
        cancel_threads(p)
        stop(t, signal.SIGINT)
        assert text_of(t.out_path).count('s="on the heap"') == 20, text_of(t.err_path)
        p.stdin.close()
        assert p.wait(30) == 0


run()
