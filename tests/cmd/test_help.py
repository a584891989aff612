# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Help that fits a screen, topics whose examples work, and pages for all that is cited."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
PAGES = os.path.join(os.environ["DP_BUILD"], "doc")
TUTORIAL = os.path.join(os.environ["DP_BUILD"], "examples", "tutorial")
DIR = tempfile.mkdtemp(prefix="dp-help-")


def listed(part):
    """Names of `dprobes help`: 1, the subcommands; 2, the other topics."""
    return re.findall(r"^  ([a-z]+) ", dprobes("help", check=0).stdout.split("\n\n")[part], re.M)


def fits(text, lines=None):
    assert max(map(len, text.splitlines())) <= 80, max(text.splitlines(), key=len)
    assert not lines or len(text.splitlines()) <= lines, text


@test
def screen():
    """--help and topics fit 24 lines of 80 columns; what is left out of a help, `help NAME` tells"""
    fits(dprobes("--help", check=0).stdout, 24)
    fits(dprobes("help", check=0).stdout)
    for name in listed(1):
        short, whole = dprobes(name, "--help", check=0).stdout, dprobes("help", name, check=0).stdout
        fits(short, 24)
        fits(whole)
        left_out = short.endswith("`dprobes help %s` tells all.\n" % name)
        assert left_out or short in whole, name
        for option in re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", short, re.M):
            assert option in whole, (name, option)
    for name in listed(2):
        fits(dprobes("help", name, check=0).stdout, 24)


@test
def topics():
    """a wrong topic has a suggestion; codes are topics; each example for a process works on a program"""
    for wrong, hint in (("evens", "mean `dprobes help events`?"), ("trance", "help trace"), ("xyzzy", "topics")):
        r = dprobes("help", wrong, check=2)
        assert "E-CMD-TOPIC" in r.stderr and hint in r.stderr, r.stderr
    assert dprobes("help", "e-site-midinsn", check=0).stdout == dprobes("explain", "E-SITE-MIDINSN", check=0).stdout
    assert "E-CMD-EXTRA" in dprobes("help", "events", "x", check=2).stderr
    shop = os.path.join(DIR, "shop")
    source = os.path.join(ROOT, "tests", "process", "shop.c")
    subprocess.run(["gcc", "-g", "-O1", "-o", shop, source], check=True)
    run_here = 0
    for name in listed(2):
        program = (os.path.join(TUTORIAL, "shop"), 1, "order") if name == "tutorial" else (shop, 3, "add")
        for line in re.findall(r"^  dprobes (trace -p shop .*)", dprobes("help", name, check=0).stdout, re.M):
            script = 'exec "$DPROBES" %s -- %s %d' % (line.replace("-p shop", ""), *program[:2])
            r = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert r.returncode == 0 and "E-" not in r.stderr and " 0 never hit" in r.stderr, (line, r)
            assert program[2] in r.stdout, (line, r)
            run_here += 1
    assert run_here > 10, run_here


@test
def pages():
    """each subcommand has a page, each page that is cited is there, and man finds nothing wrong with them"""
    there = {os.path.basename(page) for page in glob.glob(os.path.join(PAGES, "*.[1-8]"))}
    assert {"dprobes-%s.1" % name for name in listed(1)} <= there, there
    cited = set()
    for top, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if re.search(r"\.(c|h|def)$", name):
                for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', text_of(os.path.join(top, name))):
                    cited |= set(re.findall(r"\b((?:lib)?(?:dprobes|dpcc)[a-z.-]*)\((\d)\)", text))
                    assert not re.search(r"\bdoc/[a-z.-]+\.md", text), (name, text)
    for page in there:
        text = text_of(os.path.join(PAGES, page)).replace("\\-", "-")
        cited |= set(re.findall(r"^\.BR ((?:lib)?(?:dprobes|dpcc)[a-z.-]*) \((\d)\)", text, re.M))
        r = subprocess.run(["man", "--warnings=w", "-E", "UTF-8", "-l", os.path.join(PAGES, page)], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, MANWIDTH="100"))
        warned = [line for line in r.stderr.splitlines() if "adjust line" not in line and "break line" not in line]
        assert r.returncode == 0 and not warned, (page, warned)
        assert len(r.stdout.splitlines()) > 15, page
        if shutil.which("mandoc"):
            r = subprocess.run(["mandoc", "-Tlint", "-W", "warning", os.path.join(PAGES, page)], text=True,
                               stdout=subprocess.PIPE)
            warned = [line for line in r.stdout.splitlines() if not re.search("missing date|paragraph macro", line)]
            assert not warned, warned
    missing = {"%s.%s" % name for name in cited} - there
    assert len(cited) > 20 and not missing, missing


def installed():
    """Paths that an installation has, below its prefix."""
    r = subprocess.run(["meson", "introspect", os.environ["DP_BUILD"], "--installed"], stdout=subprocess.PIPE,
                       check=True)
    return set(json.loads(r.stdout).values())


@test
def documents():
    """each document, page and picture that an installed document or a message names is installed, too"""
    need("meson")
    paths = installed()
    there = {os.path.basename(path) for path in paths if "/doc/dprobes/" in path or "/man/" in path}
    documents = sorted(name for name in there if name.endswith(".md"))
    assert len(documents) > 20, documents
    missing = set()
    for name in documents + ["../README.md"]:
        text = text_of(os.path.join(ROOT, "doc", name))
        cited = set(re.findall(r"\bdoc/([a-z.-]+\.md)\b", text)) | set(re.findall(r"pictures/([a-z-]+\.svg)", text))
        cited |= {"%s.%s" % page for page in re.findall(r"\b((?:lib)?(?:dprobesd?|dpcc)[a-z.-]*)\((\d)\)", text)}
        cited |= {page + "." for page in re.findall(r"`man (dp[a-z.-]+)`", text)}
        missing |= {(name, what) for what in cited if not any(file.startswith(what) for file in there)}
        for example in re.findall(r"\bexamples/[\w./-]*\w", text):
            if not os.path.exists(os.path.join(ROOT, re.sub(r"\.ko$", ".c", example))):
                missing.add((name, example))
    assert not missing, missing


@test
def library():
    """each function that libdprobes offers has a page or a link to one, and the page has its declaration"""
    headers = [os.path.join(ROOT, "include", "dprobes", name + ".h") for name in ("exits", "hooks", "kprobes", "watch")]
    r = subprocess.run([os.path.join(ROOT, "doc", "man3.py"), "--names", *headers], stdout=subprocess.PIPE, text=True,
                       check=True)
    page_of = dict(line.split() for line in r.stdout.splitlines())
    offered = set(re.findall(r"\b\w+(?=;)", text_of(os.path.join(ROOT, "src", "host", "self", "libdprobes.map"))))
    offered -= {"dp_hook_me", "dp_hook_thread", "dp_hook_module", "dp_self_hooks", "dp_self_registry", "dp_self_exits",
                "dp_self_exit_call"}  # inside
    assert len(offered) > 25 and offered <= set(page_of), offered - set(page_of)
    for name, page in page_of.items():
        text = text_of(os.path.join(PAGES, page + ".3"))
        synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH ", text, re.M | re.S)[1]
        assert re.search(r"(?:\b|\\fB)%s\(" % name, synopsis), (name, page)


run()
