"""How often a test set tells two calibrations apart, one row a pair of true ECEs.

    python benchmarks/power.py [--network sctl-cifar10-densenet40] [--images 10000] [--sets 400] [--resamples 1000]
                               [--csv FILE]

What the network says after one temperature by NLL is taken as true; two other temperatures give the two true ECEs. A
negative one is that of a temperature that is too high. Labels are drawn from the truth, and the paired test is that of
the book: its interval at 5% for the ECE and the NLL, and for the ECE its p-value against the strictest of Holm's.
"""

import argparse

import numpy as np
import pandas as pd
import torch
from scipy.optimize import brentq

from calibkit import TemperatureScaling
from calibkit.metrics import power
from calibkit.networks import load_logits

N_BINS, TESTS = 15, 60
PAIRS = ((-0.5, 0.5), (-1, 1), (0, 0.25), (0, 0.5), (0, 0.75), (0, 1), (0.5, 1), (1, 1.5), (1, 2))


def says(truth, percent):
    """Log-probabilities whose true ECE is that, over-confident ones if it is positive."""

    def excess(s):
        return 100 * power.true_value("ece", power.sharpened(truth, s), truth, N_BINS) - abs(percent)

    return power.sharpened(truth, brentq(excess, *((1, 10) if percent > 0 else (0.1, 1))) if percent else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", default="sctl-cifar10-densenet40", help="of `calibkit networks`, or a file")
    parser.add_argument("--images", type=int, default=10_000, help="of a test set")
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--csv")
    args = parser.parse_args()
    data, rng = load_logits(args.network), np.random.default_rng(0)
    temperature = TemperatureScaling().fit(*data.val).temperature
    truth = power.sharpened(torch.from_numpy(data.test_logits).double(), 1 / temperature)
    weights = power.counts(args.images, args.resamples, rng)
    test_sets = list(power.drawn(truth, args.images, args.sets, rng))
    tests = {}
    for percent in sorted({p for pair in PAIRS for p in pair}):
        log_probs = says(truth, percent)
        tests[percent] = [[*power.measured(m, log_probs, test_sets, weights, N_BINS, 0)] for m in ("ece", "nll")]
        print(f"{percent} measured", flush=True)
    rows = []
    for one, other in PAIRS:
        ece, nll = (list(zip(*pair, strict=True)) for pair in zip(tests[one], tests[other], strict=True))
        beyond = [not low <= 0 <= high for a, b in ece for _, low, high in [b.difference(a)]]
        holm = [b.chance(a) <= 0.05 / TESTS for a, b in ece]
        of_nll = [not low <= 0 <= high for a, b in nll for _, low, high in [b.difference(a)]]
        shares = {name: 100 * np.mean(seen) for name, seen in (("ece", beyond), ("holm", holm), ("nll", of_nll))}
        rows.append({"one": one, "other": other, **shares, "sets": args.sets})
    table = pd.DataFrame(rows)
    print(table.to_string(index=False))
    if args.csv:
        table.to_csv(args.csv, index=False, lineterminator="\n", float_format="%g")


if __name__ == "__main__":
    main()
