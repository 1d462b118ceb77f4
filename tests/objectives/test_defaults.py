"""What an objective is where nothing is chosen: the numbers that its authors publish."""

from dataclasses import asdict
from typing import get_args

import numpy as np

from calibkit.objectives import OBJECTIVES, ObjectiveName, SmoothName, get

#: ECE: Guo et al. 2017. The others: Jung et al. 2023 (SCTL) and its code, where alpha None stands for ln(K) / 2.
PUBLISHED = {
    "nll": {},
    "ece": {"n_bins": 15},
    "focal": {"gamma": 3.0, "detach": False},
    "label_smoothing": {"alpha": 0.05},
    "class_balanced": {},
    "class_loss_scaling": {"alpha": None, "beta": 1.5, "normalization": "nd", "variant": "code"},
}


def test_defaults_are_the_published_numbers():
    assert {name: asdict(OBJECTIVES[name]()) for name in PUBLISHED} == PUBLISHED
    assert {name: asdict(get(name)) for name in PUBLISHED} == PUBLISHED


def test_the_names_of_the_signatures_are_the_keys():
    """A new objective is a member of ``SmoothName``, too."""
    smooth = {name for name, cls in OBJECTIVES.items() if cls.smooth}
    assert set(get_args(SmoothName)) == smooth and set(get_args(ObjectiveName)) == {"ece", *smooth}


def test_numbers_of_numpy_become_plain_ones():
    """So that they can be saved, and are computed with in full precision."""
    for name, option, value in (
        ("ece", "n_bins", np.uint8(255)),
        ("focal", "gamma", np.float32(2)),
        ("label_smoothing", "alpha", np.float32(0.25)),
        ("class_loss_scaling", "alpha", np.float32(0.5)),
        ("class_loss_scaling", "beta", np.int64(1)),
    ):
        options = {option: value}
        assert type(getattr(OBJECTIVES[name](**options), option)) in (int, float)
        assert getattr(OBJECTIVES[name](**options), option) == value
