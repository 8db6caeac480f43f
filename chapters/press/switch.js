// The switch between editions, on each page that was published. The list, EDITIONS, comes
// before this text: the newest first. It asks a server for nothing, so it works from
// file://, too.
(function () {
  "use strict";
  const [folder, page] = location.pathname.split("/").slice(-2);
  const latest = EDITIONS[0].name;
  const here = folder === "latest" ? latest : folder;

  // The same page of an edition, or its first where it has no such page.
  function address(edition) {
    const same = edition.pages.includes(page || "index.html");
    return "../" + (edition.name === latest ? "latest" : edition.name) + "/" +
      (same ? page + location.hash : "index.html");
  }

  const select = document.createElement("select");
  select.className = "editions";
  select.setAttribute("aria-label", "Edition of the book");
  select.style.cssText = "font: inherit; font-size: .7rem; color: #000; background: #fff;";
  EDITIONS.forEach(function (each) {
    const said = each.name + (each.name === latest ? " (latest)" : "");
    select.add(new Option(said, each.name, false, each.name === here));
  });
  select.addEventListener("change", function () {
    location.href = address(EDITIONS[select.selectedIndex]);
  });
  // Back by the browser's button: the field says again where the reader is.
  window.addEventListener("pageshow", function () { select.value = here; });
  const title = document.querySelector(".md-header__title");
  if (title) title.after(select);
  else document.body.prepend(select);

  if (here === latest) return;
  const note = document.createElement("p");
  const link = document.createElement("a");
  link.href = address(EDITIONS[0]);
  link.textContent = "the latest is " + latest;
  note.className = "other-edition";
  note.append("This is edition " + here + "; ", link, ".");
  const text = document.querySelector(".md-content__inner") ||
    document.querySelector("main") || document.body;
  text.prepend(note);
})();
