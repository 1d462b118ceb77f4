"""Parts of the small picture of a paper: SVG in the colour of the text around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

WIDTH, HEIGHT, EDGE = 160, 72, 8


def framed(text: str, inside: str) -> str:
    """A picture of these parts, which ``text`` says in words."""
    frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg class="thumbnail" {frame} role="img" aria-label="{text}">{inside}</svg>'


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
