"""Train-time losses: ``loss("mbls margin=6")(logits, labels) -> scalar``.

MMCE, MDCA, CRL and the ranking form of ACLS compare the rows of a batch with each other, so they need all rows of a
step at once. The others are means over the rows that count: those of parts of a batch, weighted by their numbers of
such rows, add up to that of the whole.

Each has the option ``ignore_index``, the label of rows that do not count: -100. ValueError tells of an option that is
unknown or out of the range that its text states.
"""

from __future__ import annotations

import inspect

from calibkit._checks import expected
from calibkit.keys import Key
from calibkit.losses._base import Loss
from calibkit.losses.acls import ACLS
from calibkit.losses.brier import Brier
from calibkit.losses.cpc import CPC
from calibkit.losses.crl import CRL
from calibkit.losses.cross_entropy import CrossEntropy
from calibkit.losses.ecp import ECP
from calibkit.losses.flsd import FLSD
from calibkit.losses.focal import Focal
from calibkit.losses.label_smoothing import LabelSmoothing
from calibkit.losses.mbls import MbLS
from calibkit.losses.mdca import MDCA
from calibkit.losses.mmce import MMCE

LOSSES: dict[str, type[Loss]] = {
    "cross_entropy": CrossEntropy,
    "label_smoothing": LabelSmoothing,
    "focal": Focal,
    "flsd": FLSD,
    "brier": Brier,
    "mmce": MMCE,
    "ecp": ECP,
    "cpc": CPC,
    "mdca": MDCA,
    "crl": CRL,
    "mbls": MbLS,
    "acls": ACLS,
}


def loss(key: str | Key, **options: object) -> Loss:
    """The loss of a key, such as ``"mbls"`` or ``"mbls margin=8"``.

    ``options`` are more of them, as ``n_samples``, which ``"crl"`` needs. ValueError tells of no such loss, of an
    option that it does not have or that is given twice, and of one that it needs.

    Example:
        >>> loss("mbls margin=8")
        MbLS(margin=8.0, weight=0.1, variant='code', ignore_index=-100)
        >>> loss("crl weight=0.5", n_samples=45_000).weight
        0.5
    """
    key = key if isinstance(key, Key) else Key.parse(key)
    if key.objective is not None:
        raise expected("loss", "NAME [OPTION=VALUE ...]", repr(str(key)))
    options = key.options_and(options)
    if key.name in LOSSES:
        for name, parameter in inspect.signature(LOSSES[key.name]).parameters.items():
            if parameter.default is parameter.empty and name not in options:
                raise expected(name, f"given to {key.name}", "no such option")
    return Key(key.name, options).build(LOSSES, "loss")


__all__ = [
    "ACLS", "CPC", "CRL", "ECP", "FLSD", "LOSSES", "MDCA", "MMCE", "Brier", "CrossEntropy", "Focal", "LabelSmoothing",
    "Loss", "MbLS", "loss",
]  # fmt: skip
