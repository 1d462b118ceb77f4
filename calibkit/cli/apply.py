"""``calibkit apply``: calibrated probabilities of new outputs."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibkit._arrays import is_one_column
from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._files import write_atomic
from calibkit.cli import add_source, check_writable, read_source, some_path
from calibkit.reading.files import suffix_of

if TYPE_CHECKING:
    from pandas import DataFrame


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    apply = commands.add_parser("apply", help="calibrated probabilities of new outputs")
    apply.add_argument("calibrator", type=some_path, help="a file that `report` or `calibrate --out` wrote")
    add_source(apply, labels=False)
    apply.add_argument("--own", metavar="PATH.py:CLASS", help="where a class of your own wrote it; it is executed")
    apply.add_argument("--out", type=some_path, help=f"{', '.join(WRITERS)}; default: JSON to the terminal")
    apply.set_defaults(run=_apply)


def _apply(args: argparse.Namespace) -> None:
    from calibkit.calibrators import load_calibrator
    from calibkit.reporting.outputs import outputs_of

    if args.out is not None:
        check_writable(args.out, WRITERS, args.source, args.calibrator)
    calibrate = load_calibrator(args.calibrator, args.own)
    if calibrate.key() == "neural_clamping":
        raise expected("calibrator", "one that takes logits", "neural_clamping, which takes the network and its inputs")
    given = read_source(args, labelled=False, fitted=calibrate)
    if given.test is not None:
        print(f"these are the {len(given.test.outputs)} test rows; those of val are left out", file=sys.stderr)
    part = given.test or given.val
    outputs = outputs_of(part, given.kind, "", calibrate.floor)
    if outputs.floor is not None and calibrate.floor is None:
        raise expected("source", "logits, as what the calibrator was fitted to", "probabilities")
    for finding in outputs.findings:
        print(finding.text, file=sys.stderr)
    order, logits = _columns(calibrate.classes, given.classes), outputs.logits
    probs = calibrate(logits[:, order])[:, np.argsort(order)] if order else calibrate(logits)
    if calibrate.key() == "identity" and outputs.given is not None:
        probs = outputs.given.astype(float)  # as they were given, zeros too
    classes = given.classes or calibrate.classes or tuple(map(str, range(probs.shape[1])))
    said = {"predicted": np.array(classes, dtype=object)[probs.argmax(1)], "confidence": probs.max(1)}
    if is_one_column(part.outputs):
        probs, classes = probs[:, 1].reshape(part.outputs.shape), classes[1:]
    if args.out is None:
        print(_json(probs, classes))
    else:
        WRITERS[suffix_of(args.out)](args.out, probs, classes, given.others, said)
        print(f"saved {args.out}: {len(probs)} rows of {len(classes)} probabilities")


def _columns(fitted: tuple[str, ...], given: tuple[str, ...]) -> list[int]:
    """Where each class that was fitted stands among the columns given; none where either has no names."""
    if not given or not fitted:
        return []
    if sorted(fitted) != sorted(given):
        raise expected("source", f"with the columns {', '.join(fitted)}", ", ".join(given))
    return [given.index(name) for name in fitted]


def _as_npy(path: Path, probs: np.ndarray, *_: Any) -> None:
    data = io.BytesIO()  # into a file itself numpy writes with an error of its own where the disk is full
    np.save(data, probs)
    write_atomic(path, lambda stream: stream.write(data.getbuffer()))


def _as_json(path: Path, probs: np.ndarray, classes: tuple[str, ...], *_: Any) -> None:
    write_atomic(path, lambda stream: stream.write(_json(probs, classes).encode()))


def _json(probs: np.ndarray, classes: tuple[str, ...]) -> str:
    return json.dumps({"classes": classes, "probs": probs.tolist()})


def _as_table(
    path: Path, probs: np.ndarray, classes: tuple[str, ...], others: DataFrame | None, said: dict[str, np.ndarray]
) -> None:
    """Other columns as they are, those of the classes, and what is predicted; a new one replaces one of its name."""
    with needs("report"):
        import pandas as pd
    one = probs.size == len(probs)  # column, of the second of two classes
    parts = [pd.DataFrame(probs, columns=[f"prob_{name}" if one else name for name in classes])]
    parts += [pd.DataFrame({name: x for name, x in said.items() if name not in classes})]
    if others is not None:
        new = {name for part in parts for name in part}
        parts.insert(0, others[[name for name in others if name not in new]].reset_index(drop=True))
    table, suffix = pd.concat(parts, axis=1), suffix_of(path)
    if suffix == ".parquet":
        write_atomic(path, lambda stream: table.to_parquet(stream, index=False))
    elif suffix == ".jsonl":
        write_atomic(path, lambda stream: table.to_json(stream, orient="records", lines=True, double_precision=15))
    else:
        sep, packed = ("\t" if ".tsv" in suffix else ","), ("gzip" if suffix.endswith(".gz") else None)
        write_atomic(path, lambda stream: table.to_csv(stream, sep=sep, compression=packed, index=False))


_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".jsonl")
WRITERS = {".npy": _as_npy, ".json": _as_json, **dict.fromkeys(_TABLES, _as_table)}
