# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The format html, in a browser: the page works by mouse and keys, asks nothing of a network, and takes no text of a
program for markup."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from browser import Browser  # noqa: E402
from tap import *  # noqa: E402,F403

TREE = target("tree")
READY = "typeof report === 'object' && report.ready === true"
pages = {}


def path(name):
    return os.path.join(tempfile.tempdir, name)


def page_of(file, dark=False):
    """The page in a browser, which is kept; nothing but the file is asked for, and nothing goes wrong."""
    if dark not in pages:
        pages[dark] = Browser(dark)
    page = pages[dark]
    page.requests.clear()
    page.errors.clear()
    page.seconds = page.open(file, READY)
    return page


def clean(page):
    assert page.requests == [page.requests[0]] and page.requests[0].startswith("file://"), page.requests
    assert not page.errors, page.errors


def tree():
    """A page of the calls of a program."""
    need("chromium")
    if not os.path.exists(path("tree.html")):
        dprobes("record", "-o", path("tree.dpt"), "p tree:leaf sp=%sp n=$arg1:s64", "r tree:leaf sp=%sp v=$retval",
                "p tree:deeper sp=%sp", "r tree:deeper sp=%sp", "p tree:round_of sp=%sp", "r tree:round_of sp=%sp",
                "p:here tree:worker at=%ip:symbol", "--", TREE, check=0)
        dprobes("report", "--format", "html", "-o", path("tree.html"), path("tree.dpt"), check=0)
    return path("tree.html")


def column(page, box, i):
    return page.eval("Array.from(document.querySelectorAll('#%s tbody tr'), tr => tr.children[%d].textContent)" %
                     (box, i))


def tab(page, name):
    page.click_on("nav button[data-of=p-%s]" % name)


@test
def head():
    """the head says what was traced, where and when, and how much; each tab shows its part; nothing is loaded"""
    page = page_of(tree())
    events = json_lines(dprobes("report", "--json", path("tree.dpt"), check=0).stdout)
    title, facts = page.eval("document.getElementById('title').textContent + '|' +"
                             "document.getElementById('facts').textContent").split("|")
    assert title.startswith("tree (") and "leaf" in title and "here" in title, title
    assert os.uname().nodename in facts and os.uname().release in facts, facts
    assert "{:,} events".format(len(events)) in facts, facts
    for name in ("time", "flame", "functions", "durations", "tables", "counts", "events"):
        tab(page, name)
        assert page.eval("Array.from(document.querySelectorAll('section.on'), s => s.id)") == ["p-" + name]
    clean(page)


@test
def time_line():
    """the time line zooms and moves by keys, wheel and mouse; a click on a call shows it, and leads to the list"""
    page = page_of(tree())
    whole = page.eval("report.timeRange()")
    page.key("w")
    near = page.eval("report.timeRange()")
    assert abs((near[1] - near[0]) / (whole[1] - whole[0]) - 0.7) < 0.01, (whole, near)
    page.key("d")
    moved = page.eval("report.timeRange()")
    assert moved[0] > near[0] and abs((moved[1] - moved[0]) - (near[1] - near[0])) < 1
    page.mouse("mouseWheel", 700, 300, deltaX=0, deltaY=-400)
    page.until("report.timeRange()[1] - report.timeRange()[0] < %f" % (moved[1] - moved[0]))
    page.key("0")
    assert page.eval("report.timeRange()") == whole
    # a call of leaf, brought into view, under the mouse
    page.eval("(() => { const s = report.slices.flat().find(s => report.functions[s.event] === 'deeper' && !s.depth);"
              " window.wanted = s; report.toTime(s.begin - s.took, s.begin + 2 * s.took); })()")
    page.frames()
    at = page.eval("""(() => {
      const b = document.getElementById('time').getBoundingClientRect(), c = document.getElementById('time');
      for (let y = 30; y < b.height; y += 4) {
        const x = b.x + 150 + (b.width - 150) / 2;
        c.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: b.y + y }));
        const tip = document.getElementById('tip');
        if (!tip.hidden && tip.textContent.startsWith('deeper\\n'))
          return [x, b.y + y];
      }
    })()""")
    assert at, page.eval("document.getElementById('tip').textContent")
    page.click(*at)
    text = page.eval("document.getElementById('detail').textContent")
    assert "deeper\n" in text and "itself" in text and "tree-" in text, text
    page.click_on("#detail button")
    assert page.eval("report.shown") == "p-events"
    assert "deeper" in page.eval("document.querySelector('#event-rows .row.on').textContent")
    clean(page)


@test
def functions():
    """the table of functions has the calls that graph --summary has, sorts by clicks and is searched; a function leads
    to its durations"""
    page = page_of(tree())
    tab(page, "functions")
    names, calls = column(page, "functions", 0), column(page, "functions", 1)
    out = dprobes("report", "-q", "--format", "graph", "--summary", path("tree.dpt"), check=0).stdout
    rows = re.findall(r"^ +[\d.]+ +\w+ +[\d.]+ +\w+ +[\d.]+ +\w+ +(\d+)  (\w+)$", out, re.M)
    assert {n: int(c.replace(",", "")) for n, c in zip(names, calls)} == {n: int(c) for c, n in rows}, (rows, calls)
    page.click_on("#functions th:nth-child(2)")
    down = [int(n.replace(",", "")) for n in column(page, "functions", 1)]
    page.click_on("#functions th:nth-child(2)")
    up = [int(n.replace(",", "")) for n in column(page, "functions", 1)]
    assert len(up) == 3 and down == sorted(down, reverse=True) and up == sorted(up), (down, up)
    page.key("/")
    page.type("deep")
    assert column(page, "functions", 0) == ["deeper"]
    page.click_on("#functions tbody tr")
    assert page.eval("report.shown") == "p-durations" and "median" in page.eval(
        "document.getElementById('duration-facts').textContent")
    drawn = page.eval("['bars', 'heat'].map(id => { const c = document.getElementById(id);"
                      " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v); })")
    assert drawn == [True, True]
    b = page.eval("(() => { const b = document.getElementById('heat').getBoundingClientRect();"
                  " return [b.x + b.width / 2, b.y + 4]; })()")
    page.click(*b)
    near = page.eval("report.timeRange()")
    assert page.eval("report.shown") == "p-time" and near[1] - near[0] < page.eval("report.range.to") / 100
    clean(page)


@test
def events():
    """the list of events holds only what is visible, is searched by text, pattern, event and thread, and leads to the
    time line"""
    page = page_of(tree())
    tab(page, "events")
    n = page.eval("report.records.n")
    assert 5 < page.eval("document.querySelectorAll('#event-rows .row').length") < 100 < n
    page.eval("document.getElementById('event-box').scrollTop = 1e9")
    page.frames()
    page.until("document.querySelector('#event-rows').lastChild.textContent.includes("
               "report.stamp(report.records.ns[report.records.n - 1]))")
    page.key("/")
    page.type("/^n=6$/")
    # What has been typed is searched for as soon as the keys rest for a moment, also when that was not all.
    page.until("(texts => texts.length && texts.every(t => t === 'n=6'))(Array.from("
               "document.querySelectorAll('#event-rows .row'), e => e.lastChild.textContent))")
    assert " of " in page.eval("document.getElementById('event-found').textContent")
    page.key("Escape")
    page.eval("(() => { const s = document.getElementById('event-of'); s.value = 'here';"
              " s.dispatchEvent(new Event('change')); })()")
    assert page.eval("document.querySelectorAll('#event-rows .row').length") == 3
    page.click_on("#event-rows .row")
    assert "at=worker+0x" in page.eval("document.getElementById('event-detail').textContent")
    page.click_on("#event-detail button")
    assert page.eval("report.shown") == "p-time"
    clean(page)


@test
def flame():
    """the flame graph is searched and zoomed as the format flame"""
    page = page_of(tree())
    tab(page, "flame")
    page.key("/")
    page.type("leaf")
    page.key("Enter")
    found = page.eval("document.querySelector('.flame .found').textContent")
    assert re.search(r"search: leaf +\d+ found", found), found
    page.key("Escape")
    assert page.eval("document.querySelector('.flame .found').textContent") == ""
    page.click_on("#flame-box g.f[data-d='1']")
    assert page.eval("document.querySelectorAll('.flame g.off').length") > 0
    clean(page)


@test
def lines():
    """lines with names and tables: tables by key, histograms, calls of which $duration tells; the program has ended"""
    need("chromium")
    dprobes("trace", "--format", "html", "-o", path("lines.html"), "r tree:leaf $duration $retval",
            "p tree:deeper count by $comm", "r tree:leaf hist($duration)", "p tree:leaf count by $backtrace", "--",
            TREE, check=0)
    page = page_of(path("lines.html"))
    counts = page.eval("report.byFunction.map(f => [f.name, f.calls])")
    assert len(counts) == 1 and counts[0][0] == "leaf" and counts[0][1] == page.eval("report.records.n") > 300, counts
    tab(page, "tables")
    captions = page.eval("Array.from(document.querySelectorAll('#tables caption'), c => c.textContent)")
    assert len(captions) == 3 and any("deeper (count) of" in c for c in captions), captions
    text = page.eval("document.getElementById('tables').textContent")
    assert "tree" in text and "from deeper+0x" in text and "from worker+0x" in text, text[:2000]
    assert "leaf" in page.eval("document.getElementById('title').textContent")
    clean(page)


@test
def programs():
    """a program in C has its records and tables in a page; an argument of a user's that is called duration is none"""
    need("chromium")
    with open(path("p.dpc"), "w") as f:
        f.write("""#pragma MODNAME("%s")
                   #pragma MODTYPE(user)
                   #pragma PROBEPOINT_LOCATION("leaf")
                   #pragma PROBEPOINT_HANDLER("at_leaf")
                   void at_leaf() { long n = $arg1; if (n > 5) log(n); count(values, n); }\n""" % TREE)
    dprobes("trace", "-f", path("p.dpc"), "--format", "html", "-o", path("p.html"), "--", TREE, check=0)
    page = page_of(path("p.html"))
    assert page.eval("report.records.n") > 0 and page.eval("report.tables.length") == 1
    assert re.match(r"n = ([6-9]|\d\d)$", page.eval("report.records.texts[0]")), page.eval("report.records.texts[0]")
    clean(page)
    dprobes("trace", "--format", "html", "-o", path("d.html"), "p tree:leaf duration=$arg1:u64", "--", TREE, check=0)
    page = page_of(path("d.html"))
    assert page.eval("report.records.n") > 300 and page.eval("report.byFunction.length") == 0


HOSTILE = r"""
#include <string.h>
#include <sys/prctl.h>
static volatile int sum;
__attribute__((noinline)) void leaf(const char *s) { sum += s[0]; }
__attribute__((noinline)) void evil(const char *s) { leaf(s); __asm__ volatile(""); }
int main(void)
{
	static const char *const texts[] = {"</script><script>window.owned = 1</script>", "<img src=x onerror=owned=1>",
					    "\"'><svg onload=owned=1>", "<!--<script>",
					    "\xe2\x80\xa8\xff\x01 &lt;b&gt;"};

	prctl(PR_SET_NAME, "<b>&lt;</b>");
	for (int i = 0; i < 50; i++)
		evil(texts[i % 5]);
	return 0;
}
"""
SYMBOL = "</script><img/src=x/onerror=owned=1>"


@test
def hostile():
    """strings, symbols and names of tasks of a hostile program are texts, in records, tables, call stacks and
    pictures"""
    need("chromium", "objcopy")
    plain, program = compiled(tempfile.tempdir, "plain", HOSTILE, "-O1", "-fno-omit-frame-pointer"), path("<u>evil")
    subprocess.run(["objcopy", "--redefine-sym", "evil=" + SYMBOL, plain, program], check=True)
    dprobes("record", "-o", path("hostile.dpt"), "p exe:leaf text=+0($arg1):string bt=$backtrace", "--", program,
            check=0)
    dprobes("report", "--format", "html", "-o", path("hostile.html"), path("hostile.dpt"), check=0)
    dprobes("trace", "--format", "html", "-o", path("tables.html"), "p exe:leaf t=+0($arg1):string",
            "p exe:leaf count by $comm, $backtrace", "p exe:leaf $comm", "--", program, check=0)
    for name in ("hostile.html", "tables.html"):
        page = page_of(path(name))
        for part in page.eval("Object.keys(report.tabs)"):
            page.eval("report.tab(%s)" % json.dumps(part))
            page.frames()
        page.eval("report.toRecord(0)")
        shown = page.eval("document.getElementById('event-detail').textContent") + page.eval(
            "document.getElementById('tables').textContent")
        # Keys of tables are names at the hit; a record's task is named when it is read, perhaps after its end.
        assert SYMBOL in shown and ("<b>&lt;</b>" in shown or (name == "hostile.html" and "<u>evil" in shown)), shown
        assert page.eval("typeof owned") == "undefined"
        assert page.eval("document.querySelectorAll('img, b, u, main script, [onerror], [onload]').length") == 0
        clean(page)
    page = page_of(path("hostile.html"))
    assert page.eval("document.getElementById('title').textContent").startswith("<u>evil")
    assert "</script><script>window.owned = 1</script>" in page.eval("report.records.texts[0]")
    assert SYMBOL in page.eval("document.getElementById('flame-box').textContent")


MANY = 250000


@test
def large():
    """a trace of 10 MB is usable: a picture is drawn, and the list is searched"""
    need("chromium")
    p = start([target("simple")], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline().startswith("ready")
    dprobes("record", "-o", path("large.dpt"), "-p", p.pid, "--max-events", "%d" % MANY, "-q", "--buffer", "64M",
            "p outer n=%di:s64", "r outer", "p work", "r work", check=0)
    stop(p)
    dprobes("report", "-q", "--format", "html", "-o", path("large.html"), path("large.dpt"), check=0)
    page = page_of(path("large.html"))
    print("# %.1f MB of recording, %.1f MB of page: usable after %.2f s" % (
        os.path.getsize(path("large.dpt")) / 1e6, os.path.getsize(path("large.html")) / 1e6, page.seconds), flush=True)
    assert page.eval("report.records.n") == MANY
    assert page.eval("(() => { const c = document.getElementById('time');"
                     " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v); })()")
    for key in "wwwwdda0":
        page.key(key)
    tab(page, "events")
    page.key("/")
    page.type("n=1")
    page.until("document.getElementById('event-found').textContent.includes(' of ')")
    clean(page)


@test
def schemes():
    """the page follows the colour scheme, light or dark"""
    def lightness(dark):
        page = page_of(tree(), dark)
        color = page.eval("getComputedStyle(document.body).backgroundColor")
        return sum(int(n) for n in re.findall(r"\d+", color)[:3])

    assert lightness(False) > 600 and lightness(True) < 200


run()
