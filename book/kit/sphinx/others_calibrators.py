"""What third parties measured of calibrators, beside what is printed and ours: what follows from it, and its tables.

A block is its sentences, Markdown, and its tables. The rows are in ``third_party.csv`` and ``sketch_runs.csv``.
"""

from __future__ import annotations

import pandas as pd

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import Table, table
from book.kit.results import load
from book.kit.results.csv_rows import select
from book.kit.sphinx.cached_results import differences, measured
from calibkit import _folders

TS, CLS, CTS = "temperature_scaling", "temperature_scaling:class_loss_scaling", "class_temperature_scaling"
SVS, VS = "structured_vector_scaling", "vector_scaling"
KINDS = ("networks of the paper", "other networks")
MANY = ("imagenet", "cars", "cub200")  # 196 classes to 1,000
#: What the files call a method that the book has no name for.
THEIRS = {
    **{"gp": "GP calibration", "diag": "increasing map (DIAG)", "lece": "LECE", "ts_lece": "TS + LECE", "dec": "DEC"},
    **{"ec": "EC", "enir": "ENIR", "imax": "IMax", "bbq": "BBQ", "dirichlet": "Dirichlet", CLS: "TS + CLS"},
    **{"scaling_binning": "ScaBin", "soft_binning": "SoftBin"},
}
SCARCE = "1,000 classes, 10 images each"
#: CalArena's networks by how many images of a class there are to fit, or by what is on the images.
ARENA = {
    "10 classes": (("cifar10", "svhn"), ("5000", "6000")),
    "100, 200 classes": (("cifar100", "cub200"), ("5000", "2897")),
    "1,000 classes, 25 images each": (("imagenet",), ("25000",)),
    SCARCE: (("imagenet",), ("10000",)),
    "skin, 7 classes": (("derma",), ("1003",)),
    "retina, 4 classes": (("oct",), ("10832",)),
}
Block = tuple[str, list[Table]]


def named(key: str) -> str:
    """A method, loss, network or data set as the page calls it."""
    return THEIRS.get(key) or shown(key)


def network(dataset: str, model: str) -> str:
    """The name of a network: "CIFAR-10, DenseNet-40"."""
    return f"{shown(dataset)}, {shown(model)}"


def wide(source: str) -> pd.DataFrame:
    """Values of a third party: a row a network, columns (metric, method)."""
    rows = load("third_party").query("source == @source and loss == 'cross_entropy'")
    return rows.pivot(index=["dataset", "model"], columns=["metric", "method"], values="value")


def less(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One metric minus that of TS, a column a method: the ECE in points, the NLL in nats."""
    of = values[metric].astype(float)
    return of.sub(of[TS], axis=0).drop(columns=TS) * (1 if metric == "nll" else 100)


def below(values: pd.Series) -> str:
    """On how many networks it is lower: "6 of 7".

    Example:
        >>> below(pd.Series([-1.0, 2.0, float("nan")]))
        '1 of 2'
    """
    return f"{(values < 0).sum()} of {values.notna().sum()}"


def class_loss() -> Block:
    """TS and TS with class-loss weights, as printed, by others, and ours."""
    cells = ["dataset", "model"]
    printed = select(load("paper"), paper="class_loss_scaling", table="1", metric="ece", method=CLS)
    printed = printed.set_index(cells)["printed"]
    own = select(measured(), metric="ece", method=CLS, source="published-logits").set_index(cells)["value"]
    values = wide("h-calibration")
    theirs = 100 * values["ece", CLS]
    ece, nll, mass = (less(values, metric)[CLS] for metric in ("ece", "nll", "adaptive_ece"))
    known = theirs.index.isin(printed.index)
    columns = {
        ("ECE, %", "TS"): 100 * values["ece", TS],
        ("ECE, %", "CLS, printed"): printed.reindex(theirs.index),
        ("ECE, %", "CLS"): theirs,
        ("ECE, %", "CLS, ours"): 100 * own.reindex(theirs.index),
        ("CLS minus TS", "ECE"): ece,
        ("CLS minus TS", "ECE, equal masses"): mass,
        ("CLS minus TS", "NLL"): nll,
    }
    kinds = [KINDS[0] if of_paper else KINDS[1] for of_paper in known]
    labels = pd.MultiIndex.from_arrays([kinds, [network(*cell) for cell in theirs.index]])
    frame = pd.DataFrame(columns).set_axis(labels)
    pairs = zip(theirs[known], printed.reindex(theirs[known].index), strict=True)
    exact = sum(f"{value:.2f}" == text for value, text in pairs)
    said = f"""
*Agreement:* {exact} of {known.sum()} printed numbers come out to the last digit.
The ECE is lower with the weights on {below(ece[known])} networks of the paper and on {below(ece[~known])} others.
In bins of equal mass it is lower on {below(mass[known])} and on {below(mass[~known])}.
The NLL moves by at most {nll.abs().max():.4f} nats.
"""
    caption = (
        f"Class-loss weights lower the ECE of one temperature on {below(ece[known])} networks of the paper and on "
        f"{below(ece[~known])} others. Run by others. ECE in percent, its changes in points, those of the NLL in nats"
    )
    return said, [table(frame.sort_index(level=0), caption, "tbl-others-class-loss", digits={"NLL": 4})]


def sketch() -> Block:
    """Class temperatures, PTS and ETS minus TS on ImageNet-Sketch: mean and range of the runs."""
    runs = pd.read_csv(_folders.stored() / "sketch_runs.csv", index_col=["model", "method", "metric"])
    values = {metric: runs.xs(metric, level="metric") for metric in ("ece", "nll")}
    base = {metric: of.xs(TS, level="method") for metric, of in values.items()}
    methods = (CTS, "pts", "ets")
    change = {metric: {m: of.xs(m, level="method") - base[metric] for m in methods} for metric, of in values.items()}
    plain, said, tables = values["ece"].xs("identity", level="method"), [], []
    same = (plain.max(axis=1) == plain.min(axis=1)).sum()
    for metric, scale, digits, unit in (("ece", 100, 2, "percent and points"), ("nll", 1, 3, "nats")):
        found = {"TS": scale * base[metric].mean(axis=1)}
        for method in methods:
            of = (scale * change[metric][method]).agg(["mean", "min", "max"], axis=1)
            found[named(method)] = [
                f"{r['mean']:+.{digits}f} [{r['min']:+.{digits}f}, {r['max']:+.{digits}f}]" for _, r in of.iterrows()
            ]
        caption = (
            f"At 1,000 classes CTS has a lower {metric.upper()} than one temperature on "
            f"{below(change[metric][CTS].mean(axis=1))} networks. {metric.upper()} of TS, and differences from it as "
            f"mean and range of runs, in {unit}"
        )
        frame = pd.DataFrame(found).rename(index=shown).rename_axis(None)
        tables.append(table(frame, caption, f"tbl-others-sketch-{metric}", digits=digits))
    for method in methods:
        ece, nll = (change[metric][method] for metric in ("ece", "nll"))
        every = (nll.gt(0) | nll.isna()).all(axis=1).sum()
        said.append(
            f"{named(method)}: the mean ECE is lower than that of TS on {below(ece.mean(axis=1))} networks, "
            f"the mean NLL on {below(nll.mean(axis=1))}. In every run the NLL is higher on {every}."
        )
    first = f"""
*Agreement:* the papers do not print these networks.
On {same} of {len(plain)} the uncalibrated ECE is the same in all runs, to six digits.
So they are runs on the same images, in other orders, and their range says nothing of other images.
"""
    return "\n".join([first, "", *said]), tables


def maps() -> Block:
    """Every calibrator that was run again minus TS, with many classes and with few; ours beside it."""
    values = wide("h-calibration")
    ece, nll = (less(values, metric) for metric in ("ece", "nll"))
    many = values.index.get_level_values("dataset").isin(MANY)
    both, columns = (ece < 0) & (nll < 0), {}
    for kind, rows in {"196 to 1,000 classes": many, "10 and 100 classes": ~many}.items():
        columns |= {(kind, "ECE, points"): ece[rows].mean(), (kind, "NLL, nats"): nll[rows].mean()}
        columns[kind, "lower in both"] = both[rows].sum().map(f"{{}} of {rows.sum()}".format)
    order = pd.DataFrame({"both": -both[many].sum(), "nll": nll[many].mean()}).sort_values(["both", "nll"]).index
    frame = pd.DataFrame(columns).reindex(order).rename(index=named).rename_axis(None)
    rows = differences().query("method == 'order_preserving' and base_method == @TS and source == 'published-logits'")
    own = rows.pivot(index=["dataset", "model", "loss"], columns="metric", values="value")
    ours = (own[["ece", "nll"]] < 0).all(axis=1).sum()
    gp, diag = (f"{both.loc[many, method].sum()} of {many.sum()}" for method in ("gp", "diag"))
    said = f"""
*Agreement:* that of CLS is above. No paper prints GP calibration or DIAG.
With many classes GP calibration is lower than TS in ECE and NLL on {gp} networks, the map DIAG on {diag}.
Our `order_preserving`, a map of ten pieces, is lower in both on {ours} of {len(own)} published networks for CIFAR,
whole and long-tailed. The mean differences are {100 * own["ece"].mean():.2f} points and {own["nll"].mean():.3f} nats.
Our `gp_calibration` is close to it.
{{numref}}`tbl-comparison-map` says where this is beyond chance.
"""
    caption = (
        f"With many classes GP calibration beats one temperature in both ECE and NLL on {gp} networks, DIAG on {diag}. "
        "Run by others. Mean difference from TS, and networks where both ECE and NLL are lower"
    )
    return said, [table(frame, caption, "tbl-others-maps", digits={"NLL, nats": 3})]


def arena() -> Block:
    """How calibrators differ from TS on CalArena's networks, by kind; and its networks that no paper prints."""
    values, rows = wide("calarena"), load("third_party").query("source == 'calarena'")
    fitted = rows["note"].str.partition(" ")[0].groupby([rows["dataset"], rows["model"]]).first().reindex(values.index)
    data = values.index.get_level_values("dataset")
    kinds = {kind: data.isin(names) & fitted.isin(numbers) for kind, (names, numbers) in ARENA.items()}
    change, found = {metric: less(values, metric) for metric in ("ece", "nll")}, {}
    for metric, digits, unit in (("ece", 2, "ECE, points"), ("nll", 3, "NLL, nats")):
        for method in ("identity", "ets", SVS, VS, "structured_matrix_scaling", "matrix_scaling"):
            of = {kind: change[metric].loc[rows, method].dropna() for kind, rows in kinds.items()}
            text = {k: f"{x.mean():+.{digits}f} ({(x < 0).sum()}/{len(x)})" if len(x) else None for k, x in of.items()}
            found[unit, named(method)] = text
    caption = (
        f"In CalArena structured VS has a lower NLL than one temperature on {below(change['nll'][SVS])} networks. "
        "Mean difference from TS (networks where lower / networks)"
    )
    tables = [table(pd.DataFrame.from_dict(found, orient="index"), caption, "tbl-others-arena")]
    new, single = kinds[SCARCE] | data.isin(["derma", "oct"]), {}
    for metric, scale, digits, unit in (("ece", 100, 2, "ECE, %"), ("nll", 1, 3, "NLL, nats")):
        for method in ("identity", TS, "ets", SVS, VS):
            of = scale * values.loc[new, (metric, method)]
            single[unit, named(method)] = of.map(f"{{:.{digits}f}}".format)
    frame = pd.DataFrame(single)
    frame.index = pd.MultiIndex.from_tuples([(shown(data), shown(model)) for data, model in frame.index])
    caption = (
        f"On networks that no paper has, structured VS has a lower NLL than one temperature on "
        f"{below(change['nll'].loc[new, SVS])}. ImageNet with ten images of each class to fit to, skin (Derma) and "
        "retina (OCT)"
    )
    tables.append(table(frame, caption, "tbl-others-arena-new"))
    counts = [
        f"on {below(change['ece'][m])} and {below(change['nll'][m])} networks with {named(m)}" for m in ("ets", SVS, VS)
    ]
    costs, n = change["nll"].loc[kinds[SCARCE], VS], 10_000
    said = f"""
*Agreement:* uncalibrated, for TS and for structured VS they have our numbers on the same logits
({{numref}}`tbl-comparison-both`). ECE and NLL are lower than with TS {", ".join(counts)}.
With ten images of each of 1,000 classes VS costs {costs.min():.2f} to {costs.max():.2f} nats. The law $d / 2n$ says
{1000 / (2 * n):.2f} for scales alone and {2000 / (2 * n):.2f} with offsets.
"""
    return said, tables
