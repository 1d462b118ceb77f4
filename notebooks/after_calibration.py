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
# # After calibration: sets and abstention
#
# A calibrated classifier with a confidence of 0.7 is right in 70% of such cases. What do you do with the other 30%? Two
# tools build on probabilities. *Conformal prediction* answers with a set of classes that contains the label as often as
# you ask for. *Selective prediction* answers only where the classifier is confident. This chapter runs both before and
# after temperature scaling. At the end you can
#
# - prove the promise of conformal prediction, and say what it does not promise,
# - say what calibration adds to a promise that holds without it,
# - read a risk-coverage curve, and say whether a temperature can change it.

# %% tags=["parameters"]
budget = "smoke"  # nothing is trained here, whatever the budget
networks = ["cifar10/resnet20-cross_entropy-s0", "cifar100/resnet20-cross_entropy-s0"]
alpha = 0.1  # how often a set may miss the label
n_splits = 10  # random halves of the test images: one for the quantile, one to look at
n_resamples = 200  # bootstrap resamples of the test images
seed = 0  # of the halves, the resamples and the randomised sets

# %% tags=["hide-input"]
from book.kit import notebook

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    networks=[str],
    alpha=notebook.Real(0.001, 0.5),
    n_splits=range(2, 1001),
    n_resamples=range(20, 10_001),
    seed=range(2**31),
)

from itertools import cycle, product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from scipy.stats import kendalltau

from book.kit.notebook.display_names import shown, titles_of
from book.kit.notebook.prose import prose
from book.kit.notebook.table import table
from calibkit import Identity, TemperatureScaling, plots
from calibkit.conformal import SCORES, ConformalSets, coverage, set_size
from calibkit.metrics import aurc, risk_coverage
from calibkit.metrics.comparison import Estimate

plots.use_style()
torch.set_num_threads(1)
short = dict(zip(networks, titles_of(networks), strict=True))
stored = {short[name]: notebook.logits_of(name, named="networks") for name in networks}

# %% [markdown]
# ## A promise that needs no calibration
#
# Take any number $s(\mathbf{x}, k)$ that is large where class $k$ does not fit the input $\mathbf{x}$. The simplest is
# $1 - p_k$. Compute it for the labels of $n$ held-out samples. A new sample gets all classes that fit no worse than most
# of those labels did:
#
# $$
# C(\mathbf{x}) = \{k : s(\mathbf{x}, k) \le \hat q\},
# $$ (eq-after-set)
#
# where $\hat q$ is the $r$-th smallest of $s(\mathbf{x}_1, y_1), \dots, s(\mathbf{x}_n, y_n)$, with
# $r = \lceil (n + 1)(1 - \alpha) \rceil$.
#
# **Why it holds.** Put the new sample with its label among the $n$. If all $n + 1$ are drawn independently from one
# distribution, the score of the new one is as likely to be the smallest as the second smallest, and so on to the
# largest. So it is among the smallest $r$ with probability $r / (n + 1)$, or more if scores tie.
#
# That probability is at least $1 - \alpha$, and a score among the smallest $r$ means that the label is in the set
# {cite:p}`vovk2005algorithmic`. Nothing was assumed about the classifier. It may be miscalibrated or simply bad, and
# then its sets are large.
#
# Here are nine held-out samples by hand, each with the probability of its label. With the score $1 - p_k$, called `lac`
# in the output, they give a threshold $\hat q$ at each of three levels:

# %% tags=["nbval-check-output"]
label_probs = np.array([0.9, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.1])
held_out = np.stack([label_probs, 1 - label_probs], axis=1)
labels = np.zeros(9, dtype=int)
for miss in (0.3, 0.1, 0.05):
    print(ConformalSets(miss).fit(held_out, labels))

# %% [markdown]
# The ranks are 7, 9 and, at $\alpha = 0.05$, 10. So the tenth of nine scores is asked for. Nine samples cannot guarantee
# one miss in twenty, whatever they look like. The only set that keeps that promise contains all classes. A smaller one
# takes at least $n = 1 / \alpha - 1$ samples.
#
# ## Two scores
#
# - *LAC*, least ambiguous classes {cite:p}`sadinle2019least`, has $s = 1 - p_k$. The set contains all classes above one
#   threshold. Of all rules with the same coverage it has the smallest sets, if the probabilities are right.
# - *APS*, adaptive prediction sets {cite:p}`romano2020classification`, ranks the classes of a sample by falling
#   probability. Then $s$ is the mass up to and including $k$, minus $u \, p_k$ with $u$ uniform on $[0, 1)$. The set takes
#   classes from the top until it has enough mass, few where the classifier is confident and many where it is not. The
#   last class is included at random, so that coverage does not overshoot the target. In code this is
#   `score="randomized_aps"`.
#
# In code, with labelled logits that neither the network nor the temperature has seen:

# %%
data = stored[list(stored)[0]]
probs = TemperatureScaling().fit(*data.val)(data.test.logits)
held_out = np.random.default_rng(seed).random(len(probs)) < 0.5
conformal = ConformalSets(alpha, score="lac")
conformal.fit(probs[held_out], data.test.labels[held_out])
sets = conformal(probs[~held_out])  # (M, K): which classes are in each set

# %% mystnb={"figure": {"caption": "The set grows where the classifier is unsure. Three test images, their probabilities in percent after temperature scaling, and the threshold of LAC (dashed). Blue: in the set.", "name": "fig-after-three"}, "image": {"alt": "Three bar charts of ten classes with the same dashed threshold: in the first one class lies above it, in the second two, in the third three."}} tags=["hide-input"]
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()
classes = CIFAR10 if data.n_classes == 10 else [*range(data.n_classes)]
new, sizes, rng = probs[~held_out], sets.sum(1), np.random.default_rng(seed)
shown_sizes = np.unique(sizes[sizes > 0])[:3]
_, axes = plt.subplots(1, 3, figsize=(7, 2.4), sharex=True, sharey=True)
for ax, size in zip(axes, shown_sizes, strict=False):
    i = rng.choice(np.flatnonzero(sizes == size))
    colors = np.where(sets[i], plots.BLUE, plots.GREY)
    ax.barh(range(len(classes)), 100 * new[i], color=colors)
    ax.axvline(100 * (1 - conformal.threshold), color=plots.BLACK, linestyle="--")
    truth = classes[data.test.labels[~held_out][i]]
    ax.set(title=f"label: {truth}", xlim=(0, 100), xlabel="probability (%)")
    ax.grid(axis="y", visible=False)
axes[0].set_yticks(range(len(classes)), classes)
axes[0].invert_yaxis()
plt.show()

# %% [markdown]
# Now the experiment. The temperature is fitted on validation images. The test images are split into random halves, one
# for $\hat q$ and one to measure the coverage, the share of labels in their sets. The halves must be different, because images
# to which anything was fitted no longer behave like new ones.

# %% tags=["hide-input", "nbval-check-output"]
fits = {
    name: {
        "before": Identity().fit(*data.val),
        "after": TemperatureScaling().fit(*data.val),
    }
    for name, data in stored.items()
}
probs = {
    name: {when: fit(stored[name].test_logits) for when, fit in both.items()}
    for name, both in fits.items()
}
NAMES = {"lac": "LAC", "randomized_aps": "APS"}


def named(text):
    """What the tables and pictures show for a key."""
    return NAMES.get(text) or shown(text)


def halves(n):
    """Random halves of n rows, the same in every table."""
    rng = np.random.default_rng([seed, n])
    for _ in range(n_splits):
        order = rng.permutation(n)
        yield order[: n // 2], order[n // 2 :]


rows = []
for name, data in stored.items():
    y, classes = data.test_labels, range(data.n_classes)
    for (when, p), score in product(probs[name].items(), NAMES):
        for split, (fit, new) in enumerate(halves(len(y))):
            conformal = ConformalSets(alpha, score=score, seed=seed)
            sets = conformal.fit(p[fit], y[fit])(p[new])
            by_class = np.full(len(classes), np.nan)  # of a class without a label
            for k in np.unique(y[new]):
                by_class[k] = 100 * sets[y[new] == k, k].mean()
            row = {"network": name, "score": score, "T": when, "split": split}
            row["coverage"] = 100 * coverage(sets, y[new])
            row |= {"size": set_size(sets), "threshold": conformal.threshold}
            rows.append(row | {"by class": by_class})
runs = pd.DataFrame(rows)
keys = ["network", "score", "T"]
measured = ["coverage", "size", "threshold"]
means = runs.groupby(keys, sort=False)[measured].mean().unstack("T")
heads = list(product(("before", "after"), measured))
table(
    means.swaplevel(axis=1)[heads].rename_axis(index=[None, None]),
    f"Coverage is what was asked for, {100 * (1 - alpha):g}%, before and after temperature "
    f"scaling. Percent of labels in their sets, and mean size, as means of {n_splits} halves",
    "tbl-after-sets",
    digits={"coverage": 1, "size": 2, "threshold": 3},
    names=named,
)

# %% tags=["hide-input", "nbval-check-output"]
sizes = runs.pivot(index=["network", "score", "split"], columns="T", values="size")
growth = 100 * (sizes["after"] / sizes["before"] - 1).groupby(level=[0, 1]).mean()
of_lac, of_aps = (growth.xs(score, level="score").loc[list(stored)] for score in NAMES)
aps_text = " and ".join(
    f"{growth:+.0f}% ({shown(name)})" for name, growth in of_aps.items()
)
prose(f"""
**The coverage is right before and after,** because the promise never looked at the probabilities.
What a temperature can change is the size of the sets. Those of LAC change by less than
{np.floor(of_lac.abs().max()) + 1:.0f}%. Those of APS change by {aps_text}.
""")

# %% [markdown]
# **LAC** hardly notices. It compares probabilities of different images with one threshold, and $\hat q$ moves along with
# them. With two classes the sets are even exactly the same. With more, a temperature reorders pairs of image and class,
# because the other logits of an image enter through the sum of the softmax. The best order is the order of the true
# probabilities, so the fitted temperature is near the best for LAC.
#
# **APS** ranks within an image, which no temperature changes, and adds up mass, which it does change. At $T > 1$ more
# mass lies in the tail, so the sets that collect it grow. Others have found this on
# many networks {cite:p}`dabah2025temperature,xi2025confidence`. The latter fit $T$ for small sets. If small sets are all
# you want, LAC is the better choice at either temperature.
#
# ## What calibration adds
#
# Now leave out the held-out half and believe the classifier. With APS, take classes until 90% of *its own* mass is in
# the set, $\hat q = 1 - \alpha$. If every probability is right, not only the confidence, that is enough.
#
# **Plot the threshold $\hat q$ of APS against $1 - \alpha$, and you have a reliability diagram for all classes.** The
# score of the label is the mass ranked above it, plus a random part of its own, so $\hat q$ is how much mass has to be
# collected to catch a share $1 - \alpha$ of the labels. If labels are drawn from $\mathbf{p}$, the two are equal at
# every level, which is the diagonal.

# %% mystnb={"figure": {"caption": "Calibration makes the classifier's own mass nearly enough, and it does so at every level. Left: the threshold of APS against the coverage asked for. Above the diagonal more mass is needed than the classifier believes. Right: mean size of the sets that keep the promise, relative to their size at the fitted temperature (dotted). LAC's are smallest about there, those of APS grow with the temperature.", "name": "fig-after-sets"}, "image": {"alt": "Left: four curves of the threshold against the coverage asked for, those before calibration bent above the diagonal, those after close to it. Right: size of the sets against the temperature, four curves that meet at one at the fitted temperature."}} tags=["hide-input"]
_, axes = plt.subplots(1, 2, figsize=(7, 3.2))
levels = np.linspace(0.02, 0.98, 49)
colors = dict(zip(stored, cycle((plots.BLUE, plots.ORANGE, plots.GREEN))))
for name, data in stored.items():
    for when, line in (("before", "--"), ("after", "-")):
        u = np.random.default_rng([seed, 1]).random((len(data.test_labels), 1))
        scores = SCORES["randomized_aps"](
            torch.from_numpy(probs[name][when]), torch.from_numpy(u)
        )
        of_label = scores.numpy()[np.arange(len(u)), data.test_labels]
        label = f"{shown(name)}, {when}"
        axes[0].plot(
            levels, np.quantile(of_label, levels), line, color=colors[name], label=label
        )
    best = fits[name]["after"].temperature
    temperatures = best * np.geomspace(0.4, 2, 9)
    fit, new = next(halves(len(data.test_labels)))
    for score, marker in {"lac": "o-", "randomized_aps": "s--"}.items():
        found = []
        for t in [best, *temperatures]:
            p = softmax(data.test_logits.astype(float) / t, axis=1)
            conformal = ConformalSets(alpha, score=score, seed=seed)
            found.append(set_size(conformal.fit(p[fit], data.test_labels[fit])(p[new])))
        relative = np.array(found[1:]) / found[0]
        label = f"{shown(name)}, {NAMES[score]}"
        axes[1].plot(
            temperatures / best, relative, marker, color=colors[name], label=label
        )
axes[0].plot([0, 1], [0, 1], ":", color=plots.BLACK)
axes[0].set(xlabel=r"asked for, $1 - \alpha$", ylabel=r"threshold $\hat q$")
axes[1].axvline(1, color=plots.BLACK, linestyle=":")
axes[1].set(
    xscale="log", xlabel="temperature / fitted one", ylabel="relative size of the sets"
)
axes[1].set_xticks([0.4, 0.7, 1, 2], ["0.4", "0.7", "1", "2"])
axes[1].minorticks_off()
for ax in axes:
    ax.legend()
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
found = {}
for name, data in stored.items():
    for when, p in probs[name].items():
        own = ConformalSets(alpha, score="randomized_aps", seed=seed)
        own.fit(p, data.test_labels)  # starts the generator
        own.threshold = 1 - alpha  # in place of the quantile
        sets = own(p)
        found[name, when] = {"coverage, %": 100 * coverage(sets, data.test_labels)}
        found[name, when]["size"] = set_size(sets)
table(
    pd.DataFrame(found).T,
    f"Sets with {100 * (1 - alpha):g}% of an uncalibrated classifier's own mass miss too many "
    "labels. Percent of labels in their sets, and mean size",
    "tbl-after-own",
    names=shown,
)

# %% [markdown]
# Before temperature scaling the classifier's own sets miss more labels than they should. After it they are close. So the
# two tools do not compete. Calibration makes the number that a user reads true, for every level at once, as far as one
# temperature can. Conformal prediction makes one statement exact, at one level, whatever the probabilities are.
#
# ## What is not promised
#
# The promise is kept on average over all images. It was not made to each class. Look at the class that is covered least:

# %% tags=["hide-input", "nbval-check-output"]
of_class = runs.groupby(keys, sort=False)["by class"]
of_class = of_class.agg(lambda arrays: pd.DataFrame([*arrays]).mean().min())
table(
    of_class.unstack("T").rename_axis(index=[None, None]),
    "The worst class gets less than was promised on average. Percent of its labels in their "
    f"sets, means of {n_splits} halves",
    "tbl-after-worst",
    digits=1,
    names=named,
)

# %% [markdown]
# Of 100 classes the worst is in part the unluckiest, as each has a hundred test images. With ten classes of a thousand
# images it is not chance. LAC, with the smallest sets on average, leaves the hardest class far short of what was asked
# for. The larger sets of APS spend their size there, and on CIFAR-10 more so after calibration.
# {cite:t}`dabah2025temperature` found the same for the coverage of each class.
#
# And if tomorrow's images are not drawn like the held-out half, there is no promise at all. The chapter on
# {doc}`temperature_scaling` shows shifts that break a temperature. They break $\hat q$ as well.
#
# ## Answer or abstain
#
# *Selective prediction* {cite:p}`elyaniv2010foundations,geifman2017selective` sorts the images by confidence and
# answers only the most confident ones. *Coverage* is now the share of images that get an answer, and *risk* the share
# of wrong answers among them. Risk drawn against coverage is the *risk-coverage curve*.
#
# The area under it, AURC {cite:p}`geifman2019bias`, is the mean risk over all coverages, from answering only the most
# confident image to answering all of them. It is small if the classifier makes few mistakes and is least confident
# where it makes them.
#
# Only the order of the images counts. With two classes no temperature changes it. With more it can:

# %% tags=["nbval-check-output"]
two = np.array([[2.0, 0.0, -9.0], [2.3, 0.0, 0.0]])  # two images, three classes
for t in (0.3, 1.0, 3.0):
    print(softmax(two / t, axis=1).max(1).round(4))

# %% [markdown]
# The first image has one rival class, the second has two that are further away. A small $T$ sees only the distance to the
# nearest rival, a large one counts how many there are. So a temperature, fitted for the sake of calibration, may improve
# the order or spoil it. On the stored networks it does neither:

# %% mystnb={"figure": {"caption": "Temperature scaling hardly changes which images are answered first. Risk-coverage curves: the error among the answered images against the share that is answered. The curves before (dashed) and after coincide almost everywhere.", "name": "fig-after-risk"}, "image": {"alt": "Risk against coverage, one panel per network: the dashed curve before temperature scaling and the solid one after it nearly coincide and rise to the right."}} tags=["hide-input"]
_, axes = plt.subplots(1, len(stored), figsize=(7, 2.8), squeeze=False)
for ax, (name, both) in zip(axes[0], probs.items(), strict=True):
    for (when, p), line in zip(both.items(), ("--", "-"), strict=True):
        covered, risk = risk_coverage(p, stored[name].test_labels)
        some = covered > 0.05
        x, y = 100 * covered[some], 100 * risk[some]
        ax.plot(x, y, line, color=colors[name], label=when)
    ax.set(xlabel="answered (%)", ylabel="wrong among them (%)", ylim=(0, None))
    ax.set_title(shown(name))
    ax.legend()
plt.show()

# %% tags=["hide-input", "nbval-check-output"]
sentences, clear = [], 0
for name, both in probs.items():
    y = stored[name].test_labels
    tau = kendalltau(*(p.max(1) for p in both.values())).statistic
    before, after = (aurc(p, y) for p in both.values())
    rng, drawn = np.random.default_rng([seed, 2]), []
    for _ in range(n_resamples):
        some = rng.integers(0, len(y), len(y))
        drawn.append(np.subtract(*(aurc(p[some], y[some]) for p in both.values())))
    change = Estimate(after - before, *-np.quantile(drawn, [0.975, 0.025])).percent
    sentences.append(
        f"On {shown(name)} {50 * (1 - tau):.1f}% of the pairs of images change places, and the "
        f"AURC of {100 * before:.2f}% changes by {change:+.2f} points."
    )
    clear += change.below() == "holds"
gain = f"a clear gain on {clear} of {len(probs)} networks" if clear else "no clear gain"
prose(" ".join([*sentences, f"**We see {gain}.**"]))

# %% [markdown]
# What calibration gives is a risk that you can foresee. Answer where the confidence is at least 0.9, and the share of wrong answers to expect is one minus their mean
# confidence. {numref}`tbl-after-risk` compares it with the true one.

# %% tags=["hide-input", "nbval-check-output"]
found = {}
for name, both in probs.items():
    for when, p in both.items():
        sure = p.max(1) >= 0.9
        wrong = p[sure].argmax(1) != stored[name].test_labels[sure]
        expects = {"answered": sure.mean(), "risk expected": 1 - p[sure].max(1).mean()}
        found[name, when] = expects | {"risk": wrong.mean()}
table(
    100 * pd.DataFrame(found).T,
    "After temperature scaling the risk is nearly as expected. Images with a confidence of at "
    "least 0.9, in percent",
    "tbl-after-risk",
    digits=1,
    names=shown,
)

# %% [markdown]
# ## Which tool when
#
# | you need | take |
# |---|---|
# | a probability that a person or a next step reads | calibration |
# | "the label is among these, nine times in ten", on average over all inputs | `ConformalSets`, calibrated or not |
# | the smallest such sets | `score="lac"` |
# | sets that are large where the input is hard, and fairer to hard classes | `score="randomized_aps"`, after calibration |
# | the promise from few samples | at least $1 / \alpha - 1$ of them, where the coverage of one held-out set of $n$ varies by about $\sqrt{\alpha (1 - \alpha) / n}$ |
# | to abstain on the hardest inputs | the confidence, with or without a temperature, and the lowest `aurc` to choose between classifiers |
# | to know how many answers will be wrong | calibration, then one minus the mean confidence of what you answer |
#
# Calibration and sets together need three disjoint parts of the data, one for the network, one for the calibrator and one
# for the quantile. With one temperature for 5,000 images it would do little harm to use the second part twice, but then
# the proof is gone.
#
# ## Exercises
#
# 1. Show that for $K = 2$ the sets of LAC are the same at every temperature. Where does the proof need that the
#    threshold is refitted?
#
#    ```{dropdown} Solution
#    $p_k = \sigma(u_k / T)$, with the sigmoid $\sigma$ and $u_k$ the logit of class $k$ minus the other one. It rises with $u_k$ at every $T$, so the
#    scores of all pairs of image and class keep their order. The $r$-th smallest is that of the same held-out image, with
#    $u^\star$, and the sets are $\{k : u_k \ge u^\star\}$. A threshold that stays where it is gives
#    $\{k : u_k \ge T \sigma^{-1}(1 - \hat q)\}$ instead, which depends on $T$.
#    ```
#
# 2. Without randomisation ($u = 1$) the score of APS is the mass ranked before $k$. At $\alpha$ larger than the error of
#    the classifier it has $\hat q = 0$. What are its sets, and their coverage? Compare with LAC.
#
#    ```{dropdown} Solution
#    The score of a label that was predicted is 0, since no mass is ranked before it, and more than $1 - \alpha$ of the
#    labels are predicted. So each set is the predicted class alone, and the coverage is the accuracy, more than was asked
#    for. LAC keeps to $1 - \alpha$: it leaves the set empty where the confidence is below its threshold, and abstains.
#    ```
#
# 3. A classifier that says the true $P(y \mid \mathbf{x})$ is right on 70% of the images. Can a better confidence than
#    its largest probability lower its AURC?
#
#    ```{dropdown} Solution
#    Not on average. The risk of an answer to $\mathbf{x}$ is $1 - \max_k P(k \mid \mathbf{x})$. At each coverage the mean of
#    these risks is smallest when the images with the largest probabilities are answered. Only someone who knows more
#    about the image than $\mathbf{x}$, or the draw of a finite test set, can do better.
#    ```
