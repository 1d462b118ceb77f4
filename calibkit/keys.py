"""Keys: how results, files and the command line name a loss or a method, with its options, in one line of text.

:func:`find` is the one place where a name becomes a class: of a registry, of an entry point of another package, or of a
file of one's own, ``PATH.py:CLASS``. The code of that file is executed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from calibkit._checks import expected
from calibkit._files import as_path

Made = TypeVar("Made")

GRAMMAR = "NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]], where NAME may be PATH.py:CLASS"
#: What other packages may add: the group of their entry points; and what instances of a class must have to be one.
GROUPS = {"calibrator": "calibkit.calibrators", "loss": "calibkit.losses"}
NEEDED = {
    "calibrator": ("fit(logits, labels), and transform(logits) or __call__(logits)", ("fit", "transform|__call__")),
    "loss": ("__call__(logits, labels)", ("__call__",)),
}
_IN_FILE = re.compile(r"(?P<path>.+?\.py):(?P<cls>[^\W\d]\w*)", re.DOTALL)


@dataclass(frozen=True)
class Key:
    """``NAME [OPTION=VALUE ...][:OBJECTIVE [OPTION=VALUE ...]]``: a name and the options that are not default.

    Attributes:
        name: of a loss, a calibrator or an objective in its registry; or an entry point, or ``PATH.py:CLASS``.
        options: keyword arguments.
        objective: of a calibrator, what it minimises; None: its default.

    Example:
        >>> key = Key.parse("ets:class_loss_scaling normalization=cm")
        >>> key.name, key.objective.name, key.objective.options
        ('ets', 'class_loss_scaling', {'normalization': 'cm'})
        >>> str(Key("mbls", {"margin": 0})), Key.parse("my/own.py:Mine bins=5").name
        ('mbls margin=0', 'my/own.py:Mine')
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    objective: Key | None = None

    @classmethod
    def parse(cls, text: str) -> Key:
        """The key that ``text`` writes; ValueError of text that is none, or gives an option twice."""
        own = _IN_FILE.match(text) if isinstance(text, str) else None
        name, rest = (own[0], text[own.end() :]) if own else ("", text)
        parts = rest.split(":") if isinstance(rest, str) else []
        if not 1 <= len(parts) <= 2 or (own and rest[:1] not in ("", " ", ":")):
            raise expected("key", GRAMMAR, repr(text))
        return cls(*_part(parts[0], text, name), cls(*_part(parts[1], text)) if len(parts) == 2 else None)

    def __str__(self) -> str:
        """The text that ``parse`` reads."""
        options = (f"{option}={str(value).replace(' ', '')}" for option, value in self.options.items())
        own = " ".join([self.name, *options])
        return own if self.objective is None else f"{own}:{self.objective}"

    def options_and(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the key, and others beside it; ValueError of one that is given twice."""
        for name in self.options.keys() & options:
            beside = f"{name}={self.options[name]!r} in the key and {options[name]!r} beside it"
            raise expected(name, "given once", beside)
        return {**self.options, **options}

    def build(self, registry: Mapping[str, Callable[..., Made]], what: str = "key") -> Made:
        """What :func:`find` finds, called with the options; ValueError of an option that it does not have."""
        return make(find(self.name, registry, what), what, self.options)


def _part(text: str, key: str, own: str = "") -> tuple[str, dict[str, Any]]:
    """Name and options of one side of the colon; of a class in a file the name is known."""
    name, *given = [own, *text.split()] if own else text.split() or [""]
    pairs = [option.partition("=") for option in given]
    if not (own or name.isidentifier()) or not all(o.isidentifier() and eq and value for o, eq, value in pairs):
        raise expected("key", GRAMMAR, repr(key))
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
    """``cls(**options)``; ValueError of an option that it does not have, and where it needs another."""
    check_options(cls, what, options)
    try:
        inspect.signature(cls).bind(**options)
    except TypeError as error:
        raise expected(what, "with the options that it needs", error) from None
    return cls(**options)


def check_options(cls: Callable[..., Any], what: str, options: Iterable[str]) -> None:
    """Raise ValueError, in the one wording, of an option that ``cls`` does not have, with those it has."""
    known = inspect.signature(cls).parameters
    takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for option in options:
        if option not in known and not takes_more:
            cure = "; options of the calibrator stand before the colon" * (what == "objective")
            want = f"with options among {', '.join(known)}" if known else "without options"
            raise expected(what, want, f"{option}{cure}")


def find(name: str, registry: Mapping[str, Callable[..., Made]], what: str) -> Callable[..., Made]:
    """What a name stands for: an entry of ``registry``, the class of an entry point of the group in ``GROUPS``, or that
    of a file, ``PATH.py:CLASS``, which is executed with its folder on the path of imports.

    ``what`` is the argument that an error speaks of; only a "calibrator" or a "loss" is looked for beyond the registry.
    ValueError tells of no such name, file or class, a file that does not run, a class that lacks what ``NEEDED`` says.
    """
    if not isinstance(name, str):
        raise expected(what, "text", repr(name))
    if name in registry:
        return registry[name]
    own, others = _IN_FILE.fullmatch(name) if what in GROUPS else None, _entry_points(what)
    if own is None and name not in others:
        known = [*registry, *others, *(["PATH.py:CLASS"] if what in GROUPS else [])]
        raise expected(what, f"one of {', '.join(known)}", repr(name))
    found = others[name].load() if own is None else getattr(_executed(own["path"], what), own["cls"], None)
    if not isinstance(found, type):
        raise expected(what, "the name of a class", f"{name!r}, which is {'none' if found is None else repr(found)}")
    has = {entry for cls in found.__mro__ for entry in vars(cls)}
    text, needed = NEEDED[what]
    if not all(has.intersection(one.split("|")) for one in needed):
        raise expected(what, f"a class with {text}", f"{name!r}, which lacks it")
    try:
        inspect.signature(found)
    except ValueError as error:
        raise expected(what, "a class whose options can be told", f"{name!r}: {error}") from error
    return found


def installed(what: str, module: str, cls: str) -> Callable[..., Any] | None:
    """The class of the entry point that names a class of a module, by the last part of the module's name; or None."""
    points = _entry_points(what).values()
    return next((p.load() for p in points if p.attr == cls and p.module.rpartition(".")[2] == module), None)


def checksum(name: str) -> str | None:
    """The SHA-256 of the file of ``PATH.py:CLASS``; None of any other name."""
    own = _IN_FILE.fullmatch(name)
    return hashlib.sha256(as_path(own["path"]).read_bytes()).hexdigest() if own else None


def in_file_name(key: Key) -> str:
    """A key as names of files have it; of a class in a file with a checksum, so that a changed file has another name.

    Example:
        >>> in_file_name(Key("mbls", {"margin": 0}))
        'mbls,margin=0'
    """
    held = checksum(key.name)
    return str(key if held is None else Key(f"{key.name.rpartition(':')[2]}@{held[:8]}", key.options)).replace(" ", ",")


def _entry_points(what: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUPS[what])} if what in GROUPS else {}


def _executed(path: str, what: str) -> object:
    """The module of a file, executed once for each state of the file."""
    file = as_path(path).resolve()
    if not file.is_file():
        raise expected(what, "PATH.py:CLASS of a file", f"{path!r}, where there is none")
    try:
        return _module(file, file.stat().st_mtime_ns)
    except (Exception, SystemExit) as error:  # whatever the code raises
        raise expected(what, "in a file that runs", f"{path!r}: {type(error).__name__}: {error}") from error


@cache
def _module(file: Path, _: int) -> object:
    name = f"calibkit_own_{zlib.crc32(str(file).encode()):08x}.{file.stem}"  # hides no other module
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # as the name ends in .py
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where dataclasses look for it
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module
