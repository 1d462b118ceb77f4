"""Recipes: the papers' numbers, learning rates by hand, what is refused."""

import math
from dataclasses import replace

import pytest
from refusals import refused

from calibkit.logits import Logits
from calibkit.models import MODELS
from calibkit.networks import zoo
from calibkit.training import LOSS_OPTIONS, MODEL_SETTINGS, RECIPES, VARIANTS, Recipe, assemble, owner_of, recipe_of

#: Of each paper's own training: epochs, batch size, first learning rate, epochs at which it is divided by 10, weight
#: decay, largest gradient norm, optimiser, and the epoch whose network is tested. Mukhoti et al. 2020, Appendix, whose
#: networks CTS takes; MbLS, Appendix B; ACLS, Sec. 4.1; SCTL, Table 4; and their code, for what is not printed.
PRINTED = {
    ("class_temperature_scaling", "cifar10"): (350, 128, 0.1, (150, 250), 5e-4, 2.0, "sgd", "last"),
    ("class_temperature_scaling", "cifar100"): (350, 128, 0.1, (150, 250), 5e-4, 2.0, "sgd", "last"),
    ("class_temperature_scaling", "tiny_imagenet"): (100, 64, 0.1, (40, 60), 5e-4, 2.0, "sgd", "last"),
    ("class_loss_scaling", "cifar10_lt"): (200, 128, 0.1, (100, 150), 1e-4, None, "sgd", "last"),
    ("class_loss_scaling", "cifar100_lt"): (200, 128, 0.1, (100, 150), 1e-4, None, "sgd", "last"),
    ("mbls", "cifar10"): (350, 128, 0.1, (150, 250), 5e-4, 2.0, "sgd", "best"),
    ("mbls", "tiny_imagenet"): (100, 64, 0.1, (40, 60), 5e-4, 2.0, "sgd", "best"),
    ("mbls", "cub200"): (200, 16, 0.1, (80, 160), 5e-4, 2.0, "sgd", "best"),
    ("mbls", "voc2012"): (100, 8, 0.01, (40, 80), 5e-4, 2.0, "sgd", "best"),
    ("mbls", "20newsgroups"): (100, 128, 0.001, (50,), 0.0, None, "adam", "best"),
    ("mbls", "20newsgroups_random"): (100, 128, 0.001, (50,), 0.0, None, "adam", "best"),
    ("mbls", "20newsgroups_2000"): (100, 128, 0.001, (50,), 0.0, None, "adam", "best"),
    ("acls", "cifar10"): (350, 128, 0.1, (150, 250), 5e-4, 2.0, "sgd", "best"),
    ("acls", "tiny_imagenet"): (100, 64, 0.1, (40, 60), 5e-4, 2.0, "sgd", "best"),
    ("acls", "imagenet"): (200, 256, 5e-4, "cosine", 0.05, None, "adamw", "best"),
    ("acls", "voc2012"): (100, 8, 0.01, (40, 80), 5e-4, 2.0, "sgd", "best"),
}
CLOSED = "20newsgroups_2000"  # whose reduced recipe is the paper's on half as many tokens, with the code's weight decay


def test_the_numbers_of_the_papers():
    """Of every recipe of a paper."""
    assert set(PRINTED) == {key for key in RECIPES if key[0] not in ("smoke", "reduced")}
    for paper, (epochs, batch_size, lr, drops, weight_decay, clip_norm, optimizer, keep) in PRINTED.items():
        recipe = RECIPES[paper]
        assert (recipe.epochs, recipe.batch_size, recipe.lr) == (epochs, batch_size, lr)
        assert (recipe.weight_decay, recipe.clip_norm, recipe.optimizer) == (weight_decay, clip_norm, optimizer)
        assert (recipe.keep, recipe.momentum, recipe.warmup) == (keep, 0.9, 0.0)
        assert recipe.augment == ("none" if paper[1].startswith("20news") else "crop+flip")
        assert recipe.cutmix == recipe.dropout == recipe.cape_bins == 0 and recipe.n_tokens is None
        if drops == "cosine":
            rates = [recipe.lr_at(epoch) for epoch in (0, epochs / 2, epochs)]
            assert rates == pytest.approx([lr, lr / 2, 0.0])
        else:
            ends = (0, *drops, epochs)
            rates = [recipe.lr_at(epoch) for a, b in zip(ends, ends[1:], strict=False) for epoch in (a, b - 0.01)]
            assert rates == pytest.approx([lr / 10**i for i in range(len(drops) + 1) for _ in range(2)])


#: SCTL, Table 4: network -> learning rate and weight decay for CIFAR-10-LT, and for CIFAR-100-LT.
TABLE_4 = {
    "densenet40": ((0.01, 1e-4), (0.01, 1e-4)),
    "wide_resnet_28": ((0.1, 5e-4), (0.1, 5e-4)),
    "resnet110": ((0.1, 1e-4), (0.1, 1e-4)),
    "resnet110_sd": ((0.04, 1e-4), (0.05, 1e-3)),
}


def test_the_settings_of_each_long_tailed_network():
    for model in TABLE_4:
        for dataset, printed in zip(("cifar10_lt", "cifar100_lt"), TABLE_4[model], strict=True):
            recipe = recipe_of(dataset, "paper", "cross_entropy", "class_loss_scaling", model=model)
            assert (recipe.lr, recipe.weight_decay) == printed
            assert (recipe.epochs, recipe.batch_size, recipe.optimizer) == (200, 128, "sgd")
            assert recipe_of(dataset, "reduced", "cross_entropy", model=model) == RECIPES["reduced", dataset]


def test_every_model_setting_is_of_a_recipe_and_a_network():
    assert {key[:2] for key in MODEL_SETTINGS} <= RECIPES.keys()
    assert {key[2] for key in MODEL_SETTINGS} == {*TABLE_4, "resnet8", "resnet8_whitened", "resnet50"} <= MODELS.keys()


def test_the_last_epochs_go_without_crops():
    recipe = Recipe(4, uncropped=1)
    assert [recipe.in_epoch(epoch).augment for epoch in range(4)] == ["crop+flip"] * 3 + ["flip"]
    assert Recipe(4, augment="none", uncropped=3).in_epoch(3).augment == "none"


def test_the_warm_up_of_110_layers_takes_some_four_hundred_steps():
    """He et al. 2016, Sec. 4.2: "about 400 iterations"; the sizes are those of SCTL, Appendix C."""
    for dataset, n_train in [("cifar10_lt", 10215), ("cifar100_lt", 9786)]:
        recipe = recipe_of(dataset, "paper", "cross_entropy", model="resnet110")
        assert recipe.warmup * math.ceil(n_train / recipe.batch_size) == pytest.approx(400, rel=0.05)
        assert [recipe.lr_at(epoch) for epoch in (0, recipe.warmup / 2, recipe.warmup)] == pytest.approx([0, 0.05, 0.1])
        assert recipe_of(dataset, "paper", "cross_entropy", model="densenet40").warmup == 0


def test_margins_and_variants_of_the_papers():
    """Margin 6 on CIFAR-10 (MbLS Sec. 5, ACLS Sec. 4.1) and 20 Newsgroups, where ACLS follows MbLS; CutMix's code mixes
    half the batches, that of CaPE takes ten bins and one epoch after five.
    """
    names = ("cifar10", "20newsgroups", "20newsgroups_random", "20newsgroups_2000")
    assert LOSS_OPTIONS == {(loss, name): {"margin": 6.0} for loss in ("mbls", "acls") for name in names}
    variants = {"cutmix": {"cutmix": 0.5}, "mc_dropout": {"dropout": 0.1, "passes": 10}}
    assert VARIANTS == variants | {"cape_bin": {"cape_bins": 10, "cape_every": 6}}


def test_reduced_recipes_are_short_and_without_crops():
    """At most a seventh of the epochs of CIFAR's recipe; crops would keep the network from over-confidence."""
    for recipe in (recipe for (owner, name), recipe in RECIPES.items() if owner == "reduced" and name != CLOSED):
        assert recipe.epochs <= 50 and recipe.augment in ("flip", "none") and recipe.warmup == 0
    assert RECIPES["reduced", CLOSED] == replace(RECIPES["mbls", CLOSED], n_tokens=500, weight_decay=5e-4)


@pytest.mark.slow
def test_reduced_recipes_are_those_of_the_stored_networks():
    """What they were trained with is in their files."""
    seen = set()
    for path in zoo().values():
        meta = Logits.load(path).meta
        if meta["budget"] == "reduced":
            recipe = recipe_of(meta["dataset"], "reduced", meta["loss"], model=meta["model"])
            options = ("epochs", "batch_size", "lr", "weight_decay", "optimizer", "augment")
            assert all(meta["recipe"].get(name, getattr(recipe, name)) == getattr(recipe, name) for name in options)
            seen.add(meta["dataset"])
    assert {"cifar10", "cifar100"} <= seen


def test_learning_rates_by_hand():
    steps = Recipe(100, lr=0.1, milestones=(0.5, 0.75), warmup=5)
    assert [steps.lr_at(e) for e in (0, 2.5, 5, 49.9, 50, 75)] == pytest.approx([0, 0.05, 0.1, 0.1, 0.01, 0.001])
    cosine = Recipe(10, lr=0.2, schedule="cosine")
    assert [cosine.lr_at(e) for e in (0, 2.5, 5, 10)] == pytest.approx([0.2, 0.1 + 0.1 / 2**0.5, 0.1, 0.0])


def test_the_recipe_is_that_of_the_losss_own_paper():
    assert recipe_of("cifar10", "paper", "acls").keep == "best"
    assert recipe_of("cifar10", "paper", "acls", "class_temperature_scaling").keep == "last"
    assert owner_of("cifar10", "paper", "focal") == owner_of("cifar100", "paper", "mbls") == "class_temperature_scaling"
    assert recipe_of("cifar100", "paper", "mbls") == RECIPES["class_temperature_scaling", "cifar100"]
    assert recipe_of("20newsgroups", "paper", "cross_entropy").optimizer == "adam"
    assert recipe_of("digits", "smoke", "mbls") == RECIPES["smoke", "digits"]
    assert recipe_of("digits", "reduced", "mbls") == RECIPES["reduced", "digits"]


def test_recipes_that_nobody_has():
    for wanted, message in [
        (("imagenet", "reduced", "acls"), "`budget` to be one with .* for imagenet, of acls, but got 'reduced'"),
        (("digits", "paper", "mbls"), "`budget` to be one with .*, of reduced, smoke, but got 'paper'"),
        (("cifar10", "paper", "mbls", "reduced"), "`paper` to be one with .* for cifar10, of .*, but got 'reduced'"),
        (("cifar10", "reduced", "mbls", "nope"), "`paper` to be None at the budget reduced, .*, but got 'nope'"),
        (("svhn", "reduced", "mbls"), "`dataset` to be one with a recipe: cifar10, .*, but got 'svhn'"),
    ]:
        refused(message, recipe_of, *wanted)


def test_bad_recipes():
    """Each field has a check, which names it."""
    for option, value in {
        **{"epochs": 0, "batch_size": 0, "lr": 0.0, "momentum": 1.1, "weight_decay": -1e-4, "schedule": "linear"},
        **{"precision": "16", "augment": True, "keep": "first", "optimizer": "lbfgs", "clip_norm": 0.0},
        **{"milestones": (40, 60), "warmup": 2.0, "cutmix": 1.5, "dropout": 0.95, "passes": 0, "n_tokens": 0},
        **{"cape_bins": -1, "cape_every": 0},
    }.items():
        refused(f"`{option}` to be", Recipe, **{"epochs": 1, option: value})
    refused("`milestones` to be a tuple of fractions of the run, but got 0.5", Recipe, 1, milestones=0.5)


def test_the_losses_of_a_chapter_are_trained_alike():
    for paper in ["mbls", "acls"]:
        recipes = [
            assemble("cifar10", "resnet20", loss, "paper", paper)[2:] for loss in ("cross_entropy", "focal", "acls")
        ]
        assert {recipe for recipe, _ in recipes} == {RECIPES[paper, "cifar10"]}
        assert {facts["paper"] for _, facts in recipes} == {paper}


def test_a_loss_that_remembers_every_sample_is_told_how_many_there_are():
    for loss, n_samples in [("crl", 1000), ("acls indicator=ranking", 1000), ("acls", None), ("mbls", None)]:
        assert getattr(assemble("digits", "small_cnn", loss, "smoke")[1], "n_samples", None) == n_samples


def test_such_a_loss_reads_the_training_set():
    for loss in ["crl", "acls indicator=ranking"]:
        with pytest.raises(FileNotFoundError, match="calibkit data prepare cifar10"):
            assemble("cifar10", "resnet20", loss, "reduced")
