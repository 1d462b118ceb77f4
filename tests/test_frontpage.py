"""What the front page draws and says follows from the results."""

import importlib
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from book.kit import results
from book.papers import PAPERS, framed

pytest.importorskip("sphinx")
frontpage = importlib.import_module("book.kit.sphinx.frontpage")
ROOT = Path(__file__).resolve().parents[1]


def test_every_answer_is_in_one_part_of_a_bar():
    for answer in results.ANSWERS:
        assert sum(answer in share.answers for share in frontpage.SHARES) == 1, answer


@pytest.mark.slow
def test_parts_of_a_bar_add_up_to_what_is_printed():
    counts = results.summary(by=("paper",))
    for paper in counts.index:
        html = frontpage.bar(counts.loc[paper])
        assert sum(map(int, re.findall(r"flex-grow:(\d+)", html))) == counts.loc[paper, "printed"]
        answered = counts.loc[paper, "printed"] - counts.loc[paper, "not run"]
        assert f"{answered} of {counts.loc[paper, 'printed']} printed numbers tested" in html


@pytest.mark.slow
def test_the_legend_explains_the_parts_that_occur_and_no_other():
    by_paper, drawn = results.summary(by=("paper",)), set()
    counts = by_paper.sum()
    for _, of_paper in by_paper.iterrows():
        drawn |= set(re.findall(r'class="([a-z -]+)" style', frontpage.bar(of_paper)))
    assert set(re.findall(r'<span class="([a-z -]+)">', frontpage.legend(counts))) == drawn
    assert "opposite" in frontpage.legend(counts + 1)


def test_each_paper_with_a_chapter_has_a_card():
    for paper in PAPERS.values():
        picture = ET.fromstring(framed(*paper.picture))
        assert picture.get("role") == "img" and picture.get("aria-label")
    lines = frontpage.cards({"notebooks/acls", "notebooks/mbls", "notebooks/gallery"})
    links = [line.removeprefix(":link: /notebooks/") for line in lines if line.startswith(":link: ")]
    assert links == ["mbls", "acls"]
    assert {"```{thumbnail} acls", f"*{PAPERS['acls'].claim}*"} <= {*lines}


def test_the_differences_are_means_over_networks():
    effects = results.load_effects()
    rows = effects[(effects["method"] == "class_temperature_scaling") & (effects["metric"] == "ece")]
    rows = rows[(rows["base_method"] == "temperature_scaling") & (rows["loss"] == rows["base_loss"])]
    rows = rows[(rows["source"] == "published-logits") & ~rows["dataset"].str.endswith("_lt")]
    found = frontpage.proposals("ece")
    assert found[f"CTS, published, balanced ({len(rows)})"].value == pytest.approx(rows["value"].mean())
    assert {name.split(",")[0] for name in found} == {paper.short for paper in PAPERS.values()}
    cell = f"| {100 * rows['value'].median():+.2f} |".replace("-", "\N{MINUS SIGN}")
    assert sum(line.startswith("| CTS | published, balanced |") and cell in line for line in frontpage.strata()) == 1


def test_a_network_without_a_finite_nll_is_in_no_mean(monkeypatch):
    def networks(metric):
        rows = frontpage.beside_one_temperature("class_temperature_scaling", None, metric)
        return rows["published, balanced"]["network"]

    gone = networks("nll")[:1]
    monkeypatch.setattr(frontpage, "differences", lambda: results.load_effects().drop(gone.index))
    for metric in (*frontpage.METRICS, "classwise_ece"):
        assert len(networks(metric)) == 10 and gone.item() not in {*networks(metric)}


def test_the_opening_figure_is_there_for_light_and_dark():
    html = frontpage.panels()
    assert html.count("<svg ") == html.count('role="img" aria-label=') == 2 * 2
    assert 'class="only-light"' in html and 'class="only-dark"' in html
    ids = re.findall(r'id="([^"]+)"', html)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]+"|"http://www.w3.org/[^"]+"', "", html) and ids


def test_every_point_of_the_map_is_named():
    figure = Figure(frontpage.SIZE)
    frontpage.opening(figure)
    words = [text.get_text() for ax in figure.get_axes() for text in ax.texts]
    named = [name.split(",")[0] for name in frontpage.proposals("ece")]
    assert sorted(words) == sorted([*named, *[" better\n in both"] * 2])


def test_the_readme_shows_the_figure_of_the_present_results():
    """``make readme`` draws it; both files say in words what they show, numbers and all."""
    readme, words = (ROOT / "README.md").read_text(), frontpage.seen()
    assert f'alt="{words}"' in readme, "run `make readme`"
    other = frontpage.with_alt(readme, r"other \1 words")
    assert r'alt="other \1 words"' in other and frontpage.with_alt(other, words) == readme
    for name in frontpage.README.values():
        drawn = ET.parse(ROOT / "book" / "_static" / name).getroot()
        assert drawn.get("aria-label") == words and f'"book/_static/{name}"' in readme


def test_every_claim_is_a_square_that_leads_to_its_row():
    from book.kit.sphinx import booktables, claims

    squares = re.findall(r'<a class="[a-z- ]+" href="#(\w+)"', claims.matrix())
    rows = [line for paper in PAPERS for line in booktables.ledger((), paper)]
    assert squares == re.findall(r'<span id="(\w+)"></span>', "".join(rows)) and len(squares) > 60
