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
# - read a reliability diagram, and tell which part of it is chance,
# - choose a metric, and know what it is blind to,
# - judge whether a difference of 0.2 percentage points between two printed calibration errors means anything,
# - explain why two libraries return different numbers for the same predictions.

# %% tags=["parameters"]
budget = "smoke"  # at "paper" the stored simulations are run again
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
from scipy.special import entr, expit, logit, rel_entr, softmax
from scipy.stats import norm

from book.kit import notebook
from book.kit.notebook import pictures
from book.kit.notebook.display_names import shown
from book.kit.notebook.golden import recorded
from book.kit.notebook.paper_tables import estimates
from book.kit.notebook.prose import prose
from book.kit.notebook.synthetic_classifiers import (
    binned_error,
    draw_labels,
    top_label,
    true_curve,
    with_error,
)
from book.kit.notebook.table import table
from calibkit import Comparison, Network, TemperatureScaling, calibrator, plots
from calibkit import data as datasets
from calibkit.metrics import (
    accuracy,
    ace,
    adaptive_ece,
    classwise_ece,
    ece,
    evaluate,
    reliability_bins,
)
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
# $\hat p = p_{\hat y}$. Logits $(2, 1, -1)$ become probabilities $(0.71, 0.26, 0.04)$, so the classifier predicts class 0
# with confidence 0.71.
#
# *Accuracy* asks how often the prediction is right. *Calibration* asks whether the confidence can be taken at face
# value. Of all inputs with confidence 0.71, is the classifier right on 71%?
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
# On the days when she says 0.6 she is right as often as she says. When she says 0.9 she is not. She is
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
forecasts, labels = top_label(confidence, right)  # class 0 is what she predicts
print(f"accuracy {accuracy(forecasts, labels):.2f}")
print(f"ECE {ece(forecasts, labels, n_bins=10):.2f}")

# %% [markdown]
# Her accuracy is 60% on both kinds of days, so her two confidences carry no information. Saying 0.6 every day would
# make her perfectly calibrated, and no better at telling rain from sun. **Calibration is not skill.** It is honesty
# about the skill that is there.
#
# ### Three meanings of "calibrated"
#
# With more than two classes the word has three meanings. $P$ is over a random input and its label $y$.
#
# | | the classifier is calibrated if | for all |
# |---|---|---|
# | *top-label* | $P(y = \hat y \mid \hat p = c) = c$ | confidences $c$ |
# | *class-wise* | $P(y = k \mid p_k = c) = c$ | classes $k$, values $c$ |
# | *full* | $P(y = k \mid \mathbf{p} = \mathbf{c}) = c_k$ | classes $k$, vectors $\mathbf{c}$ |
#
# Full calibration implies the other two, and neither of them implies it {cite:p}`vaicenavicius2019evaluating`. Two
# small data sets with three classes show the difference.
#
# **A.** The classifier outputs $(0.6, 0.4, 0)$ on ten inputs. Six have label 0, four have label 2. The prediction is
# right 60% of the time, as promised. But class 1 gets 40% and never comes, and class 2 is ruled out and does.
#
# **B.** The classifier outputs each of the six permutations of $(0.6, 0.3, 0.1)$ ten times. The true frequencies are
# off by $(+0.1, -0.1, 0)$, in the order of the classes, for the even permutations, and by the opposite for the odd
# ones. Each class gets each value from one even and one odd permutation, so the two errors cancel in every class.

# %% tags=["hide-input", "nbval-check-output"]
EVEN, ODD = [(0, 1, 2), (1, 2, 0), (2, 0, 1)], [(0, 2, 1), (2, 1, 0), (1, 0, 2)]
vectors = np.array([0.6, 0.3, 0.1])[EVEN + ODD]
shift = np.repeat([[0.1, -0.1, 0.0], [-0.1, 0.1, 0.0]], 3, axis=0)
counts = np.rint(10 * (vectors + shift)).astype(int)
A = np.tile([0.6, 0.4, 0.0], (10, 1)), np.repeat([0, 2], [6, 4])
B = (
    np.repeat(vectors, 10, axis=0),
    np.concatenate([np.repeat(range(3), c) for c in counts]),
)
prose(f"""
Measured, the top-label errors of A and B are {ece(*A):.2f} and {ece(*B):.2f}. The class-wise
error is {classwise_ece(*A):.2f} for A and {classwise_ece(*B):.2f} for B. Only a comparison of
whole vectors with the frequencies of the labels finds B out: the mean gap is
{np.abs(shift).mean():.2f}.
""")

# %% [markdown]
# So A is calibrated for its top label only. B is calibrated for its top label and for every class, but not fully. We could check the
# whole vectors because each occurs ten times. A real network hardly ever outputs the same vector twice. So every metric
# below looks at one number at a time, the confidence or the probability of one class. That gives each its blind spots.
#
# ## Classifiers whose truth is known
#
# To test a metric we need the answer. So we turn the usual order around. We first draw what the classifier outputs, then
# decide what is true, then draw labels from the truth.
#
# 1. Ten logits are drawn from a normal distribution of standard deviation 5, or 20 where data are called *easy*, and softmax gives $\mathbf{p}$.
# 2. The true probabilities of the labels, $\boldsymbol\pi$, are a function of the logits that we choose.
# 3. The label is drawn from $\boldsymbol\pi$.
#
# Three choices of $\boldsymbol\pi$ serve the whole chapter.
#
# | classifier | truth | what it stands for |
# |---|---|---|
# | calibrated | $\boldsymbol\pi = \mathbf{p}$ | the ideal |
# | over-confident | $\boldsymbol\pi = \operatorname{softmax}(\mathbf{z} / 1.5)$ | an uncalibrated network, which the temperature 1.5 would make fully calibrated |
# | wavy | $\pi_{\hat y} = \hat p + 0.08 \sin 4 \pi \hat p$, the rest in proportion | what a correction can leave behind, gaps of both signs |
#
# A bold $\boldsymbol\pi$, or one with an index, is the truth. A plain $\pi$ is the number 3.14.
#
# The *calibration curve* is the true accuracy at confidence $c$, $\operatorname{acc}(c) = P(y = \hat y \mid \hat p = c)$.
# The *true* error is its mean distance from the confidence,
#
# $$
# \mathrm{ECE}^\star = \mathbb{E} \, \bigl| \operatorname{acc}(\hat p) - \hat p \bigr| .
# $$ (eq-metrics-true)
#
# For the wavy classifier the curve is the formula in the table. The over-confident one has $\pi_{\hat y} < \hat p$ on
# every single input, so $\mathrm{ECE}^\star = \mathbb{E}[\hat p - \pi_{\hat y}]$. Both are plain averages over draws of
# $\mathbf{z}$, without labels and without bins. 400,000 draws give them to about 0.01 percentage points, from here on
# *points*.

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


# %% tags=["hide-input", "nbval-check-output"]
n = 400_000
z = SCALE * np.random.default_rng([seed, 2]).standard_normal((n, K))
p = softmax(z, axis=1)
c, known = p.max(1), {}
for name, of in TRUTH.items():
    t = of(z)[np.arange(n), p.argmax(1)]
    error = np.abs(wave(c) - c) if name == "wavy" else c - t
    known[name] = {"accuracy": t.mean(), "true ECE": error.mean()}
known = 100 * pd.DataFrame(known).T
prose(f"""
All three output the same confidences, {100 * c.mean():.1f}% on average. The calibrated
classifier is right as often. The over-confident one is right on
{known.loc["over-confident", "accuracy"]:.1f}%, and its true error is
{known.loc["over-confident", "true ECE"]:.2f}%. The true error of the wavy one is
{known.loc["wavy", "true ECE"]:.2f}%.
""")

# %% [markdown]
# ## The reliability diagram, step by step
#
# A *reliability diagram* {cite:p}`degroot1983comparison` draws the calibration curve from a finite sample.
#
# 1. Split the confidences $[0, 1]$ into $M$ bins of equal width. $B_r$ are the samples in bin $r$.
# 2. In each bin, take the mean confidence $\operatorname{conf}(B_r)$ and the share of right predictions
#    $\operatorname{acc}(B_r)$.
# 3. Draw a bar for each bin, as high as its accuracy, with a point at its mean confidence. A point on the diagonal is
#    as accurate as it is confident. Below the diagonal the classifier is over-confident, above it under-confident. The
#    vermilion line from the point to the diagonal is the gap.
#
# Two things are easily overlooked. The bars do not show how many samples a bin contains, but the histogram below each diagram
# does. And the accuracy in a bin of 20 samples is itself uncertain. The grey bars show where it would fall, 95 times out
# of 100, if the classifier were calibrated {cite:p}`brocker2007increasing`. **A gap inside its grey bar proves nothing
# by itself.**

# %% tags=["hide-input"] mystnb={"figure": {"caption": "Even a calibrated classifier has gaps. Reliability diagrams of three classifiers whose true curve (green) is known. The gaps of the calibrated one stay inside the grey bars, which one in twenty may miss by chance. Below: where the samples are, with the mean confidence (vermilion) and the accuracy (the other dashed line).", "name": "fig-metrics-diagrams"}, "image": {"alt": "Three reliability diagrams of classifiers whose truth is known, calibrated, over-confident and wavy, with the true curve in green, and below each the histogram of its confidences."}}
rng = np.random.default_rng([seed, 3])
sample, curves = {}, {}
for name in TRUTH:
    z, _, labels = draw(name, n_samples, rng)
    sample[name] = softmax(z, axis=1), labels
    z, truth, _ = draw(name, 100_000, rng)
    curves[name] = true_curve(softmax(z, axis=1), truth)
pictures.reliability_row(sample, n_bins=n_bins, histogram=True, curves=curves)
plt.show()

# %% [markdown]
# The ECE is the mean gap in such a diagram, each bin weighted with its share of the samples. Here it is for the middle
# one, from its bins and from the package:

# %% tags=["nbval-check-output"]
probs, labels = sample["over-confident"]
bins = reliability_bins(probs, labels, n_bins=n_bins)
share = bins.counts / bins.counts.sum()
gap = np.abs(bins.accuracy - bins.confidence)
print(round(np.nansum(share * gap), 4), round(ece(probs, labels, n_bins=n_bins), 4))

# %% [markdown]
# The true error is a little smaller. The section on {ref}`bias <sec-metrics-bias>` shows how far off such a number
# usually is.
#
# ## The metrics, and what each is blind to
#
# All metrics take `probs` (N, K) and `labels` (N,), and one call computes as many as you like. The calibration errors are
# fractions, and the tables show percent.

# %% tags=["nbval-check-output"]
some = ["accuracy", "nll", "ece", "classwise_ece"]
pd.Series(evaluate(probs, labels, some, n_bins=n_bins)).round(4)

# %% [markdown]
# ### The top label, in bins
#
# The *expected calibration error* {cite:p}`naeini2015obtaining,guo2017calibration` is the weighted mean of the gaps:
#
# $$
# \mathrm{ECE} = \sum_{r=1}^{M} \frac{|B_r|}{N} \,
#   \bigl| \operatorname{acc}(B_r) - \operatorname{conf}(B_r) \bigr| .
# $$ (eq-metrics-ece)
#
# One consequence is worth knowing by heart. Without the absolute values, the weighted gaps add up to the difference of
# the accuracy and the mean confidence, whatever the bins. So
#
# $$
# \mathrm{ECE} \ge \bigl| \, \text{accuracy} - \text{mean confidence} \, \bigr| ,
# $$ (eq-metrics-one-sign)
#
# and the two are equal if no two gaps differ in sign. So as long as every bin is over-confident, it does not matter which bins you choose. They matter only where gaps of
# both signs meet.
#
# Four metrics in the package are built from bins:
#
# - `ece` has $M = 15$ bins of equal width. A bin contains its upper edge but not its lower one, $(a, b]$.
# - `mce`, the *maximum* calibration error {cite:p}`naeini2015obtaining`, is the largest gap instead of the mean.
# - `adaptive_ece` (AECE) {cite:p}`nguyen2015posterior` is the same sum over bins of *equal mass*. The sorted confidences are split into $M$ parts of
#   equal size, where equal confidences stay together. No bin is nearly empty, and bins are narrow where the samples are.
# - `debiased_ece` {cite:p}`kumar2019verified` is a root mean square of the gaps, after subtracting what chance adds.
#
# The last one needs a formula. Even if a bin is calibrated, its measured accuracy scatters around the truth, and the
# variance of that scatter is part of the squared gap. It can be estimated from the bin itself, and is subtracted:
#
# $$
# \Bigl( \sum_{|B_r| > 1} \frac{|B_r|}{N} \Bigl[ (\operatorname{acc} - \operatorname{conf})^2
#   - \frac{\operatorname{acc} (1 - \operatorname{acc})}{|B_r| - 1} \Bigr] \Bigr)_+^{1/2} ,
# $$ (eq-metrics-debiased)
#
# where $(\cdot)_+$ replaces a negative number by 0.
#
# ### The top label, without bins
#
# Sort the samples by confidence and write $g_i = \hat p_i - \mathbb{1}[\hat y_i = y_i]$ for the gap of one sample.
#
# - `ks_error` {cite:p}`gupta2021calibration` is the largest partial sum,
#   $\max_c \frac1N \bigl| \sum_{i: \hat p_i \le c} g_i \bigr|$, as in the Kolmogorov–Smirnov test. Gaps of opposite
#   sign cancel along the way.
# - `smooth_ece` {cite:p}`blasiok2024smooth` smooths the gaps with a Gaussian kernel over the confidence, and integrates the
#   absolute value of the result. The kernel is made exactly as wide as the error that it gives, so
#   nothing has to be chosen.
#
# ### Every class
#
# Here each $p_k$ is compared with $\mathbb{1}[y = k]$, for all classes, whether predicted or not.
#
# - `classwise_ece` (SCE) {cite:p}`nixon2019measuring,kull2019beyond` is the ECE of each class over bins of equal width, averaged over the
#   classes.
# - `ace` {cite:p}`nixon2019measuring` is the same with equal mass.
# - `tace`, from the same paper, is `ace` over the values $p_k \ge 0.01$ only. Without the threshold the many values near 0 dilute the mean.
#
# ### Scores
#
# Two scores judge the probabilities $\mathbf{p}$ against the label, one sample at a time:
#
# $$
# \begin{aligned}
# \mathrm{NLL} &= - \frac1N \sum_i \log p_{i, y_i} , \\
# \mathrm{Brier} &= \frac1N \sum_i \sum_k \bigl( p_{ik} - \mathbb{1}[y_i = k] \bigr)^2 .
# \end{aligned}
# $$ (eq-metrics-scores)
#
# They are *proper*, which means that in expectation nothing beats reporting the true probabilities. They need no bins and have no bias.
# But they measure skill and honesty together.
#
# The NLL is a sum of three terms, and calibration can remove only the third. Let $\boldsymbol\pi$ be the truth for an
# input, and $\bar{\boldsymbol\pi}$ the mean truth over all inputs that get the same $\mathbf{p}$. Then
# {cite:p}`kull2015novel`
#
# $$
# \begin{aligned}
# \mathbb{E} \, \mathrm{NLL}
#   &= \mathbb{E} \, H(\boldsymbol\pi) && \text{noise in the labels} \\
#   &+ \mathbb{E} \, \mathrm{KL}(\boldsymbol\pi \,\|\, \bar{\boldsymbol\pi}) && \text{detail left out} \\
#   &+ \mathbb{E} \, \mathrm{KL}(\bar{\boldsymbol\pi} \,\|\, \mathbf{p}) && \text{miscalibration,}
# \end{aligned}
# $$ (eq-metrics-decomposition)
#
# with the entropy $H$ and the Kullback–Leibler divergence. A function that maps old probabilities to new ones, such as
# a temperature, cannot lower the first two.
#
# We report `accuracy` and `entropy` next to the rest. A correction may cost accuracy, and the mean entropy shows how
# much it has softened the outputs.
#
# ### The blind spots
#
# To see what a metric sees, we show it six suspects, each of 100,000 samples (but B is the 60 from above). They are described
# below {numref}`tbl-metrics-blind`. Errors about as large as those in the first column are chance.


# %% tags=["hide-input", "nbval-check-output"]
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
suspects = {  # what it outputs, and what is true
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
answers = {name: (out, draw_labels(t, rng)) for name, (out, t) in suspects.items()}
answers["B"] = B
found = {name: evaluate(*answer, n_bins=n_bins) for name, answer in answers.items()}
rows = {
    (group, m): {
        name: f"{of[m]:.3f}" if m in ("nll", "entropy") else f"{100 * of[m]:.2f}"
        for name, of in found.items()
    }
    for group, metrics in GROUPS.items()
    for m in metrics
}
table(
    pd.DataFrame(rows).T,
    "Every calibration error overlooks something. Percent, NLL and entropy in nats. The list below explains the columns",
    "tbl-metrics-blind",
    names=shown,
)

# %% [markdown]
# - **Class prior** outputs 0.1 for every class, always. It is fully calibrated and useless. Every calibration error is near
#   zero, though the classifier has not looked at its input. Only accuracy and the scores see it. A calibration error alone
#   is no reason to use a classifier.
# - **Over-confident** has logits that are 1.5 times too large. All errors see it. ECE, AECE, smooth ECE and KS error agree
#   to the last digit, because every gap has the same sign, {eq}`eq-metrics-one-sign`. The class-wise errors are much
#   smaller, because they average over ten classes, and most $p_k$ are near zero and right. Class-wise values of data sets with
#   different $K$ cannot be compared.
# - **Opposite** is over-confident when it predicts classes 0–4, and under-confident by as much for 5–9. To the top-label
#   errors it looks like the calibrated one, but the class-wise errors are four to six times larger than in the first column.
#   {doc}`Class-based temperatures <class_temperature_scaling>` were proposed for errors that differ by class. But their
#   search, which looks at the top-label ECE, cannot see this one. A fit by NLL can.
# - **Swapped rest** is calibrated for its top label, but ranks the other nine classes in reverse. The top-label errors
#   see nothing, the class-wise errors are large, and the NLL is a disaster, because the true label is often the class that was
#   ranked last.
# - **B** is the one from above. No calibration error sees it.
#
# The MCE is large in the first column, for a perfect classifier with 100,000 samples, because one bin that is nearly empty
# is enough. No conclusion of this book rests on it.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "Calibration can remove only the vermilion part of the NLL. The three terms of the NLL of all suspects but B, in nats, computed from their known truth.", "name": "fig-metrics-decomposition"}, "image": {"alt": "Stacked bars of five classifiers: label noise makes up most of the NLL of the calibrated, over-confident and opposite ones; the class prior adds detail left out, swapped rest a long bar of miscalibration, over-confident and opposite a short one."}}
terms = {}
for name, (outputs, truth) in suspects.items():
    given_p = prior if name == "class prior" else truth  # every other p occurs once
    terms[name] = {
        "noise in the labels": entr(truth).sum(1).mean(),
        "detail left out": rel_entr(truth, given_p).sum(1).mean(),
        "miscalibration": rel_entr(given_p, outputs).sum(1).mean(),
    }
terms = pd.DataFrame(terms).T
fig, ax = plt.subplots(figsize=(6.5, 2.2))
left = np.zeros(len(terms))
for term, color in zip(terms, (plots.GREY, plots.SKY, plots.RED), strict=True):
    ax.barh(terms.index, terms[term], left=left, color=color, label=term, height=0.6)
    left += terms[term].to_numpy()
ax.invert_yaxis()
ax.grid(axis="y", visible=False)
ax.set_xlabel("NLL, nats")
fig.legend(loc="outside upper center", ncols=3)
plt.show()

# %% [markdown]
# The vermilion part of the over-confident bar is what temperature scaling could win back. On real data only the total
# can be measured. So the NLL compares two corrections of the *same* network cleanly, since they share the first two terms,
# unless one of them maps different outputs to the same probabilities. Of two different networks it tells you which is
# better, not which is better calibrated.
#
# (sec-metrics-bias)=
# ## Bias: a calibrated classifier has an ECE above zero
#
# ### How large
#
# Take a classifier that is calibrated by construction, draw many test sets of 500 samples, and measure the ECE on each:


# %% tags=["nbval-check-output"]
def test_sets(name, n, repeats, key, scale=SCALE):
    """Independent test sets of one classifier: (probs, labels) of n samples each."""
    rng = np.random.default_rng([seed, *key, n])
    for _ in range(repeats):
        z, _, labels = draw(name, n, rng, scale)
        yield softmax(z, axis=1), labels


errors = [ece(*test) for test in test_sets("calibrated", 500, n_repeats, (5, 1))]
print("smallest", round(min(errors), 3), "mean", round(np.mean(errors), 3))

# %% [markdown]
# This is not bad luck. *Every* test set shows an ECE of a few percent, although the true error is zero. Where does it
# come from?
#
# Look at one bin $B_r$. Whether a prediction is right is a coin toss with probability $\hat p$, whose variance is
# $\hat p (1 - \hat p)$. Write $\sigma_r^2$ for the mean of this variance over the samples in the bin. The gap
# $\operatorname{acc}(B_r) - \operatorname{conf}(B_r)$ averages $|B_r|$ independent errors with mean zero, so its variance is
# $\sigma_r^2 / |B_r|$.
#
# The gap is nearly normal, and the mean absolute value of a centred normal is $\sqrt{2 / \pi}$ times its standard
# deviation. With the share $w_r = |B_r| / N$ of each bin,
#
# $$
# \begin{aligned}
# \mathbb{E} \, \mathrm{ECE}
#   &\approx \sqrt{\frac{2}{\pi N}} \, \sum_{r=1}^{M} \sqrt{w_r} \, \sigma_r \\
#   &\le \sqrt{\frac{2 M}{\pi N}} \, \sigma ,
# \end{aligned}
# $$ (eq-metrics-bias)
#
# where $\sigma^2 = \mathbb{E} \, \hat p (1 - \hat p)$ is the mean variance over all samples. The bound is the Cauchy–Schwarz
# inequality, and it is close when the terms are alike. So the bias grows like $\sqrt{M / N}$. Four times the samples
# halve it, and doubling the bins costs as much as halving the samples. {numref}`fig-metrics-bins` shows on the left
# that the formula is nearly exact.
#
# ### Too few bins, too many bins
#
# With gaps of both signs there is a second bias, downwards. A bin that spans a stretch of over-confidence and one of
# under-confidence averages them away. In the extreme, a single bin leaves only
# $|\text{accuracy} - \text{mean confidence}|$. By the triangle inequality, binning can only lose. With unlimited
# samples the binned ECE never exceeds the true one.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "More bins mean more chance, and fewer bins hide what cancels within a bin. Mean ECE over simulated test sets against the number of bins, for three sizes of test set. Dashed: the true error. Dotted, on the left: what the formula predicts. Grey line: 15 bins.", "name": "fig-metrics-bins"}, "image": {"alt": "Three panels, ECE against the number of bins for three sizes of test set: the curves rise with the number of bins, more steeply for fewer samples, and for the calibrated classifier lie on the dotted prediction; with few bins those of the wavy classifier lie below the dashed true error."}}
M_GRID = (1, 2, 3, 5, 10, 15, 30, 60, 120, 250)


def predicted(m, n):
    """The formula: mean ECE of the calibrated classifier with m bins, n samples."""
    share_times_variance = np.bincount(np.ceil(c * m).astype(int), c * (1 - c)) / len(c)
    return np.sqrt(2 / np.pi / n) * np.sqrt(share_times_variance).sum()


fig, axes = plt.subplots(1, 3, figsize=(7, 2.7), sharey=True)
for ax, name in zip(axes, TRUTH, strict=True):
    for n, part in ((500, 2), (2000, 4), (10_000, 10)):
        tests = test_sets(name, n, n_repeats // part, (5, 2))
        errors = [[ece(*test, n_bins=m) for m in M_GRID] for test in tests]
        ax.plot(M_GRID, 100 * np.mean(errors, axis=0), "o-", label=f"N = {n:,}")
        if name == "calibrated":
            formula = [100 * predicted(m, n) for m in M_GRID]
            ax.plot(M_GRID, formula, color="black", linestyle=":", zorder=3)
    ax.axhline(known.loc[name, "true ECE"], color="black", linestyle="--", linewidth=1)
    ax.axvline(15, color="grey", linewidth=0.6)
    ax.set(title=name, xscale="log", xlabel="bins M", ylim=(0, 20))
    ax.set_xticks([1, 5, 15, 60, 250], labels=[1, 5, 15, 60, 250])
    ax.minorticks_off()
axes[0].set_ylabel("ECE, %")
axes[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# Up to 15 bins, binning hardly matters for the over-confident classifier, since all its gaps have one sign. That is the
# situation *before* calibration. *After* it, gaps are small and of both signs, as in the other two panels, and then the
# number of bins decides what is printed. Comparing one paper's 15 bins with another's 25 is safe in the first situation
# only.
#
# ### The estimators side by side
#
# Do other metrics have less bias? Each has a limit of its own, its value on unlimited samples. For the calibrated
# classifier it is zero. For the others we take it from 500,000 samples, which give it to about 0.06 points. The bias of
# an estimator is its mean over test sets of $N$ samples, minus that limit.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "No estimator is free of bias, but it matters only where gaps are small or of both signs. Mean over simulated test sets minus the value on unlimited samples, in points, against the number of samples, for three classifiers.", "name": "fig-metrics-bias"}, "image": {"alt": "Three panels, bias of five estimators against the number of samples: all come near the dashed line of zero as the samples grow, from different heights."}}
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

# %% [markdown]
# - With gaps of one sign, all five are about equally good from 1,000 samples on. The choice of metric matters after
#   calibration, not before.
# - AECE has the bias of ECE. Equal mass avoids nearly empty bins, not chance.
# - Smooth ECE has half the bias of ECE on the wavy classifier. But on the calibrated one its bias shrinks more slowly,
#   and is the larger of the two at $N = 10{,}000$.
# - The KS error has half the bias of ECE on the calibrated classifier. But it is another quantity. On the wavy
#   classifier its limit is a third of the ECE's, because neighbouring waves cancel in its partial sums.
# - The debiased ECE has next to no bias from 1,000 samples on where there is an error to find. On a calibrated classifier
#   its square is nearly right on average, but a negative square counts as zero, so its mean stays above zero.

# %% tags=["hide-input", "nbval-check-output"]
spread = 100 * error.xs(n_samples, level="n").groupby("classifier").std()
wide, usual = (spread.loc["calibrated", metric] for metric in ("debiased_ece", "ece"))
prose(f"""
Little bias has a price. On {n_samples:,} samples of the calibrated classifier, the debiased
ECE has a standard deviation of {wide:.1f} points, and the plain ECE one of {usual:.1f}.
""")

# %% [markdown]
# ### What would a calibrated classifier score here?
#
# The bias need not be guessed. Keep the probabilities, draw new labels *from them*, and compute the metric. This is
# what a calibrated classifier with the same outputs scores on a test set of this size
# {cite:p}`vaicenavicius2019evaluating`.


# %%
def score_if_calibrated(probs, repeats=n_repeats, **options):
    """ECE of the given outputs on labels drawn from themselves, many times."""
    rng = np.random.default_rng([seed, 5, 5])
    drawn = (draw_labels(probs, rng) for _ in range(repeats))
    return np.array([ece(probs, labels, **options) for labels in drawn])


# %% [markdown]
# Many such draws give the whole distribution, and so a test of calibration. An ECE beyond its 97.5% quantile is evidence
# against it. Let us judge a real network, a ResNet-20 on CIFAR-10 (or whatever the parameter `logits` names), before and
# after {doc}`temperature scaling <temperature_scaling>`, where one number, fitted on the validation images, divides all logits.

# %%
scaling = TemperatureScaling().fit(*data.val)
identity = calibrator("identity").fit(*data.val)  # softmax, nothing else
real = {"before": identity(data.test.logits), "after": scaling(data.test.logits)}
null = score_if_calibrated(real["after"], 10 * n_repeats, n_bins=n_bins)

# %% tags=["hide-input"] mystnb={"figure": {"caption": "Compare an ECE with what a perfectly calibrated classifier scores, never with zero. Grey: ECEs of a perfectly calibrated classifier with the outputs of the real network after temperature scaling, on as many test images. Dashed: their 97.5% quantile. Coloured: what the network itself scores before and after.", "name": "fig-metrics-null"}, "image": {"alt": "A narrow grey histogram of ECEs well above zero; the mark of the network after temperature scaling lies at its upper end, and the mark before far to the right of it."}}
test_labels = data.test.labels
top = 100 * np.quantile(null, 0.975)
marks = [100 * ece(probs, test_labels, n_bins=n_bins) for probs in real.values()]
fig, ax = plt.subplots(figsize=(6.5, 2.4))
ax.hist(100 * null, bins=30, color=plots.GREY, label="perfectly calibrated")
ax.axvline(top, color="black", linestyle="--", linewidth=1, label="97.5% quantile")
for name, mark, color in zip(real, marks, (plots.RED, plots.BLUE), strict=True):
    ax.axvline(mark, color=color, linewidth=2.5)
    place = {"xycoords": ("data", "axes fraction"), "color": color}
    ax.annotate(f" {name}: {mark:.2f}%", (mark, 0.9), **place)
ax.set(xlim=(0, 1.3 * max(marks)), xlabel="ECE, %", yticks=[])
ax.legend(loc="center")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
left = "above that quantile, so a little miscalibration is left"
if 200 * null.mean() > marks[1]:
    left += ", but most of the ECE is chance"
if marks[1] <= top:
    left = "below that quantile, so it cannot be distinguished from perfection"
first = "above" if marks[0] > top else "below"
first = "far above" if marks[0] > 2 * top else first
prose(f"""
Perfection scores {100 * null.mean():.2f}% on average on these {len(test_labels):,} images, with
a 97.5% quantile of {top:.2f}%. Before scaling the network is {first} it. After scaling,
its ECE is {left}.
""")

# %% [markdown]
# {numref}`tbl-metrics-perfect` gives such values for two perfect classifiers with ten classes. The *easy* one has larger
# logits and is as accurate as networks are on CIFAR-10. The *hard* one is the calibrated classifier from above, as
# accurate as networks are on CIFAR-100. **Nothing below the quantile can be distinguished from perfection.**

# %% tags=["hide-input", "nbval-check-output"]
SCALES = {"easy": 20.0, "hard": SCALE}
columns = {}
for name, scale in SCALES.items():
    probs, labels = next(test_sets("calibrated", 10_000, 1, (5, 6), scale))
    kind = f"{name}, accuracy {100 * accuracy(probs, labels):.1f}%"
    bins = (10, 15, 25, 100)
    scores = {f"{m} bins": 100 * score_if_calibrated(probs, n_bins=m) for m in bins}
    columns[kind, "mean"] = pd.DataFrame(scores).mean()
    columns[kind, "97.5% quantile"] = pd.DataFrame(scores).quantile(0.975)
table(
    pd.DataFrame(columns),
    "A perfect classifier does not score zero. Its ECE on 10,000 samples, percent",
    "tbl-metrics-perfect",
)

# %% [markdown]
# ## Can I trust my ECE?
#
# ### The bootstrap
#
# A test set is one draw, and another would give another number. The *bootstrap* {cite:p}`efron1993introduction`
# imitates other draws. It draws $N$ of the $N$ samples with replacement, so some come twice and some not at all, and
# computes the metric again. How far the results scatter is how far to trust the number. Five lines do it:

# %%
probs, labels = sample["calibrated"]
rng = np.random.default_rng([seed, 6])
draws = rng.integers(0, len(labels), (10 * n_repeats, len(labels)))
resampled = [ece(probs[rows], labels[rows], n_bins=n_bins) for rows in draws]
low, high = np.quantile(resampled, [0.025, 0.975])

# %% [markdown]
# The middle 95% of the resampled values, from $l$ to $h$, are the *percentile interval*. For an accuracy or an NLL, which
# are means over samples, you can stop here. For a calibration error you must not.
#
# ### Why the plain interval is too high
#
# Resampling adds the bias a second time. This classifier is calibrated, so its true error is 0. Sampling adds noise in
# every bin, and noise counts as error. A resample repeats some samples and leaves out others, which is noise on top of
# noise. The variance in a bin doubles, and the ECE grows by a factor of up to $\sqrt 2$.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "The bootstrap of an ECE lies too high. ECEs of a classifier whose true error is 0 (dashed). Grey: other test sets of the same size. Thick line: our test set. Blue: its resamples, whose middle 95% are the bar. Resamples lie above the test set, as test sets lie above the truth.", "name": "fig-metrics-bootstrap"}, "image": {"alt": "Two histograms of ECEs: that of fresh test sets lies above the dashed line of the truth at zero, and that of the resamples lies higher still, most of it to the right of the line that marks the test set itself."}}
fresh = test_sets("calibrated", n_samples, 5 * n_repeats, (6, 0))
fresh = 100 * np.array([ece(*test, n_bins=n_bins) for test in fresh])
value = 100 * ece(probs, labels, n_bins=n_bins)
fig, ax = plt.subplots(figsize=(6.5, 2.6))
ax.axvline(0, color="black", linestyle="--", linewidth=1)
style = {"bins": 25, "density": True, "alpha": 0.6}
ax.hist(fresh, color=plots.GREY, label="other test sets", **style)
resamples = 100 * np.array(resampled)
ax.hist(resamples, color=plots.BLUE, label="resamples of ours", **style)
ax.axvline(value, color="black", linewidth=2, label="our test set")
ax.plot([100 * low, 100 * high], [-0.06, -0.06], color=plots.BLUE, linewidth=4)
ax.annotate(" truth", (0, 0.9), xycoords=("data", "axes fraction"))
ax.set(xlabel="ECE, %", yticks=[], xlim=(-0.1, None))
ax.legend(loc="upper right")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
prose(f"""
Test sets score {fresh.mean():.1f}% on average. Ours has {value:.1f}%, and its resamples have
{resamples.mean():.1f}%. No resample comes near the truth.
""")

# %% [markdown]
# ### The interval we use
#
# The idea is that resampling distorts the value $v$ of the test set in the same way in which sampling distorted the
# truth, so the distortion can be undone once. Three rules make our interval.
#
# 1. We mirror the percentile interval at $v$, to the *reflected* interval $[2v - h, \; 2v - l]$
#    {cite:p}`davison1997bootstrap`.
# 2. It never starts below 0. It starts at 0 if $v$ is not above the 97.5% quantile of what a calibrated classifier would
#    score here.
# 3. Its upper end is at least $v + (h - l) / 2$.
#
# The last two repair the mirror near zero, where it takes off too little. In simulations with a known truth, such
# intervals contain the true ECE about as often as they promise, and percentile intervals almost never do if the error is
# small ({numref}`fig-metrics-coverage`). **If an interval starts at 0, this network may be calibrated.**
#
# One call gives the intervals of several methods on one test set, here of the real network:

# %% tags=["nbval-check-output"]
metrics = ["accuracy", "nll", "ece", "classwise_ece"]
methods = {"before": identity, "after": scaling}
every = Comparison.on(data.test, methods, metrics, n_bins=n_bins, seed=seed)
print(f"before {every.of('before').percent:.2f}, after {every.of('after').percent:.2f}")

# %% [markdown]
# ### How many samples a difference needs
#
# A small difference needs more samples than most test sets have. Suppose two networks are judged on two *independent*
# test sets. While all gaps have one sign, {eq}`eq-metrics-one-sign` makes the ECE a mean over samples, the mean of
# $g_i$. So its standard deviation over test sets is $s / \sqrt N$, where $s$ is the standard deviation of $g_i$. A 5%
# test that succeeds four times out of five then takes
#
# $$
# N = 2 \, (1.96 + 0.84)^2 \, \frac{s^2}{\Delta^2}
# $$ (eq-metrics-samples)
#
# samples each, where $\Delta$ is the difference of the true errors, and 1.96 and 0.84 are the normal quantiles of 97.5%
# and 80%. Two methods on the *same* images need other numbers ({ref}`sec-power`).


# %% tags=["hide-input", "nbval-check-output"]
spread = {}
for name, scale in SCALES.items():
    probs, labels = next(test_sets("over-confident", 200_000, 1, (6, 3), scale))
    spread[name] = (probs.max(1) - (probs.argmax(1) == labels)).std()  # of g
deltas = np.array([0.1, 0.2, 0.3, 0.5, 1.0])
needed = {name: 2 * 2.8**2 * s**2 / (deltas / 100) ** 2 for name, s in spread.items()}
needed = pd.DataFrame(needed, [f"{delta} points" for delta in deltas])
needed = needed.map(lambda n: f"{float(f'{n:.2g}'):,.0f}")  # two digits
table(
    needed,
    "Small differences need huge test sets. Independent samples per network that show a true "
    "difference of two ECEs four times in five, if all gaps have one sign. Near calibration, and "
    "on the same images, other numbers hold. Both classifiers are over-confident",
    "tbl-metrics-needed",
)


# %% tags=["hide-input", "nbval-check-output"]
def true_error(a, scale):
    """True ECE of the over-confident classifier with its logits times a."""
    z = scale * np.random.default_rng([seed, 6, 4]).standard_normal((100_000, K))
    gaps = softmax(a * z, axis=1).max(1) - softmax(z / T_TRUE, axis=1).max(1)
    return abs(gaps.mean())  # all gaps have one sign


easy = SCALES["easy"]
wrong = norm.cdf(-0.3 / (100 * spread["easy"] * np.sqrt(2 / 10_000)))
prose(f"""
Papers print differences of 0.1 to 0.3 points in bold. On independent test sets, differences
that small take roughly {needed.loc["0.3 points", "easy"]} to
{needed.loc["0.1 points", "hard"]} samples to detect. With 10,000 images each and a true
difference of 0.3 points, the worse of two easy ones comes out ahead in
{100 * wrong:.0f}% of all cases.
""")

# %% [markdown]
# ### The same test set for both
#
# Most comparisons are better than that, because they are of two corrections of one network, on the same images. Then much of
# what is random in one number is random in the other, and cancels in the difference. The interval must reflect this. So resample the
# images *once* and compute both numbers on them. This is the *paired* bootstrap, and a `Comparison` does it:

# %% tags=["nbval-check-output"]
print(f"change in ECE: {every.difference('after', 'before').percent:+.2f}")

# %% [markdown]
# Two methods differ {term}`beyond chance` if the interval of their difference excludes 0. How well can that work?
# {numref}`fig-metrics-paired` compares pairs of temperatures on an easy over-confident classifier, for which $T = 1.5$
# is best.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "On the same images, small differences are sharp far from calibration and blurred close to it. Difference in ECE of two temperatures (the second minus the first) on an easy over-confident classifier, 10,000 samples, in points: mean over test sets with one standard deviation, if both are measured on the same test set (blue) or on independent ones (grey). Diamonds: the true difference.", "name": "fig-metrics-paired"}, "image": {"alt": "Five pairs of temperatures. For 1.00 and 1.05 the blue bar is tiny and on the diamond; towards the best temperature 1.5 it grows and moves away from the diamond towards zero. The grey bars are wide everywhere."}}
pairs_of = ((1.0, 1.05), (1.2, 1.25), (1.4, 1.45), (1.45, 1.5), (1.5, 1.55))
rng, errors = np.random.default_rng([seed, 6, 7]), []
for _ in range(n_repeats):
    z, _, labels = draw("over-confident", 10_000, rng, easy)
    probs = {t: softmax(z / t, axis=1) for t in {t for pair in pairs_of for t in pair}}
    errors.append({t: ece(p, labels, n_bins=n_bins) for t, p in probs.items()})
errors, rows = 100 * pd.DataFrame(errors), []
for one, other in pairs_of:
    change, both = errors[other] - errors[one], errors[[one, other]]
    true = 100 * (true_error(1 / other, easy) - true_error(1 / one, easy))
    rows.append((change.mean(), change.std(), np.sqrt(both.var().sum()), true))
(mean, same, apart, true), y = np.array(rows).T, np.arange(len(rows))
fig, ax = plt.subplots(figsize=(6.5, 2.6))
style = {"color": plots.GREY, "linewidth": 2, "label": "independent test sets"}
ax.hlines(y, mean - apart, mean + apart, **style)
style = {"color": plots.BLUE, "linewidth": 6, "label": "the same test set"}
ax.hlines(y, mean - same, mean + same, **style)
ax.plot(true, y, "D", color=plots.RED, markersize=6, label="true")
ax.axvline(0, color="black", linestyle="--", linewidth=1)
ax.set_yticks(range(len(pairs_of)), [f"T = {a:.2f}, {b:.2f}" for a, b in pairs_of])
ax.invert_yaxis()
ax.set_xlabel("difference in ECE, points")
fig.legend(loc="outside upper center", ncols=3)
plt.show()

# %% [markdown]
# Far from calibration the labels drop out of the difference altogether. If all gaps have one sign, it is the difference
# of the two mean confidences. The first pair differs by many times its paired standard deviation, but by less than
# one standard deviation of independent test sets.
#
# Close to the best temperature, gaps have both signs. There pairing takes off less than half of the spread, and less
# than a third of the true difference is left, because both numbers are mostly bias. This is where good methods are
# compared with each other. So look at the NLL, too, which has no such bias and sees more
# ({numref}`tbl-metrics-pairs`).
#
# ## Why toolkits disagree
#
# "ECE with 15 bins" leaves three things open. They are which side of a bin is closed, where its edges lie in floating point, and
# what happens at exactly 1. On smooth confidences they hardly matter. On rounded ones they matter a lot. Here are
# thirty confidences, ten each of 0.7, 0.75 and 0.8, so with ten bins two thirds of them lie on an edge. The option
# `like` reproduces the binning of other packages:

# %% tags=["nbval-check-output"]
on_edges = np.repeat([0.7, 0.75, 0.8], 10), np.repeat([1, 1, 0, 1, 0], [10, 5, 5, 9, 1])
for package in (None, "torchmetrics", "netcal"):
    print(package, round(ece(*top_label(*on_edges), n_bins=10, like=package), 4))

# %% [markdown]
# {numref}`tbl-metrics-packages` adds the wavy sample (*smooth*), the same thirty confidences in float32, an ensemble of
# 20 that *votes*, so that every confidence is a multiple of 0.05, and *ones*, where half of the confidences are 0.95
# and half exactly 1.

# %% tags=["hide-input", "nbval-check-output"]
rng = np.random.default_rng([seed, 7])
votes = rng.integers(11, 21, 500) / 20
ones = np.repeat([0.95, 1.0], 20), np.repeat([1, 1, 0], [20, 16, 4])
inputs = {
    "smooth": sample["wavy"],
    "on edges": top_label(*on_edges),
    "same, float32": top_label(*on_edges, dtype=np.float32),
    "votes": top_label(votes, rng.random(500) < wave(votes)),
    "ones": top_label(*ones),
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
    "On the same predictions, packages differ by a factor of more than four. ECE, percent, 10 bins",
    "tbl-metrics-packages",
)

# %% [markdown]
# The answers differ for four reasons.
#
# - Bins are closed on the left in torchmetrics, netcal and relplot, on the right in the others.
# - torchmetrics and relplot give a confidence of exactly 1 a bin of its own.
# - Rounding decides on an edge. netcal computes an edge as 0.7000000000000001, so 0.7 falls below it. In float32 the
#   confidence 0.8 is slightly larger, above an edge that is kept in float64. And relplot divides, and 0.7 / 0.1 is 6.999… in
#   float64 only. So four packages change their answer between float64 and float32.
# - MAPIE has one bin fewer than it is asked for, so it differs even on smooth confidences.
#
# The rule of this book is $(a, b]$, with 1 in the last bin, and edges that are rounded once to the type of the input,
# so that both types give the same answer.
#
# With equal mass, the trouble is ties. `focal_calibration`, the code that the authors of three of this book's
# methods share (MbLS, ACLS and Neural Clamping), drops the smallest confidence and all that equal it. torch-uncertainty splits ties in the order of the
# samples, so shuffling the data changes the value.
#
# Last, one name stands for three quantities. "ACE" is class-wise with equal mass in the paper that coined it
# {cite:p}`nixon2019measuring`. torch-uncertainty and the tables of {cite:t}`tang2024neural` use it for the adaptive
# top-label ECE. netcal uses it for the plain mean of the gaps over the bins, however few samples they contain.

# %% tags=["hide-input", "nbval-check-output"]
bins = reliability_bins(*sample["wavy"], n_bins=n_bins)
class_wise, top = (f(*sample["wavy"], n_bins=n_bins) for f in (ace, adaptive_ece))
plain = np.nanmean(np.abs(bins.accuracy - bins.confidence))
prose(f"""
On the wavy sample the three are {100 * class_wise:.2f}%, {100 * top:.2f}% and
{100 * plain:.2f}%.
""")

# %% [markdown]
# When two papers disagree on a number, first compare the number of bins, the metric behind the name, and whether
# class-wise values are averaged, summed, or divided by class counts.
#
# ## Fit on val, report on test
#
# A metric that was used to choose something is no longer a measurement. We choose the temperature of the over-confident
# classifier (hard, best $T = 1.5$) from 41 values by the ECE on 500 samples. Then we report the ECE of the winner twice,
# on the 500 samples that chose it and on 500 new ones.

# %%
temperatures = np.linspace(1.0, 2.0, 41)
true = [true_error(1 / t, SCALE) for t in temperatures]
rng = np.random.default_rng([seed, 8])


def choose_and_report():
    """ECE of the chosen temperature: where it was chosen, on new samples, in truth."""
    z_val, _, y_val = draw("over-confident", 500, rng)
    z_test, _, y_test = draw("over-confident", 500, rng)
    scores = [
        ece(softmax(z_val / t, axis=1), y_val, n_bins=n_bins) for t in temperatures
    ]
    best = int(np.argmin(scores))
    p_test = softmax(z_test / temperatures[best], axis=1)
    return scores[best], ece(p_test, y_test, n_bins=n_bins), true[best]


reports = [choose_and_report() for _ in range(n_repeats // 2)]

# %% tags=["hide-input", "nbval-check-output"]
chosen, new, true = 100 * np.mean(reports, axis=0)
prose(f"""
On average over {n_repeats // 2} such choices, the winner has an ECE of {chosen:.2f}% on the
samples that chose it and of {new:.2f}% on new ones. Its true error is {true:.2f}%.
""")

# %% [markdown]
# The second number is too high by its bias, but honest, since any fixed temperature as good as this one would show it. The
# first is lower because the search has picked favourable noise.
#
# One parameter and 41 candidates suffice for that, and a method with a parameter for each class has far more room. So
# everything in this book is fitted on validation samples, `val`, and reported on others, `test`. Candidates are compared
# by NLL where possible, which has less noise and no bins.
#
# ## A real network
#
# Back to the ResNet-20. {numref}`fig-metrics-real` shows it on the whole test set. {numref}`tbl-metrics-real` puts the
# numbers next to those from only 500 of its images, drawn with the same share of each class. This is the first of three
# trainings. Other pages give their mean, which is {ours}`ece cifar10 resnet20 identity` uncalibrated and
# {ours}`ece cifar10 resnet20 temperature_scaling` with one temperature.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "One temperature brings a real network onto the diagonal. Reliability diagrams on all test images, before and after temperature scaling. On top: the images in each bin.", "name": "fig-metrics-real"}, "image": {"alt": "Two reliability diagrams of a real network with the counts of their bins on top, before and after temperature scaling: the bars come onto the diagonal."}}
both = {name: (probs, test_labels) for name, probs in real.items()}
pictures.reliability_row(both, n_bins=n_bins)
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
n_test = len(test_labels)
n_few = min(500, (n_test + 1) // 2)
drawn = datasets.subset(test_labels, n_few, seed=seed)
few = Comparison(test_labels[drawn], metrics, n_bins=n_bins, seed=seed)
for name, probs in real.items():
    few.add(name, probs[drawn])
columns, parts = {metric: ("", metric) for metric in metrics}, {}
for n, test, rows in ((n_test, every, slice(None)), (n_few, few, drawn)):
    change = estimates(test, ["after"], columns, base="before").set_axis(["change"])
    part = pd.concat([estimates(test, real, columns), change]).T
    for name, probs in real.items():
        scores = 100 * score_if_calibrated(probs[rows], 10 * n_repeats, n_bins=n_bins)
        of_null = f"{scores.mean():.2f}, at most {np.quantile(scores, 0.975):.2f}"
        part.loc["ECE of a calibrated network", name] = of_null
    parts[f"{n:,} images"] = part
table(
    pd.concat(parts),
    f"{n_test:,} images decide, {n_few} hardly do. Percent [95% interval], the NLL in nats. Last "
    "rows: mean and 97.5% quantile",
    "tbl-metrics-real",
    names=shown,
)

# %% tags=["hide-input", "nbval-check-output"]
before, after = (few.of(name).percent for name in real)
gain, few_gain = (test.difference("before", "after").percent for test in (every, few))
again = []
for i in range(n_repeats):
    rows = datasets.subset(test_labels, n_few, seed=seed + 1 + i)
    for name, probs in real.items():
        found = evaluate(probs[rows], test_labels[rows], metrics, n_bins=n_bins)
        again.append({"when": name, "draw": i} | found)
again = pd.DataFrame(again).set_index(["when", "draw"])
falls = 100 * (again.loc["after"] < again.loc["before"]).mean()
rest = {every.difference("before", "after", metric).above() for metric in metrics[1:]}
agree = "agree" if rest == {gain.above()} else "do not all agree"
settled = f"All {n_test:,} images settle"
if gain.above() == "not decided":
    settled = f"Even all {n_test:,} images do not settle"
takes, ends = "takes off", (gain.low, gain.high)
if gain.above() == "does not hold":
    takes, ends = "adds", (-gain.high, -gain.low)
size = {
    "holds": "The gain is clear, but not its size",
    "not decided": "Not even the gain is clear",
    "does not hold": "There is clearly no gain",
}[few_gain.above()]
best = ", and the NLL the best witness" if falls["nll"] == falls.max() else ""
text = f"""
{settled} the matter. Temperature scaling {takes} {ends[0]:.1f} to
{ends[1]:.1f} points of ECE. The other metrics {agree}, and the accuracy is untouched because
*T* = {scaling.temperature:.2f} keeps the order of the classes.

On {n_few} images the same network with the same *T* has an ECE of {after.value:.2f}% after
scaling, and a calibrated network scores {scores.mean():.2f}%. So the number tells
us next to nothing about what is left. {size}: it lies between
{few_gain.low:.1f} and {few_gain.high:.1f} points.

How typical is this draw of {n_few} images? We drew {n_repeats} more. The ECE falls in
{falls["ece"]:.0f}% of them, the class-wise ECE in {falls["classwise_ece"]:.0f}%, and the NLL in
{falls["nll"]:.0f}%. The class-wise error is mostly bias on so few images{best}.
"""
prose(text)

# %% [markdown]
# ## What it means for you
#
# - Calibration is honesty, not skill. A classifier that always outputs the class prior has no calibration error. So
#   always report a calibration error together with accuracy and a proper score.
# - Every calibration error looks at the top label, or at one class at a time. There is always a miscalibration that it
#   cannot see.
# - ECE is biased upwards, like the square root of bins over samples. Compare yours with what a calibrated classifier
#   would score, never with zero. New labels drawn from the probabilities themselves show it for any data set.
# - Give an interval, and not the percentile interval of a plain bootstrap, which lies too high.
# - Compare two methods on the same test set, with the interval of their difference. On independent test sets of 10,000
#   samples, half a point is rarely visible. Close to calibration it is rarely visible even in pairs. Then the NLL sees more.
# - Libraries differ where confidences meet edges, ones or ties. Ask for the rule.
# - Choose on `val`, report on `test`.
#
# | question | look at | next to it |
# |---|---|---|
# | Is this network calibrated? | reliability diagram, `ece` | what a calibrated network would score on as many samples |
# | Which of two corrections of one network is better? | paired difference of `nll` or `brier` | paired difference of `ece`, and `accuracy` |
# | Which of two networks is better? | `accuracy`, `nll` | `ece` of both, with intervals |
# | Are the probabilities of single classes right, rare ones too? | `classwise_ece`, `tace`, `reliability_bins(class_index=k)` | the number of labels per class |
# | How large is the error that is left after calibration? | `debiased_ece` | its interval, which is wide |
# | Fewer than 2,000 samples? | the comparison with a calibrated network, `smooth_ece` | nothing with more than 15 bins |
# | Is this printed number right? | the paper's own metric, bins and `like=` | the width of its interval |
#
# ## Exercises
#
# 1. A classifier for $K$ equally frequent classes always outputs $1/K$. Compute its ECE, NLL and Brier score by hand, and
#    compare with {numref}`tbl-metrics-blind`.
#
#    ```{dropdown} Solution
#    It predicts the first class, with confidence $1/K$, and is right on $1/K$ of the inputs, so the ECE is 0. The NLL is
#    $\log K$, here $\log 10 = 2.303$. The Brier score is $(1 - 1/K)^2 + (K - 1) / K^2 = 1 - 1/K$, here 0.9.
#    ```
#
# 2. Show that with unlimited samples, the binned ECE is at most $\mathrm{ECE}^\star$, for every choice of bins. Which
#    curve of {numref}`fig-metrics-bins` shows it?
#
#    ```{dropdown} Solution
#    With unlimited samples the gap of bin $r$, times its share, is
#    $\bigl| \mathbb{E} [ (\operatorname{acc}(\hat p) - \hat p) \, \mathbb{1}[\hat p \in B_r] ] \bigr|$. By the triangle
#    inequality it is at most $\mathbb{E} [ |\operatorname{acc}(\hat p) - \hat p| \, \mathbb{1}[\hat p \in B_r] ]$, and
#    these add up to $\mathrm{ECE}^\star$. The curve of the wavy classifier for $N = 10{,}000$ lies below the dashed line
#    while the bins are few.
#    ```
#
# 3. A paper reports an ECE of 0.96% for one method and 1.01% for another, from one run each on the same 10,000
#    images. Which of the numbers in this chapter do you need to judge the difference, and what would you ask the
#    authors for?
#
#    ```{dropdown} Solution
#    You need what a perfect network scores ({numref}`tbl-metrics-perfect`), because on a hard data set both may be perfect. And you
#    need the paired standard deviation near calibration (the lower rows of {numref}`fig-metrics-paired`), which is more than twice the difference. Ask for the
#    logits, which give the paired interval and the difference in NLL, and for more than one run.
#    ```
#
# 4. Replace each confidence of a test set by the accuracy of its bin, computed on the same test set. Show that the ECE
#    is then zero. What is the true error of the wavy classifier after this correction?
#
#    ```{dropdown} Solution
#    The new confidences take at most $M$ values, and among the samples that share one, the share of right predictions
#    equals it. A bin of the new confidences contains some of these groups, so its accuracy is its mean confidence. The true
#    error is the mean distance of a bin's measured accuracy from its true one,
#    $\sum_r w_r |\operatorname{acc}(B_r) - \mathbb{E} \operatorname{acc}(B_r)|$. That is the noise whose size
#    {eq}`eq-metrics-bias` gives, about two points with 2,000 samples and 15 bins. The ECE of zero was computed on the
#    samples that were fitted.
#    ```
#
# 5. No metric sees that B is miscalibrated. Find a function of $\mathbf{p}$ whose reliability diagram shows it. As a hint,
#    look at $p_0 - p_1$.
#
#    ```{dropdown} Solution
#    Compare $p_0 - p_1$ with $\mathbb{1}[y = 0] - \mathbb{1}[y = 1]$. The six permutations give six different values of
#    $p_0 - p_1$. At 0.3, 0.2 and -0.5 (even) the truth is 0.2 above it, at 0.5, -0.3 and -0.2 (odd) 0.2 below.
#    ```
#
# ## Details of the intervals
#
# How often are the intervals right, and what is the rule for differences? You need this section if you want to check our
# intervals, or build your own. {ref}`sec-intervals` has the same rules in the protocol.
#
# ### Coverage on small test sets
#
# A 95% interval should contain the truth for 95 of 100 test sets. We can count, since the truth is known, and begin with
# small test sets in {numref}`tbl-metrics-held`.


# %% tags=["hide-input", "nbval-check-output"]
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
    "The interval in use is near 95% in every row, the others are not. 95% intervals that contain the truth, "
    f"percent of {n_repeats} test sets of {n:,} samples",
    "tbl-metrics-held",
    digits=0,
    names=shown,
)

# %% [markdown]
# Accuracy and NLL keep the promise of 95%, within the chance of so many simulated test sets, however the interval is
# made. For the calibrated classifier no percentile interval of the ECE ever contains the truth, because no resample has an
# ECE of zero. The reflected interval is better there, but not right.
#
# The interval in use is near 95% in every row. Where the truth is zero it may be above, since only one of its ends can
# be wrong there. The debiased ECE is not compared with a calibrated classifier. Its interval begins at zero where the
# reflected one reaches it.
#
# ### Coverage at 10,000 images
#
# We ask the same question for test sets as large as this book's. The confidences are those of a real network, a ResNet-20 on
# CIFAR-10 after temperature scaling. A test set draws 10,000 of them with replacement. We choose the truth. The
# accuracy at confidence $c$ is $c - a \, c (1 - c)$, over-confident everywhere, or $c - a \, c (1 - c) \sin 4 \pi c$,
# which is wavy. Bisection finds the $a$ that makes the ECE of the whole population, in 15 bins, exactly 0, 0.5, 1 or
# 3%.
#
# This takes minutes, so the result is stored with the book. With `budget="paper"` it is measured again and compared with
# what is stored.

# %% tags=["hide-input"] mystnb={"figure": {"caption": "Only the interval in use contains the true ECE as often as a 95% interval should (dashed). Share of simulated test sets of 10,000 images whose interval contains it, against the true ECE.", "name": "fig-metrics-coverage"}, "image": {"alt": "Two panels, coverage of three kinds of interval against the true ECE: the one in use stays at the dashed 95 percent; the percentile interval falls to zero where the error is small, the reflected one to a half."}}
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
            test.add(name, top_label(confidence[rows], right, 10)[0])
        yield test


def single():
    """Share of intervals that contain the true ECE, percent."""
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


rerun = budget == "paper"
coverage = recorded("metrics/single", single, available=rerun, tolerance=0.7)
pairs = [(kind, float(true)) for kind, true in coverage.index.str.split()]
coverage.index = pd.MultiIndex.from_tuples(pairs)
fig, axes = plt.subplots(1, 2, figsize=(6.5, 2.8), sharey=True)
for ax, kind in zip(axes, ("over", "wavy"), strict=True):
    for name, marker in zip(coverage, "vso", strict=True):
        ax.plot(coverage.loc[kind, name], marker=marker, label=name)
    ax.axhline(95, color="black", linestyle="--", linewidth=1)
    ax.set(title=f"{kind}-confident" if kind == "over" else kind, xlabel="true ECE, %")
axes[0].set_ylabel("intervals that contain it, %")
axes[1].legend(loc="lower right")
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
prose(f"""
The percentile interval fails where methods of calibration end up, at 1% and below:
at a true ECE of 0.5% it contains the truth in {coverage["percentile"].loc[:, 0.5].max():.0f}%
of the test sets. The reflected interval falls short too, most of all at zero, with
{coverage["reflected"].loc[:, 0.0].min():.0f}%. The interval in use contains the truth in
{coverage["in use"].min():.0f}% or more of the 300 test sets of every kind.
""")

# %% [markdown]
# ### When is a paired difference beyond chance?
#
# Two methods differ *beyond chance* if the interval of their difference does not include 0. For a mean over samples, such
# as the NLL, that is the reflected interval.
#
# For a calibration error neither interval will do alone. The reflected one would often see a difference between two
# methods that are equally good, because it takes off too little of their biases. The percentile interval has the opposite
# fault, since it is too timid where there is a difference. A claim should survive both. So the interval of a difference of
# calibration errors is their *hull*, the smallest interval that contains both.
#
# One thing is left to repair. Near zero an ECE hardly falls with the true error, so the distance to a calibrated method
# looks smaller than it is. So if one method may already be calibrated (its interval starts at 0), we extend the
# interval of the difference, away from zero on the side of the other method, to at least $v + (h - l)$. Here $v$ is the difference,
# *other* minus *calibrated*, and $[l, h]$ its percentile interval.
#
# This moves no end across 0, so it never decides what is beyond chance. Both methods may be calibrated only if both
# intervals start at 0. Then we extend the interval of their difference to include 0.
#
# ### How often is a difference seen?
#
# The test takes the confidence $c$ of the same real network as the truth. Each of two methods outputs something else,
# bent until it has a given true ECE.
#
# - In three pairs both have the same true ECE, one erring up where the other errs down: over- and under-confident, two
#   temperatures below and above the best one (*too cold*, *too warm*), and two opposite waves.
# - In a fourth pair both are calibrated, but *coarse* outputs only five different values.
# - In four pairs the true ECEs are half a point or one point apart. Again, the result is stored.

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
    """What a method of that kind and true ECE outputs where c is true."""
    kind, _, percent = name.rpartition(" ")
    return with_error(float(percent) / 100, lambda size: (BENT[kind](c, size), c))[0]


def paired():
    """How often a paired difference is beyond chance, or its interval true."""
    c, found = population(), []
    outputs = {name: bent(c, name) for pair in PAIRS for name in pair}
    ece_of = {name: binned_error(confidence, c) for name, confidence in outputs.items()}
    for test in simulated(outputs, c, ["ece", "nll"], 200, 9):
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
pairs = recorded("metrics/paired", paired, available=rerun, tolerance=near).T
beyond, contains = "beyond chance, %", "interval contains it, %"
heads = [("difference", "true"), ("difference", "measured")]
heads += [(beyond, name) for name in SHARES[:4]]
heads += [(contains, name.removesuffix(" holds")) for name in SHARES[4:]]
shares = pairs[["true", "measured", *SHARES]]
table(
    shares.set_axis(pd.MultiIndex.from_tuples(heads), axis=1),
    "Equal methods rarely differ beyond chance, but real differences often do not either. Points, "
    "and shares of 200 test sets",
    "tbl-metrics-pairs",
    digits=1,
)

# %% [markdown]
# A row of {numref}`tbl-metrics-pairs` names two methods, each with its true ECE in percent. The difference is the
# second minus the first. In the first three rows it is zero. There the reflected interval sees a difference far too
# often, and the interval in use in no more than the allowed 5%. (The two waves have equal ECEs but not quite equal
# NLLs, hence the NLL's entry in the third row.)
#
# In the fourth row the percentile interval reports a difference in most test sets, because a method that outputs only a
# few distinct confidences has a smaller bias. Our interval includes 0 there, since both methods may be calibrated. It
# gives no such protection when neither is.
#
# The other rows show the price. A true difference of half a point is rarely beyond chance, and a whole point in about a
# quarter of the test sets. These are shares for two corrections of one ResNet-20, on the same 10,000 images. On a
# network with fewer errors half a point is seen more often ({ref}`sec-power`).
#
# The NLL sees more in each of these rows. So **methods equally good and equally sharp rarely differ beyond chance, but
# a difference that may be chance can also be real**. Then look at the NLL.
#
# The last two columns show why the ends are moved: where only one method is calibrated, the hull contains the true difference in
# little more than half of the test sets.
#
# ### Many comparisons
#
# A paper's claim is rarely one comparison. "Better than six other methods on three data sets" is 18, and of 18 tests at
# 5% one is likely to come out by chance alone. So the $p$-values of a family of comparisons are corrected together, by
# the method of {cite:t}`holm1979simple`. The smallest of 18 must be below $0.05 / 18$, the next one below $0.05 / 17$,
# and so on until one is not.
#
# The chance of even one false "beyond chance" in the family is then at most 5%, however the comparisons depend on each
# other. {ref}`sec-verdicts` says which printed numbers of a paper go together.
#
# (sec-metrics-alike)=
# ### Dependent samples
#
# All this takes the samples as independent. The pixels of an image are not, nor are the frames of a video, such as
# CamVid's street scenes. With `groups` the bootstrap draws together what belongs together, for CamVid ten successive
# frames.

# %% tags=["hide-input", "nbval-check-output"]
street = Network("camvid", "deeplabv3_resnet34", "mbls").logits()
probs = softmax(street.test_logits, axis=1)
gap = probs.max(1) - (probs.argmax(1) == street.test_labels)
gap = gap.reshape(-1, inference.PIXELS).mean(1)  # of each frame
video, block = np.zeros(len(gap), int), street.test_groups[:: inference.PIXELS]
video[datasets.DATASETS["camvid"].films[1] :] = 1


def correlation(values, of_video, ahead):
    """Correlation of values with those so far ahead in the same video."""
    same = of_video[:-ahead] == of_video[ahead:]
    return np.corrcoef(values[:-ahead][same], values[ahead:][same])[0, 1]


blocks = pd.DataFrame({"gap": gap, "video": video}).groupby(block).mean()
prose(f"""
On CamVid, the gap between confidence and accuracy in one frame has a correlation of
{correlation(gap, video, 1):.2f} with the gap in the next, and still
{correlation(gap, video, 10):.2f} ten frames later. Even the means of neighbouring ten-frame
blocks correlate by {correlation(blocks["gap"].to_numpy(), blocks["video"].to_numpy(), 1):.2f},
so our intervals may be too narrow. Longer blocks would help, but would leave fewer than the
{len(blocks)} to resample.
""")
