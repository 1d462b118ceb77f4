"""Vector, matrix and ODIR scaling beside the peers: seconds, processor seconds, held-out NLL, memory beyond the logits.

The logits are float32 and too large by 1.79, the labels drawn from the softmax of the true ones, at an accuracy near
85%. In the ``plain`` kind one temperature is all that is wrong; in ``classes`` each class has a scale and an offset of
its own besides. Each method runs in a process of its own; ``MiB`` is the growth of the peak resident memory during its
first fit. On a machine that others use too, the processor's seconds with ``--threads 1`` are what tells. Peers that
are not installed are left out.

    python benchmarks/affine_scaling.py [--sizes 10000x10 10000x100 25000x1000] [--kinds plain classes] \
        [--methods NAME ...] [--threads 2] [--repeats 3]
"""

import argparse
import importlib.util
import math
import time

import torch
from shared import alone, extra_mebibytes

from calibkit.calibrators import MSODIR, DirODIR, MatrixScaling, TemperatureScaling, VectorScaling


def sample(n, k, kind, seed):
    """Logits (n, k) and labels (n,); the classes are the same for every seed."""
    rows, classes = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(99)
    true = torch.randn(n, k, generator=rows)
    boost = 0.8 + math.log(k) + 3 * torch.randn(n, generator=rows).abs()
    true[torch.arange(n), torch.randint(k, (n,), generator=rows)] += boost
    labels = torch.cat([torch.multinomial(block.softmax(1), 1, generator=rows)[:, 0] for block in true.split(2000)])
    if kind == "classes":
        scale, offset = torch.exp(0.3 * torch.randn(k, generator=classes)), torch.randn(k, generator=classes)
        true = (true - offset) / scale
    return 1.79 * true, labels


def probmetrics(name):
    def fit(z, y):
        from probmetrics import calibrators
        from probmetrics.distributions import CategoricalLogits

        calibrator = getattr(calibrators, name)()
        calibrator.fit_torch(CategoricalLogits(z), y)
        return lambda new: calibrator.predict_proba_torch(CategoricalLogits(new)).get_probs()

    return fit


def torch_uncertainty(name, **options):
    def fit(z, y):
        from torch.utils.data import DataLoader, TensorDataset

        from calibkit._extras import ensure_torchvision_importable

        ensure_torchvision_importable()
        from torch_uncertainty.post_processing import calibration

        scaler = getattr(calibration, name)(num_classes=z.shape[1], **options)
        scaler.fit(DataLoader(TensorDataset(z, y), batch_size=len(z)), progress=False)
        return lambda new: scaler(new).softmax(1)

    return fit


METHODS = {
    "temperature": lambda z, y: TemperatureScaling().fit(z, y),
    "vector": lambda z, y: VectorScaling().fit(z, y),
    "vector, lam chosen": lambda z, y: VectorScaling(lam=None).fit(z, y),
    "matrix, lam chosen": lambda z, y: MatrixScaling(lam=None).fit(z, y),
    "ms_odir": lambda z, y: MSODIR().fit(z, y),
    "dir_odir": lambda z, y: DirODIR().fit(z, y),
    "probmetrics vector": probmetrics("VectorScalingCalibrator"),
    "probmetrics SVS": probmetrics("SVSCalibrator"),
    "probmetrics SMS": probmetrics("SMSCalibrator"),
    "torch_uncertainty vector": torch_uncertainty("VectorScaler"),
    "torch_uncertainty matrix": torch_uncertainty("MatrixScaler"),
    "torch_uncertainty dirichlet": torch_uncertainty("DirichletScaler"),
}


def measure(method, n, k, kind, threads, repeats):
    torch.set_num_threads(threads)
    z, y = sample(n, k, kind, 0)
    METHODS[method](*sample(200, 3, "plain", 2))  # load what is loaded once
    seconds, processor, calibrated = [], [], None

    def fit():
        nonlocal calibrated
        wall, cpu = time.perf_counter(), time.process_time()
        calibrated = METHODS[method](z, y)
        seconds.append(time.perf_counter() - wall)
        processor.append(time.process_time() - cpu)

    extra = extra_mebibytes(fit)
    for _ in range(repeats - 1):
        fit()
    new, labels = sample(n, k, kind, 1)
    probs = torch.as_tensor(calibrated(new)).double()
    nll = -probs[torch.arange(n), labels].log().mean().item()
    return min(seconds), min(processor), nll, extra, chosen(calibrated)


def chosen(calibrated):
    """Which penalties were chosen."""
    names = [name for name in ("chosen_lam", "chosen_mu") if hasattr(calibrated, name)]
    return ", ".join(f"{name[7:]} {getattr(calibrated, name):.0e}" for name in names)


def installed(method):
    package = method.split()[0]
    return package not in ("probmetrics", "torch_uncertainty") or importlib.util.find_spec(package) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["10000x10", "10000x100", "25000x1000"])
    parser.add_argument("--kinds", nargs="+", default=["plain", "classes"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=900, help="seconds after which a method is given up")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {args.threads} threads, minimum of {args.repeats}")
    for size in args.sizes:
        n, k = map(int, size.split("x"))
        for kind in args.kinds:
            print(f"\n{kind}, {n:,} x {k:,}\n{'method':28} {'seconds':>8} {'CPU s':>8} {'NLL':>8} {'MiB':>6}")
            for method in filter(installed, args.methods):
                result, code = alone(measure, method, n, k, kind, args.threads, args.repeats, limit=args.limit)
                if result is None:
                    reason = "given up" if code is None else f"ended with code {code}"
                    print(f"{method:28} {reason}", flush=True)
                    continue
                seconds, cpu, nll, extra, penalties = result
                print(f"{method:28} {seconds:8.3f} {cpu:8.3f} {nll:8.4f} {extra:6.0f}  {penalties}", flush=True)


if __name__ == "__main__":
    main()
