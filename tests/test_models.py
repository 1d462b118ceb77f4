"""Networks: published parameter counts, stochastic depth, weights files."""

import numpy as np
import pytest
import torch

from calibkit._io import write_npz
from calibkit.models import MODELS, build, load_weights
from calibkit.models.resnet import Block, ResNet


@pytest.mark.parametrize(
    ("name", "millions"),
    [("resnet20", 0.27), ("resnet32", 0.46), ("resnet44", 0.66), ("resnet56", 0.85), ("resnet110", 1.7)],
)
def test_parameter_counts_of_the_paper(name, millions):
    """He et al. 2016, Table 6."""
    count = sum(p.numel() for p in build(name, 10).parameters()) / 1e6
    assert round(count, 2 if millions < 1 else 1) == millions


@pytest.mark.parametrize("name", MODELS)
def test_logits_shape(name):
    model = build(name, 7).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


def test_shortcut_pads_with_zero_channels():
    """With a dead branch the block is ReLU of the subsampled, padded input."""
    block = Block(2, 4, 2, 1.0).eval()
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.randn(1, 2, 4, 4)
    got = block(x)
    torch.testing.assert_close(got[:, 1:3], x[:, :, ::2, ::2].relu())
    assert not got[:, 0].any() and not got[:, 3].any()


def test_stochastic_depth_survival_is_linear_and_right_on_average():
    model = ResNet(20, 10, drop=0.5)
    survival = [block.survival for block in model.modules() if isinstance(block, Block)]
    assert survival == pytest.approx([1 - 0.5 * (i + 1) / 9 for i in range(9)])
    torch.manual_seed(0)
    block = Block(4, 4, 1, 0.5)
    for module in (block.bn1, block.bn2):
        module.eval()  # so that both modes normalise alike
        module.train = lambda mode=True: None
    x = torch.rand(1, 4, 6, 6) + 3.0  # positive, so that ReLU is the identity and expectations are linear
    block.training = True
    with torch.no_grad():
        outputs = torch.stack([block(x) for _ in range(2000)])
        skipped = (outputs == x).flatten(1).all(1).double().mean()
        block.training = False
        expectation = block(x)
    assert abs(float(skipped) - 0.5) < 0.05
    torch.testing.assert_close(outputs.mean(0), expectation, rtol=0.02, atol=0.02)


def test_weights_round_trip_and_bad_files(tmp_path):
    model = build("resnet20", 10)
    arrays = {name: value.numpy() for name, value in model.state_dict().items()}
    write_npz(tmp_path / "good.npz", {k: v for k, v in arrays.items() if not k.endswith("num_batches_tracked")})
    other = load_weights(build("resnet20", 10), tmp_path / "good.npz")
    assert not other.training
    torch.testing.assert_close(other.linear.weight, model.linear.weight)
    write_npz(tmp_path / "short.npz", {k: v for k, v in arrays.items() if k != "linear.bias"})
    with pytest.raises(ValueError, match="Expected `path` to be weights of this network, but got other entries"):
        load_weights(build("resnet20", 10), tmp_path / "short.npz")
    write_npz(tmp_path / "shape.npz", {**arrays, "linear.bias": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"Expected `linear.bias` to be of shape \(10,\)"):
        load_weights(build("resnet20", 10), tmp_path / "shape.npz")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: build("resnet21", 10), "Expected `model` to be one of small_cnn, resnet20"),
        (lambda: ResNet(21, 10), "Expected `depth` to be 6n"),
        (lambda: ResNet(20, 1), "Expected `n_classes` to be an integer >= 2"),
        (lambda: ResNet(20, 10, drop=1.5), "Expected `drop` to be a number"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
