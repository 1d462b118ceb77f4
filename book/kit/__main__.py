"""``python -m book.kit record | refit | append | verdicts | judge | enter``: the numbers of the book."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from calibkit import __main__ as command_line
from calibkit._checks import check_choice, expected
from calibkit._extras import needs
from calibkit.cli import KEY, check_writable_folder, some_path
from calibkit.keys import Key

if TYPE_CHECKING:
    from book.kit.judging import Judgement, LossJudgement

LOGITS = (
    "a Logits file (.npz), a folder of val_logits.npy and so on, a name that `calibkit networks` lists, or public "
    "weights, as weights/cifar100_resnet56"
)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    return command_line.main(argv, parser)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="python -m book.kit", description=__doc__)
    commands = result.add_subparsers(dest="command", required=True)

    record = commands.add_parser("record", help="fit what the papers print, put it into ours.csv and effects.csv")
    record.add_argument("logits", nargs="*", metavar="logits", help=f"{LOGITS}; several are held against each other")
    record.add_argument("--all", action="store_true", help="every stored network")
    record.add_argument("--again", action="store_true", help="also the numbers that are recorded already")
    record.set_defaults(run=_record)

    refit = commands.add_parser("refit", help="fit the pairs of the claims again, to drawn validation samples")
    refit.set_defaults(run=_refit)

    append = commands.add_parser("append", help="rows that other jobs wrote, CSV as ours.csv, into ours.csv")
    append.add_argument("files", nargs="+", type=Path, metavar="FILE")
    append.set_defaults(run=_append)

    verdicts = commands.add_parser("verdicts", help="how many printed numbers have which answer")
    verdicts.add_argument("--by", choices=("paper", "table"), default="paper", help="a row a paper, or a table")
    verdicts.set_defaults(run=_verdicts)

    text = (
        "judge a calibrator on all stored networks, beside one temperature, or train a loss and judge it beside the "
        "stored ones; the same call goes on after a stop"
    )
    exits = (
        "Exit status: 0 judged, whatever the verdict; 1 nothing could be judged, or a wrong argument; 130 interrupted."
    )
    judge = commands.add_parser("judge", help=text, description=text, epilog=exits)
    judge.add_argument("key", help=KEY)
    claim = 'as "lower ece than temperature_scaling"'
    judge.add_argument("--claims", nargs="+", default=(), metavar="CLAIM", help=claim)
    judge.add_argument("--out", type=some_path, help="folder of judge.html and judge.json; default: NAME-judge")
    seconds = "seconds for a network; default: 120 of a calibrator, 600 of a loss on digits"
    judge.add_argument("--timeout", type=float, metavar="S", help=seconds)
    judge.add_argument("--jobs", type=int, metavar="N", help="networks at a time; default: the number of cores")
    which = "names of `calibkit networks`, also with *, or Logits files; default: a seed of each, all published ones"
    of_calibrators = judge.add_argument_group("of a calibrator")
    of_calibrators.add_argument("--networks", nargs="+", metavar="NETWORK", help=which)
    of_losses = judge.add_argument_group("of a loss")
    of_losses.add_argument("--data", choices=("digits", "cifar10"), help="to train on; default: digits, a minute")
    of_losses.add_argument("--seeds", type=int, metavar="N", help="trainings; default: 5 on digits, 1 on cifar10")
    tried = "values to choose from by the validation NLL: weight=0.1,1"
    of_losses.add_argument("--grid", nargs="+", metavar="OPTION=VALUES", help=tried)
    judge.set_defaults(run=_judge)

    enter = commands.add_parser("enter", help="put judgements on the leaderboard, and write its csv")
    enter.add_argument("files", nargs="*", type=Path, metavar="JUDGE.JSON", help="of `judge`; none: only the csv")
    enter.add_argument(
        "--tier", default="self-reported", help="ours, re-run by us, or self-reported, which is the default"
    )
    enter.add_argument("--by", default="", help="who measured it; with --tier ours left out")
    enter.set_defaults(run=_enter)
    return result


def _record(args: argparse.Namespace) -> None:
    from book.kit.notebook import public_networks
    from book.kit.notebook.trained_network import PUBLIC
    from book.kit.results.record import record
    from book.kit.results.record_losses import record_all, record_losses

    if args.all == bool(args.logits):
        raise expected("logits", "networks, or --all", "both" if args.all else "neither")
    if args.all:
        record_all(again=args.again)
        return
    for name in args.logits:
        new = public_networks.record(name) if name in PUBLIC else record(name, again=args.again)
        print(f"{name}: {new} rows are new", flush=True)
    if len(stored := [name for name in args.logits if name not in PUBLIC]) > 1:
        print(f"{record_losses(stored)} differences of losses are new")


def _refit(_: argparse.Namespace) -> None:
    from book.kit.results.refits import refit_all

    refit_all()


def _append(args: argparse.Namespace) -> None:
    from book.kit.results import COLUMNS, append
    from book.kit.results.csv_rows import read

    for path in args.files:
        rows = read(path)[list(COLUMNS)].to_dict("records")
        print(f"{path}: {append(rows)} of {len(rows)} rows are new")


def _verdicts(args: argparse.Namespace) -> None:
    from book.kit.results import answered_in_words, everything, summary

    compared = everything()
    counts = summary(compared, by=("paper",) if args.by == "paper" else ("paper", "table"))
    print(counts.loc[:, counts.any()].T.to_string())
    print(answered_in_words(compared))


def _judge(args: argparse.Namespace) -> None:
    with needs("plots"):
        import matplotlib  # noqa: F401, before minutes of fitting
    from book.kit.judging import judge, judge_loss, names_a_loss

    folder = args.out or _folder_for(args.key)
    check_writable_folder(folder)
    of_loss = names_a_loss(args.key)
    for name in ("networks",) if of_loss else ("data", "seeds", "grid"):
        if getattr(args, name) is not None:
            raise expected(name, f"left out: {args.key!r} is {'a loss' if of_loss else 'no loss'}", getattr(args, name))
    asked = {"claims": args.claims, "folder": folder, "jobs": args.jobs, "progress": True}
    asked |= {} if args.timeout is None else {"timeout": args.timeout}
    found: Judgement | LossJudgement
    if of_loss:
        found = judge_loss(args.key, args.data or "digits", seeds=args.seeds, grid=_grid(args.grid or []), **asked)
    else:
        found = judge(args.key, args.networks, **asked)
    saved = found.save(folder)
    claims = [f"{text}: {answer}" for text, (answer, _) in found.answers().items()]
    print(found.verdict, *claims, "", *(f"saved {path}" for path in saved), sep="\n")
    if not found.judged:
        kind = "loss that can be trained" if of_loss else "calibrator that can be fitted to some network"
        raise expected("key", f"of a {kind}", repr(args.key))


def _grid(texts: list[str]) -> dict[str, list[object]]:
    """Option -> its values, each read as in a key."""
    grid: dict[str, list[object]] = {}
    for text in texts:
        option, _, values = text.partition("=")
        if not option or not values:
            raise expected("grid", "OPTION=VALUE,VALUE", repr(text))
        if option in grid:
            raise expected("grid", "one that gives each option once", repr(text))
        grid[option] = [Key.parse(f"loss {option}={value}").options[option] for value in values.split(",")]
    return grid


def _folder_for(key: str) -> Path:
    """By the class of a file, or by the key: a folder here."""
    name = str(Key.parse(key)).rpartition(".py:")[2]
    return Path(f"{''.join(c if c.isalnum() or c in '_-.=' else '-' for c in name)}-judge")


def _enter(args: argparse.Namespace) -> None:
    from book.kit.results.leaderboard import TIERS, enter, write_csv

    check_choice("tier", args.tier, TIERS)
    for path in args.files:
        print(f"saved {enter(path, args.tier, args.by)}")
    print(f"saved {write_csv()}")


if __name__ == "__main__":
    sys.exit(main())
