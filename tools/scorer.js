// How the search ranks pages: what explains a thing before what documents its code, unless code is asked for.
// Sphinx reads the numbers; `score` sees a result as [page, title, anchor, description, score, file].
const ASKED = new URLSearchParams(window.location.search).get("q") || "";
const CODE = /[_.(]|[a-z][A-Z]/.test(ASKED);
const SHARES = [["book/glossary", 0.8], ["book/references", 0.3], ["book/api", CODE ? 1 : 0.1]];

var Scorer = {
    score: ([page, , , , score]) => score * (SHARES.find(([start]) => page.startsWith(start)) || ["", 1])[1],
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 100,  // as much as an entry of the index
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
};
