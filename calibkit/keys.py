"""Keys: how results, files and the command line name a loss or a method, with its options, in one line of text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from calibkit._checks import expected

Made = TypeVar("Made")


@dataclass(frozen=True)
class Key:
    """``NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]``: a registry name and the options that are not default.

    Attributes:
        name: key of a registry: of a loss, a calibrator or an objective.
        options: keyword arguments.
        objective: of a calibrator, what it minimises; None: its default.

    Example:
        >>> key = Key.parse("ets:class_loss_scaling normalization=cm")
        >>> key.name, key.objective.name, key.objective.options
        ('ets', 'class_loss_scaling', {'normalization': 'cm'})
        >>> str(Key("mbls", {"margin": 0}))
        'mbls margin=0'
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    objective: Key | None = None

    @classmethod
    def parse(cls, text: str) -> Key:
        """The key that ``text`` writes.

        Raises:
            ValueError: the text is no key, or gives an option twice.
        """
        parts = text.split(":") if isinstance(text, str) else []
        if not 1 <= len(parts) <= 2:
            raise expected("key", "NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]", repr(text))
        keys = [cls(*_part(part, text)) for part in parts]
        return keys[0] if len(keys) == 1 else cls(keys[0].name, keys[0].options, keys[1])

    def __str__(self) -> str:
        """The text that ``parse`` reads."""
        options = (f"{option}={str(value).replace(' ', '')}" for option, value in self.options.items())
        own = " ".join([self.name, *options])
        return own if self.objective is None else f"{own}:{self.objective}"

    def build(self, registry: Mapping[str, Callable[..., Made]], what: str = "key") -> Made:
        """``registry[name](**options)``.

        Args:
            registry: names and what they build.
            what: the argument that an error speaks of.

        Raises:
            ValueError: an unknown name, or an option that it does not have.
        """
        if self.name not in registry:
            raise expected(what, f"one of {', '.join(registry)}", repr(self.name))
        return make(registry[self.name], what, self.options)


def _part(text: str, key: str) -> tuple[str, dict[str, Any]]:
    """Name and options of one side of the colon."""
    name, *given = text.split() or [""]
    pairs = [option.partition("=") for option in given]
    if not name.isidentifier() or not all(o.isidentifier() and eq and value for o, eq, value in pairs):
        raise expected("key", "NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]", repr(key))
    options = {option: _literal(value) for option, _, value in pairs}
    if len(options) < len(pairs):
        raise expected("key", "one that gives each option once", repr(key))
    return name, options


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two of what is nested too deep
        return text


def make(cls: Callable[..., Made], what: str, options: Mapping[str, Any]) -> Made:
    """``cls(**options)``; an option that it does not have raises ValueError, in the one wording, with those it has."""
    known = inspect.signature(cls).parameters
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not takes_more:
            raise expected(what, f"with options among {', '.join(known)}" if known else "without options", option)
    return cls(**options)
