/* Tables of class "sortable": a click on a head sorts the rows, and one box above them all filters them.
   Without this script they stay as they are. */
(() => {
  "use strict";

  const text = (row, i) => (row.cells[i] ? row.cells[i].textContent.trim() : "");

  /* The number that a cell begins with, behind brackets and words such as "about"; NaN where there is none. */
  const number = (cell) => {
    const found = cell.replace(/\u2212/g, "-").match(/^[([]?[+-]?\d[\d,]*(\.\d+)?/);
    return found ? parseFloat(found[0].replace(/[([,]/g, "")) : NaN;
  };

  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!isNaN(x) && !isNaN(y) && x !== y) return x - y;
    return a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" });
  };

  const sort = (table, head, i) => {
    const body = table.tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].filter((row) => text(row, i));
    const empty = [...body.rows].filter((row) => !text(row, i));
    rows.sort((a, b) => (down ? -1 : 1) * compare(text(a, i), text(b, i)));
    body.append(...rows, ...empty);
  };

  const sortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      const words = head.textContent.trim();
      for (const row of table.tBodies[0].rows) if (row.cells[i]) row.cells[i].dataset.head = words;
      if (!words) return;
      const button = document.createElement("span"); // of a <button> no browser repeats the words on paper
      Object.assign(button, { role: "button", tabIndex: 0, className: "sort" });
      const inside = head.querySelector("p") || head;
      button.append(...inside.childNodes);
      button.addEventListener("click", () => sort(table, head, i));
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort(table, head, i);
      });
      inside.append(button);
    });
  };

  /* The section of a table, or the table itself where that is the whole page. */
  const part = (table) => {
    const section = table.closest("section");
    return section && section.parentElement.closest("section") ? section : table;
  };

  /* The heading that a row stands under, whose words count as the row's. */
  const heading = (row) => row.closest("section")?.querySelector("h2, h3")?.textContent ?? "";

  const filter = (tables) => {
    const box = document.createElement("div");
    box.className = "filter";
    box.innerHTML =
      '<label for="filter-rows">Show only rows with</label> ' +
      '<input id="filter-rows" type="search" autocomplete="off" size="26" placeholder="words, such as CIFAR-100"> <output for="filter-rows" role="status"></output>';
    const [input, found] = [box.querySelector("input"), box.querySelector("output")];
    const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const content = `${heading(row)} ${row.textContent}`.toLowerCase();
        row.hidden = !words.every((word) => content.includes(word));
      }
      for (const table of tables) part(table).hidden = [...table.tBodies[0].rows].every((row) => row.hidden);
      found.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
    });
    /* Above the first section that has such a table, or above the only one. */
    (tables.length > 1 ? part(tables[0]) : tables[0].closest(".pst-scrollable-table-container") || tables[0]).before(box);
  };

  const start = () => {
    const tables = [...document.querySelectorAll("table.sortable")].filter((table) => table.tHead && table.tBodies.length);
    tables.forEach(sortable);
    if (tables.length) filter(tables);
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
