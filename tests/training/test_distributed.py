"""Two processes on CPUs take the steps of one: same batches, same batch statistics, same loss."""

import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import training_of_layers
from digits_runs import train_digits
from torch import nn

from calibkit.logits import Logits
from calibkit.training.distributed import SyncBatchNorm, gather_batch, launch, synchronise
from calibkit.training.run_folder import lock

NAMES = ("crl", "mdca", "cutmix", "skipped")

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from training_of_layers import train
names, devices, nodes, folder = sys.argv[1:]
for name in names.split(","):
    train(name, folder + "/" + name, devices=int(devices), nodes=int(nodes))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "run.py"
    path.write_text(SCRIPT.format(tests=str(Path(training_of_layers.__file__).parent)))
    return path


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Folders of runs on one process."""
    folder = tmp_path_factory.mktemp("one")
    for name in NAMES:
        training_of_layers.train(name, folder / name)
    return folder


def assert_same(one, two):
    logits = [Logits.load(folder / "logits.npz") for folder in (one, two)]
    np.testing.assert_allclose(logits[1].test_logits, logits[0].test_logits, rtol=1e-8, atol=1e-8)
    assert logits[1].meta["accuracy"] == logits[0].meta["accuracy"]
    rows = [np.loadtxt(folder / "log.csv", delimiter=",", skiprows=1, usecols=range(6)) for folder in (one, two)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-8)


def test_two_processes_give_the_result_of_one(tmp_path, script, one):
    """CRL pairs rows of the batch and counts over epochs, MDCA averages over it: neither is a mean over rows. CutMix
    pairs images of different processes. A layer that is skipped has no gradient.
    """
    command = [sys.executable, script, ",".join(NAMES), "2", "1", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in NAMES:
        assert_same(one / name, tmp_path / name)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def machines(command, port):
    """Two processes that know of each other by the environment alone, as on two machines; what each printed."""
    started = []
    for rank in ("0", "1"):
        where = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": rank}
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=where))
    return [(machine.communicate(timeout=300)[1], machine.returncode) for machine in started]


def test_two_machines_give_the_result_of_one(tmp_path, script, one):
    for printed, code in machines([sys.executable, script, "mdca", "1", "2", tmp_path], free_port()):
        assert code == 0, printed
    assert_same(one / "mdca", tmp_path / "mdca")


def test_two_machines_are_both_refused_a_folder_in_which_another_run_trains(tmp_path, script):
    """Only the first one asks for the lock, and both say the same: neither waits for the other."""
    with lock(tmp_path / "mdca"):
        for printed, code in machines([sys.executable, script, "mdca", "1", "2", tmp_path], free_port()):
            assert code == 1
            assert "Expected `folder` to be one that no other training writes to" in printed
    assert not any((tmp_path / "mdca").iterdir())


def test_several_processes_that_are_asked_to_be_one(tmp_path, monkeypatch):
    """As torchrun starts them where ``devices`` is forgotten: each would train by itself."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"Expected `devices` to be 2 over all `nodes`, .*\(WORLD_SIZE\), but got 1"):
        train_digits(tmp_path)
    assert not any(tmp_path.iterdir())
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert launch("cpu", 1, 1, "64-true").world_size == 1


def test_torchrun_without_devices_is_refused_by_the_command_line(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
    train = ["-m", "calibkit", "train", "--dataset", "digits", "--model", "small_cnn", "--budget", "smoke"]
    done = subprocess.run(
        [*command, *train, "--out", tmp_path / "run"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode != 0
    assert "Expected `devices` to be 2 over all `nodes`" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_machine_with_slurm_warns_of_nothing(tmp_path, monkeypatch):
    """One process is no Slurm job, also where `srun` is on the PATH, and inside of a job of several tasks."""
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\nexit 1\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert shutil.which("srun") == str(srun)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert launch("cpu", 1, 1, "64-true").world_size == 1
        monkeypatch.setenv("SLURM_NTASKS", "2")
        assert launch("cpu", 1, 1, "64-true").is_global_zero


class Ranks:
    """One of two processes, the other of which holds ones."""

    world_size = 2

    def __init__(self, global_rank):
        self.global_rank = global_rank

    def all_reduce(self, rows, reduce_op):
        assert reduce_op == "sum"
        others = torch.ones_like(rows)
        others[self.global_rank :: 2] = 0
        return rows + others


def test_the_rows_of_a_batch_are_gathered_in_their_order():
    for rank in [0, 1]:
        part = torch.arange(2.0, 8.0).view(3, 2)[: 3 - rank].requires_grad_()
        rows = gather_batch(Ranks(rank), part, 5)
        expected = torch.ones(5, 2)
        expected[rank::2] = part.detach()
        assert torch.equal(rows, expected)
        rows.square().sum().backward()
        assert torch.equal(part.grad, 2 * part.detach())  # only this process's rows
        hits = gather_batch(Ranks(rank), torch.tensor([False, True, False])[: 3 - rank], 5)
        assert hits.dtype == torch.bool and hits.sum() == (3 if rank == 0 else 4)


def test_synchronised_batch_statistics_are_those_of_torch_on_one_process(tmp_path):
    """With a world of one: output, running statistics and gradients of nn.BatchNorm2d."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        x = torch.randn(6, 3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        results = []
        for cls in (nn.BatchNorm2d, SyncBatchNorm):
            norm, z = cls(3).double(), x.clone().requires_grad_()
            y = norm(z)
            (y * torch.arange(y.numel(), dtype=torch.float64).view_as(y).sin()).sum().backward()
            results.append([y, z.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var])
        for theirs, ours in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    finally:
        torch.distributed.destroy_process_group()


def test_synchronise_replaces_every_batch_normalisation_and_nothing_else():
    """With its parameters, statistics, options, mode and precision."""
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, eps=1e-3, momentum=0.2), nn.Sequential(nn.BatchNorm1d(4))
    )
    network = network.double()
    network[1].running_mean.fill_(2.0)
    network[2].eval()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    synced = synchronise(network, torch.device("cpu"))
    assert [type(module).__name__ for module in synced.modules()][1:] == [
        "Conv2d", "SyncBatchNorm", "Sequential", "SyncBatchNorm"
    ]  # fmt: skip
    assert (synced[1].eps, synced[1].momentum, synced[1].training, synced[2][0].training) == (1e-3, 0.2, True, False)
    assert list(synced.state_dict()) == list(state)
    assert all(torch.equal(value, state[name]) for name, value in synced.state_dict().items())
    assert {value.dtype for value in synced.parameters()} == {torch.float64}
