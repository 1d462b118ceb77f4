"""Each trouble is put into sound data, found, named in the first paragraph; and sound data raise no alarm."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import chi2_contingency

from calibkit.logits import ARRAYS
from calibkit.reading import read
from calibkit.reporting.data_checks import row_keys, same_counts
from calibkit.reporting.diagnosis import diagnose


@pytest.fixture
def sound(sample):
    z, y = sample(4000, k=5)
    return {"val_logits": z[:2000], "val_labels": y[:2000], "test_logits": z[2000:], "test_labels": y[2000:]}


def kinds(arrays, **options):
    return [finding.kind for finding in diagnose(read(arrays, **options)).findings]


def test_sound_data_raise_no_alarm(sample):
    for seed in range(20):
        z, y = sample(2000, k=5, seed=seed)
        parts = {"val_logits": z[:1000], "val_labels": y[:1000], "test_logits": z[1000:], "test_labels": y[1000:]}
        found = diagnose(read(parts))
        assert found.findings == () and found.first_paragraph == "Nothing in these data looks wrong."


def test_probabilities_for_logits(sound):
    named = {**sound, **{name: softmax(sound[name], 1) for name in ("val_logits", "test_logits")}}
    found = diagnose(read(named))
    assert found.findings[0].kind == "probabilities for logits"
    assert found.first_paragraph.startswith("These are probabilities, not logits")
    np.testing.assert_allclose(softmax(found.val.logits, 1), named["val_logits"], atol=1e-12)
    honest = {name.replace("logits", "probs"): array for name, array in named.items()}
    assert kinds(honest) == []


def test_labels_from_1(sound):
    shifted = {**sound, "val_labels": sound["val_labels"] + 1, "test_labels": sound["test_labels"] + 1}
    found = diagnose(read(shifted))
    assert found.first_paragraph.startswith("Labels run from 1 to 5")
    np.testing.assert_array_equal(found.val.labels, sound["val_labels"])
    np.testing.assert_array_equal(found.test.labels, sound["test_labels"])


def test_a_shifted_validation_set_by_its_labels(sound):
    keep = (sound["val_labels"] != 0) | (np.arange(2000) % 4 == 0)
    less = {**sound, "val_logits": sound["val_logits"][keep], "val_labels": sound["val_labels"][keep]}
    text = diagnose(read(less)).first_paragraph
    assert text.startswith("The validation set is shifted: its classes")
    for key in ("temperature_scaling:class_balanced", "prior_correction"):  # as the page on methods has it
        assert key in text and f"`{key}`" in (Path(__file__).parents[2] / "book" / "which_method.md").read_text()


def test_a_shifted_validation_set_by_its_confidence(sound):
    sure = {**sound, "val_logits": sound["val_logits"] / 3}
    found = diagnose(read(sure))
    assert [finding.kind for finding in found.findings] == ["shift between the splits"]
    assert "confidence less accuracy is" in found.first_paragraph


def test_a_network_trained_on_its_validation_set(sound):
    known = {**sound, "val_labels": sound["val_logits"].argmax(1)}
    assert kinds(known) == ["trained on the validation set"]


def test_labels_that_do_not_belong_to_their_rows(sound):
    rng = np.random.default_rng(0)
    mixed = {**sound, **{name: rng.permutation(sound[name]) for name in ("val_labels", "test_labels")}}
    assert kinds(mixed) == ["no better than guessing"] * 2


def test_the_same_sample_twice_and_in_both_splits(sound):
    twice = {**sound, **{name: np.concatenate([sound[name][:1000]] * 2) for name in ("val_logits", "val_labels")}}
    assert "duplicates" in kinds(twice)
    leaked = {**sound, "test_logits": np.concatenate([sound["test_logits"], sound["val_logits"][:7]])}
    leaked["test_labels"] = np.concatenate([sound["test_labels"], sound["val_labels"][:7]])
    found = diagnose(read(leaked))
    assert [finding.kind for finding in found.findings] == ["samples in both splits"]
    assert found.first_paragraph.startswith("7 of 2007")


def test_outputs_of_few_digits_are_no_leak(sample):
    """Independent samples, many of which share their outputs by chance, with other labels."""
    for digits in (0, 1, 2):
        both = (*sample(3000, k=2), *sample(3000, k=2, seed=1))
        found = diagnose(read({name: x.round(digits) for name, x in zip(ARRAYS, both, strict=True)})).findings
        assert {finding.kind for finding in found} >= {"duplicates", "samples in both splits"}
        assert {finding.weight for finding in found} == {"note"}


def test_a_missing_class_and_few_samples(sample):
    z, y = sample(40, k=3)
    keep = y != 2
    found = diagnose(read((z[keep], y[keep]), kind="logits"))
    assert {finding.kind for finding in found.findings} == {"missing class", "too few samples"}
    assert f"There are {keep.sum()} samples to fit on" in found.first_paragraph


@pytest.mark.parametrize(("k", "weight"), [(2, "doubt"), (3, "note")])
def test_few_of_a_class_are_told_first_and_of_two_they_decide(k, weight, sample):
    z, y = sample(2000, k=k)
    for count, expected in ((19, [("few of a class", weight)]), (20, [])):
        keep = np.append(np.flatnonzero(y != 1), np.flatnonzero(y == 1)[:count])
        found = diagnose(read((z[keep], y[keep]), kind="logits"))
        assert [(finding.kind, finding.weight) for finding in found.findings] == expected
        assert ("only 19 are 1" in found.first_paragraph) == bool(expected)


def test_a_class_without_a_sample_is_told_first(sample):
    z, y = sample(300, k=1000)
    found = diagnose(read((z, y), kind="logits"))
    assert [(finding.kind, finding.weight) for finding in found.findings] == [("missing class", "note")]
    assert found.first_paragraph.startswith(f"{1000 - len(set(y))} of 1,000 classes have no sample: ")


def test_zero_and_rounded_probabilities(sample):
    z, y = sample(500)
    p = softmax(z, 1).round(3)
    found = diagnose(read({"probs": p, "labels": y}))
    assert {finding.kind for finding in found.findings} == {"rounded probabilities", "zero probabilities"}
    assert np.isfinite(found.val.logits).all()
    smallest = p[p > 0].min() / p.sum(1)[np.where(p > 0, p, 9).min(1).argmin()]
    np.testing.assert_allclose(softmax(found.val.logits, 1).min(), smallest / 2, rtol=2e-3)


def test_labels_become_integers(sample):
    z, y = sample(300)
    for given in (y.astype(float), np.eye(3, dtype=int)[y], y.astype(np.uint8)):
        np.testing.assert_array_equal(diagnose(read({"logits": z, "labels": given})).val.labels, y)
    frame = pd.DataFrame(z, columns=["1", "2", "3"]).assign(label=y + 1)
    found = diagnose(read(frame, kind="logits"))
    np.testing.assert_array_equal(found.val.labels, y)  # by the columns' names: nothing was cured
    assert found.findings == () and found.classes == ("1", "2", "3")


def test_what_has_no_cure_is_refused(sample):
    for spoil, text in (
        (
            lambda z, y: (np.where(np.arange(3) == 1, np.nan, z), y),
            "`outputs` to be without missing .*NaN in row 0, from 0 and",
        ),
        (lambda z, y: (np.where(np.arange(3) == 1, np.inf, z), y), "`logits` to be finite"),
        (lambda z, y: (z, np.where(np.arange(len(y)) == 5, 7, y)), r"`labels` to be in \[0, 3\), but got 7"),
        (lambda z, y: (z, y + 0.5), "`labels` to be integers"),
        (lambda z, y: (z, np.where(np.arange(len(y)) == 5, np.nan, y)), "`labels` to be integers"),
        (lambda z, y: (z[:-1], y), "`labels` to be of shape"),
        (lambda z, y: (z[:0], y[:0]), r"`logits` to be of shape \(N, K\) with N >= 1"),
        (lambda z, y: (z.astype(complex), y), "`outputs` to be real numbers, but got dtype torch.complex128"),
        (lambda z, y: (z[:, 0], y), r"`labels` to be in \[0, 2\), but got 2"),
        (lambda z, y: (1 / (1 + np.exp(-z[:, 0])), y % 2), "`logits` to be logits, from before the sigmoid"),
    ):
        with pytest.raises(ValueError, match=f"^Expected {text}"):
            diagnose(read(spoil(*sample(100)), kind="logits"))
    parts = {"val_logits": np.eye(3), "val_labels": [0, 1, 2], "test_logits": np.eye(2), "test_labels": [0, 1]}
    with pytest.raises(ValueError, match="^Expected `test outputs` to be of shape"):
        diagnose(read(parts))


def test_names_in_one_part_and_positions_in_the_other(sample):
    """Those from 1 are none beside names; where the names leave out the first class, too."""
    z, y = sample(60)
    names, frame = np.array(["cat", "dog", "fox"]), pd.DataFrame(z, columns=["cat", "dog", "fox"])
    for parts in (
        (frame.assign(label=y), frame.assign(label=names[y])),
        (frame.assign(label=names[y]), frame.assign(label=y)),
    ):
        diagnosed = diagnose(read(*parts, kind="logits"))
        np.testing.assert_array_equal([diagnosed.val.labels, diagnosed.test.labels], [y, y])
    with pytest.raises(ValueError, match=r"^Expected `validation labels` to be in \[0, 3\), but got 3"):
        diagnose(read(frame.assign(label=y + 1), frame[y > 0].assign(label=names[y[y > 0]]), kind="logits"))


def test_an_unknown_name_of_a_class(sample):
    z, y = sample(20)
    frame = pd.DataFrame(z, columns=["cat", "dog", "fox"]).assign(label=np.array(["cat", "dog", "wolf"])[y])
    with pytest.raises(ValueError, match="^Expected `labels` to be names of the columns cat, dog, fox.*'wolf'"):
        diagnose(read(frame, kind="logits"))
    with pytest.raises(ValueError, match="^Expected `labels` to be names of the columns cat, dog, fox.*'None'"):
        diagnose(read(frame.drop(columns="label"), kind="logits", labelled=False))


def test_chi_square_is_that_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        counts = rng.integers(20, 60, (2, 6)).astype(float)
        assert same_counts(counts) == pytest.approx(chi2_contingency(counts, correction=False).pvalue)


def test_keys_are_equal_for_equal_rows_alone():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x = rng.integers(0, 3, (5000, 4)).astype(dtype)
        assert len(np.unique(row_keys(x))) == len(np.unique(x, axis=0))
        wide = rng.normal(size=(1000, 1500)).astype(dtype)
        assert len(np.unique(row_keys(wide))) == 1000


def test_a_number_next_to_zero_is_no_zero(sample):
    """Half of the smallest number above 0 is 0."""
    for tiny in (1.4e-45, 5e-324):
        z, y = sample(200, k=3)
        p = softmax(z, 1).astype(np.float32 if tiny > 1e-50 else np.float64)
        p[0] = [1, tiny, 0]
        logits = diagnose(read({"probs": p, "labels": y})).val.logits
        assert np.isfinite(logits).all() and logits[0].argmax() == 0


def test_a_zero_of_the_test_part_is_taken_for_what_it_is_in_the_validation_part(sample):
    z, y = sample(400)
    p = softmax(z, 1).round(3)
    p /= p.sum(1, keepdims=True)
    one = {"val_probs": p[:200], "val_labels": y[:200], "test_probs": p[200:], "test_labels": y[200:]}
    other = {**one, "test_probs": p[200:].copy()}
    other["test_probs"][0] = [1 - 1e-12, 1e-12, *[0] * (p.shape[1] - 2)]
    first, second = (diagnose(read(each)).test.logits for each in (one, other))
    np.testing.assert_array_equal(first[1:], second[1:])
    assert (second[0, 2:] < second[0, 1]).all()  # a zero is less than what is above it
