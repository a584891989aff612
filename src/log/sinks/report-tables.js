// Tables that sort by a click on a head: functions, counts of hits, and the tables of event lines.
(function (r) {
  "use strict";

  // columns: {head, text: true for texts, bar: true for a bar beside, value(row), show(value, row)}
  function table(columns, rows, options) {
    const e = r.element("table"), head = r.element("tr"), body = r.element("tbody"), thead = r.element("thead");
    const most = columns.map(function (c) {
      return c.bar ? rows.reduce(function (m, x) { return Math.max(m, c.value(x)); }, 0) : 0;
    });
    let by = -1, down = true, sorted = rows.slice(), keep = null;

    function fill() {
      body.textContent = "";
      for (const row of sorted) {
        if (keep && !keep(row)) continue;
        const tr = r.element("tr");
        for (let i = 0; i < columns.length; i++) {
          const c = columns[i], v = c.value(row);
          const text = c.show ? c.show(v) : c.text ? v : v === null ? "" : r.number(v);
          tr.append(r.element("td", text, c.text ? "t" : ""));
          if (!c.bar) continue;
          const cell = r.element("td", undefined, "b"), bar = r.element("i");
          bar.style.width = (most[i] > 0 ? Math.max(0, 100 * v / most[i]) : 0) + "%";
          cell.append(bar);
          tr.append(cell);
        }
        if (options.click) {
          tr.className = "link";
          tr.addEventListener("click", function () { options.click(row); });
        }
        body.append(tr);
      }
    }
    function sort(i, isDown) {
      const value = columns[i].value;
      by = i;
      down = isDown;
      sorted.sort(function (a, b) {
        const x = value(a), y = value(b), order = x < y || x === null ? -1 : x > y ? 1 : 0;
        return down ? -order : order;
      });
      Array.prototype.forEach.call(head.children, function (th) {
        th.classList.toggle("up", Number(th.dataset.by) === i && !down);
        th.classList.toggle("down", Number(th.dataset.by) === i && down);
      });
      fill();
    }

    columns.forEach(function (c, i) {
      const th = r.element("th", c.head, c.text ? "t" : "");
      th.dataset.by = i;
      th.addEventListener("click", function () { sort(i, i === by ? !down : !c.text); });
      head.append(th);
      if (c.bar) head.append(r.element("th"));
    });
    if (options.caption) e.append(r.element("caption", options.caption));
    thead.append(head);
    e.append(thead, body);
    if (options.sort === undefined) fill(); else sort(options.sort, true);
    e.filter = function (test) { keep = test; fill(); };
    return e;
  }

  function none(text) { return r.element("p", text, "none"); }

  /* ---- functions ---- */

  const byName = new Map();
  for (const slices of r.slices)
    for (const s of slices) {
      const name = r.functions[s.event];
      if (!byName.has(name)) byName.set(name, { name, calls: 0, self: 0, total: 0, all: [] });
      const f = byName.get(name);
      f.calls++;
      f.self += s.self;
      f.total += s.outermost ? s.took : 0;
      f.all.push(s);
    }
  r.byFunction = Array.from(byName.values());
  for (const f of r.byFunction) {
    const v = Float64Array.from(f.all, function (s) { return s.took; }).sort();
    f.median = v[(v.length - 1) >> 1];
    f.p99 = v[Math.min(v.length - 1, Math.ceil(v.length * 0.99) - 1)];
    f.longest = v[v.length - 1];
  }
  r.byFunction.sort(function (a, b) { return b.total - a.total; });

  const functionsBox = document.getElementById("functions");
  const functionSearch = document.getElementById("function-search");
  if (r.byFunction.length) {
    const show = r.duration;
    const all = table([
      { head: "Function", text: true, value: function (f) { return f.name; } },
      { head: "Calls", value: function (f) { return f.calls; } },
      { head: "Total", value: function (f) { return f.total; }, show, bar: true },
      { head: "Self", value: function (f) { return f.self; }, show, bar: true },
      { head: "Median", value: function (f) { return f.median; }, show },
      { head: "99 %", value: function (f) { return f.p99; }, show },
      { head: "Longest", value: function (f) { return f.longest; }, show },
    ], r.byFunction, { sort: 2, click: function (f) { r.toDurations(f.name); } });
    functionsBox.append(all);
    functionSearch.addEventListener("input", function () {
      const test = r.matcher(functionSearch.value);
      all.filter(test && function (f) { return test(f.name); });
    });
  } else {
    functionsBox.append(none("No calls: trace a function's entry and return, or $duration (dprobes graph does both)."));
  }
  r.tabs["p-functions"] = { search: functionSearch };

  /* ---- counts ---- */

  const seen = new Map();
  for (let i = 0; i < r.records.n; i++) {
    const name = r.events[r.records.event[i]], ns = r.records.ns[i];
    if (!seen.has(name)) seen.set(name, { name, records: 0, first: ns, last: ns });
    const e = seen.get(name);
    e.records++;
    e.last = ns;
  }
  const counts = document.getElementById("counts");
  const events = Array.from(seen.values());
  if (events.length)
    counts.append(table([
      { head: "Event", text: true, value: function (e) { return e.name; } },
      { head: "Records", value: function (e) { return e.records; }, bar: true },
      { head: "A second", value: function (e) { return e.records * 1e9 / (r.range.to - r.range.from); } },
      { head: "First", value: function (e) { return e.first; }, show: r.stamp },
      { head: "Last", value: function (e) { return e.last; }, show: r.stamp },
    ], events, { sort: 1, caption: "Events", click: function (e) { r.toEvents(e.name); } }));
  const rows = r.data.rows;
  if (rows.length) {
    const heads = ["Hits", "Recorded", "Filtered", "Passed over", "Missed", "Lost", "Faults"];
    const columns = heads.map(function (head, i) {
      return { head, value: function (row) { return row[3 + i]; } };
    });
    columns.unshift({ head: "Probe", text: true, value: function (row) { return row[0]; } },
                    { head: "Via", text: true, value: function (row) { return row[1]; } });
    columns.push({ head: "Cost (estimate)", value: function (row) { return row[2]; }, show: r.duration });
    counts.append(table(columns, rows, { sort: 2, caption: "What became of all hits" }));
  }
  if (!events.length && !rows.length) counts.append(none("There are no events."));

  /* ---- tables of event lines ---- */

  function keyOf(part) { return Array.isArray(part) ? part.join("\n  from ") : String(part); }

  function keysOf(t) {
    return t.entries ? t.entries.map(function (e) { return { key: e.key.map(keyOf), e }; }) : [{ key: [], e: t }];
  }

  function rangeOf(bar) {
    const from = bar.from === undefined ? null : bar.from, to = bar.to === undefined ? null : bar.to;
    if (from === to) return r.number(from);
    return from === null ? "up to " + r.number(to) : to === null ? "from " + r.number(from)
      : r.number(from) + " to " + r.number(to);
  }

  function oneTable(t) {
    const rows = [], columns = [], nkeys = t.entries && t.entries.length ? t.entries[0].key.length : 0;
    for (let i = 0; i < nkeys; i++)
      columns.push({ head: "Key" + (nkeys > 1 ? " " + (i + 1) : ""), text: true,
                     value: function (x) { return x.key[i]; } });
    const quantiles = t.kind === "quantiles" ? ["values", "p50", "p90", "p99", "p99.9", "max"] : null;
    for (const { key, e } of keysOf(t))
      for (const bar of e.bars || [null])
        rows.push({ key, e, bar });
    if (rows.some(function (x) { return x.bar; })) {
      columns.push({ head: "Values", text: true, value: function (x) { return rangeOf(x.bar); } });
      columns.push({ head: "Count", value: function (x) { return x.bar.count; }, bar: true });
    } else if (quantiles) {
      for (const q of quantiles)
        columns.push({ head: q, value: function (x) { return q in x.e ? x.e[q] : null; } });
    } else {
      columns.push({ head: t.kind, bar: true,
                     value: function (x) { return t.kind === "avg" ? x.e.average : x.e.value; } });
      if (rows.some(function (x) { return "values" in x.e; }))
        columns.push({ head: "Values", value: function (x) { return x.e.values; } });
      if (t.kind === "sum" && rows.some(function (x) { return "average" in x.e; }))
        columns.push({ head: "Average", value: function (x) { return x.e.average; } });
    }
    return table(columns, rows, { caption: t.aggregate + " (" + t.kind + ") of " + t.module +
      (t.pid ? ", process " + t.pid : "") + (t.no_room ? ", " + r.number(t.no_room) + " values had no room" : "") });
  }

  const tables = document.getElementById("tables");
  for (const t of r.tables)
    tables.append(oneTable(t));
  if (!r.tables.length) tables.append(none("The lines have no tables (count by ..., sum(...), hist(...))."));
  r.tabs["p-tables"] = {};
  r.tabs["p-counts"] = {};
  r.table = table;
})(report);
