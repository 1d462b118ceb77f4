"""From stored logits to numbers: fit calibrators on ``val``, measure them on ``test``, record them.

The metrics of each method go into ``ours.csv``, its paired differences to the comparators of the papers' claims and to
temperature scaling into ``effects.csv``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.special import softmax

from book.kit.results.csv_rows import append, load, metric_rows, over_seeds, resample, select
from book.kit.results.evidence import comparator
from book.kit.results.paired_differences import COMPARED, append_effects, difference_rows, load_effects
from book.papers import PAPERS, owner
from calibkit._checks import expected
from calibkit.calibrators import CALIBRATORS, calibrator
from calibkit.fitting.base import Calibrator, Fitted
from calibkit.keys import Key
from calibkit.logits import Logits
from calibkit.metrics import REPORTED, ece, mean_iou
from calibkit.metrics.intervals import Resampled
from calibkit.networks import PUBLISHED, Network, load_logits, zoo
from calibkit.training.recipes import named_for, papers_of

#: What no paper prints and the chapters need: the control for class-wise loss scaling on long-tailed data, and what a
#: reader would ask for beside the papers' methods.
CONTROLS = (
    *(f"{name}:class_balanced" for name in ("temperature_scaling", "class_temperature_scaling", "ets", "pts")),
    *("structured_vector_scaling", "structured_matrix_scaling", "spline", "histogram_binning", "isotonic"),
    *("order_preserving", "gp_calibration", "prior_correction", "temperature_scaling grid=0.01:ece"),
)
#: Of these, what published networks get whatever loss trained them.
OF_PUBLISHED = ("order_preserving", "gp_calibration", "temperature_scaling grid=0.01:ece")


#: The messages of another data set by other words. No calibrators are compared on it: they would count twice.
SAME_AGAIN = "20newsgroups_2000"


def methods(loss: str = "cross_entropy", dataset: str = "") -> list[str]:
    """Every method that a paper prints for a network trained with ``loss`` and that works on logits alone, and the
    controls; ``identity`` and ``temperature_scaling`` first, and alone on ``SAME_AGAIN``.

    Example:
        >>> methods("acls"), methods("flsd")
        (['identity', 'temperature_scaling'], ['identity', 'temperature_scaling', 'temperature_scaling:ece'])
    """
    if dataset == SAME_AGAIN:
        return ["identity", "temperature_scaling"]
    printed = load("paper")
    keys = {*printed[printed["loss"] == loss]["method"]} - {"identity", "temperature_scaling"}
    known = [key for key in sorted(keys) if Key.parse(key).name in set(CALIBRATORS) - {"neural_clamping"}]
    return ["identity", "temperature_scaling", *known, *(CONTROLS if loss == "cross_entropy" else ())]


def replays(name: str) -> list[str]:
    """What is told apart on published logits: the methods that their paper prints as its authors ran them, more that
    its record names, and ``OF_PUBLISHED``.
    """
    paper = owner(name)
    printed = load("paper").query("paper == @paper")["method"].unique()
    told = [*PAPERS[paper].replays, *(key for of in printed if (key := PAPERS[paper].replay(of)) != of)]
    return [*told, *OF_PUBLISHED]


def cell(name: str, logits: Logits) -> dict[str, str]:
    """The columns that say which network a row is of, and whose recipe trained it at the budget "paper"."""
    if name in PUBLISHED:
        facts = dict(zip(("dataset", "model", "loss"), PUBLISHED[name], strict=True))
        return facts | {"budget": "paper", "source": "published-logits"}
    columns = ("dataset", "model", "loss", "budget")
    if missing := [column for column in columns if column not in logits.meta]:
        raise expected("logits", f"a file whose meta names {', '.join(columns)}", f"{name!r} without {missing[0]}")
    facts = {column: logits.meta[column] for column in columns}
    return facts | {"source": "ours", "paper": _paper(logits.meta)}


def _paper(meta: dict) -> str:
    """Whose recipe trained a network at the budget "paper", the first paper that has it; of one that does not say so,
    the only one there is.
    """
    if meta["budget"] != "paper":
        return meta.get("paper", "")
    if "paper" in meta:
        return named_for(meta["paper"], meta["dataset"], meta["model"])
    papers = papers_of(meta["dataset"])
    return papers[0] if len(papers) == 1 else ""


def trainings(name: str) -> list[Logits]:
    """The Logits called ``name`` and those of the same training from other seeds that lie beside them, by seed.

    A file that a training wrote, ``<name of the network>/logits.npz``, lies beside the folders of its other seeds, one
    of the zoo beside their files; ``budget`` and all else in :func:`cell` are the same.
    """
    asked = load_logits(name)
    path = Path(zoo().get(name, name))
    of_training = path.name == "logits.npz"
    text = "/".join(path.parent.parts[-2:] if of_training else path.with_suffix("").parts[-2:])
    try:
        network = Network.parse(text)
    except ValueError:
        return [asked]
    folder, files = (path.parents[1], "*/logits.npz") if of_training else (path.parent, "*.npz")
    of_seed = {network.seed: asked}
    for file in folder.glob(files):
        try:
            sibling = Network.parse(f"{network.dataset}/{file.parent.name if of_training else file.stem}")
        except ValueError:
            continue
        if sibling != network and replace(sibling, seed=network.seed) == network:
            of_seed[sibling.seed] = Logits.load(file)
    return [of_seed[seed] for seed in sorted(of_seed) if cell(name, of_seed[seed]) == cell(name, asked)]


def record(name: str, keys: Iterable[str] | None = None, *, again: bool = False) -> int:
    """Fit and measure method keys on one set of logits; returns how many rows of ``ours.csv`` are new or different.

    Where the same network was trained from several seeds, a row is their mean: see :func:`trainings`. The NLL is
    infinite where a calibrator gives a true class the probability 0; it then has no row. The differences of each method
    to its :func:`bases` are recorded with it.

    The name is one of the zoo, of the external logits, or a path; keys are by default :func:`methods` of its loss, and
    on external logits :func:`replays`. What both files have already, of as many seeds, is fitted only ``again``.
    ValueError tells of unknown logits, a file that does not say of what network, and seeds with other test samples.
    """
    networks = trainings(name)
    where = cell(name, networks[0])
    if not all(logits.test.is_of(networks[0].test) for logits in networks):
        raise expected("logits", "of the same test samples for every seed", repr(name))
    if keys is None:
        told = replays(name) if where["source"] == "published-logits" else []
        keys = methods(where["loss"], where["dataset"]) + told
    keys = list(dict.fromkeys(keys))
    done = set() if again else _done(where, len(networks), keys)

    @cache
    def of(key: str) -> tuple[list[dict], list[dict[str, Resampled]]]:
        fits = fit_each(key, networks)
        runs = resample_each(fits, networks)
        rows = metric_rows(runs, method=key, note=_fitted(fits[0], networks[0]), **where)
        return (_of_pixels(rows, networks) if "test_pixels" in networks[0].meta else rows), runs

    changed = 0
    for key in (key for key in keys if key not in done):
        rows, runs = of(key)
        changed += append(rows)
        pair = {**where, "method": key, "base_loss": where["loss"]}
        pairs = (paired(runs, of(base)[1], pair | {"base_method": base}) for base in bases(where["loss"], key))
        append_effects(row for rows in pairs for row in rows)
    return changed


def bases(loss: str, method: str) -> list[str]:
    """What a method is held against on the same network: the comparators of the papers' claims, the network as it is,
    temperature scaling; class-wise loss scaling also against its control, class balance alone, and another
    normalisation than the paper's against that.

    Example:
        >>> bases("cross_entropy", "class_temperature_scaling")
        ['identity', 'temperature_scaling', 'temperature_scaling:ece']
        >>> bases("cross_entropy", "ets:class_loss_scaling normalization=cm")[:3]
        ['ets', 'ets:class_balanced', 'ets:class_loss_scaling']
    """
    if "solver" in Key.parse(method).options:
        return []
    found, key = {"identity", "temperature_scaling"}, Key.parse(method)
    if key.objective is not None and key.objective.name == "class_loss_scaling":
        found.add(f"{key.name}:class_balanced")
        if "normalization" in key.objective.options:
            found.add(f"{key.name}:class_loss_scaling")
    for paper in PAPERS:
        named = comparator(paper, "", loss, method)
        if named is not None and named[0] == loss and Key.parse(named[1]).name != "neural_clamping":
            found.add(named[1])
    return sorted(found - {method})


def _done(where: dict[str, str], n_seeds: int, keys: Iterable[str]) -> set[str]:
    """The methods that both files have of so many seeds, with all their bases; the network as it is needs none."""
    found = []
    for rows in (load("ours"), load_effects().query("loss == base_loss")):
        rows = rows[rows["n_seeds"] >= n_seeds]
        found.append(select(rows, **{column: value for column, value in where.items() if column in rows}))
    in_ours, compared = found
    pairs = {*zip(compared["method"], compared["base_method"], strict=True)}
    known = {*in_ours["method"]}.intersection(keys)
    return {key for key in known if key == "identity" or pairs >= {(key, base) for base in bases(where["loss"], key)}}


def fit_each(key: str, networks: Iterable[Logits]) -> list[Fitted]:
    """A method fitted to each seed's network."""
    return [calibrator(key).fit(*logits.val) for logits in networks]


def resample_each(fits: Iterable[Fitted], networks: Sequence[Logits]) -> list[dict[str, Resampled]]:
    """The metrics of each with their resamples."""
    groups = networks[0].test_groups
    return [
        resample(fit(torch.from_numpy(logits.test_logits)), logits.test_labels, REPORTED, groups=groups)
        for fit, logits in zip(fits, networks, strict=True)
    ]


def paired(runs: list[dict], base: list[dict], pair: dict[str, str | int], spreads: dict | None = None) -> list[dict]:
    """Rows of ``effects.csv``: a method minus another, from the metrics of each seed of either; ``spreads`` and what
    ``pair`` says as in :func:`book.kit.results.paired_differences.difference_rows`.
    """
    metrics = [metric for metric in (*COMPARED, "miou") if metric in runs[0]]
    of_metric = [{metric: [run[metric] for run in side] for metric in metrics} for side in (runs, base)]
    return difference_rows(*of_metric, spreads, **pair)


def _of_pixels(rows: list[dict], networks: list[Logits]) -> list[dict]:
    """The rows of a dense prediction: those of the network itself are of all pixels, where these are known, with
    intervals as wide as those of the sample of pixels that the Logits hold.

    The other rows are of that sample; the notes say so.
    """
    method = rows[0]["method"]
    rows = {row["metric"]: row | {"note": f"{row['note']}; of a sample of pixels"} for row in rows}
    if method != "identity":
        return [*rows.values()]
    groups, own = networks[0].test_groups, {"miou": mean_iou}
    runs = [resample(softmax(of.test_logits, 1), of.test_labels, own, groups=groups)["miou"] for of in networks]
    miou = over_seeds([run.value for run in runs], [run.interval() for run in runs])
    rows["miou"] = rows["accuracy"] | miou | {"metric": "miou"}
    facts = [logits.meta["test_pixels"] for logits in networks]
    by_batch = np.mean([of["ece_by_batch"] for of in facts])
    note = f"{facts[0]['pixels']} pixels; mean of the ECE of batches {by_batch:.4f}"
    for metric in ("accuracy", "ece", "miou"):
        row, values = rows[metric], [of[metric] for of in facts]
        arms = row["low"] - row["value"], row["high"] - row["value"]
        rows[metric] = row | over_seeds(values, np.add.outer(values, arms)) | {"note": note}
    return [*rows.values()]


def _fitted(calibrator: Calibrator, logits: Logits) -> str:
    """What a row's note says of the first fit: its temperature, if it has a single one, and the ECE on what it saw."""
    temperature = getattr(calibrator, "temperature", None)
    seen = f"val ECE {100 * ece(calibrator(logits.val_logits), logits.val_labels):.2f}%"
    single = temperature is not None and not hasattr(calibrator, "temperatures")
    return f"T = {temperature:.4f}; {seen}" if single else seen
