"""A sixth paper is its record, its rows, its chapter and a line of contents: CONTRIBUTING's example, in a copy."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from checkout_copies import run

from book.kit.results import COLUMNS, load
from book.kit.results.claims import COLUMNS as OF_CLAIMS
from book.kit.results.claims import load_claims
from book.papers import PAPERS, owner
from calibkit.networks import PUBLISHED

pytest.importorskip("jupyter_book")
ROOT = Path(__file__).resolve().parents[1]
RECORD = re.search(
    r"^```python\n# (book/papers/toy\.py)\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.S | re.M
)
PRINTED = {"paper": "toy", "table": "1", "dataset": "cifar100", "model": "resnet110", "loss": "cross_entropy"}
PRINTED |= {"metric": "ece", "unit": "percent", "n_bins": "15", "n_seeds": "1", "budget": "paper", "source": "printed"}
METHODS = {"identity": "16.50", "temperature_scaling": "1.30", "vector_scaling": "1.20"}
CLAIM = {"id": "TOY1", "paper": "toy", "claim": "Vector scaling has a lower ECE", "method": "vector_scaling"}
CLAIM |= {"base_method": "temperature_scaling", "metric": "ece", "networks": "ours", "wants": "below", "chapter": "toy"}
CHAPTER = "# A toy paper\n\n```{printed} toy 1 method\nTable 1 of the toy paper, as printed.\n```\n"
#: Builds the front page, the ledger and the chapter as HTML, by the extensions that make something of a paper.
BUILD = """
from sphinx.application import Sphinx

extensions = ["myst_parser", "sphinx_design", "sphinx_external_toc", "book.kit.sphinx.booktables"]
extensions += ["book.kit.sphinx.frontpage", "book.kit.sphinx.claims"]
options = {"extensions": extensions, "myst_enable_extensions": ["colon_fence"]}
options |= {"include_patterns": ["book/index.md", "book/ledger.md", "notebooks/toy.md"], "source_suffix": [".md"]}
options |= {"external_toc_exclude_missing": True, "master_doc": "book/index"}
Sphinx(".", None, "_site", "_site/trees", "html", options, status=None, warning=None).build()
"""


def appended(path: Path, columns: tuple[str, ...], rows: list[dict]) -> None:
    with open(path, "a", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([row.get(name, "") for name in columns] for row in rows)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The pages of a copy of the checkout with the paper."""
    root = tmp_path_factory.mktemp("checkout")
    copied = (
        "calibkit",
        "_toc.yml",
        *(f"book/{name}" for name in ("__init__.py", "index.md", "ledger.md", "kit", "papers")),
    )
    for path in [*map(ROOT.joinpath, copied), *(ROOT / "book/results").glob("*.csv")]:
        to = root / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, to)
    (root / "book/results/logits").symlink_to(ROOT / "book/results/logits")

    (root / RECORD[1]).write_text(RECORD[2])
    rows = [PRINTED | {"method": method, "value": value} for method, value in METHODS.items()]
    appended(root / "book/results/paper.csv", COLUMNS, rows)
    appended(root / "book/results/claims.csv", OF_CLAIMS, [CLAIM])
    (root / "notebooks").mkdir()
    (root / "notebooks/toy.md").write_text(CHAPTER)
    contents = (root / "_toc.yml").read_text()
    line = "      - file: notebooks/acls\n"
    (root / "_toc.yml").write_text(contents.replace(line, f"{line}      - file: notebooks/toy\n"))
    (root / "build_pages.py").write_text(BUILD)
    run(root, "build_pages")
    return root / "_site"


def test_each_paper_has_what_the_steps_ask_for():
    """And their order is that of the contents."""
    contents = re.findall(r"file: notebooks/(\w+)", (ROOT / "_toc.yml").read_text())
    assert list(PAPERS) == [name for name in contents if name in PAPERS]
    assert [paper.place for paper in PAPERS.values()] == list(range(1, len(PAPERS) + 1))
    entries, claims, printed = (ROOT / "book/references.bib").read_text(), load_claims(), load("paper")
    for name, paper in PAPERS.items():
        assert re.search(rf"^@\w+{{{paper.citation},$", entries, re.M), name
        assert claims[claims["paper"] == name]["id"].str.startswith(paper.short).all()
        assert {name} <= {*claims["paper"]} & {*printed["paper"]} and (ROOT / f"notebooks/{name}.py").exists()
    assert {owner(name) for name in PUBLISHED} == {name for name, paper in PAPERS.items() if paper.published}


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


@pytest.mark.slow
def test_the_front_page_has_its_card_its_row_and_its_place_in_the_figure(site):
    page = (site / "book/index.html").read_text()
    card = page[page.index("Vector scaling (TOY)") :]
    assert "A scale for each class is better" in card and 'href="../notebooks/toy.html"' in page
    assert re.search(
        r"the six proposals .* TOY, \w+, [\w-]+ \(\d+\): [+-]\d", words(page + re.sub(r'[<>"]', " ", page))
    )


@pytest.mark.slow
def test_the_ledger_has_its_claim_and_its_tables(site):
    html = (site / "book/ledger.html").read_text()
    page = words(html)
    verdict = r"(holds|does not hold|not decided|ECE undecided|fails)"
    assert re.search(rf"Vector scaling .*TOY1 Vector scaling has a lower ECE {verdict}", page)
    assert re.search(rf'title="TOY1: Vector scaling has a lower ECE: {verdict}', html)
    assert re.search(r"<a [^>]*toy\.html[^>]*>.*?TOY.*?</td>\s*<td[^>]*><p>3</p>", html, re.S)
    assert re.search(r"TOY 1 3 ", page)


@pytest.mark.slow
def test_its_chapter_has_the_printed_table(site):
    page = words((site / "notebooks/toy.html").read_text())
    assert "Table 1 of the toy paper" in page and all(value in page for value in METHODS.values())
