"""The folder of a run: after a kill at any point, under damage on the disk, and with two trainings at once."""

import fcntl
import os
from dataclasses import asdict

import numpy as np
import pytest
from digits_runs import (
    die_after,
    die_before_rename,
    die_in_step,
    digits_model,
    ending_after,
    in_a_process,
    train_digits,
    was_killed,
)
from refusals import refused
from torch import nn

from calibkit import data
from calibkit.logits import Logits
from calibkit.models import load_weights
from calibkit.training import Recipe, fit, predict
from calibkit.training.run_folder import Run, best_epoch, lock

RECIPE = Recipe(4, batch_size=100, lr=0.05, schedule="cosine", precision="64-true", keep="best")
FINISHED = ["log.csv", "logits.npz", "weights.npz"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def same(one: Logits, two: Logits) -> bool:
    return np.array_equal(one.test_logits, two.test_logits) and np.array_equal(one.val_logits, two.val_logits)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nothing disturbs."""
    return train_digits(tmp_path_factory.mktemp("undisturbed"), recipe=RECIPE)


@pytest.mark.slow
def test_a_run_killed_in_its_epochs_resumes_to_the_same_logits(tmp_path, undisturbed):
    """SIGKILL in the first epoch of ten steps, in the second, and, after a resume at the second, in the last."""
    for step, epochs_done in ((5, 0), (15, 1), (28, 3)):
        assert was_killed(in_a_process(die_in_step, tmp_path, step, RECIPE))
        rows = (tmp_path / "log.csv").read_text().splitlines()[1:] if epochs_done else []
        assert len(rows) == epochs_done
    assert same(train_digits(tmp_path, recipe=RECIPE), undisturbed)
    assert names(tmp_path) == FINISHED


@pytest.mark.slow
def test_a_run_killed_before_every_file_it_writes(tmp_path, undisturbed):
    """Before the first rename of its life, then before the second of its next life, ... until one life is enough."""
    kills = 0
    while was_killed(in_a_process(die_before_rename, tmp_path, kills + 1, RECIPE)):
        kills += 1
    assert kills >= 5
    assert same(Logits.load(tmp_path / "logits.npz"), undisturbed)
    assert names(tmp_path) == FINISHED


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best-2.npz", "weights.npz", "logits.npz"])
def test_a_run_killed_between_two_files_that_go_together(tmp_path, undisturbed, name):
    """Its weights are those of its logits, whichever of the two was there first."""
    assert was_killed(in_a_process(die_after, tmp_path, name, RECIPE))
    assert (tmp_path / name).exists() and (tmp_path / "logits.npz").exists() == (name == "logits.npz")
    model = digits_model()
    logits = fit(model, nn.CrossEntropyLoss(), "digits", RECIPE, folder=tmp_path, device="cpu")
    assert same(logits, undisturbed)
    inputs = data.load_split("digits", "test").inputs
    np.testing.assert_array_equal(predict(model, inputs, "digits"), undisturbed.test_logits)
    stored = load_weights(digits_model(), tmp_path / "weights.npz")
    np.testing.assert_array_equal(predict(stored, inputs, "digits"), undisturbed.test_logits)
    assert names(tmp_path) == FINISHED


def cut_short(folder, epochs):
    """A run with ``epochs`` checkpoints behind it, which dies in the next."""
    with pytest.raises(KeyboardInterrupt):
        train_digits(folder, ending_after(10 * epochs), RECIPE, meta={"loss": "CrossEntropyLoss()"})


def test_a_damaged_checkpoint_is_named_and_stays(tmp_path):
    cut_short(tmp_path, 2)
    content = bytearray((tmp_path / "checkpoint.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "checkpoint.npz").write_bytes(content)
    kept = names(tmp_path)
    refused(r"`path` to be a whole npz file .*/checkpoint\.npz", train_digits, tmp_path, recipe=RECIPE)
    assert names(tmp_path) == kept


def test_a_checkpoint_of_another_program_is_refused_and_stays(tmp_path):
    np.savez(tmp_path / "checkpoint.npz", step=1)
    refused("`folder` to be a run with loss .*, but got None in ", train_digits, tmp_path, recipe=RECIPE)
    assert names(tmp_path) == ["checkpoint.npz"]


def test_what_others_left_in_the_folder_stays(tmp_path):
    """A run deletes the files that it wrote, and none that is called alike."""
    (tmp_path / "checkpoints").mkdir()
    for name in ("best-model.npz", "checkpoint.pt"):
        (tmp_path / name).touch()
    train_digits(tmp_path, recipe=Recipe(2, batch_size=500, precision="64-true", keep="best"))
    assert names(tmp_path) == sorted(["best-model.npz", "checkpoint.pt", "checkpoints", *FINISHED])


def test_the_weights_of_the_best_epoch_are_kept_the_last_of_equals(tmp_path):
    """Those of other epochs are not."""
    cut_short(tmp_path, 3)
    history = np.load(tmp_path / "checkpoint.npz")["history"].tolist()
    assert {path.name for path in tmp_path.glob("best-*")} == {f"best-{best_epoch(history)}.npz"}
    rows = [[epoch, 0.1, 0.5, 0.9, 0.5, accuracy, 1.0] for epoch, accuracy in enumerate((0.5, 0.8, 0.7, 0.8, 0.6), 1)]
    assert [best_epoch(rows[:n]) for n in range(6)] == [0, 1, 2, 2, 4, 4]


def test_every_file_that_a_resume_reads_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, named = [], []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_ino) or fsync(number))

    def watched(source, target):
        if not os.path.basename(source).startswith("checkpoint"):  # else a file that has its name already
            named.append((os.path.basename(target), os.stat(source).st_ino in synced))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    train_digits(tmp_path, recipe=Recipe(2, batch_size=500, precision="64-true", keep="best"))
    assert {name for name, on_disk in named if not on_disk} == {"log.csv"}
    assert {"checkpoint.npz", "best-1.npz", "weights.npz", "logits.npz"} <= {name for name, _ in named}


def test_two_trainings_in_one_folder(tmp_path, undisturbed):
    """The second is refused while the first one runs, and goes on after its death."""
    with lock(tmp_path):
        refused(
            "`folder` to be one that no other training writes to, but got .*", train_digits, tmp_path, recipe=RECIPE
        )
        assert names(tmp_path) == [".lock"]
    assert names(tmp_path) == []
    assert was_killed(in_a_process(die_in_step, tmp_path, 15, RECIPE))
    assert ".lock" in names(tmp_path)  # the file stays, the lock goes
    assert same(train_digits(tmp_path, recipe=RECIPE), undisturbed)
    assert names(tmp_path) == FINISHED


def test_a_lock_that_its_holder_has_just_removed_is_none(tmp_path, monkeypatch):
    """Another process may hold the file that has the name now."""
    flock = fcntl.flock

    def removed_meanwhile(stream, how):
        flock(stream, how)
        (tmp_path / ".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", removed_meanwhile)
    with (
        pytest.raises(ValueError, match="Expected `folder` to be one that no other training writes to"),
        lock(tmp_path),
    ):
        pass


def test_a_finished_run_needs_neither_lock_nor_a_folder_to_write_to(tmp_path):
    recipe = Recipe(1, batch_size=500, precision="64-true")
    first = train_digits(tmp_path, recipe=recipe)
    with lock(tmp_path):
        assert same(train_digits(tmp_path, recipe=recipe), first)
    (tmp_path / "weights.npz").unlink()
    refused("`folder` to be a run with weights.npz beside its logits.npz", train_digits, tmp_path, recipe=recipe)


def test_a_run_of_a_version_before_a_field_of_the_recipe_is_resumed(tmp_path):
    """The field had its default then, and another value of it is another run."""
    recipe = asdict(Recipe(1)) | {"milestones": [0.5, 0.75]}
    before = {key: value for key, value in recipe.items() if key != "cape_bins"}
    Run(tmp_path, {"recipe": recipe})._check({"recipe": before})
    for ours, found in ((recipe | {"cape_bins": 10}, before), (recipe | {"epochs": 2}, before), (recipe, "a cake")):
        refused("`folder` to be a run with recipe", Run(tmp_path, {"recipe": ours})._check, {"recipe": found})


def test_a_run_that_ended_while_this_one_waited_for_the_lock_is_read(tmp_path, monkeypatch):
    """It is finished when the lock is free: nothing is trained again."""
    recipe = Recipe(1, batch_size=500, precision="64-true")
    first = train_digits(tmp_path / "first", recipe=recipe)

    def ends(*args):
        (tmp_path / "first").rename(tmp_path / "run")
        monkeypatch.undo()
        return lock(*args)

    monkeypatch.setattr("calibkit.training.run_folder.lock", ends)
    monkeypatch.setattr("calibkit.training.trainer.train", None)
    second = train_digits(tmp_path / "run", recipe=recipe)
    assert same(first, second) and first.meta == second.meta
