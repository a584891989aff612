# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`--format otlp`: calls as spans, records as logs and tables as metrics, as a strict reader of OTLP's JSON takes them,
and a collector that is busy, wrong, slow or away."""
import http.server
import json
import re
import signal
import socket
import threading
import time

from obey import *  # noqa: F403

HERE = os.path.dirname(os.path.abspath(__file__))


def shop():
    return compiled(DIR, "shop", text_of(os.path.join(HERE, "shop.c")), "-g", "-O2", "-w")


# ---- a strict reader: messages with all of the members that may stand in them ----

def integer(v):
    assert isinstance(v, str) and re.fullmatch(r"-?\d+", v) and -2 ** 63 <= int(v) < 2 ** 64, v


def identity(size):
    def check(v):
        assert re.fullmatch("[0-9a-f]{%d}" % (2 * size), v) and int(v, 16), v
    return check


def number(v):
    assert isinstance(v, (int, float)) and not isinstance(v, bool), v


def text(v):
    assert isinstance(v, str), v


def flag(v):
    assert isinstance(v, bool), v


POINT = {"attributes": ["KeyValue"], "startTimeUnixNano": integer, "timeUnixNano": integer}
MESSAGES = {
    "Traces": {"resourceSpans": ["ResourceSpans"]},
    "Logs": {"resourceLogs": ["ResourceLogs"]},
    "Metrics": {"resourceMetrics": ["ResourceMetrics"]},
    "ResourceSpans": {"resource": "Resource", "scopeSpans": ["ScopeSpans"]},
    "ResourceLogs": {"resource": "Resource", "scopeLogs": ["ScopeLogs"]},
    "ResourceMetrics": {"resource": "Resource", "scopeMetrics": ["ScopeMetrics"]},
    "Resource": {"attributes": ["KeyValue"]},
    "Scope": {"name": text, "version": text},
    "ScopeSpans": {"scope": "Scope", "spans": ["Span"]},
    "ScopeLogs": {"scope": "Scope", "logRecords": ["LogRecord"]},
    "ScopeMetrics": {"scope": "Scope", "metrics": ["Metric"]},
    "KeyValue": {"key": text, "value": "AnyValue"},
    "AnyValue": {"stringValue": text, "boolValue": flag, "intValue": integer, "doubleValue": number,
                 "arrayValue": "ArrayValue", "kvlistValue": "KeyValueList"},
    "ArrayValue": {"values": ["AnyValue"]},
    "KeyValueList": {"values": ["KeyValue"]},
    "Span": {"traceId": identity(16), "spanId": identity(8), "parentSpanId": identity(8), "name": text, "kind": number,
             "startTimeUnixNano": integer, "endTimeUnixNano": integer, "attributes": ["KeyValue"]},
    "LogRecord": {"timeUnixNano": integer, "observedTimeUnixNano": integer, "severityNumber": number,
                  "severityText": text, "body": "AnyValue", "attributes": ["KeyValue"], "traceId": identity(16),
                  "spanId": identity(8)},
    "Metric": {"name": text, "description": text, "sum": "Sum", "gauge": "Gauge", "summary": "Summary",
               "histogram": "Histogram", "exponentialHistogram": "ExponentialHistogram"},
    "Sum": {"aggregationTemporality": number, "isMonotonic": flag, "dataPoints": ["NumberPoint"]},
    "Gauge": {"dataPoints": ["NumberPoint"]},
    "Summary": {"dataPoints": ["SummaryPoint"]},
    "Histogram": {"aggregationTemporality": number, "dataPoints": ["HistogramPoint"]},
    "ExponentialHistogram": {"aggregationTemporality": number, "dataPoints": ["ExponentialPoint"]},
    "NumberPoint": {"asInt": integer, **POINT},
    "SummaryPoint": {"count": integer, "sum": number, "quantileValues": ["Quantile"], **POINT},
    "Quantile": {"quantile": number, "value": number},
    "HistogramPoint": {"count": integer, "bucketCounts": [integer], "explicitBounds": [number], **POINT},
    "ExponentialPoint": {"count": integer, "scale": number, "zeroCount": integer, "positive": "Buckets", **POINT},
    "Buckets": {"offset": number, "bucketCounts": [integer]},
}


def check(kind, v):
    if isinstance(kind, list):
        assert isinstance(v, list), v
        for one in v:
            check(kind[0], one)
    elif callable(kind):
        kind(v)
    else:
        assert isinstance(v, dict) and set(v) <= set(MESSAGES[kind]), (kind, v)
        assert kind != "AnyValue" or len(v) == 1, v
        for name, member in v.items():
            check(MESSAGES[kind][name], member)
            if name == "attributes":
                keys = [a["key"] for a in member]
                assert len(keys) == len(set(keys)) and all(keys), keys


def plain(v):
    (kind, value), = v.items()
    if kind == "arrayValue":
        return [plain(one) for one in value["values"]]
    if kind == "kvlistValue":
        return attributes(value["values"])
    return int(value) if kind == "intValue" else value


def attributes(v):
    return {a["key"]: plain(a["value"]) for a in v}


class Data:
    """All of some requests: spans, logs and metrics, each with what its resource is."""

    def __init__(self, lines):
        self.spans, self.logs, self.metrics = [], [], []
        for line in lines:
            request = json.loads(line)
            for kind, resources, scopes, items, to in (
                    ("Traces", "resourceSpans", "scopeSpans", "spans", self.spans),
                    ("Logs", "resourceLogs", "scopeLogs", "logRecords", self.logs),
                    ("Metrics", "resourceMetrics", "scopeMetrics", "metrics", self.metrics)):
                if resources in request:
                    check(kind, request)
                    to += [dict(item, resource=attributes(r["resource"]["attributes"]))
                           for r in request[resources] for s in r[scopes] for item in s[items]]
        for item in self.spans + self.logs:
            item["attributes"] = attributes(item["attributes"])
        by_id = {s["spanId"]: s for s in self.spans}
        assert len(by_id) == len(self.spans)
        for s in self.spans:
            assert int(s["startTimeUnixNano"]) <= int(s["endTimeUnixNano"]) and s["kind"] == 1
            above = by_id.get(s.get("parentSpanId"))
            if above:
                assert above["traceId"] == s["traceId"] and \
                    int(above["startTimeUnixNano"]) <= int(s["startTimeUnixNano"]) and \
                    int(above["endTimeUnixNano"]) >= int(s["endTimeUnixNano"]), (above, s)

    def named(self, name):
        return [s for s in self.spans if s["name"] == name]


LINES = ("p shop:do_query kind=%si:s32", "r shop:do_query kind=$retval:s32", "p shop:add_order q=%di:s32 %si",
         "r shop:add_order", "p:seen shop:may_fail bad=+0(%ax):string arr=+0(%di):u8[3]")


def traced_to_file(*lines, options=(), env=None):
    out = os.path.join(DIR, "otlp.json")
    r = dprobes("trace", "--format", "otlp", "-o", out, *options, *lines, "--", shop(), "3",
                env=dict(os.environ, **(env or {})))
    assert r.returncode == 0, r.stderr
    return Data(text_of(out).splitlines())


@test
def spans():
    """calls are spans, those in them are below them in the same trace; what is no call is a log record"""
    begin = time.time_ns()
    d = traced_to_file(*LINES)
    queries = d.named("do_query")
    assert len(queries) == 6 and len(d.named("add_order")) == 6 and len(d.spans) == 12, d.spans
    inner = [s for s in queries if "parentSpanId" in s]
    outer = {s["spanId"]: s for s in queries if "parentSpanId" not in s}
    assert len(inner) == len(outer) == 3 == len({s["traceId"] for s in outer.values()})
    for s in inner:
        assert s["attributes"]["kind"] == 1 and s["attributes"]["kind.return"] == 0, s
        assert outer[s["parentSpanId"]]["attributes"]["kind"] == 2
    assert {"q", "arg2", "thread.id", "thread.name"} <= set(d.named("add_order")[0]["attributes"])
    assert d.logs and all(r["body"] == {"stringValue": "seen"} and r["severityNumber"] == 9 for r in d.logs)
    assert d.logs[0]["attributes"]["bad"] == "(fault)" and len(d.logs[0]["attributes"]["arr"]) == 3
    resource, = {json.dumps(item["resource"]) for item in d.spans + d.logs}
    resource = json.loads(resource)
    assert resource["service.name"] == resource["process.command"] == "shop"
    assert resource["host.name"] == os.uname().nodename and resource["process.pid"] > 1
    assert begin - 10 ** 9 < int(d.spans[0]["startTimeUnixNano"]) < time.time_ns() + 10 ** 9


@test
def in_spans():
    """a log record is in the span that its thread is in; calls that are open at the end, or were left, say so"""
    d = traced_to_file("p shop:do_query", "r shop:do_query", "p libc:clock_nanosleep")
    by_id = {s["spanId"]: s for s in d.spans}
    assert d.logs and all(by_id[r["spanId"]]["traceId"] == r["traceId"] for r in d.logs), d.logs
    d = traced_to_file("p shop:main", "r shop:main", "p shop:do_query", "r shop:do_query",
                       options=["--max-events", "3"])
    ends = {s["name"]: s["attributes"].get("dprobes.end") for s in d.spans if "parentSpanId" not in s}
    assert ends == {"main": "it had not returned at the end of the trace"}, d.spans


@test
def of_programs():
    """lines that are compiled: values of all types; a return with its duration is a span; tables are metrics"""
    d = traced_to_file("p add_order $qty $label $total *$o", "r do_query $duration $retval", "p nothing count() by $a",
                       "p make sum($n)", "p add_order avg($qty)", "p make max($n)", "p make hist($n)",
                       "p make lhist($n, 0, 1000, 100)", "p make quantiles($n)", "p nothing min($a) if $a > 100")
    assert len(d.named("do_query")) == 6 == len(d.spans)
    for s in d.spans:
        took = int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"])
        assert took == s["attributes"]["duration"] >= 10 ** 6, s
    pairs = traced_to_file("p do_query $kind", "r do_query $retval", "p nothing $a")
    inner = [s for s in pairs.named("do_query") if "parentSpanId" in s]
    assert len(pairs.named("do_query")) == 6 and len(inner) == 3 and len(pairs.logs) == 3, pairs.spans
    assert all(s["attributes"]["kind"] == 1 and s["attributes"]["retval"] == 0 for s in inner), inner
    order = d.logs[0]["attributes"]
    assert order["qty"] == 1 and isinstance(order["total"], (int, float)) and isinstance(order["label"], str), order
    assert {"id", "name", "price", "color", "next"} == set(order["*o"]) and order["*o"]["color"] == "GREEN", order
    kinds = {}
    for m in d.metrics:
        assert m["resource"]["service.name"] == "shop", m
        kind, = set(m) & {"sum", "gauge", "summary", "histogram", "exponentialHistogram"}
        kinds.setdefault(m["description"], []).append(m[kind])
    assert set(kinds) == {"count", "sum", "avg", "max", "min", "hist", "lhist", "quantiles"}, set(kinds)
    count, = kinds["count"]
    assert count["isMonotonic"] and {p["attributes"][0]["key"] for p in count["dataPoints"]} == {"key1"}
    assert sum(int(p["asInt"]) for p in count["dataPoints"]) == 3, count
    assert kinds["min"] == [{"dataPoints": []}], kinds["min"]
    linear, powers = kinds["lhist"][0]["dataPoints"][0], kinds["hist"][0]["dataPoints"][0]
    total = int(kinds["sum"][0]["dataPoints"][0]["count"])
    assert len(linear["bucketCounts"]) == len(linear["explicitBounds"]) + 1
    assert linear["explicitBounds"] == sorted(set(linear["explicitBounds"]))
    for p, counts in ((linear, linear["bucketCounts"]), (powers, powers["positive"]["bucketCounts"])):
        assert int(p["count"]) == total == sum(map(int, counts)), p
    assert powers["scale"] == 0 and powers["positive"]["offset"] == -1


# ---- sending ----

class Collector(http.server.ThreadingHTTPServer):
    """Answers with each of these statuses in turn, the last one for ever; keeps what it has taken."""

    def __init__(self, *statuses, answer=b"{}", wait=0):
        self.statuses, self.answer, self.wait = list(statuses) or [200], answer, wait
        self.taken, self.asked, self.paths, self.headers = [], 0, set(), []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def where(self):
        return "http://127.0.0.1:%d" % self.server_port


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses[0] if len(self.server.statuses) == 1 else self.server.statuses.pop(0)
        self.server.asked += 1
        self.server.headers.append(self.headers)
        time.sleep(self.server.wait)
        if status == 200:
            self.server.paths.add(self.path)
            self.server.taken.append(body.decode())
        self.send_response(status)
        if status in (429, 503):
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *args):
        pass


def counted(requests):
    """The numbers of a count without a key, in the order of their times."""
    points = [p for m in Data(requests).metrics for p in m["sum"]["dataPoints"]]
    return [int(p["asInt"]) for p in sorted(points, key=lambda p: int(p["timeUnixNano"]))]


def send(where, *args, env=None, lines=LINES, **kw):
    r = dprobes("trace", "--format", "otlp", *(["--endpoint", where] if where else []), *args, *lines, "--", shop(),
                "3", env=dict(os.environ, **(env or {})), **kw)
    if "E-OTLP-BUILD" in r.stderr:
        raise Skip("libcurl is not there")
    return r


@test
def sent():
    """each kind goes to its own path, once, although the collector is busy at first"""
    c = Collector(503, 429, 502, 200)
    r = send(c.where)
    assert r.returncode == 0 and "12 spans, 6 log records sent to " + c.where in r.stderr, r.stderr
    d = Data(c.taken)
    assert len(d.spans) == 12 and len(d.logs) == 6 and c.paths == {"/v1/traces", "/v1/logs"} and c.asked >= 5
    assert all(h["Content-Type"] == "application/json" for h in c.headers)
    c.shutdown()


@test
def environment():
    """what every sender of OpenTelemetry's data takes from the environment"""
    c = Collector()
    r = send(None, env={"OTEL_EXPORTER_OTLP_ENDPOINT": c.where + "/", "OTEL_SERVICE_NAME": "orders",
                        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=a%20b,service.name=x,process.pid=1",
                        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer 1,x-two=2"})
    assert r.returncode == 0, r.stderr
    resource = Data(c.taken).spans[0]["resource"]
    assert resource["service.name"] == "orders" and resource["deployment.environment"] == "a b", resource
    assert resource["process.pid"] > 1
    assert all(h["Authorization"] == "Bearer 1" and h["X-Two"] == "2" for h in c.headers)
    c.shutdown()


@test
def refused():
    """what a collector refuses is not sent again, and counted; of a part that it refuses the rest is sent"""
    c = Collector(400)
    r = send(c.where)
    assert r.returncode == 1 and "E-OTLP-LOST" in r.stderr and "18 of them" in r.stderr and "400" in r.stderr, r.stderr
    assert c.asked == 2 and "nothing was sent" in r.stderr, (c.asked, r.stderr)
    c.shutdown()
    c = Collector(answer=b'{"partialSuccess": {"rejectedSpans": "5", "errorMessage": "too old"}}')
    r = send(c.where)
    assert r.returncode == 1 and "7 spans, 6 log records" in r.stderr and "5 of them" in r.stderr, r.stderr
    c.shutdown()


@test
def away():
    """a collector that is away, or never answers: the program runs as ever, and what is lost is told"""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        nobody = "http://127.0.0.1:%d" % s.getsockname()[1]
        silent = socket.socket()
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for where in (nobody, "http://127.0.0.1:%d" % silent.getsockname()[1]):
            r = send(where, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "300"})
            assert r.returncode == 1 and "E-OTLP-LOST" in r.stderr and "18 of them" in r.stderr, r.stderr
            assert r.stdout.strip().isdigit() and re.search(r"^total +30 +30 ", r.stderr, re.M), (r.stdout, r.stderr)
        silent.close()


@test
def later():
    """a collector that comes up while the trace runs gets everything; a trace ends what it sends while it runs"""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    o = Obey()
    t = trace_start("--format", "otlp", "--endpoint", "http://127.0.0.1:%d" % port, "-p", o.pid,
                    "p obey:add_numbers", "r obey:add_numbers")
    wait_for(lambda: in_place(o.pid) or t.poll() is not None, what="probes")
    if t.poll() is not None:
        raise Skip("libcurl is not there")
    assert o("add 1 2") == "3"
    http.server.ThreadingHTTPServer.allow_reuse_address = True
    c = Collector.__new__(Collector)
    c.statuses, c.answer, c.wait, c.taken, c.asked, c.paths, c.headers = [200], b"{}", 0, [], 0, set(), []
    http.server.ThreadingHTTPServer.__init__(c, ("127.0.0.1", port), Handler)
    threading.Thread(target=c.serve_forever, daemon=True).start()
    wait_for(lambda: c.taken, what="a span")
    assert t.poll() is None and len(Data(c.taken).spans) == 1
    assert o("add 2 3") == "5"
    assert stop(t, signal.SIGINT) == 0 and len(Data(c.taken).spans) == 2
    assert o.end() == 0
    c.shutdown()


@test
def tables_again():
    """tables are sent again and again, each as it is by then since the same beginning; --interval comes first"""
    for args, env in (((), {"OTEL_METRIC_EXPORT_INTERVAL": "20"}),
                      (("--interval", "0.02"), {"OTEL_METRIC_EXPORT_INTERVAL": "3600000"})):
        c, o = Collector(), Obey()
        t = trace_start("--format", "otlp", "--endpoint", c.where, *args, "-p", o.pid, "p obey:add_numbers count()",
                        env=dict(os.environ, **env))
        wait_for(lambda: in_place(o.pid) or t.poll() is not None, what="probes")
        if t.poll() is not None:
            raise Skip("libcurl is not there")
        for n in range(1, 2 if args else 3):  # seen while the trace runs
            assert o("add 1 2") == "3"
            wait_for(lambda: counted(c.taken)[-1:] == [n], what="a table with %d" % n)
        assert t.poll() is None and stop(t, signal.SIGINT) == 0 and o.end() == 0
        seen = counted(c.taken)
        assert seen == sorted(seen) and seen[-1] == n and len(seen) > n, seen
        points = [p for m in Data(c.taken).metrics for p in m["sum"]["dataPoints"]]
        assert len({p["startTimeUnixNano"] for p in points}) == 1, points
        assert all(m["sum"]["aggregationTemporality"] == 2 for m in Data(c.taken).metrics)
        c.shutdown()


@test
def recordings():
    """a recording is sent as the trace would have been, always with the same identities; many requests, all taken"""
    path = os.path.join(DIR, "run.dpt")
    dprobes("record", "-o", path, *LINES, "--", shop(), "200", check=0)
    one, other = (dprobes("report", "--format", "otlp", path, check=0).stdout for _ in range(2))
    d = Data(one.splitlines())
    assert one == other and len(d.spans) == 800 and len(one.splitlines()) > 2
    c = Collector(503, 200, wait=0.01)
    r = dprobes("report", "--format", "otlp", "--endpoint", c.where, "-q", path)
    if "E-OTLP-BUILD" not in r.stderr:
        assert r.returncode == 0 and not r.stderr and sorted(c.taken) == sorted(one.splitlines()), r.stderr
    c.shutdown()


@test
def without():
    """the static dprobes, which loads no library, says that it cannot send, and writes files all the same"""
    static = os.path.join(BUILD, "src", "cmd", "static", "dprobes")
    if not os.path.exists(static):
        raise Skip("the static dprobes is not built")
    args = [static, "trace", "--format", "otlp", *LINES]
    r = subprocess.run([*args, "--endpoint", "http://127.0.0.1:9", "--", shop(), "3"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=60)
    assert r.returncode == 1 and "E-OTLP-BUILD" in r.stderr and not r.stdout, r
    out = os.path.join(DIR, "static.json")
    subprocess.run([*args, "-q", "-o", out, "--", shop(), "3"], check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert len(Data(text_of(out).splitlines()).spans) == 12


@test
def wrong():
    """addresses that are none, and options that do not go together; nothing is begun"""
    for args, code in ((("--endpoint", "localhost:4318"), "E-OTLP-ADDRESS"),
                       (("--endpoint", "http://"), "E-OTLP-ADDRESS"),
                       (("--endpoint", "http://x:1", "-o", os.path.join(DIR, "x")), "E-CMD-EXTRA"),
                       (("--endpoint", "http://x:1", "--format", "json"), "E-CMD-EXTRA")):
        r = dprobes("trace", "--format", "otlp", *args, "p shop:main", "--", shop(), "3")
        assert r.returncode and code in r.stderr and not r.stdout, (args, r.stdout, r.stderr)


run()
