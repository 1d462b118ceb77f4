"""Which method has which colour, in every figure.

A colour stands for a kind of method, the dash and the marker for the method: solid with a dot comes first in its kind.

=======  ==============================================  ==============================================
colour   calibrators                                     losses and objectives of a fit
=======  ==============================================  ==============================================
grey     none: the network as it is
black                                                    proper scores: cross-entropy or NLL, Brier
blue     one for all logits: TS, ETS, PTS, a map         ACLS
red      a temperature a class: CTS                      logit margin: MbLS; losses of the classes: CLS
green    a vector: VS, SVS, the prior                    smoothed labels
orange   a matrix: MS, MS-ODIR, Dir-ODIR, SMS            focal, FLSD
purple   bins and curves: isotonic, histogram, spline    entropy and its kind: ECP, CPC
sky      Neural Clamping                                 calibration errors: MMCE, MDCA, CRL, ECE
=======  ==============================================  ==============================================

A calibrator, a loss and an objective may share a look; two calibrators, two losses or two objectives never do.
"""

from __future__ import annotations

import zlib
from typing import Any

from calibkit._checks import expected
from calibkit.keys import Key
from calibkit.plots.style import BLACK, BLUE, COLORS, GREEN, GREY, ORANGE, PURPLE, RED, SKY, on_paper

#: The members of a kind, in their order.
DASHES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")

_KINDS = (
    (GREY, ("identity",)),
    (BLUE, ("temperature_scaling", "ets", "pts", "order_preserving")),
    (RED, ("class_temperature_scaling",)),
    (GREEN, ("vector_scaling", "structured_vector_scaling", "prior_correction")),
    (ORANGE, ("matrix_scaling", "ms_odir", "dir_odir", "structured_matrix_scaling")),
    (PURPLE, ("isotonic", "histogram_binning", "spline", "gp_calibration")),
    (SKY, ("neural_clamping",)),
    (BLACK, ("cross_entropy", "brier")),
    (BLUE, ("acls",)),
    (RED, ("mbls",)),
    (GREEN, ("label_smoothing",)),
    (ORANGE, ("focal", "flsd")),
    (PURPLE, ("ecp", "cpc")),
    (SKY, ("mmce", "mdca", "crl")),
    (BLACK, ("nll",)),
    (RED, ("class_loss_scaling", "class_balanced")),
    (SKY, ("ece",)),
)
#: How figures write some names.
SHORT = {
    "none": "identity",
    "ts": "temperature_scaling",
    "vs": "vector_scaling",
    "ms": "matrix_scaling",
    "nc": "neural_clamping",
    "cts": "class_temperature_scaling",
    "cls": "class_loss_scaling",
    "ce": "cross_entropy",
    "ls": "label_smoothing",
    "fl": "focal",
}
LOOKS = {
    name: (color, dash, marker)
    for color, names in _KINDS
    for name, dash, marker in zip(names, DASHES, MARKERS, strict=False)
}


def look_of(name: str) -> dict[str, Any]:
    """``color``, ``linestyle`` and ``marker`` of a method: keywords of ``ax.plot``, the same in every figure.

    Args:
        name: key of a calibrator, a loss or an objective, or its abbreviation, such as CE or TS-ECE; options and
            objective of a key do not change the look. Any other name gets a look that hangs on nothing but the name;
            two such names may share one.

    Example:
        >>> look_of("mbls margin=8")
        {'color': '#D55E00', 'linestyle': '-', 'marker': 'o'}
        >>> color_of("CE") == color_of("cross_entropy") == color_of("nll")
        True
        >>> look_of("my method") == look_of("my method")
        True
    """
    if not isinstance(name, str):
        raise expected("name", "text", repr(name))
    color, linestyle, marker = LOOKS.get(_registry_name(name)) or _other(name)
    return {"color": on_paper(color), "linestyle": linestyle, "marker": marker}


def color_of(name: str) -> str:
    """The colour of a method, that of :func:`look_of`.

    Example:
        >>> color_of("temperature_scaling") == BLUE
        True
    """
    return look_of(name)["color"]


def _registry_name(name: str) -> str:
    short, _, objective = name.lower().partition("-")
    if short in SHORT and (objective in SHORT or objective in ("", "ece", "nll")):
        return SHORT[short]
    try:
        return Key.parse(name.lower()).name
    except ValueError:
        return name


def _other(name: str) -> tuple[str, str, str]:
    """By a checksum, for ``hash`` of a text is another in each process."""
    rest, color = divmod(zlib.crc32(name.encode(errors="replace")), len(COLORS))
    return COLORS[color], DASHES[rest % 3], "DvPX"[rest // 3 % 4]
