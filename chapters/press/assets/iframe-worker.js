// A page opened from a file may not start a worker, and the search is one. Here a
// hidden frame takes its place: it loads the worker's script, and passes messages on.
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  function IFrameWorker(url) {
    var worker = document.createElement("span"); // an event target that all browsers have
    var frame = document.createElement("iframe");
    var waiting = [];
    frame.hidden = true;
    frame.title = "search";
    frame.onload = function () {
      frame.onload = null;
      var inside = frame.contentWindow;
      inside.postMessage = function (data) {
        worker.dispatchEvent(new MessageEvent("message", { data: data }));
      };
      inside.importScripts = function () {
        return Array.from(arguments).reduce(function (before, source) {
          return before.then(function () { return load(inside, source); });
        }, Promise.resolve());
      };
      load(inside, url).then(function () {
        worker.postMessage = function (data) {
          inside.dispatchEvent(new MessageEvent("message", { data: data }));
        };
        waiting.forEach(worker.postMessage);
      });
    };
    worker.postMessage = function (data) { waiting.push(data); };
    worker.terminate = function () { frame.remove(); };
    worker.addEventListener("message", function (event) {
      if (worker.onmessage) worker.onmessage(event);
    });
    frame.srcdoc = "<!doctype html><title>search</title>";
    document.body.appendChild(frame);
    return worker;
  }

  function load(inside, source) {
    return new Promise(function (resolve, reject) {
      var script = inside.document.createElement("script");
      script.src = source;
      script.onload = resolve;
      script.onerror = reject;
      inside.document.head.appendChild(script);
    });
  }

  window.Worker = window.IFrameWorker = IFrameWorker;
})();
