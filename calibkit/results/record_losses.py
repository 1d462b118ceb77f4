"""The training losses of one data set and model held against each other, and everything that is stored, recorded.

What :mod:`calibkit.results.record` does for one network and its calibrators, this does for networks that differ in
their loss: the paired differences go into ``effects.csv``.
"""

from __future__ import annotations

from pathlib import Path

from calibkit import _folders
from calibkit.logits import Logits, read_meta
from calibkit.metrics.intervals import Resampled
from calibkit.networks import PUBLISHED, Network, load_logits, published, zoo
from calibkit.results import effects
from calibkit.results.comparators import CE, LS, MBLS, TS, TS_ECE
from calibkit.results.effects import append_effects
from calibkit.results.record import cell, measure, paired, record, trainings

#: The losses that a loss is held against, each as trained; and what one temperature makes of cross-entropy.
LOSS_BASES = (CE, LS, MBLS, "mbls margin=0 weight=0.05", "acls", "crl")
AFTER = ("identity", TS, TS_ECE)


def record_losses(dataset: str, model: str, budget: str) -> int:
    """Differences between the training losses of one data set, model and budget; returns how many rows of
    ``effects.csv`` are new or different.

    The networks are those of the zoo and those in the folders of trainings, whichever are of more seeds. Each loss as
    trained against ``LOSS_BASES`` as trained, and against cross-entropy after one temperature; after a temperature
    against cross-entropy after the same. The spread over seeds is pooled over the losses that have several.
    """
    of_loss: dict[str, list[Logits]] = {}
    for file in _files(dataset, model, budget):
        networks = trainings(str(file))
        loss = cell(str(file), networks[0])["loss"]
        if len(networks) >= len(of_loss.get(loss, [])):
            of_loss[loss] = networks
    runs: dict[tuple[str, str], list[dict[str, Resampled]]] = {}
    for loss, networks in of_loss.items():
        where = cell(f"{dataset}/{model}", networks[0])
        for method in AFTER:
            runs[loss, method] = measure(method, networks, where)[1]
    spreads = {
        method: {
            metric: effects.pooled_spread([r[metric].value for r in of] for (_, m), of in runs.items() if m == method)
            for metric in effects.COMPARED
        }
        for method in AFTER
    }
    rows = []
    for (loss, method), runs_of_loss in runs.items():
        bases = [(base, "identity") for base in LOSS_BASES] if method == "identity" else [(CE, method)]
        bases += [(CE, TS), (CE, TS_ECE)] if method == "identity" else []
        for base in bases:
            if base[0] != loss and base in runs:
                pair = {"dataset": dataset, "model": model, "loss": loss, "method": method, "base_loss": base[0]}
                pair |= {"base_method": base[1], "budget": budget, "source": "ours"}
                rows += paired(runs_of_loss, runs[base], pair, spreads[method])
    return append_effects(rows)


def record_beside(name: str) -> int:
    """:func:`record_losses` of the cell that a network is in; 0 for one that others published."""
    where = cell(name, load_logits(name))
    return 0 if where["source"] != "ours" else record_losses(where["dataset"], where["model"], where["budget"])


def _files(dataset: str, model: str, budget: str) -> list[Path]:
    """The Logits of a data set, model and budget: of the zoo, then of the folders of trainings."""
    files = [*(_folders.stored() / "logits" / dataset).glob(f"{model}-*.npz")]
    files += (_folders.runs(budget) / dataset).glob(f"{model}-*/logits.npz")
    return [file for file in sorted(files) if read_meta(file)["budget"] == budget]


def record_all(*, again: bool = False) -> None:
    """:func:`record` every network of the zoo and every external one, then :func:`record_losses`; says what it did.

    Networks of the budget "smoke" show how things work, and are not recorded.
    """
    budgets = {name: read_meta(path)["budget"] for name, path in zoo().items()}
    stored = [name for name, budget in budgets.items() if budget != "smoke"]
    for name in [*stored, *(name for name in published() if name in PUBLISHED)]:
        print(f"{name}: {record(name, again=again)} rows are new", flush=True)
    networks = {name: Network.parse(name) for name in stored}
    for cell_of in dict.fromkeys((network.dataset, network.model, budgets[name]) for name, network in networks.items()):
        print(f"{', '.join(cell_of)}: {record_losses(*cell_of)} differences of losses are new", flush=True)
