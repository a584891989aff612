# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the help, the manual page and the completion of bash say of options is what is parsed."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from tap import *  # noqa: E402,F403

BUILD = os.environ["DP_BUILD"]
# Second forms of a subcommand, told by what they begin with.
FORMS = {"trace": ("trace", "-f", "x.rpn"), "vars": ("vars", "main")}


def options_of(text):
    """--name -> (letter or "", whether it has a value), from a help."""
    lines = re.findall(r"^  (?:(-\w), |    )(--[a-z-]+)( \S+)?(?:  |$)", text.split("\nOptions:\n")[1], re.M)
    return {name: (letter, bool(value)) for letter, name, value in lines}


def whole_help(name, form=1):
    """What `dprobes help` tells of a form of a subcommand."""
    return ("\n" + dprobes("help", name, check=0).stdout).split("\nusage:")[form]


def forms():
    """The words that begin each form of a subcommand -> its options."""
    names = re.findall(r"^  ([a-z]+) ", dprobes("help", check=0).stdout.split("\n\n")[1], re.M)
    found = {(name,): options_of(whole_help(name)) for name in names}
    found.update({words: options_of(whole_help(name, 2)) for name, words in FORMS.items()})
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
    """each subcommand's page has the options of its help, with their letters and values"""
    for form, options in forms().items():
        page = text_of(os.path.join(BUILD, "doc", "dprobes-%s.1" % form[0]))
        assert not re.search("^@", page, re.M), form
        parts = re.split(r"^\.SH .*\n", page, flags=re.M)
        texts = [part for part in parts if r"\fB\-\-" in part and ".TP" in part]
        text = "".join(texts[:1] if len(form) == 1 else texts[1:2])
        lines = re.findall(r"^\.TP\n(?:\\fB\\(-\w)\\fR, )?\\fB\\-\\-([a-z\\-]+)\\fR( \\fI.*)?$", text, re.M)
        told = {"--" + option.replace("\\", ""): (letter, bool(value)) for letter, option, value in lines}
        options.pop("--help")
        assert told == options, (form, told, options)


def complete(*words):
    """What bash offers for the last of these words."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dprobes; printf "%s\\n" "${COMPREPLY[@]}"'
    where = os.path.join(BUILD, "src", "cmd")
    r = subprocess.run(["bash", "-c", script, "bash", os.path.join(where, "dprobes.bash"), "dprobes", *words],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=where)
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
    parts = (whole_help(name).split("\nFormats:\n")[1].split("\n\n")[0] for name in ("trace", "vars"))
    of_events, of_records = (set(re.findall(r"^  ([a-z]+) ", part, re.M)) for part in parts)
    assert len(of_events) > len(of_records) > 2 and of_records < of_events
    assert complete("trace", "--format", "=", "") == of_events and complete("vars", "--format", "") == of_records
    assert complete("insert", "--jit", "o") == {"on", "off"} and complete("-i", "--jit", "a") == {"auto"}
    assert complete("kernel", "l") == {"load"} and "dprobes.bash" in complete("kernel", "load", "dprobes.b")
    for words in (("--output",), ("--",), ("-p", "1", "-o")):
        assert "dprobes.bash" in complete("trace", *words, "dprobes."), words
    assert not complete("trace", "--duration", "") and not complete("verify", "")


run()
