// The time line: a canvas over what is visible of a tall box; calls as slices, other records as ticks, by process and
// thread. What is narrower than a pixel is drawn once a pixel, so that the work depends on the width alone.
(function (r) {
  "use strict";
  const ROW = 18, HEAD = 22, TICKS = 12, AXIS = 24, LEFT = 150, DEEPEST = 64, LETTER = 7;
  const box = document.getElementById("time-box"), canvas = document.getElementById("time");
  const tall = document.getElementById("time-tall"), tip = document.getElementById("tip");
  const detail = document.getElementById("detail");
  let from = r.range.from, to = r.range.to, selected = null, waiting = false, drag = null;

  /* ---- tracks: where each process and thread is ---- */

  function rowsOf(slices) { // slices by their depth
    const rows = [];
    for (const s of slices) {
      const depth = Math.min(s.depth, DEEPEST - 1);
      while (rows.length <= depth) rows.push([]);
      rows[depth].push(s);
    }
    return rows;
  }

  const ticks = r.threads.map(function () { return []; });
  const inSlice = new Uint8Array(r.records.n);
  for (const slices of r.slices)
    for (const s of slices) {
      inSlice[s.record] = 1;
      if (s.exit >= 0) inSlice[s.exit] = 1;
    }
  for (let i = 0; i < r.records.n; i++)
    if (!inSlice[i]) ticks[r.records.thread[i]].push(i);

  const tracks = [];
  let height = AXIS;
  for (const p of r.processes.values()) {
    tracks.push({ y: height, height: HEAD, title: p.name });
    height += HEAD;
    for (const i of p.threads) {
      const rows = rowsOf(r.slices[i]), has = ticks[i].length > 0;
      const h = Math.max(rows.length * ROW + (has ? TICKS : 0), ROW) + 4;
      tracks.push({ y: height, height: h, thread: i, rows, ticks: ticks[i], top: has ? TICKS : 0 });
      height += h;
    }
  }
  tall.style.height = height + "px";

  /* ---- drawing ---- */

  function draw() {
    waiting = false;
    const width = box.clientWidth, shown = box.clientHeight, c = r.context(canvas, width, shown);
    const scale = (width - LEFT) / (to - from), top = box.scrollTop;
    const ink = r.color("ink"), dim = r.color("dim"), line = r.color("line"), soft = r.color("soft");
    c.font = "12px system-ui,sans-serif";
    c.textBaseline = "middle";
    for (const t of tracks)
      if (t.y + t.height > top && t.y < top + shown)
        drawTrack(c, t, t.y - top, width, scale, { ink, dim, line, soft });
    c.fillStyle = r.color("lost");
    for (const [ns] of r.lost)
      if (ns >= from && ns <= to) c.fillRect(LEFT + (ns - from) * scale, AXIS, 1.5, shown);
    drawAxis(c, width, scale, { dim, line, soft });
    document.getElementById("range").textContent = r.duration(to - from) + " from " + r.stamp(from) + " s";
  }

  function drawTrack(c, t, y, width, scale, colors) {
    c.fillStyle = t.title === undefined ? colors.line : colors.soft;
    c.fillRect(0, t.title === undefined ? y + t.height - 1 : y, width, t.title === undefined ? 1 : HEAD);
    c.fillStyle = colors.ink;
    if (t.title !== undefined) {
      c.font = "bold 12px system-ui,sans-serif";
      c.fillText(t.title, 8, y + HEAD / 2);
      c.font = "12px system-ui,sans-serif";
      return;
    }
    c.save();
    c.beginPath();
    c.rect(LEFT, y, width - LEFT, t.height);
    c.clip();
    t.rows.forEach(function (row, depth) { drawRow(c, row, y + t.top + depth * ROW + 2, width, scale, colors); });
    drawTicks(c, t, y, width, scale, colors);
    c.restore();
    c.fillStyle = colors.dim;
    c.fillText(fitting(r.threads[t.thread], LEFT - 16), 8, y + Math.min(t.height, ROW + 4) / 2);
  }

  function fitting(text, width) {
    const n = Math.floor(width / LETTER);
    return text.length <= n ? text : n < 3 ? "" : text.slice(0, n - 1) + "…";
  }

  // Slices of a row do not overlap, so their ends are in order, too.
  function firstOf(row, ns) {
    let i = r.firstFrom(row.length, function (k) { return row[k].begin; }, ns);
    while (i > 0 && row[i - 1].begin + row[i - 1].took >= ns) i--;
    return i;
  }

  function drawRow(c, row, y, width, scale, colors) {
    for (let i = firstOf(row, from); i < row.length && row[i].begin <= to;) {
      const s = row[i], x = LEFT + (s.begin - from) * scale, w = s.took * scale;
      const lo = Math.max(x, LEFT - 2), hi = Math.min(x + w, width + 2);
      c.fillStyle = r.fill(s.event);
      c.fillRect(lo, y, Math.max(hi - lo - (w > 3 ? 0.5 : 0), 1), ROW - 2);
      if (s === selected) {
        c.strokeStyle = colors.ink;
        c.lineWidth = 2;
        c.strokeRect(lo, y, Math.max(hi - lo, 2), ROW - 2);
      }
      if (hi - lo > 24) {
        c.fillStyle = colors.ink;
        c.fillText(fitting(r.functions[s.event], hi - lo - 6), lo + 4, y + ROW / 2 - 1);
      }
      i = w >= 1 ? i + 1 : Math.max(i + 1, r.firstFrom(row.length, function (k) { return row[k].begin; },
                                                       s.begin + 1 / scale));
    }
  }

  function drawTicks(c, t, y, width, scale, colors) {
    const ns = r.records.ns, at = function (k) { return ns[t.ticks[k]]; };
    c.fillStyle = colors.dim;
    for (let i = r.firstFrom(t.ticks.length, at, from); i < t.ticks.length && at(i) <= to;) {
      c.fillStyle = r.fill(r.records.event[t.ticks[i]]);
      c.fillRect(LEFT + (at(i) - from) * scale, y + 2, 1.5, TICKS - 3);
      i = Math.max(i + 1, r.firstFrom(t.ticks.length, at, at(i) + 1 / scale));
    }
  }

  function drawAxis(c, width, scale, colors) {
    const rough = 110 / scale, power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map(function (n) { return n * power; }).find(function (s) { return s >= rough; });
    c.fillStyle = colors.soft;
    c.fillRect(0, 0, width, AXIS);
    for (let t = Math.ceil((from - r.range.from) / step) * step; t <= to - r.range.from; t += step) {
      const x = LEFT + (t + r.range.from - from) * scale;
      c.fillStyle = colors.line;
      c.fillRect(x, AXIS - 6, 1, 6);
      c.fillStyle = colors.dim;
      c.fillText(r.duration(t), x + 3, AXIS / 2 - 2);
    }
  }

  function later() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  /* ---- moving ---- */

  function show(lo, hi) {
    const whole = r.range.to - r.range.from, width = Math.min(Math.max(hi - lo, 10), whole);
    from = Math.min(Math.max(lo, r.range.from), r.range.to - width);
    to = from + width;
    later();
  }
  function zoom(factor, x) { // x: what stays where it is
    const scale = (box.clientWidth - LEFT) / (to - from);
    const at = x === undefined ? (from + to) / 2 : from + Math.max(x - LEFT, 0) / scale;
    show(at - (at - from) * factor, at + (to - at) * factor);
  }
  function pan(part) { show(from + (to - from) * part, to + (to - from) * part); }

  box.addEventListener("wheel", function (e) {
    const sideways = e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY);
    e.preventDefault();
    if (sideways) pan((e.deltaX || e.deltaY) / 1000);
    else if (e.altKey) box.scrollTop += e.deltaY;
    else zoom(Math.pow(1.0015, e.deltaY), e.offsetX);
  }, { passive: false });
  box.addEventListener("scroll", later);
  new ResizeObserver(later).observe(box);
  r.dark.addEventListener("change", later);

  canvas.addEventListener("pointerdown", function (e) {
    drag = { x: e.clientX, y: e.clientY, from, to, top: box.scrollTop, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", function (e) {
    if (!drag) return hover(e);
    const ns = (e.clientX - drag.x) * (drag.to - drag.from) / (box.clientWidth - LEFT);
    drag.moved = drag.moved || Math.abs(e.clientX - drag.x) + Math.abs(e.clientY - drag.y) > 3;
    if (!drag.moved) return;
    tip.hidden = true;
    box.scrollTop = drag.top - (e.clientY - drag.y);
    show(drag.from - ns, drag.to - ns);
  });
  canvas.addEventListener("pointerup", function (e) {
    if (drag && !drag.moved) select(find(e));
    drag = null;
  });
  canvas.addEventListener("pointerleave", function () { tip.hidden = true; });
  canvas.addEventListener("dblclick", function (e) {
    const found = find(e);
    if (!found || !found.slice) return;
    show(found.slice.begin - found.slice.took * 0.1, found.slice.begin + found.slice.took * 1.1);
  });

  // What is under the pointer: a slice, or a record.
  function find(e) {
    const b = canvas.getBoundingClientRect(), x = e.clientX - b.left, y = e.clientY - b.top + box.scrollTop;
    const scale = (box.clientWidth - LEFT) / (to - from), ns = from + (x - LEFT) / scale;
    const t = tracks.find(function (k) { return k.rows && y >= k.y && y < k.y + k.height; });
    if (!t || x < LEFT || e.clientY - b.top < AXIS) return null;
    const depth = Math.floor((y - t.y - t.top - 2) / ROW), near = 3 / scale;
    if (y - t.y < t.top) {
      const at = function (k) { return r.records.ns[t.ticks[k]]; };
      const i = r.firstFrom(t.ticks.length, at, ns - near);
      return i < t.ticks.length && at(i) <= ns + near ? { record: t.ticks[i] } : null;
    }
    const row = t.rows[depth] || [];
    for (let i = firstOf(row, ns - near); i < row.length && row[i].begin <= ns + near; i++)
      if (row[i].begin + row[i].took >= ns - near) return { slice: row[i], record: row[i].record };
    return null;
  }

  function textOf(found) {
    const s = found.slice;
    if (!s) return r.describe(found.record);
    const ends = ["", "no return was seen", "it goes on at the end"][s.end];
    return r.functions[s.event] + "\n" + r.duration(s.took) + ", itself " + r.duration(s.self) +
      (ends ? "; " + ends : "") + (s.lost ? "; records were lost meanwhile" : "") + "\n" + r.describe(s.record) +
      (s.exit >= 0 ? "\n" + r.describe(s.exit) : "");
  }

  function hover(e) {
    const found = find(e);
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = textOf(found);
    tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  }

  function select(found) {
    selected = found && found.slice;
    detail.textContent = "";
    if (found) {
      const go = r.element("button", "show in the list", "go");
      go.addEventListener("click", function () { r.toRecord(found.record); });
      detail.append(go, r.element("span", "\n" + textOf(found)));
    }
    later();
  }

  const keys = {
    w: function () { zoom(0.7); }, s: function () { zoom(1 / 0.7); }, a: function () { pan(-0.2); },
    d: function () { pan(0.2); }, 0: function () { show(r.range.from, r.range.to); },
  };
  keys["+"] = keys["="] = keys.w;
  keys["-"] = keys.s;
  keys.ArrowLeft = keys.a;
  keys.ArrowRight = keys.d;
  r.tabs["p-time"] = { shown: draw, key: function (e) {
    const act = keys[e.key];
    if (act) act();
    return Boolean(act);
  } };
  r.timeRange = function () { return [from, to]; };
  // A range of time, or a call of a record.
  r.toTime = function (lo, hi) {
    r.tab("p-time");
    show(lo, hi);
  };
})(report);
