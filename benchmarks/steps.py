"""Training steps of a ResNet-20 on a CPU: which precision and layout, one process with all cores or one a core.

Images a second of forward pass, backward pass and SGD step on batches of 128 random images of 32 x 32. Where several
processes run at a time, their sum: that is what several trainings beside each other get.

    python benchmarks/steps.py [--cores 2] [--steps 20] [--csv FILE]
"""

import argparse
import multiprocessing
import time

import pandas as pd
import torch
from torch.nn import functional

from calibkit._extras import ensure_torchvision_importable
from calibkit.models import build

BATCH = 128
#: processes a core or one for all, bfloat16 autocast, channels-last layout, torch.compile
CASES = [
    *((one_each, half, last, False) for one_each in (False, True) for half in (False, True) for last in (False, True)),
    (True, True, True, True),
]


def train(threads, half, last, compiled, steps, start, results):
    ensure_torchvision_importable()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layout = torch.channels_last if last else torch.contiguous_format
    model = build("resnet20", 10).to(memory_format=layout)
    network = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x = torch.randn(BATCH, 3, 32, 32).contiguous(memory_format=layout)
    y = torch.randint(10, (BATCH,))

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = functional.cross_entropy(network(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    start.wait()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    results.put(BATCH * steps / (time.perf_counter() - began))


def race(cores, one_each, half, last, compiled, steps):
    """Images a second of all processes together."""
    n, context = (cores if one_each else 1), multiprocessing.get_context("spawn")
    start, results = context.Barrier(n), context.Queue()
    arguments = (cores // n, half, last, compiled, steps, start, results)
    workers = [context.Process(target=train, args=arguments) for _ in range(n)]
    for worker in workers:
        worker.start()
    total = sum(results.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--csv")
    args = parser.parse_args()
    rows = []
    for one_each, half, last, compiled in CASES:
        row = {
            "processes": f"{args.cores}, a thread each" if one_each else f"1, {args.cores} threads",
            "precision": "bfloat16 autocast" if half else "float32",
            "layout": "channels last" if last else "channels first",
            "torch.compile": "yes" if compiled else "no",
            "images a second": round(race(args.cores, one_each, half, last, compiled, args.steps)),
        }
        rows.append(row)
        print(*row.values(), sep=", ", flush=True)
    if args.csv:
        pd.DataFrame(rows).to_csv(args.csv, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
