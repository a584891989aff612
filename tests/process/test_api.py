# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""`dprobes serve --api`: programs insert, read and remove probes by JSON-RPC; what they may, and what is refused."""
import json
import os
import random
import re
import socket
import sys
import time

from obey import *  # noqa: F403

SOURCE = r"""
#include <stdio.h>
#include <string.h>
long total;
__attribute__((noinline)) int query(long n, const char *name)
{
	total += n;
	return (int)n + (int)strlen(name);
}
__attribute__((noinline)) int answer(long n, const char *name)
{
	total -= n;
	return (int)n + name[0];
}
int main(void)
{
	char line[64];
	long n = 0, times;

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		sscanf(line, "%ld", &times);
		for (long i = 0; i < times; i++)
			n += query(i % 100, i % 2 ? "odd" : "even") + answer(i, i % 2 ? "odd" : "even");
		printf("%ld\n", n);
		fflush(stdout);
	}
	return 0;
}
"""
NOBODY = 65534
BUDGET = 10000000
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "schema", "api.json")
lines = {}  # one of each kind, sent or received


def shop(**kw):
    path = compiled(DIR, "queries", SOURCE, "-g", "-O2")
    os.chmod(DIR, 0o755)
    return Live(path, **kw)


class Api:
    """A server, at a socket of its own."""
    count, socket = 0, None

    def __init__(self, *args, by=()):
        Api.count += 1
        Api.socket = os.path.join(DIR, "api-%d.sock" % Api.count)
        self.err = open(os.path.join(DIR, "api-%d.err" % Api.count), "w+")
        self.p = start([*by, DPROBES, "serve", "--api", "unix:" + Api.socket, *args], stderr=self.err)
        wait_for(lambda: "serving" in text_of(self.err.name) or self.p.poll() is not None, what="the server")
        if "E-SERVE-BUILD" in text_of(self.err.name):
            raise Skip("this build has no libmicrohttpd or no json-c")
        assert self.p.poll() is None, text_of(self.err.name)
        assert os.stat(Api.socket).st_mode & 0o777 == 0o660

    def end(self):
        assert stop(self.p) == 0 and not os.path.exists(Api.socket)


def keep(o):
    part = o.get("params") or o.get("error") or o.get("result")
    kind = tuple((k, type(part[k])) for k in sorted(part)) if isinstance(part, dict) else type(part)
    lines[o.get("method"), "error" in o, kind] = o


class Client:
    def __init__(self):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(Api.socket)
        self.f = self.s.makefile("r")
        self.n = 0
        self.told = []

    def send(self, line):
        self.s.sendall((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")

    def read(self):
        line = self.f.readline()
        assert line, "the server has closed the connection"
        o = json.loads(line)
        keep(o)
        return o

    def ask(self, method, **params):
        """The reply; notices that come before it are kept."""
        self.n += 1
        sent = {"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}
        self.send(sent)
        while True:
            o = self.read()
            if "method" not in o:
                assert o["id"] == self.n, o
                if "result" in o:
                    keep(json.loads(json.dumps(sent)))
                return o
            self.told.append(o)

    def get(self, method, **params):
        o = self.ask(method, **params)
        assert "result" in o, o
        return o["result"]

    def insert(self, pid, *lines, **kw):
        params = {"pid": pid, "lines": lines, "seconds": 60, "max_hits_per_second": BUDGET, **kw}
        return self.ask("insert", **{k: v for k, v in params.items() if v is not None and v != ()})

    def notice(self, method):
        """The next of that kind."""
        for o in self.told:
            if o["method"] == method:
                self.told.remove(o)
                return o["params"]
        while True:
            o = self.read()
            if o["method"] == method:
                return o["params"]
            self.told.append(o)

    def is_served(self):
        try:
            self.send({"jsonrpc": "2.0", "id": 0, "method": "list"})
            return bool(self.f.readline())
        except (BrokenPipeError, ConnectionResetError):
            return False

    def close(self):
        self.f.close()
        self.s.close()


def child_of(pid):
    child, = children_of(pid)
    return child


def gone(pid):
    wait_for(lambda: not our_mappings(pid), what="the end of all probes")


@test
def life():
    """insert, read records and tables, list and remove; lines and programs"""
    o, api = shop(), Api()
    c = Client()
    assert c.get("version")["api"] == 1 and c.get("list") == []
    one = c.insert(o.pid, "p query n=%di", events=True)["result"]["id"]
    two = c.insert(o.pid, "p answer count by $name", "p answer max($n)")["result"]["id"]
    assert {i["id"] for i in c.get("list")} == {one, two}
    o("10")
    assert [c.notice("event")["record"]["args"]["n"] for _ in range(10)] == list(range(10))
    table = wait_for(lambda: [t for t in c.get("tables", id=two) if t["kind"] == "count" and len(t["entries"]) == 2],
                     what="the table")[0]
    assert sorted((e["key"][0], e["value"]) for e in table["entries"]) == [("even", 5), ("odd", 5)], table
    assert c.get("remove", id=one) is True
    ended = c.notice("ended")
    assert ended["id"] == one and ended["reason"] == "removed" and ended["summary"]["total"]["hits"] == 10, ended
    assert [i["id"] for i in c.get("list")] == [two]
    again = c.insert(o.pid, "p answer count")["result"]["id"]  # the instruction has an owner already
    o("2")
    wait_for(lambda: [t for t in c.get("tables", id=again) if t.get("value") == 2], what="two calls")
    for i in (two, again):
        c.get("remove", id=i)
        c.notice("ended")
    text = ('#pragma MODNAME("%s")\n#pragma PROBEPOINT_LOCATION("query")\n#pragma PROBEPOINT_HANDLER("handler")\n'
            'int handler(void) { count(calls); return 0; }\n' % o.p.args[0])
    three = c.insert(o.pid, program=text)["result"]["id"]
    o("7")
    wait_for(lambda: [t for t in c.get("tables", id=three) if t.get("value") == 7], what="seven calls")
    c.close()
    gone(o.pid)
    api.end()
    assert o.end() == 0


@test
def ends():
    """an insertion ends when it expires, is hit too often, and with its process, its client and the server"""
    o, api = shop(), Api()
    c = Client()
    c.insert(o.pid, "p query n=%di", seconds=0.2)
    assert c.notice("ended")["reason"] == "expired"
    for lines in (["p query n=%di"], ["p query count"]):
        c.insert(o.pid, *lines, max_hits_per_second=1000)
        o("100000")
        ended = c.notice("ended")
        assert ended["reason"] == "budget" and ended["error"]["code"] == "E-TRACE-RATE", ended
    gone(o.pid)
    other = shop()
    c.insert(other.pid, "p query count")
    assert other.end() == 0 and c.notice("ended")["reason"] == "process ended"
    c.insert(o.pid, "p query count")
    c.close()
    gone(o.pid)
    c = Client()
    c.insert(o.pid, "p query count")
    api.p.kill()
    api.p.wait()
    gone(o.pid)
    c.close()
    assert o("1") and o.end() == 0


@test
def refused():
    """lines with mistakes, that write, of no process; what is not right in a request: an error, and nothing changed"""
    o, api = shop(), Api()
    c = Client()
    for line, code in (("p qery", "E-SYM-NONE"), ("p query a=%zz", "E-EVENT-REG"),
                       ("p query { total = 5; }", "E-DPCC-NAME"), ("p query { $total = 5; }", "E-TRACE-WRITES"),
                       ("p query { $n = 5; }", "E-TRACE-WRITES"),
                       ("p query { *(long *)$name = 5; }", "E-TRACE-WRITES")):
        e = c.insert(o.pid, line)["error"]
        assert e["code"] == -32000 and e["data"]["code"] == code and e["data"]["message"], e
        assert not our_mappings(o.pid)
    assert c.get("explain", code="E-TRACE-WRITES")["hint"]
    good = {"pid": o.pid, "lines": ["p query"], "seconds": 5, "max_hits_per_second": 5}
    for change in ({"pid": 0}, {"pid": "1"}, {"pid": 1e3}, {"lines": []}, {"lines": "p query"}, {"lines": ["a\nb"]},
                   {"lines": ["p query"] * 33}, {"lines": ["# x"]}, {"lines": [1]}, {"seconds": 0}, {"seconds": 1e9},
                   {"seconds": None}, {"max_hits_per_second": 0}, {"max_hits_per_second": 1 << 63}, {"second": 1},
                   {"program": "int x;"}, {"lines": ["x" * 20000]}):
        assert c.ask("insert", **{**good, **change})["error"]["code"] == -32602, change
    c.send({"jsonrpc": "2.0", "id": 1, "method": "insert", "params": {**good, "max_hits_per_second": 1 << 70}})
    assert c.read()["error"]["code"] in (-32602, -32700)  # json-c from 0.17 on has no such numbers
    for key in ("pid", "lines", "seconds", "max_hits_per_second"):
        assert c.ask("insert", **{k: v for k, v in good.items() if k != key})["error"]["code"] == -32602, key
    for method in ("remove", "tables", "events"):
        assert c.ask(method, id=77)["error"]["code"] == -32002
    assert c.ask("nonsense")["error"]["code"] == -32601
    other = Client()
    mine = c.insert(o.pid, "p query count")["result"]["id"]
    assert other.get("list") == [] and other.ask("remove", id=mine)["error"]["code"] == -32002
    assert "result" in other.insert(o.pid, "p answer count")
    c.close()
    other.close()
    gone(o.pid)
    api.end()
    api = Api("--allow-writes")
    c = Client()
    assert "result" in c.insert(o.pid, "p query { $total = 5; }")
    c.close()
    gone(o.pid)
    api.end()
    assert o.end() == 0


@test
def options():
    """options of the server that do not go together, and addresses that are none, are refused"""
    path = "unix:" + os.path.join(DIR, "none.sock")
    for args, code in ((["--allow-writes"], "E-CMD-EXTRA"), (["--api", "127.0.0.1:1"], "E-CMD-VALUE"),
                       (["--api", "unix:none"], "E-SERVE-ADDRESS"), (["--api", path, "--public"], "E-CMD-EXTRA"),
                       (["--api", path, "--api", path], "E-CMD-EXTRA"),
                       (["--api", path, "--listen", "127.0.0.1:0"], "E-CMD-EXTRA"),
                       (["--api", path, "-p", "1", "p main count"], "E-CMD-EXTRA")):
        r = dprobes("serve", *args)
        assert r.returncode and code in r.stderr and not os.path.exists(path[5:]), (args, r.stderr)


@test
def hostile():
    """thousands of malformed lines: each is an error or nothing, and the probes of others stay"""
    o, api = shop(), Api()
    c, kept = Client(), Client()
    mine = kept.insert(o.pid, "p query count")["result"]["id"]
    rng = random.Random(4711)
    good = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "insert", "params": {
        "pid": 1 << 21, "lines": ["p query"], "seconds": 1, "max_hits_per_second": 1}}).encode()
    sent = 0
    while sent < 3000:
        line = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(line))
            line[at:at + rng.randrange(3)] = bytes(rng.choices(range(256), k=rng.randrange(4)))
        line = bytes(rng.choice((line, line[:rng.randrange(len(line))], b"[" * rng.randrange(2000), b"\0" * 30,
                                 b"{" + b'"a":' * rng.randrange(300), bytes(rng.choices(range(256), k=50)))))
        try:
            c.s.sendall(line.replace(b"\n", b"") + b"\n")
            sent += 1
            c.s.setblocking(False)
            while c.s.recv(65536):
                pass
        except BlockingIOError:
            c.s.settimeout(60)
        except (BrokenPipeError, ConnectionResetError):
            c = Client()  # it has asked too much
    c.close()
    c = Client()
    c.s.sendall(b"x" * 300000 + b"\n")
    assert c.read()["error"]["code"] == -32001
    assert c.get("version")["api"] == 1
    c.close()
    assert [i["id"] for i in kept.get("list")] == [mine]
    crowd = [Client() for _ in range(20)]
    assert crowd[0].get("list") == [] and not crowd[-1].is_served()  # a user has 16 at most
    for s in (*crowd, kept):
        s.close()
    gone(o.pid)
    api.end()
    assert o.end() == 0


@test
def slow_reader():
    """a client that does not read gets no more than there is room for, and is told how much that was"""
    o, api = shop(), Api()
    c = Client()
    one = c.insert(o.pid, "p query n=%di", events=True)["result"]["id"]
    o("100000")
    trace = child_of(child_of(api.p.pid))
    written = re.compile(r"wchar: (\d+)")
    wait_for(lambda: int(written.search(text_of("/proc/%s/io" % trace))[1]) > 8 << 20, what="8 MiB of records")
    c.get("remove", id=one)
    ended = c.notice("ended")
    got = sum(t["method"] == "event" for t in c.told)
    total = ended["summary"]["total"]
    assert total["hits"] == 100000 and got and ended["dropped"], (got, ended)
    assert got + ended["dropped"] <= total["recorded"], (got, ended)
    c.close()
    api.end()
    assert o.end() == 0


@test
def schema():
    """all that was sent and received is as doc/schema/api.json says"""
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        import jsonschema
    except ImportError:
        raise Skip("python3-jsonschema is not installed")
    check = jsonschema.Draft202012Validator(json.load(open(SCHEMA)))
    for o in lines.values():
        check.validate(o)
    assert len(lines) > 16 or os.environ.get("DP_ONLY"), lines


AS_NOBODY = r"""
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("r")
for pid in sys.argv[2:]:
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "insert", "params": {"pid": int(pid), "seconds": 30,
        "lines": ["p query count"], "max_hits_per_second": 1000000}}).encode() + b"\n")
    print(f.readline().strip(), flush=True)
sys.stdin.readline()
"""


@test
def other_user():
    """a client that is nobody, and of the socket's group, may probe its own processes, and not those of root"""
    if os.getuid():
        raise Skip("needs root")
    setpriv, python = need("setpriv", "python3")
    o, own = shop(), shop(user=NOBODY, group=NOBODY, extra_groups=[])
    api = Api(by=(setpriv, "--regid=65534", "--clear-groups"))
    client = start([setpriv, "--reuid=65534", "--regid=65534", "--groups=65533", python, "-c", AS_NOBODY, Api.socket,
                    str(o.pid), "1", str(own.pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    replies = [json.loads(client.stdout.readline()) for _ in range(3)]
    server = child_of(api.p.pid)
    status = dict(re.findall(r"(\w+):\s*(.*?)\s*\n", text_of("/proc/%s/status" % server)))
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4 and status["Groups"] == "65533", status
    assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1", status
    client.communicate("\n")
    assert replies[0]["error"]["data"]["code"] == replies[1]["error"]["data"]["code"], replies
    assert re.search("PERM|ACCESS", replies[0]["error"]["data"]["code"]), replies
    assert not our_mappings(o.pid) and replies[2]["result"]["id"], replies
    gone(own.pid)
    api.end()
    assert o.end() == 0 and own.end() == 0


try:
    run()
finally:
    for process in drivers():
        os.kill(process, 15)
    shutil.rmtree(DIR, ignore_errors=True)
