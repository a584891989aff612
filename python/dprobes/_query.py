# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Commands that answer at once: what can be probed, what is, what a code means, what the machine can do."""
import json
import os
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple, Union

from ._command import Object, ask, failure, objects

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Function:
    """A function with the outcome that a probe on it would get."""
    name: str
    symbol: str               # its name in the file
    module: str
    address: Optional[int]    # None: of a module of the kernel that is not loaded
    size: int
    outcome: str              # jump, trap, ftrace, refused or waits
    code: Optional[str]       # why it is no jump
    reason: Optional[str]


def funcs(pattern: Optional[str] = None, *, pid: Optional[int] = None, file: Optional[Path] = None) -> List[Function]:
    """Functions of a process ([MODULE:]PATTERN) or of a file that match a pattern. Changes nothing."""
    where = ["-p", str(pid)] if pid is not None else [os.fspath(file)] if file is not None else []
    text, _ = ask("funcs", "--json", *where, *([pattern] if pattern else []))
    return [Function(o["function"], o["symbol"], o["module"], int(o["address"], 16) if o["address"] else None,
                     o["size"], o["outcome"], o.get("code"), o.get("reason"))
            for o in objects(text) if "function" in o]


@dataclass(frozen=True)
class ProbedProcess:
    """A process that has probes of a dprobes."""
    pid: int
    name: str
    probes: int
    owner: Optional[int]      # process id of that dprobes; None: not known
    running: bool             # that dprobes runs
    age: Optional[float]      # seconds since it began
    command: str


@dataclass(frozen=True)
class Probe:
    """A probe that is in place."""
    address: int
    type: str                 # p: a probe, r: of returns, w: a watchpoint, ...
    place: str
    how: str                  # jump, trap, watch, ...
    who: str                  # library, dprobes, module, event files
    owner: Optional[int]
    running: bool
    state: Tuple[str, ...]


def _probe(o: Object) -> Probe:
    return Probe(int(o["address"], 16), o["type"], o["place"], o["how"], o["who"], o["owner"], o["running"],
                 tuple(o["state"]))


def list_probes(pid: Optional[int] = None) -> List[Any]:
    """All processes with probes (ProbedProcess), and probes of the kernel; with pid the probes of a process (Probe)."""
    text, _ = ask("list", "--json", *(["-p", str(pid)] if pid is not None else []))
    return [ProbedProcess(**o) if "pid" in o else _probe(o) for o in objects(text)]


@dataclass(frozen=True)
class Code:
    """What an error code means."""
    code: str
    message: str
    explanation: str
    hint: str


def explain(code: str) -> Code:
    text, _ = ask("explain", "--json", code)
    return Code(**objects(text)[0])


@dataclass(frozen=True)
class Variable:
    name: str
    type: Optional[str]       # as C has it; None: not known
    where: Optional[str]      # None: it cannot be read, and
    reason: Optional[str]     # why not


@dataclass(frozen=True)
class Place:
    place: str                # function and offset
    file: Optional[str]
    line: Optional[int]
    variables: List[Variable]


def variables(place: str, *, pid: Optional[int] = None, file: Optional[Path] = None) -> Place:
    """Which variables of the program event lines can name at a place: FUNCTION, FUNCTION%return, FILE.c:LINE."""
    where = ["-p", str(pid)] if pid is not None else [os.fspath(file)] if file is not None else []
    text, _ = ask("vars", *where, place, "--json")
    o = objects(text)[0]
    return Place(o["place"], o["file"], o["line"],
                 [Variable(v["name"], v["type"], v["where"], v.get("reason")) for v in o["variables"]])


@dataclass(frozen=True)
class Parameter:
    name: str
    value: Optional[str]      # None: it must be given
    about: str


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    needs: Optional[str]
    example: Optional[str]
    parameters: List[Parameter]
    lines: List[str]


def recipes() -> List[Recipe]:
    """What run() takes."""
    text, _ = ask("run", "--json")
    return [Recipe(o["recipe"], o["title"], o["needs"], o["example"], [Parameter(**p) for p in o["parameters"]],
                   [line["text"] for line in o["lines"]]) for o in objects(text)]


# ---- what a process and the machine are like ----

@dataclass(frozen=True)
class Difference:
    """A place where the code of a process is not that of its file."""
    address: int
    symbol: str               # "": not known
    file: bytes               # the first ones in the file,
    memory: bytes             # and in memory
    probe: bool               # it is a probe of a dprobes


@dataclass(frozen=True)
class Verified:
    """The code of a process, compared with its files. True as a condition: all of it is the same."""
    pid: int
    differences: List[Difference]  # the first ones
    bytes: int                # that were compared
    mappings: int
    differing: int            # bytes
    places: int               # of differing bytes
    unreadable: int           # mappings
    unmapped: int             # mappings that went meanwhile

    def __bool__(self) -> bool:
        return not self.differing and not self.unreadable


def verify(pid: int) -> Verified:
    """Compares the code of a process with its files. Changes nothing."""
    text, said = ask("verify", "-p", str(pid), "--json", also=(0, 1))
    found = objects(text)
    if not found:
        raise said.errors[0] if said.errors else failure(1, said)
    return Verified(**dict(found[0], differences=[
        Difference(int(d["address"], 16), d["symbol"], bytes.fromhex(d["file"]), bytes.fromhex(d["memory"]), d["probe"])
        for d in found[0]["differences"]]))


@dataclass(frozen=True)
class Capability:
    """Something that probes use, as a trial has found it."""
    part: str                 # machine, process PID, kernel module
    name: str
    found: str
    grade: str                # good, slower, less, bad
    consequence: str


def doctor(pid: Optional[int] = None) -> List[Capability]:
    """What the machine can do for probes; with pid also what that process allows."""
    text, _ = ask("doctor", "--json", *(["-p", str(pid)] if pid is not None else []), also=(0, 1))
    return [Capability(**o) for o in json.loads(text)["capabilities"]]


@dataclass(frozen=True)
class Cleaned:
    """A process that had probes of a dprobes which was killed, or has none."""
    pid: int
    removed: bool             # there were some, and they are gone
    owner: Optional[int]      # a dprobes that runs, whose probes stay


def clean(pid: Optional[int] = None) -> List[Cleaned]:
    """Removes the probes that a killed dprobes has left in a process; without pid, in all processes."""
    text, _ = ask("clean", "--json", *(["-p", str(pid)] if pid is not None else ["--all"]))
    return [Cleaned(**o) for o in objects(text)[0]["processes"]]
