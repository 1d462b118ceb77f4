"""The test of a change in calibration: by hand, and against slow and independent tests."""

import math
from itertools import product

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from calibkit.metrics import Monitor
from calibkit.metrics.drift import ENOUGH, binomial_tail, chi_square_tail


def constant(monitor, period, confidence, n, right):
    """n predictions of one confidence, of which some are right."""
    monitor.update(np.tile([confidence, 1 - confidence], (n, 1)), np.repeat([0, 1], [right, n - right]), period)


def test_one_confidence_is_the_test_of_two_proportions():
    monitor = Monitor()
    constant(monitor, "before", 0.9, 400, 350)
    constant(monitor, "after", 0.9, 300, 240)
    found = monitor.drift("after", "before")
    want = stats.chi2_contingency([[350, 50], [240, 60]], correction=False)
    assert (found.statistic, found.p, found.dof) == pytest.approx((want.statistic, want.pvalue, 1), rel=1e-9)
    assert found.z == pytest.approx(math.sqrt(want.statistic), rel=1e-9)
    assert found.change.value == pytest.approx(350 / 400 - 240 / 300, rel=1e-9)
    error = math.sqrt(0.875 * 0.125 / 400 + 0.8 * 0.2 / 300)
    assert found.change[1:] == pytest.approx((0.075 - 1.959964 * error, 0.075 + 1.959964 * error), rel=1e-9)


def slow(current, reference):
    """Chi-square, degrees of freedom, z and the mean change: sample by sample as the definition says.

    ``current`` and ``reference`` are lists of (confidence, right), the reference may be None.
    """
    edges = [k / 15 for k in range(16)]

    def in_bin(samples, b):
        return [(c, r) for c, r in samples if (edges[b] < c or b == 0 and c == 0) and c <= edges[b + 1]]

    bins = [(in_bin(current, b), in_bin(reference or [], b)) for b in range(15)]

    def factors(b):
        ours, others = bins[b]
        if reference is None:
            return 1.0, 0.0
        n = len(ours) + len(others)
        return (len(others) / n, len(ours) / n) if n else (0.0, 0.0)

    def add(b, f):
        return sum(factor**2 * f(samples) for factor, samples in zip(factors(b), bins[b], strict=True))

    groups, open_group = [], []
    for b in range(15):
        open_group.append(b)
        if sum(add(i, lambda s: sum(c * (1 - c) for c, _ in s)) for i in open_group) >= ENOUGH:
            groups.append(open_group)
            open_group = []
    groups[-1] += open_group
    chi_square = total = variance = weight = 0.0
    for group in groups:
        everyone = [x for b in group for samples in bins[b] for x in samples]
        gap = 0.0 if reference is None else sum(c - r for c, r in everyone) / len(everyone)

        def spread(samples, gap=gap):
            """The variance of the sum of gaps, from the confidences and the pooled gap."""
            if not samples:
                return 0.0
            n, mean = len(samples), sum(c for c, _ in samples) / len(samples)
            own = sum(c * (1 - c) for c, _ in samples)
            q = min(max(mean - gap, 0.0), 1.0)
            most = n * mean * (1 - mean)
            return own if reference is None else max(own * n * q * (1 - q) / most, most - own)

        t = sum(
            sign * factor * (c - r)
            for b in group
            for sign, factor, samples in zip((1, -1), factors(b), bins[b], strict=True)
            for c, r in samples
        )
        w = sum(add(b, spread) for b in group)
        chi_square, total, variance = chi_square + t**2 / w, total + t, variance + w
        weight += sum(factors(b)[0] * len(bins[b][0]) for b in group)
    return chi_square, len(groups), total / math.sqrt(variance), total / weight


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("n", [150, 700])
def test_slow_oracle(known, n):
    rng = np.random.default_rng(n)
    samples = {}
    monitor = Monitor()
    for period, size, sharpness in (("now", n, 1.3), ("then", 3 * n, 1.0)):
        z = rng.normal(scale=2, size=(size, 5))
        labels = (z + rng.gumbel(size=z.shape)).argmax(1)
        probs = np.exp(sharpness * z)
        probs /= probs.sum(1, keepdims=True)
        monitor.update(probs, labels, period)
        samples[period] = list(zip(probs.max(1).tolist(), (probs.argmax(1) == labels).tolist(), strict=True))
    found = monitor.drift("now", None if known else "then")
    want = slow(samples["now"], None if known else samples["then"])
    assert (found.statistic, found.dof, found.z, found.change.value) == pytest.approx(want, rel=1e-9)
    smaller = min(stats.chi2.sf(want[0], want[1]), 2 * stats.norm.sf(abs(want[2])))
    assert found.p == pytest.approx(smaller * (2 if want[1] > 1 else 1), rel=1e-9)


def test_a_change_of_both_signs_is_seen_by_chi_square():
    monitor = Monitor()
    for confidence, right in ((0.6, 1200), (0.9, 1800)):
        constant(monitor, "then", confidence, 2000, right)
    constant(monitor, "now", 0.6, 2000, 1320)
    constant(monitor, "now", 0.9, 2000, 1680)
    found = monitor.drift("now", "then")
    assert found.z == pytest.approx(0) and found.verdict == "drifted" and found.p < 1e-6
    assert (found.dof, found.p) == (2, pytest.approx(2 * stats.chi2.sf(found.statistic, 2), rel=1e-9))
    assert found.change.low < 0 < found.change.high


def test_other_inputs_alone_are_no_drift():
    """The accuracy falls by 25 points, and the gap changes, where many inputs are those on which the network errs."""
    monitor = Monitor()
    constant(monitor, "then", 0.6, 500, 250)
    constant(monitor, "then", 0.95, 4500, 4275)
    constant(monitor, "now", 0.6, 3000, 1500)
    constant(monitor, "now", 0.95, 2000, 1900)
    then, now = monitor.report()[::-1]
    assert now["accuracy"] < then["accuracy"] - 0.2 and now["ece"] > then["ece"] + 0.04
    found = monitor.drift("now", "then")
    assert found.verdict == "no drift seen" and found.change.value == pytest.approx(0, abs=1e-12) and found.p > 0.99


def test_too_few_samples_for_any_answer():
    monitor = Monitor()
    constant(monitor, "then", 0.6, 500, 300)
    constant(monitor, "few", 0.6, 9, 0)
    constant(monitor, "elsewhere", 0.95, 5000, 0)
    few, elsewhere = (monitor.drift(period, "then") for period in ("few", "elsewhere"))
    assert (few.verdict, few.p) == (elsewhere.verdict, elsewhere.p) == ("too few samples", 1.0)
    assert few.change.value == pytest.approx(0.6) and math.isnan(elsewhere.change.value)
    assert monitor.drift("few").verdict == "too few samples"
    assert monitor.drift("elsewhere").verdict == "drifted"


def test_a_confident_network_that_collapses_is_an_alarm():
    """Calibration leaves no room for errors, so no number of samples has the variance that the bins ask for."""
    monitor = Monitor()
    constant(monitor, "mon", 0.9995, 10_000, 10_000)
    constant(monitor, "tue", 0.9995, 10_000, 5_000)
    constant(monitor, "sure", 1.0, 100_000, 0)
    for current, reference in (("tue", "mon"), ("tue", None), ("mon", "tue"), ("sure", None), ("sure", "mon")):
        found = monitor.drift(current, reference)
        assert (found.verdict, found.p < 1e-100) == ("drifted", True)
        assert math.copysign(1, found.z) == math.copysign(1, found.change.value) and abs(found.z) > 80
    assert monitor.drift("sure").z == monitor.drift("sure").statistic == math.inf
    assert monitor.drift("mon").verdict == "too few samples"


def test_errors_of_a_confident_network_are_counted():
    """Exactly, as Fisher would where both days say the same: against the p-values of scipy's binomial test."""
    monitor = Monitor()
    for day, (n, wrong) in {"then": (6000, 30), "now": (4000, 45), "thrice": (4000, 60), "few": (4000, 9)}.items():
        constant(monitor, day, 0.9995, n, n - wrong)
    for day, wrong, n in (("now", 45, 75), ("thrice", 60, 90)):
        found, tail = monitor.drift(day, "then"), stats.binom.sf(wrong - 1, n, 0.4)
        assert found.p == pytest.approx(2 * tail, rel=1e-9)
        fisher = stats.fisher_exact([[wrong, 4000 - wrong], [30, 5970]]).pvalue
        assert fisher / 2 < found.p < 4 * fisher
    assert monitor.drift("now").p == pytest.approx(2 * stats.binom.sf(44, 4000, 0.0005), rel=1e-9)
    few = monitor.drift("few", "then")
    assert (few.verdict, few.p) == ("no drift seen", pytest.approx(2 * stats.binom.cdf(9, 39, 0.4), rel=1e-9))
    assert monitor.drift("few").verdict == "too few samples"


def test_confidences_that_differ_are_no_drift_of_a_confident_network():
    """As many errors as either day says, in one bin; and right predictions are counted where they are rarer."""
    monitor = Monitor()
    constant(monitor, "easy", 0.99999, 9000, 9000)
    constant(monitor, "hard", 0.999, 9000, 8989)
    found = monitor.drift("hard", "easy")
    assert found.verdict == "no drift seen" and found.p > 0.5
    constant(monitor, "guess", 0.05, 60, 3)
    constant(monitor, "right", 0.05, 60, 30)
    found = monitor.drift("right", "guess")
    assert found.p == pytest.approx(2 * stats.binom.sf(29, 33, 0.5), rel=1e-9) and found.verdict == "drifted"


@pytest.mark.parametrize("trials", [1, 30, 10_000, 3_000_000])
def test_binomial_tail(trials):
    for share in (0.0, 1e-6, 0.1, 0.5, 0.97, 1.0):
        mean, spread = trials * share, math.sqrt(trials * share * (1 - share))
        for found in {round(min(max(mean + far * spread, 0), trials)) for far in (-9, -3, -0.2, 0.2, 3, 9)}:
            tail = stats.binom.sf(found - 1, trials, share) if found >= mean else stats.binom.cdf(found, trials, share)
            assert binomial_tail(found, trials, mean) == pytest.approx(tail, rel=1e-7)


def test_networks_that_never_err_do_not_drift():
    """No errors at all, and confidences that differ by chance: the variance is theirs."""
    rng = np.random.default_rng(0)
    monitor = Monitor()
    for period in ("then", "now"):
        c = rng.uniform(0.94, 0.99, 2000)
        monitor.update(np.stack([c, 1 - c], 1), np.zeros(2000, int), period)
    assert monitor.drift("now", "then").verdict == "no drift seen"
    for period in ("x", "y"):
        monitor.update(np.tile([1.0, 0.0], (2000, 1)), np.zeros(2000, int), period)
    assert monitor.drift("x", "y").verdict == "too few samples"


def test_chi_square_tail():
    for dof, statistic in product((1, 2, 9, 40), (0.0, 0.5, 3.0, 20.0, 90.0, 400.0)):
        assert chi_square_tail(statistic, dof) == pytest.approx(stats.chi2.sf(statistic, dof), rel=1e-9)


@pytest.fixture
def week():
    """Six days; on the fifth the network errs more, on the sixth there are few samples."""
    monitor = Monitor()
    for day, (n, right) in enumerate([(1000, 900), (1000, 905), (1000, 893), (1000, 888), (1000, 850), (20, 18)]):
        constant(monitor, f"2026-11-{17 + day}", 0.9, n, right)
    return monitor


def test_several_periods_are_judged_together(week):
    reference = ["2026-11-17", "2026-11-18"]
    found = week.drift_by_period(reference=reference)
    assert list(found) == week.periods[2:]
    assert [drift.verdict for drift in found.values()] == 2 * ["no drift seen"] + ["drifted", "too few samples"]
    alone = sorted(week.drift(day, reference).p for day in found)
    want, worst = [], 0.0
    for rank, p in enumerate(alone):
        worst = max(worst, min(1.0, (len(alone) - rank) * p))
        want.append(worst)
    assert sorted(drift.p for drift in found.values()) == want
    assert list(week.drift_by_period(["2026-11-21", "2026-11-20"])) == ["2026-11-21", "2026-11-20"]
    alpha = (alone[0] + want[0]) / 2
    assert week.drift("2026-11-21", reference, alpha).verdict == "drifted"
    assert found["2026-11-21"].at(alpha).verdict == "no drift seen"
    assert found["2026-11-21"].at(found["2026-11-21"].p).verdict == "drifted"


def test_periods_are_taken_together(week):
    one = Monitor()
    constant(one, "then", 0.9, 2000, 1805)
    constant(one, "now", 0.9, 2000, 1738)
    found, want = week.drift(["2026-11-20", "2026-11-21", "2026-11-20"], week.periods[:2]), one.drift("now", "then")
    assert (found.p, found.z, found.change.value) == pytest.approx((want.p, want.z, want.change.value), rel=1e-9)


@pytest.mark.parametrize(
    ("current", "reference", "message"),
    [
        ("2026-11-30", None, "`current` to be periods of 2026-11-17, .*, but got '2026-11-30'"),
        ([], None, "`current` to be periods of .*, but got none"),
        ("2026-11-17", [], "`reference` to be periods of .*, but got none"),
        ("2026-11-17", "2026-11-17", "`current` to be periods of 2026-11-18, .*, but got '2026-11-17'"),
        ([3], None, "`period` to be a text or a date, but got 3"),
        (np.array(3), None, r"`period` to be a text or a date, but got array\(3\)"),
    ],
)
def test_bad_periods(week, current, reference, message):
    for test in (week.drift, week.drift_by_period):
        refused(message, test, current, reference)


def test_bad_alphas_and_nothing_to_test(week):
    for test in (week.drift, week.drift_by_period):
        refused("`alpha` to be", test, "2026-11-17", alpha=1.0)
        refused("`alpha` to be the chance of a false alarm, .*, but got 0.99", test, "2026-11-17", alpha=0.99)
    refused(".*`current` to be periods of none, as there is no other, but got 'a'", Monitor().drift, "a")
    refused(".*`current` to be periods of none, as there is no other, but got none", Monitor().drift_by_period)
