"""Lemma 1 and Theorem 1 against generic solvers, closed forms and finite differences."""

import numpy as np
import pytest
import torch
from refusals import refused
from scipy.optimize import LinearConstraint, linprog, minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from calibkit.calibrators.neural_clamping import NeuralClamping, entropy_gradient, theorem_delta


def test_lemma_1_the_maximum_entropy_solution_is_the_softmax_at_the_nll_optimal_temperature(logits, labels):
    z, y = logits[:6], labels[:6].numpy()
    n, k = z.shape
    t = 1 / minimize_scalar(lambda b: -log_softmax(b * z, 1)[np.arange(n), y].mean(), bounds=(1e-3, 10)).x
    rows = np.kron(np.eye(n), np.ones(k))
    equalities = LinearConstraint(np.vstack([rows, z.ravel()]), *[np.append(np.ones(n), z[np.arange(n), y].sum())] * 2)
    found = minimize(
        lambda q: np.sum(q * np.log(q)), np.full(n * k, 1 / k), jac=lambda q: np.log(q) + 1, method="trust-constr",
        bounds=[(1e-12, 1)] * (n * k), constraints=equalities, options={"gtol": 1e-9, "xtol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(found.x.reshape(n, k), softmax(z / t, axis=1), atol=2e-5)


def entropy(network, images, temperature):
    with torch.no_grad():
        p = (network(images) / temperature).softmax(1)
    return -(p * p.log()).sum(1).mean().item()


def test_entropy_gradient_equals_central_differences(network, images):
    g = entropy_gradient(network, images, temperature=1.7, batch_size=17)
    assert g.shape == (1, 4, 4) and g.dtype == torch.float64
    for index in [(0, 0, 0), (0, 2, 1), (0, 3, 3)]:
        step = torch.zeros((1, 4, 4), dtype=torch.float64)
        step[index] = 1e-5
        slope = (entropy(network, images + step, 1.7) - entropy(network, images - step, 1.7)) / 2e-5
        assert g[index].item() == pytest.approx(slope, abs=1e-9)


def test_entropy_gradient_is_that_of_the_network_in_evaluation(make_network, network, images):
    """Dropout and the statistics of a batch play no part, in whatever mode the network comes."""
    training = make_network().double().train()
    training.load_state_dict(network.state_dict())
    torch.testing.assert_close(entropy_gradient(training, images), entropy_gradient(network, images), rtol=0, atol=0)


def test_theorem_1_the_entropy_rises_by_the_inner_product_to_first_order(network, images):
    g = entropy_gradient(network, images)
    delta = theorem_delta(g, images, (-2.0, 2.0))
    errors = []
    for scale in (1e-3, 1e-4):
        gain = entropy(network, images + scale * delta, 1.0) - entropy(network, images, 1.0)
        errors.append(abs(gain - scale * (delta * g).sum().item()))
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.1)  # the remainder is of second order


def test_theorem_delta_by_hand_and_by_a_linear_programme():
    x = torch.tensor([[[[0.2, 0.0, 0.5]]], [[[0.6, 0.3, 0.5]]]])  # low 0.2 0.0 0.5, high 0.6 0.3 0.5
    g = torch.tensor([[[-1.0, -2.0, 3.0]]], dtype=torch.float64)
    delta = theorem_delta(g, x, (0.0, 1.0))
    np.testing.assert_allclose(delta, [[[-0.2, 0.0, 0.5]]], atol=1e-7)
    best = linprog(-g.ravel().numpy(), bounds=[(-0.2, 0.4), (0.0, 0.7), (-0.5, 0.5)])  # alpha - low, beta - high
    assert (delta * g).sum().item() == pytest.approx(-best.fun, abs=1e-7)
    g[0, 0, 0] = 0.0
    assert theorem_delta(g, x, (0.0, 1.0))[0, 0, 0] == 0.0


def test_theorem_delta_takes_a_range_for_each_channel():
    x = torch.rand(5, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    delta = theorem_delta(torch.ones(2, 3), x, ((0.0, 0.0), (1.0, 3.0)))
    np.testing.assert_allclose(delta, torch.tensor([[1.0], [3.0]]) - x.amax(0), atol=1e-15)
    with pytest.raises(ValueError, match="Expected `input_range` to be a pair of numbers or of 2 numbers each"):
        theorem_delta(torch.ones(2, 3), x, ((0.0, 0.0, 0.0), 1.0))


def test_bad_gradients_and_options(network, images):
    for option, value in (("batch_size", 0), ("temperature", 0.0), ("temperature", -1.0)):
        refused(f"`{option}` to be ", entropy_gradient, network, images, **{option: value})
    x, g = np.array([[0.2, 0.5], [0.6, 0.5]]), np.array([-1.0, 1.0])
    np.testing.assert_allclose(theorem_delta(g, x, (0.0, 1.0)), [-0.2, 0.5], atol=1e-12)  # numpy, too
    refused(
        r"`gradient` to be of shape \(2,\), as an image, but got shape \(3,\)", theorem_delta, np.ones(3), x, (0.0, 1.0)
    )


def test_theorem_start_is_theorem_delta(network, images, labels):
    options = {"init": "theorem", "input_range": (-1.5, 1.25), "epochs": 0}
    clamping = NeuralClamping(**options).fit(network, images, labels)
    want = theorem_delta(entropy_gradient(network, images), images, (-1.5, 1.25))
    np.testing.assert_array_equal(clamping.delta, want)
