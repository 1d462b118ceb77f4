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
# You have a trained classifier and want its confidence to be honest. One command does everything:
#
# ```bash
# calibkit report mine.csv
# ```
#
# It writes a page to read and pass on, and a calibrator in a file. This chapter takes the same steps one by one. Here
# they are run on a ResNet-20 for CIFAR-10 from this book. To run them on your own outputs:
#
# ```bash
# papermill notebooks/your_model.ipynb out.ipynb -p source mine.csv
# ```
#
# ```{figure} ../book/_static/your_model_report.png
# :name: fig-your-model-report
# :class: dark-light
# :width: 640px
# :alt: The first screen of report.html. It says that the network gives 92.7% and is right in 86.9%, and 87.6% after one temperature. It recommends temperature scaling with T = 1.59 and gives the reasons, and shows two lines of code that load the calibrator.
#
# The first screen of `report.html` says how far off the network is, what to do and why. It is shown for the network of
# this chapter. The reliability diagrams, the methods and the classes follow further down.
# ```

# %% tags=["parameters"]
budget = "smoke"  # nothing is trained here
source = "cifar10/resnet20-cross_entropy-s0"  # a file, or a network of this book
kind = ""  # "logits" or "probabilities", where the file does not say it
label = ""  # of a table, the column of labels, where it is not called so
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
    calibrators=[str, ...],
    keep_predictions=bool,
    n_resamples=range(10, 10_001),
    out=str,
)

from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import table
from calibkit import plots, read, report
from calibkit.cli import check_writable_folder
from calibkit.networks import load_logits, published, zoo
from calibkit.reporting import diagnose
from calibkit.reporting.catalogue import need_of

plots.use_style()
needs = [need_of(key) for key in calibrators]  # refuses what is no key
if out:
    check_writable_folder(Path(out))
if not Path(source).exists() and source not in {**zoo(), **published()}:
    raise ValueError(
        "Expected `source` to be a file or folder that is there, or a name that "
        f"`calibkit networks` lists, but got {source!r}"
    )

# %% [markdown]
# ## What you need
#
# You need the outputs $\z$ of the network before softmax, its {term}`logits`, for samples that it was **not trained on**,
# with their true labels $y$. Outputs on training samples are of no use. There the network is right more often than it will
# be later, and a calibrator that is fitted on them learns to trust it too much.
#
# A table will do, with one column per class. Labels are class names, or numbers from 0:
#
# ```text
# cat,dog,fox,label,split
# 2.1,-0.3,0.4,cat,val
# -1.0,1.7,0.2,fox,val
# 0.3,2.5,-0.8,dog,test
# ```
#
# The calibrator is fitted on the `val` rows and judged on the `test` rows. **If you have only one set,** leave out `split`. Then
# we cross-fit. We divide the samples into five parts, and judge each part by a calibrator fitted on the other
# four. The calibrator that you take home is fitted on all of them.
#
# The reader also takes npz, npy, torch and parquet files, DataFrames and arrays ({doc}`../book/using`).

# %%
outputs = source if Path(source).exists() else load_logits(source, "source")
given = read(outputs, kind=kind or None, label=label or None)
found = diagnose(given)

# %% tags=["hide-input", "nbval-check-output"]
counts = {"fit on": found.val} | ({"judge by": found.test} if found.test else {})
counts = [f"{len(part.labels):,} samples to {name}" for name, part in counts.items()]
Markdown(f"Here there are {' and '.join(counts)}, of {len(found.classes):,} classes.")

# %% [markdown]
# ## What is wrong with them
#
# Most failed calibrations are failures of the data. Probabilities stand where logits were meant, labels are counted from 1, the
# same samples are in both sets, or the validation set is unlike what the network will meet. We look for each of these. Problems with
# an obvious fix are fixed and listed here.

# %% tags=["hide-input", "nbval-check-output"]
findings = [f"- *{f.weight}*, {f.kind}: {escape(f.text)}" for f in found.findings]
Markdown("\n".join([escape(found.first_paragraph), "", *findings]))

# %% [markdown]
# ## Every calibrator against one temperature
#
# Temperature scaling (TS) divides all logits by one number $T$ and is the method to beat. Every other calibrator that takes seconds is fitted
# to the same samples and compared with it on the same test samples, in negative log-likelihood (NLL) and expected
# calibration error (ECE). {doc}`metrics` defines these and the other metrics below, {doc}`../book/protocol` the
# intervals, and {doc}`../book/api/calibrators` the methods.
#
# By default every method may be recommended, including those that change some predictions. **Set `keep_predictions`** if the
# predicted classes must stay, say because a product already shows them. All methods are still tried and listed, but
# only those that never change a prediction can be recommended.

# %%
full = report(
    given,
    methods=calibrators or None,
    keep_predictions=keep_predictions,
    n_resamples=n_resamples,
)

# %% tags=["hide-input"]
rows = {}
for key, tried in full.trial.measured.items():
    if key == "temperature_scaling":
        continue
    minus_ts, finite = tried.changes, np.isfinite(tried.values["nll"].value)
    rows[tried.need.name + " *" * (not tried.enough)] = {
        ("minus TS", "NLL"): f"{minus_ts['nll']:+.4f}" if finite else "infinite",
        ("minus TS", "ECE"): f"{minus_ts['ece'].percent:+.2f}",
        ("", "predictions changed, %"): f"{100 * tried.changed:.2f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Every method minus one temperature (TS), with 95% intervals: NLL in nats, ECE in points, "
    "negative is better. *: this method would need more samples",
    "tbl-your-calibrators",
    names={"none": "uncalibrated"},
)

# %% [markdown]
# Where an interval includes 0, the difference may be chance. An infinite NLL means that some label got zero
# probability. A method with a star has too many parameters for these samples, and is not recommended.
#
# ## Which to take
#
# Take one temperature, unless another method has enough samples, lowers the NLL by 0.005 nats or more, clearly so after
# a correction for how many were tried, does not raise the ECE beyond chance, and calls no class impossible. Why 0.005 nats? A parameter that is fitted to a
# hundred samples costs as much, by {eq}`eq-ts-excess`.

# %% tags=["hide-input", "nbval-check-output"]
name = full.trial.measured[full.choice.key].need.name
reasons = [f"- {reason}" for reason in full.choice.reasons]
verdict = f"Take **{name}**: `{full.calibrator}`. How sure this is: {full.choice.sure}."
Markdown("\n".join([verdict, "", *reasons]))

# %% [markdown]
# ## What it does
#
# In a *reliability diagram* a bar is the accuracy among the samples in one range of confidence. Where the bars end on the
# dashed line, the network is right as often as its confidence claims. The grey marks are where a calibrated network of
# these confidences would lie, so a bar that ends on its mark shows nothing wrong.

# %% mystnb={"figure": {"caption": "The calibrator brings the bars nearer to the dashed line. Accuracy among the test samples in each range of confidence, before and after. Vermilion: the gap to the mean confidence. Grey: where a calibrated network would lie, a long mark where there are few samples. On top: how many samples there are.", "name": "fig-your-model-after"}, "image": {"alt": "Two reliability diagrams. Before, most bars end below the dashed line; after, nearly all end on their grey marks."}}
plots.before_after(full.probs, full.trial.judged.labels)
plt.show()

# %% tags=["hide-input"]
rows = {}
for name, of in full.metrics.items():
    rows[name] = {
        metric: f"{x:.3f}" if metric in ("nll", "entropy") else f"{x.percent:.2f}"
        for metric, x in of.items()
        if metric not in ("mce", "debiased_ece")
    }
table(
    pd.DataFrame(rows),
    "What the calibrator changes, with 95% intervals. Percent, NLL and entropy in nats",
    "tbl-your-metrics",
    names=shown,
)

# %% [markdown]
# A network that is calibrated as a whole may be over-confident in one class and under-confident in another. The *gap* of a
# class is the mean confidence among the samples that are predicted as it, minus the share of them that belong to it.

# %% tags=["hide-input"]
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
    "Confidence minus accuracy in each class, in points. The classes in which most "
    "samples are affected come first",
    "tbl-your-classes",
)

# %% [markdown]
# ## Take it with you
#
# The calibrator is a small file. It takes one more line where the network runs:
#
# ```python
# from calibkit import load_calibrator
#
# calibrate = load_calibrator("calibrator.npz")
# probs = calibrate(network(images))
# ```

# %% tags=["hide-input"]
written = [f"- `{path}`" for path in full.save(out)] if out else []
Markdown(
    "\n".join(written)
    or "Set `out` to a folder, and this chapter writes the report and the calibrator there."
)
