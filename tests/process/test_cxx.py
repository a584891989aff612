# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""C++ programs that throw through probed frames, with the libraries that do the throwing probed as well."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
from real import *  # noqa: E402,F403

EVENTS = ["p throws:* " + NEVER, "r throws:* " + NEVER_R, "p libstdc++:* " + NEVER, "r libstdc++:* " + NEVER_R,
          "p libgcc_s:* " + NEVER, "r libgcc_s:* " + NEVER_R]

THREADS = r"""
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <cstdlib>
static std::atomic<long> good, bad;
struct Odd : std::logic_error { int n; Odd(int k) : std::logic_error("odd " + std::to_string(k)), n(k) {} };
__attribute__((noinline)) int fall(int n, std::vector<std::string> &v)
{
	v.push_back(std::string(n + 20, 'x'));
	if (n == 0) { if (v.size() & 1) throw Odd((int)v.size()); throw (int)v.size(); }
	try { return fall(n - 1, v); } catch (const std::bad_alloc &) { return -1; }
}
int main(int argc, char **argv)
{
	std::vector<std::thread> t;
	long rounds = atol(argv[1]);
	for (int i = 0; i < 4; i++) t.emplace_back([=] {
		for (long k = 0; k < rounds; k++) {
			std::vector<std::string> v; int n = (int)(k % 23); bool ok = false;
			try { try { fall(n, v); } catch (...) { throw; } }
			catch (const Odd &o) { ok = o.n == n + 1 && o.what() == "odd " + std::to_string(n + 1); }
			catch (int x) { ok = x == n + 1; }
			(ok && v.size() == (size_t)n + 1 ? good : bad)++;
		}
	});
	for (auto &x : t) x.join();
	printf("good %ld bad %ld\n", good.load(), bad.load());
	return bad != 0;
}
"""


@test
def attached():
    """exits and entries of the program, libstdc++ and libgcc_s, put in and taken out while it throws"""
    p = start([target("throws")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    for _ in range(3):
        t = trace_start("-o", "/dev/null", "-p", p.pid, *EVENTS)
        armed(t, p)
        time.sleep(1)
        err = finish(t, p)
        total = rows_of(err)["total"]
        assert total["hits"] > 1000 and not total["missed"] and not total["lost"], total
        forget(t)
    print("# figure: C++, %d probes, %d hits in the last round" % (probes_of(err), total["hits"]))
    assert stop(p) == 0
    out = p.stdout.read()
    assert "bad 0" in out, out
    print("# " + out.strip())


@test
def named():
    """functions go by their names in the source: in lists, records, call chains, summaries"""
    p = start([target("throws")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    t = trace_start("-p", p.pid, "p libstdc++:std::runtime_error::runtime_error*",
                    "p throws:deep from=$backtrace:symbol[3]")
    armed(t, p)
    time.sleep(0.3)
    err = finish(t, p)
    rows, out = rows_of(err), text_of(t.out_path)
    assert rows["std::runtime_error::runtime_error"]["hits"] and "_Z" not in out + err, (out[:2000], err)
    assert re.search(r": deep: @deep\+0 from=\{deep\+0x0,(attempt|deep)\+0x", out), out[:2000]
    assert "std::terminate()\n" in dprobes("funcs", "-p", p.pid, "libstdc++:std::terminate*").stdout
    stop(p)


@test
def started():
    """the same from the program's start to its end; each call of a thrower is counted"""
    counted = ["p:thrown libstdc++:__cxa_throw " + NEVER, "p:caught libstdc++:__cxa_begin_catch " + NEVER,
               "p:raised libgcc_s:_Unwind_RaiseException " + NEVER,
               "r:no_raise libgcc_s:_Unwind_RaiseException " + NEVER_R]
    r = dprobes("trace", "-o", "/dev/null", *EVENTS, "--", target("throws"), "3000", check=0)
    assert "good 3000 bad 0" in r.stdout, (r.stdout, r.stderr[-2000:])
    r = dprobes("trace", "-o", "/dev/null", *counted, "--", target("throws"), "3000", check=0)
    assert "good 3000 bad 0" in r.stdout, (r.stdout, r.stderr[-2000:])
    rows = rows_of(r.stderr)
    for name in ("thrown", "caught", "raised"):
        assert rows[name]["hits"] == 3000, (name, rows)


@test
def threads():
    """four threads that throw objects of several types, rethrow and unwind through 20 frames"""
    with tempfile.TemporaryDirectory() as d:
        exe = compiled(d, "many", THREADS, "-O2", "-pthread", compiler="g++")
        r = dprobes("trace", "-o", "/dev/null", "p many:* " + NEVER, "r many:* " + NEVER_R, *EVENTS[2:],
                    "p libc:* " + NEVER,
                    "r libc:* " + NEVER_R, "--", exe, "3000", check=0)
        assert "good 12000 bad 0" in r.stdout, (r.stdout, r.stderr[-2000:])
        total = rows_of(r.stderr)["total"]
        assert not total["missed"] and not total["lost"], total
        print("# figure: C++ threads, %d probes, %d hits, 12000 exceptions caught" 
              % (probes_of(r.stderr), total["hits"]))


@test
def instructions_of_it():
    """all instructions of the unwinder and of the program"""
    with tempfile.TemporaryDirectory() as d:
        p = start([target("throws")], stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline().startswith("ready")
        lines = instructions("throws", target("throws"), ["*"])
        lines += instructions("libgcc_s", module_path(p.pid, "libgcc_s"), ["*"])
        lines += instructions("libstdc++", module_path(p.pid, "libstdc++"),
                              ["__cxa*", "__gxx*", "_ZNSs*", "std::string*",
                                                                             "operator *"])
        t = trace_start("-o", "/dev/null", "-p", p.pid, "-f", event_file(d, lines))
        armed(t, p)
        time.sleep(1)
        err = finish(t, p)
        total = rows_of(err)["total"]
        assert probes_of(err) == len(lines) and total["hits"] > 1000 and not total["missed"], (len(lines), total)
        print("# figure: C++, %d instructions probed at once, %d hits" % (len(lines), total["hits"]))
        forget(t)
        assert stop(p) == 0
        out = p.stdout.read()
        assert "bad 0" in out, out


run()
