"""A few generated samples in the official on-disk layout of every data set, and what they should become."""

import hashlib
import io
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from calibkit.data import DATASETS, prepare

RNG = np.random.default_rng(0)


def encoded(kind, width, height, low=0, high=256, mode="RGB"):
    """An image in its file format and, as PIL decodes it, as an array."""
    array = RNG.integers(low, high, (height, width) if mode in "LP" else (height, width, 3), dtype=np.uint8)
    image = Image.fromarray(array)
    if mode == "P":  # a palette image: its pixels are the numbers of colours, as VOC's masks are
        image.putpalette([(37 * i) % 256 for i in range(768)])
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue(), Image.open(io.BytesIO(stream.getvalue()))


def mat(**arrays):
    from scipy.io import savemat

    stream = io.BytesIO()
    savemat(stream, arrays, do_compression=True)
    return stream.getvalue()


def tar_bytes(members, mode="w"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def pack(folder, archives):
    """Write archives: members by name as zip or tar, by the file's name; bytes as they are."""
    folder.mkdir(exist_ok=True)
    for name, members in archives.items():
        if isinstance(members, bytes):
            content = members
        elif name.endswith(".zip"):
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for member, inside in members.items():
                    archive.writestr(member, inside)
            content = stream.getvalue()
        else:
            content = tar_bytes(members, "w:gz" if name.endswith("gz") else "w")
        (folder / name).write_bytes(content)


def square(picture, size):
    """What torchvision makes of an image: resized, then its central 224 x 224."""
    from torchvision.transforms import v2

    return np.asarray(v2.CenterCrop(224)(v2.Resize(size)(picture.convert("RGB"))))


def cifar(name):
    n_label_bytes, members, truth = (1 if name == "cifar10" else 2), {}, {}
    for split, parts in prepare.images.CIFAR_MEMBERS[name].items():
        images = RNG.integers(0, 256, (4 * len(parts), 32, 32, 3), dtype=np.uint8)
        labels = RNG.integers(0, 10, len(images))
        coarse = [np.full((len(images), 1), 255, np.uint8)] * (n_label_bytes - 1)
        records = np.hstack([*coarse, labels[:, None].astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(-1, 3072)])
        members |= {part: rows.tobytes() for part, rows in zip(parts, np.split(records, len(parts)), strict=True)}
        truth[split] = images, labels
    return {prepare.images.CIFAR[name].name: members}, truth


def tiny_imagenet(name):
    ids = [f"n{i:08d}" for i in RNG.permutation(20)]
    root, truth = "tiny-imagenet-200", {"train": ([], []), "val": ([], [])}
    members, rows = {f"{root}/wnids.txt": "\n".join(ids).encode()}, []
    for i in range(80):
        split, wnid = ("train", f"n{i // 3:08d}") if i < 60 else ("val", ids[i - 60])
        raw, picture = encoded("JPEG", 64, 64, mode="L" if i % 7 == 0 else "RGB")
        file = f"train/{wnid}/images/{wnid}_{i % 3}.JPEG" if i < 60 else f"val/images/val_{i - 60}.JPEG"
        members[f"{root}/{file}"] = raw
        if i >= 60:
            rows.append(f"val_{i - 60}.JPEG\t{wnid}\t0\t0\t62\t62\n")
        if name == "tiny_imagenet" or int(wnid[1:]) % 10 == 0:
            truth[split][0].append(np.asarray(picture.convert("RGB")))
            truth[split][1].append(int(wnid[1:]) // (1 if name == "tiny_imagenet" else 10))
    members[f"{root}/val/val_annotations.txt"] = "".join(rows).encode()
    members[f"{root}/test/images/test_0.JPEG"] = b"no label"
    return {"tiny-imagenet-200.zip": members}, truth


def svhn(name):
    members, truth = {}, {}
    for split, n in (("train", 30), ("test", 12)):
        images, digits = RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), np.arange(n) % 10
        truth[split] = images, digits
        y = np.where(digits == 0, 10, digits).astype(np.uint8)[:, None]
        members[f"{split}_32x32.mat"] = mat(X=images.transpose(1, 2, 3, 0), y=y)
    return members, truth


def cub200(name):
    truth = {"train": ([], []), "test": ([], [])}
    members, tables = {}, {"images": [], "image_class_labels": [], "train_test_split": []}
    for i, (species, training) in enumerate([(s, t) for s in range(3) for t in (1, 0, 1, 1)], 1):
        raw, picture = encoded("JPEG", 300 + i, 240)
        file = f"{species + 1:03d}.Bird/Bird_{i}.jpg"
        members[f"CUB_200_2011/images/{file}"] = raw
        for table, value in zip(tables, (file, species + 1, training), strict=True):
            tables[table].append(f"{i} {value}\n")
        truth["train" if training else "test"][0].append(square(picture, (256, 256)))
        truth["train" if training else "test"][1].append(species)
    members |= {f"CUB_200_2011/{table}.txt": "".join(lines).encode() for table, lines in tables.items()}
    return {"CUB_200_2011.tgz": {"attributes.txt": b"1 has_bill_shape"} | members}, truth


def imagenet(name):
    """The classes 2, 3, 1 of the devkit are the ids n01 < n02 < n03; its class 4 is their parent."""
    root, ids = "ILSVRC2012_devkit_t12/data", {2: "n01", 3: "n02", 1: "n03"}
    fields = [(field, object) for field in ("ILSVRC2012_ID", "WNID", "num_children")]
    synsets = np.array([(1, "n03", 0), (2, "n01", 0), (3, "n02", 0), (4, "n00", 3)], fields)[:, None]
    numbers = RNG.integers(1, 4, 9)
    truth_file = "\n".join(map(str, numbers)).encode()
    devkit = {f"{root}/meta.mat": mat(synsets=synsets), f"{root}/ILSVRC2012_validation_ground_truth.txt": truth_file}
    train, val, truth = {}, {}, {split: ([], []) for split in ("train", "val", "test")}
    for wnid in ("n03", "n01", "n02"):
        pictures = [encoded("JPEG", *size) for size in ((500, 333), (260, 400))]
        train[f"{wnid}.tar"] = tar_bytes({f"{wnid}_{i}.JPEG": raw for i, (raw, _) in enumerate(pictures)})
        truth["train"][0].extend(square(picture, 256) for _, picture in pictures)
        truth["train"][1].extend([int(wnid[1:]) - 1] * 2)
    first_half = np.random.default_rng(0).permutation(9)[:5]
    for i in range(9):
        val[f"ILSVRC2012_val_{i + 1:08d}.JPEG"], picture = encoded("JPEG", 300, 280)
        half = truth["val" if i in first_half else "test"]
        half[0].append(square(picture, 256))
        half[1].append(int(ids[numbers[i]][1:]) - 1)
    names = [file.name for file in prepare.images.IMAGENET]
    return dict(zip(names, (devkit, train, val), strict=True)), truth


def voc2012(name):
    root, members, truth = "VOCdevkit/VOC2012", {}, {}
    for split, sizes in (("train", [(500, 375), (333, 500), (61, 40)]), ("val", [(500, 500), (41, 60)])):
        truth[split], numbers = ([], []), []
        for i, (width, height) in enumerate(sizes):
            numbers.append(f"2007_{split}{i}")
            members[f"{root}/JPEGImages/{numbers[-1]}.jpg"], image = encoded("JPEG", width, height)
            members[f"{root}/SegmentationClass/{numbers[-1]}.png"], mask = encoded("PNG", width, height, 0, 21, "P")
            top, left = (512 - height) // 2, (512 - width) // 2
            around = ((top, 512 - height - top), (left, 512 - width - left))
            truth[split][0].append(np.pad(np.asarray(image), (*around, (0, 0))))
            truth[split][1].append(np.pad(np.asarray(mask), around, constant_values=255))
        members[f"{root}/ImageSets/Segmentation/{split}.txt"] = "\n".join(numbers).encode()
    return {"VOCtrainval_11-May-2012.tar": members}, truth


def camvid(name):
    """Every second row and column of an image of 2 x 2 blocks is that image, whatever the filter between them."""
    file, truth = prepare.images.CAMVID.name, {}
    members = {f"{file.removesuffix('.zip')}/README.md": b"SegNet"}
    for split, n in prepare.images.CAMVID_COUNTS.items():
        truth[split], names = ([], []), []
        for i in range(n):
            image, mask = np.zeros((180, 240, 3), np.uint8), RNG.integers(0, 12, (180, 240), dtype=np.uint8)
            image[:] = RNG.integers(0, 256, 3)
            for kind, array in ((split, image), (f"{split}annot", mask)):
                stream = io.BytesIO()
                Image.fromarray(array.repeat(2, 0).repeat(2, 1)).save(stream, "PNG")
                members[f"{file.removesuffix('.zip')}/CamVid/{kind}/{i}.png"] = stream.getvalue()
                names.append(f"/SegNet/CamVid/{kind}/{i}.png")
            truth[split][0].append(image)
            truth[split][1].append(mask)
        members[f"{file.removesuffix('.zip')}/CamVid/{split}.txt"] = " ".join(names).encode()
    return {file: members}, truth


def newsgroups(name):
    members, truth = {}, {}
    for split in ("test", "train"):
        truth[split] = []
        for group in ("sci.space", "alt.atheism"):
            for number in (9, 10, 11):
                text = f"From: me\nSubject: x\n\nCaf\xe9 orbit {group} {number}\n"
                members[f"20news-bydate-{split}/{group}/{number}"] = text.encode("latin-1")
                truth[split].append({"group": group, "id": str(number), "text": text})
        truth[split].sort(key=lambda row: (row["group"], row["id"]))
    return {"20news-bydate.tar.gz": members}, truth


LAYOUTS = {
    "cifar10": cifar,
    "cifar100": cifar,
    "svhn": svhn,
    "tiny_imagenet": tiny_imagenet,
    "tiny_imagenet_20": tiny_imagenet,
    "imagenet": imagenet,
    "cub200": cub200,
    "voc2012": voc2012,
    "camvid": camvid,
    "20newsgroups": newsgroups,
}
#: K and n_val of the copies.
SMALL = {
    "tiny_imagenet": (20, 20),
    "tiny_imagenet_20": (2, 2),
    "svhn": (10, 6),
    "cub200": (3, 3),
    "voc2012": (21, 1),
    "20newsgroups": (2, 2),
}


@pytest.fixture(params=LAYOUTS)
def made(request, tmp_path, monkeypatch):
    """name, archives and truth of a generated copy; ``official()`` packs the archives and publishes their digests."""
    name = request.param
    monkeypatch.setenv("CALIBKIT_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr("calibkit.data.order.FOLDER", tmp_path / "orders")  # the images are generated
    monkeypatch.setattr(prepare.images, "CAMVID_COUNTS", {"train": 3, "val": 2, "test": 2})
    if name in SMALL:
        n_classes, n_val = SMALL[name]
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], n_classes=n_classes, n_val=n_val))
    archives, truth = LAYOUTS[name](name)
    source = prepare.SOURCES[name]

    def official(archives=archives, cut=None):
        pack(tmp_path / "archives", archives)
        published = []
        for file in source.files:
            path = tmp_path / "archives" / file.name
            if cut == file.name:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            digest = file.digest and "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
            published.append(replace(file, digest=digest))
        monkeypatch.setitem(prepare.SOURCES, name, replace(source, files=tuple(published)))
        return tmp_path / "archives"

    return name, archives, truth, official
