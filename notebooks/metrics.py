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
# # Measuring calibration
#
# A classifier that says "80%" should be right in 80% of such cases. This chapter makes that sentence precise, defines
# every number with which this book measures it, and finds out how far each number can be trusted.
#
# On real data the true calibration error is unknown, so nobody can tell whether a metric is right. Most of this chapter
# therefore runs on classifiers that we build ourselves, with a true error that we know. At the end you can
#
# - read a reliability diagram, and say which part of it is chance;
# - say what each metric sees and what it is blind to;
# - judge whether a difference of 0.2 points between two printed calibration errors means anything;
# - explain why two libraries return different numbers for the same predictions.

# %% tags=["parameters"]
budget = "smoke"  # at "paper" the stored simulations are run anew
n_samples = 2000  # behind the diagrams and the comparison of estimators
n_bins = 15  # bins, where the text does not vary them
n_repeats = 100  # simulated test sets behind every mean, spread and coverage
seed = 0  # of everything random
logits = "cifar10/resnet20-cross_entropy-s0"  # the real network, or an .npz

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from scipy.optimize import brentq
from scipy.special import entr, expit, logit, rel_entr, softmax
from scipy.stats import norm

from book.kit import notebook
from book.kit.notebook import pictures
from book.kit.notebook.display_names import shown
from book.kit.notebook.golden import recorded
from book.kit.notebook.paper_tables import estimates
from book.kit.notebook.synthetic_classifiers import (
    binned_error,
    draw_labels,
    top_label,
    true_curve,
    two_classes,
    with_error,
)
from book.kit.notebook.table import minus, table
from calibkit import Network, TemperatureScaling, plots
from calibkit import data as datasets
from calibkit.metrics import (
    accuracy,
    ace,
    adaptive_ece,
    bootstrap,
    classwise_ece,
    ece,
    evaluate,
    nll,
    reliability_bins,
)
from calibkit.metrics.comparison import Comparison
from calibkit.training import inference

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    n_samples=range(200, 50_001),
    n_bins=range(2, 201),
    n_repeats=range(10, 5001),
    seed=range(2**31),
    logits=str,
)

plots.use_style()
torch.set_num_threads(1)
data = notebook.logits_of(logits)  # an unknown name stops here, not at the end

# %% [markdown]
# ## What calibration is
#
# ### Words
#
# A *classifier* takes an input $\mathbf{x}$, say an image, and scores $K$ classes. The last layer of a network gives
# one real number per class, the *logits* $\mathbf{z} \in \mathbb{R}^K$. Softmax turns them into *probabilities*, which
# are positive and sum to one:
#
# $$
# p_k = \frac{e^{z_k}}{\sum_j e^{z_j}} .
# $$ (eq-metrics-softmax)
#
# The *prediction* $\hat y$ is the class of the largest probability, and that probability is the *confidence*
# $\hat p = p_{\hat y}$. Logits $(2, 1, -1)$ become probabilities $(0.71, 0.26, 0.04)$: the classifier predicts class 0
# with confidence 0.71.
#
# *Accuracy* asks how often the prediction is right. *Calibration* asks whether the confidence can be taken at face
# value: of all inputs on which the classifier says 0.71, is it right on 71%?
#
# ### Ten forecasts by hand
#
# A forecaster says each morning whether it will rain. Her ten forecasts, sorted by confidence:
#
# | confidence $\hat p$ | days | right | accuracy | gap |
# |---|---|---|---|---|
# | 0.9 | 5 | 3 | 3/5 = 0.6 | 0.3 |
# | 0.6 | 5 | 3 | 3/5 = 0.6 | 0.0 |
#
# On the days when she says 0.6 she is right as often as she says. When she says 0.9 she is not: she is
# *over-confident*. Averaging the gaps, each weighted with its share of the days, gives one number:
#
# $$
# \tfrac{5}{10} \cdot 0.3 + \tfrac{5}{10} \cdot 0.0 = 0.15 .
# $$ (eq-metrics-hand)
#
# This is her *expected calibration error* (ECE). The package agrees:

# %% tags=["nbval-check-output"]
confidence = np.repeat([0.9, 0.6], 5)
right = np.array([1, 1, 1, 0, 0, 1, 1, 1, 0, 0])
forecasts, labels = two_classes(confidence, right)  # class 0 is what she predicts
print(f"accuracy {accuracy(forecasts, labels):.2f}")
print(f"ECE {ece(forecasts, labels, n_bins=10):.2f}")

# %% [markdown]
# Her accuracy is 60% on both kinds of days, so her two confidences carry no information. Saying 0.6 every day would
# make her perfectly calibrated, and no better at telling rain from sun. **Calibration is not skill.** It is honesty
# about the skill that is there.
#
# ### Three meanings of "calibrated"
#
# With more than two classes the word has three meanings. Probabilities run over the inputs and their labels $y$.
#
# | | the classifier is calibrated if | for all |
# |---|---|---|
# | *top-label* | $P(y = \hat y \mid \hat p = c) = c$ | confidences $c$ |
# | *class-wise* | $P(y = k \mid p_k = v) = v$ | classes $k$, values $v$ |
# | *full* | $P(y = k \mid \mathbf{p} = \mathbf{v}) = v_k$ | classes $k$, vectors $\mathbf{v}$ |
#
# Full calibration implies the other two, and neither of them implies it {cite:p}`vaicenavicius2019evaluating`. Two
# small data sets with three classes show the difference.
#
# **A.** The classifier says $(0.6, 0.4, 0)$ on ten inputs. Six have label 0, four have label 2. The prediction is right
# 60% of the time, as it says. But class 1 gets 40% and never comes; class 2 is ruled out and does.
#
# **B.** The classifier says one of the six permutations of $(0.6, 0.3, 0.1)$. The true frequencies are off by
# $(+0.1, -0.1, 0)$ for the even permutations, and by the opposite for the odd ones. Each class gets each value from one
# even and one odd permutation, so the two errors cancel in every class.
#
# In {numref}`tbl-metrics-meanings` the last column compares the frequencies with the whole vector. That is possible
# here because each vector occurs ten times.

# %% tags=["nbval-check-output"]
EVEN, ODD = [(0, 1, 2), (1, 2, 0), (2, 0, 1)], [(0, 2, 1), (2, 1, 0), (1, 0, 2)]
vectors = np.array([0.6, 0.3, 0.1])[EVEN + ODD]
shift = np.repeat([[0.1, -0.1, 0.0], [-0.1, 0.1, 0.0]], 3, axis=0)


def dataset(vectors, frequencies, n):
    """n rows of each vector, with labels in exactly these frequencies."""
    counts = np.rint(n * np.asarray(frequencies)).astype(int)
    labels = [np.repeat(np.arange(3), c) for c in counts]
    return np.repeat(vectors, n, axis=0), np.concatenate(labels)


def full_error(probs, labels):
    """Mean of |frequency - probability| over rows and classes, given the vector."""
    _, group = np.unique(probs, axis=0, return_inverse=True)
    error = probs - np.eye(probs.shape[1])[labels]
    return np.abs(np.stack([error[group == g].mean(0) for g in group])).mean()


A = dataset(np.array([[0.6, 0.4, 0.0]]), [[0.6, 0.0, 0.4]], 10)
B = dataset(vectors, vectors + shift, 10)
kinds = {"top-label": ece, "class-wise": classwise_ece, "full": full_error}
table(
    pd.DataFrame({kind: {"A": of(*A), "B": of(*B)} for kind, of in kinds.items()}),
    "In which sense are A and B calibrated? Mean gaps, as fractions",
    "tbl-metrics-meanings",
)

# %% [markdown]
# A is calibrated for its top label only; B for its top label and for every class, but not fully. Full calibration would
# have to be checked for every possible vector, and a real network hardly ever says the same vector twice. So every
# metric below looks at one number at a time, the confidence or the probability of one class. That gives each its
# blind spots.
#
# ## Classifiers whose truth is known
#
# To test a metric we need the answer. So we turn the usual order around: first draw what the classifier says, then
# decide what is true, then draw labels from the truth.
#
# 1. Ten logits are drawn from a normal distribution of standard deviation 5, or 20 for easy data, and softmax gives $\mathbf{p}$.
# 2. The true probabilities of the labels, $\boldsymbol\pi$, are a function of the logits that we choose.
# 3. The label is drawn from $\boldsymbol\pi$.
#
# Three choices of $\boldsymbol\pi$ serve the whole chapter.
#
# | classifier | truth | what it stands for |
# |---|---|---|
# | calibrated | $\boldsymbol\pi = \mathbf{p}$ | the ideal |
# | over-confident | $\boldsymbol\pi = \operatorname{softmax}(\mathbf{z} / 1.5)$ | a network as trained; dividing its logits by the temperature 1.5 would make it fully calibrated |
# | wavy | $\pi_{\hat y} = \hat p + 0.08 \sin 4 \pi \hat p$, the rest in proportion | what a correction can leave behind: gaps of both signs |
#
# Write $r(c) = P(y = \hat y \mid \hat p = c)$ for the *calibration curve*: the accuracy at confidence $c$. The *true*
# error is
#
# $$
# \mathrm{ECE}^\star = \mathbb{E} \, \bigl| r(\hat p) - \hat p \bigr| .
# $$ (eq-metrics-true)
#
# For the wavy classifier $r$ is the formula in the table. The over-confident one has $\pi_{\hat y} < \hat p$ on every
# single input, so $\mathrm{ECE}^\star = \mathbb{E}[\hat p - \pi_{\hat y}]$. Both are plain averages over draws of
# $\mathbf{z}$, without labels and without bins; 400,000 draws give them to about 0.01 points.

# %%
K, SCALE, T_TRUE = 10, 5.0, 1.5


def with_top(p, top):
    """Probabilities whose largest value is ``top``; the others in proportion."""
    rest = (1 - top) / np.maximum(1 - p.max(1), 1e-12)
    return np.where(
        np.arange(p.shape[1]) == p.argmax(1)[:, None], top[:, None], p * rest[:, None]
    )


def wave(c):
    """Calibration curve of the wavy classifier."""
    return c + 0.08 * np.sin(4 * np.pi * c)


TRUTH = {
    "calibrated": lambda z: softmax(z, axis=1),
    "over-confident": lambda z: softmax(z / T_TRUE, axis=1),
    "wavy": lambda z: with_top(softmax(z, axis=1), wave(softmax(z, axis=1).max(1))),
}


def draw(name, n, rng, scale=SCALE):
    """Logits, true probabilities and labels of n samples of one classifier."""
    z = scale * rng.standard_normal((n, K))
    truth = TRUTH[name](z)
    return z, truth, draw_labels(truth, rng)


# %% tags=["nbval-check-output"]
n = 400_000
z = SCALE * np.random.default_rng([seed, 2]).standard_normal((n, K))
p = softmax(z, axis=1)
c, known = p.max(1), {}
for name, of in TRUTH.items():
    t = of(z)[np.arange(n), p.argmax(1)]
    error = np.abs(wave(c) - c) if name == "wavy" else c - t
    known[name] = t.mean(), c.mean(), error.mean()
known = pd.DataFrame(known, index=["accuracy", "mean confidence", "true ECE"]).T
table(
    100 * known, "What is true of the three classifiers? Percent", "tbl-metrics-known"
)

# %% [markdown]
# ## The reliability diagram, step by step
#
# A *reliability diagram* {cite:p}`degroot1983comparison` draws the calibration curve from a finite sample.
#
# 1. Cut the confidences $[0, 1]$ into $M$ bins of equal width. $B_m$ are the samples in bin $m$.
# 2. In each bin, take the mean confidence $\operatorname{conf}(B_m)$ and the share of right predictions
#    $\operatorname{acc}(B_m)$.
# 3. Draw a bar for each bin, as high as its accuracy, with a point at its mean confidence. A point on the diagonal is
#    as accurate as it is confident. Below the diagonal the classifier is over-confident, above it under-confident. The
#    vermilion line from the point to the diagonal is the gap.
#
# Two things are easily overlooked. The bars do not show how many samples a bin holds; the histogram below each diagram
# does. And the accuracy in a bin of 20 samples is itself uncertain. The grey bars show where it would fall, 95 times out
# of 100, if the classifier were calibrated {cite:p}`brocker2007increasing`. **A gap inside its grey bar proves nothing
# by itself.**

# %%
rng = np.random.default_rng([seed, 3])
sample, curves = {}, {}
for name in TRUTH:
    z, _, labels = draw(name, n_samples, rng)
    sample[name] = softmax(z, axis=1), labels
    z, truth, _ = draw(name, 100_000, rng)
    curves[name] = true_curve(softmax(z, axis=1), truth)

# %% mystnb={"figure": {"caption": "What does a reliability diagram look like when the truth is known? The calibrated classifier has gaps too. All but one lie inside the grey bars, which one in twenty may miss by chance. Below: where the samples are, with the mean confidence (vermilion) and the accuracy (the other dashed line).", "name": "fig-metrics-diagrams"}, "image": {"alt": "Three reliability diagrams of classifiers whose truth is known, calibrated, over-confident and wavy, with the true curve in green, and below each the histogram of its confidences."}}
pictures.reliability_row(sample, n_bins=n_bins, histogram=True, curves=curves)
plt.show()

# %% [markdown]
# {numref}`tbl-metrics-bins` has the numbers behind the middle diagram.

# %% tags=["nbval-check-output"]
bins = reliability_bins(*sample["over-confident"], n_bins=n_bins)
gaps = pd.DataFrame({"confidence": bins.confidence, "accuracy": bins.accuracy})
gaps["gap"] = (gaps["accuracy"] - gaps["confidence"]).abs()
gaps["share × gap"] = bins.counts / n_samples * gaps["gap"]
gaps = 100 * gaps
gaps.insert(0, "samples", bins.counts)
edges = zip(bins.edges[:-1], bins.edges[1:], strict=True)
gaps.index = [f"({low:.2f}, {high:.2f}]" for low, high in edges]
table(
    gaps[gaps["samples"] > 0],
    "Which bins make up the ECE of the over-confident sample? Percent",
    "tbl-metrics-bins",
)

# %% tags=["hide-input", "nbval-check-output"]
value, true = ece(*sample["over-confident"], n_bins=n_bins), known.loc["over-confident"]
Markdown(f"""
The last column sums to {gaps["share × gap"].sum():.2f}%, and `ece` returns
{100 * value:.2f}%. The true error is {100 * true["true ECE"]:.2f}%. How far off
such a number usually is, the section on bias will show.
""")

# %% [markdown]
# ## The metrics, and what each is blind to
#
# All take `probs` (N, K) and `labels` (N,). The calibration errors are fractions; the tables show percent.
#
# ### The top label, in bins
#
# The *expected calibration error* {cite:p}`naeini2015obtaining,guo2017calibration` is the weighted mean of the gaps:
#
# $$
# \mathrm{ECE} = \sum_{m=1}^{M} \frac{|B_m|}{N} \,
#   \bigl| \operatorname{acc}(B_m) - \operatorname{conf}(B_m) \bigr| .
# $$ (eq-metrics-ece)
#
# - `ece`: $M = 15$ bins of equal width. A bin holds its upper edge but not its lower one, $(a, b]$.
# - `mce`, the *maximum* calibration error: the largest gap instead of the mean.
# - `adaptive_ece` (AECE): the same sum over bins of *equal mass*. The sorted confidences are cut into $M$ parts of
#   equal size; equal confidences stay together. No bin is nearly empty, and bins are narrow where the samples are.
# - `debiased_ece` {cite:p}`kumar2019verified`: a root mean square of the gaps, minus the part that chance adds,
#
# $$
# \Bigl( \sum_{|B_m| > 1} \frac{|B_m|}{N} \Bigl[ (\operatorname{acc} - \operatorname{conf})^2
#   - \frac{\operatorname{acc} (1 - \operatorname{acc})}{|B_m| - 1} \Bigr] \Bigr)_+^{1/2} .
# $$ (eq-metrics-debiased)
#
# where $(\cdot)_+$ is 0 for what is negative.
#
# ### The top label, without bins
#
# Sort the samples by confidence and write $g_i = \hat p_i - \mathbb{1}[\hat y_i = y_i]$ for the gap of one sample.
#
# - `ks_error` {cite:p}`gupta2021calibration`: the largest partial sum,
#   $\max_c \frac1N \bigl| \sum_{i: \hat p_i \le c} g_i \bigr|$, as in the Kolmogorov–Smirnov test. Gaps of opposite
#   sign cancel along the way.
# - `smooth_ece` {cite:p}`blasiok2024smooth`: the gaps are smoothed with a Gaussian kernel over the confidence, and the
#   absolute value of the result is integrated. The width of the kernel is the one that equals the error it gives, so
#   nothing has to be chosen.
#
# ### Every class
#
# Here each $p_k$ is compared with $\mathbb{1}[y = k]$, for all classes, whether predicted or not.
#
# - `classwise_ece` (SCE) {cite:p}`kull2019beyond`: the ECE of each class over bins of equal width, averaged over the
#   classes.
# - `ace` {cite:p}`nixon2019measuring`: the same with equal mass.
# - `tace`: `ace` over the values $p_k \ge 0.01$ only. Without the threshold the many values near 0 dilute the mean.
#
# ### Scores
#
# Two scores judge the whole vector $\mathbf{p}$ against the label, one sample at a time:
#
# $$
# \begin{aligned}
# \mathrm{NLL} &= - \frac1N \sum_i \log p_{i, y_i} , \\
# \mathrm{Brier} &= \frac1N \sum_i \sum_k \bigl( p_{ik} - \mathbb{1}[y_i = k] \bigr)^2 .
# \end{aligned}
# $$ (eq-metrics-scores)
#
# They are *proper*: in expectation nothing beats saying the true probabilities. They need no bins and have no bias. But
# they measure skill and honesty together. If $\boldsymbol\pi$ is the truth for an input, and $\mathbf{r}$ the mean
# truth over all inputs that get the same $\mathbf{p}$, then {cite:p}`degroot1983comparison`
#
# $$
# \begin{aligned}
# \mathbb{E} \, \mathrm{NLL}
#   &= \mathbb{E} \, H(\boldsymbol\pi) && \text{noise in the labels} \\
#   &+ \mathbb{E} \, \mathrm{KL}(\boldsymbol\pi \,\|\, \mathbf{r}) && \text{detail left out} \\
#   &+ \mathbb{E} \, \mathrm{KL}(\mathbf{r} \,\|\, \mathbf{p}) && \text{miscalibration,}
# \end{aligned}
# $$ (eq-metrics-decomposition)
#
# with the entropy $H$ and the Kullback–Leibler divergence. A function that maps old probabilities to new ones, such as
# a temperature, can remove the last term and nothing else. `accuracy` and `entropy` are reported beside the rest: a
# correction may cost accuracy, and the mean entropy says how much it has softened the outputs.
#
# ### The blind spots
#
# Six suspects, each of 100,000 samples (B: the 60 from above):
#
# | | what it does | what is true of it |
# |---|---|---|
# | calibrated | says the truth | nothing to find |
# | class prior | says 0.1 for every class, always | fully calibrated, and useless |
# | over-confident | $\mathbf{z}$ is 1.5 times too large | to be found by all |
# | opposite | over-confident when it predicts classes 0–4, under-confident by as much for 5–9 | top-label calibrated |
# | swapped rest | right about the top label; the ranks of the other nine are reversed | top-label calibrated |
# | B | see above | class-wise calibrated |


# %% tags=["nbval-check-output"]
def opposite(z):
    p = softmax(z, axis=1)
    c, sign = p.max(1), np.where(p.argmax(1) < 5, -1, 1)
    return with_top(p, c + 0.4 * sign * c * (1 - c))


def swapped_rest(z):
    p = softmax(z, axis=1)
    rows, order = np.arange(len(p))[:, None], p.argsort(1)
    truth = p.copy()
    truth[rows, order[:, :-1]] = p[rows, order[:, -2::-1]]
    return truth


rng = np.random.default_rng([seed, 4])
z = SCALE * rng.standard_normal((100_000, K))
p, prior = softmax(z, axis=1), np.full((len(z), K), 1 / K)
suspects = {  # what it says, and what is true
    "calibrated": (p, p),
    "class prior": (prior, p),
    "over-confident": (p, TRUTH["over-confident"](z)),
    "opposite": (p, opposite(z)),
    "swapped rest": (p, swapped_rest(z)),
}
GROUPS = {
    "scores": ["accuracy", "nll", "brier", "entropy"],
    "top label": "ece mce adaptive_ece debiased_ece ks_error smooth_ece".split(),
    "every class": ["classwise_ece", "ace", "tace"],
}


def written(metric, value):
    """Percent, or nats with another decimal."""
    in_nats = metric in ("nll", "entropy")
    return f"{value:.3f}" if in_nats else f"{100 * value:.2f}"


answers = {name: (says, draw_labels(t, rng)) for name, (says, t) in suspects.items()}
answers["B"] = B
found = {name: evaluate(*answer, n_bins=n_bins) for name, answer in answers.items()}
rows = {
    (group, metric): {name: written(metric, of[metric]) for name, of in found.items()}
    for group, metrics in GROUPS.items()
    for metric in metrics
}
table(
    pd.DataFrame(rows).T,
    "Which metric sees what? Percent; NLL and entropy in nats",
    "tbl-metrics-blind",
    names=shown,
)

# %% [markdown]
# Read {numref}`tbl-metrics-blind` by columns. Errors about as large as those of the first column are chance.
#
# - **Class prior.** Every calibration error is near zero for a classifier that has not looked at its input. Only
#   accuracy and the scores see it. A calibration error alone is no reason to use a classifier.
# - **Over-confident.** All errors see it. ECE, AECE, smooth ECE and KS error agree to the last digit, because every gap has
#   the same sign. The class-wise errors are much smaller: they average over ten classes, and most $p_k$ are near zero
#   and right. Class-wise values of data sets with different $K$ cannot be compared.
# - **Opposite.** To the top-label errors it looks like the calibrated one; the class-wise errors are four to six times
#   those of the first column. {doc}`Class-based temperatures <class_temperature_scaling>` were proposed for
#   errors that differ by class, but their search by the top-label ECE cannot see this one; a fit by NLL can.
# - **Swapped rest.** The top-label errors see nothing, the class-wise errors are large, and the NLL is a disaster: the
#   true label is often the class that was ranked last.
# - **B.** No calibration error sees it.
#
# The MCE is large in the first column, for a perfect classifier with 100,000 samples: one bin that holds next to nothing
# is enough. No verdict of this book rests on it. {numref}`tbl-metrics-decomposition` has the terms of
# {eq}`eq-metrics-decomposition`, computed from the known truth.

# %% tags=["nbval-check-output"]
terms = {}
for name, (says, truth) in suspects.items():
    given_p = prior if name == "class prior" else truth  # every other p occurs once
    terms[name] = {
        "noise": entr(truth).sum(1).mean(),
        "left out": rel_entr(truth, given_p).sum(1).mean(),
        "miscalibration": rel_entr(given_p, says).sum(1).mean(),
    }
    terms[name]["sum"] = sum(terms[name].values())
    terms[name]["NLL measured"] = nll(*answers[name])
table(
    pd.DataFrame(terms).T,
    "What is the NLL made of? Nats",
    "tbl-metrics-decomposition",
    digits=3,
)

# %% [markdown]
# The miscalibration of the over-confident classifier is what temperature scaling could win back. On real data only the
# last column can be measured. So the NLL compares two corrections of the *same* network cleanly, since their first two
# terms are equal if neither merges different outputs; of two different networks it says which is better, not which is
# better calibrated.
#
# ## Bias: a calibrated classifier has an ECE above zero
#
# ### How large
#
# Take a calibrated classifier. In a bin with $n_m$ samples, $\operatorname{acc} - \operatorname{conf}$ is a mean of
# $n_m$ independent errors with mean zero. Its variance is $v_m / n_m$, where $v_m$ is the mean of $\hat p (1 - \hat p)$
# in the bin. It is nearly normal, and the mean absolute value of a centred normal is $\sqrt{2 / \pi}$ times its
# standard deviation. With $w_m = n_m / N$,
#
# $$
# \begin{aligned}
# \mathbb{E} \, \mathrm{ECE}
#   &\approx \sqrt{\frac{2}{\pi N}} \sum_{m=1}^{M} \sqrt{w_m v_m} \\
#   &\le \sqrt{\frac{2 M v}{\pi N}} ,
# \end{aligned}
# $$ (eq-metrics-bias)
#
# where $v = \mathbb{E} \, \hat p (1 - \hat p)$. The bound is the Cauchy–Schwarz inequality, and it is close when the
# terms $w_m v_m$ are alike. So the bias grows like
# $\sqrt{M / N}$: four times the samples halve it, and twice the bins cost as much as half of the samples.


# %% tags=["nbval-check-output"]
def test_sets(name, n, repeats, key, scale=SCALE):
    """Independent test sets of one classifier: (probs, labels) of n samples each."""
    rng = np.random.default_rng([seed, *key, n])
    for _ in range(repeats):
        z, _, labels = draw(name, n, rng, scale)
        yield softmax(z, axis=1), labels


z = SCALE * np.random.default_rng([seed, 5]).standard_normal((200_000, K))
c, rows = softmax(z, axis=1).max(1), {}
for n in (500, 2000, 8000):
    tests = test_sets("calibrated", n, n_repeats, (5, 1))
    of_test = [{m: ece(*test, n_bins=m) for m in (5, 15, 60)} for test in tests]
    found = pd.DataFrame(of_test)
    for m in found:
        index = np.ceil(c * m).astype(int)
        share_times_variance = np.bincount(index, c * (1 - c)) / len(c)
        rows[f"{n:,} samples", f"{m} bins"] = {
            "simulated": found[m].mean(),
            "formula": np.sqrt(2 / np.pi / n) * np.sqrt(share_times_variance).sum(),
            "bound": np.sqrt(2 * m * np.mean(c * (1 - c)) / np.pi / n),
            "spread": found[m].std(),
        }
table(
    100 * pd.DataFrame(rows).T,
    "Which ECE does a calibrated classifier have? Means, percent",
    "tbl-metrics-bias",
)

# %% [markdown]
# The spread, a standard deviation, is two to ten times smaller than the mean. So this is not bad luck: with 15 bins,
# *every* test set of 500 samples shows an ECE of some per cent, 4 on average.
#
# ### Too few bins, too many bins
#
# With gaps of both signs there is a second bias, downwards. A bin that spans a stretch of over-confidence and one of
# under-confidence averages them away, and with one bin for all, ECE is $|\text{accuracy} - \text{mean confidence}|$. By
# the triangle inequality, binning can only lose: with unlimited samples the binned ECE never exceeds the true one.

# %% mystnb={"figure": {"caption": "How does the measured ECE (mean over test sets) depend on the number of bins? Dashed: the true error. More bins mean more chance; fewer bins hide what cancels within a bin.", "name": "fig-metrics-bins"}, "image": {"alt": "Three panels, ECE against the number of bins for three sizes of test set: the curves rise with the number of bins, more steeply for fewer samples; with few bins those of the wavy classifier lie below the dashed true error."}}
M_GRID = (1, 2, 3, 5, 10, 15, 30, 60, 120, 250)
fig, axes = plt.subplots(1, 3, figsize=(7, 2.7), sharey=True)
for ax, name in zip(axes, TRUTH, strict=True):
    for n, part in ((500, 2), (2000, 4), (10_000, 10)):
        tests = test_sets(name, n, n_repeats // part, (5, 2))
        errors = [[ece(*test, n_bins=m) for m in M_GRID] for test in tests]
        ax.plot(M_GRID, 100 * np.mean(errors, axis=0), "o-", label=f"N = {n:,}")
    true = 100 * known.loc[name, "true ECE"]
    ax.axhline(true, color="black", linestyle="--", linewidth=1)
    ax.axvline(15, color="grey", linewidth=0.6)
    ax.set(title=name, xscale="log", xlabel="bins M", ylim=(0, 20))
    ax.set_xticks([1, 5, 15, 60, 250], labels=[1, 5, 15, 60, 250])
    ax.minorticks_off()
axes[0].set_ylabel("ECE, %")
axes[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# Up to 15 bins, the over-confident classifier hardly minds how it is binned, since $|\cdot|$ has no effect when all
# gaps have one sign. That is the situation *before* calibration. *After* it, gaps are small and of both signs, as in
# the other two panels, and then the number of bins decides what is printed. Comparing a paper's 15 bins with another's
# 25 is safe in the first situation only.
#
# ### The estimators side by side
#
# Each metric has a limit of its own, its value on unlimited samples. For the calibrated classifier it is zero; for the
# others we take it from 500,000 samples, which give it to about 0.06 points. The bias of an estimator is its mean over
# test sets of $N$ samples, minus that limit.

# %%
TOP = ["ece", "adaptive_ece", "smooth_ece", "ks_error", "debiased_ece"]
limits = {"calibrated": dict.fromkeys(TOP, 0.0)}
for name in ("over-confident", "wavy"):
    many = next(test_sets(name, 500_000, 1, (5, 3)))
    limits[name] = evaluate(*many, TOP, n_bins=n_bins)

sizes = sorted({200, 500, 1000, n_samples, 5000, 10_000})
found = []
for name in TRUTH:
    for n in sizes:  # large test sets vary less
        repeats = max(10, min(2 * n_repeats, 2000 * n_repeats // n))
        for test in test_sets(name, n, repeats, (5, 4)):
            measured = evaluate(*test, TOP, n_bins=n_bins)
            found.append({"classifier": name, "n": n} | measured)
limit = pd.DataFrame(limits).T.rename_axis("classifier")
found = pd.DataFrame(found).set_index(["classifier", "n"])
error = found.sub(limit, level="classifier")
bias = error.groupby(level=[0, 1]).mean()

# %% mystnb={"figure": {"caption": "How fast does the bias of each estimator vanish? Mean over test sets minus the value on unlimited samples.", "name": "fig-metrics-bias"}, "image": {"alt": "Three panels, bias of five estimators against the number of samples: all come near the dashed line of zero as the samples grow, from different heights."}}
fig, axes = plt.subplots(1, 3, figsize=(7, 2.7), sharey=True)
for ax, name in zip(axes, TRUTH, strict=True):
    for metric, marker in zip(TOP, "os^vD", strict=True):
        ax.plot(sizes, 100 * bias.loc[name, metric], marker=marker, label=shown(metric))
    ax.axhline(0, color="black", linestyle="--", linewidth=1)
    ax.set(title=name, xscale="log", xlabel="samples N")
    ax.set_xticks([200, 1000, 5000], labels=["200", "1,000", "5,000"])
    ax.minorticks_off()
axes[0].set_ylabel("bias, percentage points")
axes[0].legend()
plt.show()

# %% tags=["nbval-check-output"]
rows = {}
for name in TRUTH:
    for metric, e in error.loc[name, n_samples].items():
        spread = e.mean(), e.std(), np.sqrt((e**2).mean())
        rows[name, metric] = limits[name][metric], *spread
columns = ["limit", "bias", "standard deviation", "root mean square error"]
table(
    100 * pd.DataFrame(rows, index=columns).T,
    f"Which estimator comes nearest to its limit? {n_samples:,} samples, percent",
    "tbl-metrics-estimators",
    names=shown,
)

# %% [markdown]
# What {numref}`fig-metrics-bias` and {numref}`tbl-metrics-estimators` say:
#
# - With gaps of one sign, all five are about equally good from 1,000 samples on. The choice of metric matters after calibration, not before.
# - AECE has the bias of ECE. Equal mass avoids nearly empty bins, not chance.
# - Smooth ECE has half the spread on the calibrated classifier and half the bias on the wavy one. But on the
#   calibrated one its bias shrinks more slowly than that of ECE, and is the larger one at $N = 10{,}000$.
# - The KS error has half the bias of ECE on the calibrated classifier. But it is another quantity: on the wavy
#   classifier its limit is a third of that of ECE, because neighbouring waves cancel in its partial sums.
# - The debiased ECE has next to no bias from 1,000 samples on where there is an error to find, and pays with the largest spread. On a
#   calibrated classifier its square is right on average, but a negative square counts as zero, so its mean stays above
#   zero.
#
# ### What would a calibrated classifier score here?
#
# The bias need not be guessed. Keep the probabilities, draw new labels *from them*, and compute the metric: this is
# what a calibrated classifier with the same outputs scores on a test set of this size
# {cite:p}`vaicenavicius2019evaluating`. Many such draws give the whole distribution, and so a test of calibration: an
# ECE beyond its 97.5% quantile is evidence against it.
#
# We do this for two classifiers with ten classes and $N = 10{,}000$ test samples, the size of CIFAR-10 and CIFAR-100.
# The *easy* one has larger logits and is as accurate as networks are on CIFAR-10. The *hard* one is the calibrated
# classifier of the sections above, as accurate as networks are on CIFAR-100.

# %% tags=["nbval-check-output"]
SCALES = {"easy": 20.0, "hard": SCALE}


def score_if_calibrated(probs, **options):
    """ECE of the given outputs on labels drawn from themselves, ``n_repeats`` times."""
    rng = np.random.default_rng([seed, 5, 5])
    drawn = (draw_labels(probs, rng) for _ in range(n_repeats))
    return np.array([ece(probs, labels, **options) for labels in drawn])


scores_of, rows = {}, {}
for name, scale in SCALES.items():
    probs, labels = next(test_sets("calibrated", 10_000, 1, (5, 6), scale))
    kind = f"{name}: accuracy {100 * accuracy(probs, labels):.1f}%"
    for m in (10, 15, 25, 100):
        scores = score_if_calibrated(probs, n_bins=m)
        scores_of[name, m], top = scores, np.quantile(scores, 0.975)
        rows[kind, f"{m} bins"] = {"mean": scores.mean(), "97.5% quantile": top}
table(
    100 * pd.DataFrame(rows).T,
    "Which ECE does a perfect classifier score on 10,000 samples? Percent",
    "tbl-metrics-perfect",
)

# %% [markdown]
# Nothing below the 97.5% quantile of {numref}`tbl-metrics-perfect` can be told from perfection. **Compare an ECE with
# this, never with zero.**
#
# ## Intervals, and how many samples a difference needs
#
# ### The bootstrap
#
# A test set is one draw, and another would give another number. The *bootstrap* {cite:p}`efron1993introduction`
# imitates other draws by drawing $N$ of the $N$ samples with replacement. The middle 95% of the resampled values, from
# $l$ to $h$, are the *percentile interval*. The *reflected interval* {cite:p}`davison1997bootstrap` mirrors it at the
# value $v$ of the sample itself, $[2v - h, 2v - l]$. The thought behind it: what resampling does to $v$, sampling did to
# the truth.
#
# For means over samples, such as accuracy and NLL, the two are nearly the same. For a calibration error they are not. A
# resample repeats some samples, so it is noisier than the test set, and the bias enters a second time: the percentile
# interval lies too high. The reflected one takes the bias off, but too little of it near zero, where it is largest, and
# there the interval may reach below zero or end below $v$. So this book reflects, and then repairs the ends of the
# interval of a calibration error:
#
# - The *lower end* is 0 unless $v$ lies above the 97.5% quantile of what a calibrated classifier would score here. If
#   $v$ can be told from perfection, it stays, but not below 0.
# - The *upper end* is at least $v + (h - l) / 2$.
#
# One call gives the interval of any metric:

# %% tags=["nbval-check-output"]
probs, labels = sample["wavy"]
chosen = ["accuracy", "nll", "brier", "ece", "ks_error", "debiased_ece"]
values = evaluate(probs, labels, chosen, n_bins=n_bins)
intervals = bootstrap(probs, labels, chosen, n_bins=n_bins, seed=seed)
rows = {m: [written(m, x) for x in (values[m], *intervals[m])] for m in chosen}
table(
    pd.DataFrame(rows, index=["value", "low", "high"]).T,
    "How sure are the metrics of the wavy sample? Percent; the NLL in nats",
    "tbl-metrics-intervals",
    names=shown,
)

# %% [markdown]
# A 95% interval should hold the truth for 95 of 100 test sets. We can count, since the truth is known, and begin with
# small test sets:


# %% tags=["nbval-check-output"]
def three(found, in_use):
    """Percentile, reflected interval of a resampled metric, and the one in use."""
    low, high = np.quantile(found.draws, [0.025, 0.975])
    reflected = 2 * found.value - high, 2 * found.value - low
    return {"percentile": (low, high), "reflected": reflected, "in use": in_use}


n, measured = 1000, ["accuracy", "nll", "ece", "ks_error", "debiased_ece"]
held = []
for name in TRUTH:
    truth = next(test_sets(name, 400_000, 1, (6, 1)))
    target = evaluate(*truth, ["accuracy", "nll"]) | limits[name]
    for probs, labels in test_sets(name, n, n_repeats, (6, 2)):
        test = Comparison(labels, measured, n_bins=n_bins, n_resamples=200, seed=seed)
        test.add(name, probs)
        for metric, found in test.measured[name].items():
            _, *in_use = test.of(name, metric)
            for kind, (low, high) in three(found, in_use).items():
                held.append((name, metric, kind, low <= target[metric] <= high))
held = pd.DataFrame(held, columns=["classifier", "metric", "interval", "share"])
held = held.pivot_table("share", ["classifier", "metric"], "interval", sort=False)
table(
    100 * held,
    "How many 95% intervals hold the truth? "
    f"Percent of {n_repeats} test sets of {n:,} samples",
    "tbl-metrics-held",
    digits=0,
    names=shown,
)

# %% [markdown]
# Accuracy and NLL keep the promise of 95%, within the chance of so many simulated test sets, however the interval is
# made. For the calibrated classifier no percentile interval of the ECE ever holds the truth: no resample has an ECE of
# zero. The reflected interval is better there, but not right. The interval in use is near 95% in every row. Where the
# truth is zero it may be above, since only one of its ends can be wrong there. The debiased ECE is not compared with a
# calibrated classifier; its interval begins at zero where the reflected one reaches it.
#
# ### Does it hold at 10,000 images?
#
# The same question for the test sets of this book. The confidences are those of a real network, a ResNet-20 on CIFAR-10
# after temperature scaling; a test set draws 10,000 of them with replacement. What is true we choose: the accuracy at
# confidence $c$ is $c - a \, c (1 - c)$, over-confident everywhere, or $c - a \, c (1 - c) \sin 4 \pi c$, which is wavy.
# Bisection finds the $a$ that makes the ECE of the whole population, in 15 bins, exactly 0, 0.5, 1 or 3%.
#
# This takes minutes, so the result is stored with the book. With `budget="paper"` it is measured anew and compared with
# what is stored.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "How often does a 95% interval of the ECE hold the true ECE, at 10,000 images? Dashed: what it promises.", "name": "fig-metrics-coverage"}, "image": {"alt": "Two panels, coverage of three kinds of interval against the true ECE: the one in use stays at the dashed 95 percent; the percentile interval falls to zero where the error is small, the reflected one to a half."}}
IMAGES, DRAWS = 10_000, 200  # what is stored depends on no parameter
BENT = {  # confidence and size -> another confidence
    "calibrated": lambda c, size: c,
    "over": lambda c, size: c + size * c * (1 - c),
    "under": lambda c, size: c - size * c * (1 - c),
    "wavy": lambda c, size: c + size * c * (1 - c) * np.sin(4 * np.pi * c),
    "counter-wavy": lambda c, size: c - size * c * (1 - c) * np.sin(4 * np.pi * c),
    "too cold": lambda c, size: expit((1 + size) * logit(c)),
    "too warm": lambda c, size: expit(logit(c) / (1 + size)),
    "coarse": lambda c, size: five_values(c),
}


def five_values(c):
    """Each confidence as the mean of its fifth of them: calibrated if ``c`` is."""
    fifth = 5 * c.argsort().argsort() // len(c)
    return (np.bincount(fifth, c) / np.bincount(fifth))[fifth]


def population():
    """Confidences of a real network on its test images."""
    real = Network.parse("cifar10/resnet20-cross_entropy-s0").logits()
    temperature = round(TemperatureScaling().fit(*real.val).temperature, 2)
    c = softmax(real.test_logits.astype(float) / temperature, axis=1).max(1)
    return c.clip(max=1 - 1e-9)


def simulated(methods, truth, metrics, n_sets, key):
    """Each test set as a comparison of the methods, name -> confidences."""
    rng = np.random.default_rng([6, key])
    for i in range(n_sets):
        rows = rng.integers(0, len(truth), IMAGES)
        right = rng.random(IMAGES) < truth[rows]
        test = Comparison(1 - right, metrics, n_resamples=DRAWS, seed=i)
        for name, confidence in methods.items():
            test.add(name, top_label(confidence[rows], right)[0])
        yield test


def single():
    """Share of intervals that hold the true ECE, percent."""
    c, rows = population(), {}
    for kind in ("over", "wavy"):

        def family(size, bend=BENT[kind]):
            return c, 2 * c - bend(c, size)

        for target in (0.0, 0.005, 0.01, 0.03):
            held, (_, truth) = [], with_error(target, family)
            for test in simulated({kind: c}, truth, ["ece"], 300, 8):
                found, (_, *in_use) = test.measured[kind]["ece"], test.of(kind)
                ends = three(found, in_use).items()
                held.append({name: low <= target <= high for name, (low, high) in ends})
            rows[f"{kind} {100 * target:.1f}"] = 100 * pd.DataFrame(held).mean()
    return pd.DataFrame(rows).T


anew = budget == "paper"
coverage = recorded("metrics/single", single, available=anew, tolerance=0.7)
pairs = [(kind, float(true)) for kind, true in coverage.index.str.split()]
coverage.index = pd.MultiIndex.from_tuples(pairs)
fig, axes = plt.subplots(1, 2, figsize=(6.5, 2.8), sharey=True)
for ax, kind in zip(axes, ("over", "wavy"), strict=True):
    for name, marker in zip(coverage, "vso", strict=True):
        ax.plot(coverage.loc[kind, name], marker=marker, label=name)
    ax.axhline(95, color="black", linestyle="--", linewidth=1)
    ax.set(title=f"{kind}-confident" if kind == "over" else kind, xlabel="true ECE, %")
axes[0].set_ylabel("intervals that hold it, %")
axes[1].legend(loc="lower right")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
Markdown(f"""
The percentile interval fails where methods of calibration end up, at 1% and below:
at a true ECE of 0.5% it holds the truth in {coverage["percentile"].loc[:, 0.5].max():.0f}%
of the test sets. The reflected interval falls short too, most of all at zero, with
{coverage["reflected"].loc[:, 0.0].min():.0f}%. The interval in use holds the truth in
{coverage["in use"].min():.0f}% or more of the 300 test sets of every kind. If it
begins at 0, the network may be calibrated.
""")

# %% [markdown]
# ### How many samples separate two networks?
#
# While all gaps have one sign, ECE is the mean of $g_i = \hat p_i - \mathbb{1}[\hat y_i = y_i]$, so its standard
# deviation over test sets is $s / \sqrt N$ with $s$ that of $g_i$. Telling two networks apart on *independent* test
# sets, with a 5% test that succeeds four times out of five, takes
#
# $$
# N = 2 \, (1.96 + 0.84)^2 \, \frac{s^2}{\Delta^2}
# $$ (eq-metrics-samples)
#
# samples each, where $\Delta$ is the difference of their true errors.

# %% tags=["nbval-check-output"]
spread = {}
for name, scale in SCALES.items():
    probs, labels = next(test_sets("over-confident", 200_000, 1, (6, 3), scale))
    spread[name] = (probs.max(1) - (probs.argmax(1) == labels)).std()  # of g
deltas = np.array([0.1, 0.2, 0.3, 0.5, 1.0])
needed = {name: 2 * 2.8**2 * s**2 / (deltas / 100) ** 2 for name, s in spread.items()}
needed = pd.DataFrame(needed, [f"{delta} points" for delta in deltas])
table(
    needed.map("{:,.0f}".format),
    "How many independent samples show a difference of two ECEs?",
    "tbl-metrics-needed",
)

# %% tags=["hide-input", "nbval-check-output"]
test = next(test_sets("over-confident", 10_000, 1, (6, 4), SCALES["easy"]))
low, high = bootstrap(*test, ["ece"], n_resamples=500, n_bins=n_bins, seed=seed)["ece"]
small, large = needed.loc["0.3 points", "easy"], needed.loc["0.1 points", "hard"]
Markdown(f"""
On 10,000 images the ECE has a standard deviation of {spread["easy"]:.2f} points (easy) or
{spread["hard"]:.2f} points (hard) over test sets. The bootstrap of a single easy test set
agrees: its interval is {100 * (high - low):.2f} points wide, about four times as much.
Papers print differences of 0.1 to 0.3 points in bold. Seeing them on independent test sets
takes {small:,.0f} to {large:,.0f} samples.
""")

# %% [markdown]
# What that means in practice: take two versions of the easy classifier, one with a true error 0.3 points above the
# other, and count how often their independent test sets of 10,000 rank them the wrong way round.


# %%
def true_error(a, scale):
    """True ECE of the over-confident classifier with its logits times a."""
    z = scale * np.random.default_rng([seed, 6, 4]).standard_normal((100_000, K))
    gaps = softmax(a * z, axis=1).max(1) - softmax(z / T_TRUE, axis=1).max(1)
    return abs(gaps.mean())  # all gaps have one sign


easy = SCALES["easy"]
right = true_error(1.0, easy)
worse = brentq(lambda a: true_error(a, easy) - right - 0.003, 1.0, 2.0)
rng = np.random.default_rng([seed, 6, 5])
scores = {1.0: [], worse: []}
for a, found in scores.items():
    for _ in range(n_repeats):
        z, _, labels = draw("over-confident", 10_000, rng, easy)
        found.append(ece(softmax(a * z, axis=1), labels, n_bins=n_bins))
wrong = np.mean(np.array(scores[1.0]) > scores[worse])
theory = norm.cdf(-0.3 / (spread["easy"] * np.sqrt(2)))

# %% tags=["hide-input", "nbval-check-output"]
Markdown(f"""
The true errors are {100 * right:.2f}% and {100 * true_error(worse, easy):.2f}%. Of
{n_repeats} pairs of test sets, {100 * wrong:.0f}% rank the worse one first; the standard
deviation above predicts {100 * theory:.0f}%.
""")

# %% [markdown]
# (sec-metrics-alike)=
# ### Samples that are alike
#
# All this takes the samples as independent. Pixels of an image are not, nor are frames of a film, such as CamVid's
# street scenes. With `groups` the bootstrap draws together what belongs together, there ten successive frames.

# %% tags=["hide-input", "nbval-check-output"]
street = Network("camvid", "deeplabv3_resnet34", "mbls").logits()
probs = softmax(street.test_logits, axis=1)
gap = probs.max(1) - (probs.argmax(1) == street.test_labels)
gap = gap.reshape(-1, inference.PIXELS).mean(1)  # of each frame
film, block = np.zeros(len(gap), int), street.test_groups[:: inference.PIXELS]
film[datasets.DATASETS["camvid"].films[1] :] = 1


def correlation(values, of_film, ahead):
    """Correlation of values with those so far ahead in the same film."""
    same = of_film[:-ahead] == of_film[ahead:]
    return np.corrcoef(values[:-ahead][same], values[ahead:][same])[0, 1]


blocks = pd.DataFrame({"gap": gap, "film": film}).groupby(block).mean()
Markdown(f"""
For one network on CamVid the gap between confidence and accuracy in one frame
correlates with that in the next by {correlation(gap, film, 1):.2f}, and with that ten
frames on by {correlation(gap, film, 10):.2f}. The means of neighbouring blocks do by
{correlation(blocks["gap"].to_numpy(), blocks["film"].to_numpy(), 1):.2f}, so these
intervals may be too narrow; larger blocks would leave few to draw from ({len(blocks)} now).
""")

# %% [markdown]
# ### The same test set for both
#
# Most comparisons are better than that: two corrections of one network, on the same images. Then much of what is random
# in one number is random in the other, and cancels in the difference. The interval must reflect this: resample the
# images *once* and compute both numbers on them. `bootstrap_difference` is this *paired* bootstrap. Below, two
# temperatures correct the easy classifier, whose best one is $T = 1.5$.

# %% tags=["nbval-check-output"]
rows = {}
for one, other in ((1.0, 1.05), (1.2, 1.25), (1.4, 1.45), (1.45, 1.5), (1.5, 1.55)):
    rng = np.random.default_rng([seed, 6, 7])
    errors = np.empty((n_repeats, 2))
    for i in range(n_repeats):
        z, _, labels = draw("over-confident", 10_000, rng, easy)
        errors[i] = [
            ece(softmax(z / t, axis=1), labels, n_bins=n_bins) for t in (one, other)
        ]
    rows[f"T = {one:.2f} and {other:.2f}"] = {
        "true": true_error(1 / other, easy) - true_error(1 / one, easy),
        "mean": np.diff(errors).mean(),
        "paired std": np.diff(errors).std(),
        "independent std": np.sqrt(errors.var(0).sum()),
    }
table(
    100 * pd.DataFrame(rows).T,
    "How much does pairing sharpen a difference of two ECEs? 10,000 samples, points",
    "tbl-metrics-paired",
    digits=3,
)

# %% [markdown]
# In {numref}`tbl-metrics-paired`, far from calibration the labels drop out of the difference altogether: if all gaps
# have one sign, it is the difference of the two mean confidences. The first row's difference is many times its paired
# standard deviation, and less than one standard deviation of independent test sets. Close to the best temperature, gaps
# have both signs. There the pairing only halves the spread, and the mean difference is not even the true one: less than
# a third of it is left, because both numbers are mostly bias. This is where good methods are compared with each other.
#
# ### When is a paired difference beyond chance?
#
# Two methods differ *beyond chance* if the interval of their difference does not hold 0. For a mean over samples, such
# as the NLL, that is the reflected interval. For a calibration error the reflected interval alone would often see a
# difference between two methods that are equally good, because it takes off too little of their biases. The percentile
# interval alone has the opposite fault: it is too timid where there is a difference. A claim should survive both. So the
# interval of a difference of calibration errors is their *hull*, the smallest interval that holds both.
#
# One thing is left to repair. Near zero an ECE hardly falls with the true error, so the distance to a calibrated
# method looks smaller than it is. Where the interval of the *one* method begins at 0, the upper end of *other* minus
# *one* is therefore at least $v + (h - l)$, with $v$ the difference and $[l, h]$ its percentile interval; and likewise
# below. This moves no end across 0, so it never decides what is beyond chance. Only where the intervals of *both* begin at
# 0 may both be calibrated, and that of their difference is extended to hold 0.
#
# The test: the truth is the confidence $c$ of the same real network, and each of two methods says something else, bent
# until it has a given true ECE. In three pairs both have the same true ECE, one erring up where the other errs down:
# over- and under-confident, two temperatures on either side of the best one, and two opposite waves. In a fourth both are
# calibrated, but *coarse* says only five different values. In four pairs the
# true ECEs are half a point or one point apart. As above, the result is stored.

# %% tags=["hide-input", "nbval-check-output"]
PAIRS = [  # kind and true ECE in percent, of the one and of the other
    ("over 1.0", "under 1.0"),
    ("too cold 0.2", "too warm 0.2"),
    ("wavy 1.0", "counter-wavy 1.0"),
    ("calibrated 0.0", "coarse 0.0"),
    ("calibrated 0.0", "over 0.5"),
    ("over 0.5", "over 1.0"),
    ("calibrated 0.0", "wavy 1.0"),
    ("under 0.5", "over 1.5"),
]


def bent(c, name):
    """What a method of that kind and true ECE says where c is true."""
    kind, _, percent = name.rpartition(" ")
    return with_error(float(percent) / 100, lambda size: (BENT[kind](c, size), c))[0]


def paired():
    """How often a paired difference is beyond chance, or its interval true."""
    c, found = population(), []
    says = {name: bent(c, name) for pair in PAIRS for name in pair}
    ece_of = {name: binned_error(confidence, c) for name, confidence in says.items()}
    for test in simulated(says, c, ["ece", "nll"], 200, 9):
        for one, other in PAIRS:
            true = ece_of[other] - ece_of[one]
            base, after = (test.measured[name]["ece"] for name in (one, other))
            value, *in_use = test.difference(other, one)
            _, *of_nll = test.difference(other, one, "nll")
            change = base._replace(value=value, draws=after.draws - base.draws)
            ends = three(change, in_use)
            row = {"pair": f"{one}, {other}", "true": 100 * true}
            row["measured"] = 100 * value
            for name, (low, high) in (ends | {"NLL": of_nll}).items():
                row[name] = 100 * (not low <= 0 <= high)
            lows, highs = zip(ends["percentile"], ends["reflected"], strict=True)
            row["hull holds"] = 100 * (min(lows) <= true <= max(highs))
            row["in use holds"] = 100 * (in_use[0] <= true <= in_use[1])
            found.append(row)
    return pd.DataFrame(found).groupby("pair", sort=False).mean().T


SHARES = ["percentile", "reflected", "in use", "NLL", "hull holds", "in use holds"]
near = {"true": 0.001, "measured": 0.01} | dict.fromkeys(SHARES, 1.0)
pairs = recorded("metrics/paired", paired, available=anew, tolerance=near).T
beyond, holds = "beyond chance, %", "interval holds it, %"
heads = [("difference", "true"), ("difference", "measured")]
heads += [(beyond, name) for name in SHARES[:4]]
heads += [(holds, name.removesuffix(" holds")) for name in SHARES[4:]]
shares = pairs[["true", "measured", *SHARES]]
table(
    shares.set_axis(pd.MultiIndex.from_tuples(heads), axis=1),
    "When is a difference of two ECEs seen? Points, and shares of 200 test sets",
    "tbl-metrics-pairs",
    digits=1,
)

# %% [markdown]
# A row of {numref}`tbl-metrics-pairs` names two methods, each with its true ECE in percent. The first three rows have no
# difference. There the reflected interval sees one far too often, and the interval in use in no more than the 5% that
# are allowed. In the fourth row the percentile interval sees one in most test sets: what says only a
# few values has less bias. The interval in use holds 0 there, as both may be calibrated; two methods that are not have no
# such protection. The other rows show the price: a true difference of half a point is seldom beyond chance, and one of a
# whole point in a quarter of the test sets. The NLL sees more in each of these rows. (The two waves have equal ECEs but
# not quite equal NLLs, hence its entry in the third row.) So **methods equally good and equally sharp seldom
# differ beyond chance, but a difference within it may be real**; then look at the NLL. The last two columns say why the ends are moved: beside a
# calibrated method the hull holds the true difference in little more than half of the test sets.
#
# ### Many comparisons
#
# A paper's claim is rarely one comparison. "Better than six other methods on three data sets" is 18, and of 18 tests at
# 5% one is likely to come out by chance alone. So the $p$-values of a family of comparisons are corrected
# together, by the method of {cite:t}`holm1979simple`: the smallest of $n$ must be below $0.05 / n$, the next one below
# $0.05 / (n - 1)$, and so on until one is not. The chance of even one false "beyond chance" in the family is then at most
# 5%, however the comparisons depend on each other. {ref}`sec-verdicts` says which of a paper go together.
#
# ## Why toolkits disagree
#
# "ECE with 15 bins" leaves three things open: which side of a bin is closed, where its edges lie in floating point, and
# what happens at exactly 1. On smooth confidences hardly anything depends on it. On some inputs everything does:
#
# | input | where it comes from |
# |---|---|
# | smooth | the wavy classifier of the diagrams |
# | on edges | confidences 0.7, 0.75 and 0.8, with 10 bins: rounded outputs |
# | votes | an ensemble of 20 that votes, so every confidence is a multiple of 0.05 |
# | ones | half of the confidences 0.95, half exactly 1 |
#
# `ece(..., like="torchmetrics")` and its siblings reproduce the binning of other packages. All rows use 10 bins.

# %% tags=["nbval-check-output"]
rng = np.random.default_rng([seed, 7])
on_edges = np.repeat([0.7, 0.75, 0.8], 10), np.repeat([1, 1, 0, 1, 0], [10, 5, 5, 9, 1])
votes = rng.integers(11, 21, 500) / 20
ones = np.repeat([0.95, 1.0], 20), np.repeat([1, 1, 0], [20, 16, 4])
inputs = {
    "smooth": sample["wavy"],
    "on edges": two_classes(*on_edges),
    "same, float32": two_classes(*on_edges, np.float32),
    "votes": two_classes(votes, rng.random(500) < wave(votes)),
    "ones": two_classes(*ones),
}
peers = ["torchmetrics", "netcal", "relplot", "uncertainty-calibration", "calzone"]
found = {
    rule or "this book": {
        name: 100 * ece(*test, n_bins=10, like=rule) for name, test in inputs.items()
    }
    for rule in (None, *peers, "pycalib", "mapie")
}
table(
    pd.DataFrame(found).T,
    "Which ECE do packages return for the same predictions? Percent, 10 bins",
    "tbl-metrics-packages",
)

# %% [markdown]
# On the same predictions, the rows differ by a factor of more than four. The reasons:
#
# - Bins are closed on the left in torchmetrics, netcal and relplot, on the right in the others.
# - torchmetrics and relplot give a confidence of exactly 1 a bin of its own.
# - Rounding decides on an edge. netcal's is computed as 0.7000000000000001, so 0.7 falls below it. In float32 the
#   confidence 0.8 is 0.80000001, above an edge that is kept in float64. And relplot divides: 0.7 / 0.1 is 6.999… in
#   float64 only. So four packages change their answer between float64 and float32.
# - MAPIE has one bin fewer than it is asked for, so it differs even on smooth confidences.
#
# The rule of this book is $(a, b]$, with 1 in the last bin, and edges that are rounded once to the type of the input,
# so that both types give the same answer.
#
# With equal mass, the trouble is ties. `focal_calibration`, the code that the authors of MbLS, ACLS and Neural Clamping
# share, drops the smallest confidence and all that equal it. torch-uncertainty cuts through ties in the order of the
# rows, so shuffling the data changes the value. In the third column of {numref}`tbl-metrics-ties` the true gap is that
# of the first row.

# %% tags=["nbval-check-output"]
equal = two_classes(np.full(90, 0.7), np.repeat([1, 0], [60, 30]))
order = rng.permutation(90)
inputs = {
    "smooth": sample["wavy"],
    "votes": inputs["votes"],
    "all equal": equal,
    "all equal, shuffled": (equal[0][order], equal[1][order]),
    "7 samples": (sample["wavy"][0][:7], sample["wavy"][1][:7]),
}
peers = ["focal_calibration", "torch-uncertainty", "netcal", "uncertainty-calibration"]
found = {
    rule or "this book": {
        name: 100 * adaptive_ece(*test, like=rule) for name, test in inputs.items()
    }
    for rule in (None, *peers, "mapie")
}
table(
    pd.DataFrame(found).T,
    "Which adaptive ECE do packages return? Percent, 15 bins",
    "tbl-metrics-ties",
)

# %% [markdown]
# Last, one name for three quantities. "ACE" is class-wise with equal mass in the paper that coined it
# {cite:p}`nixon2019measuring`; torch-uncertainty and the tables of {cite:t}`tang2024neural` use it for the adaptive
# top-label ECE; netcal for the plain mean of the gaps over the bins, however few samples they hold.

# %% tags=["hide-input", "nbval-check-output"]
bins = reliability_bins(*sample["wavy"], n_bins=n_bins)
class_wise, top = (f(*sample["wavy"], n_bins=n_bins) for f in (ace, adaptive_ece))
plain = np.nanmean(np.abs(bins.accuracy - bins.confidence))
Markdown(f"""
On the wavy sample the three are {100 * class_wise:.2f}%, {100 * top:.2f}% and
{100 * plain:.2f}%.
""")

# %% [markdown]
# When two papers disagree on a number, compare first: the number of bins, the metric behind the name, and whether
# class-wise values are averaged, summed, or divided by class counts.
#
# ## Fit on val, report on test
#
# A metric that was used to choose something is no longer a measurement. We choose the temperature of the over-confident
# classifier (hard, best $T = 1.5$) from 41 values by the ECE on 500 samples, and report the ECE of the winner twice: on
# the 500 samples that chose it, and on 500 new ones.

# %%
temperatures = np.linspace(1.0, 2.0, 41)
true = [true_error(1 / t, SCALE) for t in temperatures]
rng = np.random.default_rng([seed, 8])
rows = []
for _ in range(n_repeats // 2):
    drawn = (draw("over-confident", 500, rng) for _ in range(2))
    (z_val, _, y_val), (z_test, _, y_test) = drawn
    said = (softmax(z_val / t, axis=1) for t in temperatures)
    scores = [ece(p, y_val, n_bins=n_bins) for p in said]
    best = int(np.argmin(scores))
    p_test = softmax(z_test / temperatures[best], axis=1)
    rows.append((min(scores), ece(p_test, y_test, n_bins=n_bins), true[best]))
same, new, true = 100 * np.mean(rows, axis=0)

# %% tags=["hide-input", "nbval-check-output"]
Markdown(f"""
On average over {n_repeats // 2} such choices, the winner has an ECE of {same:.2f}% on the
samples that chose it and of {new:.2f}% on new ones. Its true error is {true:.2f}%.
""")

# %% [markdown]
# The second number is too high by its bias, but honest: any fixed temperature as good as this one would show it. The
# first is lower because the search has picked favourable noise. One parameter and 41 candidates suffice for that; a
# method with a parameter for each class has far more room. So everything in this book is fitted on `val` and reported on
# `test`, and candidates are compared by NLL where possible, which has less noise and no bins.
#
# ## A real network
#
# The stored logits of a ResNet-20 on CIFAR-10 (or whatever the parameter `logits` names), before and after temperature
# scaling: one number $T$, fitted on the validation images, divides all logits. {numref}`fig-metrics-real` and
# {numref}`tbl-metrics-real` look at the whole test set, and the table also at 500 of its images, drawn with the same
# share of each class.

# %%
scaling = TemperatureScaling().fit(*data.val)
test_logits, test_labels = data.test
real = {
    "before": softmax(test_logits.astype(float), axis=1),
    "after": scaling(test_logits),
}
n_test = len(test_labels)
n_few = min(500, n_test)
chosen = ["accuracy", "nll", "brier"]
chosen += ["ece", "debiased_ece", "ks_error", "classwise_ece"]


def on(rows):
    """The metrics on some test images, and the ECE of a calibrated network there."""
    test = Comparison(test_labels[rows], chosen, n_bins=n_bins, seed=seed)
    perfect = {}
    for name, probs in real.items():
        test.add(name, probs[rows])
        scores = 100 * score_if_calibrated(probs[rows], n_bins=n_bins)
        perfect[name] = scores.mean(), np.quantile(scores, 0.975)
    return test, perfect


every, perfect = on(slice(None))
few, few_perfect = on(datasets.subset(test_labels, n_few, seed=seed))
drawn = []
for i in range(n_repeats):
    rows = datasets.subset(test_labels, n_few, seed=seed + 1 + i)
    for name, probs in real.items():
        found = evaluate(probs[rows], test_labels[rows], chosen, n_bins=n_bins)
        drawn.append({"when": name, "draw": i} | found)
drawn = pd.DataFrame(drawn).set_index(["when", "draw"])
falls = 100 * (drawn.loc["after"] < drawn.loc["before"]).mean()

# %% tags=["nbval-check-output"]
columns, parts = {metric: ("", metric) for metric in chosen}, {}
for n, test, honest in ((n_test, every, perfect), (n_few, few, few_perfect)):
    change = estimates(test, ["after"], columns, base="before").set_axis(["change"])
    part = pd.concat([estimates(test, real, columns), change]).T
    for i, of in enumerate(("mean", "97.5% quantile")):
        ends = {name: f"{scores[i]:.2f}" for name, scores in honest.items()}
        part.loc[f"ECE if calibrated, {of}"] = ends
    parts[f"{n:,} images"] = part
table(
    pd.concat(parts),
    "What does one temperature change? Percent [95% interval]; the NLL in nats",
    "tbl-metrics-real",
    names=shown,
)

# %% mystnb={"figure": {"caption": "What does temperature scaling do to a real network? All test images.", "name": "fig-metrics-real"}, "image": {"alt": "Two reliability diagrams of a real network with the counts of their bins on top, before and after temperature scaling: the bars come onto the diagonal."}}
both = {name: (probs, test_labels) for name, probs in real.items()}
pictures.reliability_row(both, n_bins=n_bins)
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
before, after = (every.of(name).percent for name in real)
few_before, few_after = (few.of(name).percent for name in real)
gain, few_gain = (test.difference("before", "after").percent for test in (every, few))
by_class = few.difference("after", "before", "classwise_ece").percent
means = 100 * drawn["classwise_ece"].groupby("when").mean()
whole = {name: every.of(name, "classwise_ece").percent.value for name in real}
text = f"""
*T* = {scaling.temperature:.2f}, and all {n_test:,} images settle the matter. The ECE before
is {before.value:.2f}%, where a calibrated network would have {perfect["before"][0]:.2f}%.
Temperature scaling takes off {gain.low:.1f} to {gain.high:.1f} points. The
{after.value:.2f}% that remain are above the 97.5% quantile of {perfect["after"][1]:.2f}%, so
one temperature has not removed everything. The other metrics agree on the gain, and the accuracy
is untouched because *T* keeps the order of the classes.

On {n_few} images, the same network with the same *T* has an ECE of {few_before.value:.2f}%
before and {few_after.value:.2f}% after, where a calibrated network has
{few_perfect["after"][0]:.2f}% on average. The gain lies between {few_gain.low:.1f} and
{few_gain.high:.1f} points. The debiased ECE has an interval that is wider than its value.

Is this draw of {n_few} images like others? On {n_repeats} more, the ECE falls in
{falls["ece"]:.0f}% and the class-wise ECE in {falls["classwise_ece"]:.0f}%. Most of the
class-wise number is bias: its mean falls from {means["before"]:.2f} to {means["after"]:.2f}%, and
on all images it is {whole["after"]:.2f}% after scaling. So on this draw its interval is wide, from
{by_class.low:+.2f} to {by_class.high:+.2f} points. The NLL is surer of the gain: it
falls in {falls["nll"]:.0f}%.
"""
Markdown(minus(text))

# %% [markdown]
# ## Which metric when
#
# | question | look at | beside it |
# |---|---|---|
# | Is this network calibrated? | reliability diagram, `ece` | what a calibrated network would score on as many samples |
# | Which of two corrections of one network is better? | paired difference of `nll` or `brier` | paired difference of `ece`; `accuracy` |
# | Which of two networks is better? | `accuracy`, `nll` | `ece` of both, with intervals |
# | Are the probabilities of single classes right, rare ones too? | `classwise_ece`, `tace`; `reliability_bins(class_index=k)` | the number of labels per class |
# | How large is the error that is left after calibration? | `debiased_ece` | its interval, which is wide |
# | Fewer than 2,000 samples? | the comparison with a calibrated network; `smooth_ece` | nothing with more than 15 bins |
# | Is this printed number right? | the paper's own metric, bins and `like=` | the width of its interval |
#
# ## Summary

# %% tags=["hide-input", "nbval-check-output"]
easy_15, hard_15 = (scores_of[name, 15].mean() for name in SCALES)
Markdown(f"""
- Calibration is honesty, not skill. A classifier that always says the class prior has no
  calibration error. So an error stands beside accuracy and a proper score.
- Every calibration error looks at the top label, or at one class at a time. There is
  always a miscalibration that it cannot see.
- ECE is biased: a calibrated classifier has one above zero, which grows like the square
  root of bins over samples. With 10,000 samples and 15 bins it is {100 * easy_15:.1f} to
  {100 * hard_15:.1f} points. New labels drawn from the probabilities themselves show it for
  any data set.
- The percentile interval of ECE never held the truth for a calibrated classifier. The
  interval in use is reflected, begins at 0 unless the value is beyond what a calibrated
  classifier would score, and held the truth in {coverage["in use"].min():.0f}% or more of the
  test sets of 10,000.
- A difference of half a point is seldom seen on independent test sets of 10,000: it takes
  {needed.loc["0.5 points", "easy"]:,.0f} to {needed.loc["0.5 points", "hard"]:,.0f} samples.
  Paired differences can be far sharper, but not near calibration. One is beyond chance only
  if the percentile and the reflected interval both say so; the NLL sees more.
- Libraries differ where confidences meet edges, ones or ties. Ask for the rule.
- Choose on `val`, report on `test`.
""")

# %% [markdown]
# ## Exercises
#
# 1. A classifier for $K$ equally frequent classes always says $1/K$. Compute its ECE, NLL and Brier score by hand, and
#    compare with {numref}`tbl-metrics-blind`.
#
#    ```{dropdown} Solution
#    It predicts the first class, with confidence $1/K$, and is right on $1/K$ of the inputs: the ECE is 0. The NLL is
#    $\log K$, here $\log 10 = 2.303$. The Brier score is $(1 - 1/K)^2 + (K - 1) / K^2 = 1 - 1/K$, here 0.9.
#    ```
#
# 2. Show that with unlimited samples, the binned ECE is at most $\mathrm{ECE}^\star$, for every choice of bins. Which
#    curve of {numref}`fig-metrics-bins` shows it?
#
#    ```{dropdown} Solution
#    With unlimited samples the gap of bin $m$, times its share, is
#    $\bigl| \mathbb{E} [ (r(\hat p) - \hat p) \, \mathbb{1}[\hat p \in B_m] ] \bigr|$. By the triangle inequality it is at
#    most $\mathbb{E} [ |r(\hat p) - \hat p| \, \mathbb{1}[\hat p \in B_m] ]$, and these add up to $\mathrm{ECE}^\star$.
#    The curve of the wavy classifier for $N = 10{,}000$ lies below the dashed line while the bins are few.
#    ```
#
# 3. A paper reports an ECE of 0.96% for one method and 1.01% for another, from one run each on the same 10,000
#    images. Which of the numbers in this chapter do you need to judge the difference, and what would you ask the
#    authors for?
#
#    ```{dropdown} Solution
#    What a perfect network scores ({numref}`tbl-metrics-perfect`): on a hard data set both may be perfect. And the paired standard
#    deviation near calibration ({numref}`tbl-metrics-paired`), which is more than twice the difference. Ask for the
#    logits, which give the paired interval and the difference in NLL, and for more than one run.
#    ```
#
# 4. Replace each confidence of a test set by the accuracy of its bin, computed on the same test set. Show that the ECE
#    is then zero. What is the true error of the wavy classifier after this correction?
#
#    ```{dropdown} Solution
#    The new confidences take at most $M$ values, and among the samples that share one, the share of right predictions
#    equals it. A bin of the new confidences holds some of these groups, so its accuracy is its mean confidence. The true
#    error is the mean distance of a bin's measured accuracy from its true one,
#    $\sum_m w_m |\operatorname{acc}(B_m) - r_m|$. That is the noise whose size {eq}`eq-metrics-bias` gives: about two
#    points with 2,000 samples and 15 bins. The ECE of zero was computed on the samples that were fitted.
#    ```
#
# 5. No metric sees that B is miscalibrated. Find a function of $\mathbf{p}$ whose reliability diagram shows it. Hint:
#    look at $p_0 - p_1$.
#
#    ```{dropdown} Solution
#    Compare $p_0 - p_1$ with $\mathbb{1}[y = 0] - \mathbb{1}[y = 1]$. The six permutations give six different values of
#    $p_0 - p_1$. At 0.3, 0.2 and -0.5 (even) the truth is 0.2 above it, at 0.5, -0.3 and -0.2 (odd) 0.2 below.
#    ```
