"""What each paper trained: its tables, and what its chapter compares; and what is refused before anything runs."""

import re
import shlex
from pathlib import Path

import pytest
from refusals import refused

from book.kit import plans
from book.kit.plans import SIZES, Training, check, networks_of
from book.kit.results import load
from book.papers import PAPERS
from calibkit.__main__ import parser
from calibkit.data import DATASETS
from calibkit.losses import LOSSES
from calibkit.networks import Network
from calibkit.training import LOSS_OPTIONS, RECIPES

ROOT = Path(__file__).resolve().parents[1]
MARGIN_0 = "mbls margin=0 weight=0.05"


def cells(paper: str) -> set[tuple[str, str, str]]:
    return {(of.network.dataset, of.network.model, of.network.loss) for of in networks_of(paper)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_printed_network_with_a_recipe_is_there(paper):
    """Left out are data without a recipe of the paper, and two losses of other papers that have no code here."""
    printed = load("paper").query("paper == @paper and source == 'printed'")
    rows = {tuple(row) for row in printed[["dataset", "model", "loss"]].to_numpy()}
    recipe = PAPERS[paper].recipe or paper
    left = {cell for cell in rows - cells(paper) if (recipe, cell[0]) in RECIPES}
    assert {loss for _, _, loss in left} <= {"cape_bin", "patra"}
    assert all((recipe, dataset) in RECIPES for dataset, _, _ in cells(paper))
    check(networks_of(paper), "paper", data=False)


def test_the_networks_of_two_papers_by_hand():
    long_tailed = {(f"cifar{k}_lt", model, "cross_entropy") for k in (10, 100) for model in
                   ("densenet40", "wide_resnet_28", "resnet110", "resnet110_sd")}  # fmt: skip
    assert cells("class_loss_scaling") == long_tailed
    clamped = {("cifar100", model, "cross_entropy") for model in ("resnet110", "wide_resnet_40_10", "densenet121")}
    assert cells("neural_clamping") == clamped
    assert len(networks_of("class_temperature_scaling", seeds=(0, 1))) == 2 * 36  # 9 networks, 4 losses
    pretrained = {of.network.dataset for of in networks_of("mbls") if of.pretrained}
    assert pretrained == {"cub200", "voc2012"}


def parameters(chapter: str) -> dict:
    """The defaults of a chapter's parameter cell."""
    text = (ROOT / "notebooks" / f"{chapter}.py").read_text()
    cell = re.search(r'^# %% tags=\["parameters"\]\n(.*?)^# %%', text, re.M | re.S)[1]
    found: dict = {}
    exec(cell, found)
    return found


@pytest.mark.parametrize("chapter", PAPERS)
def test_a_chapter_at_the_budget_of_the_papers_trains_nothing_itself(chapter):
    """All that it compares is in the plan, by the recipe that it asks for; its parameters are ones that it has."""
    given = parameters(chapter)
    told = PAPERS[chapter].parameters
    assert not {*told, "budget", "device"} - {*given}, f"notebooks/{chapter}.py lacks parameters"
    given |= {**told}
    planned = {(of.network, of.folder("paper")) for of in networks_of(chapter)}
    names = [given[name] for name in ("logits",) if name in told]
    if chapter in ("mbls", "acls"):
        cell = given.get("comparison") or f"{given['dataset']}/{given['model']}"
        own = LOSS_OPTIONS[chapter, cell.split("/")[0]]["margin"]
        swept = {"mbls": ["mbls"], "acls": ["mbls", "acls"]}[chapter]
        margins = given.get("trained_margins", given["margins"])
        losses = [*LOSSES, MARGIN_0]
        losses += [f"{loss} margin={m:g}" for loss in swept for m in margins if m != own]
        names += [f"{cell}-{loss.replace(' ', ',')}-s0" for loss in losses]
    paper = chapter if chapter in ("mbls", "acls") else None
    wanted = {(network, network.folder("paper", paper)) for network in map(Network.parse, names)}
    assert wanted <= planned


def test_the_sizes_are_those_of_the_page():
    rows = re.findall(
        r"^\| (`.*?) \|[^|]*\|[^|]*\| ([\d,]+ \| [\d,]+ \| [\d,]+) \|", (ROOT / "book/running.md").read_text(), re.M
    )
    told = {}
    for names, sizes in rows:
        numbers = [int(n.replace(",", "")) for n in re.findall(r"\d+(?:,\d{3})*", sizes)]
        keys = re.findall(r"`(\w+)`", names)
        splits = [tuple(numbers[i : i + 3]) for i in range(0, len(numbers), 3)]
        told |= dict(zip(keys, splits * len(keys) if len(splits) == 1 else splits, strict=True))
    assert told == SIZES and told.keys() == DATASETS.keys(), "a data set has its sizes in both"


def test_work_and_disk_of_a_network_by_hand():
    """A ResNet-20 has 0.27 million parameters and 41 million multiply-adds (He et al. 2016, Table 6; Sec. 4.2)."""
    n, flops = plans.size_of("cifar10", "resnet20")
    assert n == pytest.approx(0.27e6, rel=0.02) and flops == pytest.approx(2 * 41e6, rel=0.02)
    one = [Training(Network("cifar10", "resnet20"))]
    assert plans.disk(one) == 4 * (n + 15000 * 10)
    unit = [Training(Network("cifar10", "resnet50"))]
    assert plans.epochs_of_resnet50(unit) == pytest.approx(350)
    assert plans.epochs_of_resnet50(one) == pytest.approx(350 * flops / plans.size_of("cifar10", "resnet50")[1])


def test_what_would_fail_later_is_refused():
    bad = [
        ("dataset", ("mnist", "resnet20")),
        ("model", ("digits", "resnet20")),
        ("loss", ("digits", "small_cnn", "hinge")),
        ("loss", ("digits", "small_cnn", "mbls margn=3")),
        ("loss", ("digits", "small_cnn", "cutmix margn=3")),
        ("dataset", ("svhn", "resnet20")),  # without a recipe
    ]
    for name, network in bad:
        refused(f"`{name}` to be ", check, [Training(Network(*network))], "reduced", data=False)


def test_all_absent_data_sets_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path))
    plan = [Training(Network(name, "resnet20")) for name in ("cifar10", "cifar100_lt")]
    refused(".*prepare cifar10; calibkit data prepare cifar100.*none of cifar10, cifar100_lt", check, plan, "reduced")
    check([Training(Network("digits", "small_cnn"))], "reduced")


def trainings() -> list[str]:
    """The commands ``calibkit train ...`` of all pages, each on one line."""
    found = set()
    for page in (ROOT / "README.md", *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.py")):
        text = re.sub(r"\\\n(# )?", " ", page.read_text())
        found |= {" ".join(of.split()) for of in re.findall(r"^(?:# )?(?:\.venv/bin/)?calibkit (train .*)", text, re.M)}
    return sorted(found)


def test_each_training_that_a_page_or_a_chapter_names_can_be_put_together():
    """Its data set, network, loss and recipe exist."""
    asked = [parser().parse_args(shlex.split(command.split(" #")[0])) for command in trainings()]
    assert len(asked) > 10 and {args.paper for args in asked} == {None, "mbls", "acls"}
    for args in asked:
        network = Network(args.dataset, args.model, args.loss, args.seed)
        check([Training(network, args.paper)], args.budget, data=False)
