#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Which files does a command try to open, and which of them are not there?

    python3 opens.py ls /tmp
"""
import sys

import dprobes

LINE = "s openat $path $ret"

with dprobes.trace(LINE, command=sys.argv[1:] or ["true"], stdout=sys.stderr) as t:
    for event in t:
        print("%-10s %s" % ("missing" if event.args.ret == -2 else "opened", event.args.path))
sys.exit(t.status)
