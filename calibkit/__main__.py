"""``python -m calibkit train | calibrate | evaluate``: the three steps from images to honest probabilities."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from calibkit._checks import check_choice, expected


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m calibkit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

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
    train.add_argument("--out", type=Path, help="default: runs/<dataset>/<model>-<loss>-s<seed>")
    train.set_defaults(run=_train)

    calibrate = commands.add_parser("calibrate", help="fit a calibrator on val, report it on test, save it")
    calibrate.add_argument("logits", nargs="?", help="a Logits file (.npz) or a name of the zoo")
    calibrate.add_argument("--all", action="store_true", help="every stored network; with --record")
    calibrate.add_argument("--record", action="store_true", help="every method; numbers into book/results/ours.csv")
    calibrate.add_argument("--again", action="store_true", help="also the numbers that are recorded already")
    calibrate.add_argument("--calibrator", default="temperature_scaling")
    calibrate.add_argument("--objective", help="what the fit minimises, where the calibrator takes one")
    calibrate.add_argument("--out", type=Path, help="where to save the fitted calibrator (.npz)")
    calibrate.set_defaults(run=_calibrate)

    evaluate = commands.add_parser("evaluate", help="every metric of the uncalibrated test logits, with intervals")
    evaluate.add_argument("logits", help="a Logits file (.npz) or a name of the zoo")
    evaluate.set_defaults(run=_evaluate)

    args = parser.parse_args(argv)
    try:
        args.run(args)
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _train(args: argparse.Namespace) -> None:
    from calibkit.train import assemble, fit

    model, loss, recipe, facts = assemble(
        args.dataset, args.model, args.loss, args.budget, args.paper, seed=args.seed, pretrained=args.pretrained
    )
    folder = args.out or Path("runs") / args.dataset / f"{args.model}-{facts['loss'].replace(' ', ',')}-s{args.seed}"
    logits = fit(
        model, loss, args.dataset, recipe, folder=folder, seed=args.seed, device=args.device, devices=args.devices,
        nodes=args.nodes, compile=args.compile, meta=facts,
    )  # fmt: skip
    accuracy, throughput = 100 * logits.meta["accuracy"], logits.meta["throughput"]
    print(f"{folder / 'logits.npz'}: test accuracy {accuracy:.2f} %, {throughput:,.0f} training samples a second")


def _calibrate(args: argparse.Namespace) -> None:
    if args.all != (args.logits is None):
        raise expected("logits", "one network, or --all", "both" if args.all else "neither")
    if args.record or args.all:
        from calibkit.record import record, record_all

        if args.all:
            record_all(again=args.again)
        else:
            print(f"{args.logits}: {record(args.logits, again=args.again)} rows are new")
        return
    import torch

    from calibkit.calibrators import CALIBRATORS
    from calibkit.comparison import Comparison
    from calibkit.logits import find
    from calibkit.record import METRICS

    logits = find(args.logits)
    options = {"objective": args.objective} if args.objective else {}
    on_logits = [name for name in CALIBRATORS if name != "neural_clamping"]  # which needs the network itself
    calibrator = CALIBRATORS[check_choice("calibrator", args.calibrator, on_logits)](**options).fit(*logits.val)
    test_logits, test_labels = logits.test
    methods = Comparison(test_labels, METRICS, groups=logits.test_groups)
    methods.add("before", torch.from_numpy(test_logits).double().softmax(1))
    methods.add("after", calibrator(test_logits))
    print(f"{'metric':16} {'before':>10} {'after':>10}   change, 95 % interval   on {len(test_labels)} test samples")
    for name in METRICS:
        before, after = (methods.values[which][name] for which in ("before", "after"))
        change = methods.difference("after", "before", name)
        print(f"{name:16} {before:10.5f} {after:10.5f}   [{change.low:+.5f}, {change.high:+.5f}]")
    if args.out:
        print(f"saved {calibrator.save(args.out)}")


def _evaluate(args: argparse.Namespace) -> None:
    import torch

    from calibkit.logits import find
    from calibkit.metrics import bootstrap, evaluate

    logits = find(args.logits)
    test_logits, test_labels = logits.test
    probs = torch.from_numpy(test_logits).double().softmax(1)
    intervals = bootstrap(probs, test_labels, groups=logits.test_groups)
    print(f"{'metric':16} {'value':>10}   95 % interval   on {len(test_labels)} test samples")
    for name, value in evaluate(probs, test_labels).items():
        low, high = intervals[name]
        print(f"{name:16} {value:10.5f}   [{low:.5f}, {high:.5f}]")


if __name__ == "__main__":
    sys.exit(main())
