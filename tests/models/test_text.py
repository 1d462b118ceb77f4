"""Global-pooling CNN: against plain sums, padding, fixed vectors."""

import numpy as np
import pytest
import torch

from calibkit.models.gpool_cnn import GPoolCNN


def oracle(model, tokens):
    """The same in numpy, by the description: windows of 5, sums and maxima."""
    p = {name: value.double().numpy() for name, value in model.state_dict().items()}
    x = p["embedding.weight"][tokens].T  # (D, L)

    def windows(x):
        return np.stack([x[:, i : i + 5] for i in range(x.shape[1] - 4)])  # (L - 4, C, 5)

    for i in (1, 2, 3):
        x = np.einsum("lcw,ocw->ol", windows(x), p[f"conv{i}.weight"]) + p[f"conv{i}.bias"][:, None]
        x = np.maximum(x, 0)
        x = windows(x).max(2).T if i < 3 else x.max(1)
    hidden = np.maximum(p["hidden.weight"] @ x + p["hidden.bias"], 0)
    return p["linear.weight"] @ hidden + p["linear.bias"]


def test_against_plain_sums():
    for length in [21, 22, 60]:
        torch.manual_seed(0)
        model = GPoolCNN(4, n_tokens=30, dim=7).double().eval()
        tokens = torch.randint(0, 30, (3, length))
        with torch.no_grad():
            got = model(tokens).numpy()
        np.testing.assert_allclose(got, [oracle(model, row) for row in tokens.numpy()], rtol=1e-10, atol=1e-12)


def test_groups_of_texts_change_nothing():
    """In training padding is left out; the values and the gradient are those of all windows."""
    torch.manual_seed(0)
    model = GPoolCNN(4, n_tokens=30, dim=7).double()
    tokens = torch.randint(1, 30, (40, 120)) * (torch.arange(120) >= torch.randint(0, 121, (40, 1)))
    in_groups, whole = model.train()(tokens), model.eval()(tokens)
    torch.testing.assert_close(in_groups, whole)
    for one, other in zip(
        *(torch.autograd.grad(z.square().sum(), model.parameters()) for z in (in_groups, whole)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_size_by_formula():
    """V D word vectors; 5 c c' + c' a convolution; (128 + 1) 128 hidden; (128 + 1) K."""
    count = 20_000 * 100 + 5 * 100 * 128 + 128 + 2 * (5 * 128 * 128 + 128) + 129 * 128 + 129 * 20
    assert sum(p.numel() for p in GPoolCNN(20).parameters()) == count


def test_padding_has_no_vector_and_short_texts_are_padded():
    model = GPoolCNN(4, n_tokens=30, dim=7).eval()
    assert not model.embedding.weight[0].any()
    tokens = torch.randint(1, 30, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), model(torch.nn.functional.pad(tokens, (16, 0)).int()))
    model(tokens).sum().backward()
    assert not model.embedding.weight.grad[0].any()


def test_word_order_far_apart_does_not_matter():
    """The last pooling is global: a phrase counts the same wherever it stands, far from the ends."""
    torch.manual_seed(0)
    model = GPoolCNN(4, n_tokens=30, dim=7).eval()
    here, there = torch.zeros(1, 120, dtype=torch.int64), torch.zeros(1, 120, dtype=torch.int64)
    here[0, 30:36] = there[0, 77:83] = torch.tensor([3, 14, 15, 9, 26, 5])
    with torch.no_grad():
        torch.testing.assert_close(model(here), model(there))


def test_given_vectors_stay_fixed():
    vectors = np.random.default_rng(0).normal(size=(40, 6))
    given = vectors.copy()
    model = GPoolCNN(4, vectors=vectors)
    np.testing.assert_allclose(model.embedding.weight[1:].numpy(), vectors[1:], rtol=1e-6)
    assert not model.embedding.weight[0].any()
    model(torch.arange(40)[None]).sum().backward()
    assert model.embedding.weight.grad is None
    assert all(p.grad is not None for name, p in model.named_parameters() if name != "embedding.weight")
    assert np.array_equal(vectors, given)


def test_bad_input():
    for options, message in [
        ({"n_tokens": 1}, "Expected `n_tokens` to be an integer >= 2, but got 1"),
        ({"dim": 0}, "Expected `dim` to be an integer >= 1, but got 0"),
        ({"dropout": 2.0}, r"Expected `dropout` to be a number in \[0.0, 1.0\], but got 2.0"),
        ({"vectors": np.zeros(3)}, r"Expected `vectors` to be floating point of shape \(V, D\)"),
        ({"vectors": np.zeros((3, 2), int)}, r"Expected `vectors` to be floating point of shape \(V, D\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            GPoolCNN(4, **options)
