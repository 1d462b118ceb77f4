"""The metrics against the installed peers, side by side in one run, with the limit rows of the hardware beside them.

    python benchmarks/metrics.py [--shapes 10000x10 10000x100 25000x1000] [--threads 2] [--repeats 15] [--clock wall]

Each function gets what it takes (numpy or torch, float32 probabilities) and is timed in turns with the others, so that
a busy machine slows all of them; the median and the least time are printed. On a machine that others use too,
``--clock cpu --threads 1`` counts the processor's time only. The peers' warnings are off. ``extra`` is
the growth of the peak resident memory during one call. Peers that are not installed are left out.
"""

import argparse
import statistics
import time
import warnings
from importlib import import_module

import numpy as np
import torch
from shared import begin, in_turns, overconfident, peer

from calibkit.metrics import ace, adaptive_ece, bootstrap, classwise_ece, ece, evaluate, smooth_ece


def race(title, calls, repeats, clock):
    """Time the calls in turns and print them."""
    values, times, extra = in_turns(calls, repeats, clock)
    print(f"\n{title:34} {'median ms':>10} {'least ms':>9} {'extra MiB':>10}   value")
    for name, seconds in times.items():
        value = f"{values[name]:.7f}" if isinstance(values[name], float) else ""
        memory = f"{extra[name]:10.1f}" if name in extra else f"{'':10}"
        print(f"{name:34} {1e3 * statistics.median(seconds):10.3f} {1e3 * min(seconds):9.3f} {memory}   {value}")


def updated(metric, p, y):
    """The value of a metric that takes batches, after one."""
    metric.update(p, y)
    return metric.compute()


def top_label(p, y, k):
    n, m = p.numpy(), y.numpy()

    def flags():
        return n.max(1), (n.argmax(1) == m).astype(np.float32)

    def calzone(utils):
        accuracy, confidence, _, counts = utils.reliability_diagram(m, n, num_bins=15)
        return float(import_module("calzone.metrics").calculate_ece_mce(accuracy, confidence, counts)[0])

    def mapie(module, strategy):
        confidence, correct = flags()
        error = module.expected_calibration_error
        return float(error(correct.astype(int), confidence, num_bins=15, split_strategy=strategy))

    tm, tu, pm = "torchmetrics.functional.classification", "torch_uncertainty.metrics", "probmetrics.metrics"
    options = {"task": "multiclass", "num_classes": k, "num_bins": 15}
    equal_width = {
        "limit: read (sum)": p.sum,
        "limit: row max": lambda: p.amax(1),
        "limit: row max + argmax": lambda: p.max(1),
        "calibkit ece (torch)": lambda: ece(p, y),
        "calibkit ece (numpy)": lambda: ece(n, m),
        "torchmetrics": peer(tm, lambda t: lambda: t.multiclass_calibration_error(p, y, k, 15).item()),
        "torch-uncertainty": peer(tu, lambda t: lambda: updated(t.CalibrationError(**options), p, y).item()),
        "relplot binnedECE": peer("relplot.metrics", lambda t: lambda: float(t.binnedECE(*flags(), nbins=15))),
        "probmetrics": peer(
            pm, lambda t: lambda: float(t.Metrics.from_names(["ece-15"]).compute_all_from_labels_probs(y, p)["ece-15"])
        ),
        "calzone": peer("calzone.utils", lambda t: lambda: calzone(t)),
        "mapie": peer("mapie.metrics.calibration", lambda t: lambda: mapie(t, "uniform")),
        "netcal": peer("netcal.metrics", lambda t: lambda: float(t.ECE(15).measure(n, m))),
        "uncertainty-calibration": peer("calibration", lambda t: lambda: float(t.get_ece(n, m))),
        "pycalib": peer("pycalib.metrics", lambda t: lambda: float(t.conf_ECE(m, n))),
    }
    confidence = p.amax(1)
    equal_mass = {
        "limit: row max": lambda: p.amax(1),
        "limit: sort of the confidences": lambda: confidence.sort(),
        "calibkit adaptive_ece": lambda: adaptive_ece(p, y),
        "torch-uncertainty": peer(tu, lambda t: lambda: updated(t.AdaptiveCalibrationError(**options), p, y).item()),
        "mapie (quantile)": peer("mapie.metrics.calibration", lambda t: lambda: mapie(t, "quantile")),
        "netcal": peer("netcal.metrics", lambda t: lambda: float(t.ECE(15, equal_intervals=False).measure(n, m))),
        "uncertainty-calibration": peer("calibration", lambda t: lambda: float(t.get_ece_em(n, m))),
    }
    smooth = {
        "calibkit smooth_ece": lambda: smooth_ece(p, y),
        "relplot smECE": peer("relplot.metrics", lambda t: lambda: float(t.smECE(*flags()))),
    }
    return equal_width, equal_mass, smooth


def class_wise(p, y, k):
    n, m = p.numpy(), y.numpy()

    def mapie(module, strategy):
        options = {"num_bins": 15, "split_strategy": strategy, "classwise": True, "class_labels": m}
        return float(module.expected_calibration_error(None, n, **options))

    tu = "torch_uncertainty.metrics.classification.calibration"
    equal_width = {
        "limit: read (sum)": p.sum,
        "calibkit classwise_ece": lambda: classwise_ece(p, y),
        "pycalib": peer("pycalib.metrics", lambda t: lambda: float(t.classwise_ECE(m, n))),
        "mapie": peer("mapie.metrics.calibration", lambda t: lambda: mapie(t, "uniform")),
        "torch-uncertainty": peer(
            tu, lambda t: lambda: updated(t.ClasswiseCalibrationError(num_classes=k, num_bins=15), p, y).item()
        ),
        "uncertainty-calibration": peer("calibration", lambda t: lambda: float(t.get_ece(n, m, mode="marginal"))),
    }
    equal_mass = {
        "limit: one torch sort by column": lambda: p.sort(0).values[0],
        "limit: one numpy sort by column": lambda: np.sort(n.T, axis=1)[0],
        "calibkit ace": lambda: ace(p, y),
        "mapie (quantile)": peer("mapie.metrics.calibration", lambda t: lambda: mapie(t, "quantile")),
        "uncertainty-calibration": peer("calibration", lambda t: lambda: float(t.get_ece_em(n, m, mode="marginal"))),
    }
    return equal_width, equal_mass


def intervals(p, y, k):
    n, m = p.numpy(), y.numpy()

    def torchmetrics(module):
        metric = module.classification.MulticlassCalibrationError(k, n_bins=15)
        return updated(module.wrappers.BootStrapper(metric, num_bootstraps=100), p, y)

    return {
        "calibkit 1000 x ece": lambda: bootstrap(p, y, ["ece"]),
        "calibkit 1000 x classwise_ece": lambda: bootstrap(p, y, ["classwise_ece"]),
        "calibkit 1000 x ace": lambda: bootstrap(p, y, ["ace"]),
        "calibkit 1000 x smooth_ece": lambda: bootstrap(p, y, ["smooth_ece"]),
        "calibkit 1000 x all metrics": lambda: bootstrap(p, y),
        "uncertainty-calibration 100 x l1": peer(
            "calibration", lambda t: lambda: list(t.get_calibration_error_uncertainties(n, m, p=1, mode="top-label"))
        ),
        "torchmetrics 100 x ECE": peer("torchmetrics", lambda t: lambda: torchmetrics(t)),
    }


def state_bytes():
    """What a metric keeps after some batches of segmentation maps."""
    classes, side, batches = 19, 256, 3
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(4, classes, side, side, generator=generator).softmax(1)
    labels = torch.randint(classes, (4, side, side), generator=generator)
    streaming = import_module("calibkit.metrics.streaming")
    metrics = {
        "calibkit ECE": streaming.ECE(),
        "calibkit ClasswiseECE": streaming.ClasswiseECE(classes),
        "torchmetrics ECE": import_module("torchmetrics.classification").MulticlassCalibrationError(classes, 15),
    }
    pixels = 4 * side * side * batches
    print(f"\n{f'state after {pixels} pixels':34} {'bytes':>12} {'a pixel':>9} {'s':>7}")
    for name, metric in metrics.items():
        start = time.perf_counter()
        for _ in range(batches):
            metric.update(probs, labels)
        seconds = time.perf_counter() - start
        states = [getattr(metric, state) for state in metric._defaults]
        tensors = [t for state in states for t in (state if isinstance(state, list) else [state])]
        size = sum(t.numel() * t.element_size() for t in tensors)
        print(f"{name:34} {size:12} {size / pixels:9.4f} {seconds:7.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["10000x10", "10000x100", "25000x1000"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--sections", nargs="+", default=["top", "class", "evaluate", "bootstrap", "state"])
    args, clock = begin(parser, threads=2)
    warnings.simplefilter("ignore")
    for shape in args.shapes:
        n, k = map(int, shape.split("x"))
        logits, y = overconfident(n, k)
        p = logits.softmax(1)
        print(f"\n==== {n} x {k}, accuracy {(p.argmax(1) == y).double().mean():.3f}")
        if "top" in args.sections:
            for title, calls in zip(("ECE", "adaptive ECE", "smooth ECE"), top_label(p, y, k), strict=True):
                race(title, calls, args.repeats, clock)
        if "class" in args.sections:
            for title, calls in zip(("class-wise ECE", "class-wise adaptive (ACE)"), class_wise(p, y, k), strict=True):
                race(title, calls, min(args.repeats, 5), clock)
        if "evaluate" in args.sections:
            race("all metrics", {"calibkit evaluate": lambda p=p, y=y: evaluate(p, y)}, min(args.repeats, 5), clock)
        if "bootstrap" in args.sections and n * k <= 1_000_000:
            race("intervals", intervals(p, y, k), 0, clock)
    if "state" in args.sections:
        state_bytes()


if __name__ == "__main__":
    main()
