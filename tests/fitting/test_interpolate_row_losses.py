"""The table of the rows' losses against torch's cross-entropy, and its derivative against autograd."""

import pytest
import torch
import torch.nn.functional as F

from calibkit.fitting.interpolate import CELL, RowLosses


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 10, 300])
def test_losses_and_slopes_wherever_the_rows_go(n_classes, smoothing):
    g = torch.Generator().manual_seed(n_classes)
    z = 4 * torch.randn(400, n_classes, generator=g)
    y = torch.randint(0, n_classes, (400,), generator=g)
    table = RowLosses(z, y, smoothing)
    for centre, width in ((0.0, 0.0), (-0.5, 1.0), (-0.5, 1.0), (2.0, 3 * CELL), (-8.0, 1.0)):
        x = (centre + width * torch.rand(400, generator=g, dtype=torch.float64)).requires_grad_()
        known = F.cross_entropy(x.exp()[:, None] * z.double(), y, label_smoothing=smoothing, reduction="none")
        (slope,) = torch.autograd.grad(known.sum(), x)
        ce, by_x = table(x.detach())
        torch.testing.assert_close(ce, known.detach(), rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(by_x, slope, rtol=1e-6, atol=1e-6)


def test_a_part_of_the_rows_is_looked_up_alone():
    g = torch.Generator().manual_seed(0)
    z, y = torch.randn(50, 5, generator=g, dtype=torch.float64), torch.randint(0, 5, (50,), generator=g)
    x, table = torch.rand(50, generator=g, dtype=torch.float64), RowLosses(z, y)
    parts = [table(x[rows], rows)[0] for rows in (slice(30, 50), slice(0, 30))]
    assert torch.equal(torch.cat(parts[::-1]), RowLosses(z, y)(x)[0])
    assert (table.cell == (x / CELL).floor()).all()
