"""What a report costs: nothing is fitted twice, and what takes minutes is bounded by what it was measured to take."""

from collections import Counter

import numpy as np
import pytest

from calibkit.logits import HeldOut
from calibkit.reporting import report, trial, try_all
from calibkit.reporting.catalogue import need_of
from calibkit.reporting.trial import FOLDS


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
