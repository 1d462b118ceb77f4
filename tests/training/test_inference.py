"""Prediction: in evaluation mode, and the network is left as it was found."""

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

from calibkit import data
from calibkit.data import DATASETS
from calibkit.training import predict
from calibkit.training.batches import Feed
from calibkit.training.inference import pixels_of

IMAGES = data.load_split("digits", "test").inputs[:20]


def test_every_layer_keeps_its_mode_and_statistics():
    """Also after an error. One of two normalisations is in evaluation mode."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 10))
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    logits = predict(model, IMAGES, "digits")
    with pytest.raises(RuntimeError):
        predict(model, IMAGES[:, :2, :2], "digits")
    assert [module.training for module in model.modules()] == [True, False, True, True, True, True]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    np.testing.assert_array_equal(logits, predict(model.eval(), IMAGES, "digits"))
    model = nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3).eval())  # in training mode but for its second layer
    images = np.random.default_rng(0).integers(0, 256, (2, 6, 4, 3), dtype=np.uint8)
    labels = np.zeros((2, 6, 4), np.int16)
    pixels_of(model, Feed(images, DATASETS["camvid"], torch.device("cpu"), torch.float32), labels)
    assert [module.training for module in model.modules()] == [True, True, False]


def test_what_is_no_input_of_the_data_set_is_refused():
    model, tokens = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), np.zeros((2, 5))
    for network, inputs, name, message in [
        (model, IMAGES / 255.0, "digits", "`inputs` to be uint8, as load_split gives them, but got dtype float64"),
        (model, [1], "digits", "`inputs` to be uint8, .*, but got dtype int64"),
        (model, IMAGES[0], "digits", r"`inputs` to be of shape \(N, H, W, 1\) with N >= 1, but got shape \(8, 8, 1\)"),
        (model, IMAGES[:0], "digits", "`inputs` to be of shape .*, but got shape"),
        (model, IMAGES, "cifar10", r"`inputs` to be of shape \(N, H, W, 3\)"),
        (model, tokens, "20newsgroups", "`inputs` to be integers, as load_split gives them, but got dtype float64"),
        (nn.Identity(), IMAGES, "digits", "`model` to be a network with weights, but got Identity"),
    ]:
        refused(message, predict, network, inputs, name)
