"""Losses by their keys: ``loss("mbls margin=8")``."""

import pytest

from calibkit.keys import Key
from calibkit.losses import ACLS, CRL, FLSD, MbLS, loss


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
        ("mbls", {"width": 3}, "Expected `loss` to be with options among margin, .*, but got width"),
        ("mbls margin=8", {"margin": 8}, "Expected `margin` to be given once, but got margin=8 in the key and 8"),
        ("mbls:focal", {}, r"Expected `loss` to be NAME \[OPTION=VALUE ...\], but got 'mbls:focal'"),
        ("crl", {}, "Expected `n_samples` to be given to crl, but got no such option"),
    ],
)
def test_what_is_no_key_of_a_loss(key, options, message):
    with pytest.raises(ValueError, match=message):
        loss(key, **options)
