"""Which network of ours is held against a printed one that nobody here has trained.

One table, read by ``compare`` and so by every chapter and by the front page. A stand-in counts only where a cell has no
number of ours for the paper's own network; its value is never held against the printed one.
"""

#: paper -> printed model, or "dataset/model" where that depends on the data -> model of ours, or "dataset/model" where
#: it was trained on other data too.
STAND_INS: dict[str, dict[str, str]] = {
    "neural_clamping": {"resnet110": "resnet20"},
    "class_temperature_scaling": {
        "resnet110": "resnet20",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
    },
    "class_loss_scaling": {"resnet110": "resnet20"},
    "mbls": {
        "cifar10/resnet50": "resnet20",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
        "deeplabv3_resnet34": "camvid/deeplabv3_resnet34",
    },
    "acls": {
        "cifar10/resnet50": "resnet20",
        "tiny_imagenet/resnet50": "tiny_imagenet_20/resnet20",
        "deeplabv3_resnet50": "camvid/deeplabv3_resnet34",
    },
}
