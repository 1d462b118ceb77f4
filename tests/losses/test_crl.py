"""Correctness ranking loss."""

import pytest
import torch
from refusals import refused

from calibkit.losses.crl import CRL
from calibkit.losses.cross_entropy import CrossEntropy


def with_history(counts, epochs, **options):
    loss = CRL(n_samples=len(counts), **options)
    loss.counts.copy_(torch.tensor(counts))
    loss.epochs.fill_(epochs)
    return loss


def test_equals_the_pairs(batch):
    logits, labels = batch
    loss = with_history([5, 2, 2, 7, 1, 6, 3, 3, 4, 7, 1, 2, 1, 8, 9], 9)
    index = torch.tensor([3, 14, 0, 1, 2, 9, 9, 8, 4, 13, 11, 5])
    kappa = logits.softmax(1).max(1).values.tolist()
    c = [(int(loss.counts[i]) - 1) / (9 - 1) for i in index]
    total = 0.0
    for i in range(12):
        j = (i + 1) % 12
        sign = (c[i] > c[j]) - (c[i] < c[j])
        total += max(0.0, abs(c[i] - c[j]) - sign * (kappa[i] - kappa[j]))
    assert loss.penalty(logits, labels, index).item() == pytest.approx(total / 12, rel=1e-12)


def test_gradient_is_eq_19_of_acls_supplement(gradient, one_hot):
    """Row CRL of Table 2: f = p (1 - p) at the top and p_top p_j elsewhere for the sample that ranks too high."""
    logits = torch.tensor([[3.0, 0, -1, 0.5], [1.0, 2, 0, 1]], dtype=torch.float64)
    labels, index = torch.tensor([0, 1]), torch.tensor([0, 1])
    loss = with_history([0, 1], 1)  # the confident sample was wrong, the other right: both pairs are active
    p = logits.softmax(1)
    top, top_class = p.max(1, keepdim=True)
    f = torch.where(one_hot(top_class[:, 0], 4) == 1, p * (1 - p), -top * p)
    want = torch.stack([f[0], -f[1]])  # both ordered pairs, over N = 2
    assert torch.allclose(gradient(loss.penalty, logits, labels, index), want)


def test_no_ranking_in_the_first_epoch_nor_where_all_counts_are_equal(batch):
    loss, index = CRL(n_samples=12), torch.arange(12)
    assert torch.equal(loss(*batch, index), CrossEntropy()(*batch))
    for _ in range(3):
        loss.update(index, torch.ones(12, dtype=torch.bool))
        loss.end_epoch()
        assert loss.penalty(*batch, index) == 0  # the code divides 0 by 0 here


def test_history():
    loss = CRL(n_samples=5)
    loss.update(torch.tensor([4, 0, 2]), torch.tensor([True, False, True]))
    loss.update(torch.tensor([1]), torch.tensor([True]))
    assert loss.counts.tolist() == [0, 1, 1, 0, 1] and loss.epochs == 0
    loss.end_epoch()
    loss.update(torch.tensor([4]), torch.tensor([True]))
    assert loss.counts.tolist() == [0, 1, 1, 0, 2] and loss.epochs == 1


def test_history_is_saved(batch):
    loss = with_history(list(range(12)), 12)
    again = CRL(n_samples=12)
    again.load_state_dict(loss.state_dict())
    assert again(*batch, torch.arange(12)) == loss(*batch, torch.arange(12))
    assert list(loss.parameters()) == []


def test_a_pair_counts_if_both_rows_do(batch):
    logits, labels = batch
    loss, index = with_history(list(range(12)), 12), torch.arange(12)
    labels = labels.index_fill(0, torch.tensor([5]), -100)
    pairs = [loss.penalty(logits[[i, (i + 1) % 12]], labels[[0, 0]], index[[i, (i + 1) % 12]]) for i in range(12)]
    want = torch.stack(pairs)[[i for i in range(12) if i not in (4, 5)]].mean()
    assert torch.allclose(loss.penalty(logits, labels, index), want)


def test_margin_indicator(batch, gradient, one_hot):
    """Table 6, second row: f of CRL, p (1 - p) at the top and p_top p_j elsewhere, where the margin of eq. 11 holds."""
    logits, labels = batch
    loss = CRL(n_samples=12, indicator="margin", margin=4.0)
    p = logits.softmax(1)
    p_top, top = p.max(1, keepdim=True)
    at_top = one_hot(top[:, 0], 6) == 1
    pos = p * (1 - p) * (logits.amax(1, keepdim=True) - logits.amin(1, keepdim=True) > 4)
    neg = -p_top * p * (logits.amax(1, keepdim=True) - logits > 4)
    want = torch.where(at_top, pos, neg) / 12
    assert 0 < (want != 0).double().mean() < 1
    assert torch.allclose(gradient(loss.penalty, logits, labels, torch.arange(12)), want)


def test_margin_indicator_is_the_confidence_of_the_spread(batch):
    """Its value: the mean of the top probabilities, 0 for a sample whose logits are closer than the margin."""
    logits, labels = batch
    confidence = logits.softmax(1).max(1).values
    spread = logits.amax(1) - logits.amin(1)
    for margin in (0.0, spread.median().item() - 1e-3, spread.max().item() + 1):
        loss = CRL(n_samples=12, indicator="margin", margin=margin)
        want = (confidence * (spread > margin)).mean()
        assert torch.allclose(loss.penalty(logits, labels, torch.arange(12)), want, rtol=1e-14)


def test_bad_index_and_hits(three):
    loss, right = CRL(n_samples=4), three[1] == 0
    for index, got in (
        (None, "None"),
        ([0, 1, 2], "list"),
        (torch.tensor([0.0, 1, 2]), "dtype torch.float32"),
        (torch.tensor([0, 1]), r"shape \(2,\)"),
        (torch.tensor([0, 1, 9]), "9"),
        (torch.tensor([0, 1, -1]), "-1"),
    ):
        for call in (lambda i: loss(*three, i), lambda i: loss.penalty(*three, i), lambda i: loss.update(i, right)):
            refused(f"`index` to be .*, but got {got}", call, index)
    for hits in (torch.tensor([1]), [True]):
        refused("`correct` to be a boolean tensor", loss.update, torch.tensor([0]), hits)
