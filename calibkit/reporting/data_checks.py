"""Checks of held-out data, in one split and between two: what looks wrong, by a test that is valid at any size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from calibkit._arrays import blocks
from calibkit._checks import to_tensor
from calibkit.logits import HeldOut
from calibkit.metrics.drift import binomial_tail, chi_square_tail

ALPHA = 1e-3  # of each test, whatever the sizes: a report that cries wolf is not read
DEALS = 20_000  # of the values of two splits at random, where a test needs them
SHIFT = 0.05  # total variation between two splits' labels that matters
LEAK = 0.01  # of the test for samples in both splits, which the report does only where there are coincidences
GAP = 0.02  # difference of two splits' confidence less accuracy that matters
TRAINED = 0.03  # accuracy on the validation set above that on the test set that matters
RAREST = 20  # samples of a class: of two it decides what can be fitted and judged
SAME = 1e-6  # relative spread of logits that is rounding
GUESSING, CLAIMED = 2.3, 6.0  # standard errors from chance: less is none that shows; what outputs say of themselves

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


def in_split(part: HeldOut, name: str, classes: Sequence[str], coarse: bool) -> Iterator[Finding]:
    """What looks wrong in one split; ``name`` is "validation ", "test " or nothing.

    Of ``coarse`` outputs, as rounded ones, equal rows prove nothing.
    """
    n, k = part.logits.shape
    counts = np.bincount(part.labels, minlength=k)
    absent = np.flatnonzero(counts == 0)
    weight: Weight
    if len(absent):
        shown = ", ".join(classes[i] for i in absent[:5]) + (" and others" if len(absent) > 5 else "")
        weight, asked = ("doubt", " Are they classes?") if n >= RAREST * k else ("note", "")
        text = f"{len(absent):,} of {k:,} classes have no {name}sample: {shown}.{asked}"
        yield Finding(weight, "missing class", text)
    few = np.flatnonzero((counts > 0) & (counts < RAREST))
    if len(few) and n >= RAREST * k:
        least = few[counts[few].argmin()]
        have = "other has" if len(few) == 2 else "others have"
        others = f", and {len(few) - 1:,} {have} fewer than {RAREST}" * (len(few) > 1)
        text = f"Of the {n:,} {name}samples only {counts[least]} are {classes[least]}{others}. "
        weight = "doubt" if k == 2 else "note"
        yield Finding(weight, "few of a class", text + f"Collect more: {RAREST} are the least to go by.")
    accuracy = float((part.logits.argmax(1) == part.labels).mean())
    share = counts.max() / n
    if accuracy <= share + 2 * math.sqrt(share * (1 - share) / n):
        found, claimed = information(part)
        same = n >= RAREST and share < 1 and float(np.ptp(part.logits, 0).max()) <= SAME * np.abs(part.logits).max()
        if same or (found < GUESSING and claimed > CLAIMED):
            text = (
                f"The {name}outputs say nothing about the labels that chance would not: of the predictions "
                f"{accuracy:.1%} are right, and {share:.1%} would be by always naming the most frequent class. "
            )
            if same:
                text += "The outputs of all samples are the same: is the network that was trained in use?"
            else:
                text += "Do the labels belong to these rows, and the classes to these columns?"
            yield Finding("wrong", "no better than guessing", text)
    if coarse:
        return
    distinct, row = np.unique(row_keys(part.logits), return_inverse=True)
    copies = n - len(distinct)
    if copies:
        pairs = np.column_stack([row, part.labels])
        alike = n - len(np.unique(pairs, axis=0)) == copies  # of a sample that is there twice the label is the same
        tied = np.bincount(row)[row] > 1
        wrong = float((part.logits.argmax(1) != part.labels)[tied].mean())  # alone decides where all are right
        by_chance = (wrong**2 + (1 - wrong) ** 2) ** copies
        weight = "doubt" if alike and copies > 0.01 * n and by_chance < ALPHA else "note"
        text = f"{copies} of {n} {name}samples have outputs equal to those of another: " + (
            "the same sample twice, or outputs of few values as those of trees?"
            if alike
            else "some with another label, so the outputs have few digits."
        )
        yield Finding(weight, "duplicates", text)


def information(part: HeldOut) -> tuple[float, float]:
    """How far from chance the outputs tell the labels, in standard errors; and how far they should by their own word.

    The statistic is the sum, over the samples, of the rank that the log-probability of a sample's label has among
    those of the same class: Wilcoxon's of each class against all others, together, with the variance of a random order
    of the labels. It does not mind how rare a class is. By their own word: with the ranks that the probabilities of a
    class expect, for as many samples as it has.
    """
    n, k = part.logits.shape
    shares = np.bincount(part.labels, minlength=k) / n
    logs = to_tensor("logits", part.logits).double().log_softmax(1).numpy()
    means, square, found, claimed = np.zeros(n), 0.0, 0.0, 0.0
    for column, log_p in enumerate(logs.T):
        rank = _ranks(log_p)
        means += shares[column] * rank
        square += shares[column] * float(rank @ rank)
        found += float(rank[part.labels == column].sum())
        p = np.exp(log_p)
        claimed += float(shares[column]) * n * float(rank @ p) / max(float(p.sum()), 1e-300)
    error = math.sqrt(max(n * (square - float(means @ means)) / (n - 1), 0.0)) if n > 1 else 0.0
    return (found / error, claimed / error) if error > 0 else (0.0, 0.0)


def _ranks(x: np.ndarray) -> np.ndarray:
    """(N,) the rank of each number less the mean rank; equal ones share theirs."""
    _, row, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[row] - (len(x) + 1) / 2


def between_splits(val: HeldOut, test: HeldOut, classes: Sequence[str], coarse: bool) -> Iterator[Finding]:
    """What looks wrong between the split to fit on and the one to judge by."""
    common = 0
    if not coarse:
        distinct, counts = np.unique(row_keys(val.logits), return_counts=True)
        common = int(np.isin(row_keys(test.logits), distinct).sum())
    if common:  # where outputs have few digits, rows agree by chance, within a split as often as between the two
        among = int(counts[counts > 1].sum())
        text = f"{common} of {len(test.labels)} test samples have outputs that are in the validation set too. "
        share = len(test.labels) / (len(test.labels) + len(val.labels))
        mean = share * (common + among)
        if common >= mean and binomial_tail(common, common + among, mean) <= LEAK:
            yield Finding("doubt", "samples in both splits", text + "What was fitted on them is judged too well.")
        else:
            text += f"So have {among} validation samples among themselves: the outputs may have few digits."
            yield Finding("note", "samples in both splits", text)
    shifted = list(_label_shift(val.labels, test.labels, classes))
    yield from shifted
    alike = _of_equal_shares(val, test) if shifted else (val, test)
    right = [(part.logits.argmax(1) == part.labels).astype(float) for part in alike]
    gain = float(right[0].mean() - right[1].mean())
    if gain > TRAINED and by_chance(_of_units(alike[0], right[0]), _of_units(alike[1], right[1]), 1) <= ALPHA:
        text = (
            f"The network is right on {right[0].mean():.1%} of the validation samples and on {right[1].mean():.1%} of "
            f"the test samples{', at equal shares of the classes' * len(shifted)}. "
            "Was it trained on the validation samples? What is fitted on those stays over-confident."
        )
        yield Finding("doubt", "trained on the validation set", text)
        return
    gaps = [part.probs.max(1) - (part.logits.argmax(1) == part.labels) for part in (val, test)]
    apart = abs(gaps[0].mean() - gaps[1].mean()) > GAP
    if apart and by_chance(_of_units(val, gaps[0]), _of_units(test, gaps[1])) <= ALPHA:
        text = (
            f"The validation set is shifted: confidence less accuracy is {100 * gaps[0].mean():+.1f} points on it and "
            f"{100 * gaps[1].mean():+.1f} on the test set. A calibrator fitted on one does not fit the other."
        )
        yield Finding("doubt", "shift between the splits", text)


def _of_equal_shares(val: HeldOut, test: HeldOut) -> tuple[HeldOut, HeldOut]:
    """Both with the class shares of the test set; of ``val`` as many as there are, spread over the top logits."""
    have, want = (np.bincount(part.labels, minlength=val.logits.shape[1]) for part in (val, test))
    both = (have > 0) & (want > 0)
    if not both.any():
        return val, test
    most = np.rint(both * want * (have[both] / want[both]).min()).astype(int)
    order = np.argsort(val.logits.max(1), kind="stable")
    of_class = [order[val.labels[order] == k] for k in range(len(most))]
    spread = [
        rows[np.linspace(0, len(rows) - 1, n).round().astype(int)] for rows, n in zip(of_class, most, strict=True)
    ]
    rows = ((val, np.concatenate(spread)), (test, np.flatnonzero(both[test.labels])))
    val, test = (
        HeldOut(part.logits[of], part.labels[of], None if part.groups is None else part.groups[of]) for part, of in rows
    )
    return val, test


def _of_units(part: HeldOut, values: np.ndarray) -> np.ndarray:
    """A value for each sample, or for each group, where there are groups, their mean."""
    if part.groups is None:
        return values
    _, group = np.unique(part.groups, return_inverse=True)
    return np.bincount(group, values) / np.bincount(group)


def by_chance(a: np.ndarray, b: np.ndarray, sign: int = 0) -> float:
    """The chance of so large a difference of means if the values had been dealt to the two at random.

    It holds for any sizes and any distribution of the values (N,) and (M,), which are rounded to 50 steps between the
    smallest and the largest. By ``DEALS`` deals of a fixed seed, or by the normal distribution where the chance is
    large. A ``sign`` of 1 counts differences a - b that are as large, 0 those of either sign.
    """
    values = np.concatenate([a, b])
    n, few, spread = len(values), min(len(a), len(b)), float(np.ptp(values))
    difference = float(a.mean() - b.mean())
    if spread == 0 or (sign and difference <= 0):
        return 1.0
    z = abs(difference) / math.sqrt(float(values.var()) * n / (n - 1) * (1 / len(a) + 1 / len(b)))
    if z < 2:
        return math.erfc(z / math.sqrt(2)) / (2 if sign else 1)
    steps = np.rint((values - values.min()) * (50 / spread)).astype(np.int64)
    smaller, rng = steps[:few] if len(a) == few else steps[len(a) :], np.random.default_rng(0)
    counts = np.bincount(steps)
    dealt = rng.multivariate_hypergeometric(counts, few, size=DEALS) @ np.arange(len(counts)) - few * steps.mean()
    seen = float(smaller.sum() - few * steps.mean())
    side = dealt * np.sign(seen) if sign else np.abs(dealt)
    return float((side >= abs(seen) - 1e-6).sum() + 1) / (DEALS + 1)


def _label_shift(val: np.ndarray, test: np.ndarray, classes: Sequence[str]) -> Iterator[Finding]:
    """A chi-square test of the class counts of two splits; rare classes are pooled."""
    counts = np.array([np.bincount(labels, minlength=len(classes)) for labels in (val, test)], dtype=float)
    p_value = same_counts(counts)
    shares = counts / counts.sum(1, keepdims=True)
    variation = 0.5 * np.abs(shares[0] - shares[1]).sum()
    noise = 0.5 * np.sqrt(2 / math.pi * (counts.sum(0) / counts.sum()) * (1 / counts.sum(1)).sum()).sum()
    if p_value < ALPHA and variation - noise > SHIFT:
        worst = int(np.argmax(np.abs(shares[0] - shares[1])))
        text = (
            "The validation set is shifted: its classes have other shares than those of the test set. "
            f"Class {classes[worst]} is {shares[0][worst]:.1%} of the one and {shares[1][worst]:.1%} of the other. "
            "Fit on labels with the shares that the network will meet. If all classes are equally common there, try "
            "temperature_scaling:class_balanced, or prior_correction where predictions may change. For other shares "
            "prior_correction takes a target."
        )
        yield Finding("doubt", "label shift", text)


def same_counts(counts: np.ndarray) -> float:
    """The p-value of a chi-square test that two rows of counts (2, K) have the same shares.

    Columns where fewer than 5 are expected of either row are pooled.
    """
    total = counts.sum()
    rare = counts.sum(0) * counts.sum(1).min() / total < 5
    table = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    table = table[:, table.sum(0) > 0]
    if table.shape[1] < 2 or not table.sum(1).all():
        return 1.0
    wanted = np.outer(table.sum(1), table.sum(0)) / total
    statistic = float(((table - wanted) ** 2 / wanted).sum())
    return chi_square_tail(statistic, table.shape[1] - 1)


def row_keys(x: np.ndarray) -> np.ndarray:
    """(N,) integers that are equal where rows of floats (N, K) are, and by chance once in 2^64 pairs else."""
    bits = np.ascontiguousarray(x).view(np.uint32 if x.dtype == np.float32 else np.uint64)
    odd = np.random.default_rng(0).integers(1, 2**63, size=bits.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    keys = np.empty(len(bits), np.uint64)
    for rows in blocks(len(bits), bits.shape[1], 8):
        mixed = bits[rows].astype(np.uint64) + odd
        mixed ^= mixed >> np.uint64(29)
        keys[rows] = (mixed * odd).sum(1, dtype=np.uint64)
    return keys
