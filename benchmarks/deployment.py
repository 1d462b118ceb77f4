"""What calibration adds to a forward pass: each calibrator behind a ResNet-50 for 1,000 classes of ImageNet's size.

    python benchmarks/deployment.py [--batch 8] [--threads 2] [--repeats 5] [--clock wall] [--device cpu]

``network`` is the pass without a calibrator, the limit row: no deployment is faster. A row is what the module that
follows takes on the same batch of logits, least of all repeats, and its share of the network's time; what takes over
2 s runs once. The calibrators are fitted on 2,000 rows of logits; of the affine ones, which take longer, the state is
that of temperature scaling. On a machine that others use too, ``--clock cpu --threads 1`` counts the processor's time
only.
"""

import argparse
import warnings

import numpy as np
import torch
from shared import begin, least

from calibkit.calibrators import CALIBRATORS, MatrixScaling, NeuralClamping, VectorScaling
from calibkit.deploy import CalibratedModel
from calibkit.models import build

N_CLASSES, N_ROWS, SHAPE = 1000, 2000, (3, 224, 224)
FITTED = ("identity", "temperature_scaling", "ets", "pts", "spline", "histogram_binning", "isotonic")


def calibrators():
    """Name -> calibrator for 1,000 classes."""
    generator = torch.Generator().manual_seed(0)
    z = 3 * torch.randn(N_ROWS, N_CLASSES, generator=generator)
    y = torch.multinomial((z / 1.5).softmax(1), 1, generator=generator)[:, 0]
    found = {name: CALIBRATORS[name]().fit(z, y) for name in FITTED}
    scales, report = np.full(N_CLASSES, 1 / 1.5), {"chosen_lam": 0.0, "cv_loss": 0.0, "cv_loss_temperature": 0.0}
    state = {"n_classes": N_CLASSES, "bias": np.zeros(N_CLASSES), "fell_back": False, **report}
    found["vector_scaling"] = VectorScaling().load_state_dict({**state, "weights": scales})
    found["matrix_scaling"] = MatrixScaling().load_state_dict({**state, "weights": np.diag(scales)})
    clamping = {"n_classes": N_CLASSES, "delta": np.zeros(SHAPE), "temperature": 1.5, "loss_curve": np.zeros(1)}
    found["neural_clamping"] = NeuralClamping().load_state_dict(clamping)
    return found


@torch.inference_mode()
def race(batch, repeats, clock, device, calibrators):
    network = build("resnet50", N_CLASSES, stem="imagenet").eval().to(device)
    images = torch.randn(batch, *SHAPE, generator=torch.Generator().manual_seed(0)).to(device)
    logits = network(images)  # a first call, which is not counted
    whole = least(lambda: network(images), repeats, clock)
    print(f"{f'{batch} images':24}{'least ms':>10}{'of the network':>16}")
    print(f"{'network':24}{1e3 * whole:10.2f}")
    for name, calibrator in calibrators.items():
        calibration = CalibratedModel(network, calibrator).calibration

        def call(calibration=calibration):
            calibration.perturb((images,))
            return calibration(logits)

        call()
        seconds = least(call, 10 * repeats, clock)
        print(f"{name:24}{1e3 * seconds:10.3f}{100 * seconds / whole:14.3f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    args, clock = begin(parser)
    print(f"on {args.device}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        race(args.batch, args.repeats, clock, args.device, calibrators())


if __name__ == "__main__":
    main()
