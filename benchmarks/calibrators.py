"""Every calibrator on logits: the processor's seconds of one fit with one thread, one row a method.

    python benchmarks/calibrators.py [--methods KEY ...] [--repeats 3] [--limit 50] [--csv FILE]

Float32 logits that are too large by 1.79, with a scale and an offset a class besides; the labels are drawn from the
softmax of the true ones. Each method runs in a process of its own, and what takes over 2 s runs once. A fit that is
not done within the limit is given up. The clock is the processor's, for a machine that others use too.
"""

import argparse
import math
import resource
import time

import pandas as pd
import torch
from affine_scaling import sample
from shared import alone, least

from calibkit.calibrators import calibrator
from calibkit.reporting.catalogue import NEEDS

SHAPES = ((10_000, 100), (5_000, 1_000))
METHODS = ("temperature_scaling:ece", *(key for key in NEEDS if key != "identity"))


def measure(key, n, k, repeats, limit):
    torch.set_num_threads(1)
    z, y = sample(n, k, "classes", 0)
    calibrator(key).fit(*sample(500, 3, "plain", 2))  # load what is loaded once
    until = math.ceil(time.process_time() + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (until, until))
    return least(lambda: calibrator(key).fit(z, y), repeats, time.process_time)


def seconds_of(key, n, k, repeats, limit):
    """The least seconds of a fit; None where it was given up."""
    seconds, code = alone(measure, key, n, k, repeats, limit)
    if code > 0:  # below 0: ended by the signal of the limit
        raise SystemExit(f"{key} failed on {n:,} x {k:,}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="KEY")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=50, help="seconds of the processor after which a fit is given up")
    parser.add_argument("--csv")
    args = parser.parse_args()
    rows = {key: {"method": key} for key in args.methods}
    for n, k in SHAPES:
        for key, row in rows.items():
            seconds = seconds_of(key, n, k, args.repeats, args.limit)
            row[f"{n:,} x {k:,}"] = f"over {args.limit}" if seconds is None else f"{float(f'{seconds:.2g}'):g}"
            print(f"{n:,} x {k:,}, {key}: {row[f'{n:,} x {k:,}']}", flush=True)
    if args.csv:
        pd.DataFrame(rows.values()).to_csv(args.csv, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
