"""What book/language.md and book/monitor.md show is run, one block after the other, and prints what the page says."""

import re

import numpy as np
import pytest
import torch
from cells_and_pages import BOOK, run, text

from calibkit import report
from calibkit.metrics import METRICS


@pytest.fixture(scope="module")
def language():
    """The names that the page on language models leaves behind."""
    return run("language", BOOK.parent)


def test_what_the_page_on_language_models_says_of_its_example(language):
    table, rows = language["table"], language["rows"]
    assert len(table) == len(rows) and not table.attrs["told"]
    z = table.filter(like="logit_").to_numpy()
    y = table["label"].map("ABCD".index).to_numpy()
    assert [row["target"] for row in rows] == y.tolist()
    assert ((z.argmax(1) == y) == [row["acc"] for row in rows]).all()
    keys = ["temperature_scaling", "order_preserving"]
    gain = re.search(r"order_preserving less temperature_scaling: NLL (\S+) \[", text("language"))
    assert float(gain[1]) < -0.1  # the guide's one exception
    assert report((z, y), kind="logits", methods=keys).choice.key == "order_preserving"


def test_the_numbers_in_the_text_on_language_models(language):
    """Weights of textgenrnn: an embedding, two LSTMs, attention over all three, an output layer over them, too."""
    inputs, units, characters = 100, 128, 465
    states = inputs + 2 * units
    lstms = sum(4 * units * (n + units + 2) for n in (inputs, units))
    weights = characters * inputs + lstms + states + (states + 1) * characters
    assert f"in its package: {round(weights, -4):,} of them" in text("language")
    assert "with a thousand questions, as here" in text("language") and round(len(language["rows"]), -3) == 1000


def trainer():
    """Of one epoch on a CPU, that writes and shows nothing."""
    from pytorch_lightning import Trainer

    shown = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    return Trainer(accelerator="cpu", max_epochs=1, **dict.fromkeys(shown, False))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the page on the monitor leaves behind, its reader having a network and a loader."""
    for needed in ("torchmetrics", "pytorch_lightning"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
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


def test_the_numbers_in_the_text_on_the_monitor(seen):
    sums = next(iter(seen["monitor"]._sums.values()))
    assert f"{sums.nbytes} bytes per day" in text("monitor")
    said = re.search(r"([\d.]+) points at (\d+)% and ([\d,]+) labels", text("monitor"))
    points, percent, n = (float(word.replace(",", "")) for word in said.groups())
    assert points == pytest.approx(200 * np.sqrt(percent / 100 * (1 - percent / 100) / n), abs=0.05)
