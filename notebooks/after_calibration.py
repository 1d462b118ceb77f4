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
# A calibrated classifier says 0.7 and is right in 70% of such cases. What does one do with the other 30%? Two tools
# build on probabilities. *Conformal prediction* answers with a set of classes that holds the label as often as was asked
# for. *Selective prediction* answers only where the classifier is confident. This chapter runs both before and after
# temperature scaling. At the end you can
#
# - prove the promise of conformal prediction, and say what it does not promise;
# - say what calibration adds to a promise that holds without it;
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
    networks=str,
    alpha=notebook.Real(0.001, 0.5),
    n_splits=range(2, 1001),
    n_resamples=range(20, 10_001),
    seed=range(2**31),
)

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown
from scipy.special import softmax
from scipy.stats import kendalltau

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import table
from calibkit import Identity, TemperatureScaling, ece, plots
from calibkit.conformal import SCORES, ConformalSets, coverage, set_size
from calibkit.metrics import aurc, risk_coverage
from calibkit.metrics.comparison import Estimate

plots.use_style()
torch.set_num_threads(1)
stored = {name.split("/")[0]: notebook.logits_of(name) for name in networks}

# %% [markdown]
# ## A promise that needs no calibration
#
# Take any number $s(\mathbf{x}, k)$ that is large where class $k$ does not fit the input $\mathbf{x}$; the simplest is
# $1 - p_k$. Compute it for the labels of $n$ held-out samples. A new sample gets all classes that fit no worse than most
# of those did:
#
# $$
# C(\mathbf{x}) = \{k : s(\mathbf{x}, k) \le \hat q\},
# $$ (eq-after-set)
#
# where $\hat q$ is the $r$-th smallest of $s(\mathbf{x}_1, y_1), \dots, s(\mathbf{x}_n, y_n)$, with
# $r = \lceil (n + 1)(1 - \alpha) \rceil$.
#
# **Why it holds.** Put the new sample with its label among the $n$. If all $n + 1$ are drawn alike, the score of the new
# one is as likely to be the smallest as the second smallest, and so on to the largest. So it is among the smallest $r$
# with probability $r / (n + 1)$, or more if scores tie. That is at least $1 - \alpha$, and it is the same event as "the
# label is in the set" {cite:p}`vovk2005algorithmic`. Nothing was assumed about the classifier. It may be miscalibrated,
# or bad; then its sets are large.
#
# Nine held-out samples by hand, each with the probability of its label:

# %% tags=["nbval-check-output"]
label_probs = np.array([0.9, 0.8, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.1])
held_out = np.stack([label_probs, 1 - label_probs], axis=1)
labels = np.zeros(9, dtype=int)
rows = {}
for miss in (0.3, 0.1, 0.05):
    threshold = ConformalSets(miss).fit(held_out, labels).threshold
    which = f"p ≥ {1 - threshold:.1f}" if threshold < np.inf else "all"
    ends = f"{threshold:.1f}" if threshold < np.inf else "∞"
    rows[f"α = {miss}"] = {"threshold": ends, "classes in the set": which}
table(pd.DataFrame(rows).T, "Which sets do nine samples ask for?", "tbl-after-nine")

# %% [markdown]
# The ranks are 7, 9 and, at $\alpha = 0.05$, 10: the tenth of nine scores is asked for. Nine samples cannot guarantee one
# miss in twenty, whatever they look like, and the only set that keeps the promise is that of all classes. From
# $n = 1 / \alpha - 1$ samples on there is a choice.
#
# ## Two scores
#
# - *LAC*, least ambiguous classes {cite:p}`sadinle2019least`: $s = 1 - p_k$. All classes above one threshold. Of all
#   rules with the same coverage it has the smallest sets, if the probabilities are right.
# - *APS*, adaptive prediction sets {cite:p}`romano2020classification`: the classes of a sample are ranked by falling
#   probability, and $s$ is the mass ranked before $k$. The classes are taken from the top until their sum exceeds the
#   threshold: few where the classifier is sure, many where it is not.
# - *Randomised APS*: the mass up to and including $k$, minus $u \, p_k$ with $u$ uniform on $[0, 1)$. The last class is
#   in by chance, so that a set need not hold more than was asked for.
#
# The temperature is fitted on validation images. The test images are cut into random halves: one for $\hat q$, one to
# count. They must be different: images to which anything was fitted are not drawn like new ones.

# %% tags=["nbval-check-output"]
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


def halves(n):
    """Random halves of n rows, the same in every table."""
    rng = np.random.default_rng([seed, n])
    for _ in range(n_splits):
        order = rng.permutation(n)
        yield order[: n // 2], order[n // 2 :]


rows = []
for name, data in stored.items():
    y, classes = data.test_labels, range(data.n_classes)
    for (when, p), score in product(probs[name].items(), SCORES):
        for split, (fit, new) in enumerate(halves(len(y))):
            conformal = ConformalSets(alpha, score=score, seed=seed)
            sets = conformal.fit(p[fit], y[fit])(p[new])
            by_class = [100 * sets[y[new] == k, k].mean() for k in classes]
            row = {"network": name, "score": score, "T": when, "split": split}
            row["coverage"] = 100 * coverage(sets, y[new])
            row |= {"size": set_size(sets), "threshold": conformal.threshold}
            rows.append(row | {"by class": np.array(by_class)})
runs = pd.DataFrame(rows)
keys = ["network", "score", "T"]
measured = ["coverage", "size", "threshold"]
means = runs.groupby(keys, sort=False)[measured].mean().unstack("T")
heads = list(product(("before", "after"), measured))
means = means.swaplevel(axis=1)[heads]
NAMES = {"lac": "LAC", "aps": "APS", "randomized_aps": "randomised APS"}


def named(text):
    """What the tables and pictures show for a key."""
    return NAMES.get(text) or shown(text)


table(
    means.rename_axis(index=[None, None]),
    f"How large are sets that hold {100 * (1 - alpha):g}% of the labels? "
    f"Before and after temperature scaling, means of {n_splits} halves",
    "tbl-after-sets",
    digits={"coverage": 1, "size": 2, "threshold": 3},
    names=named,
)

# %% tags=["hide-input", "nbval-check-output"]
sentences = []
for name, both in fits.items():
    before, after = (
        100 * ece(p, stored[name].test_labels) for p in probs[name].values()
    )
    sentences.append(
        f"On {shown(name)}, *T* = {both['after'].temperature:.2f} takes the ECE "
        f"from {before:.1f}% to {after:.1f}%."
    )
Markdown(" ".join(sentences))

# %% [markdown]
# **The coverage is about 90% before and after:** the promise never looked at the probabilities. What a
# temperature can change is the size of the sets that keep it. {numref}`tbl-after-growth` says how much, half by half.

# %% tags=["nbval-check-output"]
sizes = runs.pivot(index=["network", "score", "split"], columns="T", values="size")
growth = (100 * (sizes["after"] / sizes["before"] - 1)).unstack("split")
growth = growth.loc[list(stored)].reindex(list(SCORES), level="score")
ends = {"mean": growth.mean(axis=1), "least": growth.min(axis=1)}
table(
    pd.DataFrame(ends | {"most": growth.max(axis=1)}).rename_axis(index=[None, None]),
    "By how many percent does temperature scaling enlarge the sets?",
    "tbl-after-growth",
    digits=1,
    names=named,
)

# %% [markdown]
# **LAC** hardly notices. It compares probabilities of different images with one threshold, and $\hat q$ moves along with
# them. With two classes the sets are the same to the last one, since $\sigma(d / T)$ rises with the difference $d$ of the logits. With
# more, a temperature reorders pairs of image and class, because the other logits of an image enter through the sum of
# the softmax. The best order is that of the true probabilities, so the fitted temperature is near the best for LAC; the
# figure below shows that only temperatures far from it, on either side, give larger sets.
#
# **APS** ranks within an image, which no temperature changes, and adds up mass, which it does change. At $T > 1$ more
# mass lies in the tail, and the randomised sets, which collect it up to the threshold, grow. Others have found this on
# many networks {cite:p}`dabah2025temperature,xi2025confidence`; the latter fit $T$ for small sets. For small sets alone,
# LAC is the better choice at either temperature.
#
# ## What calibration adds
#
# Now leave out the held-out half and believe the classifier: take classes until 90% of *its own* mass is in the set,
# $\hat q = 1 - \alpha$. If the classifier is calibrated, in full, that is enough: given $\mathbf{x}$, the label is
# distributed as $\mathbf{p}$, so the randomised score of the label is uniform on $[0, 1]$ and its quantiles are what
# they say. **For randomised APS, $\hat q$ against $1 - \alpha$ is a reliability diagram.** It looks at all classes, not
# at the top label alone. {numref}`fig-after-sets` draws it.

# %% mystnb={"figure": {"caption": "What does conformal prediction correct? Left: the threshold of randomised APS against the coverage asked for; on the diagonal the classifier's own mass is enough. Right: the mean size of the sets that keep the promise, against the temperature, relative to the fitted one (dotted).", "name": "fig-after-sets"}, "image": {"alt": "Left: four curves of the threshold against the coverage asked for, those before calibration bent above the diagonal, those after close to it. Right: size of the sets against the temperature, four curves that meet at one at the fitted temperature."}}
_, axes = plt.subplots(1, 2, figsize=(7, 3.2))
levels = np.linspace(0.02, 0.98, 49)
colors = dict(zip(stored, (plots.BLUE, plots.ORANGE), strict=False))
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
axes[1].set(xscale="log", xlabel="temperature / fitted one", ylabel="size of the sets")
axes[1].set_xticks([0.4, 0.7, 1, 2], ["0.4", "0.7", "1", "2"])
axes[1].minorticks_off()
for ax in axes:
    ax.legend()
plt.show()

# %% tags=["nbval-check-output"]
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
    f"Do sets of {100 * (1 - alpha):g}% of a classifier's own mass hold so many labels?",
    "tbl-after-own",
    names=shown,
)

# %% [markdown]
# Before temperature scaling the classifier's own sets miss more labels than they say. After it they are close. So the
# two tools do not compete. Calibration makes the number that a user reads true, for every level at once, as far as one
# temperature can. Conformal prediction makes one statement exact, at one level, whatever the probabilities are.
#
# ## What is not promised
#
# The promise is kept on average over all images. It was not made to each class: {numref}`tbl-after-worst` has the coverage
# of the class that is covered least.

# %% tags=["nbval-check-output"]
of_class = runs.groupby(keys, sort=False)["by class"]
of_class = of_class.agg(lambda arrays: np.mean([*arrays], axis=0))
table(
    of_class.map(np.min).unstack("T").rename_axis(index=[None, None]),
    f"How many labels of the worst class are in its sets? Percent, {n_splits} halves",
    "tbl-after-worst",
    digits=1,
    names=named,
)

# %% [markdown]
# Of 100 classes the worst is in part the unluckiest, as each has a hundred test images. With ten classes it is not
# chance: LAC, the smallest on average, and APS without randomisation leave the hardest class far short of what was
# asked for. The larger randomised sets spend their size there, on CIFAR-10 more so after calibration: they are larger
# where the classifier is not sure. {cite:t}`dabah2025temperature` found the same of the coverage by class.
#
# And if the images of tomorrow are not drawn like those of the held-out half, there is no promise at all. The chapter on
# {doc}`temperature_scaling` shows shifts that break a temperature; they break $\hat q$ as well.
#
# ## Answer or abstain
#
# *Selective prediction* {cite:p}`elyaniv2010foundations,geifman2017selective` sorts the images by confidence, and answers
# the most confident ones only. *Coverage* is now the share of images that get an answer, and *risk* the share of wrong
# answers among them. The area under the curve, AURC, is the mean risk over all coverages
# {cite:p}`geifman2019bias`.
#
# Only the order of the images counts. With two classes no temperature changes it. With more it can:

# %% tags=["nbval-check-output"]
two = np.array([[2.0, 0.0, -9.0], [2.3, 0.0, 0.0]])
for t in (0.3, 1.0, 3.0):
    first, second = softmax(two / t, axis=1).max(1)
    sign = "<" if first < second else ">"
    print(f"T = {t}: confidences {first:.4f} {sign} {second:.4f}")

# %% [markdown]
# The first image has one rival, the second has two that are further away. A small $T$ sees only the distance of the
# nearest rival, a large one counts how many there are. So a temperature, fitted for the sake of calibration, may improve
# the order or spoil it. On the stored networks:

# %% mystnb={"figure": {"caption": "Does temperature scaling change which images are answered first? The error among the answered images, by the share that is answered.", "name": "fig-after-risk"}, "image": {"alt": "Risk against coverage, a panel a network: the dashed curve before temperature scaling and the solid one after it nearly coincide and rise to the right."}}
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

# %% tags=["nbval-check-output"]
rows = {}
for name, both in probs.items():
    y = stored[name].test_labels
    tau = kendalltau(*(p.max(1) for p in both.values())).statistic
    before, after = (aurc(p, y) for p in both.values())
    rng, drawn = np.random.default_rng([seed, 2]), []
    for _ in range(n_resamples):
        some = rng.integers(0, len(y), len(y))
        drawn.append(np.subtract(*(aurc(p[some], y[some]) for p in both.values())))
    change = Estimate(after - before, *-np.quantile(drawn, [0.975, 0.025])).percent
    rows[name] = {
        "pairs that change places, %": f"{50 * (1 - tau):.1f}",
        "AURC before, %": f"{100 * before:.2f}",
        "after": f"{100 * after:.2f}",
        "change": f"{change:+.2f}",
    }
table(
    pd.DataFrame.from_dict(rows, orient="index"),
    "Does temperature scaling improve abstention? With 95% intervals",
    "tbl-after-aurc",
    names=shown,
)

# %% [markdown]
# It does change the order, of two to three pairs in a hundred. The curves lie on top of each other, and both intervals
# hold zero. **On neither network does abstention improve beyond chance.** What calibration gives is a risk nearly as
# expected. Answer where the confidence is
# at least
# 0.9: the share of wrong answers to expect is one minus their mean confidence. {numref}`tbl-after-risk` compares it
# with the true one.

# %% tags=["nbval-check-output"]
found = {}
for name, both in probs.items():
    for when, p in both.items():
        sure = p.max(1) >= 0.9
        wrong = p[sure].argmax(1) != stored[name].test_labels[sure]
        expects = {"answered": sure.mean(), "risk expected": 1 - p[sure].max(1).mean()}
        found[name, when] = expects | {"risk": wrong.mean()}
table(
    100 * pd.DataFrame(found).T,
    "Is the risk as expected, where the confidence is at least 0.9? Percent",
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
# | "the label is among these, nine times in ten", for a mean over all inputs | `ConformalSets`, calibrated or not |
# | the smallest such sets | `score="lac"` |
# | sets that are large where the input is hard, and fairer to hard classes | `score="randomized_aps"`, after calibration |
# | the promise from few samples | at least $1 / \alpha - 1$ of them; the coverage of one held-out set of $n$ varies by about $\sqrt{\alpha (1 - \alpha) / n}$ |
# | to abstain on the hardest inputs | the confidence as it is; compare classifiers by `aurc` |
#
# Three disjoint parts of the data are in use then: one for the network, one for the calibrator, one for the quantile.
# With one temperature for 5,000 images it would do little harm to use the second part twice, but then the proof is gone.
#
# ## Exercises
#
# 1. Show that for $K = 2$ the sets of LAC are the same at every temperature. Where does the proof need that the
#    threshold is refitted?
#
#    ```{dropdown} Solution
#    $p_k = \sigma(d_k / T)$, with $d_k$ the logit of class $k$ minus the other one. It rises with $d_k$ at every $T$, so the
#    scores of all pairs of image and class keep their order. The $r$-th smallest is that of the same held-out image, with
#    $d^\star$, and the sets are $\{k : d_k \ge d^\star\}$. A threshold that stays where it is gives
#    $\{k : d_k \ge T \sigma^{-1}(1 - \hat q)\}$ instead, which depends on $T$.
#    ```
#
# 2. Non-randomised APS at $\alpha$ larger than the error of the classifier has $\hat q = 0$. What are its sets, and their
#    coverage? Compare with LAC.
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
