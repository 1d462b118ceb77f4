"""The epochs of a run against a plain loop of PyTorch's own parts."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from digits_runs import digits_model, train_digits

from calibkit import data
from calibkit.training import Recipe

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
