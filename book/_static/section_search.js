/* The sections that answer a search, above the pages that Sphinx finds. A section counts by how many of the words it has,
   then by where: a title weighs most. SECTIONS is written when the book is built. */
(() => {
  "use strict";

  const MOST = 8;
  const AROUND = 90; // letters of an excerpt on either side
  const plain = (text) => text.toLowerCase().normalize("NFKD");
  const stem = (word) => (word.length > 4 ? word.replace(/(?:ies|es|s|ed|ing|e|y)$/, "") : word);
  const query = new URLSearchParams(location.search).get("q") || "";
  const words = [...new Set((plain(query).match(/[\p{L}\p{N}_]+(?:,\p{N}{3})*/gu) || []).map(stem))];

  const scored = ([page, anchor, title, text]) => {
    const [head, body] = [plain(title), plain(text)];
    const inTitle = words.filter((word) => head.includes(word)).length;
    const there = words.filter((word) => head.includes(word) || body.includes(word));
    const often = there.reduce((sum, word) => sum + Math.min(body.split(word).length - 1, 5), 0);
    const score = 100 * there.length + 12 * inTitle + (often * 400) / (400 + body.length);
    return { page, anchor, title, text, found: there.length, score };
  };

  /* Around the rarest of the words. */
  const excerpt = (text) => {
    const letters = plain(text);
    const there = words.filter((word) => letters.includes(word));
    const [rarest] = there.sort((a, b) => letters.split(a).length - letters.split(b).length);
    const at = Math.max(0, (rarest ? letters.indexOf(rarest) : 0) - AROUND);
    return `${at ? "…" : ""}${text.slice(at, at + 2 * AROUND)}…`;
  };

  const show = () => {
    const place = document.getElementById("search-results");
    const least = Math.max(1, Math.ceil(0.7 * words.length));
    const best = SECTIONS.map(scored).filter((row) => row.found >= least).sort((a, b) => b.score - a.score);
    if (!place || !words.length || !best.length) return;
    const box = document.createElement("section");
    box.id = "section-results";
    box.append(Object.assign(document.createElement("h2"), { textContent: "Sections" }));
    const list = box.appendChild(document.createElement("ol"));
    for (const { page, anchor, title, text } of best.slice(0, MOST)) {
      const row = list.appendChild(document.createElement("li"));
      const link = Object.assign(document.createElement("a"), { href: `${page}.html#${anchor}`, textContent: title });
      row.append(link, Object.assign(document.createElement("p"), { textContent: excerpt(text) }));
    }
    place.before(box);
  };

  addEventListener("DOMContentLoaded", show);
})();
