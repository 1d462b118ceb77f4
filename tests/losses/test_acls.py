"""Adaptive and conditional label smoothing."""

import pytest
import torch

from calibkit.losses.acls import ACLS
from calibkit.losses.cross_entropy import CrossEntropy


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"margin": 6.0, "variant": "code"}, 1.505433),
        ({"margin": 10.0, "variant": "code"}, 0.146100),
        ({"margin": 6.0, "variant": "paper"}, 3.038767),
        ({"margin": 10.0, "variant": "paper"}, 0.212767),
        ({"margin": 6.0, "variant": "paper", "weight_neg": 0.01 * 3}, 3.382967),  # the sum over three other classes
        ({"margin": 10.0, "variant": "paper", "weight_neg": 0.01 * 3}, 0.238300),
    ],
)
def test_penalty(three, options, value):
    assert ACLS(**options).penalty(*three).item() == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_gradient_is_eq_12(batch, gradient, one_hot, variant):
    """Row ACLS of Table 2, with the factor 2 that eq. 13 carries and the mean over the others."""
    logits, labels = batch
    top, top_class = logits.max(1, keepdim=True)
    height = logits - (logits.min(1, keepdim=True).values if variant == "paper" else 0)
    pos = 2 * 0.1 * torch.relu(height - 2)
    neg = -2 * 0.01 / 5 * torch.relu(top - logits - 2)
    want = torch.where(one_hot(top_class[:, 0], 6) == 1, pos, neg) / 12
    assert torch.allclose(gradient(ACLS(margin=2.0, variant=variant).penalty, logits, labels), want, rtol=1e-12)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_gradient_by_finite_differences(batch, variant):
    """What is held constant in the gradient is held constant here: the minimum, and the top in the second term."""
    logits, labels = batch
    order = logits.argsort(1)
    loss = ACLS(margin=1.0, variant=variant)
    only_pos = ACLS(margin=1.0, weight_neg=0.0, variant=variant)

    def of_the_middle(values):
        return loss(logits.scatter(1, order[:, 1:-1], values), labels)

    def of_the_top(values):
        return only_pos(logits.scatter(1, order[:, -1:], values), labels)

    for function, columns in ((of_the_middle, order[:, 1:-1]), (of_the_top, order[:, -1:])):
        assert torch.autograd.gradcheck(function, logits.gather(1, columns).requires_grad_())


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_weights_zero_is_cross_entropy(batch, variant):
    loss = ACLS(margin=0.0, weight_pos=0.0, weight_neg=0.0, variant=variant)
    assert torch.equal(loss(*batch), CrossEntropy()(*batch))


def test_within_the_margin_is_cross_entropy(batch, gradient):
    """The condition of eq. 11: nothing happens while the spread of the logits is below the margin."""
    logits, labels = batch
    spread = (logits.max(1).values - logits.min(1).values).max().item()
    loss = ACLS(margin=spread + 0.1, variant="paper")
    assert torch.equal(loss(logits, labels), CrossEntropy()(logits, labels))
    assert (gradient(loss.penalty, logits, labels) == 0).all()


def test_variants_agree_where_the_smallest_logit_is_zero(batch):
    logits, labels = batch
    logits = logits - logits.min(1, keepdim=True).values
    paper, code = (ACLS(margin=2.0, variant=variant).penalty(logits, labels) for variant in ("paper", "code"))
    assert torch.allclose(paper, code, rtol=1e-14) and paper > 0


def test_all_that_tie_for_the_top_are_top(gradient):
    logits, labels = torch.tensor([[9.0, 9.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    loss = ACLS(margin=6.0, weight_pos=1.0, weight_neg=1.0, variant="paper")
    assert loss.penalty(logits, labels).item() == pytest.approx(2 * 9 + 9 / 2)
    assert gradient(loss.penalty, logits, labels).tolist() == [[6.0, 6.0, -3.0]]


def test_pushes_harder_the_further_out(batch, gradient):
    """Adaptive: unlike MbLS's constant, the push grows with the distance (eq. 10)."""
    logits, labels = torch.tensor([[12.0, 4.0, 2.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    top, near, middle, far = gradient(ACLS(margin=6.0).penalty, logits, labels)[0].tolist()
    assert top > 0 > near > middle > far
