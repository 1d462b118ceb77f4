"""Arrays and tensors on the CPU while torch's default device is another, as ``torch.set_default_device("cuda")`` does.

That device is "meta" here, which has no values: whatever is made on it by mistake raises, as one on a GPU does.
"""

from functools import partial

import numpy as np
import pytest
import torch
from drawn_logits import logits
from torch import nn

from calibkit import METRICS, bootstrap, calibration_test, evaluate, score_parts, variational_ece
from calibkit.calibrators import CALIBRATORS, Calibrator, NeuralClamping, TemperatureScaling
from calibkit.metrics import adaptive_ece, ece
from calibkit.metrics.other_packages import MASS_RULES, WIDTH_RULES
from calibkit.models import mc_dropout
from calibkit.training.batches import Mix

Z, Y = logits(200, 4)
P = torch.from_numpy(Z).softmax(1).numpy()


def alike(compute):
    """Assert that ``compute()`` is the same with another default device."""
    want = compute()
    try:
        torch.set_default_device("meta")
        got = compute()
    finally:
        torch.set_default_device(None)
    assert str(got) == str(want)


def test_metrics():
    alike(lambda: evaluate(P, Y))
    alike(lambda: bootstrap(P, Y, [*METRICS], n_resamples=3))
    alike(lambda: [ece(P, Y, like=rule) for rule in WIDTH_RULES])
    alike(lambda: [adaptive_ece(P, Y, like=rule) for rule in MASS_RULES])


def test_tests_and_parts():
    alike(lambda: [calibration_test(P, Y, classwise=classwise) for classwise in (False, True)])
    alike(lambda: score_parts(P, Y, TemperatureScaling()))
    alike(lambda: variational_ece(P, Y))


@pytest.mark.parametrize("name", [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)])
def test_calibrators(name):
    alike(lambda: CALIBRATORS[name]().fit(Z, Y)(Z).tolist())


def test_neural_clamping():
    network, images = nn.Linear(4, 4, bias=False), Z.astype(np.float32)  # which says what the logits say
    nn.init.eye_(network.weight)
    for init in ("theorem", "random"):
        new = partial(NeuralClamping, epochs=1, init=init, input_range=(-5.0, 5.0))
        alike(lambda new=new: new().fit(network, images, Y).delta.tolist())


def test_draws_of_a_training():
    image, layer = torch.ones(2, 3), nn.Linear(3, 4).eval()
    alike(lambda: Mix.draw(5, 8, 8, torch.Generator().manual_seed(0)))
    alike(lambda: mc_dropout(layer, 0.5, seed=1)(image).tolist())
