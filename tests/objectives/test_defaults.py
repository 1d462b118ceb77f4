"""What an objective is where nothing is chosen: the numbers that its authors publish."""

from dataclasses import asdict

import numpy as np

from calibkit.objectives import OBJECTIVES, get

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
    assert {name: asdict(cls()) for name, cls in OBJECTIVES.items()} == PUBLISHED
    assert {name: asdict(get(name)) for name in OBJECTIVES} == PUBLISHED


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
