# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Builds of the kernel module: whether one is as new as its sources, and which names it should not have."""
import os
import re
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Symbols that the compiler and the kernel's build make of ours.
MADE = ("dp_", "__ksymtab_", "__crc_", "__pfx_", "__cfi_")


def is_fresh(out):
    """Whether kernel/build.sh has built the module in this directory since the last change of a source."""
    try:
        built = os.path.getmtime(os.path.join(out, "kernel", ".built"))
    except OSError:
        return False
    changed = (os.path.getmtime(os.path.join(top, name)) for part in ("kernel", "src", "include")
               for top, _, names in os.walk(os.path.join(ROOT, part)) for name in names if name != ".built")
    return built > max(changed)


def odd_names(out):
    """External names of the module that neither have our prefix nor are API."""
    with open(os.path.join(ROOT, "include", "dprobes", "hooks.h")) as f:
        header = f.read()
    nm = subprocess.run(["nm", "--defined-only", "-g", os.path.join(out, "kernel", "dprobes.o")],
                        stdout=subprocess.PIPE, text=True, check=True)
    names = {line.split()[2] for line in nm.stdout.splitlines() if len(line.split()) == 3}
    return {name for name in names - {"init_module", "cleanup_module"}
            if not name.startswith(MADE) and not re.search(r"\b%s\(" % name, header)}
