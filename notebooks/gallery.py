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
# # A gallery of pictures
#
# Each picture of `calibkit.plots` answers one question and takes one line. This page shows nearly all of them, with the line
# next to each, on networks that come with the book. To draw your own, put your probabilities (N, K) and labels (N,) in
# place of `probs` and `labels`. Arrays of numpy and tensors of torch will both do.
#
# | question | picture |
# |---|---|
# | How far from the truth are the confidences? | {numref}`fig-gallery-reliability`, {numref}`fig-gallery-mass`, {numref}`fig-gallery-smooth` |
# | How sure is it, and how often right? | {numref}`fig-gallery-histogram` |
# | What did calibration change? | {numref}`fig-gallery-before-after`, {numref}`fig-gallery-three` |
# | Is it calibrated for every group? | {numref}`fig-gallery-groups` |
# | Which classes are off? | {numref}`fig-gallery-classes`, {numref}`fig-gallery-gaps` |
# | Which classes need another temperature? | {numref}`fig-gallery-temperatures`, {numref}`fig-gallery-order` |
# | Which method is better, and is it more than chance? | {numref}`fig-gallery-forest`, {numref}`fig-gallery-map` |
# | Does the confidence know which answers are wrong? | {numref}`fig-gallery-risk` |
# | Has calibration drifted in service? | {numref}`fig-gallery-monitor` |
# | How do I keep the colours, and draw on dark paper? | {numref}`fig-gallery-looks`, {numref}`fig-gallery-dark` |
#
# Every function draws into the Axes that it is given, `ax=...`, or into new ones, and returns them. What has several
# panels takes and returns a Figure. Colours are those of Okabe and Ito, which every kind of colour vision can tell apart.

# %% tags=["parameters"]
budget = "smoke"  # of the networks below; at a higher one, those trained at it
device = "auto"  # to train them on
seed = 0  # of the resampling behind the bands and intervals
n_resamples = 300  # resamples behind the intervals of the forest plot
network = "cifar10/resnet20-cross_entropy-s0"  # that of most pictures
rival = "cifar10/resnet20-mbls-s0"  # another one with the same test images
many = "cifar100/resnet20-cross_entropy-s0"  # a network with many classes
tail = "cifar10_lt/resnet20-cross_entropy-s0"  # a network trained on a long tail

# %% tags=["hide-input"]
from book.kit import notebook

notebook.parameters(
    globals(),
    budget=notebook.BUDGETS,
    device=notebook.DEVICES,
    seed=range(2**31),
    n_resamples=range(50, 5001),
    network=str,
    rival=str,
    many=str,
    tail=str,
)

import torch

torch.set_num_threads(1)

# %% [markdown]
# ## What the pictures are drawn from
#
# We need a network, its probabilities on the test images before and after one temperature, and the labels:

# %%
import matplotlib.pyplot as plt
import numpy as np

from calibkit import Comparison, calibrator, plots

plots.use_style()
ten = {"budget": budget, "device": device, "n_classes": 10}  # those of CIFAR-10
data, other, tailed = (
    notebook.logits_of(of, **ten, named=name)
    for name, of in {"network": network, "rival": rival, "tail": tail}.items()
)
large = notebook.logits_of(many, budget=budget, device=device, named="many")
if not other.test.is_of(data.test):
    raise ValueError(
        f"Expected `rival` to be of the test images of {network!r}, but got {rival!r}"
    )
labels = data.test.labels
probs = calibrator("identity").fit(*data.val)(data.test.logits)
calibrated = calibrator("temperature_scaling").fit(*data.val)(data.test.logits)

# %% [markdown]
# ## Is the network right as often as it claims?
#
# ### The reliability diagram
#
# Start here. Below the diagonal the network is over-confident, above it under-confident. The grey bars show where
# chance would put a calibrated network. The strip on top shows how many images stand behind each bar, which is why a
# long gap on the left can matter less than a short one on the right.

# %% mystnb={"figure": {"caption": "The network is right less often than it claims. Bars: accuracy in 15 bins of equal width. Vermilion: the gap to the confidence. Grey: where a calibrated network would lie, 95 times out of 100. On top: the images in each bin.", "name": "fig-gallery-reliability"}, "image": {"alt": "Reliability diagram: nearly all bars of accuracy end below the diagonal, outside the grey ranges; most images lie in the last bin."}}
plots.reliability_diagram(probs, labels)
plt.show()

# %% [markdown]
# ### With bins of equal mass
#
# Networks are confident of most images, and bins of equal width then leave most of them in one bar. Bins that hold the same
# number of images each are narrow where the images are. The error that goes with them is `adaptive_ece`.

# %% mystnb={"figure": {"caption": "Bins of equal mass open up the last bar. The same network with 15 bins that hold equally many images, so that its most confident images come apart into many bars.", "name": "fig-gallery-mass"}, "image": {"alt": "Reliability diagram with bins of equal mass: one wide bar on the left, then narrower and narrower ones towards a confidence of one; the gaps shrink towards the right."}}
plots.reliability_diagram(probs, labels, scheme="mass")
plt.show()

# %% [markdown]
# ### Without bins
#
# Where a bin ends is a choice, and the picture depends on it. The smooth curve has no bins. A kernel averages the gaps,
# and the data choose its width, as in the smooth ECE {cite:p}`blasiok2024smooth`. The band shows how far another test set
# might move the curve at each confidence.

# %% mystnb={"figure": {"caption": "Without bins you see the same over-confidence. Accuracy smoothed over the confidence, with a 95% band from the bootstrap. Grey: where the images are.", "name": "fig-gallery-smooth"}, "image": {"alt": "A smooth curve of accuracy below the diagonal, with a band that widens to the left, where the grey density shows few images."}}
plots.smooth_reliability(probs, labels, seed=seed)
plt.show()

# %% [markdown]
# ### The confidence histogram
#
# If you have room for two numbers, take these two lines. They show how confident the network is on average, and how often it is right.

# %% mystnb={"figure": {"caption": "On average the network is more confident than it is right. Share of images by confidence, with the mean confidence (vermilion) and the accuracy.", "name": "fig-gallery-histogram"}, "image": {"alt": "Histogram of confidences with its mass near one; the line of the mean confidence lies to the right of that of the accuracy."}}
plots.confidence_histogram(probs, labels)
plt.show()

# %% [markdown]
# ## What did calibration change?
#
# Give names and probabilities, as many as you like, and get axes that can be compared:

# %% mystnb={"figure": {"caption": "One temperature shrinks the gaps into the grey bars and moves images out of the last bin. Reliability diagrams before and after.", "name": "fig-gallery-before-after"}, "image": {"alt": "Two reliability diagrams side by side: before, the bars lie below the diagonal; after one temperature, they lie on it within the grey ranges."}}
plots.before_after({"before": probs, "after": calibrated}, labels)
plt.show()

# %% [markdown]
# The methods need not be of one network. Next to the same two, here is a network that was trained with another loss,
# margin-based label smoothing:

# %%
trained = calibrator("identity").fit(*other.val)(other.test.logits)
three = {"CE": probs, "CE + temperature": calibrated, "MbLS": trained}

# %% mystnb={"figure": {"caption": "A temperature after training shrinks the gaps, and so does a loss during training. The network uncalibrated, with one temperature, and another that was trained with a loss meant to calibrate.", "name": "fig-gallery-three"}, "image": {"alt": "Three reliability diagrams in a row: cross-entropy, cross-entropy with temperature scaling, and margin-based label smoothing."}}
plots.before_after(three, labels)
plt.show()

# %% [markdown]
# ## Is it calibrated for every group?
#
# Groups are ages or sites, whatever is known before the label is. Here they are the kinds of class that are predicted.
# `calibration_by_group` tests each.

# %%
predicted = np.where(np.isin(probs.argmax(1), [0, 1, 8, 9]), "vehicles", "animals")

# %% mystnb={"figure": {"caption": "The network is more over-confident where it sees an animal. Reliability diagrams of the images with a predicted animal and a predicted vehicle, in equal-mass bins whose number the data give.", "name": "fig-gallery-groups"}, "image": {"alt": "Two reliability diagrams side by side, animals and vehicles; the bars lie below the diagonal in both, further for animals."}}
plots.reliability_by_group(probs, labels, predicted, n_bins="auto", scheme="mass")
plt.show()

# %% [markdown]
# ## Which classes are off?
#
# The confidence looks at the predicted class alone. These two pictures look at every class, even where it came second.
#
# ### A panel per class
#
# This is for a few tens of classes at most. The worst come first. The number in a title is the error of that class, and the mean
# over all classes is the class-wise ECE.

# %%
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()

# %% mystnb={"figure": {"caption": "Each of these classes is right less often than its large probabilities claim. One reliability diagram per class, of the probability of that class, for the eight classes of largest error.", "name": "fig-gallery-classes"}, "image": {"alt": "Eight small reliability diagrams, one a class, sorted by error; in each the dots lie below the diagonal for large probabilities."}}
plots.class_reliability(probs, labels, names=CIFAR10)
plt.show()

# %% [markdown]
# ### A map, for many classes
#
# For a hundred classes or a thousand there is one row each for the worst thirty. Gaps that chance explains are left without
# colour. So an empty row is no mistake. It means that this test set has too few images of the class to accuse it.

# %%
of_many = calibrator("identity").fit(*large.val)(large.test.logits)

# %% mystnb={"figure": {"caption": "Most gaps that chance does not explain are over-confident (vermilion). The thirty classes of largest error of a hundred, one row per class, the largest on top. Blue: under-confident. A dot: a gap no larger than chance. Nothing: no image.", "name": "fig-gallery-gaps"}, "image": {"alt": "A map of thirty classes by fifteen bins of probability; most coloured cells are vermilion, for over-confidence, and many cells hold only a dot."}}
plots.class_gaps(of_many, large.test.labels)
plt.show()

# %% [markdown]
# ## Which classes need another temperature?
#
# On a long-tailed training set a network knows the frequent classes well and the rare ones badly, and then one temperature
# need not fit all. The dashed line is the one temperature. A class above it is made less confident than by that, a class below it
# more confident.

# %%
cts = calibrator("class_temperature_scaling:nll").fit(*tailed.val)
one = calibrator("temperature_scaling").fit(*tailed.val).temperature
right = tailed.test.logits.argmax(1) == tailed.test.labels
recall = [right[tailed.test.labels == k].mean() for k in range(tailed.n_classes)]

# %% mystnb={"figure": {"caption": "How well the network knows a class does not decide its temperature. Temperature of each class, fitted by NLL, against its accuracy on test images. Dashed: one temperature for all.", "name": "fig-gallery-temperatures"}, "image": {"alt": "Scatter plot of the temperatures of ten classes against their accuracy, with names and a dashed line for the single temperature."}}
plots.class_temperatures(cts, recall, names=CIFAR10, reference=one)
plt.show()

# %% mystnb={"figure": {"caption": "Some classes are made less confident than by one temperature (dashed), others more. The same temperatures in order.", "name": "fig-gallery-order"}, "image": {"alt": "The ten classes in the order of their temperatures, each a dot on a stem from the dashed line of the single temperature."}}
plots.class_temperatures(cts, names=CIFAR10, reference=one)
plt.show()

# %% [markdown]
# ## Which method is better, and is it more than chance?
#
# A `Comparison` measures methods on the same resamples of the test set. The forest plot draws their differences to one
# of them. An interval that touches zero decides nothing, whatever the order of the dots.

# %%
KEYS = ["identity", "temperature_scaling", "class_temperature_scaling"]
KEYS += ["vector_scaling", "ets", "isotonic", "histogram_binning", "spline"]
fitted = {key: calibrator(key).fit(*data.val) for key in KEYS}
options = {"n_resamples": n_resamples, "seed": seed}
methods = Comparison.on(data.test, fitted, ["nll", "ece"], **options)

# %% mystnb={"figure": {"caption": "No calibrator here is clearly better than one temperature. Difference in ECE from temperature scaling, in points, with its 95% interval over test images. Blue is clearly lower, vermilion clearly higher, the rest neither.", "name": "fig-gallery-forest"}, "image": {"alt": "Forest plot of calibrators sorted by the difference of their ECE from that of temperature scaling, with a zero line and the numbers on the right."}}
plots.forest_plot(methods, base="temperature_scaling")
plt.show()

# %% [markdown]
# Rows of your own numbers do as well, with `plots.forest_plot([("mine", -0.4, -0.7, -0.1), ...])`.
#
# A map shows two metrics at once, beside the network as it is. Here they disagree, on the network with a hundred classes.

# %%
of_large = {key: calibrator(key).fit(*large.val) for key in KEYS}
with_many = Comparison.on(large.test, of_large, ["nll", "ece"], **options)

# %% mystnb={"figure": {"caption": "A lower ECE may come with a higher NLL: class temperatures, searched by ECE, lie to the left of the uncalibrated network and above it. ECE and NLL of each calibrator with their 95% intervals over test images; in the green area both are lower than the network's. A calibrator of infinite NLL has no point.", "name": "fig-gallery-map"}, "image": {"alt": "A map of calibrators by ECE and NLL: a hollow point for the uncalibrated network on the right; to its left most others, in a green area below its height; class temperature scaling stands out above."}}
plots.ece_nll_map(with_many)
plt.show()

# %% [markdown]
# ## Does the confidence know which answers are wrong?
#
# If the network may decline to answer, it should decline where it would err. The curve shows the errors among the images
# that it is most confident of. A temperature moves the order of the images little, so its curve is nearly the one before. A
# calibrator that gives many images the same confidence can no longer tell them apart. The calibration error does not show this,
# but the curve does.

# %%
FOUR = ["identity", "temperature_scaling", "isotonic", "histogram_binning"]
answers = {key: fitted[key](data.test.logits) for key in FOUR}

# %% mystnb={"figure": {"caption": "Few errors remain if only the most confident images are answered. Error rate against the share answered. The area under each curve is its mean risk.", "name": "fig-gallery-risk"}, "image": {"alt": "Risk-coverage curves of four methods: three nearly coincide and rise from zero to the error rate; that of histogram binning lies far above them on the left."}}
plots.risk_coverage(answers, labels)
plt.show()

# %% [markdown]
# ## Has calibration drifted?
#
# A monitor keeps the sums of every day ({doc}`../book/monitor`). Here the test images come as sixteen days, and from day
# 15 on the logits are 1.3 times too large. The band looks at one day by itself. The test allows for having looked at many.

# %%
from calibkit.metrics import Monitor

shuffled = np.random.default_rng(seed).permutation(len(labels))
monitor, days = Monitor(), np.array_split(shuffled, 16)
names = [f"day {day}" for day in range(1, 17)]
for name, rows in zip(names, days, strict=True):
    too_large = 1.3 if name in names[14:] else 1.0
    served = fitted["temperature_scaling"](too_large * data.test.logits[rows])
    monitor.update(served, labels[rows], name)
found = monitor.drift_by_period(reference=names[:14])
drifted = [name for name, of_day in found.items() if of_day.verdict == "drifted"]

# %% mystnb={"figure": {"caption": "A day outside of the grey band need not be a drift. ECE of sixteen days of 625 images, the last two with logits that are too large. Grey: where a calibrated network stays on 19 days in 20. Vermilion: the days that the monitor's test calls drifted.", "name": "fig-gallery-monitor"}, "image": {"alt": "The ECE of each day as dots, most of them inside a grey band and some just above it; the last two lie highest or near it, and what the test calls drifted is marked."}}
plots.ece_by_period(monitor, drifted=drifted)
plt.show()

# %% [markdown]
# ## One colour per method
#
# The plots give a method the same colour each time, and a dash and a marker that tell it from its kin. `plots.look_of`
# gives all three to any picture of your own. A colour stands for a kind of method, so that no more than eight are
# needed. Where a figure compares something else, such as printed and measured numbers, its key says what the colours stand for.

# %% mystnb={"figure": {"caption": "Each calibrator has a look of its own, a colour, dash and marker together, and so has each loss. Left: calibrators. Right: training losses. Kin stand together.", "name": "fig-gallery-looks"}, "image": {"alt": "Two lists of lines with their names: the calibrators and the losses, each with its colour, dash and marker."}} tags=["hide-input"]
from calibkit.calibrators import CALIBRATORS
from calibkit.losses import LOSSES

fig, axes = plt.subplots(1, 2, figsize=(6.5, 3.2))
for ax, registry in zip(axes, (CALIBRATORS, LOSSES), strict=True):
    kinds = [*dict.fromkeys(map(plots.color_of, registry))]
    by_kind = sorted(registry, key=lambda key: kinds.index(plots.color_of(key)))
    for y, key in enumerate(by_kind):
        ax.plot([0, 1, 2], [-y] * 3, **plots.look_of(key))
        ax.text(2.3, -y, key, va="center")
    ax.set(xlim=(-0.2, 7), ylim=(0.8 - len(CALIBRATORS), 0.8))
    ax.axis("off")
plt.show()

# %% [markdown]
# ## Dark mode and SVG export
#
# `plots.use_style(dark=True)` sets light ink on dark paper for all that follows, `plots.styled(dark=True)` for one
# picture. The two colours that would drown there, black and blue, become lighter. What they stand for does not change.

# %% mystnb={"figure": {"caption": "The same pictures can be read on dark paper. Reliability diagrams before and after one temperature, in the dark style.", "name": "fig-gallery-dark"}, "image": {"alt": "The two reliability diagrams before and after temperature scaling with light ink on dark paper."}}
with plots.styled(dark=True):
    plots.before_after({"before": probs, "after": calibrated}, labels)
    plt.show()

# %% [markdown]
# Any picture can be saved as matplotlib saves it. As SVG it stays sharp at every size, and with the date left out two
# runs write the same bytes:
#
# ```python
# with plots.styled(dark=True):
#     ax = plots.reliability_diagram(probs, labels)
#     ax.figure.savefig("diagram.svg", metadata={"Date": None})
# ```
