"""A network and its calibrator as one module: run it, move it, save it, export it, write it as ONNX."""

from __future__ import annotations

import os
import warnings
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from calibkit._arrays import two_columns
from calibkit._checks import are_probs, check_choice, could_be_probs, expected
from calibkit._extras import needs
from calibkit._files import write_atomic
from calibkit.calibrators import Calibrator, NeuralClamping
from calibkit.fitting.base import Fitted, check_shape, without_autocast
from calibkit.fitting.interpolate import first_by_logits
from calibkit.fitting.network import frozen
from calibkit.fitting.own import OWN

PREFIX = "fitted_"  # of the buffers: a module has attributes of its own, such as ``parameters``
HALF = (torch.float16, torch.bfloat16)
LOOK = 64  # rows, which show most logits to be none but logits
PROBABILITIES = "rows in [0, 1] that sum to 1; leave its softmax out"
BATCH = torch.export.Dim("batch")
LARGEST_ONNX = 1 << 31  # bytes that one file can hold


class CalibratedModel(nn.Module):
    r"""A network that gives calibrated probabilities: :math:`p = c(f(x))`, or :math:`p = c(f(x + \delta))`.

    It is called as ``model`` is. What was fitted becomes buffers in float64: they move with ``.to(device)``, are in
    ``state_dict()`` and load into a module of the same network and kind of calibrator, but not of a class of your own.
    The map is the calibrator's own, and goes through ``torch.compile`` and ``torch.export``.

    The network keeps its mode, here and in every call. Probabilities are for evaluation: call ``eval()`` first.

    Args:
        model: gives logits (N, K), or (N, K, ...) of N images with a class for each of their pixels; K as in ``fit``.
            Of two classes it may give those of class 1 alone, (N,) or (N, 1, ...), and then gets its probabilities.
        calibrator: fitted, of ``CALIBRATORS`` or a ``Calibrator`` of your own; copied, so a later ``fit`` of it changes
            nothing here. Neural Clamping adds its perturbation to the first input.
        dtype: to compute in and to give, float32 or float64. None (default) is that of the logits, with half precision
            as float32. Histogram binning, isotonic regression and the spline then look up in float64: next to 1 float32
            cannot tell apart probabilities on which they differ, so with float32 they may be off by a whole step.

    Returns:
        Probabilities in the shape of the logits, which sum to 1 over axis 1. With ``dtype=torch.float64`` they are the
        calibrator's; in float32 to 1e-6, where calibrated logits are below 10 or so: an error is a few times the
        rounding of the largest one, 6e-8 of it.

    Raises:
        ValueError: no module, or no such calibrator; in a call, anything but such logits, or images of another shape.
            Probabilities are told from logits by two rows and more, on the CPU, and not in what is compiled.
        RuntimeError: a calibrator that is not fitted.

    Example:
        >>> import numpy as np
        >>> from calibkit import TemperatureScaling
        >>> ts = TemperatureScaling().fit(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
        >>> network = nn.Linear(1, 2, bias=False).eval()
        >>> _ = network.load_state_dict({"weight": torch.tensor([[2.0], [0.0]])})
        >>> calibrated = CalibratedModel(network, ts)
        >>> calibrated(torch.ones(1, 1)).detach().numpy().round(6).tolist()
        [[0.75, 0.25]]
        >>> list(calibrated.state_dict())
        ['model.weight', 'calibration.fitted_n_classes', 'calibration.fitted_temperature']
    """

    def __init__(self, model: nn.Module, calibrator: Fitted, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise expected("model", "a torch.nn.Module", type(model).__name__)
        self.model, self.calibration = model, Calibration(calibrator, dtype)
        self.training = model.training
        place = next((tensor.device for tensor in chain(model.parameters(), model.buffers())), None)
        self.calibration.to(place)

    def forward(self, *inputs: object, **options: object) -> Tensor:
        """Probabilities for what ``model`` takes."""
        return self.calibration(self.model(*self.calibration.perturb(inputs), **options))

    def save_onnx(self, path: str | os.PathLike, *inputs: Tensor) -> Path:
        """Write the module, in evaluation mode, as one ONNX file, whole or not at all; returns the path.

        The file takes batches of any size, whatever that of the example. Its inputs are ``input_0``, ``input_1``, ...,
        its output is ``probs``. Needs the extra ``deploy``, and torch 2.5 or later.

        Args:
            path: of the file.
            inputs: example tensors, batch first, as the module is called with; their values do not matter.

        Raises:
            ValueError: other inputs, an older torch, or 2 GB of weights and more, which no ONNX file can hold.
            ModuleNotFoundError: without onnx or onnxscript.
        """
        with needs("deploy"):
            import onnx
            import onnxscript  # noqa: F401 (what torch writes ONNX with)
        if torch.__version__ < (2, 5):
            raise expected("torch", "2.5 or later to write ONNX", torch.__version__)
        size = sum(tensor.nbytes for tensor in self.state_dict().values())
        if size >= LARGEST_ONNX:
            raise expected("model", f"of fewer than {LARGEST_ONNX:,} bytes, as one ONNX file is", f"{size:,}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch warns of what it does itself
            program = export(self, *inputs).run_decompositions({torch.ops.aten.searchsorted.Tensor: searchsorted})
            written = torch.onnx.export(
                program,
                input_names=[f"input_{i}" for i in range(len(inputs))],
                output_names=["probs"],
                dynamic_shapes=[{0: BATCH}, *[None] * (len(inputs) - 1)],  # its name, which all share
                dynamo=True,
                optimize=False,  # it drops factors within 1e-5 of 1, such as those that break ties
                verbose=False,
            )
        return write_atomic(path, lambda stream: onnx.save_model(written.model_proto, stream))


class Calibration(nn.Module):
    """Logits to probabilities: the map of a calibrator that finds what was fitted in the buffers of this module."""

    def __init__(self, calibrator: Fitted, dtype: torch.dtype | None) -> None:
        super().__init__()
        if not isinstance(calibrator, Calibrator | NeuralClamping):
            raise expected("calibrator", "one of CALIBRATORS or a Calibrator", type(calibrator).__name__)
        for name, value in calibrator.state_dict().items():  # of a class of one's own not numbers alone
            if name not in calibrator.reported and value.dtype.kind in "biuf":
                self.register_buffer(PREFIX + name, torch.from_numpy(value.copy()))
        if calibrator.floor is not None:  # so that a state of a fit to probabilities is none of a fit to logits
            self.register_buffer(f"{PREFIX}floor", torch.tensor(calibrator.floor, dtype=torch.float64))
        self.kind, self.n_classes = type(calibrator), calibrator.n_classes
        self.given = {name: value for name, value in vars(calibrator).items() if name not in calibrator.state}
        self.dtype = check_choice("dtype", dtype, (None, torch.float32, torch.float64))
        self.text = repr(self.kind(**calibrator.options()))
        self._view = view_of(self.kind)

    def perturb(self, inputs: tuple) -> tuple:
        """The inputs as the network is to see them."""
        if not issubclass(self.kind, NeuralClamping):
            return inputs
        images, *others = inputs or (None,)
        if not isinstance(images, Tensor) or not images.is_floating_point():
            got = f"dtype {images.dtype}" if isinstance(images, Tensor) else type(images).__name__
            raise expected("images", "floating point, normalised as the model takes them", got)
        return images + self._calibrator()._delta(images, images.device, images.dtype), *others

    def forward(self, logits: Tensor) -> Tensor:
        """Probabilities over axis 1 of logits (N, K, ...), or of class 1 alone."""
        self._check(logits)
        given = torch.float32 if logits.dtype in HALF else logits.dtype
        one = self._is_one_column(logits)
        images = two_columns(logits.reshape(-1), probs=False) if one else logits.movedim(1, -1)
        rows = images.reshape(-1, self.n_classes)
        with without_autocast(logits.device.type):
            z = rows.to(self.dtype or (torch.float64 if self.kind.looks_up else given))
            if not one and _show_probs(rows):
                raise expected("model", "a network that gives logits, from before the softmax", PROBABILITIES)
            probs = self._calibrator()._probs(z if self.given.get("floor") is None else z.log_softmax(1))
            probs = probs.to(self.dtype or given)  # which may make ties
            probs = first_by_logits(probs, rows) if self.kind.keeps_predictions else probs
        probs = probs.view(images.shape).movedim(-1, 1)
        return probs[:, 1].view(logits.shape) if one else probs

    def _is_one_column(self, logits: Tensor) -> bool:
        """Whether they are those of the second of two classes: (N,), or (N, 1, ...)."""
        return self.n_classes == 2 and (logits.ndim == 1 or logits.shape[1:2] == (1,))

    def _check(self, logits: object) -> None:
        wanted = f"a network that gives logits of shape (N, {self.n_classes}) or (N, {self.n_classes}, ...)"
        if not isinstance(logits, Tensor):
            raise expected("model", wanted, f"{type(logits).__name__}; wrap it in a module that picks them out")
        if logits.shape[1:2] != (self.n_classes,) and not self._is_one_column(logits):
            raise expected("model", wanted, f"shape {tuple(logits.shape)}")
        if logits.dtype not in (torch.float32, torch.float64, *HALF):
            raise expected("model", "a network that gives floats of 16 bits or more", f"dtype {logits.dtype}")
        if logits.layout != torch.strided or logits.device.type == "meta":
            raise expected("model", "a network that gives dense logits", f"{logits.layout} on {logits.device}")

    def _calibrator(self) -> Fitted:
        """The calibrator, with the buffers as its fitted attributes."""
        fitted = {name: getattr(self, PREFIX + name) for name in self.kind.state if name not in self.kind.reported}
        return self._view({**self.given, **fitted})

    def extra_repr(self) -> str:
        """Class and options of the calibrator."""
        return self.text

    def __getstate__(self) -> dict:
        """Without the view, a class that only exists here."""
        return {name: value for name, value in self.__dict__.items() if name != "_view"}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._view = view_of(self.kind)

    def _apply(self, fn, *args, **kwargs):
        """Move the buffers, but round none to half precision, nor what is looked up in float64 to float32."""

        def apply(x: Tensor) -> Tensor:
            moved = fn(x)
            return x.to(moved.device) if self.kind.looks_up or moved.dtype in HALF else moved

        return super()._apply(apply, *args, **kwargs)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors) -> None:
        """Take what is loaded in its own shape: how many nodes isotonic regression has is up to the data."""
        given = torch.as_tensor(state_dict.get(f"{prefix}{PREFIX}n_classes", self.n_classes))
        if given.shape or given.item() != self.n_classes:
            got = f"shape {tuple(given.shape)} of their number" if given.shape else given.item()
            errors.append(str(expected("state_dict", f"that of a calibrator of {self.n_classes} classes", got)))
            return
        calibrator, lengths = self._calibrator(), {}
        shapes = calibrator._shapes(self.n_classes)
        loaded = {name: state_dict[prefix + name] for name, _ in self.named_buffers() if prefix + name in state_dict}
        for name, value in loaded.items():
            if (entry := name.removeprefix(PREFIX)) in shapes:
                try:
                    check_shape(prefix + name, value, shapes[entry], lengths)
                    calibrator._check_state(entry, value.numpy(force=True))
                except ValueError as error:
                    errors.append(str(error))
                    return
            elif entry.startswith(OWN) and not torch.equal(value.cpu(), getattr(self, name).cpu()):
                want = "that of the calibrator in the module, where its class is your own; make a module of the other"
                errors.append(str(expected("state_dict", want, f"another {prefix}{name}")))
                return
        for name, value in loaded.items():
            self.register_buffer(name, getattr(self, name).new_empty(value.shape))
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


def _show_probs(rows: Tensor) -> bool:
    """Whether rows are probabilities; False where a look at them takes time, or a compiler has only a stand-in."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or type(rows) is not Tensor or rows.device.type != "cpu":
        return False
    try:
        return could_be_probs(rows[:LOOK]) and are_probs(rows)
    except RuntimeError:  # of vmap, where values decide nothing
        return False


def view_of(kind: type[Fitted]) -> type[Fitted]:
    """``kind`` that is made of its attributes as they are, in a way that every torch.compile follows."""

    def init(self, attributes: dict) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    return type(kind.__name__, (kind,), {"__init__": init})


def export(module: nn.Module, *inputs: Tensor) -> torch.export.ExportedProgram:
    """``torch.export`` of a module in evaluation mode, which is left as it was, for batches of any size."""
    if not inputs or not all(isinstance(x, Tensor) and x.ndim and len(x) for x in inputs):
        raise expected("inputs", "tensors, batch first", [type(x).__name__ for x in inputs])
    two = tuple(torch.cat([x[:1], x[:1]]) for x in inputs)  # a batch of one would be taken for a constant
    with frozen(module):
        with torch.no_grad():
            module(*two)  # refuses what a stand-in for the values does not show
        return torch.export.export(module, two, dynamic_shapes=(tuple({0: BATCH} for _ in two),), strict=False)


def searchsorted(
    nodes: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """``torch.searchsorted`` by halving steps, for ONNX, which has no such operator."""
    nodes = nodes if sorter is None else nodes.gather(-1, sorter)
    n_nodes, count = nodes.shape[-1], torch.zeros_like(x, dtype=torch.int32 if out_int32 else torch.int64)
    for bit in reversed(range(n_nodes.bit_length())):
        more = count + (1 << bit)
        last = more.long().clamp(max=n_nodes) - 1
        node = nodes[last] if nodes.ndim == 1 else nodes.gather(-1, last)
        passed = node <= x if right or side == "right" else node < x
        count = torch.where(passed & (more <= n_nodes), more, count)
    return count
