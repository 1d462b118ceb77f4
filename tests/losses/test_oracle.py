"""The code variants give values and gradients of the authors' public code, to 1e-10 in float64; published defaults.

tests/data/losses_oracle.json names repository, commit, file and settings of each; the arrays are in losses_oracle.npz.
"""

import inspect

import oracles
import pytest
import torch

from calibkit.losses import LOSSES

ORACLE = oracles.numbers("losses")
WHOLE = {
    "ce": ("cross_entropy", {}),
    "ls_alphaK_005": ("label_smoothing", {"alpha": 0.05}),
    "ls_alphaKm1_005": ("label_smoothing", {"alpha": 0.05, "convention": "K-1"}),
    "focal_g1": ("focal", {"gamma": 1.0}),
    "focal_g2": ("focal", {"gamma": 2.0}),
    "focal_g3": ("focal", {"gamma": 3.0}),
    "flsd53": ("flsd", {}),
    "brier": ("brier", {}),
    "mmce_total_lam1": ("mmce", {"weight": 1.0, "weighted": False, "variant": "code"}),
    "mmcew_total_lam2": ("mmce", {"weight": 2.0, "variant": "code"}),
    "ecp_01": ("ecp", {"weight": 0.1, "variant": "code"}),
    "cpc_01_1": ("cpc", {"weight_1v1": 0.1, "weight_be": 1.0, "variant": "code"}),
    "mdca_total_nll_b1": ("mdca", {"weight": 1.0}),
    "mbls_m0": ("mbls", {"margin": 0.0, "weight": 0.05, "variant": "code"}),
    "mbls_m6": ("mbls", {"margin": 6.0, "weight": 0.1, "variant": "code"}),
    "mbls_m10": ("mbls", {"margin": 10.0, "weight": 0.1, "variant": "code"}),
    "acls_m6": ("acls", {"margin": 6.0, "variant": "code"}),
    "acls_m10": ("acls", {"margin": 10.0, "variant": "code"}),
}
PENALTIES = {
    "mmce_penalty": ("mmce", {"weighted": False, "variant": "code"}),
    "mmcew_penalty": ("mmce", {"variant": "code"}),
    "mdca_penalty": ("mdca", {}),
}


@pytest.fixture(scope="module")
def arrays():
    return {name: torch.from_numpy(array) for name, array in oracles.arrays("losses").items()}


def assert_equal(arrays, entry, function, shift=0.0):
    """``function(case)`` is the loss."""
    for case in "ACE":
        logits = (arrays[f"{case}_logits"] + shift).requires_grad_()
        value = function(case)(logits, arrays[f"{case}_labels"])
        assert abs(value.item() - ORACLE["values"][case][entry]) < 1e-10
        (slope,) = torch.autograd.grad(value, logits)
        assert (slope - arrays[f"{case}__{entry}"]).abs().max() < 1e-10


@pytest.mark.parametrize("entry", WHOLE | PENALTIES)
def test_values_and_gradients(arrays, entry):
    name, options = (WHOLE | PENALTIES)[entry]
    loss = LOSSES[name](**options)
    assert_equal(arrays, entry, lambda _: loss.penalty if entry in PENALTIES else loss)


def test_mdca_on_focal_and_acls_of_shifted_logits(arrays):
    focal, mdca = LOSSES["focal"](gamma=1.0), LOSSES["mdca"]()
    assert_equal(arrays, "mdca_total_fl1_b1", lambda _: lambda z, y: focal(z, y) + mdca.penalty(z, y))
    assert_equal(arrays, "acls_m6_shift5", lambda _: LOSSES["acls"](margin=6.0, variant="code"), shift=5.0)


def test_crl(arrays):
    def ranked(case):
        counts = arrays[f"{case}_crl_counts"]
        loss = LOSSES["crl"](n_samples=len(counts))
        loss.counts.copy_(counts)
        loss.epochs.fill_(int(arrays[f"{case}_crl_max"]))
        return lambda z, y: loss(z, y, arrays[f"{case}_crl_idx"])

    assert_equal(arrays, "crl", ranked)


def test_every_entry_is_compared():
    compared = {*WHOLE, *PENALTIES, "mdca_total_fl1_b1", "acls_m6_shift5", "crl"}
    assert compared == set(ORACLE["sources"]) == set(ORACLE["values"]["A"])


#: MMCE, focal loss and FLSD: scripts of focal_calibration (Mukhoti et al. 2020). MbLS: Liu et al. 2022, code. ACLS:
#: Park et al. 2023, supplement Table A. CPC: the configuration in the code of CALS. MDCA: its scripts (Hebbalaguppe et
#: al. 2022). CRL: Moon et al. 2020, code. ECP: alpha of MbLS. Label smoothing: alpha of MbLS and ACLS.
PUBLISHED = {
    "cross_entropy": {},
    "label_smoothing": {"alpha": 0.05, "convention": "K"},
    "focal": {"gamma": 3.0},
    "flsd": {},
    "brier": {},
    "mmce": {"weight": 2.0, "weighted": True, "variant": "code"},
    "ecp": {"weight": 0.1, "variant": "code"},
    "cpc": {"weight_1v1": 0.1, "weight_be": 1.0, "variant": "code"},
    "mdca": {"weight": 1.0},
    "crl": {"n_samples": inspect.Parameter.empty, "weight": 1.0, "indicator": "ranking", "margin": 10.0},
    "mbls": {"margin": 10.0, "weight": 0.1, "variant": "code"},
    "acls": {
        **{"margin": 10.0, "weight_pos": 0.1, "weight_neg": 0.01, "variant": "code"},
        **{"part": "both", "indicator": "margin", "n_samples": None},
    },
}


def test_defaults_are_the_published_numbers():
    found = {
        name: {parameter.name: parameter.default for parameter in inspect.signature(cls).parameters.values()}
        for name, cls in LOSSES.items()
        if name in PUBLISHED
    }
    assert found == {name: {**options, "ignore_index": -100} for name, options in PUBLISHED.items()}
