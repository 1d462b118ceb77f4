import numpy as np
import pytest
import torch
from refusals import refused

from calibkit.metrics import METRICS, Metric, Sample, bootstrap, bootstrap_difference, bootstrap_values, evaluate
from calibkit.metrics.intervals import Resampled, percentiles
from calibkit.metrics.registry import null_draws
from calibkit.metrics.resampling import draws, resampled


@pytest.mark.parametrize("name", METRICS)
def test_statistic_is_the_metric_on_the_drawn_rows(name, cases):
    """Every weighted statistic against the metric itself on resamples made by copying rows."""
    for i, (case, (probs, labels)) in enumerate(cases.items()):
        counts = np.stack(list(draws(len(labels), 4, np.random.default_rng(3))))
        rows = [np.repeat(np.arange(len(labels)), times) for times in counts]
        n_bins = (15, 400, 1)[i % 3]
        values = METRICS[name].statistic(Sample.of(probs, labels), n_bins)(torch.from_numpy(counts.astype(float)))
        want = [evaluate(probs[r], labels[r], [name], n_bins=n_bins)[name] for r in rows]
        # The square root of debiased_ece turns a rounding error of 1e-17 into 3e-9.
        assert values.tolist() == pytest.approx(want, abs=1e-7 if name == "debiased_ece" else 1e-12), case


def test_resamples_without_a_row_of_a_class():
    """No p_k of class 2 reaches the threshold of TACE in some of the draws, nor does one in others: it adds 0 there."""
    probs = np.array([[0.9, 0.095, 0.005], [0.6, 0.395, 0.005], [0.5, 0.2, 0.3]])
    labels = np.array([0, 1, 2])
    values = bootstrap_values(probs, labels, ["tace"], n_resamples=40)["tace"]
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 3, 3) for _ in range(40)]
    assert sum(2 not in r for r in rows) > 5
    assert values.tolist() == pytest.approx([METRICS["tace"](probs[r], labels[r]) for r in rows], abs=1e-12)


def test_a_metric_without_a_statistic_is_taken_on_the_drawn_rows(mixed, monkeypatch):
    """Its intervals are those of a function of one's own, as nothing is known of it; those of the others stay."""
    names = [name for name, metric in METRICS.items() if metric.of_weights]
    assert len(names) >= 13
    monkeypatch.setitem(METRICS, "wrong", Metric(lambda probs, labels: 1 - METRICS["accuracy"](probs, labels)))
    own = {"wrong": lambda probs, labels: float((probs.argmax(1) != labels).mean())}
    for options in ({}, {"groups": np.arange(300) // 3}):
        found = bootstrap(*mixed, n_resamples=20, **options)
        assert found.pop("wrong") == pytest.approx(bootstrap(*mixed, own, n_resamples=20, **options)["wrong"])
        known = bootstrap(*mixed, names, n_resamples=20, **options)
        assert {name: found[name] for name in known} == known


def test_same_seed_same_interval_and_all_metrics_share_the_draws(mixed):
    first = bootstrap(*mixed, n_resamples=20)
    assert first == bootstrap(*mixed, n_resamples=20) != bootstrap(*mixed, n_resamples=20, seed=1)
    assert list(first) == list(METRICS)
    assert bootstrap(*mixed, ["ece", "nll"], n_resamples=20) == {name: first[name] for name in ("ece", "nll")}


def test_blocks_do_not_change_the_draws(mixed, monkeypatch):
    whole = bootstrap(*mixed, n_resamples=23)
    monkeypatch.setattr("calibkit.metrics.resampling.BLOCK_BYTES", 8 * 300 * 5)
    monkeypatch.setattr("calibkit.metrics.binning.WEIGHTS", 299)
    for name, interval in bootstrap(*mixed, n_resamples=23).items():
        assert interval == pytest.approx(whole[name], abs=1e-12)


def test_own_function_is_called_on_each_resample(mixed):
    intervals = bootstrap(*mixed, {"own": lambda *given: METRICS["ece"](*given)}, n_resamples=50)
    values, value = bootstrap_values(*mixed, ["ece"], n_resamples=50)["ece"], METRICS["ece"](*mixed)
    low, high = percentiles(values, 0.95)
    assert intervals["own"] == pytest.approx((2 * value - high, 2 * value - low), abs=1e-12)


@pytest.mark.parametrize("given", [np.asarray, np.ndarray.tolist, torch.from_numpy])
def test_own_function_gets_the_container_of_the_caller(given, mixed):
    """Numpy of a list too; accuracy as anyone writes it, and its interval as the name gives it."""
    seen = set()

    def acc(probs, labels):
        seen.update([type(probs), type(labels)])
        right = probs.argmax(1) == labels
        return right.mean() if isinstance(probs, np.ndarray) else METRICS["accuracy"](probs, labels)

    probs, labels = map(given, mixed)
    found = bootstrap(probs, labels, {"acc": acc}, n_resamples=50)["acc"]
    assert seen == {torch.Tensor if given is torch.from_numpy else np.ndarray}
    assert found == pytest.approx(bootstrap(*mixed, ["accuracy"], n_resamples=50)["accuracy"])
    draws = bootstrap_values(probs, labels, {"acc": acc}, n_resamples=50)["acc"]
    assert draws == pytest.approx(bootstrap_values(*mixed, ["accuracy"], n_resamples=50)["accuracy"])
    assert bootstrap_difference(probs, probs, labels, {"acc": acc}, n_resamples=5) == {"acc": (0.0, 0.0)}
    assert len(seen) == 1


def test_coverage_of_the_nll():
    """Of 200 samples, about 90% of the 90% intervals hold the true mean: 0.90 +- 4 * 0.021."""
    rng = np.random.default_rng(0)
    probs = np.array([[0.7, 0.3], [0.4, 0.6]])[rng.integers(0, 2, (200, 150))]
    labels = (rng.random((200, 150)) < probs[..., 1]).astype(int)
    true = -0.5 * (0.7 * np.log(0.7) + 0.3 * np.log(0.3) + 0.4 * np.log(0.4) + 0.6 * np.log(0.6))
    found = [bootstrap(p, y, ["nll"], n_resamples=200, level=0.9)["nll"] for p, y in zip(probs, labels, strict=True)]
    assert abs(np.mean([low <= true <= high for low, high in found]) - 0.9) < 4 * 0.021


def shifted(rng, n, shift, scale=1.0):
    """Confidence uniform on [0.5, 1], accuracy ``shift`` below it: with 15 bins the true ECE is ``shift``."""
    top = rng.uniform(0.5, 1.0, n)
    return np.stack([top, 1 - top], 1), (rng.random(n) > top - shift).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("true", [0.0, 0.005, 0.02])
def test_coverage_of_the_ece(true):
    """Of 200 test sets of 1,000: 95% are promised; 0.90 less three standard errors of a simulation is asked for."""
    rng, held, percentile = np.random.default_rng(0), 0, 0
    for _ in range(200):
        probs, labels = shifted(rng, 1000, true)
        found = resampled(Sample.of(probs, labels), ["ece"], None, 200, 0, 15)["ece"]
        low, high = found.interval()
        held += low <= true <= high
        low, high = percentiles(found.draws, 0.95)
        percentile += low <= true <= high
    assert held > (0.9 - 3 * 0.021) * 200
    assert percentile < 0.4 * 200


def test_the_ends_of_an_error_by_hand():
    """v = 0.03 of draws 0.01 to 0.08: reflected [-0.02, 0.05]; at least v + 0.035 above, at least 0 below."""
    draws, far, near = np.linspace(0.01, 0.08, 8), np.full(8, 0.02), np.full(8, 0.03)
    assert Resampled(0.03, draws, False, None).interval() == pytest.approx((-0.02, 0.05))
    for null in (near, far, np.empty(0)):
        assert Resampled(0.03, draws, False, null, (0.0, 1.0)).interval() == pytest.approx((0.0, 0.065))
    assert Resampled(0.05, draws, False, far).interval() == pytest.approx((0.02, 0.09))
    assert Resampled(0.05, draws, False, np.full(8, 0.05)).interval() == pytest.approx((0.0, 0.09))


@pytest.mark.parametrize("right", [0, 1, 29, 30, None])
def test_an_interval_holds_its_value_within_the_range_of_its_metric(right, mixed):
    sure = np.tile([0.98, 0.02], (30, 1)), (np.arange(30) >= (right or 0)).astype(int)
    given = mixed if right is None else sure
    values = evaluate(*given)
    for name, (low, high) in bootstrap(*given, n_resamples=100).items():
        most = np.log(given[0].shape[1]) if METRICS[name].most is None else METRICS[name].most
        assert 0.0 <= low <= values[name] <= high <= most and not np.signbit(low), name


def test_no_interval_of_the_entropy_is_above_that_of_the_uniform_distribution():
    """Its draws are skewed to 0, so that their reflection is skewed beyond ln 2; all rows uniform: a single point."""
    low, high = bootstrap([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]], [0, 1, 0], ["entropy"])["entropy"]
    assert 0 <= low < 2 / 3 * np.log(2) < high == np.log(2)
    for k in (3, 7, 10):
        probs = np.full((20, k), 1 / k)
        low, high = bootstrap(probs, np.zeros(20, int), ["entropy"], n_resamples=20)["entropy"]
        assert low <= METRICS["entropy"](probs, np.zeros(20, int)) <= high == pytest.approx(low) == np.log(k)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.of_gaps])
def test_null_draws_against_a_loop(name):
    """Two classes, so that an outcome is a label; equal confidences and an odd number of rows among them."""
    rng = np.random.default_rng(3)
    top = np.concatenate([rng.uniform(0.5, 1.0, 60), np.full(41, 0.8125)])
    probs = np.stack([top, 1 - top], 1)
    got = null_draws(Sample.of(probs, np.zeros(101, int)), (name,), 7, np.random.default_rng(5), 10)[name]
    rng = np.random.default_rng(5)
    labels = [(rng.random(101) >= top).astype(int) for _ in range(7)]
    assert got == pytest.approx([evaluate(probs, y, [name], n_bins=10)[name] for y in labels], abs=1e-12)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.of_labels])
def test_null_draws_of_every_class_against_a_loop(name):
    rng = np.random.default_rng(3)
    probs = np.concatenate([rng.dirichlet([0.3] * 4, 60), np.tile([0.5, 0.0, 0.25, 0.25], (41, 1))])
    got = null_draws(Sample.of(probs, np.zeros(101, int)), (name,), 7, np.random.default_rng(5), 10)[name]
    uniform = np.random.default_rng(5).random((101, 7))
    for drawn, value in zip(uniform.T, got, strict=True):
        labels = [
            next(k for k in range(4) if u < row[: k + 1].sum() / row.sum()) for row, u in zip(probs, drawn, strict=True)
        ]
        assert value == pytest.approx(evaluate(probs, np.array(labels), [name], n_bins=10)[name], abs=1e-12)


def test_null_draws_come_in_blocks(mixed, monkeypatch):
    sample = Sample.of(*mixed)
    whole = null_draws(sample, ("ece",), 11, np.random.default_rng(0), 15)["ece"]
    monkeypatch.setattr("calibkit.metrics.registry.BLOCK_BYTES", 8 * 300 * 4)
    assert whole == pytest.approx(null_draws(sample, ("ece",), 11, np.random.default_rng(0), 15)["ece"])


@pytest.mark.slow
def test_of_a_calibrated_network_the_interval_of_every_error_begins_at_0():
    """In 97.5% of test sets, so in 48.75 of 50, with a standard deviation of 1.1."""
    rng, zero = np.random.default_rng(0), {"classwise_ece": 0, "ace": 0, "smooth_ece": 0}
    for _ in range(50):
        z = 2 * rng.normal(size=(300, 4))
        labels, probs = (z + rng.gumbel(size=z.shape)).argmax(1), np.exp(z) / np.exp(z).sum(1, keepdims=True)
        for name, (low, _) in bootstrap(probs, labels, [*zero], n_resamples=80).items():
            zero[name] += low == 0
    assert min(zero.values()) >= 45


def test_higher_level_is_wider(mixed):
    narrow, wide = (bootstrap(*mixed, n_resamples=100, level=level) for level in (0.5, 0.99))
    assert all(wide[name][0] <= narrow[name][0] <= narrow[name][1] <= wide[name][1] for name in METRICS)


def test_infinite_nll_of_some_resamples():
    probs, labels = np.array([[1.0, 0.0]] * 3 + [[0.5, 0.5]] * 3), np.array([1, 0, 0, 0, 1, 0])
    low, high = bootstrap(probs, labels, ["nll"], n_resamples=200)["nll"]
    assert 0 < low < np.inf and high == np.inf


def test_bad_options_raise(mixed):
    for options, message in (
        ({"metrics": {"ece": 15}}, "`metrics` to be names, or a mapping of names to functions, but got {'ece': 15}"),
        ({"metrics": ["f1"]}, "`metrics` to be one of accuracy, .*, but got 'f1'"),
        ({"metrics": {"mine": lambda p, y: p}}, "`metrics` to be functions that give one number, but got one that"),
        ({"metrics": np.array("ece")}, "`metrics` to be a sequence of names of METRICS, but got array"),
        ({"n_resamples": 0}, "`n_resamples` to be an integer >= 1, but got 0"),
        ({"n_resamples": 10**30}, "`n_resamples` to be at most 1,048,576, but got 10"),
        ({"level": 1.0}, "`level` to be between 0 and 1, but got 1.0"),
        ({"level": 95}, r"`level` to be a number in \[0.0, 1.0\], but got 95"),
        ({"seed": -1}, "`seed` to be an integer >= 0, but got -1"),
        ({"groups": np.zeros(299, int)}, r"`groups` to be one for each of the 300 rows, but got shape \(299,\)"),
        ({"groups": np.zeros(300, int)}, "`groups` to be of two or more values, to be drawn from, but got one value"),
    ):
        refused(message, bootstrap, *mixed, **options)


@pytest.mark.parametrize("name", METRICS)
def test_groups_against_a_loop_over_copied_rows(name, mixed):
    """Groups of unequal size, so resamples of unequal size."""
    groups = np.random.default_rng(5).integers(0, 40, 300)
    rng, members = np.random.default_rng(2), [np.flatnonzero(groups == g) for g in np.unique(groups)]
    values = []
    for _ in range(12):
        rows = np.concatenate([members[g] for g in rng.integers(0, len(members), len(members))])
        values.append(METRICS[name](mixed[0][rows], mixed[1][rows]))
    got = bootstrap_values(*mixed, [name], groups=groups, n_resamples=12, seed=2)[name]
    assert got.tolist() == pytest.approx(values, abs=1e-7 if name == "debiased_ece" else 1e-12)
    own = bootstrap_values(*mixed, {name: METRICS[name]}, groups=groups, n_resamples=12, seed=2)[name]
    assert own.tolist() == pytest.approx(values, abs=1e-7 if name == "debiased_ece" else 1e-12)


def test_entries_of_the_registry_by_name_are_the_names(mixed):
    """As ``evaluate`` takes them: their rules at 0, their ranges and ``n_bins`` are theirs."""
    probs, labels = mixed
    some = {name: METRICS[name] for name in ("ece", "mce")}
    options = {"n_bins": 5, "n_resamples": 40}
    assert bootstrap(probs, labels, some, **options) == bootstrap(probs, labels, list(some), **options)
    after = probs[:, ::-1].copy()
    found = bootstrap_difference(probs, after, labels, metrics=some, **options)
    assert found == bootstrap_difference(probs, after, labels, metrics=list(some), **options)


def test_calibrated_groups_hold_an_error_of_0():
    """In 95% of 100 sets, to three standard errors: 50 groups of 10 rows alike, whose labels are half of the time one.
    Without what chance alone makes of the groups 37, 59 and 87 sets would."""
    rng, held = np.random.default_rng(0), {"ece": 0, "adaptive_ece": 0, "ks_error": 0}
    groups = np.repeat(np.arange(50), 10)
    for seed in range(100):
        top = np.repeat(rng.uniform(0.4, 1.0, 50), 10)
        uniform = np.where(rng.random(500) < 0.5, np.repeat(rng.random(50), 10), rng.random(500))
        probs = np.stack([top, 1 - top], 1)
        found = bootstrap(probs, (uniform > top).astype(int), [*held], groups=groups, n_resamples=100, seed=seed)
        held = {name: n + (found[name][0] == 0) for name, n in held.items()}
    assert min(held.values()) >= 88
