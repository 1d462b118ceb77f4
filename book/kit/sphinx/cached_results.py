"""What many places of a build read: of each folder of results it is computed once."""

from functools import cache
from pathlib import Path

import pandas as pd

from book.kit import results
from calibkit import _folders


def answers(*by: str) -> pd.DataFrame:
    """How many printed numbers have which answer: :func:`book.kit.results.summary`."""
    return _answers(_folders.stored(), by)


def of_the_network() -> str:
    """What of the reproduced numbers says nothing of a method: :func:`book.kit.results.of_the_network`."""
    return results.of_the_network(_compared(_folders.stored()))


def unkept() -> dict[str, int]:
    """By paper, how many of its printed numbers are answered by trainings of ours that are not stored."""
    return _unkept(_folders.stored())


def claims() -> pd.DataFrame:
    """The ledger: :func:`book.kit.results.ledger`."""
    return _claims(_folders.stored())


def differences() -> pd.DataFrame:
    """The rows of ``effects.csv``."""
    return _differences(_folders.stored())


def measured() -> pd.DataFrame:
    """The rows of ``ours.csv``."""
    return _measured(_folders.stored())


@cache
def _compared(folder: Path) -> pd.DataFrame:  # results.everything reads there
    return results.everything()


@cache
def _answers(folder: Path, by: tuple[str, ...]) -> pd.DataFrame:
    return results.summary(_compared(folder), by=by)


@cache
def _unkept(folder: Path) -> dict[str, int]:
    lost = results.gone(_measured(folder), _differences(folder))
    cells = {*zip(lost["dataset"], lost["model"], lost["loss"], strict=True)}
    rows = _compared(folder)
    data, _, model = (rows["stand_in"].where(rows["stand_in"] != "", rows["model"])).str.rpartition("/").T.to_numpy()
    data = [name or own for name, own in zip(data, rows["dataset"], strict=True)]
    ours = (rows["source"] == "ours") | (rows["stand_in"] != "")
    rests = [cell in cells for cell in zip(data, model, rows["loss"], strict=True)]
    return (ours & pd.Series(rests, rows.index)).groupby(rows["paper"]).sum().to_dict()


@cache
def _claims(folder: Path) -> pd.DataFrame:
    return results.ledger()


@cache
def _differences(folder: Path) -> pd.DataFrame:
    return results.load_effects(folder)


@cache
def _measured(folder: Path) -> pd.DataFrame:
    return results.load("ours", folder)
