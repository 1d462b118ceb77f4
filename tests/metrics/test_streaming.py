import pickle
from functools import partial

import numpy as np
import pytest
import torch

from calibkit.metrics import METRICS

pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")

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
    "classwise_ece": lambda **options: streaming.ClasswiseECE(6, **options),
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
        metric = STREAMING[name]()
        for p, y in zip(*(x.split(37) for x in tensors(mixed)), strict=True):
            metric.update(p, y)
        agrees(metric, name, *mixed)
        sizes = [getattr(metric, state).numel() for state in metric._defaults]
        assert sum(sizes) <= 6 * 15 + 6
        metric.reset()
        metric.update(*(x[:10] for x in tensors(mixed)))
        agrees(metric, name, *(x[:10] for x in mixed))
        assert sizes == [getattr(metric, state).numel() for state in metric._defaults]

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
            with pytest.raises(ValueError, match=r"Expected `labels` to be in \[0, 6\), but got 7"):
                getattr(metric, call)(probs, wrong)
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
        with pytest.raises(ValueError, match="^Expected `num_classes` to be "):
            streaming.ClasswiseECE(odd)


@pytest.mark.parametrize("name", ["Accuracy", "NLL", "Brier", "Entropy"])
def test_a_mean_over_samples_takes_no_number_of_bins_by_place(name):
    with pytest.raises(TypeError):
        getattr(streaming, name)(10)


def test_options(mixed):
    probs, labels = tensors(mixed)
    for options in ({"n_bins": 7}, {"n_bins": 4, "normalize": "class_count"}):
        metric = streaming.ClasswiseECE(6, **options)
        metric.update(probs, labels)
        assert metric.compute().item() == pytest.approx(METRICS["classwise_ece"](*mixed, **options), rel=1e-12)
    with pytest.raises(ValueError, match="Expected `num_classes` to be 6, those of `probs`, but got 5"):
        streaming.ClasswiseECE(5).update(probs, labels)
    with pytest.raises(ValueError, match="Expected `n_bins` to be an integer >= 1, but got 0"):
        streaming.ECE(n_bins=0)
    with pytest.raises(ValueError, match="Expected `ignore_index` to be an integer in"):
        streaming.ECE(ignore_index=10**30)
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
