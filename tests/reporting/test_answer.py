"""What a report says first, against means by hand; and zeros, which a forest may have and a softmax should not."""

import numpy as np
import pytest
from scipy.special import softmax

from calibkit.logits import Logits
from calibkit.reading import read
from calibkit.reporting import report
from calibkit.reporting.diagnosis import diagnose
from calibkit.reporting.summary import gap_of, near, says, stay_off


def percent(x):
    return f"{100 * np.mean(x):.1f}%"


def test_it_begins_with_what_the_network_says_and_how_often_it_is_right(sample):
    z, y = sample(4000)
    found = report(Logits(z[:2000], y[:2000], z[2000:], y[2000:]), methods=["vector_scaling"], n_resamples=200)
    p, after = softmax(z[2000:], 1), found.calibrator(z[2000:])
    gap = p.max(1) - (p.argmax(1) == y[2000:])
    arm = 1.96 * gap.std() / np.sqrt(2000)
    ends = [f"{100 * (gap.mean() + side):.1f}" for side in (-arm, arm)]
    assert says(found).startswith(
        f"Your network says {percent(p.max(1))} and is right in {percent(p.argmax(1) == y[2000:])}: too sure by "
        f"{100 * gap.mean():.1f} points (between {ends[0]} and {ends[1]}); after one temperature it says "
        f"{percent(after.max(1))}."
    )
    assert near(found) == ("Not clearly worse by NLL: vector scaling.",)
    assert str(found).split("\n\n")[1] == says(found) == found.facts()["says"]


def test_a_difference_within_its_interval_may_be_chance(sample):
    z, y = sample(2000, t=1.0)
    found = report(Logits(z[:1000], y[:1000], z[1000:], y[1000:]), methods=["vector_scaling"], n_resamples=20)
    p = softmax(z[1000:], 1)
    gap = p.max(1) - (p.argmax(1) == y[1000:])
    assert abs(gap.mean()) < gap.std() / np.sqrt(1000)
    right = percent(p.argmax(1) == y[1000:])
    assert says(found).startswith(
        f"Your network says {percent(p.max(1))} and is right in {right}: the difference may be chance"
    )


def test_what_gives_a_true_class_the_probability_0_is_not_near(sample):
    z, y = sample(4000)
    found = report(Logits(z[:2000], y[:2000], z[2000:], y[2000:]), methods=["vector_scaling", "isotonic"])
    assert found.trial.methods["isotonic"].values["nll"].value == np.inf
    assert near(found) == ("Not clearly worse by NLL: vector scaling.",)


def test_of_a_rare_class_it_says_how_much_it_is_given():
    """A network that never names it, and gives it too much: of its top label it is not sure enough."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=6000) - 4
    y = (rng.random(6000) < 1 / (1 + np.exp(-z))).astype(int)
    q = 1 / (1 + np.exp(-z - 2))
    found = report({"probs": np.c_[1 - q, q], "labels": y}, methods=["vector_scaling"], n_resamples=200)
    assert says(found).startswith(
        f"Your network gives 1 {percent(q)} on average, and {percent(y)} are of it: too much by "
    )
    assert f"always naming 0 would be in {percent(1 - y)}." in says(found)


def test_two_rows_of_a_group_count_once(sample):
    z, y = sample(500)
    p = softmax(z, 1)
    said, hit = p.max(1), p.argmax(1) == y
    twice = gap_of(np.tile(said, 2), np.tile(hit, 2), np.tile(np.arange(500), 2))
    assert twice == pytest.approx(gap_of(said, hit))


@pytest.mark.slow
def test_what_was_near_is_told_and_what_stays_off(sample):
    """One temperature keeps a bias towards the first class, which vector scaling takes away."""
    z, y = sample(6000, t=1.0)
    z = z + np.array([2.0, 0.0, 0.0])
    data = Logits(z[:3000], y[:3000], z[3000:], y[3000:])
    found = report(data, methods=["vector_scaling"], keep_predictions=True, n_resamples=200)
    brier, accuracy, off = near(found)[0], near(found)[1], near(found)[-1]
    values = [found.trial.methods[key].values for key in ("vector_scaling", found.choice.key)]
    for text, metric, spec in ((brier, "brier", ".4f"), (accuracy, "accuracy", ".2%")):
        assert text.endswith(" against ".join(format(x[metric].value, spec) for x in values) + ".")
        assert text.startswith("Vector scaling") and "beyond chance" in text
    gap = next(row.after for row in found.classes if row.name == "0")
    assert f"0, too sure by {100 * gap:.0f} points" in off
    assert all(text in found.html() for text in near(found))


def test_where_the_network_has_the_lower_ece_it_is_told():
    """Nine of ten are right at 90%, and some of what is all but certain is wrong: by NLL the temperature rises."""
    rng, n = np.random.default_rng(0), 4000
    sure, predicted = rng.random(n) < 0.05, rng.integers(0, 3, n)
    z = rng.normal(scale=0.01, size=(n, 3))
    z[np.arange(n), predicted] += np.where(sure, 25.0, np.log(18.0))
    y = (predicted + (rng.random(n) < np.where(sure, 0.2, 0.1))) % 3
    found = report(Logits(z[:2000], y[:2000], z[2000:], y[2000:]), methods=["temperature_scaling"])
    before, after = (softmax(z[2000:] / t, 1).max(1) for t in (1.0, found.calibrator.temperature))
    right = predicted[2000:] == y[2000:]
    bins = sure[2000:], ~sure[2000:]
    ece = [sum(abs((p - right)[of].sum()) for of in bins) / 2000 for p in (before, after)]
    assert found.choice.key == "temperature_scaling" and ece[0] < 0.03 < ece[1]
    assert f"has the lower ECE, beyond chance: {ece[0]:.4f} against {ece[1]:.4f}." in " ".join(near(found))


def test_of_calibrated_networks_no_class_is_said_to_stay_off():
    """Of thirty sure predictions some are wrong by chance."""
    rng, said = np.random.default_rng(0), 0
    for _ in range(30):
        z = 2.5 * rng.normal(size=(3000, 100))
        labels = (z + rng.gumbel(size=z.shape)).argmax(1)
        said += bool(stay_off(softmax(z, 1), labels, None, [*map(str, range(100))]))
    assert said <= 3


def weights(p, y):
    found = diagnose(read({"probs": p, "labels": y})).findings
    return [finding.weight for finding in found if finding.kind == "zero probabilities"]


def test_zeros_are_a_note_where_they_look_like_votes_and_else_a_doubt(sample):
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.neighbors import KNeighborsClassifier

    for load in (load_digits, load_breast_cancer):
        x, y = load(return_X_y=True)
        for model in (
            ensemble.RandomForestClassifier(100, random_state=0),
            ensemble.RandomForestClassifier(30, min_samples_leaf=3, random_state=0),
            ensemble.ExtraTreesClassifier(77, random_state=0),
            KNeighborsClassifier(7),
        ):
            p = model.fit(x[::2], y[::2]).predict_proba(x[1::2])
            assert (p == 0).mean() > 0.01 and weights(p, y[1::2]) == ["note"], model
    for k, t in ((2, 40), (3, 15), (10, 15)):
        z, y = sample(3000, k=k, t=t)
        p = softmax(z, 1)
        for rough in (p.round(4), p.astype(np.float16), np.where(p < 1e-8, 0, p)):
            assert (rough == 0).mean() > 0.01 and weights(rough, y) == ["doubt"], (k, rough.dtype)
