"""The training losses of one data set and model held against each other, and everything that is stored, recorded.

What :mod:`book.kit.results.record` does for one network and its calibrators, this does for networks that differ in
their loss: the paired differences go into ``effects.csv``.
"""

from __future__ import annotations

from collections.abc import Iterable

from book.kit.judging.seeds import pooled_spread
from book.kit.results.csv_rows import resample
from book.kit.results.paired_differences import COMPARED, append_effects
from book.kit.results.record import cell, fit_each, paired, record, resample_each, trainings
from book.papers import PAPERS
from calibkit._checks import expected
from calibkit.logits import Logits, read_meta
from calibkit.metrics import mean_iou
from calibkit.metrics.intervals import Resampled
from calibkit.networks import PUBLISHED, published, zoo

CE, TS, TS_ECE = "cross_entropy", "temperature_scaling", "temperature_scaling:ece"
#: The losses that a loss is held against, each as trained; and what one temperature makes of cross-entropy.
LOSS_BASES = (CE, *(loss for paper in PAPERS.values() for loss in paper.loss_bases))
AFTER = ("identity", TS, TS_ECE)
#: Data set, model, budget and whose recipe.
Place = tuple[str, str, str, str]


def record_losses(names: Iterable[str]) -> int:
    """Differences between training losses; returns how many rows of ``effects.csv`` are new or different.

    Of networks of one data set, model, budget and recipe, each loss as trained is held against ``LOSS_BASES`` as
    trained and against cross-entropy after one temperature; after a temperature, against cross-entropy after the same.
    A name, of the zoo, of the external logits, or a path, stands for all its seeds, and of two of one loss the one of
    more seeds counts (:func:`book.kit.results.record.trainings`). The spread over seeds is pooled over the losses that
    have several. What others published is left out. ValueError tells of unknown logits, and of networks of one cell
    with different test samples.
    """
    cells: dict[Place, dict[str, list[Logits]]] = {}
    for name in names:
        networks = trainings(name)
        where = cell(name, networks[0])
        if where["source"] != "ours":
            continue
        of_loss = cells.setdefault(tuple(where[key] for key in ("dataset", "model", "budget", "paper")), {})
        if len(networks) > len(of_loss.get(where["loss"], ())):
            of_loss[where["loss"]] = networks
    return append_effects(
        [row for of, by_loss in cells.items() if len(by_loss) > 1 for row in _differences(of, by_loss)]
    )


def _differences(of: Place, of_loss: dict[str, list[Logits]]) -> list[dict]:
    """The rows of the networks of a cell, by loss."""
    every = [network for networks in of_loss.values() for network in networks]
    if not all(network.test.is_of(every[0].test) for network in every):
        raise expected("logits", "of the same test samples for every loss", sorted(of_loss))
    runs: dict[tuple[str, str], list[dict[str, Resampled]]] = {}
    for loss, networks in of_loss.items():
        for method in AFTER:
            fits = fit_each(method, networks)
            runs[loss, method] = resample_each(fits, networks)
            if "test_pixels" in networks[0].meta:
                for run, fit, logits in zip(runs[loss, method], fits, networks, strict=True):
                    test = logits.test
                    run |= resample(fit(test.logits), test.labels, {"miou": mean_iou}, groups=test.groups)
    metrics = [metric for metric in (*COMPARED, "miou") if metric in next(iter(runs.values()))[0]]
    spread = {
        (method, metric): pooled_spread(
            [run[metric].value for run in own] for (_, key), own in runs.items() if key == method
        )
        for method in AFTER
        for metric in metrics
    }
    rows, where = [], dict(zip(("dataset", "model", "budget"), of[:3], strict=True)) | {"source": "ours"}
    for (loss, method), own in runs.items():
        bases = [(base, "identity") for base in LOSS_BASES] if method == "identity" else [(CE, method)]
        bases += [(CE, TS), (CE, TS_ECE)] if method == "identity" else []
        for base in bases:
            if base[0] != loss and base in runs:
                both = {metric: (spread[method, metric], spread[base[1], metric]) for metric in metrics}
                pair = where | {"loss": loss, "method": method, "base_loss": base[0], "base_method": base[1]}
                rows += paired(own, runs[base], pair, both)
    return rows


def stored_networks() -> list[str]:
    """Every network of the zoo, one of all its seeds, then every external one that is here.

    Networks of the budget "smoke" show how things work, and are not recorded.
    """
    facts = {name: read_meta(path) for name, path in zoo().items()}
    one_of = {tuple(of[key] for key in ("dataset", "model", "loss", "budget")): name for name, of in facts.items()}
    stored = sorted(name for name in one_of.values() if facts[name]["budget"] != "smoke")
    return [*stored, *(name for name in published() if name in PUBLISHED)]


def record_all(*, again: bool = False) -> None:
    """:func:`record` every stored network, then :func:`record_losses`; says what it did."""
    networks = stored_networks()
    for name in networks:
        print(f"{name}: {record(name, again=again)} rows are new", flush=True)
    print(f"{record_losses(networks)} differences of losses are new")
