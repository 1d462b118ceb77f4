"""20 Newsgroups, by date or at random: messages as token ids, and the vocabulary they come from.

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
from calibkit.data._archive import Archive, File

_URL = "https://ndownloader.figshare.com/files/5975967"
_DIGEST = "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"
FILES = (File("20news-bydate.tar.gz", _URL, _DIGEST),)
PADDING, UNKNOWN = "<padding>", "<unknown>"
_WORD = re.compile(r"[^\s!-&(-/:-@\[-`{-~]+")


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
    r"""The words of a message, without its header.

    Example:
        >>> words("From: mathew\n\nDon't read <alt.atheism>, please!")
        ["don't", 'read', 'alt', 'atheism', 'please']
    """
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

    Example:
        >>> encode(["a b", "b c b b"], ("<padding>", "<unknown>", "b", "a"), 3)
        array([[0, 3, 2], [1, 2, 2]], dtype=int32)
        >>> encode(["a b", "b c b b"], ("<padding>", "b"), 3)
        array([[0, 0, 1], [1, 1, 1]], dtype=int32)
    """
    ids = {word: i for i, word in enumerate(vocabulary)}
    unknown = ids.get(UNKNOWN, -1)
    tokens = np.zeros((len(texts), length), np.int32)
    for row, text in zip(tokens, texts, strict=True):
        kept = [token for token in (ids.get(word, unknown) for word in words(text)) if token != -1][-length:]
        row[length - len(kept) :] = kept
    return tokens
