"""Class-wise loss scaling against the authors' code (numbers in tests/data) and the paper's equations by hand."""

import numpy as np
import oracles
import pytest
import torch
from refusals import refused

from calibkit.objectives import ClassLossScaling, cross_entropy_grad, losses

#: What SeungjinJung/SCTL (83ad33b) returns for two sets of logits: see "source" in the file.
VALUES, ARRAYS = oracles.numbers("class_loss_scaling"), oracles.arrays("class_loss_scaling")
CASES = [(case, norm) for case in "AE" for norm in ("nd", "mm", "cm")]
LOSSES = torch.tensor([0.2, 0.5, 1.1, 0.4], dtype=torch.float64)


def case_sample(case):
    return torch.from_numpy(ARRAYS[f"{case}_logits"]), torch.from_numpy(ARRAYS[f"{case}_labels"])


@pytest.mark.parametrize(("case", "norm"), CASES)
def test_values_and_gradients_equal_the_authors_code(case, norm):
    z, y = case_sample(case)
    for i, step in enumerate(VALUES[f"{case}_{norm}"]):
        objective = ClassLossScaling(step["alpha"], min(step["beta"], 2.0), norm)
        u = z / step["scale"]
        assert objective.value(u, y) == pytest.approx(step["value"], rel=1e-13)
        if f"{case}_{norm}_{i}" in ARRAYS:
            ce, g = cross_entropy_grad(u.clone(), y)
            g *= objective.weights(ce, y, z.shape[1])[:, None]
            np.testing.assert_allclose(g.numpy(), ARRAYS[f"{case}_{norm}_{i}"], atol=1e-10)


@pytest.mark.parametrize(("case", "norm"), CASES)
def test_shape_is_chosen_as_by_the_authors_code(case, norm):
    pytest.importorskip("scipy", reason="SLSQP is scipy's")
    z, y = case_sample(case)
    objective = ClassLossScaling(1.0, 1.5, norm)
    before, after = (objective.class_losses(losses(z / s, y), y, z.shape[1]) for s in (1.0, 1.3))
    chosen, known = objective.fit_shape(before, after), VALUES[f"{case}_{norm}"][1]
    assert (chosen.alpha, chosen.beta) == pytest.approx((known["alpha"], known["beta"]), abs=1e-7)


@pytest.mark.parametrize(
    ("variant", "scales", "total"),
    [
        ("code", [-0.317563, -0.048345, 0.458030, -0.143448], 2.558768),
        ("paper", [-0.359287, -0.055798, 0.506258, -0.164965], 2.591141),
    ],
)
def test_scales_by_hand(variant, scales, total):
    found = ClassLossScaling(1.0, 1.5, variant=variant).scales(LOSSES)
    np.testing.assert_allclose(found.numpy(), scales, atol=5e-7)
    assert float(((1 + found) * LOSSES).sum()) == pytest.approx(total, abs=5.1e-7)


def test_equations_of_the_paper_in_plain_loops():
    z, y = case_sample("A")
    ce, labels = losses(z, y).numpy(), y.numpy()
    sums = np.array([ce[labels == k].sum() for k in range(10)])
    normalised = (sums - sums.mean()) / np.sqrt((sums**2).mean() - sums.mean() ** 2)
    scales = 1.5 / (1 + np.exp(-normalised / 0.7)) - 0.75
    by_hand = ((1 + scales) * sums).sum()
    assert ClassLossScaling(0.7, variant="paper").value(z, y) == pytest.approx(by_hand, rel=1e-12)


def test_alpha_is_half_the_log_of_the_number_of_classes():
    torch.testing.assert_close(
        ClassLossScaling().scales(LOSSES), ClassLossScaling(alpha=np.log(4) / 2).scales(LOSSES), rtol=1e-15, atol=0
    )


@pytest.mark.parametrize(("norm", "variant"), [("nd", "code"), ("nd", "paper"), ("mm", "paper"), ("cm", "code")])
def test_absent_and_equal_classes(norm, variant):
    objective = ClassLossScaling(normalization=norm, variant=variant)
    assert (objective.scales(torch.full((5,), 0.7, dtype=torch.float64)) == 0).all()
    assert (objective.scales(torch.tensor([0.3, torch.nan, torch.nan], dtype=torch.float64)) == 0).all()
    gap = torch.tensor([0.2, torch.nan, 0.5, 1.1, 0.4], dtype=torch.float64)
    left_out = ClassLossScaling(1.0, normalization=norm, variant=variant)
    np.testing.assert_array_equal(left_out.scales(gap)[[0, 2, 3, 4]], left_out.scales(LOSSES))
    assert left_out.scales(gap)[1] == 0


def test_bad_options():
    for option, value in {"alpha": 0.0, "beta": 2.1, "normalization": "l2", "variant": "both"}.items():
        refused(f"`{option}` to be ", ClassLossScaling, **{option: value})
    pytest.importorskip("scipy", reason="SLSQP is scipy's")
    refused("`before` to be", ClassLossScaling().fit_shape, LOSSES, LOSSES.clone().fill_(torch.nan))
