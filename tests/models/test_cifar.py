"""Residual, wide residual and densely connected networks for 32 x 32 images: formulas, blocks, real weights."""

import numpy as np
import pytest
import torch

from calibkit import data
from calibkit.models import build, load_weights
from calibkit.models.densenet import DenseNet, Layer
from calibkit.models.resnet import Block, ResNet, WideBlock, WideResNet
from calibkit.models.small import ResNet8, Stage, WhitenedResNet8


def size(model):
    return sum(p.numel() for p in model.parameters())


def test_shortcut_pads_with_zero_channels():
    """With a dead branch the block is ReLU of the subsampled, padded input."""
    block = Block(2, 4, 2, 1.0).eval()
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.randn(1, 2, 4, 4)
    got = block(x)
    torch.testing.assert_close(got[:, 1:3], x[:, :, ::2, ::2].relu())
    assert not got[:, 0].any() and not got[:, 3].any()


def test_shortcut_b_is_a_convolution_and_its_normalisation():
    """He et al. 2016, Sec. 4.1, option B: two more layers, where a stage begins, of 16 x 32 and 32 x 64 weights."""
    block = Block(2, 4, 2, 1.0, "B").eval()
    torch.nn.init.zeros_(block.bn2.weight)
    x = torch.randn(1, 2, 4, 4)
    weight = block.downsample[0].weight[:, :, 0, 0]
    wanted = torch.einsum("oc,bchw->bohw", weight, x[:, :, ::2, ::2]) / (1 + block.bn1.eps) ** 0.5
    torch.testing.assert_close(block(x), wanted.relu())
    assert size(ResNet(20, 10, shortcut="B")) - size(ResNet(20, 10)) == 16 * 32 + 32 * 64 + 2 * (32 + 64)


def test_stochastic_depth_survival_is_linear():
    """Huang et al. 2016, Eq. 4, with p_L = 0.5; 54 blocks are ResNet-110, 75 ResNet-152."""
    for name, blocks in [("resnet110_sd", 54), ("resnet152_sd", 75)]:
        with torch.device("meta"):
            model = build(name, 10)
        survival = [block.survival for block in model.modules() if isinstance(block, Block)]
        assert survival == pytest.approx([1 - 0.5 * (i + 1) / blocks for i in range(blocks)])


def test_stochastic_depth_is_right_on_average():
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


def test_resnet8_size_and_stage():
    """2 x 2 and 3 x 3 convolutions, normalisation, linear layer; with a dead branch a stage is its first half."""
    widths = [24, 64, 256, 256]
    stages = sum(9 * a * b + 9 * b * b + 4 * b for a, b in zip(widths, widths[1:], strict=False))
    assert size(ResNet8(100)) == 4 * 3 * 24 + 2 * 24 + stages + 257 * 100
    stage, x = Stage(2, 3).eval(), torch.randn(1, 2, 5, 5)
    torch.nn.init.zeros_(stage.bn2.weight)
    convolved = torch.nn.functional.conv2d(x, stage.conv1.weight, padding=1)[:, :, :4, :4]
    largest = convolved.unflatten(2, (2, 2)).unflatten(4, (2, 2)).amax((3, 5))
    torch.testing.assert_close(stage(x), (largest / (1 + stage.bn1.eps) ** 0.5).relu())


def test_the_first_batch_alone_whitens_the_patches():
    """Of correlated images each half of the maps has moments 1 and 0; neither evaluation nor a second batch counts."""
    torch.manual_seed(0)
    x = torch.nn.functional.avg_pool2d(torch.randn(40, 3, 18, 18), 3, 1) + 0.3
    model, fresh = WhitenedResNet8(10), WhitenedResNet8(10)
    fresh.eval()(x)
    assert not torch.equal(fresh.conv1.filters(x), fresh.conv1.weight)
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
    maps = model.conv1(x).transpose(0, 1).flatten(1).double().numpy()
    np.testing.assert_allclose(maps[:12] @ maps[:12].T / maps.shape[1], np.eye(12), atol=0.1)
    np.testing.assert_allclose(maps[12:], -maps[:12], atol=1e-5)
    first = model.conv1.weight.clone()
    model(-(x.flip(3) ** 2))
    assert torch.equal(model.conv1.weight, first)
    fresh.load_state_dict(model.state_dict())
    fresh.train()(x**2)
    assert torch.equal(fresh.conv1.weight, first)  # as after a resume


def test_wide_resnet_size_by_formula():
    """Convolutions 9 c c' (1 x 1: c c'), normalisation 2 c, linear layer (c + 1) K."""
    for depth, width, n_classes in [(28, 10, 10), (34, 10, 100), (40, 10, 100), (40, 4, 10), (16, 8, 10)]:
        n = (depth - 4) // 6
        channels = [16, 16 * width, 32 * width, 64 * width]
        count = 9 * 3 * 16 + 2 * channels[3] + (channels[3] + 1) * n_classes
        for a, b in zip(channels, channels[1:], strict=False):
            count += 2 * a + 9 * a * b + 2 * b + 9 * b * b + a * b + (n - 1) * (4 * b + 18 * b * b)
        with torch.device("meta"):
            assert size(WideResNet(depth, n_classes, width)) == count


def test_wide_block_is_the_identity_without_its_branch():
    """Pre-activation: nothing after the sum; the projection sees the normalised input (He et al. 2016b, Fig. 4e)."""
    x = torch.randn(2, 3, 4, 4)
    block = WideBlock(3, 3, 1).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    assert torch.equal(block(x), x)
    block = WideBlock(3, 6, 2).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    active = torch.relu(x / np.sqrt(1 + 1e-5))[:, :, ::2, ::2]
    want = torch.einsum("oc,nchw->nohw", block.shortcut.weight[:, :, 0, 0], active)
    torch.testing.assert_close(block(x), want)


def test_densenet_sizes_of_the_paper():
    """Huang et al. 2017, Table 2."""
    for depth, growth, bc, millions in (
        *[(40, 12, False, 1.0), (100, 12, False, 7.0), (100, 24, False, 27.2)],
        *[(100, 12, True, 0.8), (250, 24, True, 15.3), (190, 40, True, 25.6)],
    ):
        with torch.device("meta"):
            assert round(size(DenseNet(depth, 10, growth, bc)) / 1e6, 1) == millions


def test_densenet_size_by_formula():
    for bc, stem, n_classes in [(False, None, 10), (False, 24, 100), (True, None, 100)]:
        k, n = 12, 6 if bc else 12
        c = stem or (2 * k if bc else 16)
        count = 9 * 3 * c
        for block in range(3):
            for _ in range(n):
                count += 2 * c + (4 * k * c + 8 * k + 36 * k * k if bc else 9 * k * c)
                c += k
            if block < 2:
                halved = c // 2 if bc else c
                count += 2 * c + c * halved
                c = halved
        with torch.device("meta"):
            assert size(DenseNet(40, n_classes, k, bc, stem)) == count + 2 * c + (c + 1) * n_classes


def test_dense_layer_keeps_its_input():
    for bottleneck in [False, True]:
        x = torch.randn(2, 5, 4, 4)
        y = Layer(5, 3, bottleneck).eval()(x)
        assert y.shape == (2, 8, 4, 4)
        assert torch.equal(y[:, :5], x)


@pytest.mark.data("cifar100", "weights/cifar100_densenet40bc.npz")
def test_densenet_bc_of_others_classifies_cifar100():
    """A public DenseNet-BC-40 with 63.26% on the test images; every twentieth of them here."""
    model = load_weights(build("densenet40_bc", 100), data.cache() / "weights" / "cifar100_densenet40bc.npz")
    images, labels = (np.array(x[::20]) for x in data.load_split("cifar100", "test"))
    spec = data.DATASETS["cifar100"]
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    x = (x - torch.tensor(spec.mean).view(3, 1, 1)) / torch.tensor(spec.std).view(3, 1, 1)
    with torch.no_grad():
        predicted = torch.cat([model(batch).argmax(1) for batch in x.split(250)])
    accuracy = float((predicted.numpy() == labels).mean())
    assert abs(accuracy - 0.6326) < 0.043, accuracy  # two standard errors of 500 images


def test_bad_input():
    for make, message in [
        (lambda: ResNet(21, 10), "Expected `depth` to be 6n"),
        (lambda: ResNet(20, 10, drop=1.5), "Expected `drop` to be a number"),
        (lambda: ResNet(20, 10, shortcut="C"), "Expected `shortcut` to be"),
        (lambda: WideResNet(32, 10), r"Expected `depth` to be 6n \+ 4 for an integer n, but got 32"),
        (lambda: WideResNet(28, 10, width=0), "Expected `width` to be an integer >= 1, but got 0"),
        (lambda: DenseNet(41, 10), r"Expected `depth` to be 3n \+ 4 for an integer n, but got 41"),
        (lambda: DenseNet(40, 10, growth=0), "Expected `growth` to be an integer >= 1"),
        (lambda: DenseNet(40, 10, stem=0), "Expected `stem` to be an integer >= 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
