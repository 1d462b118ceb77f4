"""Numbers of a public network: each method fitted and measured on every draw of halves, as by hand."""

import numpy as np
import pytest

from book.kit import results
from book.kit.notebook import public_networks
from book.kit.notebook.trained_network import PUBLIC, trained
from book.kit.results.csv_rows import select
from book.kit.results.paired_differences import append_effects, load_effects
from calibkit import calibrator
from calibkit.metrics import ece, nll


def test_a_record_is_what_fits_by_hand_give(own_results, monkeypatch, name="digits/small_cnn-cross_entropy-s0"):
    """Of the digits' stored network, in the place of both draws."""
    keys = ("identity", "temperature_scaling", "histogram_binning")
    monkeypatch.setattr(public_networks, "methods", lambda *_: keys)
    net = trained(name)
    monkeypatch.setattr(public_networks, "trained", lambda *_, **__: net)
    public_networks.record(name, n_draws=2)
    ours = results.load("ours")
    (images, seen), (new, labels) = net.val, net.test
    for key in keys:
        probs = calibrator(key).fit(net.logits(images), seen)(net.logits(new))
        for metric, wanted in (("ece", ece(probs, labels)), ("nll", nll(probs, labels))):
            rows = select(ours, method=key, metric=metric)
            assert len(rows) == np.isfinite(wanted)
            assert [*rows["value"]] == pytest.approx([wanted] * len(rows), rel=1e-5)
            assert {*rows["n_seeds"]} <= {2} and {*rows["dataset"]} <= {"digits"}
    pairs = {*zip(load_effects()["method"], load_effects()["base_method"], strict=True)}
    both = {(key, base) for key in keys[1:] for base in keys[:2] if key != base}
    assert both <= pairs


def test_a_difference_that_is_infinite_in_one_draw_is_not_recorded(own_results):
    labels = np.array([[0, 1, 0, 1]] * 2)
    zero = np.array([[1.0, 0.0]] * 4)
    draws = {"ets": [np.full((4, 2), 0.5), zero], "identity": [np.full((4, 2), 0.5)] * 2}
    cell = {"dataset": "digits", "model": "small_cnn", "budget": "reduced", "source": "public"}
    append_effects(public_networks.restarts.differences(draws, [("ets", "identity")], labels, **cell))
    assert "nll" not in {*load_effects()["metric"]} and "brier" in {*load_effects()["metric"]}


@pytest.mark.parametrize("name", PUBLIC)
def test_absent_weights_name_their_command(data_cache, name):
    with pytest.raises(FileNotFoundError, match="calibkit data prepare published"):
        public_networks.record(name)
