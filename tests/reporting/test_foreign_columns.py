"""A column of numbers that is no class is never taken for one in silence; the refusal names a cure that works."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibkit.__main__ import main
from calibkit.reading import read
from calibkit.reporting.diagnosis import diagnose

CLASSES = ["cat", "dog", "fox"]


@pytest.fixture
def drawn(sample):
    return sample(400)


def table(drawn, columns, labels, **more):
    z, y = drawn
    return pd.DataFrame(z, columns=columns).assign(label=np.array(labels)[y], **more)


@pytest.mark.parametrize("text", ["{}", "{}.0", "+{}", " {}"])
def test_however_a_csv_writes_positions_the_same_columns_are_classes(drawn, tmp_path, text):
    """Without a prefix the column of ages may be a class, and is asked about."""
    path, ages = tmp_path / "mine.csv", np.arange(400) % 3
    labels = [text.format(k) for k in range(3)]
    table(drawn, [f"logit_{name}" for name in CLASSES], labels, age=ages).to_csv(path, index=False)
    given = read(path)
    assert given.classes == tuple(CLASSES) and given.told == ("no classes: 'age'",)
    np.testing.assert_array_equal(diagnose(given).val.labels, drawn[1])
    table(drawn, CLASSES, labels, age=ages).to_csv(path, index=False)
    with pytest.raises(ValueError, match="and no label above 2; leave out what is no class"):
        read(path)


def test_a_column_that_no_label_names_is_left_out_if_it_is_called_so_and_else_refused(drawn):
    frame = table(drawn, CLASSES, CLASSES, id=np.arange(400), confidence=0.5, file="x.png", seen=True)
    given = read(frame)
    assert given.classes == tuple(CLASSES) and list(given.others) == ["label", "id", "confidence", "file", "seen"]
    assert given.told == ("no classes: 'file', 'seen', 'id', 'confidence'",)
    assert diagnose(given).findings[-1].text == f"Read as: {given.told[0]}."
    for name in ("weight", "logged_at"):
        frame = table(drawn, CLASSES, CLASSES, **{name: np.arange(400.0)})
        with pytest.raises(
            ValueError, match=rf"but got the columns '{name}', which no label names; .*\(--ignore {name}\)"
        ):
            read(frame, kind="logits")
        for options in ({"ignore": [name]}, {"classes": CLASSES}):
            assert read(frame, kind="logits", **options).classes == tuple(CLASSES)
        assert read(frame, kind="logits", ignore=[]).classes == (*CLASSES, name)


def test_a_day_or_a_score_is_refused_beside_numbered_classes(drawn, tmp_path):
    for columns, name in ((["0", "1", "2"], "day"), ([0, 1, 2], "age"), (["first", "second", "third"], "Score")):
        frame = table(drawn, columns, [0, 1, 2], **{name: np.arange(400)})
        frame.to_csv(tmp_path / "mine.csv", index=False)
        for source in (frame, tmp_path / "mine.csv"):
            with pytest.raises(ValueError, match=f"but got the columns '{name}', which no label names"):
                read(source, kind="logits")
            found = diagnose(read(source, kind="logits", ignore=[name]))
            assert found.classes == tuple(map(str, columns))
            np.testing.assert_array_equal(found.val.labels, drawn[1])


def test_a_class_may_be_absent_where_it_is_numbered_as_the_others_or_completes_the_probabilities(drawn):
    z, y = drawn
    few = (z[y < 2], y[y < 2])
    assert len(read(table(few, [0, 1, 2], [0, 1]), kind="logits").classes) == 3
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    assert len(read(table((p[y < 2], y[y < 2]), CLASSES, CLASSES), kind="probabilities").classes) == 3
    names = ["id", "score", "index"]  # a label names each
    assert read(table(drawn, names, names), kind="logits").classes == tuple(names)


def test_positions_above_which_a_column_is_left_do_not_say_which_is_no_class(drawn):
    """The first may as well be the one, and then each label means another column."""
    for names in ([*CLASSES, "age"], ["age", *CLASSES]):
        frame = table(drawn, CLASSES, [0, 1, 2], age=np.arange(400.0))
        with pytest.raises(
            ValueError, match=r"but got the columns '.*', and no label above 2; leave out what is no class"
        ):
            read(frame[[*names, "label"]], kind="logits")
        assert read(frame[[*names, "label"]], kind="logits", ignore=["age"]).classes == tuple(CLASSES)
        assert read(frame[[*names, "label"]], kind="logits", ignore=[]).classes == tuple(names)


def test_a_name_letter_by_letter_comes_before_another_case_of_it(drawn):
    frame = table(drawn, CLASSES, CLASSES, split=np.repeat(["val", "test"], 200))
    given = read(frame.assign(Label="dog", Split="train"), kind="logits")
    assert len(given.val.labels) == len(given.test.labels) == 200 and {*given.val.labels} == {*CLASSES}
    given = read(table(drawn, ["X", "Y", "Z"], ["X", "Y", "Z"]).rename(columns={"label": "y"}), kind="logits")
    assert given.classes == ("X", "Y", "Z") and {*given.val.labels} == {"X", "Y", "Z"}


def test_a_class_may_be_called_as_a_split_or_a_group_where_it_is_asked_for(drawn):
    frame = table(drawn, ["split", "group", "cat"], ["split", "group", "cat"])
    found = diagnose(read(frame, kind="logits", classes=["split", "group", "cat"]))
    assert found.classes == ("split", "group", "cat") and found.val.groups is None
    np.testing.assert_array_equal(found.val.labels, drawn[1])
    with pytest.raises(
        ValueError, match="Expected `classes` to be other columns than those of labels.*, but got 'cat'"
    ):
        read(frame, kind="logits", classes=["split", "group", "cat"], id="cat")


def test_two_tables_in_different_orders_want_labels_that_are_names(drawn):
    z, y = drawn
    turned = table((z[:, [2, 0, 1]], y), ["fox", "cat", "dog"], CLASSES)
    given = read(table(drawn, CLASSES, [0, 1, 2]), turned, kind="logits")
    np.testing.assert_array_equal(given.test.outputs, z)
    with pytest.raises(
        ValueError, match="Expected `labels` to be names of classes, .* in different orders, but got '0'"
    ):
        read(table(drawn, CLASSES, [0, 1, 2]), turned.assign(label=y), kind="logits")
    one, other = (pd.DataFrame({name: z[:, 0], "label": np.array(["cat", "dog"])[y % 2]}) for name in ("cat", "dog"))
    with pytest.raises(ValueError, match="to be a test set whose one column is of 'cat', .*, but got one of 'dog'"):
        read(one, other, kind="logits")


def test_apply_takes_the_columns_that_the_calibrator_was_fitted_to(drawn):
    """Beside them may stand the truth as 0 and 1, scores of another network, or what was applied before."""
    z, y = drawn
    logits, probs, truth = (pd.DataFrame(x, columns=CLASSES) for x in (z, np.exp(z), np.eye(3)[y]))
    both = logits.add_prefix("logit_").join(probs.add_prefix("prob_"))
    for kind in ("logits", "probabilities"):
        given = read(both.join(truth), labelled=False, known=(CLASSES, kind))
        assert given.kind == kind and given.classes == tuple(CLASSES)
        np.testing.assert_array_equal(given.val.outputs, z if kind == "logits" else np.exp(z))
    again = logits.join(probs.add_prefix("prob_"))
    np.testing.assert_array_equal(read(again, labelled=False, known=(CLASSES, "logits")).val.outputs, z)
    with pytest.raises(
        ValueError, match="Expected `classes` to be the columns of one set .*, but got those of logit_ and"
    ):
        read(both, labelled=False, known=(CLASSES, None))


def test_one_column_is_of_the_class_whose_name_it_has_also_without_labels(drawn):
    for name, classes in (("dog", ("cat", "dog")), ("cat", ("dog", "cat"))):
        given = read(pd.DataFrame({f"logit_{name}": drawn[0][:, 0]}), labelled=False, known=(["cat", "dog"], "logits"))
        assert given.classes == classes


def test_a_column_beside_is_none_where_it_would_be_the_class_of_a_label(drawn):
    """Labels that are positions say how many classes there are at least."""
    frame = table(drawn, ["first", "second", "id"], [0, 1, 2])
    with pytest.raises(ValueError, match="but got the columns 'id', which no label names"):
        read(frame)
    assert len(read(frame, ignore=[]).classes) == 3
    p = np.exp(drawn[0]) / np.exp(drawn[0]).sum(1, keepdims=True)  # here the sums tell
    assert len(read(table((p, drawn[1]), ["first", "second", "id"], [0, 1, 2])).classes) == 3
    assert len(read(table((p, drawn[1]), CLASSES, [0, 1, 2], score=p.max(1))).classes) == 3
    assert read(table((p, drawn[1]), CLASSES, [0, 1, 2], age=40.0)).told == ("no classes: 'age'",)


def test_one_column_is_a_score_of_the_second_of_two_classes(drawn, tmp_path):
    z, y = drawn[0][:, 0], (drawn[1] == 0).astype(int)
    p = 1 / (1 + np.exp(-z))
    for kind, scores, logits in (("logits", z, np.c_[0 * z, z]), ("probabilities", p, np.log(np.c_[1 - p, p]))):
        frame = pd.DataFrame({"score": scores, "label": y})
        frame.to_csv(tmp_path / "mine.csv", index=False)
        for source in (frame, tmp_path / "mine.csv", (scores, y), (scores[:, None], y)):
            found = diagnose(read(source, kind=kind))
            np.testing.assert_allclose(found.val.logits, logits, rtol=1e-12)
            assert found.classes == ("0", "1") and found.findings == ()
    for name in ("id", "pred", "confidence"):  # may say anything
        with pytest.raises(ValueError, match=f"but got the columns '{name}', which no label names"):
            read(pd.DataFrame({name: z, "label": y}), kind="logits")
    with pytest.raises(ValueError, match="the classes' columns are missing"):
        read(pd.DataFrame({"label": y}), kind="logits")


def test_names_that_are_none_are_refused(drawn):
    for options, message in (
        ({"ignore": ["nope"]}, "`ignore` to be names among"),
        ({"ignore": "id"}, "`ignore` to be names among"),
        ({"classes": ["cat", "wolf"]}, "`classes` to be names among"),
        ({"classes": 3}, "`classes` to be names among"),
        ({"label": ["label"]}, "`label` to be the name of a column"),
    ):
        with pytest.raises(ValueError, match=f"^Expected .*{message}"):
            read(table(drawn, CLASSES, CLASSES), kind="logits", **options)
    with pytest.raises(ValueError, match="Expected `ignore` to be None beside what is no table"):
        read(drawn, kind="logits", ignore=["id"])


def test_names_of_columns_that_are_not_clear_are_refused():
    for columns, message in (
        (pd.MultiIndex.from_product([["a", "b", "c", "label"], [""]]), "one name for each column, but got 2 rows"),
        ([0, "0", "a", "label"], "different names, but got more than one called '0'"),
        (["a", "b", None, "label"], "a name for each column"),
        (["a", "b", np.nan, "label"], "a name for each column"),
    ):
        frame = pd.DataFrame(np.column_stack([np.eye(3), [0, 1, 2]]), columns=columns)
        with pytest.raises(ValueError, match=f"^Expected `source` to be a table (with|whose columns have) {message}"):
            read(frame, kind="logits")


def test_true_and_false_are_labels_of_two_classes(drawn, tmp_path):
    for labels in ([True, False], ["True", "False"], ["false", "true"]):
        z, y = drawn[0][:, :2], drawn[1] % 2
        frame = table((z, y), ["no", "yes"], labels)
        frame.to_csv(tmp_path / "mine.csv", index=False)
        want = frame["label"].astype(str).str.lower() == "true"
        for source in (frame, tmp_path / "mine.csv"):
            np.testing.assert_array_equal(diagnose(read(source, kind="logits")).val.labels, want)


@pytest.mark.slow
def test_the_command_line_takes_the_cure_and_apply_needs_none(drawn, here, shell):
    """``apply`` knows the classes, and leaves the other columns out."""
    frame = table(drawn, CLASSES, CLASSES, age=np.arange(400), file="x.png")
    frame.to_csv("mine.csv", index=False)
    command = ["report", "mine.csv", "--calibrators", "vector_scaling"]
    assert "--ignore age" in shell(command, 1).err and not Path("mine-report").exists()
    for cure in (["--ignore", "age"], ["--classes", *CLASSES], ["--id", "age"]):
        assert main([*command, *cure]) == 0
        assert json.loads(Path("mine-report/report.json").read_text())["classes"] == 3
    said = shell(["apply", "mine-report/calibrator.npz", "mine.csv", "--out", "p.csv"]).err
    assert "read as: no classes: 'age', 'file'" in said
    found, said = pd.read_csv("p.csv"), ["predicted", "confidence"]
    classes = [f"prob_{name}" for name in CLASSES]
    assert list(found) == ["label", "age", "file", *classes, *said]
    pd.testing.assert_frame_equal(found[["label", "age", "file"]], frame[["label", "age", "file"]])
    assert (found["predicted"] == found[classes].idxmax(axis=1).str.removeprefix("prob_")).all()
    np.testing.assert_array_equal(found["confidence"], found[classes].max(axis=1))
    np.save("z.npy", drawn[0])
    assert main(["apply", "mine-report/calibrator.npz", "z.npy", "--out", "q.csv"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv("q.csv"), found[[*classes, *said]])


@pytest.mark.slow
def test_what_apply_writes_can_be_checked(drawn, here, shell):
    """``evaluate`` measures what ``report`` promised, in every format; and ``apply`` on it again keeps its columns."""
    frame = table(drawn, CLASSES, CLASSES, uid=[f"{i:03}" for i in range(400)])
    frame[:200].to_csv("val.csv", index=False)
    frame[200:].to_csv("test.csv", index=False)
    said = shell(["calibrate", "val.csv", "test.csv", "--out", "c.npz"]).out
    want = [line.split()[2] for line in said.splitlines() if line.startswith(("nll", "ece "))]
    for _ in range(2):
        assert main(["report", "val.csv", "test.csv", "--id", "uid", "--calibrators", "ets"]) == 0
    assert json.loads(Path("val-report/report.json").read_text())["source"] == "val.csv and test.csv"
    for suffix in (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".jsonl"):
        assert main(["apply", "c.npz", "test.csv", "--id", "uid", "--out", f"p{suffix}"]) == 0
        lines = shell(["evaluate", f"p{suffix}"]).out.splitlines()
        assert [line.split()[1] for line in lines if line.startswith(("nll", "ece "))] == want
    assert list(pd.read_csv("p.csv", dtype=str)["uid"]) == list(frame["uid"][200:])
