"""Tables of a paper: the rows that were asked for, the networks that are absent, numbers with their intervals."""

import shlex

import numpy as np
import torch
from constructed_rows import differs

from book.kit import results
from book.kit.notebook import paper_tables
from calibkit.__main__ import parser
from calibkit.metrics import bootstrap
from calibkit.metrics.comparison import Comparison
from calibkit.networks import Network

PROBS = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]] * 25)
LABELS = np.array([0, 1, 1, 0] * 25)


def arguments(command: str):
    """The command as the command line of the package reads it."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:3] == ["python", "-m", "calibkit"]
    return parser().parse_args(words[3:])


def test_a_table_shows_the_chosen_rows_under_their_new_names():
    shown = paper_tables.paper_table("mbls", "2", wide="loss", names={"mbls": "ours"}, model="resnet101")
    printed = results.load("paper").query(
        "paper == 'mbls' and table == '2' and model == 'resnet101' and loss == 'mbls'"
    )
    column = shown.columns.index(("printed", "ours"))
    ran_first = printed.set_index("dataset").loc[["cifar10", "tiny_imagenet"], "printed"]
    assert [row.cells[column].text for row in (*shown.rows, *shown.folded)] == ran_first.tolist()


def test_estimates_are_the_bootstrap_intervals():
    methods = Comparison(LABELS, ["ece", "nll"])
    methods.add("a", PROBS)
    methods.add("a + TS", PROBS)
    methods.add("b", PROBS[:, ::-1])
    shown = paper_tables.estimates(methods, ["a", "b"], {"ECE": ("", "ece"), "NLL": ("", "nll")})
    low, high = bootstrap(PROBS, LABELS, ["ece"])["ece"]
    value = abs(0.25 * (0.9 - 1)) + abs(0.25 * (0.6 - 0)) + abs(0.25 * (0.8 - 1)) + abs(0.25 * (0.7 - 1))
    assert shown.loc["a", "ECE"] == f"{100 * value:.2f} [{100 * low:.2f}, {100 * high:.2f}]"
    nll = -np.log([0.9, 0.4, 0.8, 0.7]).mean()
    assert shown.loc["a", "NLL"].startswith(f"{nll:.3f} [")  # in nats, no percent
    changes = paper_tables.estimates(methods, ["a", "b"], {"ECE": ("", "ece")}, base="b")
    assert changes.index.tolist() == ["a"] and changes.loc["a", "ECE"][0] in "+-"
    assert paper_tables.estimates(methods, ["a"], {"x": (" + TS", "ece")}).loc["a", "x"] == shown.loc["a", "ECE"]
    assert paper_tables.estimates(None, [], {"ECE": ("", "ece")}).columns.tolist() == ["ECE"]


def test_the_command_trains_that_network(loss="mbls margin=8 weight=0.2"):
    network = Network("cifar10", "resnet20", loss, seed=3)
    read = arguments(paper_tables.train_command(network, "--budget paper", "--paper mbls"))
    assert Network(read.dataset, read.model, read.loss, read.seed) == network
    assert (read.budget, read.paper) == ("paper", "mbls")


def test_the_summary_of_logits_by_hand():
    z, y = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64), torch.tensor([0, 2])
    shown = paper_tables.logit_summary({"one": (z, y), "far": (1e7 * z, y)}).loc["one"]
    confidence = [np.e**3 / (np.e**3 + 2), np.e / (1 + np.e + 1 / np.e)]
    ece = (abs(confidence[0] - 1) + confidence[1]) / 2
    wanted = [50.0, 100 * np.mean(confidence), 100 * ece, 2.0, 0.5]
    assert shown.tolist() == [f"{value:.1f}" for value in wanted]
    assert set(paper_tables.logit_summary({"far": (1e7 * z, y), "none": None}).to_numpy().flat) == {"diverged"}


def test_differences_of_losses_show_test_images_and_seeds(own_results):
    """Arms of 1 point, and of 12.7 times a seed's error of 0.1 points on one degree of freedom."""
    seeds = {"seed_error": 0.001, "seed_df": 1, "n_seeds": 2}
    of = {"model": "resnet20", "method": "identity", "base_loss": "cross_entropy"}
    differs(-0.03, 0.01, loss="mbls", **of, **seeds)
    differs(-0.04, 0.01, loss="acls", **of)
    differs(-0.02, 0.01, loss="mbls", **of | {"base_method": "temperature_scaling"})
    shown = paper_tables.loss_differences("cifar10/resnet20", "cross_entropy", names={"mbls": "MbLS"})
    assert shown.T.to_dict("list") == {
        "acls": ["-4.00", "1.00", "", "1 and 1"],
        "MbLS": ["-3.00", "1.00", "1.27", "2 and 1"],
    }
    after = paper_tables.loss_differences("cifar10/resnet20", "cross_entropy | temperature_scaling")
    assert list(after["difference"]) == ["-2.00"]
    assert paper_tables.loss_differences("cifar10/resnet20", "acls").empty
