"""From stored logits to numbers: fit calibrators on ``val``, measure them on ``test``, record them in ``ours.csv``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from calibkit._checks import check_choice, expected
from calibkit._keys import parse_key
from calibkit.calibrators import CALIBRATORS
from calibkit.calibrators._base import Calibrator
from calibkit.logits import Logits, external, find, load, zoo
from calibkit.metrics import ece
from calibkit.objectives import OBJECTIVES
from calibkit.results import append, measure
from calibkit.results import load as load_results
from calibkit.results.rows import over_seeds

#: What is recorded: all metrics but ``ace``, ``tace`` and ``smooth_ece``, whose bootstrap at 100 classes takes minutes
#: and which no paper prints.
METRICS = (
    *("accuracy", "nll", "brier", "entropy", "ece", "mce", "adaptive_ece", "classwise_ece", "ks_error"),
    "debiased_ece",
)

#: Other people's logits by name: what they are of.
EXTERNAL = {
    "sctl-cifar10-densenet40": ("cifar10", "densenet40"),
    "sctl-cifar10lt-densenet40": ("cifar10_lt", "densenet40"),
    "sctl-cifar10lt-resnet110": ("cifar10_lt", "resnet110"),
}


def calibrator(key: str) -> Calibrator:
    """The unfitted calibrator of a method key such as ``"cts accuracy_constraint=False"`` or ``"ets:cls"``.

    Raises:
        ValueError: no such calibrator or objective.

    Example:
        >>> calibrator("temperature_scaling:ece").options()["objective"]
        'ece'
    """
    name, options, objective, objective_options = parse_key(key)
    check_choice("key", name, CALIBRATORS)
    if objective is not None:
        check_choice("objective", objective, OBJECTIVES)
        options["objective"] = OBJECTIVES[objective](**objective_options) if objective_options else objective
    return CALIBRATORS[name](**options)


#: What no paper prints and the chapters need: the control for class-wise loss scaling on long-tailed data.
CONTROLS = tuple(f"{name}:class_balanced" for name in ("temperature_scaling", "cts", "ets", "pts"))


def methods(loss: str = "cross_entropy") -> list[str]:
    """Every method that a paper prints for a network trained with ``loss`` and that works on logits alone, and the
    controls; ``identity`` and ``temperature_scaling`` first.

    Example:
        >>> methods("acls"), methods("flsd")
        (['identity', 'temperature_scaling'], ['identity', 'temperature_scaling', 'temperature_scaling:ece'])
    """
    printed = load_results("paper")
    keys = {*printed[printed["loss"] == loss]["method"]} - {"identity", "temperature_scaling"}
    known = [key for key in sorted(keys) if parse_key(key)[0] in set(CALIBRATORS) - {"neural_clamping"}]
    return ["identity", "temperature_scaling", *known, *(CONTROLS if loss == "cross_entropy" else ())]


def replays() -> list[str]:
    """What is told apart on the class-loss paper's own logits: its optimiser, its focal loss and its equation (3)."""
    exact = [f"{name}:focal detach=True" for name in ("temperature_scaling", "cts", "ets")]
    exact += [f"{name}:cls variant=paper" for name in ("temperature_scaling", "cts")]
    printed = load_results("paper").query("paper == 'class_loss_scaling'")["method"].unique()
    names = ("temperature_scaling", "cts", "ets", "pts")
    return exact + [
        " ".join([name, "solver=sctl"]) + key[len(name) :]
        for key in sorted(printed)
        if (name := parse_key(key)[0]) in names
    ]


def cell(name: str, logits: Logits) -> dict[str, str]:
    """The columns that say which network a row is of."""
    if name in EXTERNAL:
        dataset, model = EXTERNAL[name]
        facts = {"dataset": dataset, "model": model, "loss": "cross_entropy"}
        return facts | {"budget": "paper", "source": "author-logits"}
    columns = ("dataset", "model", "loss", "budget")
    if missing := [column for column in columns if column not in logits.meta]:
        raise expected("logits", f"a file whose meta names {', '.join(columns)}", f"{name!r} without {missing[0]}")
    return {column: logits.meta[column] for column in columns} | {"source": "ours"}


def trainings(name: str) -> list[Logits]:
    """The Logits called ``name``, and those of the same training from other seeds that lie beside them.

    The seed is the end of the file's name, or of its folder's, as ``-s0``.
    """
    found, path = find(name), Path(zoo().get(name, name))
    run = path.parent if path.name == "logits.npz" else path
    match = re.fullmatch(r"(.+-s)\d+(\.npz)?", run.name)
    if match is None or name in external():
        return [found]
    like = re.compile(re.escape(match[1]) + r"\d+" + re.escape(match[2] or ""))
    beside = [other for other in sorted(run.parent.iterdir()) if other != run and like.fullmatch(other.name)]
    paths = [other if match[2] else other / "logits.npz" for other in beside]
    others = [load(other) for other in paths if other.exists()]
    return [found, *(other for other in others if cell(name, other) == cell(name, found))]


def record(name: str, keys: Iterable[str] | None = None, *, again: bool = False) -> int:
    """Fit and measure method keys on one set of logits; returns how many rows of ``ours.csv`` are new or different.

    Where the same network was trained from several seeds, a row is their mean: see :func:`trainings`.

    Args:
        name: of the zoo, of the external logits, or a path.
        keys: method keys; default: :func:`methods` of its loss, and on external logits :func:`replays`.
        again: also those that ``ours.csv`` has already, of as many seeds.

    Raises:
        ValueError: unknown logits, a file that does not say what network it is of, or seeds with other test groups.
    """
    networks = trainings(name)
    where, groups = cell(name, networks[0]), networks[0].test_groups
    if any(not np.array_equal(logits.test_groups, groups) for logits in networks):
        raise expected("logits", "of the same `test_groups` for every seed", repr(name))
    done = load_results("ours")
    done = done[done["n_seeds"] >= len(networks)]
    for column, value in where.items():
        done = done[done[column] == value]
    changed = 0
    if keys is None:
        keys = methods(where["loss"]) + (replays() if where["source"] == "author-logits" else [])
    for key in keys:
        if not again and key in set(done["method"]):
            continue
        fits = [calibrator(key).fit(*logits.val) for logits in networks]
        runs = [
            (fit(torch.from_numpy(logits.test_logits)), logits.test_labels)
            for fit, logits in zip(fits, networks, strict=True)
        ]
        note = _fitted(fits[0], networks[0])
        rows = measure(runs, metrics=METRICS, groups=groups, method=key, note=note, **where)
        if "test_pixels" in networks[0].meta:
            rows = _of_pixels(rows, [logits.meta["test_pixels"] for logits in networks])
        # The NLL is infinite where a calibrator gives a true class the probability 0: a CSV cell holds finite numbers.
        changed += append(row for row in rows if np.isfinite([row["value"], row["low"], row["high"]]).all())
    return changed


def _of_pixels(rows: list[dict], of_seeds: list[dict]) -> list[dict]:
    """The rows of a dense prediction: those of the network itself are of all pixels, where these are known.

    The other rows are of the sample of pixels that the Logits hold; the notes say so.
    """
    stamp, first = rows[0], of_seeds[0]
    if stamp["method"] == "identity":
        rows = [row for row in rows if row["metric"] not in first["intervals"]]
    rows = [row | {"note": f"{row['note']}; of a sample of pixels"} for row in rows]
    if stamp["method"] == "identity":
        by_batch = np.mean([facts["ece_by_batch"] for facts in of_seeds])
        note = f"{first['pixels']} pixels, interval over images; mean of the ECE of batches {by_batch:.4f}"
        for name in first["intervals"]:
            of_all = over_seeds([x[name] for x in of_seeds], [x["intervals"][name] for x in of_seeds])
            n_bins = 15 if name == "ece" else ""
            rows.append(stamp | of_all | {"metric": name, "n_bins": n_bins, "note": note})
    return rows


def _fitted(calibrator: Calibrator, logits: Logits) -> str:
    """What a row's note says of the first fit: its temperature, if it has one, and the ECE on the images it saw."""
    temperature = getattr(calibrator, "temperature", None)
    seen = f"val ECE {100 * ece(calibrator(logits.val_logits), logits.val_labels):.2f} %"
    return seen if temperature is None or np.ndim(temperature) else f"T = {temperature:.4f}; {seen}"


def record_all(*, again: bool = False) -> None:
    """:func:`record` every network of the zoo and every known external one; says what it did."""
    for name in [*zoo(), *(name for name in external() if name in EXTERNAL)]:
        print(f"{name}: {record(name, again=again)} rows are new", flush=True)


def ensure_logits(name: str, *, budget: str = "smoke", device: str = "auto") -> Logits:
    """The Logits called ``name``; at a budget above "smoke", train the network first where they are absent.

    Args:
        name: of the zoo (``"<dataset>/<model>-<loss>-s<seed>"``), of the external logits, or a path.
        budget: "smoke" only reads; "reduced" and "paper" train what is absent, into ``runs/<budget>`` of this checkout.
            What is there is taken, of whatever budget; its ``meta`` says which.
        device: of that training.

    Raises:
        ValueError: unknown logits at the smoke budget, or a name that no training can give.
    """
    if budget == "smoke" or name.endswith(".npz") or name in {**zoo(), **external()}:
        return find(name)
    from calibkit.__main__ import main

    match = re.fullmatch(r"(\w+)/(\w+)-([\w,=.-]+)-s(\d+)", name)
    if match is None:
        raise expected("logits", "<dataset>/<model>-<loss>-s<seed>", repr(name))
    dataset, model, loss, seed = match.groups()
    folder = Path(__file__).resolve().parents[1] / "runs" / budget / name
    facts = ["--dataset", dataset, "--model", model, "--loss", loss, "--seed", seed, "--budget", budget]
    if main(["train", *facts, "--device", device, "--out", str(folder)]):
        raise expected("logits", "a network that can be trained", repr(name))
    return load(folder / "logits.npz")
