# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""redis-server under load with every function probed: right replies, exact counts, nothing left behind."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

ALL = ["p redis-server:* " + NEVER, "p libc:* " + NEVER, "r redis-server:* " + NEVER_R, "r libc:* " + NEVER_R]


@test
def everything():
    """every function of redis-server and of libc, entry and exit, under 50 clients"""
    need("redis-benchmark")
    redis = Redis()
    redis.check_replies(2)
    t = trace_start("-o", os.path.join(redis.dir, "trace.txt"), "-p", redis.p.pid, *ALL)
    armed(t, redis.p)
    begin = time.time()
    redis.bench("-n", 3000, "-c", 50, "-P", 4, "-q", "-t",
                "ping,set,get,incr,lpush,rpush,lpop,sadd,hset,zadd,lrange_100,mset")
    load = start([need("redis-benchmark")[0], "-s", redis.path, "-n", "20000", "-c", "50", "-q", "-r", "1000", "-t",
                  "set,get,lpush"])
    redis.check_replies()
    assert load.wait(60) == 0
    seconds = time.time() - begin
    err = finish(t, redis.p)
    rows, n = rows_of(err), probes_of(err)
    assert n > 10000, err
    total = rows["total"]
    assert total["hits"] > 1000000 and total["recorded"] == 0 and total["faults"] == 0, total
    assert total["missed"] == 0 and total["lost"] == 0, total
    print("# figure: redis-server and libc, %d probes at once, 50 clients, %.1f s: %d hits, none missed"
          % (n, seconds, total["hits"]))
    redis.check_replies(2)
    redis.end()
    forget(t)


@test
def graph():
    """calls of all functions of redis-server as a tree, with and without a budget: right replies under 50 clients"""
    need("redis-benchmark")
    for budget in ((), ("--budget", "10%")):
        redis = Redis()
        out = os.path.join(redis.dir, "graph.txt")
        t = start([DPROBES, "graph", "-o", out, "-p", str(redis.p.pid), *budget, "redis-server:*"],
                  stderr=subprocess.PIPE, text=True)
        wait_for(lambda: t.poll() is not None or os.path.exists(out), what="the graph")
        # What is hot is taken out when there is a budget.
        while "()" not in text_of(out) if budget else "} /* processCommand */" not in text_of(out):
            assert t.poll() is None, t.stderr.read()
            redis.bench("-n", 500, "-c", 50, "-P", 4, "-q", "-t", "set,get,lpush,lpop")
        redis.check_replies(2)
        t.send_signal(signal.SIGINT)
        err = t.communicate(timeout=90)[1]
        assert t.returncode == 0, err
        redis.check_replies(1)
        redis.end()


@test
def again_and_again():
    """all probes of redis-server put in and taken out under load, several times"""
    redis = Redis()
    load = start([need("redis-benchmark")[0], "-s", redis.path, "-n", "100000000", "-c", "50", "-q", "-r", "1000", "-t",
                  "set,get,lpush,lpop"])
    for i in range(5):
        t = trace_start("-o", "/dev/null", "-p", redis.p.pid, *ALL)
        armed(t, redis.p)
        redis.check_replies(2)
        err = finish(t, redis.p)
        assert rows_of(err)["total"]["hits"] > 1000, err
        forget(t)
        assert load.poll() is None
    stop(load)
    redis.end()


@test
def counts():
    """counts equal redis' own statistics, and each entry has its exit"""
    redis = Redis()
    redis.check_replies(1)
    pairs = ["lookupCommandLogic", "dictFind", "lookupKey", "call", "processCommand", "_sdsnewlen", "zfree", "addReply",
             "createStringObject", "dictAdd", "setCommand", "getCommand", "incrCommand"]
    events = sum((["p:e_%s %s %s" % (f, f, NEVER), "r:r_%s %s %s" % (f, f, NEVER_R)] for f in pairs), [])
    t = trace_start("-o", os.path.join(redis.dir, "trace.txt"), "-p", redis.p.pid, *events,
                    "p:always dictAdd d=%di", "p:half incrCommand c=%di if %di & 0x40")
    armed(t, redis.p)
    before = redis.calls()
    redis.bench("-n", 10000, "-c", 50, "-q", "-r", "5000", "-t", "set,get,incr")
    redis.check_replies(3)
    after = redis.calls()
    err = finish(t, redis.p)
    rows = rows_of(err)
    done = {k: after[k] - before.get(k, 0) for k in after}
    for name in ("set", "get", "incr"):
        row = rows["e_%sCommand" % name]
        assert row["hits"] == row["filtered"] == done[name] >= 10000, (name, row, done)
    # The first INFO counts itself when it has ended, the second one not: entries of call() are the sum but for one,
    # and what scripts call goes through call() too.
    row = rows["e_call"]
    assert row["hits"] == sum(done.values()) + 1, (row, done)
    for f in pairs:
        e, r = rows["e_" + f], rows["r_" + f]
        assert e["hits"] == r["hits"] > 0, (f, e, r, [x for x in rows if not rows[x]["hits"]])
        assert e["missed"] == r["missed"] == 0
    row = rows["always"]
    assert row["hits"] == row["recorded"] + row["lost"] == rows["e_dictAdd"]["hits"], (row, rows["e_dictAdd"])
    row = rows["half"]
    assert row["hits"] == rows["e_incrCommand"]["hits"] == row["filtered"] + row["recorded"] + row["lost"], row
    print("# figure: redis' own statistics: %d calls, counted by probes: %d" % (sum(done.values()) + 1,
                                                                               rows["e_call"]["hits"]))
    redis.end()
    forget(t)


@test
def records():
    """connections and commands as JSON lines"""
    redis = Redis()
    t = trace_start("--json", "--buffer", "16M", "-p", redis.p.pid, "p:conn libc:accept4 fd=%di:s32",
                    "r:cmd redis-server:lookupCommandLogic found=$retval", "p:name redis-server:setCommand c=%di",
                    "p:key lookupKey db=%di key=+0(+8(%si)):string if key ~ \"some-*\" || key == \"other\"",
                    "r:opened libc:accept4 fd=$retval:s32")
    armed(t, redis.p)
    replies = 3000
    redis.bench("-n", replies, "-c", 50, "-q", "-t", "set")
    for i in range(50):
        assert redis("GET", "some-key-%d" % i) is None
        assert redis("EVAL", "redis.call('PING') return redis.call('GET', KEYS[1])", 1, "other") is None
    err = finish(t, redis.p)
    rows = rows_of(err)
    ev = json_lines(text_of(t.out_path))
    by = {}
    for e in ev:
        by.setdefault(e["event"], []).append(e)
    for name, row in rows.items():
        if name != "total":
            assert row["hits"] - row["filtered"] == row["recorded"] == len(by.get(name, ())), \
                    (name, row, len(by.get(name, ())))
    assert len(by["conn"]) >= 1 and len({e["args"]["fd"] for e in by["conn"]}) == 1, by["conn"][:3]
    fds = {e["args"]["fd"] for e in by["opened"]}
    assert len(by["opened"]) >= 51 and all(-1 <= fd < 1000 for fd in fds), fds  # each connection; -1: nobody waits
    assert len(by["name"]) == replies
    found = [e["args"]["found"] for e in by["cmd"]]
    # Where the compiler has put lookupCommand into its caller, what scripts call remains.
    assert len(found) >= 100
    values = {int(v, 16) if isinstance(v, str) else v for v in found}
    assert 0 not in values and 2 <= len(values) <= 8, values
    keys = [e["args"]["key"] for e in by["key"]]
    assert keys == sum((["some-key-%d" % i, "other"] for i in range(50)), []), keys[:5]
    assert [e["ts"] for e in ev] == sorted(e["ts"] for e in ev)
    redis.end()
    forget(t)


@test
def every_instruction():
    """all instructions of hot functions of redis and libc at once, under load"""
    redis = Redis()
    redis.check_replies(1)
    lines = instructions("redis-server", module_path(redis.p.pid, "redis-"), [
        "dictFind", "siphash", "sdscatlen", "lookupKey*", "dictSdsHash", "processInputBuffer", "call", "addReply*",
        "_addReplyToBufferOrList", "string2ll", "ll2string", "zmalloc", "zfree", "dictAdd*", "lp*", "quicklist*",
        "lua*", "je_malloc*"])
    lines += instructions("libc", module_path(redis.p.pid, "libc.so"), [
        "malloc", "_int_malloc", "_int_free*", "free", "qsort*", "msort*", "*memchr*", "*strlen*",
        "*memcpy*", "*memmove*",
        "*memcmp*", "*strtol*", "*printf*", "__memset*"])
    t = trace_start("-o", "/dev/null", "-p", redis.p.pid, "-f", event_file(redis.dir, lines))
    armed(t, redis.p)
    load = start([need("redis-benchmark")[0], "-s", redis.path, "-n", "2000", "-c", "50", "-q", "-r", "1000", "-t",
                  "set,get,lpush,incr,zadd"])
    redis.check_replies(5)
    assert load.wait(60) == 0
    err = finish(t, redis.p)
    assert probes_of(err) == len(lines), (len(lines), err[-2000:])
    total = rows_of(err)["total"]
    assert total["hits"] == total["filtered"] > 100000, total
    print("# figure: redis-server and libc, %d instructions probed at once under load: %d hits, replies right"
          % (len(lines), total["hits"]))
    redis.check_replies(2)
    redis.end()
    forget(t)


@test
def asleep():
    """threads asleep in system calls that are displaced: they wake up in the right place, in and out"""
    redis = Redis()
    lines = instructions("libc", module_path(redis.p.pid, "libc.so"), [
        "*futex*", "pthread_cond*", "__pthread_cond*", "*lll_lock*", "epoll_*", "*nanosleep*", "read",
        "write", "*poll*",
        "__syscall*", "syscall"])
    for _ in range(4):
        t = trace_start("-o", "/dev/null", "-p", redis.p.pid, "-f", event_file(redis.dir, lines))
        armed(t, redis.p)
        time.sleep(0.2)
        redis.check_replies(1)
        assert redis("FLUSHALL", "ASYNC") == "OK"  # wakes one of the threads in the background
        err = finish(t, redis.p)
        assert "kept" not in err, err
        forget(t)
        redis.check_replies(1)
        assert redis("FLUSHALL", "ASYNC") == "OK"
    redis.end()


run()
