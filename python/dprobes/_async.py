# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""A trace for asyncio: what Trace does, in the loop's other threads."""
import asyncio
from types import TracebackType
from typing import Any, AsyncIterator, List, Optional, Type

from ._model import Shown, Summary, Tables
from ._trace import Trace, trace


class AsyncTrace:
    """async with atrace(...) as t, or only: async for event in atrace(...)."""

    def __init__(self, inner: Trace) -> None:
        self._trace = inner

    async def __aenter__(self) -> "AsyncTrace":
        begun = asyncio.ensure_future(_apart(self._trace.start))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:  # a thread cannot be cancelled: what it begins is ended
            await asyncio.wait([begun])
            if not begun.exception():
                await _apart(self._trace.stop)
            raise
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        where: Optional[TracebackType]) -> None:
        await asyncio.shield(_apart(self._trace.__exit__, kind, value, where))

    async def __aiter__(self) -> AsyncIterator[Shown]:
        if not self._trace.started:
            async with self:
                async for shown in self:
                    yield shown
            return
        while True:
            shown = await _apart(next, self._trace, None)
            if shown is None:
                break
            yield shown

    async def stop(self) -> None:
        await asyncio.shield(_apart(self._trace.stop))

    @property
    def tables(self) -> Tables:
        return self._trace.tables

    @property
    def summary(self) -> Optional[Summary]:
        return self._trace.summary

    @property
    def notes(self) -> List[str]:
        return self._trace.notes


async def _apart(fn: Any, *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, fn, *args)


def atrace(*lines: str, **options: Any) -> AsyncTrace:
    """As trace()."""
    return AsyncTrace(trace(*lines, **options))
