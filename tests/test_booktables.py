"""What the book computes when it is built: the table of verdicts, numbers of ours in the text, registries."""

import importlib
import re
from pathlib import Path

import pandas as pd
import pytest

from book.kit import results
from book.kit.__main__ import main
from book.kit.notebook.table import minus
from book.kit.results import append, load
from book.kit.results.csv_rows import CELL
from book.papers import PAPERS
from calibkit import _folders, losses
from calibkit.objectives import OBJECTIVES

pytest.importorskip("sphinx")
ROOT = Path(__file__).resolve().parents[1]
booktables = importlib.import_module("book.kit.sphinx.booktables")
proposals = importlib.import_module("book.kit.sphinx.frontpage").proposals


@pytest.fixture
def few(own_results):
    """A file of ours with four numbers."""
    row = {"dataset": "cifar10", "model": "resnet20", "loss": "cross_entropy", "method": "identity", "metric": "ece"}
    row |= {"value": 0.0314159, "low": 0, "high": 1, "unit": "fraction", "n_bins": 15, "n_seeds": 1}
    row |= {"budget": "reduced", "source": "ours"}
    others = [{"loss": "mbls margin=0"}, {"method": "class_temperature_scaling:nll"}, {"n_bins": 25}]
    append([row, *(row | other | {"value": 0.1 * i} for i, other in enumerate(others, 1))])


def test_a_number_is_in_percent_with_two_decimals(few):
    assert booktables.number("ece cifar10 resnet20 mbls margin=0 | identity") == "10.00%"
    assert booktables.number("ece cifar10 resnet20 class_temperature_scaling:nll") == "20.00%"


def test_a_number_is_exactly_one_row(few):
    wanted = {
        "ece cifar10 resnet20 identity": 2,  # of 15 and of 25 bins
        "ece cifar10 resnet20 ets": 0,
        "ece cifar10 resnet20 focal | identity": 0,
        "ece cifar100 resnet20 identity": 0,
        "ece cifar10 resnet110 identity": 0,
        "nll cifar10 resnet20 identity": 0,
    }
    for text, n_rows in wanted.items():
        with pytest.raises(ValueError, match=re.escape(f"`{text}` to be one row of ours.csv, but got {n_rows}")):
            booktables.number(text)


def test_every_number_of_the_book_is_one_row():
    """Every ``{ours}`` of a page or a chapter; in a table of Markdown the bar of its key is escaped."""
    pages = [of for part in ("book/*.md", "book/papers/*.py", "notebooks/*.py") for of in sorted(ROOT.glob(part))]
    roles = {role for page in pages for role in re.findall(r"\{ours\}`([^`]+)`", page.read_text())}
    ours = load("ours")
    for role in (role.replace("\\|", "|") for role in roles):
        metric, dataset, model, _ = role.split(maxsplit=3)
        rows = ours.query("metric == @metric and dataset == @dataset and model == @model and unit == 'fraction'")
        assert booktables.number(role) in {f"{100 * value:.2f}%" for value in rows["value"]}
    assert len(roles) > 20


def cells(lines: list[str]) -> list[list[str]]:
    """The rows of a Markdown table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["paper", "table"])
def test_the_table_of_verdicts_is_the_summary(by):
    header, rule, *rows = cells(booktables.verdicts({"notebooks/mbls"}, by))
    names = ("paper",) if by == "paper" else ("paper", "table")
    counts = results.summary(by=names)
    last = counts.pop("not run")
    for name in ("elsewhere", "by a stand-in"):
        columns = [column for column in counts if column.endswith(name)]
        counts = counts.drop(columns=columns).assign(**{name: counts[columns].sum(axis=1)})
    counts["not run"] = last
    counts = counts.loc[:, counts.sum() > 0]
    assert header == [*names, *counts.columns] and len(rule) == len(header)
    if by == "paper":
        assert rows.pop() == ["all", *map("{:,}".format, counts.sum())]
    assert len(rows) == len(counts)
    for row, (key, numbers) in zip(rows, counts.iterrows(), strict=True):
        paper, *table = [key] if by == "paper" else key
        assert row[1:] == [*table, *(f"{n:,}" if n or by == "paper" else "" for n in numbers)]
        name = PAPERS[paper].short
        assert row[0] == (f"[{name}](/notebooks/{paper})" if paper == "mbls" else name)


@pytest.mark.slow
def test_sentence_and_command_count_as_the_table_does(capsys):
    """Whose rows are those of the summary."""
    every = results.everything()
    total = {name: int((results.answers(every) == name).sum()) for name in results.ANSWERS}
    sentence = booktables.answered_in_words()
    answered, *kinds = [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", sentence)]
    assert (answered, kinds.pop(0)) == (len(every) - total["not run"], len(every)) and sum(kinds) == answered
    assert kinds[1] == total["not decided"] + total["not decided, by a stand-in"]
    assert results.summary(every)[[*total]].sum().to_dict() == total
    main(["verdicts"])
    assert capsys.readouterr().out.endswith(f"{sentence}\n")


@pytest.mark.slow
def test_what_waits_for_data_adds_up_and_says_for_what():
    waiting = results.summary(by=("dataset",)).query("`not run` > 0")
    assert set(booktables.NEEDS) == set(waiting.index), "NEEDS wants a line for each data set that waits"
    _, _, *rows = cells(booktables.unanswered())
    found = [int(row[2].replace(",", "")) for row in rows]
    assert found == sorted(waiting["not run"], reverse=True)
    every = results.everything()
    assert sum(found) == (results.answers(every) == "not run").sum()


@pytest.mark.slow
def test_the_ledger_has_every_claim_of_a_paper(monkeypatch):
    every = results.ledger()
    for paper in PAPERS:
        lines = booktables.ledger({"notebooks/mbls"}, paper)
        claims = every.query("paper == @paper")
        body, note = lines[2 : 2 + len(claims)], lines[2 + len(claims) :]
        assert len(claims) > 4, f"{paper} has {len(claims)} claims"
        assert ("{ref}`sec-gone`" in "".join(note)) == (claims["gone"] > 0).any() == bool(note)
        for line, row in zip(body, claims.itertuples(), strict=True):
            assert (
                f"</span> **{row.verdict}**{'†' * row.judged} |" in line
                and f"| {row.claim} |" in line
                and (f"| {row.seeds}\\* |" in line) == (row.gone > 0)
            )
            name = f"[{row.id}](/notebooks/mbls)" if paper == "mbls" else row.id
            assert line.startswith(f'| <span id="{row.id}"></span>{name} |')
    stored = booktables.claims().assign(gone=0)
    monkeypatch.setattr(booktables, "claims", lambda: stored)
    assert "sec-gone" not in "".join(booktables.ledger(set(), "mbls"))


@pytest.mark.slow
def test_each_mean_of_the_ledger_is_the_one_that_its_page_has():
    rows = [line.replace("\xa0", " ").strip("| ").split(" | ") for line in booktables.averages()[2:]]
    found = {tuple(row[:2]): [] for row in rows}
    for name, base, networks, value in rows:
        found[name, base].append((int(networks.rpartition("(")[2].strip(")")), value))
    of = results.ledger().set_index("id")
    pages = {("CTS", "TS"): "CTS3a", ("CTS", "TS-ECE"): "CTS3", ("MbLS", "CE with TS"): "MbLS3d"}
    for key, claim in (pages | {("ACLS", "CE with TS"): "ACLS5d"}).items():
        n = int(of.loc[claim, "lower"].split(" of ")[1])
        assert (n, minus(of.loc[claim, "effect"])) in found[key]
    front = {name: minus(f"{mean.percent:+.2f}") for name, mean in proposals("ece").items()}
    for name, base, kind in (
        ("CTS", "TS", "published"),
        ("MbLS", "CE with TS", "ours"),
        ("ACLS", "CE with TS", "ours"),
    ):
        (mean,) = (text for key, text in front.items() if key.startswith(f"{name}, {kind}, balanced"))
        assert mean in [value for _, value in found[name, base]]


@pytest.mark.slow
def test_what_is_not_stored_is_listed_with_the_commands_that_repeat_it():
    lines = booktables.gone()
    lost = results.gone()
    end = lines.index("```bash")
    assert len(lines[2 : end - 1]) == len(lost) and lines[-1] == "```"
    assert lines[end + 1 : -1] == [command for text in lost["commands"] for command in text.split("\n")]


@pytest.mark.slow
def test_what_a_test_set_decides_is_that_of_the_file():
    _, _, *lines, _, said = booktables.power()
    rows = pd.read_csv(_folders.stored() / "power.csv")
    assert [line.split(" | ")[1] for line in lines] == [f"{share:.0f}%" for share in rows["ece"]]
    rows = results.everything().query("dataset == 'cifar10' and metric == 'ece' and printed_effect.notna()")
    between = [row for row in rows.itertuples() if row.against not in ("identity", "cross_entropy")]
    assert f"Of {len(between)} differences" in said
    assert f", {sum(abs(row.printed_effect) < 0.5 for row in between)} are below half a point" in said


def test_what_training_the_networks_of_a_paper_takes(monkeypatch):
    monkeypatch.setattr(booktables, "PAPERS", {"class_loss_scaling": None})
    monkeypatch.setattr(booktables, "epochs_of_resnet50", lambda plan: 900.0 * len(plan))
    monkeypatch.setattr(booktables, "disk", lambda plan: 1e9)
    assert booktables.plans()[2:] == ["| `class_loss_scaling` | 8 | 7,200 | 2.0\xa0hours\xa0×\xa0s | 1.0\xa0GB |"]


def test_a_registry_documents_each_entry():
    first, *lines, last = booktables.registry("calibkit.losses.LOSSES")
    assert (first, last) == ("```{eval-rst}", "```") and len(lines) == len(losses.LOSSES)
    for line, entry in zip(lines, losses.LOSSES.values(), strict=True):
        kind = "autoclass" if isinstance(entry, type) else "autofunction"
        assert line == f".. {kind}:: {entry.__module__}.{entry.__qualname__}"
    assert ".. autofunction:: calibkit.metrics.calibration.ece" in booktables.registry("calibkit.metrics.METRICS")


def test_sphinx_builds_a_page_with_all_three(few, own_results, tmp_path):
    """A book of one page; its verdicts are those of a paper with one number."""
    pytest.importorskip("myst_parser")
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    line = "mbls,1,cifar10,resnet50,cross_entropy,identity,ece,5.50,,,,percent,15,1,paper,printed,,"
    (own_results / "paper.csv").write_text(f"{','.join(results.COLUMNS)}\n{line}\n")
    page = "# Page\n\nOurs is {ours}`ece cifar10 resnet20 class_temperature_scaling:nll`.\n\n```{verdicts}\n```\n\n"
    (tmp_path / "index.md").write_text(page + "```{registry} calibkit.objectives.OBJECTIVES\n```\n")
    options = {"extensions": ["myst_parser", "sphinx.ext.autodoc"], "autodoc_use_type_comments": False}
    options["source_suffix"] = {".md": "markdown"}  # the default is one dict, which every build before has written to
    folders = (tmp_path, None, tmp_path / "out", tmp_path / "trees")
    with docutils_namespace():  # directives are the interpreter's: the next build must not find these
        app = Sphinx(*folders, "text", status=None, confoverrides=options)
        booktables.setup(app)
        app.build()
    text = (tmp_path / "out" / "index.txt").read_text()
    assert "Ours is 20.00%." in text
    assert re.search(r"MbLS +\| 1 +\| 1 ", text)
    for entry in OBJECTIVES.values():
        assert f"class {entry.__module__}.{entry.__qualname__}" in text


@pytest.mark.slow
def test_tables_of_which_nobody_ran_anything_are_on_a_page_of_their_own():
    """With some of which all that was run is in a table of the chapter too; no answer stands there alone."""
    page = (ROOT / "book" / "printed.md").read_text()
    shown = set(re.findall(r"^```\{printed\} (\w+) (\w+) \w+$", page, re.MULTILINE))
    compared = pd.concat([results.compare(paper) for paper in PAPERS], ignore_index=True)
    ran = results.answers(compared) != "not run"
    tables = pd.MultiIndex.from_frame(compared[["paper", "table"]])
    untouched = set(tables) - set(tables[ran])
    there = tables.isin(shown)
    assert untouched <= shown <= set(tables)
    numbers = pd.MultiIndex.from_frame(compared[["paper", *CELL, "unit"]])
    assert set(numbers[there & ran]) <= set(numbers[~there])
