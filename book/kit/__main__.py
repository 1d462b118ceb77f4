"""``python -m book.kit record | refit | append | verdicts | enter``: the numbers of the book."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from calibkit import __main__ as command_line
from calibkit._checks import check_choice, expected

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

    enter = commands.add_parser("enter", help="put judgements on the leaderboard, and write its csv")
    enter.add_argument(
        "files", nargs="*", type=Path, metavar="JUDGE.JSON", help="of `calibkit judge`; none: only the csv"
    )
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


def _enter(args: argparse.Namespace) -> None:
    from book.kit.results.leaderboard import TIERS, enter, write_csv

    check_choice("tier", args.tier, TIERS)
    for path in args.files:
        print(f"saved {enter(path, args.tier, args.by)}")
    print(f"saved {write_csv()}")


if __name__ == "__main__":
    sys.exit(main())
