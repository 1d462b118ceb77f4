import math

import numpy as np
import oracles
import pytest
import torch

from calibkit.metrics import adaptive_ece, debiased_ece, ece, evaluate, ks_error, mce, reliability_bins
from calibkit.networks import load_logits

# Values of the authors' code (focal_calibration 475422a) on the inputs of metrics_oracle.npz, float64.
ORACLE = oracles.numbers("metrics")


def top_label(probs, labels):
    """Confidence and correctness of each row as Python floats."""
    return [(float(p.max()), float(p.argmax() == y)) for p, y in zip(probs, labels, strict=True)]


def naive_bins(pairs, n_bins):
    """(n, accuracy, confidence) of the non-empty bins, right-closed, one sample at a time."""
    bins = [[] for _ in range(n_bins)]
    for confidence, correct in pairs:
        bins[next(b for b in range(n_bins) if confidence <= (b + 1) / n_bins or b == n_bins - 1)].append(
            (confidence, correct)
        )
    return [(len(b), sum(y for _, y in b) / len(b), sum(c for c, _ in b) / len(b)) for b in bins if b]


def naive_mass_bins(pairs, n_bins):
    """Even parts of the sorted samples; every sample goes to the first part that holds its confidence."""
    parts = np.array_split(sorted(c for c, _ in pairs), n_bins)
    bins = [[] for _ in parts]
    for pair in pairs:
        bins[next(b for b, part in enumerate(parts) if pair[0] in part)].append(pair)
    return [(len(b), sum(y for _, y in b) / len(b), sum(c for c, _ in b) / len(b)) for b in bins if b]


def test_naive_oracle(cases):
    for given in cases.values():
        for n_bins in (1, 10, 15, 400):
            of_loops(*given, n_bins)


def test_auto_is_the_monotonic_sweep_of_plain_loops(cases):
    for given in cases.values():
        auto_by_loops(*given)
    for seed in range(5):  # with ties, and labels that the accuracies follow for some bins
        rng = np.random.default_rng(seed)
        probs = rng.dirichlet(np.full(4, 0.5), 300).round(2)
        probs /= probs.sum(1, keepdims=True)
        auto_by_loops(probs, (probs.cumsum(1) < rng.random((300, 1))).sum(1).clip(max=3))


def auto_by_loops(probs, labels, most=40):
    for scheme, metric, naive in (("width", ece, naive_bins), ("mass", adaptive_ece, naive_mass_bins)):
        pairs, b = top_label(probs, labels), 1
        while b < min(len(pairs), most):
            shares = [accuracy for _, accuracy, _ in naive(pairs, b + 1)]
            if shares != sorted(shares):
                break
            b += 1
        found = len(reliability_bins(probs, labels, n_bins="auto", scheme=scheme).counts)
        assert found == b or found > b == most
        assert metric(probs, labels, n_bins="auto") == metric(probs, labels, n_bins=found)


def of_loops(probs, labels, n_bins):
    n, bins = len(labels), naive_bins(top_label(probs, labels), n_bins)
    assert ece(probs, labels, n_bins=n_bins) == pytest.approx(sum(m * abs(a - c) for m, a, c in bins) / n, abs=1e-12)
    assert mce(probs, labels, n_bins=n_bins) == pytest.approx(max(abs(a - c) for _, a, c in bins), abs=1e-12)
    squares = sum(m * ((a - c) ** 2 - a * (1 - a) / (m - 1)) for m, a, c in bins if m > 1) / n
    assert debiased_ece(probs, labels, n_bins=n_bins) == pytest.approx(math.sqrt(max(0.0, squares)), abs=1e-8)
    mass = naive_mass_bins(top_label(probs, labels), n_bins)
    want = sum(m * abs(a - c) for m, a, c in mass) / n
    assert adaptive_ece(probs, labels, n_bins=n_bins) == pytest.approx(want, abs=1e-12)
    pairs = top_label(probs, labels)
    sums = [abs(sum(c - y for c, y in pairs if c <= s)) for s, _ in pairs]
    assert ks_error(probs, labels) == pytest.approx(max(sums) / n, abs=1e-12)


@pytest.mark.parametrize("case", ["A", "C", "E"])
def test_values_of_the_authors_code(case):
    inputs, want = oracles.arrays("metrics"), ORACLE[case]
    probs, labels = torch.from_numpy(inputs[f"{case}_logits"]).softmax(1), inputs[f"{case}_labels"]
    for n_bins in (10, 15, 25):
        assert ece(probs, labels, n_bins=n_bins) == pytest.approx(want[f"ece{n_bins}_binfunc"], abs=1e-12)
        assert mce(probs, labels, n_bins=n_bins) == pytest.approx(want[f"mce{n_bins}_binfunc"], abs=1e-12)
        theirs = adaptive_ece(probs, labels, n_bins=n_bins, like="focal_calibration")
        assert theirs == pytest.approx(want[f"aece{n_bins}_AdaptiveECELoss"], abs=1e-7)  # its means are float32
    values = evaluate(probs, labels, ["classwise_ece", "nll", "accuracy"])
    assert values == pytest.approx(
        {"classwise_ece": want["own"]["sce15_fullK"], "nll": want["nll"], "accuracy": want["accuracy"]}, abs=1e-12
    )


@pytest.mark.data("logits/sctl-cifar10-densenet40.npz")
def test_values_on_the_logits_of_a_densenet():
    """CIFAR-10 DenseNet-40 of Kull et al.: 5.50% ECE, 92.42% accuracy, 821 confidences exactly 1 in float64."""
    want = ORACLE["densenet40_c10_test"]
    logits, labels = map(torch.from_numpy, load_logits("sctl-cifar10-densenet40").test)
    values = evaluate(logits.double().softmax(1), labels)
    assert values["accuracy"] == want["accuracy"] == 0.9242
    assert values["ece"] == pytest.approx(want["ece15_binfunc"], abs=1e-12) == pytest.approx(0.0550, abs=5e-5)
    assert values["mce"] == pytest.approx(want["mce15_binfunc"], abs=1e-12)
    assert values["classwise_ece"] == pytest.approx(want["own"]["sce15_fullK"], abs=1e-12)
    assert values["ks_error"] == pytest.approx(want["own"]["ks_top1"], abs=1e-9)  # theirs splits the 821 ties
    assert values["adaptive_ece"] == pytest.approx(want["own"]["aece15_array_split"], abs=1e-9)
    saturated = evaluate(logits.softmax(1), labels)  # float32: 5,598 confidences are exactly 1
    for name in ("accuracy", "ece", "mce", "classwise_ece", "ks_error", "brier"):
        assert saturated[name] == pytest.approx(values[name], abs=1e-6)


def test_by_hand():
    """Confidences 0.95 right, 0.9 wrong | 0.55 right: gaps 0.925 - 0.5 over 2 samples, 0.55 - 1 over one."""
    probs, labels = np.array([[0.95, 0.05], [0.1, 0.9], [0.55, 0.45]]), np.array([0, 0, 0])
    assert ece(probs, labels, n_bins=5) == pytest.approx((0.85 + 0.45) / 3)
    assert mce(probs, labels, n_bins=5) == pytest.approx(0.45)
    assert adaptive_ece(probs, labels, n_bins=2) == pytest.approx((abs(0.55 + 0.9 - 1) + 0.05) / 3)
    assert ks_error(probs, labels) == pytest.approx(0.45 / 3)
    assert debiased_ece(probs, labels, n_bins=5) == 0.0  # (0.425 ** 2 - 0.25) < 0, and the lone sample adds nothing
    assert debiased_ece(probs, labels, n_bins=1) == pytest.approx(math.sqrt(max(0, (2.4 / 3 - 2 / 3) ** 2 - 1 / 9)))
