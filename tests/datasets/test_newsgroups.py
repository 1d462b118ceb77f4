"""20 Newsgroups: tokens, vocabulary and word vectors by hand, and on the real messages where present."""

import json
import string
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from calibkit import data
from calibkit.data import DATASETS, texts

NAME, RANDOM, CLOSED = "20newsgroups", "20newsgroups_random", "20newsgroups_2000"


def by_translation(text):
    """The words as Keras's Tokenizer finds them: punctuation but the apostrophe becomes a space."""
    body = text[text.find("\n\n") :] if text.find("\n\n") > 0 else text
    return body.lower().translate({ord(c): " " for c in string.punctuation if c != "'"}).split()


def write(name, **texts):
    """The messages of both files of a copy, of two groups in turn."""
    folder = data.files(name)["train"][0].parent
    folder.mkdir()
    for split, of in texts.items():
        rows = [json.dumps({"group": "ab"[i % 2], "id": str(i), "text": text}) for i, text in enumerate(of)]
        (folder / f"{split}.jsonl").write_text("\n".join(rows))


def test_words():
    for text, found in (
        ("Subject: x\n\nIt's 3.5-fold\tCAFÉ\n\nend", ["it's", "3", "5", "fold", "café", "end"]),
        ("no header, one line", ["no", "header", "one", "line"]),
        ("\n\nheader: empty", ["header", "empty"]),
        ("Subject: x\n\n", []),
    ):
        assert texts.words(text) == by_translation(text) == found


def test_a_long_message_keeps_its_end_and_a_short_one_is_padded_in_front():
    vocabulary = texts.vocabulary(["a a b b c", "c d"], 5)
    assert vocabulary == ("<padding>", "<unknown>", "a", "b", "c")  # all three twice; d once: no room
    tokens = texts.encode(["a b c d", "b", ""], vocabulary, 3)
    assert tokens.tolist() == [[3, 4, 1], [0, 0, 3], [0, 0, 0]]
    assert tokens.dtype == np.int32


@pytest.mark.usefixtures("data_cache")
def test_a_closed_vocabulary_leaves_other_words_out(monkeypatch):
    """As Keras's Tokenizer with ``num_words``: the words of all messages, and no token for others."""
    monkeypatch.setitem(DATASETS, CLOSED, replace(DATASETS[CLOSED], n_val=2, n_test=4, n_tokens=3))
    write(CLOSED, train=[f"once a b a {i}" for i in range(5)], test=[f"b a twice a {i}" for i in range(5)])
    assert data.vocabulary(CLOSED) == data.vocabulary(CLOSED, seed=1) == ("<padding>", "a", "b")
    for split, count in (("train", 4), ("val", 2), ("test", 4)):
        tokens = data.load_split(CLOSED, split).inputs[:, -4:].tolist()
        assert len(tokens) == count and all(row in ([0, 1, 2, 1], [0, 2, 1, 1]) for row in tokens)


@pytest.mark.usefixtures("data_cache")
def test_no_word_outside_the_training_split_is_known():
    write(NAME, train=[f"word{i}" for i in range(910)], test=["Subject: x\n\nnew word0"])
    refused("`name` to be a data set of kind text, but got 'camvid'", data.vocabulary, "camvid")
    for seed in (0, 1):
        vocabulary = data.vocabulary(NAME, seed=seed)
        assert len(vocabulary) == 2 + 10
        assert (data.load_split(NAME, "val", seed=seed).inputs[:, -1] == 1).all()
        train = data.load_split(NAME, "train", seed=seed).inputs
        assert (train[:, :-1] == 0).all() and sorted(train[:, -1]) == list(range(2, 12))
    assert data.load_split(NAME, "test").inputs[0, -2] == 1


@pytest.mark.usefixtures("data_cache")
def test_a_random_split_parts_all_messages_by_the_seed(monkeypatch):
    monkeypatch.setitem(DATASETS, RANDOM, replace(DATASETS[RANDOM], n_val=20, n_test=40))
    write(RANDOM, train=[f"word{i}" for i in range(120)], test=[f"word{i}" for i in range(120, 200)])
    drawn = {}
    for seed in (0, 1):
        parts = [data._carve(DATASETS[RANDOM], np.zeros(200), split, seed) for split in ("train", "val", "test")]
        assert [len(part) for part in parts] == [140, 20, 40]
        assert sorted(np.concatenate(parts)) == list(range(200))
        assert [20 < len(part[part >= 120]) / len(part) * 100 < 60 for part in parts] == [True] * 3
        drawn[seed] = parts
        train, val, test = (data.load_split(RANDOM, split, seed=seed) for split in ("train", "val", "test"))
        vocabulary = data.vocabulary(RANDOM, seed=seed)
        assert sorted(vocabulary[2:]) == sorted(f"word{i}" for i in parts[0])
        assert [vocabulary[token] for token in train.inputs[:, -1]] == [f"word{i}" for i in parts[0]]
        assert (val.inputs[:, -1] == 1).all() and (test.inputs[:, -1] == 1).all()
        np.testing.assert_array_equal(test.labels, parts[2] % 2)
    assert len(np.intersect1d(drawn[0][2], drawn[1][2])) < 40


@pytest.fixture(scope="module")
def real():
    return {split: data.load_split(NAME, split) for split in ("train", "val", "test")}, data.vocabulary(NAME)


@pytest.mark.data(NAME)
def test_real_sizes_and_classes(real):
    """11,314 and 7,532 messages, the published size of "bydate"; 900 of the first for val, as in MbLS App. B."""
    splits, vocabulary = real
    spec = DATASETS[NAME]
    assert [len(split.labels) for split in splits.values()] == [10414, 900, 7532]
    for inputs, labels in splits.values():
        assert inputs.shape == (len(labels), *spec.shape) and inputs.dtype == np.int32
        assert inputs.min() == 0 and inputs.max() < len(vocabulary) == spec.n_tokens
        assert len(np.bincount(labels)) == 20
    both = np.bincount(np.concatenate([splits["train"].labels, splits["val"].labels]))
    assert (both[0], both[19], both.max()) == (480, 377, 600)  # alt.atheism, talk.religion.misc


@pytest.mark.data(NAME)
def test_real_tokens_decode_to_the_words_of_the_message(real):
    splits, vocabulary = real
    messages, labels = texts.messages(data.files(NAME)["test"][0])
    np.testing.assert_array_equal(labels, splits["test"].labels)
    known = set(vocabulary)
    for text, row in list(zip(messages, splits["test"].inputs, strict=True))[::50]:
        expected = [word if word in known else texts.UNKNOWN for word in by_translation(text)[-1000:]]
        assert [vocabulary[token] for token in row if token] == expected
        assert (row[: len(row) - len(expected)] == 0).all()


@pytest.mark.data(NAME)
def test_real_random_split_has_the_same_messages(real):
    """All 18,846, a fifth for the test; of both dates on either side."""
    splits, _ = real
    drawn = {split: data.load_split(RANDOM, split) for split in splits}
    assert [len(split.labels) for split in drawn.values()] == [14177, 900, 3769]
    by_date, at_random = (
        np.bincount(np.concatenate([split.labels for split in found.values()])) for found in (splits, drawn)
    )
    np.testing.assert_array_equal(by_date, at_random)
    for split, (tokens, labels) in drawn.items():
        closed = data.load_split(CLOSED, split)
        np.testing.assert_array_equal(closed.labels, labels)
        assert closed.inputs.max() < 2000 and ((closed.inputs > 0).sum(1) <= (tokens > 0).sum(1)).all()
