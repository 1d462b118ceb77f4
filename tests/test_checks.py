"""The border: what comes in, and the one error wording."""

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from sklearn.linear_model import LogisticRegression

from book.kit.judging import judge
from calibkit import read, report
from calibkit._checks import (
    blocks,
    check_choice,
    check_flag,
    check_held_out,
    check_int,
    check_integers,
    check_label,
    check_labels,
    check_logits,
    check_real,
    scan_probs,
    to_tensor,
)
from calibkit.calibrators import NeuralClamping
from calibkit.estimators import CalibratedClassifier, LogitCalibrator
from calibkit.metrics import calibration_by_group, calibration_test
from calibkit.objectives import Focal
from calibkit.plots import before_after, forest_plot, reliability_diagram, use_style

CPU = torch.device("cpu")


def test_blocks_cover_all_rows_once():
    for n, k, size, limit in ((10, 4, 8, 100), (1, 10**6, 8, 100), (100, 3, 4, 10**9), (7, 1, 1, 7)):
        slices = blocks(n, k, size, limit)
        assert [i for s in slices for i in range(n)[s]] == list(range(n))
        assert all((s.stop - s.start) * k * size <= limit or s.stop - s.start == 1 for s in slices)


def test_to_tensor_shares_memory_where_it_can():
    array = np.zeros((3, 2))
    assert to_tensor("x", array).data_ptr() == array.__array_interface__["data"][0]
    assert to_tensor("x", torch.zeros(2, requires_grad=True)).requires_grad is False
    assert to_tensor("x", array[::-1]).shape == (3, 2)
    assert to_tensor("x", np.array([1.5], dtype=">f4")).tolist() == [1.5]
    assert to_tensor("x", [[1, 2], [3, 4]]).dtype == torch.int64


def test_what_holds_no_plain_values_is_refused():
    z = torch.zeros(3, 2)
    for bad in (None, "text", object(), [[1.0], [1.0, 2.0]], {"a": 1}, np.array(["a"])):
        refused("`x` to be a numpy array, a torch tensor or nested numbers, but", to_tensor, "x", bad)
    for bad, message in (
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 1]), "without masked entries, but got 2 of them; leave them out"),
        ([[np.ma.array([1.0, 2.0], mask=[0, 1])], [[3.0, np.ma.masked]]], "without masked entries, but got 2 of them"),
        (np.array([1, "a"], object), "nested numbers, but got an array of dtype object; cast it to numbers"),
        (np.zeros(3, np.longdouble), f"nested numbers, but got an array of dtype {np.dtype(np.longdouble)}"),
        (z.to_sparse(), "a dense tensor, but got one of layout torch.sparse_coo"),
        (z.to("meta"), "a tensor that holds values, but got one on the device meta"),
        ([10**30], "nested numbers, but got list"),
    ):
        refused(f"`x` to be .*{re.escape(message)}", to_tensor, "x", bad)
    assert to_tensor("x", np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]  # nothing is masked


def test_tensors_with_gradients_in_a_list():
    rows = [torch.tensor([1.0, 2.0], requires_grad=True)] * 3
    assert to_tensor("x", rows).tolist() == to_tensor("x", [tuple(row) for row in rows]).tolist() == [[1.0, 2.0]] * 3


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "double[pyarrow]", "Int64", "int64[pyarrow]"])
def test_tables_of_the_types_that_pandas_has_of_its_own(dtype):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": [1, 2], "b": [3, 4]}).astype(dtype)
    found = to_tensor("x", table)
    assert found.dtype == to_tensor("x", np.zeros(1, table.dtypes["a"].numpy_dtype)).dtype
    assert found.tolist() == [[1, 3], [2, 4]] and to_tensor("x", table["b"]).tolist() == [3, 4]
    assert to_tensor("x", table.astype({"b": float})).dtype == torch.float64
    for odd in (table.astype({"b": "string"}), table.astype({"b": object})):
        refused(".*but got an array of dtype object; cast it to numbers", to_tensor, "x", odd)
    table.loc[1, "b"] = None
    with pytest.raises(ValueError, match="NaN or infinity in row 1, column 1|dtype object|floating point"):
        check_logits(table)


def raising(error):
    """An object that becomes no array, in words of its own."""

    class Raising:
        def __array__(self, *_, **__):
            raise error

    return Raising()


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyError("boom"), OSError("boom")])
def test_what_raises_on_its_way_to_an_array(error):
    p, y, odd = np.full((4, 2), 0.5), [0, 1, 0, 1], raising(error)
    for made, message in (
        (lambda: to_tensor("labels", odd), "labels` to be a numpy array, a torch tensor or nested numbers"),
        (lambda: check_labels(odd, 4, 2, CPU), "labels` to be a numpy array, a torch tensor or nested numbers"),
        (lambda: read(odd, y), "source` to be a numpy array, a torch tensor or nested numbers"),
        (lambda: calibration_by_group(p, y, odd), "groups` to be integers or strings"),
        (lambda: LogitCalibrator(classes=odd).fit(p, y), "classes` to be a list or an array, a class a column"),
    ):
        refused(f"`{message}, but got Raising$", made)
    with pytest.raises(MemoryError):
        to_tensor("x", raising(MemoryError()))


@pytest.mark.parametrize("odd", [np.array([True, False]), torch.ones(2), "no", None, 1], ids=repr)
def test_what_is_neither_yes_nor_no(odd):
    p, y = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
    for name, made in {
        "classwise": lambda: calibration_test(p, y, classwise=odd),
        "keep_predictions": lambda: report(p, y, keep_predictions=odd),
        "everything": lambda: report(p, y, everything=odd),
        "labelled": lambda: read(p, y, labelled=odd),
        "counts": lambda: before_after({"a": p}, y, counts=odd),
        "interval": lambda: reliability_diagram(p, y, interval=odd),
        "sort": lambda: forest_plot({"a": (0, 0, 1)}, sort=odd),
        "dark": lambda: use_style(dark=odd),
        "ensemble": lambda: CalibratedClassifier(LogisticRegression(), ensemble=odd).fit(p, y),
        "progress": lambda: judge("ets", folder="", progress=odd),
        "detach": lambda: Focal(detach=odd),
        "exact_temperature": lambda: NeuralClamping(exact_temperature=odd),
    }.items():
        refused(f"`{name}` to be True or False, but got ", made)
    assert check_flag("x", np.bool_(True)) is True and check_flag("x", False) is False


def test_labels_of_every_integer_type_become_int64():
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64):
        labels = check_labels(np.array([0, 2, 1], dtype), 3, 3, CPU)
        assert labels.dtype == torch.int64 and labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_and_probs_are_float32_or_float64(dtype):
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(0)).to(dtype)
    z, y = check_held_out(logits, torch.zeros(50, dtype=torch.int32))
    assert z.dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and y.dtype == torch.int64
    p, high = scan_probs(logits.softmax(1))
    assert p.dtype == z.dtype and (high == p.amax(1)).all()


def test_logits_must_be_finite():
    for bad in (float("nan"), float("inf"), float("-inf")):
        logits = torch.zeros(10, 3)
        logits[7, 1] = bad
        refused(".*finite, but got NaN or infinity in row 7, column 1, from 0", check_logits, logits)
        refused(".*finite, but got NaN or infinity in row 7, from 0", check_logits, logits[:, 1])
    for shape in ((0, 3), (0,), (3, 1, 1), ()):
        refused(r"`logits` to be of shape \(N, K\)", check_logits, torch.zeros(shape))
    # a sum that overflows is of finite numbers
    assert check_logits(torch.full((10, 3), 3e38)).shape == (10, 3)
    with pytest.raises(ValueError, match="Expected `logits` to be less than 1.8e308 apart, but got -1e.308 and"):
        check_logits(np.array([[1e308, -1e308, 0.0]]))


def test_row_sums_may_be_off_by_rounding_only():
    p = torch.tensor([[0.5, 0.5], [0.5, 0.50009]])
    scan_probs(p)
    with pytest.raises(
        ValueError, match="Expected `probs` to be rows that sum to 1, but got a row that is off by 0.00029"
    ):
        scan_probs(p + torch.tensor([0.0, 2e-4]))
    scan_probs((p + torch.tensor([0.0, 2e-4])).half())  # float16 itself rounds by up to 5e-4


def test_check_int():
    for value in (True, 1.0, "1", None, -1, np.float64(1)):
        refused(re.escape(f"`n` to be an integer >= 0, but got {value!r}"), check_int, "n", value, 0)
    assert type(check_int("n", np.int64(3), 0)) is int
    assert check_int("n", 2, 0, 3) == 2
    refused(re.escape("`n` to be an integer in [0, 3), but got 3"), check_int, "n", 3, 0, 3)


def test_check_real():
    for value in (True, "1", None, float("nan"), float("inf"), -0.1, 1.1, Fraction(3, 2), 10**400):
        refused(re.escape(f"`x` to be a number in [0, 1], but got {value!r}"), check_real, "x", value, 0, 1)
    assert check_real("x", np.float32(0.5), 0, 1, open_low=True) == 0.5
    assert type(check_real("x", Fraction(1, 4))) is float
    refused(re.escape("`x` to be a number in (0, 1], but got 0"), check_real, "x", 0, 0, 1, open_low=True)


def test_check_choice_refuses():
    for value in ("c", None, ["a"], {"a"}, np.array(["a", "b"]), np.array("a"), torch.zeros(2)):
        refused(re.escape(f"`x` to be one of a, b, but got {value!r}"), check_choice, "x", value, {"a": 1, "b": 2})


def test_a_label_fits_an_int64():
    assert check_label("ignore_index", -(2**63)) == -(2**63) and check_label("ignore_index", np.uint8(255)) == 255
    refused("`ignore_index` to be an integer in", check_label, "ignore_index", 10**30)


CURES = {
    "strings": (["a", "b", "a"], "integers, but got strings; np.unique(y, return_inverse=True)[1] numbers them"),
    "a series": (pd.Series(["a", "b", "a"]), "integers, but got strings; np.unique(y, return_inverse=True)[1] numbers"),
    "categories": (pd.Series(["a", "b", "a"], dtype="category"), "integers, but got strings"),
    "a table of one column": (pd.DataFrame({"y": [0, 1, 0]}), "got shape (3, 1); flatten the column"),
    "whole numbers in a series": (pd.Series([0.0, 1.0, 0.0]), "they are whole numbers: cast them to int"),
    "an object column of strings": (np.array(["a", "b", "a"], object), "integers, but got strings; np.unique(y,"),
    "one-hot": (np.eye(2)[[0, 1, 0]], "one a row, but got shape (3, 2); one-hot rows become integers by argmax(1)"),
    "a column": (np.zeros((3, 1), int), "one a row, but got shape (3, 1); flatten the column"),
    "in tens": ([10, 20, 10], "in [0, 2), but got 20; np.unique(y, return_inverse=True)[1] numbers them by size"),
    "from 1": ([1, 2, 1], "in [0, 2), but got 2; number the classes from 0: y - 1"),
    "from 1, of 255": ([1, 2, 255], "in [0, 2), but got 255; leave out the rows that have no class"),
    "no class": ([1, -100, 0], "in [0, 2), but got -100; leave out the rows that have no class"),
    "not a number": ([0, np.nan, 0], "float64; leave out the 1 that are NaN; they are whole numbers: cast them to int"),
    "whole numbers": (np.array([0.0, 1.0, 0.0]), "dtype torch.float64; they are whole numbers: cast them to int"),
}


def test_messages_name_the_cure_where_one_would_help():
    for labels, message in CURES.values():
        refused(f"`y` to be .*{re.escape(message)}", check_labels, labels, 3, 2, CPU, "y")
    for labels, message in (
        ([0, 0.5, 1], "integers, but got dtype torch.float64"),
        ([0, 3, 1], "in [0, 2), but got 3"),
        ([0, 1, 2], "in [0, 2), but got 2"),
        ([-2, 0, 2], "in [0, 2), but got -2"),
        (None, "a numpy array, a torch tensor or nested numbers, but got NoneType"),
    ):
        refused(f"`labels` to be .*{re.escape(message)}$", check_labels, labels, 3, 2, CPU)


def test_rounded_rows_and_logits_are_told_what_to_do():
    rounded = np.array([[0.3333, 0.3333, 0.3333], [0.2, 0.3, 0.4998]])
    refused(".*off by 0.0002; divide rounded rows by their sums", scan_probs, rounded)
    scan_probs(rounded / rounded.sum(1, keepdims=True))
    refused(".*off by 0.5; scores of many labels a row go to calibkit.evaluate or ", scan_probs, rounded / 2)
    refused(".*but got -2.0; logits become probabilities by the softmax", scan_probs, np.array([[3.0, -2.0]]))
    refused(".*but got 90.0; divide percent by 100", scan_probs, np.array([[10.0, 90.0], [20.4, 79.8]]))


@pytest.mark.parametrize(
    ("n", "k", "dtype"), [(2, 2, torch.float64), (200, 10, torch.float32), (20, 1000, torch.bfloat16)]
)
def test_probabilities_are_no_logits(n, k, dtype):
    probs = torch.randn(n, k, generator=torch.Generator().manual_seed(0)).softmax(1).to(dtype)
    refused("`z` to be logits, from before the softmax, but got rows in", check_logits, probs, "z")
    check_logits(probs.float().clip(1e-12).log())  # the cure
    check_logits(probs + 1)  # and the way for logits that look so by chance


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn])
def test_of_eight_bits_are_raised_once_or_refused(dtype):
    x = torch.tensor([[2.0, 1.0], [0.5, -3.0]]).to(dtype)
    torch.testing.assert_close(check_logits(x), x.float())
    refused("`y` to be integers, but got dtype torch.float32; they are whole", check_integers, "y", x[0], 2)


def test_logits_that_are_nearly_probabilities():
    """One row proves nothing, one-hot rows are a toy, and a single row outside is enough to be logits."""
    check_logits(np.array([[0.25, 0.75]]))
    check_logits(np.eye(3))
    check_logits(np.array([[0.25, 0.75], [0.5, 0.5], [0.3, 0.72]]))
    check_logits(np.array([[0.25, 0.75], [1.2, -0.2]]))
    check_logits(np.array([[0.25, 0.5], [0.75, 0.5]]))  # the sums are right on average
    for row in ([0.33, 0.33, 0.33], [0.335, 0.335, 0.345], [0.1] * 9 + [0.06]):  # of two digits
        refused(".*to be logits, from before the softmax", check_logits, np.array([row, row]))
