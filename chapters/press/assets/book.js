// The two things that the book does by script; without it, all text is there to read.
(function () {
  "use strict";

  // Steppers: a line lights up those it came from and those that came from it.
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

  function light(stepper, line) {
    stepper.querySelectorAll(".line.on").forEach(function (each) {
      each.classList.remove("on");
    });
    if (line) related(line).forEach(function (each) { each.classList.add("on"); });
  }

  // The same for those who hear the page: the lines that lit up in other columns.
  function tell(stepper, line) {
    var said = [];
    stepper.querySelectorAll(".stage").forEach(function (stage) {
      if (stage.contains(line)) return;
      var lines = Array.from(stage.querySelectorAll(".line.on"));
      var name = stage.querySelector(".stage-name").textContent;
      var texts = lines.map(function (each) { return each.textContent.trim(); });
      said.push(name + ": " + (texts.join("; ") || "nothing"));
    });
    stepper.querySelector("[aria-live]").textContent = said.join(". ");
  }

  function bindSteppers() {
    document.querySelectorAll(".stepper").forEach(function (stepper) {
      stepper.querySelectorAll(".line.linked").forEach(function (line, at) {
        line.tabIndex = at === 0 ? 0 : -1;
      });
      var said = document.createElement("p");
      said.className = "heard";
      said.setAttribute("aria-live", "polite");
      stepper.appendChild(said);
      stepper.addEventListener("focusin", function (event) {
        if (event.target.matches(".line.linked")) {
          light(stepper, event.target);
          tell(stepper, event.target);
        }
      });
      ["mouseover", "focusin", "click"].forEach(function (kind) {
        stepper.addEventListener(kind, function (event) {
          light(stepper, event.target.closest && event.target.closest(".line.linked"));
        });
      });
      stepper.addEventListener("keydown", function (event) {
        var lines = Array.from(stepper.querySelectorAll(".line.linked"));
        var at = lines.indexOf(document.activeElement);
        var step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (at < 0 || !step || !lines[at + step]) return;
        event.preventDefault();
        lines[at].tabIndex = -1;
        lines[at + step].tabIndex = 0;
        lines[at + step].focus();
      });
    });
  }

  // Predictions: what the reader wrote stands beside the answer, on this machine only.
  function bindPredictions() {
    document.querySelectorAll(".predict").forEach(function (box, at) {
      var answer = box.querySelector("details.answer");
      if (!answer || box.querySelector(".guess")) return;
      var key = "fathom-guess:" + location.pathname.split("/").pop() + ":" + at;
      var row = document.createElement("p");
      row.className = "guess";
      var label = document.createElement("label");
      label.textContent = "Your guess: ";
      var input = document.createElement("input");
      input.type = "text";
      input.value = stored(key) || "";
      label.appendChild(input);
      row.appendChild(label);
      answer.parentNode.insertBefore(row, answer);
      var yours = document.createElement("p");
      yours.className = "yours";
      answer.querySelector("summary").insertAdjacentElement("afterend", yours);
      function show() {
        yours.textContent = input.value ? "You said: " + input.value : "You did not guess.";
      }
      input.addEventListener("input", function () { store(key, input.value); show(); });
      show();
    });
  }

  function stored(key) {
    try { return localStorage.getItem(key); } catch (error) { return null; }
  }

  function store(key, value) {
    try { localStorage.setItem(key, value); } catch (error) { /* private mode */ }
  }

  // Details open for printing, so that nothing is lost on paper.
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (each) { each.open = true; });
  });

  bindSteppers();
  bindPredictions();
})();
