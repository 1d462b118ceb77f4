"""A value a class, against the accuracy of the class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibkit._checks import Array, expected, to_tensor
from calibkit._extras import needs
from calibkit.plots.classes import class_names
from calibkit.plots.style import BLUE, axes_of, ink, on_paper, paper

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
    if x.ndim != 1 or x.shape != y.shape:
        raise expected("values", f"of shape {x.shape} like `class_accuracy`, one value a class", f"shape {y.shape}")
    names = None if names is None else class_names(names, len(x))
    ax = axes_of(ax)
    if reference is not None:
        ax.axhline(reference, color=ink(), linewidth=0.8, linestyle="--")
    ax.plot(x, y, "o", color=on_paper(color), alpha=0.75, label=label)
    ax.set_xlabel("accuracy of the class")
    if names:
        label_points(ax, x, y, names)
    return ax


def label_points(ax: Axes, x: np.ndarray, y: np.ndarray, names: Sequence[str], size: float = 7.5) -> None:
    """Write each name beside its point, on the first of eight sides where it covers no point and no other name.

    A name without such a side is left out: a label that cannot be read helps nobody.
    """
    ax.get_figure(root=True).draw_without_rendering()  # the layout decides where points and words lie
    points = ax.transData.transform(np.column_stack([x, y]))
    scale, halo = ax.figure.dpi / 72, [withStroke(linewidth=2, foreground=paper())]
    taken = [Bbox.from_bounds(*(point - 2.5 * scale), 5 * scale, 5 * scale) for point in points]
    frame = ax.get_window_extent()
    for name, at in zip(names, zip(x, y, strict=True), strict=True):
        text = ax.annotate(name, at, xytext=(0, 0), textcoords="offset points", fontsize=size, path_effects=halo)
        for right, up, ha, va in _SIDES:
            text.set(position=(right, up), ha=ha, va=va)
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and box.padded(2 * scale, 0).count_overlaps(taken) == 0:
                taken.append(box)
                break
        else:
            text.remove()


#: Offsets in points, and how a name is aligned there: to the right first.
_SIDES = (
    (5, 0, "left", "center"),
    (-5, 0, "right", "center"),
    (0, 4, "center", "bottom"),
    (0, -4, "center", "top"),
    (3, 3, "left", "bottom"),
    (3, -3, "left", "top"),
    (-3, 3, "right", "bottom"),
    (-3, -3, "right", "top"),
)
