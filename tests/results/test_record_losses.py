"""Training losses side by side: which networks are compared, and what their differences are."""

import numpy as np
import pytest
from scipy.special import softmax

from calibkit import _folders
from calibkit.__main__ import main
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import nll
from calibkit.results import load_effects
from calibkit.results.record_losses import record_losses

CELL = ("cifar10", "resnet20", "reduced")


@pytest.fixture
def save(toy, tmp_path, monkeypatch):
    """Puts the network of a loss and seed into the zoo or the folder of trainings; ``sure`` scales its logits."""
    monkeypatch.setattr(_folders, "runs", lambda budget: tmp_path / "runs" / budget)
    logits = Logits.load(toy)

    def save(loss, seed, sure, *, zoo=False, budget="reduced"):
        meta = {"loss": loss, "seed": seed, "budget": budget}
        made = Logits(
            *(sure * logits.val_logits, logits.val_labels, sure * logits.test_logits, logits.test_labels),
            logits.meta | meta,
        )
        name = f"cifar10/resnet20-{loss}-s{seed}"
        folder = _folders.stored() / "logits" if zoo else _folders.runs(budget)
        return made.save(folder / (f"{name}.npz" if zoo else f"{name}/logits.npz")), made

    return save


def difference(**where):
    rows = load_effects()
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows.squeeze()


def test_differences_of_trainings_and_of_the_zoo(save):
    """Cross-entropy in the zoo, another loss trained here, on two seeds: as trained, and against one temperature."""
    _, plain = save("cross_entropy", 0, 1.0, zoo=True)
    others = [save("mbls", seed, sure)[1] for seed, sure in enumerate((0.5, 0.6))]
    assert record_losses(*CELL) > 0
    of = [nll(softmax(x.test_logits, axis=1), x.test_labels) for x in (plain, *others)]
    row = difference(loss="mbls", method="identity", base_loss="cross_entropy", base_method="identity", metric="nll")
    assert row["value"] == pytest.approx(np.mean(of[1:]) - of[0], rel=1e-5)
    assert (row["n_seeds"], row["base_seeds"], row["budget"], row["source"]) == (2, 1, "reduced", "ours")
    scaled = nll(TemperatureScaling().fit(*plain.val)(plain.test_logits), plain.test_labels)
    where = {"base_loss": "cross_entropy", "base_method": "temperature_scaling", "metric": "nll"}
    row = difference(loss="mbls", method="identity", **where)
    assert row["value"] == pytest.approx(np.mean(of[1:]) - scaled, rel=1e-5)
    assert record_losses(*CELL) == 0  # the same numbers


def test_of_two_sets_of_seeds_the_larger_counts(save):
    save("cross_entropy", 0, 1.0, zoo=True)
    stored = [save("mbls", seed, sure, zoo=True)[1] for seed, sure in enumerate((0.5, 0.6))]
    save("mbls", 0, 3.0)
    record_losses(*CELL)
    where = {"loss": "mbls", "method": "identity", "base_method": "identity", "metric": "nll"}
    value = difference(**where)["value"]
    plain = nll(softmax(2 * stored[0].test_logits, axis=1), stored[0].test_labels)  # 0.5 of the logits of CE
    want = np.mean([nll(softmax(x.test_logits, axis=1), x.test_labels) for x in stored]) - plain
    assert value == pytest.approx(want, rel=1e-5)


def test_other_budgets_and_single_losses_are_not_compared(save):
    save("cross_entropy", 0, 1.0)
    save("mbls", 0, 0.5, budget="paper")
    assert record_losses(*CELL) == 0 and load_effects().empty


def test_the_command_that_records_a_network_compares_its_loss(save, capsys):
    """What trainings on a GPU do one by one: the last of them has every difference."""
    paths = [save(loss, 0, sure, budget="paper")[0] for loss, sure in (("cross_entropy", 1.0), ("mbls", 0.5))]
    for path in paths:
        main(["calibrate", str(path), "--record"])
    assert "differences of losses are new" in capsys.readouterr().out
    where = {"loss": "mbls", "method": "identity", "base_loss": "cross_entropy", "base_method": "temperature_scaling"}
    assert difference(**where, metric="nll")["budget"] == "paper"
