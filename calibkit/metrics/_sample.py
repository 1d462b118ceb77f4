"""What every metric starts from: probabilities and labels, checked once, and what is shared between metrics."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from calibkit._checks import Array, check_labels, scan_probs


@dataclass(frozen=True)
class Sample:
    """Checked predictions; metrics take it in place of ``probs`` (with ``labels=None``), to check and scan only once.

    Attributes:
        probs: (N, K) float32 or float64.
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
        return cls(p, y, confidence, _is_argmax(p, y, confidence))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor) -> Sample:
        """The sample of these rows (indices or a mask)."""
        return Sample(self.probs[rows], self.labels[rows], self.confidence[rows], self.correct[rows])

    @property
    def label_probs(self) -> Tensor:
        """(N,) probability of the label."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]


def _is_argmax(probs: Tensor, labels: Tensor, row_max: Tensor) -> Tensor:
    """``probs.argmax(1) == labels`` from the row maxima, without an argmax over all rows.

    A label that has the largest probability may tie with a lower class, but only where two of them fit in a row's sum.
    """
    correct = probs.gather(1, labels[:, None])[:, 0] == row_max
    for rows in (correct & (row_max <= 0.51)).nonzero()[:, 0].split(1024):
        correct[rows] = probs[rows].argmax(1) == labels[rows]
    return correct
