"""What is wrong with a classifier's outputs and labels, in plain words; and what has one cure is cured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args
from unicodedata import normalize

import numpy as np

from calibkit._arrays import is_one_column, two_columns
from calibkit._checks import (
    SUM_TOLERANCE,
    are_probs,
    check_held_out,
    check_integers,
    check_logits,
    check_not_sigmoids,
    could_be_probs,
    expected,
    scan_probs,
    to_tensor,
)
from calibkit.logits import HeldOut, check_not_missing, log_probs
from calibkit.reading import Given, Kind, Part
from calibkit.reporting.data_checks import Finding, Weight, between_splits, in_split

FEWEST = 50  # samples for one temperature, and to judge by
FEW = ("missing class", "few of a class")  # told first, notes too


@dataclass(frozen=True)
class Diagnosed:
    """Checked logits and labels, and what was found in them.

    Attributes:
        val: to fit on.
        test: to judge by, or None: then ``val`` is cross-fitted.
        classes: K names.
        findings: the heaviest first.
        source: what to call the data.
        floor: what a fit takes a probability of 0 for; None where the outputs are logits.
    """

    val: HeldOut
    test: HeldOut | None
    classes: tuple[str, ...]
    findings: tuple[Finding, ...]
    source: str
    floor: float | None = None

    @property
    def first_paragraph(self) -> str:
        """What a reader must know before any number."""
        said = [finding.text for finding in self.findings if finding.weight != "note" or finding.kind in FEW]
        return " ".join(said) if said else "Nothing in these data looks wrong."


def diagnose(given: Given) -> Diagnosed:
    """Check what was read, cure what has one cure, and say what looks wrong.

    Probabilities become logits by the logarithm, which their softmax undoes but for zeros: for a fit, one of either
    part is taken for half the smallest number above it in the validation part. Labels become integers from 0.

    Raises:
        ValueError: numbers that cannot be used: NaN, shapes that do not fit, labels that are no classes.
    """
    names: tuple[str, ...] = ("",) if given.test is None else ("validation ", "test ")
    outputs: list[Outputs] = []
    for part, name in zip(given.parts, names, strict=True):
        outputs.append(outputs_of(part, given.kind, name, outputs[0].floor if outputs else None))
    k, width = (out.logits.shape[1] for out in (outputs[0], outputs[-1]))
    if width != k:
        raise expected("test outputs", f"of shape (M, {k}) as the validation outputs", f"{width} columns")
    named = given.classes if len(given.classes) == k else ()
    labels, found = _labels(given.parts, k, named, names)
    found = [finding for out in outputs for finding in out.findings] + found
    held = []
    for part, name, out, numbers in zip(given.parts, names, outputs, labels, strict=True):
        z, y = check_held_out(out.logits, numbers, (f"{name}logits", f"{name}labels"))
        if given.kind == "logits" and is_one_column(part.outputs):
            check_not_sigmoids(f"{name}logits", z)
        groups = None if part.groups is None else check_integers(f"{name}groups", part.groups, len(z)).numpy()
        held.append(HeldOut(z.numpy(), y.numpy(), groups, out.given))
    classes = named or tuple(map(str, range(k)))
    coarse = any(finding.kind in ("zero probabilities", "rounded probabilities") for finding in found)
    for name, split in zip(names, held, strict=True):
        found += in_split(split, name, classes, coarse)
    if len(held) == 2:
        found += between_splits(held[0], held[1], classes, coarse)
    found += _too_few(held[0], held[-1], names[-1])
    found += [Finding("note", "read as", f"Read as: {text}.") for text in given.told]
    unique = tuple(dict.fromkeys(sorted(found, key=lambda finding: get_args(Weight).index(finding.weight))))
    test = held[1] if len(held) == 2 else None
    return Diagnosed(held[0], test, classes, unique, given.source, outputs[0].floor)


def _too_few(val: HeldOut, judged: HeldOut, name: str) -> Iterator[Finding]:
    """What too few samples, or groups where samples go together, mean for the fits and for the intervals."""
    n_units, what = val.units
    if n_units < FEWEST:
        text = f"There are {n_units} {what} to fit on; even one temperature wants {FEWEST}. Collect more."
        yield Finding("doubt", "too few samples", text)
    n_units, what = judged.units
    if n_units < FEWEST:
        text = f"There are {n_units} {name}{what}; intervals from fewer than {FEWEST} are too short. Collect more."
        yield Finding("doubt", f"too few {name}samples", text)


def _whole(y: np.ndarray) -> np.ndarray:
    """Whole numbers that int64 holds as integers, whatever else as it is."""
    whole = y.dtype.kind == "f" and np.isfinite(y).all() and (y == y.round()).all() and (np.abs(y) < 2**63).all()
    return y.astype(np.int64) if whole else y


def _check_range(y: np.ndarray, k: int, name: str) -> None:
    """Refuse labels beyond int64, as which they would be others."""
    if y.dtype.kind in "fu":
        numbers = y[np.isfinite(y)]
        numbers = [numbers[np.abs(numbers).argmax()].item()] if len(numbers) else []
    else:
        numbers = [number for number in y.reshape(-1).tolist() if isinstance(number, int)]
    if beyond := [number for number in numbers if not -(2**63) <= number < 2**63]:
        raise expected(f"{name}labels", f"in [0, {k})", beyond[0])


def _alike(name: str) -> str:
    """What names have in common that look alike."""
    return normalize("NFKC", name).strip().casefold()


def _labels(
    parts: Sequence[Part], k: int, classes: tuple[str, ...], names: tuple[str, ...]
) -> tuple[list[np.ndarray], list[Finding]]:
    """Labels as integers from 0, numbered alike in all parts; and what was found in them."""
    given = [np.atleast_1d(np.asarray(part.labels)) for part in parts]
    known = {name: i for i, name in enumerate(classes)}
    for labels in (given, [_whole(y) for y in given]):  # 1.0 is the name "1", where it is not that of a column itself
        if classes and all(set(map(str, np.unique(y.astype(str)))) <= set(known) for y in labels):
            return [np.array([known[label] for label in y.astype(str)], dtype=np.int64) for y in labels], []
    result: list[np.ndarray] = []
    found: list[Finding] = []
    named = False  # of one part the labels are names
    for y, name in zip(given, names, strict=True):
        if y.dtype.kind in "fuO":
            _check_range(y, k, name)
        if y.dtype.kind in "OUST" and classes:
            if odd := [str(label) for label in y if str(label) not in known]:
                near = [repr(of) for of in classes if _alike(of) == _alike(odd[0])]
                form = "spaces or case" + " or the form of accents" * (not odd[0].isascii())
                got = f"{odd[0]!r}{f', which is {near[0]} but for {form}' if near else ''}"
                raise expected(f"{name}labels", f"names of the columns {', '.join(classes[:5])} ...", got)
            y, named = np.array([known[str(label)] for label in y]), True  # the odd one is in the other part
        if y.ndim == 2 and y.shape[1] == k and np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all():
            text = "Labels are one-hot rows, so each sample has one class of several."
            found.append(Finding("cured", "one-hot labels", text))
            y = y.argmax(1)
        result.append(y.astype(np.int64) if y.dtype.kind == "b" else _whole(y))
    whole = [y for y in result if y.dtype.kind in "iu" and y.ndim == 1 and len(y) and not named]
    if len(whole) == len(result) and min(y.min() for y in whole) >= 1 and max(y.max() for y in whole) == k:
        text = f"Labels run from 1 to {k}, where the {k} classes are numbered from 0; 1 was subtracted from each."
        found.append(Finding("cured", "labels from 1", text))
        result = [y.astype(np.int64) - 1 for y in result]
    return result, found


class Outputs(NamedTuple):
    """Checked outputs of one part, and what was found in them."""

    logits: np.ndarray  # (N, K), of probabilities the logarithms, for a fit
    given: np.ndarray | None  # (N, K) probabilities as they were given, rounded rows divided by their sums
    floor: float | None  # what ``logits`` take a probability of 0 for; None of logits
    findings: tuple[Finding, ...]


def outputs_of(part: Part, kind: Kind, name: str, floor: float | None = None) -> Outputs:
    """Logits of a part, through the logarithm where it holds probabilities, and these; and what was found on the way.

    ``floor`` is that of :func:`calibkit.logits.log_probs`, of the probabilities that a calibrator was fitted to: beside
    it logits become the logarithms of their probabilities. ``name`` is that of the part in messages. ValueError tells
    of outputs that are neither finite logits nor probabilities.
    """
    z = to_tensor(f"{name}outputs", part.outputs)
    found: list[Finding] = []
    if z.is_complex():
        raise expected(f"{name}outputs", "real numbers", f"dtype {z.dtype}")
    z = z if z.is_floating_point() else z.double()
    z = z.float() if z.element_size() < 4 else z  # the sums of half precision are rounded, too
    check_not_missing(f"{name}outputs", z.numpy())
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
            f"{floor:.1g}, {why}; so does the NLL of the network in a report, where it would be infinite. All "
            "else is measured on the probabilities as they are."
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
