"""Figures: each function draws into an Axes, a new one where none is given, and returns it.

What shows several panels takes a Figure instead. ``use_style`` sets the look, light or dark; ``color_of`` gives each
method the colour that it has in every figure.
"""

from calibkit.plots.class_values import class_scatter, class_temperatures
from calibkit.plots.classes import class_gaps, class_reliability
from calibkit.plots.forest import forest_plot
from calibkit.plots.methods import color_of, ece_nll_map, look_of, risk_coverage
from calibkit.plots.reliability import (
    before_after,
    confidence_histogram,
    consistency_interval,
    ece_by_period,
    reliability_by_group,
    reliability_diagram,
)
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
    svg,
    use_style,
)

__all__ = [
    "BLACK", "BLUE", "COLORS", "GREEN", "GREY", "ORANGE", "PURPLE", "RED", "SKY", "STYLE", "YELLOW", "before_after",
    "class_gaps", "class_reliability", "class_scatter", "class_temperatures", "color_of", "confidence_histogram",
    "consistency_interval", "ece_by_period", "ece_nll_map", "forest_plot", "look_of", "reliability_by_group",
    "reliability_diagram", "risk_coverage", "smooth_reliability", "styled", "svg", "use_style",
]  # fmt: skip
