# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""What the program shows, as objects: events, records, tables, the summary. Made from its JSON (doc/schema)."""
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._command import Object


class Args(Mapping[str, Any]):
    """Arguments of an event by their names, also as attributes; by their place as args[0]."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: Union[str, int]) -> Any:
        return list(self._values.values())[name] if isinstance(name, int) else self._values[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            raise AttributeError("the event has no argument %r; it has %s" % (name, ", ".join(self._values) or "none"))
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "Args(%s)" % ", ".join("%s=%r" % item for item in self._values.items())


@dataclass(frozen=True)
class Event:
    """A recorded hit of an event."""
    time: float               # seconds of CLOCK_MONOTONIC, the clock of time.monotonic()
    pid: Optional[int]        # None: not known
    tid: int
    comm: str                 # name of the thread
    cpu: int
    name: str                 # of the event, or of the function
    group: str
    symbol: str               # the function
    offset: int               # in it
    is_return: bool
    caller: Optional[str]     # of a return: where it went
    shortened: bool           # the record was longer than its limit
    args: Args

    @property
    def backtrace(self) -> List[str]:
        """The call chain among the arguments: where the hit was, then where each caller goes on. [] without one."""
        chains = [v for v in self.args.values() if isinstance(v, list) and v and all(isinstance(f, str) for f in v)]
        return chains[0] if chains else []

    @classmethod
    def of(cls, o: Object) -> "Event":
        return cls(o["ts"], o.get("pid"), o["tid"], o["task"], o["cpu"], o["event"], o["group"], o["symbol"],
                   o["offset"], o["return"], o.get("caller"), o.get("shortened", False), Args(o["args"]))


@dataclass(frozen=True)
class Record:
    """A record of a probe program (.rpn, .dpc)."""
    time: float               # seconds since 1970
    pid: int
    tid: int
    comm: str
    cpu: int
    module: str
    major: int
    minor: int
    ip: int
    sp: int
    data: bytes               # all that was logged
    items: List[Object]       # the same, as the program wrote it
    fields: Args              # the same, as the program describes it; the last one of each name
    texts: List[str]          # what printf wrote
    traces: List[Object]      # stack traces of exceptions
    shortened: bool
    stopped: bool             # the process was stopped for a debugger
    core: Optional[str]       # the core dump that was asked for

    @classmethod
    def of(cls, o: Object) -> "Record":
        fields = o.get("fields") or []
        return cls(o["time"], o["pid"], o["tid"], o["name"], o["cpu"], o["module"], o["major"], o["minor"], o["ip"],
                   o["sp"], bytes.fromhex(o.get("data", "")), o.get("items") or [],
                   Args({f["name"]: f["value"] for f in fields if "name" in f}),
                   [f["text"] for f in fields if "text" in f], o.get("traces") or [], o.get("shortened", False),
                   o.get("stopped", False), o.get("core"))


# ---- tables ----

@dataclass(frozen=True)
class Bar:
    """A range of a histogram, both ends included."""
    low: Optional[int]    # None: no smaller one is told apart
    high: Optional[int]   # None: no larger one is told apart
    count: int


class Histogram(Sequence[Bar]):
    """Ranges with at least one value, from the smallest on."""

    def __init__(self, bars: List[Bar]) -> None:
        self._bars = bars

    def __getitem__(self, i: Any) -> Any:
        return self._bars[i]

    def __len__(self) -> int:
        return len(self._bars)

    def __repr__(self) -> str:
        return "Histogram(%r)" % self._bars

    @property
    def total(self) -> int:
        """How many values there are."""
        return sum(bar.count for bar in self._bars)

    def to_dict(self) -> Dict[Tuple[Optional[int], Optional[int]], int]:
        return {(bar.low, bar.high): bar.count for bar in self._bars}


@dataclass(frozen=True)
class Quantiles:
    """At most an eighth too large or small. None: there are no values."""
    values: int
    p50: Optional[int]
    p90: Optional[int]
    p99: Optional[int]
    p99_9: Optional[int]
    max: Optional[int]

    def to_dict(self) -> Dict[str, Optional[int]]:
        return {"p50": self.p50, "p90": self.p90, "p99": self.p99, "p99.9": self.p99_9, "max": self.max}


Measured = Union[None, int, float, Histogram, Quantiles]
KeyPart = Union[int, float, str, Tuple[str, ...]]


def _measured(o: Object) -> Measured:
    if "bars" in o:
        return Histogram([Bar(b.get("from"), b.get("to"), b["count"]) for b in o["bars"]])
    if "average" in o:
        return float(o["average"])
    if "value" in o:
        value: Optional[int] = o["value"]
        return value
    return Quantiles(o["values"], o.get("p50"), o.get("p90"), o.get("p99"), o.get("p99.9"), o.get("max"))


def _plain(value: Measured) -> Any:
    return value.to_dict() if isinstance(value, (Histogram, Quantiles)) else value


@dataclass(frozen=True)
class Row:
    """A key with its value; of one that is no table the key is ()."""
    key: Tuple[KeyPart, ...]   # a call chain is a tuple of texts
    value: Measured            # None: nothing was counted
    values: Optional[int]      # of sums and averages: how many values were added


class Table(Mapping[Any, Measured]):
    """A table by its keys, or a value without keys. Rows are in the program's order: the largest first.

    A key of one part is that part, one of several a tuple: table["retail"], table["retail", 3].
    """

    def __init__(self, o: Object) -> None:
        self.name: str = o["aggregate"]
        self.kind: str = o["kind"]           # count, sum, avg, min, max, last, hist, lhist, quantiles
        self.module: Optional[str] = o["module"]   # None, and so is pid: processes and the kernel have it together
        self.pid: Optional[int] = o["pid"]   # 0: the kernel
        self.ended: bool = o["ended"]        # the process has ended
        self.left_out: int = o.get("left_out", 0)  # keys behind the first ones (top N)
        self.no_room: int = o.get("no_room", 0)    # values whose keys found no room
        self.rows: List[Row] = [Row(tuple(tuple(p) if isinstance(p, list) else p for p in e.get("key", ())),
                                    _measured(e), e.get("values")) for e in o.get("entries", [o])]
        self._by_key = {self._short(row.key): row.value for row in self.rows}

    @staticmethod
    def _short(key: Tuple[KeyPart, ...]) -> Any:
        return key[0] if len(key) == 1 else key

    def __getitem__(self, key: Any) -> Measured:
        return self._by_key[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def __repr__(self) -> str:
        return "<Table %s: %s of %d keys>" % (self.name, self.kind, len(self))

    @property
    def value(self) -> Measured:
        """Of one without keys."""
        return self._by_key[()]

    def to_dict(self) -> Dict[Any, Any]:
        """By key, with plain values: numbers, and dictionaries of histograms and quantiles."""
        return {key: _plain(value) for key, value in self._by_key.items()}

    def to_pandas(self) -> Any:
        """A DataFrame: a row for each key, of histograms for each range. Needs pandas."""
        import pandas  # type: ignore  # noqa: only here
        parts = max((len(row.key) for row in self.rows), default=0)
        lines = []
        for row in self.rows:
            keys = {"key" if parts == 1 else "key%d" % (i + 1): part for i, part in enumerate(row.key)}
            if isinstance(row.value, Histogram):
                lines += [dict(keys, low=bar.low, high=bar.high, count=bar.count) for bar in row.value]
            elif isinstance(row.value, Quantiles):
                lines.append(dict(keys, values=row.value.values, **row.value.to_dict()))
            else:
                lines.append(dict(keys, value=row.value))
        return pandas.DataFrame(lines)


class Tables(Sequence[Table]):
    """The latest of each table; by its name, too: tables["orders"]."""

    def __init__(self) -> None:
        self._latest: Dict[Tuple[str, str, Optional[str], Optional[int]], Table] = {}

    def take(self, o: Object) -> None:
        t = Table(o)
        self._latest[t.name, t.kind, t.module, t.pid] = t

    def __getitem__(self, which: Any) -> Any:
        found = list(self._latest.values())
        if not isinstance(which, str):
            return found[which]
        named = [t for t in found if t.name == which]
        if not named:
            raise KeyError(which)
        return max(named, key=len)  # a program that became another one by exec has an empty one, too

    def __len__(self) -> int:
        return len(self._latest)

    def __repr__(self) -> str:
        return "Tables(%r)" % list(self._latest.values())


# ---- the summary ----

@dataclass(frozen=True)
class Counts:
    """Outcomes of a probe's hits: hits is the sum of the next five."""
    probe: str
    via: str
    hits: int
    recorded: int
    filtered: int
    passed: int
    missed: int
    lost: int
    faults: int
    cost_ns: int              # an estimate

    @classmethod
    def of(cls, o: Object) -> "Counts":
        return cls(**o)


@dataclass(frozen=True)
class Summary:
    """What became known at the end."""
    probes: List[Counts]
    total: Counts
    seconds: float

    @classmethod
    def of(cls, o: Object) -> "Summary":
        return cls([Counts.of(row) for row in o["probes"]], Counts.of(o["total"]), o["seconds"])


Shown = Union[Event, Record]


class Lines:
    """Takes lines of JSON: tables are kept, what else there is is returned."""

    def __init__(self) -> None:
        self.tables = Tables()

    def take(self, o: Object) -> Optional[Shown]:
        if "aggregate" in o:
            self.tables.take(o)
            return None
        return Record.of(o) if "module" in o else Event.of(o)
