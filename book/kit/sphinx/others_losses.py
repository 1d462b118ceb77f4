"""What others measured of training losses, beside what MbLS and ACLS print: blocks as in :mod:`.others_calibrators`."""

from __future__ import annotations

import pandas as pd

from book.kit.notebook.display_names import shown
from book.kit.notebook.table import table
from book.kit.results import load
from book.kit.results.csv_rows import select
from book.kit.results.evidence import SCALE
from book.kit.sphinx.others_calibrators import TS, Block, network
from book.papers import PAPERS

CE, TS_ECE = "cross_entropy", "temperature_scaling:ece"
TINY = {"dataset": "tiny_imagenet", "model": "resnet50"}


def of(rows: pd.DataFrame, **where: str) -> pd.DataFrame:
    """The rows with these values, numbers as fractions or in nats."""
    rows = select(rows, **where)
    return rows.assign(value=rows["value"] / rows["unit"].map(SCALE))


def baseline() -> Block:
    """Who has which ECE for cross-entropy on Tiny-ImageNet, and with a temperature."""
    printed, others = load("paper").query("source == 'printed'"), load("third_party")
    who = {}
    for paper, number in (("mbls", "7"), ("acls", "3"), ("class_temperature_scaling", "I")):
        who[f"{PAPERS[paper].short}, Table {number}"] = of(printed, paper=paper, table=number, **TINY)
    who["a user of the MbLS authors' later code"] = of(others, source="cals-4")
    tuned = {"dataset": "tiny_imagenet", "model": "resnet50_pretrained"}
    who["replication of label smoothing, pretrained"] = of(others, source="re-labelsmoothing", **tuned)
    found = {}
    for name, rows in who.items():
        rows = select(rows, loss=CE, metric="ece")
        found[name] = 100 * rows.set_index(rows["method"].replace(TS_ECE, TS))["value"]
    frame = pd.DataFrame(found).T[["identity", TS]]
    frame.columns = ["CE", "CE and a temperature"]
    said = f"""
*Agreement:* none. The ECE of uncalibrated cross-entropy is {frame["CE"].min():.2f} to {frame["CE"].max():.2f}%,
with a temperature {frame.iloc[:, 1].min():.2f} to {frame.iloc[:, 1].max():.2f}%.
"""
    caption = (
        f"The largest ECE that somebody reports for cross-entropy is {frame['CE'].max() / frame['CE'].min():.0f} times "
        "the smallest. Tiny-ImageNet, ResNet-50, in percent"
    )
    return said, [table(frame, caption, "tbl-others-baseline")]


def log() -> Block:
    """The logs of the authors of MbLS and ACLS beside their tables."""
    rows = load("paper").query("paper in ('mbls', 'acls')")
    cells = ["dataset", "model", "loss", "metric"]
    values = of(rows, source="author-log").set_index(cells)["value"].sort_index()
    printed = of(rows, source="printed", method="identity").query("table in ('1', '2', '3')")
    printed = printed[(printed["paper"] == "acls") == (printed["loss"] == "acls")].drop_duplicates(cells)
    pairs = printed.set_index(cells)["printed"].to_frame().join(values.rename("log"), how="inner")
    same = sum(abs(100 * row.log - float(row.printed)) < 0.005 + 1e-9 for row in pairs.itertuples())
    frame = values[TINY["dataset"], TINY["model"]].unstack()
    more = {shown(key): frame.loc[key, "nll"] - frame.loc[CE, "nll"] for key in ("acls", "mbls", "focal")}
    frame = frame.mul([1 if metric == "nll" else 100 for metric in frame]).sort_values("ece", ascending=False)
    frame = frame.rename(index=shown, columns=shown).rename_axis(index=None, columns=None)
    said = f"""
*Agreement:* {same} of {len(pairs)} printed numbers are in the logs.
They have the NLL too, which the papers leave out. It is higher than with cross-entropy:
{", ".join(f"with {name} by {nats:.3f}" for name, nats in more.items())} nats.
"""
    caption = (
        "In the authors' logs cross-entropy has the highest ECE and the lowest NLL. Tiny-ImageNet, ResNet-50, "
        "in percent, the NLL in nats"
    )
    return said, [table(frame, caption, "tbl-others-log", digits=3)]


def smoothing() -> Block:
    """Cross-entropy, with a temperature, and label smoothing of four strengths."""
    rows = load("third_party").query("source == 're-labelsmoothing' and metric == 'ece'")
    key = rows["loss"].where(rows["method"] == "identity", TS)
    wide = 100 * rows.assign(key=key).pivot(index=["dataset", "model"], columns="key", values="value")
    names = {CE: "CE", TS: "CE and a temperature", "label_smoothing": "LS, 0.05"}
    names |= {f"label_smoothing alpha={alpha}": f"LS, {alpha}" for alpha in (0.1, 0.15, 0.3)}
    frame = wide[list(names)].rename(columns=names).rename_axis(columns=None)
    lowest = (frame.idxmin(axis=1) == names[TS]).sum()
    worse = (frame.filter(like="LS").min(axis=1) > frame["CE"]).sum()
    frame.index = pd.Index([network(*cell) for cell in frame.index])
    said = f"""
*Agreement:* the papers do not print these networks.
Cross-entropy with a temperature has the lowest ECE on {lowest} of {len(frame)}.
On {worse} of them label smoothing of every strength is worse than uncalibrated cross-entropy.
"""
    caption = (
        f"Cross-entropy with a temperature has a lower ECE than label smoothing on {lowest} of {len(frame)} networks. "
        "ECE in percent, by the strength of the smoothing"
    )
    return said, [table(frame, caption, "tbl-others-smoothing")]


def flsd() -> Block:
    """The FLSD network of the focal-loss authors beside what MbLS and ACLS print for it."""
    theirs = load("third_party").query("source == 'focal'").set_index(["method", "metric"])
    printed = of(load("paper").query("source == 'printed'"), dataset="cifar10", model="resnet50", metric="ece")
    mbls = printed[(printed["paper"] == "mbls") & (printed["table"] == "7")].set_index(["loss", "method"])["value"]
    found = {}
    names = {"identity": "uncalibrated", TS_ECE: "temperature fitted by ECE", TS: "temperature fitted by likelihood"}
    for method, name in names.items():
        ece, nll = theirs.loc[(method, "ece")], theirs.loc[(method, "nll")]
        text = f"{100 * ece['value']:.2f} [{100 * ece['low']:.2f}, {100 * ece['high']:.2f}]"
        as_printed = 100 * mbls.get(("flsd", method), float("nan"))
        found[name] = {"FLSD in MbLS, Table 7": as_printed, "by its authors": text, "NLL, nats": nll["value"]}
    own = 100 * mbls["mbls", "identity"]
    inside = theirs.loc[(TS_ECE, "ece"), "low"] <= own / 100 <= theirs.loc[(TS_ECE, "ece"), "high"]
    said = f"""
*Agreement:* none. ACLS prints what MbLS prints.
MbLS itself has {own:.2f}% there, which is {"inside" if inside else "outside"} the interval of the authors' FLSD network
with a temperature fitted by ECE.
"""
    caption = (
        "Trained by its authors, FLSD has less than half the ECE that MbLS prints for it. CIFAR-10, ResNet-50, "
        "in percent [95% interval]"
    )
    frame = pd.DataFrame.from_dict(found, orient="index")
    return said, [table(frame, caption, "tbl-others-flsd", digits={"NLL, nats": 3})]
