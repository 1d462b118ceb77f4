"""CPC at K classes: time and extra memory of a forward and backward pass, blocked (calibkit) and plain.

Plain is the textbook expression, all (N, K, K) differences at once, as in the public re-implementation. Each runs in a
process of its own, so that the peak of its resident memory (on a GPU: of allocated memory) over the start is its own.

    python benchmarks/losses.py [--n 128] [--k 1000] [--device cpu] [--repeats 5]
"""

import argparse
import resource
import statistics
import time

import torch
from shared import alone
from torch.nn import functional

from calibkit.losses import LOSSES


def plain(logits, labels):
    """Weights 0.1 and 1.0, without cross-entropy: what ``LOSSES["cpc"]().penalty`` gives."""
    n, k = logits.shape
    wrong = torch.arange(k, device=logits.device).expand(n, k) != labels[:, None]
    others = logits[wrong].view(n, k - 1)
    one_v_one = -functional.logsigmoid(logits.gather(1, labels[:, None]) - others).sum() / ((k - 1) * n)
    gaps = others[:, :, None] - others[:, None, :]
    return 0.1 * one_v_one - 0.5 * functional.logsigmoid(gaps).sum() / ((k - 1) * (k - 2) * n)


def measure(form, n, k, device, repeats):
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(n, k, generator=generator)).to(device).requires_grad_()
    labels = torch.randint(k, (n,), generator=generator).to(device)
    penalty = LOSSES["cpc"]().penalty if form == "blocked" else plain
    on_gpu = logits.device.type == "cuda"

    def peak():
        return torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def step():
        start = time.perf_counter()
        value = penalty(logits, labels)
        (slope,) = torch.autograd.grad(value, logits)
        return time.perf_counter() - start, value.item(), slope.norm().item()

    penalty(logits[:2], labels[:2]).backward()  # load what is loaded once
    before = peak()
    seconds, values, norms = zip(*(step() for _ in range(repeats)), strict=True)
    return statistics.median(seconds), (peak() - before) / 2**20, values[0], norms[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--k", type=int, default=1000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(f"CPC penalty and gradient, N = {args.n}, K = {args.k}, float32, {args.device}")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, median of {args.repeats}")
    print(f"{'form':8} {'seconds':>9} {'MiB':>8} {'value':>10} {'|gradient|':>11}")
    for form in ("blocked", "plain"):
        result, code = alone(measure, form, args.n, args.k, args.device, args.repeats)
        if code:
            print(f"{form:8} ended with code {code} (out of memory?)")
            continue
        seconds, mebibytes, value, norm = result
        print(f"{form:8} {seconds:9.4f} {mebibytes:8.0f} {value:10.6f} {norm:11.4e}")


if __name__ == "__main__":
    main()
