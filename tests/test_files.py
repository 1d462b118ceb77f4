"""Files: whole or absent, nobody's but the writer's while they are written, and read with suspicion."""

import io
import os
import signal
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from refusals import refused

from calibkit import _files
from calibkit._files import read_folder, read_npy, read_npz, remove_strays, write_atomic, write_npz
from calibkit.calibrators import calibrator
from calibkit.logits import Logits
from calibkit.metrics import Monitor
from calibkit.reading import read

ARRAYS = {"x": np.arange(6.0).reshape(2, 3), "y": np.array([1, 0]), "meta": np.array("{}")}


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = write_atomic(tmp_path / "a" / "file", lambda stream: stream.write(b"old"))
    with pytest.raises(ZeroDivisionError):
        write_atomic(path, lambda stream: stream.write(b"new") / 0)
    assert path.read_bytes() == b"old" and list(path.parent.iterdir()) == [path]


def test_the_mode_is_that_of_the_old_file_or_of_any_new_one(tmp_path):
    path, plain = tmp_path / "file", tmp_path / "plain"
    plain.touch()
    write_atomic(path, lambda stream: None)
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_atomic(path, lambda stream: stream.write(b"new"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.read_bytes() == b"new"


def test_temporary_names_are_new_each_time_and_never_followed(tmp_path, monkeypatch):
    names = []
    for _ in range(2):
        write_atomic(tmp_path / "file", lambda stream: names.append(stream.name))
    assert names[0] != names[1] and all(_files._TEMPORARY.fullmatch(os.path.basename(name)) for name in names)
    (tmp_path / f".file.{'0' * 16}.tmp").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(_files.secrets, "token_hex", lambda n: "0" * 2 * n)
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "file", lambda stream: stream.write(b"x"))
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_is_synced_after_the_file_has_its_name(tmp_path, monkeypatch):
    synced = []
    path = tmp_path / "file"
    monkeypatch.setattr(
        _files.os, "fsync", lambda number: synced.append((os.readlink(f"/proc/self/fd/{number}"), path.exists()))
    )
    write_atomic(path, lambda stream: stream.write(b"x"))
    (first, before), (second, after) = synced
    assert _files._TEMPORARY.fullmatch(os.path.basename(first)) and not before
    assert (second, after) == (str(tmp_path), True)
    write_atomic(path, lambda stream: stream.write(b"x"), sync=False)
    assert len(synced) == 2


WRITER = """
import sys, time
from calibkit._files import write_atomic
def write(stream):
    print("writing", flush=True)
    sys.stdin.read()
write_atomic(sys.argv[1], write)
"""


@pytest.mark.slow
def test_strays_are_those_of_dead_writers_only(tmp_path):
    """By the lock that a writer holds, not by its number, which another machine does not know."""
    other = tmp_path / ".editor.tmp"
    other.touch()
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        (temporary,) = tmp_path.glob(".file.*.tmp")
        remove_strays(tmp_path)
        assert temporary.exists()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert temporary.exists()
    remove_strays(tmp_path)
    assert list(tmp_path.iterdir()) == [other]


def test_a_new_file_that_is_taken_for_a_stray_is_made_again(tmp_path, monkeypatch):
    """Between its creation and its lock another process may remove it."""
    lock, calls = _files._lock, []

    def late(stream):
        calls.append(stream.name)
        if len(calls) == 1:
            os.unlink(stream.name)
        return lock(stream)

    monkeypatch.setattr(_files, "_lock", late)
    assert write_atomic(tmp_path / "file", lambda stream: stream.write(b"x")).read_bytes() == b"x"
    assert len(calls) == 2


def test_only_what_is_asked_for_is_read(tmp_path):
    path = write_npz(tmp_path / "a.npz", ARRAYS)
    np.testing.assert_equal(read_npz(path), ARRAYS)
    np.testing.assert_equal(read_npz(path, ["y", "absent"]), {"y": ARRAYS["y"]})
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("x.npy").header_offset + 70
    raw[start] ^= 255  # within the data of x
    path.write_bytes(raw)
    assert read_npz(path, ["y"])["y"].tolist() == [1, 0]
    refused("`path` to be a whole npz file", read_npz, path)


def test_sizes_are_bounded_before_they_are_read(tmp_path, monkeypatch):
    path = write_npz(tmp_path / "a.npz", {**ARRAYS, "zeros": np.zeros(10**6)})
    monkeypatch.setattr(_files, "LARGEST", 10**6)
    refused(".*1,000,000 bytes of arrays beyond the size of the file in '.*a.npz'", read_npz, path)
    assert set(read_npz(path, ARRAYS)) == set(ARRAYS)


def test_what_is_written_is_read_whatever_its_size(tmp_path, monkeypatch):
    """A file of its own size is no trap: only what it unpacks to beyond that is bounded."""
    for compress in [True, False]:
        monkeypatch.setattr(_files, "LARGEST", 10**6)
        arrays = {"x": np.random.default_rng(0).normal(size=(10**6, 2)), "n": np.arange(10)}
        path = write_npz(tmp_path / "a.npz", arrays, compress=compress)
        np.testing.assert_equal(read_npz(path), arrays)


def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "LARGEST", 10**6)
    path = write_npz(tmp_path / "a.npz", ARRAYS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"Expected `arrays` to be of at most 1,000,000 bytes more than their file"):
        write_npz(path, {"zeros": np.zeros(10**6)})
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    zeros = {"zeros": np.zeros(10**6)}
    np.testing.assert_equal(read_npz(write_npz(path, zeros, compress=False)), zeros)


def test_a_header_promises_no_more_than_there_is(tmp_path):
    """numpy would make room for all of it first."""
    stream = io.BytesIO()
    facts = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    np.lib.format.write_array_header_1_0(stream, facts)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + bytes(80))
    refused(".*an array of another size than its header says, as x.npy in '.*a.npz'", read_npz, tmp_path / "a.npz")


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        refused("`path` to be a regular file, but got", read_npz, path)
    with pytest.raises(FileNotFoundError):
        read_npz(tmp_path / "absent")
    for call in (read_npz, read, lambda path: write_npz(path, ARRAYS), lambda path: calibrator(f"{path}.py:Mine")):
        for odd in "\0", "\ud800", "\udfff":
            refused("`path` to be without NUL characters and lone .*, but got ", call, f"a{odd}.npz")
    for call in (read_npz, lambda path: write_npz(path, ARRAYS), Logits.load, Monitor.load):
        for odd in (3, None, b"a.npz", ["a.npz"]):
            refused("`path` to be text or a pathlib.Path, but got ", call, odd)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_damaged_file_says_so_and_never_gives_other_numbers(tmp_path, save):
    """Cut at every length, and every byte flipped: the arrays as they were, or the one wording with the file's name."""
    save(tmp_path / "a.npz", **ARRAYS)
    whole = (tmp_path / "a.npz").read_bytes()
    flipped = (whole[:i] + bytes([whole[i] ^ 0x55]) + whole[i + 1 :] for i in range(len(whole)))
    refused = 0
    for damaged in [*(whole[:i] for i in range(len(whole))), *flipped]:
        (tmp_path / "a.npz").write_bytes(damaged)
        try:
            found = read_npz(tmp_path / "a.npz", ARRAYS)
        except ValueError as error:
            assert str(error).startswith("Expected `path` to be a whole npz file") and "a.npz'" in str(error)
            refused += 1
        else:
            np.testing.assert_equal(found, {name: ARRAYS[name] for name in found})
    assert refused > 1.2 * len(whole)


def test_what_is_no_file_stays_and_a_link_stays_a_link(tmp_path):
    target, link, pipe, folder = (tmp_path / name for name in ("target", "link", "pipe", "folder"))
    target.write_bytes(b"old")
    link.symlink_to(target)
    os.mkfifo(pipe)
    folder.mkdir()
    assert write_atomic(link, lambda stream: stream.write(b"new")) == link
    assert link.is_symlink() and target.read_bytes() == b"new"
    for path in (pipe, folder):
        with pytest.raises(ValueError, match=f"Expected `path` to be that of a file, but got '{path}', which is none"):
            write_atomic(path, lambda stream: stream.write(b"new"))
    assert pipe.is_fifo() and folder.is_dir()


def test_a_name_that_cannot_be_used_is_the_one_that_was_given(tmp_path):
    path = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="x" * 300) as error:
        write_atomic(path, lambda stream: None)
    assert error.value.filename == str(path)


FULL = """
import resource, signal, sys
import numpy as np
from calibkit._files import write_atomic, write_npz
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
noise = np.random.default_rng(0).normal(size=10_000)
writers = {"bytes": lambda path: write_atomic(path, lambda stream: stream.write(bytes(6000))),
           "buffered": lambda path: write_atomic(path, lambda stream: [stream.write(bytes(100)) for _ in range(60)]),
           "npz": lambda path: write_npz(path, {"x": noise})}
for name, write in writers.items():
    try:
        write(f"{sys.argv[1]}/{name}")
    except OSError as error:
        print(name, error.filename, error.strerror)
"""


@pytest.mark.slow
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [f"{name} {tmp_path / name} File too large" for name in ("bytes", "buffered", "npz")]
    assert list(tmp_path.iterdir()) == []


def test_an_array_alone_is_read_with_the_same_suspicion(tmp_path):
    np.save(tmp_path / "a.npy", ARRAYS["x"])
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), ARRAYS["x"])
    whole = (tmp_path / "a.npy").read_bytes()
    np.savez(tmp_path / "zip.npz", **ARRAYS)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    bad = {
        "zip": (tmp_path / "zip.npz").read_bytes(),
        "objects": (tmp_path / "objects.npy").read_bytes(),
        "promise": stream.getvalue() + bytes(80),
        "cut": whole[:-1],
        "longer": whole + b"x",
        "empty": b"",
    }
    for name, content in bad.items():
        (tmp_path / f"{name}.npy").write_bytes(content)
        refused(f"`path` to be an array of numbers .*/{name}.npy'", read_npy, tmp_path / f"{name}.npy")
        refused("`path` to be an array of numbers", read_folder, tmp_path, [name])
    os.mkfifo(tmp_path / "pipe.npy")
    refused("`path` to be a regular file", read_npy, tmp_path / "pipe.npy")
