"""What every calibrator of logits keeps to, whatever its method: parametrised over the registry; and of some fits.

Neural Clamping is fitted on images and a network, not on logits, and has its own tests.
"""

import inspect
import json
import re
import typing

import numpy as np
import pytest
import torch
from drawn_logits import logits
from refusals import refused

from calibkit.calibrators import CALIBRATORS, Calibrator, load_calibrator
from calibkit.objectives import OBJECTIVES, LabelSmoothing

NAMES = [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]
WITH_OBJECTIVE = [name for name in NAMES if "objective" in inspect.signature(CALIBRATORS[name]).parameters]


@pytest.fixture(scope="module")
def sample():
    """(600, 5) logits 2.5 times too large, in numpy, and labels in which every class occurs."""
    return logits(600, 5)


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
def test_probabilities_in_float64_row_by_row_of_no_higher_nll_than_the_network(name, sample, fitted, monkeypatch):
    z, y = sample
    probs = fitted(name)(z)
    assert isinstance(probs, np.ndarray)
    assert probs.dtype == np.float64 and probs.shape == z.shape
    assert (probs >= 0).all()
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)
    identity, rows = CALIBRATORS["identity"]().fit(z, y), np.arange(len(y))
    ours, theirs = (-np.log(c(z)[rows, y]).mean() for c in (fitted(name), identity))
    assert ours <= theirs + 1e-12
    np.testing.assert_allclose(fitted(name)(z[::-1])[::-1], probs, atol=1e-14)
    monkeypatch.setattr("calibkit._arrays.BLOCK_BYTES", 7 * 5 * 8)
    np.testing.assert_allclose(fitted(name)(z), probs, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_fit_is_the_same_of_tensors_in_inference_mode_of_more_threads_and_of_float32(name, sample, fitted):
    """To the bit, but for threads, which sum in another order, and rounding; and the input is left as it is."""
    z, y = (torch.from_numpy(a.copy()) for a in sample)
    torch.set_num_threads(2)
    try:
        probs = CALIBRATORS[name]().fit(z, y)(z)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert isinstance(probs, torch.Tensor) and probs.dtype == torch.float64
    np.testing.assert_allclose(probs, fitted(name)(sample[0]), rtol=0, atol=1e-12)
    assert torch.equal(z, torch.from_numpy(sample[0])) and torch.equal(y, torch.from_numpy(sample[1]))
    with torch.inference_mode():
        again = CALIBRATORS[name]().fit(z + 0, y)
    state = fitted(name).state_dict()
    assert set(again.state_dict()) == set(state)
    for key, value in again.state_dict().items():
        np.testing.assert_array_equal(value, state[key])
    single, double = (CALIBRATORS[name]().fit(given, y)(given) for given in (z.float(), z.float().double()))
    np.testing.assert_allclose(single, double, atol=1e-6)


@pytest.mark.gpu
def test_a_fit_on_a_gpu_is_the_same(sample, fitted):
    z, y = (torch.from_numpy(a).cuda() for a in sample)
    for name in NAMES:
        probs = CALIBRATORS[name]().fit(z, y)(z)
        assert probs.device == z.device and probs.dtype == torch.float64
        np.testing.assert_allclose(probs.cpu().numpy(), fitted(name)(sample[0]), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_without_pickle_and_a_state_move_a_fit(name, sample, fitted, tmp_path):
    path = fitted(name).save(tmp_path / "calibrator.npz")
    with np.load(path, allow_pickle=False) as archive:
        assert json.loads(str(archive["header"]))["calibrator"] == name
        assert all(archive[entry].dtype.kind in "biufU" for entry in archive.files)
    moved = CALIBRATORS[name]().load_state_dict(fitted(name).state_dict())
    for again in (load_calibrator(path), CALIBRATORS[name].load(path), moved):
        assert type(again) is CALIBRATORS[name] and again.options() == fitted(name).options()
        np.testing.assert_array_equal(again(sample[0]), fitted(name)(sample[0]))
        np.testing.assert_equal(vars(again), vars(fitted(name)))
    entries = re.escape(str(sorted(["n_classes", *moved.state])))
    for other in (None, [], {"temperature": 1.0}, {"n_classes": np.asarray(5), "w": np.zeros(3)}):
        refused(f"`arrays` to be a state with the entries {entries}", moved.load_state_dict, other)


@pytest.mark.parametrize("name", NAMES)
def test_unfitted_use_and_other_classes_than_fitted(name, sample, fitted, tmp_path):
    calibrator = CALIBRATORS[name]()
    for use in (lambda: calibrator(sample[0]), calibrator.state_dict, lambda: calibrator.save(tmp_path / "x.npz")):
        with pytest.raises(RuntimeError, match="Expected `.*` to be fitted, but got no call of fit"):
            use()
    assert all(getattr(calibrator, key) is None for key in calibrator.state)
    refused(r"`logits` to be of shape \(N, 5\) as in fit\(\)", fitted(name), sample[0][:, :4])
    refused("`logits` to be finite, but got NaN or infinity", fitted(name).fit, sample[0] * np.nan, sample[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, y: (z[None], y), r"Expected `logits` to be of shape \(N, K\), .*, but got shape \(1, 600, 5\)"),
        (lambda z, y: (z[:, 0], y), r"Expected `labels` to be in \[0, 2\), but got 4"),
        (lambda z, y: (z, y[1:]), r"Expected `labels` to be of shape \(600,\), one a row, but got shape \(599,\)"),
        (lambda z, y: (z, y + 1), r"Expected `labels` to be in \[0, 5\), but got 5"),
    ],
    ids=["3-d", "1-d", "lengths", "label 5"],
)
def test_bad_input(change, message, sample):
    with pytest.raises(ValueError, match=message):
        CALIBRATORS["temperature_scaling"]().fit(*change(*sample))


def test_bad_options():
    for name, options, message in (
        ("temperature_scaling", {"grid": []}, r"at least one temperature, rising, but got \[\]"),
        ("temperature_scaling", {"grid": [2.0, 1.0]}, "at least one temperature, rising"),
        ("temperature_scaling", {"grid": [0.0, 1.0]}, r"a number in \(0.0, inf\], but got 0.0"),
        ("temperature_scaling", {"grid": "fine"}, "a sequence of temperatures, or their step, but got 'fine'"),
        ("temperature_scaling", {"grid": 20}, r"a number in \[0.0001, 10.0\], but got 20"),
        ("temperature_scaling", {"objective": "ece", "solver": "sctl"}, "nll, label_smoothing, focal or class_loss"),
        ("class_temperature_scaling", {"grid": ()}, "at least one temperature, rising"),
        ("class_temperature_scaling", {"solver": "lbfgs"}, "one of exact, sctl, but got 'lbfgs'"),
        ("class_temperature_scaling", {"max_sweeps": 0}, "an integer >= 1, but got 0"),
        ("class_temperature_scaling", {"accuracy_constraint": 1}, "True, False or 'running', but got 1"),
        ("class_temperature_scaling", {"accuracy_constraint": "falling"}, ".*, but got 'falling'"),
        ("ets", {"solver": "newton"}, "one of exact, sctl"),
        ("ets", {"objective": "class_balanced", "solver": "sctl"}, "nll, label_smoothing"),
        ("pts", {"top_k": 0}, "an integer >= 1"),
        ("pts", {"hidden": ()}, "a sequence"),
        ("pts", {"hidden": (5, 0)}, "an integer >= 1"),
        ("pts", {"weight_decay": -1.0}, "a number in"),
        ("pts", {"seed": -1}, "an integer in"),
        ("pts", {"seed": 2**64}, "an integer in"),
        ("pts", {"solver": "adam"}, "one of exact, sctl"),
        ("structured_vector_scaling", {"lam": -1.0}, r"a number in \[0.0, inf\], but got -1.0"),
        ("structured_vector_scaling", {"lam": None}, r"a number in \[0.0, inf\], but got None"),
        ("ms_odir", {"lam": -1.0}, r"a number in \[0.0, inf\], but got -1.0"),
        ("ms_odir", {"mu": -1.0}, r"a number in \[0.0, inf\], but got -1.0"),
        ("ms_odir", {"n_folds": 1}, "an integer >= 2, but got 1"),
        *(("gp_calibration", {"n_knots": n}, "") for n in (1, 10**20, 2.0)),
        *(("spline", {"n_knots": n}, "(an integer >= 3|at most 1,000), but got") for n in (2, 1001, 10**30)),
        *(("order_preserving", {"n_pieces": n}, "") for n in (0, 10**20, 2.0)),
    ):
        refused(f"`{next(iter(options))}` to be {message}", CALIBRATORS[name], **options)
    assert CALIBRATORS["spline"](n_knots=1000).n_knots == 1000  # not too many


@pytest.mark.parametrize("name", NAMES)
def test_an_objective_is_a_name_of_the_signature_or_an_object_that_is_saved(name, sample, tmp_path):
    """One that has no gradient is taken by the searches alone; what minimises nothing takes no objective."""
    cls = CALIBRATORS[name]
    if name not in WITH_OBJECTIVE:
        with pytest.raises(TypeError, match="unexpected keyword argument 'objective'"):
            cls(objective="nll")
        return
    names = [value for value in flat(typing.get_type_hints(cls.__init__)["objective"]) if isinstance(value, str)]
    smooth = [key for key, objective in OBJECTIVES.items() if objective.smooth]
    assert sorted(names) in (sorted(smooth), sorted(OBJECTIVES))
    for objective in OBJECTIVES:
        if objective in names:
            assert cls(objective=objective).objective == objective
        else:
            refused("`objective` to be one of nll", cls, objective=objective)
    refused("`objective` to be one of nll, .* but got 'mse'", cls, objective="mse")
    path = cls(objective=LabelSmoothing(alpha=0.2)).fit(*sample).save(tmp_path / "calibrator.npz")
    assert load_calibrator(path).objective == LabelSmoothing(alpha=0.2)


def flat(hint):
    """The members of unions and literals."""
    return [member for arg in typing.get_args(hint) for member in (flat(arg) or [arg])]


def changed(name):
    """For each option of a calibrator, it alone at another value than the default: option, value, calibrator."""
    other = {
        "objective": "focal", "grid": (1.0, 2.0), "accuracy_constraint": False, "solver": "sctl", "lam": 0.25,
        "mu": 0.25, "hidden": (3,), "target": (0.5, 1.5),
    }  # fmt: skip
    of_kind = {bool: lambda default: not default, int: lambda default: default + 1, float: lambda d: d / 2 or 0.25}
    for option, parameter in inspect.signature(CALIBRATORS[name]).parameters.items():
        objective = {"objective": "nll"} if option == "solver" else {}
        derived = of_kind.get(type(parameter.default))
        assert derived or option in other, f"another value of `{option}` than its default belongs here, into `other`"
        value = other[option] if option in other else derived(parameter.default)
        yield option, value, CALIBRATORS[name](**{option: value, **objective})


@pytest.mark.parametrize("name", NAMES)
def test_repr_shows_in_one_line_what_was_fitted_and_builds_the_same(name, fitted):
    cls = CALIBRATORS[name]
    assert repr(cls()) == f"{cls.__name__}()"
    for option, value, calibrator in changed(name):
        assert f"{option}={value!r}" in repr(calibrator)
        assert eval(repr(calibrator), {cls.__name__: cls}).options() == calibrator.options()
    text = repr(fitted(name))
    assert len(text) < 250 and "\n" not in text
    for state in fitted(name).state:
        assert (f"{state}=" in text) == (str(getattr(fitted(name), state)) != "nan")
    if isinstance(getattr(fitted(name), "temperature", None), float):
        assert f"temperature={fitted(name).temperature:.4g}" in text


def test_identity_is_the_softmax_whatever_it_is_fitted_on(sample, fitted):
    z = torch.from_numpy(sample[0])
    assert torch.equal(fitted("identity")(z), z.softmax(1))
    assert torch.equal(fitted("identity")(z), CALIBRATORS["identity"]().fit(z[:1], torch.tensor(sample[1][:1]))(z))


@pytest.mark.slow
@pytest.mark.parametrize("make", [CALIBRATORS["ms_odir"], lambda: CALIBRATORS["pts"](solver="sctl")])
def test_a_fit_under_autocast_is_the_same(make, sample):
    z, y = torch.tensor(sample[0]).float(), torch.tensor(sample[1])
    plain = make().fit(z, y)(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = make().fit(z, y)
    assert torch.equal(inside(z), plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["temperature_scaling", "ets"])
def test_a_replay_is_in_float32_whatever_the_default(name, sample):
    found = []
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            found.append(CALIBRATORS[name](solver="sctl").fit(*sample)(sample[0]))
    finally:
        torch.set_default_dtype(torch.float32)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_a_fit_that_stops_midway_leaves_the_one_before(sample, monkeypatch):
    class Stopped(CALIBRATORS["temperature_scaling"]):
        def _fit(self, logits, labels):
            super()._fit(logits, labels)
            raise KeyboardInterrupt

    method = CALIBRATORS["temperature_scaling"]().fit(*sample)
    before = method.state_dict()
    monkeypatch.setattr(method, "__class__", Stopped)
    with pytest.raises(KeyboardInterrupt):
        method.fit(sample[0] / 2, sample[1])
    assert method.state_dict() == before
