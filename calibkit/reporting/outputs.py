"""Outputs as they were given become logits: those of probabilities are their logarithms, and a zero has a floor."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from calibkit._arrays import two_columns
from calibkit._checks import SUM_TOLERANCE, are_probs, check_logits, could_be_probs, expected, scan_probs, to_tensor
from calibkit.logits import log_probs
from calibkit.reading import Kind, Part

#: "wrong": nothing can be advised; "cured": taken for what it must have been; "doubt": results may mislead; "note":
#: good to know.
Weight = Literal["wrong", "cured", "doubt", "note"]


class Finding(NamedTuple):
    """One thing that was found.

    Attributes:
        weight: "wrong", "cured", "doubt" or "note".
        kind: a word to find it by, such as "label shift".
        text: a sentence or two for the person whose data these are.
    """

    weight: Weight
    kind: str
    text: str


class Outputs(NamedTuple):
    """Checked outputs of one part.

    Attributes:
        logits: (N, K), of probabilities the logarithms, for a fit.
        given: (N, K) probabilities as they were given, rounded rows divided by their sums; None of logits.
        floor: what ``logits`` take a probability of 0 for; None of logits.
        findings: what was found in them.
    """

    logits: np.ndarray
    given: np.ndarray | None
    floor: float | None
    findings: tuple[Finding, ...]


def outputs_of(part: Part, kind: Kind, name: str, floor: float | None = None) -> Outputs:
    """Logits of a part, through the logarithm where it holds probabilities, and these; and what was found on the way.

    Args:
        part: of which the outputs count.
        kind: what they are said to be.
        name: of the part, in messages.
        floor: of the probabilities that go with these, as those that a calibrator was fitted to: a zero counts as that
            much, or as half the smallest above 0 of its row, and logits become the logarithms of their probabilities.
            None: there are none; the floor of probabilities is half the smallest above 0.

    Raises:
        ValueError: outputs that are neither finite logits nor probabilities.
    """
    z = to_tensor(f"{name}outputs", part.outputs)
    found: list[Finding] = []
    if z.is_complex():
        raise expected(f"{name}outputs", "real numbers", f"dtype {z.dtype}")
    z = z if z.is_floating_point() else z.double()
    z = z.float() if z.element_size() < 4 else z  # the sums of half precision are rounded, too
    if z.ndim in (1, 2) and len(missing := z.isnan().reshape(len(z), -1).any(1).nonzero()):
        got = f"NaN in row {int(missing[0])}, from 0{f' and {len(missing) - 1} others' * (len(missing) > 1)}"
        raise expected(f"{name}outputs", "without missing values", got)
    wide = z.ndim == 2 and z.shape[1] > 1
    if kind == "logits" and wide and len(z) and (are_probs(z) if floor is None else could_be_probs(z)):
        text = (
            "These are probabilities, not logits: every row lies in [0, 1] and sums to 1. All numbers here take them "
            'for probabilities; say so with kind="probabilities", or give the outputs from before the softmax.'
        )
        found.append(Finding("cured", "probabilities for logits", text))
        kind = "probabilities"
    z = two_columns(z, probs=kind != "logits")
    if kind == "logits":
        z = check_logits(z, f"{name}logits")
        return Outputs((z if floor is None else z.log_softmax(1)).numpy(), None, floor, tuple(found))
    total = z.sum(1, keepdim=True) if z.ndim == 2 else z
    off = float((total - 1).abs().max()) if z.ndim == 2 and z.numel() else 0.0
    if SUM_TOLERANCE < off <= 0.05:
        text = f"Rows of probabilities sum to 1 only within {off:.1g}, as after rounding; each was divided by its sum."
        found.append(Finding("note", "rounded probabilities", text))
    given = z
    if z.ndim == 2 and off <= 0.05:  # each row by itself, whatever the others sum to
        z = z / total
        given = z.where((total - 1).abs() > SUM_TOLERANCE, given)
    p, as_given = scan_probs(z)[0].numpy(), scan_probs(given)[0].numpy()
    zeros, why = p == 0, "half the smallest above 0" if floor is None else "as where the calibrator was fitted"
    logs, floor = log_probs(p, floor)
    if zeros.any():
        text = (
            f"{zeros.mean():.1%} of the {name}probabilities are 0 and have no logarithm; a fit takes them for "
            f"{floor:.1g}, {why}; so does the NLL of the network, where it would be infinite. All else is measured on "
            "the probabilities as they are."
        )
        votes = could_be_votes(p, total.numpy())
        usual = " They look like votes, as of the trees of a forest, where zeros are usual."
        text += usual if votes else " Logits would be better."
        weight: Weight = "doubt" if zeros.mean() > 0.01 and not votes else "note"
        found.append(Finding(weight, "zero probabilities", text))
    return Outputs(logs, as_given, floor, tuple(found))


def could_be_votes(p: np.ndarray, total: np.ndarray) -> bool:
    """Whether probabilities (N, K) with zeros could be shares of votes, as of trees or neighbours, or means of such.

    Shares are counts over some thousands at most: but for the zeros none is tiny, as the least of a softmax are; and
    ``total``, the sums of the rows, are 1, which those of rounded numbers are not. Of two classes rounded numbers sum
    to 1, too: there those of four to six digits are no shares, and those of fewer may be, as of 1,000 trees.

    Example:
        >>> p = np.array([[1.0, 0.0], [0.99, 0.01]])
        >>> [could_be_votes(x, x.sum(1)) for x in (p, np.array([[1.0, 0.0], [1 - 1e-9, 1e-9]]))]
        [True, False]
    """
    if np.abs(total - 1).max() > 3e-6 or p[p > 0].min() < 3e-6:
        return False
    of_three, of_six = (np.abs(10**n * p - (10**n * p).round()).max() < 0.1 for n in (3, 6))
    return bool(p.shape[1] > 2 or of_three or not of_six)
