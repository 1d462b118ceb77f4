"""Two classes in a table: which column is their score, and which is none. ``apply`` takes the one that was fitted."""

import json

import numpy as np
import pandas as pd
import pytest

from calibkit.__main__ import main
from calibkit.calibrators import calibrator
from calibkit.reading import read
from calibkit.reporting.diagnosis import diagnose
from calibkit.reporting.labels import each_label


@pytest.fixture
def drawn(sample):
    """Two columns of logits, and labels of which the first tells something."""
    z, y = sample(400)
    return z[:, :2], (y == 0).astype(int)


def table(drawn, columns, labels):
    z, y = drawn
    return pd.DataFrame(z, columns=columns).assign(label=np.array(labels)[y])


def test_two_columns_of_numbers_are_two_classes_only_where_something_says_so(drawn):
    """A feature beside a score is no class: labels 0 and 1 name neither."""
    z, y = drawn
    for labels in ([0, 1], [1, 2], [True, False]):
        frame = table((z, y), ["age_z", "risk"], labels)
        for kind in (None, "logits"):
            with pytest.raises(ValueError, match=r"but got the columns 'age_z', 'risk', .*\(--ignore without a name\)"):
                read(frame, kind=kind)
        assert read(frame, ignore=["age_z"]).val.outputs.shape == (400, 1)
        assert read(frame, ignore=[]).classes == read(frame, classes=["age_z", "risk"]).classes == ("age_z", "risk")
    for columns in (["logit_a", "logit_b"], ["0", "1"], ["class_0", "class_1"], ["Neg", "Pos"]):
        assert read(table((z, y), columns, [0, 1]), kind="logits").val.outputs.shape == (400, 2)
    assert read(table((z, y), ["age_z", "risk"], ["age_z", "risk"])).classes == ("age_z", "risk")
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    assert read(table((p, y), ["ok", "fraud"], [0, 1])).classes == ("ok", "fraud")
    with pytest.raises(ValueError, match="but got the columns 'Pos', 'Neg', which no label names"):
        read(table((z, y), ["Pos", "Neg"], [0, 1]))


def test_the_one_column_that_is_called_as_a_score_is_it(drawn):
    z, y = drawn[0][:, 0], drawn[1]
    for name, other in (("score", "customer"), ("Logit", "age_z"), ("logit_fraud", "amount"), ("score", "id")):
        given = read(pd.DataFrame({other: z[::-1], name: z, "label": y}))
        np.testing.assert_array_equal(given.val.outputs, z[:, None])
        assert given.told == (f"no classes: {other!r}",)
        known = (given.classes, "logits")
        assert read(given.others.assign(**{name: z}), labelled=False, known=known).told[0].startswith(given.told[0])
    for labels in (["ok", "fraud"], [0, 1], [False, True]):
        p = pd.DataFrame({"prob_fraud": 1 / (1 + np.exp(-z)), "amount": z, "age": z, "label": np.array(labels)[y]})
        given = read(p)
        assert given.kind == "probabilities" and given.told == ("no classes: 'amount', 'age'",)
        np.testing.assert_array_equal(diagnose(given).val.labels, y)
    both = pd.DataFrame({"prob_a": z, "logit_a": z, "label": y})
    with pytest.raises(ValueError, match="columns of both"):
        read(both)
    assert read(both, kind="logits").told == ("no classes: 'prob_a'",)
    with pytest.raises(ValueError, match=r"\(--ignore age amount\)"):  # three columns may be three classes
        read(pd.DataFrame({"age": z, "amount": z, "score": z, "label": y}))
    named = table(drawn, ["0", "1"], [0, 1]).assign(prob_top=0.9)  # labels name the others
    with pytest.raises(ValueError, match="but got the columns 'prob_top'"):
        read(named, kind="logits")


def test_a_column_of_lists_is_not_left_out_for_another_of_numbers(tmp_path):
    """Or else the number of a question would be the score of two classes."""
    rows = [{"qid": i, "logprobs": [-1.0, -2.0 - i], "answer": i % 2} for i in range(4)]
    for cell in (list, lambda pair: dict(zip("AB", pair, strict=True))):
        lines = [json.dumps({**row, "logprobs": cell(row["logprobs"])}) for row in rows]
        (tmp_path / "mine.jsonl").write_text("\n".join(lines))
        for options in ({}, {"ignore": ["qid"]}):
            with pytest.raises(ValueError, match=r"^Expected `source` .* in the column 'logprobs'; write a column for"):
                read(tmp_path / "mine.jsonl", label="answer", kind="logits", **options)
    scored = pd.DataFrame(rows).assign(score=1.0, options=[["yes", "no"]] * 4)
    assert read(scored, label="answer", kind="logits", ignore=["logprobs", "qid"]).told == ("no classes: 'options'",)


def test_the_one_column_of_two_tables_is_the_same_and_of_an_array_any(drawn):
    z, y = drawn[0][:, 0], drawn[1]
    one, array = pd.DataFrame({"risk": z, "label": y}), {"logits": z, "labels": y}
    for val, test in ((one, one.assign(age_z=z)), (one, array), (array, one)):
        np.testing.assert_array_equal(np.ravel(read(val, test, kind="logits").test.outputs), z)
    with pytest.raises(ValueError, match="a test set of the classes risk .*, but got age"):
        read(one, one.rename(columns={"risk": "age"}), kind="logits")


def test_one_column_may_be_called_as_what_it_holds(drawn):
    z, y = drawn[0][:, 0], drawn[1]
    for name in ("prob", "Proba", "probability", "logit", "p"):
        kind = {"logit": "logits", "p": None}.get(name, "probabilities")
        frame = pd.DataFrame({name: 1 / (1 + np.exp(-z)), "age": z, "label": y})
        if kind:
            assert read(frame).kind == kind
        else:
            with pytest.raises(ValueError, match="^Expected `kind`"):
                read(frame)


@pytest.fixture
def applied(drawn, here, capsys):
    """A function that fits on a table and applies on another: what is written, or what is said."""

    def apply(fitted, new, *options):
        split = np.repeat(["val", "test"], len(fitted) // 2)
        fitted.assign(split=split).to_csv("mine.csv", index=False)
        kind = ["--kind", "logits"] * (not any(name.startswith("prob_") for name in fitted))
        assert main(["calibrate", "mine.csv", "--out", "c.npz", *kind]) == 0
        new.to_csv("new.csv", index=False)
        capsys.readouterr()
        if main(["apply", "c.npz", "new.csv", "--out", "p.csv", *options]):
            return capsys.readouterr().err
        return pd.read_csv("p.csv")

    return apply


@pytest.mark.slow
def test_apply_takes_the_one_column_that_the_calibrator_was_fitted_to(drawn, applied):
    z, y = drawn[0][:, 0], drawn[1]
    one = pd.DataFrame({"risk": z, "label": y})
    want = applied(one, one[["risk"]])["prob_risk"]
    new = one[["risk"]].assign(age_z=z[::-1], score=1.0)
    for order in (["age_z", "risk"], ["risk", "age_z"], ["score", "risk"], list(new)):
        pd.testing.assert_series_equal(applied(one, new[order])["prob_risk"], want)
    for names in (["age_z"], ["age_z", "score"], ["score"]):
        said = applied(one, new[names])
        assert f"with the column risk, but got {names[-1]}" in said
    assert "with the column risk, but got risk, age_z" in applied(one, new, "--classes", "age_z", "risk")
    for name, odd in (("prob_fraud", "prob_ok"), ("score", "logit_other")):
        p = 1 / (1 + np.exp(-z)) if name == "prob_fraud" else z
        said = applied(pd.DataFrame({name: p, "label": y}), pd.DataFrame({odd: 1 - p}))
        assert said.endswith(f"with the column {name.removeprefix('prob_')}, but got {odd.partition('_')[2]}\n")
    named = pd.DataFrame({"prob_fraud": 1 / (1 + np.exp(-z)), "label": np.array(["ok", "fraud"])[y]})
    found = applied(named, named[["prob_fraud"]].assign(amount=z))
    assert set(found["predicted"]) == {"ok", "fraud"} and "amount" in found


def test_a_calibrator_of_one_label_of_several_knows_its_column(drawn):
    z, y = drawn
    several = pd.DataFrame({"logit_cat": z[:, 0], "logit_dog": z[:, 1], "label_cat": y, "label_dog": 1 - y})
    assert {name: given.classes for name, given in each_label(read(several))} == {"cat": ("cat",), "dog": ("dog",)}
    parted = several.assign(split=np.resize(["train", "val", "test"], len(y)))
    assert read(parted).told[1:] == (f"rows of 'train': left out, {-(-len(y) // 3):,} of them",)


@pytest.mark.slow
def test_apply_says_which_columns_are_missing_also_of_probabilities(drawn, applied):
    z, y = np.c_[drawn[0], -drawn[0][:, 0]], drawn[1]
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    p = table((p, y), ["prob_cat", "prob_dog", "prob_fox"], ["dog", "cat"])
    assert "with the columns cat, dog, fox, but got cat, dog\n" in applied(p, p.drop(columns=["prob_fox", "label"]))


@pytest.mark.slow
def test_a_file_that_does_not_say_the_column_is_read_and_asks_which(drawn, tmp_path, capsys):
    """As that of a fit on arrays."""
    z, y = drawn[0][:, 0], drawn[1]
    saved = str(calibrator("temperature_scaling").fit(z, y).save(tmp_path / "c.npz"))
    pd.DataFrame({"age_z": z, "risk": z}).to_csv(tmp_path / "new.csv", index=False)
    command = ["apply", saved, str(tmp_path / "new.csv"), "--kind", "logits"]
    assert main(command) == 1 and "columns 'age_z', 'risk'" in capsys.readouterr().err
    assert main([*command, "--classes", "risk"]) == 0


def test_apply_to_the_column_of_the_other_class(drawn, here):
    """Its logit z beside 0 is 0 beside -z; without names "0" is that of class 0."""
    z = drawn[0][:, 0]
    fitted = calibrator("vector_scaling").fit(z, drawn[1])
    for classes, name in ((("ok", "fraud"), "ok"), ((), "0")):
        fitted.classes = classes
        fitted.save("c.npz")
        pd.DataFrame({f"logit_{name}": -z}).to_csv("new.csv", index=False)
        assert main(["apply", "c.npz", "new.csv", "--out", "p.csv"]) == 0
        np.testing.assert_allclose(1 - pd.read_csv("p.csv")[f"prob_{name}"], fitted(z).ravel(), rtol=1e-9)
