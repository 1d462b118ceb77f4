"""The commands of ``calibkit``, a file for those of a kind, and what they share: paths, sources, a line to a person."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from calibkit._checks import expected

if TYPE_CHECKING:
    from calibkit.logits import Logits
    from calibkit.reading import Given

LOGITS = "a Logits file (.npz), a folder of val_logits.npy and so on, or a name that `calibkit networks` lists"
KEY = 'a key: ets, or "ets:focal gamma=2", or PATH.py:CLASS of your own, which is executed'
_SOURCE = "the network's outputs: .npz, .npy, .pt, .csv, .parquet, a folder of .npy, or a name of `calibkit networks`"


def add_source(parser: argparse.ArgumentParser, *, labels: bool) -> None:
    """The source of a command, and how it is to be read."""
    parser.add_argument("source", type=some_source, help=_SOURCE)
    if labels:
        parser.add_argument("labels", nargs="?", help="an .npy file, where the source is one of outputs alone")
    parser.add_argument("--kind", choices=("logits", "probabilities"), help="what the outputs are, if no name says it")
    for column in ("label", "split", "group"):
        parser.add_argument(f"--{column}", default=column, metavar="COLUMN", help=f"of a table; default: {column}")
    which = "columns of a table that are"
    parser.add_argument("--classes", nargs="+", metavar="COLUMN", help=f"{which} classes; default: all others")
    parser.add_argument("--ignore", nargs="*", metavar="COLUMN", help=f"{which} none; none named: all are classes")


def read_source(
    args: argparse.Namespace, labels: str | None, *, labelled: bool = True, known: tuple[str, ...] = ()
) -> Given:
    """What the source of a command holds; of a table without labels the columns ``known``, where it has them all."""
    from calibkit.reading import read
    from calibkit.reading.files import TABLES, opened

    source, chosen = args.source, {"classes": args.classes, "ignore": args.ignore}
    columns = {"label": args.label, "split": args.split, "group": args.group}
    if is_name(source):
        from calibkit.networks import load_logits

        return replace(read(load_logits(source), labels, kind=args.kind, **chosen), source=source)
    if known and chosen == {"classes": None, "ignore": None} and Path(source).suffix in TABLES:
        source = opened(Path(source), (), args.label)
        others = [str(name) for name in source if str(name) not in known]
        if others and set(known) <= set(map(str, source)):
            print(f"left out: {', '.join(others)}", file=sys.stderr)
            chosen["classes"] = known
    return read(source, labels, kind=args.kind, **columns, **chosen, labelled=labelled)


def is_name(source: str) -> bool:
    """Whether it is no path but the name of a network."""
    if Path(source).exists():
        return False
    from calibkit.networks import published, zoo

    return source in zoo() or source in published()


def load(name: str) -> Logits:
    """The Logits of that name or path.

    Raises:
        ValueError: no such name, no Logits file, or one of another format.
        FileNotFoundError: no such file.
    """
    from calibkit.networks import load_logits
    from calibkit.reading.files import TABLES, TORCH

    if Path(name).suffix in (".npy", *TABLES, *TORCH):
        got = f"{name!r}; `calibkit report` and `calibkit compare` read such files"
        raise expected("logits", LOGITS, got)
    return load_logits(name)


def check_writable(out: Path) -> None:
    """Raise ValueError before a fit where its file could not be written after it."""
    if out.exists() and not out.is_file():
        raise expected("out", "the path of a file", f"{str(out)!r}, which is none")
    check_writable_folder(out.resolve().parent, "a file that can be written", out)


def check_writable_folder(folder: Path, want: str = "a folder that can be written", named: Path | None = None) -> None:
    """Raise ValueError where nothing can be written into a folder, or it cannot be made."""
    here = folder.resolve()
    there = next(parent for parent in (here, *here.parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise expected("out", want, repr(str(named or folder)))


def some_path(text: str) -> Path:
    """The path of an option; an empty one, as of a variable that is not set, is no folder "."."""
    if not text:
        raise argparse.ArgumentTypeError("Expected a path, but got ''")
    return Path(text)


def some_source(text: str) -> str:
    """The same of a source, which may be a name."""
    some_path(text)
    return text


def tell(text: str) -> None:
    """What takes its time now, where a person watches."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
