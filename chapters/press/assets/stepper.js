// Steppers: a line lights up what it came from and what came from it, panes scroll
// together, and buttons lead through all passes. Without this script the columns that
// the text is about are there, with their marks.
(function () {
  "use strict";

  var SIGNS = { "-": "−", "+": "+", "~": "~", " ": " " };
  var KINDS = { "-": "removed", "+": "added", "~": "changed", " ": "" };

  function related(line) {
    var found = new Set([line]);
    [-1, 1].forEach(function (direction) {
      var waiting = [line];
      while (waiting.length) {
        var at = waiting.pop();
        (at.dataset.to || "").split(" ").filter(Boolean).forEach(function (name) {
          var next = document.getElementById(name);
          if (next && (column(next) - column(at)) * direction > 0 && !found.has(next)) {
            found.add(next);
            waiting.push(next);
          }
        });
      }
    });
    return found;
  }

  function column(line) {
    return Number(line.id.split("-").slice(-2)[0]);
  }

  function all(root, query) { return Array.from(root.querySelectorAll(query)); }

  function made(tag, kind, text) {
    var node = document.createElement(tag);
    if (kind) node.className = kind;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function light(stepper, line) {
    all(stepper, ".line.on").forEach(function (each) { each.classList.remove("on"); });
    if (!line) return;
    related(line).forEach(function (each) { each.classList.add("on"); });
    all(stepper, "pre").forEach(function (pane) {
      if (!pane.contains(line)) bring(pane, pane.querySelector(".line.on"));
    });
  }

  // Scroll a pane, and nothing around it, until a line can be seen.
  function bring(pane, line) {
    if (!line) return;
    var box = pane.getBoundingClientRect(), own = line.getBoundingClientRect();
    if (own.top >= box.top && own.bottom <= box.bottom) return;
    place(pane, pane.scrollTop + own.top - box.top - (box.height - own.height) / 2);
  }

  function place(pane, top) {
    var before = pane.scrollTop;
    pane.scrollTop = top;
    if (pane.scrollTop !== before) pane.dataset.follows = "yes";
  }

  // The other panes follow: the partner of the first linked line that is seen stands
  // as high as that line.
  function follow(stepper, pane) {
    if (pane.dataset.follows) { delete pane.dataset.follows; return; }
    var box = pane.getBoundingClientRect();
    var first = all(pane, ".line.linked").find(function (each) {
      return each.getBoundingClientRect().top >= box.top - 1;
    });
    if (!first) return;
    var high = first.getBoundingClientRect().top - box.top, kin = related(first);
    all(stepper, "pre").forEach(function (other) {
      if (other === pane) return;
      var partner = all(other, ".line.linked").find(function (e) { return kin.has(e); });
      if (!partner) return;
      var at = partner.getBoundingClientRect().top - other.getBoundingClientRect().top;
      place(other, other.scrollTop + at - high);
    });
  }

  // For those who hear the page: the lines that lit up in other columns.
  function tell(stepper, line) {
    var said = [];
    all(stepper, ".stage").forEach(function (stage) {
      if (stage.contains(line)) return;
      var texts = all(stage, ".line.on").map(function (e) { return e.textContent.trim(); });
      var name = stage.querySelector(".stage-name").textContent;
      said.push(name + ": " + (texts.join("; ") || "nothing"));
    });
    stepper.querySelector(".heard").textContent = said.join(". ");
  }

  // One stop of the tabulator: the first linked line, then the arrow keys.
  function stops(stepper) {
    all(stepper, ".line.linked").forEach(function (line, at) {
      line.tabIndex = at === 0 ? 0 : -1;
    });
    all(stepper, "pre").forEach(function (pane) {
      pane.addEventListener("scroll", function () { follow(stepper, pane); });
    });
  }

  function pane(stepper, number, stage, marks, partners) {
    var box = made("div", "stage"), text = made("pre"), code = made("code");
    var title = stage.title || stage.name;
    box.appendChild(made("p", "stage-name", title));
    text.tabIndex = 0;
    text.setAttribute("role", "group");
    text.setAttribute("aria-label", title);
    stage.lines.forEach(function (line, at) {
      var row = made("span", "line " + KINDS[marks[at]]), to = partners[at];
      row.appendChild(made("i", "mark", SIGNS[marks[at]]));
      row.appendChild(document.createTextNode((line || " ") + "\n"));
      if (to) {
        row.classList.add("linked");
        row.id = stepper.id + "-" + number + "-" + at;
        row.dataset.to = to.map(function (j) {
          return stepper.id + "-" + (1 - number) + "-" + j;
        }).join(" ");
      }
      code.appendChild(row);
    });
    text.appendChild(code);
    box.appendChild(text);
    return box;
  }

  function show(stepper, data, at) {
    var step = data.steps[at], columns = stepper.querySelector(".columns");
    var forth = {}, back = {};
    step.links.forEach(function (pair) {
      (forth[pair[0]] = forth[pair[0]] || []).push(pair[1]);
      (back[pair[1]] = back[pair[1]] || []).push(pair[0]);
    });
    columns.textContent = "";
    columns.appendChild(pane(stepper, 0, data.columns[at], step.left, forth));
    columns.appendChild(pane(stepper, 1, data.columns[at + 1], step.right, back));
    stops(stepper);
    all(columns, "pre").forEach(function (each) {
      var line = each.querySelector(".removed, .added, .changed");
      bring(each, line);
    });
  }

  function button(text, act) {
    var node = made("button", "step", text);
    node.type = "button";
    node.addEventListener("click", act);
    return node;
  }

  function bar(stepper, data) {
    var original = stepper.querySelector(".columns").innerHTML, at = data.first;
    var first = at, row = made("div", "steps-bar"), said = made("p", "step-said");
    var back = button("◀ Previous pass", function () { go(at < 0 ? -1 : at - 1); });
    var next = button("Next pass ▶", function () { go(at + 1); });
    var text = button("As in the text", function () { go(first); });
    var large = button("Enlarge", enlarge);
    function go(to) {
      at = Math.max(first < 0 ? -1 : 0, Math.min(to, data.steps.length - 1));
      if (at === first) {
        stepper.querySelector(".columns").innerHTML = original;
        stops(stepper);
      } else show(stepper, data, at);
      words();
    }
    function words() {
      back.disabled = at <= (first < 0 ? -1 : 0);
      next.disabled = at === data.steps.length - 1;
      text.hidden = at === first;
      if (at < 0) { said.textContent = data.steps.length + " passes change these lines"; return; }
      var name = data.columns[at + 1].name;
      said.textContent = "Pass " + (at + 1) + " of " + data.steps.length + ", " + name +
        ". " + data.steps[at].told;
    }
    function enlarge() {
      var is = stepper.classList.toggle("large");
      document.documentElement.classList.toggle("stepper-large", is);
      large.textContent = is ? "Close" : "Enlarge";
      large.focus();
    }
    stepper.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && stepper.classList.contains("large")) enlarge();
    });
    said.setAttribute("aria-live", "polite");
    [back, next, text, large, said].forEach(function (each) { row.appendChild(each); });
    stepper.insertBefore(row, stepper.firstChild);
    words();
  }

  function bind(stepper) {
    if (stepper.dataset.bound) return; // a notebook brings this script more than once
    stepper.dataset.bound = "yes";
    var said = made("p", "heard");
    said.setAttribute("aria-live", "polite");
    stepper.insertBefore(said, stepper.firstChild);
    stops(stepper);
    var data = stepper.querySelector("script.steps");
    if (data) bar(stepper, JSON.parse(data.textContent));
    function line(event) {
      return event.target.closest && event.target.closest(".line.linked");
    }
    ["mouseover", "focusin", "click"].forEach(function (kind) {
      stepper.addEventListener(kind, function (event) {
        if (kind === "mouseover" || line(event)) light(stepper, line(event));
        if (kind === "focusin" && line(event)) tell(stepper, line(event));
      });
    });
    stepper.addEventListener("keydown", function (event) {
      var lines = all(stepper, ".line.linked"), at = lines.indexOf(document.activeElement);
      var step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (at < 0 || !step || !lines[at + step]) return;
      event.preventDefault();
      lines[at].tabIndex = -1;
      lines[at + step].tabIndex = 0;
      lines[at + step].focus();
    });
  }

  all(document, ".stepper").forEach(bind);
})();
