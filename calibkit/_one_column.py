"""Scores of two classes in one column: what they are in two, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def is_one_column(scores: Any) -> bool:
    """Whether scores have the shape (N,) or (N, 1), and so are of the second of two classes."""
    shape = np.shape(scores)
    return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)


def two_columns(z: Tensor, *, probs: bool) -> Tensor:
    """(N, 2) of scores (N,) or (N, 1): 1 - p and p of a probability p, 0 and z of a logit z; others as they are.

    Example:
        >>> two_columns(torch.tensor([0.25, 1.0]), probs=True).tolist()
        [[0.75, 0.25], [0.0, 1.0]]
    """
    if not is_one_column(z) or not z.is_floating_point():
        return z
    z = (z.float() if z.element_size() < 4 else z).reshape(-1)
    return torch.stack([(1 - z).clamp(min=0) if probs else torch.zeros_like(z), z], 1)


def as_given(probs: Tensor, scores: Any) -> Tensor:
    """(N, K) probabilities in the shape of the scores that they are of: one column has those of class 1."""
    return probs[:, 1].reshape(np.shape(scores)) if is_one_column(scores) else probs
