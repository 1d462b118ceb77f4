"""The rule of the protocol page, on printed and measured numbers made up so that its parts disagree."""

import pandas as pd
import pytest
from constructed_rows import AUTHORS, differs, falls, measured_row, printed
from refusals import refused

from book.kit.results import ANSWERS, COLUMNS, answers, append, compare, load, load_effects, summary
from book.kit.results import verdicts as verdicts_module
from book.kit.results.evidence import Measured, Question
from book.papers import PAPERS, owner
from calibkit.metrics.intervals import holm
from calibkit.networks import PUBLISHED

TS, CTS = "temperature_scaling", "class_temperature_scaling"


def verdicts(paper="mbls", **options) -> list[str]:
    return list(compare(paper, **options)["verdict"])


@pytest.mark.slow
def test_on_the_authors_logits_the_tolerance_is_half_a_unit_of_the_last_digit_or_five_hundredths_of_a_point(book):
    cases = [
        ("percent", "5.50", 0.0555, 0.05551),  # and no rounding of the difference spoils it
        ("percent", "5.5", 0.05451, 0.05449),
        ("percent", "6", 0.0649, 0.0651),
        ("fraction", "0.06", 0.0649, 0.0651),
        ("nats", "0.2", 0.249, 0.251),
        ("nats", "0.2000", 0.20049, 0.20051),  # the last digit is finer than the tolerance
    ]
    for unit, text, good, bad in cases:
        printed({"value": text, "unit": unit})
        of = {"source": "published-logits", "unit": "nats" if unit == "nats" else "fraction"}
        for value, verdict in ((good, "reproduced"), (bad, "not reproduced")):
            append([measured_row(value, 0.02, **of)])
            assert verdicts() == [verdict], (unit, text, value)


def test_the_authors_optimiser_replays_what_the_optimum_does_not(book):
    """The direction stands beside it."""
    of = {"paper": "class_loss_scaling"}
    printed(of | {"value": "5.50"}, of | {"value": "0.96", "method": TS})
    differs(-0.04, **AUTHORS)
    append([measured_row(0.055, **AUTHORS), measured_row(0.02, method=TS, **AUTHORS)])
    assert verdicts(of["paper"]) == ["reproduced", "same direction"]
    append([measured_row(0.0098, method=f"{TS} solver=sctl", **AUTHORS)])
    row = compare(of["paper"]).iloc[1]
    assert (row["verdict"], row["replay"], row["direction"]) == ("reproduced", "by the authors' code", "same direction")
    assert row["ours"] == pytest.approx(2.0)  # the optimum is what is shown


@pytest.mark.slow
def test_direction_by_the_printed_metric_to_which_the_nll_may_object(book):
    cases = [
        (("5.50", "0.96"), -0.003, None, "same direction"),
        (("5.50", "0.96"), +0.003, None, "opposite direction"),
        (("5.50", "0.96"), -0.001, None, "not decided"),
        (("0.96", "5.50"), +0.003, None, "same direction"),
        (("0.96", "5.50"), -0.003, None, "opposite direction"),
        (("5.50", "0.96"), -0.001, -0.003, "not decided"),  # the NLL alone sees it
        (("5.50", "0.96"), -0.001, +0.003, "not decided"),
        (("5.50", "0.96"), -0.003, -0.003, "same direction"),
        (("5.50", "0.96"), -0.003, +0.003, "mixed"),
        (("0.96", "5.50"), -0.003, +0.003, "mixed"),
        (("5.50", "0.96"), -0.003, +0.001, "same direction"),
        (("5.50", "5.50"), -0.003, -0.003, "not run"),  # nothing is printed to agree with
        (("5.50", "5.45"), -0.003, -0.003, "not run"),  # nor is what the replay tolerates
        (("5.50", "5.44"), -0.003, -0.003, "same direction"),
    ]
    append([measured_row(0.05, method=TS, budget="reduced")])
    for pair, ece, nll, verdict in cases:
        falls(*pair)
        differs(ece)
        if nll is not None:
            differs(nll, metric="nll", unit="nats")
        assert verdicts()[1] == verdict, (pair, ece, nll)
        (book / "effects.csv").unlink()


@pytest.mark.slow
def test_the_reversed_print_has_the_reversed_verdict_for_every_number_of_the_book():
    """No verdict agrees with a printed effect and with its reverse; the book's own rows, stand-ins too."""
    swap = {"same direction": "opposite direction", "opposite direction": "same direction"}
    seen = 0
    for paper in PAPERS:
        for question, found, third in verdicts_module._asked(paper):
            row = question.row
            before = verdicts_module._answer(question, found, third)
            if not question.has_direction:
                assert before["verdict"] not in swap and not before.get("stand_in_verdict"), row
                continue
            value = row.value - 2 * question.scale * question.effect
            digits = len(row.printed.partition(".")[2])
            mirrored = row._replace(value=value, printed=f"{value:.{digits}f}")
            p_base = row.value - question.scale * question.effect
            after = verdicts_module._answer(Question(mirrored, question.base, p_base, question.network), found, third)
            for column in ("direction", "stand_in_verdict"):
                assert after.get(column) == swap.get(before.get(column), before.get(column)), row
            if before["verdict"] in (*swap, "reproduced") and before["direction"] not in ("mixed", "not decided"):
                assert after["verdict"] != before["verdict"], row
                seen += 1
    assert seen > 100


def test_holm():
    for chances, want in [([0.04], [0.04]), ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]), ([0.6, 0.9], [1, 1]), ([], [])]:
        assert holm(dict(enumerate(chances))) == pytest.approx(dict(enumerate(want)))


def test_many_tests_of_one_paper_ask_for_more(book):
    """A difference with p = 0.02 is beyond chance alone, and not among three."""
    falls()
    differs(-0.003, chance=0.02)
    append([measured_row(0.05, method=TS, budget="reduced")])
    assert verdicts()[1] == "same direction"
    more = [{"value": "0.9", "method": method} for method in ("ets", "pts")]
    printed({"value": "5.50"}, {"value": "0.96", "method": TS}, *more)
    for method in ("ets", "pts"):
        append([measured_row(0.05, method=method, budget="reduced")])
        differs(-0.003, chance=0.5, method=method)
    assert verdicts()[1:] == ["not decided"] * 3


def test_a_claim_and_what_is_no_claim_are_corrected_apart(book):
    """CTS against TS is the claim; TS against the network as it is is not."""
    rows = {"identity": "5.5", f"{TS}:ece": "1.5", CTS: "1.0"}
    printed(*[{"value": v, "method": m, "paper": "class_temperature_scaling"} for m, v in rows.items()])
    append([measured_row(0.05, method=m, budget="reduced") for m in rows])
    differs(-0.003, chance=0.03, method=f"{TS}:ece")
    differs(-0.003, chance=0.03, method=CTS, base_method=f"{TS}:ece")
    assert verdicts("class_temperature_scaling") == ["not run", "same direction", "same direction"]


def test_a_number_that_a_method_cannot_change_has_no_direction(book):
    """Nor is it "reproduced" but on the paper's logits, and then it says so."""
    printed({"value": "93.0", "metric": "accuracy"}, {"value": "94.0", "metric": "accuracy", "method": TS})
    append([measured_row(0.93, metric="accuracy", method=m, budget="reduced") for m in ("identity", TS)])
    differs(0.05, metric="accuracy")
    found = compare("mbls")
    assert list(found["kind"]) == ["network", "fixed"] and list(found["verdict"]) == ["not run"] * 2
    append([measured_row(0.94, metric="accuracy", method=m, **AUTHORS) for m in ("identity", TS)])
    assert list(compare("mbls")["verdict"]) == ["not reproduced", "reproduced"]


def test_an_accuracy_drop_is_the_difference_of_two_accuracies(book):
    """Printed as a loss of 0.4 points; here the accuracy changes by -0.45."""
    paper = {"paper": "class_temperature_scaling", "metric": "accuracy_drop", "method": CTS, "n_bins": ""}
    printed(paper | {"value": "0.40"})
    differs(-0.0045, metric="accuracy", method=CTS, **AUTHORS)
    row = compare("class_temperature_scaling").iloc[0]
    assert [row["ours"], row["low"], row["high"]] == pytest.approx([0.45, 0.25, 0.65])
    assert (row["replay"], row["direction"], row["verdict"]) == ("exact", "same direction", "reproduced")
    differs(+0.0060, metric="accuracy", method=CTS, **AUTHORS)
    assert verdicts("class_temperature_scaling") == ["opposite direction"]


def test_an_accuracy_drop_of_a_stand_in_is_shown_with_its_direction(book):
    paper = {"paper": "class_temperature_scaling", "metric": "accuracy_drop", "method": CTS, "n_bins": ""}
    printed(paper | {"value": "0.40", "model": "resnet110"})
    differs(-0.0045, metric="accuracy", method=CTS, model="resnet20")
    row = compare("class_temperature_scaling", stand_in={"resnet110": "resnet20"}).iloc[0]
    assert [row["stand_in_value"], row["stand_in_effect"]] == pytest.approx([0.45, 0.45])
    assert row["stand_in_verdict"] == "same direction"


def test_comparator_is_that_of_the_table_or_else_the_first_of_another(book):
    rows = [{"value": "5.50"}, {"value": "2.50", "table": "2"}]
    method = {"value": "3.00", "method": TS}
    printed(*rows, method, method | {"table": "2"}, method | {"table": "3"})
    effects = compare("mbls").query(f"method == '{TS}'")["printed_effect"]
    assert list(effects) == pytest.approx([-2.5, 0.5, -2.5])


def test_followed_recipe_then_authors_logits_then_budget(book):
    printed({"value": "5.50"})
    ladder = [{}, {"source": "published-logits"}, {"paper": "mbls"}, {"paper": "mbls", "source": "published-logits"}]
    rows = []
    for i, step in enumerate(ladder):
        append([measured_row(0.01 * (i + 1), **step)])
        best = Measured("mbls", load("ours"), load_effects())
        rows.append(next(iter(best.rows.values())).value)
    assert rows == pytest.approx([0.01, 0.02, 0.03, 0.04])
    other = load("ours").assign(paper="class_temperature_scaling")
    assert verdicts(ours=other) == ["not run"]
    alike = load("ours").assign(paper="acls")  # whose recipe is the same
    assert verdicts(ours=alike) == verdicts() != ["not run"]


def test_nothing_measured_is_not_run():
    compared = compare("mbls", ours=load("ours").iloc[:0], effects=load_effects().iloc[:0])
    assert set(compared["verdict"]) == {"not run"} and compared["ours"].isna().all()
    assert (compared["n_seeds"] == 0).all() and (compared[["budget", "source", "stand_in"]] == "").all(axis=None)


def test_ours_is_in_the_printed_unit(book):
    log = {"value": "5.40", "source": "author-log"}  # which is not compared
    printed({"value": "5.50"}, {"value": "0.055", "unit": "fraction", "table": "2"}, log)
    append([measured_row(0.054, **AUTHORS)])
    columns = ["ours", "low", "high", "n_seeds"]
    assert compare("mbls")[columns].to_numpy().tolist() == [
        pytest.approx([5.4, 5.0, 5.8, 1]),
        pytest.approx([0.054, 0.05, 0.058, 1]),
    ]


def test_bad_names_are_refused():
    for name, asked in (("paper", ["guo"]), ("table", ["class_temperature_scaling", "1"])):
        refused(f"`{name}` to be one of ", compare, *asked)


def test_each_number_is_counted_once(book):
    """One of each answer: by our own measurement, else by others', else by a stand-in."""
    paper = {"paper": "class_loss_scaling", "value": "1.00"}
    models = ("replay", "same", "open", "other", "public", "public2", "bins", "small")
    raised = [paper | {"model": m, "value": "5.00"} for m in models]
    printed(*raised, *[paper | {"model": m, "method": TS} for m in models])
    append([measured_row(0.01, model="replay", method=TS, **AUTHORS)])
    append([measured_row(0.02, model=m, method=TS, budget="reduced") for m in ("same", "open", "other")])
    for model, value in {"same": -0.01, "open": -0.001, "other": 0.01, "resnet20": -0.01}.items():
        differs(value, model=model)
    rows = [measured_row(v, model=m, method=TS, source="calarena") for m, v in (("public", 0.01), ("public2", 0.02))]
    rows.append(measured_row(0.01, model="bins", method=TS, source="calarena", n_bins="25"))
    third = pd.DataFrame([{name: str(row.get(name, "")) for name in COLUMNS} for row in rows])
    third.to_csv(book / "third_party.csv", index=False)
    compared = compare("class_loss_scaling", stand_in={"small": "resnet20"})
    found = answers(compared)
    assert set(found[compared["method"] == "identity"]) == {"not run"}
    assert [*found[compared["method"] == TS]] == [
        "reproduced",
        "same direction",
        "not decided",
        "opposite direction",
        "the same elsewhere",
        "another elsewhere",
        "not run",  # measured with other bins
        "same direction, by a stand-in",
    ]
    counts = summary(compared)
    assert [*counts.columns] == ["printed", *ANSWERS]
    assert (counts["printed"] == counts[[*ANSWERS]].sum(axis=1)).all()
    assert counts.loc[("class_loss_scaling", "1"), "not run"] == len(models) + 1


@pytest.mark.slow
def test_logits_of_other_authors_are_no_logits_of_the_authors():
    """Both the class-loss and the class-temperature paper print a ResNet-110 for CIFAR-10, and MbLS a ResNet-50: these
    are other networks, and what was measured on one says nothing about another's numbers.
    """
    for paper in ("class_temperature_scaling", "class_loss_scaling", "mbls"):
        found = compare(paper).query("source == 'published-logits'")
        networks = {*zip(found["dataset"], found["model"], found["loss"], strict=True)}
        assert networks <= {of for name, of in PUBLISHED.items() if owner(name) == paper}
        assert networks or paper == "mbls"
