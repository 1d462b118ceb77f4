"""What a loss is where nothing is chosen, the numbers that its authors publish."""

import inspect

from calibkit.losses import LOSSES

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
