"""Preparing what others published, from a copy: whole, wrong, cut short, absent, here already."""

import os
import pickle
import re
import threading
from collections import Counter

import numpy as np
import pytest
import torch
from published_copies import FILES, LOGITS, STATE, TARGETS, Server, npy, run, same, saved, tabulate

from calibkit import networks
from calibkit.__main__ import main
from calibkit.data import _archive, published


@pytest.fixture
def server(data_cache, tmp_path, monkeypatch):
    """The files of ``FILES`` behind an address, and a table of them."""
    with Server({name: content for name, content in FILES.values()}) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(published, "TABLE", tmp_path / "published.csv")
        tabulate(f"http://127.0.0.1:{server.server_address[1]}/repository/")
        yield server
        server.shutdown()
        thread.join()


def states(**others):
    return {name: others.get(name.partition("/")[2], "written") for name in TARGETS} | {
        "logits/all": "skipped: one large file"
    }


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_every_format_becomes_arrays(server, data_cache, capsys):
    assert run(capsys) == (0, states(), "")
    for name, arrays in LOGITS.items():
        same(data_cache / "logits" / f"{name}.npz", arrays)
    state = {name: tensor.numpy() for name, tensor in STATE.items()}
    state["conv1.weight"] = state["conv1.weight"].astype(np.float16)
    same(data_cache / "weights" / "pth.npz", state)
    assert set(networks.published()) == set(LOGITS)
    np.testing.assert_array_equal(networks.load_logits("p").test_labels, LOGITS["p"]["test_labels"])
    main(["data", "list"])
    assert re.search(r"published +4 of 4", capsys.readouterr().out)


def test_twice_is_once(server, data_cache, capsys):
    run(capsys)
    assert Counter(server.asked) == Counter(name for name, _ in FILES.values())
    written = {path: path.stat().st_mtime_ns for path in data_cache.rglob("*.npz")}
    assert run(capsys) == (0, states(npy="here", p="here", pt="here", pth="here"), "")
    assert len(server.asked) == len(FILES)
    assert {path: path.stat().st_mtime_ns for path in data_cache.rglob("*.npz")} == written


def test_what_is_damaged_is_made_again(server, data_cache, capsys):
    """From the files that were fetched, and fetching those that are wrong."""
    run(capsys)
    (data_cache / "logits" / "npy.npz").write_bytes((data_cache / "logits" / "npy.npz").read_bytes()[:-30])
    (data_cache / "logits" / "p.npz").unlink()
    next(data_cache.rglob("probs.p")).write_bytes(b"what something else left here")
    server.asked.clear()
    assert run(capsys) == (0, states(pt="here", pth="here"), "")
    assert server.asked == ["probs.p"]
    same(data_cache / "logits" / "npy.npz", LOGITS["npy"])
    same(data_cache / "logits" / "p.npz", LOGITS["p"])


def absent(server):
    del server.files["probs.p"], server.files["resnet.pth"]
    return "HTTP Error 404", "HTTP Error 404"


def cut_short(server):
    server.cut.add("probs.p")
    server.chunked.add("resnet.pth")
    n = len(server.files["probs.p"])
    return f"the connection ended {n - n // 2} bytes early", "IncompleteRead"


def another_size(server):
    n = len(server.files["probs.p"])
    for name in ("probs.p", "resnet.pth"):
        server.files[name] += b"x"
    return f"Expected `archive` to be a file of {n:,} bytes, but got {n + 1:,}", "a file with GIT [0-9a-f]{40}, but got"


def another_content(server):
    for name in ("probs.p", "resnet.pth"):
        server.files[name] = bytes([server.files[name][0] ^ 1]) + server.files[name][1:]
    return r"a file with SHA256 [0-9a-f]{64}, but got", "a file with GIT [0-9a-f]{40}, but got"


@pytest.mark.parametrize("wrong", [absent, cut_short, another_size, another_content])
def test_two_sources_fail_and_the_others_are_written(server, data_cache, capsys, wrong):
    whole = dict(server.files)
    why = wrong(server)
    status, found, said = run(capsys)
    assert (status, found) == (1, states(p="failed", pth="failed"))
    head, *lines = said.splitlines()
    assert head == "2 could not be had:"
    for line, target, name, reason in zip(
        lines, ("logits/p", "weights/pth"), ("probs.p", "resnet.pth"), why, strict=True
    ):
        assert re.fullmatch(f"{target}: .*{reason}.*", line) and name in line
    left = files_below(data_cache)
    assert not [name for name in left if "probs" in name or "resnet" in name or name.endswith(".tmp")]
    assert [name for name in left if name.endswith(".npz")] == ["logits/npy.npz", "logits/pt.npz"]
    server.files |= whole
    server.cut.clear()
    server.chunked.clear()
    assert run(capsys) == (0, states(npy="here", pt="here"), "")
    same(data_cache / "logits" / "p.npz", LOGITS["p"])


def test_it_goes_on_after_a_kill(server, data_cache, capsys, monkeypatch):
    """Stopped in the third of four files: two are not fetched again, and nothing is left that is half."""
    copy, copied = _archive.shutil.copyfileobj, []

    def stopped(response, stream):
        copied.append(response.url)
        if len(copied) == 3:
            stream.write(response.read(10))
            raise KeyboardInterrupt
        copy(response, stream)

    monkeypatch.setattr(_archive.shutil, "copyfileobj", stopped)
    status, _, told = run(capsys)
    assert (status, told) == (130, "interrupted\n")
    assert [name.rpartition("/")[2] for name in files_below(data_cache)] == ["val_labels.npy", "val_logits.npy"]
    stray = next(data_cache.rglob("val_labels.npy")).with_name(
        ".test_logits.npy.0123456789abcdef.tmp"
    )  # what a kill leaves
    stray.write_bytes(b"half")
    server.asked.clear()
    assert run(capsys) == (0, states(), "")
    assert not stray.exists() and "val_labels.npy" not in server.asked and "test_logits.npy" in server.asked


class Evil:
    def __init__(self, path):
        self.words = f"touch {path}"

    def __reduce__(self):
        return os.system, (self.words,)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("probs.p", lambda path: pickle.dumps([Evil(path), Evil(path)]), r"a pickle of two pairs .* got \w+\.system"),
        ("val.pt", lambda path: saved((Evil(path), Evil(path))), "a file of tensors that torch.save wrote"),
        ("val.pt", lambda path: saved(torch.zeros(2, 2)), "a pair of tensors, logits and labels"),
        ("resnet.pth", lambda path: saved({"a": Evil(path)}), "a file of tensors that torch.save wrote"),
        ("resnet.pth", lambda path: saved({"state_dict": {}}), "the state of a network: tensors by name"),
        ("val_logits.npy", lambda path: npy(np.array([Evil(path)])), "an array of numbers that numpy.save wrote"),
        ("val_logits.npy", lambda path: npy(np.full((5, 3), np.nan)), "Expected `val_logits` to be finite"),
        ("val_logits.npy", lambda path: npy(np.zeros((4, 3))), r"Expected `val_labels` to be of shape \(4,\)"),
    ],
)
def test_what_is_as_published_and_no_numbers_is_refused(server, data_cache, tmp_path, capsys, name, content, reason):
    """Nothing is run, whatever its checksum."""
    files = {of: (file, content(tmp_path / "ran") if file == name else old) for of, (file, old) in FILES.items()}
    server.files |= dict(files.values())
    tabulate(f"http://127.0.0.1:{server.server_address[1]}/repository/", files)
    target = next(target for (target, _), (file, _) in files.items() if file == name)
    status, found, said = run(capsys)
    assert (status, found) == (1, states(**{target.partition("/")[2]: "failed"}))
    assert re.search(f"{target}: .*{reason}", said)
    assert not (tmp_path / "ran").exists() and not (data_cache / f"{target}.npz").exists()


def test_a_folder_of_one_s_own(server, data_cache, tmp_path, capsys):
    """As ``wget -x`` leaves it. What is wrong there is named, and stays."""
    folder = tmp_path / "mirror" / f"127.0.0.1:{server.server_address[1]}" / "repository"
    folder.mkdir(parents=True)
    for name, content in FILES.values():
        (folder / name).write_bytes(content)
    (folder / "probs.p").write_bytes(b"x")
    (folder / "resnet.pth").unlink()
    status, found, said = run(capsys, "--archive", tmp_path / "mirror")
    assert (status, found, server.asked) == (1, states(p="failed", pth="failed"), [])
    assert f"but got 1 in {folder / 'probs.p'}" in said and "resnet.pth" in said
    assert (folder / "probs.p").exists() and not (data_cache / "archives").exists()
    assert main(["data", "prepare", "published", "--splits", "val"]) == 1
    assert "Expected `splits` to be left out" in capsys.readouterr().err
