"""Rows that do not count."""

import pytest
import torch

from calibkit.losses import LOSSES


@pytest.mark.parametrize("odd", [-torch.inf, torch.nan])
@pytest.mark.parametrize("name", ["cross_entropy", "focal", "flsd", "brier", "mmce", "mdca", "ecp"])
def test_the_logits_of_an_ignored_row_do_not_matter(name, odd):
    z = torch.tensor([[-1.0, 1.0, 2.0], [odd, 0.0, 3.0], [0.0, 2.0, 1.0]], requires_grad=True)
    value = LOSSES[name]()(z, torch.tensor([1, -100, 1]))
    value.backward()
    assert value.item() == pytest.approx(LOSSES[name]()(z.detach()[[0, 2]], torch.tensor([1, 1])).item(), rel=1e-6)
    assert z.grad.isfinite().all()
    assert not z.grad[1].any()
