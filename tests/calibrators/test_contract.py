"""What every calibrator of logits keeps to, whatever its method: parametrised over the registry.

Neural Clamping is fitted on images and a network, not on logits, and has its own tests.
"""

import dataclasses
import inspect
import json
import typing

import numpy as np
import pytest
import torch

from calibkit.calibrators import CALIBRATORS, Calibrator, load_calibrator
from calibkit.objectives import OBJECTIVES, LabelSmoothing

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]
WITH_OBJECTIVE = [name for name in NAMES if "objective" in inspect.signature(CALIBRATORS[name]).parameters]
SEARCHES = ["temperature_scaling", "class_temperature_scaling"]  # for the lowest ECE on a grid
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
    ),
]


@pytest.fixture(scope="module")
def sample():
    """(600, 5) logits 2.5 times too large, in numpy, and labels in which every class occurs."""
    rng = np.random.default_rng(0)
    true = rng.normal(scale=1.5, size=(600, 5))
    labels = (true + rng.gumbel(size=true.shape)).argmax(1)
    return 2.5 * true, labels


@pytest.fixture(scope="module")
def fitted(sample):
    """Each calibrator fitted once."""
    cache = {}

    def fit(name):
        if name not in cache:
            cache[name] = CALIBRATORS[name]().fit(*sample)
        return cache[name]

    return fit


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_in_float64(name, sample, fitted):
    probs = fitted(name)(sample[0])
    assert isinstance(probs, np.ndarray)
    assert probs.dtype == np.float64 and probs.shape == sample[0].shape
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_no_higher_nll_than_an_overconfident_network(name, sample, fitted):
    z, y = sample
    identity = CALIBRATORS["identity"]().fit(z, y)
    rows = np.arange(len(y))
    ours, theirs = (-np.log(c(z)[rows, y]).mean() for c in (fitted(name), identity))
    assert ours <= theirs + 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", DEVICES)
def test_numpy_and_torch_agree_on_any_device(name, device, sample, fitted):
    z, y = sample
    zt, yt = torch.from_numpy(z).to(device), torch.from_numpy(y).to(device)
    probs = CALIBRATORS[name]().fit(zt, yt)(zt)
    assert isinstance(probs, torch.Tensor)
    assert probs.device == zt.device and probs.dtype == torch.float64
    np.testing.assert_allclose(probs.cpu().numpy(), fitted(name)(z), atol=1e-12 if device == "cpu" else 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_float32_and_float64_agree(name, sample):
    z, y = sample
    z32 = z.astype(np.float32)
    single, double = (CALIBRATORS[name]().fit(given, y)(given) for given in (z32, z32.astype(np.float64)))
    np.testing.assert_allclose(single, double, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_fit_twice(name, sample, fitted):
    again = CALIBRATORS[name]().fit(*sample)
    state = fitted(name).state_dict()
    assert set(again.state_dict()) == set(state)
    for key, value in again.state_dict().items():
        np.testing.assert_array_equal(value, state[key])


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_calibrated_one_by_one(name, sample, fitted, monkeypatch):
    z = sample[0]
    whole = fitted(name)(z)
    np.testing.assert_allclose(fitted(name)(z[::-1])[::-1], whole, atol=1e-14)
    monkeypatch.setattr("calibkit._blocks.BLOCK_BYTES", 7 * 5 * 8)
    np.testing.assert_allclose(fitted(name)(z), whole, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_in_inference_mode_is_the_same(name, sample, fitted):
    with torch.inference_mode():
        again = CALIBRATORS[name]().fit(torch.from_numpy(sample[0]) + 0, torch.from_numpy(sample[1]))
    np.testing.assert_array_equal(again(sample[0]), fitted(name)(sample[0]))


@pytest.mark.parametrize("name", NAMES)
def test_input_is_left_as_it_is(name, sample):
    z, y = (torch.from_numpy(a.copy()) for a in sample)
    CALIBRATORS[name]().fit(z, y)(z)
    assert torch.equal(z, torch.from_numpy(sample[0]))
    assert torch.equal(y, torch.from_numpy(sample[1]))


@pytest.mark.parametrize("name", NAMES)
def test_save_and_load_without_pickle(name, sample, fitted, tmp_path):
    path = fitted(name).save(tmp_path / "calibrator.npz")
    with np.load(path, allow_pickle=False) as archive:
        header = json.loads(str(archive["header"]))
    assert header["calibrator"] == name
    again = load_calibrator(path)
    assert type(again) is CALIBRATORS[name]
    assert again.options() == fitted(name).options()
    np.testing.assert_array_equal(again(sample[0]), fitted(name)(sample[0]))


@pytest.mark.parametrize("name", NAMES)
def test_state_dict_moves_a_fit(name, sample, fitted):
    other = CALIBRATORS[name]().load_state_dict(fitted(name).state_dict())
    np.testing.assert_array_equal(other(sample[0]), fitted(name)(sample[0]))
    with pytest.raises(ValueError, match="Expected `arrays` to be a state with the entries"):
        other.load_state_dict({"n_classes": np.asarray(5), "w": np.zeros(3)})


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_use(name, sample, tmp_path):
    calibrator = CALIBRATORS[name]()
    for use in (lambda: calibrator(sample[0]), calibrator.state_dict, lambda: calibrator.save(tmp_path / "x.npz")):
        with pytest.raises(RuntimeError, match="Expected `.*` to be fitted, but got no call of fit"):
            use()
    assert all(getattr(calibrator, key) is None for key in calibrator.state)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, y: (z[0], y), r"Expected `logits` to be of shape \(N, K\), but got shape \(5,\)"),
        (lambda z, y: (z[:0], y[:0]), r"Expected `logits` to be of shape \(N, K\) with N >= 1 and K >= 2"),
        (lambda z, y: (z.astype(int), y), "Expected `logits` to be floating point, but got dtype torch.int64"),
        (lambda z, y: (z * np.nan, y), "Expected `logits` to be finite, but got NaN or infinity"),
        (
            lambda z, y: (z, y[1:]),
            r"Expected `labels` to be of shape \(600,\), one a row, but got shape \(599,\)",
        ),
        (lambda z, y: (z, y + 0.5), "Expected `labels` to be integers, but got dtype torch.float64"),
        (lambda z, y: (z, y + 1), r"Expected `labels` to be in \[0, 5\), but got 5"),
    ],
    ids=["1-d", "empty", "integers", "NaN", "lengths", "float labels", "label 5"],
)
def test_bad_input(name, change, message, sample):
    with pytest.raises(ValueError, match=message):
        CALIBRATORS[name]().fit(*change(*sample))


@pytest.mark.parametrize("name", NAMES)
def test_other_classes_than_fitted(name, sample, fitted):
    with pytest.raises(ValueError, match=r"Expected `logits` to be of shape \(N, 5\) as in fit\(\)"):
        fitted(name)(sample[0][:, :4])


def test_who_minimises_nothing_that_can_be_chosen():
    without = set(NAMES) - set(WITH_OBJECTIVE)
    assert without >= {"identity", "spline", "histogram_binning", "isotonic"} and len(WITH_OBJECTIVE) >= 10
    for name in without:
        with pytest.raises(TypeError, match="unexpected keyword argument 'objective'"):
            CALIBRATORS[name](objective="nll")


@pytest.mark.filterwarnings("ignore:no fixed point was found")  # of cls, where biases can make all class losses equal
@pytest.mark.parametrize("name", WITH_OBJECTIVE)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_any_objective(name, objective, sample):
    """A calibrator with an objective takes them all; only ``ece`` may be refused, for want of a gradient."""
    if objective == "ece" and name not in SEARCHES:
        with pytest.raises(ValueError, match="Expected `objective` to be one of nll"):
            CALIBRATORS[name](objective=objective)
        return
    probs = CALIBRATORS[name](objective=objective).fit(*sample)(sample[0])
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", WITH_OBJECTIVE)
def test_an_objective_object_is_saved_with_its_arguments(name, sample, tmp_path):
    objective = LabelSmoothing(alpha=0.2)
    calibrator = CALIBRATORS[name](objective=objective)
    again = load_calibrator(calibrator.fit(*sample).save(tmp_path / "calibrator.npz"))
    assert again.objective == objective
    assert dataclasses.is_dataclass(again.objective)


def changed(name):
    """For each option of a calibrator, it alone at another value than the default: option, value, calibrator."""
    other = {
        "objective": "focal", "grid": (1.0, 2.0), "n_bins": 7, "max_sweeps": 2, "accuracy_constraint": False,
        "solver": "sctl", "lam": 0.25, "mu": 0.25, "n_folds": 3, "top_k": 4, "hidden": (3,), "weight_decay": 1.0,
        "seed": 3, "n_knots": 4,
    }  # fmt: skip
    for option, parameter in inspect.signature(CALIBRATORS[name]).parameters.items():
        objective = {"objective": "nll"} if option == "solver" else {}
        value = other[option] if option in other else type(parameter.default)(not parameter.default)
        yield option, value, CALIBRATORS[name](**{option: value, **objective})


@pytest.mark.parametrize("name", NAMES)
def test_repr_shows_the_options_that_are_not_default_and_builds_the_same(name):
    cls = CALIBRATORS[name]
    assert repr(cls()) == f"{cls.__name__}()"
    for option, value, calibrator in changed(name):
        assert f"{option}={value!r}" in repr(calibrator)
        assert eval(repr(calibrator), {cls.__name__: cls}).options() == calibrator.options()


@pytest.mark.parametrize("name", NAMES)
def test_repr_shows_what_was_fitted_in_one_line(name, fitted):
    text = repr(fitted(name))
    assert len(text) < 250 and "\n" not in text
    for state in fitted(name).state:
        assert f"{state}=" in text
    if isinstance(getattr(fitted(name), "temperature", None), float):
        assert f"temperature={fitted(name).temperature:.4g}" in text


@pytest.mark.parametrize("cls", CALIBRATORS.values(), ids=CALIBRATORS)
def test_a_signature_is_short(cls):
    assert len(str(inspect.signature(cls))) < 500


@pytest.mark.parametrize("name", NAMES)
def test_options_that_are_a_choice_name_their_values(name):
    """The annotations of the signature are what the constructor takes."""
    hints = typing.get_type_hints(CALIBRATORS[name].__init__)
    for option in {"objective", "solver"} & set(hints):
        values = [value for value in flat(hints[option]) if isinstance(value, str)]
        others = {"objective": "nll"} if option == "solver" else {}
        for value in values:
            assert getattr(CALIBRATORS[name](**{option: value, **others}), option) == value
        if option == "objective":
            smooth = [key for key, cls in OBJECTIVES.items() if cls.smooth]
            assert sorted(values) in (sorted(smooth), sorted(OBJECTIVES))


def flat(hint):
    """The members of unions and literals."""
    return [member for arg in typing.get_args(hint) for member in (flat(arg) or [arg])]


@pytest.mark.parametrize("name", NAMES)
def test_number_of_threads_does_not_matter(name, sample, fitted):
    known = fitted(name)(sample[0])
    torch.set_num_threads(2)
    try:
        probs = CALIBRATORS[name]().fit(*sample)(sample[0])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    np.testing.assert_allclose(probs, known, rtol=0, atol=1e-12)


def test_what_is_no_calibrator_is_not_loaded(tmp_path):
    np.savez(tmp_path / "other.npz", values=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match="Expected `path` to be a file that Calibrator.save wrote"):
            load_calibrator(path)
    with pytest.raises(FileNotFoundError):
        load_calibrator(tmp_path / "absent.npz")
