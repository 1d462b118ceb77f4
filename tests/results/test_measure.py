"""Numbers of one cell from probabilities: by the metrics themselves, and by the bootstrap of each training."""

import numpy as np
import pytest

from book.kit.results import append, load, measure
from book.kit.results.csv_rows import MEASURED
from calibkit.metrics import bootstrap, ece, evaluate

CELL = {"dataset": "cifar10", "model": "densenet40", "loss": "cross_entropy", "method": "identity"}
CELL |= {"budget": "reduced", "source": "ours"}


@pytest.fixture(scope="module")
def runs():
    """Three trainings, that differ in how sure they are and not evenly."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(1)
    return [(np.exp(t * z) / np.exp(t * z).sum(1, keepdims=True), y) for t in (1.0, 2.0, 5.0)]


def by_metric(rows):
    return {row["metric"]: row for row in rows}


def test_a_row_is_the_mean_over_trainings(runs):
    found = by_metric(measure(runs, metrics=["ece", "nll"], **CELL))
    for name in ("ece", "nll"):
        values = [evaluate(*run, [name])[name] for run in runs]
        ends = [bootstrap(*run, [name])[name] for run in runs]
        row = found[name]
        assert row["value"] == pytest.approx(sum(values) / 3)
        assert row["std"] == pytest.approx(np.sqrt(sum((v - sum(values) / 3) ** 2 for v in values) / 2))
        assert (row["low"], row["high"]) == pytest.approx([sum(column) / 3 for column in zip(*ends, strict=True)])
        assert row["n_seeds"] == 3
    row = by_metric(measure(runs[:1], metrics=["ece"], **CELL))["ece"]
    assert (row["value"], row["std"], row["n_seeds"]) == (ece(*runs[0]), None, 1)
    with pytest.raises(ValueError, match="Expected `runs`"):
        measure([], **CELL)


def test_units_and_bins(runs, own_results):
    rows = measure(runs, note="as it is", **CELL)
    assert [row["metric"] for row in rows] == list(MEASURED)
    assert append(rows) == len(rows)
    frame = load("ours").set_index("metric")
    binned = {"ece", "adaptive_ece", "classwise_ece"}
    assert dict(frame["n_bins"]) == {name: "15" if name in binned else "" for name in MEASURED}
    assert dict(frame["unit"]) == {name: "nats" if name in ("nll", "entropy") else "fraction" for name in MEASURED}
    assert set(frame["note"]) == {"as it is"} and set(frame["n_seeds"]) == {3}
    for column, value in CELL.items():
        assert set(frame[column]) == {value}


def test_bins_are_used(runs):
    p, y = runs[1]
    row = by_metric(measure([(p, y)], metrics=["ece"], n_bins=5, **CELL))["ece"]
    assert row["n_bins"] == 5 and row["value"] == ece(p, y, n_bins=5) != ece(p, y)
    assert (row["low"], row["high"]) == bootstrap(p, y, ["ece"], n_bins=5)["ece"]
