"""The affine map and its parameters, against numpy's products."""

import numpy as np
import pytest
import torch

from calibkit.fitting import affine


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("diagonal", [True, False])
def test_the_map_of_parameters_is_that_of_the_fitted_arrays(n_classes, diagonal):
    rng = np.random.default_rng(n_classes)
    weights = rng.normal(size=n_classes if diagonal else (n_classes, n_classes))
    bias, z = rng.normal(size=n_classes), rng.normal(size=(7, n_classes))
    x = torch.from_numpy(np.column_stack([weights, bias]))
    found = affine.arrays(x)
    np.testing.assert_array_equal(found[0], weights)
    np.testing.assert_array_equal(found[1], bias)
    want = z @ (np.diag(weights) if diagonal else weights).T + bias
    np.testing.assert_allclose(affine.apply(x, torch.from_numpy(z)), want, atol=1e-14)
    np.testing.assert_allclose(affine.transform(*map(torch.from_numpy, (z, weights, bias))), want, atol=1e-14)


def test_fitted_arrays_share_no_memory_with_the_parameters():
    x = torch.arange(12, dtype=torch.float64).view(3, 4)
    weights, bias = affine.arrays(x)
    x.zero_()
    assert weights[2, 2] == 10.0 and bias[1] == 7.0 and weights.flags["C_CONTIGUOUS"]
