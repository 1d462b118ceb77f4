"""``calibkit judge``: a verdict on a calibrator of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.cli import KEY, check_writable_folder, some_path

_EXIT = "Exit status: 0 judged, whatever the verdict; 1 nothing could be judged, or a wrong argument; 130 interrupted."


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the command."""
    text = "judge a calibrator on all stored networks, beside one temperature; the same call goes on after a stop"
    judge = commands.add_parser("judge", help=text, description=text, epilog=_EXIT)
    judge.add_argument("key", help=KEY)
    which = "names of `calibkit networks`, also with *, or Logits files; default: a seed of each, all published ones"
    judge.add_argument("--networks", nargs="+", metavar="NETWORK", help=which)
    judge.add_argument(
        "--claims", nargs="+", default=(), metavar="CLAIM", help='as "lower ece than temperature_scaling"'
    )
    judge.add_argument("--out", type=some_path, help="folder of judge.html and judge.json; default: NAME-judge")
    judge.add_argument("--timeout", type=float, default=120.0, metavar="S", help="seconds for a network; default: 120")
    judge.add_argument("--jobs", type=int, metavar="N", help="networks at a time; default: the number of cores")
    judge.set_defaults(run=_judge)


def _judge(args: argparse.Namespace) -> None:
    with needs("plots"):
        import matplotlib  # noqa: F401, before minutes of fitting
    from calibkit.judging import judge

    folder = args.out or _folder_for(args.key)
    if folder.exists() and not folder.is_dir():
        raise expected("out", "a folder", f"the file {str(folder)!r}")
    check_writable_folder(folder)
    found = judge(
        args.key, args.networks, claims=args.claims, folder=folder, timeout=args.timeout, jobs=args.jobs, progress=True
    )
    saved = found.save(folder)
    claims = [f"{text}: {answer}" for text, (answer, _) in found.answers().items()]
    print(found.verdict, *claims, "", *(f"saved {path}" for path in saved), sep="\n")
    if not found.judged:
        raise expected("key", "of a calibrator that can be fitted to some network", repr(args.key))


def _folder_for(key: str) -> Path:
    """By the class of a file, or by the key: a folder here."""
    from calibkit.keys import Key

    name = str(Key.parse(key)).rpartition(".py:")[2]
    return Path(f"{''.join(c if c.isalnum() or c in '_-.=' else '-' for c in name)}-judge")
