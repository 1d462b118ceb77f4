"""Every training that a page or a chapter names can be put together: its data set, network, loss and recipe exist."""

import re
import shlex
from pathlib import Path

from book.kit.plans import Training, check
from calibkit.__main__ import parser
from calibkit.networks import Network

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("book/*.md")), *sorted(ROOT.glob("notebooks/*.py"))]


def trainings() -> list[str]:
    """The commands ``calibkit train ...`` of all pages, each on one line."""
    found = set()
    for page in PAGES:
        text = re.sub(r"\\\n(# )?", " ", page.read_text())
        found |= {" ".join(of.split()) for of in re.findall(r"^(?:# )?(?:\.venv/bin/)?calibkit (train .*)", text, re.M)}
    return sorted(found)


def test_each_can_be_put_together():
    asked = [parser().parse_args(shlex.split(command.split(" #")[0])) for command in trainings()]
    assert len(asked) > 10 and {args.paper for args in asked} == {None, "mbls", "acls"}
    for args in asked:
        network = Network(args.dataset, args.model, args.loss, args.seed)
        check([Training(network, args.paper)], args.budget, data=False)
