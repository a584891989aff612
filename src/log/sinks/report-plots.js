// Durations of a function: how many calls took how long, as bars; and when, as a heat map. Both by powers of two, in
// four steps each.
(function (r) {
  "use strict";
  const STEPS = 4, COLUMNS = 160, CELL = 9, LEFT = 80, BOTTOM = 22, HEIGHT = 220;
  const choice = document.getElementById("duration-of"), facts = document.getElementById("duration-facts");
  const bars = document.getElementById("bars"), heat = document.getElementById("heat");
  let cells = null;

  choice.append(new Option("all functions", ""));
  for (const f of r.byFunction)
    choice.append(new Option(f.name, f.name));

  function chosen() {
    if (choice.value) return r.byFunction.filter(function (f) { return f.name === choice.value; });
    return r.byFunction;
  }
  function bin(ns) { return Math.floor(Math.log2(Math.max(ns, 1)) * STEPS); }
  function low(i) { return Math.pow(2, i / STEPS); }

  // How many there are in each bin, and by time.
  function count() {
    const whole = r.range.to - r.range.from;
    let lo = Infinity, hi = 0, n = 0;
    for (const f of chosen())
      for (const s of f.all) {
        lo = Math.min(lo, bin(s.took));
        hi = Math.max(hi, bin(s.took));
        n++;
      }
    if (!n) return null;
    const rows = hi - lo + 1, sum = new Float64Array(rows), map = new Float64Array(rows * COLUMNS);
    for (const f of chosen())
      for (const s of f.all) {
        const x = Math.min(COLUMNS - 1, Math.floor((s.begin - r.range.from) / whole * COLUMNS)), y = bin(s.took) - lo;
        sum[y]++;
        map[y * COLUMNS + x]++;
      }
    return { lo, rows, sum, map, n };
  }

  function draw() {
    const f = chosen();
    cells = count();
    facts.textContent = !cells ? "no calls" : r.number(cells.n) + " calls" + (f.length !== 1 ? "" :
      ", median " + r.duration(f[0].median) + ", 99 % " + r.duration(f[0].p99) + ", longest " +
      r.duration(f[0].longest));
    drawBars();
    drawHeat();
  }

  function drawBars() {
    const width = bars.parentElement.clientWidth - 32, c = r.context(bars, Math.max(width, 100), HEIGHT);
    if (!cells) return;
    const most = cells.sum.reduce(function (a, b) { return Math.max(a, b); }, 1), high = HEIGHT - BOTTOM - 16;
    const step = Math.min((width - LEFT) / cells.rows, 60);
    c.font = "12px system-ui,sans-serif";
    for (let i = 0; i < cells.rows; i++) {
      const x = LEFT + i * step, h = cells.sum[i] / most * high;
      c.fillStyle = r.color("bar");
      c.fillRect(x, 16 + high - h, Math.max(step - 1, 1), h);
      if (cells.sum[i] && h < 1) c.fillRect(x, 15 + high, Math.max(step - 1, 1), 1);
      c.fillStyle = r.color("dim");
      if (x > width - 56) continue;
      if ((cells.lo + i) % STEPS === 0 && step * STEPS > 60 || (cells.lo + i) % (2 * STEPS) === 0 && step * STEPS > 30)
        c.fillText(r.duration(low(cells.lo + i)), x, HEIGHT - 6);
    }
    c.textAlign = "right";
    c.fillText(r.number(most), LEFT - 8, 22);
    c.fillText("0", LEFT - 8, 16 + high);
    c.textAlign = "left";
  }

  function drawHeat() {
    const width = Math.max(heat.parentElement.clientWidth - 32, 100), rows = cells ? cells.rows : 1;
    const c = r.context(heat, width, rows * CELL + BOTTOM), step = (width - LEFT) / COLUMNS, hot = r.color("hot");
    if (!cells) return;
    const most = Math.log1p(cells.map.reduce(function (a, b) { return Math.max(a, b); }, 1));
    c.font = "12px system-ui,sans-serif";
    c.fillStyle = r.color("soft");
    c.fillRect(LEFT, 0, width - LEFT, rows * CELL);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < COLUMNS; x++) {
        const n = cells.map[y * COLUMNS + x];
        if (!n) continue;
        c.fillStyle = "rgba(" + hot + "," + (0.15 + 0.85 * Math.log1p(n) / most) + ")";
        c.fillRect(LEFT + x * step, (rows - 1 - y) * CELL, Math.ceil(step), CELL);
      }
      c.fillStyle = r.color("dim");
      c.textAlign = "right";
      if ((cells.lo + y) % STEPS === 0) c.fillText(r.duration(low(cells.lo + y)), LEFT - 8, (rows - y) * CELL);
      c.textAlign = "left";
    }
    for (let i = 0; i < 5; i++) {
      c.textAlign = i === 4 ? "right" : "left";
      c.fillText(r.duration((r.range.to - r.range.from) * i / 4), LEFT + (width - LEFT) * i / 4, rows * CELL + 16);
    }
    c.textAlign = "left";
  }

  heat.addEventListener("click", function (e) {
    const b = heat.getBoundingClientRect(), part = (e.clientX - b.left - LEFT) / (b.width - LEFT);
    const width = (r.range.to - r.range.from) / COLUMNS, x = Math.floor(part * COLUMNS);
    if (part >= 0) r.toTime(r.range.from + x * width, r.range.from + (x + 1) * width);
  });
  choice.addEventListener("change", draw);
  window.addEventListener("resize", function () { if (r.shown === "p-durations") draw(); });
  r.dark.addEventListener("change", function () { if (r.shown === "p-durations") draw(); });
  r.tabs["p-durations"] = { shown: draw };
  r.toDurations = function (name) {
    choice.value = name;
    r.tab("p-durations");
  };
})(report);
