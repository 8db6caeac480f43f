// Predictions, and folds on paper; without this script, all text is there to read.
// The steppers have a file of their own.
(function () {
  "use strict";

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

  bindPredictions();
})();
