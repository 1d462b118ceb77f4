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
# # Every method, side by side
#
# The other chapters test claims. With all methods on the same networks and images, which one should be used, and how sure
# can one be?
#
# Nothing is fitted here: every number is read from the result files ({doc}`../book/protocol`).
# {doc}`../book/which_method` turns them into a decision.
#
# ```{admonition} In brief
# :class: tip
#
# - One temperature, fitted by likelihood, is the safe default. On many networks something else is a little better;
#   but class weights and a corrected prior aside, its NLL is never a tenth of a nat behind. On balanced data no calibrator of logits is ahead of
#   it by more than hundredths of a nat.
# - The largest gains come where class frequencies differ between validation and use. With ten classes, equal weights for
#   them make each of the four calibrators tried far better.
# - One increasing map of all logits (`order_preserving`) is better than one temperature in ECE and NLL on most published
#   networks, and keeps every prediction.
# - What has a parameter for every class needs images for every class. With a hundred classes and fifty images each,
#   plain matrix scaling is a disaster and vector scaling a risk.
# - The order of the methods depends on the metric, and that of neighbouring training losses on the seed.
# - On CIFAR-10 no training loss that calibrates by itself beats cross-entropy with one temperature. CIFAR-100 and
#   Tiny-ImageNet, with one training each, cannot decide. On CamVid, where the temperature of the validation drives does little, label smoothing as trained has a lower ECE by points, beyond chance; on text it depends on how the messages are cut.
# ```

# %% tags=["parameters"]
level = 0.05  # of every test, after its correction
budget = "smoke"  # every notebook takes it; here nothing is trained

# %% tags=["hide-input"]
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown
from scipy.stats import t as student

from book.kit import notebook, results
from book.kit.notebook import friedman, over_networks, paper_tables
from book.kit.notebook.display_names import shown
from book.kit.notebook.dumbbells import dumbbells
from book.kit.notebook.golden import fit_seconds
from book.kit.notebook.over_networks import beyond_chance, select, tally
from book.kit.notebook.table import minus, table
from book.kit.results.comparators import KEEP_THE_PREDICTION
from book.kit.results.difference_intervals import chance_of, interval_of
from calibkit import data, plots
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.catalogue import need_of

notebook.parameters(
    globals(),
    level=notebook.Real(0.0, 0.5, open_low=True),
    budget=notebook.BUDGETS,
)
plots.use_style()
forest = partial(plots.forest_plot, sort=False, numbers=None)

TS, TS_ECE, CTS = (
    "temperature_scaling",
    "temperature_scaling:ece",
    "class_temperature_scaling",
)
CALIBRATORS = {  # key -> name in this chapter
    "identity": "no calibration",
    TS: "TS",
    TS_ECE: "TS by ECE",
    "ets": "ETS",
    "pts": "PTS",
    CTS: "CTS",
    f"{CTS}:nll": "CTS by NLL",
    "vector_scaling": "vector scaling",
    "ms_odir": "MS-ODIR",
    "dir_odir": "Dir-ODIR",
    "matrix_scaling": "matrix scaling",
    "structured_vector_scaling": "structured VS",
    "structured_matrix_scaling": "structured MS",
}
BINS_AND_CURVES = {
    "spline": "spline",
    "histogram_binning": "histogram binning",
    "isotonic": "isotonic regression",
}
not_swept = "~loss.str.fullmatch('(mbls|acls) margin=[0-9]+')"  # they have chapters
ours, effects, third = (
    results.load("ours").query(not_swept),
    results.load_effects()
    .query(not_swept)
    .query("source != 'public'"),  # only NC was fitted there
    results.load("third_party").query("source == 'calarena'"),
)
effects["chance"] = [chance_of(row) for row in effects.itertuples()]
ours["network"], third["network"] = (
    over_networks.network_names(ours),
    over_networks.network_names(third),
)
to_ts = select(
    effects, TS
)  # every method minus temperature scaling, on the same network
by_network = to_ts[to_ts["metric"] == "ece"].groupby("network")["method"].agg(set)
complete = [name for name, has in by_network.items() if set(CALIBRATORS) - {TS} <= has]
assert all("," not in name for name in complete)  # trained with cross-entropy
to_ts["group"] = np.select(
    [to_ts["dataset"] == name for name in ("cifar10", "cifar100")],
    ["balanced, K = 10", "balanced, K = 100"],
    "other",
)
to_ts.loc[to_ts["dataset"] == "cifar10_lt", "group"] = "long-tailed, K = 10"
to_ts.loc[to_ts["dataset"] == "cifar100_lt", "group"] = "long-tailed, K = 100"
main = to_ts[to_ts["network"].isin(complete)]
GROUPS = [
    f"{kind}, K = {k}" for kind in ("balanced", "long-tailed") for k in (10, 100)
] + ["other"]
SCALE = {"ece": 100, "brier": 100, "nll": 1}
SAID = {"ece": "ECE", "brier": "Brier score", "nll": "NLL"}
COUNTS_OF = "better / worse / not decided"
short = {k: v for k, v in CALIBRATORS.items() if k != TS}


def called(network):
    """A network as a page shows it: "CIFAR-10, ResNet-20 (Brier)"."""
    place, _, loss = network.partition(", ")
    return ", ".join(map(shown, place.split("/"))) + (
        f" ({shown(loss)})" if loss else ""
    )


def difference(rows, metric):
    """The pooled difference as an Estimate: in points, of the NLL in nats."""
    return Estimate(
        *(
            SCALE[metric] * x
            for x in results.difference_intervals.over_networks(
                rows[rows["metric"] == metric]
            )
        )
    )


def polynomial(count):
    """A number of parameters as it depends on K, from its values: "K² + K"."""
    c, one, two = count(0), count(1), count(2)
    a = (two - 2 * one + c) // 2
    powers = {"K²": a, "K": one - a - c, "": c}
    told = [f"{'' if of and n == 1 else n}{of}" for of, n in powers.items() if n]
    return " + ".join(told).replace("+ -", "− ")


def text(estimate, metric):
    if np.isnan(estimate.value):
        return "–"
    return f"{estimate:+.3f}" if metric == "nll" else f"{estimate:+.2f}"


# %% [markdown]
# ## What is compared
#
# A *network* is a data set, an architecture and a training loss. Some are those of the papers: their logits were
# published. Others were trained for this book, smaller and shorter (the `reduced` budget), but for two ResNet-110s on
# CIFAR-100-LT by the recipe of {cite:t}`jung2023scaling`, one with stochastic depth (SD). Every calibrator sees the
# same validation images and nothing else, and is measured once on the test images.

# %% tags=["hide-input"]
plain = ours[
    (ours["method"] == "identity") & ours["network"].isin(set(to_ts["network"]))
]
wide = plain.drop_duplicates(["network", "source", "metric"]).pivot(
    index=["dataset", "model", "source", "loss"], columns="metric", values="value"
)
one = ours[(ours["method"] == TS) & (ours["metric"] == "ece")].drop_duplicates(
    ["network"]
)
one = one.set_index(["dataset", "model", "source", "loss"])["value"]
described = pd.DataFrame(
    {
        "K": [data.DATASETS[name[0]].n_classes for name in wide.index],
        "accuracy": 100 * wide["accuracy"],
        "NLL": wide["nll"],
        "ECE": 100 * wide["ece"],
        "ECE after TS": 100 * one.reindex(wide.index),
    },
    index=wide.index,
)
of_losses = described.index.get_level_values("loss")
described = described[of_losses.isin(["cross_entropy", "brier"])].reset_index()
described["source"] = described["source"].str.removesuffix("-logits")
described["network"] = [
    shown(model) + ("" if loss == "cross_entropy" else f" ({shown(loss)})")
    for model, loss in zip(described["model"], described["loss"], strict=True)
]
table(
    described.drop(columns=["model", "loss"]).set_index(["dataset", "network"]),
    "Which networks are compared? Accuracy and ECE in percent, NLL in nats",
    "tbl-comparison-networks",
    digits={"NLL": 3},
    names=shown,
)

# %% [markdown]
# Where a network was trained with a loss other than cross-entropy, the loss stands in parentheses: ResNet-50 (Brier).
# These have some calibrators only. Those with label smoothing or MMCE are in {numref}`fig-comparison-cts`
# alone. Two data sets are unlike the rest. In CamVid the samples are pixels, and the test images show other streets
# than the validation images; its error as trained is that of all pixels, what a calibrator does is measured on a
# hundred of each image. In 20 Newsgroups the 900 validation texts are few, and the test texts are later, unless cut at
# random. In both, what was fitted on validation data may not hold on test data.
#
# ## Calibrators on logits
#
# ### One number each
#
# Temperature scaling (TS) is what everything is compared with. For a calibrator and a metric let $\Delta_j$ be the
# difference from TS on network $j$, negative if the calibrator is better. The {ref}`protocol <sec-intervals>` gives
# each $\Delta_j$ an interval by the paired bootstrap. Their mean gets one as follows. Let $a_j$ be the standard error of
# $\Delta_j$ over test images, and $s_j$ that over seeds and validation samples. Networks of one data set share their
# test images, so their errors go together, with a correlation of at most $\rho$. Different test sets are independent, and so are the seeds of different networks:
#
# $$
# \text{arm} = \frac{t_\nu}{J} \sqrt{\sum_{t} \Bigl[ (1 - \rho) \sum_{j \in t} a_j^2
#   + \rho \Bigl( \sum_{j \in t} a_j \Bigr)^2 \Bigr] + \sum_j s_j^2}
# $$ (eq-comparison-arm)
#
# for $J$ networks, test sets $t$, and Student's quantile $t_\nu$ with the degrees of freedom of Welch and Satterthwaite. The {ref}`protocol <sec-pooled>` says
# where $\rho$ and $s_j$ come from. For other networks than these, look at the grey dots of {numref}`fig-comparison-forest` and at the counts in {numref}`tbl-comparison-ts`: on how many networks is a calibrator better or worse *beyond
# chance*, that is, at 5% after Holm's correction {cite:p}`holm1979simple` over all tests of one calibrator together: every network, three scores?


# %%
def beside_ts(rows, names, caption, name):
    """A row a method: pooled differences in ECE and NLL, how many are beyond chance."""
    found = {}
    for key, label in names.items():
        of = rows[(rows["method"] == key) & rows["metric"].isin(list(SCALE))]
        words, found[label] = beyond_chance(of, level), {}
        for metric, said in (("ece", "ECE, points"), ("nll", "NLL, nats")):
            found[label][said, "difference"] = text(difference(of, metric), metric)
            found[label][said, "−/+/?"] = tally(words[of["metric"] == metric]).replace(
                " ", ""
            )
    return table(pd.DataFrame.from_dict(found, orient="index"), caption, name)


beside_ts(
    main,
    short,
    "What does each calibrator add to one temperature? Mean difference from TS "
    f"[95% interval] on {len(complete)} networks",
    "tbl-comparison-ts",
)

# %% [markdown]
# The column −/+/? counts the networks where the calibrator is better, worse, and not decided. Where a calibrator gives a
# true class the probability 0 its NLL is infinite, and mean and counts of the NLL leave that network out.

# %% mystnb={"figure": {"caption": "Which calibrator is better than one temperature? Difference from temperature scaling, mean over networks with a 95% interval over test images, seeds and validation samples; blue is better, vermilion is worse, neither is not decided. Grey: the single networks. The axes are linear between the dotted lines and logarithmic beyond.", "name": "fig-comparison-forest"}, "image": {"alt": "Forest plot of the calibrators in two panels, ECE and NLL minus that of temperature scaling, with a dot and an interval for each and small grey dots for the single networks."}} tags=["hide-input"]
_, axes = plt.subplots(1, 2, figsize=(7, 4.4), sharey=True)
for ax, metric, title, linear in zip(
    axes, ("ece", "nll"), ("ECE, points", "NLL, nats"), (2.0, 0.05), strict=True
):
    rows = main[main["metric"] == metric].assign(
        value=lambda f, m=metric: SCALE[m] * f["value"]
    )
    pooled = {k: difference(main[main["method"] == k], metric) for k in short}
    forest(
        {name: pooled[key] for key, name in short.items()},
        {name: rows.loc[rows["method"] == key, "value"] for key, name in short.items()},
        ax=ax,
        linear=linear,
    )
    for end in (-linear, linear):
        ax.axvline(end, color=plots.GREY, linewidth=0.8, linestyle=":")
    ends = [-linear, 0, linear, 10 * linear]
    ax.set(
        title=f"{title}, minus that of TS",
        xticks=ends,
        xticklabels=[f"{x:g}" for x in ends],
    )
    ax.set_xlim(min(-2 * linear, 1.5 * rows["value"].min()), 1.5 * rows["value"].max())
plt.show()

# %% [markdown]
# To calibrate at all is worth points of ECE, the choice of the calibrator tenths. By NLL most means lie to the right of
# zero, several through CamVid, text or CIFAR-100-LT alone; by ECE more than half hold it. The differences in NLL are
# the ones to trust: the NLL is proper, its paired difference has little noise, and it does not depend on bins.
#
# ### By kind of network
#
# A calibrator may help on one kind and harm on another. Long-tailed networks are
# trained and validated on few images of rare classes and tested on a balanced set. "Other" are CamVid, 20 Newsgroups and
# the twenty classes of Tiny-ImageNet. {numref}`fig-comparison-kinds` has the NLL, with
# the number of networks in brackets, {numref}`tbl-comparison-kinds-ece` the ECE.


# %%
def by_group(names, metric):
    """Pooled differences to TS as estimates: group of networks -> method -> estimate."""
    found = {}
    for group in GROUPS:
        of_group = main[main["group"] == group]
        found[f"{group} ({of_group['network'].nunique()})"] = {
            name: difference(of_group[of_group["method"] == key], metric)
            for key, name in names.items()
        }
    return found


def as_text(found, metric):
    """The same as text, a column a group."""
    return pd.DataFrame(
        {g: {n: text(e, metric) for n, e in of.items()} for g, of in found.items()}
    )


# %% mystnb={"figure": {"caption": "Where does a calibrator help? NLL minus that of temperature scaling, in nats, by kind of network, with a 95% interval over test images, seeds and validation samples; blue is better, vermilion is worse, neither is not decided. The axes are linear between the dotted lines and logarithmic beyond.", "name": "fig-comparison-kinds"}, "image": {"alt": "Five forest plots of the calibrators, one a kind of network: NLL minus that of temperature scaling. On balanced data with ten classes most dots are near zero; with a hundred classes and on long-tailed data they spread."}}
of_nll, linear = by_group(short, "nll"), 0.05
fig, axes = plt.subplots(2, 3, figsize=(7, 6), sharey=True, sharex=True)
for ax, (group, rows) in zip(axes.flat, of_nll.items(), strict=False):
    forest(rows, ax=ax, linear=linear)
    for end in (-linear, linear):
        ax.axvline(end, color=plots.GREY, linewidth=0.8, linestyle=":")
    ax.set_title(group, fontsize=9)
    ends = [-linear, 0, linear, 1]
    ax.set_xticks(ends, [f"{x:g}" for x in ends])
    ax.tick_params(labelbottom=True)
axes.flat[-1].axis("off")
plt.show()

# %% tags=["hide-output"]
table(
    as_text(by_group(short, "ece"), "ece"),
    "Where is the ECE below that of TS? Difference in points [95% interval]",
    "tbl-comparison-kinds-ece",
)

# %% [markdown]
# On balanced data with ten classes the calibrators hardly differ. With a hundred classes and 5,000 images, the more
# parameters a class has, the worse the NLL of a fit by likelihood without a penalty. Those with a penalty stay near TS,
# and CTS by search loses most after plain matrix scaling. On long-tailed data the picture is mixed, and
# {numref}`tbl-comparison-objectives` shows why: by ECE, with ten classes, what matters there is not the calibrator but
# its objective. Structured matrix scaling gains as much as ODIR with ten classes, at a fixed strength of its penalty
# and without cross-validation; with a hundred it is worse than TS. On CIFAR-100-LT ODIR raises the ECE of all networks,
# and the NLL of the ResNet-20; on the ResNet-110s the NLL falls. No interval holds zero.
#
# ### Bins and curves
#
# Three older calibrators replace the probabilities by frequencies in bins or by a rising step function, or correct the
# top one by a smooth curve. They are not maps on logits that a likelihood could choose between, so they stand apart.

# %%
beside_ts(
    main,
    BINS_AND_CURVES,
    "Do bins and curves beat one temperature? Mean difference from TS [95% interval] "
    f"on {len(complete)} networks",
    "tbl-comparison-bins",
)

# %% [markdown]
# The NLL is the finding in {numref}`tbl-comparison-bins`: on every network, or on most, some true
# class gets the probability 0, and the NLL is infinite. The spline and histogram binning lower the ECE on some networks, most of them long-tailed, and raise it on others;
# isotonic regression lowers it on one, the text cut at random.
#
# ### Other objectives
#
# The same calibrators, fitted to another loss: class-wise loss scaling (CLS), its control, in which every class simply has
# the same weight, label smoothing and the focal loss; and class temperatures by search without the constraint on the accuracy.
# The difference is still that from plain TS by likelihood. The other two normalisations of CLS are in
# {doc}`class_loss_scaling`.

# %%
OBJECTIVES = {
    "class_balanced": "balanced",
    "class_loss_scaling": "CLS",
    "label_smoothing": "label smoothing",
    "focal": "focal",
}
NAMES = {TS: "TS", "ets": "ETS", "pts": "PTS", CTS: "CTS"}
variants = {
    f"{k}:{o}": (name, said)
    for k, name in NAMES.items()
    for o, said in OBJECTIVES.items()
}
variants[f"{CTS} accuracy_constraint=False"] = ("CTS", "unconstrained")
table(
    as_text(by_group(variants, "ece"), "ece"),
    "Does another objective help? ECE minus that of TS by likelihood, in points "
    "[95% interval]",
    "tbl-comparison-objectives",
)

# %% [markdown]
# Label smoothing and the focal loss are training losses. As objectives of a calibrator they ask for too little
# confidence, and their rows show the cost; of these kinds only the long-tailed CIFAR-10, far too sure on balanced test
# data, happens to need label smoothing. On CIFAR-100-LT most is not decided. CLS and the balanced control mostly move
# together; {ref}`below <sec-comparison-shift>` the two are taken apart.
#
# ### Class temperatures against one temperature
#
# Class-based temperature scaling (CTS) has a claim of its own: one temperature a class, found by search on the calibration
# error, is better than one for all. Its comparator is one temperature found on the same grid by the same error (TS by ECE); the
# usual one is TS by likelihood. {numref}`fig-comparison-cts` shows both, on every network that has them, and
# {numref}`tbl-comparison-cts` counts.


# %%
PAIRS = ((TS_ECE, "TS by ECE", "ece"), (TS, "TS", "nll"))
against = {}  # base -> rows with the words of their tests
for base in (TS_ECE, TS):
    rows = select(effects, base, method=CTS)
    rows = rows[rows["metric"].isin(["ece", "nll"])]
    against[base] = rows.assign(word=beyond_chance(rows, level))


def scaled(row, metric):
    """A row of differences as an Estimate, in points or nats."""
    return Estimate(*(SCALE[metric] * x for x in interval_of(row)))


by_ece, by_nll = (
    against[base][against[base]["metric"] == metric] for base, _, metric in PAIRS
)

# %% mystnb={"figure": {"caption": "Are class temperatures better than one? CTS minus TS by ECE, in ECE (left), and minus TS, in NLL (right), on each network, with 95% intervals; blue is better, vermilion is worse, neither is not decided, each network by itself. The axes are linear between the dotted lines and logarithmic beyond.", "name": "fig-comparison-cts"}, "image": {"alt": "Two forest plots with a row a network. By ECE most of the intervals hold zero; by NLL many lie to the right of it."}}
order = by_ece["network"].tolist()
fig, axes = plt.subplots(1, 2, figsize=(7, 5.6), sharey=True)
for ax, (base, name, metric), linear in zip(axes, PAIRS, (2.0, 0.05), strict=True):
    rows = against[base][against[base]["metric"] == metric].set_index("network")
    rows = rows.reindex(order)
    forest({called(r.Index): scaled(r, metric) for r in rows.itertuples()}, ax=ax,
           linear=linear)  # fmt: skip
    for end in (-linear, linear):
        ax.axvline(end, color=plots.GREY, linewidth=0.8, linestyle=":")
    ends = [-linear, 0, linear]
    ax.set_xticks(ends, [f"{x:g}" for x in ends])
    unit = "points" if metric == "ece" else "nats"
    ax.set(title=f"{SAID[metric]} minus that of {name}", xlabel=unit)
plt.show()

# %% [markdown]
# The axes show each network by itself; the counts are corrected for the number of tests. With the search on the calibration error the NLL rises on most networks, whatever the ECE does. What
# the search gains on the validation images is partly their noise.

# %% tags=["hide-input", "nbval-check-output"]
counted = {}
for head, rows, metric in (
    ("NLL, minus TS", by_nll, "nll"),
    ("ECE, minus TS by ECE", by_ece, "ece"),
):
    for dataset, of in [("all networks", rows), *rows.groupby("dataset")]:
        counted[head, shown(dataset)] = {
            "networks": len(of),
            COUNTS_OF: tally(of["word"]),
            "mean": text(difference(of, metric), metric),
        }
table(
    pd.DataFrame.from_dict(counted, orient="index"),
    "Does CTS beat one temperature? Networks, and the mean difference, ECE in points, "
    "NLL in nats [95% interval]",
    "tbl-comparison-cts",
)

# %% [markdown]
# ## Ranks
#
# In a mean difference a few networks with large differences count most. With ranks they do not: on each network the
# calibrators are put in order, the best gets rank 1, and ties share the mean. Friedman's test asks whether all methods
# could be alike. If not, two methods differ by Nemenyi's test, at 5% for all pairs together, when their mean ranks are
# further apart than the *critical difference* {cite:p}`demsar2006statistical`
#
# $$
# \mathrm{CD} = q_\alpha \sqrt{\frac{k (k + 1)}{6 J}}
# $$ (eq-comparison-cd)
#
# for $k$ methods on $J$ networks, where $\sqrt2 \, q_\alpha$ is a quantile of the studentised range. Both tests take the networks
# as independent. Ours are not, as some share their test images. The truth lies between two extremes: every network counts as a
# block, or only every *test set* does, which makes the critical difference larger ("cautiously" in
# {numref}`tbl-comparison-tests`, where KS is the {term}`Kolmogorov–Smirnov error`). CamVid is left out: without calibration its numbers are over all pixels, those of the
# calibrators over a sample.

# %% tags=["hide-input"]
METRICS = {
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "adaptive_ece": "adaptive ECE",
    "classwise_ece": "class-wise ECE",
    "mce": "MCE",
    "ks_error": "KS",
}


def errors_by(metric):
    """(networks, methods) errors; a calibrator without an NLL has an infinite one."""
    of = ours[ours["network"].isin(complete) & ours["method"].isin(CALIBRATORS)]
    of = of[(of["dataset"] != "camvid") & of["metric"].isin([metric, "ece"])]
    of = of.drop_duplicates(["network", "method", "metric"])
    wide = of.pivot(
        index=["dataset", "network"], columns=["metric", "method"], values="value"
    )
    found = wide[metric].reindex(columns=wide["ece"].columns)
    if metric == "nll":
        found = found.mask(found.isna() & wide["ece"].notna(), np.inf)
    return found.rename(columns=CALIBRATORS)


rankings = {metric: friedman.ranking(errors_by(metric), level) for metric in METRICS}
first = errors_by("nll")
n_sets = results.difference_intervals.images_of(
    first.index.get_level_values("dataset").to_series()
).nunique()
cautious = friedman.critical_difference(len(CALIBRATORS), n_sets, level)
some = rankings["nll"]
pairs = len(CALIBRATORS) * (len(CALIBRATORS) - 1) // 2
tests = {
    METRICS[metric]: {
        "Friedman p": f"{found.chance:.1g}",
        "pairs apart": found.apart(),
        "cautiously": found._replace(critical=cautious).apart(),
    }
    for metric, found in rankings.items()
}
table(
    pd.DataFrame.from_dict(tests, orient="index"),
    f"Can the methods be told apart by rank? Of {pairs} pairs of methods",
    "tbl-comparison-tests",
)

# %%
mean_ranks = pd.DataFrame(
    {said: rankings[metric].mean for metric, said in METRICS.items()}
)
table(
    mean_ranks.sort_values("NLL"),
    f"Mean rank of {len(CALIBRATORS)} methods over {some.n_blocks} networks, 1 is best. "
    f"Critical difference {some.critical:.2f}; with the {n_sets} test sets as blocks "
    f"{cautious:.2f}",
    "tbl-comparison-ranks",
    digits=1,
)

# %% mystnb={"figure": {"caption": "Which calibrators differ in rank? Mean rank over networks, 1 is best, with a bar of one critical difference: two methods are told apart where their bars do not overlap.", "name": "fig-comparison-ranks"}, "image": {"alt": "Two panels of mean ranks, by NLL and by ECE: a dot with a bar for each calibrator; most bars overlap."}}
_, axes = plt.subplots(1, 2, figsize=(7, 3.6))
for ax, metric in zip(axes, ("nll", "ece"), strict=True):
    found, half = rankings[metric], rankings[metric].critical / 2
    rows = {
        name: Estimate(rank, rank - half, rank + half)
        for name, rank in found.mean.items()
    }
    forest(rows, ax=ax, reference=None)
    ax.set(title=f"by {METRICS[metric]}", xlabel="mean rank")
plt.show()

# %% [markdown]
# With so few blocks the test has little power: it separates no calibration and plain matrix scaling from some of the rest, and
# little else. The paired differences above are the sharper tool.
#
# TS has a middle rank: on many networks something is a little better. A rank does not say by how much; the *regret*
# does: how far a method is above the best one on the same network ({numref}`tbl-comparison-regret`).

# %%
of_nll = main[main["metric"] == "nll"].pivot(
    index="network", columns="method", values="value"
)
of_nll = of_nll.assign(**{TS: 0.0})[list(CALIBRATORS)].rename(columns=CALIBRATORS)
of_nll = of_nll.fillna(np.inf)  # an infinite NLL
regret = of_nll.sub(of_nll.min(axis=1), axis=0)
regrets = {"median": regret.median(), "largest": regret.max(), "where": regret.idxmax()}
regrets["where"] = regrets["where"].map(called)
table(
    pd.DataFrame(regrets).sort_values("largest").replace(np.inf, "infinite"),
    "How far behind the best method can one be? Regret in NLL, nats",
    "tbl-comparison-regret",
    digits=3,
)

# %% [markdown]
# By the largest regret TS and the methods nearest to it lead. Those that rank well by NLL, structured MS apart, fall far behind where the test images are unlike
# the validation images, on CamVid above all; a regret is infinite where a calibrator gives a true class the probability 0.
#
# How much does the order depend on the metric? For each network take Spearman's correlation between the orders by two
# metrics, and average over networks ({numref}`tbl-comparison-orders`).


# %%
def agreement(x, y):
    """Mean over networks of Spearman's correlation, from the ranks (networks, methods) by two metrics."""
    pairs = zip(x.to_numpy(), y.to_numpy(), strict=True)
    return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


orders = {said: errors_by(metric).rank(axis=1) for metric, said in METRICS.items()}
between = pd.DataFrame(
    {a: {b: agreement(x, y) for b, y in orders.items()} for a, x in orders.items()}
)
table(
    between,
    "Do two metrics order the methods alike? Spearman's correlation, mean over networks",
    "tbl-comparison-orders",
)

# %% [markdown]
# The metrics fall into two families. NLL, Brier score and class-wise ECE look at every class. ECE, its adaptive kin and KS
# look at the confidence of the predicted class alone. Within a family the orders agree well, between them
# much less. The maximum calibration error (MCE) is that of a single bin, often a nearly empty one, and stands apart from
# both. A claim by one family does not carry over to the other.
#
# (sec-comparison-losses)=
# ## Training losses
#
# A paired difference alone cannot judge a training loss: trainings differ by their seed, too. On CIFAR-10 with a
# ResNet-20 each loss, as trained and with its own temperature, is compared with cross-entropy *with one temperature*. The first interval in
# {numref}`tbl-comparison-losses` is over test images, paired. In the column *and over seeds* the standard deviation of a training,
# pooled over the losses, is made the standard error of the difference of two means and added in squares.
#
# Some second seeds are {ref}`not kept <sec-gone>`.

# %% tags=["hide-input"]
CELL = {"dataset": "cifar10", "model": "resnet20"}
RAW, AFTER = "as trained", "after one temperature"


def wider(row, scale):
    """The difference with its interval over test images and seeds; endless where each loss was trained once."""
    if np.isnan(row.seed_error):
        return Estimate(scale * row.value, -np.inf, np.inf)
    return Estimate(*(scale * x for x in interval_of(row)))


def losses_beside(metric):
    """Losses minus cross-entropy with one temperature: (how, loss) -> interval over test images, over seeds too."""
    found = {}
    for how, method in ((RAW, "identity"), (AFTER, TS)):
        for row in select(
            effects, TS, "cross_entropy", method=method, metric=metric, **CELL
        ).itertuples():
            if (row.loss, method) != ("cross_entropy", TS):
                estimate = Estimate(
                    *(SCALE[metric] * x for x in (row.value, row.low, row.high))
                )
                found[how, row.loss] = (
                    estimate,
                    wider(row, SCALE[metric]),
                    row.n_seeds,
                )
    return found


beside = {metric: losses_beside(metric) for metric in ("ece", "nll")}
DIRECTION = {"holds": "lower", "does not hold": "higher", "not decided": ""}
of_losses = {}
for (how, loss), (estimate, both, n) in beside["ece"].items():
    nll, nll_both, _ = beside["nll"].get(
        (how, loss), (Estimate(np.nan, np.nan, np.nan),) * 3
    )
    of_losses[how, shown(loss)] = {
        ("", "trainings"): n,
        ("ECE, points", "difference"): text(estimate, "ece"),
        ("ECE, points", "and over seeds"): text(both, "ece"),
        ("ECE, points", "beyond both"): DIRECTION[both.below()],
        ("NLL, nats", "difference"): text(nll, "nll"),
        ("NLL, nats", "and over seeds"): text(nll_both, "nll"),
        ("NLL, nats", "beyond both"): DIRECTION[nll_both.below()],
    }
table(
    pd.DataFrame.from_dict(of_losses, orient="index"),
    "Does a training loss save the temperature? Minus cross-entropy with one temperature "
    "[95% interval over test images], ResNet-20 on CIFAR-10",
    "tbl-comparison-losses",
)

# %% mystnb={"figure": {"caption": "Does a training loss save the temperature? ECE of each loss minus that of cross-entropy with one temperature, on CIFAR-10 with a ResNet-20. Thick: 95% interval over test images; thin: with the spread of seeds; colours by the thick one.", "name": "fig-comparison-losses"}, "image": {"alt": "Two forest plots of the training losses, as trained and after temperature scaling: ECE minus that of cross-entropy with one temperature, with thick and thin intervals."}}
_, axes = plt.subplots(1, 2, figsize=(7, 3.8))
order = sorted(
    {loss for _, loss in beside["ece"]},
    key=lambda loss: beside["ece"].get((RAW, loss), (Estimate(0, 0, 0), 0, 0))[0].value,
)
for ax, how in zip(axes, (RAW, AFTER), strict=True):
    of_how = {
        loss: beside["ece"][how, loss] for loss in order if (how, loss) in beside["ece"]
    }
    forest(
        {shown(loss): e for loss, (e, *_) in of_how.items()},
        ax=ax,
    )
    for y, (_, both, _) in enumerate(of_how.values()):
        if np.isfinite(both).all():
            ax.plot(both[1:], [y, y], color=plots.BLACK, linewidth=0.8)
    ax.set(title=how, xlabel="ECE minus that of CE + TS, points")
plt.show()

# %% [markdown]
# Which ranks would survive another seed? Two losses keep their order if they are further apart than
# seeds explain ({numref}`tbl-comparison-seeds`, {numref}`fig-comparison-pairs`).

# %% tags=["hide-input", "nbval-check-output"]
by_loss = paper_tables.select(ours, source="ours", **CELL)
apart, survive, of_seeds = {}, {}, {}
for method, how in (("identity", RAW), (TS, AFTER)):
    of = paper_tables.select(by_loss, method=method, metric="ece").set_index("loss")
    of = of.sort_values("value")
    twice = of[of["n_seeds"] > 1]
    df = int((twice["n_seeds"] - 1).sum())
    sigma = float(np.sqrt((twice["std"] ** 2 * (twice["n_seeds"] - 1)).sum() / df))
    value, variance = of["value"].to_numpy(), sigma**2 / of["n_seeds"].to_numpy()
    arms = student.ppf(1 - level / 2, df) * np.sqrt(variance[:, None] + variance)
    apart[how] = pd.DataFrame(value - value[:, None] > arms, of.index, of.index)
    survive[how] = (
        int(apart[how].sum(axis=None)),
        len(of) * (len(of) - 1) // 2,
        100 * sigma,
    )
    of_seeds[how] = {
        "sd of a training": f"{100 * sigma:.2f}",
        "degrees of freedom": df,
        "pairs apart": "{} of {}".format(*survive[how]),
    }
table(
    pd.DataFrame.from_dict(of_seeds, orient="index"),
    "How many pairs of losses differ by more than seeds explain? ECE, in points",
    "tbl-comparison-seeds",
)

# %% mystnb={"figure": {"caption": "Which pairs would keep their order with another seed? Losses in order of ECE. A square: the loss of the row is lower than that of the column by more than seeds explain; a dot: not told apart.", "name": "fig-comparison-pairs"}, "image": {"alt": "Two triangles of marks, a row and a column for each loss: as trained most are squares, after one temperature fewer than half, most of them in the first six rows and the last five columns."}} tags=["hide-input"]
_, axes = plt.subplots(1, 2, figsize=(7, 3.6))
for ax, (how, lower) in zip(axes, apart.items(), strict=True):
    n = len(lower)
    above = np.triu(np.ones((n, n), dtype=bool), 1)
    row, column = np.nonzero(above & lower.to_numpy())
    ax.plot(column, row, "s", color=plots.BLUE, markersize=8)
    row, column = np.nonzero(above & ~lower.to_numpy())
    ax.plot(column, row, "o", color=plots.GREY, markersize=3)
    ax.set_xticks(range(1, n), map(shown, lower.columns[1:]), rotation=90)
    ax.set_yticks(range(n - 1), map(shown, lower.index[:-1]))
    ax.set(title=how, xlim=(0.3, n - 0.3), ylim=(n - 1.3, -0.7), aspect="equal")
    ax.grid(visible=False)
plt.show()

# %% [markdown]
# As trained, losses fall into those near calibration and those far from it, and that division is stable. Among
# neighbours the order may change with the next seed, and after one temperature fewer than half of the pairs keep theirs.
# Each pair is tested by itself and for seeds alone, so the counts are too high.
#
# And would they survive another metric? {numref}`tbl-comparison-metrics` ranks the same losses by each.

# %% tags=["hide-input", "nbval-check-output"]
by_metric = {}
for method, how in (("identity", RAW), (TS, AFTER)):
    of = paper_tables.select(by_loss, method=method)
    of = of.pivot(index="loss", columns="metric", values="value")
    for metric in ("ece", "adaptive_ece", "classwise_ece", "nll", "brier"):
        by_metric[how, METRICS[metric]] = of[metric]
by_metric = pd.DataFrame(by_metric).rename(index=shown)
places = by_metric.rank().sort_values((RAW, "ECE")).map("{:.0f}".format)
of_ece = {
    column: by_metric[column].corr(by_metric[column[0], "ECE"], method="spearman")
    for column in by_metric
}
places.loc["correlation with ECE"] = {key: f"{r:.2f}" for key, r in of_ece.items()}
table(
    places,
    "Do two metrics order the losses alike? Ranks, 1 is the lowest, ResNet-20 on CIFAR-10; "
    "last row: Spearman's correlation",
    "tbl-comparison-metrics",
)

# %% [markdown]
# As trained the metrics agree on who is far off, and differ in the order of the rest. After one temperature CE and MDCA are
# among the first three by every metric; the four that lead by ECE as trained fall behind, by the Brier score less so.
#
# Four other data sets have several losses: CIFAR-100 and Tiny-ImageNet with twenty classes, of one training each, CamVid,
# of two or three, and 20 Newsgroups, cut by date and at random ({numref}`tbl-comparison-elsewhere`). On 1,000 test images
# of Tiny-ImageNet only points of ECE would show.

# %% tags=["hide-input"]
ELSEWHERE = [
    "cifar100",
    "tiny_imagenet_20",
    "camvid",
    "20newsgroups",
    "20newsgroups_random",
]
elsewhere = {}
for dataset in ELSEWHERE:
    for how, method in ((RAW, "identity"), (AFTER, TS)):
        of = select(effects, TS, "cross_entropy", method=method, dataset=dataset)
        of = of[(of["loss"] != "cross_entropy") & of["metric"].isin(["ece", "nll"])]
        words = beyond_chance(of, level)
        for metric in ("ece", "nll"):
            chosen = of["metric"] == metric
            best = next(of[chosen].sort_values("value").itertuples())
            low = Estimate(*(SCALE[metric] * x for x in interval_of(best)))
            elsewhere[shown(dataset), how, SAID[metric]] = {
                COUNTS_OF: tally(words[chosen]),
                "lowest": shown(best.loss),
                "its difference": text(low, metric),
            }
table(
    pd.DataFrame.from_dict(elsewhere, orient="index"),
    "Does a loss beat cross-entropy with one temperature on other data? ECE in points, NLL in "
    "nats [95% interval, over seeds and validation samples too, where measured]",
    "tbl-comparison-elsewhere",
)

# %% [markdown]
# Losses that were trained once are not told apart here: another seed may change the side. On CamVid it did: three losses had a lower ECE than cross-entropy with one temperature in the first training, label smoothing alone in the second ({doc}`mbls`). On text cut at random FL, MbLS and label smoothing have a lower ECE as trained, and the last two with a temperature of their own; no NLL is lower beyond chance. Cut by date, all have a higher ECE as trained.
#
# A narrower claim of {doc}`mbls`: a margin is better than none. Both losses were trained on CIFAR-10
# ({numref}`tbl-comparison-margin`).

# %% tags=["hide-input", "nbval-check-output"]
margin = effects[
    (effects["loss"] == "mbls")
    & (effects["base_loss"] == "mbls margin=0 weight=0.05")
    & (effects["method"] == "identity")
    & effects["metric"].isin(["ece", "nll", "accuracy"])
]
answers = {}
for row in margin.itertuples():
    scale = SCALE.get(row.metric, 100)
    estimate = Estimate(*(scale * x for x in (row.value, row.low, row.high)))
    wide = wider(row, scale)
    answers[row.metric] = {
        "over test images": text(estimate, row.metric),
        "and over seeds": text(wide, row.metric),
    }
table(
    pd.DataFrame.from_dict(answers, orient="index"),
    "Does a margin of 6 beat none at half the weight? Difference in points, the NLL in nats, "
    "with 95% intervals",
    "tbl-comparison-margin",
    names=SAID,
)

# %% [markdown]
# (sec-comparison-shift)=
# ## Label shift
#
# A long-tailed network is validated on few images of the rare classes and tested on as many of them as of the others. Its
# validation loss then weights the classes wrongly, whatever the calibrator. The remedy is known: give each class the same weight.
# Class-wise loss scaling does that too, inside its weights (its loss is a mean over class means), so its gain must be
# taken apart: what does the balance gain, and what is left for the weights? For each calibrator,
#
# $$
# \underbrace{\ece_{\mathrm{CLS}} - \ece_{\mathrm{NLL}}}_{\text{gain}} =
# \underbrace{\ece_{\mathrm{bal}} - \ece_{\mathrm{NLL}}}_{\text{balance}} +
# \underbrace{\ece_{\mathrm{CLS}} - \ece_{\mathrm{bal}}}_{\text{remainder}} .
# $$ (eq-comparison-parts)
#
# {numref}`fig-comparison-tail` shows the three errors on the long-tailed networks, {numref}`tbl-comparison-parts` the means
# on all kinds.

# %% tags=["hide-input"]
values = ours[ours["loss"].eq("cross_entropy")].drop_duplicates(
    ["network", "method", "metric"]
)
values = values.set_index(["metric", "network", "method"])["value"]
parts = []
for network, (_, name) in (
    (n, k) for n in sorted(set(main["network"])) for k in NAMES.items()
):
    key = next(k for k, said in NAMES.items() if said == name)
    start = f"{key}:nll" if key == CTS else key
    for metric, scale in (("ece", 100), ("nll", 1)):
        a, b, c = (
            scale * values.get((metric, network, k), np.nan)
            for k in (start, f"{key}:class_balanced", f"{key}:class_loss_scaling")
        )
        where = ours[ours["network"] == network].iloc[0]
        facts = {
            "network": called(network),
            "whose": where["source"],
            "dataset": where["dataset"],
        }
        parts.append(
            facts
            | {"calibrator": name, "metric": metric, "by NLL": a}
            | {"balanced": b, "CLS": c, "balance": b - a, "remainder": c - b}
        )
parts = pd.DataFrame(parts)
tail = parts[parts["dataset"].str.endswith("_lt") & (parts["metric"] == "ece")]

# %% mystnb={"figure": {"caption": "What lowers the ECE on long-tailed networks, the balance or the weights? Test ECE in percent of one temperature and of class temperatures, fitted by NLL, with classes weighted equally, and by CLS.", "name": "fig-comparison-tail"}, "image": {"alt": "Rows of three marks, one row a network and calibrator: the mark by NLL lies far to the right of the other two on almost all rows; balanced and CLS lie near each other."}}
panel = tail[tail["calibrator"].isin([NAMES[TS], NAMES[CTS]])]
panel = panel.set_index(["network", "calibrator"])[["by NLL", "balanced", "CLS"]]
dumbbells({"long-tailed networks": panel}, list(panel.columns), xlabel="test ECE (%)")
plt.show()

# %% tags=["hide-input"]
kinds = {
    "long-tailed, published": parts["dataset"].str.endswith("_lt")
    & (parts["whose"] == "published-logits"),
    "long-tailed, trained here": parts["dataset"].str.endswith("_lt")
    & (parts["whose"] == "ours"),
    "balanced, published": parts["dataset"].isin(["cifar10", "cifar100"])
    & (parts["whose"] == "published-logits"),
    "balanced, trained here": parts["dataset"].isin(["cifar10", "cifar100"])
    & (parts["whose"] == "ours"),
    "others": ~parts["dataset"].str.match("cifar100?(_lt)?$"),
}
ENDS = [("with TS", TS), ("with CTS", CTS)]


def remainder(key, networks, metric):
    """What CLS adds to balanced classes with one calibrator, as text."""
    rows = select(effects, f"{key}:class_balanced", method=f"{key}:class_loss_scaling")
    rows = rows[rows["network"].map(called).isin(networks)]
    return text(difference(rows, metric), metric)


left = {}
for kind, chosen in kinds.items():
    for metric in ("ece", "nll"):
        of = parts[chosen & (parts["metric"] == metric)].dropna(
            subset=["balance", "remainder"]
        )
        if len(of):
            digits = "+.2f" if metric == "ece" else "+.3f"
            left[kind, SAID[metric]] = {
                "networks": of["network"].nunique(),
                "balance": f"{of['balance'].mean():{digits}}",
                "remainder": f"{of['remainder'].mean():{digits}}",
            } | {name: remainder(key, of["network"], metric) for name, key in ENDS}
left = pd.DataFrame.from_dict(left, orient="index")
table(
    left,
    "What is left of class-wise loss scaling after its control? Means over networks and "
    "four calibrators; the remainder with one and with class temperatures, with 95% "
    "intervals; ECE in points, NLL in nats",
    "tbl-comparison-parts",
)

# %% [markdown]
# Four calibrators on one network are hardly four cases: on several networks ETS is TS.
#
# In "others" CamVid shows the danger. Some of its classes are rare in validation *and* in use. There, equal weights
# make the shift that they undo elsewhere. Balance the classes only if they will be balanced in use.

# %% tags=["hide-input", "nbval-check-output"]
of_ts = (parts["calibrator"] == NAMES[TS]) & (parts["metric"] == "ece")
harmed = parts[of_ts & (parts["dataset"] == "camvid")].iloc[0]
Markdown(
    f"One temperature has an ECE of {harmed['by NLL']:.2f}% on CamVid by NLL, and of "
    f"{harmed['balanced']:.2f}% with balanced classes."
)

# %% [markdown]
# (sec-comparison-controls)=
# ## Two controls that no paper has
#
# **An increasing map.** {cite:t}`rahimi2020intra` pass every logit through one increasing function, the same for all.
# Each prediction stays, as with one temperature, which is the special case of a straight line. `order_preserving` is
# such a function of ten pieces, fitted by likelihood.

# %% tags=["hide-input"]
MAP, PRIOR = "order_preserving", "prior_correction"
of_map = select(effects, TS, method=MAP)
of_map = of_map[of_map["metric"].isin(["ece", "nll", "brier"])]
of_map = of_map.assign(word=beyond_chance(of_map, level))
published = of_map["source"] == "published-logits"
tail_data = of_map["dataset"].str.endswith("_lt")
with_map = {
    "published, balanced": of_map[published & ~tail_data],
    "published, long-tailed": of_map[published & tail_data],
    "trained here": of_map[~published],
}
counted = {}
for kind, rows in with_map.items():
    words, counted[kind] = rows["word"], {}
    counted[kind]["", "networks"] = rows["network"].nunique()
    for metric, said in (("ece", "ECE, points"), ("nll", "NLL, nats")):
        counted[kind][said, "difference"] = text(difference(rows, metric), metric)
        counted[kind][said, "−/+/?"] = tally(words[rows["metric"] == metric]).replace(
            " ", ""
        )
table(
    pd.DataFrame.from_dict(counted, orient="index"),
    "Does one increasing map beat one temperature? Mean difference from TS "
    "[95% interval], and on how many networks it is better, worse, not decided",
    "tbl-comparison-map",
)

# %% [markdown]
# **The prior.** Where class frequencies change and are known, Bayes' rule says what to do: divide the calibrated
# probabilities by the frequencies of before and multiply them by those to come
# {cite:p}`saerens2002adjusting,menon2021longtail`. `prior_correction` does this after one temperature. Beside it in
# {numref}`tbl-comparison-prior`: equal weights, and CLS.

# %% tags=["hide-input"]
ways = {
    TS: "TS",
    f"{TS}:class_balanced": "balanced",
    f"{TS}:class_loss_scaling": "CLS",
    PRIOR: "prior",
}
of_prior = {}
for network in sorted(set(main["network"][main["dataset"].str.endswith("_lt")])):
    row = {
        (said, name): values.get((metric, network, key), np.nan) * scale
        for metric, said, scale in (
            ("ece", "ECE (%)", 100),
            ("nll", "NLL", 1),
            ("accuracy", "accuracy (%)", 100),
        )
        for key, name in ways.items()
        if metric != "accuracy" or key in (TS, PRIOR)
    }
    if np.isfinite(row["NLL", "prior"]):
        of_prior[called(network)] = {
            (said, name): f"{x:.3f}" if said == "NLL" else f"{x:.2f}"
            for (said, name), x in row.items()
        }
table(
    pd.DataFrame.from_dict(of_prior, orient="index"),
    "What does a correction of the prior do on balanced test images? Networks for "
    "long-tailed data",
    "tbl-comparison-prior",
)

# %% [markdown]
# On most published networks the map is lower than one temperature in both scores, beyond chance on ten of fifteen in
# NLL and on five in ECE; on none is it worse beyond chance. The strength of its pull towards one temperature was set after a look at three of the published
# networks and seven of ours: at ten times its strength up to four tenths of the gain in NLL are lost, at a tenth next
# to nothing changes.
# The gains are largest with a hundred classes. Most of these networks were trained with the Brier score; of ours, with cross-entropy and for fewer epochs, one test of sixteen is decided. If you have thousands of validation images, try it.
#
# On CIFAR-10-LT the corrected prior lowers the NLL more than either weighting of one temperature, at an ECE near that of CLS, and raises the accuracy by two to four points. On our CIFAR-100-LT network, right on a third of the images, it makes the NLL worse.
#
# ## Cost beside gain
#
# A parameter costs images. If the model is right, a fit of $d$ parameters on $n$ images loses on average about $d / 2n$ nats
# against the best parameters, which {doc}`temperature_scaling` derives and measures. {numref}`tbl-comparison-cost` has
# the number of images at which this loss is a hundredth of a nat, $n = 50 \, d$, for 10, 100 and 1,000 classes, and the
# seconds of one fit, as {ref}`measured <sec-fits>` on one thread. Regularised methods, ODIR and the structured ones,
# need fewer images; for them the number is an upper bound. CTS by search has no likelihood; the number is that of its K
# parameters.

# %%
COUNTS = {key: need_of(key).parameters for key in CALIBRATORS if key != "identity"}
balanced = main[main["group"].str.startswith("balanced")]
seconds = fit_seconds()
cost = {}
for key, count in COUNTS.items():
    kept = key.partition(":")[0] in KEEP_THE_PREDICTION
    of = balanced[balanced["method"] == key]
    cost[CALIBRATORS[key]] = {
        ("", "parameters"): polynomial(count),
        **{("images", f"K = {k:,}"): f"{50 * count(k):,}" for k in (10, 100, 1000)},
        **{("seconds to fit", shape): seconds[shape][key] for shape in seconds},
        ("", "keeps the class"): "yes" if kept else "",
        ("", "NLL minus TS"): text(difference(of, "nll"), "nll"),
    }
    if infinite := of["network"].nunique() - (of["metric"] == "nll").sum():
        cost[CALIBRATORS[key]]["", "NLL minus TS"] += f", infinite on {infinite}"
table(
    pd.DataFrame.from_dict(cost, orient="index"),
    "What does a calibrator cost, and what does it gain on balanced data? Images for a "
    "loss of 0.01 nats, seconds by images x classes, NLL in nats [95% interval]",
    "tbl-comparison-cost",
)

# %% [markdown]
# All of them need logits and labels alone. {doc}`neural_clamping` needs the network, its images and a gradient through it, and
# adds a parameter per pixel and channel.
#
# ## What others measured
#
# CalArena {cite:p}`calarena2026` measured calibrators of other packages, also on ImageNet. Nothing in
# {numref}`tbl-comparison-arena` was measured here or has an interval. It has the networks that the papers print;
# {doc}`../book/replications` has CalArena's others, and what more third parties measured.

# %% tags=["hide-input"]
FAMILIES = {
    "CIFAR-10": "cifar10",
    "CIFAR-100": "cifar100",
    "CUB": "cub200",
    "SVHN": "svhn",
    "ImageNet": "imagenet",
}
scarce = third["note"].str.startswith("10000 fitted")  # ten images a class
t = third[third["metric"].isin(["nll", "ece"]) & ~scarce]
t = t[t["dataset"].isin(list(FAMILIES.values()))]
t = t.pivot(index=["dataset", "network", "metric"], columns="method", values="value")
less = t.sub(t[TS], axis=0).drop(columns=TS).reset_index()
arena = {}
for family, dataset in FAMILIES.items():
    of = less[(less["dataset"] == dataset) & (less["metric"] == "nll")]
    of = of.drop(columns=["dataset", "network", "metric"]).dropna(axis=1, how="all")
    arena[family] = {
        name: f"{of[name].mean():+.3f} "
        f"({(of[name] < 0).sum()}/{of[name].notna().sum()})"
        for name in of
    }
order = (
    t.xs("nll", level="metric")
    .sub(t.xs("nll", level="metric")[TS], axis=0)
    .median()
    .sort_values()
)
arena = (
    pd.DataFrame(arena).reindex([name for name in order.index if name != TS]).fillna("")
)
ARENA = {
    "identity": "no calibration",
    "ets": "ETS",
    "bbq": "BBQ",
    "cir": "CIR",
    "catboost": "CatBoost",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "venn_abers": "Venn–Abers",
    "dirichlet": "Dirichlet",
}
arena = arena.rename(index=lambda name: ARENA.get(name, name.replace("_", " ")))
table(
    arena,
    "Which calibrators are below TS in CalArena? NLL minus that of TS, in nats, mean "
    "(networks below TS / networks)",
    "tbl-comparison-arena",
)

# %% [markdown]
# The rows stand in the order of their median. On ImageNet (25,000 validation images) nothing lowers the NLL by more than
# thousandths. ETS is above TS there, which a fit by likelihood to so many images would hardly give; what theirs was fitted
# to is not stated. Whatever bins confidences or classes (histogram binning, isotonic regression, BBQ)
# costs hundredths of a nat (SVHN) to whole nats. *Structured* vector and matrix scaling, which are regularised towards one temperature
# {cite:p}`berta2026structured`, are the only ones that are below TS on most networks, mostly by thousandths.
#
# Of what this book does not have: BBQ averages many binnings, CIR joins the steps of an isotonic fit by straight lines,
# Venn–Abers fits isotonic regression with the new sample in either class, the kernel method averages the labels of
# similar samples. CatBoost, LightGBM and XGBoost grow trees on the network's output.
#
# On some networks our files have the same logits, so the two packages can be compared ({numref}`tbl-comparison-both`).

# %% tags=["hide-input"]
SAME = {
    "identity": "identity",
    TS: TS,
    "ets": "ets",
    "vector_scaling": "vector_scaling",
}
SAME |= {"matrix_scaling": "matrix_scaling", "dirichlet": "dir_odir"}
SAME |= {
    f"structured_{name}": f"structured_{name}"
    for name in ("vector_scaling", "matrix_scaling")
}
mine = ours[ours["source"] == "published-logits"].drop_duplicates(
    ["network", "method", "metric"]
)
mine = mine.set_index(["network", "method", "metric"])["value"]
twice = {}
for network in sorted(
    set(third["network"]) & set(mine.index.get_level_values("network"))
):
    for theirs, key in SAME.items():
        for metric in ("ece", "nll"):
            a = third[(third["network"] == network) & (third["method"] == theirs)]
            a = a.loc[a["metric"] == metric, "value"].iloc[0]
            b = mine.get((network, key, metric), np.nan)
            scale, digits = SCALE[metric], 2 if metric == "ece" else 4
            row = twice.setdefault((called(network), CALIBRATORS[key]), {})
            for whose, value in (("ours", b), ("CalArena", a)):
                row[SAID[metric], whose] = (
                    "–" if np.isnan(value) else f"{scale * value:.{digits}f}"
                )
table(
    pd.DataFrame.from_dict(twice, orient="index"),
    "Do two packages find the same numbers on the same logits? ECE in percent, NLL in nats",
    "tbl-comparison-both",
)

# %% [markdown]
# Without a fit, for TS and for structured VS, yes. The others differ by up to half a point of ECE and 0.005 nats.
#
# (sec-comparison-questions)=
# ## Five questions
#
# **Which method for 1,000 classes and 5,000 images?** Nothing here measures that: the largest $K$ of this book is 100.
# There are the law $d / 2n$ ({numref}`tbl-comparison-thousand`) and CalArena's networks for ImageNet, with 25,000 and with
# 10,000 images to fit to.

# %% tags=["nbval-check-output"]
nats = {}
for key in (TS, "ets", "pts", f"{CTS}:nll", "vector_scaling"):
    d = COUNTS[key](1000)
    nats[CALIBRATORS[key]] = {
        "parameters d": f"{d:,}",
        "5,000 images": d / 10_000,
        "10,000 images": d / 20_000,
        "25,000 images": d / 50_000,
    }
table(
    pd.DataFrame.from_dict(nats, orient="index"),
    "What does a fit to 1,000 classes lose? In nats, by d / 2n",
    "tbl-comparison-thousand",
    digits=4,
)

# %% tags=["hide-input", "nbval-check-output"]
imagenet = less[(less["dataset"] == "imagenet") & (less["metric"] == "nll")]
measured = imagenet.set_index("network")["vector_scaling"]
told = " and ".join(
    f"{value:+.3f} on {shown(network.partition('/')[2])}"
    for network, value in measured.items()
)
few = third[scarce & (third["metric"] == "nll")]
few = few.pivot(index="network", columns="method", values="value")
costs = few["vector_scaling"] - few[TS]
Markdown(
    minus(f"""
CalArena fitted vector scaling to 25,000 images of ImageNet. Its NLL minus that of TS is {told}.
On 10,000 images it is {costs.min():+.3f} to {costs.max():+.3f} on {len(costs)} other networks.
""")
)

# %% [markdown]
# The 1,999 parameters of vector scaling cost more than they gain on both; on 5,000 images the fit would cost twice as
# much as on 10,000. So: TS, and nothing with a parameter a class unless it is regularised towards TS.
# {ref}`sec-others-arena` has all six, and {ref}`sec-others-maps` what beats TS with many classes.
#
# **Does CTS beat TS, by how much, and where?**

# %% tags=["hide-input"]
found = {}
for word in over_networks.WORDS[:2]:
    of = by_ece[by_ece["word"] == word]
    told = [f"{called(row.network)} {100 * row.value:+.2f}" for row in of.itertuples()]
    found[word] = f"{len(of)} networks ({'; '.join(told)})" if told else "none"
undecided = int((by_ece["word"] == "not decided").sum())
counts = [int((by_nll["word"] == word).sum()) for word in over_networks.WORDS]
Markdown(
    minus(f"""
In ECE, held against TS by ECE, CTS is better on {found["better"]}, worse on
{found["worse"]}, and not decided on {undecided}; the mean difference is
{text(difference(by_ece, "ece"), "ece")} points. In NLL, held against TS, it is better on
{counts[0]}, worse on {counts[1]}, and not decided on {counts[2]}; the mean difference is
{text(difference(by_nll, "nll"), "nll")} nats. In ECE, held against TS, the mean difference is
{text(difference(against[TS], "ece"), "ece")} points.
""")
)

# %% [markdown]
# Network by network next to nothing is decided: other validation images would move class temperatures too far. Over
# all networks neither mean in ECE is beyond chance, and the NLL rises. The NLL falls mainly on the long-tailed CIFAR-10, where a
# temperature per class can undo some of the shift.
#
# **What is left of class-wise loss scaling after its control?** On the published long-tailed networks some tenths of a
# point of ECE. Of ours for CIFAR-100-LT the ResNet-20 gets worse by a point, two are not decided; CamVid gets worse by
# seven.

# %% tags=["hide-input"]
of_kind = left.xs("ECE", level=1)["with TS"]
tails = of_kind["long-tailed, published"]
own = sorted(set(parts.loc[kinds["long-tailed, trained here"], "network"]))
told = "; ".join(f"{network} {remainder(TS, [network], 'ece')}" for network in own)
Markdown(
    minus(f"""
With one temperature, in points: published long-tailed networks {tails}, balanced and
published {of_kind["balanced, published"]}. Ours: {told}.
""")
)

# %% [markdown]
# **Does the margin beat $m = 0$?**

# %% tags=["hide-input"]
told = "; ".join(
    f"{SAID.get(metric, metric)} {said['over test images']}, with seeds "
    f"{said['and over seeds']}"
    for metric, said in answers.items()
)
Markdown(
    minus(f"""
Margin 6 minus margin 0 (with half the weight, as in the paper), in points and nats: {told}.
""")
)

# %% [markdown]
# This is not decided: no interval with seeds excludes zero. One pair of losses on one network cannot show that the
# margin does nothing.
#
# **Which ranks survive another seed?** The pairs are in {numref}`fig-comparison-pairs`.

# %% tags=["hide-input"]
told = "; ".join(
    f"{how} {n_apart} of {n_pairs} pairs of losses, with a standard deviation of "
    f"{sigma:.2f} points a training"
    for how, (n_apart, n_pairs, sigma) in survive.items()
)
stays = "; ".join(
    f"{shown(loss)} below "
    + ", ".join(shown(other).replace(",", "") for other in row.index[row])
    for loss, row in apart[AFTER].iterrows()
    if row.sum() > 1
)
Markdown(f"""
By ECE, {told}. After one temperature, of losses with more than one such pair: {stays}.
""")

# %% [markdown]
# (sec-comparison-summary)=
# ## Summary

# %% tags=["hide-input", "nbval-check-output"]
n_sets = results.difference_intervals.images_of(main["dataset"]).nunique()
pooled = {
    CALIBRATORS[key]: [
        text(difference(main[main["method"] == key], metric), metric)
        for metric in ("ece", "nll")
    ]
    for key in ("identity", "ets", "pts", f"{CTS}:nll", "vector_scaling")
}
told = "; ".join(f"{name} {of[0]} and {of[1]}" for name, of in pooled.items())
balanced_better = {
    name: difference(balanced[balanced["method"] == key], "nll")
    for key, name in short.items()
}
best = min(balanced_better, key=lambda name: balanced_better[name].value)
off = between.where(~np.eye(len(between), dtype=bool))
raw = [both.below() for (how, _), (_, both, _) in beside["ece"].items() if how == RAW]
largest = regret.max().sort_values().iloc[:3].items()
regretted = ", ".join(f"{name} {value:.3f}" for name, value in largest)
Markdown(
    minus(f"""
1. There are {len(complete)} networks with all calibrators, on {n_sets} test sets. Minus TS, the mean ECE (points)
   and NLL (nats) are: {told}.
2. On balanced data {best} has the lowest NLL, {text(balanced_better[best], "nll")} nats minus TS.
3. With one temperature, CLS changes the ECE beyond balanced weights by {tails} points on the published
   long-tailed networks.
4. The orders by NLL and by ECE have a Spearman correlation of {between.loc["NLL", "ECE"]:.2f}; the lowest of all
   pairs of metrics is {off.min().min():.2f}.
5. Of {len(raw)} losses as trained, {raw.count("holds") or "none"} have an ECE below that of cross-entropy with TS on
   CIFAR-10, beyond test images and seeds.
6. The smallest of the largest regrets in NLL, in nats, are those of {regretted}.
""")
)

# %% [markdown]
# The default follows: fit one temperature by likelihood. What beats it depends on the data: a known shift of the class
# shares, a hundred images a parameter, a network whose error is not one scale. {doc}`../book/which_method` asks about
# these in turn.
#
# ## Exercises
#
# 1. In {eq}`eq-comparison-arm` take the networks of one test set as independent. By what factor do the intervals shrink at
#    most, and which undecided rows of {numref}`fig-comparison-forest` could turn blue or vermilion?
# 2. With how many networks would Nemenyi's test separate TS from vector scaling at their mean ranks?
#
# ```{dropdown} Solution 1
# With $k$ arms of one length on a test set, their sum $k a$ becomes $\sqrt k \, a$. So with all $J$ networks on one test
# set the interval shrinks by a factor of $\sqrt J$ at most, and a test set with one network keeps its arm. An undecided row can turn
# only if its dot is further from zero than the shrunken arm; the dot itself does not move.
# ```
#
# ```{dropdown} Solution 2
# Let $r$ be the difference of the two mean ranks in {numref}`tbl-comparison-ranks`. Set $\mathrm{CD} = r$ in
# {eq}`eq-comparison-cd` and solve: $J = q_\alpha^2 \, k (k + 1) / (6 r^2)$.
# ```
