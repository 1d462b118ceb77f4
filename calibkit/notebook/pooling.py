"""Several networks as one number: the mean of paired differences, and how many of them are beyond chance."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd

from calibkit._checks import expected
from calibkit.metrics.comparison import Estimate
from calibkit.results.judging import LEVEL, holm

WORDS = ("better", "worse", "not decided")


def select(effects: pd.DataFrame, base_method: str, base_loss: str | None = None, **where: str) -> pd.DataFrame:
    """The differences to one base, with a column ``network`` that names the network.

    Args:
        effects: rows of :func:`calibkit.results.load_effects`.
        base_method: the calibrator that is subtracted.
        base_loss: the training loss that is subtracted; None: that of the network itself.
        where: column=value.

    Example:
        >>> rows = pd.DataFrame({"dataset": "a", "model": "b", "loss": "mbls", "base_loss": ["mbls", "cross_entropy"]})
        >>> rows = rows.assign(base_method="identity", metric="ece")
        >>> select(rows, "identity", metric="ece")[["network", "base_loss"]].to_numpy().tolist()
        [['a/b, mbls', 'mbls']]
    """
    of_base = effects["loss"] if base_loss is None else base_loss
    rows = effects[(effects["base_method"] == base_method) & (effects["base_loss"] == of_base)]
    for column, value in where.items():
        if column not in rows:
            raise expected("column", f"one of {', '.join(rows.columns)}", repr(column))
        rows = rows[rows[column] == value]
    return rows.assign(network=network_names(rows))


def network_names(rows: pd.DataFrame) -> pd.Series:
    """``dataset/model``, with the training loss behind it unless it is cross-entropy.

    Example:
        >>> rows = pd.DataFrame({"dataset": ["a", "a"], "model": ["b", "b"], "loss": ["cross_entropy", "mbls"]})
        >>> network_names(rows).tolist()
        ['a/b', 'a/b, mbls']
    """
    plain = rows["dataset"] + "/" + rows["model"]
    return plain.where(rows["loss"] == "cross_entropy", plain + ", " + rows["loss"])


def images_of(datasets: pd.Series) -> pd.Series:
    """Which networks share their test images: a long-tailed data set is tested on the images of the whole one.

    Example:
        >>> images_of(pd.Series(["cifar10", "cifar10_lt", "camvid"])).tolist()
        ['cifar10', 'cifar10', 'camvid']
    """
    return datasets.str.removesuffix("_lt")


def pooled(rows: pd.DataFrame) -> Estimate:
    r"""The mean of the differences of N networks, with a 95 % interval over test sets.

    Networks of one test set share its images, and their errors are taken as fully correlated: the arms of their
    intervals are added. Test sets are independent: their sums are added in squares,

    .. math:: \mathrm{arm} = \frac1N \sqrt{\sum_t \Bigl( \sum_{n \in t} \mathrm{arm}_n \Bigr)^2} .

    The interval speaks of these networks on other test images. What other networks would give, it does not say.

    Args:
        rows: columns dataset, value, low, high; one row a network.

    Returns:
        Estimate: NaN where there is no row.

    Example:
        >>> rows = pd.DataFrame({"dataset": ["a", "a_lt", "b"], "value": [1.0, 2.0, 3.0]})
        >>> f"{pooled(rows.assign(low=rows.value - 1.5, high=rows.value + 1.5)):.2f}"  # arms 3 and 1.5 of test sets
        '2.00 [0.88, 3.12]'
    """
    if rows.empty:
        return Estimate(np.nan, np.nan, np.nan)
    value = rows["value"].mean()
    arms = pd.DataFrame({"low": rows["value"] - rows["low"], "high": rows["high"] - rows["value"]})
    low, high = np.sqrt((arms.groupby(images_of(rows["dataset"])).sum() ** 2).sum()) / len(rows)
    return Estimate(float(value), float(value - low), float(value + high))


def beyond_chance(rows: pd.DataFrame, level: float = LEVEL) -> pd.Series:
    """One of ``WORDS`` for each difference of an error, all of them one family of Holm's method.

    Args:
        rows: columns value and chance; lower is better.
        level: of the family.

    Example:
        >>> rows = pd.DataFrame({"value": [-0.1, -0.1, 0.1], "chance": [0.01, 0.04, 0.001]})
        >>> beyond_chance(rows).tolist(), beyond_chance(rows[1:2]).tolist()
        (['better', 'better', 'worse'], ['better'])
    """
    adjusted: Mapping[Hashable, float] = holm(dict(enumerate(rows["chance"])))
    words = [
        WORDS[2] if adjusted[i] > level or value == 0 else WORDS[value > 0] for i, value in enumerate(rows["value"])
    ]
    return pd.Series(words, index=rows.index, dtype=object)


def tally(words: pd.Series) -> str:
    """How many differences are better, worse, not decided: "3 / 1 / 8".

    Example:
        >>> tally(pd.Series(["better", "better", "not decided"]))
        '2 / 0 / 1'
    """
    return " / ".join(str(int((words == word).sum())) for word in WORDS)
