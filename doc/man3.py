#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The manual pages of libdprobes' functions, from the comments of its public headers.

A header begins with a comment that says what it is for. Lines "/* ---- TITLE ---- */" divide it into sections; each
section whose page is in PAGES becomes one, with what is declared there and the comments in front of it. Usage:
  man3.py --names HEADER...        "NAME PAGE" for all functions and macros, each a page that leads to PAGE
  man3.py PAGE HEADER...           writes a page to standard output"""
import os
import re
import sys

# Page: the header, and the section of it ("": what stands before the first one).
PAGES = {
    "register_kprobe": ("kprobes.h", ""),
    "register_kretprobe": ("kprobes.h", "return probes"),
    "register_jprobe": ("kprobes.h", "jprobes"),
    "dp_kprobes_list": ("kprobes.h", "all probes of the process"),
    "register_watchpoint": ("watch.h", ""),
    "dp_register_exit": ("exits.h", ""),
    "hook_exit_register": ("hooks.h", ""),
    "DECLARE_HOOK": ("hooks.h", "declaring hooks, at file scope"),
    "HOOK": ("hooks.h", "passing hooks"),
}
SECTION = re.compile(r"/\* ---- (.*) ---- \*/$")
GUARD = re.compile(r"#(if|ifdef|ifndef|else|elif|endif|include|pragma|undef)\b|#define DPROBES_\w+_H$|"
                   r"extern \"C\"|[{}]$")

FORWARD = re.compile(r"struct \w+;$")


class Entry:
    """Declarations that one comment describes: its paragraphs, and their lines as they stand."""

    def __init__(self, comment):
        self.comment, self.code = comment, []


def text_of_comment(lines):
    """A comment's text, without its marks."""
    text = "\n".join(lines)
    text = re.sub(r"^/\*+ ?\n?|\s*\*/$", "", text)
    return re.sub(r"^ ?\* ?", "", text, flags=re.M).strip("\n")


def declaration_at(lines, i):
    """How many lines the declaration that begins there has."""
    n = depth = 0
    while i + n < len(lines):
        line = lines[i + n]
        n += 1
        if lines[i].startswith("#define"):
            if not line.endswith("\\"):
                break
            continue
        code = re.sub(r"/\*.*?\*/", "", line)
        depth += code.count("{") - code.count("}")
        if depth <= 0 and (code.rstrip().endswith(";") or line == "}"):
            break
    return n


def parse(header):
    """The comment at the head of a header, and its sections: title -> entries."""
    with open(header) as f:
        lines = f.read().split("\n")
    head, title, sections, i = None, "", {"": []}, 0
    pending = None
    while i < len(lines):
        line = lines[i]
        if SECTION.match(line):
            title = SECTION.match(line)[1]
            sections[title], pending, i = [], None, i + 1
        elif line.startswith("/*"):
            n = next(k for k in range(i, len(lines)) if lines[k].rstrip().endswith("*/")) + 1 - i
            comment = text_of_comment(lines[i:i + n])
            if head is None and "SPDX" not in comment:
                head = comment
            elif "SPDX" not in comment:
                pending = comment
            i += n
        elif not line.strip() or GUARD.match(line):
            i += 1
        else:
            n = declaration_at(lines, i)
            entries = sections[title]
            if pending is not None or not entries or not lines[i - 1].strip():
                entries.append(Entry(pending or ""))
            if not FORWARD.match(line):
                entries[-1].code.append(lines[i:i + n])
            pending, i = None, i + n
    return head, sections


def shown(declaration):
    """A declaration as a reader needs it: of inline functions and macros without what is inside."""
    first = declaration[0]
    if first.startswith("#define"):
        m = re.match(r"#define (\w+)(\([^)]*\))?", first)
        return [first.rstrip("\\ ").rstrip()] if not m[2] else [m[1] + m[2]]
    if first.startswith("static"):
        return [first.replace("static inline ", "") + ";"]
    return declaration


def name_of(declaration):
    """The function or function-like macro that is declared, or None; inline functions have no page of their name."""
    first = declaration[0]
    m = re.match(r"#define ([A-Za-z]\w*)\(", first)
    if m:
        return m[1] if not m[1].endswith("_") else None
    if re.match(r"(struct|enum|union)\s+\w+\s*(\{|;)|typedef|extern|static|#", first):
        return None
    m = re.match(r"[\w\s*]+?\b\*?(\w+)\(", first)
    return m[1] if m else None


def names_of(page, headers):
    """What a page describes, in the header's order."""
    header, title = PAGES[page]
    _, sections = parse(headers[header])
    names = [name_of(d) for entry in sections[title] for d in entry.code]
    return [name for name in names if name]


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def put_text(text):
    """Paragraphs, and in them examples, which are indented by a tab."""
    out, literal = [], False
    for line in text.split("\n"):
        if line.strip() and line.startswith("\t") != literal:
            literal = not literal
            out += [".PP", ".in +4n", ".nf"] if literal else [".fi", ".in", ".PP"]
        if line.strip():
            out.append(escaped(line[1:].expandtabs(8) if literal else line.expandtabs(8).lstrip()))
        else:
            out.append("" if literal else ".PP")
    out += [".fi", ".in"] if literal else []
    for n, line in enumerate(out):
        if line != ".PP" or 0 < n < len(out) - 1 and out[n - 1] != ".PP":
            print(line)


def put_code(lines):
    print(".nf")
    for line in lines:
        print("\\fB%s\\fR" % escaped(line.expandtabs(4)))
    print(".fi")


def put_page(page, headers):
    header, title = PAGES[page]
    head, sections = parse(headers[header])
    entries = sections[title]
    names = names_of(page, headers)
    subject = re.match(r"(.*?):", head)[1]
    about = subject[0].lower() + subject[1:] + (": " + title.replace(", at file scope", "") if title else "")
    print(".\\\" SPDX-License-Identifier: MIT OR GPL-2.0-only")
    print(".\\\" Made from include/dprobes/%s by doc/man3.py." % header)
    print('.TH %s 3 "" "Dynamic Probes" "Library Functions"' % escaped(page.upper()))
    print(".SH NAME\n%s \\- %s" % (escaped(", ".join([page] + [n for n in names if n != page])), escaped(about)))
    print(".SH LIBRARY\nlibdprobes (\\fI\\-ldprobes\\fR)\n.SH SYNOPSIS")
    put_code(["#include <dprobes/%s>" % header, ""])
    put_code([line for e in entries for d in e.code if name_of(d) for line in shown(d)])
    print(".SH DESCRIPTION")
    if title:
        print("This page describes one part of \\fI<dprobes/%s>\\fR;" % header)
        first = next(name for name, where in PAGES.items() if where == (header, ""))
        print("\\fB%s\\fR(3) has what is true of all of it, and an example." % escaped(first))
    else:
        put_text(head)
    for e in entries:
        if not e.comment and not any(d[0].startswith("struct") and len(d) > 1 for d in e.code):
            continue
        print(".PP")
        put_code([line for d in e.code for line in shown(d)])
        if e.comment:
            print(".RS 4")
            put_text(e.comment)
            print(".RE")
    others = ["\\fB%s\\fR(3)" % escaped(name) for name in PAGES if name != page]
    print(".SH SEE ALSO\n.BR libdprobes (3),\n.BR dprobes\\-hooks (3),\n.BR dprobes (1),\n%s" % ",\n".join(others))


def main():
    what, files = sys.argv[1], sys.argv[2:]
    headers = {os.path.basename(file): file for file in files}
    if what == "--names":
        for page in PAGES:
            for name in dict.fromkeys(names_of(page, headers)):
                print(name, page)
    else:
        put_page(what, headers)


if __name__ == "__main__":
    main()
