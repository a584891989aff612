#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What probes cost real programs: redis, a Go HTTP server, python3, sqlite3 and postgres do the same work unprobed,
with one function, some, and all functions of the program probed by dprobes, and the same functions by bpftrace (the
kernel's uprobes), in turn.

For each the processor time that the program needs for a piece of work (a request, a pass, a transaction) is compared
with the unprobed one of the same round: the median of these ratios, and how many hits that were. A program or a rival
that is missing is named.

Usage: bench-apps.py [-r ROUNDS] [-a PART-OF-NAME] [-j FILE] BUILD_DIR"""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds until probes are in place
SLOW = 20  # a contender whose turn takes longer, in seconds, takes no further one


class Missing(Exception):
    """What the machine lacks."""


def need(program):
    path = shutil.which(program)
    if not path:
        raise Missing("%s is not installed" % program)
    return path


def processor_ns(pid):
    """Processor time in ns of the threads of a process that run now."""
    total = 0
    for path in glob.glob("/proc/%d/task/*/schedstat" % pid):
        try:
            with open(path) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return total


class App:
    """A program under load. one, some: functions that are probed, as patterns; unit: what a piece of work is called."""
    unit, argument = "request", "$arg1"

    def __init__(self, work, build):
        self.work, self.build, self.p = work, build, None
        self.start()

    def selection(self):
        return ["-p", str(self.p.pid)]

    def file(self):
        """The file of the module that is probed."""
        pid = self.selection()[-1]
        with open("/proc/%s/maps" % pid) as maps:
            library = re.search(r"(/\S*/%s\S*)$" % self.module, maps.read(), re.M)
        return library.group(1) if library else os.readlink("/proc/%s/exe" % pid)

    def processor(self):
        return processor_ns(self.p.pid)

    def stop(self):
        if self.p:
            self.p.terminate()
            self.p.wait()


class Redis(App):
    name, module, one, some = "redis-server", "exe", "processCommand", "*Command"

    def start(self):
        need("redis-benchmark")
        self.socket = os.path.join(self.work, "redis")
        self.p = subprocess.Popen([need("redis-server"), "--port", "0", "--unixsocket", self.socket, "--save", "",
                                   "--daemonize", "no", "--dir", self.work], stdout=subprocess.DEVNULL)
        wait_for(lambda: os.path.exists(self.socket))

    def do(self):
        subprocess.run(["redis-benchmark", "-s", self.socket, "-c", "20", "-n", "30000", "-t", "set,get,lpush",
                        "--csv"], check=True, stdout=subprocess.DEVNULL)
        return 90000


class Go(App):
    name, module, one, some = "Go HTTP server", "exe", "main.handle", "net/http.*"
    argument = "%ax"  # where Go has the first one

    def start(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "served.go")
        self.program, self.socket = os.path.join(self.work, "served"), os.path.join(self.work, "http")
        subprocess.run([need("go"), "build", "-o", self.program, source], check=True,
                       env=dict(os.environ, GOCACHE=os.path.join(self.work, "cache"), GO111MODULE="off"))
        self.p = subprocess.Popen([self.program, "serve", self.socket])
        wait_for(lambda: os.path.exists(self.socket))

    def do(self):
        subprocess.run([self.program, "load", self.socket, "8000"], check=True)
        return 8000


class Piped(App):
    """A program that takes work from its standard input and prints a line when it is done."""
    unit = "pass"

    def ask(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline()

    def begin(self, *argv):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Python(Piped):
    name, module, one, some = "python3", "exe", "_PyEval_EvalFrameDefault", "PyObject_*"
    source = """
import json, re, sys
words = re.compile(r'[a-z]+')
for line in sys.stdin:
    data = {'key%d' % i: [i, str(i), {'half': i / 2}] for i in range(3000)}
    text = json.dumps(data, indent=1)
    found = sorted(words.findall(text), reverse=True)
    print(len(json.loads(text)) + len(found), flush=True)
"""

    def start(self):
        self.begin(need("/usr/bin/python3"), "-c", self.source)  # where functions are in the program

    def do(self):
        for _ in range(10):
            self.ask("go")
        return 10


class Sqlite(Piped):
    name, module, one, some = "sqlite3", "libsqlite3", "sqlite3_step", "sqlite3_*"
    query = ("DELETE FROM t; INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
             "WHERE i < 20000) SELECT i, 'row ' || i FROM n; SELECT count(*), max(b) FROM t WHERE a % 7 = 3;")

    def start(self):
        self.begin(need("sqlite3"), ":memory:")
        self.ask("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); SELECT 0;")

    def do(self):
        for _ in range(5):
            self.ask(self.query)
        return 5


class Postgres(App):
    name, module, one, some = "postgres", "exe", "PortalRun", "Exec*"
    unit = "transaction"

    def start(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))
        if not found:
            raise Missing("postgresql is not installed")
        self.bin, self.data = os.path.dirname(found[-1]), os.path.join(self.work, "postgres")
        os.mkdir(self.data)
        if os.getuid() == 0:
            shutil.chown(self.data, "postgres")
        self.run("initdb", "-D", self.data, "-A", "trust", "--no-sync")
        self.p = subprocess.Popen(self.command("postgres", "-D", self.data, "-k", self.data, "-c", "listen_addresses=",
                                               "-F"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pid_file = os.path.join(self.data, "postmaster.pid")
        wait_for(lambda: os.path.exists(pid_file) and "ready" in open(pid_file).read())
        self.pid = int(open(pid_file).readline())
        self.run("pgbench", "-h", self.data, "-U", "postgres", "-i", "-s", "1", "postgres")

    def command(self, program, *arguments):
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        return [*user, os.path.join(self.bin, program), *arguments]

    def run(self, *argv):
        subprocess.run(self.command(*argv), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def selection(self):
        return ["--tree", "-p", str(self.pid)]

    def processor(self):
        """Backends are children: their time is their parent's when they have ended (in ticks of 10 ms)."""
        with open("/proc/%d/stat" % self.pid) as f:
            ended = f.read().rsplit(")", 1)[1].split()[13:15]
        return sum(map(int, ended)) * 1000000000 // os.sysconf("SC_CLK_TCK")

    def do(self):
        before = self.processor()
        self.run("pgbench", "-h", self.data, "-U", "postgres", "-S", "-n", "-c", "2", "-t", "4000", "postgres")
        wait_for(lambda: self.processor() > before)
        time.sleep(0.3)  # the other backend, too
        return 8000


def wait_for(condition, patience=20):
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("no answer in %d s" % patience)
        time.sleep(0.02)


class Nobody:
    name, ours = "unprobed", True
    settles = False  # the first piece of work after it has come is not what is asked for

    def attach(self, app):
        pass

    def detach(self):
        return None


class Dprobes(Nobody):
    def __init__(self, name, which, command, event):
        self.name, self.which, self.command, self.event = name, which, command, event
        self.settles = "--budget" in command

    def attach(self, app):
        where = "%s:%s" % (app.module, {"one": app.one, "some": app.some, "all": "*"}[self.which])
        events = [e.format(where, app.argument) for e in self.event]
        self.p = subprocess.Popen([os.path.join(app.build, "src/cmd/dprobes"), *self.command, "-o", "/dev/null",
                                   *app.selection(), *events], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True)
        pid = app.selection()[-1]
        wait_for(lambda: self.p.poll() is not None or self.stands(app, pid), PATIENCE)
        if self.p.poll() is not None:
            raise Missing(self.p.communicate()[1].strip().split("\n")[0])

    @staticmethod
    def stands(app, pid):
        shown = subprocess.run([os.path.join(app.build, "src/cmd/dprobes"), "list", "-p", pid, "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return "address" in shown.stdout

    def detach(self):
        self.p.send_signal(signal.SIGINT)
        err = self.p.communicate()[1]
        rows = re.findall(r"^\S+ +(?:jump|trap|exits|call-through) +(\d+)|^(total) +(\d+)", err, re.M)
        return int(rows[-1][2] or rows[-1][0]) if rows else None


class Bpftrace(Nobody):
    ours = False

    def __init__(self, name, which, action):
        self.name, self.which, self.action = name, which, action

    def attach(self, app):
        self.out = os.path.join(app.work, "bpftrace")
        module = app.file()
        pattern = {"one": app.one, "some": app.some, "all": "*"}[self.which]
        only = [] if isinstance(app, Postgres) else ["-p", str(app.p.pid)]
        script = 'uprobe:%s:"%s" { %s } interval:ms:50 { printf("ready\\n"); }' % (module, pattern, self.action)
        with open(self.out, "w") as out:
            self.p = subprocess.Popen([need("bpftrace"), *only, "-e", script], stdout=out, stderr=subprocess.STDOUT,
                                      env=dict(os.environ, **{"BPFTRACE_MAX_" + what: "100000" for what in
                                                            ("PROBES", "BPF_PROGS", "MAP_KEYS")}))
        wait_for(lambda: self.p.poll() is not None or "ready" in self.said(), PATIENCE)
        if self.p.poll() is not None:
            raise Missing(self.said().strip().split("\n")[-1])

    def said(self):
        with open(self.out, errors="replace") as f:
            return f.read(1 << 20)

    def detach(self):
        self.p.send_signal(signal.SIGINT)
        self.p.wait()
        return None


def contenders():
    record, trace, counting = ("record",), ("trace",), "@[probe] = count();"
    printing = 'printf("%lu %d %lx\\n", nsecs, tid, arg0);'
    return [Nobody(),
            Dprobes("dprobes, 1 function recorded", "one", record, ["p {} {}"]),
            Bpftrace("bpftrace, 1 function printed", "one", printing),
            Dprobes("dprobes, some functions recorded", "some", record, ["p {} {}"]),
            Bpftrace("bpftrace, some functions printed", "some", printing),
            Dprobes("dprobes, some functions counted", "some", trace, ["p {} count by $ip"]),
            Bpftrace("bpftrace, some functions counted", "some", counting),
            Dprobes("dprobes, all functions counted", "all", trace, ["p {} count by $ip"]),
            Dprobes("dprobes, all functions recorded", "all", record, ["p {}"]),
            Dprobes("dprobes, all entries and exits recorded", "all", record, ["p {}", "r {}"]),
            Dprobes("dprobes, graph of all functions", "all", ("graph",), ["{}"]),
            Dprobes("dprobes, the same with a budget of 10 %", "all", ("graph", "--budget", "10%"), ["{}"])]


def measure(app):
    """Nanoseconds of processor time, and of time, for one piece of work; and how many pieces that were."""
    processor, begin = app.processor(), time.monotonic_ns()
    work = app.do()
    return (app.processor() - processor) / work, (time.monotonic_ns() - begin) / work, work


def rounds_of(app, n):
    """For each contender a row of what was seen."""
    rows = [{"app": app.name, "contender": c.name, "ours": c.ours, "unit": app.unit, "processor": [], "time": [],
             "hits": None, "skipped": None, "turn": 0, "by": c} for c in contenders()]
    app.do()  # what happens once only
    for k in range(n):
        for row in rows:
            if row["skipped"] or row["turn"] > SLOW:
                continue
            begin = time.monotonic()
            print("\r\033[K%s, round %d of %d, %s" % (app.name, k + 1, n, row["contender"]), end="", file=sys.stderr)
            try:
                row["by"].attach(app)
            except (Missing, RuntimeError) as e:
                row["skipped"] = str(e)
                continue
            if row["by"].settles:
                app.do()
            processor, elapsed, work = measure(app)
            row["hits"] = row["by"].detach() or row["hits"]
            row["work"] = work
            row["processor"].append(processor)
            row["time"].append(elapsed)
            row["turn"] = time.monotonic() - begin
    print("\r\033[K", end="", file=sys.stderr)
    return rows


def judged(rows):
    """Medians, against the unprobed turn of the same round."""
    base = {what: list(rows[0][what]) for what in ("processor", "time")}
    for row in rows:
        del row["by"]
        for what in base if row["processor"] else ():
            row[what + "_ratio"] = statistics.median(v / b for v, b in zip(row[what], base[what]))
            row[what] = statistics.median(row[what])
    return rows


def show(rows):
    print("\n### %s\n\n| %-40s | us of processor a %-11s | ratio | ratio of times | hits of the last turn |" %
          (rows[0]["app"], "", rows[0]["unit"]))
    print("|---|--:|--:|--:|--:|")
    for row in rows:
        if row["skipped"]:
            print("| %-40s | skipped: %s" % (row["contender"], row["skipped"]))
        else:
            print("| %-40s | %29.2f | %5.2f | %14.2f | %21s |" % (
                row["contender"], row["processor"] / 1000, row["processor_ratio"], row["time_ratio"],
                "" if row["hits"] is None else row["hits"]))


EXPECTED = {"dprobes, 1 function recorded": 1.02, "dprobes, all functions recorded": 2}  # times the processor time


def judge(rows):
    """What is expected of some, and why it is not met where it is not."""
    print("\n| expected of %-40s | measured | expected | |\n|---|--:|---|---|" % rows[0]["app"])
    for row in rows:
        most = EXPECTED.get(row["contender"])
        if not most or row["skipped"]:
            continue
        hits = (row["hits"] or 0) / row["work"]  # for a piece of work
        met, why = row["processor_ratio"] <= most, ""
        if not met and hits:
            why = ": %.0f hits a %s, one for each %.0f ns unprobed" % (hits, row["unit"], rows[0]["processor"] / hits)
        print("| %-52s | %5.2f times | at most %s | %s%s |" % (
            row["contender"], row["processor_ratio"], most, "met" if met else "NOT MET", why))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-r", dest="rounds", type=int, default=3)
    parser.add_argument("-a", dest="app", default="")
    parser.add_argument("-j", dest="json")
    parser.add_argument("build")
    opt = parser.parse_args()
    everything = []
    print("## Programs under load")
    for kind in (Redis, Go, Python, Sqlite, Postgres):
        if opt.app.lower() not in kind.name.lower():
            continue
        app = None
        with tempfile.TemporaryDirectory() as work:
            os.chmod(work, 0o755)
            try:
                app = kind(work, opt.build)
                rows = judged(rounds_of(app, opt.rounds))
                show(rows)
                judge(rows)
                everything += rows
            except Missing as e:
                print("\n### %s\n\nskipped: %s" % (kind.name, e))
            finally:
                if app:
                    app.stop()
    if opt.json:
        with open(opt.json, "w") as f:
            json.dump(everything, f, indent=1)


if __name__ == "__main__":
    main()
