"""A trained network with its images, for what needs more than its logits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import Array, check_choice
from calibkit._files import read_npz, write_npz
from calibkit._folders import cache, runs
from calibkit.calibrators import NeuralClamping
from calibkit.data import DATASETS, Dataset, Split, halves, load_split
from calibkit.fitting.network import forward, place
from calibkit.models import build, fill, load_weights, options_for
from calibkit.networks import Network
from calibkit.training.batches import Feed

#: Networks that others trained: what they are, and how they take their inputs. The ResNet-110 is by the authors of
#: Neural Clamping.
PUBLIC = {
    "weights/cifar100_resnet110": (
        Network("cifar100", "resnet110"),
        {"mean": (0.4914, 0.4822, 0.4465), "std": (0.2675, 0.2565, 0.2761)},
    ),
    "weights/cifar100_densenet40bc": (Network("cifar100", "densenet40_bc"), {}),
    **{
        f"weights/cifar100_resnet{depth}": (
            Network("cifar100", f"resnet{depth}_b"),
            {"mean": (0.5070, 0.4865, 0.4409), "std": (0.2673, 0.2564, 0.2761)},
        )
        for depth in (20, 56)
    },
}


@dataclass(frozen=True)
class Trained:
    """A network with its weights and images (N, C, H, W), normalised as the model takes them, and labels (N,)."""

    network: Network
    source: str  # "ours", or "public" where others trained it
    model: nn.Module  # in evaluation mode and in the precision of its weights
    val: tuple[Tensor, np.ndarray]  # what is held out
    test: tuple[Tensor, np.ndarray]
    input_range: tuple[list[float], list[float]]  # what a black and a white pixel is then, one value a channel each
    folder: Path | None  # where fits on it are kept; None keeps none
    digest: str  # of the weights and of the held-out images, on which a fit rests

    def logits(self, images: Tensor, delta: Array | float = 0.0) -> np.ndarray:
        """Logits (N, K) of ``images + delta``, in float64."""
        device, dtype = place(self.model, images)
        delta = torch.as_tensor(delta).to(device, dtype)
        return forward(self.model, images, delta, batch_size=500).double().cpu().numpy()

    def clamp(self, clamping: NeuralClamping) -> NeuralClamping:
        """``clamping`` fitted on the held-out images: now, or at an earlier call if fits are kept."""
        if self.folder is None:
            return clamping.fit(self.model, *self.val)
        key = hashlib.sha1(repr([self.digest, clamping.options()]).encode()).hexdigest()[:16]
        path = self.folder / f"{key}.npz"
        if not path.exists():
            write_npz(path, clamping.fit(self.model, *self.val).state_dict())
        return clamping.load_state_dict(read_npz(path))


def trained(network: Network | str, budget: str = "smoke", device: str = "auto", draw: int = 0) -> Trained:
    """A network of images with its weights: those stored, trained or put there at the budget, else trained now.

    Or one of ``PUBLIC``, whose weights ``calibkit data prepare published`` fetches. It has seen training images, so
    one half of the test images is held out, and the other half tests, by the seed ``draw``: see
    :func:`calibkit.data.halves`. Weights of one's own are found as ``weights.npz`` in
    :meth:`calibkit.networks.Network.folder`.

    It runs on a "cpu", on "cuda", or, "auto", on a GPU where there is one, but at the budget "smoke". Above "smoke" its
    fits are kept beside its training, so that a killed notebook goes on where it was.

    Raises:
        ValueError: no such name; no recipe trains it at that budget.
        FileNotFoundError: its images, or its published weights, are not in the cache.

    Example:
        >>> digits = trained(Network("digits", "small_cnn"))
        >>> images, labels = digits.test
        >>> f"{(digits.logits(images).argmax(1) == labels).mean():.2%}"
        '96.98%'
    """
    asked = check_choice("device", device, ("auto", "cpu", "cuda"))
    if asked == "auto":
        device = "cuda" if torch.cuda.is_available() and budget != "smoke" else "cpu"
    if network in PUBLIC:
        return _public(network, budget, device, draw)
    network = Network.parse(str(network))
    own = network.folder(budget) / "weights.npz"
    weights = network.weights(budget) or own
    if not weights.exists():
        network.train(budget, device=asked if budget == "paper" else device)  # at "paper" it refuses a CPU unasked
    spec, splits = DATASETS[network.dataset], [load_split(network.dataset, name) for name in ("val", "test")]
    floats = next(array for array in read_npz(weights).values() if array.dtype.kind == "f")
    model = build(network.model, spec.n_classes, **options_for(network.model, spec.shape))
    model = load_weights(model.to(torch.from_numpy(floats).dtype), weights)
    folder = None if budget == "smoke" else network.folder(budget)
    return _with_images(network, "ours", model.to(device), weights, spec, splits, folder)


def _public(name: str, budget: str, device: str, draw: int) -> Trained:
    """One of ``PUBLIC``, its fits kept under a budget."""
    network, normalisation = PUBLIC[name]
    weights = cache() / f"{name}.npz"
    if not weights.exists():
        raise FileNotFoundError(f"no {weights}; `calibkit data prepare published` fetches it")
    arrays = {key.replace("fc.", "linear."): value for key, value in read_npz(weights).items()}
    spec = replace(DATASETS[network.dataset], **normalisation)
    model = fill(build(network.model, spec.n_classes), arrays)
    images, labels = load_split(network.dataset, "test")
    splits = [Split(images[rows], labels[rows]) for rows in halves(labels, seed=draw)]
    return _with_images(network, "public", model.to(device), weights, spec, splits, runs(budget) / name)


def _with_images(
    network: Network,
    source: str,
    model: nn.Module,
    weights: Path,
    spec: Dataset,
    splits: Sequence[Split],
    folder: Path | None,
) -> Trained:
    """A model with the images as it takes them."""
    model, dtype = model.to(memory_format=torch.channels_last), next(model.parameters()).dtype
    feeds = [Feed(split.inputs, spec, torch.device("cpu"), dtype) for split in splits]
    images = [torch.cat([feed(rows) for rows in feed.batches()]) for feed in feeds]
    val, test = ((x, split.labels) for x, split in zip(images, splits, strict=True))
    low, high = ([(end - m) / s for m, s in zip(spec.mean, spec.std, strict=True)] for end in (0.0, 1.0))
    folder = folder and folder / "neural_clamping"
    digest = hashlib.sha1(weights.read_bytes())
    for array in splits[0]:
        digest.update(np.ascontiguousarray(array))
    return Trained(network, source, model, val, test, (low, high), folder, digest.hexdigest())
