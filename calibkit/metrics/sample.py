"""What every metric starts from: probabilities and labels, checked once, and what the metrics share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from calibkit._checks import Array, check_labels, scan_probs


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
        """Check ``probs`` and ``labels``; a ``Sample`` is returned as it is."""
        if isinstance(probs, Sample):
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
