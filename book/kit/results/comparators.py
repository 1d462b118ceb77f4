"""What a printed number is held against: the comparator that the paper's claim names.

A claim says that one method is better than another: class temperatures than one temperature, a weighted loss than the
plain one, a margin than label smoothing. The verdict on a printed number asks for that difference, not for the one to
an uncalibrated network, which temperature scaling alone would earn.

=============================  ==================================  ====================================================
paper                          method or loss                      comparator
=============================  ==================================  ====================================================
all                            a calibrator without a claim        the network as it is
neural_clamping                input and temperature               temperature scaling; in Table 3 the temperature alone
class_temperature_scaling      class temperatures                  temperature scaling by ECE
class_temperature_scaling      class temperatures, unconstrained   class temperatures
class_temperature_scaling      vector, matrix, Dirichlet scaling   temperature scaling by ECE
class_loss_scaling             a calibrator by another objective   the same calibrator by likelihood
mbls, acls                     a training loss                     cross-entropy
mbls                           MbLS                                label smoothing
acls                           ACLS, and its conditional part      MbLS
acls                           its adaptive part                   label smoothing
acls                           another indicator                   the same loss with its own
=============================  ==================================  ====================================================
"""

from __future__ import annotations

from calibkit.calibrators import CALIBRATORS
from calibkit.keys import Key

CE, LS, MBLS = "cross_entropy", "label_smoothing", "mbls"
TS, TS_ECE, CTS, NC = "temperature_scaling", "temperature_scaling:ece", "class_temperature_scaling", "neural_clamping"
#: Calibrators whose output keeps the predicted class, and so the accuracy: a printed accuracy is no evidence for them.
KEEP_THE_PREDICTION = frozenset(name for name, cls in CALIBRATORS.items() if cls.keeps_predictions)


def comparator(paper: str, table: str, loss: str, method: str) -> tuple[str, str] | None:
    """Loss and method of the comparator; None for a number that no claim is about, as those of cross-entropy.

    Example:
        >>> comparator("class_temperature_scaling", "I", "brier", "class_temperature_scaling")
        ('brier', 'temperature_scaling:ece')
        >>> comparator("mbls", "1", "mbls", "identity")
        ('label_smoothing', 'identity')
        >>> comparator("class_loss_scaling", "2", "cross_entropy", "ets:class_loss_scaling")
        ('cross_entropy', 'ets')
        >>> comparator("class_temperature_scaling", "I", "brier", "identity") is None
        True
    """
    if method == "identity":
        return (base, "identity") if paper in ("mbls", "acls") and (base := _of_loss(paper, loss)) else None
    return loss, _of_method(paper, table, Key.parse(method))


def _of_loss(paper: str, loss: str) -> str | None:
    key = Key.parse(loss)
    if loss == CE:
        return None
    if "indicator" in key.options:
        return key.name
    if paper == "mbls":
        return LS if loss == MBLS else CE
    return {"acls": MBLS, "acls part=conditional": MBLS, "acls part=adaptive": LS}.get(loss, CE)


def _of_method(paper: str, table: str, key: Key) -> str:
    if key.name == NC and "part" not in key.options:
        return f"{NC} part=output" if (paper, table) == ("neural_clamping", "3") else TS
    if paper == "class_temperature_scaling" and key.name != TS:
        return CTS if key.name == CTS and "accuracy_constraint" in key.options else TS_ECE
    if paper == "class_loss_scaling" and key.objective is not None and key.objective.name != "nll":
        return f"{key.name}:nll" if key.name == CTS else key.name
    return "identity"


def replay_of(paper: str, method: str) -> str:
    """The key of a method as the authors ran it: their optimiser, or their reading of their algorithm.

    Example:
        >>> replay_of("class_loss_scaling", "ets:focal")
        'ets solver=sctl:focal'
        >>> replay_of("class_temperature_scaling", "class_temperature_scaling")
        'class_temperature_scaling accuracy_constraint=running'
    """
    key = Key.parse(method)
    if paper == "class_temperature_scaling":
        return f"{CTS} accuracy_constraint=running" if method == CTS else method
    return str(Key(key.name, {**key.options, "solver": "sctl"}, key.objective))
