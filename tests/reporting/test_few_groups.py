"""What belongs together counts once: groups, not their rows, are what is fitted on and judged by."""

import numpy as np

from calibkit.logits import HeldOut
from calibkit.reading import read
from calibkit.reporting import report, try_all
from calibkit.reporting.diagnosis import diagnose

THREE = ["ets", "vector_scaling", "structured_vector_scaling"]


def test_a_cross_fit_over_few_groups_is_doubted(sample):
    z, y = sample(1200)
    found = report({"logits": z, "labels": y, "groups": np.repeat(np.arange(12), 100)}, methods=THREE, n_resamples=100)
    paragraph = found.diagnosed.first_paragraph
    assert "There are 12 groups to fit on; even one temperature wants 50." in paragraph
    assert "There are 12 groups; intervals from fewer than 50 are too short." in paragraph
    assert found.choice.sure == "low" and "With fewer than 50 groups no method is safe." in found.choice.reasons
    assert not any(found.trial.methods[key].enough for key in (*THREE, "temperature_scaling"))


def test_few_groups_of_a_validation_set_are_doubted_beside_those_of_the_test_set(sample):
    z, y = sample(1200)
    parts = {"val_logits": z[:600], "val_labels": y[:600], "test_logits": z[600:], "test_labels": y[600:]}
    few = np.repeat(np.arange(6), 100)
    text = diagnose(read({**parts, "val_groups": few, "test_groups": few})).first_paragraph
    assert "There are 6 groups to fit on" in text and "There are 6 test groups" in text
    many = np.arange(600) // 10
    assert diagnose(read({**parts, "val_groups": many, "test_groups": many})).findings == ()
    assert diagnose(read({"logits": z, "labels": y, "groups": np.arange(1200) // 20})).findings == ()


def test_a_method_wants_so_many_groups_as_it_wants_samples(sample):
    """Structured vector scaling of three classes wants 150."""
    for size, enough in ((1, True), (2, True), (3, False)):
        z, y = sample(300)
        held = HeldOut(z, y, np.arange(300) // size)
        trial = try_all(held, None, ["structured_vector_scaling"], n_resamples=20)
        assert trial.methods["structured_vector_scaling"].enough is enough
