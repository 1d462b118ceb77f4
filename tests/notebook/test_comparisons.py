"""Networks and methods side by side, against a plain count by hand and against the bootstrap itself."""

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from scipy.stats import spearmanr

from book.kit import notebook, results
from calibkit import Logits, Network, calibrator
from calibkit.metrics import bootstrap_difference, ece

NAME = "cifar10/resnet20-cross_entropy-s0"


def sharp(factor: float, n: int = 300, seed: int = 0) -> Logits:
    """Logits that are ``factor`` times too large; the same samples for every factor."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(2 * n, 4)) * 2
    p = torch.from_numpy(z).softmax(1).numpy()
    y = np.array([rng.choice(4, p=row) for row in p])
    return Logits(factor * z[:n], y[:n], factor * z[n:], y[n:], {"dataset": "drawn"})


# ---------------------------------------------------------------------------------------------------------- networks
def test_logits_by_name_by_path_and_neither(tmp_path):
    stored = notebook.logits_of(NAME)
    path = sharp(2.0).save(tmp_path / "mine.npz")
    assert stored.meta["dataset"] == "cifar10"
    np.testing.assert_array_equal(notebook.logits_of(str(path)).val_logits, sharp(2.0).val_logits)
    for option, message in (
        ({"n_classes": 10}, "of 10 classes, but got 4"),
        ({"at_least": 601}, "of 601 samples or more, but got 600"),
    ):
        with pytest.raises(ValueError, match=message):
            notebook.logits_of(str(path), **option)
    refused(".*trained at a higher budget", notebook.logits_of, "cifar10/resnet20-cross_entropy-s77")
    for name in ("cifar10/resnet20-cross_entropy-s77", "nothing", str(path), str(tmp_path / "none.npz")):
        refused("`rival` to be ", notebook.logits_of, name, named="rival", n_classes=10)
    labels = np.array([0, 255])
    np.savez(path, val_logits=np.eye(2), val_labels=labels, test_logits=np.eye(2), test_labels=labels)
    refused(r"`val_labels` to be .*255; .*\(`rival` is '.*mine.npz'\)$", notebook.logits_of, str(path), named="rival")


def test_networks_that_a_chapter_needs_are_stored():
    with pytest.raises(ValueError, match="stored for cifar100/resnet20 with seed 7, but got none for mbls"):
        notebook.by_loss("cifar100/resnet20", ["cross_entropy", "mbls"], seed=7, needed=["mbls"])
    for cell in ("cifar100/resnet20", "cifar100"):
        refused("`comparison` to be ", notebook.by_loss, cell, ["mbls"], seed=7, needed=["mbls"], named="comparison")


def test_what_is_not_stored_is_trained_at_the_budget_and_shown(monkeypatch):
    asked = []

    def train(network, budget, **how):
        asked.append((str(network), budget, how))
        return sharp(3.0)

    monkeypatch.setattr(Network, "train", train)
    monkeypatch.setattr(Network, "find", lambda network, budget="smoke", paper=None: None)
    how = {"budget": "paper", "device": "cpu", "paper": "acls"}
    found = notebook.by_loss("cifar10/resnet20", ["acls", "mbls margin=8"], seed=3, **how)
    assert list(found) == ["acls", "mbls margin=8"]
    assert asked == [
        ("cifar10/resnet20-acls-s3", "paper", {"device": "cpu", "paper": "acls"}),
        ("cifar10/resnet20-mbls,margin=8-s3", "paper", {"device": "cpu", "paper": "acls"}),
    ]
    notebook.logits_of(NAME, **how)
    notebook.logits_of(NAME, budget="reduced", device="cpu", paper="acls")  # has one recipe for all papers
    assert [(budget, options["paper"]) for _, budget, options in asked[2:]] == [("paper", "acls"), ("reduced", None)]
    assert found["acls"].meta == notebook.logits_of(NAME, budget="reduced").meta == {"dataset": "drawn"}
    assert notebook.by_loss("cifar10/resnet20", ["acls"]) == {}


# ------------------------------------------------------------------------------------------------------- comparisons
def test_every_method_on_every_network_as_by_hand():
    networks = {"soft": sharp(1.0), "sharp": sharp(3.0)}
    methods = {"": "identity", " + TS": "temperature_scaling"}
    both, fits = notebook.side_by_side(networks, methods, ["ece"], n_bins=10, n_resamples=50, seed=4)
    assert list(both) == list(fits) == ["soft", "soft + TS", "sharp", "sharp + TS"]
    assert fits["sharp + TS"].temperature == pytest.approx(3 * fits["soft + TS"].temperature, rel=1e-6)
    probs = {}
    for name, data in networks.items():
        probs[name] = torch.from_numpy(data.test_logits).softmax(1)
        probs[f"{name} + TS"] = calibrator("temperature_scaling").fit(*data.val)(torch.from_numpy(data.test_logits))
    labels = networks["soft"].test_labels
    for name in both:
        assert both.of(name).value == pytest.approx(ece(probs[name], labels, n_bins=10), abs=1e-12)
    low, high = bootstrap_difference(probs["sharp"], probs["soft"], labels, ["ece"], n_bins=10, n_resamples=50, seed=4)[
        "ece"
    ]
    value = ece(probs["soft"], labels, n_bins=10) - ece(probs["sharp"], labels, n_bins=10)
    assert both.difference("soft", "sharp").percent == pytest.approx((100 * value, 100 * low, 100 * high))


def test_groups_of_the_test_set_are_resampled_together():
    data = sharp(2.0)
    grouped = Logits(*data.val, *list(data.test), {}, np.arange(300) // 100)
    both, _ = notebook.side_by_side({"a": grouped}, {"": "identity"}, ["accuracy"], n_resamples=200)
    hits = (data.test_logits.argmax(1) == data.test_labels).reshape(3, 100).mean(1)
    possible = {round(float(np.mean(draw)), 9) for draw in np.stack(np.meshgrid(hits, hits, hits)).reshape(3, -1).T}
    assert {round(float(x), 9) for x in both.measured["a"]["accuracy"].draws} <= possible


def test_networks_of_two_test_sets_are_not_compared():
    data = sharp(1.0)
    grouped = Logits(*data.val, *list(data.test), {}, np.arange(300) // 100)
    for other in (sharp(1.0, seed=1), grouped):
        with pytest.raises(ValueError, match="Expected `networks` to be of one test set, but got another one for 'b'"):
            notebook.side_by_side({"a": data, "b": other}, {"": "identity"}, n_resamples=10)
    refused("`networks` to be at least one, but got none", notebook.side_by_side, {}, {"": "identity"})


@pytest.mark.parametrize("ties", [False, True])
def test_rank_correlation_is_spearmans(ties):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 60) if ties else rng.normal(size=60)
    y = x + 2 * rng.normal(size=60)
    found = notebook.rank_correlation(x, y)
    assert found.value == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
    half = 1.96 * (1 - found.value**2) / np.sqrt(59)  # of a correlation, roughly
    assert found.low == pytest.approx(found.value - half, abs=0.12)
    assert found.high == pytest.approx(found.value + half, abs=0.12)


@pytest.mark.slow
def test_resamples_without_a_rank_correlation_are_left_out():
    found = notebook.rank_correlation(np.arange(3), np.arange(3))  # one in nine draws one class three times
    assert found == (1.0, 1.0, 1.0)
    assert np.isnan(notebook.rank_correlation(np.ones(4), np.arange(4))).all()


def test_a_class_without_a_value_has_no_rank():
    x, y = np.array([3.0, 1.0, np.nan, 2.0, 5.0]), np.array([1.0, 4.0, 0.0, 2.0, 7.0])
    whole = ~np.isnan(x)
    assert notebook.rank_correlation(x, y) == notebook.rank_correlation(x[whole], y[whole])


# -------------------------------------------------------------------------------------------- rows of the result files
ROWS = pd.DataFrame(
    [
        ("a", "identity", "ece", 0.05, 0.04, 0.06, "fraction"),
        ("a", "identity", "accuracy", 0.9, 0.8, 0.95, "fraction"),
        ("a", "identity", "nll", 1.5, 1.4, 1.6, "nats"),
        ("a", "ets", "ece", 5.0, np.nan, np.nan, "percent"),
        ("a", "ets", "ece", 5.0, np.nan, np.nan, "percent"),
        ("b", "ets", "ece", 5.1, np.nan, np.nan, "percent"),
    ],
    columns=["dataset", "method", "metric", "value", "low", "high", "unit"],
)


def test_a_number_in_percent_or_nats():
    assert notebook.number(ROWS, method="identity", metric="ece") == pytest.approx((5.0, 4.0, 6.0))
    assert notebook.number(ROWS, metric="nll") == (1.5, 1.4, 1.6)
    assert notebook.number(ROWS, dataset="a", method="ets").value == 5.0  # printed in two tables
    assert np.isnan(notebook.number(ROWS, dataset="c")).all()
    refused("`where` to be the name of one number, but got 2 numbers of", notebook.number, ROWS, method="ets")


def test_method_keys_are_those_of_the_rows():
    assert notebook.method_key("temperature_scaling", "nll") == "temperature_scaling"
    assert notebook.method_key("ets", "focal detach=True", solver="sctl") == "ets solver=sctl:focal detach=True"
    recorded = set(results.load("ours")["method"])
    for name in ("temperature_scaling", "ets", "pts", "class_temperature_scaling"):
        for objective in ("nll", "label_smoothing", "focal", "class_loss_scaling", "class_balanced"):
            assert notebook.method_key(name, objective) in recorded
