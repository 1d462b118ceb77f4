"""What is wrong with a classifier's outputs and labels, in plain words; and what has one cure is cured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from calibkit._arrays import is_one_column
from calibkit._checks import check_held_out, check_integers, check_not_sigmoids, expected
from calibkit.logits import HeldOut
from calibkit.reading import Given, Part
from calibkit.reporting.data_checks import between_splits, in_split
from calibkit.reporting.outputs import Finding, Weight, outputs_of

FEWEST = 50  # samples for one temperature, and to judge by


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
        heavy = [finding.text for finding in self.findings if finding.weight != "note"]
        return " ".join(heavy) if heavy else "Nothing in these data looks wrong."


def diagnose(given: Given, *, suspect: bool = True) -> Diagnosed:
    """Check what was read, cure what has one cure, and say what looks wrong; without ``suspect`` only what was cured.

    Probabilities become logits by the logarithm, which their softmax undoes but for zeros: for a fit, one of either
    part is taken for half the smallest number above it in the validation part. Labels become integers from 0.

    Raises:
        ValueError: numbers that cannot be used: NaN, shapes that do not fit, labels that are no classes.
    """
    parts = [part for part in (given.val, given.test) if part is not None]
    names: tuple[str, ...] = ("",) if given.test is None else ("validation ", "test ")
    shapes = [(0, 2) if is_one_column(part.outputs) else np.shape(part.outputs) for part in parts]
    widths = [shape[-1] if len(shape) == 2 else 0 for shape in shapes]
    if len(set(widths)) > 1:
        raise expected("test outputs", f"of shape (M, {widths[0]}) as the validation outputs", f"{widths[1]} columns")
    outputs = [outputs_of(parts[0], given.kind, names[0])]
    if given.test is not None:
        outputs.append(outputs_of(given.test, given.kind, names[1], outputs[0].floor))
    labels, found = _labels(parts, outputs[0].logits.shape[1], given.classes, names)
    found = [finding for out in outputs for finding in out.findings] + found
    held = []
    for part, name, out, numbers in zip(parts, names, outputs, labels, strict=True):
        z, y = check_held_out(out.logits, numbers, (f"{name}logits", f"{name}labels"))
        if given.kind == "logits" and is_one_column(part.outputs):
            check_not_sigmoids(f"{name}logits", z)
        groups = None if part.groups is None else check_integers(f"{name}groups", part.groups, len(z)).numpy()
        held.append(HeldOut(z.numpy(), y.numpy(), groups, out.given))
    k = held[0].logits.shape[1]
    classes = given.classes or tuple(map(str, range(k)))
    if suspect:
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
    if n_units < FEWEST and (judged is not val or what == "groups"):
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


def _labels(
    parts: list[Part], k: int, classes: tuple[str, ...], names: tuple[str, ...]
) -> tuple[list[np.ndarray], list[Finding]]:
    """Labels as integers from 0, numbered alike in all parts; and what was found in them."""
    given = [np.atleast_1d(np.asarray(part.labels)) for part in parts]
    known = {name: i for i, name in enumerate(classes)}
    for labels in (given, [_whole(y) for y in given]):  # 1.0 is the name "1", where it is not that of a column itself
        if classes and all(set(map(str, np.unique(y.astype(str)))) <= set(known) for y in labels):
            return [np.array([known[label] for label in y.astype(str)], dtype=np.int64) for y in labels], []
    result: list[np.ndarray] = []
    found: list[Finding] = []
    for y, name in zip(given, names, strict=True):
        if y.dtype.kind in "fuO":
            _check_range(y, k, name)
        if y.dtype.kind in "OUST" and classes:
            if odd := [str(label) for label in y if str(label) not in known]:
                raise expected(f"{name}labels", f"names of the columns {', '.join(classes[:5])} ...", repr(odd[0]))
            continue  # all known: the odd one is in the other part
        if y.ndim == 2 and y.shape[1] == k and np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all():
            found.append(
                Finding("cured", "one-hot labels", "Labels are one-hot rows, so each sample has one class of several.")
            )
            y = y.argmax(1)
        result.append(y.astype(np.int64) if y.dtype.kind == "b" else _whole(y))
    whole = [y for y in result if y.dtype.kind in "iu" and y.ndim == 1 and len(y)]
    if len(whole) == len(result) and min(y.min() for y in whole) >= 1 and max(y.max() for y in whole) == k:
        text = f"Labels run from 1 to {k}, where the {k} classes are numbered from 0; 1 was subtracted from each."
        found.append(Finding("cured", "labels from 1", text))
        result = [y.astype(np.int64) - 1 for y in result]
    return result, found
