"""torchvision's networks and what is changed in them: sizes, stems, dilation, pretrained weights."""

import pytest
import torch
from torch import nn

from calibkit.models import build
from calibkit.models.vision import dilate, plain
from calibkit.training import assemble


def size(model):
    return sum(p.numel() for p in model.parameters())


def test_sizes_with_the_stems_of_small_images():
    """Those of ImageNet but for 3 x 3 weights in the first convolution, the classes, and four times the features of
    "tiny"; a DenseNet for CIFAR has no normalisation of that convolution.
    """
    for name, stem, features, less in (
        *((name, stem, 2048, 0) for name in ("resnet50", "resnet101") for stem in ("cifar", "tiny")),
        ("densenet121", "cifar", 1024, 2 * 64),
    ):
        with torch.device("meta"):
            small, large = build(name, 10, stem=stem), build(name, 1000, stem="imagenet")
        classes = 10 * (features * (4 if stem == "tiny" else 1) + 1) - 1000 * (features + 1)
        assert size(small) - size(large) == (3 * 3 - 7 * 7) * 3 * 64 - less + classes


def test_imagenet_sizes_that_torchvision_publishes():
    from torchvision.models import get_model_weights

    for name in ("resnet50", "resnet101", "resnet152", "densenet161", "densenet121", "efficientnet_b0", "vit"):
        published = "vit_b_16" if name == "vit" else name
        options = {"stem": "imagenet"} if name.startswith(("resnet", "densenet")) else {}
        with torch.device("meta"):
            assert size(build(name, 1000, **options)) == get_model_weights(published).DEFAULT.meta["num_params"]


def test_cifar_stems_keep_the_resolution():
    """Eight times smaller after four stages (three halvings), not 32 times."""
    seen = {}
    with torch.device("meta"):
        for name, path in (("resnet50", "layer4"), ("densenet121", "features")):
            model = build(name, 10)
            model.get_submodule(path).register_forward_hook(lambda m, x, y, name=name: seen.update({name: y.shape}))
            model(torch.zeros(2, 3, 32, 32))
    assert {name: shape[2:] for name, shape in seen.items()} == {"resnet50": (4, 4), "densenet121": (4, 4)}


def test_vit_resizes():
    """An image of another size is that image, resized; 96 x 96 has 36 patches and a class token."""
    with torch.device("meta"):
        model = build("vit", 10, image_size=96).eval()
        assert model.vit.encoder.pos_embedding.shape == (1, 37, 768)
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    x = torch.randn(1, 3, 32, 32)
    want = nn.functional.interpolate(x, size=(96, 96), mode="bilinear", align_corners=False)
    assert torch.equal(model.resize(x), want)


@pytest.fixture(scope="module")
def resnets():
    """Strided ResNet-34 and -50 of torchvision, normalisation off its initial values, and their dilated twins."""
    torch.manual_seed(0)
    pairs = {}
    for name in ("resnet34", "resnet50"):
        strided = plain(name, 2).eval()
        for module in strided.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.0)
                nn.init.normal_(module.bias, std=0.1)
        model = build(f"deeplabv3_{name}", 4).eval()
        model.backbone.load_state_dict({k: v for k, v in strided.state_dict().items() if not k.startswith("fc.")})
        pairs[name] = nn.Sequential(*list(strided.children())[:-2]), model
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet34", "resnet50"])
def test_dilation_keeps_what_the_strides_saw(resnets, name):
    """À trous: features at 1/8, of which every fourth is the strided network's at 1/32."""
    strided, model = resnets[name]
    x = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        fine, coarse = model.backbone(x), strided(x)
    assert fine.shape[2:] == (8, 8) and coarse.shape[2:] == (2, 2)
    torch.testing.assert_close(fine[:, :, ::4, ::4], coarse, rtol=1e-4, atol=1e-4)


def test_deeplab_is_torchvisions_where_torchvision_has_it(resnets):
    from torchvision.models.segmentation import deeplabv3_resnet50

    model = resnets["resnet50"][1]
    theirs = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=4, aux_loss=False).eval()
    theirs.load_state_dict(model.state_dict())
    x = torch.randn(1, 3, 40, 56)
    with torch.no_grad():
        logits = model(x)
        torch.testing.assert_close(logits, theirs(x)["out"])
    assert logits.shape == (1, 4, 40, 56)


def test_dilate_leaves_no_stride():
    stages = [plain("resnet34", 2).get_submodule(f"layer{i}") for i in (3, 4)]
    dilate(stages)
    rates = [
        [m.dilation[0] for m in s.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)] for s in stages
    ]
    assert rates == [[1] + [2] * 11, [2] + [4] * 5]
    assert all(m.stride == (1, 1) for s in stages for m in s.modules() if isinstance(m, nn.Conv2d))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A file in torch's download cache, under the name that torchvision looks for, as ``published(name, state)``."""
    from torchvision.models import get_model_weights

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()

    def save(name, state, weights="DEFAULT"):
        url = get_model_weights(name)[weights].url
        torch.save(state, tmp_path / "checkpoints" / url.rpartition("/")[2])

    return save


def test_pretrained_weights_and_a_fresh_last_layer(published):
    source = plain("efficientnet_b0", 1000)
    published("efficientnet_b0", source.state_dict())
    same = build("efficientnet_b0", 1000, weights="DEFAULT")
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), same.parameters(), strict=True))
    other = build("efficientnet_b0", 200, weights="DEFAULT")
    assert torch.equal(other.features[0][0].weight, source.features[0][0].weight)
    assert other.classifier[1].weight.shape == (200, 1280)


def test_a_training_starts_from_the_first_weights(published):
    """MbLS's code pins torchvision 0.8.2, which has no others."""
    source = plain("regnet_y_400mf", 1000)
    published("regnet_y_400mf", source.state_dict(), "IMAGENET1K_V1")
    network, *_ = assemble("imagenet", "regnet_y_400mf", "cross_entropy", "paper", pretrained=True)
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), network.parameters(), strict=True))


def test_the_old_names_of_the_densenet_files(published):
    """torchvision's own files say norm.1 where its layers say norm1."""
    source = plain("densenet121", 1000)
    state = source.state_dict()
    old = {k.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): v for k, v in state.items()}
    assert set(old) != set(state)
    published("densenet121", old)
    same = build("densenet121", 1000, stem="imagenet", weights="DEFAULT")
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), same.parameters(), strict=True))


def test_bad_input():
    for name, options, message in [
        ("resnet50", {"stem": "mnist"}, "Expected `stem` to be one of cifar, tiny, imagenet, but got 'mnist'"),
        ("resnet50", {"weights": "DEFAULT"}, "Expected `stem` to be imagenet for pretrained weights, but got 'cifar'"),
        ("densenet121", {"stem": "tiny"}, "Expected `stem` to be one of cifar, imagenet, but got 'tiny'"),
        ("resnet152", {"weights": "best"}, "Expected `weights` to be one of IMAGENET1K_V1, IMAGENET1K_V2, DEFAULT"),
        ("vit", {"image_size": 100}, "Expected `image_size` to be a multiple of 16, but got 100"),
        ("vit", {"image_size": 96, "weights": "DEFAULT"}, "Expected `image_size` to be 224, that of the weights"),
        ("vit", {"dropout": -0.1}, "Expected `dropout` to be a number"),
        ("deeplabv3_resnet34", {"weights": "VOC"}, "Expected `weights` to be one of IMAGENET1K_V1, DEFAULT"),
    ]:
        with pytest.raises(ValueError, match=message):
            build(name, 10, **options)
