"""Rank tests against the example that Demšar prints, and against permutations."""

import numpy as np
import pandas as pd
import pytest

from book.kit.notebook.friedman import critical_difference, ranking

# Demšar 2006, Table 6: AUC of C4.5, with m, with cf, with both, on 14 data sets.
AUC = """
0.763 0.768 0.771 0.798
0.599 0.591 0.590 0.569
0.954 0.971 0.968 0.967
0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898
0.936 0.931 0.916 0.931
0.661 0.668 0.609 0.685
0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875
1.000 1.000 1.000 1.000
0.940 0.962 0.965 0.962
0.619 0.666 0.614 0.669
0.972 0.981 0.9751 0.975
0.957 0.978 0.946 0.970
"""


@pytest.fixture
def auc():
    rows = [list(map(float, line.split())) for line in AUC.split("\n") if line]
    return pd.DataFrame(rows, columns=["C4.5", "m", "cf", "both"])


def test_printed_example(auc):
    """Mean ranks 3.143, 2.000, 2.893, 1.964; Friedman 9.28 with 3 degrees of freedom; CD 1.25."""
    found = ranking(1 - auc)
    printed = {"C4.5": 3.143, "m": 2.000, "cf": 2.893, "both": 1.964}
    assert found.mean.round(3).to_dict() == printed and list(found.mean.index)[0] == "both"
    assert found.critical == pytest.approx(1.25, abs=0.005) and found.n_blocks == 14
    assert found.apart() == 0  # "the difference is 1.18, not significant at 5%"


def test_friedman_against_permutations():
    """The p-value is the share of shuffled tables whose mean ranks are spread as far."""
    rng = np.random.default_rng(0)
    errors = pd.DataFrame(rng.standard_normal((30, 4)) + [0, 0.2, 0.4, 0.6])
    spread = ranking(errors).mean.var()
    ranks = errors.rank(axis=1).to_numpy()
    shuffled = rng.permuted(np.broadcast_to(ranks, (4000, 30, 4)), axis=2).mean(1).var(1, ddof=1)
    assert ranking(errors).chance == pytest.approx(np.mean(shuffled >= spread - 1e-12), abs=0.015)


def test_quantiles_as_printed():
    """Demšar's Table 5(a)."""
    for k, q in ((2, 1.960), (7, 2.949), (10, 3.164)):
        assert critical_difference(k, 20) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * 20)), rel=5e-4)


def test_infinite_is_last_and_missing_is_refused():
    errors = pd.DataFrame({"a": [1.0, 1.0], "b": [np.inf, 0.5], "c": [2.0, 2.0]})
    assert ranking(errors).mean.to_dict() == {"a": 1.5, "b": 2.0, "c": 2.5}
    with pytest.raises(ValueError, match="Expected `errors` to be without missing values"):
        ranking(errors.replace(np.inf, np.nan))
    with pytest.raises(ValueError, match="three methods"):
        ranking(errors[["a", "b"]])
