"""How often an interval of a difference holds the method's expected difference, where the truth is known.

The truth: the images of a stored network's held-out sets, with labels drawn from its probabilities at temperatures
that differ by class. Validation and test sets are drawn from them, both calibrators are fitted, their difference gets
its interval over test images, and one over validation samples too, from refits as in ``refits.csv``. What is to be held
is the mean, over validation sets, of the difference on all images with their true probabilities. Writes
``book/results/coverage.csv``. About half an hour on one core.

    python benchmarks/coverage.py [WORLDS]
"""

import math
import sys

import numpy as np
import pandas as pd
import torch

from book.kit.results.csv_rows import resample
from book.kit.results.difference_intervals import FITS, interval_of
from calibkit import _folders, calibrator
from calibkit._files import write_text
from calibkit.metrics import evaluate, power
from calibkit.networks import load_logits

NETWORK, N_VAL, N_TEST, BINS = "cifar10/resnet20-cross_entropy-s0", 5000, 10_000, 15
TS = "temperature_scaling"
PAIRS = {
    "TS minus uncalibrated": (TS, "identity"),
    "CLS minus TS": (f"{TS}:class_loss_scaling", TS),
    "CTS by likelihood minus TS": ("class_temperature_scaling:nll", TS),
    "CTS minus TS by ECE": ("class_temperature_scaling", f"{TS}:ece"),
}
KEYS = sorted({key for pair in PAIRS.values() for key in pair})


def main(worlds: int = 100) -> None:
    """Draw worlds, count how many intervals hold the expectation, write the shares."""
    data = load_logits(NETWORK)
    z = np.concatenate([data.val_logits, data.test_logits]).astype(np.float64)
    truth = torch.from_numpy(z / np.linspace(1.2, 1.8, z.shape[1])).log_softmax(1)
    rng = np.random.default_rng(0)
    found, expected = [], []
    for world in range(worlds):
        sets = (next(power.drawn(truth, n, 1, rng)) for n in (N_VAL, N_TEST))
        (val, val_labels), (test, test_labels) = ((rows.numpy(), labels.numpy()) for rows, labels in sets)
        fits = {key: calibrator(key).fit(z[val], val_labels) for key in KEYS}
        runs = {key: resample(fit(z[test]), test_labels, ["ece", "nll"]) for key, fit in fits.items()}
        says = {key: torch.from_numpy(fit(z)).log() for key, fit in fits.items()}
        again = {key: [] for key in KEYS}
        for _ in range(FITS):
            i = rng.integers(0, N_VAL, N_VAL)
            for key in KEYS:
                probs = calibrator(key).fit(z[val[i]], val_labels[i])(z[test])
                again[key].append(evaluate(probs, test_labels, ["ece", "nll"]))
        for name, (method, base) in PAIRS.items():
            for metric in ("ece", "nll"):
                value, low, high = runs[method][metric].difference(runs[base][metric])
                moved = [a[metric] - b[metric] for a, b in zip(again[method], again[base], strict=True)]
                errors = {"fit_error": float(np.std(moved, ddof=1)), "seed_error": math.nan, "seed_df": math.nan}
                wide = interval_of(pd.Series({"value": value, "low": low, "high": high, **errors}))
                found.append((world, name, metric, low, high, *wide[1:]))
                true, of_base = (power.true_value(metric, says[key], truth, BINS) for key in (method, base))
                expected.append((name, metric, true - of_base))
        print(world, flush=True)
    rows = pd.DataFrame(found, columns=["world", "difference", "metric", "low", "high", "wide low", "wide high"])
    mean = pd.DataFrame(expected, columns=["difference", "metric", "truth"]).groupby(["difference", "metric"]).mean()
    rows = rows.join(mean, on=["difference", "metric"])
    for kind, start in (("this fit", ""), ("the method", "wide ")):
        rows[kind] = 100.0 * ((rows[f"{start}low"] <= rows["truth"]) & (rows["truth"] <= rows[f"{start}high"]))
    shares = rows.groupby(["difference", "metric"], sort=False)[["this fit", "the method"]].mean().reset_index()
    shares["metric"] = shares["metric"].str.upper()
    shares.columns = ["difference", "metric", "over test images, %", "with validation samples added, %"]
    text = shares.to_csv(index=False, float_format="%.0f", lineterminator="\n")
    write_text(_folders.stored() / "coverage.csv", text)
    print(text)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
