"""The names that a page shows in place of keys: of data sets, networks, losses, methods, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from calibkit.keys import Key
from calibkit.networks import Network

DATASETS = {
    **{"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "cifar10_lt": "CIFAR-10-LT", "cifar100_lt": "CIFAR-100-LT"},
    **{"imagenet": "ImageNet", "tiny_imagenet": "Tiny-ImageNet", "tiny_imagenet_20": "Tiny-ImageNet, 20 classes"},
    **{"svhn": "SVHN", "cub200": "CUB-200", "20newsgroups": "20 Newsgroups", "camvid": "CamVid", "voc2012": "VOC 2012"},
    **{"20newsgroups_random": "20 Newsgroups, random split", "20newsgroups_2000": "20 Newsgroups, 1,999 words"},
    **{"cars": "Cars", "derma": "Derma", "oct": "OCT"},
}
MODELS = {
    **{f"resnet{depth}": f"ResNet-{depth}" for depth in (8, 18, 20, 32, 34, 50, 56, 101, 110, 152)},
    **{f"resnet{depth}_sd": f"ResNet-{depth} SD" for depth in (110, 152)},
    **{f"resnet{depth}_b": f"ResNet-{depth} (B)" for depth in (20, 56)},
    **{f"densenet{depth}": f"DenseNet-{depth}" for depth in (40, 121, 161)},
    **{"densenet40_bc": "DenseNet-40-BC", "resnet8_whitened": "whitened ResNet-8"},
    **{f"wide_resnet_{depth}": f"WRN-{depth}" for depth in (28, 32)},
    **{"wide_resnet_26_10": "WRN-26-10", "wide_resnet_40_10": "WRN-40-10", "regnet_y_400mf": "RegNetY-400MF"},
    **{"efficientnet_b0": "EfficientNet-B0", "gpool_cnn": "GPool-CNN", "small_cnn": "small CNN", "vit": "ViT"},
    **{"beit": "BEiT", "convnext": "ConvNeXt", "eva": "EVA", "swin": "Swin", "swin_tiny": "Swin-T", "swin_b": "Swin-B"},
    **{f"vit_{size}": f"ViT-{size.upper()}" for size in ("b16", "b32", "l16")},
    **{"pnasnet5_large": "PNASNet-5", "resnet101_scratch": "ResNet-101 from scratch", "wide_resnet50": "WRN-50"},
    **{"alexnet": "AlexNet", "resnet50_pretrained": "ResNet-50, pretrained"},
    **{f"deeplabv3_resnet{depth}": f"DeepLabV3, ResNet-{depth}" for depth in (34, 50)},
}
LOSSES = {
    **{"cross_entropy": "CE", "label_smoothing": "LS", "focal": "FL", "flsd": "FLSD", "brier": "Brier", "mmce": "MMCE"},
    **{"ecp": "ECP", "cpc": "CPC", "mdca": "MDCA", "crl": "CRL", "mbls": "MbLS", "acls": "ACLS", "patra": "PATRA"},
    "mbls margin=0 weight=0.05": "MbLS, m = 0",
}
#: Cross-entropy, trained otherwise.
CHANGES = {"cape_bin": "CaPE (bin)", "cutmix": "CutMix", "mc_dropout": "MC dropout"}
METHODS = {
    **{"identity": "uncalibrated", "temperature_scaling": "TS", "class_temperature_scaling": "CTS", "ets": "ETS"},
    **{"pts": "PTS", "neural_clamping": "NC", "vector_scaling": "VS", "matrix_scaling": "MS", "ms_odir": "MS-ODIR"},
    **{"dir_odir": "Dir-ODIR", "histogram_binning": "histogram binning", "isotonic": "isotonic", "spline": "spline"},
    **{"structured_vector_scaling": "structured VS", "structured_matrix_scaling": "structured MS"},
    **{"order_preserving": "increasing map", "prior_correction": "prior correction"},
    "gp_calibration": "GP calibration",
    **{"temperature_scaling grid=0.001:ece": "TS-ECE, step 0.001"},
    **{"class_loss_scaling": "CLS", "class_balanced": "class-balanced", "nll": "NLL"},
}
METRICS = {
    **{"accuracy": "accuracy", "accuracy_drop": "accuracy drop", "ece": "ECE", "adaptive_ece": "AECE", "miou": "mIoU"},
    **{"classwise_ece": "class-wise ECE", "debiased_ece": "debiased ECE", "smooth_ece": "smooth ECE", "mce": "MCE"},
    **{"ks_error": "KS error", "ace": "ACE", "tace": "TACE", "entropy": "entropy"},
}
COLUMNS = {"dataset": "data", "model": "network", "n_bins": "bins"}
OPTIONS = {"margin": "m", "weight_pos": "λ₁", "weight_neg": "λ₂"}
SHOWN = DATASETS | MODELS | LOSSES | CHANGES | METHODS | METRICS | COLUMNS


def shown(text: str) -> str:
    """What stands on a page for ``text``, a key or the name of a column; what has no name there stays as it is.

    Example:
        >>> shown("tiny_imagenet"), shown("temperature_scaling:ece"), shown("mbls margin=0")
        ('Tiny-ImageNet', 'TS-ECE', 'MbLS, m = 0')
        >>> shown("class_temperature_scaling accuracy_constraint=False"), shown("seen on 20 images")
        ('CTS, no accuracy constraint', 'seen on 20 images')
    """
    if text in SHOWN:
        return SHOWN[text]
    try:
        key = Key.parse(text)
    except ValueError:
        return text
    return _of(key) if key.name in SHOWN else text


def _of(key: Key) -> str:
    aim = _of(key.objective) if key.objective else ""
    name = SHOWN.get(key.name, key.name) + (f"-{aim}" if aim.isupper() else f", {aim}" if aim else "")
    return ", ".join([name, *(_option(*item) for item in key.options.items())])


def _option(name: str, value: object) -> str:
    name = OPTIONS.get(name, name.replace("_", " "))
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return f"{name} = {value}"


def titles_of(networks: Sequence[str]) -> list[str]:
    """For each network or path another title: its data set or file; where two share one, its name or a number, too.

    Example:
        >>> titles_of(["cifar10/resnet20-mbls-s0", "runs/mine.npz"])
        ['CIFAR-10', 'mine.npz']
        >>> titles_of(["cifar10/resnet20-mbls-s0", "cifar10/resnet20-mbls-s1"])
        ['cifar10/resnet20-mbls-s0', 'cifar10/resnet20-mbls-s1']
        >>> titles_of(["mine.npz", "mine.npz"])
        ['mine.npz (1)', 'mine.npz (2)']
    """
    for titles in ([_data_of(name) for name in networks], list(networks)):
        if len(set(titles)) == len(titles):
            return titles
    return [f"{name} ({i})" for i, name in enumerate(networks, 1)]


def _data_of(name: str) -> str:
    try:
        return shown(Network.parse(name).dataset)
    except ValueError:
        return Path(name).name
