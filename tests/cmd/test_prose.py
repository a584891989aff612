#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The prose of the documents: diction finds no weak phrase and no doubled word, style no sentence that is too long.
phrases.txt holds phrases of our own for diction, prose.txt what diction objects to and is meant."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
WORDS = 50  # of a sentence, at most
DIR = tempfile.mkdtemp()


def listed(name):
    """The lines of a file here, without comments; of two columns the first."""
    return {line.split("\t")[0].strip().lower() for line in text_of(os.path.join(HERE, name)).splitlines()
            if line.strip() and not line.startswith("#")}


def word_for(code):
    """A word in the place of code. They differ: a word that is repeated is a mistake."""
    word_for.n = (getattr(word_for, "n", 0) + 1) % 20
    return "Code" + "abcdefghijklmnopqrst"[word_for.n] + "\n" * code[0].count("\n")


def prose_of(text):
    """The sentences of a document, each where it stands: without examples, tables and code, and with headings and
    items as sentences of their own."""
    lines, literal = [], False
    for line in text.split("\n"):
        literal ^= line.startswith("```")
        lines.append("" if literal or line.startswith(("```", "|", "    ", "![")) else line)
    text = re.sub(r"\]\([^)]*\)|\*\*", "", "\n".join(lines))
    out = []
    for line in re.sub(r"`(?:(?!\n\n)[^`])*`", word_for, text).split("\n"):
        if line.startswith("#"):
            line = line.lstrip("# ") + "."
        if (not line or re.match(r" *(- |\d+\. )", line)) and out and re.search(r"[^.!?:\s]$", out[-1]):
            out[-1] += "."
        out.append(line)
    return "\n".join(out)


def pages():
    """The documents as files of sentences, in a directory of their own."""
    need("diction", "style")
    names = ["README.md", "CONTRIBUTING.md"] + sorted(
        os.path.join("doc", name) for name in os.listdir(os.path.join(ROOT, "doc")) if name.endswith(".md"))
    assert len(names) > 20, names
    for name in names:
        with open(os.path.join(DIR, os.path.basename(name)), "w") as f:
            f.write(prose_of(text_of(os.path.join(ROOT, name))))
    return [os.path.basename(name) for name in names]


def output(*argv):
    """What it prints, as place, text, place, text..."""
    r = subprocess.run(argv, cwd=DIR, stdout=subprocess.PIPE, text=True, errors="replace")
    # Newer versions tell where a sentence begins and ends, with columns.
    return re.split(r"^([\w.-]+\.md:\d+)(?:\.\d+-\d+\.\d+)?: ", r.stdout, flags=re.M)[1:]


@test
def phrases():
    """diction finds no phrase that has a better one, and no doubled word"""
    own, meant = listed("phrases.txt"), listed("prose.txt")
    parts = output("diction", "-b", "-s", "-L", "en", "-f", os.path.join(HERE, "phrases.txt"), *pages())
    odd = []
    for place, text in zip(parts[::2], parts[1::2]):
        text = " ".join(text.split())
        for phrase, why in re.findall(r"\[([^][]*?)\s+->\s+([^]]*)\]", text):
            # What diction knows of single words is a reminder of their use, not a mistake; and a word is not doubled
            # when there is a comma between.
            doubled = why == "Double word." and " %s [%s ->" % (phrase, phrase) in text
            phrase = phrase.lower()
            if phrase not in meant and (" " in phrase or phrase in own or doubled):
                odd.append("%s: %s -> %s" % (place, phrase, why))
    assert parts and not odd, "\n".join(odd)


@test
def sentences():
    """no sentence has more than 50 words"""
    long = output("style", "-L", "en", "-l", str(WORDS), *pages())
    assert not long, "\n".join("%s: %s" % (place, text.split("\n")[0]) for place, text in zip(long[::2], long[1::2]))


run()
