"""The streaming metrics on segmentation maps without end: peak memory, state and seconds, image after image.

    python benchmarks/streaming.py [--images 500] [--size 1024x2048] [--classes 19] [--threads 1] [--clock cpu]

The default is a stream as large as the validation images of Cityscapes, 2 megapixels of 19 classes each, with a void
label. Images are simulated, one at a time: the softmax of one map of logits, each time sharpened otherwise, so the
first is calibrated and the others are not. The value after the first image is compared with that of the function on all
its pixels. Peaks are of the process and hold an image, its logits and its probabilities; the growth from the tenth
image to the last is what a stream costs. A metric that keeps 8 bytes a pixel is shown for comparison, as arithmetic.
"""

import argparse
import resource

import torch
from shared import begin

from calibkit.metrics import METRICS
from calibkit.metrics.streaming import ECE, MCE, NLL, Accuracy, ClasswiseECE

VOID = 255


def stream(images, height, width, classes):
    """(probs (1, K, H, W), labels (1, H, W)) of each image; the last tenth of the rows is void."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(1, classes, height, width, generator=generator)
    uniform = torch.rand(1, classes, height, width, generator=generator)
    labels = (logits - uniform.log_().neg_().log_()).argmax(1)  # Gumbel's way to draw from the softmax
    del uniform
    labels[:, -height // 10 :] = VOID
    for i in range(images):
        yield (logits * (1 + i / images)).softmax(1), labels


def peak_mebibytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--size", default="1024x2048")
    parser.add_argument("--classes", type=int, default=19)
    args, clock = begin(parser, threads=1, clock="cpu")
    height, width = map(int, args.size.split("x"))
    metrics = {
        "accuracy": Accuracy(ignore_index=VOID),
        "nll": NLL(ignore_index=VOID),
        "ece": ECE(ignore_index=VOID),
        "mce": MCE(ignore_index=VOID),
        "classwise_ece": ClasswiseECE(args.classes, ignore_index=VOID),
    }
    seconds = dict.fromkeys(metrics, 0.0)
    marks = sorted({1, 10, args.images // 10, args.images // 2, args.images} & set(range(1, args.images + 1)))
    print(f"{args.images} images of {args.size} x {args.classes}")
    print(f"{'images':>6} {'peak MiB':>9} {'state bytes':>11} {'8 bytes a pixel: MiB':>21}  {'  '.join(metrics)}")
    for i, (probs, labels) in enumerate(stream(args.images, height, width, args.classes), 1):
        for name, metric in metrics.items():
            start = clock()
            metric.update(probs, labels)
            seconds[name] += clock() - start
        if i in marks:
            state = sum(getattr(metric, x).nbytes for metric in metrics.values() for x in metric._defaults)
            kept = 8 * i * int((labels != VOID).sum()) / 2**20
            values = "  ".join(f"{metric.compute().item():.6f}" for metric in metrics.values())
            print(f"{i:6} {peak_mebibytes():9.0f} {state:11} {kept:21,.0f}  {values}", flush=True)
        if i == 1:
            first = {name: metric.compute().item() for name, metric in metrics.items()}
    print(f"{args.clock} seconds an image: ", "  ".join(f"{n} {t / args.images:.3f}" for n, t in seconds.items()))
    probs, labels = next(stream(1, height, width, args.classes))
    rows, kept = probs[0].flatten(1).t(), (labels != VOID).flatten()
    off = max(abs(METRICS[name](rows[kept], labels.flatten()[kept]) - value) for name, value in first.items())
    print(f"after the first image no value is off by more than {off:.1e} from the function's")


if __name__ == "__main__":
    main()
