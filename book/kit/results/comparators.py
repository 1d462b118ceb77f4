"""What a printed number is held against: the comparator that the paper's claim names.

A claim says that one method is better than another: class temperatures than one temperature, a weighted loss than the
plain one, a margin than label smoothing. The verdict on a printed number asks for that difference, not for the one to
an uncalibrated network, which temperature scaling alone would earn. Each paper's record in :mod:`book.papers` names
them; a calibrator without a claim is held against the network as it is.
"""

from __future__ import annotations

from book.papers import PAPERS
from calibkit.calibrators import CALIBRATORS
from calibkit.keys import Key

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
    of = PAPERS[paper]
    if method != "identity":
        return loss, of.method_base(table, Key.parse(method))
    return None if of.loss_base is None or loss == "cross_entropy" else (of.loss_base(loss), "identity")
