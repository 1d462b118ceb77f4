"""Rows of ``refits.csv``: how far a difference moves when the calibrators are fitted to other validation samples.

An interval over test samples speaks of one fit. A method fitted to other validation samples of the same number gives
another difference; by how much, refits on samples drawn with replacement tell. Both calibrators of a pair, and all
trainings of a network, see the same drawn samples. Columns:

=====================  ================================================================================================
dataset ... n_bins     a row of ``effects.csv``, of one loss: see :mod:`book.kit.results.paired_differences`
budget, source         as there
fit_error              standard deviation of the difference over ``FITS`` refits
=====================  ================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from book.kit.results.claims import load_claims
from book.kit.results.csv_rows import of_metric, put, select, text_of
from book.kit.results.difference_intervals import FITS
from book.kit.results.paired_differences import REFIT_KEY, load_effects, load_refits
from book.kit.results.record import cell, trainings
from book.kit.results.record_losses import TS, stored_networks
from calibkit.calibrators import calibrator
from calibkit.logits import HeldOut, Logits
from calibkit.metrics import evaluate
from calibkit.networks import load_logits

COLUMNS = (*REFIT_KEY, "fit_error")
SLOW = ("neural_clamping", "pts")
#: What no claim is about and the book recommends or warns of.
BESIDE = ("order_preserving", "gp_calibration", "prior_correction", "class_temperature_scaling:class_balanced")
METRICS = ("accuracy", "nll", "brier", "ece", "adaptive_ece", "classwise_ece")


def wanted() -> set[tuple[str, str]]:
    """The pairs of calibrators that a claim of the ledger compares, and each of their methods and of ``BESIDE`` against
    one temperature. Neural Clamping is fitted to images, PTS in minutes: they are not fitted again.
    """
    claims = load_claims()
    rows = claims[(claims["method"] != "") & (claims["loss"] == claims["base_loss"])]
    pairs = {*zip(rows["method"], rows["base_method"], strict=True)}
    pairs |= {(method, TS) for method in {method for method, _ in pairs} | {*BESIDE}}
    return {(method, base) for method, base in pairs if method != TS and not method.startswith(SLOW)}


def refit_all() -> None:
    """:func:`refit` the pairs of :func:`wanted` that ``effects.csv`` has, on every network; says what it did."""
    effects, of_claims = load_effects().query("loss == base_loss"), wanted()
    for name in stored_networks():
        where = cell(name, load_logits(name))
        here = select(effects, **{key: value for key, value in where.items() if key in REFIT_KEY})
        pairs = of_claims & {*zip(here["method"], here["base_method"], strict=True)}
        print(f"{name}: {refit(name, pairs)} rows are new", flush=True)


def refit(name: str, pairs: Collection[tuple[str, str]]) -> int:
    """Measure the differences of a network's pairs, (method, base method), that ``refits.csv`` lacks; returns how many
    rows are new.
    """
    networks = trainings(name)
    where = {key: value for key, value in cell(name, networks[0]).items() if key in REFIT_KEY}
    here = select(load_refits(), **where)
    known = {*zip(here["method"], here["base_method"], strict=True)}
    wanted = sorted({*pairs} - known)
    if not wanted:
        return 0
    keys = sorted({key for pair in wanted for key in pair})
    rng = np.random.default_rng(0)
    draws = [_drawn(networks[0].val, rng) for _ in range(FITS)]
    measured = {key: np.array([_mean(key, networks, rows) for rows in draws]) for key in keys}
    rows = []
    for method, base in wanted:
        errors = np.std(measured[method] - measured[base], axis=0, ddof=1)
        for metric, error in zip(METRICS, errors, strict=True):
            if np.isfinite(error):
                pair = {"method": method, "base_method": base, "fit_error": float(error)}
                rows.append(where | of_metric(metric, 15) | pair)
    new = pd.DataFrame([{name: text_of(row[name]) for name in COLUMNS} for row in rows], columns=list(COLUMNS))
    return put("refits.csv", load_refits, new, list(REFIT_KEY), [])


def _drawn(val: HeldOut, rng: np.random.Generator) -> np.ndarray:
    """Rows of validation samples drawn with replacement; those of one group together."""
    if val.groups is None:
        return rng.integers(0, len(val.labels), len(val.labels))
    of_group = [np.flatnonzero(val.groups == group) for group in np.unique(val.groups)]
    return np.concatenate([of_group[i] for i in rng.integers(0, len(of_group), len(of_group))])


def _mean(key: str, networks: list[Logits], rows: np.ndarray) -> list[float]:
    """The metrics on the test samples, mean over trainings, of a method fitted to some validation samples."""
    values = []
    for logits in networks:
        fit = calibrator(key).fit(logits.val_logits[rows], logits.val_labels[rows])
        values.append([*evaluate(fit(logits.test_logits), logits.test_labels, METRICS).values()])
    return np.mean(values, axis=0).tolist()
