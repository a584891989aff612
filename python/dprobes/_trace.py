# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Traces: the program runs beside, two threads read what it writes, and the end of the block ends it."""
import json
import os
import signal
import subprocess
import threading
from collections import deque
from types import TracebackType
from typing import Any, Deque, Iterator, List, Mapping, Optional, Sequence, Type

from ._child import CHUNK, Pipes, arguments, operands
from ._command import Error, Messages, Value, Who, failure
from ._model import Lines, Shown, Summary, Tables
from ._query import Path

WAITING = 1 << 28  # bytes that were read and not asked for yet; beyond that the program has to wait


class Trace:
    """A trace that runs: iterate over its events. Ends with the block, by stop(), or by itself.

    Events that nobody has asked for wait in memory. After the end, tables and summary are whole.
    """

    def __init__(self, verb: Sequence[str], lines: Sequence[str], *, pid: Optional[Who] = None,
                 command: Optional[Sequence[str]] = None, stdin: Any = None, stdout: Any = None, stderr: Any = None,
                 env: Optional[Mapping[str, str]] = None, cwd: Optional[Path] = None,
                 options: Optional[Mapping[str, Value]] = None) -> None:
        self._words = arguments(verb, operands(lines), pid, command, options or {})
        self._files = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "cwd": cwd}
        self._env = env
        self._lines = Lines()
        self._said = Messages()
        self._change = threading.Condition()
        self._chunks: Deque[bytes] = deque()
        self._waiting = 0
        self._rest = b""
        self._shown: Deque[Shown] = deque()
        self._stopping = False
        self._reading = 2  # threads
        self._threads: List[threading.Thread] = []
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._ended = False

    # ---- beginning and end ----

    def start(self) -> "Trace":
        """Returns when the probes are in place; raises Error when they cannot be. `with` calls it."""
        if self._process:
            raise RuntimeError("a trace can be started once")
        try:
            self._begin(Pipes())
            with self._change:
                self._change.wait_for(lambda: self._said.ready or not self._reading)
        except BaseException:
            self._end()
            raise
        if not self._said.ready:
            self._wait()
            self._raise()
        return self

    def _begin(self, pipes: Pipes) -> None:
        where = self._words.index("--") if "--" in self._words else len(self._words)
        self._threads = [threading.Thread(target=read, args=(fd,), daemon=True)
                         for read, fd in ((self._read_output, pipes.output), (self._read_messages, pipes.messages))]
        try:
            self._process = subprocess.Popen(self._words[:where] + pipes.words + self._words[where:],
                                             pass_fds=pipes.theirs, env=pipes.environment(self._env), **self._files)
        finally:
            pipes.close_theirs()
            for thread in self._threads:  # without a process they end at once
                thread.start()

    def stop(self) -> None:
        """Removes the probes and waits for the end; what is still unread can be iterated over. Raises Error."""
        self._end()
        self._raise()

    def _end(self) -> None:
        with self._change:
            self._stopping = True
            self._change.notify_all()
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._wait()

    def _wait(self) -> None:
        """For the end of a program that has been told to end, or has by itself. Ctrl-C does not keep us from it."""
        interrupted: Optional[KeyboardInterrupt] = None
        while self._process and not self._ended:
            try:
                self._process.wait()
                for thread in self._threads:
                    thread.join()
                self._ended = True
            except KeyboardInterrupt as e:
                interrupted = e
                self._process.send_signal(signal.SIGINT)
        with self._change:
            self._parse()
        if interrupted:
            raise interrupted

    def _raise(self) -> None:
        if self._said.errors:
            raise self._said.errors[0]
        if self._process and not self._said.ready:
            raise failure(self._process.returncode, self._said)

    def __enter__(self) -> "Trace":
        return self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 where: Optional[TracebackType]) -> None:
        self._end()
        if kind is None:
            self._raise()

    # ---- reading ----

    def _read_output(self, fd: int) -> None:
        with os.fdopen(fd, "rb", 0) as f:
            for chunk in iter(lambda: f.read(CHUNK), b""):
                with self._change:
                    self._change.wait_for(lambda: self._waiting < WAITING or self._stopping)
                    self._chunks.append(chunk)
                    self._waiting += len(chunk)
                    self._change.notify_all()
        self._done()

    def _read_messages(self, fd: int) -> None:
        with os.fdopen(fd, encoding="utf-8", errors="replace") as f:
            for line in f:
                with self._change:
                    self._said.take(line)
                    self._change.notify_all()
        self._done()

    def _done(self) -> None:
        with self._change:
            self._reading -= 1
            self._change.notify_all()

    def _parse(self) -> None:
        """What was read so far, under the lock."""
        lines = (self._rest + b"".join(self._chunks)).split(b"\n")
        self._rest = lines.pop()
        self._chunks.clear()
        self._waiting = 0
        self._change.notify_all()
        for line in lines:
            shown = self._lines.take(json.loads(line))
            if shown is not None:
                self._shown.append(shown)

    def __iter__(self) -> Iterator[Shown]:
        return self if self.started else self._alone()

    def _alone(self) -> Iterator[Shown]:
        """Without a block: the trace begins here, and ends with the loop."""
        with self:
            yield from self

    def __next__(self) -> Shown:
        with self._change:
            while not self._shown and (self._chunks or self._reading):
                self._change.wait_for(lambda: self._chunks or not self._reading)
                self._parse()
            if self._shown:
                return self._shown.popleft()
        self._wait()
        self._raise()
        raise StopIteration

    # ---- what is known ----

    @property
    def tables(self) -> Tables:
        """The latest tables; at the end all."""
        with self._change:
            self._parse()
        return self._lines.tables

    @property
    def summary(self) -> Optional[Summary]:
        """Counts of all probes; None before the end."""
        return Summary.of(self._said.summary) if self._said.summary else None

    @property
    def notes(self) -> List[str]:
        """What people would be told on standard error."""
        with self._change:
            return list(self._said.notes)

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> Optional[int]:
        """The exit status, which is the command's where one was traced; None before the end."""
        return self._process.returncode if self._process and self._ended else None


def trace(*lines: str, pid: Optional[Who] = None, command: Optional[Sequence[str]] = None, all: Optional[Path] = None,
          program: Optional[Path] = None, duration: Optional[float] = None, max_events: Optional[int] = None,
          stdin: Any = None, stdout: Any = None, stderr: Any = None, env: Optional[Mapping[str, str]] = None,
          cwd: Optional[Path] = None, **more: Value) -> Trace:
    """A trace of event lines in processes (pid), a command, or all that map a file; or of a probe program.

    pid: an id, a name, or several. stdin to cwd: of the command. More: options of `dprobes trace`, tree=True, until=...
    """
    given = dict(more, all=all, file=program, duration=duration, max_events=max_events)
    return Trace(["trace"], lines, pid=pid, command=command, stdin=stdin, stdout=stdout, stderr=stderr, env=env,
                 cwd=cwd, options=given)


def graph(*patterns: str, pid: Optional[Who] = None, command: Optional[Sequence[str]] = None,
          duration: Optional[float] = None, **more: Value) -> Trace:
    """Entries and returns of functions, as `dprobes graph` finds them."""
    return Trace(["graph"], patterns, pid=pid, command=command, options=dict(more, duration=duration))


def run(recipe: str, *, pid: Optional[Who] = None, command: Optional[Sequence[str]] = None,
        duration: Optional[float] = None, parameters: Optional[Mapping[str, Value]] = None, **more: Value) -> Trace:
    """A trace of a recipe's lines; parameters: {"min": "1ms"}."""
    values = ["%s=%s" % item for item in (parameters or {}).items()]
    return Trace(["run", recipe], values, pid=pid, command=command, options=dict(more, duration=duration))


def report(recording: Path, **more: Value) -> Trace:
    """The events of a recording (dprobes record)."""
    return Trace(["report"], [os.fspath(recording)], options=more)
