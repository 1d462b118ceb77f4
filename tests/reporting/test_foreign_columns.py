"""A column of numbers that is no class is never taken for one in silence; the refusal names a cure that works."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
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


def test_a_column_that_no_label_names_is_refused_beside_named_classes(drawn):
    for name in ("id", "confidence", "logged_at"):
        frame = table(drawn, CLASSES, CLASSES, **{name: np.arange(400.0)})
        with pytest.raises(
            ValueError, match=rf"but got the columns '{name}', which no label names; .*\(--ignore {name}\)"
        ):
            read(frame, kind="logits")
        for options in ({"ignore": [name]}, {"classes": CLASSES}):
            assert read(frame, kind="logits", **options).classes == tuple(CLASSES)
        assert read(frame, kind="logits", ignore=[]).classes == (*CLASSES, name)


def test_an_index_or_a_score_is_refused_beside_numbered_classes(drawn, tmp_path):
    for columns, name in ((["0", "1", "2"], "id"), ([0, 1, 2], "confidence"), (["first", "second", "third"], "Score")):
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


def test_text_columns_are_left_out_by_their_names(drawn):
    frame = table(drawn, CLASSES, CLASSES, file=[f"{i}.png" for i in range(400)])
    with pytest.raises(
        ValueError, match=r"a column of numbers for each class beside 'label', but got .*\(--ignore file\)"
    ):
        read(frame, kind="logits")
    assert read(frame, kind="logits", ignore=["file"]).classes == tuple(CLASSES)


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


def test_tables_that_become_pandas_are_read(drawn):
    frame = table(drawn, CLASSES, CLASSES)
    given = read(pa.Table.from_pandas(frame), kind="logits")
    np.testing.assert_array_equal(given.val.outputs, drawn[0])
    assert given.classes == tuple(CLASSES)


def test_the_command_line_takes_the_cure_and_apply_needs_none(drawn, tmp_path, monkeypatch, capsys):
    """``apply`` knows the classes, and leaves the other columns out."""
    monkeypatch.chdir(tmp_path)
    frame = table(drawn, CLASSES, CLASSES, id=np.arange(400), file="x.png")
    frame.to_csv("mine.csv", index=False)
    command = ["report", "mine.csv", "--kind", "logits", "--calibrators", "vector_scaling"]
    assert main(command) == 1 and not Path("mine-report").exists()
    assert "--ignore file" in capsys.readouterr().err
    for cure in (["--ignore", "id", "file"], ["--classes", *CLASSES]):
        assert main([*command, *cure]) == 0
        assert json.loads(Path("mine-report/report.json").read_text())["classes"] == 3
    assert main(["apply", "mine-report/calibrator.npz", "mine.csv", "--kind", "logits", "--out", "p.csv"]) == 0
    assert list(pd.read_csv("p.csv")) == CLASSES
    assert "left out: label, id, file" in capsys.readouterr().err
    np.save("z.npy", drawn[0])
    assert main(["apply", "mine-report/calibrator.npz", "z.npy", "--kind", "logits", "--out", "q.csv"]) == 0
    pd.testing.assert_frame_equal(pd.read_csv("q.csv"), pd.read_csv("p.csv"))
