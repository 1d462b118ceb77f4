"""Calibration by pairwise constraints."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from calibkit.losses import cpc
from calibkit.losses.cpc import CPC, PairSum


def by_pairs(logits, labels, variant):
    """Both terms pair by pair, in plain Python."""

    def log_sigmoid(x):
        return -math.log1p(math.exp(-x))

    one_v_one = exclusion = 0.0
    n, k_classes = logits.shape
    for z, y in zip(logits.tolist(), labels.tolist(), strict=True):
        others = [k for k in range(k_classes) if k != y]
        one_v_one -= sum(log_sigmoid(z[y] - z[k]) for k in others)
        if variant == "code":
            exclusion -= 0.5 * sum(log_sigmoid(z[k] - z[m]) for k in others for m in others)
        else:
            exclusion -= sum(log_sigmoid(z[k] - z[m]) for k in others for m in others if k != m)
    if variant == "code":
        return one_v_one / ((k_classes - 1) * n), exclusion / ((k_classes - 1) * (k_classes - 2) * n)
    return one_v_one / n, exclusion / n


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_equals_the_pairs(batch, variant):
    one_v_one, exclusion = by_pairs(*batch, variant)
    loss = CPC(weight_1v1=0.3, weight_be=0.7, variant=variant)
    assert loss.penalty(*batch).item() == pytest.approx(0.3 * one_v_one + 0.7 * exclusion, rel=1e-12)


def test_gradient_is_acls_table_2_with_its_signs_right(batch, gradient):
    """Row CPC: dL/dz_j = p_j - (q_j + f). Printed for j != y is f = +l1 p_j / (p_y + p_j) + ...; it is -l1."""
    logits, labels = batch
    p = logits.softmax(1)
    p_y = p.gather(1, labels[:, None])
    is_y = torch.arange(6) == labels[:, None]
    one_v_one = (p / (p_y + p)).masked_fill(is_y, 0)
    one_v_one -= torch.where(is_y, one_v_one.sum(1, keepdim=True), 0)
    ratios = (p[:, :, None] - p[:, None, :]) / (p[:, :, None] + p[:, None, :])
    exclusion = ratios.masked_fill(is_y[:, None, :], 0).sum(2).masked_fill(is_y, 0)
    for weights, want in (((1.0, 0.0), one_v_one), ((0.0, 1.0), exclusion)):
        loss = CPC(weight_1v1=weights[0], weight_be=weights[1], variant="paper")
        slope = gradient(loss.penalty, logits, labels)
        assert torch.allclose(slope, want / 12, rtol=1e-10, atol=1e-14)


def test_blocks_do_not_matter(batch, gradient, monkeypatch):
    logits, _ = batch
    whole = gradient(lambda z: PairSum.apply(z).sum(), logits)
    for block_bytes in (1, 12 * 6 * 8 * 2, 12 * 6 * 8 * 4, 1 << 20):
        monkeypatch.setattr(cpc, "BLOCK_BYTES", block_bytes)
        assert torch.allclose(gradient(lambda z: PairSum.apply(z).sum(), logits), whole, rtol=1e-13)


class LargestTensor(TorchDispatchMode):
    """Records the bytes of the largest tensor that any operation makes."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.largest = max(self.largest, out.numel() * out.element_size())
        return out


def test_memory_at_a_thousand_classes():
    """All (N, K, K) pairs would be 64 MB a tensor; no tensor here is larger than a block, 1 MB."""
    logits = torch.randn(16, 1000, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with LargestTensor() as seen:
        CPC()(logits, torch.arange(16)).backward()
    assert seen.largest <= 1 << 20


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_with_two_classes_there_is_no_pair_to_exclude(variant):
    logits, labels = torch.tensor([[3.0, -3], [-2, 2]]), torch.tensor([0, 1])
    assert CPC(weight_1v1=0, weight_be=1.0, variant=variant).penalty(logits, labels) == 0


def test_a_second_derivative_is_refused():
    z = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="CPC has no second derivative"):
        torch.autograd.grad(CPC()(z, torch.tensor([0, 1, 2, 3])), z, create_graph=True)
