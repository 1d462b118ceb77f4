"""What book/monitor.md shows is run, one block after the other, and prints what the page says."""

import re

import numpy as np
import pytest
import torch
from cells_and_pages import run, text

from calibkit.metrics import METRICS

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
pytest.importorskip("pytorch_lightning", reason="pytorch_lightning is not installed")


def trainer():
    """Of one epoch on a CPU, that writes and shows nothing."""
    from pytorch_lightning import Trainer

    shown = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    return Trainer(accelerator="cpu", max_epochs=1, **dict.fromkeys(shown, False))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The names that the page leaves behind, its reader having a network and a loader."""
    torch.manual_seed(0)
    maps = [(torch.randn(n, 3, 8, 16), torch.randint(19, (n, 8, 16))) for n in (2, 3)]
    for _, labels in maps:
        labels[:, 0] = 255
    return run("monitor", tmp_path_factory.mktemp("page"), maps=maps, segmenter=torch.nn.Conv2d(3, 19, 1))


def test_the_collection_gives_the_values_on_all_pixels(seen):
    probs = torch.cat([seen["segmenter"](x).softmax(1) for x, _ in seen["maps"]]).permute(0, 2, 3, 1).reshape(-1, 19)
    labels = torch.cat([y for _, y in seen["maps"]]).flatten()
    for name, value in seen["values"].items():
        function = METRICS[name.replace("classwise", "classwise_ece")]
        assert value.item() == pytest.approx(function(probs[labels != 255], labels[labels != 255]), rel=1e-12)


# What Lightning warns of by itself: its own use of torch, and a machine with Slurm that it does not use.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.`:FutureWarning")
@pytest.mark.filterwarnings("ignore:The `srun` command is available on your system")
def test_the_module_logs_the_values_on_all_rows(seen):
    x, y = torch.randn(40, 4), torch.randint(3, (40,))
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    module = seen["Classifier"](torch.nn.Linear(4, 3))

    def on_all():
        probs = module.network(x).softmax(1)
        return pytest.approx({f"val_{name}": METRICS[name](probs, y) for name in ("ece", "nll")}, rel=1e-6)

    (found,) = trainer().validate(module, batches, verbose=False)
    assert found == on_all()
    fitted = trainer()
    fitted.fit(module, batches, batches)
    assert fitted.callback_metrics == on_all()  # after the epoch


def test_two_machines_are_one(seen):
    assert [row["n"] for row in seen["monitor"].report()] == 16 * [5000]
    assert set(seen["drifted"]) == {"2026-11-15", "2026-11-16"}


def test_the_numbers_of_the_text_are_right(seen):
    sums = next(iter(seen["monitor"]._sums.values()))
    assert f"{sums.nbytes} bytes per day" in text("monitor")
    said = re.search(r"([\d.]+) points at (\d+)% and ([\d,]+) labels", text("monitor"))
    points, percent, n = (float(word.replace(",", "")) for word in said.groups())
    assert points == pytest.approx(200 * np.sqrt(percent / 100 * (1 - percent / 100) / n), abs=0.05)
