"""What the columns, rows and numbers of a table are, by their names and values; what is not clear is asked for."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from calibkit.__main__ import main
from calibkit.calibrators import calibrator
from calibkit.reading import read
from calibkit.reporting.diagnosis import diagnose

CLASSES = ["cat", "dog", "fox"]


@pytest.fixture
def frame(arrays):
    z, y = (np.concatenate([arrays[f"{split}_{name}"] for split in ("val", "test")]) for name in ("logits", "labels"))
    return pd.DataFrame(z, columns=CLASSES).assign(label=np.array(CLASSES)[y], split=["val"] * 40 + ["test"] * 20)


def test_columns_with_a_prefix_are_the_classes(arrays, frame):
    """And the prefix says what they hold; of both, ``kind`` chooses."""
    frame = frame.rename(columns={name: f"logit_{name}" for name in CLASSES})
    frame = frame.assign(age=1.0, note="x")
    both = frame.assign(prob_cat=0.5, prob_dog=0.5, prob_fox=0.0)
    numbered = frame.assign(label=frame["label"].map(dict(zip(CLASSES, (1, 2, 3), strict=True))))
    for given in (read(frame), read(both, kind="logits"), read(numbered)):
        np.testing.assert_array_equal(given.val.outputs, arrays["val_logits"])
        assert (given.kind, given.classes) == ("logits", tuple(CLASSES))
        assert given.told[0].startswith("no classes: 'age', 'note'")
    with pytest.raises(ValueError, match="`kind` to be logits or probabilities, where a table holds both"):
        read(both)
    named = frame.assign(cat=0.5, dog=0.5, fox=0.0)  # labels name these
    assert read(named, kind="probabilities").val.outputs[0].tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ValueError, match="`kind` to be that of the names, logits"):
        read(frame, kind="probabilities")


def test_numbers_say_what_they_are_or_it_is_asked(arrays):
    z, y = np.abs(arrays["val_logits"]), arrays["val_labels"]
    p = z / z.sum(1, keepdims=True)
    for outputs, want in ((-z, "logits"), (p, "probabilities"), (p.round(2), "probabilities"), (z, None)):
        for source in ((outputs, y), {"y_score": outputs, "y_true": y}, pd.DataFrame(outputs).assign(label=y)):
            if want is None:
                with pytest.raises(ValueError, match="^Expected `kind` to be logits or probabilities"):
                    read(source)
            else:
                assert read(source).kind == want


def test_splits_by_other_names_are_told_and_rows_of_train_are_left_out(arrays, frame):
    words = {"val": "Validation", "test": "TEST"}
    trained = frame[:7].assign(split="train", cat=np.nan)
    given = read(pd.concat([trained, frame.replace({"split": words})]))
    np.testing.assert_array_equal(given.val.outputs, arrays["val_logits"])
    np.testing.assert_array_equal(given.test.outputs, arrays["test_logits"])
    assert "rows of 'train': left out, 7 of them" in given.told and "rows of 'Validation': to fit on" in given.told
    given = read(frame.rename(columns={"split": "fold"}), split="fold")
    assert len(given.test.outputs) == 20 and given.told == ()
    for split in ("train", "fold 3", 1):
        with pytest.raises(ValueError, match=r'^Expected `split` to be a column of "val" and "test" .*--ignore split'):
            read(frame.assign(split=split))
    alone = read(frame.assign(split=["test"] * 60))  # one set
    assert alone.test is None and len(alone.val.outputs) == 60


def test_a_missing_value_names_its_row(frame, tmp_path):
    frame = frame.assign(id=[f"s{i}" for i in range(60)])
    for column in ("dog", "label"):
        for rows, more in (([44], ""), ([44, 51, 50], " and 2 others")):
            holed = frame.copy()
            holed.loc[rows, column] = np.nan
            holed.to_csv(tmp_path / "holed.csv", index=False)
            for source in (holed, tmp_path / "holed.csv"):
                with pytest.raises(ValueError) as error:
                    read(source, id="id")
                assert str(error.value) == (
                    "Expected `source` to be a table with a value in each row, but got "
                    f"none in {column!r} of row 45 (id 's44'){more}, the first being 1"
                )
    spoilt = frame.astype({"dog": object})
    spoilt.loc[3, "dog"] = "n.a."
    with pytest.raises(ValueError, match="but got 'n.a.' in the column 'dog', row 4"):
        read(spoilt)


def test_numbers_of_another_byte_order_and_complex_ones(arrays):
    """Columns as FITS has them are read; the imaginary part of a label is not dropped in silence."""
    z, y = arrays["val_logits"], arrays["val_labels"]
    plain = pd.DataFrame(z, columns=["0", "1", "2"]).assign(label=y, split="val")
    swapped = plain.astype({"0": ">f8", "label": ">i4"})
    own = plain.astype({"label": "category"}).assign(day=pd.Timestamp("2026-01-01", tz="UTC"))  # no numpy types
    for name, table in itertools.product(("outputs", "labels"), (swapped, own)):
        np.testing.assert_array_equal(getattr(read(table).val, name), getattr(read(plain).val, name))
    with pytest.raises(ValueError, match="^Expected `labels` to be integers, but got dtype torch.complex128"):
        diagnose(read(plain.assign(label=y + 1j)))
    for what in ("classes", "ignore"):
        with pytest.raises(ValueError, match=f"^Expected `{what}` to be names among "):
            read(plain, **{what: np.array("0")})


def test_cells_of_json_that_are_no_numbers(arrays, tmp_path):
    """A list, a dict and a number beyond any float are no classes, and no labels. A column beside lists is none."""
    rows = pd.DataFrame(arrays["val_logits"], columns=CLASSES).assign(label=np.array(CLASSES)[arrays["val_labels"]])
    rows, mine = rows.to_dict("records"), tmp_path / "mine.jsonl"
    for odd in ([1], {"age": 3}, 10**400):
        mine.write_bytes(b"\xef\xbb\xbf" + json.dumps([{**row, "more": odd} for row in rows]).encode())
        given = read(mine)
        np.testing.assert_array_equal(given.val.outputs, arrays["val_logits"])
        assert given.told == ("no classes: 'more'",)
        for name in ("cat", "label", "split"):
            mine.write_text("\n".join(json.dumps(row) for row in [{**rows[0], name: odd}, *rows[1:]]))
            with pytest.raises(ValueError, match="^Expected `.*` to be "):
                diagnose(read(mine))
    names = pd.Series([*(row["label"] for row in rows[:-1]), "\ud800"], dtype=object)
    with pytest.raises(ValueError, match="^Expected `.*` to be "):  # half a pair of surrogates
        diagnose(read(pd.DataFrame(rows).assign(label=names)))
    lists = pd.DataFrame({"logits": arrays["val_logits"].tolist(), "label": arrays["val_labels"], "0": 1})
    found = read(lists)
    np.testing.assert_array_equal(found.val.outputs, arrays["val_logits"])
    assert found.told == ("no classes: '0'",)


def test_labels_in_other_numbers_are_told_that_columns_may_be_called_so(arrays):
    z, y = arrays["val_logits"], np.array([3, 7, 9])[arrays["val_labels"]]
    with pytest.raises(ValueError, match="by size: so must columns be; or call a table's columns so$"):
        diagnose(read(pd.DataFrame(z, columns=["logit_a", "logit_b", "logit_c"]).assign(label=y)))
    called = pd.DataFrame(z, columns=["logit_3", "logit_7", "logit_9"]).assign(label=y)
    np.testing.assert_array_equal(diagnose(read(called)).val.labels, arrays["val_labels"])


def test_one_column_that_is_called_as_one_of_two_labels():
    """It is the score of that class, whatever the alphabet says; of another name it is asked."""
    frame = pd.DataFrame({"prob_fraud": [0.1, 0.9, 0.2], "label": ["ok", "fraud", "ok"]})
    assert read(frame).classes == ("ok", "fraud")
    assert diagnose(read(frame)).val.labels.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="Expected `label` to be 0 and 1, where 'prob_x' is of class 1"):
        read(frame.rename(columns={"prob_fraud": "prob_x"}))


def test_names_in_another_case_or_with_spaces_before_them(frame, tmp_path):
    trained = frame[:7].assign(split="train")
    named = pd.concat([trained, frame]).rename(columns={"split": "Split", "label": "Label"})
    assert [len(part.outputs) for part in (read(named).val, read(named).test)] == [40, 20]
    (tmp_path / "x.csv").write_text(named.to_csv(index=False).replace(",", ", "))
    assert [len(part.outputs) for part in (read(tmp_path / "x.csv").val, read(tmp_path / "x.csv").test)] == [40, 20]


def test_the_index_of_a_parquet_table_is_a_column(frame, tmp_path):
    frame.set_index("split").to_parquet(tmp_path / "x.parquet")
    assert len(read(tmp_path / "x.parquet").test.outputs) == 20


def test_numbered_columns_are_counted_by_their_numbers(sample):
    """``sorted`` and pivots write class_0, class_1, class_10, class_2; where labels name columns these stay."""
    z, y = sample(300, k=12)
    order = sorted(range(12), key=str)
    for word in ("class_", "logit_class_", "c", ""):
        for first in (0, 1):
            frame = pd.DataFrame({f"{word}{k + first}": z[:, k] for k in order}).assign(label=y + first)
            found = diagnose(read(frame, kind="logits"))
            right = np.array([of.rsplit("_")[-1].lstrip("c") for of in found.classes])[found.val.labels].astype(int)
            np.testing.assert_array_equal(right, y + first)
            np.testing.assert_array_equal(found.val.logits.argmax(1) == found.val.labels, z.argmax(1) == y)


@pytest.mark.parametrize("names", [("true", "false"), ("pos", "neg"), ("Yes", "No")])
def test_two_columns_in_the_other_order_of_labels(sample, names):
    z, y = sample(300, k=2)
    p = softmax(z, 1)
    for labels in (y, y.astype(bool)):
        frame = pd.DataFrame({f"prob_{name}": p[:, 1 - k] for k, name in enumerate(names)}).assign(label=labels)
        np.testing.assert_allclose(diagnose(read(frame)).val.probs, p)


def test_groups_may_have_names_and_none_may_be_missing(sample):
    z, y = sample(40)
    frame = pd.DataFrame(z, columns=CLASSES).assign(label=y, group=np.repeat(["b", "a"], 20))
    np.testing.assert_array_equal(read(frame, kind="logits").val.groups, np.repeat([0, 1], 20))
    assert read(frame, kind="logits", ignore=["group"]).val.groups is None
    frame.loc[3, "group"] = None
    with pytest.raises(ValueError, match="with a value in each row, but got none in 'group' of row 4"):
        read(frame, kind="logits")
    for group in (None, "site"):  # rows without labels, as of `apply`, need none
        assert read(frame[:5], kind="logits", group=group, labelled=False).val.outputs.shape == (5, 3)


def test_columns_that_are_carried_stand_as_they_stood(sample, here):
    z, y = sample(100)
    fitted = calibrator("temperature_scaling").fit(z, y)
    fitted.save("c.npz")
    table = pd.DataFrame(z[:4], columns=[f"logit_{name}" for name in CLASSES])
    carried = {"code": ["007", "1", "", "4"], "country": ["NA", "None", "null", "DE"], "n": ["1" * 23] * 4}
    table.assign(**carried, prob_cat="old").to_csv("new.csv", index=False)
    for out in ("out.csv", "out.parquet", "out.jsonl"):
        assert main(["apply", "c.npz", "new.csv", "--kind", "logits", "--out", out]) == 0
    found = pd.read_csv("out.csv", dtype=str, keep_default_na=False)
    assert found[[*carried]].to_dict("list") == carried
    assert list(found) == [*carried, *(f"prob_{name}" for name in CLASSES), "predicted", "confidence"]
    assert pd.read_parquet("out.parquet")[[*carried]].to_dict("list") == carried
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    np.testing.assert_array_equal([[row[f"prob_{name}"] for name in CLASSES] for row in rows], fitted(z[:4]))


def test_numbered_columns_of_a_calibrator_that_was_fitted_on_arrays(sample, here):
    z, y = sample(300, k=11)
    fitted = calibrator("vector_scaling").fit(z, y)
    fitted.save("v.npz")
    new = pd.DataFrame({f"logit_{k}": z[:, k] for k in sorted(range(11), key=str)})
    for more in ({}, {"label": y}):  # where labels name columns these stand as they stood
        new.assign(**more).to_csv("new.csv", index=False)
        assert main(["apply", "v.npz", "new.csv", "--out", "out.csv"]) == 0
        found = pd.read_csv("out.csv")[[f"prob_{k}" for k in range(11)]]
        np.testing.assert_allclose(found, fitted(z), rtol=1e-12)
