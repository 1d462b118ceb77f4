"""Training of what is no image classifier: texts, and a class for every pixel."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from calibkit import data
from calibkit._files import read_npz
from calibkit.losses import LOSSES
from calibkit.models import build
from calibkit.training import Recipe, fit, predict
from calibkit.training.batches import Feed
from calibkit.training.inference import PIXELS, blocks_of, pixels_of


class OnePixel(nn.Module):
    """A linear classifier of each pixel's colour."""

    def __init__(self, n_classes):
        super().__init__()
        self.linear = nn.Conv2d(3, n_classes, 1)

    def forward(self, x):
        return self.linear(x)


@pytest.mark.slow
def test_texts(data_cache):
    """Each group has a word of its own, within the last 30 tokens: the network learns to find it."""
    rng = np.random.default_rng(0)
    groups = sorted(f"group{i:02}" for i in range(20))
    folder = data_cache / "20newsgroups"
    folder.mkdir(parents=True)
    for split, n in (("train", 1900), ("test", 100)):
        lines = []
        for i in range(n):
            words = [*(f"common{j}" for j in rng.integers(0, 10, 6)), *[f"sign{i % 20:02}"] * 3]
            text = "Subject: x\n\n" + " ".join(rng.permutation(words))
            lines.append(json.dumps({"group": groups[i % 20], "id": str(i), "text": text}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    torch.manual_seed(0)
    model = build("gpool_cnn", 20, n_tokens=200, dim=64)
    recipe = Recipe(
        5, 50, 5e-3, weight_decay=0.0, milestones=(), augment="none", keep="best", precision="32-true",
        optimizer="adam", n_tokens=30,
    )  # fmt: skip
    logits = fit(model, LOSSES["mbls"](margin=6.0), "20newsgroups", recipe, folder=data_cache / "run", device="cpu")
    assert logits.meta["split"] == "1000/900/100"
    assert logits.meta["accuracy"] > 0.9
    tokens = data.load_split("20newsgroups", "test").inputs[:, -30:]
    np.testing.assert_array_equal(predict(model, tokens, "20newsgroups"), logits.test_logits)


def camvid(data_cache, n):
    """Pixels whose class is their colour; a fifth has none."""
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (12, 3)).astype(np.uint8)
    folder = data_cache / "camvid"
    folder.mkdir(parents=True)
    for split in ("train", "val", "test"):
        masks = rng.integers(0, 11, (n, 180, 240)).astype(np.uint8)
        masks[:, :, :48] = 11
        np.save(folder / f"{split}_masks.npy", masks)
        np.save(folder / f"{split}_images.npy", colours[masks])


@pytest.mark.slow
def test_dense_prediction(data_cache):
    """Labels are mirrored with their images: else half of them would be wrong. Pixels without a class do not count."""
    camvid(data_cache, n=4)
    torch.manual_seed(0)
    model = OnePixel(11)
    recipe = Recipe(60, 4, 0.1, weight_decay=0.0, milestones=(), augment="crop+flip", precision="32-true",
                    optimizer="adam")  # fmt: skip
    logits = fit(model, LOSSES["cross_entropy"](), "camvid", recipe, folder=data_cache / "run", device="cpu")
    assert logits.test_logits.shape == (4 * PIXELS, 11)
    assert (logits.test_labels >= 0).all()
    np.testing.assert_array_equal(logits.test_groups, np.zeros(4 * PIXELS))  # four frames that follow each other
    facts = logits.meta["test_pixels"]
    assert facts["pixels"] == 4 * 180 * 192
    assert facts["accuracy"] > 0.95
    assert logits.meta["accuracy"] == pytest.approx(facts["accuracy"], abs=0.02)
    maps, inputs = read_npz(data_cache / "run" / "maps.npz"), data.load_split("camvid", "test").inputs
    confidence, predicted = torch.from_numpy(predict(model, inputs, "camvid")).softmax(1).max(1)
    np.testing.assert_array_equal(maps["index"], [0, 1, 2, 3])
    np.testing.assert_array_equal(maps["predicted"], predicted)
    truth = data.load_split("camvid", "test").labels
    np.testing.assert_array_equal(maps["right"] == 2, truth == -100)
    np.testing.assert_array_equal(maps["right"] == 1, predicted.numpy() == truth)
    np.testing.assert_allclose(maps["confidence"] / 255, confidence, rtol=0, atol=0.5 / 255 + 1e-6)


def pixels(model, images, labels):
    """Of images of 4 x 5 pixels of two classes."""
    spec = data.Dataset(2, (4, 5, 3), (0.5,) * 3, (0.5,) * 3, kind="dense")
    return pixels_of(model, Feed(images, spec, torch.device("cpu"), torch.float32), labels)


def test_facts_of_pixels_by_hand():
    """A network that always says class 0 with p = 0.75 of two: accuracy is its share; IoU by hand."""
    images = np.zeros((2, 4, 5, 3), np.uint8)
    labels = np.zeros((2, 4, 5), np.int16)
    labels[0, :2] = 1  # 10 of class 1
    labels[1, 3] = data.IGNORE  # 5 without a class: 35 count, 25 of them are class 0
    model = OnePixel(2)
    with torch.no_grad():
        model.linear.weight.zero_()
        model.linear.bias.copy_(torch.tensor([np.log(3.0), 0.0]))
    logits, kept, images, facts = pixels(model, images, labels)
    assert np.bincount(images).tolist() == [20, 15]
    assert logits.shape == (35, 2) and np.bincount(kept).tolist() == [25, 10]
    assert facts["pixels"] == 35
    assert facts["accuracy"] == pytest.approx(25 / 35)
    assert facts["miou"] == pytest.approx((25 / 35 + 0) / 2)
    assert facts["ece"] == pytest.approx(0.75 - 25 / 35, abs=1e-7)
    assert facts["ece_by_batch"] == pytest.approx(facts["ece"], abs=1e-7)


def test_frames_that_follow_each_other_are_a_block():
    """CamVid's test images: films of 62 and of 171 frames, each in blocks of ten, its last one shorter."""
    blocks = blocks_of(233, data.DATASETS["camvid"].films)
    assert np.bincount(blocks).tolist() == [10] * 6 + [2] + [10] * 17 + [1]
    assert (np.diff(blocks) >= 0).all()
    np.testing.assert_array_equal(blocks_of(5, films=()), range(5))  # no film: each by itself


def test_images_without_a_label_count_for_nothing():
    """An image of which no pixel has a class leaves the facts of the others, and gives no pixel to the sample."""
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), np.uint8)
    labels = np.random.default_rng(1).integers(0, 2, (3, 4, 5)).astype(np.int16)
    labels[1] = data.IGNORE
    model = OnePixel(2)
    logits, kept, numbers, facts = pixels(model, images, labels)
    assert np.unique(numbers).tolist() == [0, 2]
    others, of_others, _, expected = pixels(model, images[[0, 2]], labels[[0, 2]])
    np.testing.assert_allclose(logits, others, rtol=1e-6)
    np.testing.assert_array_equal(kept, of_others)
    for name in ("accuracy", "miou", "ece", "ece_by_batch", "pixels"):
        assert facts[name] == pytest.approx(expected[name])


def test_what_does_not_fit_stays_on_disk(data_cache, monkeypatch):
    """Batches of a memory-mapped split are those of one that is held on the device."""
    camvid(data_cache, n=3)
    spec, inputs = data.DATASETS["camvid"], data.load_split("camvid", "test").inputs
    held = Feed(inputs, spec, torch.device("cpu"), torch.float32)
    monkeypatch.setattr("calibkit.training.batches.BYTES", 1000)
    mapped = Feed(inputs, spec, torch.device("cpu"), torch.float32)
    assert isinstance(mapped.inputs, np.memmap) and isinstance(held.inputs, torch.Tensor)
    index = torch.tensor([2, 0])
    torch.testing.assert_close(mapped(index), held(index), rtol=0, atol=0)
