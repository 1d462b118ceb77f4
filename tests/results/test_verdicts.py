"""The rule of the protocol page, on printed and measured numbers made up so that its parts disagree.

Intervals of +- 0.4 points unless a case says otherwise: h = 0.4 for each number, H = 0.566 for an effect; a value of
our own may be sqrt(2) h = 0.566 off, an effect sqrt(2) H = 0.8.
"""

import pytest
from constructed_rows import measured, measured_row, printed

from calibkit.results import VERDICTS, compare, load, summary

TS, CTS = "temperature_scaling", "class_temperature_scaling"


def verdicts(paper="mbls", **options) -> list[str]:
    return list(compare(paper, **options)["verdict"])


def of_pair(book, print_pair, our_pair, width=0.004, **columns) -> str:
    """The verdict on a method, from (baseline, method) in percent as printed, and as fractions of ours."""
    printed(book, {"value": print_pair[0]}, {"value": print_pair[1], "method": TS})
    rows = zip(our_pair, (width, width) if isinstance(width, float) else width, ("identity", TS), strict=True)
    measured(book, *[measured_row(v, w, method=m, **columns) for v, w, m in rows])
    return verdicts()[1]


# --------------------------------------------------------------------------------------------------- the value
@pytest.mark.parametrize("text", ["5.50", "5.5"])
@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.05549, "reproduced"),
        (0.0555, "reproduced"),  # 0.05 points, and no rounding of the difference spoils it
        (0.05451, "reproduced"),
        (0.05551, "not reproduced"),
        (0.05449, "not reproduced"),
    ],
)
def test_on_the_authors_logits_five_hundredths_of_a_point_are_allowed(book, text, value, verdict):
    printed(book, {"value": text})
    measured(book, measured_row(value, 0.02, source="author-logits"))
    assert verdicts() == [verdict]


@pytest.mark.parametrize(
    ("unit", "text", "good", "bad"),
    [
        ("percent", "6", 0.0649, 0.0651),  # half a point
        ("fraction", "0.06", 0.0649, 0.0651),
        ("nats", "0.2", 0.249, 0.251),
        ("nats", "0.2000", 0.20049, 0.20051),  # the last digit is finer than the tolerance
    ],
)
def test_half_a_unit_of_the_last_printed_digit_is_allowed(book, unit, text, good, bad):
    printed(book, {"value": text, "unit": unit})
    for value, verdict in ((good, "reproduced"), (bad, "not reproduced")):
        measured(book, measured_row(value, source="author-logits", unit="nats" if unit == "nats" else "fraction"))
        assert verdicts() == [verdict]


@pytest.mark.parametrize(
    ("width", "std", "off", "verdict"),
    [
        (0.003, "", 0.0042, "reproduced"),  # sqrt(2) * 0.30 = 0.424
        (0.003, "", -0.0042, "reproduced"),
        (0.003, "", 0.0043, "not reproduced"),
        (0.003, 0.004 / 1.96, 0.0070, "reproduced"),  # sqrt(2) * sqrt(0.30^2 + 0.40^2) = 0.707
        (0.003, 0.004 / 1.96, 0.0071, "not reproduced"),
    ],
)
def test_a_training_at_the_papers_budget_is_another_draw(book, width, std, off, verdict):
    printed(book, {"value": "5.50"})
    measured(book, measured_row(0.055 + off, width, std=std, n_seeds=3))
    assert verdicts() == [verdict]


def test_an_interval_counts_by_half_its_width_wherever_it_lies(book):
    """The reflected interval of an ECE need not hold its estimate in the middle."""
    printed(book, {"value": "5.50"})
    measured(book, measured_row(0.0592, low=0.052, high=0.058))
    assert verdicts() == ["reproduced"]
    measured(book, measured_row(0.0593, low=0.052, high=0.058))
    assert verdicts() == ["not reproduced"]


def test_the_reduced_budget_has_no_value(book):
    assert of_pair(book, ("5.50", "0.96"), (0.055, 0.0096), budget="reduced") == "partly"
    assert verdicts()[0] == "not run"  # a baseline alone says nothing about the printed one


# -------------------------------------------------------------------------------------------------- the effect
@pytest.mark.parametrize(
    ("print_pair", "change", "verdict"),
    [
        (("5.50", "0.96"), -0.0057, "partly"),  # far smaller, but a fall beyond chance (H = 0.566)
        (("5.50", "0.96"), -0.0056, "not reproduced"),
        (("5.50", "0.96"), +0.0300, "not reproduced"),  # beyond chance, in the other direction
        (("0.96", "5.50"), +0.0057, "partly"),
        (("0.96", "5.50"), +0.0056, "not reproduced"),
        (("5.50", "5.00"), +0.0029, "partly"),  # the other sign, but 0.79 from the printed -0.50
        (("5.50", "5.00"), +0.0031, "not reproduced"),  # 0.81 from it
        (("5.50", "5.50"), +0.0079, "partly"),  # no change printed, none beyond chance here
        (("5.50", "5.50"), -0.0081, "not reproduced"),
    ],
)
def test_an_effect_agrees_in_direction_or_in_size(book, print_pair, change, verdict):
    assert of_pair(book, print_pair, (0.07, 0.07 + change), budget="reduced") == verdict


@pytest.mark.parametrize(("change", "verdict"), [(-0.0051, "partly"), (-0.0049, "not reproduced")])
def test_the_widths_of_method_and_baseline_add_as_independent_ones(book, change, verdict):
    """sqrt(0.30^2 + 0.40^2) = 0.50."""
    pair = (0.07, 0.07 + change)
    assert of_pair(book, ("5.50", "0.96"), pair, (0.003, 0.004), budget="reduced") == verdict


def test_the_effect_is_in_units_of_ours(book):
    """Printed as fractions: -0.0050, against +0.0029 and +0.0031 of ours, as above in percent."""
    printed(book, *[{"value": v, "unit": "fraction", "method": m} for v, m in (("0.0550", "identity"), ("0.0500", TS))])
    measured(book, *[measured_row(v, method=m, budget="reduced") for v, m in ((0.07, "identity"), (0.0729, TS))])
    assert verdicts() == ["not run", "partly"]
    measured(book, measured_row(0.0731, method=TS, budget="reduced"))
    assert verdicts() == ["not run", "not reproduced"]


@pytest.mark.parametrize(
    ("our_pair", "verdict"),
    [
        ((0.0550, 0.0096), "reproduced"),
        ((0.0900, 0.0400), "partly"),  # the effect alone
        ((0.0090, 0.0092), "partly"),  # the value alone
        ((0.0550, 0.0540), "not reproduced"),
    ],
)
def test_value_and_effect_make_the_verdict(book, our_pair, verdict):
    assert of_pair(book, ("5.50", "0.96"), our_pair) == verdict


# ------------------------------------------------------------------------------------------------ the baseline
def test_baseline_of_a_method_is_the_same_network_without_it(book):
    """MbLS falls from 8 to 2 in print, from 9 to 3 here; its temperature takes it from 2 to 1 in print, to 6 here."""
    cells = [("cross_entropy", "identity"), ("mbls", "identity"), ("mbls", TS)]
    texts = zip(("8.0", "2.0", "1.0"), cells, strict=True)
    printed(book, *[{"value": text, "loss": loss, "method": m} for text, (loss, m) in texts])
    rows = zip((0.09, 0.03, 0.06), cells, strict=True)
    measured(book, *[measured_row(v, loss=loss, method=m, budget="reduced") for v, (loss, m) in rows])
    assert verdicts() == ["not run", "partly", "not reproduced"]


def test_baseline_has_the_metric_bins_and_network_of_the_cell(book):
    """Whatever else is printed and measured, TS has no baseline here: at the reduced budget there is no verdict."""
    others = [{"metric": "nll", "unit": "nats", "n_bins": ""}, {"n_bins": 25}, {"model": "resnet101"}]
    others += [{"dataset": "cifar100"}, {"method": CTS}, {"loss": "focal", "method": "identity"}]
    printed(book, {"value": "0.96", "method": TS}, *[{"value": "5.50"} | other for other in others])
    rows = [measured_row(0.055, budget="reduced", **other | {"unit": "fraction"}) for other in others]
    measured(book, measured_row(0.0096, method=TS, budget="reduced"), *rows)
    assert verdicts()[0] == "not run"


def test_baseline_is_that_of_the_table_or_else_the_first_of_another(book):
    """Ours falls from 5.5 to 3.0: from the 5.5 of table 1, not from the 2.5 of table 2; table 3 has the first."""
    rows = [{"value": "5.50"}, {"value": "2.50", "table": "2"}]
    method = {"value": "3.00", "method": TS}
    printed(book, *rows, method, method | {"table": "2"}, method | {"table": "3"})
    ours = ((0.055, "identity"), (0.030, TS))
    measured(book, *[measured_row(v, method=m, budget="reduced") for v, m in ours])
    assert verdicts(table="1") == ["not run", "partly"]
    assert verdicts(table="2") == ["not run", "not reproduced"]
    assert verdicts(table="3") == ["partly"]


# ------------------------------------------------------------------------------------- which row, and the counts
def test_followed_recipe_then_authors_logits_then_budget(book):
    printed(book, {"value": "5.50"})
    ladder = [{"budget": "reduced"}, {}, {"source": "author-logits"}, {"paper": "mbls", "budget": "reduced"}]
    ladder += [{"paper": "mbls"}, {"paper": "mbls", "source": "author-logits"}]
    for i, step in enumerate(ladder):
        measured(book, measured_row(0.01 * (i + 1), **step))
        assert compare("mbls")["ours"].item() == pytest.approx(i + 1)
    other = load("ours").assign(paper="acls")
    assert verdicts(ours=other) == ["not run"]


def test_nothing_measured_is_not_run():
    compared = compare("mbls", ours=load("ours").iloc[:0])
    assert set(compared["verdict"]) == {"not run"} and compared["ours"].isna().all()
    assert (compared["n_seeds"] == 0).all() and (compared[["budget", "source", "stand_in"]] == "").all(axis=None)


def test_ours_is_in_the_printed_unit(book):
    printed(book, {"value": "5.50"}, {"value": "0.055", "unit": "fraction", "table": "2"})
    measured(book, measured_row(0.054, n_seeds=2))
    columns = ["ours", "low", "high", "n_seeds"]
    assert compare("mbls")[columns].to_numpy().tolist() == [
        pytest.approx([5.4, 5.0, 5.8, 2]),
        pytest.approx([0.054, 0.05, 0.058, 2]),
    ]


def test_numbers_of_an_authors_log_are_not_compared(book):
    printed(book, {"value": "5.50"}, {"value": "5.40", "source": "author-log"})
    assert list(compare("mbls")["printed"]) == ["5.50"]


def test_bad_names_are_refused():
    with pytest.raises(ValueError, match="Expected `paper` to be one of neural_clamping, "):
        compare("guo")
    with pytest.raises(ValueError, match="Expected `table` to be one of I, II, III, but got '1'"):
        compare("class_temperature_scaling", "1")


def test_summary_counts_verdicts_by_table(book):
    """Every verdict in table 1, and a "partly" and a "not run" of a stand-in; table 2 is another paper's."""
    models = ("a", "b", "c", "d", "e")
    printed(
        book,
        *[{"value": "5.50", "model": m} | e for m in models for e in ({}, {"value": "1.00", "method": TS})],
        {"value": "5.50", "paper": "acls", "table": "2", "model": "a"},
    )
    pairs = {"a": (0.055, 0.010), "b": (0.090, 0.050), "c": (0.020, 0.090), "resnet20": (0.055, 0.010)}
    rows = [(pair[i], model, method) for model, pair in pairs.items() for i, method in enumerate(("identity", TS))]
    measured(book, *[measured_row(value, model=model, method=method) for value, model, method in rows])
    compared = compare("mbls", stand_in={"d": "resnet20"})
    assert dict(zip(compared["model"] + " " + compared["method"], compared["verdict"], strict=True)) == {
        "a identity": "reproduced",
        "a temperature_scaling": "reproduced",
        "b identity": "not reproduced",
        "b temperature_scaling": "partly",
        "c identity": "not reproduced",
        "c temperature_scaling": "not reproduced",
        "d identity": "not run",
        "d temperature_scaling": "partly",
        "e identity": "not run",
        "e temperature_scaling": "not run",
    }
    counts = summary(compared)
    assert list(counts.columns) == ["printed", *VERDICTS, "by stand-in"]
    assert counts.loc[("mbls", "1")].to_list() == [10, 2, 2, 3, 3, 1]
    everything = summary()
    assert list(everything.index) == [("mbls", "1"), ("acls", "2")]
    assert everything.loc[("acls", "2")].to_list() == [1, 1, 0, 0, 0, 0]
    assert everything.loc[("mbls", "1")].to_list() == [10, 2, 1, 3, 4, 0]  # the book's table has no stand-in for d
