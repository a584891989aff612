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
from ._programs import (ArmedProbe, Inserted, InsertedProbe, Insertion, Refused, Target, insert, log, query, remove,
                        tables)
from ._query import (Capability, Cleaned, Code, Difference, Function, Parameter, Place, Probe, ProbedProcess, Recipe,
                     Variable, Verified, clean, doctor, explain, funcs, recipes, variables, verify)
from ._query import list_probes as list
from ._trace import Trace, graph, report, run, trace

__version__ = "0.1.0"
__all__ = ["Args", "ArmedProbe", "AsyncTrace", "Capability", "Cleaned", "Code", "Counts", "Difference", "Error",
           "Event", "Function", "Histogram", "Inserted", "InsertedProbe", "Insertion", "Parameter", "Place", "Probe",
           "ProbedProcess", "Quantiles", "Recipe", "Record", "Refused", "Row", "Summary", "Table", "Tables", "Target",
           "Trace", "Variable", "Verified", "Version", "atrace", "clean", "doctor", "explain", "funcs", "graph",
           "insert", "list", "log", "program", "query", "recipes", "remove", "report", "run", "tables", "trace",
           "variables", "verify", "version"]
