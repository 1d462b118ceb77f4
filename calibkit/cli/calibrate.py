"""``calibkit calibrate | evaluate``: a calibrator of a Logits file, and the metrics of one."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import TYPE_CHECKING

from calibkit.cli import KEY, LOGITS, check_writable, load, some_path, tell

if TYPE_CHECKING:
    from calibkit.calibrators import Calibrator
    from calibkit.logits import HeldOut


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the two commands."""
    calibrate = commands.add_parser("calibrate", help="fit a calibrator on val, report it on test, save it")
    calibrate.add_argument("logits", help=LOGITS)
    calibrate.add_argument("--calibrator", help=f"{KEY}; default: temperature_scaling")
    calibrate.add_argument("--objective", help="what the fit minimises, where the calibrator takes one")
    calibrate.add_argument("--out", type=some_path, help="where to save the fitted calibrator (.npz)")
    calibrate.set_defaults(run=_calibrate)

    evaluate = commands.add_parser("evaluate", help="metrics of the uncalibrated test logits, with intervals")
    evaluate.add_argument("logits", help=LOGITS)
    evaluate.set_defaults(run=_evaluate)


def _calibrate(args: argparse.Namespace) -> None:
    from calibkit.calibrators import calibrator

    key = _key(args.calibrator or "temperature_scaling", args.objective)
    if args.out:
        check_writable(args.out)
    method, data = calibrator(key), load(args.logits)
    tell(f"fitting {key} on {len(data.val_labels)} samples of {data.n_classes} classes ...")
    fitted = _fit(method, data.val)
    tell(f"comparing on {len(data.test_labels)} samples, each metric on 1,000 resamples ...")
    _compare(fitted, data.val, data.test)
    if args.out:
        print(f"saved {fitted.save(args.out)}")


def _key(name: str, objective: str | None) -> str:
    """The key of a calibrator that a fit on logits gives."""
    from calibkit.calibrators import on_logits
    from calibkit.keys import Key, find

    key = f"{name}:{objective}" if objective else name
    find(Key.parse(key).name, on_logits(), "calibrator")
    return key


def _fit(method: Calibrator, val: HeldOut) -> Calibrator:
    """``method``, fitted; what warns says so in a line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        method.fit(*val)
    for warning in found:
        print(warning.message, file=sys.stderr)
    return method


def _compare(fitted: Calibrator, val: HeldOut, test: HeldOut) -> None:
    """Print each metric before and after, and what became worse."""
    from calibkit.calibrators import Identity
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    methods = Comparison.on(test, {"before": Identity().fit(*val), "after": fitted}, REPORTED)
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


def _warn_if_few(test: HeldOut) -> None:
    from calibkit.reporting.diagnosis import FEWEST

    n_units, what = test.units
    if n_units < FEWEST:
        print(f"{n_units} test {what}: intervals from fewer than {FEWEST} are too short", file=sys.stderr)


def _evaluate(args: argparse.Namespace) -> None:
    from calibkit._checks import to_tensor
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    test = load(args.logits).test
    tell(f"measuring {len(test.labels)} samples, each metric on 1,000 resamples ...")
    methods = Comparison(test.labels, REPORTED, groups=test.groups)
    methods.add("test", to_tensor("logits", test.logits).double().softmax(1))
    _warn_if_few(test)
    print(f"{'metric':16} {'value':>10}   95% interval   on {len(test.labels)} test samples")
    noise = False
    for name in REPORTED:
        value, low, high = methods.of("test", name)
        mark = " *" if value > 0 and methods.measured["test"][name].may_be_zero() else ""
        noise = noise or bool(mark)
        print(f"{name:16} {value:10.5f}   [{low:.5f}, {high:.5f}]{mark}")
    if noise:
        print("* not told apart from 0: in a finite sample a calibrated network, too, has an error by chance")
