// The data of a report, taken apart: records and calls as columns of numbers. What all parts of the page share is in
// `report`. Texts come from the traced programs: they are only ever set as textContent.
const report = (function () {
  "use strict";
  const RECORD = 1, CALL = 2, DURATION = 3, LOST = 4, TABLE = 5; // as sink-html.c writes them
  const data = JSON.parse(document.getElementById("data").textContent);
  document.getElementById("data").textContent = "";

  class Column { // of numbers; grows
    constructor(Kind) { this.Kind = Kind; this.v = new Kind(1024); this.n = 0; }
    push(x) {
      if (this.n === this.v.length) {
        const more = new this.Kind(2 * this.n);
        more.set(this.v);
        this.v = more;
      }
      this.v[this.n++] = x;
    }
    whole() { return this.v.subarray(0, this.n); }
  }

  function read(items) {
    const ns = new Column(Float64Array), thread = new Column(Uint32Array), event = new Column(Uint32Array);
    const cpu = new Column(Uint32Array), node = new Column(Uint32Array), texts = [], lost = [], tables = [];
    const entry = new Column(Uint32Array), exit = new Column(Int32Array), took = new Column(Float64Array);
    const self = new Column(Float64Array), depth = new Column(Uint32Array), how = new Column(Uint8Array);
    const told = new Column(Uint32Array), durations = new Column(Float64Array);
    let now = 0;
    for (let i = 0; items[i];) {
      switch (items[i]) {
      case RECORD:
        now += items[i + 1];
        ns.push(now);
        thread.push(items[i + 2]);
        event.push(items[i + 3]);
        cpu.push(items[i + 4]);
        node.push(items[i + 5]);
        texts.push(items[i + 6]);
        i += 7;
        break;
      case CALL:
        entry.push(items[i + 1]);
        exit.push(items[i + 2]);
        took.push(items[i + 3]);
        self.push(items[i + 4]);
        depth.push(items[i + 5]);
        how.push(items[i + 6]);
        i += 7;
        break;
      case DURATION:
        told.push(texts.length - 1);
        durations.push(items[i + 1]);
        i += 2;
        break;
      case LOST:
        lost.push([now, items[i + 1]]);
        i += 2;
        break;
      case TABLE:
        tables.push(items[i + 1]);
        i += 2;
        break;
      default:
        throw new Error("unknown item " + items[i]);
      }
    }
    return {
      records: { n: texts.length, ns: ns.whole(), thread: thread.whole(), event: event.whole(), cpu: cpu.whole(),
                 node: node.whole(), texts },
      calls: { entry: entry.whole(), exit: exit.whole(), took: took.whole(), self: self.whole(),
               depth: depth.whole(), how: how.whole() },
      told: told.whole(), durations: durations.whole(), lost, tables,
    };
  }

  const parts = read(data.items), records = parts.records;
  data.items = null;

  // Calls of a thread as slices, in the order of their begins. Those of entries and returns know their depth; those of
  // which a record tells the duration are nested by their times.
  function collect() {
    const byThread = data.threads.map(function () { return []; });
    const c = parts.calls;
    for (let i = 0; i < c.entry.length; i++) {
      const record = c.entry[i], how = c.how[i];
      byThread[records.thread[record]].push({
        event: records.event[record], begin: records.ns[record], took: c.took[i], self: c.self[i], depth: c.depth[i],
        record, exit: c.exit[i], lost: how >= 4, end: how % 4, outermost: true,
      });
    }
    for (let i = 0; i < parts.told.length; i++) {
      const record = parts.told[i], took = parts.durations[i];
      byThread[records.thread[record]].push({
        event: records.event[record], begin: records.ns[record] - took, took, self: took, depth: -1, record, exit: -1,
        lost: false, end: 0, outermost: true,
      });
    }
    byThread.forEach(nest);
    return byThread;
  }

  function nest(slices) {
    slices.sort(function (a, b) { return a.begin - b.begin || a.depth - b.depth || b.took - a.took; });
    const open = [];
    for (const s of slices) {
      if (s.depth >= 0) {
        open.length = Math.min(open.length, s.depth);
      } else {
        while (open.length && open[open.length - 1].begin + open[open.length - 1].took < s.begin + s.took)
          open.pop();
        s.depth = open.length;
        if (open.length)
          open[open.length - 1].self = Math.max(0, open[open.length - 1].self - s.took);
      }
      for (const o of open)
        if (nameOf(o.event) === nameOf(s.event))
          s.outermost = false;
      open.push(s);
    }
  }

  /* ---- names ---- */

  const functions = data.events.map(function (e) { return e[2] || e[1] || "?"; });
  const events = data.events.map(function (e) {
    return e[1] || (e[4] ? "<-" : "") + e[2] + (e[3] ? "+0x" + e[3].toString(16) : "");
  });
  function nameOf(event) { return functions[event]; }

  const processes = new Map();
  for (const [source, pid, comm] of data.processes)
    processes.set(source, { pid: pid === 4294967295 ? null : pid, comm, threads: [] });
  data.threads.forEach(function (t, i) {
    if (!processes.has(t[1]))
      processes.set(t[1], { pid: null, comm: "", threads: [] });
    processes.get(t[1]).threads.push(i);
  });
  for (const p of processes.values())
    p.name = (p.comm || data.threads[p.threads[0]][2]) + (p.pid ? " (" + p.pid + ")" : p.pid === 0 ? " (kernel)" : "");
  const threads = data.threads.map(function (t) { return t[2] + "-" + t[0]; });

  /* ---- texts ---- */

  const count = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  function number(n) { return count.format(n); }
  function duration(ns) {
    if (ns < 1e3) return number(ns) + " ns";
    if (ns < 1e6) return (ns / 1e3).toFixed(ns < 1e4 ? 2 : 1) + " µs";
    if (ns < 1e9) return (ns / 1e6).toFixed(ns < 1e7 ? 2 : 1) + " ms";
    return (ns / 1e9).toFixed(ns < 1e10 ? 3 : 1) + " s";
  }
  function stamp(ns) { return (data.head.base + ns / 1e9).toFixed(6); }

  // An element with a text, and others in it.
  function element(tag, text, className) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }

  // The functions of a call stack, the innermost first.
  function stack(node) {
    const names = [];
    for (; node; node = data.nodes[2 * node + 1])
      names.push(data.names[data.nodes[2 * node]]);
    return names;
  }

  // All that is known of a record.
  function describe(i) {
    const lines = [stamp(records.ns[i]) + "  " + threads[records.thread[i]] + "  cpu " + records.cpu[i] + "  " +
                   events[records.event[i]]];
    if (records.texts[i]) lines.push(records.texts[i]);
    if (records.node[i])
      stack(records.node[i]).forEach(function (name, k) { lines.push((k ? "    from " : "    at ") + name); });
    return lines.join("\n");
  }

  // The first index whose value is at least x.
  function firstFrom(n, value, x) {
    let lo = 0, hi = n;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (value(mid) < x) lo = mid + 1; else hi = mid;
    }
    return lo;
  }

  // A test for what a user searches for: a text, or /a pattern/; null: for nothing.
  function matcher(wanted) {
    const pattern = /^\/(.+)\/$/.exec(wanted);
    if (!wanted) return null;
    if (pattern) {
      try {
        const re = new RegExp(pattern[1], "i");
        return function (text) { return re.test(text); };
      } catch (e) {
        return function () { return false; };
      }
    }
    wanted = wanted.toLowerCase();
    return function (text) { return text.toLowerCase().includes(wanted); };
  }

  // A canvas as large as it is shown, in the pixels of the screen. Its context counts in those of CSS.
  function context(canvas, width, height) {
    const scale = window.devicePixelRatio || 1, c = canvas.getContext("2d");
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    return c;
  }

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function color(name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); }
  const hues = functions.map(function (name) {
    let h = 0;
    for (let i = 0; i < name.length; i++)
      h = (h * 31 + name.charCodeAt(i)) >>> 0;
    return h % 360;
  });
  function fill(event) { return "hsl(" + hues[event] + (dark.matches ? " 38% 36%)" : " 60% 74%)"); }

  const slices = collect();
  const ends = slices.map(function (v) { // spreading a long array into Math.max() would exceed the stack
    return v.reduce(function (most, s) { return Math.max(most, s.begin + s.took); }, 0);
  });
  const begins = slices.map(function (v) { return v.length ? v[0].begin : 0; });
  const range = { from: Math.min(0, ...begins), to: Math.max(records.n ? records.ns[records.n - 1] : 0, ...ends, 1) };

  return { data, records, slices, lost: parts.lost, tables: parts.tables, functions, events, threads, processes, range,
           number, duration, stamp, element, describe, firstFrom, matcher, context, dark, color, fill, tabs: {} };
})();
