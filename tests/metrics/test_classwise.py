import numpy as np
import pytest
import torch

from calibkit.metrics import ace, classwise_ece, tace


def naive_classwise(probs, labels, n_bins, normalize="n"):
    """A loop over classes and bins with masks; edges k / n_bins."""
    errors = []
    for k in range(probs.shape[1]):
        p, y = probs[:, k], labels == k
        index = np.clip(np.searchsorted(np.arange(1, n_bins) / n_bins, p, side="left"), 0, n_bins - 1)
        total = sum(abs(p[index == b].sum() - y[index == b].sum()) for b in range(n_bins))
        if normalize == "n":
            errors.append(total / len(p))
        elif y.any():
            errors.append(total / y.sum())
    return np.mean(errors)


def naive_mass(probs, labels, n_bins, threshold=0.0):
    """Per class: even parts of the sorted kept values; a value belongs to the first part that holds it."""
    errors = []
    for k in range(probs.shape[1]):
        kept = probs[:, k] >= threshold
        p, y = probs[kept, k], (labels[kept] == k).astype(float)
        gaps = np.zeros(n_bins)
        parts = np.array_split(np.sort(p), n_bins)
        for value, hit in zip(p, y, strict=True):
            gaps[next(b for b, part in enumerate(parts) if value in part)] += value - hit
        errors.append(np.abs(gaps).sum() / max(1, len(p)))
    return np.mean(errors)


@pytest.mark.slow
@pytest.mark.parametrize("n_bins", [1, 10, 15, 400])
def test_naive_oracles(cases, n_bins):
    for given in cases.values():
        for normalize in ("n", "class_count"):
            want = naive_classwise(*given, n_bins, normalize)
            assert classwise_ece(*given, n_bins=n_bins, normalize=normalize) == pytest.approx(want, abs=1e-12)
        assert ace(*given, n_bins=n_bins) == pytest.approx(naive_mass(*given, n_bins), abs=1e-12)
        for threshold in (0.01, 0.3, 1.0):
            want = naive_mass(*given, n_bins, threshold)
            assert tace(*given, n_bins=n_bins, threshold=threshold) == pytest.approx(want, abs=1e-12)
        assert tace(*given, n_bins=n_bins, threshold=0.0) == ace(*given, n_bins=n_bins)


def test_many_classes_and_blocks():
    """A shape that needs several row and column blocks, in both dtypes."""
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(scale=3, size=(2000, 300)))
    labels = torch.distributions.Categorical(logits=0.5 * logits).sample().numpy()
    probs = logits.softmax(1)
    for p, tolerance in ((probs, 1e-13), (probs.float(), 1e-9)):
        exact = p.double().numpy()
        assert classwise_ece(p, labels) == pytest.approx(naive_classwise(exact, labels, 15), abs=tolerance)
        parts = [np.array_split(np.argsort(exact[:, k]), 15) for k in range(300)]
        gap = exact - np.eye(300)[labels]
        want = np.mean([sum(abs(gap[part, k].sum()) for part in parts[k]) for k in range(300)]) / 2000
        assert ace(p, labels) == pytest.approx(want, abs=tolerance)


def test_class_count_weighs_rare_classes(mixed):
    """Eq. 2 of class-based temperature scaling: N / n_k times the class's share, averaged over the classes present."""
    probs, labels = mixed
    balanced = np.repeat(np.arange(6), 50)
    assert classwise_ece(probs, balanced, normalize="class_count") == pytest.approx(6 * classwise_ece(probs, balanced))


def test_tace_threshold_keeps_its_own_value():
    probs, labels = np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 1])
    assert tace(probs, labels, n_bins=1, threshold=0.5) == pytest.approx((0.25 / 2 + 0.5) / 2)
