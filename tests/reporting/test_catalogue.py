"""What is known of a method before it is fitted, and what a report costs: no fit is done twice, minutes are bounded."""

from collections import Counter

import numpy as np
import pytest
import torch

from calibkit import Calibrator, Logits
from calibkit.calibrators import CALIBRATORS
from calibkit.logits import HeldOut
from calibkit.reporting import report, trial, try_all
from calibkit.reporting.catalogue import NEEDS, need_of
from calibkit.reporting.trial import FOLDS


class Shift(Calibrator):
    """Adds to each class what makes its mean probability its share; a number beside, and one that only reports."""

    state, reported = ("bias", "scale", "steps"), ("steps",)

    def _fit(self, logits, labels):
        self.scale, self.steps = 1.0, 1
        shares = torch.bincount(labels, minlength=logits.shape[1]).clamp(min=1) / len(labels)
        self.bias = (shares / logits.softmax(1).mean(0)).log().numpy()

    def _probs(self, logits):
        return (self.scale * logits + torch.as_tensor(self.bias, dtype=logits.dtype)).softmax(1)

    def _shapes(self, n_classes):
        return {"bias": (n_classes,)}


def test_every_calibrator_on_logits_has_its_needs():
    for name in [name for name, cls in CALIBRATORS.items() if issubclass(cls, Calibrator)]:
        few, many = (need_of(name).parameters(k) for k in (2, 10))
        assert 0 <= few <= many and 0 <= need_of(name).samples(10) >= many and need_of(name).name


def test_the_guide_names_calibrators_on_logits():
    assert {key.partition(":")[0] for key in NEEDS} <= set(CALIBRATORS) - {"neural_clamping"}
    with pytest.raises(ValueError, match="Expected `calibrator` to be one of identity, .*, but got 'neural_clamping'"):
        need_of("neural_clamping")


def test_of_another_method_the_numbers_of_its_state_are_counted(sample, monkeypatch):
    """Eleven of ten classes, and a hundred samples for each; asked for, it is reported as any other."""
    monkeypatch.setitem(CALIBRATORS, "shift", Shift)
    monkeypatch.setattr(Shift, "__module__", "calibkit.calibrators.shift")
    need = need_of("shift")
    assert (need.name, need.parameters(10), need.samples(10)) == ("shift", 11, 1100)
    z, y = sample(900)
    found = report(Logits(z[:300], y[:300], z[300:], y[300:]), methods=["shift"], n_resamples=20)
    tried = found.trial.methods["shift"]
    assert not tried.enough and tried.values["nll"].value > 0 and "shift" in found.html()


def test_matrix_scaling_needs_a_hundred_samples_a_parameter_where_there_are_many_classes():
    """The page "Which method?": some thousands a class, and a hundred for each class that there is."""
    asked = {k: NEEDS["matrix_scaling"].samples(k) for k in (2, 10, 100)}
    assert asked == {2: 6_000, 10: 30_000, 100: 1_000_000}
    two, ten = (NEEDS["vector_scaling"].samples(k) for k in (2, 10))
    assert (two, ten) == (100 * 3, 3000)  # of two classes a hundred for each parameter
    few = ("temperature_scaling", "ets", "pts", "spline")  # whatever the number of classes
    assert [NEEDS[key].samples(10) for key in few] == [50, 500, 5000, 1000]


def test_a_cross_fit_is_done_once(sample, monkeypatch):
    """The pictures of the chosen method take the fits that it was judged by."""
    fits, fit = [], trial.timed_fit
    monkeypatch.setattr(trial, "timed_fit", lambda key, held: fits.append(key) or fit(key, held))
    z, y = sample(600)
    found = report((z, y), kind="logits", methods=["ets"], n_resamples=20)
    assert Counter(fits) == dict.fromkeys(["temperature_scaling", "identity", "ets"], 1 + FOLDS)
    value = -np.log(found.probs["after"][np.arange(600), y]).mean()
    assert found.trial.methods[found.choice.key].values["nll"].value == pytest.approx(value)


def test_parameterized_temperatures_are_bounded_by_what_they_cost():
    """A minute in six fits: 0.1 ms a sample and 0.4 microseconds for each of its classes, as measured."""
    for key, n, k, fits in (
        ("pts", 50_000, 1000, False),
        ("pts", 5000, 1000, True),
        ("pts", 20_000, 10, True),
        ("pts hidden=[10000,10000]", 500, 3, False),
    ):
        assert (n * need_of(key).work_of(k) * (1 + FOLDS) <= trial.WORK) is fits


def test_the_base_is_fitted_whatever_it_costs(sample, monkeypatch):
    monkeypatch.setattr(trial, "WORK", 1)
    assert set(report(sample(300), kind="logits", n_resamples=10).metrics) == {"before", "after"}


def test_options_do_not_pass_the_bound(sample):
    z, y = sample(300)
    found = try_all(HeldOut(z, y), HeldOut(z, y), ["pts hidden=[10000,10000]"], n_resamples=10)
    (tried,) = found.left_out
    assert tried.reason.endswith("minutes or more, so only where it is asked for")
