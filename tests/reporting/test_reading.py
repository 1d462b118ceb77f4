"""Every format gives the same arrays; what is not said is asked for."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from calibkit.logits import Logits
from calibkit.reading import read
from calibkit.reporting import report
from calibkit.reporting.diagnosis import diagnose

CLASSES = ["cat", "dog", "fox"]
a_few = np.array([0, 1, 2])


def as_npz(arrays, folder):
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def as_folder(arrays, folder):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def as_torch(arrays, folder):
    torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, folder / "mine.pt")
    return folder / "mine.pt"


def as_frame(arrays, folder):
    frames = []
    for split in ("val", "test"):
        frame = pd.DataFrame(arrays[f"{split}_logits"], columns=CLASSES)
        frames.append(frame.assign(label=[CLASSES[i] for i in arrays[f"{split}_labels"]], split=split))
    return pd.concat(frames)


def as_parquet(arrays, folder):
    as_frame(arrays, folder).to_parquet(folder / "mine.parquet")
    return folder / "mine.parquet"


def written(suffix, names=None, **how):
    """A form of a table in a file, by ``to_csv`` or another writer, its columns renamed."""

    def form(arrays, folder):
        frame, path = as_frame(arrays, folder).rename(columns=names or {}), folder / f"mine{suffix}"
        if ".jsonl" in suffix:
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        else:
            frame.to_csv(path, index=how.pop("index", False), **how)
        return path

    return form


class Stream:
    """A table that has columns, and gives them as Arrow does, as one of polars."""

    def __init__(self, frame):
        self.columns, self.__arrow_c_stream__ = list(frame), frame.reset_index(drop=True).__arrow_c_stream__


class Lazy:
    """A table still to be read, as a LazyFrame of polars."""

    def __init__(self, frame):
        self.collect, self.collect_schema = lambda: Stream(frame), dict


def as_lists(arrays, folder):
    rows = [
        {"id": i, "logits": z.tolist(), "label": int(y), "split": split}
        for split in ("val", "test")
        for i, (z, y) in enumerate(zip(arrays[f"{split}_logits"], arrays[f"{split}_labels"], strict=True))
    ]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "mine.jsonl"


def as_scores(arrays, folder):
    names = {"logits": "y_score", "labels": "y_true"}
    renamed = {f"{name.split('_')[0]}_{names[name.split('_')[1]]}": array for name, array in arrays.items()}
    np.savez(folder / "mine.npz", **renamed)
    return folder / "mine.npz"


def as_two(of):
    def form(arrays, folder):
        frame = as_frame(arrays, folder)
        val, test = (frame[frame["split"] == split].drop(columns="split") for split in ("val", "test"))
        if of == "files":
            val.to_csv(folder / "val.csv", index=False)
            turned = test[["label", *CLASSES[::-1]]]
            turned.to_json(folder / "test.jsonl", orient="records", lines=True, double_precision=15)
            return folder / "val.csv", folder / "test.jsonl"
        return val, {"arrow": pa.Table.from_pandas(test), "frames": test}[of]

    return form


FORMS = {
    "logits": lambda arrays, folder: Logits(*arrays.values()),
    **dict(npz=as_npz, folder=as_folder, torch=as_torch, frame=as_frame, parquet=as_parquet),
    "csv": written(".csv"),
    "with an index": written(".csv", index=True),
    "tsv": written(".tsv", sep="\t"),
    "semicolons and decimal commas": written(".csv", sep=";", decimal=","),
    "gzip": written(".csv.gz"),
    "JSON lines": written(".jsonl"),
    "lists": as_lists,
    "scores": as_scores,
    "other names": written(".csv", {"label": "y_true"}),
    "arrow": lambda arrays, folder: pa.Table.from_pandas(as_frame(arrays, folder)),
    "a stream": lambda arrays, folder: Stream(as_frame(arrays, folder)),
    "a lazy one": lambda arrays, folder: Lazy(as_frame(arrays, folder)),
    **{f"two {of}": as_two(of) for of in ("files", "frames", "arrow")},
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same(name, arrays, tmp_path):
    """The numbers, labels and kind, though nothing but names and numbers says what is what."""
    source = FORMS[name](arrays, tmp_path)
    found = diagnose(read(*source) if name.startswith("two") else read(source))
    for split, part in (("val", found.val), ("test", found.test)):
        np.testing.assert_allclose(part.logits, arrays[f"{split}_logits"], rtol=1e-13)  # csv: the last digit but one
        np.testing.assert_array_equal(part.labels, arrays[f"{split}_labels"])
        assert part.given is None
    named = name not in ("logits", "npz", "folder", "torch", "lists", "scores")
    assert found.classes == (tuple(CLASSES) if named else ("0", "1", "2"))


def test_a_pair_of_arrays_and_of_files(arrays, tmp_path):
    z, y = arrays["val_logits"], arrays["val_labels"]
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    for given in (
        read((z, y), kind="logits"),
        read(z, y, kind="logits"),
        read(z, tmp_path / "y.npy", kind="logits"),
        read(torch.from_numpy(z), torch.from_numpy(y), kind="logits"),
        read(tmp_path / "z.npy", tmp_path / "y.npy", kind="logits"),
    ):
        np.testing.assert_array_equal(given.val.outputs, z)
        np.testing.assert_array_equal(given.val.labels, y)
        assert given.test is None


def test_a_lazy_table_in_the_place_of_an_array(arrays):
    z, y, lazy = arrays["val_logits"], arrays["val_labels"], Lazy(None)
    lazy.collect = lambda: z
    for given in (read((lazy, y)), read({"logits": lazy, "labels": y})):
        np.testing.assert_array_equal(given.val.outputs, z)


def test_names_say_the_kind(arrays):
    z, y = arrays["val_logits"], arrays["val_labels"]
    assert read({"probs": z, "labels": y}).kind == "probabilities"
    assert read({"val_probabilities": z, "val_labels": y}).kind == "probabilities"
    assert read({"logits": z, "labels": y, "groups": y}).val.groups is y


def test_groups_of_a_table(arrays, tmp_path):
    frame = as_frame(arrays, tmp_path).assign(group=np.arange(60) // 2)
    given = read(frame, kind="logits")
    assert given.test.groups.tolist() == (np.arange(40, 60) // 2).tolist() and len(given.classes) == 3


def test_labels_may_be_absent_where_they_are_not_wanted(arrays, tmp_path):
    frame = as_frame(arrays, tmp_path).drop(columns=["label", "split"])
    assert read(frame, kind="logits", labelled=False).val.labels is None
    assert read({"logits": frame.to_numpy()}, labelled=False).val.labels is None
    assert read(frame.to_numpy(), kind="logits", labelled=False).val.labels is None


def test_of_numbers_that_are_not_there_no_kind_is_asked(arrays):
    z, y = arrays["val_logits"].copy(), arrays["val_labels"]
    z[5, 1] = np.nan
    for outputs in (z, np.abs(z)):
        with pytest.raises(ValueError, match="^Expected `outputs` to be without .* but got NaN in row 5, from 0"):
            report(outputs, y)
    with pytest.raises(ValueError, match="^Expected `outputs` to be of at least one row, but got shape"):
        read(z[:0], y[:0])
    with pytest.raises(ValueError, match=r"^Expected `kind` to be logits or probabilities \(--kind\)"):
        read(np.abs(np.nan_to_num(z)), y)


def test_logits_for_a_calibrator_are_asked_about_where_they_look_like_something_else():
    """Percent, and sigmoids in as many rows as logits hardly ever lie in [0, 1]; a few rows of logits may."""
    rng = np.random.default_rng(0)
    shares, logits = rng.random((40, 3)), {"labelled": False, "known": ((), "logits")}
    for outputs in (100 * shares / shares.sum(1, keepdims=True), shares, shares[:, 0], shares[:, :1]):
        with pytest.raises(ValueError, match=r"^Expected `kind` to be logits or probabilities \(--kind\)"):
            read(outputs, **logits)
        assert read(outputs, **logits, kind="logits").told == ()
    percent = 100 * np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    for outputs, cure in ((percent, "; rows sum to 100: percent[?] divide them by 100"), (percent[:, :2], "")):
        with pytest.raises(ValueError, match=f"say which, but got nothing{cure}$"):
            read(outputs, np.array([0, 2]))
    for outputs in (shares[:19], 9 * shares, 100 * shares[:1]):
        given = read(outputs, **logits)
        assert (given.kind, given.told) == ("logits", ("logits, as what the calibrator was fitted to",))
    assert read(shares[:, 0], labelled=False, known=((), "probabilities")).kind == "probabilities"


def test_what_was_read_is_not_read_again(arrays):
    given = read(arrays)
    for beside in ({"labels": arrays["val_labels"]}, {"kind": "logits"}):
        with pytest.raises(ValueError, match=f"^Expected `source` to be still to be read.* a Given and {min(beside)}$"):
            report(given, **beside)
    with pytest.raises(ValueError, match="^Expected `report` to be with options among .*kind.*, but got foo$"):
        report(arrays, foo=1)


def test_what_is_not_clear_is_asked_for(arrays):
    for source, options, text in (
        (lambda a: a, {"kind": "probabilities"}, "`kind` to be that of the names, logits"),
        (lambda a: a, {"kind": "scores"}, "`kind` to be one of logits, probabilities"),
        (lambda a: a["val_logits"], {"kind": "logits"}, "`labels` to be given beside"),
        (lambda a: {"val_logits": a["val_logits"]}, {}, "with `val_labels` beside `val_logits`"),
        (lambda a: {**a, "logits": a["val_logits"]}, {}, "`source` to be with one array of outputs"),
        (lambda a: {"x": a["val_logits"]}, {}, "`source` to be with one array of outputs"),
        (lambda a: {**a, "val_logits": None, "test_logits": None}, {}, "`source` to be with one array of outputs"),
        (lambda a: {"val_logits": 1, "test_probs": 1, "val_labels": 1, "test_labels": 1}, {}, "`kind` to be that of"),
        (lambda a: as_frame(a, None), {"kind": "logits", "label": "truth"}, "`label` to be a column of the table"),
        (
            lambda a: as_frame(a, None).rename(columns={"label": "class"}),
            {},
            r"`label` to be the name of .*\(--label\)",
        ),
        (lambda a: as_frame(a, None).astype({"label": "category"}), {"id": "nope"}, "`id` to be a column of the table"),
        (lambda a: (a["val_logits"], [[1, 2], [3]]), {"kind": "logits"}, "nested numbers"),
        (
            lambda a: as_frame(a, None).set_axis([*"aab", "label", "split"], axis=1),
            {"kind": "logits"},
            "different names",
        ),
        (lambda a: a, {"labels": a_few}, "`labels` to be a test set with labels of its own, or None"),
        (lambda a: as_frame(a, None), {"kind": "logits", "labels": a_few}, "`labels` to be a test set"),
        (lambda a: a, {"labels": {"logits": a_few, "labels": a_few}}, "`labels` to be a test set beside a validation"),
        (lambda a: "mine.xlsx", {}, None),
    ):
        with pytest.raises(FileNotFoundError if text is None else ValueError, match=text and f"^Expected .*{text}"):
            read(source(arrays), **options)


def test_a_damaged_file_is_told_by_its_name(tmp_path):
    for name in ("mine.npz", "mine.npy", "mine.pt", "mine.csv", "mine.parquet", "mine.xlsx"):
        (tmp_path / name).write_bytes(b"\x00\x01 no such thing \xff")
        with pytest.raises(ValueError, match=f"^Expected .*{name}|^Expected .*column"):
            read(tmp_path / name, np.zeros(3), kind="logits")


def test_no_pickle_is_loaded(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "written"), "w"))

    torch.save({"logits": Evil(), "labels": torch.zeros(3)}, tmp_path / "mine.pt")
    with pytest.raises(ValueError, match="^Expected `source` to be a torch file of tensors alone"):
        read(tmp_path / "mine.pt")
    assert not (tmp_path / "written").exists()


def test_groups_of_a_logits_file(arrays):
    numbers = np.arange(20) // 2
    assert read(Logits(*arrays.values(), {}, numbers)).test.groups is numbers
    assert read(Logits(*arrays.values())).test.groups is None


def test_labels_of_a_csv_are_the_names_of_its_columns(sample, tmp_path):
    """Whatever pandas would make of them: numbers, or missing values; or else they are positions."""
    z, y = sample(60)
    for names in (["02", "01", "00"], ["None", "NA", "nan"], ["1.0", "1.10", "2.0"], [2, 1, 0], CLASSES):
        table = pd.DataFrame(z, columns=names).assign(label=y if names is CLASSES else [names[i] for i in y])
        if names == [2, 1, 0]:
            table["label"] = table["label"].astype(float)
        table.to_csv(tmp_path / "mine.csv", index=False)
        for source in (tmp_path / "mine.csv", table):
            diagnosed = diagnose(read(source, kind="logits"))
            np.testing.assert_array_equal(diagnosed.val.labels, y)
            assert diagnosed.classes == tuple(map(str, names))
