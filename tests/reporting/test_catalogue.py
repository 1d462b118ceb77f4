"""What is known of a method before it is fitted, and of one that the guide does not name."""

import pytest
import torch

from calibkit import Calibrator, Logits, report
from calibkit.calibrators import CALIBRATORS
from calibkit.reporting.catalogue import NEEDS, need_of


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
