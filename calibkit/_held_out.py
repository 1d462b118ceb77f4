"""A trained network on held-out data: its logits, and for dense prediction what all pixels together say."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._batches import Feed
from calibkit.data import IGNORE
from calibkit.metrics import reliability_bins

#: Pixels of an image whose logits are kept: neighbours tell little that is new, and all of them would fill gigabytes.
PIXELS = 400


@torch.no_grad()
def logits_of(model: nn.Module, feed: Feed) -> Tensor:
    """Logits (N, K, *) of a whole split, in evaluation mode; the model's own mode is kept."""
    training = model.training
    model.eval()
    logits = torch.cat([model(feed(index)) for index in feed.batches()])
    model.train(training)
    return logits


@torch.no_grad()
def pixels_of(model: nn.Module, feed: Feed, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Logits (M, K) and labels (M,) of up to ``PIXELS`` labelled pixels an image, drawn with ``seed``; and facts.

    The facts are of all labelled pixels: ``pixels`` their number, ``accuracy``, ``miou`` (the mean over classes of
    intersection over union, classes that neither occur nor are predicted left out), ``ece`` with 15 bins, pooled, and
    ``ece_by_batch``, the mean over batches of 8 images, by their pixels, of the ECE of each, as MbLS's code reports it.
    """
    rng = np.random.default_rng(seed)
    kept, kept_labels = [], []
    gaps, of_batches, confusion = 0.0, 0.0, 0  # of each bin: sum of correctness less confidence
    training = model.training
    model.eval()
    for index in feed.batches(8):
        z = model(feed(index)).movedim(1, -1).flatten(1, 2).double().cpu()  # (B, H W, K)
        y = torch.from_numpy(np.array(labels[index.cpu().numpy()], dtype=np.int64)).flatten(1)
        for rows, of_rows in zip(z, y, strict=True):
            labelled = np.flatnonzero(of_rows.numpy() != IGNORE)
            chosen = np.sort(rng.choice(labelled, min(PIXELS, len(labelled)), replace=False))
            kept.append(rows[chosen].float().numpy())
            kept_labels.append(of_rows[chosen].numpy())
        z, y = z[y != IGNORE], y[y != IGNORE]
        k = z.shape[1]
        bins = reliability_bins(z.softmax(1), y)
        gap = np.nan_to_num(bins.counts * (bins.accuracy - bins.confidence))
        gaps, of_batches = gaps + gap, of_batches + np.abs(gap).sum()
        confusion = confusion + torch.bincount(y * k + z.argmax(1), minlength=k * k).view(k, k).double()
    model.train(training)
    n = float(confusion.sum())
    either = confusion.sum(0) + confusion.sum(1) - confusion.diag()
    facts = {
        "pixels": int(n),
        "accuracy": float(confusion.diag().sum() / n),
        "miou": float((confusion.diag() / either)[either > 0].mean()),
        "ece": float(np.abs(gaps).sum() / n),
        "ece_by_batch": float(of_batches / n),
    }
    return np.concatenate(kept), np.concatenate(kept_labels), facts
