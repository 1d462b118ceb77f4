"""Printed numbers as questions, what they are held against, and the measurements that answer them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from book.kit.results.csv_rows import CELL
from book.kit.results.difference_intervals import chance_of, interval_of
from book.kit.results.verdict_rule import ALPHA, TOLERANCE, Effect
from book.papers import PAPERS, owner
from calibkit.calibrators import CALIBRATORS
from calibkit.keys import Key
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import holm
from calibkit.metrics.registry import BINNED
from calibkit.networks import PUBLISHED
from calibkit.training.recipes import named_for

SCALE = {"percent": 100.0, "fraction": 1.0, "nats": 1.0}
#: Calibrators whose output keeps the predicted class, and so the accuracy: a printed accuracy is no evidence for them.
KEEP_THE_PREDICTION = frozenset(name for name, cls in CALIBRATORS.items() if cls.keeps_predictions)


def comparator(paper: str, table: str, loss: str, method: str) -> tuple[str, str] | None:
    """Loss and method of the comparator; None for a number that no claim is about, as those of cross-entropy.

    A claim says that one method is better than another: class temperatures than one temperature, a weighted loss than
    the plain one, a margin than label smoothing. The verdict on a printed number asks for that difference, not for the
    one to an uncalibrated network, which temperature scaling alone would earn. Each paper's record in
    :mod:`book.papers` names them; a calibrator without a claim is held against the network as it is.

    Example:
        >>> comparator("class_temperature_scaling", "I", "brier", "class_temperature_scaling")
        ('brier', 'temperature_scaling:ece')
        >>> comparator("mbls", "1", "mbls", "identity")
        ('label_smoothing', 'identity')
        >>> comparator("class_loss_scaling", "2", "cross_entropy", "ets:class_loss_scaling")
        ('cross_entropy', 'ets')
        >>> comparator("class_temperature_scaling", "I", "brier", "identity") is None
        True
    """
    of = PAPERS[paper]
    if method != "identity":
        return loss, of.method_base(table, Key.parse(method))
    return None if of.loss_base is None or loss == "cross_entropy" else (of.loss_base(loss), "identity")


def cell_of(row) -> tuple:
    """The values that make a cell, of a row of either file."""
    return tuple(getattr(row, name) for name in CELL)


class Question:
    """A printed number with what it is held against."""

    def __init__(self, row, base: tuple | None, p_base: float | None, network: str | None) -> None:
        self.row, self.cell, self.base, self.network = row, cell_of(row), base, network
        self.scale = SCALE[row.unit]
        self.effect = None if p_base is None else (row.value - p_base) / self.scale
        method = Key.parse(row.method).name
        fixed = row.metric in ("accuracy", "miou") and row.method != "identity" and method in KEEP_THE_PREDICTION
        same_network = row.method == "identity" and base is None
        self.kind = "fixed" if fixed else "network" if same_network else "result"
        unit = 10.0 ** -len(row.printed.partition(".")[2]) / self.scale
        self.has_direction = (
            self.effect is not None and not fixed and abs(self.effect) > max(TOLERANCE, 0.999 * unit) + 1e-9
        )

    @classmethod
    def of(cls, row, stand_in: Mapping[str, str], printed: Mapping, anywhere: Mapping) -> Question:
        """Of a row of the paper; ``printed`` by table and cell, ``anywhere`` by cell."""
        network = stand_in.get(f"{row.dataset}/{row.model}", stand_in.get(row.model))
        if row.metric == "accuracy_drop":
            return cls(row, (row.loss, "identity"), 0.0, network)
        base = comparator(row.paper, row.table, row.loss, row.method)
        if base is None:
            return cls(row, None, None, network)
        cell = (row.dataset, row.model, *base, row.metric, row.n_bins)
        return cls(row, base, printed.get((row.table, *cell), anywhere.get(cell)), network)

    def key(self, metric: str, stand_in: bool = False) -> tuple:
        """Of the difference in ``effects.csv``."""
        dataset, model, loss, method, _, n_bins = self.cell
        if stand_in:
            of_data, _, model = self.network.rpartition("/")
            dataset = of_data or dataset
        return (dataset, model, loss, method, *self.base, metric, n_bins if metric in BINNED else "")

    @property
    def metric(self) -> str:
        """Whose difference is looked up."""
        return "accuracy" if self.row.metric == "accuracy_drop" else self.row.metric


class Measured:
    """Our strongest row for each cell, and our strongest difference for each pair."""

    def __init__(self, paper: str, ours: pd.DataFrame, effects: pd.DataFrame) -> None:
        followed = [
            whose in ("", paper) or named_for(whose, data, model) == named_for(paper, data, model)
            for whose, data, model in zip(ours["paper"], ours["dataset"], ours["model"], strict=True)
        ]
        # As objects: strings of Arrow are slow to iterate.
        fits = _of_the_paper(paper, ours[pd.Series(followed, ours.index, bool)]).astype(object)
        effects = _of_the_paper(paper, effects).astype(object)
        rows = sorted(fits.itertuples(), key=lambda row: (row.paper == "", *_rank(row)), reverse=True)
        self.rows = {cell_of(row): row for row in rows}
        names = ("dataset", "model", "loss", "method", "base_loss", "base_method", "metric", "n_bins")
        pairs = sorted(effects.itertuples(), key=_rank, reverse=True)
        self.effects = {tuple(getattr(row, name) for name in names): row for row in pairs}
        self.adjusted: dict[tuple, float] = {}  # of the tests that :meth:`correct` was asked for

    def correct(self, questions: list[Question]) -> None:
        """Holm's correction, for each of these alone: all differences of the paper to a comparator that a claim names;
        those to the network as it is or to cross-entropy; and both of stand-ins.
        """
        families: dict[tuple, set[tuple]] = {}
        for question in questions:
            if not question.has_direction:
                continue
            claim = question.base[1] != "identity" or question.base[0] not in (question.row.loss, "cross_entropy")
            for stand_in in (False, True) if question.network else (False,):
                key = question.key(question.metric, stand_in)
                if key in self.effects:
                    families.setdefault((claim, stand_in), set()).add(key)
        for family in families.values():
            for key, chance in holm({key: chance_of(self.effects[key]) for key in family}).items():
                self.adjusted[key] = max(chance, self.adjusted.get(key, 0.0))

    def effect(self, question: Question, stand_in: bool = False) -> Effect | None:
        """The difference that answers a question; None where there is none."""
        if question.base is None or (stand_in and not question.network):
            return None
        key = question.key(question.metric, stand_in)
        row = self.effects.get(key)
        if row is None:
            return None
        turn = -1 if question.row.metric == "accuracy_drop" else 1
        value, low, high = interval_of(row)
        ends = sorted((turn * low, turn * high))
        sign = _side(row, self.adjusted.get(key, 1.0))
        nll = self._nll(question.key("nll", stand_in)) if question.row.metric in BINNED else 0
        return Effect(Estimate(turn * value, *ends), turn * sign, nll)

    def _nll(self, key: tuple) -> int:
        """The side of a difference in NLL; of one that has no row, that of one infinite NLL, which has none either."""
        row = self.effects.get(key)
        if row is not None:
            return _side(row, chance_of(row))
        *network, loss, method, base_loss, base_method, metric, n_bins = key
        cells = [(*network, *of) for of in ((loss, method), (base_loss, base_method))]
        if not all((*cell, "ece", "15") in self.rows for cell in cells):
            return 0
        infinite, base = ((*cell, metric, n_bins) not in self.rows for cell in cells)
        return infinite - base


def _side(row, chance: float) -> int:
    """On which side of 0 a difference lies, where that is beyond chance."""
    return int(math.copysign(1, row.value)) if chance <= ALPHA and row.value else 0


def _of_the_paper(paper: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Without what was measured on the published logits of other papers: theirs are other networks of one name."""
    own = {network for name, network in PUBLISHED.items() if owner(name) == paper}
    foreign = {*PUBLISHED.values()} - own
    networks = pd.Series([*zip(rows["dataset"], rows["model"], rows["loss"], strict=True)], rows.index, dtype=object)
    return rows[(rows["source"] != "published-logits") | ~networks.isin(foreign)]


def _rank(row) -> tuple:
    """Published logits, then the paper's budget, come first."""
    return row.source != "published-logits", row.budget != "paper"
