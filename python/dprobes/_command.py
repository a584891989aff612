# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The program: where it is, its arguments, and what it says on standard error. Knows nothing of what it shows."""
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

INTERFACE = (0, 1)  # of versions that this module can drive
MESSAGES = "DPROBES_MESSAGES"

Value = Union[None, bool, int, float, str, "os.PathLike[str]"]
Who = Union[int, str, Sequence[Union[int, str]]]
Object = Dict[str, Any]


class Error(Exception):
    """What the program says when it fails; `dprobes explain CODE` tells more of a code."""

    def __init__(self, code: str, message: str, detail: str = "", suggestion: str = "", text: Optional[str] = None,
                 column: Optional[int] = None) -> None:
        super().__init__(code, message, detail, suggestion, text, column)
        self.code = code              # E-SYM-NONE; E-PYTHON: the program cannot be used at all
        self.message = message        # a sentence
        self.detail = detail          # where, and with what
        self.suggestion = suggestion  # what can be done
        self.text = text              # the event line that is wrong
        self.column = column          # of the mistake in it

    def __str__(self) -> str:
        said = ": ".join(part for part in (self.code, self.message, self.detail) if part)
        return said + " (%s)" % self.suggestion if self.suggestion else said


@dataclass(frozen=True)
class Version:
    """Which dprobes it is."""
    version: str
    build_id: str
    formats: Tuple[str, ...]
    path: str


def _beside() -> Iterable[Path]:
    here = Path(__file__).resolve()
    if here.parents[1].name == "python":  # the sources
        yield here.parents[2] / "build" / "src" / "cmd" / "dprobes"
    for folder in here.parents[2:]:
        yield folder / "bin" / "dprobes"


def program() -> str:
    """The path of the program: $DPROBES, else one that was installed with this module, else of PATH."""
    given = os.environ.get("DPROBES")
    if given:
        return given
    for path in _beside():
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("dprobes")
    if not found:
        raise Error("E-PYTHON", "there is no program dprobes", "PATH", "install it, or name it in DPROBES")
    return found


def environment(messages: str = "json") -> Dict[str, str]:
    return dict(os.environ, **{MESSAGES: messages})


_checked: Dict[str, Version] = {}


def version() -> Version:
    """Of the program; raises Error when this module cannot drive it."""
    path = program()
    if path not in _checked:
        _checked[path] = _check(path)
    return _checked[path]


def _check(path: str) -> Version:
    try:
        out = subprocess.run([path, "--version", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=True).stdout
        told = json.loads(out)
        found = Version(told["version"], told["build_id"], tuple(told["formats"].split()), path)
        numbers = tuple(int(part) for part in found.version.split(".")[:2])
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError) as e:
        raise Error("E-PYTHON", "the program dprobes cannot be used", "%s: %s" % (path, e),
                    "name another one in DPROBES") from e
    if numbers != INTERFACE:
        raise Error("E-PYTHON", "the program dprobes has another version than its Python module",
                    "%s has %s, and %d.%d is needed" % (path, found.version, *INTERFACE),
                    "install both of one version, or name another program in DPROBES")
    return found


# ---- arguments ----

def words(value: Who) -> str:
    """Processes as -p has them."""
    return ",".join(str(v) for v in ([value] if isinstance(value, (int, str)) else value))


def options(given: Mapping[str, Value]) -> List[str]:
    """allow_trap=True, interval=5: --allow-trap, --interval=5."""
    found = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found.append("%s=%s" % (option, os.fspath(value) if isinstance(value, os.PathLike) else value))
    return found


# ---- what it says ----

class Messages:
    """What was said on standard error so far."""

    def __init__(self) -> None:
        self.errors: List[Error] = []
        self.notes: List[str] = []
        self.summary: Optional[Object] = None
        self.ready = False

    def take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            message = {"note": line}
        if not isinstance(message, dict):
            message = {"note": line}
        if "error" in message:
            e = message["error"]
            self.errors.append(Error(e["code"], e["message"], e["detail"], e["hint"], e.get("text"), e.get("column")))
        elif "summary" in message:
            self.summary = message["summary"]
        elif "ready" in message:
            self.ready = True
        elif message.get("note"):
            self.notes.append(message["note"])


def ask(*args: str, also: Sequence[int] = (0,)) -> Tuple[str, Messages]:
    """Runs a command to its end; also: exit statuses that are no failure. Returns what it showed and said."""
    r = subprocess.run([version().path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, env=environment(), encoding="utf-8", errors="replace")
    said = Messages()
    for line in r.stderr.splitlines():
        said.take(line)
    if r.returncode not in also:
        raise said.errors[0] if said.errors else failure(r.returncode, said)
    return r.stdout, said


def failure(status: int, said: Messages) -> Error:
    """Of a program that ended without telling why."""
    return Error("E-PYTHON", "the program dprobes ended with status %d" % status, "; ".join(said.notes))


def objects(text: str) -> List[Object]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
