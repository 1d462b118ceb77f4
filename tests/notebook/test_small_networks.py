"""Networks on scanned digits: the draws, the training and what is measured, each against a slow or independent way."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from refusals import refused

from book.kit.notebook import small_networks as small
from calibkit.data import load_split
from calibkit.losses import LOSSES


def test_networks_trained_together_are_those_trained_alone():
    losses = [F.cross_entropy, LOSSES["mbls"](margin=2.0)]
    both = small.many_on_digits(losses, n_draws=2, n_train=30, steps=5)
    for i, loss in enumerate(losses):
        alone = small.many_on_digits([loss], n_draws=2, n_train=30, steps=5)
        for split in ("train", "val", "test"):
            torch.testing.assert_close(both[split][0][i], alone[split][0][0], rtol=0, atol=1e-12)


def test_training_is_that_of_a_network_of_torch():
    """The first draw, in torch's own layers."""
    outcome = small.many_on_digits([F.cross_entropy], n_draws=1, n_train=40, hidden=8, steps=7, lr=0.01, seed=3)
    images, labels = load_split("digits", "train")
    rng = torch.Generator().manual_seed(3)
    order = torch.randperm(len(labels), generator=rng)
    first = torch.randn(1, 64, 8, generator=rng, dtype=torch.float64)[0] / 8
    second = torch.randn(1, 8, 10, generator=rng, dtype=torch.float64)[0] / 8**0.5
    model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10)).double()
    with torch.no_grad():
        for layer, weight in ((model[0], first), (model[2], second)):
            layer.weight.copy_(weight.T)
            layer.bias.zero_()
    x = torch.from_numpy(np.array(images)).double().flatten(1) / 255 - 0.3
    y = torch.from_numpy(labels)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(7):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1 + np.cos(np.pi * step / 7)) / 2
        optimizer.zero_grad()
        F.cross_entropy(model(x[order[:40]]), y[order[:40]]).backward()
        optimizer.step()
    with torch.no_grad():
        torch.testing.assert_close(outcome["train"][0][0, 0], model(x[order[:40]]), rtol=0, atol=1e-10)
        torch.testing.assert_close(outcome["val"][0][0, 0], model(x[order[40:]]), rtol=0, atol=1e-10)
    assert torch.equal(outcome["val"][1][0], y[order[40:]])


def test_no_image_is_in_two_splits():
    outcome = small.many_on_digits([F.cross_entropy], n_draws=3, n_train=25, steps=1)
    for split, n in (("train", 25), ("val", 975), ("test", 497)):
        assert outcome[split][0].shape == (1, 3, n, 10) and outcome[split][1].shape == (3, n)
    counts = sum(np.bincount(outcome[split][1][0].numpy(), minlength=10) for split in ("train", "val"))
    assert (counts == np.bincount(load_split("digits", "train").labels, minlength=10)).all()


def test_scores_by_hand():
    logits = torch.log(torch.tensor([[[[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]]], dtype=torch.float64))
    labels = torch.tensor([[0, 1, 0]])
    (score,) = small.digit_scores({"test": (logits, labels)}, "test", n_bins=10)[0]
    assert score[0] == pytest.approx(100 * (2 / 3 * 0.4 + 1 / 3 * 0.4))
    assert score[1:] == pytest.approx([200 / 3, 80.0, -np.log([0.9, 0.1, 0.6]).mean()])


@pytest.mark.slow
def test_training_on_digits_learns_diverges_and_repeats():
    first, again = (small.train_on_digits(LOSSES["cross_entropy"](), epochs=5) for _ in range(2))
    assert torch.equal(first[0], again[0]) and first[0].dtype == torch.float64
    assert float((first[0].argmax(1) == first[1]).double().mean()) > 0.9
    assert small.train_on_digits(LOSSES["cross_entropy"](), epochs=1, lr=1e30) is None


def test_other_errors_of_a_training_are_not_hidden():
    class Broken(torch.nn.Module):
        def forward(self, logits, labels):
            raise ValueError("wrong labels")

    with pytest.raises(ValueError, match="wrong labels"):
        small.train_on_digits(Broken(), epochs=1)


def test_impossible_draws_are_refused():
    for option, value in (("n_draws", 0), ("n_train", 0), ("n_train", 1000)):
        options = {"n_draws": 1, "n_train": 10, "steps": 1} | {option: value}
        refused(f"`{option}`", small.many_on_digits, [F.cross_entropy], **options)
