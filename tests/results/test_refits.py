"""What fitting again to drawn validation samples adds to a difference."""

import numpy as np
import pandas as pd
import pytest

from book.kit.results.difference_intervals import FITS, spread_of
from book.kit.results.kept import rests_on_gone
from book.kit.results.paired_differences import load_effects, load_refits
from book.kit.results.refits import METRICS, refit
from calibkit import _folders
from calibkit.calibrators import calibrator
from calibkit.metrics import nll
from calibkit.networks import load_logits

NETWORK, CTS, TS = "20newsgroups/gpool_cnn-cross_entropy-s0", "class_temperature_scaling:nll", "temperature_scaling"


@pytest.mark.slow
def test_the_spread_is_that_of_fits_to_samples_drawn_with_replacement(tmp_path, monkeypatch):
    """Of 20 fits drawn anew by hand the standard deviation is the same, up to its own error."""
    (tmp_path / "logits").symlink_to(_folders.stored() / "logits")
    monkeypatch.setattr(_folders, "stored", lambda: tmp_path)
    assert refit(NETWORK, {(CTS, TS)}) == len(METRICS)
    assert refit(NETWORK, {(CTS, TS)}) == 0  # they are there
    found = load_refits().set_index("metric")["fit_error"]
    data, rng = load_logits(NETWORK), np.random.default_rng(7)
    values = []
    for _ in range(40):
        rows = rng.choice(len(data.val_labels), len(data.val_labels))
        fits = [calibrator(key).fit(data.val_logits[rows], data.val_labels[rows]) for key in (CTS, TS)]
        values.append([nll(fit(data.test_logits), data.test_labels) for fit in fits])
    a, b = np.transpose(values)
    assert found["nll"] == pytest.approx(np.std(a - b, ddof=1), rel=0.5)


def test_it_is_added_in_squares_to_that_of_seeds():
    row = pd.Series({"seed_error": 0.3, "seed_df": 2.0, "fit_error": 0.4})
    error, df = spread_of(row)
    assert error == pytest.approx(0.5) and df == pytest.approx(0.25**2 / (0.09**2 / 2 + 0.16**2 / (FITS - 1)))
    assert spread_of(row.drop("fit_error"))[0] == pytest.approx(0.3)


def test_the_claims_on_calibrators_have_it():
    rows = load_effects().query("method == 'class_temperature_scaling' and base_method == @TS and metric == 'nll'")
    rows = rows[rests_on_gone(rows) == 0]
    assert rows["fit_error"].notna().all() and (rows["fit_error"] > 0).all()
