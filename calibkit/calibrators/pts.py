"""Parameterized temperature scaling (PTS): a small network gives every sample its own temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from calibkit._arrays import blocks
from calibkit._checks import Array, check_int, check_real, expected, like
from calibkit.fitting import sctl_replay
from calibkit.fitting.base import Shape, as_vector
from calibkit.fitting.interpolate import RowLosses
from calibkit.fitting.sctl_replay import Replayable, Solver
from calibkit.fitting.smooth import fit_losses, is_no_worse
from calibkit.fitting.temperature import fit_temperature, softmax_at
from calibkit.objectives import Objective, SmoothName, get

FLOOR = 0.01  # of |g|, so that no row is divided by zero
LARGEST = 2.0**100  # input of g: a class masked by the lowest number of its dtype would overflow; exact in float32
SCTL_TOP, SCTL_HIDDEN = 10, (2, 2, 2, 2)  # the network of the public code of class-wise loss scaling


class PTS(Replayable):
    r"""Parameterized temperature scaling: the temperature is a function of the largest logits.

    .. math:: p = \softmax(z / T(z)), \qquad T(z) = T_0 \, |g(z_{(1)}, \dots, z_{(s)})|

    :math:`z_{(1)} \ge z_{(2)} \ge \dots` are the sorted logits, :math:`T_0` is the temperature of temperature scaling,
    and g a network that starts at 1. A positive temperature keeps the argmax, so accuracy does not change. Trained by
    L-BFGS on all rows in float64 until it converges, and never worse on the fitting data than temperature scaling.

    Args:
        objective: a name of ``calibkit.objectives.OBJECTIVES`` or such an object; ``"ece"`` is refused.
        top_k: s, how many of the largest logits the network sees; 10 as in Tomani et al. All K where K < s.
        hidden: units of the hidden layers; two of five as in Tomani et al.
        weight_decay: the sum of the squared weights (not biases), times this over the number of rows, is added to the
            objective; for weights on standardised inputs. 10 / 5,000 = 0.002 is what Jung et al. 2023 print, for the
            5,000 rows of their logits; their code does not apply it. Without any the network learns its data by heart:
            on the 5,000 logits of a CIFAR-10 DenseNet-40 the test NLL rises from the 0.225 of one temperature to over
            0.4.
        seed: of the initial weights.
        solver: ``"exact"``, or ``"sctl"`` for the fit of Jung et al. 2023 as their code runs it: four ReLU layers of
            two units on ten logits, ``top_k``, ``hidden``, ``weight_decay`` and ``seed`` unused, T neither positive by
            construction nor bounded, Adam. On the logits of their paper all of its units die, and one temperature
            is left. Only for reproducing their tables.

    Attributes:
        temperature: T_0 (1 with ``solver="sctl"``).
        parameters: (P,) float64, the network on raw logits: for each layer its weights (out, in) row by row, then its
            biases.

    Paper: Tomani, Cremers and Buettner 2022, "Parameterized Temperature Scaling for Boosting the Expressive Power in
    Post-Hoc Uncertainty Calibration", ECCV.
    Differs from the paper: it minimises the squared error by Adam on mini-batches (learning rate 0.00005, 100,000
    steps of 1,000 rows), ReLU units, no weight decay. Here tanh units, which cannot die, and the optimum of the NLL.

    Raises:
        ValueError: bad input or options, an unknown or unsuited objective, an unknown solver.
        RuntimeError: called before ``fit``.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> true = 2 * torch.randn(2000, 4, generator=rng, dtype=torch.float64)
        >>> y = torch.multinomial(true.softmax(1), 1, generator=rng)[:, 0]
        >>> z = true * (1 + (true.amax(1, keepdim=True) > 2))       # twice too sure where the largest logit is large
        >>> pts = PTS().fit(z, y)
        >>> bool((pts(z).argmax(1) == z.argmax(1)).all())
        True
        >>> low, high = z.amax(1) < 2, z.amax(1) > 5
        >>> t = pts.temperatures(z)
        >>> bool(t[low].mean() < 1.3), bool(1.7 < t[high].mean() < 2.3)
        (True, True)
    """

    state = ("temperature", "parameters")
    keeps_predictions = True

    def __init__(
        self,
        objective: SmoothName | Objective = "nll",
        *,
        top_k: int = 10,
        hidden: Sequence[int] = (5, 5),
        weight_decay: float = 10.0,
        seed: int = 0,
        solver: Solver = "exact",
    ) -> None:
        super().__init__(objective, solver)
        if not isinstance(hidden, list | tuple) or not hidden:
            raise expected("hidden", "a sequence of at least one layer", repr(hidden))
        self.top_k, self.hidden = check_int("top_k", top_k, 1), tuple(check_int("hidden", n, 1) for n in hidden)
        self.weight_decay, self.seed = check_real("weight_decay", weight_decay, 0.0), check_int("seed", seed, 0, 2**63)

    def temperatures(self, logits: Array) -> Array:
        """The temperature T(z) that divides each row of logits (N, K): (N,) float64, in their container."""
        return like(self._temperatures(self._checked(logits).double()), logits)

    def _temperatures(self, z: Tensor) -> Tensor:
        exact, sizes = self.solver == "exact", self._sizes(z.shape[1])
        inputs = largest(z, sizes[0]).T
        g = network(as_vector(self.parameters, z), inputs, sizes, torch.tanh if exact else torch.relu)
        return self.temperature * (g.abs().clamp(min=FLOOR) if exact else g)

    def _sizes(self, n_classes: int) -> list[int]:
        """Units of each layer, inputs and output included."""
        top_k, hidden = (self.top_k, self.hidden) if self.solver == "exact" else (SCTL_TOP, SCTL_HIDDEN)
        return [min(top_k, n_classes), *hidden, 1]

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        objective, sizes = get(self.objective), self._sizes(logits.shape[1])
        if self.solver == "sctl":
            self.temperature, x = 1.0, _replay(objective, logits, labels, sizes)
        else:
            self.temperature = fit_temperature(objective, logits, labels)
            x = self._train(objective, logits, labels, sizes)
        self.parameters = x.cpu().numpy()

    def _shapes(self, n_classes: int) -> dict[str, Shape]:
        return {"temperature": (), "parameters": (n_parameters(self._sizes(n_classes)),)}

    def _probs(self, logits: Tensor) -> Tensor:
        return softmax_at(logits, self._temperatures(logits).unsqueeze(1))

    def _train(self, objective: Objective, logits: Tensor, labels: Tensor, sizes: list[int]) -> Tensor:
        """Parameters of the network at a minimum of the objective."""
        top = largest(logits, sizes[0]).T.double().contiguous()
        mean, std = top.mean(1), top.std(1, correction=0)
        varies = (top.amin(1) < top.amax(1)) & (std > 0)  # std underflows where the logits are around 1e-200
        std = torch.where(varies, std, torch.inf)  # an input that never varies is 0, and not used
        inputs = top.sub_(mean[:, None]).div_(std[:, None])
        x, decay = _start(sizes, self.seed, top)
        decay *= self.weight_decay / len(logits)
        table, slices = RowLosses(logits, labels, objective.smoothing), blocks(len(logits), sizes[0], 8)

        def temperatures(x: Tensor, inputs: Tensor) -> Tensor:
            return self.temperature * network(x, inputs, sizes, torch.tanh).abs().clamp(min=FLOOR)

        def losses(x: Tensor) -> Tensor:
            return torch.cat([table(-temperatures(x, inputs[:, rows]).log(), rows)[0] for rows in slices])

        def gradient(x: Tensor, weights: Tensor) -> tuple[float, Tensor]:
            value, grad = 0.0, torch.zeros_like(x)
            x = x.detach().requires_grad_()
            for rows in slices:
                with torch.enable_grad():
                    log_b = -temperatures(x, inputs[:, rows]).log()
                ce, by_log_b = table(log_b.detach(), rows)
                phi, slope, _ = objective.transform(ce)
                value += float(weights[rows] @ phi)
                grad += torch.autograd.grad(log_b, x, weights[rows] * slope * by_log_b)[0]
            return value, grad

        def penalty(x: Tensor) -> tuple[float, Tensor]:
            return float((decay * x) @ x), 2 * decay * x

        def forward(x: Tensor, z: Tensor) -> Tensor:
            top = (largest(z, sizes[0]) - mean) / std
            return z / temperatures(x, top.T)[:, None]

        options = {"penalty": penalty, "tolerance": 1e-10, "max_iter": 3000}
        best = fit_losses(objective, labels, logits.shape[1], x, losses, gradient, **options)
        best = best if is_no_worse(objective, logits, labels, best, x, forward) else x
        weight, bias = layers(best, sizes)[0]  # views: the inputs' scale goes into the first layer
        weight /= std
        bias -= weight @ mean
        return best


def largest(logits: Tensor, n: int) -> Tensor:
    """(N, n) largest logits of each row, in falling order, within the bounds of what g takes."""
    return logits.topk(n, 1).values.clamp(-LARGEST, LARGEST)


def n_parameters(sizes: Sequence[int]) -> int:
    """How many weights and biases the network of these layers has."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def layers(x: Tensor, sizes: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Weights (out, in) and biases (out,) of each layer, as views of the parameters (P,)."""
    parts = x.split([n for inputs, outputs in pairwise(sizes) for n in (inputs * outputs, outputs)])
    return [(w.view(-1, inputs), b) for w, b, inputs in zip(parts[::2], parts[1::2], sizes[:-1], strict=True)]


def network(x: Tensor, inputs: Tensor, sizes: Sequence[int], activation: Callable[[Tensor], Tensor]) -> Tensor:
    """(n,) output of the fully connected network with parameters x (P,) on inputs (s, n)."""
    *hidden, (weight, bias) = layers(x, sizes)
    for w, b in hidden:
        inputs = activation(w @ inputs + b[:, None])
    return (weight @ inputs + bias[:, None])[0]


def _start(sizes: Sequence[int], seed: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Parameters (P,) whose output is 1, with random hidden layers, and 1 for each weight, 0 for each bias."""
    generator = torch.Generator().manual_seed(seed)
    x, is_weight = torch.zeros(2, n_parameters(sizes), dtype=torch.float64, device="cpu")
    for (weight, _), (mask, _) in zip(layers(x, sizes), layers(is_weight, sizes), strict=True):
        weight.normal_(0.0, weight.shape[1] ** -0.5, generator=generator)
        mask.fill_(1.0)
    weight, bias = layers(x, sizes)[-1]
    weight.zero_()
    bias.fill_(1.0)
    return x.to(like.device), is_weight.to(like.device)


def _replay(objective: Objective, logits: Tensor, labels: Tensor, sizes: Sequence[int]) -> Tensor:
    """Parameters that the public code of class-wise loss scaling ends with: torch's own start from seed 1, and Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        modules = [torch.nn.Linear(*shape, dtype=torch.float32) for shape in pairwise(sizes)]
    parameters = [p.detach().to(logits.device).requires_grad_() for m in modules for p in (m.weight, m.bias)]

    def forward(z: Tensor) -> Tensor:
        t = z.sort(descending=True).values[:, : sizes[0]]
        for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            t = torch.relu(torch.nn.functional.linear(t, weight, bias))
        return z / torch.nn.functional.linear(t, *parameters[-2:])

    sctl_replay.replay(objective, logits, labels, forward, parameters, adam=True)
    return torch.cat([p.detach().flatten() for p in parameters]).double()
