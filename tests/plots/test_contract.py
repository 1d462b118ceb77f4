"""What holds for every picture: into what it draws, what it refuses, and that its words can be read, light and dark."""

import itertools
from collections.abc import Callable, Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from refusals import refused

from calibkit import ClassTemperatureScaling, Comparison, Monitor, plots, reliability_bins

RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(2000, 12))
LABELS = (LOGITS / 2 + RNG.gumbel(size=LOGITS.shape)).argmax(1)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
CALIBRATED = np.exp(LOGITS / 2) / np.exp(LOGITS / 2).sum(1, keepdims=True)
BOTH = {"identity": PROBS, "temperature_scaling": CALIBRATED}
COMPARED = Comparison(LABELS, ["ece"], n_resamples=10)
COMPARED.add("ets", PROBS)
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
    "ece_nll_map": lambda **ax: plots.ece_nll_map(BOTH, LABELS, **ax),
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


@pytest.mark.slow
def test_axes_and_figures_are_those_given_or_new_ones():
    """Given: a part of a figure, without pyplot."""
    for name, draw in {**IN_AXES, **IN_FIGURE}.items():
        left, right = Figure(layout="constrained").subfigures(1, 2)
        given = left.subplots() if name in IN_AXES else left
        made = draw()
        assert made is not given and draw() is not made, name
        assert draw(**{"ax" if name in IN_AXES else "fig": given}) is given and not right.axes, name
        if name in IN_AXES:
            assert (made.get_xlabel(), len(made.lines)) == (given.get_xlabel(), len(given.lines)), name
        else:
            assert len(made.axes) == len(given.axes) > 1, name
        plt.close("all")


def test_bad_input_is_refused_before_a_figure_is_made():
    methods = {"good": PROBS, "bad": 2 * PROBS}
    for name, call in (
        *(
            ("probs", lambda draw=draw: draw(2 * PROBS, LABELS))
            for draw in (*OF_PROBS.values(), plots.class_reliability)
        ),
        ("labels", lambda: plots.reliability_diagram(PROBS, LABELS + 12)),
        ("n_bins", lambda: plots.confidence_histogram(PROBS, LABELS, n_bins=0)),
        ("n_bins", lambda: plots.class_reliability(PROBS, LABELS, n_bins=0)),
        (r"methods\['bad'\]", lambda: plots.before_after(methods, LABELS)),
        ("methods", lambda: plots.before_after({}, LABELS)),
        ("methods", lambda: plots.risk_coverage({}, LABELS)),
        ("methods", lambda: plots.ece_nll_map({}, LABELS)),
        ("probs", lambda: plots.ece_nll_map(methods, LABELS)),
        ("labels", lambda: plots.ece_nll_map(BOTH)),
        ("metric", lambda: plots.ece_nll_map(COMPARED)),
        ("rows", lambda: plots.forest_plot({})),
        ("rows", lambda: plots.forest_plot({"a": (1, 2)})),
        ("rows", lambda: plots.forest_plot(3)),
        ("points", lambda: plots.forest_plot({"a": (1, 0, 2)}, [1])),
        ("reference", lambda: plots.forest_plot({"a": (1, 0, 2)}, reference="x")),
        ("linear", lambda: plots.forest_plot({"a": (1, 0, 2)}, linear=0)),
        ("methods", lambda: plots.before_after(PROBS, LABELS)),
        ("methods", lambda: plots.ece_nll_map(PROBS, LABELS)),
        ("monitor", lambda: plots.ece_by_period(None)),
        ("bins", lambda: plots.consistency_interval(PROBS, None)),
        ("bins", lambda: plots.consistency_interval(PROBS, reliability_bins(PROBS, LABELS, class_index=0))),
        ("bins", lambda: plots.consistency_interval(PROBS[:10], reliability_bins(PROBS, LABELS))),
        ("labels", lambda: plots.ece_nll_map(COMPARED, LABELS)),
        ("metric", lambda: plots.forest_plot({"a": (1, 0, 2)}, metric="ece")),
        ("base", lambda: plots.forest_plot({"a": (1, 0, 2)}, base="a")),
        ("base", lambda: plots.forest_plot(COMPARED, base="x")),
        ("methods", lambda: plots.risk_coverage([PROBS, PROBS], LABELS)),
        ("level", lambda: plots.reliability_diagram(PROBS, LABELS, level=2)),
        ("level", lambda: plots.before_after({"a": PROBS}, LABELS, level=2)),
        ("interval", lambda: plots.before_after({"a": PROBS}, LABELS, interval=3)),
        ("seed", lambda: plots.reliability_by_group(PROBS, LABELS, LABELS, seed=-1)),
        ("seed", lambda: plots.reliability_diagram(PROBS, LABELS, seed=0.5)),
        ("seed", lambda: plots.smooth_reliability(PROBS, LABELS, seed=-1)),
        ("color", lambda: plots.smooth_reliability(PROBS, LABELS, color="none such")),
        ("ax", lambda: plots.confidence_histogram(PROBS, LABELS, ax=3)),
        ("fig", lambda: plots.class_reliability(PROBS, LABELS, fig=3)),
        ("names", lambda: plots.class_gaps(PROBS, LABELS, names=3)),
        ("color", lambda: plots.class_scatter([0.1], [1.0], color=[])),
        ("reference", lambda: plots.class_scatter([0.1], [1.0], reference="x")),
        ("reference", lambda: plots.class_temperatures([1.0, 2.0], reference=[])),
        ("names", lambda: plots.class_reliability(PROBS, LABELS, names=["a"])),
        ("level", lambda: plots.class_reliability(PROBS, LABELS, level=1.0)),
        ("n_panels", lambda: plots.class_reliability(PROBS, LABELS, n_panels=0)),
        ("columns", lambda: plots.class_reliability(PROBS, LABELS, columns=0)),
        ("n_classes", lambda: plots.class_gaps(PROBS, LABELS, n_classes=0)),
        ("width", lambda: plots.smooth_reliability(PROBS, LABELS, width=0)),
        ("width", lambda: plots.smooth_reliability(PROBS, LABELS, width=2)),
        ("n_resamples", lambda: plots.smooth_reliability(PROBS, LABELS, n_resamples=0)),
        ("level", lambda: plots.smooth_reliability(PROBS, LABELS, level=1.5)),
        ("values", lambda: plots.class_scatter([0.1], [1.0, 2.0])),
        ("class_accuracy", lambda: plots.class_scatter([[0.1]], [[1.0]])),
        ("names", lambda: plots.class_scatter([0.1], [1.0], names=["a", "b"])),
        ("temperatures", lambda: plots.class_temperatures([[1.0, 2.0]])),
        ("class_accuracy", lambda: plots.class_temperatures([1.0, 2.0], [0.5])),
        ("names", lambda: plots.class_temperatures([1.0, 2.0], names=["a"])),
    ):
        refused(f"`{name}` to be ", call)
    with pytest.raises(ValueError, match="^Expected `numbers` to be a format of numbers, or None, but got 'z"):
        plots.forest_plot({"a": (1, 0, 2)}, numbers="zz", ax=Figure().subplots())
    with pytest.raises(RuntimeError, match="Expected `ClassTemperatureScaling` to be fitted"):
        plots.class_temperatures(ClassTemperatureScaling())
    for wrong in ({"ax": Figure().subplots()}, {"title": "none such", "interval": False}):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(wrong))}'") as told:
            plots.before_after({"a": PROBS}, LABELS, **wrong)
        assert "_numbers" not in str(told.value)  # which no user has called
    assert not plt.get_fignums()


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


@pytest.mark.parametrize(("name", "dark"), [("forest_plot", False), *((name, True) for name in (*IN_AXES, *IN_FIGURE))])
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


@pytest.mark.slow
def test_names_of_data_are_drawn_whatever_they_hold():
    """Half a pair of surrogates, which JSON may hold; of what is no text of the caller's, dollars are no formula."""
    odd, half = "a$\\frac$\ud800", "b\ud800"
    monitor, groups = Monitor(), np.where(np.arange(len(LABELS)) % 2, odd, "b").astype(object)
    monitor.update(PROBS, LABELS, odd)
    for draw in (
        lambda: plots.reliability_by_group(PROBS, LABELS, groups),
        lambda: plots.class_gaps(PROBS, LABELS, names=[odd, *NAMES[1:]]),
        lambda: plots.ece_by_period(monitor).figure,
        lambda: plots.before_after({half: PROBS}, LABELS),
        lambda: plots.ece_nll_map({half: PROBS}, LABELS),
        lambda: plots.risk_coverage({half: PROBS}, LABELS),
        lambda: plots.forest_plot({half: (0, -1, 1)}),
        lambda: plots.smooth_reliability(PROBS, LABELS, label=half),
        lambda: plots.class_scatter(ACCURACY, VALUES, names=[half, *NAMES[1:]]),
    ):
        made = draw()
        figure = made if isinstance(made, Figure) else made.figure
        assert any("?" in text.get_text() for text in words(figure))


def test_an_svg_is_the_same_each_time_but_for_its_paper():
    def draw(figure):
        IN_AXES["class_gaps"](ax=figure.subplots())

    dark, again, light = (plots.svg(draw, (4, 3), "gaps", dark=dark) for dark in (True, True, False))
    assert dark == again and "#121212" in dark and "#121212" not in light


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
    refused("`metric` to be one of ece", plots.forest_plot, methods, metric="brier")
    with pytest.raises(ValueError, match="Expected `rows` to be at least one"):
        plots.forest_plot(Comparison(LABELS, ["ece"], n_resamples=10), base="identity")
