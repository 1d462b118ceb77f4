"""Numbers of networks that others trained: one half of the test images is held out.

Each draw has halves of its own; :mod:`book.kit.notebook.restarts` says what several draws are good for.
"""

from __future__ import annotations

import numpy as np

from book.kit.notebook import restarts
from book.kit.notebook.trained_network import trained
from book.kit.results import append
from book.kit.results.paired_differences import append_effects
from book.kit.results.record import bases, methods
from calibkit.calibrators import calibrator
from calibkit.metrics import REPORTED


def record(name: str, n_draws: int = 5) -> int:
    """Fit and measure what works on logits alone, as :func:`book.kit.results.record.record` does for stored logits.

    Args:
        name: one of :data:`book.kit.notebook.trained_network.PUBLIC`.
        n_draws: draws of halves, by the seeds 0, 1, ...

    Returns:
        How many rows of ``ours.csv`` are new or different.
    """
    nets = [trained(name, "reduced", draw=draw) for draw in range(n_draws)]
    of = nets[0].network
    pairs = [(key, base) for key in methods(of.loss, of.dataset) for base in bases(of.loss, key)]
    seen = [[(net.logits(images), labels) for images, labels in (net.val, net.test)] for net in nets]
    labels = np.stack([labels for _, (_, labels) in seen])
    probs = {
        key: [calibrator(key).fit(*val)(logits) for val, (logits, _) in seen]
        for key in dict.fromkeys(key for pair in pairs for key in pair)
    }
    cell = {"dataset": of.dataset, "model": of.model, "loss": of.loss, "budget": "reduced", "source": nets[0].source}
    append_effects(restarts.differences(probs, pairs, labels, **cell))
    return append(restarts.rows({key: (each, "") for key, each in probs.items()}, labels, REPORTED, **cell))
