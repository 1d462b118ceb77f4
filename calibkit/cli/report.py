"""``calibkit report | compare``: what is wrong with a network's outputs, and which calibrator to take."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit._progress import progress
from calibkit.cli import KEY, add_source, check_writable_folder, is_name, read_source, some_path

if TYPE_CHECKING:
    from calibkit.reporting import LabelReports, Report


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the two commands."""
    report = commands.add_parser("report", help="look at a network's outputs; what is wrong, which calibrator to take")
    add_source(report, labels=True)
    _add_methods(report)
    report.add_argument("--out", type=some_path, help="folder of the report and the calibrator; default: SOURCE-report")
    report.set_defaults(run=_report)

    compare = commands.add_parser("compare", help="fit every calibrator, compare them, recommend one")
    add_source(compare, labels=True)
    _add_methods(compare)
    compare.add_argument("--json", action="store_true", help="print the numbers as JSON")
    compare.set_defaults(run=_compare)


def _add_methods(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calibrators", nargs="+", metavar="KEY", help=f"{KEY}; default: all that fit in seconds")
    parser.add_argument("--keep-predictions", action="store_true", help="recommend only what keeps every prediction")
    parser.add_argument("--all", action="store_true", help="try also what takes minutes or more")


def _report(args: argparse.Namespace) -> None:
    with needs("report"):  # "plots" would draw, and then ask for what reads a table
        import matplotlib  # noqa: F401, before minutes of fitting

    folder = args.out or _folder_for(args.source, args.labels)
    check_writable_folder(folder)
    found = _found(args)
    try:
        saved = found.save(folder)
    except (OSError, ValueError):  # of a class of one's own, what it holds
        print(found)  # what minutes of fitting gave
        raise
    print(found, "", *(f"saved {path}" for path in saved), sep="\n")
    _say_doubts(found)


def _folder_for(source: str, labels: str | None) -> Path:
    """Where a report goes by default: to a folder here with the name of its source, never onto another's report."""
    path = Path(source)
    own = path.resolve().name if path.is_dir() else path.stem
    folder = Path(f"{source.replace('/', '-') if is_name(source) else own}-report")
    called = source if labels is None or labels.endswith(".npy") else f"{source} and {labels}"
    try:
        other = json.loads((folder / "report.json").read_bytes())["source"]
        same = Path(other).resolve() == Path(called).resolve()
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # of what is no report
        return folder
    if not same:
        raise expected("out", f"given, as {str(folder)!r} holds the report on {other!r}", "none")
    return folder


def _compare(args: argparse.Namespace) -> None:
    found = _found(args)
    print(json.dumps(found.facts(), indent=1, allow_nan=False) if args.json else found)
    _say_doubts(found)


def _say_doubts(found: Report | LabelReports) -> None:
    """What must not be overlooked, to the standard error: a doubt, or ValueError where nothing is recommended."""
    from calibkit.reporting import LabelReports

    each = [*found.reports.values()] if isinstance(found, LabelReports) else [found]
    findings = [finding for of in each for finding in of.diagnosed.findings]
    wrong, doubts = (", ".join(dict.fromkeys(f.kind for f in findings if f.weight == w)) for w in ("wrong", "doubt"))
    if all(of.choice.sure == "none" for of in each):
        got = f"{wrong}; no calibrator is recommended"
        raise expected("source", "outputs beside the labels of the same samples", got)
    if doubts:
        print(f"in doubt: {doubts}; read the warning first", file=sys.stderr)


def _found(args: argparse.Namespace) -> Report | LabelReports:
    from calibkit.reporting import report

    given = read_source(args, args.labels)
    with progress(args.command, log=True):
        return report(given, methods=args.calibrators, keep_predictions=args.keep_predictions, everything=args.all)
