# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the help, the manual page and the completion of bash say of options is what is parsed."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

MADE = os.path.join(os.environ["DP_BUILD"], "src", "cmd")
# Second forms of a subcommand, told by what they begin with, with their headings in the page.
FORMS = {"trace \\-f \\fIPROGRAM\\fR": ("trace", "-f", "x.rpn"), "vars \\fIPLACE\\fR": ("vars", "main")}


def options_of(text):
    """--name -> (letter or "", whether it has a value), from a help."""
    lines = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)( \S+)?(?:  |$)", text.split("\nOptions:\n")[1], re.M)
    return {name: (letter, bool(value)) for letter, name, value in lines}


def forms():
    """The words that begin each form of a subcommand -> its options."""
    names = re.findall(r"^  ([a-z]+) ", dprobes("--help", check=0).stdout, re.M)[:-4]
    words = [(name,) for name in names] + list(FORMS.values())
    found = {form: options_of(dprobes(*form, "--help", check=0).stdout) for form in words}
    assert len(found) > 20 and len(found[("insert",)]) > 15, found
    return found


@test
def parsed():
    """each subcommand takes the options of its help, by name and by letter, and no others"""
    known = forms()
    every = sorted({name for options in known.values() for name in options})
    for form, options in known.items():
        for name in every:
            if form == ("vars",) and name == "--pid":
                continue  # begins the second form
            value = options.get(name, ("", False))[1]
            r = dprobes(*form, name if value else name + "=x", check=2)
            want = "E-CMD-OPTION" if name not in options else "E-CMD-MISSING" if value else "E-CMD-VALUE"
            assert want in r.stderr and name in r.stderr, (form, name, r.stderr)
        for name, (letter, value) in options.items():
            if letter and value:
                r = dprobes(*form, letter, check=2)
                assert "E-CMD-MISSING" in r.stderr and name + " needs" in r.stderr, (form, letter, r.stderr)


@test
def manual():
    """the manual page has the options of each help, with their letters and values"""
    with open(os.path.join(MADE, "dprobes.1")) as f:
        page = f.read()
    assert not re.search("^@", page, re.M)
    sections = re.findall(r"^\.SS (.*)\n((?:(?!\.S[SH] ).*\n)*)", page, re.M)
    told = {}
    for heading, text in sections:
        lines = re.findall(r"^\.TP\n(?:\\fB\\(-\w)\\fR, )?\\fB\\-\\-([a-z\\-]+)\\fR( \\fI.*)?$", text, re.M)
        for name in [heading] if heading in FORMS else heading.split(", "):
            assert FORMS.get(name, (name,)) not in told, name
            told[FORMS.get(name, (name,))] = {"--" + option.replace("\\", ""): (letter, bool(value))
                                              for letter, option, value in lines}
    for form, options in forms().items():
        options.pop("--help")
        assert told.get(form, {}) == options, (form, told.get(form), options)


def complete(*words):
    """What bash offers for the last of these words."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dprobes; printf "%s\\n" "${COMPREPLY[@]}"'
    r = subprocess.run(["bash", "-c", script, "bash", os.path.join(MADE, "dprobes.bash"), "dprobes", *words],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=MADE)
    assert not r.stderr, r.stderr
    return set(r.stdout.split())


@test
def completion():
    """bash completes subcommands, the options of each help, and values by their kinds"""
    known = forms()
    assert complete("") == {form[0] for form in known} | {"--help", "--version"}
    assert complete("tr") == {"trace"}
    for name in {form[0] for form in known}:
        both = [options for form, options in known.items() if form[0] == name]
        letters = {letter for options in both for letter, value in options.values() if letter}
        assert complete(name, "-") == {n for options in both for n in options} | letters, name
        for option in {n for options in both for n, (letter, value) in options.items() if not value}:
            assert not complete(name, option, "--ver"), (name, option)
    assert str(os.getpid()) in complete("list", "-p", "") and str(os.getpid()) in complete("trace", "--pid", "=")
    of_events, of_records = (set(re.findall(r"^  ([a-z]+) ", shown.split("\nFormats:\n")[1], re.M)) for shown in
                             (dprobes(*words, "--help", check=0).stdout for words in (("trace",), ("--getvars",))))
    assert len(of_events) > len(of_records) > 2 and of_records < of_events
    assert complete("trace", "--format", "=", "") == of_events and complete("vars", "--format", "") == of_records
    assert complete("insert", "--jit", "o") == {"on", "off"} and complete("-i", "--jit", "a") == {"auto"}
    assert complete("kernel", "l") == {"load"} and "dprobes.bash" in complete("kernel", "load", "dprobes.b")
    for words in (("--output",), ("--",), ("-p", "1", "-o")):
        assert "dprobes.1" in complete("trace", *words, "dprobes."), words
    assert not complete("trace", "--duration", "") and not complete("verify", "")


run()
