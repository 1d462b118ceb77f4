"""Multiple-choice questions as lm-evaluation-harness logs them become a table with a column an option.

A line of ``samples_TASK_DATE.jsonl`` is a question. For each option ``filtered_resps``, or ``resps``, holds its
log-likelihood and whether greedy decoding gives it: ``[[-3.1, false], [-1.4, true]]``, today as text, ``["-3.1",
"False"]``. ``arguments`` holds prompt and option, in a list, today as ``{"gen_args_0": {"arg_0": ..., "arg_1": ...}}``.
``target`` is the index of the right option, its text or its letter, today always as text; ``acc`` tells which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs

if TYPE_CHECKING:
    from pandas import DataFrame

ANSWERS = ("filtered_resps", "resps")


def are_questions(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the lines of a file are such a log."""
    return bool(rows) and any(isinstance(rows[0].get(name), list) for name in ANSWERS)


def of_questions(rows: Sequence[Mapping[str, Any]], *, per_character: bool = False) -> DataFrame:
    """A table with a row a question: ``doc_id``, ``logit_A``, ``logit_B``, ..., and ``label``, a letter.

    The log-likelihoods are logits: their softmax is the model's probability of each option, given that one of them is
    the answer. As an array has one number of classes, the questions with the commonest number of options are taken.
    Of a question that has a line for each of several filters the first is taken. ``attrs["told"]`` says how many are
    left out, and where all answers stand in one place.

    Args:
        rows: the lines of the log, as dicts.
        per_character: divide each log-likelihood by the characters of its option, as ``acc_norm`` does.

    Raises:
        ValueError: a question without two options or more, each with a log-likelihood that is finite and at most 0; a
            target that is no option, or not the one that ``acc`` tells; ``per_character`` where ``arguments`` have no
            options.

    Example:
        >>> row = {"doc_id": 0, "target": "1", "filtered_resps": [["-3.5", "False"], ["-1.5", "True"]], "acc": 1.0}
        >>> of_questions([row]).to_dict("records")
        [{'doc_id': 0, 'logit_A': -3.5, 'logit_B': -1.5, 'label': 'B'}]
    """
    with needs("report"):
        import pandas as pd

    if not rows:
        raise expected("source", "a log with questions", "none")
    found = {i: _log_likelihoods(rows[i], i + 1) for i in _of_one_filter(rows)}
    sizes = Counter(map(len, found.values()))
    n = max(sizes, key=lambda size: (sizes[size], size))
    kept = [i for i, each in found.items() if len(each) == n]
    names = ascii_uppercase[:n] if n <= len(ascii_uppercase) else [str(k) for k in range(n)]
    logits = np.array([found[i] for i in kept])
    labels = _labels({i + 1: rows[i] for i in kept}, logits)
    if per_character:
        logits = logits / [_lengths(rows[i], i + 1, n) for i in kept]
    columns = {"doc_id": [rows[i].get("doc_id", i) for i in kept]}
    columns |= {f"logit_{name}": column for name, column in zip(names, logits.T, strict=True)}
    table = pd.DataFrame(columns if labels is None else {**columns, "label": [names[k] for k in labels]})
    told = []
    if len(sizes) > 1:
        told.append(f"{len(kept):,} questions of {n} options; left out, {len(found) - len(kept):,} of others")
    if len(found) < len(rows):
        told.append(f"the first filter of each question; left out, {len(rows) - len(found):,} lines of others")
    if labels is not None and len(set(labels)) == 1 < len(labels):
        alike = "take what treats all options alike (--calibrators temperature_scaling)"
        told.append(f"the answer is always {names[labels[0]]}, so its place gives it away; {alike}")
    table.attrs["told"] = told
    return table


def _of_one_filter(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """The lines without those that say of a question what another filter than the first makes of it."""
    first: dict[str, str] = {}
    questions = [str([row.get("doc_id", i), row.get("doc_hash")]) for i, row in enumerate(rows)]
    filters = [str(row.get("filter")) for row in rows]
    return [i for i, (of, by) in enumerate(zip(questions, filters, strict=True)) if first.setdefault(of, by) == by]


def _log_likelihoods(row: Mapping[str, Any], number: int) -> list[float]:
    """One an option."""
    answers = next((row[name] for name in ANSWERS if row.get(name)), None)
    try:
        found = [_first(answer) for answer in answers] if isinstance(answers, list) else []
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        found = []
    if "acc_mutual_info" in row:  # the options once more, without the question
        found = found[: len(found) // 2]
    if len(found) < 2 or not np.isfinite(found).all() or max(found) > 0:  # generated numbers are none
        want = "questions with a log-likelihood, finite and at most 0, for each of two options or more"
        raise expected("source", want, f"{str(answers)[:40]} ... in question {number}, the first being 1")
    return found


def _first(answer: Any) -> float:
    """The log-likelihood of an answer: itself, or the first of a pair, or of the first pair of several."""
    while isinstance(answer, list):
        answer = answer[0]
    return float(answer)


def _texts(row: Mapping[str, Any]) -> list[str]:
    """The options as they were put to the model; none where they were not logged."""
    arguments = row.get("arguments")
    given = list(arguments.values()) if isinstance(arguments, Mapping) else arguments
    try:
        return [str(x["arg_1"] if isinstance(x, Mapping) else x[1]).strip() for x in given]  # type: ignore[union-attr]
    except (TypeError, IndexError, KeyError):
        return []


def _lengths(row: Mapping[str, Any], number: int, n: int) -> list[int]:
    lengths = [len(text) for text in _texts(row)[:n]]
    if len(lengths) < n or not all(lengths):
        raise expected("source", "questions with the text of each option in `arguments`", f"none in question {number}")
    return lengths


def _options(row: Mapping[str, Any], n: int) -> list[int | None]:
    """The option whose index, whose text and whose letter the target is; None: of none."""
    target, texts, letters = str(row.get("target")).strip(), _texts(row)[:n], [*ascii_uppercase[:n]]
    bare = target.strip("[] ")
    by_index = int(bare) if bare.isdecimal() and int(bare) < n else None
    by_text = next((texts.index(text) for text in (target, bare) if texts.count(text) == 1), None)
    return [by_index, by_text, letters.index(bare) if bare in letters else None]


def _labels(rows: Mapping[int, Mapping[str, Any]], logits: np.ndarray) -> list[int] | None:
    """The right options (N,), by the one way to read all targets that ``acc`` does not contradict; None: no targets."""
    if not any("target" in row for row in rows.values()):
        return None
    n, top = logits.shape[1], logits.argmax(1)
    rights = [row.get("acc") for row in rows.values()]
    found = []
    for labels in zip(*(_options(row, n) for row in rows.values()), strict=True):
        told = zip(labels, top, rights, strict=True)
        found.append([None if isinstance(acc, int | float) and bool(acc) != (k == i) else k for k, i, acc in told])
    whole = {tuple(k for k in labels if k is not None) for labels in found if None not in labels}
    if len(whole) == 1:
        return list(whole.pop())
    number = next((i for i, of in zip(rows, zip(*found, strict=True), strict=True) if set(of) == {None}), min(rows))
    want = "questions whose target is the index, the text or the letter of one option, the same in all, as `acc` has it"
    raise expected("source", want, f"{rows[number].get('target')!r} in question {number}, the first being 1")
