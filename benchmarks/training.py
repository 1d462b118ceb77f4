"""Seconds an epoch of a paper's own training: the network, loss and recipe of ``--budget paper``, a few epochs of it.

A run has its checkpoint and its validation in every epoch, so the seconds are those of ``python -m calibkit train``.
The first epoch, in which kernels are chosen and compiled, is shown apart. The data set has to be in the cache.

    python benchmarks/training.py [--dataset cifar10] [--model resnet50] [--loss mbls] [--epochs 4] [--device auto] \
        [--devices 1] [--compile]
"""

import argparse
import csv
import dataclasses
import tempfile
from pathlib import Path

from calibkit.training import assemble, fit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--loss", default="mbls")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    model, loss, recipe, _ = assemble(args.dataset, args.model, args.loss, "paper")
    recipe = dataclasses.replace(recipe, epochs=args.epochs)
    with tempfile.TemporaryDirectory() as folder:
        logits = fit(
            model, loss, args.dataset, recipe, folder=folder, device=args.device, devices=args.devices,
            compile=args.compile,
        )  # fmt: skip
        with open(Path(folder) / "log.csv") as stream:
            first, *seconds = (float(row["seconds"]) for row in csv.DictReader(stream))
    print(f"{args.model}, {args.loss}, {args.dataset}, {recipe.precision}, {logits.meta['device']}")
    print(f"first epoch {first:.2f} s; then {min(seconds):.2f} to {max(seconds):.2f} s, ", end="")
    print(f"{logits.meta['throughput']:,.0f} training samples a second")


if __name__ == "__main__":
    main()
