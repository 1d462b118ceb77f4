"""Batches: augmentation by hand, and what of it a recipe asks for."""

import dataclasses

import numpy as np
import pytest
import torch

from calibkit import data
from calibkit.training import Recipe
from calibkit.training.batches import Feed, crop_and_flip, shuffled

CPU = torch.device("cpu")


def test_crop_and_flip_against_a_loop():
    images = torch.randint(0, 256, (6, 5, 7, 3), dtype=torch.uint8)
    crops = torch.tensor([[0, 0], [4, 4], [8, 8], [0, 8], [3, 5], [4, 4]])
    flips = torch.tensor([False, False, False, True, True, True])
    got = crop_and_flip(images, crops, flips)
    for i in range(6):
        padded = np.pad(images[i].numpy(), ((4, 4), (4, 4), (0, 0)))
        top, left = crops[i].tolist()
        window = padded[top : top + 5, left : left + 7]
        np.testing.assert_array_equal(got[i].numpy(), window[:, ::-1] if flips[i] else window)
    np.testing.assert_array_equal(got[1], images[1])  # offset (4, 4) is the image itself


@pytest.fixture(scope="module")
def images():
    """Forty of CIFAR-10's shape, whose data set is augmented."""
    return np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), np.uint8)


def epoch(images, seed=0, dtype=torch.float64, **options):
    """The batches of an epoch, whose labels are the numbers of the images."""
    spec = data.DATASETS["cifar10"]
    assert spec.augment
    recipe = Recipe(1, **{"batch_size": 16, **options})
    generator = torch.Generator().manual_seed(seed)
    feed = Feed(images, spec, CPU, dtype)
    return list(shuffled(feed, torch.arange(len(images)), recipe, generator)), feed


def distances(batch, feed, images, shift=(0, 0), mirrored=False):
    """Of each input from its own image, moved by ``shift`` after black padding, or mirrored."""
    padded = np.pad(images[batch.index.numpy()], ((0, 0), (4, 4), (4, 4), (0, 0)))
    top, left = 4 + shift[0], 4 + shift[1]
    windows = padded[:, top : top + images.shape[1], left : left + images.shape[2]]
    windows = np.ascontiguousarray(windows[:, :, ::-1] if mirrored else windows)
    spec = data.DATASETS["cifar10"]
    wanted = (torch.from_numpy(windows) / 255.0 - torch.tensor(spec.mean)) / torch.tensor(spec.std)
    return (batch.inputs - wanted.permute(0, 3, 1, 2)).abs().amax((1, 2, 3))


def test_every_image_once_an_epoch_in_batches(images):
    batches, _ = epoch(images)
    assert [len(batch.index) for batch in batches] == [16, 16, 8]
    order = torch.cat([batch.index for batch in batches])
    assert order.sort().values.tolist() == list(range(40)) and order.tolist() != list(range(40))
    assert all(torch.equal(batch.labels, batch.index) and batch.mix is None for batch in batches)
    again, _ = epoch(images)
    other, _ = epoch(images, seed=1)
    assert torch.equal(torch.cat([batch.inputs for batch in again]), torch.cat([batch.inputs for batch in batches]))
    assert torch.cat([batch.index for batch in other]).tolist() != order.tolist()


def test_none_leaves_the_images(images):
    batches, feed = epoch(images, augment="none")
    assert max(distances(batch, feed, images).max() for batch in batches) < 1e-5


def test_flip_mirrors_about_half_of_the_images_and_shifts_none(images):
    batches, feed = epoch(images, augment="flip")
    straight = torch.cat([distances(batch, feed, images) for batch in batches]) < 1e-5
    mirrored = torch.cat([distances(batch, feed, images, mirrored=True) for batch in batches]) < 1e-5
    assert (straight ^ mirrored).all()
    assert 10 <= mirrored.sum() <= 30


def test_crops_are_all_windows_of_the_padded_image(images):
    """Shifts from -4 to 4 on either axis, uniform: over 20 epochs the mean of each axis is near 0 and all occur."""
    images, found = images[:, :9, :12], []
    for seed in range(20):
        (batch, *_), feed = epoch(images, seed, augment="crop+flip", batch_size=40)
        apart = torch.stack([
            distances(batch, feed, images, (dy, dx), mirrored)
            for dy in range(-4, 5) for dx in range(-4, 5) for mirrored in (False, True)
        ])  # fmt: skip
        assert ((apart < 1e-5).sum(0) == 1).all()
        found.append((apart < 1e-5).int().argmax(0))
    found = torch.cat(found)
    dy, dx, mirrored = found // 18 - 4, found // 2 % 9 - 4, found % 2
    for shifts in (dy, dx):
        assert torch.bincount(shifts + 4, minlength=9).min() > 800 / 9 / 2
    assert 300 < mirrored.sum() < 500


def test_a_data_set_that_is_not_augmented(images):
    """Digits would be others, mirrored."""
    spec = dataclasses.replace(data.DATASETS["cifar10"], augment=False)
    feed = Feed(images, spec, CPU, torch.float64)
    (batch,) = shuffled(feed, torch.arange(40), Recipe(1, batch_size=40), torch.Generator().manual_seed(0))
    assert distances(batch, feed, images).max() < 1e-5


def test_processes_share_the_rows_of_a_batch(images):
    """Rank r of 3 has the rows r, r + 3, ... of the batch of one process; a batch of fewer rows is left out."""
    spec, labels, recipe = data.DATASETS["cifar10"], torch.arange(40), Recipe(1, batch_size=19)
    feed = Feed(images, spec, CPU, torch.float64)
    whole = list(shuffled(feed, labels, recipe, torch.Generator().manual_seed(3)))
    assert [len(batch.index) for batch in whole] == [19, 19, 2]
    for rank in range(3):
        parts = list(shuffled(feed, labels, recipe, torch.Generator().manual_seed(3), rank, 3))
        assert len(parts) == 2
        for part, batch in zip(parts, whole, strict=False):
            assert torch.equal(part.index, batch.index) and torch.equal(part.labels, batch.labels)
            assert torch.equal(part.inputs, batch.inputs[rank::3])


def test_pieces_of_a_split():
    """500 CIFAR images at a time, fewer of what is larger, 100 texts."""
    feeds = {}
    for name, inputs in (
        ("cifar10", np.zeros((1100, 32, 32, 3), np.uint8)),
        ("tiny_imagenet", np.zeros((300, 64, 64, 3), np.uint8)),
        ("20newsgroups", np.zeros((250, 30), np.uint16)),
    ):
        feeds[name] = Feed(inputs, data.DATASETS[name], CPU, torch.float32)
        assert torch.equal(torch.cat(feeds[name].batches()), torch.arange(len(inputs)))
    sizes = {name: [len(rows) for rows in feed.batches()] for name, feed in feeds.items()}
    assert sizes == {"cifar10": [500, 500, 100], "tiny_imagenet": [125, 125, 50], "20newsgroups": [100, 100, 50]}
    assert [len(rows) for rows in feeds["20newsgroups"].batches(120)] == [120, 120, 10]
