// What a flame graph does in a browser: a click enlarges a function, "/" searches. It asks nothing of any network.
(function () {
  "use strict";
  function graph(svg) {
    var width = svg.viewBox.baseVal.width;
    var frames = Array.prototype.slice.call(svg.querySelectorAll("g.f"));
    var reset = svg.querySelector(".reset"), found = svg.querySelector(".found");
    var zoomed = null, typing = false, wanted = "";

    function number(frame, name) { return parseFloat(frame.getAttribute("data-" + name)); }

    function place(frame, x, w) {
      var rect = frame.querySelector("rect"), text = frame.querySelector("text");
      var name = frame.getAttribute("data-n"), room = Math.floor((w - 4) / 6.6);
      rect.setAttribute("x", x);
      rect.setAttribute("width", w);
      text.setAttribute("x", x + 3);
      text.textContent = room < 2 ? "" : name.slice(0, room);
    }

    function zoom(to) {
      var x = to ? number(to, "x") : 0, w = to ? number(to, "w") : width, d = to ? number(to, "d") : 0;
      frames.forEach(function (frame) {
        var fx = number(frame, "x"), fw = number(frame, "w"), below = number(frame, "d") < d;
        var around = below && fx <= x + 1e-2 && fx + fw >= x + w - 1e-2;
        var inside = !below && fx >= x - 1e-2 && fx + fw <= x + w + 1e-2;
        frame.classList.toggle("off", !around && !inside);
        frame.classList.toggle("ghost", around);
        if (around)
          place(frame, 0, width);
        else if (inside)
          place(frame, (fx - x) * width / w, fw * width / w);
      });
      zoomed = to;
      reset.classList.toggle("off", !to);
    }

    // Functions within one that is found are part of it already.
    function search(text) {
      var test = null, sum = 0, ends = [], n = 0;
      try { test = text ? new RegExp(text, "i") : null; } catch (e) { test = null; }
      frames.forEach(function (frame) {
        var hit = Boolean(test) && test.test(frame.getAttribute("data-n")), d = number(frame, "d");
        frame.classList.toggle("hit", hit);
        while (ends.length && ends[ends.length - 1] >= d)
          ends.pop();
        if (!hit)
          return;
        n++;
        if (!ends.length)
          sum += number(frame, "w");
        ends.push(d);
      });
      found.textContent = !text && !typing ? "" : "search: " + text + (typing ? "_" : "") +
        (test ? "   " + n + " found, " + (100 * sum / width).toFixed(2) + " %" : "");
    }

    frames.forEach(function (frame) {
      frame.addEventListener("click", function () { zoom(number(frame, "d") && frame !== zoomed ? frame : null); });
    });
    reset.addEventListener("click", function () { zoom(null); });
    svg.querySelector(".search").addEventListener("click", function () { typing = true; wanted = ""; search(wanted); });
    document.addEventListener("keydown", function (event) {
      if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName))
        return;
      if (event.key === "Escape") {
        typing = false;
        wanted = "";
        zoom(null);
      } else if (!typing && event.key === "/") {
        typing = true;
        wanted = "";
      } else if (typing && event.key === "Enter") {
        typing = false;
      } else if (typing && event.key === "Backspace") {
        wanted = wanted.slice(0, -1);
      } else if (typing && event.key.length === 1) {
        wanted += event.key;
      } else {
        return;
      }
      event.preventDefault();
      search(wanted);
    });
    svg.dpZoom = zoom;
    svg.dpSearch = search;
  }
  Array.prototype.forEach.call(document.querySelectorAll("svg.flame"), graph);
})();
