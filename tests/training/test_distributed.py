"""Two processes on CPUs take the steps of one: same batches, same batch statistics, same loss."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from calibkit.logits import Logits
from calibkit.training.distributed import SyncBatchNorm

RUN = """
import sys, torch
from torch import nn
from calibkit.losses import LOSSES
from calibkit.training import Recipe, fit
torch.set_num_threads(1)
torch.manual_seed(0)
class Skipped(nn.Sequential):
    def forward(self, x):  # stochastic depth
        return super().forward(x) if not self.training or torch.rand(()) < 0.5 else x
layers = nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10)
name, devices, nodes, folder = sys.argv[1:]
if name == "skipped":
    layers = *layers[:4], Skipped(nn.Linear(72, 72)), layers[4]
model = nn.Sequential(*layers).double()
mixed, name = name == "cutmix", {"cutmix": "cross_entropy", "skipped": "cross_entropy"}.get(name, name)
recipe = Recipe(2, batch_size=51, lr=0.05, milestones=(), augment="none", precision="64-true",  # 31 rows remain
                cutmix=float(mixed))
loss = LOSSES[name](**({"n_samples": 1000} if name == "crl" else {}))
fit(model, loss, "digits", recipe, folder=folder, device="cpu", devices=int(devices), nodes=int(nodes))
"""


@pytest.mark.parametrize("name", ["crl", "mdca", "cutmix", "skipped"])
def test_two_processes_give_the_result_of_one(tmp_path, name):
    """CRL pairs rows of the batch and counts over epochs, MDCA averages over it: neither is a mean over rows. CutMix
    pairs images of different processes. A layer that is skipped has no gradient.
    """
    script = tmp_path / "run.py"
    script.write_text(RUN)
    for devices, folder in ((1, "one"), (2, "two")):
        command = [sys.executable, script, name, str(devices), "1", tmp_path / folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
    one, two = (Logits.load(tmp_path / folder / "logits.npz") for folder in ("one", "two"))
    np.testing.assert_allclose(two.test_logits, one.test_logits, rtol=1e-8, atol=1e-8)
    assert two.meta["accuracy"] == one.meta["accuracy"]
    rows = [
        np.loadtxt(tmp_path / run / "log.csv", delimiter=",", skiprows=1, usecols=range(6)) for run in ("one", "two")
    ]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-8)


def test_two_machines_give_the_result_of_one(tmp_path):
    """Two processes that know of each other by the environment alone, as on two machines."""
    script = tmp_path / "run.py"
    script.write_text(RUN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, script, "mdca", "1"]
    subprocess.run([*command, "1", tmp_path / "one"], capture_output=True, check=True, timeout=300)
    machines = []
    for rank in ("0", "1"):
        where = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": rank}
        machines.append(
            subprocess.Popen([*command, "2", tmp_path / "two"], stderr=subprocess.PIPE, text=True, env=where)
        )
    for machine in machines:
        _, printed = machine.communicate(timeout=300)
        assert machine.returncode == 0, printed
    one, two = (Logits.load(tmp_path / folder / "logits.npz") for folder in ("one", "two"))
    np.testing.assert_allclose(two.test_logits, one.test_logits, rtol=1e-8, atol=1e-8)


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
