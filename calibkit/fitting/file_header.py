"""The header of a calibrator's file: which class wrote it, with which options. JSON, no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from calibkit._checks import check_real, check_texts, expected
from calibkit._files import read_json, read_npz
from calibkit.objectives import OBJECTIVES
from calibkit.reading.columns import without_prefix


def header_text(facts: dict[str, object]) -> str:
    """The header of these facts; among the options, objectives become their names and arguments."""
    return json.dumps(facts, default=_objective_to_json)


def read_header(path: str | os.PathLike) -> dict[str, object]:
    """The facts of ``header_text``, from the entry ``header`` of an npz; KeyError of none, ValueError of no JSON."""
    return read_json(path, read_npz(path, ["header"])["header"], object_hook=_objective_from_json)


def names_of(columns: Iterable[object], n_classes: int) -> tuple[str, ...]:
    """The names of K columns that are different texts, without a prefix that all have; of others none.

    Example:
        >>> names_of(["logit_cat", "logit_dog"], 2), names_of(range(2), 2)
        (('cat', 'dog'), ())
    """
    names = [str(name) for name in columns if isinstance(name, str)]
    return without_prefix(names)[0] if len(set(names)) == len(names) == n_classes else ()


def check_order(columns: Iterable[object], classes: tuple[str, ...]) -> None:
    """Raise where columns are called as the classes, with a word before each or without, and stand in another order."""
    names, last = list(map(str, columns)), classes[-1] if classes else "\0"
    for word in {name.removesuffix(last) for name in names if name.endswith(last)}:
        wanted = [word + name for name in classes]
        if sorted(names) == sorted(wanted) and names != wanted:
            raise expected("logits", f"with the columns {', '.join(wanted)}, in this order", ", ".join(names))


def classes_and_floor(header: dict[str, object], n_classes: int) -> tuple[tuple[str, ...], float | None]:
    """The names of the columns, or of one for two classes, or none; and the floor of the data, None for logits."""
    classes, floor = tuple(check_texts("classes", header.get("classes", ()))), header.get("floor")
    if len(classes) not in (0, n_classes) and (len(classes), n_classes) != (1, 2):
        raise expected("classes", f"{n_classes} names", len(classes))
    return classes, None if floor is None else check_real("floor", floor, 0.0, 1.0)


@contextmanager
def reading(path: str | os.PathLike, writer: str) -> Iterator[None]:
    """What a file is not, told in the one wording: as a file that ``writer`` did not save."""
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        text = f"no {error}" if isinstance(error, KeyError) else error
        raise expected("path", f"a file that {writer}.save wrote", f"{str(path)!r}: {text}") from error


def _objective_to_json(option: object) -> dict[str, object]:
    """An objective object as its name and its arguments."""
    for name, cls in OBJECTIVES.items():
        if type(option) is cls:
            return {"objective": name, "arguments": asdict(option)}
    raise expected("options", "numbers, strings, sequences of them or objectives of OBJECTIVES", repr(option))


def _objective_from_json(entry: dict[str, object]) -> object:
    return OBJECTIVES[entry["objective"]](**entry["arguments"]) if "arguments" in entry else entry
