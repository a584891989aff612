# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the help and the pages of the manual say of options is what is parsed."""
import os
import re
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


run()
