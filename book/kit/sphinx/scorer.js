// How the search ranks pages: the chapter that has the name, then what explains a thing, then what documents its code,
// unless code is asked for.
// Sphinx reads the numbers; `score` sees a result as [page, title, anchor, description, score, file].
const ASKED = (new URLSearchParams(window.location.search).get("q") || "").trim();
const CODE = /[_.(]|[a-z][A-Z]/.test(ASKED);
const SHARES = [["book/glossary", 0.8], ["book/references", 0.3], ["book/api", CODE ? 1 : 0.1]];

function named(title) {
    const words = title.split(" > ").pop().replace(/^[\d.]+ /, "");
    return words.toLowerCase() === ASKED.toLowerCase();
}

var Scorer = {
    score: ([page, title, anchor, , score]) => {
        const [, share] = SHARES.find(([start]) => page.startsWith(start)) || ["", 1];
        return share * (score + (anchor === "" && named(title) ? 100 : 0));
    },
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: { 0: 15, 1: 5, 2: -5 },
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
};
