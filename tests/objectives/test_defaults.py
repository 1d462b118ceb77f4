"""What an objective is where nothing is chosen: the numbers that its authors publish."""

from dataclasses import asdict

import numpy as np
import pytest

from calibkit.objectives import OBJECTIVES, ClassLossScaling, get

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


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ece", {"n_bins": np.uint8(255)}),
        ("focal", {"gamma": np.float32(2)}),
        ("label_smoothing", {"alpha": np.float32(0.25)}),
        ("class_loss_scaling", {"alpha": np.float32(0.5), "beta": np.int64(1)}),
    ],
)
def test_numbers_of_numpy_become_plain_ones(name, options):
    """So that they can be saved, and are computed with in full precision."""
    for option, value in options.items():
        assert type(getattr(OBJECTIVES[name](**options), option)) in (int, float)
        assert getattr(OBJECTIVES[name](**options), option) == value


@pytest.mark.parametrize(("option", "choices"), [("normalization", "nd, mm, cm"), ("variant", "code, paper")])
def test_choices(option, choices):
    with pytest.raises(ValueError, match=f"Expected `{option}` to be one of {choices}, but got 'x'"):
        ClassLossScaling(**{option: "x"})
