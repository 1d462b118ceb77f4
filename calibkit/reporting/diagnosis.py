"""What is wrong with a classifier's outputs and labels, in plain words; and what has one cure is cured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from calibkit._checks import (
    SUM_TOLERANCE,
    are_probs,
    check_held_out,
    check_integers,
    check_logits,
    could_be_probs,
    expected,
    scan_probs,
    to_tensor,
)
from calibkit._columns import BINARY
from calibkit.logits import HeldOut
from calibkit.reading import Given, Kind, Part
from calibkit.reporting import data_checks

#: "wrong": nothing can be advised; "cured": taken for what it must have been; "doubt": results may mislead; "note":
#: good to know.
Weight = Literal["wrong", "cured", "doubt", "note"]
FEWEST = 50  # samples for one temperature, and to judge by


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
        given: (M, K) probabilities as they were given, rounded rows divided by their sums, of the samples to judge by;
            None where the outputs are logits.
    """

    val: HeldOut
    test: HeldOut | None
    classes: tuple[str, ...]
    findings: tuple[Finding, ...]
    source: str
    floor: float | None = None
    given: np.ndarray | None = None

    @property
    def first_paragraph(self) -> str:
        """What a reader must know before any number."""
        heavy = [finding.text for finding in self.findings if finding.weight != "note"]
        return " ".join(heavy) if heavy else "Nothing in these data looks wrong."


class Outputs(NamedTuple):
    """Outputs of one part.

    Attributes:
        logits: (N, K), of probabilities the logarithms, for a fit.
        probs: (N, K) probabilities as they were given, rounded rows divided by their sums; None of logits.
        floor: what ``logits`` take a probability of 0 for; None of logits.
    """

    logits: np.ndarray
    probs: np.ndarray | None
    floor: float | None


def diagnose(given: Given) -> Diagnosed:
    """Check what was read, cure what has one cure, and say what looks wrong.

    Probabilities become logits by the logarithm, which their softmax undoes but for zeros: for a fit, one of either
    part is taken for half the smallest number above it in the validation part. Labels become integers from 0.

    Raises:
        ValueError: numbers that cannot be used: NaN, shapes that do not fit, labels that are no classes.
    """
    parts = [part for part in (given.val, given.test) if part is not None]
    names = ("",) if given.test is None else ("validation ", "test ")
    found: list[Finding] = []
    widths = [np.shape(part.outputs)[-1] if np.ndim(part.outputs) == 2 else 0 for part in parts]
    if len(set(widths)) > 1:
        raise expected("test outputs", f"of shape (M, {widths[0]}) as the validation outputs", f"{widths[1]} columns")
    outputs: list[Outputs] = []
    for part, name in zip(parts, names, strict=True):
        outputs.append(outputs_of(part, given.kind, name, found, outputs[0].floor if outputs else None))
    labels = _labels(parts, outputs[0].logits.shape[1], given.classes, names, found)
    held = []
    for part, name, out, y in zip(parts, names, outputs, labels, strict=True):
        z, y = check_held_out(out.logits, y, (f"{name}logits", f"{name}labels"))
        groups = None if part.groups is None else check_integers(f"{name}groups", part.groups, len(z)).numpy()
        held.append(HeldOut(z.numpy(), y.numpy(), groups))
    k = held[0].logits.shape[1]
    classes = given.classes or tuple(map(str, range(k)))
    coarse = any(finding.kind in ("zero probabilities", "rounded probabilities") for finding in found)
    for name, part in zip(names, held, strict=True):
        found += [Finding(*each) for each in data_checks.of_one(part, name, classes, coarse)]
    if len(held) == 2:
        found += [Finding(*each) for each in data_checks.of_two(*held, classes, coarse, [out.probs for out in outputs])]
    found += _too_few(held[0], held[-1], names[-1])
    unique = tuple(dict.fromkeys(sorted(found, key=lambda finding: get_args(Weight).index(finding.weight))))
    test = held[1] if len(held) == 2 else None
    return Diagnosed(held[0], test, classes, unique, given.source, outputs[0].floor, outputs[-1].probs)


def outputs_of(part: Part, kind: Kind, name: str, found: list[Finding], floor: float | None = None) -> Outputs:
    """Logits of a part, through the logarithm where it holds probabilities, and these.

    Args:
        part: of which the outputs count.
        kind: what they are said to be.
        name: of the part, in messages.
        found: takes what was found.
        floor: of the probabilities that go with these, as those that a calibrator was fitted to: a zero counts as that
            much, or as half the smallest above 0 of its row, and logits become the logarithms of their probabilities.
            None: there are none; the floor of probabilities is half the smallest above 0.

    Raises:
        ValueError: outputs that are neither finite logits nor probabilities.
    """
    z = to_tensor(f"{name}outputs", part.outputs)
    if z.is_complex():
        raise expected(f"{name}outputs", "real numbers", f"dtype {z.dtype}")
    if z.ndim == 1 or z.shape[1:] == (1,):
        got = f"shape {tuple(z.shape)}; {BINARY}"
        raise expected(f"{name}{'logits' if kind == 'logits' else 'probs'}", "of shape (N, K) with K >= 2", got)
    z = z if z.is_floating_point() else z.double()
    z = z.float() if z.element_size() < 4 else z  # the sums of half precision are rounded, too
    if kind == "logits" and z.ndim == 2 and len(z) and (are_probs(z) if floor is None else could_be_probs(z)):
        text = (
            "These are probabilities, not logits: every row lies in [0, 1] and sums to 1. All numbers here take them "
            'for probabilities; say so with kind="probabilities", or give the outputs from before the softmax.'
        )
        found.append(Finding("cured", "probabilities for logits", text))
        kind = "probabilities"
    if kind == "logits":
        z = check_logits(z, f"{name}logits")
        return Outputs((z if floor is None else z.log_softmax(1)).numpy(), None, floor)
    total = z.sum(1, keepdim=True) if z.ndim == 2 else z
    off = float((total - 1).abs().max()) if z.ndim == 2 and z.numel() else 0.0
    if SUM_TOLERANCE < off <= 0.05:
        text = f"Rows of probabilities sum to 1 only within {off:.1g}, as after rounding; each was divided by its sum."
        found.append(Finding("note", "rounded probabilities", text))
    given = z
    if z.ndim == 2 and off <= 0.05:  # each row by itself, whatever the others sum to
        z = z / total
        given = z.where((total - 1).abs() > SUM_TOLERANCE, given)
    p, given = scan_probs(z)[0].numpy(), scan_probs(given)[0].numpy()
    zeros, tiny = p == 0, float(np.finfo(p.dtype).tiny)
    why = "half the smallest above 0" if floor is None else "as where the calibrator was fitted"
    if floor is None:
        floor = max(float(p[~zeros].min()) / 2, tiny)
    if zeros.any():
        text = (
            f"{zeros.mean():.1%} of the {name}probabilities are 0 and have no logarithm; a fit takes them for "
            f"{floor:.1g}, {why}; so does the NLL of the network, where it would be infinite. All else is measured on "
            "the probabilities as they are. Logits would be better."
        )
        found.append(Finding("doubt" if zeros.mean() > 0.01 else "note", "zero probabilities", text))
        below = np.where(zeros, np.inf, p).min(1, keepdims=True) / 2  # a zero stays the smallest of its row
        p = np.where(zeros, np.clip(below, tiny, floor), p)
    return Outputs(np.log(p), given, floor)


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
        numbers = y[np.isfinite(y)].reshape(-1)
        numbers = [numbers[np.abs(numbers).argmax()].item()] if len(numbers) else []
    else:
        numbers = [number for number in y.reshape(-1).tolist() if isinstance(number, int)]
    if beyond := [number for number in numbers if not -(2**63) <= number < 2**63]:
        raise expected(f"{name}labels", f"in [0, {k})", beyond[0])


def _labels(
    parts: list[Part], k: int, classes: tuple[str, ...], names: tuple[str, ...], found: list[Finding]
) -> list[np.ndarray]:
    """Labels as integers from 0, numbered alike in all parts."""
    given = [np.asarray(part.labels) for part in parts]
    known = {name: i for i, name in enumerate(classes)}
    for labels in (given, [_whole(y) for y in given]):  # 1.0 is the name "1", where it is not that of a column itself
        if classes and all(set(map(str, np.unique(y.astype(str)))) <= set(known) for y in labels):
            return [np.array([known[label] for label in y.astype(str)], dtype=np.int64) for y in labels]
    result = []
    for y, name in zip(given, names, strict=True):
        if y.dtype.kind in "fuO":
            _check_range(y, k, name)
        odd = [str(label) for label in y if str(label) not in known] if y.dtype.kind in "OUST" and classes else []
        if odd:
            got = next((f"{label!r}, as of an empty cell" for label in odd if label in ("", "nan", "None", "<NA>")), "")
            raise expected(f"{name}labels", f"names of the columns {', '.join(classes[:5])} ...", got or repr(odd[0]))
        if y.dtype.kind in "OUST" and classes:  # all known: the odd one is in the other part
            continue
        if y.ndim == 2 and y.shape[1] == k and np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all():
            found.append(Finding("note", "one-hot labels", "Labels are one-hot rows; they were numbered from 0."))
            y = y.argmax(1)
        y = _whole(y)
        if y.dtype.kind == "b":
            y = y.astype(np.int64)
        result.append(y)
    whole = [y for y in result if y.dtype.kind in "iu" and y.ndim == 1 and len(y)]
    if len(whole) == len(result) and min(y.min() for y in whole) >= 1 and max(y.max() for y in whole) == k:
        text = f"Labels run from 1 to {k}, where the {k} classes are numbered from 0; 1 was subtracted from each."
        found.append(Finding("cured", "labels from 1", text))
        result = [y.astype(np.int64) - 1 for y in result]
    return result
