"""Several networks as one number: the mean of paired differences, and how many of them are beyond chance."""

from __future__ import annotations

import pandas as pd

from book.kit.notebook.display_names import CHANGES
from book.kit.results import csv_rows
from book.kit.results.record import SAME_AGAIN
from book.kit.results.verdict_rule import ALPHA
from calibkit.metrics.intervals import holm
from calibkit.networks import PUBLISHED

WORDS = ("better", "worse", "not decided")
#: Kinds of networks that a mean is taken over. Three data sets stand apart: CamVid, whose classes are rare in use too,
#: 20 Newsgroups cut by date, whose test texts are unlike the others, and by few words, which are the same texts again.
STRATA = ("published, balanced", "published, long-tailed", "ours, balanced", "ours, long-tailed")
APART = ("camvid", "20newsgroups", SAME_AGAIN)
#: A query for all but what stands in a section by itself: losses at several strengths, and changes of the recipe.
MAIN_LOSSES = f"~loss.str.fullmatch('(mbls|acls) margin=[0-9]+|label_smoothing alpha=.*|{'|'.join(CHANGES)}')"


def select(effects: pd.DataFrame, base_method: str, base_loss: str | None = None, **where: str) -> pd.DataFrame:
    """The rows of :func:`book.kit.results.load_effects` of one base, and ``where``, with a column ``network`` of names.

    The base is the calibrator that is subtracted, and the training loss; None: that of the network itself. Of public
    networks the rows of Neural Clamping alone: they were calibrated on halves of the test images, in draws that
    overlap, so that a mean over networks would count those images twice.

    Example:
        >>> rows = pd.DataFrame({"dataset": "a", "model": "b", "loss": "mbls", "base_loss": ["mbls", "cross_entropy"]})
        >>> rows = rows.assign(base_method="identity", metric="ece", source="ours", method="temperature_scaling")
        >>> select(rows, "identity", metric="ece")[["network", "base_loss"]].to_numpy().tolist()
        [['a/b, mbls', 'mbls']]
    """
    of_base = effects["loss"] if base_loss is None else base_loss
    rows = effects[(effects["base_method"] == base_method) & (effects["base_loss"] == of_base)]
    rows = rows[(rows["source"] != "public") | rows["method"].str.startswith("neural_clamping")]
    rows = csv_rows.select(rows, **where)
    return rows.assign(network=network_names(rows))


def network_names(rows: pd.DataFrame) -> pd.Series:
    """``dataset/model``, with the training loss behind it unless it is cross-entropy; and "(ours)" behind that, where
    others have published such a network, too.

    Example:
        >>> rows = pd.DataFrame({"dataset": ["a", "cifar10"], "model": ["b", "resnet50"], "source": "ours"})
        >>> network_names(rows.assign(loss=["mbls", "cross_entropy"])).tolist()
        ['a/b, mbls', 'cifar10/resnet50 (ours)']
    """
    plain = rows["dataset"] + "/" + rows["model"]
    names = plain.where(rows["loss"] == "cross_entropy", plain + ", " + rows["loss"])
    published = {*PUBLISHED.values()}
    cells = zip(rows["dataset"], rows["model"], rows["loss"], rows["source"], strict=True)
    whose = [" (ours)" if source == "ours" and tuple(of) in published else "" for *of, source in cells]
    return names + pd.Series(whose, names.index, names.dtype)


def stratum(rows: pd.DataFrame) -> pd.Series:
    """The one of ``STRATA`` that each row is of, by its columns dataset and source; "apart" for those of ``APART``.

    Example:
        >>> rows = pd.DataFrame({"dataset": ["cifar10_lt", "cifar10", "camvid"]})
        >>> stratum(rows.assign(source=["published-logits", "public", "ours"])).tolist()
        ['published, long-tailed', 'ours, balanced', 'apart']
    """
    whose = rows["source"].map(lambda source: "published" if source == "published-logits" else "ours")
    kind = rows["dataset"].map(lambda name: "long-tailed" if name.endswith("_lt") else "balanced")
    return (whose + ", " + kind).mask(rows["dataset"].isin(APART), "apart")


def beyond_chance(rows: pd.DataFrame, level: float = ALPHA) -> pd.Series:
    """One of ``WORDS`` for each difference of an error, all of them one family of Holm's method at that level.

    Example:
        >>> rows = pd.DataFrame({"value": [-0.1, -0.1, 0.1], "chance": [0.01, 0.04, 0.001]})
        >>> beyond_chance(rows).tolist(), beyond_chance(rows[1:2]).tolist()
        (['better', 'better', 'worse'], ['better'])
    """
    adjusted = holm(dict(enumerate(rows["chance"])))
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
