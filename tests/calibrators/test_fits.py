"""A fit is the same wherever it runs, and whole or not at all."""

import numpy as np
import pytest
import torch

from calibkit.calibrators import CALIBRATORS


@pytest.fixture
def sample():
    """(300, 4) logits three times too large, and labels."""
    rng = np.random.default_rng(3)
    true = 2 * rng.normal(size=(300, 4))
    return 3 * true, (true + rng.gumbel(size=true.shape)).argmax(1)


@pytest.mark.slow
@pytest.mark.parametrize("make", [CALIBRATORS["ms_odir"], lambda: CALIBRATORS["pts"](solver="sctl")])
def test_a_fit_under_autocast_is_the_same(make, sample):
    z, y = torch.tensor(sample[0]).float(), torch.tensor(sample[1])
    plain = make().fit(z, y)(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = make().fit(z, y)
    assert torch.equal(inside(z), plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["temperature_scaling", "ets"])
def test_a_replay_is_in_float32_whatever_the_default(name, sample):
    found = []
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            found.append(CALIBRATORS[name](solver="sctl").fit(*sample)(sample[0]))
    finally:
        torch.set_default_dtype(torch.float32)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_a_fit_that_stops_midway_leaves_the_one_before(sample, monkeypatch):
    class Stopped(CALIBRATORS["temperature_scaling"]):
        def _fit(self, logits, labels):
            super()._fit(logits, labels)
            raise KeyboardInterrupt

    method = CALIBRATORS["temperature_scaling"]().fit(*sample)
    before = method.state_dict()
    monkeypatch.setattr(method, "__class__", Stopped)
    with pytest.raises(KeyboardInterrupt):
        method.fit(sample[0] / 2, sample[1])
    assert method.state_dict() == before
