"""Small networks on scanned digits that a chapter trains in seconds, by the dozen, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import check_int
from calibkit.data import DATASETS, load_split
from calibkit.metrics import ece, nll
from calibkit.models import build
from calibkit.training import RECIPES, fit

Loss = Callable[[Tensor, Tensor], Tensor]
Outcome = dict[str, tuple[Tensor, Tensor]]


def many_on_digits(
    losses: Sequence[Loss],
    *,
    n_draws: int,
    n_train: int,
    hidden: int = 64,
    steps: int = 200,
    lr: float = 0.05,
    seed: int = 0,
) -> Outcome:
    """S x D networks with one hidden layer, trained all at once: every loss on the same D draws of ``n_train`` digits.

    The networks of a draw start from the same weights and see the same images, in full batches by Adam with a cosine
    schedule, from the rate ``lr``. With few images they are over-confident, as large networks are. What of the training
    split is not drawn is the draw's validation set. ``seed`` is that of the draws and of the first weights. Of "train",
    "val" and "test" the result has logits (S, D, N, K) and labels (D, N). ValueError tells of no draw, of no image, and
    of none left to validate on.

    Example:
        >>> outcome = many_on_digits([nn.CrossEntropyLoss()], n_draws=2, n_train=20, steps=1)
        >>> [tuple(x.shape) for x in outcome["val"]]
        [(1, 2, 980, 10), (2, 980)]
    """
    pixels, digit = {}, {}
    for name in ("train", "test"):
        images, labels = load_split("digits", name)
        pixels[name] = torch.from_numpy(np.array(images)).double().flatten(1) / 255 - 0.3
        digit[name] = torch.from_numpy(labels)
    check_int("n_draws", n_draws, 1)
    check_int("n_train", n_train, 1, len(digit["train"]) - 1)
    rng = torch.Generator().manual_seed(seed)
    n_in, n_out, n = pixels["train"].shape[1], DATASETS["digits"].n_classes, len(losses) * n_draws
    rows = torch.stack([torch.randperm(len(digit["train"]), generator=rng) for _ in range(n_draws)])
    first, second = (
        torch.randn(n_draws, a, b, generator=rng, dtype=torch.float64) / a**0.5
        for a, b in ((n_in, hidden), (hidden, n_out))
    )
    w1, w2 = (w.repeat(len(losses), 1, 1).requires_grad_() for w in (first, second))
    b1, b2 = (torch.zeros(n, 1, size, dtype=torch.float64, requires_grad=True) for size in (hidden, n_out))

    def logits(x: Tensor) -> Tensor:
        return (torch.relu(x @ w1 + b1) @ w2 + b2).unflatten(0, (len(losses), n_draws))

    drawn, rest = rows[:, :n_train], rows[:, n_train:]
    x, y = pixels["train"][drawn].repeat(len(losses), 1, 1), digit["train"][drawn]
    optimizer = torch.optim.Adam([w1, b1, w2, b2], lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        z = logits(x)
        total = sum(loss(z[i].flatten(0, 1), y.flatten()) for i, loss in enumerate(losses))
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return {
            "train": (logits(x), y),
            "val": (logits(pixels["train"][rest].repeat(len(losses), 1, 1)), digit["train"][rest]),
            "test": (logits(pixels["test"]), digit["test"].expand(n_draws, -1)),
        }


def digit_scores(outcome: Outcome, split: str, *, n_bins: int = 15) -> np.ndarray:
    """(S, D, 4) of :func:`many_on_digits`: ECE, accuracy and mean confidence in percent, NLL in nats."""
    logits, labels = outcome[split]
    return np.array(
        [
            [
                (100 * ece(p, y, n_bins=n_bins), 100 * float((p.argmax(1) == y).double().mean()))
                + (100 * float(p.amax(1).mean()), nll(p, y))
                for p, y in zip(of_loss.softmax(-1), labels, strict=True)
            ]
            for of_loss in logits
        ]
    )


def train_on_digits(loss: nn.Module, *, epochs: int, seed: int = 0, **changes) -> tuple[Tensor, Tensor] | None:
    """Test logits (497, 10) and labels of the smoke budget's network after ``epochs`` of training with ``loss``, with
    these changes of its recipe, as ``clip_norm=2.0``; None where the training diverged.

    The seed is that of the first weights and of the order of the 1,000 images.
    """
    torch.manual_seed(seed)
    model = build("small_cnn", DATASETS["digits"].n_classes, channels=1).double()
    recipe = replace(RECIPES["smoke", "digits"], epochs=epochs, **changes)
    with TemporaryDirectory() as folder:
        try:
            logits, labels = fit(model, loss, "digits", recipe, folder=folder, seed=seed, device="cpu").test
        except ValueError as error:  # the loss, or a logit, is not finite any more
            if "finite" not in str(error):
                raise
            return None
    return torch.from_numpy(logits), torch.from_numpy(labels)
