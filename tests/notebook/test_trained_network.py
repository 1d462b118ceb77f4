"""A trained network with its images: the stored one, its images, and the fits that are kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused

from book.kit.notebook.trained_network import trained
from book.kit.results import record_losses
from calibkit import Network, NeuralClamping, data
from calibkit.logits import Logits
from calibkit.networks import zoo

DIGITS = Network("digits", "small_cnn")


@pytest.fixture(scope="module")
def digits():
    return trained(DIGITS)


def test_stored_weights_give_the_stored_logits(digits):
    stored = Logits.load(zoo()[str(DIGITS)])
    assert stored.meta["budget"] == "smoke" and next(digits.model.parameters()).dtype == torch.float64
    for (images, labels), held_out in ((digits.val, stored.val), (digits.test, stored.test)):
        np.testing.assert_allclose(digits.logits(images), held_out.logits, rtol=0, atol=1e-9)
        assert (labels == held_out.labels).all()


def test_images_are_normalised_by_the_numbers_of_the_data_set(digits):
    spec, inputs = data.DATASETS["digits"], data.load_split("digits", "test").inputs
    by_hand = (inputs[:, None, :, :, 0] / 255 - spec.mean[0]) / spec.std[0]
    np.testing.assert_allclose(digits.test[0].numpy(), by_hand, rtol=0, atol=1e-12)
    low, high = digits.input_range
    assert digits.val[0].min().item() == pytest.approx(low[0]) and digits.val[0].max().item() == pytest.approx(high[0])


def test_logits_of_moved_images(digits):
    images = digits.test[0][:7]
    delta = np.full((1, 8, 8), 0.25)
    with torch.no_grad():
        wanted = digits.model(images + 0.25).numpy()
    np.testing.assert_allclose(digits.logits(images, delta), wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(digits.logits(images, 0.25), wanted, rtol=0, atol=1e-12)


def test_fits_are_kept_where_a_folder_is_given_and_never_confused(digits, tmp_path, monkeypatch):
    keeping = replace(digits, folder=tmp_path / "fits")
    options = {"epochs": 1, "batch_size": 100}
    first = keeping.clamp(NeuralClamping(**options))
    (file,) = keeping.folder.iterdir()
    np.testing.assert_array_equal(first.delta, digits.clamp(NeuralClamping(**options)).delta)

    keeping.clamp(NeuralClamping(**options, seed=1))
    replace(keeping, digest="of other weights").clamp(NeuralClamping(**options))
    assert len(list(keeping.folder.iterdir())) == 3

    monkeypatch.setattr(NeuralClamping, "fit", lambda *_: pytest.fail("fitted again"))
    again = keeping.clamp(NeuralClamping(**options))
    assert again.temperature == first.temperature and (again.delta == first.delta).all()
    assert file.exists()


def test_what_the_budget_lacks_is_trained_there(monkeypatch, tmp_path):
    """A network of the smoke budget that is not stored: trained once, in the folder of its budget."""
    monkeypatch.setattr("calibkit._folders.runs", lambda budget: tmp_path / budget)
    seen = []

    def train(network, budget, **how):
        seen.append((str(network), budget, how))
        folder = network.folder(budget)
        folder.mkdir(parents=True)
        (folder / "weights.npz").write_bytes(DIGITS.weights().read_bytes())

    monkeypatch.setattr(Network, "train", train)
    found = trained(replace(DIGITS, seed=7), device="cpu")
    assert seen == [("digits/small_cnn-cross_entropy-s7", "smoke", {"device": "cpu"})]
    assert found.folder is None  # nothing is kept at the smoke budget
    trained(replace(DIGITS, seed=7), "paper")
    assert seen[1:] == [("digits/small_cnn-cross_entropy-s7", "paper", {"device": "auto"})]  # refused without a GPU


def test_weights_from_elsewhere_are_taken_from_the_folder_of_the_network(monkeypatch, tmp_path):
    monkeypatch.setattr("calibkit._folders.runs", lambda budget: tmp_path / budget)
    monkeypatch.setattr(Network, "train", lambda *_, **__: pytest.fail("trained"))
    network = replace(DIGITS, seed=8)
    network.folder("paper").mkdir(parents=True)
    (network.folder("paper") / "weights.npz").write_bytes(DIGITS.weights().read_bytes())
    found = trained(network, "paper", "cpu")
    assert found.folder == network.folder("paper") / "neural_clamping"
    assert (found.test[1] == found.logits(found.test[0]).argmax(1)).mean() == pytest.approx(482 / 497)


def test_every_training_is_recorded_once_but_those_of_the_smoke_budget(monkeypatch):
    """A name stands for all its seeds."""
    asked, compared = [], []
    monkeypatch.setattr(record_losses, "record", lambda name, **_: asked.append(name) or 0)
    monkeypatch.setattr(record_losses, "record_losses", lambda names: compared.extend(names) or 0)
    record_losses.record_all()
    assert str(DIGITS) in zoo() and str(DIGITS) not in asked
    of_zoo = [Network.parse(name) for name in asked if name in zoo()]
    assert len({replace(network, seed=0) for network in of_zoo}) == len(of_zoo) == len(compared)
    with_seeds = {replace(Network.parse(name), seed=0) for name in zoo()} - {replace(DIGITS, seed=0)}
    assert {replace(network, seed=0) for network in of_zoo} == with_seeds
    assert [str(network) for network in of_zoo] == compared


@pytest.mark.data("cifar100", "weights/cifar100_resnet20.npz")
def test_published_weights_have_the_accuracy_of_their_publisher():
    """68.8% on the CIFAR-100 test images, of which one half is held out and the other half tests: of each class."""
    name = "weights/cifar100_resnet20"
    public = trained(name, "reduced", "cpu")
    assert (str(public.network), public.source) == ("cifar100/resnet20_b-cross_entropy-s0", "public")
    halves = [public.val, public.test]
    right = [(public.logits(images).argmax(1) == labels).sum() for images, labels in halves]
    assert sum(right) == pytest.approx(6880, abs=10)
    for _, labels in halves:
        np.testing.assert_array_equal(np.bincount(labels), 50)
    other = trained(name, "reduced", "cpu", draw=1)
    assert other.digest != public.digest, "a fit is kept with its held-out images"
    seen = [{image.numpy().tobytes() for image in of[0]} for of in (public.val, other.val)]
    assert 2000 < len(seen[0] & seen[1]) < 3000


def test_other_names_are_refused():
    refused("`network` to be", trained, "weights/cifar100_resnet18")
