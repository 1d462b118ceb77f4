# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your model
#
# You have a trained classifier and want its confidence to be honest. This chapter goes from its outputs to a calibrator in
# a file, and looks at each step. As it stands it uses a network of this book, a ResNet-20 for CIFAR-10. For your own,
# run it with another source:
#
# ```bash
# papermill notebooks/your_model.ipynb out.ipynb -p source mine.csv -p kind logits
# ```
#
# The command `calibkit report mine.csv --kind logits` does the same in one go and writes a page to pass on.

# %% tags=["parameters"]
budget = "smoke"  # nothing is trained here
source = "cifar10/resnet20-cross_entropy-s0"  # a file, or a network of this book
kind = ""  # "logits" or "probabilities", where the file does not say it
label = "label"  # of a table, the column of labels
calibrators = []  # keys of those to try; none: all that are fitted in seconds
keep_predictions = False  # whether the predicted classes must stay
n_resamples = 1000  # of the intervals
out = ""  # a folder for the report and the calibrator; none: nothing is written

# %% tags=["hide-input"]
from book.kit import notebook

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    source=str,
    kind=("", "logits", "probabilities"),
    label=str,
    calibrators=str,
    keep_predictions=(False, True),
    n_resamples=range(10, 10_001),
    out=str,
)

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import table
from calibkit import plots, read, report
from calibkit.networks import load_logits
from calibkit.reporting import diagnose

plots.use_style()

# %% [markdown]
# ## The outputs
#
# What is needed are the outputs $z$ of the network before softmax, its *logits*, for samples that it was **not trained on**,
# with their true labels $y$. Outputs on training samples are of no use: there the network is right more often than it will
# be later, and a calibrator that is fitted on them learns to trust it too much.
#
# Some samples serve to fit the calibrator, others to judge it. With one set alone each sample is judged by a fit that has
# not seen it. The reader takes npz, npy, torch, csv and parquet files, DataFrames and arrays.

# %%
outputs = source if Path(source).exists() else load_logits(source)
given = read(outputs, kind=kind or None, label=label)
found = diagnose(given)
parts = {"to fit on": found.val} | ({"to judge by": found.test} if found.test else {})
rows = {}
for name, part in parts.items():
    right = part.logits.argmax(1) == part.labels
    rows[name] = {
        "samples": f"{len(part.labels):,}",
        "classes": f"{part.logits.shape[1]:,}",
    }
    rows[name]["accuracy, %"] = f"{100 * right.mean():.2f}"
table(pd.DataFrame(rows).T, "Which samples are there?", "tbl-your-samples")

# %% [markdown]
# ## What is wrong with them
#
# Most failed calibrations are failures of the data: probabilities where logits were meant, labels counted from 1, the same
# samples in both sets, a validation set that is unlike what the network will meet. Each of these is looked for. A problem
# with one obvious cure is cured, and listed here.

# %% tags=["hide-input", "nbval-check-output"]
findings = [f"- *{f.weight}*, {f.kind}: {f.text}" for f in found.findings]
Markdown("\n".join([found.first_paragraph, "", *findings]))

# %% [markdown]
# ## Every calibrator, beside one temperature
#
# Temperature scaling divides all logits by one number $T$ and is the method to beat. Each other method is fitted to the same
# samples, and its negative log-likelihood (NLL) and calibration error (ECE) are compared with those of temperature scaling (TS)
# on the same resamples of the samples to judge by. {doc}`metrics` defines the two, {doc}`../book/protocol` the interval.
# A difference whose interval holds 0 may be chance.
#
# Methods that have too many parameters for these samples are fitted all the same, and marked: they are not recommended.
# *Changed* is the share of predictions that a method changes.

# %%
full = report(
    given,
    methods=calibrators or None,
    keep_predictions=keep_predictions,
    n_resamples=n_resamples,
)
rows = {}
for key, tried in full.trial.measured.items():
    compared = key != "temperature_scaling" and np.isfinite(tried.changes["nll"]).all()
    nll, error = (tried.values[metric] for metric in ("nll", "ece"))
    less = tried.changes if compared else {}
    rows[tried.need.name] = {
        ("NLL", "value"): f"{nll.value:.4f}",
        ("NLL", "minus that of TS"): f"{less['nll']:+.4f}" if less else "",
        ("ECE, %", "value"): f"{error.percent.value:.2f}",
        ("ECE, %", "minus that of TS"): f"{less['ece'].percent:+.2f}" if less else "",
        ("", "changed, %"): f"{100 * tried.changed:.2f}",
        ("", "samples"): "enough" if tried.enough else "too few",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Which calibrator is better than one temperature? With 95% intervals",
    "tbl-your-calibrators",
)

# %% [markdown]
# ## Which to take
#
# The rule: one temperature, unless another method has enough samples, lowers the NLL by half a hundredth of a nat or
# more, beyond chance after a correction for how many were tried, and does not raise the ECE.
# Half a hundredth of a nat is what a parameter costs that is fitted to a hundred samples: {doc}`../book/which_method`.

# %% tags=["hide-input", "nbval-check-output"]
name = full.trial.measured[full.choice.key].need.name
reasons = [f"- {reason}" for reason in full.choice.reasons]
verdict = f"Take **{name}**: `{full.calibrator}`. How sure this is: {full.choice.sure}."
Markdown("\n".join([verdict, "", *reasons]))

# %% [markdown]
# ## What it does
#
# In a *reliability diagram* a bar is the accuracy among the samples of one range of confidence. Where the bars end on the
# dashed line, the network is as often right as it says. The grey marks are where a calibrated network of these confidences
# would lie: a bar that ends on its mark shows nothing wrong.

# %% mystnb={"figure": {"caption": "Do the bars come nearer to the dashed line? Accuracy among the test samples of each range of confidence, before and after. Grey: where a calibrated network would lie. On top: how many samples there are.", "name": "fig-your-model-after"}, "image": {"alt": "Two reliability diagrams. Before, most bars end below the dashed line; after, nearly all end on their grey marks."}}
plots.before_after(full.probs, full.trial.judged.labels)
plt.show()

# %%
rows = {}
for name, of in full.metrics.items():
    rows[name] = {
        metric: f"{x:.3f}" if metric in ("nll", "entropy") else f"{x.percent:.2f}"
        for metric, x in of.items()
    }
table(
    pd.DataFrame(rows),
    "What does the calibrator change? Percent; NLL and entropy in nats",
    "tbl-your-metrics",
    names=shown,
)

# %% [markdown]
# A network that is calibrated as a whole may be too sure of one class and not sure enough of another. The *gap* of a class is
# the mean confidence among the samples that are predicted as it, minus the share of them that belong to it.

# %%
rows = {}
for row in full.classes[:10]:
    rows[row.name] = {
        "predicted": f"{row.predicted:,}",
        "right, %": f"{100 * row.accuracy:.1f}",
        "gap before": f"{100 * row.before:+.1f}",
        "gap after": f"{100 * row.after:+.1f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index").rename_axis("class"),
    "How honest is the confidence in each class? Gaps in points",
    "tbl-your-classes",
)

# %% [markdown]
# ## Take it with you
#
# The calibrator is a small file. Where the network runs, it is one more line:
#
# ```python
# from calibkit import load_calibrator
#
# calibrate = load_calibrator("calibrator.npz")
# probs = calibrate(network(images))
# ```

# %% tags=["hide-input"]
written = [f"- `{path}`" for path in full.save(out)] if out else []
Markdown("\n".join(written) or "*Nothing was written: `out` names no folder.*")
