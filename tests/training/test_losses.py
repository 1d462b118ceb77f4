"""Every loss of the command line's key trains, with the size of the training set where it keeps a history."""

import dataclasses

import pytest

from calibkit.__main__ import main
from calibkit.logits import Logits
from calibkit.training import RECIPES


@pytest.mark.parametrize("key", ["crl", "acls indicator=ranking"])
def test_losses_with_a_history(tmp_path, monkeypatch, key):
    smoke = dataclasses.replace(RECIPES["smoke", "digits"], epochs=1, batch_size=500)
    monkeypatch.setitem(RECIPES, ("smoke", "digits"), smoke)
    call = ["train", "--dataset", "digits", "--model", "small_cnn", "--budget", "smoke", "--out", str(tmp_path)]
    assert main([*call, "--loss", key]) == 0
    assert Logits.load(tmp_path / "logits.npz").meta["loss"] == key
