"""Figures: each function draws into an Axes, a new one where none is given, and returns it.

What shows several panels takes a Figure instead. ``use_style`` sets the look, light or dark; ``color_of`` gives each
method the colour that it has in every figure.
"""

from calibkit.plots.class_grid import class_reliability
from calibkit.plots.class_heatmap import class_gaps
from calibkit.plots.forest import forest_plot
from calibkit.plots.histogram import confidence_histogram
from calibkit.plots.inline import svg
from calibkit.plots.method_style import color_of, look_of
from calibkit.plots.panels import before_after
from calibkit.plots.reliability import consistency_interval, reliability_diagram
from calibkit.plots.scatter import class_scatter
from calibkit.plots.selective import risk_coverage
from calibkit.plots.smooth import smooth_reliability
from calibkit.plots.style import (
    BLACK,
    BLUE,
    COLORS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    STYLE,
    YELLOW,
    styled,
    use_style,
)
from calibkit.plots.temperatures import class_temperatures

__all__ = [
    "BLACK",
    "BLUE",
    "COLORS",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "STYLE",
    "YELLOW",
    "before_after",
    "class_gaps",
    "class_reliability",
    "class_scatter",
    "class_temperatures",
    "color_of",
    "confidence_histogram",
    "consistency_interval",
    "forest_plot",
    "look_of",
    "reliability_diagram",
    "risk_coverage",
    "smooth_reliability",
    "styled",
    "svg",
    "use_style",
]
