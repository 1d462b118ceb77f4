"""``like=`` against the installed packages: one table of rules, inputs and dtypes."""

import importlib
import warnings
from functools import partial
from typing import get_args

import numpy as np
import pytest
import torch

from calibkit.metrics import adaptive_ece, ece
from calibkit.metrics.other_packages import MASS_RULES, WIDTH_RULES, MassRule, WidthRule


def named(path):
    """What a package has by a dotted name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def flags(probs, labels):
    return probs.max(1), (probs.argmax(1) == labels).astype(float)


def tensors(probs, labels):
    return torch.from_numpy(probs), torch.from_numpy(labels)


def torch_uncertainty(name, probs, labels, n_bins):
    metric = named(f"torch_uncertainty.metrics.{name}")(task="multiclass", num_classes=6, num_bins=n_bins)
    return metric(*tensors(probs, labels)).item()


def probmetrics(probs, labels, n_bins):
    metric = named("probmetrics.metrics.Metrics").from_names([f"ece-{n_bins}"])
    return metric.compute_all_from_labels_probs(*tensors(probs, labels)[::-1])[f"ece-{n_bins}"]


def calzone(probs, labels, n_bins):
    accuracy, confidence, _, counts = named("calzone.utils.reliability_diagram")(labels, probs, num_bins=n_bins)
    return named("calzone.metrics.calculate_ece_mce")(accuracy, confidence, counts)[0]


def mapie(strategy, probs, labels, n_bins):
    (confidence, correct), metric = flags(probs, labels), named("mapie.metrics.calibration.expected_calibration_error")
    return metric(correct.astype(int), confidence, num_bins=n_bins, split_strategy=strategy)


#: Of probabilities (N, 6), labels and the number of bins.
WIDTH = {
    "torchmetrics": lambda p, y, n: named("torchmetrics.functional.classification.multiclass_calibration_error")(
        *tensors(p, y), 6, n_bins=n
    ),
    "torch-uncertainty": partial(torch_uncertainty, "CalibrationError"),
    "probmetrics": probmetrics,
    "netcal": lambda p, y, n: named("netcal.metrics.ECE")(n).measure(p, y),
    "relplot": lambda p, y, n: named("relplot.metrics.binnedECE")(*flags(p, y), nbins=n),
    "uncertainty-calibration": lambda p, y, n: named("calibration.get_ece")(p, y, num_bins=n),
    "calzone": calzone,
    "pycalib": lambda p, y, n: named("pycalib.metrics.conf_ECE")(y, p, bins=n),
    "mapie": partial(mapie, "uniform"),
}
MASS = {
    "torch-uncertainty": partial(torch_uncertainty, "AdaptiveCalibrationError"),
    "netcal": lambda p, y, n: named("netcal.metrics.ECE")(n, equal_intervals=False).measure(p, y),
    "uncertainty-calibration": lambda p, y, n: named("calibration.get_ece_em")(p, y, num_bins=n),
    "mapie": partial(mapie, "quantile"),
}

SETTINGS = [
    (case, dtype, n_bins)
    for case in ("mixed", "saturated", "ties", "on_edges")
    for dtype in (np.float32, np.float64)
    for n_bins in (10, 15)
]


def ask(peer, probs, labels, n_bins):
    """The peer's value; skips where it is not installed. Its warnings are its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(peer(probs, labels, n_bins))
        except ImportError as error:
            pytest.skip(f"{error.name or error} is not installed")


def inputs(case, dtype, cases):
    """A hard case with a few rows of a third and fourth label: netcal takes fewer labels than that for binary."""
    probs, labels = cases[case]
    return probs.astype(dtype), np.concatenate([labels[:-6], [2, 3, 4, 2, 3, 4]])


def test_every_rule_has_its_peer():
    assert set(WIDTH) == set(WIDTH_RULES) == set(get_args(WidthRule)) and set(MASS_RULES) == set(get_args(MassRule))
    assert {*MASS, "focal_calibration"} == set(MASS_RULES)  # focal_calibration is a repository: test_calibration


#: On an edge: probmetrics passes log-probabilities on, which rounds; netcal counts float32 in other bins than it
#: averages them.
OFF_EDGES = {"probmetrics": (np.float32, np.float64), "netcal": (np.float32,)}


@pytest.mark.parametrize("name", WIDTH)
def test_width_rule_is_the_peers(name, cases):
    for case, dtype, n_bins in SETTINGS:
        if case in ("mixed", "saturated") or dtype not in OFF_EDGES.get(name, ()):
            probs, labels = inputs(case, dtype, cases)
            want = ask(WIDTH[name], probs, labels, n_bins)
            assert ece(probs, labels, n_bins=n_bins, like=name) == pytest.approx(want, abs=3e-6), (case, dtype, n_bins)


@pytest.mark.parametrize("name", MASS)
def test_mass_rule_is_the_peers(name, cases):
    """On ties and saturation netcal raises and torch-uncertainty splits ties in no fixed order: those are left out."""
    for case, dtype, n_bins in SETTINGS:
        if case == "mixed" or name not in ("netcal", "torch-uncertainty"):
            probs, labels = inputs(case, dtype, cases)
            want = ask(MASS[name], probs, labels, n_bins)
            assert adaptive_ece(probs, labels, n_bins=n_bins, like=name) == pytest.approx(want, abs=3e-6), (case, dtype)


@pytest.mark.parametrize(
    "like, in_float32, in_float64",
    [
        (None, 0.85 / 3, 0.85 / 3),  # 0.7 | 0.75 0.8
        ("uncertainty-calibration", 1.25 / 3, 0.85 / 3),  # float32 0.8 is above 0.8: 0.7 | 0.75 | 0.8
        ("calzone", 1.25 / 3, 0.85 / 3),
        ("pycalib", 1.25 / 3, 0.85 / 3),
        ("torchmetrics", 0.65 / 3, 0.65 / 3),  # 0.7 0.75 | 0.8
        ("relplot", 0.65 / 3, 1.25 / 3),  # 0.7 / 0.1 is below 7
        ("netcal", 1.25 / 3, 1.25 / 3),  # linspace(0, 1, 11)[7] is above 0.7
        ("mapie", 0.65 / 3, 0.65 / 3),  # nine bins
    ],
)
def test_one_input_many_answers(like, in_float32, in_float64):
    """Confidences 0.7, 0.75 and 0.8, the second wrong, in 10 bins: gaps -0.3, 0.75 and -0.2, by hand."""
    probs, labels = np.array([[0.7, 0.3], [0.75, 0.25], [0.8, 0.2]]), np.array([0, 1, 0])
    assert ece(probs.astype(np.float32), labels, n_bins=10, like=like) == pytest.approx(in_float32, abs=1e-6)
    assert ece(probs, labels, n_bins=10, like=like) == pytest.approx(in_float64, abs=1e-12)


@pytest.mark.parametrize(
    "like, want",
    [
        ("focal_calibration", 0.75 / 5),  # 0.7 0.75 | 0.8 0.9, and 0.6 in no bin
        ("torch-uncertainty", 0.35 / 5),  # 0.6 0.7 0.75 | 0.8 0.9
        ("netcal", 1.15 / 5),  # 0.6 0.7 | 0.75 0.8 0.9
        ("uncertainty-calibration", 0.35 / 5),  # cut between 0.75 and 0.8
        ("mapie", 0.55 / 5),  # 0.6 | 0.7 0.75 0.8 0.9
    ],
)
def test_mass_rules_by_hand(like, want):
    """In 2 bins, the third row wrong: gaps -0.4, -0.3, 0.75, -0.2 and -0.1."""
    top = np.array([0.6, 0.7, 0.75, 0.8, 0.9])
    labels = np.array([0, 0, 1, 0, 0])
    assert adaptive_ece(np.stack([top, 1 - top], 1), labels, n_bins=2, like=like) == pytest.approx(want, abs=1e-12)


def test_torchs_default_dtype_does_not_matter():
    """The rows above: edges in float64 would part 0.7 from 0.75."""
    probs, labels = np.array([[0.7, 0.3], [0.75, 0.25], [0.8, 0.2]]), np.array([0, 1, 0])
    torch.set_default_dtype(torch.float64)
    try:
        assert ece(probs, labels, n_bins=10, like="torchmetrics") == pytest.approx(0.65 / 3, abs=1e-6)
    finally:
        torch.set_default_dtype(torch.float32)
