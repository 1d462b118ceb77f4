"""``calibkit judge | train | networks | data``: what works on networks and data sets, not on outputs of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from calibkit._checks import check_choice, check_int, expected
from calibkit._extras import needs
from calibkit.cli import KEY, check_writable_folder, some_path
from calibkit.keys import Key

if TYPE_CHECKING:
    from calibkit.judging import Judgement, LossJudgement


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the four commands."""
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

    train = commands.add_parser("train", help="train a network, write its Logits; the same call resumes a killed run")
    train.add_argument("--dataset", required=True)
    train.add_argument("--model", required=True)
    key = 'a key: mbls, or "mbls margin=8", or PATH.py:CLASS of your own, which is executed'
    train.add_argument("--loss", default="cross_entropy", help=key)
    train.add_argument("--budget", default="reduced", choices=("smoke", "reduced", "paper"))
    train.add_argument("--paper", help="whose recipe, at --budget paper; default: that of the loss")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    train.add_argument("--devices", type=int, default=1, help="GPUs or processes")
    train.add_argument("--nodes", type=int, default=1, help="machines, each with so many; see book/running.md")
    train.add_argument("--pretrained", action="store_true", help="start from torchvision's ImageNet weights")
    train.add_argument("--compile", action="store_true", help="torch.compile the network")
    train.add_argument("--out", type=some_path, help="default: runs/<budget>/<dataset>/<model>-<loss>-s<seed>")
    train.set_defaults(run=_train)

    networks = commands.add_parser("networks", help="the networks whose logits go by a name")
    networks.set_defaults(run=_networks)

    data = commands.add_parser("data", help="data sets: list them, prepare one")
    of_data = data.add_subparsers(dest="what", required=True)
    of_data.add_parser("list", help="the data sets, and which of them the cache holds").set_defaults(run=_list)
    prepare = of_data.add_parser("prepare", help="download, check and unpack a data set, or what others published")
    prepare.add_argument("name", help="of a data set; published: others' logits and weights; glove: word vectors")
    prepare.add_argument("--archive", help="the official archive, or the folder of the archives, already on disk")
    splits = ("train", "val", "test")
    prepare.add_argument("--splits", nargs="+", choices=splits, default=splits, help="which to write (default: all)")
    prepare.set_defaults(run=_prepare)


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
    print(f"{folder / 'logits.npz'}: test accuracy {accuracy:.2f}%, {throughput:,.0f} training samples a second")


def _networks(args: argparse.Namespace) -> None:
    from calibkit.networks import index, published

    print(f"{'name':56} {'budget':8} accuracy   logits")
    for name, (budget, accuracy) in index().items():
        print(f"{name:56} {budget:8} {100 * accuracy:6.2f}%")
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
    from calibkit.data import DATASETS, glove, published
    from calibkit.data.prepare import prepare

    check_choice("name", args.name, (*DATASETS, "published", "glove"))
    if args.name not in ("published", "glove"):
        print(prepare(args.name, args.archive, args.splits))
        return
    if len(args.splits) != 3:
        raise expected("splits", f"left out: {args.name} has none", " ".join(args.splits))
    if args.name == "glove":
        print(glove.prepare(args.archive))
        return
    for target, state in published.fetch(args.archive):
        print(f"{target:44} {state}", flush=True)
