"""``calibkit judge``: a verdict on a calibrator or a training loss of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.cli import KEY, check_writable_folder, some_path
from calibkit.keys import Key

if TYPE_CHECKING:
    from calibkit.judging import Judgement, LossJudgement

_EXIT = "Exit status: 0 judged, whatever the verdict; 1 nothing could be judged, or a wrong argument; 130 interrupted."


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    text = (
        "judge a calibrator on all stored networks, beside one temperature, or train a loss and judge it beside the "
        "stored ones; the same call goes on after a stop"
    )
    judge = commands.add_parser("judge", help=text, description=text, epilog=_EXIT)
    judge.add_argument("key", help=KEY)
    judge.add_argument(
        "--claims", nargs="+", default=(), metavar="CLAIM", help='as "lower ece than temperature_scaling"'
    )
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


def _judge(args: argparse.Namespace) -> None:
    with needs("plots"):
        import matplotlib  # noqa: F401, before minutes of fitting
    from calibkit.judging import judge, judge_loss, names_a_loss

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
