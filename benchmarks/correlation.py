"""How far the sampling errors of networks on the same test images go together.

For each pair of calibrators: the difference of a metric on the same 1,000 resamples of the test images, for each of
the networks, and the mean correlation over all pairs of networks. Networks go together whose test labels are equal, in
order. Writes ``book/results/correlation.csv``; needs the published logits (``calibkit data prepare published``).
About five minutes.

    python benchmarks/correlation.py
"""

from itertools import groupby

import numpy as np
import pandas as pd

from book.kit.results.csv_rows import resample
from calibkit import _folders, calibrator
from calibkit._files import write_text
from calibkit.networks import PUBLISHED, load_logits, published, zoo

METRICS = {
    "accuracy": "accuracy",
    "ece": "ECE",
    "adaptive_ece": "AECE",
    "classwise_ece": "class-wise",
    "nll": "NLL",
    "brier": "Brier",
}
TS, CTS = "temperature_scaling", "class_temperature_scaling"
PAIRS = {
    "TS minus uncalibrated": (TS, "identity"),
    "CTS minus TS by ECE": (CTS, f"{TS}:ece"),
    "CTS minus TS": (CTS, TS),
    "CLS minus TS": (f"{TS}:class_loss_scaling", TS),
    "equal weights minus TS": (f"{TS}:class_balanced", TS),
    "CTS by CLS minus TS": (f"{CTS}:class_loss_scaling", TS),
    "order-preserving minus TS": ("order_preserving", TS),
}


def draws(network: str) -> dict[str, dict[str, np.ndarray]]:
    """Method -> metric -> its values on the resamples (1000,)."""
    data = load_logits(network)
    keys = sorted({key for pair in PAIRS.values() for key in pair})
    probs = {key: calibrator(key).fit(*data.val)(data.test_logits) for key in keys}
    of = {key: resample(p, data.test_labels, METRICS) for key, p in probs.items()}
    return {key: {metric: runs[metric].draws for metric in METRICS} for key, runs in of.items()}


def correlations(networks: list[str]) -> pd.DataFrame:
    """The mean correlation, a row a pair of methods."""
    drawn, rows = [draws(network) for network in networks], {}
    for name, (method, base) in PAIRS.items():
        rows[name] = {}
        for metric in METRICS:
            gaps = [of[method][metric] - of[base][metric] for of in drawn]
            moved = [gap for gap in gaps if gap.std() > 0]  # an accuracy that no method changes has no error
            among = np.corrcoef(moved)[np.triu_indices(len(moved), 1)] if len(moved) > 1 else [np.nan]
            rows[name][METRICS[metric]] = float(np.mean(among))
    return pd.DataFrame.from_dict(rows, orient="index")


def main() -> None:
    """Every group of networks, published ones and ours of CIFAR-10 that were trained with cross-entropy or a loss."""
    here = [name for name in published() if name in PUBLISHED]
    here += [
        name for name in zoo() if name.startswith("cifar10/resnet20-") and name.endswith("-s0") and "," not in name
    ]
    labels = {name: load_logits(name).test_labels.tobytes() for name in here}
    tables = []
    for _, group in groupby(sorted(here, key=labels.get), key=labels.get):
        networks = list(group)
        if len(networks) > 1:
            of = "published" if networks[0] in PUBLISHED else "ours"
            tables.append(correlations(networks).assign(networks=f"{of}, {len(networks)}"))
    found = pd.concat(tables).rename_axis("difference").reset_index()
    found = found[["difference", "networks", *METRICS.values()]].sort_values("networks", ascending=False, kind="stable")
    text = found.to_csv(index=False, float_format="%.2f", lineterminator="\n").replace("-0.00", "0.00")
    write_text(_folders.stored() / "correlation.csv", text)
    print(text)


if __name__ == "__main__":
    main()
