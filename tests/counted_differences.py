"""The recorded differences as the pages count them: by method, by network, by kind of network."""

from functools import cache

import pandas as pd

from book.kit.notebook.over_networks import MAIN_LOSSES, beyond_chance, select, stratum
from book.kit.results.difference_intervals import chance_of, over_networks
from book.kit.results.paired_differences import load_effects
from calibkit.metrics.comparison import Estimate

TS, TS_ECE, CTS = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling"
CLS = f"{TS}:class_loss_scaling"
PUBLISHED, OURS, TAIL = "published, balanced", "ours, balanced", "published, long-tailed"


@cache
def effects() -> pd.DataFrame:
    found = load_effects().query(f"source != 'public' and {MAIN_LOSSES}")
    return found.assign(chance=[chance_of(row) for row in found.itertuples()])


@cache
def against(base: str, method: str, metrics: tuple[str, ...] = ("ece", "nll")) -> pd.DataFrame:
    """A calibrator against another on every network, with a word for each test: one family, as in the comparison."""
    rows = select(effects(), base, method=method)
    rows = rows[rows["metric"].isin(metrics)]
    return rows.assign(word=beyond_chance(rows))


def alone(rows: pd.DataFrame) -> pd.Series:
    """Whether each difference, taken by itself, is below 0 beyond chance."""
    return pd.Series([over_networks(rows.loc[[i]]).below() for i in rows.index], rows.index)


def words(base: str, base_loss: str | None = None, **where: str) -> pd.Series:
    """:func:`alone` of the differences to a calibrator, or to what a loss trained, by ``dataset/model``."""
    rows = select(load_effects(), base, base_loss, **where)
    return alone(rows).set_axis(rows["dataset"] + "/" + rows["model"])


def whole_networks(*methods: str) -> set[str]:
    """Those on which all of the methods are measured."""
    of = select(effects(), TS, metric="ece")
    return {name for name, rows in of.groupby("network") if {*methods} <= {*rows["method"]}}


@cache
def strata(method: str, metric: str) -> dict[str, pd.DataFrame]:
    rows = select(effects(), TS, method=method, metric=metric)
    return dict([*rows.groupby(stratum(rows))])


def left_out(rows: pd.DataFrame) -> list[Estimate]:
    """The mean over the networks, and those that leave one of them out."""
    return [over_networks(rows), *(over_networks(rows.drop(i)) for i in rows.index)]


def less_one(method: str, kind: str, metric: str) -> list[Estimate]:
    return left_out(strata(method, metric)[kind])


def of_losses(loss: str, base: str, metric: str = "ece", scaled: str = "identity") -> pd.DataFrame:
    """The recorded differences of uncalibrated networks for balanced data, trained here with two losses, the second
    with a calibrator.
    """
    rows = select(load_effects(), scaled, base, loss=loss, method="identity", metric=metric)
    return rows[stratum(rows) == OURS]
