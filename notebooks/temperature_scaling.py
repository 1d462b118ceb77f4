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
# # Temperature scaling
#
# Divide all logits by one number, chosen on held-out images. That is *temperature scaling* (TS,
# {cite:t}`guo2017calibration`), the method that every other one in this book is compared with. It has one parameter,
# keeps every prediction and takes milliseconds. This chapter derives it, counts the images that it needs, and shows
# where it fails. Code: `calibkit/calibrators/temperature_scaling.py`.
#
# At the end you can
#
# - say which equation the temperature solves, and how far chance moves it;
# - choose between a fit by likelihood and a fit by calibration error;
# - tell from the size of the validation set what can be fitted on it;
# - name four cases in which one temperature does not help, and what would show it.

# %% tags=["parameters"]
budget = "smoke"  # every notebook takes it; only tiny networks are trained here
logits = "cifar10/resnet20-cross_entropy-s0"  # the first network, or an .npz
many_classes = "cifar100/resnet20-cross_entropy-s0"  # the one with more classes
long_tails = ["cifar10_lt/resnet20-cross_entropy-s0"]
long_tails += ["cifar100_lt/resnet20-cross_entropy-s0"]
n_bins = 15  # of ECE
n_resamples = 400  # bootstrap resamples
n_draws = 40  # validation sets of each size
n_few = 5  # the same, for methods with many parameters
seed = 0  # of everything random

# %% tags=["hide-input"]
import warnings
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from scipy.ndimage import gaussian_filter, rotate
from scipy.special import logsumexp, softmax
from scipy.stats import norm, rankdata
from torch.nn.functional import cross_entropy

from book.kit import notebook
from book.kit.notebook import pictures
from book.kit.notebook.display_names import shown
from book.kit.notebook.paper_tables import estimates
from book.kit.notebook.small_networks import many_on_digits
from book.kit.notebook.synthetic_classifiers import draw_labels
from book.kit.notebook.table import minus, table
from book.kit.notebook.trained_network import trained
from calibkit import Network, TemperatureScaling, calibrator, plots
from calibkit.metrics import (
    accuracy,
    classwise_ece,
    ece,
    entropy,
    evaluate,
    nll,
    smooth_ece,
)
from calibkit.metrics.comparison import Comparison, Estimate

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    logits=str,
    many_classes=str,
    long_tails=str,
    n_bins=range(1, 201),
    n_resamples=range(10, 100_001),
    n_draws=range(5, 10_001),
    n_few=range(2, 10_001),
    seed=range(2**31),
)

plots.use_style()
torch.set_num_threads(1)
data, large = notebook.logits_of(logits), notebook.logits_of(many_classes)
tails = {name: notebook.logits_of(name) for name in long_tails}

# %% [markdown]
# ## What it does
#
# A network says $\p = \softmax(\z)$ of its logits $\z$. Temperature scaling says
#
# $$
# \p = \softmax(\z / T), \qquad T > 0 .
# $$ (eq-ts-model)
#
# $T > 1$ takes confidence away, $T < 1$ adds some. At $T \to \infty$ all classes get $1/K$, at $T \to 0$ the predicted
# one gets everything. The order of the classes never changes. Here is a network before and after. $T$ was fitted on
# 5,000 validation images, and the picture shows 10,000 test images.

# %% mystnb={"figure": {"caption": "What does one temperature do to a network? Reliability diagrams of the same test images. Grey: where a calibrated network would lie. Below: the distribution of the confidence, with its mean (vermilion) and the accuracy (the other dashed line).", "name": "fig-ts-before-after"}, "image": {"alt": "Two reliability diagrams, before and after: bars below the diagonal come onto it; below, the histogram of the confidence, where mean confidence and accuracy come together."}}
raw, ts = calibrator("identity").fit(*data.val), TemperatureScaling().fit(*data.val)
titles = {"before": raw, f"after, T = {ts.temperature:.2f}": ts}
samples = {
    title: (fit(data.test_logits), data.test_labels) for title, fit in titles.items()
}
pictures.reliability_row(samples, n_bins=n_bins, histogram=True)
plt.show()

# %% tags=["nbval-check-output"]
bootstrap = {"n_bins": n_bins, "n_resamples": n_resamples, "seed": seed}
methods = {"before": raw, "after": ts}
both = Comparison.on(data.test, methods, ["accuracy", "ece", "nll"], **bootstrap)
columns = {shown(metric): ("", metric) for metric in ("accuracy", "ece", "nll")}
change = estimates(both, ["after"], columns, base="before").set_axis(["change"])
table(
    pd.concat([estimates(both, both, columns), change]).T,
    "What does one temperature change? Percent [95% interval]; the NLL in nats",
    "tbl-ts-before-after",
)

# %% [markdown]
# Square brackets hold 95% intervals; those of a change are paired (see {doc}`metrics`). The accuracy is the same to the
# last image. In the left diagram every gap that leaves its grey bar is on one side: the network is over-confident,
# and one knob removes most of that.
#
# Try it on 2,000 of the test images. Which temperature has the least NLL here, and which the least ECE? Does the answer
# for ECE depend on the number of bins?
#
# ```{widget} temperature
# ```
#
# ## Derivation
#
# ### One scale, by maximum likelihood
#
# Let $b = 1/T$ and let $(\z_i, y_i)$, $i = 1, \dots, n$, be logits and labels of the validation set. The mean negative
# log-likelihood is
#
# $$
# L(b) = \frac1n \sum_i \Bigl( \log \sum_k e^{b z_{ik}} - b \, z_{i y_i} \Bigr) .
# $$ (eq-ts-nll)
#
# The derivative of $\log \sum_k e^{b z_k}$ with respect to $b$ is the mean of $z$ under $\p$, and the next derivative
# its variance:
#
# $$
# L'(b) = \frac1n \sum_i \Bigl( \sum_k p_{ik} z_{ik} - z_{i y_i} \Bigr),
# \qquad
# L''(b) = \frac1n \sum_i \operatorname{Var}_{k \sim \p_i} [z_{ik}] \;\ge\; 0 .
# $$ (eq-ts-derivatives)
#
# So $L$ is convex in $b$ (not in $T$). At the optimum $L' = 0$: **the mean logit of the label equals the mean logit that
# the network expects.** That is the whole fit: one equation, one unknown.


# %% tags=["nbval-check-output"]
def derivatives(z, y, b):
    """Of each sample: NLL, its slope and its curvature in b."""
    p = softmax(b * z, axis=1)
    mean, label = (p * z).sum(1), z[np.arange(len(y)), y]
    return (
        logsumexp(b * z, axis=1) - b * label,
        mean - label,
        (p * z**2).sum(1) - mean**2,
    )


z, y = data.val_logits.astype(float), data.val_labels
b, h = 1 / ts.temperature, 1e-4
rows = {}
for name, at in {"T = 1": 1.0, "optimum": b, "T = 4": 0.25}.items():
    values, slope, curvature = (x.mean() for x in derivatives(z, y, at))
    after, before = (derivatives(z, y, at + step)[0].mean() for step in (h, -h))
    rows[name] = {
        ("slope", "by formula"): slope,
        ("slope", "by differences"): (after - before) / (2 * h),
        ("curvature", "by formula"): curvature,
        ("curvature", "by differences"): (after - 2 * values + before) / h**2,
    }
expected = (softmax(b * z, axis=1) * z).sum(1).mean()
print(f"mean logit of the label  {z[np.arange(len(y)), y].mean():.6f}")
print(f"mean expected logit      {expected:.6f}")
table(
    pd.DataFrame(rows).T,
    "Are slope and curvature what finite differences say? At three temperatures",
    "tbl-ts-derivatives",
    digits=4,
)

# %% [markdown]
# ### A second reading: uncertainty equals surprise
#
# Put $L'(b) = 0$ into {eq}`eq-ts-nll` and $L$ becomes the mean entropy of the $\p_i$. So at the optimum the mean *entropy* of
# the probabilities equals their mean *NLL*: on average the network is as uncertain as it is surprised. Conversely,
# TS is the maximum-entropy solution: of all probabilities whose mean expected logit is that of the labels,
# $\softmax(\z / T)$ has the largest entropy. This is Lemma 1 of {doc}`neural_clamping`, where a solver that knows
# nothing of softmax finds it. {numref}`tbl-ts-rivals` holds rivals that obey the same constraint, mixtures of a sharper
# softmax with uniform probabilities: they have less entropy.

# %% tags=["nbval-check-output"]
p, test_p, test_y = ts(z), ts(data.test_logits), data.test_labels
print(f"validation: entropy {entropy(p, y):.6f}, NLL {nll(p, y):.6f}")
print(
    f"test:       entropy {entropy(test_p, test_y):.3f}, NLL {nll(test_p, test_y):.3f}"
)
label_logit, mean_logit = z[np.arange(len(y)), y].mean(), z.mean()
rivals = {"TS": p}
for t in (1.5, 1.2, 1.0):
    sharp = softmax(z / t, axis=1)
    share = (label_logit - mean_logit) / ((sharp * z).sum(1).mean() - mean_logit)
    rival = share * sharp + (1 - share) / z.shape[1]
    rivals[f"{100 * share:.1f}% of T = {t}, rest uniform"] = rival
rows = {
    name: {
        "expected logit": (rival * z).sum(1).mean(),
        "entropy": entropy(rival, y),
    }
    for name, rival in rivals.items()
}
table(
    pd.DataFrame(rows).T,
    "Which probabilities with the same expected logit have the most entropy? Nats",
    "tbl-ts-rivals",
    digits=3,
)

# %% [markdown]
# On test images the two numbers need not agree, and their difference shows which way a temperature is off: an NLL above
# the entropy means that it is too small.
#
# ### When there is an optimum
#
# $L'$ rises with $b$, so it has at most one zero unless in every row all logits are equal. Look at its two ends.
#
# - At $b = 0$ the probabilities are uniform, and $L'(0)$ is the mean logit of all classes minus that of the labels. It is
#   negative if the logits tell anything. If not, the best $b > 0$ does not exist: $T = \infty$.
# - At $b \to \infty$ the expected logit is the largest one, and $L'(\infty)$ is the mean distance from it to the label's
#   logit. It is positive unless *every* label has the largest logit. Then $L$ falls for ever: $T = 0$.
#
# If neither happens, there is exactly one $T$. `calibkit` stops at a bound and warns: 0.01 and 1,000 times the typical
# spread of the logits in a row.

# %% tags=["nbval-check-output"]
four = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 2.0]])
cases = {"right": [0, 1, 0, 1], "one mistake": [0, 0, 0, 1]}
cases |= {"no better than chance": [1, 1, 0, 0], "wrong": [1, 0, 1, 0]}
rows = {}
for name, answers in cases.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t = TemperatureScaling().fit(four, np.array(answers)).temperature
    message = str(caught[0].message).split(":")[0] if caught else ""
    rows[name] = {"T": f"{t:.4g}", "warning": message}
table(pd.DataFrame(rows).T, "Which T do four logit pairs ask for?", "tbl-ts-bounds")

# %% [markdown]
# A bound is a message, not an answer. The first case happens: 20 images of a good network, or its training set.
#
# ### How far chance moves it
#
# The optimum solves a mean equation, so the textbook expansion applies. With the score $s_i = \sum_k p_{ik} z_{ik} -
# z_{i y_i}$,
#
# $$
# \operatorname{se}(\hat b) = \frac{1}{I} \sqrt{\frac{J}{n}}, \qquad
# \operatorname{se}(\hat T) = T^2 \operatorname{se}(\hat b), \qquad
# I = L''(b), \quad J = \operatorname{Var}(s_i) .
# $$ (eq-ts-error)
#
# This is the *sandwich* form. If the scaled probabilities were the true ones, $J$ would equal $I$, and the formula would
# be that of the Fisher information, $1 / \sqrt{n I}$. The bootstrap needs neither: draw the validation set again, fit
# again.

# %%
_, score, curvature = derivatives(z, y, b)
information, noise = curvature.mean(), score.var()  # I and J
sandwich = ts.temperature**2 * np.sqrt(noise / len(y)) / information
fisher = ts.temperature**2 / np.sqrt(len(y) * information)
rng = np.random.default_rng([seed, 1])
resampled = []
for _ in range(200):
    again = rng.integers(0, len(y), len(y))
    resampled.append(TemperatureScaling().fit(z[again], y[again]).temperature)

# %% tags=["hide-input", "nbval-check-output"]
Markdown(f"""
{len(y):,} images give *T* = {ts.temperature:.3f}. Its standard error is {fisher:.3f} by the
Fisher information, {sandwich:.3f} by the sandwich formula and
{np.std(resampled, ddof=1):.3f} by the bootstrap. The first two are alike because
*J* / *I* = {noise / information:.2f}.
""")

# %% mystnb={"figure": {"caption": "Is there one optimum, what does it solve, and how sure is it? Left: NLL above its minimum against b = 1/T, for three networks; the dot is the optimum. Middle: the slope L', the mean logit that the first network expects minus that of the labels. Right: T of the first network on 200 resampled validation sets, with the normal curve of the sandwich formula.", "name": "fig-ts-derivation"}, "image": {"alt": "Three panels: three convex curves of the NLL against the inverse temperature with a dot at the minimum; a rising slope that crosses zero there; a histogram of resampled temperatures under a normal curve."}}
focal = notebook.logits_of("cifar10/resnet20-focal-s0")
grid = np.linspace(0.05, 2.0, 60)
fig, axes = plt.subplots(1, 3, figsize=(7, 2.9))
colors = (plots.color_of("CE"), plots.color_of("FL"), plots.GREY)
for (name, network), color in zip(
    {"cross-entropy": data, "focal loss": focal, "100 classes": large}.items(),
    colors,
    strict=True,
):
    z_some, y_some = network.val_logits[::5].astype(float), network.val_labels[::5]
    best = 1 / TemperatureScaling().fit(z_some, y_some).temperature
    lowest = derivatives(z_some, y_some, best)[0].mean()
    excess = [derivatives(z_some, y_some, at)[0].mean() - lowest for at in grid]
    axes[0].plot(grid, excess, color=color, label=name)
    axes[0].plot(best, 0, "o", color=color)
axes[0].set(xlabel="b = 1/T", ylabel="NLL above its minimum", ylim=(-0.02, 0.5))
fig.legend(loc="outside upper left", ncols=3)
slopes = [derivatives(z, y, at)[1].mean() for at in grid]
axes[1].plot(grid, slopes, color=colors[0])
axes[1].axhline(0, color=plots.BLACK, linestyle="--", linewidth=0.8)
axes[1].plot(b, 0, "o", color=colors[0])
axes[1].set(xlabel="b = 1/T", ylabel="expected minus labels' logit", ylim=(-2, 0.5))
axes[2].hist(resampled, bins=20, density=True, color=plots.color_of("TS"), alpha=0.35)
around = ts.temperature + np.linspace(-4, 4, 100) * sandwich
axes[2].plot(around, norm.pdf(around, ts.temperature, sandwich), color=plots.BLACK)
axes[2].set(xlabel="T", ylabel="density")
plt.show()

# %% [markdown]
# ### What it cannot change
#
# Within an image the order of the classes stays, and so do accuracy and top-5 accuracy. Between images the order of the
# *confidences* can change: the softmax of one image has one strong rival, that of another many weak ones, and a
# temperature treats them differently. So the area under the ROC curve (AUROC) of confidence as a detector of mistakes
# can move, if only by tenths of a point near the fitted temperature.


# %% tags=["nbval-check-output"]
def auroc(p, labels):
    """Probability that a right prediction has more confidence than a wrong one."""
    right, rank = p.argmax(1) == labels, rankdata(p.max(1))
    n_right = right.sum()
    above = rank[right].sum() - n_right * (n_right + 1) / 2
    return above / (n_right * (len(right) - n_right))


pair = np.array([[1.8, 0.0, -10.0], [3.0, 0.7, 0.7]])
for t in (0.5, 1.0):
    first, second = softmax(pair / t, axis=1).max(1)
    print(f"T = {t}: confidences of two images {first:.3f} and {second:.3f}")
rows = {}
for network in (data, large):
    x, labels = network.test_logits.astype(float), network.test_labels
    fitted = TemperatureScaling().fit(*network.val).temperature
    settings = {"T = 0.5": 0.5, "T = 1": 1.0, "fitted T": fitted, "T = 5": 5.0}
    rows[f"K = {network.n_classes}"] = {
        name: 100 * auroc(softmax(x / t, axis=1), labels)
        for name, t in settings.items()
    }
table(
    pd.DataFrame(rows).T,
    "Does a temperature change the AUROC of the confidence? Percent",
    "tbl-ts-auroc",
    digits=1,
)

# %% [markdown]
# (sec-ts-objective)=
# ## By likelihood or by calibration error
#
# Nothing forces the NLL. Papers differ:
#
# | $T$ minimises | in |
# |---|---|
# | NLL | {cite:t}`guo2017calibration`, {cite:t}`jung2023scaling`; one of two rows of {cite:t}`tang2024neural` |
# | ECE on the grid 0.1, 0.2, ..., 10 | {cite:t}`mukhoti2020calibrating`, {cite:t}`frenkel2021network`; by their code {cite:t}`liu2022devil` and {cite:t}`park2023acls` |
# | ECE on the grid 0 to 5, step 0.001 | the other row of {cite:t}`tang2024neural` |
#
# The NLL is a proper score: it judges every probability, it is smooth, and its optimum is unique. The ECE looks at the
# top label only, it jumps wherever a confidence crosses the edge of a bin, and it has many local minima, some of them
# made by chance. But it is what is reported. Does fitting what is reported win? Here are twelve networks for CIFAR-10,
# each trained with a different
# loss (the {doc}`/book/glossary` says which):

# %% tags=["nbval-check-output"]
losses = ["cross_entropy", "label_smoothing", "focal", "flsd", "brier", "mmce"]
losses += ["ecp", "cpc", "mdca", "crl", "mbls", "acls"]
networks = notebook.by_loss("cifar10/resnet20", losses)
methods = {" NLL": "temperature_scaling", " ECE": "temperature_scaling:ece"}
by_loss, fits = notebook.side_by_side(networks, methods, ["ece", "nll"], **bootstrap)
rows, verdicts, below = {}, {"ece": [], "nll": []}, 0
for loss, network in networks.items():
    none = softmax(network.test_logits, axis=1)
    pairs = {m: by_loss.difference(f"{loss} ECE", f"{loss} NLL", m) for m in verdicts}
    for m, difference in pairs.items():
        verdicts[m].append(difference.below())
    below += pairs["ece"].value < 0
    in_thousandths = Estimate(*(1000 * x for x in pairs["nll"]))
    rows[loss] = {
        ("T", "by NLL"): f"{fits[f'{loss} NLL'].temperature:.2f}",
        ("T", "by ECE"): f"{fits[f'{loss} ECE'].temperature:.1f}",
        ("ECE", "before"): 100 * ece(none, network.test_labels, n_bins=n_bins),
        ("ECE", "by NLL"): by_loss.of(f"{loss} NLL").percent.value,
        ("by ECE minus by NLL", "ECE"): f"{pairs['ece'].percent:+.2f}",
        ("by ECE minus by NLL", "NLL, 0.001 nats"): f"{in_thousandths:+.2f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Does a temperature fitted by ECE have the lower ECE? Test set, percent",
    "tbl-ts-objective",
    names=shown,
)

# %% tags=["hide-input", "nbval-check-output"]
lower, higher = (
    {m: words.count(word) for m, words in verdicts.items()}
    for word in ("holds", "does not hold")
)
Markdown(f"""
Of {len(losses)} differences in ECE, {below} lie below zero, {lower["ece"]} of them beyond chance, and
{higher["ece"]} above it beyond chance; of those in NLL, {lower["nll"]} and {higher["nll"]}.
""")

# %% [markdown]
# Fitting what is reported lowers the test ECE on ten networks, on none beyond chance; for eight it only rounds $T$ to the grid. The
# largest differences are those of the focal loss and of FLSD, a variant of it.
# Both leave a network under-confident, and there the fit by ECE sharpens more. What it gains in ECE may be chance; what it
# loses in NLL is not. Where the fit by ECE has the lower NLL, the gain is at least ten times smaller. So fit by
# NLL, unless the ECE itself is the goal; and do not compare a method that was fitted by ECE with a TS that was not.
#
# (sec-ts-sizes)=
# ## How many images?
#
# ### A law
#
# A fit with one parameter on $n$ images loses, against the best value of that parameter, on average
#
# $$
# \E[L_{\text{test}}(\hat b)] - L_{\text{test}}(b^\star) \approx \tfrac12 \, I \operatorname{se}(\hat b)^2
# = \frac{J / I}{2 n} \text{ nats},
# $$ (eq-ts-excess)
#
# by the second-order expansion of $L$ and {eq}`eq-ts-error`. It gains $L(1) - L(b^\star)$, the *gain*. So calibrating pays,
# on average, from about $n^\star = (J / I) / (2 \, \text{gain})$ images on. With $d$ parameters and a model that is
# right, $J / I$ becomes $d$.
#
# The law can be tested. Pool validation and test images, shuffle, fit on the first $n$, test on what comes after the
# first 5,000. For the long-tailed network the pool is its validation set alone, since its test set has another class
# balance (the {ref}`next section <sec-ts-shift>` is about that). "None" is $T = 1$.

# %%
SIZES = [20, 50, 100, 200, 500, 1500, 5000]
LAST = SIZES[-1]
MEASURED = ["nll", "ece"]


def pool_of(network, is_long_tailed):
    """Images to draw from, all of one class balance."""
    parts = [network.val] if is_long_tailed else [network.val, network.test]
    return tuple(np.concatenate([part[i] for part in parts]) for i in (0, 1))


def by_size(pool, keys, sizes, n):
    """By (method, size, draw): NLL and ECE on new images minus those of none, and T."""
    x, labels = pool
    found = {}
    for draw in range(n):
        order = np.random.default_rng([seed, 2, draw]).permutation(len(labels))
        test = order[LAST:]
        none = evaluate(softmax(x[test], axis=1), labels[test], MEASURED, n_bins=n_bins)
        for name, key in keys.items():
            for size in sizes:
                some = order[:size]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a bound, or separated classes
                    fit = calibrator(key).fit(x[some], labels[some])
                with np.errstate(divide="ignore"):
                    now = evaluate(fit(x[test]), labels[test], MEASURED, n_bins=n_bins)
                found[name, size, draw] = {m: now[m] - none[m] for m in MEASURED}
                found[name, size, draw]["T"] = getattr(fit, "temperature", np.nan)
    found = pd.DataFrame.from_dict(found, orient="index").sort_index()
    return found.rename_axis(["method", "n", "draw"])


short = {"CIFAR-10": data, "CIFAR-100": large, "CIFAR-10-LT": tails[long_tails[0]]}
pools = {name: pool_of(network, name.endswith("LT")) for name, network in short.items()}
only_ts = {
    name: by_size(pool, {"TS": "temperature_scaling"}, SIZES, n_draws).loc["TS"]
    for name, pool in pools.items()
}


# %% tags=["nbval-check-output"]
def from_which(values, sizes=SIZES):
    """First size from which on at least 97.5% of the draws are below zero."""
    good = [np.mean(values.loc[size] < 0) >= 0.975 for size in sizes]
    bad = [i for i, is_good in enumerate(good) if not is_good]
    first = bad[-1] + 1 if bad else 0
    return f"{sizes[first]:,}" if first < len(sizes) else f"> {sizes[-1]:,}"


rows = {}
for name, (x, labels) in pools.items():
    T = TemperatureScaling().fit(x, labels).temperature
    values, score, curvature = derivatives(x.astype(float), labels, 1 / T)
    ratio = score.var() / curvature.mean()
    gain = nll(softmax(x, axis=1), labels) - values.mean()
    found = only_ts[name]
    loss = found["nll"].unstack("draw")
    extra = (loss.loc[200] - loss.loc[LAST]).mean() + ratio / (2 * LAST)
    rows[name] = {
        ("all images", "T"): f"{T:.2f}",
        ("all images", "gain"): f"{gain:.3f}",
        ("all images", "J / I"): f"{ratio:.2f}",
        ("all images", "n*"): f"{ratio / (2 * gain):.0f}",
        ("loss at 200", "law"): f"{ratio / 400:.4f}",
        ("loss at 200", "measured"): f"{extra:.4f}",
        ("gains from", "NLL"): from_which(found["nll"]),
        ("gains from", "ECE"): from_which(found["ece"]),
        ("at 20", "T < 0.2, %"): f"{100 * (found.loc[20, 'T'] < 0.2).mean():.1f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "From how many images on does a temperature pay? Gain and loss in nats",
    "tbl-ts-sizes",
)

# %% [markdown]
# "Gains from" is stricter than the law: the smallest number of images in the list from which on at least 97.5% of the
# draws are better than no calibration. "Measured" is the loss against the fit on 5,000 images of the same draw, plus the
# small loss that the law gives that fit.

# %% mystnb={"figure": {"caption": "From how many images on is it better to calibrate than not? Left: T. Middle: NLL on new images above that of the fit on 5,000 images, with the law. Right: ECE on new images. Lines are means, bands hold 95% of the draws, dotted lines are no calibration.", "name": "fig-ts-sizes"}, "image": {"alt": "Three panels against the number of validation images, three networks each: temperatures whose bands narrow, excess loss that falls along a straight line, and ECE that falls below its dotted line."}}
_, axes = plt.subplots(1, 3, figsize=(7, 2.8))
for (name, found), color in zip(only_ts.items(), plots.COLORS, strict=False):
    x, labels = pools[name]
    none = softmax(x, axis=1)
    temperature, loss, error = (found[m].unstack("draw") for m in ("T", "nll", "ece"))
    error = 100 * (error + ece(none, labels, n_bins=n_bins))
    excess = loss - loss.loc[LAST]
    for ax, drawn in ((axes[0], temperature), (axes[2], error)):
        ends = drawn.quantile(0.025, axis=1), drawn.quantile(0.975, axis=1)
        pictures.band(SIZES, drawn.mean(axis=1), *ends, ax=ax, color=color, label=name)
    axes[1].plot(SIZES[:-1], excess.mean(axis=1).iloc[:-1], "o-", color=color)
    axes[1].axhline(-loss.loc[LAST].mean(), color=color, linestyle=":")
    axes[2].axhline(100 * ece(none, labels, n_bins=n_bins), color=color, linestyle=":")
axes[0].set(ylabel="T", ylim=(0, 4))
law = 1 / (2 * np.array(SIZES[:-1])) - 1 / (2 * LAST)
axes[1].plot(SIZES[:-1], law, color=plots.BLACK, linewidth=0.8, label="law, J = I")
axes[1].set(ylabel="NLL above that at 5,000", yscale="log", ylim=(1e-4, 1))
axes[1].legend(loc="lower left")
axes[2].set(ylabel="ECE (%)", ylim=(0, 20))
for ax in axes:
    ax.set(xscale="log", xlabel="validation images")
    ax.set_xticks(SIZES[::2], [str(size) for size in SIZES[::2]])
    ax.minorticks_off()
axes[0].legend()
plt.show()

# %% [markdown]
# The law holds within a factor of two down to some fifty images; $n^\star$ lies below that range: a few images are enough. In
# nearly all draws calibration pays from 20 to 200 images on, depending on the network. CIFAR-100 has the smallest gain,
# so it needs the most. The exception is at the far left: among 20 images of CIFAR-10 there may be no mistake. Then $T$
# ends at its bound, the result is far worse than no calibration, and one such draw spoils the mean. `calibkit` warns in
# that case.
#
# ### Who needs how many
#
# Methods with $d$ parameters lose about $d / 2n$. Four of them: one temperature; one temperature per class, by NLL
# ($d = K$); vector scaling, a scale and a bias per class ($d = 2K - 1$); vector scaling pulled towards one temperature,
# by a strength that cross-validation chooses.

# %%
keys = {
    "TS": "temperature_scaling",
    "T a class": "class_temperature_scaling:nll",
    "vector": "vector_scaling",
    "vector, penalty": "vector_scaling lam=None",
}
FEWER = [100, 200, 500, 1500, 5000]
several = {
    f"K = {pools[name][0].shape[1]}": pools[name] for name in ("CIFAR-10", "CIFAR-100")
}
compared = {name: by_size(pool, keys, FEWER, n_few) for name, pool in several.items()}

# %% mystnb={"figure": {"caption": "Who needs how many images? NLL on new images minus that of no calibration, mean over draws; below the dotted line a method helps. The thin lines are TS at 5,000 images plus the law d/2n for d = K and 2K - 1 parameters. A curve leaves the picture where a class without a mistake has an infinite NLL.", "name": "fig-ts-methods"}, "image": {"alt": "Two panels, 10 and 100 classes: NLL minus that of no calibration against the number of images. TS lies below zero from the start; the methods with a parameter a class or more need many more images, most of all with 100 classes."}}
colors = {name: plots.color_of(keys[name]) for name in list(keys)[::-1]}
dashes = {"TS": "s-", "vector, penalty": "^--"}
_, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for ax, (title, found) in zip(axes, compared.items(), strict=True):
    K = int(title.split()[-1])
    for name, color in colors.items():
        drawn = found.loc[name, "nll"].unstack("draw").clip(upper=9)
        ends = drawn.min(axis=1), drawn.max(axis=1)
        line = dashes.get(name, "o-")
        style = {"color": color, "label": name, "line": line}
        pictures.band(FEWER, drawn.mean(axis=1), *ends, ax=ax, **style)
    floor = found.loc[("TS", LAST), "nll"].mean()
    for d, name in ((K, "T a class"), (2 * K - 1, "vector")):
        color = colors[name]
        ax.plot(FEWER, floor + d / (2 * np.array(FEWER)), color=color, linewidth=0.7)
    ax.axhline(0, color=plots.BLACK, linestyle=":")
    scale = abs(floor)
    ax.set(
        title=title,
        xscale="log",
        xlabel="validation images",
        ylim=(-1.5 * scale, 3 * scale),
    )
    ax.set_xticks(FEWER, [str(size) for size in FEWER])
    ax.minorticks_off()
axes[0].set_ylabel("NLL minus that of none")
axes[0].legend()
plt.show()

# %% tags=["nbval-check-output"]
rows = {}
for title, found in compared.items():
    for name in keys:
        less = found.loc[name, "nll"] - found.loc["TS", "nll"]
        rows[title, name] = {
            ("better than none", "NLL"): from_which(found.loc[name, "nll"], FEWER),
            ("better than none", "ECE"): from_which(found.loc[name, "ece"], FEWER),
            ("better than TS", "NLL"): from_which(less, FEWER) if less.any() else "",
        }
table(
    pd.DataFrame(rows).T,
    f"From how many images on are the first {n_few} draws all better?",
    "tbl-ts-methods",
)

# %% [markdown]
# Count parameters against images before choosing a method. At $K = 100$, a temperature a class and plain vector scaling
# need thousands of images to be better than *nothing*, and neither catches up with one temperature within 5,000. By ECE
# they look better than by NLL: a label whose probability vanishes costs NLL without limit, and the ECE does not see it.
# The penalty makes vector scaling safe, since it falls back to one temperature where it has to. On these two networks it
# gains nothing, either.
#
# (sec-ts-shift)=
# ## Where it fails
#
# The law speaks of new images like the old ones, and not of what the best $T$ leaves. Now the exceptions.
#
# ### Label shift: another class balance
#
# $T$ is a compromise between classes. If the validation set holds other shares of the classes than the test set, it is
# another compromise. First with the balanced network: its validation images are drawn again such that the share of a
# class falls by a factor of 100 from the easiest class to the hardest (by accuracy), or the other way round. Then
# networks that were trained and validated on long-tailed data, with a balanced test set. The cure, where the test set is
# balanced, is to weigh each validation image by one over the size of its class: the objective `class_balanced`.


# %% tags=["nbval-check-output"]
def reshared(labels, class_accuracy, ratio, size, rng):
    """Rows such that shares fall by ``ratio`` from the easiest class to the hardest."""
    rank = rankdata(-class_accuracy, method="ordinal") - 1
    weights = (ratio ** (-rank / rank.max()))[labels]
    return rng.choice(len(labels), size, p=weights / weights.sum())


OBJECTIVES = {"NLL": "temperature_scaling"}
OBJECTIVES["balanced"] = "temperature_scaling:class_balanced"
SHARES = {"as the test set": 1, "mostly easy": 100, "mostly hard": 1 / 100}
hits = z.argmax(1) == y
class_accuracy = np.array([hits[y == k].mean() for k in range(data.n_classes)])
rows = {}
for name, ratio in SHARES.items():
    rng, drawn = np.random.default_rng([seed, 3]), []
    for _ in range(20):
        some = reshared(y, class_accuracy, ratio, 5000, rng)
        refits = [calibrator(key).fit(z[some], y[some]) for key in OBJECTIVES.values()]
        said = [f(data.test_logits) for f in refits]
        errors = [100 * ece(p, test_y, n_bins=n_bins) for p in said]
        drawn.append([(refits[i].temperature, errors[i]) for i in range(2)])
    (t, error), (t_balanced, error_balanced) = np.mean(drawn, axis=0)
    spread, spread_balanced = np.std(drawn, axis=0, ddof=1)[:, 0]
    rows[f"CIFAR-10, {name}"] = {
        ("T", "by NLL"): f"{t:.2f} ± {spread:.2f}",
        ("T", "balanced"): f"{t_balanced:.2f} ± {spread_balanced:.2f}",
        ("ECE", "by NLL"): f"{error:.1f}",
        ("ECE", "balanced"): f"{error_balanced:.1f}",
        ("ECE", "difference"): "",
    }
tail_gain = {}
for name, tail in tails.items():
    refits = {
        label: calibrator(key).fit(*tail.val) for label, key in OBJECTIVES.items()
    }
    both = Comparison.on(tail.test, refits, ["ece"], **bootstrap)
    tail_gain[name] = both.difference("balanced", "NLL").percent
    rows[name.split("/")[0]] = {
        ("T", "by NLL"): f"{refits['NLL'].temperature:.2f}",
        ("T", "balanced"): f"{refits['balanced'].temperature:.2f}",
        ("ECE", "by NLL"): f"{both.of('NLL').percent.value:.1f}",
        ("ECE", "balanced"): f"{both.of('balanced').percent.value:.1f}",
        ("ECE", "difference"): f"{tail_gain[name]:+.1f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Do weights cure label shift? Test ECE in percent; of CIFAR-10, means of 20 draws",
    "tbl-ts-balance",
    names=shown,
)

# %% [markdown]
# The balanced network hardly minds: $T$ follows the shares, but the ECE moves by tenths of a point. Of two that were
# *trained* on long tails, that for CIFAR-10 minds a lot; for CIFAR-100 the two fits cannot be told apart, though on two ResNet-110s they can ({doc}`class_loss_scaling`). The weights have a price, too: the few images of a rare class decide,
# so the balanced $T$ varies more. (A $\pm$ is the standard deviation over the draws.)
#
# ### Covariate shift: other images
#
# A stored network reads scanned digits. $T$ is fitted on clean validation digits. Then the test digits are corrupted, and
# the $T$ that would have been best is fitted on the corrupted test digits themselves, which nobody can do in practice.

# %%
digits = trained(Network("digits", "small_cnn"))
clean = TemperatureScaling().fit(digits.logits(digits.val[0]), digits.val[1])
images, answers = (np.asarray(part) for part in digits.test)
black, white = (end[0] for end in digits.input_range)


def noisy(strength):
    """Five copies with Gaussian noise; strength 1 is the distance from black to white."""
    noise = np.random.default_rng([seed, 4]).standard_normal((5, *images.shape))
    return (images + strength * (white - black) * noise).reshape(-1, *images.shape[1:])


def blurred(width):
    """By a Gaussian of this width in pixels."""
    return gaussian_filter(images, (0, 0, width, width), mode="nearest")


def turned(degrees):
    """Both ways."""
    how = {"axes": (2, 3), "reshape": False, "order": 1, "mode": "nearest"}
    return np.concatenate([rotate(images, sign * degrees, **how) for sign in (1, -1)])


CORRUPTIONS = {
    "noise": (noisy, [0, 0.1, 0.2, 0.3, 0.4]),
    "rotation (degrees)": (turned, [0, 10, 20, 30, 40]),
    "blur (pixels)": (blurred, [0, 0.4, 0.8, 1.2, 1.6]),
}
corrupted = {}
for name, (corrupt, strengths) in CORRUPTIONS.items():
    for strength in strengths:
        z_bad = digits.logits(torch.from_numpy(corrupt(strength)))
        y_bad = np.tile(answers, len(z_bad) // len(answers))
        best = TemperatureScaling().fit(z_bad, y_bad)
        said = {
            "T = 1": softmax(z_bad, axis=1),
            "clean T": clean(z_bad),
            "best T": best(z_bad),
        }
        corrupted[name, strength] = {
            "accuracy": 100 * accuracy(said["T = 1"], y_bad),
            "confidence": 100 * said["clean T"].max(1).mean(),
            "T": best.temperature,
        } | {label: 100 * ece(p, y_bad, n_bins=n_bins) for label, p in said.items()}
corrupted = pd.DataFrame.from_dict(corrupted, orient="index")

# %% mystnb={"figure": {"caption": "Does a temperature from clean images hold on other images? Above: test ECE on corrupted digits at T = 1, at the T of clean validation digits, and at the T that would have been best. Below: that best T, with the clean one dashed; the scale is logarithmic.", "name": "fig-ts-corruptions"}, "image": {"alt": "Three columns of corruptions by strength: above, the ECE at T = 1, at the clean temperature and at the best one, which part as the strength grows; below, the best temperature, which rises away from the dashed clean one under noise and rotation, and lies below it under blur."}}
_, axes = plt.subplots(2, 3, figsize=(7, 4.2), sharex="col", sharey="row")
for column, (name, (_, strengths)) in zip(axes.T, CORRUPTIONS.items(), strict=True):
    found = corrupted.loc[name]
    none, one = plots.color_of("none"), plots.color_of("TS")
    lines = {"T = 1": ("o-", none), "clean T": ("s--", one), "best T": ("o-", one)}
    for label, (line, color) in lines.items():
        column[0].plot(strengths, found[label], line, color=color, label=label)
    column[1].plot(strengths, found["T"], "o-", color=one)
    column[1].axhline(clean.temperature, color=one, linestyle="--")
    column[1].set(xlabel=name, yscale="log")
    column[1].set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    column[1].minorticks_off()
axes[0, 0].set(ylabel="ECE (%)", ylim=(0, None))
axes[1, 0].set_ylabel("best T")
axes[0, 0].legend()
plt.show()

# %% tags=["nbval-check-output"]
rows = {}
for name, found in corrupted.groupby(level=0, sort=False):
    strength, row = found.index[-1][1], found.iloc[-1]
    rows[f"{name}: {strength:g}"] = {
        "accuracy, %": f"{row['accuracy']:.1f}",
        "confidence, %": f"{row['confidence']:.1f}",
        "clean T": f"{clean.temperature:.1f}",
        "best T": f"{row['T']:.1f}",
    }
table(
    pd.DataFrame(rows).T,
    "What do the strongest corruptions do? The confidence is that at the clean T",
    "tbl-ts-corruptions",
)

# %% [markdown]
# Under noise and rotation the network keeps most of its confidence while accuracy falls. The best temperature rises
# several times over, and
# the clean one leaves most of the ECE. Blur is another matter: it makes the network *less* sure, about as much as it
# should be, and the clean temperature even takes too much away. So "T is too small under shift" is a rule with
# exceptions, and no clean validation set tells which case is coming. Only images of the new kind do. Nor is a better $T$
# always a cure: on the most blurred and the most turned digits, even the best one leaves several points.
#
# (sec-ts-signs)=
# ### Gaps of both signs
#
# One temperature moves all confidences the same way. Take three synthetic classifiers with $K = 10$ and normal logits,
# whose labels are drawn from known probabilities:
#
# - *one scale*: truth $\softmax(\z / 1.5)$, the case that TS is made for;
# - *ranges*: the accuracy at confidence $c$ is $c + 0.08 \sin 4 \pi c$, as in {doc}`metrics`: too sure at some
#   confidences, not sure enough at others;
# - *classes*: truth $\softmax(\z)$ where one of the first five classes is predicted, $\softmax(\z / 2)$ elsewhere.


# %%
def with_top(p, top):
    """Probabilities whose largest value is ``top``; the others in proportion."""
    rest = p * ((1 - top) / (1 - p.max(1)))[:, None]
    rest[np.arange(len(p)), p.argmax(1)] = top
    return rest


def wavy(x):
    """The truth of *ranges*."""
    p = softmax(x, axis=1)
    return with_top(p, p.max(1) + 0.08 * np.sin(4 * np.pi * p.max(1)))


T_OF_PREDICTED = np.repeat([1.0, 2.0], 5)
TRUTHS = {
    "one scale": lambda x: softmax(x / 1.5, axis=1),
    "ranges": wavy,
    "classes": lambda x: softmax(x / T_OF_PREDICTED[x.argmax(1), None], axis=1),
}
CURES = {
    "one scale": {},
    "ranges": {"spline": "spline"},
    "classes": {"T a class": "class_temperature_scaling:nll"},
}


def by_prediction(p, labels):
    """ECE among the samples of each predicted class, weighted with its share."""
    groups = [p.argmax(1) == k for k in range(p.shape[1])]
    return sum(g.mean() * ece(p[g], labels[g], n_bins=n_bins) for g in groups)


of_sample = {
    "ECE": partial(ece, n_bins=n_bins),
    "smooth ECE": smooth_ece,
    "class-wise": partial(classwise_ece, n_bins=n_bins),
    "by prediction": by_prediction,
}

# %% tags=["nbval-check-output"]
rng, rows = np.random.default_rng([seed, 5]), {}
for name, truth in TRUTHS.items():
    z_fit, z_new = 5 * rng.standard_normal((2, 20_000, 10))
    y_fit, y_new = (draw_labels(truth(part), rng) for part in (z_fit, z_new))
    tried = {"none": "identity", "TS": "temperature_scaling"} | CURES[name]
    for label, key in tried.items():
        fit = calibrator(key).fit(z_fit, y_fit)
        p_new = fit(z_new)
        rows[name, label] = {
            column: 100 * f(p_new, y_new) for column, f in of_sample.items()
        }
        T = getattr(fit, "temperature", np.nan)
        rows[name, label] = {"T": T} | rows[name, label]
table(
    pd.DataFrame(rows).T,
    "Which errors see gaps of both signs? 20,000 samples to fit and to test, percent",
    "tbl-ts-signs",
)

# %% [markdown]
# "By prediction" is the ECE among the samples of each predicted class, averaged. The row "one scale, TS" shows about
# what chance alone leaves.
#
# *Ranges*: the best temperature is near 1, and the error stays. Every top-label error and the reliability diagram *after*
# TS show it. A method that bends the curve, here a spline, removes it.
#
# *Classes*: after TS four fifths of the top-label error are gone, as the gaps of the two groups nearly cancel at each confidence.
# Among the samples of each predicted class, though, the error is nearly what it was. To see it, draw a reliability
# diagram for each class (`reliability_bins(class_index=k)`), or look at the class-wise error. A temperature a class, the
# subject of {doc}`class_temperature_scaling`, halves it.
#
# ### Fitted on the training set
#
# A network knows its training images better than new ones, so there it is right too often, and the temperature learns
# the wrong lesson. Ten small networks were trained on 100 digits each and stopped after ever more steps, with $T$ from
# their training images or from held-out ones:

# %% tags=["nbval-check-output"]
rows = {}
for steps in (10, 50, 200):
    how = {"n_draws": 10, "n_train": 100, "steps": steps, "seed": seed}
    outcome = many_on_digits([cross_entropy], **how)
    drawn = []
    for draw in range(10):
        part = {
            name: (x[0, draw].numpy(), t[draw].numpy())
            for name, (x, t) in outcome.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no mistake in training: T at its bound
            on_train = TemperatureScaling().fit(*part["train"])
        held_out = TemperatureScaling().fit(*part["val"])
        x, t = part["test"]
        none = calibrator("identity").fit(x, t)
        row = {
            ("accuracy, %", "train"): 100
            * accuracy(none(part["train"][0]), part["train"][1]),
            ("accuracy, %", "test"): 100 * accuracy(none(x), t),
            ("T", "train"): on_train.temperature,
            ("T", "held out"): held_out.temperature,
        }
        ways = {"T = 1": none, "train": on_train, "held out": held_out}
        for name, fit in ways.items():
            row["test ECE, %", name] = 100 * ece(fit(x), t, n_bins=n_bins)
        drawn.append(row)
    rows[f"{steps} steps"] = pd.DataFrame(drawn).mean()
own = pd.DataFrame(rows).T
own.columns = pd.MultiIndex.from_tuples(own.columns)
table(
    own,
    "Which T comes from training images, and which from others? Means of ten networks",
    "tbl-ts-own",
)

# %% [markdown]
# The training images ask for *more* confidence. Once all of them are right, $T$ is at its bound: every prediction is made
# with confidence near one, and the ECE is nearly the share of mistakes. Held-out images ask for less than
# that, and from 50 steps on for less than the network has. They are right.
#
# ## What to do

# %% tags=["hide-input", "nbval-check-output"]
own_errors = own.iloc[-1]["test ECE, %"]
gains = ", ".join(f"{from_which(of['nll'])} ({name})" for name, of in only_ts.items())
vector = from_which(compared["K = 100"].loc["vector", "nll"], FEWER)
turn = corrupted.loc["rotation (degrees)"].iloc[-1]
text = f"""
1. **Fit on images that trained nothing.** Over-trained networks on digits have a test ECE of
   {own_errors["held out"]:.1f}% with *T* from held-out images, {own_errors["train"]:.1f}% with
   *T* from the training images, and {own_errors["T = 1"]:.1f}% uncalibrated.
2. **A few hundred images are enough for one T.** It gains NLL from this many images on:
   {gains}.
3. **Fit by NLL.** By ECE, the test ECE was lower in {below} of {len(losses)} networks, beyond
   chance in {lower["ece"]}.
4. **Take more parameters only with a penalty,** and only if they beat one *T*. With 100
   classes, plain vector scaling gains NLL from {vector} images on.
5. **Match what will be tested,** in classes and in images. Balanced weights change the ECE
   of long-tailed CIFAR-10 by {tail_gain[long_tails[0]]:+.1f} points; on digits turned by {turn.name:g} degrees the
   clean *T* leaves {turn["clean T"]:.1f}%, the best one {turn["best T"]:.1f}%.
"""
Markdown(minus(text))

# %% [markdown]
# And look at the reliability diagram *after* calibration: gaps of both signs outside the grey bars are the sign that
# one temperature is not enough. In code, on the long-tailed CIFAR-10; `data.val` and `data.test` are pairs of logits
# (N, K) and labels (N,), so your own arrays can take their place:

# %% tags=["nbval-check-output"]
data = tails[long_tails[0]]
fit = TemperatureScaling().fit(*data.val)  # if it warns, T is at a bound: not usable
balanced = TemperatureScaling("class_balanced").fit(*data.val)  # for balanced tests
careful = calibrator("vector_scaling lam=None:class_balanced")  # with a penalty
rivals = {"one T": fit, "one T, balanced": balanced}
rivals["vector, balanced"] = careful.fit(*data.val)
result = Comparison.on(data.test, rivals, ["accuracy", "ece", "nll"], **bootstrap)
table(
    estimates(result, rivals, columns, base="one T"),
    "What do weights and more parameters change against one T? Points; the NLL in nats",
    "tbl-ts-weights",
)

# %% [markdown]
# Vector scaling gains more NLL here, but no more ECE: its biases move *predictions* from the large classes to the rare
# ones, and the accuracy with them. That is calibration too, of every class, which the ECE of the top label does not see.
#
# ## Exercises
#
# 1. Show that $L(1/T)$ is not convex in $T$. Where does its curvature change sign for the four logit pairs of
#    {numref}`tbl-ts-bounds` with one mistake?
#
#    ```{dropdown} Solution
#    With $b = 1/T$, the second derivative with respect to $T$ is $b^4 L''(b) + 2 b^3 L'(b)$. As $b \to 0$ the second
#    term wins, and $L'(0) < 0$ wherever there is an optimum: $L(1/T)$ is concave for large $T$. The sign changes where
#    $b L''(b) = -2 L'(b)$. The label's logit leads by 2, -1, 3 and 2 in the four pairs, and a bisection finds
#    $T = 1.78$, well above the optimum at 1.08.
#    ```
#
# 2. Let $T$ minimise the Brier score. Derive the equation that takes the place of $L' = 0$. Is the optimum still unique?
#
#    ```{dropdown} Solution
#    From $\mathrm dp_k / \mathrm db = p_k (z_k - \bar z)$ with $\bar z = \sum_j p_j z_j$,
#    $\sum_i \sum_k (p_{ik} - \mathbb{1}[k = y_i]) \, p_{ik} (z_{ik} - \bar z_i) = 0$. Where the softmax saturates, a sample
#    has no weight. So there can be several minima: take two classes, 20 samples whose logits are 10 apart, 11 of them
#    right, and 20 samples whose logits are 0.1 apart, 18 of them right. There is one minimum at $b = 0.022$, made by the
#    first kind, and another at $b = 22$, made by the second.
#    ```
#
# 3. Use {eq}`eq-ts-excess` to predict how many images temperature scaling needs on a network with $T = 1.05$. Check it
#    on the ACLS network of {numref}`tbl-ts-objective`.
#
#    ```{dropdown} Solution
#    Near the optimum the gain is $\tfrac12 I (1 - b)^2$, so $n^\star = (J / I) / (I (1 - b)^2)$. On the ACLS network
#    $I = 0.90$ and $J / I = 0.82$, which gives 400 images. Fits on random validation and test images of that network are
#    worse than no calibration at $n = 200$ on average, and break even near 400.
#    ```
#
# 4. The clean temperature helps a little under noise. Find the strength of noise at which a temperature fitted on
#    validation digits with *half* that noise is better than the clean one by five points.
#
#    ```{dropdown} Solution
#    Somewhat above 0.45, where the network is no longer of much use. The half-noisy digits ask for a $T$ of 1.9 there,
#    the clean ones for 1.3. At a strength of 0.2 the two are equally good.
#    ```
