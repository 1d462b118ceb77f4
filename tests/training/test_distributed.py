"""Two processes take the steps of one: same batches, same loss."""

import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import digits_runs
import numpy as np
import pytest
import torch
from digits_runs import train_digits, train_layers
from refusals import refused

from calibkit.logits import Logits
from calibkit.training.run_folder import lock
from calibkit.training.setup import at_speed, launch
from calibkit.training.trainer import gather_batch

NAMES = ("crl", "mdca", "cutmix", "cape", "skipped")

SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from digits_runs import train_layers
names, devices, nodes, folder = sys.argv[1:]
for name in names.split(","):
    train_layers(name, folder + "/" + name, devices=int(devices), nodes=int(nodes))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "run.py"
    path.write_text(SCRIPT.format(tests=str(Path(digits_runs.__file__).parent)))
    return path


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Folders of runs on one process."""
    folder = tmp_path_factory.mktemp("one")
    for name in NAMES:
        train_layers(name, folder / name)
    return folder


def assert_same(one, two):
    logits = [Logits.load(folder / "logits.npz") for folder in (one, two)]
    np.testing.assert_allclose(logits[1].test_logits, logits[0].test_logits, rtol=1e-8, atol=1e-8)
    assert logits[1].meta["accuracy"] == logits[0].meta["accuracy"]
    rows = [np.loadtxt(folder / "log.csv", delimiter=",", skiprows=1, usecols=range(6)) for folder in (one, two)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-8)


@pytest.mark.slow
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
    """Two processes that know of each other by the environment alone, as on two machines; what each printed.

    One thread each, as the single process has: with two, sums in float32 end in other digits.
    """
    where = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=where | {"NODE_RANK": rank}) for rank in "01"
    ]
    return [(machine.communicate(timeout=300)[1], machine.returncode) for machine in started]


@pytest.mark.slow
def test_two_machines_give_the_result_of_one(tmp_path, script, one):
    for printed, code in machines([sys.executable, script, "mdca", "1", "2", tmp_path], free_port()):
        assert code == 0, printed
    assert_same(one / "mdca", tmp_path / "mdca")


@pytest.mark.slow
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
    refused(r"`devices` to be 2 over all `nodes`, .*\(WORLD_SIZE\), but got 1", train_digits, tmp_path)
    assert not any(tmp_path.iterdir())
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert launch("cpu", 1, 1, "64-true").world_size == 1


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


@pytest.mark.slow
def test_bfloat16_only_where_the_processor_has_it():
    """On the older one that oneDNN is told to take this one for, bfloat16 takes nine times as long."""
    script = "from calibkit.training.setup import at_speed; print(at_speed('cpu', 'bf16-mixed'))"
    older = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run([sys.executable, "-c", script], env=older, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["32-true"]
    has_it = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert at_speed("cpu", "bf16-mixed") == ("bf16-mixed" if has_it else "32-true")
    assert at_speed("cpu", "64-true") == "64-true"
