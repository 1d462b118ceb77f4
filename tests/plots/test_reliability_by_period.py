"""The error of each period against the report that it draws."""

from datetime import date

import numpy as np
import pytest

from calibkit import plots
from calibkit.metrics import Monitor


@pytest.fixture
def monitor():
    """Twenty days; on the last two the network is far too sure."""
    rng, monitor = np.random.default_rng(0), Monitor()
    for day in range(20):
        right = rng.random(400) < (0.8 if day < 18 else 0.5)
        monitor.update(np.tile([0.8, 0.2], (400, 1)), 1 - right.astype(int), f"day {day:02}")
    return monitor


def test_points_band_and_marks_are_those_of_the_report(monitor):
    ax = plots.ece_by_period(monitor, drifted=["day 18", "day 19"])
    rows = monitor.report()
    errors, marked = ax.lines
    np.testing.assert_allclose(errors.get_ydata(), [100 * row["ece"] for row in rows])
    np.testing.assert_array_equal(marked.get_xdata(), [18, 19])
    top = ax.collections[0].get_paths()[0].vertices[:, 1].max()
    assert top == pytest.approx(100 * max(row["ece_null"] for row in rows))
    assert [tick.get_text() for tick in ax.get_xticklabels()][:2] == ["day 00", "day 03"]


def test_what_is_refused(monitor):
    with pytest.raises(ValueError, match="Expected `monitor` to be one with a period"):
        plots.ece_by_period(Monitor())
    with pytest.raises(ValueError, match="Expected `drifted` to be periods of the monitor, day 00 to day 19"):
        plots.ece_by_period(monitor, drifted=["day 20"])


def test_a_date_is_marked_as_its_text_is():
    monitor, day = Monitor(), date(2026, 11, 22)
    monitor.update([[0.9, 0.1]] * 50, [0] * 50, day)
    for drifted in (day, [day], "2026-11-22", ["2026-11-22"], monitor.drift_by_period()):
        (_, marked) = plots.ece_by_period(monitor, drifted=drifted).lines
        assert marked.get_xdata().tolist() == [0]
