"""What every loss of the registry must do; a new entry is tested here with no new code."""

import itertools
import math
import warnings

import pytest
import torch
from torch import nn

from calibkit.losses import LOSSES

# Every form a loss has, with margins small enough that the penalties are active on the batches used here.
FORMS = [
    ("cross_entropy", {}),
    ("label_smoothing", {"convention": "K"}),
    ("label_smoothing", {"convention": "K-1"}),
    ("focal", {"gamma": 3.0}),
    ("focal", {"gamma": 0.5}),
    ("focal", {"gamma": 0.0}),
    ("flsd", {}),
    ("brier", {}),
    *(
        ("mmce", {"weighted": weighted, "variant": variant})
        for weighted in (True, False)
        for variant in ("paper", "code")
    ),
    *(("ecp", {"variant": variant}) for variant in ("paper", "code")),
    *(("cpc", {"variant": variant}) for variant in ("paper", "code")),
    ("mdca", {}),
    ("crl", {"n_samples": 64}),
    ("crl", {"n_samples": 64, "indicator": "margin", "margin": 0.0}),
    *(("mbls", {"margin": 2.0, "variant": variant}) for variant in ("paper", "code")),
    *(("acls", {"margin": 2.0, "variant": variant}) for variant in ("paper", "code")),
]
FORMS += [(name, {}) for name in LOSSES if name not in dict(FORMS)]
all_forms = pytest.mark.parametrize(
    ("name", "options"), FORMS, ids=[f"{n}-{'-'.join(map(str, o.values()))}" for n, o in FORMS]
)
all_names = pytest.mark.parametrize("name", LOSSES)


def make(name, **options):
    """A loss of the registry; CRL with a history in which neighbours differ."""
    if name == "crl":
        options.setdefault("n_samples", 64)
    loss = LOSSES[name](**options)
    if name == "crl":
        loss.update(torch.arange(0, loss.n_samples, 2), torch.arange(0, loss.n_samples, 2) % 3 == 0)
        loss.end_epoch()
    return loss


def inputs(loss, logits, labels):
    """The arguments of a call: CRL also takes the samples' positions."""
    if not loss.uses_index:
        return logits, labels
    index = torch.arange(labels.numel(), device=labels.device).reshape(labels.shape)
    return logits, labels, index % loss.n_samples


def value_and_gradient(loss, logits, labels):
    logits = logits.detach().clone().requires_grad_()
    value = loss(*inputs(loss, logits, labels))
    return value, torch.autograd.grad(value, logits)[0]


def test_who_has_a_penalty_and_who_remembers():
    penalty = {name for name in LOSSES if hasattr(LOSSES[name], "penalty")}
    assert penalty >= {"mmce", "ecp", "cpc", "mdca", "crl", "mbls", "acls"}
    assert penalty.isdisjoint({"cross_entropy", "label_smoothing", "focal", "flsd", "brier"})
    assert "crl" in {name for name in LOSSES if LOSSES[name].uses_index}


@all_forms
class TestValues:
    def test_scalar_in_the_precision_of_the_logits(self, name, options, batch):
        logits, labels = batch
        loss = make(name, **options)
        for dtype in (torch.float32, torch.float64):
            value, _ = value_and_gradient(loss, logits.to(dtype), labels)
            assert value.shape == () and value.dtype == dtype and value.isfinite()

    def test_any_integer_labels(self, name, options, batch):
        logits, labels = batch
        loss = make(name, **options)
        want = loss(*inputs(loss, logits, labels))
        for dtype in (torch.uint8, torch.int32):
            assert loss(*inputs(loss, logits, labels.to(dtype))) == want

    def test_gradient_by_finite_differences(self, name, options, batch):
        if name == "acls":  # parts of ACLS are held constant in its gradient: see test_acls.py
            options = {"margin": 2.0, "weight_neg": 0.0, "variant": "code"}
        loss = make(name, **options)
        logits, labels = batch
        assert torch.autograd.gradcheck(lambda z: loss(*inputs(loss, z, labels)), logits.clone().requires_grad_())

    def test_is_base_plus_weighted_penalty(self, name, options, batch):
        if not hasattr(LOSSES[name], "penalty"):
            pytest.skip(f"{name} has no penalty")
        loss = make(name, **options)
        arguments = inputs(loss, *batch)
        base = nn.functional.cross_entropy(*batch)
        assert torch.isclose(loss(*arguments), base + loss.weight * loss.penalty(*arguments), rtol=1e-14, atol=0)
        assert loss.penalty(*arguments).abs() > 1e-6

    def test_adding_a_constant_to_the_logits_changes_nothing(self, name, options, batch):
        logits, labels = batch
        loss = make(name, **options)
        value, slope = value_and_gradient(loss, logits, labels)
        shifted_value, shifted_slope = value_and_gradient(loss, logits + 7.0, labels)
        if name == "acls" and options["variant"] == "code":  # the published code's flaw
            assert shifted_value > value + 1
        else:
            assert torch.allclose(shifted_value, value, atol=1e-12) and torch.allclose(shifted_slope, slope, atol=1e-12)

    def test_order_of_rows_does_not_matter(self, name, options, batch):
        if name == "crl":
            pytest.skip("crl ranks each sample against its neighbour in the batch")
        logits, labels = (torch.cat([x, x[:5], x[:3]]) for x in batch)  # with ties
        loss = make(name, **options)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        value, slope = value_and_gradient(loss, logits, labels)
        shuffled_value, shuffled_slope = value_and_gradient(loss, logits[order], labels[order])
        assert torch.allclose(shuffled_value, value, atol=1e-12) and torch.allclose(
            shuffled_slope, slope[order], atol=1e-12
        )

    def test_two_classes(self, name, options, batch):
        logits, labels = batch
        value, slope = value_and_gradient(make(name, **options), logits[:, :2], labels % 2)
        assert value.isfinite() and slope.isfinite().all()


@all_forms
class TestHarshBatches:
    """Losses and gradients stay finite where probabilities are 0 and 1 and batches are odd."""

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
    def test_finite(self, name, options, dtype):
        loss = make(name, **options)
        for size, n_rows, kind in itertools.product((1e4, 60.0, 0.0), (1, 6), ("right", "wrong", "mixed")):
            top = torch.arange(n_rows) % 5
            logits = torch.full((n_rows, 5), -size).scatter_(1, top[:, None], size).to(dtype)
            labels = {"right": top, "wrong": (top + 1) % 5, "mixed": top * 0}[kind]
            value, slope = value_and_gradient(loss, logits, labels)
            assert value.isfinite() and slope.isfinite().all(), (size, n_rows, kind)
            assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and slope.dtype == dtype

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    def test_autocast(self, name, options, dtype, batch):
        logits, labels = batch
        layer = nn.Linear(6, 6)
        with torch.no_grad():
            layer.weight.copy_(1000 * torch.eye(6))
        loss = make(name, **options)
        with torch.autocast("cpu", dtype):
            half = layer(logits.float())
            value = loss(*inputs(loss, half, labels))
        assert half.dtype == dtype and value.dtype == torch.float32
        value.backward()
        assert value.isfinite() and layer.weight.grad.isfinite().all()
        assert value == loss(*inputs(loss, half.float(), labels))  # computed in float32, as if given in it


@all_forms
class TestDense:
    """(N, K, *) logits are N * prod(*) rows, and rows with the ignored label are as if they were not there."""

    def test_equals_its_rows(self, name, options):
        generator = torch.Generator().manual_seed(2)
        logits = 3 * torch.randn(2, 4, 3, 5, generator=generator, dtype=torch.float64)
        labels = torch.randint(4, (2, 3, 5), generator=generator)
        loss = make(name, **options)
        for layout in (torch.contiguous_format, torch.channels_last):
            value, slope = value_and_gradient(loss, logits.to(memory_format=layout), labels)
            rows = logits.permute(0, 2, 3, 1).reshape(-1, 4)
            rows_value, rows_slope = value_and_gradient(loss, rows, labels.flatten())
            assert torch.allclose(value, rows_value, atol=1e-14)
            assert torch.allclose(slope.permute(0, 2, 3, 1).reshape(-1, 4), rows_slope, atol=1e-14)

    @pytest.mark.parametrize("ignore_index", [-100, 255, 2])
    def test_ignored_rows_do_not_count(self, name, options, ignore_index):
        generator = torch.Generator().manual_seed(3)
        logits = 3 * torch.randn(2, 4, 20, generator=generator, dtype=torch.float64)
        labels = torch.tensor([0, 1, 3])[torch.randint(3, (2, 20), generator=generator)]
        labels[torch.rand(2, 20, generator=generator) < 0.3] = ignore_index
        loss = make(name, **options, ignore_index=ignore_index)
        kept = labels != ignore_index
        value, slope = value_and_gradient(loss, logits, labels)
        assert 5 < kept.sum() < 40 and (slope.movedim(1, -1)[~kept] == 0).all()
        if name != "crl":  # which ranks neighbours: see test_crl.py
            want, want_slope = value_and_gradient(loss, logits.movedim(1, -1)[kept], labels[kept])
            assert torch.allclose(value, want, atol=1e-13)
            assert torch.allclose(slope.movedim(1, -1)[kept], want_slope, atol=1e-13)

    def test_nothing_left(self, name, options):
        value, slope = value_and_gradient(make(name, **options), torch.randn(3, 4), torch.full((3,), -100))
        assert value == 0 and (slope == 0).all()


@all_forms
class TestInATrainingLoop:
    def test_reads_no_value_back_from_the_device(self, name, options):
        """Meta tensors have no values: any ``.item()``, ``if`` or mask on one raises, as it would stall a GPU."""
        loss = make(name, **options).to("meta")
        logits = torch.empty(6, 5, device="meta", requires_grad=True)
        labels = torch.empty(6, device="meta", dtype=torch.int64)
        value = loss(*inputs(loss, logits, labels))
        value.backward()
        assert value.shape == () and logits.grad.shape == (6, 5)

    def test_compiles_to_one_graph(self, name, options, batch):
        loss = make(name, **options)
        arguments = inputs(loss, *batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own
            compiled = torch.compile(loss, backend="eager", fullgraph=True)
            assert torch.allclose(compiled(*arguments), loss(*arguments), rtol=1e-14)
        torch.compiler.reset()

    @pytest.mark.gpu
    def test_does_not_synchronise_a_gpu(self, name, options, batch):
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        logits, labels = (x.cuda() for x in batch)
        loss = make(name, **options)
        want, want_slope = value_and_gradient(loss, *batch)
        loss = loss.cuda()
        arguments = inputs(loss, logits.requires_grad_(), labels)
        torch.cuda.set_sync_debug_mode("error")
        try:
            value = loss(*arguments)
            value.backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.allclose(value.cpu(), want) and torch.allclose(logits.grad.cpu(), want_slope)


Z, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
BAD_INPUTS = [
    ([[0.0, 1.0]], torch.tensor([0]), "Expected `logits` to be a torch tensor, but got list"),
    (Z.long(), Y, "Expected `logits` to be floating point, but got dtype torch.int64"),
    (Z[:, 0], Y, r"Expected `logits` to be of shape \(N, K, \*\) with N >= 1 and K >= 2, but got shape \(4,\)"),
    (Z[:, :1], Y * 0, r"Expected `logits` to be of shape .* but got shape \(4, 1\)"),
    (Z[:0], Y[:0], r"Expected `logits` to be of shape .* but got shape \(0, 3\)"),
    (Z, [0, 1, 2, 0], "Expected `labels` to be a torch tensor, but got list"),
    (Z, Y[:3], r"Expected `labels` to be of shape \(4,\), but got shape \(3,\)"),
    (Z, Y[:, None], r"Expected `labels` to be of shape \(4,\), but got shape \(4, 1\)"),
    (Z[:, :, None], Y, r"Expected `labels` to be of shape \(4, 1\), but got shape \(4,\)"),
    (Z, Y.float(), "Expected `labels` to be integers, but got dtype torch.float32"),
    (Z, Y == 0, "Expected `labels` to be integers, but got dtype torch.bool"),
    (Z, Y.to("meta"), "Expected `labels` to be on cpu, but got meta"),
    (Z, Y + 1, r"Expected `labels` to be in \[0, 3\) or -100, but got 3"),
    (Z, Y - 1, r"Expected `labels` to be in \[0, 3\) or -100, but got -1"),
]  # fmt: skip


@all_names
@pytest.mark.parametrize(("logits", "labels", "message"), BAD_INPUTS)
def test_bad_input(name, logits, labels, message):
    loss = make(name)
    index = (torch.arange(4),) if loss.uses_index else ()
    calls = [loss, loss.penalty] if hasattr(loss, "penalty") else [loss]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(logits, labels, *index)


NUMBERS = [
    *[("label_smoothing", "alpha"), ("focal", "gamma"), ("mmce", "weight"), ("ecp", "weight"), ("mdca", "weight")],
    *[("cpc", "weight_1v1"), ("cpc", "weight_be"), ("crl", "weight"), ("mbls", "margin"), ("mbls", "weight")],
    *[("acls", "margin"), ("acls", "weight_pos"), ("acls", "weight_neg")],
]


@pytest.mark.parametrize(("name", "option"), NUMBERS)
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "1", None, True])
def test_bad_number(name, option, bad):
    with pytest.raises(ValueError, match=rf"Expected `{option}` to be a number in \[0\.0, .*\], but got {bad!r}"):
        make(name, **{option: bad})


@all_names
def test_bad_ignore_index(name):
    for bad in (0.5, 10**30):
        with pytest.raises(ValueError, match="Expected `ignore_index` to be an integer"):
            make(name, ignore_index=bad)


@all_names
def test_options_are_keywords_and_shown(name):
    with pytest.raises(TypeError):
        LOSSES[name](10.0)
    assert repr(make(name, ignore_index=255)).endswith("ignore_index=255)")
