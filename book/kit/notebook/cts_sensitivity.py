"""Where the greedy search of class temperatures ends: on networks, beside others, and after next to no change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
import pandas as pd

from book.kit.notebook.comparisons import rank_correlation
from calibkit._checks import check_int
from calibkit.calibrators import calibrator
from calibkit.logits import HeldOut, Logits
from calibkit.metrics import ece, reliability_bins
from calibkit.metrics.comparison import Comparison
from calibkit.networks import load_logits

NUDGE = 1e-6  # of a logit: some roundings of single precision, as between two graphics cards
CAUSES = ("nudged logits", "order of the classes")
QUARTERS = {"lowest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "highest": 1.0}


def by_class(networks: Iterable[str]) -> pd.DataFrame:
    """Whether the error of a class falls with its accuracy, and how many sweeps the search needs, a row a network.

    Columns correlation, low, high are the rank correlation of accuracy and error of the classes of the test set with
    its 95% interval over classes; sweeps is the last of at most 20 that changed a temperature.

    Example:
        >>> found = by_class(["cifar10/resnet20-cross_entropy-s0"]).iloc[0]
        >>> bool(-1 <= found["low"] <= found["correlation"] <= 1), int(found["sweeps"])
        (True, 1)
    """
    rows = {}
    for name in networks:
        data = load_logits(name)
        probs = calibrator("identity").fit(*data.val)(data.test_logits)
        right = probs.argmax(1) == data.test_labels
        accuracies, gaps = [], []
        for j in range(data.n_classes):
            bins = reliability_bins(probs, data.test_labels, n_bins=15, class_index=j)
            of_class = data.test_labels == j
            accuracies.append(right[of_class].mean())
            gaps.append(np.nansum(bins.counts * abs(bins.accuracy - bins.confidence)) / of_class.sum())
        found = rank_correlation(np.array(accuracies), np.array(gaps))
        search = calibrator("class_temperature_scaling max_sweeps=20").fit(*data.val)
        rows[name] = dict(zip(("correlation", "low", "high"), found, strict=True)) | {"sweeps": search.history[-1, 0]}
    return pd.DataFrame.from_dict(rows, orient="index")


def spread(networks: Mapping[str, str], methods: Mapping[str, str], n_draws: int) -> pd.DataFrame:
    """How far the test ECE of a fit moves when what should not matter is changed before it: see ``CAUSES``.

    The logits to fit on are multiplied by 1 + 1e-6 times a standard normal number each; or the classes are numbered in
    a random order, so that a greedy search visits them in that order. Each is done ``n_draws`` >= 1 times.

    ``networks`` are names of logits and ``methods`` keys of calibrators, each by the name to show. A row is
    "<network>; <method>; <cause>", the columns are ``QUARTERS`` of the test ECE in percent.

    Example:
        >>> networks = {"CE": "cifar10/resnet20-cross_entropy-s0"}
        >>> moved = spread(networks, {"TS": "temperature_scaling"}, 3)
        >>> bool((moved["highest"] - moved["lowest"] < 0.01).all())
        True
    """
    check_int("n_draws", n_draws, 1)
    rows = {}
    for shown, name in networks.items():
        data = load_logits(name)
        for method, key in methods.items():
            for cause in CAUSES:
                ends = [
                    100 * ece(calibrator(key).fit(*val)(test.logits), test.labels)
                    for val, test in _changed(data, cause, range(n_draws))
                ]
                quarters = np.quantile(ends, list(QUARTERS.values()))
                rows[f"{shown}; {method}; {cause}"] = dict(zip(QUARTERS, map(float, quarters), strict=True))
    return pd.DataFrame.from_dict(rows, orient="index")


def paired(networks: Iterable[str], pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """The test ECE of one calibrator less that of another, ``pairs`` of keys, both fitted on the same images.

    A row is "<network>; <calibrator>; <other>", the columns value, low, high are points with a 95% interval over test
    images.

    Example:
        >>> found = paired(["cifar10/resnet20-cross_entropy-s0"], [("temperature_scaling", "identity")])
        >>> bool(found["high"].item() < 0)
        True
    """
    rows, pairs = {}, [*pairs]
    for name in networks:
        data = load_logits(name)
        fits = {key: calibrator(key).fit(*data.val) for key in dict.fromkeys(chain(*pairs))}
        comparison = Comparison.on(data.test, fits, ["ece"])
        for key, other in pairs:
            found = comparison.difference(key, other).percent
            rows[f"{name}; {key}; {other}"] = dict(zip(("value", "low", "high"), found, strict=True))
    return pd.DataFrame.from_dict(rows, orient="index")


def _changed(data: Logits, cause: str, seeds: Iterable[int]) -> Iterator[tuple[tuple, HeldOut]]:
    """What is fitted on, and tested on, after each change."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        if cause == "nudged logits":
            noise = 1 + NUDGE * rng.standard_normal(data.val_logits.shape)
            yield ((data.val_logits * noise).astype(data.val_logits.dtype), data.val_labels), data.test
        else:
            order = rng.permutation(data.n_classes)
            place = order.argsort()
            test = HeldOut(data.test_logits[:, order], place[data.test_labels], data.test_groups)
            yield (data.val_logits[:, order], place[data.val_labels]), test
