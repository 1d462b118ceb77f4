"""Losses by their keys: ``loss("mbls margin=8")``."""

import pytest

import calibkit
from calibkit import losses
from calibkit.keys import Key
from calibkit.losses import ACLS, CRL, FLSD, LOSSES, MbLS, loss


@pytest.mark.parametrize("name", LOSSES)
def test_a_name_gives_the_loss_with_its_defaults(name):
    options = {"n_samples": 10} if name == "crl" else {}
    found = loss(name, **options)
    assert type(found) is LOSSES[name] and repr(found) == repr(LOSSES[name](**options))


def test_options_stand_in_the_key_or_beside_it():
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
        ("mbls width=3", {}, "Expected `loss` to be with options among margin, .*, but got width"),
        ("mbls", {"width": 3}, "Expected `loss` to be with options among margin, .*, but got width"),
        (
            "mbls margin=8",
            {"margin": 8},
            "Expected `margin` to be given once, but got margin=8 in the key and 8 beside",
        ),
        ("mbls margin=8 margin=9", {}, "Expected `key` to be one that gives each option once"),
        ("mbls:focal", {}, r"Expected `loss` to be NAME \[OPTION=VALUE ...\], but got 'mbls:focal'"),
        ("mbls margin=-1", {}, "Expected `margin` to be a number in"),
        ("crl", {}, "Expected `n_samples` to be given to crl, but got no such option"),
        (None, {}, "Expected `key` to be NAME"),
    ],
)
def test_what_is_no_key_of_a_loss(key, options, message):
    with pytest.raises(ValueError, match=message):
        loss(key, **options)


def test_the_package_shows_its_losses():
    assert set(losses.__all__) == {"LOSSES", "Loss", "loss", *(cls.__name__ for cls in LOSSES.values())}
    assert all(getattr(losses, cls.__name__) is cls for cls in LOSSES.values())
    assert calibkit.loss is loss
