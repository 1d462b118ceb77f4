"""Class-based temperature scaling: the greedy search over 100 temperatures a class, beside a plain one and the limit.

    python benchmarks/class_temperature_scaling.py [--shapes 10000x10 10000x100 25000x1000] [--threads 2]
                                                   [--sweeps 5] [--clock wall] [--device cpu]

No peer has the method, so what stands beside it is ``plain``: a softmax over all classes for every candidate, in torch
and float64; a few candidates are timed, and the time of one sweep over all of them follows. ``limit`` is the time of
the exponentials alone that a sweep over all candidates takes when each costs O(N): n x 100 x K of them. The search of
the method (accuracy kept) needs fewer, for it drops candidates that lose accuracy before it takes an exponential.
``extra`` is the growth of the peak resident memory. On a machine that others use too, ``--clock cpu --threads 1``
counts the processor's time only.
"""

import argparse
import warnings

import torch
from shared import begin, extra_mebibytes, least, overconfident

from calibkit.calibrators import ClassTemperatureScaling, TemperatureScaling
from calibkit.fitting.grid import TEMPERATURES
from calibkit.metrics.binning import bin_edges

CANDIDATES = 3  # of the plain search that are timed
LONG = 20.0  # seconds of a fit that is not run again for its memory


def plain_ece(z, y, temperatures, edges):
    """ECE of one candidate by a softmax over all classes."""
    confidence, predictions = (z / temperatures).softmax(1).max(1)
    gaps = torch.zeros(len(edges) - 1, dtype=torch.float64, device=z.device)
    index = torch.bucketize(confidence, edges[1:-1])
    gaps.scatter_add_(0, index, confidence - (predictions == y).double())
    return float(gaps.abs().sum()) / len(z)


def limit_per_sweep(n, k, device, clock):
    """Seconds of n x 100 x K float64 exponentials, in chunks that stay in cache."""
    chunk = torch.linspace(-30, 0, 1 << (16 if device == "cpu" else 24), dtype=torch.float64, device=device)
    out = torch.empty_like(chunk)
    return least(lambda: torch.exp(chunk, out=out), 30, clock) / len(chunk) * n * k * len(TEMPERATURES)


def race(n, k, sweeps, clock, device):
    z, y = (x.to(device) for x in overconfident(n, k))
    edges, z64 = bin_edges(15, device=device), z.double()
    temperatures = torch.full((k,), 1.8, dtype=torch.float64, device=device)
    plain = least(lambda: plain_ece(z64, y, temperatures, edges), CANDIDATES, clock)
    print(
        f"\n{f'{n} x {k}':30} {'seconds':>9} {'sweeps':>7} {'s/sweep':>10} {'steps':>6} {'ECE %':>17} {'extra MiB':>10}"
    )
    print(f"{'limit: exponentials':30} {'':9} {'':7} {limit_per_sweep(n, k, device, clock):10.3f}")
    print(f"{'plain torch (extrapolated)':30} {'':9} {'':7} {plain * k * len(TEMPERATURES):10.1f}")
    fits = {
        "start: one temperature": lambda: TemperatureScaling("ece"),
        "calibkit, accuracy kept": lambda: ClassTemperatureScaling(max_sweeps=sweeps),
        "calibkit, U-CTS": lambda: ClassTemperatureScaling(max_sweeps=sweeps, accuracy_constraint=False),
        "calibkit, gradient, NLL": lambda: ClassTemperatureScaling("nll"),
    }
    search = 0.0
    for name, build in fits.items():
        start = clock()
        calibrator = build().fit(z, y)
        seconds = clock() - start
        search = search or seconds  # the search for the one temperature is part of the greedy fits too
        row = f"{name:30} {seconds:9.3f} "
        history = getattr(calibrator, "history", ())
        if len(history):
            done = min(sweeps, int(history[-1, 0]) + 1)  # one more, which changes nothing, unless they ran out
            ece = f"{100 * history[0, 3]:.4f} -> {100 * history[-1, 3]:.4f}"
            row += f"{done:7} {(seconds - search) / done:10.3f} {len(history) - 1:6} {ece:>17} "
        else:
            row += f"{'':42} "
        memory = extra_mebibytes(lambda build=build: build().fit(z, y)) if seconds < LONG else float("nan")
        print(f"{row}{memory:10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["10000x10", "10000x100", "25000x1000"])
    parser.add_argument("--sweeps", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args, clock = begin(parser)
    print(f"on {args.device}")
    warnings.simplefilter("ignore")
    for shape in args.shapes:
        race(*(int(x) for x in shape.split("x")), args.sweeps, clock, args.device)


if __name__ == "__main__":
    main()
