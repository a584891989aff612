# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The command line of a trace that runs, and the descriptors that its output comes by. No thread, no process yet."""
import fcntl
import os
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ._command import Value, Who, environment, options, version, words

CHUNK = 1 << 16
PIPE = 1 << 20  # bytes that wait in the pipe at most


def arguments(verb: Sequence[str], lines: Sequence[str], pid: Optional[Who], command: Optional[Sequence[str]],
              more: Mapping[str, Value]) -> List[str]:
    """One command line: DPROBES VERB --json OPTIONS -- COMMAND."""
    found = [version().path, *verb, "--json"]
    if pid is not None:
        found.append("--pid=" + words(pid))
    found += options(more)
    found += lines
    if command is not None:
        found += ["--", *map(os.fspath, command)]
    return found


class Pipes:
    """Output and messages come by pipes of their own: standard output and error are those of a traced command."""

    def __init__(self) -> None:
        self.output, self._output = os.pipe()
        self.messages, self._messages = os.pipe()
        try:
            fcntl.fcntl(self._output, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE)
        except OSError:
            pass  # it is smaller then

    @property
    def theirs(self) -> Tuple[int, int]:
        return self._output, self._messages

    @property
    def words(self) -> List[str]:
        return ["--output=/dev/fd/%d" % self._output]

    def environment(self, more: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
        return dict(environment("json:%d" % self._messages), **(more or {}))

    def close_theirs(self) -> None:
        os.close(self._output)
        os.close(self._messages)


def operands(lines: Sequence[str]) -> List[str]:
    """Event lines, none of which may be taken for an option."""
    for line in lines:
        if line.startswith("-"):
            raise ValueError("an event line begins with its kind (p, r, w, u, s, i), not with '-': %r" % line)
    return list(lines)
