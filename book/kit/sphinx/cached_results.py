"""What many places of a build read: of each folder of results it is computed once."""

from collections.abc import Callable
from functools import cache, wraps

import pandas as pd

from book.kit import results
from calibkit import _folders


def once(function: Callable) -> Callable:
    """The function, called once for each folder of results and each choice of arguments."""

    @cache
    def called(folder: object, *arguments: object) -> object:
        return function(*arguments)

    return wraps(function)(lambda *arguments: called(_folders.stored(), *arguments))


compared, claims, differences, measured = map(
    once, (results.everything, results.ledger, results.load_effects, results.load)
)


@once
def answers(*by: str) -> pd.DataFrame:
    """How many printed numbers have which answer: :func:`book.kit.results.summary`."""
    return results.summary(compared(), by=by)


@once
def answered_in_words() -> str:
    """How many answers there are, and how many say something: :func:`book.kit.results.answered_in_words`."""
    return results.answered_in_words(compared())


@once
def unkept() -> dict[str, int]:
    """By paper, how many of its printed numbers are answered by trainings of ours that are not stored."""
    lost = results.gone(measured(), differences())
    cells = {*zip(lost["dataset"], lost["model"], lost["loss"], strict=True)}
    rows = compared()
    data, _, model = (rows["stand_in"].where(rows["stand_in"] != "", rows["model"])).str.rpartition("/").T.to_numpy()
    data = [name or own for name, own in zip(data, rows["dataset"], strict=True)]
    ours = (rows["source"] == "ours") | (rows["stand_in"] != "")
    rests = [cell in cells for cell in zip(data, model, rows["loss"], strict=True)]
    return (ours & pd.Series(rests, rows.index)).groupby(rows["paper"]).sum().to_dict()
