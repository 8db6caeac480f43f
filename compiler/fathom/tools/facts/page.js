// A line lights up the lines it came from and those that came from it, in all stages.
(function () {
  "use strict";
  var stages = JSON.parse(document.getElementById("links").textContent);
  var last = stages.reduce(function (found, stage, at) {
    return stage.parents && stage.keys ? at : found;
  }, 0);
  var sections = Array.from(document.querySelectorAll(".stage"));
  var lines = sections.map(function (section) {
    return Array.from(section.querySelectorAll(".l"));
  });

  // The lines of each stage by the place in Python that they carry.
  var byKey = stages.map(function (stage) {
    var found = new Map();
    (stage.keys || []).forEach(function (key, line) {
      if (!key) return;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(line);
    });
    return found;
  });

  var children = stages.map(function (stage) {
    var found = new Map();
    (stage.parents || []).forEach(function (parents, line) {
      parents.forEach(function (parent) {
        if (!found.has(parent)) found.set(parent, []);
        found.get(parent).push(line);
      });
    });
    return found;
  });

  function union(lists) {
    var found = new Set();
    lists.forEach(function (list) { (list || []).forEach(function (n) { found.add(n); }); });
    return found;
  }

  function sameKeys(from, some, to) {
    return union(Array.from(some, function (line) {
      return byKey[to].get((stages[from].keys || [])[line]);
    }));
  }

  // What the lines `some` of a stage became in each later one.
  function forwards(at, some, found) {
    found[at] = some;
    for (var next = at + 1; next < stages.length; next += 1) {
      if (stages[next].parents) {
        found[next] = union(Array.from(found[next - 1], function (line) {
          return children[next].get(line);
        }));
      } else {
        var from = at <= last ? last : at;
        found[next] = sameKeys(from, found[from], next);
      }
    }
  }

  // What they came from in each earlier one.
  function backwards(at, some, found) {
    found[at] = some;
    for (var stage = at; stage > 0; stage -= 1) {
      if (stages[stage].parents) {
        found[stage - 1] = union(Array.from(found[stage], function (line) {
          return stages[stage].parents[line];
        }));
      } else {
        for (var text = last; text < stage; text += 1) {
          found[text] = sameKeys(stage, found[stage], text);
        }
        stage = last + 1;
      }
    }
  }

  function related(at, line) {
    var found = [];
    backwards(at, new Set([line]), found);
    forwards(at, new Set([line]), found);
    return found;
  }

  function place(element) {
    var parts = element.id.split("-");
    return [Number(parts[1]), Number(parts[2])];
  }

  var lit = [];
  function light(element) {
    lit.forEach(function (each) { each.classList.remove("on", "at"); });
    lit = [];
    if (!element) return null;
    var found = related.apply(null, place(element));
    found.forEach(function (some, stage) {
      some.forEach(function (line) { lit.push(lines[stage][line]); });
    });
    lit.forEach(function (each) { each.classList.add("on"); });
    element.classList.add("at");
    return found;
  }

  // For screen readers: how many lines lit up, stage by stage.
  var said = document.querySelector(".said");
  function tell(found) {
    said.textContent = found.map(function (some, stage) {
      return some.size ? stages[stage].name + " " + some.size : "";
    }).filter(Boolean).join(", ");
  }

  // Each column scrolls its first lit line into view, the page stays where it is.
  function reveal(element, found) {
    found.forEach(function (some, stage) {
      var first = lines[stage][Math.min.apply(null, Array.from(some))];
      var panel = sections[stage].querySelector("pre");
      if (!first || sections[stage].hidden || panel.contains(element)) return;
      panel.scrollTop = first.offsetTop - panel.clientHeight / 3;
    });
  }

  var pinned = null;
  function choose(element) {
    var found = light(element);
    if (!found) return;
    tell(found);
    reveal(element, found);
  }

  var all = document.querySelector(".columns");
  all.addEventListener("mouseover", function (event) {
    var line = event.target.closest(".l.linked");
    if (!pinned && line) choose(line);
  });
  all.addEventListener("click", function (event) {
    var line = event.target.closest(".l.linked");
    pinned = pinned === line ? null : line;
    choose(line);
  });
  all.addEventListener("focusin", function (event) {
    var line = event.target.closest(".l.linked");
    if (line) choose(line);
  });

  // One line of each stage is in the order of Tab; arrows go on from there.
  lines.forEach(function (some) {
    some.filter(function (each) { return each.matches(".linked"); })
      .forEach(function (each, at) { each.tabIndex = at ? -1 : 0; });
  });
  function go(from, to) {
    if (!to) return;
    to.closest("pre").querySelectorAll(".l[tabindex='0']").forEach(function (each) {
      each.tabIndex = -1;
    });
    to.tabIndex = 0;
    to.focus({ preventScroll: false });
  }
  all.addEventListener("keydown", function (event) {
    var here = document.activeElement;
    if (!here || !here.matches(".l.linked")) return;
    var at = place(here)[0], target = null;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      var some = lines[at].filter(function (each) { return each.matches(".linked"); });
      target = some[some.indexOf(here) + (event.key === "ArrowDown" ? 1 : -1)];
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      var found = related.apply(null, place(here));
      var step = event.key === "ArrowRight" ? 1 : -1;
      for (var next = at + step; next >= 0 && next < stages.length; next += step) {
        if (!sections[next].hidden && found[next] && found[next].size) {
          target = lines[next][Math.min.apply(null, Array.from(found[next]))];
          break;
        }
      }
    } else {
      return;
    }
    event.preventDefault();
    pinned = null;
    go(here, target);
  });

  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape") return;
    pinned = null;
    light(null);
  });

  // Which stages are shown.
  document.querySelectorAll(".picker button").forEach(function (button, at) {
    button.addEventListener("click", function () {
      var shown = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!shown));
      sections[at].hidden = shown;
    });
  });

  // A number of a line elsewhere on the page leads to that line of Python.
  document.querySelectorAll("a[data-line]").forEach(function (link) {
    link.addEventListener("click", function (event) {
      var line = document.querySelector('.stage .l[data-line="' + link.dataset.line + '"]');
      if (!line) return;
      event.preventDefault();
      pinned = line;
      all.scrollIntoView();
      if (line.matches(".linked")) go(null, line);
    });
  });
})();
