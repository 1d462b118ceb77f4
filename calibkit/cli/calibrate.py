"""``calibkit apply | calibrate | evaluate``: one calibrator on new outputs, or before and after; and metrics alone."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibkit._arrays import is_one_column
from calibkit._checks import check_bins, expected
from calibkit._extras import needs
from calibkit._files import write_atomic
from calibkit.cli import KEY, add_source, check_writable, read_source, some_path, tell
from calibkit.keys import Key, find
from calibkit.reading.columns import SCORES, in_order
from calibkit.reading.files import opened, suffix_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from calibkit.calibrators import Calibrator
    from calibkit.logits import HeldOut
    from calibkit.metrics.comparison import Comparison
    from calibkit.reading import Given
    from calibkit.reporting import Diagnosed

#: What ``apply`` writes.
FORMATS = (".npy", ".json", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".jsonl")


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the three commands."""
    apply = commands.add_parser("apply", help="calibrated probabilities of new outputs")
    apply.add_argument("calibrator", type=some_path, help="a file that `report` or `calibrate --out` wrote")
    add_source(apply, labels=False)
    apply.add_argument("--own", metavar="PATH.py:CLASS", help="where a class of your own wrote it; it is executed")
    apply.add_argument("--out", type=some_path, help=f"{', '.join(FORMATS)}; default: JSON to the terminal")
    apply.set_defaults(run=_apply)

    calibrate = commands.add_parser("calibrate", help="fit a calibrator on val, report it on test, save it")
    add_source(calibrate, labels=True)
    calibrate.add_argument("--calibrator", help=f"{KEY}; default: temperature_scaling")
    calibrate.add_argument("--objective", help="what the fit minimises, where the calibrator takes one")
    calibrate.add_argument("--out", type=some_path, help="where to save the fitted calibrator (.npz)")
    calibrate.set_defaults(run=_calibrate)

    evaluate = commands.add_parser("evaluate", help="metrics of outputs as they are, those of test, with intervals")
    add_source(evaluate, labels=True)
    evaluate.add_argument("--json", action="store_true", help="print the numbers as JSON: value, low, high by metric")
    evaluate.set_defaults(run=_evaluate)
    for command in (calibrate, evaluate):
        command.add_argument("--bins", type=int, default=15, metavar="N", help="of every binned error; default: 15")


def _apply(args: argparse.Namespace) -> None:
    from calibkit.calibrators import load_calibrator
    from calibkit.reporting.diagnosis import outputs_of

    if args.out is not None:
        check_writable(args.out, FORMATS, args.source, args.calibrator)
    calibrate = load_calibrator(args.calibrator, args.own)
    if calibrate.key() == "neural_clamping":
        raise expected("calibrator", "one that takes logits", "neural_clamping, which takes the network and its inputs")
    given = read_source(args, labelled=False, fitted=calibrate)
    if given.test is not None:
        print(f"these are the {len(given.test.outputs)} test rows; those of val are left out", file=sys.stderr)
    part = given.test or given.val
    one = is_one_column(part.outputs)
    order = _columns(calibrate.classes, given.classes, one=one)
    outputs = outputs_of(part, given.kind, "", calibrate.floor)
    if outputs.floor is not None and calibrate.floor is None:
        raise expected("source", "logits, as what the calibrator was fitted to", "probabilities")
    for finding in outputs.findings:
        print(finding.text, file=sys.stderr)
    logits = outputs.logits[:, order] if order else outputs.logits
    if one and given.kind == "logits":  # of the class that was fitted, beside 0
        logits = logits - logits[:, :1]
    probs = calibrate(logits)
    probs = probs[:, np.argsort(order)] if order else probs
    if calibrate.key() == "identity" and outputs.given is not None:
        probs = outputs.given.astype(float)  # as they were given, zeros too
    known = (names for names in (given.classes, calibrate.classes) if len(names) == probs.shape[1])
    classes = next(known, tuple(map(str, range(probs.shape[1]))))
    said = {"predicted": np.array(classes, dtype=object)[probs.argmax(1)], "confidence": probs.max(1)}
    if one:
        probs, classes = probs[:, 1].reshape(part.outputs.shape), classes[1:]
        own = given.classes or calibrate.classes
        if len(own) == 1 and own[0].lower() not in SCORES:  # as of one label of several, whose files go side by side
            classes, said = own, {f"{what}_{own[0]}": x for what, x in said.items()}
    if args.out is None:
        print(_json(probs, classes))
    else:
        table = partial(_table, probs, classes, said, given, args.source)
        data = _written(suffix_of(args.out), probs, classes, table)
        write_atomic(args.out, lambda stream: stream.write(data))
        print(f"saved {args.out}: {len(probs)} rows of {len(classes)} probabilities")


def _columns(fitted: tuple[str, ...], given: tuple[str, ...], *, one: bool) -> list[int]:
    """Where each class that was fitted stands among the columns given, or ``one``; none where nothing has names.

    Without names classes were fitted in the order that labels would have as positions.
    """
    if one and len(fitted) == 1:
        given = given[-1:]
    if given and fitted and sorted(fitted) != sorted(given):
        raise expected("source", f"with the column{'s' * (len(fitted) > 1)} {', '.join(fitted)}", ", ".join(given))
    if one and given == ("0",) and not fitted:
        return [1, 0]
    return [given.index(name) for name in fitted or in_order(given)] if len(given) > 1 else []


def _written(suffix: str, probs: np.ndarray, classes: tuple[str, ...], table: Callable[[], DataFrame]) -> bytes:
    """What a file of a format holds."""
    if suffix == ".npy":
        stream = io.BytesIO()
        np.save(stream, probs)
        return stream.getvalue()
    if suffix == ".json":
        return _json(probs, classes).encode()
    rows = table()
    if suffix == ".parquet":
        try:
            return rows.to_parquet(index=False)
        except (TypeError, ValueError, OverflowError) as error:  # of a column of several types, or of long integers
            raise expected("out", "another format, as parquet has no such column", error.args[0]) from error
    if suffix == ".jsonl":
        found = rows.astype(object).where(rows.notna(), None).to_dict("records")
        return "".join(f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in found).encode()
    text = rows.to_csv(sep="\t" if ".tsv" in suffix else ",", index=False).encode()
    return gzip.compress(text) if suffix.endswith(".gz") else text


def _json(probs: np.ndarray, classes: tuple[str, ...]) -> str:
    return json.dumps({"classes": classes, "probs": probs.tolist()})


def _table(
    probs: np.ndarray, classes: tuple[str, ...], said: dict[str, np.ndarray], given: Given, source: str
) -> DataFrame:
    """Other columns as they stand, those of the classes, and what is predicted; a new one replaces one of its name."""
    with needs("report"):
        import pandas as pd
    parts = [pd.DataFrame(probs, columns=[f"prob_{name}" for name in classes]), pd.DataFrame(said)]
    if given.others is not None:
        new = {name for part in parts for name in part}
        others = [name for name in given.others if name not in new]
        is_text = suffix_of(Path(source)).startswith((".csv", ".tsv", ".txt"))  # 007 and NA stay
        held = opened(Path(source), (), list) if is_text else given.others
        parts.insert(0, held[others].reset_index(drop=True))
    return pd.concat(parts, axis=1)


def _calibrate(args: argparse.Namespace) -> None:
    from calibkit.calibrators import calibrator, on_logits

    name = args.calibrator or "temperature_scaling"
    key = f"{name}:{args.objective}" if args.objective else name
    find(Key.parse(key).name, on_logits(), "calibrator")
    if args.out:
        check_writable(args.out, (".npz",), args.source, args.labels)
    method, (names, data) = calibrator(key), _data(args)
    if data.test is None:
        raise expected("source", "of two splits, val and test; `calibkit report` cross-fits the one", "one")
    if wrong := [finding.kind for finding in data.findings if finding.weight == "wrong"]:
        raise expected("source", "outputs beside the labels of the same samples", f"{wrong[0]}; nothing is fitted")
    tell(f"fitting {key} on {len(data.val.labels)} samples of {len(data.classes)} classes ...")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        fitted = method.fit(*data.val)
    for warning in found:
        print(warning.message, file=sys.stderr)
    fitted.classes, fitted.floor = names, data.floor
    saved = fitted.save(args.out) if args.out else None  # before a reader of the table closes the pipe
    tell(f"comparing on {len(data.test.labels)} samples, each metric on 1,000 resamples ...")
    _compare(fitted, data.test, args.bins)
    if saved:
        print(f"saved {saved}")


def _compare(fitted: Calibrator, test: HeldOut, n_bins: int) -> None:
    """Print each metric before and after, and what became worse."""
    methods = _measured(test, "before", n_bins)
    methods.add("after", fitted(test.logits))
    print(fitted)
    print(f"{'metric':16} {'before':>10} {'after':>10}   change, 95% interval   on {len(test.labels)} test samples")
    changes = {name: methods.difference("after", "before", name) for name in methods.metrics}
    for name, change in changes.items():
        before, after = (methods.of(which, name).value for which in ("before", "after"))
        print(f"{name:16} {before:10.5f} {after:10.5f}   [{change.low:+.5f}, {change.high:+.5f}]")
    worse = [name for name in ("nll", "brier", "ece") if changes[name].above() == "holds"]
    worse += ["accuracy"] if changes["accuracy"].below() == "holds" else []
    if worse:
        print(f"worse than before, beyond chance: {', '.join(worse)}")


def _data(args: argparse.Namespace) -> tuple[tuple[str, ...], Diagnosed]:
    """The names of the classes, if they have any, and the data of a command; what looks wrong in them is said."""
    from calibkit.reporting import diagnose
    from calibkit.reporting.labels import has_many

    check_bins(args.bins)
    given = read_source(args, args.labels)
    if has_many(given):
        n_labels = max(y.shape[1] for part in given.parts if (y := np.asarray(part.labels)).ndim == 2)
        raise expected("source", "of one label a sample", f"{n_labels} labels; `calibkit report` takes several")
    found = diagnose(given)
    for finding in found.findings:
        if finding.weight != "note" or finding.kind == "rounded probabilities":
            print(finding.text, file=sys.stderr)
    return given.classes, found


def _measured(held: HeldOut, name: str, n_bins: int) -> Comparison:
    """The metrics of a network as it is."""
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    methods = Comparison(held.labels, REPORTED, groups=held.groups, n_bins=n_bins)
    methods.add(name, held.probs)
    return methods


def _evaluate(args: argparse.Namespace) -> None:
    _, data = _data(args)
    test, of = data.test or data.val, "" if data.test is None else "test "
    tell(f"measuring {len(test.labels)} samples, each metric on 1,000 resamples ...")
    methods = _measured(test, "test", args.bins)
    if args.json:
        found = {name: methods.of("test", name)._asdict() for name in methods.metrics}
        finite = {name: {k: x if math.isfinite(x) else None for k, x in each.items()} for name, each in found.items()}
        print(json.dumps(finite, indent=1, allow_nan=False))
        return
    print(f"{'metric':16} {'value':>10}   95% interval   on {len(test.labels)} {of}samples")
    noise = False
    for name in methods.metrics:
        value, low, high = methods.of("test", name)
        mark = " *" if value > 0 and methods.measured["test"][name].may_be_zero() else ""
        noise = noise or bool(mark)
        print(f"{name:16} {value:10.5f}   [{low:.5f}, {high:.5f}]{mark}")
    if n_zero := int((np.take_along_axis(test.probs, test.labels[:, None], 1) == 0).sum()):
        print(f"the NLL is infinite: the probability of the label is 0 in {n_zero:,} of {len(test.labels):,} samples")
    if noise:
        print("* not told apart from 0: in a finite sample a calibrated network, too, has an error by chance")
