"""``like=`` against the installed packages: one table of rules, inputs and dtypes."""

import warnings

import numpy as np
import pytest
import torch

from calibkit.metrics import adaptive_ece, ece
from calibkit.metrics.other_packages import MASS_RULES, WIDTH_RULES


def flags(probs, labels):
    return probs.max(1), (probs.argmax(1) == labels).astype(float)


def of_torchmetrics(probs, labels, n_bins):
    from torchmetrics.functional.classification import multiclass_calibration_error as error

    return error(torch.from_numpy(probs), torch.from_numpy(labels), probs.shape[1], n_bins=n_bins).item()


def of_torch_uncertainty(probs, labels, n_bins):
    from torch_uncertainty.metrics import CalibrationError

    metric = CalibrationError(task="multiclass", num_classes=probs.shape[1], num_bins=n_bins)
    return metric(torch.from_numpy(probs), torch.from_numpy(labels)).item()


def of_probmetrics(probs, labels, n_bins):
    from probmetrics.metrics import Metrics

    metric = Metrics.from_names([f"ece-{n_bins}"])
    found = metric.compute_all_from_labels_probs(torch.from_numpy(labels), torch.from_numpy(probs))
    return float(found[f"ece-{n_bins}"])


def of_netcal(probs, labels, n_bins):
    from netcal.metrics import ECE

    return float(ECE(n_bins).measure(probs, labels))


def of_relplot(probs, labels, n_bins):
    from relplot.metrics import binnedECE

    return float(binnedECE(*flags(probs, labels), nbins=n_bins))


def of_uncertainty_calibration(probs, labels, n_bins):
    from calibration import get_ece

    return float(get_ece(probs, labels, num_bins=n_bins))


def of_calzone(probs, labels, n_bins):
    from calzone.metrics import calculate_ece_mce
    from calzone.utils import reliability_diagram

    accuracy, confidence, _, counts = reliability_diagram(labels, probs, num_bins=n_bins)
    return float(calculate_ece_mce(accuracy, confidence, counts)[0])


def of_pycalib(probs, labels, n_bins):
    from pycalib.metrics import conf_ECE

    return float(conf_ECE(labels, probs, bins=n_bins))


def of_mapie(probs, labels, n_bins):
    from mapie.metrics.calibration import expected_calibration_error

    confidence, correct = flags(probs, labels)
    return expected_calibration_error(correct.astype(int), confidence, num_bins=n_bins, split_strategy="uniform")


def mass_of_torch_uncertainty(probs, labels, n_bins):
    from torch_uncertainty.metrics import AdaptiveCalibrationError

    metric = AdaptiveCalibrationError(task="multiclass", num_classes=probs.shape[1], num_bins=n_bins)
    return metric(torch.from_numpy(probs), torch.from_numpy(labels)).item()


def mass_of_netcal(probs, labels, n_bins):
    from netcal.metrics import ECE

    return float(ECE(n_bins, equal_intervals=False).measure(probs, labels))


def mass_of_uncertainty_calibration(probs, labels, n_bins):
    from calibration import get_ece_em

    return float(get_ece_em(probs, labels, num_bins=n_bins))


def mass_of_mapie(probs, labels, n_bins):
    from mapie.metrics.calibration import expected_calibration_error

    confidence, correct = flags(probs, labels)
    return expected_calibration_error(correct.astype(int), confidence, num_bins=n_bins, split_strategy="quantile")


WIDTH = {
    "torchmetrics": of_torchmetrics,
    "torch-uncertainty": of_torch_uncertainty,
    "probmetrics": of_probmetrics,
    "netcal": of_netcal,
    "relplot": of_relplot,
    "uncertainty-calibration": of_uncertainty_calibration,
    "calzone": of_calzone,
    "pycalib": of_pycalib,
    "mapie": of_mapie,
}
MASS = {
    "torch-uncertainty": mass_of_torch_uncertainty,
    "netcal": mass_of_netcal,
    "uncertainty-calibration": mass_of_uncertainty_calibration,
    "mapie": mass_of_mapie,
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
            return peer(probs, labels, n_bins)
        except ImportError as error:
            pytest.skip(f"{error.name or error} is not installed")


def inputs(case, dtype, cases):
    """A hard case with a few rows of a third and fourth label: netcal takes fewer labels than that for binary."""
    probs, labels = cases[case]
    return probs.astype(dtype), np.concatenate([labels[:-6], [2, 3, 4, 2, 3, 4]])


def test_every_rule_has_its_peer():
    assert set(WIDTH) == set(WIDTH_RULES)
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


def test_torchs_default_dtype_does_not_matter():
    """The rows above: edges in float64 would part 0.7 from 0.75."""
    probs, labels = np.array([[0.7, 0.3], [0.75, 0.25], [0.8, 0.2]]), np.array([0, 1, 0])
    torch.set_default_dtype(torch.float64)
    try:
        assert ece(probs, labels, n_bins=10, like="torchmetrics") == pytest.approx(0.65 / 3, abs=1e-6)
    finally:
        torch.set_default_dtype(torch.float32)
