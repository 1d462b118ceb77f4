"""What outputs are, logits or probabilities: by what is asked for, by names, by numbers, or by a calibrator."""

from __future__ import annotations

from typing import Literal

import numpy as np

from calibkit._checks import ROUNDED, expected

Kind = Literal["logits", "probabilities"]


def agreed(asked: Kind | None, *said: Kind | None) -> Kind | None:
    """The kind that was asked for, or the one that names or numbers of a split or two say; None: none do."""
    kinds = sorted({*said} - {None}, key=str)
    if {*kinds} - {asked or next(iter(kinds), None)}:
        want = "of both splits" if asked is None else f"of the names, {' and '.join(map(str, kinds))}"
        raise expected("kind", f"that {want}", " and ".join(map(str, kinds)) if asked is None else repr(asked))
    return asked or next(iter(kinds), None)


def kind_of(outputs: np.ndarray) -> Kind | None:
    """What numbers (N, K) show themselves to be: below 0 are no probabilities, and logits do not sum to 1 in each row.

    Example:
        >>> kind_of(np.array([[1.0, -2.0]])), kind_of(np.array([[0.9, 0.1], [0.5, 0.5]])), kind_of(np.ones((2, 2)))
        ('logits', 'probabilities', None)
    """
    if outputs.ndim not in (1, 2) or outputs.dtype.kind not in "fiu" or not outputs.size:
        return None
    if (outputs < 0).any():  # also beside NaN
        return "logits"
    if len(outputs) == 1 or outputs.ndim == 1 or outputs.shape[1] == 1:
        return None
    return "probabilities" if np.abs(outputs.sum(1, dtype=float) - 1).max() <= ROUNDED else None


def kind_of_fit(outputs: list[np.ndarray], fitted: Kind | None) -> Kind:
    """The kind that a calibrator was ``fitted`` to; ValueError of none, and of what as many logits are hardly ever."""
    if fitted is None:
        for x in outputs:  # of numbers that are not there nothing can be told
            if not len(x):
                raise expected("outputs", "of at least one row", f"shape {x.shape}")
            check_not_missing("outputs", x)
    numbers = all(x.dtype.kind in "fiu" for x in outputs)
    percent = numbers and all(kind_of(x / 100) == "probabilities" for x in outputs)
    shares = numbers and all(x.shape >= (20,) and bool(((x >= 0) & (x <= 1)).all()) for x in outputs)
    if fitted is None or (fitted == "logits" and (percent or shares)):
        want = "logits or probabilities (--kind), as neither names nor numbers say which"
        raise expected("kind", want, "nothing" + "; rows sum to 100: percent? divide them by 100" * percent)
    return fitted


def check_not_missing(name: str, outputs: np.ndarray) -> None:
    """Refuse NaN in outputs (N, ...); the first row that has one is told."""
    holes = np.isnan(outputs) if outputs.dtype.kind == "f" and outputs.ndim else np.zeros(1)
    if len(rows := np.unique(np.nonzero(holes)[0])):
        more = f" and {len(rows) - 1} others" * (len(rows) > 1)
        raise expected(name, "without missing values", f"NaN in row {rows[0]}, from 0{more}")
