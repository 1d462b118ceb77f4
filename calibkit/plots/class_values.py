"""A value a class: against another value, and temperatures in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, check_real, expected, to_tensor
from calibkit._extras import needs
from calibkit.calibrators import ClassTemperatureScaling
from calibkit.plots.classes import class_names
from calibkit.plots.methods import color_of
from calibkit.plots.style import BLUE, GREY, RED, axes_of, drawable, ink, on_paper, paper

with needs("plots"):
    from matplotlib.axes import Axes
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox


def class_scatter(
    class_accuracy: Array,
    values: Array,
    *,
    ax: Axes | None = None,
    names: Sequence[str] | None = None,
    reference: float | None = None,
    color: str = BLUE,
    label: str | None = None,
) -> Axes:
    """One point a class: a value (class-wise ECE, temperature) against the accuracy of the class.

    Args:
        class_accuracy: (K,) accuracy of each class, a fraction.
        values: (K,) the value of each class.
        ax: Axes to draw into; a new one if None.
        names: (K,) class names to write beside the points, as far as there is room.
        reference: a horizontal line, such as the one temperature of all classes.
        color: of the points.
        label: of the points in the legend.

    Raises:
        ValueError: arrays of different lengths, or not 1-D.
    """
    x, y = (to_tensor(name, a).cpu().numpy() for name, a in (("class_accuracy", class_accuracy), ("values", values)))
    if x.ndim != 1:
        raise expected("class_accuracy", "of shape (K,), one value a class", f"shape {x.shape}")
    if x.shape != y.shape:
        raise expected("values", f"of shape {x.shape} like `class_accuracy`, one value a class", f"shape {y.shape}")
    names = None if names is None else class_names(names, len(x))
    color, line = on_paper(color), None if reference is None else check_real("reference", reference)
    ax = axes_of(ax)
    if line is not None:
        ax.axhline(line, color=ink(), linewidth=0.8, linestyle="--")
    ax.plot(x, y, "o", color=color, alpha=0.75, label=None if label is None else drawable(label))
    ax.set_xlabel("accuracy of the class")
    if names:
        label_points(ax, x, y, names)
    return ax


def label_points(ax: Axes, x: np.ndarray, y: np.ndarray, names: Sequence[str], *, crosses: bool = False) -> None:
    """Write each name beside its point, on the first of eight sides where it covers nothing; else leave it out.

    Of ``crosses`` the corners come first, where a name is on neither interval.
    """
    if (figure := ax.get_figure(root=True)) is not None:
        figure.draw_without_rendering()  # the layout decides where points and words lie
    points = ax.transData.transform(np.column_stack([x, y]))
    scale, halo = ax.figure.dpi / 72, [withStroke(linewidth=2, foreground=paper())]
    taken = [Bbox.from_bounds(x - 2.5 * scale, y - 2.5 * scale, 5 * scale, 5 * scale) for x, y in points]
    frame = ax.get_window_extent()
    for i, (name, at) in enumerate(zip(names, zip(x, y, strict=True), strict=True)):
        others = taken[:i] + taken[i + 1 :]
        text = ax.annotate(name, at, xytext=(0, 0), textcoords="offset points", fontsize=7.5, path_effects=halo)
        for right, up, ha, va in _SIDES[4:] + _SIDES[:4] if crosses else _SIDES:
            text.set(position=(right, up), ha=ha, va=va)
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and box.padded(4 * scale, 0).count_overlaps(others) == 0:
                taken.append(box)
                break
        else:
            text.remove()


#: Offsets in points, and how a name is aligned there: to the right first.
_SIDES = (
    (5, 0, "left", "center"), (-5, 0, "right", "center"), (0, 4, "center", "bottom"), (0, -4, "center", "top"),
    (3, 3, "left", "bottom"), (3, -3, "left", "top"), (-3, 3, "right", "bottom"), (-3, -3, "right", "top"),
)  # fmt: skip
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
    values = to_tensor("temperatures", temperatures).cpu().numpy()
    if values.ndim != 1:
        raise expected("temperatures", "of shape (K,), one a class", f"shape {values.shape}")
    if class_accuracy is not None:
        if (shape := tuple(np.shape(class_accuracy))) != values.shape:
            raise expected("class_accuracy", f"of shape {values.shape}, one a class", f"shape {shape}")
        names = None if names is None else class_names(names, len(values))
        ax = class_scatter(class_accuracy, values, ax=ax, reference=reference, color=RED)
        ax.set_ylabel(_said(reference, "\n"))  # before the names: it takes room, and moves the points together
        if names:
            label_points(ax, to_tensor("class_accuracy", class_accuracy).cpu().numpy(), values, names)
        return ax
    names, order = class_names(names, len(values)), np.argsort(values, kind="stable")
    return _in_order(values[order], [names[k] for k in order], ax, reference)


def _in_order(values: np.ndarray, names: list[str], ax: Axes | None, reference: float | None) -> Axes:
    """Rising temperatures: a row and a name a class; of many classes only dots, from left to right."""
    places, color = np.arange(len(values)), color_of("class_temperature_scaling")
    start = 1.0 if reference is None else check_real("reference", reference)
    if len(values) <= NAMED:
        ax = axes_of(ax, (5.0, 0.8 + 0.2 * len(values)))
        ax.hlines(places, start, values, color=GREY, linewidth=1)
        ax.plot(values, places, "o", color=color)
        ax.set_yticks(places, names)
        ax.set_xlabel(_said(reference, "; "))
        ax.grid(axis="y", visible=False)
    else:
        ax = axes_of(ax)
        ax.vlines(places, start, values, color=GREY, linewidth=0.5)
        ax.plot(places, values, "o", color=color, markersize=2.5)
        ax.set(xlabel="classes in the order of their temperatures", ylabel=_said(reference, "\n"), xticks=[])
    if reference is not None:
        line = ax.axvline if len(values) <= NAMED else ax.axhline
        line(reference, color=ink(), linewidth=0.8, linestyle="--")
    return ax


def _said(reference: float | None, between: str) -> str:
    """What an axis says of its values, and of the line across."""
    line = "" if reference is None else f"{between}dashed: one temperature, {float(reference):.2f}"
    return f"temperature of the class{line}"
