"""Which rows can be computed again: more trainings behind a number than are stored, and no others."""

import shlex

import pandas as pd
import pytest

from book.kit.results import gone, kept, load, load_effects, rests_on_gone
from calibkit.__main__ import parser
from calibkit.networks import Network, index

ROW = {"dataset": "cifar10", "model": "resnet20", "loss": "mbls", "method": "identity", "n_seeds": 2}
ROW |= {"budget": "reduced", "source": "ours"}
PAIR = ROW | {"base_loss": "focal", "base_seeds": 1}


@pytest.fixture
def one_stored(monkeypatch):
    """Of MbLS seed 1, of the focal loss none."""
    monkeypatch.setattr(kept, "index", lambda: {"cifar10/resnet20-mbls-s1": ("reduced", 0.9)})


def test_a_row_of_ours(one_stored):
    wanted = [
        ({}, True),
        ({"n_seeds": 1}, False),
        ({"n_seeds": 1, "budget": "paper"}, True),
        ({"loss": "focal", "n_seeds": 1}, True),
        ({"source": "published-logits"}, False),
        ({"method": "neural_clamping gamma=1", "n_seeds": 5}, False),  # fits of one network
    ]
    rows = pd.DataFrame([ROW | change for change, _ in wanted])
    assert rests_on_gone(rows).tolist() == [rests for _, rests in wanted]
    rows = [PAIR | {"n_seeds": 1}, PAIR | {"n_seeds": 1, "base_loss": "mbls"}, PAIR | {"base_loss": "mbls"}]
    assert rests_on_gone(pd.DataFrame(rows)).tolist() == [True, False, True]  # either side counts


def test_what_is_gone_is_counted_and_can_be_repeated(one_stored):
    ours = pd.DataFrame([ROW | {"n_seeds": 3}, ROW | {"n_seeds": 1}, ROW | {"loss": "mbls margin=0", "n_seeds": 1}])
    found = gone(ours, pd.DataFrame([PAIR])).set_index("loss")
    assert found["seeds"].to_dict() == {"focal": "0", "mbls": "0, 2", "mbls margin=0": "0"}
    assert found[["ours", "effects"]].to_numpy().tolist() == [[0, 1], [1, 1], [1, 0]]
    asked = [
        Network(args.dataset, args.model, args.loss, args.seed)
        for line in "\n".join(found["commands"]).split("\n")
        for args in [parser().parse_args(shlex.split(line)[1:])]
    ]
    losses = [("focal", 0), ("mbls", 0), ("mbls", 2), ("mbls margin=0", 0)]
    assert asked == [Network("cifar10", "resnet20", *of) for of in losses]


@pytest.mark.slow
def test_what_the_project_lists_as_gone_is_not_stored():
    """Counted another way: of each network the trainings in the file, less the files in the zoo."""
    ours = load("ours").query("source == 'ours' and not method.str.startswith('neural_clamping')")
    most = ours.groupby(["dataset", "model", "loss", "budget"])["n_seeds"].max()
    names = [Network.parse(name) for name in index()]
    lost = gone().set_index(["dataset", "model", "loss", "budget"])
    for (dataset, model, loss, budget), n in most.items():
        stored = [of for of in names if (of.dataset, of.model, of.loss) == (dataset, model, loss)]
        seeds = lost["seeds"].get((dataset, model, loss, budget), "")
        assert len(seeds.split(", ") if seeds else []) == max(n - len(stored), 0), (dataset, model, loss)
    assert set(lost.index) <= set(most.index)
    assert lost["ours"].sum() == rests_on_gone(load("ours")).sum()
    assert lost["effects"].sum() >= rests_on_gone(load_effects()).sum()  # a difference may rest on two
