"""Differences to the comparators of the claims: which ones, their rows, their errors over seeds."""

import math

import numpy as np
import pytest
from constructed_rows import differs
from refusals import refused
from scipy import stats

from book.kit.judging.seeds import pooled_spread
from book.kit.results import load_effects, record
from book.kit.results.evidence import comparator
from book.kit.results.paired_differences import COMPARED, append_effects, difference
from calibkit.calibrators import calibrator
from calibkit.logits import Logits
from calibkit.metrics import bootstrap_difference, evaluate
from calibkit.metrics.intervals import Resampled

TS, CTS = "temperature_scaling", "class_temperature_scaling"


def test_errors_over_seeds_by_hand():
    runs, base = ([Resampled(v, np.array([v, v]), True, None) for v in of] for of in ((1.0, 3.0), (0.0, 0.5)))
    paired = difference(runs, base, same_networks=True)
    assert paired["value"] == 1.75
    assert paired["seed_error"] == pytest.approx(np.std([1.0, 2.5], ddof=1) / math.sqrt(2)) and paired["seed_df"] == 1
    spread = pooled_spread([[1.0, 3.0], [0.0, 0.5]])
    of_losses = difference(runs, base, same_networks=False, spreads=(spread, spread))
    t = stats.ttest_ind([1.0, 3.0], [0.0, 0.5])  # the pooled two-sample test
    assert of_losses["value"] / of_losses["seed_error"] == pytest.approx(t.statistic)
    assert of_losses["seed_df"] == t.df
    assert math.isnan(difference(runs[:1], base[:1], same_networks=True)["seed_error"])
    assert math.isnan(difference(runs, base, same_networks=False)["seed_error"])
    other = difference(runs, base[:1], same_networks=False, spreads=((1.0, 4), (0.5, 3)))  # as trained, and after TS
    assert (other["seed_error"], other["seed_df"]) == (pytest.approx(math.sqrt(1 / 2 + 0.25)), 3)


def test_comparators():
    """As the claims of each paper name them."""
    wanted = [
        ("neural_clamping", "cross_entropy", "neural_clamping", ("cross_entropy", TS)),
        ("neural_clamping", "cross_entropy", "vector_scaling", ("cross_entropy", "identity")),
        ("class_temperature_scaling", "mmce", f"{CTS} accuracy_constraint=False", ("mmce", CTS)),
        ("class_temperature_scaling", "cross_entropy", "ms_odir", ("cross_entropy", f"{TS}:ece")),
        ("class_temperature_scaling", "brier", f"{TS}:ece", ("brier", "identity")),
        ("class_loss_scaling", "cross_entropy", f"{CTS}:focal", ("cross_entropy", f"{CTS}:nll")),
        ("class_loss_scaling", "cross_entropy", f"{CTS}:nll", ("cross_entropy", "identity")),
        ("class_loss_scaling", "cross_entropy", "pts", ("cross_entropy", "identity")),
        ("mbls", "mbls margin=0 weight=0.05", "identity", ("cross_entropy", "identity")),
        ("mbls", "mbls", f"{TS}:ece", ("mbls", "identity")),
        ("acls", "acls", "identity", ("mbls", "identity")),
        ("acls", "crl indicator=margin", "identity", ("crl", "identity")),
        ("acls", "acls part=adaptive", "identity", ("label_smoothing", "identity")),
        ("acls", "cross_entropy", "identity", None),
        ("acls", "acls indicator=ranking", "identity", ("acls", "identity")),
    ]
    for paper, loss, method, want in wanted:
        assert comparator(paper, "1", loss, method) == want, (paper, loss, method)
    in_table_3 = comparator("neural_clamping", "3", "cross_entropy", "neural_clamping")
    assert in_table_3 == ("cross_entropy", "neural_clamping part=output")


# --------------------------------------------------------------------------------------------------------- rows
def test_a_row_takes_the_place_of_the_one_with_its_key(book):
    assert len(load_effects()) == 0
    differs(-0.03)
    differs(-0.01, method="ets")
    differs(-0.02)
    found = load_effects()
    assert dict(zip(found["method"], found["value"], strict=True)) == {TS: -0.02, "ets": -0.01}
    assert found["seed_error"].isna().all() and list(found["n_seeds"]) == [1, 1]
    differs(math.inf, chance=math.inf)  # one that is infinite now does not stay
    assert list(load_effects()["method"]) == ["ets"]


def test_more_seeds_are_kept(book):
    """A job that began when one seed was there does not undo one that saw two, of either side."""
    differs(-0.03, n_seeds=2, base_seeds=2)
    for n_seeds, base_seeds in ((1, 1), (1, 2), (2, 1)):
        differs(-0.09, n_seeds=n_seeds, base_seeds=base_seeds)
    assert list(load_effects()["value"]) == [-0.03]
    differs(-0.05, n_seeds=2, base_seeds=10)  # ten is more than two
    assert list(load_effects()["value"]) == [-0.05]


def test_a_spread_over_more_seeds_is_kept(book):
    differs(-0.03, seed_error=0.01, seed_df=18)
    for seed_error, seed_df in ((0.008, 10), (None, None)):
        differs(-0.03, seed_error=seed_error, seed_df=seed_df)
    assert load_effects()[["seed_error", "seed_df"]].to_numpy().tolist() == [[0.01, 18]]


def test_bad_rows_leave_the_file_as_it_was(book):
    differs(-0.03)
    before = (book / "effects.csv").read_bytes()
    refused("`rows` to be differences that are numbers, but got NaN", differs, math.nan, chance=0.5)
    with pytest.raises(KeyError):
        append_effects([{"dataset": "cifar10"}])
    assert (book / "effects.csv").read_bytes() == before


def test_a_damaged_file_is_refused(book):
    differs(-0.03)
    path = book / "effects.csv"
    header, line = path.read_text().splitlines()
    damaged = {
        "columns": ["a,b", "1,2"],
        "path": [header, line.replace("-0.03", "minus")],
        "rows": [header, line, line],
    }
    for name, lines in damaged.items():
        path.write_text("\n".join(lines))
        refused(f"`{name}` to be ", load_effects)


def test_recorded_differences_are_those_of_the_paired_bootstrap(toy):
    record.record(str(toy), ["identity", TS, "vector_scaling"])
    found = load_effects().set_index(["method", "base_method", "metric"])
    pairs = {(TS, "identity"), ("vector_scaling", "identity"), ("vector_scaling", TS), ("vector_scaling", f"{TS}:ece")}
    assert {key[:2] for key in found.index} == {*pairs, ("identity", TS)}
    assert len(found) == 5 * len(COMPARED)
    data = Logits.load(toy)
    before, after = (calibrator(key).fit(*data.val)(data.test_logits) for key in (TS, "vector_scaling"))
    ends = bootstrap_difference(before, after, data.test_labels, COMPARED)
    for metric in COMPARED:
        row = found.loc[("vector_scaling", TS, metric)]
        values = [evaluate(p, data.test_labels, [metric])[metric] for p in (before, after)]
        assert row["value"] == pytest.approx(values[1] - values[0], abs=1e-6)
        assert [row["low"], row["high"]] == pytest.approx(ends[metric], abs=1e-6)
        assert row["n_bins"] == ("15" if "ece" in metric else "")
        assert row["unit"] == ("nats" if metric in ("nll", "entropy") else "fraction")
