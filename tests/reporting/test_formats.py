"""Files that are damaged, endless or larger than they look are refused in one wording, with their name."""

import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch

from calibkit import _files
from calibkit.reading import read


@pytest.fixture
def arrays(sample):
    z, y = sample(60)
    return {"logits": z, "labels": y}


WATCHED = """
import sys
from calibkit.reading import read
for path in sys.argv[1:]:
    try:
        read(path, [0], kind="logits")
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_what_does_not_end_is_refused_at_once(tmp_path):
    paths = [tmp_path / f"{what}.{suffix}" for what in ("pipe", "zero") for suffix in ("csv", "parquet", "npy", "pt")]
    for path in paths:
        os.mkfifo(path) if path.stem == "pipe" else path.symlink_to("/dev/zero")
    command = [sys.executable, "-c", WATCHED, *map(str, paths)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert said == [f"Expected `path` to be a regular file, but got '{path}'" for path in paths]


def test_a_damaged_parquet_file_is_told_by_its_name(arrays, tmp_path):
    """Cut and flipped at many places: what is still read is a table; all else is the one wording."""
    path = tmp_path / "mine.parquet"
    pd.DataFrame(arrays["logits"], columns=list("abc")).assign(label=arrays["labels"]).to_parquet(path)
    whole = path.read_bytes()
    step = len(whole) // 60
    damaged = [whole[:i] for i in range(0, len(whole), step)]
    damaged += [whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :] for i in range(0, len(whole), step)]
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            read(path, kind="logits")
        except ValueError as error:
            assert str(error).startswith("Expected `")
            refused += "mine.parquet" in str(error)
    assert refused > 60


def test_a_torch_file_is_as_large_as_what_it_holds(tmp_path):
    """Views that repeat one number take no room in the file, and all of the memory."""
    long = {"logits": torch.zeros(1, 1).expand(10**9, 3), "labels": torch.zeros(1, dtype=torch.long).expand(10**9)}
    torch.save(long, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").stat().st_size < 3000
    with pytest.raises(ValueError, match="more than .* bytes of arrays beyond the size of the file in '.*x.pt'"):
        read(tmp_path / "x.pt")


def test_a_compressed_torch_file_is_bounded(arrays, tmp_path, monkeypatch):
    stream = io.BytesIO()
    torch.save({"logits": torch.zeros(10**5, 3), "labels": torch.zeros(10**5)}, stream)
    with zipfile.ZipFile(stream) as source, zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry))
    monkeypatch.setattr(_files, "LARGEST", 10**5)
    with pytest.raises(ValueError, match="more than 100,000 bytes .*x.pt'"):
        read(tmp_path / "x.pt")


def test_a_parquet_file_is_bounded_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pd.DataFrame(np.zeros((10**5, 3)), columns=list("abc")).assign(label=0).to_parquet(path)
    monkeypatch.setattr(_files, "LARGEST", 10**6)
    with pytest.raises(
        ValueError, match="more than 1,000,000 bytes of arrays beyond the size of the file in '.*x.parquet'"
    ):
        read(path, kind="logits")


def test_a_zip_under_the_name_of_an_array_is_none(arrays, tmp_path):
    np.savez(tmp_path / "big.npz", **arrays)
    (tmp_path / "big.npz").rename(tmp_path / "logits.npy")
    np.save(tmp_path / "labels.npy", arrays["labels"])
    for source in (tmp_path, tmp_path / "logits.npy"):
        with pytest.raises(
            ValueError, match="^Expected `path` to be an array of numbers that numpy.save wrote.*logits.npy'"
        ):
            read(source, *([] if source == tmp_path else [arrays["labels"]]), kind="logits")


def test_numbers_that_numpy_does_not_have_are_read(arrays):
    for dtype in (torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16, torch.float16):
        z = torch.from_numpy(arrays["logits"]).to(dtype)
        given = read({"logits": z, "labels": arrays["labels"]})
        np.testing.assert_array_equal(given.val.outputs.astype(np.float32), z.float().numpy())


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantised_and_conjugated_tensors_are_read(arrays):
    z = torch.quantize_per_tensor(torch.from_numpy(arrays["logits"]).float(), 0.1, 10, torch.qint8)
    np.testing.assert_array_equal(read({"logits": z, "labels": arrays["labels"]}).val.outputs, z.dequantize().numpy())
    turned = torch.complex(torch.ones(4, 2), torch.ones(4, 2)).conj()
    assert (read({"logits": turned, "labels": arrays["labels"][:4]}).val.outputs == 1 - 1j).all()


def test_decimal_commas_between_tabs_and_signs_that_are_none(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("logit_cat\tlogit_dog\tlabel\n0,5\t-1,25\tcat\n2,0\t3,5\tdog\n")
    np.testing.assert_array_equal(read(path).val.outputs, [[0.5, -1.25], [2, 3.5]])
    path.write_text("logit_cat\tlogit_dog\tlabel\n0.5\t\u22121.25\tcat\n2.0\t3.5\tdog\n")
    with pytest.raises(ValueError, match="in the column 'logit_dog', row 1; a number is written as -0.5 or 5e-1"):
        read(path)


def test_arrays_of_two_splits_by_savez(arrays, tmp_path):
    """Under the names of the guide, in half precision; and other names are told what would be read."""
    z, y = arrays["logits"].astype(np.float16), arrays["labels"]
    probs = np.exp(arrays["logits"])
    probs /= probs.sum(1, keepdims=True)
    for name, outputs in (("logits", z), ("probs", probs)):
        given = {f"val_{name}": outputs[:40], "val_labels": y[:40], f"test_{name}": outputs[40:], "test_labels": y[40:]}
        np.savez(tmp_path / f"{name}.npz", **given)
        found = read(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(found.test.labels, y[40:])
        np.testing.assert_array_equal(found.val.outputs, outputs[:40])
    np.savez(tmp_path / "odd.npz", z_val=z[:40], y_val=y[:40])
    with pytest.raises(ValueError, match="arrays named logits, probs, .*, or val_ or test_ before it, but got none"):
        read(tmp_path / "odd.npz")
