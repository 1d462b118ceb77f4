"""Two classes in a table: which column is their score, and which is none."""

import json

import numpy as np
import pandas as pd
import pytest

from calibkit.reading import read
from calibkit.reporting.diagnosis import diagnose


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
