"""A folder belongs to one network and one loss, also where their names are the same."""

import json

import numpy as np
import pytest
import torch
from digits_runs import digits_model, ending_after
from refusals import refused
from torch import nn

from calibkit.losses import CRL
from calibkit.training import Recipe, fit
from calibkit.training.run_folder import digest_of, settings_of

MBLS = {"loss": "CrossEntropyLoss()", "paper": "mbls"}
RECIPE = Recipe(2, batch_size=500, lr=0.05, precision="64-true")


def net(activation: nn.Module, hidden: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), activation, nn.Linear(hidden, 10)).double()


class Weighted(nn.Module):
    """Cross-entropy times a number, which its text does not show."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, logits, labels):
        return self.weight * nn.functional.cross_entropy(logits, labels)


def run(folder, model=None, loss=None, **options):
    model, loss = model or net(nn.ReLU()), loss or nn.CrossEntropyLoss()
    return fit(model, loss, "digits", RECIPE, folder=folder, device="cpu", **options)


def cut_short(folder):
    with pytest.raises(KeyboardInterrupt):
        run(folder, loss=ending_after(2), meta=MBLS)  # in the second epoch


@pytest.mark.parametrize(
    ("first", "second", "got"),
    [
        (Weighted(1.0), Weighted(50.0), r"loss_settings \{'weight': 50.0\}, but got \{'weight': 1.0\}"),
        (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1), "loss_settings .*'label_smoothing': 0.1"),
        (Weighted([1, 2]), Weighted([1, 3]), "loss_settings"),
        (nn.CrossEntropyLoss(torch.ones(10)), nn.CrossEntropyLoss(torch.arange(10.0)), "loss_settings"),
        (Weighted(np.float32(1)), Weighted(np.float32(2)), "loss_settings"),
        (Weighted(np.ones(1)), Weighted(np.zeros(1)), "loss_settings"),
        (nn.Sequential(Weighted(1.0)), nn.Sequential(Weighted(2.0)), r"loss_settings \{'0.weight': 2.0\}"),
    ],
)  # fmt: skip
def test_another_loss_of_the_same_text_is_refused(tmp_path, monkeypatch, first, second, got):
    monkeypatch.setattr("calibkit.training.trainer.train", lambda setup, history, save: history.append([1.0] * 9))
    assert repr(first) == repr(second)
    run(tmp_path, loss=first)
    refused(f"`folder` to be a run with {got}", run, tmp_path, loss=second)


def test_another_network_is_refused(tmp_path):
    for finished, other in ((True, net(nn.Tanh())), (False, net(nn.ReLU(), 9))):
        folder = tmp_path / str(finished)
        run(folder) if finished else cut_short(folder)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        refused(".*`folder` to be a run with network_digest .* parameters, .* but got", run, folder, other)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert run(folder).meta["network_digest"].startswith("610 parameters, ")


def test_what_a_run_changes_in_network_and_loss_does_not_make_them_others(tmp_path):
    """The same objects in a second call: trained weights, batch statistics, and the history of a loss."""
    model, loss = digits_model(), CRL(n_samples=1000)
    first = run(tmp_path, model, loss)
    assert int(loss.epochs) == 2
    np.testing.assert_array_equal(run(tmp_path, model, loss).test_logits, first.test_logits)


def test_batch_statistics_over_all_processes_are_the_same_network():
    """As a run on several GPUs leaves it."""
    one, on_gpus = (nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)) for _ in range(2))
    on_gpus = nn.SyncBatchNorm.convert_sync_batchnorm(on_gpus)
    assert digest_of(one) == digest_of(on_gpus)
    assert digest_of(one) != digest_of(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, eps=0.1)))


def test_the_place_of_a_function_in_memory_tells_nothing():
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = object()

        def extra_repr(self):
            return repr(self.held)

    holds = [Holds() for _ in range(2)]
    assert repr(holds[0]) != repr(holds[1]) and digest_of(holds[0]) == digest_of(holds[1])


def test_settings_are_plain_and_equal_to_themselves_as_json_gives_them_back():
    class Rich(Weighted):
        def __init__(self, weight, words, rows, at=None, unused=3):
            super().__init__(weight)
            self.words, self.rows, self.at, self.steps = words, rows, at, 0

    loss = Rich(float("nan"), {"a": (1, True)}, torch.arange(3.0), object())
    found = settings_of(loss)
    assert found == json.loads(json.dumps(found)) and set(found) == {"weight", "words", "rows"}
    assert found["words"] == {"a": [1, True]}
    loss.rows, loss.steps = loss.rows.double(), 7  # the same numbers, and a count of its own
    assert settings_of(loss) == found
    loss.rows[0] = 1.0
    assert settings_of(loss)["rows"] != found["rows"]
