"""What every metric starts from: probabilities and labels, checked once, and what the metrics share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from calibkit._checks import Array, check_labels, expected, scan_probs, to_array, to_tensor


@dataclass(frozen=True)
class Sample:
    """Checked predictions; a metric takes one in place of ``probs`` (with ``labels=None``) and checks nothing again.

    Attributes:
        probs: (N, K) float32 or float64, in [0, 1].
        labels: (N,) int64.
        confidence: (N,) largest probability of each row.
        correct: (N,) bool, whether the first class of largest probability is the label.
    """

    probs: Tensor
    labels: Tensor
    confidence: Tensor
    correct: Tensor

    @classmethod
    def of(cls, probs: Array | Sample, labels: Array | None) -> Sample:
        """Check ``probs`` and ``labels``; a ``Sample``, which has its own labels, is returned as it is."""
        if isinstance(probs, Sample):
            if labels is not None:
                raise expected("labels", "None beside a Sample, which has its own", type(labels).__name__)
            return probs
        p, confidence = scan_probs(probs)
        y = check_labels(labels, *p.shape, p.device)
        if confidence.max() > 1.0:  # by the tolerance of the sums
            p, confidence = p.clamp(max=1.0), confidence.clamp(max=1.0)
        return cls(p, y, confidence, is_argmax(p, y, confidence))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def gap(self) -> Tensor:
        """(N,) confidence - correct, float64."""
        return self.confidence.double() - self.correct.double()

    @property
    def label_probs(self) -> Tensor:
        """(N,) probability of the label."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]


def is_argmax(probs: Tensor, labels: Tensor, row_max: Tensor) -> Tensor:
    """``probs.argmax(1) == labels`` from the row maxima, which cost far less than an argmax.

    A label of largest probability is the argmax unless a lower class ties with it, for which its row must have room:
    only rows with a maximum up to 1/2 are looked at again, without the label, and only real ties get an argmax.
    """
    correct = probs.gather(1, labels[:, None])[:, 0] == row_max
    for rows in (correct & (row_max <= 0.51)).nonzero()[:, 0].split(1024):
        others = probs.index_select(0, rows).scatter_(1, labels[rows][:, None], -1.0)
        tied = others.amax(1) == row_max[rows]
        if tied.any():
            ties = rows[tied]
            correct[ties] = probs[ties].argmax(1) == labels[ties]
    return correct


def check_groups(groups: object, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct groups of (N,) rows, integers or strings, sorted; and the number (N,) of the group of each row.

    Example:
        >>> names, number = check_groups(["north", "south", "north"], 3)
        >>> names.tolist(), number.tolist()
        (['north', 'south'], [0, 1, 0])
    """
    if isinstance(groups, Tensor):
        x = to_tensor("groups", groups)
        groups = x.tolist() if x.is_floating_point() else x.cpu().numpy()
    whole = isinstance(groups, np.ndarray) and groups.dtype.kind in "iu"  # may be many, as the pixels of images are
    array = to_array("groups", groups, "integers or strings", None if whole else object)
    if array.shape not in ((n_rows,), (n_rows, 1)) or np.ma.is_masked(groups):
        got = "masked entries" if np.ma.is_masked(groups) else f"shape {array.shape}"
        raise expected("groups", f"one for each of the {n_rows} rows", got)
    if whole:
        return np.unique(array.reshape(-1), return_inverse=True)
    names = [name.item() if isinstance(name, np.generic | Tensor) else name for name in array.reshape(-1).tolist()]
    kinds = {type(name) for name in names}
    if kinds not in ({int}, {str}):
        raise expected("groups", "integers or strings", " and ".join(sorted(kind.__name__ for kind in kinds)))
    return np.unique(names, return_inverse=True)
