"""Every network of the registry: published sizes, shapes, gradients to every parameter, weights files."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

from book.kit import results
from calibkit._files import write_npz
from calibkit.models import MODELS, build, load_weights, mc_dropout, options_for, suited, takes
from calibkit.models.vision import plain

TOKENS, DENSE = suited("text", (1000,)), suited("dense", (224, 224, 3))
ON_CPU = {"regnet_y_400mf"}  # torchvision computes its widths with tensors
CIFAR, TINY, IMAGENET = 32, 64, 224


def on_meta(name: str, n_classes: int, **options) -> nn.Module:
    """The network on the meta device, which has shapes and no memory."""
    with contextlib.nullcontext() if name in ON_CPU else torch.device("meta"):
        return build(name, n_classes, **options).to("meta")


def inputs(name: str, side: int) -> torch.Tensor:
    """Two images or texts without content."""
    if name in TOKENS:
        return torch.zeros(2, side, dtype=torch.int64, device="meta")
    return torch.zeros(2, 3, side, side, device="meta")


def size(model: nn.Module) -> int:
    """Number of parameters."""
    return sum(p.numel() for p in model.parameters())


def test_every_network_of_the_papers_is_there():
    assert set(results.load("paper")["model"]) <= set(MODELS)


def test_parameter_counts_of_the_papers():
    """CIFAR-10: He et al. 2016, Table 6; Zagoruyko and Komodakis 2016, Tables 4 and 5; Huang et al. 2017, Table 2."""
    for name, millions in (
        *[("resnet20", 0.27), ("resnet32", 0.46), ("resnet44", 0.66), ("resnet56", 0.85), ("resnet110", 1.7)],
        *[("wide_resnet_28", 36.5), ("wide_resnet_40_10", 55.8), ("densenet40", 1.0)],
    ):
        count = size(on_meta(name, 10)) / 1e6
        assert round(count, 2 if millions < 0.99 else 1) == millions


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_logits_have_their_shape_and_depend_on_every_parameter(name):
    """Two graphs, at the smallest size and at ImageNet's, without any arithmetic."""
    model = on_meta(name, 7).eval()
    for side in (CIFAR, IMAGENET):
        logits = model(inputs(name, side))
        assert logits.shape == ((2, 7, side, side) if name in DENSE else (2, 7))
    logits.sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.slow
def test_options_follow_the_image():
    """The stem of a large image is that of ImageNet; smaller ones keep their resolution in the first layer."""
    for name in ["resnet50", "resnet101", "densenet121"]:
        for side, kernel in ((CIFAR, 3), (TINY, 3), (IMAGENET, 7)):
            model = on_meta(name, 200, **options_for(name, (side, side, 3))).eval()
            first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
            assert first.kernel_size == (kernel, kernel)
            assert model(inputs(name, side)).shape == (2, 200)


def test_options_of_the_others():
    shape = (8, 8, 1)
    assert options_for("small_cnn", shape) == {"channels": 1}
    assert options_for("resnet50", (64, 64, 3)) == {"stem": "tiny"}
    assert options_for("gpool_cnn", (1000,), 20_000) == {"n_tokens": 20_000}
    named = {name for name in MODELS if options_for(name, shape) and not takes(name, "channels")}
    assert takes("small_cnn", "channels") and named == {"resnet50", "resnet101", "densenet121"}


def test_evaluation_mode_is_deterministic():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    for model in (build("resnet20", 5, drop=0.5), build("densenet40_bc", 5)):
        model.eval()
        with torch.no_grad():
            assert torch.equal(model(x), model(x))


def test_weights_round_trip(tmp_path):
    for name in ["resnet20", "densenet40_bc"]:
        model = build(name, 10)
        arrays = {key: value.numpy() for key, value in model.state_dict().items()}
        write_npz(tmp_path / "good.npz", {k: v for k, v in arrays.items() if not k.endswith("num_batches_tracked")})
        other = load_weights(build(name, 10), tmp_path / "good.npz")
        assert not other.training
        for key, value in other.state_dict().items():
            assert torch.equal(value, model.state_dict()[key]), key


def test_bad_weights_files(tmp_path):
    arrays = {name: value.numpy() for name, value in build("resnet20", 10).state_dict().items()}
    write_npz(tmp_path / "short.npz", {k: v for k, v in arrays.items() if k != "linear.bias"})
    with pytest.raises(ValueError, match="Expected `path` to be weights of this network, but got other entries"):
        load_weights(build("resnet20", 10), tmp_path / "short.npz")
    write_npz(tmp_path / "shape.npz", {**arrays, "linear.bias": np.zeros(3, np.float32)})
    refused(r"`linear.bias` to be of shape \(10,\)", load_weights, build("resnet20", 10), tmp_path / "shape.npz")
    write_npz(tmp_path / "text.npz", {**arrays, "linear.bias": np.array(["0"] * 10)})
    with pytest.raises(ValueError, match="Expected `linear.bias` to be numbers, but got dtype <U1"):
        load_weights(build("resnet20", 10), tmp_path / "text.npz")


def test_one_class_is_refused():
    for name in MODELS:
        refused("`n_classes` to be an integer >= 2, but got 1", build, name, 1)


def test_an_option_that_the_network_lacks_is_named():
    """As ``--pretrained`` with a network of CIFAR, for which nobody distributes weights."""
    text = "Expected `model` to be with options among n_classes, drop, shortcut, but got weights"
    with pytest.raises(ValueError, match=text):
        build("resnet20", 10, weights="DEFAULT")


def test_names_that_are_none():
    for use, message in (
        (lambda: suited("nope", (1,)), "`kind` to be one of text, dense, image, but got 'nope'"),
        (lambda: takes("nope", "weights"), "`model` to be one of small_cnn, .*, but got 'nope'"),
        (lambda: mc_dropout(None), "`model` to be a torch.nn.Module, but got NoneType"),
        (lambda: mc_dropout(nn.Linear(2, 2), seed=-1), "`seed` to be an integer in"),
        (lambda: mc_dropout(nn.Linear(2, 1)), "`model` to be a network whose last linear layer gives two logits"),
        (lambda: plain("nope", 10), "`name` to be one of alexnet, .*, but got 'nope'"),
    ):
        refused(message, use)


def test_numbers_of_numpy_build_the_same_network():
    for name, options in (("small_cnn", {"channels": 1}), ("resnet20", {}), ("gpool_cnn", {"n_tokens": 50, "dim": 4})):
        plain = size(on_meta(name, 200, **options))
        numpy = {option: np.uint8(value) for option, value in options.items()}
        assert size(on_meta(name, np.uint8(200), **numpy)) == plain


def test_each_is_named_on_the_page():
    page = (Path(__file__).parents[1] / "book" / "api" / "models.md").read_text()
    assert [name for name in MODELS if f"`{name}`" not in page] == []
