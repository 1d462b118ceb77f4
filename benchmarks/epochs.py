"""What the test set says after each epoch of a training: as trained, and after one temperature.

Trains a network by a paper's recipe and measures it after epochs 1, 2, 5 and 15 and after every tenth. A row of
``book/results/epochs.csv`` has the accuracy on validation data, by which some papers choose their epoch, and accuracy,
ECE with 15 bins and NLL on test data. Rows of other networks stay. About an hour on one core for the text network;
of its cross-entropy the file has what checkpoints kept, from epoch 15 on.

    python benchmarks/epochs.py 20newsgroups_random gpool_cnn mbls [--seed 0] [--budget paper] [--paper mbls]
"""

import argparse

import pandas as pd
import torch

from calibkit import TemperatureScaling, _folders
from calibkit._files import write_text
from calibkit.metrics import evaluate
from calibkit.training.inference import held_out
from calibkit.training.setup import Setup, assemble, launch, set_up
from calibkit.training.trainer import train

KEY = ["dataset", "model", "loss", "seed", "budget", "epoch"]


def wanted(epoch: int) -> bool:
    """The first epochs change most."""
    return epoch in {1, 2, 5, 15} or epoch % 10 == 0


def measured(setup: Setup) -> dict[str, float]:
    """The columns of an epoch that are numbers; fractions, nats, and the temperature."""
    data, _, _ = held_out(setup)
    val, val_labels, test, labels = (data[name] for name in ("val_logits", "val_labels", "test_logits", "test_labels"))
    scaling = TemperatureScaling().fit(val, val_labels)
    row = {"val_accuracy": evaluate(scaling(val), val_labels, ["accuracy"])["accuracy"]}
    row |= evaluate(torch.from_numpy(test).double().softmax(1), labels, ["accuracy", "ece", "nll"])
    after = evaluate(scaling(test), labels, ["ece", "nll"])
    return row | {f"{name}_scaled": value for name, value in after.items()} | {"temperature": scaling.temperature}


def write(rows: pd.DataFrame) -> None:
    """Put rows in the place of those of the same network and epoch."""
    path = _folders.stored() / "epochs.csv"
    if path.exists():
        rows = pd.concat([rows, pd.read_csv(path)]).drop_duplicates(KEY)
    text = rows.sort_values(KEY).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_text(path, text)


def main() -> None:
    """Train one network and write its rows, those of an epoch as soon as it is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in KEY[:3]:
        parser.add_argument(name)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", default="paper")
    parser.add_argument("--paper")
    args = parser.parse_args()
    network = {name: getattr(args, name) for name in KEY[:5]}
    model, loss, recipe, _ = assemble(*list(network.values())[:3], args.budget, args.paper, seed=args.seed)
    torch.manual_seed(args.seed)
    setup = set_up(launch("auto", 1, 1, recipe.precision), model, loss, args.dataset, recipe, args.seed, compile=False)

    def save(history: list) -> None:
        if wanted(len(history)):
            write(pd.DataFrame([network | {"epoch": len(history)} | measured(setup)]))

    train(setup, [], save)


if __name__ == "__main__":
    main()
