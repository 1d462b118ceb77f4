"""Small pictures of what each paper does, as SVG in the colour of the text around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from calibkit.losses import LOSSES

WIDTH, HEIGHT, EDGE = 160, 72, 8
MARGIN = LOSSES["mbls"]().margin
CLASSES = 10


def thumbnail(paper: str) -> str:
    """The picture of a paper."""
    text, inside = PICTURES[paper]
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg class="thumbnail" {frame} role="img" aria-label="{text}">{inside()}</svg>'


def curve(function: Callable[[float], float], low: float, high: float, top: float, *, dashed: bool = False) -> str:
    """A function between two abscissae, with ``top`` at the upper edge and 0 at the lower."""
    steps = [low + (high - low) * i / 60 for i in range(61)]
    points = " ".join(f"{_x((x - low) / (high - low)):.1f},{_y(function(x) / top):.1f}" for x in steps)
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"{dashes}/>'


def bars(heights: Sequence[float]) -> str:
    """A bar for each height, the largest as high as the picture."""
    step = (WIDTH - 2 * EDGE) / len(heights)
    shown = []
    for i, height in enumerate(heights):
        y = _y(height / max(heights))
        box = f'x="{EDGE + i * step:.1f}" y="{y:.1f}" width="{step - 2:.1f}" height="{HEIGHT - EDGE - y:.1f}"'
        shown.append(f'<rect {box} fill="currentColor" opacity="0.75"/>')
    return "".join(shown)


def line(height: float) -> str:
    """A dashed level, as a share of the height."""
    y = _y(height)
    ends = f'x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"/>'


def _x(share: float) -> float:
    return EDGE + share * (WIDTH - 2 * EDGE)


def _y(share: float) -> float:
    return HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE)


def _wave(x: float) -> float:
    return 0.5 + 0.3 * math.sin(x) + 0.12 * math.sin(2.3 * x)


#: Paper -> what is seen, and what draws it.
PICTURES: dict[str, tuple[str, Callable[[], str]]] = {
    "neural_clamping": (
        "An input, and beside it the same input with one learned shift, dashed",
        lambda: curve(_wave, 0, 9, 1) + curve(lambda x: _wave(x) + 0.1 * math.cos(4 * x), 0, 9, 1, dashed=True),
    ),
    "class_temperature_scaling": (
        "A temperature for each class, about the one temperature of all, dashed",
        lambda: bars([0.6 + 0.35 * math.sin(2.4 * k) for k in range(CLASSES)]) + line(0.62),
    ),
    "class_loss_scaling": (
        "Shares of the classes in long-tailed data, and the equal weight that each gets, dashed",
        lambda: bars([0.01 ** (k / (CLASSES - 1)) for k in range(CLASSES)]) + line(0.5),
    ),
    "mbls": (
        "The penalty on the distance of a logit from the largest: none up to the margin, then in proportion",
        lambda: curve(lambda d: max(0.0, d - MARGIN), 0, 2 * MARGIN, MARGIN),
    ),
    "acls": (
        "The penalty on a logit's distance: none up to the margin, then by its square",
        lambda: curve(lambda d: max(0.0, d - MARGIN) ** 2, 0, 2 * MARGIN, MARGIN**2),
    ),
}
