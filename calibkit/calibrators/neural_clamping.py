"""Neural Clamping: one perturbation for all inputs and one temperature, learned together on held-out images."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from calibkit import objectives
from calibkit._checks import Array, check_choice, check_flag, check_int, check_labels, check_real, expected, like
from calibkit.fitting import network
from calibkit.fitting.base import Fitted, without_autocast
from calibkit.fitting.network import Range, entropy_gradient, theorem_delta
from calibkit.fitting.temperature import fit_temperature, softmax_at

__all__ = ["NeuralClamping", "entropy_gradient", "theorem_delta"]

#: What the authors' demonstration minimises.
FOCAL = objectives.Focal(gamma=1.0)
#: Of the last epoch: so many times the loss of the first and one nat more are no noise of a descent.
DIVERGED = 10.0


class NeuralClamping(Fitted):
    r"""Joint input-output calibration: logits :math:`f(x + \delta) / T` with one delta and one T for all inputs.

    .. math:: \min_{\delta, T}\; \frac1n \sum_i \ell\big(f(x_i + \delta) / T, y_i\big) + \lambda \lVert\delta\rVert_2^2

    with the focal loss :math:`\ell`, by stochastic gradient descent from T = 1 (eq. 9 and Algorithm 1). The network's
    weights are fixed. With delta = 0 it is temperature scaling. It needs the network, not only its logits, so ``fit``
    and the call take ``(model, images)``; any ``nn.Module`` that gives logits (N, K), on any device, will do.

    Args:
        objective: what is minimised on the held-out images; a name of ``OBJECTIVES`` or such an object. Default: focal
            loss with gamma 1, the value of the authors' demonstration; ``"nll"`` is the paper's NC (CE). The paper
            chooses gamma in 0.01 ... 5 by the ECE of the calibration set (Sec. 4.1).
        weight: lambda. The paper chooses it in 0.001 ... 10 by calibration ECE; 0.01 as in the authors' demonstration.
        variant: "paper" penalises the squared norm of delta (eq. 9), "code" the norm, as the authors' code does. The
            norm has a gradient of constant length, so a moderate ``weight`` pulls delta to 0; hence the default.
        init: of delta. "random": normal with standard deviation ``std``; "theorem": Theorem 1's from the gradient of
            the entropy at T = 1, which needs ``input_range``; "zero".
        std: of the random start; 0.1, from "variance = 0.01" in Appendix A (the authors' code has 0.01).
        input_range: (alpha, beta) that an input may have, after normalisation; each a number or one a channel, kept as
            floats.
        lr: of SGD; 1e-3 (Sec. 4.1).
        momentum: of SGD; 0.9 as in the authors' code, the paper does not say.
        batch_size: images a step, and in every forward pass; 512 (Sec. 4.1).
        epochs: passes over the images; 100 (Sec. 4.1). 0 leaves delta where it starts.
        exact_temperature: replace SGD's T by the one that minimises the objective for the final delta, found to
            machine precision. Without it T is where SGD stopped, as in the paper.
        seed: of the random start and of the order of the images.

    Attributes:
        delta: fitted perturbation, float64, the shape of one image; it is added after normalisation.
        temperature: fitted T.
        loss_curve: (epochs,) mean of objective plus penalty over the steps of each epoch.

    Raises:
        ValueError: an impossible option; in ``fit``, a ``lr`` with which SGD diverges, to numbers that are not finite,
            to T <= 0 or to ten times the loss of the first epoch plus 1; or a model that gives anything but a tensor
            (N, K). The model is left as it was found, also then.

    Paper: Tang, Chen and Ho, "Neural Clamping: Joint Input Perturbation and Temperature Scaling for Neural Network
    Calibration".
    Differs from the paper: the loss is the mean over images, where eq. 9 prints the sum (its lambda is n times ours;
    the authors' code takes the mean too), and T is exact by default. Differs from the authors' code: no augmentation
    of the calibration images, Theorem 1 as printed (the code's data-driven start uses the gradient of the summed
    logits, without sign and bounds).

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> images = torch.randn(200, 3, generator=generator, dtype=torch.float64)
        >>> labels = (images[:, 0] + torch.randn(200, generator=generator) > 0).long()
        >>> model = nn.Linear(3, 2).double()
        >>> with torch.no_grad():
        ...     _ = model.weight.copy_(torch.tensor([[-3.0, 0, 0], [3, 0, 0]])), model.bias.zero_()
        >>> clamping = NeuralClamping(epochs=5).fit(model, images, labels)
        >>> clamping.delta.shape, clamping.temperature > 2     # over-confident: softened
        ((3,), True)
        >>> clamping(model, images).shape
        torch.Size([200, 2])
    """

    state, reported = ("delta", "temperature", "loss_curve"), ("loss_curve",)
    shapes = {"temperature": ()}

    def __init__(
        self,
        objective: objectives.SmoothName | objectives.Objective = FOCAL,
        *,
        weight: float = 0.01,
        variant: Literal["paper", "code"] = "paper",
        init: Literal["random", "theorem", "zero"] = "random",
        std: float = 0.1,
        input_range: Range | None = None,
        lr: float = 1e-3,
        momentum: float = 0.9,
        batch_size: int = 512,
        epochs: int = 100,
        exact_temperature: bool = True,
        seed: int = 0,
    ) -> None:
        self.objective = objectives.get(objective, smooth=True)
        self.weight = check_real("weight", weight, 0.0)
        self.variant = check_choice("variant", variant, ("paper", "code"))
        self.init = check_choice("init", init, ("random", "theorem", "zero"))
        self.std = check_real("std", std, 0.0)
        if init == "theorem" and input_range is None:
            raise expected("input_range", 'a pair (alpha, beta) for init="theorem"', None)
        self.input_range = None if input_range is None else network.check_range(input_range)
        self.lr = check_real("lr", lr, 0.0, open_low=True)
        self.momentum = check_real("momentum", momentum, 0.0, 1.0)
        self.batch_size = check_int("batch_size", batch_size, 1)
        self.epochs = check_int("epochs", epochs, 0)
        self.exact_temperature = check_flag("exact_temperature", exact_temperature)
        self.seed = check_int("seed", seed, 0, 2**63)
        super().__init__()

    @torch.inference_mode(False)
    def fit(self, model: nn.Module, images: Array, labels: Array | None = None) -> Self:
        """Fit delta and T on held-out images (N, ...), normalised as the model takes them, and labels (N,).

        Returns self. Inside ``torch.inference_mode`` and ``torch.autocast`` it is the same as outside. All three must
        be given: of ``fit(logits, labels)``, as other calibrators have it, ValueError tells.
        """
        x = network.check_images(model, images)
        x = x.clone() if x.is_inference() else x
        device, dtype = network.place(model, x)
        with without_autocast(device.type):
            self._fit(model, x, labels, device, dtype)
        return self

    def _fit(self, model: nn.Module, x: Tensor, labels: Array | None, device: torch.device, dtype: torch.dtype) -> None:
        """Set the fitted attributes from checked images; ``device`` and ``dtype`` are those of the model."""
        n_classes = network.forward(model, x[: self.batch_size]).shape[1]
        y = check_labels(labels, len(x), n_classes, device)
        generator = torch.Generator().manual_seed(self.seed)
        delta = self._start(model, x, generator).to(device, dtype).requires_grad_()
        temperature = torch.ones((), dtype=torch.float64, device=device, requires_grad=True)
        with network.frozen(model), torch.enable_grad():
            curve = self._descend(model, x, y, delta, temperature, generator)
        delta, temperature = delta.detach(), temperature.detach().item()
        rose = bool(curve) and not curve[-1] <= DIVERGED * (curve[0] + 1)
        if rose or not (torch.isfinite(delta).all() and temperature > 0.0):
            got = f"{self.lr}, which ends at T = {temperature:g}{f' and a loss of {curve[-1]:g}' if curve else ''}"
            raise expected("lr", "small enough for SGD to converge", got)
        if self.exact_temperature:
            temperature = fit_temperature(self.objective, network.forward(model, x, delta, self.batch_size), y)
        self.delta, self.temperature = delta.double().cpu().numpy(), float(temperature)
        self.loss_curve = np.asarray(curve)
        self._set_data(n_classes)

    def _start(self, model: nn.Module, x: Tensor, generator: torch.Generator) -> Tensor:
        if self.init == "theorem":
            return theorem_delta(entropy_gradient(model, x, batch_size=self.batch_size), x, self.input_range)
        scale = self.std if self.init == "random" else 0.0
        return scale * torch.randn(x.shape[1:], generator=generator, dtype=torch.float64, device="cpu")

    def _descend(
        self, model: nn.Module, x: Tensor, y: Tensor, delta: Tensor, temperature: Tensor, generator: torch.Generator
    ) -> list[float]:
        """Algorithm 1 on ``delta`` and ``temperature``, in place; the mean loss of each epoch."""
        optimizer = torch.optim.SGD([delta, temperature], self.lr, self.momentum)
        curve = []
        for _ in range(self.epochs):
            values = []
            for rows in torch.randperm(len(x), generator=generator, device="cpu").split(self.batch_size):
                images = x[rows.to(x.device)].to(delta.device, delta.dtype)
                z = network.run(model, images + delta).double() / temperature
                loss = self._loss(z, y[rows.to(y.device)])
                length = delta.square().sum() if self.variant == "paper" else torch.linalg.vector_norm(delta)
                value = loss + self.weight * length
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                values.append(value.detach())
            curve.append(torch.stack(values).mean().item())
        return curve

    def _loss(self, z: Tensor, y: Tensor) -> Tensor:
        """Value of the objective, with its gradient by z; its weights are held fixed, as everywhere."""
        ce = F.cross_entropy(z, y, reduction="none", label_smoothing=self.objective.smoothing)
        fixed = ce.detach()
        weights = self.objective.shares(fixed, y, z.shape[1])
        phi, slope, _ = self.objective.transform(fixed)
        return weights @ phi + (weights * slope) @ (ce - fixed)

    def logits(self, model: nn.Module, images: Array) -> Array:
        """Logits (N, K) of ``images + delta``, not divided by T; in the container and on the device of ``images``."""
        self.check_fitted()
        x = network.check_images(model, images)
        z = network.forward(model, x, self._delta(x, *network.place(model, x)), self.batch_size)
        if z.shape[1] != self.n_classes:
            raise expected("model", f"a classifier of {self.n_classes} classes as in fit()", z.shape[1])
        return like(z.to(x.device), images)

    def __call__(self, model: nn.Module, images: Array) -> Array:
        """Calibrated probabilities (N, K) in float64, in the container and on the device of ``images``."""
        z = torch.as_tensor(self.logits(model, images))
        return like(self._probs(z.double()), images)

    def _delta(self, images: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
        """What is added to ``images`` (N, ...), which must have its shape."""
        if images.shape[1:] != self.delta.shape:
            raise expected("images", f"of shape (N, {', '.join(map(str, self.delta.shape))})", f"{tuple(images.shape)}")
        return torch.as_tensor(self.delta, dtype=dtype, device=device)

    def _probs(self, logits: Tensor) -> Tensor:
        return softmax_at(logits, self.temperature)
