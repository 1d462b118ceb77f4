"""A verdict on a calibrator on all stored networks, beside one temperature; on a training loss, beside stored ones.

The code of a file that a key names, ``PATH.py:CLASS``, is executed, in processes of their own. No pickle is read.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from book.kit.judging import verdict
from book.kit.judging.losses import LossJudgement, judge_loss, names_a_loss
from book.kit.judging.network import Row
from book.kit.judging.verdict import FILES, Claim, Tally, save
from book.kit.judging.workers import Progress, limits, run
from calibkit import __version__, _folders
from calibkit._checks import check_texts, expected
from calibkit._files import as_path, write_text
from calibkit.calibrators import Calibrator, calibrator
from calibkit.keys import Key, checksum
from calibkit.metrics.comparison import Estimate
from calibkit.networks import Network, load_logits, published, zoo
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.summary import plain
from calibkit.reporting.trial import METRICS

TIMEOUT = 120.0  # seconds for each network, all fits on it together


@dataclass(frozen=True)
class Judgement:
    """What :func:`judge` found.

    Attributes:
        key: of the calibrator.
        rows: what came of it on each network, in the order asked for.
        claims: what was claimed.
        made: by what: version, commit, a checksum of the file of the key, resamples.
    """

    key: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    made: dict[str, object]

    @property
    def judged(self) -> list[Row]:
        """The rows with numbers."""
        return [row for row in self.rows if not row.error]

    @property
    def verdict(self) -> str:
        """In words."""
        failed = len(self.rows) - len(self.judged)
        if not self.judged:
            return f"Not judged: it failed on every network. {self.rows[0].error}"
        lost = f" It failed on {failed} of {len(self.rows)} networks, which no number here counts." if failed else ""
        return verdict.verdict(self.judged) + lost

    @property
    def bases(self) -> tuple[str, ...]:
        """What it was compared with: one temperature, the best of its kind, what the claims name."""
        found = (BASE, verdict.rival(self.judged), *(claim.base for claim in self.claims)) if self.judged else ()
        return tuple(base for base in dict.fromkeys(found) if any(base in row.less for row in self.judged))

    def differences(self, base: str, metric: str) -> dict[str, Estimate]:
        """Of all networks and of each kind, the mean difference with its interval."""
        strata = verdict.by_stratum(self.judged)
        return {name: verdict.difference(rows, base, metric) for name, rows in strata.items()}

    def tally(self, base: str, metric: str) -> Tally:
        """On how many networks it is better or worse beyond chance."""
        return verdict.tally(self.judged, base, metric)

    def answers(self) -> dict[str, tuple[str, Estimate]]:
        """Each claim: "holds", "does not hold" or "not decided", and the mean difference that says so."""
        return {str(claim): claim.answer(self.judged) for claim in self.claims}

    def facts(self) -> dict:
        """All of it as what JSON can hold; fractions and nats."""
        bases = self.bases
        found = {
            "verdict": self.verdict,
            "key": self.key,
            "made": self.made,
            "claims": {text: {"answer": said, "difference": mean} for text, (said, mean) in self.answers().items()},
            "differences": {base: {metric: self.differences(base, metric) for metric in METRICS} for base in bases},
            "beyond_chance": {base: {metric: self.tally(base, metric) for metric in METRICS} for base in bases},
            "rows": [asdict(row) for row in self.rows],
        }
        return _with_checksum(plain(found))

    def html(self) -> str:
        """One page that needs no other file; its pictures need the extra "plots"."""
        from book.kit.judging.html import page

        return page(self)

    def save(self, folder: str | os.PathLike) -> tuple[Path, ...]:
        """Write judge.html and judge.json into a folder; returns their paths."""
        return save(folder, self.html(), self.facts())


def judge(
    key: str,
    networks: Sequence[str] | None = None,
    *,
    claims: Iterable[str] = (),
    folder: str | os.PathLike | None = None,
    timeout: float = TIMEOUT,
    n_resamples: int = 1000,
    jobs: int | None = None,
    progress: bool = False,
) -> Judgement:
    """Fit a calibrator on networks, compare it with one temperature and with the best stored method of its kind.

    Each network is judged in a process that runs nothing else; what crashes or takes too long costs that network.

    Args:
        key: of a calibrator: ``"mine.py:Mine"``, whose file is executed, or any other.
        networks: names of ``calibkit networks``, also with ``*``, and paths of Logits; default: :func:`usual`.
        claims: such as "lower ece than temperature_scaling".
        folder: where judge.json keeps what is done; rows without an error, of the same key, file and options, are taken
            from there. None: nowhere.
        timeout: seconds for a network.
        n_resamples: of the intervals.
        jobs: networks at a time; default: the number of cores.
        progress: whether to write a line a network to the standard error.

    Raises:
        ValueError: no such calibrator or networks, a claim that is none.
    """
    of_claims = tuple(map(Claim.parse, check_texts("claims", claims)))
    timeout, n_jobs = limits(timeout, jobs, n_resamples, progress)
    if not isinstance(calibrator(key), Calibrator):
        raise expected("key", "of a calibrator that takes logits", repr(key))
    names = _chosen(networks)
    bases = tuple(dict.fromkeys(claim.base for claim in of_claims))
    made: dict[str, object] = {
        "calibkit": __version__, "commit": _folders.commit(), "file": checksum(Key.parse(key).name),
        "n_resamples": n_resamples, "bases": list(bases),
    }  # fmt: skip
    path = None if folder is None else as_path(folder, "folder") / FILES[1]
    rows = {} if path is None else _done(path, key, made)
    todo = [name for name in names if name not in rows]

    so_far = Progress(len(todo), len(names) - len(todo), "judge", progress)
    asked = ({"network": name, "key": key, "bases": bases, "n_resamples": n_resamples} for name in todo)
    for row in map(_row, run(asked, n_jobs, timeout, "book.kit.judging.network:judge_on")):
        rows[row.network] = row
        if path is not None:
            done = {"key": key, "made": made, "rows": [asdict(row) for row in rows.values()]}
            write_text(path, json.dumps(_with_checksum(done)))
        less = row.less.get(BASE, {}).get("nll")
        so_far.done(row.network, row.error or (f"NLL {less[0]:+.4f}" if less else "NLL infinite"))
    return Judgement(key, tuple(rows[name] for name in names), of_claims, made)


def usual() -> list[str]:
    """One stored seed of each data set, model and loss with its default options; all published networks."""
    found: dict[tuple[str, str, str], str] = {}
    for name in zoo():
        network = Network.parse(name)
        if not Key.parse(network.loss).options:
            found.setdefault((network.dataset, network.model, network.loss), name)
    return [*found.values(), *published()]


def _chosen(networks: Sequence[str] | None) -> list[str]:
    known = [*zoo(), *published()]
    if networks is None:
        if not known:
            want = "those of the book, in its checkout: work there; or fetch some by `calibkit data prepare published`"
            raise expected("networks", want, "none")
        return usual()
    found: list[str] = []
    for name in check_texts("networks", networks):
        alike = [of for of in known if fnmatchcase(of, name)] if "*" in name else [name]
        if not alike:
            raise expected("networks", "names that `calibkit networks` lists", repr(name))
        if alike == [name] and name not in known:
            load_logits(name, "networks")  # a path; or it says what it must be
        found += alike
    if not found:
        raise expected("networks", "one or more", "none")
    return list(dict.fromkeys(found))


def _with_checksum(facts: dict) -> dict:
    """Facts with a checksum of their rows, so that rows that somebody has changed are not taken for our own."""
    return {**facts, "checksum": zlib.crc32(json.dumps(facts["rows"]).encode())}


def _row(facts: dict) -> Row:
    """A row of what JSON made of it."""
    lists = {name: tuple(value) for name, value in facts.items() if isinstance(value, list)}
    return Row(**facts | lists)


def _done(path: Path, key: str, made: dict[str, object]) -> dict[str, Row]:
    """The rows that an earlier run left, if it was the same; those with an error are tried again."""
    try:
        facts = json.loads(path.read_bytes()) if path.is_file() else {}
        same = facts == _with_checksum(facts) and (facts["key"], facts["made"]) == (key, made)
    except (ValueError, TypeError, KeyError, RecursionError):  # no file of this kind
        return {}
    rows = [_row(row) for row in facts["rows"]] if same else []
    known = {*zoo(), *published()}  # a file of one's own may have changed
    return {row.network: row for row in rows if row.network in known and not row.error}


__all__ = ["Claim", "Judgement", "LossJudgement", "Row", "judge", "judge_loss", "names_a_loss", "usual"]
