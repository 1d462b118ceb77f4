"""Logs of multiple-choice questions, as lm-evaluation-harness has written them over the years."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from calibkit import TemperatureScaling, load_calibrator
from calibkit.__main__ import main
from calibkit.reading import read
from calibkit.reading.questions import are_questions, of_questions

OPTIONS = (" red", " green", " blue", " grey")
LOGITS = [[-4.25, -2.5, -9.0, -3.75], [-1.5, -8.0, -7.25, -2.0], [-3.0, -2.0, -1.0, -0.5]]
RIGHT = [1, 3, 3]


def today(logits, right, doc_id=0, options=OPTIONS):
    """A line as 0.4.3 and later write it: all text, arguments by name."""
    arguments = {f"gen_args_{i}": {"arg_0": "A colour:", "arg_1": option} for i, option in enumerate(options)}
    pairs = [[str(z), "False"] for z in logits]
    return {
        **{"doc_id": doc_id, "doc": {}, "target": str(right), "arguments": arguments},
        **{"resps": [[pair] for pair in pairs], "filtered_resps": pairs, "filter": "none"},
        "acc": float(np.argmax(logits) == right),
    }


def before(logits, right, doc_id=0, options=OPTIONS):
    """A line as 0.4.0 wrote it: numbers, arguments in a list."""
    row = today(logits, right, doc_id, options)
    pairs = [[z, False] for z in logits]
    arguments = [["A colour:", option] for option in options]
    return {**row, "target": right, "arguments": arguments, "resps": [[p] for p in pairs], "filtered_resps": pairs}


def rows_of(layout, options=OPTIONS):
    return [layout(z, y, i, options) for i, (z, y) in enumerate(zip(LOGITS, RIGHT, strict=True))]


def values(table):
    return table.filter(like="logit_").to_numpy()


@pytest.mark.parametrize("layout", [today, before])
def test_both_layouts(layout):
    rows = rows_of(layout)
    assert are_questions(rows)
    table = of_questions(rows)
    assert list(table) == ["doc_id", "logit_A", "logit_B", "logit_C", "logit_D", "label"]
    np.testing.assert_array_equal(values(table), LOGITS)
    assert list(table["label"]) == ["B", "D", "D"]
    for row in rows:
        del row["filtered_resps"]
    assert of_questions(rows).equals(table)


@pytest.mark.parametrize("targets", [OPTIONS, ["red", "green", "blue", "grey"], list("ABCD"), [[0], [1], [2], [3]]])
def test_a_target_is_text_letter_or_index(targets):
    rows = [{**row, "target": targets[k]} for row, k in zip(rows_of(today), RIGHT, strict=True)]
    assert list(of_questions(rows)["label"]) == ["B", "D", "D"]


def test_a_target_in_brackets_is_the_option_in_brackets():
    rows = [{**row, "target": "[x]"} for row in rows_of(today, options=(" x", " [x]", " y", " z"))[:1]]
    assert list(of_questions(rows)["label"]) == ["B"]
    with pytest.raises(ValueError, match="^Expected `source` to be a log with questions, but got none"):
        of_questions([])


def test_options_that_are_numbers():
    """ "1" is the first option or the one called 1: `acc` knows, and without it nobody does."""
    by_index = rows_of(today, options=(" 3", " 2", " 1", " 0"))
    by_text = [{**row, "target": str(3 - y)} for row, y in zip(by_index, RIGHT, strict=True)]
    for rows in (by_text, by_index):
        assert list(of_questions(rows)["label"]) == ["B", "D", "D"]
        for row in rows:
            del row["acc"]
        with pytest.raises(ValueError, match="whose target is the index"):
            of_questions(rows)


def test_per_character_is_acc_norm():
    """The lengths of red, green, blue, grey without the space: 3, 5, 4, 4."""
    expected = [[z[0] / 3, z[1] / 5, z[2] / 4, z[3] / 4] for z in LOGITS]
    for layout in (today, before):
        np.testing.assert_allclose(values(of_questions(rows_of(layout), per_character=True)), expected, rtol=1e-15)


def test_mutual_information_doubles_the_answers():
    rows = rows_of(today)
    for row in rows:
        row |= {"filtered_resps": row["filtered_resps"] + [["-1.0", "False"]] * 4, "acc_mutual_info": 1.0}
    np.testing.assert_array_equal(values(of_questions(rows)), LOGITS)


def test_the_commonest_number_of_options_is_taken():
    rows = rows_of(today)
    rows.insert(1, today([-1.0, -2.0, -3.0], 2, 7, OPTIONS[:3]))
    table = of_questions(rows)
    assert list(table["doc_id"]) == [0, 1, 2]
    assert table.attrs["told"] == ["3 questions of 4 options; left out, 1 of others"]


def test_a_question_counts_once_however_many_filters_it_has():
    """In turn or one after the other; a log of two tasks may have a number twice."""
    rows = rows_of(today)
    others = [{**row, "filter": "strict", "filtered_resps": ["B"]} for row in rows]
    for both in (rows + others, [row for pair in zip(rows, others, strict=True) for row in pair]):
        table = of_questions(both)
        assert table.equals(of_questions(rows))
        assert table.attrs["told"] == ["the first filter of each question; left out, 3 lines of others"]
    hashed = [{**row, "doc_hash": "b", "filter": "strict"} for row in rows]
    assert len(of_questions(rows + hashed)) == 6


def test_answers_that_stand_in_one_place():
    table = of_questions([today(z, 0, i) for i, z in enumerate(LOGITS)])
    assert set(table["label"]) == {"A"} and "always A" in table.attrs["told"][0]


def test_without_targets_there_are_no_labels():
    rows = [{key: row[key] for key in ("doc_id", "filtered_resps")} for row in rows_of(today)]
    assert list(of_questions(rows)) == ["doc_id", "logit_A", "logit_B", "logit_C", "logit_D"]


BAD = {
    "no answers": {"filtered_resps": None, "resps": None},
    "text": {"filtered_resps": ["the answer is B"]},
    "one option": {"filtered_resps": [["-1.0", "True"]]},
    "not a number": {"filtered_resps": [["nan", "True"], ["-1.0", "False"]]},
    "minus infinity": {"filtered_resps": [["-inf", "True"], ["-1.0", "False"]]},
    "generated numbers": {"filtered_resps": ["1", "2"]},
    "no list": {"filtered_resps": {"-1": 0, "-2": 0}},
    "beyond any float": {"filtered_resps": [[-(10**400), False], ["-1.0", "False"]]},
    "empty pair": {"filtered_resps": [[], ["-1.0", "False"]]},
    "beyond the options": {"target": "4"},
    "negative": {"target": "-1"},
    "no such letter": {"target": "E"},
    "two of them": {"target": "[0, 2]"},
    "nothing": {"target": None},
    "not what acc says": {"target": "3"},
}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_odd_lines_are_refused_by_number(change):
    rows = rows_of(today)
    rows[0] |= change
    with pytest.raises(ValueError, match=r"Expected `source` to be questions .* but got .* in question 1, the first"):
        of_questions(rows)


def test_a_length_that_is_not_there():
    rows = rows_of(today)
    del rows[2]["arguments"]
    assert len(of_questions(rows)) == 3
    with pytest.raises(ValueError, match="in question 3"):
        of_questions(rows, per_character=True)


def test_other_lines_are_no_questions():
    assert not are_questions([])
    assert not are_questions(json.loads('[{"logits": [1, 2], "label": 0}, {"resps": 3}]'))


@pytest.fixture
def logs(here):
    """Logits, labels, and files of them: lines with empty ones between, packed lines, one indented array."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 4)).round(3) - 9
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(1)
    lines = [json.dumps(today(logits, int(k), i)) for i, (logits, k) in enumerate(zip(z, y, strict=True))]
    (here / "lines.jsonl").write_text("\n\n".join(lines))
    (here / "packed.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    array = [before(list(logits), int(k), i) for i, (logits, k) in enumerate(zip(z, y, strict=True))]
    (here / "array.jsonl").write_text(json.dumps(array, indent=2))
    return z, y


@pytest.mark.parametrize("name", ["lines.jsonl", "packed.jsonl.gz", "array.jsonl"])
def test_a_log_is_read_as_it_is(name, logs):
    given = read(name)
    np.testing.assert_array_equal(given.val.outputs, logs[0])
    assert list(given.val.labels) == ["ABCD"[k] for k in logs[1]]
    assert (given.kind, given.classes, given.test) == ("logits", ("A", "B", "C", "D"), None)


def test_the_commands_take_logs(logs, capsys):
    z, y = logs
    assert main(["compare", "lines.jsonl", "--calibrators", "temperature_scaling"]) == 0
    assert main(["evaluate", "array.jsonl"]) == 0
    assert main(["calibrate", "lines.jsonl", "array.jsonl", "--out", "fitted.npz"]) == 0
    assert main(["apply", "fitted.npz", "packed.jsonl.gz", "--out", "probs.csv"]) == 0
    fitted, table = load_calibrator("fitted.npz"), pd.read_csv("probs.csv")
    assert fitted.temperature == TemperatureScaling().fit(z, y).temperature
    np.testing.assert_allclose(table.filter(like="prob_"), fitted(z), rtol=1e-12)
    assert list(table["doc_id"]) == list(range(300))


def test_a_file_with_an_odd_line_is_refused_in_one_wording(logs, shell):
    for name, line in (("nan", json.dumps(today([float("nan"), -1.0], 0))), ("text", "not json"), ("list", "[1]")):
        with open("lines.jsonl") as lines, open(f"{name}.jsonl", "w") as odd:
            odd.write(f"{lines.read()}\n{line}\n")
        said = shell(["evaluate", f"{name}.jsonl"], 1).err
        assert said.startswith("Expected `source` to be ") and f"in '{name}.jsonl'" in said


@pytest.mark.skipif(pd.__version__ < "3", reason="old versions of pandas hold any text")
def test_half_a_pair_of_surrogates_is_refused(logs):
    with open("half.jsonl", "w") as odd:
        odd.write("\n".join(json.dumps({**today([-1.0, -2.0], 0), "doc_id": "\ud800"}) for _ in range(3)))
    with pytest.raises(ValueError, match="^Expected `source` to be a table whose text can be encoded in UTF-8"):
        read("half.jsonl")
