"""A trained network with its images, for what needs more than its logits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibkit._checks import Array, check_choice
from calibkit._files import read_npz, write_npz
from calibkit.calibrators import NeuralClamping
from calibkit.calibrators.neural_clamping.network import forward, place
from calibkit.data import DATASETS, load_split
from calibkit.models import build, load_weights, options_for
from calibkit.networks import Network
from calibkit.training.batches import Feed


@dataclass(frozen=True)
class Trained:
    """A network with its weights and images.

    Attributes:
        model: in evaluation mode and in the precision of its weights.
        val: held-out images (N, C, H, W), normalised as the model takes them, and labels (N,).
        test: the same of the test split.
        input_range: what a black and what a white pixel is after normalisation, one value a channel each.
        folder: where fits on it are kept; None keeps none.
        digest: of the weights.
    """

    model: nn.Module
    val: tuple[Tensor, np.ndarray]
    test: tuple[Tensor, np.ndarray]
    input_range: tuple[list[float], list[float]]
    folder: Path | None
    digest: str

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


def trained(network: Network, budget: str = "smoke", device: str = "auto") -> Trained:
    """A network of images with its weights: those stored, trained or put there at the budget, else trained now.

    Above "smoke" its fits are kept beside its training, so that a killed notebook goes on where it was.

    Args:
        network: which. Weights from elsewhere are found as ``weights.npz`` in :meth:`calibkit.networks.Network.folder`.
        budget: one of ``BUDGETS``; see :meth:`calibkit.networks.Network.find`.
        device: where it runs: "cpu", "cuda", or "auto", a GPU where there is one, but at the budget "smoke".

    Raises:
        ValueError: no recipe trains it at that budget.
        FileNotFoundError: its images are not in the cache.

    Example:
        >>> digits = trained(Network("digits", "small_cnn"))
        >>> images, labels = digits.test
        >>> f"{(digits.logits(images).argmax(1) == labels).mean():.2%}"
        '96.98%'
    """
    check_choice("device", device, ("auto", "cpu", "cuda"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() and budget != "smoke" else "cpu"
    own = network.folder(budget) / "weights.npz"
    weights = network.weights(budget) or own
    if not weights.exists():
        network.train(budget, device=device)
    spec, splits = DATASETS[network.dataset], [load_split(network.dataset, name) for name in ("val", "test")]
    floats = next(array for array in read_npz(weights).values() if array.dtype.kind == "f")
    dtype = torch.from_numpy(floats).dtype
    model = build(network.model, spec.n_classes, **options_for(network.model, spec.shape)).to(dtype)
    model = load_weights(model, weights).to(device, memory_format=torch.channels_last)
    feeds = [Feed(split.inputs, spec, torch.device("cpu"), dtype) for split in splits]
    images = [torch.cat([feed(rows) for rows in feed.batches()]) for feed in feeds]
    val, test = ((x, split.labels) for x, split in zip(images, splits, strict=True))
    low, high = ([(end - m) / s for m, s in zip(spec.mean, spec.std, strict=True)] for end in (0.0, 1.0))
    folder = None if budget == "smoke" else network.folder(budget) / "neural_clamping"
    return Trained(model, val, test, (low, high), folder, hashlib.sha1(weights.read_bytes()).hexdigest())
