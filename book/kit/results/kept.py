"""Which recorded numbers can be computed again from what is stored, and which rest on trainings that are gone.

The logits of a training are kept, where its numbers are, but for those that were too large or were lost. Their rows
stay: they were measured. ``gone`` lists the trainings, with the command that repeats each.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from book.kit.results.csv_rows import load, quoted
from book.kit.results.paired_differences import load_effects
from calibkit.networks import Network, index


def stored_seeds() -> dict[tuple[str, ...], set[int]]:
    """(data set, model, loss, budget) -> the seeds whose logits are stored."""
    found: dict[tuple[str, ...], set[int]] = {}
    for name, (budget, _) in index().items():
        of = Network.parse(name)
        found.setdefault((of.dataset, of.model, of.loss, budget), set()).add(of.seed)
    return found


def rests_on_gone(rows: pd.DataFrame) -> pd.Series:
    """Whether a row of ``ours.csv`` or ``effects.csv`` rests on more trainings of ours than are stored.

    Example:
        >>> ours = load("ours").query("dataset == 'cifar10' and model == 'resnet20'")
        >>> sorted(set(ours[rests_on_gone(ours)]["loss"]) & {"brier", "cross_entropy"})
        ['brier']
    """
    return pd.Series([bool(cells) for cells in _gone_of(rows)], rows.index, bool)


def _gone_of(rows: pd.DataFrame) -> Iterator[dict[tuple[str, ...], int]]:
    """Of each row the cells of which more trainings are behind it than are stored, and how many are."""
    stored = stored_seeds()
    sides = [("loss", "n_seeds")] + [("base_loss", "base_seeds")] * ("base_loss" in rows)
    for row in rows.itertuples():
        fits = row.method.startswith("neural_clamping")  # whose seeds are fits of one network
        found: dict[tuple[str, ...], int] = {}
        for loss, seeds in sides if row.source == "ours" else ():
            cell = (row.dataset, row.model, getattr(row, loss), row.budget)
            trainings = 1 if fits else int(getattr(row, seeds))
            if trainings > len(stored.get(cell, ())):
                found[cell] = trainings
        yield found


def gone(ours: pd.DataFrame | None = None, effects: pd.DataFrame | None = None) -> pd.DataFrame:
    """The trainings of which numbers are recorded and no logits stored, one row a network.

    Args:
        ours: rows of ``ours.csv``; default: all.
        effects: rows of ``effects.csv``; default: all.

    Returns:
        DataFrame: columns dataset, model, loss, budget, seeds ("1" or "0, 1": those that are gone), ours and effects
        (how many rows of either file rest on them) and commands (a line for each seed).

    Example:
        >>> lost = gone().query("dataset == 'cifar10' and loss == 'brier'")
        >>> lost["seeds"].item(), lost["commands"].item()
        ('1', 'calibkit train --dataset cifar10 --model resnet20 --loss brier --budget reduced --seed 1')
    """
    ours = load("ours") if ours is None else ours
    effects = load_effects() if effects is None else effects
    stored, needed, counts = stored_seeds(), {}, {}
    for name, rows in (("ours", ours), ("effects", effects)):
        for cells in _gone_of(rows):
            for cell, trainings in cells.items():
                counts.setdefault(cell, {"ours": 0, "effects": 0})[name] += 1
                needed[cell] = max(needed.get(cell, 1), trainings)
    found = []
    for cell, of in sorted(counts.items()):
        have = stored.get(cell, set())
        seeds = [seed for seed in range(needed.get(cell, 1)) if seed not in have]
        dataset, model, loss, budget = cell
        command = f"calibkit train --dataset {dataset} --model {model} --loss {quoted(loss)} --budget {budget} --seed "
        commands = "\n".join(f"{command}{seed}" for seed in seeds)
        found.append([*cell, ", ".join(map(str, seeds)), *of.values(), commands])
    return pd.DataFrame(found, columns=["dataset", "model", "loss", "budget", "seeds", "ours", "effects", "commands"])
