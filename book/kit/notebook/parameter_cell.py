"""Parameters of a notebook, checked before anything runs.

papermill only warns about a parameter that the notebook does not have, and knows nothing of its values. So the cell
after the one tagged ``parameters`` (papermill puts its own between the two) names every parameter and what it may be:

.. code-block:: python

    from book.kit import notebook

    notebook.parameters(globals(), budget=notebook.BUDGETS, n_bins=range(1, 101), loss=LOSSES)
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

import torch

from calibkit._checks import check_choice, check_real, expected

#: What papermill can inject, and what IPython itself puts into a notebook's namespace.
_LITERALS = (type(None), bool, int, float, str, list, tuple, dict)
_IPYTHON = ("In", "Out")
#: What the parameter ``device`` of a chapter may be here.
DEVICES = ("auto", "cpu", *["cuda"] * torch.cuda.is_available())
_DONE = "_parameters_checked"
#: How the cell begins that papermill puts in.
_GIVEN = "# Parameters\n"


class Real(NamedTuple):
    """A finite number in [low, high], or in (low, high] where ``open_low``."""

    low: float
    high: float
    open_low: bool = False


def parameters(namespace: dict, /, **allowed: Container | Real | type) -> None:
    """Check the parameters of a notebook: every name is known, every value possible.

    Call it once, in the cell after the one tagged ``parameters``, before any other variable exists. When the same
    kernel runs the cell again, later cells have defined variables of their own, and only the values are checked.
    Where papermill was given some, a line says what of the page does not follow them.

    Args:
        namespace: the notebook's ``globals()``.
        allowed: parameter=what it may be: a ``range`` of integers, a ``Real`` interval, a type, or a collection of
            choices (a registry, a tuple). ``[what]`` is a list of such, ``[what, ...]`` one that may be empty.

    Raises:
        ValueError: a name that is not in ``allowed``, a parameter without a value, or an impossible value.

    Example:
        >>> parameters({"n_bins": 15}, n_bins=range(1, 101))
        >>> parameters({"n_bins": 15, "binz": 3}, n_bins=range(1, 101))
        Traceback (most recent call last):
        ValueError: Expected `binz` to be one of the parameters n_bins, but got an unknown name
        >>> parameters({"sizes": []}, sizes=[Real(0, 100)])
        Traceback (most recent call last):
        ValueError: Expected `sizes` to be a list of one or more, as in `papermill ... -y 'sizes: [...]'`, but got []
        >>> parameters({"n_bins": 0}, n_bins=range(1, 101))
        Traceback (most recent call last):
        ValueError: Expected `n_bins` to be an integer in [1, 100], but got 0
    """
    if not namespace.get(_DONE, False):
        for name, value in namespace.items():
            hidden = name.startswith("_") or name in _IPYTHON
            if not hidden and name not in allowed and isinstance(value, _LITERALS):
                raise expected(name, f"one of the parameters {', '.join(allowed)}", "an unknown name")
    for name, what in allowed.items():
        if name not in namespace:
            raise expected(name, "defined in the cell tagged `parameters`", "nothing")
        value = namespace[name]
        if not isinstance(what, list):
            _check(name, value, what)
            continue
        some = "" if ... in what else " of one or more"
        if not isinstance(value, list | tuple) or (some and not value):
            raise expected(name, f"a list{some}, as in `papermill ... -y '{name}: [...]'`", repr(value))
        for entry in value:
            _check(name, entry, what[0])
    namespace[_DONE] = True
    if any(cell.startswith(_GIVEN) for cell in namespace.get("In", ())):
        print("The computed numbers follow these parameters. Captions, labels in pictures and typed sentences do not.")


def _check(name: str, value: object, what: Container | Real | type) -> None:
    if isinstance(value, list | tuple):
        raise expected(name, "one value", repr(value))
    if isinstance(what, Real):
        check_real(name, value, what.low, what.high, open_low=what.open_low)
    elif isinstance(what, type):
        if not isinstance(value, what) or (isinstance(value, bool) and what is not bool):
            raise expected(name, f"of type {what.__name__}", repr(value))
    elif isinstance(what, range):
        if not isinstance(value, int) or isinstance(value, bool) or value not in what:
            raise expected(name, f"an integer in [{what[0]}, {what[-1]}]", repr(value))
    elif isinstance(what, Iterable):
        check_choice(name, value, what)
    else:
        raise expected(name, "described by a range, a Real, a type or a collection", repr(what))
