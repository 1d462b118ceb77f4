"""The smallest difference between two calibrations that a test set can decide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from calibkit._checks import Array, check_bins, check_choice, check_draws, check_int, check_real, check_texts, expected
from calibkit.metrics.binning import bin_sums, width_bins
from calibkit.metrics.intervals import Resampled, check_alpha, check_level
from calibkit.metrics.registry import null_draws
from calibkit.metrics.resampling import draws
from calibkit.metrics.sample import Sample

#: What a simulated difference is known of.
SIMULATED = ("ece", "nll", "brier", "accuracy")


def detectable(
    probs: Array,
    labels: Array,
    metrics: Iterable[str] = SIMULATED,
    *,
    n: int | None = None,
    error: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
    n_sets: int = 200,
    n_resamples: int = 200,
    seed: int = 0,
    n_bins: int = 15,
) -> dict[str, float]:
    r"""The smallest true difference that the paired test sees on such a test set: below it, expect "not decided".

    It is found by simulation. The inputs are those given; the true probabilities of their labels are

    .. math:: \pi = \mathrm{softmax}(t \log p),

    with the t whose mean confidence is the accuracy. Two calibrations of this network say
    :math:`\mathrm{softmax}(s \log \pi)`, which is calibrated at s = 1 and too sure above. The better one has the least
    :math:`s \ge 1` whose true ECE is ``error``. The worse one

    * has a larger s, as of a temperature that is too low: for the ECE, the NLL and the Brier score;
    * predicts the second class in place of the first in the share m of the inputs where the two differ least in
      log-probability, of equals in the first ones: for the accuracy, which s does not change.

    A test set is n inputs, drawn with replacement, and labels drawn from :math:`\pi`. The difference is *seen* where
    the worse one measures worse with a p-value of at most ``alpha``, the one of
    :meth:`Comparison.chance <calibkit.metrics.comparison.Comparison.chance>`: about where the interval of
    :func:`~calibkit.metrics.bootstrap_difference` leaves 0. Bisection finds the least s or m that is seen in a share
    ``power`` of the test sets, which are the same throughout. What is returned is the true difference there, over the
    inputs and :math:`\pi`, and for the ECE in bins.

    Rows count as independent, which the pixels of an image are not. Differences of another kind, such as gaps of both
    signs, can be harder to see.

    Args:
        probs: (N, K) probabilities.
        labels: (N,) integers in [0, K); they tell the accuracy.
        metrics: any of ``ece``, ``nll``, ``brier``, ``accuracy``.
        n: samples in a test set, 2 or more. Default: N.
        error: the true ECE of the better one, a fraction that some s has. Default: 0, beside which a difference is
            hardest to see. Far from 0 the NLL and the Brier score tell any two s apart, and the answer is nearly 0.
        power: a share in (0, 1). Default: 0.8, the usual one (Cohen 1988).
        alpha: in (0, 0.5]; 0.05 / 60 for the strictest of 60 tests by Holm's method.
        n_sets: number of simulated test sets. With 200 another seed moves the answer by some 5%.
        n_resamples: of each test set, 2 or more.
        seed: of everything random.
        n_bins: of the ECE.

    Returns:
        ``{name: difference}``: positive, a fraction, of the NLL in nats; infinite where no s or m is enough. Where
        every prediction is right, no network can be too sure, and only the accuracy is finite.

    Raises:
        ValueError: bad ``probs`` or ``labels``, another metric, ``error`` that no s has, ``power``
            outside (0, 1), ``alpha`` outside (0, 0.5], ``n`` or ``n_resamples`` < 2, ``n_sets`` < 1, ``n_bins`` < 1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> top = rng.uniform(0.5, 1.0, 1000)
        >>> probs, labels = np.stack([top, 1 - top], 1), (rng.random(1000) > top).astype(int)
        >>> few, many = (detectable(probs, labels, ["ece"], n=n, n_sets=20)["ece"] for n in (1000, 4000))
        >>> 0.01 < many < few < 0.1
        True
    """
    sample = Sample.of(probs, labels)
    names = tuple(check_choice("metrics", name, SIMULATED) for name in check_texts("metrics", metrics))
    n, n_bins, seed = check_int("n", len(sample) if n is None else n, 2), check_bins(n_bins), check_int("seed", seed, 0)
    n_sets, n_resamples = check_draws("n_sets", n_sets), check_draws("n_resamples", n_resamples, 2)
    check_alpha(alpha)
    check_level(power, "power")
    check_real("error", error, 0.0, 1.0)

    given = sample.probs.double().cpu().clamp(min=torch.finfo(torch.float64).tiny).log()
    accuracy = sample.correct.double().mean().item()
    t = least(lambda t: sharpened(given, t).amax(1).exp().mean().item() >= accuracy, 1e-3, 1e3)
    truth = sharpened(given, min(t, 1e3))
    s = least(lambda s: true_value("ece", sharpened(truth, s), truth, n_bins) >= error, 1.0, 1e3)
    if s == inf:
        raise expected("error", f"below 1 - accuracy, {1.0 - accuracy:.3g} here", error)
    base = sharpened(truth, s)

    rng = np.random.default_rng(seed)
    weights, test_sets = counts(n, n_resamples, rng), list(drawn(truth, n, n_sets, rng))

    def smallest(name: str) -> float:
        """The true difference of the least change that is seen often enough."""
        before = list(measured(name, base, test_sets, weights, n_bins, seed))

        def worse(size: float) -> Tensor:
            return swapped(base, size) if name == "accuracy" else sharpened(base, 1.0 + size)

        def seen(size: float) -> bool:
            spare = int((1.0 - power) * n_sets + 1e-9)  # test sets in which it need not be seen
            after = measured(name, worse(size), test_sets, weights, n_bins, seed)
            for old, new in zip(before, after, strict=True):
                spare -= not (new.value > old.value and new.chance(old) <= alpha)
                if spare < 0:
                    return False
            return True

        size = least(seen, 1e-4, 1e2, 0.02)
        if size == inf:
            return inf
        return true_value(name, worse(size), truth, n_bins) - true_value(name, base, truth, n_bins)

    return {name: smallest(name) for name in names}


def sharpened(log_probs: Tensor, s: float) -> Tensor:
    """The logarithm of the softmax of ``s * log_probs``."""
    return (s * log_probs).log_softmax(1)


def swapped(log_probs: Tensor, share: float) -> Tensor:
    """The first and the second class exchanged in the share of the rows where they differ least."""
    two, classes = log_probs.topk(2, dim=1)
    nearest = (two[:, 0] - two[:, 1]).argsort(stable=True)[: round(share * len(two))]
    two[nearest] = two[nearest].flip(1)
    return log_probs.scatter(1, classes, two)


def row_losses(name: str, log_probs: Tensor) -> Tensor:
    """(N, K) what a row adds to a metric if its label is k: to the ECE its gap, to the accuracy 1 where it is wrong."""
    if name == "nll":
        return -log_probs
    probs = log_probs.exp()
    if name == "brier":
        return 1.0 - 2.0 * probs + probs.square().sum(1, keepdim=True)
    right = one_hot(probs.argmax(1), probs.shape[1]).double()
    return (probs.amax(1, keepdim=True) if name == "ece" else 1.0) - right


def bins_of(name: str, log_probs: Tensor, n_bins: int) -> Tensor:
    """(N,) the bins in which losses add up before their absolute values are taken: of a mean all in one."""
    return width_bins(log_probs.amax(1).exp(), n_bins if name == "ece" else 1)


def true_value(name: str, log_probs: Tensor, truth: Tensor, n_bins: int) -> float:
    """The metric over all rows and the labels that the log-probabilities ``truth`` give; of the accuracy 1 less."""
    losses = (truth.exp() * row_losses(name, log_probs)).sum(1)
    return bin_sums(bins_of(name, log_probs, n_bins), losses, n_bins).abs().sum().item() / len(losses)


def drawn(truth: Tensor, n: int, n_sets: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Test sets: n rows, drawn with replacement, and a label of each, drawn from its log-probabilities ``truth``."""
    ends = truth.exp().cumsum(1)
    first = torch.arange(len(ends), device=ends.device)[:, None]
    ends = (ends / ends[:, -1:] + first).flatten()  # each row from its number to the next
    for _ in range(n_sets):
        rows = torch.from_numpy(rng.integers(0, len(truth), n))
        found = torch.searchsorted(ends, rows + torch.from_numpy(rng.random(n)), right=True)
        yield rows, found - rows * truth.shape[1]


def counts(n: int, n_resamples: int, rng: np.random.Generator) -> Tensor:
    """(n, 1 + R) how often each row is in the sample itself and in each resample: float32 in this order is fastest."""
    return torch.from_numpy(np.stack([np.ones(n, int), *draws(n, n_resamples, rng)], 1)).float()


def measured(
    name: str, log_probs: Tensor, test_sets: Sequence[tuple[Tensor, Tensor]], weights: Tensor, n_bins: int, seed: int
) -> Iterator[Resampled]:
    """The metric on each test set; what a calibrated network would show is taken from the first, near enough."""
    losses, bins, null = row_losses(name, log_probs), bins_of(name, log_probs, n_bins), None
    if name == "ece":
        rows, y = test_sets[0]
        first = Sample.of(log_probs[rows].exp(), y)
        null = null_draws(first, [name], weights.shape[1] - 1, np.random.default_rng([1, seed]), n_bins)[name]
    for rows, y in test_sets:
        terms = one_hot(bins[rows]) * losses[rows, y][:, None].float()
        value, *resamples = ((terms.T @ weights).abs().sum(0).double() / len(y)).tolist()
        yield Resampled(value, np.array(resamples), name != "ece", null, (0.0, inf))


def least(enough: Callable[[float], bool], low: float, high: float, within: float = 1e-4) -> float:
    """The least number from ``low`` to ``high`` that is enough, as all above it are; infinite where ``high`` is not."""
    most = high
    while high > low * (1.0 + within):
        middle = sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high < most or enough(high) else inf
