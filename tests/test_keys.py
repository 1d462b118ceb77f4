"""Keys of losses and methods, and what is built from them."""

import pytest

from calibkit._keys import make, parse_key
from calibkit.losses import LOSSES


def test_keys():
    assert parse_key("cts accuracy_constraint=False") == ("cts", {"accuracy_constraint": False}, None, {})
    assert parse_key("ets solver=sctl:focal gamma=3.0") == ("ets", {"solver": "sctl"}, "focal", {"gamma": 3.0})
    for bad in ("", "ts:", "a:b:c", "cts x", "cts x=", "CTS (ours)"):
        with pytest.raises(ValueError, match="Expected `key` to be"):
            parse_key(bad)


def test_make_knows_the_options():
    assert make(LOSSES["mbls"], "loss", {"margin": 8}).margin == 8
    with pytest.raises(ValueError, match="Expected `loss` to be with options among gamma, .*, but got margin"):
        make(LOSSES["focal"], "loss", {"margin": 8})


def test_what_takes_any_option_is_given_it():
    assert make(lambda **more: more, "x", {"a": 1}) == {"a": 1}
