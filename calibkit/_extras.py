"""What ``pip install .`` leaves out, and how an import that misses it says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of an extra of ``pyproject.toml``: where one is absent, the error names what to install.

    Raises:
        ModuleNotFoundError: with the command that cures it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        text = f"{error.name} is not installed, and this needs it: in the checkout, pip install '.[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name) from error
