"""Gradients of losses in the logits, and one sample whose logits are free, against formulas."""

import numpy as np
import pytest
import torch

from book.kit.notebook import gradients
from book.kit.notebook.gradients import along_distance, at_distance, descend, follow
from calibkit.losses import ACLS, LOSSES, CrossEntropy, LabelSmoothing, MbLS

Z = torch.tensor([[2.0, 0.5, -1.0], [0.0, 0.3, 3.0]], dtype=torch.float64)
Y = torch.tensor([0, 1])
Q = torch.nn.functional.one_hot(Y, 3).double()


def test_cross_entropy_has_the_gradient_p_minus_q_whatever_the_batch():
    torch.testing.assert_close(gradients.gradient(CrossEntropy(), Z, Y), Z.softmax(1) - Q)
    torch.testing.assert_close(gradients.gradient(CrossEntropy(), Z[:1], Y[:1]), (Z.softmax(1) - Q)[:1])


def test_label_smoothing_regularises_by_its_label():
    smoothed = 0.3 / 3 + 0.7 * Q
    torch.testing.assert_close(gradients.regulariser(LabelSmoothing(alpha=0.3), Z, Y), Q - smoothed)


def test_crl_beside_a_better_history():
    rows = torch.tensor([[2.0, 0.0, 1.0]], dtype=torch.float64)
    p = rows.softmax(1)[0]
    top = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    found = gradients.beside_a_better_history(rows)[0]
    assert gradients.agreement(p[0] * (top - p), found).verdict == "2 times"


def test_mdca_where_the_predicted_class_alone_is_too_confident():
    rows = torch.tensor([[2.0, 0.0, 1.0 - 0.9]], dtype=torch.float64)
    p = rows.softmax(1)[0]
    a = torch.tensor([1.0, -1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(gradients.among_all_labels(rows)[0], p * (a - (a * p).sum()))


def test_agreement_in_words():
    for printed, computed, stands, verdict in (
        ([1.0, -2.0], [1.0, -2.0], True, "equal"),
        ([1.0, 0.0], [3.0, 0.0], True, "3 times"),
        ([1.0, 2.0], [-0.5, -1.0], False, "opposite sign"),
        ([1.0, 0.0], [1.0, 0.1], False, "not zero"),
        ([1.0, 1.0], [0.5, 2.0], False, "ratio from 0.50 to 2.00"),
    ):
        found = gradients.agreement(torch.tensor(printed), torch.tensor(computed))
        assert (found.stands, found.verdict) == (stands, verdict)
        assert found.difference == pytest.approx(max(abs(a - b) for a, b in zip(printed, computed, strict=True)))


def test_silence_is_the_share_of_samples_within_the_margin():
    shares, loss = [], MbLS(margin=2.0)
    assert gradients.watch_silence(loss, shares) is loss
    z = torch.tensor([[1.0, 0.0], [5.0, 0.0], [0.0, 1.5], [0.0, 9.0]], dtype=torch.float64)
    loss(z, torch.zeros(4).long())
    loss(z[:1], torch.zeros(1).long())
    loss(torch.tensor([[5.0, 4.0, 0.0]], dtype=torch.float64), torch.zeros(1).long())  # one class of three is pushed
    assert shares == [0.5, 1.0, 0.0]


@pytest.mark.parametrize("name", ["label_smoothing", "mbls"])
def test_the_slope_along_the_distance_is_that_of_finite_differences(name):
    loss, d, step = LOSSES[name](), np.array([1.0, 4.0, 12.0]), 1e-6
    ahead, behind = (along_distance(loss, d + move, 5)[0] for move in (step, -step))
    values, slopes = along_distance(loss, d, 5)
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(values[1], float(loss(*at_distance(torch.tensor([4.0]), 5))))


@pytest.mark.slow
@pytest.mark.parametrize("margin", [1.0, 6.0])
def test_both_descents_end_at_the_closed_form(margin):
    loss, n_classes = MbLS(margin=margin, weight=0.1), 10
    rest = max(margin, np.log(n_classes / 0.1 - n_classes + 1))
    assert (descend(loss, n_classes) - rest).abs().max() < 0.01
    path = follow(loss, n_classes)
    assert path.shape == (2000, 2) and abs(path[-1, 0] - rest) < 0.05


def test_the_mean_moves_as_the_sum_of_the_gradient():
    loss = ACLS(margin=1.0, variant="paper")
    z, y = at_distance(torch.ones(1), 4)
    path = follow(loss, 4, n_steps=1, rate=0.5)
    total = float(gradients.gradient(loss, z, y).sum())
    assert path[0, 1] == pytest.approx(0.25 - 0.5 * total / 4)
