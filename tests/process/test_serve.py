# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes serve`: metrics of inserted programs and of lines, as a strict reader of the formats and Prometheus take
them."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request

from obey import *  # noqa: F403

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
SOURCE = r"""
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) int query(long n, const char *name) 
{
	__asm__ volatile("nopl 8(%rax)"); /* the return has room for a jump behind it */
	return (int)n + (int)strlen(name);
}
__attribute__((noinline)) int behind(long n) { return (int)(n ^ n >> 3); }
int main(void)
{
	static const char *const names[] = {"alpha", "be\"ta\\", "gam\nma"};
	char line[64];
	long total = 0;

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (long i = 0; i < 300; i++)
			total += query(i % 100, names[i % 3]);
		total += behind(total);
		printf("%ld\n", total);
		fflush(stdout);
	}
	return 0;
}
"""


def shop():
    return Live(compiled(DIR, "queries", SOURCE, "-g", "-O2", "-falign-functions=64"))


# ---- a strict reader of OpenMetrics 1.0 ----

SUFFIXES = {"counter": ("_total", "_created"), "gauge": ("",), "info": ("_info",),
            "summary": ("", "_count", "_sum", "_created"), "histogram": ("_bucket", "_count", "_sum", "_created")}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        m = LABEL.match(text, at)
        assert m, ("labels", text, at)
        assert m.group(1) not in found, ("a label twice", text)
        found[m.group(1)] = re.sub(r'\\(["\\n])', lambda e: "\n" if e.group(1) == "n" else e.group(1), m.group(2))
        at = m.end()
    return found


def check_histogram(name, samples):
    """Buckets in ascending order, cumulative, with +Inf, which is the count; no sum where a bucket is negative."""
    groups = {}
    for sample, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        groups.setdefault(key, []).append((sample, labels.get("le"), value))
    for key, found in groups.items():
        buckets = [(float(le), value) for sample, le, value in found if sample == name + "_bucket"]
        rest = {sample[len(name):]: value for sample, le, value in found if sample != name + "_bucket"}
        assert buckets and buckets[-1][0] == float("inf"), (name, key, buckets)
        assert all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), (name, key, buckets)
        assert rest["_count"] == buckets[-1][1], (name, key, rest, buckets)
        assert ("_sum" in rest) <= (buckets[0][0] >= 0), (name, key, rest)


def read(text):
    """family -> (type, [(sample, labels, value)]); anything that the format forbids is an error."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1, text[-200:]
    families, now, seen, series = {}, None, set(), set()
    for line in text[:-len("# EOF\n")].splitlines():
        assert line and line == line.strip(), repr(line)
        m = re.fullmatch(r"# (TYPE|HELP|UNIT) (%s)(?: (.*))?" % NAME, line)
        if m:
            what, name, value = m.groups()
            if not now or now[0] != name:
                assert name not in families, "the family %s is in two places" % name
                now = (name, {})
                families[name] = ("unknown", [])
            assert not families[name][1] and what not in now[1], line
            now[1][what] = value
            if what == "TYPE":
                assert value in SUFFIXES, line
                families[name] = (value, [])
            if what == "UNIT":
                assert name.endswith("_" + value), line
            continue
        assert not line.startswith("#"), line
        m = re.fullmatch(r"(%s)(?:\{(.*)\})? (\S+)" % NAME, line)
        assert m and now, line
        kind, samples = families[now[0]]
        assert m.group(1) in [now[0] + s for s in SUFFIXES[kind]], (kind, line)
        labels, value = labels_of(m.group(2) or ""), float(m.group(3))
        key = (m.group(1), tuple(sorted(labels.items())))
        assert key not in series, "twice: " + line
        series.add(key)
        assert kind in ("gauge", "summary") or value >= 0, line
        samples.append((m.group(1), labels, value))
    for name, (kind, samples) in families.items():
        clashes = [name + s for s in ("_total", "_created", "_bucket", "_count", "_sum", "_info")
                   if name + s in families]
        assert not clashes, clashes
        if kind == "histogram":
            check_histogram(name, samples)
    return families


# ---- the server ----

class Server:
    def __init__(self, *args, listen="127.0.0.1:0", prefix=(), env=None):
        self.err = open(os.path.join(DIR, "serve.err"), "w+")
        self.p = start([*prefix, DPROBES, "serve", "--listen", listen, *map(str, args)], stderr=self.err,
                       env=dict(os.environ, **(env or {})))
        self.where = wait_for(lambda: re.search(r"serving (?:http://|the socket )(\S+?)(?:/metrics)?$",
                                                self.said(), re.M) or self.p.poll() is not None,
                              what="the server")
        if self.where is True and "E-SERVE-BUILD" in self.said():
            raise Skip("this build has no libmicrohttpd or no json-c")
        assert self.where is not True, self.said()
        self.where = self.where.group(1)

    def said(self):
        return text_of(self.err.name)

    def get(self, path="/metrics", method="GET", **headers):
        c = http.client.HTTPConnection(self.where, timeout=60)
        c.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        body = r.read().decode(errors="replace")
        c.close()
        return r.status, dict(r.getheaders()), body

    def families(self):
        status, headers, body = self.get(Accept=OPENMETRICS)
        assert status == 200 and headers["Content-Type"].startswith(OPENMETRICS), (status, headers)
        return read(body)

    def until(self, good, what):
        """Families of which good() tells something, which is returned."""
        try:
            return wait_for(lambda: good(self.families()), what=what)
        except ConnectionError:
            raise AssertionError(self.said()) from None

    def end(self):
        assert stop(self.p) == 0, self.said()


def samples(families, name, **labels):
    family = max((f for f in families if name.startswith(f)), key=len, default=None)
    return [(found, value) for sample, found, value in families.get(family, (0, []))[1]
            if sample == name and all(found.get(k) == v for k, v in labels.items())]


LINES = ("p query count by $name:string", "r query hist($retval) by $comm", "p query lhist($n, 0, 100, 10)",
         "p query sum($n)", "p query max($n)", "p query quantiles($n)")


@alone
def lines():
    """tables of lines: counters, gauges, summaries and histograms with what was counted, keys as labels"""
    o = shop()
    s = Server("-p", o.p.pid, *LINES)
    o("go")
    f = s.until(lambda f: samples(f, "dprobes_table_query_n_values_count") and
                samples(f, "dprobes_table_query_n_values_count")[0][1] == 300 and f, "300 calls")
    count = {labels["key1"]: value for labels, value in samples(f, "dprobes_table_query_total")}
    assert count == {"alpha": 100, 'be"ta\\': 100, "gam?ma": 100}, count
    assert samples(f, "dprobes_table_query_n_values_sum")[0][1] == 3 * sum(range(100))
    assert samples(f, "dprobes_table_query_n_max")[0][1] == 99
    found = samples(f, "dprobes_table_query_n_bucket")
    buckets = {float(labels["le"]): value for labels, value in found}
    assert buckets[9] == 30 and buckets[49] == 150 and buckets[99] == 300 and min(buckets) >= 0, buckets
    name = [n for n in f if f[n][0] == "histogram" and n != "dprobes_table_query_n"][0]
    found = samples(f, name + "_bucket")
    assert found[0][0]["comm"] == "queries" and found[0][0]["key1"] == "queries", found[0]
    buckets = {float(labels["le"]): value for labels, value in found}
    values = [i % 100 + len(("alpha", 'be"ta\\', "gam\nma")[i % 3]) for i in range(300)]
    assert all(value == sum(v <= le for v in values) for le, value in buckets.items()), buckets
    assert 0.6 < samples(f, name + "_sum")[0][1] / sum(values) < 1.5
    quantiles = {labels["quantile"]: value for labels, value in samples(f, "dprobes_table_query_n_quantiles")}
    assert set(quantiles) == {"0.5", "0.9", "0.99", "0.999", "1.0"} and 40 <= quantiles["0.5"] <= 60, quantiles
    hits = {labels["outcome"]: value for labels, value in samples(f, "dprobes_probe_hits_total", probe="<-query")}
    assert hits["filtered"] == 300 and hits["lost"] == 0, hits
    s.end()
    assert not our_mappings(o.p.pid) and o("go") and o.end() == 0


@alone
def inserted():
    """tables and counts of what the driver has inserted; without a driver that is told, and none is started"""
    s = Server()
    assert samples(s.families(), "dprobes_driver_up")[0][1] == 0 and not drivers()
    o = shop()
    path = program("queries.dpc", '#pragma MODNAME("%s")\n#pragma PROBEPOINT_LOCATION("query")\n'
                   '#pragma PROBEPOINT_HANDLER("handler")\n'
                   'int handler(void) { count(calls, 7L); return 0; }\n' % o.p.args[0])
    r = dprobes("insert", path, check=None)
    assert r.returncode == 0, r.stderr
    o("go")
    f = s.until(lambda f: samples(f, "dprobes_table_calls_total") and
                samples(f, "dprobes_table_calls_total")[0][1] == 300 and f, "300 calls")
    assert samples(f, "dprobes_driver_up")[0][1] == 1
    assert samples(f, "dprobes_programs", source="driver")[0][1] == 1
    assert samples(f, "dprobes_processes", source="driver")[0][1] == 1
    labels = samples(f, "dprobes_table_calls_total")[0][0]
    assert labels["comm"] == "queries" and labels["pid"] == str(o.p.pid) and labels["key1"] == "7", labels
    dprobes("remove", "--all")
    s.until(lambda f: not samples(f, "dprobes_table_calls_total"), "the end of the table")
    s.end()
    assert o.end() == 0


@alone
def bounded():
    """a table of many keys has a limited number of series; the others are one, and told"""
    o = shop()
    s = Server("-p", o.p.pid, "p query hist($n) by $n", "p query count by $n")
    o("go")
    f = s.until(lambda f: sum(v for _, v in samples(f, "dprobes_table_query_total")) == 300 and f, "300 calls")
    assert len(samples(f, "dprobes_table_query_total")) == 100
    with_room = sum(v for _, v in samples(f, "dprobes_values_without_room_total"))
    counts = samples(f, "dprobes_table_query_n_count")
    assert sum(v for _, v in counts) + with_room == 300 and len(counts) <= 101, (with_room, len(counts))
    s.end()
    assert o.end() == 0


@test
def formats():
    """the older text format for who asks for no other; HEAD, other methods, other paths, health"""
    s = Server()
    status, headers, body = s.get()
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
    assert "# EOF" not in body and "# UNIT" not in body and "# TYPE dprobes_build_info gauge\n" in body, body
    prefers = "text/plain;q=0.9,application/openmetrics-text;q=0.5"
    assert s.get(Accept=prefers)[1]["Content-Type"].startswith("text/plain")
    assert s.get(Accept="application/openmetrics-text;q=0")[1]["Content-Type"].startswith("text/plain")
    proto = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding="
    assert s.get(Accept=proto + "delimited;q=0.9, text/plain;q=0.5")[1]["Content-Type"] == proto + "delimited"
    for other in (proto + "text", proto + "delimited;q=0.1,text/plain", "application/vnd.google.protobuf"):
        assert s.get(Accept=other)[1]["Content-Type"].startswith("text/plain"), other
    for i in range(3):
        assert s.get("/healthz")[::2] == (200, "ok\n")
    status, headers, body = s.get(method="HEAD")
    assert status == 200 and int(headers["Content-Length"]) > 100 and not body
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        status, headers, _ = s.get(method=method)
        assert status == 405 and headers["Allow"] == "GET, HEAD", (method, status)
    assert s.get("/")[0] == s.get("/metrics/../x")[0] == 404
    s.end()


@test
def refused():
    """addresses that others reach, that are none, that are in use; events without tables"""
    r = dprobes("serve", "--listen", "0.0.0.0:0")
    assert r.returncode == 1 and "E-SERVE-PUBLIC" in r.stderr and "--public" in r.stderr, r.stderr
    for address in ("example.org:80", "127.0.0.1", "127.0.0.1:70000", "unix:relative", ":9464", "[::1:80"):
        r = dprobes("serve", "--listen", address)
        assert r.returncode == 1 and "E-SERVE-ADDRESS" in r.stderr, (address, r.stderr)
    s = Server("--public", listen="0.0.0.0:0")
    r = dprobes("serve", "--listen", "127.0.0.1:" + s.where.split(":")[1])
    assert r.returncode == 1 and "E-SERVE-ADDRESS" in r.stderr, r.stderr
    s.end()
    r = dprobes("serve", "--listen", "127.0.0.1:0", "-p", os.getpid(), "p libc:malloc")
    assert r.returncode == 2 and "tables" in r.stderr, r.stderr
    assert dprobes("serve").returncode == 2


@test
def hostile():
    """clients that say nothing, say it slowly or wrongly, or come in numbers, keep nobody else from an answer"""
    s = Server()
    host, port = s.where.split(":")

    def connect(text):
        c = socket.create_connection((host, int(port)), timeout=60)
        c.sendall(text)
        return c

    silent = [connect(b"GET /met") for _ in range(10)]
    for text in (b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20000 + b"\r\n", b"\r\n" * 1000,
                 b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n"):
        try:
            connect(text).close()
        except OSError:
            pass
        assert s.get("/healthz")[0] == 200, text[:40]
    more = [connect(b"GET ") for _ in range(40)]  # they wait for those that say nothing, which are closed in time
    for c in silent + more:
        c.close()
    assert s.get()[0] == 200
    s.end()


@test
def queue():
    """clients beyond the limit of connections wait until others have ended, and are answered then"""
    s = Server()
    host, port = s.where.split(":")
    server, = children_of(s.p.pid)
    os.kill(server, signal.SIGSTOP)
    crowd = [socket.create_connection((host, int(port)), timeout=60) for _ in range(40)]
    late = http.client.HTTPConnection(s.where, timeout=60)
    late.request("GET", "/healthz")
    os.kill(server, signal.SIGCONT)
    time.sleep(0.2)
    for c in crowd:
        c.close()
    assert late.getresponse().status == 200
    late.close()
    s.end()


@test
def child():
    """HTTP is answered by a process that is nobody, has no capability and can gain none; when it ends, so do we"""
    s = Server()
    pid, = children_of(s.p.pid)
    status = dict(line.split(":\t", 1) for line in text_of("/proc/%d/status" % pid).splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1", status
    if not os.getuid():
        assert status["Uid"].split() == ["65534"] * 4 and not status["Groups"].strip(), status
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status
    os.kill(pid, 9)
    assert s.p.wait(60) == 1 and "E-SERVE-START" in s.said(), s.said()


@test
def on_a_socket():
    """a socket in the file system: a dead server's is replaced, and it goes when the server ends"""
    path = os.path.join(DIR, "metrics.sock")
    s = Server(listen="unix:" + path)
    assert os.stat(path).st_mode & 0o777 == 0o660
    c = socket.socket(socket.AF_UNIX)
    c.connect(path)
    c.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    c.settimeout(60)
    assert c.recv(4096).startswith(b"HTTP/1.1 200")
    s.p.kill()
    s.p.wait()
    s = Server(listen="unix:" + path)
    s.end()
    assert not os.path.exists(path)


class Prometheus:
    def __init__(self, server, config, *args):
        with socket.socket() as c:
            c.bind(("127.0.0.1", 0))
            self.port = c.getsockname()[1]
        self.p = start([server, "--config.file=" + config, "--storage.tsdb.path=%s/tsdb%d" % (DIR, self.port),
                        "--web.listen-address=127.0.0.1:%d" % self.port, "--log.level=error", *args])

    def ask(self, query):
        where = "http://127.0.0.1:%d/api/v1/query?query=%s" % (self.port, urllib.parse.quote(query))
        try:
            with urllib.request.urlopen(where, timeout=10) as r:
                return json.load(r)["data"]["result"]
        except OSError:
            return []

    def number(self, query):
        found = self.ask(query)
        assert len(found) == 1, (query, found)
        return float(found[0]["value"][1])


def check_native(p, names):
    """The histogram of query's results: its buckets as they are in a native one, and what follows from them."""
    name, = names
    values = [i % 100 + len(("alpha", 'be"ta\\', "gam\nma")[i % 3]) for i in range(300)]
    found = p.ask(name)[0]["histogram"][1]
    buckets = {(float(low), float(high)): int(count) for _, low, high, count in found["buckets"]}
    assert int(found["count"]) == 300 and buckets == {
        (low, 2 * low): n for low in (2 ** i for i in range(20))
        for n in [sum(low <= v < 2 * low for v in values)] if n}, (found, values)
    assert p.number("histogram_count(%s)" % name) == 300
    assert 32 < p.number("histogram_quantile(0.5,%s)" % name) < 64
    assert not p.ask(name + "_bucket")


@alone
def prometheus():
    """promtool finds nothing wrong, and a Prometheus scrapes it, as text and with native histograms"""
    promtool, server = need("promtool", "prometheus")
    o = shop()
    s = Server("-p", o.p.pid, *LINES)
    o("go")
    s.until(lambda f: sum(v for _, v in samples(f, "dprobes_table_query_total")) == 300, "300 calls")
    r = subprocess.run([promtool, "check", "metrics"], input=s.get()[2], text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    said = [line for line in r.stdout.splitlines()
            if "use base unit" not in line and "abbreviated" not in line]
    assert not said, r.stdout
    config = os.path.join(DIR, "prometheus.yml")
    with open(config, "w") as f:
        f.write("scrape_configs:\n  - job_name: dprobes\n    scrape_interval: 1s\n    scrape_timeout: 1s\n"
                "    static_configs:\n      - targets: ['%s']\n" % s.where)
    text, native = Prometheus(server, config), Prometheus(server, config, "--enable-feature=native-histograms")
    for p in (text, native):
        got = wait_for(lambda: p.ask("dprobes_table_query_total"), what="Prometheus's answer")
        assert {m["metric"]["key1"]: m["value"][1] for m in got} == \
            {"alpha": "100", 'be"ta\\': "100", "gam?ma": "100"}, got
        assert p.number("up") == 1
        assert p.number("sum(dprobes_probe_hits_total{outcome='filtered'})") == 300 * len(LINES)
        assert 45 < p.number("histogram_quantile(0.5,dprobes_table_query_n_bucket)") < 55
        assert 90 <= p.number("dprobes_table_query_n_quantiles{quantile='1.0'}") < 120
    check_native(native, [n for n, (kind, _) in s.families().items() if kind == "histogram" and "_n" not in n])
    stop(text.p)
    stop(native.p)
    s.end()
    assert o.end() == 0


@test
def unit():
    """the unit serves loopback alone, and leaves the server no capability but to become nobody"""
    text = text_of(os.path.join(BUILD, "packaging", "systemd", "dprobes-exporter.service"))
    assert re.search(r"^ExecStart=\S+/dprobes serve --listen 127\.0\.0\.1:9464$", text, re.M), text
    assert re.findall(r"CAP_\w+", text) == ["CAP_SETUID", "CAP_SETGID"]
    if os.getuid():
        raise Skip("needs root")
    setpriv = need("setpriv")[0]
    s = Server(prefix=(setpriv, "--bounding-set", "-all,+setuid,+setgid", "--inh-caps=-all", "--no-new-privs"))
    assert s.get()[0] == 200
    s.end()


try:
    run()
finally:
    for process in drivers():
        os.kill(process, 15)
    shutil.rmtree(DIR, ignore_errors=True)
