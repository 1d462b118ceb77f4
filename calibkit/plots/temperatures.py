"""Temperatures by class: who is made less sure, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, expected, to_tensor
from calibkit._extras import needs
from calibkit.calibrators import ClassTemperatureScaling
from calibkit.plots.classes import class_names
from calibkit.plots.method_style import color_of
from calibkit.plots.scatter import class_scatter
from calibkit.plots.style import GREY, RED, axes_of, ink

with needs("plots"):
    from matplotlib.axes import Axes

#: The most classes that have a row and a name; more are dots side by side.
NAMED = 40


def class_temperatures(
    temperatures: Array | ClassTemperatureScaling,
    class_accuracy: Array | None = None,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    reference: float | None = None,
) -> Axes:
    """The temperature of each class, against its accuracy where that is given, else in order.

    A class above the line of the one temperature is made less sure by class temperatures, one below it surer.

    Args:
        temperatures: (K,), or a fitted ``ClassTemperatureScaling``.
        class_accuracy: (K,) accuracy of each class, a fraction; None: the classes in the order of their temperatures.
        ax: Axes to draw into; a new one if None.
        names: (K,) of the classes.
        reference: the one temperature of all classes, a dashed line.

    Raises:
        ValueError: no vector of temperatures, arrays of different lengths.
        RuntimeError: a calibrator that is not fitted.

    Example:
        >>> from matplotlib.figure import Figure
        >>> ax = class_temperatures([1.5, 1.0, 2.0], names=["cat", "dog", "fox"], ax=Figure().subplots())
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['dog', 'cat', 'fox']
    """
    if isinstance(temperatures, ClassTemperatureScaling):
        temperatures.check_fitted()
        temperatures = temperatures.temperatures
    if class_accuracy is not None:
        ax = class_scatter(class_accuracy, temperatures, ax=ax, names=names, reference=reference, color=RED)
        ax.set_ylabel(_said(reference, "\n"))
        return ax
    values = to_tensor("temperatures", temperatures).cpu().numpy()
    if values.ndim != 1:
        raise expected("temperatures", "of shape (K,), one a class", f"shape {values.shape}")
    names, order = class_names(names, len(values)), np.argsort(values, kind="stable")
    return _in_order(values[order], [names[k] for k in order], ax, reference)


def _in_order(values: np.ndarray, names: list[str], ax: Axes | None, reference: float | None) -> Axes:
    """Rising temperatures: a row and a name a class; of many classes only dots, from left to right."""
    places, color = np.arange(len(values)), color_of("class_temperature_scaling")
    start = 1.0 if reference is None else reference
    if len(values) <= NAMED:
        ax = axes_of(ax, (5.0, 0.8 + 0.2 * len(values)))
        line = ax.axvline
        ax.hlines(places, start, values, color=GREY, linewidth=1)
        ax.plot(values, places, "o", color=color)
        ax.set_yticks(places, names)
        ax.set_xlabel(_said(reference, "; "))
        ax.grid(axis="y", visible=False)
    else:
        ax = axes_of(ax)
        line = ax.axhline
        ax.vlines(places, start, values, color=GREY, linewidth=0.5)
        ax.plot(places, values, "o", color=color, markersize=2.5)
        ax.set(xlabel="classes in the order of their temperatures", ylabel=_said(reference, "\n"), xticks=[])
    if reference is not None:
        line(reference, color=ink(), linewidth=0.8, linestyle="--")
    return ax


def _said(reference: float | None, between: str) -> str:
    """What an axis says of its values, and of the line across."""
    line = "" if reference is None else f"{between}dashed: one temperature, {reference:.2f}"
    return f"temperature of the class{line}"
