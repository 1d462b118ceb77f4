"""A verdict on a training loss: trained by a short recipe, beside stored trainings of other losses by the same one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from book.kit.judging.loss_verdict import BASE, WAYS, Claim, Difference, Runs, differences, verdict
from book.kit.judging.verdict import save
from book.kit.judging.workers import Progress, limits, run
from calibkit import __version__, _folders
from calibkit._checks import check_choice, check_int, check_texts, expected
from calibkit._files import as_path
from calibkit.calibrators import CALIBRATORS, calibrator
from calibkit.data import load_split
from calibkit.keys import Key, check_options, checksum, find
from calibkit.logits import Logits
from calibkit.losses import LOSSES
from calibkit.metrics import nll
from calibkit.metrics.comparison import Comparison
from calibkit.networks import Network
from calibkit.reporting.summary import plain
from calibkit.reporting.trial import METRICS
from calibkit.training.recipes import as_stored, recipe_of


class Course(NamedTuple):
    """What a loss is trained on, by the recipe "reduced" of the data set."""

    model: str
    seeds: int  # trainings, unless told
    timeout: float  # seconds that one may take, unless told


COURSES = {"digits": Course("small_cnn", 5, 600.0), "cifar10": Course("resnet20", 1, 86400.0)}


def stored(data: str) -> dict[str, list[Logits]]:
    """The trainings of the book by the recipe "reduced" of a data set: key of the loss -> its seeds."""
    found: dict[str, list[Logits]] = {}
    for folder in ("losses", "logits"):
        for path in sorted((_folders.stored() / folder / data).glob(f"{COURSES[data].model}-*.npz")):
            logits = Logits.load(path)
            loss, of = logits.meta["loss"], logits.meta["recipe"]
            if logits.meta["budget"] == "reduced" and as_stored(of) == as_stored(recipe_of(data, "reduced", loss)):
                found.setdefault(str(Key.parse(loss)), []).append(logits)
    return found


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    network: str  # its name, as that of the folder of its files
    key: str  # of the loss, with its options
    seed: int
    error: str = ""  # why there are no logits; "" where there are
    seconds: float = 0.0  # of this call: of a training that was there from before, those of reading it
    val_nll: float | None = None  # as trained, on the validation samples: a setting of a grid is chosen by it


@dataclass(frozen=True)
class LossJudgement:
    """What :func:`judge_loss` found.

    Attributes:
        key: of the loss, with the options that were chosen.
        rows: what came of each training; none where the stored ones of the loss were taken.
        less: what is subtracted -> one of ``WAYS`` -> metric -> the difference.
        values: one of "identity" and "temperature_scaling" -> metric -> value of each seed.
        claims: what was claimed.
        made: by what: data, network, recipe, grid, seeds, samples, version, commit, checksum of the file, resamples.
    """

    key: str
    rows: tuple[Trained, ...]
    less: dict[str, dict[str, dict[str, Difference]]]
    values: dict[str, dict[str, list[float]]]
    claims: tuple[Claim, ...]
    made: dict[str, Any]

    @property
    def judged(self) -> bool:
        """Whether there are numbers."""
        return bool(self.less)

    @property
    def verdict(self) -> str:
        """In words."""
        failed = [row for row in self.rows if row.error]
        if not self.judged:
            return f"Not judged: every training failed. {failed[0].error}"
        lost = f" {len(failed)} of {len(self.rows)} trainings failed, which no number here counts." if failed else ""
        trainings = "1 training" if self.made["seeds"] == 1 else f"{self.made['seeds']} trainings"
        return verdict(self.less, f"{trainings} on {self.made['samples']:,} test samples of {self.made['data']}") + lost

    def answers(self) -> dict[str, tuple[str, Difference]]:
        """Each claim: "holds", "does not hold" or "not decided", and the difference that says so."""
        found = {claim: self.less[claim.base][claim.way][claim.metric] for claim in self.claims if self.judged}
        return {str(claim): (claim.answer(of), of) for claim, of in found.items()}

    def facts(self) -> dict:
        """All of it as what JSON can hold; fractions and nats."""
        differences = {
            base: {way: {metric: of.facts() for metric, of in by.items()} for way, by in ways.items()}
            for base, ways in self.less.items()
        }
        claims = {text: {"answer": said, **of.facts()} for text, (said, of) in self.answers().items()}
        found = {"verdict": self.verdict, "key": self.key, "made": self.made, "claims": claims}
        rows = [asdict(row) for row in self.rows]
        return plain({**found, "differences": differences, "values": self.values, "rows": rows})

    def html(self) -> str:
        """One page that needs no other file; its pictures need the extra "plots"."""
        from book.kit.judging.html import loss_page

        return loss_page(self)

    def save(self, folder: str | os.PathLike) -> tuple[Path, ...]:
        """Write judge.html and judge.json into a folder; returns their paths."""
        return save(folder, self.html(), self.facts())


def names_a_loss(key: str) -> bool:
    """Whether a key names a loss: one of ``LOSSES``, or a module of torch of one's own that does not ``fit``.

    Example:
        >>> names_a_loss("mbls margin=8"), names_a_loss("ets:focal")
        (True, False)
    """
    name = Key.parse(key).name
    try:
        cls = None if name in CALIBRATORS else find(name, LOSSES, "loss")
    except ValueError:
        return False
    return isinstance(cls, type) and issubclass(cls, nn.Module) and not hasattr(cls, "fit")


def _is_plain(x: object) -> bool:
    """Whether a key and JSON can hold it: a number, text, or lists of them."""
    return all(map(_is_plain, x)) if isinstance(x, list | tuple) else isinstance(x, str | int | float | None)


def train_one(network: str, key: str, data: str, seed: int, folder: str) -> Trained:
    """Train a loss, or go on with it, or read what is finished; raises whatever the loss raises."""
    start = time.monotonic()
    logits = Network(data, COURSES[data].model, key, seed).train("reduced", folder=Path(folder))
    seconds = time.monotonic() - start
    return Trained(network, key, seed, "", seconds, float(nll(logits.val.probs, logits.val_labels)))


def judge_loss(
    key: str,
    data: str = "digits",
    *,
    folder: str | os.PathLike,
    seeds: int | None = None,
    grid: Mapping[str, Sequence[object]] | None = None,
    claims: Iterable[str] = (),
    timeout: float | None = None,
    n_resamples: int = 1000,
    jobs: int | None = None,
    progress: bool = False,
) -> LossJudgement:
    """Train a loss by the recipe "reduced", compare it with the stored losses, before and after one temperature.

    Each training is a process of its own; what crashes, is not finite any more or takes too long costs that training.

    Args:
        key: of a loss: ``"mine.py:Mine"``, whose file is executed, or any other. One that is stored, and of which
            neither seeds nor a grid is asked for, is not trained again.
        data: one of ``COURSES``.
        folder: of the trainings, which go on there after a stop; a file that has changed is trained anew.
        seeds: trainings; default: 5 on digits, 1 on cifar10.
        grid: option -> its values, a list of numbers, text or lists of them. Each setting is trained from seed 0, and
            that with the lowest validation NLL as trained from all seeds.
        claims: such as "lower ece than cross_entropy".
        timeout: seconds for a training; default: ten minutes on digits, a day on cifar10.
        n_resamples: of the intervals.
        jobs: trainings at a time; default: the number of cores.
        progress: whether to write a line a training to the standard error.

    Raises:
        ValueError: no such loss or data, a claim that is none, options that the loss does not have.
        FileNotFoundError: the data set is not there; the message says how to get it.
    """
    course, folder = COURSES[check_choice("data", data, COURSES)], as_path(folder, "folder")
    seconds, n_jobs = limits(course.timeout if timeout is None else timeout, jobs, n_resamples, progress)
    parsed = Key.parse(key)
    if not names_a_loss(key) or parsed.objective is not None:
        raise expected("key", "of a loss, a subclass of torch.nn.Module, without an objective", repr(key))
    if not isinstance(grid, Mapping | None) or not all(
        isinstance(of, list | tuple) and of and _is_plain(of) for of in (grid or {}).values()
    ):
        raise expected("grid", "a list of one value or more for each option", grid)
    grid = dict(grid or {})
    others = stored(data)
    if BASE not in others:
        raise expected("data", "one with the stored trainings of the book, in its checkout: work there", repr(data))
    of_claims = tuple(Claim.parse(claim, others) for claim in check_texts("claims", claims))
    check_options(find(parsed.name, LOSSES, "loss"), "loss", {**parsed.options, **grid})
    made: dict[str, Any] = {
        "data": data, "model": course.model, "recipe": as_stored(recipe_of(data, "reduced", parsed.name)),
        "grid": grid, "n_resamples": n_resamples, "calibkit": __version__, "commit": _folders.commit(),
        "file": checksum(parsed.name),
    }  # fmt: skip
    if str(parsed) in others and seeds is None and not grid:
        return _judgement(str(parsed), (), others[str(parsed)], others, of_claims, made)
    load_split(data, "val")  # or it says what is missing
    n_seeds = check_int("seeds", course.seeds if seeds is None else seeds, 1, 100)

    def train(settings: Iterable[tuple[str, int]]) -> list[Trained]:
        names = {str(Network(data, course.model, of, seed)): (of, seed) for of, seed in settings}
        asked = [
            {"network": name, "key": of, "data": data, "seed": seed, "folder": str(folder / "runs" / name)}
            for name, (of, seed) in names.items()
        ]
        so_far, found = Progress(len(asked), 0, "train", progress), {}
        for facts in run(asked, n_jobs, seconds, "book.kit.judging.losses:train_one"):
            of, seed = names[facts["network"]]
            row = found[facts["network"]] = Trained(**{"key": of, "seed": seed} | facts)
            so_far.done(row.network, row.error or f"validation NLL {row.val_nll:.4f}")
        return [found[name] for name in names]

    settings = (dict(zip(grid, of, strict=True)) for of in product(*grid.values()))
    keys = [str(Key(parsed.name, {**parsed.options, **setting})) for setting in settings]
    rows = train((of, 0) for of in keys)
    val_nll = {row.key: row.val_nll for row in rows if row.val_nll is not None}
    best = min(val_nll, key=val_nll.__getitem__, default=keys[0])
    rows += train((best, seed) for seed in range(1, n_seeds))
    paths = [folder / "runs" / row.network / "logits.npz" for row in rows if row.key == best and not row.error]
    return _judgement(best, tuple(rows), [Logits.load(path) for path in paths], others, of_claims, made)


def _judgement(
    key: str,
    rows: tuple[Trained, ...],
    own: list[Logits],
    others: Mapping[str, list[Logits]],
    claims: tuple[Claim, ...],
    made: dict[str, Any],
) -> LossJudgement:
    """Every training measured on common resamples, then compared."""
    test = others[BASE][0].test
    made |= {"seeds": len(own), "samples": len(test.labels)}
    if not own:
        return LossJudgement(key, rows, {}, {}, claims, made)
    methods = dict.fromkeys(method for pair in WAYS.values() for method in pair)
    measured: dict[str, Runs] = {}
    for loss, trainings in {**others, key: own}.items():
        comparison = Comparison(test.labels, METRICS, groups=test.groups, n_resamples=made["n_resamples"])
        for method in methods:
            for i, logits in enumerate(trainings):
                comparison.add(f"{method} {i}", calibrator(method).fit(*logits.val)(logits.test_logits))
        each = range(len(trainings))
        measured[loss] = {method: [comparison.measured[f"{method} {i}"] for i in each] for method in methods}
    usual = [loss for loss in others if loss == BASE or (loss != key and not Key.parse(loss).options)]
    less = differences(measured, key, dict.fromkeys((*usual, *(claim.base for claim in claims))))
    own_runs = measured[key].items()
    values = {method: {metric: [one[metric].value for one in of] for metric in METRICS} for method, of in own_runs}
    return LossJudgement(key, rows, less, values, claims, made)
