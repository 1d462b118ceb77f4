"""The tests behind the findings: valid at any size, with power, and said on the right side of each threshold."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from scipy.stats import binom

from calibkit.logits import ARRAYS, HeldOut
from calibkit.reading import read
from calibkit.reporting import report, try_all
from calibkit.reporting.data_checks import by_chance, information
from calibkit.reporting.diagnosis import diagnose


def test_the_chance_of_a_difference_is_that_of_all_deals():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, 4) + 6.0, rng.integers(0, 9, 9) * 1.0
    pooled, seen = np.concatenate([a, b]), a.mean() - b.mean()
    of_four = np.array([pooled[list(i)].sum() for i in combinations(range(13), 4)])
    dealt = of_four / 4 - (pooled.sum() - of_four) / 9
    for sign in (0, 1):
        want = (dealt >= seen - 1e-9).mean() if sign else (np.abs(dealt) >= abs(seen) - 1e-9).mean()
        assert by_chance(a, b, sign) == pytest.approx(want, abs=3 * np.sqrt(want / 20_000) + 1e-4)


def test_many_values_have_the_normal_distribution():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.05, size=6000), rng.normal(size=9000)
    assert by_chance(a, b) == pytest.approx(stats.ttest_ind(a, b).pvalue, rel=0.05)


def same(n, m, confidence, seed, k=10):
    """Splits of one calibrated network, all about as sure; None: of every confidence."""
    rng = np.random.default_rng(seed)
    if confidence is None:
        z = 2.5 * rng.normal(size=(n + m, 5))
        y = (z + rng.gumbel(size=z.shape)).argmax(1)
    else:
        top, z = rng.integers(0, k, n + m), np.zeros((n + m, k))
        z[np.arange(n + m), top] = np.log(confidence / (1 - confidence) * (k - 1)) + 0.1 * rng.normal(size=n + m)
        others = (top + 1 + rng.integers(0, k - 1, n + m)) % k
        y = np.where(rng.random(n + m) < softmax(z, 1).max(1), top, others)
    return {"val_logits": z[:n], "val_labels": y[:n], "test_logits": z[n:], "test_labels": y[n:]}


@pytest.mark.parametrize(
    ("n", "m", "confidence"),
    [(60, 1000, 0.97), (1000, 60, 0.97), (1000, 1, None), (1000, 3, None), (1, 1000, None), (3, 1000, None)],
)
def test_small_splits_of_one_network_raise_no_alarm(n, m, confidence):
    """Of 40 sets; 15 to 100% of them did while each split had a variance of its own."""
    alarms = {"shift between the splits", "trained on the validation set"}
    found = [diagnose(read(same(n, m, confidence, seed))).findings for seed in range(40)]
    assert sum(bool(alarms & {finding.kind for finding in each}) for each in found) == 0


def test_what_is_wrong_is_found_in_small_splits():
    for n, m in ((100, 1000), (1000, 100), (150, 150)):
        parts = same(n, m, 0.8, 0)
        learnt = {**parts, "val_labels": parts["val_logits"].argmax(1)}
        assert "trained on the validation set" in [f.kind for f in diagnose(read(learnt)).findings]
        shifted = {**parts, "val_logits": parts["val_logits"] / 3}
        assert "shift between the splits" in [f.kind for f in diagnose(read(shifted)).findings]


def test_of_groups_each_counts_once():
    """Ten images of a hundred pixels, each with an accuracy of its own."""
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(20):
        right = np.repeat(rng.choice([0.6, 1.0], 20), 100) > rng.random(2000)
        z = np.tile([3.0, 0.0], (2000, 1)) + 0.01 * rng.normal(size=(2000, 2))
        y, groups = np.where(right, 0, 1), np.repeat(np.arange(20), 100)
        parts = {"val_logits": z[:1000], "val_labels": y[:1000], "test_logits": z[1000:], "test_labels": y[1000:]}
        parts |= {"val_groups": groups[:1000], "test_groups": groups[1000:]}
        kinds = [finding.kind for finding in diagnose(read(parts)).findings]
        alarms += "trained on the validation set" in kinds or "shift between the splits" in kinds
    assert alarms == 0


def rare(seed, *, n=5000, offset=4.0, scale=1.5):
    rng = np.random.default_rng(seed)
    q = 1 / (1 + np.exp(offset - scale * rng.normal(size=n)))
    return np.column_stack([1 - q, q]), (rng.random(n) < q).astype(int)


@pytest.mark.parametrize(("n", "offset", "scale"), [(5000, 5.5, 1.5), (1000, 3, 1.5), (5000, 4, 0.7)])
def test_a_classifier_of_rare_events_is_not_accused(n, offset, scale):
    for seed in range(5):
        p, y = rare(seed, n=n, offset=offset, scale=scale)
        assert (p.argmax(1) == y).mean() <= (y == 0).mean() + 0.01
        kinds = [finding.kind for finding in diagnose(read({"probs": p, "labels": y})).findings]
        assert "no better than guessing" not in kinds


def test_labels_of_rare_events_that_belong_to_other_rows_are_found():
    found = []
    for seed in range(10):
        p, y = rare(seed)
        findings = diagnose(read({"probs": p, "labels": np.random.default_rng(seed).permutation(y)})).findings
        found.append(("wrong", "no better than guessing") in [f[:2] for f in findings])
    assert sum(found) >= 9


def test_classes_in_other_columns_are_found(sample):
    z, y = sample(1000, k=5)
    assert diagnose(read((np.roll(z, 1, axis=1), y), kind="logits")).findings[0].kind == "no better than guessing"


@pytest.mark.parametrize("row", [[5.0, 0, 0], [0.0, 0, 0]])
def test_outputs_that_are_the_same_for_all_samples_are_found(row):
    """As of a network that has collapsed; where one class alone is there, the outputs have nothing to tell apart."""
    z, y = row * (1 + 1e-8 * np.random.default_rng(0).normal(size=(100, 3))), np.arange(100) % 3
    first = diagnose(read((z, y), kind="logits")).findings[0]
    assert first[:2] == ("wrong", "no better than guessing") and "outputs of all samples are the same" in first.text
    assert "wrong" not in {finding.weight for finding in diagnose(read((z, 0 * y), kind="logits")).findings}


def test_information_is_wilcoxon_of_two_classes():
    p, y = rare(0, n=400)
    z = np.log(p)
    score = z[:, 1] - z[:, 0]
    want = stats.mannwhitneyu(score[y == 1], score[y == 0], method="asymptotic", use_continuity=False)
    found, claimed = information(HeldOut(z, y))
    assert 2 * stats.norm.sf(found) == pytest.approx(want.pvalue, rel=1e-6)
    assert information(HeldOut(z / 7, y))[0] == pytest.approx(found)
    assert claimed == pytest.approx(found, abs=4)  # they are calibrated


def test_equal_leaves_of_trees_are_not_doubted():
    ensemble = pytest.importorskip("sklearn.ensemble")
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = x[order], y[order]
    trees = ensemble.HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(x[:250], y[:250])
    found = report({"probs": trees.predict_proba(x[250:]), "labels": y[250:]}, methods=[], n_resamples=20)
    kinds = {finding.kind: finding.weight for finding in found.diagnosed.findings}
    assert kinds["duplicates"] == "note" and found.choice.sure != "low"


def test_the_split_with_the_odd_label_is_told(tmp_path):
    for label, message in (
        ("wolf", "`test labels` to be names of the columns a, b ..., but got 'wolf'$"),
        (" A", "`test labels` to be .*, but got ' A', which is 'a' but for spaces or case$"),
        ("", "`source` to be a table with a value in each row, but got none in 'label' of row 3,"),
    ):
        (tmp_path / "s.csv").write_text(f"a,b,label,split\n1,2,a,val\n2,1,b,val\n2,1,{label},test\n")
        with pytest.raises(ValueError, match=f"^Expected {message}"):
            diagnose(read(tmp_path / "s.csv", kind="logits"))


def test_a_label_beyond_all_integers_is_told_as_it_is(sample):
    for label, dtype in (
        (10**23, object),
        (-(2**70), object),
        (2**64 - 1, object),
        (2**64 - 1, np.uint64),
        (1e23, float),
    ):
        z, y = sample(20)
        with pytest.raises(ValueError) as error:
            diagnose(read({"logits": z, "labels": np.array([label, *y[1:].tolist()], dtype=dtype)}))
        before, _, got = str(error.value).partition(", but got ")
        assert before == "Expected `labels` to be in [0, 3)" and float(got) == float(label)


THREE = ["ets", "vector_scaling", "structured_vector_scaling"]


def found(val, test):
    """Kind and weight of what is found in two splits of logits and labels."""
    arrays = dict(zip(ARRAYS, (*val, *test), strict=True))
    return [(finding.kind, finding.weight) for finding in diagnose(read(arrays)).findings]


def test_rows_in_both_splits_are_a_leak_where_chance_would_put_them_there_once_in_a_hundred(sample):
    """Outputs that coincide by chance do so within a split as well: of two of one size, each time a fair coin."""
    for shared, weight in ((5, "note"), (6, "note"), (7, "doubt")):
        assert (binom.sf(shared - 1, shared, 0.5) <= 0.01) == (weight == "doubt")
        z, y = sample(2000)
        test_z, test_y = z[1000:].copy(), y[1000:].copy()
        test_z[:shared], test_y[:shared] = z[:shared], y[:shared]
        assert found((z[:1000], y[:1000]), (test_z, test_y)) == [("samples in both splits", weight)]


def sure_of(n, right):
    """Two classes, 80% for one of them at each sample, and that one in a share ``right`` of each class."""
    rng, predicted = np.random.default_rng(round(1000 * right)), np.arange(n) % 2
    z = rng.normal(size=(n, 1)) + np.log(4) * (np.arange(2) == predicted[:, None])
    return z, np.where(np.arange(n) // 2 < right * n / 2, predicted, 1 - predicted)


def test_two_points_of_confidence_less_accuracy_are_a_shift():
    """Of 40,000 samples each, so that a standard error is 0.3 points and no chance could make 1.5."""
    for right, shifted in ((0.785, False), (0.815, False), (0.775, True), (0.825, True)):
        kinds = [kind for kind, _ in found(sure_of(40_000, 0.8), sure_of(40_000, right))]
        assert kinds == ["shift between the splits"] * shifted


def test_other_shares_of_the_classes_are_no_training_on_the_validation_set():
    """A network that is right on 95% of one class and 60% of the other, which is rare in the validation set alone."""
    kinds, texts = ["label shift", "trained on the validation set"], []
    for rare, learnt in ((0.05, False), (0.05, True), (0.0, False), (0.95, True)):
        rng, parts = np.random.default_rng(0), {}
        for split, share in (("val", rare), ("test", 0.5)):
            y = (rng.random(2000) < share).astype(int)
            right = (rng.random(2000) < np.where(y == 1, 0.6, 0.95)) | (learnt and split == "val")
            z = np.abs(rng.normal(size=2000))[:, None] * np.eye(2)[np.where(right, y, 1 - y)]
            parts |= {f"{split}_logits": z, f"{split}_labels": y}
        findings = diagnose(read(parts, kind="logits")).findings
        assert [finding.kind for finding in findings if finding.kind in kinds] == kinds[: 1 + learnt]
        order = rng.permutation(2000)
        parts |= {name: parts[name][order] for name in ("val_logits", "val_labels")}
        assert diagnose(read(parts, kind="logits")).findings == findings
        texts += [finding.text for finding in findings if finding.kind == kinds[1]]
    assert len(texts) == 2 and all("on 100.0% of the validation" in x and "at equal shares" in x for x in texts)


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
