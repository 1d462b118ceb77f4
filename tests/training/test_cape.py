"""CaPE-bin: in some epochs the confidence is trained towards the accuracy of its bin."""

import dataclasses

import numpy as np
import pytest
import torch
from digits_runs import RECIPE, digits_model, ending_after, train_digits
from torch import nn

from calibkit import data
from calibkit.training import RECIPES, assemble, fit, predict, trainer
from calibkit.training.batches import Feed
from calibkit.training.cape import accuracy_of_bins, bin_targets, confidence_loss

CAPE = dataclasses.replace(RECIPE, milestones=(), schedule="steps", cape_bins=5, cape_every=2)


@pytest.mark.parametrize(("n", "n_bins"), [(103, 10), (7, 10), (40, 1), (2000, 15)])
def test_the_accuracy_of_a_bin_by_a_slow_loop(n, n_bins):
    """Bin b holds the samples from rank int(b N / B) on, as the authors' code cuts them; also with ties."""
    rng = np.random.default_rng(n)
    confidence, right = np.round(rng.random(n), 2), rng.random(n) < 0.6
    expected, order = np.zeros(n), np.argsort(confidence, kind="stable")
    for b in range(n_bins):
        rows = order[int(b * n / n_bins) : int((b + 1) * n / n_bins)]
        for row in rows:
            expected[row] = sum(right[rows]) / len(rows)
    found = accuracy_of_bins(torch.from_numpy(confidence), torch.from_numpy(right), n_bins)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)


def test_the_loss_and_its_gradient_are_the_printed_ones():
    generator = torch.Generator().manual_seed(0)
    z = (3 * torch.randn(50, 4, generator=generator, dtype=torch.float64)).requires_grad_()
    a = torch.rand(50, generator=generator, dtype=torch.float64)
    loss = confidence_loss(z, a)
    p = z.detach().softmax(1)
    kappa, top = p.max(1)
    by_hand = -(a * kappa.log() + (1 - a) * (1 - kappa).log())
    torch.testing.assert_close(loss.detach(), by_hand.mean())
    gradient = -((kappa - a) / (1 - kappa))[:, None] * p
    gradient[torch.arange(50), top] = kappa - a
    torch.testing.assert_close(torch.autograd.grad(loss, z)[0], gradient / 50)


def test_a_sure_network_has_a_finite_loss():
    z = torch.tensor([[400.0, -400.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    loss = confidence_loss(z, torch.tensor([0.5, 1.0]))
    loss.backward()
    assert loss.isfinite() and z.grad.isfinite().all()


def test_the_targets_are_those_of_the_network_in_evaluation_mode():
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 10)).double()
    split, spec = data.load_split("digits", "train"), data.DATASETS["digits"]
    labels = torch.from_numpy(np.array(split.labels))
    targets = bin_targets(network, Feed(split.inputs, spec, torch.device("cpu"), torch.float64), labels, 7)
    assert network.training and all(weight.requires_grad for weight in network.parameters())
    p = torch.from_numpy(predict(network.eval(), split.inputs, "digits")).softmax(1)
    torch.testing.assert_close(targets, accuracy_of_bins(p.amax(1), p.argmax(1) == labels, 7))


def test_every_second_epoch_trains_towards_the_bins_of_the_network_it_began_with(tmp_path, monkeypatch):
    """All bins together are right as often as the network; the loss and the labels are for the other epochs."""
    targets = []

    def hearing(logits, accuracy):
        targets.append(accuracy)
        return confidence_loss(logits, accuracy)

    monkeypatch.setattr(trainer, "confidence_loss", hearing)
    split, network = data.load_split("digits", "train"), digits_model()
    once = dataclasses.replace(CAPE, epochs=1)
    fit(network, nn.CrossEntropyLoss(), "digits", once, folder=tmp_path / "once", device="cpu")
    right = (predict(network, split.inputs, "digits").argmax(1) == split.labels).mean()
    n_steps = -(-len(split.labels) // CAPE.batch_size)
    twice = dataclasses.replace(CAPE, epochs=2)
    loss = ending_after(n_steps)  # it would end the second epoch
    fit(digits_model(), loss, "digits", twice, folder=tmp_path / "twice", device="cpu")
    assert len(targets) == n_steps and len(torch.cat(targets).unique()) <= CAPE.cape_bins
    assert float(torch.cat(targets).mean()) == pytest.approx(right)


def test_a_killed_run_ends_in_the_same_logits(tmp_path):
    whole = train_digits(tmp_path / "whole", recipe=CAPE)
    n_steps = -(-len(data.load_split("digits", "train").labels) // CAPE.batch_size)
    with pytest.raises(KeyboardInterrupt):  # in the third epoch
        train_digits(tmp_path / "cut", ending_after(n_steps + 5), CAPE, meta={"loss": "CrossEntropyLoss()"})
    again = train_digits(tmp_path / "cut", recipe=CAPE)
    np.testing.assert_array_equal(again.test_logits, whole.test_logits)


def test_its_name_is_that_of_cross_entropy_with_bins():
    recipe = RECIPES["smoke", "digits"]
    assert assemble("digits", "small_cnn", "cape_bin cape_every=2", "smoke")[2] == dataclasses.replace(
        recipe, cape_bins=10, cape_every=2
    )
