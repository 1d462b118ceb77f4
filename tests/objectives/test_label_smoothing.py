import pytest
import torch
import torch.nn.functional as F

from calibkit.objectives import LabelSmoothing

Z = torch.tensor([[8.0, 1, -3, 0], [2, 5, 4.5, -6], [0, 0.5, 0.2, 12]], dtype=torch.float64)
Y = torch.tensor([0, 2, 3])


def test_value_as_printed_by_the_authors_code():
    assert LabelSmoothing(0.05).value(Z, Y) == pytest.approx(0.642798, abs=5e-7)  # MbLS repository, dc86503


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.4])
def test_equals_torch(alpha):
    assert LabelSmoothing(alpha).value(Z, Y) == pytest.approx(float(F.cross_entropy(Z, Y, label_smoothing=alpha)))


@pytest.mark.parametrize("alpha", [-0.1, 1.0, "a", None])
def test_bad_alpha(alpha):
    with pytest.raises(ValueError, match="Expected `alpha` to be a number in"):
        LabelSmoothing(alpha)
