# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Pages for newcomers: their commands run as they stand there, and print what the page shows, by its form."""
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import pages  # noqa: E402
from tap import *  # noqa: E402,F403

PAGES = ("README.md", "doc/tutorial.md", "doc/tasks.md", "doc/troubleshooting.md")
pool = ThreadPoolExecutor(len(PAGES))  # they wait most of the time
running = {}


def check(page):
    need("bash", "gcc", "make", "unshare")
    if os.getuid():
        raise Skip("needs root: processes of their own")
    for name in PAGES:
        if name not in running:
            running[name] = pool.submit(pages.failures, os.path.join(pages.ROOT, name), os.path.dirname(DPROBES),
                                        None if debug_registers() else "dprobes watch")
    bad, count = running[page].result()
    assert not bad, "\n\n".join(bad)
    assert count > 5, count


for name in PAGES:
    def one(page=name):
        check(page)
    one.__doc__ = "%s: each command prints what the page shows" % name
    test(one)

@test
def recipes():
    """each recipe that a page names is there"""
    named = set()
    for page in PAGES:
        text = text_of(os.path.join(pages.ROOT, page))
        named |= set(re.findall(r"dprobes run ([a-z][a-z-]+)", text))
        if page == "README.md":
            rows = re.search(r"^## Recipes.*?^## ", text, re.M | re.S)[0]
            named |= set(re.findall(r"`([a-z][a-z-]+)`", rows))
    assert len(named) > 20, named
    there = set(re.findall(r"^ *([a-z][a-z-]+)  ", dprobes("run", check=0).stdout, re.M))
    assert named <= there, named - there


@test
def written():
    """what stands between lines of ``` in these pages and begins with dprobes is run: it has a $ in front"""
    for page in PAGES:
        literal = False
        for line in text_of(os.path.join(pages.ROOT, page)).splitlines():
            literal ^= line.startswith("```")
            assert not re.match(r"(    |\t)dprobes " if not literal else r"(sudo )?dprobes ", line) or \
                "E-" in line, (page, line)


@test
def picture():
    """the flame graph of the README is made again by its script, with the functions that it shows"""
    need("make", "gcc")
    script = os.path.join(pages.ROOT, "doc", "pictures", "make.sh")
    out = tempfile.mkdtemp()
    subprocess.run([script, out], check=True, env=dict(os.environ, SECONDS_TRACED="0.5"))

    def functions(folder):
        return set(re.findall(r'data-n="(\w+)"', text_of(os.path.join(folder, "shop.svg"))))

    assert functions(out) >= {"handle_order", "check_credit", "reserve"} <= functions(os.path.dirname(script))


run()
