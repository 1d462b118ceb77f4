"""Who a network is, where it lies, and at which budget it was trained."""

import inspect
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from data_parameters import with_logits
from refusals import refused

from book.kit.results import load
from book.papers import owner
from calibkit import _folders
from calibkit.keys import Key
from calibkit.logits import Logits
from calibkit.metrics import accuracy, ece
from calibkit.networks import OPTIONS, PUBLISHED, Network, load_logits, zoo
from calibkit.training import assemble, fit, recipe_of

DIGITS = Network("digits", "small_cnn")
RESNET = Network("cifar10", "resnet20")


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A zoo and folders of trainings of their own; gives a function that puts a network there."""
    monkeypatch.setattr(_folders, "stored", lambda: tmp_path / "zoo")
    monkeypatch.setattr(_folders, "runs", lambda budget: tmp_path / "runs" / budget)

    def put(network, budget, in_zoo=False, paper=None):
        z, y = np.random.default_rng(0).normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])
        own = network.folder(budget, paper) / "logits.npz"
        path = tmp_path / "zoo" / "logits" / f"{network}.npz" if in_zoo else own
        return Logits(z, y, z, y, {"budget": budget}).save(path)

    return put


def test_a_name_is_one_network():
    margin_0 = Network("cifar10", "resnet20", "mbls margin=0 weight=0.05", 12)
    news = Network("20newsgroups", "gpool_cnn", "crl weight=0.001", 1)
    assert Network.parse("cifar10/resnet20-mbls-s0") == Network("cifar10", "resnet20", "mbls", 0)
    assert Network.parse("cifar10/resnet20-mbls,margin=0,weight=0.05-s12") == margin_0
    assert Network.parse("20newsgroups/gpool_cnn-crl,weight=1e-3-s1") == news
    for network in (margin_0, news):
        assert Network.parse(str(network)) == network
    assert Network("a", "b", "mbls,margin=0") == Network("a", "b", "mbls margin=0")
    assert Network("a", "b", "mbls, margin=0 ,weight=1") == Network("a", "b", "mbls margin=0 weight=1")
    refused("`seed`", Network, "a", "b", seed=-1)


def test_options_of_every_kind_have_names():
    wanted = [
        ("cutmix milestones=(0.5,) epochs=2", "cutmix,milestones=(0.5,),epochs=2", {"milestones": (0.5,), "epochs": 2}),
        ("cutmix,milestones=[0.5],lr=0.01", "cutmix,milestones=[0.5],lr=0.01", {"milestones": [0.5], "lr": 0.01}),
        ("cutmix augment=crop+flip", "cutmix,augment=crop+flip", {"augment": "crop+flip"}),
        ("mbls weight=1e16", "mbls,weight=1e+16", {"weight": 1e16}),
    ]
    for loss, name, options in wanted:
        network = Network("digits", "small_cnn", loss)
        assert str(network) == f"digits/small_cnn-{name}-s0" and Network.parse(str(network)) == network
        assert Key.parse(network.loss).options == options


def test_a_recipe_takes_the_options_of_a_name():
    network = Network.parse("digits/small_cnn-cutmix,milestones=(0.25,0.5),augment=crop+flip-s0")
    *_, recipe, facts = assemble("digits", "small_cnn", network.loss, "smoke")
    assert (recipe.milestones, recipe.augment, recipe.cutmix) == ((0.25, 0.5), "crop+flip", 0.5)
    assert facts["loss"] == network.loss


def test_what_is_no_name():
    for bad in ("cifar10/resnet20", "a/b-c-s", "a/b-c-s-1", "a/b/c-d-s0", "../x/b-c-s0", "a/b-c-s0/", None):
        refused("`network`", Network.parse, bad)
    for name, parts in (
        ("loss", ("digits", "small_cnn", None)),
        ("dataset", (5, "small_cnn")),
        ("model", ("digits", 6)),
    ):
        refused(f"`{name}` to be text, but got", Network, *parts)


def test_a_lower_budget_is_not_taken_for_a_higher(house):
    assert [DIGITS.find(budget) for budget in ("smoke", "reduced", "paper")] == [None] * 3
    stored = house(DIGITS, "reduced", in_zoo=True)
    assert [DIGITS.find(budget) for budget in ("smoke", "reduced", "paper")] == [stored, stored, None]
    dear = house(DIGITS, "paper")
    assert [DIGITS.find(budget) for budget in ("smoke", "reduced", "paper")] == [stored, dear, dear]
    own = house(DIGITS, "reduced")  # one's own training of just that budget comes first
    assert [DIGITS.find(budget) for budget in ("smoke", "reduced", "paper")] == [stored, own, dear]
    refused("`budget` to be one of smoke, reduced, paper", DIGITS.find, "cheap")


def test_weights_and_maps_lie_beside(house, tmp_path):
    assert DIGITS.weights() is None
    house(DIGITS, "reduced", in_zoo=True)
    beside = tmp_path / "zoo" / "weights" / f"{DIGITS}.npz"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert (DIGITS.weights(), DIGITS.weights("reduced"), DIGITS.maps()) == (beside, beside, None)
    house(DIGITS, "paper")
    (DIGITS.folder("paper") / "weights.npz").touch()
    assert DIGITS.weights("paper") == DIGITS.folder("paper") / "weights.npz"


@pytest.mark.slow
def test_what_is_trained_above_smoke_is_found_and_not_trained_again(house):
    """A real training at the reduced budget, then the same question again."""
    refused("`network` to be one of .*, or trained at a higher budget", DIGITS.logits)
    first = DIGITS.logits("reduced", device="cpu")
    assert first.meta["budget"] == "reduced" and first.meta["accuracy"] > 0.85
    path = DIGITS.find("reduced")
    assert path == DIGITS.folder("reduced") / "logits.npz"
    stamp = path.stat().st_mtime_ns
    again = DIGITS.logits("reduced", device="cpu")
    np.testing.assert_array_equal(first.test_logits, again.test_logits)
    assert path.stat().st_mtime_ns == stamp
    assert DIGITS.weights("reduced") == path.with_name("weights.npz")
    with pytest.raises(ValueError, match="Expected `budget` to be one with a recipe"):
        DIGITS.logits("paper", device="cpu")  # what is there is of a lower budget, and no paper trains on digits


def test_options_are_read_also_where_something_is_stored(house):
    house(DIGITS, "reduced", in_zoo=True)
    for ask in (DIGITS.logits, DIGITS.train):
        refused("`training` to be one of .*device, .*, but got 'devcie'", ask, "reduced", devcie="cpu")
        refused("`paper` to be None at the budget reduced", ask, "reduced", paper="mbls")
    refused("`pretrained` to be False", DIGITS.logits, "reduced", pretrained=True)
    how = {"device": "cpu", "devices": 2, "nodes": 1, "compile": True, "folder": None, "paper": None}
    assert DIGITS.logits("reduced", pretrained=False, **how).meta["budget"] == "reduced"


def test_a_paper_is_asked_for_at_its_budget_only(house):
    house(RESNET, "paper")
    assert RESNET.logits("paper", paper="mbls", device="cpu").meta["budget"] == "paper"
    house(DIGITS, "reduced", in_zoo=True)
    refused("`paper` to be None at the budget smoke", DIGITS.logits, paper="mbls")


OWN = "class_temperature_scaling"  # whose recipe cross-entropy has on CIFAR-10, unless told


def trained_by(house, network, paper=None, in_zoo=False):
    """A file that says the recipe of a paper, and whose it is, as a training does."""
    path = house(network, "paper", in_zoo, paper=paper)
    logits = Logits.load(path)
    recipe = recipe_of(network.dataset, "paper", network.loss, paper, model=network.model)
    logits.meta.update({"recipe": asdict(recipe), "paper": paper or OWN})
    logits.save(path)
    return path


def test_papers_with_one_recipe_share_a_training_and_others_do_not(house):
    """MbLS and ACLS keep the best epoch of a run, the networks of class temperatures the last."""
    by_default = trained_by(house, RESNET)
    assert RESNET.find("paper") == RESNET.find("paper", OWN) == by_default
    assert [RESNET.find("paper", paper) for paper in ("mbls", "acls")] == [None, None]
    by_mbls = trained_by(house, RESNET, "mbls")
    assert by_mbls != by_default and by_mbls.parent == RESNET.folder("paper", "acls")
    for paper in ("mbls", "acls"):
        assert RESNET.logits("paper", paper=paper).meta["recipe"]["keep"] == "best"
    assert {RESNET.logits("paper", paper=paper).meta["recipe"]["keep"] for paper in (None, OWN)} == {"last"}
    refused("`paper` to be one with a recipe for cifar10, of .*, but got 'nope'", RESNET.find, "paper", "nope")


@pytest.mark.parametrize("in_zoo", [True, False])
def test_a_recipe_is_told_by_its_numbers_and_not_by_where_it_lies(house, in_zoo):
    """What ``--paper mbls`` wrote before its recipe had a folder of its own; and a file that says but the name."""
    path = house(RESNET, "paper", in_zoo)
    logits = Logits.load(path)
    of_mbls = asdict(recipe_of("cifar10", "paper", "mbls", "mbls"))
    older = {name: value for name, value in of_mbls.items() if name not in ("cutmix", "dropout", "passes")}
    for facts in ({"recipe": of_mbls}, {"recipe": older}, {"paper": "mbls"}):
        replace(logits, meta={"budget": "paper"} | facts).save(path)
        assert [RESNET.find("paper", paper) for paper in (None, "mbls", "acls", OWN)] == [path, path, path, None]


def test_a_variant_is_a_recipe_of_its_own(house):
    cutmix = Network("cifar10", "resnet20", "cutmix cutmix=0.7")
    path = trained_by(house, cutmix, "mbls")
    assert cutmix.find("paper", "acls") == path and Logits.load(path).meta["recipe"]["cutmix"] == 0.7


def test_at_the_budget_of_the_papers_no_gpu_is_an_error(house, monkeypatch):
    """A training of weeks on a CPU has to be asked for; what is finished is read."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("calibkit.training.fit", lambda *_, **how: how["device"])
    for how in ({}, {"device": "auto"}):
        refused('`device` to be "cpu", .* there is no GPU, but got "auto"', RESNET.train, "paper", **how)
    assert RESNET.train("paper", device="cpu") == "cpu"
    assert RESNET.train("reduced", device="auto") == "auto"
    house(RESNET, "paper")
    assert RESNET.train("paper", device="auto") == "auto"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert replace(RESNET, seed=1).train("paper", device="auto") == "auto"


def test_what_was_trained_from_given_weights_is_given_to_who_asks_for_it(house):
    path = house(DIGITS, "reduced")
    logits = Logits.load(path)
    logits.meta["pretrained"] = True
    logits.save(path)
    assert DIGITS.logits("reduced", pretrained=True).meta == logits.meta


def test_the_options_are_those_of_a_training():
    own = {"model", "loss", "data", "recipe", "seed", "meta"}  # what a network brings itself
    parameters = {*inspect.signature(fit).parameters, *inspect.signature(Network.train).parameters}
    assert set(OPTIONS) == parameters - own - {"self", "budget", "how"}


@pytest.mark.slow
def test_every_file_of_the_zoo_is_the_network_of_its_name():
    for name, path in zoo().items():
        network, meta = Network.parse(name), Logits.load(path).meta
        assert str(network) == name and network.find() == path
        assert (meta["dataset"], meta["model"], meta["seed"]) == (network.dataset, network.model, network.seed)
        assert meta["loss"] == network.loss and json.loads(json.dumps(meta)) == meta


def test_published_networks_are_cells_of_the_papers():
    """Each maps to the data set, model and loss of printed numbers of its own paper."""
    printed = load("paper")
    assert len(PUBLISHED) == len(set(PUBLISHED.values())) == 26
    for name, (dataset, model, loss) in PUBLISHED.items():
        rows = printed[(printed["paper"] == owner(name)) & (printed["dataset"] == dataset)]
        assert ((rows["model"] == model) & (rows["loss"] == loss)).any(), name
        _, data, network, *of = name.split("-")
        assert [data, network, *(of or ["cross_entropy"])] == [dataset.replace("_", ""), model, loss]


@pytest.mark.parametrize("name", with_logits(PUBLISHED))
def test_published_networks_have_the_printed_error(name):
    """Accuracy and ECE of the row without calibration, as the paper prints them: the file is of that network."""
    dataset, model, loss = PUBLISHED[name]
    printed = load("paper").query(
        "dataset == @dataset and model == @model and loss == @loss and method == 'identity' and source == 'printed'"
    )
    printed = printed[(printed["paper"] == owner(name)) & (printed["n_bins"].isin(["15", ""]))]
    z, y = load_logits(name).test
    p = np.exp(z - z.max(1, keepdims=True).astype(float))
    p /= p.sum(1, keepdims=True)
    found = {"accuracy": 100 * accuracy(p, y), "ece": 100 * ece(p, y)}
    rows = printed[printed["metric"].isin(found)]
    assert "ece" in set(rows["metric"])
    for row in rows.itertuples():
        assert found[row.metric] == pytest.approx(row.value, abs=0.006), row.metric


def test_load_logits_takes_names_and_paths(tmp_path):
    name = "cifar10/resnet20-cross_entropy-s0"
    np.testing.assert_array_equal(load_logits(name).test_logits, load_logits(zoo()[name]).test_logits)
    for unknown in ("cifar10/resnet20-hinge-s0", tmp_path):
        refused("`logits` to be a path that ends in .npz, or a name", load_logits, unknown)
    with pytest.raises(FileNotFoundError):
        load_logits(tmp_path / "absent.npz")
