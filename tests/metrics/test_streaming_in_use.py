"""The streaming metrics where they are used: in collections, in two processes, on images without end."""

import resource
import socket
from functools import partial

import numpy as np
import pytest
import torch

from calibkit.metrics import METRICS

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

from torchmetrics import MetricCollection  # noqa: E402

from calibkit.metrics import streaming  # noqa: E402

STREAMING = {
    "accuracy": streaming.Accuracy,
    "nll": streaming.NLL,
    "brier": streaming.Brier,
    "entropy": streaming.Entropy,
    "ece": streaming.ECE,
    "mce": streaming.MCE,
    "debiased_ece": streaming.DebiasedECE,
    "classwise_ece": partial(streaming.ClasswiseECE, 6),
    "by_class": partial(streaming.ClasswiseECE, 6, normalize="class_count"),
}


def collection(ignore_index=None, **options):
    return MetricCollection({name: of(ignore_index=ignore_index) for name, of in STREAMING.items()}, **options)


def values(probs, labels):
    """What the functions give on all rows at once."""
    found = {name: METRICS[name](probs, labels) for name in STREAMING if name != "by_class"}
    return found | {"by_class": METRICS["classwise_ece"](probs, labels, normalize="class_count")}


def check(found, probs, labels):
    assert {name: value.item() for name, value in found.items()} == pytest.approx(values(probs, labels), rel=1e-12)


def tensors(mixed):
    return tuple(torch.from_numpy(x) for x in mixed)


@pytest.mark.parametrize("call", ["update", "forward"])
@pytest.mark.parametrize("compute_groups", [True, False])
def test_collection(mixed, call, compute_groups):
    """After the first update, those of one group share their sums: the top label's three, and the two by class."""
    probs, labels = tensors(mixed)
    metrics = collection(compute_groups=compute_groups)
    for _ in range(2):  # the second time after a reset
        for p, y in zip(probs.split(70), labels.split(70), strict=True):
            found = getattr(metrics, call)(p, y)
            if call == "forward":
                check(found, p, y)
        check(metrics.compute(), probs, labels)
        metrics.reset()
    groups = sorted(sorted(group) for group in metrics.compute_groups.values())
    if call == "update" and compute_groups:
        shared = [["by_class", "classwise_ece"], ["debiased_ece", "ece", "mce"]]
        assert groups == sorted([["accuracy"], ["brier"], ["entropy"], ["nll"], *shared])


def test_metrics_that_agree_on_the_first_batch_stay_apart(mixed):
    """NLL, Brier score and entropy are all 0 where the network is sure and right."""
    probs, labels = tensors(mixed)
    metrics = collection()
    metrics.update(torch.eye(6, dtype=torch.float64), torch.arange(6))
    metrics.update(probs, labels)
    check(metrics.compute(), torch.cat([torch.eye(6), probs]), torch.cat([torch.arange(6), labels]))


def test_metrics_that_ignore_different_labels_stay_apart(mixed):
    probs, labels = tensors(mixed)
    first = labels >= 2  # nothing to ignore in the first batch
    names = ("nll", "ece", "classwise_ece")
    metrics = MetricCollection({f"{name} {i}": STREAMING[name](ignore_index=i) for i in (0, 1, None) for name in names})
    metrics.update(probs[first], labels[first])
    metrics.update(probs[~first], labels[~first])
    for key, value in metrics.compute().items():
        name, ignored = key.split()
        kept = labels != {"0": 0, "1": 1}.get(ignored, -1)
        assert value.item() == pytest.approx(METRICS[name](probs[kept], labels[kept]), rel=1e-12), key


def test_of_no_samples_nothing_is_known(mixed):
    probs, labels = tensors(mixed)
    for name in ("nll", "ece", "mce", "accuracy"):
        metric = collection(ignore_index=2)[name]
        metric.update(probs, torch.full_like(labels, 2))
        assert metric.compute().isnan()


def _process(rank: int, port: int, probs: torch.Tensor, labels: torch.Tensor) -> None:
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    part = slice(0, 100) if rank == 0 else slice(100, None)
    metrics = collection(ignore_index=5)
    for p, y in zip(probs[part].split(64 >> rank), labels[part].split(64 >> rank), strict=True):
        metrics.update(p, y)
    found = metrics.compute()
    torch.distributed.destroy_process_group()
    kept = labels != 5
    check(found, probs[kept], labels[kept])


def test_two_gloo_processes(mixed):
    """DDP: two processes see 100 and 200 rows in 2 and 7 batches, and both compute the values on all 300."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.start_processes(_process, (port, *tensors(mixed)), nprocs=2, start_method="fork")


def _stream(rank: int) -> None:
    """Maps of 19 classes with void pixels: what the metrics hold stays, and so does the most that the process held."""
    rng = np.random.default_rng(0)
    probs = torch.from_numpy(rng.normal(scale=3, size=(1, 19, 64, 128))).float().softmax(1)
    labels = torch.from_numpy(rng.integers(0, 19, (1, 64, 128)))
    labels[:, :4] = 255
    metrics = {
        "nll": streaming.NLL(ignore_index=255),
        "ece": streaming.ECE(ignore_index=255),
        "classwise_ece": streaming.ClasswiseECE(19, ignore_index=255),
    }

    def see(n_images):
        for _ in range(n_images):
            for metric in metrics.values():
                metric.update(probs, labels)
        held = sum(getattr(metric, state).nbytes for metric in metrics.values() for state in metric._defaults)
        return held, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    (held, peak), (still_held, later_peak) = see(20), see(200)
    assert held == still_held < 4_000
    assert later_peak - peak < 200 * labels.nbytes / 2  # 8 bytes a pixel, as a list of the confidences has, are more
    rows, kept = probs.permute(0, 2, 3, 1).reshape(-1, 19), (labels != 255).flatten()
    for name, metric in metrics.items():
        assert metric.compute().item() == pytest.approx(METRICS[name](rows[kept], labels.flatten()[kept]), rel=1e-12)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_images():
    """In a process of its own, as a peak never falls."""
    torch.multiprocessing.start_processes(_stream, nprocs=1, start_method="fork")
