"""What is looked for on the pages of the book, in JavaScript: each check returns a list of findings, in words."""

#: Shared by the checks: the name of an element, and whether it is drawn at all.
COMMON = """
const name = e => e.tagName.toLowerCase() + (e.id && '#' + e.id) + [...e.classList].map(c => '.' + c).join('')
  + ' "' + (e.textContent || '').trim().slice(0, 40) + '"';
const style = e => getComputedStyle(e);
const seen = e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 1
  && !e.closest('mjx-assistive-mml, .sr-only, .visually-hidden, details:not([open]) > :not(summary)');
const parents = e => { const found = []; while (e = e.parentElement) found.push(e); return found; };
const scrolls = e => /auto|scroll/.test(style(e).overflowX);
const cuts = e => /hidden|clip/.test(style(e).overflowX) && style(e).display !== 'inline' && e.tagName !== 'svg';
"""

#: Colours: of an element's ground, of one over another, and how far two are apart, from 1 to 21.
COLOURS = r"""
const rgba = text => { const v = text.match(/[\d.]+/g).map(Number); return [v[0], v[1], v[2], v[3] ?? 1]; };
const over = (a, b) => [0, 1, 2].map(i => a[3] * a[i] + (1 - a[3]) * b[i]);
const luminance = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const paper = new Map();
const behind = e => {
  if (!e) return [255, 255, 255];
  if (!paper.has(e)) {
    const own = rgba(style(e).backgroundColor);
    paper.set(e, own[3] === 1 ? own.slice(0, 3) : over(own, behind(e.parentElement)));
  }
  return paper.get(e);
};
const opacity = e => [e, ...parents(e)].reduce((o, p) => o * style(p).opacity, 1);
const contrast = (ink, ground) => {
  const [a, b] = [over(ink, ground), ground].map(luminance).sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
"""

#: Wider than the window. On a screen, what is in a box that scrolls is reached; on paper nothing scrolls.
WIDER = """
const width = document.documentElement.clientWidth, found = [];
const INSIDE = 'svg, mjx-container, .math, .bd-sidebar-secondary';
const body = document.documentElement.scrollWidth - width;
if (body > 0) found.push(`the page is ${body} px wider than ${width}`);
for (const e of document.querySelectorAll('main *')) {
  if (e.closest(INSIDE) && !e.matches(':is(svg, mjx-container):not(svg *)') || !seen(e)) continue;
  const box = e.getBoundingClientRect();
  if (box.right > width + 2 && (PRINT || !parents(e).some(p => scrolls(p) || cuts(p))))
    found.push(`${name(e)} ends at ${Math.round(box.right)} of ${width}`);
  else if (e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 1 && (cuts(e) || PRINT && scrolls(e)))
    found.push(`${name(e)} cuts ${e.scrollWidth - e.clientWidth} px`);
}
return found.slice(0, 8);
"""

#: Formulas that are cut, displayed ones that scroll though there is room, and ones that run into their number.
EQUATIONS = """
const found = [], width = document.documentElement.clientWidth;
for (const e of document.querySelectorAll('main mjx-container')) {
  if (!seen(e)) continue;
  const inner = e.querySelector('mjx-math').getBoundingClientRect(), about = [e, ...parents(e)];
  const box = about.find(p => style(p).display !== 'inline' && (scrolls(p) || cuts(p)));
  const right = box ? box.getBoundingClientRect().right : width;
  if (inner.right > right + 2 && (!box || !scrolls(box) || width > 1200)) found.push(`cut: ${name(e.parentElement)}`);
  const number = e.getAttribute('display') && e.parentElement.querySelector('.eqno');
  const n = number && number.getBoundingClientRect(), end = Math.min(inner.right, right);
  if (n && n.left < end && inner.left < n.right && n.top < inner.bottom && inner.top < n.bottom)
    found.push(`under its number ${number.textContent}: ${name(e.parentElement)}`);
}
return found;
"""

#: Pictures without words, or with a path for words.
PICTURES = r"""
const found = [];
for (const e of document.querySelectorAll('img')) {
  const alt = e.getAttribute('alt') || '';
  const beside = e.getAttribute('alt') === '' && e.closest('a')?.textContent.trim();  // as a logo beside its name
  const path = /\.(png|svg|jpe?g|gif)$|_images|^\S*\/\S*$/.test(alt);
  if (!beside && !alt.trim() || path) found.push(`${e.src.slice(-60)}: "${alt}"`);
}
for (const e of document.querySelectorAll('svg')) {
  const said = e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.querySelector(':scope > title');
  if (!said && !e.closest('[aria-hidden=true], [role=img], mjx-container')) found.push(name(e));
}
return found;
"""

#: One first heading, and none that skips a level.
HEADINGS = """
const all = [...document.querySelectorAll('main :is(h1, h2, h3, h4, h5, h6)')].filter(seen), found = [];
if (all.filter(e => e.tagName === 'H1').length !== 1) found.push('not exactly one h1');
all.reduce((last, e) => {
  const level = +e.tagName[1];
  if (level > last + 1) found.push(`h${level} after h${last}: ${name(e)}`);
  return level;
}, 0);
return found;
"""

#: The same id twice.
IDS = """
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
return [...new Set(ids.filter((id, i) => ids.indexOf(id) < i))];
"""

#: Boxes that scroll and that a keyboard does not reach.
SCROLLERS = """
const found = [];
for (const e of document.querySelectorAll('main *')) {
  const wide = scrolls(e) && e.scrollWidth > e.clientWidth + 1, s = style(e).overflowY;
  const high = /auto|scroll/.test(s) && e.scrollHeight > e.clientHeight + 1;
  if (seen(e) && (wide || high) && e.tabIndex < 0 && !e.querySelector('a[href], button, input, [tabindex="0"]'))
    found.push(name(e));
}
return found.slice(0, 8);
"""

#: Text with less contrast than WCAG 2 AA asks: 4.5, or 3 where it is large.
CONTRAST = r"""
const found = new Map();
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const e = texts.currentNode.parentElement;
  const not = 'svg, script, style, noscript, title, mjx-container, :disabled, [aria-disabled=true]';
  if (!texts.currentNode.data.trim() || e.closest(not) || !seen(e)) continue;
  const s = style(e), size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && +s.fontWeight >= 700;
  const ground = behind(e), ink = rgba(s.color);
  ink[3] *= opacity(e);
  if (!opacity(e)) continue;  // the theme hides the contents of a page beside a wide table
  const ratio = contrast(ink, ground);
  const text = `${name(e)} ${ratio.toFixed(2)}: ${s.color} on rgb(${ground.map(Math.round)})`;
  if (ratio < (large ? 3 : 4.5) - 0.005) found.set(e.className + s.color + ground, text);
}
return [...found.values()].slice(0, 12);
"""


def findings(page, check: str, *, paper: bool = False) -> list[str]:
    """What a check finds on a page."""
    return page.evaluate(f"() => {{ const PRINT = {str(paper).lower()}; {COMMON} {COLOURS} {check} }}")


def set_theme(page, mode: str) -> None:
    """Turn a page light or dark."""
    page.evaluate("mode => Object.assign(document.documentElement.dataset, {theme: mode, mode})", mode)
