"""What is deployed gives the calibrator's probabilities: for every calibrator, in every form that a module can take."""

import copy
import math
import os
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from calibkit import Calibrator, HistogramBinning, NeuralClamping, Spline, TemperatureScaling
from calibkit.calibrators import CALIBRATORS
from calibkit.deploy import CalibratedModel, export, searchsorted

K = 5
GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
needs_exporter = pytest.mark.skipif(torch.__version__ < (2, 5), reason="torch 2.4 writes no exported program as ONNX")


class Passing(nn.Module):
    """A network that gives what it takes, so that its logits are known, and has a weight to be placed by."""

    def __init__(self):
        super().__init__()
        self.one = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.one * x


@pytest.fixture(scope="module")
def net():
    return Passing().eval()


@pytest.fixture(scope="module")
def sample():
    """(600, 5) float32 logits 2.5 times too large, and their labels."""
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(600, K))
    return torch.from_numpy(2.5 * true).float(), torch.from_numpy((true + rng.gumbel(size=true.shape)).argmax(1))


@pytest.fixture(scope="module")
def fitted(sample, net):
    """name -> calibrator and what it gives on the sample, in float64."""
    cache = {}

    def fit(name):
        if name not in cache:
            if name == "neural_clamping":
                clamping = NeuralClamping(epochs=2).fit(net, *sample)
                cache[name] = clamping, clamping(net, sample[0])
            else:
                calibrator = CALIBRATORS[name]().fit(*sample)
                cache[name] = calibrator, calibrator(sample[0])
        return cache[name]

    return fit


def close(probs, want, atol=1e-6):
    np.testing.assert_allclose(probs.detach().double().cpu().numpy(), want.numpy(), rtol=0, atol=atol)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_probabilities_of_the_calibrator(name, net, sample, fitted):
    calibrator, want = fitted(name)
    probs = CalibratedModel(net, calibrator)(sample[0])
    assert probs.dtype == torch.float32
    close(probs, want)
    close(probs.sum(1), torch.ones(600))
    exact = CalibratedModel(net, calibrator, dtype=torch.float64)(sample[0])
    assert exact.dtype == torch.float64
    close(exact, want, atol=1e-14)


def test_by_hand(net):
    """3 of 4 right at a gap of 2: T = 2 / ln 3, and a gap of 4 is then one of ln 9."""
    ts = TemperatureScaling().fit(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
    model = CalibratedModel(net, ts)
    assert model.calibration.fitted_temperature.item() == pytest.approx(2 / math.log(3), rel=1e-9)
    close(model(torch.tensor([[2.0, 0.0], [0.0, 4.0]])), torch.tensor([[0.75, 0.25], [0.1, 0.9]]))


@pytest.mark.parametrize("name", CALIBRATORS)
def test_logits_of_pixels(name, net, sample, fitted):
    """(N, K, H, W): each pixel is a row."""
    calibrator, _ = fitted(name)
    dense = sample[0].view(10, 12, 5, K).permute(0, 3, 1, 2)
    if name == "neural_clamping":  # what it adds has the shape of one input
        state = calibrator.state_dict()
        delta = np.random.default_rng(0).normal(size=(K, 12, 5))
        calibrator = NeuralClamping().load_state_dict({**state, "delta": delta})
        want = ((dense.double() + torch.from_numpy(delta)) / calibrator.temperature).softmax(1)
    else:
        want = calibrator(sample[0]).view(10, 12, 5, K).permute(0, 3, 1, 2)
    probs = CalibratedModel(net, calibrator)(dense)
    assert probs.shape == dense.shape
    close(probs, want)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_export_takes_any_batch_size(name, net, sample, fitted):
    calibrator, want = fitted(name)
    model = CalibratedModel(net, calibrator)
    batch = torch.export.Dim("batch")
    for strict in (False, True):
        program = torch.export.export(model, (sample[0][:4],), dynamic_shapes=(({0: batch},),), strict=strict)
        assert set(program.state_dict) == set(model.state_dict())
        for n in (2, 600):
            close(program.module()(sample[0][:n]), want[:n])


@pytest.mark.parametrize("name", CALIBRATORS)
def test_compile_without_a_break(name, net, sample, fitted):
    calibrator, want = fitted(name)
    torch._dynamo.reset()
    compiled = torch.compile(CalibratedModel(net, calibrator), backend="aot_eager", fullgraph=True)
    for n in (3, 600):
        close(compiled(sample[0][:n]), want[:n])


@needs_exporter
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a temporary folder of torch 2.5
@pytest.mark.parametrize("name", [n for n in CALIBRATORS if n not in ("identity", "ms_odir", "matrix_scaling")])
def test_onnx_takes_any_batch_size(name, net, sample, fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    calibrator, want = fitted(name)
    model = CalibratedModel(net, calibrator)
    path = model.save_onnx(tmp_path / "new" / "model.onnx", sample[0][:1])
    assert os.listdir(path.parent) == ["model.onnx"]
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for n in (1, 3, 600):
        probs = session.run(["probs"], {"input_0": sample[0][:n].numpy()})[0]
        assert probs.dtype == np.float32
        close(torch.from_numpy(probs), want[:n])


class Sum(nn.Module):
    """Two inputs and an option."""

    def forward(self, x, y, *, scale=1.0):
        return scale * (x + y)


@needs_exporter
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_several_inputs_and_options_go_to_the_network(sample, fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    calibrator, want = fitted("temperature_scaling")
    model, half = CalibratedModel(Sum().eval(), calibrator), sample[0] / 2
    close(model(half, half), want)
    close(model(half / 2, y=half / 2, scale=2.0), want)
    path = model.save_onnx(tmp_path / "model.onnx", half[:3], half[:3])
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    close(torch.from_numpy(session.run(None, {"input_0": half.numpy(), "input_1": half.numpy()})[0]), want)


@needs_exporter
def test_onnx_refusals_leave_no_file(net, sample, fitted, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    model = CalibratedModel(net, fitted("identity")[0])
    for inputs in ((), (sample[0].numpy(),), (sample[0][:0],)):
        with pytest.raises(ValueError, match="Expected `inputs` to be tensors, batch first, but got"):
            model.save_onnx(tmp_path / "model.onnx", *inputs)
    monkeypatch.setattr("calibkit.deploy.LARGEST_ONNX", 10)
    with pytest.raises(ValueError, match="Expected `model` to be of fewer than 10 bytes, as one ONNX file is, but got"):
        model.save_onnx(tmp_path / "model.onnx", sample[0])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", CALIBRATORS)
def test_state_dict_into_a_fresh_module(name, net, sample, fitted, tmp_path):
    """One that was fitted on other data, so that what it holds is of other sizes; what moves a module moves it too."""
    calibrator, want = fitted(name)
    model = CalibratedModel(net, calibrator)
    z, y = sample[0][::3], sample[1][::3]
    other = NeuralClamping(epochs=1).fit(net, z, y) if name == "neural_clamping" else CALIBRATORS[name]().fit(z, y)
    fresh = CalibratedModel(Passing().eval(), other)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for twin in (fresh, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(twin(sample[0]), want)
    assert repr(twin) == repr(model)


def test_a_state_of_other_classes_is_refused(net, sample, fitted):
    other = TemperatureScaling().fit(sample[0][:, :4], sample[1].clamp(max=3))
    with pytest.raises(RuntimeError, match="Expected `state_dict` to be that of a calibrator of 4 classes, but got 5"):
        CalibratedModel(net, other).load_state_dict(CalibratedModel(net, fitted("temperature_scaling")[0]).state_dict())


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("device", DEVICES)
def test_moves(name, device, sample, fitted):
    """Buffers go where the network is, and keep their precision where it has half."""
    calibrator, want = fitted(name)
    model = CalibratedModel(Passing().eval().to(device), calibrator)
    assert {x.device.type for x in model.state_dict().values()} == {device}
    z = sample[0].to(device)
    close(model(z), want)
    exact = device == "cpu" and name != "neural_clamping"  # whose network ran in float32
    close(model.double()(z.double()), want, atol=1e-14 if exact else 1e-6)
    for dtype in (torch.float16, torch.bfloat16):
        rounded = z.to(dtype)
        want = calibrator(rounded.float()) if isinstance(calibrator, Calibrator) else None
        probs = model.to(dtype)(rounded)
        assert probs.dtype == torch.float32
        if want is not None:
            close(probs, want.cpu())
    assert model.model.one.dtype == torch.bfloat16
    assert all(x.dtype != torch.bfloat16 for x in model.calibration.buffers())


def test_autocast_does_not_round_the_map(net, sample, fitted):
    calibrator, want = fitted("matrix_scaling")
    with torch.autocast("cpu", torch.bfloat16):
        close(CalibratedModel(net, calibrator)(sample[0]), want)


def test_what_is_looked_up_next_to_1_is_told_apart(net):
    """Float32 rounds 1 - 1e-9 and 1 - 1e-8 to 1; the frequencies there differ."""
    gaps = torch.linspace(17.0, 25.0, 400)
    z = torch.stack([gaps, torch.zeros(400)], 1)
    y = (torch.arange(400) % 2) * (gaps < 21)  # half are right below the middle, all above it
    spline = Spline().fit(z, y.long())
    close(CalibratedModel(net, spline)(z), spline(z))
    rounded = CalibratedModel(net, spline, dtype=torch.float32)(z)
    assert abs(rounded.double() - spline(z)).max() > 0.2


def test_the_network_keeps_its_mode_and_the_calibrator_is_copied(sample):
    net = nn.Sequential(Passing(), nn.Dropout(0.5))
    ts = TemperatureScaling().fit(*sample)
    for training in (True, False):
        net.train(training)
        model = CalibratedModel(net, ts)
        assert [m.training for m in model.modules() if isinstance(m, nn.Dropout)] == [training] == [model.training]
        if training and torch.__version__ >= (2, 5):
            export(model, sample[0])
        assert net.training == net[1].training == training
    before = model(sample[0])
    ts.temperature = 9.0
    assert torch.equal(model(sample[0]), before)
    assert not list(model.calibration.parameters())


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (lambda x: (x, x), "tuple; wrap it in a module that picks them out"),
        (lambda x: {"out": x}, "dict; wrap it in a module that picks them out"),
        (lambda x: x[:, :4], r"shape \(600, 4\)"),
        (lambda x: x[0], r"shape \(5,\)"),
        (lambda x: x.long(), "dtype torch.int64"),
    ],
    ids=["tuple", "dict", "4 classes", "1-d", "integers"],
)
def test_networks_that_give_anything_else(output, got, sample, fitted):
    net = Passing()
    net.forward = output
    with pytest.raises(ValueError, match=rf"Expected `model` to be a network that gives .*, but got {got}"):
        CalibratedModel(net, fitted("temperature_scaling")[0])(sample[0])


def test_refusals(net, sample, fitted):
    for cls in CALIBRATORS.values():
        with pytest.raises(RuntimeError, match=f"Expected `{cls.__name__}` to be fitted, but got no call of fit"):
            CalibratedModel(net, cls())
    ts, clamping = fitted("temperature_scaling")[0], fitted("neural_clamping")[0]
    for arguments, message in [
        ((net.forward, ts), "Expected `model` to be a torch.nn.Module, but got method"),
        ((net, lambda z: z), "Expected `calibrator` to be one of CALIBRATORS or a Calibrator, but got function"),
    ]:
        with pytest.raises(ValueError, match=message):
            CalibratedModel(*arguments)
    with pytest.raises(ValueError, match="Expected `dtype` to be one of None, torch.float32, torch.float64"):
        CalibratedModel(net, ts, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"Expected `images` to be of shape \(N, 5\), but got \(600, 3\)"):
        CalibratedModel(net, clamping)(sample[0][:, :3])
    with pytest.raises(ValueError, match="Expected `images` to be floating point"):
        CalibratedModel(net, clamping)(sample[0].long())


def test_options_are_kept(net, sample):
    """Those that the map depends on."""
    for calibrator in (HistogramBinning(n_bins=4), CALIBRATORS["ets"](solver="sctl"), CALIBRATORS["pts"](top_k=2)):
        calibrator.fit(*sample)
        model = CalibratedModel(net, calibrator)
        close(model(sample[0]), calibrator(sample[0]))
        assert repr(type(calibrator)(**calibrator.options())) in repr(model)


class Mixture(Calibrator):
    """One of a user's own: a number and an array, which ``as_vector`` need not read."""

    state = ("share", "prior")

    def _fit(self, logits, labels):
        self.share, self.prior = 0.25, np.full(logits.shape[1], 1 / logits.shape[1])

    def _probs(self, logits):
        return (1 - self.share) * logits.softmax(1) + self.share * torch.as_tensor(self.prior).to(logits)


def test_a_calibrator_of_your_own(net, sample):
    mixture = Mixture().fit(*sample)
    probs = CalibratedModel(net, mixture)(sample[0])
    assert probs.dtype == torch.float32
    close(probs, 0.75 * sample[0].double().softmax(1) + 0.05)


@pytest.mark.parametrize("m", [1, 2, 7, 8, 9])
def test_searchsorted_is_that_of_torch(m):
    rng = np.random.default_rng(m)
    nodes = torch.from_numpy(np.sort(rng.integers(0, 6, (3, m)).astype(float), 1))
    x = torch.from_numpy(rng.integers(-1, 8, (3, 40)) / 1.0)
    for options in ({}, {"right": True}, {"side": "right"}, {"out_int32": True}):
        for row in (nodes, nodes[0]):
            torch.testing.assert_close(searchsorted(row, x, **options), torch.searchsorted(row, x, **options))
    order = torch.from_numpy(rng.permuted(np.tile(np.arange(m), (3, 1)), axis=1))
    shuffled = torch.empty_like(nodes).scatter_(1, order, nodes)
    assert torch.equal(searchsorted(shuffled, x, sorter=order), torch.searchsorted(nodes, x))
