"""Keys of losses and methods, and what is built from them."""

from importlib import import_module

import pytest
from refusals import refused

from calibkit.calibrators import CALIBRATORS, calibrator
from calibkit.keys import Key, find, make
from calibkit.losses import ACLS, CRL, FLSD, LOSSES, MbLS, loss
from calibkit.objectives import OBJECTIVES


def test_parse():
    for text, key in [
        ("ets", Key("ets")),
        (
            "class_temperature_scaling accuracy_constraint=False",
            Key("class_temperature_scaling", {"accuracy_constraint": False}),
        ),
        ("ets solver=sctl:focal gamma=3.0", Key("ets", {"solver": "sctl"}, Key("focal", {"gamma": 3.0}))),
        ("pts hidden=(5,5):class_loss_scaling", Key("pts", {"hidden": (5, 5)}, Key("class_loss_scaling"))),
    ]:
        assert Key.parse(text) == key
        assert Key.parse(str(key)) == key


def test_what_is_no_key():
    of_files = ["mine.py", "mine.py:", "mine.py:A.b", "mine.py:A:b:c", "mine.py:A x"]
    for bad in ["", "ts:", ":ece", "a:b:c", "cts x", "cts x=", "CTS (ours)", "a =3", None, 3, *of_files]:
        refused("`key` to be NAME .*PATH.py:CLASS, but got", Key.parse, bad)


def test_a_value_that_is_no_literal_is_text():
    for value in ["(" * 300 + ")" * 300, "-" * 10**5 + "1", "9" * 5000, "1_", "os.sep"]:
        assert Key.parse(f"mbls margin={value}").options == {"margin": value}
        refused("`margin` to be a number", Key.parse(f"mbls margin={value}").build, LOSSES)


def test_an_option_is_given_once():
    refused("`key` to be one that gives each option once, but got 'mbls margin", Key.parse, "mbls margin=1 margin=2")


def test_options_in_the_key_and_beside_it_are_the_same():
    for key, options, whole in [
        ("histogram_binning", {"n_bins": 20}, "histogram_binning n_bins=20"),
        ("temperature_scaling grid=0.1", {"objective": "ece"}, "temperature_scaling grid=0.1:ece"),
    ]:
        assert repr(calibrator(key, **options)) == repr(calibrator(whole))
    for key, twice in (
        ("temperature_scaling:ece", {"objective": "nll"}),
        ("temperature_scaling grid=0.1", {"grid": 0.1}),
    ):
        refused(f"`{next(iter(twice))}` to be given once", calibrator, key, **twice)


def test_options_of_a_loss_stand_in_the_key_or_beside_it():
    for found in (loss("mbls margin=8 variant=paper"), loss("mbls margin=8", variant="paper"),
                  loss(Key("mbls", {"margin": 8}), variant="paper")):  # fmt: skip
        assert type(found) is MbLS and (found.margin, found.variant) == (8.0, "paper")
    found = loss("acls indicator=ranking", n_samples=50_000)
    assert type(found) is ACLS and found.indicator == "ranking" and found.n_samples == 50_000
    assert type(loss("crl weight=0.5 n_samples=7")) is CRL and type(loss("flsd")) is FLSD


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        ("mbls2", {}, "Expected `loss` to be one of cross_entropy, .*, but got 'mbls2'"),
        ("mbls margin=8", {"margin": 8}, "Expected `margin` to be given once, but got margin=8 in the key and 8"),
        ("mbls:focal", {}, r"Expected `loss` to be NAME \[OPTION=VALUE ...\], but got 'mbls:focal'"),
        ("crl", {}, "Expected `n_samples` to be given to crl, but got no such option"),
    ],
)
def test_what_is_no_key_of_a_loss(key, options, message):
    with pytest.raises(ValueError, match=message):
        loss(key, **options)


def test_a_registry_key_is_the_name_of_its_file():
    for registry in (CALIBRATORS, LOSSES, OBJECTIVES):
        for name, cls in registry.items():
            assert cls.__module__.rpartition(".")[2] == name
        package = import_module(next(iter(registry.values())).__module__.rpartition(".")[0])
        names = [cls.__name__ for cls in registry.values()]
        assert len(set(names)) == len(names) and set(names) <= set(package.__all__)


def test_build_knows_names_and_options():
    assert Key.parse("mbls margin=8").build(LOSSES, "loss").margin == 8
    with pytest.raises(ValueError, match="Expected `loss` to be with options among gamma, .*, but got margin"):
        Key.parse("focal margin=8").build(LOSSES, "loss")
    refused("`objective` to be given once, but got focal and nll$", calibrator, "ets objective=focal:nll")
    refused("`calibrator` to be without options, but got objective", calibrator, "identity:nll")
    for name in (0.5, None, ["ets"]):
        refused("`calibrator` to be text, but got", find, name, CALIBRATORS, "calibrator")
    refused("`objective` to be one of nll, .*, but got 'hinge'", calibrator, "ets:hinge")


def test_what_takes_any_option_is_given_it():
    assert make(lambda **more: more, "x", {"a": 1}) == {"a": 1}
    refused("`x` to be with the options that it needs, but got missing .* 'a'", make, lambda a: a, "x", {})


def test_a_class_whose_options_python_cannot_tell(tmp_path):
    (tmp_path / "mine.py").write_text("class Meta(type): pass\n")
    with pytest.raises(ValueError, match="^Expected `loss` to be a class whose options can be told, but got "):
        find(f"{tmp_path}/mine.py:Meta", LOSSES, "loss")
