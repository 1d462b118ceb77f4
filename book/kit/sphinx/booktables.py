"""Sphinx extension of the book: pages that are computed when it is built.

``{verdicts}`` is the table of verdicts by paper, ``{verdicts} table`` by table, counted from the result files;
``{answered}`` says how many have an answer, and ``{unanswered}`` what the numbers without an answer wait for;
``{stored} FILE OUTER INNER`` is a table of ``book/results`` whose rows two columns name, captioned by its content;
``{averages}`` lines up means of one method that differ by their networks;
``{power}`` says how often 10,000 images tell two calibrations apart, by ``book/results/power.csv``;
``{trained}`` has the networks of ours with their recipes, ``{gone}`` lists the trainings that are not stored;
``{plans}`` says what training all networks of a paper takes;
``{ledger}`` has a section for each paper, with its claims;
``{registry} calibkit.losses.LOSSES`` documents every entry of a registry.
The claims, and the verdicts by table, can be sorted and filtered on the page.
``{printed} PAPER TABLE COLUMN`` is a table of a paper with a column for each value of COLUMN, captioned by its content.
``{ours}`METRIC DATASET MODEL METHOD` `` is one number of ``ours.csv``, in percent, for a network trained with
cross-entropy; of another loss with ``LOSS | METHOD`` in the place of ``METHOD``.
"""

from __future__ import annotations

import inspect
from collections.abc import Container

import pandas as pd
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from book.kit import results
from book.kit.notebook.display_names import shown
from book.kit.notebook.grid import part
from book.kit.notebook.over_networks import STRATA, stratum
from book.kit.notebook.over_networks import select as of_base
from book.kit.notebook.printed_vs_ours import beside
from book.kit.notebook.table import minus, unbroken
from book.kit.notebook.table import table as table_of
from book.kit.plans import disk, epochs_of_resnet50, networks_of
from book.kit.results.csv_rows import select
from book.kit.results.difference_intervals import over_networks
from book.kit.results.verdict_rule import OTHERS, STAND_IN
from book.kit.sphinx.cached_results import answered_in_words, answers, claims, compared, differences, measured
from book.kit.sphinx.claims import STYLES
from book.kit.sphinx.directives import Computed, extension, html, markdown, table
from book.kit.sphinx.replications import linked
from book.kit.sphinx.summaries import entries_of
from book.papers import PAPERS
from calibkit import _folders
from calibkit.keys import Key
from calibkit.training.recipes import recipe_of

#: Answers that share a column where papers are counted.
GROUPS = {
    "elsewhere": tuple(answer for answer in results.ANSWERS if answer.by == OTHERS),
    "by a stand-in": tuple(answer for answer in results.ANSWERS if answer.by == STAND_IN),
}
#: What the tables of Neural Clamping call its fits by its two losses.
NAMES = {"neural_clamping:nll": "NC (CE)", "neural_clamping": "NC (FL)"}
SAME_DOWNLOAD = "for some, the same download as CIFAR-100-LT, and for the others hours on a GPU per network"
#: What the numbers without an answer wait for, by their data.
NEEDS = {
    "cifar10": SAME_DOWNLOAD,
    "cifar100": SAME_DOWNLOAD,
    "cifar100_lt": "a download: `calibkit data prepare published` knows where these logits are",
    "imagenet": "for two networks published logits, and for the others the images, which one has to ask for",
    "tiny_imagenet": "all 200 classes, and trainings on a GPU",
    "svhn": "logits that others published, without a checksum that is known",
    "cub200": "the images, and a pretrained network to train further",
    "voc2012": "the images, and trainings on a GPU",
    "20newsgroups_random": "nothing: of a network as it is, another training is no answer",
}
TS, CTS, CE = "temperature_scaling", "class_temperature_scaling", "cross_entropy"
#: Of the calibrators that the comparison shows side by side, the one with the fewest networks.
RAREST = "order_preserving"


def verdicts(pages: Container[str], by: str = "paper") -> list[str]:
    """The summary as a Markdown table; a paper links to its chapter where ``pages`` has one.

    One row a paper, or with ``by="table"`` one a table, in which 0 is left out; what others and stand-ins say has a
    column each. Columns without a number are left out.
    """
    names = ["paper"] if by == "paper" else ["paper", "table"]
    counts = answers(*names).copy()
    for name, columns in GROUPS.items():
        counts.insert(len(counts.columns) - 1, name, counts[list(columns)].sum(axis=1))
    counts = counts.drop(columns=[name for columns in GROUPS.values() for name in columns])
    if by == "paper":
        counts.loc["all"] = counts.sum()
    counts = counts.loc[:, counts.any()]
    rows = []
    for key, numbers in zip(counts.index, counts.itertuples(index=False), strict=True):
        paper, *number = (key,) if by == "paper" else key
        name = PAPERS[paper].short if paper in PAPERS else paper
        name = f"[{name}](/notebooks/{paper})" if f"notebooks/{paper}" in pages else name
        rows.append([name, *number, *(f"{n:,}" if n or by == "paper" else "" for n in numbers)])
    return table("l" * len(names) + "r" * len(counts.columns), [*names, *counts.columns], rows)


def unanswered() -> list[str]:
    """The numbers without an answer by their data, with what they wait for, as a Markdown table."""
    counts = answers("dataset").query("`not run` > 0").sort_values("not run", ascending=False)
    rows = [(shown(name), f"{row['printed']:,}", f"{row['not run']:,}", NEEDS[name]) for name, row in counts.iterrows()]
    return table("lrrl", ("data", "printed", "not run", "an answer needs"), rows)


def ledger(pages: Container[str], paper: str) -> list[str]:
    """The claims of a paper as a Markdown table."""
    differences = ("difference, or what was found", "difference of the NLL, nats")
    heads = ("row", "claim", "verdict", *differences, "lower on", "seeds", "rests on")
    found, cells = claims(), []
    found = found[found["paper"] == paper]
    for row in found.itertuples():
        name = f"[{row.id}](/notebooks/{row.chapter})" if f"notebooks/{row.chapter}" in pages else row.id
        name = f'<span id="{row.id}"></span>{name}'
        verdict = f'<span class="square {STYLES[row.verdict]}"></span> **{row.verdict}**' + "†" * row.judged
        numbers = *map(unbroken, map(minus, (row.effect, row.nll))), row.lower, row.seeds + "\\*" * (row.gone > 0)
        cells.append((name, row.claim, verdict, *numbers, row.strength + linked(row.id)))
    note = ["", "\\* Some of these trainings are not stored: {ref}`sec-gone`."] if (found["gone"] > 0).any() else []
    return table("l" * len(heads), heads, cells) + note


def gone() -> list[str]:
    """The trainings of which numbers are recorded and no logits stored, and the commands that repeat them."""
    found = results.gone(measured(), differences())
    rows = [
        (shown(of.dataset), shown(of.model), shown(of.loss), f"`{of.budget}`", of.seeds, *map("{:,}".format, counts))
        for of, *counts in zip(found.itertuples(), found["ours"], found["effects"], strict=True)
    ]
    heads = ("data", "model", "loss", "budget", "seeds", "rows of `ours.csv`", "of `effects.csv`")
    return [*table("llllrrr", heads, rows), "", "```bash", *"\n".join(found["commands"]).splitlines(), "```"]


def folded(lines: list[str]) -> list[str]:
    """The lines with their code, the last of them, in a box that a reader opens."""
    at = lines.index("```bash")
    return [*lines[:at], "````{dropdown} The commands that repeat them", *lines[at:], "````"]


def trained() -> list[str]:
    """The networks of ours, trained with cross-entropy: the recipe and what came of it, as a Markdown table."""
    rows = select(measured(), source="ours", loss=CE, method="identity")
    rows = rows.set_index(["dataset", "model", "budget", "n_seeds", "metric"])["value"].unstack()
    cells = []
    for (dataset, model, budget, n_seeds), of in rows.iterrows():
        recipe = recipe_of(dataset, budget, CE, model=model)
        first = {"crop+flip": recipe.epochs - recipe.uncropped, "flip": 0}.get(recipe.augment, "")
        how = recipe.epochs, first, f"{recipe.weight_decay:g}"
        came = f"{100 * of['accuracy']:.1f}", f"{100 * of['ece']:.2f}", f"{n_seeds:.0f}"
        cells.append((shown(dataset), shown(model), *how, *came))
    heads = ("data", "network", "epochs", "shifted", "decay", "accuracy, %", "ECE, %", "seeds")
    return table("llrrrrrr", heads, cells)


def averages() -> list[str]:
    """The mean difference in ECE of each set of networks that a page takes, as a Markdown table."""
    found = []
    for base in (TS, f"{TS}:ece"):
        rows = of_base(differences(), base, method=CTS, metric="ece")
        published, kind = rows["source"] == "published-logits", stratum(rows)
        of = {"published": rows[published], "published, balanced": rows[kind == STRATA[0]]}
        if base == TS:
            every = set(of_base(differences(), TS, method=RAREST, metric="ece")["network"])
            side_by_side = rows["network"].isin(every) & (rows["loss"] == CE)
            of["on which every calibrator was fitted"] = rows[side_by_side]
        found += [("CTS", shown(base), name, some) for name, some in of.items()]
    for loss in ("mbls", "acls"):
        rows = of_base(differences(), TS, CE, method="identity", metric="ece", loss=loss)
        balanced = rows[stratum(rows) == STRATA[2]]
        found += [(shown(loss), "CE with TS", places(some), some) for some in (rows, balanced)]
    cells = [
        (name, base, f"{networks} ({len(rows)})", f"{over_networks(rows).percent:+.2f}")
        for name, base, networks, rows in found
    ]
    return [unbroken(minus(line)) for line in table("lllr", ("", "minus", "networks", "ECE, points"), cells)]


def places(rows: pd.DataFrame) -> str:
    """The data sets of the networks, by name, with their number where a set has several."""
    numbers = rows["dataset"].map(shown).value_counts().sort_index()
    return "; ".join(name + f" ({n} networks)" * (n > 1) for name, n in numbers.items())


def power() -> list[str]:
    """How often a test set sees a true difference, as ``benchmarks/power.py`` measured it: a Markdown table."""
    cells = []
    for row in pd.read_csv(_folders.stored() / "power.csv").itertuples():
        pair = f"{abs(row.one):g} and {row.other:g}" + ", too unsure and too sure" * (row.one < 0)
        cells.append([pair, *(f"{share:.0f}%" for share in (row.ece, row.holm, row.nll))])
    rows = compared()
    between = ~rows["against"].isin(["", "identity", "cross_entropy"]) & rows["printed_effect"].notna()
    rows = rows[between & (rows["dataset"] == "cifar10") & (rows["metric"] == "ece")]
    small = int((rows["printed_effect"].astype(float).abs() < 0.5).sum())
    said = f"Of {len(rows)} differences in ECE between two methods that the papers print on CIFAR-10, {small} are below"
    heads = ("true ECE of the two, %", "ECE", "ECE, of 60 tests", "NLL")
    return [*table("lrrr", heads, cells), "", f"{said} half a point."]


def plans() -> list[str]:
    """What it takes to train the networks of each paper, as a Markdown table."""
    rows = []
    for paper in PAPERS:
        networks = networks_of(paper)
        epochs = epochs_of_resnet50(networks)
        cells = f"{epochs / 3600:.1f} hours \N{MULTIPLICATION SIGN} s", f"{disk(networks) / 1e9:.1f} GB"
        hours, room = (cell.replace(" ", "\N{NO-BREAK SPACE}") for cell in cells)
        rows.append((f"`{paper}`", len(networks), f"{epochs:,.0f}", hours, room))
    return table("lrrrr", ("paper", "jobs", "epochs of a ResNet-50", "on one GPU", "disk"), rows)


def registry(path: str) -> list[str]:
    """Markdown that documents each entry of the registry at ``package.NAME``; ``{summary}`` names their keys."""
    lines = ["```{eval-rst}"]
    for entry in entries_of(path).values():
        directive = "autoclass" if inspect.isclass(entry) else "autofunction"
        lines.append(f".. {directive}:: {entry.__module__}.{entry.__qualname__}")
    return [*lines, "```"]


def number(text: str) -> str:
    """One number of ours in percent: "ece cifar10 densenet40 ets:focal", "ece cifar10 resnet20 mbls | identity".

    ValueError where not exactly one row of ``ours.csv`` fits.
    """
    metric, dataset, model, rest = text.split(maxsplit=3)
    loss, _, method = rest.rpartition(" | ")
    keys = {"method": str(Key.parse(method)), "loss": str(Key.parse(loss or "cross_entropy"))}
    rows = select(measured(), metric=metric, dataset=dataset, model=model, **keys)
    if len(rows) > 1:  # of a network that others have published, too
        rows = select(rows, source="ours")
    if len(rows) != 1:
        raise ValueError(f"Expected `{text}` to be one row of ours.csv, but got {len(rows)}")
    return f"{100 * rows['value'].iloc[0]:.2f}%"


def stored(file: str, outer: str, inner: str, caption: str) -> str:
    """A table of ``book/results`` whose rows two columns name."""
    rows = pd.read_csv(_folders.stored() / f"{file}.csv").set_index([outer, inner]).rename_axis([None, None])
    digits = {} if file == "correlation" else {"NLL": 3}  # a correlation has no unit, whatever it is of
    return table_of(rows, caption, f"tbl-protocol-{file}", digits=digits)._repr_html_()


def printed(paper: str, number: str, wide: str, caption: str) -> str:
    """A table of a paper, all its rows in sight."""
    name = f"tbl-printed-{PAPERS[paper].short}-{number}".lower()
    shown = beside(results.compare(paper, number), wide, caption, name, names=NAMES, fold=False)
    return part(shown, shown.rows)._repr_html_()  # nothing is beside the numbers, so no head has to say "printed"


class Ours(SphinxRole):
    """``{ours}``."""

    def run(self) -> tuple[list[nodes.Node], list]:
        """The number as text."""
        return [nodes.Text(number(self.text))], []


class Verdicts(Computed):
    """``{verdicts}``, ``{verdicts} table``."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table."""
        style = ("sortable", "counts") if "table" in self.arguments else ()
        return self.parse(verdicts(self.env.found_docs, *self.arguments), style)


class Ledger(Computed):
    """``{ledger}``."""

    def run(self) -> list[nodes.Node]:
        """A section for each paper, with its claims."""
        lines = []
        for paper in PAPERS:
            lines += ["", f"## {PAPERS[paper].method}", "", "```{rst-class} sortable claims full-width", "```", ""]
            lines += ledger(self.env.found_docs, paper)
        return self.parse(lines)


def setup(app: Sphinx) -> dict:
    """Register the role and the directives."""
    app.add_role("ours", Ours())
    return extension(
        verdicts=Verdicts,
        answered=markdown(lambda: [answered_in_words()]),
        unanswered=markdown(unanswered),
        ledger=Ledger,
        gone=markdown(lambda: folded(gone()), style=("sortable",)),
        trained=markdown(trained),
        averages=markdown(averages),
        power=markdown(power),
        plans=markdown(plans),
        printed=html(printed, required=3, captioned=True),
        stored=html(stored, required=3, captioned=True),
        registry=markdown(registry, required=1),
    )(app)
