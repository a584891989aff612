# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Probes in running programs, from Python: drives the program dprobes through its JSON.

    import dprobes

    with dprobes.trace("p add_order $qty", pid=1234, duration=10) as t:
        for event in t:
            print(event.time, event.comm, event.args.qty)

doc/python.md describes it.
"""
from ._async import AsyncTrace, atrace
from ._command import Error, Version, program, version
from ._model import (Args, Counts, Event, Histogram, Quantiles, Record, Row, Summary, Table, Tables)
from ._query import (Code, Function, Parameter, Place, Probe, ProbedProcess, Recipe, Variable, explain, funcs, insert,
                     log, recipes, remove, tables, variables)
from ._query import list_probes as list
from ._trace import Trace, graph, report, run, trace

__version__ = "0.1.0"
__all__ = ["Args", "AsyncTrace", "Code", "Counts", "Error", "Event", "Function", "Histogram", "Parameter", "Place",
           "Probe", "ProbedProcess", "Quantiles", "Recipe", "Record", "Row", "Summary", "Table", "Tables", "Trace",
           "Variable", "Version", "atrace", "explain", "funcs", "graph", "insert", "list", "log", "program", "recipes",
           "remove", "report", "run", "tables", "trace", "variables", "version"]
