# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Pages for newcomers: their commands run as they stand there, and print what the page shows, by its form."""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import pages  # noqa: E402
from tap import *  # noqa: E402,F403

PAGES = ("doc/tutorial.md", "doc/tasks.md")
pool = ThreadPoolExecutor(len(PAGES))  # they wait most of the time
running = {}


def check(page):
    need("bash", "gcc", "make")
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

run()
