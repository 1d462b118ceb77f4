"""How calibrated each class is, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class ClassRow(NamedTuple):
    """One class: of the samples that are predicted to be of it.

    Attributes:
        name: of the class.
        samples: how many are of the class.
        predicted: how many the network says are.
        accuracy: the share of those that are.
        before: their mean confidence less that share, without a calibrator; NaN if none is predicted.
        after: the same with the calibrator, by its own predictions.
    """

    name: str
    samples: int
    predicted: int
    accuracy: float
    before: float
    after: float


def of_classes(probs: Mapping[str, np.ndarray], labels: np.ndarray, classes: Sequence[str]) -> tuple[ClassRow, ...]:
    """A row for each class, sorted by how many samples its gap concerns.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]])
        >>> rows = of_classes({"before": p, "after": p}, np.array([0, 1, 1]), "ab")
        >>> [(row.name, round(row.before, 2)) for row in rows]
        [('a', 0.4), ('b', -0.4)]
    """
    k = len(classes)
    samples = np.bincount(labels, minlength=k)
    gaps = {}
    for name, p in probs.items():
        top, confidence = p.argmax(1), p.max(1)
        counts = np.bincount(top, minlength=k)
        hits = np.bincount(top, weights=top == labels, minlength=k)
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps[name] = (np.bincount(top, weights=confidence, minlength=k) - hits) / counts
        if name == "before":
            predicted, right = counts, hits
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = right / predicted
    order = np.argsort(-np.nan_to_num(np.abs(gaps["before"])) * predicted, kind="stable")
    return tuple(
        ClassRow(
            classes[i], int(samples[i]), int(predicted[i]), float(accuracy[i]), *(float(gaps[n][i]) for n in probs)
        )
        for i in order
    )
