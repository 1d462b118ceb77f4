"""Which calibrator to take: the rule of the page "Which method?", applied to numbers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import holm
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.diagnosis import FEWEST, Diagnosed
from calibkit.reporting.trial import Trial, Tried

ALPHA = 0.05  # of the tests against temperature scaling, all of them one family
WORTH = 0.005  # nats that a method must gain to be worth its parameters: half of what the guide counts by
#: "high": the numbers decide. "some": the default, which nothing decides against. "low": the data are in doubt.
#: "none": they are wrong, and nothing is recommended.
Sure = Literal["high", "some", "low", "none"]
#: What decides between the network and one temperature, in words and with its unit.
SCORES = {"nll": ("NLL", " nats"), "brier": ("Brier score", "")}


class Choice(NamedTuple):
    """A recommendation.

    Attributes:
        key: of the calibrator to take; "identity" where none is recommended.
        sure: "high", "some", "low" or "none".
        reasons: sentences, the most important first.
    """

    key: str
    sure: Sure
    reasons: tuple[str, ...]


def choose(trial: Trial, diagnosed: Diagnosed, *, keep_predictions: bool = False) -> Choice:
    """Temperature scaling, unless another method is better beyond chance.

    A method takes its place if it has the samples that it should have; it gives no class the probability 0 that the
    network gives more; its NLL is lower, with a p-value below 5% after Holm's correction over all such methods, and by
    at least 0.005 nats; its ECE is not higher beyond chance; and the network's own NLL is not lower. Of several, the
    one with the lowest NLL. Where no method takes its place, and one temperature raises the NLL of the network beyond
    chance, or its ECE without a lower NLL beyond chance, nothing is fitted. Where the network gives a label the
    probability 0, its Brier score takes the place of its NLL.

    Args:
        trial: what came of each method.
        diagnosed: what is known of the data.
        keep_predictions: whether only methods count that keep every prediction.
    """
    if any(finding.weight == "wrong" for finding in diagnosed.findings):
        return Choice("identity", "none", ("Nothing is recommended: see the warning above, and mend the data first.",))
    measured = trial.measured
    base, before = measured[BASE], measured["identity"]
    score = "brier" if trial.floored else "nll"
    gain, (word, unit) = before.changes[score], SCORES[score]  # of temperature scaling: above 0 where it helps
    rivals = {
        key: tried
        for key, tried in measured.items()
        if key not in (BASE, "identity")
        and tried.enough
        and not tried.zeros
        and (not keep_predictions or tried.calibrator.keeps_predictions)
    }
    better = {key: rivals[key] for key in _better(rivals, before, score)}
    worth = {key: tried for key, tried in better.items() if -tried.changes["nll"].value >= WORTH}
    reasons: list[str] = []
    sure: Sure = "some"
    if worth:
        key, sure = min(worth, key=lambda name: worth[name].values["nll"].value), "high"
        value, low, high = worth[key].changes["nll"]
        more = f"{Estimate(-value, -high, -low):.4f} nats more off the NLL than one temperature does"
        reasons.append(f"{capital(worth[key].need.name)} takes {more}.")
        others = ", ".join(tried.need.name for other, tried in better.items() if other != key)
        reasons += [f"Also better than one temperature, beyond chance: {others}."] if others else []
    elif gain.above() == "does not hold":
        key, sure = "identity", "high"
        reasons.append(f"Leave the network as it is: one temperature raises its {word} beyond chance.")
    elif gain.above() == "not decided" and before.changes["ece"].below() == "holds":
        key = "identity"
        text = f"one temperature raises its ECE, and does not lower its {word}, beyond chance"
        reasons.append(f"Leave the network as it is: {text}.")
    else:
        key = BASE
        others = "the other one" if len(rivals) == 1 else f"none of the {len(rivals)} others"
        others += f" that these data allow is{' not' * (len(rivals) == 1)} better beyond chance"
        if better:
            most = max(-tried.changes["nll"].value for tried in better.values())
            others = f"the best other method gains only {most:.4f} nats, less than the {WORTH} that we ask of it"
        others = others if rivals else "these data allow no other method"
        reasons.append(f"One temperature, T = {cast(Any, base.fitted).temperature:.3g}: {others}.")
        if gain.above() == "holds":
            sure = "high"
            reasons.append(f"It takes {gain:.4f}{unit} off the {word} of the network, beyond chance.")
        else:
            reasons.append("That it helps at all is not decided: the network may be calibrated as it is.")
    ahead = (of for of in measured.values() if of.values["nll"].value < measured[key].values["nll"].value)
    if risky := [of.need.name for of in ahead if of.zeros and of.enough]:
        reasons.append(f"Lower NLL here, but not safe, as a class gets the probability 0: {', '.join(risky)}.")
    if trial.floored:
        reasons.append("The NLL of the network is infinite, as a label has the probability 0: its Brier score counts.")
    doubts = [finding for finding in diagnosed.findings if finding.weight == "doubt"]
    if doubts:
        sure = "low"
        reasons.append("The data are in doubt, and with them this advice.")
    n_units, what = diagnosed.val.units
    if n_units < FEWEST:
        reasons.append(f"With fewer than {FEWEST} {what} no method is safe.")
    if trial.folds is not None:
        reasons.append("There was no test set: each sample was judged by a fit that had not seen it.")
    if key != "identity" and measured[key].changed:
        reasons.append(f"It changes {measured[key].changed:.2%} of the predictions.")
    return Choice(key, sure, tuple(reasons))


def _better(rivals: dict[str, Tried], before: Tried, score: str) -> list[str]:
    """Those whose NLL is lower beyond chance, all tests one family, at no price in ECE, and a score below before's."""
    adjusted = holm({key: tried.chance["nll"] for key, tried in rivals.items()})
    lower = [key for key, chance in adjusted.items() if chance < ALPHA and rivals[key].changes["nll"].value < 0]
    fair = [key for key in lower if rivals[key].changes["ece"].above() != "holds"]
    return [key for key in fair if rivals[key].values[score].value < before.values[score].value]


def capital(name: str) -> str:
    """As at the beginning of a sentence; the path of a class of one's own stays as it is."""
    return name if ".py:" in name else name[:1].upper() + name[1:]
