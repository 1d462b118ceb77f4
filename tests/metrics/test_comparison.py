"""Several methods on one test set, against the bootstrap of one and of two."""

import numpy as np
import pytest
from drawn_logits import true_logits
from refusals import refused

from calibkit.logits import Logits
from calibkit.metrics import Sample, bootstrap, bootstrap_difference, evaluate
from calibkit.metrics.comparison import Comparison, Estimate

METRICS = ["accuracy", "ece", "nll"]


@pytest.fixture
def sample():
    z, y = true_logits(400, 3, 1.0)
    probs = {name: np.exp(t * z) / np.exp(t * z).sum(1, keepdims=True) for name, t in (("one", 1.0), ("three", 3.0))}
    return probs, y


@pytest.mark.parametrize("groups", [None, np.arange(400) // 5])
def test_estimates_are_those_of_the_bootstrap(sample, groups):
    probs, y = sample
    settings = {"n_bins": 10, "n_resamples": 200, "seed": 3, "groups": groups}
    comparison = Comparison(y, METRICS, **settings)
    for name, p in probs.items():
        comparison.add(name, p)
    assert list(comparison) == ["one", "three"] and "one" in comparison and "two" not in comparison
    values = {name: evaluate(p, y, METRICS, n_bins=10) for name, p in probs.items()}
    intervals = {name: bootstrap(p, y, METRICS, **settings) for name, p in probs.items()}
    paired = bootstrap_difference(probs["one"], probs["three"], y, METRICS, **settings)
    for metric in METRICS:
        for name in probs:
            assert comparison.of(name, metric) == (values[name][metric], *intervals[name][metric])
        between = comparison.difference("three", "one", metric)
        assert between == (values["three"][metric] - values["one"][metric], *paired[metric])
        assert comparison.difference("one", "one", metric) == (0, 0, 0)


@pytest.mark.parametrize(
    ("low", "high", "below", "above", "within"),
    [
        (-2.0, -1.5, "holds", "does not hold", "does not hold"),
        (-2.0, -0.5, "holds", "does not hold", "not decided"),
        (-0.5, 0.5, "not decided", "not decided", "holds"),
        (0.5, 2.0, "does not hold", "holds", "not decided"),
        (-3.0, 3.0, "not decided", "not decided", "not decided"),
        (0.0, 0.0, "not decided", "not decided", "holds"),
    ],
)
def test_what_an_interval_decides(low, high, below, above, within):
    estimate = Estimate((low + high) / 2, low, high)
    assert (estimate.below(), estimate.above(), estimate.within(1.0)) == (below, above, within)


def test_text_and_percent():
    assert f"{Estimate(0.5, 0.25, 1.0).percent:+.1f}" == "+50.0 [+25.0, +100.0]"


def test_bad_input_leaves_what_is_there(sample):
    probs, y = sample
    comparison = Comparison(y, ["ece"])
    refused("`name` to be one of none, as nothing was added, but got 'one'", comparison.of, "one")
    comparison.add("one", probs["one"])
    before = comparison.of("one")
    refused("`probs`", comparison.add, "one", 2 * probs["one"])
    assert comparison.of("one") == before
    refused("`base` to be one of one, but got 'two'", comparison.difference, "one", "two")
    refused("`metric` to be one of ece, but got 'nll'", comparison.of, "one", "nll")
    refused(r"`name` to be one of one, but got \[1, 2\]", comparison.chance, [1, 2], "one")
    refused("`name` to be text, but got 3", comparison.add, 3, probs["one"])
    refused(".*classes", comparison.add, "two", np.c_[probs["one"], np.zeros(len(y))])  # one that nobody uses
    assert list(comparison) == ["one"]


@pytest.mark.parametrize("methods", [3, None, "text", [len], np.ones(2), {"a": 3}, {3: len}])
def test_what_are_no_methods(methods):
    z, y = np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1])
    with pytest.raises(ValueError, match="^Expected `methods` to be a mapping of names to fitted calibrators or func"):
        Comparison.on(Logits(z, y, z, y).test, methods)
    refused("`held_out` to be one split of a Logits, .*, but got a Logits", Comparison.on, Logits(z, y, z, y), {})


def test_labels_are_copied_and_those_of_every_method(sample):
    probs, y = sample
    labels, checked = y.copy(), Sample.of(probs["one"], y)
    comparison = Comparison(labels, ["accuracy"], n_resamples=3)
    labels[:] = 0
    comparison.add("one", probs["one"])
    comparison.add("checked", checked)
    right = (probs["one"].argmax(1) == y).mean()
    assert comparison.of("one").value == comparison.of("checked").value == pytest.approx(right, abs=1e-12)
    assert str(comparison) == "Comparison of one, checked on 400 samples, by accuracy"
    for bad, got in (
        (Sample.of(probs["one"], (y + 1) % 3), "a Sample of the labels of this comparison, but got one of others"),
        (Sample.of(probs["one"][:5], y[:5]), r"of 400 rows, as `labels`, but got shape \(5, 3\)"),
        (probs["one"][:5], r"of 400 rows, as `labels`, but got shape \(5, 3\)"),
    ):
        refused(f"`probs` to be {got}$", comparison.add, "bad", bad)


def test_bad_options_are_refused_at_once():
    for name, options in (
        ("labels", {"labels": ["a", "b"]}),
        ("labels", {"labels": 3}),
        ("groups", {"groups": "x"}),
        ("n_resamples", {"n_resamples": 0}),
        ("seed", {"seed": -1}),
        ("metrics", {"metrics": {"ece": lambda probs, labels: 42.0}}),
    ):
        refused(f"`{name}` to be ", Comparison, **{"labels": [0, 1], **options})


def test_a_metric_need_not_be_named(sample):
    """The ECE, or of those without it the first."""
    probs, y = sample
    for metrics, usual in ((["accuracy", "ece"], "ece"), (["nll", "accuracy"], "nll")):
        comparison = Comparison(y, metrics, n_resamples=3)
        comparison.add("one", probs["one"])
        assert comparison.of("one") == comparison.of("one", usual)
