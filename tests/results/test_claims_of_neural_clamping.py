"""What the ledger says of Neural Clamping, counted again from the recorded numbers."""

from cells_and_pages import by_id

from book.kit.notebook.over_networks import select
from book.kit.results import load
from book.kit.results.paired_differences import load_effects

TS, CE = "temperature_scaling", "cross_entropy"


def test_the_networks_of_neural_clamping_in_the_ledger():
    rows = select(load_effects(), TS, method="neural_clamping", metric="ece")
    assert rows["loss"].value_counts().to_dict() == {CE: 3, "label_smoothing": 1}


def test_what_was_found_of_neural_clamping_in_the_ledger():
    found = by_id()["effect"]
    ours = load("ours").query("dataset == 'cifar100' and metric == 'ece' and source != 'published-logits'")
    at = 100 * ours.query("loss == 'cross_entropy'").set_index(["model", "method"])["value"]
    pairs = [[at[f"resnet{n}_b", f"neural_clamping:focal gamma={g}"] for g in ("1.0", "0.0")] for n in (20, 56)]
    assert " and ".join(f"{low:.1f} against {high:.1f}%" for low, high in pairs) in found["NC5"]
    starts = load_effects().query("base_method == 'neural_clamping' and metric == 'entropy'")["value"]
    assert len(starts) == 4 and f"lower on all, by {-starts.max():.2f} to {-starts.min():.2f} nats" in found["NC6"]
    methods = ("neural_clamping", "matrix_scaling", "vector_scaling", "ms_odir", "dir_odir")
    clamped, matrix, vector, odir, also = at["resnet20"][[*methods]]
    assert odir == also == at["resnet20", TS]
    said = f"the ECE is {clamped:.1f}%. That is clearly below matrix scaling with {matrix:.0f}%, and not clearly below "
    assert said + f"vector scaling with {vector:.1f}% and the two ODIR methods with {odir:.1f}%" in found["NC1e"]
