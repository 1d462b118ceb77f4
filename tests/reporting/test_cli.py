"""``calibkit report | compare | apply`` on files as a user has them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from calibkit.__main__ import main
from calibkit.calibrators import calibrator, load_calibrator
from calibkit.reading.files import opened
from calibkit.reporting import report

CLASSES = ["cat", "dog", "fox"]
STEP = re.compile(r"(report|compare), \d+ s: (\d+ of \d+, .+|intervals of all metrics)\n")


def but_for_steps(text):
    """What the standard error has beside a line for each step."""
    return STEP.sub("", text)


@pytest.fixture
def csv(sample, here):
    z, y = sample(2000)
    table = pd.DataFrame(z, columns=CLASSES).assign(label=np.array(CLASSES)[y])
    table["split"] = np.where(np.arange(2000) < 1000, "val", "test")
    table.to_csv("mine.csv", index=False)
    return z, y


@pytest.mark.slow
def test_report_apply_and_compare_on_a_csv(csv, tmp_path, shell):
    z, _ = csv
    out = shell(["report", "mine.csv", "--kind", "logits", "--calibrators", "vector_scaling"]).out
    assert "Nothing in these data looks wrong." in out and "\n> temperature scaling " in out
    saved = [tmp_path / "mine-report" / name for name in ("report.html", "report.json", "calibrator.npz")]
    assert all(path.is_file() for path in saved)
    assert json.loads(saved[1].read_text())["source"] == "mine.csv"

    want = load_calibrator(saved[2])(z)  # every row, whatever its split
    for out in ("p.npy", "p.csv", "p.parquet", "p.json"):
        assert main(["apply", "mine-report/calibrator.npz", "mine.csv", "--kind", "logits", "--out", out]) == 0
    printed = json.loads(shell(["apply", "mine-report/calibrator.npz", "mine.csv", "--kind", "logits"]).out)
    tables = [opened(Path("p.csv"), ()), pd.read_parquet("p.parquet")]
    stored = json.loads((tmp_path / "p.json").read_text())
    classes = [f"prob_{name}" for name in CLASSES]
    in_tables = (table[classes].to_numpy() for table in tables)
    for probs in (np.load("p.npy"), *in_tables, stored["probs"], printed["probs"]):
        np.testing.assert_allclose(probs, want, rtol=1e-14)
    assert list(tables[0]) == list(tables[1]) == ["label", "split", *classes, "predicted", "confidence"]
    assert stored["classes"] == CLASSES

    said = shell(["compare", "mine.csv", "--kind", "logits", "--calibrators", "vector_scaling", "--json"]).out
    facts = json.loads(said)
    assert list(facts["methods"]) == ["temperature_scaling", "identity", "vector_scaling"]


@pytest.mark.slow
def test_a_network_by_its_name(csv, shell):
    command = ["compare", "cifar10/resnet20-cross_entropy-s0", "--calibrators", "identity"]
    assert shell(command).out.startswith("cifar10/resnet20-cross_entropy-s0: 5000 samples")


def test_what_is_wrong_is_one_line(csv, shell):
    Path("rowless.csv").write_text("cat,dog,fox,label\n")
    Path("open.csv").write_text("cat,dog,fox,label\n1,2,3,cat\n3,1,2,fox\n2,3,4,dog\n")
    Path("twice.csv").write_text("a,a,label\n1,2,a\n")
    for command, text in (
        ("report open.csv", "`kind` to be logits or probabilities (--kind)"),
        ("report absent.csv --kind logits", "`path` to be one that can be used, but got 'absent.csv'"),
        ("compare mine.csv --kind logits --calibrators nope", "`calibrator` to be one of identity"),
        ("compare mine.csv --kind logits --label truth", "`label` to be a column"),
        ("apply mine.csv mine.csv --kind logits", "`path` to be a file that Calibrator.save wrote, but got 'mine.csv'"),
        ("report mine.csv --kind logits --out mine.csv", "`out` to be a folder, but got the"),
        ("report rowless.csv --kind logits", "`source` to be a table with rows, but got none"),
        ("report twice.csv --kind logits", "`source` to be a table whose columns have different names"),
        ("apply c.npz mine.csv --kind logits --out p.xlsx", "`out` to be one of .npy"),
    ):
        captured = shell(command.split(), 1)
        assert captured.out == "" and captured.err.startswith(f"Expected {text}")
        assert len(captured.err.splitlines()) == 1


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_gets_no_complaint(csv):
    """``calibkit compare ... | head -1``, with the files of a report written before its first line."""
    for command in ("compare", "report"):
        words = [sys.executable, "-m", "calibkit", command, "mine.csv", "--kind", "logits", "--calibrators", "ets"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            assert but_for_steps(process.stderr.read().decode()) == "" and process.wait() == 1
    assert Path("mine-report/calibrator.npz").is_file()


def test_a_report_that_cannot_be_saved_is_printed(csv, shell, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "mine-report/report.html")

    monkeypatch.setattr("calibkit.reporting.Report.save", full)
    captured = shell(["report", "mine.csv", "--kind", "logits", "--calibrators", "ets"], 1)
    assert "temperature scaling" in captured.out
    assert but_for_steps(captured.err) == (
        "Expected `path` to be one that can be used, but got 'mine-report/report.html': No space left on device\n"
    )


def test_what_cannot_be_written_is_refused_before_any_work(csv, shell, monkeypatch):
    for module in ("report", "calibrate"):
        monkeypatch.setattr(f"calibkit.cli.{module}.read_source", lambda *_, **__: pytest.fail("read first"))
    Path("file").touch()
    Path("folder").mkdir()
    for command, out, message in (
        ("report mine.csv", "file/x", "that can be written, but got 'file/x'"),
        ("apply c.npz mine.csv", "file/x.csv", "a file that can be written, but got 'file/x.csv'"),
        ("calibrate mine.csv", "file/c.npz", "a file that can be written, but got 'file/c.npz'"),
        ("calibrate mine.csv", "folder", "the path of a file, but got 'folder', which is none"),
    ):
        printed = shell([*command.split(), "--kind", "logits", "--out", out], 1)
        assert printed.out == "" and re.fullmatch(f"Expected `out` to be .*{message}\n", printed.err)


def test_what_is_read_is_not_written(csv, shell):
    before = Path("mine.csv").read_bytes()
    assert main(["report", "mine.csv", "--kind", "logits", "--calibrators", "ets"]) == 0
    fitted = Path("mine-report", "calibrator.npz")
    state = fitted.read_bytes()
    for command in (
        ["calibrate", "mine.csv", "--out", "mine.csv"],
        ["apply", str(fitted), "mine.csv", "--out", "./mine.csv"],
        ["calibrate", "mine.csv", str(fitted), "--out", str(fitted)],
    ):
        assert shell([*command, "--kind", "logits"], 1).err.splitlines()[-1].startswith("Expected `out` to be ")
    assert (Path("mine.csv").read_bytes(), fitted.read_bytes()) == (before, state)


def test_an_empty_path_is_not_this_folder(csv, capsys):
    for words in (["report", "mine.csv", "--out", ""], ["report", ""], ["apply", "c.npz", ""]):
        before = set(Path().iterdir())
        with pytest.raises(SystemExit):
            main([*words, "--kind", "logits"])
        assert "Expected a path, but got ''" in capsys.readouterr().err and set(Path().iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["caf\udce9.csv", "é.csv"])
def test_any_name_of_a_file_can_be_told(name, csv):
    """One that is no UTF-8, and one that the terminal has no letters for."""
    Path("mine.csv").rename(name)
    words = [sys.executable, "-m", "calibkit", "report", name, "--kind", "logits", "--calibrators", "identity"]
    found = subprocess.run(words, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert (found.returncode, but_for_steps(found.stderr.decode())) == (0, "")
    assert b"samples to fit on" in found.stdout and b"report.html" in found.stdout
    folder = Path(f"{Path(name).stem}-report")
    assert json.loads((folder / "report.json").read_bytes())["source"] == name
    assert b"Calibration of " in (folder / "report.html").read_bytes()
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0  # and anew


@pytest.mark.slow
def test_labels_that_do_not_belong_to_their_rows_give_no_calibrator(csv, shell):
    """Nor is one of an earlier report left; the exit status says it to a script."""
    command = ["report", "mine.csv", "--kind", "logits", "--calibrators", "vector_scaling"]
    assert main(command) == 0 and Path("mine-report/calibrator.npz").is_file()
    table = pd.read_csv("mine.csv")
    table["label"] = np.random.default_rng(0).permutation(table["label"])
    table.to_csv("mine.csv", index=False)
    for words in (command, ["compare", *command[1:]]):
        captured = shell(words, 1)
        said = but_for_steps(captured.err)
        assert said.startswith("Expected `source` to be outputs beside the labels of the same samples, but got")
        assert "Nothing is recommended" in captured.out and "Take " not in captured.out
    assert {path.name for path in Path("mine-report").iterdir()} == {"report.html", "report.json"}
    facts = json.loads(Path("mine-report/report.json").read_text())
    assert facts["recommended"]["key"] == "identity" and facts["recommended"]["sure"] == "none"
    assert "load_calibrator" not in Path("mine-report/report.html").read_text()


def test_a_doubt_is_told_beside_the_advice(csv, shell):
    table = pd.read_csv("mine.csv").assign(age=np.arange(2000.0) / 1000 - 9)  # no class; and labels are positions
    table["label"] = table["label"].map(CLASSES.index)
    table.to_csv("mine.csv", index=False)
    captured = shell(["report", "mine.csv", "--kind", "logits", "--ignore", "--calibrators", "ets"])
    assert but_for_steps(captured.err) == "in doubt: missing class; read the warning first\n"
    assert "have no validation sample: age." in captured.out and "(sure: low)" in captured.out


def test_the_calibrator_is_kept_where_nobody_reads_the_table(csv, monkeypatch):
    """As in ``calibkit calibrate ... | head -3``."""

    def closed(*_):
        raise BrokenPipeError

    monkeypatch.setattr("calibkit.cli.calibrate._compare", closed)
    with open("said.txt", "w") as output:  # which `main` turns to the null device
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["calibrate", "mine.csv", "--kind", "logits", "--out", "mine.npz"]) == 1
    assert load_calibrator("mine.npz").classes == tuple(CLASSES)


def test_an_infinite_nll_is_explained(shell, tmp_path):
    p = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]] * 40)
    np.savez(tmp_path / "mine.npz", probs=p, labels=np.r_[[1, 1, 0], [0, 1, 0] * 39])
    said = shell(["evaluate", str(tmp_path / "mine.npz")]).out
    assert "the NLL is infinite: the probability of the label is 0 in 1 of 120 samples" in said


def test_a_method_whose_library_is_absent_is_left_out(csv, shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.isotonic", None)
    said = shell(["compare", "mine.csv", "--kind", "logits", "--calibrators", "ets", "isotonic"]).out
    assert "left out: sklearn.isotonic is not installed" in said


def test_an_interrupt_is_one_line(csv, shell, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("calibkit.cli.report._found", interrupted)
    assert shell(["compare", "mine.csv", "--kind", "logits"], 130).err == "interrupted\n"


@pytest.mark.slow
def test_apply_takes_columns_by_their_names(csv):
    """A calibrator of named columns meets them in another order, and takes arrays as they stand."""
    z, y = csv
    vector = calibrator("vector_scaling").fit(z[:1000], y[:1000])
    vector.classes = tuple(CLASSES)
    vector.save("vector.npz")
    pd.DataFrame(z, columns=CLASSES)[CLASSES[::-1]].to_csv("turned.csv", index=False)
    assert main(["apply", "vector.npz", "turned.csv", "--kind", "logits", "--out", "p.csv"]) == 0
    probs = pd.read_csv("p.csv")
    assert list(probs) == [*(f"prob_{name}" for name in CLASSES[::-1]), "predicted", "confidence"]
    np.testing.assert_allclose(probs[[f"prob_{name}" for name in CLASSES]], vector(z), rtol=1e-12)
    assert vector.fit(z, y).classes == ()

    vector.classes = ("0", "1", "2")  # numbers are names, too
    vector.save("vector.npz")
    pd.DataFrame(z[:, ::-1], columns=["2", "1", "0"]).to_csv("numbers.csv", index=False)
    assert main(["apply", "vector.npz", "numbers.csv", "--kind", "logits", "--out", "p.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("p.csv")[["prob_0", "prob_1", "prob_2"]], vector(z), rtol=1e-12)
    assert report((z, y), kind="logits", methods=["vector_scaling"]).calibrator.classes == ()


def test_a_zero_is_taken_for_the_same_wherever_it_stands(csv, tmp_path, shell):
    """What a calibrator of probabilities says of a row does not depend on the rows beside it."""
    z, y = csv
    rounded = softmax(z, 1).round(4)
    table = pd.DataFrame(rounded, columns=CLASSES).assign(label=np.array(CLASSES)[y], split=["val", "test"] * 1000)
    table.to_csv("p.csv", index=False)
    assert main(["report", "p.csv", "--kind", "probabilities", "--calibrators", "temperature_scaling"]) == 0
    fitted = load_calibrator(tmp_path / "p-report" / "calibrator.npz")
    assert fitted.floor == pytest.approx(0.0001 / 2, rel=1e-3)  # of rows that were divided by their sums
    row, found = pd.DataFrame([[0.0, 0.0, 1.0]], columns=CLASSES), []
    for others in (0, 6):
        pd.concat([row, table[CLASSES][:others]]).to_csv("new.csv", index=False)
        for kind in ("probabilities", "logits"):  # which they are no more than those that it was fitted to
            out = ["--kind", kind, "--out", "out.csv"]
            assert main(["apply", "p-report/calibrator.npz", "new.csv", *out]) == 0
            found.append(pd.read_csv("out.csv").filter(like="prob_").iloc[0])
    for probs in found:
        np.testing.assert_array_equal(probs, found[0])
    want = fitted(np.log([[fitted.floor, fitted.floor, 1.0]]))[0]
    np.testing.assert_allclose(found[0], want, rtol=1e-12)
    np.save("logits.npy", z)
    assert main(["apply", "p-report/calibrator.npz", "logits.npy", "--kind", "logits", "--out", "out.npy"]) == 0
    np.testing.assert_allclose(np.load("out.npy"), fitted(np.log(softmax(z, 1))), rtol=1e-9)
    calibrator("vector_scaling").fit(z, y).save("of_logits.npz")
    said = shell(["apply", "of_logits.npz", "p.csv", "--kind", "probabilities"], 1).err
    assert "Expected `source` to be logits, as what the calibrator was fitted to, but got prob" in said


def test_names_with_dollars_are_no_formulas(csv, tmp_path):
    names = ["a$b_{$", "$\\frac$", "$5"]
    table = pd.read_csv("mine.csv").replace({"label": dict(zip(CLASSES, names, strict=True))})
    table.rename(columns=dict(zip(CLASSES, names, strict=True))).to_csv("priced.csv", index=False)
    assert main(["report", "priced.csv", "--kind", "logits", "--calibrators", "temperature_scaling"]) == 0
    assert "a$b_{$" in (tmp_path / "priced-report" / "report.html").read_text()
