"""``calibkit report | compare | apply | calibrate | evaluate | train | ...``: from images to honest probabilities."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from calibkit import __version__, _shell
from calibkit._checks import check_choice, check_int, expected

if TYPE_CHECKING:
    from calibkit.logits import HeldOut


def main(argv: list[str] | None = None, parse: Callable[[], argparse.ArgumentParser] | None = None) -> int:
    """Run the command line, or that of ``parse``; returns the exit status."""
    _replace_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # whatever a name holds, and the terminal takes
    args = (parse or parser)().parse_args(argv)
    try:
        args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output, as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        text = expected("path", "one that can be used", f"{str(error.filename)!r}: {error.strerror}")
        print(text if named else error, file=sys.stderr)
        return 1
    except (ImportError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _replace_closed_streams() -> None:
    """Let what goes to a stream that the shell closed, as by ``>&-``, go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="calibkit", description=__doc__)
    result.add_argument("--version", action="version", version=f"calibkit {__version__}")
    commands = result.add_subparsers(dest="command", required=True)

    _shell.add_to(commands)

    train = commands.add_parser("train", help="train a network, write its Logits; the same call resumes a killed run")
    train.add_argument("--dataset", required=True)
    train.add_argument("--model", required=True)
    train.add_argument("--loss", default="cross_entropy", help='a key: mbls, or "mbls margin=8"')
    train.add_argument("--budget", default="reduced", choices=("smoke", "reduced", "paper"))
    train.add_argument("--paper", help="whose recipe, at --budget paper; default: that of the loss")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    train.add_argument("--devices", type=int, default=1, help="GPUs or processes")
    train.add_argument("--nodes", type=int, default=1, help="machines, each with so many; see book/running.md")
    train.add_argument("--pretrained", action="store_true", help="start from torchvision's ImageNet weights")
    train.add_argument("--compile", action="store_true", help="torch.compile the network")
    train.add_argument("--out", type=_shell.some_path, help="default: runs/<budget>/<dataset>/<model>-<loss>-s<seed>")
    train.set_defaults(run=_train)

    calibrate = commands.add_parser("calibrate", help="fit a calibrator on val, report it on test, save it")
    calibrate.add_argument("logits", help=_shell.LOGITS)
    calibrate.add_argument("--calibrator", help='a key: ets, or "ets:focal gamma=2"; default: temperature_scaling')
    calibrate.add_argument("--objective", help="what the fit minimises, where the calibrator takes one")
    calibrate.add_argument("--out", type=_shell.some_path, help="where to save the fitted calibrator (.npz)")
    calibrate.set_defaults(run=_calibrate)

    evaluate = commands.add_parser("evaluate", help="metrics of the uncalibrated test logits, with intervals")
    evaluate.add_argument("logits", help=_shell.LOGITS)
    evaluate.set_defaults(run=_evaluate)

    networks = commands.add_parser("networks", help="the networks whose logits go by a name")
    networks.set_defaults(run=_networks)

    data = commands.add_parser("data", help="data sets: list them, prepare one")
    of_data = data.add_subparsers(dest="what", required=True)
    of_data.add_parser("list", help="the data sets, and which of them the cache holds").set_defaults(run=_list)
    prepare = of_data.add_parser("prepare", help="download, check and unpack a data set, or what others published")
    prepare.add_argument("name", help="of a data set; published: logits and weights of other people's networks")
    prepare.add_argument("--archive", help="the official archive, or the folder of the archives, already on disk")
    splits = ("train", "val", "test")
    prepare.add_argument("--splits", nargs="+", choices=splits, default=splits, help="which to write (default: all)")
    prepare.set_defaults(run=_prepare)

    return result


def _train(args: argparse.Namespace) -> None:
    from calibkit.networks import Network

    check_int("seed", args.seed, 0, 2**63)
    network = Network(args.dataset, args.model, args.loss, args.seed)
    folder = args.out or network.folder(args.budget, args.paper)
    logits = network.train(
        args.budget, paper=args.paper, pretrained=args.pretrained, folder=folder, device=args.device,
        devices=args.devices, nodes=args.nodes, compile=args.compile,
    )  # fmt: skip
    accuracy, throughput = 100 * logits.meta["accuracy"], logits.meta["throughput"]
    print(f"{folder / 'logits.npz'}: test accuracy {accuracy:.2f} %, {throughput:,.0f} training samples a second")


def _calibrate(args: argparse.Namespace) -> None:
    from calibkit.calibrators import CALIBRATORS, Identity, calibrator
    from calibkit.keys import Key
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    key = args.calibrator or "temperature_scaling"
    key = f"{key}:{args.objective}" if args.objective else key
    on_logits = [name for name in CALIBRATORS if name != "neural_clamping"]  # which needs the network itself
    check_choice("calibrator", Key.parse(key).name, on_logits)
    if args.out:
        _shell.check_writable(args.out)
    method, data = calibrator(key), _shell.load(args.logits)
    _shell.tell(f"fitting {key} on {len(data.val_labels)} samples of {data.n_classes} classes ...")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        fits = {"before": Identity().fit(*data.val), "after": method.fit(*data.val)}
    for warning in found:
        print(warning.message, file=sys.stderr)
    _shell.tell(f"comparing on {len(data.test_labels)} samples, each metric on 1,000 resamples ...")
    methods = Comparison.on(data.test, fits, REPORTED)
    _warn_if_few(data.test)
    print(fits["after"])
    print(
        f"{'metric':16} {'before':>10} {'after':>10}   change, 95 % interval   on {len(data.test_labels)} test samples"
    )
    changes = {name: methods.difference("after", "before", name) for name in REPORTED}
    for name, change in changes.items():
        before, after = (methods.of(which, name).value for which in ("before", "after"))
        print(f"{name:16} {before:10.5f} {after:10.5f}   [{change.low:+.5f}, {change.high:+.5f}]")
    worse = [name for name in ("nll", "brier", "ece") if changes[name].above() == "holds"]
    worse += ["accuracy"] if changes["accuracy"].below() == "holds" else []
    if worse:
        print(f"worse than before, beyond chance: {', '.join(worse)}")
    if args.out:
        print(f"saved {fits['after'].save(args.out)}")


def _warn_if_few(test: HeldOut) -> None:
    from calibkit.reporting.diagnosis import FEWEST

    n_units, what = test.units
    if n_units < FEWEST:
        print(f"{n_units} test {what}: intervals from fewer than {FEWEST} are too short", file=sys.stderr)


def _evaluate(args: argparse.Namespace) -> None:
    from calibkit._checks import to_tensor
    from calibkit.metrics import REPORTED
    from calibkit.metrics.comparison import Comparison

    test = _shell.load(args.logits).test
    _shell.tell(f"measuring {len(test.labels)} samples, each metric on 1,000 resamples ...")
    methods = Comparison(test.labels, REPORTED, groups=test.groups)
    methods.add("test", to_tensor("logits", test.logits).double().softmax(1))
    _warn_if_few(test)
    print(f"{'metric':16} {'value':>10}   95 % interval   on {len(test.labels)} test samples")
    noise = False
    for name in REPORTED:
        value, low, high = methods.of("test", name)
        mark = " *" if value > 0 and methods.measured["test"][name].may_be_zero() else ""
        noise = noise or bool(mark)
        print(f"{name:16} {value:10.5f}   [{low:.5f}, {high:.5f}]{mark}")
    if noise:
        print("* not told apart from 0: in a finite sample a calibrated network, too, has an error by chance")


def _networks(args: argparse.Namespace) -> None:
    from calibkit.networks import index, published

    print(f"{'name':56} {'budget':8} accuracy   logits")
    for name, (budget, accuracy) in index().items():
        print(f"{name:56} {budget:8} {100 * accuracy:6.2f} %")
    for name in published():
        print(f"{name:56} {'paper':8} {'':8}   $CALIBKIT_DATA/logits")


def _list(args: argparse.Namespace) -> None:
    from calibkit._folders import cache
    from calibkit.data import DATASETS, available, published

    print(f"cache: {cache()}")
    for name, spec in DATASETS.items():
        print(f"  {name:16} {'ready' if available(name) else 'absent':6}  {spec.kind}")
    files = [target.path.exists() for target in published.targets() if not target.skipped]
    print(f"  {'published':16} {sum(files):2} of {len(files)}  logits and weights of other people's networks")


def _prepare(args: argparse.Namespace) -> None:
    from calibkit.data import published
    from calibkit.data.prepare import prepare

    if args.name != "published":
        print(prepare(args.name, args.archive, args.splits))
        return
    if len(args.splits) != 3:
        raise expected("splits", "left out: each published file holds what it holds", " ".join(args.splits))
    for target, state in published.fetch(args.archive):
        print(f"{target:44} {state}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
