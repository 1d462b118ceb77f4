"""What every loss of the registry must do; a new entry is tested here with no new code."""

import itertools
import warnings

import pytest
import torch
from refusals import refused
from torch import nn

from calibkit.losses import LOSSES

# Every form a loss has, with margins small enough that the penalties are active on the batches used here.
FORMS = [
    ("cross_entropy", {}),
    ("label_smoothing", {"convention": "K"}),
    ("label_smoothing", {"convention": "K-1"}),
    ("focal", {"gamma": 3.0}),
    ("focal", {"gamma": 0.5}),
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
one_form_each = pytest.mark.parametrize(("name", "options"), dict(FORMS).items(), ids=dict(FORMS))


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


@all_forms
class TestEveryForm:
    def test_scalar_in_the_precision_of_the_logits(self, name, options, batch):
        """For labels of any integers, and two classes."""
        logits, labels = batch
        loss = make(name, **options)
        for dtype, kind in ((torch.float32, torch.uint8), (torch.float64, torch.int32)):
            value, _ = value_and_gradient(loss, logits.to(dtype), labels.to(kind))
            assert value.shape == () and value.dtype == dtype and value.isfinite()
            assert value == value_and_gradient(loss, logits.to(dtype), labels)[0]
        value, slope = value_and_gradient(make(name, **options), logits[:, :2], labels % 2)
        assert value.isfinite() and slope.isfinite().all()

    def test_gradient_by_finite_differences(self, name, options, batch):
        if name == "acls":  # parts of ACLS are held constant in its gradient: see test_acls.py
            options = {"margin": 2.0, "weight_neg": 0.0, "variant": "code"}
        loss = make(name, **options)
        logits, labels = batch
        assert torch.autograd.gradcheck(lambda z: loss(*inputs(loss, z, labels)), logits.clone().requires_grad_())

    def test_a_constant_on_all_logits_and_the_order_of_rows_do_not_matter(self, name, options, batch):
        logits, labels = (torch.cat([x, x[:5], x[:3]]) for x in batch)  # with ties
        loss = make(name, **options)
        value, slope = value_and_gradient(loss, logits, labels)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
        if name == "crl":  # ranks each sample against its neighbour in the batch
            order = torch.arange(len(labels))
        shifted_value, shifted_slope = value_and_gradient(loss, logits[order] + 7.0, labels[order])
        if name == "acls" and options["variant"] == "code":  # the published code's flaw
            assert shifted_value > value + 1
            shifted_value, shifted_slope = value_and_gradient(loss, logits[order], labels[order])
        assert torch.allclose(shifted_value, value, atol=1e-12)
        assert torch.allclose(shifted_slope, slope[order], atol=1e-12)

    def test_finite_on_harsh_batches(self, name, options):
        """Losses and gradients stay finite where probabilities are 0 and 1 and batches are odd."""
        loss = make(name, **options)
        dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
        sizes, kinds = (1e4, 60.0, 0.0), ("right", "wrong", "mixed")
        for dtype, size, n_rows, kind in itertools.product(dtypes, sizes, (1, 6), kinds):
            top = torch.arange(n_rows) % 5
            logits = torch.full((n_rows, 5), -size).scatter_(1, top[:, None], size).to(dtype)
            labels = {"right": top, "wrong": (top + 1) % 5, "mixed": top * 0}[kind]
            value, slope = value_and_gradient(loss, logits, labels)
            assert value.isfinite() and slope.isfinite().all(), (dtype, size, n_rows, kind)
            assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and slope.dtype == dtype

    def test_pixels_are_rows_and_ignored_ones_do_not_count(self, name, options):
        """(N, K, *) logits are N * prod(*) rows, and rows with the ignored label are as if they were not there."""
        generator = torch.Generator().manual_seed(2)
        logits = 3 * torch.randn(2, 4, 3, 5, generator=generator, dtype=torch.float64)
        labels = torch.tensor([0, 1, 3])[torch.randint(3, (2, 3, 5), generator=generator)]
        loss, rows = make(name, **options), logits.movedim(1, -1)
        rows_value, rows_slope = value_and_gradient(loss, rows.reshape(-1, 4), labels.flatten())
        for layout in (torch.contiguous_format, torch.channels_last):
            value, slope = value_and_gradient(loss, logits.to(memory_format=layout), labels)
            assert torch.allclose(value, rows_value, atol=1e-14)
            assert torch.allclose(slope.movedim(1, -1).reshape(-1, 4), rows_slope, atol=1e-14)
        kept = torch.rand(2, 3, 5, generator=generator) >= 0.3
        assert 5 < kept.sum() < 30
        for ignore_index, odd in ((-100, 0.0), (255, -torch.inf), (2, torch.nan)):
            loss = make(name, **options, ignore_index=ignore_index)
            some = logits.movedim(1, -1).where(kept[..., None], odd).movedim(-1, 1)
            value, slope = value_and_gradient(loss, some, labels.where(kept, ignore_index))
            assert value.isfinite() and (slope.movedim(1, -1)[~kept] == 0).all()
            if name != "crl":  # which ranks neighbours: see test_crl.py
                want, want_slope = value_and_gradient(loss, rows[kept], labels[kept])
                assert torch.allclose(value, want, atol=1e-13)
                assert torch.allclose(slope.movedim(1, -1)[kept], want_slope, atol=1e-13)
            value, slope = value_and_gradient(loss, torch.randn(3, 4), torch.full((3,), ignore_index))
            assert value == 0 and (slope == 0).all()


@pytest.mark.parametrize(("name", "options"), [form for form in FORMS if hasattr(LOSSES[form[0]], "penalty")])
def test_is_cross_entropy_plus_the_weighted_penalty(name, options, batch):
    base = nn.functional.cross_entropy(*batch)
    loss = make(name, **options)
    arguments = inputs(loss, *batch)
    assert torch.isclose(loss(*arguments), base + loss.weight * loss.penalty(*arguments), rtol=1e-14, atol=0)
    assert loss.penalty(*arguments).abs() > 1e-6
    weights = {option: 0.0 for option in vars(loss) if option.startswith("weight") and option != "weighted"}
    if {"weight_1v1", "weight_pos"} & weights.keys():
        del weights["weight"]  # which is 1: these are within the penalty
    nothing = make(name, **options, **weights)
    assert torch.equal(nothing(*arguments), LOSSES["cross_entropy"]()(*batch))


@one_form_each
class TestInATrainingLoop:
    def test_autocast(self, name, options, batch):
        logits, labels = batch
        layer = nn.Linear(6, 6)
        with torch.no_grad():
            layer.weight.copy_(1000 * torch.eye(6))
        loss = make(name, **options)
        with torch.autocast("cpu", torch.bfloat16):
            half = layer(logits.float())
            value = loss(*inputs(loss, half, labels))
        assert half.dtype == torch.bfloat16 and value.dtype == torch.float32
        value.backward()
        assert value.isfinite() and layer.weight.grad.isfinite().all()
        assert value == loss(*inputs(loss, half.float(), labels))  # computed in float32, as if given in it

    def test_compiles_to_one_graph(self, name, options, batch):
        loss = make(name, **options)
        arguments = inputs(loss, *batch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's own
            compiled = torch.compile(loss, backend="eager", fullgraph=True)
            assert torch.allclose(compiled(*arguments), loss(*arguments), rtol=1e-14)
        torch.compiler.reset()


@pytest.mark.parametrize(("name", "options"), [form for form in FORMS if form[0] != "cpc"])
def test_gradient_of_each_sample_by_vmap(name, options, batch):
    """As ``torch.func`` takes them, each sample a batch of its own; CPC has no second derivative, which that needs."""
    loss = make(name, **options)
    arguments = inputs(loss, *batch)
    slopes = torch.func.vmap(torch.func.grad(lambda *sample: loss(*(x[None] for x in sample))))(*arguments)
    for i, slope in enumerate(slopes):
        logits = batch[0][i : i + 1].clone().requires_grad_()
        want = torch.autograd.grad(loss(logits, *(x[i : i + 1] for x in arguments[1:])), logits)[0]
        assert torch.allclose(slope, want[0], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", LOSSES)
def test_reads_no_value_back_from_the_device(name):
    """Meta tensors have no values: any ``.item()``, ``if`` or mask on one raises, as it would stall a GPU."""
    for options in (options for of, options in FORMS if of == name):
        loss = make(name, **options).to("meta")
        logits = torch.empty(6, 5, device="meta", requires_grad=True)
        labels = torch.empty(6, device="meta", dtype=torch.int64)
        value = loss(*inputs(loss, logits, labels))
        value.backward()
        assert value.shape == () and logits.grad.shape == (6, 5)


@pytest.mark.gpu
def test_does_not_synchronise_a_gpu(batch):
    for name, options in FORMS:
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
        assert torch.allclose(value.cpu(), want) and torch.allclose(logits.grad.cpu(), want_slope), name


Z, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
BAD_INPUTS = [
    ([[0.0, 1.0]], torch.tensor([0]), "`logits` to be a torch tensor, but got list"),
    (Z.long(), Y, "`logits` to be floating point, but got dtype torch.int64"),
    (Z[:, 0], Y, r"`logits` to be of shape \(N, K, \*\) with N >= 1 and K >= 2, but got shape \(4,\)"),
    (Z[:, :1], Y * 0, r"`logits` to be of shape .* but got shape \(4, 1\)"),
    (Z[:0], Y[:0], r"`logits` to be of shape .* but got shape \(0, 3\)"),
    (Z, [0, 1, 2, 0], "`labels` to be a torch tensor, but got list"),
    (Z, Z.softmax(1), "`labels` to be integers, .*, but got a number for each of 3 classes; .* a weighted mean of two"),
    (Z, torch.eye(3).long()[Y], r"`labels` to be integers, .*; one-hot rows become integers by argmax\(1\)"),
    (Z, Y[:, None], r"`labels` to be of shape \(4,\), but got shape \(4, 1\)"),
    (Z[:, :, None], Y, r"`labels` to be of shape \(4, 1\), but got shape \(4,\)"),
    (Z, Y.float(), "`labels` to be integers, but got dtype torch.float32"),
    (Z, Y == 0, "`labels` to be integers, but got dtype torch.bool"),
    (Z, Y.to("meta"), "`labels` to be on cpu, but got meta"),
    (Z.to_sparse(), Y, "`logits` to be a dense tensor, but got one of layout torch.sp"),
    (Z, Y.to_sparse(), "`labels` to be a dense tensor, but got one of layout torch.sp"),
    (Z, Y + 1, r"`labels` to be in \[0, 3\) or -100, but got 3"),
    (Z, Y - 1, r"`labels` to be in \[0, 3\) or -100, but got -1"),
]  # fmt: skip


def test_bad_input():
    for logits, labels, message in BAD_INPUTS:
        refused(message, LOSSES["cross_entropy"](), logits, labels)


@pytest.mark.parametrize("name", LOSSES)
def test_what_all_refuse_and_show(name):
    """Labels out of range, in the loss and in its penalty; a label to ignore that is no integer; options by place."""
    loss = make(name, ignore_index=255)
    assert repr(loss).endswith("ignore_index=255)")
    index = (torch.arange(4),) if loss.uses_index else ()
    for call in [loss, loss.penalty] if hasattr(loss, "penalty") else [loss]:
        refused(r"`labels` to be in \[0, 3\) or 255, but got 3", call, Z, Y + 1, *index)
    refused("`ignore_index` to be an integer", make, name, ignore_index=0.5)
    with pytest.raises(TypeError):
        LOSSES[name](10.0)


NUMBERS = [
    *[("label_smoothing", "alpha"), ("focal", "gamma"), ("mmce", "weight"), ("ecp", "weight"), ("mdca", "weight")],
    *[("cpc", "weight_1v1"), ("cpc", "weight_be"), ("crl", "weight"), ("mbls", "margin"), ("mbls", "weight")],
    *[("acls", "margin"), ("acls", "weight_pos"), ("acls", "weight_neg")],
]
CHOICES = [
    *((name, "variant") for name in ("mmce", "ecp", "cpc", "mbls", "acls")),
    *[("crl", "indicator"), ("acls", "indicator"), ("acls", "part"), ("label_smoothing", "convention")],
]


@pytest.mark.parametrize(
    ("option", "cases", "want"),
    [
        (-0.1, NUMBERS, r"a number in \[0\.0, .*\]"),
        ("repo", CHOICES, "one of .*"),
        (1, [("mmce", "weighted")], "True or False"),
        (0, [("crl", "n_samples")], "an integer >= 1"),
        (5.0, [("label_smoothing", "alpha")], r"a number in \[0\.0, 1\.0\]"),
    ],
)
def test_bad_options(option, cases, want):
    for name, argument in cases:
        refused(f"`{argument}` to be {want}, but got {option!r}", make, name, **{argument: option})
