# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Programs that stay in place: inserted, asked for, removed; what they log and add up."""
import os
from dataclasses import dataclass
from typing import List, Optional, Tuple

from ._command import Object, Value, ask, objects, options
from ._model import Lines, Shown, Tables
from ._query import Path


@dataclass(frozen=True)
class Refused:
    """Why a process was left out."""
    code: str
    detail: str


def _refused(o: Optional[Object]) -> Optional[Refused]:
    return None if o is None else Refused(**o)


@dataclass(frozen=True)
class Insertion:
    """What insert() has done."""
    module: str               # as the program names it
    probes: int               # that the module has now
    kernel: bool              # it is one of the kernel
    processes: int            # that have its probes
    waits: bool               # the process that it is for has not loaded it yet
    later: bool               # processes that map it later get the probes, too
    left_out: int             # processes that refused its probes,
    refused: Optional[Refused]  # and why the last one did
    without_budget: int       # probes that the budget does not apply to


def insert(file: Path, *, pid: Optional[int] = None, **more: Value) -> Insertion:
    """Inserts the probes of a program (.rpn, .dpc); they stay until remove(). More: options, replace=True."""
    text, _ = ask("insert", os.fspath(file), "--json", *(["-p", str(pid)] if pid is not None else []), *options(more))
    o = objects(text)[0]
    return Insertion(**dict(o, refused=_refused(o["refused"])))


def remove(name: Optional[str] = None, *, file: Optional[Path] = None) -> List[str]:
    """Removes the probes of a module, as its program names it, or of a program's file; without both, all.

    Returns which modules were removed.
    """
    which = ["--name", name] if name is not None else [os.fspath(file)] if file is not None else ["--all"]
    text, _ = ask("remove", "--json", *which)
    return [o["module"] for o in objects(text)]


@dataclass(frozen=True)
class InsertedProbe:
    """A probe of an inserted program: hits is the sum of the next five."""
    place: str                # where the program wants it
    is_return: bool
    major: int
    minor: int
    hits: int
    recorded: int
    passed: int
    filtered: int
    missed: int
    lost: int
    exceptions: int           # that its program has raised
    taken_out: int            # how often, to keep the budget


@dataclass(frozen=True)
class ArmedProbe:
    """The same in one process."""
    probe: int                # its index among the program's
    state: str                # active, taken out, removed, disabled (max hits), waits, gone, off
    counted: int              # hits
    address: int              # 0: not in place
    symbol: str
    offset: int
    via: Optional[str]        # how hits come about; None: not in place
    compiled: bool            # to machine code


@dataclass(frozen=True)
class Target:
    """A process that has the probes of a program."""
    pid: int                  # 0: the kernel
    probes: List[ArmedProbe]
    variables: List[Tuple[int, int]]  # index and value of local variables that belong to no table


@dataclass(frozen=True)
class Inserted:
    """An inserted program."""
    module: str               # as the program names it
    type: str                 # user, kernel, kmod
    uprobes: bool             # the kernel's uprobes hit its probes
    id: int
    variables: int            # local ones
    budget: float             # what its hits may cost, in percent of the processor time; 0: any
    not_held: Optional[str]   # why programs are not held at their start; None: they are, or need not be
    let_go: int               # processes that did not wait for the probes
    refused: Optional[Refused]  # the last process that was left out
    probes: List[InsertedProbe]
    targets: List[Target]
    program: Optional[str]    # of extended=True: its text


def _probe(o: Object) -> InsertedProbe:
    values = {name: v for name, v in o.items() if name not in ("probe", "return")}
    return InsertedProbe(is_return=o["return"], **values)


def _target(o: Object) -> Target:
    return Target(o["pid"], [ArmedProbe(**dict(p, address=int(p["address"], 16))) for p in o["probes"]],
                  [(v["index"], v["value"]) for v in o["variables"]])


def query(name: Optional[str] = None, *, extended: bool = False) -> List[Inserted]:
    """What is inserted; name: one module. extended: with the programs."""
    which = ["--name", name] if name is not None else ["--all"]
    text, _ = ask("query", "--json", *which, *(["--extended"] if extended else []))
    return [Inserted(**dict(o, refused=_refused(o["refused"]), probes=[_probe(p) for p in o["probes"]],
                            targets=[_target(t) for t in o["targets"]], program=o.get("program")))
            for o in objects(text)]


def log(clear: bool = False) -> List[Shown]:
    """What inserted programs have logged."""
    text, _ = ask("log")
    lines = Lines()
    found = [shown for shown in map(lines.take, objects(text)) if shown is not None]
    if clear:
        ask("log", "--clear")
    return found


def tables(name: Optional[str] = None) -> Tables:
    """Tables of inserted programs; name: of one module."""
    text, _ = ask("vars", "--json", *(["--name", name] if name is not None else ["--all"]))
    lines = Lines()
    for o in objects(text):
        lines.take(o)
    return lines.tables
