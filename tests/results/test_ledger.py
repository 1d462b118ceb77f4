"""The ledger: every claim in a row, pooled over networks by a rule that can be checked by hand."""

import math
import re

import pandas as pd
import pytest
from constructed_rows import differs
from refusals import refused

from book.kit.results import claims, load_effects
from book.kit.results.claims import COLUMNS, ledger, load_claims, pooled
from calibkit.metrics.comparison import Estimate

TS = "temperature_scaling"
#: Claims of each paper as its text has them.
CLAIMS = {"NC": 11, "CTS": 10, "ACLS": 10, "CLS": 9, "MbLS": 10}


def claim(wants, metric="ece", **columns):
    """One claim: temperature scaling against the network as it is."""
    row = dict.fromkeys(COLUMNS, "") | {"id": "X1", "paper": "mbls", "claim": "better", "method": TS}
    row |= {"base_method": "identity", "metric": metric, "networks": "ours", "wants": wants, "chapter": "mbls"}
    return pd.DataFrame([row | columns])


@pytest.mark.slow
def test_every_claim_of_the_papers_has_a_row():
    ids = set(load_claims()["id"])
    for name, count in CLAIMS.items():
        assert {f"{name}{i}" for i in range(1, count + 1)} <= ids
    known = {f"{name}{i}" for name, count in CLAIMS.items() for i in range(1, count + 1)}
    assert {re.sub("[a-z]$", "", name) for name in ids} == known, "CLAIMS wants a number for each paper"
    assert len(ids) == len(load_claims()) == len(ledger())


def test_a_mean_over_networks_by_hand(book):
    """Two networks of CIFAR-10, one long-tailed: same test images, a correlation of 0.1; one of CIFAR-100: apart."""
    differs(-0.03, 0.02)
    differs(-0.01, 0.04, dataset="cifar10_lt")
    differs(+0.01, 0.03, dataset="cifar100", source="published-logits", budget="paper")
    found = pooled(load_effects())
    arm = math.sqrt(0.9 * (0.02**2 + 0.04**2) + 0.1 * (0.02 + 0.04) ** 2 + 0.03**2) / 3
    assert found.estimate == pytest.approx((-0.01, -0.01 - arm, -0.01 + arm))
    assert (found.lower, found.n, found.strength, found.seeds) == (2, 3, "reduced", 1)
    assert pooled(load_effects().iloc[:0]) is None


@pytest.mark.slow
def test_what_is_wanted(book):
    wanted = [
        ("below", -0.03, None, "holds"),
        ("below", +0.03, None, "does not hold"),
        ("below", -0.001, None, "not decided"),
        ("below", -0.001, -0.03, "ECE undecided, likelihood agrees"),
        ("below", -0.001, +0.03, "ECE undecided, likelihood against"),
        ("below", -0.03, -0.03, "holds"),
        ("below", -0.03, -0.001, "holds"),
        ("below", -0.03, +0.03, "holds in ECE, likelihood against"),
        ("below", +0.03, -0.03, "fails in ECE, likelihood agrees"),
        ("above", +0.03, +0.03, "holds"),
        ("above", +0.03, -0.03, "holds in ECE, likelihood against"),
        ("not below", -0.001, +0.001, "holds"),
        ("not below", -0.001, -0.03, "ECE undecided, likelihood against"),
        ("not below", -0.03, +0.001, "does not hold"),
        ("above -1", -0.001, +0.03, "holds"),
        ("above -1", +0.03, None, "holds"),
        ("above -1", -0.03, None, "does not hold"),
        ("above -1", -0.01, None, "not decided"),
        ("within 1", -0.001, +0.03, "holds"),
        ("within 1", -0.03, None, "does not hold"),
    ]
    for wants, ece, nll, verdict in wanted:
        differs(ece)
        nll, chance = (math.inf, math.inf) if nll is None else (nll, 0.5)  # an infinite row takes that of before away
        differs(nll, metric="nll", unit="nats", chance=chance)
        row = ledger(claim(wants)).iloc[0]
        assert row["verdict"] == verdict, (wants, ece, nll)
        assert row["effect"] == f"{100 * ece:+.2f} [{100 * ece - 0.2:+.2f}, {100 * ece + 0.2:+.2f}]"
    for low, high, word in [(-0.009, 0.009, "holds"), (-0.015, 0.015, "not decided"), (0.015, 0.025, "does not hold")]:
        assert claims._verdict("within 1", Estimate((low + high) / 2, low, high), None) == word


def test_only_the_networks_that_a_claim_names(book):
    differs(-0.03)
    differs(+0.03, source="published-logits", budget="paper")
    differs(+0.01, source="published-logits", budget="paper", dataset="cifar100")
    differs(+0.05, loss="mbls", base_loss="label_smoothing")  # of two losses: no calibrator's claim
    assert ledger(claim("below"))["lower"].item() == "1 of 1"
    assert ledger(claim("below", networks="published-logits"))["lower"].item() == "0 of 2"
    assert ledger(claim("below", networks="published-logits cifar100"))["effect"].item().startswith("+1.00")
    assert ledger(claim("below", networks="published-logits cifar100 cifar10"))["lower"].item() == "0 of 2"
    of_losses = {"loss": "mbls", "base_loss": "label_smoothing"}
    assert ledger(claim("below", **of_losses))["effect"].item().startswith("+5.00")
    assert ledger(claim("below", networks="published-logits svhn"))["verdict"].item() == "not run here"


def test_bad_claims_are_refused(book):
    bad = {"X1": claim("below", verdict="holds"), "wants": claim("lower"), "columns": claim("below").drop(columns="id")}
    for name, rows in bad.items():
        rows.to_csv(book / "claims.csv", index=False)
        refused(f"`{name}` to be ", load_claims)
