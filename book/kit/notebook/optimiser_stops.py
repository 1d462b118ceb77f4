"""Where the optimisers of public codes stop, on the way to the optimum of the loss that they are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from book.kit import results
from book.kit.notebook.comparisons import method_key, number
from calibkit._checks import check_int
from calibkit.calibrators import TemperatureScaling, calibrator
from calibkit.fitting.sctl_replay import one_thread, replay
from calibkit.metrics import ece
from calibkit.networks import PUBLISHED, load_logits
from calibkit.objectives import Objective

NUDGE = 1e-7  # of a logit: the last bit of single precision


def trace(objective: Objective, logits: Tensor, labels: Tensor) -> list[float]:
    """One temperature at every evaluation of an objective that ``solver="sctl"`` accepts, by the optimiser of the
    class-loss paper, on logits (N, K) and labels (N,); and where it ends.

    Example:
        >>> from calibkit.objectives import NLL
        >>> z, y = torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
        >>> path = trace(NLL(), z, y)
        >>> path[0], round(path[-1], 1)
        (1.0, 1.8)
    """
    t, seen = torch.ones(1, requires_grad=True), []

    def forward(z: Tensor) -> Tensor:
        seen.append(float(t.detach()))
        return z / t

    replay(objective, logits, labels, forward, [t])
    return [*seen, float(t.detach())]


def guo_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature of the public code of Guo et al. 2017: L-BFGS with steps of 0.01 from 1.5, at most 200, in single
    precision.
    """
    z = logits.float()
    t = torch.full((1,), 1.5, requires_grad=True)
    optimizer = torch.optim.LBFGS([t], lr=0.01, max_iter=200)

    def closure() -> Tensor:
        loss = functional.cross_entropy(z / t, labels)
        t.grad = torch.autograd.grad(loss, t)[0]
        return loss

    with one_thread():
        optimizer.step(closure)
    return float(t.detach())


def guo_stops(networks: Mapping[str, str]) -> pd.DataFrame:
    """Where that code stops and where the optimum is: temperature, and test ECE in percent; of networks by the name to
    show.
    """
    rows = {}
    for shown, name in networks.items():
        data = load_logits(name)
        stop = guo_temperature(*map(torch.from_numpy, data.val))
        rows[shown] = {}
        for where, t in (("stop", stop), ("optimum", TemperatureScaling().fit(*data.val).temperature)):
            probs = (torch.from_numpy(data.test_logits).double() / t).softmax(1)
            rows[shown] |= {f"T {where}": t, f"ECE {where}": 100 * ece(probs.numpy(), data.test_labels)}
    return pd.DataFrame.from_dict(rows, orient="index")


def nudged(name: str, methods: Mapping[str, str]) -> pd.DataFrame:
    """Test ECE in percent of methods, by the name to show, whose validation logits are multiplied by 1 - 1e-7, 1 and
    1 + 1e-7.
    """
    data, rows = load_logits(name), {}
    for shown, key in methods.items():
        rows[shown] = {}
        for column, factor in (("less", 1 - NUDGE), ("as it is", 1.0), ("more", 1 + NUDGE)):
            fitted = calibrator(key).fit((data.val_logits * factor).astype(np.float32), data.val_labels)
            rows[shown][column] = 100 * ece(fitted(data.test_logits), data.test_labels)
    return pd.DataFrame.from_dict(rows, orient="index")


def printed_replayed_exact(
    calibrators: Mapping[str, str], objectives: Mapping[str, str], networks: Mapping[str, str]
) -> pd.DataFrame:
    """A number of the class-loss paper three ways, from the result files: test ECE and accuracy in percent.

    All three are keys, or names of published logits, by the name to show. There is a row a method and network, columns
    calibrator, loss, network, printed, log, replay, exact, and the accuracy of exact; NaN where there is no number.
    ``exact`` is fitted to the objective itself, except to the public code's form of the focal loss where that is
    recorded: for all calibrators but PTS.

    Example:
        >>> networks = {"DenseNet-40": "sctl-cifar10-densenet40"}
        >>> row = printed_replayed_exact({"TS": "temperature_scaling"}, {"LS": "label_smoothing"}, networks).iloc[0]
        >>> f"{row['printed']:.2f} {row['replay']:.2f} {row['exact']:.2f}"
        '0.44 0.44 8.73'
    """
    ours, paper = results.load("ours"), results.load("paper")
    paper = paper[paper["paper"] == "class_loss_scaling"]
    rows = []
    for (cal, name), (loss, objective), (network, logits) in product(
        calibrators.items(), objectives.items(), networks.items()
    ):
        cell = dict(zip(("dataset", "model", "loss"), PUBLISHED[logits], strict=True))
        theirs = cell | {"metric": "ece", "method": method_key(name, objective)}
        own = cell | {"source": "published-logits"}
        detached = objective == "focal" and name != "pts"
        exact = own | {"method": method_key(name, "focal detach=True" if detached else objective)}
        replayed = own | {"method": method_key(name, objective, solver="sctl")}
        found = {
            "printed": number(paper, **theirs, source="printed"),
            "log": number(paper, **theirs, source="author-log"),
            "replay": number(ours, **replayed, metric="ece"),
            "exact": number(ours, **exact, metric="ece"),
            "accuracy": number(ours, **exact, metric="accuracy"),
        }
        values = {column: estimate.value for column, estimate in found.items()}
        rows.append({"calibrator": cal, "loss": loss, "network": network} | values)
    return pd.DataFrame(rows)


def dead_at_start(logits: Tensor, seeds: Iterable[int]) -> float:
    """Share of seeds from which the public code's network of PTS gives all samples the same number, before training.

    Four layers of two ReLU units on the ten largest of (N, K) logits: where both units of a layer are zero for all
    samples, no gradient flows below it.

    Example:
        >>> dead_at_start(torch.randn(50, 10, generator=torch.manual_seed(0)), range(20)) > 0
        True
    """
    top = logits.float().topk(min(10, logits.shape[1]), 1).values
    dead = []
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        for seed in seeds:
            torch.manual_seed(check_int("seeds", seed, 0))
            hidden = top
            for _ in range(4):
                hidden = torch.relu(torch.nn.Linear(hidden.shape[1], 2)(hidden))
            output = torch.nn.Linear(2, 1)(hidden)
            dead.append(bool(output.max() == output.min()))
    return float(np.mean(dead))
