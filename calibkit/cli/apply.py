"""``calibkit apply``: calibrated probabilities of new outputs."""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path

import numpy as np

from calibkit._checks import check_choice, expected
from calibkit._extras import needs
from calibkit._files import write_atomic
from calibkit._one_column import is_one_column
from calibkit.cli import add_source, check_writable, read_source, some_path


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    apply = commands.add_parser("apply", help="calibrated probabilities of new outputs")
    apply.add_argument("calibrator", type=some_path, help="a file that `report` or `calibrate --out` wrote")
    add_source(apply, labels=False)
    apply.add_argument("--own", metavar="PATH.py:CLASS", help="where a class of your own wrote it; it is executed")
    apply.add_argument("--out", type=some_path, help=".npy, .csv, .parquet or .json; default: JSON to the terminal")
    apply.set_defaults(run=_apply)


def _apply(args: argparse.Namespace) -> None:
    from calibkit.calibrators import load_calibrator
    from calibkit.reporting.outputs import outputs_of

    if args.out is not None:
        check_writable(args.out)
        check_choice("out", args.out.suffix, WRITERS)
    calibrate = load_calibrator(args.calibrator, args.own)
    if calibrate.key() == "neural_clamping":
        raise expected("calibrator", "one that takes logits", "neural_clamping, which takes the network and its inputs")
    given = read_source(args, None, labelled=False, known=calibrate.classes)
    if given.test is not None:
        print(f"these are the {len(given.test.outputs)} test rows; those of val are left out", file=sys.stderr)
    outputs = outputs_of(given.test or given.val, given.kind, "", calibrate.floor)
    if outputs.floor is not None and calibrate.floor is None:
        raise expected("source", "logits, as what the calibrator was fitted to", "probabilities")
    for finding in outputs.findings:
        print(finding.text, file=sys.stderr)
    order = _columns(calibrate.classes, given.classes)
    logits = outputs.logits
    probs = calibrate(logits[:, order])[:, np.argsort(order)] if order else calibrate(logits)
    if calibrate.key() == "identity" and outputs.given is not None:
        probs = outputs.given.astype(float)  # as they were given, zeros too
    classes = given.classes or calibrate.classes or tuple(map(str, range(probs.shape[1])))
    if is_one_column(scores := (given.test or given.val).outputs):
        probs, classes = probs[:, 1].reshape(scores.shape), classes[1:]
    if args.out is None:
        print(_json(probs, classes))
    else:
        WRITERS[args.out.suffix](args.out, probs, classes)
        print(f"saved {args.out}: {len(probs)} rows of {len(classes)} probabilities")


def _columns(fitted: tuple[str, ...], given: tuple[str, ...]) -> list[int]:
    """Where each class that was fitted stands among the columns given; none where either has no names."""
    if not given or not fitted:
        return []
    if sorted(fitted) != sorted(given):
        raise expected("source", f"with the columns {', '.join(fitted)}", ", ".join(given))
    return [given.index(name) for name in fitted]


def _as_npy(path: Path, probs: np.ndarray, classes: tuple[str, ...]) -> None:
    data = io.BytesIO()  # into a file itself numpy writes with an error of its own where the disk is full
    np.save(data, probs)
    write_atomic(path, lambda stream: stream.write(data.getbuffer()))


def _as_json(path: Path, probs: np.ndarray, classes: tuple[str, ...]) -> None:
    write_atomic(path, lambda stream: stream.write(_json(probs, classes).encode()))


def _json(probs: np.ndarray, classes: tuple[str, ...]) -> str:
    return json.dumps({"classes": classes, "probs": probs.tolist()})


def _as_table(path: Path, probs: np.ndarray, classes: tuple[str, ...]) -> None:
    with needs("report"):
        import pandas as pd
    table = pd.DataFrame(probs, columns=list(classes))
    to_file = table.to_parquet if path.suffix == ".parquet" else table.to_csv
    write_atomic(path, lambda stream: to_file(stream, index=False))


WRITERS = {".npy": _as_npy, ".json": _as_json, ".csv": _as_table, ".parquet": _as_table}
