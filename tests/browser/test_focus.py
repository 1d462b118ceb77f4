"""Whoever goes by keys sees where they are: each stop of the Tab key has a ring that it has not without the focus."""

import chromium as tool
import pytest
from page_checks import COLOURS, COMMON, set_theme

pytestmark = pytest.mark.browser
#: Page -> the kinds of stops that it must have.
PAGES = {
    "book/index": {"link", "button", "summary"},
    "notebooks/temperature_scaling": {"link", "button", "summary", "slider"},
    "notebooks/mbls": {"link", "button", "summary", "slider", "box"},
}
MANY = 1_000  # stops: more than a page has

#: The rings of what has the focus: those of itself, of its pseudo-elements and of its children, each with its contrast
#: with what it lies on, and with how many of its four sides no box cuts off.
STOP = r"""
const e = document.activeElement;
if (e === document.body) return false;
const sides = (x, reach) => {
  const {left, top, right, bottom} = x.getBoundingClientRect();
  const whole = [left - reach, top - reach, right + reach, bottom + reach];
  const clip = parents(x).filter(p => style(p).overflowX !== 'visible' && style(p).display !== 'inline')
    .map(p => p.getBoundingClientRect());
  return [0, 1, 2, 3].filter(i => clip.every(c => i < 2 ? whole[i] >= [c.left, c.top][i] - 0.5
    : whole[i] <= [c.right, c.bottom][i - 2] + 0.5)).length;
};
const rings = x => [null, '::before', '::after'].flatMap(pseudo => {
  const s = getComputedStyle(x, pseudo), found = [];
  if (pseudo && s.content === 'none') return [];
  const add = (text, colour, inside, reach) => {
    const ink = rgba(colour);
    ink[3] *= opacity(x);
    const ratio = contrast(ink, behind(inside ? x : x.parentElement));
    found.push({text: `${pseudo} ${text}`, ratio, sides: pseudo ? 4 : sides(x, reach)});
  };
  const [width, offset] = [parseFloat(s.outlineWidth), parseFloat(s.outlineOffset)];
  if (s.outlineStyle !== 'none' && width >= 2) add(s.outline, s.outlineColor, offset < 0, width + offset);
  for (const shadow of s.boxShadow.match(/rgba?\([^)]*\)[^,]*/g) ?? []) {
    const [, , , spread] = shadow.replace(/rgba?\([^)]*\)/, '').match(/-?[\d.]+/g).map(Number);
    add(shadow, shadow.match(/rgba?\([^)]*\)/)[0], /inset/.test(shadow), spread);
  }
  return found;
});
const kinds = {a: 'link', button: 'button', summary: 'summary', 'input[type=range]': 'slider', 'input': 'field'};
window.stops.push({
  e, rings, kind: Object.entries(kinds).find(([css]) => e.matches(css))?.[1] ?? 'box', name: name(e),
  focused: [e, ...e.children].map(x => [x, rings(x)]), box: e.getBoundingClientRect(),
});
return true;
"""

#: Stops without a ring of their own, and stops that are out of sight.
RESULT = r"""
document.activeElement.blur();
return window.stops.map(({rings, kind, name, focused, box}) => {
  const own = focused.flatMap(([x, all]) => {
    const before = rings(x).map(ring => ring.text);
    return all.filter(ring => !before.includes(ring.text));
  });
  const good = own.some(ring => ring.ratio >= 3 && ring.sides >= 2);
  const there = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return [kind, good && there ? '' : `${name} at ${Math.round(box.top)}: ${JSON.stringify(own)}`];
});
"""


@pytest.fixture(scope="module", params=PAGES)
def page(request, chromium, site):
    """A page; the kinds of its stops are in ``page.kinds``."""
    opened = chromium.new_page(viewport={"width": 1300, "height": 900})
    opened.kinds = PAGES[request.param]
    opened.goto((site / f"{request.param}.html").as_uri())
    tool.ready(opened)
    opened.add_style_tag(
        content="*, ::before, ::after { scroll-behavior: auto !important; transition: none !important }"
    )
    yield opened
    opened.close()


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_each_stop_has_a_ring(page, mode):
    set_theme(page, mode)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); window.stops = []; }")
    for _ in range(MANY):
        page.keyboard.press("Tab")
        if not page.evaluate(f"() => {{ {COMMON} {COLOURS} {STOP} }}"):
            break
    stops = page.evaluate(f"() => {{ {RESULT} }}")
    assert page.kinds <= {kind for kind, _ in stops} and len(stops) < MANY
    assert "\n".join(found for _, found in stops if found) == ""
