/* What is wider than its place. Long names get places to break, short ones and equations none. A displayed formula
   shrinks a little before it scrolls; on paper, where nothing scrolls, formulas and tables shrink as far as they must.
   What scrolls is reached by keyboard. Without this script all of it scrolls as before. */
(() => {
  "use strict";

  const PAPER = 690; // px between the margins of A4
  const LEAST = 0.75; // of its size: how far a formula shrinks on a screen
  const BOXES = ".pst-scrollable-table-container, .output, figure.numbers .scroll, pre, mjx-container, div.scroll";
  const FORMULA = 'main mjx-container[display="true"] > mjx-math';

  /* Read all sizes first, then write all: the page is laid out once. */
  const shrink = (elements, room, least) => {
    for (const element of elements) element.style.zoom = "";
    const scales = elements.map((element) => room(element) / element.getBoundingClientRect().width);
    elements.forEach((element, i) => {
      if (scales[i] < 1) element.style.zoom = Math.max(least, 0.995 * scales[i]);
    });
  };

  /* Paper is white: what is dark on the screen is printed in light colours. */
  const lighten = (paper) => {
    const page = document.documentElement.dataset;
    if (paper && page.theme === "dark") [page.theme, page.onScreen] = ["light", "dark"];
    else if (!paper && page.onScreen) {
      page.theme = page.onScreen;
      delete page.onScreen;
    }
  };

  const fit = (paper) => {
    lighten(paper);
    const formulas = [...document.querySelectorAll(FORMULA)].filter((element) => element.checkVisibility());
    const room = (element) => Math.min(element.parentElement.clientWidth, paper ? PAPER - 60 : Infinity);
    shrink(formulas, room, paper ? 0 : LEAST);
    const tables = [...document.querySelectorAll("main table")]; // what is folded is printed, too
    for (const { style } of tables) [style.fontSize, style.width] = ["", paper ? "min-content" : ""];
    /* By letters, not by zoom: of a zoomed table Chromium prints one page and loses the rest. */
    const sizes = tables.map((table) => {
      const scale = (PAPER - 30) / table.getBoundingClientRect().width;
      return paper && scale < 1 ? `${0.95 * scale * parseFloat(getComputedStyle(table).fontSize)}px` : "";
    });
    tables.forEach(({ style }, i) => ([style.fontSize, style.width] = [sizes[i], ""]));
    for (const box of document.querySelectorAll(`main :is(${BOXES})`)) {
      const wider = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (wider && /auto|scroll/.test(getComputedStyle(box).overflow)) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };

  /* Once a print, from the sizes on the screen: measured again while it prints, Chromium loses what follows a table. */
  let printing = matchMedia("print").matches;
  const again = () => printing || fit(false);
  const paper = (now) => fit((printing = now));
  const start = () => {
    new ResizeObserver(again).observe(document.documentElement);
    addEventListener("beforeprint", () => paper(true));
    addEventListener("afterprint", () => paper(false));
    for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", again);
    again();
  };

  /* Names break behind their marks, and short ones not at all. */
  const breakable = () => {
    for (const name of document.querySelectorAll("main :is(code.literal, dt.sig):not(table.summary *)")) {
      const walker = document.createTreeWalker(name, NodeFilter.SHOW_TEXT);
      const texts = [];
      while (walker.nextNode()) texts.push(walker.currentNode);
      if (name.matches("code") && name.textContent.length < 20) name.style.whiteSpace = "nowrap";
      else for (const text of texts) {
        const parts = text.data.split(/(?<=[:/=])(?=\w)|(?<=\w\.)(?=\w{4})/).flatMap(
          (part) => (part.length > 24 ? part.split(/(?<=_)/) : [part]));
        text.replaceWith(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
      }
    }
  };
  addEventListener("DOMContentLoaded", breakable);

  /* No line ends within "CIFAR-10" or "T = 1". */
  const NAME = /((?<![\w-])[A-Z]\w*(?:-[A-Z\d]+)+s?(?![\w-]))/;
  const whole = () => {
    const texts = [];
    for (const part of document.querySelectorAll("main :is(p, li, dd, td, th, figcaption)")) {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) if (/-| = /.test(walker.currentNode.data)) texts.push(walker.currentNode);
    }
    for (const text of new Set(texts)) {
      if (text.parentElement.closest("pre, code, svg, script, mjx-container, .math")) continue;
      text.data = text.data.replaceAll(" = ", "\u00a0=\u00a0");
      const parts = text.parentElement.closest("td, th, .unbroken") ? [text.data] : text.data.split(NAME);
      if (parts.length > 1) text.replaceWith(...parts.map((part, i) => {
        if (i % 2 === 0) return part;
        const name = document.createElement("span");
        name.className = "unbroken";
        name.textContent = part;
        return name;
      }));
    }
  };
  addEventListener("DOMContentLoaded", whole);

  /* A link into what is folded opens it. */
  const opened = () => {
    let element = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!element) return;
    const target = element;
    for (; element; element = element.parentElement) if (element.matches("details.fold")) element.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", opened);
  addEventListener("DOMContentLoaded", opened);

  addEventListener("load", () => (window.MathJax?.startup?.promise ?? Promise.resolve()).then(start));
})();
