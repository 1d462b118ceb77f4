"""Scores of two classes in one column, beside scikit-learn, which has them so, and beside the two columns they are."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from calibkit import CalibratedModel, Comparison, ConformalSets, Logits, Monitor, calibrator, report
from calibkit.__main__ import main
from calibkit.calibrators import CALIBRATORS, load_calibrator
from calibkit.estimators import CalibratedClassifier, LogitCalibrator
from calibkit.metrics import METRICS, accuracy, brier, classwise_ece, nll
from calibkit.metrics.streaming import StreamingMetric
from calibkit.objectives import OBJECTIVES

LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression())
FOREST = RandomForestClassifier(50, min_samples_leaf=2, random_state=0)


def drawn(n=300):
    """Logits of class 1, twice too large and moved, and labels."""
    rng = np.random.default_rng(0)
    z = rng.normal(scale=1.5, size=n)
    return 2 * z + 0.5, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)


@pytest.fixture(params=[load_breast_cancer, load_digits, load_wine], ids=["breast cancer", "odd digits", "wine"])
def parts(request):
    """A few features and odd labels: to train on, to calibrate on, to judge by."""
    X, y = request.param(return_X_y=True)
    X, y = X[:, ::7], y % 2
    X, X_test, y, y_test = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=0)
    X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=1 / 2, stratify=y, random_state=0)
    return (X_train, y_train), (X_val, y_val), (X_test, y_test)


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_metrics_are_those_of_scikit_learn(parts):
    """Its Brier score is of class 1 alone, ours of both. Its curve is in the bins of the class-wise ECE."""
    train, _, (X, y) = parts
    p = LOGISTIC.fit(*train).predict_proba(X)[:, 1]
    close(nll(p, y), log_loss(y, p))
    close(brier(p, y), 2 * brier_score_loss(y, p))
    close(accuracy(p, y), accuracy_score(y, p > 0.5))
    frequency, mean = calibration_curve(y, p, n_bins=10)
    counts = np.histogram(p, np.linspace(0, 1, 11))[0]
    close(classwise_ece(p, y, n_bins=10), counts[counts > 0] @ np.abs(frequency - mean) / len(y))


def test_calibrators_are_those_of_scikit_learn(parts):
    train, (X, y), (X_test, _) = parts
    model = LOGISTIC.fit(*train)
    z, z_test = model.decision_function(X), model.decision_function(X_test)
    p, p_test = model.predict_proba(X)[:, 1], model.predict_proba(X_test)[:, 1]
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    close(calibrator("isotonic").fit(z, y)(z_test), isotonic.predict(p_test))
    forest = FrozenEstimator(FOREST.fit(*train))
    theirs = CalibratedClassifierCV(forest, method="isotonic").fit(X, y)
    close(CalibratedClassifier(forest, "isotonic").fit(X, y).predict_proba(X_test), theirs.predict_proba(X_test))


@pytest.mark.parametrize(
    ("key", "features"),
    [
        ("vector_scaling", lambda z: np.stack([z, np.ones_like(z)])),  # Platt 1999
        ("dir_odir lam=0 mu=0", lambda z: np.stack([-np.logaddexp(0, -z), np.logaddexp(0, z), np.ones_like(z)])),
    ],
    ids=["platt", "beta"],
)
def test_platt_scaling_and_beta_calibration(parts, key, features):
    """sigma(a z + c), and sigma(a ln p - b ln(1 - p) + c) of Kull et al. 2017, as scipy fits them."""
    train, (X, y), (X_test, _) = parts
    model = LOGISTIC.fit(*train)
    z, z_test = model.decision_function(X), model.decision_function(X_test)

    def loss(x):
        logits = x @ features(z)
        gradient = features(z) @ (1 / (1 + np.exp(-logits)) - y) / len(y)
        return np.logaddexp(0, (1 - 2 * y) * logits).mean(), gradient

    found = minimize(loss, np.zeros(len(features(z))), jac=True, method="BFGS", options={"gtol": 1e-10})
    close(calibrator(key).fit(z, y)(z_test), 1 / (1 + np.exp(-found.x @ features(z_test))))


@pytest.mark.parametrize("name", sorted(set(CALIBRATORS) - {"neural_clamping"}))
def test_one_column_gives_one(name, tmp_path):
    """As a calibrator, read from a file, and in one module with the network."""
    z, y = drawn()
    two = np.stack([np.zeros_like(z), z], 1)
    want = calibrator(name).fit(two, y)(two)[:, 1]
    fitted = calibrator(name).fit(z, y)
    fitted.save(tmp_path / "calibrator.npz")
    for made in (fitted, load_calibrator(tmp_path / "calibrator.npz")):
        np.testing.assert_array_equal(made(z), want)
    np.testing.assert_array_equal(fitted(z[:, None]), want[:, None])
    np.testing.assert_array_equal(fitted(two)[:, 1], want)
    assert torch.equal(
        calibrator(name).fit(torch.from_numpy(z), torch.from_numpy(y))(torch.from_numpy(z)), torch.tensor(want)
    )
    for shape in ((-1,), (-1, 1)):
        module = CalibratedModel(torch.nn.Identity(), fitted)
        np.testing.assert_allclose(module(torch.from_numpy(z).reshape(shape)).reshape(-1), want, rtol=0, atol=1e-12)
    images = torch.from_numpy(z).reshape(3, 1, 10, 10)
    np.testing.assert_allclose(module(images).reshape(-1), want, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_network_of_one_output_as_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    z, y = drawn()
    fitted = calibrator("vector_scaling").fit(z, y)
    x = torch.from_numpy(z).float()[:, None]
    path = CalibratedModel(torch.nn.Identity(), fitted).save_onnx(tmp_path / "model.onnx", x[:4])
    found = onnxruntime.InferenceSession(path).run(["probs"], {"input_0": x.numpy()})[0]
    np.testing.assert_allclose(found, fitted(x.numpy()), rtol=0, atol=1e-6)


def test_what_measures_takes_one_column():
    z, y = drawn()
    p = 1 / (1 + np.exp(-z))
    two = np.stack([1 - p, p], 1)
    for name, metric in METRICS.items():
        assert metric.function(p, y) == metric.function(two, y) == metric.function(p[:, None], y), name
    assert OBJECTIVES["nll"]().value(z, y) == pytest.approx(nll(p, y), rel=1e-12)
    streaming = StreamingMetric("ece")
    streaming.update(torch.from_numpy(p), torch.from_numpy(y))
    assert streaming.compute().item() == pytest.approx(METRICS["ece"].function(p, y), rel=1e-12)
    assert (ConformalSets().fit(p, y)(p) == ConformalSets().fit(two, y)(two)).all()
    compared = Comparison(y, ["nll"], n_resamples=20)
    compared.add("one", p)
    compared.add("two", two)
    assert compared.difference("one", "two", "nll").value == 0
    monitor = Monitor()
    monitor.update(p, y, "monday")
    monitor.update(two, y, "tuesday")
    first, second = ({**row, "period": ""} for row in monitor.report())
    assert first == second
    held = Logits(z, y, z[:, None], y)
    np.testing.assert_array_equal(held.val_logits, np.stack([np.zeros_like(z), z], 1))
    np.testing.assert_array_equal(held.test_logits, held.val_logits)


def test_an_estimator_of_one_score():
    z, y = drawn()
    names = np.array(["no", "yes"])[y]
    fitted = LogitCalibrator("vector_scaling").fit(z[:, None], names)
    want = calibrator("vector_scaling").fit(z, y)(z)
    np.testing.assert_allclose(fitted.predict_proba(z[:, None]), np.stack([1 - want, want], 1), rtol=0, atol=1e-15)
    assert (fitted.predict(z[:, None]) == np.array(["no", "yes"])[(want > 0.5).astype(int)]).all()


def test_a_few_logits_may_lie_where_probabilities_do():
    """A small batch to fit on, and any to be calibrated."""
    z, y = drawn()
    fitted = calibrator("temperature_scaling").fit(z, y)
    some = np.linspace(0, 1, 100)
    assert fitted(some).shape == fitted(0.99 + some / 50).shape == (100,)
    calibrator("temperature_scaling").fit(some[:10], np.arange(10) % 2)
    with pytest.raises(ValueError, match="Expected `logits` to be logits, from before the sigmoid"):
        calibrator("temperature_scaling").fit(some, np.arange(100) % 2)
    calibrator("temperature_scaling").fit(np.stack([0 * some, some], 1), np.arange(100) % 2)


@pytest.mark.parametrize(
    "model", [LOGISTIC, FOREST, HistGradientBoostingClassifier(max_iter=20)], ids=lambda m: str(m)[:9]
)
def test_a_report_on_one_column(model):
    X, y = load_digits(return_X_y=True)
    model.fit(X[:600], y[:600] % 2)
    p, y = model.predict_proba(X[600:])[:, 1], y[600:] % 2
    options = {"methods": ["vector_scaling", "isotonic"], "kind": "probabilities", "n_resamples": 20}
    found, same = (report(scores, y, **options) for scores in (p, np.stack([1 - p, p], 1)))
    assert found.facts()["metrics"] == same.facts()["metrics"] and found.choice.sure != "none"
    assert "<html" in found.html()


@pytest.mark.slow
def test_a_score_from_the_shell(here, capsys):
    z, y = drawn()
    pd.DataFrame({"id": range(300), "score": z, "label": y}).to_csv("mine.csv", index=False)
    command = ["mine.csv", "--kind", "logits", "--ignore", "id"]
    assert main(["report", *command, "--calibrators", "vector_scaling"]) == 0
    for out in ("p.npy", "p.csv", "p.json"):
        assert main(["apply", "mine-report/calibrator.npz", *command, "--out", out]) == 0
    want = load_calibrator(here / "mine-report" / "calibrator.npz")(z)
    stored = json.loads((here / "p.json").read_text())
    assert stored["classes"] == ["1"] and list(pd.read_csv("p.csv")) == [
        "id",
        "label",
        "prob_1",
        "predicted",
        "confidence",
    ]
    for probs in (np.load("p.npy"), pd.read_csv("p.csv")[["prob_1"]].to_numpy(), stored["probs"]):
        np.testing.assert_allclose(probs, want[:, None], rtol=1e-14)
    np.save("z.npy", z)
    assert main(["apply", "mine-report/calibrator.npz", "z.npy", "--kind", "logits", "--out", "p.npy"]) == 0
    np.testing.assert_allclose(np.load("p.npy"), want, rtol=1e-14)
