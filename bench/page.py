#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""One page of what the benchmarks measured, with the facts of the machine: HTML with its pictures inside, which asks
for nothing from elsewhere.

Usage: page.py BUILD_DIR OUTPUT (reads hits.json, tools.json and apps.json beside OUTPUT, those that are there)"""
import html
import json
import math
import os
import platform
import subprocess
import sys
import time

STYLE = """
:root { color-scheme: light dark; --ours: #1a7f5a; --others: #9a6a1f; --faint: #8884; }
@media (prefers-color-scheme: dark) { :root { --ours: #4fc796; --others: #d9a24a; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68em; margin: 2em auto; padding: 0 1em; }
h2 { margin-top: 2em; } table { border-collapse: collapse; } td, th { padding: 2px 12px 2px 0; text-align: left; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } tr { border-bottom: 1px solid var(--faint); }
svg rect { fill: var(--others); } svg rect.ours { fill: var(--ours); } .why { opacity: .7; }
pre { overflow-x: auto; font-size: 12px; }
"""
JOBS = ["unprobed", "empty probe", "condition that does not hold", "record with four arguments",
        "words behind a pointer", "string", "entry and exit"]
WIDTH = 320


def text(v):
    return html.escape(str(v))


def number(v):
    return "%.3g" % v if v < 100 else "{:,.0f}".format(v)


def bar(value, least, most, ours):
    """A bar on a logarithmic scale: rivals are thousands of times apart."""
    share = (math.log(max(value, least)) - math.log(least)) / (math.log(most) - math.log(least) or 1)
    return ('<svg width="%d" height="12" role="img" aria-label="%s"><rect width="%.0f" height="12"%s/></svg>' %
            (WIDTH, number(value), 4 + share * (WIDTH - 4), ' class="ours"' if ours else ""))


def table(title, unit, rows):
    """rows: name, value or None, whether it is ours, why there is no value, what to say beside the value."""
    values = [max(v, 0.01) for _, v, _, _, _ in rows if v is not None]
    if not values:
        return ""
    least, most = min(values) / 2, max(values)
    out = ["<h3>%s</h3><table><tr><th></th><th>%s</th><th></th><th></th></tr>" % (text(title), text(unit))]
    for name, value, ours, why, note in sorted(rows, key=lambda r: (r[1] is None, r[1])):
        if value is None:
            out.append('<tr><td>%s</td><td class="why" colspan="3">not measured: %s</td></tr>' %
                       (text(name), text(why)))
        else:
            out.append('<tr><td>%s</td><td class="n">%s</td><td>%s</td><td>%s</td></tr>' %
                       (text(name), number(value), bar(max(value, 0.01), least, most, ours), text(note)))
    return "\n".join(out + ["</table>"])


def hits(results):
    for place in dict.fromkeys(r["place"] for r in results):
        for job, name in enumerate(JOBS):
            rows = [(r["contender"], r.get("added"), r["ours"], r["skipped"], "") for r in results
                    if r["place"] == place and r["job"] == job and job]
            yield table("%s, first instruction: %s" % (name, place), "ns added to a call", rows)


def tools(results):
    for what in dict.fromkeys(r["what"] for r in results):
        rows = [(r["tool"], r.get("added"), r["ours"], r["skipped"], "") for r in results
                if r["what"] == what and r["tool"] != "(untraced)"]
        yield table(what, "ns added to a call", rows)


def apps(results):
    for app in dict.fromkeys(r["app"] for r in results):
        rows = [(r["contender"], r.get("processor_ratio"), r["ours"], r["skipped"],
                 "%s us a %s" % (number(r["processor"] / 1000), r["unit"]) if r.get("processor_ratio") else "")
                for r in results if r["app"] == app]
        yield table(app, "processor time, unprobed = 1", rows)


def main():
    build, output = sys.argv[1:]
    parts = [("What a hit costs", "hits", hits), ("Tracers", "tools", tools), ("Programs under load", "apps", apps)]
    doctor = subprocess.run([os.path.join(build, "src/cmd/dprobes"), "doctor"], stdout=subprocess.PIPE, text=True,
                            check=False).stdout
    load = "%.1f" % os.getloadavg()[0]
    out = ["<!doctype html><html lang='en'><meta charset='utf-8'><title>Dynamic Probes: benchmark</title>",
           "<meta name='viewport' content='width=device-width'><style>%s</style>" % STYLE,
           "<h1>Dynamic Probes: benchmark</h1>",
           "<p>%s, %s, load %s when this was written. Contenders took turns; medians. Bars are logarithmic. Compare "
           "ratios rather than nanoseconds.</p>" % (text(time.strftime("%F %R")), text(platform.platform()), load)]
    for title, name, show in parts:
        path = os.path.join(os.path.dirname(os.path.abspath(output)), name + ".json")
        if not os.path.exists(path):
            continue
        with open(path) as f:
            out += ["<h2>%s</h2>" % title, *show(json.load(f))]
    out += ["<h2>The machine</h2><pre>%s</pre></html>" % text(doctor)]
    with open(output, "w") as f:
        f.write("\n".join(out) + "\n")
    print("\n%s" % output)


main()
