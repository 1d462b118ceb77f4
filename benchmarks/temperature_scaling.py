"""Temperature scaling by NLL against the installed peers, side by side in one run, with the limit row beside them.

    python benchmarks/temperature_scaling.py [--shapes 10000x10 10000x100 25000x1000] [--threads 2] [--repeats 5]
                                             [--clock wall] [--no-peers]

Every fit gets the same float32 logits, in the container it takes, and is timed in turns with the others, so that a
busy machine slows all of them; what takes over 2 s runs once. ``limit`` is one evaluation of the mean NLL at the
optimum, in blocks that stay in cache: a fit must do that several times. ``excess`` is the NLL over the optimum, both
in float64. On a machine that others use too, ``--clock cpu --threads 1`` counts the processor's time only.
"""

import argparse
import statistics
import warnings
from importlib import import_module

import numpy as np
import torch
from shared import begin, in_turns, overconfident, peer

from calibkit.calibrators import TemperatureScaling

BLOCK = 1 << 18  # float32 numbers


def blocked_nll(z, y, temperature, buffer):
    """Mean NLL at a temperature in one pass of cache-sized blocks, reusing one buffer."""
    total, rows = 0.0, max(1, BLOCK // z.shape[1])
    for part, labels in zip(z.split(rows), y.split(rows), strict=True):
        s = torch.sub(part, part.amax(1, keepdim=True), out=buffer[: len(part)]).mul_(1 / temperature)
        total -= float(s.gather(1, labels[:, None]).sum(dtype=torch.float64))
        total += float(s.exp_().sum(1).log_().sum(dtype=torch.float64))
    return total / len(z)


def nll(z, y, temperature):
    """The float64 reference."""
    return sum(
        float(torch.nn.functional.cross_entropy(a.double() / temperature, b, reduction="sum"))
        for a, b in zip(z.split(1000), y.split(1000), strict=True)
    ) / len(z)


def fits(z, y, with_peers):
    """Name -> a call that returns the temperature."""
    zn, yn, z64 = z.numpy(), y.numpy(), z.double()
    calls = {
        "calibkit": lambda: TemperatureScaling().fit(z, y).temperature,
        "calibkit, float64 logits": lambda: TemperatureScaling().fit(z64, y).temperature,
        "calibkit, class-wise loss scaling": lambda: TemperatureScaling("class_loss_scaling").fit(z, y).temperature,
    }
    if not with_peers:
        return calls

    def sklearn(module):
        return lambda: 1 / float(module._TemperatureScaling().fit(zn, yn).beta_)

    def probmetrics(module):
        def call():
            calibrator = module.TemperatureScalingCalibrator()
            calibrator.fit_torch(import_module("probmetrics.distributions").CategoricalLogits(z), y)
            return 1 / float(calibrator.invtemp_)

        return call

    def torch_uncertainty(module):
        loader = [(z, y)]

        def call():
            scaler = module.TemperatureScaler(device="cpu")
            scaler.fit(loader, progress=False)
            return float(scaler.temperature[0])

        return call

    def netcal(dtype):
        def build(module):
            probs = z.to(dtype).softmax(1).numpy()

            def call():
                scaling = module.TemperatureScaling()
                scaling.fit(probs, yn)
                return 1 / float(np.ravel(scaling.temperature)[0])

            return call

        return build

    calls["scikit-learn"] = peer("sklearn.calibration", sklearn)
    calls["probmetrics"] = peer("probmetrics.calibrators.temperature_scaling", probmetrics)
    calls["torch-uncertainty"] = peer("torch_uncertainty.post_processing", torch_uncertainty)
    calls["netcal, float32"] = peer("netcal.scaling", netcal(torch.float32))
    calls["netcal, float64"] = peer("netcal.scaling", netcal(torch.float64))
    return {name: call for name, call in calls.items() if call is not None}


def race(n, k, repeats, clock, with_peers):
    z, y = overconfident(n, k)
    buffer = torch.empty(max(1, BLOCK // k), k)
    best = TemperatureScaling().fit(z.double(), y).temperature
    calls = {"limit: one NLL, float32": lambda: blocked_nll(z, y, best, buffer)} | fits(z, y, with_peers)
    floor = min(nll(z, y, t) for t in best * (1 + np.array([-1e-6, 0, 1e-6])))
    results, times, extra = in_turns(calls, repeats, clock)
    limit = min(times["limit: one NLL, float32"])
    head = f"{'median ms':>10} {'least ms':>9} {'x limit':>8} {'extra MiB':>10} {'T':>12} {'excess NLL':>11}"
    print(f"\n{f'{n} x {k}, optimum T = {best:.7f}':36}{head}")
    for name, result in results.items():
        seconds = times[name]
        row = (
            f"{name:36}{1e3 * statistics.median(seconds):10.2f} {1e3 * min(seconds):9.2f} {min(seconds) / limit:8.2f} "
        )
        row += f"{extra[name]:10.1f}" if name in extra else f"{'':10}"
        if not name.startswith("limit"):
            row += f" {result:12.7f} {nll(z, y, result) - floor:11.1e}"
        print(row)


def robustness(with_peers):
    """T of logits that are scaled, over the scale: one number a column, the same in all, if a fit is right."""
    z, y = overconfident(10_000, 10)
    scales = (0.02, 0.2, 1.0, 10.0, 50.0)
    print("\nT / scale on 10000 x 10" + "".join(f"{f'x {scale}':>14}" for scale in scales))
    table = {}
    for scale in scales:
        for name, call in fits(z * scale, y, with_peers).items():
            try:
                table.setdefault(name, []).append(call() / scale)
            except Exception:
                table.setdefault(name, []).append(float("nan"))
    for name, row in table.items():
        print(f"{name:23.23}" + "".join(f"{value:14.7f}" for value in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["10000x10", "10000x100", "25000x1000"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    args, clock = begin(parser)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in args.shapes:
            race(*(int(x) for x in shape.split("x")), args.repeats, clock, not args.no_peers)
        robustness(not args.no_peers)


if __name__ == "__main__":
    main()
