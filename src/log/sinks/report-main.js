// The head of the page, its tabs and keys.
(function (r) {
  "use strict";
  const head = r.data.head, nav = document.getElementById("tabs"), warn = document.getElementById("warn");
  const sections = Array.prototype.slice.call(document.querySelectorAll("section"));

  function some(names, most) {
    const list = Array.from(new Set(names));
    return list.slice(0, most).join(", ") + (list.length > most ? " and " + (list.length - most) + " more" : "");
  }
  const places = r.data.rows.length ? r.data.rows.map(function (row) { return row[0]; }) : r.events;
  const who = some(Array.from(r.processes.values(), function (p) { return p.name; }), 3);
  document.title = who + ": " + some(places, 3);
  document.getElementById("title").textContent = (who || "nothing") + ": " + (some(places, 8) || "no events");
  document.getElementById("facts").textContent = [
    new Date(head.began_ms).toLocaleString(), head.host, head.system + " " + head.release + " " + head.machine,
    (head.lasted_ns ? r.duration(head.lasted_ns) : r.duration(r.range.to - r.range.from)),
    r.number(r.records.n) + " events", r.number(r.threads.length) + " threads",
    r.byFunction.length ? r.number(r.byFunction.reduce(function (n, f) { return n + f.calls; }, 0)) + " calls" : "",
  ].filter(Boolean).join(" · ");
  if (head.lost) {
    warn.hidden = false;
    warn.textContent = r.number(head.lost) + " records were lost: what is missing lies around the red lines of the " +
      "time line.";
  }

  /* ---- the flame graph is a picture of its own, with its own script ---- */

  const flame = document.getElementById("flame-svg"), flameBox = document.getElementById("flame-box");
  const svg = flame.querySelector("svg");
  if (svg) flameBox.append(svg);
  else flameBox.append(r.element("p", "There are no call stacks: record $backtrace, or entries and returns.", "none"));
  r.tabs["p-flame"] = {};

  /* ---- tabs ---- */

  r.tab = function (id) {
    r.shown = id;
    sections.forEach(function (s) { s.classList.toggle("on", s.id === id); });
    Array.prototype.forEach.call(nav.children, function (b) { b.classList.toggle("on", b.dataset.of === id); });
    if (r.tabs[id].shown) r.tabs[id].shown();
  };
  for (const s of sections) {
    const b = r.element("button", s.dataset.tab);
    b.dataset.of = s.id;
    b.addEventListener("click", function () { r.tab(s.id); });
    nav.append(b);
  }

  // Before the flame graph's keys, which are for its tab alone.
  document.addEventListener("keydown", function (e) {
    const tab = r.tabs[r.shown], typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName);
    if (e.ctrlKey || e.altKey || e.metaKey || r.shown === "p-flame") return;
    if (typing && e.key === "Escape") {
      e.target.value = "";
      e.target.dispatchEvent(new Event("input"));
      e.target.blur();
    }
    e.stopPropagation();
    if (typing) return;
    if (e.key === "/" && tab.search) {
      tab.search.focus();
      e.preventDefault();
    } else if (tab.key && tab.key(e)) {
      e.preventDefault();
    }
  }, true);

  r.tab(r.records.n || !r.tables.length ? "p-time" : "p-tables");
  r.ready = true;
})(report);
