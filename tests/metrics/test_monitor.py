"""What a monitor keeps, adds up, stores and reports; its test is in test_drift.py."""

import pickle
import re
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused

from calibkit._files import write_npz
from calibkit.metrics import Monitor, Sample, accuracy, brier, ece, nll
from calibkit.metrics.proper import sample_brier, sample_nll
from calibkit.metrics.registry import null_draws

DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")


def filled(probs, labels, rows=slice(None), n_bins=15):
    """A monitor of rows of (300, 6), a third of which belong to each day."""
    monitor = Monitor(n_bins)
    for day, part in zip(DAYS, np.array_split(np.arange(300)[rows], 3), strict=True):
        if len(part):
            monitor.update(probs[part], labels[part], day)
    return monitor


def assert_same(one, two):
    assert one.periods == two.periods
    for ours, theirs in zip(one.report(), two.report(), strict=True):
        assert ours.pop("period") == theirs.pop("period")
        assert ours == pytest.approx(theirs, rel=1e-12)
    for key, sums in one._sums.items():
        np.testing.assert_allclose(sums, two._sums[key], rtol=1e-12, atol=1e-12)


def test_report_is_what_the_metrics_give(mixed):
    probs, labels = mixed
    rows = filled(probs, labels).report()
    assert [row["period"] for row in rows] == list(DAYS)
    for row, part in zip(rows, np.array_split(np.arange(300), 3), strict=True):
        p, y = probs[part], labels[part]
        assert (row["n"], row["accuracy"]) == (100, accuracy(p, y))
        assert row["confidence"] == pytest.approx(p.max(1).mean(), rel=1e-12)
        assert row["ece"] == pytest.approx(ece(p, y), rel=1e-12)
        sample = Sample.of(p, y)
        for name, mean, of_rows in (("nll", nll, sample_nll), ("brier", brier, sample_brier)):
            assert row[name] == pytest.approx(mean(p, y), rel=1e-12)
            error = of_rows(sample).numpy().std(ddof=1) / 10
            assert row[f"{name}_se"] == pytest.approx(error, rel=1e-9)
        assert all(type(row[name]) is float for name in row if name not in ("period", "n"))


def test_ece_null_is_the_quantile_of_drawn_outcomes():
    """The draws of the bootstrap's null, from each confidence, against those from the sums alone."""
    rng = np.random.default_rng(0)
    probs = np.exp(rng.normal(scale=3, size=(2000, 5)))
    probs /= probs.sum(1, keepdims=True)
    monitor = Monitor()
    monitor.update(probs, np.zeros(2000, int), "a")
    drawn = null_draws(Sample.of(probs, np.zeros(2000, int)), ("ece",), 4000, rng, 15)["ece"]
    for level in (0.9, 0.95):
        assert monitor.report(level)[0]["ece_null"] == pytest.approx(np.quantile(drawn, level), rel=0.03)


@pytest.mark.parametrize("n_bins", [1, 15])
def test_machines_add_up_to_one_machine(mixed, n_bins):
    """Each has a share of every day, and one of them came late; in any order and grouping."""
    everything = filled(*mixed, n_bins=n_bins)
    parts = []
    for machine in range(3):
        part = Monitor(n_bins)
        for day, rows in zip(DAYS, np.array_split(np.arange(300), 3), strict=True):
            if machine < 2 or day != DAYS[1]:
                mine = rows[machine::3] if day != DAYS[1] else rows[machine::2]
                part.update(mixed[0][mine], mixed[1][mine], day)
        parts.append(part)
    (a, b, c), none = parts, Monitor(n_bins)
    for total in ((a + b) + c, a + (b + c), c + b + a, a.merge(b, c), sum(parts, none), sum(parts), none + everything):
        assert_same(total, everything)
    assert a.periods == list(DAYS) and len(c.periods) == 2, "a sum changes none of its parts"
    total = a + b
    total.update(mixed[0][:5], mixed[1][:5], DAYS[0])
    assert (a + b).report()[0]["n"] + 5 == total.report()[0]["n"]


def test_the_order_of_updates_and_late_labels_change_nothing(mixed):
    """Labels of the first day come on the third, one by one and in another order."""
    probs, labels = mixed
    late = Monitor()
    for day, part in reversed(list(zip(DAYS, np.array_split(np.arange(300), 3), strict=True))):
        for row in np.random.default_rng(0).permutation(part):
            late.update(probs[row : row + 1], labels[row : row + 1], date.fromisoformat(day))
    assert_same(late, filled(probs, labels))


@pytest.mark.gpu
def test_same_on_cuda(mixed):
    monitor, other = Monitor(), Monitor()
    monitor.update(*(torch.from_numpy(x).cuda() for x in mixed), "a")
    other.update(*mixed, "a")
    assert_same(monitor, other)


def test_memory_is_constant(mixed):
    monitor = Monitor()
    for _ in range(50):
        monitor.update(*mixed, "a")
    assert sum(sums.nbytes for sums in monitor._sums.values()) == 8 * (4 * 15 + 4) == 512
    assert monitor.report()[0]["n"] == 15_000


def test_an_infinite_nll_and_a_single_sample():
    monitor = Monitor()
    monitor.update([[1.0, 0.0], [0.5, 0.5]], [1, 0], "a")
    monitor.update([[0.9, 0.1]], [0], "b")
    first, second = monitor.report()
    assert first["nll"] == np.inf and np.isnan(first["nll_se"]) and first["brier"] == 1.25
    assert np.isnan(second["nll_se"]) and second["ece"] == pytest.approx(0.1)
    assert second["ece_null"] > 0


def test_one_hot_probabilities_have_no_chance_to_err():
    monitor = Monitor()
    monitor.update(np.eye(2)[[0, 1, 1]], [0, 1, 1], "a")
    assert monitor.report()[0]["ece"] == monitor.report()[0]["ece_null"] == 0.0


def test_save_and_load(mixed, tmp_path):
    for monitor in (filled(*mixed), filled(*mixed, n_bins=4), Monitor(7)):
        path = monitor.save(tmp_path / "state" / "machine-1.npz")
        again = Monitor.load(path)
        assert again.n_bins == monitor.n_bins
        assert_same(again, monitor)
        again.update(*mixed, "later")
        assert again.periods == [*monitor.periods, "later"]
    assert [p.name for p in (tmp_path / "state").iterdir()] == ["machine-1.npz"]
    assert_same(pickle.loads(pickle.dumps(filled(*mixed))), filled(*mixed))
    infinite = Monitor()
    infinite.update([[1.0, 0.0], [1.00005, 0.0]], [1, 0], "a")
    assert Monitor.load(infinite.save(tmp_path / "infinite.npz")).report()[0]["nll"] == np.inf
    frame = pd.DataFrame(filled(*mixed).report())
    assert frame.shape == (3, 10) and frame["n"].sum() == 300


GOOD = {"periods": np.array(["a", "b"]), "sums": np.ones((2, 12)), "n_bins": np.array(2)}
WRONG = [
    {"sums": np.ones((2, 11))},
    {"sums": np.ones((3, 12))},
    {"sums": np.ones((2, 12), np.float32)},
    {"sums": np.full((2, 12), np.nan)},
    {"sums": -np.ones((2, 12))},
    {"sums": np.zeros((2, 12))},
    {"sums": np.full((2, 12), np.inf)},
    {"sums": np.ones((2, 12)) * [*[1e300] * 2, *[1] * 9, np.inf]},
    {"sums": np.ones((2, 12)) * [1.5, *[1] * 11]},
    {"sums": np.ones((2, 12)) * [1, 1, 1, 1, 2, 1, *[1] * 6]},
    {"sums": np.ones((2, 12)) * [1, 1, 2, 1, 1, 1, *[1] * 6]},
    {"sums": np.ones((2, 12)) * [1, 1, 1, 1, 1, 1, 2, 1, *[1] * 4]},
    {"sums": None},
    {"n_classes": np.array(-1)},
    {"n_classes": np.array(2.0)},
    {"n_bins": np.array([2])},
    {"n_bins": np.array(2.0)},
    {"n_bins": np.array(-1)},
    {"n_bins": np.array(0), "sums": np.ones((2, 4))},
    {"n_bins": np.array(5000), "sums": np.ones((2, 20_004))},
    {"periods": np.array([1, 2])},
    {"periods": np.array(["a", "a"])},
    {"periods": np.array([["a"], ["b"]])},
    {"periods": np.array("a")},
    {"periods": None},
]


def test_what_no_monitor_wrote_is_not_read(tmp_path):
    path = tmp_path / "state.npz"
    assert Monitor.load(write_npz(path, GOOD)).periods == ["a", "b"]
    for change in WRONG:
        write_npz(path, {name: array for name, array in (GOOD | change).items() if array is not None})
        refused("`path` to be a file that Monitor.save wrote, but got '.*npz'", Monitor.load, path)


def test_damaged_and_absent_files(tmp_path):
    (tmp_path / "state.npz").write_bytes(b"PK nothing")
    refused("`path` to be a whole npz file without pickle", Monitor.load, tmp_path / "state.npz")
    with pytest.raises(FileNotFoundError):
        Monitor.load(tmp_path / "none.npz")


def test_numbers_in_periods_count_as_numbers(mixed):
    names = ["2", "10", "day 1", "day 2", "day 10", "day 10 b", "release 1.9", "release 1.10", "\u0662", "9" * 5000]
    monitor = Monitor()
    for name in names[::-1]:
        monitor.update(*mixed, name)
    periods = [row["period"] for row in monitor.report()]
    assert sorted(periods) == sorted(names) and [name for name in periods if name in names[2:8]] == names[2:8]
    assert periods.index("2") < periods.index("10") < periods.index("9" * 5000)


def test_bad_periods(mixed):
    monitor = Monitor()
    moment = datetime(2026, 11, 22, 8)
    for period, got in ((3, "3"), ("", "''"), ("a\0", "'a\\x00'"), (moment, f"{moment!r}; its .date() is one")):
        refused(f"`period` to be a text or a date, but got {re.escape(got)}$", monitor.update, *mixed, period)
    assert monitor.periods == []


def test_other_numbers_of_classes_are_refused_after_a_restart_too(mixed, tmp_path):
    other = Monitor()
    other.update([0.9, 0.2], [1, 0], "a")
    for monitor in (filled(*mixed), Monitor.load(filled(*mixed).save(tmp_path / "state.npz")), sum([filled(*mixed)])):
        before = monitor.report()
        refused("`probs` to be of 6 classes as before, but got 2$", monitor.update, [0.9, 0.2], [1, 0], DAYS[0])
        with pytest.raises(ValueError, match="^Expected `others` to be of 6 classes as before, but got 2$"):
            monitor + other
        assert monitor.report() == before


def test_bad_input_counts_nothing(mixed):
    monitor = filled(*mixed)
    before = monitor.report()
    with pytest.raises(ValueError, match=r"Expected `labels` to be in \[0, 6\), but got 6"):
        monitor.update(mixed[0], np.where(mixed[1] == 0, 6, mixed[1]), DAYS[0])
    refused("`probs` to be rows that sum to 1", monitor.update, mixed[0] * 0.8, mixed[1], DAYS[0])
    assert monitor.report() == before
    refused("`n_bins` to be an integer >= 1, but got 0", Monitor, 0)
    refused("`n_bins` to be at most 4,096, but got 1000000", Monitor, 1_000_000)
    with pytest.raises(ValueError, match=r"Expected `others` to be monitors of 15 bins, but got Monitor\(n_bins=7\)"):
        monitor + Monitor(7)
    refused("`others` to be monitors of 15 bins, but got 3", monitor.merge, 3)
    for wrong in (lambda: monitor + 3, lambda: 3 + monitor):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()
    for level in (0.0, 1.0):
        refused("`level` to be between 0 and 1", monitor.report, level)
    assert monitor.report(Fraction(1, 2)) == monitor.report(0.5)
