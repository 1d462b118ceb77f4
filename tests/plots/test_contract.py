"""What holds for every picture: into what it draws, what it refuses, and that its words can be read, light and dark."""

import itertools
from collections.abc import Callable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from calibkit import Comparison, plots

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(2000, 12))
LABELS = (LOGITS / 2 + RNG.gumbel(size=LOGITS.shape)).argmax(1)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
CALIBRATED = np.exp(LOGITS / 2) / np.exp(LOGITS / 2).sum(1, keepdims=True)
BOTH = {"identity": PROBS, "temperature_scaling": CALIBRATED}
NAMES = [f"class {k}" for k in range(12)]
VALUES, ACCURACY = RNG.uniform(1, 2, 12), RNG.uniform(0.5, 0.9, 12)
ROWS = [("a", -1.0, -12.0, 1.0), ("a_longer_name", 2.0, 1.0, 3.0)]

OF_PROBS: dict[str, Callable] = {
    "reliability_diagram": plots.reliability_diagram,
    "confidence_histogram": plots.confidence_histogram,
    "class_gaps": plots.class_gaps,
    "smooth_reliability": plots.smooth_reliability,
    "risk_coverage": plots.risk_coverage,
}
IN_AXES: dict[str, Callable] = {
    **{name: lambda draw=draw, **ax: draw(PROBS, LABELS, **ax) for name, draw in OF_PROBS.items()},
    "equal_mass": lambda **ax: plots.reliability_diagram(PROBS, LABELS, scheme="mass", **ax),
    "named_gaps": lambda **ax: plots.class_gaps(PROBS, LABELS, names=NAMES, **ax),
    "two_risks": lambda **ax: plots.risk_coverage(BOTH, LABELS, **ax),
    "class_scatter": lambda **ax: plots.class_scatter(ACCURACY, VALUES, names=NAMES, **ax),
    "in_order": lambda **ax: plots.class_temperatures(VALUES, names=NAMES, reference=1.5, **ax),
    "many_in_order": lambda **ax: plots.class_temperatures(np.linspace(1, 2, 60), reference=1.5, **ax),
    "by_accuracy": lambda **ax: plots.class_temperatures(VALUES, ACCURACY, names=NAMES, **ax),
    "forest_plot": lambda **ax: plots.forest_plot(ROWS, **ax),
}
IN_FIGURE: dict[str, Callable] = {
    "before_after": lambda **fig: plots.before_after(BOTH, LABELS, **fig),
    "three_methods": lambda **fig: plots.before_after({**BOTH, "ets": PROBS}, LABELS, **fig),
    "class_reliability": lambda **fig: plots.class_reliability(PROBS, LABELS, names=NAMES, **fig),
}


@pytest.mark.parametrize("name", IN_AXES)
def test_axes_are_those_given_or_new_ones(name, ax):
    made = [IN_AXES[name](), IN_AXES[name]()]
    assert len({ax.figure, *(one.figure for one in made)}) == 3 and not ax.has_data()
    assert IN_AXES[name](ax=ax) is ax
    for one in made:
        assert (one.get_xlabel(), one.get_xlim()) == (ax.get_xlabel(), ax.get_xlim())
        assert [len(one.lines), len(one.patches)] == [len(ax.lines), len(ax.patches)]


@pytest.mark.parametrize("name", IN_FIGURE)
def test_figures_are_those_given_or_new_ones(name):
    given = plt.figure()
    made = IN_FIGURE[name]()
    assert made is not given and not given.axes
    assert IN_FIGURE[name](fig=given) is given and len(given.axes) == len(made.axes)


@pytest.mark.parametrize("name", [*IN_AXES, *IN_FIGURE])
def test_part_of_a_figure_will_do(name):
    """A subfigure, without pyplot."""
    whole = Figure(layout="constrained")
    left, right = whole.subfigures(1, 2)
    drawn = IN_AXES[name](ax=left.subplots()) if name in IN_AXES else IN_FIGURE[name](fig=left)
    whole.draw_without_rendering()
    assert left.axes and not right.axes and drawn in (left, *left.axes)


@pytest.mark.parametrize("draw", [*OF_PROBS.values(), plots.class_reliability])
def test_bad_input_is_refused_before_a_figure_is_made(draw):
    figures = plt.get_fignums()
    with pytest.raises(ValueError, match="Expected `probs` to be"):
        draw(2 * PROBS, LABELS)
    with pytest.raises(ValueError, match="Expected `labels` to be"):
        draw(PROBS, LABELS + 12)
    if draw not in (plots.risk_coverage, plots.smooth_reliability):
        with pytest.raises(ValueError, match="Expected `n_bins` to be an integer >= 1"):
            draw(PROBS, LABELS, n_bins=0)
    with pytest.raises(ValueError, match="Expected `probs` to be"):
        plots.before_after({"good": PROBS, "bad": 2 * PROBS}, LABELS)
    assert plt.get_fignums() == figures


# ----------------------------------------------------------------------------------------------------- what is read
def words(figure: Figure) -> Iterator[Text]:
    """All that a reader sees: no tick beyond its axis, nothing empty."""
    figure.draw_without_rendering()
    legends = list(figure.legends)
    for ax in [*figure.axes, *(child for parent in figure.axes for child in parent.child_axes)]:
        legends += [ax.get_legend()] if ax.get_legend() else []
        yield from (text for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts) if text.get_text())
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
            low, high = sorted(limits)
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text():
                    yield tick.label1
    for legend in legends:
        yield from legend.get_texts()
    yield from (text for text in figure.texts if text.get_text())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", [*IN_AXES, *IN_FIGURE])
def test_words_are_large_enough_apart_and_in_ink(name, dark):
    with plots.styled(dark=dark):
        made = {**IN_AXES, **IN_FIGURE}[name]()
        figure = made if isinstance(made, Figure) else made.figure
        found = list(words(figure))
        boxes = [text.get_window_extent().padded(-1) for text in found]
        assert min(text.get_fontsize() for text in found) * figure.dpi / 72 >= 9
        assert {to_hex(text.get_color()) for text in found} == {"#e8e8e8" if dark else "#000000"}
        assert to_hex(figure.get_facecolor()) == ("#121212" if dark else "#ffffff")
    for (one, box), (other, second) in itertools.combinations(zip(found, boxes, strict=True), 2):
        assert not box.overlaps(second), f"{one.get_text()!r} lies on {other.get_text()!r}"


@pytest.mark.parametrize("name", ["reliability_diagram", "class_gaps", "forest_plot"])
def test_svg_is_the_same_each_time(name, tmp_path):
    files = [tmp_path / "1.svg", tmp_path / "2.svg"]
    for path in files:
        with plots.styled(dark=True):
            IN_AXES[name]().figure.savefig(path, metadata={"Date": None})
    assert files[0].read_bytes() == files[1].read_bytes() and b"#121212" in files[0].read_bytes()


def test_a_comparison_is_drawn_as_it_is():
    methods = Comparison(LABELS, ["ece", "nll"], n_resamples=50)
    for name, probs in BOTH.items():
        methods.add(name, probs)
    ax = plots.forest_plot(methods, metric="ece", base="temperature_scaling")
    (dot,) = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dot == pytest.approx(100 * methods.difference("identity", "temperature_scaling").value)
    assert ax.get_xlabel() == "ECE less that of temperature scaling, points"
    ax = plots.forest_plot(methods)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["temperature scaling", "identity"]
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dots == [methods.of(name, "nll").value for name in ("temperature_scaling", "identity")]
    assert ax.get_xlabel() == "NLL, nats"
