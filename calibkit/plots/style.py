"""One look for every figure, on white paper and on dark.

Colours are those of Okabe and Ito, told apart by every kind of colour vision and in print. A picture is dark where the
paper is, whoever made it so: ``use_style(dark=True)``, ``styled`` or a style of matplotlib.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np

from calibkit._checks import check_flag, expected, to_array
from calibkit._extras import needs

with needs("plots"):
    import matplotlib as mpl
    from matplotlib import font_manager, pyplot, rcsetup
    from matplotlib.axes import Axes
    from matplotlib.colors import is_color_like, to_hex, to_rgb
    from matplotlib.figure import Figure, FigureBase

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000 #E69F00 #56B4E9 #009E73 #F0E442 #0072B2 #D55E00 #CC79A7".split()
)
GREY = "#999999"
LARGEST = 600  # inches of a picture: what the libraries behind matplotlib draw is at most 65,535 dots wide
LACKS = "Glyph .* missing"  # how a warning of matplotlib begins, of a letter that the font does not have
COLORS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)

#: On dark paper the two darkest colours are lighter; the others have contrast enough on both.
ON_DARK = {BLACK: "#E8E8E8", BLUE: "#3D7FFF"}

#: Fonts of Linux, macOS and Windows with Chinese, Japanese and Korean characters, for names of classes.
CJK_FONTS = (
    "Noto Sans CJK JP", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Arial Unicode MS", "Microsoft YaHei",
    "Malgun Gothic",
)  # fmt: skip

STYLE: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "figure.figsize": (5.0, 3.2),
    "figure.constrained_layout.use": True,
    # The first comes with matplotlib: the same figure everywhere. The others, where installed, have what it lacks.
    "font.family": ["DejaVu Sans", *(name for name in CJK_FONTS if name in font_manager.get_font_names())],
    "font.size": 9,
    "axes.titlesize": 10,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.edgecolor": "none",  # a legend is paper without a border, so that it is read over data too
    "legend.framealpha": 0.85,
    "svg.hashsalt": "calibkit",
}


def _paper(paper: str, ink: str, grid: str, colors: tuple[str, ...]) -> dict[Any, Any]:
    """What of matplotlib's defaults depends on the paper."""
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    papered = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    return {
        "axes.prop_cycle": rcsetup.cycler(color=colors),
        "grid.color": grid,
        **dict.fromkeys(inked, ink),
        **dict.fromkeys(papered, paper),
    }


LIGHT = _paper("#FFFFFF", BLACK, "#E6E6E6", COLORS)
DARK = _paper("#121212", ON_DARK[BLACK], "#333333", tuple(ON_DARK.get(color, color) for color in COLORS))


def use_style(*, dark: bool = False) -> None:
    """Set matplotlib's defaults to the book's; call once, after the parameters of a notebook, which then shows SVG.

    Args:
        dark: light ink on the paper of the book's dark mode, ``#121212``.

    Example:
        >>> with mpl.rc_context():
        ...     use_style(dark=True)
        ...     mpl.rcParams["figure.facecolor"]
        '#121212'
    """
    mpl.rcParams.update(STYLE | (DARK if check_flag("dark", dark) else LIGHT))
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        inline = import_module("matplotlib_inline.config").InlineBackend  # comes with IPython
        inline.instance(parent=shell).figure_formats = {"svg"}


@contextmanager
def styled(*, dark: bool = False) -> Iterator[None]:
    """:func:`use_style` for one picture: draw it and save it inside, as an SVG or whatever ``savefig`` writes.

    Example:
        >>> with styled(dark=True):
        ...     is_dark()
        True
        >>> is_dark()
        False
    """
    with mpl.rc_context():
        use_style(dark=dark)
        yield


def svg(
    draw: Callable[[Figure], object], size: tuple[float, float], alt: str, *, dark: bool = False, css: str = ""
) -> str:
    """What ``draw`` draws into an empty Figure, as ``<svg>``: the same input gives the same text.

    Args:
        draw: is called with the Figure; once more, with another, if the font lacks a letter. That text stays text then,
            which the reader's program draws.
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
    if not callable(draw):
        raise expected("draw", "a function of a Figure", repr(draw))
    inches = to_array("size", size, "a width and a height", float)
    if inches.shape != (2,) or not ((inches > 0) & (inches < LARGEST)).all():
        raise expected("size", f"a width and a height in (0, {LARGEST}), inches", repr(size))
    for of, words in (("alt", alt), ("css", css)):
        if not isinstance(words, str):
            raise expected(of, "text", repr(words))
    alt = drawable(alt)
    name = f"f{crc32(f'{alt}{dark}'.encode()):08x}"
    with styled(dark=dark), mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("error", LACKS)
        try:
            text = _drawn(draw, inches)
        except UserWarning:  # the reader's program has fonts of its own
            warnings.filterwarnings("ignore", LACKS)
            mpl.rcParams["svg.fonttype"] = "none"
            text = _drawn(draw, inches)
    classes = f' class="{css}"' if css else ""
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)  # ids are those of no other figure
    return text[text.index("<svg ") :].replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}"{classes} ', 1)


def _drawn(draw: Callable[[Figure], object], inches: np.ndarray) -> str:
    figure, stream = Figure(figsize=tuple(inches), layout="constrained"), io.StringIO()
    draw(figure)
    figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return stream.getvalue()


def is_dark() -> bool:
    """Whether the present paper is dark: its luma is below one half."""
    red, green, blue = to_rgb(mpl.rcParams["figure.facecolor"])
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.5


def on_paper(color: str) -> str:
    """A colour of this module as the present paper needs it.

    Example:
        >>> on_paper(BLUE) == BLUE
        True
    """
    if not is_color_like(color):
        raise expected("color", "a colour of matplotlib", repr(color))
    return ON_DARK.get(color, color) if is_dark() else color


def drawable(name: object) -> str:
    """A name as matplotlib can draw it: half a pair of surrogates becomes a question mark."""
    return str(name).encode("utf-8", "replace").decode()


def literal(name: object) -> str:
    """A name of the data, drawn as it is: a dollar sign begins no formula."""
    return drawable(name).replace("$", r"\$")


def ink() -> str:
    """The colour of text and of lines that refer to no data."""
    return to_hex(mpl.rcParams["text.color"])


def paper() -> str:
    """The colour between two bars."""
    return to_hex(mpl.rcParams["axes.facecolor"])


def wash(alpha: float) -> float:
    """The opacity of an area: a thin wash of colour is seen on white paper, on dark it takes more."""
    return min(1.0, 1.7 * alpha) if is_dark() else alpha


def axes_of(ax: Axes | None, figsize: tuple[float, float] | None = None) -> Axes:
    """``ax``, or that of a new figure, which a notebook shows by itself."""
    if ax is not None and not isinstance(ax, Axes):
        raise expected("ax", "Axes of matplotlib or None", repr(ax))
    return pyplot.subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax


def figure_of(fig: Figure | None, figsize: tuple[float, float]) -> Figure:
    """``fig``, or a new figure."""
    if fig is not None and not isinstance(fig, FigureBase):
        raise expected("fig", "a Figure of matplotlib or None", repr(fig))
    return pyplot.figure(figsize=figsize, layout="constrained") if fig is None else fig
