"""The commands of ``calibkit``, a file for those of a kind, and what they share: paths, sources, a line to a person."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibkit._checks import check_choice, expected
from calibkit.networks import load_logits, published, zoo
from calibkit.reading import Given, read
from calibkit.reading.files import suffix_of

if TYPE_CHECKING:
    from calibkit.fitting.base import Fitted

KEY = 'a key: ets, or "ets:focal gamma=2", or PATH.py:CLASS of your own, which is executed'
_SOURCE = "outputs: a table (.csv, .tsv, .jsonl, .parquet), arrays (.npz, .npy, .pt, a folder), or a name of `networks`"


def add_source(parser: argparse.ArgumentParser, *, labels: bool) -> None:
    """The source of a command, and how it is to be read."""
    parser.add_argument("source", type=lambda text: some_path(text) and text, help=_SOURCE)
    if labels:
        more = "right behind the source: the test set, if that is the validation set; or labels, .npy, of outputs alone"
        parser.add_argument("labels", nargs="?", help=more)
    parser.add_argument("--kind", choices=("logits", "probabilities"), help="what the outputs are, if it is not clear")
    for column, usual in (("label", "label, or target, y_true, y"), ("split", "split"), ("group", "group")):
        parser.add_argument(f"--{column}", metavar="COLUMN", help=f"of a table; default: {usual}")
    parser.add_argument("--id", metavar="COLUMN", help="of a table, names of its rows")
    which = "columns of a table that are"
    parser.add_argument("--classes", nargs="+", metavar="COLUMN", help=f"{which} classes; default: all others")
    parser.add_argument("--ignore", nargs="*", metavar="COLUMN", help=f"{which} none; without a name: all are classes")


def read_source(
    args: argparse.Namespace, labels: str | None = None, *, labelled: bool = True, fitted: Fitted | None = None
) -> Given:
    """What the source of a command holds; what was guessed goes to the standard error.

    Where numbers and names do not say what it is, it is what ``fitted`` was fitted to.
    """
    options = {name: getattr(args, name) for name in ("kind", "label", "split", "group", "id", "classes", "ignore")}
    if fitted is not None:
        options["known"] = fitted.classes, "logits" if fitted.floor is None else "probabilities"
    source: Any = args.source
    if is_name(source) or not (Path(source).suffix or Path(source).exists()):
        given = replace(read(load_logits(source), labels, **options), source=source)
    else:
        given = read(source, labels, **options, labelled=labelled)
    for text in given.told:
        print(f"read as: {text}", file=sys.stderr)
    return given


def is_name(source: str) -> bool:
    """Whether it is no path but the name of a network."""
    return not Path(source).exists() and (source in zoo() or source in published())


def check_writable(out: Path, suffixes: Collection[str], *read: str | Path | None) -> None:
    """Raise ValueError before a fit where its file could not be written after it, or would replace what is ``read``."""
    if out.exists() and not out.is_file():
        raise expected("out", "the path of a file", f"{str(out)!r}, which is none")
    check_choice("out", suffix_of(out), suffixes)
    if any(path and Path(path).exists() and out.exists() and out.samefile(path) for path in read):
        raise expected("out", "another file than what is read", repr(str(out)))
    check_writable_folder(out.resolve().parent, "a file that can be written", out)


def check_writable_folder(folder: Path, want: str = "a folder that can be written", named: Path | None = None) -> None:
    """Raise ValueError where nothing can be written into a folder, or it cannot be made."""
    if named is None and folder.exists() and not folder.is_dir():
        raise expected("out", "a folder", f"the file {str(folder)!r}")
    here = folder.resolve()
    there = next(parent for parent in (here, *here.parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise expected("out", want, repr(str(named or folder)))


def some_path(text: str) -> Path:
    """The path of an option; an empty one, as of a variable that is not set, is no folder "."."""
    if not text:
        raise argparse.ArgumentTypeError("Expected a path, but got ''")
    return Path(text)


def tell(text: str) -> None:
    """What takes its time now, where a person watches."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
