"""The page "Which method?": as a table of what each calibrator costs and wants, and as a rule, applied to numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from calibkit.calibrators import Calibrator, calibrator, on_logits
from calibkit.keys import Key, find
from calibkit.metrics.comparison import Estimate
from calibkit.metrics.intervals import holm
from calibkit.reporting.diagnosis import FEWEST, Diagnosed

if TYPE_CHECKING:
    from calibkit.reporting.trial import Trial, Tried

BASE = "temperature_scaling"
SAMPLES, LENGTH = 100, 100  # a parameter should have; of an array whose length the data decide
ALPHA = 0.05  # of the tests against temperature scaling, all of them one family
WORTH = 0.005  # nats that a method must gain to be worth its parameters: half of what the guide counts by
#: "high": the numbers decide. "some": the default, which nothing decides against. "low": the data are in doubt.
#: "none": they are wrong, and nothing is recommended.
Sure = Literal["high", "some", "low", "none"]
#: What decides between the network and one temperature, in words and with its unit.
SCORES = {"nll": ("NLL", " nats"), "brier": ("Brier score", "")}


class Need(NamedTuple):
    """What there is to know of a method before it is fitted; numbers are of K classes."""

    name: str  # in words
    parameters: Callable[[int], int]  # how many numbers are fitted
    samples: Callable[[int], int]  # how many it should have
    work: Callable[[int], float] | None = None  # of a fit on a sample, in parameters of a smooth fit; None: its own

    def work_of(self, k: int) -> float:
        """What a fit takes for each sample."""
        return self.parameters(k) if self.work is None else self.work(k)


#: That PTS takes 330 + 1.3 K was measured: 100 microseconds and 0.4 for each class where ``trial.WORK`` is a minute; so
#: were the 10 K of the increasing map and the 25 K of GP calibration.
#: The numbers of samples are those of the page "Which method?", which says where they come from.
NEEDS: dict[str, Need] = {
    "identity": Need("none", lambda k: 0, lambda k: 0),
    "temperature_scaling": Need("temperature scaling", lambda k: 1, lambda k: 50),
    "ets": Need("ensemble temperature scaling", lambda k: 3, lambda k: 500),
    "pts": Need("parameterized temperature scaling", lambda k: 91, lambda k: 5000, lambda k: 330 + 1.3 * k),
    "order_preserving": Need("increasing map", lambda k: 10, lambda k: 1000, lambda k: 10 * k),
    "gp_calibration": Need("GP calibration", lambda k: 24, lambda k: 1000, lambda k: 25 * k),
    "class_temperature_scaling:nll": Need("class temperatures by NLL", lambda k: k, lambda k: 300 * k),
    "class_temperature_scaling": Need("class temperatures by ECE", lambda k: k, lambda k: 300 * k, lambda k: 20 * k),
    "vector_scaling": Need("vector scaling", lambda k: 2 * k - 1, lambda k: 300 * k if k > 2 else 300),
    "structured_vector_scaling": Need("structured vector scaling", lambda k: 2 * k, lambda k: 50 * k),
    "structured_matrix_scaling": Need("structured matrix scaling", lambda k: k * k + k, lambda k: 100 * k),
    "ms_odir": Need("matrix scaling, ODIR", lambda k: k * k + k, lambda k: 300 * k),
    "dir_odir": Need("Dirichlet calibration, ODIR", lambda k: k * k + k, lambda k: 300 * k),
    "matrix_scaling": Need("matrix scaling", lambda k: k * k + k, lambda k: max(3000, 100 * k) * k),
    "spline": Need("spline", lambda k: 6, lambda k: 1000),
    "histogram_binning": Need("histogram binning", lambda k: 15 * k, lambda k: 300 * k),
    "isotonic": Need("isotonic regression", lambda k: 100 * k, lambda k: 300 * k),
}


def need_of(key: str) -> Need:
    """What a key of a calibrator on logits needs; one with options of its own goes by its key.

    Of a calibrator that is not in ``NEEDS`` the numbers of its state are counted, and each should have 100 samples.
    ValueError tells of no such calibrator, and of one that takes the network itself.

    Example:
        >>> need_of("ets").name, need_of("ets:focal gamma=2").name
        ('ensemble temperature scaling', 'ets:focal gamma=2')
    """
    name = Key.parse(key).name
    if key in NEEDS:
        return NEEDS[key]
    find(name, on_logits(), "calibrator")
    unfitted = calibrator(key)  # its options
    counted = _counted(unfitted)
    if name not in NEEDS:
        return counted._replace(name=key)
    need, usual = NEEDS[name], _counted(calibrator(name))

    def times(k: int) -> float:  # as many parameters as by default
        return counted.parameters(k) / max(1, usual.parameters(k))

    return need._replace(
        name=key, parameters=lambda k: round(times(k) * need.parameters(k)), work=lambda k: times(k) * need.work_of(k)
    )


def _counted(unfitted: Calibrator) -> Need:
    """By the shapes of its state; an entry without one is a number."""

    def parameters(k: int) -> int:
        shapes = [unfitted._shapes(k).get(entry, ()) for entry in unfitted.state if entry not in unfitted.reported]
        return sum(prod(LENGTH if isinstance(n, str) else n for n in shape) for shape in shapes)

    return Need("", parameters, lambda k: SAMPLES * parameters(k))


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
        others = f"of the {len(rivals)} other methods that these data allow none is better beyond chance"
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
