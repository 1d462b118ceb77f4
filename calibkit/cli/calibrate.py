"""``calibkit calibrate | evaluate``: one calibrator, before and after; and the metrics of outputs as they are."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from typing import TYPE_CHECKING

from calibkit._checks import expected
from calibkit.cli import KEY, add_source, check_writable, read_source, some_path, tell

if TYPE_CHECKING:
    from calibkit.calibrators import Calibrator
    from calibkit.logits import HeldOut
    from calibkit.metrics.comparison import Comparison
    from calibkit.reporting import Diagnosed


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the two commands."""
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


def _calibrate(args: argparse.Namespace) -> None:
    from calibkit.calibrators import calibrator, on_logits
    from calibkit.keys import Key, find

    name = args.calibrator or "temperature_scaling"
    key = f"{name}:{args.objective}" if args.objective else name
    find(Key.parse(key).name, on_logits(), "calibrator")
    if args.out:
        check_writable(args.out, (".npz",), args.source, args.labels)
    method, (names, data) = calibrator(key), _data(args)
    if data.test is None:
        raise expected("source", "of two splits, val and test; `calibkit report` cross-fits the one", "one")
    tell(f"fitting {key} on {len(data.val.labels)} samples of {len(data.classes)} classes ...")
    fitted = _fit(method, data.val)
    fitted.classes, fitted.floor = names, data.floor
    tell(f"comparing on {len(data.test.labels)} samples, each metric on 1,000 resamples ...")
    _compare(fitted, data.test)
    if args.out:
        print(f"saved {fitted.save(args.out)}")


def _fit(method: Calibrator, val: HeldOut) -> Calibrator:
    """``method``, fitted; what warns says so in a line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        method.fit(*val)
    for warning in found:
        print(warning.message, file=sys.stderr)
    return method


def _compare(fitted: Calibrator, test: HeldOut) -> None:
    """Print each metric before and after, and what became worse."""
    from calibkit.metrics import REPORTED

    methods = _measured(test, "before")
    methods.add("after", fitted(test.logits))
    _warn_if_few(test)
    print(fitted)
    print(f"{'metric':16} {'before':>10} {'after':>10}   change, 95% interval   on {len(test.labels)} test samples")
    changes = {name: methods.difference("after", "before", name) for name in REPORTED}
    for name, change in changes.items():
        before, after = (methods.of(which, name).value for which in ("before", "after"))
        print(f"{name:16} {before:10.5f} {after:10.5f}   [{change.low:+.5f}, {change.high:+.5f}]")
    worse = [name for name in ("nll", "brier", "ece") if changes[name].above() == "holds"]
    worse += ["accuracy"] if changes["accuracy"].below() == "holds" else []
    if worse:
        print(f"worse than before, beyond chance: {', '.join(worse)}")


def _data(args: argparse.Namespace) -> tuple[tuple[str, ...], Diagnosed]:
    """The names of the classes, if they have any, and the data of a command; what was cured in them is said."""
    from calibkit.reporting import diagnose
    from calibkit.reporting.labels import has_many

    given = read_source(args, args.labels)
    if has_many(given):
        parts = [part.labels for part in (given.val, given.test) if part is not None and part.labels is not None]
        n_labels = max(math.prod(labels.shape[1:]) for labels in parts)  # of one split or of both
        raise expected("source", "of one label a sample", f"{n_labels} labels; `calibkit report` takes several")
    found = diagnose(given, suspect=False)
    for finding in found.findings:
        if finding.weight == "cured":
            print(finding.text, file=sys.stderr)
    return given.classes, found


def _measured(held: HeldOut, name: str) -> Comparison:
    """The metrics of a network as it is: of probabilities that were given, as they were."""
    from calibkit._checks import to_tensor
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    methods = Comparison(held.labels, REPORTED, groups=held.groups)
    methods.add(name, to_tensor("logits", held.logits).double().softmax(1) if held.given is None else held.given)
    return methods


def _warn_if_few(held: HeldOut, of: str = "test ") -> None:
    from calibkit.reporting.diagnosis import FEWEST

    n_units, what = held.units
    if n_units < FEWEST:
        print(f"{n_units} {of}{what}: intervals from fewer than {FEWEST} are too short", file=sys.stderr)


def _evaluate(args: argparse.Namespace) -> None:
    from calibkit.metrics import REPORTED

    _, data = _data(args)
    test, of = data.test or data.val, "" if data.test is None else "test "
    tell(f"measuring {len(test.labels)} samples, each metric on 1,000 resamples ...")
    methods = _measured(test, "test")
    _warn_if_few(test, of)
    if args.json:
        found = {name: methods.of("test", name)._asdict() for name in REPORTED}
        finite = {name: {k: x if math.isfinite(x) else None for k, x in each.items()} for name, each in found.items()}
        print(json.dumps(finite, indent=1, allow_nan=False))
        return
    print(f"{'metric':16} {'value':>10}   95% interval   on {len(test.labels)} {of}samples")
    noise = False
    for name in REPORTED:
        value, low, high = methods.of("test", name)
        mark = " *" if value > 0 and methods.measured["test"][name].may_be_zero() else ""
        noise = noise or bool(mark)
        print(f"{name:16} {value:10.5f}   [{low:.5f}, {high:.5f}]{mark}")
    if noise:
        print("* not told apart from 0: in a finite sample a calibrated network, too, has an error by chance")
