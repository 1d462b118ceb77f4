"""Train-time losses: ``LOSSES["mbls"](margin=6.0)(logits, labels) -> scalar``."""

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

__all__ = ["LOSSES", "Loss"]
