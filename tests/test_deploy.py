"""What is deployed gives the calibrator's probabilities: for every calibrator, however a module is used."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from deployed import NET, K, Passing, Y, Z, close, fitted
from drawn_logits import true_logits
from refusals import refused
from scipy.special import softmax
from torch import nn

from calibkit import Calibrator, HistogramBinning, NeuralClamping, Spline, TemperatureScaling
from calibkit.calibrators import CALIBRATORS
from calibkit.deploy import CalibratedModel, export
from calibkit.fitting.own import as_calibrator

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
#: One each: a number, a network of its own temperatures, a matrix, a look-up whose size is up to the data, images.
KINDS = ("temperature_scaling", "pts", "dir_odir", "isotonic", "neural_clamping")


@pytest.mark.parametrize("name", CALIBRATORS)
def test_probabilities_of_the_calibrator(name):
    calibrator, want = fitted(name)
    with pytest.raises(RuntimeError, match="Expected `.*` to be fitted, but got no call of fit"):
        CalibratedModel(NET, type(calibrator)())
    probs = CalibratedModel(NET, calibrator)(Z)
    assert probs.dtype == torch.float32
    close(probs, want)
    close(probs.sum(1), torch.ones(600))
    exact = CalibratedModel(NET, calibrator, dtype=torch.float64)(Z)
    assert exact.dtype == torch.float64
    close(exact, want, atol=1e-14)


def test_by_hand():
    """3 of 4 right at a gap of 2: T = 2 / ln 3, and a gap of 4 is then one of ln 9."""
    ts = TemperatureScaling().fit(np.array([[2.0, 0.0]] * 4), np.array([0, 0, 0, 1]))
    model = CalibratedModel(NET, ts)
    assert model.calibration.fitted_temperature.item() == pytest.approx(2 / math.log(3), rel=1e-9)
    close(model(torch.tensor([[2.0, 0.0], [0.0, 4.0]])), torch.tensor([[0.75, 0.25], [0.1, 0.9]]))


@pytest.mark.parametrize("name", KINDS)
def test_logits_of_pixels(name):
    """(N, K, H, W): each pixel is a row."""
    calibrator, _ = fitted(name)
    dense = Z.view(10, 12, 5, K).permute(0, 3, 1, 2)
    if name == "neural_clamping":  # what it adds has the shape of one input
        state = calibrator.state_dict()
        delta = np.random.default_rng(0).normal(size=(K, 12, 5))
        calibrator = NeuralClamping().load_state_dict({**state, "delta": delta})
        want = ((dense.double() + torch.from_numpy(delta)) / calibrator.temperature).softmax(1)
    else:
        want = calibrator(Z).view(10, 12, 5, K).permute(0, 3, 1, 2)
    probs = CalibratedModel(NET, calibrator)(dense)
    assert probs.shape == dense.shape
    close(probs, want)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_state_dict_into_a_fresh_module(name, tmp_path):
    """One that was fitted on other data, so that what it holds is of other sizes; what moves a module moves it too."""
    calibrator, want = fitted(name)
    model = CalibratedModel(NET, calibrator)
    z, y = Z[::3], Y[::3]
    other = NeuralClamping(epochs=1).fit(NET, z, y) if name == "neural_clamping" else CALIBRATORS[name]().fit(z, y)
    fresh = CalibratedModel(Passing().eval(), other)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for twin in (fresh, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        close(twin(Z), want)
    assert repr(twin) == repr(model)


def test_a_state_of_other_classes_or_shapes_is_refused():
    model = CalibratedModel(NET, fitted("temperature_scaling")[0])
    for name, odd, message in (
        ("n_classes", torch.tensor(4), "`state_dict` to be that of a calibrator of 5 classes, but got 4"),
        ("n_classes", torch.zeros(0), r"`state_dict` to be that of a calibrator of 5 classes, but got shape \(0,\)"),
        ("n_classes", torch.tensor([K]), r"`state_dict` to be that of a calibrator of 5 classes, but got shape \(1,\)"),
        ("temperature", torch.ones(K), r"`.*temperature` to be of shape \(\), but got shape \(5,\)"),
        ("temperature", torch.tensor(-2.0), "`temperature` to be positive, but got -2.0"),
        ("temperature", torch.tensor(math.nan), "`temperature` to be finite, but got NaN"),
    ):
        with pytest.raises(RuntimeError, match=f"Expected {message}"):
            model.load_state_dict(model.state_dict() | {f"calibration.fitted_{name}": odd})
    close(model(Z), fitted("temperature_scaling")[1])
    of_probs = copy.deepcopy(fitted("temperature_scaling")[0])
    of_probs.floor = 1e-4  # as after a fit to probabilities, which takes the log of what comes
    with pytest.raises(RuntimeError, match="Unexpected key.*fitted_floor"):
        model.load_state_dict(CalibratedModel(NET, of_probs).state_dict())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("device", DEVICES)
def test_moves(name, device):
    """Buffers go where the network is, and keep their precision where it has half."""
    calibrator, want = fitted(name)
    model = CalibratedModel(Passing().eval().to(device), calibrator)
    assert {x.device.type for x in model.state_dict().values()} == {device}
    z = Z.to(device)
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


@pytest.mark.parametrize("name", CALIBRATORS)
def test_nan_of_a_network_stays_in_its_row(name):
    calibrator, want = fitted(name)
    z = Z.clone()
    z[3] = torch.nan
    found = CalibratedModel(NET, calibrator)(z)
    assert not ((found[3] >= 0) & (found[3] <= 1)).all()
    close(found[4:], want[4:])


def test_autocast_does_not_round_the_map():
    calibrator, want = fitted("matrix_scaling")
    with torch.autocast("cpu", torch.bfloat16):
        close(CalibratedModel(NET, calibrator)(Z), want)


def test_what_is_looked_up_next_to_1_is_told_apart():
    """Float32 rounds 1 - 1e-9 and 1 - 1e-8 to 1; the frequencies there differ."""
    gaps = torch.linspace(17.0, 25.0, 400)
    z = torch.stack([gaps, torch.zeros(400)], 1)
    y = (torch.arange(400) % 2) * (gaps < 21)  # half are right below the middle, all above it
    spline = Spline().fit(z, y.long())
    close(CalibratedModel(NET, spline)(z), spline(z))
    rounded = CalibratedModel(NET, spline, dtype=torch.float32)(z)
    assert abs(rounded.double() - spline(z)).max() > 0.2


def test_the_network_keeps_its_mode_and_the_calibrator_is_copied():
    net = nn.Sequential(Passing(), nn.Dropout(0.5))
    ts = TemperatureScaling().fit(Z, Y)
    for training in (True, False):
        net.train(training)
        model = CalibratedModel(net, ts)
        assert [m.training for m in model.modules() if isinstance(m, nn.Dropout)] == [training] == [model.training]
        if training and torch.__version__ >= (2, 5):
            export(model, Z)
        assert net.training == net[1].training == training
    before = model(Z)
    ts.temperature = 9.0
    assert torch.equal(model(Z), before)
    assert not list(model.calibration.parameters())


def test_networks_that_give_anything_else():
    net = Passing()
    for net.forward, got in (
        (lambda x: (x, x), "tuple; wrap it in a module that picks them out"),
        (lambda x: x[:, :4], r"shape \(600, 4\)"),
        (lambda x: x[0], r"shape \(5,\)"),
        (lambda x: x.long(), "dtype torch.int64"),
        (lambda x: x.to(torch.float8_e5m2), "dtype torch.float8_e5m2"),
        (lambda x: x.numpy(), "ndarray; wrap it in a module that picks them out"),
        (lambda x: x.to_sparse(), "torch.sparse_coo on cpu"),
        (lambda x: x.to("meta"), "torch.strided on meta"),
    ):
        with pytest.raises(ValueError, match=rf"Expected `model` to be a network that gives .*, but got {got}"):
            CalibratedModel(net, fitted("temperature_scaling")[0])(Z)


@pytest.mark.parametrize("dense", [False, True])
def test_a_network_that_ends_in_a_softmax(dense):
    """It is refused, as the calibrator refuses what it gives; logits go through, under vmap too."""
    calibrator, want = fitted("vector_scaling")
    model, z = CalibratedModel(nn.Sequential(NET, nn.Softmax(1)), calibrator), Z[:120]
    for refusing in (lambda: calibrator(z.softmax(1)), lambda: model(z.view(2, 60, K).mT if dense else z)):
        refused("`(logits|model)` to be .*from before the softmax, but got rows in", refusing)
    refused("`model` to be .*, from before the softmax, but got rows in", export, model, z[:1])
    close(torch.vmap(CalibratedModel(NET, calibrator))(z.view(2, 60, K)).view(120, K), want[:120])


def test_refusals():
    ts, clamping = fitted("temperature_scaling")[0], fitted("neural_clamping")[0]
    for arguments, message in [
        ((NET.forward, ts), "Expected `model` to be a torch.nn.Module, but got method"),
        ((NET, lambda z: z), "Expected `calibrator` to be one of CALIBRATORS or a Calibrator, but got function"),
    ]:
        with pytest.raises(ValueError, match=message):
            CalibratedModel(*arguments)
    refused("`dtype` to be one of None, torch.float32, torch.float64", CalibratedModel, NET, ts, dtype=torch.float16)
    refused(r"`images` to be of shape \(N, 5\), but got \(600, 3\)", CalibratedModel(NET, clamping), Z[:, :3])
    for images in ((Z.long(),), (Z.numpy(),), ()):
        refused("`images` to be floating point", CalibratedModel(NET, clamping), *images)


def test_options_are_kept():
    """Those that the map depends on."""
    for calibrator in (HistogramBinning(n_bins=4), CALIBRATORS["ets"](solver="sctl"), CALIBRATORS["pts"](top_k=2)):
        calibrator.fit(Z, Y)
        model = CalibratedModel(NET, calibrator)
        close(model(Z), calibrator(Z))
        assert repr(type(calibrator)(**calibrator.options())) in repr(model)


class Mixture(Calibrator):
    """One of a user's own: a number and an array, which ``as_vector`` need not read."""

    state = ("share", "prior")

    def _fit(self, logits, labels):
        self.share, self.prior = 0.25, np.full(logits.shape[1], 1 / logits.shape[1])

    def _probs(self, logits):
        return (1 - self.share) * logits.softmax(1) + self.share * torch.as_tensor(self.prior).to(logits)


def test_a_calibrator_of_your_own():
    mixture = Mixture().fit(Z, Y)
    probs = CalibratedModel(NET, mixture)(Z)
    assert probs.dtype == torch.float32
    close(probs, 0.75 * Z.double().softmax(1) + 0.05)


def test_a_class_of_your_own_that_holds_more_than_numbers():
    class Mine:
        def fit(self, logits, labels):
            self.name, self.temperature = "mine", 2.0

        def transform(self, logits):
            return softmax(logits / self.temperature, axis=1)

    mine = as_calibrator(Mine)().fit(Z, Y)
    close(CalibratedModel(NET, mine)(Z), mine(Z))


@pytest.mark.parametrize("name", ["spline", "isotonic", "histogram_binning"])
def test_float_rounds_nothing_that_is_looked_up(name):
    true, y = true_logits(3000, 5, 3.0)
    z = torch.tensor(4 * true)
    method = CALIBRATORS[name]().fit(z.numpy(), y)
    module = CalibratedModel(nn.Identity(), method, dtype=torch.float64).float()
    np.testing.assert_array_equal(module(z).numpy(), method(z.numpy()))
