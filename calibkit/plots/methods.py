"""Several methods in one picture: their ECE against their NLL, and their risk; and which method has which colour.

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

import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from calibkit._checks import Array, expected, to_tensor
from calibkit._extras import needs
from calibkit.keys import Key
from calibkit.metrics import Sample, selective
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.plots import style

with needs("plots"):
    from matplotlib.axes import Axes

#: The members of a kind, in their order.
DASHES, MARKERS = ("-", "--", ":", "-."), ("o", "s", "^", "D")

_KINDS = (
    (style.GREY, ("identity",)),
    (style.BLUE, ("temperature_scaling", "ets", "pts", "order_preserving")),
    (style.RED, ("class_temperature_scaling",)),
    (style.GREEN, ("vector_scaling", "structured_vector_scaling", "prior_correction")),
    (style.ORANGE, ("matrix_scaling", "ms_odir", "dir_odir", "structured_matrix_scaling")),
    (style.PURPLE, ("isotonic", "histogram_binning", "spline", "gp_calibration")),
    (style.SKY, ("neural_clamping",)),
    (style.BLACK, ("cross_entropy", "brier")),
    (style.BLUE, ("acls",)),
    (style.RED, ("mbls",)),
    (style.GREEN, ("label_smoothing",)),
    (style.ORANGE, ("focal", "flsd")),
    (style.PURPLE, ("ecp", "cpc")),
    (style.SKY, ("mmce", "mdca", "crl")),
    (style.BLACK, ("nll",)),
    (style.RED, ("class_loss_scaling", "class_balanced")),
    (style.SKY, ("ece",)),
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
    return {"color": style.on_paper(color), "linestyle": linestyle, "marker": marker}


def color_of(name: str) -> str:
    """The colour of a method, that of :func:`look_of`.

    Example:
        >>> color_of("temperature_scaling")
        '#0072B2'
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
    rest, color = divmod(zlib.crc32(name.encode(errors="replace")), len(style.COLORS))
    return style.COLORS[color], DASHES[rest % 3], "DvPX"[rest // 3 % 4]


#: Points of a drawn curve at most: more would not be seen.
POINTS = 400


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
    ax = style.axes_of(ax)
    for name, (x, y) in points.items():
        of_network = name == "identity"
        text = "uncalibrated" if of_network else style.drawable(name).replace("_", " ")
        look = look_of(name) | {"linestyle": ""} | ({"mfc": style.paper()} if of_network else {})
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
    ax.fill_between([left, x], low, y, color=style.GREEN, alpha=style.wash(0.15), linewidth=0, label="better in both")
    ax.axvline(x, color=style.ink(), linewidth=0.8, linestyle="--")
    ax.axhline(y, color=style.ink(), linewidth=0.8, linestyle="--")
    ax.set(xlim=(left, None), ylim=(low, None))


def risk_coverage(methods: Array | Mapping[str, Array], labels: Array, *, ax: Axes | None = None) -> Axes:
    """Error rate among the samples of largest confidence, against the share answered (El-Yaniv & Wiener 2010).

    At the right end every sample is answered and the risk is 1 - accuracy; further left only the surest. The lower the
    curve the better: its area, the mean risk over all coverages (AURC, Geifman et al. 2019), stands in the legend.

    Args:
        methods: (N, K) probabilities; or name -> probabilities, a curve each. A name that is the key of a method has
            the colour of :func:`color_of`.
        labels: (N,) integers in [0, K).
        ax: Axes to draw into; a new one if None.

    Raises:
        ValueError: bad probabilities or labels, an empty ``methods``.

    Example:
        >>> from matplotlib.figure import Figure
        >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
        >>> ax = risk_coverage({"mine": probs}, [0, 0, 1, 0], ax=Figure().subplots())
        >>> ax.lines[0].get_ydata().round(1).tolist()
        [0.0, 0.0, 33.3, 25.0]
    """
    if isinstance(methods, Mapping) and not methods:
        raise expected("methods", "at least one name with its probabilities", "none")
    if not isinstance(methods, Mapping | Sample) and (shape := tuple(to_tensor("methods", methods).shape))[2:]:
        raise expected("methods", "probabilities (N, K), or names with theirs", f"shape {shape}")
    named = methods if isinstance(methods, Mapping) else {"": methods}
    curves = {name: _curve(Sample.of(probs, labels)) for name, probs in named.items()}
    ax = style.axes_of(ax)
    for name, (coverage, risk, area) in curves.items():
        look = look_of(name) if name else {"color": style.on_paper(style.BLUE)}
        text = f"{style.drawable(name).replace('_', ' ')}, area {100 * area:.2f}%".removeprefix(", ")
        thin = np.unique(np.linspace(0, len(coverage) - 1, POINTS).astype(int))
        ax.plot(100 * coverage[thin], 100 * risk[thin], **look | {"marker": ""}, label=text)
    ax.set(xlim=(0, 100), xlabel="coverage: samples answered, %", ylabel="risk: errors among them, %")
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left")
    return ax


def _curve(sample: Sample) -> tuple[np.ndarray, np.ndarray, float]:
    """Coverage and risk at each distinct confidence, and the mean risk over all N coverages."""
    coverage, risk = selective.risk_coverage(sample, None)
    confidence = np.sort(sample.confidence.cpu().numpy())[::-1]
    last = np.append(np.flatnonzero(np.diff(confidence)), len(confidence) - 1)
    return coverage[last], risk[last], float(risk.mean())
