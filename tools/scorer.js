// How the search ranks pages: what explains a thing before what documents its code.
// Sphinx reads the numbers; `score` sees a result as [page, title, anchor, description, score, file].
const SHARES = [["book/api", 0.1], ["genindex", 0.1], ["book/glossary", 0.8], ["book/references", 0.3]];

var Scorer = {
    score: ([page, , , , score]) => score * (SHARES.find(([start]) => page.startsWith(start)) || ["", 1])[1],
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
};
