"""``calibkit train | networks | data``: what works on networks and data sets, not on outputs of one's own."""

from __future__ import annotations

import argparse

from calibkit import networks
from calibkit._checks import check_choice, check_int, expected
from calibkit._folders import cache
from calibkit.cli import some_path
from calibkit.data import DATASETS, available, published, texts
from calibkit.data.prepare import NAMES, prepare


def add_to(commands: argparse._SubParsersAction) -> None:
    """Add the three commands."""
    train = commands.add_parser("train", help="train a network, write its Logits; the same call resumes a killed run")
    train.add_argument("--dataset", required=True, help="a name of `data list`")
    train.add_argument("--model", required=True, help="a key of calibkit.models.MODELS: resnet20")
    key = 'a key: mbls, or "mbls margin=8", or PATH.py:CLASS of your own, which is executed'
    train.add_argument("--loss", default="cross_entropy", help=f"{key}; default: cross_entropy")
    budget = "minutes on a CPU, hours on one, or the recipe of a paper; default: reduced"
    train.add_argument("--budget", default="reduced", choices=("smoke", "reduced", "paper"), help=budget)
    train.add_argument("--paper", help="whose recipe, at --budget paper; default: that of the loss")
    train.add_argument("--seed", type=int, default=0, help="of weights and batches; default: 0")
    train.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"), help="default: a GPU if there is one"
    )
    train.add_argument("--devices", type=int, default=1, help="GPUs or processes; default: 1")
    nodes = "machines, each with so many; default: 1; see book/running.md"
    train.add_argument("--nodes", type=int, default=1, help=nodes)
    train.add_argument("--pretrained", action="store_true", help="start from torchvision's ImageNet weights")
    train.add_argument("--compile", action="store_true", help="torch.compile the network")
    train.add_argument("--out", type=some_path, help="default: runs/<budget>/<dataset>/<model>-<loss>-s<seed>")
    train.set_defaults(run=_train)

    stored = commands.add_parser("networks", help="the networks whose logits go by a name")
    stored.set_defaults(run=_networks)

    data = commands.add_parser("data", help="data sets: list them, prepare one")
    of_data = data.add_subparsers(dest="what", required=True)
    of_data.add_parser("list", help="the data sets, and which of them the cache holds").set_defaults(run=_list)
    fetch = of_data.add_parser("prepare", help="download, check and unpack a data set, or what others published")
    fetch.add_argument("name", help="of a data set; published: others' logits and weights; glove: word vectors")
    fetch.add_argument("--archive", help="the official archive, or the folder of the archives, already on disk")
    splits = ("train", "val", "test")
    fetch.add_argument("--splits", nargs="+", choices=splits, default=splits, help="which to write (default: all)")
    fetch.set_defaults(run=_prepare)


def _train(args: argparse.Namespace) -> None:
    check_int("seed", args.seed, 0, 2**63)
    network = networks.Network(args.dataset, args.model, args.loss, args.seed)
    folder = args.out or network.folder(args.budget, args.paper)
    logits = network.train(
        args.budget, paper=args.paper, pretrained=args.pretrained, folder=folder, device=args.device,
        devices=args.devices, nodes=args.nodes, compile=args.compile,
    )  # fmt: skip
    accuracy, throughput = 100 * logits.meta["accuracy"], logits.meta["throughput"]
    print(f"{folder / 'logits.npz'}: test accuracy {accuracy:.2f}%, {throughput:,.0f} training samples a second")


def _networks(args: argparse.Namespace) -> None:
    print(f"{'name':56} {'budget':8} accuracy   logits")
    for name, (budget, accuracy) in networks.index().items():
        print(f"{name:56} {budget:8} {100 * accuracy:6.2f}%")
    for name in networks.published():
        print(f"{name:56} {'paper':8} {'':8}   $CALIBKIT_DATA/logits")


def _list(args: argparse.Namespace) -> None:
    print(f"cache: {cache()}")
    width = max(map(len, DATASETS))
    for name, spec in DATASETS.items():
        print(f"  {name:{width}} {'ready' if available(name) else 'absent':6}  {spec.kind}")
    files = [target.path.exists() for target in published.targets() if not target.skipped]
    print(f"  {'published':{width}} {sum(files):2} of {len(files)}  logits and weights of other people's networks")


def _prepare(args: argparse.Namespace) -> None:
    check_choice("name", args.name, (*NAMES, "published", "glove"))
    if args.name not in ("published", "glove"):
        print(prepare(args.name, args.archive, args.splits))
        return
    if len(args.splits) != 3:
        raise expected("splits", f"left out: {args.name} has none", " ".join(args.splits))
    if args.name == "glove":
        print(texts.prepare_vectors(args.archive))
        return
    for target, state in published.fetch(args.archive):
        print(f"{target:44} {state}", flush=True)
