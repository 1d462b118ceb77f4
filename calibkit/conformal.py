"""Split conformal prediction: sets of classes that hold the label as often as was asked for.

Scores say how badly a class fits a sample, ``SCORES[name](probs, u)``: (N, K) from probabilities (N, K) in float64 and
uniform draws (N, 1). A set holds the classes whose score is no larger than a quantile of the held-out labels' scores.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from calibkit._arrays import row_blocks
from calibkit._checks import (
    Array,
    check_choice,
    check_int,
    check_labels,
    check_real,
    expected,
    like,
    scan_probs,
    to_tensor,
)
from calibkit._files import read_json, read_npz, write_npz
from calibkit.fitting.file_header import reading

Score = Literal["lac", "aps", "randomized_aps"]


def randomized_aps(probs: Tensor, u: Tensor) -> Tensor:
    """Of adaptive sets: the mass of the classes ranked up to k, less u p_k; ties rank by the number of the class."""
    ranked, order = probs.sort(dim=1, descending=True, stable=True)
    return torch.empty_like(probs).scatter_(1, order, ranked.cumsum(1) - u * ranked)


SCORES: dict[Score, Callable[[Tensor, Tensor], Tensor]] = {
    "lac": lambda probs, u: 1.0 - probs,  # of least ambiguous sets
    "aps": lambda probs, u: randomized_aps(probs, torch.ones_like(u)),  # the mass of the classes ranked before k
    "randomized_aps": randomized_aps,
}


class ConformalSets:
    r"""Split conformal prediction sets: ``fit`` on held-out probabilities, call on others, get sets of classes.

    .. math::
       \begin{gathered}
       C(x) = \{k : s(x, k) \le \hat q\}, \\
       \hat q = \text{the } \lceil (n + 1)(1 - \alpha) \rceil \text{-th smallest of } s(x_i, y_i)
       \end{gathered}

    over the n held-out samples. If these and a new sample are exchangeable (drawn alike, and none of them used to fit
    the network or the calibrator), its label is in its set with a probability of at least :math:`1 - \alpha`, whatever
    the network. The probability is over samples and held-out sets: no single class or kind of input is promised as
    much. Where scores do not tie, it is less than :math:`1 - \alpha + 1 / (n + 1)`.

    Scores, with the classes of a sample ranked by falling probability:

    - ``"lac"``: :math:`1 - p_k`. The classes above one threshold; small sets, some of them empty.
    - ``"aps"``: the mass ranked before k. The largest classes until their sum exceeds the quantile; empty only if
      alpha is 1.
    - ``"randomized_aps"``: the mass ranked up to k, less :math:`u \, p_k` with one u, uniform on [0, 1), a sample. The
      last class is in by chance, so that the sets hold no more than was asked for; some are empty.

    Args:
        alpha: how often the label may be missed, in (0, 1].
        score: a name of ``SCORES``.
        seed: of ``"randomized_aps"``. ``fit`` starts the generator and each call draws on, so that batches get the sets
            of one call on all of them.

    Attributes:
        threshold: :math:`\hat q`; None before ``fit``. Infinite where :math:`n < 1 / \alpha - 1`: no threshold that
            so few samples give keeps the promise, and every set holds all classes.

    Raises:
        ValueError: bad ``probs`` or ``labels``, ``alpha`` outside (0, 1], an unknown score, another number of classes.
        RuntimeError: called before ``fit``.

    Papers: Vovk, Gammerman and Shafer 2005 (split, or inductive, conformal prediction); Sadinle, Lei and Wasserman 2019
    (LAC; also called THR); Romano, Sesia and Candes 2020 (APS).

    Differs from the papers: ``"aps"`` without randomisation scores the held-out labels by the rule that makes its sets;
    other code takes a randomised quantile for sets that always hold the last class, and covers more than asked for.
    ``alpha`` is taken as the decimal that it is written as: at n = 99 and 0.45 the 55th score is taken, where
    floats would give the 56th.

    Example:
        >>> probs, labels = np.array([[0.7, 0.2, 0.1]] * 9), np.array([0] * 7 + [1] * 2)
        >>> ConformalSets(alpha=0.3).fit(probs, labels)  # the 7th smallest of seven times 0.3 and twice 0.8
        ConformalSets(alpha=0.3, score='lac', threshold=0.3)
        >>> for alpha in (0.3, 0.1, 0.05):
        ...     print(ConformalSets(alpha).fit(probs, labels)(np.array([[0.75, 0.2, 0.05]])).tolist())
        [[True, False, False]]
        [[True, True, False]]
        [[True, True, True]]
    """

    def __init__(self, alpha: float = 0.1, *, score: Score = "lac", seed: int = 0) -> None:
        self.alpha = check_real("alpha", alpha, 0.0, 1.0, open_low=True)
        self.score, self.seed = check_choice("score", score, get_args(Score)), check_int("seed", seed, 0)
        self.threshold: float | None = None
        self.n_classes: int | None = None

    def __repr__(self) -> str:
        """The settings, and once fitted the threshold."""
        fitted = "" if self.threshold is None else f", threshold={self.threshold:.4g}"
        return f"ConformalSets(alpha={self.alpha}, score={self.score!r}{fitted})"

    def fit(self, probs: Array, labels: Array) -> Self:
        """Take the quantile of held-out probabilities (N, K) and labels (N,); returns self."""
        p, _ = scan_probs(probs)
        y = check_labels(labels, len(p), p.shape[1], p.device)
        self._rng = np.random.default_rng(self.seed)
        scores = [self._scores(p[rows]).gather(1, y[rows, None])[:, 0] for rows in row_blocks(p)]
        self.threshold, self.n_classes = conformal_quantile(torch.cat(scores), self.alpha), p.shape[1]
        return self

    def __call__(self, probs: Array) -> Array:
        """Which classes are in the set of each row: (N, K) bool, in the container and on the device of ``probs``."""
        threshold = self._check_fitted()
        p, _ = scan_probs(probs)
        if p.shape[1] != self.n_classes:
            raise expected("probs", f"of shape (N, {self.n_classes}) as in fit()", f"shape {tuple(p.shape)}")
        sets = torch.empty(p.shape, dtype=torch.bool, device=p.device)
        for rows in row_blocks(p):
            sets[rows] = self._scores(p[rows]) <= threshold
        return like(sets, probs)

    def save(self, path: str | os.PathLike) -> Path:
        """Write settings, threshold and state of the generator: npz without pickle, atomically; returns the path.

        Raises:
            RuntimeError: called before ``fit``.

        Example:
            >>> from tempfile import TemporaryDirectory
            >>> sets = ConformalSets(0.3).fit(np.array([[0.7, 0.2, 0.1]] * 9), np.array([0] * 7 + [1] * 2))
            >>> with TemporaryDirectory() as folder:
            ...     ConformalSets.load(sets.save(f"{folder}/sets.npz"))
            ConformalSets(alpha=0.3, score='lac', threshold=0.3)
        """
        self._check_fitted()
        settings = {"alpha": self.alpha, "score": self.score, "seed": self.seed, "n_classes": self.n_classes}
        settings["generator"] = self._rng.bit_generator.state
        return write_npz(path, {"settings": np.asarray(json.dumps(settings)), "threshold": np.asarray(self.threshold)})

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """What :meth:`save` wrote to ``path``; the next call draws as that of the saved one would have.

        Raises:
            ValueError: another file, or a damaged one.
            FileNotFoundError: no such file.
        """
        with reading(path, cls.__name__):
            found = read_npz(path, ("settings", "threshold"))
            settings, threshold = read_json(path, found["settings"]), found["threshold"]
            n_classes, state = check_int("n_classes", settings.pop("n_classes"), 2), settings.pop("generator")
            if threshold.shape != () or threshold.dtype != np.float64 or np.isnan(threshold):
                raise expected("threshold", "a number in float64", f"{threshold!r}")
            sets = cls(**settings)
            if min(dict(state["state"]).values()) < 0:  # which old versions of numpy take
                raise expected("generator", "the state of PCG64", state)
            sets._rng = np.random.default_rng()
            sets._rng.bit_generator.state = state
            sets.threshold, sets.n_classes = threshold.item(), n_classes
            return sets

    def _check_fitted(self) -> float:
        if self.threshold is None:
            raise RuntimeError("Expected `ConformalSets` to be fitted, but got no call of fit() before")
        return self.threshold

    def _scores(self, probs: Tensor) -> Tensor:
        """(n, K) scores of a block of rows."""
        u = torch.from_numpy(self._rng.random((len(probs), 1))).to(probs.device)
        return SCORES[self.score](probs.double(), u)


def conformal_quantile(scores: Tensor, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest of (n,) scores, infinite where that is the (n + 1)-th."""
    rank = math.ceil((len(scores) + 1) * (1 - Fraction(repr(float(alpha)))))
    ends = scores.new_tensor([-math.inf, math.inf])
    return torch.cat([ends[:1], scores.sort().values, ends[1:]])[rank].item()


def coverage(sets: Array, labels: Array) -> float:
    """The fraction of rows, in [0, 1], whose set holds the label; ValueError of bad arguments.

    ``sets`` are (N, K) bool, ``labels`` (N,) integers in [0, K).

    Example:
        >>> coverage(np.array([[True, False], [True, True], [False, False]]), np.array([0, 1, 1]))
        0.666...
    """
    s = _check_sets(sets)
    return s.gather(1, check_labels(labels, len(s), s.shape[1], s.device)[:, None]).double().mean().item()


def set_size(sets: Array) -> float:
    """The mean number of classes in a set, in [0, K]; ValueError of bad ``sets``, which are (N, K) bool.

    Example:
        >>> set_size(np.array([[True, False], [True, True], [False, False]]))
        1.0
    """
    return _check_sets(sets).sum(1).double().mean().item()


def _check_sets(sets: Array) -> Tensor:
    s = to_tensor("sets", sets)
    if s.dtype != torch.bool or s.ndim != 2 or len(s) == 0:
        raise expected("sets", "bool of shape (N, K) with N >= 1", f"dtype {s.dtype} and shape {tuple(s.shape)}")
    return s
