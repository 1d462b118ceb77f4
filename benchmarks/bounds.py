"""What the fits and metrics at scale may take on a quiet machine of two cores, and what they take: one row a bound.

    python benchmarks/bounds.py [--only PTS ETS ...] [--threads 2] [--repeats 3] [--clock wall] [--csv FILE]
                                [--no-peers]

Float32 logits whose true temperature is 1.79. ``x NLL`` is the time over that of one mean NLL by ``torch.exp``, in
blocks that stay in cache; the bounds of temperature scaling are in these. Peers stand below the row they compare with,
where they are installed; what takes over 2 s runs once. With ``--csv`` the table is written to a file as well. On a
machine that others use too, ``--clock cpu --threads 1`` counts the processor's time only.
"""

import argparse
import warnings
from importlib import import_module

import pandas as pd
import torch
from affine_scaling import METHODS, installed
from affine_scaling import sample as by_class
from metrics import class_wise, top_label
from shared import begin, least, overconfident, peer

from calibkit.calibrators import ETS, PTS, ClassTemperatureScaling, TemperatureScaling, VectorScaling
from calibkit.metrics import evaluate

COLUMNS = ("task", "who", "n", "k", "seconds", "bound", "x NLL")
SHAPE = (25_000, 1_000)
BLOCK = 1 << 18  # float32 numbers
#: Task -> shape, bound in seconds, or in evaluations of the NLL where it is negative, and the call.
TASKS = {
    "PTS": (SHAPE, 5.0, lambda z, y: PTS().fit(z, y)),
    "ETS": (SHAPE, 2.0, lambda z, y: ETS().fit(z, y)),
    "CTS": (SHAPE, 30.0, lambda z, y: ClassTemperatureScaling().fit(z, y)),
    "vector": (SHAPE, 8.0, lambda z, y: VectorScaling(lam=None).fit(z, y)),
    "evaluate": (SHAPE, 0.7, evaluate),
    "temperature": (SHAPE, -4.0, lambda z, y: TemperatureScaling().fit(z, y)),
    "temperature, 100": ((10_000, 100), -4.0, lambda z, y: TemperatureScaling().fit(z, y)),
    "temperature, 10": ((10_000, 10), -4.0, lambda z, y: TemperatureScaling().fit(z, y)),
}


def blocked_nll(z, y, temperature, buffer):
    """Mean NLL at a temperature in one pass of cache-sized blocks, reusing one buffer."""
    total, rows = 0.0, max(1, BLOCK // z.shape[1])
    for part, labels in zip(z.split(rows), y.split(rows), strict=True):
        s = torch.sub(part, part.amax(1, keepdim=True), out=buffer[: len(part)]).mul_(1 / temperature)
        total -= float(s.gather(1, labels[:, None]).sum(dtype=torch.float64))
        total += float(s.exp_().sum(1).log_().sum(dtype=torch.float64))
    return total / len(z)


def one_temperature(z, y):
    """Name of a peer -> a call that fits its temperature; None where it is not installed."""
    zn, yn = z.numpy(), y.numpy()

    def sklearn(module):
        return lambda: module._TemperatureScaling().fit(zn, yn)

    def probmetrics(module):
        def call():
            logits = import_module("probmetrics.distributions").CategoricalLogits(z)
            module.TemperatureScalingCalibrator().fit_torch(logits, y)

        return call

    def torch_uncertainty(module):
        return lambda: module.TemperatureScaler(device="cpu").fit([(z, y)], progress=False)

    def netcal(dtype):
        def build(module):
            probs = z.to(dtype).softmax(1).numpy()
            return lambda: module.TemperatureScaling().fit(probs, yn)

        return build

    return {
        "scikit-learn": peer("sklearn.calibration", sklearn),
        "probmetrics": peer("probmetrics.calibrators.temperature_scaling", probmetrics),
        "torch-uncertainty": peer("torch_uncertainty.post_processing", torch_uncertainty),
        "netcal, float32": peer("netcal.scaling", netcal(torch.float32)),
        "netcal, float64": peer("netcal.scaling", netcal(torch.float64)),
    }


def peers(task, given, y):
    """Name -> a call, of the installed peers of a task; no package has PTS, the greedy CTS, or all metrics in one."""
    calls = {}
    if task.startswith("temperature"):
        calls = one_temperature(given, y)
    if task == "vector":
        names = list(filter(installed, ("probmetrics SVS", "torch_uncertainty vector")))
        for name in names:
            METHODS[name](*by_class(200, 3, "plain", 2))  # load what is loaded once
        calls = {name.replace("_", "-"): lambda name=name: METHODS[name](given, y) for name in names}
    if task == "ETS":
        probs, labels = given.softmax(1).numpy(), y.numpy()
        build = "probmetrics.calibrators.temperature_scaling"
        calls = {"probmetrics": peer(build, lambda module: lambda: module.ETSCalibrator("ce").fit(probs, labels))}
    if task == "evaluate":
        k = given.shape[1]
        ece, ace = top_label(given, y, k)[0], class_wise(given, y, k)[1]
        calls = {"torchmetrics, ECE alone": ece["torchmetrics"], "mapie, ACE alone": ace["mapie (quantile)"]}
    return {name: call for name, call in calls.items() if call is not None}


def measure(task, repeats, clock, with_peers):
    """Rows of a task: ours, then the peers that are installed."""
    (n, k), bound, call = TASKS[task]
    z, y = by_class(n, k, "classes", 0) if task == "vector" else overconfident(n, k)
    buffer = torch.empty(max(1, BLOCK // k), k)
    unit = least(lambda: blocked_nll(z, y, 1.79, buffer), 10, clock)
    bound = bound if bound > 0 else -bound * unit
    given = (z / 1.79).softmax(1) if task == "evaluate" else z
    calls = {"calibkit": lambda: call(given, y)} | (peers(task, given, y) if with_peers else {})
    for name, run in calls.items():
        try:
            seconds = least(run, repeats, clock)
        except Exception as error:
            print(f"  ({name} left out: {str(error).splitlines()[0]})")
            continue
        values = task, name, n, k, seconds, bound if name == "calibkit" else "", seconds / unit
        yield dict(zip(COLUMNS, values, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv")
    parser.add_argument("--no-peers", action="store_true")
    args, clock = begin(parser, threads=2)
    print(f"{'task':18} {'who':26} {'shape':>14} {'seconds':>9} {'bound':>8} {'x NLL':>8}")
    warnings.simplefilter("ignore")
    rows = []
    for task in args.only:
        for row in measure(task, args.repeats, clock, not args.no_peers):
            bound = f"{row['bound']:8.4f}" if row["bound"] else f"{'':8}"
            shape = f"{row['n']:,} x {row['k']:,}"
            print(
                f"{task:18} {row['who']:26} {shape:>14} {row['seconds']:9.4f} {bound} {row['x NLL']:8.1f}", flush=True
            )
            rows.append(row)
    if args.csv:
        pd.DataFrame(rows).to_csv(args.csv, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
