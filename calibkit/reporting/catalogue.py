"""What each calibrator is called, costs, and how many samples it should have: the guide as a table."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from calibkit.calibrators import Calibrator, calibrator, on_logits
from calibkit.keys import Key, find

BASE = "temperature_scaling"
SAMPLES, LENGTH = 100, 100  # a parameter should have; of an array whose length the data decide


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
#: were the 10 K of the order-preserving map and the 25 K of GP calibration.
#: The numbers of samples are those of the page "Which method?", which says where they come from.
NEEDS: dict[str, Need] = {
    "identity": Need("none", lambda k: 0, lambda k: 0),
    "temperature_scaling": Need("temperature scaling", lambda k: 1, lambda k: 50),
    "ets": Need("ensemble temperature scaling", lambda k: 3, lambda k: 500),
    "pts": Need("parameterized temperature scaling", lambda k: 91, lambda k: 5000, lambda k: 330 + 1.3 * k),
    "order_preserving": Need("order-preserving map", lambda k: 10, lambda k: 1000, lambda k: 10 * k),
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

    Raises:
        ValueError: no such calibrator, or one that takes the network itself.

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
