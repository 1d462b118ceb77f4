"""Maximum mean calibration error."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.losses.mmce import MMCE, kernel_form


def by_pairs(logits, labels, weighted, variant):
    """The formulas pair by pair, in plain Python."""
    confidence, top = logits.softmax(1).max(1)
    r, c = confidence.tolist(), (top == labels).tolist()
    rows, m = range(len(r)), sum(c)
    n = len(r) - m

    def pairs(first, second, weight):
        return sum(weight(i) * weight(j) * math.exp(-abs(r[i] - r[j]) / 0.4) for i in first for j in second)

    if not weighted:
        square = pairs(rows, rows, lambda i: c[i] - r[i]) / len(r) ** 2
        return square if variant == "code" else math.sqrt(square)
    right, wrong = [i for i in rows if c[i]], [i for i in rows if not c[i]]
    blocks = [(right, right, m * m, 1), (wrong, wrong, n * n, 1), (right, wrong, m * n, -2)]
    total = 0.0
    for first, second, size, sign in blocks:
        block = pairs(first, second, lambda i: 1 - r[i] if c[i] else r[i]) / size
        total += sign * (block if variant == "paper" else block / size)
    return math.sqrt(total)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("variant", ["paper", "code"])
def test_equals_the_pairs(batch, weighted, variant):
    """Up to the code's 1e-10 below the root and its 1e-5 in denominators of at least 16."""
    want = by_pairs(*batch, weighted, variant)
    assert MMCE(weighted=weighted, variant=variant).penalty(*batch).item() == pytest.approx(want, rel=1e-6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0.1, 0.25, 0.5, 0.9, 1.0]), st.floats(-1, 1)), min_size=1, max_size=12))
def test_kernel_form_with_ties(pairs):
    r, u = (torch.tensor(x, dtype=torch.float64) for x in zip(*sorted(pairs), strict=True))
    r.requires_grad_()
    dense = (u[:, None] * u[None, :] * torch.exp(-(r[:, None] - r[None, :]).abs() / 0.4)).sum()
    form = kernel_form(r, u)
    assert torch.allclose(form, dense, atol=1e-12)
    assert torch.allclose(torch.autograd.grad(form, r)[0], torch.autograd.grad(dense, r)[0], atol=1e-11)


def test_weighted_needs_right_and_wrong_samples(batch):
    logits, _ = batch
    for labels in (logits.argmax(1), (logits.argmax(1) + 1) % 6):
        assert MMCE(variant="paper").penalty(logits, labels) == MMCE().penalty(logits, labels) == 0


def test_large_batches():
    """A segmentation map has too many pixels for all their pairs: 10^6 rows take no more than their own memory."""
    logits = torch.randn(1, 3, 1000, 1000, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(3, (1, 1000, 1000), generator=torch.Generator().manual_seed(1))
    few = MMCE(weighted=False).penalty(logits[:, :, :60, :60].double(), labels[:, :60, :60])
    assert MMCE(weighted=False).penalty(logits, labels).item() == pytest.approx(few.item(), rel=0.05)
