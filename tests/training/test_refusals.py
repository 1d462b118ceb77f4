"""Training that cannot be: recipes, options and losses that are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from digits_runs import RECIPE, digits_model
from refusals import refused
from torch import nn

from calibkit.losses import CRL
from calibkit.training import Recipe, assemble, fit


class Spoilt(nn.CrossEntropyLoss):
    """Cross-entropy that ``spoil(value, logits, call)`` changes, ``call`` counting from 1."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil, self.calls = spoil, 0

    def forward(self, logits, labels):
        self.calls += 1
        return self.spoil(super().forward(logits, labels), logits, self.calls)


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_its_checkpoint(tmp_path):
    """Two epochs that go well, then the loss is lost: the checkpoint is that of the second."""
    for clip_norm in (None, 2.0):
        folder = tmp_path / str(clip_norm)
        loss = Spoilt(lambda value, logits, call: value * (1.0 if call <= 4 else torch.nan))
        recipe = Recipe(4, batch_size=500, precision="64-true", clip_norm=clip_norm)
        with pytest.raises(ValueError, match="Expected `loss` to be finite.*, but got nan in epoch 3"):
            fit(digits_model(), loss, "digits", recipe, folder=folder)
        with np.load(folder / "checkpoint.npz") as checkpoint:
            assert len(checkpoint["history"]) == 2
            assert all(np.isfinite(checkpoint[name]).all() for name in checkpoint.files if name.startswith("model/"))


def test_weights_that_the_last_step_lost_are_not_kept(tmp_path):
    """The loss of the second epoch's last step is finite, its gradient is not: validation tells."""
    loss = Spoilt(lambda value, logits, call: value + ((0 * logits.sum()).sqrt() if call == 4 else 0))
    with pytest.raises(ValueError, match="Expected `loss` to be finite.*, but got nan in epoch 2"):
        fit(digits_model(), loss, "digits", Recipe(4, batch_size=500, precision="64-true"), folder=tmp_path)
    with np.load(tmp_path / "checkpoint.npz") as checkpoint:
        assert len(checkpoint["history"]) == 1


@pytest.mark.parametrize(
    ("spoil", "got"),
    [
        (lambda value, logits, call: logits.sum(1), r"shape \(50,\)"),
        (lambda value, logits, call: value.item(), "float"),
        (lambda value, logits, call: value.detach(), "one without a gradient"),
    ],
)
def test_a_loss_that_gives_anything_but_a_number_with_a_gradient(tmp_path, spoil, got):
    with pytest.raises(ValueError, match=f"^Expected `loss` to be .* one number, .*gradient.*, but got {got}$"):
        fit(digits_model(), Spoilt(spoil), "digits", RECIPE, folder=tmp_path)


def test_bad_options(tmp_path, monkeypatch):
    """On a machine without a GPU, which is not told that it is one of several; names are assembled first."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    given = {"model": digits_model(), "loss": nn.CrossEntropyLoss(), "data": "digits", "recipe": RECIPE}
    for option, value, want in (
        ("devices", 0, "an integer >= 1, but got 0"),
        ("seed", 1.5, "an integer"),
        ("device", "gpu", "one of auto, cpu, cuda"),
        ("device", "cuda", ".*, as there is no GPU, but got"),
        ("nodes", 2, "1, or MASTER_ADDR, .*, but got 2"),
        ("model", "small_cnn", "a .*, as `assemble` .*, but got '"),
        ("loss", "mbls", "a .*, as `assemble` .*, but got '"),
        ("recipe", "smoke", "a .*, as `assemble` .*, but got '"),
    ):
        refused(f"`{option}` to be {want}", fit, **{**given, option: value}, folder=tmp_path / "none")
        assert not (tmp_path / "none").exists()


def test_what_cannot_be_assembled():
    for key, options, message in (
        ("cross_entropy", {"pretrained": True}, "`pretrained` to be False, as small_cnn"),
        ("mbls", {"seed": -1}, "`seed` to be an integer in"),
        ("crl n_samples=5", {}, "`loss` to be without `n_samples`.*, but got '.* n_samples="),
        ("acls indicator=ranking n_samples=1000", {}, "`loss` to be without `n_samples`.*, but got '.* n_samples="),
        ("cutmix margin=3", {}, "`loss` to be with options among epochs, .*, but got margin"),
    ):
        refused(message, assemble, "digits", "small_cnn", key, "smoke", **options)


def test_assembling_leaves_the_callers_random_numbers_alone():
    """The weights are those of the seed, whatever was drawn before."""
    found = []
    for before in (1, 2):
        want = torch.rand(2, generator=torch.Generator().manual_seed(before))
        torch.manual_seed(before)
        first = torch.rand(1)
        found.append(next(assemble("digits", "small_cnn", "mbls", "smoke", seed=3)[0].parameters()))
        assert torch.cat([first, torch.rand(1)]).tolist() == want.tolist()
    assert torch.equal(*found)


def test_the_default_dtype_is_not_that_of_the_network():
    torch.set_default_dtype(torch.float64)
    try:
        network, *_ = assemble("cifar10", "resnet20", "focal", "reduced")
    finally:
        torch.set_default_dtype(torch.float32)
    assert {p.dtype for p in network.parameters()} == {torch.float32}


def test_losses_and_recipes_that_do_not_fit_the_data(tmp_path):
    class Learnt(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, logits, labels):
            return nn.functional.cross_entropy(self.scale * logits, labels)

    plain, mixed = nn.CrossEntropyLoss(), replace(RECIPE, cutmix=0.5)
    for loss, data, recipe, wording in (
        (Learnt(), "digits", RECIPE, "`loss` to be one without parameters"),
        (CRL(n_samples=2000), "digits", RECIPE, "`loss` to be one with n_samples=1000, as digits has"),
        (CRL(n_samples=367), "camvid", RECIPE, "`loss` to be one without a history of samples, as pixels"),
        (plain, "digits", replace(RECIPE, n_tokens=3), "`recipe` to be one without n_tokens"),
        (CRL(n_samples=1000), "digits", mixed, "`recipe` to be one without cutmix"),
        (plain, "20newsgroups", mixed, "`recipe` to be one without cutmix"),
        (plain, "digits", replace(mixed, cape_bins=5), "`recipe` to be one without cape_bins"),
        (plain, "camvid", replace(RECIPE, cape_bins=5), "`recipe` to be one without cape_bins"),
    ):
        refused(wording, fit, digits_model(), loss, data, recipe, folder=tmp_path, device="cpu")
        assert not any(tmp_path.iterdir())


def test_numbers_of_numpy_large_seeds_and_a_loss_that_was_used_before(tmp_path):
    """Each run starts its history anew, and leaves the network as it is to be used."""
    recipe = replace(RECIPE, epochs=np.int64(2), lr=np.float32(0.125))
    loss, found = CRL(n_samples=1000), []
    for name in ("one", "two"):
        model = digits_model()
        options = {"seed": np.int64(2**62), "meta": {"a": np.float32(1)}}
        found.append(fit(model, loss, "digits", recipe, folder=tmp_path / name, **options))
        assert not model.training and int(loss.epochs) == 2
    np.testing.assert_array_equal(found[0].test_logits, found[1].test_logits)
