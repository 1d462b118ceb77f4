"""Every training that a page or a chapter names can be put together: its data set, network, loss and recipe exist."""

import inspect
import re
import shlex
from pathlib import Path

import pytest

from calibkit.__main__ import parser
from calibkit.data import DATASETS
from calibkit.keys import Key
from calibkit.losses import LOSSES
from calibkit.models import suited
from calibkit.training import VARIANTS, recipe_of
from calibkit.training.setup import LOSS_OPTIONS, make

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("book/*.md")), *sorted(ROOT.glob("notebooks/*.py"))]


def trainings() -> list[str]:
    """The commands ``calibkit train ...`` of all pages, each on one line."""
    found = set()
    for page in PAGES:
        text = re.sub(r"\\\n(# )?", " ", page.read_text())
        found |= {" ".join(of.split()) for of in re.findall(r"^(?:# )?(?:\.venv/bin/)?calibkit (train .*)", text, re.M)}
    return sorted(found)


@pytest.mark.parametrize("command", trainings())
def test_it_can_be_put_together(command):
    args = parser().parse_args(shlex.split(command.split(" #")[0]))
    spec, key = DATASETS[args.dataset], Key.parse(args.loss)
    assert args.model in suited(spec.kind, spec.shape)
    recipe_of(args.dataset, args.budget, key.name, args.paper, model=args.model)
    if key.name not in VARIANTS:
        cls, options = LOSSES[key.name], LOSS_OPTIONS.get((key.name, args.dataset), {}) | dict(key.options)
        size = {"n_samples": 9} if "n_samples" in inspect.signature(cls).parameters else {}
        make(cls, "loss", options | size)


def test_there_are_some():
    papers = {match for command in trainings() for match in re.findall(r"--paper (\w+)", command)}
    assert len(trainings()) > 10 and papers == {"mbls", "acls"}
