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
# {cite:t}`guo2017calibration`), the method with which every other one in this book is compared. It has one parameter,
# keeps every prediction and takes milliseconds. This chapter derives it, counts the images that it needs, and shows
# where it fails.
#
# At the end you can
#
# - write down the equation that the temperature solves, and its standard error,
# - choose between a fit by likelihood and a fit by calibration error,
# - tell from the size of your validation set how many parameters you can afford,
# - name four cases in which one temperature does not help, and what would reveal each.

# %% tags=["parameters"]
budget = "smoke"  # every notebook takes it; only tiny networks are trained here
logits = "cifar10/resnet20-cross_entropy-s0"  # the first network, or an .npz
many_classes = "cifar100/resnet20-cross_entropy-s0"  # the one with more classes
long_tails = ["cifar10_lt/resnet20-cross_entropy-s0"]
long_tails += ["cifar100_lt/resnet20-cross_entropy-s0"]
n_bins = 15  # of ECE
n_resamples = 1000  # bootstrap resamples
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
from scipy.ndimage import gaussian_filter, rotate
from scipy.special import logsumexp, softmax
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score
from torch.nn.functional import cross_entropy

from book.kit import notebook
from book.kit.notebook import pictures
from book.kit.notebook.display_names import shown, titles_of
from book.kit.notebook.paper_tables import estimates
from book.kit.notebook.prose import prose
from book.kit.notebook.small_networks import many_on_digits
from book.kit.notebook.synthetic_classifiers import draw_labels
from book.kit.notebook.table import table
from book.kit.notebook.trained_network import trained
from calibkit import Network, TemperatureScaling, calibrator, plots
from calibkit.metrics import accuracy, classwise_ece, ece, entropy, evaluate, nll
from calibkit.metrics.comparison import Comparison, Estimate

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    logits=str,
    many_classes=str,
    long_tails=[str],
    n_bins=range(1, 201),
    n_resamples=range(10, 100_001),
    n_draws=range(5, 10_001),
    n_few=range(2, 10_001),
    seed=range(2**31),
)

plots.use_style()
torch.set_num_threads(1)
data, large = (
    notebook.logits_of(of, at_least=6000, named=name)
    for name, of in {"logits": logits, "many_classes": many_classes}.items()
)
tails = {name: notebook.logits_of(name, named="long_tails") for name in long_tails}
if (n_tail := len(tails[long_tails[0]].val.labels)) <= 5000:
    raise ValueError(
        f"Expected `long_tails` to begin with a network of more than 5,000 validation images, but got {n_tail}"
    )
bootstrap = {"n_bins": n_bins, "n_resamples": n_resamples, "seed": seed}
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()

# %% [markdown]
# ## What it does
#
# A network turns its logits $\z$ into probabilities $\p = \softmax(\z)$. Temperature scaling puts one number in between:
#
# $$
# \p = \softmax(\z / T), \qquad T > 0 .
# $$ (eq-ts-model)
#
# A temperature above 1 takes confidence away, one below 1 adds some. As $T \to \infty$ every class gets $1/K$. As
# $T \to 0$ the predicted class gets everything. The order of the classes never changes, so no prediction does.

# %% mystnb={"figure": {"caption": "A temperature spreads the probability over the classes and keeps their order. Probabilities in percent for one test image, at four temperatures. Blue, and in the titles, is the predicted class. T = 1 is the network's own output.", "name": "fig-ts-bars"}, "image": {"alt": "Four bar charts of the same ten classes in the same order. At T = 0.5 nearly all probability lies on dog; at T = 1 horse and cat get some; at T = 2 and T = 5 the bars become more and more alike, with dog always the longest."}} tags=["hide-input"]
sure = softmax(data.test_logits.astype(float), axis=1).max(1)
of_one = data.test_logits[np.abs(sure - 0.7).argmin()].astype(float)
order = of_one.argsort()
classes = CIFAR10 if data.n_classes == 10 else range(data.n_classes)
colors = [plots.GREY] * (len(order) - 1) + [plots.BLUE]
_, axes = plt.subplots(1, 4, figsize=(7, 2.4), sharex=True, sharey=True)
for ax, t in zip(axes, (0.5, 1, 2, 5), strict=True):
    percent = 100 * softmax(of_one / t)[order]
    ax.barh(range(len(order)), percent, color=colors)
    ax.set(title=f"T = {t}: {percent[-1]:.0f}%", xlim=(0, 100))
    ax.grid(axis="y", visible=False)
axes[0].set_yticks(range(len(order)), [classes[k] for k in order])
axes[0].figure.supxlabel("probability (%)", fontsize=9)
plt.show()

# %% [markdown]
# Which temperature is right cannot be seen from one image. It is fitted to many images that the network was not trained
# on. In code, `data.val` and `data.test` are pairs of logits (N, K) and labels (N,), and your own arrays can take their
# place:

# %% tags=["nbval-check-output"]
before = calibrator("identity").fit(*data.val)
after = calibrator("temperature_scaling").fit(*data.val)
methods = {"uncalibrated": before, "one temperature": after}
both = Comparison.on(data.test, methods, ["accuracy", "ece", "nll"], **bootstrap)
after

# %% tags=["hide-input", "nbval-check-output"]
columns = {shown(metric): ("", metric) for metric in ("accuracy", "ece", "nll")}
change = estimates(both, ["one temperature"], columns, base="uncalibrated")
table(
    pd.concat([estimates(both, both, columns), change.set_axis(["change"])]).T,
    "One temperature lowers ECE and NLL and leaves the accuracy alone. The first of three "
    "trainings, test images, with 95% intervals. Percent, the NLL in nats",
    "tbl-ts-before-after",
)

# %% [markdown]
# Square brackets hold 95% intervals, and the interval of a change is paired (see {doc}`metrics`). The accuracy is the same
# to the last image. The reliability diagrams show why one number can do so much. Before, every gap that leaves its grey
# bar lies on the same side, so the network is over-confident throughout.

# %% mystnb={"figure": {"caption": "One temperature brings the accuracy close to the confidence. Reliability diagrams of the same test images before and after. Grey: where a calibrated network would lie. Below: the distribution of the confidence, with its mean (vermilion) and the accuracy (the other dashed line).", "name": "fig-ts-before-after"}, "image": {"alt": "Two reliability diagrams, before and after: bars below the diagonal come onto it; below, the histogram of the confidence, where mean confidence and accuracy come together."}} tags=["hide-input"]
titles = {"uncalibrated": before, f"T = {after.temperature:.2f}": after}
samples = {
    title: (fit(data.test_logits), data.test_labels) for title, fit in titles.items()
}
pictures.reliability_row(samples, n_bins=n_bins, histogram=True)
plt.show()

# %% [markdown]
# Now try it yourself on 2,000 of the test images. Which temperature has the lowest NLL, and which the lowest ECE? Does your
# second answer depend on the number of bins?
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
# is its variance:
#
# $$
# L'(b) = \frac1n \sum_i \Bigl( \sum_k p_{ik} z_{ik} - z_{i y_i} \Bigr),
# \qquad
# L''(b) = \frac1n \sum_i \operatorname{Var}_{k \sim \p_i} [z_{ik}] \;\ge\; 0 .
# $$ (eq-ts-derivatives)
#
# So $L$ is convex in $b$ (not in $T$). At the optimum $L' = 0$: **the mean logit of the label equals the mean logit that
# the network expects.** That is the whole fit, one equation with one unknown.


# %%
def derivatives(z, y, b):
    """Of each sample: NLL, its slope and its curvature in b."""
    p = softmax(b * z, axis=1)
    mean, label = (p * z).sum(1), z[np.arange(len(y)), y]
    variance = (p * z**2).sum(1) - mean**2
    return logsumexp(b * z, axis=1) - b * label, mean - label, variance


# %% tags=["hide-input", "nbval-check-output"]
z, y = data.val_logits.astype(float), data.val_labels
ts, b, h = after, 1 / after.temperature, 1e-4
for at in (1.0, b, 0.25):
    low, (middle, slope, curvature), high = (
        [of.mean() for of in derivatives(z, y, at + step)] for step in (-h, 0, h)
    )
    assert np.isclose(slope, (high[0] - low[0]) / (2 * h), atol=5e-5)
    assert np.isclose(curvature, (high[0] - 2 * middle + low[0]) / h**2, atol=5e-5)
expected = (softmax(b * z, axis=1) * z).sum(1).mean()
prose(f"""
At the fitted temperature both means are alike: {z[np.arange(len(y)), y].mean():.4f} for the labels
and {expected:.4f} expected. At three temperatures, slope and curvature agree with finite
differences to four decimals.
""")

# %% mystnb={"figure": {"caption": "There is one optimum, and it is where the expected logit meets the label's. Left: NLL above its minimum, in nats, against b = 1/T for three networks. The dot is the optimum. Right: the slope L', the mean logit that the first network expects minus that of the labels.", "name": "fig-ts-derivation"}, "image": {"alt": "Two panels: three convex curves of the NLL against the inverse temperature with a dot at the minimum; a rising slope that crosses zero at the first dot."}} tags=["hide-input"]
focal = notebook.logits_of("cifar10/resnet20-focal-s0")
grid = np.linspace(0.05, 2.0, 60)
fig, axes = plt.subplots(1, 2, figsize=(7, 2.9))
three = {"cross-entropy": data, "focal loss": focal, "100 classes": large}
colors = (plots.color_of("CE"), plots.color_of("FL"), plots.GREY)
for (name, network), color in zip(three.items(), colors, strict=True):
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
axes[1].set(xlabel="b = 1/T", ylabel="expected minus label's logit", ylim=(-2, 0.5))
plt.show()

# %% [markdown]
# ### A second reading: uncertainty equals surprise
#
# Put $L'(b) = 0$ into {eq}`eq-ts-nll` and $L$ becomes the mean entropy of the $\p_i$. So at the optimum the mean *entropy*
# of the probabilities equals their mean *NLL*. On average the network is as uncertain as it is surprised. On test images
# the two need not agree, and their difference shows which way a temperature is off. An NLL above the entropy means that
# $T$ is too small.
#
# There is more. Of all probabilities whose mean expected logit equals the mean logit of the labels, $\softmax(\z / T)$
# has the largest entropy. This is Lemma 1 of {doc}`neural_clamping`, where a solver that knows nothing of softmax finds
# it.

# %% tags=["hide-input", "nbval-check-output"]
p, test_p, test_y = ts(z), ts(data.test_logits), data.test_labels
label_logit, mean_logit = z[np.arange(len(y)), y].mean(), z.mean()
rivals = []
for t in ts.temperature * np.array([0.9, 0.75, 0.6]):
    sharp = softmax(z / t, axis=1)
    share = (label_logit - mean_logit) / ((sharp * z).sum(1).mean() - mean_logit)
    rival = share * sharp + (1 - share) / z.shape[1]
    assert np.isclose((rival * z).sum(1).mean(), label_logit)
    rivals.append(entropy(rival, y))
prose(f"""
On our validation images entropy and NLL are both {nll(p, y):.3f} nats. On the test images the
entropy is {entropy(test_p, test_y):.3f} and the NLL {nll(test_p, test_y):.3f}. Mixtures of a sharper
softmax with uniform probabilities can obey the same constraint. The three that we tried have
less entropy, {max(rivals):.3f} nats at most.
""")

# %% [markdown]
# ### When there is an optimum
#
# $L'$ rises with $b$, so it has at most one zero unless in every image all logits are equal. Look at its two ends.
#
# - At $b = 0$ the probabilities are uniform, and $L'(0)$ is the mean logit of all classes minus the mean logit of the
#   labels. It is negative if labels have larger logits than the average class. If not, $T = \infty$ is best.
# - At $b \to \infty$ the expected logit is the largest one, and $L'(\infty)$ is the mean distance from it to the label's
#   logit. It is positive unless *every* label has the largest logit. Then $L$ falls for ever, and $T = 0$ is best.
#
# If neither happens, there is exactly one $T$. If one does, `calibkit` warns and stops at a bound, 0.01 or 1,000 times
# the typical spread of the logits of an image, which is 1 here. Take four pairs of logits and four ways to label them:

# %%
four = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0], [0.0, 2.0]])
cases = {"all right": [0, 1, 0, 1], "one mistake": [0, 0, 0, 1]}
cases |= {"no better than chance": [1, 1, 0, 0], "all wrong": [1, 0, 1, 0]}

# %% tags=["hide-input", "nbval-check-output"]
rows = {}
for name, answers in cases.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        t = TemperatureScaling().fit(four, np.array(answers)).temperature
    message = str(caught[0].message).split(":")[0] if caught else ""
    rows[name] = {"T": f"{t:.4g}", "warning": message}
table(
    pd.DataFrame(rows).T,
    "Only one mistake among right answers has an optimum: T and the warning of calibkit",
    "tbl-ts-bounds",
)

# %% [markdown]
# A bound is a message, not an answer. *All right* does happen, among 20 images of a good network or on its training
# set.
#
# ### Standard error of T
#
# Another validation set would give another $T$. How different depends on two things:
#
# - the *curvature* $I = L''(b)$ at the optimum. Where the NLL is flat, a small push moves its minimum far.
# - the *spread of the slope* $J = \operatorname{Var}(s_i)$. Each sample contributes
#   $s_i = \sum_k p_{ik} z_{ik} - z_{i y_i}$ to $L'$, and the more these differ, the harder a new sample pushes.
#
# The mean of $n$ slopes has standard deviation $\sqrt{J / n}$. Divide by the curvature, and the push on the slope becomes
# a shift of the minimum:
#
# $$
# \operatorname{se}(\hat b) = \frac{1}{I} \sqrt{\frac{J}{n}}, \qquad
# \operatorname{se}(\hat T) = T^2 \operatorname{se}(\hat b) .
# $$ (eq-ts-error)
#
# The second follows from the first as $dT / db = -T^2$. This is the *sandwich* formula. If the scaled probabilities were the true ones, the label would be drawn from $\p_i$, and
# $s_i$ would have the variance $\operatorname{Var}_{k \sim \p_i} [z_{ik}]$. Its mean is $I$ by {eq}`eq-ts-derivatives`, so
# $J = I$, and the formula becomes the textbook's $1 / \sqrt{n I}$, with the Fisher information $I$. The bootstrap needs
# neither $I$ nor $J$, because it draws the validation set again, with replacement, and fits again.

# %%
_, slope, curvature = derivatives(z, y, b)
information, spread = curvature.mean(), slope.var()  # I and J
sandwich = ts.temperature**2 * np.sqrt(spread / len(y)) / information
rng, resampled = np.random.default_rng([seed, 1]), []
for _ in range(200):
    again = rng.integers(0, len(y), len(y))
    resampled.append(TemperatureScaling().fit(z[again], y[again]).temperature)

# %% mystnb={"figure": {"caption": "The sandwich formula predicts how much T varies. Histogram: T on 200 resampled validation sets. Line: the normal curve with the standard error of the formula.", "name": "fig-ts-error"}, "image": {"alt": "A histogram of resampled temperatures, which follows a bell curve."}} tags=["hide-input"]
_, ax = plt.subplots(figsize=(4.5, 2.4))
ax.hist(resampled, bins=20, density=True, color=plots.color_of("TS"), alpha=0.35)
around = ts.temperature + np.linspace(-4, 4, 100) * sandwich
ax.plot(around, norm.pdf(around, ts.temperature, sandwich), color=plots.BLACK)
ax.set(xlabel="T", ylabel="density")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
fisher = ts.temperature**2 / np.sqrt(len(y) * information)
prose(f"""
With {len(y):,} images, *T* = {ts.temperature:.2f} has a standard error of {sandwich:.3f} by the formula
and {np.std(resampled, ddof=1):.3f} by the bootstrap. The Fisher information alone gives
{fisher:.3f}, since *J* / *I* = {spread / information:.2f} is close to 1.
""")

# %% [markdown]
# ### What it cannot change
#
# Within an image the order of the classes stays, and so do accuracy and top-5 accuracy. Between images the order of the
# *confidences* can change. One image may have a single strong rival class, another many weak ones, and a temperature
# treats the two differently:

# %% tags=["nbval-check-output"]
pair = np.array([[1.8, 0.0, -10.0], [3.0, 0.7, 0.7]])  # two images, three classes
[softmax(pair / t, axis=1).max(1).round(3).tolist() for t in (0.5, 1.0)]

# %% tags=["hide-input", "nbval-check-output"]
moves = {"fitted T": [], "T = 5": []}
for network in (data, large):
    x, labels = network.test_logits.astype(float), network.test_labels
    fitted = TemperatureScaling().fit(*network.val).temperature
    own, *others = (
        100 * roc_auc_score(x.argmax(1) == labels, softmax(x / t, axis=1).max(1))
        for t in (1.0, fitted, 5.0)
    )
    for name, other in zip(moves, others, strict=True):
        moves[name].append(other - own)
prose(f"""
At *T* = 0.5 the second image is the more confident one, at *T* = 1 the first. So the area under the
ROC curve (AUROC) of confidence as a detector of mistakes can move. On our networks with {data.n_classes} and {large.n_classes}
classes the fitted temperature moves it by {max(map(abs, moves["fitted T"])):.1f} points at most. At
*T* = 5 it would change by {moves["T = 5"][0]:.1f} and {moves["T = 5"][1]:.1f} points.
""")

# %% [markdown]
# (sec-ts-objective)=
# ## By likelihood or by calibration error
#
# Nothing forces you to fit $T$ by NLL, and the papers differ.
#
# - {cite:t}`guo2017calibration` and {cite:t}`jung2023scaling` minimise the NLL.
# - {cite:t}`mukhoti2020calibrating` and {cite:t}`frenkel2021network` take the lowest ECE on the grid 0.1, 0.2, ..., 10, and so
#   does the code of {cite:t}`liu2022devil` and {cite:t}`park2023acls`.
# - {cite:t}`tang2024neural` print a row for each, with a grid from 0 to 5 in steps of 0.001 for the ECE.
#
# The NLL is a proper score. It judges the label's probability, predicted or not, it is smooth, and its optimum is unique. The ECE looks at the
# top label only, jumps wherever a confidence crosses the edge of a bin, and has many local minima, some made by chance.
# But it is what gets reported. Does it help to fit what is reported? We tried both on twelve networks for CIFAR-10,
# each trained with a different loss (the {doc}`/book/glossary` explains them). We call a difference
# {term}`beyond chance` if its 95% interval excludes zero.

# %% mystnb={"figure": {"caption": "Fitting T by ECE gains no clear ECE and sometimes costs NLL. ECE-fitted minus NLL-fitted temperature scaling on the test images of twelve networks, with 95% intervals. Left of zero, fitting by ECE is better. Blue is clearly lower, vermilion clearly higher, the rest show no clear difference.", "name": "fig-ts-objective"}, "image": {"alt": "Two forest plots with one row per training loss. In ECE all intervals include zero. In NLL, focal loss and FLSD lie far to the right of zero, all others close to it."}} tags=["hide-input"]
losses = ["cross_entropy", "label_smoothing", "focal", "flsd", "brier", "mmce"]
losses += ["ecp", "cpc", "mdca", "crl", "mbls", "acls"]
networks = notebook.by_loss("cifar10/resnet20", losses)
ways = {" NLL": "temperature_scaling", " ECE": "temperature_scaling:ece"}
by_loss, fits = notebook.side_by_side(networks, ways, ["ece", "nll"], **bootstrap)
extra = {
    metric: {
        shown(loss): by_loss.difference(f"{loss} ECE", f"{loss} NLL", metric)
        for loss in networks
    }
    for metric in ("ece", "nll")
}

order = sorted(extra["ece"], key=lambda name: extra["ece"][name].value)
_, axes = plt.subplots(1, 2, figsize=(7, 3.4), sharey=True)
scales = {
    "ece": (100, "change in ECE (points)"),
    "nll": (1000, "change in NLL (0.001 nats)"),
}
for ax, (metric, (scale, label)) in zip(axes, scales.items(), strict=True):
    scaled = {n: Estimate(*(scale * x for x in extra[metric][n])) for n in order}
    plots.forest_plot(scaled, ax=ax, sort=False, numbers=None)
    ax.set_xlabel(label)
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
verdicts = {m: [found.below() for found in of.values()] for m, of in extra.items()}
clear = {
    m: (of.count("holds"), of.count("does not hold")) for m, of in verdicts.items()
}
below = sum(found.value < 0 for found in extra["ece"].values())
rounded = sum(
    np.isclose(
        fits[f"{loss} ECE"].temperature, round(fits[f"{loss} NLL"].temperature, 1)
    )
    for loss in networks
)
costs = [found.value for found in extra["nll"].values()]
prose(f"""
Fitting *T* by ECE gave a lower test ECE on {below} of the {len(losses)} networks, beyond chance
on {clear["ece"][0] or "none"}. On {rounded} of them it did nothing but round *T* to the grid. In NLL it was
clearly better on {clear["nll"][0]} and clearly worse on {clear["nll"][1]}, but not by the same amount:
{1000 * -min(costs):.1f} thousandths of a nat at best, {1000 * max(costs):.1f} at worst.
""")

# %% [markdown]
# The two large costs in NLL belong to the focal loss and its variant FLSD. Both leave a network under-confident, and
# the fit by ECE sharpens it more than the fit by NLL. What this gains in ECE may be chance. What it loses in NLL is
# not.
#
# So fit by NLL, unless ECE itself is your goal. And never compare an ECE-fitted method with an NLL-fitted TS. In this book
# "TS" alone is always NLL-fitted, and the other one is called "TS-ECE".
#
# (sec-ts-sizes)=
# ## How many images?
#
# ### A rule for the cost of a fit
#
# A parameter that is fitted to $n$ images is slightly off, and that costs likelihood. Let $L_{\text{test}}$ be the NLL
# on new images, lowest at $b^\star$. By its second-order expansion there and {eq}`eq-ts-error`, the average cost is
#
# $$
# \E[L_{\text{test}}(\hat b)] - L_{\text{test}}(b^\star) \approx \tfrac12 \, I \operatorname{se}(\hat b)^2
# = \frac{J / I}{2 n} \text{ nats}.
# $$ (eq-ts-excess)
#
# Against it stands the *gain* $L_{\text{test}}(1) - L_{\text{test}}(b^\star)$ of the best temperature. So calibrating pays, on average, from about
# $n^\star = (J / I) / (2 \, \text{gain})$ images on.
#
# With $d$ parameters, $I$ and $J$ are $d \times d$ matrices and $J / I$ becomes the trace of $I^{-1} J$. If the model is
# right, $J = I$, the product is the unit matrix, and its trace is $d$. So **a fit of $d$ parameters to $n$ images costs about
# $d / 2n$ nats.**
#
# The rule can be tested. Pool validation and test images, shuffle, fit on some of them, and judge by the images after
# the first 5,000. The third network is for {term}`long-tailed` CIFAR-10 (CIFAR-10-LT), where most classes are rare. Its
# pool is its validation set alone, since its test set has another class balance ({ref}`below <sec-ts-shift>`).

# %% tags=["hide-input", "nbval-check-output"]
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


def from_which(values, sizes=SIZES):
    """First size from which on at least 97.5% of the draws are below zero."""
    good = [np.mean(values.loc[size] < 0) >= 0.975 for size in sizes]
    bad = [i for i, is_good in enumerate(good) if not is_good]
    first = bad[-1] + 1 if bad else 0
    return f"{sizes[first]:,}" if first < len(sizes) else f"> {sizes[-1]:,}"


TEN, HUNDRED, TAIL = titles_of([logits, many_classes, long_tails[0]])
short = {TEN: data, HUNDRED: large, TAIL: tails[long_tails[0]]}
pools = {name: pool_of(network, name == TAIL) for name, network in short.items()}
only_ts = {
    name: by_size(pool, {"TS": "temperature_scaling"}, SIZES, n_draws).loc["TS"]
    for name, pool in pools.items()
}
rows = {}
for name, (x, labels) in pools.items():
    T = TemperatureScaling().fit(x, labels).temperature
    values, slope, curvature = derivatives(x.astype(float), labels, 1 / T)
    ratio = slope.var() / curvature.mean()
    gain = nll(softmax(x, axis=1), labels) - values.mean()
    found = only_ts[name]
    loss = found["nll"].unstack("draw")
    cost = (loss.loc[200] - loss.loc[LAST]).mean() + ratio / (2 * LAST)
    rows[name] = {
        ("of the best T", "gain"): f"{gain:.3f}",
        ("of the best T", "J / I"): f"{ratio:.2f}",
        ("of the best T", "n*"): f"{ratio / (2 * gain):.0f}",
        ("cost with 200 images", "by the rule"): f"{ratio / 400:.4f}",
        ("cost with 200 images", "measured"): f"{cost:.4f}",
        ("nearly always pays from", "NLL"): from_which(found["nll"]),
        ("nearly always pays from", "ECE"): from_which(found["ece"]),
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "A few hundred images are enough for one temperature. Gain and cost in nats. Last "
    "columns: images from which on 97.5% of the draws beat no calibration",
    "tbl-ts-sizes",
)

# %% mystnb={"figure": {"caption": "With 200 images, a temperature is nearly always better than none. Left: fitted T. Middle: NLL on new images minus the NLL of the fit on 5,000 images, in nats, with the rule (black). Right: ECE on new images. Lines are means, bands hold 95% of the draws, dotted lines are uncalibrated.", "name": "fig-ts-sizes"}, "image": {"alt": "Three panels against the number of validation images, three networks each: temperatures whose bands narrow, excess loss that falls along a straight line, and ECE that falls below its dotted line."}} tags=["hide-input"]
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
rule = 1 / (2 * np.array(SIZES[:-1])) - 1 / (2 * LAST)
axes[1].plot(SIZES[:-1], rule, color=plots.BLACK, linewidth=0.8, label="rule, J = I")
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
# The rule holds within a factor of two down to some fifty images, and $n^\star$ is even smaller. To be better in nearly
# *every* draw takes 20 to 200 images, most for CIFAR-100, which has the smallest gain.
#
# The exception is at the far left of the middle panel. Among 20 images of CIFAR-10 there may be no mistake. Then $T$
# ends at its bound, the result is far worse than no calibration, and one such draw spoils the mean. `calibkit` warns in
# that case.
#
# ### Who needs how many
#
# More parameters need more images. We compare one temperature with three other fits by NLL. The first has one temperature
# per class ($d = K$). The second is vector scaling, with a scale and a bias per class ($d = 2K - 1$: a constant added to all biases changes nothing). The third is vector scaling
# with a penalty that pulls it towards one temperature, as strongly as cross-validation advises.

# %% mystnb={"figure": {"caption": "With 100 classes a parameter per class needs thousands of images. One temperature needs a hundred or two. NLL on new images minus the uncalibrated NLL, in nats, mean and range over draws. Below the dotted line a method helps. Thin lines: TS at 5,000 images plus the rule d/2n for d = K and 2K − 1. A curve leaves the picture where a class without a mistake has an infinite NLL. The curve with a penalty lies on that of TS.", "name": "fig-ts-methods"}, "image": {"alt": "Two panels, 10 and 100 classes: NLL minus that of no calibration against the number of images. TS lies below zero from the start; the methods with a parameter or two per class need many more images, most of all with 100 classes."}} tags=["hide-input"]
keys = {
    "TS": "temperature_scaling",
    "T per class": "class_temperature_scaling:nll",
    "vector": "vector_scaling",
    "vector, penalty": "vector_scaling lam=None",
}
FEWER = [100, 200, 500, 1500, 5000]
compared = {name: by_size(pools[name], keys, FEWER, n_few) for name in (TEN, HUNDRED)}

colors = {name: plots.color_of(keys[name]) for name in list(keys)[::-1]}
dashes = {"TS": "s-", "vector, penalty": "^--"}
_, axes = plt.subplots(1, 2, figsize=(7, 3.2))
for ax, (of, found) in zip(axes, compared.items(), strict=True):
    K = short[of].n_classes
    for name, color in colors.items():
        drawn = found.loc[name, "nll"].unstack("draw").clip(upper=9)
        ends = drawn.min(axis=1), drawn.max(axis=1)
        style = {"color": color, "label": name, "line": dashes.get(name, "o-")}
        pictures.band(FEWER, drawn.mean(axis=1), *ends, ax=ax, **style)
    floor = found.loc[("TS", LAST), "nll"].mean()
    for d, name in ((K, "T per class"), (2 * K - 1, "vector")):
        rule = floor + d / (2 * np.array(FEWER))
        ax.plot(FEWER, rule, color=colors[name], linewidth=0.7)
    ax.axhline(0, color=plots.BLACK, linestyle=":")
    ax.set(title=f"K = {K}", xscale="log", xlabel="validation images")
    ax.set_ylim(-1.5 * abs(floor), 3 * abs(floor))
    ax.set_xticks(FEWER, [str(size) for size in FEWER])
    ax.minorticks_off()
axes[0].set_ylabel("NLL minus uncalibrated")
axes[0].legend()
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
many = compared[HUNDRED]
first = {
    (name, m): from_which(many.loc[name, m], FEWER) for name in keys for m in MEASURED
}
ahead = [
    from_which(found.loc[name, "nll"] - found.loc["TS", "nll"], FEWER)
    for found in compared.values()
    for name in list(keys)[1:]
]
caught_up = sum(not size.startswith(">") for size in ahead)
prose(f"""
With {large.n_classes} classes, all {n_few} draws here beat *no calibration* in NLL from {first["TS", "nll"]} images on for one
temperature, but from {first["T per class", "nll"]} for a temperature per class and
{first["vector", "nll"]} for plain vector scaling (in ECE from {first["T per class", "ece"]} and
{first["vector", "ece"]}). Over both networks, {caught_up or "none"} of the {len(ahead)} richer fits beats
*one temperature* in every draw within {LAST:,} images.
""")

# %% [markdown]
# So count parameters against images before you choose a method. In ECE the larger methods look better than in NLL. A
# label whose probability vanishes costs NLL without limit, and ECE does not see it. The penalty makes vector scaling
# safe, because it falls back to one temperature where it has to. But on these two networks it gains nothing.
#
# (sec-ts-shift)=
# ## Where it fails
#
# The rule $d / 2n$ assumes that the images you fit on resemble the new ones, and it is silent about the error that even
# the best $T$ leaves behind. This section looks at both.
#
# ### Label shift: another class balance
#
# One temperature is a compromise between classes. A validation set with other shares of the classes than the test set
# strikes another compromise. This happens with long-tailed data, where the network is judged on balanced classes:

# %% mystnb={"figure": {"caption": "The validation set asks for a lower temperature than the balanced test set needs. Images per class of CIFAR-10-LT, and the temperature that fits each set best.", "name": "fig-ts-shares"}, "image": {"alt": "Two bar charts of images per class: in the validation set they fall by a factor of ten from airplane to truck, in the test set all classes have the same number."}} tags=["hide-input"]
tail = tails[long_tails[0]]
_, axes = plt.subplots(1, 2, figsize=(7, 2.4), sharey=True)
for ax, part, title in zip(
    axes, (tail.val, tail.test), ("validation", "test"), strict=True
):
    counts = np.bincount(part.labels, minlength=tail.n_classes)
    ax.bar(range(tail.n_classes), counts, color=plots.BLUE)
    best = TemperatureScaling().fit(*part).temperature
    ax.set_title(f"{title} set: best T = {best:.2f}")
    if tail.n_classes == 10:
        ax.set_xticks(range(10), CIFAR10, rotation=45, ha="right")
    ax.grid(axis="x", visible=False)
axes[0].set_ylabel("images")
plt.show()

# %% [markdown]
# If you know that the test set is balanced, weight each validation image by one over the size of its class. That is the
# objective `class_balanced`, and any calibrator takes it:

# %%
fits = {
    "one T": calibrator("temperature_scaling").fit(*tail.val),
    "one T, balanced": calibrator("temperature_scaling:class_balanced").fit(*tail.val),
}
vector = calibrator("vector_scaling lam=None:class_balanced")  # with a penalty
fits["vector, balanced"] = vector.fit(*tail.val)

# %% tags=["hide-input", "nbval-check-output"]
result = Comparison.on(tail.test, fits, ["accuracy", "ece", "nll"], **bootstrap)
table(
    estimates(result, fits, columns, base="one T"),
    "Balanced weights lower ECE and NLL on CIFAR-10-LT. Change from one T fitted by NLL, "
    "with 95% intervals. Points, the NLL in nats",
    "tbl-ts-weights",
)

# %% [markdown]
# Vector scaling lowers the NLL further, but hardly the ECE. Its biases move *predictions* from the large classes to the
# rare ones, and the accuracy with them. That is calibration of every class, which the ECE of the top label does not
# see.
#
# Does label shift hurt every network? For the first network, trained on balanced data, we drew the validation images
# again, so that the share of a class falls by a factor of 100 from the easiest class to the hardest (by accuracy), or
# the other way round.


# %% tags=["hide-input", "nbval-check-output"]
def reshared(labels, class_accuracy, ratio, size, rng):
    """Rows such that shares fall by ``ratio`` from the easiest class to the hardest."""
    rank = rankdata(-class_accuracy, method="ordinal") - 1
    weights = (ratio ** (-rank / rank.max()))[labels]
    return rng.choice(len(labels), size, p=weights / weights.sum())


ts_by = "temperature_scaling"
OBJECTIVES = {"NLL": ts_by, "balanced": f"{ts_by}:class_balanced"}
SHARES = {"as the test set": 1, "mostly easy": 100, "mostly hard": 1 / 100}
hits = z.argmax(1) == y
class_accuracy = np.array([hits[y == k].mean() for k in range(data.n_classes)])
rows = {}
for name, ratio in SHARES.items():
    rng, drawn = np.random.default_rng([seed, 3]), []
    for _ in range(20):
        some = reshared(y, class_accuracy, ratio, 5000, rng)
        refits = [calibrator(key).fit(z[some], y[some]) for key in OBJECTIVES.values()]
        errors = [100 * ece(f(data.test_logits), test_y, n_bins=n_bins) for f in refits]
        drawn.append([(f.temperature, e) for f, e in zip(refits, errors, strict=True)])
    (t, error), (t_balanced, error_balanced) = np.mean(drawn, axis=0)
    spread, spread_balanced = np.std(drawn, axis=0, ddof=1)[:, 0]
    rows[f"{TEN}, {name}"] = {
        ("T fitted by", "NLL"): f"{t:.2f} ± {spread:.2f}",
        ("T fitted by", "balanced NLL"): f"{t_balanced:.2f} ± {spread_balanced:.2f}",
        ("ECE", "NLL"): f"{error:.1f}",
        ("ECE", "balanced NLL"): f"{error_balanced:.1f}",
        ("ECE", "change"): "",
    }
for title, network in zip(titles_of([*tails]), tails.values(), strict=True):
    refits = {
        label: calibrator(key).fit(*network.val) for label, key in OBJECTIVES.items()
    }
    pair = Comparison.on(network.test, refits, ["ece"], **bootstrap)
    rows[title] = {
        ("T fitted by", "NLL"): f"{refits['NLL'].temperature:.2f}",
        ("T fitted by", "balanced NLL"): f"{refits['balanced'].temperature:.2f}",
        ("ECE", "NLL"): f"{pair.of('NLL').percent.value:.1f}",
        ("ECE", "balanced NLL"): f"{pair.of('balanced').percent.value:.1f}",
        ("ECE", "change"): f"{pair.difference('balanced', 'NLL').percent:+.1f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Label shift matters most to the network trained on long-tailed CIFAR-10. Test ECE in "
    "percent. First three rows: means of 20 draws ± standard deviation",
    "tbl-ts-balance",
    names=shown,
)

# %% [markdown]
# The balanced network is hardly affected. $T$ follows the shares, but the ECE moves by tenths of a point. Of the two trained on
# long-tailed data, the CIFAR-10 network gains a lot from balanced weights. For CIFAR-100 we see no clear difference
# here, though we do on two larger networks ({doc}`class_loss_scaling`). The weights have a price. The few images of a
# rare class count most, so the balanced $T$ varies more.
#
# ### Covariate shift: other images
#
# Now the classes stay and the images change. A stored network reads scanned digits, and $T$ is fitted on clean validation
# digits. Then the test digits are corrupted. For comparison we also fit the $T$ that would have been best, on the corrupted
# test digits themselves, which nobody can do in practice.

# %% mystnb={"figure": {"caption": "A temperature from clean images is far too low under noise and rotation, and a little too high under blur. Above: test ECE on corrupted digits at T = 1, at the T of clean validation digits, and at the T that would have been best. Below: that best T, with the clean one dashed, on a logarithmic scale.", "name": "fig-ts-corruptions"}, "image": {"alt": "Three columns of corruptions by strength: above, the ECE at T = 1, at the clean temperature and at the best one, which part as the strength grows; below, the best temperature, which rises away from the dashed clean one under noise and rotation, and lies below it under blur."}} tags=["hide-input"]
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


def rotated(degrees):
    """Both ways."""
    how = {"axes": (2, 3), "reshape": False, "order": 1, "mode": "nearest"}
    return np.concatenate([rotate(images, sign * degrees, **how) for sign in (1, -1)])


CORRUPTIONS = {
    "noise": (noisy, [0, 0.1, 0.2, 0.3, 0.4]),
    "rotation (degrees)": (rotated, [0, 10, 20, 30, 40]),
    "blur (pixels)": (blurred, [0, 0.4, 0.8, 1.2, 1.6]),
}
corrupted = {}
for name, (corrupt, strengths) in CORRUPTIONS.items():
    for strength in strengths:
        z_bad = digits.logits(torch.from_numpy(corrupt(strength)))
        y_bad = np.tile(answers, len(z_bad) // len(answers))
        best = TemperatureScaling().fit(z_bad, y_bad)
        probs = {
            "T = 1": softmax(z_bad, axis=1),
            "clean T": clean(z_bad),
            "best T": best(z_bad),
        }
        corrupted[name, strength] = {
            "accuracy": 100 * accuracy(probs["T = 1"], y_bad),
            "confidence": 100 * probs["clean T"].max(1).mean(),
            "T": best.temperature,
        } | {label: 100 * ece(p, y_bad, n_bins=n_bins) for label, p in probs.items()}
corrupted = pd.DataFrame.from_dict(corrupted, orient="index")

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

# %% tags=["hide-input", "nbval-check-output"]
most, blur = (
    corrupted.loc[name].iloc[-1] for name in ("rotation (degrees)", "blur (pixels)")
)
prose(f"""
Under noise and rotation, accuracy falls and most of the confidence stays. Rotated by {most.name:g} degrees,
the network is right on {most["accuracy"]:.0f}% of the digits and {most["confidence"]:.0f}% confident. The
best temperature rises several times over, from {clean.temperature:.1f} to {most["T"]:.1f}. With the clean one
the ECE is {most["clean T"]:.0f}%, with the best one {most["best T"]:.0f}%.

Blur is another matter. It makes the network *less* confident, about as much as it should, and the
clean temperature even takes too much away: {blur["clean T"]:.1f}% ECE, against {blur["T = 1"]:.1f}% at
*T* = 1.
""")

# %% [markdown]
# So "T is too small under shift" is a rule with exceptions, and no clean validation set tells you which case is coming.
# Only images of the new kind do. Even then a better $T$ is not always a cure. On the most blurred and the most rotated
# digits, the best one still leaves several points of ECE.
#
# (sec-ts-signs)=
# ### Gaps of both signs
#
# One temperature moves all confidences in the same direction. If a network is over-confident in some places and
# under-confident in others, that cannot help. Take three synthetic classifiers with $K = 10$ and normal logits, whose
# labels are drawn from known probabilities:
#
# - *One scale* has the truth $\softmax(\z / 1.5)$, the case that TS is made for.
# - *Ranges* has the accuracy $c + 0.08 \sin 4 \pi c$ at confidence $c$, as in {doc}`metrics`. It is over-confident at some
#   confidences, under-confident at others.
# - *Classes* has the truth $\softmax(\z)$ where one of the first five classes is predicted, $\softmax(\z / 2)$ elsewhere.


# %% tags=["hide-input", "nbval-check-output"]
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
    "classes": {"T per class": "class_temperature_scaling:nll"},
}


def by_prediction(p, labels):
    """ECE among the samples of each predicted class, weighted with its share."""
    groups = [p.argmax(1) == k for k in range(p.shape[1])]
    return sum(g.mean() * ece(p[g], labels[g], n_bins=n_bins) for g in groups)


of_sample = {
    "ECE": partial(ece, n_bins=n_bins),
    "class-wise ECE": partial(classwise_ece, n_bins=n_bins),
    "by prediction": by_prediction,
}
rng, rows = np.random.default_rng([seed, 5]), {}
for name, truth in TRUTHS.items():
    z_fit, z_new = 5 * rng.standard_normal((2, 20_000, 10))
    y_fit, y_new = (draw_labels(truth(part), rng) for part in (z_fit, z_new))
    tried = {"uncalibrated": "identity", "TS": "temperature_scaling"} | CURES[name]
    for label, key in tried.items():
        fit = calibrator(key).fit(z_fit, y_fit)
        p_new = fit(z_new)
        rows[name, label] = {"T": getattr(fit, "temperature", np.nan)} | {
            column: 100 * f(p_new, y_new) for column, f in of_sample.items()
        }
table(
    pd.DataFrame(rows).T,
    "One temperature cannot correct gaps of both signs. Errors in percent, 20,000 samples "
    "to fit and as many to test. By prediction: mean ECE among the samples of a predicted class",
    "tbl-ts-signs",
)

# %% [markdown]
# The row "one scale, TS" shows about what chance alone leaves.
#
# On *ranges* the best temperature is near 1, and the error stays. ECE and the reliability diagram *after* TS show it. A
# method that bends the curve, here a spline, removes it.
#
# On *classes* TS removes most of the ECE, because the gaps of the two groups nearly cancel at each confidence.
# Among the samples of each predicted class the error is nearly as large as before. To see it, draw a reliability
# diagram for each class (`reliability_bins(class_index=k)`), or look at the class-wise ECE. One temperature per class,
# fitted by likelihood, halves the error by prediction. (The search by ECE in {doc}`class_temperature_scaling` is another fit of that model.)
#
# ### Fitted on the training set
#
# A network knows its training images better than new ones. There it is right too often, and the temperature learns the
# wrong lesson. We trained ten small networks on 100 digits each, stopped them after 10, 50 or 200 steps, and fitted $T$
# on their training images or on held-out ones.

# %% mystnb={"figure": {"caption": "A temperature fitted on training images makes calibration worse once the network has learnt them. Left: fitted T. Right: test ECE. Means of ten networks trained on 100 digits, by the number of training steps.", "name": "fig-ts-own"}, "image": {"alt": "Two panels against 10, 50 and 200 training steps. The temperature from training images lies far below 1, the one from held-out images rises above 3. The ECE of the first rises above the uncalibrated one, the ECE of the second stays lowest."}} tags=["hide-input"]
STEPS = (10, 50, 200)
rows = []
for steps in STEPS:
    how = {"n_draws": 10, "n_train": 100, "steps": steps, "seed": seed}
    outcome = many_on_digits([cross_entropy], **how)
    for draw in range(10):
        part = {
            name: (x[0, draw].numpy(), t[draw].numpy())
            for name, (x, t) in outcome.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no mistake in training: T at its bound
            fits = {
                "T = 1": calibrator("identity").fit(*part["val"]),
                "from training images": TemperatureScaling().fit(*part["train"]),
                "from held-out images": TemperatureScaling().fit(*part["val"]),
            }
        x, t = part["test"]
        row = {name: 100 * ece(f(x), t, n_bins=n_bins) for name, f in fits.items()}
        row |= {f"T, {name}": getattr(f, "temperature", 1) for name, f in fits.items()}
        rows.append({"steps": steps} | row)
own = pd.DataFrame(rows).groupby("steps").mean()
_, axes = plt.subplots(1, 2, figsize=(7, 2.8))
lines = {"T = 1": ("o-", none), "from training images": ("s--", plots.RED)}
lines["from held-out images"] = ("o-", one)
for label, (line, color) in lines.items():
    axes[0].plot(STEPS, own[f"T, {label}"], line, color=color)
    axes[1].plot(STEPS, own[label], line, color=color, label=label)
axes[0].set_ylabel("T")
axes[1].set(ylabel="test ECE (%)", ylim=(0, None))
for ax in axes:
    ax.set(xscale="log", xlabel="training steps")
    ax.set_xticks(STEPS, [str(steps) for steps in STEPS])
    ax.minorticks_off()
axes[1].legend(loc="lower left")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
last = own.iloc[-1]
prose(f"""
The training images ask for *more* confidence. Once all of them are right, *T* falls to its
bound, every prediction is made with a confidence near one, and the ECE is nearly the share of
mistakes: {last["from training images"]:.1f}% after {last.name} steps. Held-out images call for less
confidence than that and, from 50 training steps on, for less than the network itself has. The test
ECE of {last["from held-out images"]:.1f}% shows that the held-out images are right.
""")

# %% [markdown]
# ## What to do
#
# 1. **Fit on images the network was not trained on.** A temperature from the training images can be worse than none.
# 2. **A few hundred images are enough for one temperature.** Fewer will often do, if they contain some mistakes.
# 3. **Fit by NLL.** On a grid of 0.1, fitting by ECE clearly lowered the ECE of none of these twelve networks.
# 4. **Take more parameters only with a penalty,** and only if they beat one temperature. They cost $d / 2n$ nats.
# 5. **Fit on data that looks like the data you will predict.** It needs the same mix of classes and the same kind of images. If
#    only the mix differs, and you know it, weights correct it.
#
# And look at the reliability diagram *after* calibration. Gaps of both signs outside the grey bars tell you that one
# temperature is not enough.
#
# ## Exercises
#
# 1. Show that $L(1/T)$ is not convex in $T$. Where does its curvature change sign for the four logit pairs of
#    {numref}`tbl-ts-bounds` with one mistake?
#
#    ```{dropdown} Solution
#    With $b = 1/T$, the second derivative with respect to $T$ is $b^4 L''(b) + 2 b^3 L'(b)$. As $b \to 0$ the second
#    term wins, and $L'(0) < 0$ wherever there is an optimum. So $L(1/T)$ is concave for large $T$. The sign changes where
#    $b L''(b) = -2 L'(b)$. The label's logit leads by 2, -1, 3 and 2 in the four pairs, and a bisection finds
#    $T = 1.78$, well above the optimum at 1.08.
#    ```
#
# 2. Let $T$ minimise the Brier score. Derive the equation that takes the place of $L' = 0$. Is the optimum still unique?
#
#    ```{dropdown} Solution
#    From $\mathrm dp_k / \mathrm db = p_k (z_k - \bar z)$ with $\bar z = \sum_j p_j z_j$,
#    $\sum_i \sum_k (p_{ik} - \mathbb{1}[k = y_i]) \, p_{ik} (z_{ik} - \bar z_i) = 0$. Where the softmax saturates, a sample
#    has no weight. So there can be several minima. Take two classes, 20 samples whose logits are 10 apart, 11 of them
#    right, and 20 samples whose logits are 0.1 apart, 18 of them right. There is one minimum at $b = 0.022$, made by the
#    first kind, and another at $b = 22$, made by the second.
#    ```
#
# 3. Use {eq}`eq-ts-excess` to predict how many images temperature scaling needs on a network with $T = 1.05$. Check it
#    on the ACLS network of {numref}`fig-ts-objective`.
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
#    Near 0.45, by the draw of the noise, where the network is no longer of much use. The half-noisy digits ask for a $T$ of 1.8 to 2 there,
#    the clean ones for 1.3. At a strength of 0.2 the two are equally good.
#    ```
