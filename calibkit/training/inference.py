"""After the last epoch: the network on held-out data, its logits, and of dense prediction what all pixels say."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import check_choice, expected, to_array
from calibkit.data import DATASETS, IGNORE
from calibkit.fitting.network import frozen
from calibkit.metrics import reliability_bins
from calibkit.metrics.proper import iou_of_confusion
from calibkit.training.batches import Feed
from calibkit.training.setup import Setup

#: Pixels of an image whose logits are kept: neighbours tell little that is new, and all of them would fill gigabytes.
PIXELS = 100
#: Frames of a film that follow each other and are resampled together: further apart, errors correlate by 0.1 or so.
FRAMES = 10
MAPS = 4  # images whose maps are kept
BATCH = 8  # images of a batch, of which MbLS's code takes the ECE
BINS = 15


def predict(model: nn.Module, inputs: np.ndarray, data: str) -> np.ndarray:
    """Logits ``(N, K, *)`` of inputs of data set ``data``, in the precision of the weights. Every layer keeps its mode.

    The inputs are as ``load_split`` gives them, N >= 1: images (N, H, W, C) of uint8, which are normalised by the mean
    and deviation of that key of DATASETS, or integer tokens (N, L).

    Raises:
        ValueError: no network with weights, other inputs, images of another dtype among them, or an unknown data set.
    """
    spec = DATASETS[check_choice("data", data, DATASETS)]
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if weight is None:
        raise expected("model", "a network with weights", type(model).__name__)
    x, is_text = to_array("inputs", inputs), spec.kind == "text"
    if x.dtype.kind not in "iu" or not (is_text or x.dtype == np.uint8):
        want = f"{'integers' if is_text else 'uint8'}, as load_split gives them"
        raise expected("inputs", want, f"dtype {x.dtype}")
    if not len(x) or x.ndim != len(spec.shape) + 1 or not (is_text or x.shape[-1] == spec.shape[-1]):
        want = f"of shape {'(N, L)' if is_text else f'(N, H, W, {spec.shape[-1]})'} with N >= 1"
        raise expected("inputs", want, f"shape {x.shape}")
    return logits_of(model, Feed(x, spec, weight.device, weight.dtype)).cpu().numpy()


def held_out(setup: Setup) -> tuple[dict[str, np.ndarray], dict, dict[str, np.ndarray] | None]:
    """The arrays of a run's Logits, by their names, facts about them, and of dense prediction the maps."""
    model, val = setup.model, setup.val
    test = Feed(setup.splits["test"].inputs, setup.spec, val.device, val.dtype)
    arrays, images, facts, maps = {}, {}, {}, None
    for name, feed in (("val", val), ("test", test)):
        labels = setup.splits[name].labels
        if setup.spec.kind == "dense":
            logits, labels, images[name], facts[f"{name}_pixels"] = pixels_of(model, feed, labels)
        else:
            logits = logits_of(model, feed).cpu().numpy()
        arrays |= {f"{name}_logits": logits, f"{name}_labels": labels}
    facts["accuracy"] = float((arrays["test_logits"].argmax(1) == arrays["test_labels"]).mean())
    if setup.spec.kind == "dense":
        arrays["test_groups"] = blocks_of(len(test), setup.spec.films)[images["test"]]
        maps = maps_of(model, test, setup.splits["test"].labels)
    return arrays, facts, maps


@torch.no_grad()
def logits_of(model: nn.Module, feed: Feed, index: Tensor | None = None) -> Tensor:
    """Logits (N, K, *) of a whole split, or of the rows of ``index``, in evaluation mode."""
    with frozen(model):
        return torch.cat([model(feed(rows)) for rows in (feed.batches() if index is None else [index])])


@torch.no_grad()
def pixels_of(model: nn.Module, feed: Feed, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict]:
    """Logits (M, K), labels and image numbers (M,) of up to ``PIXELS`` labelled pixels an image, the same for every
    network; and facts.

    The facts are of all labelled pixels: ``pixels`` their number, ``accuracy``, ``miou`` (the mean over classes of
    intersection over union, classes that neither occur nor are predicted left out), ``ece`` with 15 bins, pooled, and
    ``ece_by_batch``, the mean over batches of 8 images, by their pixels, of the ECE of each, as MbLS's code reports it,
    which leaves out the background of VOC 2012 besides; here that is a class as the others are.
    """
    rng = np.random.default_rng(0)
    kept, kept_labels, confusions, gaps = [], [], [], []
    for index in feed.batches(BATCH):
        with frozen(model):
            z = model(feed(index)).movedim(1, -1).flatten(1, 2).double().cpu()  # (B, H W, K)
        y = torch.from_numpy(np.array(labels[index.cpu().numpy()], dtype=np.int64)).flatten(1)
        k = z.shape[2]
        for rows, of_rows in zip(z, y, strict=True):
            labelled = np.flatnonzero(of_rows.numpy() != IGNORE)
            chosen = np.sort(rng.choice(labelled, min(PIXELS, len(labelled)), replace=False))
            kept.append(rows[chosen].float().numpy())
            kept_labels.append(of_rows[chosen].numpy())
            rows, of_rows = rows[labelled], of_rows[labelled]
            confusions.append(torch.bincount(of_rows * k + rows.argmax(1), minlength=k * k).view(k, k).numpy())
            gaps.append(gap_of_bins(rows.softmax(1), of_rows))
    confusion, gap = np.sum(confusions, axis=0, dtype=float), np.stack(gaps)
    n = confusion.sum()
    by_batch = [np.abs(gap[i : i + BATCH].sum(0)).sum() for i in range(0, len(gap), BATCH)]
    facts = {
        "accuracy": float(np.trace(confusion) / n),
        "miou": iou_of_confusion(confusion),
        "ece": float(np.abs(gap.sum(0)).sum() / n),
        "pixels": int(n),
        "ece_by_batch": float(sum(by_batch) / n),
    }
    images = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
    return np.concatenate(kept), np.concatenate(kept_labels), images, facts


def blocks_of(n: int, films: tuple[int, ...]) -> np.ndarray:
    """The number of the block that each of n images is in: ``FRAMES`` frames that follow each other in a film.

    ``films`` has the first image of each film, 0 before all; empty: the images are no frames, and each is a block.
    """
    images = np.arange(n)
    if not films:
        return images
    film = np.searchsorted(films, images, side="right") - 1
    frame = images - np.asarray(films)[film]
    return np.cumsum(frame % FRAMES == 0) - 1


def maps_of(model: nn.Module, feed: Feed, labels: np.ndarray) -> dict[str, np.ndarray]:
    """What a dense network says of ``MAPS`` images, evenly spaced over a split: ``index`` (n,) in it, ``confidence``
    (n, H, W) in units of 1/255, the ``predicted`` class (n, H, W), and whether that is ``right`` (n, H, W): 0 or 1, and
    2 where there is no label. All of them are uint8 but for the index.
    """
    index = torch.linspace(0, len(feed) - 1, MAPS, device=feed.device).round().long().unique()
    confidence, predicted = logits_of(model, feed, index).softmax(1).max(1)
    maps = {"index": index, "confidence": (255 * confidence).round().byte(), "predicted": predicted.byte()}
    maps = {name: values.cpu().numpy() for name, values in maps.items()}
    truth = np.asarray(labels[maps["index"]])
    right = np.where(truth == IGNORE, 2, maps["predicted"] == truth).astype(np.uint8)
    return maps | {"right": right}


def gap_of_bins(probs: Tensor, labels: Tensor) -> np.ndarray:
    """Of each of 15 bins, its hits less its summed confidence: zeros without a label."""
    if len(labels) == 0:
        return np.zeros(BINS)
    bins = reliability_bins(probs, labels, n_bins=BINS)
    return np.nan_to_num(bins.counts * (bins.accuracy - bins.confidence))
