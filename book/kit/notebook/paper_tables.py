"""The tables of a paper as chapters show them: printed and ours, and what trains what is absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from torch import Tensor

from book.kit import results
from book.kit.judging.seeds import quantile
from book.kit.notebook.printed_vs_ours import beside
from book.kit.notebook.table import Table
from book.kit.results.csv_rows import quoted, select
from calibkit.metrics import accuracy, ece
from calibkit.metrics.comparison import Comparison
from calibkit.metrics.registry import IN_NATS
from calibkit.networks import Network


def paper_table(
    paper: str,
    number: str,
    wide: str | None = None,
    caption: str = "",
    name: str = "",
    *,
    ours: pd.DataFrame | None = None,
    names: Mapping[str, str] | None = None,
    **only: str,
) -> Table:
    """One table of a paper beside our numbers, to look at; of these the rows ``only``, column=value.

    ``ours`` is as in :func:`book.kit.results.compare`, all else as in
    :func:`book.kit.notebook.printed_vs_ours.beside`; so are the errors.

    Example:
        >>> shown = paper_table("mbls", "8", "loss", "Vision transformers", "tbl-vit", metric="ece")
        >>> [column.group for column in shown.columns][:2], len(shown.rows), len(shown.folded)
        (['MbLS', 'LS'], 0, 2)
    """
    rows = select(results.compare(paper, number, ours=ours), **only)
    return beside(rows, wide, caption, name, names=names)


def estimates(
    comparison: Comparison, names: Iterable[str], columns: Mapping[str, tuple[str, str]], base: str | None = None
) -> pd.DataFrame:
    """Numbers of a comparison with their intervals, as text: in percent, but for what is in nats.

    The rows are ``names``; the columns are by their head a suffix, so that the method is ``name + suffix``, and a
    metric, as ``{"ECE": ("", "ece"), "ECE after TS": (" + TS", "ece")}``. With a ``base`` they are differences to
    ``base + suffix``, in points, and its own row is left out. ValueError tells of what was not measured.

    Example:
        >>> import numpy as np
        >>> methods = Comparison(np.repeat([0, 1], [80, 20]), ["accuracy", "ece"])
        >>> for name, p in (("sure", 0.99), ("honest", 0.8)):
        ...     methods.add(name, np.tile([p, 1 - p], (100, 1)))
        >>> print(estimates(methods, ["honest"], {"accuracy": ("", "accuracy")}).to_string())
                           accuracy
        honest  80.00 [72.00, 88.00]
        >>> print(estimates(methods, methods, {"less ECE": ("", "ece")}, base="sure").to_string())
                              less ECE
        honest  -19.00 [-35.00, -3.00]
    """
    rows = {}
    for name in names:
        if name == base:
            continue
        rows[name] = {}
        for head, (suffix, metric) in columns.items():
            if base is None:
                found, sign = comparison.of(name + suffix, metric), ""
            else:
                found, sign = comparison.difference(name + suffix, base + suffix, metric), "+"
            rows[name][head] = f"{found:{sign}.3f}" if metric in IN_NATS else f"{found.percent:{sign}.2f}"
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(columns))


def loss_differences(network: str, base: str, *, names: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The ECE of training losses, on one ``"<dataset>/<model>"``, less that of another one, in points, as text.

    That one is a loss, or ``"<loss> | <method>"`` after a calibrator. Beside it stand the half-widths of 95% intervals.
    That of the seeds has the t quantile of the pooled spread's degrees of freedom, and is empty where no loss was
    trained twice.

    Example:
        >>> loss_differences("cifar10/resnet20", "cross_entropy").columns.tolist()
        ['difference', 'test images ±', 'seeds ±', 'trainings']
    """
    dataset, model = network.split("/")
    base_loss, _, method = base.partition(" | ")
    rows = select(results.load_effects(), dataset=dataset, model=model, metric="ece", method="identity")
    rows = select(rows, base_loss=base_loss, base_method=method or "identity")
    rows = rows[rows["loss"] != base_loss].sort_values("value")
    shown = {}
    for row in rows.itertuples():
        shown[(names or {}).get(row.loss, row.loss)] = {
            "difference": f"{100 * row.value:+.2f}",
            "test images ±": f"{100 * max(row.value - row.low, row.high - row.value):.2f}",
            "seeds ±": "" if np.isnan(row.seed_error) else f"{100 * quantile(row.seed_df) * row.seed_error:.2f}",
            "trainings": f"{row.n_seeds} and {row.base_seeds}",
        }
    return pd.DataFrame.from_dict(shown, orient="index")


def train_command(network: Network, *options: str) -> str:
    r"""What trains a network, on two lines; the options follow it.

    Example:
        >>> print(train_command(Network("cifar10", "resnet20", "mbls margin=8", seed=1), "--budget paper"))
        python -m calibkit train --dataset cifar10 --model resnet20 \
              --seed 1 --loss "mbls margin=8" --budget paper
    """
    more = [f"--seed {network.seed}"] if network.seed else []
    second = " ".join([*more, f"--loss {quoted(network.loss)}", *options])
    return f"python -m calibkit train --dataset {network.dataset} --model {network.model} \\\n      {second}"


def logit_summary(trained: Mapping[str, tuple[Tensor, Tensor] | None], *, n_bins: int = 15) -> pd.DataFrame:
    """What trainings came to, a row each: accuracy, mean confidence and ECE in percent, and where the logits are.

    Each is its test logits (N, K) and labels (N,); None, or logits beyond a million: it diverged. ``distance`` is the
    median of largest less smallest logit, ``mean logit`` that of all.

    Example:
        >>> import torch
        >>> z, y = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
        >>> print(logit_summary({"one": (z, y), "other": None}).to_string())
               accuracy confidence       ECE  distance mean logit
        one       100.0       88.1      11.9       2.0        1.0
        other  diverged   diverged  diverged  diverged   diverged
    """
    columns, rows = ["accuracy", "confidence", "ECE", "distance", "mean logit"], {}
    for name, out in trained.items():
        if out is None or float(out[0].abs().max()) > 1e6:
            rows[name] = ["diverged"] * len(columns)
            continue
        z, y = out
        probs = z.softmax(1)
        fractions = accuracy(probs, y), float(probs.amax(1).mean()), ece(probs, y, n_bins=n_bins)
        where = float((z.amax(1) - z.amin(1)).median()), float(z.mean())
        rows[name] = [f"{round(value, 1) + 0:.1f}" for value in (*(100 * x for x in fractions), *where)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)
