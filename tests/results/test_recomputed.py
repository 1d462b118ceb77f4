"""Recorded numbers of our networks, once more from their stored logits: values with NumPy alone, and intervals."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from book.kit import results
from book.kit.judging.seeds import mean_of
from book.kit.results import load_effects
from book.kit.results.csv_rows import resample, select
from book.kit.results.record import fit_each, trainings
from calibkit import _folders

CE, TS = "cross_entropy", "temperature_scaling"
LOGITS = _folders.PACKAGE.parent / "book" / "results" / "logits"
LOSSES = (CE, "label_smoothing", "mbls", "mbls,margin=0,weight=0.05", "acls")


def best_temperature(z, y):
    """Of the lowest mean NLL."""
    rows = np.arange(len(y))

    def error(u):
        return -log_softmax(z * np.exp(u), 1)[rows, y].mean()

    exactly = {"xatol": 1e-9}  # a confidence next to the edge of a bin moves the ECE
    return float(np.exp(-minimize_scalar(error, bounds=(-4, 4), method="bounded", options=exactly).x))


def measured(z, y):
    """Accuracy, NLL, Brier score and ECE in 15 bins of equal width."""
    log_p, rows = log_softmax(z, 1), np.arange(len(y))
    p, hit = np.exp(log_p), z.argmax(1) == y
    bins = np.searchsorted(np.arange(16) / 15, p.max(1), side="left") - 1
    ece = np.abs(np.bincount(bins, p.max(1) - hit)).sum() / len(y)
    return {
        "accuracy": hit.mean(),
        "nll": -log_p[rows, y].mean(),
        "brier": ((p - np.eye(z.shape[1])[y]) ** 2).sum(1).mean(),
        "ece": ece,
    }


@pytest.mark.parametrize("network", ["20newsgroups_random/gpool_cnn", "cifar10/resnet8_whitened"])
def test_values_come_out_again(network):
    """The mean over trainings of five losses, as they are and with one temperature."""
    dataset, model = network.split("/")
    ours = results.load("ours")
    for loss in LOSSES:
        runs = {"identity": [], TS: []}
        for path in sorted(LOGITS.glob(f"{network}-{loss}-s*.npz")):
            with np.load(path, allow_pickle=False) as data:
                z, y = data["test_logits"].astype(float), data["test_labels"]
                scale = best_temperature(data["val_logits"].astype(float), data["val_labels"])
            runs["identity"].append(measured(z, y))
            runs[TS].append(measured(z / scale, y))
        of_loss = select(ours, dataset=dataset, model=model, loss=loss.replace(",", " "), source="ours")
        for (method, of), metric in product(runs.items(), ("accuracy", "nll", "brier", "ece")):
            row = select(of_loss, method=method, metric=metric).squeeze()
            assert row["n_seeds"] == len(of), (loss, method)
            assert np.mean([run[metric] for run in of]) == pytest.approx(row["value"], rel=1e-5), (loss, method, metric)


@pytest.mark.parametrize(("loss", "method", "both"), [("mbls", TS, True), ("focal", "identity", False)])
def test_class_wise_intervals_of_losses_know_what_a_calibrated_network_shows(loss, method, both):
    """Minus cross-entropy with one temperature, which may be calibrated: the interval reaches a full width up, and down
    where the loss may be, too.
    """
    of = {}
    for name, key in ((loss, method), (CE, TS)):
        networks = trainings(f"tiny_imagenet_20/resnet20-{name}-s0")
        fits = fit_each(key, networks)
        runs = [
            resample(fit(of_seed.test_logits), of_seed.test_labels, ["classwise_ece"])["classwise_ece"]
            for fit, of_seed in zip(fits, networks, strict=True)
        ]
        of[name] = mean_of(runs)
    assert of[CE].may_be_zero() and of[loss].may_be_zero() == both
    value, low, high = of[loss].difference(of[CE])
    where = {"dataset": "tiny_imagenet_20", "loss": loss, "method": method, "base_loss": CE, "base_method": TS}
    row = select(load_effects(), metric="classwise_ece", **where).squeeze()
    apart = 0.02 * (high - low)  # other processors
    assert row["value"] == pytest.approx(value, rel=1e-5)
    assert row["low"] == pytest.approx(low, abs=apart) and row["high"] == pytest.approx(high, abs=apart)
    assert (row["chance"] == 1) == both
