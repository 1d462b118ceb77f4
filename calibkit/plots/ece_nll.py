"""A map of methods: ECE to the right, NLL upwards, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from calibkit._checks import Array, expected
from calibkit._extras import needs
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.plots.method_style import look_of
from calibkit.plots.style import GREEN, axes_of, drawable, ink, paper, wash

with needs("plots"):
    from matplotlib.axes import Axes


def ece_nll_map(
    methods: Comparison | Mapping[str, Array], labels: Array | None = None, *, ax: Axes | None = None
) -> Axes:
    """A point a method, its ECE to the right and its NLL upwards, with bars over their 95% intervals.

    The uncalibrated network is the method of the name "identity", a hollow point. Below and to the left of it a method
    is better in both. An infinite NLL has no point, and the legend says so.

    Args:
        methods: name -> probabilities (N, K), with intervals from 1,000 resamples; or a ``Comparison`` that has "ece"
            and "nll", such as ``report(...).trial.comparison``. A name that is the key of a method has the look of
            :func:`look_of`.
        labels: (N,) integers in [0, K), of probabilities; None beside a ``Comparison``.
        ax: Axes to draw into; a new one if None.

    Raises:
        ValueError: bad probabilities or labels, no methods, a ``Comparison`` without one of the two metrics or with
            ``labels`` beside it.

    Example:
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> probs = {name: np.tile([p, 1 - p], (100, 1)) for name, p in (("identity", 0.9), ("ets", 0.8))}
        >>> ax = ece_nll_map(probs, np.repeat([0, 1], [80, 20]), ax=Figure().subplots())
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['better in both', 'uncalibrated', 'ets']
    """
    if not isinstance(methods, Comparison):
        if not isinstance(methods, Mapping):
            raise expected("methods", "a Comparison, or names with their probabilities", type(methods).__name__)
        given, methods = methods, Comparison(labels, ("ece", "nll"))
        for name, probs in given.items():
            methods.add(name, probs)
    elif labels is not None:
        raise expected("labels", "None beside a Comparison, which has its own", type(labels).__name__)
    points = {name: (methods.of(name, "ece").percent, methods.of(name, "nll")) for name in methods}
    if not points:
        raise expected("methods", "at least one method", "none")
    ax = axes_of(ax)
    for name, (x, y) in points.items():
        of_network = name == "identity"
        text = "uncalibrated" if of_network else drawable(name).replace("_", " ")
        look = look_of(name) | {"linestyle": ""} | ({"mfc": paper()} if of_network else {})
        if not math.isfinite(y.value):
            y, text = Estimate(math.nan, math.nan, math.nan), f"{text}, infinite NLL"
        cross(ax, x, y, **look, label=text)
    ax.set(xlim=(max(0.0, ax.get_xlim()[0]), None), xlabel="ECE, %", ylabel="NLL, nats")
    if "identity" in points and math.isfinite(points["identity"][1].value):
        better_in_both(ax, *(of.value for of in points["identity"]))
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def cross(ax: Axes, x: Estimate, y: Estimate, **look: Any) -> None:
    """A point at two estimates, with bars over their intervals; ``look`` is that of ``ax.errorbar``."""
    xerr, yerr = ([[of.value - of.low], [of.high - of.value]] for of in (x, y))
    ax.errorbar(x.value, y.value, yerr, xerr, elinewidth=1.0, markersize=5, zorder=2.5, **look)


def better_in_both(ax: Axes, x: float, y: float) -> None:
    """Dashed lines through a point, and a wash of green over what lies below and to the left, to the present edges."""
    left, low = ax.get_xlim()[0], ax.get_ylim()[0]
    ax.fill_between([left, x], low, y, color=GREEN, alpha=wash(0.15), linewidth=0, label="better in both")
    ax.axvline(x, color=ink(), linewidth=0.8, linestyle="--")
    ax.axhline(y, color=ink(), linewidth=0.8, linestyle="--")
    ax.set(xlim=(left, None), ylim=(low, None))
