"""What holds for every metric: each line of METRICS is tested here with no new code."""

import inspect

import numpy as np
import pytest
import torch
from refusals import refused

import calibkit.metrics
from calibkit import METRICS, Comparison, bootstrap, evaluate, variational_ece
from calibkit.metrics import REPORTED, Sample, bootstrap_difference, bootstrap_values, mean_iou, reliability_bins
from calibkit.metrics.selective import aurc, excess_aurc, risk_coverage

EVERY = [*(metric.function for metric in METRICS.values()), evaluate, bootstrap, reliability_bins, variational_ece]
EVERY += [mean_iou, risk_coverage, aurc, excess_aurc]
BINNED = [name for name in METRICS if "n_bins" in inspect.signature(METRICS[name].function).parameters]
OF_BINS = [*(METRICS[name].function for name in BINNED), evaluate, bootstrap, reliability_bins, variational_ece]
GOOD, LABELS = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0, 1])
NAN = float("nan")
BAD = {
    "scalar": (np.array(0.5), LABELS, r"`probs` to be of shape \(N, K\), or \(N,\) of two classes, but got shape \(\)"),
    "three axes": (np.ones((2, 1, 1)), LABELS, r"`probs` to be of shape \(N, K\), or \(N,\) of two classes"),
    "one column above 1": (np.array([0.5, 1.5]), LABELS, r"`probs` to be in \[0, 1\], but got 1.5; .* by the sigmoid"),
    "one column below zero": (np.array([0.5, -0.5]), LABELS, r"`probs` to be in \[0, 1\], but got -0.5"),
    "one column of nan": (np.array([0.5, NAN]), LABELS, r"`probs` to be in \[0, 1\], but got NaN"),
    "one column of integers": (np.array([0, 1]), LABELS, "`probs` to be floating point, but got dtype torch.int64"),
    "empty": (np.ones((0, 3)), np.ones(0, int), r"N >= 1 and K >= 2, but got shape \(0, 3\)"),
    "integers": (np.array([[1, 0], [0, 1]]), LABELS, "`probs` to be floating point, but got dtype torch.int64"),
    "nan": (np.array([[NAN, 1.0], [0.5, 0.5]]), LABELS, r"`probs` to be in \[0, 1\], but got NaN"),
    "infinity": (np.array([[np.inf, 0.0], [0.5, 0.5]]), LABELS, r"`probs` to be in \[0, 1\], but got inf"),
    "negative": (np.array([[-0.1, 1.1], [0.5, 0.5]]), LABELS, r"`probs` to be in \[0, 1\], but got -0.1"),
    "above one": (np.array([[1.5, 0.0], [0.5, 0.5]]), LABELS, r"`probs` to be in \[0, 1\], but got 1.5"),
    "row sum": (np.array([[0.9, 0.2], [0.5, 0.5]]), LABELS, "rows that sum to 1, but got a row that is off by 0.1"),
    "label K": (GOOD, np.array([0, 2]), r"`labels` to be in \[0, 2\), but got 2"),
    "label -1": (GOOD, np.array([0, -1]), r"`labels` to be in \[0, 2\), but got -1"),
    "bool labels": (GOOD, np.array([True, False]), "`labels` to be integers, but got dtype torch.bool"),
    "label count": (GOOD, np.array([0]), r"`labels` to be of shape \(2,\), one a row, but got shape \(1,\)"),
    "from -1": (GOOD, np.array([-1, 1]), r"`labels` to be in \[0, 2\), but got -1; -1 and 1 become 0 and 1"),
    "many labels": (GOOD, [[1, 1]] * 2, r"`labels` to be of shape \(2,\), .*each column is by itself: labels\[:, k\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_border_refuses(case):
    probs, labels, message = BAD[case]
    refused(".*" + message, Sample.of, probs, labels)


@pytest.mark.parametrize("metric", EVERY, ids=lambda f: f.__name__)
def test_bad_input_raises(metric):
    for case in ("row sum", "label K"):
        probs, labels, message = BAD[case]
        refused(".*" + message, metric, probs, labels)
    if metric in OF_BINS:
        refused("`n_bins` to be an integer >= 1, but got 0", metric, GOOD, LABELS, n_bins=0)


def test_bad_options(mixed):
    for metric, option, value, want in (
        (reliability_bins, "scheme", "height", "one of width, mass, but got 'height'"),
        (reliability_bins, "class_index", 6, r"an integer in \[0, 6\), but got 6"),
        (METRICS["classwise_ece"], "normalize", "k", "one of n, class_count, but got 'k'"),
        (METRICS["tace"], "threshold", 1.5, r"a number in \[0.0, 1.0\], but got 1.5"),
        (METRICS["ece"], "like", "sklearn", "one of .*, but got 'sklearn'"),
        (METRICS["adaptive_ece"], "like", "sklearn", "one of .*, but got 'sklearn'"),
    ):
        refused(f"`{option}` to be {want}", metric, *mixed, **{option: value})


def test_integers_of_numpy_are_integers():
    """255 is the largest uint8: arithmetic in it would overflow."""
    probs, labels = np.tile(GOOD, (20, 1)), np.tile(LABELS, 20)
    for metric in OF_BINS:
        few = {"n_resamples": np.int64(3), "seed": np.int32(1)} if metric is bootstrap else {}
        want = metric(probs, labels, n_bins=255, **{name: int(value) for name, value in few.items()})
        assert str(metric(probs, labels, n_bins=np.uint8(255), **few)) == str(want), metric


@pytest.mark.parametrize("name", METRICS)
class TestMetric:
    def test_on_hard_input(self, name, cases):
        """A Python float in its range, whatever the order of the rows, and in float32 as in float64: the same decimals
        fall in the same bins."""
        for case, (probs, labels) in cases.items():
            value = METRICS[name](probs, labels)
            most = np.log(probs.shape[1]) + 1e-12 if METRICS[name].most is None else METRICS[name].most
            assert type(value) is float and 0 <= value <= most
            order = np.random.default_rng(1).permutation(len(labels))
            assert METRICS[name](probs[order], labels[order]) == pytest.approx(value, abs=1e-12), case
            assert METRICS[name](probs.astype(np.float32), labels) == pytest.approx(value, rel=1e-6, abs=1e-7), case

    def test_same_for_numpy_torch_lists_and_any_layout(self, name, mixed, tmp_path):
        probs, labels = mixed
        want = METRICS[name](probs, labels)
        np.save(tmp_path / "probs.npy", probs)
        backwards = np.ascontiguousarray(probs[::-1, ::-1])[::-1, ::-1]
        for p, y in (
            (torch.from_numpy(probs).requires_grad_(), labels.astype(np.int32)),
            (probs.tolist(), labels.tolist()),
            (np.asfortranarray(probs), labels.astype(np.uint8)),
            (np.repeat(np.repeat(probs, 2, 0), 3, 1)[::2, ::3], np.repeat(labels, 2)[::2]),
            (backwards, labels),
            (probs.astype(">f8"), labels.astype(">i8")),
            (np.load(tmp_path / "probs.npy", mmap_mode="r"), labels),
        ):
            assert METRICS[name](p, y) == pytest.approx(want, rel=1e-12)

    def test_independent_of_class_order_without_ties(self, name, mixed):
        probs, labels = mixed
        order = np.random.default_rng(1).permutation(probs.shape[1])
        relabelled = np.argsort(order)[labels]
        assert METRICS[name](probs[:, order], relabelled) == pytest.approx(METRICS[name](probs, labels), abs=1e-12)

    def test_half_precision_is_its_float32_value(self, name, mixed):
        """Rows of half precision miss 1 by more than float32 may; the values are taken as they are."""
        for dtype in (torch.float16, torch.bfloat16):
            half, labels = torch.from_numpy(mixed[0]).to(dtype), torch.from_numpy(mixed[1])
            p = half.float()
            sample = Sample(p, labels, p.amax(1), p.argmax(1) == labels)
            assert METRICS[name](half, labels) == METRICS[name](sample, None)

    def test_input_is_not_written_to(self, name, mixed):
        probs, labels = (x.copy() for x in mixed)
        METRICS[name](probs, labels)
        assert (probs == mixed[0]).all() and (labels == mixed[1]).all()


@pytest.mark.gpu
def test_same_on_cuda(cases):
    for probs, labels in cases.values():
        there = torch.from_numpy(probs).cuda(), torch.from_numpy(labels).cuda()
        assert evaluate(*there) == pytest.approx(evaluate(probs, labels), abs=1e-12)
        intervals = bootstrap(*there, n_resamples=5)
        for name, interval in bootstrap(probs, labels, n_resamples=5).items():
            assert intervals[name] == pytest.approx(interval, abs=1e-12)


def test_a_perfect_network_has_no_error():
    probs, labels = np.eye(4)[[0, 1, 2, 3, 0, 0]], np.array([0, 1, 2, 3, 0, 0])
    assert evaluate(probs, labels) == {name: float(metric.higher_is_better) for name, metric in METRICS.items()}


def test_each_record_of_a_module_is_a_metric():
    found = {record.name for of in vars(calibkit.metrics).values() for record in getattr(of, "RECORDS", ())}
    assert found == {*METRICS}


@pytest.mark.parametrize("n_bins", [1, 15, 500])
def test_evaluate_equals_each_metric(cases, n_bins):
    for given in cases.values():
        values = evaluate(*given, n_bins=n_bins)
        assert list(values) == list(METRICS)
        for name, value in values.items():
            assert value == METRICS[name](*given, **({"n_bins": n_bins} if name in BINNED else {}))


def test_evaluate_some_whose_names_are_a_sequence(mixed):
    assert list(evaluate(*mixed, ["nll", "ece"])) == ["nll", "ece"]
    refused("`metrics` to be one of accuracy, .*, but got 'f1'", evaluate, *mixed, ["f1"])
    for call in (evaluate, bootstrap, bootstrap_values, lambda p, y, names: Comparison(y, names)):
        refused("`metrics` to be a sequence of names .*, but got 'ece'", call, *mixed, "ece")


def test_own_metrics_are_not_taken_for_those_of_their_names(mixed):
    own = {"ece": lambda probs, labels: 42.0}
    assert bootstrap(*mixed, own, n_resamples=3) == {"ece": (42.0, 42.0)}
    refused("`metrics` to be a sequence of names .*, but got functions; boots", evaluate, *mixed, own)
    assert evaluate(*mixed, METRICS) == evaluate(*mixed)


@pytest.mark.parametrize("metric", EVERY, ids=lambda f: f.__name__)
def test_a_sample_has_its_own_labels(metric, mixed):
    refused("`labels` to be None beside a Sample, .*, but got ndarray", metric, Sample.of(*mixed), mixed[1])


@pytest.mark.parametrize("row", [[1.00005, 0.0], [1.0, 9e-5], [0.50004, 0.50004], [1.00005, 0.0, 0.0], 3 * [0.33336]])
def test_values_are_in_their_range_where_rows_sum_to_more_than_1(row):
    """By less than the tolerance; every label right, wrong, or either, and the ends of the interval too."""
    for dtype in (np.float32, np.float64):
        probs = np.tile(np.array(row, dtype), (8, 1))
        for labels in (np.zeros(8, int), np.ones(8, int), np.arange(8) % 2):
            values = evaluate(probs, labels)
            for name, (low, high) in bootstrap(probs, labels, n_resamples=20).items():
                most = np.log(len(row)) if METRICS[name].most is None else METRICS[name].most
                assert 0.0 <= low <= values[name] <= high <= most * (1 + 1e-15), name


BINS = {"n_bins": 15}  # Guo et al. 2017, and every table of the five papers but one
DRAWS = {**BINS, "metrics": None, "groups": None, "n_resamples": 1000, "seed": 0}
#: The threshold of TACE: Nixon et al. 2019. Class-wise error over N: Kull et al. 2019.
DEFAULTS = {
    **dict.fromkeys(("accuracy", "nll", "brier", "entropy", "smooth_ece", "ks_error"), {}),
    **dict.fromkeys(("mce", "ace", "debiased_ece"), BINS),
    **dict.fromkeys(("ece", "adaptive_ece"), {**BINS, "like": None}),
    "classwise_ece": {**BINS, "normalize": "n"},
    "tace": {**BINS, "threshold": 0.01},
}
CALLS = {
    evaluate: {**BINS, "metrics": None},
    bootstrap: {**DRAWS, "level": 0.95},
    bootstrap_difference: {**DRAWS, "level": 0.95},
    bootstrap_values: DRAWS,
    reliability_bins: {**BINS, "scheme": "width", "class_index": None},
    Comparison: {**DRAWS, "metrics": ("accuracy", "ece")},
}


def defaults(call):
    parameters = inspect.signature(call).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def test_defaults_and_that_what_is_reported_is_all_but_the_slow():
    assert {name: defaults(METRICS[name].function) for name in DEFAULTS} == DEFAULTS
    assert {call: defaults(call) for call in CALLS} == CALLS
    assert set(DEFAULTS) - set(REPORTED) == {"ace", "tace", "smooth_ece"} and set(REPORTED) <= set(METRICS)
