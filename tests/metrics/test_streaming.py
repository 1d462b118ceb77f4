"""The streaming metrics batch by batch, and where they are used: in collections and in processes."""

import inspect
import pickle
import socket
from functools import partial

import numpy as np
import pytest
import torch
from refusals import refused

from calibkit.metrics import METRICS

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

from torchmetrics import MetricCollection  # noqa: E402

from calibkit.metrics import streaming  # noqa: E402

#: Each by its class where it has one, else by its name.
STREAMING = {name: partial(streaming.StreamingMetric, name) for name in streaming.SUMMED} | {
    "accuracy": streaming.Accuracy,
    "nll": streaming.NLL,
    "brier": streaming.Brier,
    "entropy": streaming.Entropy,
    "ece": streaming.ECE,
    "mce": streaming.MCE,
    "debiased_ece": streaming.DebiasedECE,
    "classwise_ece": partial(streaming.ClasswiseECE, 6),
}


def tensors(mixed):
    return tuple(torch.from_numpy(x) for x in mixed)


def images(mixed):
    """The 300 rows as 3 images of 10 x 10 pixels."""
    probs, labels = tensors(mixed)
    return probs.view(3, 10, 10, 6).permute(0, 3, 1, 2), labels.view(3, 10, 10)


def agrees(metric, name, probs, labels):
    """Whether it has the value of the function on numpy rows."""
    assert metric.compute().item() == pytest.approx(METRICS[name](probs, labels), rel=1e-12)


@pytest.mark.parametrize("name", STREAMING)
class TestStreaming:
    def test_batches_give_the_value_on_all(self, name, mixed):
        """And take no more memory than one of them: not the 8 bytes a row of a list of confidences."""
        metric, sizes = STREAMING[name](), []
        for p, y in zip(*(x.split(37) for x in tensors(mixed)), strict=True):
            metric.update(p, y)
            sizes.append(len(pickle.dumps(metric)))
        agrees(metric, name, *mixed)
        assert sum(getattr(metric, state).numel() for state in metric._defaults) <= 6 * 15 + 6
        assert max(sizes) < min(sizes) + 8 * 37
        metric.reset()
        metric.update(*(x[:10] for x in tensors(mixed)))
        agrees(metric, name, *(x[:10] for x in mixed))

    def test_pixels_are_samples_and_ignored_ones_do_not_count(self, name, mixed):
        metric = STREAMING[name]()
        assert metric.higher_is_better == (name == "accuracy")
        metric.update(*images(mixed))
        agrees(metric, name, *mixed)
        for ignore_index in (-100, 2, 255):
            probs, labels = images(mixed)
            labels = labels.clone()
            labels[0, :5] = labels[1] = ignore_index
            kept = (labels != ignore_index).flatten()
            metric = STREAMING[name](ignore_index=ignore_index)
            metric.update(probs, labels)
            agrees(metric, name, mixed[0][kept], mixed[1][kept])

    def test_reset_in_inference_mode(self, name, mixed):
        """As between Lightning's ``validate`` and its ``fit``: what is made in that mode cannot be written to later."""
        metric = STREAMING[name]()
        with torch.inference_mode():
            metric.update(*tensors(mixed))
            metric.reset()
        metric.update(*tensors(mixed))
        agrees(metric, name, *mixed)

    def test_forward_pickle_and_state_dict(self, name, mixed):
        metric = STREAMING[name]()
        assert metric(*tensors(mixed)).item() == pytest.approx(METRICS[name](*mixed), rel=1e-12)
        assert pickle.loads(pickle.dumps(metric)).compute() == metric.compute()
        metric.persistent(True)
        other = STREAMING[name]()
        other.load_state_dict(metric.state_dict())
        assert all((getattr(other, state) == getattr(metric, state)).all() for state in metric._defaults)

    def test_a_bad_image_leaves_what_was_counted(self, name, mixed):
        """The second image of a batch is bad: its first does not count, and what was there stays."""
        probs, labels = images(mixed)
        wrong = labels.clone()
        wrong[1, 0, 0] = 7
        for call in ("update", "forward"):
            metric = STREAMING[name]()
            metric.update(probs[:1], labels[:1])
            before = metric.compute()
            refused(r"`labels` to be in \[0, 6\), but got 7", getattr(metric, call), probs, wrong)
            metric._computed = None  # what torchmetrics keeps of the last compute()
            assert metric.compute() == before
            metric(probs[1:], labels[1:])
            agrees(metric, name, *mixed)


@pytest.mark.parametrize(
    "probs, labels, message",
    [
        (torch.tensor(1.0), torch.tensor(0), "`labels` to be of the shape of `probs` without"),
        (torch.ones(2, 6) / 6, torch.zeros(3, dtype=torch.int64), "`labels` to be of the shape of `probs` without"),
        (torch.ones(2, 6), torch.zeros(2, dtype=torch.int64), "`probs` to be rows that sum to 1"),
        (np.ones((2, 6)) / 6, np.zeros(2, int), "`probs` to be a torch tensor, but got ndarray"),
    ],
)
def test_bad_input_raises(probs, labels, message):
    with pytest.raises(ValueError, match=message):
        streaming.ECE().update(probs, labels)


def test_classes_without_number():
    for odd in (np.uint64(2**64 - 1), 10**30, 1):
        refused("`num_classes` to be ", streaming.ClasswiseECE, odd)


def test_a_number_of_bins_by_place_or_of_classes_is_given_where_it_means_something():
    for name in ("Accuracy", "NLL", "Brier", "Entropy"):
        with pytest.raises(TypeError):
            getattr(streaming, name)(10)
    for name in ("Accuracy", "NLL", "Brier", "Entropy", "ECE", "MCE", "DebiasedECE", "ClasswiseECE"):
        shown = inspect.signature(getattr(streaming, name)).parameters
        assert ("num_classes" in shown) == (name == "ClasswiseECE"), name


def test_options(mixed):
    probs, labels = tensors(mixed)
    for options in ({"n_bins": 7}, {"n_bins": 4, "normalize": "class_count"}):
        metric = streaming.ClasswiseECE(6, **options)
        metric.update(probs, labels)
        assert metric.compute().item() == pytest.approx(METRICS["classwise_ece"](*mixed, **options), rel=1e-12)
    refused("`num_classes` to be 6, those of `probs`, but got 5", streaming.ClasswiseECE(5).update, probs, labels)
    refused("`n_bins` to be an integer >= 1, but got 0", streaming.ECE, n_bins=0)
    refused("`ignore_index` to be an integer in", streaming.ECE, ignore_index=10**30)
    metric = streaming.ClasswiseECE(np.uint8(6), np.uint8(255))
    metric.update(probs, labels)
    assert metric.compute().item() == pytest.approx(METRICS["classwise_ece"](*mixed, n_bins=255), rel=1e-12)


def test_no_label_of_a_short_integer_is_taken_for_the_ignored_one():
    """As uint8, -100 is 156."""
    probs = torch.full((200, 200), 0.5 / 199).fill_diagonal_(0.5)
    probs[156] = torch.eye(200)[0]
    metric = streaming.Accuracy(ignore_index=-100)
    metric.update(probs, torch.arange(200).to(torch.uint8))
    assert metric.compute().item() == pytest.approx(199 / 200)


#: And the errors by class in other units, from the same sums.
COLLECTED = STREAMING | {"by_class": partial(streaming.ClasswiseECE, 6, normalize="class_count")}


def collection(ignore_index=None, **options):
    return MetricCollection({name: of(ignore_index=ignore_index) for name, of in COLLECTED.items()}, **options)


def values(probs, labels):
    """What the functions give on all rows at once."""
    found = {name: METRICS[name](probs, labels) for name in STREAMING}
    return found | {"by_class": METRICS["classwise_ece"](probs, labels, normalize="class_count")}


def check(found, probs, labels):
    assert {name: value.item() for name, value in found.items()} == pytest.approx(values(probs, labels), rel=1e-12)


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
