"""Risk-coverage curves: how often a network errs on the samples that it is surest of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calibkit._checks import Array, expected, to_tensor
from calibkit._extras import needs
from calibkit.metrics import Sample, selective
from calibkit.plots.method_style import look_of
from calibkit.plots.style import BLUE, axes_of, drawable, on_paper

with needs("plots"):
    from matplotlib.axes import Axes

#: Points of a drawn curve at most: more would not be seen.
POINTS = 400


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
    ax = axes_of(ax)
    for name, (coverage, risk, area) in curves.items():
        look = look_of(name) if name else {"color": on_paper(BLUE)}
        text = f"{drawable(name).replace('_', ' ')}, area {100 * area:.2f}%".removeprefix(", ")
        thin = np.unique(np.linspace(0, len(coverage) - 1, POINTS).astype(int))
        ax.plot(100 * coverage[thin], 100 * risk[thin], **look | {"marker": ""}, label=text)
    ax.set(xlim=(0, 100), xlabel="coverage: samples answered, %", ylabel="risk: errors among them, %")
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left")
    return ax


def _curve(sample: Sample) -> tuple[np.ndarray, np.ndarray, float]:
    """Coverage and risk at each distinct confidence, whose samples are answered together, and the mean risk over all N
    coverages.
    """
    coverage, risk = selective.risk_coverage(sample, None)
    confidence = np.sort(sample.confidence.cpu().numpy())[::-1]
    last = np.append(np.flatnonzero(np.diff(confidence)), len(confidence) - 1)
    return coverage[last], risk[last], float(risk.mean())
