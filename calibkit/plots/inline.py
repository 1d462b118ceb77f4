"""A picture as the SVG element of a page that needs no other file."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from zlib import crc32

from calibkit._extras import needs
from calibkit.plots.style import styled

with needs("plots"):
    import matplotlib as mpl
    from matplotlib.figure import Figure


def svg(
    draw: Callable[[Figure], object], size: tuple[float, float], alt: str, *, dark: bool = False, css: str = ""
) -> str:
    """What ``draw`` draws into an empty Figure, as ``<svg>``: the same input gives the same text.

    Args:
        draw: is called with the Figure.
        size: of the Figure, inches.
        alt: what is seen, in words.
        dark: on dark paper; see :func:`styled`.
        css: classes of the element.

    Example:
        >>> text = svg(lambda figure: figure.subplots().plot([0, 1]), (2, 1), "A line that rises")
        >>> text.startswith('<svg role="img" aria-label="A line that rises"'), text == svg(
        ...     lambda figure: figure.subplots().plot([0, 1]), (2, 1), "A line that rises"
        ... )
        (True, True)
    """
    name = f"f{crc32(f'{alt}{dark}'.encode()):08x}"
    with styled(dark=dark), mpl.rc_context({"svg.hashsalt": name}):
        figure, stream = Figure(figsize=size, layout="constrained"), io.StringIO()
        draw(figure)
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    classes = f' class="{css}"' if css else ""
    text = re.sub(
        r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", stream.getvalue()
    )  # ids differ between figures of a page
    return text[text.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}"{classes} ', 1)
