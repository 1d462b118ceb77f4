"""Adaptive and conditional label smoothing."""

import pytest
import torch
from refusals import refused

from calibkit.losses.acls import ACLS
from calibkit.losses.cross_entropy import CrossEntropy


def test_penalty_of_the_paper(three):
    assert ACLS(margin=10.0, variant="paper").penalty(*three).item() == pytest.approx(0.212767, abs=1e-6)
    summed = ACLS(margin=6.0, variant="paper", weight_neg=0.01 * 3)  # over three other classes
    assert summed.penalty(*three).item() == pytest.approx(3.382967, abs=1e-6)


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


def test_within_the_margin_is_cross_entropy(batch, gradient):
    """The condition of eq. 11: nothing happens while the spread of the logits is below the margin."""
    logits, labels = batch
    spread = (logits.max(1).values - logits.min(1).values).max().item()
    loss = ACLS(margin=spread + 0.1, variant="paper")
    assert torch.equal(loss(logits, labels), CrossEntropy()(logits, labels))
    assert (gradient(loss.penalty, logits, labels) == 0).all()


def test_all_that_tie_for_the_top_are_top(gradient):
    logits, labels = torch.tensor([[9.0, 9.0, 0.0]], dtype=torch.float64), torch.tensor([0])
    loss = ACLS(margin=6.0, weight_pos=1.0, weight_neg=1.0, variant="paper")
    assert loss.penalty(logits, labels).item() == pytest.approx(2 * 9 + 9 / 2)
    assert gradient(loss.penalty, logits, labels).tolist() == [[6.0, 6.0, -3.0]]


class TestAblations:
    """Table 5 takes the smoothing function or the indicator away, Table 6 exchanges the indicator."""

    def test_adaptive_has_no_indicator(self, batch, gradient, one_hot):
        """C = 1: the distances enter whole, at any margin."""
        logits, labels = batch
        top, top_class = logits.max(1, keepdim=True)
        height = logits - logits.min(1, keepdim=True).values
        want = torch.where(one_hot(top_class[:, 0], 6) == 1, 2 * 0.1 * height, -2 * 0.01 / 5 * (top - logits)) / 12
        for margin in (0.0, 7.0):
            loss = ACLS(margin=margin, variant="paper", part="adaptive")
            assert torch.allclose(gradient(loss.penalty, logits, labels), want, rtol=1e-12)

    def test_adaptive_code_has_no_push_on_a_negative_top(self, batch, gradient):
        """The code's first term is ReLU(z)^2, from zero and not from the smallest logit."""
        logits, labels = batch
        slope = gradient(ACLS(part="adaptive").penalty, logits - logits.max() - 1, labels)
        top = logits.argmax(1, keepdim=True)
        assert (slope.gather(1, top) == 0).all() and (slope < 0).any()

    def test_conditional_has_a_constant_smoothing_function(self, batch, gradient, one_hot):
        """f = lambda_1 and lambda_2 where eq. 11 holds, as in Table 2's row MbLS, and 0 elsewhere."""
        logits, labels = batch
        top, top_class = logits.max(1, keepdim=True)
        pos = 0.1 * (logits - logits.min(1, keepdim=True).values > 4).double()
        neg = -0.01 / 5 * (top - logits > 4).double()
        want = torch.where(one_hot(top_class[:, 0], 6) == 1, pos, neg) / 12
        assert 0 < (want != 0).double().mean() < 1
        loss = ACLS(margin=4.0, variant="paper", part="conditional")
        assert torch.allclose(gradient(loss.penalty, logits, labels), want, rtol=1e-12)

    def test_ranking_smooths_the_pairs_out_of_order(self, batch, gradient, one_hot):
        """C = 1[H (kappa_n - kappa_m) < 0] of supplement eq. 21, m the next of the batch; no margin then."""
        logits, labels = batch
        loss = ACLS(variant="paper", indicator="ranking", n_samples=12)
        index = torch.arange(12).flip(0)
        loss.counts.copy_(torch.tensor([0, 3, 3, 1, 4, 2, 0, 4, 1, 2, 3, 1]))
        loss.epochs.fill_(4)
        kappa, history = logits.softmax(1).max(1).values.tolist(), loss.counts[index].tolist()
        out_of_order = torch.tensor(
            [(history[n] - history[(n + 1) % 12]) * (kappa[n] - kappa[(n + 1) % 12]) < 0 for n in range(12)]
        )
        assert 2 < out_of_order.sum() < 10
        want = gradient(ACLS(variant="paper", part="adaptive").penalty, logits, labels) * out_of_order[:, None]
        assert torch.allclose(gradient(loss.penalty, logits, labels, index), want, rtol=1e-12)
        value = loss(logits, labels, index)
        assert torch.isclose(value, CrossEntropy()(logits, labels) + loss.penalty(logits, labels, index), rtol=1e-14)

    def test_an_ignored_neighbour_ranks_nobody(self, batch):
        logits, labels = batch
        loss = ACLS(indicator="ranking", n_samples=12)
        loss.update(torch.arange(12), torch.arange(12) % 2 == 0)
        for i in range(11):
            rows, index = logits[[i, i + 1]], torch.tensor([i, i + 1])
            assert loss.penalty(rows, torch.tensor([0, -100]), index) == 0
        assert any(loss.penalty(logits[[i, i + 1]], labels[:2], torch.tensor([i, i + 1])) > 0 for i in range(11))

    def test_what_the_ranking_needs(self, three):
        with pytest.raises(ValueError, match='Expected `indicator` to be "margin" where `part` is "adaptive"'):
            ACLS(part="adaptive", indicator="ranking", n_samples=3)
        refused("`n_samples` to be an integer", ACLS, indicator="ranking")
        refused("`n_samples` to be an integer", ACLS, n_samples="x")
        with pytest.raises(ValueError, match="Expected `index` to be the samples' positions, .*, but got None"):
            ACLS(indicator="ranking", n_samples=3)(*three)
