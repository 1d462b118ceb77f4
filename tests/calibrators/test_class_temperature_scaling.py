"""Class-based temperature scaling: every greedy step against a plain float64 search, gradients against known optima."""

import numpy as np
import oracles
import pytest
import torch
import torch.nn.functional as F
from data_parameters import with_logits

from calibkit import metrics
from calibkit.calibrators import ClassTemperatureScaling, TemperatureScaling
from calibkit.fitting import greedy
from calibkit.networks import load_logits
from calibkit.objectives import OBJECTIVES, ClassLossScaling, losses

#: Optima found by others on the logits that the authors of SCTL publish: see "source" in the file.
ORACLE = oracles.numbers("scaling")
#: Test ECE in percent of CTS in Table I of the paper, on the networks whose logits are published.
PRINTED = {
    "cts-cifar10-resnet50-brier": 1.33,
    "cts-cifar10-resnet110-brier": 0.67,
    "cts-cifar10-wide_resnet_26_10-brier": 0.66,
    "cts-cifar100-resnet50-brier": 1.59,
    "cts-cifar100-resnet110-brier": 2.65,
}


TENTHS = [k / 10 for k in range(1, 101)]
COARSE = [0.1, 0.3, 0.7, 1.0, 1.4, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0]


def plain_ece(z, y, temperatures, n_bins):
    """ECE and correct predictions by a softmax over all classes and a loop over the bins."""
    s = z / temperatures
    confidence, correct = s.softmax(1).max(1).values, (s.argmax(1) == y).double()
    ece, edges = 0.0, torch.arange(n_bins + 1, dtype=torch.float64) / n_bins
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        inside = (confidence > low) & (confidence <= high)
        ece += abs(float((confidence - correct)[inside].sum())) / len(z)
    return ece, int(correct.sum())


def plain_search(z, y, start, grid, n_bins, max_sweeps, constraint):
    """Algorithm 1 of the paper, word for word, with ties (within 1e-12) as documented."""
    if constraint == "running":
        return plain_scan(z, y, start, grid, n_bins, max_sweeps)
    z = z.double()
    temperatures = torch.full((z.shape[1],), start, dtype=torch.float64)
    history = [(0, -1, start, plain_ece(z, y, temperatures, n_bins)[0])]
    for sweep in range(1, max_sweeps + 1):
        steps = len(history)
        for i in range(z.shape[1]):
            present, accuracy = plain_ece(z, y, temperatures, n_bins)
            found = []
            for t in grid:
                trial = temperatures.clone()
                trial[i] = t
                ece, trial_accuracy = plain_ece(z, y, trial, n_bins)
                if trial_accuracy >= accuracy or not constraint:
                    found.append((ece, t))
            lowest = min(found)[0]
            if present > lowest + 1e-12:
                temperatures[i] = next(t for ece, t in found if ece <= lowest + 1e-12)
                history.append((sweep, i, float(temperatures[i]), lowest))
        if len(history) == steps:
            break
    return temperatures, history


def plain_scan(z, y, start, grid, n_bins, max_sweeps):
    """The loop of the authors' code: lowest ECE and accuracy so far, over all classes and candidates."""
    z = z.double()
    temperatures = torch.full((z.shape[1],), start, dtype=torch.float64)
    lowest, highest = plain_ece(z, y, temperatures, n_bins)
    history = [(0, -1, start, lowest)]
    for sweep in range(1, max_sweeps + 1):
        for i in range(z.shape[1]):
            best = temperatures.clone()
            for t in grid:
                trial = temperatures.clone()
                trial[i] = t
                ece, accuracy = plain_ece(z, y, trial, n_bins)
                if ece < lowest - 1e-12 and accuracy >= highest:
                    best, lowest, highest = trial, ece, accuracy
            if best[i] != temperatures[i]:
                temperatures = best
                history.append((sweep, i, float(best[i]), lowest))
    return temperatures, history


def random_sample(seed, n=200, k=5, kind="plain"):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(n, k, generator=g, dtype=torch.float64) * 3
    y = torch.multinomial((z / torch.linspace(1, 3, k)).softmax(1), 1, generator=g)[:, 0]
    if kind == "ties":
        z = z.round()
    elif kind == "float32":
        z = z.float()
    elif kind == "saturated":
        z = 20 * z
    elif kind == "negative":
        z = z - 30
    elif kind == "class missing":
        y = y.clamp(max=k - 2)
    return z, y


KINDS = ["plain", "ties", "float32", "saturated", "negative", "class missing"]


@pytest.fixture(params=["each sample singly", "ranges of candidates"])
def way(request, monkeypatch):
    """Both ways to the ECEs and accuracies of all candidates: that of few samples, and that of many."""
    if request.param == "ranges of candidates":
        monkeypatch.setattr(greedy, "FEW", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("seed", "kind", "constraint"),
    [(n % 2, kind, (True, "running", False)[(n + m) % 3]) for n, kind in enumerate(KINDS) for m in range(2)],
)
def test_every_step_equals_the_plain_search(seed, kind, constraint):
    z, y = random_sample(seed, k=4 + seed, kind=kind)
    known, history = plain_search(z, y, 1.5, COARSE, 15, 2, constraint)
    grid = torch.tensor(COARSE, dtype=torch.float64)
    found, steps = greedy.greedy_search(z, y, 1.5, grid, 15, 2, constraint)
    assert [step[:3] for step in steps] == [step[:3] for step in history]
    np.testing.assert_allclose([step[3] for step in steps], [step[3] for step in history], atol=1e-14)
    assert torch.equal(found, known)


def test_more_classes_than_are_read_together_and_small_chunks(monkeypatch):
    z, y = random_sample(2, n=150, k=greedy.COLUMNS + 2)
    known, history = plain_search(z, y, 1.5, COARSE[3:], 10, 1, False)
    grid = torch.tensor(COARSE[3:], dtype=torch.float64)
    monkeypatch.setattr(greedy, "ELEMENTS", 64)
    monkeypatch.setattr(greedy, "FEW", 0)
    found, steps = greedy.greedy_search(z, y, 1.5, grid, 10, 1, False)
    assert len(history) > 5
    assert torch.equal(found, known)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
def test_every_candidate_has_its_exact_ece_and_accuracy(kind):
    z, y = random_sample(3, kind=kind)
    grid = torch.tensor(TENTHS, dtype=torch.float64)
    search = greedy._Search(z, y, 1.5, 15)
    for i in range(5):
        search.free(i)
        eces, accuracy = search.candidate_eces(grid), search.accuracy(grid)
        known = [plain_ece(z.double(), y, search.temperatures.index_fill(0, torch.tensor(i), t), 15) for t in TENTHS]
        np.testing.assert_allclose(eces, [ece for ece, _ in known], atol=1e-14)
        np.testing.assert_array_equal(accuracy - accuracy[0], np.array([a for _, a in known]) - known[0][1])
        search.set(TENTHS[7 * i])  # any step, good or bad, leaves the state right


def test_accuracy_is_kept_and_ece_falls_at_every_step():
    z, y = random_sample(5, n=600, k=6)
    cts = ClassTemperatureScaling().fit(z, y)
    single = TemperatureScaling("ece").fit(z, y)
    assert (cts.history[0, :3] == [0, -1, single.temperature]).all()
    assert len(cts.history) > 2
    assert (np.diff(cts.history[:, 3]) < 0).all()
    assert cts.history[-1, 3] == pytest.approx(metrics.ece(cts(z), y), abs=1e-14)
    assert cts.history[0, 3] == pytest.approx(metrics.ece(single(z), y), abs=1e-14)
    assert metrics.accuracy(cts(z), y) >= metrics.accuracy(single(z), y)


def test_the_search_ends_when_a_round_changes_nothing():
    z, y = random_sample(7)
    one, two, many = (ClassTemperatureScaling(max_sweeps=m).fit(z, y) for m in (1, 50, 100))
    np.testing.assert_array_equal(two.history, many.history)
    assert one.history[:, 0].max() == 1
    np.testing.assert_array_equal(one.history, two.history[two.history[:, 0] <= 1])


def test_one_temperature_is_left_alone_where_nothing_can_improve():
    z, y = torch.tensor([[3.0, 0.0], [0.0, 3.0]]).repeat(50, 1), torch.tensor([0, 1]).repeat(50)
    cts = ClassTemperatureScaling().fit(z, y)
    assert len(cts.history) == 1
    assert (cts.temperatures == cts.temperatures[0]).all()


@pytest.mark.parametrize("objective", [name for name, cls in OBJECTIVES.items() if cls.smooth])
def test_gradient_vanishes_with_the_weights_frozen(objective):
    z, y = random_sample(8, n=800, k=4)
    cts = ClassTemperatureScaling(objective).fit(z, y)
    chosen = OBJECTIVES[objective]()
    x = torch.from_numpy(np.log(cts.temperatures)).requires_grad_()
    u = z * torch.exp(-x)
    target = F.one_hot(y, 4).double() * (1 - chosen.smoothing) + chosen.smoothing / 4
    ce = -(target * u.log_softmax(1)).sum(1)
    weights = chosen.weights(ce.detach(), y, 4)
    (weights / weights.sum() @ chosen.transform(ce)[0]).backward()
    assert x.grad.abs().max() < 1e-7
    assert cts.history.shape == (0, 4)


def test_float32_logits_give_the_temperatures_of_their_float64_copies():
    z, y = random_sample(9, n=500, kind="float32")
    for objective in ("nll", ClassLossScaling(), "ece"):
        found = [ClassTemperatureScaling(objective).fit(given, y).temperatures for given in (z, z.double())]
        np.testing.assert_allclose(*found, rtol=1e-8)


def test_separable_data_warn():
    z, _ = random_sample(10)
    with pytest.warns(RuntimeWarning, match="at a bound|up to the bound"):
        cts = ClassTemperatureScaling("nll").fit(z, z.argmax(1))
    assert np.isfinite(cts.temperatures).all()
    assert cts(z).isfinite().all()


@pytest.mark.parametrize("name", with_logits(sorted(ORACLE.keys() - {"source"})))
def test_known_optima(name):
    (z, y), (test_z, test_y) = load_logits(name).val, load_logits(name).test
    for objective, known in ORACLE[name]["class_temperature_scaling"].items():
        cts = ClassTemperatureScaling(objective).fit(z, y)
        np.testing.assert_allclose(cts.temperatures, known["temperatures"], rtol=1e-6)
        assert metrics.ece(cts(test_z), test_y) == pytest.approx(known["test_ece"], abs=1e-6)
        assert metrics.accuracy(cts(test_z), test_y) == known["test_accuracy"]
    fixed = ClassTemperatureScaling("class_loss_scaling").fit(z, y)
    ce = losses(torch.from_numpy(z / fixed.temperatures), torch.from_numpy(y))
    spread = ClassLossScaling().class_losses(ce, torch.from_numpy(y), 10).std()
    plain = losses(torch.from_numpy(z / ClassTemperatureScaling("nll").fit(z, y).temperatures), torch.from_numpy(y))
    assert spread < ClassLossScaling().class_losses(plain, torch.from_numpy(y), 10).std()  # what the paper is after


@pytest.mark.parametrize("name", with_logits(PRINTED))
def test_the_running_constraint_gives_the_printed_values(name):
    val, (z, y) = load_logits(name).val, load_logits(name).test
    cts = ClassTemperatureScaling(accuracy_constraint="running").fit(*val)
    assert round(100 * metrics.ece(cts(z), y), 2) == PRINTED[name]
