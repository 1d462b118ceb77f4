"""The mean over networks: against that of the book's differences, and what it refuses."""

import numpy as np
import pytest
from refusals import refused

from book.kit.judging.pooling import CORRELATION, pooled
from book.kit.results import load_effects
from book.kit.results.difference_intervals import images_of, over_networks
from calibkit.metrics.comparison import Estimate
from calibkit.reporting.catalogue import BASE
from calibkit.reporting.trial import METRICS


@pytest.mark.parametrize("metric", METRICS)
def test_means_are_those_of_the_book(metric):
    """Over networks that were trained once, some of them tested on the same images as others."""
    rows = load_effects().query("method == 'spline' and metric == @metric and n_seeds == 1")
    rows = rows.query("source != 'public' and loss == base_loss and dataset.str.startswith('cifar')")
    rows = rows[rows["base_method"] == BASE]
    test_sets = images_of(rows["dataset"])
    assert rows["dataset"].nunique() > test_sets.nunique() > 1
    differences = [Estimate(*row) for row in rows[["value", "low", "high"]].to_numpy()]
    np.testing.assert_allclose(
        pooled(differences, list(test_sets), CORRELATION[metric]), over_networks(rows), rtol=1e-12
    )
    assert np.isnan(pooled([], [])).all() and np.isnan(pooled([Estimate(1, 0, np.inf)], ["a"])).all()
    for names, correlation, want in (
        (["a"], 1.0, "`test_sets` to be one for each of 2 "),
        ("ab", -1, "`correlation` to be"),
    ):
        refused(want, pooled, [Estimate(1, 0, 2)] * 2, names, correlation)
