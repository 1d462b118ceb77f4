"""Methods on stored or published networks, side by side: which networks a chapter looks at, and what they measure."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from book.kit.results.csv_rows import select
from calibkit._checks import expected
from calibkit.calibrators import CALIBRATORS, calibrator
from calibkit.fitting.base import Fitted
from calibkit.keys import Key
from calibkit.logits import Logits
from calibkit.losses import LOSSES
from calibkit.metrics.comparison import Comparison, Estimate
from calibkit.networks import Network, load_logits


# ------------------------------------------------------------------------------------------------------ networks
def logits_of(
    name: str,
    *,
    budget: str = "smoke",
    device: str = "auto",
    paper: str | None = None,
    n_classes: int = 0,
    at_least: int = 0,
    named: str = "logits",
) -> Logits:
    """What a chapter's parameter, ``named``, names: a network, published logits, or a path to an npz.

    A network that is not stored at the budget is trained first on the device, at "paper" by the recipe of ``paper``.
    ValueError tells of none of the three, and of a file that is not there or holds no logits; at "smoke", of a network
    that is not stored; of other than ``n_classes``, where these are not 0; and of fewer than ``at_least`` samples in
    both splits.

    Example:
        >>> logits_of("cifar10/resnet20-cross_entropy-s0").n_classes
        10
    """
    try:
        network = Network.parse(name)
    except ValueError:
        try:
            found = load_logits(name, named)
        except FileNotFoundError:
            raise expected(named, "a file that is there", repr(name)) from None
        except ValueError as error:
            if f"`{named}`" in str(error):
                raise
            raise ValueError(f"{error} (`{named}` is {name!r})") from error
    else:
        if budget == "smoke" and network.find() is None:
            want = "one of those that `calibkit networks` lists, or trained at a higher budget"
            raise expected(named, want, repr(name))
        found = network.logits(budget, device=device, paper=paper if budget == "paper" else None)
    if n_classes not in (0, found.n_classes):
        raise expected(named, f"of {n_classes} classes", f"{found.n_classes} in {name!r}")
    if (n := len(found.val.labels) + len(found.test.labels)) < at_least:
        raise expected(named, f"of {at_least:,} samples or more", f"{n:,} in {name!r}")
    return found


def by_loss(
    cell: str,
    losses: Iterable[str],
    *,
    seed: int = 0,
    budget: str = "smoke",
    device: str = "auto",
    paper: str | None = None,
    needed: Iterable[str] = (),
    named: str = "cell",
) -> dict[str, Logits]:
    """The networks of one ``"<dataset>/<model>"`` by their training loss, in the order of these keys.

    At the budget "smoke" those that are stored; at a higher one all of them, the missing ones trained now, at "paper"
    by the recipe of ``paper``, all alike; default: that of each loss. ValueError tells, of the parameter ``named``, of
    another cell, and of a ``needed`` loss that is not stored.

    Example:
        >>> list(by_loss("cifar10/resnet20", ["mbls", "mbls margin=77"]))
        ['mbls']
    """
    if cell.count("/") != 1:
        raise expected(named, "<dataset>/<model>", repr(cell))
    networks = {loss: Network.parse(f"{cell}-{loss.replace(' ', ',')}-s{seed}") for loss in losses}
    how = {"device": device, "paper": paper if budget == "paper" else None}
    there = {loss: network for loss, network in networks.items() if budget != "smoke" or network.find() is not None}
    if absent := [loss for loss in needed if loss not in there]:
        raise expected(named, f"of networks stored for {cell} with seed {seed}", f"none for {', '.join(absent)}")
    return {loss: network.logits(budget, **how) for loss, network in there.items()}


def by_margin(cell: str, loss: str, margins: Iterable[float], **training: object) -> dict[float, Logits]:
    """The networks of one ``"<dataset>/<model>"`` by the margin, in logit units, of their training loss.

    The one that goes by the plain key of the loss is among them, if its margin is. ``training`` is as in
    :func:`by_loss`: seed, budget, device and paper.

    Example:
        >>> list(by_margin("cifar10/resnet20", "mbls", [2.0, 6.0, 77.0]))
        [2.0, 6.0]
    """
    plain = by_loss(cell, [loss], **training)
    own = plain[loss].meta["loss_options"].get("margin", LOSSES[loss]().margin) if plain else None
    keys = {margin: loss if margin == own else f"{loss} margin={margin:g}" for margin in margins}
    found = plain | by_loss(cell, [key for key in keys.values() if key != loss], **training)
    return {margin: found[key] for margin, key in keys.items() if key in found}


# --------------------------------------------------------------------------------------------------- comparisons
def side_by_side(
    networks: Mapping[str, Logits],
    methods: Mapping[str, str],
    metrics: Iterable[str] = ("accuracy", "ece"),
    **options: int,
) -> tuple[Comparison, dict[str, Fitted]]:
    """Every method on every network of one test set, on common resamples, and the fitted calibrators.

    Both go by the name of the network with that of the method behind it. ``methods`` are by such an ending the keys of
    calibrators, as ``{"": "identity", " + TS": "ets"}``; ``metrics`` and ``options`` are those of :class:`Comparison`.
    ValueError tells of no networks, or of several test sets.

    Example:
        >>> networks = by_loss("cifar10/resnet20", ["cross_entropy", "mbls"])
        >>> both, fits = side_by_side(networks, {"": "identity", " + TS": "temperature_scaling"}, ["ece"])
        >>> list(both)
        ['cross_entropy', 'cross_entropy + TS', 'mbls', 'mbls + TS']
        >>> both.difference("mbls", "cross_entropy").below(), round(fits["mbls + TS"].temperature, 1)
        ('holds', 0.9)
    """
    if not networks:
        raise expected("networks", "at least one", "none")
    test = next(iter(networks.values())).test
    comparison, fits = Comparison(test.labels, metrics, groups=test.groups, **options), {}
    for network, data in networks.items():
        if not data.test.is_of(test):
            raise expected("networks", "of one test set", f"another one for {network!r}")
        for suffix, key in methods.items():
            fits[network + suffix] = calibrator(key).fit(*data.val)
            comparison.add(network + suffix, fits[network + suffix](data.test_logits))
    return comparison, fits


def rank_correlation(x: np.ndarray, y: np.ndarray, *, seed: int = 0) -> Estimate:
    """Spearman's correlation of two values a class (K,), with the 95% percentile interval of a bootstrap over classes.

    A class without one of its values is left out. Of 2,000 resamples those in which one of the two is constant have
    none and are left out, too; NaN where all are.

    Example:
        >>> rank_correlation(np.arange(9), np.arange(9) ** 3).value
        1.0
    """
    x, y = np.asarray(x), np.asarray(y)
    known = ~(np.isnan(x) | np.isnan(y))
    x, y = x[known], y[known]
    rng = np.random.default_rng(seed)

    def spearman(i: np.ndarray) -> float:
        ranks = [pd.Series(of[i]).rank() for of in (x, y)]
        return float(np.corrcoef(*ranks)[0, 1]) if all(of.nunique() > 1 for of in ranks) else np.nan

    draws = [spearman(rng.integers(0, len(x), len(x))) for _ in range(2000)]
    draws = [draw for draw in draws if not np.isnan(draw)] or [np.nan]
    return Estimate(spearman(np.arange(len(x))), *map(float, np.percentile(draws, [2.5, 97.5])))


# ---------------------------------------------------------------------------------------- rows of the result files
def method_key(calibrator: str, objective: str, **options: object) -> str:
    """The key of a method; an objective that is the calibrator's default is not written out.

    Example:
        >>> method_key("ets", "nll"), method_key("class_temperature_scaling", "nll", solver="sctl")
        ('ets', 'class_temperature_scaling solver=sctl:nll')
    """
    default = inspect.signature(CALIBRATORS[calibrator]).parameters["objective"].default
    return str(Key(calibrator, options, None if objective == default else Key.parse(objective)))


def number(rows: pd.DataFrame, **where: object) -> Estimate:
    """The number of ``results.load`` that ``where`` names, column=value, with its interval: in percent, or in nats.

    NaN where there is no such row; printed numbers have no interval. Rows that print the same number in several tables
    are one, and ValueError tells of rows of different numbers.

    Example:
        >>> from book.kit import results
        >>> cell = {"dataset": "cifar10", "model": "densenet40", "metric": "ece", "method": "temperature_scaling"}
        >>> f"{number(results.load('ours'), source='published-logits', **cell):.2f}"
        '0.95 [0.37, 1.34]'
        >>> number(results.load("paper"), paper="class_loss_scaling", table="1", loss="cross_entropy", **cell).value
        0.96
    """
    numbers = select(rows, **where)[["value", "low", "high", "unit"]].drop_duplicates()
    if len(numbers) > 1:
        raise expected("where", "the name of one number", f"{len(numbers)} numbers of {where}")
    if numbers.empty:
        return Estimate(np.nan, np.nan, np.nan)
    *numbers, unit = numbers.iloc[0]
    estimate = Estimate(*map(float, numbers))
    return estimate.percent if unit == "fraction" else estimate
