"""CutMix and Monte-Carlo dropout in training: cross-entropy with a change of the recipe."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused
from torch import nn

from calibkit import data
from calibkit.__main__ import main
from calibkit.logits import Logits
from calibkit.models import build, mc_dropout
from calibkit.training import RECIPES, Recipe, assemble, fit, predict
from calibkit.training.batches import Mix

RECIPE = Recipe(1, batch_size=60, lr=0.05, augment="none", precision="64-true")


def test_a_box_is_pasted_and_the_share_counts_its_pixels():
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        mix = Mix.draw(5, 12, 20, generator)
        images, others = torch.zeros(5, 2, 12, 20), torch.ones(5, 2, 12, 20)
        own = (mix.paste(images, others) == 0).double().mean((1, 2, 3))
        assert torch.allclose(own, torch.full((5,), mix.share, dtype=torch.float64))
        assert sorted(mix.partner.tolist()) == [0, 1, 2, 3, 4]


def test_the_mean_share_is_that_of_the_paper():
    """A box of side r covers r - r^2 / 4 of an axis in the mean, and r^2 is uniform: E (r - r^2 / 4)^2 = 0.3208."""
    generator = torch.Generator().manual_seed(0)
    shares = [Mix.draw(1, 1000, 800, generator).share for _ in range(5000)]
    assert np.mean(shares) == pytest.approx(1 - (1 / 2 - 1 / 5 + 1 / 48), abs=0.01)


class Watched(nn.Module):
    """A linear network that keeps the images it is trained on."""

    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(64, 10), []

    def forward(self, x):
        if self.training:
            self.seen.append(x[:, 0].detach().clone())
        return self.linear(x.flatten(1))


class Heard(nn.Module):
    """Cross-entropy that keeps the labels it is called with, and its values."""

    def __init__(self):
        super().__init__()
        self.labels, self.values = [], []

    def forward(self, z, y):
        value = F.cross_entropy(z, y)
        if z.requires_grad:
            self.labels.append(y)
            self.values.append(value.item())
        return value


@pytest.fixture
def draws(monkeypatch):
    """What the trainer draws."""
    kept, draw = [], Mix.draw

    def keeping(*args):
        kept.append(draw(*args))
        return kept[-1]

    monkeypatch.setattr(Mix, "draw", keeping)
    return kept


def test_the_trainer_mixes_images_and_labels_alike(tmp_path, draws):
    """Outside of the box every image is one of its label's, inside of it one of its partner's, and so is the loss."""
    network, loss = Watched().double(), Heard()
    fit(network, loss, "digits", dataclasses.replace(RECIPE, cutmix=1.0), folder=tmp_path, device="cpu")
    spec, split = data.DATASETS["digits"], data.load_split("digits", "train")
    images = (torch.from_numpy(np.array(split.inputs))[..., 0] / 255.0 - spec.mean[0]) / spec.std[0]
    labels = torch.from_numpy(np.array(split.labels))
    assert len(draws) == len(network.seen) == len(loss.labels) / 2 == -(-len(labels) // 60)
    for mix, batch, own, other in zip(draws, network.seen, loss.labels[::2], loss.labels[1::2], strict=True):
        assert (other == own[mix.partner]).all()
        inside = torch.zeros(8, 8, dtype=torch.bool)
        inside[mix.rows, mix.columns] = True
        for image, a, b in zip(batch, own, other, strict=True):
            for label, part in ((a, ~inside), (b, inside)):
                away = (images[labels == label] - image).abs()[:, part].sum(1)
                assert away.min() < 1e-3
    shares, sizes = np.array([mix.share for mix in draws]), [len(y) for y in loss.labels[::2]]
    mixed = shares * loss.values[::2] + (1 - shares) * loss.values[1::2]
    log = np.genfromtxt(tmp_path / "log.csv", delimiter=",", names=True)
    assert log["train_loss"] == pytest.approx(np.average(mixed, weights=sizes), rel=1e-4)


def test_half_of_the_batches(tmp_path, draws):
    recipe = dataclasses.replace(RECIPE, cutmix=0.5, batch_size=5)
    network = Watched().double()
    fit(network, nn.CrossEntropyLoss(), "digits", recipe, folder=tmp_path, device="cpu")
    assert 0.35 < len(draws) / len(network.seen) < 0.65


def test_mc_dropout_is_the_mean_over_masks():
    """Against a slow loop over the masks, whose share of zeros is the rate."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 400), nn.ReLU(), nn.Linear(400, 3)).double()
    x = torch.randn(7, 6, dtype=torch.float64)
    plain, features = network(x).detach(), network[:2](x)
    log_p = mc_dropout(network, 0.25, 40, seed=3).eval()(x).detach()
    generator = torch.Generator().manual_seed(3)
    masks = torch.rand(40, 400, generator=generator) >= 0.25
    assert 0.73 < masks.double().mean() < 0.77
    by_hand = torch.zeros(7, 3, dtype=torch.float64)
    for mask in masks:
        u = (features * mask / 0.75) @ network[2].weight.T + network[2].bias
        by_hand += u.softmax(1).detach() / 40
    torch.testing.assert_close(log_p.exp(), by_hand)
    torch.testing.assert_close(network(x[:2]), log_p[:2])  # the same masks for every sample and call
    assert (log_p.amax(1) < plain.log_softmax(1).amax(1)).double().mean() > 0.5


def test_a_second_call_replaces_the_first():
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    once, twice = nn.Linear(6, 3), nn.Linear(6, 3)
    twice.load_state_dict(once.state_dict())
    mc_dropout(mc_dropout(twice, 0.5, 5, seed=1), 0.25, 40, seed=3)
    torch.testing.assert_close(twice.eval()(x), mc_dropout(once, 0.25, 40, seed=3).eval()(x), rtol=0, atol=0)


def test_a_finished_run_gives_back_its_network(tmp_path):
    """With dropout before its last layer: what it predicts are the logits of the run."""
    recipe = Recipe(1, batch_size=100, precision="64-true", dropout=0.5)
    for _ in range(2):
        network = build("small_cnn", 10, channels=1).double()
        logits = fit(network, nn.CrossEntropyLoss(), "digits", recipe, folder=tmp_path)
        predicted = predict(network, data.load_split("digits", "test").inputs, "digits")
        np.testing.assert_allclose(predicted, logits.test_logits, rtol=0, atol=1e-12)


def test_mc_dropout_drops_in_training_only_features_of_the_last_layer():
    network = mc_dropout(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), 0.5)
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(4))
        network[0].bias.zero_()
        network[1].weight.fill_(1.0)
        network[1].bias.zero_()
    sums = torch.cat([network(torch.ones(1, 4))[0, :1] for _ in range(200)])  # the features that are left, times 2
    assert set(sums.tolist()) == {0.0, 2.0, 4.0, 6.0, 8.0}


def test_a_network_without_a_linear_layer():
    refused("`model` to be a network with a linear layer, but got Conv2d", mc_dropout, nn.Conv2d(1, 2, 3))


def test_variants_train_by_their_names(tmp_path, monkeypatch):
    smoke = dataclasses.replace(RECIPES["smoke", "digits"], epochs=1, batch_size=500)
    monkeypatch.setitem(RECIPES, ("smoke", "digits"), smoke)
    call = ["train", "--dataset", "digits", "--model", "small_cnn", "--budget", "smoke", "--out", str(tmp_path)]
    assert main([*call, "--loss", "mc_dropout"]) == 0
    logits = Logits.load(tmp_path / "logits.npz")
    assert (logits.meta["loss"], logits.meta["recipe"]["dropout"]) == ("mc_dropout", 0.1)
    np.testing.assert_allclose(np.exp(logits.test_logits).sum(1), 1, rtol=1e-6)  # log-probabilities, of a mean
    assert assemble("digits", "small_cnn", "cutmix cutmix=1.0", "smoke")[2] == dataclasses.replace(smoke, cutmix=1.0)
