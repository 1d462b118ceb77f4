"""Neural Clamping against a loop written by hand, Platt scaling, a generic linear programme and finite differences."""

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from torch import nn

from calibkit.calibrators import load_calibrator
from calibkit.calibrators.neural_clamping import NeuralClamping
from calibkit.objectives import ClassBalanced, ClassLossScaling, Focal, LabelSmoothing


def focal_by_scipy(logits, labels, gamma):
    """Temperature at the minimum of the focal loss, found by scipy from the formula."""

    def loss(log_t):
        log_p = log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(labels)), labels]
        return np.mean(-((1 - np.exp(log_p)) ** gamma) * log_p)

    grid = np.linspace(-3, 5, 401)
    start = grid[np.argmin([loss(x) for x in grid])]
    return np.exp(minimize_scalar(loss, bounds=(start - 0.05, start + 0.05), options={"xatol": 1e-11}).x)


# ------------------------------------------------------------------------------------------------------ the fit
@pytest.mark.parametrize("gamma", [0.0, 0.5, 3.0])
def test_without_perturbation_it_is_focal_temperature_scaling(network, images, labels, logits, gamma):
    clamping = NeuralClamping(objective=Focal(gamma=gamma), init="zero", epochs=0).fit(network, images, labels)
    assert clamping.delta.shape == (1, 4, 4) and not clamping.delta.any()
    assert clamping.temperature == pytest.approx(focal_by_scipy(logits, labels.numpy(), gamma), abs=1e-6)
    np.testing.assert_allclose(clamping(network, images), softmax(logits / clamping.temperature, axis=1), atol=1e-14)


@pytest.mark.parametrize(("variant", "gamma"), [("paper", 0.0), ("code", 0.5), ("paper", 2.0)])
def test_equals_a_loop_written_by_hand(network, images, labels, variant, gamma):
    lr, momentum, weight, epochs, batch_size = 0.02, 0.9, 0.05, 3, 25
    clamping = NeuralClamping(
        objective=Focal(gamma=gamma), weight=weight, variant=variant, lr=lr, momentum=momentum, epochs=epochs,
        batch_size=batch_size, exact_temperature=False, seed=3,
    ).fit(network, images, labels)  # fmt: skip

    generator = torch.Generator().manual_seed(3)
    delta = 0.1 * torch.randn((1, 4, 4), generator=generator, dtype=torch.float64)
    t = torch.ones((), dtype=torch.float64)
    velocity, curve = [torch.zeros_like(delta), torch.zeros_like(t)], []
    for _ in range(epochs):
        values = []
        for rows in torch.randperm(60, generator=generator).split(batch_size):
            delta.requires_grad_(), t.requires_grad_()
            p = (network(images[rows] + delta) / t).softmax(1)[torch.arange(len(rows)), labels[rows]]
            norm = (delta**2).sum()
            value = (-((1 - p) ** gamma) * p.log()).mean() + weight * (norm if variant == "paper" else norm.sqrt())
            velocity = [momentum * v + g for v, g in zip(velocity, torch.autograd.grad(value, [delta, t]), strict=True)]
            delta, t = delta.detach() - lr * velocity[0], t.detach() - lr * velocity[1]
            values.append(value.item())
        curve.append(np.mean(values))
    np.testing.assert_allclose(clamping.delta, delta, atol=1e-12)
    assert clamping.temperature == pytest.approx(t.item(), abs=1e-12)
    np.testing.assert_allclose(clamping.loss_curve, curve, atol=1e-12)


@pytest.mark.slow
def test_on_a_linear_two_class_network_it_is_platt_scaling():
    """For f(x) = (-w.x, w.x), delta only shifts the margin: p = sigmoid(a s + b) with free a and b."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=generator, dtype=torch.float64)
    w = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    margin = 2 * x @ w
    y = (torch.rand(300, generator=generator) < torch.sigmoid(0.4 * margin + 0.7)).long()
    model = nn.Linear(3, 2, bias=False).double()
    model.weight.data = torch.stack([-w, w])
    options = {"objective": "nll", "init": "zero", "weight": 0.0, "lr": 0.05, "batch_size": 300, "epochs": 1500}
    clamping = NeuralClamping(**options).fit(model, x, y)

    def nll(ab):
        return np.mean(np.logaddexp(0, -(2 * y.numpy() - 1) * (ab[0] * margin.numpy() + ab[1])))

    a, b = minimize(nll, (1.0, 0.0), method="BFGS", options={"gtol": 1e-9}).x
    assert 1 / clamping.temperature == pytest.approx(a, abs=1e-5)
    assert 2 * clamping.delta @ w.numpy() / clamping.temperature == pytest.approx(b, abs=1e-5)
    np.testing.assert_allclose(clamping.delta, (clamping.delta @ w.numpy()) * w / (w @ w), atol=1e-12)  # along w


@pytest.mark.parametrize("objective", [ClassLossScaling(), ClassBalanced(), LabelSmoothing(0.1)], ids=str)
def test_weights_of_an_objective_sum_to_one_and_are_held_fixed(network, images, labels, logits, objective):
    """One step on all images by hand: its value at T = 1 and delta = 0, and where the gradient takes T."""
    options = {"init": "zero", "weight": 0.0, "batch_size": 60, "epochs": 1, "exact_temperature": False, "lr": 0.01}
    clamping = NeuralClamping(objective=objective, **options).fit(network, images, labels)
    t = torch.ones((), dtype=torch.float64, requires_grad=True)
    z = torch.from_numpy(logits) / t
    ce = torch.nn.functional.cross_entropy(z, labels, reduction="none", label_smoothing=objective.smoothing)
    weights = objective.weights(ce.detach(), labels, 4)
    assert (float(weights.sum()) > 2) == (objective == ClassLossScaling())  # about one a class
    loss = weights @ ce / weights.sum()
    loss.backward()
    assert clamping.loss_curve == pytest.approx([loss.item()], rel=1e-12)
    assert clamping.temperature == pytest.approx(1 - 0.01 * t.grad.item(), rel=1e-12)


def test_a_batch_whose_rows_all_have_no_weight():
    """The detached focal loss of a network that is right and sure beyond rounding: 0, with no gradient."""
    images = torch.linspace(1, 2, 8, dtype=torch.float64)[:, None] * torch.tensor([[-1.0], [1.0]]).repeat(4, 1)
    model = nn.Linear(1, 2, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1e3], [1e3]]))
    clamping = NeuralClamping(Focal(detach=True), init="zero", epochs=2, batch_size=4, exact_temperature=False)
    clamping.fit(model, images, (images[:, 0] > 0).long())
    assert clamping.temperature == 1 and not clamping.delta.any() and not clamping.loss_curve.any()


# ---------------------------------------------------------------------------------------------------- contract
FAST = {"epochs": 2, "batch_size": 16}


@pytest.mark.parametrize(
    ("mode", "init"),
    [(torch.no_grad, {"init": "random"}), (torch.inference_mode, {"init": "theorem", "input_range": (-2, 2)})],
)
def test_fit_works_without_gradients_and_is_repeated_by_its_seed(network, images, labels, mode, init):
    first = NeuralClamping(**FAST, **init, seed=5).fit(network, images, labels)
    torch.manual_seed(123)
    with mode():
        second = NeuralClamping(**FAST, **init, seed=5).fit(network, 1 * images, 1 * labels)
    assert first.temperature == second.temperature and np.array_equal(first.delta, second.delta)
    assert not np.array_equal(first.delta, NeuralClamping(**FAST, **init, seed=6).fit(network, images, labels).delta)


@pytest.mark.parametrize("init", [{"init": "random"}, {"init": "theorem", "input_range": (-2, 2)}])
def test_a_fit_under_autocast_is_the_same(make_network, images, labels, init):
    """Of a network in float32, whose layers autocast would run in half precision."""
    torch.manual_seed(0)
    network, x = make_network().eval(), images.float()
    first = NeuralClamping(**FAST, **init).fit(network, x, labels)
    with torch.autocast("cpu", torch.bfloat16):
        second = NeuralClamping(**FAST, **init).fit(network, x, labels)
        assert torch.is_autocast_enabled("cpu")
    for name, value in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name], value)


def test_numpy_and_torch_float32_and_float64(make_network, network, images, labels):
    clamping = NeuralClamping(**FAST).fit(network, images.numpy(), labels.numpy())
    same = NeuralClamping(**FAST).fit(network, images, labels)
    assert np.array_equal(clamping.delta, same.delta)
    probs = clamping(network, images.numpy())
    assert isinstance(probs, np.ndarray) and probs.dtype == np.float64 and probs.shape == (60, 4)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-12)
    assert torch.equal(clamping(network, images), torch.from_numpy(probs))
    single = make_network().eval()
    single.load_state_dict(network.state_dict())
    low = NeuralClamping(**FAST).fit(single, images.float(), labels)
    np.testing.assert_allclose(low(single, images.float()), probs, atol=1e-4)


def test_batches_of_the_forward_pass_do_not_matter(network, images, labels):
    clamping = NeuralClamping(**FAST).fit(network, images, labels)
    whole = clamping(network, images)
    clamping.batch_size = 7
    np.testing.assert_allclose(clamping(network, images), whole, atol=1e-12)


def test_save_and_load_without_pickle(network, images, labels, tmp_path):
    options = {"objective": Focal(gamma=0.5), "init": "theorem", "input_range": ((-2.0,), (2.0,))}
    clamping = NeuralClamping(**FAST, **options).fit(network, images, labels)
    copy = load_calibrator(clamping.save(tmp_path / "clamping.npz"))
    assert isinstance(copy, NeuralClamping) and copy.objective == clamping.objective
    assert torch.equal(copy(network, images), clamping(network, images))
    np.testing.assert_array_equal(copy.loss_curve, clamping.loss_curve)


def test_a_range_of_arrays_is_kept_as_floats_and_saved(network, images, labels, tmp_path):
    options = {"init": "theorem", "epochs": 0}
    known = NeuralClamping(**options, input_range=(-2.0, 2.0)).fit(network, images, labels)
    arrays = (np.array([[-2.0], [2.0]]), (np.float32(-2), np.int64(2)), torch.tensor([-2.0, 2.0]))
    for given in (*arrays, [torch.tensor([-2.0]), 2]):
        clamping = NeuralClamping(**options, input_range=given).fit(network, images, labels)
        np.testing.assert_array_equal(clamping.delta, known.delta)
        assert load_calibrator(clamping.save(tmp_path / "clamping.npz")).options() == clamping.options()


@pytest.mark.gpu
def test_cuda_equals_cpu(make_network, network, images, labels):
    here = NeuralClamping(**FAST).fit(network, images, labels)
    there = make_network().double().cuda().eval()
    there.load_state_dict(network.state_dict())
    clamping = NeuralClamping(**FAST).fit(there, images.cuda(), labels.cuda())
    np.testing.assert_allclose(clamping.delta, here.delta, atol=1e-9)
    probs = clamping(there, images.cuda())
    assert probs.device.type == "cuda" and clamping(there, images).device.type == "cpu"


def test_bad_options():
    """Each is named."""
    bad = {
        "objective": "ece", "weight": -1.0, "variant": "book", "init": "ones", "std": -0.1, "lr": 0.0, "momentum": 2.0,
        "batch_size": 0, "epochs": -1, "exact_temperature": "yes", "seed": 0.5,
    }  # fmt: skip
    for option, value in bad.items():
        refused(f"`{option}` to be ", NeuralClamping, **{option: value})


def test_bad_ranges():
    rows = (((0.0, 0.0), (1.0, -1.0)), ((0.0, 0.0), (1.0, 1.0, 1.0)))
    for given in ((1.0, -1.0), (1.0, 1.0), *rows, (0.0, float("inf")), (0.0, 1.0, 2.0), "ab", 1.0):
        refused("`input_range` to be a pair alpha < beta", NeuralClamping, input_range=given)
    refused("`input_range` to be a pair", NeuralClamping, init="theorem")


def test_bad_input(network, images, labels):
    clamping = NeuralClamping(**FAST)
    for use in (lambda: clamping(network, images), clamping.state_dict):
        with pytest.raises(RuntimeError, match="Expected `NeuralClamping` to be fitted"):
            use()
    flat = nn.Sequential(network, nn.Flatten(0))
    for model, x, y, message in (
        (images.numpy(), images, labels, "`model` to be a torch.nn.Module, but got ndarray"),
        (network, images[:0], labels[:0], r"`images` to be of shape \(N, ...\) with N >= 1"),
        (network, (255 * images).byte(), labels, "`images` to be floating point, .* but got dtype torch.uint8"),
        (network, images * float("inf"), labels, "`images` to be finite"),
        (network, images, labels + 1, r"`labels` to be in \[0, 4\), but got 4"),
        (network, images, labels[:-1], r"`labels` to be of shape \(60,\)"),
        (flat, images, labels, r"`model` to be a classifier that gives logits of shape \(N, K\)"),
    ):
        refused(message, clamping.fit, model, x, y)
    for given, name in (((images.numpy(), labels), "model"), ((network, images), "labels")):
        refused(f"`{name}` to be .*, but got ", clamping.fit, *given)
    for lr in (1e300, 1e9):  # to infinity, and to numbers without a use
        refused("`lr` to be small enough.* a loss of", NeuralClamping(lr=lr, epochs=3).fit, network, images, labels)
    clamping.fit(network, images, labels)
    refused(r"`images` to be of shape \(N, 1, 4, 4\)", clamping, network, images[:, :, :3])
    with pytest.raises(ValueError, match=r"Expected `model` to be a classifier of 4 classes as in fit\(\), but got 2"):
        clamping(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), images)
