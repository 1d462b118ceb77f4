"""A report on samples with several labels each: one report a label, as K binary problems, and their means."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibkit import __version__
from calibkit._checks import are_many, expected, to_tensor
from calibkit._files import as_path, write_text, write_together
from calibkit.calibrators import Calibrator
from calibkit.reading import Given, Part

if TYPE_CHECKING:
    from calibkit.reporting import Report

HEAD = ("label", "there", "says", "ECE", "after", "NLL", "after", "take", "sure")


@dataclass(frozen=True)
class LabelReports:
    """What :func:`calibkit.report` found where each sample has several labels.

    Each label is a binary problem: column k of the scores against column k of the labels, with a calibrator of its own.
    ECE is here ``classwise_ece`` of the label: of samples that are given it with 20%, is it there in 20%?

    Attributes:
        reports: name of the label -> the report on it; none of a label that is in all or in none of the samples to fit
            on, from which nothing can be learnt of it.
        names: of all K labels.
        source: what to call the data.
    """

    reports: dict[str, Report]
    names: tuple[str, ...]
    source: str

    @property
    def calibrators(self) -> dict[str, Calibrator]:
        """The one to take for each label; ``identity`` where nothing is recommended."""
        return {name: of.calibrator for name, of in self.reports.items()}

    def mean(self, when: str, metric: str) -> float:
        """The mean over the labels of a metric, "before" or "after" the calibrators; each label counts the same."""
        return float(np.mean([of.metrics[when][metric].value for of in self.reports.values()]))

    @property
    def says(self) -> str:
        """The answer first, in a sentence or two."""
        ece, nll = ([self.mean(when, metric) for when in ("before", "after")] for metric in ("classwise_ece", "nll"))
        k, taken = len(self.reports), sum(of.choice.key != "identity" for of in self.reports.values())
        return (
            f"Over your {k} labels, what your network says of a label and how often it is there lie {100 * ece[0]:.1f} "
            f"points apart, over levels of what it says (ECE), and {100 * ece[1]:.1f} after calibration; the NLL is "
            f"{nll[0]:.4f}, and {nll[1]:.4f} after. These are means over {k} problems of two classes, one a label. "
            f"{taken} of the {k} labels are given a calibrator of their own."
        )

    @property
    def warnings(self) -> list[str]:
        """What looks wrong, label by label."""
        heavy = {
            name: of.diagnosed.first_paragraph
            for name, of in self.reports.items()
            if any(finding.weight != "note" for finding in of.diagnosed.findings)
        }
        left_out = "left out, as it is there in all or in none of the samples to fit on"
        heavy |= {name: f"{left_out}." for name in self.names if name not in self.reports}
        return [f"{name}: {text}" for name, text in heavy.items()]

    def rows(self) -> list[tuple[str, ...]]:
        """The table by label, in text: ``HEAD``; shares and ECE in percent."""
        found = []
        for name, of in self.reports.items():
            shares = [of.trial.judged.labels.mean(), of.probs["before"][:, 1].mean()]
            both = [of.metrics[when] for when in ("before", "after")]
            ece, nll = ([metrics[metric].value for metrics in both] for metric in ("classwise_ece", "nll"))
            shown = [f"{100 * x:.1f}" for x in (*shares, *ece)] + [f"{x:.4f}" for x in nll]
            found.append((name, *shown, of.choice.key, of.choice.sure))
        return found

    def facts(self) -> dict:
        """All of it as what JSON can hold: numbers to six digits, fractions and nats."""
        by_label = {name: of.facts() for name, of in self.reports.items()}
        return {"calibkit": __version__, "source": self.source, "says": self.says, "labels": by_label}

    def __str__(self) -> str:
        """The answer, what is wrong, and the table by label."""
        wide, table = max(map(len, (*self.reports, HEAD[0]))), [HEAD, *self.rows()]
        lines = [f"{row[0]:{wide}}{''.join(f'{x:>9}' for x in row[1:7])}  {row[7]}, {row[8]}" for row in table]
        return "\n\n".join([f"{self.source}: {self.says}", *self.warnings, "\n".join(lines)])

    def html(self) -> str:
        """One page that needs no other file."""
        from calibkit.reporting.html import cells, document, table

        rows = [cells(map(escape, row)) for row in self.rows()]
        parts = [
            f"<h1>Calibration of {escape(self.source)}</h1>",
            f'<p class="lead">{escape(self.says)}</p>',
            *(f'<div class="box warn"><p>{escape(text)}</p></div>' for text in self.warnings),
            table("Each label by itself. Shares and ECE are in percent; the NLL is in nats.", HEAD, rows),
            *(
                f"<h2>{escape(name)}</h2><p>{escape(' '.join(of.choice.reasons))}</p>"
                for name, of in self.reports.items()
            ),
        ]
        return document(f"Calibration of {escape(self.source)}", parts)

    def save(self, folder: str | os.PathLike) -> tuple[Path, ...]:
        """Write report.html, report.json and calibrator-0.npz, of column 0, -1, ... into a folder; returns the paths.

        A label for which nothing is recommended has no file, nor is one of an earlier report left.
        """
        each = {f"calibrator-{i}.npz": self.reports[k] for i, k in enumerate(self.names) if k in self.reports}
        return save(folder, self, each)


def save(folder: str | os.PathLike, found: Report | LabelReports, calibrators: dict[str, Report]) -> tuple[Path, ...]:
    """Write the page, the facts, and by its name the calibrator of each report that recommends one; returns the paths.

    They replace what an earlier report left in the folder, whichever of the two kinds it was.
    """
    texts = {"report.html": found.html(), "report.json": json.dumps(found.facts(), indent=1, allow_nan=False)}
    old = [path.name for path in as_path(folder).glob("calibrator-*.npz") if path.stem[11:].isdecimal()]

    def write(new: Path) -> None:
        for name, text in texts.items():
            write_text(new / name, text)
        for name, of in calibrators.items():
            if of.choice.sure != "none":
                of.calibrator.save(new / name)

    return write_together(folder, dict.fromkeys([*texts, *calibrators, "calibrator.npz", *old]), write)


def has_many(given: Given) -> bool:
    """Whether each sample has labels of 0 and 1, one a column, and not one class alone."""

    def many(part: Part) -> bool:
        y, said = np.asarray(part.labels), given.kind == "probabilities"
        probs = to_tensor("outputs", part.outputs) if said else None
        return y.ndim == 2 and y.dtype.kind in "biuf" and are_many(to_tensor("labels", y), probs)

    return any(map(many, given.parts))


def each_label(given: Given) -> Iterator[tuple[str, Given]]:
    """Each label as a problem of two classes, whose second is that the label is there."""
    shapes = [(part.outputs.shape, np.shape(part.labels)) for part in given.parts]  # type: ignore[arg-type]
    if any(z != y or z[1:] != shapes[0][0][1:] for z, y in shapes):
        got = " and ".join(f"{y} beside {z}" for z, y in shapes)
        raise expected("labels", "of the shape (N, K) of the outputs, a column a label", got)
    for k in range(given.val.outputs.shape[1]):
        one = [Part(part.outputs[:, k], part.labels[:, k], part.groups) for part in given.parts]  # type: ignore[index]
        own = given.classes[k : k + 1]
        name = next(iter(own), str(k))
        test = one[1] if len(one) == 2 else None
        yield name, replace(given, val=one[0], test=test, classes=own, source=f"{given.source}, {name}")
