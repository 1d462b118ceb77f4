"""Training losses side by side: which networks are compared, and what their differences are."""

import numpy as np
import pytest
from scipy.special import softmax

from book.kit.__main__ import main
from book.kit.results import load_effects
from book.kit.results.record_losses import record_losses
from calibkit import _folders
from calibkit.calibrators import TemperatureScaling
from calibkit.logits import Logits
from calibkit.metrics import nll

SURE = {"cross_entropy": 1.0, "mbls": 0.5}


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


@pytest.mark.slow
def test_differences_of_trainings_and_of_the_zoo(save):
    """Cross-entropy in the zoo, another loss trained here, on two seeds: as trained, and against one temperature."""
    _, plain = save("cross_entropy", 0, 1.0, zoo=True)
    (path, first), (_, second) = (save("mbls", seed, sure) for seed, sure in enumerate((0.5, 0.6)))
    others, names = [first, second], ["cifar10/resnet20-cross_entropy-s0", str(path)]
    assert record_losses(names) > 0
    of = [nll(softmax(x.test_logits, axis=1), x.test_labels) for x in (plain, *others)]
    row = difference(loss="mbls", method="identity", base_loss="cross_entropy", base_method="identity", metric="nll")
    assert row["value"] == pytest.approx(np.mean(of[1:]) - of[0], rel=1e-5)
    assert (row["n_seeds"], row["base_seeds"], row["budget"], row["source"]) == (2, 1, "reduced", "ours")
    scaled = nll(TemperatureScaling().fit(*plain.val)(plain.test_logits), plain.test_labels)
    where = {"base_loss": "cross_entropy", "base_method": "temperature_scaling", "metric": "nll"}
    row = difference(loss="mbls", method="identity", **where)
    assert row["value"] == pytest.approx(np.mean(of[1:]) - scaled, rel=1e-5)
    assert record_losses(names) == 0  # the same numbers


def test_of_two_sets_of_seeds_the_larger_counts(save):
    save("cross_entropy", 0, 1.0, zoo=True)
    stored = [save("mbls", seed, sure, zoo=True)[1] for seed, sure in enumerate((0.5, 0.6))]
    path, _ = save("mbls", 0, 3.0)
    record_losses(["cifar10/resnet20-cross_entropy-s0", str(path), "cifar10/resnet20-mbls-s0"])
    where = {"loss": "mbls", "method": "identity", "base_method": "identity", "metric": "nll"}
    value = difference(**where)["value"]
    plain = nll(softmax(2 * stored[0].test_logits, axis=1), stored[0].test_labels)  # 0.5 of the logits of CE
    want = np.mean([nll(softmax(x.test_logits, axis=1), x.test_labels) for x in stored]) - plain
    assert value == pytest.approx(want, rel=1e-5)


def test_the_seeds_of_both_sides_count(save):
    """As trained against one temperature: the spread of trainings on one side, of scaled ones on the other."""
    runs = {loss: [save(loss, seed, sure * k) for seed, k in enumerate((1.0, 1.2))] for loss, sure in SURE.items()}
    record_losses([str(of[0][0]) for of in runs.values()])
    sigma = {"identity": [], "temperature_scaling": []}
    for of in runs.values():
        raw = [nll(softmax(x.test_logits, axis=1), x.test_labels) for _, x in of]
        scaled = [nll(TemperatureScaling().fit(*x.val)(x.test_logits), x.test_labels) for _, x in of]
        sigma["identity"].append(np.var(raw, ddof=1))
        sigma["temperature_scaling"].append(np.var(scaled, ddof=1))
    row = difference(loss="mbls", method="identity", base_method="temperature_scaling", metric="nll")
    want = np.sqrt(sum(np.mean(of) / 2 for of in sigma.values()))
    assert row["seed_error"] == pytest.approx(want, rel=1e-4) and row["seed_df"] == 2


def test_other_budgets_and_single_losses_are_not_compared(save):
    names = [save("cross_entropy", 0, 1.0)[0], save("mbls", 0, 0.5, budget="paper")[0]]
    assert record_losses(map(str, names)) == 0 and load_effects().empty


def test_other_test_samples_are_refused(save):
    path, logits = save("mbls", 0, 0.5)
    Logits(*logits.val, logits.test_logits[:300], logits.test_labels[:300], logits.meta).save(path)
    with pytest.raises(ValueError, match="Expected `logits` to be of the same test samples for every loss"):
        record_losses([str(save("cross_entropy", 0, 1.0)[0]), str(path)])


@pytest.mark.slow
def test_one_command_records_networks_and_compares_their_losses(save, capsys):
    """What trainings on a GPU end with; each seed is found beside the first."""
    names = [str(save(loss, 0, sure, budget="paper")[0]) for loss, sure in SURE.items()]
    main(["record", *names])
    assert "differences of losses are new" in capsys.readouterr().out
    where = {"loss": "mbls", "method": "identity", "base_loss": "cross_entropy", "base_method": "temperature_scaling"}
    assert difference(**where, metric="nll")["budget"] == "paper"
    assert main(["record"]) == 1
    assert "Expected `logits` to be networks, or --all, but got neither" in capsys.readouterr().err
