"""The border: what comes in, and the one error wording."""

import re

import numpy as np
import pytest
import torch

from calibkit._checks import (
    blocks,
    check_choice,
    check_int,
    check_labels,
    check_logits,
    check_probs,
    check_real,
    expected,
    like,
    scan_probs,
    to_tensor,
)

CPU = torch.device("cpu")


def test_the_one_wording():
    assert str(expected("x", "a number", 3)) == "Expected `x` to be a number, but got 3"


@pytest.mark.parametrize("n, k, size, limit", [(10, 4, 8, 100), (1, 10**6, 8, 100), (100, 3, 4, 10**9), (7, 1, 1, 7)])
def test_blocks_cover_all_rows_once(n, k, size, limit):
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


@pytest.mark.parametrize("bad", [None, "text", object(), [[1.0], [1.0, 2.0]], {"a": 1}, np.array(["a"])])
def test_to_tensor_refuses_what_is_no_array(bad):
    with pytest.raises(ValueError, match="Expected `x` to be a numpy array, a torch tensor or nested numbers, but got"):
        to_tensor("x", bad)


def test_like_gives_back_the_container():
    assert isinstance(like(torch.zeros(2), np.zeros(2)), np.ndarray)
    assert isinstance(like(torch.zeros(2), torch.zeros(2)), torch.Tensor)


def test_labels_of_every_integer_type_become_int64():
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64):
        labels = check_labels(np.array([0, 2, 1], dtype), 3, 3, CPU)
        assert labels.dtype == torch.int64 and labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_logits_and_probs_are_float32_or_float64(dtype):
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(0)).to(dtype)
    z, y = check_logits(logits)
    assert z.dtype == (torch.float64 if dtype == torch.float64 else torch.float32) and y is None
    p, y = check_probs(logits.softmax(1), torch.zeros(50, dtype=torch.int32))
    assert p.dtype == z.dtype and y.dtype == torch.int64
    assert (scan_probs(logits.softmax(1))[1] == p.amax(1)).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_logits_must_be_finite(bad):
    logits = torch.zeros(10, 3)
    logits[7, 1] = bad
    with pytest.raises(ValueError, match="Expected `logits` to be finite, but got NaN or infinity"):
        check_logits(logits)


def test_finite_logits_whose_sum_overflows_are_finite():
    assert check_logits(torch.full((10, 3), 3e38))[0].shape == (10, 3)


def test_row_sums_may_be_off_by_rounding_only():
    p = torch.tensor([[0.5, 0.5], [0.5, 0.50009]])
    check_probs(p)
    with pytest.raises(
        ValueError, match="Expected `probs` to be rows that sum to 1, but got a row that is off by 0.00029"
    ):
        check_probs(p + torch.tensor([0.0, 2e-4]))
    check_probs((p + torch.tensor([0.0, 2e-4])).half())  # float16 itself rounds by up to 5e-4


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, np.float64(1)])
def test_check_int_refuses(value):
    with pytest.raises(ValueError, match=re.escape(f"Expected `n` to be an integer >= 0, but got {value!r}")):
        check_int("n", value, 0)


def test_check_int_takes_numpy_integers_and_a_range():
    assert type(check_int("n", np.int64(3), 0)) is int
    assert check_int("n", 2, 0, 3) == 2
    with pytest.raises(ValueError, match=re.escape("Expected `n` to be an integer in [0, 3), but got 3")):
        check_int("n", 3, 0, 3)


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), -0.1, 1.1])
def test_check_real_refuses(value):
    with pytest.raises(ValueError, match=re.escape(f"Expected `x` to be a number in [0, 1], but got {value!r}")):
        check_real("x", value, 0, 1)


def test_check_real_open_end():
    assert check_real("x", np.float32(0.5), 0, 1, open_low=True) == 0.5
    with pytest.raises(ValueError, match=re.escape("Expected `x` to be a number in (0, 1], but got 0")):
        check_real("x", 0, 0, 1, open_low=True)


@pytest.mark.parametrize("value", ["c", None, ["a"], {"a"}])
def test_check_choice_refuses(value):
    with pytest.raises(ValueError, match=re.escape(f"Expected `x` to be one of a, b, but got {value!r}")):
        check_choice("x", value, {"a": 1, "b": 2})
