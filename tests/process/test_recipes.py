# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The recipes of `dprobes run`, each on a program that does a known amount of what it looks at."""
import functools
import os
import re
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403
from real import Redis, clean, rows_of  # noqa: E402

PYTHON = "/usr/bin/python3"
# A script for redis that takes 60 ms.
SPIN = """local t = redis.call('TIME')
repeat local u = redis.call('TIME') until (u[1] - t[1]) * 1000000 + u[2] - t[2] > 60000"""
used = set()


def plain(key):
    """A part of a key: without offsets of code, a call chain as a tuple."""
    if isinstance(key, list):
        return tuple(plain(k) for k in key)
    return re.sub(r"\+0x[0-9a-f]+$", "", key) if isinstance(key, str) else key


class Result:
    """What a recipe has shown: tables merged over modules, {name: {key: (value, values)}}, events, and the summary."""

    def __init__(self, out, err):
        self.out, self.err = out, err
        self.tables, self.events = {}, []
        for o in json_lines(out):
            if "aggregate" not in o:
                self.events.append(o)
                continue
            t = self.tables.setdefault(o["aggregate"] if o["kind"] == "count" else
                                       o["kind"] + " " + o["aggregate"], {})
            assert not o.get("no_room"), o
            for e in o.get("entries", [dict(o, key=[])]):
                k = tuple(plain(x) for x in e["key"])
                value = sum(b["count"] for b in e["bars"]) if "bars" in e else e.get("value", 0)
                old = t.get(k, (0, 0))
                t[k] = (old[0] + (value or 0), old[1] + (e.get("values") or 0))

    def count(self, table, *key):
        return self.tables[table].get(key, (0, 0))[0]

    def values(self, table, *key):
        return self.tables[table].get(key, (0, 0))[1]

    def chains(self, table, function):
        """Sum of the values of call chains in which the function is, and how many there were."""
        rows = [v for k, v in self.tables[table].items() if any(function in c for c in k if isinstance(c, tuple))]
        return sum(v[0] for v in rows), sum(v[1] for v in rows)

    def args(self, **wanted):
        return [e["args"] for e in self.events if all(e["args"].get(k) == v for k, v in wanted.items())]


def recipe(name, *params, run, status=0, options=()):
    """Run a recipe on a command to its end."""
    used.add(name)
    r = dprobes("run", name, "--json", *options, *params, "--", *run)
    assert r.returncode == status, (name, r.returncode, r.stderr[-3000:])
    return Result(r.stdout, r.stderr)


def known(mode, name, *params, more=(), **kw):
    return recipe(name, *params, run=[target("known"), mode, *more], **kw)


class Live:
    """A recipe on a program that runs, while the block does something."""

    def __init__(self, name, pid, *params):
        used.add(name)
        self.out, self.err = (tempfile.NamedTemporaryFile("w+", delete=False) for _ in range(2))
        self.pid = pid
        self.t = start([DPROBES, "run", name, "--json", "-p", str(pid), *params], stdout=self.out, stderr=self.err)

        def look():
            assert self.t.poll() is None, text_of(self.err.name)
            return bool(in_place(pid))
        wait_for(look, what="probes")

    def __enter__(self):
        return self

    def __exit__(self, *why):
        status = stop(self.t, signal.SIGINT)
        self.r = Result(text_of(self.out.name), text_of(self.err.name))
        assert why[0] or status == 0, self.r.err


def needs(*paths):
    def wrap(fn):
        @functools.wraps(fn)
        def wrapped():
            need(*paths)
            fn()
        return test(wrapped)
    return wrap


@test
def functions():
    """any function: how often, who calls, what it returns, how long"""
    rows = rows_of(known("memory", "function-count", "function=exe:l*", options=["--skip-refused"]).err)
    assert rows["leaky"]["hits"] == 300 and rows["large"]["hits"] == 4, rows
    r = known("memory", "function-results", "function=exe:answer")
    assert sorted(v[0] for v in list(r.tables.values())[0].values()) == [2, 2, 2], r.out
    r = known("memory", "function-time", "function=exe:tidy")
    assert r.count("tidy") == 1000 and r.values("sum tidy_duration") == 1000 == r.count("hist tidy_duration"), r.out
    r = known("memory", "function-callers", "function=exe:answer", "depth=2")
    assert r.tables["answer"] == {(("answer", "main"),): (6, 0)}, r.out
    r = known("rest", "function-slow", "function=libc:nanosleep", "min=15ms", status=7)
    assert len(r.events) == 3 and min(a["duration"] for a in r.args()) >= 15000000, r.out


@test
def allocations():
    """malloc: by caller, sizes, large ones, failures, times, what is left; mmap"""
    r = known("memory", "malloc-callers", "depth=2")
    assert r.chains("sum bytes", "leaky") == (30000, 300), r.out
    assert r.chains("sum bytes", "tidy") == (50000, 1000), r.out
    r = known("memory", "malloc-sizes")
    assert r.count("malloc") == 1306 == r.count("hist bytes"), r.out
    r = known("memory", "malloc-large", "min=3000000")
    assert len(r.args(bytes=3 << 20)) == 4 and len(r.events) == 6, r.out
    assert all(e["args"]["from"][1].startswith(("large", "main", "memory")) for e in r.events), r.out
    r = known("memory", "malloc-failed")
    assert len(r.events) == 2 and len(r.args(bytes=1 << 62)) == 2, r.out
    r = known("memory", "malloc-time")
    assert r.count("malloc") == 1306 == r.count("hist malloc_duration"), r.out
    assert r.count("free") == r.count("hist free_duration") >= 1004, r.out
    r = known("memory", "malloc-leaks")
    assert r.chains("sum outstanding", "leaky") == (30000, 300) and r.chains("sum outstanding", "tidy") == (0, 0), r.out
    assert r.chains("sum outstanding", "large") == (0, 0) and list(r.tables) == ["sum outstanding"], r.out
    r = known("blocks", "malloc-leaks")  # calloc, realloc, posix_memalign, free by another thread
    for who, bytes_left, left in (("zeroed", 300, 5), ("grown", 5000, 5), ("shrunk", 35, 5), ("aligned", 640, 5),
                                  ("small", 0, 0), ("of_nothing", 0, 0), ("elsewhere", 0, 0)):
        rows = [v for k, v in r.tables["sum outstanding"].items() if who in k[0][1:2]]  # who called the allocator
        assert [sum(v[0] for v in rows), sum(v[1] for v in rows)] == [bytes_left, left], (who, r.out)
    r = dprobes("run", "malloc-leaks", "blocks=50", "--", target("known"), "memory", check=0)
    assert "no room" in r.stdout and "last  live" in r.stdout, r.stdout
    r = known("memory", "mmap-callers")
    assert sum(v[0] == 12345 * v[1] and v[1] for v in r.tables["sum bytes"].values()) == 5, r.out


@needs("/usr/bin/redis-server")
def other_allocator():
    """malloc-callers and malloc-sizes of a program with jemalloc see that one's calls"""
    r = recipe("malloc-sizes", run=["/usr/bin/redis-server", "--version"])
    if "jemalloc" not in r.out:
        raise Skip("this redis-server has no jemalloc")
    assert r.count("malloc") > 100 and r.count("malloc") == r.count("hist bytes"), r.out


@test
def contention():
    """locks: futex calls, mutexes, condition variables"""
    r = known("locks", "futex-wait")
    wakes = {k: v for k, v in r.tables["futex"].items() if k[0].startswith("FUTEX_WAKE|")}
    assert sum(v[0] for v in wakes.values()) >= 30, r.out
    assert {k: v[0] for k, v in r.tables["futex"].items()}.keys() == r.tables["sum futex_duration"].keys(), r.out
    assert r.chains("sum futex_duration", "locks")[1] == 0, r.out
    r = known("locks", "futex-callers")
    assert r.chains("sum futex_duration", "main")[1] >= 30, r.out
    r = known("locks", "mutex-wait")
    assert 500 in [v[1] for v in r.tables["sum pthread_mutex_lock_duration"].values()], r.out
    r = known("locks", "mutex-callers")
    assert r.values("sum pthread_mutex_lock_duration", "locked") == 500, r.out
    r = known("locks", "mutex-callers", "min=100s")
    assert not r.tables["sum pthread_mutex_lock_duration"], r.out
    r = known("locks", "cond-wait")
    assert r.values("sum pthread_cond_wait_duration", "wait_for_zero") >= 5, r.out


@test
def blocked():
    """time in calls that block, by call and by call chain; sleeps, waiting for events"""
    r = known("rest", "offcpu", "min=15ms", status=7)
    assert r.values("sum hits_duration", "poll") == 4 and r.values("sum hits_duration", "clock_nanosleep") == 3, r.out
    r = known("rest", "offcpu-callers", "min=15ms", status=7)
    assert r.chains("sum hits_duration", "poll")[1] == 4, r.out
    r = known("rest", "sleeps", status=7)
    assert len(r.events) == 3, r.out
    r = known("rest", "poll-wait", status=7)
    assert r.values("sum poll_duration", "poll") == 4, r.out


@test
def system_calls():
    """system calls: counts, times, slow ones, failures"""
    with tempfile.TemporaryDirectory() as d:
        r = known("files", "syscall-count", more=[d])
        assert r.count("hits", "write") == 20 and r.count("hits", "fsync") == 2, r.out
        r = known("files", "syscall-time", "top=40", more=[d])
        assert r.values("sum hits_duration", "write") == 20 and r.values("sum hits_duration", "read") == 25, r.out
        r = known("files", "syscall-errors", more=[d])
        assert r.count("hits", "openat", "ENOENT") == 7, r.out
    r = known("rest", "syscall-slow", "min=15ms", status=7)
    assert len(r.args(call="poll")) == 4 and len(r.args(call="clock_nanosleep")) == 3, r.out


@test
def files():
    """files: opened, missing, latency, bytes, syncs, changes, looked at"""
    with tempfile.TemporaryDirectory() as d:
        r = known("files", "file-opens", "path=/dev/nul?", more=[d])
        assert len(r.events) == 9 == len(r.args(path="/dev/null")), r.out
        r = known("files", "file-missing", more=[d])
        assert len(r.args(path="/nonexistent/dp-known", error="ENOENT")) == 7 == len(r.events), r.out
        r = known("files", "file-latency", more=[d])
        assert r.count("hist read_duration", "read") == 25, r.out
        assert r.count("hist write_duration", "write") == 20, r.out
        r = known("files", "file-bytes", more=[d])
        assert r.tables["sum read_bytes"] == {(77,): (1000, 25)}, r.out
        assert r.tables["sum written_bytes"] == {(77,): (2000, 20)}, r.out
        r = known("files", "file-syncs", more=[d])
        assert sorted(e["event"] for e in r.events) == ["fdatasync", "fsync", "fsync"], r.out
        one, two = os.path.join(d, "one"), os.path.join(d, "two")
        r = known("files", "file-changes", more=[d])
        assert r.tables["rename"] == {(one,): (1, 0)} and r.tables["unlink"] == {(two,): (1, 0)}, r.out
        assert r.tables["mkdir"] == {(one,): (1, 0)} == r.tables["rmdir"], r.out
        r = known("files", "file-stats", more=[d])
        assert r.count("newfstatat", one) == 6, r.out


@test
def network():
    """sockets: bytes, latency, connections made and accepted; names looked up"""
    r = known("net", "socket-bytes")
    assert sum(v[0] for v in r.tables["sum received_bytes"].values()) == 2000, r.out
    assert sum(v[0] for v in r.tables["sum sent_bytes"].values()) == 2000, r.out
    r = known("net", "socket-latency")
    assert r.count("hist recv_duration", "recvfrom") == 40 == r.count("hist send_duration", "sendto"), r.out
    r = known("net", "socket-connects")
    assert len(r.args(ret=0)) == 4 == len(r.events), r.out
    r = known("net", "socket-accepts")
    assert [v[0] for t in ("accept", "accept4") for v in r.tables[t].values()] == [4], r.out
    r = known("net", "dns")
    assert len(r.args(name="127.0.0.9")) == 5 == len(r.events), r.out


@test
def programs():
    """signals, handlers, processes, threads, programs, exits, environment, libraries"""
    r = known("rest", "signals-sent", status=7)
    assert [(k[1], v[0]) for k, v in r.tables["kill"].items()] in ([("SIGUSR1", 6)], [(10, 6)]), r.out
    r = known("rest", "signal-handlers", status=7)
    assert r.count("rt_sigaction", "SIGUSR1") == 1 == r.count("rt_sigaction", "SIGUSR2"), r.out
    r = known("rest", "processes", status=7)
    assert sum(v[0] for t in r.tables.values() for v in t.values()) == 5, r.out
    r = known("rest", "threads", status=7)
    assert r.tables["pthread_create"] == {("nothing",): (3, 0)}, r.out
    r = known("rest", "exits", status=7)
    assert len(r.args(status=7)) == 1 == len(r.events), r.out
    r = known("rest", "getenv", status=7)
    assert r.count("getenv", "DP_KNOWN") == 9, r.out
    r = known("rest", "dlopen", status=7)
    assert len(r.args(path="libdp-known.so")) == 2 == len(r.events), r.out
    r = recipe("execs", options=["--tree"], run=["/bin/sh", "-c", "/bin/true; /bin/false; /bin/true; :"])
    assert [a["path"] for a in r.args()] == ["/bin/true", "/bin/false", "/bin/true"], r.out


@needs(PYTHON)
def python():
    """Python: calls, collections, imports, against what the program itself counts"""
    probe = dprobes("funcs", PYTHON, "u *")
    if "function__return" not in probe.stdout:
        raise Skip("%s has no static probes" % PYTHON)
    r = recipe("python-calls", "top=1000", run=[PYTHON, "-c", "def dp_f(): pass\nfor i in range(123): dp_f()"])
    assert r.count("function__return", "<string>", "dp_f") == 123, r.out
    code = "import gc\ngc.disable()\nfor i in range(17): gc.collect()"
    base = recipe("python-gc", run=[PYTHON, "-c", "import gc\ngc.disable()"]).count("collections")
    r = recipe("python-gc", run=[PYTHON, "-c", code])
    assert r.count("collections") == base + 17 == r.count("hist pause"), (base, r.out)
    r = recipe("python-imports", run=[PYTHON, "-c", "import colorsys"])
    assert len(r.args(name="colorsys")) == 1, r.out


@needs("/usr/bin/sqlite3")
def sqlite():
    """SQLite: statements, and steps by result"""
    sql = "select 1; select 2 union all select 3; create table t(x);"
    r = recipe("sqlite-queries", run=["/usr/bin/sqlite3", ":memory:", sql])
    assert len([a for a in r.args() if a["sql"].strip().startswith(("select", "create"))]) == 3, r.out
    r = recipe("sqlite-steps", run=["/usr/bin/sqlite3", ":memory:", sql])
    # The shell makes a statement of its own before `create`, or does not.
    assert 3 <= r.count("sqlite3_step", 100) <= 6 and r.count("sqlite3_step", 101) >= 3, r.out


@needs("/usr/bin/openssl")
def openssl():
    """OpenSSL: bytes hashed; the sessions of a program and their plaintext"""
    with tempfile.TemporaryDirectory() as d:
        data, key = os.path.join(d, "data"), os.path.join(d, "key")
        with open(data, "wb") as f:
            f.write(bytes(100000))
        r = recipe("openssl-digests", run=["/usr/bin/openssl", "sha256", data])
        assert r.count("sum bytes") == 100000, r.out
        subprocess.run(["/usr/bin/openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                        key + ".crt", "-subj", "/CN=dp"], check=True, capture_output=True)
        code = "import ssl, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n" + """
import socket, ssl, threading
a, b = socket.socketpair()
s = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); s.load_cert_chain(%r, %r)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE
def serve():
    with s.wrap_socket(a, server_side=True) as t:
        n = 0
        while n < 70000: n += len(t.recv(65536))
        t.sendall(bytes(123))
t = threading.Thread(target=serve); t.start()
w = c.wrap_socket(b)
for i in range(70): w.sendall(bytes(1000))
n = 0
while n < 123: n += len(w.recv(1000))
t.join()
""" % (key + ".crt", key)
        # The library comes with an extension module, after the start: Python waits for the probes.
        for name in ("tls-sizes", "tls-sessions"):
            p = start([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert p.stdout.readline() == "ready\n"
            with Live(name, p.pid) as t:
                p.stdin.write("\n")
                p.stdin.flush()
                assert p.wait(60) == 0
                wait_for(lambda: t.t.poll() is not None, what="the trace's end")
            r = t.r
            if name == "tls-sessions":
                assert r.count("SSL_new") == 2 == r.count("SSL_do_handshake") == r.count("SSL_free"), r.out
                continue
            total = {w: sum(v[0] for k, t in r.tables.items() if k.startswith("sum SSL_" + w) for v in t.values())
                     for w in ("read", "write")}
            assert total == {"read": 70123, "write": 70123}, (total, r.out)


@needs("/usr/bin/redis-server")
def redis():
    """redis: commands, slow ones"""
    r = Redis("/usr/bin/redis-server")
    with Live("redis-commands", r.p.pid) as t:
        for i in range(50):
            r("SET", "k", i)
    assert t.r.count("call") == 50 == t.r.count("hist call_duration"), t.r.out
    with Live("redis-slow", r.p.pid, "min=40ms") as t:
        r("SET", "k", 1)
        r("EVAL", SPIN, 0)
    # A busy machine may make others slow as well.
    assert t.r.events and max(a["duration"] for a in t.r.args()) > 40000000, t.r.out
    r.end()


@test
def go():
    """Go: collections and pauses, allocations, goroutines"""
    compiler, = need("go")
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "known.go"), "w") as f:
            f.write("""package main
import "runtime"
var kept [][]byte
//go:noinline
func allocate() { kept = append(kept, make([]byte, 5000)) }
//go:noinline
func begin(c chan int) { go func() { c <- 1 }() }
func main() {
	c := make(chan int)
	for i := 0; i < 40; i++ { begin(c); <-c }
	for i := 0; i < 100; i++ { allocate() }
	for i := 0; i < 9; i++ { runtime.GC() }
}
""")
        exe = os.path.join(d, "known")
        subprocess.run([compiler, "build", "-o", exe, "known.go"], cwd=d, check=True,
                       env=dict(os.environ, GOCACHE=os.path.join(d, "cache"), GO111MODULE="off", HOME=d))
        env = dict(os.environ)
        os.environ["GOGC"] = "off"
        try:
            r = recipe("go-gc", run=[exe])
            assert r.count("runtime_gcStart") == 9 and r.count("stops") >= 18, r.out
            assert r.count("hist pause") == r.count("stops"), r.out
            r = recipe("go-allocs", run=[exe])
            bytes_, n = r.chains("sum runtime_mallocgc_ax", "main.allocate")
            assert bytes_ >= 500000 and n >= 100, r.out
            r = recipe("go-goroutines", run=[exe])
            assert r.chains("runtime_newproc", "main.begin")[0] == 40, r.out
        finally:
            os.environ.clear()
            os.environ.update(env)


@test
def node():
    """Node: collections"""
    exe, = need("node")
    if "jump" not in dprobes("funcs", exe, "*Heap::CollectGarbage(v8*").stdout:
        raise Skip("this node has no symbols")
    r = recipe("node-gc", run=[exe, "--expose-gc", "-e", "for (let i = 0; i < 7; i++) gc()"])
    table = next(t for k, t in r.tables.items() if not k.startswith("hist "))
    assert table[()][0] >= 7, r.out


@test
def cxx():
    """C++: exceptions, by who throws them"""
    with tempfile.TemporaryDirectory() as d:
        exe = compiled(d, "t", "__attribute__((noinline)) void thrower(int i) { throw i; }\n"
                       "int main() { for (int i = 0; i < 77; i++) try { thrower(i); } catch (int) { } }\n",
                       "-O1", compiler="g++")
        r = recipe("exceptions", run=[exe])
        assert [v[0] for v in list(r.tables.values())[0].values()] == [77], r.out


@needs("/usr/sbin/nginx")
def nginx():
    """nginx: requests, by status, and slow ones"""
    d = tempfile.mkdtemp(prefix="dp-nginx-")
    with open(os.path.join(d, "conf"), "w") as f:
        f.write("daemon off; master_process off; pid %s/pid; error_log %s/err; events {} http { access_log off; "
                "client_body_temp_path %s/a; proxy_temp_path %s/b; fastcgi_temp_path %s/c; uwsgi_temp_path %s/d; "
                "scgi_temp_path %s/e; server { listen unix:%s/s; root %s; } }" % ((d,) * 9))
    with open(os.path.join(d, "page"), "w") as f:
        f.write("hello")
    p = start(["/usr/sbin/nginx", "-c", os.path.join(d, "conf"), "-p", d])
    wait_for(lambda: os.path.exists(os.path.join(d, "s")) or p.poll() is not None, what="nginx")

    def get(path):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(d, "s"))
            s.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path)
            return b"".join(iter(lambda: s.recv(65536), b""))

    get(b"/page")
    with Live("nginx-requests", p.pid) as t:
        for i in range(30):
            assert get(b"/page").endswith(b"hello")
        for i in range(5):
            assert b"404" in get(b"/none")
    assert t.r.count("ngx_http_process_request") == 35, t.r.out
    assert t.r.tables["ngx_http_finalize_request"], t.r.out
    with Live("nginx-slow", p.pid, "min=0ns") as t:
        for i in range(30):
            get(b"/page")
    assert len(t.r.events) == 30, t.r.out
    clean(p)
    stop(p)


def postgres_programs():
    base = "/usr/lib/postgresql"
    for version in sorted(os.listdir(base), reverse=True) if os.path.isdir(base) else []:
        d = os.path.join(base, version, "bin")
        if os.path.exists(os.path.join(d, "initdb")):
            return d
    raise Skip("postgresql is not installed")


@test
def postgres():
    """Postgres: queries, pages, locks, in a server of one process"""
    d = postgres_programs()
    exe = os.path.join(d, "postgres")
    if "query__start" not in dprobes("funcs", exe, "u *").stdout:
        raise Skip("%s has no static probes" % exe)
    where = tempfile.mkdtemp(prefix="dp-postgres-")
    as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(where, "nobody", "nogroup")
    data = os.path.join(where, "data")
    subprocess.run(as_user + [os.path.join(d, "initdb"), "-D", data, "-A", "trust", "-N", "-U", "dp"], check=True,
                   capture_output=True, cwd=where)
    server = start(as_user + [exe, "-D", data, "-k", where, "-c", "listen_addresses=", "-c", "fsync=off", "-c",
                              "shared_buffers=128kB", "-c", "autovacuum=off"], cwd=where)
    try:
        wait_for(lambda: os.path.exists(os.path.join(where, ".s.PGSQL.5432")), what="postgres")
        wait_for(lambda: subprocess.run(["psql", "-h", where, "-U", "dp", "-c", "select 1", "postgres"],
                                        capture_output=True).returncode == 0, what="postgres")
        sessions = [start(["psql", "-h", where, "-U", "dp", "-qAt", "postgres"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) for _ in range(2)]

        def send(sql, n=0):
            sessions[n].stdin.write(sql + ";\n")
            sessions[n].stdin.flush()

        def ask(sql, n=0):
            send(sql, n)
            return sessions[n].stdout.readline().strip()

        pid = int(ask("select pg_backend_pid()"))
        with Live("postgres-queries", pid) as t:
            for i in range(8):
                assert ask("select %d" % (i + 40)) == str(i + 40)
        assert [a["query"] for a in t.r.args()] == ["select %d;" % (i + 40) for i in range(8)], t.r.out
        send("create table dp as select generate_series(1, 100000) as x")
        send("checkpoint")
        # Of the pages of the table, 16 may be in the server's memory.
        node, pages = map(int, ask("select pg_relation_filenode('dp') || ' ' || pg_relation_size('dp') / 8192").split())
        with Live("postgres-io", pid) as t:
            assert ask("select count(*) from dp") == "100000"
        assert pages > 100 and pages - 16 <= t.r.count("smgr__md__read__start", node) <= pages, (node, pages, t.r.out)
        with Live("postgres-locks", pid) as t:
            assert ask("begin; lock table dp; select 'locked'", 1) == "locked"
            send("select count(*) from dp")
            wait_for(lambda: ask("select count(*) from pg_locks where not granted", 1) == "1", what="the lock")
            send("commit", 1)
            assert sessions[0].stdout.readline() == "100000\n"
        assert [v[0] for v in t.r.tables["lock__wait__start"].values()] == [1], t.r.out
        for p in sessions:
            p.stdin.close()
            p.wait(30)
    finally:
        stop(server, signal.SIGINT)
        shutil.rmtree(where, ignore_errors=True)


@test
def java():
    """Java: collections, against the program's own number of calls"""
    run, compiler = need("java", "javac")
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "G.java"), "w") as f:
            f.write("public class G { public static void main(String[] a) throws Exception {\n"
                    "System.out.println(\"ready\"); System.in.read();\n"
                    "for (int i = 0; i < 6; i++) System.gc(); System.out.println(\"done\"); System.in.read(); } }\n")
        subprocess.run([compiler, "G.java"], cwd=d, check=True, capture_output=True)
        p = start([run, "-XX:+UseSerialGC", "-cp", d, "G"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == "ready\n"
        with Live("java-gc", p.pid) as t:
            p.stdin.write("\n")
            p.stdin.flush()
            assert p.stdout.readline() == "done\n"
        assert t.r.count("collections") == 6 == t.r.count("hist pause"), t.r.out
        p.stdin.close()
        p.wait(60)


@test
def all_of_them():
    """each recipe has been run by one of the tests above, has a title that fits, and an example that names it"""
    listed = [line.split()[0] for line in dprobes("run", check=0).stdout.splitlines()]
    assert len(listed) >= 40 and listed == sorted(listed), listed
    if not os.environ.get("DP_ONLY"):
        skipped = {"redis-commands", "redis-slow", "postgres-queries", "postgres-io", "postgres-locks",
                   "openssl-digests", "tls-sessions", "tls-sizes", "sqlite-queries", "sqlite-steps", "python-calls",
                   "python-gc", "python-imports", "java-gc",
                   "node-gc", "exceptions", "go-gc", "go-allocs", "go-goroutines", "nginx-requests", "nginx-slow"}
        assert set(listed) - used <= skipped, set(listed) - used
    for line in dprobes("run").stdout.splitlines():
        assert len(line) <= 80, line
    for name in listed:
        shown = dprobes("run", name, "--show", check=0).stdout
        assert "# example: dprobes run %s" % name in shown and "# title: " in shown, shown
        known = {"function", *re.findall(r"^let (\w+)", shown, re.M)}
        assert "# dprobes trace" in shown and set(re.findall(r"{{(.*?)}}", shown)) <= known, shown


if __name__ == "__main__":
    run()
