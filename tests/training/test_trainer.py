"""``fit`` as a whole: what it gives, keeps and refuses; its epochs against a plain loop; the command line."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from digits_runs import digits_model, train_digits
from refusals import refused
from torch import nn

from calibkit import data
from calibkit.__main__ import main
from calibkit.logits import Logits
from calibkit.losses import CRL, LOSSES
from calibkit.models import build, load_weights
from calibkit.training import Recipe, fit, predict


@pytest.mark.slow
def test_a_compiled_network_trains_to_the_same_logits(tmp_path, monkeypatch):
    """Through torch's tracer, with a backend that needs no compiler; masks of MC dropout among what is traced."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    recipe = Recipe(2, batch_size=300, lr=0.05, augment="none", precision="64-true", dropout=0.2)
    one, two = (
        fit(digits_model(), nn.CrossEntropyLoss(), "digits", recipe, folder=tmp_path / str(c), device="cpu", compile=c)
        for c in (False, True)
    )
    np.testing.assert_allclose(two.test_logits, one.test_logits, rtol=1e-10, atol=1e-10)


def test_a_network_in_another_precision_is_that_of_the_recipe(tmp_path):
    """Of the same numbers, in double precision and in single."""
    recipe = Recipe(1, batch_size=500, precision="32-true")
    one, two = (
        fit(model, nn.CrossEntropyLoss(), "digits", recipe, folder=tmp_path / str(i), device="cpu").test_logits
        for i, model in enumerate((digits_model(), digits_model().float()))
    )
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, two)


def test_another_recipe_does_not_take_over_a_folder(tmp_path):
    fit(digits_model(), nn.CrossEntropyLoss(), "digits", Recipe(1, precision="64-true"), folder=tmp_path)
    with pytest.raises(ValueError, match="Expected `folder` to be a run with recipe"):
        fit(digits_model(), nn.CrossEntropyLoss(), "digits", Recipe(2, precision="64-true"), folder=tmp_path)
    once = partial(fit, digits_model(), data="digits", recipe=Recipe(1, precision="64-true"), folder=tmp_path)
    refused("`folder` to be a run with seed 1, but got 0", once, nn.CrossEntropyLoss(), seed=1)
    refused("`folder` to be a run with loss MbLS.*, but got CrossEntropyLoss", once, LOSSES["mbls"]())
    with pytest.raises(ValueError, match="Expected `folder` to be a run with pretrained True, but got None"):
        once(nn.CrossEntropyLoss(), meta={"pretrained": True})


@pytest.mark.slow
def test_best_keeps_the_weights_of_the_best_epoch(tmp_path):
    """A loss that destroys the network in its fourth epoch: "best" ends above "last"."""
    recipe = {"epochs": 4, "batch_size": 50, "lr": 0.05, "milestones": (), "precision": "64-true"}

    class Spoiled(nn.CrossEntropyLoss):
        steps = 0

        def forward(self, logits, labels):
            self.steps += 1
            return super().forward(logits, labels) * (1.0 if self.steps <= 60 else -0.05)

    last = fit(digits_model(), Spoiled(), "digits", Recipe(**recipe), folder=tmp_path / "last")
    best = fit(digits_model(), Spoiled(), "digits", Recipe(**recipe, keep="best"), folder=tmp_path / "best")
    assert best.meta["accuracy"] > last.meta["accuracy"] + 0.3


@pytest.mark.parametrize(
    ("name", "accuracy"),
    [
        pytest.param(name, accuracy, marks=pytest.mark.data("cifar10", f"weights/cifar10_{name}.npz"))
        for name, accuracy in (("resnet20", 0.9173), ("resnet56", 0.9339))
    ],
)
def test_known_weights_reach_their_known_accuracy(name, accuracy, monkeypatch):
    """Public checkpoints, normalised as their authors did: 91.73% and 93.39% on the CIFAR-10 test images."""
    spec = data.DATASETS["cifar10"]
    changed = {**vars(spec), "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    monkeypatch.setitem(data.DATASETS, "cifar10", type(spec)(**changed))
    images, labels = data.load_split("cifar10", "test")
    model = load_weights(build(name, 10), data.cache() / "weights" / f"cifar10_{name}.npz")
    assert (predict(model, images, "cifar10").argmax(1) == labels).mean() == pytest.approx(accuracy, abs=1e-9)


@pytest.mark.slow
def test_a_loss_with_history_sees_every_image_and_resumes(tmp_path):
    """CRL counts the correct predictions of each image; a run cut after one epoch goes on with its counts."""
    recipe = {"batch_size": 64, "lr": 0.05, "precision": "64-true", "milestones": ()}
    whole = CRL(n_samples=1000)
    first = fit(digits_model(), whole, "digits", Recipe(2, **recipe), folder=tmp_path / "whole")
    assert int(whole.epochs) == 2 and 0 < int(whole.counts.max()) <= 2
    assert int(whole.counts.sum()) > 1000 * 0.2

    crl = {"loss": "crl"}

    class Stop(CRL):
        def end_epoch(self):
            super().end_epoch()
            if int(self.epochs) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(digits_model(), Stop(n_samples=1000), "digits", Recipe(2, **recipe), folder=tmp_path / "cut", meta=crl)
    again = CRL(n_samples=1000)
    second = fit(digits_model(), again, "digits", Recipe(2, **recipe), folder=tmp_path / "cut", meta=crl)
    np.testing.assert_array_equal(first.test_logits, second.test_logits)
    assert torch.equal(again.counts, whole.counts)


@pytest.mark.slow
def test_the_command_line_trains_once_with_a_loss_key(tmp_path, shell):
    """The option of the key reaches the loss, and the file says so; what the loss does not have is an error."""
    call = ["train", "--dataset", "digits", "--model", "small_cnn", "--budget", "smoke", "--out", str(tmp_path)]
    stamps = []
    for _ in range(2):
        assert "test accuracy 9" in shell([*call, "--device", "cpu", "--loss", "mbls,margin=2 weight=0.5"]).out
        stamps.append((tmp_path / "logits.npz").stat().st_mtime_ns)
    assert stamps[0] == stamps[1]
    meta = Logits.load(tmp_path / "logits.npz").meta
    assert meta["loss"] == "mbls margin=2 weight=0.5"
    assert meta["loss_options"] == {"margin": 2, "weight": 0.5}
    said = shell([*call, "--loss", "mbls margins=2"], 1).err
    assert "Expected `loss` to be with options among margin, weight" in said
    assert main([*call, "--loss", "mbls:nll"]) == 1


COMMON = {"batch_size": 96, "augment": "none", "precision": "64-true"}


RECIPES = {
    "sgd": Recipe(3, lr=0.1, momentum=0.8, weight_decay=1e-3, milestones=(0.5,), clip_norm=0.3, warmup=0.5, **COMMON),
    "adam": Recipe(2, lr=0.01, momentum=0.7, weight_decay=1e-2, schedule="cosine", optimizer="adam", **COMMON),
    "adamw": Recipe(2, lr=0.01, momentum=0.9, weight_decay=0.1, schedule="cosine", optimizer="adamw", **COMMON),
}


def images_of(name):
    """A split of the digits, normalised."""
    spec, split = data.DATASETS["digits"], data.load_split("digits", name)
    x = torch.from_numpy(np.array(split.inputs)).double()
    x = x * (1 / (255 * spec.std[0])) - spec.mean[0] / spec.std[0]  # Adam would enlarge another rounding
    return x.permute(0, 3, 1, 2), torch.from_numpy(np.array(split.labels)).long()


def optimizer_of(recipe, parameters):
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    cls = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer]
    return cls(parameters, betas=(recipe.momentum, 0.999), weight_decay=recipe.weight_decay)


@torch.no_grad()
def on(model, split):
    """Logits and labels, in evaluation mode."""
    x, y = images_of(split)
    model.eval()
    z = model(x)
    model.train()
    return z, y


def of_labels(z, y):
    """By hand: mean loss, accuracy, ECE of 15 bins, and the deviation of the classes' mean losses."""
    p, y = z.softmax(1).numpy(), y.numpy()
    loss, confidence, hit = -np.log(p[np.arange(len(y)), y]), p.max(1), p.argmax(1) == y
    which = np.ceil(15 * confidence)
    gaps = [abs((hit - confidence)[which == b].sum()) for b in range(1, 16)]
    return [loss.mean(), hit.mean(), sum(gaps) / len(y), np.std([loss[y == k].mean() for k in np.unique(y)])]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_steps_of_a_plain_loop(tmp_path, name):
    """Same logits; and the log has the last step's learning rate, means over the epoch, and the validation."""
    recipe, seed = RECIPES[name], 5
    logits = train_digits(tmp_path, recipe=recipe, seed=seed)
    model, (x, y) = digits_model().to(memory_format=torch.channels_last), images_of("train")
    optimizer, rows, n_steps = optimizer_of(recipe, model.parameters()), [], math.ceil(1000 / 96)
    for epoch in range(recipe.epochs):
        order = torch.randperm(1000, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
        losses, hits = 0.0, 0
        for step in range(n_steps):
            time = epoch + step / n_steps
            if recipe.schedule == "cosine":
                lr = recipe.lr * (1 + math.cos(math.pi * time / recipe.epochs)) / 2
            else:
                lr = recipe.lr * min(1, time / 0.5) * (0.1 if time >= 1.5 else 1)
            optimizer.param_groups[0]["lr"] = lr
            index = order[96 * step : 96 * (step + 1)]
            z = model(x[index]).float()  # in training, Fabric gives the loss logits of torch's default precision
            loss = F.cross_entropy(z, y[index])
            optimizer.zero_grad()
            loss.backward()
            if recipe.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            losses, hits = losses + loss.item() * len(index), hits + int((z.argmax(1) == y[index]).sum())
        z, of_val = on(model, "val")
        rows.append([epoch + 1, lr, losses / 1000, hits / 1000, *of_labels(z.float().double(), of_val)])
    np.testing.assert_allclose(logits.test_logits, on(model, "test")[0].numpy(), rtol=1e-10, atol=1e-10)
    log = np.loadtxt(tmp_path / "log.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(log[:, :-1], rows, rtol=1e-10)
    assert (log[:, -1] > 0).all()
    by_epoch = np.transpose([logits.meta["by_epoch"][name] for name in ("val_nll", "val_ece", "val_class_std")])
    np.testing.assert_allclose(by_epoch, log[:, [4, 6, 7]], atol=1e-6)
    assert logits.meta["epochs"] == recipe.epochs and logits.meta["split"] == "1000/300/497"
    assert logits.meta["precision"] == "64-true"
    assert logits.meta["throughput"] == pytest.approx(1000 / np.median(log[:, -1]), rel=1e-3)
