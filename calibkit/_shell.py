"""``calibkit report | compare | apply``: the commands on a network of the user's own."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibkit._checks import check_choice, expected
from calibkit._extras import needs
from calibkit._files import write_atomic
from calibkit._formats import TABLES, TORCH, opened

if TYPE_CHECKING:
    from calibkit.logits import Logits

LOGITS = "a Logits file (.npz), a folder of val_logits.npy and so on, or a name that `calibkit networks` lists"
_SOURCE = "the network's outputs: .npz, .npy, .pt, .csv, .parquet, a folder of .npy, or a name of `calibkit networks`"


def add_to(commands) -> None:
    """Add the three commands."""
    report = commands.add_parser("report", help="look at a network's outputs; what is wrong, which calibrator to take")
    _add_source(report, labels=True)
    _add_methods(report)
    report.add_argument("--out", type=some_path, help="folder of the report and the calibrator; default: SOURCE-report")
    report.set_defaults(run=_report)

    compare = commands.add_parser("compare", help="fit every calibrator, compare them, recommend one")
    _add_source(compare, labels=True)
    _add_methods(compare)
    compare.add_argument("--json", action="store_true", help="print the numbers as JSON")
    compare.set_defaults(run=_compare)

    apply = commands.add_parser("apply", help="calibrated probabilities of new outputs")
    apply.add_argument("calibrator", type=some_path, help="a file that `report` or `calibrate --out` wrote")
    _add_source(apply, labels=False)
    apply.add_argument("--out", type=some_path, help=".npy, .csv, .parquet or .json; default: JSON to the terminal")
    apply.set_defaults(run=_apply)


def _add_source(parser: argparse.ArgumentParser, *, labels: bool) -> None:
    parser.add_argument("source", type=some_source, help=_SOURCE)
    if labels:
        parser.add_argument("labels", nargs="?", help="an .npy file, where the source is one of outputs alone")
    parser.add_argument("--kind", choices=("logits", "probabilities"), help="what the outputs are, if no name says it")
    for column in ("label", "split", "group"):
        parser.add_argument(f"--{column}", default=column, metavar="COLUMN", help=f"of a table; default: {column}")
    which = "columns of a table that are"
    parser.add_argument("--classes", nargs="+", metavar="COLUMN", help=f"{which} classes; default: all others")
    parser.add_argument("--ignore", nargs="*", metavar="COLUMN", help=f"{which} none; none named: all are classes")


def _add_methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calibrators", nargs="+", metavar="KEY", help="which to try; default: all that fit in time")
    parser.add_argument("--keep-predictions", action="store_true", help="recommend only what keeps every prediction")
    parser.add_argument("--all", action="store_true", help="try also what takes minutes or more")


def _report(args: argparse.Namespace) -> None:
    with needs("plots"):
        import matplotlib  # noqa: F401, before minutes of fitting

    folder = args.out or _folder_for(args.source)
    if folder.exists() and not folder.is_dir():
        raise expected("out", "a folder", f"the file {str(folder)!r}")
    _check_writable_folder(folder)
    found = _found(args)
    try:
        saved = found.save(folder)
    except OSError:
        print(found)  # what minutes of fitting gave
        raise
    print(found, "", *(f"saved {path}" for path in saved), sep="\n")
    _say_doubts(found)


def _folder_for(source: str) -> Path:
    """Where a report goes by default: to a folder here with the name of its source, never onto another's report."""
    path = Path(source)
    own = path.resolve().name if path.is_dir() else path.stem
    folder = Path(f"{source.replace('/', '-') if _is_name(source) else own}-report")
    other = _source_of(folder / "report.json")
    if other is not None and Path(other).resolve() != path.resolve():
        raise expected("out", f"given, as {str(folder)!r} holds the report on {other!r}", "none")
    return folder


def _source_of(report: Path) -> str | None:
    """The source that a report.json names; None of what is no report."""
    try:
        facts = json.loads(report.read_bytes()) if report.is_file() else None
    except ValueError:
        return None
    source = facts.get("source") if isinstance(facts, dict) else None
    return source if isinstance(source, str) else None


def _compare(args: argparse.Namespace) -> None:
    found = _found(args)
    print(json.dumps(found.facts(), indent=1, allow_nan=False) if args.json else found)
    _say_doubts(found)


def _say_doubts(found) -> None:
    """What must not be overlooked, to the standard error: a doubt, or ValueError where nothing is recommended."""
    kinds = {weight: [f.kind for f in found.diagnosed.findings if f.weight == weight] for weight in ("wrong", "doubt")}
    if found.choice.sure == "none":
        got = f"{', '.join(dict.fromkeys(kinds['wrong']))}; no calibrator is recommended"
        raise expected("source", "outputs beside the labels of the same samples", got)
    if kinds["doubt"]:
        print(f"in doubt: {', '.join(dict.fromkeys(kinds['doubt']))}; read the first paragraph first", file=sys.stderr)


def _found(args: argparse.Namespace):
    from calibkit.reporting import report

    options = {"keep_predictions": args.keep_predictions, "everything": args.all}
    return report(_read(args, args.labels), methods=args.calibrators, **options)


def _apply(args: argparse.Namespace) -> None:
    from calibkit.calibrators import load_calibrator
    from calibkit.reporting.diagnosis import outputs_of

    if args.out is not None:
        check_writable(args.out)
    suffixes = {".npy": _as_npy, ".json": _as_json, ".csv": _as_table, ".parquet": _as_table}
    if args.out is not None:
        check_choice("out", args.out.suffix, suffixes)
    calibrate = load_calibrator(args.calibrator)
    if calibrate.key() == "neural_clamping":
        raise expected("calibrator", "one that takes logits", "neural_clamping, which takes the network and its inputs")
    given = _read(args, None, labelled=False, known=calibrate.classes)
    findings: list = []
    if given.test is not None:
        print(f"these are the {len(given.test.outputs)} test rows; those of val are left out", file=sys.stderr)
    outputs = outputs_of(given.test or given.val, given.kind, "", findings, calibrate.floor)
    if outputs.floor is not None and calibrate.floor is None:
        raise expected("source", "logits, as what the calibrator was fitted to", "probabilities")
    for finding in findings:
        print(finding.text, file=sys.stderr)
    order = _columns(calibrate.classes, given.classes)
    logits = outputs.logits
    probs = calibrate(logits[:, order])[:, np.argsort(order)] if order else calibrate(logits)
    if calibrate.key() == "identity" and outputs.probs is not None:
        probs = outputs.probs.astype(float)  # as they were given, zeros too
    classes = given.classes or calibrate.classes or tuple(map(str, range(probs.shape[1])))
    if args.out is None:
        print(_json(probs, classes))
    else:
        suffixes[args.out.suffix](args.out, probs, classes)
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


def _read(args: argparse.Namespace, labels: str | None, *, labelled: bool = True, known: tuple[str, ...] = ()):
    """What the source of a command holds; of a table without labels the columns ``known``, where it has them all."""
    from calibkit.reading import read

    source, chosen = args.source, {"classes": args.classes, "ignore": args.ignore}
    columns = {"label": args.label, "split": args.split, "group": args.group}
    if _is_name(source):
        from calibkit.networks import load_logits

        return replace(read(load_logits(source), labels, kind=args.kind, **chosen), source=source)
    if known and chosen == {"classes": None, "ignore": None} and Path(source).suffix in TABLES:
        source = opened(Path(source), (), args.label)
        others = [str(name) for name in source if str(name) not in known]
        if others and set(known) <= set(map(str, source)):
            print(f"left out: {', '.join(others)}", file=sys.stderr)
            chosen["classes"] = known
    return read(source, labels, kind=args.kind, **columns, **chosen, labelled=labelled)


def _is_name(source: str) -> bool:
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

    if Path(name).suffix in (".npy", *TABLES, *TORCH):
        got = f"{name!r}; `calibkit report` and `calibkit compare` read such files"
        raise expected("logits", LOGITS, got)
    return load_logits(name)


def check_writable(out: Path) -> None:
    """Raise ValueError before a fit where its file could not be written after it."""
    if out.exists() and not out.is_file():
        raise expected("out", "the path of a file", f"{str(out)!r}, which is none")
    _check_writable_folder(out.resolve().parent, "a file that can be written", out)


def _check_writable_folder(folder: Path, want: str = "a folder that can be written", named: Path | None = None) -> None:
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
