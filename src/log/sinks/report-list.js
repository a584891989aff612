// The list of all events: only the rows that are visible are there.
(function (r) {
  "use strict";
  const ROW = 22, HIGHEST = 8e6; // pixels: browsers have limits
  const box = document.getElementById("event-box"), tall = document.getElementById("event-tall");
  const rows = document.getElementById("event-rows"), head = document.getElementById("event-head");
  const search = document.getElementById("event-search"), ofEvent = document.getElementById("event-of");
  const ofThread = document.getElementById("thread-of"), found = document.getElementById("event-found");
  const detail = document.getElementById("event-detail"), records = r.records;
  let list = null, selected = -1, timer = 0; // list: indexes of what is shown; null: all

  const took = new Map();
  for (const slices of r.slices)
    for (const s of slices)
      took.set(s.exit >= 0 ? s.exit : s.record, s);

  for (const name of ["Time (s)", "Thread", "CPU", "Event", "Duration", "Arguments"])
    head.append(r.element("span", name));
  ofEvent.append(new Option("all events", ""));
  for (const name of new Set(r.events)) ofEvent.append(new Option(name, name));
  ofThread.append(new Option("all threads", ""));
  r.threads.forEach(function (name, i) { ofThread.append(new Option(name, i)); });

  function length() { return list ? list.length : records.n; }
  function at(k) { return list ? list[k] : k; }

  function filter() {
    const test = r.matcher(search.value), event = ofEvent.value, thread = ofThread.value;
    const wanted = r.events.map(function (name) { return !event || name === event; });
    const named = test && r.events.map(test), threaded = test && r.threads.map(test);
    list = null;
    if (test || event || thread) {
      list = [];
      for (let i = 0; i < records.n; i++)
        if (wanted[records.event[i]] && (!thread || records.thread[i] === Number(thread)) &&
            (!test || named[records.event[i]] || threaded[records.thread[i]] || test(records.texts[i])))
          list.push(i);
    }
    box.scrollTop = 0;
    draw();
  }

  // Of a list that is too tall for a box, the scroll bar moves in larger steps.
  function draw() {
    const n = length(), whole = n * ROW, height = Math.min(whole, HIGHEST), visible = box.clientHeight;
    const part = height > visible ? box.scrollTop / (height - visible) : 0, top = part * Math.max(whole - visible, 0);
    const first = Math.max(0, Math.floor(top / ROW) - 5), last = Math.min(n, first + Math.ceil(visible / ROW) + 12);
    tall.style.height = height + "px";
    rows.style.transform = "translateY(" + (box.scrollTop - top + first * ROW) + "px)";
    rows.textContent = "";
    for (let k = first; k < last; k++)
      rows.append(row(at(k)));
    found.textContent = list ? r.number(n) + " of " + r.number(records.n) + " events" : r.number(n) + " events";
  }

  function row(i) {
    const e = r.element("div", undefined, i === selected ? "row on" : "row"), s = took.get(i);
    for (const text of [r.stamp(records.ns[i]), r.threads[records.thread[i]], records.cpu[i],
                        r.events[records.event[i]], s ? r.duration(s.took) : "", records.texts[i]])
      e.append(r.element("span", text));
    e.addEventListener("click", function () { select(i); });
    return e;
  }

  function select(i) {
    const go = r.element("button", "show in the time line", "go"), s = took.get(i);
    selected = i;
    go.addEventListener("click", function () {
      const begin = s ? s.begin : records.ns[i], width = s ? s.took : 1000;
      r.toTime(begin - width, begin + 2 * width);
    });
    detail.textContent = "";
    detail.append(go, r.element("span", "\n" + r.describe(i)));
    draw();
  }

  box.addEventListener("scroll", function () { requestAnimationFrame(draw); });
  new ResizeObserver(draw).observe(box);
  search.addEventListener("input", function () {
    clearTimeout(timer);
    timer = setTimeout(filter, 120);
  });
  ofEvent.addEventListener("change", filter);
  ofThread.addEventListener("change", filter);
  r.tabs["p-events"] = { shown: draw, search };
  r.toRecord = function (i) {
    search.value = ofEvent.value = ofThread.value = "";
    r.tab("p-events");
    filter();
    box.scrollTop = Math.max(0, (i * ROW) * Math.min(1, HIGHEST / (records.n * ROW)) - box.clientHeight / 2);
    select(i);
  };
  r.toEvents = function (name) {
    ofEvent.value = name;
    r.tab("p-events");
    filter();
  };
})(report);
